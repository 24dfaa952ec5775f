//! Two processes whose calls of the store come in every order with few changes between them, and histories that each rule is for.

use super::*;
use crate::prune;
use crate::store::{Listed, Put, Retention, StoreError};
use crate::verify::{Scope, verify};
use std::sync::{Condvar, Mutex, OnceLock};

/// Whose turn it is: a list of (who, how many calls), and then whoever is left.
struct Turns {
    plan: Mutex<Plan>,
    moved: Condvar,
}

struct Plan {
    turns: Vec<(usize, usize)>,
    ended: [bool; 2],
}

impl Turns {
    /// Waits for the turn of `who`, and does one call in it.
    fn call<T>(&self, who: usize, call: impl FnOnce() -> T) -> T {
        let mut plan = self.plan.lock().unwrap();
        while !plan.take(who) {
            plan = self.moved.wait(plan).unwrap();
        }
        let answer = call();
        self.moved.notify_all();
        drop(plan);
        answer
    }

    fn end(&self, who: usize) {
        self.plan.lock().unwrap().ended[who] = true;
        self.moved.notify_all();
    }
}

impl Plan {
    fn take(&mut self, who: usize) -> bool {
        let Plan { turns, ended } = self;
        while turns.first().is_some_and(|(turn, left)| *left == 0 || ended[*turn]) {
            turns.remove(0);
        }
        match turns.first_mut() {
            Some((turn, left)) if *turn == who => {
                *left -= 1;
                true
            }
            Some(_) => false,
            // Behind the plan: one after the other.
            None => who == 0 || ended[0],
        }
    }
}

struct InTurn {
    under: Arc<Memory>,
    turns: Arc<Turns>,
    who: usize,
    calls: Mutex<usize>,
}

impl InTurn {
    fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        *self.calls.lock().unwrap() += 1;
        self.turns.call(self.who, call)
    }
}

impl ObjectStore for InTurn {
    fn put(&self, name: &str, bytes: &[u8], retain: Option<Retention>) -> Result<Put, StoreError> {
        self.call(|| self.under.put(name, bytes, retain))
    }
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.call(|| self.under.get(name))
    }
    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.call(|| self.under.get_range(name, offset, length))
    }
    fn list(&self, prefix: &str, after: &str, most: usize) -> Result<Vec<Listed>, StoreError> {
        self.call(|| self.under.list(prefix, after, most))
    }
    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.call(|| self.under.delete(name))
    }
    fn retain(&self, name: &str, until: Retention) -> Result<(), StoreError> {
        self.call(|| self.under.retain(name, until))
    }
}

/// A point that stays; data that only a point had which was given up: whoever writes it again may find it, or not.
fn prepared() -> (Arc<Memory>, Vault, u64, Image, Image) {
    let store = Arc::new(Memory::default());
    let mut vault = new_vault(&store);
    let mut old = Image::new(1 << 20);
    (0..8).for_each(|number| old.write(number, number + 1));
    let gone = backup(&mut vault, &old, None, old.all()).unwrap();
    let mut stays = Image::new(1 << 20);
    (100..104).for_each(|number| stays.write(number, number));
    let point = backup(&mut vault, &stays, None, stays.all()).unwrap();
    vault.forget(&[gone]).unwrap();
    let mut new = stays.clone();
    (0..8).for_each(|number| new.write(number, number + 1));
    (200..203).for_each(|number| new.write(number, number));
    (store, vault, point, stays, new)
}

type Work<'a> = &'a (dyn Fn(&mut Vault) -> Result<Option<(u64, Image)>, Error> + Sync);

