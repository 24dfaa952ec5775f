use super::*;
use std::ops::Range;

pub(super) const DISK: &str = "disk";

/// One node with an open disk.
pub(super) fn with_disk(seed: u64, config: DiskConfig) -> (Bench, crate::FileId) {
    let mut bench = Bench::new(seed, 1);
    bench.world.create_disk(DISK, config);
    let (file, _) = bench.driver(1).open(Path::new(DISK)).unwrap();
    bench.run(Duration::from_millis(1));
    bench.done(1);
    (bench, file)
}

pub(super) fn flash() -> DiskConfig {
    DiskConfig::flash(1 << 20)
}

pub(super) fn durable() -> DiskConfig {
    DiskConfig {
        volatile_cache: false,
        ..flash()
    }
}

impl Bench {
    pub(super) fn write(&mut self, file: crate::FileId, offset: u64, byte: u8, length: usize) {
        self.driver(1)
            .write(file, offset, vec![Slice::copy_from(&vec![byte; length])], Token(5));
    }

    /// Waits for what is under way on the disk of node 1; how each operation ended.
    pub(super) fn settle(&mut self) -> Vec<io::Result<()>> {
        self.run(Duration::from_secs(1));
        let results = self.done(1).into_iter().map(|done| match done.outcome {
            Outcome::Read { result, .. }
            | Outcome::Written { result, .. }
            | Outcome::Flushed { result }
            | Outcome::Discarded { result } => result,
            other => panic!("{other:?}"),
        });
        results.collect()
    }

    pub(super) fn good(&mut self) {
        assert!(self.settle().iter().all(Result::is_ok));
    }

    pub(super) fn flush(&mut self, file: crate::FileId) {
        self.driver(1).flush(file, Token(6));
    }

    pub(super) fn sectors(&mut self, offset: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count * 512];
        self.world.read_disk(DISK, offset, &mut bytes);
        bytes
            .chunks(512)
            .map(|sector| {
                assert!(
                    sector.iter().all(|byte| *byte == sector[0]),
                    "a sector is never torn inside"
                );
                sector[0]
            })
            .collect()
    }
}

