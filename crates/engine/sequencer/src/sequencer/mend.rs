//! One chunk at a member that is being brought up to date: its entries are compared with those of an in-sync member, and
//! what differs is replaced (R1, R5).
//!
//! The member joins the chunk's history first, so that it misses nothing from then on. It tells since which version its copy
//! is incomplete; all entries up to [`MAX_WRITES_PER_CHUNK`] writes before that version are surely the same everywhere,
//! because no more than those can have been without an acknowledgement. Newer ones are listed, from the member and from a
//! source, a window of blocks at a time. A block whose entry differs (in its version, or in its checksum: a write of a part
//! of a block merges with what the member has) is read from the source, and sent to replace exactly the entry that was
//! listed: a write that came in between wins, and the block is compared again. When nothing differs any more the copy is
//! whole, as of the writes that were sent before.

use super::Sequencer;
use super::join::passes_by_itself;
use super::state::ChunkState;
use crate::config::MAX_WRITES_PER_CHUNK;
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::pace::{Level, Pass};
use crate::table::{ChunkSlot, GroupSlot, MendSlot, SyncSlot, TaskSlot};
use crate::task::{Kind, MendStep, SyncStep};
use amita_reactor::{Slice, Time};
use amita_types::message::{
    AnswerBody, Change, ChangesAnswer, ChangesRequest, DataAnswer, Expect, MAX_CHANGES, Mend, MendRequest,
    MendedAnswer, OpenRequest, OpenedAnswer, ReadRequest, Refusal, RequestBody, Sums, VerifiedAnswer, VerifyRequest,
    WholeRequest,
};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, Version};
use std::collections::BTreeMap;
use std::time::Duration;

/// After so many comparisons that found the chunk changing, its writes are held while it is compared.
const HOLD_AFTER: u32 = 6;
/// A look at an in-sync member that comes to nothing so often is given up.
const MAX_ATTEMPTS: u32 = 8;
/// How long a chunk that could not be dealt with is left alone.
const PAUSE: Duration = Duration::from_millis(20);
/// How long, where it cannot be opened or no copy of it is intact.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// What a chunk's copy is looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Its member is brought up to date: its place among those that are.
    Sync(SyncSlot),
    /// All of it is checked (see `scrub`).
    Scrub,
    /// The neighbourhood of a block that was found damaged is checked.
    Repair(BlockIndex),
}

/// One chunk under way.
#[derive(Debug)]
pub(super) struct Mending {
    mode: Mode,
    group: GroupSlot,
    position: Position,
    chunk: ChunkSlot,
    stage: Stage,
    not_before: Time,
    /// The chunk was asked to be opened.
    opening: bool,
    /// Entries above this one are compared.
    since: Version,
    /// Everything up to here must be on the source before it is listed.
    mark: Version,
    source: Position,
    /// Members whose copy is damaged.
    bad_sources: Members,
    /// The first block of the window.
    from: BlockIndex,
    source_page: Option<Page>,
    target_page: Option<Page>,
    /// Blocks of the target that fail their checksum.
    damaged: Vec<BlockIndex>,
    /// Times that a look at an in-sync member had to begin again.
    attempts: u32,
    end: u32,
    fixes: Vec<Fix>,
    awaited: usize,
    /// Something was seen that must be compared again.
    dirty: bool,
    passes: u32,
    /// Its tasks that are awaited.
    tasks: Vec<TaskSlot>,
    /// The leave for the window that is under way; and whether there was one to begin.
    pass: Option<Pass>,
    begun: bool,
}

type Page = (Vec<Change>, Option<BlockIndex>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Until the chunk is open.
    Opening,
    /// Until the member has joined.
    Joining,
    /// It was asked since when it is incomplete.
    Asking,
    /// Until what was under way is on the source.
    Settling,
    Listing,
    Fetching,
    Mending,
    /// Until everything was sent to the member.
    Finishing,
    /// It was told that its copy is whole.
    Telling,
}

/// A block that is to be replaced.
#[derive(Debug)]
struct Fix {
    block: BlockIndex,
    expect: Expect,
    /// The source's entry; `None` until it is known.
    put: Option<(Version, Option<u32>)>,
    data: Slice,
}

