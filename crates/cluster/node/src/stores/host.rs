//! One store of a core: its state machine, its file, and what was told of it.

use super::MEMO;
use super::care::{Care, MOST_RETURNS, Retry};
use super::turns::{Passing, Turns};
use crate::control::FromCore;
use amita_reactor::Slice;
use amita_reactor::driver::{FileId, Time};
use amita_store::memo::{MemoEvent, Writer};
use amita_store::{LinkId, State, Store};
use amita_types::StoreId;
use amita_types::message::Answer;
use std::path::PathBuf;

pub(super) struct Host {
    pub(super) path: PathBuf,
    pub(super) file: FileId,
    pub(super) store: Store,
    /// What becomes of it when its device fails.
    pub(super) care: Care,
    pub(super) announced: Announced,
    /// It may serve as soon as it is mounted.
    pub(super) admitted: bool,
    /// It may not serve any more, for this reason: to be told.
    pub(super) retired: Option<String>,
    /// Its failure was told of, and it has not served since.
    pub(super) failed: bool,
    /// Writes the copy of the metadata, once the store serves.
    pub(super) memo: Option<Writer>,
    pub(super) memo_answers: Vec<(Answer, Slice)>,
    /// Its device has a volatile cache.
    pub(super) flushes: bool,
    /// In which order it is given what is asked of it; none: as it comes.
    pub(super) turns: Option<Box<Turns>>,
}

impl Host {
    /// A request comes, to a store of which there is an order.
    pub(super) fn take_turns(&mut self, now: Time, passing: Passing) {
        if let Some(turns) = &mut self.turns {
            turns.come(now, passing);
        }
        self.give_turns(now);
    }

    /// The store is given what may go by now.
    pub(super) fn go_on(&mut self, now: Time) {
        let Some(turns) = &mut self.turns else { return };
        if turns.is_owed() && self.store.requests() == 0 {
            turns.settle(now);
        }
        match self.store.state() {
            State::Serving => turns.go(now),
            // What waits is refused as everything else is.
            _ => turns.let_all_go(now),
        }
        self.give_turns(now);
    }

    fn give_turns(&mut self, now: Time) {
        let Some(turns) = &mut self.turns else { return };
        while let Some(Passing {
            from,
            link,
            request,
            payload,
        }) = turns.take(now)
        {
            self.store.request_from(now, from, link, request, payload);
        }
    }

    /// A link is gone: what waits of it comes first.
    pub(super) fn link_closed(&mut self, now: Time, link: LinkId) {
        if let Some(turns) = &mut self.turns {
            turns.link_closed(now, link);
            self.give_turns(now);
        }
        self.store.link_closed(now, link);
    }

    /// There is an order from now on, or none any more.
    pub(super) fn set_turns(&mut self, now: Time, turns: Option<Box<Turns>>) {
        if let Some(before) = &mut self.turns {
            before.let_all_go(now);
            self.give_turns(now);
        }
        self.turns = turns;
    }

    /// Lets the writer of the copy ask, and take in what was answered. Did anything happen?
    pub(super) fn advance_memo(&mut self, now: Time) -> bool {
        let Some(memo) = &mut self.memo else { return false };
        let mut moved = !self.memo_answers.is_empty();
        for (answer, payload) in self.memo_answers.drain(..) {
            memo.answer(now, answer, &payload);
        }
        if moved && memo.is_idle() {
            // A copy is seldom made: the space that was granted for it is for others meanwhile.
            self.store.link_closed(now, MEMO);
        }
        if let Some((request, payload)) = memo.next(now) {
            self.store.request(now, MEMO, request, payload);
            moved = true;
        }
        moved
    }

    /// The store, if it was said to serve.
    pub(super) fn served(&self) -> Option<StoreId> {
        (self.announced == Announced::Serving).then(|| self.store.status().id)
    }

    pub(super) fn fails(&self, store: Option<StoreId>, why: String) -> FromCore {
        let path = self.path.display().to_string();
        FromCore::StoreFailed { store, path, why }
    }

    /// It is mounted, and waits to be admitted.
    pub(super) fn mounted(&mut self) -> FromCore {
        let status = self.store.status();
        self.announced = Announced::Mounted;
        FromCore::StoreMounted {
            store: status.id,
            path: self.path.display().to_string(),
            size_bytes: status.capacity_bytes,
            mount: self.store.mount_number(),
        }
    }

