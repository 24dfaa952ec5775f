//! The thread, without the thread: on metadata in memory.

use super::*;
use amita_metadata::model::State;
use std::path::Path;
use std::sync::Mutex;

fn sources(node: u32) -> Sources {
    Sources {
        node: NodeId(node),
        program: "0.1.0".to_owned(),
        metadata_addresses: 1,
        stores: vec![PathBuf::from("/no/such/store")],
        serving: Vec::new(),
        settings: Vec::new(),
        certificate: Box::new(|| None),
        figures: Box::new(|| Err("nobody counts here".to_owned())),
        leads: Box::new(|| false),
    }
}

fn revision(meta: &Mutex<State>, key: &str) -> Option<u64> {
    let reply = meta.txn(&Call::get(key)).expect("memory");
    reply.value(0).map(|record| record.mod_revision)
}

/// Tells until the disks have been looked at.
fn tell(teller: &mut Teller, meta: &dyn Transact) {
    teller.tell(meta);
    while teller.looking_since.is_some() {
        std::thread::sleep(Duration::from_millis(1));
        teller.tell(meta);
    }
}

fn facts(meta: &Mutex<State>) -> Option<Inventory> {
    let reply = meta.txn(&Call::get(facts_key(NodeId(1)))).expect("memory");
    let record = reply.value(0)?;
    Some(Inventory::decode(&record.value).expect("an inventory"))
}

#[test]
fn facts_are_written_once_and_again_when_they_have_changed() {
    let meta = Mutex::new(State::new());
    let mut teller = Teller::new(sources(1), Root::default());
    tell(&mut teller, &meta);
    let key = facts_key(NodeId(1));
    let first = revision(&meta, &key).expect("facts");
    let inventory = facts(&meta).expect("facts");
    assert!(
        inventory.disks[0]
            .device
            .get()
            .expect_err("no store")
            .contains("/no/such/store")
    );
    assert!(revision(&meta, &clock_key(NodeId(1))).is_some());
    teller.read_at = None;
    tell(&mut teller, &meta);
    assert_eq!(revision(&meta, &key), Some(first), "nothing has changed");
    teller.sources.metadata_addresses = 3;
    teller.read_at = None;
    tell(&mut teller, &meta);
    assert!(revision(&meta, &key) > Some(first));
}

#[test]
fn a_process_that_comes_after_another_goes_on_with_the_past_of_its_disks() {
    let meta = Mutex::new(State::new());
    tell(&mut Teller::new(sources(1), Root::default()), &meta);
    let key = facts_key(NodeId(1));
    let mut known = facts(&meta).expect("facts");
    known.disks[0].samples = vec![crate::inventory::Sample {
        at: known.taken_at - 3 * 24 * 3600,
        used_bytes: Some(5),
        worn_percent: None,
        read_p99_us: None,
        write_p99_us: None,
        pending: None,
        reallocated: None,
        uncorrectable: None,
    }];
    meta.txn(&Call::put(key.as_str(), known.encode())).expect("memory");
    tell(&mut Teller::new(sources(1), Root::default()), &meta);
    let now = facts(&meta).expect("facts");
    assert_eq!(now.disks[0].samples.len(), 2, "{:?}", now.disks[0].samples);
    assert_eq!(now.disks[0].samples[0].used_bytes, Some(5));
}

#[test]
fn a_neighbour_that_has_just_come_is_answered_and_compared() {
    let meta = Mutex::new(State::new());
    let mut teller = Teller::new(sources(1), Root::default());
    tell(&mut teller, &meta);
    let own = revision(&meta, &clock_key(NodeId(1)));
    let stamp = serde_json::to_vec(&Stamp { at_ms: 5000 }).expect("JSON");
    meta.txn(&Call::put(clock_key(NodeId(2)), stamp)).expect("memory");
    let record = meta.txn(&Call::get(clock_key(NodeId(2)))).expect("memory");
    let event = Event::Put(record.value(0).expect("a stamp").clone());
    teller.hear(&event, 5020);
    assert!(teller.answer && teller.tell_at.is_some());
    teller.stamped_at = Instant::now().checked_sub(ANSWER_EVERY);
    teller.tell(&meta);
    assert!(revision(&meta, &clock_key(NodeId(1))) > own, "it is answered");
    assert_eq!(teller.sights.least()[0].least_ms, 20);
    // Its own stamps, and what is no stamp, say nothing.
    let own = meta.txn(&Call::get(clock_key(NodeId(1)))).expect("memory");
    teller.hear(&Event::Put(own.value(0).expect("a stamp").clone()), 9000);
    assert_eq!(teller.sights.least().len(), 1);
}

