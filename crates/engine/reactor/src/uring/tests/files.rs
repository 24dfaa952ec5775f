use super::*;
use std::path::PathBuf;

/// A file of zeros in memory and one on the disk of the build.
pub(super) fn backings() -> Vec<(tempfile::TempDir, PathBuf)> {
    let folders = [
        tempfile::tempdir_in("/dev/shm"),
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")),
    ];
    let with_file = |folder: tempfile::TempDir| {
        let path = folder.path().join("store");
        std::fs::write(&path, vec![0; 4 << 20]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        (folder, path)
    };
    folders.into_iter().map(|folder| with_file(folder.unwrap())).collect()
}

fn take(bench: &Bench, bytes: &[u8]) -> BufMut {
    let mut buffer = bench.driver.pool().take(bytes.len()).unwrap();
    buffer.copy_from_slice(bytes);
    buffer
}

impl Bench {
    pub(super) fn write_all(&mut self, file: FileId, offset: u64, data: Segments) -> io::Result<()> {
        self.driver.write(file, offset, data, Token(10));
        match self.wait(10) {
            Outcome::Written { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn read_all(&mut self, file: FileId, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let buffer = self.driver.pool().take(length).unwrap();
        self.driver.read(file, offset, buffer, Token(11));
        match self.wait(11) {
            Outcome::Read { buffer, result } => result.map(|()| buffer.to_vec()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_written_is_read_back_and_is_in_the_file() {
    for (_folder, path) in backings() {
        for register_buffers in [true, false] {
            each_way(|config| {
                let mut bench = Bench::new(UringConfig {
                    register_buffers,
                    ..config
                });
                let (file, info) = bench.driver.open(&path).unwrap();
                assert_eq!(info.size_bytes, 4 << 20);
                assert_eq!(info.inline, path.starts_with("/dev/shm"));
                assert!(!info.inline || (info.alignment == 1 && !info.volatile_cache));
                let text = pattern(256 << 10);
                // One segment, many segments, and neighbours of one block.
                let mut whole = take(&bench, &text[64 << 10..]);
                let mut data: Segments = text[..64 << 10]
                    .chunks(4096)
                    .map(|part| take(&bench, part).freeze())
                    .collect();
                data.push(whole.split_to(4096));
                data.push(whole.freeze());
                bench.write_all(file, 1 << 20, data).unwrap();
                bench.driver.flush(file, Token(12));
                assert!(matches!(bench.wait(12), Outcome::Flushed { result: Ok(()) }));
                let single = take(&bench, &text[..8192]).freeze();
                bench.write_all(file, 0, vec![single]).unwrap();
                assert!(bench.read_all(file, 1 << 20, 256 << 10).unwrap() == text);
                assert!(bench.read_all(file, 0, 8192).unwrap() == text[..8192]);
                let there = std::fs::read(&path).unwrap();
                assert!(there[1 << 20..][..256 << 10] == text[..]);
            });
        }
    }
}

#[test]
fn memory_that_is_not_aligned_is_written_and_read_all_the_same() {
    for (_folder, path) in backings() {
        let mut bench = Bench::new(UringConfig::default());
        let (file, _) = bench.driver.open(&path).unwrap();
        let text = pattern(12_288);
        let mut padded = vec![9; 64];
        padded.extend(&text);
        // As a payload behind a header of 64 bytes, in two pieces that are no sectors.
        let all = take(&bench, &padded).freeze();
        let data = vec![all.slice(64..3000), all.slice(3000..)];
        bench.driver.write(file, 4096, data, Token(1));
        match bench.wait(1) {
            Outcome::Written { data, result } => {
                result.unwrap();
                assert_eq!(
                    data.iter().map(|piece| piece.len()).sum::<usize>(),
                    12_288,
                    "what was given comes back"
                );
            }
            other => panic!("{other:?}"),
        }
        let mut buffer = bench.driver.pool().take(64 + 12_288).unwrap();
        let crooked = buffer.split_off(64);
        bench.driver.read(file, 4096, crooked, Token(2));
        match bench.wait(2) {
            Outcome::Read {
                buffer: crooked,
                result,
            } => {
                result.unwrap();
                assert!(crooked[..] == text[..]);
                buffer.join(crooked).expect("the buffer that was given comes back");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn writes_go_through_a_volatile_cache_or_somebody_must_flush() {
    for (_folder, path) in backings() {
        let open = |write_through| {
            let mut bench = Bench::new(UringConfig {
                write_through,
                ..UringConfig::default()
            });
            let (file, info) = bench.driver.open(&path).unwrap();
            let opened = &bench.driver.files[file.0 as usize];
            let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", opened.file.as_raw_fd())).unwrap();
            let flags = about.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            let flags = i32::from_str_radix(flags.trim(), 8).unwrap();
            (info.volatile_cache, flags & libc::O_DSYNC != 0, opened.way)
        };
        let (volatile, by_write, _) = open(false);
        assert!(!by_write);
        let (left, by_write, way) = open(true);
        match way {
            Way::Direct { .. } => assert!(!left && by_write == volatile),
            Way::Memory | Way::Cached => assert!(left == volatile && !by_write),
        }
    }
}

/// More than go to the device together, so that some are handed over while the pass goes on.
#[test]
fn many_reads_and_writes_of_one_pass_end_once_each() {
    const MANY: u64 = 50;
    for (_folder, path) in backings() {
        for device_batch in [0, 1, 8] {
            each_way(|config| {
                let mut bench = Bench::new(UringConfig { device_batch, ..config });
                let (file, _) = bench.driver.open(&path).unwrap();
                let text = pattern(MANY as usize * 4096);
                for (token, part) in text.chunks(4096).enumerate() {
                    let data = vec![take(&bench, part).freeze()];
                    bench
                        .driver
                        .write(file, token as u64 * 8192, data, Token(100 + token as u64));
                }
                for token in 0..MANY {
                    assert!(matches!(
                        bench.wait(100 + token),
                        Outcome::Written { result: Ok(()), .. }
                    ));
                }
                for token in 0..MANY {
                    let buffer = bench.driver.pool().take(4096).unwrap();
                    bench.driver.read(file, token * 8192, buffer, Token(200 + token));
                }
                for (token, part) in text.chunks(4096).enumerate() {
                    match bench.wait(200 + token as u64) {
                        Outcome::Read { buffer, result: Ok(()) } => assert!(buffer[..] == *part),
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    }
}

#[test]
fn a_read_beyond_the_end_is_an_unexpected_end() {
    for (_folder, path) in backings() {
        let mut bench = Bench::new(UringConfig::default());
        let (file, _) = bench.driver.open(&path).unwrap();
        for offset in [(4 << 20) - 4096, 4 << 20, 1 << 40] {
            let error = bench.read_all(file, offset, 8192).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "at {offset}: {error}");
        }
    }
}

#[test]
fn a_large_write_to_memory_goes_by_the_ring() {
    let (_folder, path) = backings().remove(0);
    let mut bench = Bench::new(UringConfig::default());
    let (file, _) = bench.driver.open(&path).unwrap();
    let text = pattern(UringConfig::default().inline_bytes + 8192);
    let data = text.chunks(128 << 10).map(Slice::copy_from).collect();
    bench.write_all(file, 4096, data).unwrap();
    let heap = Pool::heap().take(text.len()).unwrap();
    bench.driver.read(file, 4096, heap, Token(11));
    match bench.wait(11) {
        Outcome::Read { buffer, result } => assert!(result.is_ok() && buffer[..] == text[..]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_operations_at_once_each_complete_once() {
    for (_folder, path) in backings() {
        each_way(|config| {
            let mut bench = Bench::new(config);
            let (file, _) = bench.driver.open(&path).unwrap();
            for block in 0..700u64 {
                let data = vec![take(&bench, &[block as u8; 4096]).freeze()];
                bench.driver.write(file, block * 4096, data, Token(100 + block));
            }
            for block in 0..700u64 {
                assert!(matches!(
                    bench.wait(100 + block),
                    Outcome::Written { result: Ok(()), .. }
                ));
            }
            for block in 0..700u64 {
                let buffer = bench.driver.pool().take(4096).unwrap();
                bench.driver.read(file, block * 4096, buffer, Token(block));
            }
            for block in 0..700u64 {
                let Outcome::Read { buffer, result: Ok(()) } = bench.wait(block) else {
                    panic!("read {block}")
                };
                assert!(buffer.iter().all(|byte| *byte == block as u8));
            }
            assert!(bench.run(Duration::from_millis(10)).is_empty());
        });
    }
}

#[test]
fn a_store_in_use_is_refused_with_its_path_until_its_driver_is_gone() {
    for (_folder, path) in backings() {
        let mut first = Bench::new(UringConfig::default());
        first.driver.open(&path).unwrap();
        let mut second = Bench::new(UringConfig::default());
        let error = second.driver.open(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert_eq!(
            first.driver.open(&path).unwrap_err().kind(),
            io::ErrorKind::ResourceBusy
        );
        drop(first);
        second.driver.open(&path).unwrap();
    }
}

#[test]
fn what_cannot_be_a_store_is_refused_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(UringConfig::default());
    let missing = folder.path().join("missing");
    for (path, kind) in [
        (missing.as_path(), io::ErrorKind::NotFound),
        (folder.path(), io::ErrorKind::InvalidInput),
    ] {
        let error = bench.driver.open(path).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    assert_eq!(
        bench.driver.open(Path::new("/dev/null")).unwrap_err().kind(),
        io::ErrorKind::InvalidInput
    );
}
