//! MODE SENSE and MODE SELECT (SPC-4; SBC-3, "Mode parameters for direct access block devices").
//!
//! What a host can change holds for its own nexus, as the mode page policy page says: whether sense data come as descriptors (D_SENSE),
//! and whether it has protected the logical unit from its own writes (SWP). Nothing is saved.

mod page;
mod select;
#[cfg(test)]
mod tests;

pub(crate) use select::select;

use crate::Nexus;
use crate::command::Cdb;
use crate::device::Scope;
use crate::opcodes::MODE_SENSE_6;
use crate::plan::Answer;
use crate::sense::{Format, Key, Sense, code};
use page::{PAGES, Page};

/// What a nexus has chosen of a logical unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Sense data come in descriptor format.
    pub descriptor_sense: bool,
    /// Its writes are refused.
    pub write_protect: bool,
}

impl Modes {
    pub(crate) fn format(self) -> Format {
        match self.descriptor_sense {
            true => Format::Descriptor,
            false => Format::Fixed,
        }
    }
}

/// PC: which values are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Current,
    /// Ones where a bit can be changed.
    Changeable,
    Default,
}

const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;
/// DEVICE-SPECIFIC PARAMETER: the medium is write protected; DPO and FUA are taken.
const WRITE_PROTECTED: u8 = 0x80;
const DPO_FUA: u8 = 0x10;
/// In the header of the long form: the block descriptor is a long one.
const LONG_LBA: u8 = 0x01;

/// What MODE SENSE says before the pages, in the short form and in the long one.
const HEADER_BYTES: usize = 4;
const HEADER_10_BYTES: usize = 8;

/// Carries out MODE SENSE.
pub(crate) fn sense(scope: &Scope<'_>, nexus: &Nexus) -> Result<Answer, Sense> {
    let cdb = &scope.cdb;
    let is_short = cdb.opcode() == MODE_SENSE_6;
    let values = match cdb.u8(2) >> 6 {
        0 => Values::Current,
        1 => Values::Changeable,
        2 => Values::Default,
        // "[...] SAVING PARAMETERS NOT SUPPORTED" (SPC-4, "MODE SENSE (6) command").
        _ => return Err(Sense::new(Key::IllegalRequest, code::SAVING_NOT_SUPPORTED).at(true, 2, Some(7))),
    };
    let pages = pages(scope, nexus, values)?;
    let (no_descriptor, is_long) = (cdb.bit(1, 3), cdb.bit(1, 4));
    let descriptor = match no_descriptor {
        true => Vec::new(),
        false => block_descriptor(scope, is_long),
    };
    let mut header = vec![0; if is_short { HEADER_BYTES } else { HEADER_10_BYTES }];
    let length = header.len() + descriptor.len() + pages.len();
    let modes = nexus.modes(Some(scope.unit.number)).copied().unwrap_or_default();
    let is_protected = scope.unit.is_write_protected() || modes.write_protect;
    let device = DPO_FUA | if is_protected { WRITE_PROTECTED } else { 0 };
    if is_short {
        // MODE DATA LENGTH does not count itself.
        header[0] = (length - 1) as u8;
        header[2] = device;
        header[3] = descriptor.len() as u8;
    } else {
        header[..2].copy_from_slice(&((length - 2) as u16).to_be_bytes());
        header[3] = device;
        header[4] = if is_long && !descriptor.is_empty() { LONG_LBA } else { 0 };
        header[6..8].copy_from_slice(&(descriptor.len() as u16).to_be_bytes());
    }
    Ok(Answer::with_data([header, descriptor, pages].concat(), allocation(cdb)))
}

fn allocation(cdb: &Cdb) -> u64 {
    match cdb.opcode() {
        MODE_SENSE_6 => u64::from(cdb.u8(4)),
        _ => u64::from(cdb.u16(7)),
    }
}

/// The pages that are asked for, in ascending order (SPC-4, "Mode page code usage for all devices").
fn pages(scope: &Scope<'_>, nexus: &Nexus, values: Values) -> Result<Vec<u8>, Sense> {
    let (code, subpage) = (scope.cdb.u8(2) & ALL_PAGES, scope.cdb.u8(3));
    let is_asked = |page: &&Page| {
        (code == ALL_PAGES || code == page.code)
            && match subpage {
                ALL_SUBPAGES => true,
                // Of all pages, those that are no subpages.
                _ => subpage == page.subpage,
            }
    };
    if code == ALL_PAGES && !matches!(subpage, 0 | ALL_SUBPAGES) {
        return Err(Sense::in_cdb(3, None));
    }
    let found: Vec<&Page> = PAGES.iter().filter(is_asked).collect();
    if found.is_empty() {
        let has_page = PAGES.iter().any(|page| page.code == code);
        return Err(if has_page {
            Sense::in_cdb(3, None)
        } else {
            Sense::in_cdb(2, Some(5))
        });
    }
    let modes = nexus.modes(Some(scope.unit.number)).copied().unwrap_or_default();
    Ok(found
        .iter()
        .flat_map(|page| page.encode(scope.unit, modes, values))
        .collect())
}

/// SBC-3, "Short LBA mode parameter block descriptor" and "Long LBA mode parameter block descriptor".
fn block_descriptor(scope: &Scope<'_>, is_long: bool) -> Vec<u8> {
    let (blocks, block_bytes) = (scope.unit.blocks(), scope.unit.block_bytes);
    if is_long {
        let mut bytes = blocks.to_be_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(block_bytes.to_be_bytes());
        return bytes;
    }
    let mut bytes = u32::try_from(blocks).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    // The length has three bytes; the one before it is reserved.
    bytes.extend(block_bytes.to_be_bytes());
    bytes
}
