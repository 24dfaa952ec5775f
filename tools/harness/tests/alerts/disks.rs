//! Disks that die, and disks that are slow: one of them, and all of them.

use crate::world::{Plan, VOLUME, World};
use amita_harness::faulty_disk::{DiskFaults, FaultyDisk};
use amita_harness::fio::{self, Job, Running};
use amita_metadata::{Call, Op};
use amita_types::StoreId;
use amita_types::condition::{DiskLevel, SickDisk, sick_disk_key};
use std::time::Duration;

/// A cluster whose stores lie on disks that fail on command. The disks go last.
pub fn on_faulty_disks(serve: &'static [&'static str]) -> (World, Vec<FaultyDisk>) {
    let mut disks = Vec::new();
    let plan = Plan {
        serve,
        ..Plan::default()
    };
    let world = World::with(plan, |cluster| {
        for node in 0..cluster.nodes().len() {
            let beneath = cluster.nodes()[node].stores[0].clone();
            let disk = FaultyDisk::open(&beneath, cluster.folder()).expect("a disk that fails on command");
            cluster.set_stores(node, vec![disk.path()]);
            disks.push(disk);
        }
    });
    (world, disks)
}

/// Reads and writes of 4 KiB, so many a second of each.
pub fn load(world: &World, name: &str, node: usize, volume: &str, rate: u32, run: Duration) -> Running {
    let job = Job {
        name: name.to_owned(),
        target: fio::nbd(&world.cluster.uri(node, volume)),
        pattern: "randrw",
        block_bytes: 4096,
        depth: 16,
        offset_bytes: 0,
        size_bytes: 32 << 20,
        run: Some(run),
        more: vec![format!("--rate_iops={rate},{rate}")],
        also: Vec::new(),
    };
    job.start(world.cluster.folder()).expect("fio starts")
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_disk_dies() {
    let (mut world, disks) = on_faulty_disks(&[]);
    let mut client = world.open(0);
    client.write(0, &[1; 4096]).expect("written");
    let instance = world.instance(2);
    world.fault("a disk answers every request with EIO");
    disks[2].set(DiskFaults::lost());
    client.write(0, &[2; 4096]).expect("written without it");
    client.close();
    let alerts = [
        ("AmitaStoreNotServing", instance.as_str()),
        ("AmitaStoreAway", "1 stores"),
    ];
    world.all_fire(&alerts);
    world.mended();
    disks[2].set(DiskFaults::default());
    world.cluster.stop_node(2);
    world.start_node(2);
    world.all_end(&alerts);
    world.is_quiet();
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_disk_is_slow_beside_its_siblings() {
    let (mut world, disks) = on_faulty_disks(&[]);
    let _load = load(&world, "siblings", 0, VOLUME, 100, Duration::from_secs(600));
    std::thread::sleep(Duration::from_secs(30));
    world.is_quiet();
    world.fault("each request of a disk takes 100 ms longer");
    disks[2].set(DiskFaults {
        delay: Duration::from_millis(100),
        ..DiskFaults::default()
    });
    let alerts = [("AmitaStoreSlow", "1 stores"), ("AmitaStoreLatencyHigh", "store")];
    world.all_fire(&alerts);
    world.mended();
    disks[2].set(DiskFaults::default());
    world.all_end(&alerts);
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn all_disks_are_slow() {
    let (mut world, disks) = on_faulty_disks(&["--slow-ms", "20"]);
    let _load = load(&world, "slow", 0, VOLUME, 100, Duration::from_secs(900));
    // The volume's own past, with which it is compared.
    std::thread::sleep(Duration::from_secs(130));
    world.is_quiet();
    world.fault("each request of all disks takes 60 ms longer");
    for disk in &disks {
        disk.set(DiskFaults {
            delay: Duration::from_millis(60),
            ..DiskFaults::default()
        });
    }
    let instance = world.instance(0);
    let alerts = [
        ("AmitaSlowBursts", instance.as_str()),
        ("AmitaVolumeLatencyHigh", VOLUME),
    ];
    world.all_fire(&alerts);
    world.mended();
    for disk in &disks {
        disk.set(DiskFaults::default());
    }
    world.all_end(&alerts);
}

/// No machine has a disk for a test that predicts its failure, so what the coordinator notes of one is written: what it does not find itself
/// stays for a day.
#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn disks_are_not_well() {
    let mut world = World::of(Plan::default());
    let client = world.cluster.metadata_client().expect("the metadata");
    let stores = world.json(&["disk", "list"]);
    let id = |number: usize| -> Option<StoreId> { stores[number]["id"].as_str().and_then(|id| id.parse().ok()) };
    let sick = [
        (id(0).expect("a store"), "nvme9n1", DiskLevel::Avoid),
        (id(1).expect("a store"), "nvme8n1", DiskLevel::Warn),
    ];
    world.is_quiet();
    world.fault("it is noted of one disk that it predicts its failure, and of another one that it is worn");
    for (store, disk, level) in sick {
        let noted = SickDisk {
            store,
            disk: disk.to_owned(),
            level,
            codes: vec!["disk-worn".to_owned()],
            evidence: "much of its life is used".to_owned(),
            since: 1,
            told_at: 1,
            decision: String::new(),
            failing_since: None,
            drained_at: None,
            better_since: None,
        };
        let noted = serde_json::to_vec(&noted).expect("JSON");
        client.txn(&Call::put(sick_disk_key(store), noted)).expect("written");
    }
    let alerts = [("AmitaDiskFailing", "nvme9n1"), ("AmitaDiskAging", "nvme8n1")];
    world.all_fire(&alerts);
    world.mended();
    for (store, _, _) in sick {
        let key = sick_disk_key(store);
        let gone = Call {
            compares: Vec::new(),
            then: vec![Op::Delete { key }],
            otherwise: Vec::new(),
        };
        client.txn(&gone).expect("deleted");
    }
    world.all_end(&alerts);
}
