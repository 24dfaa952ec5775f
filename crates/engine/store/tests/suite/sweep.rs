//! Space is given back (rule R13): chunks of deleted volumes, and those of groups that have moved away. What is left is what the
//! living explain; nothing that was deleted comes back; a group that lists the store again finds each chunk as it was, or not at
//! all; and no step does much at once.

use crate::common::{BLOCK, Disk, Requester, Rig, Rng, STORE, image, params, version};
use amita_reactor::{Pool, Slice, Time};
use amita_store::offline::{CheckOptions, check};
use amita_store::{Config, Faults, State};
use amita_types::holdings::{HeldGroup, HeldVolume, Holdings};
use amita_types::message::{
    AnswerBody, ChunksAnswer, ChunksRequest, JoinRequest, OpenRequest, Refusal, RequestBody, RollRequest,
};
use amita_types::{ChunkIndex, Epoch, Generation, GroupId, GroupIndex, PoolId, SnapshotId, StoreId, Version, VolumeId};
use std::sync::Arc;
use std::time::Duration;

const OTHER: StoreId = StoreId(0xabcd_0002);
const SIZE: u64 = 16 << 20;
const GROUP: GroupId = GroupId {
    pool: PoolId(1),
    index: GroupIndex(0),
};

/// What the metadata says: these volumes live, up to `given` there were some, and the one group has moved away from this store
/// with this epoch, if any.
fn holdings(living: &[u64], given: u64, left_at: Option<u64>) -> Arc<Holdings> {
    let volumes: Vec<HeldVolume> = living
        .iter()
        .map(|&id| HeldVolume {
            id: VolumeId(id),
            place: VolumeId(id),
            pool: Some((PoolId(1), 1)),
        })
        .collect();
    let group = left_at.map(|epoch| {
        Arc::new(HeldGroup {
            id: GROUP,
            epoch: Epoch(epoch),
            members: vec![OTHER],
            in_sync: [OTHER].into_iter().collect(),
            syncing: Default::default(),
        })
    });
    Arc::new(Holdings {
        revision: 1,
        given: VolumeId(given),
        volumes: volumes.into(),
        snapshots: Vec::new(),
        groups: group.into_iter().collect(),
    })
}

fn rig(faults: Faults) -> Rig {
    let config = Config {
        faults,
        ..Config::default()
    };
    let disk = Disk::new(image(&params(SIZE)), true);
    let mut rig = Rig::open(disk, config, Time(1), 1, Pool::heap());
    rig.run();
    assert_eq!(*rig.store.state(), State::Serving);
    rig
}

/// The same store, after its power was cut when nothing was under way.
fn restarted(rig: &Rig) -> Rig {
    let mut next = rig.reopened(rig.cut_as(|_| crate::common::Fate::Kept));
    next.now = rig.now.plus(Duration::from_secs(1));
    next.run();
    assert_eq!(*next.store.state(), State::Serving);
    next
}

fn owner(link: u64, volume: u64) -> Requester {
    let mut owner = Requester::new(link);
    owner.volume = VolumeId(volume);
    owner
}

/// The volume's chunks, each with some blocks.
fn fill(rig: &mut Rig, volume: u64, chunks: u64) -> Requester {
    let mut owner = owner(volume, volume);
    owner.fence(rig).expect("the first one");
    for chunk in 0..chunks {
        let bytes = vec![volume as u8 + 1; 3 * BLOCK];
        owner
            .write(rig, chunk, 0, &bytes, version(1, 1), Version::NONE)
            .expect("there is space");
    }
    owner
}

/// Lets time pass until the store has nothing left to do.
fn sweep(rig: &mut Rig, holdings: Arc<Holdings>) {
    let revision = holdings.revision;
    rig.store.sweep(rig.now, Some(holdings));
    rest(rig, revision);
}

fn rest(rig: &mut Rig, revision: u64) {
    for _ in 0..100_000 {
        rig.run();
        if rig.store.swept() == Some(revision) {
            return;
        }
        let at = rig.store.deadline().expect("it goes on");
        rig.advance(at.since(rig.now));
    }
    panic!("the sweep never ends");
}

