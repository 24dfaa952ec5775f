//! Identify Controller (NVM Express Base 2.1, figure "Identify Controller Data Structure").

use super::super::event::known;
use super::super::page::Page;
use super::super::property::VERSION;
use super::super::{DISCOVERY_NQN, KEEP_ALIVE_UNITS, Kind, Limits, MAX_EVENT_REQUESTS, MAX_NAMESPACES};
use super::PAGE_BYTES;
use crate::admin::scope::Scope;

/// The I/O commands that are carried out: opcode, and does it change logical blocks?
pub(crate) const COMMANDS_OF_NVM: [(u8, bool); 12] = [
    (0x00, false), // Flush
    (0x01, true),  // Write
    (0x02, false), // Read
    (0x05, false), // Compare
    (0x08, true),  // Write Zeroes
    (0x09, true),  // Dataset Management
    (0x0c, false), // Verify
    (0x0d, false), // Reservation Register
    (0x0e, false), // Reservation Report
    (0x11, false), // Reservation Acquire
    (0x15, false), // Reservation Release
    (0x19, true),  // Copy
];

/// ONCS: Compare (0), Dataset Management (2), Write Zeroes (3), Save and Select fields (4), Reservations (5), Verify (7),
/// Copy (8). Not Write Uncorrectable (1) and Timestamp (6).
const OPTIONAL_COMMANDS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8;
/// FUSES: Compare and Write.
const FUSED: u16 = 1;
/// CTRATT: a host identifier of 128 bits (0). Not traffic based keep alive (6): with it a host may be silent for twice its time before
/// that is noticed.
const ATTRIBUTES: u32 = 1;
/// CMIC: several ports (0), several controllers (1), ANA (3).
const MULTIPATH: u8 = 1 | 1 << 1 | 1 << 3;
/// ANACAP: optimized, non-optimized, inaccessible, change; the number of a namespace's group stays (6).
const ANA_STATES: u8 = 1 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 6;
/// ANATT: a host that is told of a change waits this long for its end, before it takes the path for lost.
const ANA_TRANSITION_SECONDS: u8 = 10;
/// LPA: commands and effects (1), extended offsets and lengths (2), supported log pages and features (5).
const LOG_ATTRIBUTES: u8 = 1 << 1 | 1 << 2 | 1 << 5;
/// SGLS: SGLs without alignment (0), in-capsule data by offset (20), the transport's data block (21).
const SGL_SUPPORT: u32 = 1 | 1 << 20 | 1 << 21;
/// VWC: no volatile write cache; a Flush of all namespaces is carried out.
const WRITE_CACHE: u8 = 3 << 1;
/// ACL: Abort commands at a time, 0's based. An abort ends at once, so that the number does not matter.
const ABORT_LIMIT: u8 = 3;
/// ELPE: entries of the error log, 0's based.
const ERROR_LOG_LAST: u8 = (crate::failure::MAX_FAILURES - 1) as u8;
/// FRMW: one slot, which is read only.
const FIRMWARE_SLOTS: u8 = 1 | 1 << 1;

/// Blocks of one source range of a Copy, and of all: MSSRL and MCL.
pub(crate) fn copy_blocks(limits: &super::super::Limits, block_bytes: u32) -> (u16, u32) {
    let range = (limits.copy_range_bytes / block_bytes).min(u16::MAX.into());
    (range as u16, limits.copy_bytes / block_bytes)
}

/// What discovery and I/O controllers have in common.
fn common(scope: &Scope) -> Page {
    let limits = &scope.session.limits;
    let mut page = Page::new(PAGE_BYTES as usize);
    page.ascii(24, 40, "Amita")
        .ascii(64, 8, env!("CARGO_PKG_VERSION"))
        .u8(77, mdts(limits.transfer_bytes))
        .u16(78, scope.session.controller)
        .u32(80, VERSION)
        .u32(92, known(scope.session.kind))
        .u32(96, ATTRIBUTES)
        .u8(259, (MAX_EVENT_REQUESTS - 1) as u8)
        .u8(262, ERROR_LOG_LAST)
        .u16(320, KEEP_ALIVE_UNITS)
        .u16(514, limits.queue_entries)
        .u32(536, SGL_SUPPORT);
    page
}

