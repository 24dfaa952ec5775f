//! One window of a chunk: the entries of the source and of the member are listed, what differs is read from the source, and
//! sent to the member.

use super::{After, LONG_PAUSE, Mending, Mode, PAUSE, Stage, Subject, look};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::sequencer::context::Context;
use crate::sequencer::resync::progress::Tallies;
use crate::sequencer::resync::scrub::Scrubs;
use crate::sequencer::{doubt, faults, group, resend};
use crate::task::MendStep;
use amita_reactor::{Slice, Time};
use amita_types::message::{
    Change, ChangesRequest, Expect, MAX_CHANGES, Mend, MendRequest, OpenRequest, OpenedAnswer, ReadRequest, Refusal,
    RequestBody, RestoreRequest, Sums, VerifyRequest,
};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, Version};
use std::collections::BTreeMap;

/// Entries, and where the next ones begin.
pub(super) type Page = (Vec<Change>, Option<BlockIndex>);

/// A window that is being listed.
#[derive(Debug)]
pub(super) struct Listing {
    source: Position,
    /// The source has said that it has what is to be compared.
    sure: bool,
    /// So has the member, where it is in doubt.
    pub(super) held: bool,
    source_page: Option<Page>,
    target_page: Option<Page>,
    /// Blocks of the target that fail their checksum.
    damaged: Vec<BlockIndex>,
}

/// Blocks of a window that are being replaced where they lie at one time. A store does 32 for all who ask it, owners of a family's
/// clones and each of their cores, and puts others off: so one of them leaves places to the others.
const RESTORES_AT_ONCE: usize = 8;

/// A window that was listed.
#[derive(Debug)]
pub(super) struct Window {
    source: Position,
    /// The block behind its last one.
    end: u32,
    fixes: Vec<Fix>,
    /// Reads of the source that are under way; then blocks that are being replaced where they lie.
    awaited: usize,
    /// Of those, so many were sent.
    sent: usize,
    /// Blocks that the member's device does not take there.
    stuck: Vec<BlockIndex>,
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
    /// Lists the next window, when what was under way is on the source.
    pub(super) fn list(&mut self, cx: &mut Context, now: Time) -> After {
        let Subject {
            group, position, chunk, ..
        } = self.subject;
        let state = &cx.chunks[chunk];
        let unsettled = cx.config.faults.has(Fault::CompareUnsettled);
        let (committed, issued, index, held) = (state.log.committed, state.log.issued, state.index, state.held_back);
        let upto = if held { issued } else { self.scan.mark };
        let look = self.is_look();
        if look && !unsettled && committed < upto {
            return After::GoesOn;
        }
        if !cx.can_send(group, position) {
            return After::GoesOn;
        }
        let source = match self.choose_source(cx, now) {
            Ok(Some(source)) => source,
            Ok(None) => return After::GoesOn,
            Err(after) => return after,
        };
        // Another member may refuse what is under way for as long as it cannot be spared, and this one is to take its place.
        if !look && !unsettled && !resend::has_answered(cx, chunk, source, upto) {
            return After::GoesOn;
        }
        if !self.has_leave(cx, now, held) {
            return After::GoesOn;
        }
        self.stage = Stage::Listing(Listing {
            source,
            sure: false,
            held: self.subject.mode != Mode::Doubt,
            source_page: None,
            target_page: None,
            damaged: Vec::new(),
        });
        let (since, from) = (self.scan.since, self.scan.from);
        let body = RequestBody::Changes(ChangesRequest {
            chunk: index,
            since,
            from,
        });
        // On the same link, so that the store that says what it has is the one that lists it, and has not ended in between.
        let ask = RequestBody::Open(OpenRequest { chunk: index });
        if self.subject.mode == Mode::Doubt {
            self.send(cx, now, position, MendStep::Held, ask.clone(), Slice::default());
        }
        self.send(cx, now, source, MendStep::Sure, ask, Slice::default());
        self.send(cx, now, source, MendStep::Source, body.clone(), Slice::default());
        let body = if look && self.subject.mode != Mode::Doubt {
            RequestBody::Verify(VerifyRequest {
                chunk: index,
                from,
                least: committed,
            })
        } else {
            body
        };
        self.send(cx, now, position, MendStep::Target, body, Slice::default());
        After::GoesOn
    }