/// What is used is what the offline check counts, and how much that is.
fn used(rig: &Rig) -> u64 {
    let report = check(
        &rig.cut_as(|_| crate::common::Fate::Kept).as_slice(),
        &Config::default(),
        &CheckOptions::default(),
        &mut |_| {},
    );
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert!(report.is_clean(), "the check finds {problems:#?}");
    let status = rig.store.status();
    if report.seen.states == 0 {
        assert_eq!(
            status.blocks, report.seen.entries,
            "the store says what the check counts"
        );
    }
    status.blocks
}

fn listed(rig: &mut Rig, owner: &mut Requester) -> Vec<u64> {
    let request = owner.request(RequestBody::Chunks(ChunksRequest {
        from: ChunkIndex(0),
        core: 0,
        cores: 1,
        groups: 1,
        place: None,
    }));
    match owner.ask(rig, request, Slice::default()).answer.result {
        Ok(AnswerBody::Chunks(ChunksAnswer { chunks, more: None })) => {
            chunks.iter().map(|chunk| chunk.chunk.0).collect()
        }
        other => panic!("a list was answered with {other:?}"),
    }
}

fn deleted_for_good(faults: Faults) {
    let mut rig = rig(faults);
    let mut living = fill(&mut rig, 3, 4);
    let mut deleted = fill(&mut rig, 5, 10);
    assert_eq!(used(&rig), 3 * 14);
    sweep(&mut rig, holdings(&[3], 8, None));
    assert_eq!((used(&rig), rig.store.status().counters.swept), (3 * 4, 10));
    let all_is_well = |rig: &mut Rig, deleted: &mut Requester, living: &mut Requester| {
        // Whoever owned it comes too late, with a fence and without.
        let gone = Err(Refusal::Fenced {
            generation: Generation::DELETED,
        });
        assert_eq!(deleted.fence(rig), gone);
        let bytes = [1; BLOCK];
        assert_eq!(deleted.write(rig, 2, 0, &bytes, version(1, 1), Version::NONE), gone);
        deleted.generation = Generation(7);
        assert_eq!(deleted.fence(rig), gone);
        deleted.generation = Generation(1);
        living.fence(rig).expect("it lives");
        assert_eq!(living.read(rig, 1, 2, 1).expect("it is there").0, vec![4; BLOCK]);
    };
    all_is_well(&mut rig, &mut deleted, &mut living);
    let mut rig = restarted(&rig);
    all_is_well(&mut rig, &mut deleted, &mut living);
    // And with a checkpoint in between, which the log alone did not need.
    for counter in 2..2000 {
        living
            .write(
                &mut rig,
                0,
                0,
                &[9; BLOCK],
                version(1, counter),
                version(1, counter - 1),
            )
            .expect("there is space");
    }
    assert!(rig.store.status().counters.checkpoints > 0, "there was one");
    let mut rig = restarted(&rig);
    all_is_well(&mut rig, &mut deleted, &mut living);
    assert_eq!(rig.store.known_deleted(), [(VolumeId(4), VolumeId(8))]);
    assert_eq!(used(&rig), 3 * 4);
}

#[test]
fn what_is_deleted_goes_and_never_comes_back() {
    deleted_for_good(Faults::NONE);
}

#[test]
fn what_the_metadata_has_never_known_stays() {
    let mut rig = rig(Faults::NONE);
    fill(&mut rig, 5, 10);
    // Older metadata, restored: it has not given that number yet.
    sweep(&mut rig, holdings(&[], 4, None));
    assert_eq!(used(&rig), 30);
    // And while it is not believed, nothing goes at all.
    rig.store.sweep(rig.now, Some(holdings(&[], 5, None)));
    rig.store.sweep(rig.now, None);
    for _ in 0..100 {
        rig.run();
        rig.advance(Duration::from_millis(10));
    }
    assert_eq!((rig.store.swept(), rig.store.status().counters.swept), (None, 0));
    sweep(&mut rig, holdings(&[], 5, None));
    assert_eq!(used(&rig), 0);
}

