//! R4: leases that end on each side by its own clock.

use amita_model::explore::Seen;
use amita_model::graph::Graph;
use amita_model::leases::{EARLY, FRESH, Leases, Rule, SERVED, WRITTEN};
use amita_model::zone::Drift;

fn run(name: &str, model: Leases) -> Seen {
    let seen = Graph::until_broken(model).seen();
    let broken: Vec<_> = (seen.broken.iter())
        .map(|(what, way)| format!("not so that {what}, {} steps: {}", way.len(), way.join(" ")))
        .collect();
    println!(
        "{name:52} {:7} states, {:.1?} {}",
        seen.states,
        seen.time,
        broken.join("; ")
    );
    seen
}

fn steps(name: &str, model: Leases) -> usize {
    let seen = run(name, model);
    let found = seen.broken.iter().find(|(broken, _)| *broken == FRESH);
    found.map_or(0, |(_, way)| way.len())
}

/// As it was: the owner counts the whole lease, and its clock stands still with its machine.
fn before() -> Leases {
    Leases {
        counted: 100,
        drift: Drift(0),
        ..Leases::default()
    }
    .without(&[Rule::CountPauses, Rule::LongestSetting])
}

fn starts() -> Leases {
    Leases {
        starts: 1,
        lease_later: 100_000,
        ..Leases::default()
    }
}

fn pauses() -> Leases {
    Leases {
        pauses: 1,
        ..Leases::default()
    }
}

fn handed_over() -> Leases {
    Leases {
        hands_over: true,
        ..Leases::default()
    }
}

fn between() -> Leases {
    Leases {
        between: true,
        ..Leases::default()
    }
}

#[test]
fn the_rules_of_before_let_stale_reads_through() {
    assert_eq!(steps("before: clocks that agree", before()), 0);
    let drift = Leases {
        drift: Drift(1),
        ..before()
    };
    let pause = Leases { pauses: 1, ..before() };
    let start = Leases {
        starts: 1,
        lease_later: 100_000,
        ..before()
    };
    let found = [
        steps("before: clocks off by 0.1 %", drift),
        steps("before: the owner's machine stands still", pause),
        steps("before: a store starts anew with a shorter setting", start),
    ];
    assert_eq!(found, [13, 14, 14]);
}

#[test]
fn the_rules_hold() {
    let mut happened = Vec::new();
    for (name, size) in [
        ("leases", Leases::default()),
        ("stores start anew with a shorter setting", starts()),
        ("the owner's machine stands still", pauses()),
        ("handed over", handed_over()),
        ("an owner between", between()),
    ] {
        let seen = run(name, size);
        assert!(seen.broken.is_empty());
        happened.extend(seen.happened);
    }
    for what in [SERVED, WRITTEN, EARLY] {
        assert!(happened.contains(&what), "it never happens that {what}");
    }
}

/// Where a machine may stand still and no clock shows it: no lease helps, and a confirmation of each read does.
#[test]
fn reads_that_are_confirmed_need_no_clock() {
    let blind = Leases {
        drift: Drift(500),
        ..pauses()
    }
    .without(&[Rule::CountPauses]);
    assert!(steps("by leases", blind.clone()) > 0);
    let confirmed = Leases {
        confirms: true,
        reads: 2,
        ..blind
    };
    let seen = run("confirmed", confirmed);
    assert!(seen.broken.is_empty() && seen.happened.contains(&SERVED) && seen.happened.contains(&WRITTEN));
}

/// Four fifths of a lease leave room for clocks that run off by a ninth, each its own way.
#[test]
fn clocks_may_run_off_so_far() {
    let size = |counted, thousandths| Leases {
        counted,
        drift: Drift(thousandths),
        ..Leases::default()
    };
    assert_eq!(steps("counts 80 %, off by 11.1 %", size(80, 111)), 0);
    assert!(steps("counts 80 %, off by 11.2 %", size(80, 112)) > 0);
    assert_eq!(steps("counts 90 %, off by 5.2 %", size(90, 52)), 0);
    assert!(steps("counts 90 %, off by 5.3 %", size(90, 53)) > 0);
}

#[test]
fn each_rule_is_needed() {
    let without = |rule: Rule, size: Leases| (rule, steps(&format!("without {rule:?}"), size.without(&[rule])));
    let found = [
        without(Rule::FromSending, Leases::default()),
        without(Rule::FreshNow, Leases::default()),
        without(Rule::Enough, Leases::default()),
        without(Rule::WaitAfterStart, starts()),
        without(Rule::LongestSetting, starts()),
        without(Rule::CountPauses, pauses()),
        without(Rule::StopsFirst, handed_over()),
        without(Rule::Exactly, between()),
    ];
    assert!(found.iter().all(|(_, steps)| *steps > 0), "{found:?}");
}
