//! Copies are looked at and repaired (D7): all of them by a scrub, single ones where a read has met damage.
//!
//! Each in-sync member in turn reads what it holds of a chunk and checks it; only entries travel. They are compared with
//! another member's. A block that fails its checksum is replaced by what another member has under the same entry, exactly
//! that entry being expected, so that a write that comes in between wins (R5). Copies that differ though no write is under way
//! are reported: no store of this protocol does that, and which one is right is for a person to say.

use super::Sequencer;
use super::mend::Mode;
use crate::io::{Effect, Warning};
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::{Kind, SyncStep};
use amita_reactor::{Slice, Time};
use amita_types::map::ScrubReport;
use amita_types::message::{ChunkState as Held, ChunksRequest, RequestBody};
use amita_types::{BlockIndex, ChunkId, ChunkIndex};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Chunks that are looked at at one time.
const MAX_LOOKS: usize = 2;
/// Blocks that wait to be repaired; more are found again by the next read or scrub.
const MAX_REPAIRS: usize = 1024;
/// Before a list that was refused is asked for again.
const PAUSE: Duration = Duration::from_millis(50);

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Scrubs {
    repairs: VecDeque<(ChunkSlot, Position, BlockIndex)>,
    walk: Option<Walk>,
    /// Looks under way.
    active: usize,
}

/// A scrub of everything.
#[derive(Debug)]
struct Walk {
    group: GroupSlot,
    list: List,
    todo: VecDeque<(ChunkIndex, Position)>,
    report: ScrubReport,
}

#[derive(Debug)]
enum List {
    Due {
        at: Time,
        from: ChunkIndex,
    },
    Asked {
        from: ChunkIndex,
        found: BTreeSet<ChunkIndex>,
        end: Option<ChunkIndex>,
    },
    /// All chunks of the group are known.
    Ended,
}

impl Scrubs {
    pub(super) fn is_empty(&self) -> bool {
        self.repairs.is_empty() && self.walk.is_none() && self.active == 0
    }
}

impl Sequencer {
    /// Begins to look at every copy of every chunk; [`Effect::Scrubbed`] tells the end. One that is under way goes on.
    pub fn scrub(&mut self, now: Time) {
        let first = self.groups.keys().next();
        let Some(group) = first.filter(|_| !self.stopped && self.scrubs.walk.is_none()) else {
            return;
        };
        self.scrubs.walk = Some(Walk {
            group,
            list: List::Due {
                at: now,
                from: ChunkIndex(0),
            },
            todo: VecDeque::new(),
            report: ScrubReport::default(),
        });
        self.finish(now);
    }

    /// How far a scrub that is under way has come.
    #[must_use]
    pub fn scrub_report(&self) -> Option<ScrubReport> {
        self.scrubs.walk.as_ref().map(|walk| walk.report)
    }

    /// A member's copy of a block was found damaged: it is to be repaired.
    pub(super) fn want_repair(&mut self, chunk: ChunkSlot, position: Position, block: BlockIndex) {
        let repairs = &mut self.scrubs.repairs;
        if repairs.len() < MAX_REPAIRS && !repairs.contains(&(chunk, position, block)) {
            repairs.push_back((chunk, position, block));
        }
    }

    pub(super) fn advance_scrubs(&mut self, now: Time) {
        while self.scrubs.active < MAX_LOOKS
            && let Some((chunk, position, block)) = self.scrubs.repairs.pop_front()
        {
            let group = self.chunks[chunk].group;
            if self.groups[group].current.has(position) {
                self.scrubs.active += 1;
                self.start_mending(now, Mode::Repair(block), group, position, chunk);
            }
        }
        self.advance_walk(now);
    }

    fn advance_walk(&mut self, now: Time) {
        while let Some(walk) = &mut self.scrubs.walk {
            if self.scrubs.active < MAX_LOOKS
                && let Some((index, position)) = walk.todo.pop_front()
            {
                let group = walk.group;
                if self.groups[group].current.has(position) {
                    self.scrubs.active += 1;
                    let chunk = self.chunk_number(index);
                    self.start_mending(now, Mode::Scrub, group, position, chunk);
                }
                continue;
            }
            match &walk.list {
                List::Due { at, .. } if *at > now => {
                    let at = *at;
                    return self.syncs.put_off(at);
                }
                List::Due { from, .. } if walk.todo.is_empty() => {
                    let (group, from) = (walk.group, *from);
                    return self.list_for_scrub(now, group, from);
                }
                List::Ended if walk.todo.is_empty() && self.scrubs.active == 0 => {
                    let from = ChunkIndex(0);
                    walk.list = List::Due { at: now, from };
                    match self.groups.after(walk.group) {
                        Some(next) => walk.group = next,
                        None => {
                            let report = walk.report;
                            self.scrubs.walk = None;
                            self.effects.push_back(Effect::Scrubbed { report });
                        }
                    }
                }
                _ => return,
            }
        }
    }

