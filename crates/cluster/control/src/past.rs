//! What a node knows of the metadata's past: does what it reads now go on from there?
//!
//! **The story.** An older copy of the metadata is put in its place. What it says of who may use which volume is as it once
//! was, and rights that were taken away since are there again. Its revision is lower, but not for long: whoever writes to it
//! raises it, nodes among them. So the revision alone does not tell.
//!
//! **The rule.** A node knows all records as they were at one revision: those of its last read, with all changes that its
//! watch has told since. In metadata that goes on from there, whatever was last written up to that revision is a record that
//! the node knows, written at the same revision; else it was changed or deleted meanwhile, and is back. So what is read is
//! believed if it is of the same cluster, was not rebuilt fewer times ([`map::Life`]), is at no lower revision, and holds
//! no record of before that the node does not know. What is not believed reaches nobody: it is as if the metadata were away.
//!
//! **Over a restart** the revision is kept in a file ([`PastFile`]), and of the records those that give rights: no other could
//! do harm before the stores are asked ([`crate::regress`]).
//!
//! **Rebuilt metadata** (`amita recover`) is another history, with a life more: it is believed by who begins. Who runs is told
//! to begin anew, for nothing that it knows compares with what is there now: revisions, epochs, who owns what.

mod file;

pub use file::PastFile;

use amita_metadata::{Call, Error, Event, KeyValue, Op, Reply, Transact};
use amita_types::ClusterId;
use amita_types::map::{self, Cluster, Life};
use std::collections::BTreeMap;
use std::fmt;

/// Records as they were at one revision: all of those that the reader is after.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The metadata's.
    pub revision: u64,
    pub records: Vec<KeyValue>,
}

/// When a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    /// The revision of its creation.
    created: u64,
    /// The revision of its last change.
    changed: u64,
}

impl Written {
    fn of(record: &KeyValue) -> Written {
        Written {
            created: record.create_revision,
            changed: record.mod_revision,
        }
    }
}

/// Of which records it is known when they were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scope {
    /// Nothing is known yet.
    #[default]
    Nothing,
    /// Of those that give rights but reservations and what is of iSCSI: what the first release that kept any has kept.
    Grants,
    /// Of those that give rights but what is of iSCSI: what an earlier release has kept.
    GrantsAndReservations,
    /// Of those that give rights.
    Rights,
    All,
}

/// Why what was read is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// It is of another cluster, or of none.
    Foreign {
        /// Whose it is.
        found: Option<ClusterId>,
        /// The node's.
        expected: ClusterId,
    },
    /// It is an older copy, or goes on from one.
    Older {
        /// What shows it, as a sentence without its end.
        what: String,
    },
    /// `amita recover` is at it, or was cut short.
    BeingRebuilt,
    /// It was rebuilt while this process ran.
    Rebuilt {
        /// How many times now.
        life: u64,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Foreign { found: None, expected } => write!(
                f,
                "the metadata holds no cluster, and this node has known that of cluster {expected}. Check its address; if it was \
                 lost, stop all nodes and run `amita recover --from-stores`"
            ),
            Doubt::Foreign {
                found: Some(found),
                expected,
            } => write!(
                f,
                "the metadata is of cluster {found}, and this node belongs to {expected}: check the metadata's address"
            ),
            Doubt::Older { what } => write!(
                f,
                "{what}. Was it restored from an older copy? Nothing of it is taken over, and no volume is opened. Put the newer \
                 metadata back, or stop all nodes and run `amita recover --from-stores` with --replace"
            ),
            Doubt::BeingRebuilt => f.write_str(
                "the metadata is being rebuilt from the stores, or that was cut short: wait for it, or run `amita recover \
                 --from-stores` again, with --replace",
            ),
            Doubt::Rebuilt { life } => write!(
                f,
                "the metadata was rebuilt while this node ran (life {life}), and what it knows is of the life before: start it again"
            ),
        }
    }
}

/// What is to be told of what was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Keys that were there and are gone.
    pub gone: Vec<String>,
    /// Records that are there, new or changed.
    pub there: Vec<KeyValue>,
}

/// What a node knows of the metadata's past. See the module.
#[derive(Clone, Debug, Default)]
pub struct Past {
    cluster: Option<ClusterId>,
    life: u64,
    revision: u64,
    scope: Scope,
    records: BTreeMap<String, Written>,
}

/// Does the record of that key say who may use what?
#[must_use]
pub fn is_right(key: &str) -> bool {
    is_grant(key) || is_reservation(key) || is_of_iscsi(key)
}

fn is_reservation(key: &str) -> bool {
    key.starts_with(&reservations_prefix())
}

/// By an operator, by iSCSI? (Which nodes speak it gives nobody a right.)
fn is_of_iscsi(key: &str) -> bool {
    key.starts_with(&map::iscsi_targets_prefix()) || key.starts_with(&map::iscsi_initiators_prefix())
}

/// By an operator, by another protocol?
fn is_grant(key: &str) -> bool {
    key.starts_with(&map::exports_prefix()) || key.starts_with(&nvme_prefix())
}

fn reservations_prefix() -> String {
    format!("{}reservations/", map::PREFIX)
}

fn nvme_prefix() -> String {
    format!("{}nvme/", map::PREFIX)
}

fn recovery_key() -> String {
    map::suspect_prefix() + "recovery"
}

impl Past {
    /// Of a node of that cluster: nothing else is known yet.
    #[must_use]
    pub fn new(cluster: Option<ClusterId>) -> Past {
        Past {
            cluster,
            ..Past::default()
        }
    }

    /// The node belongs to that cluster, as it is known by now.
    #[must_use]
    pub fn with_cluster(mut self, cluster: ClusterId) -> Past {
        self.cluster = Some(cluster);
        self
    }

