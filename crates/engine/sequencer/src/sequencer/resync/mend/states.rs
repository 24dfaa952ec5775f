//! What a chunk was for its snapshots, at a member that is being brought up to date (S5, S6; decision 041).
//!
//! When the chunk itself is compared, the source and the member are asked for their states. The member drops those that the source
//! has not: they are of a history that was given up, or nobody needs them. Then it gets those that it lacks, from the newest
//! to the oldest, one after the other: a *frame*, which begins as its newer neighbour is; window by window what differs from the
//! source's, where data travels only for what neither neighbour has; and the word that it is closed. Whatever disturbs this leaves
//! an open state, which serves nothing and is listed: the next one who comes goes on with it.
//!
//! A state is named by its version: two of one version are the same (S5). So those that both have are not looked at.
//!
//! What is left of snapshots that are deleted, and whose mark was kept, stands among the states in both lists: it is dropped in the same
//! way, and brought by one word, for it has nothing but its version.

use super::window::{Page, is_window};
use super::{After, LONG_PAUSE, Mending, PAUSE, Stage, Subject};
use crate::faults::Fault;
use crate::members::Position;
use crate::sequencer::context::Context;
use crate::sequencer::resync::progress::Tallies;
use crate::task::MendStep;
use amita_reactor::{Slice, Time};
use amita_types::message::{
    Change, ChangesRequest, CloseRequest, FrameRequest, MAX_CHANGES, MAX_SNAPSHOTS, MarkRequest, PutRequest,
    ReadRequest, RequestBody, RetainSnapshotsRequest, StateInfo, StatesAnswer, StatesRequest, Sums,
};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, SnapshotId, Version};
use std::collections::{BTreeMap, VecDeque};

/// How far the states of a chunk have come.
#[derive(Debug)]
pub(super) struct States {
    source: Position,
    /// The number that the source's version carries, and the one that its first write carried.
    pub number: SnapshotId,
    pub born: SnapshotId,
    /// Those of the source and those of the member, oldest first.
    at_source: Vec<StateInfo>,
    at_target: Vec<StateInfo>,
    /// The member drops what these do not name.
    drops: VecDeque<RetainSnapshotsRequest>,
    /// Those that the member lacks, oldest first.
    todo: Vec<StateInfo>,
    step: Step,
}

/// The next request, or the one that is awaited.
#[derive(Debug)]
enum Step {
    /// Lists go on from here; `None`: that one is whole.
    List([Option<SnapshotId>; 2]),
    /// So many answers are awaited.
    Listing([Option<SnapshotId>; 2], u32),
    Drop,
    Dropping,
    Frame(StateInfo),
    Framing(StateInfo),
    Compare(StateInfo, BlockIndex),
    Comparing(StateInfo, [Option<Page>; 2]),
    Put(StateInfo, Part),
    Putting(StateInfo, Part),
    Fetching(StateInfo, Part, usize),
    Close(StateInfo),
    Closing,
    Mark(StateInfo),
    Marking,
}

/// What differs in one window of a state.
#[derive(Debug, Default)]
struct Part {
    /// The block behind its last one.
    end: u32,
    entries: Vec<Change>,
    /// The data of those that the member has nowhere.
    data: BTreeMap<BlockIndex, Slice>,
}

impl Mending {
    /// The chunk itself is compared: now its states are.
    pub(super) fn begin_states(&mut self, cx: &mut Context, now: Time) -> After {
        let heads_alone = cx.config.faults.has(Fault::BringHeadsAlone);
        if cx.cut.number == SnapshotId::HEAD || heads_alone {
            self.numbers = (cx.chunks[self.subject.chunk].log.number, SnapshotId::HEAD);
            self.stage = Stage::Finishing;
            return self.advance(cx, now);
        }
        let source = match self.choose_source(cx, now) {
            Ok(Some(source)) => source,
            Ok(None) => {
                self.stage = Stage::Compared;
                return After::GoesOn;
            }
            Err(after) => return after,
        };
        self.stage = Stage::States(Box::new(States {
            source,
            number: SnapshotId::HEAD,
            born: SnapshotId::HEAD,
            at_source: Vec::new(),
            at_target: Vec::new(),
            drops: VecDeque::new(),
            todo: Vec::new(),
            step: Step::List([Some(SnapshotId::HEAD); 2]),
        }));
        self.advance(cx, now)
    }

