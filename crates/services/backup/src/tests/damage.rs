//! A damaged or missing object of each kind is named, and nothing of it is handed out.

use super::*;
use crate::PackName;
use crate::VaultId;
use crate::journal::Head;
use crate::prune;
use crate::store::{Listed, Put, Retention, StoreError};
use crate::verify::{
    Reading, Report, Scope, Stretch, Went, entry_of_object, last_pack, look_round, pack_of_object, read_again,
    read_journal, read_packs, round_bytes, verify,
};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

/// Two points, a checkpoint, all kinds of objects.
pub(super) fn prepared() -> (Arc<Memory>, Vault, Vec<(u64, Image)>) {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(1 << 20);
    for number in 0..30 {
        image.write(number, number + 1);
    }
    let first = backup(&mut vault, &image, None, image.all()).unwrap();
    let mut points = vec![(first, image.clone())];
    vault.checkpoint().unwrap();
    image.write(3, 500);
    let second = backup(&mut vault, &image, Some(first), image.changes([3])).unwrap();
    points.push((second, image));
    (store, vault, points)
}

fn reopen(store: &Arc<Memory>, id: VaultId) -> Result<Vault, Error> {
    Vault::open(store.clone(), id, PASSPHRASE, options())
}

/// Opens and restores: either a point is right, or an error names an object. Returns the errors.
fn look(store: &Arc<Memory>, id: VaultId, points: &[(u64, Image)]) -> Vec<Error> {
    let vault = match reopen(store, id) {
        Ok(vault) => vault,
        Err(error) => return vec![error],
    };
    let mut errors = Vec::new();
    for (point, image) in points {
        match restore(&vault, *point) {
            Ok(_) => check(&vault, *point, image),
            Err(error) => errors.push(error),
        }
    }
    errors
}

#[test]
fn any_changed_byte_and_any_missing_object_is_named() {
    let (store, vault, points) = prepared();
    let names = store.names("");
    for kind in ["keys/", "journal/", "packs/", "states/"] {
        assert!(names.iter().any(|name| name.starts_with(kind)), "{kind}");
    }
    for name in &names {
        let bytes = store.get(name).unwrap().unwrap();
        let mut random = Random::new(bytes.len() as u64);
        let mut places: Vec<usize> = (0..50)
            .chain(bytes.len() - 20..bytes.len())
            .filter(|at| *at < bytes.len())
            .collect();
        places.extend((0..40).map(|_| random.below(bytes.len() as u64) as usize));
        let mut others: Vec<Option<Vec<u8>>> = vec![None, Some(Vec::new()), Some(bytes[..bytes.len() / 2].to_vec())];
        others.push(Some([&bytes[..], b"x"].concat()));
        others.extend(places.into_iter().map(|at| {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << random.below(8);
            Some(changed)
        }));
        for other in others {
            let broken = store.copy();
            broken.with(|objects| match &other {
                Some(bytes) => drop(objects.insert(name.clone(), (bytes.clone(), crate::store::Retention(0)))),
                None => drop(objects.remove(name)),
            });
            let what = || format!("{name} with {:?} bytes", other.as_ref().map(Vec::len));
            let errors = look(&broken, vault.id(), &points);
            for error in &errors {
                let said = error.to_string();
                let named = said.contains(name) || matches!(error, Error::NoVault { .. });
                assert!(named, "{}: {said}", what());
            }
            if name.starts_with("keys/") {
                assert_eq!(errors.len(), 1, "{}", what());
                continue;
            }
            let found = match reopen(&broken, vault.id()) {
                Err(_) => true,
                Ok(opened) if !opened.passed_over().is_empty() => name.starts_with("states/"),
                Ok(opened) => {
                    let report = verify(&opened, Scope::Whole).unwrap();
                    let named = report.damage.iter().any(|error| error.to_string().contains(name));
                    // A checkpoint that is missing is no damage.
                    // That the last entry is gone is seen by who remembers it.
                    named || name.starts_with("states/") || opened.check_head(vault.head()).is_err()
                }
            };
            assert!(found, "{} goes unnoticed", what());
        }
    }
}

