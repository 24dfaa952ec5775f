//! Encrypted volumes: what lies on disks and in the metadata, what becomes of a volume whose keys are not there, and other data keys for one that is used.

use crate::migrations::Diary;
use crate::passes::is_under_way;
use crate::reverts::compare;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, STORE_BYTES, VOLUME, WRITES_WAIT, World};
use crate::world::{binary, config, eventually, scratch, within};
use amita_harness::cluster::{Cluster, Links, Metadata};
use amita_harness::nbd::Client;
use amita_harness::tool::{self, Output};
use amita_identity::Role;
use amita_metadata::Call;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

mod tenants;

const SECRET: &str = "vault";
const CLONE: &str = "vault-copy";
const RESTORED: &str = "vault-back";
/// Of backups, in the test's folder.
const REPOSITORY: &str = "repository";
const BLOCK: usize = 4096;
/// What is written at a time: blocks of two chunks.
const PLACES: [u64; 2] = [0, (4 << 20) - 2 * BLOCK as u64];
const PIECE: usize = 4 * BLOCK;

/// A text that stands nowhere else, over and over.
fn text(of: &str) -> Vec<u8> {
    let sentence = format!("nobody but the owner of {of} is to read this; ");
    sentence.bytes().cycle().take(PIECE).collect()
}

/// Does a file hold this in one of its blocks? What is zeros is passed over.
fn holds(path: &Path, what: &[u8]) -> bool {
    let mut file = File::open(path).expect("a file");
    let (mut piece, zeros) = (vec![0; 1 << 20], [0; BLOCK]);
    loop {
        let mut length = 0;
        while length < piece.len() {
            match file.read(&mut piece[length..]).expect("it is read") {
                0 => break,
                more => length += more,
            }
        }
        let mut blocks = piece[..length]
            .chunks(BLOCK)
            .filter(|block| **block != zeros[..block.len()]);
        if blocks.any(|block| block.windows(what.len()).any(|part| part == what)) {
            return true;
        }
        if length < piece.len() {
            return false;
        }
    }
}

struct Sealed {
    world: World,
    keys: PathBuf,
}

impl Sealed {
    /// Three nodes that have the volume keys, which are in a file.
    fn new() -> Sealed {
        let scratch = scratch(3 * STORE_BYTES);
        let keys = scratch.folder().join("volume.keys");
        let file = keys.to_str().expect("a path of ours");
        let made = tool::run(scratch.folder(), binary(), ["volume", "key", "init", file], PATIENCE);
        made.expect("the command runs").success().expect("a key is made");
        let mut config = config(&scratch, 3, Metadata::Embedded);
        config.serve_arguments = vec!["--volume-keys".to_owned(), file.to_owned()];
        // What is read of a volume that another gateway owns goes over such links alone.
        config.links = Links::Secret;
        let world = World::made(Cluster::start(config), scratch);
        Sealed { world, keys }
    }

    /// With the file, as whoever makes volumes gives it.
    fn with_keys(&self, command: &[&str]) -> Value {
        let file = self.keys.to_str().expect("a path of ours");
        self.world.json(&[command, &["--volume-keys", file]].concat())
    }

    /// Has the secret volume written anew: what was said of it when it was begun. While it is waited for, why it is not at its end yet is said beside the JSON.
    fn rekey(&self, more: &[&str]) -> Value {
        let begun = self.with_keys(&[&["volume", "rekey", SECRET, "--no-wait"], more].concat());
        assert_eq!(begun["rekeyed"], false, "{begun}");
        within(3 * PATIENCE, "it is written anew", || {
            !is_under_way(&self.world, "rekey")
        });
        begun
    }

    fn try_open(&self, node: usize, volume: &str) -> std::io::Result<Client> {
        Client::open(self.world.cluster.nodes()[node].nbd, volume, PATIENCE)
    }

    fn open(&self, node: usize, volume: &str) -> Client {
        let mut found = None;
        eventually("the volume opens", || {
            found = self.try_open(node, volume).ok();
            found.is_some()
        });
        found.expect("it is open")
    }

    fn expect(&self, node: usize, volume: &str, wanted: &[u8]) {
        let mut client = self.open(node, volume);
        for place in PLACES {
            let mut found = vec![0; PIECE];
            client.read(place, &mut found).expect("it is read");
            assert!(found == wanted, "{volume} at {place}");
        }
        client.close();
    }

