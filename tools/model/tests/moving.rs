//! A volume that moves between pools (decision 080), with the rules and without each.

use amita_model::explore::{Seen, explore};
use amita_model::graph::Graph;
use amita_model::moving::{Moving, NOT_LOST, NOT_STALE, Rule};

const ALL: Moving = Moving { off: 0, writes: 3 };

fn print(name: &str, seen: &Seen) {
    println!(
        "{name}: {} states, {} steps, depth {}, {:?}; {} steps to what is broken: {:?}",
        seen.states,
        seen.steps,
        seen.depth,
        seen.time,
        seen.length(),
        seen.broken
    );
}

#[test]
fn a_volume_moves_and_loses_nothing() {
    let seen = explore(ALL);
    print("all rules", &seen);
    assert!(seen.broken.is_empty(), "{:?}", seen.broken);
    assert_eq!(seen.happened.len(), 3, "{:?}", seen.happened);
}

#[test]
fn each_rule_is_needed() {
    let rules = [
        (Rule::Compare, NOT_STALE),
        (Rule::Hold, NOT_LOST),
        (Rule::HoldReads, NOT_STALE),
        (Rule::Record, NOT_STALE),
        (Rule::Adopted, NOT_LOST),
        (Rule::OldName, NOT_STALE),
    ];
    // What is lost is read, too: which of both is seen first is as it is.
    for (rule, broken) in rules {
        let seen = Graph::until_broken(ALL.without(rule)).seen();
        print(&format!("without {rule:?}"), &seen);
        let found: Vec<&str> = seen.broken.iter().map(|(name, _)| *name).collect();
        assert!(found.contains(&broken), "without {rule:?}: {found:?}");
    }
}
