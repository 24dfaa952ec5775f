//! Keys that Vault keeps, asked of a Vault of the test's own (`fake.rs`).

mod fake;

use super::*;
use crate::volume_keys::keeper::{Asking, FIRST_PAUSE, LONGEST_PAUSE, Told};
use crate::volume_keys::{Changes, KeyFile, Records, VolumeKeys};
use amita_control::admin::{DataKeys, KeyTrouble, Rewrap};
use amita_crypt::{Binding, DataKey, Keys, NotNow, Provider, WrappedKey};
use amita_keys::SealKey;
use amita_metadata::model::State;
use amita_metadata::{Call, Error, Reply, Transact};
use amita_types::map::{KeyName, KeyNumber, KeyRing, secret_key};
use amita_types::{ClusterId, VolumeId};
use fake::{Authority, Fake, Mood};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use tempfile::TempDir;

const CLUSTER: ClusterId = ClusterId(7);
/// What is waited for comes within this, whatever else the machine does.
const LONG: Duration = Duration::from_secs(60);
const ENCRYPT: &str = "POST /v1/transit/encrypt/amita";
const DECRYPT: &str = "POST /v1/transit/decrypt/amita";
const LOOK_UP: &str = "GET /v1/auth/token/lookup-self";
const RENEW: &str = "POST /v1/auth/token/renew-self";

fn binding(image: u64) -> Binding {
    Binding {
        tenant: None,
        key: KeyName {
            volume: VolumeId(image),
            image: VolumeId(image),
            number: KeyNumber(1),
        },
    }
}

/// A Vault, and a node's files.
struct World {
    fake: Fake,
    folder: TempDir,
    is_tls: bool,
}

