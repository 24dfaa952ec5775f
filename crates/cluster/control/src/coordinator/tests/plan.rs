//! Who should hold groups.

use super::*;
use amita_types::map::{Node, StoreDuty};
use amita_types::placement::{Candidate, Level, plan_pool};

const COPIES: u8 = 3;

/// Nodes with a store each; a pool of three copies whose groups are placed on the first `used` of them.
pub(super) fn planned(nodes: u32, used: u32, groups: u32) -> Scene {
    let mut scene = Scene::new(nodes, groups, 2);
    scene.machine.config.planning = true;
    let mut pool: Pool = scene.state.get(&map::pool_key("p")).unwrap().json().unwrap();
    pool.kind = PoolKind::Replicated {
        copies: COPIES,
        min_copies: 2,
    };
    scene.put(&map::pool_key("p"), &pool);
    let candidates: Vec<Candidate> = (1..=used)
        .map(|number| Candidate::new(&scene.store_record(number), None))
        .collect();
    let plan = plan_pool(POOL, groups, &candidates, 3, Level::Node).unwrap();
    for (index, members) in plan.into_iter().enumerate() {
        let mut group = scene.group(index as u32);
        group.in_sync.clone_from(&members);
        group.members = members;
        scene.put_group(&group);
    }
    scene.make_volume(1);
    scene.raise(1);
    scene.read_all();
    scene.elect();
    scene
}

impl Scene {
    fn store_record(&self, number: u32) -> Store {
        self.state.get(&map::store_key(store(number))).unwrap().json().unwrap()
    }

    fn change_store(&mut self, number: u32, change: impl FnOnce(&mut Store)) {
        let mut record = self.store_record(number);
        change(&mut record);
        self.put(&map::store_key(record.id), &record);
    }

    fn maintain(&mut self, number: u32, maintenance: bool) {
        let name = format!("n{number}");
        let record = Node {
            metrics: None,
            api: None,
            id: node(number),
            name: name.clone(),
            fabric: String::new(),
            fabric2: None,
            nbd: None,
            nbd_socket: None,
            nvme: None,
            cores: 1,
            site: String::new(),
            rack: String::new(),
            maintenance,
            client: false,
            gateway: false,
            unprotected: false,
        };
        self.put(&map::node_key(&name), &record);
    }

    /// Lets so many seconds pass while owners do their work; nothing may ever stand below its copies.
    fn live(&mut self, seconds: u32, least: usize) {
        for _ in 0..seconds {
            self.run();
            for group in self.groups() {
                assert!(group.in_sync.len() >= least, "{group:?}");
            }
            self.claim(1, |_| true);
            self.run();
            self.wait(1);
        }
        self.run();
    }

    fn named(&self, number: u32) -> usize {
        let own = store(number);
        let names = |group: &Group| {
            group.members.contains(&own) || group.in_sync.contains(&own) || group.syncing.iter().any(|m| m.store == own)
        };
        self.groups().iter().filter(|group| names(group)).count()
    }

    fn assert_whole(&self) {
        for group in self.groups() {
            let set = |stores: &[StoreId]| stores.iter().copied().collect::<BTreeSet<_>>();
            assert_eq!(set(&group.in_sync), set(&group.members));
            assert_eq!((group.members.len(), group.syncing.len()), (3, 0), "{group:?}");
        }
    }
}

#[test]
fn a_new_store_gets_its_share_and_nobody_stands_below_its_copies() {
    let mut scene = planned(5, 4, 64);
    let before = scene.groups();
    scene.run();
    scene.wait(4);
    assert!(scene.calls.is_empty(), "changes are gathered for a moment");
    scene.wait(1);
    scene.run();
    assert!(
        scene
            .groups()
            .iter()
            .zip(&before)
            .all(|(new, old)| new.members == old.members || !new.syncing.is_empty() || new.epoch == old.epoch),
        "another desire is no new epoch"
    );
    scene.live(60, 3);
    scene.assert_whole();
    let due = 64 * 3 / 5;
    assert_eq!(scene.named(5), due);
    let moved: usize = scene
        .groups()
        .iter()
        .zip(&before)
        .map(|(new, old)| new.members.iter().filter(|own| !old.members.contains(own)).count())
        .sum();
    assert_eq!(moved, due, "nothing else moves");
    assert_eq!(scene.machine.deadline(), None);
}

#[test]
fn a_store_that_is_away_is_waited_for_and_then_replaced() {
    let mut scene = planned(5, 5, 32);
    scene.live(10, 3);
    scene.assert_whole();
    let held = scene.named(2);
    scene.die(node(2));
    scene.live(300, 2);
    let members = |scene: &Scene| {
        scene
            .groups()
            .iter()
            .filter(|own| own.members.contains(&store(2)))
            .count()
    };
    assert_eq!(members(&scene), held, "it may come back");
    scene.live(400, 2);
    assert_eq!(scene.named(2), 0);
    scene.assert_whole();
    // It comes back: it is a store like another.
    scene.rise(node(2));
    scene.live(60, 3);
    scene.assert_whole();
    assert!(scene.named(2) >= 32 * 3 / 5 * 8 / 10);
}

#[test]
fn in_maintenance_nobody_is_replaced() {
    let mut scene = planned(5, 5, 32);
    scene.maintain(2, true);
    scene.live(10, 3);
    let held = scene.named(2);
    assert!(held > 0, "its stores keep what they have");
    scene.die(node(2));
    scene.live(700, 2);
    assert_eq!(
        scene
            .groups()
            .iter()
            .filter(|own| own.members.contains(&store(2)))
            .count(),
        held
    );
    // The operator forgets about it: it has been away long enough.
    scene.maintain(2, false);
    scene.live(60, 2);
    assert_eq!(scene.named(2), 0);
    scene.assert_whole();
}

