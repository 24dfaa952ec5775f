//! What is said of who may hold what, and when nothing is.

use super::*;
use amita_types::map::{PoolKind, Suspect, Syncing};
use amita_types::placement::Level;
use amita_types::{ChunkIndex, Epoch, Generation, GroupIndex, StoreId};
use serde::Serialize;

const CLUSTER: ClusterId = ClusterId(7);

fn json<T: Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).expect("plain data")
}

fn volume(id: u64, name: &str) -> (String, Vec<u8>) {
    let volume = Volume::new(VolumeId(id), name, "p", 4096);
    (map::volume_key(name), json(&volume))
}

fn group(epoch: u64, in_sync: &[u128]) -> (String, Vec<u8>) {
    let group = Group {
        index: GroupIndex(0),
        epoch: Epoch(epoch),
        members: in_sync.iter().map(|&id| StoreId(id)).collect(),
        in_sync: in_sync.iter().map(|&id| StoreId(id)).collect(),
        syncing: vec![Syncing {
            store: StoreId(9),
            since: Epoch(1),
        }],
    };
    (map::group_key(PoolId(1), GroupIndex(0)), json(&group))
}

struct Scene {
    ledger: Ledger,
    revision: u64,
}

impl Scene {
    fn new() -> Scene {
        let mut scene = Scene {
            ledger: Ledger::new(CLUSTER),
            revision: 0,
        };
        let pool = Pool {
            id: PoolId(1),
            name: "p".to_owned(),
            kind: PoolKind::Replicated {
                copies: 2,
                min_copies: 1,
            },
            groups: 1,
            chunk_bytes: 4 << 20,
            failure_domain: Level::Node,
            class: None,
        };
        let cluster = Cluster {
            id: CLUSTER,
            version: 1,
        };
        scene.put((map::cluster_key(), json(&cluster)));
        scene.put((map::pool_key("p"), json(&pool)));
        scene.put((map::counter_key("volumes"), json(&2u64)));
        scene.put(volume(1, "a"));
        scene.put(volume(2, "b"));
        scene.put(group(3, &[1, 2]));
        scene.ledger.seen();
        scene
    }

    fn put(&mut self, (key, value): (String, Vec<u8>)) {
        self.revision += 1;
        self.ledger.note(&key, Some(&value), self.revision);
    }

    fn remove(&mut self, key: &str) {
        self.revision += 1;
        self.ledger.note(key, None, self.revision);
    }

    fn said(&mut self) -> Option<Holdings> {
        self.ledger.seen();
        self.ledger.holdings()
    }
}

#[test]
fn it_says_what_there_is() {
    let mut scene = Scene::new();
    assert_eq!(scene.ledger.take_news(), Some(News::Group));
    let said = scene.said().expect("all is told");
    assert_eq!((said.revision, said.given), (6, VolumeId(2)));
    let ids: Vec<u64> = said.volumes.iter().map(|held| held.id.0).collect();
    assert_eq!(ids, [1, 2]);
    let group = said.group_of(VolumeId(1), ChunkIndex(3)).expect("its pool is known");
    let group = said.group(group).expect("it is there");
    assert_eq!(group.epoch, Epoch(3));
    assert!(group.names(StoreId(1)) && group.names(StoreId(9)) && !group.names(StoreId(4)));
    assert_eq!(scene.ledger.take_news(), None);
}

#[test]
fn a_volume_that_went_is_deleted_and_its_name_is_another_volumes() {
    let mut scene = Scene::new();
    scene.ledger.take_news();
    scene.remove(&map::volume_key("a"));
    assert_eq!(scene.ledger.take_news(), Some(News::Deleted));
    assert_eq!(
        scene.said().unwrap().deleted(VolumeId(1), 9),
        Some((VolumeId(1), VolumeId(1)))
    );
    scene.put(volume(3, "a"));
    scene.put((map::counter_key("volumes"), json(&3u64)));
    let said = scene.said().expect("all is told");
    assert!(said.volume(VolumeId(3)).is_some() && said.volume(VolumeId(1)).is_none());
    // A change of a record that lives is no news.
    scene.ledger.take_news();
    scene.put(volume(3, "a"));
    assert_eq!(scene.ledger.take_news(), None);
    // Deleted and made anew, as one who had not watched meanwhile sees it.
    scene.put((map::counter_key("volumes"), json(&4u64)));
    scene.put(volume(4, "a"));
    assert_eq!(scene.ledger.take_news(), Some(News::Deleted));
    assert_eq!(
        scene.said().unwrap().deleted(VolumeId(3), 1),
        Some((VolumeId(3), VolumeId(3)))
    );
}

