//! Keys of a KMIP server, asked of one of the test's own (`fake.rs`), and of PyKMIP's (`pykmip.rs`).

mod fake;
mod pykmip;

use super::*;
use crate::volume_keys::KeyFile;
use amita_control::admin::{DataKeys, KeyTrouble, Rewrap};
use amita_crypt::{Binding, DataKey, Next, Provider, WrappedKey};
use amita_types::map::{KeyName, KeyNumber};
use amita_types::{ClusterId, VolumeId};
use fake::{Authority, Fake, Mood};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

const CLUSTER: ClusterId = ClusterId(7);

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

/// A node's files.
struct Files(TempDir);

impl Files {
    fn new(authority: &Authority) -> Files {
        let files = Files(tempfile::tempdir().unwrap());
        files.write("ca.pem", &authority.ca, 0o644);
        files.write("client.pem", &authority.client.0, 0o644);
        files.write("client.key", &authority.client.1, 0o600);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn line(&self, servers: &str, more: &str) -> String {
        let [cert, key, ca] = ["client.pem", "client.key", "ca.pem"].map(|name| self.path(name));
        let (cert, key, ca) = (cert.display(), key.display(), ca.display());
        format!("kmip:{servers} cert-file={cert} key-file={key} ca-file={ca} {more}\n")
    }

    fn keys(&self, text: &str) -> KeyFile {
        self.write("volume.keys", text, 0o600);
        KeyFile::at(self.path("volume.keys"))
    }

    fn worker(&self, servers: &str, more: &str) -> Worker {
        let line = self.line(servers, more);
        let place = Place::parse(line.trim_end().strip_prefix("kmip:").unwrap()).unwrap();
        Worker {
            name: place.name(),
            way: Way::new(place),
            pause: Pause::default(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        }
    }
}

/// A server, and a node's files.
struct World {
    authority: Authority,
    fake: Fake,
    files: Files,
}

impl World {
    fn new() -> World {
        let authority = Authority::new();
        World {
            fake: Fake::start(&authority),
            files: Files::new(&authority),
            authority,
        }
    }

    fn at(&self) -> String {
        self.fake.address.to_string()
    }

    fn worker(&self, more: &str) -> Worker {
        self.files.worker(&self.at(), more)
    }
}

/// Wraps by one question of a worker's, as if no pause were under way.
fn wrap(worker: &mut Worker, more: &str) -> Result<WrappedKey, Trouble> {
    worker.pause = Pause::default();
    worker
        .way
        .servers
        .iter_mut()
        .for_each(|server| server.pause = Pause::default());
    let way = if more.contains("get") {
        amita_crypt::KmipWay::Get
    } else {
        amita_crypt::KmipWay::Encrypt
    };
    let mut provider = Kmip::new("k-1", way, amita_crypt::KmipVersion::USUAL).unwrap();
    let key = DataKey::generate(&mut system_random);
    let Next::Ask(question) = provider.wrap(&binding(1), &key, &mut system_random).unwrap() else {
        panic!("nobody is asked");
    };
    let (request, finish) = question.into_parts();
    let answer = worker.carry(&request)?;
    finish(&answer).map_err(|why| Trouble {
        why: why.to_string(),
        is_passing: false,
    })
}

/// Unwraps likewise.
fn unwrap(worker: &mut Worker, wrapped: &WrappedKey) -> Result<DataKey, String> {
    worker.pause = Pause::default();
    let way = amita_crypt::KmipWay::Encrypt;
    let mut provider = Kmip::new("k-1", way, amita_crypt::KmipVersion::USUAL).unwrap();
    let Next::Ask(question) = provider.unwrap(&binding(1), wrapped).unwrap() else {
        panic!("nobody is asked");
    };
    let (request, finish) = question.into_parts();
    finish(&worker.carry(&request)?).map_err(|why| why.to_string())
}

/// What comes of it as soon as somebody answers: a server that has not answered is left alone for some seconds.
fn answered<T>(mut ask: impl FnMut() -> Result<T, KeyTrouble>) -> Result<T, KeyTrouble> {
    loop {
        match ask() {
            Err(KeyTrouble::Away(_)) => std::thread::sleep(Duration::from_millis(50)),
            other => return other,
        }
    }
}

#[test]
fn a_server_wraps_and_unwraps_by_one_connection() {
    let world = World::new();
    for (way, asked) in [
        // Whether it binds what it wraps; the key, and that it opens; the key; whether it binds it still.
        (
            "",
            [
                "encrypt", "decrypt", "decrypt", "encrypt", "decrypt", "decrypt", "encrypt", "decrypt", "decrypt",
            ]
            .as_slice(),
        ),
        ("way=get", &["get", "get", "get", "get", "get"]),
    ] {
        let file = world
            .files
            .keys(&world.files.line(&world.at(), &format!("key=k-1 {way}")));
        let connections = world.fake.state().connections;
        let wrapped = file.make(CLUSTER, None, &binding(1)).unwrap();
        assert_eq!(wrapped.wrapped_by(), "kmip k-1");
        let opened = file.unwrap(&binding(1), &wrapped).unwrap();
        assert_eq!(opened.check_value(), wrapped.check_value());
        assert!(file.is_of(&wrapped.wrapping_key()).unwrap());
        file.answers().unwrap();
        assert!(!file.keeps(), "nothing is kept of the file");
        assert_eq!(world.fake.asked(), asked);
        assert_eq!(world.fake.state().connections, connections + 1);
        // It is bound to its place, and to the cluster.
        let moved = wrapped.to_text().replace("\"image\":1", "\"image\":2");
        let moved = WrappedKey::parse(&moved).unwrap();
        let refused = file.unwrap(moved.binding(), &moved).unwrap_err();
        assert!(refused.contains("the record was changed"), "{refused}");
        let other = KeyFile::at(world.files.path("volume.keys")).of_cluster(ClusterId(8));
        let refused = other.unwrap(&binding(1), &wrapped).unwrap_err();
        assert!(refused.contains("another one's metadata"), "{refused}");
        world.fake.asked();
    }
    world.fake.check();
}

/// From a file to a server's key, to the next one of them, and back: each is a line.
#[test]
fn another_key_is_another_line() {
    let world = World::new();
    let line = |more: &str| world.files.line(&world.at(), more);
    let seal = amita_keys::SealKey::generate();
    seal.save(&world.files.path("seal")).unwrap();
    let own = std::fs::read_to_string(world.files.path("seal")).unwrap();
    let file = world.files.keys(&own);
    let mut wrapped = file.make(CLUSTER, None, &binding(1)).unwrap();
    let check = wrapped.check_value();
    let (first, second, got) = (line("key=k-1"), line("key=k-2"), line("key=k-1 way=get"));
    for (new, old, by) in [
        (&first, &own, "kmip k-1"),
        (&second, &first, "kmip k-2"),
        (&got, &second, "kmip k-1"),
        (&own, &got, "sealed-file"),
    ] {
        // The old one is behind it until all is wrapped.
        let file = world.files.keys(&format!("{new}{old}"));
        let now = wrapped.wrapping_key();
        assert!(!file.is_of(&now).unwrap(), "it is not the first line");
        let to = file.to(Some(&now)).unwrap();
        assert_eq!(file.version(&to), None);
        let again = file.rewrap(CLUSTER, &to, &wrapped).unwrap();
        assert!(again.wrapped_by().starts_with(by), "{}", again.wrapped_by());
        assert_eq!((again.check_value(), again.wrapping_key()), (check, to.clone()));
        // And alone it opens it.
        let file = world.files.keys(new);
        file.proves(CLUSTER, &to, &again).unwrap();
        file.opens(CLUSTER, &to, &again).unwrap();
        assert!(file.unwrap(&binding(1), &wrapped).is_err());
        wrapped = again;
    }
    world.fake.check();
}

#[test]
fn another_key_of_the_same_identifier_is_found_out() {
    let world = World::new();
    for way in ["", "way=get"] {
        let file = world
            .files
            .keys(&world.files.line(&world.at(), &format!("key=k-1 {way}")));
        let wrapped = file.make(CLUSTER, None, &binding(1)).unwrap();
        let old = world.fake.state().keys.insert("k-1".to_owned(), [9; 32]).unwrap();
        let refused = file.opens(CLUSTER, &wrapped.wrapping_key(), &wrapped).unwrap_err();
        assert!(
            matches!(&refused, KeyTrouble::Key(why) if why.contains("another one than it was")),
            "{refused}"
        );
        world.fake.state().keys.insert("k-1".to_owned(), old);
        file.opens(CLUSTER, &wrapped.wrapping_key(), &wrapped).unwrap();
    }
    // Nothing is wrapped by one that binds nothing.
    world.fake.state().is_old = true;
    let file = world.files.keys(&world.files.line(&world.at(), "key=k-2"));
    let refused = file.make(CLUSTER, None, &binding(1)).unwrap_err();
    assert!(refused.contains("does not bind what it encrypts"), "{refused}");
    let file = world.files.keys(&world.files.line(&world.at(), "key=k-2 way=get"));
    file.make(CLUSTER, None, &binding(1)).unwrap();
    world.fake.check();
}

#[test]
fn only_who_is_vouched_for_is_believed_on_both_sides() {
    let world = World::new();
    let other = Authority::new();
    let refused = |name: &str, text: &str, mode, why: &str| {
        let before = std::fs::read_to_string(world.files.path(name)).unwrap();
        world.files.write(name, text, mode);
        let told = wrap(&mut world.worker("key=k-1"), "").unwrap_err().why;
        assert!(told.contains(why) && told.contains(&world.at()), "{told}");
        let mode = if name.ends_with("key") { 0o600 } else { 0o644 };
        world.files.write(name, &before, mode);
        told
    };
    refused("ca.pem", &other.ca, 0o644, "TLS fails");
    refused("ca.pem", "", 0o644, "no certificate in its ca-file");
    refused("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n", 0o644, "ca-file");
    refused("client.pem", "", 0o644, "no certificate in its cert-file");
    refused("client.pem", &other.client.0, 0o644, "not of one another");
    let told = refused("client.key", "a secret", 0o600, "no private key in its key-file");
    assert!(!told.contains("a secret"), "{told}");
    refused("client.key", "x", 0o644, "chmod 600");
    refused("client.pem", "x", 0o664, "chmod go-w");
    // Whom the server does not know.
    world.files.write("client.pem", &other.client.0, 0o644);
    world.files.write("client.key", &other.client.1, 0o600);
    let told = wrap(&mut world.worker("key=k-1"), "").unwrap_err().why;
    assert!(
        told.contains("TLS fails") || told.contains("its connection breaks"),
        "{told}"
    );
    world.files.write("client.pem", &world.authority.client.0, 0o644);
    world.files.write("client.key", &world.authority.client.1, 0o600);
    // Who is vouched for by another name, or was.
    for (name, year) in [("kms.example", 4000), ("127.0.0.2", 4000), ("127.0.0.1", 2000)] {
        let fake = Fake::showing(world.authority.vouch(name, year));
        let told = wrap(&mut world.files.worker(&fake.address.to_string(), "key=k-1"), "").unwrap_err();
        assert!(
            told.is_passing && told.why.contains("TLS fails"),
            "{name}: {}",
            told.why
        );
        assert!(fake.asked().is_empty());
    }
    // One that was asked before reads its files for the next connection.
    assert!(world.fake.asked().is_empty(), "nobody else was asked");
    let mut worker = world.worker("key=k-1");
    wrap(&mut worker, "").unwrap();
    world.files.write("ca.pem", &other.ca, 0o644);
    wrap(&mut worker, "").unwrap();
    world.fake.cut();
    let told = wrap(&mut worker, "").unwrap_err().why;
    assert!(told.contains("TLS fails"), "{told}");
    world.files.write("ca.pem", &world.authority.ca, 0o644);
    wrap(&mut worker, "").unwrap();
    world.fake.asked();
    std::fs::remove_file(world.files.path("client.key")).unwrap();
    let told = wrap(&mut world.worker("key=k-1"), "").unwrap_err().why;
    assert!(
        told.contains("key-file is of no use") && told.contains("cannot be read"),
        "{told}"
    );
    assert!(world.fake.asked().is_empty(), "nobody else was asked");
}

#[test]
fn what_is_no_answer_is_told_and_the_next_one_is_taken() {
    let world = World::new();
    for way in ["", "way=get"] {
        let mut worker = world.worker(&format!("key=k-1 {way}"));
        for (mood, why, is_passing) in [
            (Mood::Away, "TLS fails", true),
            (Mood::Cut, "its connection breaks", true),
            (Mood::Huge, "are the most", true),
            (Mood::Web, "no message of KMIP's", true),
            (Mood::Bent, "ends inside of an item", true),
            (Mood::Other, "of another key", false),
            (
                Mood::Refuses(0x01),
                "Item Not Found: the test says so): it has no key",
                false,
            ),
            (Mood::Refuses(0x0c), "Permission Denied", false),
            (Mood::Refuses(0x2a), "Internal Server Error", true),
            (Mood::Refuses(0x03), "register the certificate", false),
        ] {
            world.fake.set(mood);
            world.fake.cut();
            let trouble = wrap(&mut worker, way).unwrap_err();
            assert!(trouble.why.contains(why), "{mood:?}: {}", trouble.why);
            assert_eq!(trouble.is_passing, is_passing, "{mood:?}");
            // While it is not asked all are told the same. What is no answer to that question is no reason for that.
            let paused = worker.pause.until.is_some();
            assert_eq!(paused, mood != Mood::Other, "{mood:?}");
            world.fake.set(Mood::Well);
            wrap(&mut worker, way).unwrap();
        }
        // A connection that was closed meanwhile is no trouble, nor one that has rested.
        world.fake.cut();
        wrap(&mut worker, way).unwrap();
        let connections = world.fake.state().connections;
        let open = worker.way.servers[0].open.as_mut().unwrap();
        open.rested = Instant::now().checked_sub(Duration::from_secs(21)).unwrap();
        wrap(&mut worker, way).unwrap();
        wrap(&mut worker, way).unwrap();
        assert_eq!(world.fake.state().connections, connections + 1);
        // Nor is one used for ever; what is used no more is ended.
        worker.way.servers[0].open.as_mut().unwrap().until = Instant::now();
        wrap(&mut worker, way).unwrap();
        assert_eq!(world.fake.state().connections, connections + 2);
        worker.keep(true);
        let open = worker.way.servers[0].open.as_mut().expect("it is of use");
        open.until = Instant::now();
        worker.keep(false);
        assert!(worker.way.servers[0].open.is_none());
    }
    world.fake.check();
}

#[test]
fn while_it_does_not_answer_it_is_not_asked_by_everybody() {
    let world = World::new();
    let mut worker = world.worker("key=k-1");
    world.fake.set(Mood::Away);
    let first = wrap(&mut worker, "").unwrap_err().why;
    let connections = world.fake.state().connections;
    let question = Kmip::new("k-1", amita_crypt::KmipWay::Get, amita_crypt::KmipVersion::USUAL).unwrap();
    let (request, _) = question.probe(&mut system_random).into_parts();
    // As if it were paused for longer than this machine takes.
    let trouble = worker.pause.holds(Instant::now()).cloned();
    worker.pause.until = trouble.map(|trouble| (Instant::now() + Duration::from_secs(600), trouble));
    for _ in 0..100 {
        assert_eq!(worker.carry(&request).unwrap_err().why, first);
    }
    assert_eq!(world.fake.state().connections, connections);
}

#[test]
fn where_one_server_does_not_answer_or_refuses_the_next_one_is_asked() {
    let authority = Authority::new();
    let (one, two, files) = (Fake::start(&authority), Fake::start(&authority), Files::new(&authority));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut worker = files.worker(&format!("{nobody},{},{}", one.address, two.address), "key=k-1");
    let asked = || (one.asked().len(), two.asked().len());
    let wrapped = wrap(&mut worker, "").unwrap();
    assert_eq!(asked(), (1, 0));
    wrap(&mut worker, "").unwrap();
    assert_eq!(asked(), (1, 0), "the first one that answers is asked again");
    for mood in [
        Mood::Refuses(0x3a),
        Mood::Refuses(0x01),
        Mood::Refuses(0x05),
        Mood::Refuses(0x0c),
        Mood::Refuses(0x100),
        Mood::Web,
        Mood::Hangs,
    ] {
        one.set(mood);
        wrap(&mut worker, "").unwrap();
        assert_eq!(asked(), (1, 1), "{mood:?}");
    }
    // While that is so it comes last, and then it has its place again.
    worker.way.servers[1].pause.until.as_mut().unwrap().0 = Instant::now() + Duration::from_secs(600);
    unwrap(&mut worker, &wrapped).unwrap();
    assert_eq!(asked(), (0, 1));
    one.set(Mood::Well);
    worker.way.servers[1].pause.until.as_mut().unwrap().0 = Instant::now();
    unwrap(&mut worker, &wrapped).unwrap();
    assert_eq!(asked(), (1, 0));
    // What is of the record is asked of nobody else; what may be of anything is, and a server in trouble takes nothing away.
    one.set(Mood::Refuses(0x0a));
    let told = unwrap(&mut worker, &wrapped).unwrap_err();
    assert!(told.contains("the record was changed"), "{told}");
    assert_eq!(asked(), (1, 0));
    one.set(Mood::Refuses(0x100));
    unwrap(&mut worker, &wrapped).unwrap();
    assert_eq!(asked(), (1, 1));
    two.set(Mood::Refuses(0x100));
    let told = unwrap(&mut worker, &wrapped).unwrap_err();
    assert!(told.contains("the record was changed"), "{told}");
    // None of them: it is said of each, and by whom.
    for (first, second) in [(Mood::Away, Mood::Away), (Mood::Well, Mood::Away)] {
        one.set(if first == Mood::Well { Mood::Refuses(1) } else { first });
        two.set(second);
        one.cut();
        two.cut();
        let told = wrap(&mut worker, "").unwrap_err().why;
        for address in [nobody, one.address, two.address] {
            assert!(told.contains(&format!("{address}: ")), "{told}");
        }
        assert_eq!(told.contains("Item Not Found"), first == Mood::Well, "{told}");
    }
    one.check();
    two.check();
}

/// Of a line's servers one has another key under the same identifier: nothing that is wrapped at one is left that the other does not open.
#[test]
fn servers_of_one_line_with_different_keys_are_found_out() {
    let authority = Authority::new();
    let (one, two, files) = (Fake::start(&authority), Fake::start(&authority), Files::new(&authority));
    two.state().keys.insert("k-1".to_owned(), [9; 32]);
    let servers = format!("{},{}", one.address, two.address);
    let old = files.line(&one.address.to_string(), "key=k-2");
    let of_old = files.keys(&old).make(CLUSTER, None, &binding(1)).unwrap();
    for way in ["", "way=get"] {
        let file = files.keys(&format!("{}{old}", files.line(&servers, &format!("key=k-1 {way}"))));
        let to = file.to(Some(&of_old.wrapping_key())).unwrap();
        // Both answer: the second one says so.
        let Err(KeyTrouble::Key(told)) = file.rewrap(CLUSTER, &to, &of_old) else {
            panic!("it is refused");
        };
        assert!(
            told.contains(&two.address.to_string()) && told.contains("another one than it was"),
            "{told}"
        );
        file.make(CLUSTER, Some(&to), &binding(2)).unwrap_err();
        // The first one alone wraps, and then the second one alone: what was proven at the one is proven no more.
        two.set(Mood::Away);
        two.cut();
        let first = answered(|| file.rewrap(CLUSTER, &to, &of_old)).unwrap();
        let proofs = file.proofs();
        answered(|| file.proves(CLUSTER, &to, &first)).unwrap();
        assert_eq!(file.proofs(), proofs);
        one.set(Mood::Away);
        one.cut();
        two.set(Mood::Well);
        // The old one is at the first server, so that another opens it.
        let at_two = files.line(&two.address.to_string(), "key=k-2");
        let text = format!("{}{at_two}", files.line(&servers, &format!("key=k-1 {way}")));
        files.write("volume.keys", &text, 0o600);
        let second = answered(|| file.rewrap(CLUSTER, &to, &of_old)).unwrap();
        assert_ne!(file.proofs(), proofs, "it was proven elsewhere");
        let Err(KeyTrouble::Key(told)) = answered(|| file.proves(CLUSTER, &to, &first)) else {
            panic!("the second one does not open it");
        };
        assert!(told.contains(&two.address.to_string()), "{told}");
        answered(|| file.opens(CLUSTER, &to, &second)).unwrap();
        one.set(Mood::Well);
    }
    one.check();
    two.check();
}

/// `amita volume key status` asks each of them.
#[test]
fn each_server_of_a_line_is_looked_at() {
    let authority = Authority::new();
    let files = Files::new(&authority);
    for (mood, why) in [
        (Mood::Refuses(0x0c), "Permission Denied"),
        (Mood::Away, "TLS fails"),
        (Mood::Well, ""),
    ] {
        let (one, two) = (Fake::start(&authority), Fake::start(&authority));
        let file = files.keys(&files.line(&format!("{},{}", one.address, two.address), "key=k-1"));
        let wrapped = file.make(CLUSTER, None, &binding(1)).unwrap();
        file.answers().unwrap();
        two.set(mood);
        two.cut();
        if mood != Mood::Well {
            let told = file.answers().unwrap_err();
            assert!(told.contains(&two.address.to_string()) && told.contains(why), "{told}");
            // The other one serves meanwhile.
            file.opens(CLUSTER, &wrapped.wrapping_key(), &wrapped).unwrap();
            continue;
        }
        two.state().keys.insert("k-1".to_owned(), [9; 32]);
        let told = file
            .opens(CLUSTER, &wrapped.wrapping_key(), &wrapped)
            .unwrap_err()
            .to_string();
        assert!(
            told.contains(&two.address.to_string()) && told.contains("another one than it was"),
            "{told}"
        );
    }
}

#[test]
fn lines_say_where_the_key_is() {
    let good = "kms.example,[::1]:5697,10.0.0.1 key=fb4b-1 cert-file=/c key-file=/k ca-file=/a way=get version=1.2";
    let place = Place::parse(good).unwrap();
    assert_eq!(
        place.name(),
        "KMIP server at kms.example:5696, [::1]:5697, 10.0.0.1:5696"
    );
    assert_eq!(place.key, "fb4b-1");
    for (text, why) in [
        ("", "no address"),
        ("a,b,c,d,e key=1", "more than 4"),
        ("a,,b key=1", "its host"),
        ("a:0 key=1", "port"),
        ("https://a key=1", "port"),
        ("a cert-file=/c key-file=/k ca-file=/a", "key=ID"),
        ("a key=1 key-file=/k ca-file=/a", "cert-file=PATH"),
        ("a key=1 cert-file=/c ca-file=/a", "key-file=PATH"),
        ("a key=1 cert-file=/c key-file=/k", "ca-file=PATH"),
        ("a key=1 cert-file=c key-file=/k ca-file=/a", "begins with /"),
        ("a key=1 key=2 cert-file=/c key-file=/k ca-file=/a", "twice"),
        ("a key=1, cert-file=/c key-file=/k ca-file=/a", "unique identifier"),
        ("a key=1 cert-file=/c key-file=/k ca-file=/a way=wrap", "encrypt or get"),
        ("a key=1 cert-file=/c key-file=/k ca-file=/a version=3.0", "1.0 to 1.4"),
        ("a key=1 cert-file=/c key-file=/k ca-file=/a version=1.2", "way=get"),
        ("a key=1 hunter2 cert-file=/c key-file=/k ca-file=/a", "word 2"),
        ("a key=1 token=hunter2 cert-file=/c key-file=/k ca-file=/a", "word 2"),
    ] {
        let told = Place::parse(text).unwrap_err();
        assert!(told.contains(why) && !told.contains("hunter2"), "{text}: {told}");
    }
    let authority = Authority::new();
    let files = Files::new(&authority);
    let line = |key: &str| files.line("kms.example", &format!("key={key}"));
    let checked = |text: &str| files.keys(text).check().unwrap_err().to_string();
    let twice = checked(&format!("{}{}", line("1"), line("1")));
    assert!(
        twice.contains("line 2") && twice.contains("names the key 1, too"),
        "{twice}"
    );
    let many: String = ["1", "2", "3", "4", "5"].map(line).concat();
    assert!(checked(&many).contains("more than 4 lines"), "{}", checked(&many));
    files
        .keys(&many.lines().take(4).map(|line| format!("{line}\n")).collect::<String>())
        .check()
        .unwrap();
    assert!(checked("kmips:a\n").contains("kmip:HOST"), "{}", checked("kmips:a\n"));
}
