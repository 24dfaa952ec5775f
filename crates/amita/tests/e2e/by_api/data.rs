//! The data of volumes by the API, as the commands copy, compare and revert it.

use super::{Workstation, apis};
use crate::reverts::{compare, write};
use crate::world::{A_NODE_IS_GONE, VOLUME, VOLUME_BYTES, World, binary, eventually, pattern};
use amita_harness::tool::{self, Output};
use serde_json::Value;
use std::path::Path;
use std::sync::mpsc::channel;

const MIB: u64 = 1 << 20;

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

impl Workstation<'_> {
    /// Again, while who had the volume a moment ago has not left.
    fn when_free(&self, arguments: &[&str]) -> Output {
        let mut said = None;
        eventually("the volume is free", || {
            let now = self.run(arguments);
            let is_free = !now.text.contains("in use through");
            said = Some(now);
            is_free
        });
        said.expect("it was run").success().expect("the command succeeds")
    }
}

/// The names of all files that lie in the world's folder and have to do with this one.
fn beside(world: &World, name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(world.folder()).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|found| found.contains(name)).collect()
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn a_volume_is_copied_out_and_in_compared_and_reverted_by_the_api() {
    let world = World::with_volume();
    let work = Workstation {
        by_api: apis(&world).join(","),
        identity: world.operator_with("operator"),
        world: &world,
    };
    let mut client = world.open(0);
    let mut was = vec![0; VOLUME_BYTES as usize];
    write(&mut client, &mut was, 0, &pattern(1, 5 << 20));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    let mut is = was.clone();
    write(&mut client, &mut is, 3 * MIB + 4096, &pattern(2, 64 << 10));
    write(&mut client, &mut is, 41 * MIB, &pattern(3, 4096));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "b"]);

    // A snapshot is copied while a host uses the volume: raw, as qcow2, and into a pipe.
    let (snapshot, raw, qcow2) = (format!("{VOLUME}@a"), world.file("a.raw"), world.file("a.qcow2"));
    let said = work.json(&["volume", "export", &snapshot, text(&raw)]);
    assert_eq!(
        (&said["size_bytes"], &said["format"]),
        (&VOLUME_BYTES.into(), &"raw".into()),
        "{said}"
    );
    assert!(std::fs::read(&raw).expect("it is there") == was);
    assert_eq!(beside(&world, "a.raw"), ["a.raw"], "nothing is left beside");
    let refused = work.run(&["volume", "export", &snapshot, text(&raw)]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    work.done(&["volume", "export", &snapshot, text(&qcow2), "--format", "qcow2"]);
    world.done(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "qcow2", text(&raw), text(&qcow2)],
    );
    // What is in use is not copied, and nothing is left of the attempt.
    let refused = work.run(&["volume", "export", VOLUME, text(&world.file("no.raw"))]);
    assert!(
        refused.status.code() == Some(5) && refused.text.contains("in use through"),
        "{}",
        refused.text
    );
    assert!(beside(&world, "no.raw").is_empty());

    // Both ways tell the same changes.
    for more in [&[][..], &["--json"]] {
        let question = [&["volume", "diff", &snapshot, "b"], more].concat();
        let here = crate::images::amita(&world, &question)
            .success()
            .expect("it is compared");
        assert_eq!(work.done(&question), here.text);
    }
    client.close();

    // Into a new volume, and over one that is there.
    let said = work.json(&["volume", "import", text(&qcow2), "copy", "--pool", "demo"]);
    assert_eq!(
        (&said["size_bytes"], &said["format"]),
        (&VOLUME_BYTES.into(), &"qcow2".into()),
        "{said}"
    );
    // Nobody has a right to it by NBD.
    let exported = |name: &str| {
        let file = world.file("back.raw");
        work.when_free(&["volume", "export", name, text(&file), "--force"]);
        std::fs::read(&file).expect("it is there")
    };
    assert!(exported("copy") == was);
    let exists = work.run(&["volume", "import", text(&raw), "copy", "--pool", "demo"]);
    assert_eq!(exists.status.code(), Some(5), "{}", exists.text);
    let small = world.file("small.raw");
    std::fs::write(&small, pattern(4, 5000)).expect("written");
    work.when_free(&["volume", "import", text(&small), "copy", "--force"]);
    let mut content = vec![0; VOLUME_BYTES as usize];
    content[..5000].copy_from_slice(&pattern(4, 5000));
    assert!(exported("copy") == content);

    // Reverted, with what it was kept.
    let said = work.when_free(&["volume", "revert", &snapshot, "--json"]);
    let said: Value = serde_json::from_str(&said.text).unwrap_or_else(|why| panic!("{why}: {}", said.text));
    let kept = said["kept"].as_str().expect("a snapshot is kept").to_owned();
    assert_ne!(said["id"], said["stable_id"], "{said}");
    compare(&world, 1, VOLUME, &was);
    compare(&world, 2, &format!("{VOLUME}@{kept}"), &is);

    // A viewer may none of it; each is one action of the log, however long it took.
    let viewer = Workstation {
        identity: world.operator_with("viewer"),
        by_api: work.by_api.clone(),
        world: &world,
    };
    for arguments in [
        &["volume", "export", &snapshot, "-"][..],
        &["volume", "diff", &snapshot, "b"],
        &["volume", "revert", &snapshot],
        &["volume", "import", text(&small), "copy", "--force"],
    ] {
        let refused = viewer.run(arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {}", refused.text);
    }
    let audit = world.json(&["audit", "list"]);
    let records = audit.as_array().expect("a list").iter();
    let imports = records.filter(|record| record["action"] == "volume.import" && record["object"] == "copy");
    let outcomes: Vec<&str> = imports.filter_map(|record| record["outcome"].as_str()).collect();
    let of = |outcome: &str| outcomes.iter().filter(|found| **found == outcome).count();
    assert_eq!((of("begun"), of("done")), (2, 2), "{outcomes:?}");
    world.end(&[]);
}

