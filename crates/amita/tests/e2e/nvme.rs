//! What operators and scripts do to hand volumes to hosts by NVMe/TCP. What hosts see of it is tested with hosts.

use crate::world::{A_NODE_IS_GONE, PATIENCE, VOLUME, VOLUME_BYTES, World, binary, eventually};
use amita_control::admin::{self, Served};
use amita_harness::cluster::METADATA_FILE;
use amita_harness::tool;
use amita_nvme_host::{Controller, Error, Host, Queue, Settings, commands, discovery_log};
use std::path::Path;
use std::time::{Duration, Instant};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8052-b4c04f4e3732";
const OTHER: &str = "nqn.2014-08.com.example:other";

#[test]
fn a_volume_is_handed_to_a_host_step_by_step() {
    let world = World::with_volume();
    let made = world.json(&["subsystem", "create", "db"]);
    let nqn = made["nqn"].as_str().expect("a name").to_owned();
    assert!(
        nqn.starts_with("nqn.2026-11.io.amita:") && nqn.ends_with(":db"),
        "{nqn}"
    );
    let namespace = world.json(&["namespace", "add", "db", VOLUME]);
    assert_eq!(
        (&namespace["nsid"], &namespace["block_bytes"]),
        (&1.into(), &4096.into())
    );
    world.amita_done(&["host", "add", HOST]);
    world.amita_done(&["host", "allow", "db", HOST]);

    let shown = world.json(&["subsystem", "show", "db"]);
    assert_eq!(shown["hosts"], serde_json::json!([HOST]), "{shown}");
    assert_eq!(shown["namespaces"][0]["volume_name"], VOLUME, "{shown}");
    assert_eq!(shown["any_host"], false, "{shown}");
    assert_eq!(world.json(&["namespace", "list"])[0]["size_bytes"], VOLUME_BYTES);
    assert_eq!(
        world.json(&["host", "list"])[0]["subsystems"],
        serde_json::json!(["db"])
    );
    for (command, words) in [
        (&["subsystem", "list"][..], &nqn[..]),
        (&["namespace", "list", "db"], VOLUME),
        (&["host", "list"], HOST),
        (&["status"], "1 subsystems, 1 namespaces, 1 hosts"),
    ] {
        let text = world.amita_done(command);
        assert!(text.contains(words), "{command:?}: {text}");
    }

    // What cannot be is refused, with the code that scripts tell it by.
    for (command, code, words) in [
        (&["subsystem", "create", "db"][..], 5, "exists already"),
        (
            &["subsystem", "create", "web", "--nqn", "iqn.2001-04.com.example:x"],
            2,
            "nqn.",
        ),
        (
            &["subsystem", "create", "web", "--gateway", "n9"],
            4,
            "there are n1, n2, n3",
        ),
        (&["subsystem", "delete", "db"], 5, "has 1 namespaces"),
        (&["subsystem", "show", "web"], 4, "there is db"),
        (&["namespace", "add", "db", VOLUME], 5, "is namespace 1 of subsystem db"),
        (&["namespace", "add", "db", "none"], 4, "no volume named none"),
        (&["namespace", "remove", "db", "7"], 4, "there is 1"),
        (&["host", "add", HOST], 5, "exists already"),
        (&["host", "add", "myhost"], 2, "nqn."),
        (&["host", "allow", "db", OTHER], 4, "no host named"),
        (&["host", "deny", "db", OTHER], 4, "is not allowed"),
        (&["host", "remove", HOST], 5, "is allowed in db"),
        (&["volume", "delete", VOLUME], 5, "is namespace 1 of subsystem db"),
        (&["volume", "move", VOLUME, "--to", "n9"], 4, "there are n1, n2, n3"),
    ] {
        let refused = world.amita(command);
        assert_eq!(refused.status.code(), Some(code), "{command:?}: {}", refused.text);
        assert!(refused.text.contains(words), "{command:?}: {}", refused.text);
    }

    world.amita_done(&["host", "deny", "db", HOST]);
    world.amita_done(&["host", "remove", HOST]);
    world.amita_done(&["namespace", "remove", "db", "1"]);
    world.amita_done(&["subsystem", "delete", "db"]);
    assert_eq!(world.json(&["subsystem", "list"]), serde_json::json!([]));
    world.end(&[]);
}

/// A gateway that the metadata knows and that does not run: what is printed does not depend on it.
fn gateway(world: &World, name: &str, nvme: &str) {
    let client = world.cluster.metadata_client().expect("an address");
    let served = Served {
        fabric: "192.0.2.1:7700",
        fabric2: None,
        nbd: None,
        nbd_socket: None,
        nvme: Some(nvme),
        metrics: None,
        api: None,
        cores: 1,
        gateway: false,
        unprotected: false,
    };
    admin::register(&client, name, &served).expect("registered");
}

