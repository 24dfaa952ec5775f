mod long;
mod sim;

use super::{
    Ask, Grant, Grantor, GrantorConfig, Holder, HolderConfig, HolderId, LEASE, LONG_LEASE, LeaseEpoch, LeaseError,
    Standing,
};
use crate::bucket::Limit;
use crate::faults::{Fault, Faults};
use amita_reactor::Time;
use std::time::Duration;

const LARGEST: u64 = 32;
const RATE: u64 = 10_000;
const BURST: u64 = 2_000;

fn config(epoch: u64) -> GrantorConfig {
    GrantorConfig {
        epoch: LeaseEpoch(epoch),
        lease: LEASE,
        long_lease: LONG_LEASE,
        largest: LARGEST,
        standing: Standing::default(),
        faults: Faults::NONE,
    }
}

fn limit() -> Limit {
    Limit::new(RATE, BURST).unwrap()
}

fn grantor() -> Grantor {
    let mut grantor = Grantor::first(Time(0), limit(), config(1)).unwrap();
    grantor.mandate(Time(u64::MAX));
    grantor
}

fn holder(place: u64) -> Holder {
    let config = HolderConfig {
        lease: LEASE,
        is_long: false,
        largest: LARGEST,
        standing_rate: 0,
        faults: Faults::NONE,
    };
    let id = HolderId { place, session: 1 };
    Holder::new(Time(0), id, LeaseEpoch(1), config).unwrap()
}

fn ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn poll(grantor: &mut Grantor, now: Time) -> Vec<Grant> {
    let mut grants = Vec::new();
    grantor.poll(now, |grant| grants.push(grant));
    grants
}

/// Asks for so much, and has it at once.
fn lend(grantor: &mut Grantor, holder: &mut Holder, now: Time, want: u64) -> Ask {
    let ask = holder.ask(now, want, 1).expect("it is time to ask");
    grantor.ask(now, &ask);
    for grant in poll(grantor, now) {
        assert!(holder.grant(now, &grant));
    }
    ask
}

#[test]
fn what_is_lent_leaves_the_bucket_and_takes_its_room() {
    let (mut grantor, mut one, mut other) = (grantor(), holder(1), holder(2));
    lend(&mut grantor, &mut one, ms(0), 1_500);
    assert_eq!(one.tokens(ms(0)), 1_500);
    // 20 ms bring 200; there is no room for more than 500 beside what is out.
    lend(&mut grantor, &mut other, ms(0), 400);
    lend(&mut grantor, &mut other, ms(13), 5_000);
    assert_eq!(other.tokens(ms(13)), 400 + 100);
}

#[test]
fn a_lease_ends_at_the_holder_first_and_its_tokens_are_gone() {
    let (mut grantor, mut one, mut other) = (grantor(), holder(1), holder(2));
    lend(&mut grantor, &mut one, ms(0), 2_000);
    assert!(one.spend(ms(39), 30));
    assert_eq!(one.tokens(ms(40)), 0);
    assert!(!one.spend(ms(40), 1));
    // The grantor counts to 50 ms, and only from then on anything comes in.
    let ask = other.ask(ms(45), 3_000, 1).unwrap();
    grantor.ask(ms(45), &ask);
    assert!(poll(&mut grantor, ms(49)).is_empty());
    let grants = poll(&mut grantor, ms(60));
    assert_eq!(grants.iter().map(|grant| grant.tokens).sum::<u64>(), 100);
}

#[test]
fn what_is_given_back_or_was_lost_is_there_at_once() {
    let (mut grantor, mut one) = (grantor(), holder(1));
    lend(&mut grantor, &mut one, ms(0), 1_500);
    // Nothing waits any more: the next ask gives back.
    let ask = one.ask(ms(13), 0, 0).expect("it has something to give back");
    assert_eq!((ask.gone, ask.want), (1_500, 0));
    grantor.ask(ms(13), &ask);
    assert_eq!(grantor.lent_out().0, 0);
    // A grant is lost; one that was made later is taken.
    let ask = one.ask(ms(30), 700, 1).unwrap();
    grantor.ask(ms(30), &ask);
    let lost = poll(&mut grantor, ms(30));
    assert_eq!(lost[0].tokens, 700);
    let ask = one.ask(ms(43), 700, 1).unwrap();
    grantor.ask(ms(43), &ask);
    let found = poll(&mut grantor, ms(43));
    assert!(one.grant(ms(44), &found[0]));
    assert!(
        !one.grant(ms(44), &lost[0]),
        "what is older than one that was taken is void"
    );
    assert_eq!(grantor.lent_out().0, 1_400);
    let ask = one.ask(ms(56), 100, 1).unwrap();
    grantor.ask(ms(56), &ask);
    assert_eq!(grantor.lent_out().0, 100, "of 700 it keeps what waits");
}