impl Mending {
    /// An in-sync member is looked at as it is.
    fn look_from(&mut self, block: BlockIndex, issued: Version) {
        self.since = Version::NONE;
        self.from = block;
        self.mark = issued;
        self.stage = Stage::Settling;
    }

    fn is_look(&self) -> bool {
        !matches!(self.mode, Mode::Sync(_))
    }

    fn blank(&mut self) {
        self.source_page = None;
        self.target_page = None;
        self.damaged.clear();
        self.fixes.clear();
        self.awaited = 0;
    }
}

/// Versions up to this one are the same wherever the copy was once whole at `base`.
fn common(base: Version) -> Version {
    let counter = base.counter().saturating_sub(u64::from(MAX_WRITES_PER_CHUNK));
    Version::new(base.generation(), counter).expect("smaller than a version that there is")
}

impl Sequencer {
    pub(super) fn start_mending(
        &mut self,
        now: Time,
        mode: Mode,
        group: GroupSlot,
        position: Position,
        chunk: ChunkSlot,
    ) {
        let mending = Mending {
            mode,
            group,
            position,
            chunk,
            stage: Stage::Opening,
            not_before: now,
            opening: false,
            since: Version::NONE,
            mark: Version::NONE,
            source: position,
            bad_sources: Members::NONE,
            from: BlockIndex(0),
            source_page: None,
            target_page: None,
            damaged: Vec::new(),
            attempts: 0,
            end: 0,
            fixes: Vec::new(),
            awaited: 0,
            dirty: false,
            passes: 0,
            tasks: Vec::new(),
            pass: None,
            begun: false,
        };
        self.syncs.mending += 1;
        self.syncs.mendings.put(mending);
    }

    fn mending(&mut self, of: MendSlot) -> Option<&mut Mending> {
        self.syncs.mendings[of].as_mut()
    }

    /// Goes on where nothing is awaited but a change of the chunk or of the member.
    pub(super) fn advance_mending(&mut self, now: Time, of: MendSlot) {
        // Each turn either ends in a wait or reaches a later stage.
        loop {
            let Some(mending) = self.mending(of) else { return };
            if mending.not_before > now {
                let at = mending.not_before;
                return self.syncs.put_off(at);
            }
            if !self.may_begin(now, of) {
                return;
            }
            let Some(mending) = self.mending(of) else { return };
            let (group, position, chunk, stage) = (mending.group, mending.position, mending.chunk, mending.stage);
            let moved = match stage {
                Stage::Opening => self.mend_open(now, of, chunk),
                Stage::Joining => self.mend_join(now, of, group, position, chunk),
                Stage::Settling => self.mend_list(now, of, group, position, chunk),
                Stage::Finishing => self.mend_finish(now, of, group, position, chunk),
                Stage::Asking | Stage::Listing | Stage::Fetching | Stage::Mending | Stage::Telling => false,
            };
            if !moved {
                return;
            }
        }
    }

    /// Has it leave to begin? What waits for others for long keeps nobody from working meanwhile.
    fn may_begin(&mut self, now: Time, of: MendSlot) -> bool {
        let Some(mending) = self.mending(of) else { return false };
        let waits = matches!(
            mending.stage,
            Stage::Opening | Stage::Joining | Stage::Settling | Stage::Finishing
        );
        if waits {
            mending.pass.take_if(|pass| pass.is_old(now));
        }
        mending.begun || self.has_leave(now, of, false)
    }

    /// Leave for the window that comes next, or a moment to ask again; `held`: clients' writes wait for it.
    fn has_leave(&mut self, now: Time, of: MendSlot, held: bool) -> bool {
        let Some(mending) = self.mending(of) else { return false };
        let (group, mode) = (mending.group, mending.mode);
        if mending.pass.is_some() {
            return true;
        }
        let level = match mode {
            Mode::Sync(_) => self.level(group),
            Mode::Scrub => Level::Scrub,
            Mode::Repair(_) => Level::Degraded,
        };
        let pass = self.ask_for_window(now, level, held);
        let Some(mending) = self.mending(of) else { return false };
        mending.begun |= pass.is_some();
        mending.pass = pass;
        mending.pass.is_some()
    }

