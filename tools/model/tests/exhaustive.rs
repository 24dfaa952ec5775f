//! All rules hold: everything that can happen at these sizes is tried, and nothing is broken.

use amita_model::config::Size;
use amita_model::explore::explore;
use amita_model::model::{ACKNOWLEDGED, COMPARED, PROMOTED, READ_RETURNED, TAKEN_OVER};
use amita_model::sizes::{large, small};
use amita_model::state::Replication;

fn holds(sizes: Vec<(&'static str, Size)>) {
    let (mut states, mut steps) = (0, 0);
    for (name, size) in sizes {
        let mut expected = vec![ACKNOWLEDGED];
        if size.additions > 0 {
            expected.push(PROMOTED);
        }
        if size.generations > 1 {
            expected.push(TAKEN_OVER);
        }
        if size.compares > 0 {
            expected.push(COMPARED);
        }
        if size.reads > 0 {
            expected.push(READ_RETURNED);
        }
        let seen = explore(Replication::new(size, &[]));
        println!(
            "{name:24} {:9} states, {:9} steps, depth {:2}, {:.1?}",
            seen.states, seen.steps, seen.depth, seen.time
        );
        assert!(seen.broken.is_empty(), "{name}: {:#?}", seen.broken);
        for what in expected {
            assert!(seen.happened.contains(&what), "{name}: it never happens that {what}");
        }
        states += seen.states;
        steps += seen.steps;
    }
    println!("{:24} {states:9} states, {steps:9} steps", "all");
}

#[test]
fn the_rules_hold() {
    holds(small());
}

#[test]
#[ignore = "minutes, and up to 3 GiB; for `make soak`"]
fn the_rules_hold_at_larger_sizes() {
    holds(large());
}
