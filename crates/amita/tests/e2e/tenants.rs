//! Programs with a client's identity: they use what their certificates grant, through nodes, and nothing else. The library
//! (`amita-client`) against the binary that ships.

use crate::world::{A_NODE_IS_GONE, PATIENCE, VOLUME, World, eventually, stamped};
use amita_client::{Config, Done, Error, IoError, Local, OpenError, Volume};
use amita_harness::cluster::identity;
use amita_identity::{ClientTerms, Name, Role};
use amita_types::VolumeId;
use amita_types::capability::{Entry, Grant, Rights, Scope};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;

/// The identity of a client that was granted this, made when it is first asked for.
fn client(world: &World, name: &str, grant: Grant) -> PathBuf {
    let authority = world.cluster.authority().expect("a cluster with an authority");
    let terms = ClientTerms {
        grant,
        life: amita_identity::CLIENT_LIFE,
    };
    let full = Name::new(authority.cluster(), Role::Client, name).expect("a name");
    authority.grant(&full, &terms).expect("it is granted");
    identity(authority, world.folder(), Role::Client, name).expect("an identity")
}

/// These volumes, with these rights.
fn volumes(world: &World, names: &[&str], rights: Rights) -> Grant {
    let entries = names.iter().map(|name| Entry {
        scope: Scope::Volume(number(world, name)),
        rights,
    });
    Grant::new("", entries.collect()).expect("a grant")
}

fn tenant(name: &str) -> Grant {
    let all = Entry {
        scope: Scope::Tenant,
        rights: Rights::ALL,
    };
    Grant::new(name, vec![all]).expect("a grant")
}

fn number(world: &World, name: &str) -> VolumeId {
    let volumes = world.json(&["volume", "list"]);
    let found = volumes
        .as_array()
        .into_iter()
        .flatten()
        .find(|volume| volume["name"] == name);
    VolumeId(found.expect("the volume")["id"].as_u64().expect("a number"))
}

fn config(world: &World, identity: PathBuf) -> Config {
    let mut config = Config::new(Vec::new());
    config.identity = Some(identity);
    config.nodes = world.cluster.nodes().iter().map(|node| node.nbd.to_string()).collect();
    config.buffer_bytes = 64 << 20;
    config
}

fn connect(world: &World, identity: PathBuf) -> Local {
    Local::connect(&config(world, identity)).expect("it is ready")
}

fn write(local: &mut Local, volume: &Volume, block: u64, round: u64) {
    let offset = block * BLOCK;
    let mut buffer = local.buffer(BLOCK as usize).expect("memory");
    buffer.copy_from_slice(&stamped(offset, round));
    local
        .write(volume, offset, buffer.freeze(), block)
        .expect("the write begins");
}

fn settle(local: &mut Local) -> Vec<Done> {
    let (mut done, until) = (Vec::new(), Instant::now() + PATIENCE);
    while local.under_way() > 0 {
        assert!(Instant::now() < until, "{} requests do not end", local.under_way());
        local.wait(Duration::from_millis(100), &mut done);
    }
    done
}

fn check(local: &mut Local, volume: &Volume, blocks: u64, round: u64) {
    for block in 0..blocks {
        local
            .read(volume, block * BLOCK, BLOCK as u32, block)
            .expect("the read begins");
    }
    for done in settle(local) {
        assert_eq!(done.result, Ok(()));
        assert!(
            done.payload.to_vec() == stamped(done.tag * BLOCK, round),
            "block {}",
            done.tag
        );
    }
}

fn refusal(local: &mut Local, name: &str) -> String {
    match local.open(name) {
        Err(Error::Open {
            why: OpenError::NotFound,
            ..
        }) => "not found".to_owned(),
        Err(other) => other.to_string(),
        Ok(_) => panic!("{name} was opened"),
    }
}

/// Opens what was granted a moment ago, perhaps: the record is on its way to the node.
fn granted(local: &mut Local, name: &str) -> Volume {
    let until = Instant::now() + PATIENCE;
    loop {
        match local.open(name) {
            Ok(volume) => return volume,
            Err(error) => assert!(Instant::now() < until, "{name}: {error}"),
        }
    }
}

/// Waits until a volume that was open is served by no node.
fn await_cut_off(local: &mut Local, volume: &Volume) {
    eventually("the client is cut off", || {
        let begun = local.read(volume, 0, 4096, 1);
        begun.is_err() || settle(local)[0].result == Err(IoError::Lost)
    });
}

