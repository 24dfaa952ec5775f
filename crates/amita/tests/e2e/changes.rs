//! What was changed between snapshots, as the tools of others and ours are told it: a copy of one snapshot, with only that copied
//! over it, is the other one. Under load, and with a node that is away in between.

use crate::healing::await_in_sync;
use crate::images::amita;
use crate::load::Load;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, World};
use amita_harness::nbd::Client;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

pub const BITMAP: &str = "qemu:dirty-bitmap:";
/// Where nothing but this test writes.
const OURS: u64 = 40 << 20;
const MIB: u64 = 1 << 20;

/// Offset, length, and whether it is of the kind that is looked for.
pub type Extent = (u64, u64, bool);

pub fn uri(node: SocketAddr, export: &str) -> String {
    format!("nbd://{node}/{export}")
}

pub fn snapshot(world: &World, what: &str, name: &str) {
    world.amita_done(&["volume", "snapshot", what, VOLUME, name]);
}

/// What `nbdinfo` says of a context; set: of that type.
fn map(world: &World, node: SocketAddr, export: &str, context: &str, set: u64) -> Vec<Extent> {
    let text = world.done("nbdinfo", &["--json", &format!("--map={context}"), &uri(node, export)]);
    let extents: serde_json::Value = serde_json::from_str(&text).expect("nbdinfo says JSON");
    let extents = extents.as_array().expect("a list");
    let number = |extent: &serde_json::Value, field: &str| extent[field].as_u64().expect("a number");
    let told = |extent| {
        (
            number(extent, "offset"),
            number(extent, "length"),
            number(extent, "type") == set,
        )
    };
    merged(extents.iter().map(told))
}

pub fn dirty(world: &World, node: SocketAddr, export: &str, since: &str) -> Vec<Extent> {
    let mut extents = map(world, node, export, &format!("{BITMAP}{since}"), 1);
    extents.retain(|(_, _, is_dirty)| *is_dirty);
    extents
}

/// The same of QEMU's block layer, which shows what is dirty as what is no data.
fn dirty_by_qemu(world: &World, node: SocketAddr, export: &str, since: &str) -> Vec<Extent> {
    let options = format!(
        "driver=nbd,server.type=inet,server.host={},server.port={},export={export},x-dirty-bitmap={BITMAP}{since}",
        node.ip(),
        node.port()
    );
    let text = world.done("qemu-img", &["map", "--output=json", "--image-opts", &options]);
    let extents: serde_json::Value = serde_json::from_str(&text).expect("qemu-img says JSON");
    let told = |extent: &serde_json::Value| {
        let number = |field: &str| extent[field].as_u64().expect("a number");
        (number("start"), number("length"), extent["data"] == false)
    };
    let mut extents = merged(extents.as_array().expect("a list").iter().map(told));
    extents.retain(|(_, _, is_dirty)| *is_dirty);
    extents
}

/// Extents of one kind that touch each other are one.
fn merged(extents: impl Iterator<Item = Extent>) -> Vec<Extent> {
    let mut all: Vec<Extent> = Vec::new();
    for (offset, length, kind) in extents {
        match all.last_mut() {
            Some((first, so_far, last)) if *last == kind && *first + *so_far == offset => *so_far += length,
            _ => all.push((offset, length, kind)),
        }
    }
    all
}

/// What our command says; set: data, and not zeros.
fn diff(world: &World, from: &str, to: &str) -> Vec<Extent> {
    let said = amita(world, &["volume", "diff", from, to, "--json"])
        .success()
        .expect("it can be told");
    // What it warns of a node that is away stands in between, also where a line of JSON is not at its end.
    let lines = said
        .text
        .lines()
        .map(|line| line.split("amita: ").next().unwrap_or_default());
    let json: String = lines.collect();
    let text = &said.text;
    let said: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|why| panic!("no JSON ({why}): {text}"));
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let extents = said["extents"].as_array().expect("a list").iter();
    let extents: Vec<Extent> = extents
        .map(|extent| {
            (
                number(&extent["offset"]),
                number(&extent["length"]),
                extent["kind"] == "data",
            )
        })
        .collect();
    let sum = |data: bool| {
        extents
            .iter()
            .filter(|extent| extent.2 == data)
            .map(|extent| extent.1)
            .sum::<u64>()
    };
    assert_eq!(
        (number(&said["data_bytes"]), number(&said["zero_bytes"])),
        (sum(true), sum(false))
    );
    assert!(extents.is_sorted_by(|one, next| one.0 + one.1 < next.0 || one.0 + one.1 == next.0 && one.2 != next.2));
    extents
}

