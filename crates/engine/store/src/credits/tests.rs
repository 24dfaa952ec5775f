//! Tests of the accounts.

use super::*;
use proptest::prelude::*;

fn account(link: u64, sequencer: u64) -> AccountId {
    AccountId::new(LinkId(link), RequestId(sequencer << COUNT_BITS | 12345))
}

/// Of one whose number nobody else had.
fn open(credits: &mut Credits, account: AccountId, volume: VolumeId, generation: Generation) {
    assert_eq!(credits.open(account, volume, generation), 0);
}

#[test]
fn an_account_is_topped_up_to_its_target() {
    let mut credits = Credits::default();
    let one = account(1, 1);
    assert_eq!(credits.grant(one, 1 << 20, 0), 0, "not opened");
    open(&mut credits, one, VolumeId(1), Generation(1));
    assert_eq!(credits.grant(one, 1 << 20, 0), 2048);
    assert_eq!(credits.grant(one, 1 << 20, 0), 0);
    assert!(credits.take(one, 48, 0));
    assert_eq!(credits.granted(), 2000);
    assert_eq!(credits.grant(one, 1 << 20, 0), 48);
}

#[test]
fn a_takeover_returns_what_the_owner_before_had() {
    let mut credits = Credits::default();
    for generation in 1..=100 {
        let account = account(1, u64::from(generation));
        assert_eq!(
            credits.supersede(&(VolumeId(1)..=VolumeId(1)), Generation(generation)),
            u64::from(generation > 1) * 512
        );
        open(&mut credits, account, VolumeId(1), Generation(generation));
        assert_eq!(credits.grant(account, 1 << 20, 0), 2048, "generation {generation}");
        assert_eq!(credits.granted(), 2048);
    }
    assert_eq!(credits.supersede(&(VolumeId(2)..=VolumeId(2)), Generation(200)), 0);
    assert_eq!(credits.granted(), 2048, "another volume's");
}

#[test]
fn little_space_is_shared() {
    let mut credits = Credits::default();
    for sequencer in 0..10 {
        open(&mut credits, account(1, sequencer), VolumeId(1), Generation(1));
    }
    let mut spare = 800;
    let shares: Vec<u32> = (0..10)
        .map(|sequencer| {
            let got = credits.grant(account(1, sequencer), spare, 0);
            spare -= u64::from(got);
            got
        })
        .collect();
    assert!(shares.iter().all(|&share| (20..=100).contains(&share)), "{shares:?}");
    // One that needs more than its share gets it while it is there.
    assert_eq!(credits.grant(account(1, 9), spare, shares[9] + 40), 40);
    assert_eq!(credits.grant(account(1, 0), 0, 0), 0);
}

#[test]
fn beyond_the_account_only_what_is_free() {
    let mut credits = Credits::default();
    open(&mut credits, account(1, 1), VolumeId(1), Generation(1));
    credits.grant(account(1, 1), 80, 0);
    let left = credits.granted() as u32;
    assert!(!credits.take(account(1, 1), left + 5, 4));
    assert_eq!(credits.granted(), u64::from(left), "nothing was taken");
    assert!(credits.take(account(1, 1), left + 4, 4));
    assert_eq!(credits.granted(), 0);
    assert!(credits.take(account(9, 9), 3, 3), "an account that nobody opened");
}

#[test]
fn there_is_an_end_of_accounts() {
    let mut credits = Credits::default();
    for sequencer in 0..2 * MAX_ACCOUNTS as u64 {
        open(&mut credits, account(1, sequencer), VolumeId(1), Generation(1));
    }
    assert!(credits.accounts.len() <= MAX_ACCOUNTS);
}

#[test]
fn among_many_accounts_those_that_have_nothing_make_way() {
    let mut credits = Credits::default();
    for sequencer in 0..MAX_ACCOUNTS as u64 {
        open(&mut credits, account(1, sequencer), VolumeId(1), Generation(1));
    }
    assert_eq!(credits.grant(account(1, 5), 80, 0), 10);
    let new = account(2, 1);
    open(&mut credits, new, VolumeId(2), Generation(1));
    assert_eq!(credits.grant(new, 80, 32), 32, "it has an account");
    assert_eq!(credits.granted(), 42, "who has something keeps it");
    assert!(credits.take(account(1, 5), 10, 0));
}

#[test]
fn a_number_that_comes_back_counts_from_zero() {
    let mut credits = Credits::default();
    let one = account(1, 1);
    open(&mut credits, one, VolumeId(1), Generation(1));
    assert_eq!(credits.grant(one, 1 << 20, 0), 2048);
    assert_eq!(credits.open(one, VolumeId(1), Generation(1)), 0, "the same");
    assert_eq!(credits.granted(), 2048);
    for (volume, generation) in [(2, 1), (2, 2)] {
        let ended = credits.open(one, VolumeId(volume), Generation(generation));
        assert_eq!((ended, credits.granted()), (512, 0));
        assert_eq!(credits.grant(one, 1 << 20, 0), 2048, "what its sequencer counts");
    }
}

