//! S1 to S9 and S13: the cut, states, and clones, with all rules and without each.

use amita_model::cut::set::{self, ONE_MOMENT, SHARED_IS_READY, Sets};
use amita_model::cut::share::{self, FINAL, Share};
use amita_model::cut::{self, CONSISTENT, Cut, SAME, TAKEN};
use amita_model::explore::{Seen, explore};
use amita_model::graph::Graph;
use amita_model::states::{self, States, WHOLE};
use stateright::Model;

fn print(name: &str, seen: Seen) -> Seen {
    let broken: Vec<_> = (seen.broken.iter())
        .map(|(what, way)| format!("not so that {what}, {} steps: {}", way.len(), way.join(" ")))
        .collect();
    println!(
        "{name:52} {:9} states, {:9} steps, {:2} deep, {:.1?} {}",
        seen.states,
        seen.steps,
        seen.depth,
        seen.time,
        broken.join("; ")
    );
    seen
}

/// Nothing is found, and all of this can happen.
fn holds<M>(name: &str, model: M, happens: &[&str])
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + PartialEq + std::hash::Hash + Send + Sync + 'static,
    M::Action: Clone + PartialEq + std::fmt::Debug,
{
    let seen = print(name, explore(model));
    assert!(seen.broken.is_empty(), "{name}");
    for what in happens {
        assert!(seen.happened.contains(what), "{name}: it never happens that {what}");
    }
}

/// What breaks without a rule, and after how many steps.
#[track_caller]
fn breaks<M>(name: &str, model: M, what: &str, steps: usize)
where
    M: Model,
    M::State: Clone + Eq + std::hash::Hash,
    M::Action: Clone + std::fmt::Debug,
{
    let seen = print(name, Graph::until_broken(model).seen());
    let found = seen.broken.iter().find(|(broken, _)| *broken == what);
    let length = found.map_or(0, |(_, way)| way.len());
    assert_eq!(length, steps, "{name}: not so that {what}");
}

fn cut() -> Cut {
    Cut::default()
}

#[test]
fn the_cut_of_a_volume_is_consistent() {
    let links = Cut {
        breaks: 1,
        members: 2,
        ..cut()
    };
    let joins = Cut { returns: true, ..cut() };
    holds("cut", cut(), &[cut::SEALED, cut::AFTER, cut::LATER]);
    holds(
        "cut, a link breaks",
        Cut { owners: 1, ..links },
        &[cut::SEALED, cut::AFTER],
    );
    holds("cut, a member returns", joins, &[cut::SEALED, cut::AFTER, cut::LATER]);
}

#[test]
fn s1_a_number_is_in_the_record_before_a_write_carries_it() {
    breaks(
        "S1: adopted before it is recorded",
        cut().without(cut::Rule::RecordFirst),
        TAKEN,
        7,
    );
    breaks(
        "S1: read before the raise",
        cut().without(cut::Rule::ReadAfterRaise),
        TAKEN,
        9,
    );
    let twice = Cut { snapshots: 2, ..cut() };
    breaks(
        "S1: a void number is given again",
        twice.without(cut::Rule::NeverAgain),
        TAKEN,
        8,
    );
}

#[test]
fn s2_nobody_is_behind_the_cut() {
    breaks(
        "S2: acknowledged early",
        cut().without(cut::Rule::HoldAcks),
        CONSISTENT,
        11,
    );
    breaks("S2: shown early", cut().without(cut::Rule::HoldReads), CONSISTENT, 11);
    breaks(
        "S2: fences are lazy",
        cut().without(cut::Rule::FencesFirst),
        CONSISTENT,
        12,
    );
    breaks(
        "S2: a raise voids nothing",
        cut().without(cut::Rule::Void),
        CONSISTENT,
        9,
    );
}

#[test]
fn s3_the_number_belongs_to_the_version() {
    let links = Cut {
        breaks: 1,
        members: 2,
        writes: 1,
        ..cut()
    };
    breaks(
        "S3: a resend's number is the newest",
        links.without(cut::Rule::Bound),
        SAME,
        10,
    );
    let joins = Cut { returns: true, ..cut() };
    breaks(
        "S3: Join's number is the newest",
        joins.without(cut::Rule::JoinNumber),
        TAKEN,
        5,
    );
}

