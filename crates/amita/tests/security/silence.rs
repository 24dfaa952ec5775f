//! The way to a volume's owner is held up for longer than gateways wait for an answer, and the owner lives: no command takes the volume from
//! its clients.

use crate::relay::Way;
use crate::tampering::world;
use crate::world::{VOLUME, eventually, pattern};
use amita_harness::cluster::Links;
use amita_identity::Role;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nobody's link is to break for it, but those that were held up.
const HELD_UP: &[&str] = &["WARN"];

#[test]
fn an_owner_that_does_not_answer_keeps_its_volume() {
    let (world, relays) = world(Links::Auth);
    let mut client = world.open(0);
    client.write(0, &pattern(1, 4096)).expect("written");
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    client.write(0, &pattern(2, 4096)).expect("written");
    let generation = || {
        world.json(&["volume", "show", VOLUME])["generation"]
            .as_u64()
            .expect("a number")
    };
    let before = generation();

    // Whoever is connected stays so; whoever comes hears nothing.
    let known = relays[0].connections();
    let held = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&held);
    relays[0].set(Some(Box::new(move |piece| {
        (piece.connection > known).then(|| {
            count.fetch_add(u64::from(piece.way == Way::Out), Ordering::AcqRel);
            Vec::new()
        })
    })));
    let object = format!("{VOLUME}@a");
    let gateway = world.identity(Role::Gateway, "copier").expect("an identity");
    let refused = std::thread::scope(|scope| {
        let command = scope.spawn(|| world.amita(&["volume", "revert", &object, "--client-identity", &gateway]));
        eventually("the command connects", || held.load(Ordering::Acquire) > 0);
        // A client waits 2 s for its connections; then it asks.
        std::thread::sleep(Duration::from_secs(4));
        relays[0].set(None);
        command.join().expect("it ends")
    });
    assert!(!refused.status.success(), "{}", refused.text);
    assert!(refused.text.contains("in use through"), "{}", refused.text);
    assert_eq!(generation(), before, "nobody has taken it over");
    let mut block = vec![0; 4096];
    client.read(0, &mut block).expect("it is read");
    assert_eq!(block, pattern(2, 4096));
    client.close();
    world.end(HELD_UP);
}
