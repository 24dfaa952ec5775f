//! `amita history`: what a cluster, a node, a store, a core or a volume did: an hour ago, yesterday, last week.

use super::events::parse_age;
use crate::admin::Admin;
use crate::by_api::rest::{Rest, encode};
use crate::cli::Endpoints;
use crate::commands::join::Described as _;
use crate::logging::timestamp;
use amita_history::{Asked, Subject, ask};
use amita_identity::{Clock, Live};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Rows of the table, where nobody asks for more.
const USUAL_ROWS: u64 = 24;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// `amita history`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Of what: cluster, node/NAME, store/UUID, core/NODE/NUMBER or volume/NAME
    #[arg(value_name = "OBJECT")]
    pub object: Subject,
    /// Which figure: iops, bytes, latency, used, cpu, recovery, ... (a wrong one is answered with all of them)
    #[arg(value_name = "METRIC", value_parser = parse_metric)]
    pub metric: Metric,
    /// From so long ago on: 10m, 1h, 7d
    #[arg(long, value_name = "AGE", default_value = "1h", value_parser = parse_age)]
    pub since: Duration,
    /// A line for each so long a time: 10s, 5m, 1d [default: 24 lines]
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    pub step: Option<Duration>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// A figure that there is.
#[derive(Clone, Copy, Debug)]
pub struct Metric(Asked);

fn parse_metric(text: &str) -> std::result::Result<Metric, String> {
    let names: Vec<&str> = Asked::names().collect();
    Asked::named(text)
        .map(Metric)
        .ok_or_else(|| format!("there is no such figure; there are {}", names.join(", ")))
}

/// What the API answers, as far as the table has it.
#[derive(Debug, Deserialize)]
struct Answer {
    unit: String,
    step_s: u64,
    points: Vec<Point>,
    missing: Vec<Missing>,
}

#[derive(Debug, Deserialize)]
struct Point {
    at: u64,
    mean: f64,
    max: f64,
    percentiles: Option<Percentiles>,
}

#[derive(Debug, Deserialize)]
struct Percentiles {
    p50: u64,
    p99: u64,
}

#[derive(Debug, Deserialize)]
struct Missing {
    node: String,
    why: String,
}

/// Shows it. Any node that answers will do.
///
/// # Errors
/// The metadata cannot be reached, no node answers, or the question has no answer.
pub fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    let nodes = Admin::connect(metadata)?.status()?.nodes;
    let identity = match metadata.identity() {
        Some(folder) => Some(Live::open(folder, Clock::system()).described()?),
        None => None,
    };
    let path = path(arguments);
    let places = nodes.into_iter().filter(|found| found.alive);
    let places = places.filter_map(|found| found.node.api.map(|api| (found.node.name, api)));
    let answer = first(places, &path, identity.as_ref())?;
    show(arguments, &answer)
}

/// The same by the API.
///
/// # Errors
/// No node answers, or the question has no answer.
pub fn run_by_api(arguments: &Arguments, rest: &Rest) -> Result<()> {
    show(arguments, &rest.get(&path(arguments))?)
}

/// What is asked for.
fn path(arguments: &Arguments) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let since = arguments.since.as_secs().max(1);
    let step = arguments.step.map_or(since.div_ceil(USUAL_ROWS), |step| step.as_secs());
    format!(
        "/api/v1/history?object={}&metric={}&from={}&to={now}&step={step}",
        encode(&arguments.object.to_string()),
        arguments.metric.0.name,
        now.saturating_sub(since)
    )
}

fn show(arguments: &Arguments, answer: &Value) -> Result<()> {
    let read: Answer = serde_json::from_value(answer.clone()).map_err(|why| {
        Failure::new(format!("the answer is of another form: {why}")).advice("Is the node of another version?")
    })?;
    for Missing { node, why } in &read.missing {
        log::warn!("node {node} is not in it: {why}");
    }
    print(arguments.json, answer, || text(&read))
}