#[test]
fn a_copy_is_made_by_another_node_and_what_is_cut_is_not_told_as_whole() {
    let mut world = World::with_volume();
    let all = apis(&world);
    let identity = world.operator();
    let mut client = world.open(1);
    let mut content = vec![0; VOLUME_BYTES as usize];
    write(&mut client, &mut content, 0, &pattern(1, 8 << 20));
    client.close();
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    let snapshot = format!("{VOLUME}@a");
    // Whoever reads takes nothing, so the copy is on its way when its node dies.
    let pipe = world.file("pipe");
    world.done("mkfifo", &[text(&pipe)]);
    let fifo = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&pipe)
        .expect("a pipe");
    let writing = format!(
        "exec '{}' volume export {snapshot} - --by-api {} --identity '{identity}' > '{}'",
        binary(),
        all[0],
        pipe.display()
    );
    let mut cut = tool::start(world.folder(), "sh", ["-c", writing.as_str()]).expect("it starts");
    let (came, has_come) = channel();
    let (go_on, goes_on) = channel::<()>();
    let drained = std::thread::spawn(move || {
        let mut fifo = fifo;
        let mut bytes = vec![0; 1 << 16];
        // It is on its way when its first byte is here; the pipe and the connection have no room for the whole.
        std::io::Read::read_exact(&mut fifo, &mut bytes[..1]).expect("it comes");
        let is_wanted = came.send(()).is_ok() && goes_on.recv().is_ok();
        assert!(is_wanted, "the test waits");
        // What is in the pipe is taken, and then it is told that there is no more.
        // The pipe is held open for writing here, too: reading ends with the process of the test.
        while std::io::Read::read(&mut fifo, &mut bytes).is_ok_and(|read| read > 0) {}
    });
    let mut has_begun = false;
    eventually("it is on its way", || {
        has_begun |= has_come.try_recv().is_ok();
        has_begun
    });
    world.cluster.kill_node(0);
    go_on.send(()).expect("the pipe is read");
    eventually("it has ended", || cut.ended().expect("it is a child").is_some());
    assert!(cut.last_words().contains("not the whole"), "{}", cut.last_words());
    drop(drained);
    // By the addresses of all it is made by one that lives.
    let work = Workstation {
        by_api: all.join(","),
        identity,
        world: &world,
    };
    let file = world.file("whole.raw");
    work.done(&["volume", "export", &snapshot, text(&file)]);
    assert!(std::fs::read(&file).expect("it is there") == content);
    assert_eq!(beside(&world, "whole.raw"), ["whole.raw"]);
    world.end(A_NODE_IS_GONE);
}
