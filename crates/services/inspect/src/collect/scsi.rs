//! What a SAS disk says of its health: bytes, as SCSI Primary Commands 5 (SPC-5) and Block Commands 4 (SBC-4) lay them out.

use crate::inventory::{CommandSet, Smart};
use std::collections::{BTreeMap, BTreeSet};

/// The log pages that are of use here.
pub mod page {
    /// Which pages there are.
    pub const SUPPORTED: u8 = 0x00;
    /// Errors of writes.
    pub const WRITE_ERRORS: u8 = 0x02;
    /// Errors of reads.
    pub const READ_ERRORS: u8 = 0x03;
    /// Errors that are not of the medium.
    pub const NON_MEDIUM: u8 = 0x06;
    /// Temperature.
    pub const TEMPERATURE: u8 = 0x0D;
    /// Solid state media.
    pub const SOLID_STATE: u8 = 0x11;
    /// Background scan, with the minutes that the disk was on.
    pub const BACKGROUND: u8 = 0x15;
    /// Informational exceptions.
    pub const EXCEPTIONS: u8 = 0x2F;

    /// Those that are asked for, beside the list of them.
    pub const WANTED: [u8; 7] = [
        WRITE_ERRORS,
        READ_ERRORS,
        NON_MEDIUM,
        TEMPERATURE,
        SOLID_STATE,
        BACKGROUND,
        EXCEPTIONS,
    ];
}

/// A temperature that is not told.
const NO_TEMPERATURE: u8 = 0xFF;
/// The additional sense code "failure prediction threshold exceeded", and its qualifier for a test.
const PREDICTED: (u8, u8) = (0x5D, 0xFF);

/// What INQUIRY says that is of use here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// It is a disk: its peripheral device type is that of direct access block devices (00h), or that of zoned ones (14h).
    pub is_disk: bool,
    /// It is an ATA disk behind a translation (SAT-5: the vendor is `ATA`).
    pub is_ata: bool,
}

/// Reads the standard data of INQUIRY.
///
/// # Errors
/// It is too short.
pub fn inquiry(bytes: &[u8]) -> Result<Inquiry, String> {
    if bytes.len() < 36 {
        return Err(format!("INQUIRY gave {} bytes, not 36", bytes.len()));
    }
    Ok(Inquiry {
        is_disk: matches!(bytes[0], 0x00 | 0x14),
        is_ata: bytes[8..16] == *b"ATA     ",
    })
}

/// Why a disk has not done what it was asked, from its sense data.
#[must_use]
pub fn refusal(sense: &[u8]) -> String {
    let at = |at: usize| sense.get(at).copied().unwrap_or(0);
    match at(0) & 0x7F {
        0x70 | 0x71 => format!(
            "the disk refuses (sense key {:#x}, {:#04x}/{:#04x})",
            at(2) & 0xF,
            at(12),
            at(13)
        ),
        0x72 | 0x73 => format!(
            "the disk refuses (sense key {:#x}, {:#04x}/{:#04x})",
            at(1) & 0xF,
            at(2),
            at(3)
        ),
        _ => "the disk refuses, and does not say why".to_owned(),
    }
}

/// The body of a log page, whose subpage is 0.
fn body(code: u8, bytes: &[u8]) -> Result<&[u8], String> {
    match *bytes {
        [found, 0, first, second, ref rest @ ..] if found & 0x7F == code => {
            let length = usize::from(u16::from_be_bytes([first, second]));
            // What was longer than what was asked for is cut.
            Ok(&rest[..length.min(rest.len())])
        }
        [found, subpage, _, _, ..] => Err(format!(
            "log page {code:#04x} was asked for, and {:#04x}/{subpage:#04x} came",
            found & 0x7F
        )),
        _ => Err(format!("log page {code:#04x} gave {} bytes", bytes.len())),
    }
}

/// Reads the list of log pages.
///
/// # Errors
/// It is another page, or too short.
pub fn supported(bytes: &[u8]) -> Result<BTreeSet<u8>, String> {
    Ok(body(page::SUPPORTED, bytes)?.iter().map(|code| code & 0x3F).collect())
}

