//! What there is to discover.

use super::*;
use crate::TargetDetail;
use crate::negotiation::Wishes;

fn text_request(flags: u8, transfer: u32) -> Header {
    Header::new(0x40 | opcode::TEXT, flags)
        .with_task_tag(0x55)
        .with_target_tag(transfer)
}

pub(super) fn discovery(world: &mut World, initiator: &str, keys: &[(&str, &str)]) -> Host {
    let mut host = Host::open(world);
    let mut text = Text::new();
    text.push("InitiatorName", initiator);
    text.push("SessionType", "Discovery");
    keys.iter().for_each(|(key, value)| text.push(key, value));
    let header = host.login_header(1, 3, 1);
    host.send(world, &pdu(header, text.as_bytes(), (false, false)));
    let answer = host.output_of_login();
    assert_eq!((answer.header.0[36], answer.header.0[37]), (0, 0));
    host
}

/// Asks for targets, and for the rest as long as there is one.
pub(super) fn targets(world: &mut World, host: &mut Host, value: &str) -> (Vec<String>, usize) {
    let text = format!("SendTargets={value}\0");
    let header = text_request(0x80, NO_TAG).with_u32(24, host.cmd_sn);
    host.send(world, &pdu(header, text.as_bytes(), host.digests));
    let (mut found, mut pdus) = (Vec::new(), 0);
    loop {
        let answer = host.one();
        assert_eq!((answer.kind(), answer.header.task_tag()), (opcode::TEXT_RESPONSE, 0x55));
        found.extend(answer.data);
        pdus += 1;
        if answer.header.flags() & 0x80 != 0 {
            assert_eq!(answer.header.target_tag(), NO_TAG);
            break;
        }
        assert_eq!(answer.header.flags(), 0x40);
        let header = text_request(0x80, answer.header.target_tag()).with_u32(24, host.cmd_sn);
        host.send(world, &pdu(header, &[], host.digests));
    }
    let pairs = found.split(|byte| *byte == 0).filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| String::from_utf8(pair.to_vec()).expect("a text"));
    (pairs.collect(), pdus)
}

#[test]
fn all_portals_of_all_targets_that_one_may_use() {
    let mut world = World::new();
    let mut catalog = Catalog::clone(&world.port.catalog());
    // Which is told to who logs in, and not here: some know no other keys.
    let detail = TargetDetail {
        alias: "disks".into(),
        ..TargetDetail::default()
    };
    catalog.details.insert(TARGET.into(), detail);
    world.set(catalog);
    let mut host = discovery(&mut world, INITIATOR, &[]);
    assert!(host.front.is_stranger());
    let (pairs, _) = targets(&mut world, &mut host, "All");
    assert_eq!(
        pairs,
        [
            "TargetName=iqn.2026-01.test:disks",
            "TargetAddress=192.0.2.1:3260,3",
            "TargetAddress=[2001:db8::1]:3260,3",
        ]
    );
    assert_eq!(targets(&mut world, &mut host, TARGET).0, pairs);
    assert_eq!(targets(&mut world, &mut host, "iqn.2026-01.test:other").0, [""; 0]);
    for wrong in ["", "Alle", "A"] {
        let text = format!("SendTargets={wrong}\0");
        let header = text_request(0x80, NO_TAG).with_u32(24, host.cmd_sn);
        host.send(&mut world, &pdu(header, text.as_bytes(), host.digests));
        assert_eq!(host.one().kind(), opcode::REJECT, "{wrong}");
    }
    let mut stranger = discovery(&mut world, "iqn.2026-01.test:stranger", &[]);
    assert_eq!(targets(&mut world, &mut stranger, "All").0, [""; 0]);
    assert_eq!(targets(&mut world, &mut stranger, TARGET).0, [""; 0]);
}

#[test]
fn long_lists_go_out_in_parts() {
    let mut world = World::new();
    let mut catalog = Catalog::clone(&world.port.catalog());
    let mut scsi = amita_scsi::Catalog::clone(&catalog.scsi);
    let target = Target::clone(&scsi.targets[0]);
    scsi.targets = (0..100)
        .map(|number| {
            Arc::new(Target {
                name: format!("{TARGET}:{number:03}"),
                ..target.clone()
            })
        })
        .collect();
    catalog.scsi = Arc::new(scsi);
    world.set(catalog);
    let mut host = discovery(&mut world, INITIATOR, &[("MaxRecvDataSegmentLength", "512")]);
    let (pairs, pdus) = targets(&mut world, &mut host, "All");
    assert_eq!(pairs.len(), 300);
    assert!(pdus > 10);
    for (number, pair) in pairs.iter().step_by(3).enumerate() {
        assert_eq!(*pair, format!("TargetName={TARGET}:{number:03}"));
    }
}

