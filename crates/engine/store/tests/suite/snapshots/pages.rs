//! Older states in pages of their own: they are written, named, given back and read, whenever the power fails and whatever rots.

use super::many::{Past, block};
use super::*;
use crate::common::check::is_clean;
use crate::common::cuts::{Effort, cut_everywhere};
use crate::common::image::Image;
use crate::common::model::Model;
use crate::common::probe::{Probe, asker};
use crate::common::trace::{Event, Held, Medium, Right, Trace};
use crate::common::{Fate, Host, Rng};
use amita_store::MountError;
use amita_store::format::Slot;
use amita_store::offline::{CheckOptions, Offline, Problem as Found, check, newest, superblocks};
use amita_types::Epoch;

const RIGHT: Right = Right {
    generation: Generation(1),
    epoch: Epoch(1),
};

/// A chunk of a small store, of which all but the newest states go to pages.
fn past(size_bytes: u64, recent: usize, seed: u64) -> Past {
    let mut test = Test::sized(size_bytes);
    test.rig.config.recent_states = Some(recent);
    test.remount();
    Past::on(test, seed)
}

/// Where the pages of states are that the store's checkpoint names, in bytes: each is whole, and of this chunk.
fn pages(image: &[u8]) -> Vec<usize> {
    let is = |at: &usize| image[*at..].starts_with(b"ASTA");
    let all: Vec<usize> = (0..image.len()).step_by(BLOCK).filter(is).collect();
    let named = |at: &usize| {
        let mut rotten = image.to_vec();
        rotten[at + 100] ^= 1;
        let refused =
            |error: &MountError| matches!(error, MountError::CheckpointDamaged { offset, .. } if *offset == *at as u64);
        let rig = Rig::fresh(1 << 20, true).reopened(rotten);
        matches!(mounted(rig).store.state(), State::Refused(error) if refused(error))
    };
    all.into_iter().filter(named).collect()
}

fn mounted(mut rig: Rig) -> Rig {
    rig.run();
    while rig.waits_to_read_again() {
        rig.run();
    }
    rig
}

fn written(past: &Past) -> u64 {
    past.test.rig.store.status().counters.state_pages
}

/// A page is written once, and named from then on, until one of its states goes.
#[test]
fn what_does_not_change_is_not_written_again() {
    let mut past = past(32 << 20, 4, 1);
    for _ in 0..600 {
        past.step();
    }
    past.test.checkpoint();
    let first = written(&past);
    assert!((2..=8).contains(&first), "{first} pages of some 500 states");
    past.test.checkpoint();
    past.test.checkpoint();
    assert_eq!(written(&past), first, "nothing has changed");
    past.remount();
    past.compare(true);
    past.test.checkpoint();
    assert_eq!(written(&past), 0, "what a mount has read is what is there");
    // What came since goes to the newest page, which is not full, or to another one.
    for _ in 0..40 {
        past.step();
    }
    past.test.checkpoint();
    assert!((1..=2).contains(&written(&past)), "{}", written(&past));
    past.remount();
    past.compare(true);
    // A few states in the middle go, and their page is written again, alone.
    past.keep(|at| !(300..306).contains(&at));
    past.test.checkpoint();
    assert!((1..=2).contains(&written(&past)), "{}", written(&past));
    past.remount();
    past.compare(true);
    // Few are left: they go together.
    past.keep(|at| at % 40 == 0);
    past.test.checkpoint();
    past.remount();
    past.compare(true);
    assert!(pages(&past.test.rig.disk.view).len() <= 1);
    past.keep(|_| false);
    past.test.checkpoint();
    past.remount();
    assert_eq!(past.test.blocks(), 24 + past.test.elsewhere);
    let status = past.test.rig.store.status();
    assert!(
        status.leaf_pages <= 8 + past.test.elsewhere,
        "no page of states is left"
    );
}

