//! Nodes whose links are bad.

use super::plan::planned;
use super::*;
use crate::network::Blame;
use amita_types::link::{BadLink, LinkReport, LinkTrouble, Network, links_key};
use amita_types::map::StoreDuty;
use amita_types::recovery::{HealthReport, Recovery, SickPolicy, StoreHealth, health_key, recovery_key};

/// A node says of `of` others to which its links are bad.
pub(super) fn put(scene: &mut Scene, from: u32, bad: &[u32], of: u32) {
    let worst = bad.iter().map(|peer| BadLink {
        peer: node(*peer),
        network: Network::First,
        what: LinkTrouble::Loss,
        sent: 1000,
        lost: 50,
        round_trip_us: 200,
        least_us: 100,
    });
    let report = LinkReport {
        beat: scene.now.0.as_secs(),
        at_s: 0,
        measured: of,
        bad: bad.len() as u32,
        worst: worst.collect(),
        ..LinkReport::default()
    };
    scene.put(&links_key(node(from)), &report);
}

fn set(scene: &mut Scene, policy: SickPolicy) {
    let settings = Recovery {
        sick_networks: SickNetworks {
            policy,
            ..SickNetworks::default()
        },
        ..Recovery::default()
    };
    scene.put(&recovery_key(), &settings);
}

/// So many seconds pass, in which the nodes find what `bad` says of each; the others find all their links well.
fn live(scene: &mut Scene, seconds: u32, nodes: u32, bad: &[(u32, &[u32])]) {
    for _ in 0..seconds / 5 {
        for from in 1..=nodes {
            let own = bad.iter().find(|(node, _)| *node == from);
            let peers: &[u32] = own.map(|(_, peers)| *peers).unwrap_or_default();
            put(scene, from, peers, nodes - 1);
        }
        scene.run();
        scene.wait(5);
        scene.run();
    }
}

fn holds(scene: &Scene, number: u32) -> usize {
    let groups = scene.groups();
    let held = groups.iter().filter(|group| group.in_sync.contains(&store(number)));
    held.count()
}

fn sentences(scene: &Scene) -> Vec<(Blame, Sentence)> {
    let told = scene.warnings.iter().filter_map(|warning| match warning {
        Warning::SickNetwork { blame, sentence, .. } => Some((blame.clone(), sentence.clone())),
        _ => None,
    });
    told.collect()
}

fn is_well(scene: &Scene) -> bool {
    let is_end = |warning: &Warning| matches!(warning, Warning::NetworkWell { .. });
    scene.warnings.iter().any(is_end)
}

const THREE: Blame = Blame::Node(NodeId(3));

#[test]
fn a_node_is_avoided_then_isolated_and_comes_back_when_it_is_well() {
    let mut scene = Scene::led(4, 8, 2);
    set(&mut scene, SickPolicy::Isolate);
    let bad: &[(u32, &[u32])] = &[(3, &[1, 2, 4])];
    live(&mut scene, 55, 4, bad);
    assert_eq!(sentences(&scene), vec![], "not for long enough");
    live(&mut scene, 10, 4, bad);
    assert_eq!(sentences(&scene), vec![(THREE, Sentence::Avoided)]);
    live(&mut scene, 50, 4, bad);
    assert_eq!(holds(&scene, 3), 8);
    live(&mut scene, 10, 4, bad);
    assert_eq!(holds(&scene, 3), 0);
    assert_eq!(sentences(&scene)[1..], [(THREE, Sentence::Isolated)]);
    let said = scene.warnings.iter().map(Warning::to_string);
    let said: Vec<String> = said.filter(|text| text.starts_with("sick network: ")).collect();
    assert!(
        said[1].contains("node 3: 3 of 3 links that it sends by are bad; from node 3 to node 4 50 of 1000 segments"),
        "{said:?}"
    );
    // It stays away while it is sick, also beyond its rest.
    live(&mut scene, 700, 4, bad);
    assert_eq!((holds(&scene, 3), holds(&scene, 1)), (0, 8));
    live(&mut scene, 110, 4, &[]);
    assert_eq!((holds(&scene, 3), is_well(&scene)), (0, false));
    live(&mut scene, 30, 4, &[]);
    assert_eq!(
        (holds(&scene, 3), is_well(&scene)),
        (8, true),
        "it is tried as soon as it is well"
    );
}

