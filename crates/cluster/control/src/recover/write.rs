//! Writing the rebuilt records.
//!
//! A record says first that the metadata is being rebuilt: while it is there no volume is opened, also after an attempt
//! that was cut short. It goes last.

use super::Rebuilt;
use crate::admin::AdminError;
use crate::agent::STOPPED;
use crate::audit;
use amita_metadata::{Call, Compare, KeyValue, Op, Transact};
use amita_types::map::{self, Cluster, Life, Live, PREFIX, Suspect};
use std::collections::{BTreeMap, BTreeSet};

/// Operations of one call: below [`amita_metadata::MAX_OPS`].
const BATCH_OPS: usize = 100;
/// Bytes of one call: below [`amita_metadata::MAX_CALL_BYTES`].
const BATCH_BYTES: usize = 512 * 1024;

/// Why the records were not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// There is something already.
    #[error("the metadata is not empty: it holds {records} records{}; to write over all of them, pass --replace",
        .cluster.as_ref().map_or(String::new(), |id| format!(", of cluster {id}")))]
    NotEmpty {
        records: usize,
        /// Whose.
        cluster: Option<String>,
    },
    /// It belongs to somebody else.
    #[error(
        "the metadata belongs to cluster {found} and has pools; the stores belong to cluster {expected}. Is it the right address?"
    )]
    OtherCluster {
        /// Whose it is.
        found: String,
        /// The stores'.
        expected: String,
    },
    /// Nodes run.
    #[error(
        "nodes run on this metadata (numbers {}); stop all of them first. One that was killed is taken to run until its \
         lease ends, a few seconds later", .nodes.join(", "))]
    NodesRun {
        /// Their numbers.
        nodes: Vec<String>,
    },
    /// Somebody else writes.
    #[error("somebody else changes the metadata at the same time; stop that, and run this again with --replace")]
    Raced,
    /// The metadata did not do it.
    #[error("{0}")]
    Metadata(amita_metadata::Error),
    /// Who asks may not.
    #[error("{0}")]
    Denied(crate::access::Denied),
    /// Anything else that stands before it.
    #[error("{0}")]
    Other(String),
}

impl From<AdminError> for WriteError {
    fn from(error: AdminError) -> WriteError {
        match error {
            AdminError::Metadata(why) => WriteError::Metadata(why),
            AdminError::Denied(why) => WriteError::Denied(why),
            other => WriteError::Other(other.to_string()),
        }
    }
}

impl From<amita_metadata::Error> for WriteError {
    fn from(error: amita_metadata::Error) -> WriteError {
        WriteError::Metadata(error)
    }
}

/// Looks whether the records may be written, and writes them unless `dry_run`.
///
/// # Errors
/// See [`WriteError`]. After one that comes from the metadata itself some records may be there; no volume is opened then,
/// and the same command with `replace` does it again.
pub fn write(meta: &dyn Transact, rebuilt: &Rebuilt, replace: bool, dry_run: bool) -> Result<(), WriteError> {
    let reply = meta.txn(&Call::prefix(PREFIX))?;
    // The audit log is no part of what is rebuilt: it stays, and tells of this as well.
    let log = audit::prefix();
    let there = reply.values(0).iter().filter(|found| !found.key.starts_with(&log));
    let there: Vec<KeyValue> = there.cloned().collect();
    let there = &there[..];
    let revision = check(there, rebuilt, replace)?;
    if dry_run {
        return Ok(());
    }
    let suspect = map::suspect_prefix() + "recovery";
    let why = "it is being rebuilt from the stores, or that was cut short: run `amita recover --from-stores` again, \
               with --replace";
    let value = serde_json::to_vec(&Suspect { why: why.to_owned() }).expect("plain data");
    let cluster = map::cluster_key();
    // Nobody else has begun: the cluster's record is the one that was read.
    let begin = Call {
        compares: vec![Compare::ModRevision {
            key: cluster.clone(),
            equals: revision,
        }],
        then: vec![Op::Put {
            key: suspect.clone(),
            value: value.clone(),
            lease: None,
        }],
        otherwise: Vec::new(),
    };
    must(meta, begin)?;
    let guard = || {
        vec![Compare::Value {
            key: suspect.clone(),
            equals: value.clone(),
        }]
    };
    // The life stays until it is written over: an attempt that is cut short loses no count.
    for ops in batches(clear(there, &[suspect.clone(), map::life_key()])) {
        let (compares, otherwise) = (guard(), Vec::new());
        must(
            meta,
            Call {
                compares,
                then: ops,
                otherwise,
            },
        )?;
    }
    // The cluster's record first: a node that is started now must not make another cluster.
    let mut records = rebuilt.records.clone();
    begin_life(&mut records, there);
    let own = records.iter().filter(|(key, _)| **key == cluster);
    let rest = records.iter().filter(|(key, _)| **key != cluster);
    let puts = own.chain(rest).map(|(key, value)| Op::Put {
        key: key.clone(),
        value: value.clone(),
        lease: None,
    });
    for ops in batches(puts.collect()) {
        let (compares, otherwise) = (guard(), Vec::new());
        must(
            meta,
            Call {
                compares,
                then: ops,
                otherwise,
            },
        )?;
    }
    let end = Call {
        compares: guard(),
        then: vec![Op::Delete { key: suspect.clone() }],
        otherwise: Vec::new(),
    };
    must(meta, end)
}

