//! At rest, after a takeover and after a crash: everything is compared.

use super::super::check::is_clean;
use super::super::{BLOCK, Disk, Requester, Rig, Rng, Told};
use super::game::{Asked, Game, Key, What};
use super::question::{Ask, Question, Said};
use super::truth::Held;
use amita_reactor::{Slice, Time};
use amita_store::State;
use amita_types::message::{AnswerBody, ChangesAnswer, OpenedAnswer, Refusal};
use amita_types::{Generation, SnapshotId, Version, VolumeId};
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::time::Duration;

/// Of so many snapshots of a chunk, chosen among those at which something changes, the contents are compared.
const MOST_SNAPSHOTS: usize = 8;

impl Game {
    /// Another owner takes a volume over; the old one goes on until it is told.
    pub fn take_over(&mut self) {
        if let Some(id) = self.pick_volume(|volume| volume.next.is_none()) {
            self.fence(id);
        }
    }

    /// Sends the fence of a volume's next owner, or of its first.
    pub fn fence(&mut self, id: VolumeId) {
        let parent = self.volume(id).origin.map(|(parent, _)| parent);
        let least = self
            .volumes
            .iter()
            .find(|volume| Some(volume.id) == parent)
            .map_or(Generation(1), |parent| parent.owner.generation);
        let volume = self.volume(id);
        if volume.next.is_some() {
            return;
        }
        let generation = if volume.fenced {
            volume.owner.generation.next().expect("few takeovers").max(least)
        } else {
            volume.owner.generation
        };
        let mut next = self.asker(id, generation);
        let request = next.fence_request();
        let (link, number) = (next.link, request.id);
        self.say(|| format!("    {link:?} asks {number}: fence of {id} for {generation}"));
        self.volume(id).next = Some((next, number));
        let asked = Asked {
            volume: id,
            generation,
            what: What::Fence,
        };
        self.asked.insert((link, number), asked);
        self.rig.send(link, request, Slice::default());
        self.listen();
    }