#[test]
fn who_is_elected_again_isolates_nobody_for_what_was() {
    let mut scene = Scene::led(4, 8, 2);
    set(&mut scene, SickPolicy::Isolate);
    live(&mut scene, 200, 4, &[(3, &[1, 2, 4])]);
    assert_eq!(holds(&scene, 3), 0);
    scene.apply(Event::Deposed);
    live(&mut scene, 30, 4, &[]);
    scene.elect();
    live(&mut scene, 60, 4, &[]);
    assert_eq!((holds(&scene, 3), scene.machine.networks.resting(scene.now)), (8, 0));
    // It is found anew, as if by another one.
    live(&mut scene, 200, 4, &[(3, &[1, 2, 4])]);
    assert_eq!(holds(&scene, 3), 0);
}

#[test]
fn a_policy_that_isolates_nobody_brings_back_who_is_isolated() {
    for policy in [SickPolicy::Off, SickPolicy::Propose, SickPolicy::Avoid] {
        let mut scene = Scene::led(4, 8, 2);
        set(&mut scene, SickPolicy::Isolate);
        let bad: &[(u32, &[u32])] = &[(3, &[1, 2, 4])];
        live(&mut scene, 200, 4, bad);
        assert_eq!(holds(&scene, 3), 0);
        set(&mut scene, policy);
        live(&mut scene, 60, 4, bad);
        assert_eq!(
            (holds(&scene, 3), scene.machine.networks.resting(scene.now)),
            (8, 0),
            "{policy:?}"
        );
    }
}

#[test]
fn a_dry_run_tells_what_would_be_done_and_does_nothing() {
    let mut scene = Scene::led(4, 8, 2);
    live(&mut scene, 900, 4, &[(1, &[3]), (2, &[3]), (4, &[3])]);
    assert_eq!(holds(&scene, 3), 8);
    assert_eq!(sentences(&scene), vec![(THREE, Sentence::Proposed { hindrance: None })]);
    set(&mut scene, SickPolicy::Off);
    scene.warnings.clear();
    live(&mut scene, 300, 4, &[(3, &[1, 2, 4])]);
    assert_eq!((sentences(&scene), holds(&scene, 3)), (vec![], 8));
    let mut scene = Scene::led(4, 8, 2);
    set(&mut scene, SickPolicy::Avoid);
    live(&mut scene, 900, 4, &[(3, &[1, 2, 4])]);
    assert_eq!(
        (sentences(&scene), holds(&scene, 3)),
        (vec![(THREE, Sentence::Avoided)], 8)
    );
}

#[test]
fn nobody_is_isolated_who_is_needed() {
    let stays = |hindrance: &str| Sentence::Stays {
        hindrance: hindrance.to_owned(),
    };
    // The least number of copies is all.
    let mut scene = Scene::led(3, 4, 3);
    set(&mut scene, SickPolicy::Isolate);
    live(&mut scene, 300, 3, &[(3, &[1, 2])]);
    assert_eq!(holds(&scene, 3), 4);
    let expected = stays("4 of its groups have no copy to spare");
    assert_eq!(
        sentences(&scene),
        vec![(THREE, Sentence::Avoided), (THREE, expected.clone())]
    );

    // Another one is missing; and whoever is dead is no witness.
    let mut scene = Scene::led(5, 4, 2);
    set(&mut scene, SickPolicy::Isolate);
    scene.die(node(2));
    scene.run();
    scene.wait(3);
    scene.run();
    assert_eq!(holds(&scene, 2), 0);
    live(&mut scene, 300, 5, &[(3, &[1, 2, 4, 5]), (2, &[1, 3, 4, 5])]);
    assert_eq!(holds(&scene, 3), 4);
    assert_eq!(sentences(&scene), vec![(THREE, Sentence::Avoided), (THREE, expected)]);
}

