//! Copies are looked at and repaired (D7): all of them by a scrub, single ones where a read has met damage.
//!
//! Each in-sync member in turn reads what it holds of a chunk and checks it; only entries travel. They are compared with
//! another member's. A block that fails its checksum is replaced by what another member has under the same entry, exactly
//! that entry being expected, so that a write that comes in between wins (R5). Where snapshots or clones may share it, it is
//! replaced where it lies, and what only snapshots have is looked at, too (S12, `mend/look`). Copies that differ though no write is under way
//! are reported: no store of this protocol does that, and which one is right is for a person to say.
//!
//! Groups are looked at in the order of their indexes, and the end of each is told: what is behind it a successor need not look at. A
//! scrub that is held begins with nothing more, and goes on where it was.

use super::mend::{Mendings, Mode, Subject};
use super::{ask_for_chunks, is_listed_here};
use crate::io::{Effect, Warning};
use crate::members::{Members, Position};
use crate::sequencer::context::Context;
use crate::sequencer::group;
use crate::sequencer::tables::Groups;
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::SyncStep;
use amita_reactor::Time;
use amita_types::map::ScrubReport;
use amita_types::message::ChunkState as Held;
use amita_types::{BlockIndex, ChunkIndex, GroupIndex, SnapshotId};
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
pub(in crate::sequencer) struct Scrubs {
    /// Blocks, and of which snapshot.
    repairs: VecDeque<(ChunkSlot, Position, BlockIndex, SnapshotId)>,
    walk: Option<Walk>,
    /// The number of the one that has come to its end last: it is not begun again.
    ended: Option<u64>,
    /// Looks under way.
    active: usize,
    /// Lists that were asked for by scrubs which have been taken back since.
    late: usize,
}

/// A scrub of everything.
#[derive(Debug)]
struct Walk {
    /// The caller's.
    number: u64,
    group: GroupSlot,
    list: List,
    todo: VecDeque<(ChunkIndex, Position)>,
    /// What was found in the group.
    report: ScrubReport,
    /// It stands still.
    is_held: bool,
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
    pub fn is_empty(&self) -> bool {
        self.repairs.is_empty() && self.walk.is_none() && self.active == 0
    }

    /// Begins the scrub of that number with this group, in the place of another one; one that is under way goes on. `false`: there is
    /// nothing new to do.
    pub fn begin(&mut self, groups: &Groups, now: Time, number: u64, from: GroupIndex) -> bool {
        if let Some(walk) = self.walk.as_mut().filter(|walk| walk.number == number) {
            return std::mem::take(&mut walk.is_held);
        }
        if self.ended == Some(number) {
            return false;
        }
        let Some(group) = groups.keys().take(from.0 as usize + 1).last() else {
            return false;
        };
        self.end();
        self.walk = Some(Walk {
            number,
            group,
            list: List::Due {
                at: now,
                from: ChunkIndex(0),
            },
            todo: VecDeque::new(),
            report: ScrubReport::default(),
            is_held: false,
        });
        true
    }