    fn write(&self, node: usize, volume: &str, what: &[u8]) {
        let mut client = self.open(node, volume);
        for place in PLACES {
            client.write(place, what).expect("it is written");
        }
        client.close();
    }

    /// The disks, and what the metadata keeps.
    fn files(&self) -> Vec<PathBuf> {
        let disks = self.world.cluster.nodes().iter().flat_map(|node| node.stores.clone());
        let stores = self.world.scratch.stores();
        disks
            .chain([stores.join(amita_harness::cluster::METADATA_FILE)])
            .collect()
    }

    fn is_held(&self, of: &[u8]) -> bool {
        let part = &of[..48];
        self.files().iter().any(|file| holds(file, part))
    }

    /// `amita backup` with the repository of this test; as a gateway where it reads or writes volumes, with the volume keys or without.
    fn backup(&self, command: &[&str], with_keys: bool) -> Output {
        let path = |name: &str| self.world.file(name).display().to_string();
        let (repository, key) = (path(REPOSITORY), path("backup.key"));
        let identity = self.world.identity(Role::Gateway, "copier").expect("identities");
        let keys = self.keys.to_str().expect("a path of ours");
        let mut all = [&["backup"], command].concat();
        all.extend([
            "--repository",
            &repository,
            "--key-file",
            &key,
            "--json",
            "--log",
            "error",
        ]);
        if matches!(command[0], "run" | "restore") {
            all.extend(["--client-identity", &identity, "--links", "secret"]);
        }
        if with_keys {
            all.extend(["--volume-keys", keys]);
        }
        self.world.amita(&all)
    }

    fn backup_done(&self, command: &[&str], with_keys: bool) -> Value {
        let text = self.backup(command, with_keys).success().expect("it succeeds").text;
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{command:?}: {why}: {text}"))
    }

    fn parts_of(&self, folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths
            .flat_map(|path| match path.is_dir() {
                true => self.parts_of(&path),
                false => vec![path],
            })
            .collect()
    }

    /// The wrapped data keys that there are, as they stand there.
    fn wrapped_keys(&self) -> Vec<String> {
        let client = self.world.cluster.metadata_client().expect("the metadata");
        let reply = client.txn(&Call::prefix("/amita/secrets/")).expect("it answers");
        let wrapped = |value: &[u8]| {
            let record: Value = serde_json::from_slice(value).expect("JSON");
            record["by"]["sealed-file"]["wrapped"].as_str().map(str::to_owned)
        };
        let found = reply.values(0).iter();
        found
            .map(|found| wrapped(&found.value).expect("it is wrapped"))
            .collect()
    }
}