    /// Everything ends; nothing may be missing, and no slot lost.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            self.rig.run();
            self.listen();
            if self.volumes.iter().all(|volume| volume.next.is_none()) {
                break;
            }
            let at = self.rig.store.deadline().expect("a fence waits for something");
            self.rig.now = self.rig.now.max(at);
            self.rig.store.tick(self.rig.now);
            self.rig.pump();
        }
        for (key, chunk) in &self.chunks {
            assert!(
                chunk.is_idle(),
                "{key:?} has {} changes that never end, or something to drop",
                chunk.pending.len()
            );
        }
        let doubtful = self.chunks.iter().filter(|(_, chunk)| chunk.held.doubtful().is_some());
        let doubtful: Vec<Key> = doubtful.map(|(key, _)| *key).collect();
        for key in doubtful {
            let mut candidates = vec![self.chunk(key).held.clone()];
            self.resolve(key, &mut candidates);
            self.chunk(key).settle(candidates.swap_remove(0));
        }
        self.compare_space();
    }

    /// Looks whether what was to be dropped, and may be gone or not, is gone.
    fn resolve(&mut self, key: Key, candidates: &mut Vec<Rc<Held>>) {
        while let Some(k) = candidates.iter().find_map(|held| held.doubtful()) {
            let told = self.narrow(key, k, Ask::Open, candidates);
            let there = matches!(told.answer.result, Ok(AnswerBody::Opened(OpenedAnswer { version, incomplete: None, .. })) if version > Version::NONE);
            for held in candidates.iter_mut() {
                Rc::make_mut(held).resolve(k, there);
            }
        }
    }

    /// As [`Game::settle`], and some of what there is compared.
    pub fn settle_and_compare(&mut self) {
        self.settle();
        if self.rules.name == "restores" && self.rng.chance(3) {
            self.restore_all();
        }
        if self.rng.chance(4) {
            self.compare_all(false);
        }
    }

    /// The store is idle for so long that it says in the log what is verified.
    pub fn settle_and_mark(&mut self) {
        self.settle();
        let idle = self.rules.config.idle_mark_after;
        for _ in 0..2 {
            self.rig.advance(idle + Duration::from_millis(1));
            self.rig.run();
            self.listen();
        }
    }

    fn compare_space(&mut self) {
        let status = self.rig.store.status();
        let mut slots = HashSet::new();
        for chunk in self.chunks.values() {
            chunk.held.slots(&mut slots);
        }
        let used = (status.capacity_bytes - status.free_bytes) / BLOCK as u64;
        assert_eq!(status.blocks, slots.len() as u64, "slots are lost, or used twice");
        assert_eq!(
            used,
            status.blocks + status.leaf_pages,
            "slots are neither used nor free"
        );
        self.score.space_compared += 1;
        self.compare_figures();
    }

    /// The power fails, or the process is killed; now and then again while the store is being mounted.
    pub fn crash(&mut self) {
        self.listen();
        self.count();
        self.score.crashes += 1;
        self.asked.clear();
        let fail = |rig: &Rig, rng: &mut Rng| {
            if rng.chance(3) {
                return rig.killed(rng);
            }
            Disk::new(rig.cut(rng), rig.disk.volatile)
        };
        let mut disk = fail(&self.rig, &mut self.rng);
        loop {
            is_clean(&disk.view, !self.rots());
            let mut rig = self.rig.reopened_on(disk);
            rig.pump();
            if self.rng.chance(4) {
                for _ in 0..self.rng.below(12) {
                    if !rig.flights.is_empty() {
                        rig.complete(0);
                    }
                }
                disk = fail(&rig, &mut self.rng);
                continue;
            }
            rig.run();
            assert_eq!(*rig.store.state(), State::Serving);
            self.rig = rig;
            break;
        }
        let report = self.rig.store.status().mount;
        self.say(|| format!("    mounted: {report:?}"));
        self.score.ended_short += u64::from(report.ended_short);
        self.score.batches_dropped += report.batches_dropped;
        let ids: Vec<VolumeId> = self.volumes.iter().map(|volume| volume.id).collect();
        let mounted = self.rig.now;
        let probed = self.rng.below(ids.len());
        for (at, id) in ids.into_iter().enumerate() {
            self.own_again(id, at == probed, mounted);
        }
        self.compare_all(true);
    }

    /// A volume's owner comes back after a crash, or another one comes.
    fn own_again(&mut self, id: VolumeId, probe: bool, mounted: Time) {
        let volume = self.volume(id);
        let (known, fenced) = (volume.owner.generation, volume.fenced);
        let tried = volume.next.take().map(|(asker, _)| asker.generation);
        if probe && fenced && known > Generation(1) {
            // Rule R2: what the store has seen of ownership, it has seen for ever.
            let mut old = self.asker(id, Generation(known.0 - 1));
            let answer = old.fence(&mut self.rig);
            let right = matches!(&answer, Err(Refusal::Fenced { generation }) if *generation == known || Some(*generation) == tried);
            assert!(right, "an owner of before is answered with {answer:?}");
        }
        let newest = tried.unwrap_or(known).max(known);
        let newer = fenced && self.rng.chance(2);
        let generation = if newer {
            newest.next().expect("few takeovers")
        } else {
            newest
        };
        let mut owner = self.asker(id, generation);
        match owner.fence(&mut self.rig) {
            Ok(body) => assert_eq!(body, AnswerBody::Fenced),
            Err(Refusal::Busy | Refusal::NoSpace) if !fenced => return,
            Err(refusal) => panic!("the store knows this owner of {id} or an older one, and says {refusal:?}"),
        }
        let waited = self.rig.now.since(mounted);
        assert!(!newer || waited >= self.rules.config.lease, "rule R4 after a start");
        self.volume(id).owned_by(owner);
    }

    /// Compares every chunk and its snapshots, block for block. After a crash the first look says how far it came.
    pub fn compare_all(&mut self, crashed: bool) {
        let keys: Vec<Key> = self.chunks.keys().copied().collect();
        for key in keys {
            if self.volumes.iter().any(|volume| volume.id == key.0 && volume.fenced) {
                self.compare_chunk(key, crashed);
            }
        }
        if crashed {
            self.compare_space_at_rest();
        }
    }

    fn compare_space_at_rest(&mut self) {
        self.rig.run();
        self.listen();
        self.compare_space();
    }

    fn compare_chunk(&mut self, key: Key, crashed: bool) {
        let mut candidates = if crashed {
            self.chunk(key).candidates()
        } else {
            vec![self.chunk(key).held.clone()]
        };
        self.resolve(key, &mut candidates);
        let edges: BTreeSet<u32> = candidates
            .iter()
            .flat_map(|held| held.edges().collect::<Vec<_>>())
            .collect();
        let edges: Vec<u32> = edges.into_iter().collect();
        let skipped = edges.len().saturating_sub(MOST_SNAPSHOTS);
        for (at, snapshot) in edges.into_iter().enumerate() {
            self.narrow(key, snapshot, Ask::Open, &mut candidates);
            if at > 0 && skipped > 0 && self.rng.below(MOST_SNAPSHOTS + skipped) >= MOST_SNAPSHOTS {
                continue;
            }
            self.score.states_compared += 1;
            self.narrow(key, snapshot, Ask::Allocation, &mut candidates);
            self.compare_changes(key, snapshot, &mut candidates);
            self.compare_blocks(key, snapshot, &mut candidates);
        }
        let found = candidates.swap_remove(0);
        if crashed {
            self.chunk(key).settle(found);
        }
        self.score.chunks_compared += 1;
    }

    fn compare_changes(&mut self, key: Key, snapshot: u32, candidates: &mut Vec<Rc<Held>>) {
        let mut from = Some(0);
        while let Some(block) = from {
            let since = Version::NONE;
            let told = self.narrow(key, snapshot, Ask::Changes { since, from: block }, candidates);
            from = match told.answer.result {
                Ok(AnswerBody::Changes(ChangesAnswer { more, .. })) => more.map(|block| block.0),
                _ => None,
            };
        }
    }

    fn compare_blocks(&mut self, key: Key, snapshot: u32, candidates: &mut Vec<Rc<Held>>) {
        let blocks = self.rules.blocks_per_chunk;
        let piece = blocks.min(32);
        for first in (0..blocks).step_by(usize::from(piece)) {
            // Most of a wide chunk was never written.
            if blocks > 64 && first % 64 != 0 && first % 64 + piece < 64 && !self.rng.chance(4) {
                continue;
            }
            let told = self.narrow(key, snapshot, Ask::Read { first, count: piece }, candidates);
            if matches!(told.answer.result, Err(Refusal::Damaged { .. })) {
                for block in first..first + piece {
                    self.narrow(key, snapshot, Ask::Read { first: block, count: 1 }, candidates);
                }
            }
        }
    }

    /// Asks, and keeps the candidates that give the same answer: one must be left.
    fn narrow(&mut self, key: Key, snapshot: u32, ask: Ask, candidates: &mut Vec<Rc<Held>>) -> Told {
        let question = Question {
            snapshot,
            least: Version::NONE,
            ask,
        };
        let mut asker: Requester = self.volume(key.0).owner.clone();
        let mut request = asker.request(question.body(key.1));
        request.scope.snapshot = SnapshotId(snapshot);
        let told = asker.ask(&mut self.rig, request, Slice::default());
        self.volume(key.0).owner = asker;
        let before: Vec<Version> = candidates.iter().map(|held| held.version()).collect();
        let result = &told.answer.result;
        if let Err(Refusal::Damaged { block }) = result
            && self.rots()
        {
            self.compare_damage(key, snapshot, *block, candidates);
            return told;
        }
        let said = Said {
            result,
            payload: &told.payload,
        };
        candidates.retain(|held| question.fits(held, &said));
        assert!(
            !candidates.is_empty(),
            "{key:?}: {question:?} is answered with {result:?}; it should be at one of {before:?}"
        );
        told
    }
}
