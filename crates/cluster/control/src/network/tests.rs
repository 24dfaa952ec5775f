use super::*;
use amita_types::link::{MAX_NAMED, MAX_NAMED_OF_MOST};
use proptest::prelude::*;

/// What each node tells where these links are bad, as nodes do it (`amita_node::links`).
fn told(nodes: u32, is_bad: impl Fn(u32, u32) -> bool) -> Vec<LinkReport> {
    let row = |from: u32| {
        let others = (1..=nodes).filter(|to| *to != from);
        let bad: Vec<BadLink> = others.filter(|to| is_bad(from, *to)).map(bad_link).collect();
        let measured = nodes - 1;
        let most = match bad.len() * 2 > measured as usize {
            true => MAX_NAMED_OF_MOST,
            false => MAX_NAMED,
        };
        LinkReport {
            beat: 1,
            at_s: 0,
            measured,
            bad: bad.len() as u32,
            worst: bad.into_iter().take(most).collect(),
            ..LinkReport::default()
        }
    };
    (1..=nodes).map(row).collect()
}

fn bad_link(to: u32) -> BadLink {
    BadLink {
        peer: NodeId(to),
        network: Network::First,
        what: LinkTrouble::Loss,
        sent: 1000,
        lost: 30,
        round_trip_us: 200,
        least_us: 100,
    }
}

/// What is found where nodes stand in these racks, in turn; none: they have none.
fn found(racks: &[&str], reports: &[LinkReport]) -> Vec<Finding> {
    let witnesses = reports.iter().enumerate().map(|(at, report)| Witness {
        node: NodeId(at as u32 + 1),
        rack: (!racks.is_empty()).then(|| ("", racks[at % racks.len()])),
        report: Some(report),
    });
    judge(&witnesses.collect::<Vec<_>>())
}

fn blamed(racks: &[&str], nodes: u32, is_bad: impl Fn(u32, u32) -> bool) -> Vec<Blame> {
    found(racks, &told(nodes, is_bad))
        .into_iter()
        .map(|found| found.blame)
        .collect()
}

fn node(number: u32) -> Blame {
    Blame::Node(NodeId(number))
}

fn link(one: u32, other: u32) -> Blame {
    Blame::Link(NodeId(one), NodeId(other))
}

fn rack(name: &str) -> Blame {
    Blame::Rack(String::new(), name.to_owned())
}

#[test]
fn one_pair_is_a_link() {
    for nodes in [2, 3, 4, 10, 100] {
        assert_eq!(blamed(&[], nodes, |_, _| false), vec![]);
        assert_eq!(blamed(&[], nodes, |from, to| (from, to) == (2, 1)), vec![link(1, 2)]);
        assert_eq!(blamed(&[], nodes, |from, to| from + to == 3), vec![link(1, 2)]);
    }
    let reports = told(5, |from, to| (from, to) == (4, 2));
    let findings = found(&[], &reports);
    assert_eq!((findings[0].outward, findings[0].inward), ((0, 1), (1, 1)));
    assert_eq!(
        findings[0].evidence(),
        "from node 4 to node 2 30 of 1000 segments were lost (3.00 %)"
    );
}

#[test]
fn a_node_is_found_by_either_direction() {
    for nodes in [3, 4, 5, 12, 100, 300] {
        assert_eq!(blamed(&[], nodes, |from, _| from == 2), vec![node(2)], "{nodes}");
        assert_eq!(blamed(&[], nodes, |_, to| to == 2), vec![node(2)], "{nodes}");
        assert_eq!(
            blamed(&["a", "b", "c"], nodes, |from, to| from == 2 || to == 2),
            vec![node(2)],
            "{nodes}"
        );
    }
    let findings = found(&[], &told(12, |from, to| from == 2 || to == 2));
    assert_eq!((findings[0].outward, findings[0].inward), ((11, 11), (11, 11)));
    assert!(
        findings[0].evidence().starts_with(
            "11 of 11 links that it sends by are bad; 11 of 11 links that others send to it by are bad; from node "
        ),
        "{}",
        findings[0].evidence()
    );
}

#[test]
fn two_nodes_and_a_link_are_told_apart() {
    let is_bad = |from: u32, to: u32| from == 3 || to == 7 || from + to == 21 && from.abs_diff(to) == 1;
    assert_eq!(blamed(&[], 20, is_bad), vec![node(3), node(7), link(10, 11)]);
}

