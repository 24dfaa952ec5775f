//! The device answers with an error: each write and each flush of a run fails, once in each way that there is, and each
//! page cannot be read. An outcome that is not known poisons the store until it is mounted again; then it holds
//! everything that was acknowledged. A block that cannot be read is refused, and everything else is served on.

use crate::common::check::passes_check;
use crate::common::faults::{Fault, FaultyRun, Kind, Served, Target, inspect, kind};
use crate::common::image::Image;
use crate::common::owner::{BLOCKS, CHUNKS};
use crate::common::probe::{Probe, holds};
use crate::common::{BLOCK, Disk, Host, Outcome, Requester, Rig, Rng};
use amita_reactor::{Pool, Slice};
use amita_store::{Config, MountError, State};
use amita_types::message::{AnswerBody, ChangesRequest, OpenRequest, ReadRequest, Refusal, RequestBody};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, Version};
use std::collections::BTreeMap;
use std::time::Duration;

const ERRORS: [Outcome; 4] = [
    Outcome::Error(libc::EIO),
    Outcome::Error(libc::ENOSPC),
    Outcome::Short(libc::EIO),
    Outcome::Short(libc::ENOSPC),
];

/// Long enough for two checkpoints.
const ACTS: usize = 50;
const AT_ONCE: usize = 3;

fn words(outcome: Outcome) -> String {
    outcome.result().expect_err("it is an error").to_string()
}

/// Everything is refused, nothing more goes to the device, and nothing more is acknowledged.
fn is_poisoned(run: &mut FaultyRun, outcome: Outcome) {
    let State::Poisoned(why) = run.rig.store.state() else {
        panic!("after {outcome:?} the store is {:?}", run.rig.store.state());
    };
    assert!(why.contains(&words(outcome)), "it says what the device said: {why}");
    let hit = run.hit.expect("it was hit");
    assert_eq!(run.acknowledged(), hit.acknowledged, "nothing is acknowledged any more");
    assert!(run.rig.flights.is_empty());
    let mut asker = run.owner.asker.clone();
    let chunk = ChunkIndex(0);
    let bodies = [
        RequestBody::Read(ReadRequest {
            chunk,
            range: BlockRange::new(0, 1),
            least: Version::NONE,
            versions: false,
            newest: None,
        }),
        RequestBody::Open(OpenRequest { chunk }),
        RequestBody::RenewLease,
        RequestBody::Changes(ChangesRequest {
            chunk,
            since: Version::NONE,
            from: BlockIndex(0),
        }),
    ];
    for body in bodies {
        let request = asker.request(body);
        let told = run.ask(asker.link, request, Slice::default());
        assert_eq!(told.answer.result, Err(Refusal::Poisoned));
        assert_eq!(
            (told.answer.lease_ms, told.answer.credit_blocks),
            (0, 0),
            "no lease is granted"
        );
    }
    assert_eq!(asker.fence(run), Err(Refusal::Poisoned));
    run.rig.advance(std::time::Duration::from_secs(10));
    run.end_pass();
    assert!(run.rig.flights.is_empty(), "a poisoned store leaves the device alone");
}

/// Mounted again, it holds what was acknowledged, and perhaps what was under way.
fn is_whole_after_a_mount(run: &mut FaultyRun) {
    let held = run.held();
    let mut rng = Rng(run.writes as u64);
    let volatile = run.rig.disk.volatile;
    let killed = run.rig.disk.view.clone();
    for bytes in [killed, run.rig.cut(&mut rng), run.rig.cut(&mut rng)] {
        let mut probe = Probe::mount(Image::new(&bytes), volatile);
        holds(&mut probe, &held, BLOCKS, CHUNKS + 1);
        passes_check(&bytes);
    }
}

fn fails_everywhere(
    volatile: bool,
    targets: impl Iterator<Item = Target>,
    outcomes: &[Outcome],
) -> BTreeMap<Kind, usize> {
    let mut hits = BTreeMap::new();
    for target in targets {
        for &outcome in outcomes {
            let mut run = FaultyRun::fresh(11, volatile, Some((target, Fault::As(outcome))));
            run.live(ACTS, AT_ONCE);
            let hit = run.hit.unwrap_or_else(|| panic!("{target:?} never came"));
            *hits.entry(hit.kind.unwrap_or(Kind::Data)).or_insert(0) += 1;
            if !hit.mounting {
                is_poisoned(&mut run, outcome);
                is_whole_after_a_mount(&mut run);
                continue;
            }
            let State::Refused(MountError::Device { error, .. }) = run.rig.store.state() else {
                panic!("after {outcome:?} in a mount the store is {:?}", run.rig.store.state());
            };
            assert!(error.contains(&words(outcome)), "it says what the device said: {error}");
            is_whole_after_a_mount(&mut run);
        }
    }
    hits
}

