//! The node that is coordinator looks at the disks of all nodes, writes down which of them are not well, and has stores drained where the
//! operator wants that (`amita recovery set --sick-disks drain`).
//!
//! What is written, and an event that goes with it, is one transaction that compares the election: a node that was deposed and does not
//! know it yet writes and drains nothing. That a store was drained is written in the transaction of the drain itself: whatever becomes of
//! the coordinator in between, no disk is drained twice. A drain goes the way of `amita disk drain`, and is in the audit log as that of the coordinator.

use crate::gather::{Facts, gather};
use crate::sick::{Deed, Step, hindrance, steps};
use amita_control::access::{Action, Caller, Session};
use amita_control::admin::{self, AdminError};
use amita_control::coordinator::election_key;
use amita_control::events::{Draft, Kind, Writer};
use amita_metadata::{Call, Compare, Error, KeyValue, Op, Reply, Transact};
use amita_types::condition::{SickDisk, sick_disk_key, sick_disks_prefix};
use amita_types::{NodeId, StoreId, map};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Disks are looked at so often where nobody has told anything: what is not looked at for long may be well again.
const LOOK_EVERY: Duration = Duration::from_secs(300);
/// And no more often than this, however much nodes tell.
const LOOK_LEAST: Duration = Duration::from_secs(10);

/// What another thread has to tell a doctor, which may be looking just then.
#[derive(Debug, Default)]
pub struct Heard {
    facts: AtomicBool,
    nodes: AtomicUsize,
}

impl Heard {
    /// See [`Doctor::heard`].
    pub fn facts(&self) {
        self.facts.store(true, Ordering::Release);
    }

    /// See [`Doctor::among`].
    pub fn nodes(&self, nodes: usize) {
        self.nodes.store(nodes, Ordering::Release);
    }

    /// Tells it.
    pub fn tell(&self, doctor: &mut Doctor) {
        doctor.among(self.nodes.load(Ordering::Acquire));
        if self.facts.swap(false, Ordering::AcqRel) {
            doctor.heard();
        }
    }
}

/// Looks at disks.
#[derive(Debug)]
pub struct Doctor {
    node: NodeId,
    events: Writer,
    /// When it was last time to look, whoever did.
    due_at: Option<Instant>,
    /// A node has told something since.
    has_heard: bool,
    /// So long at least from one look to the next.
    pause: Duration,
}

impl Doctor {
    /// Of that node. `session` is made anew at each start.
    #[must_use]
    pub fn new(node: NodeId, session: u64) -> Doctor {
        Doctor {
            node,
            events: Writer::new(node, session),
            due_at: None,
            has_heard: false,
            pause: LOOK_LEAST,
        }
    }

    /// A node has told what its machine is like.
    pub fn heard(&mut self) {
        self.has_heard = true;
    }

    /// There are so many nodes: a look reads a record of each, and there is a second for each of them.
    pub fn among(&mut self, nodes: usize) {
        self.pause = Duration::from_secs(nodes as u64).clamp(LOOK_LEAST, LOOK_EVERY);
    }

    /// Is it time to look? It is asked often, and says so once.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let since = self.due_at.map(|at| now.saturating_duration_since(at));
        let is_due = since.is_none_or(|since| since >= LOOK_EVERY || (self.has_heard && since >= self.pause));
        if is_due {
            (self.due_at, self.has_heard) = (Some(now), false);
        }
        is_due
    }

    /// Looks, and does what follows. `at`: the time now, in seconds since 1970. Where another node is coordinator, or the metadata is not
    /// believed, nothing is done.
    ///
    /// # Errors
    /// The metadata is away, or something cannot be read in it.
    pub fn look(&mut self, meta: &dyn Transact, at: u64) -> Result<(), AdminError> {
        let call = Call {
            then: vec![
                Op::Get { key: election_key() },
                Op::Prefix {
                    key: map::suspect_prefix(),
                },
                Op::Prefix {
                    key: sick_disks_prefix(),
                },
            ],
            ..Call::default()
        };
        let reply = meta.txn(&call)?;
        let Some(held) = reply.value(0).filter(|found| is_held_by(found, self.node)) else {
            return Ok(());
        };
        if !reply.values(1).is_empty() {
            return Ok(());
        }
        let fence = Compare::ModRevision {
            key: election_key(),
            equals: held.mod_revision,
        };
        let mut revisions: BTreeMap<StoreId, u64> = BTreeMap::new();
        let mut known: BTreeMap<StoreId, SickDisk> = BTreeMap::new();
        for record in reply.values(2) {
            // One that nobody can read is a fact of the status.
            let Ok(disk) = record.json::<SickDisk>() else { continue };
            if record.key == sick_disk_key(disk.store) {
                revisions.insert(disk.store, record.mod_revision);
                known.insert(disk.store, disk);
            }
        }
        let facts = gather(meta, at)?;
        let mut drained: Option<StoreId> = None;
        let node = self.node;
        let mut act = |store: StoreId, failing: usize, is_to_drain: bool| {
            if is_to_drain && drained.is_some() {
                return Deed::Hindered("another store is being drained, and one is at a time".to_owned());
            }
            // One that is not known yet was read once at most, and nothing is done about it.
            let before = known.get(&store).filter(|_| is_to_drain);
            let marked = before.map(|before| mark(before, revisions.get(&store).copied().unwrap_or(0), at));
            let deed = treat(meta, &fence, node, &facts, (store, failing), marked.as_ref());
            if deed == Deed::Drained {
                drained = Some(store);
            }
            deed
        };
        let all = steps(&facts, &known, &mut act);
        for step in all {
            let store = match &step {
                Step::Put(disk, _) => disk.store,
                Step::Delete(store, _) => *store,
            };
            let revision = match drained == Some(store) {
                true => revision_of(meta, &sick_disk_key(store))?,
                false => revisions.get(&store).copied().unwrap_or(0),
            };
            self.write(meta, &fence, step, store, revision)?;
        }
        Ok(())
    }

    /// Where somebody else was faster, the next look sees what is so.
    fn write(
        &mut self,
        meta: &dyn Transact,
        fence: &Compare,
        step: Step,
        store: StoreId,
        revision: u64,
    ) -> Result<(), Error> {
        let key = sick_disk_key(store);
        let same = Compare::ModRevision {
            key: key.clone(),
            equals: revision,
        };
        let (op, draft) = match step {
            Step::Put(disk, draft) => (put(key, serde_json::to_vec(&*disk).expect("plain data")), draft),
            Step::Delete(_, draft) => (Op::Delete { key }, draft),
        };
        let event = draft.map(|draft| self.event(draft));
        let call = Call {
            compares: vec![fence.clone(), same],
            then: std::iter::once(op).chain(event).collect(),
            ..Call::default()
        };
        meta.txn(&call).map(drop)
    }

    fn event(&mut self, draft: Draft) -> Op {
        match draft.kind {
            Kind::DiskFailing | Kind::DiskDecided => log::warn!("{}", draft.text),
            _ => log::info!("{}", draft.text),
        }
        let (key, value) = self.events.record(draft);
        put(key, value)
    }
}

