//! The sequencers of one core: for each open volume the one that orders this core's chunks.

mod table;

use crate::core::Asked;
use crate::faults::{Fault, Faults};
use crate::flattens::FLATTENS;
use crate::forwarder::is_host;
use crate::mail::Origin;
use crate::reservations::Adopted;
use crate::scrubs;
use crate::slab::{Slab, Slot};
use crate::snapshots::{Order, Word};
use crate::token;
use crate::trace::{Ended, TraceConfig, Traces};
use crate::usage::Usage;
use amita_frontend::reservation::Access;
use amita_metadata as meta;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_sequencer::health::HealthEvent;
use amita_sequencer::pace::{Pacer, Pass};
use amita_sequencer::{CallId, Care, Config, Effect, IoId, Opened, Sequencer, StopReason, Told};
use amita_types::condition::Failing;
use amita_types::io::{IoError, Op, Payload};
use amita_types::map::{self, Parent, ScrubReport, WholeMember};
use amita_types::message::{Answer, Purpose};
use amita_types::recovery::{Recovery, StoreHealth};
use amita_types::{ChunkIndex, Generation, GroupIndex, MirrorId, NodeId, SnapshotId, StoreId, VolumeId};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::rc::Rc;
use table::{NEVER, Shard, Table};

/// The number that no sequencer gets: the directory's calls to the metadata carry it.
pub const DIRECTORY: u16 = u16::MAX;

/// An I/O of a sequencer: where it came from, when, and what it is.
struct Io {
    origin: Origin,
    /// The sequencer's number.
    shard: u16,
    began: Time,
    op: Op,
    /// No host waits for it.
    background: bool,
    /// It is of a window of background work, which ends with the last of them.
    leave: Option<Leave>,
}

/// The leave for a window of background work, which all of its pieces have.
pub type Leave = Rc<RefCell<Pass>>;

/// For whom a piece of I/O is begun.
#[derive(Debug)]
pub enum Sake {
    /// For hosts, or whoever else waits for it.
    Hosts,
    /// For background work of that kind: by this leave, or without one.
    Background(Option<Leave>, Purpose),
}

/// Why a piece of I/O is not begun.
#[derive(Debug)]
pub enum Declined {
    /// The volume is not open here, or is on its way to another gateway. The payload is handed back.
    Elsewhere(Slice),
    /// The volume's reservation forbids it.
    Reserved,
    /// The volume is closed to hosts: it is an end of a mirror, and not the one that is written.
    Closed,
}

/// What the sequencers want. (The common case, a request to a store, is the largest; boxing it would allocate per I/O.)
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum ShardEffect {
    /// Of the outside: see [`Effect`].
    Sequencer(Effect),
    /// The end of a piece, for the front end that asked.
    Done(Origin, Result<(), IoError>, Payload),
    /// A read that was under way of a volume that has moved: it is begun anew, by what the volume is now.
    Again(Origin, VolumeId, Op),
    /// A syncing store holds everything of the sequencer's chunks in a group.
    Whole(VolumeId, Generation, WholeMember),
    /// A chunk of what the volume was cloned from is to be opened there.
    OpenParent(Asked),
    /// All copies of the sequencer's chunks in a group were looked at: the look's number, the group, and whether it is the last.
    Scrubbed(VolumeId, Generation, (u64, GroupIndex, bool), ScrubReport),
    /// A sequencer has done its part of a snapshot.
    Snapshot(VolumeId, Generation, Word),
    /// The volume is lost to this node.
    Lost(VolumeId, Generation, String),
}

/// What an I/O does, as reservations see it.
fn access(op: &Op) -> Access {
    match op {
        Op::Read { .. } | Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. } => Access::Read,
        Op::Write { .. } | Op::Clear { .. } | Op::CompareAndWrite { .. } => Access::Write,
    }
}

/// Is its I/O held against reservations? A reservation is of the volume, and what that was once is nobody's to change; and who reads to have
/// chunks made gives what that brings to nobody.
fn is_held(origin: &Origin) -> bool {
    origin.snapshot == SnapshotId::HEAD && origin.front != FLATTENS
}