    /// Of which revision everything is known.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Is what was read believed? It is to hold the cluster's record, the life, what speaks against the metadata, and the
    /// records that give rights; it may hold more.
    ///
    /// # Errors
    /// Why not.
    pub fn judge(&self, list: &List) -> Result<(), Doubt> {
        let found = list.cluster();
        if let Some(expected) = self.cluster.filter(|expected| found != Some(*expected)) {
            return Err(Doubt::Foreign { found, expected });
        }
        if self.scope == Scope::Nothing {
            return Ok(());
        }
        if list.find(&recovery_key()).is_some() {
            return Err(Doubt::BeingRebuilt);
        }
        let life = list.life();
        if life > self.life {
            return match self.scope {
                Scope::All => Err(Doubt::Rebuilt { life }),
                Scope::Nothing | Scope::Grants | Scope::GrantsAndReservations | Scope::Rights => Ok(()),
            };
        }
        let older = |what: String| Err(Doubt::Older { what });
        if life < self.life {
            return older(format!(
                "the metadata went back from life {} to {life}: it is of before it was rebuilt",
                self.life
            ));
        }
        let (seen, now) = (self.revision, list.revision);
        if now < seen {
            return older(format!("the metadata went back from revision {seen} to {now}"));
        }
        match list.records.iter().find(|record| self.is_back(record)) {
            Some(back) => older(format!(
                "the metadata went back: it holds {} as written at revision {}, which is not how this node knows it at revision \
                 {seen}",
                back.key, back.mod_revision
            )),
            None => Ok(()),
        }
    }

    /// Is this a record of before that was something else, or gone?
    fn is_back(&self, record: &KeyValue) -> bool {
        let is_known = match self.scope {
            Scope::Nothing => false,
            Scope::Grants => is_grant(&record.key),
            Scope::GrantsAndReservations => is_grant(&record.key) || is_reservation(&record.key),
            Scope::Rights => is_right(&record.key),
            Scope::All => true,
        };
        is_known && record.mod_revision <= self.revision && self.records.get(&record.key) != Some(&Written::of(record))
    }

    /// Judges what the metadata says now, before anything is taken over from it.
    ///
    /// # Errors
    /// It does not answer. Inside: why it is not believed.
    pub fn look(&self, meta: &dyn Transact) -> Result<Result<(), Doubt>, Error> {
        if self.scope == Scope::Nothing {
            return Ok(Ok(()));
        }
        let keys = [map::cluster_key(), map::life_key()].map(|key| Op::Get { key });
        let prefixes = [
            map::suspect_prefix(),
            map::exports_prefix(),
            nvme_prefix(),
            reservations_prefix(),
            map::iscsi_targets_prefix(),
            map::iscsi_initiators_prefix(),
        ]
        .map(|key| Op::Prefix { key });
        let call = Call {
            then: keys.into_iter().chain(prefixes).collect(),
            ..Call::default()
        };
        Ok(self.judge(&List::of(&call, &meta.txn(&call)?)))
    }

    /// Takes over all records, which were judged; what is new in them. `anew`: all are told.
    pub fn adopt(&mut self, list: List, anew: bool) -> News {
        let life = list.life();
        let goes_on = !anew && self.scope == Scope::All;
        self.cluster = self.cluster.or(list.cluster());
        let written = list.records.iter();
        let records: BTreeMap<String, Written> = written
            .map(|record| (record.key.clone(), Written::of(record)))
            .collect();
        let mut known = std::mem::replace(&mut self.records, records);
        if self.scope != Scope::All {
            // What is known from before a restart was told to nobody.
            known.clear();
        }
        // What was deleted and made anew while nobody watched is told as both.
        let is_gone = |(key, was): &(&String, &Written)| match self.records.get(*key) {
            Some(now) => goes_on && now.created != was.created,
            None => true,
        };
        let gone = known.iter().filter(is_gone).map(|(key, _)| key.clone()).collect();
        (self.life, self.revision, self.scope) = (life, list.revision, Scope::All);
        let is_new = |record: &KeyValue| !goes_on || known.get(&record.key) != Some(&Written::of(record));
        News {
            gone,
            there: list.records.into_iter().filter(is_new).collect(),
        }
    }

    /// A change that a watch tells; true: of a record that gives rights.
    pub fn note(&mut self, event: &Event) -> bool {
        self.pass(event.revision());
        match event {
            Event::Put(record) => {
                if record.key == map::life_key() {
                    self.life = life_in(record);
                }
                self.records.insert(record.key.clone(), Written::of(record));
            }
            Event::Delete { key, .. } => drop(self.records.remove(key)),
        }
        is_right(event.key())
    }

    /// All that has changed up to this revision was told, or nobody here wants it.
    pub fn pass(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }
}

impl List {
    /// What a call that only reads has found.
    #[must_use]
    pub fn of(call: &Call, reply: &Reply) -> List {
        let found = (0..call.then.len()).flat_map(|index| reply.values(index).iter().cloned());
        List {
            revision: reply.revision,
            records: found.collect(),
        }
    }

    fn find(&self, key: &str) -> Option<&KeyValue> {
        self.records.iter().find(|record| record.key == key)
    }

    fn cluster(&self) -> Option<ClusterId> {
        let cluster: Option<Cluster> = self.find(&map::cluster_key()).and_then(|record| record.json().ok());
        cluster.map(|cluster| cluster.id)
    }

    fn life(&self) -> u64 {
        self.find(&map::life_key()).map_or(0, life_in)
    }
}

fn life_in(record: &KeyValue) -> u64 {
    record.json::<Life>().map_or(0, |life| life.number)
}

#[cfg(test)]
mod tests;
