//! The file cannot be written any more: what was acknowledged is there, and it goes on by itself when it can. Alone in its
//! binary, because the limit on files is the whole process's.

use amita_metadata::server::{self, Config};
use amita_metadata::{Call, Client, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_commit_that_fails_costs_nothing_that_was_acknowledged_and_is_got_over() {
    // Caught, so that it does not end the process: the write fails instead (EFBIG).
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).expect("a handler");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("metadata.redb");
    let config = Config::new("127.0.0.1:0".parse().expect("an address"), &path);
    let handle = server::start(config).expect("it starts");
    let options = Options {
        timeout: Duration::from_secs(3),
        ..Options::default()
    };
    let client = Client::connect_with(&[handle.address().to_string()], options).expect("an endpoint");
    let put = |number: u64| {
        client.txn(&Call::put(
            format!("/amita/test/{number:05}"),
            vec![number as u8; 64 << 10],
        ))
    };
    put(0).expect("there is room");

    let before = getrlimit(Resource::Fsize);
    let length = std::fs::metadata(&path).expect("the file").len();
    let limit = Rlimit {
        current: Some(length + (1 << 20)),
        maximum: before.maximum,
    };
    setrlimit(Resource::Fsize, limit).expect("set");
    let failed = (1..10_000).find(|&number| put(number).is_err());
    let failed = failed.expect("10,000 values of 64 KiB do not fit");
    setrlimit(Resource::Fsize, before).expect("set back");

    let keys = eventually("it reads again", || {
        let reply = client.txn(&Call::prefix("/amita/test/")).ok()?;
        Some(reply.values(0).len() as u64)
    });
    assert!(
        keys == failed || keys == failed + 1,
        "{failed} were acknowledged, and {keys} are there: one more may be"
    );
    eventually("it writes again", || put(20_000).ok());
    handle.stop();
    // And that is what the file has.
    let again = server::start(Config::new("127.0.0.1:0".parse().expect("an address"), &path)).expect("it starts");
    let client = Client::connect(&[again.address().to_string()]).expect("an endpoint");
    let reply = client.txn(&Call::prefix("/amita/test/")).expect("read");
    assert!(reply.values(0).len() as u64 > failed);
    again.stop();
}
