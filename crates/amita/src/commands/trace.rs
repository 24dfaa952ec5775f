//! `amita trace`: where the time of single I/Os went.

use crate::by_api::rest::{Rest, encode};
use crate::cli::Endpoints;
use crate::nodes::{Asked, Nodes};
use amita_node::observe::{LegPage, StagePage, TracePage, TracesPage};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;
use amita_terminal::table::print;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The width of a waterfall, in letters.
const WIDTH: u64 = 48;

/// `amita trace`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Of this volume only
    #[arg(long, value_name = "VOLUME")]
    pub volume: Option<String>,
    /// Those that took longer than they should: every one of them is kept, traced or not
    #[arg(long)]
    pub slow: bool,
    /// The last so many
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub count: usize,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// A trace, with the names of nodes.
#[derive(Debug, Serialize)]
struct Shown {
    /// The gateway's name.
    node: String,
    #[serde(flatten)]
    trace: TracePage,
    /// The node of the store that answered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_node: Option<String>,
    /// The node of the store that never answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed_node: Option<String>,
}

/// Shows the last traces of all nodes.
///
/// # Errors
/// When the metadata cannot be reached, there is no such volume, or no node answers.
pub fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    let nodes = Nodes::find(metadata)?;
    let mut path = format!("/traces?count={}&slow={}", arguments.count, u8::from(arguments.slow));
    if let Some(volume) = &arguments.volume {
        nodes.check_volume(volume)?;
        let _ = write!(path, "&volume={volume}");
    }
    let stores = nodes.stores();
    let mut shown = Vec::new();
    let mut silent = Vec::new();
    for Asked { node, answer } in nodes.ask::<TracesPage>(&path) {
        match answer {
            Ok(page) => shown.extend(page.traces.into_iter().map(|trace| Shown::new(&node, trace, &stores))),
            Err(why) => silent.push(format!("node {node}: {why}")),
        }
    }
    show(arguments, shown, silent, &stores)
}

/// The most traces that a node tells by the API.
const MOST: usize = 100;

/// What the API answers.
#[derive(Deserialize)]
struct Answer {
    traces: Vec<Told>,
    missing: Vec<Missing>,
}

#[derive(Deserialize)]
struct Told {
    node: String,
    #[serde(flatten)]
    trace: TracePage,
}

/// A node whose traces, or counters, are not in an answer of the API.
#[derive(Deserialize)]
pub(super) struct Missing {
    pub node: String,
    pub why: String,
}

/// A store, as the API has it.
#[derive(Deserialize)]
struct Store {
    id: String,
    node: String,
}

/// Each store's node, by the store's UUID.
pub(super) fn stores(rest: &Rest) -> Result<BTreeMap<String, String>> {
    let all: Vec<Store> = rest.all("/api/v1/stores?limit=1000")?;
    Ok(all.into_iter().map(|store| (store.id, store.node)).collect())
}

/// The same by the API.
///
/// # Errors
/// No node answers, or there is no such volume.
pub fn run_by_api(arguments: &Arguments, rest: &Rest) -> Result<()> {
    if arguments.count > MOST {
        let what = format!("by the API {MOST} traces at most are told, and not {}", arguments.count);
        return Err(Failure::new(what).kind(Kind::Usage));
    }
    let mut path = format!(
        "/api/v1/traces?slow={}&limit={}",
        arguments.slow,
        arguments.count.max(1)
    );
    if let Some(volume) = &arguments.volume {
        let name = encode(volume);
        rest.get::<serde::de::IgnoredAny>(&format!("/api/v1/volumes/{name}"))?;
        let _ = write!(path, "&volume={name}");
    }
    let stores = stores(rest)?;
    let answer: Answer = rest.get(&path)?;
    let told = answer.traces.into_iter();
    let shown = told.map(|told| Shown::new(&told.node, told.trace, &stores)).collect();
    let silent = answer
        .missing
        .iter()
        .map(|Missing { node, why }| format!("node {node}: {why}"));
    show(arguments, shown, silent.collect(), &stores)
}

fn show(
    arguments: &Arguments,
    mut shown: Vec<Shown>,
    silent: Vec<String>,
    stores: &BTreeMap<String, String>,
) -> Result<()> {
    if shown.is_empty() && !silent.is_empty() {
        return Err(Failure::new(silent.join("\n")).kind(Kind::Unreachable));
    }
    for line in silent {
        log::warn!("{line}");
    }
    shown.sort_by_key(|shown| shown.trace.ago_ns);
    shown.truncate(arguments.count);
    print(arguments.json, &shown, || {
        if shown.is_empty() {
            return "Nothing was kept yet.\n".to_owned();
        }
        let waterfalls: Vec<String> = shown.iter().map(|shown| shown.text(stores)).collect();
        waterfalls.join("\n")
    })
}

