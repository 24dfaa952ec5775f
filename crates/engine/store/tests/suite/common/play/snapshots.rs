//! The steps that take and drop snapshots, and make and delete volumes.

use super::game::{Game, Key, What};
use super::truth::{Deed, Retained, View};
use super::volume::Volume;
use amita_reactor::Slice;
use amita_types::message::{CloneRequest, Problem, RequestBody, RetainSnapshotsRequest};
use amita_types::{ChunkIndex, Generation, SnapshotId, VolumeId};

/// Volumes whose deletion takes its time do not count as one.
const MOST_VOLUMES_TIMES: usize = 2;

/// What comes of making a chunk of a clone.
enum Making {
    Made(Deed),
    Nothing,
    Refused(Problem),
    Busy,
}

impl Game {
    /// A snapshot is a number: the store sees it with the next change.
    pub fn snapshot(&mut self) {
        if let Some(id) = self.pick_volume(|volume| volume.alive) {
            let most = self.rules.snapshots;
            let volume = self.volume(id);
            if volume.live.len() >= most {
                return;
            }
            volume.newest += 1;
            volume.live.push(volume.newest);
            self.score.snapshots += 1;
        }
    }

    /// Snapshots are dropped, and chunks told what is to be kept.
    pub fn keep(&mut self) {
        let Some(id) = self.pick_volume(|volume| volume.fenced) else {
            return;
        };
        let (drop, at) = (self.rng.chance(2), self.rng.next());
        let volume = self.volume(id);
        if drop && !volume.live.is_empty() {
            volume.live.remove(at as usize % volume.live.len());
        }
        for _ in 0..1 + self.rng.below(3) {
            let key = (id, self.pick_chunk());
            self.keep_chunk(key);
        }
        self.forget_volumes();
    }

    /// Tells one chunk what is to be kept, of all its snapshots or of some.
    fn keep_chunk(&mut self, key: Key) {
        if self.chunk(key).keep.is_some() {
            return;
        }
        let whole = !self.rng.chance(4);
        if whole {
            return self.keep_all(key);
        }
        let (low, high) = (self.rng.next() as usize, self.rng.next() as u32);
        let volume = self.volume(key.0);
        let bounds: Vec<u32> = [0].into_iter().chain(volume.live.iter().copied()).collect();
        let above = bounds[low % bounds.len()];
        let to = above + high % (volume.newest - above + 1);
        self.send_retain(key, above, to);
    }

    fn keep_all(&mut self, key: Key) {
        if self.chunk(key).keep.is_none() {
            let newest = self.volume(key.0).newest;
            self.send_retain(key, 0, newest);
        }
    }

    fn send_retain(&mut self, key: Key, above: u32, to: u32) {
        let volume = self.volume(key.0);
        let live: Vec<u32> = volume.live.iter().copied().filter(|&k| above < k && k <= to).collect();
        let head = volume.alive;
        let request = volume.change(RequestBody::RetainSnapshots(RetainSnapshotsRequest {
            chunk: ChunkIndex(key.1),
            head,
            above: SnapshotId(above),
            to: SnapshotId(to),
            live: live.iter().map(|&k| SnapshotId(k)).collect(),
        }));
        let chunk = self.chunk(key);
        chunk.sent += 1;
        let number = chunk.sent;
        chunk.send_retain(Retained {
            number,
            head,
            above,
            to,
            live,
        });
        let what = What::RetainSnapshots(key);
        self.score.keeps += 1;
        self.send(request, Slice::default(), what);
    }

    /// A volume is deleted; its snapshots are not.
    pub fn delete_volume(&mut self) {
        if self.volumes.iter().filter(|volume| volume.writable()).count() < 2 {
            return;
        }
        let Some(id) = self.pick_volume(Volume::writable) else {
            return;
        };
        self.volume(id).alive = false;
        self.score.volumes_deleted += 1;
        for chunk in 0..self.rules.chunks {
            self.keep_chunk((id, chunk));
        }
    }

    /// All volumes and snapshots are dropped: nothing is left, and all space returns.
    pub fn drop_everything(&mut self) {
        self.settle();
        for _ in 0..100 {
            let ids: Vec<VolumeId> = self
                .volumes
                .iter()
                .filter(|volume| volume.fenced)
                .map(|v| v.id)
                .collect();
            for id in ids {
                let volume = self.volume(id);
                volume.alive = false;
                volume.live.clear();
                for chunk in 0..self.rules.chunks {
                    self.keep_all((id, chunk));
                }
            }
            self.settle();
            self.forget_volumes();
            if self.volumes.iter().all(|volume| !volume.fenced) {
                break;
            }
        }
        assert!(
            self.chunks.values().all(|chunk| !chunk.held.exists()),
            "something is never dropped"
        );
        self.settle_and_mark();
        let status = self.rig.store.status();
        assert_eq!((status.chunks, status.blocks), (0, 0), "nothing is left");
        assert_eq!(status.free_bytes, status.capacity_bytes, "all space returns");
    }

