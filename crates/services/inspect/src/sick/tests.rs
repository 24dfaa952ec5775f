//! Levels, what stays of what was known, and what is decided.

use super::*;
use crate::check::tests::planted::{all, disk, health, past_errors, sata, worn};
use crate::check::tests::{AT, GIB, facts};
use amita_control::admin::{DrainOutlook, Outlook};

/// The store of the first node.
const STORE: StoreId = StoreId(1 << 64 | 7);

fn found(facts: &Facts) -> Option<Seen> {
    look(facts).remove(&STORE).expect("it was looked at").seen
}

/// All that nothing hinders.
fn free(_: StoreId, _: usize, _: bool) -> Deed {
    Deed::Free
}

fn puts<'a>(steps: &'a [Step]) -> Vec<(&'a SickDisk, Option<&'a str>)> {
    let put = |step: &'a Step| match step {
        Step::Put(disk, draft) => Some((&**disk, draft.as_ref().map(|draft| draft.kind.name()))),
        Step::Delete(..) => None,
    };
    steps.iter().filter_map(put).collect()
}

/// What is written, as it is known at the next look.
fn known(steps: &[Step]) -> BTreeMap<StoreId, SickDisk> {
    let all = puts(steps).into_iter();
    all.map(|(disk, _)| (disk.store, disk.clone())).collect()
}

/// All nodes have read their disks at that time.
fn read_at(facts: &mut Facts, at: u64) {
    for inventory in facts.inventories.values_mut() {
        if let crate::inventory::Known::Is(inventory) = inventory {
            inventory.taken_at = at;
        }
    }
}

