//! Whoever asks for something may want it to end, or want it no more; and what is lost is known before anything is built on it.

use super::*;
use crate::prune;
use crate::store::Retention;
use crate::verify::{Scope, verify};
use std::cell::{Cell, RefCell};

/// A vault of whose points only the last one is kept: there are packs of which little is needed.
fn sparse(points: u64) -> (Arc<Memory>, Vault) {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let (mut image, mut random) = (Image::new(4 << 20), Random::new(5));
    let mut made = Vec::new();
    for turn in 0..points {
        let blocks: Vec<u64> = (0..20).map(|_| 2 * random.below(200)).collect();
        for (number, block) in (1..).zip(&blocks) {
            image.write(*block, 1000 * turn + number);
        }
        let changes = image.changes(blocks);
        made.push(backup(&mut vault, &image, made.last().copied(), changes).unwrap());
    }
    made.pop();
    vault.forget(&made).unwrap();
    (store, vault)
}

#[test]
fn locking_ends_where_it_is_told_to() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(1 << 20);
    image.write(0, 1);
    backup(&mut vault, &image, None, image.all()).unwrap();
    let asked = Cell::new(0);
    let ends = || {
        asked.set(asked.get() + 1);
        asked.get() > 4
    };
    assert!(matches!(vault.retain(Retention(5000), &ends), Err(Error::Ended)));
    let locked = store.with(|objects| objects.values().filter(|(_, until)| until.0 == 5000).count());
    let all = store.names("").len();
    assert!(locked < all && locked <= 4, "{locked} of {all}");
    vault.retain(Retention(5000), &|| false).unwrap();
}

#[test]
fn a_pruning_ends_at_any_place_where_it_is_told_to_and_is_gone_on_with() {
    let alone = {
        let (_, mut vault) = sparse(30);
        let asked = Cell::new(0_usize);
        let counts = || {
            asked.set(asked.get() + 1);
            false
        };
        let pruned = prune::run_as(&mut vault, "a policy", &counts).unwrap();
        assert!(pruned.rewritten > 1 && pruned.collected.deleted > 1, "{pruned:?}");
        asked.get()
    };
    assert!(alone > 20, "{alone}");
    for most in (0..alone).step_by(3) {
        let (store, mut vault) = sparse(30);
        let asked = Cell::new(0);
        let ends = || {
            asked.set(asked.get() + 1);
            asked.get() > most
        };
        let ended = prune::run_as(&mut vault, "a policy", &ends);
        assert!(matches!(ended, Err(Error::Ended)), "{most}: {ended:?}");
        assert!(vault.state().sessions().is_empty(), "{most}: its session is over");
        prune::run(&mut vault).unwrap();
        prune::run(&mut vault).unwrap();
        assert_eq!(store.names("packs/").len(), vault.state().packs().0, "{most}");
        assert!(verify(&vault, Scope::Whole).unwrap().is_clean(), "{most}");
    }
}

#[test]
fn the_session_of_a_pruning_is_called_as_whoever_prunes_says() {
    let (store, mut vault) = sparse(30);
    let watcher = vault.again(store.clone()).unwrap();
    let seen = RefCell::new(Vec::new());
    let ends = || {
        let now = watcher.again(store.clone()).unwrap();
        let labels = now.state().sessions().values().map(|open| open.label.clone());
        seen.borrow_mut().extend(labels);
        false
    };
    vault.work_at("here");
    prune::run_as(&mut vault, "backup policy a/1 of cluster 9", &ends).unwrap();
    let mut seen = seen.into_inner();
    seen.dedup();
    assert_eq!(seen, ["backup policy a/1 of cluster 9 at here"]);
}

