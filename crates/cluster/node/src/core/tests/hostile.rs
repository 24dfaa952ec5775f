//! Records that somebody wrote who may write, and means harm: no core ends, and who uses a volume goes on.

use super::nvme::{INVALID_NAMESPACE, LBA_RANGE, NvmeHost};
use super::*;
use amita_testkit::Random;
use amita_testkit::spoil::spoil;
use serde_json::{Value, json};

/// A valid record of each kind that a core hears, with its key.
fn valid(random: &mut Random) -> (String, Value) {
    let number = random.within(1, 4);
    let store = StoreId(8 + u128::from(number));
    let node = NodeId(number as u32);
    let path = |path: &str| format!("{}{path}", map::PREFIX);
    match random.below(17) {
        0 => (
            map::node_key(&format!("n{number}")),
            json!({"id": number, "name": format!("n{number}"), "fabric": "127.0.0.1:65000", "cores": 2, "nvme": "127.0.0.1:4420"}),
        ),
        1 => (
            map::store_key(store),
            json!({"id": store, "node": number, "path": "/x", "size_bytes": 1, "weight": 1}),
        ),
        2 => (
            map::pool_key("p"),
            json!({"id": 1, "name": "p", "kind": {"type": "replicated", "copies": 1, "min_copies": 1},
                "groups": 1, "chunk_bytes": 4 << 20}),
        ),
        3..=5 => (
            map::group_key(PoolId(1), GroupIndex(0)),
            json!({"index": 0, "epoch": random.within(1, 9), "members": [StoreId(9), store], "in_sync": [StoreId(9)],
                "syncing": [{"store": store, "since": 1}]}),
        ),
        6 | 7 => (
            map::volume_key("v"),
            json!({"id": VOLUME, "name": "v", "pool": "p", "size_bytes": 1 << 30, "generation": 5, "owner": number}),
        ),
        8 => (map::live_key(node), json!({"session": 1, "pid": 7, "stores": [store]})),
        9 => (
            map::scrub_key(VOLUME),
            json!({"requested": 2, "finished": 1, "requested_at": 1, "report": {"copies": 0, "skipped": 0, "damaged": 0,
                "repaired": 0, "differing": 0}, "unread": [{"store": store, "groups": 1}]}),
        ),
        10 => (map::move_key(VOLUME), json!({"volume": "v", "to": number, "number": 1})),
        11 => (
            map::closing_key(VOLUME),
            json!({"volume": "v", "owner": number, "force": true}),
        ),
        12 => (
            map::export_key(VOLUME),
            json!({"volume": VOLUME, "clients": ["c"], "any_client": true}),
        ),
        13 => (
            map::reservation_key(VOLUME),
            json!({"generation": 1, "persist": true, "registrants": [], "notices": [], "last_notice": 1}),
        ),
        14 => (
            map::subsystem_key("s"),
            json!({"name": "s", "nqn": "nqn.s", "serial": "AB00000001", "any_host": true, "namespaces": [
                {"nsid": 1, "volume": VOLUME, "uuid": "5107c6a0-0000-8000-8000-000000000001", "block_bytes": 4096}]}),
        ),
        15 => (
            map::host_key("nqn.h"),
            json!({"nqn": "nqn.h", "dhchap": "x", "tls": "y"}),
        ),
        _ if number == 1 => (path("recovery"), json!(amita_types::recovery::Recovery::default())),
        _ => (
            path(&format!("health/{number}/0")),
            json!({"beat": 1, "stores": [{"store": store, "slow": true, "for_s": 1000, "why": "x"}]}),
        ),
    }
}

#[test]
fn whatever_is_written_anywhere_no_core_ends() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut rig = Rig::new();
        rig.make_shard(5);
        let mut host = NvmeHost::connect(&mut rig);
        let mut others = Vec::new();
        for revision in 1..200 {
            let (key, mut record) = valid(&mut random);
            others.push(record.clone());
            let changes = random.below(3);
            spoil(&mut random, &mut record, &others, changes);
            let value = (!random.percent(15)).then(|| serde_json::to_vec(&record).unwrap());
            let record = crate::control::Record {
                key,
                value,
                revision,
                created: random.within(1, revision),
            };
            rig.core.control(ToCore::Record(record));
            if random.percent(10) {
                rig.core.control(ToCore::Settled);
            }
            if random.percent(20) {
                rig.write(revision);
            }
            if random.percent(20) && host.is_connected() {
                host.uses(&mut rig, 1);
            }
            rig.pass();
        }
    }
}

/// Pools are what hosts' commands are cut by.
#[test]
fn a_pool_that_cannot_be_ends_no_gateway_and_takes_no_namespace() {
    let mut rig = Rig::new();
    rig.make_shard(5);
    let mut host = NvmeHost::connect(&mut rig);
    let namespace = |nsid: u32, volume: VolumeId, block_bytes: u32| {
        let uuid = "5107c6a0-0000-8000-8000-000000000002";
        json!({"nsid": nsid, "volume": volume, "uuid": uuid, "block_bytes": block_bytes})
    };
    // A volume of a pool that never was one, and volumes with blocks that no host knows.
    rig.put(
        map::volume_key("w"),
        &json!({"id": 8, "name": "w", "pool": "q", "size_bytes": 1 << 30, "generation": 1, "owner": 1}),
    );
    rig.put(
        map::subsystem_key("db"),
        &json!({"name": "db", "nqn": "nqn.2026-01.test:db", "serial": "1", "any_host": true, "namespaces": [
            namespace(1, VOLUME, 4096), namespace(2, VolumeId(8), 4096), namespace(3, VOLUME, 0), namespace(4, VOLUME, 100)]}),
    );
    let pool = |name: &str, chunk_bytes: u32| {
        json!({"id": 1, "name": name, "kind": {"type": "replicated", "copies": 1, "min_copies": 1},
            "groups": 1, "chunk_bytes": chunk_bytes})
    };
    for chunk_bytes in [0, u32::MAX, 1, 512, 3 << 20, 1 << 31] {
        for name in ["p", "q"] {
            rig.put(map::pool_key(name), &pool(name, chunk_bytes));
        }
        // Sound, and another's.
        rig.put(map::pool_key("q"), &pool("p", 1 << 20));
        rig.pass();
        for nsid in 1..=4 {
            host.uses(&mut rig, nsid);
        }
        assert!(host.is_connected());
        assert_eq!(host.reads_too_far(&mut rig, 1), LBA_RANGE, "as before: {chunk_bytes}");
        for nsid in 2..=4 {
            assert_eq!(
                host.reads_too_far(&mut rig, nsid),
                INVALID_NAMESPACE,
                "{nsid}: {chunk_bytes}"
            );
        }
    }
    let is_told = |told: &crate::control::FromCore| match told {
        crate::control::FromCore::Warning(text) => text.contains("/amita/pools/p") && text.contains("chunks of"),
        _ => false,
    };
    assert!(rig.core.cx.control.outbox.iter().any(is_told));
}
