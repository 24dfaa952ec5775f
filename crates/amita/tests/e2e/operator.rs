//! What operators met: a status that said ok while nothing worked, copies of stores that took over, nodes that stayed for
//! ever, processes that did not end, output that nobody reads, disks and descriptors that run out.

use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, World, binary, pattern, stamped};
use amita_harness::nbd::Client;
use amita_harness::process::Process;
use amita_harness::tool;
use amita_identity::Role;
use amita_terminal::interrupt;
use rustix::process::Signal;
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What status says from time to time is waited for.
fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let found = interrupt::poll(PATIENCE, Duration::from_millis(100), || Ok(probe()));
    found
        .expect("not interrupted")
        .unwrap_or_else(|| panic!("never: {what}"))
}

pub fn facts(status: &Value) -> Vec<&str> {
    let facts = status["facts"].as_array().expect("facts");
    facts.iter().filter_map(|fact| fact["name"].as_str()).collect()
}

fn kinds(world: &World) -> Vec<String> {
    let text = world.amita_done(&["events", "--json"]);
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events
        .filter_map(|event| event["kind"].as_str().map(str::to_owned))
        .collect()
}

fn node_names(world: &World) -> Vec<String> {
    let nodes = world.json(&["node", "list"]);
    let nodes = nodes.as_array().expect("nodes").iter();
    nodes
        .filter_map(|node| node["name"].as_str().map(str::to_owned))
        .collect()
}

/// Waits for a process that must give up, and returns what it said.
pub fn gives_up(mut process: Process) -> String {
    let status = process.wait(PATIENCE).expect("it gives up");
    let said = std::fs::read_to_string(process.log()).expect("a log");
    assert!(!status.success(), "it ended as if nothing were wrong:\n{said}");
    assert!(!said.contains("panicked"), "it panicked:\n{said}");
    said
}