/// A run that nothing happens to.
fn quiet(volatile: bool) -> FaultyRun {
    let mut run = FaultyRun::fresh(11, volatile, None);
    run.live(ACTS, AT_ONCE);
    assert!(run.serves() && run.rig.store.status().counters.checkpoints >= 1);
    assert_eq!(run.owner.refused, Some(vec![]));
    run
}

#[test]
fn a_write_that_fails_poisons_whatever_it_is() {
    let writes = quiet(false).writes;
    let hits = fails_everywhere(false, (0..writes).map(Target::Write), &ERRORS);
    println!("{hits:?}");
    for kind in [Kind::Superblock, Kind::Log, Kind::Checkpoint, Kind::Data] {
        assert!(hits.get(&kind).is_some_and(|&count| count >= ERRORS.len()), "{kind:?}");
    }
}

#[test]
fn a_write_that_fails_poisons_with_a_volatile_cache_too() {
    let writes = quiet(true).writes;
    let hits = fails_everywhere(true, (0..writes).map(Target::Write), &ERRORS[1..3]);
    println!("{hits:?}");
}

#[test]
fn a_flush_that_fails_poisons_whatever_it_is_for() {
    let flushes = quiet(true).flushes;
    assert!(flushes > 20, "{flushes} flushes");
    fails_everywhere(true, (0..flushes).map(Target::Flush), &ERRORS[..1]);
}

/// A store that was used, says how far its log is verified, and is at rest.
fn used(idle: bool) -> FaultyRun {
    let mut run = FaultyRun::fresh(12, false, None);
    run.live(ACTS, 1);
    if idle {
        run.idle();
    }
    assert_eq!(run.owner.refused, Some(vec![]));
    run
}

/// For each page of the disk that holds blocks, which ones: (chunk, block).
fn blocks_of(run: &FaultyRun) -> BTreeMap<usize, Vec<(u64, u16)>> {
    let mut found: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for (&index, chunk) in &run.owner.model.chunks {
        for (block, (data, _)) in chunk.acknowledged.blocks.iter().enumerate() {
            let Some(data) = data else { continue };
            let at = run.rig.disk.view.chunks(BLOCK).position(|page| page == &data[..]);
            let at = at.expect("an acknowledged block is on the disk");
            found.entry(at).or_default().push((index, block as u16));
        }
    }
    found
}

fn broken(pages: std::ops::Range<usize>) -> Option<std::ops::Range<u64>> {
    Some((pages.start * BLOCK) as u64..(pages.end * BLOCK) as u64)
}

#[test]
fn a_block_that_cannot_be_read_is_refused_and_all_others_are_served() {
    let mut run = used(true);
    let (model, right) = (run.owner.model.clone(), run.owner.right());
    let all = usize::from(BLOCKS) * model.chunks.len();
    let blocks = blocks_of(&run);
    assert!(blocks.len() > 30);
    for (&page, held) in &blocks {
        run.rig.broken = broken(page..page + 1);
        let served = inspect(&mut run, &model, right);
        assert_eq!(&served.damaged, held);
        assert_eq!(served.right, all - held.len());
    }
    // Whole runs of them, and all of them.
    let (&first, &last) = (blocks.keys().next().unwrap(), blocks.keys().last().unwrap());
    for pages in [first..first + 8, first + 5..last, first..last + 1] {
        run.rig.broken = broken(pages.clone());
        let served = inspect(&mut run, &model, right);
        let mut expected: Vec<_> = blocks.range(pages).flat_map(|(_, held)| held.clone()).collect();
        expected.sort_unstable();
        assert_eq!(served.damaged, expected);
    }
    // What goes away by itself has harmed nothing.
    run.rig.broken = None;
    let served = inspect(&mut run, &model, right);
    assert_eq!((served.right, served.damaged.len()), (all, 0));
    assert!(run.serves());
}

#[test]
fn what_is_written_over_a_block_that_cannot_be_read_heals_it_and_nothing_less_does() {
    let mut run = used(true);
    let right = run.owner.right();
    let blocks = blocks_of(&run);
    let pages: Vec<_> = blocks.keys().copied().collect();
    run.rig.broken = broken(pages[0]..pages[pages.len() - 1] + 1);
    let &(chunk, block) = blocks.values().flatten().next().unwrap();
    let mut asker = run.owner.asker.clone();
    let previous = run.owner.model.chunk(chunk).acknowledged.version;
    let next = previous.next(right.generation).unwrap();
    let start = u32::from(block) * BLOCK as u32;
    // Rule D7: a part of it is refused, and the version with it.
    let part = asker.write_request(chunk, start + 100, &[1; 200], next, previous);
    let told = asker.ask(&mut run, part, Slice::copy_from(&[1; 200]));
    assert_eq!(
        told.answer.result,
        Err(Refusal::Damaged {
            block: BlockIndex(block)
        })
    );
    assert_eq!(asker.open(&mut run, chunk), previous);
    let whole = vec![7; BLOCK];
    let request = asker.write_request(chunk, start, &whole, next, previous);
    let told = asker.ask(&mut run, request, Slice::copy_from(&whole));
    assert_eq!(told.answer.result, Ok(AnswerBody::Done));
    run.rig.broken = None;
    assert_eq!(asker.read(&mut run, chunk, block, 1).unwrap(), (whole, next));
}

