//! Merging, and writing into a model of the metadata.

use super::*;
use crate::admin;
use crate::records::Records;
use crate::regress::{Verdict, compare};
use amita_metadata::model::State;
use amita_metadata::{Call, Error, Reply, Transact};
use amita_types::map::{self, Group, Live, Pool, PoolKind, Volume};
use amita_types::{ClusterId, Epoch, Generation, GroupIndex, NodeId, PoolId, SnapshotId, StoreId, VolumeId};
use std::cell::RefCell;
use std::collections::BTreeMap;

const CLUSTER: ClusterId = ClusterId(77);
const A: StoreId = StoreId(0xa);
const B: StoreId = StoreId(0xb);
const C: StoreId = StoreId(0xc);
const POOL: PoolId = PoolId(1);

/// Nobody has said anything of volumes.
fn rebuild(sources: &[Source], accept_loss: &[StoreId]) -> Result<Rebuilt, RecoverError> {
    super::rebuild(sources, accept_loss, &Word::default())
}

struct Meta(RefCell<State>);

impl Meta {
    fn new() -> Meta {
        Meta(RefCell::new(State::new()))
    }

    fn put(&self, key: &str, value: &[u8]) {
        self.txn(&Call::put(key, value)).expect("written");
    }

    fn all(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.0.borrow();
        state
            .keys()
            .map(|found| (found.key.clone(), found.value.clone()))
            .collect()
    }
}

impl Transact for Meta {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        call.check()?;
        Ok(self.0.borrow_mut().txn(call)?)
    }
}

fn json<T: serde::Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).unwrap()
}

fn group(index: u32, epoch: u64, in_sync: &[StoreId]) -> Group {
    Group {
        index: GroupIndex(index),
        epoch: Epoch(epoch),
        members: vec![A, B, C],
        in_sync: in_sync.to_vec(),
        syncing: Vec::new(),
    }
}

fn volume(number: u64, generation: u32) -> Volume {
    Volume {
        generation: Generation(generation),
        owner: Some(NodeId(1)),
        ..Volume::new(VolumeId(number), &format!("v{number}"), "p", 8 << 20)
    }
}

/// A pool of two groups with three copies, and two volumes, at a revision.
fn records(revision: u64) -> Records {
    let pool = Pool {
        id: POOL,
        name: "p".to_owned(),
        kind: PoolKind::Replicated {
            copies: 3,
            min_copies: 2,
        },
        groups: 2,
        chunk_bytes: 4 << 20,
        failure_domain: amita_types::placement::Level::default(),
        class: None,
    };
    let mut values = BTreeMap::new();
    let cluster = map::Cluster {
        id: CLUSTER,
        version: 1,
    };
    values.insert(map::cluster_key(), json(&cluster));
    values.insert(map::pool_key("p"), json(&pool));
    for store in [A, B, C] {
        let record = admin::store_record(store, NodeId(1), "/dev/x", 1 << 30);
        values.insert(map::store_key(store), json(&record));
    }
    for index in 0..2 {
        let group = group(index, 1, &[A, B, C]);
        values.insert(map::group_key(POOL, group.index), json(&group));
    }
    for number in 1..=2 {
        values.insert(map::volume_key(&format!("v{number}")), json(&volume(number, 3)));
    }
    values.insert(map::counter_key("volumes"), json(&2));
    values.insert(map::counter_key("pools"), json(&1));
    Records {
        life: 0,
        revision,
        values,
    }
}

fn source(store: StoreId, revision: u64) -> Source {
    Source {
        store,
        cluster: CLUSTER,
        path: format!("/disk/{store}"),
        copy: Some(records(revision)),
        groups: Vec::new(),
        volumes: Vec::new(),
        deleted: Vec::new(),
    }
}

