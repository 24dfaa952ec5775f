use super::group::Exponent;
use super::response::{Proof, Side};
use super::*;
use crate::command::{Command, Status};
use amita_keys::{DhchapSecret, Hash};
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize};
use proptest::prelude::*;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:6d2a6b5e-2f0c-4ad5-9d0b-3a7f1f3f0c11";
const SUBSYSTEM: &str = "nqn.2026-01.example.amita:subsystem.one";
/// 0, 1, 2, ... 31, with a transformation.
const HOST_SECRET: &str = "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
/// 0, 1, 2, ... 47, with a transformation.
const CONTROLLER_SECRET: &str = "DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:";

fn secret(text: &str) -> DhchapSecret {
    DhchapSecret::parse(text).unwrap()
}

/// Numbers that only look like random ones, the same in every run.
fn numbers(mut seed: u64) -> Random {
    Box::new(move |out| {
        for byte in out {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = (seed >> 56) as u8;
        }
    })
}

fn controller_config(both: bool) -> Config {
    Config::new(
        HOST,
        SUBSYSTEM,
        secret(HOST_SECRET),
        both.then(|| secret(CONTROLLER_SECRET)),
    )
}

fn host_config(both: bool) -> HostConfig {
    HostConfig {
        hostnqn: HOST.into(),
        subnqn: SUBSYSTEM.into(),
        secret: secret(HOST_SECRET),
        controller_secret: both.then(|| secret(CONTROLLER_SECRET)),
        hashes: Hash::ALL.to_vec(),
        groups: vec![Group::Null],
        transaction: 0x1234,
    }
}

/// Lets the two talk until the host is at its end; its last step, and how the controller stands.
fn talk(host: &mut Initiator, controller: &mut Authenticator) -> (Step, State) {
    for _ in 0..10 {
        match host.step() {
            Step::Send(message) => {
                let _ = controller.receive(&message);
            }
            Step::Receive => host.received(&controller.send(4096).unwrap()),
            end => return (end, controller.state()),
        }
    }
    panic!("the two do not come to an end");
}

fn meet(host: HostConfig, controller: Config) -> (Step, State) {
    let mut host = Initiator::new(host, numbers(1));
    let mut controller = Authenticator::new(controller, numbers(2));
    talk(&mut host, &mut controller)
}

const GOOD: (Step, State) = (Step::Done, State::Done);

fn failed(reason: Reason) -> (Step, State) {
    (Step::Failed(reason), State::Failed(reason))
}

#[test]
fn all_groups_and_hashes_one_way_and_both_ways() {
    for group in Group::ALL {
        // The large groups take their time; each is met with one hash, the small ones with all.
        let hashes = match group {
            Group::Null | Group::Ffdhe2048 => &Hash::ALL[..],
            Group::Ffdhe3072 | Group::Ffdhe8192 => &[Hash::Sha256],
            Group::Ffdhe4096 => &[Hash::Sha384],
            Group::Ffdhe6144 => &[Hash::Sha512],
        };
        for &hash in hashes {
            for both in [false, true] {
                let mut host = host_config(both);
                (host.hashes, host.groups) = (vec![hash], vec![group]);
                let mut controller = controller_config(true);
                controller.groups = Group::ALL.to_vec();
                assert_eq!(meet(host, controller), GOOD, "{group:?} {hash:?} {both}");
            }
        }
    }
}

