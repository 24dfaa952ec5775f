//! Tests of the admin side: each command, each illegal field, with the status that the specification demands. Where fields
//! lie is checked against layouts that are summed up from the sizes of their fields, in `layout`.

mod discovery;
mod events;
mod features;
mod identify;
mod layout;
mod life;
mod logs;

use super::*;
use crate::catalog::{Ana, Gateway, HostAccess, Namespace, Secret};
use crate::failure::Failures;
use amita_types::{NodeId, SnapshotId};
use std::collections::BTreeMap;

const NQN: &str = "nqn.2026-01.io.amita:one";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
const HOST_ID: [u8; 16] = [0x11; 16];

pub(super) fn namespace(nsid: u32) -> Namespace {
    Namespace {
        nsid,
        volume: VolumeId(100 + u64::from(nsid)),
        snapshot: SnapshotId::HEAD,
        name: format!("volume-{nsid}"),
        size_bytes: 1 << 30,
        chunk_bytes: 4 << 20,
        block_bytes: 4096,
        uuid: [0xa0_u8.wrapping_add(nsid as u8); 16],
        nguid: [0xb0_u8.wrapping_add(nsid as u8); 16],
        ana: Ana::Optimized,
    }
}

pub(super) fn access(nqn: &str, tls: bool) -> Arc<HostAccess> {
    Arc::new(HostAccess {
        nqn: nqn.into(),
        dhchap: None,
        dhchap_controller: None,
        tls: tls.then(|| Secret("NVMeTLSkey-1:01:secret:".into())),
    })
}

pub(super) fn subsystem(nqn: &str, gateways: &[u32], namespaces: Vec<Namespace>) -> Subsystem {
    Subsystem {
        nqn: nqn.into(),
        serial: "AMITA0001".into(),
        gateways: gateways.iter().map(|node| NodeId(*node)).collect(),
        any_host: false,
        tls_required: false,
        hosts: vec![access(HOST, false)],
        namespaces: namespaces.into_iter().map(Arc::new).collect(),
        ana_changes: 7,
    }
}

pub(super) fn gateway(node: u32, alive: bool) -> Gateway {
    Gateway {
        node: NodeId(node),
        name: format!("node-{node}"),
        portal: format!("192.0.2.{node}:4420").parse().unwrap(),
        alive,
    }
}

pub(super) fn catalog_of(subsystems: Vec<Subsystem>) -> Catalog {
    Catalog {
        node: NodeId(1),
        revision: 5,
        discovery_nqn: "nqn.2026-01.io.amita:discovery".into(),
        subsystems: subsystems.into_iter().map(Arc::new).collect(),
        gateways: vec![gateway(1, true), gateway(2, true), gateway(3, false)],
        reservations: BTreeMap::new(),
    }
}

/// Namespaces 1, 2 and 5.
pub(super) fn catalog() -> Catalog {
    catalog_of(vec![subsystem(
        NQN,
        &[1, 2],
        vec![namespace(1), namespace(2), namespace(5)],
    )])
}

/// The catalog with the one subsystem changed.
pub(super) fn changed(from: &Catalog, change: impl FnOnce(&mut Subsystem)) -> Arc<Catalog> {
    let mut catalog = from.clone();
    let mut subsystem = Subsystem::clone(&catalog.subsystems[0]);
    change(&mut subsystem);
    catalog.subsystems[0] = Arc::new(subsystem);
    catalog.revision += 1;
    Arc::new(catalog)
}

pub(super) fn session(kind: Kind) -> Session {
    Session {
        kind,
        controller: 65,
        subsystem: match kind {
            Kind::Io => NQN.into(),
            Kind::Discovery => DISCOVERY_NQN.into(),
        },
        host: HOST.into(),
        host_id: HOST_ID,
        proven: false,
        kato_ms: 0,
        portal: "192.0.2.1:4420".parse().unwrap(),
        limits: Limits::default(),
        shared: Arc::default(),
    }
}

