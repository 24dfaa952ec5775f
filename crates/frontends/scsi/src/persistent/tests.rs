use super::*;
use crate::plan::failed;
use crate::sense::Status;
use crate::testing::{Host, port, sense};
use amita_frontend::HostKey;
use amita_frontend::reservation::{Command, Connection, Lock, Refusal, State};
use amita_types::io::IoError;
use amita_types::{SnapshotId, VolumeId};
use proptest::prelude::*;

fn out(action: u8, kind: u8, length: u8) -> [u8; 10] {
    [0x5f, action, kind, 0, 0, 0, 0, 0, length, 0]
}

fn list(key: u64, new_key: u64, flags: u8) -> Vec<u8> {
    let mut list = [key.to_be_bytes(), new_key.to_be_bytes()].concat();
    list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
    list
}

fn asked(plan: Plan) -> (Reservation, Reserving) {
    match plan {
        Plan::Reserve {
            volume,
            command,
            then,
            host,
        } => {
            assert_eq!((volume, host), (VolumeId(1), port(1).key(1)));
            (command, then)
        }
        other => panic!("no reservation: {other:?}"),
    }
}

/// The command of a PERSISTENT RESERVE OUT with a basic list.
fn command(host: &mut Host, action: u8, kind: u8, list: &[u8]) -> Reservation {
    asked(host.send_with(0, &out(action, kind, list.len() as u8), list)).0
}

/// The volume's reservations, with the host on one side.
struct Volume {
    host: Host,
    state: State,
}

impl Volume {
    fn new() -> Volume {
        Volume {
            host: Host::one(),
            state: State::default(),
        }
    }

    /// Carries a plan out, as the volume's owner does.
    fn run(&mut self, plan: Plan) -> Answer {
        let plan = match plan {
            Plan::Answer(answer) => return answer,
            Plan::Ask(asking) if self.state.allows(self.host.nexus.key(), asking.access) => {
                let plan = self.host.pass(&asking);
                return self.run(plan);
            }
            Plan::Ask(asking) => return failed(&asking.place, IoError::Reserved, None),
            plan => plan,
        };
        let (command, then) = asked(plan);
        let mut state = self.state.clone();
        let result = state.apply(self.host.nexus.key(), &command.into()).map(|()| state);
        if let Ok(state) = &result {
            self.state = state.clone();
        }
        reserved(&then, &result)
    }

    fn out(&mut self, action: u8, kind: u8, key: u64, new_key: u64) -> Answer {
        let list = list(key, new_key, 0);
        self.out_list(action, kind, &list)
    }

    fn out_list(&mut self, action: u8, kind: u8, list: &[u8]) -> Answer {
        let plan = self.host.send_with(0, &out(action, kind, list.len() as u8), list);
        self.run(plan)
    }

    fn read(&mut self, action: u8) -> Vec<u8> {
        let plan = self.host.send(0, &[0x5e, action, 0, 0, 0, 0, 0, 0x10, 0, 0]);
        let answer = self.run(plan);
        assert_eq!(answer.status, Status::Good);
        answer.data
    }
}

const GOOD: Status = Status::Good;
const CONFLICT: Status = Status::ReservationConflict;

