//! What discards cost the writes beside them, and what opening a large file costs.
//! `cargo run --release -p amita-reactor --example discard -- FOLDER [GiB]`: makes a file there, and removes it.
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Completion, Driver, FileId, Outcome, Pool, PoolConfig, Token, Wait};
use std::io::Write;
use std::time::{Duration, Instant};

/// Writes under way.
const DEPTH: u64 = 32;
const BLOCK: u64 = 4096;
const RUN: Duration = Duration::from_secs(3);

/// Random writes of 4 KiB to the first half, with or without one discard at a time of so many bytes in the second, as
/// long as there is something left of it from `at` on.
fn run(driver: &mut UringDriver, file: FileId, half: u64, at: &mut u64, discard: Option<u64>) {
    let mut random = 1u64;
    let mut write = |driver: &mut UringDriver, slot: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = (random >> 33) % (half / BLOCK) * BLOCK;
        let data = vec![driver.pool().zeros(BLOCK as usize)];
        driver.write(file, offset, data, Token(slot));
    };
    let mut began = vec![Instant::now(); DEPTH as usize];
    for slot in 0..DEPTH {
        write(driver, slot);
    }
    let (started, mut times, mut discards) = (Instant::now(), Vec::new(), Vec::new());
    let mut discarding = Instant::now();
    if let Some(bytes) = discard {
        driver.discard(file, *at, bytes, Token(DEPTH));
    }
    let mut completions: Vec<Completion> = Vec::new();
    let mut under_way = DEPTH + u64::from(discard.is_some());
    while under_way > 0 {
        driver.poll(Wait::UntilEvent, &mut completions);
        for done in completions.drain(..) {
            let goes_on = started.elapsed() < RUN;
            under_way -= u64::from(!goes_on && !matches!(done.outcome, Outcome::Woken));
            match done.outcome {
                Outcome::Written { result, .. } => {
                    result.unwrap();
                    times.push(began[done.token.0 as usize].elapsed());
                    if goes_on {
                        began[done.token.0 as usize] = Instant::now();
                        write(driver, done.token.0);
                    }
                }
                Outcome::Discarded { result } => {
                    result.unwrap();
                    discards.push(discarding.elapsed());
                    let bytes = discard.unwrap();
                    *at += bytes;
                    if goes_on && *at + bytes <= 2 * half {
                        discarding = Instant::now();
                        driver.discard(file, *at, bytes, Token(DEPTH));
                    } else if goes_on {
                        under_way -= 1;
                    }
                }
                _ => {}
            }
        }
    }
    times.sort();
    discards.sort();
    let micros = |times: &[Duration], percent: usize| match times.len() {
        0 => 0,
        count => times[(count - 1) * percent / 100].as_micros(),
    };
    println!(
        "{:>5} discards of {:>6} KiB, median {:>6} us; beside them {:>6} writes/s, median {:>5} us, 99 % {:>6} us",
        discards.len(),
        discard.unwrap_or(0) >> 10,
        micros(&discards, 50),
        times.len() as u64 / RUN.as_secs(),
        micros(&times, 50),
        micros(&times, 99),
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = arguments.get(1).expect("a folder for a file");
    let gib: u64 = arguments.get(2).map_or(1, |gib| gib.parse().expect("a number of GiB"));
    let path = std::path::Path::new(folder).join("amita-discard-example");
    let mut file = std::fs::File::create_new(&path).expect("a file that was not there");
    let piece = vec![7; 1 << 20];
    for _ in 0..gib << 10 {
        file.write_all(&piece).unwrap();
    }
    file.sync_all().unwrap();
    let mut driver = UringDriver::new(UringConfig::default(), Pool::new(PoolConfig::default()).unwrap()).unwrap();
    let started = Instant::now();
    let (file, info) = driver.open(&path).unwrap();
    println!("opened in {:?}: {info:?}", started.elapsed());
    let mut at = gib << 29;
    for discard in [None, Some(4096), Some(64 << 10), Some(1 << 20), Some(16 << 20), None] {
        run(&mut driver, file, gib << 29, &mut at, discard);
    }
    drop(driver);
    std::fs::remove_file(&path).unwrap();
}