#[test]
fn all_volumes_of_a_range_are_superseded() {
    let mut credits = Credits::default();
    for volume in 1..=12 {
        let one = account(1, volume);
        open(&mut credits, one, VolumeId(volume), Generation(1));
        assert_eq!(credits.grant(one, 1 << 20, 20), 2048);
    }
    let ended = credits.supersede(&(VolumeId(2)..=VolumeId(10)), Generation::DELETED);
    assert_eq!((ended, credits.granted()), (9 * 512, 3 * 2048));
}

#[test]
fn however_many_there_are_all_get_some() {
    let mut credits = Credits::default();
    let mut spare = 2458;
    for sequencer in 0..64 {
        open(&mut credits, account(1, sequencer), VolumeId(sequencer), Generation(1));
    }
    for sequencer in 0..64 {
        let owner = account(1, sequencer);
        let got = credits.grant(owner, spare, 32);
        assert!(got >= 32, "owner {sequencer} got {got}");
        spare -= u64::from(got);
        // It writes, its answers top it up, and then it is idle.
        for _ in 0..10 {
            assert!(credits.take(owner, 8, 0));
            spare += 8;
            spare -= u64::from(credits.grant(owner, spare, 0));
        }
        let left = credits.accounts[&owner].left;
        credits.give_back(owner, left - 33);
        spare += u64::from(left) - 33;
    }
    assert_eq!(credits.granted(), 64 * 33);
}

#[test]
fn what_was_in_flight_lingers_for_those_who_come_again() {
    let mut credits = Credits::default();
    let (old, new) = (account(1, 1), account(2, 1));
    open(&mut credits, old, VolumeId(1), Generation(1));
    assert_eq!(credits.grant(old, 1 << 20, 0), 2048);
    let now = Time(5_000_000_000);
    let ended = credits.close(LinkId(1));
    assert_eq!(ended, 512);
    credits.linger(now, ended);
    assert_eq!(credits.granted(), 512, "it is nobody's, and granted to nobody");
    open(&mut credits, new, VolumeId(1), Generation(1));
    assert_eq!(credits.grant(new, 0, 0), 0);
    assert!(credits.take(new, 32, 0), "it has been granted before");
    assert!(credits.take_rolled(100, 0));
    assert!(!credits.take_rolled(381, 0) && !credits.take(new, 381, 0));
    assert_eq!(credits.granted(), 380);
    credits.turn(now.plus(LINGER));
    assert_eq!(credits.granted(), 380);
    credits.turn(now.plus(LINGER * 2));
    assert_eq!(credits.granted(), 0);
}

#[test]
fn full_is_said_at_once_where_nothing_can_come_back_and_else_after_a_while() {
    let mut credits = Credits::default();
    let (one, other) = (account(1, 1), account(1, 2));
    open(&mut credits, one, VolumeId(1), Generation(1));
    open(&mut credits, other, VolumeId(2), Generation(1));
    let now = Time(1_000_000_000);
    assert!(credits.is_full(now, one, 1, 0, false));
    assert!(!credits.is_full(now, one, 0, 0, false), "nothing is wanted");
    assert!(!credits.is_full(now, one, 1, 0, true), "something is coming");
    assert!(credits.is_full(now.plus(PATIENCE), one, 1, 0, true));
    assert!(
        !credits.is_full(now.plus(PATIENCE * 100), one, 1, 0, true),
        "it begins to wait anew: space may have been given back since"
    );
    let now = now.plus(PATIENCE * 200);
    let got = credits.grant(other, 8, 8);
    assert!(!credits.is_full(now, one, 1, 0, false) || got == 0);
    assert_eq!(credits.grant(one, 80, 4), 10);
    assert!(
        !credits.is_full(now.plus(PATIENCE), one, 4, 10, true),
        "it has what it wants"
    );
    assert!(
        !credits.is_full(now.plus(PATIENCE), one, 20, 0, true),
        "it has only just begun to wait"
    );
}

proptest! {
    #[test]
    fn what_is_granted_is_the_sum_of_the_accounts(steps in proptest::collection::vec((0..8u8, 0..3u64, 0..3u64, 0..3000u32), 1..200)) {
        let mut credits = Credits::default();
        let mut now = Time::default();
        for (what, link, sequencer, blocks) in steps {
            let account = account(link, sequencer);
            match what {
                0 => open(&mut credits, account, VolumeId(1), Generation(1)),
                1 => {
                    let spare = u64::from(blocks);
                    let got = credits.grant(account, spare, 0);
                    prop_assert!(u64::from(got) <= spare);
                }
                2 => {
                    credits.take(account, blocks, u64::from(blocks) / 2);
                }
                3 => {
                    credits.give_back(account, blocks);
                }
                4 => {
                    credits.refund(account, blocks);
                }
                5 => {
                    credits.take_rolled(blocks, 100);
                }
                6 => {
                    now = now.plus(Duration::from_millis(u64::from(blocks)));
                    credits.turn(now);
                }
                _ => {
                    let ended = credits.close(LinkId(link));
                    credits.linger(now, ended);
                }
            }
            let sum: u64 = credits.accounts.values().map(|known| u64::from(known.left)).sum();
            prop_assert_eq!(credits.granted(), sum + credits.lingering());
        }
    }
}
