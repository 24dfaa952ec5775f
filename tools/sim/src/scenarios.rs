//! The histories of `docs/protocol.md`, by the number of their rule.
//!
//! Each is a kind of run that steers towards one interleaving, and a rule of the product that makes it harmless. It is
//! run over a number of seeds twice: as the product is, where every seed must hold, and with the rule switched off
//! (feature `planted`), where some seed must fail. So each shows that the rule is needed, that the simulator meets the
//! interleaving, and that the checkers see it.

mod clones;
mod cluster;
mod gateways;
mod initiators;
mod machines;
mod moves;
mod networks;
mod resync;
mod sealed;
mod snapshots;
mod store;

use crate::campaign::{Run, Summary, run_all, run_listed};
use crate::cluster::{Plants, Setup, run_setup};
use crate::solo;
use std::fmt;

/// What a scenario runs.
#[derive(Clone, Copy)]
pub enum Runs {
    /// A store on its own.
    Store(fn(u64) -> solo::Profile),
    Cluster(fn(u64) -> Setup),
}

/// One history.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its rule and what it is about.
    pub name: &'static str,
    /// What happens, and what would go wrong.
    pub story: &'static str,
    pub runs: Runs,
    /// What is wrong with the world in it, besides its faults; empty in most.
    pub hostile: fn(&mut Plants),
    /// Switches its rule off; none where there is no such switch.
    pub broken: Option<fn(&mut Plants)>,
    /// Seeds that are run.
    pub seeds: u64,
}

/// How a scenario went.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// As the product is: the seeds that failed.
    pub with_rule: Summary,
    /// With the rule switched off, where that can be.
    pub without_rule: Option<Summary>,
}

impl Verdict {
    /// The rule protects, and is needed.
    #[must_use]
    pub fn holds(&self) -> bool {
        let needed = self
            .without_rule
            .as_ref()
            .is_none_or(|summary| !summary.failures.is_empty());
        self.with_rule.failures.is_empty() && needed
    }
}

/// A history of a cluster in which nothing is wrong but its faults.
fn history(
    name: &'static str,
    story: &'static str,
    setup: fn(u64) -> Setup,
    seeds: u64,
    broken: fn(&mut Plants),
) -> Scenario {
    Scenario {
        name,
        story,
        runs: Runs::Cluster(setup),
        hostile: |_| {},
        broken: Some(broken),
        seeds,
    }
}

impl Scenario {
    #[must_use]
    pub fn run(&self, seed: u64, broken: bool, trace: bool) -> Run {
        let mut plants = Plants::default();
        (self.hostile)(&mut plants);
        if let Some(switch_off) = self.broken.filter(|_| broken) {
            switch_off(&mut plants);
        }
        match self.runs {
            Runs::Store(profile) => solo::run_with(seed, profile(seed), plants.store),
            Runs::Cluster(setup) => run_setup(Setup { plants, ..setup(seed) }, trace),
        }
    }

    /// Runs all seeds, with the rule (but no more than `most` so) and without.
    #[must_use]
    pub fn judge(&self, seeds: u64, most: u64, jobs: usize) -> Verdict {
        let held = 0..seeds.min(most);
        let with_rule = run_all(held, None, jobs, 3, |seed| self.run(seed, false, false), |_| {});
        let switch = self.broken.is_some() && cfg!(feature = "planted");
        let broken = |seed| self.run(seed, true, false);
        let known: Vec<u64> = KNOWN
            .iter()
            .filter(|(name, _)| *name == self.name)
            .map(|(_, seed)| *seed)
            .collect();
        let without_rule = switch.then(|| match run_listed(&known, jobs, 1, broken) {
            found if !found.failures.is_empty() => found,
            _ => run_all(0..seeds, None, jobs, 1, broken, |_| {}),
        });
        Verdict {
            with_rule,
            without_rule,
        }
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Seeds that were seen to fail without the rule, of scenarios where few do: they are tried first. They belong to a version
/// of the code.
const KNOWN: &[(&str, u64)] = &[
    ("D1: a freed slot waits for a durable mark", 55),
    ("D2: a page names its predecessor and its mount", 27),
    ("D3: what is written into a hole of a file is flushed", 20),
    ("R11: a number is released when all cores carry it", 35),
    ("R11: a set lets go together", 166),
    ("R11: nobody hears of what carries a number before all cores do", 59),
    ("R8: what was changed is asked of who has everything", 19),
    ("R8: who has forgotten is in doubt until it was compared", 21),
    ("R9: a host that is silent takes along what has grown old", 39),
    ("R9: what was cleared long ago is not cleared again", 39),
    ("R9: what was on the way for long is not carried out", 27),
];

/// Rules whose history cannot be run, and why.
pub const NOT_YET: &[(&str, &str)] = &[(
    "D8",
    "no switch makes a store bind a clone's checksums to another place; the store's own model test makes clones",
)];

#[must_use]
pub fn all() -> Vec<Scenario> {
    let mut all = store::all();
    all.extend(cluster::all());
    all.extend(gateways::all());
    all.extend(initiators::all());
    all.extend(machines::all());
    all.extend(networks::all());
    all.extend(resync::all());
    all.extend(snapshots::all());
    all.extend(clones::all());
    all.extend(moves::all());
    all.extend(sealed::all());
    all.sort_by_key(|scenario| scenario.name);
    all
}

/// Runs all whose name contains `only`, with their rules no more than `most` seeds of each, and prints how they went;
/// false when one did not hold.
pub fn judge_all(only: Option<&str>, seeds: Option<u64>, most: u64, jobs: usize) -> bool {
    let mut good = true;
    for (rule, why) in NOT_YET {
        println!("{rule}: not run: {why}");
    }
    for scenario in all() {
        if only.is_some_and(|only| !scenario.name.contains(only)) {
            continue;
        }
        let seeds = seeds.unwrap_or(scenario.seeds);
        let verdict = scenario.judge(seeds, most, jobs);
        println!("{}", scenario.name);
        println!("  {}", scenario.story);
        match verdict.with_rule.failures.first() {
            None => println!("  with the rule: {} seeds hold", seeds.min(most)),
            Some((seed, why)) => println!("  WITH THE RULE seed {seed} FAILS: {why}"),
        }
        match &verdict.without_rule {
            None if scenario.broken.is_none() => println!("  (no switch: this shows only that it is survived)"),
            None => println!("  (build with --features planted to switch the rule off)"),
            Some(summary) => match summary.failures.first() {
                Some((seed, why)) => {
                    println!(
                        "  without it:    seed {seed} fails: {}",
                        why.lines().next().unwrap_or_default()
                    );
                }
                None => println!(
                    "  WITHOUT IT {} seeds HOLD: the scenario does not meet its history",
                    summary.runs
                ),
            },
        }
        good &= verdict.holds();
    }
    good
}

/// A function that switches something off; with nothing to switch, without the feature `planted`, it does nothing.
macro_rules! plant {
    ($plants:ident => $body:expr) => {
        |$plants: &mut crate::cluster::Plants| {
            let _ = &$plants;
            #[cfg(feature = "planted")]
            {
                $body;
            }
        }
    };
}
pub(crate) use plant;

#[cfg(test)]
mod tests;
