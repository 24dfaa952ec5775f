//! Incremental copies of snapshots, made by QEMU and by libnbd's tools alone: our part is the server that says what was changed.

use crate::changes::{BITMAP, Extent, dirty, is_same, snapshot, uri};
use crate::load::Load;
use crate::world::{PATIENCE, VOLUME, VOLUME_BYTES, World};
use amita_harness::guest;
use amita_harness::process::Process;
use amita_harness::qmp::Monitor;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Of QEMU's images, and the least that its block jobs copy.
const CLUSTER: u64 = 64 * KIB;

/// A QEMU without a machine, told what to do by its monitor.
struct Qemu {
    monitor: Monitor,
    process: Process,
}

impl Qemu {
    fn start(world: &World) -> Qemu {
        let socket = world.file("qmp");
        let mut command = guest::emulator().expect("the emulator");
        command.args(["-machine", "none", "-S", "-qmp"]);
        command.arg(format!("unix:{},server=on,wait=off", socket.display()));
        let mut process = Process::spawn("qemu", command, &world.file("qemu.log")).expect("it starts");
        let until = Instant::now() + PATIENCE;
        let words = loop {
            if let Ok(socket) = UnixStream::connect(&socket) {
                break socket;
            }
            let ended = process.ended().expect("it is known");
            assert!(
                ended.is_none() && Instant::now() < until,
                "{ended:?}: {}",
                process.last_words()
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        words.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let replies = words.try_clone().expect("a second handle");
        let monitor = Monitor::over(replies, words).expect("a monitor");
        Qemu { monitor, process }
    }

    /// Has a command carried out.
    fn ask(&mut self, command: &str, arguments: Value) -> Value {
        let answer = self.monitor.ask(command, arguments);
        answer.unwrap_or_else(|why| panic!("{why}: {}", self.process.last_words()))
    }

    /// Waits for the end of a job, which must be a good one; what is told of it.
    fn finished(&mut self, job: &str) -> Value {
        let ended = |event: &Value| event["event"] == "BLOCK_JOB_COMPLETED" && event["data"]["device"] == job;
        let mut event = self.monitor.told(ended).expect("it ends");
        let data = event["data"].take();
        assert!(data["error"].is_null(), "{data}");
        data
    }

    fn end(mut self) {
        self.ask("quit", json!({}));
        let ended = self.process.wait(PATIENCE).expect("it ends");
        assert!(ended.success(), "{ended}: {}", self.process.last_words());
    }
}

/// Has QEMU's tool for I/O carry out so many commands.
fn qemu_io(world: &World, options: &[&str], commands: &[String], image: &str) {
    let mut arguments = options.to_vec();
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(image);
    let said = world.done("qemu-io", &arguments);
    assert!(!said.contains("failed"), "{said}");
}

/// Writes of many sizes at many places, which leave the first quarter of the volume alone. Two rounds write to some of the same.
fn change(world: &World, node: usize, round: u64) {
    let quarter = VOLUME_BYTES / 4;
    let places = (0..60).map(|number| quarter + (number * 7 + round * 3) * 97 * 4096 % (3 * quarter - MIB));
    let commands = places.zip(0..).map(|(place, number)| match number % 6 {
        // Not of whole blocks, and over a chunk's border.
        0 => format!("write -P {} {} 512", number % 250 + 1, place + 1536),
        1 => format!(
            "write -P {} {} 64k",
            round + number,
            (place / (4 * MIB)).max(5) * 4 * MIB - 32 * KIB
        ),
        2 => format!("discard {place} 192k"),
        3 => format!("write -z {place} 20k"),
        _ => format!("write -P {} {place} {}k", round + number, 4 + number),
    });
    let commands: Vec<String> = commands.collect();
    qemu_io(world, &["-f", "raw", "-d", "unmap"], &commands, &world.uri(node));
}

/// The clusters that extents touch, as offsets of their first bytes.
fn clusters(extents: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    let touched = extents.flat_map(|(offset, length)| offset / CLUSTER..(offset + length).div_ceil(CLUSTER));
    let mut all: Vec<u64> = touched.map(|cluster| cluster * CLUSTER).collect();
    all.dedup();
    all
}

/// An image that has the dirty clusters of a snapshot, and for all else leads to the copy before it: read through the server by
/// QEMU's copy on read.
fn incremental_image(
    world: &World,
    node: SocketAddr,
    export: &str,
    dirty: &[Extent],
    copy: &str,
    before: (&str, &str),
) {
    let (before, format) = before;
    let from = uri(node, export);
    world.done(
        "qemu-img",
        &["create", "-q", "-f", "qcow2", "-F", "raw", "-b", &from, copy],
    );
    let reads: Vec<String> = dirty
        .iter()
        .map(|(offset, length, _)| format!("read {offset} {length}"))
        .collect();
    qemu_io(world, &["-C", "-f", "qcow2"], &reads, copy);
    world.done(
        "qemu-img",
        &["rebase", "-u", "-f", "qcow2", "-F", format, "-b", before, copy],
    );
    let map = world.done("qemu-img", &["map", "--output=json", "-f", "qcow2", copy]);
    let map: Value = serde_json::from_str(&map).expect("qemu-img says JSON");
    let own = map
        .as_array()
        .expect("a list")
        .iter()
        .filter(|extent| extent["depth"] == 0);
    let number = |value: &Value| value.as_u64().expect("a number");
    let own = clusters(own.map(|extent| (number(&extent["start"]), number(&extent["length"]))));
    let told = clusters(dirty.iter().map(|(offset, length, _)| (*offset, *length)));
    assert_eq!(own, told, "what was copied");
}

/// Copies what is dirty in a snapshot over a copy of the one before, by a job of QEMU's. The job goes by a bitmap of QEMU's own, into
/// which comes what the server's says.
fn incremental_job(world: &World, node: SocketAddr, export: &str, dirty: &[Extent], copy: &Path) {
    let marks = world.file("marks.qcow2");
    let marks_text = marks.to_str().expect("plain");
    world.done(
        "qemu-img",
        &["create", "-q", "-f", "qcow2", marks_text, &VOLUME_BYTES.to_string()],
    );
    world.done(
        "qemu-img",
        &["bitmap", "--add", "-g", "4096", "-f", "qcow2", marks_text, "since"],
    );
    let writes: Vec<String> = dirty
        .iter()
        .map(|(offset, length, _)| format!("write -z {offset} {length}"))
        .collect();
    qemu_io(world, &["-f", "qcow2"], &writes, marks_text);

    let mut qemu = Qemu::start(world);
    let server = json!({"type": "inet", "host": node.ip().to_string(), "port": node.port().to_string()});
    let nodes = [
        json!({"driver": "nbd", "node-name": "volume", "read-only": true, "server": server, "export": export}),
        json!({"driver": "qcow2", "node-name": "marks", "read-only": true, "file": {"driver": "file", "filename": marks}}),
        json!({"driver": "raw", "node-name": "copy", "file": {"driver": "file", "filename": copy}}),
    ];
    for node in nodes {
        qemu.ask("blockdev-add", node);
    }
    let bitmap = json!({"node": "volume", "name": "since", "granularity": 4096, "disabled": true});
    qemu.ask("block-dirty-bitmap-add", bitmap);
    let merge = json!({"node": "volume", "target": "since", "bitmaps": [{"node": "marks", "name": "since"}]});
    qemu.ask("block-dirty-bitmap-merge", merge);
    let job = json!({"job-id": "job", "device": "volume", "target": "copy", "sync": "bitmap", "bitmap": "since", "bitmap-mode": "never"});
    qemu.ask("blockdev-backup", job);
    let ended = qemu.finished("job");
    let told = clusters(dirty.iter().map(|(offset, length, _)| (*offset, *length))).len() as u64 * CLUSTER;
    assert_eq!(
        (&ended["len"], &ended["offset"]),
        (&json!(told), &json!(told)),
        "what was copied: {ended}"
    );
    qemu.end();
    std::fs::remove_file(marks).expect("removed");
}

#[test]
fn qemu_makes_incremental_copies() {
    let world = World::with_volume();
    let nodes: Vec<SocketAddr> = world.cluster.nodes().iter().map(|node| node.nbd).collect();
    let path = |name: &str| world.file(name).to_str().expect("plain").to_owned();
    // fio writes to the first quarter all the while.
    let load = Load::start(&world, 0, None);
    change(&world, 0, 0);
    snapshot(&world, "create", "one");
    let (full, patched) = (path("full.raw"), path("patched.raw"));
    world.done("nbdcopy", &[&uri(nodes[1], &format!("{VOLUME}@one")), &full]);
    std::fs::copy(&full, &patched).expect("copied");

    let mut before = (full.clone(), "raw");
    for (round, [older, newer]) in (1..).zip([["one", "two"], ["two", "three"]]) {
        change(&world, 0, round);
        snapshot(&world, "create", newer);
        // What comes later is in no copy.
        change(&world, 0, 10 + round);
        let export = format!("{VOLUME}@{newer}");
        let dirty = dirty(&world, nodes[1], &export, older);
        let bytes: u64 = dirty.iter().map(|extent| extent.1).sum();
        assert!(dirty.len() > 30 && bytes < VOLUME_BYTES / 2, "{bytes} bytes: {dirty:?}");
        let image = path(&format!("{newer}.qcow2"));
        incremental_image(&world, nodes[2], &export, &dirty, &image, (&before.0, before.1));
        world.done(
            "qemu-img",
            &["compare", "-f", "qcow2", "-F", "raw", &image, &uri(nodes[1], &export)],
        );
        incremental_job(&world, nodes[2], &export, &dirty, Path::new(&patched));
        is_same(&world, nodes[1], &export, &patched);
        before = (image, "qcow2");
    }
    assert!(!load.has_ended(), "fio goes on");

    // Back into a volume, from the chain of images, by libnbd's tool and QEMU's server.
    world.amita_done(&[
        "volume",
        "create",
        "back",
        "--pool",
        "demo",
        "--size",
        &VOLUME_BYTES.to_string(),
    ]);
    world.cluster.offer_by_nbd("back").expect("exported");
    let back = uri(nodes[1], "back");
    world.done(
        "nbdcopy",
        &["--", "[", "qemu-nbd", "-r", "-f", "qcow2", &before.0, "]", &back],
    );
    let three = uri(nodes[2], &format!("{VOLUME}@three"));
    world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", &back, &three]);
    // A copy is one without the snapshots that it was made from.
    for name in ["one", "two"] {
        snapshot(&world, "delete", name);
    }
    let refused = world.tool("nbdinfo", &[&format!("--map={BITMAP}one"), &three]);
    assert!(!refused.status.success(), "{}", refused.text);
    world.done("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &before.0, &three]);
    load.finish();
    world.end(&[]);
}
