//! Logins out of any bytes: requests of texts that are right, or go wrong at some point.
//!
//! What must hold: nothing panics, no answer is longer than an initiator takes, what was agreed on is in its range, and nobody enters by a name
//! that a secret stands behind but who has answered the challenge with that secret.

use amita_iscsi::chap::Algorithm;
use amita_iscsi::login::{Environment, Login, Request, Stage, Step};
use amita_iscsi::text::{decode_binary, encode_hex, find, parse_number};
use amita_iscsi::{Catalog, Config, Initiator, Secret, TargetDetail};
use amita_scsi::unit::{Group, Target};
use amita_testkit::fuzz::Input;
use amita_types::NodeId;
use std::sync::Arc;

/// It proves itself; of the target's own secret it is told when it asks.
const PROVING: &str = "iqn.2026-01.test:proving";
/// It has nothing to prove.
const OPEN: &str = "iqn.2026-01.test:open";
const TARGET: &str = "iqn.2026-01.test:disks";
/// Nobody logs in there without a proof.
const STRICT: &str = "iqn.2026-01.test:strict";
const SECRET: &[u8] = b"a secret of the host";
/// The longest text of an answer, in bytes (RFC 7143, 13.12).
const MAX_ANSWER_BYTES: usize = 8192;
/// The most requests of one login that are tried.
const MAX_REQUESTS: usize = 40;

/// Bits of a step's first byte: what the request says beside its text.
const TRANSITS: u8 = 0x80;
const CONTINUES: u8 = 0x40;
/// The answer to the challenge goes before its text, and is right.
const HONEST: u8 = 0x20;
/// With a challenge for the target.
const MUTUAL: u8 = 0x10;

fn catalog() -> Catalog {
    let target = |name: &str| {
        Arc::new(Target {
            name: name.into(),
            groups: vec![1],
            units: Vec::new(),
            initiators: Vec::new(),
            any_initiator: true,
            explicit_access: false,
        })
    };
    let initiator = |name: &str, chap: Option<&[u8]>| {
        Arc::new(Initiator {
            name: name.into(),
            user: "user".into(),
            chap: chap.map(|secret| Secret::new(secret.to_vec())),
            chap_target: chap.map(|_| Secret::new(b"a secret of the target".to_vec())),
            target_user: None,
        })
    };
    let strict = TargetDetail {
        chap_required: true,
        alias: "strict".into(),
        ..TargetDetail::default()
    };
    Catalog {
        scsi: Arc::new(amita_scsi::Catalog {
            node: NodeId(1),
            revision: 1,
            groups: vec![Group {
                tag: 1,
                node: NodeId(1),
                name: "n1".into(),
                alive: true,
            }],
            targets: vec![target(TARGET), target(STRICT)],
            ..amita_scsi::Catalog::default()
        }),
        initiators: vec![initiator(OPEN, None), initiator(PROVING, Some(SECRET))],
        details: [(STRICT.to_owned(), strict)].into(),
        ..Catalog::default()
    }
}

/// A step: flags, the stages, the text behind its length.
fn step(flags: u8, stage: u8, next: u8, text: &str) -> Vec<u8> {
    let mut bytes = vec![flags, stage << 2 | next];
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// Logins that are right, of every kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let names = |initiator: &str, target: &str| format!("InitiatorName={initiator}\0TargetName={target}\0");
    let keys = "HeaderDigest=CRC32C,None\0DataDigest=None\0MaxConnections=1\0InitialR2T=No\0ImmediateData=Yes\0\
                MaxRecvDataSegmentLength=262144\0MaxBurstLength=16776192\0FirstBurstLength=262144\0MaxOutstandingR2T=1\0\
                DefaultTime2Wait=2\0DefaultTime2Retain=0\0DataPDUInOrder=Yes\0DataSequenceInOrder=Yes\0\
                ErrorRecoveryLevel=0\0IFMarker=No\0OFMarker=No\0iSCSIProtocolLevel=2\0TaskReporting=RFC3720\0X-own=1\0";
    let open = |target| names(OPEN, target) + keys;
    let proving = |target| names(PROVING, target) + "SessionType=Normal\0AuthMethod=CHAP,None\0";
    let discovery = |name: &str| format!("InitiatorName={name}\0SessionType=Discovery\0AuthMethod=None\0");
    vec![
        step(TRANSITS, 1, 3, &open(TARGET)),
        [
            step(TRANSITS, 0, 1, &(open(TARGET) + "AuthMethod=None\0")),
            step(TRANSITS, 1, 3, ""),
        ]
        .concat(),
        [
            step(0, 0, 0, &proving(STRICT)),
            step(0, 0, 0, "CHAP_A=5,6,7,8\0"),
            step(TRANSITS | HONEST, 0, 1, ""),
            step(TRANSITS, 1, 3, keys),
        ]
        .concat(),
        [
            step(0, 0, 0, &(proving(TARGET) + "CHAP_A=7\0")),
            step(TRANSITS | HONEST | MUTUAL, 0, 3, ""),
        ]
        .concat(),
        [
            step(0, 0, 0, &(proving(TARGET) + "CHAP_A=5\0")),
            step(
                TRANSITS,
                0,
                3,
                "CHAP_N=user\0CHAP_R=0x00112233445566778899aabbccddeeff\0",
            ),
        ]
        .concat(),
        [step(TRANSITS, 0, 1, &discovery(OPEN)), step(TRANSITS, 1, 3, keys)].concat(),
        [step(CONTINUES, 1, 1, &names(OPEN, TARGET)), step(TRANSITS, 1, 3, keys)].concat(),
    ]
}