/// One that is wrong: the store is refused, as where the checkpoint itself is, and the check says where it lies.
#[test]
fn a_page_that_rots_is_never_believed() {
    let mut past = past(4 << 20, 1, 2);
    for _ in 0..60 {
        past.step();
    }
    past.test.checkpoint();
    past.test.rig.run();
    let image = past.test.rig.disk.view.clone();
    let pages = pages(&image);
    assert!(!pages.is_empty());
    for &at in &pages {
        for bit in [0, 9, 70, 17 * 8, 33 * 8, 36 * 8, 40 * 8, 300, 4000 * 8, 4095 * 8 + 7] {
            let mut rotten = image.clone();
            rotten[at + bit / 8] ^= 1 << (bit % 8);
            let report = check(
                &rotten.as_slice(),
                &amita_store::Config::default(),
                &CheckOptions::default(),
                &mut |_| {},
            );
            assert!(!report.is_clean());
            assert_eq!(
                report.problems.last().and_then(|problem| problem.offset()),
                Some(at as u64)
            );
            let rig = mounted(past.test.rig.reopened(rotten));
            assert!(matches!(
                rig.store.state(),
                State::Refused(MountError::CheckpointDamaged { .. })
            ));
        }
        // Another page of states, or a leaf, in its place.
        for other in (0..image.len())
            .step_by(BLOCK)
            .filter(|&other| other != at && other > 1 << 16)
        {
            if image[other..].starts_with(b"ASTA") || image[other..].starts_with(b"ALEF") {
                let mut rotten = image.clone();
                rotten.copy_within(other..other + BLOCK, at);
                let rig = mounted(past.test.rig.reopened(rotten));
                assert!(matches!(
                    rig.store.state(),
                    State::Refused(MountError::CheckpointDamaged { .. })
                ));
            }
        }
    }
}

