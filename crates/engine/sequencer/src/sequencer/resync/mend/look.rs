//! What snapshots have of a chunk, at a member that is in sync: it is looked at, and what has rotted there is replaced where it lies (S12).
//!
//! A scrub that has come through the chunk itself asks the member for its states, and then to check of each what it has elsewhere than the
//! next newer view: so each of its blocks is read once, however many snapshots and clones refer to it. A read of a snapshot that
//! has met damage goes straight to its block. Either way another member is asked for the block as of that snapshot, and what
//! it sends goes to the first, which uses it only for exactly the entry that it has, and only where nothing else is right.
//!
//! Nothing waits for writes here: what a snapshot has never changes. One that is deleted meanwhile is passed over.

use super::states::is_list;
use super::{After, MAX_ATTEMPTS, Mending, PAUSE, Stage, Subject};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::sequencer::context::Context;
use crate::sequencer::join::passes_by_itself;
use crate::sequencer::parents;
use crate::sequencer::resync::scrub::Scrubs;
use crate::task::MendStep;
use amita_reactor::{Slice, Time};
use amita_types::message::{
    MAX_CHANGES, Problem, ReadRequest, Refusal, RequestBody, RestoreRequest, StatesAnswer, StatesRequest, Sums,
    VerifyRequest,
};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, SnapshotId, Version};
use std::collections::VecDeque;

/// How far the look has come.
#[derive(Debug)]
pub(super) struct Views {
    /// States that are still to be looked at, by their newest snapshots.
    todo: VecDeque<SnapshotId>,
    /// The one that is looked at, and the block to go on from; `None`: it is through.
    at: SnapshotId,
    from: Option<BlockIndex>,
    /// What was found damaged in it.
    damaged: VecDeque<BlockIndex>,
    /// Who was asked for one of them.
    source: Position,
    step: Step,
    /// A request is under way.
    awaited: bool,
}

#[derive(Clone, Debug)]
enum Step {
    /// The states above this one are listed.
    List(SnapshotId),
    Verify,
    /// The first damaged block is asked for.
    Fetch,
    /// It is sent.
    Restore(RestoreRequest, Slice),
}

/// May snapshots or clones share what the volume has? Then what has rotted is replaced where it lies. Where neither has ever been,
/// it gets another slot; a store that knows no snapshots is asked for nothing else.
pub(super) fn restores(cx: &Context) -> bool {
    let may_be_shared = cx.cut.number > SnapshotId::HEAD || parents::has_any(cx);
    may_be_shared && !cx.config.faults.has(Fault::RepairHeadsAlone)
}

impl Mending {
    /// The chunk itself was looked at: now what only snapshots have is.
    pub(super) fn look_at_states(&mut self, cx: &mut Context, now: Time) -> After {
        self.view(Step::List(SnapshotId::HEAD), SnapshotId::HEAD, None);
        self.advance(cx, now)
    }

    /// A block of a snapshot was found damaged.
    pub(super) fn repair_view(&mut self, block: BlockIndex, at: SnapshotId) {
        self.view(Step::Fetch, at, Some(block));
    }

    fn view(&mut self, step: Step, at: SnapshotId, damaged: Option<BlockIndex>) {
        self.bad_sources = Members::NONE;
        self.stage = Stage::Views(Box::new(Views {
            todo: VecDeque::new(),
            at,
            from: None,
            damaged: damaged.into_iter().collect(),
            source: self.subject.position,
            step,
            awaited: false,
        }));
    }

    fn views(&mut self) -> &mut Views {
        match &mut self.stage {
            Stage::Views(views) => views,
            other => panic!("an answer belongs to its stage, not to {other:?}"),
        }
    }