/// The sequencers of one core.
pub struct Shards {
    core: usize,
    config: Config,
    table: Table,
    /// I/O under way, by [`IoId`].
    ios: Slab<Io>,
    dirty: Vec<u16>,
    /// When shards are due, the first one on top. One may stand there several times: its own note says which counts.
    due: BinaryHeap<Reverse<(Time, u16)>>,
    care: Care,
    /// How many are to be handed over and have not said yet that nothing is under way.
    leaving: usize,
    /// The same of those that are on hold.
    holding: usize,
    /// I/O that failed for a reason that an operator should hear of: the last of each kind.
    troubles: Vec<(VolumeId, Failing, String)>,
    /// The newest generation of each volume whose sequencer was to be dropped.
    dropped: FxHashMap<VolumeId, Generation>,
    /// Volumes whose reservation was changed a moment ago.
    adopting: Vec<(VolumeId, u64)>,
    /// What the sequencers want, and nobody has looked at yet.
    effects: Vec<ShardEffect>,
    /// Something has ended that was begun by a leave, and nobody has looked yet.
    leave_ended: bool,
    /// The traces of this core.
    pub traces: Traces,
    /// The mirror that this program is a runner of: what is closed for that is open to its fronts.
    pub mirror: Option<MirrorId>,
    /// Rules that are switched off to show that tests notice.
    pub faults: Faults,
}

/// What fails, if it is for a reason that an operator can do something about. A snapshot that was deleted while somebody reads it is none:
/// no copy has it any more. (Of damage, whatever it is of, the sequencer tells by itself, with the store and the block.)
fn trouble(op: &Op, at: SnapshotId, error: IoError) -> Option<Failing> {
    let is_of_snapshot = at > SnapshotId::HEAD || matches!(op, Op::Differ { .. } | Op::ChangedChunks { .. });
    if is_of_snapshot && error == IoError::Damaged {
        return None;
    }
    let failing = if op.is_write() { Failing::Writes } else { Failing::Reads };
    matches!(error, IoError::NoSpace | IoError::Unavailable | IoError::Damaged).then_some(failing)
}

fn note(troubles: &mut Vec<(VolumeId, Failing, String)>, volume: VolumeId, failing: Failing, why: &dyn fmt::Display) {
    if !troubles.iter().any(|(of, known, _)| (*of, *known) == (volume, failing)) {
        troubles.push((volume, failing, why.to_string()));
    }
}

impl Shards {
    /// Something has failed of a volume that is open elsewhere.
    pub fn note_trouble(&mut self, volume: VolumeId, failing: Failing, why: &str) {
        note(&mut self.troubles, volume, failing, &why);
    }

    /// What has failed since this was last asked.
    pub fn take_troubles(&mut self) -> Vec<(VolumeId, Failing, String)> {
        std::mem::take(&mut self.troubles)
    }

    /// None yet.
    #[must_use]
    pub fn new(core: usize, config: Config, trace: TraceConfig) -> Shards {
        Shards {
            core,
            care: Care::new(&Recovery::default(), config.cores),
            config,
            table: Table::default(),
            ios: Slab::default(),
            dirty: Vec::new(),
            due: BinaryHeap::new(),
            leaving: 0,
            holding: 0,
            troubles: Vec::new(),
            dropped: FxHashMap::default(),
            adopting: Vec::new(),
            effects: Vec::new(),
            leave_ended: false,
            traces: Traces::new(trace, core),
            mirror: None,
            faults: Faults::NONE,
        }
    }

