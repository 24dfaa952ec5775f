use super::files::backings;
use super::*;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

impl Bench {
    fn discard(&mut self, file: FileId, offset: u64, bytes: u64) -> io::Result<()> {
        self.driver.discard(file, offset, bytes, Token(20));
        match self.wait(20) {
            Outcome::Discarded { result } => result,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_discarded_range_of_a_file_is_a_hole_and_its_neighbours_stay() {
    for (_folder, path) in backings() {
        each_way(|config| {
            std::fs::write(&path, vec![7; 4 << 20]).unwrap();
            let mut bench = Bench::new(config);
            let (file, info) = bench.driver.open(&path).unwrap();
            let before = std::fs::metadata(&path).unwrap().blocks();
            let result = bench.discard(file, 1 << 20, 64 << 10);
            if !info.discard {
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::Unsupported);
                return;
            }
            result.unwrap();
            // Larger than what is done inline.
            bench.discard(file, 2 << 20, (1 << 20) + 4096).unwrap();
            let there = std::fs::read(&path).unwrap();
            assert_eq!(there.len(), 4 << 20);
            let (first, second) = (1 << 20..(1 << 20) + (64 << 10), 2 << 20..(3 << 20) + 4096);
            for (at, byte) in there.iter().enumerate() {
                let hole = first.contains(&at) || second.contains(&at);
                assert_eq!(*byte, if hole { 0 } else { 7 }, "at {at}");
            }
            assert!(
                std::fs::metadata(&path).unwrap().blocks() < before,
                "space was given back"
            );
            let text = pattern(8192);
            bench.write_all(file, 1 << 20, vec![Slice::copy_from(&text)]).unwrap();
            assert!(
                bench.read_all(file, 1 << 20, 8192).unwrap() == text,
                "it can be written again"
            );
        });
    }
}

#[test]
fn many_discards_complete_once_each_beside_writes() {
    for (_folder, path) in backings() {
        let mut bench = Bench::new(UringConfig::default());
        let (file, info) = bench.driver.open(&path).unwrap();
        for block in 0..200u64 {
            bench.driver.discard(file, block * 8192, 4096, Token(1000 + block));
            let data = vec![Slice::copy_from(&[block as u8; 4096])];
            bench.driver.write(file, block * 8192 + 4096, data, Token(2000 + block));
        }
        for block in 0..200u64 {
            let Outcome::Discarded { result } = bench.wait(1000 + block) else {
                panic!("discard {block}")
            };
            assert_eq!(result.is_ok(), info.discard);
            assert!(matches!(
                bench.wait(2000 + block),
                Outcome::Written { result: Ok(()), .. }
            ));
        }
        assert!(bench.run(Duration::from_millis(10)).is_empty());
        for block in 0..200u64 {
            let there = bench.read_all(file, block * 8192 + 4096, 4096).unwrap();
            assert!(there.iter().all(|byte| *byte == block as u8));
        }
    }
}

#[test]
fn what_is_no_range_is_refused() {
    for (_folder, path) in backings() {
        let mut bench = Bench::new(UringConfig::default());
        let (file, _) = bench.driver.open(&path).unwrap();
        for (offset, bytes) in [(4096, 0), (u64::MAX - 4095, 4096), (1 << 62, 1 << 62), (1 << 63, 4096)] {
            let error = bench.discard(file, offset, bytes).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::InvalidInput,
                "{bytes} at {offset}: {error}"
            );
        }
    }
}

/// A loop device over a file in memory, detached when it goes.
struct Loop {
    device: PathBuf,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Loop {
    fn attach(bytes: usize) -> Loop {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = folder.path().join("disk");
        std::fs::write(&file, vec![7; bytes]).unwrap();
        let made = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "losetup: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        Loop {
            device: PathBuf::from(String::from_utf8(made.stdout).unwrap().trim()),
            file,
            _folder: folder,
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

#[test]
#[ignore = "makes a block device: needs root and loop devices"]
fn a_block_device_is_told_what_is_not_needed() {
    let disk = Loop::attach(4 << 20);
    each_way(|config| {
        std::fs::write(&disk.file, vec![7; 4 << 20]).unwrap();
        let mut bench = Bench::new(config);
        let (file, info) = bench.driver.open(&disk.device).unwrap();
        assert!(
            info.discard && !info.discard_makes_holes && !info.holes && info.volatile_cache,
            "{info:?}"
        );
        assert_eq!(info.size_bytes, 4 << 20);
        let before = std::fs::metadata(&disk.file).unwrap().blocks();
        for block in 0..32u64 {
            bench.driver.discard(file, block * 8192, 4096, Token(100 + block));
        }
        for block in 0..32u64 {
            assert!(matches!(bench.wait(100 + block), Outcome::Discarded { result: Ok(()) }));
        }
        let after = std::fs::metadata(&disk.file).unwrap().blocks();
        assert_eq!(before - after, 32 * 4096 / 512, "the file beneath has holes");
        let there = bench.read_all(file, 4096, 4096).unwrap();
        assert!(there.iter().all(|byte| *byte == 7), "a neighbour stays");
        let behind = bench.discard(file, 4 << 20, 4096).unwrap_err();
        assert_eq!(behind.kind(), io::ErrorKind::InvalidInput, "{behind}");
        bench.discard(file, 100, 4096).unwrap_err();
    });
    // A driver that goes with discards waiting lets go of the device.
    let mut bench = Bench::new(UringConfig::default());
    let (file, _) = bench.driver.open(&disk.device).unwrap();
    for block in 0..500u64 {
        bench.driver.discard(file, block * 8192, 4096, Token(block));
    }
    drop(bench);
    Bench::new(UringConfig::default()).driver.open(&disk.device).unwrap();
}

/// An ext4 on a loop device, unmounted when it goes.
struct Mounted {
    folder: tempfile::TempDir,
    _disk: Loop,
}

impl Mounted {
    fn ext4(options: &str) -> Mounted {
        let disk = Loop::attach(64 << 20);
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("mkfs.ext4").arg("-Fq").arg(&disk.device).status().unwrap();
        assert!(made.success(), "mkfs.ext4");
        let mut mount = Command::new("mount");
        mount.args(["-o", options]).arg(&disk.device).arg(folder.path());
        assert!(mount.status().unwrap().success(), "mount");
        Mounted { folder, _disk: disk }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

#[test]
#[ignore = "mounts a file system: needs root and loop devices"]
fn a_file_system_that_writes_by_its_cache_is_not_taken_for_direct() {
    // With its data in the journal, ext4 opens for direct I/O and does none.
    for (options, direct) in [("data=ordered", true), ("data=journal", false)] {
        let disk = Mounted::ext4(options);
        let path = disk.folder.path().join("store");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let mut bench = Bench::new(UringConfig::default());
        let (file, info) = bench.driver.open(&path).unwrap();
        assert_eq!(info.alignment > 1, direct, "{options}: {info:?}");
        assert!(info.volatile_cache && info.discard, "{options}: {info:?}");
        assert!(!info.holes, "{options}: {info:?}");
        bench.discard(file, 4096, 8192).unwrap();
        assert_eq!(bench.read_all(file, 4096, 8192).unwrap(), [0; 8192]);
    }
}