    /// Sends what comes next, if nothing is awaited.
    pub(super) fn look_on(&mut self, cx: &mut Context, now: Time) -> After {
        let Subject {
            group, position, chunk, ..
        } = self.subject;
        if self.views().awaited || !cx.can_send(group, position) {
            return After::GoesOn;
        }
        let source = match self.views().step {
            Step::Fetch => match self.choose_source(cx, now) {
                Ok(Some(source)) => Some(source),
                Ok(None) => return After::GoesOn,
                // Nobody else has it: it was said, and stays as it is.
                Err(_) => return self.next_damaged(cx, now),
            },
            _ => None,
        };
        if !self.has_leave(cx, now, false) {
            return After::GoesOn;
        }
        let chunk = cx.chunks[chunk].index;
        let views = self.views();
        views.awaited = true;
        let (at, step) = (views.at, views.step.clone());
        match step {
            Step::List(from) => {
                let body = RequestBody::States(StatesRequest { chunk, from });
                self.send(cx, now, position, MendStep::Views, body, Slice::default());
            }
            Step::Verify => {
                let from = views.from.expect("it is not through");
                let least = Version::NONE;
                let body = RequestBody::Verify(VerifyRequest { chunk, from, least });
                self.send_view(cx, now, (position, at), MendStep::Look, body);
            }
            Step::Fetch => {
                let block = *views.damaged.front().expect("something is damaged");
                let body = RequestBody::Read(ReadRequest {
                    chunk,
                    range: BlockRange::new(block.0, 1),
                    least: Version::NONE,
                    versions: false,
                    newest: None,
                });
                let source = source.expect("it was chosen above");
                views.source = source;
                self.send_view(cx, now, (source, at), MendStep::ViewData(block), body);
            }
            Step::Restore(request, data) => {
                if let Some(pass) = &mut self.pass {
                    pass.add(u64::from(BLOCK_BYTES), 2);
                }
                let step = MendStep::Restore(request.block);
                let body = RequestBody::Restore(request);
                self.send_to_view(cx, now, (position, at), step, (body, data));
            }
        }
        After::GoesOn
    }

    /// Something was answered as it should be.
    fn heard(&mut self) -> &mut Views {
        self.pass = None;
        self.attempts = 0;
        let views = self.views();
        views.awaited = false;
        views
    }

    /// The member has listed its states.
    pub(super) fn listed_views(&mut self, cx: &mut Context, now: Time, page: StatesAnswer) -> After {
        let views = self.heard();
        let before = views.todo.back().copied().unwrap_or_default();
        if !is_list(before, &page) {
            return After::Looked { seen: false };
        }
        let states = page.states.iter().filter(|state| !state.mark);
        views.todo.extend(states.map(|state| state.to));
        match page.more {
            Some(more) => {
                views.step = Step::List(more);
                self.advance(cx, now)
            }
            None => self.next_view(cx, now),
        }
    }

    fn next_view(&mut self, cx: &mut Context, now: Time) -> After {
        let views = self.views();
        views.damaged.clear();
        let Some(at) = views.todo.pop_front() else {
            return After::Looked { seen: true };
        };
        (views.at, views.from, views.step) = (at, Some(BlockIndex(0)), Step::Verify);
        self.advance(cx, now)
    }

    /// The member has read what this state has elsewhere than the newer view, in a window of blocks.
    pub(super) fn view_verified(
        &mut self,
        cx: &mut Context,
        scrubs: &mut Scrubs,
        now: Time,
        damaged: Vec<BlockIndex>,
        more: Option<BlockIndex>,
    ) -> After {
        let (subject, blocks) = (self.subject, cx.owned.blocks_per_chunk);
        let views = self.heard();
        let from = views.from.unwrap_or_default();
        let inside = |block: &BlockIndex| *block >= from && block.0 < blocks;
        if damaged.len() > MAX_CHANGES || !damaged.iter().all(inside) || more.is_some_and(|more| more <= from) {
            return After::Looked { seen: false };
        }
        views.from = more.filter(|more| more.0 < blocks);
        for &block in &damaged {
            scrubs.damaged(cx, &subject, block);
        }
        self.views().damaged = damaged.into();
        self.damaged_or_more(cx, now)
    }

