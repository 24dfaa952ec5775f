//! Plays; where the store does what it must not, the history is made short and printed with the command that plays it
//! again.

use super::game::Game;
use super::{Rules, Score};
use amita_store::Faults;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Steps that may be played in all to make a history short.
const MOST_STEPS: usize = 3_000_000;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic was.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// How a game failed.
struct Failure {
    place: String,
    /// The step in which it did.
    step: u32,
    /// How many steps were played.
    played: usize,
}

/// Plays; panics where the store does what it must not, after it has said how to see it again.
pub fn play(rules: Rules) -> Score {
    listen_to_panics();
    let steps: Vec<u32> = (0..rules.steps as u32).collect();
    match attempt(&rules, &steps) {
        Ok(score) => score,
        Err(failure) => {
            // A fault that was planted need not be explained.
            if rules.config.faults == Faults::NONE {
                explain(&rules, failure);
            }
            panic!("the store failed in the game {}:{}", rules.name, rules.seed);
        }
    }
}

/// Plays some steps of a game again, with everything printed. `steps`: as `explain` prints them.
pub fn replay(name: &str, seed: u64, steps: Option<&str>) -> Score {
    let mut rules = Rules::named(name, seed).expect("there is a game of that name");
    rules.trace = true;
    let all = || (0..rules.steps as u32).collect();
    let steps: Vec<u32> = steps.map_or_else(all, parse);
    run(&rules, &steps, &Cell::new((0, 0)))
}

fn run(rules: &Rules, steps: &[u32], at: &Cell<(u32, usize)>) -> Score {
    let mut game = Game::new(rules.clone());
    for (played, &step) in steps.iter().enumerate() {
        at.set((step, played + 1));
        game.step(step);
    }
    if rules.snapshots > 0 {
        game.drop_everything();
    } else {
        game.settle();
    }
    game.count();
    game.score
}

fn attempt(rules: &Rules, steps: &[u32]) -> Result<Score, Failure> {
    let at = Cell::new((0, 0));
    catch_unwind(AssertUnwindSafe(|| run(rules, steps, &at))).map_err(|_| Failure {
        place: PLACE.take(),
        step: at.get().0,
        played: at.get().1,
    })
}

/// Leaves out what the fault does not need, and prints the rest.
fn explain(rules: &Rules, failure: Failure) {
    println!(
        "the game {}:{} fails in step {}; it is made short",
        rules.name, rules.seed, failure.step
    );
    QUIET.set(true);
    let mut steps: Vec<u32> = (0..=failure.step).collect();
    let mut left = MOST_STEPS;
    let mut size = steps.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < steps.len() && left > 0 {
            let end = (at + size).min(steps.len());
            let fewer = [&steps[..at], &steps[end..]].concat();
            match attempt(rules, &fewer) {
                Err(again) if again.place == failure.place => {
                    left = left.saturating_sub(again.played);
                    steps = fewer;
                    steps.truncate(again.played);
                }
                Err(Failure { played, .. }) => {
                    left = left.saturating_sub(played);
                    at = end;
                }
                Ok(_) => {
                    left = left.saturating_sub(fewer.len());
                    at = end;
                }
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    QUIET.set(false);
    let mut traced = rules.clone();
    traced.trace = true;
    let failed = attempt(&traced, &steps).is_err();
    println!(
        "{} steps {}; again:\nAMITA_STORE_GAME={}:{} AMITA_STORE_STEPS={} cargo test -p amita-store --test suite random::again -- --ignored --nocapture",
        steps.len(),
        if failed {
            "are enough"
        } else {
            "are not enough any more: the fault depends on more than the steps"
        },
        rules.name,
        rules.seed,
        print(&steps)
    );
}

/// Numbers and runs of numbers: `1,5-9`.
fn print(steps: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &step in steps {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == step => *last = step,
            _ => runs.push((step, step)),
        }
    }
    let runs = runs.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    runs.collect::<Vec<_>>().join(",")
}

fn parse(steps: &str) -> Vec<u32> {
    let number = |text: &str| {
        text.parse()
            .expect("steps are numbers and runs of numbers, as in 1,5-9")
    };
    let runs = steps.split(',').map(|run| match run.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(run)..=number(run),
    });
    runs.flatten().collect()
}

/// Notes where panics are, and keeps those quiet that only make a history short.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            PLACE.set(place);
            if !QUIET.get() {
                before(info);
            }
        }));
    });
}
