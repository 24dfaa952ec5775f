//! What a SATA disk says of its health: bytes, as ATA Command Set 4 (ACS-4) lays them out.
//!
//! The attributes in the data of SMART READ DATA, and their thresholds, are the vendors' (ACS-4 leaves both open): they lie as SFF-8035i
//! has laid them out, and what counts mean by number is what all vendors of today mean by it. Where they differ, in wear, the vendor is
//! told by the model; and what ACS-4 itself has for it, in the device statistics, comes first.

use crate::inventory::{CommandSet, Smart, short};
use std::collections::BTreeMap;

/// The length of everything that an ATA disk is asked for.
const SECTOR_BYTES: usize = 512;
/// Attributes, or thresholds, of a sector.
const ENTRIES: usize = 30;
const ENTRY_BYTES: usize = 12;

/// Reallocated sectors.
const REALLOCATED: u8 = 5;
/// Hours that it was on.
const ON_HOURS: u8 = 9;
/// Errors that could not be corrected and were reported.
const REPORTED: u8 = 187;
/// Commands that took too long.
const TIMEOUTS: u8 = 188;
/// The air around it; and itself.
const TEMPERATURES: (u8, u8) = (190, 194);
/// Sectors that could not be read.
const PENDING: u8 = 197;
/// Sectors that could not be read when the disk looked for such.
const OFFLINE: u8 = 198;
/// Damaged frames of the link.
const LINK_ERRORS: u8 = 199;

/// Attributes whose normalized value is the percent of life that is left, by the beginning of a model's name, in capital letters.
const WEAR: [(&[&str], &[u8]); 4] = [
    (&["SAMSUNG", "MZ7", "MZ-7"], &[177]),
    (&["INTEL", "SSDSC", "SOLIDIGM"], &[233]),
    (&["MICRON", "MTFD", "CRUCIAL", "CT"], &[202, 173]),
    (&["KINGSTON", "PHISON", "SATADOM", "PATRIOT"], &[231]),
];

/// What IDENTIFY DEVICE says that is of use here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its model (words 27 to 46).
    pub model: String,
    /// It has SMART (word 82), and that is switched on (word 85).
    pub smart: (bool, bool),
    /// It has logs (words 84 and 87) and does not turn (word 217): it may tell its wear in the device statistics.
    pub may_tell_wear: bool,
}

fn word(bytes: &[u8], number: usize) -> u16 {
    u16::from_le_bytes([bytes[2 * number], bytes[2 * number + 1]])
}

/// Reads the data of IDENTIFY DEVICE.
///
/// # Errors
/// It is too short, or says that it says nothing of SMART.
pub fn identity(bytes: &[u8]) -> Result<Identity, String> {
    if bytes.len() < SECTOR_BYTES {
        return Err(format!("IDENTIFY DEVICE gave {} bytes, not 512", bytes.len()));
    }
    // Bits 15 and 14 of word 83 and of word 87 are 01 where those around them mean something.
    let is_told = |number: usize| word(bytes, number) >> 14 == 0b01;
    if !is_told(83) {
        return Err("the disk does not tell whether it has SMART".to_owned());
    }
    // Two letters a word, the first one in the upper half.
    let letters = (27..=46).flat_map(|number| word(bytes, number).to_be_bytes());
    let model: String = letters
        .map(char::from)
        .filter(|letter| (' '..='~').contains(letter))
        .collect();
    let has_logs = is_told(87) && word(bytes, 87) & (1 << 5) != 0;
    Ok(Identity {
        model: short(&model),
        smart: (word(bytes, 82) & 1 != 0, word(bytes, 85) & 1 != 0),
        may_tell_wear: has_logs && word(bytes, 217) == 1,
    })
}

/// An attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Does it predict a failure (bit 0 of its flags), and no mere age?
    pub predicts: bool,
    /// The normalized value: less is worse.
    pub value: u8,
    /// What was counted, as the vendor counts: 48 bits.
    pub raw: u64,
}

fn sector<'a>(bytes: &'a [u8], what: &str) -> Result<&'a [u8], String> {
    let bytes = bytes
        .get(..SECTOR_BYTES)
        .ok_or_else(|| format!("{what} gave {} bytes, not 512", bytes.len()))?;
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(format!("{what} gave nothing but zeros"));
    }
    match bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) {
        0 => Ok(bytes),
        sum => Err(format!("{what} gave data whose checksum is wrong (by {sum:#04x})")),
    }
}

fn entries(sector: &[u8]) -> impl Iterator<Item = &[u8]> {
    let table = &sector[2..2 + ENTRIES * ENTRY_BYTES];
    table.chunks_exact(ENTRY_BYTES).filter(|entry| entry[0] != 0)
}

/// Reads the data of SMART READ DATA: attributes by their numbers.
///
/// # Errors
/// It is too short, empty or damaged, or has no attribute.
pub fn attributes(bytes: &[u8]) -> Result<BTreeMap<u8, Attribute>, String> {
    let all: BTreeMap<u8, Attribute> = entries(sector(bytes, "SMART READ DATA")?)
        .map(|entry| {
            let mut raw = [0_u8; 8];
            raw[..6].copy_from_slice(&entry[5..11]);
            let attribute = Attribute {
                predicts: entry[1] & 1 != 0,
                value: entry[3],
                raw: u64::from_le_bytes(raw),
            };
            (entry[0], attribute)
        })
        .collect();
    match all.is_empty() {
        true => Err("SMART READ DATA has no attribute".to_owned()),
        false => Ok(all),
    }
}

