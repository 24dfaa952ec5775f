//! The parameter list of EXTENDED COPY (SPC-4, "EXTENDED COPY(LID1) command"; descriptors: identification CSCD descriptor E4h, block device to
//! block device 02h).

use super::{CopyRest, ListId, MAX_DESCRIPTOR_BYTES, MAX_SEGMENT_BYTES, MAX_SEGMENTS, MAX_TARGETS, copied};
use crate::block::{be_u32, be_u64, check_writable, extent};
use crate::device::Scope;
use crate::inquiry::DISK;
use crate::nexus::Nexus;
use crate::opcodes::action;
use crate::plan::{Answer, Place, Plan, Segment};
use crate::sense::{Code, Key, SegmentPointer, Sense, Specific, code};
use crate::unit::{Catalog, Target, Unit};
use crate::vpd::is_of_unit;
use std::sync::Arc;

const HEADER_BYTES: usize = 16;
const TARGET_BYTES: usize = 32;
const SEGMENT_BYTES: usize = 28;
const IDENTIFICATION: u8 = 0xe4;
const BLOCK_TO_BLOCK: u8 = 0x02;
/// LIST ID USAGE: the list has no identifier.
const NO_LIST_ID: u8 = 3;

fn be_u16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

fn illegal(code: Code) -> Sense {
    Sense::new(Key::IllegalRequest, code)
}

/// EXTENDED COPY: all of the list is checked before a block is copied.
pub(crate) fn extended(scope: &Scope<'_>, list: &[u8], nexus: &mut Nexus) -> Result<Plan, Answer> {
    let (header, rest) = list
        .split_at_checked(HEADER_BYTES)
        .ok_or(illegal(code::PARAMETER_LIST_LENGTH))?;
    let usage = header[1] >> 3 & 3;
    let id = match usage {
        NO_LIST_ID if header[0] != 0 => return Err(Sense::in_list(0, None).into()),
        NO_LIST_ID => None,
        1 => return Err(Sense::in_list(1, Some(4)).into()),
        _ => Some(ListId(header[0].into())),
    };
    if let Some(id) = id {
        nexus.copies.check_free(id)?;
    }
    let (target_bytes, segment_bytes) = (usize::from(be_u16(&header[2..])), be_u32(&header[8..]) as usize);
    let (targets, segments) = split(rest, target_bytes, segment_bytes, be_u32(&header[12..]))?;
    let targets = parse_targets(scope, targets, nexus)?;
    let segments = parse_segments(segments, HEADER_BYTES + target_bytes, &targets, nexus)?;
    // Those that copy nothing count among the others, by which hosts are told how far a copy has come.
    let lengths = segments
        .iter()
        .map(|segment| segment.map_or(0, |segment| segment.length));
    let mut then = CopyRest::of(id, lengths.collect(), scope.unit.block_bytes);
    let segments: Vec<Segment> = segments.into_iter().flatten().collect();
    if segments.is_empty() {
        return Ok(copied(&then, 0, &[], Ok(()), nexus).into());
    }
    then.held = id.map(|id| nexus.copies.begin(id, action::EXTENDED_COPY)).transpose()?;
    Ok(Plan::Copy { segments, then })
}

/// The two lists of descriptors, if they are what they say.
fn split(rest: &[u8], targets: usize, segments: usize, inline: u32) -> Result<(&[u8], &[u8]), Sense> {
    // Neither has a segment here data of its own, nor is there room for any.
    if inline != 0 {
        return Err(illegal(code::INLINE_DATA_LENGTH_EXCEEDED));
    }
    if targets.saturating_add(segments) > MAX_DESCRIPTOR_BYTES as usize {
        return Err(illegal(code::PARAMETER_LIST_LENGTH));
    }
    if targets > usize::from(MAX_TARGETS) * TARGET_BYTES {
        return Err(illegal(code::TOO_MANY_TARGET_DESCRIPTORS));
    }
    if segments > usize::from(MAX_SEGMENTS) * SEGMENT_BYTES {
        return Err(illegal(code::TOO_MANY_SEGMENT_DESCRIPTORS));
    }
    // "[...] truncates a descriptor: PARAMETER LIST LENGTH ERROR".
    if rest.len() < targets + segments {
        return Err(illegal(code::PARAMETER_LIST_LENGTH));
    }
    let (first, others) = rest.split_at(targets);
    Ok((first, &others[..segments]))
}

/// The logical units that are named, in order; `None`: nobody knows such a one, or this initiator may not see it.
fn parse_targets(scope: &Scope<'_>, list: &[u8], nexus: &Nexus) -> Result<Vec<Option<Arc<Unit>>>, Sense> {
    let mut found = Vec::with_capacity(list.len() / TARGET_BYTES);
    for (index, bytes) in list.chunks(TARGET_BYTES).enumerate() {
        let at = (HEADER_BYTES + index * TARGET_BYTES) as u16;
        if bytes[0] != IDENTIFICATION {
            return Err(illegal(code::UNSUPPORTED_TARGET_DESCRIPTOR).at(false, at, None));
        }
        if bytes.len() < TARGET_BYTES {
            return Err(illegal(code::PARAMETER_LIST_LENGTH));
        }
        // PERIPHERAL DEVICE TYPE. LU ID TYPE and NUL are not looked at any more in SPC-4.
        if bytes[1] & 0x1f != DISK {
            return Err(Sense::in_list(at + 1, Some(4)));
        }
        found.push(named(scope, &bytes[4..28], at, nexus)?);
    }
    Ok(found)
}

