//! `amita audit`: who did what.

mod ship;
mod source;
mod syslog;

use crate::cli::Endpoints;
use crate::commands::events::parse_age;
use crate::logging::timestamp;
use amita_audit::{Fault, Head, Line, Outcome, Record, Summary, now_ms};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use source::Source;
use std::path::PathBuf;
use std::time::Duration;

/// What to do with the audit log.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List who did what, the oldest first
    ///
    /// Each action that changes something is there twice: when it begins, and when it has ended, with what it has changed. What was
    /// refused is there once. The log of the certificate authority lies in its own folder (--ca).
    List(ListArguments),
    /// Is the log whole? If not, name the first record with which something is wrong
    ///
    /// Who can write the whole log could also compute it anew, or cut off its end. That is found by who knows a later record:
    /// keep what this prints, and give it the next time as --known.
    Verify(VerifyArguments),
    /// Ship the log to a syslog server, each record at least once
    Ship(ship::Arguments),
}

/// Which log.
#[derive(Clone, Debug, clap::Args)]
pub struct Which {
    /// The log of the certificate authority in this folder, on its machine [default: the cluster's, in the metadata]
    #[arg(long, value_name = "DIR")]
    pub ca: Option<PathBuf>,
}

/// `amita audit list`.
#[derive(Debug, clap::Args)]
pub struct ListArguments {
    #[command(flatten)]
    pub which: Which,
    /// Not older than this: 90s, 10m, 2h, 3d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub since: Option<Duration>,
    /// Only by those whose name or role has this in it
    #[arg(long, value_name = "TEXT")]
    pub who: Option<String>,
    /// Only actions whose name begins so: `volume.`, `host.key`
    #[arg(long, value_name = "ACTION")]
    pub action: Option<String>,
    /// As JSON, with all that is known of each
    #[arg(long)]
    pub json: bool,
}

/// `amita audit verify`.
#[derive(Debug, clap::Args)]
pub struct VerifyArguments {
    #[command(flatten)]
    pub which: Which,
    /// A record that is known from before, as this command or a receiver of syslog has it; once for each
    #[arg(long, value_name = "NUMBER:HASH")]
    pub known: Vec<Head>,
    /// Say what was found as JSON
    #[arg(long)]
    pub json: bool,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    match command {
        Command::List(arguments) => list(arguments, metadata),
        Command::Verify(arguments) => verify(arguments, metadata),
        Command::Ship(arguments) => ship::run(arguments, metadata),
    }
}

fn list(arguments: &ListArguments, metadata: &Endpoints) -> Result<()> {
    let source = Source::open(&arguments.which, metadata)?;
    let since_ms = arguments.since.map_or(0, |age| {
        now_ms().saturating_sub(age.as_millis().try_into().unwrap_or(u64::MAX))
    });
    let takes = |record: &Record| {
        let by = |text: &String| record.who.name.contains(text) || record.who.role.contains(text);
        record.unix_ms >= since_ms
            && arguments.who.as_ref().is_none_or(by)
            && arguments
                .action
                .as_ref()
                .is_none_or(|action| record.action.starts_with(action))
    };
    let mut found: Vec<Record> = Vec::new();
    source.for_each(0, |place, text| {
        match Line::parse(text) {
            Ok(line) if takes(line.record()) => found.push(line.record().clone()),
            Ok(_) => {}
            Err(why) => log::warn!("record {place} cannot be read ({why}): see `amita audit verify`"),
        }
        Ok(())
    })?;
    print(arguments.json, &found, || {
        // Who is refused, or writes records by hand, chooses some of these texts.
        let mut table = Table::new(&["record", "time", "who", "role", "action", "object", "outcome", "says"]);
        for record in &found {
            table.row([
                record.seq.to_string(),
                timestamp(record.unix_ms / 1000, (record.unix_ms % 1000) as u32),
                short(&record.who.name).to_owned(),
                record.who.role.clone(),
                record.action.clone(),
                record.object.clone(),
                ended(record),
                record.text.clone(),
            ]);
        }
        table.text()
    })
}

/// Without the cluster's id, which is the same in all of them.
fn short(name: &str) -> &str {
    let behind = name.strip_prefix("amita://").and_then(|rest| rest.split_once('/'));
    behind.map_or(name, |(_, short)| short)
}

fn ended(record: &Record) -> String {
    match (record.outcome, record.of) {
        (Outcome::Begun, _) | (_, None) => record.outcome.text().to_owned(),
        (outcome, Some(begun)) => format!("{} (of {begun})", outcome.text()),
    }
}

fn verify(arguments: &VerifyArguments, metadata: &Endpoints) -> Result<()> {
    let source = Source::open(&arguments.which, metadata)?;
    match source.verify(&arguments.known)? {
        Ok(found) => {
            let head = found.head.map(|head| head.to_string());
            let shown = serde_json::json!({
                "ok": true, "records": found.records, "first": found.first, "head": head, "unended": found.unended,
            });
            print(arguments.json, &shown, || sound(&found))
        }
        Err(fault) => {
            if arguments.json {
                let shown = serde_json::json!({ "ok": false, "record": fault.seq(), "what": fault.to_string() });
                print(true, &shown, String::new)?;
            }
            Err(broken(&fault))
        }
    }
}

fn sound(found: &Summary) -> String {
    let Some(head) = found.head else {
        return "The log is empty.\n".to_owned();
    };
    let mut text = format!(
        "The log is whole: {} records, from record {} on.\n",
        found.records, found.first
    );
    if !found.unended.is_empty() {
        let numbers: Vec<String> = found.unended.iter().map(u64::to_string).collect();
        text += &format!(
            "Of these actions the end is not told: their command was killed, or is at work. Records {}\n",
            numbers.join(", ")
        );
    }
    text + &format!("Keep this elsewhere, for `amita audit verify --known`:\n{head}\n")
}

/// The log is not what was written.
fn broken(fault: &Fault) -> Failure {
    Failure::new(format!("the audit log is broken: {fault}"))
        .kind(Kind::Failed)
        .advice("What was shipped before tells what it said (`amita audit ship`). Find out who could write there, and since when.")
}

/// Who may what: for the documentation.
#[cfg(test)]
pub(crate) fn actions() -> Table {
    use amita_control::access::{Action, Role};
    let mut table = Table::new(&["action", "admin", "operator", "viewer", "auditor", "what it is"]);
    for action in Action::ALL {
        let may = |role| if action.roles().contains(&role) { "yes" } else { "" };
        let cells = [
            action.name(),
            may(Role::Admin),
            may(Role::Operator),
            may(Role::Viewer),
            may(Role::Auditor),
            action.meaning(),
        ];
        table.row(cells.map(str::to_owned));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn who_did_it_is_shown_by_name() {
        assert_eq!(short("amita://6d2a/operator/eve/viewer"), "operator/eve/viewer");
        assert_eq!(short("user 0 of n1"), "user 0 of n1");
    }
}
