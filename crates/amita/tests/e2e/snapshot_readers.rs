//! Everybody who reads a volume reads its snapshots, as `VOLUME@SNAPSHOT`: programs with libamita in both of its ways, exports into
//! images, hosts by NVMe. NBD is with the snapshots themselves (`snapshots.rs`).

use crate::world::{PATIENCE, VOLUME, VOLUME_BYTES, World, eventually, stamped};
use amita_client::{Config, Done, Error, IoError, Local, OpenError, Volume};
use amita_harness::cluster::identity;
use amita_harness::tool;
use amita_identity::{ClientTerms, Name, Role};
use amita_nvme_host::{Controller, Host, Queue, Settings, commands};
use amita_types::VolumeId;
use amita_types::capability::{Entry, Grant, Rights, Scope};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 64;

/// Nodes with a snapshot `first` of the volume, which has round 1 in each of its first blocks; it grew since, and has round 2.
fn world() -> World {
    let world = World::with_volume();
    fill(&world, 1);
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "first"]);
    let twice = (2 * VOLUME_BYTES).to_string();
    world.amita_done(&["volume", "resize", VOLUME, "--size", &twice]);
    fill(&world, 2);
    world
}

fn fill(world: &World, round: u64) {
    let mut client = world.open(0);
    for block in 0..BLOCKS {
        client
            .write(block * BLOCK, &stamped(block * BLOCK, round))
            .expect("written");
    }
    client.close();
}

fn snapshot() -> String {
    format!("{VOLUME}@first")
}

fn as_gateway(world: &World) -> Local {
    let mut config = Config::new(vec![world.cluster.endpoint().to_owned()]);
    config.identity = world.identity(Role::Gateway, "app").map(PathBuf::from);
    config.buffer_bytes = 64 << 20;
    Local::connect(&config).expect("it joins")
}

/// As a client that was granted the volume.
fn through_nodes(world: &World) -> Local {
    let authority = world.cluster.authority().expect("a cluster with an authority");
    let id = world.json(&["volume", "show", VOLUME])["id"]
        .as_u64()
        .expect("a number");
    let entry = Entry {
        scope: Scope::Volume(VolumeId(id)),
        rights: Rights::ALL,
    };
    let terms = ClientTerms {
        grant: Grant::new("", vec![entry]).expect("a grant"),
        life: amita_identity::CLIENT_LIFE,
    };
    let name = Name::new(authority.cluster(), Role::Client, "reader").expect("a name");
    authority.grant(&name, &terms).expect("it is granted");
    let mut config = Config::new(Vec::new());
    config.identity = Some(identity(authority, world.folder(), Role::Client, "reader").expect("an identity"));
    config.nodes = world.cluster.nodes().iter().map(|node| node.nbd.to_string()).collect();
    config.buffer_bytes = 64 << 20;
    Local::connect(&config).expect("it is ready")
}

fn settle(local: &mut Local) -> Vec<Done> {
    let (mut done, until) = (Vec::new(), Instant::now() + PATIENCE);
    while local.under_way() > 0 {
        assert!(Instant::now() < until, "{} requests do not end", local.under_way());
        local.wait(Duration::from_millis(100), &mut done);
    }
    done
}

/// It has this round everywhere.
fn check(local: &mut Local, volume: &Volume, round: u64) {
    for block in 0..BLOCKS {
        local
            .read(volume, block * BLOCK, BLOCK as u32, block)
            .expect("it begins");
    }
    for done in settle(local) {
        assert_eq!(done.result, Ok(()), "block {}", done.tag);
        assert!(
            done.payload.to_vec() == stamped(done.tag * BLOCK, round),
            "block {}",
            done.tag
        );
    }
}

fn is_unknown(local: &mut Local, name: &str) {
    match local.open(name) {
        Err(Error::Open {
            why: OpenError::NotFound,
            ..
        }) => {}
        Err(other) => panic!("{name}: {other}"),
        Ok(_) => panic!("{name} was opened"),
    }
}