    /// A member whose copy is compared with; `None`: none can be asked at present.
    pub(super) fn choose_source(&mut self, cx: &mut Context, now: Time) -> Result<Option<Position>, After> {
        let Subject {
            group, position, chunk, ..
        } = self.subject;
        let mut bad = self.bad_sources;
        let (current, doubted) = (cx.groups[group].members.current, cx.groups[group].doubted);
        if self.is_look() {
            bad.add(position);
        }
        match self.subject.mode {
            // Where all are in doubt, that they have the same is all that can be known.
            Mode::Doubt if current.without(doubted).is_empty() => {}
            Mode::Doubt => bad = bad.or(doubted),
            // What has rotted gets nothing that was not compared.
            Mode::Scrub | Mode::Repair(..) => bad = bad.or(doubted.and(cx.chunks[chunk].lag.unproven)),
            Mode::Sync(_) => {}
        }
        let intact = current.without(bad);
        if intact.is_empty() {
            // Nobody has an intact copy: what is said of it has been said.
            if self.is_look() {
                return Err(After::Looked { seen: false });
            }
            self.bad_sources = Members::NONE;
            return Err(self.begin_again(cx, now, LONG_PAUSE));
        }
        // One that is known to be unfit, or to lack a write, or what it has acknowledged, only where there is no other.
        let unfit = cx.groups[group].to_evict.or(doubted);
        let unfit = unfit.or(cx.chunks[chunk].lag.behind);
        let fit = intact.without(unfit);
        let can = |&source: &Position| cx.can_send(group, source);
        let sources = if fit.is_empty() { intact } else { fit };
        let sources: Vec<Position> = sources.iter().filter(can).collect();
        let index = cx.chunks[chunk].index.0 as usize;
        Ok(sources.get(index % sources.len().max(1)).copied())
    }

    /// The source says what it has. It has answered everything up to the mark: one that lacks some of it has lost what it had, and
    /// who is compared with it would lose it, too (R8). So has one that is not whole: what made it so were mends, which have no version.
    pub(super) fn sure(&mut self, cx: &mut Context, scrubs: &mut Scrubs, now: Time, opened: OpenedAnswer) -> After {
        let OpenedAnswer {
            version, incomplete, ..
        } = opened;
        let lacks = version < self.scan.mark && !cx.config.faults.has(Fault::CompareUnsettled);
        let is_foreign = !cx.chunks[self.subject.chunk].log.may_show(version, cx.owned.generation);
        let listing = self.listing();
        listing.sure = true;
        let source = listing.source;
        let Subject { group, chunk, .. } = self.subject;
        let store = cx.groups[group].members[source];
        match incomplete {
            Some(_) => {
                cx.warn_refused(group, store, &Refusal::Incomplete);
                group::evict_soon(cx, group, source);
            }
            None if is_foreign => self.found_foreign(cx, source, version),
            None if lacks => {
                cx.warn_refused(group, store, &Refusal::Behind { current: version });
                doubt::lacks(cx, now, chunk, source);
            }
            None => return self.compare(cx, scrubs, now),
        }
        self.bad_sources.add(source);
        self.begin_again(cx, now, PAUSE)
    }

    /// The source, or the member, has listed its entries.
    pub(super) fn listed(
        &mut self,
        cx: &mut Context,
        scrubs: &mut Scrubs,
        now: Time,
        is_source: bool,
        page: Page,
    ) -> After {
        if !is_window(&page.0, page.1, cx.owned.blocks_per_chunk) {
            return self.begin_again(cx, now, LONG_PAUSE);
        }
        let listing = self.listing();
        if is_source {
            listing.source_page = Some(page);
        } else {
            listing.target_page = Some(page);
        }
        self.compare(cx, scrubs, now)
    }

