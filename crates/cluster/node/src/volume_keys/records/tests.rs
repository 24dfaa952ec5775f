use super::*;
use amita_metadata::model::State;
use amita_metadata::{Error, Reply};
use amita_types::map::KeyNumber;
use amita_types::{Generation, VolumeId};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What a watch tells, the last first.
type News = Arc<Mutex<Vec<Result<Vec<String>, Missed>>>>;

/// The metadata, how often they were asked, and what they tell of.
struct Counted {
    state: Mutex<State>,
    calls: AtomicUsize,
    away: AtomicBool,
    told: News,
    watched: AtomicUsize,
}

impl Counted {
    fn new() -> Arc<Counted> {
        Arc::new(Counted {
            state: Mutex::new(State::new()),
            calls: AtomicUsize::new(0),
            away: AtomicBool::new(false),
            told: Arc::default(),
            watched: AtomicUsize::new(0),
        })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    fn put(&self, image: u64, text: &str) {
        let call = Call::put(secret_key(name(image)), text.to_owned().into_bytes());
        self.state.txn(&call).unwrap();
    }
}

impl Transact for Counted {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.away.load(Ordering::Relaxed) {
            return Err(Error::Unavailable {
                what: "it is away".to_owned(),
                endpoints: "nowhere".to_owned(),
            });
        }
        self.state.txn(call)
    }
}

struct Told(News);

impl Changes for Told {
    fn changed(&mut self) -> Result<Vec<String>, Missed> {
        self.0.lock().unwrap().pop().unwrap_or(Ok(Vec::new()))
    }
}

impl Records for Counted {
    fn changes(&self, _: u64) -> Option<Box<dyn Changes>> {
        self.watched.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(Told(Arc::clone(&self.told))))
    }
}

fn name(image: u64) -> KeyName {
    KeyName {
        volume: VolumeId(image),
        image: VolumeId(image),
        number: KeyNumber(1),
    }
}

#[test]
fn the_keys_of_many_volumes_are_read_by_few_calls() {
    let meta = Counted::new();
    for image in (1..=200).filter(|image| *image != 7) {
        meta.put(image, &image.to_string());
    }
    let mut kept = Kept::new(meta.clone());
    // Clones share what they came from: it is read once.
    let parent = KeyRing::new(name(1));
    let rings: Vec<(KeyRing, bool)> = (2..=200)
        .map(|image| parent.cloned(Generation(3), Generation(4), name(image)).unwrap())
        .map(|ring| (ring, true))
        .collect();
    let records = kept.get(&rings, Instant::now());
    assert_eq!((records.len(), meta.calls()), (200, 3));
    for (key, record) in &records {
        let expected = Some(key.image.0.to_string().into_bytes()).filter(|_| key.image != VolumeId(7));
        assert_eq!(*record, Ok(expected), "{key}");
    }
    // Nobody waits for what is away more than once.
    meta.away.store(true, Ordering::Relaxed);
    let records = kept.get(&rings, Instant::now());
    assert_eq!((records.len(), meta.calls()), (200, 4));
    assert!(
        records
            .values()
            .all(|record| record.as_ref().is_err_and(|why| why.contains("away")))
    );
}

#[test]
fn what_waits_is_read_again_when_it_has_changed() {
    let meta = Counted::new();
    meta.put(1, "one");
    meta.put(2, "two");
    let mut kept = Kept::new(meta.clone());
    let now = Instant::now();
    let rings: Vec<(KeyRing, bool)> = [1, 2].map(|image| (KeyRing::new(name(image)), false)).into();
    let text = |found: &Found, image: u64| String::from_utf8(found[&name(image)].clone().unwrap().unwrap()).unwrap();
    for _ in 0..1000 {
        assert_eq!(text(&kept.get(&rings, now), 1), "one");
    }
    assert_eq!((meta.calls(), meta.watched.load(Ordering::Relaxed)), (1, 1));
    meta.put(1, "wrapped anew");
    meta.told.lock().unwrap().push(Ok(vec![secret_key(name(1))]));
    let found = kept.get(&rings, now);
    assert_eq!(
        (text(&found, 1).as_str(), text(&found, 2).as_str(), meta.calls()),
        ("wrapped anew", "two", 2)
    );
    // Who opens it goes by what there is now.
    kept.get(&[(KeyRing::new(name(1)), true)], now);
    assert_eq!(meta.calls(), 3);
    // What was missed may be anything; and what nobody tells of is found some time.
    meta.told.lock().unwrap().push(Err(Missed));
    kept.get(&rings, now);
    assert_eq!((meta.calls(), meta.watched.load(Ordering::Relaxed)), (4, 2));
    kept.get(&rings, now + READ_AGAIN);
    assert_eq!(meta.calls(), 5);
    // Nothing is kept for who has it, or does not want it.
    kept.keep(&BTreeSet::from([name(2)]));
    kept.get(&rings[1..], now + READ_AGAIN);
    assert_eq!(meta.calls(), 5);
    kept.keep(&BTreeSet::new());
    assert!(kept.changes.is_none());
    kept.get(&rings[1..], now + READ_AGAIN);
    assert_eq!(meta.calls(), 6);
}