/// What a store has forgotten because it was deleted does not come back, though the newest copy has it; nor is its number given
/// again. And metadata in which it lives is older.
#[test]
fn what_a_store_knows_to_be_deleted_stays_deleted() {
    let mut all = [source(A, 5), source(B, 5), source(C, 5)];
    all[1].deleted = vec![(VolumeId(2), VolumeId(4))];
    all[2].volumes = vec![known_volume(2, 9, 7), known_volume(4, 2, 0)];
    let rebuilt = rebuild(&all, &[]).expect("all are there");
    let names: Vec<&str> = rebuilt.report.volumes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["v1"], "{:?}", rebuilt.report);
    assert!(!rebuilt.records.contains_key(&map::volume_key("v2")));
    assert!(rebuilt.report.found_volumes.is_empty());
    assert_eq!(rebuilt.records[&map::counter_key("volumes")], json(&4));
    assert!(
        rebuilt
            .report
            .notes
            .iter()
            .any(|note| note.contains("it stays deleted"))
    );

    let Verdict::Older(found) = compare(&records(5), &all[1]) else {
        panic!("the metadata is older");
    };
    assert!(found[0].contains("v2") && found[1].contains("volume 4"), "{found:?}");
    let restored = Records {
        values: rebuilt.records.clone(),
        ..records(6)
    };
    all[1].copy = None;
    assert_eq!(compare(&restored, &all[1]), Verdict::Fine);
}

/// A volume was made after the copy, and then another one, which was deleted: the first one is not.
#[test]
fn a_deleted_volumes_number_does_not_take_a_living_one_with_it() {
    let mut all = [source(A, 5), source(B, 5), source(C, 5)];
    all[0].volumes = vec![known_volume(3, 2, 1)];
    all[1].deleted = vec![(VolumeId(4), VolumeId(4))];
    let rebuilt = rebuild(&all, &[]).expect("all are there");
    assert_eq!(rebuilt.report.found_volumes, ["recovered-3"]);
    assert_eq!(read_volume(&rebuilt, "recovered-3").id, VolumeId(3));
    assert_eq!(rebuilt.records[&map::counter_key("volumes")], json(&4));
}

/// It may be a clone that has all that it has from a snapshot: it is not served as an empty volume.
#[test]
fn a_volume_that_no_store_has_a_chunk_of_is_not_opened() {
    let mut all = [source(A, 5), source(B, 5), source(C, 5)];
    all[0].volumes = vec![KnownVolume {
        last_chunk: None,
        ..known_volume(3, 2, 0)
    }];
    let rebuilt = rebuild(&all, &[]).expect("all are there");
    let found = read_volume(&rebuilt, "recovered-3");
    assert_eq!((found.id, found.pool.as_str()), (VolumeId(3), "?"));
    let notes = &rebuilt.report.notes;
    assert!(
        notes
            .iter()
            .any(|note| note.contains("volume 3") && note.contains("clone the snapshot")),
        "{notes:?}"
    );
}

/// Its own writes alone do not tell a clone from a volume.
#[test]
fn a_volume_that_may_be_a_clone_is_said_to_be_where_there_are_snapshots() {
    for has_snapshots in [false, true] {
        let mut all = [source(A, 5), source(B, 5), source(C, 5)];
        if has_snapshots {
            let copy = all[0].copy.as_mut().unwrap();
            let snapshot = map::Snapshot {
                volume: VolumeId(1),
                number: SnapshotId(1),
                name: "s".to_owned(),
                size_bytes: 8 << 20,
                taken_at: 1,
                labels: BTreeMap::new(),
                protected: false,
                clones: 0,
                set: None,
                mark: false,
                hidden: false,
                state: map::SnapshotState::Sealed(Generation(1)),
            };
            copy.values
                .insert(map::snapshot_key(VolumeId(1), SnapshotId(1)), json(&snapshot));
            copy.revision += 1;
        }
        all[0].volumes = vec![known_volume(3, 2, 1)];
        let rebuilt = rebuild(&all, &[]).expect("all are there");
        assert_eq!(
            read_volume(&rebuilt, "recovered-3").pool,
            "p",
            "its data is there to be had"
        );
        let notes = &rebuilt.report.notes;
        let is_said = notes.iter().any(|note| note.contains("reads as zeros"));
        assert_eq!(is_said, has_snapshots, "{notes:?}");
    }
}

fn key_name(image: u64) -> map::KeyName {
    map::KeyName {
        volume: VolumeId(image),
        image: VolumeId(image),
        number: map::KeyNumber(1),
    }
}

/// The copy's volume is encrypted, by a key of its own.
fn encrypt(copy: &mut Records, number: u64) {
    let (key, encrypted) = (
        key_name(number),
        Volume {
            keys: Some(map::KeyRing::new(key_name(number))),
            ..volume(number, 3)
        },
    );
    copy.values.insert(map::volume_key(&encrypted.name), json(&encrypted));
    copy.values.insert(map::secret_key(key), b"{}".to_vec());
}

