//! Watches: what changes is told as it changes, by server-sent events (HTML Living Standard, section 9.2).
//!
//! A node watches the metadata once, while somebody watches the node, and tells all of them. One that reads too slowly to keep up, or has
//! watched for five minutes, is cut off: it comes again with the id of what it has seen last (`Last-Event-ID`), and has shown anew who it
//! is.

use crate::event::{Event as Shown, Names, names};
use crate::problem::{Code, Problem};
use amita_control::events;
use amita_metadata::client::{Client, Waited};
use amita_metadata::{Batch, Call, Event as Change};
use amita_types::map::{self, PREFIX};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::broadcast;

/// What a watcher may lag behind.
const LAG: usize = 1024;
/// How often the node's own watch looks whether anybody is there.
const LOOK: Duration = Duration::from_millis(500);
/// For so long the node goes on watching when nobody does: a page that is loaded anew is soon back.
const REST: Duration = Duration::from_secs(10);

/// Changes of one moment.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// The metadata's revision.
    pub revision: u64,
    /// Kinds of things that were changed.
    pub kinds: BTreeSet<&'static str>,
    /// Events that were written, with their revisions.
    pub events: Vec<(u64, Shown)>,
}

/// The beginnings of keys, and the kind of thing that they are about. What is in none of them is nobody's business.
const KINDS: &[(&str, &str)] = &[
    ("cluster", "cluster"),
    ("life", "cluster"),
    ("suspect/", "cluster"),
    ("thresholds", "settings"),
    ("recovery", "settings"),
    ("nodes/", "nodes"),
    ("live/", "nodes"),
    ("stores/", "stores"),
    ("mounts/", "stores"),
    ("condition/", "stores"),
    ("progress/", "recovery"),
    ("health/", "health"),
    ("links/", "health"),
    ("pools/", "pools"),
    ("quotas/", "pools"),
    ("recycling/", "pools"),
    ("limits/pool/", "pools"),
    ("limits/tenant/", "volumes"),
    ("tenancies/", "volumes"),
    ("groups/", "groups"),
    ("volumes/", "volumes"),
    ("about/", "volumes"),
    ("moves/", "volumes"),
    ("flattening/", "volumes"),
    ("copies/to/", "volumes"),
    ("scrub/", "volumes"),
    ("reservations/", "volumes"),
    ("trash/", "deleted-volumes"),
    ("snapshots/", "snapshots"),
    ("snapshot-names/", "snapshots"),
    ("sets/", "snapshot-sets"),
    ("policies/", "snapshot-policies"),
    ("policy-runs/", "snapshot-policies"),
    ("backups/repositories/", "backup-repositories"),
    ("backups/policies/", "backup-policies"),
    ("backups/runs/", "backup-policies"),
    ("backups/by/", "backup-policies"),
    ("backups/verified/", "backup-policies"),
    ("backups/verifying/", "backup-policies"),
    ("backups/tasks/", "backup-tasks"),
    ("mirrors/of/", "mirrors"),
    ("exports/", "nbd-exports"),
    ("nvme/subsystems/", "subsystems"),
    ("nvme/hosts/", "hosts"),
    ("iscsi/targets/", "targets"),
    ("iscsi/initiators/", "initiators"),
    ("iscsi/gateways/", "nodes"),
    ("events/", "events"),
    ("audit/", "audit"),
    ("api/tokens/", "tokens"),
    ("alerts/state", "alerts"),
    ("notify/silences/", "silences"),
    ("notify/channels/", "channels"),
];

/// The kind of thing that a key is about.
fn kind_of(key: &str) -> Option<&'static str> {
    let rest = key.strip_prefix(PREFIX)?;
    let found = KINDS.iter().find(|(beginning, _)| rest.starts_with(beginning));
    found.map(|(_, kind)| *kind)
}

impl Moment {
    fn of(batch: &Batch, names: &Names) -> Moment {
        let mut moment = Moment {
            revision: batch.revision,
            kinds: BTreeSet::new(),
            events: Vec::new(),
        };
        for change in &batch.events {
            let key = match change {
                Change::Put(record) => {
                    let is_event = record.key.starts_with(&events::prefix());
                    let event = is_event.then(|| events::parse(record)).flatten();
                    let shown = event.map(|event| Shown::of(record, event, names));
                    moment.events.extend(shown.map(|event| (record.mod_revision, event)));
                    record.key.as_str()
                }
                Change::Delete { key, .. } => key.as_str(),
            };
            moment.kinds.extend(kind_of(key));
        }
        moment
    }
}