#[test]
fn an_ask_that_comes_twice_or_late_is_heard_once() {
    let (mut grantor, mut one) = (grantor(), holder(1));
    let first = one.ask(ms(0), 100, 1).unwrap();
    let second = one.ask(ms(13), 300, 1).unwrap();
    grantor.ask(ms(14), &second);
    let grants = poll(&mut grantor, ms(14));
    assert_eq!(grants.len(), 1);
    grantor.ask(ms(15), &first);
    grantor.ask(ms(15), &second);
    assert!(poll(&mut grantor, ms(15)).is_empty());
    assert!(one.grant(ms(15), &grants[0]));
    assert!(!one.grant(ms(15), &grants[0]));
    assert_eq!(one.tokens(ms(15)), 300);
}

/// An ask with tokens in hand is held up until its lease has ended, and what was taken for spent has come in again and is used. That
/// the rest lapsed, as the next one tells, must not bring it back: it would be there twice.
#[test]
fn what_was_taken_for_spent_is_not_revived_by_an_ask_that_was_held_up() {
    let spent_at_once = |faults: Faults| {
        let config = GrantorConfig { faults, ..config(1) };
        let mut grantor = Grantor::first(ms(0), limit(), config).unwrap();
        grantor.mandate(Time(u64::MAX));
        let (mut one, mut other) = (holder(1), holder(2));
        lend(&mut grantor, &mut one, ms(0), 1_000);
        assert!(one.spend(ms(13), 32));
        let late = one.ask(ms(13), 1_000, 1).expect("it wants what it has spent");
        assert_eq!(late.taken - late.spent - late.gone, 968);
        let next = one.ask(ms(60), 1, 1).expect("all has lapsed");
        assert_eq!(next.gone, 968);
        // Since 50 ms there is room again, and by now the bucket is full.
        let mut spent = 0;
        for at in [300, 313, 326] {
            if at == 326 {
                grantor.ask(ms(325), &late);
                grantor.ask(ms(325), &next);
            }
            let ask = other.ask(ms(at), 5_000, 1).expect("it is time to ask");
            grantor.ask(ms(at), &ask);
            for grant in poll(&mut grantor, ms(at)) {
                other.grant(ms(at), &grant);
            }
            spent += other.tokens(ms(at));
            while other.spend(ms(at), 1) {}
        }
        spent
    };
    let most = BURST + 26 * RATE / 1_000;
    assert!(spent_at_once(Faults::NONE) <= most);
    assert!(spent_at_once(Faults::NONE.with(Fault::ReviveLapsed)) > most);
}

#[test]
fn a_successor_begins_empty_when_the_last_lease_has_ended() {
    let mut next = Grantor::succeed(ms(100), limit(), config(2), Duration::from_millis(10)).unwrap();
    let mut one = holder(1);
    one.adopt(LeaseEpoch(2));
    let ask = one.ask(ms(155), 5_000, 1).unwrap();
    next.ask(ms(155), &ask);
    next.mandate(ms(170));
    assert!(poll(&mut next, ms(160)).is_empty());
    assert_eq!(poll(&mut next, ms(165))[0].tokens, 50);
    let ask = one.ask(ms(168), 5_000, 1).unwrap();
    next.ask(ms(168), &ask);
    assert!(poll(&mut next, ms(170)).is_empty(), "its mandate has ended");
    assert_eq!(next.wake_at(ms(170)), None);
}

#[test]
fn of_another_epoch_or_life_nothing_counts() {
    let (mut grantor, mut one) = (grantor(), holder(1));
    lend(&mut grantor, &mut one, ms(0), 100);
    one.adopt(LeaseEpoch(2));
    assert_eq!(one.tokens(ms(1)), 0);
    let ask = one.ask(ms(1), 100, 1).unwrap();
    grantor.ask(ms(1), &ask);
    assert!(poll(&mut grantor, ms(1)).is_empty());
    let of = |place: u64, epoch: u64| Grant {
        epoch: LeaseEpoch(epoch),
        holder: HolderId { place, session: 1 },
        number: 9,
        tokens: 5,
        sent: ms(1),
    };
    assert!(!one.grant(ms(2), &of(1, 1)) && !one.grant(ms(2), &of(2, 2)));
    assert!(one.grant(ms(2), &of(1, 2)));
    one.adopt(LeaseEpoch(1));
    assert_eq!(one.epoch(), LeaseEpoch(2), "epochs do not go back");
}

