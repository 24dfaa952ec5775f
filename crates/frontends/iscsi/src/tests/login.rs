//! Logins over a connection.

use super::*;
use crate::chap::Algorithm;
use crate::negotiation::{Digests, Wishes};
use crate::text::{decode_binary, encode_hex, find};

fn status(pdu: &Pdu) -> (u8, u8) {
    (pdu.header.0[36], pdu.header.0[37])
}

#[test]
fn a_session_begins() {
    let mut world = World::new();
    let mut host = Host::open(&mut world);
    assert!(host.front.is_stranger());
    let answer = host.login_with(&mut world, INITIATOR, 1, &[("InitialR2T", "Yes")]);
    assert_eq!(status(&answer), (0, 0));
    assert_eq!(answer.header.0[1], 0x80 | 1 << 2 | 3);
    assert_ne!(answer.header.u16_at(14), 0, "TSIH");
    assert_eq!(answer.header.u32_at(28), host.cmd_sn, "a login request takes no number");
    assert_eq!(answer.header.u32_at(32), host.cmd_sn + 127);
    let pairs = parse(&answer.data).expect("a text");
    assert_eq!(find(&pairs, "TargetPortalGroupTag"), Some("3"));
    assert_eq!(find(&pairs, "InitialR2T"), Some("Yes"));
    assert!(!host.front.is_stranger());
    assert_eq!(world.board.sessions(), 1);
    host.close(&mut world);
    assert_eq!(world.board.sessions(), 0);
}

#[test]
fn commands_may_come_behind_the_login_at_once() {
    let mut world = World::new();
    let mut host = Host::open(&mut world);
    let mut text = Text::new();
    text.push("InitiatorName", INITIATOR);
    text.push("TargetName", TARGET);
    let mut bytes = pdu(host.login_header(1, 3, 1), text.as_bytes(), (false, false));
    let header = host.numbered(command(0, 0x80, 0, TEST_UNIT_READY));
    bytes.extend(pdu(header, &[], (false, false)));
    host.send(&mut world, &bytes);
    let (login, _, rest) = split(&host.output, false, false);
    let (asked, _, rest) = split(rest, false, false);
    let (answer, _, rest) = split(rest, false, false);
    assert_eq!(
        (login.opcode(), asked.opcode(), answer.opcode()),
        (opcode::LOGIN_RESPONSE, opcode::NOP_IN, opcode::SCSI_RESPONSE)
    );
    assert!(rest.is_empty());
}

#[test]
fn chap_over_the_wire() {
    for (secret, is_right) in [(SECRET, true), ("not the secret", false)] {
        let mut world = World::new();
        let mut host = Host::open(&mut world);
        let mut text = Text::new();
        for (key, value) in [
            ("InitiatorName", PROVING),
            ("TargetName", TARGET),
            ("AuthMethod", "CHAP"),
        ] {
            text.push(key, value);
        }
        let header = host.login_header(0, 0, 1);
        host.send(&mut world, &pdu(header, text.as_bytes(), (false, false)));
        let answer = host.output_of_login();
        assert_eq!((status(&answer), answer.header.0[1]), ((0, 0), 0));
        host.send(&mut world, &pdu(header, b"CHAP_A=8,7,6,5\0", (false, false)));
        let answer = host.output_of_login();
        let pairs = parse(&answer.data).expect("a text");
        assert_eq!(find(&pairs, "CHAP_A"), Some("8"), "SHA3-256 is preferred");
        let identifier = find(&pairs, "CHAP_I")
            .expect("an identifier")
            .parse()
            .expect("a number");
        let challenge = find(&pairs, "CHAP_C").and_then(|value| decode_binary(value, 1024));
        let response = Algorithm::Sha3.response(identifier, secret.as_bytes(), &challenge.expect("a challenge"));
        let mut text = Text::new();
        text.push("CHAP_N", "user");
        text.push("CHAP_R", &encode_hex(&response));
        let header = host.login_header(0, 1, 1);
        host.send(&mut world, &pdu(header, text.as_bytes(), (false, false)));
        let answer = host.output_of_login();
        if !is_right {
            assert_eq!(status(&answer), (2, 1));
            assert!(matches!(host.closed, Some(CloseReason::Refused(_))));
            assert_eq!(world.board.sessions(), 0);
            continue;
        }
        assert_eq!(answer.header.0[1], 0x80 | 1);
        let header = host.login_header(1, 3, 1);
        host.send(&mut world, &pdu(header, &[], (false, false)));
        assert_eq!(status(&host.output_of_login()), (0, 0));
        assert_eq!(world.board.sessions(), 1);
    }
}