/// S14: what was erased stays erased, and nothing else is.
#[test]
fn the_keys_of_what_was_deleted_do_not_come_back() {
    for is_readable in [true, false] {
        let mut all = [source(A, 5), source(B, 5), source(C, 5)];
        for source in &mut all {
            let copy = source.copy.as_mut().unwrap();
            encrypt(copy, 1);
            encrypt(copy, 2);
            if !is_readable {
                copy.values.insert(map::volume_key("later"), b"{\"keys\":".to_vec());
            }
        }
        all[1].deleted = vec![(VolumeId(2), VolumeId(2))];
        let rebuilt = rebuild(&all, &[]).expect("all are there");
        let has = |image| rebuilt.records.contains_key(&map::secret_key(key_name(image)));
        assert!(has(1), "it is needed");
        assert_eq!(has(2), !is_readable, "nobody knows what one needs that cannot be read");
    }
}

/// Its key went with its record, if it had one: as plain it is opened where it is known to be, and no plain one is kept closed unasked.
#[test]
fn a_volume_without_a_record_that_may_be_encrypted_is_opened_by_a_word_alone() {
    let undecided = |version, plain| {
        let mut all = [source(A, 5), source(B, 5), source(C, 5)];
        let copy = all[0].copy.as_mut().unwrap();
        let cluster = map::Cluster { id: CLUSTER, version };
        copy.values.insert(map::cluster_key(), json(&cluster));
        copy.revision += 1;
        all[0].volumes = vec![known_volume(3, 2, 1)];
        // Whoever has met a block of it, and another one has not.
        all[2].volumes = vec![KnownVolume {
            plain,
            ..known_volume(3, 2, 1)
        }];
        all
    };
    let since = map::ENCRYPTION_SINCE;
    for (version, plain) in [(since - 1, false), (since, true)] {
        let rebuilt = rebuild(&undecided(version, plain), &[]).expect("it is known to be plain");
        assert_eq!(read_volume(&rebuilt, "recovered-3").pool, "p");
        let notes = &rebuilt.report.notes;
        assert!(!notes.iter().any(|note| note.contains("encrypted")), "{notes:?}");
    }
    let all = undecided(since, false);
    let volumes = vec![VolumeId(3)];
    let refused = rebuild(&all, &[]).unwrap_err();
    assert_eq!(
        refused,
        RecoverError::MayBeEncrypted {
            volumes: volumes.clone()
        }
    );
    assert!(refused.to_string().contains("numbers 3)"), "{refused}");
    let (plain, closed) = (
        Word {
            plain: volumes.clone(),
            ..Word::default()
        },
        Word {
            closed: volumes.clone(),
            ..Word::default()
        },
    );
    for (word, pool) in [(&plain, "p"), (&closed, "?")] {
        let rebuilt = super::rebuild(&all, &[], word).expect("it was said");
        assert_eq!(read_volume(&rebuilt, "recovered-3").pool, pool);
        let notes = &rebuilt.report.notes;
        assert!(notes.iter().any(|note| note.contains("as was said")), "{notes:?}");
        let known = super::rebuild(&undecided(since, true), &[], word);
        assert_eq!(
            known.unwrap_err(),
            RecoverError::NotUndecided { volume: VolumeId(3) },
            "a store tells"
        );
    }
    let both = Word {
        plain: volumes.clone(),
        closed: volumes,
        ..Word::default()
    };
    let refused = super::rebuild(&all, &[], &both).unwrap_err();
    assert_eq!(refused, RecoverError::BothWords { volume: VolumeId(3) });
}

mod copies;

/// What the copy names comes back as it was: encrypted, with its keys, whatever is found of it.
#[test]
fn an_encrypted_volume_of_the_copy_comes_back_with_its_keys() {
    let mut all = [source(A, 5), source(B, 5), source(C, 5)];
    for source in &mut all {
        encrypt(source.copy.as_mut().unwrap(), 1);
        source.volumes = vec![known_volume(1, 7, 1)];
    }
    let rebuilt = rebuild(&all, &[]).expect("all are there");
    let volume = read_volume(&rebuilt, "v1");
    assert_eq!(volume.keys, Some(map::KeyRing::new(key_name(1))));
    assert_eq!(volume.generation, Generation(8));
    let key = map::secret_key(key_name(1));
    assert_eq!(
        rebuilt.records.get(&key),
        all[0].copy.as_ref().unwrap().values.get(&key)
    );
}

