use super::*;
use crate::testing::{Host, UUID};

fn page(host: &mut Host, code: u8) -> Vec<u8> {
    let data = host.data(0, &[0x12, 1, code, 0xff, 0xff, 0]);
    assert_eq!(data[..2], [0, code]);
    let length = usize::from(u16::from_be_bytes([data[2], data[3]]));
    assert_eq!(length, data.len() - 4, "page {code:02x}");
    data
}

fn number(data: &[u8], at: usize) -> u32 {
    crate::block::be_u32(&data[at..])
}

#[test]
fn every_page_that_is_told_is_there() {
    let mut host = Host::one();
    let pages = page(&mut host, 0x00)[4..].to_vec();
    assert_eq!(pages, [0x00, 0x80, 0x83, 0x86, 0x87, 0x8f, 0xb0, 0xb1, 0xb2]);
    for code in 0..=0xff {
        match pages.contains(&code) {
            true => assert!(page(&mut host, code).len() > 4),
            false => assert_eq!(host.sense(0, &[0x12, 1, code, 0, 252, 0]), Sense::in_cdb(2, None)),
        }
    }
    host.catalog.tokens = None;
    assert!(!page(&mut host, 0x00)[4..].contains(&0x8f));
    assert_eq!(host.sense(0, &[0x12, 1, 0x8f, 0, 252, 0]), Sense::in_cdb(2, None));
}

/// The designators of the page: protocol and code set, flags and type, the name.
fn designators(data: &[u8]) -> Vec<(u8, u8, Vec<u8>)> {
    let (mut found, mut at) = (Vec::new(), 4);
    while at < data.len() {
        let length = usize::from(data[at + 3]);
        found.push((data[at], data[at + 1], data[at + 4..at + 4 + length].to_vec()));
        at += 4 + length;
    }
    assert_eq!(at, data.len());
    found
}

#[test]
fn names_of_the_unit_the_port_and_the_target() {
    let mut host = Host::one();
    let found = designators(&page(&mut host, 0x83));
    let [naa, name, vendor, uuid, relative, group, port, target] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((naa.0, naa.1, naa.2.len()), (1, 3, 16));
    assert_eq!(naa.2[0] >> 4, 6, "NAA 6h");
    let text = format!(
        "naa.{:032X}",
        u128::from_be_bytes(naa.2[..].try_into().expect("16 bytes"))
    );
    assert_eq!((name.0, name.1), (3, 8));
    assert_eq!(
        name.2.strip_prefix(text.as_bytes()),
        Some(&[0; 4][..]),
        "ends with zeros"
    );
    assert_eq!((vendor.0, vendor.1), (2, 1));
    assert_eq!(vendor.2, b"AMITA   0123456789abcdef1032547698badcfe");
    assert_eq!((uuid.0, uuid.1), (1, 0x0a));
    assert_eq!(uuid.2, [&[0x10, 0][..], &UUID].concat());
    // Of iSCSI, with PIV and the association.
    assert_eq!(*relative, (0x51, 0x94, vec![0, 0, 0, 1]));
    assert_eq!(*group, (0x51, 0x95, vec![0, 0, 0, 1]));
    assert_eq!((port.0, port.1), (0x53, 0x98));
    assert!(port.2.starts_with(b"iqn.2026-01.test:target,t,0x0001\0"));
    assert_eq!((target.0, target.1), (0x53, 0xa8));
    assert!(target.2.starts_with(b"iqn.2026-01.test:target\0"));
    for padded in [&name.2, &port.2, &target.2] {
        assert!(padded.len().is_multiple_of(4) && padded.ends_with(&[0]));
    }
}

#[test]
fn names_are_those_of_the_unit_at_every_gateway_and_of_no_other() {
    let mut host = Host::new(vec![crate::testing::unit(0), crate::testing::unit(1)]);
    let here = designators(&page(&mut host, 0x83));
    let mut there = Host::one();
    there.nexus = Nexus::new(crate::testing::port(1), 2);
    let there = designators(&page(&mut there, 0x83));
    assert_eq!(here[..4], there[..4]);
    assert_ne!(here[4], there[4], "another port");
    let other = host.data(1, &[0x12, 1, 0x83, 0xff, 0xff, 0]);
    for (name, other) in here[..4].iter().zip(designators(&other)) {
        assert_ne!(*name, other);
    }
    let unit = &host.target.units[0];
    let (set, kind, name) = (here[0].0, here[0].1, &here[0].2);
    assert!(is_of_unit(unit, set, kind, name) && !is_of_unit(&host.target.units[1], set, kind, name));
    assert!(!is_of_unit(unit, set, kind, &name[..8]) && !is_of_unit(unit, 2, kind, name));
    for (set, kind, name) in designator::names(unit) {
        assert!(is_of_unit(unit, set, kind, &name) && !is_of_unit(&host.target.units[1], set, kind, &name));
        let mut other = name.clone();
        other[name.len() - 2] ^= 1;
        let is_text = set != 1;
        assert!(!is_of_unit(unit, set, kind, &other) && !is_of_unit(unit, set ^ 1, kind, &name));
        assert_eq!(
            is_text,
            name.len() == 40,
            "what is looked for is as long as what is told"
        );
    }
}

#[test]
fn limits_of_blocks_of_512_bytes() {
    let data = page(&mut Host::one(), 0xb0);
    assert_eq!(data.len(), 64);
    assert_eq!((data[4], data[5]), (1, 128), "WSNZ; 64 KiB are compared and written");
    assert_eq!(data[6..8], [0, 8]);
    let numbers: Vec<u32> = (8..36).step_by(4).map(|at| number(&data, at)).collect();
    assert_eq!(numbers, [65536, 256, 0, u32::MAX, 256, 8, 1 << 31]);
    assert_eq!(data[36..44], [0; 8], "WRITE SAME is not limited");
    let atomic: Vec<u32> = (44..64).step_by(4).map(|at| number(&data, at)).collect();
    assert_eq!(atomic, [32, 32, 32, 256, 256]);
}

#[test]
fn limits_of_blocks_of_4096_bytes() {
    let mut host = Host::one();
    host.change(|unit| unit.block_bytes = 4096);
    host.settle();
    let data = page(&mut host, 0xb0);
    assert_eq!((data[5], number(&data, 8), number(&data, 28)), (16, 65536, 1));
    assert_eq!((number(&data, 44), number(&data, 52), number(&data, 56)), (4, 4, 32));
}

#[test]
fn what_it_is_made_of() {
    let mut host = Host::one();
    let extended = page(&mut host, 0x86);
    assert_eq!((extended.len(), extended[5], extended[7], extended[13]), (64, 7, 1, 40));
    assert_eq!(page(&mut host, 0x87)[4..], [0x1c, 2, 0, 0, 0x3f, 0xff, 3, 0]);
    let characteristics = page(&mut host, 0xb1);
    assert_eq!(
        (characteristics.len(), &characteristics[4..6], characteristics[8]),
        (64, &[0, 1][..], 1)
    );
    assert_eq!(page(&mut host, 0xb2)[4..], [0, 0xe4, 2, 0]);
    assert_eq!(page(&mut host, 0x80)[4..], *b"0123456789abcdef1032547698badcfe");
    host.change(|unit| {
        unit.space = Some(crate::unit::Space {
            used_bytes: 1,
            total_bytes: 100,
            warning_percent: 80,
        });
    });
    // A threshold set is 1 GiB: 2^21 blocks.
    assert_eq!(page(&mut host, 0xb2)[4..], [21, 0xe4, 2, 0]);
}
