//! Images are copied into volumes and out of them; `qemu-img` says whether they are sound, and the same.

use crate::world::{PATIENCE, World, binary, eventually, pattern, stamped};
use amita_harness::nbd::Client;
use amita_harness::process::dying_with_us;
use amita_harness::tool;
use amita_identity::Role;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Stdio;

const IMAGE_BYTES: u64 = 24 << 20;

/// A command of ours that reads or writes data: by a gateway's identity, as whom nothing needs to be exported.
pub fn amita(world: &World, arguments: &[&str]) -> tool::Output {
    let identity = world.identity(Role::Gateway, "copier");
    let mut all = arguments.to_vec();
    if let Some(identity) = &identity {
        all.extend(["--client-identity", identity]);
    }
    world.amita(&all)
}

fn done(world: &World, arguments: &[&str]) -> String {
    amita(world, arguments).success().expect("the command succeeds").text
}

/// A raw image with data at its ends and in between, holes and written zeros, whose length is no multiple of a block.
fn raw_image(path: &Path) {
    let file = std::fs::File::create(path).expect("made");
    file.set_len(IMAGE_BYTES - 1000).expect("long enough");
    let write = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at).expect("written");
    write(0, &stamped(0, 1));
    write(5 << 20, &pattern(7, 300_000));
    write(9 << 20, &vec![0; 1 << 20]);
    write(IMAGE_BYTES - 5000, &pattern(9, 4000));
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

#[test]
fn images_go_in_and_come_out_the_same() {
    let world = World::with_volume();
    let [raw, qcow2, packed, back, small] =
        ["a.raw", "a.img", "packed.img", "back.raw", "back.qcow2"].map(|name| world.file(name));
    let [raw, qcow2, packed, back, small] = [&raw, &qcow2, &packed, &back, &small].map(|path| text(path));
    raw_image(Path::new(raw));
    world.done("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", raw, qcow2]);
    world.done("qemu-img", &["convert", "-c", "-f", "raw", "-O", "qcow2", raw, packed]);
    for (image, name) in [(raw, "one"), (qcow2, "two"), (packed, "three")] {
        let said = done(&world, &["volume", "import", image, name, "--pool", "demo"]);
        assert!(said.contains(name), "{said}");
        done(&world, &["volume", "export", name, back, "--force"]);
        world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", raw, back]);
        let facts = std::fs::metadata(back).expect("it is there");
        assert_eq!(facts.len(), IMAGE_BYTES, "rounded up to a block");
        assert!(
            facts.blocks() * 512 < 2 << 20,
            "{} blocks of a sparse file",
            facts.blocks()
        );
        done(
            &world,
            &["volume", "export", name, small, "--format", "qcow2", "--force"],
        );
        world.done("qemu-img", &["check", small]);
        world.done("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", raw, small]);
    }
    let shown = world.json(&["volume", "show", "one"]);
    assert_eq!(shown["size_bytes"], IMAGE_BYTES, "{shown}");
    assert!(shown["created_at"].is_u64() && shown["import"].is_null(), "{shown}");
    world.end(&[]);
}