#[test]
fn reads_show_completed_writes_durable_or_not() {
    for config in [flash(), durable()] {
        let (mut bench, file) = with_disk(1, config);
        bench.write(file, 8192, 7, 8192);
        bench.good();
        bench.write(file, 12_288, 9, 4096);
        bench.good();
        let buffer = Pool::heap().take(16_384).unwrap();
        bench.driver(1).read(file, 4096, buffer, Token(1));
        bench.run(Duration::from_millis(50));
        match bench.done(1).pop().unwrap().outcome {
            Outcome::Read { buffer, result: Ok(()) } => {
                let bytes: Vec<u8> = buffer.chunks(4096).map(|page| page[0]).collect();
                assert_eq!(bytes, [0, 7, 9, 0]);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_flushed_write_survives_a_power_cut_and_so_does_a_completed_one_without_a_cache() {
    for seed in 0..200 {
        let (mut bench, file) = with_disk(seed, flash());
        bench.write(file, 0, 1, 8192);
        bench.good();
        bench.flush(file);
        bench.good();
        bench.world.power_cut(1);
        assert_eq!(bench.sectors(0, 16), [1; 16]);

        let (mut bench, file) = with_disk(seed, durable());
        bench.write(file, 0, 1, 8192);
        bench.good();
        bench.world.power_cut(1);
        assert_eq!(bench.sectors(0, 16), [1; 16]);
    }
}

#[test]
fn an_unflushed_write_may_be_kept_lost_or_torn_and_nothing_else() {
    let mut seen = BTreeMap::new();
    for seed in 0..300 {
        let (mut bench, file) = with_disk(seed, flash());
        bench.write(file, 0, 1, 4096);
        bench.good();
        bench.flush(file);
        bench.good();
        bench.write(file, 0, 2, 4096);
        bench.good();
        bench.world.power_cut(1);
        let sectors = bench.sectors(0, 8);
        assert!(sectors.iter().all(|sector| [1, 2].contains(sector)));
        let new = sectors.iter().filter(|sector| **sector == 2).count();
        *seen
            .entry(match new {
                0 => "lost",
                8 => "kept",
                _ => "torn",
            })
            .or_insert(0) += 1;
    }
    assert!(seen.len() == 3 && seen.values().all(|count| *count > 30), "{seen:?}");
}

#[test]
fn of_writes_in_the_cache_any_subset_may_remain_and_a_sector_shows_one_of_them() {
    let mut later_without_earlier = 0;
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let (mut bench, file) = with_disk(seed, flash());
        for byte in 1..=3 {
            bench.write(file, 0, byte, 4096);
            bench.good();
        }
        bench.write(file, 4096, 9, 4096);
        bench.good();
        bench.world.power_cut(1);
        let sectors = bench.sectors(0, 16);
        assert!(sectors[..8].iter().all(|sector| *sector <= 3));
        seen.insert(sectors[0]);
        later_without_earlier += u32::from(sectors[..8] == [0; 8] && sectors[8..] == [9; 8]);
    }
    assert_eq!(seen.len(), 4, "each version is seen: {seen:?}");
    assert!(later_without_earlier > 0, "order is no promise");
}

#[test]
fn a_write_under_way_at_a_power_cut_is_kept_lost_or_torn() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (mut bench, file) = with_disk(seed, durable());
        bench.write(file, 0, 1, 4096);
        bench.world.power_cut(1);
        assert_eq!(bench.count("cut.write_in_flight"), 1);
        seen.insert(bench.sectors(0, 8).iter().filter(|sector| **sector == 1).count());
        bench.run(Duration::from_secs(1));
        assert!(bench.done(1).is_empty(), "nobody is told");
    }
    assert!(seen.contains(&0) && seen.contains(&8) && seen.len() > 3, "{seen:?}");
}

#[test]
fn the_death_of_a_process_keeps_completed_writes_and_tears_those_under_way_only_between_pages() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (mut bench, file) = with_disk(seed, flash());
        bench.write(file, 65_536, 5, 4096);
        bench.good();
        bench.write(file, 0, 1, 16_384);
        bench.world.kill(1);
        assert_eq!(bench.sectors(65_536, 8), [5; 8], "completed, though not flushed");
        let sectors = bench.sectors(0, 32);
        let kept = sectors.iter().take_while(|sector| **sector == 1).count();
        assert!(kept % 8 == 0 && sectors[kept..].iter().all(|sector| *sector == 0));
        seen.insert(kept);
    }
    assert!(seen.contains(&0) && seen.contains(&32) && seen.len() > 3, "{seen:?}");
}

#[test]
fn a_flush_covers_only_what_had_completed_when_it_started() {
    let mut lost = 0;
    for seed in 0..300 {
        let (mut bench, file) = with_disk(seed, flash());
        bench.flush(file);
        bench.write(file, 0, 1, 4096);
        bench.good();
        bench.world.power_cut(1);
        lost += u32::from(bench.sectors(0, 8) != [1; 8]);
    }
    assert!(lost > 50, "the flush was older: {lost}");
}

#[test]
fn a_failed_flush_loses_writes_for_good_and_a_later_good_one_does_not_bring_them_back() {
    let mut lost = 0;
    for seed in 0..100 {
        let (mut bench, file) = with_disk(seed, flash());
        bench.write(file, 0, 1, 4096);
        bench.good();
        bench.world.disk_faults(DISK, |faults| faults.flush_errors = 1000);
        bench.flush(file);
        assert!(bench.settle()[0].is_err());
        bench.world.disk_faults(DISK, |faults| faults.flush_errors = 0);
        bench.flush(file);
        bench.good();
        lost += u32::from(bench.sectors(0, 8) == [0; 8]);
    }
    assert!((20..80).contains(&lost), "{lost} of 100");
}

#[test]
fn completions_are_reordered_and_a_slow_disk_is_slower() {
    let (mut bench, file) = with_disk(3, flash());
    for block in 0..50u64 {
        bench
            .driver(1)
            .write(file, block * 4096, vec![Slice::copy_from(&[1; 4096])], Token(block));
    }
    bench.run(Duration::from_millis(100));
    let order: Vec<u64> = bench.done(1).iter().map(|done| done.token.0).collect();
    assert_eq!(order.len(), 50);
    assert!(!order.is_sorted());
    assert!(bench.count("disk.reordered") > 0);
    bench.world.disk_faults(DISK, |faults| faults.slow_factor = 100);
    bench.write(file, 0, 1, 4096);
    bench.run(Duration::from_micros(900));
    assert!(bench.done(1).is_empty());
    bench.good();
}