#[test]
fn register_reserve_release() {
    let mut volume = Volume::new();
    assert_eq!(volume.out(1, 1, 0x11, 0).status, CONFLICT, "not registered");
    assert_eq!(volume.out(0, 0, 0x11, 0x22).status, CONFLICT, "its key is 0");
    assert_eq!(volume.out(0, 0, 0, 0x11).status, GOOD);
    assert_eq!(volume.out(0, 0, 0, 0x22).status, CONFLICT, "its key is not 0");
    assert_eq!(volume.read(0), [0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0x11]);
    assert_eq!(volume.read(1), [0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(volume.out(1, 5, 0x11, 0).status, GOOD);
    let held = [
        0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0, 5, 0, 0,
    ];
    assert_eq!(volume.read(1), held);
    let invalid = volume.out(2, 1, 0x11, 0).sense;
    assert_eq!(
        invalid,
        Some(Sense::new(Key::IllegalRequest, code::INVALID_RELEASE)),
        "another type"
    );
    assert_eq!(volume.out(2, 5, 0x11, 0).status, GOOD);
    assert_eq!(volume.out(0, 0, 0x11, 0x33).status, GOOD, "another key");
    assert_eq!(volume.out(3, 0, 0x33, 0).status, GOOD);
    assert_eq!(volume.read(0)[4..], [0, 0, 0, 0]);
}

/// A gateway hears what an owner has written a moment later, or much later; and a host does not wait for that, whichever of its sessions has registered.
#[test]
fn who_has_registered_is_not_refused_by_what_was_before() {
    let mut volume = Volume::new();
    let (other, kind) = (HostKey(9), Kind::ExclusiveAccessRegistrants);
    let register = Command::Register {
        host_id: [9; 16],
        key: 7,
        ignore_key: false,
        persist: None,
    };
    volume.state.apply(other, &register).expect("registered");
    let acquire = Command::Acquire { key: 7, kind };
    volume.state.apply(other, &acquire).expect("reserved");
    let hear = |volume: &mut Volume| {
        let state = std::sync::Arc::new(volume.state.clone());
        volume.host.catalog.reservations.insert(VolumeId(1), state);
        volume.host.catalog.revision += 1;
        volume.host.settle();
    };
    hear(&mut volume);
    let status = |volume: &mut Volume| {
        let plan = volume.host.send(0, &[0x1a, 0, 0x3f, 0, 252, 0]);
        volume.run(plan).status
    };
    assert_eq!(status(&mut volume), CONFLICT);
    assert_eq!(volume.out(0, 0, 0, 5).status, GOOD);
    assert_eq!(status(&mut volume), GOOD, "the owner says so");
    // A session that takes the other one's place is the same nexus.
    volume.host.nexus = Nexus::new(port(1), 1);
    volume.host.settle();
    assert_eq!(status(&mut volume), GOOD);
    hear(&mut volume);
    assert_eq!(status(&mut volume), GOOD);
    // And who was fenced off is told so.
    let preempt = Command::Preempt {
        key: 7,
        victim: 5,
        kind,
        abort: false,
    };
    volume.state.apply(other, &preempt).expect("preempted");
    hear(&mut volume);
    assert_eq!(status(&mut volume), CONFLICT);
    assert_eq!(volume.out(0, 0, 0, 5).status, GOOD);
    // It gives up what the catalog has not heard of.
    assert_eq!(volume.out(0, 0, 5, 0).status, GOOD);
    assert_eq!(status(&mut volume), CONFLICT);
}

#[test]
fn registering_nothing() {
    let mut volume = Volume::new();
    assert_eq!(volume.out(0, 0, 0, 0).status, GOOD, "it stays unregistered");
    assert_eq!(volume.out(6, 0, 0, 0).status, GOOD);
    assert_eq!(volume.out(6, 0, 0x99, 0x11).status, GOOD, "whatever its key is");
    assert_eq!(volume.out(0, 0, 0, 0).status, CONFLICT);
    assert_eq!(volume.out(6, 0, 0, 0x22).status, GOOD);
    assert_eq!(volume.state.registrants[0].key, 0x22);
    assert_eq!(volume.out(6, 0, 0, 0).status, GOOD);
    assert!(volume.state.registrants.is_empty());
}

#[test]
fn types_are_those_of_scsi() {
    let mut host = Host::one();
    let names = [
        (1, Kind::WriteExclusive),
        (3, Kind::ExclusiveAccess),
        (5, Kind::WriteExclusiveRegistrants),
        (6, Kind::ExclusiveAccessRegistrants),
        (7, Kind::WriteExclusiveAll),
        (8, Kind::ExclusiveAccessAll),
    ];
    for (number, kind) in names {
        let acquire = Reservation::Engine(Command::Acquire { key: 7, kind });
        assert_eq!(command(&mut host, 1, number, &list(7, 0, 0)), acquire);
        let preempt = |abort| {
            Reservation::Engine(Command::Preempt {
                key: 7,
                victim: 8,
                kind,
                abort,
            })
        };
        assert_eq!(command(&mut host, 4, number, &list(7, 8, 0)), preempt(false));
        assert_eq!(command(&mut host, 5, number, &list(7, 8, 0)), preempt(true));
    }
    for wrong in [0, 2, 4, 9, 15] {
        for action in [1, 2, 4, 5] {
            assert_eq!(host.sense(0, &out(action, wrong, 24)), Sense::in_cdb(2, Some(3)));
        }
        // Neither scope nor type matter to the others.
        assert!(matches!(
            command(&mut host, 3, wrong, &list(7, 0, 0)),
            Reservation::Engine(Command::Clear { key: 7 })
        ));
    }
    assert_eq!(
        host.sense(0, &out(1, 0x11, 24)),
        Sense::in_cdb(2, Some(7)),
        "another scope"
    );
}

#[test]
fn aptpl_and_lengths() {
    let mut host = Host::one();
    let Command::RegisterAll {
        registrants, persist, ..
    } = command(&mut host, 0, 0, &list(0, 5, 1)).into()
    else {
        panic!("a registration");
    };
    assert_eq!(persist, Some(true));
    let [own] = registrants.as_slice() else {
        panic!("of one alone: {registrants:?}")
    };
    assert_eq!((own.host, HostKey::from(own.host_id)), (port(1).key(1), port(1).key(1)));
    let name = PortName {
        initiator: port(1).port_name(),
        tag: 1,
    };
    assert_eq!((own.key, own.port.as_ref()), (5, Some(&name)));
    let short = Sense::new(Key::IllegalRequest, code::PARAMETER_LIST_LENGTH);
    assert_eq!(host.sense(0, &out(0, 0, 23)), short);
    assert_eq!(host.sense(0, &out(0, 0, 0)), short);
    assert_eq!(sense(host.send_with(0, &out(0, 0, 25), &[0; 25])), short);
    assert_eq!(host.sense(0, &out(8, 0, 24)), Sense::in_cdb(1, Some(4)));
}

fn named(session: u8, tag: u16) -> NexusName {
    NexusName {
        initiator: port(session),
        tag,
    }
}

#[test]
fn all_target_ports_and_other_initiators() {
    let mut host = Host::one();
    let all = |nexuses: Vec<NexusName>, ignore_key| Reservation::RegisterAll {
        nexuses,
        key: 5,
        ignore_key,
        persist: false,
    };
    assert_eq!(
        command(&mut host, 0, 0, &list(0, 5, 4)),
        all(vec![named(1, 1), named(1, 2)], false)
    );
    assert_eq!(
        command(&mut host, 6, 0, &list(9, 5, 4)),
        all(vec![named(1, 1), named(1, 2)], true)
    );
    let mut spec = list(0, 5, 8);
    let others = [
        TransportId::Iscsi(port(2)).encode(),
        TransportId::Iscsi(port(3)).encode(),
    ]
    .concat();
    spec.extend((others.len() as u32).to_be_bytes());
    spec.extend(&others);
    let expected = all(vec![named(1, 1), named(2, 1), named(3, 1)], false);
    assert_eq!(command(&mut host, 0, 0, &spec), expected);
    spec[20] = 0x0c;
    let expected = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)];
    let expected = expected.into_iter().map(|(session, tag)| named(session, tag)).collect();
    assert_eq!(command(&mut host, 0, 0, &spec), all(expected, false));
    // It is of a registration alone, and with the length that it has.
    let length = spec.len() as u8;
    assert_eq!(
        sense(host.send_with(0, &out(6, 0, length), &spec)),
        Sense::in_list(20, Some(3))
    );
    spec[27] -= 4;
    assert_eq!(
        sense(host.send_with(0, &out(0, 0, length), &spec)),
        Sense::in_list(24, None)
    );
    spec[27] += 4;
    spec[28] = 0x05;
    assert_eq!(
        sense(host.send_with(0, &out(0, 0, length), &spec)),
        Sense::in_list(28, None),
        "no session"
    );
    let mut own = list(0, 5, 8);
    let id = TransportId::Iscsi(port(1)).encode();
    own.extend((id.len() as u32).to_be_bytes());
    own.extend(&id);
    let twice = host.send_with(0, &out(0, 0, own.len() as u8), &own);
    assert_eq!(sense(twice), Sense::in_list(24, None), "itself");
}

