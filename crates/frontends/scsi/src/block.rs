//! The commands of disks that read and write (SBC-3, and SBC-4's WRITE ATOMIC): checked here, carried out by the transport.

mod list;
#[cfg(test)]
mod tests;

pub(crate) use list::{be_u32, be_u64, same, unmap};

use crate::command::Cdb;
use crate::device::{Scope, gather};
use crate::nexus::Nexus;
use crate::opcodes as op;
use crate::plan::{
    Answer, Check, Extent, Io, MAX_COMPARE_BYTES, MAX_OR_BYTES, MAX_TRANSFER_BLOCKS, Place, Plan, Work, atoms,
};
use crate::sense::{Key, Sense, code};
use crate::unit::Unit;
use crate::vpd::{atomic_bytes, atomic_unit_bytes};
use amita_frontend::pieces::piece_end;

/// Blocks that a command names, and where it says how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub lba: u64,
    pub count: u64,
    /// The byte where the count begins.
    count_at: u16,
}

impl Blocks {
    /// By the length of the block: READ (6) has its own form, WRITE ATOMIC and COMPARE AND WRITE a shorter count.
    pub fn of(cdb: &Cdb) -> Blocks {
        let (lba, count, count_at) = match cdb.opcode() {
            op::READ_6 | op::WRITE_6 => {
                // "A TRANSFER LENGTH of 0 specifies 256 logical blocks."
                let count = match cdb.u8(4) {
                    0 => 256,
                    count => u64::from(count),
                };
                (u64::from(cdb.u32(0) & 0x1f_ffff), count, 4)
            }
            op::COMPARE_AND_WRITE => (cdb.u64(2), u64::from(cdb.u8(13)), 13),
            op::WRITE_ATOMIC_16 => (cdb.u64(2), u64::from(cdb.u16(12)), 12),
            opcode => match opcode >> 5 {
                1 | 2 => (u64::from(cdb.u32(2)), u64::from(cdb.u16(7)), 7),
                5 => (u64::from(cdb.u32(2)), u64::from(cdb.u32(6)), 6),
                _ => (cdb.u64(2), u64::from(cdb.u32(10)), 10),
            },
        };
        Blocks { lba, count, count_at }
    }

    /// As bytes, if all of them are there.
    pub fn extent(&self, unit: &Unit) -> Result<Extent, Sense> {
        extent(unit, self.lba, self.count).ok_or_else(|| out_of_range(unit, self.lba))
    }

    /// The same, of not more than `limit` bytes.
    fn limited(&self, unit: &Unit, limit: u64) -> Result<Extent, Sense> {
        let extent = self.extent(unit)?;
        match extent.length <= limit {
            true => Ok(extent),
            // "[...] INVALID FIELD IN CDB" (SBC-3, "Block Limits VPD page").
            false => Err(Sense::in_cdb(self.count_at, None)),
        }
    }
}

/// Blocks as bytes, if all of them are there.
pub(crate) fn extent(unit: &Unit, lba: u64, count: u64) -> Option<Extent> {
    let block = u64::from(unit.block_bytes);
    let is_inside = lba.checked_add(count).is_some_and(|end| end <= unit.blocks());
    is_inside.then(|| Extent {
        offset: lba * block,
        length: count * block,
    })
}

/// LOGICAL BLOCK ADDRESS OUT OF RANGE: INFORMATION is the first that is not there (SBC-3, "LBA information").
pub(crate) fn out_of_range(unit: &Unit, lba: u64) -> Sense {
    Sense::new(Key::IllegalRequest, code::LBA_OUT_OF_RANGE).with_information(lba.max(unit.blocks()))
}

/// Refuses what would change a logical unit that cannot be changed, or that this nexus has protected from itself.
pub(crate) fn check_writable(unit: &Unit, nexus: &Nexus) -> Result<(), Sense> {
    if unit.is_write_protected() {
        return Err(Sense::new(Key::DataProtect, code::WRITE_PROTECTED));
    }
    match nexus.protects(unit) {
        true => Err(Sense::new(Key::DataProtect, code::SOFTWARE_WRITE_PROTECTED)),
        false => Ok(()),
    }
}

