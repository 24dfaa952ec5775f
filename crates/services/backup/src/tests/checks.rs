//! Checks: what they cost, and what is taken for damage.

use super::damage::{Unreadable, free, prepared, suspect};
use super::*;
use crate::PackName;
use crate::verify::{
    Reading, Report, Stretch, look_round, pack_of_object, read_again, read_journal, read_packs, round_bytes,
};
use std::collections::BTreeSet;
use std::time::Instant;

const ALL: Stretch = Stretch {
    place: None,
    end: None,
    bytes: u64::MAX,
};

fn packs(vault: &Vault) -> Vec<(PackName, String)> {
    let packs = vault.state.packs.keys();
    packs.map(|name| (*name, vault.id().pack(*name))).collect()
}

#[test]
fn points_that_lack_the_same_thing_cost_no_more_than_one() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(192 << 20);
    for leaf in 0..3 {
        image.write(leaf * 16384, leaf + 1);
    }
    let mut last = backup(&mut vault, &image, None, image.all()).unwrap();
    let data = pack_of_object(&vault, &store.names(&vault.id().packs())[0]).unwrap();
    // The leaf that changes lies before the one that lacks something.
    for turn in 0..20 {
        image.write(5, 100 + turn);
        last = backup(&mut vault, &image, Some(last), image.changes([5])).unwrap();
    }
    let counted = Unreadable::of(&store, &[], false);
    vault.store = counted.clone();
    let look = |known: Option<PackName>, behind: Option<u64>| {
        let mut report = Report::default();
        report.packs_lost.extend(known);
        counted.asked.lock().unwrap().clear();
        look_round(&vault, behind, free(&BTreeSet::new()), &mut report).unwrap();
        let asked = counted.asked.lock().unwrap();
        (asked.iter().filter(|name| name.starts_with("packs/")).count(), report)
    };
    let (whole, clean) = look(None, None);
    assert!(clean.is_clean() && clean.points == 21);
    let (lacking, report) = look(Some(data), None);
    assert_eq!(report.points_lost.len(), 21, "{report:?}");
    assert!(lacking <= whole, "{lacking} and {whole}");
    // One that was ended goes on behind the last point.
    let numbers: Vec<u64> = vault.state.points.keys().copied().collect();
    let (_, rest) = look(Some(data), Some(numbers[17]));
    assert!(
        rest.points_lost.keys().eq(&numbers[18..]) && rest.point == Some(last),
        "{rest:?}"
    );
}

#[test]
fn where_long_ones_alone_cannot_be_read_none_is_damaged() {
    let (store, mut vault, _) = prepared();
    let longest = vault.state.packs.values().map(|pack| pack.bytes).max().unwrap();
    let long = |pack: &&(PackName, String)| vault.state.packs[&pack.0].bytes == longest;
    let all = packs(&vault);
    let suspects = suspect(&all.iter().find(long).unwrap().1);
    // They are read in parts: all, or the longest ones.
    for cuts in [1, usize::try_from(longest).unwrap()] {
        let mut cut = Unreadable::of(&store, &[], false);
        Arc::get_mut(&mut cut).unwrap().cuts = cuts;
        vault.store = cut;
        let mut report = Report::default();
        let went = read_packs(&vault, ALL, free(&BTreeSet::new()), &mut report);
        assert!(went.is_round && report.is_clean(), "{cuts}: {went:?}");
        assert_eq!((report.packs, went.unread), (all.len(), 0), "{cuts}");
    }
    // Where even a part is cut it is the store, though two bytes of others can be read.
    let mut cut = Unreadable::of(&store, &[], false);
    let switches = Arc::get_mut(&mut cut).unwrap();
    (switches.cuts, switches.cuts_parts) = (1, 3);
    vault.store = cut;
    let mut report = Report::default();
    let went = read_packs(&vault, ALL, free(&suspects), &mut report);
    assert!(went.failed.is_some() && report.is_clean(), "{went:?}");
    let mut cut = Unreadable::of(&store, &[], false);
    Arc::get_mut(&mut cut).unwrap().cuts = 1;
    vault.store = cut;
    let mut report = Report::default();
    // By what was read in parts damage is seen as well.
    let (name, object) = all.iter().find(long).unwrap();
    let whole = store.get(object).unwrap().unwrap();
    let (shorter, mut longer) = (whole[..whole.len() - 1].to_vec(), whole.clone());
    longer.push(0);
    let mut other = whole.clone();
    other[whole.len() / 2] ^= 1;
    for wrong in [shorter, longer, other] {
        store.with(|objects| objects.get_mut(object).unwrap().0 = wrong);
        let mut report = Report::default();
        assert_eq!(read_again(&vault, &[*name], free(&suspects), &mut report), 1);
        assert_eq!(report.packs_lost, [*name].into(), "{report:?}");
    }
    store.with(|objects| objects.get_mut(object).unwrap().0 = whole);
    // Others are not tried for ever.
    let counted = Unreadable::of(&store, &[], true);
    vault.store = counted.clone();
    let known: Vec<PackName> = all.iter().map(|(name, _)| *name).collect();
    assert_eq!(read_again(&vault, &known, free(&suspects), &mut report), 0);
    assert!(
        counted.asked.lock().unwrap().len() <= 5,
        "one, in both ways, and three others"
    );
    // Where it is to end none is.
    counted.asked.lock().unwrap().clear();
    let suspects = suspect(&all[0].1);
    let over = Reading {
        ends: &|| !counted.asked.lock().unwrap().is_empty(),
        ..free(&suspects)
    };
    let went = read_packs(&vault, ALL, over, &mut report);
    assert!(went.failed.is_some() && report.is_clean(), "{went:?}");
    assert_eq!(counted.asked.lock().unwrap().len(), 1);
}

