//! The parameter lists of UNMAP and the block of WRITE SAME.

use super::{Blocks, check_writable, extent, out_of_range};
use crate::device::{Scope, gather};
use crate::nexus::Nexus;
use crate::plan::{Answer, Extent, Io, MAX_UNMAP_DESCRIPTORS, Place, Plan, Work};
use crate::sense::{Key, Sense, code};

/// Bytes of the header of an UNMAP's list, and of a descriptor in it.
const HEADER_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;

/// UNMAP (SBC-3): a list of nothing unmaps nothing, and is no error.
pub(super) fn begin_unmap(scope: &Scope<'_>) -> Result<Plan, Answer> {
    let bytes = u64::from(scope.cdb.u16(7));
    // "[...] less than 8: PARAMETER LIST LENGTH ERROR."
    if bytes > 0 && bytes < HEADER_BYTES as u64 {
        return Err(Sense::new(Key::IllegalRequest, code::PARAMETER_LIST_LENGTH).into());
    }
    gather(scope, bytes, 7)
}

/// The list of an UNMAP is here.
pub(crate) fn unmap(scope: &Scope<'_>, list: &[u8], nexus: &Nexus) -> Result<Plan, Answer> {
    check_writable(scope.unit, nexus)?;
    let extents = extents(scope, list)?;
    if extents.is_empty() {
        return Ok(Answer::good().into());
    }
    let (place, work) = (Place::of(scope.unit), Work::Zero(extents));
    Ok(Plan::Io(Io { place, work }))
}

fn extents(scope: &Scope<'_>, list: &[u8]) -> Result<Vec<Extent>, Sense> {
    let too_short = Sense::new(Key::IllegalRequest, code::PARAMETER_LIST_LENGTH);
    let (header, descriptors) = list.split_at_checked(HEADER_BYTES).ok_or(too_short)?;
    let told = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // UNMAP BLOCK DESCRIPTOR DATA LENGTH: "if not a multiple of 16, then the last is incomplete and ignored"; a list that was cut is
    // looked at as far as it goes.
    let descriptors = &descriptors[..told.min(descriptors.len())];
    let count = descriptors.len() / DESCRIPTOR_BYTES;
    if count > MAX_UNMAP_DESCRIPTORS as usize {
        return Err(Sense::in_list(2, None));
    }
    let mut extents = Vec::with_capacity(count);
    for bytes in descriptors.chunks_exact(DESCRIPTOR_BYTES) {
        let (lba, count) = (be_u64(bytes), u64::from(be_u32(&bytes[8..])));
        let extent = extent(scope.unit, lba, count).ok_or_else(|| out_of_range(scope.unit, lba))?;
        if extent.length > 0 {
            extents.push(extent);
        }
    }
    Ok(extents)
}

/// The block of a WRITE SAME is here. Zeros are unmapped, whether UNMAP is set or not: what is unmapped reads as zeros (LBPRZ). With UNMAP and another
/// block than zeros it is written: "[...] shall perform the write operation" (SBC-3, "WRITE SAME (10) command").
pub(crate) fn same(scope: &Scope<'_>, block: &[u8], nexus: &Nexus) -> Result<Plan, Answer> {
    check_writable(scope.unit, nexus)?;
    let extent = Blocks::of(&scope.cdb).extent(scope.unit)?;
    let place = Place::of(scope.unit);
    let work = match block.iter().all(|byte| *byte == 0) {
        true => Work::Zero(vec![extent]),
        false => Work::Fill(extent, block.to_vec()),
    };
    Ok(Plan::Io(Io { place, work }))
}

/// The big-endian number at the begin of `bytes`, which has at least four.
pub(crate) fn be_u32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The big-endian number at the begin of `bytes`, which has at least eight.
pub(crate) fn be_u64(bytes: &[u8]) -> u64 {
    u64::from(be_u32(bytes)) << 32 | u64::from(be_u32(&bytes[4..]))
}