#[test]
fn levels_follow_from_what_is_found() {
    let facts_now = facts();
    assert_eq!(found(&facts_now), None);
    type Case = (DiskLevel, &'static str, fn(&mut Facts));
    let cases: [Case; 12] = [
        (DiskLevel::Avoid, "disk-warns", |facts| health(facts).warnings = 0b100),
        (DiskLevel::Avoid, "disk-worn", |facts| worn(facts, 100, 50_000)),
        (DiskLevel::Warn, "disk-worn", |facts| worn(facts, 85, 50_000)),
        (DiskLevel::Warn, "disk-wears-out", |facts| worn(facts, 50, 2400)),
        (DiskLevel::Avoid, "disk-spare-low", |facts| {
            health(facts).spare_percent = 9
        }),
        (DiskLevel::Warn, "disk-media-errors", |facts| {
            health(facts).media_errors = 1
        }),
        (DiskLevel::Warn, "disk-bad-sectors", |facts| {
            sata(facts).pending = Some(1)
        }),
        (DiskLevel::Avoid, "disk-predicts-failure", |facts| {
            sata(facts).failing = Some(true)
        }),
        (DiskLevel::Avoid, "disk-errors-grow", |facts| {
            past_errors(facts, [0, 4, 4, 4]);
            sata(facts).uncorrectable = Some(9);
        }),
        (DiskLevel::Warn, "disk-errors-grow", |facts| {
            past_errors(facts, [0, 1, 1, 1]);
            sata(facts).uncorrectable = Some(2);
        }),
        (DiskLevel::Warn, "disk-errors-grow", |facts| {
            past_errors(facts, [0, 9, 0, 9]);
            sata(facts).uncorrectable = Some(30);
        }),
        (DiskLevel::Warn, "disk-errors-grow", |facts| {
            past_errors(facts, [1, 1, 1, 1]);
            sata(facts).uncorrectable = Some(2);
        }),
    ];
    for (level, code, plant) in cases {
        let mut facts = facts();
        plant(&mut facts);
        let seen = found(&facts).unwrap_or_else(|| panic!("{code}"));
        assert_eq!((seen.level, seen.codes), (level, BTreeSet::from([code])));
        assert!(seen.evidence.len() > 10, "{code}");
    }
    let none: [fn(&mut Facts); 5] = [
        |facts| (health(facts).spare_percent, health(facts).spare_least_percent) = (0, 0),
        |facts| health(facts).temperature_c = 90,
        |facts| health(facts).warnings = 0b10,
        |facts| sata(facts).reallocated = Some(3),
        |facts| sata(facts).link_errors = Some(5000),
    ];
    for plant in none {
        let mut facts = facts();
        plant(&mut facts);
        assert_eq!(found(&facts), None, "heat, and what is of the link, is not the disk's");
    }
}

/// One busy hour is no sickness: it takes others, and the disk's own past, to say that it is the disk.
#[test]
fn a_disk_is_slow_where_it_is_slower_than_others_and_than_before() {
    let slow = |past: u64| {
        let mut facts = facts();
        let own = disk(&mut facts);
        if let crate::inventory::Known::Is(latency) = &mut own.latency {
            latency.read_p99_us = 9000;
        }
        own.samples
            .iter_mut()
            .for_each(|sample| sample.read_p99_us = Some(past));
        found(&facts)
    };
    assert_eq!(slow(8000), None, "it always was so");
    let seen = slow(280).expect("it is slow");
    let codes = BTreeSet::from(["disk-slower-than-before", "disk-slower-than-siblings"]);
    assert_eq!((seen.level, seen.codes), (DiskLevel::Warn, codes));
}

/// A finding of a disk is about its store, whichever fault it is, and about no other.
#[test]
fn what_is_found_of_a_disk_is_about_its_own_store() {
    for (code, _, place, plant) in all().filter(|(_, _, place, _)| place.starts_with("disk n1/")) {
        let mut facts = facts();
        plant(&mut facts);
        let others = look(&facts).into_iter().filter(|(store, _)| *store != STORE);
        for (store, looked) in others {
            assert_eq!(looked.seen, None, "{code:?} at {place}: {store}");
        }
    }
    let looked = look(&facts()).remove(&STORE).expect("a store");
    assert_eq!(looked.disk, "nvme1n1, Example D7 S0001");
    assert_eq!(looked.checks, BTreeSet::from(["disks", "latency", "wear"]));
}

#[test]
fn an_incident_is_told_once_and_again_when_it_is_worse_or_decided_otherwise() {
    let mut facts = facts();
    worn(&mut facts, 85, 50_000);
    let first = steps(&facts, &BTreeMap::new(), &mut free);
    let told = puts(&first);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0.level, told[0].1), (DiskLevel::Warn, Some("disk-aging")));
    assert_eq!(told[0].0.decision, "", "there is nothing to decide");
    assert_eq!(steps(&facts, &known(&first), &mut free), [], "nothing is new");

    worn(&mut facts, 100, 50_000);
    let second = steps(&facts, &known(&first), &mut free);
    let told = puts(&second);
    assert_eq!((told[0].0.level, told[0].1), (DiskLevel::Avoid, Some("disk-failing")));
    assert!(
        told[0].0.decision.contains("--sick-disks drain"),
        "{}",
        told[0].0.decision
    );
    assert_eq!(told[0].0.since, known(&first)[&STORE].since);
    let Step::Put(_, Some(draft)) = &second[0] else {
        panic!("{second:?}")
    };
    assert!(
        draft.text.contains(&format!("`amita disk drain {STORE}`")),
        "{}",
        draft.text
    );
    assert!(draft.text.contains("100 % of its life"), "{}", draft.text);
    assert_eq!(steps(&facts, &known(&second), &mut free), []);

    let mut hindered = |_: StoreId, _: usize, _: bool| Deed::Hindered("the others are full".to_owned());
    let third = steps(&facts, &known(&second), &mut hindered);
    assert_eq!(puts(&third)[0].1, Some("disk-decided"));
    assert_eq!(steps(&facts, &known(&third), &mut hindered), []);

    // Figures alone are written now and then, and told to nobody.
    worn(&mut facts, 101, 50_000);
    assert_eq!(steps(&facts, &known(&third), &mut hindered), []);
    facts.at += 3600;
    let later = steps(&facts, &known(&third), &mut hindered);
    assert_eq!(puts(&later)[0].1, None);
    assert!(puts(&later)[0].0.evidence.contains("101 %"));
}