/// Reads the data of SMART READ THRESHOLDS: thresholds by the numbers of attributes.
///
/// # Errors
/// It is too short, empty or damaged.
pub fn thresholds(bytes: &[u8]) -> Result<BTreeMap<u8, u8>, String> {
    let all = entries(sector(bytes, "SMART READ THRESHOLDS")?);
    Ok(all.map(|entry| (entry[0], entry[1])).collect())
}

/// Reads what SMART RETURN STATUS leaves in the registers, as SAT-5 gives them back in sense data: does the disk predict its failure?
///
/// # Errors
/// The registers are not in it, or say neither.
pub fn status(sense: &[u8]) -> Result<bool, String> {
    let at = |at: usize| sense.get(at).copied();
    let registers = match at(0).unwrap_or(0) & 0x7F {
        // Descriptors: that of an ATA status (09h) is 14 bytes long.
        0x72 | 0x73 => descriptor(sense, 0x09).and_then(|found| Some((*found.get(9)?, *found.get(11)?))),
        // Fixed format, where it says that it is of an ATA command (00h/1Dh).
        0x70 | 0x71 if (at(12), at(13)) == (Some(0x00), Some(0x1D)) => at(10).zip(at(11)),
        _ => None,
    };
    match registers {
        Some((0x4F, 0xC2)) => Ok(false),
        Some((0xF4, 0x2C)) => Ok(true),
        Some((middle, high)) => Err(format!(
            "SMART RETURN STATUS gave {middle:#04x} and {high:#04x}, which say nothing"
        )),
        None => Err("SMART RETURN STATUS gave no registers".to_owned()),
    }
}

/// A descriptor of sense data, by its kind.
fn descriptor(sense: &[u8], kind: u8) -> Option<&[u8]> {
    let mut rest = sense.get(8..)?;
    while let [found, length, ..] = rest {
        let end = 2 + usize::from(*length);
        if *found == kind {
            return rest.get(..end);
        }
        rest = rest.get(end..)?;
    }
    None
}

/// Reads page 07h of the device statistics (log 04h): the percentage used endurance indicator. None: the disk does not tell it.
#[must_use]
pub fn endurance(bytes: &[u8]) -> Option<u8> {
    let value = bytes.get(8..16)?;
    // Bit 63: there is such a value; bit 62: it is valid.
    (bytes[2] == 0x07 && value[7] & 0xC0 == 0xC0).then_some(value[0])
}

/// What was asked of a disk; an error: it has not answered that.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Who it is.
    pub identity: Identity,
    /// See [`attributes`].
    pub attributes: BTreeMap<u8, Attribute>,
    /// See [`thresholds`].
    pub thresholds: Result<BTreeMap<u8, u8>, String>,
    /// See [`status`].
    pub status: Result<bool, String>,
    /// See [`endurance`].
    pub endurance: Option<u8>,
}

/// What all of that says.
#[must_use]
pub fn health(answers: &Answers) -> Smart {
    let own = &answers.attributes;
    let raw = |number: u8, bits: u32| own.get(&number).map(|found| found.raw & ((1 << bits) - 1));
    let mut because: Vec<String> = match &answers.status {
        Ok(true) => vec!["SMART RETURN STATUS says that it is about to fail".to_owned()],
        _ => Vec::new(),
    };
    because.extend(below(own, &answers.thresholds));
    let failing = match (&answers.status, &answers.thresholds) {
        (Err(_), Err(_)) => None,
        _ => Some(!because.is_empty()),
    };
    let temperature = |number: u8| {
        let degrees = own.get(&number)?.raw as u8 as i8;
        // Some count other things by that number.
        (-40..=125).contains(&degrees).then_some(i32::from(degrees))
    };
    Smart {
        by: CommandSet::Ata,
        failing,
        because: short(&because.join("; ")),
        temperature_c: temperature(TEMPERATURES.1).or_else(|| temperature(TEMPERATURES.0)),
        warns_at_c: None,
        // The bits above are minutes and seconds at some.
        on_hours: raw(ON_HOURS, 24),
        used_percent: answers.endurance.or_else(|| wear(&answers.identity.model, own)),
        // The bits above are counts of other things at some.
        reallocated: raw(REALLOCATED, 16),
        pending: raw(PENDING, 32),
        uncorrectable: raw(REPORTED, 32).max(raw(OFFLINE, 32)),
        timeouts: raw(TIMEOUTS, 16),
        link_errors: raw(LINK_ERRORS, 32),
    }
}

/// Attributes that predict a failure, and have come down to their thresholds.
fn below(own: &BTreeMap<u8, Attribute>, thresholds: &Result<BTreeMap<u8, u8>, String>) -> Vec<String> {
    let thresholds = thresholds.as_ref().ok().into_iter().flatten();
    let found = thresholds.filter_map(|(number, threshold)| {
        let attribute = own.get(number)?;
        // 0 is never reached; 0 and those from 254 on are no values, and those thresholds are for tests of the host.
        let is_told = (1..=253).contains(&attribute.value) && (1..=253).contains(threshold);
        (is_told && attribute.predicts && attribute.value <= *threshold).then(|| {
            let value = attribute.value;
            format!("attribute {number} is at {value}, and fails from {threshold} down")
        })
    });
    found.collect()
}

/// Percent of life that is used, by the vendor's own attribute.
fn wear(model: &str, own: &BTreeMap<u8, Attribute>) -> Option<u8> {
    let model = model.to_ascii_uppercase();
    let begins = |names: &[&str]| names.iter().any(|name| model.starts_with(name));
    let (_, numbers) = WEAR.iter().find(|(names, _)| begins(names))?;
    let left = numbers.iter().find_map(|number| own.get(number))?.value;
    // 1 is the least: what is at it may be used up for long.
    (1..=100).contains(&left).then(|| 100 - left)
}
