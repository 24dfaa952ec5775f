//! Tests of the accounts.

use super::*;
use proptest::prelude::*;

fn account(link: u64, sequencer: u64) -> AccountId {
    AccountId::new(LinkId(link), RequestId(sequencer << COUNT_BITS | 12345))
}

#[test]
fn an_account_is_topped_up_to_its_target() {
    let mut credits = Credits::default();
    let one = account(1, 1);
    assert_eq!(credits.grant(one, 1 << 20), 0, "not opened");
    credits.open(one, VolumeId(1), Generation(1));
    assert_eq!(credits.grant(one, 1 << 20), 2048);
    assert_eq!(credits.grant(one, 1 << 20), 0);
    assert!(credits.take(one, 48, 0));
    assert_eq!(credits.granted(), 2000);
    assert_eq!(credits.grant(one, 1 << 20), 48);
}

#[test]
fn a_takeover_returns_what_the_owner_before_had() {
    let mut credits = Credits::default();
    for generation in 1..=100 {
        let account = account(1, u64::from(generation));
        credits.supersede(VolumeId(1), Generation(generation));
        credits.open(account, VolumeId(1), Generation(generation));
        assert_eq!(credits.grant(account, 1 << 20), 2048, "generation {generation}");
        assert_eq!(credits.granted(), 2048);
    }
    credits.supersede(VolumeId(2), Generation(200));
    assert_eq!(credits.granted(), 2048, "another volume's");
}

#[test]
fn little_space_is_shared() {
    let mut credits = Credits::default();
    for sequencer in 0..10 {
        credits.open(account(1, sequencer), VolumeId(1), Generation(1));
    }
    let mut spare = 800;
    let shares: Vec<u32> = (0..10)
        .map(|sequencer| {
            let got = credits.grant(account(1, sequencer), spare);
            spare -= u64::from(got);
            got
        })
        .collect();
    assert!(shares.iter().all(|&share| (20..=100).contains(&share)), "{shares:?}");
    assert_eq!(credits.grant(account(1, 0), 0), 0);
}

#[test]
fn beyond_the_account_only_what_is_free() {
    let mut credits = Credits::default();
    credits.open(account(1, 1), VolumeId(1), Generation(1));
    credits.grant(account(1, 1), 80);
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
        credits.open(account(1, sequencer), VolumeId(1), Generation(1));
    }
    assert_eq!(credits.accounts.len(), MAX_ACCOUNTS);
}

proptest! {
    #[test]
    fn what_is_granted_is_the_sum_of_the_accounts(steps in proptest::collection::vec((0..4u8, 0..3u64, 0..3u64, 0..3000u32), 1..200)) {
        let mut credits = Credits::default();
        for (what, link, sequencer, blocks) in steps {
            let account = account(link, sequencer);
            match what {
                0 => credits.open(account, VolumeId(1), Generation(1)),
                1 => {
                    let spare = u64::from(blocks);
                    let got = credits.grant(account, spare);
                    prop_assert!(u64::from(got) <= spare);
                }
                2 => {
                    credits.take(account, blocks, u64::from(blocks) / 2);
                }
                _ => credits.close(LinkId(link)),
            }
            let sum: u64 = credits.accounts.values().map(|known| u64::from(known.left)).sum();
            prop_assert_eq!(credits.granted(), sum);
        }
    }
}
