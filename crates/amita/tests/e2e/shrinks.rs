//! Volumes are made smaller, and grow again: what lay behind is zeros, also in clones, and snapshots have what they had.

use crate::images::amita;
use crate::reverts::{compare, open, write};
use crate::world::{PATIENCE, VOLUME, VOLUME_BYTES, World, binary, pattern};
use amita_control::admin;
use amita_harness::process::Process;
use amita_harness::tool;
use amita_identity::Role;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// In the midst of a chunk, and of a group of blocks.
const SMALL: u64 = 5 * MIB + 3 * 4096;

/// A command that is given again while who had the volume a moment ago has not left yet.
fn shrink(world: &World, volume: &str, bytes: u64) -> tool::Output {
    let size = bytes.to_string();
    let until = Instant::now() + PATIENCE;
    loop {
        let said = amita(world, &["volume", "resize", volume, "--size", &size, "--shrink"]);
        if !said.text.contains("in use through") || Instant::now() > until {
            return said;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn grow(world: &World, volume: &str, bytes: u64) {
    world.amita_done(&["volume", "resize", volume, "--size", &bytes.to_string()]);
}

#[test]
fn what_lay_behind_the_end_is_zeros_when_a_volume_grows_again() {
    let world = World::with_volume();
    let mut was = vec![0; VOLUME_BYTES as usize];
    let mut client = open(&world, 0, VOLUME);
    write(&mut client, &mut was, 0, &pattern(1, 40 << 20));
    write(&mut client, &mut was, VOLUME_BYTES - MIB, &pattern(2, 1 << 20));
    client.close();
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    let from = format!("{VOLUME}@a");
    world.amita_done(&["volume", "clone", &from, "copy"]);
    world.cluster.offer_by_nbd("copy").expect("it is exported");

    // Not unless it is asked for, nor while somebody has it.
    let plain = amita(&world, &["volume", "resize", VOLUME, "--size", "8M"]);
    assert_eq!(plain.status.code(), Some(2), "{}", plain.text);
    assert!(plain.text.contains("--shrink"), "{}", plain.text);
    let more = amita(&world, &["volume", "resize", VOLUME, "--size", "96M", "--shrink"]);
    assert_eq!(more.status.code(), Some(2), "{}", more.text);
    let user = open(&world, 1, VOLUME);
    let refused = amita(&world, &["volume", "resize", VOLUME, "--size", "8M", "--shrink"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(refused.text.contains("in use through"), "{}", refused.text);
    user.close();
    compare(&world, 2, VOLUME, &was);

    let said = shrink(&world, VOLUME, SMALL);
    assert!(said.status.success(), "{}", said.text);
    let mut is = was[..SMALL as usize].to_vec();
    compare(&world, 1, VOLUME, &is);
    // What comes next is of the new size, and what was there before is of its own.
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "small"]);
    compare(&world, 2, &format!("{VOLUME}@small"), &is);
    compare(&world, 0, &from, &was);
    grow(&world, VOLUME, VOLUME_BYTES);
    is.resize(VOLUME_BYTES as usize, 0);
    compare(&world, 0, VOLUME, &is);

    // A clone's parent does not shine through, whether its chunks were touched or not.
    let mut copy = was.clone();
    let mut client = open(&world, 2, "copy");
    write(&mut client, &mut copy, 9 * MIB, &pattern(3, 1 << 20));
    client.close();
    let said = shrink(&world, "copy", SMALL);
    assert!(said.status.success(), "{}", said.text);
    grow(&world, "copy", VOLUME_BYTES);
    copy[SMALL as usize..].fill(0);
    compare(&world, 1, "copy", &copy);
    let mut client = open(&world, 0, "copy");
    write(&mut client, &mut copy, 17 * MIB + 4096, &pattern(4, 8192));
    client.close();
    compare(&world, 2, "copy", &copy);
    compare(&world, 1, &from, &was);
    compare(&world, 1, &format!("{VOLUME}@small"), &is[..SMALL as usize]);
    // All copies say the same.
    for volume in [VOLUME, "copy"] {
        let scrub = world.json(&["volume", "scrub", volume]);
        assert_eq!(scrub["report"]["differing"], 0, "{scrub}");
    }
    world.end(&[]);
}

fn started(world: &World, size: &str) -> Process {
    let (operator, gateway) = (world.operator(), world.identity(Role::Gateway, "copier"));
    let gateway = gateway.expect("a cluster whose nodes prove who they are");
    let arguments = [
        "volume",
        "resize",
        VOLUME,
        "--size",
        size,
        "--shrink",
        "--metadata",
        world.cluster.endpoint(),
        "--identity",
        &operator,
        "--client-identity",
        &gateway,
    ];
    tool::start(world.folder(), binary(), arguments).expect("it starts")
}

#[test]
fn one_that_is_killed_leaves_the_old_size_and_is_ended_by_the_same_command() {
    let world = World::with_volume();
    let mut was = vec![0; VOLUME_BYTES as usize];
    let meta = world.cluster.metadata_client().expect("the metadata");
    let id = admin::volume(&meta, VOLUME).expect("the volume").id;
    let is_marked = || admin::about(&meta, id).expect("what is known of it").shrink.is_some();
    let size = SMALL.to_string();
    let mut tries = 0;
    // One that was too fast to be killed has made it smaller, which is no harm: it is made large again, and begun anew.
    loop {
        let mut client = open(&world, 0, VOLUME);
        write(&mut client, &mut was, 0, &pattern(1, VOLUME_BYTES as usize));
        client.close();
        let until = Instant::now() + PATIENCE;
        let mut process = started(&world, &size);
        while !is_marked() && Instant::now() < until {
            if process.ended().expect("it can be asked").is_some() {
                process = started(&world, &size);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        process.kill();
        if is_marked() {
            break;
        }
        tries += 1;
        assert!(tries < 5, "it always ends before it is killed");
        grow(&world, VOLUME, VOLUME_BYTES);
    }
    let facts = world.json(&["status"])["facts"].clone();
    let mut facts = facts.as_array().expect("facts").iter();
    let fact = facts.find(|fact| fact["name"] == "shrink-unfinished");
    assert_eq!(fact.expect("it is told")["objects"], serde_json::json!([VOLUME]));
    let refused = world.amita(&["volume", "resize", VOLUME, "--size", "96M"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(refused.text.contains("being made smaller"), "{}", refused.text);
    world.amita_done(&["subsystem", "create", "s", "--any-host"]);
    let refused = world.amita(&["namespace", "add", "s", VOLUME]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(refused.text.contains("being made smaller"), "{}", refused.text);

    let said = shrink(&world, VOLUME, SMALL);
    assert!(said.status.success(), "{}", said.text);
    assert!(!is_marked());
    was.truncate(SMALL as usize);
    compare(&world, 1, VOLUME, &was);
    grow(&world, VOLUME, VOLUME_BYTES);
    was.resize(VOLUME_BYTES as usize, 0);
    compare(&world, 2, VOLUME, &was);
    // Given up before anything is cleared, it is none any more; and what hosts have by NVMe is not made smaller.
    world.amita_done(&["namespace", "add", "s", VOLUME]);
    let refused = shrink(&world, VOLUME, SMALL);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(!is_marked(), "{}", refused.text);
    world.end(&[]);
}