#[test]
fn a_drain_moves_everything_and_says_when_it_is_done() {
    let mut scene = planned(5, 5, 32);
    scene.live(10, 3);
    assert!(scene.named(3) > 0);
    scene.change_store(3, |record| record.duty = StoreDuty::Draining);
    scene.live(60, 3);
    assert_eq!(scene.named(3), 0);
    scene.assert_whole();
    let begun = Warning::DrainBegun { store: store(3) };
    assert_eq!(scene.warnings.iter().filter(|own| **own == begun).count(), 1);
    let drained = Warning::Drained { store: store(3) };
    assert_eq!(scene.warnings.iter().filter(|own| **own == drained).count(), 1);
    scene.change_store(3, |record| record.duty = StoreDuty::Normal);
    scene.live(60, 3);
    assert!(scene.named(3) > 0, "it is used again");
}

#[test]
fn a_drain_that_is_paused_begins_with_nothing_while_all_copies_are_there() {
    let mut scene = planned(5, 5, 32);
    scene.live(10, 3);
    let of_three = |scene: &Scene| {
        let own = |group: &&Group| group.in_sync.contains(&store(3));
        scene.groups().iter().filter(own).count()
    };
    let held = of_three(&scene);
    scene.change_store(3, |record| {
        record.duty = StoreDuty::Draining;
        record.paused = Some(map::Paused {
            by: "operator ann".to_owned(),
            at: 5,
        });
    });
    scene.live(60, 3);
    assert_eq!(
        (scene.named(3), of_three(&scene)),
        (held, held),
        "it holds what it held"
    );
    assert!(scene.groups().iter().all(|group| group.syncing.is_empty()));
    // What lacks a copy gets one all the same.
    scene.die(node(2));
    scene.live(700, 2);
    for group in scene.groups() {
        assert!(
            !group.in_sync.contains(&store(2)) && group.in_sync.len() >= 3,
            "{group:?}"
        );
    }
    scene.change_store(3, |record| record.paused = None);
    scene.live(60, 3);
    assert_eq!(scene.named(3), 0);
    scene.assert_whole();
}

/// A drain that is paused holds back no other one, also in the groups that are on both stores.
#[test]
fn a_drain_that_is_paused_does_not_hold_back_that_of_another_store() {
    let mut scene = planned(6, 6, 32);
    scene.live(10, 3);
    scene.change_store(3, |record| {
        record.duty = StoreDuty::Draining;
        record.paused = Some(map::Paused {
            by: "operator ann".to_owned(),
            at: 5,
        });
    });
    scene.live(30, 3);
    let both = |group: &Group| group.in_sync.contains(&store(2)) && group.in_sync.contains(&store(3));
    assert!(scene.groups().iter().any(both), "some are on both");
    scene.change_store(2, |record| record.duty = StoreDuty::Draining);
    scene.live(120, 3);
    assert_eq!(scene.named(2), 0);
    assert!(scene.named(3) > 0, "it stands still");
}

#[test]
fn a_rule_that_cannot_be_met_stands_as_a_warning() {
    let mut scene = planned(3, 3, 16);
    scene.change_store(3, |record| record.duty = StoreDuty::Draining);
    scene.live(30, 3);
    assert_eq!(scene.named(3), 16, "there is nowhere to go");
    let unmet = |scene: &Scene| {
        let is = |own: &&Warning| {
            matches!(
                own,
                Warning::RuleUnmet {
                    groups: 16,
                    copies: 3,
                    ..
                }
            )
        };
        scene.warnings.iter().filter(is).count()
    };
    assert_eq!(unmet(&scene), 1, "said once");
    assert!(
        scene
            .machine
            .out
            .standing
            .iter()
            .any(|own| matches!(own, Warning::RuleUnmet { .. })),
        "and it stands"
    );
    // Another store comes: the drain goes on by itself.
    scene.spare(4);
    scene.live(60, 3);
    assert_eq!((scene.named(3), scene.named(4)), (0, 16));
    scene.assert_whole();
    assert!(
        !scene
            .machine
            .out
            .standing
            .iter()
            .any(|own| matches!(own, Warning::RuleUnmet { .. }))
    );
}

#[test]
fn a_class_keeps_a_pool_on_its_stores() {
    let mut scene = planned(6, 6, 32);
    for number in 1..=3 {
        scene.change_store(number, |record| record.class = "nvme".to_owned());
    }
    let mut pool: Pool = scene.state.get(&map::pool_key("p")).unwrap().json().unwrap();
    pool.class = Some("nvme".to_owned());
    scene.put(&map::pool_key("p"), &pool);
    scene.live(120, 3);
    scene.assert_whole();
    assert_eq!([4, 5, 6].map(|number| scene.named(number)), [0, 0, 0]);
}

/// More groups are to be placed than transactions may be under way at once, and their pool is deleted.
#[test]
fn a_pool_that_goes_while_its_groups_wait_to_be_placed_is_forgotten() {
    let mut scene = planned(4, 4, 512);
    scene.change_store(1, |store| store.duty = StoreDuty::Draining);
    scene.tell(usize::MAX);
    scene.wait(5);
    assert_eq!(scene.calls.len(), 4);
    let delete = Op::Delete {
        key: map::pool_key("p"),
    };
    let call = Call {
        then: vec![delete],
        ..Call::default()
    };
    scene.state.txn(&call).unwrap();
    scene.run();
    assert!(scene.named(1) > 0, "those that waited stay where they are");
}
