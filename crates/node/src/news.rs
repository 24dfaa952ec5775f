//! What a core tells the cluster: how far the stores have come that it brings up to date, and which stores it finds slow.
//!
//! Two records a core (`/amita/progress/NODE/CORE` and `/amita/health/NODE/CORE`), written every few seconds while there is
//! something to say and deleted when there is not. Where one node finds a store slow, the others that have asked it enough
//! say what they find: the coordinator goes by the majority. A write that fails is made up for by the next.

use crate::shards::Shards;
use crate::token;
use crate::view::View;
use amita_cluster::NodeId;
use amita_cluster::recovery::{HealthReport, Progress, StoreProgress, health_key, progress_key};
use amita_meta::{Call, Op};
use amita_reactor::driver::Time;
use amita_volume::CallId;
use std::time::Duration;

/// The number that no sequencer gets: the calls of this part carry it.
pub const NEWS: u16 = u16::MAX - 1;
/// Between two writes of a record.
const PAUSE: Duration = Duration::from_secs(2);
/// Between two reports on stores: a third of the age at which one counts no more.
const HEALTH_PAUSE: Duration = Duration::from_secs(5);
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
    health_told: bool,
    health_due: Time,
    health_slow: usize,
    beat: u64,
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
            health_told: true,
            health_due: Time(0),
            health_slow: 0,
            beat: 0,
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
            (self.progress_told, self.health_told) = (true, true);
            self.due.get_or_insert(now.plus(PAUSE));
        }
    }

    /// What is to be written now.
    pub fn tick(&mut self, now: Time, shards: &mut Shards, view: &View) -> Option<(CallId, Call)> {
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.due = None;
        let mut call = Call::default();
        self.tell_progress(now, shards, &mut call);
        self.tell_health(now, shards, view, &mut call);
        if call.then.is_empty() {
            return None;
        }
        self.calls += 1;
        let number = token::id_base(self.core, NEWS) | self.calls & ((1 << 40) - 1);
        Some((CallId(number), call))
    }

    fn due_at(&mut self, at: Time) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn tell_health(&mut self, now: Time, shards: &mut Shards, view: &View, call: &mut Call) {
        let stores = shards.health(now, &view.accused());
        let key = health_key(self.node, self.core);
        if stores.is_empty() {
            if std::mem::take(&mut self.health_told) {
                call.then.push(Op::Delete { key });
            }
            return;
        }
        let slow = stores.iter().filter(|found| found.slow).count();
        if now >= self.health_due || !self.health_told || slow != self.health_slow {
            self.health_due = now.plus(HEALTH_PAUSE);
            self.health_told = true;
            self.health_slow = slow;
            self.beat += 1;
            let beat = self.beat;
            let value = serde_json::to_vec(&HealthReport { beat, stores }).expect("plain data");
            call.then.push(Op::Put {
                key,
                value,
                lease: None,
            });
        }
        self.due_at(self.health_due);
    }

    fn tell_progress(&mut self, now: Time, shards: &Shards, call: &mut Call) {
        let mut stores: Vec<StoreProgress> = Vec::new();
        for (volume, sequencer) in shards.each() {
            stores.extend(sequencer.progress(now).map(|found| StoreProgress {
                volume,
                store: found.store,
                groups: found.groups,
                groups_listed: found.groups_listed,
                groups_done: found.groups_done,
                chunks_listed: found.chunks_listed,
                chunks_to_do: found.chunks_to_do,
                chunks_done: found.chunks_done,
                bytes_moved: found.bytes_moved,
                elapsed_ms: found.ended.unwrap_or(now).since(found.began).as_millis() as u64,
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
        self.due_at(now.plus(PAUSE));
        let value = serde_json::to_vec(&Progress { stores }).expect("plain data");
        call.then.push(Op::Put {
            key,
            value,
            lease: None,
        });
    }
}
