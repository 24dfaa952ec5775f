//! What it costs that nodes prove who they are and protect what passes between them: one cluster for each mode, side by
//! side, which take turns at the same I/O. Whoever waits for its turn is idle, and an idle cluster takes next to nothing.

use crate::case::{Case, Front, Mix, Placement};
use crate::client::Clients;
use crate::measure::{Measure, SystemUnderTest};
use crate::median;
use crate::report::Figures;
use crate::row::Row;
use crate::site::Site;
use crate::testbed::{Product, Testbed};
use amita_harness::cluster::Links;
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use std::time::Duration;

/// The modes, and what figures call them. The first is what the others are compared with.
const MODES: [(Links, &str); 3] = [
    (Links::Insecure, "insecure"),
    (Links::Auth, "auth"),
    (Links::Secret, "secret"),
];
/// CPU that `auth` may add to a write and to a read, of all processes together.
const ADDED_WRITE_US: f64 = 1.0;
const ADDED_READ_US: f64 = 0.4;
/// What must be left of the rate with `auth`.
const RATE_LEFT: f64 = 0.85;
/// How often each mode has its turn. The middle one counts.
const TURNS: usize = 3;
const TURN: Duration = Duration::from_millis(2000);
const DEPTHS: [u32; 2] = [1, 32];

/// What one mode came to in one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    /// CPU of all processes for one I/O.
    cpu_us: f64,
    /// The mean.
    latency_us: f64,
    /// I/Os a second.
    iops: f64,
}

impl Sample {
    fn of(row: &Row) -> Sample {
        Sample {
            cpu_us: row.cpu_total_us,
            latency_us: row.latency().mean,
            iops: row.iops,
        }
    }
}

/// All modes, one after the other.
type Turn = [Sample; MODES.len()];

/// Measures and judges, each mode on a cluster of its own that `start` makes.
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
    let mut sites = Vec::new();
    for (links, name) in MODES {
        let product = Product {
            links,
            ..product.clone()
        };
        let testbed = steps.step(&format!("three nodes, links {name}"), || start(&product))?;
        sites.push(Site::new(testbed, Clients::default(), size_bytes));
    }
    measuring.time = TURN;
    for mix in [Mix::Write, Mix::Read] {
        for depth in DEPTHS {
            for placement in [Placement::OneCore, Placement::TwoCores] {
                let case = Case {
                    placement,
                    ..Case::new(Front::Libamita, mix, depth)
                };
                let turns = steps.step(&format!("links in turns, {}", case.label()), || {
                    take_turns(measuring, &mut sites, &case)
                })?;
                judge(&case, &turns, figures);
            }
        }
    }
    Ok(())
}

/// One after the other, so that a minute of the machine that is unlike the one before is so for all.
fn take_turns(measuring: &Measure, sites: &mut [Site], case: &Case) -> Result<Vec<Turn>> {
    for site in sites.iter_mut() {
        site.ready(case)?;
    }
    let mut turns = vec![Turn::default(); TURNS];
    for turn in &mut turns {
        for (sample, site) in turn.iter_mut().zip(sites.iter_mut()) {
            interrupt::check()?;
            *sample = Sample::of(&measuring.alone(site, case)?);
        }
    }
    Ok(turns)
}

fn judge(case: &Case, turns: &[Turn], figures: &mut Figures) {
    let one_core = case.placement == Placement::OneCore;
    let name = format!("links.{}", case.point());
    for (mode, (links, of)) in MODES.into_iter().enumerate() {
        let (name, label) = (format!("{name}.{of}"), format!("links {of}, {}", case.label()));
        let middle = |value: fn(&Sample) -> f64| median(turns.iter().map(|turn| value(&turn[mode])));
        figures.note(
            &format!("{name}.cpu_us"),
            &format!("{label}: CPU"),
            middle(|sample| sample.cpu_us),
            "us",
        );
        figures.note(
            &format!("{name}.latency_us"),
            &format!("{label}: latency"),
            middle(|sample| sample.latency_us),
            "us",
        );
        figures.note(
            &format!("{name}.iops"),
            &format!("{label}: rate"),
            middle(|sample| sample.iops),
            "IOPS",
        );
        if links == Links::Insecure {
            continue;
        }
        let added = median(turns.iter().map(|turn| added_cpu_us(turn, mode)));
        let left = median(turns.iter().map(|turn| rate_left(turn, mode)));
        let (added_name, added_label) = (format!("{name}.added_cpu_us"), format!("{label}: CPU beyond insecure"));
        let (left_name, left_label) = (format!("{name}.rate_left"), format!("{label}: of insecure's rate"));
        if links == Links::Auth && one_core && case.depth > 1 {
            let limit = if case.mix == Mix::Write {
                ADDED_WRITE_US
            } else {
                ADDED_READ_US
            };
            figures.at_most(&added_name, &added_label, added, "us", limit);
            figures.at_least(&left_name, &left_label, left, "", RATE_LEFT);
        } else {
            figures.note(&added_name, &added_label, added, "us");
            figures.note(&left_name, &left_label, left, "");
        }
    }
}

/// What a mode takes beyond the first.
fn added_cpu_us(turn: &Turn, mode: usize) -> f64 {
    turn[mode].cpu_us - turn[0].cpu_us
}

/// What is left of the first one's rate.
fn rate_left(turn: &Turn, mode: usize) -> f64 {
    turn[mode].iops / turn[0].iops.max(1e-9)
}

#[cfg(test)]
mod tests;
