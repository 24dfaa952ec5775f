//! Answers, with what goes with them: leases and credits.

use super::{Requester, Store, space};
use amita_reactor::Slice;
use amita_reactor::buggify::{Point, buggify};
use amita_types::message::{AnswerBody, DataAnswer};

pub(super) fn done(store: &mut Store, asker: Requester) {
    give(store, asker, AnswerBody::Done);
}

pub(super) fn give(store: &mut Store, asker: Requester, body: AnswerBody) {
    // Who writes is topped up. What came with the answers to reads would lie idle, and be given back each time.
    let credit_blocks = match body {
        AnswerBody::Done | AnswerBody::Fenced => space::grant(store, &asker, 0),
        _ => 0,
    };
    granting(store, asker, body, Slice::default(), credit_blocks);
}

/// What was read.
pub(super) fn give_data(store: &mut Store, asker: Requester, data: DataAnswer, payload: Slice) {
    granting(store, asker, AnswerBody::Data(data), payload, 0);
}

/// An answer that brings so many credits (rule R7).
pub(super) fn granting(store: &mut Store, asker: Requester, body: AnswerBody, payload: Slice, credit_blocks: u32) {
    let (now, lease) = (store.env.now, store.config.lease);
    let lease_ms = match asker.volume {
        Some(_) if buggify(Point::NoLease) => 0,
        Some(volume) => store.fences.lease(volume, asker.generation, now, lease),
        None => 0,
    };
    store.env.answer(asker, lease_ms, credit_blocks, Ok(body), payload);
}