    /// An in-sync member has read all of the window that it holds.
    pub(super) fn verified(
        &mut self,
        cx: &mut Context,
        scrubs: &mut Scrubs,
        now: Time,
        page: Page,
        damaged: Vec<BlockIndex>,
    ) -> After {
        let from = self.scan.from;
        if page
            .1
            .is_some_and(|more| more.0 >= cx.owned.blocks_per_chunk || more <= from)
        {
            return self.begin_again(cx, now, LONG_PAUSE);
        }
        let listing = self.listing();
        listing.target_page = Some(page);
        listing.damaged = damaged;
        self.compare(cx, scrubs, now)
    }

    /// An answer of this stage: those of earlier ones were given up with it.
    pub(super) fn listing(&mut self) -> &mut Listing {
        match &mut self.stage {
            Stage::Listing(listing) => listing,
            other => panic!("an answer belongs to its stage, not to {other:?}"),
        }
    }

    /// When both have listed the window: what differs?
    pub(super) fn compare(&mut self, cx: &mut Context, scrubs: &mut Scrubs, now: Time) -> After {
        let Listing {
            source: member,
            sure: true,
            held: true,
            source_page: source_page @ Some(_),
            target_page: target_page @ Some(_),
            damaged,
        } = self.listing()
        else {
            // Not all of it is answered yet.
            return After::GoesOn;
        };
        let (Some((source, source_more)), Some((target, target_more))) = (source_page.take(), target_page.take())
        else {
            unreachable!("both are there")
        };
        let (member, damaged) = (*member, std::mem::take(damaged));
        let end = [source_more, target_more]
            .into_iter()
            .flatten()
            .map(|more| u32::from(more.0))
            .min()
            .unwrap_or(u32::from(cx.owned.blocks_per_chunk));
        if self.subject.mode == Mode::Doubt {
            return self.prove(cx, scrubs, now, (member, end), (&source, &target));
        }
        let fixes = if self.is_look() {
            self.find_damage(cx, scrubs, member, end, (&source, &target, &damaged))
        } else {
            self.find_differences(cx, end, source, target)
        };
        let window = Window {
            source: member,
            end,
            fixes,
            awaited: 0,
            sent: 0,
            stuck: Vec::new(),
        };
        self.fetch(cx, now, window)
    }

    /// What the member has otherwise than the source.
    fn find_differences(&mut self, cx: &Context, end: u32, source: Vec<Change>, target: Vec<Change>) -> Vec<Fix> {
        let (generation, faults) = (cx.owned.generation, cx.config.faults);
        let since = self.scan.since;
        let mut pairs: BTreeMap<BlockIndex, (Option<Change>, Option<Change>)> = BTreeMap::new();
        for change in source {
            pairs.entry(change.block).or_default().0 = Some(change);
        }
        for change in target {
            pairs.entry(change.block).or_default().1 = Some(change);
        }
        let mut fixes = Vec::new();
        for (block, (source, target)) in pairs.into_iter().filter(|(block, _)| u32::from(block.0) < end) {
            let version = |change: Option<Change>| change.map(|change| change.version);
            if source == target || (faults.has(Fault::CompareVersions) && version(source) == version(target)) {
                continue;
            }
            let newer = |target: &Change| source.is_none_or(|source| target.version > source.version);
            if target.is_some_and(|target| target.version.generation() == generation && newer(&target)) {
                // A write of ours that the source had not carried out when it was asked.
                self.scan.dirty = true;
                continue;
            }
            fixes.push(Fix {
                block,
                expect: match target {
                    Some(Change { version, sum, .. }) => Expect::Entry { version, sum },
                    None => Expect::Upto { version: since },
                },
                put: source.map(|source| (source.version, source.sum)),
                data: Slice::default(),
            });
        }
        fixes.truncate(MAX_CHANGES);
        fixes
    }