    fn set_stage(&mut self, of: MendSlot, stage: Stage) {
        if let Some(mending) = self.mending(of) {
            mending.stage = stage;
        }
    }

    fn mend_open(&mut self, now: Time, of: MendSlot, chunk: ChunkSlot) -> bool {
        match self.chunks[chunk].state {
            ChunkState::Open => {
                let issued = self.chunks[chunk].issued;
                let Some(mending) = self.mending(of) else { return false };
                match mending.mode {
                    Mode::Sync(_) => mending.stage = Stage::Joining,
                    Mode::Scrub => mending.look_from(BlockIndex(0), issued),
                    Mode::Repair(block) => mending.look_from(block, issued),
                }
                true
            }
            ChunkState::Waiting | ChunkState::Opening(_) => false,
            ChunkState::Closed => {
                let Some(mending) = self.mending(of) else { return false };
                if !std::mem::replace(&mut mending.opening, true) {
                    self.want_open(now, chunk);
                } else {
                    // That came to nothing: no intact copy was found. Perhaps later.
                    self.begin_again(now, of, LONG_PAUSE);
                }
                false
            }
        }
    }

    fn mend_join(&mut self, now: Time, of: MendSlot, group: GroupSlot, position: Position, chunk: ChunkSlot) -> bool {
        let state = &self.chunks[chunk];
        if !matches!(state.state, ChunkState::Open) {
            self.set_stage(of, Stage::Opening);
            return true;
        }
        if !self.can_send(group, position) || state.stalled.has(position) {
            return false;
        }
        if !state.joined.has(position) {
            // Behind nothing: whatever it is sent from now on comes after what was given out last.
            let at = state.issued;
            self.join_first(now, chunk, position, at);
            return false;
        }
        let index = state.index;
        self.set_stage(of, Stage::Asking);
        self.mend_send(
            now,
            of,
            position,
            MendStep::Ask,
            RequestBody::Open(OpenRequest { chunk: index }),
            Slice::default(),
        );
        false
    }

    /// Lists the next window, when what was under way is on the source.
    fn mend_list(&mut self, now: Time, of: MendSlot, group: GroupSlot, position: Position, chunk: ChunkSlot) -> bool {
        let state = &self.chunks[chunk];
        let unsettled = self.config.faults.has(Fault::CompareUnsettled);
        let (committed, issued, index, held) = (state.committed, state.issued, state.index, state.held_back);
        let Some(mending) = self.mending(of) else { return false };
        if !unsettled && (committed < mending.mark || (held && committed < issued)) {
            return false;
        }
        let (since, from, look) = (mending.since, mending.from, mending.is_look());
        let mut bad = mending.bad_sources;
        if look {
            bad.add(position);
        }
        if !self.can_send(group, position) {
            return false;
        }
        let current = self.groups[group].current;
        let can = |&source: &Position| self.can_send(group, source);
        let sources: Vec<Position> = current.without(bad).iter().filter(can).collect();
        if current.without(bad).is_empty() {
            // Nobody has an intact copy: what is said of it has been said.
            let Some(mending) = self.mending(of) else { return false };
            if look {
                self.end_look(of, false);
                return false;
            }
            mending.bad_sources = Members::NONE;
            self.begin_again(now, of, LONG_PAUSE);
            return false;
        }
        let Some(&source) = sources.get(index.0 as usize % sources.len().max(1)) else {
            return false;
        };
        if !self.has_leave(now, of, held) {
            return false;
        }
        let Some(mending) = self.mending(of) else { return false };
        mending.source = source;
        mending.stage = Stage::Listing;
        mending.blank();
        let body = RequestBody::Changes(ChangesRequest {
            chunk: index,
            since,
            from,
        });
        self.mend_send(now, of, source, MendStep::Source, body.clone(), Slice::default());
        let body = if look {
            RequestBody::Verify(VerifyRequest {
                chunk: index,
                from,
                least: committed,
            })
        } else {
            body
        };
        self.mend_send(now, of, position, MendStep::Target, body, Slice::default());
        false
    }