/// Plans such a command.
pub(crate) fn command(scope: &Scope<'_>, nexus: &Nexus) -> Result<Plan, Answer> {
    let (unit, cdb) = (scope.unit, &scope.cdb);
    let blocks = Blocks::of(cdb);
    let transfer = || blocks.limited(unit, MAX_TRANSFER_BLOCKS * u64::from(unit.block_bytes));
    let work = match cdb.opcode() {
        op::READ_6 | op::READ_10 | op::READ_12 | op::READ_16 => Work::Read(transfer()?),
        op::VERIFY_10 | op::VERIFY_12 | op::VERIFY_16 => Work::Check(transfer()?, byte_check(cdb, true)?),
        // There is no cache that it would fill: "[...] GOOD if there is no room for all of it".
        op::PRE_FETCH_10 | op::PRE_FETCH_16 => {
            blocks.extent(unit)?;
            return Ok(Answer::good().into());
        }
        // All that was answered is durable; the volume's owner says whether this host may say so. A count of 0 is all that follows.
        op::SYNCHRONIZE_CACHE_10 | op::SYNCHRONIZE_CACHE_16 => {
            blocks.extent(unit)?;
            match unit.is_write_protected() {
                true => return Ok(Answer::good().into()),
                false => Work::Touch,
            }
        }
        op::UNMAP => {
            check_writable(unit, nexus)?;
            return list::begin_unmap(scope);
        }
        op::WRITE_SAME_10 | op::WRITE_SAME_16 => {
            check_writable(unit, nexus)?;
            return begin_same(scope, blocks);
        }
        op::WRITE_6 | op::WRITE_10 | op::WRITE_12 | op::WRITE_16 => {
            check_writable(unit, nexus)?;
            Work::Write(transfer()?)
        }
        op::WRITE_AND_VERIFY_10 | op::WRITE_AND_VERIFY_12 | op::WRITE_AND_VERIFY_16 => {
            let check = byte_check(cdb, false)?;
            check_writable(unit, nexus)?;
            Work::WriteAndCheck(transfer()?, check)
        }
        op::ORWRITE_16 => {
            check_writable(unit, nexus)?;
            Work::Or(blocks.limited(unit, MAX_OR_BYTES)?)
        }
        op::COMPARE_AND_WRITE => {
            check_writable(unit, nexus)?;
            Work::CompareAndWrite(one_piece(unit, blocks, MAX_COMPARE_BYTES)?)
        }
        op::WRITE_ATOMIC_16 => {
            check_writable(unit, nexus)?;
            atomic(unit, cdb, blocks)?
        }
        // The table has no other: one that it had, and this not, would be refused.
        _ => return Err(Sense::new(Key::IllegalRequest, code::INVALID_OPCODE).into()),
    };
    let place = Place::of(unit);
    Ok(Plan::Io(Io { place, work }))
}

/// BYTCHK (SBC-3, "VERIFY (10) command"): 3 is one block for all, which a WRITE AND VERIFY does not know; 2 is reserved.
fn byte_check(cdb: &Cdb, is_verify: bool) -> Result<Check, Sense> {
    match cdb.u8(1) >> 1 & 3 {
        0 => Ok(Check::Readable),
        1 => Ok(Check::Same),
        3 if is_verify => Ok(Check::SameBlock),
        _ => Err(Sense::in_cdb(1, Some(2))),
    }
}

/// What the volume can do as one: inside one chunk, of not more than a piece of I/O may touch.
fn one_piece(unit: &Unit, blocks: Blocks, limit: u64) -> Result<Extent, Sense> {
    let extent = blocks.limited(unit, limit)?;
    match is_one_piece(unit, extent) {
        true => Ok(extent),
        false => Err(Sense::in_cdb(blocks.count_at, None)),
    }
}

fn is_one_piece(unit: &Unit, extent: Extent) -> bool {
    extent.length == 0 || piece_end(extent.offset, extent.end(), unit.chunk_bytes) == extent.end()
}

/// WRITE ATOMIC (16) (SBC-4): with a boundary, as one between two of its multiples; without, as one, and longer than the page promises where it
/// lies between two multiples of the largest boundary: at these reads are cut, and one that is cut inside would see half of it.
fn atomic(unit: &Unit, cdb: &Cdb, blocks: Blocks) -> Result<Work, Sense> {
    let block = u64::from(unit.block_bytes);
    let boundary_bytes = u64::from(cdb.u16(10)) * block;
    let (largest, unit_bytes) = (atomic_bytes(unit), atomic_unit_bytes(unit));
    let extent = blocks.limited(unit, largest)?;
    if !extent.offset.is_multiple_of(unit_bytes) {
        return Err(Sense::in_cdb(2, None));
    }
    // Only what divides the largest boundary can hold at every place of the volume.
    let is_boundary =
        boundary_bytes.is_multiple_of(unit_bytes) && largest.is_multiple_of(boundary_bytes.max(unit_bytes));
    if !is_boundary {
        return Err(Sense::in_cdb(10, None));
    }
    let is_whole = extent.length.is_multiple_of(unit_bytes);
    let is_uncut = |atom: Extent| is_one_piece(unit, atom) && atom.offset / largest == (atom.end() - 1) / largest;
    match is_whole && atoms(extent, boundary_bytes).all(is_uncut) {
        true => Ok(Work::WriteAtomic { extent, boundary_bytes }),
        false => Err(Sense::in_cdb(blocks.count_at, None)),
    }
}

/// WRITE SAME (SBC-3): one block is taken, or none at all and zeros are meant (NDOB).
fn begin_same(scope: &Scope<'_>, blocks: Blocks) -> Result<Plan, Answer> {
    const NO_DATA_OUT: u8 = 0;
    let unit = scope.unit;
    // WSNZ of the block limits page: a count of 0 is none.
    if blocks.count == 0 {
        return Err(Sense::in_cdb(blocks.count_at, None).into());
    }
    let extent = blocks.extent(unit)?;
    if scope.cdb.opcode() == op::WRITE_SAME_16 && scope.cdb.bit(1, NO_DATA_OUT) {
        let place = Place::of(unit);
        let work = Work::Zero(vec![extent]);
        return Ok(Plan::Io(Io { place, work }));
    }
    gather(scope, u64::from(unit.block_bytes), 0)
}
