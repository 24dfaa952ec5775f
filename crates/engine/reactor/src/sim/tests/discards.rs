use super::disks::{DISK, durable, flash, with_disk};
use super::*;
use std::collections::BTreeSet;

const SECTOR: u64 = 512;

fn file(backing: Backing) -> DiskConfig {
    DiskConfig { backing, ..durable() }
}

impl Bench {
    fn discard(&mut self, file: crate::FileId, offset: u64, bytes: u64) {
        self.driver(1).discard(file, offset, bytes, Token(9));
    }

    fn content(&mut self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.world.read_disk(DISK, offset, &mut bytes);
        bytes
    }

    /// Opens the disk again, as a new process.
    fn reopen(&mut self) -> (crate::FileId, crate::FileInfo) {
        self.restart(1);
        self.driver(1).open(Path::new(DISK)).unwrap()
    }
}

/// What a page of sevens has become.
fn kind(page: &[u8]) -> &'static str {
    match page {
        page if page.iter().all(|byte| *byte == 7) => "old",
        page if page.iter().all(|byte| *byte == 0) => "zeros",
        page if page.chunks(8).collect::<BTreeSet<_>>().len() > page.len() / 16 => "noise",
        _ => "mixed",
    }
}

#[test]
fn a_discarded_page_reads_as_it_was_as_zeros_or_as_noise_until_it_is_written() {
    for config in [flash(), durable()] {
        let mut seen = BTreeMap::new();
        for seed in 0..100 {
            let (mut bench, file) = with_disk(seed, config.clone());
            bench.write(file, 0, 7, 16_384);
            bench.good();
            bench.discard(file, 4096, 8192);
            bench.good();
            assert_eq!(kind(&bench.content(0, 4096)), "old", "a neighbour");
            assert_eq!(kind(&bench.content(12_288, 4096)), "old", "a neighbour");
            for page in [4096, 8192] {
                *seen.entry(kind(&bench.content(page, 4096))).or_insert(0) += 1;
            }
            bench.write(file, 4096, 9, 4096);
            bench.good();
            assert_eq!(bench.sectors(4096, 8), [9; 8]);
            bench.flush(file);
            bench.good();
            bench.world.power_cut(1);
            assert_eq!(bench.sectors(4096, 8), [9; 8], "written again, it is defined");
        }
        assert!(seen.len() == 3 && seen.values().all(|count| *count > 30), "{seen:?}");
    }
}

#[test]
fn a_discard_under_way_may_take_a_write_that_completed_before_it_or_happen_long_before_its_end() {
    let (mut taken, mut kept, mut early) = (0, 0, 0);
    for seed in 0..300 {
        let slow = Some((Duration::from_millis(2), Duration::from_millis(2)));
        let config = DiskConfig {
            discard: slow,
            ..durable()
        };
        let (mut bench, file) = with_disk(seed, config);
        bench.write(file, 0, 7, 4096);
        bench.good();
        bench.discard(file, 0, 4096);
        bench.run(Duration::from_millis(1));
        assert!(bench.done(1).is_empty(), "it is under way");
        early += u32::from(kind(&bench.content(0, 4096)) != "old");
        bench.write(file, 0, 9, 4096);
        bench.good();
        match bench.content(0, 4096) == [9; 4096] {
            true => kept += 1,
            false => taken += 1,
        }
    }
    assert!(taken > 30 && kept > 30 && early > 30, "{taken} {kept} {early}");
}

#[test]
fn a_power_cut_may_undo_a_discard_that_no_flush_followed_and_answer_anew_for_another() {
    let mut undone = 0;
    let mut changed = 0;
    for seed in 0..300 {
        let (mut bench, file) = with_disk(seed, flash());
        bench.write(file, 0, 7, 4096);
        bench.good();
        bench.flush(file);
        bench.good();
        bench.discard(file, 0, 4096);
        bench.good();
        let before = bench.content(0, 4096);
        bench.world.power_cut(1);
        let after = bench.content(0, 4096);
        undone += u32::from(kind(&before) != "old" && kind(&after) == "old");

        let (file, _) = bench.reopen();
        bench.write(file, 0, 7, 4096);
        bench.good();
        bench.discard(file, 0, 4096);
        bench.good();
        bench.flush(file);
        bench.good();
        let before = bench.content(0, 4096);
        bench.world.power_cut(1);
        changed += u32::from(bench.content(0, 4096) != before);
    }
    assert!(undone > 20 && changed > 50, "{undone} {changed}");
}

