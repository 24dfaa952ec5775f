//! What one case came to: a line of the table.

use crate::case::Case;
use crate::units::Units;
use crate::usage::{Foreign, Usage};
use amita_harness::fio;
use amita_terminal::table::Table;
use amita_testkit::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Latencies, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub mean: f64,
    /// Half are faster.
    pub p50: f64,
    /// 99 of 100 are faster.
    pub p99: f64,
    /// 999 of 1000 are faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

impl Latency {
    /// Of what was counted.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Latency {
        Latency {
            mean: us(histogram.mean()),
            p50: us(histogram.quantile(0.5)),
            p99: us(histogram.quantile(0.99)),
            p999: us(histogram.quantile(0.999)),
            max: us(histogram.max()),
        }
    }
}

impl From<fio::Latency> for Latency {
    fn from(found: fio::Latency) -> Latency {
        Latency {
            mean: us(found.mean),
            p50: us(found.p50),
            p99: us(found.p99),
            p999: us(found.p999),
            max: us(found.max),
        }
    }
}

/// What a client did and saw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// I/Os a second.
    pub iops: f64,
    /// Reads; all zero where there were none.
    pub read: Latency,
    /// Writes; all zero where there were none.
    pub write: Latency,
    /// How much the rate's mean may be off by chance, as a share of it.
    pub noise: f64,
}

/// What one case came to. Numbers keep four digits: more of them is noise, and results are kept for years.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case's name.
    pub key: String,
    pub case: Case,
    /// How long was measured, in seconds.
    pub seconds: f64,
    /// I/Os a second.
    pub iops: f64,
    /// MiB a second.
    pub mib_s: f64,
    /// Of reads, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_us: Option<Latency>,
    /// Of writes, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_us: Option<Latency>,
    /// CPU per I/O of each process, in microseconds.
    pub cpu_us: BTreeMap<String, f64>,
    /// CPU per I/O of all, in microseconds.
    pub cpu_total_us: f64,
    /// The same in P.
    pub cpu_p: f64,
    /// Times per I/O that a thread went to sleep.
    pub sleeps: f64,
    /// Times per I/O that a thread was put aside for another.
    pub preemptions: f64,
    /// System calls per I/O; `None`: not measured.
    pub system_calls: Option<BTreeMap<String, f64>>,
    /// Allocations per I/O; `None`: not measured.
    pub allocations: Option<BTreeMap<String, f64>>,
    /// Bytes that all stores together wrote, per byte that the client wrote; `None`: not measured, or nothing written.
    pub written_per_byte: Option<f64>,
    /// What others did on the machine meanwhile.
    pub foreign: Foreign,
    /// Did they do more than is allowed, in every attempt?
    pub disturbed: bool,
    /// How often it was tried.
    pub attempts: u32,
    /// How much IOPS may be off by chance, as a share.
    pub noise: f64,
}

impl Row {
    /// Puts together what the client and the processes say, and how many bytes all stores wrote, where they told.
    #[must_use]
    pub fn new(case: &Case, done: &Done, usage: &Usage, units: &Units, stores_wrote: Option<u64>) -> Row {
        let ios = (done.iops * usage.length.as_secs_f64()).max(1.0);
        let cpu_us = usage
            .by_name
            .iter()
            .map(|(name, used)| (name.clone(), digits(us(used.cpu) / ios)))
            .collect();
        let cpu_total_us = us(usage.cpu()) / ios;
        let all = usage.by_name.values();
        let reads = f64::from(case.mix.read_percent()) / 100.0;
        let direction = |latency: Latency, share: f64| {
            (share > 0.0).then_some(Latency {
                mean: digits(latency.mean),
                p50: digits(latency.p50),
                p99: digits(latency.p99),
                p999: digits(latency.p999),
                max: digits(latency.max),
            })
        };
        let written = (1.0 - reads) * ios * f64::from(case.block_bytes);
        Row {
            key: case.key(),
            case: case.clone(),
            seconds: digits(usage.length.as_secs_f64()),
            iops: digits(done.iops),
            mib_s: digits(done.iops * f64::from(case.block_bytes) / f64::from(1 << 20)),
            read_us: direction(done.read, reads),
            write_us: direction(done.write, 1.0 - reads),
            cpu_us,
            cpu_total_us: digits(cpu_total_us),
            cpu_p: digits(cpu_total_us / us(units.p)),
            sleeps: digits(all.clone().map(|used| used.voluntary).sum::<u64>() as f64 / ios),
            preemptions: digits(all.map(|used| used.involuntary).sum::<u64>() as f64 / ios),
            system_calls: None,
            allocations: None,
            written_per_byte: stores_wrote
                .filter(|_| written > 0.0)
                .map(|bytes| digits(bytes as f64 / written)),
            foreign: Foreign {
                percent: digits(usage.foreign.percent),
                steal_percent: digits(usage.foreign.steal_percent),
            },
            disturbed: false,
            attempts: 1,
            noise: digits(done.noise),
        }
    }

    /// The latency that stands for the row: of reads where there are any.
    #[must_use]
    pub fn latency(&self) -> Latency {
        self.read_us.or(self.write_us).unwrap_or_default()
    }
}

/// As a Markdown table.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        "case",
        "IOPS",
        "MiB/s",
        "mean us",
        "p50",
        "p99",
        "p99.9",
        "max",
        "CPU us",
        "CPU P",
        "CPU by process",
        "syscalls",
        "sleeps",
        "preempted",
        "allocations",
        "written per byte",
        "foreign %",
    ]);
    for row in rows {
        let (reads, writes) = (row.read_us, row.write_us);
        // Of a mix both are shown, reads first.
        let pair = |of: fn(Latency) -> f64| {
            let each = [reads, writes].into_iter().flatten().map(|latency| show(of(latency)));
            each.collect::<Vec<_>>().join(" / ")
        };
        table.row([
            format!("`{}`", row.key),
            format!("{:.0}", row.iops),
            show(row.mib_s),
            pair(|latency| latency.mean),
            pair(|latency| latency.p50),
            pair(|latency| latency.p99),
            pair(|latency| latency.p999),
            pair(|latency| latency.max),
            show(row.cpu_total_us),
            format!("{:.2}", row.cpu_p),
            by_process(&row.cpu_us),
            counted(row.system_calls.as_ref()),
            format!("{:.2}", row.sleeps),
            format!("{:.2}", row.preemptions),
            counted(row.allocations.as_ref()),
            row.written_per_byte.map(show).unwrap_or_else(|| "-".to_owned()),
            format!(
                "{:.0}{}",
                row.foreign.sum(),
                if row.disturbed { " DISTURBED" } else { "" }
            ),
        ]);
    }
    table.markdown()
}

fn by_process(of: &BTreeMap<String, f64>) -> String {
    let each = of.iter().filter(|(_, value)| **value >= 0.005);
    let each = each.map(|(name, value)| format!("{name} {value:.2}"));
    each.collect::<Vec<_>>().join(", ")
}

fn counted(of: Option<&BTreeMap<String, f64>>) -> String {
    let Some(of) = of else { return "-".to_owned() };
    format!("{:.2}", of.values().sum::<f64>())
}

/// Microseconds.
fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Four digits that matter.
fn digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// Three digits that matter, for people.
#[must_use]
pub fn show(value: f64) -> String {
    if value == 0.0 || value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests;
