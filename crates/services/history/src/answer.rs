//! What nodes answer each other, and how it becomes one answer.

use crate::buckets::{BUCKETS, Buckets, lower_ns};
use crate::metric::{Asked, Kind};
use crate::value::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What one node knows of a figure, with its name: another host's loopback may be somebody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HistoryPart)]
pub struct Parts {
    /// The node's name.
    pub node: String,
    /// Its cluster.
    pub cluster: String,
    /// Does it keep a history?
    pub keeps: bool,
    /// In the order of time; what it does not know is not there.
    pub points: Vec<Part>,
}

/// What one node knows of a figure over an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HistoryPartPoint)]
pub struct Part {
    /// When it began, in seconds since 1970.
    pub at: u64,
    /// For how long figures were taken, in milliseconds.
    pub covered_ms: u64,
    /// Of a rate: what was counted.
    #[serde(default)]
    pub sum: u64,
    /// Of a rate, the most a second in thousandths; of a gauge, the most.
    #[serde(default)]
    pub max: u64,
    /// Of a gauge: its average, and for how many milliseconds it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<(u64, u64)>,
    /// Of a latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Buckets>,
}

impl Part {
    pub(crate) fn new(at: u64) -> Part {
        Part { at, ..Part::default() }
    }

    /// Another interval of the same point, or another figure that is added.
    pub(crate) fn add(&mut self, value: &Value) {
        match value {
            Value::Rate { sum, max_milli } => {
                self.sum = self.sum.saturating_add(*sum);
                self.max = self.max.max(*max_milli);
            }
            Value::Gauge { mean, ms, max } => {
                let mut own = Value::Gauge {
                    mean: self.mean.map_or(0, |(mean, _)| mean),
                    ms: self.mean.map_or(0, |(_, ms)| ms),
                    max: self.max,
                };
                own.follow(&Value::Gauge {
                    mean: *mean,
                    ms: *ms,
                    max: *max,
                });
                if let Value::Gauge { mean, ms, max } = own {
                    self.mean = Some((mean, ms));
                    self.max = max;
                }
            }
            Value::Latency(buckets) => self.latency.get_or_insert_default().add(buckets),
        }
    }
}

/// A figure at a time, of all nodes together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = HistoryPoint)]
pub struct Point {
    /// When its interval began, in seconds since 1970.
    pub at: u64,
    /// The average.
    pub mean: f64,
    /// The maximum. Where several nodes are added, it is theirs added: what it was in all cannot have been more.
    pub max: f64,
    /// Of a latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<Percentiles>,
}

/// What so many of a hundred I/Os did not exceed, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HistoryPercentiles)]
pub struct Percentiles {
    /// Half of them.
    pub p50: u64,
    /// 95 of a hundred.
    pub p95: u64,
    /// 99 of a hundred.
    pub p99: u64,
    /// 999 of a thousand.
    pub p999: u64,
    /// How many I/Os.
    pub count: u64,
}

impl Percentiles {
    /// Of a histogram.
    #[must_use]
    pub fn of(buckets: &Buckets) -> Percentiles {
        Percentiles {
            p50: buckets.permille_ns(500),
            p95: buckets.permille_ns(950),
            p99: buckets.permille_ns(990),
            p999: buckets.permille_ns(999),
            count: buckets.count(),
        }
    }
}

/// The histogram of each interval, of all nodes together.
#[must_use]
pub fn latencies<'a>(pages: impl IntoIterator<Item = &'a Parts>) -> BTreeMap<u64, Buckets> {
    let mut all: BTreeMap<u64, Buckets> = BTreeMap::new();
    for part in pages.into_iter().flat_map(|page| &page.points) {
        if let Some(latency) = &part.latency {
            all.entry(part.at).or_default().add(latency);
        }
    }
    all
}

/// The figure over time, of all nodes together. An interval in which nobody took figures has no point; one without I/O has no latency.
#[must_use]
pub fn points<'a>(asked: Asked, pages: impl IntoIterator<Item = &'a Parts>) -> Vec<Point> {
    if asked.kind() == Kind::Latency {
        let all = latencies(pages).into_iter().filter(|(_, buckets)| !buckets.is_empty());
        return all
            .map(|(at, buckets)| Point {
                at,
                mean: buckets.mean_ns() as f64,
                max: buckets.longest_ns() as f64,
                percentiles: Some(Percentiles::of(&buckets)),
            })
            .collect();
    }
    let mut all: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for part in pages.into_iter().flat_map(|page| &page.points) {
        let found = match (asked.kind(), part.mean) {
            (Kind::Gauge, Some((mean, _))) => (mean as f64, part.max as f64),
            (Kind::Rate, _) if part.covered_ms > 0 => {
                let mean = part.sum as f64 * 1000.0 / part.covered_ms as f64;
                (mean / asked.scale(), part.max as f64 / 1000.0 / asked.scale())
            }
            _ => continue,
        };
        let sum = all.entry(part.at).or_default();
        *sum = (sum.0 + found.0, sum.1 + found.1);
    }
    let point = |(at, (mean, max))| Point {
        at,
        mean,
        // What was written by its average of an interval that was not quite whole.
        max: f64::max(mean, max),
        percentiles: None,
    };
    all.into_iter().map(point).collect()
}

