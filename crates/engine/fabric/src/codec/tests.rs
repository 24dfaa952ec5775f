//! Round trips, damage, and the bytes of each version.

mod golden;
mod strategies;

use super::*;
use amita_types::message::Purpose;
use proptest::prelude::*;
use strategies::{hello, message, payload_bytes, refuse};

/// Everything a receiver does with a frame's head.
fn read(data: &[u8], agreed: Option<u8>) -> Result<Option<(Prefix, Frame)>, DecodeError> {
    let Some(found) = prefix(data, agreed)? else {
        return Ok(None);
    };
    let Some(head) = data.get(..found.head_bytes) else {
        return Ok(None);
    };
    check(head)?;
    decode(found, head).map(|frame| Some((found, frame)))
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, PROTOCOL_VERSION, message, payload_bytes(message)).expect("the strategies make valid messages");
    out
}

proptest! {
    #[test]
    fn messages_round_trip(message in message()) {
        let bytes = encoded(&message);
        let (prefix, frame) = read(&bytes, Some(PROTOCOL_VERSION)).unwrap().expect("whole");
        prop_assert_eq!(prefix.head_bytes, bytes.len());
        prop_assert_eq!(prefix.payload_bytes, payload_bytes(&message));
        prop_assert_eq!(frame, Frame::Message(message));
    }

    #[test]
    fn the_handshake_round_trips(hello in hello(), refuse in refuse(), number: u64) {
        let mut bytes = Vec::new();
        encode_hello(&mut bytes, &hello, false);
        prop_assert_eq!(read(&bytes, None).unwrap().unwrap().1, Frame::Hello(hello));
        bytes.clear();
        encode_hello(&mut bytes, &hello, true);
        prop_assert_eq!(read(&bytes, None).unwrap().unwrap().1, Frame::Welcome(hello));
        bytes.clear();
        encode_refuse(&mut bytes, &refuse);
        prop_assert_eq!(read(&bytes, None).unwrap().unwrap().1, Frame::Refuse(refuse.clone()));
        prop_assert_eq!(read(&bytes, Some(PROTOCOL_VERSION)).unwrap().unwrap().1, Frame::Refuse(refuse));
        bytes.clear();
        encode_ping(&mut bytes, PROTOCOL_VERSION, number, false);
        prop_assert_eq!(read(&bytes, Some(PROTOCOL_VERSION)).unwrap().unwrap().1, Frame::Ping(number));
        bytes.clear();
        encode_ping(&mut bytes, PROTOCOL_VERSION, number, true);
        prop_assert_eq!(read(&bytes, Some(PROTOCOL_VERSION)).unwrap().unwrap().1, Frame::Pong(number));
    }

    /// A changed bit is found, wherever it is: by a check of the prefix, or by the CRC.
    #[test]
    fn every_flipped_bit_is_found(message in message(), at: prop::sample::Index, bit in 0..8u8) {
        let mut bytes = encoded(&message);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // A longer head is waited for; the bytes that follow are then part of what the CRC finds wrong.
        bytes.resize(MAX_HEAD_BYTES, 0);
        prop_assert!(read(&bytes, Some(PROTOCOL_VERSION)).is_err());
    }

    /// With a CRC that was made for the changed bytes, decoding gives an error or a message that a sender can make, and
    /// encoding that gives the same bytes: there is one form for each message.
    #[test]
    fn changed_bytes_decode_to_what_they_say(
        message in message(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encoded(&message);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let crc = amita_types::crc32c(&bytes[CRC_FROM..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        if let Ok(Some((found, Frame::Message(message)))) = read(&bytes, Some(PROTOCOL_VERSION)) {
            let mut again = Vec::new();
            prop_assert_eq!(encode(&mut again, PROTOCOL_VERSION, &message, found.payload_bytes), Ok(()));
            prop_assert_eq!(&again[..], &bytes[..found.head_bytes]);
        }
    }

    #[test]
    fn a_cut_head_is_waited_for(message in message(), at: prop::sample::Index) {
        let bytes = encoded(&message);
        prop_assert_eq!(read(&bytes[..at.index(bytes.len())], Some(PROTOCOL_VERSION)), Ok(None));
    }

    /// Random bytes behind a valid prefix, with a valid CRC: the decoders of all kinds see all kinds of nonsense.
    #[test]
    fn nonsense_never_panics(
        kind in prop::sample::select(Kind::ALL),
        body in prop::collection::vec(any::<u8>(), 0..MAX_HEAD_BYTES),
        payload_bytes in 0..=MAX_PAYLOAD_BYTES as u32,
    ) {
        let version = if kind.is_handshake() { HANDSHAKE_VERSION } else { PROTOCOL_VERSION };
        let head_bytes = (PREFIX_BYTES + body.len()) as u16;
        let mut bytes = Vec::new();
        RawPrefix { crc: 0, magic: MAGIC, version, kind: kind as u8, head_bytes, flags: 0, payload_bytes }.put(&mut bytes);
        bytes.extend_from_slice(&body);
        let crc = amita_types::crc32c(&bytes[CRC_FROM..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        if let Ok(Some((found, _))) = read(&bytes, Some(PROTOCOL_VERSION)) {
            prop_assert!(found.head_bytes <= MAX_HEAD_BYTES && found.payload_bytes <= MAX_PAYLOAD_BYTES);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, Some(PROTOCOL_VERSION));
        let _ = read(&bytes, None);
    }
}

#[test]
fn garbage_is_named() {
    let http = b"GET / HTTP/1.1\r\nHost: example\r\n\r\n";
    let error = prefix(http, None).unwrap_err();
    assert_eq!(
        error,
        DecodeError::Magic {
            found: u16::from_le_bytes(*b"/ ")
        }
    );
    assert!(error.to_string().contains("no Amita node"), "{error}");
}

#[test]
fn only_the_handshake_may_come_before_a_version_is_agreed_on() {
    let mut bytes = Vec::new();
    encode_ping(&mut bytes, PROTOCOL_VERSION, 7, false);
    assert_eq!(
        read(&bytes, None),
        Err(DecodeError::Version {
            found: PROTOCOL_VERSION,
            agreed: HANDSHAKE_VERSION
        })
    );
    bytes.clear();
    encode_ping(&mut bytes, HANDSHAKE_VERSION, 7, false);
    assert!(read(&bytes, None).is_err());
    assert_eq!(read(&bytes, Some(3)), Err(DecodeError::Version { found: 0, agreed: 3 }));
}

#[test]
fn a_hello_of_a_later_version_may_be_longer() {
    let hello = golden::hello();
    let mut bytes = Vec::new();
    let from = begin(&mut bytes);
    hello.put(&mut bytes);
    bytes.extend_from_slice(b"what a later version has to say");
    finish(&mut bytes, from, HANDSHAKE_VERSION, Kind::Hello, 0);
    assert_eq!(read(&bytes, None).unwrap().unwrap().1, Frame::Hello(hello));
}

#[test]
fn a_reason_is_cut_and_cleaned() {
    let refuse = Refuse {
        code: RefuseCode::Cluster,
        reason: "ä\x1b[2J\n".repeat(200),
    };
    let mut bytes = Vec::new();
    encode_refuse(&mut bytes, &refuse);
    let Frame::Refuse(read) = read(&bytes, None).unwrap().unwrap().1 else {
        panic!("a Refuse")
    };
    assert!(
        read.reason.len() <= MAX_REASON_BYTES && read.reason.starts_with("ä [2J ä"),
        "{:?}",
        read.reason
    );
}

#[test]
fn what_no_receiver_would_accept_is_not_sent() {
    let mut out = vec![1, 2, 3];
    let Message::Request(mut write) = golden::write() else {
        panic!("a request")
    };
    let RequestBody::Write(WriteRequest { sums, .. }) = &mut write.body else {
        panic!("a write")
    };
    sums.push(1);
    let error = encode(&mut out, PROTOCOL_VERSION, &Message::Request(write), 4096).unwrap_err();
    assert_eq!(error, EncodeError::Sums { expected: 1, found: 2 });
    assert_eq!(
        encode(&mut out, PROTOCOL_VERSION, &golden::write(), 100),
        Err(EncodeError::Payload {
            expected: 4096,
            found: 100
        })
    );
    let release = Message::Release {
        tag: 1,
        volume: VolumeId(1),
        generation: Generation(1 << 24),
        hand_over: false,
    };
    assert!(matches!(
        encode(&mut out, PROTOCOL_VERSION, &release, 0),
        Err(EncodeError::Field {
            field: "generation",
            ..
        })
    ));
    assert_eq!(out, [1, 2, 3], "a message that cannot be sent leaves nothing behind");
}

/// "Who may send what" of `docs/protocol-wire.md`, written down once more: a new kind does not compile until somebody has said
/// who may send it.
#[test]
fn every_kind_has_its_senders() {
    use crate::secure::Role::{Client, Gateway, Node, Operator};
    use Kind::*;
    for &kind in Kind::ALL {
        let senders: &[Role] = match kind {
            Hello | Welcome | Refuse | Ping | Pong => &[Node, Gateway],
            Fence | Open | Write | Clear | Read | Changes | Roll | RenewLease | Allocation | Chunks | Join | Mend
            | Whole | Verify | Settle | RetainSnapshots | Clone | Succeed | States | Frame | Put | Close | Mark
            | Differ | Inherit | Restore => &[Node, Gateway],
            Release | Released | HandOver | Cut | CutDone | Forward | Forwarded => &[Node, Gateway],
            // Any owner says so to whoever has forwarded to it.
            Refused => &[Node, Gateway],
            Fenced | Opened | Done | Data | Listed | LeaseRenewed | Allocated | Held | Joined | Mended | Verified
            | Settled | Stated | Differs => &[Node],
        };
        for role in [Node, Gateway, Client, Operator] {
            assert_eq!(kind.senders().has(role), senders.contains(&role), "{role:?} {kind:?}");
        }
    }
}

/// The specification's table (`docs/protocol-wire.md`, "Kinds") names every kind with its number and head sizes.
#[test]
fn the_specification_lists_every_kind() {
    let text = include_str!("../../../../../docs/protocol-wire.md");
    for kind in Kind::ALL {
        let (least, most) = kind.body_bytes();
        let (least, most) = (PREFIX_BYTES + least, PREFIX_BYTES + most);
        let bytes = if least == most {
            format!("{least}")
        } else {
            format!("{least} .. {most}")
        };
        let row = format!("| `{:#04x}` | `{kind:?}` | {bytes} |", *kind as u8);
        assert!(text.contains(&row), "docs/protocol-wire.md lacks the row {row}");
    }
}

use amita_types::message::{RequestBody, WriteRequest};
use amita_types::{Generation, VolumeId};

/// What is said beside a request or an answer stands in three bits of the flags; where nothing is they are zero, as in builds that know nothing of it.
#[test]
fn what_is_said_aside_stands_in_the_flags() {
    let Message::Request(mut request) = golden::write() else {
        panic!("a write is a request")
    };
    for purpose in Purpose::ALL {
        request.purpose = purpose;
        let message = Message::Request(request.clone());
        let mut bytes = Vec::new();
        encode(&mut bytes, PROTOCOL_VERSION, &message, 4096).unwrap();
        assert_eq!(u16::from_le_bytes([bytes[10], bytes[11]]), (purpose as u16) << 1);
        let (_, frame) = read(&bytes, Some(PROTOCOL_VERSION)).unwrap().unwrap();
        assert_eq!(frame, Frame::Message(message));
        bytes[10] = 6 << 1;
        assert_eq!(read(&bytes, Some(PROTOCOL_VERSION)), Err(DecodeError::Flags(12)));
    }
    let mut ping = Vec::new();
    encode_ping(&mut ping, PROTOCOL_VERSION, 7, false);
    ping[10] = 2;
    assert_eq!(read(&ping, Some(PROTOCOL_VERSION)), Err(DecodeError::Flags(2)));
}