#[test]
fn more_nexuses_than_can_be_registered_are_not_made() {
    let mut host = Host::one();
    let mut spec = list(0, 5, 0x0c);
    let other = TransportId::Iscsi(port(2)).encode();
    spec.extend((other.len() as u32).to_be_bytes());
    spec.extend(&other);
    for (tags, fits) in [(128, true), (129, false), (u16::MAX, false)] {
        host.target.groups = (1..=tags).collect();
        let plan = host.send_with(0, &out(0, 0, spec.len() as u8), &spec);
        if !fits {
            assert_eq!(sense(plan).code, code::INSUFFICIENT_REGISTRATION_RESOURCES, "{tags}");
            continue;
        }
        let Reservation::RegisterAll { nexuses, .. } = asked(plan).0 else {
            panic!("no registration");
        };
        assert_eq!(nexuses.len(), amita_frontend::reservation::MAX_REGISTRANTS);
    }
}

fn move_list(flags: u8, tag: u16, id: &[u8]) -> Vec<u8> {
    let mut list = [7_u64.to_be_bytes(), 8_u64.to_be_bytes()].concat();
    list.extend([0, flags]);
    list.extend(tag.to_be_bytes());
    list.extend((id.len() as u32).to_be_bytes());
    list.extend(id);
    list
}

