//! The model beside the machine: what `amita-bench` measured of the whole path, what the model says of the same, and
//! costs fitted to it.
//!
//! The costs come from benches of the crates, each alone. Two things move them to another machine or a newer build:
//! first all of them go with P, the CPU of a loopback round trip, which the bench measures in the same run; then each
//! family of costs ([`Family`]) gets one factor, chosen so that some figures of the path come out ([`Figure::fitted`]).
//! The others are left to say whether the model is any good.

use super::costs::{Costs, Family};
use super::machine::{Machine, Placement, Processors};
use super::path::{Asking, Load, Stale};
use super::run::{Outcome, Span, run};
use serde::Deserialize;
use std::collections::BTreeMap;

/// P where the costs of [`Costs::measured`] were measured, in microseconds.
pub const P_US: f64 = 5.7;

/// How far a figure may be off, as a part of what was measured.
pub const TOLERANCE: f64 = 0.15;

/// The figures of a bench by their names.
#[derive(Clone, Debug, Default)]
pub struct Measured(BTreeMap<String, f64>);

#[derive(Deserialize)]
struct Entry {
    name: String,
    value: f64,
}

impl Measured {
    /// From the JSON that `amita-bench` leaves.
    ///
    /// # Errors
    /// It is not an array of `{"name", "value"}`.
    pub fn parse(json: &str) -> Result<Measured, serde_json::Error> {
        let entries: Vec<Entry> = serde_json::from_str(json)?;
        Ok(Measured(
            entries.into_iter().map(|entry| (entry.name, entry.value)).collect(),
        ))
    }

    /// The bench that is kept beside the model: `docs/benchmarks/first-slice.md`.
    ///
    /// # Panics
    /// Never: the file is part of the program, and a test reads it.
    #[must_use]
    pub fn stored() -> Measured {
        Measured::parse(include_str!("first-slice.json")).expect("read by a test")
    }

    /// The figure of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// What is taken of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Cpu,
    Host,
    Iops,
    Latency,
}

/// One figure of the path that the model can say something of.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// As in the bench's JSON.
    pub name: &'static str,
    writes: u64,
    depth: usize,
    processors: Processors,
    what: What,
    /// Costs are fitted to it.
    pub fitted: bool,
}

const fn figure(
    name: &'static str,
    writes: u64,
    depth: usize,
    processors: Processors,
    what: What,
    fitted: bool,
) -> Figure {
    Figure {
        name,
        writes,
        depth,
        processors,
        what,
        fitted,
    }
}

/// All figures that are compared.
pub const FIGURES: &[Figure] = &[
    figure(
        "path.write.4k.qd32.one_core.cpu_us",
        100,
        32,
        Processors::One,
        What::Cpu,
        true,
    ),
    figure(
        "path.read.4k.qd32.one_core.cpu_us",
        0,
        32,
        Processors::One,
        What::Cpu,
        true,
    ),
    figure(
        "path.write.4k.qd1.latency_us",
        100,
        1,
        Processors::Two,
        What::Latency,
        true,
    ),
    figure(
        "path.read.4k.qd1.latency_us",
        0,
        1,
        Processors::Two,
        What::Latency,
        true,
    ),
    figure("path.read.4k.qd32.fio_cpu_us", 0, 32, Processors::Two, What::Host, true),
    figure("path.write.4k.qd1.cpu_us", 100, 1, Processors::Two, What::Cpu, false),
    figure("path.read.4k.qd1.cpu_us", 0, 1, Processors::Two, What::Cpu, false),
    figure("path.write.4k.qd32.cpu_us", 100, 32, Processors::Two, What::Cpu, false),
    figure("path.read.4k.qd32.cpu_us", 0, 32, Processors::Two, What::Cpu, false),
    figure(
        "path.write.4k.qd32.fio_cpu_us",
        100,
        32,
        Processors::Two,
        What::Host,
        false,
    ),
    figure("path.write.4k.qd32.iops", 100, 32, Processors::Two, What::Iops, false),
    figure("path.read.4k.qd32.iops", 0, 32, Processors::Two, What::Iops, false),
    figure(
        "path.write.4k.qd32.one_core.iops",
        100,
        32,
        Processors::One,
        What::Iops,
        false,
    ),
    figure(
        "path.read.4k.qd32.one_core.iops",
        0,
        32,
        Processors::One,
        What::Iops,
        false,
    ),
];