fn put(key: String, value: Vec<u8>) -> Op {
    Op::Put {
        key,
        value,
        lease: None,
    }
}

fn is_held_by(found: &KeyValue, node: NodeId) -> bool {
    let holder = found.json::<serde_json::Value>().ok();
    holder.and_then(|holder| holder["node"].as_u64()) == Some(u64::from(node.0))
}

fn revision_of(meta: &dyn Transact, key: &str) -> Result<u64, Error> {
    let reply = meta.txn(&Call::get(key))?;
    Ok(reply.value(0).map_or(0, |found| found.mod_revision))
}

/// That its store was drained, where the record is still that one.
fn mark(before: &SickDisk, revision: u64, at: u64) -> Call {
    let marked = SickDisk {
        drained_at: Some(at),
        ..before.clone()
    };
    let key = sick_disk_key(before.store);
    Call::put_if(key, revision, serde_json::to_vec(&marked).expect("plain data"))
}

/// What hinders that a store is drained; where nothing does and that is to be marked, it is.
fn treat(
    meta: &dyn Transact,
    fence: &Compare,
    node: NodeId,
    facts: &Facts,
    (store, failing): (StoreId, usize),
    marked: Option<&Call>,
) -> Deed {
    let outlook = admin::drain_outlook(meta, store).map_err(|why| why.to_string());
    if let Some(why) = hindrance(facts, store, failing, &outlook) {
        return Deed::Hindered(why);
    }
    let Some(marked) = marked else {
        return Deed::Free;
    };
    let session = match Session::open(Through(meta), Caller::coordinator(node)) {
        Ok(session) => session,
        Err(why) => return Deed::Hindered(why.to_string()),
    };
    let done = session.act(Action::DiskDrain, &store.to_string(), |meta| {
        let fenced = Fenced { meta, fence, marked };
        admin::drain_store(&fenced, store, false)
    });
    match done {
        Ok(_) => Deed::Drained,
        Err(why) => Deed::Hindered(format!(
            "it was tried, and failed: {}",
            why.to_string().trim_end_matches('.')
        )),
    }
}

/// The metadata, by a reference to it.
struct Through<'a>(&'a dyn Transact);

impl Transact for Through<'_> {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        self.0.txn(call)
    }

    fn after_lost(&self, races: u32) {
        self.0.after_lost(races);
    }
}

/// The metadata, which takes changes only from the node that is coordinator, and a mark with each of them.
struct Fenced<'a> {
    meta: &'a dyn Transact,
    fence: &'a Compare,
    marked: &'a Call,
}

impl Transact for Fenced<'_> {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        if call.is_read_only() {
            return self.meta.txn(call);
        }
        let mut fenced = call.clone();
        fenced.compares.push(self.fence.clone());
        fenced.compares.extend(self.marked.compares.iter().cloned());
        fenced.then.extend(self.marked.then.iter().cloned());
        self.meta.txn(&fenced)
    }

    fn after_lost(&self, races: u32) {
        self.meta.after_lost(races);
    }
}

#[cfg(test)]
mod tests;