#[test]
fn a_stalled_disk_completes_everything_after_the_stall() {
    let (mut bench, file) = with_disk(4, flash());
    bench.world.stall_disk(DISK, Duration::from_millis(300));
    for block in 0..10 {
        bench.write(file, block * 4096, 1, 4096);
    }
    bench.run(Duration::from_millis(299));
    assert!(bench.done(1).is_empty());
    assert_eq!(bench.settle().len(), 10);
}

#[test]
fn errors_are_told_and_of_a_failed_write_anything_may_be_there() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let (mut bench, file) = with_disk(seed, durable());
        bench
            .world
            .disk_faults(DISK, |faults| (faults.write_errors, faults.read_errors) = (1000, 1000));
        bench.write(file, 0, 1, 4096);
        assert!(bench.settle()[0].is_err());
        seen.insert(bench.sectors(0, 8).iter().filter(|sector| **sector == 1).count());
        let buffer = Pool::heap().take(4096).unwrap();
        bench.driver(1).read(file, 0, buffer, Token(1));
        assert!(bench.settle()[0].is_err());
    }
    assert!(seen.contains(&0) && seen.contains(&8) && seen.len() > 3);
}

#[test]
fn rotten_places_fail_until_they_are_written_and_bits_flip() {
    let (mut bench, file) = with_disk(5, flash());
    bench
        .world
        .disk_faults(DISK, |faults| faults.unreadable.push(5000..5001));
    let read = |bench: &mut Bench, offset: u64| {
        let buffer = Pool::heap().take(4096).unwrap();
        bench.driver(1).read(file, offset, buffer, Token(1));
        bench.settle().remove(0)
    };
    assert!(read(&mut bench, 0).is_ok() && read(&mut bench, 4096).is_err());
    bench.write(file, 4096, 1, 4096);
    bench.good();
    assert!(read(&mut bench, 4096).is_ok());
    bench.world.flip_bit(DISK, 4100, 3);
    let mut byte = [0];
    bench.world.read_disk(DISK, 4100, &mut byte);
    assert_eq!(byte, [1 ^ 8]);
}

#[test]
fn lying_disks_claim_success() {
    let (mut bench, file) = with_disk(6, durable());
    bench.world.disk_faults(DISK, |faults| faults.lost = 1000);
    bench.write(file, 0, 1, 4096);
    bench.good();
    let mut all = vec![0; 1 << 20];
    bench.world.read_disk(DISK, 0, &mut all);
    assert!(all.iter().all(|byte| *byte == 0));
    bench
        .world
        .disk_faults(DISK, |faults| (faults.lost, faults.misdirected) = (0, 1000));
    bench.write(file, 0, 1, 4096);
    bench.good();
    bench.world.read_disk(DISK, 0, &mut all);
    assert_eq!(all.iter().filter(|byte| **byte == 1).count(), 4096);
    assert!(all[..4096].iter().all(|byte| *byte == 0), "elsewhere");
    assert_eq!(
        (bench.count("disk.lost_write"), bench.count("disk.misdirected_write")),
        (1, 1)
    );
}

#[test]
fn a_write_without_space_or_that_ends_short_leaves_a_first_part() {
    for (fault, told) in [
        ("disk.no_space", io::ErrorKind::StorageFull),
        ("disk.short_write", io::ErrorKind::WriteZero),
    ] {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let (mut bench, file) = with_disk(seed, durable());
            bench.world.disk_faults(DISK, |faults| match fault {
                "disk.no_space" => faults.no_space = 1000,
                _ => faults.short_writes = 1000,
            });
            bench.write(file, 0, 1, 8192);
            assert_eq!(bench.settle().remove(0).unwrap_err().kind(), told);
            assert_eq!(bench.count(fault), 1);
            let sectors = bench.sectors(0, 16);
            let first = sectors.iter().take_while(|sector| **sector == 1).count();
            assert!(sectors[first..].iter().all(|sector| *sector == 0), "{sectors:?}");
            seen.insert(first);
        }
        assert!(seen.contains(&0) && !seen.contains(&16) && seen.len() > 8, "{seen:?}");
    }
}

