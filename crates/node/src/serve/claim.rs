//! A store that was mounted is claimed in the metadata before it serves: see [`amita_control::admin::claim_store`].

use super::core_thread::ToCores;
use super::{Level, Log};
use crate::control::ToCore;
use amita_cluster::{NodeId, StoreId};
use amita_control::admin::{self, AdminError};
use amita_meta::Client;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The pause between attempts while the metadata is away.
const AGAIN: Duration = Duration::from_millis(300);

/// What this process has claimed.
#[derive(Clone)]
pub(super) struct Claims {
    client: Client,
    node: NodeId,
    session: u64,
    cores: ToCores,
    log: Log,
    /// Stores by UUID: their paths, and the revision at which they were claimed.
    held: Arc<Mutex<BTreeMap<StoreId, (String, u64)>>>,
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
            held: Arc::default(),
            ended: Arc::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<StoreId, (String, u64)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims a store on a thread of its own, and tells the cores how that went.
    pub(super) fn claim(&self, store: StoreId, path: String, size_bytes: u64, mount: u64) {
        let claims = self.clone();
        let run = move || claims.run(store, &path, size_bytes, mount);
        if let Err(why) = std::thread::Builder::new().name("amita-claim".to_owned()).spawn(run) {
            let text = format!("store {store} cannot be claimed: no thread is to be had ({why}); start the node anew");
            (self.log)(Level::Error, &text);
        }
    }

    fn run(&self, store: StoreId, path: &str, size_bytes: u64, mount: u64) {
        let record = admin::store_record(store, self.node, path, size_bytes);
        let mut said = false;
        while !self.ended.load(Ordering::Acquire) {
            match admin::claim_store(&self.client, &record, self.session, mount) {
                Ok(revision) => {
                    self.held().insert(store, (path.to_owned(), revision));
                    let path = path.to_owned();
                    return self.everywhere(|| ToCore::Admit {
                        store,
                        path: path.clone(),
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
                Err(why) => return self.retire(path, &why.to_string()),
            }
        }
    }

    /// Somebody has claimed a store: is it one of ours? Then it serves no more.
    pub(super) fn heard(&self, store: StoreId, by: NodeId, session: u64, revision: u64) -> bool {
        if (by, session) == (self.node, self.session) {
            return false;
        }
        let mut held = self.held();
        // What was written before our own claim is no news.
        if held.get(&store).is_none_or(|(_, claimed)| revision <= *claimed) {
            return false;
        }
        let Some((path, _)) = held.remove(&store) else {
            return false;
        };
        drop(held);
        let why = format!(
            "node {by} serves this store now: it was claimed there while this node did not hold its lease. What is here is \
             behind from now on; take one of the two away"
        );
        self.retire(&path, &why);
        true
    }

    /// The store at that path serves no more: whoever has its disk may claim it.
    pub(super) fn release(&self, path: &str) {
        let mut held = self.held();
        let store = held.iter().find(|(_, (own, _))| own == path).map(|(store, _)| *store);
        let Some(store) = store else { return };
        held.remove(&store);
        // Where the metadata is away, the claim ends with the session.
        let _ = admin::release_store(&self.client, store, self.node, self.session);
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
