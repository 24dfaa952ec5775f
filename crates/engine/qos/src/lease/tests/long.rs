//! Long leases: what those who are slow to hear hold, and grantors that follow one another meanwhile.

use super::{BURST, LARGEST, config, grantor, holder, limit, ms, poll};
use crate::faults::{Fault, Faults};
use crate::lease::{Grantor, Holder, HolderConfig, HolderId, LONG_LEASE, LeaseEpoch};
use amita_reactor::Time;
use std::time::Duration;

fn slow(place: u64) -> Holder {
    let config = HolderConfig {
        lease: LONG_LEASE,
        is_long: true,
        largest: LARGEST,
        standing_rate: 0,
        faults: Faults::NONE,
    };
    let id = HolderId { place, session: 1 };
    Holder::new(Time(0), id, LeaseEpoch(1), config).unwrap()
}

/// Asks for more than there is.
fn borrow(grantor: &mut Grantor, holder: &mut Holder, now: Time) -> u64 {
    let ask = holder.ask(now, 10 * BURST, 1).expect("it is time to ask");
    grantor.ask(now, &ask);
    // A turn is a part of what there is: round after round, until nothing comes any more.
    let (mut at, mut got) = (now, 0);
    loop {
        let grants = poll(grantor, at);
        if grants.is_empty() {
            return got;
        }
        for grant in grants {
            got += grant.tokens;
            assert!(holder.grant(at, &grant));
        }
        at = at.plus(Duration::from_nanos(1));
    }
}

/// Three grantors in less than a long lease. Each has lent for long, if it may; the third one's tokens are borrowed when the long leases of the first
/// are about to end, and all is spent at once.
fn spent_at_once(faults: Faults) -> u64 {
    let of = |epoch: u64| crate::lease::GrantorConfig {
        faults,
        ..config(epoch)
    };
    let succeed = |at: Time, epoch: u64| {
        let mut made = Grantor::succeed(at, limit(), of(epoch), Duration::ZERO).unwrap();
        made.mandate(Time(u64::MAX));
        made
    };
    let mut first = Grantor::first(ms(0), limit(), of(1)).unwrap();
    first.mandate(Time(u64::MAX));
    let mut holders = [slow(1), slow(2), holder(3)];
    borrow(&mut first, &mut holders[0], ms(0));
    let mut second = succeed(ms(10), 2);
    holders[1].adopt(LeaseEpoch(2));
    borrow(&mut second, &mut holders[1], ms(200));
    let mut third = succeed(ms(210), 3);
    holders[2].adopt(LeaseEpoch(3));
    borrow(&mut third, &mut holders[2], ms(790));
    let now = ms(795);
    let mut spent = 0;
    for holder in &mut holders {
        while holder.spend(now, 1) {
            spent += 1;
        }
    }
    spent
}

#[test]
fn what_grantors_that_follow_one_another_lend_for_long_is_never_more_than_the_burst() {
    let all = spent_at_once(Faults::NONE);
    assert!((BURST * 9 / 10..=BURST).contains(&all), "{all}");
    for fault in [Fault::ForgetLongLeases, Fault::LendLongEarly, Fault::LendAllForLong] {
        // What comes in within the five milliseconds between is not more than 50.
        let all = spent_at_once(Faults::NONE.with(fault));
        assert!(all > BURST + 50, "{fault:?}: {all}");
    }
}

#[test]
fn half_of_the_burst_is_lent_for_long_and_the_others_have_the_rest() {
    let (mut grantor, mut one, mut other, mut fast) = (grantor(), slow(1), slow(2), holder(3));
    assert_eq!(borrow(&mut grantor, &mut one, ms(0)), BURST / 2);
    assert_eq!(borrow(&mut grantor, &mut other, ms(10)), 0, "it waits for its room");
    assert_eq!(borrow(&mut grantor, &mut fast, ms(20)), BURST / 2);
    // What is spent and told makes room; the one that has waited for longer goes first.
    while one.spend(ms(400), 1) {}
    while fast.spend(ms(25), 1) {}
    let ask = other.ask(ms(400), 500, 1).unwrap();
    grantor.ask(ms(400), &ask);
    assert!(poll(&mut grantor, ms(400)).is_empty());
    let ask = one.ask(ms(410), 10 * BURST, 1).unwrap();
    grantor.ask(ms(410), &ask);
    let grants = poll(&mut grantor, ms(410));
    let of = |place: u64| -> u64 {
        let own = grants.iter().filter(|grant| grant.holder.place == place);
        own.map(|grant| grant.tokens).sum()
    };
    assert!(of(2) > 0, "{grants:?}");
    assert!(of(1) + of(2) <= BURST / 2, "{grants:?}");
}

#[test]
fn a_holder_that_is_not_needed_gives_all_back() {
    let (mut grantor, mut one) = (grantor(), slow(1));
    borrow(&mut grantor, &mut one, ms(0));
    assert_eq!(grantor.lent_out().0, u128::from(BURST / 2));
    let ask = one.give_back(ms(1)).expect("it has something");
    assert_eq!((ask.gone, ask.want), (u128::from(BURST / 2), 0));
    grantor.ask(ms(1), &ask);
    assert_eq!(grantor.lent_out().0, 0);
    assert_eq!(one.give_back(ms(2)), None);
}