/// What all watchers of a node share.
#[derive(Debug)]
pub(crate) struct Hub {
    client: Option<Client>,
    running: Arc<Mutex<Running>>,
}

type Running = Option<broadcast::Sender<Arc<Moment>>>;

fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    pub(crate) fn new(client: Option<Client>) -> Hub {
        Hub {
            client,
            running: Arc::default(),
        }
    }

    /// What changes from now on, or from a little before.
    ///
    /// # Errors
    /// The metadata cannot be watched.
    pub(crate) fn listen(&self) -> Result<broadcast::Receiver<Arc<Moment>>, Problem> {
        let mut running = lock(&self.running);
        if let Some(sender) = &*running {
            return Ok(sender.subscribe());
        }
        let client = self
            .client
            .clone()
            .ok_or_else(|| cannot("it is not served by one that can be watched"))?;
        // From here on nothing is missed, however long the watch takes to stand.
        let reply = client.txn(&Call::get(map::cluster_key())).map_err(cannot)?;
        let (sender, receiver) = broadcast::channel(LAG);
        let (theirs, to_all) = (Arc::clone(&self.running), sender.clone());
        let thread = std::thread::Builder::new().name("amita-api-watch".to_owned());
        let from = reply.revision + 1;
        thread
            .spawn(move || watch(&client, from, &to_all, theirs))
            .map_err(cannot)?;
        *running = Some(sender);
        Ok(receiver)
    }
}

fn cannot(why: impl ToString) -> Problem {
    Problem::new(
        Code::MetadataAway,
        format!("the metadata cannot be watched: {}", why.to_string()),
    )
}

/// However the watch ends, the next listener begins another.
struct End {
    running: Arc<Mutex<Running>>,
    is_said: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.is_said {
            *lock(&self.running) = None;
        }
    }
}

/// Tells what changes until nobody listens, or it cannot: then the listeners are told that by their channel's end.
fn watch(client: &Client, from: u64, to_all: &broadcast::Sender<Arc<Moment>>, running: Arc<Mutex<Running>>) {
    let mut end = End {
        running,
        is_said: false,
    };
    let mut watch = client.watch(PREFIX, from);
    let mut alone_since: Option<Instant> = None;
    // Of nodes that nobody can name the number is told.
    let mut known = names(client).unwrap_or_default();
    loop {
        match watch.wait(LOOK) {
            Waited::Item(Ok(batch)) => {
                let moment = Moment::of(&batch, &known);
                if moment.kinds.contains("nodes") {
                    known = names(client).unwrap_or(known);
                }
                let _ = to_all.send(Arc::new(moment));
            }
            Waited::Item(Err(why)) => {
                log::warn!("the API cannot watch the metadata: {why}");
                return;
            }
            Waited::Nothing => {}
            Waited::Ended => return,
        }
        if to_all.receiver_count() > 0 {
            alone_since = None;
        } else if alone_since.get_or_insert_with(Instant::now).elapsed() >= REST {
            let mut running = lock(&end.running);
            // Somebody may have come while the lock was waited for.
            if to_all.receiver_count() == 0 {
                *running = None;
                drop(running);
                // Whoever comes from here on begins another watch, which is not to be ended with this one.
                end.is_said = true;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::map;
    use amita_types::{NodeId, VolumeId};

    #[test]
    fn a_key_is_about_a_kind_of_thing() {
        for (key, kind) in [
            (map::volume_key("v"), Some("volumes")),
            (map::live_key(NodeId(1)), Some("nodes")),
            (map::host_key("nqn.x"), Some("hosts")),
            (map::snapshots_prefix(VolumeId(1)), Some("snapshots")),
            (map::snapshot_name_key(VolumeId(1), "s"), Some("snapshots")),
            (map::backup_policy_key("p"), Some("backup-policies")),
            (map::backup_runner_key(map::PolicyId(1)), Some("backup-policies")),
            (map::backup_repository_key("r"), Some("backup-repositories")),
            (map::backup_task_key("t"), Some("backup-tasks")),
            (map::backup_task_run_key(map::BackupTaskId(1)), Some("backup-tasks")),
            (map::mirror_key("m"), Some("mirrors")),
            (map::mirror_seen_key("m"), None),
            (events::prefix(), Some("events")),
            (map::api_answer_key("x"), None),
            (map::counter_key("volumes"), None),
            ("elsewhere/volumes/x".to_owned(), None),
        ] {
            assert_eq!(kind_of(&key), kind, "{key}");
        }
    }
}
