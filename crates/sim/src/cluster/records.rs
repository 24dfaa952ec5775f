//! The records of the metadata that a run begins with, and calls and replies in words.

use super::coordinator::Caller;
use super::hosts::VOLUME_NAME;
use super::node::{self, disk, node_id, store_id};
use super::{POOL, POOL_NAME, Setup, VOLUME};
use crate::metadata::Metadata;
use crate::random::Random;
use amita_cluster::{Epoch, Generation, GroupIndex, StoreId, map};
use amita_meta::Call;
use amita_reactor::sim::World;

pub(super) fn describe(call: &Call) -> String {
    let ops: Vec<String> = call
        .then
        .iter()
        .map(|op| match op {
            amita_meta::Op::Put { key, value, .. } => format!("put {key} {}", String::from_utf8_lossy(value)),
            other => format!("{other:?}"),
        })
        .collect();
    format!("if {:?} then {}", call.compares, ops.join("; "))
}

pub(super) fn summary(result: &Result<amita_meta::Reply, amita_meta::Error>) -> String {
    match result {
        Ok(reply) => format!("revision {}, succeeded: {}", reply.revision, reply.succeeded),
        Err(error) => error.to_string(),
    }
}

/// The records of a cluster that an operator has set up.
pub(super) fn write_records(metadata: &mut Metadata<Caller>, world: &World, setup: &Setup, random: &mut Random) {
    let mut put = |key: String, value: Vec<u8>| {
        metadata.set_up(&Call::put(key, value));
    };
    put(
        map::cluster_key(),
        json(&map::Cluster {
            id: node::CLUSTER,
            version: 1,
        }),
    );
    for member in 0..setup.nodes {
        let name = format!("node-{}", member + 1);
        let record = map::Node {
            site: String::new(),
            rack: String::new(),
            maintenance: false,
            id: node_id(member),
            name: name.clone(),
            fabric: node::address(world, member).to_string(),
            nbd: None,
            // Cores of a simulated node have no common address, so all links come in at the first one, and go out
            // from all of them.
            cores: 1,
        };
        put(map::node_key(&name), json(&record));
        let store = map::Store {
            class: String::new(),
            duty: amita_cluster::map::StoreDuty::Normal,
            id: store_id(member),
            node: node_id(member),
            path: disk(member),
            size_bytes: setup.store_bytes,
            weight: 1,
        };
        put(map::store_key(store.id), json(&store));
    }
    let kind = map::PoolKind::Replicated {
        copies: setup.copies,
        min_copies: setup.min_copies,
    };
    let (groups, chunk_bytes) = (setup.groups, setup.chunk_bytes);
    put(
        map::pool_key(POOL_NAME),
        json(&map::Pool {
            failure_domain: amita_cluster::placement::Level::Node,
            class: None,
            id: POOL,
            name: POOL_NAME.to_owned(),
            kind,
            groups,
            chunk_bytes,
        }),
    );
    for index in 0..setup.groups {
        let mut members: Vec<StoreId> = (0..setup.nodes).map(store_id).collect();
        while members.len() > usize::from(setup.copies) {
            members.swap_remove(random.below(members.len() as u64) as usize);
        }
        let index = GroupIndex(index);
        let record = map::Group {
            syncing: Vec::new(),
            index,
            epoch: Epoch(1),
            in_sync: members.clone(),
            members,
        };
        put(map::group_key(POOL, index), json(&record));
    }
    let volume = map::Volume {
        id: VOLUME,
        name: VOLUME_NAME.to_owned(),
        pool: POOL_NAME.to_owned(),
        size_bytes: setup.blocks * u64::from(amita_cluster::BLOCK_BYTES),
        generation: Generation(0),
        owner: None,
    };
    put(map::volume_key(VOLUME_NAME), json(&volume));
}

/// A record's bytes.
pub(super) fn json<T: serde::Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record is plain data")
}