#[test]
fn the_primes_are_those_of_rfc_7919() {
    for group in &Group::ALL[1..] {
        let bits = 8 * group.len_bytes() as u32;
        let prime = group.prime();
        let bytes = prime.to_be_bytes();
        // Sixty-four ones at both ends, then the digits of e: 2.71828...
        assert_eq!(bytes[..8], [0xff; 8]);
        assert_eq!(bytes[bytes.len() - 8..], [0xff; 8]);
        assert_eq!(bytes[8..16], [0xad, 0xf8, 0x54, 0x58, 0xa2, 0xbb, 0x4a, 0x9a]);
        // What stands before the last ones in the RFC.
        let tail = match group {
            Group::Ffdhe2048 => 0x886b_4238_6128_5c97_u64,
            Group::Ffdhe3072 => 0x25e4_1d2b_66c6_2e37,
            Group::Ffdhe4096 => 0xc68a_007e_5e65_5f6a,
            Group::Ffdhe6144 => 0xa40e_329c_d0e4_0e65,
            _ => 0xd68c_8bb7_c5c6_424c,
        };
        assert_eq!(
            bytes[bytes.len() - 16..bytes.len() - 8],
            tail.to_be_bytes(),
            "{group:?}"
        );
        // 2 generates the subgroup of order (p-1)/2: a prime passes this, a wrong digit does not.
        let one = BoxedUint::one_with_precision(bits);
        let order = prime.wrapping_sub(&one) >> 1u32;
        let params = BoxedMontyParams::new_vartime(Odd::new(prime).unwrap());
        let two = BoxedMontyForm::new(BoxedUint::from(2u8).resize(bits), &params);
        assert_eq!(two.pow(&order).retrieve(), one, "{group:?}");
    }
}

/// Both ends agree, and a value that begins with zeros keeps its length.
#[test]
fn an_agreed_value_is_as_long_as_the_prime() {
    let group = Group::Ffdhe2048;
    let mut random = numbers(3);
    let mut short = 0;
    for _ in 0..40 {
        let (a, b) = (Exponent::draw(group, &mut random), Exponent::draw(group, &mut random));
        let public = |exponent: &Exponent| {
            let work = Work {
                exponent: exponent.clone(),
                peer: None,
            };
            group.public_value(&work.run().value).unwrap()
        };
        let (ya, yb) = (public(&a), public(&b));
        let agree = |exponent, peer| {
            Work {
                exponent,
                peer: Some(peer),
            }
            .run()
            .value
        };
        let (one, other) = (agree(a, yb), agree(b, ya));
        assert_eq!((&one, one.len()), (&other, 256));
        short += usize::from(one[0] < 16);
    }
    assert!(short > 0, "some begin with a zero digit");
}

#[test]
fn a_public_value_that_gives_the_outcome_away_is_not_used() {
    let group = Group::Ffdhe2048;
    let prime = group.prime().to_be_bytes();
    let value = |last: u8| {
        let mut bytes = vec![0; 256];
        bytes[255] = last;
        bytes
    };
    let mut less = prime.to_vec();
    for (bytes, good) in [
        (value(0), false),
        (value(1), false),
        (value(2), true),
        (prime.to_vec(), false),
        (vec![0xff; 256], false),
        (value(2)[1..].to_vec(), false),
        ([vec![0], value(2)].concat(), false),
        (Vec::new(), false),
    ] {
        assert_eq!(group.public_value(&bytes).is_some(), good);
    }
    less[255] -= 1;
    assert!(group.public_value(&less).is_none(), "p - 1");
    less[255] -= 1;
    assert!(group.public_value(&less).is_some(), "p - 2");
    assert!(Group::Null.public_value(&[]).is_none());
}

/// Computed by another program (Python's hmac) from the specification's formula.
#[test]
fn responses_are_as_the_formula_says() {
    let agreed: Vec<u8> = (0..256u32).map(|i| (i % 251) as u8).collect();
    for (hash, with_group, host, controller) in [
        (
            Hash::Sha256,
            false,
            "44e00c1cdd7dcdb2e07f3f8095f1e62a16b9b866cd28c52ac6eed9d40f11900b",
            "12308ceec5ee25b880e9ead2f1336768598b65ddcb101608c3a3bbb2b46fa86b",
        ),
        (
            Hash::Sha256,
            true,
            "93678e51a4dd0630272bff2d2291253af488572ce4962531facf21e891e211b8",
            "8b5c1045066f99482f190566756f4746aa1fb87fd693e3f8d30a93413211a51d",
        ),
        (
            Hash::Sha384,
            true,
            "3b6727abfc402d42c0fafc057832d83c7a87e3527814e702fa34d77f4d517e5a62fe18fb65da17fedd08190b5b29d61c",
            "1474115b9e60c89f0ceee35fb9e4a82a387b4d9552666b303f5ede5615c46c2ec82f16e11e05aeb93b42881aa3671558",
        ),
        (
            Hash::Sha512,
            true,
            "c2fb06e2a1a50e7bec472e93693b17822646ca699e6a16159fde0d7a090002e6\
             f5be3b01c6943dd0536621e44284395927f405092692a17acd7e1df3aeb54166",
            "cd505778936d696f7f0d70cfe2e4be7a8ab15497be5888855cd28ed393f30e4a\
             ca0e34d0c4ecf5040c530e1a736aa94c7fcf8ff02c72e6a30d665d0a172c2e49",
        ),
    ] {
        let challenge: Vec<u8> = (0..hash.len_bytes()).map(|i| 0xc0 + (i % 16) as u8).collect();
        for (side, text, nqn, wanted) in [
            (Side::Host, HOST_SECRET, HOST, host),
            (Side::Controller, CONTROLLER_SECRET, SUBSYSTEM, controller),
        ] {
            let key = secret(text).key_for(nqn);
            let proof = Proof {
                side,
                hash,
                key: &key,
                agreed: with_group.then_some(&agreed[..]),
                challenge: &challenge,
                sequence: 0x0102_0304,
                transaction: 0x0506,
                concatenation: 0,
                hostnqn: HOST,
                subnqn: SUBSYSTEM,
            };
            let response: String = proof.response().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(response, wanted, "{hash:?} {side:?}");
            assert!(proof.verify(&proof.response()));
            assert!(!proof.verify(&proof.response()[1..]));
        }
    }
}

