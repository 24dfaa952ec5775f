//! The records of the metadata that a run begins with, and calls and replies in words.

use super::coordinator::Caller;
use super::hosts::{NQN, initiator};
use super::node::{self, disk, node_id, store_id};
use super::{Protocol, Setup, pool_name, pool_of, volume_id, volume_name};
use crate::metadata::Metadata;
use amita_control::admin::chap_field;
use amita_metadata::Call;
use amita_reactor::sim::World;
use amita_types::placement::{Candidate, Level, plan_pool};
use amita_types::recovery::{Recovery, recovery_key};
use amita_types::{Epoch, GroupIndex, PoolId, map};

pub(super) fn describe(call: &Call) -> String {
    let ops: Vec<String> = call
        .then
        .iter()
        .map(|op| match op {
            amita_metadata::Op::Put { key, value, .. } => format!("put {key} {}", String::from_utf8_lossy(value)),
            other => format!("{other:?}"),
        })
        .collect();
    format!("if {:?} then {}", call.compares, ops.join("; "))
}

pub(super) fn summary(result: &Result<amita_metadata::Reply, amita_metadata::Error>) -> String {
    match result {
        Ok(reply) => format!("revision {}, succeeded: {}", reply.revision, reply.succeeded),
        Err(error) => error.to_string(),
    }
}

/// The records of a cluster that an operator has set up.
pub(super) fn write_records(metadata: &mut Metadata<Caller>, world: &World, setup: &Setup) {
    let mut put = |key: String, value: Vec<u8>| {
        metadata.set_up(&Call::put(key, value));
    };
    put(
        map::cluster_key(),
        json(&map::Cluster {
            id: node::CLUSTER,
            version: map::METADATA_VERSION,
        }),
    );
    let mut candidates = Vec::new();
    for member in 0..setup.nodes {
        let name = node::node_name(member);
        let record = map::Node {
            metrics: None,
            api: None,
            fabric2: setup
                .has_second()
                .then(|| node::second_address(world, member).to_string()),
            site: String::new(),
            rack: String::new(),
            maintenance: false,
            client: false,
            gateway: false,
            unprotected: false,
            id: node_id(member),
            name: name.clone(),
            fabric: node::address(world, member).to_string(),
            nbd: None,
            nbd_socket: None,
            nvme: setup.fronted.map(|_| node::nvme_address(world, member).to_string()),
            // Cores of a simulated node have no common address, so all links come in at the first one, and go out
            // from all of them.
            cores: 1,
        };
        put(map::node_key(&name), json(&record));
        for place in 0..setup.stores {
            let store = map::Store {
                class: String::new(),
                duty: map::StoreDuty::Normal,
                paused: None,
                id: store_id(member, place),
                node: node_id(member),
                path: disk(member, place),
                size_bytes: setup.store_bytes,
                weight: 1,
            };
            candidates.push(Candidate::new(&store, Some(&record)));
            put(map::store_key(store.id), json(&store));
        }
    }
    let kind = map::PoolKind::Replicated {
        copies: setup.copies,
        min_copies: setup.min_copies,
    };
    let (groups, chunk_bytes) = (setup.groups, setup.chunk_bytes);
    for pool in (1..=setup.pools).map(PoolId) {
        let record = map::Pool {
            failure_domain: Level::Node,
            class: None,
            id: pool,
            name: pool_name(pool),
            kind,
            groups,
            chunk_bytes,
        };
        put(map::pool_key(&record.name), json(&record));
        let plan = plan_pool(pool, groups, &candidates, usize::from(setup.copies), Level::Node);
        let plan = plan.expect("a run has more nodes than copies");
        for (index, members) in plan.into_iter().enumerate() {
            let index = GroupIndex(index as u32);
            let record = map::Group {
                syncing: Vec::new(),
                index,
                epoch: Epoch(1),
                in_sync: members.clone(),
                members,
            };
            put(map::group_key(pool, index), json(&record));
        }
    }
    let scratch = setup.scratch();
    put(
        map::counter_key("volumes"),
        json(&(setup.volumes + u64::from(scratch.is_some()))),
    );
    if let Some(measured) = setup.measured {
        let slow_stores = setup.coordinator.unwrap_or_default().slow_stores;
        let settings = Recovery {
            slow_stores,
            sick_networks: measured.settings,
            ..Recovery::default()
        };
        put(recovery_key(), json(&settings));
    }
    if setup.fronted.is_some() {
        let namespaces = (0..setup.volumes).map(|number| map::Namespace {
            nsid: number as u32 + 1,
            volume: volume_id(number),
            uuid: map::Namespace::uuid_of(node::CLUSTER, volume_id(number)),
            block_bytes: crate::stamp::SECTOR_BYTES as u32,
            snapshot: None,
        });
        let subsystem = map::Subsystem {
            name: "simulated".into(),
            nqn: NQN.into(),
            serial: "1".into(),
            gateways: Vec::new(),
            any_host: true,
            tls_required: false,
            hosts: Vec::new(),
            namespaces: namespaces.collect(),
        };
        put(map::subsystem_key(&subsystem.name), json(&subsystem));
    }
    if setup.fronted.is_some_and(|fronted| fronted.protocol == Protocol::Iscsi) {
        put_target(&mut put, setup);
    }
    let blocks = setup.chores.first_blocks.unwrap_or(setup.blocks);
    let volumes = (0..setup.volumes).map(|number| (number, blocks));
    let scratch = scratch.map(|number| (number, initiator::scratch_blocks(setup.profile.clients)));
    for (number, blocks) in volumes.chain(scratch) {
        let volume = map::Volume {
            keys: setup.sealed.as_ref().map(|sealed| sealed.ring(volume_id(number))),
            ..map::Volume::new(
                volume_id(number),
                &volume_name(number),
                &pool_name(pool_of(setup, number)),
                blocks * u64::from(amita_types::BLOCK_BYTES),
            )
        };
        put(map::volume_key(&volume.name), json(&volume));
    }
}

