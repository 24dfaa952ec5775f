//! `amita volume reservation`.

use crate::admin::{Admin, Described};
use amita_control::access::Action;
use amita_control::admin;
use amita_frontend::reservation::{Kind, PortName, State};
use amita_terminal::error::Result;
use amita_terminal::table::{Table, print};
use serde::Serialize;

/// `amita volume reservation`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volume's name
    pub name: String,
    /// Remove the reservation and all registrations: for hosts that are gone for good. Refused while a gateway has the
    /// volume open, which goes on by what it knows
    #[arg(long)]
    pub clear: bool,
    /// Also when a gateway has it open: it goes on by what it knows until it loses the volume
    #[arg(long, requires = "clear")]
    pub force: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Shows it, or removes it.
pub(super) fn run(arguments: &Arguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    if arguments.clear {
        let cleared = metadata.act(Action::ReservationClear, name, |meta| {
            admin::clear_reservation(meta, name, arguments.force)
        });
        let was_there = cleared.described()?;
        return print(
            arguments.json,
            &serde_json::json!({ "volume": name, "cleared": was_there }),
            || {
                if was_there {
                    format!("Volume {name} is not reserved any more, and nobody is registered.\n")
                } else {
                    format!("Nobody had reserved volume {name}.\n")
                }
            },
        );
    }
    let found: State = admin::reservation(&metadata.reader(), name)
        .described()?
        .unwrap_or_default();
    let shown = Shown::of(name, &found);
    print(arguments.json, &shown, || text(&shown))
}

/// A reservation as it is shown: its keys are no secrets, every host can read them.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Shown {
    volume: String,
    /// Counts the changes.
    generation: u32,
    /// How it is reserved; none: it is not.
    kind: Option<Kind>,
    persist: bool,
    registrants: Vec<Registered>,
    /// One initiator has it for itself (RESERVE of SPC-2).
    locked: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Registered {
    /// The host's identifier, in full.
    host_id: String,
    /// The ports of a host of iSCSI.
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<PortName>,
    key: String,
    holder: bool,
}

impl Shown {
    fn of(name: &str, state: &State) -> Shown {
        let registrants = state.registrants.iter().map(|found| Registered {
            host_id: uuid::Uuid::from_bytes(found.host_id).to_string(),
            port: found.port.clone(),
            key: format!("{:#018x}", found.key),
            holder: state.is_holder(found.host),
        });
        Shown {
            volume: name.to_owned(),
            generation: state.generation,
            kind: state.held.map(|held| held.kind),
            persist: state.persist,
            registrants: registrants.collect(),
            locked: state.locked.is_some(),
        }
    }
}

fn text(shown: &Shown) -> String {
    let name = &shown.volume;
    if shown.locked {
        return format!(
            "Volume {name} is one initiator's alone, which has reserved it without a key (RESERVE): until that one releases it, logs out or \
             is gone with its gateway, or the LUN is reset, nobody else reads or writes it.\n"
        );
    }
    if shown.registrants.is_empty() {
        return format!("Nobody has reserved volume {name} or is registered.\n");
    }
    let reserved = match shown.kind {
        None => "not reserved".to_owned(),
        Some(kind) => format!("reserved: {}", words(kind)),
    };
    let mut table = Table::new(&["host", "key", "holds it"]);
    for found in &shown.registrants {
        let holds = if found.holder { "yes" } else { "" };
        let host = match &found.port {
            Some(port) => format!("{} by target port {}", port.initiator, port.tag),
            None => found.host_id.clone(),
        };
        table.row([host, found.key.clone(), holds.to_owned()]);
    }
    format!("Volume {name} is {reserved}.\n\n{}", table.text())
}

/// The types as `nvme resv-report` numbers them, and in words.
fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::WriteExclusive => "write exclusive (1): the holder writes, all read",
        Kind::ExclusiveAccess => "exclusive access (2): the holder writes and reads",
        Kind::WriteExclusiveRegistrants => "write exclusive, registrants only (3): registrants write, all read",
        Kind::ExclusiveAccessRegistrants => "exclusive access, registrants only (4): registrants write and read",
        Kind::WriteExclusiveAll => "write exclusive, all registrants (5): registrants write and hold it, all read",
        Kind::ExclusiveAccessAll => "exclusive access, all registrants (6): registrants write, read and hold it",
    }
}

#[cfg(test)]
mod tests;