impl Shown {
    fn new(node: &str, trace: TracePage, stores: &BTreeMap<String, String>) -> Shown {
        let name = |id: &Option<String>| id.as_ref().and_then(|id| stores.get(id)).cloned();
        Shown {
            node: node.to_owned(),
            last_node: name(&trace.last_store),
            missed_node: name(&trace.missed_store),
            trace,
        }
    }

    fn text(&self, stores: &BTreeMap<String, String>) -> String {
        let trace = &self.trace;
        let mut out = format!(
            "{} of {} at {} of {}, through {}: {}, {} ago{}\n",
            trace.op,
            size::show(trace.length),
            trace.offset,
            trace.volume,
            self.node,
            time(trace.total_ns),
            time(trace.ago_ns),
            trace
                .error
                .as_ref()
                .map_or_else(String::new, |why| format!(", failed: {why}")),
        );
        let mut from = 0;
        for StagePage { stage, ns } in &trace.stages {
            row(&mut out, 1, stage, *ns, bar(from, from + ns, trace.total_ns, '#'));
            if stage == "stores" {
                for leg in &trace.stores {
                    self.leg(&mut out, leg, stores);
                }
            }
            from += ns;
        }
        self.guilty(&mut out, stores);
        out
    }

    fn leg(&self, out: &mut String, leg: &LegPage, stores: &BTreeMap<String, String>) {
        let total = self.trace.total_ns;
        let label = format!("{} {}", of(stores, &leg.store), short(&leg.store));
        let Some(answered) = leg.answered_ns else {
            let _ = writeln!(out, "    {label:<16} no answer that counts");
            return;
        };
        let took = answered.saturating_sub(leg.sent_ns);
        row(out, 2, &label, took, bar(leg.sent_ns, answered, total, '='));
        if leg.stages.is_empty() {
            return;
        }
        row(out, 3, "way", leg.way_ns, String::new());
        // Nobody knows how the way there and the way back share it: for the eye, equally. Data and log are written side by
        // side.
        let mut from = leg.sent_ns + leg.way_ns / 2;
        let mut side = 0;
        for StagePage { stage, ns } in &leg.stages {
            if stage == "flush" || stage == "answer" {
                from += std::mem::take(&mut side);
            }
            row(out, 3, stage, *ns, bar(from, from + ns, total, '-'));
            match stage.as_str() {
                "data" | "log" => side = side.max(*ns),
                _ => from += ns,
            }
        }
    }

    fn guilty(&self, out: &mut String, stores: &BTreeMap<String, String>) {
        if let Some(missed) = &self.trace.missed_store {
            let node = of(stores, missed);
            let _ = writeln!(out, "  store {missed} of node {node} did not answer, and was evicted");
        } else if let Some(last) = &self.trace.last_store {
            let _ = writeln!(out, "  the last to answer: store {last} of node {}", of(stores, last));
        }
    }
}

fn of<'a>(stores: &'a BTreeMap<String, String>, id: &str) -> &'a str {
    stores.get(id).map_or("?", String::as_str)
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

fn row(out: &mut String, depth: usize, name: &str, ns: u64, bar: String) {
    let indent = "  ".repeat(depth);
    let width = 22 - indent.len();
    let line = format!("{indent}{name:<width$} {:>9}  {bar}", time(ns));
    let _ = writeln!(out, "{}", line.trim_end());
}

/// From and to, on a line that is `total` long; something is always seen.
fn bar(from: u64, to: u64, total: u64, letter: char) -> String {
    let at = |ns: u64| (u128::from(ns.min(total)) * u128::from(WIDTH) / u128::from(total.max(1))) as usize;
    let (from, to) = (at(from).min(WIDTH as usize - 1), at(to));
    let mut line = " ".repeat(from);
    line.extend(std::iter::repeat_n(letter, to.saturating_sub(from).max(1)));
    line
}

/// A time as people read it.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        0..10_000_000 => format!("{}.{} us", ns / 1000, ns % 1000 / 100),
        10_000_000..10_000_000_000 => format!("{}.{} ms", ns / 1_000_000, ns % 1_000_000 / 100_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lie_where_their_time_does() {
        assert_eq!(bar(0, 50, 100, '#').len(), 24);
        assert_eq!(bar(50, 100, 100, '#').trim_start().len(), 24);
        assert_eq!(bar(99, 99, 100, '#').trim_start(), "#", "something is always seen");
        assert_eq!(bar(100, 100, 100, '#').len(), WIDTH as usize);
        assert_eq!(bar(0, 0, 0, '#'), "#");
        assert_eq!(bar(0, u64::MAX, u64::MAX, '#').len(), WIDTH as usize);
    }

    #[test]
    fn times_are_short() {
        assert_eq!(time(12_345), "12.3 us");
        assert_eq!(time(301_500_000), "301.5 ms");
        assert_eq!(time(12_000_000_000), "12 s");
    }
}
