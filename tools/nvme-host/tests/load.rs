//! The load client against the target of this repository: what it counts is what the target did.

mod common;

use amita_nvme_host::{Load, commands, load};
use common::Target;
use std::time::Duration;

fn run(target: &Target, bytes: usize, depth: u16, queues: u16, read_percent: u8) -> amita_nvme_host::Loaded {
    let loaded = load(&Load {
        settings: target.settings(),
        host: target.host(),
        nsid: 1,
        bytes,
        depth,
        queues,
        read_percent,
        span_bytes: Some(8 << 20),
        duration: Duration::from_millis(200),
        seed: 7,
    })
    .expect("a load");
    assert_eq!(loaded.errors, 0);
    assert_eq!(loaded.latency.count(), loaded.operations);
    assert!(
        loaded.operations >= u64::from(depth) * u64::from(queues),
        "{} commands",
        loaded.operations
    );
    assert!(loaded.elapsed >= Duration::from_millis(200) && loaded.cpu > Duration::ZERO);
    loaded
}

#[test]
fn a_load_counts_what_the_target_did() {
    let target = Target::start();
    for (bytes, depth, queues, read_percent) in [
        (4096, 1, 1, 100),
        (4096, 32, 1, 0),
        (4096, 32, 3, 70),
        (16384, 8, 2, 50),
        (131_072, 16, 1, 100),
    ] {
        run(&target, bytes, depth, queues, read_percent);
    }
    // The writes have arrived: of each place written the first block's data are those of a lane.
    let mut controller = target.controller().expect("a controller");
    let mut queue = controller.io_queue(1, 32).expect("a queue");
    let read = queue
        .call(&commands::read(1, 0, 256, 4096))
        .expect("an answer")
        .good("Read")
        .expect("a read");
    assert!(read.data.iter().any(|&byte| byte != 0), "nothing was written");
}

#[test]
fn a_load_that_is_not_possible_is_refused() {
    let target = Target::start();
    let wrong = |bytes, read_percent| {
        load(&Load {
            settings: target.settings(),
            host: target.host(),
            nsid: 1,
            bytes,
            depth: 4,
            queues: 1,
            read_percent,
            span_bytes: None,
            duration: Duration::from_millis(1),
            seed: 1,
        })
        .map(|loaded| loaded.operations)
    };
    assert!(wrong(1000, 100).is_err(), "part of a block");
    assert!(wrong(1 << 20, 0).is_err(), "writes beyond the capsule");
}
