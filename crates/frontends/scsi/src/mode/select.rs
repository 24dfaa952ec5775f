//! MODE SELECT: the parameter list (SPC-4, "Mode parameters").

use super::page::{DESCRIPTOR_SENSE, Page, SOFTWARE_WRITE_PROTECT};
use super::{HEADER_10_BYTES, HEADER_BYTES, LONG_LBA, Modes, Values, block_descriptor};
use crate::Nexus;
use crate::device::Scope;
use crate::opcodes::MODE_SELECT_6;
use crate::sense::{Key, Sense, code};

/// Checks all of a list, and only then does what it says.
pub(crate) fn select(scope: &Scope<'_>, list: &[u8], nexus: &mut Nexus) -> Result<(), Sense> {
    let modes = parse(scope, list, nexus)?;
    if let Some(known) = nexus.modes_mut(scope.unit.number) {
        *known = modes;
    }
    Ok(())
}

fn parse(scope: &Scope<'_>, list: &[u8], nexus: &Nexus) -> Result<Modes, Sense> {
    let is_short = scope.cdb.opcode() == MODE_SELECT_6;
    let header_bytes = if is_short { HEADER_BYTES } else { HEADER_10_BYTES };
    let header = list.get(..header_bytes).ok_or(too_short())?;
    // "MODE DATA LENGTH is reserved" in a MODE SELECT; WP and DPOFUA are not looked at; the medium type is 0.
    let (medium_at, descriptor_at) = if is_short { (1, 3) } else { (2, 6) };
    if header[medium_at] != 0 {
        return Err(Sense::in_list(medium_at as u16, None));
    }
    let (descriptor_bytes, is_long) = match is_short {
        true => (usize::from(header[3]), false),
        false => (
            usize::from(u16::from_be_bytes([header[6], header[7]])),
            header[4] & LONG_LBA != 0,
        ),
    };
    let descriptor = list
        .get(header_bytes..header_bytes + descriptor_bytes)
        .ok_or(too_short())?;
    if !descriptor.is_empty() {
        check_descriptor(scope, descriptor, is_long, header_bytes, descriptor_at)?;
    }
    let mut modes = nexus.modes(Some(scope.unit.number)).copied().unwrap_or_default();
    let mut at = header_bytes + descriptor_bytes;
    while at < list.len() {
        at += take_page(scope, list, at, &mut modes)?;
    }
    Ok(modes)
}

/// PARAMETER LIST LENGTH ERROR: the list ends inside its header, a block descriptor or a page.
fn too_short() -> Sense {
    Sense::new(Key::IllegalRequest, code::PARAMETER_LIST_LENGTH)
}

/// Neither the size of the blocks nor the capacity can be changed: 0 blocks (or all ones) leave the capacity as it is.
fn check_descriptor(scope: &Scope<'_>, bytes: &[u8], is_long: bool, at: usize, length_at: usize) -> Result<(), Sense> {
    let expected = block_descriptor(scope, is_long);
    if bytes.len() != expected.len() {
        return Err(Sense::in_list(length_at as u16, None));
    }
    let count_bytes = if is_long { 8 } else { 4 };
    let (count, rest) = bytes.split_at(count_bytes);
    let is_all = |value: u8| count.iter().all(|byte| *byte == value);
    let is_kept = *count == expected[..count_bytes] || is_all(0) || is_all(0xff);
    if !is_kept {
        return Err(Sense::in_list(at as u16, None));
    }
    match rest
        .iter()
        .zip(&expected[count_bytes..])
        .position(|(is, was)| is != was)
    {
        Some(wrong) => Err(Sense::in_list((at + count_bytes + wrong) as u16, None)),
        None => Ok(()),
    }
}

/// Takes one page; how long it is.
fn take_page(scope: &Scope<'_>, list: &[u8], at: usize, modes: &mut Modes) -> Result<usize, Sense> {
    let bytes = &list[at..];
    let Some((page, length)) = Page::of_header(bytes) else {
        // A header that is cut off, or of a page that is not there.
        return Err(if bytes.len() < 2 {
            too_short()
        } else {
            Sense::in_list(at as u16, Some(5))
        });
    };
    let current = page.encode(scope.unit, *modes, Values::Current);
    let changeable = page.encode(scope.unit, *modes, Values::Changeable);
    if length != current.len() {
        let length_at = if page.subpage == 0 { at + 1 } else { at + 2 };
        return Err(Sense::in_list(length_at as u16, None));
    }
    let bytes = bytes.get(..length).ok_or(too_short())?;
    // PS is reserved in a MODE SELECT.
    let differs = |index: usize| (bytes[index] ^ current[index]) & !changeable[index];
    let header_bytes = if page.subpage == 0 { 2 } else { 4 };
    if let Some(index) = (header_bytes..length).find(|index| differs(*index) != 0) {
        let bit = 7 - differs(index).leading_zeros() as u8;
        return Err(Sense::in_list((at + index) as u16, Some(bit)));
    }
    if page.is_control() {
        modes.descriptor_sense = bytes[2] & DESCRIPTOR_SENSE != 0;
        modes.write_protect = bytes[4] & SOFTWARE_WRITE_PROTECT != 0;
    }
    Ok(length)
}