/// Nobody knows which pool it lies in: its number is not given again, and its chunks are not dropped.
#[test]
fn a_volume_of_an_unknown_pool_keeps_its_number_and_its_chunks() {
    let newer_group = KnownGroup {
        pool: PoolId(4),
        ..known(0, 1, &[A, B, C])
    };
    let mut copies = records(5);
    let mut second: Pool = serde_json::from_slice(&copies.values[&map::pool_key("p")]).unwrap();
    (second.id, second.name, second.groups) = (PoolId(2), "q".to_owned(), 1);
    copies.values.insert(map::pool_key("q"), json(&second));
    copies
        .values
        .insert(map::group_key(PoolId(2), GroupIndex(0)), json(&group(0, 1, &[A, B, C])));
    copies.values.insert(map::counter_key("pools"), json(&2));
    for (copy, groups) in [(copies, vec![]), (records(5), vec![newer_group])] {
        let newer = !groups.is_empty();
        let mut all = [source(A, 5), source(B, 5), source(C, 5)];
        for source in &mut all {
            source.copy = Some(copy.clone());
            source.groups = groups.clone();
        }
        all[0].volumes = vec![known_volume(5, 2, 1)];
        let rebuilt = rebuild(&all, &[]).expect("all are there");
        let found = read_volume(&rebuilt, "recovered-5");
        assert_eq!((found.id, found.pool.as_str()), (VolumeId(5), "?"));
        assert!(
            admin::check_name("pool", &found.pool).is_err(),
            "no pool can take it in"
        );
        assert_eq!(rebuilt.records[&map::counter_key("volumes")], json(&5));
        let pools = if newer { 4 } else { 2 };
        assert_eq!(rebuilt.records[&map::counter_key("pools")], json(&pools));
        let notes = &rebuilt.report.notes;
        assert!(notes.iter().any(|note| note.contains("volume 5")), "{notes:?}");
        assert_eq!(notes.iter().any(|note| note.contains("pool 4")), newer, "{notes:?}");
        let now = Records {
            life: 1,
            revision: 6,
            values: rebuilt.records.clone(),
        };
        all[0].copy = None;
        assert_eq!(compare(&now, &all[0]), Verdict::Fine);
    }
}

fn known(index: u32, epoch: u64, in_sync: &[StoreId]) -> KnownGroup {
    KnownGroup {
        pool: POOL,
        index: GroupIndex(index),
        epoch: Epoch(epoch),
        in_sync: in_sync.to_vec(),
    }
}

fn known_volume(number: u64, generation: u32, last_chunk: u64) -> KnownVolume {
    KnownVolume {
        volume: VolumeId(number),
        generation: Generation(generation),
        last_chunk: Some(last_chunk),
        number: SnapshotId::HEAD,
        cloned: false,
        plain: false,
    }
}

fn read_group(rebuilt: &Rebuilt, index: u32) -> Group {
    serde_json::from_slice(&rebuilt.records[&map::group_key(POOL, GroupIndex(index))]).unwrap()
}

fn read_volume(rebuilt: &Rebuilt, name: &str) -> Volume {
    serde_json::from_slice(&rebuilt.records[&map::volume_key(name)]).unwrap()
}

#[test]
fn the_newest_epoch_and_generation_of_any_store_count() {
    let mut a = source(A, 10);
    let mut b = source(B, 12);
    let c = source(C, 11);
    // C was evicted from group 0 after the last copy; v1 was taken over, v2 was never touched.
    a.groups = vec![known(0, 2, &[A, B]), known(1, 1, &[A, B, C])];
    b.groups = vec![known(0, 2, &[A, B])];
    a.volumes = vec![known_volume(1, 5, 0)];
    b.volumes = vec![known_volume(1, 4, 1)];
    let rebuilt = rebuild(&[a, b, c], &[]).expect("all are there");
    let zero = read_group(&rebuilt, 0);
    assert_eq!(
        (zero.epoch, &zero.in_sync[..]),
        (Epoch(3), &[A, B][..]),
        "the stale copy is not believed"
    );
    assert_eq!(zero.members, [A, B, C]);
    let one = read_group(&rebuilt, 1);
    assert_eq!((one.epoch, &one.in_sync[..]), (Epoch(2), &[A, B, C][..]));
    let taken = read_volume(&rebuilt, "v1");
    assert_eq!((taken.generation, taken.owner), (Generation(6), None));
    assert_eq!(
        read_volume(&rebuilt, "v2").generation,
        Generation(4),
        "never touched, and there"
    );
    assert_eq!(
        (
            rebuilt.report.copy_of,
            rebuilt.report.revision,
            rebuilt.report.groups_ahead
        ),
        (B, 12, 1)
    );
    let life: map::Life = serde_json::from_slice(&rebuilt.records[&map::life_key()]).unwrap();
    assert_eq!(
        life,
        map::Life {
            number: 1,
            lost: Vec::new()
        }
    );
}

