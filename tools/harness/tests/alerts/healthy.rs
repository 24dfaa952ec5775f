//! An hour of load without a fault, and no alert at all: by the rules as they ship.

use crate::disks::load;
use crate::prometheus::Times;
use crate::world::{PATIENCE, Plan, VOLUME, World};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const MINUTES: &str = "AMITA_HEALTHY_MINUTES";
/// Of reads, and of writes, of each volume each second: well below what two processors do beside all that watches them.
const RATE: u32 = 300;

fn minutes() -> u64 {
    let text = std::env::var(MINUTES).unwrap_or_else(|_| "60".to_owned());
    text.parse()
        .unwrap_or_else(|_| panic!("{MINUTES}={text} is no number of minutes"))
}

/// Three hosts at three gateways, snapshots by a policy, and a scrub.
#[test]
#[ignore = "an hour: AMITA_HEALTHY_MINUTES"]
fn an_hour_of_load_without_a_fault_and_without_an_alert() {
    let run = Duration::from_secs(minutes() * 60);
    let world = World::of(Plan {
        store_bytes: 1 << 30,
        times: Times::Shipped,
        ..Plan::default()
    });
    for name in ["disk1", "disk2"] {
        world.done(&["volume", "create", name, "--pool", "demo", "--size", "64M"]);
        world.cluster.offer_by_nbd(name).expect("exported");
    }
    let policy = ["snapshot-policy", "create", "often", "--volume", VOLUME];
    world.done(&[&policy[..], &["--schedule", "* * * * *", "--keep-last", "3"]].concat());
    let begun = Instant::now();
    let mut loads: Vec<_> = [VOLUME, "disk1", "disk2"]
        .into_iter()
        .enumerate()
        .map(|(node, volume)| load(&world, volume, node, volume, RATE, run))
        .collect();
    let mut waited: BTreeMap<String, u32> = BTreeMap::new();
    let mut looks = 0;
    while begun.elapsed() < run {
        std::thread::sleep(Duration::from_secs(5));
        looks += 1;
        if looks % 120 == 60 {
            world.done(&["volume", "scrub", "disk1"]);
        }
        for (name, alert) in world.prometheus.alerts() {
            assert_ne!(
                alert.state,
                "firing",
                "{name} after {} s: {alert:?}",
                begun.elapsed().as_secs()
            );
            if alert.state == "pending" {
                *waited.entry(name).or_default() += 1;
            }
        }
        assert_eq!(world.prometheus.targets_up(), 3, "all nodes are scraped");
        let ended = loads.iter_mut().any(|load| load.has_ended().expect("it is known"));
        assert!(!ended || begun.elapsed() + PATIENCE > run, "fio has ended");
    }
    let mut ios = 0;
    for load in loads {
        let report = load.finish(PATIENCE).expect("no error");
        ios += report.read.ios + report.write.ios;
    }
    let least = 3 * u64::from(RATE) * run.as_secs();
    assert!(ios > least, "only {ios} I/Os were done, of {}", 2 * least);
    println!(
        "{} minutes, {ios} I/Os, {looks} looks; pending for a while: {waited:?}",
        minutes()
    );
}
