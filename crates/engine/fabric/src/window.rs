//! What is in flight on a link.

use crate::limits::{
    CHUNKS_CHARGE_BYTES, LIST_CHARGE_BYTES, REQUEST_CHARGE_BYTES, RESERVATION_CHARGE_BYTES, TOKENS_CHARGE_BYTES,
};
use crate::message::{Forward, ForwardOp};
use amita_types::BLOCK_BYTES;
use amita_types::message::{ReadRequest, Request, RequestBody};
use rustc_hash::FxHashMap;

/// What a request costs of a link's window, in bytes: what travels with it, and what its answer may bring. Both ends
/// compute it from the request alone, so they always agree.
#[must_use]
pub fn charge(request: &Request, payload_bytes: usize) -> u32 {
    let answer = match &request.body {
        RequestBody::Read(ReadRequest { range, .. }) => u32::from(range.count).saturating_mul(BLOCK_BYTES),
        RequestBody::Changes(_) | RequestBody::Allocation(_) | RequestBody::Verify(_) | RequestBody::Differ(_) => {
            LIST_CHARGE_BYTES
        }
        RequestBody::Chunks(_) | RequestBody::States(_) => CHUNKS_CHARGE_BYTES,
        _ => 0,
    };
    REQUEST_CHARGE_BYTES
        .saturating_add(answer)
        .saturating_add(u32::try_from(payload_bytes).unwrap_or(u32::MAX))
}

/// What a forwarded request costs of its window, in bytes; computed alike at both ends.
#[must_use]
pub fn forward_charge(forward: &Forward, payload_bytes: usize) -> u32 {
    let answer = match forward.op {
        // The codec bounds it.
        ForwardOp::Read => u32::try_from(forward.length).unwrap_or(u32::MAX),
        ForwardOp::Allocation | ForwardOp::Differ => LIST_CHARGE_BYTES,
        ForwardOp::Reserve => RESERVATION_CHARGE_BYTES,
        ForwardOp::Lend => TOKENS_CHARGE_BYTES,
        ForwardOp::Write | ForwardOp::Clear | ForwardOp::CompareAndWrite => 0,
    };
    REQUEST_CHARGE_BYTES
        .saturating_add(answer)
        .saturating_add(u32::try_from(payload_bytes).unwrap_or(u32::MAX))
}

/// The requests in flight on a link, against what its acceptor allows.
#[derive(Debug, Default)]
pub(crate) struct Window {
    limit_requests: u32,
    limit_bytes: u32,
    requests: u32,
    bytes: u32,
    /// Unanswered: how often (a request may be sent again while the first is unanswered: R8), and the charge of each.
    open: FxHashMap<u64, (u32, u32)>,
}

impl Window {
    pub(crate) fn new(limit_requests: u32, limit_bytes: u32) -> Window {
        Window {
            limit_requests,
            limit_bytes,
            ..Window::default()
        }
    }

    /// Is there room for a request of this charge?
    pub(crate) fn admits(&self, charge: u32) -> bool {
        self.requests < self.limit_requests && u64::from(self.bytes) + u64::from(charge) <= u64::from(self.limit_bytes)
    }

    /// Could a request of this charge ever be admitted?
    pub(crate) fn could_admit(&self, charge: u32) -> bool {
        self.limit_requests > 0 && charge <= self.limit_bytes
    }

    /// A request is in flight from now on. False when one with the same id and another charge is: it is no resend.
    #[must_use]
    pub(crate) fn take(&mut self, id: u64, charge: u32) -> bool {
        let (count, of_each) = self.open.entry(id).or_insert((0, charge));
        if *of_each != charge {
            return false;
        }
        *count += 1;
        self.requests += 1;
        self.bytes += charge;
        true
    }

    /// What the unanswered request was charged.
    pub(crate) fn charge_of(&self, id: u64) -> Option<u32> {
        self.open.get(&id).map(|&(_, charge)| charge)
    }

    /// The request is answered; its charge, or `None` when there is none of that id.
    pub(crate) fn settle(&mut self, id: u64) -> Option<u32> {
        let (count, charge) = self.open.get_mut(&id)?;
        let charge = *charge;
        *count -= 1;
        if *count == 0 {
            self.open.remove(&id);
        }
        self.requests -= 1;
        self.bytes -= charge;
        Some(charge)
    }

    pub(crate) fn requests(&self) -> u32 {
        self.requests
    }

    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The limits, in requests and bytes.
    pub(crate) fn limits(&self) -> (u32, u32) {
        (self.limit_requests, self.limit_bytes)
    }
}

#[cfg(test)]
mod tests;
