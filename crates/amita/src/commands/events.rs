//! `amita events`: what happened, and why.

use crate::admin::{Admin, metadata_failure};
use crate::cli::Endpoints;
use crate::logging::timestamp;
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
    /// About this only: the name of a pool or volume, the number of a node, a store's UUID or the beginning of it
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
    seconds.checked_mul(unit).map(Duration::from_secs).ok_or_else(wrong)
}

/// Shows events.
///
/// # Errors
/// When there is no such kind, or the metadata cannot be reached.
pub fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    if arguments.kinds {
        return kinds(arguments.json);
    }
    if let Some(unknown) = arguments.kind.iter().find(|kind| events::Kind::named(kind).is_none()) {
        return Err(Failure::new(format!("there is no kind of event named {unknown:?}"))
            .kind(Kind::Usage)
            .advice("`amita events --kinds` lists those there are."));
    }
    let since = arguments.since.map_or(0, |age| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(age).as_millis().try_into().unwrap_or(u64::MAX)
    });
    let query = Query {
        since_ms: since,
        kinds: arguments.kind.clone(),
        object: arguments.object.clone(),
    };
    let admin = Admin::connect(metadata)?;
    let reply = amita_metadata::Transact::txn(&admin.reader(), &Call::prefix(events::prefix()))
        .map_err(|why| metadata_failure(&why))?;
    for event in reply.values(0).iter().filter_map(events::parse) {
        show(&event, &query, arguments.json)?;
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
                        show(&event, &query, arguments.json)?;
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

fn show(event: &Event, query: &Query, as_json: bool) -> Result<()> {
    if !query.takes(event) {
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