/// A name is gone when whoever is asked has heard of it. Until then the snapshot may be opened, and is not read.
fn becomes_unknown(local: &mut Local, name: &str) {
    eventually("the name is gone", || match local.open(name) {
        Err(Error::Open {
            why: OpenError::NotFound,
            ..
        }) => true,
        Err(_) => false,
        Ok(volume) => {
            let begun = local.read(&volume, 0, BLOCK as u32, 1);
            assert!(begun.is_err() || settle(local)[0].result.is_err(), "{name} is read");
            local.close_volume(&volume).expect("it was open");
            false
        }
    });
}

fn reads(world: &World, mut local: Local) {
    let was = local.open(&snapshot()).expect("the snapshot opens");
    assert_eq!(
        was.size_bytes(),
        VOLUME_BYTES,
        "what it was, and not what the volume is"
    );
    check(&mut local, &was, 1);
    let is = local.open(VOLUME).expect("and the volume beside it");
    assert_eq!(is.size_bytes(), 2 * VOLUME_BYTES);
    check(&mut local, &is, 2);
    check(&mut local, &was, 1);
    // Nothing that would change it is done.
    let mut buffer = local.buffer(BLOCK as usize).expect("memory");
    buffer.fill(7);
    local.write(&was, 0, buffer.freeze(), 1).expect("it begins");
    local.discard(&was, 0, BLOCK, 2).expect("it begins");
    local.write_zeroes(&was, 0, BLOCK, 3).expect("it begins");
    for done in settle(&mut local) {
        assert_eq!(done.result, Err(IoError::ReadOnly), "request {}", done.tag);
    }
    assert!(matches!(
        local.read(&was, VOLUME_BYTES, 4096, 1),
        Err(Error::OutOfRange { .. })
    ));
    // The volume is closed, and what it was is read on.
    local.close_volume(&is).expect("it was open");
    check(&mut local, &was, 1);
    for name in [
        format!("{VOLUME}@none"),
        format!("{VOLUME}@"),
        format!("{VOLUME}@first@first"),
        "@first".to_owned(),
        "@".to_owned(),
        "none@first".to_owned(),
        ".1@first".to_owned(),
        ".1".to_owned(),
    ] {
        is_unknown(&mut local, &name);
    }
    // It is deleted under it: there are errors, and never anything else than what it was.
    world.amita_done(&["volume", "snapshot", "delete", VOLUME, "first"]);
    eventually("the last copy of it is gone", || {
        let mut deleted = 0;
        for block in 0..BLOCKS {
            if local.read(&was, block * BLOCK, BLOCK as u32, block).is_err() {
                return true;
            }
        }
        for done in settle(&mut local) {
            match done.result {
                Ok(()) => assert!(
                    done.payload.to_vec() == stamped(done.tag * BLOCK, 1),
                    "block {}",
                    done.tag
                ),
                Err(_) => deleted += 1,
            }
        }
        deleted == BLOCKS
    });
    is_unknown(&mut local, &snapshot());
    local.close();
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn a_gateway_inside_a_program_reads_snapshots() {
    let world = world();
    reads(&world, as_gateway(&world));
    world.end(&[]);
}

#[test]
fn a_client_reads_snapshots_through_nodes() {
    let world = world();
    reads(&world, through_nodes(&world));
    world.end(&[]);
}

/// A snapshot goes with its volume, under whatever name that has; and of a deleted one nothing is to be had.
#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn renamed_and_deleted_volumes_have_their_snapshots() {
    let world = world();
    let (mut gateway, mut client) = (as_gateway(&world), through_nodes(&world));
    world.amita_done(&["volume", "rename", VOLUME, "other"]);
    // First through nodes: one of them owns it then, and not a program that runs only while it is called.
    for local in [&mut client, &mut gateway] {
        is_unknown(local, &snapshot());
        let was = local.open("other@first").expect("it opens");
        check(local, &was, 1);
        local.close_volume(&was).expect("it was open");
    }
    let open = [&mut client, &mut gateway].map(|local| local.open("other@first").expect("it opens"));
    let id = world.json(&["volume", "show", "other"])["id"]
        .as_u64()
        .expect("a number");
    world.amita_done(&["volume", "delete", "other"]);
    for (local, was) in [&mut client, &mut gateway].into_iter().zip(open) {
        eventually("nothing is read any more", || {
            local.read(&was, 0, BLOCK as u32, 1).is_err() || settle(local)[0].result.is_err()
        });
        becomes_unknown(local, "other@first");
        is_unknown(local, &format!(".{id}@first"));
        is_unknown(local, &format!(".{id}"));
    }
    let export = amita(&world, &["volume", "export", "other@first", "-"]);
    assert_eq!(export.status.code(), Some(4), "{}", export.text);
    world.amita_done(&["volume", "undelete", "other"]);
    eventually("it is back", || gateway.open("other@first").is_ok());
    let was = gateway.open("other@first").expect("it opens");
    check(&mut gateway, &was, 1);
    gateway.close();
    client.close();
    world.end(&[]);
}