/// The first answer of a node that has one; who refuses is believed. `places`: nodes' names, and where their APIs are.
pub(super) fn first(
    places: impl Iterator<Item = (String, String)>,
    path: &str,
    identity: Option<&Arc<Live>>,
) -> Result<Value> {
    let mut silent = Vec::new();
    for (node, address) in places {
        match ask::get_blocking(&address, &node, path, identity) {
            Ok(said) if said.status == 200 => {
                return serde_json::from_slice(&said.body)
                    .map_err(|why| Failure::new(format!("node {node} answers with no JSON: {why}")));
            }
            Ok(said) if (400..500).contains(&said.status) && ![404, 421, 429].contains(&said.status) => {
                let kind = match said.status {
                    400 | 422 => Kind::Usage,
                    _ => Kind::Failed,
                };
                let why = said.done().err().unwrap_or_default();
                return Err(Failure::new(format!("node {node}: {why}")).kind(kind));
            }
            Ok(said) => silent.push(format!("node {node}: {}", said.done().err().unwrap_or_default())),
            Err(why) => silent.push(format!("node {node}: {why}")),
        }
    }
    let why = if silent.is_empty() {
        "no node that lives serves the API".to_owned()
    } else {
        format!("no node answers\n{}", silent.join("\n"))
    };
    Err(Failure::new(why)
        .kind(Kind::Unreachable)
        .advice("Without an identity nodes answer on their own machine only; `amita serve --api` says where."))
}

fn shown(value: f64, unit: &str) -> String {
    match unit {
        "ns" => super::trace::time(value as u64),
        "B" => size::show(value as u64),
        "B/s" => format!("{:.1} MB/s", value / 1e6),
        "processors" => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

fn text(answer: &Answer) -> String {
    if answer.points.is_empty() {
        return "Nothing is known of that time. (History begins when a node keeps one; a figure of ten seconds is there after them.)\n".to_owned();
    }
    let unit = answer.unit.as_str();
    let latency = answer.points.iter().any(|point| point.percentiles.is_some());
    let mut table = match latency {
        true => Table::new(&["time (UTC)", "mean", "p50", "p99", "longest", ""]),
        false => Table::new(&["time (UTC)", "average", "maximum", ""]),
    };
    let most = answer.points.iter().map(|point| point.mean).fold(0.0, f64::max);
    for point in &answer.points {
        let mut row = vec![timestamp(point.at, 0), shown(point.mean, unit)];
        if let Some(found) = &point.percentiles {
            row.extend([shown(found.p50 as f64, unit), shown(found.p99 as f64, unit)]);
        }
        row.extend([shown(point.max, unit), bar(point.mean, most).to_string()]);
        table.row(row);
    }
    format!("{}\n\n{}", sparkline(&answer.points, answer.step_s, most), table.text())
}

fn bar(value: f64, most: f64) -> char {
    let last = BARS.len() - 1;
    let at = if most > 0.0 {
        (value / most * last as f64).round() as usize
    } else {
        0
    };
    BARS[at.min(last)]
}

/// The averages side by side; a gap where nothing is known.
fn sparkline(points: &[Point], step_s: u64, most: f64) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    let mut line = String::new();
    let mut at = first.at;
    let mut points = points.iter().peekable();
    while at <= last.at {
        let found = points.next_if(|point| point.at <= at);
        line.push(found.map_or(' ', |point| bar(point.mean, most)));
        at += step_s.max(1);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: u64, mean: f64) -> Point {
        Point {
            at,
            mean,
            max: mean,
            percentiles: None,
        }
    }

    #[test]
    fn a_sparkline_has_gaps_where_nothing_is_known() {
        let points = [point(100, 0.0), point(110, 70.0), point(130, 35.0)];
        assert_eq!(sparkline(&points, 10, 70.0), "▁█ ▅");
        assert_eq!(sparkline(&[point(0, 0.0)], 10, 0.0), "▁");
    }

    #[test]
    fn figures_are_shown_in_their_unit() {
        assert_eq!(shown(12_345.0, "ns"), "12.3 us");
        assert_eq!(shown(2_500_000.0, "B/s"), "2.5 MB/s");
        assert_eq!(shown(0.5, "processors"), "0.50");
        assert_eq!(shown(1234.4, "1/s"), "1234");
    }
}
