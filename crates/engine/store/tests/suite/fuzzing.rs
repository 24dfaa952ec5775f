//! A bounded run of the fuzz targets on stable, without coverage: seeds, and what a small mutator makes of them. The
//! same targets run under libFuzzer by `cargo fuzz` (see `fuzz/README.md`).
//!
//! An input that once brought a target down is kept in `fuzz/regressions.txt` and runs first.

#[path = "fuzz/mod.rs"]
mod fuzz;

use crate::common::Rng;
use fuzz::mutate;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Once;
use std::time::{Duration, Instant};

/// Inputs of each target in `make test`: together some 15 s of one core.
const PARSER_RUNS: u64 = 200_000;
const MOUNT_RUNS: u64 = 6_000;

thread_local! {
    /// Where the last panic of this thread was, and what it said.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
    /// A target is running: its panics are told at the end.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What brought targets down: by the place that panicked, so that one fault is told once.
#[derive(Default)]
struct Faults(BTreeMap<String, String>);

impl Faults {
    fn new() -> Faults {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                let said = info.payload_as_str().unwrap_or("no words");
                LAST_PANIC.set(format!("{place}: {said}"));
                if !QUIET.get() {
                    usual(info);
                }
            }));
        });
        Faults::default()
    }

    fn run(&mut self, (name, body): fuzz::Target, input: &[u8], what: &str) {
        QUIET.set(true);
        let result = std::panic::catch_unwind(|| body(input));
        QUIET.set(false);
        if result.is_err() {
            let said = LAST_PANIC.take();
            let place = said.split_once(": ").map_or("", |(place, _)| place).to_owned();
            self.0.entry(place).or_insert_with(|| {
                let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
                format!(
                    "{said}\n{what}; as a line of crates/engine/store/tests/suite/fuzz/regressions.txt:\n{name} {hex}\n"
                )
            });
        }
    }

    fn none(self) {
        let all: String = self.0.values().map(|fault| format!("{fault}\n")).collect();
        assert!(all.is_empty(), "{} faults:\n{all}", self.0.len());
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn fuzz_target(name: &str, runs: u64) {
    let target = fuzz::TARGETS.into_iter().find(|(known, _)| *known == name);
    let target = target.expect("it is one of the targets");
    let seeds = mutate::seeds(name);
    assert!(!seeds.is_empty());
    let mut faults = Faults::new();
    for (at, seed) in seeds.iter().enumerate() {
        faults.run(target, seed, &format!("seed {at} of {name}"));
    }
    for number in 0..runs {
        let input = input(name, &seeds, number);
        faults.run(target, &input, &format!("input {number} of {name}"));
    }
    faults.none();
}

fn input(name: &str, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut rng = Rng(number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    if name == "mount" && !rng.chance(8) {
        return mutate::edits(&mut rng);
    }
    mutate::mutate(&mut rng, seeds)
}

/// The seeds are valid pages, so that what is mutated lies behind the checksum.
#[test]
fn seeds_are_read() {
    use amita_store::format::superblock::Superblock;
    use amita_store::format::{checkpoint, leaf, page, record};
    let pages = |name| {
        mutate::seeds(name)
            .into_iter()
            .map(|seed| fuzz::pages::page(&seed).expect("it has flags"))
    };
    for page in pages("superblock") {
        Superblock::decode(&page).expect("a superblock");
    }
    let mut records = 0;
    for page in pages("log") {
        let page = page::LogPage::decode(&page, crate::common::STORE).expect("a page of the log");
        let read: Result<Vec<_>, _> = record::RecordReader::new(page.records).collect();
        records += read.expect("records").len();
    }
    let mut items = 0;
    for page in pages("checkpoint") {
        let header = checkpoint::Header::get(&page).expect("a page of a checkpoint");
        let reader = checkpoint::PageReader::new(&page, crate::common::STORE, header.checkpoint, header.index);
        let read: Result<Vec<_>, _> = reader.expect("a page of a checkpoint").collect();
        items += read.expect("items").len();
    }
    let mut entries = 0;
    for page in pages("leaf") {
        let header = leaf::Header::get(&page).expect("a leaf");
        let chunk = amita_types::ChunkId {
            volume: amita_types::VolumeId(header.volume),
            index: amita_types::ChunkIndex(header.chunk),
        };
        let sum = u32::from_le_bytes(page[page.len() - 4..].try_into().expect("cut into 4"));
        let read = leaf::decode(&page, crate::common::STORE, chunk, header.part.into(), sum, u32::MAX);
        entries += read.expect("a leaf").iter().filter(|entry| entry.has_data()).count();
    }
    assert!(records > 100 && items > 50, "{records} records, {items} items");
    assert!(entries > 20, "{entries} entries with data");
}

#[test]
fn superblocks() {
    fuzz_target("superblock", PARSER_RUNS);
}

#[test]
fn log_pages() {
    fuzz_target("log", PARSER_RUNS);
}

#[test]
fn checkpoint_pages() {
    fuzz_target("checkpoint", PARSER_RUNS);
}

#[test]
fn leaves() {
    fuzz_target("leaf", PARSER_RUNS);
}

#[test]
fn mounts() {
    fuzz_target("mount", MOUNT_RUNS);
}

/// Every field of the superblock with every interesting number.
#[test]
fn mounts_of_odd_superblocks() {
    assert!(mutate::fields_are_where_they_were());
    let mut faults = Faults::new();
    for (at, input) in mutate::superblock_fields().iter().enumerate() {
        faults.run(("mount", fuzz::mount::mount), input, &format!("odd superblock {at}"));
    }
    faults.none();
}

/// The lines of `regressions.txt`: open or not, target, input.
fn kept() -> Vec<(bool, fuzz::Target, Vec<u8>, String)> {
    let lines = include_str!("fuzz/regressions.txt").lines().enumerate();
    let words = lines.map(|(at, line)| (at + 1, line.split('#').next().unwrap_or_default().trim()));
    let read = |(at, line): (usize, &str)| {
        let (open, line) = line.strip_prefix("open ").map_or((false, line), |line| (true, line));
        let (name, hex) = line.split_once(' ').unwrap_or_else(|| panic!("line {at}: TARGET HEX"));
        let target = fuzz::TARGETS.into_iter().find(|(known, _)| *known == name);
        let target = target.unwrap_or_else(|| panic!("line {at}: no target {name}"));
        let digits = hex.trim().as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal");
        (open, target, digits.map(byte).collect(), format!("line {at}"))
    };
    words.filter(|(_, line)| !line.is_empty()).map(read).collect()
}

/// What once brought a target down.
#[test]
fn regressions() {
    let mut faults = Faults::new();
    for (open, target, input, what) in kept() {
        if !open {
            faults.run(target, &input, &what);
        }
    }
    faults.none();
}

/// What still does.
#[test]
#[ignore = "faults that are not mended yet: see tests/suite/fuzz/known.rs"]
fn open_faults() {
    let mut faults = Faults::new();
    for (open, _, input, what) in kept() {
        if open {
            faults.run(("mount", fuzz::mount::mount_any), &input, &what);
        }
    }
    faults.none();
}

/// As long as wanted: `AMITA_FUZZ_SECONDS=600 cargo test -p amita-store --test suite fuzzing::soak -- --ignored`. `AMITA_FUZZ_FIRST`
/// is the number of the first input; without it, it comes from the clock and is printed.
#[test]
#[ignore = "runs as long as it is told to"]
fn soak_of_all_targets() {
    let time = Duration::from_secs(number("AMITA_FUZZ_SECONDS").unwrap_or(60));
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    let first = number("AMITA_FUZZ_FIRST").unwrap_or(clock.as_nanos() as u64);
    println!("inputs from {first} on");
    let targets = fuzz::TARGETS.map(|target| (target, mutate::seeds(target.0)));
    let started = Instant::now();
    let mut number = first;
    let mut faults = Faults::new();
    while started.elapsed() < time {
        for (target, seeds) in &targets {
            // A parser is some thousand times as fast as a mount.
            for _ in 0..if target.0 == "mount" { 10 } else { 1000 } {
                number += 1;
                let what = format!("input {number} of {}", target.0);
                faults.run(*target, &input(target.0, seeds, number), &what);
            }
        }
    }
    println!("{} inputs", number - first);
    faults.none();
}