#[test]
fn of_two_in_a_row_that_cannot_be_read_the_second_one_ends_the_piece() {
    let (store, mut vault, _) = prepared();
    let mut image = Image::new(1 << 20);
    for turn in 0..4 {
        image.write(9, 900 + turn);
        backup(&mut vault, &image, None, image.all()).unwrap();
    }
    let all = packs(&vault);
    assert!(all.len() > 6, "{all:?}");
    let unread = [&*all[1].1, &*all[3].1, &*all[4].1];
    vault.store = Unreadable::of(&store, &unread, false);
    let suspects = suspect(unread[0]);
    let mut report = Report::default();
    let went = read_packs(&vault, ALL, free(&suspects), &mut report);
    assert!(
        matches!(&went.failed, Some(Error::Store { object, .. }) if object == unread[2]),
        "{went:?}"
    );
    assert_eq!(
        report.packs_lost,
        [all[1].0, all[3].0].into(),
        "another one was read before the second"
    );
    // What could not be read is a part of the share, and was not read.
    assert_eq!((report.packs, went.unread), (2, 2));
    assert!(report.bytes < went.bytes && went.bytes < round_bytes(&vault, None));
    // Those that are known end nothing.
    let known = unread.iter().map(|name| (*name).to_owned()).collect();
    let went = read_packs(&vault, ALL, free(&known), &mut Report::default());
    assert!(went.is_round && went.unread == 3, "{went:?}");
    // A missing one was not read, either.
    vault.store = store.clone();
    store.with(|objects| objects.remove(unread[0]));
    let mut report = Report::default();
    assert_eq!(read_packs(&vault, ALL, free(&known), &mut report).unread, 1);
    assert_eq!((report.packs, report.read.len()), (all.len() - 1, all.len() - 1));
    // What is read again is so for a time.
    let over = Reading {
        until: Some(Instant::now()),
        ..free(&known)
    };
    let names: Vec<PackName> = all.iter().map(|(name, _)| *name).collect();
    assert_eq!(read_again(&vault, &names, over, &mut report), 1);
}

#[test]
fn what_answers_when_it_is_asked_once_more_is_not_damaged() {
    let (store, mut vault, _) = prepared();
    let name = packs(&vault)[1].1.clone();
    let once = Unreadable::of(&store, &[name.as_str()], false);
    *once.left.lock().unwrap() = 2;
    vault.store = once;
    let (suspects, mut report) = (suspect(&name), Report::default());
    let went = read_packs(&vault, ALL, free(&suspects), &mut report);
    assert!(went.is_round && report.is_clean(), "{went:?}");
    assert_eq!((report.packs, report.unreadable), (vault.state.packs.len(), 0));
}

