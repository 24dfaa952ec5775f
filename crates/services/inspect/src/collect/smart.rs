//! Asks a SATA or SAS disk for its health: what is asked, in which order, and what its answers come to.

use super::{ata, scsi};
use crate::inventory::Smart;
use crate::sys::{self, ScsiAnswer};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

/// What is asked of a disk. Nothing else can be: all of it only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScsiAsk {
    /// INQUIRY (SPC-5).
    Inquiry,
    /// IDENTIFY DEVICE (ACS-4).
    Identify,
    /// SMART READ DATA.
    Attributes,
    /// SMART READ THRESHOLDS.
    Thresholds,
    /// SMART RETURN STATUS.
    Status,
    /// READ LOG EXT: solid state device statistics (log 04h, page 07h).
    Statistics,
    /// LOG SENSE (SPC-5): that page.
    Log(u8),
    /// READ DEFECT DATA (10) (SBC-4): the header of the list of grown defects.
    Defects,
}

/// How much is asked for of a log page, and of INQUIRY.
const BYTES: (u16, u8) = (512, 96);

impl ScsiAsk {
    /// The command.
    #[must_use]
    pub fn command(self) -> Vec<u8> {
        match self {
            ScsiAsk::Inquiry => vec![0x12, 0, 0, 0, BYTES.1, 0],
            ScsiAsk::Identify => through(DATA_IN, 0, 0, (0, 0), 0xEC),
            ScsiAsk::Attributes => through(DATA_IN, 0xD0, 0, SMART, 0xB0),
            ScsiAsk::Thresholds => through(DATA_IN, 0xD1, 0, SMART, 0xB0),
            ScsiAsk::Status => through(NO_DATA, 0xDA, 0, SMART, 0xB0),
            ScsiAsk::Statistics => through(DATA_IN_EXTENDED, 0, 0x04, (0x07, 0), 0x2F),
            // Bits 7 and 6: cumulative values.
            ScsiAsk::Log(page) => {
                let [high, low] = BYTES.0.to_be_bytes();
                vec![0x4D, 0, 0x40 | (page & 0x3F), 0, 0, 0, 0, high, low, 0]
            }
            // Grown defects (bit 3) by their physical sectors (format 101b).
            ScsiAsk::Defects => vec![0x37, 0, 0x0D, 0, 0, 0, 0, 0, 4, 0],
        }
    }

    /// How much it gives, at most.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            ScsiAsk::Inquiry => usize::from(BYTES.1),
            ScsiAsk::Status => 0,
            ScsiAsk::Defects => 4,
            _ => usize::from(BYTES.0),
        }
    }
}

/// The protocol, and what moves, of ATA PASS-THROUGH (16) (SAT-5): data to the host, its length in sectors in the count; the same with a
/// command of 48 bits; and nothing but the registers (CK_COND).
const DATA_IN: (u8, u8, u8) = (4 << 1, 0x0E, 1);
const DATA_IN_EXTENDED: (u8, u8, u8) = (4 << 1 | 1, 0x0E, 1);
const NO_DATA: (u8, u8, u8) = (3 << 1, 0x20, 0);
/// What the middle and the high byte of the address are for SMART.
const SMART: (u8, u8) = (0x4F, 0xC2);

fn through(
    (protocol, flags, count): (u8, u8, u8),
    feature: u8,
    low: u8,
    (middle, high): (u8, u8),
    command: u8,
) -> Vec<u8> {
    vec![
        0x85, protocol, flags, 0, feature, 0, count, 0, low, 0, middle, 0, high, 0, command, 0,
    ]
}

/// Asks a disk of this machine that the kernel takes for a SCSI one.
///
/// # Errors
/// It does not say, or who asks may not.
pub fn smart_of(device: &str) -> Result<Smart, String> {
    let path = Path::new("/dev").join(device);
    // Not waiting: a drive without a medium would be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&path, flags, Mode::empty()).map_err(|why| format!("{}: {why}", path.display()))?;
    asked(&|ask| sys::ask_scsi(opened.as_fd(), ask)).map_err(|why| {
        let right = if why.contains("os error 1)") || why.contains("os error 13)") {
            " (it takes CAP_SYS_RAWIO)"
        } else {
            ""
        };
        format!("{}: {why}{right}", path.display())
    })
}

/// The way to a disk.
type Way<'a> = &'a dyn Fn(ScsiAsk) -> Result<ScsiAnswer, String>;

fn data(way: Way<'_>, ask: ScsiAsk) -> Result<Vec<u8>, String> {
    let answer = way(ask)?;
    match answer.status {
        0 => Ok(answer.data),
        2 => Err(scsi::refusal(&answer.sense)),
        other => Err(format!("the disk refuses with status {other:#04x}")),
    }
}

/// Asks a disk by that way.
pub(super) fn asked(way: Way<'_>) -> Result<Smart, String> {
    let inquiry = scsi::inquiry(&data(way, ScsiAsk::Inquiry)?)?;
    match (inquiry.is_disk, inquiry.is_ata) {
        (false, _) => Err("it is no disk".to_owned()),
        (true, true) => asked_ata(way),
        (true, false) => asked_scsi(way),
    }
}

fn asked_ata(way: Way<'_>) -> Result<Smart, String> {
    let identity = ata::identity(&data(way, ScsiAsk::Identify)?)?;
    match identity.smart {
        (false, _) => return Err("the disk has no SMART".to_owned()),
        (true, false) => return Err("its SMART is switched off: `smartctl --smart=on` switches it on".to_owned()),
        (true, true) => {}
    }
    let attributes = ata::attributes(&data(way, ScsiAsk::Attributes)?)?;
    let thresholds = data(way, ScsiAsk::Thresholds).and_then(|bytes| ata::thresholds(&bytes));
    // The registers come as sense data, whether it was done well or not.
    let status = way(ScsiAsk::Status).and_then(|answer| ata::status(&answer.sense));
    let statistics = match identity.may_tell_wear {
        true => data(way, ScsiAsk::Statistics).ok(),
        false => None,
    };
    Ok(ata::health(&ata::Answers {
        identity,
        attributes,
        thresholds,
        status,
        endurance: statistics.and_then(|bytes| ata::endurance(&bytes)),
    }))
}

fn asked_scsi(way: Way<'_>) -> Result<Smart, String> {
    let supported = data(way, ScsiAsk::Log(scsi::page::SUPPORTED)).and_then(|bytes| scsi::supported(&bytes));
    let supported = supported.map_err(|why| format!("it has no log pages: {why}"))?;
    let wanted = scsi::page::WANTED.into_iter().filter(|page| supported.contains(page));
    let pages: BTreeMap<u8, Vec<u8>> = wanted
        .filter_map(|page| Some((page, data(way, ScsiAsk::Log(page)).ok()?)))
        .collect();
    let defects = data(way, ScsiAsk::Defects).and_then(|bytes| scsi::grown_defects(&bytes));
    scsi::health(&pages, defects)
}

#[cfg(test)]
mod tests;