#[test]
fn what_would_be_lost_is_asked_for_first() {
    let world = World::with_volume();
    let [raw, out] = ["a.raw", "out.raw"].map(|name| world.file(name));
    let [raw, out] = [&raw, &out].map(|path| text(path));
    raw_image(Path::new(raw));
    done(&world, &["volume", "import", raw, "one", "--pool", "demo"]);
    let again = amita(&world, &["volume", "import", raw, "one", "--pool", "demo"]);
    assert_eq!(again.status.code(), Some(5), "{}", again.text);
    assert!(again.text.contains("--force"), "{}", again.text);
    let resumed = amita(&world, &["volume", "import", raw, "one", "--resume"]);
    assert_eq!(resumed.status.code(), Some(5), "{}", resumed.text);

    // What was there before is not left in the image's holes.
    world.amita_done(&["nbd", "export", "one", "--any-client"]);
    let address = world.cluster.nodes()[1].nbd;
    let mut client = Client::open(address, "one", PATIENCE).expect("it is exported");
    client.write(16 << 20, &stamped(1, 1)).expect("written");
    drop(client);
    world.amita_done(&["nbd", "unexport", "one"]);
    done(&world, &["volume", "import", raw, "one", "--force"]);
    done(&world, &["volume", "export", "one", out]);
    world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", raw, out]);
    let again = amita(&world, &["volume", "export", "one", out]);
    assert_eq!(again.status.code(), Some(5), "{}", again.text);

    // An image that names another file reads it only where that was asked for.
    let child = world.file("child.qcow2");
    let child = text(&child);
    world.done("qemu-img", &["create", "-f", "qcow2", "-b", raw, "-F", "raw", child]);
    let refused = amita(&world, &["volume", "import", child, "two", "--pool", "demo"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(refused.text.contains("--follow"), "{}", refused.text);
    done(
        &world,
        &["volume", "import", child, "two", "--pool", "demo", "--follow"],
    );
    done(&world, &["volume", "export", "two", out, "--force"]);
    world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", raw, out]);

    // An operator says what is served to whom, and reads nothing.
    let refused = world.amita(&["volume", "export", "one", out, "--force"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(refused.text.contains("--client-identity"), "{}", refused.text);
    for arguments in [
        &["volume", "export", "one", "-", "--format", "qcow2"][..],
        &[
            "volume", "import", "-", "three", "--pool", "demo", "--format", "qcow2", "--size", "1M",
        ],
        &["volume", "export", "one", out, "--resume", "--format", "qcow2"],
    ] {
        let refused = amita(&world, arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", refused.text);
    }
    world.end(&[]);
}

/// As by Ctrl-Z, or where a machine is suspended: for longer than the lease of what owns the volume meanwhile.
#[test]
fn an_import_that_stood_still_says_nothing_of_a_volume_that_another_one_has_filled() {
    let world = World::with_volume();
    let [raw, out] = ["a.raw", "out.raw"].map(|name| world.file(name));
    let [raw, out] = [&raw, &out].map(|path| text(path));
    raw_image(Path::new(raw));
    done(&world, &["volume", "import", raw, "one", "--pool", "demo"]);
    let mark = || world.json(&["volume", "show", "one"])["import"].clone();
    assert!(mark().is_null());

    let mut command = dying_with_us(Path::new(binary()));
    let size = IMAGE_BYTES.to_string();
    command.args(["volume", "import", "-", "one", "--force", "--size", &size]);
    command.args(["--metadata", world.cluster.endpoint(), "--identity", &world.operator()]);
    if let Some(identity) = world.identity(Role::Gateway, "stopped") {
        command.args(["--client-identity", &identity]);
    }
    let (stdin, stderr) = (Stdio::piped(), Stdio::piped());
    let mut late = command.stdin(stdin).stderr(stderr).spawn().expect("it starts");
    let mut image = late.stdin.take().expect("piped");
    image.write_all(&pattern(3, 8 << 20)).expect("it is read");
    eventually("it has begun", || !mark().is_null());
    let signal = |signal| kill_process(Pid::from_child(&late), signal).expect("a signal");
    signal(Signal::STOP);
    done(&world, &["volume", "import", raw, "one", "--force"]);
    assert!(mark().is_null(), "it is whole");
    signal(Signal::CONT);
    // It may have ended by then.
    let _ = image.write_all(&pattern(3, 16 << 20));
    drop(image);
    let ended = late.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{said}");
    assert!(mark().is_null(), "it is in use by now, and whole: {said}");
    assert!(!said.contains("begins anew"), "{said}");
    done(&world, &["volume", "export", "one", out]);
    world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", raw, out]);
    world.end(&[]);
}

#[test]
fn labels_are_shown_and_looked_for() {
    let world = World::with_volume();
    world.amita_done(&["volume", "create", "second", "--pool", "demo", "--size", "8M"]);
    world.amita_done(&["volume", "label", "second", "team=db", "tier=1"]);
    world.amita_done(&["volume", "label", "second", "tier-"]);
    let found = world.json(&["volume", "list", "--label", "team=db"]);
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(found[0]["labels"], serde_json::json!({"team": "db"}), "{found}");
    let none = world.json(&["volume", "list", "--label", "tier=1"]);
    assert_eq!(none.as_array().map(Vec::len), Some(0), "{none}");
    let shown = world.amita_done(&["volume", "show", "second"]);
    assert!(shown.contains("team=db"), "{shown}");
    let bad = world.amita(&["volume", "label", "second", "team"]);
    assert_eq!(bad.status.code(), Some(2), "{}", bad.text);
    let smaller = world.amita(&["volume", "resize", "second", "--size", "4M"]);
    assert!(smaller.text.contains("--shrink"), "{}", smaller.text);
    world.end(&[]);
}