#[test]
fn a_client_uses_what_its_certificate_grants_and_nothing_else() {
    let world = World::with_volume();
    for name in ["first", "second", "readable", "ours"] {
        world.amita_done(&["volume", "create", name, "--pool", "demo", "--size", "8M"]);
    }
    let mut mine = connect(&world, client(&world, "mine", volumes(&world, &["first"], Rights::ALL)));
    let volume = granted(&mut mine, "first");
    for block in 0..64 {
        write(&mut mine, &volume, block, 1);
    }
    assert!(settle(&mut mine).iter().all(|done| done.result == Ok(())));
    check(&mut mine, &volume, 64, 1);
    mine.discard(&volume, 0, 64 * BLOCK, 1).expect("it begins");
    assert_eq!(settle(&mut mine)[0].result, Ok(()));
    mine.read(&volume, 5 * BLOCK, 4096, 1).expect("it begins");
    assert!(settle(&mut mine)[0].payload.to_vec() == [0; 4096]);
    // What is there and not granted, and what is not there.
    for name in ["second", "nothing", "ours", "readable"] {
        assert_eq!(refusal(&mut mine, name), "not found", "{name}");
    }
    // An export is no less.
    world.amita_done(&["nbd", "export", "second", "--client", "mine"]);
    let second = granted(&mut mine, "second");
    write(&mut mine, &second, 0, 2);
    assert_eq!(settle(&mut mine)[0].result, Ok(()));
    world.amita_done(&["nbd", "unexport", "second"]);
    await_cut_off(&mut mine, &second);
    // The one that it was granted goes on.
    write(&mut mine, &volume, 0, 3);
    assert_eq!(settle(&mut mine)[0].result, Ok(()));
    mine.close_volume(&volume).expect("it was open");
    mine.close();

    let mut reader = connect(
        &world,
        client(&world, "reader", volumes(&world, &["readable"], Rights::READ)),
    );
    let volume = granted(&mut reader, "readable");
    reader.read(&volume, 0, 4096, 1).expect("it begins");
    assert_eq!(settle(&mut reader)[0].result, Ok(()));
    write(&mut reader, &volume, 0, 1);
    assert_eq!(settle(&mut reader)[0].result, Err(IoError::ReadOnly));
    reader.close();

    // A tenant's clients have what is exported to the tenant.
    let mut acme = connect(&world, client(&world, "acme-db", tenant("acme")));
    let mut other = connect(&world, client(&world, "other-db", tenant("other")));
    assert_eq!(refusal(&mut acme, "ours"), "not found");
    world.amita_done(&["nbd", "export", "ours", "--tenant", "acme"]);
    let ours = granted(&mut acme, "ours");
    assert_eq!(refusal(&mut other, "ours"), "not found");
    write(&mut acme, &ours, 0, 1);
    assert_eq!(settle(&mut acme)[0].result, Ok(()));
    acme.close();
    other.close();
    // And a volume that hosts have by NVMe is not served beside, whatever a certificate says.
    world.amita_done(&["subsystem", "create", "s"]);
    world.amita_done(&["namespace", "add", "s", "first"]);
    let mut mine = connect(&world, client(&world, "mine", volumes(&world, &["first"], Rights::ALL)));
    eventually("it is no more served", || {
        mine.open("first").map_or(true, |volume| {
            mine.close_volume(&volume).expect("it is open");
            false
        })
    });
    assert_eq!(refusal(&mut mine, "first"), "not found");
    mine.close();
    world.end(&[]);
}

/// What is under way goes on at another node, and nothing that was acknowledged is lost.
#[test]
fn a_node_killed_or_frozen_under_a_client_costs_a_pause_and_no_error() {
    const BLOCKS: u64 = 256;
    let mut world = World::with_volume();
    let mut local = connect(&world, client(&world, "mine", volumes(&world, &[VOLUME], Rights::ALL)));
    let volume = granted(&mut local, VOLUME);
    let owner = |world: &World| {
        let volumes = world.json(&["volume", "list"]);
        let name = volumes[0]["owner_name"].as_str().expect("an owner").to_owned();
        let nodes = world.cluster.nodes();
        nodes
            .iter()
            .position(|node| node.name == name)
            .expect("one of the nodes")
    };
    let round = |local: &mut Local, round: u64| {
        for block in 0..BLOCKS {
            write(local, &volume, block, round);
        }
        for done in settle(local) {
            assert_eq!(done.result, Ok(()), "round {round}, block {}", done.tag);
        }
    };
    round(&mut local, 0);
    let killed = owner(&world);
    // Some are at the node when it dies, and were carried out there or were not.
    let mut done = Vec::new();
    for block in 0..BLOCKS {
        write(&mut local, &volume, block, 1);
    }
    while done.len() < 10 {
        local.poll(&mut done);
    }
    assert!(local.under_way() > 0, "nothing is under way");
    world.cluster.kill_node(killed);
    done.extend(settle(&mut local));
    assert!(done.len() == BLOCKS as usize && done.iter().all(|done| done.result == Ok(())));
    check(&mut local, &volume, BLOCKS, 1);
    world.cluster.start_node(killed).expect("it starts");
    world.cluster.await_node(killed).expect("it is there");
    eventually("all copies are in sync", || world.json(&["status"])["health"] == "ok");
    let frozen = owner(&world);
    assert_ne!(frozen, killed);
    let mut done = Vec::new();
    for block in 0..BLOCKS {
        write(&mut local, &volume, block, 2);
    }
    while done.len() < 10 {
        local.poll(&mut done);
    }
    world.cluster.freeze_node(frozen).expect("it stands still");
    done.extend(settle(&mut local));
    assert!(done.len() == BLOCKS as usize && done.iter().all(|done| done.result == Ok(())));
    // What the frozen one has of the second round comes after the third, if it comes.
    round(&mut local, 3);
    world.cluster.thaw_node(frozen).expect("it goes on");
    for _ in 0..20 {
        check(&mut local, &volume, BLOCKS, 3);
        std::thread::sleep(Duration::from_millis(100));
    }
    round(&mut local, 4);
    check(&mut local, &volume, BLOCKS, 4);
    local.close();
    world.end(
        &[
            A_NODE_IS_GONE,
            crate::world::A_NODE_RETURNS,
            &["did not run for", "lease"],
        ]
        .concat(),
    );
}

