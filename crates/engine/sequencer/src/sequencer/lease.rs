//! Read leases (R4): for so long a store lets no newer generation in.

use super::context::Context;
use super::state::Group;
use crate::config::{Config, LEASE_PERCENT};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::table::{GroupSlot, StoreSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::{Slice, Time};
use amita_types::message::RequestBody;
use std::time::Duration;

/// Whose leases count (R4): those that are in sync, or may be by a record that we have not read yet.
pub(super) fn grantors(config: &Config, group: &Group) -> Members {
    if config.faults.has(Fault::NoClaimedLeases) {
        return group.members.current;
    }
    group.members.current.or(group.members.whole)
}

/// A lease counts from the moment when the request was sent (R4): the store counts its own from later.
pub(super) fn granted(cx: &mut Context, slot: TaskSlot, position: Position, number: StoreSlot, lease_ms: u16) {
    let arrival = cx.config.faults.has(Fault::LeaseFromArrival);
    let sent_at = if arrival {
        cx.stores[number].owed.heard
    } else {
        cx.tasks[slot].sent_at[position]
    };
    // The store's clock may run faster than ours.
    let percent = if cx.config.faults.has(Fault::WholeLease) {
        100
    } else {
        LEASE_PERCENT
    };
    let lease = Duration::from_millis(u64::from(lease_ms)) * percent / 100;
    cx.stores[number].lease.grant(sent_at, lease);
}

/// Are there enough leases that no lawful takeover can have happened yet? A new owner must fence all in-sync
/// members, of which it can have evicted all but the least number: so one more than can be evicted. `since`: when the
/// read was sent that asks. Without clocks, so many members must have known no other owner after that.
pub(super) fn is_held(cx: &Context, now: Time, group: GroupSlot, since: Time) -> bool {
    if cx.config.faults.has(Fault::NoLeases) {
        return true;
    }
    let grantors = grantors(&cx.config, &cx.groups[group]);
    let group = &cx.groups[group];
    let holds = |&position: &Position| {
        let store = &cx.stores[group.members[position]];
        if cx.config.confirm_reads {
            store.lease.renewed >= since
        } else {
            store.lease.until > now
        }
    };
    let held = grantors.iter().filter(holds).count();
    held > grantors.count().saturating_sub(cx.owned.min_copies)
}

/// Asks members whose lease is half over (or gone) for a new one, beside what goes to them anyway. `since`: as above.
pub(super) fn renew(cx: &mut Context, now: Time, group: GroupSlot, besides: Members, since: Time) {
    for position in grantors(&cx.config, &cx.groups[group]).without(besides).iter() {
        let number = cx.groups[group].members[position];
        let store = &cx.stores[number];
        let wanted = if cx.config.confirm_reads {
            store.lease.renewed < since
        } else {
            store.lease.ends_soon(now)
        };
        if wanted {
            renew_one(cx, now, group, position);
        }
    }
}

/// Sends an empty request, unless one is under way.
pub(super) fn renew_one(cx: &mut Context, now: Time, group: GroupSlot, position: Position) {
    let number = cx.groups[group].members[position];
    if cx.stores[number].lease.request.is_some() || !cx.can_send(group, position) {
        return;
    }
    cx.counters.lease_renewals += 1;
    let slot = cx.tasks.add(Kind::RenewLease, group, None);
    cx.stores[number].lease.request = Some(slot);
    cx.stores[number].lease.requested_at = now;
    cx.expect(now, slot, position);
    cx.send(now, slot, position, RequestBody::RenewLease, Slice::default());
}

/// The empty request has been answered (well or not), or its link has ended.
pub(super) fn renewal_ended(cx: &mut Context, slot: TaskSlot, position: Position) {
    let number = cx.groups[cx.tasks[slot].group].members[position];
    assert_eq!(
        cx.stores[number].lease.request,
        Some(slot),
        "a store is asked for one lease at a time"
    );
    cx.stores[number].lease.request = None;
    cx.settle_and_drop(slot, position);
}
