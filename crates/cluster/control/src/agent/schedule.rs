//! What is done from time to time: the node that is coordinator asks for a look at the copies of volumes that nobody has
//! looked at for long.

use super::standing::Standing;
use super::{Config, Notice, Sink, Stop};
use crate::admin;
use crate::coordinator::election_key;
use amita_metadata::{Call, Client};
use amita_types::NodeId;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often is looked whether something is due.
const LOOK: Duration = Duration::from_secs(60);
/// Volumes that are looked at at one time.
const AT_ONCE: usize = 1;

/// Runs until stopped.
pub(super) fn run(client: &Client, config: &Config, sink: &Sink, stop: &Stop, standing: &Standing) {
    let Some(every) = config.scrub_every else { return };
    while !stop.wait(LOOK.min(every)) {
        if standing.allow().is_err() || !is_coordinator(client, config.node) {
            continue;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
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

fn is_coordinator(client: &Client, node: NodeId) -> bool {
    let Ok(reply) = client.txn(&Call::get(election_key())) else {
        return false;
    };
    let holder = reply.value(0).and_then(|found| found.json::<serde_json::Value>().ok());
    holder.and_then(|holder| holder["node"].as_u64()) == Some(u64::from(node.0))
}
