//! Volumes that are mirrored to another cluster (decision 081).

use super::{PREFIX, Paused, is_false};
use crate::id::{ClusterId, Generation, MirrorEpoch, MirrorId, SetId, VolumeId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The finalized cluster version from which on volumes are mirrored: a program that does not know what closes a volume lets hosts in, and
/// drops it from the record (S17).
pub const MIRRORS_SINCE: u32 = 4;
/// The most mirrors of a cluster.
pub const MAX_MIRRORS: usize = 256;
/// The most volumes of a mirror: its record has them all, and is written each time a place of a pass is noted; and the transaction that makes it
/// compares and writes the records of all of them.
pub const MAX_MIRROR_VOLUMES: usize = 100;
/// The most points that an end keeps.
pub const MAX_POINTS: usize = 256;
/// The most bytes that are kept of why a mirror does not go on.
pub const MAX_AILS_BYTES: usize = 2_000;

/// What closes a volume to hosts: an end of a mirror that is no primary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Its runners may open the volume.
    pub mirror: MirrorId,
    /// What the mirror is called in this cluster.
    pub name: String,
    /// The generation that the volume was given when it was closed, and which nobody owned it by. What was sealed under a later one was sealed
    /// when all stores in sync refused whoever had it before.
    pub since: Generation,
}

/// What a point is called, at both ends: the epoch in which it was cut, and a number. Later ones are larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PointName {
    /// In which it was cut (T10).
    pub epoch: MirrorEpoch,
    /// Counted on across epochs.
    pub number: u64,
}

impl fmt::Display for PointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.number)
    }
}

/// A text that is no point's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no point: EPOCH-NUMBER does")]
pub struct BadPointName(pub String);

impl FromStr for PointName {
    type Err = BadPointName;

    fn from_str(text: &str) -> Result<PointName, BadPointName> {
        let parts = text.split_once('-');
        let parsed = parts.and_then(|(epoch, number)| {
            Some(PointName {
                epoch: epoch.parse().ok()?,
                number: number.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| BadPointName(text.to_owned()))
    }
}

/// A point that an end has: a set of snapshots of all volumes, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The same at both ends.
    #[serde(flatten)]
    pub name: PointName,
    /// When it was cut, by the clock of the cluster that cut it, in seconds since 1970.
    pub cut_at: u64,
    /// What this end's snapshots of it are called, of each volume.
    pub snapshots: String,
    /// When this end, which did not cut it, arrived at it, by its own clock, in seconds since 1970: where the other one's clock was set back, its age
    /// is counted from then. None: this end has cut it, or did so before this was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_at: Option<u64>,
}

impl Point {
    /// Is it younger than the interval, by the clock by which it was cut? One that is of later is not: that clock was set back since.
    #[must_use]
    pub fn is_young(&self, now: u64, interval_s: u64) -> bool {
        self.cut_at <= now && now < self.cut_at.saturating_add(interval_s)
    }
}

/// What an end is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MirrorRole {
    /// Hosts read and write; it cuts points, and serves them.
    Primary,
    /// Hosts are refused: its owners are fenced, and its last point is cut.
    Demoting,
    /// It follows; or, handed over, waits to be followed at its last point.
    #[default]
    Secondary,
    /// It is made what its point is.
    Promoting,
    /// It has heard of a later epoch, and has what the other end has not. It waits for an operator's word.
    Deposed,
}

impl MirrorRole {
    /// All of them.
    pub const ALL: &[MirrorRole] = &[
        MirrorRole::Primary,
        MirrorRole::Demoting,
        MirrorRole::Secondary,
        MirrorRole::Promoting,
        MirrorRole::Deposed,
    ];

    /// As it is told.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            MirrorRole::Primary => "primary",
            MirrorRole::Demoting => "demoting",
            MirrorRole::Secondary => "secondary",
            MirrorRole::Promoting => "promoting",
            MirrorRole::Deposed => "deposed",
        }
    }
}

impl fmt::Display for MirrorRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// What an end shows to the other one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// What it is.
    pub role: MirrorRole,
    /// In which epoch.
    pub epoch: MirrorEpoch,
    /// The point that a secondary is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<PointName>,
    /// It was demoted in order, in its epoch, and `point` is its last one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub handed: bool,
    /// The last epoch whose demotion it has declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<MirrorEpoch>,
    /// The points that it has, in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
}

impl Standing {
    /// Its point of that name.
    #[must_use]
    pub fn find(&self, name: PointName) -> Option<&Point> {
        self.points.iter().find(|point| point.name == name)
    }

    /// Its newest point.
    #[must_use]
    pub fn newest(&self) -> Option<&Point> {
        self.points.iter().max_by_key(|point| point.name)
    }

    /// May it be followed?
    #[must_use]
    pub fn serves(&self) -> bool {
        self.role == MirrorRole::Primary || self.role == MirrorRole::Secondary && self.handed
    }
}

/// What an end knows of the other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// As it has shown itself.
    #[serde(flatten)]
    pub standing: Standing,
    /// When it was seen, in seconds since 1970, by this end's clock.
    pub at: u64,
    /// And by the other one's.
    pub clock: u64,
}

/// A volume of a mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorVolume {
    /// What both ends call it: its name at the first end when the mirror was added.
    pub name: String,
    /// The number by which this end's hosts know it.
    pub id: VolumeId,
}

