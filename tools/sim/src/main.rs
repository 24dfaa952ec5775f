//! `amita-sim`: runs the simulated cluster over many seeds, replays one, runs the named scenarios.

use amita_sim::campaign::{MAX_FAILURES, Run, Summary, run_all, run_caught, run_listed};
use amita_sim::{cluster, excuse, mutants, paths, scale, scenarios, solo};
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "\
Runs Amita's own code in a simulated cluster: virtual time, disks that lose and tear what was
not flushed, networks that delay, cut and partition, and checkers that know what may be answered.

USAGE
    amita-sim run [--seeds A..B] [--least N] [--profile cluster|store|limits|joint-limits|turns|moves|mirrors] [--jobs N] [--any-coverage]
        Runs every seed of the range (default 0..2000). Prints how often each rare path was taken.
        Fails when a seed fails, or when a listed path was never taken (not with --any-coverage,
        for ranges too small to take them all). --least: the first N of them, then those known to
        take rare paths, and of the others only as many as it takes until each path was taken.
    amita-sim run --first SEED --seconds N [--profile cluster|store|limits|joint-limits|turns|moves|mirrors] [--jobs N]
        Runs seeds from SEED on until the time is over; which paths they take is not judged.
    amita-sim replay SEED [--profile cluster|store|limits|joint-limits|turns|moves|mirrors] [--mutant NAME | --scenario TEXT [--without]] [--trace]
        Runs one seed again, exactly as before; --trace tells what happens. --scenario: a seed of
        the first scenario whose name has that text; --without: with its rule switched off.
    amita-sim mutants [--only TEXT] [--seeds N] [--quick]
        Switches each rule off in turn and runs random seeds (at most N, default 20000) until a
        checker objects; prints how many it took. --quick: only those that few seeds are known to
        find, and these seeds first. Needs a build with `--features planted`.
    amita-sim scenarios [--only TEXT] [--seeds N] [--most N]
        Runs the histories of docs/protocol.md, each by its rule's number. Built with
        `--features planted`, each is also run with its rule switched off, and must then fail.
        --most: with its rule on, no more than so many seeds of each.
    amita-sim scale [--nodes N,N,...] [--calibrate FILE] [--only TEXT | --write FILE]
        Runs the cost model of large clusters (default 3, 10, 100 and 1000 nodes of 128 cores; takes
        some minutes in a release build) and prints its tables, or puts them into a document. FILE
        of --calibrate is the JSON that `amita-bench` leaves; without it a stored one is used. Fails
        when the model is more than 15 % from a figure that was measured.

PROFILES
    cluster   nodes, gateways, metadata, hosts and faults (the default)
    store     one store on its own, with power cuts
    limits    a cluster whose volumes are limited: what passes, and that all of it does
    joint-limits    the same where a tenant and the pool are limited as well
    turns     a cluster whose volumes have reservations, weights and latency targets, and whose stores do little at once
    moves     a cluster whose volumes move to another pool while hosts use them
    mirrors   two clusters, and a mirror between them

EXIT STATUS
    0 all held    1 something failed    2 wrong arguments
";

/// Seeds after which a mutant counts as not found.
const MOST_SEEDS: u64 = 20_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    Cluster,
    Store,
    Limits,
    JointLimits,
    Turns,
    Moves,
    Mirrors,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Profile::Cluster => "cluster",
            Profile::Store => "store",
            Profile::Limits => "limits",
            Profile::JointLimits => "joint-limits",
            Profile::Turns => "turns",
            Profile::Moves => "moves",
            Profile::Mirrors => "mirrors",
        }
    }

    fn run(self, seed: u64, trace: bool) -> Run {
        match self {
            Profile::Cluster => cluster::run_setup(cluster::Setup::draw(seed), trace),
            Profile::Store => solo::run(seed),
            Profile::Limits => cluster::run_setup(cluster::Setup::limited(seed), trace),
            Profile::JointLimits => cluster::run_setup(cluster::Setup::jointly_limited(seed), trace),
            Profile::Turns => cluster::run_setup(cluster::Setup::ordered(seed), trace),
            Profile::Moves => cluster::run_setup(cluster::Setup::migrating(seed), trace),
            Profile::Mirrors => cluster::run_mirrors(cluster::Mirroring::draw(seed), trace),
        }
    }

    /// Seeds that were seen to take paths that few take.
    fn rare(self) -> &'static [u64] {
        match self {
            Profile::Cluster => paths::CLUSTER_SEEDS,
            Profile::Store
            | Profile::Limits
            | Profile::JointLimits
            | Profile::Turns
            | Profile::Moves
            | Profile::Mirrors => &[],
        }
    }

    fn required(self) -> &'static [&'static str] {
        match self {
            Profile::Cluster => paths::CLUSTER,
            Profile::Store => paths::STORE,
            Profile::Limits => paths::LIMITS,
            Profile::JointLimits => paths::JOINT_LIMITS,
            Profile::Turns => paths::TURNS,
            Profile::Moves => paths::MOVES,
            Profile::Mirrors => paths::MIRRORS,
        }
    }
}