/// Reads the parameters of a log page by their codes. One that is cut is left out.
///
/// # Errors
/// It is another page, or too short.
pub fn parameters(code: u8, bytes: &[u8]) -> Result<BTreeMap<u16, &[u8]>, String> {
    let mut rest = body(code, bytes)?;
    let mut all = BTreeMap::new();
    while let [first, second, _, length, after @ ..] = rest {
        let length = usize::from(*length);
        let Some(value) = after.get(..length) else { break };
        all.entry(u16::from_be_bytes([*first, *second])).or_insert(value);
        rest = &after[length..];
    }
    Ok(all)
}

/// A count of up to any number of bytes; what is more than 64 bits long is the most that these hold.
fn count(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    let (high, low) = value.split_at(value.len().saturating_sub(8));
    if high.iter().any(|byte| *byte != 0) {
        return Some(u64::MAX);
    }
    Some(low.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// Reads the header of READ DEFECT DATA (10): how many defects have grown.
///
/// # Errors
/// It is too short, or is not of them.
pub fn grown_defects(bytes: &[u8]) -> Result<u64, String> {
    let [_, flags, first, second, ..] = *bytes else {
        return Err(format!("READ DEFECT DATA gave {} bytes", bytes.len()));
    };
    if flags & 0x08 == 0 {
        return Err("READ DEFECT DATA has no grown defects".to_owned());
    }
    // In the short block format an address has four bytes, in all others eight.
    let each = if flags & 0x07 == 0 { 4 } else { 8 };
    Ok(u64::from(u16::from_be_bytes([first, second])) / each)
}

/// What pages of logs say, by their codes; an error: the disk has not answered that.
///
/// # Errors
/// None of them says anything.
pub fn health(pages: &BTreeMap<u8, Vec<u8>>, defects: Result<u64, String>) -> Result<Smart, String> {
    let of = |code: u8, parameter: u16| {
        let bytes = pages.get(&code)?;
        parameters(code, bytes).ok()?.get(&parameter).copied()
    };
    let total = |code: u8, parameter: u16| of(code, parameter).and_then(count);
    let degrees = |value: Option<&[u8]>, at: usize| {
        let told = value?.get(at).copied().filter(|degrees| *degrees != NO_TEMPERATURE);
        told.map(i32::from)
    };
    let exception = of(page::EXCEPTIONS, 0).and_then(|value| Some((*value.first()?, *value.get(1)?)));
    let is_predicted = |(code, qualifier): (u8, u8)| code == PREDICTED.0 && qualifier != PREDICTED.1;
    let smart = Smart {
        by: CommandSet::Scsi,
        failing: exception.map(is_predicted),
        because: exception
            .filter(|found| is_predicted(*found))
            .map(|(code, qualifier)| format!("its informational exception is {code:#04x}/{qualifier:#04x}"))
            .unwrap_or_default(),
        temperature_c: degrees(of(page::TEMPERATURE, 0), 1).or_else(|| degrees(of(page::EXCEPTIONS, 0), 2)),
        warns_at_c: degrees(of(page::TEMPERATURE, 1), 1),
        on_hours: of(page::BACKGROUND, 0)
            .and_then(|value| count(value.get(..4)?))
            .map(|minutes| minutes / 60),
        used_percent: of(page::SOLID_STATE, 1).and_then(|value| value.get(3).copied()),
        reallocated: defects.ok(),
        pending: None,
        uncorrectable: match (total(page::WRITE_ERRORS, 6), total(page::READ_ERRORS, 6)) {
            (None, None) => None,
            (writes, reads) => Some(writes.unwrap_or(0).saturating_add(reads.unwrap_or(0))),
        },
        timeouts: None,
        link_errors: total(page::NON_MEDIUM, 0),
    };
    let says_nothing = smart.failing.is_none()
        && smart.used_percent.is_none()
        && smart.uncorrectable.is_none()
        && smart.reallocated.is_none();
    match says_nothing {
        true => Err("its log pages say nothing of its health".to_owned()),
        false => Ok(smart),
    }
}
