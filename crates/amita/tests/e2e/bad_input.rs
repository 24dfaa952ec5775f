//! What people and the network get wrong: each is answered with a message that says what, where and what to do, and
//! nothing else is harmed.

use crate::world::{
    A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, World, pattern, stamped, unexpected_in,
};
use amita_harness::nbd::Client;
use amita_harness::process::Process;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;

/// Waits for a process that must give up, and returns what it said.
fn gives_up(mut process: Process) -> String {
    let status = process.wait(PATIENCE).expect("it gives up");
    let said = std::fs::read_to_string(process.log()).expect("a log");
    assert!(!status.success(), "it ended as if nothing were wrong:\n{said}");
    assert_ne!(status.code(), None, "it was killed by a signal:\n{said}");
    assert!(!said.contains("panicked"), "it panicked:\n{said}");
    said
}

/// What holds data is refused where others can read it, before anything else is said of it.
fn owners_alone(path: &std::path::Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its rights");
}

fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(
            said.to_lowercase().contains(&part.to_lowercase()),
            "{part:?} is not in:\n{said}"
        );
    }
}

#[test]
fn an_occupied_port_is_named() {
    let world = World::metadata_only(1);
    world.cluster.format_store(0).expect("formatted");
    let store = world.cluster.nodes()[0].stores[0].display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let (fabric, nbd) = (
        world.cluster.nodes()[0].fabric.to_string(),
        world.cluster.nodes()[0].nbd.to_string(),
    );
    let said = gives_up(world.serve("a", &["--store", &store, "--fabric", &fabric, "--nbd", &address]));
    says(&said, &[&address, "in use"]);
    let said = gives_up(world.serve("a", &["--store", &store, "--fabric", &address, "--nbd", &nbd]));
    says(&said, &[&address, "in use"]);
    // The metadata server too.
    let meta = amita_harness::tool::start(
        world.folder(),
        crate::world::binary(),
        [
            "meta",
            "--listen",
            &address,
            "--data",
            &world.file("other.redb").display().to_string(),
        ],
    );
    says(&gives_up(meta.expect("it starts")), &[&address, "in use"]);
    world.end(&[]);
}