#[test]
fn what_is_gone_for_a_day_is_well_and_what_nobody_tells_is_not() {
    let mut sick = facts();
    worn(&mut sick, 100, 50_000);
    let before = known(&steps(&sick, &BTreeMap::new(), &mut free));

    let mut silent = facts();
    silent.status.nodes[0].alive = false;
    assert_eq!(steps(&silent, &before, &mut free), [], "silence is no health");
    let mut blind = facts();
    disk(&mut blind).device = crate::inventory::Known::NotKnown("it could not be read".to_owned());
    blind.at += 30 * 24 * 3600;
    for inventory in blind.inventories.values_mut() {
        if let crate::inventory::Known::Is(inventory) = inventory {
            inventory.taken_at = blind.at;
        }
    }
    assert_eq!(
        steps(&blind, &before, &mut free),
        [],
        "nor is a disk that was not asked"
    );

    let mut well = facts();
    let waits = steps(&well, &before, &mut free);
    let (disk, event) = puts(&waits)[0];
    assert_eq!(
        (disk.level, disk.better_since, event),
        (DiskLevel::Avoid, Some(AT), None)
    );
    let mut slow = well.clone();
    slow.at -= 2 * 24 * 3600;
    let told = known(&steps(&slow, &before, &mut free));
    assert_eq!(
        steps(&well, &told, &mut free),
        [],
        "a coordinator whose clock was two days slow has seen it, and no day is over"
    );
    let again = known(&waits);
    well.at += 24 * 3600;
    for inventory in well.inventories.values_mut() {
        if let crate::inventory::Known::Is(inventory) = inventory {
            inventory.taken_at = well.at;
        }
    }
    let ended = steps(&well, &again, &mut free);
    let [Step::Delete(STORE, Some(draft))] = &ended[..] else {
        panic!("{ended:?}")
    };
    assert_eq!(draft.kind, Kind::DiskWell);
    // It came back meanwhile.
    let back = steps(&sick, &again, &mut free);
    assert_eq!(puts(&back)[0].0.better_since, None);
}

#[test]
fn what_is_not_to_be_told_goes_and_so_does_what_is_about_no_store() {
    let mut facts = facts();
    worn(&mut facts, 100, 50_000);
    let before = known(&steps(&facts, &BTreeMap::new(), &mut free));
    let mut off = facts.clone();
    off.recovery.sick_disks = SickDisks::Off;
    assert_eq!(steps(&off, &before, &mut free), [Step::Delete(STORE, None)]);
    assert_eq!(steps(&off, &BTreeMap::new(), &mut free), []);
    facts.status.stores.retain(|own| own.store.id != STORE);
    assert_eq!(steps(&facts, &before, &mut free), [Step::Delete(STORE, None)]);
}