/// This process's connections to nodes, by its own ports.
fn connections(world: &World) -> Vec<String> {
    let all = world.done("ss", &["-Htnp", "state", "established"]);
    let (me, ports) = (format!("pid={},", std::process::id()), world.cluster.nodes());
    let ours = all.lines().filter(|line| line.contains(&me));
    let to_a_node = |line: &&str| ports.iter().any(|node| line.contains(&format!(" {} ", node.nbd)));
    let own = |line: &str| line.split_whitespace().nth(2).unwrap_or_default().to_owned();
    ours.filter(to_a_node).map(own).collect()
}

/// A newer certificate costs nobody anything; a revoked one ends all.
#[test]
fn a_certificate_is_renewed_without_a_pause_and_revoked_at_once() {
    let world = World::with_volume();
    let folder = client(&world, "mine", volumes(&world, &[VOLUME], Rights::ALL));
    let mut settings = config(&world, folder.clone());
    settings.node_patience = Duration::from_secs(2);
    let mut local = Local::connect(&settings).expect("it is ready");
    let volume = granted(&mut local, VOLUME);
    let authority = world.cluster.authority().expect("a cluster with an authority");
    let before = connections(&world);
    assert_eq!(before.len(), 1, "{before:?}");
    authority.renew_identity(&folder).expect("renewed");
    let (until, mut rounds, mut longest) = (Instant::now() + PATIENCE, 0, Duration::ZERO);
    let mut after = before.clone();
    while after == before || after.len() > 1 {
        assert!(
            Instant::now() < until,
            "it goes on by the connection that it had: {after:?}"
        );
        for _ in 0..100 {
            let since = Instant::now();
            write(&mut local, &volume, rounds % 64, rounds);
            assert_eq!(settle(&mut local)[0].result, Ok(()));
            (rounds, longest) = (rounds + 1, longest.max(since.elapsed()));
        }
        after = connections(&world);
    }
    println!("{rounds} writes, the longest took {longest:?}");
    authority.revoke("client/mine").expect("it is revoked");
    for node in ["n1", "n2", "n3"] {
        authority
            .renew_identity(&world.file(&format!("{node}.identity")))
            .expect("renewed");
    }
    await_cut_off(&mut local, &volume);
    assert!(local.open(VOLUME).is_err(), "who was revoked opens nothing");
    local.close();
    world.end(&["the certificate was revoked", "invalid peer certificate: Revoked"]);
}

/// Nothing of the cluster but volumes: no metadata, no place among the nodes.
#[test]
fn a_client_is_no_node() {
    let world = World::with_volume();
    let folder = client(&world, "mine", volumes(&world, &[VOLUME], Rights::ALL));
    let mut settings = config(&world, folder.clone());
    settings.metadata = vec![world.cluster.endpoint().to_owned()];
    let mut local = Local::connect(&settings).expect("the metadata is not asked");
    granted(&mut local, VOLUME);
    let nodes = world.amita_done(&["node", "list"]);
    assert_eq!(nodes.matches("yes").count(), 3, "{nodes}");
    // It listens nowhere, and has one connection.
    let listening = world.done("ss", &["-Htlnp"]);
    let me = format!("pid={},", std::process::id());
    let ours: Vec<&str> = listening.lines().filter(|line| line.contains(&me)).collect();
    assert!(ours.is_empty(), "{ours:?}");
    local.close();
    let refused = world
        .cluster
        .amita(["status", "--identity", &folder.display().to_string()]);
    assert!(!refused.expect("the command runs").status.success());
    world.end(&["was not let in"]);
}