#[test]
fn attach_makes_what_is_missing_once_and_says_what_the_host_has_to_do() {
    let world = World::with_volume();
    gateway(&world, "far", "192.0.2.1:4420");
    world.amita_done(&["subsystem", "create", "db", "--gateway", "far"]);
    let attach = ["volume", "attach", VOLUME, "--host", HOST, "--subsystem", "db"];
    let first = world.json(&attach);
    assert_eq!(first["made"].as_array().map(Vec::len), Some(3), "{first}");
    assert_eq!(first["gateways"][0]["traddr"], "192.0.2.1", "{first}");
    let again = world.json(&["volume", "attach", VOLUME, "--host", HOST]);
    assert_eq!(again["made"], serde_json::json!([]), "{again}");
    assert_eq!(
        (&again["nqn"], &again["nsid"], &again["uuid"]),
        (&first["nqn"], &first["nsid"], &first["uuid"])
    );
    let command = again["connect"][0].as_str().expect("a command");
    for part in ["--traddr=192.0.2.1 --trsvcid=4420", HOST, "--ctrl-loss-tmo=-1"] {
        assert!(command.contains(part), "{command}");
    }
    let text = world.amita_done(&["volume", "attach", VOLUME, "--host", HOST]);
    assert!(
        text.contains("modprobe nvme-tcp") && text.contains("Node far is not alive now"),
        "{text}"
    );

    // Another host sees the same disk; a second subsystem for it there is not.
    let other = world.json(&["volume", "attach", VOLUME, "--host", OTHER]);
    assert_eq!(other["made"].as_array().map(Vec::len), Some(2), "{other}");
    world.amita_done(&["subsystem", "create", "web"]);
    let refused = world.amita(&["volume", "attach", VOLUME, "--host", HOST, "--subsystem", "web"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);

    world.amita_done(&["volume", "detach", VOLUME, "--host", OTHER]);
    assert_eq!(
        world.json(&["subsystem", "show", "db"])["hosts"],
        serde_json::json!([HOST])
    );
    world.amita_done(&["volume", "detach", VOLUME]);
    assert_eq!(world.json(&["namespace", "list"]), serde_json::json!([]));
    let refused = world.amita(&["volume", "detach", VOLUME]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.text);
    world.end(&[]);
}

fn all_files(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all_files(&path, found);
        } else if path
            .extension()
            .is_none_or(|extension| extension != "key" && extension != "store")
        {
            found.push(String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned());
        }
    }
}