fn stage(bits: u8) -> Option<Stage> {
    match bits & 3 {
        0 => Some(Stage::Security),
        1 => Some(Stage::Operational),
        _ => None,
    }
}

/// What the last answer has asked: the hash, the identifier, the challenge.
type Challenge = (Algorithm, u8, Vec<u8>);

fn challenge(answer: &[u8]) -> Option<Challenge> {
    let text = std::str::from_utf8(answer).expect("the target's text is one");
    let pairs = text.split_terminator('\0');
    let pairs: Vec<_> = pairs.map(|pair| pair.split_once('=').expect("a pair")).collect();
    let number = |key| find(&pairs, key).and_then(parse_number);
    let hash = number("CHAP_A")?;
    let hash = Algorithm::ALL.into_iter().find(|one| *one as u64 == hash);
    let challenge = find(&pairs, "CHAP_C").and_then(|value| decode_binary(value, 1024));
    Some((
        hash.expect("one of the hashes"),
        u8::try_from(number("CHAP_I")?).expect("an identifier"),
        challenge.expect("a challenge"),
    ))
}

/// One login out of these bytes.
pub fn login(data: &[u8]) {
    enters(data);
}

/// The same: does it end in a session?
pub fn enters(data: &[u8]) -> bool {
    let mut input = Input(data);
    let (catalog, config) = (catalog(), Config::default());
    let mut login = Login::new([192, 0, 2, 9].into(), &config);
    let mut drawn = 0_u8;
    let mut random = |bytes: &mut [u8]| {
        bytes.iter_mut().for_each(|byte| {
            drawn = drawn.wrapping_mul(5).wrapping_add(1);
            *byte = drawn;
        });
    };
    let (mut asked, mut has_shown): (Option<Challenge>, bool) = (None, false);
    for _ in 0..MAX_REQUESTS {
        if input.is_empty() {
            return false;
        }
        let (flags, stages, length) = (input.byte(), input.byte(), input.u16());
        let Some(present) = stage(stages >> 2) else { continue };
        let mut text = Vec::new();
        if let (true, Some((hash, identifier, challenge))) = (flags & HONEST != 0, asked.take()) {
            let response = hash.response(identifier, SECRET, &challenge);
            text.extend(format!("CHAP_N=user\0CHAP_R={}\0", encode_hex(&response)).into_bytes());
            if flags & MUTUAL != 0 {
                text.extend(b"CHAP_I=9\0CHAP_C=0x0123456789abcdef\0");
            }
            has_shown = true;
        }
        text.extend(input.take(usize::from(length)));
        let request = Request {
            transits: flags & TRANSITS != 0,
            continues: flags & CONTINUES != 0,
            stage: present,
            next: stage(stages),
            version_min: flags & 1,
            isid: [0x80, 0, 0, 0, 0, 1],
            tsih: u16::from(flags & 2),
            task_tag: u32::from(flags & 4),
            cid: 1,
            cmd_sn: 1,
        };
        let mut environment = Environment {
            catalog: &catalog,
            config: &config,
            random: &mut random,
        };
        match login.take(&request, &text, &mut environment) {
            Ok(Step::Answer(response)) => {
                assert!(response.text.len() <= MAX_ANSWER_BYTES);
                asked = challenge(response.text.as_bytes());
            }
            Ok(Step::Enter(response)) => {
                assert!(response.text.len() <= MAX_ANSWER_BYTES);
                entered(login, has_shown, &config);
                return true;
            }
            Err(refusal) => {
                assert!(refusal.status.0 > 0 && refusal.text.len() <= MAX_ANSWER_BYTES);
                return false;
            }
        }
    }
    false
}

/// Nothing was missing.
fn entered(login: Login, has_shown: bool, config: &Config) {
    let names = login.names().expect("a name").clone();
    let has_proven = login.rests_on().is_some();
    let must = names.initiator == PROVING || names.target.as_deref() == Some(STRICT);
    assert!(!must || (has_proven && has_shown), "{names:?} has shown nothing");
    let negotiation = login.into_negotiation();
    let (agreed, wishes) = (negotiation.agreed(), &config.wishes);
    let lengths = 512..1 << 24;
    assert!(lengths.contains(&agreed.max_send) && lengths.contains(&agreed.max_burst));
    assert!(lengths.contains(&agreed.first_burst) && agreed.first_burst <= agreed.max_burst);
    assert!(agreed.max_burst <= wishes.max_burst.max(262_144));
    assert!((1..=wishes.max_outstanding_r2t).contains(&agreed.max_outstanding_r2t));
    assert!(agreed.initial_r2t && negotiation.max_receive() >= 8192);
}
