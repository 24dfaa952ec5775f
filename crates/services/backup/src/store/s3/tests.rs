//! Against a server of our own, which does what real ones do on bad days; one test, which is left out, goes against a real one.

mod server;

use super::*;
use crate::store::{ObjectStore, try_out};
use crate::tests::{CHEAP, Image, PASSPHRASE, backup, check, options};
use crate::verify::{Scope, verify};
use crate::{Vault, store::list_all};
use amita_testkit::Random;
use server::{Fault, Server};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zeroize::Zeroizing;

pub(super) fn settings(endpoint: &str, address: &str) -> S3Settings {
    S3Settings {
        address: S3Address::parse(address).unwrap().unwrap(),
        endpoint: Some(endpoint.parse().unwrap()),
        region: "eu-west-1".to_owned(),
        credentials: Credentials {
            key: "AKIATEST".to_owned(),
            secret: Zeroizing::new("secret".to_owned()),
            token: None,
        },
        authorities: None,
        locks: false,
        ends: || false,
    }
}

fn store(server: &Server) -> S3 {
    S3::new(settings(server.endpoint(), "s3://vaults/of/us")).unwrap()
}

/// What is asked of a store, once each.
fn exercise(store: &S3) {
    assert_eq!(store.put("packs/a", b"0123456789", None).unwrap(), Put::New);
    assert_eq!(store.put("packs/a", b"other", None).unwrap(), Put::Exists);
    assert_eq!(store.get("packs/a").unwrap().as_deref(), Some(&b"0123456789"[..]));
    assert_eq!(store.get("packs/b").unwrap(), None);
    let range = |offset, length| store.get_range("packs/a", offset, length).unwrap();
    assert_eq!(range(2, 3).as_deref(), Some(&b"234"[..]));
    assert_eq!(range(8, 100).as_deref(), Some(&b"89"[..]));
    assert_eq!(range(10, 1).as_deref(), Some(&b""[..]));
    assert_eq!(range(3, 0).as_deref(), Some(&b""[..]));
    assert_eq!(range(u64::MAX, 2).as_deref(), Some(&b""[..]));
    assert_eq!(store.get_range("packs/b", 0, 1).unwrap(), None);
    for number in 0..25 {
        store.put(&format!("journal/{number:020}"), b"x", None).unwrap();
    }
    let some = store.list("journal/", &format!("journal/{:020}", 19), 3).unwrap();
    let names: Vec<&str> = some.iter().map(|listed| listed.name.as_str()).collect();
    assert_eq!(names, [20, 21, 22].map(|number| format!("journal/{number:020}")));
    assert_eq!(list_all(store, "journal/").unwrap().len(), 25);
    assert_eq!(list_all(store, "packs/").unwrap()[0].bytes, 10);
    store.delete("packs/a").unwrap();
    store.delete("packs/a").unwrap();
    assert_eq!(store.get("packs/a").unwrap(), None);
}

#[test]
fn a_bucket_keeps_the_contract() {
    let server = Server::start();
    let store = store(&server);
    try_out(&store).unwrap();
    assert!(server.names().is_empty(), "what was tried is gone");
    exercise(&store);
    let names = server.names();
    assert!(names.iter().all(|name| name.starts_with("of/us/journal/")), "{names:?}");
}

