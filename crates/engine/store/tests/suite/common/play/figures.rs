//! What the store counts of each volume is what the model holds, block for block.

use super::super::model::Blocks;
use super::game::{Game, Key};
use super::truth::{Held, View};
use amita_store::{AskedVolume, Count, Question, VolumeFigures};
use amita_types::{GroupIndex, SnapshotId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// A block's data: all that is written is different, so what clones share is the same.
type Data = *const Vec<u8>;
/// The chunks that have some data, whatever for.
type Users = BTreeMap<Data, BTreeSet<Key>>;

impl Game {
    /// At rest: the volumes' figures.
    pub fn compare_figures(&mut self) {
        let mut volumes: Vec<AskedVolume> = self
            .volumes
            .iter()
            .map(|volume| {
                let origins: BTreeSet<_> = self.volumes.iter().filter_map(|clone| clone.origin).collect();
                let is_pinned = |live: &&u32| origins.contains(&(volume.id, **live));
                AskedVolume {
                    volume: volume.id,
                    place: None,
                    live: volume.live.iter().copied().map(SnapshotId).collect(),
                    pinned: volume.live.iter().filter(is_pinned).copied().map(SnapshotId).collect(),
                    parents: volume
                        .origin
                        .into_iter()
                        .map(|(origin, at)| (origin, SnapshotId(at)))
                        .collect(),
                }
            })
            .collect();
        volumes.sort_by_key(|asked| asked.volume);
        // Clones are asked about with and without what they come from.
        let turn = self.figures_asked;
        volumes.retain(|asked| turn.is_multiple_of(2) || (asked.volume.0 + turn / 2).is_multiple_of(2));
        let mut users = Users::new();
        for (key, chunk) in &self.chunks {
            for data in views_of(&chunk.held).flat_map(|blocks| blocks.data()) {
                users.entry(Rc::as_ptr(data)).or_default().insert(*key);
            }
        }
        let mut expected: Vec<VolumeFigures> = Vec::new();
        for asked in &volumes {
            let inherited = self.expected_inherited(asked);
            let mut figures = self.expected_figures(asked, &users);
            (figures.used, figures.held) = (figures.used + inherited, figures.held + inherited);
            self.score.figures_inherited += inherited;
            expected.push(figures);
        }
        self.figures_asked += 1;
        let question = Arc::new(Question {
            number: self.figures_asked,
            groups: 1,
            speaks_for: [GroupIndex(0)].into_iter().collect(),
            volumes: volumes.into(),
        });
        let reads = self.rig.store.status().counters.leaf_reads;
        loop {
            match self.rig.store.count(self.rig.now, &question) {
                Count::Counting { .. } => {}
                Count::Done(found) => {
                    assert_eq!(&found[..], expected, "the figures are not what the model holds");
                    let of_all = found.iter().flat_map(|figures| &figures.users);
                    self.score.figures_shared += of_all.filter(|(users, _)| *users > 1).count() as u64;
                    break;
                }
                Count::Unknown(why) => {
                    assert!(self.rots(), "nothing is damaged, and it is said: {why}");
                    break;
                }
                Count::Busy => panic!("nobody else asks"),
            }
            self.rig.run();
            if let Some(at) = self.rig.store.deadline() {
                self.rig.now = self.rig.now.max(at);
            }
        }
        self.score.figures_compared += 1;
        self.score.figures_read += self.rig.store.status().counters.leaf_reads - reads;
    }

    /// What a clone has in chunks that it has not made.
    fn expected_inherited(&self, asked: &AskedVolume) -> u64 {
        let mut count = 0;
        for &(origin, at) in &asked.parents {
            for (&(_, index), chunk) in self.chunks.iter().filter(|(key, _)| key.0 == origin) {
                let made = self.chunks.get(&(asked.volume, index));
                if made.is_some_and(|made| made.held.exists()) || at.0 <= chunk.held.born {
                    continue;
                }
                let views = chunk.held.views(at.0);
                assert_eq!(views.len(), 1, "nothing is under way");
                if let [View::Content(blocks)] = &views[..] {
                    count += blocks.data().count() as u64;
                }
            }
        }
        count
    }

    fn expected_figures(&self, asked: &AskedVolume, all_users: &Users) -> VolumeFigures {
        let mut figures = VolumeFigures {
            volume: asked.volume,
            ..VolumeFigures::default()
        };
        let mut unique: BTreeMap<SnapshotId, u64> = BTreeMap::new();
        let mut users: BTreeMap<u32, u64> = BTreeMap::new();
        let chunks = self.chunks.iter().filter(|(key, _)| key.0 == asked.volume);
        for (_, chunk) in chunks {
            let held: &Held = &chunk.held;
            // Who has a block's data: the head (none), or a snapshot.
            let mut owners: BTreeMap<Data, Vec<Option<SnapshotId>>> = BTreeMap::new();
            for state in &held.states {
                let stands_for = |live: &&SnapshotId| state.above < live.0 && live.0 <= state.to;
                for data in state.blocks.data() {
                    let owners = owners.entry(Rc::as_ptr(data)).or_default();
                    owners.extend(asked.live.iter().filter(stands_for).copied().map(Some));
                }
            }
            for data in held.head.iter().flat_map(|head| head.data()) {
                owners.entry(Rc::as_ptr(data)).or_default().push(None);
                figures.used += 1;
            }
            for (data, owners) in &owners {
                let sharers = all_users[data].len();
                *users.entry(sharers as u32).or_default() += 1;
                let is_own = sharers == 1;
                match owners[..] {
                    [] => figures.freeing += u64::from(is_own),
                    [Some(only)] if is_own && !asked.pinned.contains(&only) => *unique.entry(only).or_default() += 1,
                    _ => {}
                }
                figures.held += u64::from(!owners.is_empty());
                figures.own += u64::from(is_own && !owners.is_empty());
            }
        }
        if !asked.pinned.is_empty() {
            figures.own = 0;
        }
        figures.unique = unique.into_iter().collect();
        figures.users = users.into_iter().collect();
        figures
    }
}

/// The head and the states.
fn views_of(held: &Held) -> impl Iterator<Item = &Rc<Blocks>> {
    held.head.iter().chain(held.states.iter().map(|state| &state.blocks))
}
