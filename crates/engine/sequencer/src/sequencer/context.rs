//! What all rooms of a sequencer share, and what each of them says with it: who is whom, and how an I/O ends.

use super::agenda::{Agenda, NEVER};
use super::cut::Cut;
use super::intake::Intake;
use super::metadata::Metadata;
use super::owned::Owned;
use super::parents::Parents;
use super::silence::Silence;
use super::state::{Chunk, Store};
use super::status::Counters;
use super::tables::{Chunks, Groups, Stores};
use crate::config::Config;
use crate::health::Care;
use crate::io::{Course, Effect, IoId, Opened, StopReason, Warning};
use crate::members::Position;
use crate::table::{ChunkSlot, GroupSlot, StoreSlot, TaskSlot};
use crate::task::{Kind, Tasks};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Payload};
use amita_types::message::Refusal;
use amita_types::{BlockIndex, ChunkId, ChunkIndex, StoreId};
use std::collections::VecDeque;
use std::time::Duration;

/// What all rooms share.
#[derive(Debug)]
pub(super) struct Context {
    pub config: Config,
    pub owned: Owned,
    pub cut: Cut,
    pub parents: Parents,
    pub stores: Stores,
    pub groups: Groups,
    pub chunks: Chunks,
    pub tasks: Tasks,
    pub intake: Intake,
    pub agenda: Agenda,
    pub silence: Silence,
    pub care: Care,
    pub metadata: Metadata,
    pub stopped: bool,
    pub counters: Counters,
    pub effects: VecDeque<Effect>,
}

impl Context {
    /// Without any group yet.
    pub fn new(config: Config, opened: Opened, id_base: u64) -> Context {
        Context {
            cut: Cut::new(opened.volume.lineage.number),
            owned: Owned::new(opened, id_base),
            parents: Parents::default(),
            stores: Stores::default(),
            groups: Groups::default(),
            chunks: Chunks::default(),
            tasks: Tasks::new(id_base),
            intake: Intake::default(),
            agenda: Agenda::default(),
            silence: Silence::default(),
            care: Care::new(&amita_types::recovery::Recovery::default(), 1),
            metadata: Metadata::new(&config),
            stopped: false,
            counters: Counters::default(),
            effects: VecDeque::new(),
            config,
        }
    }

    /// The store's slot; when it is first heard of it gets one.
    pub fn store_slot(&mut self, now: Time, id: StoreId) -> StoreSlot {
        if let Some(number) = self.stores.slot_of(id) {
            return number;
        }
        let local = self.config.local_stores.contains(&id);
        let look_at = now.plus(self.config.store_timeout);
        let watch = self.care.health().number(id);
        self.stores.add(Store::new(id, local, watch, now, look_at))
    }

    /// The chunk's slot; on its first touch it gets one.
    pub fn chunk_slot(&mut self, index: ChunkIndex) -> ChunkSlot {
        if let Some(number) = self.chunks.slot_of(index) {
            return number;
        }
        let group = self.group_of(index);
        let number = self.chunks.add(Chunk::new(index, group));
        self.groups[group].chunks.push(number);
        number
    }

    /// The group that a chunk of the volume lies in: of a clone, where that of its root lies (D8).
    pub fn group_of(&self, index: ChunkIndex) -> GroupSlot {
        let id = ChunkId {
            volume: self.owned.volume.place(),
            index,
        };
        GroupSlot::of(id.group(self.owned.pool.groups))
    }

    pub fn id_of(&self, group: GroupSlot, position: Position) -> StoreId {
        let number = self.groups[group].members[position];
        self.stores[number].id
    }

    /// The chunk's name in the whole cluster.
    pub fn chunk_id(&self, chunk: ChunkSlot) -> ChunkId {
        ChunkId {
            volume: self.owned.volume.id,
            index: self.chunks[chunk].index,
        }
    }

    /// May something other than a fence be sent to the member?
    pub fn can_send(&self, group: GroupSlot, position: Position) -> bool {
        let group = &self.groups[group];
        group.is_open_to(position) && self.stores[group.members[position]].link.up
    }

    /// Leaves a member alone for a moment.
    pub fn pause(&mut self, now: Time, group: GroupSlot, position: Position, pause: Duration) {
        if !self.groups[group].paused.has(position) {
            self.groups[group].paused.add(position);
            let until = now.plus(pause);
            self.agenda.pauses.push((until, group, position));
            self.agenda.arm(until);
        }
    }

    /// When a task passed which step.
    pub fn course(&self, slot: TaskSlot) -> Course {
        let task = &self.tasks[slot];
        let store = |number: Option<StoreSlot>| number.map(|number| self.stores[number].id);
        let (answered, last) = task.steps.answered;
        Course {
            sent: task.steps.first_sent,
            answered,
            last: store(last),
            missed: store(task.steps.missed),
        }
    }

    /// An I/O ends.
    pub fn done(&mut self, io: IoId, result: Result<(), IoError>, payload: Payload, course: Course) {
        assert!(self.intake.ios > 0, "every I/O ends once");
        self.intake.ios -= 1;
        self.effects.push_back(Effect::Done {
            io,
            result,
            payload,
            course,
        });
    }

    /// A member's copy of a block fails its checksum.
    pub fn found_damage(&mut self, group: GroupSlot, position: Position, chunk: ChunkSlot, block: BlockIndex) {
        self.counters.damaged += 1;
        let store = self.groups[group].members[position];
        self.effects.push_back(Effect::Warn(Warning::Damaged {
            store: self.stores[store].id,
            chunk: self.chunk_id(chunk),
            block,
        }));
    }

    pub fn warn_refused(&mut self, group: GroupSlot, store: StoreSlot, refusal: &Refusal) {
        self.effects.push_back(Effect::Warn(Warning::Refused {
            group: self.groups[group].id,
            store: self.stores[store].id,
            refusal: format!("{refusal:?}"),
        }));
    }

    /// The same, of an answer that no member in sync gives.
    pub fn warn_unfit(&mut self, group: GroupSlot, store: StoreSlot, what: String) {
        self.effects.push_back(Effect::Warn(Warning::Refused {
            group: self.groups[group].id,
            store: self.stores[store].id,
            refusal: what,
        }));
    }

    /// The next moment at which something is due, besides looking for members that are slow or silent.
    pub fn due(&self) -> Time {
        let call = self.metadata.due().unwrap_or(NEVER);
        self.agenda.due().min(call)
    }

    /// Ends it: nothing is acknowledged any more, whatever arrives.
    pub fn stop(&mut self, reason: StopReason) {
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