/// `AMITA_S3_TEST` is an endpoint, a bucket, an access key and its secret, divided by blanks; `AMITA_S3_TEST_LOCKS`: the bucket has object lock.
#[test]
#[ignore = "needs an S3 server, of which AMITA_S3_TEST says where it is"]
fn a_real_server_keeps_the_contract() {
    let told = std::env::var("AMITA_S3_TEST").unwrap();
    let [endpoint, bucket, key, secret]: [&str; 4] = told.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let locks = std::env::var("AMITA_S3_TEST_LOCKS").is_ok();
    let as_told = |key: &str, secret: &str| S3Settings {
        credentials: Credentials {
            key: key.to_owned(),
            secret: Zeroizing::new(secret.to_owned()),
            token: None,
        },
        locks,
        region: "us-east-1".to_owned(),
        ..settings(endpoint, &format!("s3://{bucket}/test/{}", now.as_nanos()))
    };
    let store = S3::new(as_told(key, secret)).unwrap();
    try_out(&store).unwrap();
    exercise(&store);
    let stranger = S3::new(as_told(key, "another")).unwrap();
    let refused = stranger.get("journal/x");
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    let until = Retention(now.as_secs() + 20);
    if locks {
        store.put("locked/a", b"abc", Some(until)).unwrap();
        store.put("locked/b", b"abc", None).unwrap();
        store.retain("locked/b", until).unwrap();
        store.retain("locked/b", Retention(now.as_secs() + 5)).unwrap();
        for name in ["locked/a", "locked/b"] {
            let kept = store.delete(name);
            assert!(
                matches!(kept, Err(StoreError::Locked { until: held }) if held == until),
                "{kept:?}"
            );
        }
    } else {
        let none = store.retain("journal/00000000000000000000", until);
        println!("without locks: {none:?}");
        assert!(none.is_err());
    }
    let store = Arc::new(store);
    let mut vault = Vault::create(store.clone(), PASSPHRASE, CHEAP, options()).unwrap();
    let mut image = Image::new(8 << 20);
    (0..500).for_each(|number| image.write(number * 3, number + 1));
    let first = backup(&mut vault, &image, None, image.all()).unwrap();
    image.write(7, 7000);
    let second = backup(&mut vault, &image, Some(first), image.changes([7])).unwrap();
    vault.forget(&[first]).unwrap();
    let pruned = crate::prune::run(&mut vault).unwrap();
    println!("{pruned:?}");
    let again = Vault::open(store, vault.id(), PASSPHRASE, options()).unwrap();
    assert_eq!(again.state(), vault.state());
    check(&again, second, &image);
    assert!(verify(&again, Scope::Whole).unwrap().is_clean());
}

/// Whoever is to end waits no more for a server that takes requests and answers none.
#[test]
fn a_server_that_answers_nothing_holds_up_nobody_who_is_to_end() {
    static ENDS: AtomicBool = AtomicBool::new(false);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let settings = S3Settings {
        ends: || ENDS.load(Ordering::SeqCst),
        ..settings(&endpoint, "s3://vaults/of/us")
    };
    let store = S3::new(settings).unwrap();
    let waits = std::thread::spawn(move || [store.get("packs/a"), store.get("packs/b")]);
    // It is asked, and goes on waiting as long as nobody says so.
    let asked = silent.accept().unwrap();
    assert!(!waits.is_finished());
    ENDS.store(true, Ordering::SeqCst);
    for answer in waits.join().unwrap() {
        assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    }
    drop(asked);
}

#[test]
fn requests_say_what_they_have_to() {
    let server = Server::start();
    let store = store(&server);
    store.put("packs/a", b"abc", Some(Retention(1_900_000_000))).unwrap();
    let heads = server.heads();
    let put = heads.last().unwrap();
    assert!(put.starts_with("PUT /vaults/of/us/packs/a?"), "{put}");
    for wanted in [
        "if-none-match: *",
        // Of "abc".
        "x-amz-checksum-sha256: ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
        "x-amz-object-lock-mode: COMPLIANCE",
        "x-amz-object-lock-retain-until-date: 2030-03-17T17:46:40Z",
        "X-Amz-SignedHeaders=host%3Bif-none-match%3Bx-amz-checksum-sha256%3Bx-amz-object-lock-mode%3Bx-amz-object-lock-retain-until-date%3Bx-amz-sdk-checksum-algorithm",
    ] {
        assert!(put.contains(wanted), "{wanted}: {put}");
    }
    assert!(!put.contains("secret"), "{put}");
}