/// All targets are looked through for each: of strangers only so often.
#[test]
fn one_session_discovers_only_so_often() {
    let mut world = World::new();
    let mut host = discovery(&mut world, INITIATOR, &[]);
    for _ in 0..64 {
        assert_eq!(targets(&mut world, &mut host, "All").0.len(), 3);
    }
    let header = text_request(0x80, NO_TAG).with_u32(24, host.cmd_sn);
    host.send(&mut world, &pdu(header, b"SendTargets=All\0", host.digests));
    let reject = host.one();
    assert_eq!((reject.kind(), reject.header.0[2]), (opcode::REJECT, 4));
    assert_eq!(targets(&mut world, &mut host, TARGET).0.len(), 3);
    let mut next = discovery(&mut world, INITIATOR, &[]);
    assert_eq!(targets(&mut world, &mut next, "All").0.len(), 3);
}

#[test]
fn nothing_else_is_done_there() {
    let mut world = World::new();
    let mut host = discovery(&mut world, INITIATOR, &[]);
    host.give(&mut world, command(0, 0x80, 0, TEST_UNIT_READY), &[]);
    let reject = host.one();
    assert_eq!((reject.kind(), reject.header.0[2]), (opcode::REJECT, 5));
    let bytes = host.data_out(1, NO_TAG, 0, 0, &[0; 512], true);
    host.send(&mut world, &bytes);
    assert_eq!(host.one().header.0[2], 5);
    let header = Header::new(0x40 | opcode::LOGOUT, 0x80).with_task_tag(9);
    host.send(&mut world, &pdu(header, &[], host.digests));
    let answer = host.one();
    assert_eq!((answer.kind(), answer.header.0[2]), (opcode::LOGOUT_RESPONSE, 0));
    assert_eq!(host.closed, Some(CloseReason::Goodbye));
}

#[test]
fn a_normal_session_is_told_of_its_own_target() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let (pairs, _) = targets(&mut world, &mut host, "");
    assert_eq!(pairs.len(), 3);
    assert_eq!(targets(&mut world, &mut host, TARGET).0, pairs);
    assert_eq!(targets(&mut world, &mut host, "All").0, pairs);
    assert_eq!(targets(&mut world, &mut host, "iqn.2026-01.test:other").0, [""; 0]);
}

#[test]
fn what_may_be_agreed_on_anew() {
    let mut world = World::with(Config {
        wishes: Wishes::default(),
        ..Config::default()
    });
    let mut host = Host::session(&mut world);
    let text = b"MaxRecvDataSegmentLength=512\0MaxBurstLength=512\0X-com.example=1\0";
    let header = text_request(0x80, NO_TAG).with_u32(24, host.cmd_sn);
    host.send(&mut world, &pdu(header, text, host.digests));
    let answer = host.one();
    assert_eq!(answer.data, b"MaxBurstLength=Reject\0X-com.example=NotUnderstood\0");
    host.give(&mut world, read(1, 0, 1), &[]);
    assert_eq!(host.pdus().len(), 8);
}

#[test]
fn a_text_that_makes_no_sense() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let reject = |host: &mut Host, world: &mut World, header: Header, data: &[u8]| {
        host.send(world, &pdu(header.with_u32(24, host.cmd_sn), data, host.digests));
        let answer = host.one();
        assert_eq!((answer.kind(), answer.header.0[2]), (opcode::REJECT, 4));
    };
    reject(&mut host, &mut world, text_request(0xc0, NO_TAG), b"A=b\0");
    reject(&mut host, &mut world, text_request(0x80, 77), b"");
    reject(&mut host, &mut world, text_request(0x80, NO_TAG), b"no pair\0");
    reject(
        &mut host,
        &mut world,
        text_request(0x80, NO_TAG),
        b"SendTargetsPlease=All\0",
    );
    // In parts, but without an end.
    for _ in 0..64 {
        let header = text_request(0x40, NO_TAG).with_u32(24, host.cmd_sn);
        host.send(&mut world, &pdu(header, &[b'a'; 8192], host.digests));
        assert_eq!(host.one().kind(), opcode::TEXT_RESPONSE, "each begins anew");
    }
    assert_eq!(
        host.run(&mut world, command(0, 0x80, 0, TEST_UNIT_READY), &[]).told(),
        GOOD
    );
}