    /// Sends what comes next, if nothing is awaited.
    pub(super) fn bring(&mut self, cx: &mut Context, now: Time) -> After {
        let Subject {
            group, position, chunk, ..
        } = self.subject;
        let Stage::States(states) = &self.stage else {
            panic!("states are brought in their stage, not in {:?}", self.stage)
        };
        let source = states.source;
        if !states.step.is_due() {
            return After::GoesOn;
        }
        if !cx.groups[group].members.current.has(source) {
            return self.begin_again(cx, now, PAUSE);
        }
        if !cx.can_send(group, position) || !cx.can_send(group, source) || !self.has_leave(cx, now, false) {
            return After::GoesOn;
        }
        let index = cx.chunks[chunk].index;
        let states = self.states();
        let step = std::mem::replace(&mut states.step, Step::Closing);
        match step {
            Step::List(from) => {
                let asked = from.iter().flatten().count() as u32;
                states.step = Step::Listing([None; 2], asked);
                let at = [(source, MendStep::States(true)), (position, MendStep::States(false))];
                for ((member, step), from) in at.into_iter().zip(from) {
                    let Some(from) = from else { continue };
                    let body = RequestBody::States(StatesRequest { chunk: index, from });
                    self.send(cx, now, member, step, body, Slice::default());
                }
            }
            Step::Drop => {
                let keep = states
                    .drops
                    .pop_front()
                    .expect("it is only due where there is something");
                states.step = Step::Dropping;
                let body = RequestBody::RetainSnapshots(keep);
                self.send(cx, now, position, MendStep::Drop, body, Slice::default());
            }
            Step::Frame(state) => {
                states.step = Step::Framing(state);
                let StateInfo { above, to, version, .. } = state;
                let body = RequestBody::Frame(FrameRequest {
                    chunk: index,
                    above,
                    to,
                    version,
                });
                self.send(cx, now, position, MendStep::Frame, body, Slice::default());
            }
            Step::Compare(state, from) => {
                states.step = Step::Comparing(state, [None, None]);
                let since = Version::NONE;
                let chunk = index;
                let body = RequestBody::Changes(ChangesRequest { chunk, since, from });
                self.send_view(cx, now, (source, state.to), MendStep::StateOf(true), body.clone());
                self.send_view(cx, now, (position, state.to), MendStep::StateOf(false), body);
            }
            Step::Put(state, part) => self.put_part(cx, now, state, part),
            Step::Close(StateInfo { to, version, .. }) => {
                let body = RequestBody::Close(CloseRequest {
                    chunk: index,
                    to,
                    version,
                });
                self.send(cx, now, position, MendStep::Close, body, Slice::default());
            }
            Step::Mark(StateInfo { above, to, version, .. }) => {
                states.step = Step::Marking;
                let body = RequestBody::Mark(MarkRequest {
                    chunk: index,
                    above,
                    to,
                    version,
                });
                self.send(cx, now, position, MendStep::Mark, body, Slice::default());
            }
            awaited => unreachable!("{awaited:?} is not due"),
        }
        After::GoesOn
    }

    fn states(&mut self) -> &mut States {
        match &mut self.stage {
            Stage::States(states) => states,
            other => panic!("an answer belongs to its stage, not to {other:?}"),
        }
    }

    /// A member has listed its states.
    pub(super) fn listed_states(&mut self, cx: &mut Context, now: Time, of_source: bool, page: StatesAnswer) -> After {
        let states = self.states();
        let known = if of_source {
            &mut states.at_source
        } else {
            &mut states.at_target
        };
        let before = known.last().map_or(SnapshotId::HEAD, |last| last.to);
        let right = is_list(before, &page);
        known.extend(page.states);
        if of_source {
            (states.number, states.born) = (page.number, page.born);
        }
        let Step::Listing(more, awaited) = &mut states.step else {
            panic!("a list was not asked for in {:?}", states.step)
        };
        more[usize::from(!of_source)] = page.more;
        *awaited -= 1;
        let (more, awaited) = (*more, *awaited);
        if !right {
            return self.begin_again(cx, now, LONG_PAUSE);
        }
        if awaited > 0 {
            return After::GoesOn;
        }
        if more.iter().any(Option::is_some) {
            states.step = Step::List(more);
            return self.advance(cx, now);
        }
        self.plan(cx, now)
    }

