//! The sequencer of one open volume on one core: the single owner of its chunks there.
//!
//! It gives every write of a chunk its version, sends it to every in-sync member of the chunk's group at once, and
//! acknowledges it when all have answered. It reads from one member. When a member fails it moves the group to a new
//! epoch without it; when it is itself replaced, it stops. `docs/protocol.md` tells the whole story; the rules are
//! cited where they are obeyed.
//!
//! It is a pure state machine: events come in by the public methods, each with the time; what is to be done goes out as
//! [`Effect`]s. What all of it shares is the `context`; each concern is a room whose functions take it:
//!
//! * `submit`: I/O is checked and queued at its chunk.
//! * `group`: a group is fenced on first touch, after every change of epoch and after every reconnection.
//! * `open`, `roll`: a chunk is opened on first touch; members that are behind are rolled forward. `parents`: of a clone, what is
//!   not there comes from what it was cloned from.
//! * `write`, `read`: the life of an I/O; `compare`: of one that is both; `clear`: of one that leaves nothing behind.
//!   `at_rest`: what is encrypted. `cut`: the snapshots that writes belong to. `pipeline`: whose turn it is in a chunk; `resend`: what members have not got; `join`: a syncing member goes on with a
//!   chunk's history.
//! * `catch_up`: a member that cannot carry a write out, for its block has rotted or it lacks what it has answered, and cannot be spared.
//! * `doubt`: a member in sync lacks what it has acknowledged: what is read of it still.
//! * `care`: clients are spared, and slow stores noticed.
//! * `store`: links and what is heard; `silence`: who says nothing for too long; `lease`: read leases; `credits`: what
//!   stores have granted.
//! * `metadata`: evictions, and reading records back.
//! * `answer`, `exchange`: what comes in is sorted out; what goes out is counted until it is answered.
//! * `changed`: which chunks were written since a snapshot.
//! * `faults`: what is done wrong where a rule is switched off.
//! * `resync`, whose state is not in the context: members that have missed something are brought up to date, copies are
//!   looked at and repaired.
//!
//! What the context is made of: `owned`, `tables`, `intake`, `agenda`: what it owns, knows, has taken in, and is to do
//! when. `state`: what is known of stores, groups and chunks. `status`: what an operator sees.

mod agenda;
mod answer;
mod at_rest;
mod care;
mod catch_up;
mod changed;
mod clear;
mod compare;
mod context;
mod credits;
mod cut;
mod doubt;
mod exchange;
mod faults;
mod group;
mod intake;
mod join;
mod lease;
mod metadata;
mod open;
mod owned;
mod parents;
mod pipeline;
mod read;
mod resend;
mod resync;
mod roll;
mod silence;
mod state;
mod status;
mod store;
mod submit;
mod tables;
mod write;

#[cfg(any(test, feature = "planted"))]
mod check;
#[cfg(test)]
mod tests;

pub use resync::SyncProgress;
pub use status::{Counters, Status};

use crate::config::Config;
use crate::faults::Fault;
use crate::health::Care;
use crate::io::{CallId, Course, Effect, IoId, Opened, StopReason};
use crate::task::Told;
use agenda::NEVER;
use amita_metadata::{Error, Reply};
use amita_reactor::buggify::{Point, buggify};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Op, Payload};
use amita_types::map::Parent;
use amita_types::message::Answer;
use amita_types::{ChunkIndex, Epoch, Generation, GroupIndex, NodeId, SnapshotId, StoreId};
use context::Context;
use resync::Resync;
use std::collections::vec_deque::Drain;

/// The sequencer. See the module.
#[derive(Debug)]
pub struct Sequencer {
    cx: Context,
    resync: Resync,
}

impl Sequencer {
    /// A sequencer of an opened volume. `id_base` stands above the low 40 bits of every id that it makes and differs
    /// from that of every other sequencer of the node. No store counts as connected until [`Sequencer::store_up`].
    ///
    /// # Panics
    /// When `opened` is not what an [`crate::Opener`] has checked.
    #[must_use]
    pub fn new(config: Config, mut opened: Opened, id_base: u64, now: Time) -> Sequencer {
        assert_eq!(opened.groups.len(), opened.pool.groups as usize, "every group was read");
        let groups = std::mem::take(&mut opened.groups);
        let mut cx = Context::new(config, opened, id_base);
        at_rest::check(&cx.owned);
        for (record, revision) in groups {
            group::add(&mut cx, now, record, revision);
        }
        Sequencer {
            cx,
            resync: Resync::default(),
        }
    }

    // ---- events ----

    /// Starts an I/O; `data` is a write's payload, else empty. It ends in one [`Effect::Done`].
    pub fn submit(&mut self, now: Time, io: IoId, op: Op, data: Slice) {
        self.submit_told(now, io, op, data, SnapshotId::HEAD, Told::default());
    }