#[test]
fn locks_hold_until_they_are_over_and_are_never_made_shorter() {
    let server = Server::start();
    let store = S3::new(S3Settings {
        locks: true,
        ..settings(server.endpoint(), "s3://vaults")
    });
    let store = store.unwrap();
    let until = Retention(4_000_000_000);
    store.put("packs/a", b"abc", Some(until)).unwrap();
    let locked = |name: &str| matches!(store.delete(name), Err(StoreError::Locked { until: held }) if held == until);
    assert!(locked("packs/a"));
    store.put("packs/b", b"abc", None).unwrap();
    store.retain("packs/b", until).unwrap();
    store.retain("packs/b", Retention(3_000_000_000)).unwrap();
    assert!(locked("packs/b"));
    store.put("packs/c", b"abc", Some(Retention(1))).unwrap();
    store.delete("packs/c").unwrap();
    server.set_locks(false);
    assert!(matches!(
        store.retain("packs/b", Retention(5_000_000_000)),
        Err(StoreError::Unsupported(_))
    ));
}

#[test]
fn what_fails_for_a_moment_is_done_all_the_same() {
    for fault in [
        Fault::Cut,
        Fault::Lost,
        Fault::Status(503),
        Fault::Status(409),
        Fault::Half,
    ] {
        let server = Server::start();
        let store = store(&server);
        let fail = || server.fail(&[fault, fault]);
        fail();
        let put = store.put("packs/a", b"0123456789", None).unwrap();
        // One that was done and not answered is found by the next try.
        let was_done = matches!(fault, Fault::Lost | Fault::Half);
        assert_eq!(put, if was_done { Put::Exists } else { Put::New }, "{fault:?}");
        fail();
        assert_eq!(
            store.get("packs/a").unwrap().as_deref(),
            Some(&b"0123456789"[..]),
            "{fault:?}"
        );
        fail();
        assert_eq!(
            store.get_range("packs/a", 4, 2).unwrap().as_deref(),
            Some(&b"45"[..]),
            "{fault:?}"
        );
        fail();
        assert_eq!(store.list("packs/", "", 10).unwrap().len(), 1, "{fault:?}");
        fail();
        store.delete("packs/a").unwrap();
        // An answer without a body cannot end before its end.
        let without = if fault == Fault::Half { 2 } else { 0 };
        assert_eq!(server.asked(), 3 * 5 - without, "{fault:?}");
    }
}

#[test]
fn who_answers_early_and_takes_no_more_of_a_request_does_not_hold_up_the_next() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = S3::new(settings(
        &format!("http://{}", listener.local_addr().unwrap()),
        "s3://vaults",
    ))
    .unwrap();
    let serving = std::thread::spawn(move || {
        let answers = [(412, ""), (404, "<Error><Code>NoSuchKey</Code></Error>")];
        answers.map(|(status, body)| {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 100]).unwrap() > 0);
            let length = body.len();
            write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
            // Open, as long as the other one is.
            stream
        })
    });
    // More than a connection holds.
    assert_eq!(store.put("packs/a", &vec![7; 64 << 20], None).unwrap(), Put::Exists);
    assert_eq!(store.get("packs/a").unwrap(), None);
    drop(serving.join().unwrap());
}

#[test]
fn what_goes_on_failing_is_not_known() {
    let server = Server::start();
    let store = store(&server);
    server.fail(&[Fault::Status(503); 100]);
    let put = store.put("packs/a", b"x", None);
    assert!(
        matches!(&put, Err(StoreError::Unknown(why)) if why.contains("503")),
        "{put:?}"
    );
    assert_eq!(server.asked(), TRIES as usize);
    let away = S3::new(settings("http://127.0.0.1:1", "s3://vaults")).unwrap();
    assert!(matches!(away.get("packs/a"), Err(StoreError::Unknown(_))));
}

#[test]
fn a_store_that_overwrites_is_found_before_anything_is_put() {
    let server = Server::start();
    server.set_overwrites(true);
    let tried = try_out(&store(&server));
    assert!(matches!(tried, Err(StoreError::Unsupported(why)) if why.contains("If-None-Match")));
    assert!(server.names().is_empty());
    // One that refuses the header.
    server.set_overwrites(false);
    server.fail(&[Fault::Error(501, "NotImplemented")]);
    assert!(matches!(try_out(&store(&server)), Err(StoreError::Unsupported(_))));
}

