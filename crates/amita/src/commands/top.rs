//! `amita top`: what the volumes, stores and cores of a cluster are doing now.

mod rates;

use super::trace::{self, Missing};
use crate::by_api::rest::{MOST_PIECES, Rest, encode};
use crate::cli::Endpoints;
use crate::logging::timestamp;
use crate::nodes::{Asked, Nodes};
use amita_node::observe::NodePage;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use amita_terminal::{interrupt, output, say_line};
use rates::Top;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Puts the cursor home; what is overwritten ends its lines, and the rest is cleared behind it.
const HOME: &str = "\x1b[H";
const END_OF_LINE: &str = "\x1b[K\n";
const CLEAR_BELOW: &str = "\x1b[J";
/// Where the API has what nodes count.
const COUNTERS: &str = "/api/v1/counters";

/// `amita top`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Look for so long, between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,
    /// Show it once, and end
    #[arg(long)]
    pub once: bool,
    /// As JSON; each on a line of its own, if it is not for once
    #[arg(long)]
    pub json: bool,
}

/// Shows it until it is ended.
///
/// # Errors
/// When the metadata cannot be reached, or no node answers at first: later that is shown.
pub fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    let interval = interval(arguments)?;
    let nodes = Nodes::find(metadata)?;
    interrupt::catch();
    show(arguments, interval, &nodes.stores(), &|| {
        Ok(nodes.ask::<NodePage>("/top"))
    })
}

/// The same by the API.
///
/// # Errors
/// No node answers at first: later that is shown.
pub fn run_by_api(arguments: &Arguments, rest: &Rest) -> Result<()> {
    let interval = interval(arguments)?;
    interrupt::catch();
    let ended = trace::stores(rest).and_then(|stores| show(arguments, interval, &stores, &|| counters(rest)));
    match ended {
        // Ctrl-C is how it ends, also while a node is asked.
        Err(failure) if failure.kind == Kind::Interrupted && !arguments.once => Ok(()),
        ended => ended,
    }
}

fn interval(arguments: &Arguments) -> Result<Duration> {
    Duration::try_from_secs_f64(arguments.interval)
        .ok()
        .filter(|interval| (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(interval))
        .ok_or_else(|| Failure::new("an interval is 0.1 to 3600 seconds").kind(Kind::Usage))
}

/// Looks again and again, until it is ended, and shows what was done in between.
fn show(
    arguments: &Arguments,
    interval: Duration,
    stores: &BTreeMap<String, String>,
    look: &dyn Fn() -> Result<Vec<Asked<NodePage>>>,
) -> Result<()> {
    let mut before = answered(look()?)?;
    let on_terminal = std::io::stdout().is_terminal() && !arguments.once && !arguments.json;
    if on_terminal {
        output::raw(&format!("{HOME}{CLEAR_BELOW}"))?;
    }
    loop {
        interrupt::sleep(interval).or_else(|failure| {
            // Ctrl-C is how it ends.
            if arguments.once { Err(failure) } else { Ok(()) }
        })?;
        if interrupt::caught() {
            return Ok(());
        }
        let now = match look() {
            // Who was asked has no room, or is gone: at the next look another one may tell.
            Err(failure) if failure.kind == Kind::Unreachable && !arguments.once => silent(&before, &failure),
            now => now?,
        };
        let now = if arguments.once { answered(now)? } else { now };
        let top = Top::between(&before, &now, stores);
        if arguments.once {
            return print(arguments.json, &top, || text(&top));
        }
        if now.iter().any(|asked| asked.answer.is_ok()) {
            before = now;
        }
        if arguments.json {
            output::json_line(&top)?;
        } else if on_terminal {
            let lines = output::shown(&text(&top)).replace('\n', END_OF_LINE);
            output::raw(&format!("{HOME}{lines}{CLEAR_BELOW}"))?;
        } else {
            say_line!("{}", text(&top));
        }
    }
}

/// That nobody tells what these nodes do, where `failure` ends with why the last one that was asked does not.
fn silent(before: &[Asked<NodePage>], failure: &Failure) -> Vec<Asked<NodePage>> {
    let why = format!("nobody tells it: {}", failure.what.lines().last().unwrap_or_default());
    let nodes = before.iter().map(|asked| asked.node.clone());
    nodes
        .map(|node| Asked {
            node,
            answer: Err(why.clone()),
        })
        .collect()
}

/// What was answered, if anything was.
fn answered(asked: Vec<Asked<NodePage>>) -> Result<Vec<Asked<NodePage>>> {
    if asked.iter().all(|asked| asked.answer.is_err()) {
        let why = asked
            .iter()
            .filter_map(|asked| asked.answer.as_ref().err().map(|why| (&asked.node, why)));
        let lines: Vec<String> = why.map(|(node, why)| format!("node {node}: {why}")).collect();
        return Err(Failure::new(format!("no node answers\n{}", lines.join("\n"))).kind(Kind::Unreachable));
    }
    Ok(asked)
}

/// A piece of what the API answers.
#[derive(Deserialize)]
struct Counters {
    items: Vec<NodePage>,
    missing: Vec<Missing>,
    next: Option<String>,
}

/// What all nodes have counted, piece by piece.
fn counters(rest: &Rest) -> Result<Vec<Asked<NodePage>>> {
    let mut asked = Vec::new();
    let mut path = COUNTERS.to_owned();
    for _ in 0..MOST_PIECES {
        interrupt::check()?;
        let Counters { items, missing, next } = rest.get(&path)?;
        asked.extend(items.into_iter().map(|page| Asked {
            node: page.name.clone(),
            answer: Ok(page),
        }));
        asked.extend(
            missing
                .into_iter()
                .map(|Missing { node, why }| Asked { node, answer: Err(why) }),
        );
        match next {
            Some(after) => path = format!("{COUNTERS}?after={}", encode(&after)),
            None => {
                asked.sort_by(|one: &Asked<NodePage>, other| one.node.cmp(&other.node));
                return Ok(asked);
            }
        }
    }
    Err(Failure::new(format!("{COUNTERS} has more pieces than {MOST_PIECES}")))
}

fn us(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.1} ms", value / 1000.0),
        value if value >= 100.0 => format!("{value:.0} us"),
        value => format!("{value:.1} us"),
    }
}

