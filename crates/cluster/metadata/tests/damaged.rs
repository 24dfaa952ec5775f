//! A file whose pages are rotten: whether redb refuses it or asserts on it, somebody is told what to do. Alone in its binary,
//! because a logger is the whole process's.

use amita_metadata::server::{self, Config};
use amita_metadata::{Call, Client};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

static SAID: Mutex<String> = Mutex::new(String::new());

struct Memory;

impl log::Log for Memory {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        SAID.lock()
            .expect("nobody panics here")
            .push_str(&format!("{}\n", record.args()));
    }
    fn flush(&self) {}
}

#[test]
fn a_damaged_file_names_the_way_to_rebuild_the_metadata() {
    log::set_logger(&Memory).expect("the only one");
    log::set_max_level(log::LevelFilter::Info);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("metadata.redb");
    let config = || Config::new("127.0.0.1:0".parse().expect("an address"), &path);
    let handle = server::start(config()).expect("it starts");
    let client = Client::connect(&[handle.address().to_string()]).expect("an endpoint");
    for number in 0..200 {
        client
            .txn(&Call::put(format!("/amita/test/{number:05}"), vec![7; 300]))
            .expect("written");
    }
    handle.stop();
    let whole = std::fs::read(&path).expect("read");
    let mut refused = 0;
    // Rotten in many places, and in few.
    for step in [97, 997, 9_973] {
        let mut bytes = whole.clone();
        for byte in bytes.iter_mut().skip(4096).step_by(step) {
            *byte = !*byte;
        }
        std::fs::write(&path, bytes).expect("written");
        SAID.lock().expect("nobody panics here").clear();
        let said = match catch_unwind(AssertUnwindSafe(|| server::start(config()))) {
            // What is rotten was never read: it is found when it is.
            Ok(Ok(handle)) => {
                handle.stop();
                continue;
            }
            Ok(Err(why)) => why.to_string(),
            Err(_) => SAID.lock().expect("nobody panics here").clone(),
        };
        refused += 1;
        assert!(said.contains("recover --from-stores"), "every {step}th byte: {said}");
    }
    assert!(refused > 0, "nothing was found");
}