#[test]
fn a_wrong_secret_fails_and_ends_the_connection() {
    for group in [Group::Null, Group::Ffdhe2048] {
        let mut host = host_config(false);
        host.groups = vec![group];
        host.secret = DhchapSecret::generate(None, HOST, &mut numbers(9));
        let mut initiator = Initiator::new(host, numbers(1));
        let mut controller = Authenticator::new(controller_config(false), numbers(2));
        assert_eq!(talk(&mut initiator, &mut controller), failed(Reason::Failed));
        assert!(controller.must_close());
        // There is no second guess.
        let again = Message::Negotiate(Negotiate::of(&Hash::ALL, &Group::ALL)).encode(9);
        assert!(controller.receive(&again).is_err());
        assert_eq!(controller.send(4096), Err(SendError::NotNow));
        assert_eq!(controller.state(), State::Failed(Reason::Failed));
    }
    // The right secret of another host, or for another subsystem.
    let mut host = host_config(false);
    host.hostnqn = "nqn.2026-01.example:other".into();
    assert_eq!(meet(host, controller_config(false)), failed(Reason::Failed));
    let mut host = host_config(false);
    host.subnqn = "nqn.2026-01.example:other".into();
    assert_eq!(meet(host, controller_config(false)), failed(Reason::Failed));
}

#[test]
fn a_controller_that_cannot_prove_itself_is_left() {
    // It has no secret: it says that it failed.
    assert_eq!(
        meet(host_config(true), controller_config(false)),
        failed(Reason::Failed)
    );
    // It has another one: the host leaves it, and the controller knows.
    let mut config = controller_config(true);
    config.controller_secret = Some(DhchapSecret::generate(None, SUBSYSTEM, &mut numbers(9)));
    assert_eq!(meet(host_config(true), config), failed(Reason::Failed));
    // Its host's secret is not enough.
    let mut config = controller_config(true);
    config.controller_secret = Some(secret(HOST_SECRET));
    assert_eq!(meet(host_config(true), config), failed(Reason::Failed));
    // Not until the host has accepted it are other commands taken.
    let mut host = Initiator::new(host_config(true), numbers(1));
    let mut controller = Authenticator::new(controller_config(true), numbers(2));
    for turn in 0..5 {
        assert_eq!(controller.state(), State::Pending, "turn {turn}");
        match host.step() {
            Step::Send(message) => controller.receive(&message).unwrap(),
            Step::Receive => host.received(&controller.send(4096).unwrap()),
            end => panic!("{end:?}"),
        }
    }
    assert_eq!(controller.state(), State::Done);
}

#[test]
fn each_end_chooses_only_what_it_has() {
    let mut config = controller_config(false);
    config.hashes = vec![Hash::Sha384];
    let mut host = host_config(false);
    host.hashes = vec![Hash::Sha256, Hash::Sha512];
    assert_eq!(meet(host, config), failed(Reason::HashNotUsable));
    let mut config = controller_config(false);
    config.groups = vec![Group::Ffdhe2048];
    assert_eq!(meet(host_config(false), config), failed(Reason::GroupNotUsable));
}

