use super::*;
use crate::catalog::{Moved, Secret, TargetDetail};
use crate::text::{decode_binary, encode_hex};
use crate::wire::Header;
use amita_scsi::unit::{Access, Group, Target};
use amita_types::NodeId;
use proptest::prelude::*;
use std::collections::BTreeMap;

const INITIATOR: &str = "iqn.2026-01.test:host";
const PROVING: &str = "iqn.2026-01.test:proving";
const TARGET: &str = "iqn.2026-01.test:disks";
const SECRET: &[u8] = b"secret of the host";

fn access(name: &str) -> Arc<Access> {
    Arc::new(Access {
        name: name.into(),
        mask: None,
    })
}

fn catalog() -> Catalog {
    let group = |tag, node| Group {
        tag,
        node: NodeId(node),
        name: format!("n{node}"),
        alive: true,
    };
    let target = |name: &str, groups: Vec<u16>| {
        Arc::new(Target {
            name: name.into(),
            groups,
            units: Vec::new(),
            initiators: vec![access(INITIATOR), access(PROVING)],
            any_initiator: false,
            explicit_access: false,
        })
    };
    let moved = Moved {
        portal: "192.0.2.7:3260".parse().expect("an address"),
        permanently: false,
    };
    let detail = TargetDetail {
        moved: Some(moved),
        ..TargetDetail::default()
    };
    Catalog {
        scsi: Arc::new(amita_scsi::Catalog {
            node: NodeId(1),
            revision: 1,
            groups: vec![group(3, 1), group(4, 2)],
            targets: vec![
                target(TARGET, vec![3, 4]),
                target("iqn.2026-01.test:elsewhere", vec![4]),
                target("iqn.2026-01.test:moved", vec![3]),
            ],
            ..amita_scsi::Catalog::default()
        }),
        portals: BTreeMap::new(),
        initiators: vec![
            Arc::new(Initiator {
                name: INITIATOR.into(),
                user: INITIATOR.into(),
                chap: None,
                chap_target: None,
                target_user: None,
            }),
            Arc::new(Initiator {
                name: PROVING.into(),
                user: "user".into(),
                chap: Some(Secret::new(SECRET.to_vec())),
                chap_target: None,
                target_user: None,
            }),
        ],
        details: BTreeMap::from([("iqn.2026-01.test:moved".into(), detail)]),
    }
}

struct World {
    catalog: Catalog,
    config: Config,
    login: Login,
}

impl World {
    fn new() -> World {
        let config = Config::default();
        World {
            catalog: catalog(),
            login: Login::new([192, 0, 2, 1].into(), &config),
            config,
        }
    }

    fn send(&mut self, request: &Request, pairs: &[(&str, &str)]) -> Result<Step, Refusal> {
        let mut text = Text::new();
        pairs.iter().for_each(|(key, value)| text.push(key, value));
        self.send_bytes(request, text.as_bytes())
    }

    fn send_bytes(&mut self, request: &Request, text: &[u8]) -> Result<Step, Refusal> {
        let mut environment = Environment {
            catalog: &self.catalog,
            config: &self.config,
            random: &mut |bytes: &mut [u8]| bytes.fill(7),
        };
        self.login.take(request, text, &mut environment)
    }
}

/// A request from one stage to another: 0, 1, 3; the same: it stays.
fn request(stage: u8, next: u8) -> Request {
    let transits = stage != next;
    let mut header = Header::new(0x43, stage << 2 | if transits { 0x80 | next } else { 0 });
    header.0[8..14].copy_from_slice(&[0x80, 1, 2, 3, 4, 5]);
    Request::parse(&header.with_task_tag(9).with_u16(20, 1).with_u32(24, 100)).expect("stages that are some")
}

fn names(initiator: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![
        ("InitiatorName", initiator),
        ("TargetName", TARGET),
        ("SessionType", "Normal"),
    ]
}

fn refused(result: Result<Step, Refusal>) -> Status {
    match result {
        Err(refusal) => refusal.status,
        Ok(step) => panic!("{step:?}"),
    }
}

fn text(step: Result<Step, Refusal>) -> (Response, BTreeMap<String, String>) {
    let (Ok(Step::Answer(response)) | Ok(Step::Enter(response))) = step else {
        panic!("{step:?}")
    };
    let pairs = parse(response.text.as_bytes()).expect("a text");
    let pairs = pairs
        .into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    (response, pairs)
}