#[test]
fn a_write_that_was_accepted_before_goes_too() {
    let mut rig = rig(Faults::NONE);
    let mut owner = fill(&mut rig, 5, 1);
    // A part of a block: it waits for what is there, which is read from the disk.
    let mut rig = restarted(&rig);
    owner.fence(&mut rig).expect("it lives");
    let bytes = [7; 512];
    let request = owner.write_request(0, 512, &bytes, version(1, 2), version(1, 1));
    rig.send(owner.link, request, Slice::copy_from(&bytes));
    let new = owner.write_request(1, 0, &[7; BLOCK], version(1, 1), Version::NONE);
    rig.send(owner.link, new, Slice::copy_from(&[7; BLOCK]));
    rig.store.sweep(rig.now, Some(holdings(&[], 5, None)));
    rest(&mut rig, 1);
    assert_eq!((used(&rig), rig.store.status().chunks), (0, 0));
}

#[test]
fn what_the_owners_of_deleted_volumes_were_granted_returns() {
    let mut rig = rig(Faults::NONE);
    for volume in 2..=10 {
        fill(&mut rig, volume, 1);
    }
    sweep(&mut rig, holdings(&[], 10, None));
    assert_eq!(rig.store.known_deleted(), [(VolumeId(1), VolumeId(10))]);
    // Nothing lingers any more.
    rig.advance(Duration::from_secs(20));
    let mut next = owner(11, 11);
    let fence = next.fence_request();
    let told = next.ask(&mut rig, fence, Slice::default());
    let granted = u64::from(told.answer.credit_blocks);
    assert_eq!(rig.store.status().credits_granted, granted);
}

/// Parts of roll-forwards that nobody ends go with the group.
#[test]
fn a_group_that_moved_away_leaves_no_parts_of_roll_forwards() {
    let mut rig = rig(Faults::NONE);
    let mut owner = fill(&mut rig, 3, 1);
    let part = |rig: &mut Rig, owner: &mut Requester, chunk, epoch, index| {
        let mut part = owner.request(RequestBody::Roll(RollRequest {
            chunk: ChunkIndex(chunk),
            version: version(1, 1),
            previous: Version::NONE,
            entries: Vec::new(),
            first: true,
            last: false,
        }));
        part.scope.epoch = epoch;
        part.scope.group.index = index;
        owner.ask(rig, part, Slice::default()).answer.result
    };
    for chunk in 1..17 {
        let done = part(&mut rig, &mut owner, chunk, Epoch(1), GroupIndex(0));
        assert_eq!(done, Ok(AnswerBody::Done));
    }
    let mut fence = owner.fence_request();
    fence.scope.group.index = GroupIndex(1);
    owner.ask(&mut rig, fence, Slice::default());
    assert_eq!(
        part(&mut rig, &mut owner, 20, Epoch(1), GroupIndex(1)),
        Err(Refusal::Busy)
    );
    sweep(&mut rig, holdings(&[3], 3, Some(4)));
    assert_eq!(
        part(&mut rig, &mut owner, 20, Epoch(1), GroupIndex(1)),
        Ok(AnswerBody::Done)
    );
}

/// Where the leaf of this chunk's first blocks is.
fn leaf_of(rig: &Rig, volume: u64, chunk: u64) -> usize {
    let is = |page: &&[u8]| {
        let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        page.starts_with(b"ALEF") && (number(16), number(24)) == (volume, chunk)
    };
    let mut pages = (0..rig.disk.view.len()).step_by(BLOCK);
    pages
        .find(|&at| is(&&rig.disk.view[at..at + BLOCK]))
        .expect("a checkpoint has written it")
}

#[test]
fn a_chunk_with_a_rotten_leaf_goes() {
    let mut rig = rig(Faults::NONE);
    let mut owner = fill(&mut rig, 5, 3);
    // A checkpoint, and a start after it: the leaves are on the disk only.
    for counter in 2..2000 {
        let (version, previous) = (version(1, counter), version(1, counter - 1));
        owner
            .write(&mut rig, 0, 0, &[9; BLOCK], version, previous)
            .expect("there is space");
    }
    let mut rig = restarted(&rig);
    let at = leaf_of(&rig, 5, 1);
    rig.disk.rot(at + 100, 3);
    sweep(&mut rig, holdings(&[], 5, None));
    let status = rig.store.status();
    assert_eq!((status.chunks, status.counters.swept), (0, 3));
    // What the leaf named is not known.
    assert_eq!(status.blocks, 3);
    let rig = restarted(&rig);
    assert_eq!(rig.store.status().chunks, 0);
}