/// A controller that was sent these messages, and what it answers to the last one.
fn told(messages: &[Vec<u8>]) -> (Result<(), Reason>, Authenticator) {
    let mut controller = Authenticator::new(controller_config(true), numbers(2));
    let mut last = Ok(());
    for message in messages {
        last = controller.receive(message);
        if last.is_ok() {
            let _ = controller.send(4096);
        }
    }
    (last, controller)
}

/// It says why, in the words of the transaction, and then has nothing more to say.
fn refuses(messages: &[Vec<u8>], transaction: u16, reason: Reason) {
    let (outcome, mut controller) = told(messages);
    assert_eq!(outcome, Err(reason));
    assert_eq!(controller.state(), State::Failed(reason));
    assert!(!controller.must_close());
    assert_eq!(controller.send(4096), Ok(Message::Failure1(reason).encode(transaction)));
    assert!(controller.must_close());
    assert_eq!(controller.send(4096), Err(SendError::NotNow));
}

#[test]
fn each_reason_to_fail() {
    let offer = Negotiate::of(&Hash::ALL, &[Group::Null]);
    let negotiate = |negotiate: Negotiate| Message::Negotiate(negotiate).encode(7);
    let good = negotiate(offer.clone());
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        vec![bytes]
    };
    // Secure channel concatenation of both kinds.
    for concatenation in [1, 2, 0xff] {
        refuses(
            &with(&|bytes| bytes[6] = concatenation),
            7,
            Reason::ConcatenationMismatch,
        );
    }
    // Other protocols only, or none at all.
    refuses(&with(&|bytes| bytes[8] = 2), 7, Reason::ProtocolNotUsable);
    refuses(
        &with(&|bytes| {
            bytes[7] = 0;
            bytes.truncate(8);
        }),
        7,
        Reason::ProtocolNotUsable,
    );
    // Numbers that nobody knows.
    refuses(&with(&|bytes| bytes[12..15].fill(9)), 7, Reason::HashNotUsable);
    refuses(&with(&|bytes| bytes[42] = 9), 7, Reason::GroupNotUsable);
    // Counts that cannot be, and a message that ends early.
    refuses(&with(&|bytes| bytes[10] = 31), 0, Reason::IncorrectPayload);
    refuses(&with(&|bytes| bytes[11] = 0), 0, Reason::IncorrectPayload);
    refuses(&with(&|bytes| bytes[7] = 2), 0, Reason::IncorrectPayload);
    refuses(&with(&|bytes| bytes.truncate(71)), 0, Reason::IncorrectPayload);
    refuses(&[Vec::new()], 0, Reason::IncorrectPayload);
    refuses(&[vec![0; 5]], 0, Reason::IncorrectPayload);
    refuses(&[vec![0; MAX_MESSAGE_BYTES + 1]], 0, Reason::IncorrectPayload);
    // What is no message, and those that are not the host's to send.
    refuses(&with(&|bytes| bytes[1] = 0x77), 0, Reason::IncorrectMessage);
    refuses(&with(&|bytes| bytes[0] = 3), 0, Reason::IncorrectMessage);
    refuses(
        &[Message::Failure1(Reason::Failed).encode(3)],
        3,
        Reason::IncorrectMessage,
    );
    refuses(
        &[Message::Failure2(Reason::Failed).encode(3)],
        3,
        Reason::IncorrectMessage,
    );
    refuses(&[Message::Success2.encode(3)], 3, Reason::IncorrectMessage);

    // Out of order.
    refuses(&[good.clone(), good.clone()], 7, Reason::IncorrectMessage);
    refuses(
        &[good.clone(), Message::Success2.encode(7)],
        7,
        Reason::IncorrectMessage,
    );
    let reply = Reply {
        sequence: 0,
        response: vec![1; 64],
        challenge: None,
        public: Vec::new(),
    };
    let say = |reply: &Reply, id| Message::Reply(reply.clone()).encode(id);
    refuses(&[say(&reply, 7)], 7, Reason::IncorrectMessage);
    // Of another transaction: answered in the words of this one.
    refuses(&[good.clone(), say(&reply, 8)], 7, Reason::IncorrectPayload);
    // A reply that is none.
    refuses(&[good.clone(), say(&reply, 7)], 7, Reason::Failed);
    for (change, reason) in [
        (
            &(|reply: &mut Reply| reply.response.truncate(63)) as &dyn Fn(&mut Reply),
            Reason::IncorrectPayload,
        ),
        (&|reply| reply.public = vec![2; 256], Reason::IncorrectPayload),
        (&|reply| reply.challenge = Some(vec![3; 64]), Reason::IncorrectPayload),
        (&|reply| reply.response.clear(), Reason::IncorrectPayload),
    ] {
        let mut reply = reply.clone();
        change(&mut reply);
        refuses(&[good.clone(), say(&reply, 7)], 7, reason);
    }
    let mut invalid = say(&reply, 7);
    invalid[8] = 2;
    refuses(&[good.clone(), invalid], 7, Reason::IncorrectPayload);
    let mut short = say(&reply, 7);
    short.truncate(16 + 127);
    refuses(&[good.clone(), short], 7, Reason::IncorrectPayload);
    // A public value of the wrong length, or one that gives the outcome away.
    let group = negotiate(Negotiate::of(&[Hash::Sha512], &[Group::Ffdhe2048]));
    let mut one = vec![0; 256];
    one[255] = 1;
    for public in [
        Vec::new(),
        vec![2; 255],
        vec![2; 384],
        vec![0; 256],
        one,
        vec![0xff; 256],
    ] {
        let reply = Reply {
            public,
            ..reply.clone()
        };
        refuses(&[group.clone(), say(&reply, 7)], 7, Reason::IncorrectPayload);
    }
    // A host that gives up is not answered.
    let (outcome, mut controller) = told(&[good, Message::Failure2(Reason::HashNotUsable).encode(7)]);
    assert_eq!(outcome, Err(Reason::HashNotUsable));
    assert!(controller.must_close());
    assert_eq!(controller.send(4096), Err(SendError::NotNow));
}

