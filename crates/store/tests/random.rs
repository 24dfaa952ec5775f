//! The model check: random operations against a simple model, with power cuts at any moment. More than a million steps
//! here; as many as wanted with `soak`.

mod common;

use common::play::{Rules, Score, play, replay};

/// All kinds of games.
const GAMES: [&str; 11] = [
    "plain",
    "larger",
    "wide",
    "rot",
    "small-pool",
    "snapshots",
    "clones",
    "many-snapshots",
    "wide-snapshots",
    "little-memory",
    "rot-snapshots",
];

/// Plays games of one kind.
fn games(name: &str, seeds: std::ops::Range<u64>) -> Score {
    let mut score = Score::default();
    let began = std::time::Instant::now();
    for seed in seeds {
        score += play(Rules::named(name, seed).expect("the game is known"));
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{name}: {:.0} steps/s\n{score:#?}", score.steps as f64 / seconds);
    score
}

#[test]
fn random_operations_and_power_cuts() {
    let score = games("plain", 0..30);
    // The seeds are fixed: what was never met was not tested.
    assert!(score.steps >= 300_000);
    assert!(score.crashes > 500 && score.ended_short > 100 && score.batches_dropped > 100);
    assert!(score.takeovers > 300 && score.no_space > 100 && score.rolls > 500);
    assert!(score.resends > 500 && score.merges > 5_000 && score.checkpoints > 100 && score.marks > 100);
    assert!(score.answers_compared > 10_000 && score.writes_acknowledged > 40_000);
}

#[test]
fn a_larger_store() {
    let score = games("larger", 1000..1003);
    assert!(score.crashes > 3 && score.writes_acknowledged > 2_000, "{score:#?}");
}

#[test]
fn wide_chunks() {
    let score = games("wide", 5000..5010);
    assert!(score.crashes > 3 && score.writes_acknowledged > 2_000, "{score:#?}");
}

/// Whatever rots: nothing of it is ever served, nor merged into something that looks whole (rule D7's spirit).
#[test]
fn rot() {
    let score = games("rot", 3000..3010);
    assert!(score.damaged_rightly > 200 && score.answers_compared > 1_000 && score.writes_acknowledged > 2_000);
}

/// Reads are refused while there is no memory; everything else goes on.
#[test]
fn a_pool_that_is_too_small() {
    let score = games("small-pool", 2000..2004);
    assert!(score.answers_compared > 500 && score.writes_acknowledged > 3_000);
}

/// As long as wanted: `AMITA_STORE_SEEDS=1000 cargo test --release -p amita-store --test random soak -- --ignored`.
#[test]
#[ignore = "runs as long as it is told to"]
fn soak() {
    let first = environment("AMITA_STORE_FIRST").unwrap_or(100_000);
    let count: u64 = environment("AMITA_STORE_SEEDS").unwrap_or(100);
    let only: Option<String> = environment("AMITA_STORE_GAME");
    for name in GAMES {
        if only.as_ref().is_none_or(|only| only == name) {
            games(name, first..first + count);
        }
    }
}

fn environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    text.parse()
        .ok()
        .or_else(|| panic!("{name} is not understood: {text:?}"))
}

/// One game again, or some of its steps: a game that fails prints the command.
#[test]
#[ignore = "needs AMITA_STORE_GAME"]
fn again() {
    let game: String = environment("AMITA_STORE_GAME").expect("AMITA_STORE_GAME=NAME:SEED says which game");
    let (name, seed) = game.split_once(':').expect("AMITA_STORE_GAME=NAME:SEED");
    let steps: Option<String> = environment("AMITA_STORE_STEPS");
    println!(
        "{:#?}",
        replay(name, seed.parse().expect("the seed is a number"), steps.as_deref())
    );
}