#[test]
fn a_rack_is_found_and_its_nodes_are_not_blamed() {
    let racks = ["a", "b", "c", "d"];
    let in_b = |number: u32| number % 4 == 2;
    for nodes in [12, 40, 200] {
        assert_eq!(
            blamed(&racks, nodes, |from, to| in_b(from) != in_b(to)),
            vec![rack("b")],
            "{nodes}"
        );
        assert_eq!(
            blamed(&racks, nodes, |from, to| in_b(from) && !in_b(to)),
            vec![rack("b")],
            "{nodes}"
        );
        assert_eq!(
            blamed(&racks, nodes, |from, to| !in_b(from) && in_b(to)),
            vec![rack("b")],
            "{nodes}"
        );
        // Beside a node elsewhere.
        let is_bad = |from: u32, to: u32| in_b(from) != in_b(to) || from == 3;
        assert_eq!(blamed(&racks, nodes, is_bad), vec![rack("b"), node(3)], "{nodes}");
    }
    // One of its two nodes is sick, and the other one is well.
    assert_eq!(blamed(&racks, 8, |from, to| from == 2 || to == 2), vec![node(2)]);
}

#[test]
fn where_nobody_can_be_told_from_others_nobody_is_blamed() {
    for nodes in [3, 4, 10, 100, 1000] {
        assert_eq!(blamed(&[], nodes, |_, _| true), vec![Blame::Network], "{nodes}");
        assert_eq!(
            blamed(&["a", "b", "c", "d"], nodes, |_, _| true),
            vec![Blame::Network],
            "{nodes}"
        );
    }
    // Of two racks either may be cut off from the other.
    assert_eq!(
        blamed(&["a", "b"], 20, |from, to| from % 2 != to % 2),
        vec![Blame::Network]
    );
    // Half of the nodes against the other half.
    assert_eq!(
        blamed(&[], 20, |from, to| (from <= 10) != (to <= 10)),
        vec![Blame::Network]
    );
}

#[test]
fn many_sick_nodes_of_a_large_cluster_are_bounded() {
    let sick = |number: u32| number.is_multiple_of(50);
    let found = blamed(&[], 1000, |from, to| sick(from) || sick(to));
    assert_eq!(found.len(), 20);
    assert!(
        found
            .iter()
            .all(|blame| matches!(blame, Blame::Node(node) if sick(node.0)))
    );
    let sick = |number: u32| number.is_multiple_of(4);
    assert_eq!(
        blamed(&[], 1000, |from, to| sick(from) || sick(to)),
        vec![Blame::Network]
    );
    // Links all over are noise: some are named, and no node.
    let found = blamed(&[], 1000, |from, to| (from * 31 + to * 17) % 997 == 3);
    assert_eq!(found.len(), MAX_LINKS);
    assert!(found.iter().all(|blame| matches!(blame, Blame::Link(..))));
}

#[test]
fn reports_that_cannot_be_so_hurt_nobody_else() {
    let mut reports = told(6, |_, _| false);
    // It says that all is bad, names itself, strangers, and one node thrice.
    let names = [1, 1, 99, 4, 4, 4];
    reports[0].worst = names.into_iter().map(bad_link).collect();
    (reports[0].measured, reports[0].bad) = (u32::MAX, u32::MAX);
    let found = found(&[], &reports);
    assert_eq!(found[0].blame, node(1));
    assert_eq!((found.len(), found[0].outward), (1, (5, 5)));
    // Two bad links of three that are used are no node's, where there are twelve.
    let mut reports = told(12, |from, to| from == 1 && to <= 3);
    reports[0].measured = 3;
    assert_eq!(super::tests::found(&[], &reports).len(), 2);
    // Who has measured nothing yet is no witness for anybody.
    let mut reports = told(5, |_, to| to == 2);
    (reports[2], reports[3]) = (LinkReport::default(), LinkReport::default());
    let found = super::tests::found(&[], &reports);
    assert_eq!((found[0].blame.clone(), found[0].inward), (node(2), (2, 2)));
}

#[test]
fn a_few_accusers_among_few_that_measure_convict_nobody() {
    let few = |accusers: u32| {
        let mut reports = told(12, |from, to| from <= accusers && to == 5);
        for report in &mut reports {
            report.measured = 3;
        }
        found(&[], &reports)
    };
    let blamed: Vec<Blame> = few(2).into_iter().map(|found| found.blame).collect();
    assert_eq!(blamed, vec![link(1, 5), link(2, 5)]);
    let findings = few(4);
    assert_eq!(
        (findings[0].blame.clone(), findings[0].inward, findings[0].bad_links()),
        (node(5), (4, 6), 4)
    );
    // Nor those of one rack several nodes of another one.
    let mut reports = told(40, |from, to| from % 4 == 2 && from <= 10 && to % 4 == 3);
    for report in &mut reports {
        report.measured = 12;
    }
    let findings = found(&["a", "b", "c", "d"], &reports);
    assert!(
        findings.iter().all(|found| matches!(found.blame, Blame::Link(..))),
        "{findings:?}"
    );
}