#[test]
fn nothing_is_sent_before_its_time_or_without_room() {
    let mut controller = Authenticator::new(controller_config(false), numbers(2));
    assert!(controller.is_under_way());
    assert_eq!(controller.send(4096), Err(SendError::NotNow));
    controller
        .receive(&Message::Negotiate(Negotiate::of(&[Hash::Sha256], &[Group::Ffdhe2048])).encode(1))
        .unwrap();
    let bytes = 16 + 32 + 256;
    assert_eq!(controller.send(bytes - 1), Err(SendError::NoRoom { bytes }));
    // Nothing was lost.
    assert_eq!(controller.send(bytes).unwrap().len(), bytes);
    assert_eq!(controller.send(4096), Err(SendError::NotNow));
}

#[test]
fn work_can_be_done_elsewhere() {
    let mut config = host_config(true);
    config.groups = vec![Group::Ffdhe2048];
    let mut host = Initiator::new(config, numbers(1));
    let mut controller = Authenticator::new(controller_config(true), numbers(2));
    assert!(controller.take_work().is_none());
    let mut works = 0;
    let end = loop {
        match host.step() {
            Step::Send(message) => controller.receive(&message).unwrap(),
            Step::Receive => {
                if let Some(work) = controller.take_work() {
                    assert_eq!(work.group(), Group::Ffdhe2048);
                    assert_eq!(controller.send(4096), Err(SendError::Working));
                    let worked = std::thread::spawn(move || work.run()).join().unwrap();
                    controller.worked(worked);
                    works += 1;
                }
                host.received(&controller.send(4096).unwrap());
            }
            end => break end,
        }
    };
    assert_eq!((end, controller.state(), works), (Step::Done, State::Done, 2));
    // A host that gives up while work is done elsewhere: what comes back is dropped.
    let mut controller = Authenticator::new(controller_config(true), numbers(2));
    let negotiate = Message::Negotiate(Negotiate::of(&[Hash::Sha256], &[Group::Ffdhe2048])).encode(1);
    controller.receive(&negotiate).unwrap();
    let work = controller.take_work().unwrap();
    let _ = controller.receive(&Message::Failure2(Reason::Failed).encode(1));
    controller.worked(work.run());
    assert!(controller.must_close());
}