#[test]
fn register_and_move() {
    let mut host = Host::one();
    let id = TransportId::Iscsi(port(2)).encode();
    let expected = |unregister, persist| Reservation::Move {
        key: 7,
        new_key: 8,
        to: named(2, 2),
        unregister,
        persist,
    };
    assert_eq!(command(&mut host, 7, 0, &move_list(0, 2, &id)), expected(false, false));
    assert_eq!(command(&mut host, 7, 0, &move_list(3, 2, &id)), expected(true, true));
    let mut refused = |list: &[u8]| sense(host.send_with(0, &out(7, 0, list.len() as u8), list));
    assert_eq!(refused(&move_list(0, 9, &id)), Sense::in_list(18, None), "no such port");
    let mut list = move_list(0, 2, &id);
    list[8..16].fill(0);
    assert_eq!(refused(&list), Sense::in_list(8, None));
    assert_eq!(refused(&move_list(0, 2, &id[..id.len() - 4])), Sense::in_list(26, None));
    let own = TransportId::Iscsi(port(1)).encode();
    assert_eq!(refused(&move_list(0, 2, &own)), Sense::in_list(24, None), "to itself");
    let two = [&id[..], &id].concat();
    assert_eq!(refused(&move_list(0, 2, &two)), Sense::in_list(24, None), "to two");
}

#[test]
fn capabilities_and_full_status() {
    let mut volume = Volume::new();
    assert_eq!(volume.read(2), [0, 8, 0x1d, 0xc0, 0xea, 0x01, 0, 0]);
    let other = Command::Register {
        host_id: *b"a host of NVMe..",
        key: 0x44,
        ignore_key: false,
        persist: Some(true),
    };
    volume.state.apply(HostKey(4), &other).expect("registered");
    assert_eq!(volume.out(0, 0, 0, 0x11).status, GOOD);
    assert_eq!(volume.out(1, 6, 0x11, 0).status, GOOD);
    let data = volume.read(3);
    let length = u32::from_be_bytes([data[4], data[5], data[6], data[7]]);
    assert_eq!(length as usize, data.len() - 8);
    // One of another protocol, by its identifier.
    assert_eq!(data[8..16], 0x44_u64.to_be_bytes());
    assert_eq!(data[16..32], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24]);
    assert_eq!(data[32..40], [0x0f, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&data[40..56], b"a host of NVMe..");
    // The nexus itself: it holds it, and came by port 1.
    let own = &data[56..];
    assert_eq!(own[..8], 0x11_u64.to_be_bytes());
    assert_eq!(own[8..20], [0, 0, 0, 0, 1, 6, 0, 0, 0, 0, 0, 1]);
    assert_eq!(own[24..], TransportId::Iscsi(port(1)).encode());
    let cut = volume.host.send(0, &[0x5e, 3, 0, 0, 0, 0, 0, 0, 8, 0]);
    assert_eq!(volume.run(cut).data.len(), 8);
}