#[test]
fn a_path_that_is_no_store_is_named_and_left_as_it_is() {
    let world = World::metadata_only(1);
    let (fabric, nbd) = (
        world.cluster.nodes()[0].fabric.to_string(),
        world.cluster.nodes()[0].nbd.to_string(),
    );
    let file = world.file("letters");
    std::fs::write(&file, pattern(1, 64 << 20)).expect("written");
    owners_alone(&file);
    let path = file.display().to_string();
    let said = gives_up(world.serve("a", &["--store", &path, "--fabric", &fabric, "--nbd", &nbd]));
    says(&said, &[&path, "no store", "disk format"]);
    assert!(
        std::fs::read(&file).expect("read") == pattern(1, 64 << 20),
        "the file was changed"
    );
    let missing = world.file("missing").display().to_string();
    let said = gives_up(world.serve("a", &["--store", &missing, "--fabric", &fabric, "--nbd", &nbd]));
    says(&said, &[&missing, "no such file"]);
    // To format it takes a word more.
    let refused = world.amita(&["disk", "format", &path]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    says(&refused.text, &[&path, "not empty", "--force"]);
    assert!(
        std::fs::read(&file).expect("read") == pattern(1, 64 << 20),
        "the file was changed"
    );
    world.end(&[]);
}

#[test]
fn a_store_of_another_cluster_is_refused_and_goes_on_in_its_own() {
    let mut world = World::with_volume();
    let other = World::metadata_only(1);
    let mut client = world.open(0);
    client.write(0, &stamped(0, 1)).expect("written");
    client.close();
    // While its node serves it, nobody else may even open it.
    let path = world.cluster.nodes()[2].stores[0].display().to_string();
    let (fabric, nbd) = (
        other.cluster.nodes()[0].fabric.to_string(),
        other.cluster.nodes()[0].nbd.to_string(),
    );
    let arguments = ["--store", &path, "--fabric", &fabric, "--nbd", &nbd];
    says(&gives_up(other.serve("a", &arguments)), &[&path, "in use"]);
    assert!(world.cluster.stop_node(2), "the node ends in order");
    says(&gives_up(other.serve("a", &arguments)), &[&path, "belongs to cluster"]);
    world.cluster.start_node(2).expect("it starts again");
    world.cluster.await_node(2).expect("its own cluster still takes it");
    other.end(&[]);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

#[test]
fn a_damaged_superblock_is_survived_and_two_are_refused() {
    let mut world = World::metadata_only(1);
    world.cluster.format_store(0).expect("formatted");
    let path = world.cluster.nodes()[0].stores[0].clone();
    let file = std::fs::File::options().write(true).open(&path).expect("the store");
    file.write_all_at(&pattern(1, 512), 100)
        .expect("the first superblock is damaged");
    world.cluster.start_node(0).expect("it starts");
    world.cluster.await_node(0).expect("it serves by the second superblock");
    assert!(world.cluster.stop_node(0), "it ends in order");
    for offset in [100, (32 << 10) + 100] {
        file.write_all_at(&pattern(2, 512), offset).expect("both are damaged");
    }
    let before = std::fs::read(&path).expect("read");
    let path = path.display().to_string();
    let listed = world.json(&["disk", "list", &path]);
    says(listed[0]["state"].as_str().expect("a state"), &["damaged"]);
    let (fabric, nbd) = (
        world.cluster.nodes()[0].fabric.to_string(),
        world.cluster.nodes()[0].nbd.to_string(),
    );
    let said = gives_up(world.serve("n1", &["--store", &path, "--fabric", &fabric, "--nbd", &nbd]));
    says(&said, &[&path, "superblock", "damaged"]);
    assert!(
        std::fs::read(&path).expect("read") == before,
        "a store that was refused was changed"
    );
    world.end(&["superblock"]);
}

#[test]
fn a_disk_without_room_is_refused_before_it_is_written() {
    let world = World::metadata_only(1);
    let path = world.file("huge").display().to_string();
    let refused = world.amita(&["disk", "format", "--size", "4P", &path]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.text);
    says(&refused.text, &[&path]);
    let refused = world.amita(&["disk", "format", "--size", "512T", &path]);
    says(&refused.text, &[&path]);
    let refused = world.amita(&["disk", "format", "--size", "64K", &path]);
    says(&refused.text, &[&path, "too small"]);
    assert!(!world.file("huge").exists(), "half a store was left behind");
    world.end(&[]);
}

#[test]
fn a_full_store_refuses_writes_and_serves_everything_else() {
    let world = World::with_volume();
    // Thin: the second volume is larger than the stores.
    world.amita_done(&["volume", "create", "large", "--pool", "demo", "--size", "1G"]);
    world.cluster.offer_by_nbd("large").expect("it is exported");
    let mut other = world.open(0);
    other.write(0, &stamped(0, 1)).expect("written");
    let mut client = Client::open(world.cluster.nodes()[0].nbd, "large", PATIENCE).expect("opens");
    let step = 1 << 20;
    let mut written = 0u64;
    let refused = loop {
        assert!(written < 1 << 30, "stores of 384 MiB took 1 GiB");
        match client.write(written, &pattern(written, step)) {
            Ok(()) => written += step as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(
        refused.raw_os_error(),
        Some(28),
        "ENOSPC is what a full disk says, not {refused}"
    );
    assert!(written > 64 << 20, "full after {written} bytes");
    // All that was acknowledged is there, also on the other volume.
    for offset in (0..written).step_by(16 << 20) {
        let mut read = vec![0; step];
        client.read(offset, &mut read).expect("read");
        assert!(
            read == pattern(offset, step),
            "what was acknowledged at {offset} is gone"
        );
    }
    let mut read = vec![0; 4096];
    other.read(0, &mut read).expect("read");
    assert!(read == stamped(0, 1));
    client.close();
    other.close();
    world.end(&["space", "full", "pool demo has got over"]);
}

#[test]
fn a_volume_that_does_not_exist_and_a_size_of_no_blocks_are_said() {
    let world = World::with_volume();
    let missing = world.uri(0).replace(VOLUME, "nothing");
    let refused = world.tool("nbdinfo", &[&missing]);
    assert!(!refused.status.success());
    let refused = world.amita(&["volume", "delete", "nothing"]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.text);
    says(&refused.text, &["nothing"]);
    let refused = world.amita(&["volume", "create", "odd", "--pool", "demo", "--size", "10000"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    says(&refused.text, &["multiple", "8192", "12288"]);
    let refused = world.amita(&["volume", "create", "v", "--pool", "nothing", "--size", "1M"]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.text);
    let refused = world.amita(&["volume", "create", VOLUME, "--pool", "demo", "--size", "1M"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    // The volume that exists goes on as if nothing had been asked.
    assert_eq!(world.open(0).size_bytes(), VOLUME_BYTES);
    world.end(&[]);
}

#[test]
fn what_is_no_protocol_harms_nobody_else() {
    let world = World::with_volume();
    let (nbd, fabric) = (world.cluster.nodes()[0].nbd, world.cluster.nodes()[0].fabric);
    let mut client = world.open(0);
    // Half-open connections, garbage, a cut in the middle of the handshake: to the clients' port and to the nodes'.
    let idle: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(nbd).expect("a connection"))
        .collect();
    for seed in 0..20 {
        for address in [nbd, fabric] {
            let mut stream = TcpStream::connect(address).expect("a connection");
            // The other end may have had enough before all of it is sent.
            let _ = stream.write_all(&pattern(seed, 100 + seed as usize * 1000));
        }
    }
    for round in 0..50 {
        client.write(0, &stamped(0, round)).expect("written");
    }
    let mut read = vec![0; 4096];
    client.read(0, &mut read).expect("read");
    assert!(read == stamped(0, 49));
    drop(idle);
    client.close();
    std::thread::sleep(Duration::from_millis(200));
    let errors: Vec<String> = (0..3)
        .flat_map(|node| unexpected_in(&world.cluster.node_log(node), &[]))
        .filter(|line| line.contains("ERROR") || line.contains("panic"))
        .collect();
    assert!(
        errors.is_empty(),
        "garbage is nothing that a person must look at:\n{}",
        errors.join("\n")
    );
    world.end(&["WARN"]);
}
