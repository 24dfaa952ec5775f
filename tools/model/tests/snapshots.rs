//! S1 to S9 and S13: the cut, states, and clones, with all rules and without each.

use amita_model::clone::switch::{self, NOT_LOST, NOTHING_LEFT, Switch};
use amita_model::clone::{self, Clones, FRESH};
use amita_model::cut::set::{self, ONE_MOMENT, SHARED_IS_READY, Sets};
use amita_model::cut::share::{self, FINAL, Share};
use amita_model::cut::{self, CONSISTENT, Cut, INCLUDED, SAME, TAKEN};
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
fn r11_snapshots() {
    // What the rule said before there were S1 to S8: one owner, two cores, and acknowledgements that are held.
    let cores = Cut {
        owners: 1,
        writes: 2,
        ..cut()
    };
    holds("R11", cores, &[cut::SEALED, cut::AFTER]);
    breaks(
        "R11 without the hold",
        cores.without(cut::Rule::HoldAcks),
        CONSISTENT,
        11,
    );
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
    let alone = Cut { owners: 1, ..cut() };
    breaks(
        "S1: adopted before it is asked for",
        alone.without(cut::Rule::RecordFirst),
        INCLUDED,
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
    let one = States { writes: 1, ..deletes };
    breaks(
        "S9: a state goes with one of its snapshots",
        one.without(states::Rule::LastOfState),
        WHOLE,
        18,
    );
}

/// A clone, and a store that is away and comes back.
fn returns() -> Clones {
    Clones {
        cloned: true,
        returns: 1,
        raises: false,
        ..Clones::default()
    }
}

/// The same, and the clone is detached.
fn detaches() -> Clones {
    Clones {
        detaches: true,
        writes: false,
        ..returns()
    }
}

#[test]
fn clones_are_whole_with_all_rules() {
    holds("clone", Clones::default(), &[clone::DELETED, clone::TAKEN_OVER]);
    holds("clone, a store returns", returns(), &[clone::RETURNED]);
    holds(
        "clone, a store returns twice",
        Clones {
            returns: 2,
            ..returns()
        },
        &[clone::RETURNED],
    );
    let raises = Clones {
        raises: true,
        ..returns()
    };
    holds(
        "clone, a store returns, a takeover",
        raises,
        &[clone::RETURNED, clone::TAKEN_OVER],
    );
    let all = Clones {
        three: true,
        writes: true,
        raises: true,
        cloned: false,
        ..detaches()
    };
    holds(
        "clone, detached while a store returns",
        all,
        &[clone::RETURNED, clone::DETACHED],
    );
}

#[test]
fn s8_what_is_absent_is_the_parents() {
    let all = Clones::default();
    breaks(
        "S8: made without its entries",
        all.without(clone::Rule::Entries),
        clone::WHOLE,
        4,
    );
    breaks(
        "S8: rolled forward without them",
        all.without(clone::Rule::EntriesRolled),
        clone::WHOLE,
        6,
    );
    breaks(
        "S8: served under the parent's right",
        all.without(clone::Rule::OwnRight),
        FRESH,
        9,
    );
}

#[test]
fn s6_parents_come_first() {
    let twice = Clones {
        returns: 2,
        ..returns()
    };
    breaks(
        "S6: claimed before its parents",
        returns().without(clone::Rule::ParentsFirst),
        clone::WHOLE,
        9,
    );
    breaks(
        "S6: by a claim of before",
        twice.without(clone::Rule::SameSince),
        clone::WHOLE,
        15,
    );
    breaks(
        "S6: a chunk before its parent's",
        returns().without(clone::Rule::ParentsFirstChunks),
        clone::WHOLE,
        9,
    );
}

#[test]
fn s9_what_has_clones_stays() {
    let all = Clones::default();
    breaks(
        "S9: pins are not looked at",
        all.without(clone::Rule::Pins),
        clone::WHOLE,
        4,
    );
    breaks(
        "S9: a delete passes a clone",
        all.without(clone::Rule::Compared),
        clone::WHOLE,
        4,
    );
    let deletes = Switch {
        off: 0,
        reverts: false,
        pinned: true,
    };
    breaks(
        "S9: two heads for one snapshot",
        deletes.without(switch::Rule::OpenFirst),
        switch::SAME,
        9,
    );
}

#[test]
fn s13_switching_is_behind_a_raised_generation() {
    let (reverts, deletes) = (
        Switch {
            off: 0,
            reverts: true,
            pinned: true,
        },
        Switch {
            off: 0,
            reverts: false,
            pinned: true,
        },
    );
    holds("revert", reverts, &[switch::REVERTED]);
    holds("delete", deletes, &[switch::DELETED]);
    let deletes = Switch {
        pinned: false,
        ..deletes
    };
    holds("delete, nothing stays", deletes, &[switch::DELETED]);
    breaks(
        "S13: a revert before all stores know",
        reverts.without(switch::Rule::RevertFences),
        NOT_LOST,
        6,
    );
    breaks(
        "S13: a delete before all stores know",
        deletes.without(switch::Rule::DeleteFences),
        NOTHING_LEFT,
        7,
    );
    breaks(
        "S13: who is syncing is left out",
        detaches().without(clone::Rule::DetachSyncing),
        clone::WHOLE,
        10,
    );
    breaks(
        "S13: stores are not told anew",
        detaches().without(clone::Rule::DetachTells),
        clone::WHOLE,
        10,
    );
}

// Sizes that take minutes, for `make soak`.

#[test]
#[ignore = "minutes, and gigabytes of memory"]
fn the_cut_is_consistent_at_larger_sizes() {
    let cuts = Cut {
        owners: 3,
        snapshots: 2,
        ..cut()
    };
    holds("cut, three owners", cuts, &[cut::SEALED, cut::AFTER, cut::LATER]);
    let links = Cut {
        members: 2,
        breaks: 1,
        snapshots: 2,
        ..cut()
    };
    holds(
        "cut, two snapshots, a link breaks",
        links,
        &[cut::SEALED, cut::AFTER, cut::LATER],
    );
    let joins = Cut { returns: true, ..links };
    holds(
        "cut, two snapshots, a link, a member returns",
        joins,
        &[cut::SEALED, cut::AFTER, cut::LATER],
    );
    let members = Cut {
        members: 2,
        writes: 2,
        ..cuts
    };
    holds(
        "cut, three owners, two members",
        members,
        &[cut::SEALED, cut::AFTER, cut::LATER],
    );
}

#[test]
#[ignore = "minutes, and gigabytes of memory"]
fn states_and_clones_are_whole_at_larger_sizes() {
    let all = States::default();
    let happens = [states::BROUGHT, states::BOTH, states::RESUMED];
    let more = States {
        writes: 5,
        raises: 2,
        ..all
    };
    holds("states, five writes, two takeovers", more, &happens);
    let twice = States {
        writes: 4,
        evictions: 3,
        returns: 2,
        raises: 2,
        ..all
    };
    holds("states, two returns, two takeovers", twice, &happens);
    let three = States {
        stores: 3,
        evictions: 3,
        ..all
    };
    holds("states, three stores", three, &happens);
    let deletes = States { deletions: 1, ..all };
    holds(
        "states, a takeover and a deletion",
        deletes,
        &[states::BROUGHT, states::TRIMMED, states::RESUMED],
    );
    let deletes = States {
        deletions: 2,
        raises: 0,
        evictions: 3,
        returns: 2,
        writes: 2,
        ..all
    };
    holds(
        "states, two returns and two deletions",
        deletes,
        &[states::BROUGHT, states::TRIMMED],
    );
    let clones = Clones {
        three: true,
        cloned: false,
        returns: 2,
        writes: true,
        raises: true,
        ..detaches()
    };
    holds("clone, three stores, all", clones, &[clone::RETURNED, clone::DETACHED]);
}