#[test]
fn in_one_request() {
    let mut world = World::new();
    let mut keys = names(INITIATOR);
    keys.push(("InitialR2T", "No"));
    let step = world.send(&request(1, 3), &keys);
    assert!(matches!(step, Ok(Step::Enter(_))), "{step:?}");
    let (response, pairs) = text(step);
    assert_eq!(pairs["TargetPortalGroupTag"], "3");
    assert_eq!(
        (pairs["InitialR2T"].as_str(), pairs["MaxRecvDataSegmentLength"].as_str()),
        ("Yes", "262144")
    );
    let header = response.header(world.login.first().expect("begun"), 5);
    assert_eq!(header.0[..2], [0x23, 0x80 | 1 << 2 | 3]);
    assert_eq!(
        (header.0[8..14].to_vec(), header.u16_at(14), header.task_tag()),
        (vec![0x80, 1, 2, 3, 4, 5], 5, 9)
    );
    let (party, holder) = world.login.party().expect("names");
    assert_eq!((party.target.as_str(), party.initiator.as_str()), (TARGET, INITIATOR));
    assert_eq!(holder, Holder::Unproven([192, 0, 2, 1].into()));
}

#[test]
fn whose_places_are_those_of_who_has_proven_nothing() {
    let peer = [0x2001, 0xdb8, 1, 2, 3, 4, 5, 6];
    let holder = |keys: &[(&str, &str)]| {
        let mut world = World::new();
        world.login = Login::new(peer.into(), &world.config);
        let step = world.send(&request(1, 3), keys);
        assert!(matches!(step, Ok(Step::Enter(_))), "{step:?}");
        world.login.party().expect("names").1
    };
    assert_eq!(holder(&names(INITIATOR)), Holder::Unproven(peer.into()));
    let discovers = [("InitiatorName", INITIATOR), ("SessionType", "Discovery")];
    let network = [0x2001, 0xdb8, 1, 2, 0, 0, 0, 0];
    assert_eq!(holder(&discovers), Holder::Unproven(network.into()));
}

#[test]
fn stage_by_stage_as_linux_does() {
    let mut world = World::new();
    let mut keys = names(INITIATOR);
    keys.push(("AuthMethod", "None"));
    let (response, pairs) = text(world.send(&request(0, 1), &keys));
    assert!(response.transits && response.next == Some(Stage::Operational));
    assert_eq!(pairs["AuthMethod"], "None");
    let step = world.send(&request(1, 3), &[("HeaderDigest", "CRC32C,None")]);
    assert!(matches!(step, Ok(Step::Enter(_))), "{step:?}");
    assert!(world.login.into_negotiation().agreed().header_digest);
}

#[test]
fn a_secret_must_be_proven() {
    let mut world = World::new();
    assert_eq!(
        refused(world.send(&request(1, 3), &names(PROVING))),
        Status::AUTHENTICATION_FAILED
    );
    let mut world = World::new();
    let mut keys = names(PROVING);
    keys.push(("AuthMethod", "None"));
    assert_eq!(
        refused(world.send(&request(0, 1), &keys)),
        Status::AUTHENTICATION_FAILED
    );
    // To ask for the next stage is not enough.
    let mut world = World::new();
    let (response, _) = text(world.send(&request(0, 3), &names(PROVING)));
    assert!(!response.transits);
    assert_eq!(
        world.login.party().expect("names").1,
        Holder::Unproven([192, 0, 2, 1].into())
    );
}

#[test]
fn a_secret_is_proven() {
    for (secret, is_right) in [(SECRET, true), (&b"something else, long"[..], false)] {
        let mut world = World::new();
        let mut keys = names(PROVING);
        keys.push(("AuthMethod", "CHAP,None"));
        let (response, pairs) = text(world.send(&request(0, 1), &keys));
        assert!(!response.transits);
        assert_eq!(pairs["AuthMethod"], "CHAP");
        let (_, pairs) = text(world.send(&request(0, 0), &[("CHAP_A", "5,7")]));
        let challenge = decode_binary(&pairs["CHAP_C"], 64).expect("a challenge");
        let identifier = pairs["CHAP_I"].parse().expect("a number");
        let proof = encode_hex(&Algorithm::Sha256.response(identifier, secret, &challenge));
        let step = world.send(&request(0, 1), &[("CHAP_N", "user"), ("CHAP_R", proof.as_str())]);
        if !is_right {
            assert_eq!(refused(step), Status::AUTHENTICATION_FAILED);
            continue;
        }
        assert!(text(step).0.transits);
        assert_eq!(world.login.party().expect("names").1, Holder::Proven(PROVING.into()));
        assert!(world.login.rests_on().is_some());
    }
}

