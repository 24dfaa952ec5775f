//! The sequencer of one open volume on one core: the single owner of its chunks there.
//!
//! It gives every write of a chunk its version, sends it to every in-sync member of the chunk's group at once, and
//! acknowledges it when all have answered. It reads from one member. When a member fails it moves the group to a new
//! epoch without it; when it is itself replaced, it stops. `docs/protocol.md` tells the whole story; the rules are
//! cited where they are obeyed.
//!
//! It is a pure state machine: events come in by the public methods, each with the time; what is to be done goes out as
//! [`Effect`]s. The rooms:
//!
//! * [`submit`](self): I/O is checked and queued at its chunk.
//! * `group`: a group is fenced on first touch, after every change of epoch and after every reconnection.
//! * `open`, `roll`: a chunk is opened on first touch; members that are behind are rolled forward.
//! * `write`, `read`: the life of an I/O; `pipeline`: whose turn it is in a chunk; `resend`: what members have not got.
//! * `sync`, `join`, `mend`: members that have missed something are brought up to date; `progress`: how far they have come.
//! * `catch_up`: a member whose block has rotted under a write of a part of it.
//! * `care`: clients are spared, and slow stores noticed.
//! * `scrub`: copies are looked at, and damaged blocks repaired.
//! * `store`: links, silence, promises; `credits`: what stores have granted.
//! * `metadata`: evictions, and reading records back.
//! * `answer`, `exchange`: what comes in is sorted out; what goes out is counted until it is answered.
//! * `faults`: what is done wrong where a rule is switched off.
//! * `owned`, `tables`, `intake`, `agenda`: what it owns, knows, has taken in, and is to do when.
//! * `state`, `status`: what is known of stores, groups and chunks; what an operator sees.

mod agenda;
mod answer;
mod care;
mod catch_up;
mod exchange;
mod faults;
mod group;
mod intake;
mod join;
mod mend;
mod metadata;
mod open;
mod owned;
mod pipeline;
mod progress;
mod read;
mod resend;
mod roll;
mod scrub;
mod state;
mod status;
mod store;
mod submit;
mod sync;
mod tables;
mod write;

pub use progress::SyncProgress;
pub use status::{Counters, Status};

use crate::config::Config;
use crate::io::{CallId, Course, Effect, Opened, StopReason};
use crate::members::Seats;
use crate::table::{StoreSlot, TaskSlot};
use crate::task::{Kind, Tasks};
use agenda::{Agenda, NEVER};
use amita_reactor::buggify::{Point, buggify};
use amita_reactor::{Slice, Time};
use amita_types::StoreId;
use amita_types::io::{IoError, Payload};
use amita_types::map;
use intake::Intake;
use owned::Owned;
use state::{Group, Store};
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;
use tables::{Chunks, Groups, Stores};

/// The sequencer. See the module.
#[derive(Debug)]
pub struct Sequencer {
    config: Config,
    owned: Owned,
    stores: Stores,
    groups: Groups,
    chunks: Chunks,
    tasks: Tasks,
    intake: Intake,
    agenda: Agenda,
    silence: store::Silence,
    syncs: sync::Syncs,
    scrubs: scrub::Scrubs,
    care: crate::health::Care,
    metadata: metadata::Metadata,
    stopped: bool,
    counters: Counters,
    effects: VecDeque<Effect>,
}

/// A store that cannot serve and cannot be evicted is asked again after so many pauses of a busy one.
const UNFIT_PAUSES: u32 = 100;

impl Sequencer {
    /// The volume has grown to this size, as its record says; it never shrinks.
    pub fn resized(&mut self, size_bytes: u64) {
        self.owned.grow(size_bytes);
    }

