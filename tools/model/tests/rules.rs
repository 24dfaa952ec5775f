//! Each rule switched off: what the checker finds then, or that it finds nothing.

use amita_model::config::{ALL, Rule, Size};
use amita_model::explore::explore;
use amita_model::model::ACKNOWLEDGED;
use amita_model::sizes;
use amita_model::state::Replication;

/// The rules that are needed at a size: switched off together, they let something break.
fn needed() -> Vec<(&'static [Rule], Size)> {
    vec![
        (&[Rule::Predecessor], sizes::disorder()),
        (&[Rule::Generations], sizes::returns()),
        (&[Rule::TakeWhatDiffers], sizes::returns()),
        (&[Rule::SyncingAnswers], sizes::returns()),
        (&[Rule::GenerationWithEpoch], sizes::returns()),
        (&[Rule::ClaimGeneration], sizes::returns()),
        (&[Rule::ClaimSince], sizes::returns_twice()),
        (&[Rule::Raised], sizes::returns()),
        (&[Rule::Raised], sizes::volumes()),
        (&[Rule::ClaimGeneration], sizes::volumes()),
        (&[Rule::HoldReads], sizes::reads()),
        (&[Rule::HoldReadsSyncing], sizes::reads_and_return()),
        (&[Rule::Leases], sizes::reads()),
        (&[Rule::WaitLeases], sizes::reads()),
        (&[Rule::WaitAfterStart], sizes::start()),
        (&[Rule::LeasesSyncing], sizes::reads_and_return()),
        (&[Rule::JoinMarks], sizes::returns()),
        (
            &[Rule::SyncingServesNothing, Rule::IncompleteServesNothing],
            sizes::reads_and_return(),
        ),
        (&[Rule::ExactEntry], sizes::returns()),
        (&[Rule::WholeBehind], sizes::returns()),
        (&[Rule::RaiseThenRead], sizes::returns()),
        (&[Rule::Drain], sizes::durability()),
        (&[Rule::AtomicRoll], sizes::durability()),
        (&[Rule::ResendDurable], sizes::durability()),
        (&[Rule::Least], sizes::lies()),
        (&[Rule::FenceAll], sizes::returns()),
        (
            &[Rule::MinCopies],
            Size {
                stores: 2,
                writes: 1,
                evictions: 2,
                ..Size::default()
            },
        ),
        (&[Rule::Join], sizes::returns()),
        (&[Rule::JoinVersion], sizes::returns()),
        (&[Rule::JoinGeneration], sizes::returns()),
        (&[Rule::CompareContent], sizes::parts()),
        (&[Rule::CompareTarget], sizes::returns()),
        (&[Rule::BaseWindow], sizes::returns()),
        (&[Rule::BaseKept], sizes::returns()),
        (&[Rule::SkipNewer], sizes::returns()),
        (&[Rule::SkipIsDifference], sizes::parts()),
        (&[Rule::MissIsDifference], sizes::parts()),
        (&[Rule::MendEqualVersion, Rule::SkipIsDifference], sizes::parts()),
        (&[Rule::PassEndsWithLink], sizes::crashes()),
        (&[Rule::ClaimAllChunks], sizes::chunks()),
        (&[Rule::WholeDurable], sizes::crashes()),
        (&[Rule::SettleFirst], sizes::returns()),
        (&[Rule::EqualSettled], sizes::returns()),
        (&[Rule::CompareAlone], sizes::compares()),
        (&[Rule::CompareSettled], sizes::compares()),
        (&[Rule::RotHealsToVersion], sizes::rotten()),
        (&[Rule::RotKeepsVersions], sizes::rotten_and_return()),
    ]
}

#[test]
fn without_a_rule_something_breaks() {
    let mut nothing = Vec::new();
    for (off, size) in needed() {
        let seen = explore(Replication::new(size, off));
        let names = off
            .iter()
            .map(|rule| format!("{rule:?}"))
            .collect::<Vec<_>>()
            .join(" + ");
        let what = seen.broken.iter().map(|(what, _)| *what).collect::<Vec<_>>().join("; ");
        println!(
            "without {names:48} {:2} steps, {:7} states: {what}",
            seen.length(),
            seen.states
        );
        if seen.broken.is_empty() {
            nothing.push(names);
        }
    }
    assert!(nothing.is_empty(), "nothing breaks without {nothing:?}");
}

/// Rules that are kept as a defence: without them nothing breaks at these sizes, because others stand behind them. Each is
/// tried at the size that it is about, and at all by `make soak`.
#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn without_a_defence_nothing_breaks() {
    nothing_breaks(&[
        (Rule::StoreEpoch, sizes::returns()),
        (Rule::PromotionEpoch, sizes::returns()),
        (Rule::ForeignPromotion, sizes::returns()),
        (Rule::IncompleteServesNothing, sizes::reads_and_return()),
        (Rule::SyncingServesNothing, sizes::reads_and_return()),
        (Rule::EndCheck, sizes::returns()),
    ]);
}

fn nothing_breaks(without: &[(Rule, Size)]) {
    for (rule, size) in without {
        let seen = explore(Replication::new(size.clone(), &[*rule]));
        assert!(seen.broken.is_empty(), "without {rule:?}: {:#?}", seen.broken);
        println!("without {:48} nothing in {} states", format!("{rule:?}"), seen.states);
    }
}

/// What is left alone and counted as a difference is safe, and never ends: that is no matter of safety.
#[test]
fn without_mending_equal_versions_nothing_breaks() {
    let seen = explore(Replication::new(sizes::parts(), &[Rule::MendEqualVersion]));
    assert!(seen.broken.is_empty(), "{:#?}", seen.broken);
}

#[test]
#[ignore = "minutes; for `make soak`"]
fn without_a_defence_nothing_breaks_at_a_larger_size() {
    let (returns, twice, reads) = (sizes::returns(), sizes::returns_twice(), sizes::reads_and_return());
    nothing_breaks(&[
        (Rule::StoreEpoch, twice.clone()),
        (Rule::StoreEpoch, reads.clone()),
        (Rule::PromotionEpoch, twice.clone()),
        (Rule::PromotionEpoch, reads.clone()),
        (Rule::ForeignPromotion, twice),
        (Rule::ForeignPromotion, reads.clone()),
        (Rule::IncompleteServesNothing, returns.clone()),
        (Rule::SyncingServesNothing, returns),
        (Rule::EndCheck, reads),
    ]);
}

/// R12 is not about what may go wrong but about what can go on: with no coordinator, a write waits for a silent store
/// for good.
#[test]
fn without_r12_a_silent_store_holds_writes_for_good() {
    let happened = |off: &[Rule]| {
        // The second store takes no step: nothing is ever delivered to it.
        let mut size = sizes::without_coordinator();
        size.silent = true;
        explore(Replication::new(size, off)).happened
    };
    assert!(happened(&[]).contains(&ACKNOWLEDGED));
    assert!(!happened(&[Rule::SequencerEvicts]).contains(&ACKNOWLEDGED));
}

#[test]
fn every_switch_is_in_one_of_the_tables() {
    let defences = [
        Rule::StoreEpoch,
        Rule::PromotionEpoch,
        Rule::ForeignPromotion,
        Rule::EndCheck,
        Rule::SequencerEvicts,
        // See `liveness.rs`.
        Rule::RotHeals,
        Rule::RotTravels,
    ];
    for rule in ALL {
        let found = needed().iter().any(|(off, _)| off.contains(rule)) || defences.contains(rule);
        assert!(found, "{rule:?} is never switched off");
    }
}
