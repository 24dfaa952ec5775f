use crate::command::Lun;
use crate::nexus::{Happening, Nexus};
use crate::opcodes::COMMANDS;
use crate::plan::{Answer, Plan, failed};
use crate::sense::{Key, Sense, Status, code};
use crate::testing::{Host, answer, catalog, port, sense, sixteen, target, ten, unit};
use crate::unit::Alua;
use amita_frontend::HostKey;
use amita_frontend::reservation::{Access, Command, Kind, State};
use amita_types::io::IoError;
use amita_types::{SnapshotId, VolumeId};
use proptest::prelude::*;
use std::sync::Arc;

const READY: [u8; 6] = [0; 6];

#[test]
fn a_unit_attention_comes_before_all_but_the_three() {
    let mut host = Host {
        catalog: catalog(),
        target: target(vec![unit(0)]),
        nexus: Nexus::new(port(1), 1),
    };
    assert_eq!(host.data(0, &[0x12, 0, 0, 0, 36, 0]).len(), 36);
    assert!(host.data(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0]).len() == 16);
    let attention = Sense::new(Key::UnitAttention, code::POWER_ON_OR_RESET);
    // Even before the operation code is looked at.
    assert_eq!(host.sense(0, &[0xff; 16]), attention);
    assert_eq!(answer(host.send(0, &READY)), Answer::good());
    // REQUEST SENSE takes it as its data.
    host.nexus.happened(None, Happening::Reset);
    let data = host.data(0, &[0x03, 0, 0, 0, 252, 0]);
    assert_eq!((data.len(), data[2], data[12], data[13]), (18, 6, 0x29, 3));
    let data = host.data(0, &[0x03, 1, 0, 0, 252, 0]);
    assert_eq!(data, [0x72, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(answer(host.send(0, &READY)), Answer::good());
}

#[test]
fn a_list_of_units_makes_the_news_of_it_old() {
    let mut host = Host::one();
    host.target.units.push(Arc::new(unit(1)));
    host.catalog.revision += 1;
    host.data(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(answer(host.send(0, &READY)), Answer::good());
    assert_eq!(host.sense(1, &READY).code, code::POWER_ON_OR_RESET);
}

#[test]
fn the_well_known_unit() {
    let mut host = Host::new(vec![unit(3)]);
    let mut send = |cdb: &[u8]| {
        let task = crate::Task {
            lun: Lun::REPORT_LUNS,
            cdb,
            attribute: crate::Attribute::Simple,
            expected: crate::Lengths { out: 0, into: u64::MAX },
        };
        answer(crate::plan::plan(&task, &host.catalog, &host.target, &mut host.nexus))
    };
    assert_eq!(send(&[0x12, 0, 0, 0, 36, 0]).data[0], 0x1e);
    assert_eq!(send(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]).data[9], 3);
    assert_eq!(send(&READY), Answer::good());
    assert_eq!(send(&[0x03, 0, 0, 0, 18, 0]).data[2], 0);
    let read = send(&ten(0x28, 0, 0, 1)).sense;
    assert_eq!(read, Some(Sense::new(Key::IllegalRequest, code::INVALID_OPCODE)));
}

#[test]
fn states_of_the_gateway() {
    let mut host = Host::one();
    host.change(|unit| unit.access[0].1 = Alua::Transitioning);
    assert_eq!(host.sense(0, &READY).code, code::ASYMMETRIC_ACCESS_CHANGED);
    assert_eq!(
        host.sense(0, &READY),
        Sense::new(Key::NotReady, code::ASYMMETRIC_ACCESS_TRANSITION)
    );
    assert!(!host.data(0, &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]).is_empty());
    // A gateway that does not serve the unit at all.
    let mut host = Host::one();
    host.nexus = Nexus::new(port(1), 9);
    host.settle();
    assert_eq!(host.sense(0, &ten(0x28, 0, 0, 1)).code, code::TARGET_PORT_UNAVAILABLE);
}

/// What another host has reserved, in such a way.
fn reserve(host: &mut Host, kind: Kind) {
    let mut state = State::default();
    let (other, key) = (HostKey(9), 1);
    let register = Command::Register {
        host_id: [9; 16],
        key,
        ignore_key: false,
        persist: None,
    };
    state.apply(other, &register).expect("registered");
    state.apply(other, &Command::Acquire { key, kind }).expect("reserved");
    host.catalog.reservations.insert(VolumeId(1), Arc::new(state));
    host.catalog.revision += 1;
}

/// Whether the host is answered at once, or the owner is to be asked first: then, as what access.
fn is_asked(plan: Plan) -> Option<Access> {
    match plan {
        Plan::Ask(asking) => {
            let refused = failed(&asking.place, IoError::Reserved, None);
            assert_eq!(refused, Answer::of(Status::ReservationConflict));
            Some(asking.access)
        }
        other => {
            assert_eq!(answer(other).status, Status::Good);
            None
        }
    }
}