/// What a mount makes of a page that cannot be read, for ever or for some time.
fn mount_with_broken(run: &FaultyRun, page: usize, passes_after: Option<Duration>) -> Rig {
    let disk = Disk::new(run.rig.disk.durable.clone(), false);
    let mut rig = Rig::open(disk, Config::default(), run.rig.now, 1, Pool::heap());
    rig.broken = broken(page..page + 1);
    rig.broken_until = passes_after.map(|after| run.rig.now.plus(after));
    rig.run();
    rig.broken = None;
    rig
}

/// (served, refused, behind), by what the page was.
type Outcomes = BTreeMap<Kind, (usize, usize, usize)>;

fn mount_with_each_broken(run: &FaultyRun, passes_after: Option<Duration>) -> Outcomes {
    let model = run.owner.model.clone();
    let mut outcomes = Outcomes::new();
    for (page, bytes) in run.rig.disk.durable.chunks(BLOCK).enumerate() {
        let mut rig = mount_with_broken(run, page, passes_after);
        let kind = kind(bytes);
        let (serves, refuses, behind) = outcomes.entry(kind).or_default();
        match rig.store.state() {
            State::Serving => {
                let served: Served = inspect(&mut rig, &model, run.owner.right());
                // The page can be read again.
                assert!(served.damaged.is_empty());
                *serves += 1;
                *behind += usize::from(served.behind > 0);
            }
            State::Refused(error) => {
                let named = matches!(
                    error,
                    MountError::Device { .. } | MountError::LogDamaged { .. } | MountError::CheckpointDamaged { .. }
                );
                assert!(named, "{error}");
                *refuses += 1;
            }
            other => panic!("page {page}: {other:?}"),
        }
    }
    outcomes
}

#[test]
fn a_mount_that_cannot_read_a_page_serves_all_or_says_where() {
    let outcomes = mount_with_each_broken(&used(true), None);
    println!("(served, refused, behind): {outcomes:?}");
    assert_eq!(outcomes[&Kind::Superblock], (2, 0, 0));
    assert!(outcomes[&Kind::Log].1 > 3 && outcomes[&Kind::Checkpoint].1 > 0);
    for (kind, (_, _, behind)) in outcomes {
        assert_eq!(
            behind, 0,
            "{kind:?}: what a mark covers is never taken for the end of the log"
        );
    }
}

/// The last batch of a store that had no time to say that it is verified may have been acknowledged: what cannot be
/// read of it is not what a power cut has torn.
#[test]
fn a_mount_that_cannot_read_the_last_batch_does_not_drop_it() {
    let outcomes = mount_with_each_broken(&used(false), None);
    println!("(served, refused, behind): {outcomes:?}");
    let behind: usize = outcomes.values().map(|(_, _, behind)| behind).sum();
    assert_eq!(behind, 0, "a store that serves has all that it has acknowledged");
    assert!(outcomes[&Kind::Log].1 > 0, "and one that cannot is refused");
}

#[test]
fn an_error_that_passes_costs_a_mount_nothing_but_time() {
    for run in [used(false), used(true)] {
        for after_ms in [1, 100, 3000] {
            let outcomes = mount_with_each_broken(&run, Some(Duration::from_millis(after_ms)));
            for (kind, (serves, refuses, behind)) in outcomes {
                assert!(serves > 0, "{kind:?}");
                assert_eq!((refuses, behind), (0, 0), "{kind:?}, {after_ms} ms");
            }
        }
    }
}

#[test]
fn a_link_that_asks_a_store_whose_mount_failed_is_told() {
    let run = used(true);
    let mut rig = Rig::open(
        Disk::new(run.rig.disk.durable, false),
        Config::default(),
        run.rig.now,
        1,
        Pool::heap(),
    );
    rig.broken = Some(0..u64::MAX);
    rig.run();
    let State::Refused(MountError::Device { offset: 0, error }) = rig.store.state() else {
        panic!("{:?}", rig.store.state());
    };
    assert!(error.contains("superblock"), "{error}");
    let mut asker = Requester::new(1);
    assert_eq!(asker.fence(&mut rig), Err(Refusal::NoSuchStore));
}