/// How the other end is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorPeer {
    /// The other cluster; none: it is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Addresses of its API: `HOST:PORT`. The next one is asked where one does not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The certificate authority that its certificates are of, in PEM: no other one is believed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub authority: String,
    /// The token that it knows this end by, sealed with the cluster's sealing key; empty: there is none yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
}

/// How far a volume is in a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassPlace {
    /// Everything before is the point's, and durable.
    pub done_bytes: u64,
    /// Of so many.
    pub total_bytes: u64,
    /// Bytes that were brought.
    pub written_bytes: u64,
    /// All of it is the point's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub whole: bool,
    /// The volume's, by the last opening of a runner: noted before that wrote anything.
    pub generation: Generation,
}

/// A pass that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorPass {
    /// To which point: what is to be brought.
    pub to: PointName,
    /// When that was cut, by the clock of who cut it.
    pub cut_at: u64,
    /// The point that it is compared with; none: all is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<PointName>,
    /// Where nothing is compared: what the point has not is cleared, for something else may be there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub clears: bool,
    /// How far each volume is, in the order of the mirror's.
    pub places: Vec<PassPlace>,
    /// The set of snapshots that is being taken of the volumes, behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<SetId>,
}

/// Volumes that go back to a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returning {
    /// To which; none: there is no common one, and what they were is kept under a name of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PointName>,
    /// Those whose data is the point's, by the numbers that they had before they went back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<VolumeId>,
    /// The data that each volume had when a deposed end began, in the order of the mirror's: what has another one by now has gone back, whether that
    /// was noted or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub were: Vec<VolumeId>,
    /// It is being given up, for the end is to be promoted by force: nothing goes back meanwhile.
    #[serde(default, skip_serializing_if = "is_false")]
    pub given_up: bool,
}

/// `/amita/mirrors/of/NAME`: one end of a mirror, as it is. No record of one cluster is ever written by the other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// The same at both ends.
    pub id: MirrorId,
    /// What it is called in this cluster.
    pub name: String,
    /// It takes odd epochs; else even ones.
    #[serde(default, skip_serializing_if = "is_false")]
    pub odd: bool,
    /// What it is.
    #[serde(flatten)]
    pub standing: Standing,
    /// The number of the newest point that it knows.
    #[serde(default)]
    pub number: u64,
    /// A point that is being cut: its set of snapshots is asked for, or is there, and it is no point yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutting: Option<Point>,
    /// A pass to this point was begun since its own: its volumes are no moment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<PointName>,
    /// The pass under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<MirrorPass>,
    /// Its volumes go back to a point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returning: Option<Returning>,
    /// Nothing but holes was in its volumes before the first pass, which has not been begun.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fresh: bool,
    /// Not all of its volumes are made yet, or the other end was not told of it: nothing is brought before that is so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub joining: bool,
    /// Its removal was begun: nothing is begun here, or goes on, but that, and a promotion by force, which ends it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub leaving: bool,
    /// It was promoted by force, and the ends have not agreed since.
    #[serde(default, skip_serializing_if = "is_false")]
    pub split: bool,
    /// In the order of both ends.
    pub volumes: Vec<MirrorVolume>,
    /// The other end.
    pub peer: MirrorPeer,
    /// When the token ends that it knows this end by, in seconds since 1970, by its clock; none: it has not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ends_at: Option<u64>,
    /// What it knows of that. It is kept under a key of its own ([`mirror_seen_key`]), and joined to the record by whoever reads that; in records of
    /// before it stands here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// Points follow each other after so many seconds.
    pub interval_s: u64,
    /// A secondary keeps so many points beside the one that it is at.
    pub keep: u32,
    /// At most so many bytes a second are read and sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
    /// It is late from a lag of so many seconds on; none: of three intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert_after_s: Option<u64>,
    /// As primary it goes on when it hears of a later epoch, and says that there is a split.
    #[serde(default, skip_serializing_if = "is_false")]
    pub never_deposed: bool,
    /// It follows nobody, and is not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Why it does not go on; it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ails: Option<String>,
}

/// The prefix of mirrors, and of who is at them.
#[must_use]
pub fn mirroring_prefix() -> String {
    format!("{PREFIX}mirrors/")
}
/// The prefix of mirrors alone.
#[must_use]
pub fn mirrors_prefix() -> String {
    format!("{}of/", mirroring_prefix())
}
/// The key of a mirror.
#[must_use]
pub fn mirror_key(name: &str) -> String {
    format!("{}{name}", mirrors_prefix())
}
/// `/amita/mirrors/id/ID`: the name of the mirror of this number.
#[must_use]
pub fn mirror_id_key(id: MirrorId) -> String {
    format!("{}id/{id}", mirroring_prefix())
}
/// The prefix of what was seen of other ends. It is none of those that are watched: what is there is written while nothing changes.
#[must_use]
pub fn mirrors_seen_prefix() -> String {
    format!("{PREFIX}mirrors-seen/")
}
/// `/amita/mirrors-seen/NAME`: what was seen of the other end of a mirror, as a [`Seen`]; it goes with the mirror's record.
#[must_use]
pub fn mirror_seen_key(name: &str) -> String {
    format!("{}{name}", mirrors_seen_prefix())
}
/// `/amita/mirrors/by/NAME`: the name of the node that is at this mirror. The key lies on a lease of that node.
#[must_use]
pub fn mirror_runner_key(name: &str) -> String {
    format!("{}by/{name}", mirroring_prefix())
}
