//! The data of volumes by the REST API: reverted, compared, copied out and in, as curl does it and as the commands would.

use crate::images::amita;
use crate::reverts::{compare, open, write};
use crate::world::{VOLUME, VOLUME_BYTES, World, eventually, pattern};
use amita_harness::process::Process;
use amita_harness::tool;
use serde_json::{Value, json};
use std::path::Path;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// A way to one node's API.
struct Way<'a> {
    world: &'a World,
    url: String,
    token: String,
}

impl Way<'_> {
    fn new<'a>(world: &'a World, role: &str) -> Way<'a> {
        let nodes = world.json(&["node", "list"]);
        let api = nodes[0]["api"].as_str().expect("an API");
        let token = world.json(&["token", "create", role, "--role", role]);
        Way {
            world,
            url: format!("https://{api}/api/v1"),
            token: format!("Authorization: Bearer {}", token["secret"].as_str().expect("a secret")),
        }
    }

    fn arguments(&self, path: &str, more: &[&str]) -> Vec<String> {
        let usual = ["--silent", "--show-error", "--insecure", "--header", &self.token];
        let url = format!("{}{path}", self.url);
        let all = usual.iter().chain(more).map(|text| (*text).to_owned());
        all.chain([url]).collect()
    }

    /// The status, and what is said; again, while who had the volume a moment ago has not left.
    fn ask(&self, path: &str, more: &[&str]) -> (u16, Value) {
        let more = [&["--max-time", "60", "--write-out", "\n%{http_code}"], more].concat();
        let arguments = self.arguments(path, &more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut answer = (0, Value::Null);
        eventually("the volume is free", || {
            let said = self.world.tool("curl", &arguments).text;
            let (body, status) = said.rsplit_once('\n').expect("a status");
            answer = (
                status.trim().parse().expect("a number"),
                serde_json::from_str(body).unwrap_or(Value::Null),
            );
            !body.contains("in use through")
        });
        answer
    }

    fn done(&self, path: &str, more: &[&str]) -> Value {
        let (status, said) = self.ask(path, more);
        assert_eq!(status, 200, "{path}: {said}");
        said
    }

    /// What is copied out.
    fn export(&self, path: &str) -> Vec<u8> {
        let file = self.world.file("out.raw");
        let mut bytes = Vec::new();
        eventually("the volume is free", || {
            let (status, _) = self.ask(path, &["--output", file.to_str().expect("plain")]);
            bytes = std::fs::read(&file).expect("it is there");
            let said = String::from_utf8_lossy(&bytes[..bytes.len().min(500)]);
            assert!(
                status == 200 || said.contains("in use through"),
                "{path}: {status} {said}"
            );
            status == 200
        });
        bytes
    }

    /// The same, slowly, by a process of its own.
    fn begin(&self, path: &str, more: &[&str]) -> Process {
        let more = [&["--limit-rate", "200k"], more].concat();
        let arguments = self.arguments(path, &more);
        tool::start(self.world.folder(), "curl", arguments).expect("the process starts")
    }

    fn import_job(&self) -> Option<Value> {
        let jobs = self.done("/jobs?kind=import", &[]);
        jobs["items"].as_array().expect("a list").first().cloned()
    }
}

/// What differs there first.
fn differs(found: &[u8], expected: &[u8]) -> Option<usize> {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).position(|(one, other)| one != other)
}

fn import(file: &Path) -> [&str; 5] {
    let file = file.to_str().expect("plain");
    ["--upload-file", file, "--header", "If-Match: *", "--globoff"]
}