fn text(top: &Top) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut out = format!(
        "{}  {} nodes, over {:.1} s\n\n",
        timestamp(now.as_secs(), now.subsec_millis()),
        top.nodes,
        top.interval_s
    );
    let mut volumes = Table::new(&[
        "volume",
        "gateway",
        "op",
        "IOPS",
        "MB/s",
        "mean",
        "p50",
        "p99",
        "errors/s",
        "in flight",
    ]);
    for found in &top.volumes {
        volumes.row([
            found.volume.clone(),
            found.node.clone(),
            found.op.clone(),
            format!("{:.0}", found.iops),
            format!("{:.1}", found.bytes_per_s / 1e6),
            us(found.mean_us),
            us(found.p50_us),
            us(found.p99_us),
            format!("{:.0}", found.errors_per_s),
            found.in_flight.to_string(),
        ]);
    }
    out.push_str(&volumes.text());
    out.push('\n');
    let mut stores = Table::new(&[
        "store",
        "node",
        "reads/s",
        "p50",
        "p99",
        "writes/s",
        "p50",
        "p99",
        "device MB/s",
        "used",
    ]);
    for found in &top.stores {
        stores.row([
            found.store.get(..8).unwrap_or(&found.store).to_owned(),
            found.node.clone(),
            format!("{:.0}", found.reads_per_s),
            us(found.read_p50_us),
            us(found.read_p99_us),
            format!("{:.0}", found.writes_per_s),
            us(found.write_p50_us),
            us(found.write_p99_us),
            format!("{:.1}", found.written_bytes_per_s / 1e6),
            if found.serves {
                format!("{:.1} %", found.used_percent)
            } else {
                "does not serve".to_owned()
            },
        ]);
    }
    out.push_str(&stores.text());
    out.push('\n');
    let mut cores = Table::new(&[
        "core",
        "CPU",
        "passes/s",
        "I/Os/s",
        "requests/s",
        "calls/s",
        "calls per op",
        "sleeps/s",
    ]);
    for found in &top.cores {
        cores.row([
            format!("{}/{}", found.node, found.core),
            format!("{:.1} %", found.cpu_percent),
            format!("{:.0}", found.passes_per_s),
            format!("{:.0}", found.ios_per_s),
            format!("{:.0}", found.requests_per_s),
            format!("{:.0}", found.calls_per_s),
            found
                .calls_per_op
                .map_or_else(|| "-".to_owned(), |calls| format!("{calls:.2}")),
            format!("{:.0}", found.blocks_per_s),
        ]);
    }
    out.push_str(&cores.text());
    for silent in &top.silent {
        out.push_str(&format!("\nnode {}: {}", silent.node, silent.why));
    }
    if !top.silent.is_empty() {
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> NodePage {
        NodePage {
            node: 1,
            name: "n1".to_owned(),
            cluster: "c".to_owned(),
            now_ns: 1,
            core_count: 0,
            volumes: Vec::new(),
            stores: Vec::new(),
            cores: Vec::new(),
        }
    }

    #[test]
    fn nodes_that_nobody_tells_of_are_silent_and_the_command_goes_on() {
        let before = [("n1", Ok(page())), ("n2", Err("it is gone".to_owned()))];
        let before = before.map(|(node, answer)| Asked {
            node: node.to_owned(),
            answer,
        });
        let failure =
            Failure::new("no node answers\na:1: it is gone\nb:1: it answers 429: full").kind(Kind::Unreachable);
        let now = silent(&before, &failure);
        let top = Top::between(&before, &now, &BTreeMap::new());
        assert_eq!((top.nodes, top.silent.len()), (0, 2));
        assert!(
            text(&top).contains("node n1: nobody tells it: b:1: it answers 429: full"),
            "{}",
            text(&top)
        );
        assert!(answered(now).is_err_and(|failure| failure.kind == Kind::Unreachable));
    }
}
