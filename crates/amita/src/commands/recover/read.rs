//! What stores know, from their disks and from files.

use super::plain;
use crate::commands::store::{Common, open};
use amita_control::records::Records;
use amita_control::recover::{Bundle, KnownGroup, KnownVolume, Source};
use amita_store::memo;
use amita_store::offline::{Offline, ReadAt};
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_types::{SnapshotId, VolumeId, map};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A store that was read, and that nobody else has while this lives.
pub(super) struct Held {
    pub(super) source: Source,
    _file: File,
}

pub(super) fn stores(paths: &[PathBuf], memory: u64) -> Result<Vec<Held>> {
    paths.iter().map(|path| store(path, memory)).collect()
}

fn store(path: &Path, memory: u64) -> Result<Held> {
    let file = open::file(path)?;
    let shown = path.display();
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Failure::new(format!("{shown} is in use by another process"))
                .kind(Kind::Conflict)
                .advice("A node serves it. Stop all nodes first: what is rebuilt must not change meanwhile."));
        }
        Err(TryLockError::Error(error)) => {
            return Err(Failure::new(format!("cannot lock {shown}: {error}")));
        }
    }
    let common = Common {
        path: path.to_owned(),
        memory,
        json: false,
    };
    let source = source(path, &open::mounted(&file, &common)?)?;
    Ok(Held { source, _file: file })
}

fn source<R: ReadAt>(path: &Path, offline: &Offline<R>) -> Result<Source> {
    let status = offline.status();
    let copy = offline.memo().map(|copy| Records::decode(&copy.content)).transpose();
    let copy = copy.map_err(|why| {
        Failure::new(format!(
            "the copy of the metadata on {} cannot be read: {why}",
            path.display()
        ))
    })?;
    // What was made after the store's own copy may be in no other one.
    let given = copy.as_ref().and_then(|copy| {
        let counter = copy.values.get(&map::counter_key("volumes"))?;
        serde_json::from_slice::<u64>(counter).ok()
    });
    let is_late = |volume: VolumeId| volume != memo::VOLUME && volume.0 > given.unwrap_or(0);
    let plain = plain::volumes(offline, is_late);
    let mut met: BTreeMap<VolumeId, (u64, SnapshotId)> = BTreeMap::new();
    let mut clones = BTreeSet::new();
    for look in offline.chunks() {
        let (last, number) = met.entry(look.chunk.volume).or_default();
        *last = look.chunk.index.0.max(*last);
        let of_states = look.states.iter().map(|state| state.to);
        *number = of_states.chain([look.snapshot, *number]).max().unwrap_or_default();
        if look.origin.volume != look.chunk.volume {
            clones.insert(look.chunk.volume);
        }
    }
    let groups = offline.groups().into_iter().filter(|look| !memo::is_memo(look.group));
    let volumes = offline.volumes().into_iter().filter(|look| look.volume != memo::VOLUME);
    Ok(Source {
        store: status.id,
        cluster: status.cluster,
        path: path.display().to_string(),
        copy,
        groups: groups
            .map(|look| KnownGroup {
                pool: look.group.pool,
                index: look.group.index,
                epoch: look.epoch,
                in_sync: look.in_sync,
            })
            .collect(),
        volumes: volumes
            .map(|look| KnownVolume {
                volume: look.volume,
                generation: look.generation,
                last_chunk: met.get(&look.volume).map(|(last, _)| *last),
                number: met.get(&look.volume).map_or(SnapshotId::HEAD, |(_, number)| *number),
                cloned: clones.contains(&look.volume),
                plain: plain.contains(&look.volume),
            })
            .collect(),
        deleted: offline.deleted(),
    })
}

/// What another machine has collected.
pub(super) fn bundle(path: &Path) -> Result<Vec<Source>> {
    let shown = path.display();
    let failed = |why: String| Failure::new(format!("cannot read {shown}: {why}")).kind(Kind::Unreadable);
    let facts = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    let mode = facts.permissions().mode() & 0o777;
    if facts.is_file() && mode & 0o077 != 0 {
        return Err(failed(format!(
            "others can read or write it (mode {mode:04o}), and all records of a cluster are in it; `chmod 600 {shown}` mends that"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let bundle: Bundle = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let mut sources = bundle.sources().map_err(failed)?;
    for source in &mut sources {
        source.path = format!("{} in {shown}", source.path);
    }
    Ok(sources)
}

/// Writes a file that must not be there.
pub(super) fn write_new(path: &Path, text: &str) -> Result<()> {
    let shown = path.display();
    // It holds all records of the cluster.
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path).map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::AlreadyExists => Kind::Conflict,
            _ => Kind::Failed,
        };
        Failure::new(format!("cannot make {shown}: {error}")).kind(kind)
    })?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .context(|| format!("cannot write {shown}"))
}