    /// Both have listed all: what is to be dropped, and what is to be brought?
    fn plan(&mut self, cx: &mut Context, now: Time) -> After {
        if self.is_look() {
            let states = self.states();
            let whole = states.at_target.iter().all(|state| !state.open);
            let has = |state: &StateInfo| states.at_target.iter().any(|own| stands_for(own, state));
            // What it has besides has been trimmed at the source: each trims in its own time.
            return After::Looked {
                seen: whole && states.at_source.iter().all(has),
            };
        }
        let afresh = std::mem::take(&mut self.afresh);
        let chunk = cx.chunks[self.subject.chunk].index;
        let states = self.states();
        let same = |one: &StateInfo, other: &StateInfo| {
            (one.above, one.to, one.version, one.mark) == (other.above, other.to, other.version, other.mark)
        };
        let (has, wants) = (std::mem::take(&mut states.at_target), &states.at_source);
        let whole = |state: &StateInfo| has.iter().any(|own| same(own, state) && !own.open);
        let todo: Vec<StateInfo> = wants.iter().filter(|state| afresh || !whole(state)).copied().collect();
        // An open one goes on only if nothing newer is lacking: it stands between neighbours that are right.
        let goes_on = |state: &StateInfo| !state.open || todo.last().is_some_and(|newest| same(newest, state));
        let (kept, gone): (Vec<StateInfo>, Vec<StateInfo>) = has
            .iter()
            .partition(|state| !afresh && goes_on(state) && wants.iter().any(|other| same(state, other)));
        if !gone.is_empty() {
            states.drops = retained(chunk, &kept);
        }
        states.todo = todo;
        states.at_target = kept;
        self.next_state(cx, now)
    }

    fn next_state(&mut self, cx: &mut Context, now: Time) -> After {
        let states = self.states();
        if !states.drops.is_empty() {
            states.step = Step::Drop;
        } else if let Some(state) = states.todo.pop() {
            let framed = states.at_target.iter().any(|own| own.to == state.to);
            states.step = match framed {
                _ if state.mark => Step::Mark(state),
                true => Step::Compare(state, BlockIndex(0)),
                false => Step::Frame(state),
            };
        } else {
            self.numbers = (states.number, states.born);
            self.stage = Stage::Finishing;
        }
        self.advance(cx, now)
    }

    /// The member has done what it was asked: it has dropped states, has framed one, or has closed one.
    pub(super) fn state_done(&mut self, cx: &mut Context, now: Time) -> After {
        self.pass = None;
        let states = self.states();
        if let Step::Framing(state) = states.step {
            states.step = Step::Compare(state, BlockIndex(0));
            return self.advance(cx, now);
        }
        self.next_state(cx, now)
    }

    /// The source, or the member, has listed entries of a state.
    pub(super) fn listed_state(&mut self, cx: &mut Context, now: Time, of_source: bool, page: Page) -> After {
        if !is_window(&page.0, page.1, cx.owned.blocks_per_chunk) {
            return self.begin_again(cx, now, LONG_PAUSE);
        }
        let blocks = u32::from(cx.owned.blocks_per_chunk);
        let states = self.states();
        let Step::Comparing(state, pages) = &mut states.step else {
            panic!("a state was not asked for in {:?}", states.step)
        };
        pages[usize::from(!of_source)] = Some(page);
        let [Some((source, source_more)), Some((target, target_more))] = pages else {
            return After::GoesOn;
        };
        let ends = [*source_more, *target_more].into_iter().flatten();
        let end = ends.map(|more| u32::from(more.0)).min().unwrap_or(blocks);
        let (state, part) = (*state, Part::of(source, target, end));
        if part.entries.is_empty() {
            return self.part_done(cx, now, state, part.end);
        }
        states.step = Step::Put(state, part);
        self.advance(cx, now)
    }

