//! An NVMe host at a core, by hand: bytes in, bytes out.

use super::*;
use crate::catalog::Cataloguer;
use amita_nvme::NvmeFront;
use serde_json::json;

pub(super) const INVALID_NAMESPACE: (u8, u8) = (0, 0x0b);
pub(super) const LBA_RANGE: (u8, u8) = (0, 0x80);

const NQN: &str = "nqn.2026-01.test:db";
const HOST: &str = "nqn.2026-01.test:host";
const BLOCK: u32 = 4096;
const CAPSULE: u8 = 0x04;
const RESPONSE: u8 = 0x05;
const WRITE_ZEROES: u8 = 0x08;
const READ: u8 = 0x02;
const DEALLOCATE: u32 = 1 << 25;

/// What a connection has for its host, and the host for it.
#[derive(Default)]
struct Wire {
    input: Vec<u8>,
    output: Vec<u8>,
    closed: bool,
}

/// A connection whose socket is in memory.
struct Wired {
    front: NvmeFront,
    wire: Rc<RefCell<Wire>>,
    inbox: Inbox,
    outbox: Outbox,
}

impl Wired {
    fn went(&mut self, flow: Flow) -> Flow {
        let mut wire = self.wire.borrow_mut();
        while let Some(segments) = self.outbox.next_send() {
            segments
                .iter()
                .for_each(|segment| wire.output.extend_from_slice(segment));
            self.outbox.sent(segments);
        }
        wire.closed |= matches!(flow, Flow::Close { .. });
        flow
    }

    fn turn(&mut self, now: Time, pool: &Pool, service: &mut dyn StorageService) -> Flow {
        let input = std::mem::take(&mut self.wire.borrow_mut().input);
        let mut rest = &input[..];
        while !rest.is_empty() && self.front.wants_input() {
            let mut buffer = self
                .inbox
                .start_receive(pool, self.front.receive_bytes())
                .expect("memory");
            let count = buffer.len().min(rest.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            self.inbox.received(buffer, count);
            rest = &rest[count..];
            let (inbox, outbox) = (&mut self.inbox, &mut self.outbox);
            if let close @ Flow::Close { .. } = self.front.received(now, inbox, outbox, pool, service) {
                return self.went(close);
            }
        }
        let (inbox, outbox) = (&mut self.inbox, &mut self.outbox);
        let flow = self.front.end_pass(now, inbox, outbox, pool, service);
        self.went(flow)
    }
}

impl Front for Wired {
    fn received(&mut self, now: Time, _: &mut Inbox, _: &mut Outbox, pool: &Pool, by: &mut dyn StorageService) -> Flow {
        self.turn(now, pool, by)
    }

    fn event(&mut self, now: Time, event: Event, _: &mut Outbox, pool: &Pool, by: &mut dyn StorageService) -> Flow {
        let flow = self.front.event(now, event, &mut self.outbox, pool, by);
        self.went(flow)
    }

    fn tick(&mut self, now: Time, _: &mut Outbox, pool: &Pool, by: &mut dyn StorageService) -> Flow {
        let flow = self.front.tick(now, &mut self.outbox, pool, by);
        self.went(flow)
    }

    fn deadline(&self) -> Option<Time> {
        self.front.deadline()
    }

    fn wants_input(&self) -> bool {
        false
    }

    fn receive_bytes(&self) -> usize {
        0
    }

    fn end_pass(&mut self, now: Time, _: &mut Inbox, _: &mut Outbox, pool: &Pool, by: &mut dyn StorageService) -> Flow {
        self.turn(now, pool, by)
    }

    fn closed(&mut self, by: &mut dyn StorageService) {
        self.front.closed(by);
    }
}

/// A host's I/O queue, and the admin queue that it belongs to.
pub(super) struct NvmeHost {
    admin: Connection,
    io: Connection,
    next: u16,
}

struct Connection {
    front: FrontId,
    wire: Rc<RefCell<Wire>>,
}

fn pdu(kind: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
    let hlen = 8 + header.len();
    let pdo = if data.is_empty() { 0 } else { hlen as u8 };
    let mut bytes = vec![kind, 0, hlen as u8, pdo];
    bytes.extend(((hlen + data.len()) as u32).to_le_bytes());
    bytes.extend(header);
    bytes.extend(data);
    bytes
}

fn command(opcode: u8, id: u16, nsid: u32, dwords: [u32; 3]) -> [u8; 64] {
    let mut bytes = [0; 64];
    (bytes[0], bytes[1]) = (opcode, 1 << 6);
    bytes[2..4].copy_from_slice(&id.to_le_bytes());
    bytes[4..8].copy_from_slice(&nsid.to_le_bytes());
    // Data, where there is some, goes by PDUs of its own.
    bytes[39] = 0x5a;
    for (at, dword) in dwords.iter().enumerate() {
        bytes[40 + 4 * at..44 + 4 * at].copy_from_slice(&dword.to_le_bytes());
    }
    bytes
}

impl Connection {
    fn open(rig: &mut Rig) -> Connection {
        let wire = Rc::<RefCell<Wire>>::default();
        let (port, now) = (rig.core.nvme.port().clone(), rig.driver.now());
        let front = rig.core.fronts.attach(|id| {
            let mut outbox = Outbox::new();
            let here = "127.0.0.1:4420".parse().unwrap();
            let front = NvmeFront::accept(port, id, 0, now, here, "127.0.0.1:9".parse().unwrap(), &mut outbox);
            let (wire, inbox) = (wire.clone(), Inbox::new());
            Box::new(Wired {
                front,
                wire,
                inbox,
                outbox,
            })
        });
        let mut connection = Connection { front, wire };
        assert!(!connection.exchange(rig, &pdu(0, &[0; 120], &[])).is_empty());
        connection
    }