    /// A sequencer of an opened volume. `id_base` stands above the low 40 bits of every id that it makes and differs from
    /// that of every other sequencer of the node. No store counts as connected until [`Sequencer::store_up`].
    ///
    /// # Panics
    /// When `opened` is not what an [`crate::Opener`] has checked.
    #[must_use]
    pub fn new(config: Config, mut opened: Opened, id_base: u64, now: Time) -> Sequencer {
        assert_eq!(opened.groups.len(), opened.pool.groups as usize, "every group was read");
        let groups = std::mem::take(&mut opened.groups);
        let mut sequencer = Sequencer {
            owned: Owned::new(opened, id_base),
            stores: Stores::default(),
            groups: Groups::default(),
            chunks: Chunks::default(),
            tasks: Tasks::new(id_base),
            intake: Intake::default(),
            agenda: Agenda::default(),
            silence: store::Silence::default(),
            syncs: sync::Syncs::default(),
            scrubs: scrub::Scrubs::default(),
            care: crate::health::Care::new(&amita_types::recovery::Recovery::default(), 1),
            metadata: metadata::Metadata::new(&config),
            stopped: false,
            counters: Counters::default(),
            effects: VecDeque::new(),
            config,
        };
        for (record, revision) in groups {
            sequencer.add_group(now, record, revision);
        }
        sequencer
    }

    fn add_group(&mut self, now: Time, record: map::Group, revision: u64) {
        assert_eq!(record.index.0 as usize, self.groups.len(), "groups come in order");
        let members: Seats = record.in_sync.iter().map(|&id| self.store_number(now, id)).collect();
        let group = self
            .groups
            .add(Group::new(self.owned.pool.id, members, record, revision));
        self.count_behind(now, group, true);
        if !self.groups[group].record.syncing.is_empty() {
            self.seat_newcomers(now, group);
            self.groups.to_touch.push(group);
            self.arm(now);
        }
    }

    fn store_number(&mut self, now: Time, id: StoreId) -> StoreSlot {
        if let Some(number) = self.stores.slot_of(id) {
            return number;
        }
        let local = self.config.local_stores.contains(&id);
        let look_at = now.plus(self.config.store_timeout);
        let watch = self.care.health().number(id);
        self.stores.add(Store::new(id, local, watch, now, look_at))
    }

    /// The volume's id.
    #[must_use]
    pub fn volume(&self) -> amita_types::VolumeId {
        self.owned.volume.id
    }

    /// The volume's name.
    #[must_use]
    pub fn volume_name(&self) -> &str {
        &self.owned.volume.name
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> u16 {
        self.config.core
    }

    /// Our generation.
    #[must_use]
    pub fn generation(&self) -> amita_types::Generation {
        self.owned.generation
    }

    /// The stores that it knows of: those that hold the volume, and others that it has heard of.
    pub fn store_ids(&self) -> impl Iterator<Item = StoreId> + '_ {
        self.stores.iter().map(|store| store.id)
    }