#[test]
fn keys_of_hosts_are_shown_once_kept_sealed_and_never_listed() {
    let world = World::with_volume();
    let seal = world.file("seal.key").display().to_string();
    let refused = world.amita(&["host", "add", HOST, "--generate-dhchap"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(refused.text.contains("amita host seal-key"), "{}", refused.text);
    world.amita_done(&["host", "seal-key", &seal]);
    let refused = world.amita(&["host", "seal-key", &seal]);
    assert_eq!(
        refused.status.code(),
        Some(5),
        "it is not overwritten: {}",
        refused.text
    );

    let keys = world.host_with_keys(HOST, &seal);
    let file = world.file("mine.key");
    std::fs::write(&file, &keys[0]).expect("written");
    let file = file.display().to_string();
    world.amita_done(&[
        "host",
        "key",
        HOST,
        "--dhchap-controller-key",
        &file,
        "--remove-tls",
        "--seal-key",
        &seal,
    ]);
    let listed = world.json(&["host", "list"]);
    let proofs = (&listed[0]["dhchap"], &listed[0]["dhchap_controller"], &listed[0]["tls"]);
    assert_eq!(proofs, (&true.into(), &true.into(), &false.into()), "{listed}");

    // A new sealing key in front of the old one; then the old one alone opens nothing any more.
    let new = world.file("new.key").display().to_string();
    world.amita_done(&["host", "seal-key", &new]);
    let both = std::fs::read_to_string(&new).expect("a key") + &std::fs::read_to_string(&seal).expect("a key");
    std::fs::write(&new, both).expect("written");
    let said = world.amita_done(&["host", "reseal", "--seal-key", &new]);
    assert!(said.contains("2 keys are sealed"), "{said}");
    let refused = world.amita(&["host", "reseal", "--seal-key", &seal]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.text);
    assert!(refused.text.contains("sealed with another key"), "{}", refused.text);

    // Nothing that anybody can read holds a key: no listing, no log, not the metadata itself.
    let mut texts = vec![listed.to_string(), world.amita_done(&["host", "list"])];
    all_files(world.folder(), &mut texts);
    texts.push(
        String::from_utf8_lossy(
            &std::fs::read(world.scratch.stores().join(METADATA_FILE)).expect("the metadata's file"),
        )
        .into_owned(),
    );
    for key in keys {
        let secret = key.split(':').nth(2).expect("base64");
        assert!(texts.iter().all(|text| !text.contains(secret)), "a key lies open");
    }
    let sealed = texts.iter().any(|text| text.contains("sealed:1:"));
    assert!(sealed, "the metadata's file is looked at, and holds the sealed ones");
    world.end(&[]);
}

/// From the end of a command that takes rights away, until no gateway serves by them any more.
const CUT_OFF: Duration = Duration::from_secs(1);
/// What gateways say of hosts that they do not serve.
const REFUSED: &str = "the connection of a host at";

/// A host's controller and an I/O queue of it at each gateway; each has read.
fn paths(world: &World, nqn: &str) -> Result<Vec<(Controller, Queue)>, Error> {
    let host = Host::named(HOST);
    let path = |node: &amita_harness::cluster::Node| {
        let mut controller = Controller::connect(&Settings::new(node.nvme, nqn), &host)?;
        controller.enable()?;
        controller.call(&commands::queues(1))?.good("Number of Queues")?;
        let mut queue = controller.io_queue(1, 16)?;
        queue.call(&commands::read(1, 0, 1, 4096))?.good("Read")?;
        Ok((controller, queue))
    };
    world.cluster.nodes().iter().map(path).collect()
}

/// Runs a command that takes away what a connected host's connections rest on: they end, on every gateway.
fn cuts_off(world: &World, nqn: &str, command: &[&str]) {
    let until = Instant::now() + PATIENCE;
    let mut connected = loop {
        match paths(world, nqn) {
            Ok(connected) => break connected,
            Err(why) => assert!(
                Instant::now() < until,
                "before {command:?}: the host is not let in: {why}"
            ),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    world.amita_done(command);
    let changed = Instant::now();
    for (controller, queue) in &mut connected {
        for queue in [&mut controller.admin, queue] {
            let end = queue.poll_until(changed + CUT_OFF);
            assert!(matches!(end, Err(Error::Closed | Error::Io(_))), "{command:?}: {end:?}");
        }
    }
    println!("{command:?}: cut off everywhere {:?} later", changed.elapsed());
}

#[test]
fn a_host_whose_rights_change_is_cut_off_on_every_gateway() {
    let keys = tempfile::tempdir().expect("a folder");
    let seal = keys.path().join("seal.key").display().to_string();
    tool::run(keys.path(), binary(), ["host", "seal-key", &seal], PATIENCE)
        .and_then(|output| output.success())
        .expect("a sealing key");
    let world = World::serving(&["--seal-key", &seal]);
    let nqn = world.cluster.offer_by_nvme(VOLUME).expect("a subsystem for any host");
    let refused = |what: &str| {
        let answer = paths(&world, &nqn).map(drop);
        assert!(answer.is_err(), "{what}: it is let in");
    };
    let named_to = |name: &str| {
        let settings = Settings::new(world.cluster.nodes()[0].nvme, &nqn);
        let log = discovery_log(&settings, &Host::named(name)).expect("discovery");
        log.entries.iter().any(|entry| entry.nqn == nqn)
    };
    eventually("anybody is told of it", || named_to(OTHER));
    cuts_off(&world, &nqn, &["subsystem", "set", VOLUME, "--listed-hosts"]);
    refused("not listed");

    world.amita_done(&["host", "add", HOST]);
    world.amita_done(&["host", "allow", VOLUME, HOST]);
    eventually("the host is told of it", || named_to(HOST));
    assert!(!named_to(OTHER), "it is no host of this subsystem");
    cuts_off(
        &world,
        &nqn,
        &["host", "key", HOST, "--generate-dhchap", "--seal-key", &seal],
    );
    refused("it proves nothing");

    let both = ["host", "key", HOST, "--remove-dhchap", "--remove-dhchap-controller"];
    world.amita_done(&both);
    cuts_off(&world, &nqn, &["subsystem", "set", VOLUME, "--require-tls"]);
    refused("it came without TLS");
    assert!(!named_to(HOST), "it has no key for TLS");

    world.amita_done(&["subsystem", "set", VOLUME, "--allow-plain"]);
    cuts_off(&world, &nqn, &["host", "deny", VOLUME, HOST]);
    refused("denied");
    world.end(&[REFUSED]);
}

/// A resize changes the volume's record; the owner compares that record's revision with each eviction.
#[test]
fn the_owner_of_a_volume_that_was_resized_still_evicts() {
    let mut world = World::with_volume();
    let mut client = world.open(0);
    client.write(0, &[1; 4096]).expect("written");
    let twice = (2 * VOLUME_BYTES).to_string();
    let resized = world.json(&["volume", "resize", VOLUME, "--size", &twice]);
    assert_eq!(resized["size_bytes"], 2 * VOLUME_BYTES, "{resized}");
    let smaller = world.amita(&["volume", "resize", VOLUME, "--size", "8M"]);
    assert_eq!(smaller.status.code(), Some(2), "{}", smaller.text);
    assert!(smaller.text.contains("--shrink"), "{}", smaller.text);
    world.cluster.kill_node(2);
    for block in 1..64u64 {
        client.write(block * 4096, &[2; 4096]).expect("writes go on");
    }
    client.close();
    // A client that opens it now sees what it has now, at the owner.
    let shown = world.done("nbdinfo", &["--size", &world.uri(0)]);
    assert_eq!(shown.trim(), twice);
    let mut client = world.open(0);
    client
        .write(2 * VOLUME_BYTES - 4096, &[3; 4096])
        .expect("there is room behind the old end");
    client.close();
    let listed = world.json(&["volume", "list"]);
    assert_eq!(
        (&listed[0]["size_bytes"], &listed[0]["generation"]),
        (&(2 * VOLUME_BYTES).into(), &1.into())
    );
    world.end(A_NODE_IS_GONE);
}
