//! What the two ends of a mirror say to each other (decision 081), as both of them read and write it.

use amita_types::map::Standing;
use amita_types::{ClusterId, MirrorId};
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// What an end is, as it shows itself to the other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MirrorLink {
    /// The cluster that answers.
    #[schema(value_type = String, example = "6d2a6b5e-2f0c-4ad5-9d0b-3a7f1f3f0c11")]
    pub cluster: ClusterId,
    /// The mirror's number, the same at both ends.
    #[schema(value_type = String, example = "0f8fad5b-d9cb-469f-a165-70867728950e")]
    pub mirror: MirrorId,
    /// What the time is there, in seconds since 1970.
    pub clock: u64,
    /// What it is.
    #[schema(value_type = MirrorStanding)]
    pub standing: Standing,
    /// Its volumes, in the order of both ends.
    pub volumes: Vec<LinkVolume>,
    /// Points follow each other after so many seconds.
    pub interval_s: u64,
}

/// A volume of a mirror, as the other end has to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkVolume {
    /// What both ends call it.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its blocks are encrypted.
    pub encrypted: bool,
}

/// How an end is reached by the other one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MirrorPeerTold {
    /// Its cluster.
    #[schema(value_type = String)]
    pub cluster: ClusterId,
    /// Addresses of its API: `HOST:PORT`.
    #[schema(example = json!(["n1.far.example:7480"]))]
    pub addresses: Vec<String>,
    /// The certificates of the authority that its own are of, in PEM: no other one is believed.
    pub authority: String,
    /// The token by which it knows this end. It is kept sealed, and shown to nobody.
    pub token: String,
}

impl fmt::Debug for MirrorPeerTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MirrorPeerTold({}, {:?})", self.cluster, self.addresses)
    }
}

/// The form of what a mirror is joined by.
pub const BOOTSTRAP_VERSION: u32 = 1;

/// What the other cluster joins a mirror by: how the near end is reached, and the token by which that knows the far one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MirrorBootstrap {
    /// Its form: 1.
    #[schema(example = 1)]
    pub version: u32,
    /// The mirror's number, the same at both ends.
    #[schema(value_type = String, example = "0f8fad5b-d9cb-469f-a165-70867728950e")]
    pub mirror: MirrorId,
    /// What it is called at the near end.
    #[schema(example = "dr")]
    pub name: String,
    /// The near end's cluster.
    #[schema(value_type = String, example = "6d2a6b5e-2f0c-4ad5-9d0b-3a7f1f3f0c11")]
    pub cluster: ClusterId,
    /// Addresses of its API: `HOST:PORT`.
    #[schema(example = json!(["n1.near.example:7480"]))]
    pub addresses: Vec<String>,
    /// The certificates of the authority that its own are of, in PEM; empty where both clusters are on one machine and nobody proves anything.
    pub authority: String,
    /// The token. Whoever has it can read what the mirror brings.
    pub token: String,
}

impl fmt::Debug for MirrorBootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MirrorBootstrap({}, {:?})", self.mirror, self.addresses)
    }
}

impl MirrorBootstrap {
    /// Of a mirror that was made.
    #[must_use]
    pub fn new(
        (mirror, name): (MirrorId, &str),
        cluster: ClusterId,
        (addresses, authority): (Vec<String>, String),
        token: String,
    ) -> MirrorBootstrap {
        MirrorBootstrap {
            version: BOOTSTRAP_VERSION,
            mirror,
            name: name.to_owned(),
            cluster,
            addresses,
            authority,
            token,
        }
    }
}

/// A token for the other end.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct MirrorTokenMade {
    /// Its text.
    pub token: String,
    /// When it ends, in seconds since 1970.
    pub ends_at: u64,
}

impl fmt::Debug for MirrorTokenMade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MirrorTokenMade(until {})", self.ends_at)
    }
}

/// What an end of a mirror is.
#[derive(ToSchema)]
#[expect(dead_code, reason = "for the specification: it is a record of the metadata")]
pub(crate) struct MirrorStanding {
    /// `primary`, `demoting`, `secondary`, `promoting` or `deposed`.
    role: String,
    /// In which epoch.
    epoch: u64,
    /// The point that a secondary is at.
    point: Option<MirrorPointName>,
    /// It was demoted in order, and `point` is its last one. No where it is not said.
    handed: Option<bool>,
    /// The last epoch whose demotion it has declined.
    declined: Option<u64>,
    /// The points that it has. None where it is not said.
    points: Option<Vec<MirrorPoint>>,
}

/// What a point is called, at both ends.
#[derive(ToSchema)]
#[expect(dead_code, reason = "for the specification: it is a record of the metadata")]
pub(crate) struct MirrorPointName {
    /// The epoch in which it was cut.
    epoch: u64,
    /// Counted on across epochs.
    number: u64,
}

/// A point.
#[derive(ToSchema)]
#[expect(dead_code, reason = "for the specification: it is a record of the metadata")]
pub(crate) struct MirrorPoint {
    /// The epoch in which it was cut.
    epoch: u64,
    /// Counted on across epochs.
    number: u64,
    /// When it was cut, in seconds since 1970, by the clock of the cluster that cut it.
    cut_at: u64,
    /// What its snapshots are called at the end that shows it.
    snapshots: String,
}