    /// An in-sync member was looked at: what is damaged is replaced by what the source has under the same entry.
    fn find_damage(
        &self,
        cx: &mut Context,
        scrubs: &mut Scrubs,
        source_member: Position,
        end: u32,
        (source, target, damaged): (&[Change], &[Change], &[BlockIndex]),
    ) -> Vec<Fix> {
        let subject = &self.subject;
        let (from, mark) = (self.scan.from, self.scan.mark);
        let inside = |block: BlockIndex| block >= from && u32::from(block.0) < end;
        let of_block = |page: &[Change], block| page.iter().find(|change| change.block == block).copied();
        let mut fixes = Vec::new();
        for &block in damaged.iter().filter(|block| inside(**block)) {
            scrubs.damaged(cx, subject, block);
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
            fixes.push(Fix {
                block,
                expect,
                put: Some((right.version, right.sum)),
                data: Slice::default(),
            });
        }
        let state = &cx.chunks[subject.chunk];
        if state.log.issued == mark && state.log.committed == mark {
            // Nothing was written meanwhile: the copies must be equal.
            let blocks = source.iter().chain(target).map(|change| change.block);
            let mut blocks: Vec<BlockIndex> = blocks
                .filter(|&block| inside(block) && !damaged.contains(&block))
                .collect();
            blocks.sort_unstable();
            blocks.dedup();
            blocks.retain(|&block| of_block(source, block) != of_block(target, block));
            let places = Members::one(subject.position).or(Members::one(source_member));
            for block in blocks {
                scrubs.differs(cx, subject, places, block);
            }
        }
        fixes
    }