#[test]
fn an_object_under_another_name_or_of_another_vault_is_named() {
    let (store, vault, points) = prepared();
    let mut other = new_vault(&store);
    let mut image = Image::new(1 << 20);
    image.write(1, 1);
    backup(&mut other, &image, None, image.all()).unwrap();
    let (ours, theirs) = (vault.id().packs(), other.id().packs());
    let put = |broken: &Arc<Memory>, name: &str, bytes: Vec<u8>| {
        broken.with(|objects| objects.insert(name.to_owned(), (bytes, crate::store::Retention(0))));
    };
    for (prefix, from) in [
        (&ours, &ours),
        (&ours, &theirs),
        (&vault.id().journals(), &other.id().journals()),
    ] {
        let target = store.names(prefix).pop().unwrap();
        let source = store.names(from).remove(0);
        let broken = store.copy();
        put(&broken, &target, store.get(&source).unwrap().unwrap());
        let errors = look(&broken, vault.id(), &points);
        assert!(
            !errors.is_empty() && errors.iter().all(|error| error.to_string().contains(&target)),
            "{errors:?}"
        );
    }
    // A key of another vault, and a later format.
    let key = store
        .names("keys/")
        .into_iter()
        .find(|name| name.contains(&vault.id().to_string()))
        .unwrap();
    let theirs = store.names("keys/").into_iter().find(|name| *name != key).unwrap();
    let broken = store.copy();
    put(&broken, &key, store.get(&theirs).unwrap().unwrap());
    assert!(matches!(reopen(&broken, vault.id()), Err(Error::Damaged { object, .. }) if object == key));
    let entry = store.names(&vault.id().journals()).pop().unwrap();
    let mut bytes = store.get(&entry).unwrap().unwrap();
    bytes[7] = b'2';
    let broken = store.copy();
    put(&broken, &entry, bytes);
    assert!(matches!(reopen(&broken, vault.id()), Err(Error::NewerFormat { object, version: '2' }) if object == entry));
}

#[test]
fn a_journal_that_was_set_back_is_seen_by_who_remembers_its_head() {
    let (store, vault, _) = prepared();
    let head = vault.head();
    let opened = reopen(&store, vault.id()).unwrap();
    opened.check_head(head).unwrap();
    opened
        .check_head(Head {
            number: 0,
            hash: [0; 32],
        })
        .unwrap();
    let last = store.names(&vault.id().journals()).pop().unwrap();
    store.with(|objects| objects.remove(&last));
    // By itself a shorter journal is a good one.
    let mut opened = reopen(&store, vault.id()).unwrap();
    assert!(matches!(opened.check_head(head), Err(Error::Replaced { .. })));
    // And another entry in its place is another one.
    opened.begin("another").unwrap().end().unwrap();
    assert!(matches!(opened.check_head(head), Err(Error::Replaced { .. })));
}

#[test]
fn a_gap_is_no_end() {
    let (store, vault, points) = prepared();
    for (switched_off, fresh) in [(false, false), (false, true), (true, true)] {
        let broken = store.copy();
        let entries = broken.names(&vault.id().journals());
        let gap = entries[entries.len() - 2].clone();
        broken.with(|objects| {
            objects.remove(&gap);
            if fresh {
                objects.retain(|name, _| !name.starts_with("states/"));
            }
        });
        let mut blind = vault.again(store.clone()).unwrap();
        blind.state.switches.takes_a_gap_for_the_end = switched_off;
        match blind.again(broken.clone()) {
            Err(Error::Missing { object }) => assert!(!switched_off && object == gap),
            Err(error) => panic!("{error}"),
            // The rule is needed: the last point is gone without a word.
            Ok(opened) => assert!(switched_off && !opened.state().points().contains_key(&points[1].0)),
        }
    }
}

