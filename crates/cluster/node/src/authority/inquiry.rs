//! What this node asks the metadata itself, where a fence is newer than its view.
//!
//! A watch may be late, or be begun anew, while calls go through. Then the store need not keep the volume waiting: the records
//! that the fence speaks of are read, linearizably, and the fence, which its owner repeats, is judged by them. Whoever sends such a
//! fence may lie, so each node costs the metadata no more than one read at a time, and a few in a second.

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
/// Volumes and groups of which something is kept; the oldest make way.
const MOST_KEPT: usize = 256;

/// What was read of a volume and a group.
#[derive(Debug)]
struct Read {
    at: Time,
    what: (VolumeId, GroupId),
    volume: map::Volume,
    group: map::Group,
}

/// A read for a node's fences.
#[derive(Debug)]
struct Asked {
    at: Time,
    /// The call that is under way.
    call: Option<CallId>,
    what: (VolumeId, GroupId),
}

/// The reads of one core.
#[derive(Debug)]
pub struct Inquiry {
    id_base: u64,
    count: u64,
    asked: BTreeMap<NodeId, Asked>,
    read: VecDeque<Read>,
}

impl Inquiry {
    /// Nothing was read yet.
    #[must_use]
    pub fn new(core: usize) -> Inquiry {
        Inquiry {
            id_base: token::id_base(core, AUTHORITY),
            count: 0,
            asked: BTreeMap::new(),
            read: VecDeque::new(),
        }
    }

    /// The same as [`super::judge`], by what was read. `Busy`: nothing was, or less than the fence knows.
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
        let Some(Read { volume, group, .. }) = self.read.iter().find(is_it) else {
            return Err(Refusal::Busy);
        };
        // What a pool is never changes.
        let (Some(pool), Some(chunk_bytes)) = (view.pool_of(&volume.pool), view.chunk_bytes(&volume.pool)) else {
            return Err(Refusal::Busy);
        };
        let known = Known {
            generation: volume.generation,
            owner: volume.owner,
            pool,
            chunk_bytes,
            epoch: group.epoch,
            in_sync: &group.in_sync,
            syncing: &group.syncing,
        };
        judge_volume(&known, from, scope, fence)?;
        judge_group(&known, scope, fence)
    }

    /// What a node's fence speaks of is to be read: by this call, if the node's turn has come. (A volume of which not even the name
    /// is known here is brought by the watch alone.)
    pub fn ask(&mut self, now: Time, view: &View, from: NodeId, scope: &Scope) -> Option<(CallId, Call)> {
        let name = &view.volume_of(scope.volume)?.name;
        let is_too_soon = |asked: &Asked| {
            let wait = if asked.call.is_some() { PATIENCE } else { PAUSE };
            now < asked.at.plus(wait)
        };
        if self.asked.get(&from).is_some_and(is_too_soon) {
            return None;
        }
        self.count += 1;
        let call = CallId(self.id_base | self.count & ((1 << 40) - 1));
        let what = (scope.volume, scope.group);
        let asked = Asked {
            at: now,
            call: Some(call),
            what,
        };
        self.asked.insert(from, asked);
        let mut request = Call::get(map::volume_key(name));
        request.then.push(Op::Get {
            key: map::group_key(scope.group.pool, scope.group.index),
        });
        Some((call, request))
    }

    /// A call has ended; `None`: it has failed, and the next fence asks again.
    pub fn answered(&mut self, now: Time, call: CallId, reply: Option<&Reply>) {
        let Some(asked) = self.asked.values_mut().find(|asked| asked.call == Some(call)) else {
            return;
        };
        asked.call = None;
        let what = asked.what;
        let Some(reply) = reply else { return };
        let volume = reply.value(0).and_then(|found| found.json::<map::Volume>().ok());
        let group = reply.value(1).and_then(|found| found.json::<map::Group>().ok());
        let (Some(volume), Some(group)) = (volume, group) else {
            return;
        };
        if volume.id != what.0 || group.index != what.1.index {
            // Another one has its name meanwhile.
            return;
        }
        self.read.retain(|read| read.what != what && now <= read.at.plus(KEPT));
        if self.read.len() >= MOST_KEPT {
            self.read.pop_front();
        }
        self.read.push_back(Read {
            at: now,
            what,
            volume,
            group,
        });
    }
}
