//! A store that was mounted is claimed in the metadata before it serves: see [`amita_control::admin::claim_store`].

use super::core_thread::ToCores;
use super::{Level, Log};
use crate::control::ToCore;
use amita_control::admin::{self, AdminError};
use amita_metadata::Client;
use amita_types::{NodeId, StoreId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The pause between attempts while the metadata is away.
const AGAIN: Duration = Duration::from_millis(300);

/// A store that was claimed.
struct Held {
    path: String,
    revision: u64,
    mount: u64,
}

#[derive(Default)]
struct Known {
    held: BTreeMap<StoreId, Held>,
    /// The newest mount at each path, while it has not failed. Whoever claims for another one gives up.
    wanted: BTreeMap<String, u64>,
}

/// What this process has claimed.
#[derive(Clone)]
pub(super) struct Claims {
    client: Client,
    node: NodeId,
    session: u64,
    cores: ToCores,
    log: Log,
    known: Arc<Mutex<Known>>,
    ended: Arc<AtomicBool>,
}

impl Claims {
    pub(super) fn new(client: Client, node: NodeId, session: u64, cores: ToCores, log: Log) -> Claims {
        Claims {
            client,
            node,
            session,
            cores,
            log,
            known: Arc::default(),
            ended: Arc::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_wanted(&self, path: &str, mount: u64) -> bool {
        self.known().wanted.get(path) == Some(&mount)
    }

    /// Claims a store on a thread of its own, and tells the cores how that went.
    pub(super) fn claim(&self, store: StoreId, path: String, size_bytes: u64, mount: u64) {
        let claims = self.clone();
        self.known().wanted.insert(path.clone(), mount);
        let run = move || claims.run(store, &path, size_bytes, mount);
        if let Err(why) = std::thread::Builder::new().name("amita-claim".to_owned()).spawn(run) {
            let text = format!("store {store} cannot be claimed: no thread is to be had ({why}); start the node anew");
            (self.log)(Level::Error, &text);
        }
    }

    fn run(&self, store: StoreId, path: &str, size_bytes: u64, mount: u64) {
        let record = admin::store_record(store, self.node, path, size_bytes);
        let mut said = false;
        while !self.ended.load(Ordering::Acquire) && self.is_wanted(path, mount) {
            match admin::claim_store(&self.client, &record, self.session, mount) {
                Ok(revision) => {
                    let path = path.to_owned();
                    let mut known = self.known();
                    if known.wanted.get(&path) != Some(&mount) {
                        drop(known);
                        // A newer mount's claim stays.
                        let _ = admin::release_store(&self.client, store, self.node, self.session, mount);
                        return;
                    }
                    let held = Held {
                        path: path.clone(),
                        revision,
                        mount,
                    };
                    known.held.insert(store, held);
                    drop(known);
                    return self.everywhere(|| ToCore::Admit {
                        store,
                        path: path.clone(),
                        mount,
                    });
                }
                Err(AdminError::Metadata(why)) => {
                    if !std::mem::replace(&mut said, true) {
                        let text =
                            format!("store {store} cannot be claimed: {why}; it does not serve yet, trying again");
                        (self.log)(Level::Warn, &text);
                    }
                    std::thread::sleep(AGAIN);
                }
                // The mount that is at this path by now is another's to settle.
                Err(_) if !self.is_wanted(path, mount) => return,
                Err(why) => return self.retire(path, &why.to_string()),
            }
        }
    }

    /// Somebody has claimed a store: is it one of ours? Then it serves no more.
    pub(super) fn heard(&self, store: StoreId, by: NodeId, session: u64, revision: u64) -> bool {
        if (by, session) == (self.node, self.session) {
            return false;
        }
        let mut known = self.known();
        // What was written before our own claim is no news.
        if known.held.get(&store).is_none_or(|held| revision <= held.revision) {
            return false;
        }
        let Some(Held { path, .. }) = known.held.remove(&store) else {
            return false;
        };
        drop(known);
        let why = format!(
            "node {by} serves this store now: it was claimed there while this node did not hold its lease. What is here is \
             behind from now on; take one of the two away"
        );
        self.retire(&path, &why);
        true
    }

    /// The store at that path has failed: nobody claims it for the mount that it had, whose number is returned.
    pub(super) fn failed(&self, path: &str) -> Option<u64> {
        self.known().wanted.remove(path)
    }

    /// The store at that path serves no more as this mount: whoever has its disk may claim it.
    pub(super) fn release(&self, path: &str, mount: u64) {
        let mut known = self.known();
        let mut all = known.held.iter();
        let store = all.find(|(_, held)| held.path == path && held.mount <= mount);
        let Some(store) = store.map(|(store, _)| *store) else {
            return;
        };
        known.held.remove(&store);
        drop(known);
        // Where the metadata is away, the claim ends with the session.
        let _ = admin::release_store(&self.client, store, self.node, self.session, mount);
    }

    /// Nothing is tried any more.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    fn retire(&self, path: &str, why: &str) {
        self.everywhere(|| ToCore::Retire {
            path: path.to_owned(),
            why: why.to_owned(),
        });
    }

    fn everywhere(&self, message: impl Fn() -> ToCore) {
        for core in 0..self.cores.len() {
            self.cores.send(core, message());
        }
    }
}