/// The logical unit of a designator: of this target, or of another one of the cluster that the initiator may use.
fn named(scope: &Scope<'_>, bytes: &[u8], at: u16, nexus: &Nexus) -> Result<Option<Arc<Unit>>, Sense> {
    let (code_set, association, kind) = (bytes[0] & 0xf, bytes[1] >> 4 & 3, bytes[1] & 0xf);
    let name = bytes[4..]
        .get(..usize::from(bytes[3]))
        .ok_or(Sense::in_list(at + 7, None))?;
    // A logical unit's: a target's or a port's names nothing that can be copied.
    if association != 0 {
        return Err(Sense::in_list(at + 5, Some(5)));
    }
    let is_meant = |unit: &Unit| is_of_unit(unit, code_set, kind, name);
    let mut others = targets_of(scope.catalog, nexus);
    let found =
        usable(scope.target, nexus, is_meant).or_else(|| others.find_map(|target| usable(target, nexus, is_meant)));
    Ok(found.cloned())
}

/// The targets that the initiator may use.
pub(super) fn targets_of<'a>(catalog: &'a Catalog, nexus: &'a Nexus) -> impl Iterator<Item = &'a Arc<Target>> {
    let name = &nexus.initiator().name;
    let targets = catalog.targets.iter();
    targets.filter(move |target| target.admits(name) && !nexus.barred.contains(&target.name))
}

/// The logical unit of a target that is meant, if the initiator may use it.
pub(super) fn usable<'a>(target: &'a Target, nexus: &Nexus, is_meant: impl Fn(&Unit) -> bool) -> Option<&'a Arc<Unit>> {
    let name = &nexus.initiator().name;
    let mut units = target.units.iter().filter(|unit| is_meant(unit) && unit.is_sound());
    units.find(|unit| target.shows(name, unit.number))
}

fn parse_segments(
    list: &[u8],
    begin: usize,
    targets: &[Option<Arc<Unit>>],
    nexus: &Nexus,
) -> Result<Vec<Option<Segment>>, Sense> {
    let mut segments = Vec::with_capacity(list.len() / SEGMENT_BYTES);
    for (index, bytes) in list.chunks(SEGMENT_BYTES).enumerate() {
        let at = (begin + index * SEGMENT_BYTES) as u16;
        if bytes[0] != BLOCK_TO_BLOCK {
            return Err(illegal(code::UNSUPPORTED_SEGMENT_DESCRIPTOR).at(false, at, None));
        }
        if bytes.len() < SEGMENT_BYTES {
            return Err(illegal(code::PARAMETER_LIST_LENGTH));
        }
        if usize::from(be_u16(&bytes[2..])) != SEGMENT_BYTES - 4 {
            return Err(Sense::in_list(at + 2, None));
        }
        segments.push(parse_segment(bytes, index, targets, nexus)?);
    }
    Ok(segments)
}

/// COPY ABORTED, with which segment it is, and which field of it.
fn aborted(index: usize, code: Code, byte: u16) -> Sense {
    let mut sense = Sense::new(Key::CopyAborted, code);
    sense.command_specific = Some(index as u64);
    sense.specific = Specific::Segment(SegmentPointer {
        in_segment: true,
        byte,
        bit: None,
    });
    sense
}

/// One segment; `None`: it copies nothing.
fn parse_segment(
    bytes: &[u8],
    index: usize,
    targets: &[Option<Arc<Unit>>],
    nexus: &Nexus,
) -> Result<Option<Segment>, Sense> {
    // DC: the count is in the destination's blocks. CAT is about blocks that do not fit into each other: none is sent that leaves a rest.
    const DESTINATION_COUNT: u8 = 0x02;
    const FROM_AT: u16 = 4;
    const TO_AT: u16 = 6;
    let unit = |at: u16| {
        let known = targets.get(usize::from(be_u16(&bytes[usize::from(at)..])));
        let unit = known.and_then(Option::as_ref);
        unit.ok_or(aborted(index, code::COPY_TARGET_NOT_REACHABLE, at))
    };
    let (from, to) = (unit(FROM_AT)?, unit(TO_AT)?);
    let counted = if bytes[1] & DESTINATION_COUNT != 0 { to } else { from };
    let length = u64::from(be_u16(&bytes[10..])) * u64::from(counted.block_bytes);
    let place = |unit: &Unit, at: u16| {
        let block = u64::from(unit.block_bytes);
        let lba = be_u64(&bytes[usize::from(at)..]);
        let found = length.is_multiple_of(block).then(|| extent(unit, lba, length / block));
        // Of the codes for that, hosts know this one of a copy that ends before its end.
        found.flatten().ok_or(aborted(index, code::NO_ADDITIONAL_SENSE, at))
    };
    let (source, destination) = (place(from, 12)?, place(to, 20)?);
    if length > u64::from(MAX_SEGMENT_BYTES) {
        return Err(aborted(index, code::NO_ADDITIONAL_SENSE, 10));
    }
    check_writable(to, nexus).map_err(|sense| aborted(index, sense.code, TO_AT))?;
    let is_same = from.source() == to.source();
    if is_same && source.overlaps(&destination) && source != destination {
        return Err(aborted(index, code::NO_ADDITIONAL_SENSE, 20));
    }
    // A copy onto itself is done.
    let is_nothing = length == 0 || is_same && source == destination;
    Ok((!is_nothing).then(|| Segment {
        from: Place::of(from),
        from_offset: source.offset,
        to: Place::of(to),
        to_offset: destination.offset,
        length,
        summed_at: None,
        is_zero: false,
        is_written: true,
    }))
}