#[test]
fn who_may_not_is_told_and_the_connection_ends() {
    let mut world = World::new();
    let mut host = Host::open(&mut world);
    let answer = host.login_with(&mut world, "iqn.2026-01.test:stranger", 1, &[]);
    assert_eq!(status(&answer), (2, 3));
    assert!(
        matches!(host.closed, Some(CloseReason::Refused(_))),
        "{:?}",
        host.closed
    );
    let mut host = Host::open(&mut world);
    let answer = host.login_with(&mut world, PROVING, 1, &[]);
    assert_eq!(status(&answer), (2, 1));
    assert_eq!(world.board.sessions(), 0);
}

#[test]
fn what_is_no_login_ends_the_connection_at_once() {
    let mut world = World::new();
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[0x16, 3, 1], &[0x01, 0x80], &[0x00; 48]] {
        let mut host = Host::open(&mut world);
        host.send(&mut world, bytes);
        assert!(matches!(host.closed, Some(CloseReason::Protocol(_))), "{bytes:?}");
        assert!(host.output.is_empty());
    }
    let mut host = Host::open(&mut world);
    let long = host.login_header(1, 3, 1).with_data_bytes(8193);
    host.send(&mut world, &long.0);
    assert!(matches!(host.closed, Some(CloseReason::Protocol(_))));
}

#[test]
fn a_login_has_its_time() {
    let mut world = World::new();
    let mut host = Host::open(&mut world);
    let by = host.front.deadline().expect("a deadline");
    assert_eq!(by, Time(0).plus(Config::default().login_timeout));
    let bytes = pdu(
        host.login_header(0, 0, 1),
        b"InitiatorName=iqn.2026-01.test:host\0",
        (false, false),
    );
    host.send(&mut world, &bytes[..60]);
    world.now = by;
    host.tick(&mut world);
    assert_eq!(host.closed, Some(CloseReason::Timeout));
}

#[test]
fn strangers_hold_little() {
    let mut world = World::new();
    let mut host = Host::open(&mut world);
    assert!(host.front.receive_bytes() <= 4096);
    let mut header = host.login_header(0, 0, 1);
    header.0[1] |= 0x40;
    let part = pdu(header, &[b'a'; 8192], (false, false));
    for _ in 0..10 {
        host.send(&mut world, &part);
    }
    assert!(
        matches!(host.closed, Some(CloseReason::Refused(_))),
        "{:?}",
        host.closed
    );
}

#[test]
fn settings_that_are_not_known_yet() {
    let mut world = World::new();
    world.set(Catalog::default());
    let mut host = Host::open(&mut world);
    let answer = host.login_with(&mut world, INITIATOR, 1, &[]);
    assert_eq!(
        status(&answer),
        (3, 1),
        "service unavailable: the initiator tries again"
    );
}

#[test]
fn a_second_connection_for_a_session_is_refused() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let mut other = Host::open(&mut world);
    let mut text = Text::new();
    text.push("InitiatorName", INITIATOR);
    text.push("TargetName", TARGET);
    let header = other.login_header(1, 3, 1).with_u16(14, 1);
    other.send(&mut world, &pdu(header, text.as_bytes(), (false, false)));
    assert_eq!(status(&other.output_of_login()), (2, 6), "too many connections");
    assert_eq!(
        host.run(&mut world, command(0, 0x80, 0, TEST_UNIT_READY), &[]).told(),
        GOOD
    );
}

#[test]
fn digests_that_are_required() {
    let wishes = Wishes {
        digests: Digests::Required,
        ..Wishes::default()
    };
    let mut world = World::with(Config {
        wishes,
        ..Config::default()
    });
    let without: [&[(&str, &str)]; 4] = [
        &[],
        &[("HeaderDigest", "None")],
        &[("HeaderDigest", "CRC32C,None")],
        &[("HeaderDigest", "CRC32C"), ("DataDigest", "None")],
    ];
    for keys in without {
        let mut host = Host::open(&mut world);
        let answer = host.login_with(&mut world, INITIATOR, 1, keys);
        assert_eq!((answer.header.0[36], answer.header.0[37]), (2, 0), "{keys:?}");
        assert!(host.closed.is_some());
    }
    let both = [("HeaderDigest", "None,CRC32C"), ("DataDigest", "CRC32C,None")];
    let mut host = Host::session_of(&mut world, 1, &both);
    assert_eq!(host.digests, (true, true));
    assert_eq!(host.run(&mut world, read(1, 0, 1), &[]).told(), GOOD);
}
