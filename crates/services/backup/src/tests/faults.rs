//! Stores that fail, and processes that end at any call: what was published comes back, and the rest can be done again.

use super::*;
use crate::prune;
use crate::store::StoreError;
use crate::store::memory::{Faults, Faulty};
use crate::verify::{Scope, verify};

/// What is there before: three points, of which the first two were given up.
struct Before {
    store: Arc<Memory>,
    vault: Vault,
    point: u64,
    image: Image,
}

fn before() -> Before {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(1 << 20);
    let mut points = Vec::new();
    for turn in 0..3_u64 {
        for number in turn * 8..turn * 8 + 12 {
            image.write(number, 100 * turn + number + 1);
        }
        let changes = image.changes(turn * 8..turn * 8 + 12);
        points.push(backup(&mut vault, &image, points.last().copied(), changes).unwrap());
    }
    vault.forget(&points[..2]).unwrap();
    Before {
        store,
        vault,
        point: points[2],
        image,
    }
}

/// One step of work; the points that it is sure to have made.
fn backed_up(vault: &mut Vault, from: u64, image: &Image) -> Result<u64, Error> {
    backup(vault, image, Some(from), image.changes(0..20))
}

fn later(image: &Image) -> Image {
    let mut image = image.clone();
    for number in 0..20 {
        image.write(number, 7000 + number);
    }
    image
}

/// Some work; the point that it has made.
type Step<'a> = &'a dyn Fn(&mut Vault, &Before) -> Result<Option<u64>, Error>;

/// Does work on a store that ends at each of its calls, done or not done; then all is looked at, and the work done again.
fn at_each_call(work: Step, made: &dyn Fn(&Image) -> Image) -> usize {
    let mut crashes = 0;
    for crash_at in 0.. {
        let mut done = 0;
        for crash_after in [false, true] {
            let before = before();
            let faults = Faults {
                crash_at: Some(crash_at),
                crash_after,
                ..Faults::default()
            };
            let faulty = Faulty::new(before.store.clone(), faults, 1);
            let mut vault = before.vault.again(before.store.clone()).unwrap();
            vault.store = faulty.clone();
            let answer = work(&mut vault, &before);
            let ended = faulty.calls() <= crash_at;
            assert_eq!(answer.is_ok(), ended, "call {crash_at}: {answer:?}");
            done += usize::from(ended);
            crashes += usize::from(!ended);
            // Another process, on the store as it was left.
            let mut vault = before.vault.again(before.store.clone()).unwrap();
            let image = made(&before.image);
            let all = |vault: &Vault| {
                for point in vault.state().points().keys().copied().collect::<Vec<_>>() {
                    let whose = if point == before.point { &before.image } else { &image };
                    check(vault, point, whose);
                }
            };
            assert!(vault.state().points().contains_key(&before.point));
            if let Ok(Some(point)) = answer {
                assert!(vault.state().points().contains_key(&point));
            }
            all(&vault);
            assert!(verify(&vault, Scope::Whole).unwrap().is_clean());
            for session in vault.state().sessions().keys().copied().collect::<Vec<_>>() {
                vault.fence(session).unwrap();
            }
            work(&mut vault, &before).unwrap();
            prune::run(&mut vault).unwrap();
            prune::run(&mut vault).unwrap();
            let vault = before.vault.again(before.store.clone()).unwrap();
            all(&vault);
            assert!(verify(&vault, Scope::Whole).unwrap().is_clean());
            // Nothing is left over.
            assert_eq!(vault.state().packs().0, before.store.names("packs/").len());
            assert_eq!(vault.state().waiting(), (0, 0, 0));
        }
        if done == 2 {
            break;
        }
    }
    crashes
}

#[test]
fn a_backup_may_end_at_any_call() {
    let work = |vault: &mut Vault, before: &Before| backed_up(vault, before.point, &later(&before.image)).map(Some);
    let crashes = at_each_call(&work, &later);
    assert!(crashes > 12, "{crashes}");
}

#[test]
fn a_pruning_may_end_at_any_call() {
    let work = |vault: &mut Vault, _: &Before| prune::run(vault).map(|_| None);
    let crashes = at_each_call(&work, &Image::clone);
    assert!(crashes > 20, "{crashes}");
}