/// A pool that fills is told of at its thresholds, once, and one that is full, with what fails, as long as it does.
#[test]
fn a_pool_that_fills_says_so_before_and_while_writes_fail() {
    let world = World::with_volume();
    let status = eventually("the stores say how full they are", || {
        let status = world.json(&["status"]);
        status["pools"][0]["fullest_percent"].is_u64().then_some(status)
    });
    assert_eq!((status["health"].as_str(), facts(&status)), (Some("ok"), vec![]));
    let refused = world.amita(&["pool", "thresholds", "--near-full", "96"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    world.amita_done(&["pool", "thresholds", "--near-full", "5", "--full", "95"]);
    let mut client = world.open(0);
    let piece = pattern(3, 1 << 20);
    for at in 0..48 {
        client.write(at << 20, &piece).expect("written");
    }
    let status = eventually("it is near full", || {
        let status = world.json(&["status"]);
        facts(&status).contains(&"pool-near-full").then_some(status)
    });
    assert_eq!(status["health"], "degraded", "{status}");
    assert!(world.amita_done(&["status"]).contains("Pool demo is near full: store"));
    assert!(kinds(&world).contains(&"store-near-full".to_owned()));
    // Now really.
    // A store is never filled to the last byte by data alone.
    world.amita_done(&["pool", "thresholds", "--full", "50"]);
    world.amita_done(&["volume", "create", "big", "--pool", "demo", "--size", "2G"]);
    world.cluster.offer_by_nbd("big").expect("it is exported");
    let mut big = Client::open(world.cluster.nodes()[0].nbd, "big", PATIENCE).expect("it opens");
    let refused = (0..2048u64).find(|at| big.write(at << 20, &piece).is_err());
    assert!(refused.is_some(), "2 GiB fit three stores of 384 MiB");
    let status = eventually("it is full, and writes fail", || {
        let status = world.json(&["status"]);
        let found = facts(&status);
        (found.contains(&"pool-full") && found.contains(&"writes-fail")).then_some(status)
    });
    assert_eq!(status["health"], "blocked", "{status}");
    let kinds = kinds(&world);
    for kind in ["store-full", "volume-fails"] {
        assert!(kinds.iter().any(|known| known == kind), "{kind} is not in {kinds:?}");
    }
    let count = |kind: &str| kinds.iter().filter(|known| *known == kind).count();
    assert!(
        count("store-near-full") <= 3 && count("store-full") <= 3,
        "once a store: {kinds:?}"
    );
    client.close();
    world.end(&[
        "is near full",
        "is full",
        "pool demo has got over",
        "writes fail",
        "no space left",
    ]);
}

/// A byte copy of a store that is served is refused, wherever it is started, and the one that runs goes on.
#[test]
fn a_copy_of_a_served_store_is_refused_and_the_one_that_runs_goes_on() {
    let mut world = World::with_volume();
    let mut client = world.open(0);
    client.write(0, &stamped(0, 1)).expect("written");
    let path = world.cluster.nodes()[2].stores[0].clone();
    let copy = path.with_extension("copy");
    std::fs::copy(&path, &copy).expect("copied");
    let copy_path = copy.display().to_string();
    let (fabric, nbd) = (free_address(), free_address());
    let arguments = [
        "--store",
        copy_path.as_str(),
        "--fabric",
        fabric.as_str(),
        "--nbd",
        nbd.as_str(),
    ];
    let said = gives_up(world.serve("thief", &arguments));
    assert!(
        said.contains("is served by node n3") && said.contains("this is a copy of it"),
        "{said}"
    );
    assert_eq!(node_names(&world), ["n1", "n2", "n3"], "who was refused is nobody");
    client.write(4096, &stamped(4096, 1)).expect("the store goes on");
    let status = world.json(&["status"]);
    assert_eq!((status["health"].as_str(), facts(&status)), (Some("ok"), vec![]));

    // Its node is gone: the disk may have moved, and is let in. What comes back then is the older one.
    assert!(world.cluster.stop_node(2), "it ends in order");
    let mut thief = world.serve("thief", &arguments);
    eventually("the copy is let in", || {
        assert!(thief.ended().expect("asked").is_none(), "{}", thief.last_words());
        TcpStream::connect(&nbd).ok()
    });
    assert!(node_names(&world).contains(&"thief".to_owned()));
    let original = path.display().to_string();
    let (fabric, nbd) = (free_address(), free_address());
    let arguments = [
        "--store",
        original.as_str(),
        "--fabric",
        fabric.as_str(),
        "--nbd",
        nbd.as_str(),
    ];
    let said = gives_up(world.serve("n3", &arguments));
    assert!(said.contains("is served by node thief"), "{said}");
    let refused = world.amita(&["node", "remove", "thief"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(refused.text.contains("holds its lease"), "{}", refused.text);
    assert!(thief.stop().is_some_and(|status| status.success()), "it ends in order");
    let said = gives_up(world.serve("n3", &arguments));
    assert!(
        said.contains("is an old copy") && said.contains("amita disk adopt"),
        "{said}"
    );
    let uuid = world
        .json(&["disk", "list"])
        .as_array()
        .expect("stores")
        .iter()
        .find(|store| store["path"] == copy_path.as_str())
        .and_then(|store| store["id"].as_str().map(str::to_owned))
        .expect("the store's record");
    world.amita_done(&["disk", "adopt", &uuid]);
    world.cluster.start_node(2).expect("it starts");
    world.cluster.await_node(2).expect("it is let in");
    client.write(8192, &stamped(8192, 1)).expect("written");
    client.close();
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, &["owners of volumes no longer bring"]].concat());
}

/// A start that fails leaves no node behind; one that is not coming back can be removed.
#[test]
fn a_start_that_fails_leaves_no_node_and_a_node_that_is_gone_can_be_removed() {
    let mut world = World::with_volume();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("its address").to_string();
    let letters = world.file("letters");
    std::fs::write(&letters, pattern(1, 64 << 20)).expect("written");
    let (letters, missing) = (
        letters.display().to_string(),
        world.file("missing").display().to_string(),
    );
    let (fabric, nbd) = (free_address(), free_address());
    for (name, arguments) in [
        (
            "a",
            [
                "--store",
                letters.as_str(),
                "--fabric",
                fabric.as_str(),
                "--nbd",
                nbd.as_str(),
            ],
        ),
        (
            "b",
            [
                "--store",
                missing.as_str(),
                "--fabric",
                fabric.as_str(),
                "--nbd",
                nbd.as_str(),
            ],
        ),
        (
            "c",
            [
                "--store",
                "/dev/null",
                "--fabric",
                fabric.as_str(),
                "--nbd",
                taken.as_str(),
            ],
        ),
    ] {
        gives_up(world.serve(name, &arguments));
    }
    gives_up(world.serve("d", &["--fabric", &fabric, "--nbd", &taken]));
    assert_eq!(node_names(&world), ["n1", "n2", "n3"]);

    let fourth = world.cluster.add_gateway("n4").expect("a gateway");
    let refused = world.amita(&["node", "remove", "n4"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(world.cluster.stop_node(fourth), "it ends in order");
    world.amita_done(&["node", "remove", "n4"]);
    assert_eq!(node_names(&world), ["n1", "n2", "n3"]);
    world.cluster.kill_node(2);
    let refused = eventually("its lease ends", || {
        let refused = world.amita(&["node", "remove", "n3"]);
        refused.text.contains("groups still need").then_some(refused)
    });
    assert_eq!(refused.status.code(), Some(5));
    assert!(refused.text.contains("amita disk drain"), "{}", refused.text);
    assert_eq!(world.amita(&["node", "remove", "n9"]).status.code(), Some(4));
    world.end(A_NODE_IS_GONE);
}

#[test]
fn a_lease_that_cannot_be_is_refused_with_the_range() {
    let world = World::metadata_only(1);
    for lease in ["0", "99999999", "-1", "x"] {
        let refused = world.amita(&["serve", "--lease", lease]);
        assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    }
    let refused = world.amita(&["serve", "--lease", "0"]);
    assert!(refused.text.contains("1..=600"), "{}", refused.text);
    world.end(&[]);
}

/// SIGINT and SIGTERM end a node that has not served yet, whatever it waits for.
#[test]
fn a_start_that_waits_ends_when_it_is_told_to() {
    let mut world = World::with_volume();
    let nowhere = format!("http://{}", free_address());
    let (fabric, nbd) = (free_address(), free_address());
    for signal in [Signal::TERM, Signal::INT] {
        // For the metadata.
        let arguments = [
            "serve",
            "--name",
            "w",
            "--metadata",
            &nowhere,
            "--fabric",
            &fabric,
            "--nbd",
            &nbd,
        ];
        let waits = tool::start(world.folder(), binary(), arguments).expect("it starts");
        ends_by(waits, signal, "waiting for it");
        // For the lease of another process under its name.
        let waits = world.serve("n1", &["--fabric", &fabric, "--nbd", &nbd]);
        ends_by(waits, signal, "waiting for the lease of an earlier process");
    }
    let status = world.json(&["status"]);
    assert_eq!(
        status["health"], "ok",
        "the process that serves is not disturbed: {status}"
    );
    assert!(world.cluster.stop());
}

fn ends_by(mut process: Process, signal: Signal, while_it_says: &str) {
    eventually(while_it_says, || {
        let said = std::fs::read_to_string(process.log()).ok()?;
        assert!(process.ended().expect("asked").is_none(), "it did not wait:\n{said}");
        said.contains(while_it_says).then_some(())
    });
    process.signal(signal).expect("it is there");
    // A second signal would end any process: it is the first that must.
    let status = process.wait(Duration::from_secs(30)).expect("it ends");
    let said = std::fs::read_to_string(process.log()).unwrap_or_default();
    assert!(status.success(), "{status}:\n{said}");
    assert!(said.contains("it was told to before it served"), "{said}");
}

/// An answer that cannot be written is no panic: a full disk is said, a reader that has gone is not.
#[test]
fn an_answer_that_nobody_reads_is_no_panic() {
    let world = World::with_volume();
    let endpoint = world.cluster.endpoint().to_owned();
    let commands: &[&[&str]] = &[
        &["status"],
        &["status", "--json"],
        &["node", "list"],
        &["pool", "list"],
        &["volume", "list"],
        &["disk", "list"],
        &["host", "list"],
        &["subsystem", "list"],
        &["recovery", "show"],
        &["events"],
        &["events", "--json"],
        &["events", "--kinds"],
        &["top", "--once"],
        &["trace"],
        &["volume", "create", "w", "--pool", "demo", "--size", "4M"],
        &["volume", "delete", "w"],
        &["node", "place", "n1", "--rack", "r1"],
        &["--help"],
        &["status", "--help"],
    ];
    for command in commands {
        let run = |out: Stdio| {
            let made = Command::new(binary())
                .args(*command)
                .env("AMITA_METADATA", &endpoint)
                .env("AMITA_IDENTITY", world.operator())
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(Stdio::piped())
                .output()
                .expect("it runs");
            let said = String::from_utf8_lossy(&made.stderr).into_owned();
            assert!(!said.contains("panicked"), "{command:?}: {said}");
            (made.status.code(), said)
        };
        let is_help = command.contains(&"--help");
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("the device");
        let (code, said) = run(full.into());
        // clap prints its help itself.
        assert!(is_help || code == Some(1), "{command:?} ended with {code:?}: {said}");
        assert!(
            is_help || said.contains("cannot write the answer"),
            "{command:?}: {said}"
        );
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (code, said) = run(writer.into());
        // Made and deleted the first time, each: the second time they say so.
        let is_done = ["create", "delete"].iter().any(|word| command.contains(word));
        assert!(
            is_help || is_done || (code == Some(141) && said.is_empty()),
            "{command:?} ended with {code:?}: {said}"
        );
    }
    world.end(&[]);
}

/// A small file system in memory, as long as this lives.
struct Small(std::path::PathBuf);

impl Small {
    fn mount(path: &Path, size: &str) -> Small {
        std::fs::create_dir_all(path).expect("a folder");
        let options = format!("size={size},mode=0700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(path)
            .status()
            .expect("mount runs");
        assert!(mounted.success(), "this test mounts a small tmpfs: run it as root");
        Small(path.to_owned())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The metadata's disk is full: what is there can be read, it is said, and it goes on when there is room again.
#[test]
fn metadata_whose_disk_is_full_is_read_and_comes_back_by_itself() {
    let world = World::metadata_only(1);
    let folder = world.file("small");
    let small = Small::mount(&folder, "24m");
    let address = free_address();
    let data = folder.join("metadata.redb");
    let arguments = ["meta", "--listen", &address, "--data", data.to_str().expect("a path")];
    let mut server = tool::start(world.folder(), binary(), arguments).expect("it starts");
    eventually("it listens", || TcpStream::connect(&address).ok());
    let endpoint = format!("http://{address}");
    let run = |arguments: &[&str]| {
        let all = [arguments, &["--metadata", &endpoint]].concat();
        tool::run(world.folder(), binary(), all, PATIENCE).expect("it runs")
    };
    let nbd = free_address();
    let fabric = free_address();
    let gateway = [
        "serve",
        "--name",
        "g",
        "--metadata",
        &endpoint,
        "--nbd",
        &nbd,
        "--fabric",
        &fabric,
    ];
    let mut node = tool::start(world.folder(), binary(), gateway).expect("it starts");
    eventually("the node serves", || TcpStream::connect(&nbd).ok());
    run(&["node", "place", "g", "--rack", "r1"])
        .success()
        .expect("there is room");

    let filler = folder.join("filler");
    let zeros = vec![0u8; 1 << 20];
    let mut file = std::fs::File::create(&filler).expect("a file");
    while std::io::Write::write_all(&mut file, &zeros).is_ok() {}
    let refused = run(&["node", "place", "g", "--rack", "r2"]);
    // etcd may have made the change before it says so: an unknown outcome.
    assert_eq!(refused.status.code(), Some(3), "{}", refused.text);
    assert!(refused.text.contains("space exceeded"), "{}", refused.text);
    let listed = run(&["node", "list", "--json"])
        .success()
        .expect("what is there is read");
    assert!(listed.text.contains("\"rack\": \"r1\""), "{}", listed.text);
    let said = std::fs::read_to_string(server.log()).expect("a log");
    assert_eq!(said.matches("is full").count(), 1, "said once: {said}");
    // Longer than the node's lease: it is renewed meanwhile.
    std::thread::sleep(Duration::from_secs(7));
    let listed = run(&["node", "list", "--json"]).success().expect("read");
    assert!(listed.text.contains("\"alive\": true"), "{}", listed.text);

    drop(file);
    std::fs::remove_file(&filler).expect("removed");
    run(&["node", "place", "g", "--rack", "r2"])
        .success()
        .expect("there is room again");
    let said = std::fs::read_to_string(server.log()).expect("a log");
    assert!(said.contains("has room again"), "{said}");
    assert!(
        node.stop().is_some_and(|status| status.success()),
        "{}",
        node.last_words()
    );
    assert!(server.stop().is_some_and(|status| status.success()));

    // A damaged file says what to do.
    let mut bytes = std::fs::read(&data).expect("read");
    for byte in bytes.iter_mut().skip(4096).step_by(97) {
        *byte = !*byte;
    }
    std::fs::write(&data, bytes).expect("written");
    let mut damaged = tool::start(world.folder(), binary(), arguments).expect("it starts");
    let status = damaged.wait(PATIENCE).expect("it gives up");
    let said = std::fs::read_to_string(damaged.log()).expect("a log");
    assert!(!status.success(), "{said}");
    // Whether redb refuses such a page or asserts on it, the log says what to do.
    assert!(said.contains("recover --from-stores"), "{said}");
    drop(small);
    world.end(&[]);
}

/// A process with few descriptors turns new hosts away, and says so; those that it has go on. Where it may have more, it
/// takes them.
#[test]
fn few_descriptors_turn_new_hosts_away_and_leave_the_others_alone() {
    let world = World::with_volume();
    let (fabric, nbd) = (free_address(), free_address());
    let identity = world.identity(Role::Gateway, "few").expect("an identity");
    let start = |limits: &str| {
        let script = format!(
            "ulimit {limits}; exec {} serve --name few --metadata {} --identity {identity} --fabric {fabric} --nbd {nbd}",
            binary(),
            world.cluster.endpoint()
        );
        let process = tool::start(world.folder(), "/bin/sh", ["-c", &script]).expect("it starts");
        eventually("it serves", || TcpStream::connect(&nbd).ok());
        process
    };
    let mut node = start("-n 64");
    let address = nbd.parse().expect("an address");
    let mut first = Client::open(address, VOLUME, PATIENCE).expect("it opens");
    first.write(0, &stamped(0, 1)).expect("written");
    let mut more = Vec::new();
    // A host that is turned away hears of it, long before this patience ends.
    let refused = (0..64).find_map(|_| match Client::open(address, VOLUME, PATIENCE) {
        Ok(client) => {
            more.push(client);
            None
        }
        Err(why) => Some(why),
    });
    let refused = refused.expect("64 descriptors are not enough for 64 hosts");
    assert_ne!(refused.kind(), std::io::ErrorKind::WouldBlock, "it waited: {refused}");
    assert_ne!(refused.kind(), std::io::ErrorKind::TimedOut, "it waited: {refused}");
    eventually("it is said", || {
        let said = std::fs::read_to_string(node.log()).ok()?;
        said.contains("new hosts are turned away").then_some(())
    });
    let mut read = vec![0; 4096];
    first.read(0, &mut read).expect("the first host goes on");
    assert!(read == stamped(0, 1));
    drop(more);
    let again = eventually("there is room again", || Client::open(address, VOLUME, PATIENCE).ok());
    again.close();
    first.close();
    assert!(
        node.stop().is_some_and(|status| status.success()),
        "{}",
        node.last_words()
    );

    let mut node = start("-S -n 64");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.pid())).expect("its limits");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .expect("the limit");
    let numbers: Vec<&str> = line
        .split_whitespace()
        .filter(|word| word.parse::<u64>().is_ok())
        .collect();
    assert!(
        numbers.len() == 2 && numbers[0] == numbers[1],
        "the soft limit was not raised: {line}"
    );
    assert!(
        node.stop().is_some_and(|status| status.success()),
        "{}",
        node.last_words()
    );
    world.end(A_NODE_IS_GONE);
}

/// What holds everybody's data is its owner's alone, and what is not is said.
#[test]
fn what_holds_data_is_its_owners_alone() {
    let mut world = World::with_volume();
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let store = world.cluster.nodes()[2].stores[0].clone();
    assert_eq!(mode(&store), 0o600, "a store's file");
    let metadata = world.scratch.stores().join(amita_harness::cluster::METADATA_FILE);
    assert_eq!(mode(&metadata), 0o600, "the metadata's file");
    assert!(world.cluster.stop_node(2), "it ends in order");
    let bundle = world.file("bundle.json");
    let (disk, out) = (store.display().to_string(), bundle.display().to_string());
    world.amita_done(&["recover", "collect", "--disk", &disk, "--out", &out]);
    assert_eq!(mode(&bundle), 0o600, "a bundle for recovery");
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o644)).expect("set");
    world.cluster.start_node(2).expect("it starts");
    let why = world.cluster.await_node(2).expect_err("it does not serve").to_string();
    assert!(why.contains(&format!("chmod 600 {disk}")), "{why}");
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o600)).expect("set");
    world.cluster.start_node(2).expect("it starts");
    world.cluster.await_node(2).expect("it serves");

    let loose = world.file("loose.redb");
    std::fs::copy(&metadata, &loose).expect("copied");
    std::fs::set_permissions(&loose, std::fs::Permissions::from_mode(0o640)).expect("set");
    let loose = loose.display().to_string();
    let refused = tool::run(
        world.folder(),
        binary(),
        ["meta", "--listen", "127.0.0.1:0", "--data", &loose],
        PATIENCE,
    );
    let refused = refused.expect("it runs");
    assert!(
        !refused.status.success() && refused.text.contains(&format!("chmod 600 {loose}")),
        "{}",
        refused.text
    );
    std::fs::set_permissions(&bundle, std::fs::Permissions::from_mode(0o644)).expect("set");
    let refused = world.amita(&["recover", "--dry-run", "--from", &out]);
    assert!(
        !refused.status.success() && refused.text.contains(&format!("chmod 600 {out}")),
        "{}",
        refused.text
    );
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, &["can be read or written by others"]].concat());
}

