//! Who has reserved a disk (Reservation Report; NVM Express Base Specification 2.1, 7.8): Linux tells that by a word of its own only from 6.13 on.

use super::passthrough::{self, Queue};
use std::fs::OpenOptions;
use std::io;
use uuid::Uuid;

/// A host that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its identifier.
    pub host: Uuid,
    /// Its key.
    pub key: u64,
    /// It holds the reservation.
    pub is_holder: bool,
}

const RESERVATION_REPORT: u8 = 0x0e;
/// "Extended Data Structure": host identifiers have 128 bits.
const EXTENDED: u32 = 1;
/// Of the head, and of each path of a host.
const RECORD: usize = 64;
/// Paths, at most.
const MOST: usize = 1023;

/// Asks who has reserved a disk.
///
/// # Errors
/// The disk cannot be opened, is none of NVMe, or does not say.
pub(super) fn read(device: &str) -> io::Result<Vec<Registered>> {
    let disk = OpenOptions::new().read(true).write(true).open(device)?;
    let nsid = passthrough::nsid(&disk)?;
    let mut report = vec![0; RECORD * (1 + MOST)];
    let dwords = u32::try_from(report.len() / 4 - 1).map_err(io::Error::other)?;
    let what = (Queue::Io, RESERVATION_REPORT);
    passthrough::read(&disk, what, nsid, [dwords, EXTENDED, 0, 0, 0, 0], &mut report)?;
    registered(&report)
}

/// Each host once, whatever paths it has.
fn registered(report: &[u8]) -> io::Result<Vec<Registered>> {
    let count = usize::from(u16::from_le_bytes([report[5], report[6]]));
    if count > MOST {
        return Err(io::Error::other(format!(
            "the disk has {count} registered paths: more than {MOST}"
        )));
    }
    let mut all = Vec::new();
    for record in report.chunks_exact(RECORD).skip(1).take(count) {
        let (mut key, mut host) = ([0; 8], [0; 16]);
        key.copy_from_slice(&record[8..16]);
        host.copy_from_slice(&record[16..32]);
        let one = Registered {
            host: Uuid::from_bytes(host),
            key: u64::from_le_bytes(key),
            is_holder: record[2] & 1 == 1,
        };
        if !all.contains(&one) {
            all.push(one);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_each_once() {
        let mut report = vec![0; RECORD * 4];
        report[5] = 3;
        for (number, (host, key, holds)) in [(7, 0xaa, 1), (7, 0xaa, 1), (9, 0xbb, 0)].into_iter().enumerate() {
            let record = &mut report[RECORD * (1 + number)..];
            record[2] = holds;
            record[8..16].copy_from_slice(&u64::to_le_bytes(key));
            record[16..32].fill(host);
        }
        let host = |byte: u8, key, is_holder| Registered {
            host: Uuid::from_bytes([byte; 16]),
            key,
            is_holder,
        };
        let found = registered(&report).expect("a report");
        assert_eq!(found, [host(7, 0xaa, true), host(9, 0xbb, false)]);
        report[6] = 0xff;
        registered(&report).expect_err("too many");
    }
}
