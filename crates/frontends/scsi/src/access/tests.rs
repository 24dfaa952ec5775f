use super::*;
use crate::testing::{Host, answer, sense};
use amita_types::{SnapshotId, VolumeId};

const REPORT: [u8; 12] = [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];

#[test]
fn groups_with_their_states_and_ports() {
    let mut host = Host::one();
    let expected = [
        [0x80, 0x8b, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1],
        [0x01, 0x8b, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2],
    ];
    assert_eq!(host.data(0, &REPORT), [&[0, 0, 0, 24][..], &expected.concat()].concat());
    let mut extended = REPORT;
    extended[1] = 0x2a;
    let data = host.data(0, &extended);
    assert_eq!(data[..8], [0, 0, 0, 28, 0x10, 60, 0, 0]);
    assert_eq!(data[8..], expected.concat());
    extended[1] = 0x4a;
    assert_eq!(host.sense(0, &extended), Sense::in_cdb(1, Some(7)));
    host.change(|unit| {
        unit.access = vec![(2, Alua::Optimized)];
        unit.preferred = Some(2);
    });
    host.settle();
    let states: Vec<u8> = host.data(0, &REPORT)[4..].iter().step_by(12).copied().collect();
    // The gateway where it asks is told as gone, and tells it itself.
    assert_eq!(states, [0x03, 0x80]);
}

fn set(host: &mut Host, groups: &[(u8, u16)]) -> Plan {
    let mut list = vec![0; 4];
    for (state, tag) in groups {
        list.extend([*state, 0]);
        list.extend(tag.to_be_bytes());
    }
    let length = list.len() as u8;
    host.send_with(0, &[0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, length, 0, 0], &list)
}

#[test]
fn a_wish_for_another_gateway_moves_the_volume() {
    let mut host = Host::one();
    let moved = Plan::Move {
        volume: VolumeId(1),
        group: 2,
    };
    assert_eq!(set(&mut host, &[(0, 2)]), moved);
    assert_eq!(set(&mut host, &[(1, 1), (0, 2)]), moved);
    assert_eq!(answer(set(&mut host, &[(0, 1), (1, 2)])), Answer::good(), "as it is");
    assert_eq!(answer(set(&mut host, &[(1, 2)])), Answer::good());
    assert_eq!(answer(set(&mut host, &[])), Answer::good());
}

#[test]
fn wishes_that_cannot_be_had() {
    let mut host = Host::one();
    let failed = Sense::new(Key::HardwareError, code::SET_TARGET_PORT_GROUPS_FAILED);
    assert_eq!(sense(set(&mut host, &[(0, 1), (0, 2)])), failed, "two owners");
    assert_eq!(sense(set(&mut host, &[(1, 1)])), failed, "no owner");
    assert_eq!(
        sense(set(&mut host, &[(0, 3)])),
        Sense::in_list(6, None),
        "no such group"
    );
    assert_eq!(
        sense(set(&mut host, &[(0, 2), (1, 2)])),
        Sense::in_list(10, None),
        "twice"
    );
    assert_eq!(sense(set(&mut host, &[(2, 2)])), Sense::in_list(4, Some(3)), "standby");
    assert_eq!(sense(set(&mut host, &[(0xf, 2)])), Sense::in_list(4, Some(3)));
    let cut = host.send_with(0, &[0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0], &[0; 7]);
    assert_eq!(sense(cut).code, code::PARAMETER_LIST_LENGTH);
    // SPC-4, "SET TARGET PORT GROUPS command": a list that is not empty has its four reserved bytes at least.
    let cut = host.send_with(0, &[0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0], &[0; 3]);
    assert_eq!(sense(cut).code, code::PARAMETER_LIST_LENGTH);
    let nothing = host.send(0, &[0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(answer(nothing), Answer::good());
    host.target.explicit_access = false;
    assert_eq!(sense(set(&mut host, &[(0, 2)])).code, code::INVALID_OPCODE);
}

#[test]
fn a_snapshot_moves_nothing() {
    let mut host = Host::one();
    host.change(|unit| unit.snapshot = SnapshotId(2));
    host.settle();
    let failed = Sense::new(Key::HardwareError, code::SET_TARGET_PORT_GROUPS_FAILED);
    assert_eq!(sense(set(&mut host, &[(0, 2)])), failed);
    assert_eq!(answer(set(&mut host, &[(0, 1)])), Answer::good(), "as it is");
}

#[test]
fn whether_somebody_sees_to_it() {
    assert_eq!(moved(true), Answer::good());
    let failed = Sense::new(Key::HardwareError, code::SET_TARGET_PORT_GROUPS_FAILED);
    assert_eq!(moved(false), Answer::check(failed));
}