    fn mend_finish(&mut self, now: Time, of: MendSlot, group: GroupSlot, position: Position, chunk: ChunkSlot) -> bool {
        let state = &self.chunks[chunk];
        if !self.can_send(group, position) || state.stalled.has(position) {
            return false;
        }
        let body = RequestBody::Whole(WholeRequest {
            chunk: state.index,
            version: state.issued,
        });
        self.set_stage(of, Stage::Telling);
        self.mend_send(now, of, position, MendStep::Whole, body, Slice::default());
        false
    }

    fn mend_send(
        &mut self,
        now: Time,
        of: MendSlot,
        position: Position,
        step: MendStep,
        body: RequestBody,
        payload: Slice,
    ) {
        let Some(mending) = self.mending(of) else { return };
        let (group, chunk) = (mending.group, mending.chunk);
        let slot = self.tasks.add(Kind::Sync(SyncStep::Mend(of, step)), group, Some(chunk));
        if let Some(mending) = self.mending(of) {
            mending.tasks.push(slot);
        }
        self.expect(now, slot, position);
        self.send(now, slot, position, body, payload);
    }

    pub(super) fn mend_answered(
        &mut self,
        now: Time,
        slot: TaskSlot,
        position: Position,
        (of, step): (MendSlot, MendStep),
        body: AnswerBody,
        payload: Slice,
    ) {
        let right = matches!(
            (step, &body),
            (MendStep::Ask, AnswerBody::Opened(_))
                | (MendStep::Source | MendStep::Target, AnswerBody::Changes(_))
                | (MendStep::Target, AnswerBody::Verified(_))
                | (MendStep::Fetch(_), AnswerBody::Data(_))
                | (MendStep::Mend, AnswerBody::Mended(_))
                | (MendStep::Whole, AnswerBody::Done)
        );
        if !right {
            let what = format!("an answer that was not asked for: {body:?}");
            return self.misbehaved(now, slot, position, what);
        }
        self.settle_and_drop(slot, position);
        self.care.pacer.tell(now);
        let faults = self.config.faults;
        let Some(mending) = self.mending(of) else { return };
        mending.tasks.retain(|&task| task != slot);
        match (step, body) {
            (_, AnswerBody::Opened(OpenedAnswer { incomplete, .. })) => self.mend_asked(now, of, incomplete),
            (step, AnswerBody::Changes(ChangesAnswer { entries, more })) => {
                if !is_window(&entries, more, self.owned.blocks_per_chunk) {
                    return self.begin_again(now, of, LONG_PAUSE);
                }
                let Some(mending) = self.mending(of) else { return };
                let page = if step == MendStep::Source {
                    &mut mending.source_page
                } else {
                    &mut mending.target_page
                };
                *page = Some((entries, more));
                if mending.source_page.is_some() && mending.target_page.is_some() {
                    self.mend_compare(now, of);
                }
            }
            (_, AnswerBody::Verified(VerifiedAnswer { entries, damaged, more })) => {
                let from = mending.from;
                if more.is_some_and(|more| more.0 >= self.owned.blocks_per_chunk || more <= from) {
                    return self.begin_again(now, of, LONG_PAUSE);
                }
                let Some(mending) = self.mending(of) else { return };
                mending.target_page = Some((entries, more));
                mending.damaged = damaged;
                if mending.source_page.is_some() {
                    self.mend_compare(now, of);
                }
            }
            (MendStep::Fetch(range), AnswerBody::Data(DataAnswer { version, sums })) => {
                self.mend_fetched(now, of, range, version, &sums, &payload);
            }
            (_, AnswerBody::Mended(MendedAnswer { skipped })) => {
                self.counters.mend_skipped += skipped.len() as u64;
                let Some(mending) = self.mending(of) else { return };
                let blocks = mending.fixes.iter().map(|fix| fix.block);
                let done: Vec<BlockIndex> = blocks.filter(|block| !skipped.contains(block)).collect();
                mending.dirty |= !skipped.is_empty() && !faults.has(Fault::TrustMends);
                let (mode, group, chunk) = (mending.mode, mending.group, mending.chunk);
                let sent = mending.fixes.len();
                if matches!(mode, Mode::Sync(_)) {
                    self.counters.mended_blocks += done.len() as u64;
                    self.tally_sent(group, position, sent);
                } else {
                    self.scrub_repaired(mode, group, position, chunk, &done);
                }
                self.next_window(now, of);
            }
            _ => self.end_mending(of),
        }
    }