    fn send(&mut self, rig: &mut Rig, bytes: &[u8]) {
        self.wire.borrow_mut().input.extend(bytes);
        let (now, pool) = (rig.driver.now(), rig.driver.pool().clone());
        rig.core.fronts.with(self.front, |front, service| {
            front.received(now, &mut Inbox::new(), &mut Outbox::new(), &pool, service)
        });
        for _ in 0..5 {
            rig.pass();
        }
    }

    fn exchange(&mut self, rig: &mut Rig, bytes: &[u8]) -> Vec<u8> {
        self.send(rig, bytes);
        std::mem::take(&mut self.wire.borrow_mut().output)
    }

    fn connect(&mut self, rig: &mut Rig, queue: u16, controller: u16) -> u16 {
        let mut data = vec![0; 1024];
        data[..16].fill(1);
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + NQN.len()].copy_from_slice(NQN.as_bytes());
        data[512..512 + HOST.len()].copy_from_slice(HOST.as_bytes());
        let mut connect = command(0x7f, 0, 1, [u32::from(queue) << 16, 127, 0]);
        connect[32..36].copy_from_slice(&1024u32.to_le_bytes());
        connect[39] = 0x01;
        let answer = self.exchange(rig, &pdu(CAPSULE, &connect, &data));
        let (_, status, result) = responses(&answer)[0];
        assert_eq!(status, (0, 0), "it may connect");
        result as u16
    }
}

/// Of each response: its command, status and result.
fn responses(mut bytes: &[u8]) -> Vec<(u16, (u8, u8), u32)> {
    let mut found = Vec::new();
    while bytes.len() >= 8 {
        let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let (pdu, rest) = bytes.split_at(length);
        bytes = rest;
        if pdu[0] == RESPONSE {
            let u16_at = |at: usize| u16::from_le_bytes([pdu[8 + at], pdu[9 + at]]);
            let status = u16_at(14) >> 1;
            let result = u32::from_le_bytes(pdu[8..12].try_into().unwrap());
            found.push((u16_at(12), ((status >> 8 & 7) as u8, status as u8), result));
        }
    }
    found
}

impl NvmeHost {
    /// One that uses volume `v` of pool `p`: namespace 1 of a subsystem that anybody may connect to. Nobody serves its reads: there is
    /// no store.
    pub(super) fn connect(rig: &mut Rig) -> NvmeHost {
        rig.core.nvme.serve(Cataloguer::new(NodeId(1), CLUSTER, None));
        for (key, value) in [
            (
                map::node_key("gateway"),
                json!({"id": 1, "name": "gateway", "fabric": "127.0.0.1:65000", "cores": 1, "nvme": "127.0.0.1:4420"}),
            ),
            (
                map::pool_key("p"),
                json!({"id": 1, "name": "p", "kind": {"type": "replicated", "copies": 1, "min_copies": 1},
                    "groups": 1, "chunk_bytes": 4 << 20}),
            ),
            (
                map::volume_key("v"),
                json!({"id": VOLUME, "name": "v", "pool": "p", "size_bytes": 1 << 30, "generation": 5, "owner": 1}),
            ),
            (
                map::subsystem_key("db"),
                json!({"name": "db", "nqn": NQN, "serial": "1", "any_host": true, "namespaces": [
                    {"nsid": 1, "volume": VOLUME, "uuid": "5107c6a0-0000-8000-8000-000000000001", "block_bytes": BLOCK}]}),
            ),
        ] {
            rig.put(key, &value);
        }
        rig.core.control(ToCore::Settled);
        rig.pass();
        rig.pass();
        let mut admin = Connection::open(rig);
        let controller = admin.connect(rig, 0, 0xffff);
        // The controller is enabled.
        let enable = command(0x7f, 1, 0, [0, 0x14, 0x0046_0001]);
        assert_eq!(
            responses(&admin.exchange(rig, &pdu(CAPSULE, &enable, &[])))[0].1,
            (0, 0)
        );
        let mut io = Connection::open(rig);
        io.connect(rig, 1, controller);
        NvmeHost { admin, io, next: 0 }
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.admin.wire.borrow().closed && !self.io.wire.borrow().closed
    }

    /// Reads and clears, as far as the controller takes it: what that comes to is not waited for.
    pub(super) fn uses(&mut self, rig: &mut Rig, nsid: u32) {
        for (opcode, blocks) in [(READ, 8), (WRITE_ZEROES, 0xffff | DEALLOCATE)] {
            let mut bytes = command(opcode, self.next, nsid, [0, 0, blocks]);
            if opcode == READ {
                bytes[32..36].copy_from_slice(&(9 * BLOCK).to_le_bytes());
            }
            self.next += 1;
            self.io.send(rig, &pdu(CAPSULE, &bytes, &[]));
        }
    }

    /// What the end of a command is that reads behind the end of the namespace.
    pub(super) fn reads_too_far(&mut self, rig: &mut Rig, nsid: u32) -> (u8, u8) {
        let id = self.next;
        self.next += 1;
        let mut bytes = command(READ, id, nsid, [u32::MAX, 0, 0]);
        bytes[32..36].copy_from_slice(&BLOCK.to_le_bytes());
        let answer = self.io.exchange(rig, &pdu(CAPSULE, &bytes, &[]));
        let ended = responses(&answer);
        let own = ended.iter().find(|(own, ..)| *own == id);
        own.unwrap_or_else(|| panic!("{ended:?}")).1
    }
}

impl Rig {
    pub(super) fn put(&mut self, key: String, value: &serde_json::Value) {
        let record = crate::control::Record {
            key,
            value: Some(serde_json::to_vec(value).unwrap()),
            revision: 1,
            created: 1,
        };
        self.core.control(ToCore::Record(record));
    }
}