    /// Makes the sequencer of a volume that was opened under `opened.generation`, in place of an older one. Returns what a
    /// person has to see to before the volume can be used.
    pub fn make(
        &mut self,
        now: Time,
        opened: Opened,
        local: &[StoreId],
        up: &[(StoreId, NodeId)],
        lost: &[StoreId],
    ) -> Option<String> {
        let volume = opened.volume.id;
        let generation = opened.generation;
        let pool = opened.pool.id;
        let chunk_bytes = opened.pool.chunk_bytes;
        let (mut reserved, mut warning) = (None, None);
        if let Some((record, revision)) = &opened.reservation {
            let (adopted, why) = Adopted::read(record, *revision);
            reserved = Some(adopted).filter(|_| why.is_none() || !self.faults.has(Fault::UnreadableIsNone));
            warning = why.map(|why| {
                format!(
                    "volume {}: the record of its reservation, {}, cannot be read ({why}): all I/O is refused as a reservation \
                     conflict until somebody has corrected the record, or removed it (`amita volume reservation {} --clear \
                     --force`)",
                    opened.volume.name,
                    map::reservation_key(volume),
                    opened.volume.name,
                )
            });
        }
        let closed = opened.volume.closed.as_ref().map(|closed| closed.mirror);
        self.remove(volume);
        let number = self.table.free_number();
        let mut config = self.config.clone();
        config.local_stores = local.to_vec();
        let mut sequencer = Sequencer::new(config, opened, token::id_base(self.core, number), now);
        sequencer.share_care(&self.care);
        for (store, node) in up {
            sequencer.store_up(now, *store, *node);
        }
        for store in lost {
            sequencer.store_lost(now, *store);
        }
        self.table.insert(
            number,
            Shard {
                sequencer,
                volume,
                generation,
                pool,
                chunk_bytes,
                dirty: false,
                under_way: 0,
                heads: 0,
                on_hold: false,
                said_drained: false,
                leaving: None,
                said_left: false,
                closed,
                ends_closed: false,
                reserved,
                due: NEVER,
                usage: Usage::default(),
            },
        );
        self.mark(number);
        warning
    }

    /// Forgets a volume's sequencer. Its pending I/O is gone with it: call [`Shards::stop`] first where there may be
    /// some.
    pub fn remove(&mut self, volume: VolumeId) {
        let gone = self.table.remove(volume);
        self.leaving -= usize::from(gone.as_ref().is_some_and(Shard::is_still_leaving));
        self.holding -= usize::from(gone.as_ref().is_some_and(Shard::is_still_draining));
    }

    /// The sequencer of this generation was to be dropped, whether or not it has been made yet.
    pub fn note_dropped(&mut self, volume: VolumeId, generation: Generation) {
        let dropped = self.dropped.entry(volume).or_default();
        *dropped = generation.max(*dropped);
    }

    /// Was it, or a newer one?
    #[must_use]
    pub fn was_dropped(&self, volume: VolumeId, generation: Generation) -> bool {
        self.dropped.get(&volume).is_some_and(|dropped| generation <= *dropped)
    }

    /// The generation under which a volume is open here.
    #[must_use]
    pub fn generation(&self, volume: VolumeId) -> Option<Generation> {
        self.table.of(volume).map(|shard| shard.generation)
    }

    /// Bytes of a chunk of an open volume.
    #[must_use]
    pub fn chunk_bytes(&self, volume: VolumeId) -> Option<u32> {
        self.table.of(volume).map(|shard| shard.chunk_bytes)
    }

    /// Does the volume take I/O here?
    #[must_use]
    pub fn is_open(&self, volume: VolumeId) -> bool {
        self.table
            .of(volume)
            .is_some_and(|shard| shard.leaving.is_none() && !shard.on_hold)
    }

    /// May tokens of the volume's limits be lent here? One that is on its way to another gateway lends nothing more: that one counts from its
    /// opening. One that begins nothing of hosts stays until it is known what becomes of that, and what is read of its snapshots meanwhile waits for
    /// tokens as ever.
    #[must_use]
    pub fn lends(&self, volume: VolumeId) -> bool {
        self.table.of(volume).is_some_and(|shard| shard.leaving.is_none())
    }

    /// Is it open here, and does it begin nothing of hosts?
    #[must_use]
    pub fn is_on_hold(&self, volume: VolumeId) -> bool {
        self.table.of(volume).is_some_and(|shard| shard.on_hold)
    }

