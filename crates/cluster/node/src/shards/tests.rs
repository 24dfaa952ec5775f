use super::*;
use amita_frontend::reservation::{Command, Kind, State};
use amita_frontend::{FrontId, HostKey};
use amita_types::map::{self, Pool, PoolKind, Volume};
use amita_types::message::Purpose;
use amita_types::{NodeId, PoolId, TraceId};
use std::cell::RefCell;
use std::sync::Arc;

const VOLUME: VolumeId = VolumeId(7);
const NOW: Time = Time(1_000_000_000);

/// A volume as an opener hands it over, with this record of its reservation.
fn opened(reservation: Option<&[u8]>) -> Opened {
    Opened {
        keys: None,
        volume: Volume {
            generation: Generation(3),
            owner: Some(NodeId(1)),
            ..Volume::new(VOLUME, "v", "p", 1 << 30)
        },
        volume_revision: 1,
        pool: Pool {
            failure_domain: amita_types::placement::Level::Node,
            class: None,
            id: PoolId(1),
            name: "p".to_owned(),
            kind: PoolKind::Replicated {
                copies: 1,
                min_copies: 1,
            },
            groups: 1,
            chunk_bytes: 4 << 20,
        },
        generation: Generation(3),
        given_back: None,
        owner: NodeId(1),
        groups: vec![(
            map::Group {
                index: amita_types::GroupIndex(0),
                epoch: amita_types::Epoch(1),
                members: vec![StoreId(1)],
                in_sync: vec![StoreId(1)],
                syncing: Vec::new(),
            },
            1,
        )],
        reservation: reservation.map(|record| (record.to_vec(), 5)),
    }
}

fn shards() -> Shards {
    Shards::new(0, Config::default(), TraceConfig::default())
}

fn make(shards: &mut Shards, reservation: Option<&[u8]>) -> Option<String> {
    shards.make(NOW, opened(reservation), &[], &[], &[])
}

fn origin(host: u64) -> Origin {
    Origin {
        core: 0,
        front: FrontId(1),
        tag: 1,
        arrived: NOW,
        parsed: NOW,
        kept: NOW,
        trace: TraceId::NONE,
        host: HostKey(host.into()),
        generation: Generation(0),
        snapshot: amita_types::SnapshotId::HEAD,
    }
}

/// Does the volume take a read of this host, and a write?
fn takes(shards: &mut Shards, host: u64) -> (bool, bool) {
    let (offset, length) = (0, 4096);
    let mut ask = |op, payload: &[u8]| match shards.begin(NOW, origin(host), VOLUME, op, Slice::copy_from(payload)) {
        Ok(()) => true,
        Err(Declined::Reserved) => false,
        Err(other) => panic!("{other:?}"),
    };
    let read = ask(Op::Read { offset, length }, &[]);
    (read, ask(Op::Write { offset, length }, &[1; 4096]))
}

/// Host 10 holds the volume, and alone may write it.
fn reserved() -> State {
    let mut state = State::default();
    let (host_id, key) = ([10; 16], 5);
    let register = Command::Register {
        host_id,
        key,
        ignore_key: false,
        persist: None,
    };
    state.apply(HostKey(10), &register).unwrap();
    let kind = Kind::WriteExclusive;
    state.apply(HostKey(10), &Command::Acquire { key, kind }).unwrap();
    state
}

#[test]
fn io_is_held_against_the_record_that_the_opener_read() {
    let mut shards = shards();
    let record = serde_json::to_vec(&reserved()).unwrap();
    assert_eq!(make(&mut shards, Some(&record)), None);
    assert_eq!(takes(&mut shards, 10), (true, true));
    assert_eq!(takes(&mut shards, 11), (true, false));
}

