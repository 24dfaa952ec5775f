//! What it costs that nodes prove who they are and protect what passes between them: one cluster for each mode, side by
//! side, which take turns at the same I/O.

use crate::case::{Case, Front, Mix, Placement};
use crate::client::Clients;
use crate::measure::Measure;
use crate::median;
use crate::report::Figures;
use crate::site::Site;
use crate::testbed::{Product, Testbed};
use crate::turns::{self, Sample, Turn, added_cpu_us, rate_left};
use amita_harness::cluster::Links;
use amita_terminal::error::Result;
use amita_terminal::progress::Steps;

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
const DEPTHS: [u32; 2] = [1, 32];

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
    measuring.time = turns::TURN;
    for mix in [Mix::Write, Mix::Read] {
        for depth in DEPTHS {
            for placement in [Placement::OneCore, Placement::TwoCores] {
                let case = Case {
                    placement,
                    ..Case::new(Front::Libamita, mix, depth)
                };
                let turns = steps.step(&format!("links in turns, {}", case.label()), || {
                    turns::take(measuring, &mut sites, &case)
                })?;
                judge(&case, &turns, figures);
            }
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests;