/// A leaf that cannot be read now may be whole: its chunk goes when it can.
#[test]
fn a_chunk_with_an_unreadable_leaf_goes_when_it_can_be_read() {
    let mut rig = rig(Faults::NONE);
    let mut owner = fill(&mut rig, 5, 3);
    for counter in 2..2000 {
        let (version, previous) = (version(1, counter), version(1, counter - 1));
        owner
            .write(&mut rig, 0, 0, &[9; BLOCK], version, previous)
            .expect("there is space");
    }
    let mut rig = restarted(&rig);
    let at = leaf_of(&rig, 5, 1) as u64;
    rig.broken = Some(at..at + 1);
    rig.broken_until = Some(rig.now.plus(Duration::from_millis(500)));
    sweep(&mut rig, holdings(&[], 5, None));
    assert_eq!((used(&rig), rig.store.status().chunks), (0, 0));
}

fn moved_away(faults: Faults) {
    let mut rig = rig(faults);
    let mut old = fill(&mut rig, 3, 10);
    sweep(&mut rig, holdings(&[3], 3, Some(4)));
    assert_eq!(used(&rig), 0);
    let rigs = [restarted(&rig), rig];
    for mut rig in rigs {
        // A late owner of before: had it been let in, it would have taken an empty store for one in sync.
        let stale = Err(Refusal::StaleEpoch { epoch: Epoch(4) });
        assert_eq!(old.fence(&mut rig), stale);
        assert_eq!(
            old.write(&mut rig, 2, 0, &[1; BLOCK], version(1, 1), Version::NONE),
            stale
        );
        let known = rig.store.known_groups();
        assert_eq!((known[0].epoch, &known[0].in_sync[..]), (Epoch(4), &[OTHER][..]));
    }
}

#[test]
fn a_copy_that_moved_away_goes() {
    moved_away(Faults::NONE);
}

#[test]
fn a_store_that_is_only_away_keeps_what_it_has() {
    let mut rig = rig(Faults::NONE);
    fill(&mut rig, 3, 10);
    let mut away = (*holdings(&[3], 3, Some(4))).clone();
    Arc::make_mut(&mut away.groups[0]).members.push(STORE);
    sweep(&mut rig, Arc::new(away));
    assert_eq!(used(&rig), 30);
}

fn listed_again(faults: Faults) {
    let mut rig = rig(faults);
    let mut owner = fill(&mut rig, 3, 10);
    owner.epoch = Epoch(5);
    owner.syncing = true;
    owner.fence(&mut rig).expect("the group lists it again");
    // Late word of the time between.
    sweep(&mut rig, holdings(&[3], 3, Some(4)));
    assert_eq!(listed(&mut rig, &mut owner), (0..10).collect::<Vec<u64>>());
    assert_eq!(used(&rig), 30);
}

#[test]
fn a_group_that_lists_the_store_again_finds_what_is_left() {
    listed_again(Faults::NONE);
}

