//! Snapshots that clients open by their names, `VOLUME@SNAPSHOT`: for reading only, at any gateway.
//!
//! The volume is not opened for that: its owner goes on with it, and what is read goes to the owner, here or forwarded; it is opened
//! for it if nobody has it. Which snapshot a name means is read in the metadata, when it is asked for: its records are many, and no node
//! keeps them. A right is judged as that to the volume is.

use super::Core;
use super::bases::{self, Compared};
use crate::exports::{Grant, Usage, judge};
use crate::mail::Origin;
use crate::token;
use amita_frontend::{Event, OpenError, VolumeInfo, Who, snapshot_named};
use amita_metadata::{self as meta, Call, Op, Reply};
use amita_reactor::driver::{Driver, Time};
use amita_sequencer::CallId;
use amita_types::map::{self, Snapshot, SnapshotName, SnapshotState};
use amita_types::{SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The number that no sequencer gets: the calls of this part carry it.
pub const VIEWS: u16 = u16::MAX - 5;
const _: () = assert!(VIEWS < crate::authority::AUTHORITY, "each part has a number of its own");
/// The metadata is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// One that is being looked for.
pub(super) struct Asked {
    pub origin: Origin,
    pub who: Who,
    pub volume: VolumeId,
    /// The number under which the names of its snapshots stand.
    pub host: VolumeId,
    /// What was asked for, as it was.
    pub name: String,
    since: Time,
    /// Of which of the volume's data it is one, and its number, once that is known.
    found: Option<(VolumeId, SnapshotId)>,
    /// It is asked what it can be compared with.
    pub bases: Option<Compared>,
}

impl Asked {
    /// It is asked what an export can be compared with.
    pub fn bases(
        origin: Origin,
        who: Who,
        (volume, host): (VolumeId, VolumeId),
        name: String,
        since: Time,
        bases: Compared,
    ) -> Asked {
        Asked {
            origin,
            who,
            volume,
            host,
            name,
            since,
            found: None,
            bases: Some(bases),
        }
    }
}

/// What a core looks for.
pub(super) struct Views {
    id_base: u64,
    count: u64,
    /// By the call that is under way.
    asked: BTreeMap<u64, Asked>,
    /// What the calls have brought, in their order.
    ended: Vec<(Asked, Option<Reply>)>,
}

impl Views {
    pub(super) fn new(core: usize) -> Views {
        Views {
            id_base: token::id_base(core, VIEWS),
            count: 0,
            asked: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Is [`look`] to be called?
    pub(super) fn is_due(&self, now: Time) -> bool {
        !self.ended.is_empty() || self.deadline().is_some_and(|at| at <= now)
    }

    /// When [`look`] is wanted.
    pub(super) fn deadline(&self) -> Option<Time> {
        // Calls are made in order of time, but for the second ones of a name, which come soon.
        let first = self.asked.values().next()?;
        Some(first.since.plus(PATIENCE))
    }

    /// Is that a call of this part that is under way?
    pub(super) fn has_asked(&self, call: CallId) -> bool {
        self.asked.contains_key(&call.0)
    }

    /// A call has ended.
    pub(super) fn answered(&mut self, call: CallId, result: Result<Reply, meta::Error>) {
        if let Some(asked) = self.asked.remove(&call.0) {
            self.ended.push((asked, result.ok()));
        }
    }
}

/// A client that may use the volume asks for a snapshot of it.
pub(super) fn ask(core: &mut Core, now: Time, origin: Origin, volume: VolumeId, name: String, who: Who) {
    let Some((_, snapshot)) = snapshot_named(&name) else {
        return;
    };
    let host = host_of(core, volume);
    if let Some(usage) = core.fronts.usage(origin.front) {
        let open = None;
        let key = map::snapshot_name_key(host, snapshot);
        *usage = Some(Usage {
            who: who.clone(),
            open,
            unseen: None,
        });
        let asked = Asked {
            origin,
            who,
            volume,
            host,
            name,
            since: now,
            found: None,
            bases: None,
        };
        call(core, asked, vec![Op::Get { key }]);
    }
}

/// The number under which the names of a volume's snapshots stand.
pub(super) fn host_of(core: &Core, volume: VolumeId) -> VolumeId {
    core.cx.view.volume_of(volume).map_or(volume, map::Volume::host)
}

/// The number of the next call of this part, or of one that shares its numbers ([`super::doubts`]).
pub(super) fn next_call(core: &mut Core) -> CallId {
    let views = &mut core.views;
    views.count += 1;
    CallId(views.id_base | views.count & ((1 << 40) - 1))
}

/// The metadata is asked for what the question needs.
pub(super) fn call(core: &mut Core, asked: Asked, then: Vec<Op>) {
    let call = next_call(core);
    core.views.asked.insert(call.0, asked);
    let request = Call {
        compares: Vec::new(),
        then,
        otherwise: Vec::new(),
    };
    core.cx.control.call(call, request);
}

/// The metadata has answered, or has been silent for long.
pub(super) fn look(core: &mut Core, driver: &mut dyn Driver) {
    let now = driver.now();
    let late = |asked: &Asked| now >= asked.since.plus(PATIENCE);
    let late: Vec<u64> = core
        .views
        .asked
        .iter()
        .filter(|(_, asked)| late(asked))
        .map(|(call, _)| *call)
        .collect();
    for call in late {
        core.views
            .ended
            .extend(core.views.asked.remove(&call).map(|asked| (asked, None)));
    }
    for (asked, result) in std::mem::take(&mut core.views.ended) {
        let (front, tag) = (asked.origin.front, asked.origin.tag);
        let silent = || OpenError::Unavailable("the metadata does not answer".to_owned());
        let event = match (asked.bases.is_some(), result) {
            (true, Some(reply)) => bases::go_on(core, asked, &reply).map(|result| Event::Bases { tag, result }),
            (false, Some(reply)) => go_on(core, asked, &reply).map(|result| Event::Opened { tag, result }),
            (true, None) => Some(Event::Bases {
                tag,
                result: Err(silent()),
            }),
            (false, None) => Some(Event::Opened {
                tag,
                result: Err(silent()),
            }),
        };
        if let Some(event) = event {
            core.fronts.event(driver, front, event);
        }
    }
}

/// The next step; `None`: there is one more, or nobody waits any more.
fn go_on(core: &mut Core, mut asked: Asked, reply: &Reply) -> Option<Result<VolumeInfo, OpenError>> {
    core.fronts.usage(asked.origin.front)?;
    let found = reply.value(0);
    let Some(which) = asked.found else {
        let Some(name) = found.and_then(|found| found.json::<SnapshotName>().ok()) else {
            return Some(Err(OpenError::NotFound));
        };
        let of = core.cx.view.volume_of(asked.volume);
        let data = of.map_or_else(|| name.data(asked.host), |of| of.data_of(&name));
        asked.found = Some((data, name.number));
        let key = map::snapshot_key(data, name.number);
        call(core, asked, vec![Op::Get { key }]);
        return None;
    };
    let record = found.and_then(|found| found.json::<Snapshot>().ok());
    let is_it = |record: &Snapshot| (record.volume, record.number) == which;
    let Some(record) = record.filter(is_it) else {
        return Some(Err(OpenError::NotFound));
    };
    if !matches!(record.state, SnapshotState::Sealed(_)) {
        let why = "the snapshot is still being taken".to_owned();
        return Some(Err(OpenError::Unavailable(why)));
    }
    if record.mark {
        let why =
            "the snapshot is deleted, and only its mark is kept: it tells what was changed since, and has no data";
        return Some(Err(OpenError::Refused(why.to_owned())));
    }
    Some(opened(core, &asked, &record))
}

/// It may be read from now on, if the client still has the right to.
fn opened(core: &mut Core, asked: &Asked, record: &Snapshot) -> Result<VolumeInfo, OpenError> {
    let view = &core.cx.view;
    let right = judge(view, asked.volume, &asked.who);
    let chunk_bytes = view
        .volume_of(asked.volume)
        .filter(|volume| !map::is_hidden(&volume.name) && volume.has_data(record.volume))
        .and_then(|volume| view.chunk_bytes(&volume.pool));
    let (Some(Grant { read_only }), Some(chunk_bytes)) = (right, chunk_bytes) else {
        return Err(OpenError::NotFound);
    };
    let info = VolumeInfo {
        id: record.volume,
        snapshot: record.number,
        name: asked.name.clone(),
        size_bytes: record.size_bytes,
        chunk_bytes,
        read_only: true,
    };
    if let Some(Some(usage)) = core.fronts.usage(asked.origin.front) {
        usage.open = Some((info.source(), read_only));
    }
    Ok(info)
}
