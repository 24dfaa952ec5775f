//! `amita events`: what happened, and why.

mod by_api;

pub use by_api::follow as follow_by_api;

use crate::admin::{Admin, Described, metadata_failure};
use crate::cli::Endpoints;
use crate::logging::timestamp;
use amita_control::admin;
use amita_control::events::{self, Event, Query};
use amita_metadata::{Call, Waited};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::say_line;
use amita_terminal::table::{Table, print};
use amita_terminal::{interrupt, output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often a follower looks whether it is told to end.
const LOOK: Duration = Duration::from_millis(200);

/// `amita events`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Not older than this: 90s, 10m, 2h, 3d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub since: Option<Duration>,
    /// Of this kind only; once for each (see --kinds)
    #[arg(long = "kind", value_name = "KIND")]
    pub kind: Vec<String>,
    /// About this only: the name of a pool, a volume or a node, the number of a node, a store's UUID or the beginning of it
    #[arg(long, value_name = "NAME")]
    pub object: Option<String>,
    /// Go on with what happens from now on, until the command is ended
    #[arg(long, short)]
    pub follow: bool,
    /// Each as JSON, on a line of its own
    #[arg(long)]
    pub json: bool,
    /// List the kinds that there are
    #[arg(long, conflicts_with_all = ["since", "kind", "object", "follow"])]
    pub kinds: bool,
}

/// The longest age, or time, that is given to a command, in days: a hundred years. What is counted from now on is a date then.
const MAX_AGE_DAYS: u64 = 36_500;

pub(crate) fn parse_age(text: &str) -> std::result::Result<Duration, String> {
    let wrong = || format!("{text:?} is no age; give 90s, 10m, 2h or 3d");
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let seconds: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = seconds
        .checked_mul(unit)
        .filter(|seconds| *seconds <= MAX_AGE_DAYS * 86_400);
    let long = || format!("{text:?} is too long: give up to {MAX_AGE_DAYS}d");
    seconds.map(Duration::from_secs).ok_or_else(long)
}

/// Shows events.
///
/// # Errors
/// When there is no such kind, or the metadata cannot be reached.
pub fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    if arguments.kinds {
        return kinds(arguments.json);
    }
    let query = query(arguments)?;
    let admin = Admin::connect(metadata)?;
    let node = match &arguments.object {
        Some(name) => node_of(&admin, name)?,
        None => None,
    };
    let wanted = Wanted { query, node };
    let reply = amita_metadata::Transact::txn(&admin.reader(), &Call::prefix(events::prefix()))
        .map_err(|why| metadata_failure(&why))?;
    for event in reply.values(0).iter().filter_map(events::parse) {
        show(&event, &wanted, arguments.json)?;
    }
    if !arguments.follow {
        return Ok(());
    }
    interrupt::catch();
    let mut watch = admin.watch(&events::prefix(), reply.revision + 1);
    while !interrupt::caught() {
        match watch.wait(LOOK) {
            Waited::Item(Ok(batch)) => {
                for event in batch.events {
                    if let amita_metadata::Event::Put(record) = event
                        && let Some(event) = events::parse(&record)
                    {
                        show(&event, &wanted, arguments.json)?;
                    }
                }
            }
            Waited::Item(Err(why)) => return Err(metadata_failure(&why)),
            Waited::Nothing => {}
            Waited::Ended => break,
        }
    }
    Ok(())
}

/// What is asked for.
fn query(arguments: &Arguments) -> Result<Query> {
    if let Some(unknown) = arguments.kind.iter().find(|kind| events::Kind::named(kind).is_none()) {
        return Err(Failure::new(format!("there is no kind of event named {unknown:?}"))
            .kind(Kind::Usage)
            .advice("`amita events --kinds` lists those there are."));
    }
    let since = arguments.since.map_or(0, |age| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(age).as_millis().try_into().unwrap_or(u64::MAX)
    });
    Ok(Query {
        since_ms: since,
        kinds: arguments.kind.clone(),
        object: arguments.object.clone(),
    })
}

/// Which events are wanted.
struct Wanted {
    query: Query,
    /// The number of the node whose name was given: events have nodes by their numbers.
    node: Option<String>,
}

impl Wanted {
    fn takes(&self, event: &Event) -> bool {
        let about_node = |node: &String| {
            let others = Query {
                object: None,
                ..self.query.clone()
            };
            event.objects.contains(node) && others.takes(event)
        };
        self.query.takes(event) || self.node.as_ref().is_some_and(about_node)
    }
}

/// The number of the node of that name, if there is one.
fn node_of(admin: &Admin, name: &str) -> Result<Option<String>> {
    let nodes = admin::nodes(&admin.reader()).described()?;
    let found = nodes.into_iter().find(|node| node.name == name);
    Ok(found.map(|node| node.id.to_string()))
}

fn show(event: &Event, wanted: &Wanted, as_json: bool) -> Result<()> {
    if !wanted.takes(event) {
        return Ok(());
    }
    if as_json {
        output::json_line(event)?;
    } else {
        say_line!(
            "{}  {:<7}  {:<18}  {}",
            timestamp(event.unix_ms / 1000, (event.unix_ms % 1000) as u32),
            event.severity,
            event.kind,
            amita_audit::plain(&event.text)
        );
    }
    Ok(())
}

fn kinds(as_json: bool) -> Result<()> {
    let all: Vec<serde_json::Value> = events::Kind::ALL
        .iter()
        .map(|kind| serde_json::json!({ "kind": kind.name(), "severity": kind.severity(), "meaning": kind.meaning() }))
        .collect();
    print(as_json, &all, || table().text())
}

/// All kinds: for a terminal, and for the documentation.
pub(crate) fn table() -> Table {
    let mut table = Table::new(&["kind", "severity", "meaning"]);
    for kind in events::Kind::ALL {
        table.row([
            kind.name().to_owned(),
            kind.severity().to_string(),
            kind.meaning().to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_by_its_name_and_no_other_whose_number_begins_so() {
        let of = |objects: &[&str]| Event {
            unix_ms: 5,
            node: amita_types::NodeId(9),
            kind: "node-gone".to_owned(),
            severity: events::Severity::Warning,
            objects: objects.iter().map(|&object| object.to_owned()).collect(),
            text: "It is gone.".to_owned(),
        };
        let mut wanted = Wanted {
            query: Query {
                object: Some("n1".to_owned()),
                ..Query::default()
            },
            node: Some("1".to_owned()),
        };
        assert!(wanted.takes(&of(&["1"])) && wanted.takes(&of(&["n1"])));
        assert!(!wanted.takes(&of(&["12"])) && !wanted.takes(&of(&[])));
        wanted.query.since_ms = 6;
        assert!(!wanted.takes(&of(&["1"])), "it is too old");
    }
}