#[test]
fn s4_a_set_is_cut_in_two_rounds() {
    let all = Sets::default();
    holds("set", all, &[set::READY, set::VOID, set::LAPSED]);
    breaks(
        "S4: each lets go alone",
        all.without(set::Rule::Together),
        ONE_MOMENT,
        12,
    );
    breaks("S4: one round", all.without(set::Rule::TwoRounds), ONE_MOMENT, 13);
    breaks("S4: a raise voids no set", all.without(set::Rule::Void), ONE_MOMENT, 14);
    breaks(
        "S4: shared before the set is ready",
        all.without(set::Rule::ReadySeals),
        SHARED_IS_READY,
        5,
    );
}

#[test]
fn s7_a_snapshot_is_shared_when_it_is_sealed() {
    let all = Share::default();
    holds("share", all, &[share::READ, share::WITHOUT, share::LATER]);
    breaks("S7: not sealed", all.without(share::Rule::Sealed), FINAL, 11);
    breaks("S7: sealed too early", all.without(share::Rule::Settled), FINAL, 12);
    breaks("S7: one member is asked", all.without(share::Rule::AskAll), FINAL, 14);
    breaks("S7: the older epoch", all.without(share::Rule::AdoptedEpoch), FINAL, 17);
    breaks(
        "S7: the owner reads too early",
        all.without(share::Rule::OwnerWaits),
        FINAL,
        6,
    );
    let lazy = all.without(share::Rule::FencesFirst);
    breaks(
        "S7: and S2's fences are lazy",
        lazy.without(share::Rule::AdoptedGeneration),
        FINAL,
        14,
    );
    holds("S7: the generation is looked at, fences are lazy", lazy, &[share::READ]);
    let unlooked = all.without(share::Rule::AdoptedGeneration);
    holds(
        "S7: fences first, the generation is not looked at",
        unlooked,
        &[share::READ],
    );
}

#[test]
fn states_are_whole_with_all_rules() {
    let all = States::default();
    holds("states", all, &[states::BROUGHT, states::BOTH, states::RESUMED]);
    let deletes = States {
        deletions: 1,
        raises: 0,
        ..all
    };
    holds("states, one is deleted", deletes, &[states::BROUGHT, states::TRIMMED]);
}

#[test]
fn s5_a_state_is_its_version() {
    let all = States::default();
    breaks(
        "S5: an incomplete chunk makes a state",
        all.without(states::Rule::IncompleteMakesNone),
        WHOLE,
        12,
    );
    breaks(
        "S5: a roll-forward straddles a live number",
        all.without(states::Rule::Void),
        WHOLE,
        7,
    );
}

#[test]
fn s6_whole_means_with_snapshots() {
    let all = States::default();
    breaks("S6: heads only", all.without(states::Rule::States), WHOLE, 10);
    breaks(
        "S6: the list ends where it was read",
        all.without(states::Rule::AdoptedSince),
        WHOLE,
        10,
    );
    breaks(
        "S6: half a state is taken for whole",
        all.without(states::Rule::OpenDurably),
        WHOLE,
        13,
    );
    breaks(
        "S6: the head is called whole first",
        all.without(states::Rule::StatesFirst),
        WHOLE,
        12,
    );
    let unsettled = all.without(states::Rule::SettledAtSource);
    holds(
        "S6: brought of sealed ones, whatever the source has",
        unsettled,
        &[states::BROUGHT],
    );
    let unsealed = all.without(states::Rule::SealedOnly);
    holds(
        "S6: brought of unsealed ones that the source has",
        unsealed,
        &[states::BROUGHT],
    );
    breaks(
        "S6: brought before the source has it",
        unsealed.without(states::Rule::SettledAtSource),
        WHOLE,
        16,
    );
}

#[test]
fn s9_only_what_is_said_to_be_gone_goes() {
    let deletes = States {
        deletions: 1,
        raises: 0,
        ..States::default()
    };
    breaks(
        "S9: what is missing from a list is trimmed",
        deletes.without(states::Rule::UpTo),
        WHOLE,
        6,
    );
}
