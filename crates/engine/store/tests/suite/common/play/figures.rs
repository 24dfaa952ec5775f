//! What the store counts of each volume is what the model holds, block for block.

use super::game::Game;
use super::truth::Held;
use amita_store::{AskedVolume, Count, Question, VolumeFigures};
use amita_types::{GroupIndex, SnapshotId};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

impl Game {
    /// At rest: the volumes' figures.
    pub fn compare_figures(&mut self) {
        let mut volumes: Vec<AskedVolume> = self
            .volumes
            .iter()
            .map(|volume| AskedVolume {
                volume: volume.id,
                place: None,
                live: volume.live.iter().copied().map(SnapshotId).collect(),
            })
            .collect();
        volumes.sort_by_key(|asked| asked.volume);
        let expected: Vec<VolumeFigures> = volumes.iter().map(|asked| self.expected_figures(asked)).collect();
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

    fn expected_figures(&self, asked: &AskedVolume) -> VolumeFigures {
        let mut figures = VolumeFigures {
            volume: asked.volume,
            ..VolumeFigures::default()
        };
        let mut unique: BTreeMap<SnapshotId, u64> = BTreeMap::new();
        let chunks = self.chunks.iter().filter(|(key, _)| key.0 == asked.volume);
        for (_, chunk) in chunks {
            let held: &Held = &chunk.held;
            // Who has a block's data: the head (none), or a snapshot.
            let mut owners: BTreeMap<*const Vec<u8>, Vec<Option<SnapshotId>>> = BTreeMap::new();
            for state in &held.states {
                let stands_for = |live: &&SnapshotId| state.above < live.0 && live.0 <= state.to;
                for data in state.blocks.blocks.iter().filter_map(|(data, _)| data.as_ref()) {
                    let owners = owners.entry(Rc::as_ptr(data)).or_default();
                    owners.extend(asked.live.iter().filter(stands_for).copied().map(Some));
                }
            }
            for data in held
                .head
                .iter()
                .flat_map(|head| &head.blocks)
                .filter_map(|(data, _)| data.as_ref())
            {
                owners.entry(Rc::as_ptr(data)).or_default().push(None);
                figures.used += 1;
            }
            for owners in owners.values() {
                match owners[..] {
                    [] => figures.freeing += 1,
                    [Some(only)] => *unique.entry(only).or_default() += 1,
                    _ => {}
                }
                figures.held += u64::from(!owners.is_empty());
            }
        }
        figures.unique = unique.into_iter().collect();
        figures
    }
}
