//! The judged rows: the cost of one I/O on its whole path, beside what it must reach.

use crate::case::{Case, Filter, Front, Mix, Order, Placement};
use crate::measure::{Measure, SystemUnderTest};
use crate::report::Figures;
use crate::row::Row;
use crate::units::Units;
use amita_terminal::error::Result;
use amita_terminal::progress::Steps;

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// CPU of all processes per I/O, in P.
    CpuP,
    /// Mean latency in R.
    LatencyR,
    /// Mean latency in P.
    LatencyP,
    /// I/Os a second.
    Iops,
    /// GB (10^9 bytes) a second.
    Bandwidth,
}

/// A figure that a case must reach, and what others reach on a machine of this kind (P = 12 us, R = 57 us).
#[derive(Clone, Copy, Debug)]
struct Target {
    what: What,
    limit: f64,
    peers: &'static str,
}

const fn target(what: What, limit: f64, peers: &'static str) -> Target {
    Target { what, limit, peers }
}

/// A case with what it must reach.
#[derive(Clone, Debug)]
struct Judged {
    case: Case,
    targets: Vec<Target>,
}

/// The table of the judged rows by one client.
fn judged(front: Front) -> Vec<Judged> {
    [Mix::Write, Mix::Read]
        .into_iter()
        .flat_map(|mix| judged_mix(front, mix))
        .collect()
}

fn judged_mix(front: Front, mix: Mix) -> Vec<Judged> {
    let write = mix == Mix::Write;
    // One of the two, by the direction.
    let by = |of_write: f64, of_read: f64| if write { of_write } else { of_read };
    let peers = |of_write: &'static str, of_read: &'static str| if write { of_write } else { of_read };
    let deep = Case::new(front, mix, 32);
    let shallow = Case::new(front, mix, 1);
    let large = Case {
        block_bytes: 128 << 10,
        order: Order::Random,
        ..Case::new(front, mix, 16)
    };
    let one_core = |case: &Case| Case {
        placement: Placement::OneCore,
        ..case.clone()
    };
    let row = |case: &Case, targets: Vec<Target>| Judged {
        case: case.clone(),
        targets,
    };
    let cpu_peers = peers("Vitastor 3.6 to 6.0, Ceph 45", "Vitastor 1.2 to 2.1, Ceph 4.4");
    let latency_peers = peers("Vitastor 3.1, Ceph 15", "Vitastor 1.1, Ceph 3.2");
    let one_core_peers = peers("Vitastor 9.3", "Vitastor 2.6");
    let iops_peers = peers("Vitastor 42000, Ceph 3600", "Vitastor 70000, Ceph 35000");
    let bandwidth_peers = peers("Vitastor 0.65 to 0.96, Ceph 0.15", "Vitastor 2.2 to 3.4, Ceph 1.2");
    match front {
        Front::Local if write => Vec::new(),
        Front::Local => vec![row(&deep, vec![target(What::CpuP, 0.15, "")])],
        Front::Nbd => {
            let cpu = target(What::CpuP, by(1.2, 0.9), "");
            vec![
                row(&deep, vec![cpu]),
                row(&one_core(&deep), vec![cpu]),
                row(&shallow, vec![target(What::LatencyR, by(2.0, 1.0), "")]),
                row(&one_core(&shallow), vec![]),
            ]
        }
        _ => {
            let cpu = target(What::CpuP, by(0.7, 0.4), cpu_peers);
            vec![
                row(
                    &deep,
                    vec![cpu, target(What::Iops, by(168_000.0, 280_000.0), iops_peers)],
                ),
                row(&one_core(&deep), vec![cpu]),
                row(&shallow, vec![target(What::LatencyR, by(0.8, 0.4), latency_peers)]),
                row(
                    &one_core(&shallow),
                    vec![target(What::LatencyP, by(4.5, 1.8), one_core_peers)],
                ),
                row(&large, vec![target(What::Bandwidth, by(1.25, 5.1), bandwidth_peers)]),
            ]
        }
    }
}

/// Measures the rows of one client that the filter lets pass.
///
/// # Errors
/// When something does not start, or an I/O fails.
pub fn measure(
    steps: &mut Steps,
    measure: &mut Measure,
    system: &mut dyn SystemUnderTest,
    front: Front,
    filter: &Filter,
    figures: &mut Figures,
) -> Result<()> {
    for judged in judged(front).into_iter().filter(|judged| filter.lets(&judged.case)) {
        let row = measure.case(steps, system, &judged.case, true)?;
        judge(&judged, &row, &measure.units, figures);
    }
    Ok(())
}

/// A row's name among the figures. What goes by NBD was there first, and is called `path`.
fn name(row: &Row) -> String {
    match row.key.strip_prefix("nbd.") {
        Some(rest) => format!("path.{rest}"),
        None => row.key.clone(),
    }
}

fn judge(judged: &Judged, row: &Row, units: &Units, figures: &mut Figures) {
    let (name, label) = (name(row), judged.case.label());
    let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let mean = row.latency().mean;
    for target in &judged.targets {
        let (figure, text, value, unit, at_least) = match target.what {
            What::CpuP => ("cpu_p", "CPU", row.cpu_p, "P", false),
            What::LatencyR => ("latency_r", "latency", mean / us(units.r), "R", false),
            What::LatencyP => ("latency_p", "latency", mean / us(units.p), "P", false),
            What::Iops => ("iops", "rate", row.iops, "IOPS", true),
            What::Bandwidth => ("gb_s", "bandwidth", row.mib_s * f64::from(1 << 20) / 1e9, "GB/s", true),
        };
        let peers = if target.peers.is_empty() {
            String::new()
        } else {
            format!(" ({})", target.peers)
        };
        let (name, label) = (format!("{name}.{figure}"), format!("{label}: {text}{peers}"));
        if at_least {
            figures.at_least(&name, &label, value, unit, target.limit);
        } else {
            figures.at_most(&name, &label, value, unit, target.limit);
        }
    }
    let is_judged = |what: What| judged.targets.iter().any(|target| target.what == what);
    let mut note = |figure: &str, text: &str, value: f64, unit: &'static str| {
        figures.note(&format!("{name}.{figure}"), &format!("{label}: {text}"), value, unit);
    };
    note("cpu_us", "CPU", row.cpu_total_us, "us");
    if let Some(&fio) = row.cpu_us.get("fio") {
        note("fio_cpu_us", "of that fio", fio, "us");
    }
    if !is_judged(What::Iops) {
        note("iops", "rate", row.iops, "IOPS");
    }
    note("latency_us", "latency", mean, "us");
    note("p99_us", "p99", row.latency().p99, "us");
}

#[cfg(test)]
mod tests;
