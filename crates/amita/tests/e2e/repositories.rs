//! Backups of volumes in a repository, by the commands alone: increments, interruptions, damage, and restores where there is another
//! cluster, or none.

use crate::world::{A_NODE_IS_GONE, PATIENCE, VOLUME, VOLUME_BYTES, World, binary, eventually, pattern};
use amita_harness::nbd::{Client, NbdRequest};
use amita_harness::process::Process;
use amita_harness::tool::{self, Output};
use amita_identity::Role;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

/// A repository in a folder of a test, with its key beside it, and what the volume should hold.
pub struct Repository {
    pub folder: PathBuf,
    pub key: PathBuf,
    content: Vec<u8>,
}

impl Repository {
    pub fn new(world: &World) -> Repository {
        let repository = Repository {
            folder: world.file("repository"),
            key: world.file("backup.key"),
            content: vec![0; VOLUME_BYTES as usize],
        };
        std::fs::create_dir(&repository.folder).expect("made");
        let made = repository.json(world, &["repository", "init"]);
        assert_eq!(made["key_made"], true, "{made}");
        repository
    }

    fn arguments<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        let text = |path: &'a Path| path.to_str().expect("plain");
        let place = ["--repository", text(&self.folder), "--key-file", text(&self.key)];
        [&["backup"][..], words, &place].concat()
    }

    /// A command that reads or writes data does so by a gateway's identity.
    fn with_identity(world: &World, arguments: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        if matches!(arguments[1], "run" | "restore") && !arguments.contains(&"--to-file") {
            let identity = world.identity(Role::Gateway, "copier").expect("identities");
            all.extend(["--client-identity".to_owned(), identity]);
        }
        all
    }

    pub fn amita(&self, world: &World, words: &[&str]) -> Output {
        let all = Repository::with_identity(world, &self.arguments(words));
        world.amita(&all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub fn json(&self, world: &World, words: &[&str]) -> Value {
        // Beside an answer nothing is said in its file.
        let said = self.amita(world, &[words, &["--json", "--log", "error"]].concat());
        let text = said.success().expect("the command succeeds").text;
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{words:?}: {why}: {text}"))
    }

    /// Where there is no cluster.
    pub fn alone(&self, world: &World, words: &[&str]) -> Output {
        tool::run(world.folder(), binary(), self.arguments(words), PATIENCE).expect("the command runs")
    }

    pub fn write(&mut self, client: &mut Client, offset: u64, bytes: &[u8]) {
        for (at, part) in (offset..).step_by(MIB as usize).zip(bytes.chunks(MIB as usize)) {
            client.write(at, part).expect("written");
        }
        self.content[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn trim(&mut self, client: &mut Client, offset: u64, bytes: u64) {
        let request = NbdRequest::Trim {
            offset,
            bytes: bytes as u32,
        };
        client.ask(request).expect("asked");
        client.answer().expect("answered").result.expect("trimmed");
        self.content[offset as usize..][..bytes as usize].fill(0);
    }

    /// Bytes of all objects.
    fn bytes(&self) -> u64 {
        fn of(folder: &Path) -> u64 {
            let entries = std::fs::read_dir(folder)
                .expect("a folder")
                .map(|entry| entry.expect("read"));
            entries
                .map(|entry| match entry.metadata().expect("read") {
                    facts if facts.is_dir() => of(&entry.path()),
                    facts => facts.len(),
                })
                .sum()
        }
        of(&self.folder)
    }

    pub fn objects(&self, kind: &str) -> Vec<PathBuf> {
        let Ok(vaults) = std::fs::read_dir(self.folder.join(kind)) else {
            return Vec::new();
        };
        let objects = vaults.flat_map(|vault| std::fs::read_dir(vault.expect("read").path()).expect("a folder"));
        let mut objects: Vec<PathBuf> = objects.map(|object| object.expect("read").path()).collect();
        objects.sort();
        objects
    }

    pub fn compare(&self, file: &Path) {
        let found = std::fs::read(file).expect("restored");
        assert!(found == self.content, "{} is not what was backed up", file.display());
    }

    pub fn compare_volume(&self, back: &mut Client) {
        let mut found = vec![0; MIB as usize];
        for (at, wanted) in (0..).step_by(MIB as usize).zip(self.content.chunks(MIB as usize)) {
            back.read(at, &mut found).expect("read");
            assert!(found == wanted, "the MiB at {at}");
        }
    }
}

pub fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} of {value}"))
}

fn snapshots(world: &World, volume: &str) -> Vec<bool> {
    let all = world.json(&["volume", "snapshot", "list", volume]);
    let all = all.as_array().expect("a list");
    all.iter().map(|snapshot| snapshot["mark"] == true).collect()
}

#[test]
fn increments_cost_what_changed_and_come_back_without_their_cluster() {
    let world = World::of(1);
    let mut repository = Repository::new(&world);
    let mut client = world.open(0);
    repository.write(&mut client, 0, &pattern(1, 60 << 20));
    let first = repository.json(&world, &["run", VOLUME]);
    assert_eq!(first["volumes"][0]["way"], "whole", "{first}");
    assert!(number(&first, "sent_bytes") > 60 * MIB, "{first}");
    assert_eq!(snapshots(&world, VOLUME), [true], "only a mark is left");

    // One block of a hundred, each somewhere else.
    let changed = VOLUME_BYTES / 100 / BLOCK;
    for at in 0..changed {
        let offset = at * 91 * BLOCK;
        repository.write(&mut client, offset, &pattern(1000 + at, BLOCK as usize));
    }
    let before = repository.bytes();
    let second = repository.json(&world, &["run", VOLUME]);
    let volume = &second["volumes"][0];
    assert_eq!(
        (&volume["way"], &volume["since"]),
        (&json!("changes"), &first["point"]),
        "{second}"
    );
    assert_eq!(number(volume, "read_bytes"), changed * BLOCK, "{second}");
    // What moves, and what the repository grows by, is that and the places of it.
    let most = VOLUME_BYTES / 1000 * 11 + 64 * 1024;
    assert!(number(&second, "sent_bytes") <= most, "{second}");
    let grown = repository.bytes() - before;
    assert!(grown <= most + 64 * 1024, "{grown} of {before}");
    assert_eq!(snapshots(&world, VOLUME), [true], "the former mark is gone");

    repository.trim(&mut client, 20 * MIB, 3 * MIB);
    repository.write(&mut client, 62 * MIB, &pattern(7, 100_000 / 4096 * 4096));
    let third = repository.json(&world, &["run", VOLUME]);
    assert_eq!(
        number(&third["volumes"][0], "read_bytes"),
        100_000 / 4096 * 4096,
        "{third}"
    );

    // Without a mark all is compared, and what is there is not sent again but where a piece was used in part.
    let marks = world.json(&["volume", "snapshot", "list", VOLUME]);
    let mark = marks[0]["name"].as_str().expect("a name");
    world.amita_done(&["volume", "snapshot", "delete", VOLUME, mark]);
    repository.write(&mut client, 40 * MIB, &pattern(8, BLOCK as usize));
    let fourth = repository
        .amita(&world, &["run", VOLUME])
        .success()
        .expect("it runs")
        .text;
    assert!(fourth.contains("was read and compared with point"), "{fourth}");
    assert!(fourth.contains("is not there any more"), "{fourth}");
    let again = repository.json(&world, &["run", VOLUME]);
    assert_eq!(
        (&again["volumes"][0]["way"], number(&again, "pieces")),
        (&json!("changes"), 0),
        "{again}"
    );

    // Two volumes at one moment are one point.
    world.amita_done(&["volume", "create", "log", "--pool", "demo", "--size", "8M"]);
    let set = repository.json(&world, &["run", VOLUME, "log"]);
    let points = repository.json(&world, &["list"]);
    let last = points.as_array().expect("a list").last().expect("a point");
    assert_eq!(
        (&last["point"], last["volumes"][1]["volume"].as_str()),
        (&set["point"], Some("log")),
        "{points}"
    );
    assert_eq!(
        repository.amita(&world, &["run", VOLUME, VOLUME]).status.code(),
        Some(2)
    );

    // Anywhere with the key, and nowhere without it.
    let image = world.file("back.raw");
    let to = image.to_str().expect("plain");
    let one = repository.alone(&world, &["restore", "latest", "--to-file", to]);
    assert_eq!(one.status.code(), Some(2), "which of two: {}", one.text);
    repository
        .alone(&world, &["restore", "latest", "--volume", VOLUME, "--to-file", to])
        .success()
        .expect("it is restored");
    repository.compare(&image);
    let there = repository.alone(&world, &["restore", "latest", "--volume", VOLUME, "--to-file", to]);
    assert_eq!(there.status.code(), Some(5), "{}", there.text);
    let wrong = Repository {
        folder: repository.folder.clone(),
        key: world.file("other.key"),
        content: Vec::new(),
    };
    assert_eq!(
        wrong.alone(&world, &["list"]).status.code(),
        Some(4),
        "there is no such key"
    );
    let elsewhere = Repository {
        folder: world.file("elsewhere"),
        key: wrong.key.clone(),
        content: Vec::new(),
    };
    std::fs::create_dir(&elsewhere.folder).expect("made");
    elsewhere
        .alone(&world, &["repository", "init"])
        .success()
        .expect("made");
    let refused = wrong.alone(&world, &["list"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(refused.text.contains("opens none"), "{}", refused.text);
    std::fs::remove_dir_all(elsewhere.folder.join("keys")).expect("removed");
    let foreign = elsewhere.alone(&world, &["list"]);
    assert_eq!(foreign.status.code(), Some(4), "{}", foreign.text);
    drop(client);

    // The repository lies in the first one's folder.
    let fresh = World::of(1);
    let point = second["point"].to_string();
    let early = repository.json(&fresh, &["restore", &point, "--to", "early", "--pool", "demo"]);
    assert_eq!(number(&early, "size_bytes"), VOLUME_BYTES, "{early}");
    repository.json(
        &fresh,
        &[
            "restore", "latest", "--volume", VOLUME, "--to", "back", "--pool", "demo",
        ],
    );
    let taken = repository.amita(
        &fresh,
        &[
            "restore", "latest", "--volume", VOLUME, "--to", "back", "--pool", "demo",
        ],
    );
    assert_eq!(taken.status.code(), Some(5), "{}", taken.text);
    fresh.cluster.offer_by_nbd("back").expect("exported");
    let mut back = Client::open(fresh.cluster.nodes()[0].nbd, "back", PATIENCE).expect("it opens");
    repository.compare_volume(&mut back);
    drop(back);
    // The restored volume is another one: its first backup is a whole one, of which all is there.
    let adopted = repository.json(&fresh, &["run", "back"]);
    assert_eq!(adopted["volumes"][0]["way"], "whole", "{adopted}");
    fresh.end(&[]);
    world.end(&[]);
}

/// Starts a run, with nothing said where it ends.
fn start_run(world: &World, repository: &Repository, more: &[&str]) -> Process {
    let words = [&["run", VOLUME][..], more].concat();
    let mut all = Repository::with_identity(world, &repository.arguments(&words));
    all.extend(["--metadata".to_owned(), world.cluster.endpoint().to_owned()]);
    all.extend(["--identity".to_owned(), world.operator()]);
    tool::start(world.folder(), binary(), all).expect("it starts")
}

#[test]
fn what_was_put_is_not_put_again_and_what_is_damaged_is_found_and_mended() {
    let world = World::of(1);
    let mut repository = Repository::new(&world);
    let mut client = world.open(0);
    repository.write(&mut client, 0, &pattern(1, 24 << 20));
    // Slow enough to be caught in the middle, by whatever else runs on this machine: packs of 1 MiB, four of them to an entry.
    let mut run = start_run(&world, &repository, &["--limit-rate", "512K"]);
    let begun = |repository: &Repository, entries: usize| repository.objects("journal").len() >= entries;
    eventually("it has begun, and told of packs", || begun(&repository, 2));
    let beside = repository.amita(&world, &["run", VOLUME]);
    if run.ended().expect("known").is_none() {
        assert_eq!(beside.status.code(), Some(5), "{}", beside.text);
        assert!(beside.text.contains("--fence"), "{}", beside.text);
    }
    run.kill();
    let put: u64 = repository
        .objects("packs")
        .iter()
        .map(|pack| pack.metadata().expect("read").len())
        .sum();
    assert!(put > 3 * MIB, "{put}");
    let went_on = repository.json(&world, &["run", VOLUME]);
    assert!(number(&went_on, "found_pieces") >= 12, "{went_on}");
    assert!(number(&went_on, "sent_bytes") <= 21 * MIB, "{went_on}");
    assert_eq!(snapshots(&world, VOLUME), [true], "the killed run's snapshot is gone");
    let clean = repository
        .amita(&world, &["verify", "--whole"])
        .success()
        .expect("it is whole")
        .text;
    assert!(clean.contains("all is whole"), "{clean}");

    // One byte of the first pack.
    let pack = repository.objects("packs").remove(0);
    let mut bytes = std::fs::read(&pack).expect("read");
    bytes[1000] ^= 1;
    std::fs::write(&pack, bytes).expect("written");
    let name = pack.file_name().and_then(|name| name.to_str()).expect("plain");
    let found = repository.amita(&world, &["verify", "--whole", "--give-up"]);
    assert_eq!(found.status.code(), Some(1), "{}", found.text);
    assert!(
        found.text.contains(name) && found.text.contains("not whole"),
        "{}",
        found.text
    );
    let image = world.file("back.raw");
    let to = image.to_str().expect("plain");
    let lost = repository.alone(&world, &["restore", "latest", "--to-file", to]);
    assert_eq!(lost.status.code(), Some(1), "{}", lost.text);
    assert!(lost.text.contains(name) && !image.exists(), "{}", lost.text);

    // What the volume still has of it is put again; then the point before is whole, too.
    repository.write(&mut client, 30 * MIB, &pattern(9, MIB as usize));
    let full = repository.json(&world, &["run", VOLUME, "--full"]);
    assert!(number(&full, "sent_bytes") < 8 * MIB, "{full}");
    repository
        .alone(&world, &["restore", "latest", "--to-file", to])
        .success()
        .expect("restored");
    repository.compare(&image);

    let pruned = repository.json(&world, &["prune", "--keep-last", "1"]);
    assert_eq!(pruned["forgotten"], json!([went_on["point"]]), "{pruned}");
    assert!(
        number(&pruned, "deleted_packs") > 0 && pruned["waiting"] == json!([]),
        "{pruned}"
    );
    let points = repository.json(&world, &["list"]);
    assert_eq!(points.as_array().map(Vec::len), Some(1), "{points}");
    repository
        .amita(&world, &["verify", "--whole"])
        .success()
        .expect("it is whole");
    let shown = repository.json(&world, &["show", "latest"]);
    assert_eq!(
        (number(&shown["vault"], "lost_packs"), &shown["vault"]["open_sessions"]),
        (0, &json!([])),
        "{shown}"
    );

    // A repository that was set back is seen by the cluster.
    let last = repository.objects("journal").len();
    repository.json(&world, &["run", VOLUME]);
    for entry in repository.objects("journal").split_off(last) {
        std::fs::remove_file(entry).expect("removed");
    }
    let replaced = repository.amita(&world, &["run", VOLUME]);
    assert_eq!(replaced.status.code(), Some(1), "{}", replaced.text);
    assert!(replaced.text.contains("set back or replaced"), "{}", replaced.text);
    repository.json(&world, &["run", VOLUME, "--full"]);
    let after = repository.json(&world, &["run", VOLUME]);
    assert_eq!(after["volumes"][0]["way"], "changes", "{after}");
    assert_eq!(
        snapshots(&world, VOLUME),
        [true],
        "what was of the other journal is gone"
    );
    drop(client);
    // The run that was killed was a node while it lasted.
    world.end(A_NODE_IS_GONE);
}
