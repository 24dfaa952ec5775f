//! Rates of known counts.

use super::*;
use std::time::Duration;

fn latency(times_us: &[u64]) -> Latency {
    let mut histogram = Histogram::default();
    for &us in times_us {
        histogram.record(Duration::from_micros(us));
    }
    (&histogram).into()
}

fn page(now_s: u64, writes_us: &[u64], passes: u64) -> NodePage {
    let write = OpPage {
        op: "write".to_owned(),
        bytes: 4096 * writes_us.len() as u64,
        errors: 0,
        latency: latency(writes_us),
    };
    let store = StorePage {
        id: "s1".to_owned(),
        path: "/dev/s1".to_owned(),
        serves: true,
        capacity_bytes: 1000,
        free_bytes: 750,
        written_bytes: 8192 * writes_us.len() as u64,
        reads: Latency::default(),
        writes: latency(writes_us),
    };
    let core = CorePage {
        core: 0,
        passes,
        enters: 2 * passes,
        file_calls: passes,
        yields: passes,
        blocks: passes,
        blocked_ns: 0,
        cpu_ns: now_s * 250_000_000,
        ios: writes_us.len() as u64,
        requests: writes_us.len() as u64,
    };
    NodePage {
        node: 1,
        name: "n1".to_owned(),
        cluster: "c".to_owned(),
        now_ns: now_s * 1_000_000_000,
        core_count: 1,
        volumes: vec![amita_node::observe::VolumePage {
            name: "disk0".to_owned(),
            in_flight: 3,
            syncing: 0,
            stuck_groups: 0,
            ops: vec![write],
        }],
        stores: vec![store],
        cores: vec![core],
    }
}

fn asked(answer: std::result::Result<NodePage, String>) -> Vec<Asked<NodePage>> {
    let node = "n1".to_owned();
    vec![Asked { node, answer }]
}

#[test]
fn only_what_came_between_the_looks_counts() {
    let before = page(10, &[9000, 9000], 100);
    let now = page(12, &[9000, 9000, 100, 100, 100, 100], 108);
    let top = Top::between(&asked(Ok(before)), &asked(Ok(now)), &BTreeMap::new());
    assert_eq!((top.nodes, top.interval_s, top.silent.len()), (1, 2.0, 0));
    let volume = &top.volumes[0];
    assert_eq!((volume.iops, volume.bytes_per_s, volume.in_flight), (2.0, 8192.0, 3));
    assert!((volume.p99_us - 100.0).abs() < 7.0, "{}", volume.p99_us);
    assert!((volume.mean_us - 100.0).abs() < 0.1, "{}", volume.mean_us);
    let store = &top.stores[0];
    assert_eq!(
        (store.writes_per_s, store.reads_per_s, store.used_percent),
        (2.0, 0.0, 25.0)
    );
    assert_eq!(store.written_bytes_per_s, 16384.0);
    let core = &top.cores[0];
    assert_eq!(
        (core.passes_per_s, core.calls_per_s, core.cpu_percent),
        (4.0, 16.0, 25.0)
    );
    assert_eq!(core.calls_per_op, Some(4.0));
}

#[test]
fn a_node_that_does_not_answer_is_named() {
    let one = page(10, &[], 1);
    let top = Top::between(
        &asked(Ok(one.clone())),
        &asked(Err("it is away".to_owned())),
        &BTreeMap::new(),
    );
    assert_eq!((top.nodes, top.silent[0].why.as_str()), (0, "it is away"));
    let top = Top::between(&asked(Err("it was away".to_owned())), &asked(Ok(one)), &BTreeMap::new());
    assert_eq!(top.silent[0].node, "n1");
}

/// It was started again between the looks: what it has done since counts.
#[test]
fn a_node_that_began_anew_counts_from_its_start() {
    let before = page(10, &[100; 50], 100);
    let now = page(12, &[100; 4], 8);
    let top = Top::between(&asked(Ok(before)), &asked(Ok(now)), &BTreeMap::new());
    assert_eq!((top.volumes[0].iops, top.cores[0].passes_per_s), (2.0, 4.0));
}