/// No number is given again; what was being taken is void.
#[test]
fn snapshots_that_the_copy_does_not_know_are_said_and_their_numbers_never_come_again() {
    let with = |number, taking, met| {
        let mut a = source(A, 10);
        let copy = a.copy.as_mut().expect("it has one");
        let key = map::volume_key("v1");
        let mut volume: Volume = serde_json::from_slice(&copy.values[&key]).unwrap();
        volume.lineage = map::Lineage {
            number: SnapshotId(number),
            sealed: SnapshotId(number.saturating_sub(u32::from(taking))),
            taking,
            set: None,
            ..map::Lineage::default()
        };
        copy.values.insert(key, serde_json::to_vec(&volume).unwrap());
        a.volumes = vec![KnownVolume {
            number: SnapshotId(met),
            ..known_volume(1, 5, 0)
        }];
        let rebuilt = rebuild(&[a, source(B, 9), source(C, 9)], &[]).expect("all are there");
        let said = rebuilt.report.notes.iter().any(|note| note.contains("snapshots"));
        (read_volume(&rebuilt, "v1").lineage, said)
    };
    let lineage = |number, sealed| map::Lineage {
        number: SnapshotId(number),
        sealed: SnapshotId(sealed),
        taking: false,
        set: None,
        ..map::Lineage::default()
    };
    assert_eq!(with(0, false, 0), (lineage(0, 0), false));
    assert_eq!(with(3, false, 2), (lineage(4, 3), false));
    assert_eq!(with(3, true, 3), (lineage(4, 2), false));
    assert_eq!(with(3, false, 7), (lineage(8, 3), true));
    assert_eq!(with(0, false, 2), (lineage(3, 0), true));
}

#[test]
fn every_in_sync_member_of_the_newest_epoch_is_needed_or_its_loss_is_named() {
    let mut a = source(A, 10);
    a.groups = vec![known(0, 2, &[A, B]), known(1, 3, &[B])];
    let error = rebuild(&[a.clone(), source(C, 10)], &[]).unwrap_err();
    let RecoverError::Missing { stores } = &error else {
        panic!("{error}")
    };
    let [missing] = &stores[..] else { panic!("{error}") };
    assert_eq!((missing.store, missing.groups, missing.only_copy_of), (B, 2, 1));
    let text = error.to_string();
    assert!(
        text.contains(&B.to_string()) && text.contains("/dev/x") && text.contains("the only copy of 1"),
        "{text}"
    );

    let rebuilt = rebuild(&[a.clone(), source(C, 10)], &[B]).expect("the loss is named");
    let zero = read_group(&rebuilt, 0);
    assert_eq!(zero.in_sync, [A]);
    assert!(zero.epoch > Epoch(1 << 20), "B may know newer epochs");
    // Of group 1 nothing can be believed: it waits for B.
    assert_eq!(read_group(&rebuilt, 1).in_sync, [B]);
    assert_eq!(rebuilt.report.groups_without_copy.len(), 1);
    assert_eq!((rebuilt.report.lost, rebuilt.report.groups_with_loss), (vec![B], 1));

    assert!(matches!(
        rebuild(&[a.clone(), source(C, 10)], &[B, A]),
        Err(RecoverError::NotLost { store: A, .. })
    ));
    let error = rebuild(&[a, source(B, 10)], &[C]).unwrap_err();
    assert_eq!(error, RecoverError::NotNeeded { store: C });
}

