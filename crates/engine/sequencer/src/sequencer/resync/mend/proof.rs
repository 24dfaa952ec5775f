//! A member in doubt: are its entries of the chunk those of another member, and its states the same (R8; see `doubts`)?
//!
//! It says first, on the link by which it lists them, that it has all that was acknowledged; so does the other. What was not written since
//! is the same on both then, or one of them is wrong: the one that has lost its memory, which is not read any more, and goes first.

use super::{After, MAX_ATTEMPTS, Mending, PAUSE, Stage, Subject};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::sequencer::context::Context;
use crate::sequencer::resync::scrub::Scrubs;
use crate::sequencer::{doubt, group};
use amita_reactor::Time;
use amita_types::message::{Change, OpenedAnswer, Refusal};
use amita_types::{BlockIndex, SnapshotId, Version};
use std::collections::BTreeMap;

impl Mending {
    /// The member says what it has.
    pub(super) fn held(&mut self, cx: &mut Context, scrubs: &mut Scrubs, now: Time, opened: OpenedAnswer) -> After {
        let Subject {
            group, position, chunk, ..
        } = self.subject;
        if opened.incomplete.is_some() {
            cx.warn_refused(group, cx.groups[group].members[position], &Refusal::Incomplete);
            group::evict_soon(cx, group, position);
            return After::Looked { seen: false };
        }
        if !cx.chunks[chunk].log.may_show(opened.version, cx.owned.generation) {
            self.found_foreign(cx, position, opened.version);
            return After::Looked { seen: false };
        }
        if opened.version < self.scan.mark {
            doubt::catch_up(cx, now, chunk, position);
            return self.begin_again(cx, now, PAUSE);
        }
        self.listing().held = true;
        self.compare(cx, scrubs, now)
    }

    /// A member in sync says that it is at a version that was never given out: of a history that was given up.
    pub(super) fn found_foreign(&self, cx: &mut Context, position: Position, version: Version) {
        let Subject { group, .. } = self.subject;
        let store = cx.groups[group].members[position];
        cx.warn_unfit(group, store, format!("version {version}, which was never given out"));
        group::evict_soon(cx, group, position);
    }

    /// Both have listed the window.
    pub(super) fn prove(
        &mut self,
        cx: &mut Context,
        scrubs: &mut Scrubs,
        now: Time,
        (source_member, end): (Position, u32),
        (source, target): (&[Change], &[Change]),
    ) -> After {
        let Subject {
            group, position, chunk, ..
        } = self.subject;
        let mut pairs: BTreeMap<BlockIndex, [Option<Change>; 2]> = BTreeMap::new();
        for (at, page) in [source, target].into_iter().enumerate() {
            for change in page {
                pairs.entry(change.block).or_default()[at] = Some(*change);
            }
        }
        let differs =
            |(block, pair): &(BlockIndex, [Option<Change>; 2])| u32::from(block.0) < end && pair[0] != pair[1];
        let newest = |pair: [Option<Change>; 2]| pair.iter().flatten().map(|change| change.version).max();
        let differ = pairs.into_iter().filter(differs);
        let log = &cx.chunks[chunk].log;
        let (mark, ours) = (self.scan.mark, cx.owned.generation);
        let (wrong, written): (Vec<_>, Vec<_>) = differ.partition(|&(_, pair)| {
            let newest = newest(pair).unwrap_or(Version::NONE);
            newest <= mark || !log.may_show(newest, ours)
        });
        let places = Members::one(position).or(Members::one(source_member));
        if let Some(&(block, _)) = wrong.first() {
            // They are looked at again and again: of each chunk the first one is told, and all are counted.
            scrubs.differs(cx, &self.subject, places, block);
            cx.counters.differing += wrong.len() as u64 - 1;
            // Of two in doubt nobody knows which one is wrong.
            if !cx.groups[group].doubted.has(source_member) {
                group::evict_soon(cx, group, position);
            }
            return After::Differs;
        }
        if !written.is_empty() {
            return self.list_again(cx, now);
        }
        self.next_window(cx, now, end)
    }

    /// The window is listed once more, when what was written meanwhile is on both. What was compared before it stays so: it was the same up
    /// to an older mark, and what was written since both have been sent.
    fn list_again(&mut self, cx: &mut Context, now: Time) -> After {
        cx.counters.mend_restarts += 1;
        self.scan.relisted += 1;
        if self.scan.relisted > MAX_ATTEMPTS {
            return After::Looked { seen: false };
        }
        self.scan.mark = cx.chunks[self.subject.chunk].log.issued;
        self.stage = Stage::Settling;
        self.pass = None;
        self.not_before = now.plus(PAUSE);
        cx.agenda.put_off(self.not_before);
        cx.agenda.arm(self.not_before);
        After::GoesOn
    }

    /// Its entries are the same: are its states?
    pub(super) fn prove_states(&mut self, cx: &mut Context, now: Time) -> After {
        if cx.cut.number == SnapshotId::HEAD || cx.config.faults.has(Fault::BringHeadsAlone) {
            return After::Looked { seen: true };
        }
        self.begin_states(cx, now)
    }
}
