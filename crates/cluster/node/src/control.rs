//! What a core and the control plane of its node say to each other.
//!
//! The control plane (threads with the metadata client) is not on the path of an I/O. A core hands it metadata calls
//! and reports; it hands back results and changed records. In the simulator the same messages come from a simulated
//! metadata service.

use amita_frontend::{Computed, FrontId};
use amita_metadata as meta;
use amita_sequencer::{CallId, Warning};
use amita_store::memo::{Content, Head};
use amita_store::offline::{GroupLook, VolumeLook};
use amita_types::holdings::Holdings;
use amita_types::link::Network;
use amita_types::{NodeId, StoreId, VolumeId};
use std::sync::Arc;

/// A record of the metadata, new, changed or gone. Never acted on as truth: a hint for routing and listing; what must
/// be right is read again by a linearizable read (R6).
#[derive(Clone, Debug)]
pub struct Record {
    pub key: String,
    /// The value, or `None` where the key was deleted.
    pub value: Option<Vec<u8>>,
    /// Its modification revision.
    pub revision: u64,
    /// The revision of its creation; 0 where it was deleted.
    pub created: u64,
}

#[derive(Debug)]
pub enum ToCore {
    /// A metadata call ended.
    Metadata {
        call: CallId,
        result: Result<meta::Reply, meta::Error>,
    },
    /// A record changed, or is there at the start.
    Record(Record),
    /// All records were told, as they were at the start.
    Settled,
    /// What does this store know? [`FromCore::Recalled`] says it, if this core serves it.
    Recall(StoreId),
    /// Keep this copy of the metadata on these stores, as far as this core serves them; [`FromCore::Kept`] tells the end.
    Keep {
        /// The copy.
        content: Content,
        stores: Arc<[StoreId]>,
    },
    /// What the metadata says that stores may hold: these stores, as far as this core serves them, drop what nothing needs any
    /// more (R13). `None`: the metadata is not to be believed, and they stop.
    Hold {
        /// What they may hold.
        holdings: Option<Arc<Holdings>>,
        stores: Arc<[StoreId]>,
    },
    /// This node has claimed the store: it may serve. To the core that has it; the others do nothing.
    Admit {
        store: StoreId,
        /// By which path: a copy of it may be here as well.
        path: String,
        mount: u64,
    },
    /// This node may not serve the store, or no longer: [`FromCore::StoreFailed`] follows.
    Retire {
        path: String,
        /// Why, and what to do.
        why: String,
    },
    /// The node's lease has lapsed: hosts may have gone on by other gateways, and what they had sent must not be carried out once the
    /// node is known as living again. Every connection of a host is dropped, and then this is answered with the core's number.
    DropHosts(std::sync::mpsc::Sender<usize>),
    /// What this node believes of certificates has changed: links of peers that are not to be believed any more end.
    Recheck,
    /// What a front of this core wanted computed.
    Computed {
        front: FrontId,
        /// The tag of what it asked.
        tag: u64,
        /// `None`: it was not.
        result: Option<Computed>,
    },
    /// Describe what is under way, by [`FromCore::Description`]: for a person who looks for a fault.
    Describe,
    /// Say what was counted, straight to whoever asks.
    Observe(crate::observe::Observe),
    /// Say which traces were kept since, likewise.
    Kept(crate::observe::KeptQuestion),
    /// Say which sessions of initiators there are, likewise.
    Sessions(crate::observe::SessionsQuestion),
    /// Have the connections to a node go by this network of it, as far as they can be had there.
    Steer { node: NodeId, network: Network },
    /// Say what the kernel has counted of connections to other nodes, likewise.
    Links(crate::links::LinkQuestion),
}

#[derive(Debug)]
pub enum FromCore {
    /// Carry out a call.
    Metadata { call: CallId, request: meta::Call },
    /// A store was mounted, and waits for [`ToCore::Admit`] before it serves (where stores are held:
    /// [`crate::stores::Stores::await_admission`]).
    StoreMounted {
        /// Its UUID.
        store: StoreId,
        /// The path that it was opened by.
        path: String,
        /// Its capacity for data.
        size_bytes: u64,
        /// The number of the mount, from its disk: it goes up with each.
        mount: u64,
    },
    /// A store was mounted and serves.
    StoreServes {
        /// Its UUID.
        store: StoreId,
        /// The path that it was opened by.
        path: String,
        /// Its capacity for data.
        size_bytes: u64,
        /// What the mount did, for the log.
        report: String,
    },
    /// A store cannot serve, or does so no more.
    StoreFailed {
        /// Which, if it has served; `None`: it could not be mounted.
        store: Option<StoreId>,
        path: String,
        /// What, where, what to do.
        why: String,
    },
    /// A store that has failed, as was told, is not tried again any more.
    StoreStaysOut {
        path: String,
        /// What, where, what to do.
        why: String,
    },
    /// What a store knows of the cluster.
    Recalled {
        store: StoreId,
        /// The newest copy of the metadata on it.
        newest: Option<Head>,
        /// The groups that it knows.
        groups: Vec<GroupLook>,
        /// The volumes that it knows.
        volumes: Vec<VolumeLook>,
        /// The volumes that it knows to be deleted, as ranges.
        deleted: Vec<(VolumeId, VolumeId)>,
    },
    /// A store has kept a copy of the metadata, durably.
    Kept {
        store: StoreId,
        /// The metadata's revision that the copy is of.
        revision: u64,
    },
    /// Hosts meet with failures at a volume.
    VolumeFails {
        /// Its name.
        volume: String,
        /// What fails, and why.
        text: String,
    },
    /// They have met with none for a while.
    VolumeWorks {
        /// Its name.
        volume: String,
        /// What no longer fails.
        text: String,
    },
    /// Something that the operator should see.
    Warning(String),
    /// Something for the log alone: it is part of what is told elsewhere as one event.
    Detail(String),
    /// The answer to [`ToCore::Describe`].
    Description(String),
}

impl From<Warning> for FromCore {
    /// A store that goes leaves each of its groups, and each owner of a volume sees that: the coordinator tells of all of them at once, by one
    /// line and one event.
    fn from(warning: Warning) -> FromCore {
        match warning {
            Warning::Evicted { .. } => FromCore::Detail(warning.to_string()),
            other => FromCore::Warning(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