/// What initiators log in to, who they are, and where.
fn put_target(put: &mut impl FnMut(String, Vec<u8>), setup: &Setup) {
    let luns = (0..setup.volumes).chain(setup.scratch()).map(|number| map::IscsiLun {
        number: number as u16,
        volume: volume_id(number),
        uuid: map::Namespace::uuid_of(node::CLUSTER, volume_id(number)),
        block_bytes: crate::stamp::SECTOR_BYTES as u32,
        snapshot: None,
        shared: true,
    });
    let names = (0..setup.profile.clients).map(initiator::name);
    let access = names
        .clone()
        .map(|initiator| map::IscsiAccess { initiator, luns: None });
    let proves = setup.fronted.is_some_and(|fronted| fronted.iscsi.proves);
    let target = map::IscsiTarget {
        name: "simulated".into(),
        iqn: initiator::IQN.into(),
        gateways: Vec::new(),
        any_initiator: false,
        chap_required: proves,
        space_warning_percent: None,
        initiators_move: false,
        initiators: access.collect(),
        luns: luns.collect(),
    };
    put(map::iscsi_target_key(&target.name), json(&target));
    for name in names {
        let key = node::seal_key();
        let sealed = |field, secret: &str| key.seal(&name, field, secret).expect("a secret is short");
        let seal = |field, secret: &str| proves.then(|| sealed(field, secret));
        let record = map::IscsiInitiator {
            chap: seal(chap_field::INITIATOR, initiator::SECRETS.0),
            chap_target: seal(chap_field::TARGET, initiator::SECRETS.1),
            name: name.clone(),
            chap_user: None,
            chap_target_user: None,
        };
        put(map::iscsi_initiator_key(&name), json(&record));
    }
    for member in 0..setup.nodes {
        // Each core has an address of its own here; hosts log in to two of a node at most.
        let cores = 0..setup.cores[member].min(2);
        let gateway = map::IscsiGateway {
            node: node_id(member),
            name: node::node_name(member),
            tag: member as u16 + 1,
            portals: cores.map(|core| node::portal(member, core).to_string()).collect(),
            // Programs are started anew there, and all speak it.
            session: None,
        };
        put(map::iscsi_gateway_key(&gateway.name), json(&gateway));
    }
}

/// A record's bytes.
pub(super) fn json<T: serde::Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record is plain data")
}