#[test]
fn a_host_may_do_it_again_and_is_served_meanwhile() {
    let mut controller = Authenticator::new(controller_config(true), numbers(2));
    let mut host = Initiator::new(host_config(false), numbers(1));
    assert_eq!(talk(&mut host, &mut controller), GOOD);
    assert!(!controller.is_under_way());
    let mut again = Initiator::new(host_config(true), numbers(7));
    let Step::Send(negotiate) = again.step() else { panic!() };
    controller.receive(&negotiate).unwrap();
    assert_eq!(controller.state(), State::Done);
    assert!(controller.is_under_way());
    assert_eq!(talk(&mut again, &mut controller), GOOD);
    // If it fails then, it was not the same host.
    let mut config = host_config(false);
    config.secret = secret(CONTROLLER_SECRET);
    let mut third = Initiator::new(config, numbers(8));
    assert_eq!(talk(&mut third, &mut controller), failed(Reason::Failed));
}

#[test]
fn challenges_differ() {
    let mut controller = Authenticator::new(controller_config(true), Box::new(amita_keys::system_random));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut host = Initiator::new(host_config(false), numbers(1));
        let Step::Send(negotiate) = host.step() else { panic!() };
        controller.receive(&negotiate).unwrap();
        let challenge = controller.send(4096).unwrap();
        assert!(!seen.contains(&challenge[12..].to_vec()));
        seen.push(challenge[12..].to_vec());
        host.received(&challenge);
        assert_eq!(talk(&mut host, &mut controller), GOOD);
    }
}

#[test]
fn the_host_checks_the_controller() {
    let start = |both| {
        let mut host = Initiator::new(host_config(both), numbers(1));
        let Step::Send(_) = host.step() else { panic!() };
        assert_eq!(host.step(), Step::Receive);
        host
    };
    let refused = |mut host: Initiator, message: &[u8], reason: Reason| {
        host.received(message);
        assert_eq!(host.step(), Step::Send(Message::Failure2(reason).encode(0x1234)));
        assert_eq!(host.step(), Step::Failed(reason));
    };
    let good = Challenge {
        hash_id: 1,
        group_id: 0,
        sequence: 5,
        challenge: vec![1; 32],
        public: Vec::new(),
    };
    let say = |challenge: Challenge| Message::Challenge(challenge).encode(0x1234);
    refused(start(false), &[], Reason::IncorrectPayload);
    refused(
        start(false),
        &Message::Success2.encode(0x1234),
        Reason::IncorrectMessage,
    );
    refused(
        start(false),
        &Message::Challenge(good.clone()).encode(1),
        Reason::IncorrectMessage,
    );
    let with = |hash_id, group_id, challenge: usize, public: usize| Challenge {
        hash_id,
        group_id,
        challenge: vec![1; challenge],
        public: vec![1; public],
        ..good.clone()
    };
    refused(start(false), &say(with(4, 0, 32, 0)), Reason::HashNotUsable);
    refused(start(false), &say(with(2, 0, 32, 0)), Reason::HashNotUsable);
    refused(start(false), &say(with(1, 1, 32, 256)), Reason::GroupNotUsable);
    refused(start(false), &say(with(1, 0, 32, 4)), Reason::IncorrectPayload);
    let mut host = start(true);
    host.received(&say(good.clone()));
    let Step::Send(_) = host.step() else { panic!() };
    let success = Success1 {
        hash_bytes: 32,
        response: None,
    };
    // A controller that was challenged and does not answer.
    refused(host, &Message::Success1(success).encode(0x1234), Reason::Failed);
}