#[test]
fn chap_a_may_come_with_auth_method() {
    let mut world = World::new();
    let mut keys = names(PROVING);
    keys.extend([("AuthMethod", "CHAP"), ("CHAP_A", "7")]);
    let (_, pairs) = text(world.send(&request(0, 0), &keys));
    assert_eq!((pairs["AuthMethod"].as_str(), pairs["CHAP_A"].as_str()), ("CHAP", "7"));
    assert!(pairs.contains_key("CHAP_C"));
}

#[test]
fn who_may_log_in_to_what() {
    let login = |initiator, target, extra: &[(&'static str, &'static str)]| {
        let mut keys = vec![("InitiatorName", initiator), ("TargetName", target)];
        keys.extend(extra);
        World::new().send(&request(1, 3), &keys)
    };
    let stranger = "iqn.2026-01.test:stranger";
    assert_eq!(refused(login(stranger, TARGET, &[])), Status::NOT_FOUND);
    assert_eq!(
        refused(login(INITIATOR, "iqn.2026-01.test:nothing", &[])),
        Status::NOT_FOUND
    );
    assert_eq!(
        refused(login(INITIATOR, "iqn.2026-01.test:elsewhere", &[])),
        Status::UNAVAILABLE
    );
    assert_eq!(refused(login("host", TARGET, &[])), Status::INITIATOR_ERROR);
    assert_eq!(
        refused(login(INITIATOR, TARGET, &[("SessionType", "Other")])),
        Status::SESSION_TYPE
    );
    // Capitals are no other name (RFC 3722).
    assert!(login("IQN.2026-01.test:HOST", TARGET, &[]).is_ok());
    let Err(moved) = login(INITIATOR, "iqn.2026-01.test:moved", &[]) else {
        panic!("it has moved")
    };
    assert_eq!(moved.status, Status::MOVED_TEMPORARILY);
    assert_eq!(moved.text.as_bytes(), b"TargetAddress=192.0.2.7:3260\0");
    let missing = |keys: &[(&str, &str)]| refused(World::new().send(&request(1, 3), keys));
    assert_eq!(missing(&[("TargetName", TARGET)]), Status::MISSING_PARAMETER);
    assert_eq!(missing(&[("InitiatorName", INITIATOR)]), Status::MISSING_PARAMETER);
    let mut early = World::new();
    early.catalog = Catalog::default();
    assert_eq!(
        refused(early.send(&request(1, 3), &names(INITIATOR))),
        Status::UNAVAILABLE
    );
}

#[test]
fn a_target_may_want_proof_of_all() {
    let mut world = World::new();
    let detail = TargetDetail {
        chap_required: true,
        ..TargetDetail::default()
    };
    world.catalog.details.insert(TARGET.into(), detail);
    assert_eq!(
        refused(world.send(&request(1, 3), &names(INITIATOR))),
        Status::AUTHENTICATION_FAILED
    );
}

/// One that could not be read is no secret that everybody has.
#[test]
fn an_empty_secret_opens_nothing() {
    let mut world = World::new();
    world.catalog.initiators[1] = Arc::new(Initiator {
        name: PROVING.into(),
        user: "user".into(),
        chap: Some(Secret::new(Vec::new())),
        chap_target: None,
        target_user: None,
    });
    let mut keys = names(PROVING);
    keys.extend([("AuthMethod", "CHAP"), ("CHAP_A", "7")]);
    assert_eq!(
        refused(world.send(&request(0, 0), &keys)),
        Status::AUTHENTICATION_FAILED
    );
}

#[test]
fn to_discover() {
    let keys = [
        ("InitiatorName", "iqn.2026-01.test:anybody"),
        ("SessionType", "Discovery"),
    ];
    let step = World::new().send(&request(1, 3), &keys);
    assert!(matches!(step, Ok(Step::Enter(_))), "{step:?}");
    // Who has a secret proves it here, too, unless that is set otherwise.
    let keys = [
        ("InitiatorName", PROVING),
        ("SessionType", "Discovery"),
        ("AuthMethod", "None"),
    ];
    assert_eq!(
        refused(World::new().send(&request(0, 1), &keys)),
        Status::AUTHENTICATION_FAILED
    );
    let mut world = World::new();
    world.config.discovery_is_proven = false;
    assert!(world.send(&request(0, 1), &keys).is_ok());
}