#[test]
fn metadata_that_is_away_is_no_matter() {
    struct Away;
    impl Transact for Away {
        fn txn(&self, _: &Call) -> Result<amita_metadata::Reply, amita_metadata::Error> {
            Err(amita_metadata::Error::Unavailable {
                what: "gone".to_owned(),
                endpoints: "127.0.0.1:1".to_owned(),
            })
        }
    }
    let mut teller = Teller::new(sources(1), Root::default());
    tell(&mut teller, &Away);
    assert!(teller.written.is_none());
}

#[test]
fn a_disk_that_hangs_holds_up_neither_the_clock_nor_what_is_told_of_the_others() {
    let meta = Mutex::new(State::new());
    let mut sources = sources(1);
    sources.stores = ["/hangs", "/well"].map(PathBuf::from).to_vec();
    let mut teller = Teller::new(sources, Root::default());
    // It hangs for as long as the test runs.
    let (_hold, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let (say, said) = std::sync::mpsc::channel();
    teller.looks = Looks::by(move |path| {
        if path.ends_with("hangs") {
            let _ = held.lock().expect("a lock").recv();
        }
        let _ = say.send(());
        Ok(crate::inventory::tests::device("nvme0n1"))
    });
    teller.tell(&meta);
    let first = revision(&meta, &clock_key(NodeId(1))).expect("a stamp at once");
    assert!(facts(&meta).is_none() && teller.looking_since.is_some());
    teller.stamped_at = None;
    teller.tell(&meta);
    assert!(
        revision(&meta, &clock_key(NodeId(1))) > Some(first),
        "and again meanwhile"
    );
    said.recv().expect("the other disk is looked at");
    // The other look may not have handed over yet what it found.
    while teller.looks.found(Path::new("/well")).is_err() {
        assert!(!teller.looks.have_ended());
        std::thread::sleep(Duration::from_millis(1));
    }
    teller.looking_since = Instant::now().checked_sub(PATIENCE);
    teller.tell(&meta);
    let told = facts(&meta).expect("facts");
    assert!(told.disks[0].device.get().expect_err("it hangs").contains("hangs"));
    assert_eq!(told.disks[1].device.get().expect("a device").name, "nvme0n1");
}

#[test]
fn a_disk_that_answers_late_is_known_in_the_next_round() {
    let meta = Mutex::new(State::new());
    let mut teller = Teller::new(sources(1), Root::default());
    let (free, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    teller.looks = Looks::by(move |_| {
        let _ = held.lock().expect("a lock").recv();
        Ok(crate::inventory::tests::device("sda"))
    });
    let mut round = || {
        teller.read_at = None;
        teller.tell(&meta);
        if teller.looking_since.is_some() {
            teller.looking_since = Instant::now().checked_sub(PATIENCE);
            teller.tell(&meta);
        }
        assert!(teller.looking_since.is_none());
        facts(&meta).expect("facts").disks.remove(0).device
    };
    assert!(round().get().expect_err("it is late").contains("hangs"));
    free.send(()).expect("somebody waits");
    // It ends some time, between rounds nearly always, and the look of the round that finds it so hangs again.
    let mut told = round();
    while told.get().is_err() {
        std::thread::sleep(Duration::from_millis(1));
        told = round();
    }
    assert_eq!(told.get().expect("a device").name, "sda");
}
