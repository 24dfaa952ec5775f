//! Chunks of clones that are made when they are opened, a store that comes back, and a flattening; with the rules and without each.

use amita_model::clone::make::{Making, Rule, WHOLE};
use amita_model::explore::{Seen, explore};
use amita_model::graph::Graph;

const ALL: Making = Making {
    off: 0,
    returns: 2,
    raises: true,
};

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
fn chunks_are_made_and_parents_leave() {
    for (returns, raises) in [(1, false), (1, true), (2, true), (3, true)] {
        let seen = explore(Making { returns, raises, ..ALL });
        print(&format!("{returns} returns, takeover: {raises}"), &seen);
        assert!(seen.broken.is_empty(), "{:?}", seen.broken);
        assert_eq!(seen.happened.len(), 3, "{:?}", seen.happened);
    }
}

#[test]
fn each_rule_is_needed() {
    let rules = [
        Rule::Coming,
        Rule::UnderWay,
        Rule::PassedOver,
        Rule::CalledWhole,
        Rule::Trimmed,
        Rule::Made,
    ];
    for rule in rules {
        let seen = Graph::until_broken(ALL.without(rule)).seen();
        print(&format!("without {rule:?}"), &seen);
        assert_eq!(seen.broken.first().map(|(name, _)| *name), Some(WHOLE), "{rule:?}");
    }
}
