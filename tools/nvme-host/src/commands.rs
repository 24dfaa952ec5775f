//! The commands that hosts send, as requests.

use crate::wire::{Command, admin, fabrics, feature, io};
use crate::{Request, Transfer};

/// Bytes of an identify structure.
pub const IDENTIFY_BYTES: usize = 4096;
/// Bytes of the data of Connect.
pub const CONNECT_BYTES: usize = 1024;

#[must_use]
pub fn read(nsid: u32, block: u64, blocks: u32, block_bytes: usize) -> Request {
    Request::new(blocks_of(io::READ, nsid, block, blocks)).with(Transfer::Read(blocks as usize * block_bytes))
}

#[must_use]
pub fn write(nsid: u32, block: u64, blocks: u32, data: Vec<u8>) -> Request {
    Request::new(blocks_of(io::WRITE, nsid, block, blocks)).with(Transfer::Write(data))
}

#[must_use]
pub fn compare(nsid: u32, block: u64, blocks: u32, data: Vec<u8>) -> Request {
    Request::new(blocks_of(io::COMPARE, nsid, block, blocks)).with(Transfer::Write(data))
}

/// Write Zeroes; `deallocate`: the blocks may lose their space.
#[must_use]
pub fn write_zeroes(nsid: u32, block: u64, blocks: u32, deallocate: bool) -> Request {
    let command = blocks_of(io::WRITE_ZEROES, nsid, block, blocks);
    Request::new(command.dword(12, (blocks - 1) | u32::from(deallocate) << 25))
}

#[must_use]
pub fn verify(nsid: u32, block: u64, blocks: u32) -> Request {
    Request::new(blocks_of(io::VERIFY, nsid, block, blocks))
}

#[must_use]
pub fn flush(nsid: u32) -> Request {
    Request::new(Command::new(io::FLUSH).namespace(nsid))
}

/// A command on blocks: starting block in dwords 10 and 11, blocks less one in dword 12.
#[must_use]
pub fn blocks_of(opcode: u8, nsid: u32, block: u64, blocks: u32) -> Command {
    Command::new(opcode)
        .namespace(nsid)
        .qword(10, block)
        .dword(12, blocks.wrapping_sub(1) & 0xffff)
}

/// Dataset Management, deallocating those ranges (block, blocks).
#[must_use]
pub fn deallocate(nsid: u32, ranges: &[(u64, u32)]) -> Request {
    let mut data = Vec::with_capacity(ranges.len() * 16);
    for (block, blocks) in ranges {
        data.extend_from_slice(&0u32.to_le_bytes());
        data.extend_from_slice(&blocks.to_le_bytes());
        data.extend_from_slice(&block.to_le_bytes());
    }
    let count = u32::try_from(ranges.len()).expect("a list of ranges").wrapping_sub(1) & 0xff;
    let command = Command::new(io::DATASET_MANAGEMENT)
        .namespace(nsid)
        .dword(10, count)
        .dword(11, 1 << 2);
    Request::new(command).with(Transfer::Write(data))
}

/// Copy of those ranges (block, blocks) to `target`, descriptors of format 0.
#[must_use]
pub fn copy(nsid: u32, target: u64, ranges: &[(u64, u32)]) -> Request {
    let mut data = Vec::with_capacity(ranges.len() * 32);
    for (block, blocks) in ranges {
        let mut entry = [0; 32];
        entry[8..16].copy_from_slice(&block.to_le_bytes());
        entry[16..18].copy_from_slice(&(blocks.wrapping_sub(1) as u16).to_le_bytes());
        data.extend_from_slice(&entry);
    }
    let count = u32::try_from(ranges.len()).expect("a list of ranges").wrapping_sub(1) & 0xff;
    let command = Command::new(io::COPY)
        .namespace(nsid)
        .qword(10, target)
        .dword(12, count);
    Request::new(command).with(Transfer::Write(data))
}

#[must_use]
pub fn identify(cns: u8, nsid: u32) -> Request {
    let command = Command::new(admin::IDENTIFY).namespace(nsid).dword(10, u32::from(cns));
    Request::new(command).with(Transfer::Read(IDENTIFY_BYTES))
}

/// Get Log Page: so many bytes (whole dwords) from `offset` on.
#[must_use]
pub fn log_page(page: u8, nsid: u32, offset: u64, bytes: usize) -> Request {
    let dwords = u32::try_from(bytes / 4).expect("a log page").wrapping_sub(1);
    let command = Command::new(admin::GET_LOG_PAGE)
        .namespace(nsid)
        .dword(10, u32::from(page) | (dwords & 0xffff) << 16)
        .dword(11, dwords >> 16)
        .qword(12, offset);
    Request::new(command).with(Transfer::Read(bytes))
}

/// Get Features; `select`: 0 current, 1 default, 2 saved, 3 capabilities.
#[must_use]
pub fn get_feature(id: u8, select: u8) -> Request {
    Request::new(Command::new(admin::GET_FEATURES).dword(10, u32::from(id) | u32::from(select) << 8))
}

