//! A mirror as it is shown: by the commands and by the API. No token is in it.

use amita_types::map::{Mirror, MirrorPass, Paused, Point, PointName, Standing};
use serde::Serialize;

/// One end of a mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MirrorView {
    /// What it is called in this cluster.
    pub name: String,
    /// Its number, the same at both ends.
    pub id: String,
    /// `primary`, `demoting`, `secondary`, `promoting`, `deposed`.
    pub role: String,
    /// The epoch that it is in.
    pub epoch: u64,
    /// The point that it is at, as EPOCH-NUMBER.
    pub point: Option<String>,
    /// The points that it has, in the order of their names.
    pub points: Vec<PointView>,
    /// It was demoted in order, and waits to be followed.
    pub handed: bool,
    /// It was promoted by force, and the ends have not agreed since.
    pub split: bool,
    /// It stands still.
    pub paused: Option<PauseView>,
    /// Why it does not go on; it is tried again.
    pub ails: Option<String>,
    /// The pass under way.
    pub pass: Option<PassView>,
    /// What both ends call its volumes.
    pub volumes: Vec<String>,
    /// The other end.
    pub peer: PeerView,
    /// What was seen of that last.
    pub seen: Option<SeenView>,
    /// How old the point is that a secondary is at, in seconds.
    pub lag_s: Option<u64>,
    /// From this lag on it is late.
    pub late_after_s: u64,
    /// Points follow each other after so many seconds.
    pub interval_s: u64,
    /// A secondary keeps so many points beside the one that it is at.
    pub keep: u32,
    /// At most so many bytes a second.
    pub limit_bytes_per_second: Option<u64>,
    /// It is late from this lag on, where that was said.
    pub alert_after_s: Option<u64>,
    /// As primary it goes on when it hears of a later epoch.
    pub never_deposed: bool,
}

/// A point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PointView {
    /// EPOCH-NUMBER.
    pub name: String,
    /// When it was cut, by the clock of the cluster that cut it, in seconds since 1970.
    pub cut_at: u64,
    /// What its snapshots are called here.
    pub snapshots: String,
}

/// Who has it stand still.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PauseView {
    /// Who.
    pub by: String,
    /// Since when, in seconds since 1970.
    pub at: u64,
}

/// A pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PassView {
    /// To which point.
    pub to: String,
    /// When that was cut, in seconds since 1970, by the clock of who cut it.
    pub cut_at: u64,
    /// The point that it is compared with; none: all is read.
    pub base: Option<String>,
    /// How far each volume is, in the order of the mirror's.
    pub volumes: Vec<PassVolumeView>,
}

/// How far a volume is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PassVolumeView {
    /// What both ends call it.
    pub name: String,
    /// Everything before is the point's.
    pub done_bytes: u64,
    /// Of so many.
    pub total_bytes: u64,
    /// Bytes that were brought.
    pub written_bytes: u64,
    /// All of it is the point's.
    pub whole: bool,
}

/// The other end, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerView {
    /// Its cluster.
    pub cluster: Option<String>,
    /// Addresses of its API.
    pub addresses: Vec<String>,
}

/// What was seen of the other end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenView {
    /// What it is.
    pub role: String,
    /// In which epoch.
    pub epoch: u64,
    /// The point that it is at.
    pub point: Option<String>,
    /// It was demoted in order.
    pub handed: bool,
    /// When, in seconds since 1970, by this end's clock.
    pub at: u64,
}

fn text(name: Option<PointName>) -> Option<String> {
    name.map(|name| name.to_string())
}

fn point(found: &Point) -> PointView {
    PointView {
        name: found.name.to_string(),
        cut_at: found.cut_at,
        snapshots: found.snapshots.clone(),
    }
}

fn pass(mirror: &Mirror, found: &MirrorPass) -> PassView {
    let volumes = mirror.volumes.iter().zip(&found.places);
    PassView {
        to: found.to.to_string(),
        cut_at: found.cut_at,
        base: text(found.base),
        volumes: volumes
            .map(|(volume, place)| PassVolumeView {
                name: volume.name.clone(),
                done_bytes: place.done_bytes,
                total_bytes: place.total_bytes,
                written_bytes: place.written_bytes,
                whole: place.whole,
            })
            .collect(),
    }
}

fn pause(found: &Paused) -> PauseView {
    PauseView {
        by: found.by.clone(),
        at: found.at,
    }
}

/// From which lag on a mirror is late, in seconds.
#[must_use]
pub fn late_after_s(mirror: &Mirror) -> u64 {
    mirror.alert_after_s.unwrap_or(mirror.interval_s.saturating_mul(3))
}

/// A mirror as it is shown; `now` is in seconds since 1970.
#[must_use]
pub fn view(mirror: &Mirror, now: u64) -> MirrorView {
    let Standing {
        role,
        epoch,
        point: at,
        handed,
        points,
        ..
    } = &mirror.standing;
    let mut points: Vec<&Point> = points.iter().collect();
    points.sort_by_key(|point| point.name);
    MirrorView {
        name: mirror.name.clone(),
        id: mirror.id.to_string(),
        role: role.text().to_owned(),
        epoch: epoch.0,
        point: text(*at),
        points: points.into_iter().map(point).collect(),
        handed: *handed,
        split: mirror.split,
        paused: mirror.paused.as_ref().map(pause),
        ails: mirror.ails.clone(),
        pass: mirror.pass.as_ref().map(|found| pass(mirror, found)),
        volumes: mirror.volumes.iter().map(|volume| volume.name.clone()).collect(),
        peer: PeerView {
            cluster: mirror.peer.cluster.map(|cluster| cluster.to_string()),
            addresses: mirror.peer.addresses.clone(),
        },
        seen: mirror.seen.as_ref().map(|seen| SeenView {
            role: seen.standing.role.text().to_owned(),
            epoch: seen.standing.epoch.0,
            point: text(seen.standing.point),
            handed: seen.standing.handed,
            at: seen.at,
        }),
        lag_s: super::lag(mirror, now),
        late_after_s: late_after_s(mirror),
        interval_s: mirror.interval_s,
        keep: mirror.keep,
        limit_bytes_per_second: mirror.limit_bytes_per_s,
        alert_after_s: mirror.alert_after_s,
        never_deposed: mirror.never_deposed,
    }
}