    /// The owner holds, or no longer: what is under way ends, and nothing more of the volume itself is begun; its snapshots are read.
    fn hold(&mut self, volume: VolumeId, holds: bool) {
        if let Some(shard) = self.table.of_mut(volume) {
            self.holding -= usize::from(shard.is_still_draining());
            (shard.on_hold, shard.said_drained) = (holds, false);
            self.holding += usize::from(shard.is_still_draining());
        }
    }

    /// The volumes that are on hold and of which nothing is under way any more; each once.
    pub fn take_drained(&mut self) -> Vec<(VolumeId, Generation)> {
        if self.holding == 0 {
            return Vec::new();
        }
        let mut drained = Vec::new();
        for shard in self.table.shards.values_mut() {
            if shard.is_still_draining() && shard.heads == 0 {
                shard.said_drained = true;
                self.holding -= 1;
                drained.push((shard.volume, shard.generation));
            }
        }
        drained.sort_unstable();
        drained
    }

    /// A volume is to be handed over: what is under way ends, nothing more is taken in.
    pub fn leave(&mut self, volume: VolumeId, attempt: u64) {
        self.set_leaving(volume, Some(attempt));
    }

    /// It stays after all.
    pub fn stay(&mut self, volume: VolumeId) {
        self.set_leaving(volume, None);
    }

    fn set_leaving(&mut self, volume: VolumeId, attempt: Option<u64>) {
        if let Some(shard) = self.table.of_mut(volume) {
            self.leaving -= usize::from(shard.is_still_leaving());
            shard.leaving = attempt;
            shard.said_left = false;
            self.leaving += usize::from(shard.is_still_leaving());
        }
    }

    /// Is a volume to be handed over of which [`Shards::take_left`] has not told?
    #[must_use]
    pub fn is_any_leaving(&self) -> bool {
        self.leaving > 0
    }

    /// The volumes that are to be handed over and have nothing under way any more, with the attempt; each once.
    pub fn take_left(&mut self) -> Vec<(VolumeId, Generation, u64)> {
        let mut left = Vec::new();
        for shard in self.table.shards.values_mut() {
            if let Some(attempt) = shard.leaving
                && !shard.said_left
                && shard.under_way == 0
            {
                shard.said_left = true;
                self.leaving -= 1;
                left.push((shard.volume, shard.generation, attempt));
            }
        }
        // What is told must not hang on a table's order.
        left.sort_unstable();
        left
    }

    /// From now on I/O is held against this, unless what is known is newer.
    pub fn reserve(&mut self, volume: VolumeId, adopted: Adopted) {
        if let Some(shard) = self.table.of_mut(volume)
            && shard
                .reserved
                .as_ref()
                .is_none_or(|known| known.revision < adopted.revision)
        {
            shard.reserved = Some(adopted);
        }
    }

    /// The volume's owner has changed its reservation: once nothing under way offends against it, [`Shards::take_adopted`]
    /// says so.
    pub fn adopt(&mut self, volume: VolumeId, adopted: Adopted) {
        self.adopting.push((volume, adopted.revision));
        self.reserve(volume, adopted);
    }

    /// Volumes whose reservation was changed, and nothing under way here offends against it any more; each change once, by its record's revision.
    pub fn take_adopted(&mut self) -> Vec<(VolumeId, u64)> {
        if self.adopting.is_empty() {
            return Vec::new();
        }
        let adopting = std::mem::take(&mut self.adopting);
        let (offended, adopted) = adopting.into_iter().partition(|(volume, _)| self.offends(*volume));
        self.adopting = offended;
        adopted
    }

    /// The record of a volume's reservation has changed. Where it could not be read before, I/O is held against it from now
    /// on; else what the volume's owner has written is known already.
    pub fn reservation_changed(&mut self, volume: VolumeId, adopted: Adopted) {
        let reserved = self.table.of(volume).and_then(|shard| shard.reserved.as_ref());
        if reserved.is_some_and(|reserved| reserved.state.is_none()) {
            self.reserve(volume, adopted);
        }
    }