#[test]
fn a_key_that_cannot_be_read_keeps_no_other_one_from_opening_the_vault() {
    let (store, vault, _) = prepared();
    let keys = [0, 1, 2, 3].map(|number| vault.id().key(number));
    let slot = store.get(&keys[0]).unwrap().unwrap();
    for key in &keys[1..] {
        store.put(key, &slot, None).unwrap();
    }
    let open = |unread: &[String]| {
        let unread: Vec<&str> = unread.iter().map(String::as_str).collect();
        let store = Unreadable::of(&store, &unread, false);
        Vault::open(store, vault.id(), PASSPHRASE, options())
    };
    let opened = open(&keys[..2]).unwrap();
    let named = |error: &Error, key: &String| matches!(error, Error::Store { object, .. } if object == key);
    let passed_over = opened.passed_over();
    assert!(
        named(&passed_over[0], &keys[0]) && named(&passed_over[1], &keys[1]),
        "{passed_over:?}"
    );
    // Three: it is the store.
    assert!(open(&keys[..3]).is_err_and(|error| named(&error, &keys[0])));
}

#[test]
fn keys_that_cannot_be_read_are_named_and_keep_nothing_else_from_being_looked_at() {
    let (store, mut vault, _) = prepared();
    let keys = [0, 1, 2, 3].map(|number| vault.id().key(number));
    let slot = store.get(&keys[0]).unwrap().unwrap();
    for key in &keys[1..] {
        store.put(key, &slot, None).unwrap();
    }
    vault.store = Unreadable::of(&store, &[keys[1].as_str(), keys[2].as_str()], false);
    let mut report = Report::default();
    look_round(&vault, None, free(&suspect(&keys[1])), &mut report).unwrap();
    assert_eq!((report.unreadable, report.damage.len()), (2, 2), "{report:?}");
    assert_eq!(report.points, vault.state.points.len());
    // That says nothing of a pack: one that fails once is no damage.
    let pack = packs(&vault)[1].1.clone();
    let known = [&keys[1], &keys[2]].map(String::clone).into();
    store.with(|objects| objects.get_mut(&pack).unwrap().0.push(0));
    vault.store = Unreadable::of(&store, &[keys[1].as_str(), keys[2].as_str(), &pack], false);
    let mut report = Report::default();
    let looked = look_round(&vault, None, free(&known), &mut report);
    assert!(
        matches!(&looked, Err(Error::Store { object, .. }) if *object == pack),
        "{looked:?}"
    );
    // And what was found of keys before it ended is told.
    let mut report = Report::default();
    vault.store = Unreadable::of(&store, &[keys[1].as_str(), keys[2].as_str()], false);
    assert!(look_round(&vault, None, free(&suspect(&keys[2])), &mut report).is_err());
    assert!(report.damage.is_empty() && report.unreadable == 0, "{report:?}");
    let broken = store.get(&keys[0]).unwrap().unwrap()[1..].to_vec();
    store.with(|objects| objects.get_mut(&keys[0]).unwrap().0 = broken);
    assert!(look_round(&vault, None, free(&suspect(&keys[2])), &mut report).is_err());
    assert!(report.damage.len() == 1, "{report:?}");
}

#[test]
fn an_entry_is_compared_with_the_one_before_or_it_is_said_that_it_is_not() {
    let (store, mut vault, _) = prepared();
    let entries = store.names(&vault.id().journals());
    let last = vault.head().number;
    // The one before the place cannot be read: that is no link that holds, and keeps nothing behind it from being read.
    vault.store = Unreadable::of(&store, &[&entries[2]], false);
    let mut report = Report::default();
    let went = read_journal(&vault, 3, free(&BTreeSet::new()), &mut report);
    assert!(went.is_end && went.unlinked == [4].into(), "{went:?}");
    assert!(report.is_clean(), "it was said when it was its turn: {report:?}");
    // Where nothing answers it is not known.
    vault.store = Unreadable::of(&store, &[], true);
    let went = read_journal(&vault, 3, free(&BTreeSet::new()), &mut report);
    assert!(went.failed.is_some() && went.place == 3, "{went:?}");
    // Nor is one that is damaged.
    vault.store = store.clone();
    store.with(|objects| objects.get_mut(&entries[1]).unwrap().0[60] ^= 1);
    let went = read_journal(&vault, 0, free(&BTreeSet::new()), &mut report);
    assert!(
        went.is_end && went.unlinked == [3].into() && went.place == last,
        "{went:?}"
    );
}