pub(super) const NOW: Time = Time(1_000_000_000);
/// EN, and entries of 64 and 16 bytes.
pub(super) const ENABLE: u64 = 0x0046_0001;

/// A controller that is not enabled.
pub(super) fn fresh(kind: Kind) -> Admin {
    Admin::new(session(kind), NOW, &Arc::new(catalog()))
}

/// A controller that is ready.
pub(super) fn ready(kind: Kind) -> Admin {
    ready_with(session(kind), &Arc::new(catalog()))
}

pub(super) fn ready_with(session: Session, catalog: &Arc<Catalog>) -> Admin {
    let mut admin = Admin::new(session, NOW, catalog);
    admin.property_set(NOW, 0x14, 4, ENABLE).unwrap();
    assert!(admin.is_ready());
    admin
}

/// An admin command with these dwords.
pub(super) fn command(opcode: u8, nsid: u32, dwords: &[(usize, u32)]) -> Command {
    let mut bytes = [0; 64];
    bytes[0] = opcode;
    bytes[1] = 0x40; // SGL
    bytes[2..4].copy_from_slice(&0x1234u16.to_le_bytes());
    bytes[4..8].copy_from_slice(&nsid.to_le_bytes());
    for (dword, value) in dwords {
        bytes[4 * dword..4 * dword + 4].copy_from_slice(&value.to_le_bytes());
    }
    Command(bytes)
}

/// What a register says that knows three controllers, none of which has had an I/O queue.
pub(super) fn register(question: Question) -> Answer {
    match question {
        Question::Grant(_) => Answer::Grant(true),
        Question::Failures => Answer::Failures(Failures::default()),
        Question::Controllers => Answer::Controllers(vec![64, 65, 70]),
    }
}

/// Carries a command out as a transport does; what is sent has the size that was told before.
pub(super) fn turn(admin: &mut Admin, command: &Command, data: &[u8]) -> Turn {
    let transfer = match admin.data_bytes(command) {
        Ok(transfer) => transfer,
        Err(status) => {
            admin.note(&Failure::of(0, command, status, None));
            return Turn::Reply(plain(status, 0));
        }
    };
    let turn = match admin.execute(NOW, command, data) {
        Turn::Ask(question) => Turn::Reply(admin.answer(command, register(question))),
        turn => turn,
    };
    if let Turn::Reply(reply) = &turn {
        let sent = match transfer {
            Transfer::ToHost(length) if reply.status == Status::SUCCESS => length as usize,
            _ => 0,
        };
        assert_eq!(reply.data.len(), sent, "{command:?}: {transfer:?}");
        if reply.status != Status::SUCCESS {
            admin.note(&Failure::of(0, command, reply.status, None));
        }
    }
    turn
}

pub(super) fn reply(admin: &mut Admin, command: &Command) -> Reply {
    match turn(admin, command, &[]) {
        Turn::Reply(reply) => reply,
        other => panic!("{command:?} ends in {other:?}"),
    }
}

/// What a command that has to succeed sends.
pub(super) fn data(admin: &mut Admin, command: &Command) -> Vec<u8> {
    let reply = reply(admin, command);
    assert_eq!(reply.status, Status::SUCCESS, "{command:?}");
    reply.data
}

/// The status as Linux names it: the type in bits 10 to 8, the code below; and "do not retry" is set.
pub(super) fn failure(admin: &mut Admin, command: &Command) -> u16 {
    let status = reply(admin, command).status;
    assert!(status.final_, "{command:?} would be tried again: {status:?}");
    u16::from(status.kind) << 8 | u16::from(status.code)
}

pub(super) fn u16_at(data: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(data[at..at + 2].try_into().unwrap())
}

pub(super) fn u32_at(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(data[at..at + 4].try_into().unwrap())
}

pub(super) fn u64_at(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(data[at..at + 8].try_into().unwrap())
}