#[must_use]
pub fn set_feature(id: u8, value: u32) -> Request {
    Request::new(
        Command::new(admin::SET_FEATURES)
            .dword(10, u32::from(id))
            .dword(11, value),
    )
}

/// Set Features, Number of Queues: that many of each kind.
#[must_use]
pub fn queues(count: u16) -> Request {
    let less = u32::from(count - 1);
    set_feature(feature::QUEUES, less | less << 16)
}

/// Asynchronous Event Request.
#[must_use]
pub fn async_event() -> Request {
    Request::new(Command::new(admin::ASYNC_EVENT))
}

#[must_use]
pub fn keep_alive() -> Request {
    Request::new(Command::new(admin::KEEP_ALIVE))
}

/// Abort of a command of a queue.
#[must_use]
pub fn abort(queue: u16, id: u16) -> Request {
    Request::new(Command::new(admin::ABORT).dword(10, u32::from(queue) | u32::from(id) << 16))
}

/// Property Get; `wide`: of eight bytes.
#[must_use]
pub fn property_get(offset: u32, wide: bool) -> Request {
    Request::new(
        Command::fabrics(fabrics::PROPERTY_GET)
            .byte(40, u8::from(wide))
            .dword(11, offset),
    )
}

/// Property Set of four bytes.
#[must_use]
pub fn property_set(offset: u32, value: u64) -> Request {
    Request::new(
        Command::fabrics(fabrics::PROPERTY_SET)
            .dword(11, offset)
            .qword(12, value),
    )
}

#[must_use]
pub fn disconnect() -> Request {
    Request::new(Command::fabrics(fabrics::DISCONNECT))
}

/// What Connect says (NVM Express Base 2.1, 6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The queue: 0 is the admin queue.
    pub queue: u16,
    /// Its entries, less one.
    pub size: u16,
    /// Attributes: bit 2 switches flow control off.
    pub attributes: u8,
    /// Keep alive time-out in milliseconds.
    pub keep_alive_ms: u32,
    /// The controller, or 0xffff for any.
    pub controller: u16,
    /// The host's identifier.
    pub host_id: [u8; 16],
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The host's NQN.
    pub host: String,
}

/// The attribute of Connect that switches flow control off.
pub const FLOW_CONTROL_OFF: u8 = 1 << 2;

impl Connect {
    /// The command with its data.
    #[must_use]
    pub fn request(&self) -> Request {
        Request::new(self.command()).with(Transfer::WriteInCapsule(self.data()))
    }

    fn command(&self) -> Command {
        Command::fabrics(fabrics::CONNECT)
            .word(42, self.queue)
            .word(44, self.size)
            .byte(46, self.attributes)
            .dword(12, self.keep_alive_ms)
    }

    /// The data.
    ///
    /// # Panics
    /// When a name is longer than its field.
    #[must_use]
    pub fn data(&self) -> Vec<u8> {
        let mut data = vec![0; CONNECT_BYTES];
        data[..16].copy_from_slice(&self.host_id);
        data[16..18].copy_from_slice(&self.controller.to_le_bytes());
        data[256..256 + self.subsystem.len()].copy_from_slice(self.subsystem.as_bytes());
        data[512..512 + self.host.len()].copy_from_slice(self.host.as_bytes());
        data
    }
}

/// Reservation Register: `action` 0 register, 1 unregister, 2 replace; `persist` is CPTPL.
#[must_use]
pub fn reservation_register(nsid: u32, action: u8, ignore_key: bool, persist: u8, old: u64, new: u64) -> Request {
    let command = Command::new(io::RESERVATION_REGISTER).namespace(nsid).dword(
        10,
        u32::from(action) | u32::from(ignore_key) << 3 | u32::from(persist) << 30,
    );
    Request::new(command).with(Transfer::Write(keys(old, new)))
}

/// Reservation Acquire: `action` 0 acquire, 1 preempt, 2 preempt and abort.
#[must_use]
pub fn reservation_acquire(nsid: u32, action: u8, kind: u8, key: u64, preempted: u64) -> Request {
    let command = Command::new(io::RESERVATION_ACQUIRE)
        .namespace(nsid)
        .dword(10, u32::from(action) | u32::from(kind) << 8);
    Request::new(command).with(Transfer::Write(keys(key, preempted)))
}

/// Reservation Release: `action` 0 release, 1 clear.
#[must_use]
pub fn reservation_release(nsid: u32, action: u8, kind: u8, key: u64) -> Request {
    let command = Command::new(io::RESERVATION_RELEASE)
        .namespace(nsid)
        .dword(10, u32::from(action) | u32::from(kind) << 8);
    Request::new(command).with(Transfer::Write(key.to_le_bytes().to_vec()))
}

/// Reservation Report with extended structures.
#[must_use]
pub fn reservation_report(nsid: u32, bytes: usize) -> Request {
    let dwords = u32::try_from(bytes / 4).expect("a report") - 1;
    let command = Command::new(io::RESERVATION_REPORT)
        .namespace(nsid)
        .dword(10, dwords)
        .dword(11, 1);
    Request::new(command).with(Transfer::Read(bytes))
}

fn keys(first: u64, second: u64) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}