    /// The member says whether its copy is whole.
    fn mend_asked(&mut self, now: Time, of: MendSlot, incomplete: Option<Version>) {
        let Some(base) = incomplete else {
            return self.end_mending(of);
        };
        let trust_base = self.config.faults.has(Fault::TrustBase);
        let Some(mending) = self.mending(of) else { return };
        mending.since = if trust_base { base } else { common(base) };
        self.begin_pass(now, of);
    }

    /// Compares the chunk from its first block on.
    fn begin_pass(&mut self, now: Time, of: MendSlot) {
        let Some(mending) = self.mending(of) else { return };
        mending.passes += 1;
        mending.dirty = false;
        mending.from = BlockIndex(0);
        mending.stage = Stage::Settling;
        let (chunk, passes) = (mending.chunk, mending.passes);
        let settling = !self.config.faults.has(Fault::NoSettling);
        let issued = self.chunks[chunk].issued;
        if let Some(mending) = self.mending(of) {
            mending.mark = if settling { issued } else { Version::NONE };
        }
        if passes > HOLD_AFTER && !std::mem::replace(&mut self.chunks[chunk].held_back, true) {
            self.counters.mend_held += 1;
        }
        self.advance_mending(now, of);
    }

    /// Both have listed the window: what differs?
    fn mend_compare(&mut self, now: Time, of: MendSlot) {
        let blocks = u32::from(self.owned.blocks_per_chunk);
        let (generation, faults) = (self.owned.generation, self.config.faults);
        let Some(mending) = self.mending(of) else { return };
        let (Some((source, source_more)), Some((target, target_more))) =
            (mending.source_page.take(), mending.target_page.take())
        else {
            return;
        };
        let end = [source_more, target_more]
            .into_iter()
            .flatten()
            .map(|more| u32::from(more.0))
            .min()
            .unwrap_or(blocks);
        mending.end = end;
        if mending.is_look() {
            return self.look_compare(now, of, &source, &target);
        }
        let since = mending.since;
        let mut pairs: BTreeMap<BlockIndex, (Option<Change>, Option<Change>)> = BTreeMap::new();
        for change in source {
            pairs.entry(change.block).or_default().0 = Some(change);
        }
        for change in target {
            pairs.entry(change.block).or_default().1 = Some(change);
        }
        for (block, (source, target)) in pairs.into_iter().filter(|(block, _)| u32::from(block.0) < end) {
            let version = |change: Option<Change>| change.map(|change| change.version);
            if source == target || (faults.has(Fault::CompareVersions) && version(source) == version(target)) {
                continue;
            }
            let newer = |target: &Change| source.is_none_or(|source| target.version > source.version);
            if target.is_some_and(|target| target.version.generation() == generation && newer(&target)) {
                // A write of ours that the source had not carried out when it was asked.
                mending.dirty = true;
                continue;
            }
            mending.fixes.push(Fix {
                block,
                expect: match target {
                    Some(Change { version, sum, .. }) => Expect::Entry { version, sum },
                    None => Expect::Upto { version: since },
                },
                put: source.map(|source| (source.version, source.sum)),
                data: Slice::default(),
            });
        }
        mending.fixes.truncate(MAX_CHANGES);
        self.mend_fetch(now, of);
    }

