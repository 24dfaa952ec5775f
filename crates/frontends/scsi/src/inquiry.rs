//! INQUIRY without a page code: the standard data (SPC-4, "Standard INQUIRY data").

#[cfg(test)]
mod tests;

use crate::command::Cdb;
use crate::device::Scope;
use crate::plan::Answer;
use crate::sense::Sense;
use amita_types::map::{SCSI_PRODUCT, SCSI_VENDOR};

/// T10 VENDOR IDENTIFICATION, padded.
pub(crate) const VENDOR: [u8; 8] = padded(SCSI_VENDOR);
/// PRODUCT IDENTIFICATION, padded.
const PRODUCT: [u8; 16] = padded(SCSI_PRODUCT);
/// PRODUCT REVISION LEVEL: the version of the program, as far as there is room.
const REVISION: &str = env!("CARGO_PKG_VERSION");

const STANDARD_BYTES: usize = 96;

/// A direct access block device.
pub(crate) const DISK: u8 = 0x00;
/// A well known logical unit.
const WELL_KNOWN: u8 = 0x1e;
/// Nothing is there, and nothing can be: PERIPHERAL QUALIFIER 3, no known type.
const NOTHING: u8 = 0x7f;

/// Version descriptors: SAM-5, iSCSI, SPC-4, SBC-3, none of a version in particular.
const VERSIONS: [u16; 4] = [0x00a0, 0x0960, 0x0460, 0x04c0];

/// A text, with spaces behind it.
const fn padded<const N: usize>(text: &str) -> [u8; N] {
    let (from, mut bytes, mut at) = (text.as_bytes(), [b' '; N], 0);
    while at < from.len() {
        bytes[at] = from[at];
        at += 1;
    }
    bytes
}

/// Of a logical unit.
pub(crate) fn standard(scope: &Scope<'_>) -> Result<Answer, Sense> {
    check_page_code(&scope.cdb)?;
    // TPGS: 1 implicit, 2 explicit asymmetric access.
    let groups = if scope.target.explicit_access { 0x30 } else { 0x10 };
    Ok(answer(&scope.cdb, DISK, groups))
}

/// Of a number that has no logical unit, or of the well known one.
pub(crate) fn without_unit(cdb: &Cdb, is_well_known: bool) -> Result<Answer, Sense> {
    // There are no pages of what is not there.
    if cdb.bit(1, 0) {
        return Err(Sense::in_cdb(1, Some(0)));
    }
    check_page_code(cdb)?;
    Ok(answer(cdb, if is_well_known { WELL_KNOWN } else { NOTHING }, 0))
}

/// "If EVPD is 0, PAGE CODE is 0" (SPC-4, "INQUIRY command").
fn check_page_code(cdb: &Cdb) -> Result<(), Sense> {
    match cdb.u8(2) {
        0 => Ok(()),
        _ => Err(Sense::in_cdb(2, None)),
    }
}

fn answer(cdb: &Cdb, kind: u8, groups: u8) -> Answer {
    const SPC_4: u8 = 0x06;
    // HISUP, RESPONSE DATA FORMAT.
    const FORMAT: u8 = 0x12;
    const THIRD_PARTY_COPY: u8 = 0x08;
    const SEVERAL_PORTS: u8 = 0x10;
    const COMMAND_QUEUE: u8 = 0x02;
    let mut data = vec![0; STANDARD_BYTES];
    data[0] = kind;
    data[2] = SPC_4;
    data[3] = FORMAT;
    data[4] = (STANDARD_BYTES - 5) as u8;
    if kind == DISK {
        data[5] = groups | THIRD_PARTY_COPY;
    }
    data[6] = SEVERAL_PORTS;
    data[7] = COMMAND_QUEUE;
    data[8..16].copy_from_slice(&VENDOR);
    data[16..32].copy_from_slice(&PRODUCT);
    let revision = REVISION.bytes().chain(std::iter::repeat(b' '));
    data[32..36].iter_mut().zip(revision).for_each(|(to, from)| *to = from);
    for (at, version) in VERSIONS.iter().enumerate() {
        data[58 + 2 * at..60 + 2 * at].copy_from_slice(&version.to_be_bytes());
    }
    Answer::with_data(data, u64::from(cdb.u16(3)))
}