#[test]
fn rot_is_found_by_a_read_stays_and_is_healed_by_a_write() {
    for config in [flash(), durable()] {
        let (mut bench, file) = with_disk(9, config);
        bench.write(file, 0, 7, 16_384);
        bench.good();
        let flipped = |bench: &mut Bench, range: Range<u64>| {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            bench.world.read_disk(DISK, range.start, &mut bytes);
            bytes.iter().map(|byte| (byte ^ 7).count_ones()).sum::<u32>()
        };
        let read = |bench: &mut Bench, offset: u64, bytes: usize| {
            let buffer = Pool::heap().take(bytes).unwrap();
            bench.driver(1).read(file, offset, buffer, Token(1));
            bench.run(Duration::from_millis(50));
            match bench.done(1).pop().unwrap().outcome {
                Outcome::Read { buffer, result: Ok(()) } => buffer.to_vec(),
                other => panic!("{other:?}"),
            }
        };
        bench
            .world
            .disk_faults(DISK, |faults| faults.rotten.extend([5000..5001, 8192..8200]));
        bench.write(file, 8192, 7, 4096);
        bench.good();
        assert_eq!(read(&mut bench, 0, 4096), [7; 4096]);
        assert_eq!(read(&mut bench, 8192, 4096), [7; 4096], "healed");
        let rotten = read(&mut bench, 0, 16_384);
        assert_eq!((rotten[5000] ^ 7).count_ones(), 1, "the reader is the first to see it");
        assert_eq!(flipped(&mut bench, 0..16_384), 1, "and it stays");
        assert_eq!(read(&mut bench, 0, 16_384), rotten, "once");

        bench.world.disk_faults(DISK, |faults| faults.bit_rot = 1000);
        read(&mut bench, 12_288, 4096);
        bench.world.disk_faults(DISK, |faults| faults.bit_rot = 0);
        assert_eq!(flipped(&mut bench, 12_288..16_384), 1);
        assert_eq!(bench.count("disk.bit_flipped"), 2);
    }
}

#[test]
fn crooked_or_distant_operations_are_refused() {
    let (mut bench, file) = with_disk(7, flash());
    let mut write = |offset: u64, length: usize| {
        bench.write(file, offset, 1, length);
        bench.settle().remove(0).map_err(|error| error.kind())
    };
    assert_eq!(write(512, 4096), Err(io::ErrorKind::InvalidInput));
    assert_eq!(write(0, 100), Err(io::ErrorKind::InvalidInput));
    assert_eq!(write(1 << 20, 4096), Err(io::ErrorKind::UnexpectedEof));
    assert_eq!(write((1 << 20) - 4096, 4096), Ok(()));
}

#[test]
fn a_disk_is_opened_by_one_process_at_a_time_and_survives_it() {
    let mut bench = Bench::new(8, 2);
    bench.world.create_disk(DISK, flash());
    bench.world.write_disk(DISK, 100, b"formatted");
    let (_, info) = bench.driver(1).open(Path::new(DISK)).unwrap();
    assert_eq!(
        (info.size_bytes, info.alignment, info.volatile_cache),
        (1 << 20, 4096, true)
    );
    assert_eq!(
        bench.driver(2).open(Path::new(DISK)).unwrap_err().kind(),
        io::ErrorKind::ResourceBusy
    );
    assert_eq!(
        bench.driver(2).open(Path::new("other")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    bench.world.kill(1);
    assert_eq!(
        bench.driver(1).open(Path::new(DISK)).unwrap_err().kind(),
        io::ErrorKind::BrokenPipe,
        "it is dead"
    );
    bench.driver(2).open(Path::new(DISK)).unwrap();
    let mut bytes = [0; 9];
    bench.world.read_disk(DISK, 100, &mut bytes);
    assert_eq!(&bytes, b"formatted");
}
