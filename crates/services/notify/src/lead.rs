//! Who tells: one node at a time, by a lease in the metadata.
//!
//! The key lies on the lease, so it goes with a node that dies. A node counts its own lease shorter than the metadata does: from before
//! the renewal was asked for. It begins nothing that may take longer than what is left of that ([`Lead::time_left`]).

use crate::records::{Leader, leader_key};
use amita_metadata::{Call, Client, Compare, Error, LeaseId, Op, Refusal};
use std::time::{Duration, Instant};

/// The lease's time to live, in seconds.
pub(crate) const TTL_S: u64 = 15;
/// How often it is renewed.
const RENEWAL: Duration = Duration::from_secs(3);

/// That this node tells.
pub(crate) struct Lead {
    client: Client,
    lease: LeaseId,
    ttl: Duration,
    /// When the renewal that succeeded last was asked for.
    renewed: Instant,
    /// When the key was made: what is written is compared with it.
    revision: u64,
}

impl Lead {
    /// Stands for it; none: another node was first.
    pub(crate) fn stand(client: &Client, who: &Leader) -> Result<Option<Lead>, Error> {
        let key = leader_key();
        if client.txn(&Call::get(key.as_str()))?.value(0).is_some() {
            return Ok(None);
        }
        let renewed = Instant::now();
        let lease = client.lease_grant(TTL_S)?;
        let call = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: 0,
            }],
            then: vec![Op::Put {
                key,
                value: serde_json::to_vec(who).expect("plain data"),
                lease: Some(lease.id),
            }],
            otherwise: Vec::new(),
        };
        let won = client.txn(&call);
        if let Ok(reply) = &won
            && reply.succeeded
        {
            return Ok(Some(Lead {
                client: client.clone(),
                lease: lease.id,
                ttl: Duration::from_secs(lease.ttl_s.min(TTL_S)),
                renewed,
                revision: reply.revision,
            }));
        }
        // If that was done after all, the key goes with the lease.
        let _ = client.lease_revoke(lease.id);
        won.map(|_| None)
    }

    /// For how long nobody else tells, at least.
    pub(crate) fn time_left(&self) -> Duration {
        self.ttl.saturating_sub(self.renewed.elapsed())
    }

    /// Renews the lease, where that is due. `false`: it is gone, and somebody else may tell.
    pub(crate) fn renew(&mut self) -> bool {
        if self.renewed.elapsed() < RENEWAL {
            return true;
        }
        let asked = Instant::now();
        match self.client.lease_keepalive(self.lease) {
            Ok(_) => self.renewed = asked,
            Err(Error::Refused {
                reason: Refusal::LeaseNotFound(_),
            }) => return false,
            // Away: what is left of it is ours.
            Err(_) => {}
        }
        !self.time_left().is_zero()
    }

    /// Writes a record, if it was last changed at `revision`, and if this node still tells. The record's new revision; none: it was not
    /// written.
    pub(crate) fn put(&self, key: String, revision: u64, value: Vec<u8>) -> Result<Option<u64>, Error> {
        let put = Op::Put {
            key: key.clone(),
            value,
            lease: None,
        };
        self.change(key, revision, vec![put])
    }

    /// Does this, if the record was last changed at `revision`, and if this node still tells. When it was done; none: it was not.
    pub(crate) fn change(&self, key: String, revision: u64, then: Vec<Op>) -> Result<Option<u64>, Error> {
        let call = Call {
            compares: vec![
                Compare::CreateRevision {
                    key: leader_key(),
                    equals: self.revision,
                },
                Compare::ModRevision { key, equals: revision },
            ],
            then,
            otherwise: Vec::new(),
        };
        let reply = self.client.txn(&call)?;
        Ok(reply.succeeded.then_some(reply.revision))
    }

    /// Makes room for another node at once.
    pub(crate) fn resign(self) {
        let _ = self.client.lease_revoke(self.lease);
    }
}