#[test]
fn what_does_not_fit_together_is_refused() {
    assert_eq!(rebuild(&[], &[]).unwrap_err(), RecoverError::NoStores);
    let twice = rebuild(&[source(A, 1), source(A, 2)], &[]);
    assert!(matches!(twice, Err(RecoverError::Twice { store: A, .. })));
    let mut other = source(B, 1);
    other.cluster = ClusterId(78);
    assert!(matches!(
        rebuild(&[source(A, 1), other], &[]),
        Err(RecoverError::OtherCluster { store: B, .. })
    ));
    let mut without = source(A, 1);
    without.copy = None;
    assert_eq!(rebuild(&[without], &[]).unwrap_err(), RecoverError::NoCopy);
    let (mut a, mut b) = (source(A, 1), source(B, 1));
    a.groups = vec![known(0, 5, &[A, C])];
    b.groups = vec![known(0, 5, &[B, C])];
    assert!(matches!(
        rebuild(&[a, b, source(C, 1)], &[]),
        Err(RecoverError::Split { .. })
    ));
}

#[test]
fn a_volume_that_no_copy_names_is_found_and_a_deleted_one_is_not() {
    let mut a = source(A, 10);
    let copy = a.copy.as_mut().unwrap();
    copy.values.remove(&map::volume_key("v2"));
    a.volumes = vec![known_volume(2, 9, 4), known_volume(3, 1, 6)];
    let all = [a, source(B, 9), source(C, 9)];
    let rebuilt = rebuild(&all, &[]).expect("all are there");
    assert!(
        !rebuilt.records.contains_key(&map::volume_key("v2")),
        "the newest copy knows that it is gone"
    );
    assert_eq!(rebuilt.report.found_volumes, ["recovered-3"]);
    let found = read_volume(&rebuilt, "recovered-3");
    assert_eq!((found.size_bytes, found.generation), (7 * (4 << 20), Generation(2)));
    let given: u64 = serde_json::from_slice(&rebuilt.records[&map::counter_key("volumes")]).unwrap();
    assert_eq!(given, 3, "its number is not given out again");
}

#[test]
fn a_volume_that_grew_after_the_copy_has_what_was_written_there() {
    let mut a = source(A, 10);
    // v1 has two chunks by the copy; v2 was written to its last one.
    a.volumes = vec![known_volume(1, 3, 5), known_volume(2, 3, 1)];
    let rebuilt = rebuild(&[a, source(B, 9), source(C, 9)], &[]).expect("all are there");
    assert_eq!(read_volume(&rebuilt, "v1").size_bytes, 6 * (4 << 20));
    assert_eq!(read_volume(&rebuilt, "v2").size_bytes, 8 << 20, "as it was");
    let told = rebuilt
        .report
        .notes
        .iter()
        .filter(|note| note.contains("volume v1 had 8388608 bytes"));
    assert_eq!(told.count(), 1, "{:?}", rebuilt.report.notes);
}

#[test]
fn who_may_connect_comes_back_and_wishes_do_not() {
    let mut a = source(A, 10);
    let copy = a.copy.as_mut().unwrap();
    let subsystem = map::Subsystem {
        name: "db".to_owned(),
        nqn: "nqn.2014-08.com.example:db".to_owned(),
        serial: "1".to_owned(),
        gateways: Vec::new(),
        any_host: false,
        tls_required: false,
        hosts: vec!["nqn.2014-08.com.example:h".to_owned()],
        namespaces: vec![map::Namespace {
            nsid: 1,
            volume: VolumeId(1),
            uuid: map::Namespace::uuid_of(CLUSTER, VolumeId(1)),
            block_bytes: 4096,
            snapshot: None,
        }],
    };
    let host = map::Host {
        nqn: "nqn.2014-08.com.example:h".to_owned(),
        dhchap: Some("sealed:1:x".to_owned()),
        dhchap_controller: None,
        tls: None,
    };
    let wish = map::Move {
        volume: "v1".to_owned(),
        to: NodeId(1),
        number: 1,
        refused: None,
    };
    let (of, kept) = (
        &mut copy.values,
        [
            (map::subsystem_key("db"), json(&subsystem)),
            (map::host_key(&host.nqn), json(&host)),
            (map::reservation_key(VolumeId(1)), json(&7)),
        ],
    );
    of.extend(kept.clone());
    of.insert(map::move_key(VolumeId(1)), json(&wish));
    let rebuilt = rebuild(&[a, source(B, 9), source(C, 9)], &[]).expect("all are there");
    for (key, value) in kept {
        assert_eq!(rebuilt.records.get(&key), Some(&value), "{key}");
    }
    assert!(!rebuilt.records.contains_key(&map::move_key(VolumeId(1))));
}