struct Arguments {
    words: Vec<String>,
    seeds: Option<String>,
    first: Option<u64>,
    seconds: Option<u64>,
    jobs: usize,
    profile: Profile,
    only: Option<String>,
    mutant: Option<String>,
    scenario: Option<String>,
    quick: bool,
    without: bool,
    most: u64,
    least: Option<u64>,
    trace: bool,
    any_coverage: bool,
    scale: scale::command::Arguments,
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut parsed = Arguments {
        words: Vec::new(),
        seeds: None,
        first: None,
        seconds: None,
        jobs: cores,
        profile: Profile::Cluster,
        only: None,
        mutant: None,
        scenario: None,
        quick: false,
        without: false,
        most: u64::MAX,
        least: None,
        trace: false,
        any_coverage: false,
        scale: scale::command::Arguments::default(),
    };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut value = |name: &str| arguments.next().ok_or(format!("{name} needs a value"));
        match argument.as_str() {
            "--seeds" => parsed.seeds = Some(value("--seeds")?),
            "--first" => parsed.first = Some(number("--first", &value("--first")?)?),
            "--seconds" => parsed.seconds = Some(number("--seconds", &value("--seconds")?)?),
            "--jobs" => parsed.jobs = number("--jobs", &value("--jobs")?)? as usize,
            "--nodes" => parsed.scale.nodes = Some(value("--nodes")?),
            "--calibrate" => parsed.scale.calibrate = Some(value("--calibrate")?),
            "--write" => parsed.scale.write = Some(value("--write")?),
            "--only" => parsed.only = Some(value("--only")?),
            "--mutant" => parsed.mutant = Some(value("--mutant")?),
            "--scenario" => parsed.scenario = Some(value("--scenario")?),
            "--most" => parsed.most = number("--most", &value("--most")?)?,
            "--least" => parsed.least = Some(number("--least", &value("--least")?)?),
            "--quick" => parsed.quick = true,
            "--without" => parsed.without = true,
            "--profile" => {
                parsed.profile = match value("--profile")?.as_str() {
                    "cluster" => Profile::Cluster,
                    "store" => Profile::Store,
                    "limits" => Profile::Limits,
                    "joint-limits" => Profile::JointLimits,
                    "turns" => Profile::Turns,
                    "moves" => Profile::Moves,
                    "mirrors" => Profile::Mirrors,
                    other => {
                        return Err(format!(
                            "there is no profile {other:?}: cluster, store, limits, joint-limits, turns, moves or mirrors"
                        ));
                    }
                }
            }
            "--trace" => parsed.trace = true,
            "--any-coverage" => parsed.any_coverage = true,
            other if other.starts_with('-') => return Err(format!("there is no option {other}")),
            word => parsed.words.push(word.to_owned()),
        }
    }
    Ok(parsed)
}

fn number(option: &str, text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{option} needs a number, not {text:?}"))
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?} is no range of seeds; write for example 0..2000");
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let (start, end) = (start.parse().map_err(|_| wrong())?, end.parse().map_err(|_| wrong())?);
    if start < end { Ok(start..end) } else { Err(wrong()) }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.is_empty()
        || words
            .iter()
            .any(|word| word == "--help" || word == "-h" || word == "help")
    {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let result = parse(words.into_iter()).and_then(|arguments| {
        match arguments.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["run"] if arguments.seconds.is_some() => {
                let first = arguments.first.unwrap_or(0);
                Ok(run(&arguments, first..u64::MAX))
            }
            ["run"] => {
                let seeds = range(arguments.seeds.as_deref().unwrap_or("0..2000"))?;
                Ok(run(&arguments, seeds))
            }
            ["replay", seed] => {
                let seed = seed.parse().map_err(|_| format!("{seed:?} is no seed"))?;
                replay(&arguments, seed)
            }
            ["mutants"] => {
                let seeds = arguments.seeds.as_deref().map(str::parse).transpose();
                let most = seeds.map_err(|_| "--seeds needs a number here".to_owned())?;
                let most = most.unwrap_or(MOST_SEEDS);
                Ok(mutants::search_all(
                    arguments.only.as_deref(),
                    most,
                    arguments.quick,
                    arguments.jobs,
                ))
            }
            ["scenarios"] => {
                let seeds = arguments.seeds.as_deref().map(str::parse).transpose();
                let seeds = seeds.map_err(|_| "--seeds needs a number here".to_owned())?;
                Ok(scenarios::judge_all(
                    arguments.only.as_deref(),
                    seeds,
                    arguments.most,
                    arguments.jobs,
                ))
            }
            ["scale"] => scale::command::run(&scale::command::Arguments {
                only: arguments.only.clone(),
                ..arguments.scale.clone()
            }),
            _ => Err("run, replay SEED, mutants, scenarios or scale?".to_owned()),
        }
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("amita-sim: {why}; see amita-sim --help");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments, seeds: Range<u64>) -> bool {
    let profile = arguments.profile;
    let all = match arguments.seconds {
        Some(seconds) => format!("{seconds} s of"),
        None => format!("{}", seeds.end - seeds.start),
    };
    let begin = Instant::now();
    let until = arguments.seconds.map(|seconds| begin + Duration::from_secs(seconds));
    let live = std::io::stderr().is_terminal();
    let progress = |ended: u64| {
        if live && ended.is_multiple_of(10) {
            let _ = write!(std::io::stderr(), "\r{ended} of {all} seeds");
        }
    };
    let one = |seed| profile.run(seed, false);
    let summary = match arguments.least {
        Some(least) if until.is_none() => run_until_covered(profile, seeds, least, arguments.jobs),
        _ => run_all(seeds, until, arguments.jobs, MAX_FAILURES, one, progress),
    };
    if live {
        eprintln!("\r");
    }
    print!("{}", summary.coverage);
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{} of {all} seeds of profile {} in {seconds:.1} s, {} failed; trace {:016x}",
        summary.runs,
        profile.name(),
        summary.failures.len(),
        summary.trace
    );
    report(&summary, profile);
    let (table, within) = excuse::table(&summary.coverage);
    if profile == Profile::Cluster {
        print!("{table}");
    }
    let any = arguments.any_coverage || until.is_some();
    let missing = if any {
        Vec::new()
    } else {
        summary.coverage.missing(profile.required())
    };
    for path in &missing {
        println!("NEVER TAKEN: {path}: no seed tests it; change the fault plans, or ask why it cannot be reached");
    }
    // How often something is let pass is said of the seeds that everything is drawn for.
    let within = within || any || profile != Profile::Cluster;
    summary.failures.is_empty() && missing.is_empty() && within
}

