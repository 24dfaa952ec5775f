//! What a core tells the cluster: how far the stores have come that it brings up to date, and which stores it finds slow.
//!
//! Two records a core (`/amita/progress/NODE/CORE` and `/amita/health/NODE/CORE`), written every few seconds while there is
//! something to say and deleted when there is not; and one (`/amita/condition/NODE/CORE`) that says how full its stores are and
//! what hosts meet with, written when that has changed. Where one node finds a store slow, the others that have asked it enough
//! say what they find: the coordinator goes by the majority. A write that fails is made up for by the next.

use crate::shards::Shards;
use crate::stores::Stores;
use crate::token;
use crate::view::View;
use amita_metadata::{Call, Op};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_store::State;
use amita_types::condition::{Condition, Failing, StoreSpace, Trouble, condition_key};
use amita_types::recovery::{HealthReport, Progress, StoreProgress, health_key, progress_key};
use amita_types::{NodeId, StoreId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The number that no sequencer gets: the calls of this part carry it.
pub const REPORTER: u16 = u16::MAX - 1;
/// Between two writes of a record.
const PAUSE: Duration = Duration::from_secs(2);
/// Between two reports on stores: a third of the age at which one counts no more.
const HEALTH_PAUSE: Duration = Duration::from_secs(5);
/// Between two reports on how full stores are: a store that fills in minutes is reported with each percent.
const CONDITION_PAUSE: Duration = Duration::from_secs(5);
/// What hosts met with counts so long after the last time.
const TROUBLE_LASTS: Duration = Duration::from_secs(30);
/// Of so much that hosts meet with a core tells at most: a node without keys has as much as there are encrypted volumes, and the metadata take
/// no record of 1 MiB.
const MAX_TROUBLES: usize = 256;
/// After the first word of something new: short work needs no record.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The news of one core.
#[derive(Debug)]
pub struct Reporter {
    node: NodeId,
    core: usize,
    calls: u64,
    due: Option<Time>,
    /// When the stores' space, and what hosts meet with, are looked at.
    space_due: Option<Time>,
    /// Is that reported at all?
    reports_condition: bool,
    /// There may be a record: at the start, one of the process before us.
    progress_told: bool,
    health_told: bool,
    health_due: Time,
    health_slow: usize,
    beat: u64,
    /// What the last report on the condition said: each store's percent, and what fails. `None`: there may be one of the
    /// process before us.
    condition_told: Option<Findings>,
    condition_due: Time,
    /// The same of what fails.
    urgent_due: Time,
    /// What hosts meet with, when last, and why.
    troubles: BTreeMap<(VolumeId, Failing), (Time, String)>,
}

type Findings = (Vec<(StoreId, u8)>, Vec<(VolumeId, Failing)>);

impl Reporter {
    #[must_use]
    pub fn new(node: NodeId, core: usize) -> Reporter {
        Reporter {
            node,
            core,
            calls: 0,
            due: Some(Time(0)),
            space_due: None,
            reports_condition: false,
            progress_told: true,
            health_told: true,
            health_due: Time(0),
            health_slow: 0,
            beat: 0,
            condition_told: None,
            condition_due: Time(0),
            urgent_due: Time(0),
            troubles: BTreeMap::new(),
        }
    }

    /// There may be something to tell.
    pub fn stir(&mut self, now: Time) {
        self.due.get_or_insert(now.plus(FIRST_PAUSE));
    }

    /// From now on it is told how full the stores are, and what hosts meet with.
    pub fn report_condition(&mut self) {
        self.reports_condition = true;
        self.space_due = Some(Time(0));
    }

    /// Stores may be fuller, or emptier, than before.
    pub fn stir_space(&mut self, now: Time) {
        if self.reports_condition {
            self.space_due.get_or_insert(now.plus(FIRST_PAUSE));
        }
    }

    /// When [`Reporter::tick`] is wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.due.into_iter().chain(self.space_due).min()
    }

    /// A call has ended.
    pub fn ended(&mut self, now: Time, done: bool) {
        if !done {
            (self.progress_told, self.health_told) = (true, true);
            self.condition_told = None;
            self.due.get_or_insert(now.plus(PAUSE));
            self.space_due_at(now.plus(PAUSE));
        }
    }

    /// A host has met with something; `true`: it is new.
    pub fn trouble(&mut self, now: Time, volume: VolumeId, failing: Failing, why: &str) -> bool {
        self.space_due_at(now);
        let before = self.troubles.insert((volume, failing), (now, why.to_owned()));
        before.is_none()
    }

    /// What hosts meet with no more.
    pub fn ended_troubles(&mut self, now: Time) -> Vec<(VolumeId, Failing)> {
        let over = |(last, _): &(Time, String)| last.plus(TROUBLE_LASTS) <= now;
        let ended: Vec<(VolumeId, Failing)> = self
            .troubles
            .iter()
            .filter(|(_, found)| over(found))
            .map(|(key, _)| *key)
            .collect();
        for key in &ended {
            self.troubles.remove(key);
            self.space_due_at(now);
        }
        ended
    }

    /// What is told of it: what fails before what waits for its keys, which is one cause for all of them.
    fn told_troubles(&self) -> Vec<(VolumeId, Failing)> {
        let (locked, others): (Vec<_>, Vec<_>) = self
            .troubles
            .keys()
            .copied()
            .partition(|(_, failing)| *failing == Failing::Locked);
        let mut told: Vec<_> = others.into_iter().chain(locked).take(MAX_TROUBLES).collect();
        told.sort_unstable();
        told
    }

    /// What is to be written now.
    pub fn tick(&mut self, now: Time, shards: &mut Shards, view: &View, stores: &Stores) -> Option<(CallId, Call)> {
        if self.deadline().is_none_or(|due| due > now) {
            return None;
        }
        let mut call = Call::default();
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.tell_progress(now, shards, &mut call);
            self.tell_health(now, shards, view, &mut call);
        }
        if self.space_due.is_some_and(|due| due <= now) {
            self.space_due = None;
            self.tell_condition(now, stores, &mut call);
        }
        if call.then.is_empty() {
            return None;
        }
        self.calls += 1;
        let number = token::id_base(self.core, REPORTER) | self.calls & ((1 << 40) - 1);
        Some((CallId(number), call))
    }

    fn space_due_at(&mut self, at: Time) {
        if !self.reports_condition {
            return;
        }
        self.space_due = Some(self.space_due.map_or(at, |due| due.min(at)));
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

    /// How full the stores are, each time that one has got on by a percent, and what hosts meet with.
    fn tell_condition(&mut self, now: Time, stores: &Stores, call: &mut Call) {
        if let Some(end) = self.troubles.values().map(|(last, _)| last.plus(TROUBLE_LASTS)).min() {
            self.space_due_at(end);
        }
        let spaces: Vec<StoreSpace> = stores
            .each()
            .filter(|store| matches!(store.state(), State::Serving))
            .map(|store| store.status())
            .filter(|status| stores.serves(status.id))
            .map(|status| StoreSpace {
                store: status.id,
                capacity_bytes: status.capacity_bytes,
                free_bytes: status.free_bytes,
            })
            .collect();
        let now_told: Findings = (
            spaces.iter().map(|space| (space.store, space.used_percent())).collect(),
            self.told_troubles(),
        );
        if self.condition_told.as_ref() == Some(&now_told) {
            return;
        }
        // What fails is said at once, and what fails soon behind it together: each time all of it is written.
        let urgent = self.condition_told.as_ref().map(|told| &told.1) != Some(&now_told.1);
        let due = if urgent { self.urgent_due } else { self.condition_due };
        if now < due {
            return self.space_due_at(due);
        }
        (self.urgent_due, self.condition_due) = (now.plus(FIRST_PAUSE), now.plus(CONDITION_PAUSE));
        let key = condition_key(self.node, self.core);
        if now_told == Findings::default() {
            call.then.push(Op::Delete { key });
        } else {
            let troubles = now_told.1.iter().map(|&(volume, what)| Trouble {
                volume,
                what,
                why: self.troubles[&(volume, what)].1.clone(),
            });
            let condition = Condition {
                stores: spaces,
                troubles: troubles.collect(),
            };
            let value = serde_json::to_vec(&condition).expect("plain data");
            call.then.push(Op::Put {
                key,
                value,
                lease: None,
            });
        }
        self.condition_told = Some(now_told);
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

#[cfg(test)]
mod tests;