#[test]
fn errors_say_what_to_do() {
    let server = Server::start();
    let store = store(&server);
    let said = |status: u16, code: &'static str| {
        server.fail(&[Fault::Error(status, code)]);
        match store.get("packs/a") {
            Err(why) => why.to_string(),
            Ok(found) => panic!("{code}: {found:?}"),
        }
    };
    for (status, code, advice) in [
        (404, "NoSuchBucket", "--s3-endpoint"),
        (403, "SignatureDoesNotMatch", "secret"),
        (403, "InvalidAccessKeyId", "access key"),
        (403, "AccessDenied", "put, get, list and delete"),
        (403, "RequestTimeTooSkewed", "clock"),
        (400, "AuthorizationHeaderMalformed", "--s3-region"),
        (404, "", "S3 endpoint"),
        (507, "", "full"),
        (403, "QuotaExceeded", "full"),
    ] {
        let told = said(status, code);
        assert!(
            told.contains(advice) && told.contains(code.trim_start_matches("Quota").trim_start_matches("Exceeded")),
            "{code}: {told}"
        );
    }
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn a_vault_lives_in_a_bucket_that_fails_now_and_then() {
    let server = Server::start();
    let store = Arc::new(store(&server));
    let mut vault = Vault::create(store.clone(), PASSPHRASE, CHEAP, options()).unwrap();
    let mut random = Random::new(7);
    let mut image = Image::new(8 << 20);
    let mut points = Vec::new();
    for turn in 0..6_u64 {
        for _ in 0..40 {
            image.write(random.below(2048), turn * 10_000 + random.below(1000));
        }
        let faults = [Fault::Cut, Fault::Lost, Fault::Status(500), Fault::Half];
        let some: Vec<Fault> = (0..12).map(|_| faults[random.below(4) as usize]).collect();
        server.sprinkle(&some);
        let point = backup(&mut vault, &image, points.last().map(|(point, _)| *point), image.all());
        points.push((point.unwrap(), image.clone()));
    }
    let again = Vault::open(store, vault.id(), PASSPHRASE, options()).unwrap();
    assert_eq!(again.state(), vault.state());
    for (point, image) in &points {
        check(&again, *point, image);
    }
    assert!(verify(&again, Scope::Whole).unwrap().is_clean());
}

#[test]
fn addresses_are_of_what_addresses_can_say() {
    let parsed =
        |text: &str| S3Address::parse(text).map(|parsed| parsed.ok().map(|found| (found.bucket, found.prefix)));
    let is = |bucket: &str, prefix: &str| Some(Some((bucket.to_owned(), prefix.to_owned())));
    assert_eq!(parsed("s3://a"), is("a", ""));
    assert_eq!(parsed("s3://a/"), is("a", ""));
    assert_eq!(parsed("s3://a.b-c/d/e_f/"), is("a.b-c", "d/e_f/"));
    assert_eq!(parsed("/backup"), None);
    for bad in [
        "s3://",
        "s3:///x",
        "s3://a b",
        "s3://a/../b",
        "s3://a/./b",
        "s3://a//b",
        "s3://a/ü",
        "s3://a/b?c",
    ] {
        assert_eq!(parsed(bad), Some(None), "{bad}");
    }
    let at_aws = S3Settings {
        endpoint: None,
        ..settings("http://x", "s3://a-b/c")
    };
    let request = Requests::new(&at_aws).unwrap().get("packs/a", None);
    assert!(
        request
            .url
            .as_str()
            .starts_with("https://a-b.s3.eu-west-1.amazonaws.com/c/packs/a?"),
        "{}",
        request.url
    );
    let nowhere = S3Settings {
        region: "a/b".to_owned(),
        ..at_aws
    };
    assert!(S3::new(nowhere).is_err());
    assert_eq!(request::seconds("2030-03-17T17:46:40Z"), Some(1_900_000_000));
    assert_eq!(request::seconds("2030-03-17T17:46:40.250Z"), Some(1_900_000_001));
    assert_eq!(request::seconds("tomorrow"), None);
}