#[test]
fn a_copy_of_restored_metadata_is_left_out_though_its_revision_is_higher() {
    let mut made_later = source(A, 30);
    let copy = made_later.copy.as_mut().unwrap();
    copy.values.insert(map::volume_key("v3"), json(&volume(3, 0)));
    copy.values.insert(map::counter_key("volumes"), json(&3));
    copy.values
        .insert(map::group_key(POOL, GroupIndex(0)), json(&group(0, 2, &[A, B])));
    // C was served by what had been restored, and that went on.
    let stray = source(C, 40);
    let all = [made_later.clone(), source(B, 20), stray.clone()];
    let rebuilt = rebuild(&all, &[]).expect("one history is ahead");
    assert_eq!((rebuilt.report.copy_of, rebuilt.report.revision), (A, 30));
    assert!(rebuilt.records.contains_key(&map::volume_key("v3")));
    assert_eq!(read_group(&rebuilt, 0).in_sync, [A, B]);
    assert!(
        rebuilt.report.notes[0].contains("is left out"),
        "{:?}",
        rebuilt.report.notes
    );

    // It went on so far that a volume was taken over in it: nobody can say which of the two is wanted.
    let mut both = stray;
    let taken = json(&volume(1, 9));
    both.copy.as_mut().unwrap().values.insert(map::volume_key("v1"), taken);
    let error = rebuild(&[made_later, source(B, 20), both], &[]).unwrap_err();
    assert_eq!(error, RecoverError::TwoHistories { first: A, second: C });
}

#[test]
fn a_store_of_an_earlier_life_is_not_believed() {
    let mut newer = records(5);
    newer.life = 1;
    newer.values.insert(
        map::life_key(),
        json(&map::Life {
            number: 1,
            lost: vec![C],
        }),
    );
    let of = |store| Source {
        copy: Some(newer.clone()),
        ..source(store, 0)
    };
    let mut c = source(C, 900);
    c.groups = vec![known(0, 50, &[C])];
    let rebuilt = rebuild(&[of(A), of(B), c], &[]).expect("all are there");
    assert_eq!(read_group(&rebuilt, 0).epoch, Epoch(2));
    assert!(
        rebuilt.report.notes.iter().any(|note| note.contains("is not believed")),
        "{:?}",
        rebuilt.report
    );
}

fn in_life(rebuilt: &Rebuilt, number: u64) -> BTreeMap<String, Vec<u8>> {
    let (mut records, lost) = (rebuilt.records.clone(), rebuilt.report.lost.clone());
    records.insert(map::life_key(), json(&map::Life { number, lost }));
    records
}

/// Before any store has a copy of what was rebuilt the last time, who has known that must be able to tell.
#[test]
fn no_life_is_counted_twice() {
    let meta = Meta::new();
    let rebuilt = rebuild(&[source(A, 1), source(B, 1), source(C, 1)], &[]).unwrap();
    write(&meta, &rebuilt, false, false).unwrap();
    assert_eq!(meta.all(), in_life(&rebuilt, 1));
    write(&meta, &rebuilt, true, false).unwrap();
    assert_eq!(meta.all(), in_life(&rebuilt, 2));
}