#[test]
fn what_is_encrypted_lies_nowhere_in_the_clear_and_waits_for_its_keys() {
    let mut sealed = Sealed::new();
    let refused = sealed.world.amita(&[
        "volume",
        "create",
        SECRET,
        "--pool",
        "demo",
        "--size",
        "64M",
        "--encrypted",
    ]);
    assert!(refused.text.contains("--volume-keys"), "{}", refused.text);
    let made = sealed.with_keys(&[
        "volume",
        "create",
        SECRET,
        "--pool",
        "demo",
        "--size",
        "64M",
        "--encrypted",
    ]);
    assert_eq!(made["name"], SECRET);
    sealed.world.cluster.offer_by_nbd(SECRET).expect("it is exported");
    let (open, secret, other) = (text(VOLUME), text(SECRET), text(CLONE));
    sealed.write(0, VOLUME, &open);
    sealed.write(0, SECRET, &secret);
    sealed.world.amita_done(&["volume", "snapshot", "create", SECRET, "s1"]);
    sealed.with_keys(&["volume", "clone", &format!("{SECRET}@s1"), CLONE]);
    sealed.world.cluster.offer_by_nbd(CLONE).expect("it is exported");
    sealed.expect(1, CLONE, &secret);
    sealed.write(1, CLONE, &other);
    // Not of whole blocks: what is around it stays.
    let mut client = sealed.open(1, CLONE);
    client.write(PLACES[0] + 1000, &secret[..700]).expect("it is written");
    client.close();
    let mut mixed = other.clone();
    mixed[1000..1700].copy_from_slice(&secret[..700]);
    let mut client = sealed.open(1, CLONE);
    let mut found = vec![0; PIECE];
    client.read(PLACES[0], &mut found).expect("it is read");
    assert!(found == mixed, "a write of 700 bytes");
    client.write(PLACES[0], &other).expect("it is written");
    client.close();
    sealed.expect(2, SECRET, &secret);

    // A backup has the text, sealed by a key of its own; what is restored of it is encrypted as the volume was.
    std::fs::create_dir(sealed.world.file(REPOSITORY)).expect("made");
    sealed.backup_done(&["repository", "init"], false);
    sealed.backup_done(&["run", SECRET], true);
    let restore = ["restore", "latest", "--to", RESTORED, "--pool", "demo"];
    let keyless = sealed.backup(&restore, false);
    assert!(keyless.text.contains("--plain"), "{}", keyless.text);
    let back = sealed.backup_done(&restore, true);
    assert_eq!(back["encrypted"], true, "{back}");
    sealed.world.cluster.offer_by_nbd(RESTORED).expect("it is exported");
    sealed.expect(0, RESTORED, &secret);

    let keys = sealed.world.json(&["volume", "key", "list", CLONE]);
    assert_eq!(keys.as_array().map(Vec::len), Some(2), "{keys}");
    let wrapped = sealed.wrapped_keys();
    assert_eq!(wrapped.len(), 3);
    for node in 0..3 {
        sealed.world.cluster.kill_node(node);
    }
    assert!(
        sealed.is_held(&open),
        "what is not encrypted is found where it is looked for"
    );
    assert!(!sealed.is_held(&secret), "what is encrypted lies on a disk");
    assert!(!sealed.is_held(&other), "what is encrypted lies on a disk");
    let parts = sealed.parts_of(&sealed.world.file(REPOSITORY));
    assert!(parts.len() > 1, "there is a backup: {parts:?}");
    let shown = parts.iter().find(|part| holds(part, &secret[..48]));
    assert_eq!(shown, None, "what is backed up lies in the repository");

    let away = sealed.world.file("away.keys");
    std::fs::rename(&sealed.keys, &away).expect("the keys are taken away");
    sealed.world.cluster.start_nodes().expect("nodes start without keys");
    sealed.expect(0, VOLUME, &open);
    let why = sealed.try_open(0, SECRET).expect_err("it has no keys").to_string();
    assert!(why.contains("encrypted") && why.contains("volume keys"), "{why}");
    eventually("the volume says that it waits, and why", || {
        assert!(sealed.try_open(0, SECRET).is_err(), "it has no keys");
        let shown = sealed.world.json(&["volume", "show", SECRET]);
        assert_eq!(shown["encrypted"], true);
        shown["locked"]
            .as_str()
            .is_some_and(|why| why.contains("cannot be read"))
    });
    let status = sealed.world.amita(&["status", "--json"]).text;
    assert!(status.contains("volume-locked"), "{status}");
    std::fs::rename(&away, &sealed.keys).expect("the keys come back");
    sealed.expect(0, SECRET, &secret);
    sealed.expect(1, CLONE, &other);

    // Who says so has it in the clear, without any volume key.
    let plain = ["restore", "latest", "--to", "vault-plain", "--pool", "demo", "--plain"];
    let told = sealed.backup_done(&plain, false);
    assert_eq!(told["encrypted"], false, "{told}");

    // What goes for good takes its key along; a clone holds that of what it came from.
    for volume in [CLONE, RESTORED] {
        sealed
            .world
            .amita_done(&["volume", "delete", volume, "--now", "--force"]);
    }
    eventually("their own keys are erased", || sealed.wrapped_keys().len() == 1);
    let delete = ["volume", "delete", SECRET, "--now", "--force", "--snapshots"];
    eventually("nothing holds it any more", || {
        sealed.world.amita(&delete).success().is_ok()
    });
    eventually("its key is erased", || sealed.wrapped_keys().is_empty());
    let audit = sealed.world.amita_done(&["audit", "list", "--json"]);
    assert!(
        audit.contains("/amita/secrets/"),
        "that there were keys is known: {audit}"
    );
    assert!(
        !wrapped.iter().any(|key| audit.contains(key)),
        "a log outlives what it tells of"
    );
    let expected = [A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT].concat();
    let expected = [&expected[..], &["waits for its keys", "--volume-keys"]].concat();
    sealed.world.end(&expected);
}