#[test]
fn of_what_does_no_io_an_owner_is_asked_where_others_have_reserved() {
    // SPC-4, table 65: what tells of the unit, and what changes it.
    let tells = [
        &[0x1a, 0, 0x3f, 0, 252, 0][..],
        &[0x5a, 0, 0x3f, 0, 0, 0, 0, 1, 0, 0][..],
        &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0][..],
        &[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0][..],
        &[0x34, 0, 0, 0, 0, 0, 0, 0, 8, 0][..],
    ];
    let changes = [
        (&[0x15, 0x10, 0, 0, 12, 0][..], 12),
        (&[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 44, 0, 0][..], 44),
        (&[0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0][..], 8),
        // Without a list, and with an error in its block.
        (&[0x15, 0x10, 0, 0, 0, 0][..], 0),
        (&[0x15, 0x01, 0, 0, 12, 0][..], 0),
    ];
    let open = [
        &READY[..],
        &[0x12, 1, 0x83, 0, 252, 0][..],
        &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[0x84, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0][..],
        &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0][..],
    ];
    for kind in Kind::ALL {
        let mut host = Host::one();
        reserve(&mut host, kind);
        for cdb in tells {
            let expected = (!kind.is_open_for_reading()).then_some(Access::Read);
            assert_eq!(is_asked(host.send(0, cdb)), expected, "{kind:?} {cdb:02x?}");
        }
        for (cdb, bytes) in changes {
            let plan = host.send_with(0, cdb, &vec![0; bytes]);
            assert_eq!(is_asked(plan), Some(Access::Write), "{kind:?} {cdb:02x?}");
        }
        for cdb in open {
            assert_eq!(answer(host.send(0, cdb)).status, Status::Good, "{kind:?} {cdb:02x?}");
        }
        // The I/O itself is held against it by the owner.
        assert!(matches!(host.send(0, &ten(0x2a, 0, 0, 1)), Plan::Io(_)));
        // What is reserved is not its snapshots.
        host.change(|unit| unit.snapshot = SnapshotId(4));
        assert!(!host.data(0, &[0x1a, 0, 0x3f, 0, 252, 0]).is_empty());
    }
}

/// What an owner has let pass is as if nothing were reserved; and it is the logical unit of which it was asked.
#[test]
fn what_an_owner_lets_pass_is_carried_out() {
    let mut host = Host::one();
    let sense = [0x1a, 0, 0x3f, 0, 252, 0];
    let expected = host.data(0, &sense);
    let list = [0; 4];
    reserve(&mut host, Kind::ExclusiveAccessRegistrants);
    let mut ask = |cdb: &[u8], list: &[u8]| match host.send_with(0, cdb, list) {
        Plan::Ask(asking) => asking,
        other => panic!("nobody is asked: {other:?}"),
    };
    let (sense, select) = (ask(&sense, &[]), ask(&[0x15, 0x10, 0, 0, 4, 0], &list));
    let wrong = ask(&[0x15, 0x10, 0, 0, 3, 0], &list[..3]);
    assert_eq!(answer(host.pass(&sense)).data, expected);
    assert_eq!(answer(host.pass(&select)), Answer::good());
    assert_eq!(
        answer(host.pass(&wrong)),
        Sense::new(Key::IllegalRequest, code::PARAMETER_LIST_LENGTH).into()
    );
    // It has moved to another pool, and is the same disk.
    host.change(|unit| unit.volume = VolumeId(7));
    assert_eq!(answer(host.pass(&sense)).data, expected);
    // And that is another one.
    host.change(|unit| unit.uuid[0] ^= 1);
    assert_eq!(answer(host.pass(&sense)), Answer::of(Status::Busy));
    host.target.units.clear();
    assert_eq!(
        answer(host.pass(&sense)),
        Sense::new(Key::IllegalRequest, code::UNIT_NOT_SUPPORTED).into()
    );
}

