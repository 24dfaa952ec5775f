//! Nodes reach one another through relays, which cut links, change what passes, or let nothing through.

use crate::relay::{Kind, Relay, Way};
use crate::world::{Plan, World};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

fn with_relays() -> (World, Vec<Relay>) {
    let mut relays = Vec::new();
    let world = World::with(Plan::default(), |cluster| {
        for node in 0..cluster.nodes().len() {
            let relay = Relay::start(cluster.nodes()[node].fabric);
            cluster.advertise(node, relay.address());
            relays.push(relay);
        }
    });
    (world, relays)
}

/// Nothing passes any more, and what is under way ends.
fn shut(relay: &Relay) {
    relay.set(Some(Box::new(|_| Some(Vec::new()))));
    relay.cut();
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn the_way_to_a_node_and_then_all_ways_break() {
    let (mut world, relays) = with_relays();
    world.fault("connections to one node, of three that all run, do not come about");
    shut(&relays[2]);
    world.fires("AmitaFabricLinksDown", "fewer links");
    world.mended();
    relays[2].set(None);
    world.ends("AmitaFabricLinksDown");
    world.is_quiet();

    let instance = world.instance(0);
    world.fault("nothing passes between any two nodes, which all run");
    relays.iter().for_each(shut);
    world.fires("AmitaFabricIsolated", &instance);
    world.mended();
    for relay in &relays {
        relay.set(None);
    }
    world.ends("AmitaFabricIsolated");
    world.is_quiet();
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn somebody_knocks_and_somebody_changes_frames() {
    let (mut world, relays) = with_relays();
    let (instance, fabric) = (world.instance(1), world.cluster.nodes()[1].fabric);
    world.fault("somebody without a certificate connects to the fabric, four times a second");
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(std::sync::atomic::Ordering::Acquire) {
                if let Ok(mut stream) = TcpStream::connect(fabric) {
                    // It may be closed already.
                    let _ = stream.write_all(&[0x16; 600]);
                    std::thread::sleep(Duration::from_millis(250));
                }
            }
        });
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            world.fires("AmitaFabricUnproven", &instance);
        }));
        ends.store(true, std::sync::atomic::Ordering::Release);
        if let Err(why) = seen {
            std::panic::resume_unwind(why);
        }
    });
    world.mended();
    world.ends("AmitaFabricUnproven");
    world.is_quiet();

    world.fault("one bit of one frame between two nodes is flipped on its way");
    let mut is_done = false;
    relays[1].set(Some(Box::new(move |piece| {
        let is_it = !is_done && piece.kind != Kind::Record && piece.way == Way::Out && piece.number > 8;
        is_it.then(|| {
            is_done = true;
            let mut changed = piece.bytes.to_vec();
            changed[17] ^= 1;
            changed
        })
    })));
    world.fires("AmitaFabricForged", &instance);
    world.mended();
    relays[1].set(None);
    world.ends("AmitaFabricForged");
    world.is_quiet();
}