    /// Asks all in-sync members which chunks of the group they hold.
    fn list_for_scrub(&mut self, now: Time, group: GroupSlot, from: ChunkIndex) {
        self.touch(now, group);
        let members = self.groups[group].current;
        if !self.is_fenced(group) || !members.iter().all(|member| self.can_send(group, member)) {
            return;
        }
        if let Some(walk) = &mut self.scrubs.walk {
            walk.list = List::Asked {
                from,
                found: BTreeSet::new(),
                end: None,
            };
        }
        let slot = self.tasks.add(Kind::Sync(SyncStep::Walk), group, None);
        let body = RequestBody::Chunks(ChunksRequest {
            from,
            core: self.config.core,
            cores: self.config.cores.max(1),
            groups: self.owned.pool.groups,
        });
        for member in members.iter() {
            self.expect(now, slot, member);
            self.send(now, slot, member, body.clone(), Slice::default());
        }
    }

    /// A member has listed its chunks.
    pub(super) fn walk_listed(
        &mut self,
        now: Time,
        slot: TaskSlot,
        position: Position,
        chunks: &[Held],
        more: Option<ChunkIndex>,
    ) {
        let group = self.tasks[slot].group;
        self.settle(slot, position);
        let complete = self.tasks[slot].waiting.is_empty();
        if complete {
            self.tasks.remove(slot);
        }
        let members = self.groups[group].current;
        let known = |held: &&Held| self.is_listed_here(group, held.chunk);
        let listed: Vec<ChunkIndex> = chunks.iter().filter(known).map(|held| held.chunk).collect();
        let Some(walk) = &mut self.scrubs.walk else { return };
        let List::Asked { from, found, end } = &mut walk.list else {
            return;
        };
        if more.is_some_and(|more| more <= *from) {
            // A list that does not get on: the rest of the group is left for another time.
            walk.report.skipped += 1;
            walk.list = List::Ended;
            return;
        }
        found.extend(listed);
        *end = [*end, more].into_iter().flatten().min();
        if !complete {
            return;
        }
        let end = *end;
        let inside = found.iter().filter(|index| end.is_none_or(|end| **index < end));
        for &index in inside {
            walk.todo.extend(members.iter().map(|position| (index, position)));
        }
        walk.list = match end {
            Some(from) => List::Due { at: now, from },
            None => List::Ended,
        };
    }

    /// The list will not come: it is asked for again.
    pub(super) fn walk_again(&mut self, now: Time, slot: TaskSlot) {
        self.settle_all(slot);
        self.tasks.remove(slot);
        let at = now.plus(PAUSE);
        if let Some(walk) = &mut self.scrubs.walk
            && let List::Asked { from, .. } = walk.list
        {
            walk.list = List::Due { at, from };
            self.syncs.put_off(at);
            self.arm(at);
        }
    }

    /// A look has ended; `seen`: it was a look at all.
    pub(super) fn looked(&mut self, mode: Mode, seen: bool) {
        self.scrubs.active -= 1;
        if let (Mode::Scrub, Some(walk)) = (mode, &mut self.scrubs.walk) {
            walk.report.copies += u64::from(seen);
            walk.report.skipped += u64::from(!seen);
        }
    }

    pub(super) fn scrub_damaged(
        &mut self,
        mode: Mode,
        group: GroupSlot,
        position: Position,
        chunk: ChunkSlot,
        block: BlockIndex,
    ) {
        if let (Mode::Scrub, Some(walk)) = (mode, &mut self.scrubs.walk) {
            walk.report.damaged += 1;
            self.found_damage(group, position, chunk, block);
        }
    }

    pub(super) fn scrub_repaired(
        &mut self,
        mode: Mode,
        group: GroupSlot,
        position: Position,
        chunk: ChunkSlot,
        blocks: &[BlockIndex],
    ) {
        self.counters.repaired += blocks.len() as u64;
        if let (Mode::Scrub, Some(walk)) = (mode, &mut self.scrubs.walk) {
            walk.report.repaired += blocks.len() as u64;
        }
        for &block in blocks {
            let warning = Warning::Repaired {
                store: self.id_of(group, position),
                chunk: self.chunk_id(chunk),
                block,
            };
            self.effects.push_back(Effect::Warn(warning));
        }
    }

    pub(super) fn scrub_differs(&mut self, group: GroupSlot, places: Members, chunk: ChunkSlot, block: BlockIndex) {
        self.counters.differing += 1;
        if let Some(walk) = &mut self.scrubs.walk {
            walk.report.differing += 1;
        }
        let stores: Vec<_> = places.iter().map(|position| self.id_of(group, position)).collect();
        let warning = Warning::Differing {
            stores,
            chunk: self.chunk_id(chunk),
            block,
        };
        self.effects.push_back(Effect::Warn(warning));
    }

    fn chunk_id(&self, chunk: ChunkSlot) -> ChunkId {
        ChunkId {
            volume: self.owned.volume.id,
            index: self.chunks[chunk].index,
        }
    }
}
