//! The device says that all is well, and it is not: each write of a run is lost, or lands elsewhere (over a block, a page
//! of the log, a superblock, a checkpoint); and bits rot in every page. Whatever is served is what was written; what
//! cannot be is refused, block for block, or the whole store is, with a word about what and where.

use crate::common::faults::{ELSEWHERE, Fault, FaultyRun, Hit, Kind, Served, Target, inspect, kind, places};
use crate::common::model::Model;
use crate::common::owner::{BLOCKS, CHUNKS};
use crate::common::probe::asker;
use crate::common::trace::Right;
use crate::common::{BLOCK, Disk, Outcome, Rig, Rng};
use amita_reactor::Pool;
use amita_store::format::superblock::OFFSETS;
use amita_store::{Config, MountError, State};
use amita_types::message::Refusal;
use std::collections::{BTreeMap, BTreeSet};

/// Long enough for two checkpoints: the log has 64 pages, and each act takes one.
const ACTS: usize = 80;
const SEED: u64 = 21;
/// Blocks that are asked for.
const ALL: usize = BLOCKS as usize * CHUNKS as usize;

fn run_with(fault: Option<(Target, Fault)>, acts: usize) -> FaultyRun {
    let mut run = FaultyRun::fresh(SEED, false, fault);
    run.live(acts, 1);
    run
}

/// A mount of what is on the disk, or why there is none.
fn mount(run: &FaultyRun, bytes: Vec<u8>) -> Result<Rig, MountError> {
    let mut rig = Rig::open(Disk::new(bytes, false), Config::default(), run.rig.now, 1, Pool::heap());
    rig.run();
    match rig.store.state() {
        State::Serving => Ok(rig),
        State::Refused(error) => Err(error.clone()),
        other => panic!("{other:?}"),
    }
}

/// How a lie ended.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    /// All is right, also after a mount.
    harmless: usize,
    /// Blocks are refused as damaged.
    damaged: usize,
    /// The store is refused.
    refused: usize,
    /// The store is behind what it has acknowledged.
    behind: usize,
}

impl Ends {
    fn count(&mut self, served: &Served) {
        if served.behind > 0 {
            self.behind += 1;
        } else if served.damaged.is_empty() {
            self.harmless += 1;
        } else {
            self.damaged += 1;
        }
    }
}

/// May the store be refused at the next mount? Only for what was lost, or fell upon, in its log or its checkpoint; or
/// for a write that fell upon both superblocks.
fn may_refuse(hit: &Hit, error: &MountError) -> bool {
    let [first, second] = OFFSETS;
    let in_slots = matches!(hit.kind, Some(Kind::Data | Kind::Leaf));
    let small = hit.bytes as u64 <= second - first;
    match hit.outcome {
        Outcome::Misdirected(at) if at == first && !small => return true,
        // Into the space between the superblocks, or from the second one to the log: one superblock is enough.
        Outcome::Misdirected(at) if OFFSETS.contains(&at) && in_slots && small => return false,
        Outcome::Lost if !matches!(hit.kind, Some(Kind::Log | Kind::Checkpoint)) => return false,
        _ => {}
    }
    let how = matches!(
        error,
        MountError::LogDamaged { .. } | MountError::CheckpointDamaged { .. }
    );
    how && error
        .to_string()
        .contains("format it anew and let its groups be copied back")
}

/// Tells each write of a run this lie. Every run ends with a page that says that all before it is verified, so nothing
/// that was lost can be taken for what a power cut cut off.
fn lie(fault: Fault) -> BTreeMap<Kind, Ends> {
    let writes = {
        let mut quiet = run_with(None, ACTS);
        let last = quiet.writes;
        quiet.idle();
        assert!(quiet.writes > last, "the last page moves the mark");
        assert!(quiet.rig.store.status().counters.checkpoints >= 2);
        let served = inspect(&mut quiet.rig, &quiet.owner.model, quiet.owner.right());
        assert_eq!((served.right, served.behind), (ALL, 0));
        last
    };
    let mut ends: BTreeMap<Kind, Ends> = BTreeMap::new();
    for n in 0..writes {
        let mut run = run_with(Some((Target::Write(n), fault)), ACTS);
        let hit = run.hit.unwrap_or_else(|| panic!("write {n} never came"));
        let context = Context { n, hit };
        run.idle();
        let of_kind = ends.entry(hit.kind.expect("a write")).or_default();
        let (model, right) = (run.owner.model.clone(), run.owner.right());
        // The store that is running serves what it should, or says that it cannot.
        let served = inspect(&mut run.rig, &model, right);
        assert_eq!(served.behind, 0);
        match mount(&run, run.rig.disk.durable.clone()) {
            Ok(mut again) => {
                let served = inspect(&mut again, &model, right);
                assert_eq!(
                    served.behind, 0,
                    "what a mark covers is never taken for the end of the log"
                );
                of_kind.count(&served);
            }
            Err(error) => {
                assert!(may_refuse(&hit, &error), "refused: {error}");
                of_kind.refused += 1;
            }
        }
        drop(context);
    }
    println!("{fault:?}: {ends:#?}");
    ends
}