/// Two hosts share a disk, one of them was fenced, and the record of it is torn: were it taken for none, the fenced one
/// would write.
#[test]
fn a_record_that_cannot_be_read_forbids_all() {
    let mut shards = shards();
    let warning = make(&mut shards, Some(b"{\"registrants\": 7}")).expect("somebody must see to it");
    assert!(warning.contains(&map::reservation_key(VOLUME)), "{warning}");
    for host in [10, 11] {
        assert_eq!(takes(&mut shards, host), (false, false), "host {host}");
    }
    assert_eq!(shards.ios.len(), 0, "nothing was begun");

    // An older word of the record than what was read does not count; a newer one does.
    let changed = |revision| Adopted {
        revision,
        state: Some(Arc::new(reserved())),
    };
    shards.reservation_changed(VOLUME, changed(4));
    assert_eq!(takes(&mut shards, 10), (false, false));
    shards.reservation_changed(VOLUME, changed(6));
    assert_eq!(takes(&mut shards, 10), (true, true));
    assert_eq!(takes(&mut shards, 11), (true, false));
    // From then on only what the owner itself has written counts.
    let none = Adopted {
        revision: 7,
        state: Some(Arc::default()),
    };
    shards.reservation_changed(VOLUME, none);
    assert_eq!(takes(&mut shards, 11), (true, false));
}

/// A backup reads a snapshot as long as it likes, and a flattening all of a clone: who reserves the volume for itself waits for neither.
#[test]
fn a_reservation_waits_only_for_what_it_is_of() {
    let mut state = State::default();
    let (host_id, key, kind) = ([10; 16], 5, Kind::ExclusiveAccess);
    let register = Command::Register {
        host_id,
        key,
        ignore_key: false,
        persist: None,
    };
    state.apply(HostKey(10), &register).unwrap();
    state.apply(HostKey(10), &Command::Acquire { key, kind }).unwrap();
    let adopted = Adopted {
        revision: 9,
        state: Some(Arc::new(state)),
    };
    let read = Op::Read {
        offset: 0,
        length: 4096,
    };
    let of_snapshot = Origin {
        snapshot: SnapshotId(1),
        ..origin(11)
    };
    let of_flattening = Origin {
        front: FLATTENS,
        host: HostKey::NONE,
        ..origin(11)
    };
    for (origin, waits) in [
        (of_snapshot, false),
        (of_flattening, false),
        (origin(10), false),
        (origin(11), true),
    ] {
        let mut shards = shards();
        assert_eq!(make(&mut shards, None), None);
        shards
            .begin(NOW, origin, VOLUME, read, Slice::default())
            .expect("nothing is reserved");
        shards.adopt(VOLUME, adopted.clone());
        assert_eq!(shards.take_adopted().is_empty(), waits, "{origin:?}");
    }
}

#[test]
fn a_volume_that_leaves_says_so_once_for_each_attempt() {
    let mut shards = shards();
    assert_eq!(make(&mut shards, None), None);
    shards.leave(VOLUME, 1);
    assert!(shards.is_any_leaving() && !shards.is_open(VOLUME));
    assert_eq!(shards.take_left(), [(VOLUME, Generation(3), 1)]);
    assert!(!shards.is_any_leaving() && shards.take_left().is_empty());

    shards.stay(VOLUME);
    assert_eq!(takes(&mut shards, 10), (true, true));
    shards.leave(VOLUME, 2);
    assert!(shards.is_any_leaving());
    assert!(shards.take_left().is_empty(), "I/O is under way");
    shards.stop(VOLUME, false);
    let effects = shards.take_effects(NOW);
    let is_lost = |effect: &ShardEffect| matches!(effect, ShardEffect::Lost(..));
    assert!(!effects.is_empty() && !effects.iter().any(is_lost), "{effects:?}");
    assert_eq!(shards.take_left(), [(VOLUME, Generation(3), 2)]);
    shards.remove(VOLUME);
    assert!(!shards.is_any_leaving());
}

/// Who reads on from a snapshot that was deleted gets errors; the volume is well.
#[test]
fn a_deleted_snapshot_is_no_trouble_of_its_volume() {
    let read = Op::Read {
        offset: 0,
        length: 4096,
    };
    let (head, snapshot) = (SnapshotId::HEAD, SnapshotId(1));
    assert_eq!(trouble(&read, head, IoError::Damaged), Some(Failing::Reads));
    assert_eq!(trouble(&read, snapshot, IoError::Damaged), None);
    assert_eq!(trouble(&read, snapshot, IoError::Unavailable), Some(Failing::Reads));
    let since = Op::Differ {
        offset: 0,
        since: snapshot,
    };
    assert_eq!(trouble(&since, head, IoError::Damaged), None);
}

