use super::{DiskFaults, FaultyDisk};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// A disk in front of a file of 1 MiB; `None` where this process may not mount.
fn disk() -> Option<(tempfile::TempDir, FaultyDisk)> {
    let folder = tempfile::tempdir().expect("a folder");
    let beneath = folder.path().join("beneath");
    File::create(&beneath)
        .and_then(|file| file.set_len(1 << 20))
        .expect("a file");
    match FaultyDisk::open(&beneath, folder.path()) {
        Ok(disk) => Some((folder, disk)),
        Err(error) => {
            eprintln!("no disk that fails on command here: {error}");
            None
        }
    }
}

fn open(disk: &FaultyDisk) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(disk.path())
        .expect("it opens")
}

#[test]
fn without_faults_it_is_a_file() {
    let Some((folder, disk)) = disk() else { return };
    let file = open(&disk);
    assert_eq!(file.metadata().expect("asked").len(), 1 << 20);
    file.write_all_at(&[7; 300_000], 4096).expect("written");
    file.sync_all().expect("flushed");
    let mut read = vec![0; 300_000];
    file.read_exact_at(&mut read, 4096).expect("read");
    assert!(read.iter().all(|&byte| byte == 7));
    let beneath = std::fs::read(folder.path().join("beneath")).expect("read");
    assert_eq!((beneath[4095], beneath[4096]), (0, 7));
    // Nothing is mounted any more.
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("read");
    assert!(!mounts.contains(&folder.path().display().to_string()), "{mounts}");
}

#[test]
fn it_fails_as_it_is_told_and_only_so_long() {
    let Some((_folder, disk)) = disk() else { return };
    let file = open(&disk);
    let mut block = [0; 4096];
    let code = |result: io::Result<()>| result.map_err(|error| error.raw_os_error());
    let io_error = Err(Some(rustix::io::Errno::IO.raw_os_error()));
    disk.set(DiskFaults::lost());
    assert_eq!(code(file.read_exact_at(&mut block, 0)), io_error);
    assert_eq!(code(file.write_all_at(&block, 0)), io_error);
    assert_eq!(code(file.sync_data()), io_error);
    disk.set(DiskFaults {
        full: true,
        ..DiskFaults::default()
    });
    let full = Err(Some(rustix::io::Errno::NOSPC.raw_os_error()));
    assert_eq!(code(file.write_all_at(&block, 0)), full);
    file.read_exact_at(&mut block, 0).expect("a full disk is read");
    disk.set(DiskFaults::default());
    file.write_all_at(&block, 0).expect("written");
    assert_eq!(disk.counts().failed, 4);
}

#[test]
fn it_takes_its_time_and_stalls() {
    let Some((_folder, disk)) = disk() else { return };
    let file = open(&disk);
    disk.set(DiskFaults {
        delay: Duration::from_millis(30),
        ..DiskFaults::default()
    });
    let started = Instant::now();
    file.write_all_at(&[1; 4096], 0).expect("written");
    assert!(started.elapsed() >= Duration::from_millis(30));
    disk.set(DiskFaults {
        stalled: true,
        ..DiskFaults::default()
    });
    let writer = std::thread::spawn(move || file.write_all_at(&[2; 4096], 0));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!writer.is_finished());
    disk.set(DiskFaults::default());
    writer.join().expect("it ended").expect("written");
    assert_eq!(disk.counts().delayed, 2);
}

#[test]
fn a_bad_sector_is_bad_and_no_other() {
    let Some((_folder, disk)) = disk() else { return };
    let file = open(&disk);
    let mut block = [0; 4096];
    disk.set(DiskFaults {
        bad_sector: Some(8192),
        ..DiskFaults::default()
    });
    for (place, is_well) in [(0, true), (4096, true), (8192, false), (12288, true)] {
        assert_eq!(file.write_all_at(&block, place).is_ok(), is_well, "write at {place}");
        assert_eq!(
            file.read_exact_at(&mut block, place).is_ok(),
            is_well,
            "read at {place}"
        );
    }
    disk.set(DiskFaults::default());
    file.write_all_at(&block, 8192).expect("it is well again");
}