#[test]
fn another_copy_is_read_and_a_lost_pack_is_put_again() {
    let (store, mut vault, points) = prepared();
    let point = points[1].0;
    // The pack of the first point's data goes.
    let lost = *vault.state.packs.keys().next().unwrap();
    let object = vault.id().pack(lost);
    store.with(|objects| objects.remove(&object));
    assert!(restore(&vault, point).unwrap_err().to_string().contains(&object));
    let report = verify(&vault, Scope::Whole).unwrap();
    assert!(
        report.packs_lost == [lost].into() && report.points_lost.len() == 2,
        "{report:?}"
    );
    let sampled = Scope::Sampled { per_mille: 0, seed: 1 };
    let report = verify(&vault, sampled).unwrap();
    assert!(
        report.packs == 0 && report.packs_lost == [lost].into(),
        "what is missing is seen without reading"
    );
    // Without being told, a session builds on it.
    let mut session = vault.begin("all, again").unwrap();
    publish(&mut session, &points[0].1, None, points[0].1.all()).unwrap();
    assert_eq!(session.sent().pieces, 0);
    session.end().unwrap();
    vault.give_up(&[lost]).unwrap();
    let mut session = vault.begin("all, again").unwrap();
    let whole = publish(&mut session, &points[0].1, None, points[0].1.all()).unwrap();
    assert!(session.sent().pieces > 0);
    session.end().unwrap();
    // The old points have their pieces again.
    let again = vault.again(store).unwrap();
    for (point, image) in &points {
        check(&again, *point, image);
    }
    check(&again, whole, &points[0].1);
}

#[test]
fn a_sample_that_comes_upon_a_damaged_tree_has_its_pack_given_up() {
    let (store, mut vault, points) = prepared();
    // The pack with the last point's branch and leaf: it has its length still.
    let object = store.names(&vault.id().packs()).pop().unwrap();
    store.with(|objects| objects.get_mut(&object).unwrap().0[60] ^= 1);
    let report = verify(&vault, Scope::Sampled { per_mille: 0, seed: 1 }).unwrap();
    assert!(report.points_lost.contains_key(&points[1].0), "{report:?}");
    let lost: Vec<_> = report.packs_lost.into_iter().collect();
    assert_eq!(lost.len(), 1);
    assert_eq!(vault.id().pack(lost[0]), object);
    // So what the volume has puts it again.
    vault.give_up(&lost).unwrap();
    let mut session = vault.begin("all, again").unwrap();
    let again = publish(&mut session, &points[1].1, None, points[1].1.all()).unwrap();
    session.end().unwrap();
    check(&vault, again, &points[1].1);
}

#[test]
fn what_is_damaged_is_not_pruned_and_not_read_as_zeros() {
    let (store, mut vault, points) = prepared();
    // The pack with the last point's branch and leaf.
    let object = store.names(&vault.id().packs()).pop().unwrap();
    store.with(|objects| objects.remove(&object));
    let objects = store.names("");
    vault.forget(&[points[0].0]).unwrap();
    assert!(prune::run(&mut vault).unwrap_err().to_string().contains(&object));
    assert!(objects.iter().all(|name| store.names("").contains(name)));
    // The point that is damaged is given up: the rest is pruned.
    vault.forget(&[points[1].0]).unwrap();
    prune::run(&mut vault).unwrap();

    // What the rule is for.
    let (store, mut vault, points) = prepared();
    let data = vault.id().pack(*vault.state.packs.keys().next().unwrap());
    store.with(|objects| objects.remove(&data));
    assert!(restore(&vault, points[0].0).is_err());
    vault.state.switches.reads_what_is_missing_as_zeros = true;
    let silent = differs(&vault, points[0].0, &points[0].1).unwrap_err();
    assert!(silent.ends_with("has other bytes"), "{silent}");
}

/// From behind `place` on, so many bytes.
fn read(vault: &Vault, place: Option<PackName>, bytes: u64, report: &mut Report) -> Went {
    let stretch = Stretch {
        place,
        bytes,
        ..Stretch::default()
    };
    read_packs(vault, stretch, free(&BTreeSet::new()), report)
}

/// With these suspects, to its end.
pub(super) fn free(suspects: &BTreeSet<String>) -> Reading<'_> {
    Reading {
        suspects,
        ends: &|| false,
        until: None,
    }
}

