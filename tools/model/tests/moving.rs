//! A volume that moves between pools (decision 080), with the rules and without each.

use amita_model::explore::{Seen, explore};
use amita_model::graph::Graph;
use amita_model::moving::{Moving, Rule};

const ALL: Moving = Moving { off: 0, writes: 2 };

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
        Rule::Compare,
        Rule::Hold,
        Rule::HoldReads,
        Rule::Leave,
        Rule::Adopted,
        Rule::OldName,
    ];
    for rule in rules {
        let seen = Graph::until_broken(ALL.without(rule)).seen();
        print(&format!("without {rule:?}"), &seen);
        assert!(!seen.broken.is_empty(), "without {rule:?} nothing is broken");
    }
}