/// Copies extents of a snapshot over a copy of an older one.
fn apply(node: SocketAddr, export: &str, extents: &[Extent], copy: &Path) {
    let mut client = Client::open(node, export, PATIENCE).expect("it opens");
    let file = std::fs::File::options().write(true).open(copy).expect("the copy");
    for &(offset, length, is_data) in extents {
        let mut at = offset;
        while at < offset + length {
            let mut bytes = vec![0; (offset + length - at).min(MIB) as usize];
            if is_data {
                client.read(at, &mut bytes).expect("it can be read");
            }
            file.write_all_at(&bytes, at).expect("written");
            at += bytes.len() as u64;
        }
    }
    client.close();
}

pub fn is_same(world: &World, node: SocketAddr, export: &str, copy: &str) {
    world.done(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", copy, &uri(node, export)],
    );
}

#[test]
fn a_copy_and_the_changes_since_are_the_next_snapshot() {
    let mut world = World::of(4);
    let gateway = world.cluster.add_gateway("gateway").expect("a gateway");
    let nodes: Vec<SocketAddr> = world.cluster.nodes().iter().map(|node| node.nbd).collect();
    let load = Load::start(&world, gateway, None);
    let at_gateway = |command: &str| {
        let uri = uri(nodes[gateway], VOLUME);
        world.done("qemu-io", &["-f", "raw", "-d", "unmap", "-c", command, &uri]);
    };
    at_gateway(&format!("write -P 1 {OURS} 4M"));
    snapshot(&world, "create", "one");
    let [copy, patched] = ["one.raw", "patched.raw"].map(|name| world.file(name));
    let [copy_text, patched_text] = [&copy, &patched].map(|path| path.to_str().expect("plain"));
    world.done("nbdcopy", &[&uri(nodes[0], &format!("{VOLUME}@one")), copy_text]);
    is_same(&world, nodes[gateway], &format!("{VOLUME}@one"), copy_text);
    let allocated = map(&world, nodes[0], &format!("{VOLUME}@one"), "base:allocation", 0);

    // Whatever is between the two makes no difference.
    world.cluster.kill_node(1);
    let at_gateway = |command: &str| {
        let uri = uri(nodes[gateway], VOLUME);
        world.done("qemu-io", &["-f", "raw", "-d", "unmap", "-c", command, &uri]);
    };
    at_gateway(&format!("write -P 2 {} 64k", OURS + MIB));
    snapshot(&world, "create", "between");
    at_gateway(&format!("discard {} 1M", OURS + 2 * MIB));
    snapshot(&world, "delete", "between");
    at_gateway(&format!("write -P 1 {OURS} 4k"));
    snapshot(&world, "create", "two");
    at_gateway(&format!("write -P 3 {} 4k", OURS + 3 * MIB));
    world.cluster.start_node(1).expect("it starts again");
    world.cluster.await_node(1).expect("it serves again");
    assert!(!load.has_ended(), "fio goes on");

    let two = format!("{VOLUME}@two");
    let changed = dirty(&world, nodes[0], &two, "one");
    for node in [nodes[gateway], nodes[2]] {
        assert_eq!(dirty(&world, node, &two, "one"), changed, "at {node}");
    }
    assert_eq!(dirty_by_qemu(&world, nodes[0], &two, "one"), changed);
    let told = diff(&world, &format!("{VOLUME}@one"), "two");
    let all = |extents: &[Extent]| merged(extents.iter().map(|(offset, length, _)| (*offset, *length, true)));
    assert_eq!(all(&told), changed, "what our command says");
    // Of what only this test has written just that, and the same bytes once more are a change.
    let ours = |extents: &[Extent]| -> Vec<Extent> {
        let inside = |extent: &&Extent| (OURS..OURS + 4 * MIB).contains(&extent.0);
        extents.iter().filter(inside).copied().collect()
    };
    let expected = [
        (OURS, 4096, true),
        (OURS + MIB, 65536, true),
        (OURS + 2 * MIB, MIB, false),
    ];
    assert_eq!(ours(&told), expected);

    std::fs::copy(&copy, &patched).expect("copied");
    apply(nodes[0], &two, &told, &patched);
    is_same(&world, nodes[gateway], &two, patched_text);
    std::fs::copy(&copy, &patched).expect("copied");
    apply(nodes[2], &two, &changed, &patched);
    is_same(&world, nodes[0], &two, patched_text);
    assert_eq!(
        map(&world, nodes[0], &format!("{VOLUME}@one"), "base:allocation", 0),
        allocated,
        "what is allocated in a snapshot stays what it was"
    );
    let since_two = dirty(&world, nodes[gateway], VOLUME, "two");
    assert_eq!(
        ours(&since_two),
        [(OURS + 3 * MIB, 4096, true)],
        "of the volume as it is"
    );
    load.finish();
    let head = dirty(&world, nodes[gateway], VOLUME, "one");
    apply(nodes[gateway], VOLUME, &head, &copy);
    is_same(&world, nodes[gateway], VOLUME, copy_text);

    // The one that was away says the same: it is one of the two that are left.
    await_in_sync(&world);
    world.cluster.kill_node(0);
    for node in [nodes[1], nodes[gateway]] {
        assert_eq!(dirty(&world, node, &two, "one"), changed, "at {node}");
    }
    refusals(&world, nodes[1]);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

/// A snapshot is deleted but for its mark: its space comes back, nobody reads it, and what was changed since is told as before, also by a
/// member that was away when the mark was made, and by each that is left.
#[test]
fn a_mark_goes_on_telling_what_was_changed() {
    let mut world = World::of(4);
    let gateway = world.cluster.add_gateway("gateway").expect("a gateway");
    let nodes: Vec<SocketAddr> = world.cluster.nodes().iter().map(|node| node.nbd).collect();
    let at_gateway = |world: &World, command: &str| {
        let uri = uri(nodes[gateway], VOLUME);
        world.done("qemu-io", &["-f", "raw", "-d", "unmap", "-c", command, &uri]);
    };
    at_gateway(&world, &format!("write -P 1 {OURS} 8M"));
    snapshot(&world, "create", "one");
    let copy = world.file("one.raw");
    let copy_text = copy.to_str().expect("plain");
    world.done("nbdcopy", &[&uri(nodes[0], &format!("{VOLUME}@one")), copy_text]);
    // The one that is away has to be brought what it has not seen become a mark.
    world.cluster.kill_node(1);
    at_gateway(&world, &format!("write -P 2 {} 64k", OURS + MIB));
    at_gateway(&world, &format!("discard {} 1M", OURS + 5 * MIB));
    let told = diff(&world, &format!("{VOLUME}@one"), VOLUME);
    assert_eq!(told, [(OURS + MIB, 65536, true), (OURS + 5 * MIB, MIB, false)]);
    let said = world.amita_done(&["volume", "snapshot", "delete", VOLUME, "one", "--keep-mark"]);
    assert!(said.contains("its mark kept"), "{said}");
    let list = world.amita_done(&["volume", "snapshot", "list", VOLUME]);
    assert!(list.contains("one (mark)"), "{list}");
    mark_refusals(&world, nodes[0]);
    world.cluster.start_node(1).expect("it starts again");
    world.cluster.await_node(1).expect("it serves again");
    await_in_sync(&world);
    at_gateway(&world, &format!("write -P 3 {} 4k", OURS + 7 * MIB));
    let expected = [
        (OURS + MIB, 65536, true),
        (OURS + 5 * MIB, MIB, false),
        (OURS + 7 * MIB, 4096, true),
    ];
    assert_eq!(diff(&world, &format!("{VOLUME}@one"), VOLUME), expected);
    // A backup goes on from it.
    snapshot(&world, "create", "two");
    let told = diff(&world, &format!("{VOLUME}@one"), "two");
    assert_eq!(told, expected);
    let two = format!("{VOLUME}@two");
    apply(nodes[2], &two, &told, &copy);
    is_same(&world, nodes[gateway], &two, copy_text);
    let dirty_ones = dirty(&world, nodes[0], &two, "one");
    assert_eq!(dirty_ones, expected.map(|(offset, length, _)| (offset, length, true)));
    // Whoever is left knows it, the one that was away too. The gateway may not have reached that one yet when it wrote.
    await_in_sync(&world);
    world.cluster.kill_node(0);
    assert_eq!(diff(&world, &format!("{VOLUME}@one"), "two"), expected);
    // The mark goes with the next deletion, and its name is free.
    snapshot(&world, "delete", "one");
    let gone = amita(&world, &["volume", "diff", &format!("{VOLUME}@one"), VOLUME]);
    assert!(gone.text.contains("has no snapshot one"), "{}", gone.text);
    snapshot(&world, "create", "one");
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

fn mark_refusals(world: &World, node: SocketAddr) {
    let one = format!("{VOLUME}@one");
    let by_records = [
        &["volume", "clone", &one, "copy"][..],
        &["volume", "snapshot", "delete", VOLUME, "one", "--keep-mark"],
        &["volume", "snapshot", "protect", VOLUME, "one"],
    ];
    let as_gateway = [
        &["volume", "revert", &one][..],
        &["volume", "export", &one, "-"],
        &["volume", "diff", &one, "one"],
    ];
    let by_records = by_records.map(|command| (command, world.amita(command)));
    let as_gateway = as_gateway.map(|command| (command, amita(world, command)));
    for (command, refused) in by_records.into_iter().chain(as_gateway) {
        assert!(!refused.status.success(), "{command:?}: {}", refused.text);
        let says = refused.text.contains("only its mark is kept") || refused.text.contains("with itself");
        assert!(says, "{command:?}: {}", refused.text);
    }
    let taken = world.amita(&["volume", "snapshot", "create", VOLUME, "one"]);
    assert!(taken.text.contains("exists"), "{}", taken.text);
    let read = world.tool("nbdinfo", &[&uri(node, &one)]);
    assert!(!read.status.success(), "{}", read.text);
}

fn refusals(world: &World, node: SocketAddr) {
    let [one, two] = ["one", "two"].map(|name| format!("{VOLUME}@{name}"));
    let cases = [
        (VOLUME, "two", 2, "names no snapshot"),
        (&one, "three", 4, "has no snapshot three"),
        ("none@one", "two", 4, "none"),
        (&one, "other@two", 2, "another volume"),
        (&two, "one", 2, "is newer than"),
        (&two, &two, 2, "with itself"),
    ];
    for (from, to, code, says) in cases {
        let refused = amita(world, &["volume", "diff", from, to]);
        assert_eq!(refused.status.code(), Some(code), "{from} {to}: {}", refused.text);
        assert!(refused.text.contains(says), "{from} {to}: {}", refused.text);
    }
    // An unknown context is none, and so is a newer snapshot's.
    let listed = world.done("nbdinfo", &["--json", &uri(node, &two)]);
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("nbdinfo says JSON");
    let contexts = &listed["exports"][0]["contexts"];
    assert_eq!(
        *contexts,
        serde_json::json!(["base:allocation", format!("{BITMAP}one")]),
        "{listed}"
    );
    for since in ["none", "two"] {
        let refused = world.tool("nbdinfo", &[&format!("--map={BITMAP}{since}"), &uri(node, &two)]);
        assert!(!refused.status.success(), "{since}: {}", refused.text);
    }
}

/// How many I/Os a node has counted of the volume: reads, or questions for which blocks are allocated or were changed. Each core tells what it has
/// counted now and then: what does not grow for so long is all.
fn counted(world: &World, node: &str, volume: &str, op: &str) -> u64 {
    let page = crate::observe::metrics_of(world, node);
    let head = format!("amita_volume_latency_seconds_count{{volume=\"{volume}\",op=\"{op}\"}} ");
    let (mut count, mut looks) = (0, 0);
    crate::world::eventually("the owner has counted what it was asked", || {
        let text = amita::nodes::get(&page, "/metrics").expect("the page");
        let now = text.lines().find_map(|line| line.strip_prefix(&head)?.parse().ok());
        let before = std::mem::replace(&mut count, now.unwrap_or_default());
        looks = if count == before { looks + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(100));
        count > 0 && looks > 20
    });
    count
}

/// Of a large volume of which little was changed its owner is asked little: which chunks were written it says for many at one time. Behind a change of
/// owners each is asked for, and the answer is the same.
#[test]
fn of_a_large_volume_the_chunks_are_asked_for_that_were_written() {
    const GIB: u64 = 1 << 30;
    let world = World::serving(&["--cores", "2"]);
    let large = "large";
    world.amita_done(&["volume", "create", large, "--pool", "demo", "--size", "80G"]);
    world.cluster.offer_by_nbd(large).expect("it is exported");
    let nodes: Vec<SocketAddr> = world.cluster.nodes().iter().map(|node| node.nbd).collect();
    let mut client = crate::reverts::open(&world, 0, large);
    let mut write = |at: u64| client.write(at, &[7; 4096]).expect("written");
    let take = |name: &str| world.amita_done(&["volume", "snapshot", "create", large, name]);
    [0, 5 * GIB, 79 * GIB].into_iter().for_each(&mut write);
    take("one");
    [4096, 5 * GIB + 8192, 70 * GIB].into_iter().for_each(&mut write);
    take("two");
    write(30 * GIB);
    take("three");
    let expected = [(4096, 4096, true), (5 * GIB + 8192, 4096, true), (70 * GIB, 4096, true)];
    let one = format!("{large}@one");
    assert_eq!(diff(&world, &one, "two"), expected);
    let last = (30 * GIB, 4096, true);
    assert_eq!(diff(&world, &format!("{large}@two"), "three"), [last]);
    let count = counted(&world, "n1", large, "allocation");
    assert!(count < 1000, "of 20,480 chunks {count} were asked for");
    client.close();
    // Another owner knows nothing of what was before it.
    world.amita_done(&["volume", "move", large, "--to", "n2"]);
    assert_eq!(diff(&world, &one, "two"), expected);
    let mut client = Client::open(nodes[1], large, PATIENCE).expect("it opens");
    client.write(60 * GIB, &[8; 4096]).expect("written");
    client.close();
    world.amita_done(&["volume", "snapshot", "create", large, "four"]);
    let mut all = expected.to_vec();
    all.extend([last, (60 * GIB, 4096, true)]);
    all.sort_unstable();
    assert_eq!(diff(&world, &one, "four"), all, "across both");
    // A copy reads what has data.
    crate::passes::other_pool(&world);
    world.amita_done(&["volume", "copy", &format!("{large}@four"), "copied", "--pool", "other"]);
    let count = counted(&world, "n2", large, "read");
    assert!((1..1000).contains(&count), "of 655,360 pieces {count} were read");
    world.cluster.offer_by_nbd("copied").expect("it is exported");
    let mut client = crate::reverts::open(&world, 2, "copied");
    let mut found = [0; 4096];
    let written = [0, 4096, 5 * GIB, 5 * GIB + 8192, 30 * GIB, 60 * GIB, 70 * GIB, 79 * GIB];
    for at in written {
        client.read(at, &mut found).expect("it can be read");
        let expected = if at == 60 * GIB { 8 } else { 7 };
        assert!(found.iter().all(|byte| *byte == expected), "at {at}");
        client.read(at + 16384, &mut found).expect("it can be read");
        assert!(found.iter().all(|byte| *byte == 0), "behind {at}");
    }
    client.close();
    world.end(&[]);
}