    /// The same for an I/O of a snapshot, which can only be read and must be sealed (S7); and for one of which its requests to stores
    /// tell something.
    pub fn submit_told(&mut self, now: Time, io: IoId, op: Op, data: Slice, at: SnapshotId, told: Told) {
        self.cx.intake.ios += 1;
        if let Err(error) = submit::accept(&mut self.cx, now, io, op, data, at, told) {
            self.cx.done(io, Err(error), Payload::None, Course::default());
        }
        self.finish(now);
    }

    /// A store has answered, by a link that leads to the node `from`. It counts if that is the node whose link to the store
    /// [`Sequencer::store_up`] has told of: what another one says in the store's name is no answer (R14).
    pub fn answer(&mut self, now: Time, from: NodeId, answer: Answer, payload: Slice) {
        if self.cx.stopped {
            return;
        }
        let Some(store) = self.cx.stores.slot_of(answer.store) else {
            return;
        };
        if self.cx.stores[store].link.node != from && !self.cx.config.faults.has(Fault::AnyAnswer) {
            self.cx.counters.foreign_answers += 1;
            return;
        }
        answer::arrived(&mut self.cx, &mut self.resync, now, store, answer, payload);
        self.finish(now);
    }

    /// There is an ordered link to the store, on which nothing was sent yet, and `node` is at its other end. One of which no group says anything yet is
    /// remembered: it may be listed as syncing while its link stands, and nobody says then once more that it does.
    pub fn store_up(&mut self, now: Time, id: StoreId, node: NodeId) {
        if self.cx.stopped {
            return;
        }
        let store = self.cx.store_slot(now, id);
        store::link_up(&mut self.cx, &mut self.resync, now, store, node);
        self.finish(now);
    }

    /// The link to the store has ended. Requests stay and are sent again when there is a new one; reads go elsewhere.
    pub fn store_down(&mut self, now: Time, id: StoreId) {
        let Some(store) = self.cx.stores.slot_of(id) else {
            return;
        };
        if self.cx.stopped || !self.cx.stores[store].link.up {
            return;
        }
        store::link_ended(&mut self.cx, &mut self.resync, now, store);
        self.finish(now);
    }

    /// The store is surely dead, or was silent for too long: its groups go on without it (R12).
    pub fn store_lost(&mut self, now: Time, id: StoreId) {
        let Some(store) = self.cx.stores.slot_of(id) else {
            return;
        };
        if self.cx.stopped {
            return;
        }
        store::lose(&mut self.cx, now, store);
        self.finish(now);
    }

    /// The metadata has answered.
    pub fn meta(&mut self, now: Time, call: CallId, result: Result<Reply, Error>) {
        if self.cx.stopped {
            return;
        }
        let Some(under) = self.cx.metadata.end(call) else {
            if parents::claims_read(&mut self.cx, now, call, &result) {
                self.finish(now);
            }
            return;
        };
        metadata::answered(&mut self.cx, &mut self.resync, now, under, result);
        self.finish(now);
    }

    /// The record of a group may have changed, as a watch says. Only a hint: it is read (R6).
    pub fn hint(&mut self, now: Time, group: GroupIndex, epoch: Epoch, syncing: bool) {
        if self.cx.stopped {
            return;
        }
        metadata::hint(&mut self.cx, group, epoch, syncing);
        self.finish(now);
    }

    /// The volume's record may have changed, as a watch says. Only a hint: it is read.
    pub fn hint_volume(&mut self, now: Time, generation: Generation) {
        if self.cx.stopped {
            return;
        }
        metadata::hint_volume(&mut self.cx, generation);
        self.finish(now);
    }

    /// The owner of the volume that this one was cloned from has opened the chunk there, as [`Effect::OpenParent`] asked; or could not,
    /// and why.
    pub fn parent_opened(&mut self, now: Time, chunk: ChunkIndex, result: Result<(), IoError>) {
        if !self.cx.stopped {
            parents::opened(&mut self.cx, now, chunk, result);
            self.finish(now);
        }
    }

    /// The volume's record names these parents, the nearest first; some that were the farthest may have left it (S13). What is no part
    /// of what is known is of an older record, or a newer one that will be told as well.
    pub fn shed_parents(&mut self, now: Time, parents: &[Parent]) {
        if !self.cx.stopped && self.cx.owned.shed(parents) {
            parents::shed(&mut self.cx, now);
            self.finish(now);
        }
    }

    /// The volume has grown to this size, as its record says; it never shrinks.
    pub fn resized(&mut self, size_bytes: u64) {
        self.cx.owned.grow(size_bytes);
    }

