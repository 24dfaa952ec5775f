use super::*;

const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const NONCE: &str = "101112131415161718191a1b1c1d1e1f";
const PROTECTIONS: [Protection; 2] = [Protection::Auth, Protection::Secret];

fn hex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(digits).collect()
}

fn array<const N: usize>(text: &str) -> [u8; N] {
    hex(text).try_into().expect("as long")
}

/// RFC 10032, appendix A: AEGIS-128X2, vectors 1 and 2.
#[test]
fn the_cipher_agrees_with_its_specification() {
    for (known, text, expected, tag) in [
        ("", "", "", "63117dc57756e402819a82e13eca8379"),
        (
            "0102030401020304",
            &"04050607".repeat(30),
            "5795544301997f93621b278809d6331b3bfa6f18e90db12c4aa35965b5e98c5fc6fb4e54bcb6111842c20637252eff747cb3a8f85b37de\
             80919a589fe0f24872bc926360696739e05520647e390989e1eb5fd42f99678a0276a498f8c454761c9d6aacb647ad56be62b29c22cd4b\
             5761b38f43d5a5ee062f",
            "1aebc200804f405cab637f2adebb6d77",
        ),
    ] {
        let (known, text, expected, tag) = (hex(known), hex(text), hex(expected), array(tag));
        for at in [0, 1, 17, 88, text.len()].map(|at| at.min(text.len())) {
            let mut head = text[..at].to_vec();
            let mut out = vec![0; text.len() - at];
            let made = seal(&array(KEY), &array(NONCE), &known, &mut head, &text[at..], &mut out);
            assert_eq!(
                ([head.clone(), out.clone()].concat(), made),
                (expected.clone(), tag),
                "cut at {at}"
            );
            let mut back = vec![0; text.len()];
            open(&array(KEY), &array(NONCE), &known, [&head, &out], &tag, &mut back).expect("its own");
            assert_eq!(back, text);
        }
    }
}

/// RFC 10032, appendix A: AEGISMAC-128X2.
#[test]
fn the_authenticator_agrees_with_its_specification() {
    let data: Vec<u8> = (0..35).collect();
    let (key, nonce) = (
        array("10010000000000000000000000000000"),
        array("10000200000000000000000000000000"),
    );
    for at in [0, 1, 16, 34, 35] {
        let tag = mac(&key, &nonce, &data[..at], &data[at..]).finalize();
        assert_eq!(tag, array("6873ee34e6b5c59143b6d35c5e4f2c6e"), "cut at {at}");
    }
}

/// The key of a secret, by HMAC alone: HKDF-Expand (RFC 5869, section 2.3) of at most one block.
fn expanded(secret: &[u8], label: &[u8]) -> Vec<u8> {
    use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
    let key = Key::new(HMAC_SHA256, secret);
    sign(&key, &[label, &[1]].concat()).as_ref().to_vec()
}

#[test]
fn keys_come_of_secrets_as_the_specification_says() {
    let mut direction = Direction::new(Zeroizing::new([7; SECRET_BYTES]), 3);
    let mut secret = vec![7; SECRET_BYTES];
    for number in 0..10u64 {
        if number > 0 && number % 3 == 0 {
            secret = expanded(&secret, b"amita fabric next");
        }
        let nonce = direction.next();
        assert_eq!(nonce[..8], number.to_le_bytes());
        assert_eq!(nonce[8..], [0; 8]);
        assert_eq!(
            *direction.key,
            expanded(&secret, b"amita fabric key")[..KEY_BYTES],
            "frame {number}"
        );
    }
}

/// Two ends that belong together; the key changes with every third frame.
fn ends(protection: Protection) -> (Records, Records) {
    let (one, two) = ([1; SECRET_BYTES], [2; SECRET_BYTES]);
    let of = |send, receive| Secrets {
        send: Zeroizing::new(send),
        receive: Zeroizing::new(receive),
    };
    (
        Records::new(protection, of(one, two), 3),
        Records::new(protection, of(two, one), 3),
    )
}

fn head() -> Vec<u8> {
    (0..46).collect()
}

fn payload() -> Vec<u8> {
    (0..100).map(|at| at as u8 ^ 0x5a).collect()
}

/// A frame on the wire: head, tag, payload.
type Wire = (Vec<u8>, [u8; TAG_BYTES], Vec<u8>);

fn sent(records: &mut Records, payload: &[u8]) -> Wire {
    let mut head = head();
    let mut out = payload.to_vec();
    let tag = match records.protection() {
        Protection::Auth => records.authenticate(&mut head, payload),
        Protection::Secret => records.encrypt(&mut head, payload, &mut out),
    };
    (head, tag, out)
}

/// What is in a frame that came.
fn received(records: &mut Records, (head, tag, payload): &Wire) -> Result<Vec<u8>, Forged> {
    match records.protection() {
        Protection::Auth => {
            records.verify(head, tag, payload)?;
            Ok([&head[PREFIX_BYTES..], payload].concat())
        }
        Protection::Secret => {
            let mut out = vec![0; head.len() - PREFIX_BYTES + payload.len()];
            let opened = records.decrypt(head, tag, payload, &mut out);
            if opened.is_err() {
                let of_text = [&self::head()[PREFIX_BYTES..], &self::payload()].concat();
                assert!(
                    out.iter().zip(&of_text).filter(|(a, b)| a == b).count() < 8,
                    "nothing of it is shown"
                );
            }
            opened.map(|()| out)
        }
    }
}