/// A volume or store over a span of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TopRow)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Reads and writes.
    pub ios: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// How long they took.
    pub latency: Buckets,
}

impl Row {
    pub(crate) fn new(name: &str) -> Row {
        Row {
            name: name.to_owned(),
            ios: 0,
            bytes: 0,
            latency: Buckets::default(),
        }
    }

    pub(crate) fn add(&mut self, other: &Row) {
        self.ios = self.ios.saturating_add(other.ios);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.latency.add(&other.latency);
    }

    pub(crate) fn weight(&self) -> u64 {
        self.ios.saturating_mul(4096).saturating_add(self.bytes)
    }
}

/// What was most active at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TopPart)]
pub struct TopPart {
    /// The node's name.
    pub node: String,
    /// Its cluster.
    pub cluster: String,
    /// Does it keep a history?
    pub keeps: bool,
    /// For how long figures were taken, in milliseconds.
    pub covered_ms: u64,
    /// The busiest first.
    pub rows: Vec<Row>,
    /// All others together.
    pub rest: Row,
}

impl TopPart {
    /// Of a node that keeps no history.
    #[must_use]
    pub fn none(node: &str, cluster: &str) -> TopPart {
        TopPart {
            node: node.to_owned(),
            cluster: cluster.to_owned(),
            keeps: false,
            covered_ms: 0,
            rows: Vec::new(),
            rest: Row::new(""),
        }
    }
}

/// By what the most active are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TopBy)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Reads and writes.
    #[default]
    Iops,
    /// Bytes read and written.
    Bytes,
    /// The latency that 99 of a hundred do not exceed.
    Latency,
}

/// The most active of all nodes, `limit` of them, and all others together.
#[must_use]
pub fn top(parts: &[TopPart], by: By, limit: usize) -> (Vec<Row>, Row) {
    let mut all: BTreeMap<&str, Row> = BTreeMap::new();
    let mut rest = Row::new("");
    for part in parts {
        rest.add(&part.rest);
        for row in &part.rows {
            all.entry(&row.name).or_insert_with(|| Row::new(&row.name)).add(row);
        }
    }
    let mut rows: Vec<Row> = all.into_values().collect();
    let key = |row: &Row| match by {
        By::Iops => row.ios,
        By::Bytes => row.bytes,
        By::Latency => row.latency.permille_ns(990),
    };
    rows.sort_by_cached_key(|row| (std::cmp::Reverse(key(row)), row.name.clone()));
    for row in rows.drain(limit.min(rows.len())..) {
        rest.add(&row);
    }
    (rows, rest)
}

/// Time by latency: how many I/Os took how long when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HeatmapPart)]
pub struct Heatmap {
    /// Where each row of latencies begins, in nanoseconds, from the quickest up; where the last one ends stands behind them.
    pub bounds_ns: Vec<u64>,
    /// Intervals in which there was I/O.
    pub columns: Vec<Column>,
}

/// An interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HeatmapColumn)]
pub struct Column {
    /// When it began, in seconds since 1970.
    pub at: u64,
    /// How many I/Os each row has.
    pub counts: Vec<u64>,
}

/// Two rows to each doubling.
const ROW_BUCKETS: u16 = 4;

/// A heat map, of the rows that hold something and what lies between them.
#[must_use]
pub fn heatmap<'a>(pages: impl IntoIterator<Item = &'a Parts>) -> Heatmap {
    let all = latencies(pages);
    let rows = all.values().flat_map(Buckets::counts).map(|(at, _)| at / ROW_BUCKETS);
    let (Some(first), Some(last)) = (rows.clone().min(), rows.max()) else {
        return Heatmap::default();
    };
    let begin = |row: u16| match (row * ROW_BUCKETS).cmp(&BUCKETS) {
        std::cmp::Ordering::Less => lower_ns(row * ROW_BUCKETS),
        _ => crate::buckets::upper_ns(BUCKETS - 1),
    };
    let columns = all.into_iter().filter(|(_, buckets)| !buckets.is_empty());
    let columns = columns.map(|(at, buckets)| {
        let mut counts = vec![0_u64; usize::from(last - first) + 1];
        for (bucket, count) in buckets.counts() {
            let row = &mut counts[usize::from(bucket / ROW_BUCKETS - first)];
            *row = row.saturating_add(*count);
        }
        Column { at, counts }
    });
    Heatmap {
        bounds_ns: (first..=last + 1).map(begin).collect(),
        columns: columns.collect(),
    }
}