#[test]
fn the_records_are_written_once_and_the_rest_is_gone() {
    let meta = Meta::new();
    let rebuilt = rebuild(&[source(A, 1), source(B, 1), source(C, 1)], &[]).unwrap();
    write(&meta, &rebuilt, false, true).expect("it could be");
    assert!(meta.all().is_empty(), "only asked");
    write(&meta, &rebuilt, false, false).expect("it is empty");
    assert_eq!(meta.all(), rebuilt.records);
    assert!(matches!(
        write(&meta, &rebuilt, false, false),
        Err(WriteError::NotEmpty { .. })
    ));

    meta.put("/amita/whole/1/1", b"{}");
    meta.put("/amita/volumes/older", &json(&volume(9, 1)));
    meta.put("/other/key", b"stays");
    let live = |pid| Live {
        session: 1,
        pid,
        stores: None,
        version: map::METADATA_VERSION,
    };
    meta.put(&map::live_key(NodeId(4)), &json(&live(1234)));
    let error = write(&meta, &rebuilt, true, false).unwrap_err();
    assert_eq!(
        error,
        WriteError::NodesRun {
            nodes: vec!["4".to_owned()]
        }
    );
    meta.put(&map::live_key(NodeId(4)), &json(&live(crate::agent::STOPPED)));
    write(&meta, &rebuilt, true, false).expect("nobody runs");
    let mut all = meta.all();
    assert_eq!(all.remove("/other/key").as_deref(), Some(&b"stays"[..]));
    assert_eq!(all, in_life(&rebuilt, 2));

    let strangers = map::Cluster {
        id: ClusterId(1),
        version: 1,
    };
    meta.put(&map::cluster_key(), &json(&strangers));
    assert!(matches!(
        write(&meta, &rebuilt, true, false),
        Err(WriteError::OtherCluster { .. })
    ));
}

#[test]
fn ten_thousand_records_are_written_in_calls_that_servers_take() {
    let mut copy = records(1);
    for number in 3..10_000 {
        copy.values
            .insert(map::volume_key(&format!("v{number}")), json(&volume(number, 0)));
    }
    let sources: Vec<Source> = [A, B, C]
        .map(|store| Source {
            copy: Some(copy.clone()),
            ..source(store, 1)
        })
        .into();
    let rebuilt = rebuild(&sources, &[]).unwrap();
    let meta = Meta::new();
    write(&meta, &rebuilt, false, false).expect("each call is checked against etcd's limits");
    assert_eq!(meta.all().len(), rebuilt.records.len());
    // And again over itself.
    write(&meta, &rebuilt, true, false).expect("each call is checked against etcd's limits");
    assert_eq!(meta.all(), in_life(&rebuilt, 2));
}

#[test]
fn a_bundle_holds_all_that_a_store_knows() {
    let mut a = source(A, 10);
    a.groups = vec![known(0, 2, &[A, B])];
    a.volumes = vec![KnownVolume {
        plain: true,
        ..known_volume(1, 5, 0)
    }];
    let text = serde_json::to_string(&Bundle::new(&[a.clone(), source(B, 3)])).unwrap();
    let read: Bundle = serde_json::from_str(&text).unwrap();
    assert_eq!(read.sources().unwrap(), [a, source(B, 3)]);
}

#[test]
fn older_metadata_is_told_from_newer() {
    let now = records(20);
    let mut a = source(A, 20);
    a.groups = vec![known(0, 1, &[C, B, A])];
    a.volumes = vec![known_volume(1, 3, 0), known_volume(2, 1, 0)];
    assert_eq!(compare(&now, &a), Verdict::Fine);
    // A volume that was deleted, a pool that was.
    let mut fewer = now.clone();
    fewer.values.remove(&map::volume_key("v1"));
    assert_eq!(compare(&fewer, &a), Verdict::Fine);

    let older = |change: &dyn Fn(&mut Source), what: &str| {
        let mut source = a.clone();
        change(&mut source);
        match compare(&now, &source) {
            Verdict::Older(found) => assert!(found[0].contains(what), "{found:?}"),
            other => panic!("{what}: {other:?}"),
        }
    };
    older(
        &|source| source.groups[0].epoch = Epoch(2),
        "group 1.0: the store knows epoch 2, the metadata says 1",
    );
    older(&|source| source.groups[0].in_sync = vec![A], "other in-sync stores");
    older(&|source| source.groups[0].pool = PoolId(2), "never known a pool");
    older(
        &|source| source.volumes[0].generation = Generation(4),
        "volume v1: the store knows generation 4",
    );
    older(&|source| source.volumes[0].volume = VolumeId(3), "never known a volume");
    older(&|source| source.copy.as_mut().unwrap().revision = 21, "revision 21");
    older(&|source| source.copy.as_mut().unwrap().life = 1, "rebuilt 1 times");

    // What was there before a recovery does not count after it.
    let mut rebuilt = now.clone();
    rebuilt.values.insert(
        map::life_key(),
        json(&map::Life {
            number: 2,
            lost: Vec::new(),
        }),
    );
    a.groups[0].epoch = Epoch(9);
    assert_eq!(compare(&rebuilt, &a), Verdict::EarlierLife { life: 0 });
}
