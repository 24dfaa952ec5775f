//! A pool fills, level by level, until writes fail; and a store's index has too little memory.

use crate::world::{Plan, VOLUME, World};
use amita_harness::nbd::Client;
use amita_harness::scratch::Scratch;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// The size of a store; each has a copy of everything.
const STORE_MIB: u64 = 320;
/// So much of a store is left for data, about.
const ROOM_MIB: f64 = 306.0;
/// So much of the pool is written at most that its figure does not count yet: it comes late, and later on a busy machine.
const UNCOUNTED: f64 = 0.02;
/// After so long without a change it counts everything.
const COUNTED_WITHIN: Duration = Duration::from_secs(15);

/// Writes what no store could take for zeros or for an earlier write.
fn fill(client: &mut Client, offset: u64) -> std::io::Result<()> {
    let mut state = offset | 1;
    let block: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()
    })
    .take(MIB as usize / 8)
    .flatten()
    .collect();
    client.write(offset, &block)
}

/// The space that the pool's stores say is used, of 1.
fn used(world: &World) -> f64 {
    world
        .prometheus
        .value("job_pool:amita_pool_used:ratio")
        .unwrap_or_default()
}

/// Writes on until so much is used; `pause` after each MiB.
fn fill_to(world: &World, client: &mut Client, at: &mut u64, ratio: f64, pause: Duration) {
    let (mut before, mut since) = (used(world), Instant::now());
    loop {
        let counted = used(world);
        if counted >= ratio {
            return;
        }
        if counted > before {
            (before, since) = (counted, Instant::now());
        }
        if *at as f64 / ROOM_MIB < counted + UNCOUNTED || since.elapsed() > COUNTED_WITHIN {
            fill(client, *at * MIB).expect("there is room yet");
            *at += 1;
            since = Instant::now();
        }
        std::thread::sleep(pause);
    }
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_pool_fills_until_writes_fail() {
    let plan = Plan {
        store_bytes: STORE_MIB * MIB,
        volume_bytes: 1 << 30,
        ..Plan::default()
    };
    let mut world = World::of(plan);
    let mut client = world.open(0);
    let (mut at, short) = (0, Duration::from_millis(60));
    fill_to(&world, &mut client, &mut at, 0.5, short);
    world.fault("a host writes on and on into a pool that is half full");
    // Two minutes of growth at least.
    fill_to(&world, &mut client, &mut at, 0.74, Duration::from_millis(1800));
    world.fires("AmitaPoolFullSoon", "pool demo");
    for (ratio, alert, says) in [
        (0.76, "AmitaPoolFills", "pool demo"),
        (0.86, "AmitaPoolNearFull", "pool demo"),
        (0.96, "AmitaPoolFull", "pool demo"),
    ] {
        fill_to(&world, &mut client, &mut at, ratio, short);
        world.fault(&format!("{:.0} % of a pool are used", ratio * 100.0));
        world.fires(alert, says);
    }
    world.fault("96 % of a pool are used");
    world.fires("AmitaStoreFull", "store");
    world.fires("AmitaBlocked", "waits or fails");
    world.fault("a host writes on into a pool that is full");
    let until_seen = || world.prometheus.alert("AmitaVolumeErrors").state == "firing";
    let (mut failed, mut errors) = (at, 0);
    while !until_seen() {
        match fill(&mut client, failed * MIB) {
            Ok(()) => failed += 1,
            Err(_) => errors += 1,
        }
        assert!(
            failed < 1000 && errors < 10_000,
            "{failed} MiB were taken, {errors} writes failed"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    world.fires("AmitaVolumeErrors", &format!("writes of volume {VOLUME} fail"));
    client.close();
    world.mended();
    world.done_at_last(&["volume", "delete", VOLUME, "--now", "--force", "--yes"]);
    let alerts = [
        "AmitaVolumeErrors",
        "AmitaBlocked",
        "AmitaStoreFull",
        "AmitaPoolFull",
        "AmitaPoolNearFull",
        "AmitaPoolFills",
        "AmitaPoolFullSoon",
    ];
    world.all_end(&alerts.map(|name| (name, "")));
    world.is_quiet();
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn an_index_has_too_little_memory() {
    const STORE_BYTES: u64 = 1 << 30;
    let scratch = Scratch::make("alerts", None, None, 4 * STORE_BYTES).expect("folders");
    let memory = scratch.folder().join("index-memory");
    std::fs::write(&memory, "320K").expect("written");
    let plan = Plan {
        store_bytes: STORE_BYTES,
        begins: format!("export AMITA_INDEX_MEMORY=$(cat '{}')", memory.display()),
        is_wrong_at_first: true,
        ..Plan::default()
    };
    let mut world = World::on(plan, scratch, |_| {}, |_| {});
    world.fault("stores of 1 GiB have 320 KiB of memory for their index");
    world.fires("AmitaStoreIndexFull", "index of store");
    world.mended();
    std::fs::write(&memory, "64M").expect("written");
    for node in 0..3 {
        assert!(world.cluster.stop_node(node), "it ends in order");
        world.start_node(node);
    }
    world.ends("AmitaStoreIndexFull");
    world.is_quiet();
}