pub(super) fn suspect(object: &str) -> BTreeSet<String> {
    BTreeSet::from([object.to_owned()])
}

#[test]
fn a_round_reads_every_pack_once_and_goes_on_where_it_was() {
    let (store, mut vault, _) = prepared();
    let all = vault.state().packs();
    assert!(all.0 >= 3 && round_bytes(&vault, None) == all.1, "{all:?}");
    let mut report = Report::default();
    let (mut place, mut times, mut bytes) = (None, 0, 0);
    loop {
        let went = read(&vault, place, 1, &mut report);
        (place, times, bytes) = (went.place, times + 1, bytes + went.bytes);
        if went.is_round {
            break;
        }
    }
    assert_eq!((times, report.packs, bytes, place), (all.0, all.0, all.1, None));
    // Nothing is read when it ends at once, and it stays where it was.
    let one = read(&vault, None, 1, &mut report).place;
    let stretch = Stretch {
        place: one,
        bytes: 1,
        ..Stretch::default()
    };
    let none = BTreeSet::new();
    let over = Reading {
        ends: &|| true,
        ..free(&none)
    };
    let ended = read_packs(&vault, stretch, over, &mut report);
    assert_eq!((ended.place, ended.bytes, ended.is_round), (one, 0, false));
    // A pack that is gone is no place to be lost at.
    let last = store.names(&vault.id().packs()).pop().unwrap();
    let behind = pack_of_object(&vault, &last);
    assert!(read(&vault, behind, 1, &mut report).is_round);
    let mut image = Image::new(1 << 20);
    image.write(9, 900);
    backup(&mut vault, &image, None, image.all()).unwrap();
    let went = read(&vault, behind, u64::MAX, &mut report);
    assert!(went.is_round && went.bytes > 0);
    // What was put since a round was begun is the next one's, however fast it comes.
    assert!(round_bytes(&vault, behind) == all.1 && last_pack(&vault) > behind);
    for (place, bytes) in [(None, all.1), (behind, 0), (last_pack(&vault), 0)] {
        let stretch = Stretch {
            place,
            end: behind,
            bytes: u64::MAX,
        };
        let went = read_packs(&vault, stretch, free(&none), &mut report);
        assert_eq!(
            (went.is_round, went.bytes, went.place),
            (true, bytes, None),
            "{place:?}"
        );
    }
    assert!(report.is_clean());
}

#[test]
fn damage_is_found_by_its_turn_and_is_gone_when_it_is_mended() {
    let (store, vault, points) = prepared();
    let name = store.names(&vault.id().packs()).remove(0);
    let bytes = store.get(&name).unwrap().unwrap();
    let put = |bytes: Vec<u8>| store.with(|objects| objects.insert(name.clone(), (bytes, crate::store::Retention(0))));
    let mut changed = bytes.clone();
    let at = changed.len() / 2;
    changed[at] ^= 1;
    put(changed);
    let pack = pack_of_object(&vault, &name).unwrap();
    // It has its length: what is asked of all does not tell, and what reads it does.
    let mut report = Report::default();
    look_round(&vault, None, free(&BTreeSet::new()), &mut report).unwrap();
    let seen_by_trees = report.points_lost.len();
    let mut report = Report::default();
    read(&vault, None, 1, &mut report);
    assert!(
        report.packs_lost.contains(&pack) && report.damage[0].to_string().contains(&name),
        "{report:?}"
    );
    look_round(&vault, None, free(&BTreeSet::new()), &mut report).unwrap();
    assert!(
        report.points_lost.len() >= seen_by_trees && !report.points_lost.is_empty(),
        "{report:?}"
    );
    assert!(points.iter().any(|(point, _)| report.points_lost.contains_key(point)));
    let mut again = Report::default();
    read_again(&vault, &[pack], free(&BTreeSet::new()), &mut again);
    assert!(again.packs_lost.contains(&pack));
    put(bytes);
    let mut again = Report::default();
    read_again(&vault, &[pack], free(&BTreeSet::new()), &mut again);
    look_round(&vault, None, free(&BTreeSet::new()), &mut again).unwrap();
    assert!(again.is_clean(), "{again:?}");
    // A missing one is found without being read.
    store.with(|objects| objects.remove(&name));
    look_round(&vault, None, free(&BTreeSet::new()), &mut again).unwrap();
    assert!(
        again.packs_lost.contains(&pack) && matches!(again.damage[0], Error::Missing { .. }),
        "{again:?}"
    );
    // It ends where it is told to, before each page of the listing, each pack and each part of a tree.
    let asked = std::cell::Cell::new(0);
    let count = |most: usize| {
        asked.set(0);
        let ends = || {
            asked.set(asked.get() + 1);
            asked.get() > most
        };
        let none = BTreeSet::new();
        let reading = Reading {
            ends: &ends,
            ..free(&none)
        };
        look_round(&vault, None, reading, &mut Report::default())
    };
    count(usize::MAX).unwrap();
    let all = asked.get();
    assert!(all > 2 + vault.state.packs.len(), "{all}");
    for most in 0..all {
        assert!(matches!(count(most), Err(Error::Ended)), "{most}");
    }
}

