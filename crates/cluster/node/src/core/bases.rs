//! Which snapshots a client may have an export compared with: those of its volume, older than the export where that is a snapshot
//! itself. Read in the metadata when it is asked for, as [`super::views`] reads names.

use super::Core;
use super::views::{Asked, call, host_of};
use crate::exports::judge;
use crate::mail::Origin;
use amita_frontend::{Bases, MAX_BASES, OpenError, Who, snapshot_named};
use amita_metadata::{KeyValue, Op, Reply};
use amita_reactor::driver::Time;
use amita_types::map::{self, MAX_SNAPSHOT_NAME, Snapshot, SnapshotName, SnapshotState};
use amita_types::{SnapshotId, VolumeId};

/// How far a question has come.
#[derive(Default)]
pub(super) struct Compared {
    /// Those of these names; empty: all.
    only: Vec<String>,
    /// Of which data, and their names and numbers, once those are known: the export itself, where it is a snapshot, is the last one.
    found: (VolumeId, Vec<(String, SnapshotId)>),
}

/// A client that may use the volume asks which of its snapshots it may have it compared with.
pub(super) fn ask(
    core: &mut Core,
    since: Time,
    origin: Origin,
    volume: VolumeId,
    name: String,
    who: Who,
    only: Vec<String>,
) {
    if core.fronts.usage(origin.front).is_none() {
        return;
    }
    let host = host_of(core, volume);
    // What cannot be the name of one is not found.
    let key_of = |name: &str| map::snapshot_name_key(host, if name.len() > MAX_SNAPSHOT_NAME { "" } else { name });
    let mut ops = Vec::new();
    if let Some((_, later)) = snapshot_named(&name) {
        ops.push(Op::Get { key: key_of(later) });
    }
    match only.is_empty() {
        true => ops.push(Op::Prefix {
            key: map::snapshot_names_prefix(host),
        }),
        false => ops.extend(only.iter().map(|name| Op::Get { key: key_of(name) })),
    }
    let bases = Compared {
        only,
        found: (volume, Vec::new()),
    };
    call(core, Asked::bases(origin, who, (volume, host), name, since, bases), ops);
}

/// The next step; `None`: there is one more, or nobody waits any more.
pub(super) fn go_on(core: &mut Core, mut asked: Asked, reply: &Reply) -> Option<Result<Bases, OpenError>> {
    core.fronts.usage(asked.origin.front)?;
    if judge(&core.cx.view, asked.volume, &asked.who).is_none() {
        return Some(Err(OpenError::NotFound));
    }
    let (volume, host) = (asked.volume, asked.host);
    let later = snapshot_named(&asked.name).is_some();
    let compared = asked.bases.as_mut()?;
    if !compared.found.1.is_empty() {
        let (data, found) = std::mem::take(&mut compared.found);
        return Some(sealed(reply, data, found, later));
    }
    let of = core.cx.view.volume_of(volume).cloned();
    let named = |found: &KeyValue| {
        let name = found.json::<SnapshotName>().ok()?;
        let data = of.as_ref().map_or_else(|| name.data(host), |of| of.data_of(&name));
        Some((data, name.number))
    };
    let (data, end) = match later {
        true => match reply.value(0).and_then(named) {
            Some(found) => found,
            None => return Some(Err(OpenError::NotFound)),
        },
        // What is being taken is no more than wished for.
        false => {
            let sealed = core.cx.view.volume_of(volume)?.lineage.sealed;
            (volume, SnapshotId(sealed.0.saturating_add(1)))
        }
    };
    // Versions tell what was changed within one data: what a volume was before it was reverted has others.
    let older = |(of, number): (VolumeId, SnapshotId)| (of == data && number < end).then_some(number);
    if compared.only.is_empty() {
        let prefix = map::snapshot_names_prefix(host);
        let all = reply.values(usize::from(later)).iter();
        let all = all.filter_map(|found| Some((found.key.strip_prefix(&prefix)?.to_owned(), older(named(found)?)?)));
        let snapshots = all.take(MAX_BASES).collect();
        return Some(Ok(Bases {
            volume: data,
            snapshots,
        }));
    }
    let only = std::mem::take(&mut compared.only).into_iter().zip(usize::from(later)..);
    let mut found: Vec<(String, SnapshotId)> = only
        .filter_map(|(name, at)| Some((name, older(named(reply.value(at)?)?)?)))
        .collect();
    if found.is_empty() {
        return Some(Ok(Bases {
            volume: data,
            snapshots: Vec::new(),
        }));
    }
    if later {
        found.push((String::new(), end));
    }
    let get = |(_, number): &(String, SnapshotId)| Op::Get {
        key: map::snapshot_key(data, *number),
    };
    let ops = found.iter().map(get).collect();
    compared.found = (data, found);
    call(core, asked, ops);
    None
}

/// Those of which the records say that they are sealed: one that is not may change.
fn sealed(
    reply: &Reply,
    volume: VolumeId,
    mut found: Vec<(String, SnapshotId)>,
    later: bool,
) -> Result<Bases, OpenError> {
    let is_sealed = |at: usize, number: SnapshotId| {
        let record = reply.value(at).and_then(|found| found.json::<Snapshot>().ok());
        record.is_some_and(|record| {
            (record.volume, record.number) == (volume, number) && matches!(record.state, SnapshotState::Sealed(_))
        })
    };
    if later
        && let Some((_, number)) = found.pop()
        && !is_sealed(found.len(), number)
    {
        return Err(OpenError::Unavailable("the snapshot is still being taken".to_owned()));
    }
    let snapshots = found.into_iter().enumerate();
    let snapshots = snapshots.filter(|(at, (_, number))| is_sealed(*at, *number));
    Ok(Bases {
        volume,
        snapshots: snapshots.map(|(_, found)| found).collect(),
    })
}