/// What the rule is for.
#[test]
fn a_torn_record_taken_for_none_lets_a_fenced_host_write() {
    let mut shards = shards();
    shards.faults = Faults::NONE.with(Fault::UnreadableIsNone);
    make(&mut shards, Some(b"torn"));
    assert_eq!(takes(&mut shards, 11), (true, true));
}

#[test]
fn on_hold_nothing_of_hosts_is_begun_but_reads_of_snapshots() {
    let mut shards = shards();
    assert_eq!(make(&mut shards, None), None);
    assert_eq!(takes(&mut shards, 10), (true, true));
    let generation = Generation(3);
    assert!(shards.snapshot(NOW, VOLUME, generation, Order::Hold));
    assert!(shards.is_on_hold(VOLUME) && !shards.is_open(VOLUME));
    assert!(shards.take_drained().is_empty(), "I/O is under way");
    let (offset, length) = (0, 4096);
    let read = Op::Read { offset, length };
    for (op, payload) in [(read, &[][..]), (Op::Write { offset, length }, &[1; 4096])] {
        let begun = shards.begin(NOW, origin(10), VOLUME, op, Slice::copy_from(payload));
        assert!(matches!(begun, Err(Declined::Elsewhere(_))), "{begun:?}");
    }
    let of_snapshot = Origin {
        snapshot: SnapshotId(1),
        ..origin(11)
    };
    assert!(shards.begin(NOW, of_snapshot, VOLUME, read, Slice::default()).is_ok());
    shards.snapshot(NOW, VOLUME, generation, Order::LetGo);
    assert!(shards.is_open(VOLUME));
    assert_eq!(takes(&mut shards, 10), (true, true));
    // What is read of snapshots keeps nobody waiting.
    let mut idle = super::tests::shards();
    assert_eq!(make(&mut idle, None), None);
    assert!(idle.begin(NOW, of_snapshot, VOLUME, read, Slice::default()).is_ok());
    idle.snapshot(NOW, VOLUME, generation, Order::Hold);
    assert_eq!(idle.take_drained(), [(VOLUME, generation)]);
    assert!(idle.take_drained().is_empty(), "it is said once");
}

/// The volume is closed for a mirror: who reads its snapshots is served, and nobody but a runner of that mirror, in this very program, has
/// the volume itself.
#[test]
fn a_closed_volume_is_its_runners_alone() {
    let mirror = MirrorId(77);
    let mut closed = opened(None);
    closed.volume.closed = Some(Box::new(map::Closed {
        mirror,
        name: "dr".to_owned(),
        since: Generation(2),
    }));
    let mut here = shards();
    here.make(NOW, closed.clone(), &[], &[], &[]);
    let mut runner = shards();
    runner.mirror = Some(mirror);
    runner.make(NOW, closed.clone(), &[], &[], &[]);
    let mut other = shards();
    other.mirror = Some(MirrorId(78));
    other.make(NOW, closed, &[], &[], &[]);
    let (offset, length) = (0, 4096);
    let of_snapshot = Origin {
        snapshot: SnapshotId(1),
        ..origin(10)
    };
    let forwarded = Origin {
        front: crate::forwarder::FORWARDED,
        generation: Generation(3),
        ..origin(10)
    };
    let begins = |shards: &mut Shards, origin: Origin, op: Op, payload: &[u8]| match shards.begin(
        NOW,
        origin,
        VOLUME,
        op,
        Slice::copy_from(payload),
    ) {
        Ok(()) => true,
        Err(Declined::Closed) => false,
        Err(why) => panic!("{why:?}"),
    };
    let read = Op::Read { offset, length };
    let write = Op::Write { offset, length };
    for (shards, is_runner) in [(&mut here, false), (&mut runner, true), (&mut other, false)] {
        assert_eq!(begins(shards, origin(10), read, &[]), is_runner);
        assert_eq!(begins(shards, origin(10), write, &[1; 4096]), is_runner);
        assert!(!begins(shards, forwarded, read, &[]), "another gateway's host");
        assert!(!begins(shards, forwarded, write, &[1; 4096]));
        assert!(begins(shards, of_snapshot, read, &[]));
    }
}

