//! A bounded run of the fuzz target on stable, without coverage: many sessions that a generator makes.

#[path = "fuzz/mod.rs"]
mod fuzz;

use amita_testkit::fuzz::{bounded, soak as run_on};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Sessions of the bounded run.
const SESSIONS: u64 = 3000;
/// Sessions that have found faults. They run first, for ever.
const REGRESSIONS: [u64; 0] = [];

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn run(session: u64) {
    let mut state = session.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..8).for_each(|_| _ = next(&mut state));
    let length = next(&mut state) as usize % 800;
    let input: Vec<u8> = (0..length).map(|_| (next(&mut state) >> 32) as u8).collect();
    let result = std::panic::catch_unwind(|| fuzz::iscsi(&input));
    assert!(result.is_ok(), "session {session} fails");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn iscsi_sessions_that_go_wrong() {
    REGRESSIONS.into_iter().chain(0..SESSIONS).for_each(run);
}

#[test]
fn logins_that_go_wrong() {
    let seeds = fuzz::login::seeds();
    let enter: Vec<bool> = seeds.iter().map(|seed| fuzz::login::enters(seed)).collect();
    // The fifth has a wrong response.
    assert_eq!(enter, [true, true, true, true, false, true, true]);
    bounded(fuzz::login::login, &seeds, &[], 20_000);
}

/// As long as wanted: `AMITA_FUZZ_SECONDS=600 cargo test -p amita-iscsi --test fuzz soak -- --ignored --nocapture`.
/// `AMITA_FUZZ_FIRST` is the first session; without, another one each time.
#[test]
#[ignore = "as long as AMITA_FUZZ_SECONDS says; a part of `make soak`"]
fn soak() {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = number("AMITA_FUZZ_FIRST").unwrap_or(clock.as_nanos() as u64);
    let until = Instant::now() + Duration::from_secs(number("AMITA_FUZZ_SECONDS").unwrap_or(60));
    let mut count = 0;
    while Instant::now() < until {
        run(first.wrapping_add(count));
        count += 1;
    }
    println!("{count} sessions from {first}");
    run_on(fuzz::login::login, &fuzz::login::seeds());
}