/// A command of ours that reads data: by a gateway's identity.
fn amita(world: &World, arguments: &[&str]) -> tool::Output {
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

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// Somebody who overwrites the volume until he is told to stop.
fn overwrite(gateway: SocketAddr, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    let stop = Arc::clone(stop);
    let mut client = amita_harness::nbd::Client::open(gateway, VOLUME, PATIENCE).expect("the volume opens");
    std::thread::spawn(move || {
        let mut round = 100;
        while !stop.load(Ordering::Relaxed) {
            for block in 0..BLOCKS {
                client
                    .write(block * BLOCK, &stamped(block * BLOCK, round))
                    .expect("written");
            }
            round += 1;
        }
        client.close();
        round
    })
}

#[test]
fn a_snapshot_is_exported_while_its_volume_is_written() {
    let world = world();
    let [expected, raw, qcow2, piped, again] =
        ["expected.raw", "a.raw", "a.qcow2", "piped.raw", "again.raw"].map(|name| world.file(name));
    {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::create(&expected).expect("made");
        file.set_len(VOLUME_BYTES).expect("long enough");
        for block in 0..BLOCKS {
            file.write_all_at(&stamped(block * BLOCK, 1), block * BLOCK)
                .expect("written");
        }
    }
    let [expected, raw, qcow2, piped, again] = [&expected, &raw, &qcow2, &piped, &again].map(|path| text(path));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = overwrite(world.cluster.nodes()[1].nbd, &stop);
    let name = snapshot();
    let said = done(&world, &["volume", "export", &name, raw]);
    assert!(said.contains(&format!("Snapshot {name} is in")), "{said}");
    done(&world, &["volume", "export", &name, qcow2, "--format", "qcow2"]);
    world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", expected, raw]);
    world.done("qemu-img", &["check", qcow2]);
    world.done("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", expected, qcow2]);
    world.done("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", qcow2, piped]);
    world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", expected, piped]);
    let identity = world.identity(Role::Gateway, "copier").expect("an identity");
    let to_pipe = format!(
        "{} volume export {name} - --client-identity {identity} --metadata {} --identity {} > {piped}",
        crate::world::binary(),
        world.cluster.endpoint(),
        world.operator(),
    );
    world.done("sh", &["-c", &to_pipe]);
    world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", expected, piped]);

    // One that was interrupted goes on, whoever has had the volume since: of another snapshot, or the volume, it does not.
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "second"]);
    let half = VOLUME_BYTES / 2;
    let shown = world.json(&["volume", "show", VOLUME]);
    let cluster = world.json(&["status"])["cluster"]
        .as_str()
        .expect("a number")
        .to_owned();
    let first = world.json(&["volume", "snapshot", "list", VOLUME])[0].clone();
    let place = serde_json::json!({
        "cluster": cluster, "volume": shown["id"], "generation": 0, "snapshot": first["number"],
        "size_bytes": VOLUME_BYTES, "done_bytes": half,
    });
    let interrupt = || {
        std::fs::copy(expected, again).expect("copied");
        let file = std::fs::OpenOptions::new().write(true).open(again).expect("it opens");
        file.set_len(half).expect("shorter");
        std::fs::write(format!("{again}.amita-export"), place.to_string()).expect("written");
    };
    interrupt();
    for other in [VOLUME.to_owned(), format!("{VOLUME}@second")] {
        let refused = amita(&world, &["volume", "export", &other, again, "--resume"]);
        assert_eq!(refused.status.code(), Some(5), "{other}: {}", refused.text);
        assert!(refused.text.contains("cannot go on: it was of"), "{}", refused.text);
    }
    done(&world, &["volume", "export", &name, again, "--resume"]);
    world.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", expected, again]);
    stop.store(true, Ordering::Relaxed);
    assert!(writer.join().expect("every write was acknowledged") > 100);

    for (bad, code, words) in [
        (format!("{VOLUME}@"), 2, "VOLUME@SNAPSHOT"),
        ("@first".to_owned(), 2, "VOLUME@SNAPSHOT"),
        (format!("{VOLUME}@first@x"), 2, "VOLUME@SNAPSHOT"),
        (format!("{VOLUME}@none"), 4, "first"),
        ("none@first".to_owned(), 4, "no volume named none"),
    ] {
        let out = world.file("bad.raw");
        let refused = amita(&world, &["volume", "export", &bad, text(&out)]);
        assert_eq!(refused.status.code(), Some(code), "{bad}: {}", refused.text);
        assert!(refused.text.contains(words), "{bad}: {}", refused.text);
        assert!(!out.exists(), "{bad}: nothing is made");
    }
    world.end(&[]);
}

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8052-b4c04f4e3732";
/// Namespace is Write Protected; Invalid Command Opcode (NVM Express Base 2.1, 4.2.3).
const WRITE_PROTECTED: (u8, u8) = (0, 0x20);
const INVALID_OPCODE: (u8, u8) = (0, 0x01);