#[test]
fn who_is_not_found_by_half_of_the_others_stays() {
    let mut scene = Scene::led(4, 4, 2);
    (5..=12).for_each(|number| scene.spare(number));
    set(&mut scene, SickPolicy::Isolate);
    for _ in 0..60 {
        for from in 1..=12 {
            let accuses = from == 1 || from == 2 || from == 4 || from == 6;
            let bad: &[u32] = if accuses { &[3] } else { &[] };
            put(&mut scene, from, bad, 3);
        }
        scene.run();
        scene.wait(5);
        scene.run();
    }
    assert_eq!(holds(&scene, 3), 4);
    let hindrance = "it is not found by half of the other nodes".to_owned();
    assert_eq!(
        sentences(&scene),
        vec![(THREE, Sentence::Avoided), (THREE, Sentence::Stays { hindrance })]
    );
}

#[test]
fn no_group_is_left_with_one_copy() {
    let mut scene = Scene::led(4, 4, 1);
    let mut pool: Pool = scene.state.get(&map::pool_key("p")).unwrap().json().unwrap();
    pool.kind = PoolKind::Replicated {
        copies: 2,
        min_copies: 1,
    };
    scene.put(&map::pool_key("p"), &pool);
    for index in 0..4 {
        let mut group = scene.group(index);
        group.epoch = group.epoch.next();
        group.members = vec![store(3), store(1)];
        group.in_sync.clone_from(&group.members);
        scene.put_group(&group);
    }
    set(&mut scene, SickPolicy::Isolate);
    live(&mut scene, 300, 4, &[(3, &[1, 2, 4])]);
    assert_eq!(holds(&scene, 3), 4);
    let hindrance = "4 of its groups have no copy to spare".to_owned();
    assert_eq!(
        sentences(&scene),
        vec![(THREE, Sentence::Avoided), (THREE, Sentence::Stays { hindrance })]
    );
}

#[test]
fn with_nothing_to_decide_reports_are_no_reason_to_look_at_all_groups() {
    for (policy, is_reason) in [(SickPolicy::Off, false), (SickPolicy::Propose, true)] {
        let mut scene = Scene::led(4, 4, 2);
        set(&mut scene, policy);
        scene.run();
        let (mut out, mut due) = (Out::default(), Due::default());
        put(&mut scene, 3, &[1, 2, 4], 3);
        let record = scene.state.get(&links_key(node(3))).unwrap().clone();
        let now = scene.now;
        assert!(scene.machine.networks.hear(&mut out, &mut due, now, &record));
        assert_eq!(due.dirty, is_reason, "{policy:?}");
    }
}

#[test]
fn silence_does_not_end_a_rest() {
    let mut scene = Scene::led(4, 8, 2);
    set(&mut scene, SickPolicy::Isolate);
    live(&mut scene, 150, 4, &[(3, &[1, 2, 4])]);
    assert_eq!(holds(&scene, 3), 0);
    // Nothing is bad any more, as nothing is sent.
    for _ in 0..60 {
        (1..=4).for_each(|from| put(&mut scene, from, &[], 1));
        scene.run();
        scene.wait(5);
        scene.run();
    }
    assert_eq!((holds(&scene, 3), scene.machine.networks.resting(scene.now)), (0, 1));
    live(&mut scene, 30, 4, &[]);
    assert_eq!((holds(&scene, 3), scene.machine.networks.resting(scene.now)), (8, 0));
}

#[test]
fn one_node_at_a_time_is_isolated_and_only_so_many_in_an_hour() {
    let mut scene = Scene::led(6, 4, 2);
    set(&mut scene, SickPolicy::Isolate);
    let bad: &[(u32, &[u32])] = &[(2, &[1, 3, 4, 5, 6]), (3, &[1, 2, 4, 5, 6])];
    live(&mut scene, 200, 6, bad);
    assert_eq!((holds(&scene, 2), holds(&scene, 3)), (0, 4));
    let (last, sentence) = sentences(&scene).pop().unwrap();
    let hindrance = "node 2 is isolated, and one at a time is the limit".to_owned();
    assert_eq!((last, sentence), (THREE, Sentence::Stays { hindrance }));
    // The other one, when the first is back.
    live(&mut scene, 400, 6, &bad[1..]);
    assert_eq!((holds(&scene, 2), holds(&scene, 3)), (4, 0));
    live(&mut scene, 200, 6, &[]);
    assert_eq!((holds(&scene, 2), holds(&scene, 3)), (4, 4));
    live(&mut scene, 400, 6, &bad[..1]);
    assert_eq!(holds(&scene, 2), 4, "that were two within an hour");
    live(&mut scene, 3600, 6, &bad[..1]);
    assert_eq!(holds(&scene, 2), 0);
}