/// A store of which some objects cannot be read.
pub(super) struct Unreadable {
    under: Arc<Memory>,
    names: BTreeSet<String>,
    /// None can.
    all: bool,
    /// Objects of so many bytes, and longer ones, cannot be read whole.
    pub cuts: usize,
    /// Parts of so many bytes, and longer ones, cannot be read.
    pub cuts_parts: usize,
    /// So often none of them can be read; then all can.
    pub left: Mutex<usize>,
    /// What was asked for.
    pub asked: Mutex<Vec<String>>,
}

impl Unreadable {
    pub fn of(under: &Arc<Memory>, names: &[&str], all: bool) -> Arc<Unreadable> {
        Arc::new(Unreadable {
            under: under.clone(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            all,
            cuts: usize::MAX,
            cuts_parts: usize::MAX,
            left: Mutex::new(usize::MAX),
            asked: Mutex::default(),
        })
    }

    fn asked(&self, name: &str) -> Result<(), StoreError> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut left = self.left.lock().unwrap();
        match *left > 0 && (self.all || self.names.contains(name)) {
            true => {
                *left -= 1;
                Err(StoreError::Unknown("Input/output error".to_owned()))
            }
            false => Ok(()),
        }
    }
}

impl ObjectStore for Unreadable {
    fn put(&self, name: &str, bytes: &[u8], retain: Option<Retention>) -> Result<Put, StoreError> {
        self.under.put(name, bytes, retain)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.asked(name)?;
        match self.under.get(name)? {
            Some(bytes) if bytes.len() >= self.cuts => Err(StoreError::Unknown("it was cut".to_owned())),
            found => Ok(found),
        }
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.asked(name)?;
        match self.under.get_range(name, offset, length)? {
            Some(bytes) if bytes.len() >= self.cuts_parts => Err(StoreError::Unknown("it was cut".to_owned())),
            found => Ok(found),
        }
    }

    fn list(&self, prefix: &str, after: &str, most: usize) -> Result<Vec<Listed>, StoreError> {
        self.under.list(prefix, after, most)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.under.delete(name)
    }

    fn retain(&self, name: &str, until: Retention) -> Result<(), StoreError> {
        self.under.retain(name, until)
    }
}

