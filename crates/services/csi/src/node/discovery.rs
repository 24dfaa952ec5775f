//! The discovery log of NVMe over Fabrics (NVM Express Base Specification 2.1, 5.1.12.3.1): which subsystems a gateway knows for this host, and where they
//! are. A path is lent to it by the kernel; the log is read by an ioctl of that.

use super::passthrough::{self, Queue};
use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;

/// The name under which every gateway has a discovery service.
pub(super) const NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Of the head, and of each entry.
const RECORD: usize = 1024;
/// Entries at most: a volume of each subsystem that there can be, at 64 gateways.
const MOST: usize = 1024 * 64;
/// Bytes of one command.
const PIECE: usize = 16 * RECORD;

/// What the log says of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub nqn: String,
    pub address: SocketAddr,
}

const GET_LOG_PAGE: u8 = 0x02;
const DISCOVERY_LOG: u32 = 0x70;

/// Reads a piece of the log.
fn piece(device: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
    // "Number of Dwords [...] 0's based".
    let dwords = u32::try_from(into.len() / 4 - 1).map_err(io::Error::other)?;
    let [low, high] = [offset as u32, (offset >> 32) as u32];
    let dwords_10 = [DISCOVERY_LOG | (dwords & 0xffff) << 16, dwords >> 16, low, high, 0, 0];
    passthrough::read(device, (Queue::Admin, GET_LOG_PAGE), 0, dwords_10, into)
}

/// Reads the whole log by a path to a discovery service.
///
/// # Errors
/// The device cannot be opened, the gateway refuses, or the log was changed meanwhile.
pub(super) fn read(device: &str) -> io::Result<Vec<u8>> {
    let device = OpenOptions::new().read(true).write(true).open(device)?;
    let mut log = vec![0; RECORD];
    piece(&device, 0, &mut log)?;
    let count = count(&log);
    if count > MOST {
        return Err(io::Error::other(format!(
            "the log has {count} entries: more than {MOST}"
        )));
    }
    let end = RECORD * (1 + count);
    while log.len() < end {
        let at = log.len();
        log.resize(end.min(at + PIECE), 0);
        piece(&device, at as u64, &mut log[at..])?;
    }
    let mut now = vec![0; RECORD];
    piece(&device, 0, &mut now)?;
    // The generation.
    match now[..8] == log[..8] {
        true => Ok(log),
        false => Err(io::Error::other("the log was changed while it was read")),
    }
}

fn count(log: &[u8]) -> usize {
    let field = log.get(8..16).and_then(|bytes| bytes.try_into().ok());
    usize::try_from(u64::from_le_bytes(field.unwrap_or_default())).unwrap_or(usize::MAX)
}

fn text(field: &[u8]) -> &str {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    std::str::from_utf8(&field[..end]).unwrap_or_default().trim()
}

/// The NVM subsystems by TCP that a log has; what it says in another way is left out.
pub(super) fn entries(log: &[u8]) -> Vec<Entry> {
    let records = log.chunks_exact(RECORD).skip(1).take(count(log));
    let entry = |record: &[u8]| {
        const TCP: u8 = 3;
        const NVM_SUBSYSTEM: u8 = 2;
        let is_one = record[0] == TCP && record[2] == NVM_SUBSYSTEM;
        let port = text(&record[32..64]).parse().ok().filter(|_| is_one)?;
        let ip = text(&record[512..768]).parse().ok()?;
        Some(Entry {
            nqn: text(&record[256..512]).to_owned(),
            address: SocketAddr::new(ip, port),
        })
    };
    records.filter_map(entry).collect()
}

/// A log, for units: of each subsystem the addresses.
#[cfg(test)]
pub(super) fn made_up(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut log = vec![0; RECORD];
    log[8] = entries.len() as u8;
    for (nqn, address) in entries {
        let address: SocketAddr = address.parse().expect("an address");
        let mut record = vec![0; RECORD];
        (record[0], record[1], record[2]) = (3, 1, 2);
        let mut put = |at: usize, text: &str| record[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(32, &format!("{:<32}", address.port()));
        put(256, nqn);
        put(512, &format!("{:<256}", address.ip()));
        log.extend(record);
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_and_what_is_no_path_is_left_out() {
        let all = [
            ("nqn.2014-08.org.example:a", "192.0.2.1:4420"),
            ("nqn.2014-08.org.example:b", "[2001:db8::1]:4421"),
        ];
        let mut log = made_up(&all);
        let found = entries(&log);
        let wanted = all.map(|(nqn, address)| Entry {
            nqn: nqn.to_owned(),
            address: address.parse().expect("an address"),
        });
        assert_eq!(found, wanted);
        // A discovery service; a port that is none; more entries said than there are.
        log[RECORD + 2] = 1;
        assert_eq!(entries(&log), wanted[1..]);
        log[2 * RECORD + 32] = b'x';
        assert_eq!(entries(&log), []);
        log[8..16].fill(0xff);
        assert_eq!(entries(&log), []);
        assert_eq!(entries(&[]), []);
    }
}
