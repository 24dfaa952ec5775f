//! Identify Namespace, in its parts: for the NVM command set (NVM Command Set 1.1, 4.1.5.1), independent of command sets
//! (NVM Express Base 2.1, 5.1.13.2.8), and the identifiers (5.1.13.2.3).

use super::super::Limits;
use super::super::page::Page;
use super::PAGE_BYTES;
use super::controller::copy_blocks;
use crate::catalog::Namespace;
use crate::queue::atom_bytes;
use amita_types::{BLOCK_BYTES, MAX_IO_BYTES};

/// NSFEAT: NSABP, the atomic fields below are the namespace's own (1); UIDREUSE, identifiers are never used again (3);
/// OPTPERF, preferred granularities are told (4).
///
/// Not THINP (0), though a volume is thin: with it NUSE had to count the blocks that are allocated, and these only the
/// stores know, each of its own copies: to ask all of them for every chunk is too much for an Identify. Without it NUSE is
/// NCAP. Not DAE (2): reading what was never written is no error.
const FEATURES: u8 = 1 << 1 | 1 << 3 | 1 << 4;
/// UIDREUSE has the same place in the structure that is independent of command sets; VWCNP, there is no volatile write
/// cache (5).
const INDEPENDENT_FEATURES: u8 = 1 << 3 | 1 << 5;
/// NMIC: several controllers may have it.
const SHARED: u8 = 1;
/// RESCAP: persistence through power loss, the six types, and IEKEY as since version 1.3.
const RESERVATIONS: u8 = 0xff;
/// DLFEAT: deallocated blocks read as zeroes (001b), Write Zeroes can deallocate (3).
const DEALLOCATION: u8 = 1 | 1 << 3;
/// Bytes that a Compare and Write pair is atomic for: both halves travel in one piece of I/O.
const COMPARE_AND_WRITE_BYTES: u32 = MAX_IO_BYTES / 2;

/// NSATTR: write protected (0).
fn attributes(namespace: &Namespace) -> u8 {
    namespace.is_write_protected().into()
}

/// RESCAP: what is write protected nobody needs to reserve.
fn reservations(namespace: &Namespace) -> u8 {
    match namespace.is_write_protected() {
        true => 0,
        false => RESERVATIONS,
    }
}

pub(super) fn nvm(namespace: &Namespace, limits: &Limits) -> Page {
    let block_bytes = namespace.block_bytes;
    let blocks = namespace.size_bytes / u64::from(block_bytes);
    let per_block = BLOCK_BYTES / block_bytes;
    let chunk_blocks = namespace.chunk_bytes / block_bytes;
    // A write is atomic that does not cross a multiple of this, wherever in a 4 KiB block it begins and ends: no other
    // command is cut at another place. NABO is 0: the first block of a volume is at a multiple. So the unit and the
    // boundary are the same.
    let atomic = atom_bytes(namespace.chunk_bytes) / block_bytes;
    let compare = (COMPARE_AND_WRITE_BYTES / block_bytes).min(atomic);
    let (copy_range, copy_all) = copy_blocks(limits, block_bytes);

    let mut page = Page::new(PAGE_BYTES as usize);
    page.u64(0, blocks) // NSZE
        .u64(8, blocks) // NCAP
        .u64(16, blocks) // NUSE
        .u8(24, FEATURES)
        .u8(25, 0) // NLBAF: one format, the one in use
        .u8(26, 0) // FLBAS
        .u8(30, SHARED)
        .u8(31, reservations(namespace))
        .u8(33, DEALLOCATION)
        .u16(34, (atomic - 1) as u16) // NAWUN
        .u16(36, (atomic - 1) as u16) // NAWUPF
        .u16(38, (compare - 1) as u16) // NACWU
        .u16(40, (atomic - 1) as u16) // NABSN
        .u16(42, 0) // NABO
        .u16(44, (atomic - 1) as u16) // NABSPF
        .u16(46, u16::try_from(chunk_blocks).unwrap_or(0)) // NOIOB
        .u128(48, namespace.size_bytes.into()) // NVMCAP
        .u16(64, (per_block - 1) as u16) // NPWG
        .u16(66, (per_block - 1) as u16) // NPWA
        .u16(68, (per_block - 1) as u16) // NPDG
        .u16(70, (per_block - 1) as u16) // NPDA
        .u16(72, (MAX_IO_BYTES / block_bytes - 1) as u16) // NOWS
        .u16(74, copy_range) // MSSRL
        .u32(76, copy_all) // MCL
        .u8(80, limits.copy_ranges - 1) // MSRC
        .u32(92, namespace.nsid) // ANAGRPID
        .u8(99, attributes(namespace)) // NSATTR
        .bytes(104, &namespace.nguid)
        .u8(128 + 2, block_bytes.ilog2() as u8); // LBAF0.LBADS
    page
}

pub(super) fn independent(namespace: &Namespace) -> Page {
    let mut page = Page::new(PAGE_BYTES as usize);
    page.u8(0, INDEPENDENT_FEATURES)
        .u8(1, SHARED)
        .u8(2, reservations(namespace))
        .u32(4, namespace.nsid) // ANAGRPID
        .u8(8, attributes(namespace)) // NSATTR
        .u8(14, 1); // NSTAT: ready
    page
}

pub(super) fn descriptors(namespace: &Namespace) -> Page {
    const NGUID: u8 = 2;
    const UUID: u8 = 3;
    const CSI: u8 = 4;
    let mut page = Page::new(PAGE_BYTES as usize);
    let mut at = 0;
    for (kind, identifier) in [(NGUID, &namespace.nguid[..]), (UUID, &namespace.uuid), (CSI, &[0])] {
        // The type, the length, two reserved bytes.
        page.u8(at, kind)
            .u8(at + 1, identifier.len() as u8)
            .bytes(at + 4, identifier);
        at += 4 + identifier.len();
    }
    page
}