#[test]
fn commands_are_checked() {
    let mut bytes = [0; 64];
    bytes[0] = 0x7f;
    bytes[4] = 5;
    bytes[41..44].copy_from_slice(&[1, 1, 0xe9]);
    bytes[44..48].copy_from_slice(&100u32.to_le_bytes());
    let parse = |change: &dyn Fn(&mut [u8; 64])| {
        let mut bytes = bytes;
        change(&mut bytes);
        AuthCommand::parse(&Command(bytes))
    };
    assert_eq!(parse(&|_| ()), Some(Ok(AuthCommand::Send { bytes: 100 })));
    assert_eq!(
        parse(&|bytes| bytes[4] = 6),
        Some(Ok(AuthCommand::Receive { max_bytes: 100 }))
    );
    assert_eq!(parse(&|bytes| bytes[4] = 1), None);
    assert_eq!(parse(&|bytes| bytes[0] = 2), None);
    let invalid = Some(Err(Status::new(0, 2, true)));
    for at in [41, 42, 43] {
        assert_eq!(parse(&|bytes| bytes[at] ^= 2), invalid);
    }
    assert_eq!(parse(&|bytes| bytes[44] = 0), invalid);
    assert_eq!(parse(&|bytes| bytes[46] = 1), invalid);
    // A host may ask with more room than a message ever needs.
    assert!(matches!(
        parse(&|bytes| (bytes[4], bytes[46]) = (6, 1)),
        Some(Ok(AuthCommand::Receive { .. }))
    ));
}

proptest! {
    #[test]
    fn two_that_have_the_secrets_agree(
        hashes in proptest::sample::subsequence(Hash::ALL.to_vec(), 1..=3).prop_shuffle(),
        group in prop_oneof![9 => Just(Group::Null), 1 => Just(Group::Ffdhe2048)],
        seeds in any::<(u64, u64)>(),
        transaction in any::<u16>(),
        both: bool,
        kinds in (0u8..4, 0u8..4),
        wrong: bool,
    ) {
        let make = |kind: u8, nqn, seed| DhchapSecret::generate(Hash::from_id(kind), nqn, &mut numbers(seed));
        let (ours, theirs) = (make(kinds.0, HOST, seeds.0), make(kinds.1, SUBSYSTEM, seeds.1));
        let mut config = host_config(false);
        config.hashes = hashes;
        config.groups = vec![group];
        config.transaction = transaction;
        config.secret = if wrong { make(kinds.0, HOST, seeds.0 ^ 1 << 63) } else { ours.clone() };
        config.controller_secret = both.then(|| theirs.clone());
        let end = meet(config, Config::new(HOST, SUBSYSTEM, ours, Some(theirs)));
        prop_assert_eq!(end, if wrong { failed(Reason::Failed) } else { GOOD });
    }

    #[test]
    fn no_message_panics_or_lets_anybody_in(
        messages in proptest::collection::vec(
            (0u8..3, prop_oneof![0u8..6, Just(0xf0), Just(0xf1)], proptest::collection::vec(any::<u8>(), 0..200)),
            1..6,
        ),
    ) {
        let mut controller = Authenticator::new(controller_config(true), numbers(2));
        for (kind, id, rest) in messages {
            let mut message = vec![kind, id, 0, 0, 1, 0];
            message.extend_from_slice(&rest);
            let _ = controller.receive(&message);
            let _ = controller.send(4096);
            prop_assert!(controller.state() != State::Done);
        }
    }

    #[test]
    fn any_changed_byte_of_a_reply_is_noticed(at in 0usize..200, bit in 0u8..8, both: bool) {
        let mut host = Initiator::new(host_config(both), numbers(1));
        let mut controller = Authenticator::new(controller_config(true), numbers(2));
        let Step::Send(negotiate) = host.step() else { panic!() };
        controller.receive(&negotiate).unwrap();
        host.received(&controller.send(4096).unwrap());
        let Step::Send(mut reply) = host.step() else { panic!() };
        let at = at % reply.len();
        reply[at] ^= 1 << bit;
        // Reserved fields are ignored; so is a challenge that is marked as none.
        let ignored = [2, 3, 7, 9].contains(&at) || (!both && (at >= 80 || (12..16).contains(&at)));
        // A challenge that was changed on its way makes a response that the host does not accept.
        let accepted = both && (at >= 80 || (12..16).contains(&at) || (at, bit) == (8, 0));
        let outcome = controller.receive(&reply);
        prop_assert_eq!(outcome.is_ok(), ignored || accepted, "byte {}", at);
        prop_assert!(ignored || controller.state() != State::Done);
        if accepted && at != 8 {
            host.received(&controller.send(4096).unwrap());
            prop_assert!(matches!(host.step(), Step::Send(message) if message[1] == 0xf0));
        }
    }
}