#[test]
fn it_is_drained_once_where_that_is_wanted_and_an_operator_may_end_it() {
    let mut facts = facts();
    worn(&mut facts, 100, 50_000);
    let mut asked = Vec::new();
    steps(&facts, &BTreeMap::new(), &mut |store, failing, drain| {
        asked.push((store, failing, drain));
        Deed::Free
    });
    assert_eq!(asked, [(STORE, 1, false)], "it is only proposed");
    facts.recovery.sick_disks = SickDisks::Drain;
    let mut not_yet = |_: StoreId, _: usize, drain: bool| {
        assert!(!drain, "it was read once");
        Deed::Free
    };
    let first = steps(&facts, &BTreeMap::new(), &mut not_yet);
    let (disk, event) = puts(&first)[0];
    assert_eq!(
        (disk.level, event, disk.failing_since),
        (DiskLevel::Avoid, Some("disk-failing"), Some(AT))
    );
    assert!(disk.decision.contains("ten minutes apart"), "{}", disk.decision);
    // However often the coordinator looks, it is the same reading.
    facts.at += 3000;
    assert_eq!(steps(&facts, &known(&first), &mut not_yet), []);
    read_at(&mut facts, AT + 599);
    assert_eq!(steps(&facts, &known(&first), &mut not_yet), []);
    read_at(&mut facts, AT + 600);
    let drained = steps(&facts, &known(&first), &mut |_, _, drain| {
        assert!(drain);
        Deed::Drained
    });
    let (disk, event) = puts(&drained)[0];
    assert_eq!((disk.level, event), (DiskLevel::Isolate, Some("disk-decided")));
    assert_eq!(
        (disk.drained_at, disk.decision.as_str()),
        (Some(AT + 3060), "The cluster drains it.")
    );
    let before = known(&drained);
    let mut never = |_: StoreId, _: usize, _: bool| -> Deed { panic!("it is drained already") };
    let own = |facts: &mut Facts, duty| {
        let found = facts.status.stores.iter_mut().find(|own| own.store.id == STORE);
        found.expect("a store").store.duty = duty;
    };
    own(&mut facts, StoreDuty::Draining);
    assert_eq!(steps(&facts, &before, &mut never), []);
    own(&mut facts, StoreDuty::Normal);
    let undone = steps(&facts, &before, &mut never);
    let (disk, event) = puts(&undone)[0];
    assert_eq!((disk.level, event), (DiskLevel::Avoid, Some("disk-decided")));
    assert!(disk.decision.contains("was ended"), "{}", disk.decision);
    // One that an operator drains needs no decision.
    facts.recovery.sick_disks = SickDisks::Propose;
    own(&mut facts, StoreDuty::Draining);
    let theirs = steps(&facts, &BTreeMap::new(), &mut never);
    assert_eq!(puts(&theirs)[0].0.level, DiskLevel::Isolate);
}

fn by_ann() -> amita_types::map::Paused {
    amita_types::map::Paused {
        by: "ann".to_owned(),
        at: AT,
    }
}

#[test]
fn a_drain_that_is_paused_is_not_said_to_go_on() {
    let mut facts = facts();
    worn(&mut facts, 100, 50_000);
    let before = known(&steps(&facts, &BTreeMap::new(), &mut free));
    let own = &mut facts.status.stores[0].store;
    assert_eq!(own.id, STORE);
    own.duty = StoreDuty::Draining;
    own.paused = Some(by_ann());
    let mut never = |_: StoreId, _: usize, _: bool| -> Deed { panic!("it is drained already") };
    let paused = known(&steps(&facts, &before, &mut never));
    let decision = &paused[&STORE].decision;
    assert!(
        decision.contains("Its drain is paused") && decision.contains(&format!("drain-{STORE}")),
        "{decision}"
    );
    facts.status.stores[0].store.paused = None;
    let goes_on = known(&steps(&facts, &paused, &mut never));
    assert_eq!(goes_on[&STORE].decision, "It is being drained, or has been.");
}

/// One that says so for a moment, is well, and says so again begins anew; while it says nothing bad it is not drained.
#[test]
fn a_disk_that_was_better_meanwhile_is_not_drained_at_once() {
    let mut sick = facts();
    worn(&mut sick, 100, 50_000);
    sick.recovery.sick_disks = SickDisks::Drain;
    let mut not_yet = |_: StoreId, _: usize, drain: bool| {
        assert!(!drain);
        Deed::Free
    };
    let first = known(&steps(&sick, &BTreeMap::new(), &mut not_yet));
    let mut well = facts();
    well.recovery.sick_disks = SickDisks::Drain;
    read_at(&mut well, AT + 700);
    let better = known(&steps(&well, &first, &mut not_yet));
    assert!(better[&STORE].better_since.is_some());
    read_at(&mut sick, AT + 1400);
    let again = known(&steps(&sick, &better, &mut not_yet));
    assert_eq!(again[&STORE].failing_since, Some(AT + 1400));
}