#[test]
fn a_discard_that_a_power_cut_or_a_death_meets_has_happened_in_part_or_not() {
    for cut in [true, false] {
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let (mut bench, file) = with_disk(seed, durable());
            bench.write(file, 0, 7, 32_768);
            bench.good();
            bench.discard(file, 8192, 16_384);
            if cut {
                bench.world.power_cut(1);
                assert_eq!(bench.count("cut.discard_in_flight"), 1);
            } else {
                bench.world.kill(1);
            }
            assert_eq!(kind(&bench.content(0, 8192)), "old");
            assert_eq!(kind(&bench.content(24_576, 8192)), "old");
            let changed = (8192..24_576)
                .step_by(4096)
                .filter(|at| kind(&bench.content(*at, 4096)) != "old");
            seen.insert(changed.count());
            bench.run(Duration::from_secs(1));
            assert!(bench.done(1).is_empty(), "nobody is told");
        }
        assert!(seen.contains(&0) && seen.contains(&4) && seen.len() > 3, "{seen:?}");
    }
}

#[test]
fn a_disk_without_discards_says_so_and_a_failing_one_too() {
    let (mut bench, file) = with_disk(
        1,
        DiskConfig {
            discard: None,
            ..flash()
        },
    );
    bench.write(file, 0, 7, 4096);
    bench.good();
    bench.discard(file, 0, 4096);
    assert_eq!(bench.settle().remove(0).unwrap_err().kind(), io::ErrorKind::Unsupported);
    assert_eq!(kind(&bench.content(0, 4096)), "old");
    bench.world.kill(1);
    assert!(!bench.reopen().1.discard);

    let (mut bench, file) = with_disk(1, flash());
    bench.world.disk_faults(DISK, |faults| faults.discard_errors = 1000);
    bench.discard(file, 0, 4096);
    assert!(bench.settle()[0].is_err());
    assert_eq!(bench.count("disk.discard_error"), 1);
    for (offset, bytes) in [(512, 4096), (0, 100), (0, 0), (1 << 20, 4096), (u64::MAX - 4095, 4096)] {
        bench.discard(file, offset, bytes);
        let kind = bench.settle().remove(0).unwrap_err().kind();
        assert!(
            matches!(kind, io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof),
            "{kind}"
        );
    }
}

#[test]
fn a_file_says_that_it_has_holes_until_it_is_written_full() {
    let (mut bench, file_id) = with_disk(1, file(Backing::SparseFile));
    bench.write(file_id, 0, 1, 4096);
    bench.good();
    bench.world.kill(1);
    let (_, info) = bench.reopen();
    assert!(info.holes && info.volatile_cache && info.discard_makes_holes && info.discard);
    bench.world.kill(1);
    bench.world.write_disk(DISK, 0, &vec![0; 1 << 20]);
    let (file_id, info) = bench.reopen();
    assert!(!info.holes && !info.volatile_cache && info.discard_makes_holes);
    bench.discard(file_id, 4096, 4096);
    bench.good();
    bench.world.kill(1);
    let (_, info) = bench.reopen();
    assert!(info.holes && info.volatile_cache);

    let (mut bench, _) = with_disk(1, durable());
    bench.world.kill(1);
    let (_, info) = bench.reopen();
    assert!(!info.holes && !info.volatile_cache && !info.discard_makes_holes);
}

