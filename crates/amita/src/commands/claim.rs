//! That this node is at something, and no other: a key on a lease, which goes with a node that dies.

use amita_metadata::{Call, Client, Compare, Error, LeaseId, Op, Refusal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The lease's time to live, in seconds.
const TTL_S: u64 = 15;
/// How often it is renewed.
const RENEWAL: Duration = Duration::from_secs(3);
/// How often it is looked whether the work has ended.
const LOOK: Duration = Duration::from_millis(100);

/// The claim. It is given up when it is dropped.
pub struct Claim {
    client: Client,
    /// Who gives it up in the place of what has it, revokes that.
    pub lease: LeaseId,
    /// By which the key was made: what is noted compares it.
    pub revision: u64,
    /// It is lost, or must be taken for lost.
    pub lost: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    keeper: Option<std::thread::JoinHandle<()>>,
}

impl Claim {
    /// Takes it; none: another node is at it. `what` it is at, for the log.
    ///
    /// # Errors
    /// The metadata is away or refuses.
    pub fn take(client: &Client, key: String, what: &str, node: &str) -> Result<Option<Claim>, Error> {
        let granted = Instant::now();
        let lease = client.lease_grant(TTL_S)?;
        let take = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: 0,
            }],
            then: vec![Op::Put {
                key,
                value: serde_json::to_vec(node).unwrap_or_default(),
                lease: Some(lease.id),
            }],
            otherwise: Vec::new(),
        };
        let taken = client.txn(&take);
        let revision = match &taken {
            Ok(reply) if reply.succeeded => reply.revision,
            // If that was done after all, the key goes with the lease.
            _ => {
                let _ = client.lease_revoke(lease.id);
                return taken.map(|_| None);
            }
        };
        let mut claim = Claim {
            client: client.clone(),
            lease: lease.id,
            revision,
            lost: Arc::default(),
            ended: Arc::default(),
            keeper: None,
        };
        let ttl = Duration::from_secs(lease.ttl_s.min(TTL_S));
        match claim.keep(granted, ttl) {
            Ok(keeper) => claim.keeper = Some(keeper),
            Err(why) => {
                log::warn!("{what}: no thread for it: {why}");
                return Ok(None);
            }
        }
        Ok(Some(claim))
    }

    /// Renews the lease until the work has ended. A node counts its own lease shorter than the metadata does: from before it asked.
    fn keep(&self, granted: Instant, ttl: Duration) -> std::io::Result<std::thread::JoinHandle<()>> {
        let (client, lease) = (self.client.clone(), self.lease);
        let (lost, ended) = (Arc::clone(&self.lost), Arc::clone(&self.ended));
        let thread = std::thread::Builder::new().name("amita-claim".to_owned());
        thread.spawn(move || {
            let (mut renewed, mut tried) = (granted, granted);
            while !ended.load(Ordering::Relaxed) && !lost.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                if renewed.elapsed() >= ttl {
                    // Away: what was left of it was ours.
                    lost.store(true, Ordering::Relaxed);
                } else if tried.elapsed() >= RENEWAL {
                    tried = Instant::now();
                    match client.lease_keepalive(lease) {
                        Ok(_) => renewed = tried,
                        Err(Error::Refused {
                            reason: Refusal::LeaseNotFound(_),
                        }) => lost.store(true, Ordering::Relaxed),
                        Err(_) => {}
                    }
                }
            }
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.keeper.take()
            && keeper.join().is_err()
        {
            log::error!("the keeper of a claim has panicked");
        }
        let _ = self.client.lease_revoke(self.lease);
    }
}