    /// Is something under way that the volume's reservation forbids?
    #[must_use]
    pub fn offends(&self, volume: VolumeId) -> bool {
        let Some(number) = self.table.number(volume) else {
            return false;
        };
        let reserved = self.table.of(volume).and_then(|shard| shard.reserved.as_ref());
        let Some(reserved) = reserved else { return false };
        let mut under_way = self.ios.iter().filter(|io| io.shard == number && is_held(&io.origin));
        under_way.any(|io| !reserved.allows(io.origin.host, access(&io.op))) && !self.faults.has(Fault::PreemptAtOnce)
    }

    /// Begins a piece of I/O for a volume: hands it to the volume's sequencer.
    pub fn begin(
        &mut self,
        now: Time,
        origin: Origin,
        volume: VolumeId,
        op: Op,
        payload: Slice,
    ) -> Result<(), Declined> {
        self.begin_for(now, origin, volume, op, payload, Sake::Hosts)
    }

    /// The same for whoever it is. A leave pays for what is begun by it.
    pub fn begin_for(
        &mut self,
        now: Time,
        origin: Origin,
        volume: VolumeId,
        op: Op,
        payload: Slice,
        sake: Sake,
    ) -> Result<(), Declined> {
        let Some(number) = self.table.number(volume) else {
            return Err(Declined::Elsewhere(payload));
        };
        let Some(shard) = self
            .table
            .shards
            .get_mut(&number)
            .filter(|shard| shard.leaving.is_none())
        else {
            return Err(Declined::Elsewhere(payload));
        };
        let is_head = is_held(&origin);
        let is_let = self.faults.has(Fault::NoHold) || self.faults.has(Fault::ReadOnHold) && !op.is_write();
        if shard.on_hold && is_head && !is_let {
            return Err(Declined::Elsewhere(payload));
        }
        if !origin.may_act_under(shard.generation) {
            return Err(Declined::Elsewhere(payload));
        }
        // Its generation was raised when it was closed, and is when it is not any more: so this is what the record says of this opening.
        let runs = self.mirror.filter(|_| is_host(origin.front));
        if shard.closed.is_some_and(|mirror| Some(mirror) != runs) && is_held(&origin) {
            return Err(Declined::Closed);
        }
        let reserved = shard.reserved.as_ref().filter(|_| is_held(&origin));
        if reserved.is_some_and(|reserved| !reserved.allows(origin.host, access(&op)))
            && !self.faults.has(Fault::AnyHost)
        {
            return Err(Declined::Reserved);
        }
        let (background, leave, purpose) = match sake {
            Sake::Hosts => (false, None, Purpose::Unsaid),
            Sake::Background(leave, purpose) => (true, leave, purpose),
        };
        if let Some(leave) = &leave {
            leave.borrow_mut().add(op.length(), 1);
        }
        shard.under_way += 1;
        shard.heads += usize::from(is_head);
        let slot = self.ios.put(Io {
            origin,
            shard: number,
            began: now,
            op,
            background,
            leave,
        });
        let io = IoId(slot.number());
        if origin.trace.is_some() {
            self.traces.open(now, &origin, volume, op);
        }
        let trace = origin.trace;
        let told = Told { trace, purpose };
        shard.sequencer.submit_told(now, io, op, payload, origin.snapshot, told);
        self.mark(number);
        Ok(())
    }

    /// A store's answer that has come from a node, for the sequencer that its id names.
    pub fn answer(&mut self, now: Time, from: NodeId, answer: Answer, payload: Slice) {
        if let Some(stages) = &answer.trace {
            self.traces.answered(now, answer.store, stages);
        }
        self.with(token::id_shard(answer.id.0), |s| s.answer(now, from, answer, payload));
    }

    /// A chunk of what a clone comes from was opened there, or could not be, and why.
    pub fn parent_opened(
        &mut self,
        now: Time,
        (clone, generation): (VolumeId, Generation),
        chunk: ChunkIndex,
        result: Result<(), IoError>,
    ) {
        let Some(number) = self.table.number(clone) else { return };
        if self.generation(clone) == Some(generation) {
            self.with(number, |sequencer| sequencer.parent_opened(now, chunk, result));
        }
    }

    /// The end of a metadata call.
    pub fn metadata(&mut self, now: Time, call: CallId, result: Result<meta::Reply, meta::Error>) {
        self.with(token::id_shard(call.0), |s| s.meta(now, call, result));
    }