/// Of a controller that serves namespaces.
pub(super) fn io(scope: &Scope) -> Page {
    let limits = &scope.session.limits;
    let serial = scope.subsystem.as_ref().map_or("", |subsystem| &subsystem.serial);
    let mut page = common(scope);
    page.ascii(4, 20, serial)
        .u8(76, MULTIPATH)
        .u8(111, 1) // CNTRLTYPE: I/O
        .u8(258, ABORT_LIMIT)
        .u8(260, FIRMWARE_SLOTS)
        .u8(261, LOG_ATTRIBUTES)
        .u8(342, ANA_TRANSITION_SECONDS)
        .u8(343, ANA_STATES)
        .u32(344, MAX_NAMESPACES) // ANAGRPMAX: a group is numbered like its namespace
        .u32(348, MAX_NAMESPACES) // NANAGRPID
        .u8(512, 0x66) // SQES: 64 bytes
        .u8(513, 0x44) // CQES: 16 bytes
        .u32(516, MAX_NAMESPACES) // NN
        .u16(520, OPTIONAL_COMMANDS)
        .u16(522, FUSED)
        .u8(525, WRITE_CACHE)
        // AWUN, AWUPF and ACWU hold for every namespace and at any offset: writes that the atomic boundary cuts are not
        // atomic, so that they promise one block. The namespaces tell more, with the boundary (NABSN).
        .u16(526, 0)
        .u16(528, 0)
        .u16(532, 0)
        .u16(534, 1) // CDFS: the first format of source range entries
        .u32(540, MAX_NAMESPACES) // MNAN
        .name(768, 256, &scope.session.subsystem)
        .u32(1792, (64 + limits.capsule_data_bytes) / 16) // IOCCSZ
        .u32(1796, 1) // IORCSZ
        .u16(1800, 0) // ICDOFF: data follows the command
        .u8(1802, 0) // FCATT: dynamic controllers
        .u8(1803, 1) // MSDBD
        .u16(1804, limits.disconnect.into()); // OFCS
    page
}

/// Of a discovery controller.
pub(super) fn discovery(scope: &Scope) -> Page {
    debug_assert_eq!(scope.session.kind, Kind::Discovery);
    // A host that came by the well-known name learns the unique one here.
    let name = match scope.catalog.discovery_nqn.as_str() {
        "" => DISCOVERY_NQN,
        unique => unique,
    };
    // One discovery subsystem, however many gateways serve it: its serial follows from its name.
    let serial = format!("{:08X}", amita_types::crc32c(name.as_bytes()));
    let mut page = common(scope);
    page.ascii(4, 20, &serial)
        .u8(111, 2) // CNTRLTYPE: discovery
        .u8(261, 1 << 2) // LPA: extended offsets and lengths
        .name(768, 256, name)
        .u8(1806, 1); // DCTYPE: direct
    page
}

/// The limits of the NVM command set's own commands (NVM Command Set 1.1, 4.1.5.4). Dataset Management has none.
pub(super) fn of_nvm(limits: &Limits) -> Page {
    let mut page = Page::new(PAGE_BYTES as usize);
    page.u8(0, mdts(limits.transfer_bytes)) // VSL: what Verify reads is read as any other
        .u8(1, WRITE_ZEROES_LIMIT); // WZSL
    page
}

/// WZSL, as a power of two in units of 4 KiB: 65,536 blocks of 512 bytes, the most that the field of a command can say.
/// Blocks of 4 KiB would allow eight times as much; but the limit is the controller's, hosts read it once, and Linux does
/// not look whether a length in blocks of 512 bytes fits into the field's 16 bits.
const WRITE_ZEROES_LIMIT: u8 = 13;
const _: () = assert!(4096 << WRITE_ZEROES_LIMIT == (1_u64 << 16) * 512);

/// MDTS: a power of two in units of the smallest page, 4 KiB.
fn mdts(transfer_bytes: u32) -> u8 {
    (transfer_bytes / 4096).max(1).ilog2() as u8
}
