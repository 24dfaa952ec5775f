use super::*;
use crate::text::parse;

const SECRET: &[u8] = b"a secret of the host";
const TARGET_SECRET: &[u8] = b"another one, of the target";

fn credentials(mutual: bool) -> Credentials {
    Credentials {
        user: "host".into(),
        secret: Secret::new(SECRET.to_vec()),
        target_secret: mutual.then(|| Secret::new(TARGET_SECRET.to_vec())),
        target_user: "iqn.2026-01.test:t".into(),
    }
}

/// Draws 1, 2, 3 and so on.
fn counting() -> impl FnMut(&mut [u8]) {
    let mut next = 0u8;
    move |bytes: &mut [u8]| {
        for byte in bytes {
            next = next.wrapping_add(1);
            *byte = next;
        }
    }
}

fn take(exchange: &mut Exchange, pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, Failure> {
    let mut answer = Text::new();
    exchange.take(pairs, &mut counting(), &mut answer)?;
    let pairs = parse(answer.as_bytes()).expect("a text");
    Ok(pairs
        .into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect())
}

fn value(pairs: &[(String, String)], key: &str) -> String {
    let found = pairs.iter().find(|(known, _)| known == key);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

/// Goes as far as the challenge; the response to it.
fn challenged(exchange: &mut Exchange, offer: &str, secret: &[u8]) -> (Vec<(String, String)>, String) {
    let answer = take(exchange, &[("CHAP_A", offer)]).expect("a challenge");
    let algorithm = Algorithm::ALL
        .into_iter()
        .find(|one| (*one as u8).to_string() == value(&answer, "CHAP_A"));
    let identifier: u8 = value(&answer, "CHAP_I").parse().expect("a number");
    let challenge = decode_binary(&value(&answer, "CHAP_C"), 1024).expect("a challenge");
    let response = algorithm.expect("one of ours").response(identifier, secret, &challenge);
    (answer, encode_hex(&response))
}

#[test]
fn one_way_by_every_hash() {
    for algorithm in Algorithm::ALL {
        let mut exchange = Exchange::new(credentials(false), &Algorithm::ALL);
        let (answer, response) = challenged(&mut exchange, &(algorithm as u8).to_string(), SECRET);
        assert_eq!(value(&answer, "CHAP_A"), (algorithm as u8).to_string());
        assert!(!exchange.is_done());
        let answer = take(&mut exchange, &[("CHAP_N", "host"), ("CHAP_R", response.as_str())]).expect("right");
        assert!(exchange.is_done() && answer.is_empty());
    }
}

/// The response to a known challenge, computed by hand: MD5 and SHA-256 of 0x01, "secret", 0x02 0x03.
#[test]
fn a_response_is_the_hash_of_identifier_secret_and_challenge() {
    let message = [&[1u8][..], b"secret", &[2, 3]].concat();
    for (algorithm, library) in [
        (Algorithm::Sha1, &digest::SHA1_FOR_LEGACY_USE_ONLY),
        (Algorithm::Sha256, &digest::SHA256),
        (Algorithm::Sha3, &digest::SHA3_256),
    ] {
        let response = algorithm.response(1, b"secret", &[2, 3]);
        assert_eq!(response, digest::digest(library, &message).as_ref());
    }
    assert_eq!(Algorithm::Md5.response(1, b"secret", &[2, 3]).len(), 16);
}

#[test]
fn the_targets_preference_counts_and_the_setting() {
    let mut exchange = Exchange::new(credentials(false), &Algorithm::ALL);
    let (answer, _) = challenged(&mut exchange, "5,6,7", SECRET);
    assert_eq!(value(&answer, "CHAP_A"), "7");
    let mut strict = Exchange::new(credentials(false), &[Algorithm::Sha256]);
    assert!(take(&mut strict, &[("CHAP_A", "5")]).is_err());
    assert!(!strict.is_done());
}

#[test]
fn both_ways() {
    let mut exchange = Exchange::new(credentials(true), &Algorithm::ALL);
    let (_, response) = challenged(&mut exchange, "7", SECRET);
    let pairs = [
        ("CHAP_N", "host"),
        ("CHAP_R", response.as_str()),
        ("CHAP_I", "9"),
        ("CHAP_C", "0xa1b2c3d4e5f6"),
    ];
    let answer = take(&mut exchange, &pairs).expect("right");
    let expected = Algorithm::Sha256.response(9, TARGET_SECRET, &[0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6]);
    assert_eq!(value(&answer, "CHAP_R"), encode_hex(&expected));
    assert_eq!(value(&answer, "CHAP_N"), "iqn.2026-01.test:t");
    assert!(exchange.is_done());
}

#[test]
fn what_is_wrong_proves_nothing() {
    let right = |exchange: &mut Exchange| challenged(exchange, "7", SECRET).1;
    let new = |mutual| Exchange::new(credentials(mutual), &Algorithm::ALL);
    let mut exchange = new(false);
    let (_, wrong) = challenged(&mut exchange, "7", b"some other secret");
    assert!(take(&mut exchange, &[("CHAP_N", "host"), ("CHAP_R", wrong.as_str())]).is_err());
    assert!(!exchange.is_done());
    for mutual in [false, true] {
        let mut exchange = new(mutual);
        let response = right(&mut exchange);
        assert!(take(&mut exchange, &[("CHAP_N", "other"), ("CHAP_R", response.as_str())]).is_err());
        let mut exchange = new(mutual);
        let response = right(&mut exchange);
        assert!(take(&mut exchange, &[("CHAP_R", response.as_str())]).is_err());
        let mut exchange = new(mutual);
        let response = right(&mut exchange);
        let cut = &response[..response.len() - 2];
        assert!(take(&mut exchange, &[("CHAP_N", "host"), ("CHAP_R", cut)]).is_err());
    }
    let mut exchange = new(false);
    let response = right(&mut exchange);
    let asks = [
        ("CHAP_N", "host"),
        ("CHAP_R", response.as_str()),
        ("CHAP_I", "1"),
        ("CHAP_C", "0x01"),
    ];
    assert!(take(&mut exchange, &asks).is_err(), "the target has no secret");
    assert!(!exchange.is_done());
    assert!(
        take(&mut new(false), &[("CHAP_N", "host"), ("CHAP_R", "0x00")]).is_err(),
        "no challenge before"
    );
}

#[test]
fn a_challenge_is_used_once() {
    let mut exchange = Exchange::new(credentials(false), &Algorithm::ALL);
    let (_, response) = challenged(&mut exchange, "7", SECRET);
    assert!(take(&mut exchange, &[("CHAP_N", "other"), ("CHAP_R", response.as_str())]).is_err());
    assert!(take(&mut exchange, &[("CHAP_N", "host"), ("CHAP_R", response.as_str())]).is_err());
    assert!(!exchange.is_done());
}

#[test]
fn the_targets_own_challenge_is_not_answered() {
    let mut exchange = Exchange::new(credentials(true), &Algorithm::ALL);
    let (answer, response) = challenged(&mut exchange, "7", SECRET);
    let (identifier, challenge) = (value(&answer, "CHAP_I"), value(&answer, "CHAP_C"));
    let reflects = [
        ("CHAP_N", "host"),
        ("CHAP_R", response.as_str()),
        ("CHAP_I", identifier.as_str()),
        ("CHAP_C", challenge.as_str()),
    ];
    assert!(take(&mut exchange, &reflects).is_err());
    let mut same = credentials(true);
    same.target_secret = Some(same.secret.clone());
    let mut exchange = Exchange::new(same, &Algorithm::ALL);
    let (_, response) = challenged(&mut exchange, "7", SECRET);
    let asks = [
        ("CHAP_N", "host"),
        ("CHAP_R", response.as_str()),
        ("CHAP_I", "1"),
        ("CHAP_C", "0x0102"),
    ];
    assert!(take(&mut exchange, &asks).is_err(), "one secret for both ways");
}
