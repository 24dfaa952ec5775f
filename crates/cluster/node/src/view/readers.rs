//! Who reads what no host waits for: passes of copies and moves, backups, mirrors. It is known by records: a copy's names the snapshot that is
//! read for it, and a snapshot that was taken for a backup or a mirror says so by a label.

use super::{Change, View, parse};
use crate::control::Record;
use amita_types::map::{self, BACKUP_LABEL, Cluster, MIRROR_LABEL, Snapshot};
use amita_types::message::Purpose;
use amita_types::{SnapshotId, VolumeId};
use std::collections::BTreeMap;

/// Who reads a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reader {
    /// It waits while hosts suffer by it.
    pub gives_way: bool,
    /// What stores are told of it.
    pub purpose: Purpose,
}

/// A backup keeps to no time.
const BACKUP: Reader = Reader {
    gives_way: true,
    purpose: Purpose::Backup,
};
/// What lies behind has a limit that somebody has set for it: it is late where it waits.
const MIRROR: Reader = Reader {
    gives_way: false,
    purpose: Purpose::Backup,
};

/// Snapshots that were taken to be read by a backup or a mirror.
#[derive(Default)]
pub(super) struct Readers {
    of_snapshots: BTreeMap<(VolumeId, SnapshotId), Reader>,
    cluster_version: u32,
}

impl View {
    pub(super) fn apply_cluster(&mut self, record: &Record) -> Change {
        let cluster = record.value.as_ref();
        match cluster.map(|value| parse::<Cluster>(&record.key, value)) {
            Some(Ok(cluster)) => self.readers.cluster_version = cluster.version,
            Some(Err(why)) => return Change::Unreadable(why),
            None => {}
        }
        Change::Nothing
    }

    /// The cluster's finalized version; 0: it is not known yet.
    #[inline]
    #[must_use]
    pub fn cluster_version(&self) -> u32 {
        self.readers.cluster_version
    }

    pub(super) fn apply_snapshot(&mut self, rest: &str, record: &Record) -> Change {
        let numbers = rest
            .split_once('/')
            .and_then(|(volume, number)| Some((volume.parse().ok()?, number.parse().ok()?)));
        let Some((volume, number)) =
            numbers.filter(|(volume, number)| record.key == map::snapshot_key(*volume, *number))
        else {
            return Change::Nothing;
        };
        match record.value.as_deref().and_then(reader_of) {
            Some(reader) => drop(self.readers.of_snapshots.insert((volume, number), reader)),
            None => drop(self.readers.of_snapshots.remove(&(volume, number))),
        }
        Change::Nothing
    }

    /// Who reads this snapshot of a volume, if it is not hosts. `is_slowed`: see [`View::pass`]. What gives way for one of several does not for
    /// another: it goes as the one who does not.
    #[must_use]
    pub fn reader(
        &self,
        volume: VolumeId,
        snapshot: SnapshotId,
        is_slowed: impl Fn(VolumeId) -> bool,
    ) -> Option<Reader> {
        let pass = self.pass(volume, snapshot, is_slowed).map(|gives_way| Reader {
            gives_way,
            purpose: Purpose::Move,
        });
        let labelled = self.readers.of_snapshots.get(&(volume, snapshot)).copied();
        pass.into_iter().chain(labelled).min()
    }
}

/// By its labels. There may be a million snapshots, and few of them are read by somebody: the others are not parsed.
fn reader_of(value: &[u8]) -> Option<Reader> {
    let has = |label: &str| value.windows(label.len()).any(|window| window == label.as_bytes());
    if !has(BACKUP_LABEL) && !has(MIRROR_LABEL) {
        return None;
    }
    // One that cannot be read is read as hosts read.
    let snapshot: Snapshot = serde_json::from_slice(value).ok()?;
    // Hosts of what was cloned from it may wait for a block of it, which its owner is asked for likewise.
    if snapshot.mark || snapshot.clones > 0 {
        return None;
    }
    let is = |label: &str| snapshot.labels.contains_key(label);
    match (is(MIRROR_LABEL), is(BACKUP_LABEL)) {
        (true, _) => Some(MIRROR),
        (false, true) => Some(BACKUP),
        (false, false) => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use amita_types::Generation;
    use amita_types::map::{SnapshotState, snapshot_key};

    const VOLUME: VolumeId = VolumeId(7);
    const NUMBER: SnapshotId = SnapshotId(3);

    /// One that is sealed, with labels.
    pub fn labelled(volume: VolumeId, number: SnapshotId, labels: &[&str]) -> Snapshot {
        let labels = labels.iter().map(|label| ((*label).to_owned(), "of whom".to_owned()));
        Snapshot {
            volume,
            number,
            name: "nightly".to_owned(),
            size_bytes: 1 << 20,
            taken_at: 0,
            labels: labels.collect(),
            protected: false,
            clones: 0,
            set: None,
            mark: false,
            hidden: false,
            state: SnapshotState::Sealed(Generation(1)),
        }
    }

    fn snapshot(labels: &[&str], mark: bool) -> Snapshot {
        Snapshot {
            mark,
            ..labelled(VOLUME, NUMBER, labels)
        }
    }

    fn put(view: &mut View, snapshot: Option<&Snapshot>) {
        let value = snapshot.map(|snapshot| serde_json::to_vec(snapshot).unwrap());
        let record = Record {
            key: snapshot_key(VOLUME, NUMBER),
            value,
            revision: 1,
            created: 1,
        };
        assert_eq!(view.apply(&record), Change::Nothing);
    }

    fn reader(view: &View) -> Option<Reader> {
        view.reader(VOLUME, NUMBER, |_| false)
    }

    #[test]
    fn who_reads_a_snapshot_is_told_by_its_label() {
        let mut view = View::default();
        let of = [
            (snapshot(&[], false), None),
            (snapshot(&[BACKUP_LABEL], false), Some(BACKUP)),
            (snapshot(&[MIRROR_LABEL, "rack"], false), Some(MIRROR)),
            (snapshot(&[BACKUP_LABEL, MIRROR_LABEL], false), Some(MIRROR)),
            // Its data is not there any more.
            (snapshot(&[BACKUP_LABEL], true), None),
            (snapshot(&["not-amita-backup"], false), None),
            // A host may wait for what is read of it.
            (
                Snapshot {
                    clones: 1,
                    ..snapshot(&[BACKUP_LABEL], false)
                },
                None,
            ),
        ];
        for (snapshot, expected) in of {
            put(&mut view, Some(&snapshot));
            assert_eq!(reader(&view), expected, "{:?}", snapshot.labels);
            assert_eq!(view.reader(VOLUME, SnapshotId(4), |_| false), None);
            assert_eq!(view.reader(VolumeId(8), NUMBER, |_| false), None);
        }
        put(&mut view, Some(&snapshot(&[BACKUP_LABEL], false)));
        put(&mut view, None);
        assert_eq!(reader(&view), None);
    }

    #[test]
    fn a_pass_that_does_not_give_way_is_held_up_by_no_backup() {
        let (gives_way, goes) = (
            Reader {
                gives_way: true,
                purpose: Purpose::Move,
            },
            Reader {
                gives_way: false,
                purpose: Purpose::Move,
            },
        );
        assert_eq!([BACKUP, gives_way].into_iter().min(), Some(gives_way));
        assert_eq!([BACKUP, goes].into_iter().min(), Some(goes));
        assert_eq!([MIRROR, gives_way].into_iter().min(), Some(MIRROR));
    }
}