/// The rebuilt metadata's life follows the one that is written over too: no store may have a copy of that yet, but who has known it
/// must not take this for the same.
fn begin_life(records: &mut BTreeMap<String, Vec<u8>>, there: &[KeyValue]) {
    let key = map::life_key();
    let replaced = there.iter().find(|found| found.key == key);
    let replaced: Option<Life> = replaced.and_then(|found| found.json().ok());
    if let (Some(replaced), Some(value)) = (replaced, records.get_mut(&key)) {
        let mut life: Life = serde_json::from_slice(value).expect("it was made here");
        life.number = life.number.max(replaced.number.saturating_add(1));
        *value = serde_json::to_vec(&life).expect("plain data");
    }
}

fn must(meta: &dyn Transact, call: Call) -> Result<(), WriteError> {
    if meta.txn(&call)?.succeeded {
        Ok(())
    } else {
        Err(WriteError::Raced)
    }
}

/// May it be written over? The revision of the cluster's record.
fn check(there: &[KeyValue], rebuilt: &Rebuilt, replace: bool) -> Result<u64, WriteError> {
    let cluster = there.iter().find(|found| found.key == map::cluster_key());
    let id = cluster
        .and_then(|found| found.json::<Cluster>().ok())
        .map(|cluster| cluster.id);
    if !there.is_empty() && !replace {
        return Err(WriteError::NotEmpty {
            records: there.len(),
            cluster: id.map(|id| id.to_string()),
        });
    }
    let pools = map::pool_key("");
    if let Some(found) = id.filter(|id| *id != rebuilt.report.cluster)
        && there.iter().any(|found| found.key.starts_with(&pools))
    {
        return Err(WriteError::OtherCluster {
            found: found.to_string(),
            expected: rebuilt.report.cluster.to_string(),
        });
    }
    let live = format!("{PREFIX}live/");
    let running = there.iter().filter(|found| {
        let runs = |found: &KeyValue| found.json::<Live>().map_or(true, |live| live.pid != STOPPED);
        found.key.starts_with(&live) && runs(found)
    });
    let nodes: Vec<String> = running.map(|found| found.key[live.len()..].to_owned()).collect();
    if !nodes.is_empty() {
        return Err(WriteError::NodesRun { nodes });
    }
    Ok(cluster.map_or(0, |found| found.mod_revision))
}

/// What takes everything away that is there, but for some keys.
fn clear(there: &[KeyValue], but: &[String]) -> Vec<Op> {
    let suspects = map::suspect_prefix();
    let mut kinds = BTreeSet::new();
    let mut ops = Vec::new();
    for key in there.iter().map(|found| &found.key).filter(|key| !but.contains(key)) {
        let path = &key[PREFIX.len()..];
        match path.split_once('/') {
            Some((kind, _)) if !key.starts_with(&suspects) => drop(kinds.insert(kind)),
            _ => ops.push(Op::Delete { key: key.clone() }),
        }
    }
    let kinds = kinds.into_iter().map(|kind| Op::DeletePrefix {
        key: format!("{PREFIX}{kind}/"),
    });
    ops.extend(kinds);
    ops
}

/// Cut into calls that every server takes.
fn batches(ops: Vec<Op>) -> Vec<Vec<Op>> {
    let mut batches = vec![Vec::new()];
    let mut bytes = 0;
    for op in ops {
        let more = op.key().len()
            + if let Op::Put { value, .. } = &op {
                value.len()
            } else {
                0
            };
        let last = batches.last_mut().expect("there is one");
        if last.len() >= BATCH_OPS || (bytes + more > BATCH_BYTES && !last.is_empty()) {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += more;
        batches.last_mut().expect("there is one").push(op);
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}
