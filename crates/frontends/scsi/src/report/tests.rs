use crate::nexus::ALL_FUNCTIONS;
use crate::opcodes::COMMANDS;
use crate::sense::{Sense, code};
use crate::testing::{Host, sense, unit};
use crate::unit::Access;
use std::sync::Arc;

fn luns(host: &mut Host, lun: u16, select: u8) -> Vec<u8> {
    host.data(lun, &[0xa0, 0, select, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0])
}

#[test]
fn the_list_of_units() {
    let mut host = Host::new(vec![unit(0), unit(5), unit(300)]);
    let data = luns(&mut host, 0, 0);
    assert_eq!(data[..8], [0, 0, 0, 24, 0, 0, 0, 0]);
    assert_eq!(data[8..16], [0; 8]);
    assert_eq!(data[16..24], [0, 5, 0, 0, 0, 0, 0, 0]);
    assert_eq!(data[24..], [0x41, 0x2c, 0, 0, 0, 0, 0, 0]);
    assert_eq!(luns(&mut host, 0, 1)[8..], [0xc1, 0x01, 0, 0, 0, 0, 0, 0]);
    assert_eq!(luns(&mut host, 0, 2).len(), 8 + 4 * 8);
    assert_eq!(
        host.sense(0, &[0xa0, 0, 3, 0, 0, 0, 0, 0, 0, 16, 0, 0]),
        Sense::in_cdb(2, None)
    );
}

#[test]
fn a_target_without_a_unit_0_still_has_a_list() {
    let mut host = Host::new(vec![unit(5)]);
    assert_eq!(luns(&mut host, 0, 0)[8..], [0, 5, 0, 0, 0, 0, 0, 0]);
    assert_eq!(sense(host.send(7, &[0xa0; 12])).code, code::UNIT_NOT_SUPPORTED);
}

#[test]
fn the_list_has_what_the_initiator_may_see() {
    let mut host = Host::new(vec![unit(0), unit(5)]);
    host.target.initiators = vec![Arc::new(Access {
        name: "iqn.2026-01.test:host".to_owned(),
        mask: Some(vec![5]),
    })];
    assert_eq!(luns(&mut host, 0, 0)[8..], [0, 5, 0, 0, 0, 0, 0, 0]);
    assert_eq!(host.sense(0, &[0; 6]).code, code::UNIT_NOT_SUPPORTED);
}

#[test]
fn capacities() {
    let mut host = Host::one();
    // 64 MiB: 131,072 blocks of 512 bytes.
    assert_eq!(
        host.data(0, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        [0, 1, 0xff, 0xff, 0, 0, 2, 0]
    );
    assert_eq!(
        host.sense(0, &[0x25, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
        Sense::in_cdb(2, None)
    );
    let long = [0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
    let data = host.data(0, &long);
    assert_eq!(data[..16], [0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 2, 0, 0, 3, 0xc0, 0]);
    assert_eq!(data[16..], [0; 16]);
    host.change(|unit| {
        unit.block_bytes = 4096;
        unit.size_bytes = 1 << 45;
    });
    host.settle();
    assert_eq!(host.data(0, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0])[..4], [0xff; 4]);
    let data = host.data(0, &long);
    assert_eq!(data[..14], [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0x10, 0, 0, 0]);
}

fn codes(host: &mut Host, options: u8, opcode: u8, action: u16) -> Vec<u8> {
    let [high, low] = action.to_be_bytes();
    host.data(0, &[0xa3, 0x0c, options, opcode, high, low, 0, 0, 0xff, 0xff, 0, 0])
}

#[test]
fn all_commands_are_told() {
    let mut host = Host::one();
    let data = codes(&mut host, 0, 0, 0);
    assert_eq!(data.len(), 4 + 8 * COMMANDS.len());
    assert_eq!(
        u32::from_be_bytes([data[0], data[1], data[2], data[3]]) as usize,
        data.len() - 4
    );
    assert_eq!(data[4..12], [0, 0, 0, 0, 0, 0, 0, 6], "TEST UNIT READY");
    let groups = data[4..].chunks(8).find(|command| command[0] == 0xa3);
    assert_eq!(groups, Some(&[0xa3, 0, 0, 0x0a, 0, 1, 0, 12][..]));
    let timed = codes(&mut host, 0x80, 0, 0);
    assert_eq!(timed.len(), 4 + 20 * COMMANDS.len());
    assert_eq!(timed[4..14], [0, 0, 0, 0, 0, 2, 0, 6, 0, 10]);
    host.catalog.tokens = None;
    host.catalog.extended_reservations = false;
    host.target.explicit_access = false;
    assert_eq!(codes(&mut host, 0, 0, 0).len(), 4 + 8 * (COMMANDS.len() - 9));
}

#[test]
fn one_command_is_told() {
    let mut host = Host::one();
    assert_eq!(codes(&mut host, 1, 0x12, 0), [0, 3, 0, 6, 0x12, 1, 0xff, 0xff, 0xff, 0]);
    assert_eq!(codes(&mut host, 1, 0x04, 0), [0, 1, 0, 0], "no FORMAT UNIT");
    assert_eq!(codes(&mut host, 2, 0x9e, 0x12)[..6], [0, 3, 0, 16, 0x9e, 0x12]);
    assert_eq!(codes(&mut host, 2, 0x9e, 0x13), [0, 1, 0, 0]);
    assert_eq!(codes(&mut host, 3, 0x28, 0)[..4], [0, 3, 0, 10]);
    assert_eq!(codes(&mut host, 3, 0x28, 1), [0, 1, 0, 0]);
    assert_eq!(codes(&mut host, 3, 0x5e, 3)[..4], [0, 3, 0, 10]);
    let timed = codes(&mut host, 0x81, 0x12, 0);
    assert_eq!((timed[1], timed.len()), (0x83, 4 + 6 + 12));
    for (options, opcode) in [(1, 0x5e), (2, 0x28), (4, 0x28), (7, 0)] {
        let cdb = [0xa3, 0x0c, options, opcode, 0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(host.sense(0, &cdb), Sense::in_cdb(2, Some(2)), "{options} {opcode:#x}");
    }
}

#[test]
fn functions() {
    let mut host = Host::one();
    let cdb = |long: u8| [0xa3, 0x0d, long, 0, 0, 0, 0, 0, 0, 16, 0, 0];
    assert_eq!(host.data(0, &cdb(0)), [0xd8, 0, 0, 0]);
    host.nexus.functions = ALL_FUNCTIONS;
    assert_eq!(host.data(0, &cdb(0x80))[..4], [0xdc, 7, 0, 12]);
    assert_eq!(host.data(0, &cdb(0x80)).len(), 16);
}