#[test]
fn what_is_sent_is_received_and_bytes_on_the_wire_do_not_change() {
    for (protection, tags) in [(Protection::Auth, GOLDEN_AUTH), (Protection::Secret, GOLDEN_SECRET)] {
        let (mut one, mut two) = ends(protection);
        for (number, tag) in tags.iter().enumerate() {
            let frame = sent(&mut one, &payload());
            assert_eq!(frame.0[..4], [0; 4], "no CRC");
            assert_eq!(
                frame.0[4..PREFIX_BYTES],
                head()[4..PREFIX_BYTES],
                "the prefix can be read"
            );
            let is_plain = frame.0[PREFIX_BYTES..] == head()[PREFIX_BYTES..] && frame.2 == payload();
            assert_eq!(is_plain, protection == Protection::Auth);
            assert_eq!(frame.1, array(tag), "{protection}, frame {number}");
            let opened = received(&mut two, &frame).expect("the next");
            assert_eq!(opened, [&head()[PREFIX_BYTES..], &payload()].concat());
        }
    }
}

/// Tags of the first frames of [`ends`], by an implementation of the RFC that shares nothing with this one. Whoever changes them
/// changes the protocol.
const GOLDEN_AUTH: [&str; 4] = [
    "486e32d4271a74a211fe876fa6eb7889",
    "ded96efd17642e25c6be2da6871c74d0",
    "c3c81d8e6b762dc06b83871f9133d674",
    "81b2632c9c5f66271687dce29d7989fa",
];
const GOLDEN_SECRET: [&str; 4] = [
    "30371411d0821f544776fcaa8e12d63a",
    "a3c953d924a564db30d2904539b05ec2",
    "be3f542d41ea19ce9e55266bcf6c2101",
    "a0f7f3877b5578bb1c47acdf957fb4da",
];

#[test]
fn every_bit_of_a_frame_is_under_its_tag() {
    for protection in PROTECTIONS {
        let (mut one, _) = ends(protection);
        let frame = sent(&mut one, &payload());
        let bytes = frame.0.len() + TAG_BYTES + frame.2.len();
        for at in 0..bytes {
            for bit in 0..8 {
                let (mut head, mut tag, mut payload) = frame.clone();
                match at {
                    at if at < head.len() => head[at] ^= 1 << bit,
                    at if at < head.len() + TAG_BYTES => tag[at - head.len()] ^= 1 << bit,
                    at => payload[at - head.len() - TAG_BYTES] ^= 1 << bit,
                }
                let (_, mut two) = ends(protection);
                assert_eq!(
                    received(&mut two, &(head, tag, payload)),
                    Err(Forged),
                    "{protection}: bit {bit} of byte {at}"
                );
            }
        }
    }
}

#[test]
fn a_payload_that_is_cut_or_goes_on_is_refused() {
    for protection in PROTECTIONS {
        let (mut one, _) = ends(protection);
        let (head, tag, payload) = sent(&mut one, &payload());
        for other in [&payload[1..], &payload[..99], &[], &[&payload[..], &[0]].concat()] {
            let (_, mut two) = ends(protection);
            assert_eq!(received(&mut two, &(head.clone(), tag, other.to_vec())), Err(Forged));
        }
    }
}

#[test]
fn only_the_next_frame_of_that_direction_is_good() {
    for protection in PROTECTIONS {
        // Over two changes of the key.
        for at in 0..7 {
            for other in 0..9 {
                let (mut one, mut two) = ends(protection);
                let frames: Vec<Wire> = (0..9).map(|_| sent(&mut one, &payload())).collect();
                for frame in &frames[..at] {
                    received(&mut two, frame).expect("the next");
                }
                assert_eq!(
                    received(&mut two, &frames[other]).is_ok(),
                    at == other,
                    "{other} in the place of {at}"
                );
            }
            let (mut one, mut two) = ends(protection);
            let back: Vec<Wire> = (0..=at).map(|_| sent(&mut two, &payload())).collect();
            for _ in 0..at {
                let frame = sent(&mut one, &payload());
                received(&mut two, &frame).expect("the next");
            }
            assert_eq!(received(&mut two, &back[at]), Err(Forged), "its own frame, sent back");
        }
    }
}

#[test]
fn a_frame_without_a_payload_is_protected_like_others() {
    for protection in PROTECTIONS {
        let (mut one, mut two) = ends(protection);
        let frame = sent(&mut one, &[]);
        assert_eq!(received(&mut two, &frame), Ok(head()[PREFIX_BYTES..].to_vec()));
        let (_, mut two) = ends(protection);
        assert_eq!(received(&mut two, &(frame.0, frame.1, vec![0])), Err(Forged));
    }
}

#[test]
fn one_protection_does_not_pass_for_the_other() {
    let (mut one, _) = ends(Protection::Auth);
    let (_, mut two) = ends(Protection::Secret);
    let frame = sent(&mut one, &payload());
    assert_eq!(received(&mut two, &frame), Err(Forged));
}

#[test]
fn nothing_secret_is_printed() {
    let (one, _) = ends(Protection::Secret);
    let text = format!("{one:?} {one:#?}");
    assert_eq!(
        format!("{one:?}"),
        "Records { protection: Secret, sent: 0, received: 0, .. }"
    );
    let key = format!("{:?}", &one.send.key[..4]);
    assert!(!text.contains(&key[1..key.len() - 1]), "{text}");
}