#[test]
fn what_is_no_nodes_fault_takes_no_node_out() {
    let all: [&[u32]; 5] = [
        &[2, 3, 4, 5],
        &[1, 3, 4, 5],
        &[1, 2, 4, 5],
        &[1, 2, 3, 5],
        &[1, 2, 3, 4],
    ];
    let everybody: Vec<(u32, &[u32])> = (1..).zip(all).collect();
    let pair: &[(u32, &[u32])] = &[(1, &[2]), (2, &[1])];
    for (bad, expected) in [
        (everybody.as_slice(), Blame::Network),
        (pair, Blame::Link(node(1), node(2))),
    ] {
        let mut scene = Scene::led(5, 4, 2);
        set(&mut scene, SickPolicy::Isolate);
        live(&mut scene, 600, 5, bad);
        assert_eq!(sentences(&scene), vec![(expected, Sentence::Told)]);
        assert!((1..=5).all(|number| holds(&scene, number) == 4));
    }
}

#[test]
fn a_moment_and_old_reports_are_no_reason() {
    let mut scene = Scene::led(4, 4, 2);
    set(&mut scene, SickPolicy::Isolate);
    let bad: &[(u32, &[u32])] = &[(3, &[1, 2, 4])];
    for _ in 0..10 {
        live(&mut scene, 40, 4, bad);
        live(&mut scene, 40, 4, &[]);
    }
    assert_eq!(sentences(&scene), vec![]);
    // It has said so once, and no more.
    put(&mut scene, 3, &[1, 2, 4], 3);
    scene.run();
    for _ in 0..60 {
        scene.wait(5);
        scene.run();
    }
    assert_eq!(holds(&scene, 3), 4);
    assert!(
        sentences(&scene)
            .iter()
            .all(|(_, sentence)| *sentence == Sentence::Avoided)
    );
    assert_eq!(scene.machine.deadline(), None, "nothing is left to be seen");
}

#[test]
fn a_slow_store_behind_a_sick_network_is_told_with_it() {
    let mut scene = Scene::led(4, 4, 2);
    let bad: &[(u32, &[u32])] = &[(3, &[1, 2, 4])];
    live(&mut scene, 100, 4, bad);
    for number in [1, 2] {
        let report = HealthReport {
            beat: 1,
            stores: vec![StoreHealth {
                store: store(3),
                slow: true,
                for_s: 60,
                why: "it crawls".to_owned(),
            }],
        };
        scene.put(&health_key(node(number), 0), &report);
    }
    scene.run();
    let told = scene.warnings.iter().map(Warning::to_string);
    let told: Vec<String> = told.filter(|text| text.starts_with("slow store: ")).collect();
    assert!(
        told[0].contains("it crawls; the network of its node is sick, which is to be mended before any disk: 3 of 3"),
        "{told:?}"
    );
    // It rests now, and its node is not isolated beside it.
    assert_eq!(holds(&scene, 3), 0);
    set(&mut scene, SickPolicy::Isolate);
    live(&mut scene, 100, 4, bad);
    assert_eq!(scene.machine.networks.resting(scene.now), 0);
}