#[test]
fn writes_into_holes_are_lost_together_where_no_flush_followed() {
    let (mut all_lost, mut all_kept, mut some) = (0, 0, 0);
    for seed in 0..300 {
        let (mut bench, file) = with_disk(seed, file(Backing::SparseFile));
        for block in 0..8 {
            bench.write(file, block * 4096, 1, 4096);
        }
        bench.good();
        bench.world.power_cut(1);
        match bench.sectors(0, 64).iter().filter(|sector| **sector == 1).count() {
            0 => all_lost += 1,
            64 => all_kept += 1,
            _ => some += 1,
        }
        assert_eq!(
            bench.count("cut.journal_lost") == 1,
            all_lost > 0 && bench.sectors(0, 64) == [0; 64]
        );

        let (file, _) = bench.reopen();
        bench.write(file, 0, 2, 32_768);
        bench.good();
        bench.flush(file);
        bench.good();
        bench.write(file, 4096, 3, 4096);
        bench.good();
        bench.world.power_cut(1);
        let sectors = bench.sectors(0, 64);
        assert_eq!(sectors[8..16], [3; 8], "no hole any more, and no cache");
        assert!(sectors[..8] == [2; 8] && sectors[16..] == [2; 48]);
    }
    assert!(
        all_lost > 100 && some > 100 && all_kept < 100,
        "{all_lost} {some} {all_kept}"
    );
}

/// What one sector of a disk may show: all that it was since it was last certain, the newest at the end.
#[derive(Clone)]
struct Sector {
    may: Vec<u8>,
    hole: bool,
}

#[test]
fn files_show_what_was_done_to_them_and_after_a_power_cut_only_what_may_be() {
    const SECTORS: u64 = 64;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let backing = [Backing::File, Backing::SparseFile][random.below(2) as usize];
        let volatile_cache = random.below(2) == 0;
        let config = DiskConfig {
            size_bytes: SECTORS * SECTOR,
            alignment: 512,
            volatile_cache,
            ..file(backing)
        };
        let (mut bench, mut file) = with_disk(seed, config);
        let hole = backing == Backing::SparseFile;
        let mut model = vec![Sector { may: vec![0], hole }; SECTORS as usize];
        for step in 0..80 {
            let (one, other) = (random.below(SECTORS), random.below(SECTORS));
            let (from, to) = (one.min(other), one.max(other) + 1);
            let range = from as usize..to as usize;
            match random.below(10) {
                0 => {
                    bench.flush(file);
                    bench.good();
                    for sector in &mut model {
                        sector.may.drain(..sector.may.len() - 1);
                    }
                }
                1 | 2 => {
                    bench.discard(file, from * SECTOR, (to - from) * SECTOR);
                    bench.good();
                    for sector in &mut model[range] {
                        sector.may.push(0);
                        sector.hole = true;
                    }
                }
                3 if step % 3 == 0 => {
                    bench.world.power_cut(1);
                    let there = bench.sectors(0, SECTORS as usize);
                    for (at, (sector, there)) in model.iter_mut().zip(there).enumerate() {
                        assert!(
                            sector.may.contains(&there),
                            "seed {seed}, {at}: {there} of {:?}",
                            sector.may
                        );
                        sector.may = vec![there];
                    }
                    file = bench.reopen().0;
                }
                _ => {
                    let byte = 1 + step as u8;
                    bench.write(file, from * SECTOR, byte, ((to - from) * SECTOR) as usize);
                    bench.good();
                    for sector in &mut model[range] {
                        if !volatile_cache && !sector.hole {
                            sector.may.clear();
                        }
                        sector.may.push(byte);
                    }
                }
            }
            // A flush of a sector that was written last makes it none of a hole.
            for sector in model
                .iter_mut()
                .filter(|sector| sector.may.len() == 1 && sector.may[0] != 0)
            {
                sector.hole = false;
            }
            let there = bench.sectors(0, SECTORS as usize);
            let newest: Vec<u8> = model.iter().map(|sector| *sector.may.last().unwrap()).collect();
            assert_eq!(there, newest, "seed {seed}, step {step}");
        }
    }
}
