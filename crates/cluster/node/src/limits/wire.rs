//! Asks and grants as they travel, in JSON, like commands about reservations (docs/protocol-wire.md).

use super::{Asks, Grants};
use amita_qos::lease::{HolderId, LeaseEpoch};
use amita_qos::limits::BUCKETS;
use amita_qos::{Ask, Grant};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use serde::{Deserialize, Serialize};

/// The most bytes of asks that are looked at: twelve are less than 4 KiB.
const MAX_BYTES: usize = 8 << 10;

#[derive(Serialize, Deserialize)]
struct WireAsk {
    limit: u8,
    epoch: u64,
    place: u64,
    session: u64,
    number: u64,
    heard: u64,
    taken: u64,
    spent: u64,
    gone: u64,
    want: u64,
    least: u64,
    long: bool,
    sent: u64,
}

/// Asks for the tokens of a tenant or pool. Those of a volume are a list alone.
#[derive(Serialize, Deserialize)]
struct WireJoint {
    of: String,
    asks: Vec<WireAsk>,
}

#[derive(Serialize, Deserialize)]
struct WireGrant {
    limit: u8,
    place: u64,
    session: u64,
    number: u64,
    tokens: u64,
    sent: u64,
}

#[derive(Serialize, Deserialize)]
struct WireAnswer {
    epoch: u64,
    sent: u64,
    grants: Vec<WireGrant>,
    open: Vec<u8>,
}

/// What a lender answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The lender's: what older ones have lent is void.
    pub epoch: LeaseEpoch,
    /// From the asks that are answered: an ask is given up when it is lost or its link ends, and the answer may come all the same. What it lends
    /// counts from then on whatever was asked since; that the owner knows nothing of a limit must not be taken for what it says now.
    pub sent: Time,
    pub grants: Grants,
    /// Limits that the owner knows nothing of: it has not heard of them yet, or the gate has not heard that they are gone.
    pub open: Vec<usize>,
}

fn narrow(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// As they travel.
#[must_use]
pub fn write_asks(asks: &Asks) -> Slice {
    Slice::copy_from(&serde_json::to_vec(&to_wire(asks)).expect("numbers"))
}

/// The same for the tokens of a tenant or pool that is called so.
#[must_use]
pub fn write_joint_asks(of: &str, asks: &Asks) -> Slice {
    let raw = WireJoint {
        of: of.to_owned(),
        asks: to_wire(asks),
    };
    Slice::copy_from(&serde_json::to_vec(&raw).expect("numbers and a name"))
}

fn to_wire(asks: &Asks) -> Vec<WireAsk> {
    let raw = |(limit, ask): &(usize, Ask)| WireAsk {
        limit: *limit as u8,
        epoch: ask.epoch.0,
        place: ask.holder.place,
        session: ask.holder.session,
        number: ask.number,
        heard: ask.heard,
        taken: narrow(ask.taken),
        spent: narrow(ask.spent),
        gone: narrow(ask.gone),
        want: ask.want,
        least: ask.least,
        long: ask.is_long,
        sent: ask.sent.0,
    };
    asks.iter().map(raw).collect()
}

/// None: they cannot be read.
#[must_use]
pub fn read_asks(payload: &Slice) -> Option<Asks> {
    if payload.len() > MAX_BYTES {
        return None;
    }
    from_wire(serde_json::from_slice(payload).ok()?)
}

/// Asks for the tokens of a tenant or pool, and what it is called. None: they are none.
#[must_use]
pub fn read_joint_asks(payload: &Slice) -> Option<(String, Asks)> {
    if payload.len() > MAX_BYTES || payload.first() != Some(&b'{') {
        return None;
    }
    let WireJoint { of, asks } = serde_json::from_slice(payload).ok()?;
    Some((of, from_wire(asks)?))
}

fn from_wire(raw: Vec<WireAsk>) -> Option<Asks> {
    let ask = |raw: WireAsk| {
        let limit = usize::from(raw.limit);
        let ask = Ask {
            epoch: LeaseEpoch(raw.epoch),
            holder: HolderId {
                place: raw.place,
                session: raw.session,
            },
            number: raw.number,
            heard: raw.heard,
            taken: raw.taken.into(),
            spent: raw.spent.into(),
            gone: raw.gone.into(),
            want: raw.want,
            least: raw.least,
            is_long: raw.long,
            sent: Time(raw.sent),
        };
        (limit < BUCKETS).then_some((limit, ask))
    };
    // Of each limit one, and one of a holder that gives back all that it has.
    if raw.len() > 2 * BUCKETS {
        return None;
    }
    raw.into_iter().map(ask).collect()
}

/// As it travels.
#[must_use]
pub fn write_answer(answer: &Answer) -> Slice {
    let raw = |(limit, grant): &(usize, Grant)| WireGrant {
        limit: *limit as u8,
        place: grant.holder.place,
        session: grant.holder.session,
        number: grant.number,
        tokens: grant.tokens,
        sent: grant.sent.0,
    };
    let raw = WireAnswer {
        epoch: answer.epoch.0,
        sent: answer.sent.0,
        grants: answer.grants.iter().map(raw).collect(),
        open: answer.open.iter().map(|limit| *limit as u8).collect(),
    };
    Slice::copy_from(&serde_json::to_vec(&raw).expect("numbers"))
}

/// None: it cannot be read.
#[must_use]
pub fn read_answer(payload: &Slice) -> Option<Answer> {
    let raw: WireAnswer = serde_json::from_slice(payload).ok()?;
    let epoch = LeaseEpoch(raw.epoch);
    let grant = |raw: WireGrant| {
        let limit = usize::from(raw.limit);
        let grant = Grant {
            epoch,
            holder: HolderId {
                place: raw.place,
                session: raw.session,
            },
            number: raw.number,
            tokens: raw.tokens,
            sent: Time(raw.sent),
        };
        (limit < BUCKETS).then_some((limit, grant))
    };
    let grants = raw.grants.into_iter().map(grant).collect::<Option<Grants>>()?;
    let open: Vec<usize> = raw.open.into_iter().map(usize::from).collect();
    let fits = open.iter().all(|limit| *limit < BUCKETS);
    fits.then_some(Answer {
        epoch,
        sent: Time(raw.sent),
        grants,
        open,
    })
}