/// Seeds that are run between two looks at which paths are still missing.
const STEP: u64 = 50;

/// The first `least` seeds, those known to take rare paths, and then more of the range, until each listed path was taken.
fn run_until_covered(profile: Profile, seeds: Range<u64>, least: u64, jobs: usize) -> Summary {
    let one = |seed| profile.run(seed, false);
    let mut next = seeds.end.min(seeds.start.saturating_add(least));
    let mut summary = run_all(seeds.start..next, None, jobs, MAX_FAILURES, one, |_| {});
    let known: Vec<u64> = profile
        .rare()
        .iter()
        .copied()
        .filter(|seed| !(seeds.start..next).contains(seed))
        .collect();
    if summary.failures.is_empty() {
        summary.merge(run_listed(&known, jobs, MAX_FAILURES, one));
    }
    while next < seeds.end && summary.failures.is_empty() && !summary.coverage.missing(profile.required()).is_empty() {
        let end = seeds.end.min(next + STEP);
        summary.merge(run_all(next..end, None, jobs, MAX_FAILURES, one, |_| {}));
        next = end;
    }
    summary
}

/// Listed paths that so few seeds took are shown with the first of them.
const FEW: u64 = 3;

fn report(summary: &Summary, profile: Profile) {
    let rare: Vec<String> = summary
        .takers
        .iter()
        .filter(|(path, (seeds, _))| *seeds <= FEW && profile.required().contains(path))
        .map(|(path, (seeds, first))| format!("{path} by {seeds} (seed {first})"))
        .collect();
    if !rare.is_empty() {
        println!("taken by {FEW} seeds or fewer: {}", rare.join(", "));
    }
    for (seed, why) in &summary.failures {
        println!("\nFAILED seed {seed}: {why}");
        println!(
            "replay it: cargo run -p amita-sim -- replay {seed} --profile {} --trace",
            profile.name()
        );
    }
}

fn replay(arguments: &Arguments, seed: u64) -> Result<bool, String> {
    let profile = arguments.profile;
    let run = match (&arguments.mutant, &arguments.scenario) {
        (None, None) => run_caught(seed, |seed| profile.run(seed, arguments.trace)),
        (None, Some(text)) => {
            let all = scenarios::all();
            let scenario = all.iter().find(|scenario| scenario.name.contains(text));
            let scenario = scenario.ok_or_else(|| format!("there is no scenario {text:?}"))?;
            run_caught(seed, |seed| scenario.run(seed, arguments.without, arguments.trace))
        }
        (Some(name), _) => {
            let all = mutants::all();
            let mutant = all.iter().find(|mutant| mutant.name == name);
            let mutant = mutant.ok_or_else(|| format!("there is no mutant {name:?}"))?;
            run_caught(seed, |seed| mutant.run(seed, arguments.trace))
        }
    };
    print!("{}", run.coverage);
    println!("seed {seed} of profile {}: trace {:016x}", profile.name(), run.trace);
    Ok(match run.failure {
        None => {
            println!("it holds");
            true
        }
        Some(why) => {
            println!("FAILED: {why}");
            false
        }
    })
}