    fn with(&mut self, number: u16, act: impl FnOnce(&mut Sequencer)) {
        // An answer to a sequencer that is gone: nobody waits for it.
        let Some(shard) = self.table.shards.get_mut(&number) else {
            return;
        };
        act(&mut shard.sequencer);
        self.mark(number);
    }

    fn with_each(&mut self, mut act: impl FnMut(&mut Sequencer)) {
        let mut numbers: Vec<u16> = self.table.shards.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            self.with(number, &mut act);
        }
    }

    /// A store can be reached, by a link to this node.
    pub fn store_up(&mut self, now: Time, store: StoreId, node: NodeId) {
        self.with_each(|s| s.store_up(now, store, node));
    }

    /// A store cannot be reached at the moment.
    pub fn store_down(&mut self, now: Time, store: StoreId) {
        self.with_each(|s| s.store_down(now, store));
    }

    /// A store is dead, or has been silent for too long.
    pub fn store_lost(&mut self, now: Time, store: StoreId) {
        self.with_each(|s| s.store_lost(now, store));
    }

    /// A group's record changed: a hint.
    pub fn hint(&mut self, now: Time, pool: amita_types::PoolId, group: &amita_types::map::Group) {
        let mut numbers: Vec<u16> = self
            .table
            .shards
            .iter()
            .filter(|(_, s)| s.pool == pool)
            .map(|(n, _)| *n)
            .collect();
        numbers.sort_unstable();
        for number in numbers {
            self.with(number, |s| {
                s.hint(now, group.index, group.epoch, !group.syncing.is_empty())
            });
        }
    }

    /// A volume's record changed: a hint.
    pub fn hint_volume(&mut self, now: Time, volume: VolumeId, generation: Generation) {
        if let Some(number) = self.table.number(volume) {
            self.with(number, |s| s.hint_volume(now, generation));
        }
    }

    /// A volume has grown, as a record of this generation says: one from before our ownership may be from before it was made smaller.
    pub fn resized(&mut self, volume: VolumeId, generation: Generation, size_bytes: u64) {
        if let Some(shard) = self.table.of_mut(volume).filter(|shard| generation >= shard.generation) {
            shard.sequencer.resized(size_bytes);
        }
    }

    /// A volume's record names these parents, the nearest first.
    pub fn shed_parents(&mut self, now: Time, volume: VolumeId, parents: &[Parent]) {
        if let Some(number) = self.table.number(volume) {
            self.with(number, |s| s.shed_parents(now, parents));
        }
    }

    /// Looks at all copies of a volume's chunks, or no longer.
    pub fn scrub(&mut self, now: Time, volume: VolumeId, generation: Generation, order: scrubs::Order) {
        if self.generation(volume) == Some(generation)
            && let Some(number) = self.table.number(volume)
        {
            self.with(number, |s| match order {
                scrubs::Order::Go { number, from } => s.scrub(now, number, from),
                scrubs::Order::Hold => s.hold_scrub(),
                scrubs::Order::End => s.end_scrub(),
            });
        }
    }

    /// A volume's sequencer does its part of a snapshot; false: there is none of this generation.
    pub fn snapshot(&mut self, now: Time, volume: VolumeId, generation: Generation, order: Order) -> bool {
        if self.generation(volume) != Some(generation) {
            return false;
        }
        let Some(number) = self.table.number(volume) else {
            return false;
        };
        match order {
            Order::Hold => self.hold(volume, true),
            Order::LetGo => self.hold(volume, false),
            Order::Require => self.with(number, |s| s.require_generation(now)),
            Order::Adopt(snapshot) => self.with(number, |s| s.adopt_number(now, snapshot)),
            Order::Release(snapshot) => self.with(number, |s| s.release_number(now, snapshot)),
        }
        true
    }

    /// The stores in sync that have not adopted the generation under which the volume is open here.
    #[must_use]
    pub fn lacking_generation(&self, volume: VolumeId) -> Vec<StoreId> {
        let shard = self.table.of(volume);
        shard.map_or_else(Vec::new, |shard| shard.sequencer.lacking_generation())
    }

    /// Ends a volume's sequencer: pending I/O ends as lost.
    ///
    /// `is_closed`: it is lost because the volume was closed to hosts. What is only lost is asked for again, by another path or another connection,
    /// and would be written when the volume is open again.
    pub fn stop(&mut self, volume: VolumeId, is_closed: bool) {
        if let Some(number) = self.table.number(volume) {
            if let Some(shard) = self.table.shards.get_mut(&number) {
                shard.ends_closed |= is_closed;
            }
            self.with(number, Sequencer::release);
        }
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Time) {
        let mut due: Vec<u16> = Vec::new();
        while let Some(&Reverse((at, number))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            let Some(shard) = self.table.shards.get_mut(&number).filter(|shard| shard.due == at) else {
                continue;
            };
            shard.due = NEVER;
            if shard.sequencer.deadline().is_some_and(|at| at <= now) {
                due.push(number);
            } else {
                shard.note_due(number, &mut self.due);
            }
        }
        due.sort_unstable();
        for number in due {
            self.with(number, |s| s.tick(now));
        }
    }

    /// When a sequencer next wants [`Shards::tick`]; it may be early.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.due.peek().map(|&Reverse((at, _))| at)
    }

    fn mark(&mut self, number: u16) {
        if let Some(shard) = self.table.shards.get_mut(&number)
            && !shard.dirty
        {
            shard.dirty = true;
            self.dirty.push(number);
        }
    }

    /// What the sequencers want. Give the vector back when it is empty: [`Shards::put_effects`].
    #[must_use]
    pub fn take_effects(&mut self, now: Time) -> Vec<ShardEffect> {
        let mut effects = std::mem::take(&mut self.effects);
        self.collect_effects(now, &mut effects);
        effects
    }

    /// Takes the emptied vector back, so that none is made in each pass.
    pub fn put_effects(&mut self, emptied: Vec<ShardEffect>) {
        self.effects = emptied;
    }

    fn collect_effects(&mut self, now: Time, effects: &mut Vec<ShardEffect>) {
        for number in self.dirty.drain(..) {
            let Some(shard) = self.table.shards.get_mut(&number) else {
                continue;
            };
            shard.dirty = false;
            for effect in shard.sequencer.effects() {
                match effect {
                    Effect::Done {
                        io,
                        result,
                        payload,
                        course,
                    } => {
                        let Some(io) = Slot::of(io.0).and_then(|slot| self.ios.take(slot)) else {
                            continue;
                        };
                        shard.under_way -= 1;
                        shard.heads -= usize::from(is_held(&io.origin));
                        self.leave_ended |= io.leave.is_some();
                        // How hosts fare is told neither by background work nor by a search for what differs.
                        if !io.background && !matches!(io.op, Op::Differ { .. } | Op::ChangedChunks { .. }) {
                            self.care.pacer.client(now, io.op.is_write(), now.since(io.began));
                        }
                        // Nor is it long in coming where it gave way to hosts.
                        let since = if io.background { io.began } else { io.origin.arrived };
                        shard.usage.count(&io.op, now.since(since), result.is_ok());
                        if let Err(error) = result
                            && let Some(failing) = trouble(&io.op, io.origin.snapshot, error)
                        {
                            note(&mut self.troubles, shard.volume, failing, &error);
                        }
                        let ended = Ended {
                            origin: &io.origin,
                            began: io.began,
                            volume: shard.volume,
                            op: io.op,
                            error: result.err(),
                            course: &course,
                        };
                        self.traces.ended(now, &ended);
                        let is_dropped = shard.on_hold && shard.leaving.is_some();
                        if is_dropped && result == Err(IoError::Lost) && !io.op.is_write() {
                            effects.push(ShardEffect::Again(io.origin, shard.volume, io.op));
                            continue;
                        }
                        let is_closed = shard.ends_closed && is_held(&io.origin) && result == Err(IoError::Lost);
                        let result = if is_closed { Err(IoError::Closed) } else { result };
                        effects.push(ShardEffect::Done(io.origin, result, payload));
                    }
                    Effect::Whole { group, store, since } => {
                        let group = group.index;
                        let member = WholeMember { group, store, since };
                        effects.push(ShardEffect::Whole(shard.volume, shard.generation, member));
                    }
                    Effect::Scrubbed {
                        number,
                        group,
                        is_last,
                        report,
                    } => {
                        let place = (number, group, is_last);
                        effects.push(ShardEffect::Scrubbed(shard.volume, shard.generation, place, report));
                    }
                    Effect::GenerationAdopted => {
                        effects.push(ShardEffect::Snapshot(shard.volume, shard.generation, Word::Required));
                    }
                    Effect::OpenParent {
                        volume,
                        snapshot,
                        chunk,
                        chunk_bytes,
                    } => {
                        effects.push(ShardEffect::OpenParent(Asked {
                            clone: (shard.volume, shard.generation),
                            volume,
                            snapshot,
                            chunk,
                            chunk_bytes,
                        }));
                    }
                    Effect::Settled { number } => {
                        let word = Word::Settled(number);
                        effects.push(ShardEffect::Snapshot(shard.volume, shard.generation, word));
                    }
                    // The directory has told every core of that. Said once more, by this core's rings, it could come before the directory's own word of
                    // what has become of the volume.
                    Effect::Stop {
                        reason: StopReason::Released,
                    } => {}
                    // Its owner holds, and its data goes from the stores: it has moved, as this node is about to hear (or was deleted). Were hosts told that
                    // it is lost, they would not go on with what it is now.
                    Effect::Stop {
                        reason: StopReason::Deposed { generation },
                    } if shard.on_hold && generation == Generation::DELETED => {}
                    Effect::Stop { reason } => {
                        effects.push(ShardEffect::Lost(shard.volume, shard.generation, reason.to_string()));
                    }
                    other => effects.push(ShardEffect::Sequencer(other)),
                }
            }
            shard.note_due(number, &mut self.due);
        }
    }

    /// The operator has set how hard background work may press.
    pub fn set_recovery(&mut self, settings: &Recovery) {
        self.care.pacer.set(settings, self.config.cores);
    }

    /// Has something ended that was begun by a leave, since this was last asked?
    #[inline]
    pub fn take_leave_ended(&mut self) -> bool {
        std::mem::take(&mut self.leave_ended)
    }

    /// Who says when background work of this core may go on.
    #[must_use]
    pub fn pacer(&self) -> &Pacer {
        &self.care.pacer
    }

    /// How background work is held back.
    #[must_use]
    pub fn pace(&self) -> amita_sequencer::pace::PaceStatus {
        self.care.pacer.status()
    }

    /// What has become of stores that are slow, or were.
    pub fn health_events(&mut self) -> Vec<HealthEvent> {
        self.care.health().events().collect()
    }

    /// What is to be reported of stores: of those that are slow, and of those that others find slow.
    pub fn health(&mut self, now: Time, accused: &[StoreId]) -> Vec<StoreHealth> {
        let mut health = self.care.health();
        health.tick(now);
        health.report(now, accused)
    }

    /// The volumes that are open on this core.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeId> {
        self.table.shards.values().map(|s| s.volume)
    }

    /// What hosts have done with a volume on this core; none: it is not open here.
    #[must_use]
    pub fn usage(&self, volume: VolumeId) -> Option<(&Sequencer, &Usage)> {
        self.table.of(volume).map(|s| (&s.sequencer, &s.usage))
    }

    /// The same, to be counted in by a test.
    #[cfg(test)]
    pub(crate) fn usage_mut(&mut self, volume: VolumeId) -> Option<&mut Usage> {
        self.table.of_mut(volume).map(|s| &mut s.usage)
    }

    /// The sequencers, for status and for the checkers of the simulator.
    pub fn each(&self) -> impl Iterator<Item = (VolumeId, &Sequencer)> {
        self.table.shards.values().map(|s| (s.volume, &s.sequencer))
    }
}

#[cfg(test)]
mod tests;