/// While chunks are on their way out (their leaves are being read) the group lists the store again. What it is told then stays
/// true: a chunk that is listed stays, one that is not is gone when it joins.
fn listed_while_it_goes(faults: Faults) {
    let mut rig = rig(faults);
    let mut owner = fill(&mut rig, 3, 10);
    // A checkpoint, and a start after it: the leaves are on the disk only.
    for counter in 2..2000 {
        owner
            .write(
                &mut rig,
                0,
                0,
                &[9; BLOCK],
                version(1, counter),
                version(1, counter - 1),
            )
            .expect("there is space");
    }
    let mut rig = restarted(&rig);
    owner.fence(&mut rig).expect("it lives");
    rig.store.sweep(rig.now, Some(holdings(&[3], 3, Some(4))));
    let mut rng = Rng(1);
    for _ in 0..10_000 {
        rig.store.end_pass(rig.now);
        rig.pump();
        let reading = |flight: &crate::common::Flight| matches!(flight, crate::common::Flight::Read { .. });
        if rig.flights.iter().any(reading) {
            break;
        }
        match rig.flights.len() {
            0 => rig.advance(Duration::from_millis(1)),
            flights => rig.complete(rng.below(flights)),
        }
    }
    assert!(!rig.flights.is_empty(), "leaves are being read");
    owner.epoch = Epoch(5);
    owner.syncing = true;
    // Everything ends, but for the reads.
    let fence = owner.fence_request();
    let (link, fence_id) = (owner.link, fence.id);
    rig.send(link, fence, Slice::default());
    let list = owner.request(RequestBody::Chunks(ChunksRequest {
        from: ChunkIndex(0),
        core: 0,
        cores: 1,
        groups: 1,
        place: None,
    }));
    let list_id = list.id;
    let mut held = Vec::new();
    let mut list = Some(list);
    let found = 'found: {
        for _ in 0..10_000 {
            rig.store.end_pass(rig.now);
            rig.pump();
            while let Some(at) = rig
                .flights
                .iter()
                .position(|f| !matches!(f, crate::common::Flight::Read { .. }))
            {
                rig.complete(at);
            }
            held.append(&mut rig.flights);
            if rig.take(link, fence_id).is_some() {
                rig.send(link, list.take().expect("once"), Slice::default());
            }
            if let Some(told) = rig.take(link, list_id) {
                let Ok(AnswerBody::Chunks(ChunksAnswer { chunks, more: None })) = told.answer.result else {
                    panic!("a list was answered with {:?}", told.answer.result);
                };
                break 'found chunks;
            }
            rig.advance(Duration::from_millis(1));
        }
        panic!("nobody answers");
    };
    assert!(
        found.len() < 10 && !found.is_empty(),
        "some are on their way out: {found:?}"
    );
    // What a chunk is that is on its way out cannot be asked; those that are gone already are not there.
    let mut going = 0;
    for chunk in (0..10).filter(|chunk| !found.iter().any(|state| state.chunk.0 == *chunk)) {
        let open = owner.request(RequestBody::Open(OpenRequest {
            chunk: ChunkIndex(chunk),
        }));
        let open_id = open.id;
        rig.send(link, open, Slice::default());
        let told = rig.take(link, open_id).expect("at once");
        going += usize::from(told.answer.result == Err(Refusal::Busy));
    }
    assert!(going > 0, "one at least is on its way out");
    rig.flights = held;
    rig.run();
    rest(&mut rig, 1);
    for state in &found {
        assert_eq!(owner.open(&mut rig, state.chunk.0), state.version);
    }
    for chunk in (0..10).filter(|chunk| !found.iter().any(|state| state.chunk.0 == *chunk)) {
        assert_eq!(owner.open(&mut rig, chunk), Version::NONE);
    }
    assert_eq!(used(&rig), 3 * found.len() as u64);
}

#[test]
fn a_chunk_on_its_way_out_is_not_there() {
    listed_while_it_goes(Faults::NONE);
}

/// The power fails at any moment: a chunk that is missing is durably known to be needed by nobody.
fn cut_at_any_moment(faults: Faults) {
    let mut seen = [0; 2];
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let mut rig = rig(faults);
        let _ = fill(&mut rig, 3, 6);
        let _ = fill(&mut rig, 5, 6);
        let moves = seed % 2 == 0;
        let living: &[u64] = if moves { &[3, 5] } else { &[3] };
        rig.store.sweep(rig.now, Some(holdings(living, 5, moves.then_some(4))));
        for _ in 0..rng.below(40) {
            rig.store.end_pass(rig.now);
            rig.pump();
            match rig.flights.len() {
                0 => rig.advance(Duration::from_millis(1)),
                flights => rig.complete(rng.below(flights)),
            }
        }
        let image = rig.cut(&mut rng);
        crate::common::check::is_clean(&image, true);
        let mut next = rig.reopened(image);
        next.run();
        assert_eq!(*next.store.state(), State::Serving);
        let whole = next.store.status().chunks == 12;
        seen[usize::from(whole)] += 1;
        if moves {
            assert!(whole || next.store.known_groups()[0].epoch == Epoch(4));
        } else {
            assert!(whole || next.store.known_deleted() == [(VolumeId(4), VolumeId(5))]);
        }
    }
    assert!(seen.iter().all(|&times| times >= 5), "both were met: {seen:?}");
}