/// SPEC_I_PT and ALL_TG_PT, as the volume has it then, and who is told of it by whose names.
#[test]
fn several_are_registered_and_named() {
    let mut volume = Volume::new();
    let mut spec = list(0, 5, 0x0d);
    let id = TransportId::Iscsi(port(2)).encode();
    spec.extend((id.len() as u32).to_be_bytes());
    spec.extend(&id);
    assert_eq!(volume.out_list(0, 0, &spec).status, GOOD);
    assert_eq!((volume.state.registrants.len(), volume.state.generation), (4, 1));
    assert!(volume.state.persist);
    let data = volume.read(3);
    let mut shown = Vec::new();
    let mut rest = &data[8..];
    while !rest.is_empty() {
        let tag = u16::from_be_bytes([rest[18], rest[19]]);
        let (name, length) = TransportId::parse(&rest[24..], 0).expect("a name of iSCSI");
        shown.push((name, tag));
        rest = &rest[24 + length..];
    }
    let expected = [(1, 1), (1, 2), (2, 1), (2, 2)].map(|(session, tag)| (port(session), tag));
    assert_eq!(shown, expected);
    // Once more it conflicts; its own are replaced where the keys do not matter.
    assert_eq!(volume.out_list(0, 0, &spec).status, CONFLICT);
    assert_eq!(volume.out_list(6, 0, &list(0, 6, 4)).status, GOOD);
    let keys: Vec<u64> = volume.state.registrants.iter().map(|known| known.key).collect();
    assert_eq!(keys, [6, 6, 5, 5]);
    // One of the named is registered: none is.
    assert_eq!(volume.out(6, 0, 0, 0).status, GOOD);
    let before = volume.state.clone();
    assert_eq!(volume.out_list(0, 0, &spec).sense, Some(Sense::in_list(24, None)));
    assert_eq!(volume.state, before);
}

#[test]
fn the_reservation_is_handed_over() {
    let mut volume = Volume::new();
    let id = TransportId::Iscsi(port(2)).encode();
    let list = move_list(2, 2, &id);
    assert_eq!(volume.out_list(7, 0, &list).status, CONFLICT, "not registered");
    assert_eq!(volume.out(0, 0, 0, 7).status, GOOD);
    assert_eq!(
        volume.out_list(7, 0, &list).sense,
        Some(Sense::in_cdb(1, Some(4))),
        "nothing is held"
    );
    assert_eq!(volume.out(1, 3, 7, 0).status, GOOD);
    assert_eq!(volume.out_list(7, 0, &list).status, GOOD);
    assert!(volume.state.is_holder(port(2).key(2)));
    assert_eq!(volume.state.registrants.len(), 1, "UNREG");
    let data = volume.read(3);
    assert_eq!(data[8..16], 8_u64.to_be_bytes());
    assert_eq!(data[20..28], [1, 3, 0, 0, 0, 0, 0, 2]);
    assert_eq!(TransportId::parse(&data[32..], 0).expect("a name").0, port(2));
}

