//! Volumes that are mirrored to another cluster (decision 081), with the rules and without each.

use amita_model::explore::{Seen, explore};
use amita_model::graph::Graph;
use amita_model::mirror::{
    Action, BY_DIFFERENCE, FORCED, HEALED, KEPT, MOVED, MOVED_BACK, Mirror, NOT_LOST, ONE_END, ONE_MOMENT, PROMOTED,
    Role, Rule, State, TAKEN_BACK,
};

/// Nothing but writes and a point.
const QUIET: Mirror = Mirror {
    off: 0,
    writes: 2,
    cuts: 1,
    demotions: 0,
    forces: 0,
    deaths: 0,
    losses: 0,
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

/// All that can be wanted to happen there does, and nothing is broken.
fn holds(size: Mirror, wanted: &[&str]) {
    let seen = explore(size);
    print(&format!("{size:?}"), &seen);
    assert!(seen.broken.is_empty(), "{size:?}: {:?}", seen.broken);
    for name in wanted {
        assert!(seen.happened.contains(name), "{size:?}: never: {name}");
    }
}

#[test]
fn in_order_nothing_is_lost() {
    let size = Mirror { demotions: 2, ..QUIET };
    holds(size, &[MOVED, MOVED_BACK, TAKEN_BACK]);
    let size = Mirror {
        demotions: 1,
        deaths: 1,
        ..QUIET
    };
    holds(size, &[MOVED, TAKEN_BACK]);
}

#[test]
fn by_force_it_is_one_moment_and_a_split_heals() {
    let size = Mirror {
        cuts: 0,
        demotions: 1,
        forces: 1,
        deaths: 1,
        ..QUIET
    };
    holds(size, &[FORCED, HEALED, BY_DIFFERENCE]);
    let size = Mirror {
        writes: 1,
        forces: 2,
        losses: 1,
        ..QUIET
    };
    holds(size, &[FORCED, HEALED, BY_DIFFERENCE]);
}

/// One end may be written, and the other one follows it, at a point of it.
fn is_well(s: &State) -> bool {
    (0..2).any(|one| {
        let (near, far) = (&s.ends[one].record, &s.ends[1 - one].record);
        let follows = far.role == Role::Secondary && far.epoch == near.epoch;
        near.role == Role::Primary && follows && far.point.is_some() && near.has.contains(&far.point)
    })
}

/// Operators give each command that helps some time, and force nothing.
fn is_fair(_: &State, action: &Action) -> bool {
    use Action::{Demote, Die, Force, Lose, Write};
    !matches!(action, Write(..) | Demote(_) | Force(_) | Die(_) | Lose(_))
}

#[test]
fn from_everywhere_all_is_well_again_without_force() {
    let order = Mirror {
        writes: 1,
        demotions: 2,
        deaths: 1,
        ..QUIET
    };
    let both = Mirror {
        writes: 1,
        cuts: 0,
        demotions: 1,
        forces: 1,
        ..QUIET
    };
    let split = Mirror {
        writes: 1,
        forces: 2,
        losses: 1,
        ..QUIET
    };
    for size in [order, both, split] {
        let graph = Graph::of(size);
        print(&format!("{size:?}"), &graph.seen());
        assert_eq!(graph.stuck(is_well, is_fair), None, "{size:?}");
    }
}

#[test]
#[ignore = "three minutes; for `make soak`"]
fn so_it_is_at_larger_sizes() {
    let order = Mirror {
        writes: 3,
        cuts: 2,
        demotions: 1,
        deaths: 1,
        ..QUIET
    };
    holds(order, &[MOVED, TAKEN_BACK]);
    let there_and_back = Mirror {
        writes: 3,
        cuts: 0,
        demotions: 3,
        ..QUIET
    };
    holds(there_and_back, &[MOVED, MOVED_BACK, TAKEN_BACK]);
    let split = Mirror {
        writes: 3,
        cuts: 2,
        forces: 1,
        deaths: 1,
        ..QUIET
    };
    holds(split, &[FORCED, HEALED, BY_DIFFERENCE]);
    let twice = Mirror {
        cuts: 2,
        forces: 2,
        ..QUIET
    };
    holds(twice, &[FORCED, HEALED, BY_DIFFERENCE]);
    let both = Mirror {
        demotions: 1,
        forces: 1,
        deaths: 1,
        ..QUIET
    };
    holds(both, &[FORCED, HEALED, BY_DIFFERENCE]);
    let both_twice = Mirror {
        cuts: 0,
        demotions: 1,
        forces: 2,
        ..QUIET
    };
    holds(both_twice, &[FORCED, HEALED, BY_DIFFERENCE]);
}

#[test]
fn each_rule_is_needed() {
    let order = Mirror { demotions: 1, ..QUIET };
    let force = Mirror { forces: 1, ..QUIET };
    let both = Mirror {
        writes: 1,
        demotions: 1,
        ..force
    };
    let lost = Mirror {
        writes: 1,
        forces: 2,
        losses: 1,
        ..QUIET
    };
    let rules = [
        (Rule::Together, QUIET, ONE_MOMENT),
        (Rule::GoBack, force, PROMOTED),
        (Rule::Base, Mirror { deaths: 1, ..order }, ONE_MOMENT),
        (Rule::Adopted, force, NOT_LOST),
        (Rule::Fenced, order, NOT_LOST),
        (Rule::AtLast, order, NOT_LOST),
        (Rule::Declined, order, ONE_END),
        (Rule::Word, order, ONE_END),
        (Rule::Epochs, both, KEPT),
        (Rule::Common, force, ONE_MOMENT),
        (Rule::Closed, force, ONE_END),
        (Rule::Whole, lost, NOT_LOST),
        (Rule::Waits, both, KEPT),
    ];
    for (rule, size, broken) in rules {
        let seen = Graph::until_broken(size.without(rule)).seen();
        print(&format!("without {rule:?}"), &seen);
        let found: Vec<&str> = seen.broken.iter().map(|(name, _)| *name).collect();
        assert!(found.contains(&broken), "without {rule:?}: {found:?}");
    }
}

/// That a demotion counts in its epoch only follows from the others: the name of its last point has the epoch, and who goes by it is at
/// that point.
#[test]
fn one_rule_is_not_needed_alone() {
    let back = Mirror {
        cuts: 0,
        demotions: 2,
        deaths: 1,
        ..QUIET
    };
    let both = Mirror {
        cuts: 0,
        demotions: 1,
        forces: 1,
        ..QUIET
    };
    for size in [back, both] {
        holds(size.without(Rule::Current), &[MOVED]);
    }
}