/// Says, when something goes wrong, which lie it was.
struct Context {
    n: usize,
    hit: Hit,
}

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("write {} was hit: {:?}", self.n, self.hit);
        }
    }
}

#[test]
fn a_lost_write_is_noticed_and_never_served() {
    let ends = lie(Fault::As(Outcome::Lost));
    // One superblock is enough.
    let superblocks = &ends[&Kind::Superblock];
    assert!(superblocks.harmless > 3 && superblocks.refused + superblocks.damaged == 0);
    assert!(ends[&Kind::Data].damaged > 10, "blocks that are gone are refused");
    assert!(
        ends[&Kind::Log].refused > 10,
        "pages of the log that are gone are missed"
    );
    assert!(ends[&Kind::Checkpoint].refused > 0, "so are those of the checkpoint");
}

#[test]
fn a_misdirected_write_is_noticed_and_never_served() {
    let mut all = Ends::default();
    for elsewhere in ELSEWHERE {
        let ends = lie(Fault::Lands(elsewhere));
        for end in ends.values() {
            all.harmless += end.harmless;
            all.damaged += end.damaged;
            all.refused += end.refused;
        }
    }
    println!("{all:?}");
    assert!(all.harmless > 100 && all.damaged > 100 && all.refused > 100);
}

/// The last thing that the device did was a lie, and nobody has verified anything since. It cannot be told from what a
/// power cut leaves: the store may be behind, by what was not verified, and then who knows better is told so.
#[test]
fn a_lie_about_the_last_batch_leaves_an_older_state_that_was_whole() {
    let mut ends = Ends::default();
    for acts in [5, 12, 20, 31] {
        let writes = run_with(None, acts).writes;
        let faults = ELSEWHERE
            .map(Fault::Lands)
            .into_iter()
            .chain([Fault::As(Outcome::Lost)]);
        for fault in faults {
            for n in writes - 2..writes {
                let run = run_with(Some((Target::Write(n), fault)), acts);
                let context = Context {
                    n,
                    hit: run.hit.expect("it came"),
                };
                match mount(&run, run.rig.disk.durable.clone()) {
                    Ok(mut again) => ends.count(&inspect(&mut again, &run.owner.model, run.owner.right())),
                    Err(error) => {
                        assert!(may_refuse(&context.hit, &error), "refused: {error}");
                        ends.refused += 1;
                    }
                }
                drop(context);
            }
        }
    }
    println!("{ends:?}");
    assert!(ends.behind > 10);
}

/// A read brings zeros, or what lies elsewhere: never served, and nothing but that read is harmed.
#[test]
fn a_read_that_brings_something_else_is_refused() {
    let mut refused = 0;
    let (first, last) = {
        let mut run = used(true);
        let (model, right) = (run.owner.model.clone(), run.owner.right());
        let first = run.reads;
        inspect(&mut run, &model, right);
        (first, run.reads)
    };
    assert!(last > first + 30);
    for fault in ELSEWHERE
        .map(Fault::Lands)
        .into_iter()
        .chain([Fault::As(Outcome::Lost)])
    {
        let mut run = used(true);
        let (model, right) = (run.owner.model.clone(), run.owner.right());
        for n in first..last {
            let from = run.reads;
            run.fault = Some((Target::Read(from + n - first), fault));
            let damaged = run.rig.store.status().counters.damaged;
            // Damaged once, and right a moment later: it may not even say so twice.
            served_or_refused(&mut run, &model, right);
            assert!(run.hit.take().is_some(), "read {n} never came");
            refused += run.rig.store.status().counters.damaged - damaged;
        }
        run.fault = None;
        assert_eq!(inspect(&mut run, &model, right).right, ALL);
    }
    println!("{refused} blocks were refused");
    assert!(refused > 100);
}