/// SPC-2 5.5.1: while one has reserved it by RESERVE, persistent reservations conflict, whoever asks; and the other way round.
#[test]
fn exclusive_and_persistent_reservations_exclude_each_other() {
    const RESERVE: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
    const RELEASE: [u8; 6] = [0x17, 0, 0, 0, 0, 0];
    let mut volume = Volume::new();
    let send = |volume: &mut Volume, cdb: &[u8]| {
        let plan = volume.host.send(0, cdb);
        volume.run(plan).status
    };
    assert_eq!(send(&mut volume, &RESERVE), GOOD);
    assert_eq!(volume.state.locked.map(|lock| lock.host), Some(port(1).key(1)));
    for action in [0, 1, 3] {
        assert_eq!(
            send(&mut volume, &[0x5e, action, 0, 0, 0, 0, 0, 1, 0, 0]),
            CONFLICT,
            "PR IN {action}"
        );
    }
    let known = std::sync::Arc::new(volume.state.clone());
    volume.host.catalog.reservations.insert(VolumeId(1), known);
    assert_eq!(
        send(&mut volume, &[0x5e, 2, 0, 0, 0, 0, 0, 1, 0, 0]),
        CONFLICT,
        "what it can"
    );
    for (key, new_key) in [(0, 5), (0, 0), (5, 0)] {
        assert_eq!(volume.out(0, 0, key, new_key).status, CONFLICT);
    }
    assert_eq!(volume.out(6, 0, 0, 5).status, CONFLICT);
    assert_eq!(send(&mut volume, &RELEASE), GOOD);
    assert!(volume.state.is_empty());
    // Of which the gateway has not heard.
    let capabilities = volume.read(2);
    volume.host.catalog.reservations.clear();
    assert_eq!(volume.read(2), capabilities);
    volume.state.locked = Some(Lock {
        host: HostKey(9),
        by: Connection::default(),
    });
    assert_eq!(send(&mut volume, &RESERVE), CONFLICT);
    assert_eq!(send(&mut volume, &RELEASE), GOOD, "it is no error");
    assert!(volume.state.locked.is_some());
    volume.state.locked = None;
    assert_eq!(volume.out(0, 0, 0, 5).status, GOOD);
    for cdb in [&RESERVE, &RELEASE] {
        assert_eq!(send(&mut volume, cdb), CONFLICT, "it is registered, and holds nothing");
    }
    assert_eq!(volume.out(1, 1, 5, 0).status, GOOD);
    for cdb in [&RESERVE, &RELEASE] {
        assert_eq!(send(&mut volume, cdb), GOOD);
    }
    assert!(volume.state.locked.is_none() && volume.state.is_holder(port(1).key(1)));
}

#[test]
fn refusals() {
    let status = |then, refusal| {
        let host = HostKey(1);
        reserved(&Reserving { host, then }, &Err(refusal))
    };
    assert_eq!(status(Then::Done, Refusal::Conflict).status, CONFLICT);
    assert_eq!(status(Then::Keys(8), Refusal::Unavailable).status, Status::Busy);
    assert_eq!(
        status(Then::Done, Refusal::Invalid).sense,
        Some(Sense::in_list(8, None))
    );
    assert_eq!(
        status(Then::Move, Refusal::Invalid).sense,
        Some(Sense::in_cdb(1, Some(4)))
    );
    assert_eq!(
        status(Then::Several, Refusal::Invalid).sense,
        Some(Sense::in_list(24, None))
    );
    let full = status(Then::Done, Refusal::Full).sense.expect("sense");
    assert_eq!(full.code, code::INSUFFICIENT_REGISTRATION_RESOURCES);
    assert_eq!(
        status(Then::Done, Refusal::Unknown).sense.expect("sense").key,
        Key::HardwareError
    );
}

#[test]
fn what_the_volume_cannot_is_not_offered() {
    let mut volume = Volume::new();
    volume.host.catalog.extended_reservations = false;
    assert_eq!(volume.read(2)[2], 0x01);
    for (flags, bit) in [(4, 2), (8, 3), (12, 3)] {
        let refused = volume.host.send_with(0, &out(0, 0, 24), &list(0, 5, flags));
        assert_eq!(sense(refused), Sense::in_list(20, Some(bit)));
    }
    assert_eq!(volume.host.sense(0, &[0x16, 0, 0, 0, 0, 0]).code, code::INVALID_OPCODE);
    assert_eq!(volume.host.sense(0, &out(7, 0, 24)), Sense::in_cdb(1, Some(4)));
    assert_eq!(volume.out(0, 0, 0, 0x11).status, GOOD);
}