    /// Has every in-sync store adopt our generation durably; [`Effect::GenerationAdopted`] tells when they have. Before that no
    /// snapshot is taken (S2).
    pub fn require_generation(&mut self, now: Time) {
        if !self.cx.stopped {
            cut::require_generation(&mut self.cx);
            self.finish(now);
        }
    }

    /// The stores in sync that have not adopted it.
    #[must_use]
    pub fn lacking_generation(&self) -> Vec<StoreId> {
        cut::lacking_generation(&self.cx)
    }

    /// The volume's record says that a snapshot of this number is being taken by us: writes that get their version from now on carry
    /// it. They are acknowledged when it is released.
    pub fn adopt_number(&mut self, now: Time, number: SnapshotId) {
        if !self.cx.stopped {
            cut::adopt(&mut self.cx, number);
            self.finish(now);
        }
    }

    /// The sequencers of all cores have adopted the number. [`Effect::Settled`] tells when all older writes are acknowledged.
    pub fn release_number(&mut self, now: Time, number: SnapshotId) {
        if !self.cx.stopped {
            cut::release(&mut self.cx, number);
            self.finish(now);
        }
    }

    /// Begins to look at every copy of every chunk, from this group on; [`Effect::Scrubbed`] tells the end of each group. One of the same
    /// number that is under way, or is held, goes on; one of another number is given up.
    pub fn scrub(&mut self, now: Time, number: u64, from: GroupIndex) {
        if !self.cx.stopped && self.resync.scrubs.begin(&self.cx.groups, now, number, from) {
            self.finish(now);
        }
    }

    /// Holds a scrub that is under way, until [`Sequencer::scrub`] has it go on.
    pub fn hold_scrub(&mut self) {
        self.resync.scrubs.hold();
    }

    /// Gives up a scrub that is under way: nothing more is told of it.
    pub fn end_scrub(&mut self) {
        self.resync.scrubs.end();
    }

    /// From now on it shares what is known with the core's other sequencers.
    pub fn share_care(&mut self, care: &Care) {
        self.cx.care = care.clone();
        for store in self.cx.stores.each_mut() {
            store.watch = care.health().number(store.id);
        }
    }

    /// Ends it, because the volume is closed or given to another gateway: I/O under way is answered
    /// [`Lost`](amita_types::io::IoError::Lost). Whoever wants to lose nothing waits for [`Sequencer::is_idle`] first.
    pub fn release(&mut self) {
        self.cx.stop(StopReason::Released);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        if self.cx.stopped || now < self.cx.agenda.wake {
            return;
        }
        let cx = &mut self.cx;
        silence::excuse(cx, now);
        cx.agenda.wake = NEVER;
        group::end_pauses(cx, now);
        read::hedge(cx, now);
        silence::listen(cx, now);
        if now >= cx.agenda.settle_again {
            cx.agenda.settle_again = NEVER;
            cx.intake.is_due = true;
        }
        if now >= cx.agenda.reads_end {
            cx.agenda.reads_end = NEVER;
            cx.intake.is_due = true;
        }
        credits::return_idle(cx, now);
        parents::ask_again(cx, now);
        self.go_on(now);
        if !self.cx.stopped {
            self.arm_again(now);
        }
        self.look_over();
    }

    // ---- what comes of them ----

    /// What is to be done, in order.
    pub fn effects(&mut self) -> Drain<'_, Effect> {
        self.cx.effects.drain(..)
    }

    /// When [`Sequencer::tick`] is wanted at the latest. An earlier call does no harm.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        (self.cx.agenda.wake != NEVER).then_some(self.cx.agenda.wake)
    }

    /// Every event ends here: what has become possible is done.
    fn finish(&mut self, now: Time) {
        self.go_on(now);
        self.look_over();
    }

    fn go_on(&mut self, now: Time) {
        let cx = &mut self.cx;
        if cx.stopped {
            return;
        }
        read::recheck_leases(cx, now);
        cut::look_at_generation(cx, now);
        self.resync.advance(cx, now);
        open::retry(cx, now);
        pipeline::retry(cx, now);
        if buggify(Point::Reread)
            && let Some(&group) = cx.groups.touched.first()
        {
            metadata::reread(cx, group);
        }
        metadata::advance(cx, now);
    }

    fn look_over(&self) {
        #[cfg(test)]
        if self.cx.tasks.len() < 3000 && self.cx.groups.len() + self.cx.chunks.len() < 500 {
            crate::table::without_counting(|| self.check());
        }
    }

    /// Sets the next moment at which something is due.
    fn arm_again(&mut self, now: Time) {
        let cx = &mut self.cx;
        if let Some(slot) = cx.tasks.oldest() {
            cx.agenda.arm(cx.tasks[slot].asked_at.plus(care::hedge_after(cx)));
        }
        let due = cx.due();
        cx.agenda.arm(due);
        silence::arm(cx, now);
    }
}