/// Each block alone, each right or refused.
fn served_or_refused(run: &mut FaultyRun, model: &Model, right: Right) {
    let mut owner = asker(1 << 31, BLOCKS, right);
    owner.fence(run).expect("it is the owner");
    for (&index, chunk) in &model.chunks {
        for (first, count) in (0..BLOCKS).map(|block| (block, 1)).chain([(0, BLOCKS)]) {
            match owner.read(run, index, first, count) {
                Ok((bytes, _)) => assert!(bytes == chunk.acknowledged.bytes(first, count)),
                Err(refusal) => assert!(matches!(refusal, Refusal::Damaged { .. }), "{refusal:?}"),
            }
        }
    }
}

/// The same while the store is mounted: all that was acknowledged is there, or the store is refused. A leaf that a mount
/// could not read is given up, with the blocks that it held, although it would be there a moment later.
#[test]
fn a_mount_that_reads_something_else_loses_nothing() {
    let run = used(true);
    let disk = || Disk::new(run.rig.disk.durable.clone(), false);
    let reads = {
        let mut quiet = FaultyRun::open(disk(), SEED, None);
        quiet.settle();
        quiet.reads
    };
    let mut ends = Ends::default();
    for fault in ELSEWHERE
        .map(Fault::Lands)
        .into_iter()
        .chain([Fault::As(Outcome::Lost)])
    {
        for n in 0..reads {
            let mut again = FaultyRun::open(disk(), SEED, Some((Target::Read(n), fault)));
            again.settle();
            assert!(again.hit.is_some());
            match again.rig.store.state() {
                State::Serving => {
                    let served = inspect(&mut again, &run.owner.model, run.owner.right());
                    assert_eq!(served.behind, 0, "read {n}, {fault:?}: acknowledged writes are gone");
                    ends.count(&served);
                }
                State::Refused(_) => ends.refused += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    println!("{ends:?}");
    assert!(ends.harmless > 5 && ends.refused > 5);
}

/// A store that was used and is at rest.
fn used(idle: bool) -> FaultyRun {
    let mut run = run_with(None, ACTS);
    if idle {
        run.idle();
    }
    run
}

/// A page in which some bits are not what they were.
fn rotten(bytes: &[u8], page: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + rng.below(3) {
        bytes[page * BLOCK + rng.below(BLOCK)] ^= 1 << rng.below(8);
    }
    bytes
}

/// Which blocks a page holds.
fn blocks_in(run: &FaultyRun, page: &[u8]) -> Vec<(u64, u16)> {
    let mut found = Vec::new();
    for (&index, chunk) in &run.owner.model.chunks {
        for (block, (data, _)) in chunk.acknowledged.blocks.iter().enumerate() {
            if data.as_ref().is_some_and(|data| page == &data[..]) {
                found.push((index, block as u16));
            }
        }
    }
    found
}

#[test]
fn rot_in_any_page_of_a_store_at_rest_is_noticed_by_the_mount_or_by_the_read() {
    let run = used(true);
    let image = run.rig.disk.durable.clone();
    let mut rng = Rng(5);
    let mut ends: BTreeMap<Kind, Ends> = BTreeMap::new();
    for _ in 0..3 {
        for (page, before) in image.chunks(BLOCK).enumerate() {
            let kind = kind(before);
            let of_kind = ends.entry(kind).or_default();
            match mount(&run, rotten(&image, page, &mut rng)) {
                Ok(mut rig) => {
                    let served = inspect(&mut rig, &run.owner.model, run.owner.right());
                    assert_eq!(served.behind, 0, "page {page} ({kind:?}): acknowledged writes are gone");
                    let held = blocks_in(&run, before);
                    if !held.is_empty() {
                        assert_eq!(
                            served.damaged, held,
                            "page {page}: its blocks, and no others, are refused"
                        );
                    }
                    of_kind.count(&served);
                    let report = rig.store.status().mount;
                    assert_eq!(report.superblock_damaged, kind == Kind::Superblock, "it is reported");
                }
                Err(error) => {
                    assert!(
                        matches!(kind, Kind::Log | Kind::Checkpoint),
                        "page {page} ({kind:?}): {error}"
                    );
                    let offset = (page * BLOCK) as u64;
                    let named = match error {
                        MountError::LogDamaged { offset, .. } | MountError::CheckpointDamaged { offset, .. } => offset,
                        other => panic!("page {page} ({kind:?}): {other}"),
                    };
                    assert_eq!(named, offset, "it says where");
                    of_kind.refused += 1;
                }
            }
        }
    }
    println!("{ends:#?}");
    assert_eq!(ends[&Kind::Superblock].harmless, 6);
    assert!(ends[&Kind::Log].refused > 10 && ends[&Kind::Checkpoint].refused > 0 && ends[&Kind::Data].damaged > 50);
}

/// What a leaf held is refused, block for block, and everything else is served on, whatever the log has behind it.
#[test]
fn a_rotten_leaf_takes_its_own_blocks_and_nothing_else() {
    let mut leaves = 0;
    for acts in (30..ACTS).step_by(3) {
        let mut run = run_with(None, acts);
        run.idle();
        let image = run.rig.disk.durable.clone();
        for offset in places(&image, Kind::Leaf) {
            leaves += 1;
            let page = offset as usize / BLOCK;
            let rig = mount(&run, rotten(&image, page, &mut Rng(9)));
            let mut rig = rig.unwrap_or_else(|error| panic!("after {acts} acts, page {page}: {error}"));
            let served = inspect(&mut rig, &run.owner.model, run.owner.right());
            let chunks: BTreeSet<u64> = served.damaged.iter().map(|&(chunk, _)| chunk).collect();
            assert!(chunks.len() <= 1 && served.behind == 0, "after {acts} acts: {chunks:?}");
        }
    }
    assert!(leaves > 20);
}

/// Behind the last mark, rot in the last batch looks like what a power cut leaves. It is never served all the same, and
/// nothing before it is lost.
#[test]
fn rot_beyond_the_mark_is_never_served() {
    let run = used(false);
    let image = run.rig.disk.durable.clone();
    let mut rng = Rng(6);
    let mut ends = Ends::default();
    for _ in 0..2 {
        for page in 0..image.len() / BLOCK {
            match mount(&run, rotten(&image, page, &mut rng)) {
                Ok(mut rig) => ends.count(&inspect(&mut rig, &run.owner.model, run.owner.right())),
                Err(MountError::LogDamaged { .. } | MountError::CheckpointDamaged { .. }) => ends.refused += 1,
                Err(other) => panic!("page {page}: {other}"),
            }
        }
    }
    println!("{ends:?}");
    assert!(
        ends.behind <= 2 * (1 + usize::from(BLOCKS)),
        "no more than the pages of one batch"
    );
}

/// While it is served: what rots is refused, all else is served on and can be written, and a mount tells it apart, too.
#[test]
fn rot_under_a_store_that_serves() {
    let mut ends = Ends::default();
    let mut rng = Rng(7);
    let pages = used(true).rig.disk.durable.len() / BLOCK;
    for page in 0..pages {
        let mut run = used(true);
        let before = run.rig.disk.view[page * BLOCK..][..BLOCK].to_vec();
        let held = blocks_in(&run, &before);
        run.rig.disk.rot(page * BLOCK + rng.below(BLOCK), rng.below(8) as u8);
        let (model, right) = (run.owner.model.clone(), run.owner.right());
        let served = inspect(&mut run.rig, &model, right);
        assert_eq!(served.behind, 0);
        if !held.is_empty() {
            assert_eq!(
                served.damaged, held,
                "page {page}: its blocks, and no others, are refused"
            );
        }
        // Its owner goes on, and knows nothing of it, until it is told.
        for _ in 0..6 {
            let act = run.owner.any_act();
            run.owner.act(&mut run.rig, act);
            run.settle();
        }
        run.idle();
        let model = run.owner.model.clone();
        let served = inspect(&mut run.rig, &model, right);
        assert!(run.serves() && served.behind == 0);
        match mount(&run, run.rig.disk.durable.clone()) {
            Ok(mut again) => {
                let after = inspect(&mut again, &model, right);
                if kind(&before) == Kind::Data {
                    assert_eq!(after, served, "a mount finds the same");
                }
                assert_eq!(after.behind, 0);
                ends.count(&after);
            }
            Err(MountError::LogDamaged { .. } | MountError::CheckpointDamaged { .. }) => ends.refused += 1,
            Err(other) => panic!("page {page}: {other}"),
        }
    }
    println!("{ends:?}");
    assert!(ends.harmless > 50 && ends.damaged > 10 && ends.refused > 5);
}

#[test]
fn rot_in_both_superblocks_is_no_store_any_more_and_is_said() {
    let run = used(true);
    let mut image = run.rig.disk.durable.clone();
    let mut rng = Rng(8);
    for offset in places(&image.clone(), Kind::Superblock) {
        image = rotten(&image, offset as usize / BLOCK, &mut rng);
    }
    let error = mount(&run, image).map(|_| ()).unwrap_err();
    assert!(
        matches!(error, MountError::SuperblockDamaged { .. } | MountError::NotAStore),
        "{error}"
    );
}