/// A host's controller at a gateway, and a queue.
fn host(node: SocketAddr, nqn: &str) -> (Controller, Queue) {
    let until = Instant::now() + PATIENCE;
    loop {
        let connected =
            Controller::connect(&Settings::new(node, nqn), &Host::named(HOST)).and_then(|mut controller| {
                controller.enable()?;
                controller.call(&commands::queues(1))?.good("Number of Queues")?;
                let queue = controller.io_queue(1, 16)?;
                Ok((controller, queue))
            });
        match connected {
            Ok(connected) => return connected,
            Err(why) => assert!(Instant::now() < until, "it is not let in: {why}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn reads_as(queue: &mut Queue, nsid: u32, round: u64) {
    for block in 0..BLOCKS {
        let read = queue
            .call(&commands::read(nsid, block, 1, BLOCK as usize))
            .expect("it answers");
        let data = read.good("Read").expect("it is read").data;
        assert!(data == stamped(block * BLOCK, round), "namespace {nsid}, block {block}");
    }
}

#[test]
fn a_host_reads_a_snapshot_as_a_disk_that_nobody_can_write() {
    let world = world();
    let nqn = world.cluster.offer_by_nvme(VOLUME).expect("a subsystem for any host");
    let name = snapshot();
    let made = world.json(&["namespace", "add", VOLUME, &name]);
    assert_eq!(made["nsid"], 2, "{made}");
    let listed = world.json(&["namespace", "list"]);
    assert_eq!(
        (
            &listed[1]["volume_name"],
            &listed[1]["snapshot_name"],
            &listed[1]["size_bytes"]
        ),
        (&VOLUME.into(), &"first".into(), &VOLUME_BYTES.into()),
        "{listed}"
    );
    assert_ne!(listed[0]["uuid"], listed[1]["uuid"]);
    assert!(world.amita_done(&["namespace", "list"]).contains(&name));
    assert!(world.amita_done(&["volume", "show", VOLUME]).contains(&name));

    let mut identifiers = Vec::new();
    for node in world.cluster.nodes() {
        let (mut controller, mut queue) = host(node.nvme, &nqn);
        eventually("the gateway knows of it", || {
            controller.namespaces().expect("it answers") == [1, 2]
        });
        let (is, was) = (
            controller.namespace(1).expect("it answers"),
            controller.namespace(2).expect("it answers"),
        );
        assert_eq!(
            (is.blocks(), was.blocks()),
            (2 * VOLUME_BYTES / BLOCK, VOLUME_BYTES / BLOCK)
        );
        // NSATTR, RESCAP.
        assert_eq!((is.byte(99), was.byte(99)), (0, 1));
        assert_eq!((is.byte(31), was.byte(31)), (0xff, 0));
        let nguid: Vec<u8> = (104..120).map(|at| was.byte(at)).collect();
        identifiers.push(nguid);
        reads_as(&mut queue, 2, 1);
        reads_as(&mut queue, 1, 2);
        let block = vec![9; BLOCK as usize];
        let refused = [
            commands::write(2, 0, 1, block.clone()),
            commands::write_zeroes(2, 0, 1, true),
            commands::write_zeroes(2, 0, 1, false),
            commands::deallocate(2, &[(0, 1)]),
            commands::copy(2, 100, &[(0, 1)]),
        ];
        for request in refused {
            let status = queue.call(&request).expect("it answers").status;
            assert_eq!((status.kind, status.code), WRITE_PROTECTED, "{request:?}");
        }
        let reserve = queue
            .call(&commands::reservation_register(2, 0, false, 0, 0, 5))
            .expect("it answers");
        assert_eq!((reserve.status.kind, reserve.status.code), INVALID_OPCODE);
        queue
            .call(&commands::flush(2))
            .and_then(|done| done.good("Flush"))
            .expect("nothing to do");
        reads_as(&mut queue, 2, 1);
    }
    identifiers.dedup();
    assert_eq!(identifiers.len(), 1, "it is the same disk at every gateway");

    // It stays while hosts may have it, and its volume too.
    let refused = world.amita(&["volume", "snapshot", "delete", VOLUME, "first"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(
        refused.text.contains(&format!("amita namespace remove {VOLUME} 2")),
        "{}",
        refused.text
    );
    for (command, code, words) in [
        (&["namespace", "add", VOLUME, &name][..], 5, "is namespace 2"),
        (&["namespace", "add", VOLUME, "volume@"], 2, "VOLUME@SNAPSHOT"),
        (
            &["namespace", "add", VOLUME, &format!("{VOLUME}@none")],
            4,
            "there is first",
        ),
    ] {
        let refused = world.amita(command);
        assert_eq!(refused.status.code(), Some(code), "{command:?}: {}", refused.text);
        assert!(refused.text.contains(words), "{command:?}: {}", refused.text);
    }
    // A host that is connected loses the disk, and only that.
    let (mut controller, mut queue) = host(world.cluster.nodes()[2].nvme, &nqn);
    world.amita_done(&["namespace", "remove", VOLUME, "2"]);
    eventually("the gateway knows of it", || {
        controller.namespaces().expect("it answers") == [1]
    });
    eventually("Invalid Namespace or Format", || {
        let gone = queue
            .call(&commands::read(2, 0, 1, BLOCK as usize))
            .expect("it answers");
        (gone.status.kind, gone.status.code) == (0, 0x0b)
    });
    reads_as(&mut queue, 1, 2);
    world.amita_done(&["volume", "snapshot", "delete", VOLUME, "first"]);
    world.end(&["the connection of a host at"]);
}

#[test]
fn a_snapshot_is_attached_to_a_host_that_gets_nothing_else() {
    let world = world();
    let name = snapshot();
    let attached = world.json(&["volume", "attach", &name, "--host", HOST]);
    let own = format!("{VOLUME}.first");
    assert_eq!(
        (&attached["subsystem"], &attached["nsid"]),
        (&own.as_str().into(), &1.into()),
        "{attached}"
    );
    let nqn = attached["nqn"].as_str().expect("a name");
    let (mut controller, mut queue) = host(world.cluster.nodes()[1].nvme, nqn);
    eventually("the gateway knows of it", || {
        controller.namespaces().expect("it answers") == [1]
    });
    reads_as(&mut queue, 1, 1);
    // Again: nothing is made.
    let again = world.json(&["volume", "attach", &name, "--host", HOST]);
    assert_eq!(again["made"], serde_json::json!([]), "{again}");
    for bad in [format!("{VOLUME}@"), "@first".to_owned()] {
        let refused = world.amita(&["volume", "attach", &bad, "--host", HOST]);
        assert_eq!(refused.status.code(), Some(2), "{bad}: {}", refused.text);
    }
    let said = world.amita_done(&["volume", "detach", &name]);
    assert!(said.contains(&name), "{said}");
    let refused = world.amita(&["volume", "detach", &name]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.text);
    // A subsystem that has something else already is not opened to the host by the way.
    world.amita_done(&["namespace", "add", &own, VOLUME]);
    let refused = world.amita(&["volume", "attach", &name, "--host", HOST]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(refused.text.contains("--subsystem"), "{}", refused.text);
    // The host has come before its gateway knew that it may.
    world.end(&["the connection of a host at"]);
}