/// Runs both, in the order of the plan; returns how many calls each made, or what is wrong afterwards.
fn in_order(
    plan: Vec<(usize, usize)>,
    switches: Switches,
    works: [Work; 2],
    start: (&Arc<Memory>, &Vault),
) -> Result<[usize; 2], String> {
    let store = start.0.copy();
    let turns = Arc::new(Turns {
        plan: Mutex::new(Plan {
            turns: plan,
            ended: [false; 2],
        }),
        moved: Condvar::new(),
    });
    let stores = [0, 1].map(|who| {
        Arc::new(InTurn {
            under: store.clone(),
            turns: turns.clone(),
            who,
            calls: Mutex::new(0),
        })
    });
    let answers = std::thread::scope(|scope| {
        let threads = [0, 1].map(|who| {
            let mut vault = start.1.again(store.clone()).unwrap();
            vault.store = stores[who].clone();
            vault.state.switches = switches;
            let (turns, work) = (turns.clone(), works[who]);
            scope.spawn(move || {
                let answer = work(&mut vault);
                turns.end(who);
                answer
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let mut judge = start.1.again(store.clone()).map_err(|error| error.to_string())?;
    for answer in answers {
        match answer {
            Ok(Some((point, image))) => differs(&judge, point, &image)?,
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    // Another pruning, later, harms nothing either.
    prune::run(&mut judge).map_err(|error| error.to_string())?;
    let report = verify(&judge, Scope::Whole).map_err(|error| error.to_string())?;
    if !report.is_clean() {
        return Err(format!("{report:?}"));
    }
    Ok(stores.map(|store| *store.calls.lock().unwrap()))
}

/// Orders in which the two change at most three times: all places of the first change and lengths of what comes then, every third of them
/// where there are many. Returns how many, or the first that goes wrong.
fn orders(switches: Switches, works: [Work; 2]) -> Result<usize, String> {
    let (store, vault, ..) = prepared();
    let start = (&store, &vault);
    let alone = in_order(Vec::new(), switches, works, start)?;
    let mut tried = 1;
    for first in [0, 1] {
        let second = 1 - first;
        let step = |calls: usize| if calls > 20 { 3 } else { 1 };
        for before in (0..=alone[first]).step_by(step(alone[first])) {
            for between in (0..=alone[second] + 4).step_by(step(alone[second])) {
                for after in [1, 3, usize::MAX] {
                    let plan = vec![(first, before), (second, between), (first, after), (second, usize::MAX)];
                    let shown = format!("{plan:?}");
                    in_order(plan, switches, works, start).map_err(|why| format!("{shown}: {why}"))?;
                    tried += 1;
                }
            }
        }
    }
    Ok(tried)
}

fn writes(vault: &mut Vault) -> Result<Option<(u64, Image)>, Error> {
    let new = WRITTEN.get_or_init(|| prepared().4).clone();
    vault.refresh()?;
    let parent = vault.state().points().keys().next().copied();
    let point = backup(vault, &new, parent, new.changes((0..8).chain(200..203)))?;
    Ok(Some((point, new)))
}

static WRITTEN: OnceLock<Image> = OnceLock::new();

fn prunes(vault: &mut Vault) -> Result<Option<(u64, Image)>, Error> {
    prune::run(vault)?;
    Ok(None)
}

#[test]
fn a_backup_and_a_pruning_in_any_order() {
    let tried = orders(Switches::default(), [&writes, &prunes]).unwrap_or_else(|why| panic!("{why}"));
    assert!(tried > 300, "{tried}");
}

#[test]
fn two_backups_in_any_order() {
    let tried = orders(Switches::default(), [&writes, &writes]).unwrap_or_else(|why| panic!("{why}"));
    assert!(tried > 300, "{tried}");
}

#[test]
fn two_prunings_in_any_order() {
    // Whoever is second may find that the other one was there: that is said, and no harm.
    let prunes = |vault: &mut Vault| -> Result<Option<(u64, Image)>, Error> {
        match prune::run(vault) {
            Ok(_) | Err(Error::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let tried = orders(Switches::default(), [&prunes, &prunes]).unwrap_or_else(|why| panic!("{why}"));
    assert!(tried > 300, "{tried}");
}

/// What a switched-off rule must come to: something that a point needs is gone.
#[track_caller]
fn is_lost<T: std::fmt::Debug>(found: Result<T, String>) {
    let why = found.expect_err("the rule is not needed");
    let lost = ["is in no pack", "is missing", "NoPiece", "Missing"];
    assert!(lost.iter().any(|text| why.contains(text)), "{why}");
}

#[test]
fn pruning_in_one_phase_is_found() {
    let sweeps_at_once = Switches {
        sweeps_at_once: true,
        ..Switches::default()
    };
    is_lost(orders(sweeps_at_once, [&writes, &prunes]));
}

/// A history with a session on each side of a condemnation; `Err` says what is lost.
fn over_a_condemnation(switches: Switches) -> Result<(), String> {
    let (store, vault, point, _, new) = prepared();
    let open = || {
        let mut vault = vault.again(store.clone()).unwrap();
        vault.state.switches = switches;
        vault
    };
    let text = |error: Error| error.to_string();
    let (mut old, mut late, mut pruner) = (open(), open(), open());
    // One that begins before, and has found what is condemned now.
    let mut before = old.begin("before").map_err(text)?;
    let made = before
        .backup(
            &volume(1, &new, Some(point)),
            &mut stream(new.changes((0..8).chain(200..203))),
        )
        .map_err(text)?;
    assert!(prune::condemn(&mut pruner, &Default::default()).map_err(text)? > 0);
    let early = before.publish("early", 0, vec![made]).map_err(text)?;
    // One that begins behind, from that point on, and does not look at what did not change.
    let mut after = late.begin("after").map_err(text)?;
    let mut newer = new.clone();
    newer.write(220, 9);
    let made = after
        .backup(&volume(1, &newer, Some(early)), &mut stream(newer.changes([220])))
        .map_err(text)?;
    before.end().map_err(text)?;
    pruner.forget(&[early]).map_err(text)?;
    prune::sweep(&mut pruner).map_err(text)?;
    prune::collect(&mut pruner).map_err(text)?;
    let last = after.publish("late", 0, vec![made]).map_err(text)?;
    after.end().map_err(text)?;
    differs(&vault.again(store.clone()).map_err(text)?, last, &newer)
}

#[test]
fn what_a_later_session_has_from_a_forgotten_point_stays() {
    over_a_condemnation(Switches::default()).unwrap();
}

#[test]
fn a_sweep_that_does_not_look_again_and_one_without_ghosts_are_found() {
    let sweeps_blindly = Switches {
        sweeps_blindly: true,
        ..Switches::default()
    };
    is_lost(over_a_condemnation(sweeps_blindly));
    let has_no_ghosts = Switches {
        has_no_ghosts: true,
        ..Switches::default()
    };
    is_lost(over_a_condemnation(has_no_ghosts));
}

/// A session that begins behind a condemnation writes what is condemned.
fn behind_a_condemnation(switches: Switches) -> Result<(), String> {
    let (store, vault, point, _, new) = prepared();
    let open = || {
        let mut vault = vault.again(store.clone()).unwrap();
        vault.state.switches = switches;
        vault
    };
    let text = |error: Error| error.to_string();
    let (mut writer, mut pruner) = (open(), open());
    assert!(prune::condemn(&mut pruner, &Default::default()).map_err(text)? > 0);
    let mut session = writer.begin("behind").map_err(text)?;
    let made = session
        .backup(
            &volume(1, &new, Some(point)),
            &mut stream(new.changes((0..8).chain(200..203))),
        )
        .map_err(text)?;
    // It holds nothing up: it began later.
    prune::sweep(&mut pruner).map_err(text)?;
    prune::collect(&mut pruner).map_err(text)?;
    let last = session.publish("behind", 0, vec![made]).map_err(text)?;
    session.end().map_err(text)?;
    differs(&vault.again(store.clone()).map_err(text)?, last, &new)
}

#[test]
fn nobody_builds_on_what_is_condemned() {
    behind_a_condemnation(Switches::default()).unwrap();
    let builds_on_condemned = Switches {
        builds_on_condemned: true,
        ..Switches::default()
    };
    is_lost(behind_a_condemnation(builds_on_condemned));
}

/// A session sleeps, is fenced, and wakes when what it found is swept.
fn behind_a_fence(switches: Switches) -> Result<bool, String> {
    let (store, vault, point, _, new) = prepared();
    let open = || {
        let mut vault = vault.again(store.clone()).unwrap();
        vault.state.switches = switches;
        vault
    };
    let text = |error: Error| error.to_string();
    let (mut sleeper, mut pruner) = (open(), open());
    let mut session = sleeper.begin("sleeps").map_err(text)?;
    let made = session
        .backup(
            &volume(1, &new, Some(point)),
            &mut stream(new.changes((0..8).chain(200..203))),
        )
        .map_err(text)?;
    pruner.refresh().map_err(text)?;
    pruner.fence(session.id()).map_err(text)?;
    let pruned = prune::run(&mut pruner).map_err(text)?;
    assert!(pruned.collected.deleted > 0);
    let said = session.publish("woken", 0, vec![made]);
    drop(session);
    // By the same rules, so that it is the loss that is found.
    let judge = pruner.again(store.clone()).map_err(text);
    match said {
        Err(Error::Refused(_)) => {
            // What it is told to do: another one, which finds what there is.
            let point = backup(&mut sleeper, &new, Some(point), new.changes((0..8).chain(200..203))).map_err(text)?;
            differs(&sleeper, point, &new)?;
            Ok(true)
        }
        Err(error) => Err(error.to_string()),
        Ok(point) => differs(&judge?, point, &new).map(|()| false),
    }
}

#[test]
fn what_a_fenced_session_says_does_not_count() {
    assert_eq!(behind_a_fence(Switches::default()), Ok(true));
    let fences_do_not_hold = Switches {
        fences_do_not_hold: true,
        ..Switches::default()
    };
    is_lost(behind_a_fence(fences_do_not_hold));
}

/// Two that are about to make one point, as two nodes may that each take themselves for the one that is at a policy.
fn two_of_one_name(switches: Switches) -> Result<usize, String> {
    let makes = |vault: &mut Vault| -> Result<Option<(u64, Image)>, Error> {
        let new = WRITTEN.get_or_init(|| prepared().4).clone();
        vault.refresh()?;
        let mut session = vault.begin("backup policy")?;
        let made = session.backup(&volume(1, &new, None), &mut stream(new.all()))?;
        let point = match session.publish_once("nightly/1/now", 0, vec![made]) {
            Ok(point) => point,
            // It is as good as one's own.
            Err(Error::Made { point, .. }) => point,
            Err(error) => return Err(error),
        };
        session.end()?;
        let named = |point: &&crate::Point| point.name == "nightly/1/now";
        vault.refresh()?;
        let count = vault.state().points().values().filter(named).count();
        match count {
            1 => Ok(Some((point, new))),
            _ => Err(Error::Source(std::io::Error::other(format!(
                "{count} points of one name"
            )))),
        }
    };
    orders(switches, [&makes, &makes])
}

#[test]
fn a_point_that_is_to_be_made_once_is_made_once_in_any_order() {
    let tried = two_of_one_name(Switches::default()).unwrap_or_else(|why| panic!("{why}"));
    assert!(tried > 300, "{tried}");
    let makes_twice = Switches {
        makes_twice: true,
        ..Switches::default()
    };
    let why = two_of_one_name(makes_twice).expect_err("the rule is not needed");
    assert!(why.contains("2 points of one name"), "{why}");
}

/// Other volumes, and other names, are other points.
#[test]
fn what_is_made_once_keeps_nothing_else_from_being_made() {
    let (_, mut vault, point, _, new) = prepared();
    let mut make = |number: u8, name: &str| {
        let mut session = vault.begin("backup policy").unwrap();
        let made = session
            .backup(&volume(number, &new, None), &mut stream(new.all()))
            .unwrap();
        let point = session.publish_once(name, 0, vec![made]);
        session.end().unwrap();
        point
    };
    let first = make(1, "nightly/1/a").unwrap();
    let other = make(2, "nightly/1/a").unwrap();
    let later = make(1, "nightly/1/b").unwrap();
    assert!(point < first && first < other && other < later);
    assert!(matches!(make(1, "nightly/1/a"), Err(Error::Made { point, .. }) if point == first));
}
