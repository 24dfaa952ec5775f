//! iSCSI for the server of volumes in memory, for tests and examples: the register of sessions is shared by all connections, which
//! may be on different threads.

use crate::{Call, Catalog, Config, Hub, IscsiFront, Port, Reply, TargetDetail};
use amita_frontend::memory::{Accept, Accepted, MemoryService, Register, Volumes};
use amita_frontend::{ConnectionId, Event, FrontId, RegisterMessage, reservation};
use amita_reactor::{Outbox, Time};
use amita_scsi::unit::{Alua, Group, Target, Unit};
use amita_types::{NodeId, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The target of [`disks`].
pub const TARGET: &str = "iqn.2026-01.io.amita:memory";
/// The portal group of its one gateway.
pub const TAG: u16 = 1;
/// Its logical units: the bytes of a block, and of what snapshot they are.
const UNITS: [(u32, SnapshotId); 3] = [(512, SnapshotId::HEAD), (4096, SnapshotId::HEAD), (512, SnapshotId(1))];

/// A gateway with one target, in which any initiator may log in: logical unit 0 has blocks of 512 bytes, 1 of 4 KiB, 2 is a snapshot, which is
/// read only; each of that size. SendTargets tells these portals.
#[must_use]
pub fn disks(volumes: &Volumes, size_bytes: u64, portals: Vec<SocketAddr>) -> Catalog {
    const CHUNK_BYTES: u32 = 4 << 20;
    let node = NodeId(1);
    let unit = |(number, (block_bytes, snapshot)): (u16, (u32, SnapshotId))| {
        let name = format!("memory{number}");
        let volume = volumes.add(&name, size_bytes, CHUNK_BYTES, false);
        Arc::new(Unit {
            number,
            volume,
            snapshot,
            name,
            size_bytes,
            chunk_bytes: CHUNK_BYTES,
            block_bytes,
            uuid: [number as u8 + 1; 16],
            access: vec![(TAG, Alua::Optimized)],
            preferred: None,
            space: None,
        })
    };
    let target = Target {
        name: TARGET.into(),
        groups: vec![TAG],
        units: (0..).zip(UNITS).map(unit).collect(),
        initiators: Vec::new(),
        any_initiator: true,
        explicit_access: false,
    };
    // As gateways have it, to whom a target's name in the cluster is its alias.
    let detail = TargetDetail {
        alias: "memory".into(),
        ..TargetDetail::default()
    };
    let group = Group {
        tag: TAG,
        node,
        name: "memory".into(),
        alive: true,
    };
    Catalog {
        scsi: Arc::new(amita_scsi::Catalog {
            node,
            revision: 1,
            groups: vec![group],
            targets: vec![Arc::new(target)],
            extended_reservations: true,
            ..amita_scsi::Catalog::default()
        }),
        portals: BTreeMap::from([(TAG, portals)]),
        details: BTreeMap::from([(TARGET.into(), detail)]),
        ..Catalog::default()
    }
}

#[derive(Debug, Default)]
struct Inner {
    hub: Hub,
    catalog: Arc<Catalog>,
    /// What was said and not taken.
    said: BTreeMap<FrontId, Vec<(u64, Reply)>>,
}

/// A register with the settings of the moment.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Inner>>);

impl Board {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The service's fronts ask this register.
    pub fn serve(&self, service: &mut MemoryService) {
        service.register = Some(Arc::new(self.clone()));
    }

    /// Takes new settings.
    pub fn set_catalog(&self, catalog: Arc<Catalog>) {
        self.lock().catalog = catalog;
    }

    /// The settings.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.lock().catalog.clone()
    }

    /// How many sessions there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.lock().hub.sessions()
    }
}

impl Register for Board {
    fn call(&self, front: FrontId, tag: u64, call: RegisterMessage) {
        let call = *call.downcast::<Call>().expect("a call of iSCSI");
        let inner = &mut *self.lock();
        let leaves = matches!(call, Call::Leave);
        inner.hub.call(ConnectionId { core: 0, front }, tag, call);
        while let Some((connection, tag, word)) = inner.hub.next_reply() {
            inner.said.entry(connection.front).or_default().push((tag, word));
        }
        if leaves {
            // Nobody is there any more to hear it.
            inner.said.remove(&front);
        }
    }

    fn take(&self, front: FrontId) -> Vec<(u64, RegisterMessage)> {
        let said = self.lock().said.remove(&front).unwrap_or_default();
        said.into_iter()
            .map(|(tag, word)| (tag, Box::new(word) as RegisterMessage))
            .collect()
    }
}

/// iSCSI with these settings; the targets are those of the board.
#[derive(Clone, Debug, Default)]
pub struct Iscsi {
    /// The settings.
    pub config: Config,
    /// The sessions and the targets.
    pub board: Board,
}

impl Accept for Iscsi {
    fn accept(
        &self,
        id: FrontId,
        now: Time,
        addresses: Option<(SocketAddr, SocketAddr)>,
        service: &mut MemoryService,
        _: &mut Outbox,
    ) -> io::Result<Accepted> {
        let (_, peer) = addresses.ok_or(io::ErrorKind::Unsupported)?;
        let board = self.board.clone();
        let port = Rc::new(Port::new(self.config.clone()));
        port.set_catalog(board.catalog());
        board.serve(service);
        let front = IscsiFront::accept(port.clone(), id, now, peer);
        let (mut settings, mut reserved) = (board.catalog(), Vec::new());
        Ok(Accepted {
            front: Box::new(front),
            look: Box::new(move |service| {
                service.collect(id);
                let (catalog, found) = (board.catalog(), service.reservations());
                if Arc::ptr_eq(&catalog, &settings) && is_same(&found, &reserved) {
                    return None;
                }
                (settings, reserved) = (catalog, found);
                port.set_catalog(with_reservations(&settings, &reserved, port.catalog().scsi.revision));
                Some(Event::Settings)
            }),
        })
    }
}

/// How volumes are reserved.
type Reserved = [(VolumeId, Arc<reservation::State>)];

fn is_same(now: &Reserved, before: &Reserved) -> bool {
    let mut pairs = now.iter().zip(before);
    now.len() == before.len() && pairs.all(|(now, before)| now.0 == before.0 && Arc::ptr_eq(&now.1, &before.1))
}

/// The settings with how volumes are reserved now, behind those of that revision.
fn with_reservations(settings: &Catalog, reserved: &Reserved, revision: u64) -> Arc<Catalog> {
    let mut scsi = amita_scsi::Catalog::clone(&settings.scsi);
    scsi.reservations = reserved.iter().cloned().collect();
    // Settings that are not known yet stay so.
    scsi.revision = scsi.revision.min(1) * (revision + 1);
    Arc::new(Catalog {
        scsi: Arc::new(scsi),
        ..settings.clone()
    })
}