    /// Has every I/O ended?
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.intake.ios == 0
    }

    /// Is nothing under way at all: no I/O, no fence, no opening, no answer that is owed, no call to the metadata?
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.stopped || (self.tasks.len() == 0 && self.metadata.is_quiet())
    }

    /// Has it ended?
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// How often things happened.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What an operator sees.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            stopped: self.stopped,
            ios: self.intake.ios,
            chunks: self.chunks.len(),
            stuck_groups: self.groups.stuck.iter().map(|&group| self.groups[group].id).collect(),
            syncs: self.progress(NEVER).collect(),
            counters: self.counters,
        }
    }

    /// What is to be done, in order.
    pub fn effects(&mut self) -> Drain<'_, Effect> {
        self.effects.drain(..)
    }

    /// When [`Sequencer::tick`] is wanted at the latest. An earlier call does no harm.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        (self.agenda.wake != NEVER).then_some(self.agenda.wake)
    }

    /// Ends it, because the volume is closed or given to another gateway: I/O under way is answered
    /// [`IoError::Lost`]. Whoever wants to lose nothing waits for [`Sequencer::is_idle`] first.
    pub fn release(&mut self) {
        self.stop(StopReason::Released);
    }

    fn arm(&mut self, at: Time) {
        self.agenda.arm(at);
    }

    fn done(&mut self, io: crate::io::IoId, result: Result<(), IoError>, payload: Payload, course: Course) {
        assert!(self.intake.ios > 0, "every I/O ends once");
        self.intake.ios -= 1;
        self.effects.push_back(Effect::Done {
            io,
            result,
            payload,
            course,
        });
    }

    /// When a task passed which step.
    fn course(&self, slot: TaskSlot) -> Course {
        let task = &self.tasks[slot];
        let store = |number: Option<StoreSlot>| number.map(|number| self.stores[number].id);
        let (answered, last) = task.answered;
        Course {
            sent: task.first_sent,
            answered,
            last: store(last),
            missed: store(task.missed),
        }
    }

    /// Every event ends here: what has become possible is done.
    fn finish(&mut self, now: Time) {
        self.go_on(now);
        self.look_over();
    }

    fn go_on(&mut self, now: Time) {
        if self.stopped {
            return;
        }
        self.recheck_promises(now);
        self.advance_background(now);
        self.retry_openings(now);
        self.retry_blocked(now);
        if buggify(Point::Reread)
            && let Some(&group) = self.groups.touched.first()
        {
            self.reread(group);
        }
        self.reconfigure(now);
    }

    fn look_over(&self) {
        #[cfg(test)]
        if self.tasks.len() < 3000 && self.groups.len() + self.chunks.len() < 500 {
            crate::table::without_counting(|| self.check());
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        if self.stopped || now < self.agenda.wake {
            return;
        }
        let late = now.since(self.agenda.wake);
        if late >= self.config.store_timeout / 4 {
            // It was we who stood still (a frozen process): nobody is blamed for that time.
            for store in self.stores.each_mut() {
                store.heard = store.heard.plus(late).min(now);
                store.owes_since = now;
                if store.idle_since != NEVER {
                    store.idle_since = store.idle_since.plus(late).min(now);
                }
            }
        }
        self.agenda.wake = NEVER;
        self.end_pauses(now);
        self.hedge(now);
        self.listen_for_silence(now);
        if now >= self.agenda.settle_again {
            self.agenda.settle_again = NEVER;
            self.intake.is_due = true;
        }
        self.return_credits(now);
        self.go_on(now);
        if !self.stopped {
            self.arm_again(now);
        }
        self.look_over();
    }

    /// Sets the next moment at which something is due.
    fn arm_again(&mut self, now: Time) {
        if let Some(slot) = self.tasks.oldest() {
            self.arm(self.tasks[slot].asked_at.plus(self.hedge_after()));
        }
        self.arm(self.due());
        self.arm_silence(now);
    }

    /// The next moment at which something is due, besides looking for members that are slow or silent.
    fn due(&self) -> Time {
        let asked = [self.metadata.due(), self.sync_due()].into_iter().flatten();
        asked.fold(self.agenda.due(), Time::min)
    }

    /// Ends it: nothing is acknowledged any more, whatever arrives.
    fn stop(&mut self, reason: StopReason) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        self.agenda.wake = NEVER;
        for slot in self.tasks.slots() {
            let io = match &mut self.tasks[slot].kind {
                Kind::Write(write) => {
                    write.payload = Slice::default();
                    (!write.told).then_some(write.io)
                }
                Kind::Read(read) => {
                    read.found = None;
                    Some(read.io)
                }
                _ => None,
            };
            if let Some(io) = io {
                let course = self.course(slot);
                self.done(io, Err(IoError::Lost), Payload::None, course);
            }
        }
        assert_eq!(self.intake.ios, 0, "every I/O ends once");
        self.effects.push_back(Effect::Stop { reason });
    }
}

/// The id of the next call to the metadata.
fn call_id(id_base: u64, count: u64) -> CallId {
    CallId(id_base | count & ((1 << crate::task::ID_BITS) - 1))
}

#[cfg(any(test, feature = "planted"))]
mod check;
mod compare;
mod credits;
#[cfg(test)]
mod tests;
