//! What the cluster's settings say of NVMe, as one node sees it.

use crate::admin::{DISCOVERY_NQN, MAX_NAMESPACES};
use amita_frontend::Source;
use amita_frontend::pieces::is_chunk_size;
use amita_frontend::reservation;
use amita_types::{NodeId, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use zeroize::Zeroize;

/// The settings of the moment. Immutable: made anew when they change, and shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    pub node: NodeId,
    /// Counts the catalogs of this node: the generation counter of the discovery log. 0: the settings are not known yet.
    pub revision: u64,
    /// The cluster's own name as a discovery subsystem: unique, beside the well-known name, which is accepted too.
    pub discovery_nqn: String,
    /// In order of their NQN.
    pub subsystems: Vec<Arc<Subsystem>>,
    /// All gateways that speak NVMe/TCP, in order of their number.
    pub gateways: Vec<Gateway>,
    /// The reservations of volumes as the metadata has them, for the notices to hosts. Of a volume that is not among them
    /// nobody has registered.
    pub reservations: BTreeMap<VolumeId, Arc<reservation::State>>,
}

impl Catalog {
    /// The subsystem of that name.
    #[must_use]
    pub fn subsystem(&self, nqn: &str) -> Option<&Arc<Subsystem>> {
        let index = self
            .subsystems
            .binary_search_by(|known| known.nqn.as_str().cmp(nqn))
            .ok()?;
        self.subsystems.get(index)
    }

    /// What a host must show to the subsystem of that name; to the discovery subsystem, what it must show to any.
    #[must_use]
    pub fn access(&self, subsystem: &str, host: &str) -> Option<&Arc<HostAccess>> {
        if subsystem == DISCOVERY_NQN || subsystem == self.discovery_nqn {
            return self.subsystems.iter().find_map(|subsystem| subsystem.host(host));
        }
        self.subsystem(subsystem)?.host(host)
    }
}

/// A node where hosts can connect.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// Its number. The low 16 bits are its port's number in the discovery log.
    pub node: NodeId,
    pub name: String,
    /// Where its NVMe/TCP port listens.
    pub portal: SocketAddr,
    /// Does it live, as far as is known?
    pub alive: bool,
}

/// A subsystem: what a host connects to.
#[derive(Clone, Debug, PartialEq)]
pub struct Subsystem {
    /// Its NVMe qualified name.
    pub nqn: String,
    /// Its serial number: at most 20 characters of ASCII.
    pub serial: String,
    /// The gateways that serve it, in order of their number.
    pub gateways: Vec<NodeId>,
    /// Any host may connect; otherwise only `hosts`.
    pub any_host: bool,
    /// Connections without TLS are refused, whatever the host has to show.
    pub tls_required: bool,
    /// Who may connect, in order of their NQN.
    pub hosts: Vec<Arc<HostAccess>>,
    /// In order of their number.
    pub namespaces: Vec<Arc<Namespace>>,
    /// Counts the changes of states of ANA groups, over the node's life.
    pub ana_changes: u64,
}

impl Subsystem {
    /// The namespace of that number, if it is one that hosts can use.
    #[must_use]
    pub fn namespace(&self, nsid: u32) -> Option<&Arc<Namespace>> {
        let index = self.namespaces.binary_search_by_key(&nsid, |known| known.nsid).ok()?;
        self.namespaces.get(index).filter(|namespace| namespace.is_sound())
    }

    /// The namespaces that hosts can use, in order of their number.
    pub(crate) fn sound(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.namespaces.iter().filter(|namespace| namespace.is_sound())
    }

    /// What the host must show, if it may connect at all.
    #[must_use]
    pub fn host(&self, nqn: &str) -> Option<&Arc<HostAccess>> {
        let index = self.hosts.binary_search_by(|known| known.nqn.as_str().cmp(nqn)).ok()?;
        self.hosts.get(index)
    }
}

/// A host, and what it has to show.
#[derive(Clone, Debug, PartialEq)]
pub struct HostAccess {
    pub nqn: String,
    /// The secret that it must prove to have by DH-HMAC-CHAP, in the form `DHHC-1:...:`.
    pub dhchap: Option<Secret>,
    /// The secret that the controller proves to have, when the host asks for that; same form.
    pub dhchap_controller: Option<Secret>,
    /// The configured pre-shared key for TLS, in the form `NVMeTLSkey-1:...:`: without TLS it may not connect.
    pub tls: Option<Secret>,
}

impl HostAccess {
    /// Has it anything to prove?
    #[must_use]
    pub fn has_to_prove(&self) -> bool {
        self.dhchap.is_some() || self.tls.is_some()
    }
}

/// A text that is never shown, and that is wiped when nobody needs it any more.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// A namespace: a volume, or a snapshot of one, under a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Namespace {
    /// Its number in the subsystem, from 1 on. It is the number of its ANA group as well.
    pub nsid: u32,
    pub volume: VolumeId,
    /// The snapshot of it that is meant, which can only be read; [`SnapshotId::HEAD`]: the volume itself.
    pub snapshot: SnapshotId,
    /// The volume's name.
    pub name: String,
    pub size_bytes: u64,
    /// Bytes of a chunk of the volume.
    pub chunk_bytes: u32,
    /// Bytes of a logical block: 512 or 4096.
    pub block_bytes: u32,
    /// The same at every gateway, for ever.
    pub uuid: [u8; 16],
    /// The same; a namespace globally unique identifier.
    pub nguid: [u8; 16],
    /// How this gateway reaches it.
    pub ana: Ana,
}

impl Namespace {
    /// What its I/O is about.
    #[must_use]
    pub fn source(&self) -> Source {
        let (volume, snapshot) = (self.volume, self.snapshot);
        Source { volume, snapshot }
    }

    /// Can it be read only? What is so was never another way, and stays so.
    #[must_use]
    pub fn is_write_protected(&self) -> bool {
        !self.source().is_head()
    }

    /// Can it be described to a host, and its I/O be cut into chunks? Of the settings no other reaches hosts.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        (1..=MAX_NAMESPACES).contains(&self.nsid)
            && matches!(self.block_bytes, 512 | 4096)
            && is_chunk_size(self.chunk_bytes)
    }
}

/// States of an ANA group (NVM Express Base 2.1, 8.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ana {
    /// This gateway owns the volume.
    Optimized = 1,
    /// Another one does; I/O is forwarded.
    #[default]
    NonOptimized = 2,
    /// This gateway is cut off: neither.
    Inaccessible = 3,
    /// Being moved.
    Change = 15,
}