/// The images whose keys a volume is read by.
fn images(sealed: &Sealed, volume: &str) -> Vec<u64> {
    let keys = sealed.world.json(&["volume", "key", "list", volume]);
    let keys = keys.as_array().expect("a list").iter();
    keys.map(|key| key["image"].as_u64().expect("a number")).collect()
}

#[test]
fn a_volume_gets_another_data_key_while_it_is_used() {
    const BYTES: usize = 64 << 20;
    let sealed = Sealed::new();
    let world = &sealed.world;
    sealed.with_keys(&[
        "volume",
        "create",
        SECRET,
        "--pool",
        "demo",
        "--size",
        "64M",
        "--encrypted",
    ]);
    world.cluster.offer_by_nbd(SECRET).expect("it is exported");
    let (open, first, second) = (text(VOLUME), text(SECRET), text(CLONE));
    let at = |texts: &[u8]| {
        let mut content = vec![0; BYTES];
        for place in PLACES {
            content[place as usize..][..PIECE].copy_from_slice(texts);
        }
        content
    };
    sealed.write(0, VOLUME, &open);
    sealed.write(0, SECRET, &first);
    world.amita_done(&["volume", "snapshot", "create", SECRET, "s1"]);
    sealed.write(0, SECRET, &second);
    let (snapshot, mut now) = (at(&first), at(&second));
    let (before, image) = (sealed.wrapped_keys(), images(&sealed, SECRET));
    assert_eq!((before.len(), image.len()), (1, 1));
    let shown = world.json(&["volume", "show", SECRET]);
    let diary = Diary::begin(world, SECRET);
    diary.goes_on();

    let planned = sealed.with_keys(&["volume", "rekey", SECRET, "--dry-run"]);
    assert_eq!(planned["rekeyed"], false, "{planned}");
    assert!(
        planned["needed_bytes"].as_u64().is_some_and(|bytes| bytes > 0),
        "{planned}"
    );
    assert_eq!(
        planned["former_keys_read_by"].as_array().map(Vec::len),
        Some(0),
        "{planned}"
    );
    assert!(!is_under_way(world, "rekey"), "it was only asked for what it needs");
    assert_eq!(sealed.rekey(&[])["encrypted"], true);
    diary.goes_on();
    diary.end(&mut now);
    compare(world, 0, SECRET, &now);
    compare(world, 0, &format!("{SECRET}@s1"), &snapshot);
    let rekeyed = images(&sealed, SECRET);
    assert!(rekeyed.len() == 1 && rekeyed != image, "{rekeyed:?}");
    eventually("the data key of before is erased", || {
        let now = sealed.wrapped_keys();
        now.len() == 1 && now != before
    });
    let after = world.json(&["volume", "show", SECRET]);
    for same in ["stable_id", "pool", "created_at"] {
        assert_eq!(after[same], shown[same], "{same}");
    }
    assert!(
        after["data_key_since"].as_u64() >= shown["data_key_since"].as_u64(),
        "{after}"
    );
    assert!(!is_under_way(world, "rekey"));
    assert!(
        sealed.is_held(&open),
        "what is not encrypted is found where it is looked for"
    );
    assert!(
        !sealed.is_held(&first) && !sealed.is_held(&second),
        "what is encrypted lies on a disk"
    );

    // In the clear, which is to be said, and encrypted again. What was in the clear may lie on disks for a time.
    assert_eq!(sealed.rekey(&["--plain"])["encrypted"], false);
    assert!(images(&sealed, SECRET).is_empty());
    eventually("there is no data key any more", || sealed.wrapped_keys().is_empty());
    compare(world, 0, SECRET, &now);
    assert!(sealed.is_held(&second), "it is in the clear");
    let refused = world.amita(&["volume", "rekey", SECRET]);
    assert!(refused.text.contains("--encrypted"), "{}", refused.text);
    assert_eq!(sealed.rekey(&["--encrypted"])["encrypted"], true);
    assert_eq!(images(&sealed, SECRET).len(), 1);
    compare(world, 0, SECRET, &now);
    compare(world, 0, &format!("{SECRET}@s1"), &snapshot);
    sealed.world.end(&[]);
}