    /// An in-sync member was looked at: what is damaged is replaced by what the source has under the same entry.
    fn look_compare(&mut self, now: Time, of: MendSlot, source: &[Change], target: &[Change]) {
        let Some(mending) = self.mending(of) else { return };
        let (mode, group, position, chunk) = (mending.mode, mending.group, mending.position, mending.chunk);
        let (from, end, mark) = (mending.from, mending.end, mending.mark);
        let places = Members::one(position).or(Members::one(mending.source));
        let damaged = std::mem::take(&mut mending.damaged);
        let inside = |block: BlockIndex| block >= from && u32::from(block.0) < end;
        let of_block = |page: &[Change], block| page.iter().find(|change| change.block == block).copied();
        for &block in damaged.iter().filter(|block| inside(**block)) {
            self.scrub_damaged(mode, group, position, chunk, block);
            let Some(right) = of_block(source, block) else { continue };
            let expect = match of_block(target, block) {
                Some(held) if held == right => Expect::Entry {
                    version: held.version,
                    sum: held.sum,
                },
                // It is being written, and the next look will find it well.
                Some(_) => continue,
                None => Expect::Lost,
            };
            if let Some(mending) = self.mending(of) {
                mending.fixes.push(Fix {
                    block,
                    expect,
                    put: Some((right.version, right.sum)),
                    data: Slice::default(),
                });
            }
        }
        let state = &self.chunks[chunk];
        if state.issued == mark && state.committed == mark {
            // Nothing was written meanwhile: the copies must be equal.
            let blocks = source.iter().chain(target).map(|change| change.block);
            let mut blocks: Vec<BlockIndex> = blocks
                .filter(|&block| inside(block) && !damaged.contains(&block))
                .collect();
            blocks.sort_unstable();
            blocks.dedup();
            blocks.retain(|&block| of_block(source, block) != of_block(target, block));
            for block in blocks {
                self.scrub_differs(group, places, chunk, block);
            }
        }
        self.mend_fetch(now, of);
    }

    /// A look at an in-sync member has ended.
    fn end_look(&mut self, of: MendSlot, seen: bool) {
        if let Some(mending) = self.syncs.mendings[of].take() {
            self.syncs.mending -= 1;
            self.orphan(mending.tasks);
            self.looked(mending.mode, seen);
        }
    }

    /// Reads from the source what it has data of: one request for each run of neighbours; and alone what it did not list.
    fn mend_fetch(&mut self, now: Time, of: MendSlot) {
        let Some(mending) = self.mending(of) else { return };
        // Of more blocks than a message takes the rest is dealt with by the next window.
        if let Some(last) = mending.fixes.last()
            && mending.fixes.len() == MAX_CHANGES
        {
            mending.end = mending.end.min(u32::from(last.block.0) + 1);
        }
        let mut runs: Vec<(BlockRange, bool)> = Vec::new();
        for fix in &mending.fixes {
            let listed = match fix.put {
                Some((_, None)) => continue,
                Some(_) => true,
                None => false,
            };
            match runs.last_mut() {
                Some((run, true)) if listed && run.end() == u32::from(fix.block.0) => run.count += 1,
                _ => runs.push((BlockRange::new(fix.block.0, 1), listed)),
            }
        }
        mending.awaited = runs.len();
        mending.stage = Stage::Fetching;
        let (source, chunk, group) = (mending.source, mending.chunk, mending.group);
        if runs.is_empty() {
            return self.mend_put(now, of);
        }
        if !self.groups[group].current.has(source) || !self.can_send(group, source) {
            // It has gone since it listed its entries.
            return self.begin_again(now, of, PAUSE);
        }
        let index = self.chunks[chunk].index;
        for (range, _) in runs {
            let body = RequestBody::Read(ReadRequest {
                chunk: index,
                range,
                least: Version::NONE,
            });
            self.mend_send(now, of, source, MendStep::Fetch(range), body, Slice::default());
        }
    }