#[test]
fn a_node_that_is_avoided_gets_no_more_groups() {
    let mut scene = planned(5, 5, 32);
    set(&mut scene, SickPolicy::Avoid);
    let bad: &[(u32, &[u32])] = &[(5, &[1, 2, 3, 4])];
    live(&mut scene, 100, 5, bad);
    assert_eq!(sentences(&scene), vec![(Blame::Node(node(5)), Sentence::Avoided)]);
    let members = |scene: &Scene| -> Vec<bool> {
        let groups = scene.groups();
        groups.iter().map(|group| group.members.contains(&store(5))).collect()
    };
    let before = members(&scene);
    assert!(before.contains(&true));
    let mut record: Store = scene.state.get(&map::store_key(store(1))).unwrap().json().unwrap();
    record.duty = StoreDuty::Draining;
    scene.put(&map::store_key(store(1)), &record);
    live(&mut scene, 60, 5, bad);
    let groups = scene.groups();
    assert!(
        groups.iter().all(|group| !group.members.contains(&store(1))),
        "others hold its groups"
    );
    assert_eq!(members(&scene), before, "and not this one");
}

/// A node says that it has left `of` others' first network, for being bad to these.
fn put_left(scene: &mut Scene, from: u32, left: &[u32], of: u32) {
    put(scene, from, left, of);
    let key = links_key(node(from));
    let mut report: LinkReport = scene.state.get(&key).unwrap().json().unwrap();
    report.left_worst = std::mem::take(&mut report.worst);
    report.left = std::mem::take(&mut report.bad);
    scene.put(&key, &report);
}

/// As [`live`], with what nodes have left.
fn live_left(scene: &mut Scene, seconds: u32, nodes: u32, left: impl Fn(u32) -> Vec<u32>) {
    for _ in 0..seconds / 5 {
        for from in 1..=nodes {
            put_left(scene, from, &left(from), nodes - 1);
        }
        scene.run();
        scene.wait(5);
        scene.run();
    }
}

#[test]
fn a_node_whose_second_network_is_well_is_told_of_once_and_neither_avoided_nor_isolated() {
    let mut scene = Scene::led(5, 8, 2);
    set(&mut scene, SickPolicy::Isolate);
    let of_five = |from: u32| match from {
        5 => vec![1, 2, 3, 4],
        _ => vec![5],
    };
    let before = holds(&scene, 5);
    live_left(&mut scene, 900, 5, of_five);
    let five = Blame::Node(node(5));
    let left = Network::First;
    assert_eq!(sentences(&scene), vec![(five.clone(), Sentence::Switched { left })]);
    assert_eq!(
        (holds(&scene, 5), scene.machine.networks.resting(scene.now)),
        (before, 0)
    );
    let said = scene.warnings.iter().map(Warning::to_string);
    let said: Vec<String> = said.filter(|text| text.starts_with("sick network: ")).collect();
    assert!(
        said[0].contains("that is network 1: connections go by network 2 meanwhile"),
        "{said:?}"
    );
    let is_avoided = scene.machine.networks.is_avoided(&scene.machine.fleet, store(5));
    assert!(!is_avoided && !is_well(&scene));
    live_left(&mut scene, 200, 5, |_| Vec::new());
    let well = Warning::NetworkWell {
        blame: five,
        left: Some(left),
    };
    assert!(scene.warnings.contains(&well));
    assert_eq!(scene.machine.deadline(), None, "nothing is left to be seen");
}

#[test]
fn a_whole_network_that_everybody_has_left_is_one_event() {
    let mut scene = Scene::led(8, 8, 2);
    set(&mut scene, SickPolicy::Avoid);
    live_left(&mut scene, 900, 8, |from| (1..=8).filter(|to| *to != from).collect());
    let left = Network::First;
    assert_eq!(sentences(&scene), vec![(Blame::Network, Sentence::Switched { left })]);
}

#[test]
fn a_node_that_is_bad_by_both_networks_is_isolated_as_ever() {
    let mut scene = Scene::led(4, 8, 2);
    set(&mut scene, SickPolicy::Isolate);
    for _ in 0..40 {
        for from in 1..=4 {
            let bad: &[u32] = if from == 3 { &[1, 2, 4] } else { &[] };
            put_left(&mut scene, from, bad, 3);
            let key = links_key(node(from));
            let mut report: LinkReport = scene.state.get(&key).unwrap().json().unwrap();
            (report.bad, report.worst) = (report.left, report.left_worst.clone());
            scene.put(&key, &report);
        }
        scene.run();
        scene.wait(5);
        scene.run();
    }
    assert_eq!(holds(&scene, 3), 0);
}
