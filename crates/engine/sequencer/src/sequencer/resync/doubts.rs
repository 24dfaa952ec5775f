//! Members in doubt are looked at: is what they hold of the volume what another member holds (R8; see `doubt`)?
//!
//! All members in sync list the chunks of the group, page by page. What all of them hold whole at one version is the same (R1), but for
//! chunks that the member was rolled forward in. Those, and what is not listed alike, are opened and compared entry by entry, where the member
//! says first that it has all that was acknowledged; what it lacks it gets by being caught up. Where the volume has had
//! snapshots each chunk is compared so, and then its states by their versions (S5). Nothing but entries travels.
//!
//! What was seen counts while the member's store cannot have ended since: a link that ends, a fence that it must adopt again, a new epoch,
//! or something lacking that was met elsewhere, and all of it is looked at once more, after a while.

use super::mend::{After, Mendings, Mode, Subject};
use super::{Page, ask_for_chunks, check_page, is_settled_at, merged};
use crate::faults::Fault;
use crate::members::{ByPosition, Members, Position};
use crate::sequencer::answer::Misbehaved;
use crate::sequencer::context::Context;
use crate::table::{GroupSlot, TaskSlot};
use crate::task::SyncStep;
use amita_reactor::Time;
use amita_types::{ChunkIndex, SnapshotId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Chunks that are compared at one time.
const MAX_LOOKS: usize = 2;
/// Before a list that was refused is asked for again.
const PAUSE: Duration = Duration::from_millis(50);
/// Before a member is looked at again, where that was in vain. Where chunks were not alike at all attempts, twice as long after each time, up to
/// [`AT_MOST`].
const LONG_PAUSE: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_secs(120);
/// A chunk is compared so often: its states are trimmed on each member in its own time, and what is written may be in the way.
const MAX_ROUNDS: u32 = 5;
/// So many chunks that were not alike are compared once more.
const MAX_AGAIN: usize = 1024;

/// What is under way: one member at a time.
#[derive(Debug, Default)]
pub(in crate::sequencer) struct Doubts {
    walk: Option<Walk>,
    /// Members that stay in doubt after a look.
    pauses: BTreeMap<(GroupSlot, Position), Pause>,
}

/// When a member is looked at again.
#[derive(Debug, Default)]
struct Pause {
    until: Time,
    /// Looks that came to nothing because of what they saw, one after the other.
    in_vain: u32,
}

/// One member's copy of the group is looked at.
#[derive(Debug)]
struct Walk {
    group: GroupSlot,
    position: Position,
    /// The group's count of doubts when it began.
    doubts: u64,
    list: List,
    todo: VecDeque<ChunkIndex>,
    /// Chunks that were not alike: compared again, all at one time, when everything else was.
    again: BTreeSet<ChunkIndex>,
    again_at: Option<Time>,
    rounds: u32,
    /// Comparisons under way.
    active: usize,
    /// It will not show that the member lacks nothing.
    failed: bool,
    /// That is because of what was seen.
    differs: bool,
}

#[derive(Debug)]
enum List {
    Due {
        at: Time,
        from: ChunkIndex,
    },
    Asked {
        from: ChunkIndex,
        pages: Box<ByPosition<Option<Page>>>,
    },
    Ended,
}

impl Doubts {
    pub fn is_idle(&self, cx: &Context) -> bool {
        self.walk.is_none() && cx.groups.doubted.is_empty()
    }

    pub fn advance(&mut self, cx: &mut Context, mendings: &mut Mendings, now: Time) {
        if self.walk.is_none() {
            self.begin(cx, now);
        }
        let Some(walk) = &mut self.walk else { return };
        walk.failed |= cx.groups[walk.group].doubts != walk.doubts;
        if walk.failed {
            walk.todo.clear();
            walk.again.clear();
            if let List::Due { .. } = walk.list {
                walk.list = List::Ended;
            }
        }
        if let List::Due { at, from } = walk.list
            && walk.todo.is_empty()
        {
            if at > now {
                cx.agenda.put_off(at);
            } else if !walk.list_chunks(cx, now, from) {
                // Somebody is away: others have their turn meanwhile.
                (walk.failed, walk.list) = (true, List::Ended);
            }
        }
        if matches!(walk.list, List::Ended) && walk.todo.is_empty() && walk.active == 0 && !walk.again.is_empty() {
            let at = *walk.again_at.get_or_insert(now.plus(LONG_PAUSE));
            if now < at {
                return cx.agenda.put_off(at);
            }
            walk.again_at = None;
            walk.rounds += 1;
            walk.todo.extend(std::mem::take(&mut walk.again));
        }
        while walk.active < MAX_LOOKS
            && let Some(index) = walk.todo.pop_front()
        {
            walk.active += 1;
            let chunk = cx.chunk_slot(index);
            mendings.start(now, Mode::Doubt, walk.group, walk.position, chunk);
        }
        if matches!(walk.list, List::Ended) && walk.todo.is_empty() && walk.active == 0 {
            self.end(cx, now);
        }
    }

    /// The next member's turn, if there is any.
    fn begin(&mut self, cx: &mut Context, now: Time) {
        let Context { groups, agenda, .. } = cx;
        let settled = |slot: &GroupSlot| groups[*slot].doubted.is_empty();
        let gone: Vec<GroupSlot> = groups.doubted.iter().copied().filter(settled).collect();
        for slot in gone {
            groups.doubted.remove(&slot);
        }
        if groups.doubted.is_empty() {
            return;
        }
        // One that was found to have something wrong is not looked at any more: it goes.
        let members = |&slot: &GroupSlot| {
            let stays = groups[slot].doubted.without(groups[slot].to_evict);
            stays.iter().map(move |position| (slot, position))
        };
        let until = |of: &(GroupSlot, Position)| self.pauses.get(of).map_or(Time(0), |pause| pause.until);
        let Some(of) = groups.doubted.iter().flat_map(members).min_by_key(until) else {
            return;
        };
        if now < until(&of) {
            return agenda.put_off(until(&of));
        }
        let (group, position) = of;
        if cx.config.faults.has(Fault::ClearUnlooked) {
            return clear(cx, group, position);
        }
        self.walk = Some(Walk {
            group,
            position,
            doubts: cx.groups[group].doubts,
            list: List::Due {
                at: now,
                from: ChunkIndex(0),
            },
            todo: VecDeque::new(),
            again: BTreeSet::new(),
            again_at: None,
            rounds: 1,
            active: 0,
            failed: false,
            differs: false,
        });
    }

    fn end(&mut self, cx: &mut Context, now: Time) {
        let Some(walk) = self.walk.take() else { return };
        let of = (walk.group, walk.position);
        if walk.failed || walk.differs {
            let pause = self.pauses.entry(of).or_default();
            pause.in_vain = if walk.differs { pause.in_vain + 1 } else { 0 };
            pause.until = now.plus((LONG_PAUSE * (1 << pause.in_vain.min(8))).min(AT_MOST));
        } else {
            clear(cx, walk.group, walk.position);
            self.pauses.remove(&of);
        }
        if !cx.groups.doubted.is_empty() {
            // The next one's turn.
            cx.agenda.put_off(now);
        }
    }

    /// These members have left, or are new.
    pub fn forget(&mut self, group: GroupSlot, positions: Members) {
        self.pauses.retain(|of, _| of.0 != group || !positions.has(of.1));
    }

    /// A member has listed its chunks.
    pub fn listed(
        &mut self,
        cx: &mut Context,
        now: Time,
        (slot, position): (TaskSlot, Position),
        page: Page,
    ) -> Result<(), Misbehaved> {
        let group = cx.tasks[slot].group;
        if let Some(walk) = &mut self.walk
            && let List::Asked { from, pages } = &mut walk.list
        {
            check_page(cx, group, *from, &page)?;
            pages[position] = Some(page);
        }
        cx.settle(slot, position);
        if cx.tasks[slot].waiting.is_empty() {
            cx.tasks.remove(slot);
            if let Some(walk) = &mut self.walk {
                walk.compare_lists(cx, now);
            }
        }
        Ok(())
    }

    /// The list will not come: it is asked for again.
    pub fn list_again(&mut self, cx: &mut Context, now: Time, slot: TaskSlot) {
        cx.settle_all(slot);
        cx.tasks.remove(slot);
        let at = now.plus(PAUSE);
        if let Some(walk) = &mut self.walk
            && let List::Asked { from, .. } = walk.list
        {
            walk.list = List::Due { at, from };
            cx.agenda.put_off(at);
            cx.agenda.arm(at);
        }
    }

    /// A comparison has ended.
    pub fn compared(&mut self, cx: &mut Context, of: &Subject, after: After) {
        let Some(walk) = &mut self.walk else { return };
        let right = after == After::Looked { seen: true };
        walk.active -= 1;
        walk.failed |= cx.groups[walk.group].doubts != walk.doubts;
        if !right && !walk.failed {
            let is_hopeless = walk.rounds >= MAX_ROUNDS || walk.again.len() >= MAX_AGAIN;
            let goes = cx.groups[walk.group].to_evict.has(walk.position);
            walk.differs |= is_hopeless || after == After::Differs || goes;
            walk.failed = is_hopeless || goes;
            // One that differs for good does so in the next round, too. The others may be alike, and are read again then.
            if after != After::Differs {
                walk.again.insert(cx.chunks[of.chunk].index);
            }
        }
        if right && !walk.failed {
            cx.chunks[of.chunk].lag.unproven.remove(of.position);
            cx.intake.is_due = true;
        }
        // What comes next does so at once.
        cx.agenda.put_off(Time(0));
    }
}

/// The member lacks nothing: it is one like any other.
fn clear(cx: &mut Context, group: GroupSlot, position: Position) {
    cx.groups[group].doubted.remove(position);
    if cx.groups[group].doubted.is_empty() {
        cx.groups.doubted.remove(&group);
    }
    cx.counters.cleared += 1;
    cx.intake.is_due = true;
}

impl Walk {
    /// Asks all members in sync which chunks of the group they hold, if all of them can be asked.
    fn list_chunks(&mut self, cx: &mut Context, now: Time, from: ChunkIndex) -> bool {
        let members = cx.groups[self.group].members.current;
        let asked = ask_for_chunks(cx, now, (self.group, members), SyncStep::Doubt, from);
        if asked {
            self.list = List::Asked {
                from,
                pages: Default::default(),
            };
        }
        asked
    }

    /// All have answered: what is not alike is to be compared entry by entry.
    fn compare_lists(&mut self, cx: &Context, now: Time) {
        let List::Asked { pages, .. } = std::mem::replace(&mut self.list, List::Ended) else {
            return;
        };
        let (chunks, end) = merged(*pages);
        let has_states = cx.cut.number > SnapshotId::HEAD;
        for (index, version) in chunks {
            let chunk = cx.chunks.slot_of(index);
            let unproven = chunk.is_some_and(|chunk| cx.chunks[chunk].lag.unproven.has(self.position));
            let alike = version.is_some_and(|version| is_settled_at(&cx.chunks, index, version));
            if unproven || !alike || has_states {
                self.todo.push_back(index);
            }
        }
        if let Some(from) = end {
            self.list = List::Due { at: now, from };
        }
    }
}