#[test]
fn a_check_may_end_at_any_call() {
    let work = |vault: &mut Vault, _: &Before| {
        let session = vault.begin("a check")?;
        let report = verify(session.vault(), Scope::Whole)?;
        assert!(report.is_clean(), "a store that is away is no damage: {report:?}");
        session.end()?;
        Ok(None)
    };
    let crashes = at_each_call(&work, &Image::clone);
    assert!(crashes > 20, "{crashes}");
}

/// Backups and prunings by two processes over a store that loses, delays and repeats puts, does not answer, and lists what was.
fn over_a_bad_store(seed: u64, switches: Switches) -> Result<usize, String> {
    let memory = Arc::new(Memory::default());
    let good = new_vault(&memory);
    let faults = Faults {
        lost: 8,
        late: 8,
        repeated: 10,
        unread: 4,
        stale: 50,
        ..Faults::default()
    };
    let faulty = Faulty::new(memory.clone(), faults, seed);
    let mut random = Random::new(seed).fork(1);
    let mut vaults = [good.again(memory.clone()).unwrap(), good.again(memory.clone()).unwrap()];
    for vault in &mut vaults {
        vault.store = faulty.clone();
        vault.state.switches = switches;
    }
    let mut known: BTreeMap<u64, Image> = BTreeMap::new();
    let mut failed = 0;
    for turn in 0..30_u64 {
        let vault = random.pick(&[0, 1]);
        let vault = &mut vaults[*vault];
        if random.percent(25) {
            // A process that begins anew.
            match vault.again(memory.clone()) {
                Ok(fresh) => *vault = fresh,
                Err(error) => return Err(format!("it does not open: {error}")),
            }
            vault.store = faulty.clone();
            vault.state.switches = switches;
        }
        let parent = {
            let points: Vec<u64> = vault
                .state()
                .points()
                .keys()
                .copied()
                .filter(|point| known.contains_key(point))
                .collect();
            points.last().copied()
        };
        let done: Result<(), Error> = match random.below(4) {
            0 => prune::run(vault).map(drop),
            1 => {
                let some = vault.state().points().keys().copied().filter(|_| random.percent(30));
                let some: Vec<u64> = some.collect();
                let dead: Vec<_> = vault.state().sessions().keys().copied().collect();
                let fenced = dead.into_iter().try_for_each(|session| vault.fence(session));
                fenced.and_then(|()| vault.forget(&some))
            }
            _ => {
                let mut image = parent.map_or(Image::new(1 << 20), |parent| known[&parent].clone());
                let changed: Vec<u64> = (0..random.within(1, 20)).map(|_| random.below(256)).collect();
                for block in &changed {
                    image.write(*block, turn * 1000 + block + 1);
                }
                let made = backup(vault, &image, parent, image.changes(changed));
                if let Ok(point) = &made {
                    known.insert(*point, image);
                }
                made.map(drop)
            }
        };
        match done {
            Err(error) if error.is_damage() => return Err(format!("seed {seed}, turn {turn}: {error}")),
            done => failed += usize::from(done.is_err()),
        }
        if turn % 5 != 4 {
            continue;
        }
        // As if everything had ended here.
        let now = good
            .again(memory.clone())
            .map_err(|error| format!("seed {seed}, turn {turn}: {error}"))?;
        for point in now.state().points().keys() {
            match known.get(point) {
                Some(image) => {
                    differs(&now, *point, image).map_err(|why| format!("seed {seed}, turn {turn}: {why}"))?
                }
                // Published by a put that was not answered: it is whole, whatever it is.
                None => drop(restore(&now, *point).map_err(|error| format!("seed {seed}, turn {turn}: {error}"))?),
            }
        }
    }
    faulty.settle();
    let mut last = good.again(memory.clone()).map_err(|error| error.to_string())?;
    let dead: Vec<_> = last.state().sessions().keys().copied().collect();
    dead.into_iter()
        .try_for_each(|session| last.fence(session))
        .map_err(|error| error.to_string())?;
    for _ in 0..2 {
        prune::run(&mut last).map_err(|error| format!("seed {seed}, at the end: {error}"))?;
    }
    let report = verify(&last, Scope::Whole).map_err(|error| error.to_string())?;
    if !report.is_clean() || last.state().packs().0 != memory.names("packs/").len() {
        return Err(format!("seed {seed}, at the end: {report:?}"));
    }
    Ok(failed)
}