    /// A volume of which nothing is left is not spoken of any more.
    fn forget_volumes(&mut self) {
        let chunks = &self.chunks;
        let empty = |id: VolumeId| {
            let mut own = chunks.range((id, 0)..=(id, u64::MAX));
            own.all(|(_, chunk)| !chunk.held.exists() && chunk.is_idle())
        };
        let gone: Vec<VolumeId> = self
            .volumes
            .iter()
            .filter(|volume| !volume.alive && volume.live.is_empty() && volume.next.is_none() && empty(volume.id))
            .map(|volume| volume.id)
            .collect();
        if !gone.is_empty() {
            self.chunks.retain(|(id, _), _| !gone.contains(id));
            self.asked.retain(|_, asked| !gone.contains(&asked.volume));
            self.volumes.retain(|volume| !gone.contains(&volume.id));
        }
    }

    /// A new volume: of somebody's snapshot, or empty.
    pub fn clone_volume(&mut self) {
        let alive = self.volumes.iter().filter(|volume| volume.alive).count();
        if alive >= self.rules.volumes || self.volumes.len() >= MOST_VOLUMES_TIMES * self.rules.volumes {
            return;
        }
        let Some(parent) = self.pick_volume(|volume| !volume.live.is_empty()) else {
            return self.new_volume(None);
        };
        let at = self.rng.next() as usize;
        let live = &self.volume(parent).live;
        let at = live[at % live.len()];
        self.new_volume(Some((parent, at)));
    }

    pub fn new_volume(&mut self, origin: Option<(VolumeId, u32)>) {
        let id = VolumeId(self.next_volume);
        self.next_volume += 1;
        // A clone begins with its origin's generation, if nobody forgets it.
        let generation = match origin {
            Some((parent, _)) if !self.rng.chance(8) => self.volume(parent).owner.generation,
            _ => Generation(1),
        };
        let owner = self.asker(id, generation);
        self.volumes.push(Volume::new(owner, origin));
        self.fence(id);
    }

    /// A clone's chunk is made before it is used.
    pub fn make_chunk(&mut self, key: Key) {
        let Some((origin, at)) = self.volume(key.0).origin else {
            return;
        };
        let Some(making) = self.making(key, (origin, key.1), at) else {
            return;
        };
        let request = self.volume(key.0).change(RequestBody::Clone(CloneRequest {
            chunk: ChunkIndex(key.1),
            origin,
            at: SnapshotId(at),
        }));
        let what = match making {
            Making::Made(deed) => {
                let number = self.chunk(key).send(&deed, request.clone(), Slice::default());
                self.score.clones += 1;
                What::Deed {
                    key,
                    number,
                    again: false,
                    blocks: 0,
                    covered: 0,
                }
            }
            Making::Nothing => What::NothingToMake(key),
            Making::Refused(problem) => What::Invalid(problem, Some(key)),
            Making::Busy => What::Busy,
        };
        self.send(request, Slice::default(), what);
    }

    /// `None`: it cannot be foretold.
    fn making(&mut self, key: Key, origin: Key, at: u32) -> Option<Making> {
        let generation = self.volume(key.0).owner.generation;
        if self.chunk(key).accepted().exists() {
            return Some(Making::Nothing);
        }
        // A volume of which nothing is left is not known any more.
        let Some(chunk) = self.chunks.get(&origin) else {
            return Some(Making::Nothing);
        };
        let held = &chunk.held;
        if held.exists() && at <= held.born {
            return Some(Making::Nothing);
        }
        if at > held.snap && !chunk.pending.is_empty() {
            return Some(Making::Busy);
        }
        let mut views = held.views(at);
        let view = views.pop()?;
        views.is_empty().then(|| match view {
            View::Unwritten => Making::Nothing,
            View::Gone => Making::Refused(Problem::Snapshot),
            View::Content(blocks) if blocks.version.generation() > generation => Making::Refused(Problem::Version),
            View::Content(blocks) => Making::Made(Deed::Clone(blocks)),
        })
    }
}