/// A scrub while a store is away says whose copies it has not looked at.
#[test]
fn a_scrub_says_which_copies_it_has_not_looked_at() {
    let mut world = World::with_volume();
    let mut client = world.open(0);
    for at in (0..VOLUME_BYTES).step_by(4 << 20) {
        client.write(at, &stamped(at, 1)).expect("written");
    }
    let all = world.amita_done(&["volume", "scrub", VOLUME]);
    assert!(!all.contains("not looked at"), "{all}");
    let stores = world.json(&["disk", "list"]);
    let path = world.cluster.nodes()[2].stores[0].display().to_string();
    let store = stores
        .as_array()
        .expect("stores")
        .iter()
        .find(|store| store["path"] == path.as_str());
    let store = store
        .and_then(|store| store["id"].as_str())
        .expect("its UUID")
        .to_owned();
    world.cluster.kill_node(2);
    eventually("it is evicted", || {
        let status = world.json(&["status"]);
        facts(&status).contains(&"copies-missing").then_some(())
    });
    eventually("all groups go on without it", || {
        let status = world.json(&["status"]);
        (status["pools"][0]["group_counts"]["waiting"] == 0).then_some(())
    });
    let some = world.amita_done(&["volume", "scrub", VOLUME]);
    assert!(
        some.contains(&format!("The copies on store {store} were not looked at")),
        "{some}"
    );
    client.close();
    world.end(A_NODE_IS_GONE);
}

pub fn free_address() -> String {
    format!("127.0.0.1:{}", amita_harness::ports::free())
}