    fn mend_fetched(
        &mut self,
        now: Time,
        of: MendSlot,
        range: BlockRange,
        version: Version,
        sums: &Sums,
        payload: &Slice,
    ) {
        let block_bytes = BLOCK_BYTES as usize;
        let count = usize::from(range.count);
        let whole =
            (payload.is_empty() && sums.is_empty()) || (payload.len() == count * block_bytes && sums.len() == count);
        if !whole {
            return self.begin_again(now, of, LONG_PAUSE);
        }
        let damaged = |&(place, _): &(usize, BlockIndex)| {
            sums.get(place)
                .is_some_and(|sum| amita_types::crc32c(&payload[place * block_bytes..][..block_bytes]) != *sum)
        };
        if let Some((_, block)) = range.iter().enumerate().find(damaged) {
            // End to end: whatever spoiled it, it gets no fresh checksum.
            return self.source_damaged(now, of, block);
        }
        let Some(mending) = self.mending(of) else { return };
        for (place, block) in range.iter().enumerate() {
            let Some(at) = mending.fixes.iter().position(|fix| fix.block == block) else {
                continue;
            };
            let fix = &mut mending.fixes[at];
            let found = (!sums.is_empty()).then(|| payload.slice(place * block_bytes..(place + 1) * block_bytes));
            let sum = sums.get(place).copied();
            match fix.put {
                // Only asked for alone: the version is this block's.
                None => fix.put = Some((version, sum)),
                Some((_, listed)) if listed == sum => {}
                Some(_) => {
                    // It was written since it was listed.
                    mending.fixes.remove(at);
                    mending.dirty = true;
                    continue;
                }
            }
            mending.fixes[at].data = found.unwrap_or_default();
        }
        mending.awaited -= 1;
        if mending.awaited == 0 {
            self.mend_put(now, of);
        }
    }

    /// The source has no intact copy of a block: another one is asked.
    fn source_damaged(&mut self, now: Time, of: MendSlot, block: BlockIndex) {
        let Some(mending) = self.mending(of) else { return };
        let (group, source, chunk) = (mending.group, mending.source, mending.chunk);
        mending.bad_sources.add(source);
        self.found_damage(group, source, chunk, block);
        self.begin_again(now, of, Duration::ZERO);
    }

    /// Sends the window's blocks to the member.
    fn mend_put(&mut self, now: Time, of: MendSlot) {
        let Some(mending) = self.mending(of) else { return };
        if mending.fixes.is_empty() {
            return self.next_window(now, of);
        }
        mending.stage = Stage::Mending;
        let (group, position, chunk) = (mending.group, mending.position, mending.chunk);
        let mut entries = Vec::with_capacity(mending.fixes.len());
        let mut payload = Vec::new();
        if let Some(pass) = &mut mending.pass {
            pass.add(mending.fixes.len() as u64 * u64::from(BLOCK_BYTES), 2);
        }
        for fix in &mending.fixes {
            let (version, sum) = fix.put.expect("every block was listed or read");
            entries.push(Mend {
                block: fix.block,
                expect: fix.expect,
                version,
                sum,
            });
            payload.extend_from_slice(&fix.data);
        }
        if !self.can_send(group, position) {
            return self.begin_again(now, of, PAUSE);
        }
        let chunk = self.chunks[chunk].index;
        let body = RequestBody::Mend(MendRequest { chunk, entries });
        self.mend_send(now, of, position, MendStep::Mend, body, Slice::copy_from(&payload));
    }

    fn next_window(&mut self, now: Time, of: MendSlot) {
        let blocks = u32::from(self.owned.blocks_per_chunk);
        let Some(mending) = self.mending(of) else { return };
        mending.blank();
        mending.pass = None;
        let ended = match mending.mode {
            Mode::Sync(_) => false,
            Mode::Scrub => mending.end >= blocks,
            Mode::Repair(_) => true,
        };
        if ended {
            return self.end_look(of, true);
        }
        if mending.end < blocks {
            mending.from = BlockIndex(mending.end as u16);
            mending.stage = Stage::Settling;
        } else if mending.dirty {
            return self.begin_pass(now, of);
        } else {
            mending.stage = Stage::Finishing;
        }
        self.advance_mending(now, of);
    }

    pub(super) fn mend_refused(
        &mut self,
        now: Time,
        slot: TaskSlot,
        position: Position,
        of: MendSlot,
        refusal: &Refusal,
    ) {
        let group = self.tasks[slot].group;
        self.settle_and_drop(slot, position);
        let Some(mending) = self.mending(of) else { return };
        mending.tasks.retain(|&task| task != slot);
        let at_target = position == mending.position;
        match refusal {
            Refusal::Damaged { block } if !at_target => self.source_damaged(now, of, *block),
            // A write that it refused is to come again before what was sent behind it.
            Refusal::WrongPredecessor { .. } if at_target => self.begin_again(now, of, PAUSE),
            other if passes_by_itself(other) => self.begin_again(now, of, PAUSE),
            // What cannot be repaired is as bad as before, and not worse.
            _ if mending.is_look() => self.end_look(of, false),
            other => {
                self.warn_refused(group, self.groups[group].members[position], other);
                self.evict_soon(group, position);
                self.begin_again(now, of, LONG_PAUSE);
            }
        }
    }