#[test]
fn a_store_that_fails_in_all_ways_of_the_contract_loses_nothing() {
    let mut failed = 0;
    for seed in 0..40 {
        failed += over_a_bad_store(seed, Switches::default()).unwrap_or_else(|why| panic!("{why}"));
    }
    assert!(failed > 20, "only {failed} works failed");
}

#[test]
fn a_put_that_is_taken_for_ones_own_unseen_is_found() {
    let switches = Switches {
        takes_what_is_there_for_its_own: true,
        ..Switches::default()
    };
    assert!((0..40).any(|seed| over_a_bad_store(seed, switches).is_err()));
}

#[test]
fn a_full_target_is_said_and_harms_nothing() {
    let Before {
        store,
        vault,
        point,
        image,
    } = before();
    let after = later(&image);
    for full_at in 0.. {
        let store = store.copy();
        let faults = Faults {
            full_at: Some(full_at),
            ..Faults::default()
        };
        let faulty = Faulty::new(store.clone(), faults, 1);
        let mut writer = vault.again(store.clone()).unwrap();
        writer.store = faulty.clone();
        match backed_up(&mut writer, point, &after) {
            Err(Error::Store {
                source: StoreError::Full,
                object,
                ..
            }) => {
                assert!(object.contains(&vault.id().to_string()));
            }
            Ok(_) if faulty.puts() <= full_at => return assert!(full_at > 3, "{full_at}"),
            other => panic!("{other:?}"),
        }
        let mut opened = vault.again(store.clone()).unwrap();
        check(&opened, point, &image);
        // There is room again.
        let made = backed_up(&mut opened, point, &after).unwrap();
        check(&opened, made, &after);
    }
}

#[test]
fn a_session_that_could_not_put_a_pack_makes_no_point() {
    let Before {
        store, vault, image, ..
    } = before();
    let after = later(&image);
    let mut writer = vault.again(store.clone()).unwrap();
    let faults = Faults {
        full_at: Some(0),
        ..Faults::default()
    };
    let full = Faulty::new(store.clone(), faults, 1);
    let mut session = writer.begin("full for a moment").unwrap();
    let made = session
        .backup(&volume(1, &after, None), &mut stream(after.all()))
        .unwrap();
    let good = std::mem::replace(&mut session.vault.store, full);
    assert!(matches!(
        session.publish("one", 0, vec![made.clone()]),
        Err(Error::Store { .. })
    ));
    // There is room again; what was in the pack is nowhere.
    session.vault.store = good;
    assert!(matches!(session.publish("one", 0, vec![made]), Err(Error::Broken)));
    session.end().unwrap();
}

#[test]
fn what_was_put_before_a_pack_that_could_not_be_is_told_of() {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut image = Image::new(1 << 20);
    (0..15).for_each(|number| image.write(number * 2, number + 1));
    let mut session = vault.begin("full for a moment").unwrap();
    let made = session
        .backup(&volume(1, &image, None), &mut stream(image.all()))
        .unwrap();
    let put = store.names("packs/").len();
    assert!(put == 1 && session.vault.state.packs().0 == 0, "{put}");
    let faults = Faults {
        full_at: Some(0),
        ..Faults::default()
    };
    let good = std::mem::replace(&mut session.vault.store, Faulty::new(store.clone(), faults, 1));
    assert!(session.publish("one", 0, vec![made]).is_err());
    session.vault.store = good;
    assert!(matches!(session.flush(), Err(Error::Broken)));
    assert_eq!(session.vault.state.packs().0, put);
    session.end().unwrap();
}

#[test]
fn half_an_object_which_no_store_may_leave_is_named_and_never_restored() {
    let Before {
        store,
        vault,
        point,
        image,
    } = before();
    let after = later(&image);
    for torn_at in 0.. {
        let store = store.copy();
        let faults = Faults {
            torn_at: Some(torn_at),
            ..Faults::default()
        };
        let faulty = Faulty::new(store.clone(), faults, 1);
        let mut writer = vault.again(store.clone()).unwrap();
        writer.store = faulty.clone();
        let made = backed_up(&mut writer, point, &after);
        if faulty.puts() <= torn_at {
            assert!(made.is_ok());
            return assert!(torn_at > 3, "{torn_at}");
        }
        let error = made.unwrap_err();
        assert!(error.is_damage(), "{torn_at}: {error}");
        match vault.again(store) {
            // An entry: nothing behind it can be known.
            Err(error) => assert!(error.is_damage()),
            Ok(opened) => check(&opened, point, &image),
        }
    }
}