    /// Sends the entries of a window, with the data that is known to be needed.
    fn put_part(&mut self, cx: &mut Context, now: Time, state: StateInfo, part: Part) {
        let mut with_data = 0;
        let mut payload = Vec::new();
        for (at, entry) in part.entries.iter().enumerate() {
            if let Some(data) = part.data.get(&entry.block) {
                with_data |= 1 << at;
                payload.extend_from_slice(data);
            }
        }
        if let Some(pass) = &mut self.pass {
            pass.add(payload.len() as u64, 2);
        }
        let body = RequestBody::Put(PutRequest {
            chunk: cx.chunks[self.subject.chunk].index,
            to: state.to,
            with_data,
            version: state.version,
            entries: part.entries.clone(),
        });
        self.states().step = Step::Putting(state, part);
        let position = self.subject.position;
        self.send(cx, now, position, MendStep::Put, body, Slice::copy_from(&payload));
    }

    /// The member has put the entries of a window into a state; or it lacks the data of some, and has put none.
    pub(super) fn state_put(
        &mut self,
        cx: &mut Context,
        tallies: &mut Tallies,
        now: Time,
        lacking: &[BlockIndex],
    ) -> After {
        let states = self.states();
        let source = states.source;
        let Step::Putting(state, part) = std::mem::replace(&mut states.step, Step::Closing) else {
            panic!("nothing was put, and is answered")
        };
        if lacking.is_empty() {
            let store = cx.id_of(self.subject.group, self.subject.position);
            tallies.sent(store, part.data.len());
            cx.counters.mended_blocks += part.data.len() as u64;
            return self.part_done(cx, now, state, part.end);
        }
        let listed = |block: &BlockIndex| {
            let entry = part.entries.iter().find(|entry| entry.block == *block);
            entry.is_some_and(|entry| entry.sum.is_some()) && !part.data.contains_key(block)
        };
        if !lacking.iter().all(listed) || !cx.groups[self.subject.group].members.current.has(source) {
            return self.begin_again(cx, now, PAUSE);
        }
        let mut runs: Vec<BlockRange> = Vec::new();
        for block in lacking {
            match runs.last_mut() {
                Some(run) if run.end() == u32::from(block.0) => run.count += 1,
                _ => runs.push(BlockRange::new(block.0, 1)),
            }
        }
        if !cx.can_send(self.subject.group, source) {
            return self.begin_again(cx, now, PAUSE);
        }
        self.states().step = Step::Fetching(state, part, runs.len());
        let chunk = cx.chunks[self.subject.chunk].index;
        for range in runs {
            let body = RequestBody::Read(ReadRequest {
                chunk,
                range,
                least: Version::NONE,
                versions: false,
                newest: None,
            });
            self.send_view(cx, now, (source, state.to), MendStep::StateData(range), body);
        }
        After::GoesOn
    }

    /// The source has sent blocks of a state.
    pub(super) fn state_data(
        &mut self,
        cx: &mut Context,
        now: Time,
        range: BlockRange,
        sums: &Sums,
        payload: &Slice,
    ) -> After {
        let block_bytes = BLOCK_BYTES as usize;
        let count = usize::from(range.count);
        if payload.len() != count * block_bytes || sums.len() != count {
            return self.begin_again(cx, now, LONG_PAUSE);
        }
        let states = self.states();
        let source = states.source;
        let Step::Fetching(_, part, awaited) = &mut states.step else {
            panic!("data was not asked for in {:?}", states.step)
        };
        *awaited -= 1;
        let mut trimmed = false;
        for (place, block) in range.iter().enumerate() {
            let data = payload.slice(place * block_bytes..(place + 1) * block_bytes);
            if amita_types::crc32c(&data) != sums[place] {
                // End to end: whatever spoiled it, it gets no fresh checksum.
                return self.source_damaged(cx, now, source, block);
            }
            let listed = part.entries.iter().find(|entry| entry.block == block);
            trimmed |= listed.is_none_or(|entry| entry.sum != Some(sums[place]));
            part.data.insert(block, data);
        }
        let awaited = *awaited;
        if trimmed {
            // A state never changes: this is another one.
            return self.begin_again(cx, now, LONG_PAUSE);
        }
        if awaited > 0 {
            return After::GoesOn;
        }
        let Step::Fetching(state, part, _) = std::mem::replace(&mut states.step, Step::Closing) else {
            unreachable!("looked at above")
        };
        states.step = Step::Put(state, part);
        self.advance(cx, now)
    }

