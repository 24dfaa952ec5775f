//! What is done from time to time, by the node that is coordinator: looks at the copies of volumes that nobody has looked at for
//! long are asked for, and deleted volumes whose time has come go for good.

use super::standing::Standing;
use super::{Config, Journal, Notice, Sink, Stop};
use crate::admin;
use crate::coordinator::election_key;
use crate::events::{Draft, Kind};
use amita_metadata::{Call, Client};
use amita_types::NodeId;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often is looked whether something is due.
const LOOK: Duration = Duration::from_secs(5);
/// The same of copies: it costs a read for each volume.
const LOOK_AT_COPIES: Duration = Duration::from_secs(60);
/// Volumes that are looked at at one time.
const AT_ONCE: usize = 1;

/// Deleted volumes that go for good at one look.
const PURGED_AT_ONCE: usize = 64;

/// Runs until stopped.
pub(super) fn run(client: &Client, config: &Config, sink: &Sink, stop: &Stop, standing: &Standing, journal: &Journal) {
    let mut looked = Instant::now();
    while !stop.wait(LOOK.min(config.scrub_every.unwrap_or(LOOK))) {
        if !journal.leads() || standing.allow().is_err() || !is_coordinator(client, config.node) {
            continue;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        purge(client, sink, journal, now);
        let Some(every) = config.scrub_every else { continue };
        if looked.elapsed() < LOOK_AT_COPIES.min(every) {
            continue;
        }
        looked = Instant::now();
        match admin::scrub_what_is_due(client, every, AT_ONCE, now) {
            Ok(names) => {
                for name in names {
                    sink(Notice::Info(format!(
                        "all copies of volume {name} are looked at: it is time"
                    )));
                }
            }
            // The metadata is away, which others say; or a record is not readable, which somebody must know.
            Err(admin::AdminError::Metadata(_)) => {}
            Err(why) => sink(Notice::Warn(format!("no volume's copies can be looked at: {why}"))),
        }
    }
}

/// Deleted volumes whose time has come.
fn purge(client: &Client, sink: &Sink, journal: &Journal, now: Duration) {
    match admin::purge_what_is_due(client, PURGED_AT_ONCE, now) {
        Ok(gone) => {
            for trashed in gone {
                let (name, volume) = (&trashed.name, trashed.volume);
                let text = format!("deleted volume {name} (number {volume}) is gone for good: its time has come");
                journal.tell(Draft::new(Kind::VolumePurged, [name], text.clone()));
                sink(Notice::Info(text));
            }
        }
        // The metadata is away, or suspected, which others say.
        Err(admin::AdminError::Metadata(_) | admin::AdminError::Suspected { .. }) => {}
        Err(why) => sink(Notice::Warn(format!("no deleted volume can go for good: {why}"))),
    }
}

fn is_coordinator(client: &Client, node: NodeId) -> bool {
    let Ok(reply) = client.txn(&Call::get(election_key())) else {
        return false;
    };
    let holder = reply.value(0).and_then(|found| found.json::<serde_json::Value>().ok());
    holder.and_then(|holder| holder["node"].as_u64()) == Some(u64::from(node.0))
}
