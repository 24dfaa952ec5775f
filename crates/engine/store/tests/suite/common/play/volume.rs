//! A volume and its owner, as a control plane and a gateway know them.

use super::super::Requester;
use amita_reactor::Time;
use amita_types::message::Request;
use amita_types::{RequestId, SnapshotId, VolumeId};

#[derive(Clone, Debug)]
pub struct Volume {
    pub id: VolumeId,
    pub owner: Requester,
    /// Has the store answered the owner's fence?
    pub fenced: bool,
    /// Who takes over, and the fence that says so.
    pub next: Option<(Requester, RequestId)>,
    /// The newest snapshot; 0: there was none.
    pub newest: u32,
    /// Snapshots that can still be read, ascending.
    pub live: Vec<u32>,
    /// Was it not deleted?
    pub alive: bool,
    /// A clone: of which volume, at which of its snapshots.
    pub origin: Option<(VolumeId, u32)>,
    /// The lease of the owner: no newer one is accepted before.
    pub leased_until: Time,
    /// Blocks that the owner was granted and did not use (rule R7).
    pub credits: u64,
}

impl Volume {
    pub fn new(owner: Requester, origin: Option<(VolumeId, u32)>) -> Volume {
        Volume {
            id: owner.volume,
            owner,
            fenced: false,
            next: None,
            newest: 0,
            live: Vec::new(),
            alive: true,
            origin,
            leased_until: Time(0),
            credits: 0,
        }
    }

    /// May it be written?
    pub fn writable(&self) -> bool {
        self.fenced && self.alive
    }

    /// A request under the newest snapshot.
    pub fn change(&mut self, body: amita_types::message::RequestBody) -> Request {
        let snapshot = self.newest;
        self.ask(snapshot, body)
    }

    pub fn ask(&mut self, snapshot: u32, body: amita_types::message::RequestBody) -> Request {
        let mut request = self.owner.request(body);
        request.scope.snapshot = SnapshotId(snapshot);
        request
    }

    /// Another owner speaks for it from now on.
    pub fn owned_by(&mut self, owner: Requester) {
        self.owner = owner;
        self.fenced = true;
        self.leased_until = Time(0);
        self.credits = 0;
    }
}
