//! INQUIRY with a page code: vital product data (SPC-4, "Vital product data parameters"; SBC-3, those of disks).

pub(crate) mod designator;
#[cfg(test)]
mod tests;

pub(crate) use designator::is_of_unit;

use crate::device::Scope;
use crate::inquiry::DISK;
use crate::nexus::Nexus;
use crate::plan::{
    ATOMIC_UNIT_BYTES, Answer, MAX_ATOMIC_BYTES, MAX_COMPARE_BYTES, MAX_TRANSFER_BLOCKS, MAX_UNMAP_DESCRIPTORS,
    OPTIMAL_TRANSFER_BYTES,
};
use crate::sense::{MAX_SENSE_BYTES, Sense};
use crate::token;
use crate::unit::Unit;

/// Pages, by their codes.
mod code {
    pub const SUPPORTED_PAGES: u8 = 0x00;
    pub const SERIAL_NUMBER: u8 = 0x80;
    pub const IDENTIFICATION: u8 = 0x83;
    pub const EXTENDED_INQUIRY: u8 = 0x86;
    pub const MODE_PAGE_POLICY: u8 = 0x87;
    pub const THIRD_PARTY_COPY: u8 = 0x8f;
    pub const BLOCK_LIMITS: u8 = 0xb0;
    pub const CHARACTERISTICS: u8 = 0xb1;
    pub const PROVISIONING: u8 = 0xb2;
}

/// In order, as "Supported VPD Pages" wants them.
const PAGES: [u8; 9] = [
    code::SUPPORTED_PAGES,
    code::SERIAL_NUMBER,
    code::IDENTIFICATION,
    code::EXTENDED_INQUIRY,
    code::MODE_PAGE_POLICY,
    code::THIRD_PARTY_COPY,
    code::BLOCK_LIMITS,
    code::CHARACTERISTICS,
    code::PROVISIONING,
];

/// A page of a logical unit.
pub(crate) fn page(scope: &Scope<'_>, nexus: &Nexus) -> Result<Answer, Sense> {
    let unit = scope.unit;
    let has = |page: &u8| *page != code::THIRD_PARTY_COPY || scope.catalog.tokens.is_some();
    let asked = scope.cdb.u8(2);
    let body: Vec<u8> = match asked {
        code::SUPPORTED_PAGES => PAGES.into_iter().filter(has).collect(),
        code::SERIAL_NUMBER => serial_number(unit).into_bytes(),
        code::IDENTIFICATION => designator::all(unit, scope.target, nexus.tag()),
        code::EXTENDED_INQUIRY => extended_inquiry(),
        code::MODE_PAGE_POLICY => mode_page_policy(),
        code::THIRD_PARTY_COPY if scope.catalog.tokens.is_some() => token::third_party_copy_page(unit),
        code::BLOCK_LIMITS => block_limits(unit),
        code::CHARACTERISTICS => characteristics(),
        code::PROVISIONING => provisioning(unit),
        _ => return Err(Sense::in_cdb(2, None)),
    };
    let [high, low] = (body.len() as u16).to_be_bytes();
    let mut data = vec![DISK, asked, high, low];
    data.extend(body);
    Ok(Answer::with_data(data, u64::from(scope.cdb.u16(3))))
}

/// PRODUCT SERIAL NUMBER: the UUID in hexadecimal digits.
pub(crate) fn serial_number(unit: &Unit) -> String {
    format!("{:032x}", u128::from_be_bytes(unit.uuid))
}

/// SPC-4, "Extended INQUIRY Data VPD page".
fn extended_inquiry() -> Vec<u8> {
    // HEADSUP, ORDSUP, SIMPSUP.
    const ATTRIBUTES: u8 = 0x07;
    const LUICLR: u8 = 0x01;
    let mut body = vec![0; 60];
    body[1] = ATTRIBUTES;
    body[3] = LUICLR;
    body[9] = MAX_SENSE_BYTES as u8;
    body
}

/// SPC-4, "Mode Page Policy VPD page": the thresholds of space are everybody's (SBC-3 wants them so), all other pages are each nexus's own.
fn mode_page_policy() -> Vec<u8> {
    const PROVISIONING: [u8; 2] = [0x1c, 0x02];
    const ALL: [u8; 2] = [0x3f, 0xff];
    const SHARED: [u8; 2] = [0x00, 0];
    const PER_NEXUS: [u8; 2] = [0x03, 0];
    [PROVISIONING, SHARED, ALL, PER_NEXUS].concat()
}