proptest! {
    #[test]
    fn a_sick_node_is_found_among_some_bad_links(
        nodes in 12_u32..120,
        sick in 0_u32..12,
        direction in 0..3,
        noise in proptest::collection::btree_set((1_u32..120, 1_u32..120), 0..3),
        racks in prop_oneof![Just(vec![]), Just(vec!["a", "b", "c"]), Just(vec!["a", "b"])],
    ) {
        let sick = sick % nodes + 1;
        let is_bad = |from: u32, to: u32| {
            let by_node = direction != 1 && from == sick || direction != 0 && to == sick;
            by_node || noise.contains(&(from, to))
        };
        let found = blamed(&racks, nodes, is_bad);
        let is_node = |blame: &&Blame| matches!(blame, Blame::Node(_));
        prop_assert_eq!(found.iter().filter(is_node).cloned().collect::<Vec<_>>(), vec![node(sick)]);
        prop_assert!(found.iter().all(|blame| matches!(blame, Blame::Node(_) | Blame::Link(..))), "{:?}", found);
    }

    #[test]
    fn some_bad_links_blame_no_node(
        nodes in 6_u32..120,
        noise in proptest::collection::btree_set((1_u32..120, 1_u32..120), 0..2),
    ) {
        let found = blamed(&["a", "b", "c"], nodes, |from, to| noise.contains(&(from, to)));
        prop_assert!(found.len() <= noise.len());
        prop_assert!(found.iter().all(|blame| matches!(blame, Blame::Link(..))), "{:?}", found);
    }

    #[test]
    fn whatever_is_said_at_most_a_third_is_blamed(
        rows in proptest::collection::vec(
            (0_u32..60, 0_u32..60, proptest::collection::vec(0_u32..30, 0..40)), 1..30
        ),
    ) {
        let report = |(measured, bad, peers): &(u32, u32, Vec<u32>)| LinkReport {
            beat: 1,
            at_s: 0,
            measured: *measured,
            bad: *bad,
            worst: peers.iter().map(|peer| bad_link(*peer)).collect(),
            ..LinkReport::default()
        };
        let reports: Vec<LinkReport> = rows.iter().map(report).collect();
        let found = found(&["a", "b", "c"], &reports);
        let blamed = found.iter().filter(|found| matches!(found.blame, Blame::Node(_))).count();
        prop_assert!(blamed * 3 <= reports.len());
        for found in &found {
            prop_assert!(found.outward.0 <= found.outward.1 && found.inward.0 <= found.inward.1, "{:?}", found);
            prop_assert!(found.blame == Blame::Network || !found.evidence().is_empty());
        }
    }
}

/// What each node tells where it has left these links by the first network.
fn left(nodes: u32, is_left: impl Fn(u32, u32) -> bool) -> Vec<LinkReport> {
    let of = |report: LinkReport| LinkReport {
        measured: nodes - 1,
        left: report.bad,
        left_worst: report.worst,
        ..LinkReport::default()
    };
    told(nodes, is_left).into_iter().map(of).collect()
}

fn found_left(reports: &[LinkReport]) -> Vec<(Network, Finding)> {
    let witnesses = reports.iter().enumerate().map(|(at, report)| Witness {
        node: NodeId(at as u32 + 1),
        rack: None,
        report: Some(report),
    });
    judge_left(&witnesses.collect::<Vec<_>>())
}

#[test]
fn what_was_left_blames_nobody_and_is_judged_apart() {
    // Node 3 loses everything by the first network, and everybody has gone to the second one.
    let reports = left(6, |from, to| from == 3 || to == 3);
    assert_eq!(found(&[], &reports), vec![]);
    let apart = found_left(&reports);
    assert_eq!(apart.len(), 1);
    assert_eq!((apart[0].0, &apart[0].1.blame), (Network::First, &node(3)));
    // All of the first network at once is one thing.
    let reports = left(100, |_, _| true);
    assert_eq!(found(&[], &reports), vec![]);
    let apart = found_left(&reports);
    assert_eq!(apart.len(), 1);
    assert_eq!((apart[0].0, &apart[0].1.blame), (Network::First, &Blame::Network));
    assert_eq!(found_left(&left(6, |_, _| false)), vec![]);
}

#[test]
fn a_node_that_is_bad_by_both_networks_is_blamed() {
    let mut reports = told(5, |from, to| from == 3 || to == 3);
    for report in &mut reports {
        report
            .worst
            .iter_mut()
            .for_each(|found| found.network = Network::Second);
        (report.left, report.left_worst) = (report.bad, report.worst.clone());
        report
            .left_worst
            .iter_mut()
            .for_each(|found| found.network = Network::First);
    }
    let blamed = found(&[], &reports);
    assert_eq!((blamed.len(), &blamed[0].blame), (1, &node(3)));
    assert_eq!(found_left(&reports)[0].1.blame, node(3));
}