/// A figure as measured and as the model has it.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    pub figure: Figure,
    /// By the bench.
    pub measured: f64,
    /// By the model.
    pub predicted: f64,
}

impl Compared {
    /// The prediction over the measurement, less one.
    #[must_use]
    pub fn off(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

impl Figure {
    fn of(&self, outcome: &Outcome) -> f64 {
        match self.what {
            What::Cpu => outcome.cpu_us,
            What::Host => outcome.host_us,
            What::Iops => outcome.iops,
            What::Latency => outcome.mean_us,
        }
    }
}

/// Runs the bench's workload in the model.
#[must_use]
pub fn bench(costs: &Costs, writes: u64, depth: usize, processors: Processors) -> Outcome {
    let machine = Machine::bench(processors);
    let placement = Placement::plan(&machine).expect("three nodes for three copies");
    let load = Load {
        writes,
        asking: Asking::Closed { sessions: 1, depth },
        gateways: 1,
        volumes: 1,
        // One volume on three stores: their leases are always fresh.
        stale: Stale::default(),
    };
    let span = Span {
        warm_ns: 20_000_000,
        measured_ns: 100_000_000,
    };
    run(&machine, &placement, costs, load, span, 1)
}

/// The model beside what was measured; figures that the bench does not have are left out.
#[must_use]
pub fn compare(costs: &Costs, measured: &Measured) -> Vec<Compared> {
    compare_some(costs, measured, |_| true)
}

fn compare_some(costs: &Costs, measured: &Measured, which: impl Fn(&Figure) -> bool) -> Vec<Compared> {
    let mut known: Vec<((u64, usize, Processors), Outcome)> = Vec::new();
    let mut compared = Vec::new();
    for &figure in FIGURES.iter().filter(|figure| which(figure)) {
        let Some(found) = measured.get(figure.name) else {
            continue;
        };
        let key = (figure.writes, figure.depth, figure.processors);
        if !known.iter().any(|(other, _)| *other == key) {
            known.push((key, bench(costs, figure.writes, figure.depth, figure.processors)));
        }
        let outcome = known
            .iter()
            .find(|(other, _)| *other == key)
            .map(|(_, outcome)| outcome);
        compared.push(Compared {
            figure,
            measured: found,
            predicted: outcome.map_or(0.0, |outcome| figure.of(outcome)),
        });
    }
    compared
}

/// The families that are fitted, in turn.
const FITTED: [Family; 4] = [Family::Code, Family::Kernel, Family::Cross, Family::Host];

/// The costs moved to the machine and the build of a bench, and the factor of each family (on top of P's).
#[must_use]
pub fn fit(measured: &Measured) -> (Costs, Vec<(Family, f64)>) {
    let mut costs = by_p(measured);
    let mut factors: Vec<(Family, f64)> = FITTED.iter().map(|&family| (family, 1.0)).collect();
    let mut best = error(&costs, measured);
    let mut step = 1.2_f64;
    // Each family a little up or down as long as that helps, then by smaller steps.
    while step > 1.01 {
        let mut moved = false;
        for (family, factor) in &mut factors {
            for by in [step, 1.0 / step] {
                // No family is moved beyond belief: what that would hide is a fault of the model.
                if !(0.5..=2.0).contains(&(*factor * by)) {
                    continue;
                }
                let mut tried = costs.clone();
                tried.scale(*family, by);
                let found = error(&tried, measured);
                if found < best {
                    (best, costs, moved) = (found, tried, true);
                    *factor *= by;
                    break;
                }
            }
        }
        if !moved {
            step = step.sqrt();
        }
    }
    (costs, factors)
}

/// The costs as the benches of the crates have them, moved with P.
#[must_use]
pub fn by_p(measured: &Measured) -> Costs {
    let mut costs = Costs::measured();
    if let Some(p) = measured.get("unit.p_us") {
        for family in [Family::Code, Family::Kernel, Family::Wake, Family::Host] {
            costs.scale(family, p / P_US);
        }
    }
    costs
}

/// The squares of the logarithms of what is off, over the fitted figures.
fn error(costs: &Costs, measured: &Measured) -> f64 {
    compare_some(costs, measured, |figure| figure.fitted)
        .iter()
        .map(|compared| (compared.predicted / compared.measured).ln().powi(2))
        .sum()
}
