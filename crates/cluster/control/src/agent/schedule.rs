//! What is done from time to time, by the node that is coordinator: looks at the copies of volumes that nobody has looked at for
//! long are asked for, clones whose chunks are all made let go of their parents, deleted volumes whose time has come go for good, and so
//! do what volumes were before they were reverted and nothing needs any more, and records of sets of snapshots that nobody leads any more.

use super::standing::Standing;
use super::{Config, Journal, Notice, Sink, Stop};
use crate::admin::{self, AdminError, Bin, FormerSweep, SetSweep};
use crate::coordinator::election_key;
use crate::events::{Draft, Kind};
use crate::policy::runner::Clock;
use amita_metadata::{Call, Client};
use amita_types::NodeId;
use std::collections::BTreeMap;
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
    let begun = Instant::now();
    let mut looked = begun;
    let mut looks = Looks::default();
    while !stop.wait(LOOK.min(config.scrub_every.unwrap_or(LOOK))) {
        if !journal.leads() || standing.allow().is_err() || !is_coordinator(client, config.node) {
            // Another one tells it, or this one again.
            looks = Looks::default();
            continue;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        looks.end_flattens(client, sink);
        let clock = Clock {
            wall: now,
            steady: begun.elapsed(),
        };
        looks.purge(client, sink, journal, clock);
        looks.sweep_former(client, sink);
        looks.sweep_sets(client, sink, clock.steady);
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
            // A record is not readable, perhaps, which somebody must know.
            Err(why) if is_told_by_others(&why) => {}
            Err(why) => looks.warn(sink, "no volume's copies can be looked at", &why),
        }
    }
}

/// Who looks, and what was told of it.
#[derive(Default)]
struct Looks {
    bin: Bin,
    sets: SetSweep,
    former: FormerSweep,
    /// What cannot be done, and why: told once.
    told: BTreeMap<String, String>,
}

impl Looks {
    /// Deleted volumes whose time has come.
    fn purge(&mut self, client: &Client, sink: &Sink, journal: &Journal, clock: Clock) {
        let purged = match self.bin.purge_what_is_due(client, PURGED_AT_ONCE, clock) {
            Ok(purged) => purged,
            // The metadata is away, or suspected, which others say.
            Err(why) if is_told_by_others(&why) => return,
            Err(why) => {
                self.warn(sink, "no deleted volume can go for good", &why);
                return;
            }
        };
        for warning in purged.warnings {
            sink(Notice::Warn(warning));
        }
        for trashed in purged.gone {
            let (name, volume) = (&trashed.name, trashed.volume);
            let text = format!("deleted volume {name} (number {volume}) is gone for good: its time has come");
            journal.tell(Draft::new(Kind::VolumePurged, [name], text.clone()));
            sink(Notice::Info(text));
        }
        for (what, why) in purged.failed {
            self.warn(
                sink,
                &format!("{what} cannot go for good, and its space does not come back"),
                &why,
            );
        }
    }

    /// Clones whose chunks are all made: nobody need wait for that.
    fn end_flattens(&mut self, client: &Client, sink: &Sink) {
        match admin::end_flattens(client) {
            Ok(ended) => {
                for name in ended.flat {
                    sink(Notice::Info(format!(
                        "volume {name} is flat: it needs nothing of what it was cloned from"
                    )));
                }
                for (volume, why) in ended.failed {
                    let what = format!(
                        "the flattening of volume number {volume} cannot end, and what it was cloned from stays"
                    );
                    self.warn(sink, &what, &why);
                }
            }
            Err(why) if is_told_by_others(&why) => {}
            Err(why) => self.warn(sink, "no flattening of a clone can end", &why),
        }
    }

    /// What volumes were before they were reverted, and what nothing needs any more.
    fn sweep_former(&mut self, client: &Client, sink: &Sink) {
        match self.former.sweep(client) {
            Ok(swept) => {
                for (data, of) in swept.gone {
                    let of = of.map_or_else(|| "a volume".to_owned(), |name| format!("volume {name}"));
                    sink(Notice::Info(format!(
                        "what {of} was before it was reverted, moved or written anew (number {data}) is gone: nothing needs it"
                    )));
                }
                for (data, why) in swept.failed {
                    let what = format!(
                        "what a volume was before it was reverted, moved or written anew (number {data}) cannot go, and its space does not come back"
                    );
                    self.warn(sink, &what, &why);
                }
            }
            Err(why) if is_told_by_others(&why) => {}
            Err(why) => self.warn(
                sink,
                "what volumes were before they were reverted cannot be looked at",
                &why,
            ),
        }
    }

    /// Sets of snapshots whose first volume was deleted: their other volumes are to be free for others.
    fn sweep_sets(&mut self, client: &Client, sink: &Sink, now: Duration) {
        match self.sets.sweep(client, now) {
            Ok(ended) => {
                for set in ended {
                    sink(Notice::Info(format!("a set of snapshots has come to nothing: {set}")));
                }
            }
            Err(why) if is_told_by_others(&why) => {}
            Err(why) => self.warn(sink, "no record of a set of snapshots can be looked at", &why),
        }
    }

    fn warn(&mut self, sink: &Sink, what: &str, why: &AdminError) {
        let why = why.to_string();
        if self.told.get(what) != Some(&why) {
            sink(Notice::Warn(format!("{what}: {why}")));
            self.told.insert(what.to_owned(), why);
        }
    }
}

/// A record that is not readable is the metadata's fault as well, but nobody else says so.
fn is_told_by_others(why: &AdminError) -> bool {
    use amita_metadata::Error::{Unavailable, Unknown};
    matches!(
        why,
        AdminError::Suspected { .. } | AdminError::Metadata(Unavailable { .. } | Unknown { .. })
    )
}

fn is_coordinator(client: &Client, node: NodeId) -> bool {
    let Ok(reply) = client.txn(&Call::get(election_key())) else {
        return false;
    };
    let holder = reply.value(0).and_then(|found| found.json::<serde_json::Value>().ok());
    holder.and_then(|holder| holder["node"].as_u64()) == Some(u64::from(node.0))
}
