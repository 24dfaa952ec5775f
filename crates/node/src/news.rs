//! What a core tells the cluster of its background work: how far the stores have come that it brings up to date.
//!
//! One record a core (`/amita/progress/NODE/CORE`), written every two seconds while there is something to say and deleted
//! when there is not. It is news for people, and nothing rests on it: a write that fails is made up for by the next.

use crate::shards::Shards;
use crate::token;
use amita_cluster::NodeId;
use amita_cluster::recovery::{Progress, StoreProgress, progress_key};
use amita_meta::{Call, Op};
use amita_reactor::driver::Time;
use amita_volume::CallId;
use std::time::Duration;

/// The number that no sequencer gets: the calls of this part carry it.
pub const NEWS: u16 = u16::MAX - 1;
/// Between two writes of a record.
const PAUSE: Duration = Duration::from_secs(2);
/// After the first word of something new: short work needs no record.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The news of one core.
#[derive(Debug)]
pub struct News {
    node: NodeId,
    core: usize,
    calls: u64,
    due: Option<Time>,
    /// There may be a record: at the start, one of the process before us.
    progress_told: bool,
}

impl News {
    /// Of this core.
    #[must_use]
    pub fn new(node: NodeId, core: usize) -> News {
        News {
            node,
            core,
            calls: 0,
            due: Some(Time(0)),
            progress_told: true,
        }
    }

    /// There may be something to tell.
    pub fn stir(&mut self, now: Time) {
        self.due.get_or_insert(now.plus(FIRST_PAUSE));
    }

    /// When [`News::tick`] is wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.due
    }

    /// A call has ended.
    pub fn ended(&mut self, now: Time, done: bool) {
        if !done {
            self.progress_told = true;
            self.due.get_or_insert(now.plus(PAUSE));
        }
    }

    /// What is to be written now.
    pub fn tick(&mut self, now: Time, shards: &Shards) -> Option<(CallId, Call)> {
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.due = None;
        let mut call = Call::default();
        self.tell_progress(now, shards, &mut call);
        if call.then.is_empty() {
            return None;
        }
        self.calls += 1;
        let number = token::id_base(self.core, NEWS) | self.calls & ((1 << 40) - 1);
        Some((CallId(number), call))
    }

    fn tell_progress(&mut self, now: Time, shards: &Shards, call: &mut Call) {
        let mut stores: Vec<StoreProgress> = Vec::new();
        for (volume, sequencer) in shards.each() {
            stores.extend(sequencer.progress().map(|found| StoreProgress {
                volume,
                store: found.store,
                groups: found.groups,
                groups_listed: found.groups_listed,
                groups_done: found.groups_done,
                chunks_listed: found.chunks_listed,
                chunks_to_do: found.chunks_to_do,
                chunks_done: found.chunks_done,
                bytes_moved: found.bytes_moved,
                elapsed_ms: now.since(found.began).as_millis() as u64,
            }));
        }
        stores.sort_unstable_by_key(|found| (found.volume, found.store));
        let key = progress_key(self.node, self.core);
        if stores.is_empty() {
            if std::mem::take(&mut self.progress_told) {
                call.then.push(Op::Delete { key });
            }
            return;
        }
        self.progress_told = true;
        self.due = Some(now.plus(PAUSE));
        let value = serde_json::to_vec(&Progress { stores }).expect("plain data");
        call.then.push(Op::Put {
            key,
            value,
            lease: None,
        });
    }
}