/// Hosts' latency is not told by what has given way to them, and what is not begun is not paid for.
#[test]
fn what_is_begun_for_background_work_counts_from_its_beginning_and_pays_when_it_is_begun() {
    let mut shards = shards();
    let later = NOW.plus(std::time::Duration::from_secs(4));
    let op = Op::Read {
        offset: 0,
        length: 4096,
    };
    let start = |shards: &Shards| {
        let leave = shards.pacer().start_copy(later).unwrap();
        Sake::Background(Some(Leave::new(RefCell::new(leave))), Purpose::Move)
    };
    let sake = start(&shards);
    let begun = shards.begin_for(later, origin(10), VOLUME, op, Slice::default(), sake);
    assert!(matches!(begun, Err(Declined::Elsewhere(_))));
    assert_eq!(shards.pace().bytes, 0);
    let longest = |shards: &mut Shards, sake| {
        make(shards, None);
        let begun = shards.begin_for(later, origin(10), VOLUME, op, Slice::default(), sake);
        assert!(begun.is_ok());
        shards.stop(VOLUME, false);
        drop(shards.take_effects(later));
        let (_, usage) = shards.usage(VOLUME).unwrap();
        usage.each().map(|(_, kind)| kind.latency.sum()).max().unwrap()
    };
    let sake = start(&shards);
    assert!(longest(&mut shards, sake) < std::time::Duration::from_secs(1));
    assert_eq!(shards.pace().bytes, 4096);
    assert!(shards.take_leave_ended() && !shards.take_leave_ended());
    assert!(longest(&mut shards, Sake::Background(None, Purpose::Move)) < std::time::Duration::from_secs(1));
    assert!(longest(&mut shards, Sake::Hosts) >= std::time::Duration::from_secs(4));
    assert!(!shards.take_leave_ended());
    assert_eq!(shards.pace().bytes, 4096);
}

/// The stores are told of a move before its owner's node is: the one that holds for it waits for that word.
#[test]
fn who_holds_loses_nothing_by_the_end_of_the_data() {
    let fenced = |holds: bool, generation: Generation| {
        let mut shards = shards();
        let (node, store) = (NodeId(2), StoreId(1));
        assert_eq!(shards.make(NOW, opened(None), &[], &[(store, node)], &[]), None);
        let (offset, length) = (0, 4096);
        let read = shards.begin(NOW, origin(10), VOLUME, Op::Read { offset, length }, Slice::default());
        assert!(read.is_ok());
        let sent = shards.take_effects(NOW).into_iter().find_map(|effect| match effect {
            ShardEffect::Sequencer(Effect::Send { request, .. }) => Some(request),
            _ => None,
        });
        if holds {
            assert!(shards.snapshot(NOW, VOLUME, Generation(3), Order::Hold));
        }
        let refused = Answer {
            id: sent.expect("it asks the store").id,
            store,
            lease_ms: 0,
            credit_blocks: 0,
            waited: amita_types::message::Waited::default(),
            trace: None,
            result: Err(amita_types::message::Refusal::Fenced { generation }),
        };
        shards.answer(NOW, node, refused, Slice::default());
        let effects = shards.take_effects(NOW);
        let is_over = |effect: &ShardEffect| matches!(effect, ShardEffect::Done(_, Err(IoError::Lost), _));
        assert!(effects.iter().any(is_over), "{effects:?}");
        effects.iter().any(|effect| matches!(effect, ShardEffect::Lost(..)))
    };
    assert!(!fenced(true, Generation::DELETED));
    assert!(fenced(false, Generation::DELETED));
    assert!(fenced(true, Generation(4)), "another gateway has it");
}
