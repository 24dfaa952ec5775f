//! Programs that use volumes without a protocol between (`amita-client`), against nodes that are killed, and beside
//! gateways.

use crate::world::{A_NODE_IS_GONE, PATIENCE, VOLUME, VOLUME_BYTES, World, stamped};
use amita_client::{Config, Done, Error, Local, Volume};
use amita_harness::nbd;
use amita_harness::process::dying_with_us;
use amita_identity::Role;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;

/// As the gateway `app`, whose processes each have a name below its own.
fn config(world: &World) -> Config {
    of(world.cluster.endpoint(), world.identity(Role::Gateway, "app"))
}

fn of(endpoint: &str, identity: Option<String>) -> Config {
    let mut config = Config::new(vec![endpoint.to_owned()]);
    config.identity = identity.map(PathBuf::from);
    config.buffer_bytes = 64 << 20;
    config
}

fn connect(world: &World) -> Local {
    Local::connect(&config(world)).expect("the client joins")
}

fn write(local: &mut Local, volume: &Volume, block: u64, round: u64, tag: u64) {
    let offset = block * BLOCK;
    let mut buffer = local.buffer(BLOCK as usize).expect("memory");
    buffer.copy_from_slice(&stamped(offset, round));
    local
        .write(volume, offset, buffer.freeze(), tag)
        .expect("the write begins");
}

/// Waits until nothing is under way.
fn settle(local: &mut Local) -> Vec<Done> {
    let (mut done, until) = (Vec::new(), Instant::now() + PATIENCE);
    while local.under_way() > 0 {
        assert!(Instant::now() < until, "{} requests do not end", local.under_way());
        local.wait(Duration::from_millis(100), &mut done);
    }
    done
}

/// Runs something that blocks while the client goes on.
fn beside<R: Send + 'static>(local: &mut Local, act: impl FnOnce() -> R + Send + 'static) -> R {
    let thread = std::thread::spawn(act);
    let mut done = Vec::new();
    while !thread.is_finished() {
        local.wait(Duration::from_millis(5), &mut done);
    }
    thread.join().expect("it ends")
}

#[test]
fn a_node_killed_under_a_client_costs_a_pause_and_no_block() {
    const BLOCKS: u64 = 512;
    let mut world = World::with_volume();
    let mut local = connect(&world);
    let volume = local.open(VOLUME).expect("the volume opens");
    assert_eq!(volume.size_bytes(), VOLUME_BYTES);
    for round in 0..12 {
        if round == 4 {
            world.cluster.kill_node(2);
        }
        for block in 0..BLOCKS {
            write(&mut local, &volume, block, round, block);
        }
        for done in settle(&mut local) {
            assert_eq!(done.result, Ok(()), "round {round}, block {}", done.tag);
        }
    }
    for block in 0..BLOCKS {
        local
            .read(&volume, block * BLOCK, BLOCK as u32, block)
            .expect("the read begins");
    }
    for done in settle(&mut local) {
        assert_eq!(done.result, Ok(()));
        assert!(
            done.payload.to_vec() == stamped(done.tag * BLOCK, 11),
            "block {}",
            done.tag
        );
    }
    local.close();
    // Every block again, by a gateway.
    let mut host = world.open(1);
    let mut read = vec![0; BLOCK as usize];
    for block in 0..BLOCKS {
        host.read(block * BLOCK, &mut read).expect("read");
        assert!(read == stamped(block * BLOCK, 11), "block {block} at a gateway");
    }
    drop(host);
    world.end(A_NODE_IS_GONE);
}

#[test]
fn clients_and_gateways_ask_each_other_for_a_volume() {
    let world = World::with_volume();
    let mut local = connect(&world);
    let host = world.open(0);
    let refused = local.open(VOLUME);
    assert!(matches!(&refused, Err(Error::Open { .. })), "{refused:?}");
    drop(host);
    // The gateway hears of the host's going a moment later.
    let until = Instant::now() + PATIENCE;
    let volume = loop {
        match local.open(VOLUME) {
            Ok(volume) => break volume,
            Err(why) => assert!(Instant::now() < until, "{why}"),
        }
    };
    write(&mut local, &volume, 7, 1, 1);
    assert_eq!(settle(&mut local)[0].result, Ok(()));
    let address = world.cluster.nodes()[1].nbd;
    let open = move || nbd::Client::open(address, VOLUME, PATIENCE);
    assert!(beside(&mut local, open).is_err(), "the client uses it");
    local.close_volume(&volume).expect("it was open");
    let mut host = beside(&mut local, open).expect("nobody uses it");
    let mut read = vec![0; BLOCK as usize];
    host.read(7 * BLOCK, &mut read).expect("read");
    assert!(read == stamped(7 * BLOCK, 1));
    local.close();
    drop(host);
    world.end(&[]);
}