#[test]
fn whatever_is_missing_after_a_power_cut_is_known_to_be_needed_by_nobody() {
    cut_at_any_moment(Faults::NONE);
}

/// While a checkpoint is written, a chunk that stands in it goes and comes again at a place in memory that the checkpoint has not
/// reached: it stands there twice.
#[test]
fn a_chunk_that_goes_and_comes_again_while_a_checkpoint_is_written_is_there_once() {
    let mut rig = Rig::fresh(192 << 20, true);
    let mut owner = fill(&mut rig, 3, 2600);
    // Volume 5 lies at the end of the index, and leaves its places to others.
    let _ = fill(&mut rig, 5, 8);
    sweep(&mut rig, holdings(&[3], 5, None));
    // Every chunk is dirty, so that each step of a checkpoint gets on by few.
    let mut counter = 1;
    let begun = rig.store.status().counters.checkpoint_bytes;
    'fill: loop {
        counter += 1;
        for chunk in 0..2600 {
            let request = owner.write_request(chunk, 0, &[9; BLOCK], version(1, counter), version(1, counter - 1));
            rig.send(owner.link, request, Slice::copy_from(&[9; BLOCK]));
            while rig.store.status().counters.checkpoint_bytes == begun && rig.flights.len() > 4 {
                rig.complete(0);
            }
            rig.store.end_pass(rig.now);
            rig.pump();
            if rig.store.status().counters.checkpoint_bytes > begun {
                break 'fill;
            }
        }
    }
    let checkpoints = rig.store.status().counters.checkpoints;
    let pass = |rig: &mut Rig| {
        rig.store.end_pass(rig.now);
        rig.pump();
        while !rig.flights.is_empty() {
            rig.complete(0);
        }
    };
    rig.store.sweep(rig.now, Some(holdings(&[3], 5, Some(4))));
    for _ in 0..12 {
        pass(&mut rig);
        rig.advance(Duration::from_millis(5));
    }
    let swept = rig.store.status().counters.swept;
    owner.epoch = Epoch(5);
    owner.syncing = true;
    let fence = owner.fence_request();
    rig.send(owner.link, fence, Slice::default());
    (0..3).for_each(|_| pass(&mut rig));
    // New ones take the places that came free last, then the first ones come again.
    for chunk in (5000..5000 + swept).chain(0..8) {
        let join = owner.request(RequestBody::Join(JoinRequest {
            chunk: ChunkIndex(chunk),
            at: version(1, 1),
        }));
        rig.send(owner.link, join, Slice::default());
    }
    pass(&mut rig);
    pass(&mut rig);
    assert!(swept > 8, "only {swept} chunks went");
    assert_eq!(
        rig.store.status().counters.checkpoints,
        checkpoints,
        "the checkpoint is still under way"
    );
    rig.run();
    assert!(rig.store.status().counters.checkpoints > checkpoints);
    let chunks = rig.store.status().chunks;
    let next = restarted(&rig);
    assert_eq!(next.store.status().chunks, chunks);
    crate::common::check::is_clean(&rig.cut_as(|_| crate::common::Fate::Kept), true);
}