#[test]
fn nothing_is_said_in_doubt() {
    let mut scene = Scene::new();
    // In the middle of a change: the number is given out, and its volume not told yet.
    scene.put((map::counter_key("volumes"), json(&3u64)));
    assert_eq!(scene.ledger.holdings(), None);
    scene.put(volume(3, "c"));
    assert_eq!(scene.ledger.holdings(), None);
    assert!(scene.said().is_some());
    // A record that a newer program wrote.
    scene.put((map::volume_key("d"), b"{\"id\":4,\"shape\":\"round\"}".to_vec()));
    assert_eq!(scene.said(), None);
    scene.put(volume(4, "d"));
    assert!(scene.said().is_some());
    scene.put((map::group_key(PoolId(1), GroupIndex(0)), b"[]".to_vec()));
    assert_eq!(scene.said(), None);
    scene.put(group(4, &[1, 2]));
    assert!(scene.said().is_some());
    // Somebody suspects the metadata.
    let key = map::suspect_key(amita_types::NodeId(1));
    let why = "older".to_owned();
    scene.put((key.clone(), json(&Suspect { why })));
    assert_eq!(scene.said(), None);
    scene.remove(&key);
    assert!(scene.said().is_some());
    // Another cluster's.
    let other = Cluster {
        id: ClusterId(8),
        version: 1,
    };
    scene.put((map::cluster_key(), json(&other)));
    assert_eq!(scene.said(), None);
}

fn of_lineage(number: u32, sealed: u32, taking: bool) -> (String, Vec<u8>) {
    let (key, record) = volume(1, "a");
    let mut record: Volume = parse(&record).expect("made above");
    record.lineage = Lineage {
        number: SnapshotId(number),
        sealed: SnapshotId(sealed),
        taking,
        set: None,
        ..Lineage::default()
    };
    (key, json(&record))
}