#[test]
fn the_metadata_may_be_away() {
    let mut world = World::with_volume();
    let mut local = connect(&world);
    let volume = local.open(VOLUME).expect("the volume opens");
    world.cluster.kill_metadata();
    for block in 0..64 {
        write(&mut local, &volume, block, 3, block);
    }
    assert!(settle(&mut local).iter().all(|done| done.result.is_ok()));
    let mut away = config(&world);
    away.metadata_patience = Duration::from_millis(100);
    match Local::connect(&away) {
        Err(Error::Join(why)) => assert!(
            why.to_string()
                .contains(&world.cluster.endpoint().replace("https://", ""))
        ),
        Err(why) => panic!("{why}"),
        Ok(_) => panic!("it joined without metadata"),
    }
    world.cluster.start_metadata().expect("the metadata comes back");
    let until = Instant::now() + PATIENCE;
    // By now its own lease may have ended: it takes a new one, and is there as before.
    while !world.amita_done(&["node", "list"]).contains("amita-client-") {
        assert!(Instant::now() < until, "the client does not come back");
        let mut done = Vec::new();
        local.wait(Duration::from_millis(50), &mut done);
    }
    for block in 0..64 {
        local
            .read(&volume, block * BLOCK, BLOCK as u32, block)
            .expect("the read begins");
    }
    for done in settle(&mut local) {
        assert!(
            done.payload.to_vec() == stamped(done.tag * BLOCK, 3),
            "block {}",
            done.tag
        );
    }
    local.close();
    assert!(!world.amita_done(&["node", "list"]).contains("amita-client-"));
    // What everybody says of metadata that is away.
    world.end(&["metadata", "lease"]);
}

/// What the child of the next test does: it holds the volume until it is killed.
#[test]
#[ignore = "a child process of a_client_that_was_killed_is_not_missed"]
fn held_by_a_child() {
    let Ok(endpoint) = std::env::var("AMITA_METADATA") else {
        return;
    };
    let mut local = Local::connect(&of(&endpoint, std::env::var("AMITA_IDENTITY").ok())).expect("the child joins");
    let volume = local.open(VOLUME).expect("the volume opens");
    write(&mut local, &volume, 3, 9, 1);
    assert_eq!(settle(&mut local)[0].result, Ok(()));
    eprintln!("the child holds it");
    let mut done = Vec::new();
    loop {
        local.wait(Duration::from_secs(1), &mut done);
    }
}

#[test]
fn a_client_that_was_killed_is_not_missed() {
    let world = World::with_volume();
    let mut command = dying_with_us(&std::env::current_exe().expect("this program"));
    command.args(["--exact", "client::held_by_a_child", "--ignored", "--nocapture"]);
    command.env("AMITA_METADATA", world.cluster.endpoint());
    command.envs(
        world
            .identity(Role::Gateway, "app")
            .map(|folder| ("AMITA_IDENTITY", folder)),
    );
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let words = BufReader::new(child.stderr.take().expect("piped"));
    let mut lines = words.lines().map_while(Result::ok);
    assert!(
        lines.any(|line| line.contains("holds it")),
        "the child does not come so far"
    );
    assert!(world.amita_done(&["node", "list"]).contains("amita-client-"));
    child.kill().expect("the child is killed");
    child.wait().expect("the child ends");
    // Its volume is there for others, with what it wrote.
    let mut host = world.open(0);
    let mut read = vec![0; BLOCK as usize];
    host.read(3 * BLOCK, &mut read).expect("read");
    assert!(read == stamped(3 * BLOCK, 9));
    drop(host);
    // When its lease has ended, nobody speaks of it; its record goes when the next client comes.
    let until = Instant::now() + PATIENCE;
    while world.amita_done(&["node", "list"]).contains("amita-client-") {
        assert!(Instant::now() < until, "a dead client is shown for good");
        std::thread::sleep(Duration::from_millis(200));
    }
    let status = world.json(&["status"]);
    assert_eq!(status["health"], "ok");
    assert_eq!(status["warnings"].as_array().map(Vec::len), Some(0), "{status}");
    connect(&world).close();
    // Not even the coordinator warns of it.
    world.end(&[]);
}
