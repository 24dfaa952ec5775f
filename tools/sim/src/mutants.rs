//! Mutants: the product with one rule switched off (feature `planted`), each to be found by random seeds.
//!
//! A scenario steers towards the one interleaving that its rule forbids. That shows the rule to be needed; it does not
//! show that the simulator would have found the fault had nobody thought of it. So each mutant is also let loose on the
//! seeds that every run uses, and what counts is how many of them it takes until a checker objects. A mutant that takes
//! thousands says where the faults and the workloads are too tame.

mod list;

pub use list::all;

use crate::campaign::{Run, run_all, run_caught};
use crate::cluster::{Mirroring, Plants, Setup, run_mirrors, run_setup};
use crate::random::Random;
use crate::solo;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a mutant is let loose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulation {
    /// A store on its own.
    Store,
    Cluster,
    /// A cluster whose volumes are limited.
    Limits,
    /// A cluster where something is said of how volumes stand among others.
    Turns,
    /// A cluster whose volumes move to other pools.
    Moves,
    /// Two clusters, and a mirror between them.
    Mirrors,
}

impl Simulation {
    /// As the option `--profile` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Simulation::Store => "store",
            Simulation::Cluster => "cluster",
            Simulation::Limits => "limits",
            Simulation::Turns => "turns",
            Simulation::Moves => "moves",
            Simulation::Mirrors => "mirrors",
        }
    }
}

/// The product with one rule switched off.
#[derive(Clone, Copy)]
pub struct Mutant {
    pub name: &'static str,
    /// The rule that it breaks; `I`: one that needs no number, such as that an answer means durable.
    pub rule: &'static str,
    /// Where it is let loose.
    pub simulation: Simulation,
    /// Switches the rule off.
    pub plant: fn(&mut Plants),
    /// Seeds that found it when they were last looked for. They belong to a version of the code. None: it takes many,
    /// and is left to the long search.
    pub known: &'static [u64],
}

/// What came of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// The first seed that fails.
    pub seed: u64,
    /// Seeds that were run until then.
    pub tried: u64,
    /// What the checker said.
    pub why: String,
}

impl Mutant {
    #[must_use]
    pub fn run(&self, seed: u64, trace: bool) -> Run {
        let mut plants = Plants::default();
        (self.plant)(&mut plants);
        match self.simulation {
            Simulation::Store => {
                let profile = solo::Profile::draw(&mut Random::new(seed).fork(1));
                solo::run_with(seed, profile, plants.store)
            }
            Simulation::Limits => run_setup(
                Setup {
                    plants,
                    ..Setup::limited(seed)
                },
                trace,
            ),
            Simulation::Turns => run_setup(
                Setup {
                    plants,
                    ..Setup::ordered(seed)
                },
                trace,
            ),
            Simulation::Moves => run_setup(
                Setup {
                    plants,
                    ..Setup::migrating(seed)
                },
                trace,
            ),
            Simulation::Mirrors => run_mirrors(
                Mirroring {
                    plants,
                    ..Mirroring::draw(seed)
                },
                trace,
            ),
            Simulation::Cluster => run_setup(
                Setup {
                    plants,
                    ..Setup::draw(seed)
                },
                trace,
            ),
        }
    }

    /// Runs the seeds from 0 on, `most` of them at most, until one fails.
    #[must_use]
    pub fn search(&self, most: u64, jobs: usize) -> Option<Found> {
        let summary = run_all(0..most, None, jobs, 1, |seed| self.run(seed, false), |_| {});
        let (seed, why) = summary.failures.into_iter().next()?;
        Some(Found {
            seed,
            tried: summary.runs,
            why,
        })
    }

    /// Runs the seeds that are known to find it.
    #[must_use]
    pub fn try_known(&self) -> Option<Found> {
        self.known.iter().zip(1..).find_map(|(&seed, tried)| {
            let why = run_caught(seed, |seed| self.run(seed, false)).failure?;
            Some(Found { seed, tried, why })
        })
    }
}

/// What the known seeds find of each, on `jobs` threads.
fn try_all_known(mutants: &[Mutant], jobs: usize) -> Vec<Option<Found>> {
    let next = AtomicUsize::new(0);
    let found: Vec<OnceLock<Option<Found>>> = mutants.iter().map(|_| OnceLock::new()).collect();
    let worker = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutant) = mutants.get(place) else { break };
            let _ = found[place].set(mutant.try_known());
        }
    };
    std::thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(worker))));
    found.into_iter().map(|one| one.into_inner().flatten()).collect()
}

/// Searches for all whose name contains `only` and prints the table; false when one was not found. `quick`: only those
/// that few seeds are known to find, and those seeds first.
pub fn search_all(only: Option<&str>, most: u64, quick: bool, jobs: usize) -> bool {
    if !cfg!(feature = "planted") {
        println!("build with --features planted: without it there is no rule to switch off");
        return false;
    }
    println!(
        "{:<26}{:<6}{:<9}{:>7}{:>9}  what the checker said",
        "mutant", "rule", "profile", "seeds", "found by"
    );
    let mutants: Vec<Mutant> = all()
        .into_iter()
        .filter(|mutant| !(quick && mutant.known.is_empty()))
        .filter(|mutant| only.is_none_or(|only| mutant.name.contains(only) || mutant.rule == only))
        .collect();
    let known = if quick {
        try_all_known(&mutants, jobs)
    } else {
        vec![None; mutants.len()]
    };
    let mut found_all = true;
    for (mutant, known) in mutants.iter().zip(known) {
        let found = known.or_else(|| mutant.search(most, jobs));
        let (name, rule, simulation) = (mutant.name, mutant.rule, mutant.simulation.name());
        match found {
            Some(Found { seed, tried, why }) => {
                println!(
                    "{name:<26}{rule:<6}{simulation:<9}{tried:>7}{seed:>9}  {}",
                    shorten(&why)
                );
            }
            None => {
                println!("{name:<26}{rule:<6}{simulation:<9}{most:>7}        -  NOT FOUND");
                found_all = false;
            }
        }
    }
    println!(
        "{} mutants, {}",
        mutants.len(),
        if found_all { "all found" } else { "NOT ALL FOUND" }
    );
    found_all
}

/// A message's first line, and of a panic what it says.
fn shorten(why: &str) -> String {
    let mut lines = why.lines();
    let first = lines.next().unwrap_or_default();
    let line = match first.starts_with("panicked at") {
        true => lines.next().unwrap_or(first),
        false => first,
    };
    line.chars().take(110).collect()
}

#[cfg(test)]
mod tests;