/// A device that reads them later is waited for; one that never does makes the mount fail.
#[test]
fn a_page_that_cannot_be_read_is_read_again() {
    let mut past = past(4 << 20, 1, 3);
    for _ in 0..60 {
        past.step();
    }
    past.test.checkpoint();
    past.test.rig.run();
    let image = past.test.rig.disk.view.clone();
    for at in pages(&image) {
        for later in [true, false] {
            let mut rig = past.test.rig.reopened(image.clone());
            rig.broken = Some(at as u64..at as u64 + BLOCK as u64);
            rig.broken_until = later.then(|| rig.now.plus(Duration::from_secs(1)));
            let rig = mounted(rig);
            match rig.store.state() {
                State::Serving => assert!(later),
                State::Refused(MountError::Device { offset, .. }) => {
                    assert!(!later);
                    assert_eq!(*offset, at as u64);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The leaves of several states rot; of the one that a mount needed it is said which of them it was.
#[test]
fn what_a_mount_has_lost_is_told_from_what_is_rotten_beside_it() {
    for recent in [1, 4] {
        let mut past = past(4 << 20, recent, 4);
        for number in 1..=6 {
            past.kept.push((number, past.now));
            past.test.snapshot = SnapshotId(number);
            past.write(0);
        }
        past.test.checkpoint();
        past.test.rig.run();
        let id = amita_types::ChunkId {
            volume: VOLUME,
            index: ChunkIndex(0),
        };
        let before = past.test.rig.disk.view.clone();
        let offline = Offline::open(before.as_slice(), amita_store::Config::default());
        let states = offline.expect("it is whole").chunk(id).expect("it is there").states;
        let leaf = |to: u32| {
            let state = states
                .iter()
                .find(|state| state.to == SnapshotId(to))
                .expect("it is kept");
            state.parts[0].page.expect("it is on the disk").0
        };
        let (idle, needed) = (leaf(1), leaf(4));
        // The state of 3 goes: its record needs those of 2 and 4.
        past.keep(|at| at != 2);
        past.test.rig.run();
        let mut image = past.test.rig.disk.view.clone();
        let geometry = newest(&superblocks(&image.as_slice())).expect("a store").geometry;
        for slot in [idle, needed] {
            image[geometry.slot_offset(slot) as usize + 99] ^= 1;
        }
        let report = check(
            &image.as_slice(),
            &amita_store::Config::default(),
            &CheckOptions::default(),
            &mut |_| {},
        );
        let told = report.problems.iter().filter_map(|problem| match problem {
            Found::Leaf { snapshot, slot, .. } => Some((snapshot.0, *slot)),
            _ => None,
        });
        let mut told: Vec<(u32, Option<Slot>)> = told.collect();
        told.sort_unstable();
        assert_eq!(told, [(1, Some(idle)), (4, Some(needed))]);
    }
}

/// What must be there from some moment on.
struct Moment {
    /// So many events of the trace have been.
    at: usize,
    now: [u8; 24],
    kept: Vec<(u32, [u8; 24])>,
}

fn note(past: &mut Past, moments: &mut Vec<Moment>) {
    let trace = past.test.rig.trace.as_mut().expect("it is written down");
    trace.events.push(Event::Fenced(RIGHT));
    moments.push(Moment {
        at: trace.events.len(),
        now: past.now,
        kept: past.kept.clone(),
    });
}

fn read_at(host: &mut impl Host, owner: &mut Requester, at: u32, n: usize) -> u8 {
    let mut request = owner.request(RequestBody::Read(ReadRequest {
        chunk: ChunkIndex(0),
        range: BlockRange::new(block(n), 1),
        least: Version::NONE,
        versions: false,
        newest: None,
    }));
    request.scope.snapshot = SnapshotId(at);
    let told = owner.ask(host, request, Slice::default());
    told.answer.result.expect("it is there");
    told.payload.first().copied().unwrap_or(0)
}

/// The power fails at every moment of a run in which states go to pages, pages grow together, lose states and go; each time the store holds
/// what lives, and goes on.
#[test]
fn the_power_fails_anywhere() {
    const EFFORT: Effort = Effort {
        all_subsets: 2,
        random_subsets: 3,
        tears: 2,
        random_tears: 1,
        tear_all_one_in: 50,
        most_states: usize::MAX,
    };
    let (mut states, mut pages) = (0, 0);
    for seed in 0..3 {
        let mut past = past(2 << 20, 1 + seed as usize % 2, seed);
        for _ in 0..10 {
            past.step();
        }
        past.test.checkpoint();
        past.test.remount();
        let held = Held {
            model: Model::new(1024),
            known: Some(RIGHT),
            asked: RIGHT,
            acknowledgements: 0,
        };
        let image = past.test.rig.cut_as(|_| Fate::Kept);
        assert_eq!(image, past.test.rig.disk.durable, "all is flushed");
        past.test.rig.trace = Some(Box::new(Trace::new(
            Medium::Volatile,
            Image::new(&image),
            Vec::new(),
            held,
        )));
        let mut moments = Vec::new();
        note(&mut past, &mut moments);
        for round in 0..5 {
            for _ in 0..4 {
                let number = past.test.snapshot.0 + 1;
                past.kept.push((number, past.now));
                past.test.snapshot = SnapshotId(number);
                let n = past.rng.below(24);
                past.write(n);
                note(&mut past, &mut moments);
            }
            if round > 0 {
                let gone = past.rng.below(past.kept.len());
                let also = past.rng.below(past.kept.len());
                past.keep(|at| at != gone && at != also && (round < 4 || at % 4 == 0));
                note(&mut past, &mut moments);
            }
            if round != 2 {
                past.test.checkpoint();
                note(&mut past, &mut moments);
            }
        }
        pages += written(&past);
        let config = past.test.rig.config.clone();
        let trace = *past.test.rig.trace.take().expect("it was put there");
        let mut rng = Rng(seed);
        let tally = cut_everywhere(&trace, EFFORT, &mut rng, |replay, _, image, rng| {
            let next = moments.partition_point(|moment| moment.at <= replay.at());
            let now = &moments[next.saturating_sub(1)];
            let then = moments.get(next).unwrap_or(now);
            is_clean(&image.to_bytes(), true);
            let mut probe = Probe::mount_with(image, true, config.clone(), None);
            assert_eq!(*probe.store.state(), State::Serving);
            #[cfg(feature = "planted")]
            probe.store.check();
            let mut owner = asker(2 << 20, 1024, RIGHT);
            owner.fence(&mut probe).expect("it owns the volume");
            for (number, bytes) in now.kept.iter().filter(|kept| then.kept.contains(kept)) {
                let n = rng.below(24);
                assert_eq!(
                    read_at(&mut probe, &mut owner, *number, n),
                    bytes[n],
                    "block {n} of snapshot {number}"
                );
            }
            for n in 0..24 {
                let found = read_at(&mut probe, &mut owner, 0, n);
                assert!(found == now.now[n] || found == then.now[n], "block {n}: {found}");
            }
        });
        states += tally.states;
    }
    println!("{states} states, {pages} pages");
    assert!(states > 2_000 && pages > 10, "{states} states, {pages} pages");
}
