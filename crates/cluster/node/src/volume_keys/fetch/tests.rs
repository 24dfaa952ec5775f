use super::*;
use crate::volume_keys::records::Records;
use amita_crypt::{HttpResponse, Provider, SealedFile};
use amita_metadata::model::State;
use amita_metadata::{Call, Transact};
use amita_types::map::{KeyNumber, secret_key};
use amita_types::{Generation, VolumeId};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use zeroize::Zeroizing;

fn name(image: u64) -> KeyName {
    KeyName {
        volume: VolumeId(image),
        image: VolumeId(image),
        number: KeyNumber(1),
    }
}

/// The bytes of that image's data key.
fn bytes(image: u64) -> Vec<u8> {
    let mut bytes = vec![image as u8; 64];
    bytes[..32].fill(0);
    bytes
}

/// Its record, as if Vault had wrapped it.
fn record(image: u64) -> String {
    let key = DataKey::from_bytes(&bytes(image)).unwrap();
    let binding = Binding {
        tenant: None,
        key: name(image),
    };
    let mut file = SealedFile::new(vec![Zeroizing::new([7; 32])]).unwrap();
    let wrapped = file.wrap(&binding, &key, &mut |bytes| bytes.fill(1)).unwrap();
    let text = wrapped.done().unwrap().to_text();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    record["by"] = serde_json::json!({"transit": {"mount": "transit", "key": "amita", "wrapped": "vault:v1:AAAA"}});
    WrappedKey::parse(&record.to_string()).unwrap().to_text()
}

/// What Vault answers to who asks for that one.
fn answer(image: u64) -> Result<Response, Trouble> {
    let body = serde_json::json!({"data": {"plaintext": STANDARD.encode(bytes(image))}});
    Ok(Response::Http(HttpResponse {
        status: 200,
        body: Zeroizing::new(body.to_string().into_bytes()),
    }))
}

/// Whom all is asked of, and who never answers; what is asked, and a ring of images 1 and 2 beside that of 1 alone.
struct World {
    fetcher: Fetcher,
    alone: KeyRing,
    both: KeyRing,
    _words: Receiver<Word>,
    _silent: TcpListener,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (path, token) = (folder.path().join("volume.keys"), folder.path().join("token"));
        let line = format!(
            "vault:http://{} key=amita token-file={}\n",
            silent.local_addr().unwrap(),
            token.display()
        );
        for (path, text) in [(&path, line.as_str()), (&token, "hvs.one\n")] {
            std::fs::write(path, text).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let meta = Arc::new(Mutex::new(State::new()));
        for image in 1..=2 {
            let call = Call::put(secret_key(name(image)), record(image).into_bytes());
            meta.txn(&call).unwrap();
        }
        let meta: Arc<dyn Records> = meta;
        let (words, told) = channel();
        let fetcher = Fetcher::new(KeyFile::at(path), Kept::new(meta), Arc::default(), words);
        let alone = KeyRing::new(name(1));
        let both = alone.cloned(Generation(3), Generation(4), name(2)).unwrap();
        World {
            fetcher,
            alone,
            both,
            _words: told,
            _silent: silent,
            _folder: folder,
        }
    }

    fn fetch(&mut self, rings: &[KeyRing]) {
        let wanted = |ring: &KeyRing| {
            let held = (ring.clone(), Held::Coming);
            lock(&self.fetcher.known).0.insert(ring.newest().key, held);
            let ring = ring.clone();
            Wanted { ring, is_new: true }
        };
        let wanted = rings.iter().map(wanted).collect();
        self.fetcher.fetch(wanted);
    }

    /// The question for that one's key.
    fn of(&self, image: u64) -> Option<(Of, u64, Arc<AtomicBool>)> {
        let (of, found) = self
            .fetcher
            .under_way
            .iter()
            .find(|((_, text), _)| *text == record(image))?;
        Some((of.clone(), found.number, found.asking.upgrade()?.wanted()))
    }

    fn answer(&mut self, image: u64, answer: &Result<Response, Trouble>) {
        let (of, number, _) = self.of(image).unwrap();
        self.fetcher.answered(&of, number, answer);
    }

    fn is_here(&self, ring: &KeyRing) -> bool {
        let known = lock(&self.fetcher.known);
        matches!(known.0[&ring.newest().key].1, Held::Here { .. })
    }
}

#[test]
fn one_key_of_many_rings_is_asked_for_once() {
    let mut world = World::new();
    let (alone, both) = (world.alone.clone(), world.both.clone());
    world.fetch(&[alone.clone(), both.clone()]);
    assert_eq!(world.fetcher.under_way.len(), 2);
    world.answer(1, &answer(1));
    assert!(world.is_here(&alone) && !world.is_here(&both));
    world.answer(2, &answer(2));
    assert!(world.is_here(&both));
    assert!(world.fetcher.under_way.is_empty() && world.fetcher.gathering.is_empty());
}

#[test]
fn nobody_is_asked_for_what_nobody_waits_for() {
    let mut world = World::new();
    let (alone, both) = (world.alone.clone(), world.both.clone());
    world.fetch(&[alone.clone(), both.clone()]);
    let (_, old, first) = world.of(1).unwrap();
    let refused = Trouble {
        why: "no".to_owned(),
        is_passing: false,
    };
    world.answer(2, &Err(refused));
    assert!(first.load(Ordering::Relaxed), "the other one waits for it still");
    // Its time is over.
    for found in world.fetcher.gathering.values_mut() {
        found.until = Instant::now();
    }
    world.fetcher.forget();
    assert!(!first.load(Ordering::Relaxed) && world.fetcher.under_way.is_empty());
    // Asked again, it is another question: what comes of the first one is nobody's.
    world.fetch(std::slice::from_ref(&alone));
    let (of, number, wanted) = world.of(1).unwrap();
    assert!(number != old && wanted.load(Ordering::Relaxed));
    world.fetcher.answered(&of, old, &answer(1));
    assert!(!world.is_here(&alone));
    world.fetcher.answered(&of, number, &answer(1));
    assert!(world.is_here(&alone));
}

#[test]
fn each_answer_gives_the_next_one_its_time() {
    let mut world = World::new();
    let both = world.both.clone();
    world.fetch(std::slice::from_ref(&both));
    let soon = Instant::now() + Duration::from_secs(1);
    for found in world.fetcher.gathering.values_mut() {
        found.until = soon;
    }
    world.answer(1, &answer(1));
    let until = world.fetcher.gathering.values().map(|found| found.until);
    assert!(until.min().unwrap() > soon + ASKED_FOR / 2);
}