#[test]
fn ten_thousand_deletions_are_little_work_at_a_time() {
    // Room for what links that have ended a moment ago were granted.
    let mut rig = Rig::fresh(1 << 30, true);
    let volumes = 10_000;
    // Every other one lives, so that no range holds two; some have a chunk.
    let has_chunk = |volume: u64| volume % 16 < 2;
    let mut askers: Vec<Requester> = (1..=volumes).map(|volume| owner(volume, volume)).collect();
    for batch in askers.chunks_mut(8) {
        for owner in &mut *batch {
            let fence = owner.fence_request();
            rig.send(owner.link, fence, Slice::default());
        }
        rig.run();
        for owner in batch.iter_mut().filter(|owner| has_chunk(owner.volume.0)) {
            let request = owner.write_request(0, 0, &[1; BLOCK], version(1, 1), Version::NONE);
            rig.send(owner.link, request, Slice::copy_from(&[1; BLOCK]));
        }
        rig.run();
        rig.told.clear();
        for owner in batch {
            rig.store.link_closed(rig.now, owner.link);
        }
    }
    assert_eq!(rig.store.status().blocks, volumes / 8);
    let living: Vec<u64> = (1..=volumes).filter(|volume| volume % 2 == 0).collect();
    rig.store.sweep(rig.now, Some(holdings(&living, volumes, None)));
    let mut steps = 0;
    while rig.store.swept().is_none() {
        let before = rig.store.status().counters;
        let looked = rig.store.sweep_looks();
        rig.run();
        let at = rig.store.deadline().expect("it goes on");
        rig.advance(at.since(rig.now));
        steps += 1;
        let after = rig.store.status().counters;
        assert!(rig.store.sweep_looks() - looked <= 2 * 256, "looks of a step");
        assert!(after.swept - before.swept <= 2 * 2, "chunks of a step");
        assert!(after.leaf_reads - before.leaf_reads <= 2 * 2 * 8, "leaves of a step");
        assert!(
            after.log_pages - before.log_pages <= 2 * 4,
            "pages of a step: {before:?} {after:?}"
        );
    }
    assert_eq!(rig.store.status().counters.swept, volumes / 16);
    assert_eq!(rig.store.status().blocks, volumes / 16);
    println!("{steps} steps");
    // At rest it asks for no time.
    rig.advance(Duration::from_secs(10));
    rig.run();
    assert_eq!(rig.store.deadline(), None);
}

#[test]
fn what_a_store_knows_of_the_deleted_does_not_grow_with_them() {
    let mut rig = rig(Faults::NONE);
    for round in 0..50u64 {
        let _ = fill(&mut rig, 2 + round, 1);
        rig.store.link_closed(rig.now, amita_store::LinkId(2 + round));
        sweep(&mut rig, holdings(&[1], 2 + round, None));
    }
    assert_eq!(rig.store.known_deleted(), [(VolumeId(2), VolumeId(51))]);
    assert!(rig.store.known_volumes().is_empty());
    let rig = restarted(&rig);
    assert_eq!(rig.store.known_deleted(), [(VolumeId(2), VolumeId(51))]);
}

#[test]
fn a_chunk_with_snapshots_goes_whole() {
    let mut rig = rig(Faults::NONE);
    let mut owner = fill(&mut rig, 5, 2);
    for snapshot in 1..4 {
        let mut request = owner.write_request(
            0,
            0,
            &[snapshot as u8; BLOCK],
            version(1, 1 + u64::from(snapshot)),
            version(1, u64::from(snapshot)),
        );
        request.scope.snapshot = SnapshotId(snapshot);
        let told = owner.ask(&mut rig, request, Slice::copy_from(&[snapshot as u8; BLOCK]));
        assert_eq!(told.answer.result, Ok(AnswerBody::Done));
    }
    assert!(used(&rig) > 6);
    sweep(&mut rig, holdings(&[], 5, None));
    assert_eq!((used(&rig), rig.store.status().chunks), (0, 0));
}

#[cfg(feature = "planted")]
mod planted {
    use super::*;
    use amita_store::Fault;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn is_found(plant: Fault, by: fn(Faults)) {
        let faults = Faults::NONE.with(plant);
        assert!(
            catch_unwind(AssertUnwindSafe(|| by(faults))).is_err(),
            "{plant:?} is not found"
        );
    }

    #[test]
    fn what_is_deleted_comes_back() {
        is_found(Fault::DropUnfenced, deleted_for_good);
    }

    #[test]
    fn a_store_without_its_chunks_is_in_sync() {
        is_found(Fault::DropUnfenced, moved_away);
        is_found(Fault::DropUnfenced, cut_at_any_moment);
    }

    #[test]
    fn a_listed_copy_goes() {
        is_found(Fault::DropRelisted, listed_again);
    }

    #[test]
    fn a_chunk_goes_that_was_listed() {
        is_found(Fault::GoingIsThere, listed_while_it_goes);
    }
}