#[test]
fn one_pack_that_cannot_be_read_is_passed_over_when_it_cannot_twice_and_others_can() {
    let (store, mut vault, points) = prepared();
    let packs: Vec<PackName> = vault.state.packs.keys().copied().collect();
    let name = vault.id().pack(packs[1]);
    vault.store = Unreadable::of(&store, &[&name], false);
    let stretch = Stretch {
        bytes: u64::MAX,
        ..Stretch::default()
    };
    // What was read before it counts, and it is no damage yet.
    let mut report = Report::default();
    let went = read_packs(&vault, stretch, free(&BTreeSet::new()), &mut report);
    assert_eq!((went.place, went.is_round, report.packs), (Some(packs[0]), false, 1));
    assert!(matches!(&went.failed, Some(Error::Store { object, .. }) if *object == name));
    assert!(report.is_clean() && went.bytes == report.bytes && report.read == packs[..1]);
    // The next time it is, and the rest is read.
    let again = Stretch {
        place: went.place,
        ..stretch
    };
    let mut report = Report::default();
    let went = read_packs(&vault, again, free(&suspect(&name)), &mut report);
    assert!(went.is_round && went.failed.is_none(), "{went:?}");
    assert!(
        report.packs_lost == [packs[1]].into() && report.read == packs[2..],
        "{report:?}"
    );
    assert!(report.damage[0].to_string().contains(&name), "{report:?}");
    // It stays as it is where it cannot be read still, and others are read again all the same.
    let mut report = Report::default();
    read_again(&vault, &packs[..3], free(&BTreeSet::new()), &mut report);
    assert!(report.is_clean() && report.read == [packs[0], packs[2]], "{report:?}");
    // Where nothing can be read it is the store.
    vault.store = Unreadable::of(&store, &[], true);
    let went = read_packs(&vault, again, free(&suspect(&name)), &mut report);
    assert!(went.failed.is_some() && report.is_clean(), "{went:?}");
    let mut report = Report::default();
    read_again(&vault, &packs, free(&BTreeSet::new()), &mut report);
    assert!(report.is_clean() && report.read.is_empty(), "{report:?}");
    // Trees that need it are told of as not whole, where it is known, or was so the time before.
    let trees = vault.id().pack(packs[packs.len() - 1]);
    vault.store = Unreadable::of(&store, &[&trees], false);
    let mut report = Report::default();
    assert!(matches!(
        look_round(&vault, None, free(&BTreeSet::new()), &mut report),
        Err(Error::Store { object, .. }) if object == trees
    ));
    for known in [false, true] {
        let mut report = Report::default();
        report.packs_lost.extend(known.then_some(packs[packs.len() - 1]));
        let suspects = match known {
            true => BTreeSet::new(),
            false => suspect(&trees),
        };
        look_round(&vault, None, free(&suspects), &mut report).unwrap();
        assert!(report.points_lost.contains_key(&points[1].0), "{report:?}");
    }
}

#[test]
fn the_journal_is_read_in_pieces_as_it_is_at_once() {
    let (store, mut vault, _) = prepared();
    let entries = store.names(&vault.id().journals());
    let last = vault.head().number;
    assert!(
        last >= 6 && entry_of_object(&vault, &entries[2]) == Some(3),
        "{entries:?}"
    );
    // One is changed, one is missing, and one cannot be read.
    store.with(|objects| {
        objects.get_mut(&entries[1]).unwrap().0[60] ^= 1;
        objects.remove(&entries[3]);
    });
    vault.store = Unreadable::of(&store, &[&entries[4]], false);
    let suspects = suspect(&entries[4]);
    let mut at_once = Report::default();
    let went = read_journal(&vault, 0, free(&suspects), &mut at_once);
    assert!(
        went.is_end && went.place == last && at_once.damage.len() == 3,
        "{at_once:?}"
    );
    let (mut in_pieces, mut place, mut pieces) = (Report::default(), 0, 0);
    loop {
        let reading = Reading {
            until: Some(Instant::now()),
            ..free(&suspects)
        };
        let went = read_journal(&vault, place, reading, &mut in_pieces);
        assert!(went.place > place, "{went:?}");
        (place, pieces) = (went.place, pieces + 1);
        if went.is_end {
            break;
        }
    }
    let told = |report: &Report| report.damage.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!((told(&in_pieces), pieces), (told(&at_once), last));
    // Nobody has seen before that it cannot be read.
    let mut first = Report::default();
    let went = read_journal(&vault, 0, free(&BTreeSet::new()), &mut first);
    assert!(
        (went.place, went.is_end, first.damage.len()) == (4, false, 2),
        "{went:?}"
    );
    assert!(matches!(&went.failed, Some(Error::Store { object, .. }) if *object == entries[4]));
}