#[test]
fn requests_that_may_not_come() {
    let mut world = World::new();
    let mut joins = request(1, 3);
    joins.tsih = 4;
    assert_eq!(
        refused(world.send(&joins, &names(INITIATOR))),
        Status::TOO_MANY_CONNECTIONS
    );
    let mut version = request(1, 3);
    version.version_min = 1;
    assert_eq!(refused(World::new().send(&version, &names(INITIATOR))), Status::VERSION);
    let mut both = request(1, 3);
    both.continues = true;
    assert_eq!(
        refused(World::new().send(&both, &names(INITIATOR))),
        Status::INVALID_REQUEST
    );
    assert_eq!(
        refused(World::new().send(&request(1, 0), &names(INITIATOR))),
        Status::INVALID_REQUEST
    );
    // Stages do not jump, and a login stays one login.
    let mut world = World::new();
    assert!(world.send(&request(0, 0), &names(INITIATOR)).is_ok());
    assert_eq!(refused(world.send(&request(1, 3), &[])), Status::INVALID_REQUEST);
    let mut world = World::new();
    assert!(world.send(&request(0, 0), &names(INITIATOR)).is_ok());
    let mut other = request(0, 1);
    other.isid[5] = 77;
    assert_eq!(refused(world.send(&other, &[])), Status::INVALID_REQUEST);
    for stages in [0x08, 0x0c, 0x80 | 0x02] {
        assert_eq!(Request::parse(&Header::new(0x43, stages)), None, "{stages:x}");
    }
}

#[test]
fn a_login_has_an_end() {
    let mut world = World::new();
    assert!(world.send(&request(0, 0), &names(INITIATOR)).is_ok());
    let mut steps = (0..100).map(|_| world.send(&request(0, 0), &[]));
    let end = steps.find_map(Result::err).expect("an end");
    assert_eq!(end.status, Status::INITIATOR_ERROR);
}

#[test]
fn a_text_in_parts() {
    let mut world = World::new();
    let mut whole = Text::new();
    names(INITIATOR).iter().for_each(|(key, value)| whole.push(key, value));
    let (first, rest) = whole.as_bytes().split_at(20);
    let mut part = request(1, 1);
    part.continues = true;
    let (response, pairs) = text(world.send_bytes(&part, first));
    assert!(!response.transits && pairs.is_empty());
    assert!(matches!(world.send_bytes(&request(1, 3), rest), Ok(Step::Enter(_))));
    let mut world = World::new();
    let mut steps = (0..10).map(|_| world.send_bytes(&part, &[b'a'; 8192]));
    assert_eq!(
        steps.find_map(Result::err).expect("an end").status,
        Status::INITIATOR_ERROR
    );
}

#[test]
fn a_refusal_as_bytes() {
    let header = Header::new(0x43, 0x87).with_task_tag(3).with_u16(14, 2);
    let answer = super::request::refused(&header, Status::NOT_FOUND);
    assert_eq!(answer.0[..4], [0x23, 0x04, 0, 0]);
    assert_eq!(
        (answer.u16_at(14), answer.task_tag(), answer.0[36], answer.0[37]),
        (2, 3, 2, 3)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever strangers send: nobody enters who has something to prove.
    #[test]
    fn nobody_enters_by_chance(
        steps in prop::collection::vec(
            (0u8..2, prop::sample::select(vec![0u8, 1, 3]), prop::collection::vec((0usize..10, "[ -~]{0,12}"), 0..6)),
            1..10,
        ),
    ) {
        const KEYS: [&str; 10] = [
            "AuthMethod", "CHAP_A", "CHAP_N", "CHAP_R", "CHAP_I", "CHAP_C", "HeaderDigest", "SessionType", "TargetName", "InitiatorAlias",
        ];
        let mut world = World::new();
        for (at, (stage, next, pairs)) in steps.into_iter().enumerate() {
            let mut keys = if at == 0 { names(PROVING) } else { Vec::new() };
            for (key, value) in &pairs {
                if keys.iter().all(|(known, _)| *known != KEYS[*key]) {
                    let value: &'static str = match value.as_str() {
                        "" => "CHAP",
                        other if other.len() < 6 => "5,6,7,8",
                        _ => "0x00",
                    };
                    keys.push((KEYS[*key], value));
                }
            }
            match world.send(&request(stage, next), &keys) {
                Ok(Step::Enter(_)) => prop_assert!(false, "it has entered"),
                Ok(Step::Answer(_)) => {}
                Err(_) => break,
            }
        }
    }
}
