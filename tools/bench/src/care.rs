//! What it costs that a volume is cared for: encrypted at rest, limited, and both over encrypted links. A cluster for each, side by side with
//! one that does nothing of it, which take turns at the same I/O, by NBD.

use crate::case::{Case, Front, Mix, Placement};
use crate::client::Clients;
use crate::measure::Measure;
use crate::median;
use crate::report::Figures;
use crate::site::Site;
use crate::testbed::{Product, Testbed};
use crate::turns::{self, Sample, Turn, added_cpu_us, rate_left};
use amita_harness::cluster::Links;
use amita_harness::scratch::Scratch;
use amita_harness::tool;
use amita_terminal::error::{Failure, Result};
use amita_terminal::progress::Steps;
use std::time::Duration;

/// What is done for a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Care {
    name: &'static str,
    encrypted: bool,
    limited: bool,
    links: Links,
}

/// The first is what the others are compared with.
const CARES: [Care; 4] = [
    Care {
        name: "off",
        encrypted: false,
        limited: false,
        links: Links::Insecure,
    },
    Care {
        name: "encrypted",
        encrypted: true,
        limited: false,
        links: Links::Insecure,
    },
    Care {
        name: "limited",
        encrypted: false,
        limited: true,
        links: Links::Insecure,
    },
    Care {
        name: "all",
        encrypted: true,
        limited: true,
        links: Links::Secret,
    },
];
/// CPU that encryption at rest may add to an I/O of 4 KiB, of all processes together.
const ADDED_BY_ENCRYPTION_US: f64 = 1.2;
/// And limits that nothing reaches.
const ADDED_BY_LIMITS_US: f64 = 0.1;
/// What must be left of the rate with all of it.
const RATE_LEFT: f64 = 0.8;
const DEPTHS: [u32; 2] = [1, 32];
/// Limits that nothing here reaches: each I/O is counted, and none waits.
const NO_REAL_LIMIT: [&str; 4] = ["--iops", "50000000", "--bandwidth", "100G"];
/// How long a key is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Measures and judges, each on a cluster of its own that `start` makes.
///
/// # Errors
/// When something does not start, or an I/O fails. Never for a figure.
pub fn measure(
    steps: &mut Steps,
    measuring: &mut Measure,
    product: &Product,
    size_bytes: u64,
    start: impl Fn(&Product) -> Result<Testbed>,
    figures: &mut Figures,
) -> Result<()> {
    let scratch = Scratch::make("bench-keys", None, None, 0)?;
    let keys = scratch.folder().join("volume.keys");
    let no_name = || Failure::new("the folders of this run are no UTF-8");
    let keys = keys.to_str().ok_or_else(no_name)?;
    let binary = product.binary.to_str().ok_or_else(no_name)?;
    tool::run(scratch.folder(), binary, ["volume", "key", "init", keys], PATIENCE)?.success()?;
    let mut sites = Vec::new();
    for care in CARES {
        let mut product = Product {
            links: care.links,
            ..product.clone()
        };
        if care.encrypted {
            product
                .serve_arguments
                .extend(["--volume-keys", keys].map(str::to_owned));
            product.volume_arguments = ["--encrypted", "--volume-keys", keys].map(str::to_owned).to_vec();
        }
        let testbed = steps.step(&format!("three nodes, care {}", care.name), || start(&product))?;
        if care.limited {
            let set = [&["volume", "limit", "set", &testbed.volumes[0]][..], &NO_REAL_LIMIT].concat();
            testbed.cluster.amita(set)?.success()?;
        }
        sites.push(Site::new(testbed, Clients::default(), size_bytes));
    }
    measuring.time = turns::TURN;
    for mix in [Mix::Write, Mix::Read] {
        for depth in DEPTHS {
            for placement in [Placement::OneCore, Placement::TwoCores] {
                let case = Case {
                    placement,
                    ..Case::new(Front::Nbd, mix, depth)
                };
                let turns = steps.step(&format!("care in turns, {}", case.label()), || {
                    turns::take(measuring, &mut sites, &case)
                })?;
                judge(&case, &turns, figures);
            }
        }
    }
    Ok(())
}

fn judge(case: &Case, turns: &[Turn], figures: &mut Figures) {
    let (at_depth, one_core) = (case.depth > 1, case.placement == Placement::OneCore);
    let name = format!("care.{}", case.point());
    for (of, care) in CARES.iter().enumerate() {
        let (name, label) = (
            format!("{name}.{}", care.name),
            format!("care {}, {}", care.name, case.label()),
        );
        let middle = |value: fn(&Sample) -> f64| median(turns.iter().map(|turn| value(&turn[of])));
        figures.note(
            &format!("{name}.cpu_us"),
            &format!("{label}: CPU"),
            middle(|sample| sample.cpu_us),
            "us",
        );
        let latency = middle(|sample| sample.latency_us);
        figures.note(
            &format!("{name}.latency_us"),
            &format!("{label}: latency"),
            latency,
            "us",
        );
        figures.note(
            &format!("{name}.iops"),
            &format!("{label}: rate"),
            middle(|sample| sample.iops),
            "IOPS",
        );
        if of == 0 {
            continue;
        }
        let added = median(turns.iter().map(|turn| added_cpu_us(turn, of)));
        let left = median(turns.iter().map(|turn| rate_left(turn, of)));
        let (added_name, added_label) = (format!("{name}.added_cpu_us"), format!("{label}: CPU beyond none"));
        let (left_name, left_label) = (format!("{name}.rate_left"), format!("{label}: of the rate with none"));
        let most_us = match (care.encrypted, care.limited) {
            (true, false) => Some(ADDED_BY_ENCRYPTION_US),
            (false, true) => Some(ADDED_BY_LIMITS_US),
            _ => None,
        };
        match most_us.filter(|_| at_depth && one_core) {
            Some(most_us) => figures.at_most(&added_name, &added_label, added, "us", most_us),
            None => figures.note(&added_name, &added_label, added, "us"),
        }
        match most_us.is_none() && at_depth && !one_core {
            true => figures.at_least(&left_name, &left_label, left, "", RATE_LEFT),
            false => figures.note(&left_name, &left_label, left, ""),
        }
    }
}

#[cfg(test)]
mod tests;