#[test]
fn it_is_copied_out_compared_and_reverted() {
    let world = World::with_volume();
    let (operator, viewer) = (Way::new(&world, "operator"), Way::new(&world, "viewer"));
    let mut client = world.open(0);
    let mut was = vec![0; VOLUME_BYTES as usize];
    write(&mut client, &mut was, 0, &pattern(1, 9 << 20));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    let mut is = was.clone();
    for (index, at) in [0, 3 * MIB + BLOCK, 20 * MIB, 41 * MIB].into_iter().enumerate() {
        write(&mut client, &mut is, at, &pattern(10 + index as u64, 64 << 10));
    }
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "b"]);
    // Snapshots are read while a host uses the volume.
    let snapshot = operator.export(&format!("/volumes/{VOLUME}/export?snapshot=a"));
    assert_eq!(differs(&snapshot, &was), None);
    let arguments = operator.arguments(&format!("/volumes/{VOLUME}/export"), &[]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let refused = world.tool("curl", &arguments).text;
    assert!(refused.contains("in use through"), "{refused}");
    client.close();
    let head = operator.export(&format!("/volumes/{VOLUME}/export"));
    assert_eq!(differs(&head, &is), None);

    // What is told in pieces is what the command tells.
    let told = amita(&world, &["volume", "diff", &format!("{VOLUME}@a"), "b", "--json"]);
    let told: Value = serde_json::from_str(&told.success().expect("it is compared").text).expect("JSON");
    let (mut found, mut after, mut pieces) = (Vec::new(), String::new(), 0);
    loop {
        let said = operator.done(&format!("/volumes/{VOLUME}/diff?from=a&to=b&limit=2{after}"), &[]);
        assert_eq!(
            (&said["size_bytes"], &said["from"]),
            (&told["size_bytes"], &told["from"])
        );
        found.extend(said["items"].as_array().expect("a list").clone());
        pieces += 1;
        let Some(next) = said["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(Value::Array(found), told["extents"], "{told}");
    assert!(pieces > 1, "{told}");

    let revert = format!("/volumes/{VOLUME}/snapshots/a/revert");
    let export = format!("/volumes/{VOLUME}/export");
    let data = format!("/volumes/{VOLUME}/data");
    let json = ["--header", "Content-Type: application/json", "--data", "{}"];
    let matching = |tag| [&json[..], &["--header", tag]].concat();
    let image = world.file("small.raw");
    std::fs::write(&image, pattern(3, 5000)).expect("written");
    for (path, how) in [
        (&revert, matching("If-Match: *")),
        (&export, Vec::new()),
        (&data, import(&image).to_vec()),
    ] {
        let (status, said) = viewer.ask(path, &how);
        assert_eq!((status, &said["code"]), (403, &json!("denied")), "{path}: {said}");
    }
    assert_eq!(operator.ask(&revert, &json).0, 428);
    assert_eq!(operator.ask(&revert, &matching("If-Match: \"old\"")).0, 412);
    let said = operator.done(&revert, &matching("If-Match: *"));
    let kept = said["kept"].as_str().expect("a snapshot is kept").to_owned();
    compare(&world, 1, VOLUME, &was);
    compare(&world, 2, &format!("{VOLUME}@{kept}"), &is);
    // Who opens the volume at that node now is served what it is.
    let mut client = open(&world, 0, VOLUME);
    let mut block = vec![0; BLOCK as usize];
    client.read(20 * MIB, &mut block).expect("it is read");
    assert!(block.iter().all(|byte| *byte == 0));
    client.close();
    let audit = world.amita_done(&["audit", "list"]);
    for action in ["volume.revert", "volume.export-data"] {
        assert!(
            audit
                .lines()
                .any(|line| line.contains(action) && line.contains("token operator")),
            "{action}: {audit}"
        );
    }
    world.end(&[]);
}

#[test]
fn an_image_goes_in_and_comes_out_and_one_that_is_cut_short_is_told_of() {
    let world = World::with_volume();
    let operator = Way::new(&world, "operator");
    let (data, export) = (format!("/volumes/{VOLUME}/data"), format!("/volumes/{VOLUME}/export"));
    let mut client = world.open(0);
    let mut before = vec![0; VOLUME_BYTES as usize];
    write(&mut client, &mut before, 60 * MIB, &pattern(9, 1 << 20));
    client.close();

    let long = world.file("long.raw");
    let file = std::fs::File::create(&long).expect("made");
    file.set_len(VOLUME_BYTES + 1).expect("long");
    let (status, said) = operator.ask(&data, &import(&long));
    assert_eq!((status, &said["code"]), (409, &json!("no-room")), "{said}");
    assert_eq!(differs(&operator.export(&export), &before), None, "nothing is written");

    // Whoever sends it goes away.
    let image = pattern(5, (30 << 20) + 777);
    let file = world.file("image.raw");
    std::fs::write(&file, &image).expect("written");
    let mut curl = operator.begin(&data, &import(&file));
    eventually("it is a job", || operator.import_job().is_some());
    curl.kill();
    eventually("the job says what has become of it", || {
        let job = operator.import_job().expect("it stays");
        let ails = job["ails"].as_str().unwrap_or_default();
        job["state"] == "stalled" && ails.contains("has gone") && ails.contains("send the image again")
    });
    let audit = world.amita_done(&["audit", "list"]);
    assert!(
        audit
            .lines()
            .any(|line| line.contains("volume.import") && line.contains("failed")),
        "{audit}"
    );
    // And comes again.
    let said = operator.done(&data, &import(&file));
    assert_eq!(
        (&said["image_bytes"], &said["volume"]),
        (&json!(image.len()), &json!(VOLUME))
    );
    let sum = world.done("sha256sum", &[file.to_str().expect("plain")]);
    assert_eq!(sum.split_whitespace().next(), said["sha256"].as_str(), "{said}");
    assert_eq!(operator.import_job(), None);
    let mut whole = image;
    whole.resize(VOLUME_BYTES as usize, 0);
    assert_eq!(differs(&operator.export(&export), &whole), None);

    // One that is not what it was said to be does not count.
    let empty = "Content-Digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";
    let (status, said) = operator.ask(&data, &[&import(&file)[..], &["--header", empty]].concat());
    assert_eq!((status, &said["code"]), (422, &json!("incomplete")), "{said}");
    assert_eq!(operator.import_job().expect("it stays")["state"], "stalled");
    let qcow2 = world.file("image.qcow2");
    world.done(
        "qemu-img",
        &["create", "-f", "qcow2", qcow2.to_str().expect("plain"), "8M"],
    );
    let (status, said) = operator.ask(&data, &import(&qcow2));
    assert_eq!((status, &said["code"]), (400, &json!("bad-request")), "{said}");
    world.end(&[]);
}

#[test]
fn a_node_copies_two_at_once() {
    let world = World::with_volume();
    let operator = Way::new(&world, "operator");
    let mut client = world.open(0);
    let mut content = vec![0; VOLUME_BYTES as usize];
    write(&mut client, &mut content, 0, &pattern(1, 64 << 20));
    client.close();
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    let export = format!("/volumes/{VOLUME}/export?snapshot=a");
    let files = ["one.raw", "two.raw"].map(|name| world.file(name));
    let mut curls = files.clone().map(|file| {
        let file = file.to_str().expect("plain").to_owned();
        operator.begin(&export, &["--output", &file])
    });
    for file in &files {
        eventually("it comes", || {
            std::fs::metadata(file).is_ok_and(|facts| facts.len() > 0)
        });
    }
    let third = world.file("three.raw");
    let third = ["--output", third.to_str().expect("plain"), "--dump-header", "-"];
    let arguments = operator.arguments(&export, &third);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = world.done("curl", &arguments).to_lowercase();
    assert!(said.contains(" 429 ") && said.contains("retry-after: 5"), "{said}");
    for curl in &mut curls {
        curl.kill();
    }
    eventually("there is room again", || {
        world.done("curl", &arguments).contains(" 200 ")
    });
    assert_eq!(
        differs(&std::fs::read(world.file("three.raw")).expect("it is there"), &content),
        None
    );
    world.end(&[]);
}