/// Four holders want a large request each, and the bucket never holds two of them.
#[test]
fn large_requests_pass_one_after_the_other() {
    let small = Limit::new(1_000, Grantor::least_burst(1_000, LEASE, LARGEST)).unwrap();
    let mut grantor = Grantor::first(ms(0), small, config(1)).unwrap();
    grantor.mandate(Time(u64::MAX));
    let mut holders: Vec<Holder> = (0..4).map(holder).collect();
    let mut passed = [0_u32; 4];
    for step in 0..4_000 {
        let now = ms(step);
        for (holder, passed) in holders.iter_mut().zip(&mut passed) {
            *passed += u32::from(holder.spend(now, LARGEST));
            if let Some(ask) = holder.ask(now, 10 * LARGEST, LARGEST) {
                grantor.ask(now, &ask);
            }
        }
        for grant in poll(&mut grantor, now) {
            holders[grant.holder.place as usize].grant(now, &grant);
        }
    }
    // 4,000 tokens and the burst: 130 requests.
    let all: u32 = passed.iter().sum();
    assert!((118..=130).contains(&all), "{passed:?}");
    assert!(passed.iter().all(|&one| one * 4 * 100 > all * 95), "{passed:?}");
}

#[test]
fn limits_that_cannot_be_shared_are_refused() {
    let least = Grantor::least_burst(RATE, LEASE, LARGEST);
    assert_eq!(least, 1_064);
    let small = Limit::new(RATE, least - 1).unwrap();
    assert_eq!(
        Grantor::first(ms(0), small, config(1)).err(),
        Some(LeaseError::Burst { least })
    );
    let standing = Standing {
        rate: 1_001,
        holders: 4,
    };
    let config = GrantorConfig { standing, ..config(1) };
    assert_eq!(Grantor::first(ms(0), limit(), config).err(), Some(LeaseError::Standing));
    let mut grantor = grantor();
    assert!(grantor.set(ms(1), small).is_err());
    assert_eq!(grantor.limit(), limit());
}

#[test]
fn a_limit_is_changed_without_a_jump() {
    let (mut grantor, mut one) = (grantor(), holder(1));
    lend(&mut grantor, &mut one, ms(0), 2_000);
    assert!((0..62).all(|_| one.spend(ms(1), 32)));
    grantor.set(ms(1), Limit::new(100_000, 20_000).unwrap()).unwrap();
    let ask = one.ask(ms(13), 50_000, 1).unwrap();
    grantor.ask(ms(13), &ask);
    // From 1 ms on 100 a ms; before there was no room.
    assert_eq!(poll(&mut grantor, ms(13))[0].tokens, 1_200);
}

#[test]
fn a_silent_holder_leaves_its_place() {
    let (mut grantor, mut one) = (grantor(), holder(1));
    lend(&mut grantor, &mut one, ms(0), 10);
    assert_eq!(grantor.lent_out(), (10, 1));
    poll(&mut grantor, ms(200));
    assert_eq!(grantor.lent_out(), (0, 0));
}

/// Of 300 a second 14 come in within a thirty-second of 1.5 s: of what there is, each of many holders is lent no fewer at once.
#[test]
fn a_turn_is_no_crumb_at_whatever_rate() {
    let lease = Duration::from_millis(1_500);
    let config = GrantorConfig { lease, ..config(1) };
    let small = Limit::new(300, Grantor::least_burst(300, lease, LARGEST)).unwrap();
    let mut grantor = Grantor::first(ms(0), small, config).unwrap();
    grantor.mandate(Time(u64::MAX));
    let mut holders: Vec<Holder> = (0..40).map(holder).collect();
    for holder in &mut holders {
        let ask = holder.ask(ms(0), 100, 1).unwrap();
        grantor.ask(ms(0), &ask);
    }
    let grants = poll(&mut grantor, ms(0));
    let all: u64 = grants.iter().map(|grant| grant.tokens).sum();
    assert!(all > 900 && grants.iter().all(|grant| grant.tokens >= 14), "{grants:?}");
}