    /// The next damaged block, else the next window, else the next state.
    fn damaged_or_more(&mut self, cx: &mut Context, now: Time) -> After {
        self.bad_sources = Members::NONE;
        let views = self.views();
        if !views.damaged.is_empty() {
            views.step = Step::Fetch;
        } else if views.from.is_some() {
            views.step = Step::Verify;
        } else {
            return self.next_view(cx, now);
        }
        self.advance(cx, now)
    }

    fn next_damaged(&mut self, cx: &mut Context, now: Time) -> After {
        self.views().damaged.pop_front();
        self.damaged_or_more(cx, now)
    }

    /// Another member has sent the block.
    pub(super) fn view_fetched(
        &mut self,
        cx: &mut Context,
        now: Time,
        (version, sums, payload): (Version, &Sums, &Slice),
    ) -> After {
        let Subject { group, chunk, .. } = self.subject;
        let index = cx.chunks[chunk].index;
        let views = self.heard();
        let source = views.source;
        let block = *views.damaged.front().expect("it was asked for");
        let &[sum] = &sums[..] else {
            // It has no data there: the state is another one.
            return self.next_damaged(cx, now);
        };
        if payload.len() != BLOCK_BYTES as usize || amita_types::crc32c(payload) != sum {
            // End to end: whatever spoiled it, it gets no fresh checksum.
            self.bad_sources.add(source);
            cx.found_damage(group, source, chunk, block);
            return self.advance(cx, now);
        }
        let request = RestoreRequest {
            chunk: index,
            block,
            version,
            sum,
        };
        views.step = Step::Restore(request, payload.clone());
        self.advance(cx, now)
    }

    /// The member has replaced a block, or (`false`) there was no need.
    pub(super) fn restored(
        &mut self,
        cx: &mut Context,
        scrubs: &mut Scrubs,
        now: Time,
        (block, done): (BlockIndex, bool),
    ) -> After {
        if let Stage::Restoring(_) = self.stage {
            return self.window_restored(cx, scrubs, now, block, Ok(done));
        }
        self.heard();
        match done {
            true => scrubs.repaired(cx, &self.subject, &[block]),
            false => cx.counters.mend_skipped += 1,
        }
        self.next_damaged(cx, now)
    }

    /// The member's device does not take a block where it lies.
    pub(super) fn not_restored(
        &mut self,
        cx: &mut Context,
        scrubs: &mut Scrubs,
        now: Time,
        block: BlockIndex,
    ) -> After {
        if let Stage::Restoring(_) = self.stage {
            return self.window_restored(cx, scrubs, now, block, Err(()));
        }
        self.heard();
        scrubs.unrestored(cx, &self.subject, block);
        self.next_damaged(cx, now)
    }

    pub(super) fn view_refused(&mut self, cx: &mut Context, now: Time, position: Position, refusal: &Refusal) -> After {
        let Subject { group, chunk, .. } = self.subject;
        match refusal {
            Refusal::Damaged { block } if position != self.subject.position => {
                self.bad_sources.add(position);
                cx.found_damage(group, position, chunk, *block);
                self.heard();
                self.advance(cx, now)
            }
            // The snapshot has been deleted, and is gone there.
            Refusal::Invalid {
                what: Problem::Snapshot,
            } => {
                self.heard();
                self.next_view(cx, now)
            }
            other if passes_by_itself(other) => self.look_again(cx, now),
            _ => After::Looked { seen: false },
        }
    }

    /// The same is asked again, after a while, but not without end.
    pub(super) fn look_again(&mut self, cx: &mut Context, now: Time) -> After {
        cx.counters.mend_restarts += 1;
        self.attempts += 1;
        if self.attempts > MAX_ATTEMPTS {
            return After::Looked { seen: false };
        }
        self.pass = None;
        self.views().awaited = false;
        self.not_before = now.plus(PAUSE);
        cx.agenda.put_off(self.not_before);
        cx.agenda.arm(self.not_before);
        After::GoesOn
    }
}