#[test]
fn points_are_given_up_only_as_long_as_they_are_meant() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(1 << 20);
    image.write(0, 1);
    let points: Vec<u64> = (0..3)
        .map(|_| backup(&mut vault, &image, None, image.all()).unwrap())
        .collect();
    let other = RefCell::new(vault.again(store.clone()).unwrap());
    let unwanted = || Error::Unwanted(io::Error::other("not any more"));
    // Between the answer and the entry another one gives a point up: it is asked once more, of what is there then.
    let asked = RefCell::new(Vec::new());
    let guard = |state: &crate::State| {
        let there = state.points().len();
        asked.borrow_mut().push(there);
        match there {
            3 => other.borrow_mut().forget(&points[1..2]),
            _ => Err(unwanted()),
        }
    };
    let refused = vault.forget_if(&points[..1], &guard).unwrap_err();
    assert!(matches!(refused, Error::Unwanted(_)), "{refused}");
    assert_eq!(*asked.borrow(), [3, 2]);
    assert!(vault.state().points().contains_key(&points[0]));
    vault.forget_if(&points[..1], &|_| Ok(())).unwrap();
    assert_eq!(vault.state().points().len(), 1);
}

#[test]
fn a_checkpoint_is_put_where_many_entries_stand_behind_the_last() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut session = vault.begin("long").unwrap();
    (0..20).for_each(|_| session.alive().unwrap());
    session.end().unwrap();
    assert!(!vault.checkpoint_behind(22).unwrap());
    assert!(vault.checkpoint_behind(21).unwrap());
    assert!(!vault.checkpoint_behind(0).unwrap(), "nothing stands behind it");
    let mut again = vault.again(store.clone()).unwrap();
    assert!(!again.checkpoint_behind(0).unwrap(), "it is known where it is read");
    for _ in 0..3 {
        again.begin("short").unwrap().end().unwrap();
        assert!(again.checkpoint_behind(1).unwrap());
    }
    assert_eq!(store.names("states/").len(), 2, "old ones go");
    assert_eq!(again.state(), again.again(store.clone()).unwrap().state());
}

#[test]
fn a_point_that_needs_what_is_lost_is_known_before_anything_is_counted_from_it() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(4 << 20);
    (0..8).for_each(|number| image.write(number, number + 1));
    let first = backup(&mut vault, &image, None, image.all()).unwrap();
    let is_lost = |vault: &Vault, point| vault.is_lost(point, &identity(1), &|| false).unwrap();
    assert!(!is_lost(&vault, first));
    let packs: Vec<_> = vault.state().packs.keys().copied().collect();
    vault.give_up(&packs).unwrap();
    assert!(is_lost(&vault, first));
    assert!(matches!(
        vault.is_lost(first, &identity(1), &|| true),
        Err(Error::Ended)
    ));
    // What is counted from it needs that, too; what is read whole does not.
    image.write(100, 7);
    let counted = backup(&mut vault, &image, Some(first), image.changes([100])).unwrap();
    assert!(is_lost(&vault, counted));
    let whole = backup(&mut vault, &image, None, image.all()).unwrap();
    assert!(!is_lost(&vault, whole));
    check(&vault, whole, &image);
    assert!(matches!(
        vault.is_lost(first, &identity(2), &|| false),
        Err(Error::NoVolume { .. })
    ));
    assert!(matches!(
        vault.is_lost(9999, &identity(1), &|| false),
        Err(Error::NoPoint(9999))
    ));
}

#[test]
fn a_session_that_was_fenced_ends_and_did_not_hold() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut other = vault.again(store.clone()).unwrap();
    vault.begin("it holds").unwrap().end_held().unwrap();
    for _ in 0..2 {
        let session = vault.begin("it is taken for dead").unwrap();
        let id = session.id();
        other.refresh().unwrap();
        other.fence(id).unwrap();
        assert!(matches!(
            session.end_held(),
            Err(Error::Refused(crate::Refusal::Over(over))) if over == id
        ));
    }
    let session = vault.begin("nobody minds").unwrap();
    other.refresh().unwrap();
    other.fence(session.id()).unwrap();
    session.end().unwrap();
}