fn snapshot(number: u32, state: SnapshotState) -> (String, Vec<u8>) {
    let snapshot = Snapshot {
        volume: VolumeId(1),
        number: SnapshotId(number),
        name: format!("s{number}"),
        size_bytes: 4096,
        taken_at: 0,
        labels: BTreeMap::new(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state,
    };
    (map::snapshot_key(VolumeId(1), SnapshotId(number)), json(&snapshot))
}

/// What is said of the snapshots of volume 1: numbers up to which one were given, and those that live.
fn snapshots(scene: &mut Scene) -> Option<(u32, Vec<u32>)> {
    let said = scene.said().expect("all is told");
    let held = said.snapshots(VolumeId(1))?;
    Some((held.given.0, held.live.iter().map(|live| live.0).collect()))
}

/// One that is deleted but for its mark is marked, and not alive; unless clones need it.
#[test]
fn a_mark_is_no_living_snapshot_and_goes_when_it_is_deleted() {
    let sealed = || snapshot(1, SnapshotState::Sealed(Generation(1)));
    let of = |mark: bool, clones: u64| {
        let (key, value) = sealed();
        let mut record: Snapshot = parse(&value).expect("made above");
        (record.mark, record.clones) = (mark, clones);
        (key, json(&record))
    };
    let told = |scene: &mut Scene, record: (String, Vec<u8>)| {
        scene.put(record);
        let said = scene.said().expect("all is told");
        let held = said.snapshots(VolumeId(1)).expect("it has one").clone();
        (held.live.len(), held.marked.len(), scene.ledger.take_news())
    };
    let mut scene = Scene::new();
    scene.put(of_lineage(1, 1, false));
    scene.ledger.take_news();
    assert_eq!(told(&mut scene, of(false, 1)), (1, 0, None));
    assert_eq!(told(&mut scene, of(true, 1)), (1, 0, None), "a clone needs it");
    assert_eq!(told(&mut scene, of(true, 0)), (0, 1, Some(News::Deleted)));
    scene.remove(&sealed().0);
    let said = scene.said().expect("all is told");
    let held = said.snapshots(VolumeId(1)).expect("it had one");
    assert_eq!((held.live.len(), held.marked.len()), (0, 0));
    assert_eq!(scene.ledger.take_news(), Some(News::Deleted));
}

#[test]
fn a_snapshot_lives_while_it_is_taken_and_until_it_is_deleted() {
    use SnapshotState::{Sealed, Taking};
    let mut scene = Scene::new();
    assert_eq!(snapshots(&mut scene), None, "it never had one");
    scene.ledger.take_news();
    scene.put(of_lineage(1, 0, true));
    scene.put(snapshot(1, Taking(Generation(1))));
    assert_eq!(snapshots(&mut scene), Some((1, vec![1])));
    scene.put(of_lineage(1, 1, false));
    scene.put(snapshot(1, Sealed(Generation(1))));
    assert_eq!(snapshots(&mut scene), Some((1, vec![1])));
    scene.put(of_lineage(2, 1, true));
    scene.put(snapshot(2, Taking(Generation(1))));
    assert_eq!(snapshots(&mut scene), Some((2, vec![1, 2])));
    assert_eq!(scene.ledger.take_news(), None);
    // Another owner comes: 2 is void, though its record is there.
    scene.put(of_lineage(2, 1, false));
    assert_eq!(snapshots(&mut scene), Some((2, vec![1])));
    assert_eq!(scene.ledger.take_news(), Some(News::Deleted));
    // It may have the name of one that is taken later.
    scene.put(of_lineage(3, 1, true));
    scene.put(snapshot(3, Taking(Generation(2))));
    assert_eq!(snapshots(&mut scene), Some((3, vec![1, 3])));
    scene.put(of_lineage(3, 3, false));
    scene.put(snapshot(3, Sealed(Generation(2))));
    scene.ledger.take_news();
    scene.remove(&snapshot(1, Sealed(Generation(1))).0);
    assert_eq!(snapshots(&mut scene), Some((3, vec![3])));
    assert_eq!(scene.ledger.take_news(), Some(News::Deleted));
    // What cannot be read is kept.
    scene.put((snapshot(3, Taking(Generation(1))).0, b"{}".to_vec()));
    assert_eq!(snapshots(&mut scene), Some((3, vec![3])));
    // With its volume all goes, in whatever order it is told.
    scene.remove(&map::volume_key("a"));
    scene.remove(&snapshot(3, Sealed(Generation(1))).0);
    assert_eq!(snapshots(&mut scene), None);
}

#[test]
fn what_went_back_is_believed_no_more() {
    let older: [fn(&mut Scene); 4] = [
        |scene| {
            scene.put(of_lineage(2, 2, false));
            scene.put(of_lineage(1, 1, false));
        },
        |scene| scene.put((map::counter_key("volumes"), json(&1u64))),
        |scene| scene.remove(&map::counter_key("volumes")),
        |scene| scene.put(group(2, &[1, 2, 3])),
    ];
    for goes_back in older {
        let mut scene = Scene::new();
        goes_back(&mut scene);
        assert_eq!(scene.said(), None);
        assert!(
            scene
                .ledger
                .went_back()
                .is_some_and(|why| why.contains("went back") || why.contains("is gone"))
        );
        // It stays so, whatever is put in its place.
        scene.put((map::counter_key("volumes"), json(&9u64)));
        scene.put(group(9, &[1, 2]));
        assert_eq!(scene.said(), None);
    }
}
