use super::*;
use std::collections::BTreeSet;

const LIMITS: Limits = Limits {
    nodes: 3,
    operations: 200,
    spare: 1,
    eviction_ns: 2000 * MS,
};

#[test]
fn every_kind_is_drawn_and_plans_differ() {
    let (mut kinds, mut lengths) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..2000 {
        let plan = Plan::draw(&mut Random::new(seed), LIMITS);
        assert_eq!(plan, Plan::draw(&mut Random::new(seed), LIMITS), "a seed has one plan");
        lengths.insert(plan.steps.len());
        for step in &plan.steps {
            let name = format!("{:?}", step.fault);
            kinds.insert(name.split(' ').next().unwrap_or_default().to_owned());
        }
    }
    assert_eq!(kinds.len(), 14, "{kinds:?}");
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), (0..=16).collect::<Vec<_>>());
}

#[test]
fn what_lasts_strikes_only_victims() {
    for seed in 0..500 {
        let plan = Plan::draw(&mut Random::new(seed), LIMITS);
        for step in plan.steps {
            if let Fault::PowerCut { node, for_ns } | Fault::Kill { node, for_ns } | Fault::Freeze { node, for_ns } =
                step.fault
            {
                assert!(
                    for_ns < LIMITS.eviction_ns || plan.victims.contains(&node),
                    "seed {seed}: node {node}"
                );
            }
        }
    }
}

#[test]
fn only_what_lasts_makes_a_link_bad() {
    let links = |for_ns| Fault::BadLinks {
        node: 2,
        peers: vec![0],
        bad: Bad::Cut,
        way: Lost::Both,
        for_ns,
    };
    assert_eq!(links(60_000 * MS).bad_sides(3), Some((vec![2], vec![0])));
    assert_eq!(links(6_000 * MS).bad_sides(3), None);
    let partition = Fault::Partition {
        side: vec![1],
        lost: Lost::Outgoing,
        metadata: false,
        for_ns: 60_000 * MS,
    };
    assert_eq!(partition.bad_sides(3), Some((vec![1], vec![0, 2])));
    assert_eq!(Fault::Move { gateway: 1 }.bad_sides(3), None);
}
