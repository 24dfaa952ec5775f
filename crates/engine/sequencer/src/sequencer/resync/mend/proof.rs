//! A member in doubt: are its entries of the chunk those of another member, and its states the same (R8; see `doubts`)?
//!
//! It says first, on the link by which it lists them, that it has all that was acknowledged; so does the other. What was not written since
//! is the same on both then, or one of them is wrong: the one that has lost its memory, which is not read any more, and goes first.

use super::{After, Mending, PAUSE, Subject};
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
        if opened.version < self.scan.mark {
            doubt::catch_up(cx, now, chunk, position);
            return self.begin_again(cx, now, PAUSE);
        }
        self.listing().held = true;
        self.compare(cx, scrubs, now)
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
        let Subject { group, position, .. } = self.subject;
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
        let (wrong, written): (Vec<_>, Vec<_>) =
            differ.partition(|&(_, pair)| newest(pair).unwrap_or(Version::NONE) <= self.scan.mark);
        let places = Members::one(position).or(Members::one(source_member));
        for &(block, _) in &wrong {
            scrubs.differs(cx, &self.subject, places, block);
        }
        if !wrong.is_empty() {
            group::evict_soon(cx, group, position);
            return After::Looked { seen: false };
        }
        if !written.is_empty() {
            return self.begin_again(cx, now, PAUSE);
        }
        self.next_window(cx, now, end)
    }

    /// Its entries are the same: are its states?
    pub(super) fn prove_states(&mut self, cx: &mut Context, now: Time) -> After {
        if cx.cut.number == SnapshotId::HEAD || cx.config.faults.has(Fault::BringHeadsAlone) {
            return After::Looked { seen: true };
        }
        self.begin_states(cx, now)
    }
}