impl World {
    fn new(is_tls: bool) -> World {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("127.0.0.1");
        let fake = Fake::start(is_tls.then_some(&authority));
        let world = World { fake, folder, is_tls };
        std::fs::write(world.path("ca.pem"), &authority.pem).unwrap();
        world.allow("ca.pem", 0o644);
        world.secret("token", "hvs.one\n");
        world.secret("volume.keys", &world.line(""));
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn secret(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        self.allow(name, 0o600);
    }

    fn allow(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn place(&self) -> Place {
        let line = self.line("");
        Place::parse(line.trim_end().strip_prefix("vault:").unwrap()).unwrap()
    }

    fn line(&self, more: &str) -> String {
        let (address, token, ca) = (self.fake.address, self.path("token"), self.path("ca.pem"));
        let (token, ca) = (token.display(), ca.display());
        let key = if more.contains("key=") { "" } else { "key=amita" };
        match self.is_tls {
            true => format!("vault:https://{address} {key} token-file={token} ca-file={ca} {more}\n"),
            false => format!("vault:http://{address} {key} token-file={token} {more}\n"),
        }
    }

    fn file(&self) -> KeyFile {
        KeyFile::at(self.path("volume.keys"))
    }

    fn make(&self, file: &KeyFile, image: u64) -> Result<WrappedKey, String> {
        file.make(CLUSTER, None, &binding(image))
    }

    fn worker(&self) -> Worker {
        let place = self.place();
        Worker {
            name: "Vault".to_owned(),
            read: None,
            ails: None,
            way: Way::new(place.clone()),
            token: Token::new(Instant::now()),
            place,
            pause: Pause::default(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        }
    }

    /// Wraps by one question of a worker's.
    fn wrap(&self, worker: &mut Worker) -> Result<WrappedKey, String> {
        let mut provider = worker.place.provider()?;
        let key = DataKey::generate(&mut amita_keys::system_random);
        let question = provider.wrap(&binding(1), &key, &mut amita_keys::system_random);
        let amita_crypt::Next::Ask(question) = question.unwrap() else {
            panic!("nobody is asked");
        };
        let (request, finish) = question.into_parts();
        let answer = worker.carry(&request).map_err(|trouble| trouble.why)?;
        finish(&answer).map_err(|why| why.to_string())
    }
}

#[test]
fn vault_wraps_and_unwraps_by_tls_and_one_connection() {
    let world = World::new(true);
    let file = world.file();
    let wrapped = world.make(&file, 1).unwrap();
    assert_eq!(wrapped.wrapped_by(), "transit transit/amita v1");
    let opened = file.unwrap(&binding(1), &wrapped).unwrap();
    assert_eq!(opened.check_value(), wrapped.check_value());
    assert!(file.is_of(&wrapped.wrapping_key()).unwrap());
    file.answers().unwrap();
    assert!(!file.keeps(), "nothing is kept of the file");
    // Whether it binds what it wraps; the key, and that it opens; the key; whether it binds it still.
    let asked = [ENCRYPT, DECRYPT, ENCRYPT, DECRYPT, DECRYPT, ENCRYPT, DECRYPT];
    assert_eq!(world.fake.asked(), asked);
    assert_eq!(world.fake.state().connections, 1);
    // It is bound to its place, and to the cluster.
    let moved = wrapped.to_text().replace("\"image\":1", "\"image\":2");
    let moved = WrappedKey::parse(&moved).unwrap();
    let refused = file.unwrap(moved.binding(), &moved).unwrap_err();
    assert!(refused.contains("the record was changed"), "{refused}");
    let other = world.file().of_cluster(ClusterId(8));
    let refused = other.unwrap(&binding(1), &wrapped).unwrap_err();
    assert!(refused.contains("another one's metadata"), "{refused}");
    world.fake.check();
}

#[test]
fn who_is_not_vouched_for_is_not_vault() {
    let world = World::new(true);
    std::fs::write(world.path("ca.pem"), Authority::new("127.0.0.1").pem).unwrap();
    let mut worker = world.worker();
    let refused = world.wrap(&mut worker).unwrap_err();
    assert!(refused.contains("TLS fails"), "{refused}");
    assert!(world.fake.asked().is_empty(), "he gets no token");
    for (text, why) in [
        ("", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n", "ca-file"),
    ] {
        std::fs::write(world.path("ca.pem"), text).unwrap();
        let refused = world.wrap(&mut world.worker()).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    std::fs::remove_file(world.path("ca.pem")).unwrap();
    let refused = world.wrap(&mut world.worker()).unwrap_err();
    assert!(refused.contains("ca-file is of no use"), "{refused}");
}

#[test]
fn what_vault_says_is_told_with_what_to_do() {
    let world = World::new(false);
    let mut worker = world.worker();
    let asked = |worker: &mut Worker, why: &str, what: &str| {
        // As if the pause were over.
        worker.pause = Pause::default();
        let refused = world.wrap(worker).unwrap_err();
        assert!(refused.contains(why) && refused.contains(what), "{refused}");
    };
    world.fake.set(Mood::Sealed);
    asked(&mut worker, "Vault is sealed", "unseal it");
    world.fake.set(Mood::Busy);
    asked(&mut worker, "quota exceeded", "asked again by and by");
    world.fake.set(Mood::Well);
    world.fake.state().token = "hvs.two".to_owned();
    asked(&mut worker, "permission denied", "put a new token into its file");
    // Another token in its file ends the pause; that is seen soon, and not for each question.
    let held = world.wrap(&mut worker).unwrap_err();
    assert!(held.contains("permission denied"), "{held}");
    world.secret("token", "hvs.two");
    worker.read = None;
    world.wrap(&mut worker).unwrap();
    for (text, why) in [("two words\n", "visible ASCII"), ("", "visible ASCII")] {
        world.secret("token", text);
        asked(&mut worker, "token-file", why);
    }
    std::fs::set_permissions(world.path("token"), std::fs::Permissions::from_mode(0o644)).unwrap();
    asked(&mut worker, "token-file", "chmod 600");
    std::fs::remove_file(world.path("token")).unwrap();
    asked(&mut worker, "token-file", "cannot be read");
    world.secret("token", "hvs.two\n");
    let versions = world.fake.state().keys.remove("transit/amita").unwrap();
    world
        .fake
        .state()
        .keys
        .insert("transit/other".to_owned(), versions.clone());
    asked(&mut worker, "encryption key not found", "make it");
    world.fake.state().keys = [("kms/eu/amita".to_owned(), versions)].into();
    asked(&mut worker, "no handler for route", "mounted there?");
    // At another mount, and in a namespace.
    world.fake.state().namespace = Some("team/storage".to_owned());
    world.secret("volume.keys", &world.line("mount=kms/eu namespace=team/storage"));
    let wrapped = world.make(&world.file(), 1).unwrap();
    assert_eq!(wrapped.wrapped_by(), "transit kms/eu/amita v1");
    world.fake.check();
}

#[test]
fn a_vault_that_is_away_is_not_asked_by_everybody_and_comes_back() {
    let world = World::new(false);
    let mut worker = world.worker();
    world.wrap(&mut worker).unwrap();
    world.fake.set(Mood::Away);
    world.fake.cut();
    let first = world.wrap(&mut worker).unwrap_err();
    let connections = world.fake.state().connections;
    for _ in 0..100 {
        assert_eq!(world.wrap(&mut worker).unwrap_err(), first, "it is told at once");
    }
    assert_eq!(world.fake.state().connections, connections);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let now = Instant::now();
        let trouble = Trouble {
            why: "x".to_owned(),
            is_passing: true,
        };
        worker.pause.begin(now, trouble);
        pauses.push(worker.pause.until.as_ref().unwrap().0 - now);
    }
    assert!(
        pauses.is_sorted() && pauses[0] > FIRST_PAUSE && pauses[11] == LONGEST_PAUSE,
        "{pauses:?}"
    );
    // The pause is over.
    world.fake.set(Mood::Well);
    worker.pause.until = None;
    world.wrap(&mut worker).unwrap();
    assert_eq!(worker.pause.failed, 0);
    // A connection that was closed meanwhile is no trouble.
    world.fake.cut();
    world.wrap(&mut worker).unwrap();
    world.fake.check();
}

#[test]
fn who_waits_asks_again_until_vault_answers() {
    let world = World::new(false);
    world.fake.set(Mood::Sealed);
    let file = world.file();
    let made = std::thread::scope(|scope| {
        let made = scope.spawn(|| world.make(&file, 1));
        let began = Instant::now();
        while world.fake.state().asked.is_empty() {
            assert!(began.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(2));
        }
        world.fake.set(Mood::Well);
        made.join().unwrap()
    });
    assert!(made.is_ok(), "{made:?}");
    world.fake.check();
}

#[test]
fn keys_go_from_a_file_to_vault_and_on_to_its_next_version() {
    let world = World::new(false);
    SealKey::generate().save(&world.path("one")).unwrap();
    let sealed = std::fs::read_to_string(world.path("one")).unwrap();
    world.secret("volume.keys", &format!("{sealed}{}", world.line("")));
    let file = world.file();
    let old = world.make(&file, 1).unwrap();
    assert!(old.wrapped_by().starts_with("sealed-file"));
    world.secret("volume.keys", &format!("{}{sealed}", world.line("")));
    let to = file.to(Some(&old.wrapping_key())).unwrap();
    assert!(to.is_kept_elsewhere());
    let new = file.rewrap(CLUSTER, &to, &old).unwrap();
    assert_eq!((new.wrapping_key(), new.check_value()), (to.clone(), old.check_value()));
    assert!(!file.is_older(&to, &new) && !file.is_older(&to, &old));
    // By Vault alone it opens.
    world.secret("volume.keys", &world.line(""));
    file.unwrap(&binding(1), &new).unwrap();
    world.fake.rotate();
    assert!(!file.is_older(&to, &new), "nobody has asked");
    assert_eq!(file.to(Some(&to)).unwrap(), to);
    assert!(file.is_older(&to, &new));
    let newer = file.rewrap(CLUSTER, &to, &new).unwrap();
    assert_eq!(newer.wrapped_by(), "transit transit/amita v2");
    assert!(!file.is_older(&to, &newer));
    file.unwrap(&binding(1), &newer).unwrap();
    world.fake.check();
}

#[test]
fn what_is_no_answer_of_vaults_is_an_error_and_leads_nowhere() {
    let world = World::new(false);
    let mut worker = world.worker();
    for (mood, why) in [
        (Mood::Cut, "cut off, or too long"),
        (Mood::Talks, "cut off, or too long"),
        (Mood::Leads, "it leads elsewhere, and is not followed"),
    ] {
        world.fake.set(mood);
        world.fake.asked();
        worker.pause = Pause::default();
        let refused = world.wrap(&mut worker).unwrap_err();
        assert!(refused.contains(why), "{mood:?}: {refused}");
        let asked = world.fake.asked();
        assert!(asked.iter().all(|asked| asked == ENCRYPT), "{asked:?}");
        world.fake.set(Mood::Well);
        worker.pause = Pause::default();
        world.wrap(&mut worker).unwrap();
    }
    world.fake.check();
}

/// The metadata of a test.
struct Meta(Mutex<State>);

impl Transact for Meta {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        self.0.txn(call)
    }
}

impl Records for Meta {
    fn changes(&self, _: u64) -> Option<Box<dyn Changes>> {
        None
    }
}

fn keep(meta: &Meta, wrapped: &WrappedKey) {
    let call = Call::put(secret_key(wrapped.binding().key), wrapped.to_text().into_bytes());
    meta.txn(&call).unwrap();
}

/// Asks until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_volume_waits_for_a_vault_that_is_away_at_start_says_so_and_opens_when_it_comes() {
    let world = World::new(false);
    let meta = Arc::new(Meta(Mutex::new(State::new())));
    keep(&meta, &world.make(&world.file(), 1).unwrap());
    world.fake.set(Mood::Away);
    let keys = VolumeKeys::start(world.file().of_cluster(CLUSTER), meta.clone()).unwrap();
    let ring = KeyRing::new(binding(1).key);
    assert_eq!(keys.keychain(&ring).unwrap_err(), NotNow::Coming);
    until("it says why", || keys.missing(&ring).is_some());
    let why = keys.missing(&ring).unwrap();
    let address = world.fake.address.to_string();
    assert!(why.contains("Vault at http://") && why.contains(&address), "{why}");
    world.fake.set(Mood::Well);
    until("it opens", || {
        let _ = keys.missing(&ring);
        keys.keychain(&ring).is_ok()
    });
    world.fake.check();
}

#[test]
fn a_vault_that_hangs_keeps_nobody_waiting_who_has_another_key() {
    let world = World::new(false);
    SealKey::generate().save(&world.path("one")).unwrap();
    let sealed = std::fs::read_to_string(world.path("one")).unwrap();
    let meta = Arc::new(Meta(Mutex::new(State::new())));
    keep(&meta, &world.make(&world.file(), 1).unwrap());
    world.secret("volume.keys", &format!("{sealed}{}", world.line("")));
    for image in 2..10 {
        keep(&meta, &world.make(&world.file(), image).unwrap());
    }
    world.fake.set(Mood::Hangs);
    world.fake.asked();
    let keys = VolumeKeys::start(world.file(), meta.clone()).unwrap();
    let hangs = KeyRing::new(binding(1).key);
    assert_eq!(keys.keychain(&hangs).unwrap_err(), NotNow::Coming);
    until("it hangs", || world.fake.state().asked == [DECRYPT]);
    for image in 2..10 {
        let ring = KeyRing::new(binding(image).key);
        until("the others come", || keys.keychain(&ring).is_ok());
    }
    // Within the time that it may take, or asked again behind it.
    world.fake.set(Mood::Well);
    world.fake.answer_now();
    until("it comes", || keys.keychain(&hangs).is_ok());
    world.fake.check();
}

#[test]
fn a_token_that_ends_is_renewed_at_half_of_its_time() {
    let world = World::new(false);
    let mut worker = world.worker();
    world.wrap(&mut worker).unwrap();
    let due = |worker: &Worker| worker.token.left(Instant::now()).unwrap_or(Duration::MAX);
    assert!(due(&worker) < Duration::from_secs(3), "it is looked up soon");
    // One that never ends is left alone.
    token::keep(&mut worker);
    assert_eq!(world.fake.asked(), [ENCRYPT, LOOK_UP]);
    assert!(due(&worker) > Duration::from_secs(3600));
    // Another one stands in the file.
    {
        let mut state = world.fake.state();
        (state.token, state.ttl, state.renewable) = ("hvs.two".to_owned(), 1000, true);
    }
    world.secret("token", "hvs.two");
    world.wrap(&mut worker).unwrap();
    token::keep(&mut worker);
    let left = due(&worker);
    assert!(
        left > Duration::from_secs(400) && left <= Duration::from_secs(500),
        "{left:?}"
    );
    token::keep(&mut worker);
    assert_eq!(world.fake.asked(), [ENCRYPT, LOOK_UP, RENEW]);
    assert!(due(&worker) > Duration::from_secs(400));
    // Vault is away: it is tried again soon, and is nobody's trouble.
    world.fake.set(Mood::Sealed);
    token::keep(&mut worker);
    assert!(due(&worker) <= Duration::from_secs(30));
    world.fake.set(Mood::Well);
    worker.pause = Pause::default();
    token::keep(&mut worker);
    assert_eq!(world.fake.asked(), [RENEW, RENEW]);
    // It has come to its end, whatever Vault said before: a new one is looked up.
    world.fake.state().token = "hvs.three".to_owned();
    token::keep(&mut worker);
    world.secret("token", "hvs.three");
    world.fake.state().renewable = false;
    token::keep(&mut worker);
    assert_eq!(world.fake.asked(), [RENEW, LOOK_UP]);
    assert!(due(&worker) > Duration::from_secs(3600), "nothing can be done for it");
    world.fake.check();
}

fn trouble(is_passing: bool) -> Trouble {
    let why = "x".to_owned();
    Trouble { why, is_passing }
}

#[test]
fn another_key_of_the_same_name_is_found_out() {
    let world = World::new(false);
    let file = world.file();
    let wrapped = world.make(&file, 1).unwrap();
    let by = wrapped.wrapping_key();
    assert_eq!(file.opened(), None);
    file.opens(CLUSTER, &by, &wrapped).unwrap();
    assert_eq!(file.opened(), Some(binding(1).key));
    let to = file.to(Some(&by)).unwrap();
    assert_eq!((file.version(&to), &to), (Some(1), &by));
    file.proves(CLUSTER, &to, &wrapped).unwrap();
    // Another Vault has come in its place: it wraps as well as any.
    let others = vec![[9; 32]];
    world.fake.state().keys.insert("transit/amita".to_owned(), others);
    assert_eq!(file.to(Some(&by)).unwrap(), to);
    file.answers().unwrap();
    assert!(!file.is_older(&to, &wrapped), "by its name it is the newest version");
    for refused in [
        file.opens(CLUSTER, &by, &wrapped),
        file.proves(CLUSTER, &to, &wrapped),
        file.rewrap(CLUSTER, &to, &wrapped).map(drop),
    ] {
        let Err(KeyTrouble::Key(why)) = &refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("put the right one back"), "{why}");
    }
    // What proves is the line that has it, wherever it stands, and no other.
    SealKey::generate().save(&world.path("one")).unwrap();
    let sealed = std::fs::read_to_string(world.path("one")).unwrap();
    world
        .fake
        .state()
        .keys
        .insert("transit/amita".to_owned(), vec![[1; 32]]);
    world.secret("volume.keys", &format!("{sealed}{}", world.line("")));
    file.unwrap(&binding(1), &wrapped).unwrap();
    file.opens(CLUSTER, &by, &wrapped).unwrap();
    file.proves(CLUSTER, &to, &wrapped).unwrap();
    world.secret("volume.keys", &sealed);
    file.proves(CLUSTER, &to, &wrapped).unwrap_err();
    world.fake.check();
}

#[test]
fn what_is_away_is_not_a_keys_trouble() {
    let away = KeyTrouble::from(trouble(true));
    assert_eq!(away, KeyTrouble::Away("x".to_owned()));
    assert_eq!(KeyTrouble::from(trouble(false)), KeyTrouble::Key("x".to_owned()));
}

#[test]
fn the_newest_version_is_the_one_that_was_heard_last() {
    let world = World::new(false);
    let file = world.file();
    let first = world.make(&file, 1).unwrap();
    let to = file.to(None).unwrap();
    assert!(!file.is_older(&to, &first));
    // It is rotated while all is wrapped by the one before.
    world.fake.rotate();
    let second = file.rewrap(CLUSTER, &to, &first).unwrap();
    assert_eq!((second.transit_version(), file.version(&to)), (Some(2), Some(2)));
    assert!(file.is_older(&to, &first) && !file.is_older(&to, &second));
    // Vault is put back as it was: what that version has wrapped is no newest one's.
    world
        .fake
        .state()
        .keys
        .insert("transit/amita".to_owned(), vec![[1; 32]]);
    file.to(None).unwrap();
    assert_eq!(file.version(&to), Some(1));
    assert!(!file.is_older(&to, &first) && file.is_older(&to, &second));
    world.fake.check();
}

#[test]
fn a_vault_that_binds_nothing_gets_no_data_key() {
    let world = World::new(false);
    world.fake.state().is_old = true;
    let file = world.file();
    let refused = world.make(&file, 1).unwrap_err();
    assert!(refused.contains("1.13 or later"), "{refused}");
    assert_eq!(
        world.fake.asked(),
        [ENCRYPT, DECRYPT],
        "nothing but the question whether"
    );
    let refused = file.answers().unwrap_err();
    assert!(refused.contains("1.13 or later"), "{refused}");
    let refused = file.to(None).unwrap_err();
    assert!(refused.contains("1.13 or later"), "{refused}");
    // It is a newer one by now, and asked once.
    world.fake.state().is_old = false;
    world.make(&file, 1).unwrap();
    world.fake.asked();
    world.make(&file, 2).unwrap();
    assert_eq!(world.fake.asked(), [ENCRYPT, DECRYPT]);
    world.fake.check();
}

#[test]
fn what_vault_does_not_open_again_is_not_kept() {
    let world = World::new(false);
    world.fake.state().is_broken = true;
    let refused = world.make(&world.file(), 1).unwrap_err();
    assert!(refused.contains("authentication failed"), "{refused}");
    world.fake.check();
}

#[test]
fn a_token_that_is_replaced_is_seen_though_nobody_asks() {
    let world = World::new(false);
    let mut worker = world.worker();
    world.wrap(&mut worker).unwrap();
    token::keep(&mut worker);
    let now = Instant::now();
    assert_eq!(worker.token.left(now), None, "it never ends");
    assert!(worker.token.wait(now) <= Duration::from_secs(60));
    world.fake.asked();
    worker.pause.begin(now, trouble(true));
    worker.look();
    assert!(worker.pause.until.is_some(), "it is the same one");
    world.fake.state().token = "hvs.two".to_owned();
    world.secret("token", "hvs.two");
    worker.look();
    assert!(worker.pause.until.is_none());
    assert!(worker.token.left(Instant::now()).unwrap() < Duration::from_secs(3));
    // So does what looks after it.
    world.fake.state().token = "hvs.three".to_owned();
    world.secret("token", "hvs.three");
    worker.pause.begin(Instant::now(), trouble(true));
    token::keep(&mut worker);
    assert_eq!(world.fake.asked(), [LOOK_UP]);
    assert_eq!(worker.token.left(Instant::now()), None);
    world.fake.check();
}

#[test]
fn of_a_token_that_vault_lengthens_no_more_it_is_said_once() {
    let world = World::new(false);
    {
        let mut state = world.fake.state();
        (state.ttl, state.renewable) = (1000, true);
    }
    let mut worker = world.worker();
    world.wrap(&mut worker).unwrap();
    token::keep(&mut worker);
    token::keep(&mut worker);
    world.fake.state().cap = Some(950);
    token::keep(&mut worker);
    assert_eq!(world.fake.asked(), [ENCRYPT, LOOK_UP, RENEW, RENEW]);
    assert!(!worker.token.is_told, "a little less is nothing");
    world.fake.state().cap = Some(400);
    token::keep(&mut worker);
    assert!(worker.token.is_told);
    assert!(worker.token.left(Instant::now()).unwrap() <= Duration::from_secs(200));
    // Of another one it is said again.
    world.fake.state().token = "hvs.two".to_owned();
    world.secret("token", "hvs.two");
    token::keep(&mut worker);
    assert!(!worker.token.is_told);
    world.fake.check();
}

#[test]
fn a_kept_connection_where_nobody_is_any_more_costs_little() {
    let world = World::new(false);
    let mut worker = world.worker();
    world.wrap(&mut worker).unwrap();
    world.fake.state().deaf = 1;
    let began = Instant::now();
    world.wrap(&mut worker).unwrap();
    assert!(began.elapsed() < Duration::from_secs(7));
    assert_eq!(world.fake.state().connections, 2);
    world.wrap(&mut worker).unwrap();
    assert_eq!(world.fake.state().connections, 2, "that one is kept");
    // One that has rested for long is not tried.
    worker.way.open.as_mut().unwrap().rested = Instant::now().checked_sub(Duration::from_secs(21)).unwrap();
    world.fake.asked();
    world.wrap(&mut worker).unwrap();
    assert_eq!(world.fake.state().connections, 3);
    assert_eq!(world.fake.asked(), [ENCRYPT]);
    world.fake.check();
}

#[test]
fn what_nobody_waits_for_is_not_asked() {
    let world = World::new(false);
    world.fake.set(Mood::Hangs);
    let place = world.place();
    let vault = start(place.clone()).unwrap();
    let ask = |asking: &Asking| {
        let (tell, told) = channel();
        let (request, _) = place.provider().unwrap().probe().into_parts();
        let answered: Told = Box::new(move |answer| {
            let _ = tell.send(answer.is_ok());
        });
        vault.ask(Arc::new(request), asking.wanted(), answered);
        told
    };
    let asking = [Asking::new(), Asking::new(), Asking::new()];
    let told: Vec<_> = asking.iter().map(ask).collect();
    let [_first, second, _third] = asking;
    until("the first one hangs", || world.fake.state().asked == [ENCRYPT]);
    drop(second);
    world.fake.set(Mood::Well);
    world.fake.answer_now();
    for at in [0, 2] {
        assert_eq!(told[at].recv_timeout(LONG), Ok(true));
    }
    assert!(told[1].recv_timeout(LONG).is_err(), "nobody is told");
    assert_eq!(world.fake.asked(), [ENCRYPT, ENCRYPT]);
    world.fake.check();
}

#[test]
fn who_vouches_for_vault_nobody_else_can_change() {
    let world = World::new(true);
    for mode in [0o664, 0o646] {
        world.allow("ca.pem", mode);
        let refused = world.wrap(&mut world.worker()).unwrap_err();
        assert!(
            refused.contains("ca-file") && refused.contains("chmod go-w"),
            "{refused}"
        );
    }
    assert!(world.fake.asked().is_empty());
    world.allow("ca.pem", 0o644);
    world.wrap(&mut world.worker()).unwrap();
    world.fake.check();
}

#[test]
fn who_shows_no_certificate_is_warned_of() {
    assert_eq!(World::new(true).place().warning(), None);
    let warning = World::new(false).place().warning().unwrap();
    assert!(warning.contains("any program of this machine"), "{warning}");
}

/// What is told goes to logs, facts and whoever may look at a cluster.
#[test]
fn neither_a_token_nor_where_it_is_is_told() {
    let secret = "hvs.CAESIJmq3vB4mT0";
    for word in [secret.to_owned(), format!("{secret}=x"), format!("{secret}=")] {
        let line = format!("https://vault.example key=a {word} token-file=/t ca-file=/c");
        let said = Place::parse(&line).unwrap_err();
        assert!(said.contains("word 2") && !said.contains("hvs"), "{said}");
    }
    let world = World::new(false);
    let mut worker = world.worker();
    std::fs::remove_file(world.path("token")).unwrap();
    let said = world.wrap(&mut worker).unwrap_err();
    let path = world.path("token").display().to_string();
    assert!(said.contains("token-file") && !said.contains(&path), "{said}");
    assert!(worker.ails.is_some(), "the log has it");
    world.secret("token", "hvs.one");
    worker.pause = Pause::default();
    worker.read = None;
    world.wrap(&mut worker).unwrap();
    assert_eq!(worker.ails, None);
}

#[test]
fn a_line_says_all_that_is_needed() {
    let parse = |text: &str| Place::parse(text);
    let good = "https://vault.example:8300 key=amita token-file=/t ca-file=/c mount=kms/eu namespace=team";
    let place = parse(good).unwrap();
    assert_eq!((place.is_tls, place.authority().as_str()), (true, "vault.example:8300"));
    assert_eq!(
        (place.mount.as_str(), place.namespace.as_deref()),
        ("kms/eu", Some("team"))
    );
    let place = parse("http://[::1] key=a token-file=/t").unwrap();
    assert_eq!(
        (place.authority().as_str(), place.mount.as_str()),
        ("[::1]:8200", "transit")
    );
    for (wrong, why) in [
        ("", "no address"),
        ("vault.example key=a", "https://"),
        ("https://vault.example/v1 key=a token-file=/t ca-file=/c", "no path"),
        ("https://vault.example:0 key=a token-file=/t ca-file=/c", "port"),
        ("https:// key=a token-file=/t ca-file=/c", "host"),
        ("http://vault.example key=a token-file=/t", "this machine alone"),
        ("http://10.0.0.1 key=a token-file=/t", "this machine alone"),
        ("http://127.0.0.1 key=a token-file=/t ca-file=/c", "for nothing"),
        ("https://v key=a token-file=/t", "ca-file"),
        ("https://v key=a ca-file=/c", "token-file"),
        ("https://v token-file=/t ca-file=/c", "key=NAME"),
        ("https://v key=a key=b token-file=/t ca-file=/c", "twice"),
        ("https://v key=a token=x token-file=/t ca-file=/c", "none of"),
        ("https://v key=a/b token-file=/t ca-file=/c", "the name of Vault's key"),
        ("https://v key=a token-file=t ca-file=/c", "begins with /"),
        ("https://v key=a token-file=/t ca-file=/c mount=..", "mounted"),
        ("https://v key", "NAME=VALUE"),
    ] {
        let said = parse(wrong).unwrap_err();
        assert!(said.contains(why), "{wrong}: {said}");
    }
    // The file says in which line, and of which key there may be one alone.
    let world = World::new(false);
    world.secret(
        "volume.keys",
        &format!("# ours\n{}{}", world.line(""), world.line("namespace=other")),
    );
    let said = world.file().check().unwrap_err().to_string();
    assert!(said.starts_with("line 3: a line before names the key amita"), "{said}");
    let many: String = (0..5).map(|number| world.line(&format!("key=k{number}"))).collect();
    world.secret("volume.keys", &many);
    let said = world.file().check().unwrap_err().to_string();
    assert!(said.starts_with("line 5: more than 4"), "{said}");
}