    /// A window of a state is as the source has it.
    fn part_done(&mut self, cx: &mut Context, now: Time, state: StateInfo, end: u32) -> After {
        self.pass = None;
        let more = end < u32::from(cx.owned.blocks_per_chunk);
        self.states().step = match more {
            true => Step::Compare(state, BlockIndex(end as u16)),
            false => Step::Close(state),
        };
        self.advance(cx, now)
    }
}

impl Step {
    /// Is nothing awaited?
    fn is_due(&self) -> bool {
        match self {
            Step::List(_)
            | Step::Drop
            | Step::Frame(_)
            | Step::Compare(..)
            | Step::Put(..)
            | Step::Close(_)
            | Step::Mark(_) => true,
            Step::Listing(..)
            | Step::Dropping
            | Step::Framing(_)
            | Step::Comparing(..)
            | Step::Putting(..)
            | Step::Fetching(..)
            | Step::Closing
            | Step::Marking => false,
        }
    }
}

impl Part {
    /// What the source has otherwise than the member, below `end`: as much as one message takes.
    fn of(source: &[Change], target: &[Change], end: u32) -> Part {
        let mut blocks: BTreeMap<BlockIndex, (Option<Change>, Option<Change>)> = BTreeMap::new();
        for change in source {
            blocks.entry(change.block).or_default().0 = Some(*change);
        }
        for change in target {
            blocks.entry(change.block).or_default().1 = Some(*change);
        }
        let never = |block| Change {
            block,
            version: Version::NONE,
            sum: None,
        };
        let differ = blocks
            .into_iter()
            .filter(|(block, (source, target))| u32::from(block.0) < end && source != target);
        let mut part = Part {
            end,
            entries: differ
                .map(|(block, (source, _))| source.unwrap_or(never(block)))
                .collect(),
            data: BTreeMap::new(),
        };
        if part.entries.len() > MAX_CHANGES {
            part.entries.truncate(MAX_CHANGES);
            part.end = u32::from(part.entries[MAX_CHANGES - 1].block.0) + 1;
        }
        part
    }
}

/// Is this a part of a list of states that goes on behind `before`?
pub(super) fn is_list(before: SnapshotId, page: &StatesAnswer) -> bool {
    let mut last = before;
    for state in &page.states {
        if state.above < last || state.to <= state.above {
            return false;
        }
        last = state.to;
    }
    page.states.len() <= MAX_SNAPSHOTS && page.more.is_none_or(|more| more == last && last > before)
}

/// Is the member's state as good as the source's? A mark may have been made of an older state, and of more of them: then more counts as
/// changed since, and nothing less.
fn stands_for(own: &StateInfo, of: &StateInfo) -> bool {
    let covers = own.above <= of.above && of.to <= own.to && own.version <= of.version;
    own == of || (own.mark && of.mark && covers)
}

/// What drops all states but these.
fn retained(chunk: amita_types::ChunkIndex, kept: &[StateInfo]) -> VecDeque<RetainSnapshotsRequest> {
    let mut above = SnapshotId::HEAD;
    let mut all = VecDeque::new();
    let mut part = |to: SnapshotId, kept: &[StateInfo]| {
        all.push_back(RetainSnapshotsRequest {
            chunk,
            head: true,
            above: std::mem::replace(&mut above, to),
            to,
            live: kept.iter().map(|state| state.to).collect(),
        });
    };
    for kept in kept.chunks(MAX_SNAPSHOTS) {
        part(kept[kept.len() - 1].to, kept);
    }
    part(SnapshotId(u32::MAX), &[]);
    all
}

#[cfg(test)]
mod tests;