    /// Reads from the source what it has data of: one request for each run of neighbours; and alone what it did not list.
    fn fetch(&mut self, cx: &mut Context, now: Time, mut window: Window) -> After {
        // Of more blocks than a message takes the rest is dealt with by the next window.
        if let Some(last) = window.fixes.last()
            && window.fixes.len() == MAX_CHANGES
        {
            window.end = window.end.min(u32::from(last.block.0) + 1);
        }
        let mut runs: Vec<(BlockRange, bool)> = Vec::new();
        for fix in &window.fixes {
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
        if runs.is_empty() {
            return self.put(cx, now, window);
        }
        window.awaited = runs.len();
        let Subject { group, chunk, .. } = self.subject;
        let source = window.source;
        if !cx.groups[group].members.current.has(source) || !cx.can_send(group, source) {
            // It has gone since it listed its entries.
            return self.begin_again(cx, now, PAUSE);
        }
        self.stage = Stage::Fetching(window);
        let index = cx.chunks[chunk].index;
        // It has said that it has this; it may have ended since, and be back without (R8).
        let unsettled = cx.config.faults.has(Fault::CompareUnsettled);
        let least = if unsettled { Version::NONE } else { self.scan.mark };
        for (range, _) in runs {
            let body = RequestBody::Read(ReadRequest {
                chunk: index,
                range,
                least,
                versions: false,
                newest: None,
            });
            self.send(cx, now, source, MendStep::Fetch(range), body, Slice::default());
        }
        After::GoesOn
    }

    /// The source has sent a run of blocks.
    pub(super) fn fetched(
        &mut self,
        cx: &mut Context,
        now: Time,
        range: BlockRange,
        version: Version,
        sums: &Sums,
        payload: &Slice,
    ) -> After {
        let block_bytes = BLOCK_BYTES as usize;
        let count = usize::from(range.count);
        let whole =
            (payload.is_empty() && sums.is_empty()) || (payload.len() == count * block_bytes && sums.len() == count);
        if !whole {
            return self.begin_again(cx, now, LONG_PAUSE);
        }
        let Stage::Fetching(window) = &mut self.stage else {
            panic!("an answer belongs to its stage, not to {:?}", self.stage)
        };
        let damaged = |&(place, _): &(usize, BlockIndex)| {
            sums.get(place)
                .is_some_and(|sum| amita_types::crc32c(&payload[place * block_bytes..][..block_bytes]) != *sum)
        };
        if let Some((_, block)) = range.iter().enumerate().find(damaged) {
            // End to end: whatever spoiled it, it gets no fresh checksum.
            let source = window.source;
            return self.source_damaged(cx, now, source, block);
        }
        for (place, block) in range.iter().enumerate() {
            let Some(at) = window.fixes.iter().position(|fix| fix.block == block) else {
                continue;
            };
            let fix = &mut window.fixes[at];
            let found = (!sums.is_empty()).then(|| payload.slice(place * block_bytes..(place + 1) * block_bytes));
            let sum = sums.get(place).copied();
            match fix.put {
                // Only asked for alone: the version is this block's.
                None => fix.put = Some((version, sum)),
                Some((_, listed)) if listed == sum => {}
                Some(_) => {
                    // It was written since it was listed.
                    window.fixes.remove(at);
                    self.scan.dirty = true;
                    continue;
                }
            }
            window.fixes[at].data = found.unwrap_or_default();
        }
        window.awaited -= 1;
        if window.awaited > 0 {
            return After::GoesOn;
        }
        let Stage::Fetching(window) = std::mem::replace(&mut self.stage, Stage::Settling) else {
            unreachable!("looked at above")
        };
        self.put(cx, now, window)
    }

    /// Sends the window's blocks to the member.
    fn put(&mut self, cx: &mut Context, now: Time, window: Window) -> After {
        if window.fixes.is_empty() {
            return self.next_window(cx, now, window.end);
        }
        if self.is_look() && window.stuck.is_empty() && look::restores(cx) {
            return self.restore(cx, now, window);
        }
        let Subject {
            group, position, chunk, ..
        } = self.subject;
        let mut entries = Vec::with_capacity(window.fixes.len());
        let mut payload = Vec::new();
        if let Some(pass) = &mut self.pass {
            pass.add(window.fixes.len() as u64 * u64::from(BLOCK_BYTES), 2);
        }
        for fix in &window.fixes {
            let (mut version, sum) = fix.put.expect("every block was listed or read");
            if cx.config.faults.has(Fault::MendUnderOwn) && sum.is_some() {
                version = faults::version_of_replaced(fix.expect, version);
            }
            entries.push(Mend {
                block: fix.block,
                expect: fix.expect,
                version,
                sum,
            });
            payload.extend_from_slice(&fix.data);
        }
        if !cx.can_send(group, position) {
            return self.begin_again(cx, now, PAUSE);
        }
        self.stage = Stage::Putting(window);
        let chunk = cx.chunks[chunk].index;
        let body = RequestBody::Mend(MendRequest { chunk, entries });
        self.send(cx, now, position, MendStep::Mend, body, Slice::copy_from(&payload));
        After::GoesOn
    }

    /// Sends what has rotted, block by block, to be replaced where it lies: what a lost leaf held is not known, and is left out.
    fn restore(&mut self, cx: &mut Context, now: Time, mut window: Window) -> After {
        let Subject { group, position, .. } = self.subject;
        // What has no data cannot have rotted, whatever the member says.
        window
            .fixes
            .retain(|fix| matches!((fix.expect, fix.put), (Expect::Entry { .. }, Some((_, Some(_))))));
        window.awaited = window.fixes.len();
        if window.fixes.is_empty() {
            return self.next_window(cx, now, window.end);
        }
        if !cx.can_send(group, position) {
            return self.begin_again(cx, now, PAUSE);
        }
        if let Some(pass) = &mut self.pass {
            pass.add(window.fixes.len() as u64 * u64::from(BLOCK_BYTES), 2);
        }
        window.sent = 0;
        self.stage = Stage::Restoring(window);
        self.restore_more(cx, now)
    }

    /// Sends as many of the window's blocks as may be under way.
    fn restore_more(&mut self, cx: &mut Context, now: Time) -> After {
        let Subject {
            group, position, chunk, ..
        } = self.subject;
        let index = cx.chunks[chunk].index;
        loop {
            let Stage::Restoring(window) = &mut self.stage else {
                unreachable!("the caller has looked")
            };
            let answered = window.fixes.len() - window.awaited;
            if window.sent == window.fixes.len() || window.sent - answered >= RESTORES_AT_ONCE {
                return After::GoesOn;
            }
            if !cx.can_send(group, position) {
                return self.begin_again(cx, now, PAUSE);
            }
            let fix = &window.fixes[window.sent];
            window.sent += 1;
            let put = fix.put.and_then(|(version, sum)| Some((version, sum?)));
            let (version, sum) = put.expect("what has rotted has data");
            let (step, data) = (MendStep::Restore(fix.block), fix.data.clone());
            let body = RequestBody::Restore(RestoreRequest {
                chunk: index,
                block: fix.block,
                version,
                sum,
            });
            self.send(cx, now, position, step, body, data);
        }
    }

    /// The member has replaced a block of the window, or (`Ok(false)`) there was no need; or its device does not take it.
    pub(super) fn window_restored(
        &mut self,
        cx: &mut Context,
        scrubs: &mut Scrubs,
        now: Time,
        block: BlockIndex,
        result: Result<bool, ()>,
    ) -> After {
        let subject = self.subject;
        let Stage::Restoring(window) = &mut self.stage else {
            panic!("an answer belongs to its stage, not to {:?}", self.stage)
        };
        window.awaited -= 1;
        match result {
            Ok(true) => scrubs.repaired(cx, &subject, &[block]),
            Ok(false) => cx.counters.mend_skipped += 1,
            Err(()) => {
                scrubs.unrestored(cx, &subject, block);
                window.stuck.push(block);
            }
        }
        if window.awaited > 0 {
            return self.restore_more(cx, now);
        }
        let Stage::Restoring(mut window) = std::mem::replace(&mut self.stage, Stage::Settling) else {
            unreachable!("looked at above")
        };
        if window.stuck.is_empty() {
            return self.next_window(cx, now, window.end);
        }
        // The volume at least has the block in another slot.
        window.fixes.retain(|fix| window.stuck.contains(&fix.block));
        self.put(cx, now, window)
    }

    /// The member has replaced the window's blocks, but for those that had changed.
    pub(super) fn mended(
        &mut self,
        cx: &mut Context,
        (scrubs, tallies): (&mut Scrubs, &mut Tallies),
        now: Time,
        skipped: &[BlockIndex],
    ) -> After {
        cx.counters.mend_skipped += skipped.len() as u64;
        let Stage::Putting(window) = &self.stage else {
            panic!("an answer belongs to its stage, not to {:?}", self.stage)
        };
        let blocks = window.fixes.iter().map(|fix| fix.block);
        let done: Vec<BlockIndex> = blocks.filter(|block| !skipped.contains(block)).collect();
        self.scan.dirty |= !skipped.is_empty() && !cx.config.faults.has(Fault::TrustMends);
        if self.is_look() {
            scrubs.repaired(cx, &self.subject, &done);
        } else {
            cx.counters.mended_blocks += done.len() as u64;
            tallies.sent(cx.id_of(self.subject.group, self.subject.position), window.fixes.len());
        }
        let end = window.end;
        self.next_window(cx, now, end)
    }

    pub(super) fn next_window(&mut self, cx: &mut Context, now: Time, end: u32) -> After {
        let blocks = u32::from(cx.owned.blocks_per_chunk);
        self.pass = None;
        self.scan.relisted = 0;
        let ended = match self.subject.mode {
            Mode::Sync(_) => false,
            Mode::Scrub | Mode::Doubt => end >= blocks,
            Mode::Repair(..) => true,
        };
        if ended && self.subject.mode == Mode::Doubt {
            return self.prove_states(cx, now);
        }
        if ended && self.subject.mode == Mode::Scrub && look::restores(cx) {
            return self.look_at_states(cx, now);
        }
        if ended {
            return After::Looked { seen: true };
        }
        if end < blocks {
            self.scan.from = BlockIndex(end as u16);
            self.stage = Stage::Settling;
        } else if self.scan.dirty {
            return self.begin_pass(cx, now);
        } else {
            self.stage = Stage::Compared;
        }
        self.advance(cx, now)
    }
}

/// Is this a part of a list that goes on?
pub(super) fn is_window(entries: &[Change], more: Option<BlockIndex>, blocks: u16) -> bool {
    let ordered = entries.windows(2).all(|pair| pair[0].block < pair[1].block);
    let last = entries.last().map(|change| change.block);
    let onwards = more.is_none_or(|more| more.0 < blocks && last.is_some_and(|last| last < more));
    ordered && onwards && entries.len() <= MAX_CHANGES && last.is_none_or(|last| last.0 < blocks)
}