/// SBC-3, "Block Limits VPD page"; the limits of atomic writes are SBC-4's.
fn block_limits(unit: &Unit) -> Vec<u8> {
    // A WRITE SAME of no blocks is refused: it would be all that follows.
    const WSNZ: u8 = 0x01;
    const ALIGNMENT_IS_VALID: u32 = 1 << 31;
    let blocks = |bytes: u64| (bytes / u64::from(unit.block_bytes)) as u32;
    let physical = unit.blocks_per_physical();
    let mut body = vec![0; 60];
    body[0] = WSNZ;
    body[1] = blocks(MAX_COMPARE_BYTES).min(u32::from(u8::MAX)) as u8;
    body[2..4].copy_from_slice(&(physical as u16).to_be_bytes());
    let numbers = [
        MAX_TRANSFER_BLOCKS as u32,
        blocks(OPTIMAL_TRANSFER_BYTES),
        // MAXIMUM PREFETCH LENGTH: a PRE-FETCH takes nothing into a cache, and is not limited.
        0,
        // MAXIMUM UNMAP LBA COUNT: not limited.
        u32::MAX,
        MAX_UNMAP_DESCRIPTORS,
        // OPTIMAL UNMAP GRANULARITY, and its alignment: 0.
        physical,
        ALIGNMENT_IS_VALID,
    ];
    write_numbers(&mut body[4..], &numbers);
    // MAXIMUM WRITE SAME LENGTH (8 bytes): not limited.
    // MAXIMUM ATOMIC TRANSFER LENGTH, ATOMIC ALIGNMENT, ATOMIC TRANSFER LENGTH GRANULARITY; with a boundary the lengths between two
    // multiples of it: MAXIMUM ATOMIC TRANSFER LENGTH WITH ATOMIC BOUNDARY, MAXIMUM ATOMIC BOUNDARY SIZE.
    let (unit_blocks, largest) = (blocks(atomic_unit_bytes(unit)), blocks(atomic_bytes(unit)));
    let atomics = [unit_blocks, unit_blocks, unit_blocks, largest, largest];
    write_numbers(&mut body[40..], &atomics);
    body
}

fn write_numbers(body: &mut [u8], numbers: &[u32]) {
    for (place, number) in body.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}

/// What is written as one where it does not cross a multiple of it.
pub(crate) fn atomic_bytes(unit: &Unit) -> u64 {
    MAX_ATOMIC_BYTES.min(u64::from(unit.chunk_bytes))
}

/// What is written as one at every multiple of it.
pub(crate) fn atomic_unit_bytes(unit: &Unit) -> u64 {
    ATOMIC_UNIT_BYTES.min(u64::from(unit.chunk_bytes))
}

/// SBC-3, "Block Device Characteristics VPD page".
fn characteristics() -> Vec<u8> {
    const NOT_ROTATING: u16 = 1;
    // VBULS: a VERIFY of unmapped blocks compares with zeros.
    const VBULS: u8 = 0x01;
    let mut body = vec![0; 60];
    body[..2].copy_from_slice(&NOT_ROTATING.to_be_bytes());
    body[4] = VBULS;
    body
}

/// Of how many bytes a threshold set is.
const THRESHOLD_SET_BYTES: u64 = 1 << 30;

/// How many bytes a threshold set has: what thresholds of space are counted in.
pub(crate) fn threshold_set_bytes(unit: &Unit) -> u64 {
    u64::from(unit.block_bytes) << threshold_exponent(unit)
}

fn threshold_exponent(unit: &Unit) -> u32 {
    (THRESHOLD_SET_BYTES / u64::from(unit.block_bytes)).ilog2()
}

/// SBC-3, "Logical Block Provisioning VPD page".
fn provisioning(unit: &Unit) -> Vec<u8> {
    // LBPU, LBPWS, LBPWS10, LBPRZ: UNMAP and both WRITE SAMEs unmap, and what is unmapped reads as zeros.
    const UNMAPS_AND_ZEROS: u8 = 0xe4;
    const THIN: u8 = 0x02;
    let exponent = if unit.space.is_some() {
        threshold_exponent(unit) as u8
    } else {
        0
    };
    vec![exponent, UNMAPS_AND_ZEROS, THIN, 0]
}