#[test]
fn each_hindrance_has_its_words() {
    let none = Ok(DrainOutlook::default());
    assert_eq!(hindrance(&facts(), STORE, 1, &none), None);
    type Case = (&'static str, usize, fn(&mut Facts));
    let cases: [Case; 7] = [
        ("no such store", 1, |facts| {
            facts.status.stores.retain(|own| own.store.id != STORE)
        }),
        ("does not serve it", 1, |facts| facts.status.stores[0].alive = false),
        ("more than one in 4", 2, |_| {}),
        ("one is at a time", 1, |facts| {
            facts.status.stores[3].store.duty = StoreDuty::Draining
        }),
        ("more than 85 % full", 1, |facts| {
            for own in &mut facts.status.stores {
                own.space.as_mut().expect("a space").free_bytes = 20 * GIB;
            }
        }),
        ("is not known", 1, |facts| facts.status.stores[2].space = None),
        ("is not known", 1, |facts| facts.status.stores[0].space = None),
    ];
    for (words, failing, plant) in cases {
        let mut facts = facts();
        plant(&mut facts);
        let why = hindrance(&facts, STORE, failing, &none).unwrap_or_else(|| panic!("{words}"));
        assert!(why.contains(words), "{words}: {why}");
    }
    let mut facts_now = facts();
    for (own, paused) in facts_now.status.stores[2..].iter_mut().zip([false, true]) {
        own.store.duty = StoreDuty::Draining;
        own.store.paused = paused.then(by_ann);
    }
    let why = hindrance(&facts_now, STORE, 1, &none).expect("a drain");
    let id = facts_now.status.stores[3].store.id;
    let words = format!("the drain of store {id} is paused");
    assert!(
        why.contains(&words) && why.contains(&format!("`amita job resume drain-{id}`")),
        "{why}"
    );
    let unmet = Ok(DrainOutlook {
        all: Outlook { moves: 0, unmet: 3 },
        ..DrainOutlook::default()
    });
    let why = hindrance(&facts(), STORE, 1, &unmet).expect("the rule");
    assert!(why.contains("the rule of a pool"), "{why}");
    let unknown = Err("the metadata is away".to_owned());
    let why = hindrance(&facts(), STORE, 1, &unknown).expect("nobody knows");
    assert!(why.contains("the metadata is away"), "{why}");
}

/// All stores together have room enough, and the one that must take the copies has not.
#[test]
fn a_drain_that_fills_one_store_is_hindered_though_the_others_are_empty() {
    let gains = |millionths: u64| {
        let other = StoreId(2 << 64 | 7);
        Ok(DrainOutlook {
            gains: BTreeMap::from([(other, millionths)]),
            ..DrainOutlook::default()
        })
    };
    let mut facts = facts();
    for own in &mut facts.status.stores[..2] {
        own.space.as_mut().expect("a space").free_bytes = 26 * GIB;
    }
    let why = hindrance(&facts, STORE, 1, &gains(1_000_000)).expect("60 % and 60 %");
    let words = format!(
        "store {}, which gets copies of it, could be more than 85 % full",
        StoreId(2 << 64 | 7)
    );
    assert!(why.contains(&words), "{why}");
    assert_eq!(hindrance(&facts, STORE, 1, &gains(300_000)), None, "60 % and 18 %");
    let unknown = Ok(DrainOutlook {
        gains: BTreeMap::from([(StoreId(99), 1)]),
        ..DrainOutlook::default()
    });
    let why = hindrance(&facts, STORE, 1, &unknown).expect("nobody knows that store");
    assert!(why.contains("is not known"), "{why}");
}