#[test]
fn what_is_taken_is_told_before() {
    let mut host = Host::one();
    for (cdb, bytes) in [
        (&ten(0x2a, 0, 0, 2)[..], 1024),
        (&ten(0x2f, 2, 0, 2)[..], 1024),
        (&ten(0x42, 0, 0, 24)[..], 24),
        (&[0x15, 0x10, 0, 0, 12, 0][..], 12),
    ] {
        let plan = host.send_expecting(0, cdb, bytes);
        assert_eq!((plan.lengths().out, plan.lengths().into), (bytes, 0), "{cdb:02x?}");
        // The transport tells what it has too little or too much of: it alone knows the residual.
        for expected in [0, bytes - 1, bytes + 1] {
            assert_eq!(host.send_expecting(0, cdb, expected), plan);
        }
    }
    let mut compare = sixteen(0x89, 0, 0, 0);
    compare[13] = 1;
    assert_eq!(host.send_expecting(0, &compare, 1024).lengths().out, 1024);
    let refused = Sense::new(Key::IllegalRequest, code::INVALID_FIELD_IN_INFORMATION_UNIT);
    for bytes in [1025, 2048] {
        assert_eq!(sense(host.send_expecting(0, &compare, bytes)), refused, "halves of one");
    }
    compare[13] = 0;
    assert_eq!(host.send_expecting(0, &compare, 0).lengths().out, 0);
    assert_eq!(
        sense(host.send_expecting(0, &compare, 1024)),
        Sense::in_cdb(13, None),
        "data for no blocks"
    );
    assert_eq!(host.send_expecting(0, &ten(0x41, 0, 0, 2), 512).lengths().out, 512);
    assert_eq!(
        sense(host.send_expecting(0, &ten(0x41, 0, 0, 2), 1024)),
        refused,
        "two blocks"
    );
}

#[test]
fn a_unit_that_goes_while_its_list_comes() {
    let mut host = Host::one();
    let Plan::Gather { then, .. } = host.send(0, &ten(0x42, 0, 0, 24)) else {
        panic!("a list is taken");
    };
    host.target.units.clear();
    let plan = crate::plan::gathered(&then, &[0; 24], &host.catalog, &host.target, &mut host.nexus);
    assert_eq!(sense(plan).code, code::UNIT_NOT_SUPPORTED);
}

fn any_command() -> impl Strategy<Value = Vec<u8>> {
    let known = (0..COMMANDS.len(), proptest::collection::vec(any::<u8>(), 16)).prop_map(|(index, mut bytes)| {
        let known = &COMMANDS[index];
        // Nearly right: most of the reserved bits are 0.
        for (byte, meant) in bytes.iter_mut().zip(known.usage) {
            *byte &= meant;
        }
        bytes[0] = known.opcode;
        if let Some(action) = known.action {
            bytes[1] = bytes[1] & 0xe0 | action;
        }
        bytes
    });
    prop_oneof![known, proptest::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn whatever_a_host_sends_it_is_answered_within_bounds(
        commands in proptest::collection::vec((any_command(), 0..3_u16), 1..8),
        lists in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        let mut host = Host::new(vec![unit(0), unit(1)]);
        for (cdb, lun) in commands {
            // Those that take just so much.
            let expected = match cdb.first() {
                Some(0x41 | 0x93) => 512,
                Some(0x89) => 2 * 512 * u64::from(cdb.get(13).copied().unwrap_or(0)),
                _ => u64::MAX,
            };
            let plan = match host.send_expecting(lun, &cdb, expected) {
                Plan::Gather { bytes, then } => {
                    let mut list = lists.clone();
                    list.resize(bytes as usize, 0);
                    crate::plan::gathered(&then, &list, &host.catalog, &host.target, &mut host.nexus)
                }
                plan => plan,
            };
            prop_assert!(!matches!(plan, Plan::Gather { .. }), "one list is all that a command has");
            let lengths = plan.lengths();
            prop_assert!(lengths.out <= 2 * crate::plan::MAX_TRANSFER_BLOCKS * 4096);
            prop_assert!(lengths.into <= crate::plan::MAX_TRANSFER_BLOCKS * 4096);
            if let Plan::Answer(answer) = &plan {
                prop_assert_eq!(answer.sense.is_some(), answer.status == Status::CheckCondition);
                prop_assert!(answer.status == Status::Good || answer.data.is_empty());
            }
            if let Plan::Io(io) = &plan {
                check_inside(io)?;
            }
        }
    }
}

/// All of it lies in the unit.
fn check_inside(io: &crate::Io) -> Result<(), TestCaseError> {
    use crate::plan::Work;
    let extents = match &io.work {
        Work::Read(extent)
        | Work::Write(extent)
        | Work::WriteAtomic { extent, .. }
        | Work::WriteAndCheck(extent, _)
        | Work::Check(extent, _)
        | Work::CompareAndWrite(extent)
        | Work::Or(extent)
        | Work::Fill(extent, _) => vec![*extent],
        Work::Zero(extents) => extents.clone(),
        Work::Touch => Vec::new(),
    };
    for extent in extents {
        prop_assert!(extent.end() <= crate::testing::SIZE_BYTES);
        prop_assert!(extent.offset.is_multiple_of(512) && extent.length.is_multiple_of(512));
    }
    Ok(())
}