    /// A task's answer will not come.
    pub(super) fn restart_mending(&mut self, now: Time, of: MendSlot, slot: TaskSlot) {
        if let Some(mending) = self.mending(of) {
            mending.tasks.retain(|&task| task != slot);
            self.begin_again(now, of, PAUSE);
        }
    }

    /// From the start, after a while; what is under way comes to nothing.
    fn begin_again(&mut self, now: Time, of: MendSlot, pause: Duration) {
        self.counters.mend_restarts += 1;
        let Some(mending) = self.mending(of) else { return };
        mending.stage = Stage::Opening;
        mending.pass = None;
        mending.not_before = now.plus(pause);
        mending.opening = false;
        mending.attempts += 1;
        if mending.is_look() && mending.attempts > MAX_ATTEMPTS {
            return self.end_look(of, false);
        }
        mending.passes = 0;
        mending.blank();
        let chunk = mending.chunk;
        let tasks = std::mem::take(&mut mending.tasks);
        self.orphan(tasks);
        self.let_go(chunk);
        self.syncs.put_off(now.plus(pause));
        self.arm(now.plus(pause));
    }

    fn orphan(&mut self, tasks: Vec<TaskSlot>) {
        for slot in tasks {
            self.tasks[slot].kind = Kind::Orphan;
        }
    }

    /// The chunk's writes are held no longer.
    fn let_go(&mut self, chunk: ChunkSlot) {
        if std::mem::take(&mut self.chunks[chunk].held_back) {
            self.intake.is_due = true;
        }
    }

    /// The copy is whole.
    fn end_mending(&mut self, of: MendSlot) {
        if let Some(mending) = self.syncs.mendings[of].take() {
            self.counters.mended += 1;
            self.syncs.mending -= 1;
            self.let_go(mending.chunk);
            if let Mode::Sync(sync) = mending.mode {
                self.tally_chunk(mending.group, mending.position);
                self.chunk_mended(sync);
            }
        }
    }

    /// These members have left: nobody looks at them any more.
    pub(super) fn drop_looks(&mut self, group: GroupSlot, positions: Members) {
        for of in self.syncs.mendings.keys() {
            let gone = self
                .mending(of)
                .is_some_and(|mending| mending.is_look() && mending.group == group && positions.has(mending.position));
            if gone {
                self.end_look(of, false);
            }
        }
    }

    /// The member is gone.
    pub(super) fn drop_mendings(&mut self, sync: SyncSlot) {
        for of in self.syncs.mendings.keys() {
            let Some(mending) = self.syncs.mendings[of].take_if(|mending| mending.mode == Mode::Sync(sync)) else {
                continue;
            };
            self.syncs.mending -= 1;
            self.orphan(mending.tasks);
            self.let_go(mending.chunk);
        }
    }
}

/// Is this a part of a list that goes on?
fn is_window(entries: &[Change], more: Option<BlockIndex>, blocks: u16) -> bool {
    let ordered = entries.windows(2).all(|pair| pair[0].block < pair[1].block);
    let last = entries.last().map(|change| change.block);
    let onwards = more.is_none_or(|more| more.0 < blocks && last.is_some_and(|last| last < more));
    ordered && onwards && entries.len() <= MAX_CHANGES && last.is_none_or(|last| last.0 < blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::Generation;

    #[test]
    fn what_may_not_have_been_acknowledged_is_compared() {
        let version = |generation, counter| Version::new(Generation(generation), counter).expect("in range");
        assert_eq!(common(version(5, 1000)), version(5, 1000 - 64));
        assert_eq!(common(version(5, 3)), version(5, 0));
        assert_eq!(common(Version::NONE), Version::NONE);
    }
}