    /// Nothing more is begun until the same scrub is begun again. Looks that are under way come to their end.
    pub fn hold(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.is_held = true;
        }
    }

    /// Gives up what is under way.
    pub fn end(&mut self) {
        let walk = self.walk.take();
        self.late += usize::from(walk.is_some_and(|walk| matches!(walk.list, List::Asked { .. })));
    }

    /// What a scrub that is under way has found in the group that it is at.
    pub fn report(&self) -> Option<ScrubReport> {
        self.walk.as_ref().map(|walk| walk.report)
    }

    /// A member's copy of a block was found damaged, in the volume or in a snapshot: it is to be repaired.
    pub fn want_repair(&mut self, chunk: ChunkSlot, position: Position, block: BlockIndex, at: SnapshotId) {
        let repair = (chunk, position, block, at);
        if self.repairs.len() < MAX_REPAIRS && !self.repairs.contains(&repair) {
            self.repairs.push_back(repair);
        }
    }

    pub fn advance(&mut self, cx: &mut Context, mendings: &mut Mendings, now: Time) {
        while self.active < MAX_LOOKS
            && let Some((chunk, position, block, at)) = self.repairs.pop_front()
        {
            let group = cx.chunks[chunk].group;
            if cx.groups[group].members.current.has(position) {
                self.active += 1;
                mendings.start(now, Mode::Repair(block, at), group, position, chunk);
            }
        }
        self.advance_walk(cx, mendings, now);
    }

    fn advance_walk(&mut self, cx: &mut Context, mendings: &mut Mendings, now: Time) {
        while let Some(walk) = self.walk.as_mut().filter(|walk| !walk.is_held) {
            if self.active < MAX_LOOKS
                && let Some((index, position)) = walk.todo.pop_front()
            {
                let group = walk.group;
                if cx.groups[group].members.current.has(position) {
                    self.active += 1;
                    let chunk = cx.chunk_slot(index);
                    mendings.start(now, Mode::Scrub, group, position, chunk);
                }
                continue;
            }
            match walk.list {
                List::Due { at, .. } if at > now => return cx.agenda.put_off(at),
                // An answer to an older list would be taken for one to this.
                List::Due { .. } if self.late > 0 => return,
                List::Due { from, .. } if walk.todo.is_empty() => return walk.list_chunks(cx, now, from),
                List::Ended if walk.todo.is_empty() && self.active == 0 => {
                    let from = ChunkIndex(0);
                    walk.list = List::Due { at: now, from };
                    let (number, group) = (walk.number, cx.groups[walk.group].id.index);
                    let report = std::mem::take(&mut walk.report);
                    let next = cx.groups.after(walk.group);
                    cx.effects.push_back(Effect::Scrubbed {
                        number,
                        group,
                        is_last: next.is_none(),
                        report,
                    });
                    match next {
                        Some(next) => walk.group = next,
                        None => {
                            self.ended = Some(number);
                            self.walk = None;
                        }
                    }
                }
                _ => return,
            }
        }
    }

    /// A member has listed its chunks.
    pub fn listed(
        &mut self,
        cx: &mut Context,
        now: Time,
        slot: TaskSlot,
        position: Position,
        chunks: &[Held],
        more: Option<ChunkIndex>,
    ) {
        let group = cx.tasks[slot].group;
        cx.settle(slot, position);
        let complete = cx.tasks[slot].waiting.is_empty();
        if complete {
            cx.tasks.remove(slot);
        }
        if self.late > 0 {
            self.late -= usize::from(complete);
            return;
        }
        let members = cx.groups[group].members.current;
        let known = |held: &&Held| is_listed_here(cx, group, held.chunk);
        let listed: Vec<ChunkIndex> = chunks.iter().filter(known).map(|held| held.chunk).collect();
        let Some(walk) = &mut self.walk else { return };
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
    pub fn list_again(&mut self, cx: &mut Context, now: Time, slot: TaskSlot) {
        cx.settle_all(slot);
        cx.tasks.remove(slot);
        if self.late > 0 {
            self.late -= 1;
            return;
        }
        let at = now.plus(PAUSE);
        if let Some(walk) = &mut self.walk
            && let List::Asked { from, .. } = walk.list
        {
            walk.list = List::Due { at, from };
            cx.agenda.put_off(at);
            cx.agenda.arm(at);
        }
    }

    /// A look has ended; `seen`: it was a look at all.
    pub fn looked(&mut self, mode: Mode, seen: bool) {
        self.active -= 1;
        if let (Mode::Scrub, Some(walk)) = (mode, &mut self.walk) {
            walk.report.copies += u64::from(seen);
            walk.report.skipped += u64::from(!seen);
        }
    }

    /// A look has found a damaged block. What is to be repaired was counted when it was read.
    pub fn damaged(&mut self, cx: &mut Context, of: &Subject, block: BlockIndex) {
        if let (Mode::Scrub, Some(walk)) = (of.mode, &mut self.walk) {
            walk.report.damaged += 1;
            cx.found_damage(of.group, of.position, of.chunk, block);
        }
    }

    pub fn repaired(&mut self, cx: &mut Context, of: &Subject, blocks: &[BlockIndex]) {
        cx.counters.repaired += blocks.len() as u64;
        if let (Mode::Scrub, Some(walk)) = (of.mode, &mut self.walk) {
            walk.report.repaired += blocks.len() as u64;
        }
        for &block in blocks {
            let warning = Warning::Repaired {
                store: cx.id_of(of.group, of.position),
                chunk: cx.chunk_id(of.chunk),
                block,
            };
            cx.effects.push_back(Effect::Warn(warning));
        }
    }

    /// A damaged block stays as it is where it lies, for the member's device does not take it there.
    pub fn unrestored(&mut self, cx: &mut Context, of: &Subject, block: BlockIndex) {
        cx.counters.unrestored += 1;
        let warning = Warning::Unrestored {
            store: cx.id_of(of.group, of.position),
            chunk: cx.chunk_id(of.chunk),
            block,
        };
        cx.effects.push_back(Effect::Warn(warning));
    }

    pub fn differs(&mut self, cx: &mut Context, of: &Subject, places: Members, block: BlockIndex) {
        cx.counters.differing += 1;
        if let Some(walk) = self.walk.as_mut().filter(|_| of.mode != Mode::Doubt) {
            walk.report.differing += 1;
        }
        let stores = places.iter().map(|position| cx.id_of(of.group, position));
        let warning = Warning::Differing {
            stores: stores.collect(),
            chunk: cx.chunk_id(of.chunk),
            block,
        };
        cx.effects.push_back(Effect::Warn(warning));
    }
}

impl Walk {
    /// Asks all in-sync members which chunks of the group they hold.
    fn list_chunks(&mut self, cx: &mut Context, now: Time, from: ChunkIndex) {
        group::touch(cx, now, self.group);
        let members = cx.groups[self.group].members.current;
        if !ask_for_chunks(cx, now, (self.group, members), SyncStep::Walk, from) {
            return;
        }
        self.list = List::Asked {
            from,
            found: BTreeSet::new(),
            end: None,
        };
    }
}
