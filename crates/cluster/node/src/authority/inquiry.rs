//! What this node asks the metadata itself, where a fence is newer than its view.
//!
//! A watch may be late, or be begun anew, while calls go through. Then the store need not keep the volume waiting: the records
//! that the fence speaks of are read, linearizably, and the fence, which its owner repeats, is judged by them. Whoever sends such a
//! fence may lie, so each node costs the metadata no more than one transaction at a time, and a few in a second. An owner that takes
//! over the volumes of a node that died sends many fences at once: one transaction reads the records of many.

use super::{Known, judge_group, judge_volume};
use crate::token;
use crate::view::View;
use amita_metadata::{Call, Op, Reply};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::message::{FenceRequest, Refusal, Scope};
use amita_types::{GroupId, NodeId, VolumeId, map};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The number that no sequencer gets: the calls of this part carry it.
pub const AUTHORITY: u16 = u16::MAX - 3;
const _: () = assert!(
    AUTHORITY < crate::forwarder::FORWARDS,
    "sequencers' numbers end below all that are given away"
);
/// Between two reads for the fences of one node.
const PAUSE: Duration = Duration::from_millis(20);
/// A read that has not ended by then is not waited for: its answer was lost on the way here.
const PATIENCE: Duration = Duration::from_secs(10);
/// What was read so long ago is forgotten: the watch has brought it, or it is read again.
const KEPT: Duration = Duration::from_secs(10);
/// Volumes with a group each that one transaction reads: two keys each, of the 128 that etcd takes unless it is told otherwise
/// (`--max-txn-ops`).
const BATCH: usize = 60;
/// Of one node, fences whose records are still to be read; the oldest make way, and come again.
const MOST_WANTED: usize = 1024;
/// Of one node, volumes with a group each of which something is kept; the oldest make way.
const MOST_KEPT: usize = 4 * BATCH;

/// What a fence speaks of.
type What = (VolumeId, GroupId);

/// What was read of a volume and a group.
#[derive(Debug)]
struct Read {
    at: Time,
    what: What,
    volume: map::Volume,
    group: map::Group,
}

/// The reads for one node's fences.
#[derive(Debug, Default)]
struct Asker {
    /// When the last one began.
    at: Option<Time>,
    /// The one that is under way, and what it reads.
    call: Option<(CallId, Vec<What>)>,
    wanted: VecDeque<What>,
    read: VecDeque<Read>,
}

impl Asker {
    fn want(&mut self, what: What) {
        if self.wanted.contains(&what) {
            return;
        }
        if self.wanted.len() >= MOST_WANTED {
            self.wanted.pop_front();
        }
        self.wanted.push_back(what);
    }

    fn is_too_soon(&self, now: Time) -> bool {
        let wait = if self.call.is_some() { PATIENCE } else { PAUSE };
        self.at.is_some_and(|at| now < at.plus(wait))
    }

    fn keep(&mut self, read: Read) {
        self.read
            .retain(|kept| kept.what != read.what && read.at <= kept.at.plus(KEPT));
        if self.read.len() >= MOST_KEPT {
            self.read.pop_front();
        }
        self.read.push_back(read);
    }
}

/// The reads of one core.
#[derive(Debug)]
pub struct Inquiry {
    id_base: u64,
    count: u64,
    askers: BTreeMap<NodeId, Asker>,
}

impl Inquiry {
    /// Nothing was read yet.
    #[must_use]
    pub fn new(core: usize) -> Inquiry {
        Inquiry {
            id_base: token::id_base(core, AUTHORITY),
            count: 0,
            askers: BTreeMap::new(),
        }
    }

    /// The same as [`super::judge`], by what was read for this node. `Busy`: nothing was, or less than the fence knows.
    ///
    /// # Errors
    /// As those of [`super::judge`].
    pub fn judge(
        &self,
        now: Time,
        view: &View,
        from: NodeId,
        scope: &Scope,
        fence: &FenceRequest,
    ) -> Result<(), Refusal> {
        let what = (scope.volume, scope.group);
        let is_it = |read: &&Read| read.what == what && now <= read.at.plus(KEPT);
        let found = self.askers.get(&from).and_then(|asker| asker.read.iter().find(is_it));
        let Some(Read { volume, group, .. }) = found else {
            return Err(Refusal::Busy);
        };
        let known = Known::of_volume(view, volume).ok_or(Refusal::Busy)?;
        let known = known.with_group(group.epoch, &group.in_sync, &group.syncing);
        judge_volume(&known, from, scope, fence)?;
        judge_group(&known, scope, fence)
    }

    /// What a node's fence speaks of is to be read: by this call, with what else waits for it, if the node's turn has come. (A volume
    /// of which not even the name is known here is brought by the watch alone.)
    pub fn ask(&mut self, now: Time, view: &View, from: NodeId, scope: &Scope) -> Option<(CallId, Call)> {
        view.volume_of(scope.volume)?;
        let asker = self.askers.entry(from).or_default();
        asker.want((scope.volume, scope.group));
        if asker.is_too_soon(now) {
            return None;
        }
        let mut request = Call {
            compares: Vec::new(),
            then: Vec::new(),
            otherwise: Vec::new(),
        };
        let mut batch = Vec::new();
        while batch.len() < BATCH
            && let Some((volume, group)) = asker.wanted.pop_front()
        {
            let Some(record) = view.volume_of(volume) else {
                continue;
            };
            let keys = [map::volume_key(&record.name), map::group_key(group.pool, group.index)];
            request.then.extend(keys.map(|key| Op::Get { key }));
            batch.push((volume, group));
        }
        self.count += 1;
        let call = CallId(self.id_base | self.count & ((1 << 40) - 1));
        (asker.at, asker.call) = (Some(now), Some((call, batch)));
        Some((call, request))
    }

    /// A call has ended; `None`: it has failed, and the next fence asks again.
    pub fn answered(&mut self, now: Time, call: CallId, reply: Option<&Reply>) {
        let is_it = |asker: &&mut Asker| asker.call.as_ref().is_some_and(|(under_way, _)| *under_way == call);
        let Some(asker) = self.askers.values_mut().find(is_it) else {
            return;
        };
        let Some((_, batch)) = asker.call.take() else { return };
        let Some(reply) = reply else { return };
        for (index, what) in batch.into_iter().enumerate() {
            let volume = reply
                .value(2 * index)
                .and_then(|found| found.json::<map::Volume>().ok());
            let group = reply
                .value(2 * index + 1)
                .and_then(|found| found.json::<map::Group>().ok());
            // Another one may have its name meanwhile.
            if let (Some(volume), Some(group)) = (volume, group)
                && volume.id == what.0
                && group.index == what.1.index
            {
                asker.keep(Read {
                    at: now,
                    what,
                    volume,
                    group,
                });
            }
        }
    }
}