    /// It serves from now on.
    pub(super) fn serves(&mut self, now: Time) -> FromCore {
        let status = self.store.status();
        // Whoever wrote to the mount before is told nothing by this one.
        self.forget_memo();
        self.announced = Announced::Serving;
        self.failed = false;
        self.care.serves(now);
        FromCore::StoreServes {
            store: status.id,
            path: self.path.display().to_string(),
            size_bytes: status.capacity_bytes,
            report: format!(
                "{} of {} MiB free; mounted in {} ms ({} records replayed, {} checked against their data)",
                status.free_bytes >> 20,
                status.capacity_bytes >> 20,
                status.mount.duration.as_millis(),
                status.mount.records_replayed,
                status.mount.records_verified,
            ),
        }
    }

    /// It could not be mounted. Another time it may, if `may_pass`.
    pub(super) fn refused(&mut self, now: Time, mut why: String, may_pass: bool, held: bool) -> FromCore {
        self.announced = Announced::Failed;
        self.admitted = !held;
        self.forget_memo();
        let mut again = false;
        if may_pass {
            let fate = self.care.fails(now, false, self.store.flush_failed());
            again = matches!(fate, Retry::Later(_));
            why += &next(&fate);
        }
        // That it has failed, and is tried again, was told; that it is not any more is news.
        let told = std::mem::replace(&mut self.failed, true);
        let path = self.path.display();
        match (told, again) {
            (false, _) => self.fails(None, why),
            (true, true) => FromCore::Warning(format!("store {path} does not serve: {why}")),
            (true, false) => FromCore::StoreStaysOut {
                path: path.to_string(),
                why,
            },
        }
    }

    /// Its device has failed with an outcome that nobody knows.
    pub(super) fn poisoned(&mut self, now: Time, why: String, held: bool) -> FromCore {
        let store = self.served();
        let why = why + &next(&self.care.fails(now, true, self.store.flush_failed()));
        self.announced = Announced::Failed;
        // Its claim is given up: the next mount needs one of its own.
        self.admitted = !held;
        self.failed = true;
        self.forget_memo();
        self.fails(store, why)
    }

    pub(super) fn forget_memo(&mut self) {
        (self.memo, self.memo_answers) = (None, Vec::new());
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let memo = self.memo.as_ref().and_then(Writer::deadline);
        let store = self.store.deadline().into_iter().chain(self.care.deadline());
        let turns = self.turns.as_ref().and_then(|turns| turns.deadline());
        store.chain(memo).chain(turns).min()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Announced {
    Nothing,
    /// It is mounted, and waits to be admitted.
    Mounted,
    Serving,
    Failed,
}

/// What becomes of a store that has failed, in words.
fn next(fate: &Retry) -> String {
    match fate {
        Retry::Later(pause) => format!(" (tried again in {} s)", pause.as_secs()),
        Retry::Unknowable => {
            "; a flush has failed, so it is not mounted anew by itself: format it anew and let its groups \
                             be copied back from their other members, or start the node again where there are none"
                .to_owned()
        }
        Retry::Never => format!(
            "; it has failed {MOST_RETURNS} times shortly after it had been mounted anew, and is not tried again: replace \
             the device, or start the node again when it is sound"
        ),
    }
}

/// What the writer of a store's copy has to tell.
pub(super) fn tell_of_memo(host: &mut Host, tell: &mut Vec<FromCore>) {
    let Some(memo) = &mut host.memo else { return };
    let store = memo.store();
    for told in memo.told() {
        tell.push(match told {
            MemoEvent::Found(found) => FromCore::Recalled {
                store,
                newest: found.newest,
                groups: host.store.known_groups(),
                volumes: host.store.known_volumes(),
                deleted: host.store.known_deleted(),
            },
            MemoEvent::Written { revision, .. } => FromCore::Kept { store, revision },
            MemoEvent::Refused(why) => FromCore::Warning(format!(
                "store {store} cannot keep a copy of the metadata ({why:?}); an older one stays there; trying again"
            )),
        });
    }
}
