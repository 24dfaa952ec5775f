//! What the tests of all modules start from.

use crate::command::{Attribute, Lengths, Lun, Task};
use crate::nexus::{InitiatorPort, Nexus};
use crate::plan::{Answer, Asking, Plan, asked, gathered, plan};
use crate::sense::{Sense, Status};
use crate::token::TokenKeys;
use crate::unit::{Alua, Catalog, Group, Target, Unit};
use amita_types::{NodeId, SnapshotId, VolumeId};
use std::sync::Arc;

pub const CHUNK_BYTES: u32 = 4 << 20;
pub const SIZE_BYTES: u64 = 64 << 20;
pub const UUID: [u8; 16] = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\x10\x32\x54\x76\x98\xba\xdc\xfe";

/// A logical unit of 64 MiB in blocks of 512 bytes; the gateway with tag 1 owns it.
pub fn unit(number: u16) -> Unit {
    let mut uuid = UUID;
    uuid[15] ^= number as u8;
    Unit {
        number,
        volume: VolumeId(u64::from(number) + 1),
        snapshot: SnapshotId::HEAD,
        name: format!("volume-{number}"),
        size_bytes: SIZE_BYTES,
        chunk_bytes: CHUNK_BYTES,
        block_bytes: 512,
        uuid,
        access: vec![(1, Alua::Optimized), (2, Alua::NonOptimized)],
        preferred: Some(1),
        space: None,
    }
}

pub fn target(units: Vec<Unit>) -> Target {
    Target {
        name: "iqn.2026-01.test:target".to_owned(),
        groups: vec![1, 2],
        units: units.into_iter().map(Arc::new).collect(),
        initiators: Vec::new(),
        any_initiator: true,
        explicit_access: true,
    }
}

pub fn catalog() -> Catalog {
    let group = |tag| Group {
        tag,
        node: NodeId(u32::from(tag)),
        name: format!("node-{tag}"),
        alive: true,
    };
    Catalog {
        node: NodeId(1),
        revision: 1,
        tokens: TokenKeys::new(&[[7; 32]]).map(Arc::new),
        extended_reservations: true,
        groups: vec![group(1), group(2)],
        ..Catalog::default()
    }
}

pub fn port(session: u8) -> InitiatorPort {
    InitiatorPort {
        name: "iqn.2026-01.test:host".into(),
        isid: [0x40, 0, 0, 0, 0, session],
    }
}

/// A host, logged in.
pub struct Host {
    pub catalog: Catalog,
    pub target: Target,
    pub nexus: Nexus,
}

impl Host {
    /// Of such logical units, of all of which it has heard what there is to hear.
    pub fn new(units: Vec<Unit>) -> Host {
        let mut host = Host {
            catalog: catalog(),
            target: target(units),
            nexus: Nexus::new(port(1), 1),
        };
        host.settle();
        host
    }

    /// One logical unit, number 0.
    pub fn one() -> Host {
        Host::new(vec![unit(0)])
    }

    /// Takes all that is pending.
    pub fn settle(&mut self) {
        self.nexus.observe(&self.catalog, &self.target);
        for unit in &self.target.units {
            while self.nexus.take_attention(unit.number).is_some() {}
        }
    }

    pub fn change(&mut self, change: impl FnOnce(&mut Unit)) {
        let unit = Arc::make_mut(&mut self.target.units[0]);
        change(unit);
        self.catalog.revision += 1;
    }

    /// Sends a command whose transport expects more than enough.
    pub fn send(&mut self, lun: u16, cdb: &[u8]) -> Plan {
        self.send_expecting(lun, cdb, u64::MAX)
    }

    pub fn send_expecting(&mut self, lun: u16, cdb: &[u8], out: u64) -> Plan {
        let task = Task {
            lun: Lun::of(lun),
            cdb,
            attribute: Attribute::Simple,
            expected: Lengths { out, into: u64::MAX },
        };
        plan(&task, &self.catalog, &self.target, &mut self.nexus)
    }

    /// Sends a command with its parameter list.
    pub fn send_with(&mut self, lun: u16, cdb: &[u8], list: &[u8]) -> Plan {
        match self.send_expecting(lun, cdb, list.len() as u64) {
            Plan::Gather { bytes, then } => {
                assert_eq!(bytes as usize, list.len(), "what is taken of the host");
                gathered(&then, list, &self.catalog, &self.target, &mut self.nexus)
            }
            other => other,
        }
    }

    /// The owner lets a command pass that it was asked about.
    pub fn pass(&mut self, asking: &Asking) -> Plan {
        asked(asking, &self.catalog, &self.target, &mut self.nexus)
    }

    /// Sends a command that is answered at once and well.
    pub fn data(&mut self, lun: u16, cdb: &[u8]) -> Vec<u8> {
        let answer = answer(self.send(lun, cdb));
        assert_eq!((answer.status, answer.sense), (Status::Good, None), "{cdb:02x?}");
        answer.data
    }

    /// Sends a command that is refused.
    pub fn sense(&mut self, lun: u16, cdb: &[u8]) -> Sense {
        sense(self.send(lun, cdb))
    }
}

pub fn answer(plan: Plan) -> Answer {
    match plan {
        Plan::Answer(answer) => answer,
        other => panic!("no answer: {other:?}"),
    }
}

pub fn sense(plan: Plan) -> Sense {
    let answer = answer(plan);
    assert_eq!(answer.status, Status::CheckCondition);
    answer.sense.expect("sense data")
}

/// A block of 10 bytes with a logical block address and a length.
pub fn ten(opcode: u8, flags: u8, lba: u32, count: u16) -> [u8; 10] {
    let mut cdb = [0; 10];
    cdb[0] = opcode;
    cdb[1] = flags;
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// The same of 16 bytes.
pub fn sixteen(opcode: u8, flags: u8, lba: u64, count: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}
