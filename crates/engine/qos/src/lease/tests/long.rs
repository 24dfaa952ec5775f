//! Long leases: what those who are slow to hear hold, and grantors that follow one another meanwhile.

use super::{BURST, LARGEST, config, grantor, holder, limit, ms, poll};
use crate::bucket::Limit;
use crate::faults::{Fault, Faults};
use crate::lease::{Grantor, Holder, HolderConfig, HolderId, LEASE, LONG_LEASE, LeaseEpoch};
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
    assert_eq!(slow(2).give_back(ms(2)), None);
}

/// What it has spent, and a grant that it will never take, would be counted as out for the rest of a second.
#[test]
fn a_holder_with_nothing_left_says_so_when_it_is_not_needed() {
    let (mut grantor, mut one) = (grantor(), slow(1));
    borrow(&mut grantor, &mut one, ms(0));
    while one.spend(ms(1), 1) {}
    assert_eq!(one.tokens(ms(1)), 0);
    let ask = one.give_back(ms(1)).expect("what it has spent");
    grantor.ask(ms(1), &ask);
    assert_eq!(grantor.lent_out().0, 0);
    // The rest of the burst, and what came in since.
    let mut fast = holder(3);
    assert_eq!(borrow(&mut grantor, &mut fast, ms(11)), BURST / 2 + 100);
    let ask = fast.give_back(ms(12)).unwrap();
    grantor.ask(ms(12), &ask);
    let mut other = slow(2);
    let ask = other.ask(ms(20), 100, 1).unwrap();
    grantor.ask(ms(20), &ask);
    assert!(!poll(&mut grantor, ms(20)).is_empty());
    let ask = other.give_back(ms(21)).expect("a grant is under way");
    grantor.ask(ms(21), &ask);
    assert_eq!(grantor.lent_out().0, 0);
}

#[test]
fn an_answer_without_a_grant_is_one() {
    let mut one = slow(1);
    assert!(one.ask(ms(0), 10, 1).is_some());
    assert_eq!(one.ask_at(1), ms(250));
    one.answered(ms(1));
    assert_eq!(one.ask_at(1), ms(250), "of another ask");
    one.answered(ms(0));
    assert_eq!(one.ask_at(1), ms(20));
    assert!(one.ask(ms(20), 10, 1).is_some());
    assert_eq!(one.ask_at(1), ms(270), "to this one there is none yet");
    let mut fast = holder(2);
    assert!(fast.ask(ms(0), 10, 1).is_some());
    fast.answered(ms(0));
    assert_eq!(fast.ask_at(1), Time(12_500_000));
}

/// One with a long lease wants a large request, and is heard no more. It asked every 40 ms: who is silent for twice as long has lost its turn,
/// and a small request of another does not wait until half of a second is over.
#[test]
fn a_long_lease_that_is_silent_holds_nobody_up() {
    let small = Limit::new(50, Grantor::least_burst(50, LEASE, LARGEST)).unwrap();
    let mut grantor = Grantor::first(ms(0), small, config(1)).unwrap();
    grantor.mandate(Time(u64::MAX));
    let (mut one, mut fast) = (slow(1), holder(2));
    // All is spent.
    borrow(&mut grantor, &mut fast, ms(0));
    while fast.spend(ms(0), 1) {}
    for at in [20, 60] {
        let ask = one.ask(ms(at), 1_000, LARGEST).unwrap();
        grantor.ask(ms(at), &ask);
        assert!(poll(&mut grantor, ms(at)).is_empty());
        one.answered(ms(at));
    }
    // The first one is of its own turn.
    let mut passed = 0;
    let third = (61..1_000).find(|&at| {
        if let Some(ask) = fast.ask(ms(at), 1, 1) {
            grantor.ask(ms(at), &ask);
        }
        for grant in poll(&mut grantor, ms(at)) {
            fast.grant(ms(at), &grant);
        }
        passed += u32::from(fast.spend(ms(at), 1));
        passed == 3
    });
    assert!(third.is_some_and(|at| (100..200).contains(&at)), "{third:?}");
}