#[test]
fn exclusive_reservations() {
    let mut host = Host::one();
    for (cdb, expected) in [
        (&[0x16, 0, 0, 0, 0, 0][..], Reservation::Lock),
        (&[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], Reservation::Lock),
        (&[0x17, 0, 0, 0, 0, 0][..], Reservation::Unlock),
        (&[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], Reservation::Unlock),
    ] {
        assert_eq!(asked(host.send(0, cdb)).0, expected);
    }
    assert_eq!(
        host.sense(0, &[0x16, 0x01, 0, 0, 0, 0]),
        Sense::in_cdb(1, Some(0)),
        "an extent"
    );
    assert_eq!(
        host.sense(0, &[0x56, 0x10, 0, 0, 0, 0, 0, 0, 0, 0]),
        Sense::in_cdb(1, Some(4)),
        "a third party"
    );
    host.change(|unit| unit.snapshot = SnapshotId(2));
    for cdb in [
        &[0x16, 0, 0, 0, 0, 0][..],
        &out(0, 0, 24)[..],
        &[0x5e, 0, 0, 0, 0, 0, 0, 1, 0, 0][..],
    ] {
        assert_eq!(host.sense(0, cdb).code, code::INVALID_OPCODE);
    }
}

#[test]
fn transport_ids() {
    let bytes = TransportId::Iscsi(port(7)).encode();
    assert_eq!(bytes[..4], [0x45, 0, 0, 40]);
    assert!(bytes[4..].starts_with(b"iqn.2026-01.test:host,i,0x400000000007\0"));
    assert_eq!(TransportId::parse(&bytes, 0), Ok((port(7), 44)));
    let spoilt = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        TransportId::parse(&bytes, 100).expect_err("it is wrong")
    };
    assert_eq!(spoilt(0, 0x05), Sense::in_list(100, None));
    assert_eq!(spoilt(3, 44), Sense::in_list(102, None), "longer than there is");
    assert_eq!(spoilt(3, 38), Sense::in_list(102, None), "no multiple of four");
    assert_eq!(spoilt(4 + 21, b';'), Sense::in_list(104, None), "no session");
    assert_eq!(spoilt(4 + 30, b'g'), Sense::in_list(104, None), "no digit");
    let shown = TransportId::Other([9; 16]).encode();
    assert_eq!((shown.len(), shown[0]), (24, 0x0f));
}

proptest! {
    #[test]
    fn any_list_is_a_command_or_is_refused(
        action in 0..8_u8, list in proptest::collection::vec(any::<u8>(), 24..200), flags in 0..16_u8,
    ) {
        let mut list = list;
        list[20] = flags;
        let mut host = Host::one();
        let plan = host.send_with(0, &out(action, 1, list.len() as u8), &list);
        if let Plan::Reserve { command: Reservation::RegisterAll { nexuses, .. }, .. } = plan {
            prop_assert!(nexuses.len() <= amita_frontend::reservation::MAX_REGISTRANTS);
        }
    }

    #[test]
    fn names_of_ports_survive_the_way(name in "iqn\\.[a-z0-9.:-]{1,200}", isid: [u8; 6]) {
        let port = InitiatorPort { name: name.as_str().into(), isid };
        let bytes = TransportId::Iscsi(port.clone()).encode();
        prop_assert!(bytes.len().is_multiple_of(4) && bytes.len() >= 24);
        prop_assert_eq!(TransportId::parse(&bytes, 0), Ok((port, bytes.len())));
    }

    #[test]
    fn hostile_names_of_ports_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = 0x45;
        }
        if let Ok((_, length)) = TransportId::parse(&bytes, 0) {
            prop_assert!(length <= bytes.len());
        }
    }
}

#[test]
fn a_list_that_is_too_short_for_its_command_is_refused() {
    let host = Host::one();
    let scope = Scope {
        catalog: &host.catalog,
        target: &host.target,
        unit: &host.target.units[0],
        lun: crate::Lun::of(0),
        cdb: crate::Cdb::new(&out(0, 0, 24)),
    };
    for length in 0..24 {
        let refused = change(&scope, &vec![0; length], &host.nexus).expect_err("too short");
        assert_eq!(refused.sense.expect("sense").code, code::PARAMETER_LIST_LENGTH);
    }
}
