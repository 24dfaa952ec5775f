//! What controllers tell about themselves: identify structures and log pages, read by their offsets.

use crate::Error;
use crate::wire::{u16_at, u32_at, u64_at};

/// Identify Controller (NVM Express Base 2.1, 5.1.13.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentifyController(pub Vec<u8>);

impl IdentifyController {
    /// The structure in those bytes.
    ///
    /// # Errors
    /// When they are too few.
    pub fn read(bytes: Vec<u8>) -> Result<IdentifyController, Error> {
        if bytes.len() != 4096 {
            return Err(Error::Malformed(format!("Identify gave {} bytes", bytes.len())));
        }
        Ok(IdentifyController(bytes))
    }

    #[must_use]
    pub fn byte(&self, at: usize) -> u8 {
        self.0[at]
    }

    /// A number of 16 bits.
    #[must_use]
    pub fn word(&self, at: usize) -> u16 {
        u16_at(&self.0, at)
    }

    /// A number of 32 bits.
    #[must_use]
    pub fn dword(&self, at: usize) -> u32 {
        u32_at(&self.0, at)
    }

    /// A text, without its padding.
    #[must_use]
    pub fn text(&self, at: usize, length: usize) -> String {
        text(&self.0[at..at + length])
    }

    /// Optional commands (ONCS).
    #[must_use]
    pub fn optional(&self) -> u16 {
        self.word(520)
    }

    /// The most bytes of one command (MDTS), `None` without a limit; of a smallest page of 4 KiB.
    #[must_use]
    pub fn max_transfer_bytes(&self) -> Option<u64> {
        match self.byte(77) {
            0 => None,
            shift => 4096u64.checked_shl(u32::from(shift)),
        }
    }

    /// Data that a capsule of an I/O queue holds, from IOCCSZ and ICDOFF.
    #[must_use]
    pub fn in_capsule_bytes(&self) -> usize {
        let capsule = self.dword(1792) as usize * 16;
        capsule.saturating_sub(64 + usize::from(self.word(1800)) * 16)
    }
}

/// Identify Namespace of the NVM command set (NVM Command Set 1.1, 4.1.5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentifyNamespace(pub Vec<u8>);

impl IdentifyNamespace {
    /// The structure in those bytes.
    ///
    /// # Errors
    /// When they are too few.
    pub fn read(bytes: Vec<u8>) -> Result<IdentifyNamespace, Error> {
        if bytes.len() != 4096 {
            return Err(Error::Malformed(format!("Identify gave {} bytes", bytes.len())));
        }
        let namespace = IdentifyNamespace(bytes);
        let shift = namespace.shift();
        if namespace.blocks() > 0 && !(9..=16).contains(&shift) {
            return Err(Error::Malformed(format!("LBADS of the namespace's format is {shift}")));
        }
        Ok(namespace)
    }

    #[must_use]
    pub fn byte(&self, at: usize) -> u8 {
        self.0[at]
    }

    /// A number of 16 bits.
    #[must_use]
    pub fn word(&self, at: usize) -> u16 {
        u16_at(&self.0, at)
    }

    /// A number of 32 bits.
    #[must_use]
    pub fn dword(&self, at: usize) -> u32 {
        u32_at(&self.0, at)
    }

    /// Blocks (NSZE).
    #[must_use]
    pub fn blocks(&self) -> u64 {
        u64_at(&self.0, 0)
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        1 << self.shift()
    }

    fn shift(&self) -> u8 {
        let format = usize::from(self.byte(26) & 15);
        self.byte(128 + 4 * format + 2)
    }
}

/// The numbers in a list of namespaces, up to its first zero.
#[must_use]
pub fn namespaces_of(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks_exact(4)
        .map(|four| u32_at(four, 0))
        .take_while(|&nsid| nsid != 0)
        .collect()
}

/// A text of ASCII, without spaces and zeroes at its end.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches(['\0', ' ']).to_string()
}

/// The discovery log (Base 2.1, 5.1.12.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryLog {
    /// The generation counter.
    pub generation: u64,
    /// Records that there are.
    pub records: u64,
    /// The format of the records.
    pub format: u16,
    /// Records that were read.
    pub entries: Vec<DiscoveryEntry>,
}

/// A record of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryEntry {
    /// 3 is TCP.
    pub transport: u8,
    /// 1 is IPv4, 2 is IPv6.
    pub family: u8,
    /// 1 referral, 2 NVM subsystem, 3 this discovery subsystem.
    pub kind: u8,
    /// Requirements: bits 1:0 say whether a secure channel is needed.
    pub requirements: u8,
    /// The port's number.
    pub port: u16,
    /// The controller, 0xffff for any.
    pub controller: u16,
    /// The most entries of an admin queue.
    pub admin_entries: u16,
    pub flags: u16,
    /// The port, as text.
    pub service: String,
    /// The subsystem's NQN.
    pub nqn: String,
    /// The address, as text.
    pub address: String,
    /// The kind of security: 0 none, 2 TLS 1.3.
    pub security: u8,
}

impl DiscoveryLog {
    /// The log in those bytes.
    ///
    /// # Errors
    /// When they are less than a header.
    pub fn read(bytes: &[u8]) -> Result<DiscoveryLog, Error> {
        if bytes.len() < 1024 {
            return Err(Error::Malformed(format!("a discovery log of {} bytes", bytes.len())));
        }
        let records = u64_at(bytes, 8);
        let entries = bytes[1024..]
            .chunks_exact(1024)
            .take(usize::try_from(records).unwrap_or(usize::MAX));
        Ok(DiscoveryLog {
            generation: u64_at(bytes, 0),
            records,
            format: u16_at(bytes, 16),
            entries: entries
                .map(|entry| DiscoveryEntry {
                    transport: entry[0],
                    family: entry[1],
                    kind: entry[2],
                    requirements: entry[3],
                    port: u16_at(entry, 4),
                    controller: u16_at(entry, 6),
                    admin_entries: u16_at(entry, 8),
                    flags: u16_at(entry, 10),
                    service: text(&entry[32..64]),
                    nqn: text(&entry[256..512]),
                    address: text(&entry[512..768]),
                    security: entry[768],
                })
                .collect(),
        })
    }
}

/// The ANA log (Base 2.1, 5.1.12.1.13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnaLog {
    pub changes: u64,
    pub groups: Vec<AnaGroup>,
}

/// A group of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnaGroup {
    pub id: u32,
    pub changes: u64,
    /// Its state: 1 optimized, 2 non-optimized, 3 inaccessible, 4 persistent loss, 15 change.
    pub state: u8,
    pub namespaces: Vec<u32>,
}

impl AnaLog {
    /// The log in those bytes.
    ///
    /// # Errors
    /// When they end in the middle.
    pub fn read(bytes: &[u8]) -> Result<AnaLog, Error> {
        let short = || Error::Malformed("the ANA log ends in the middle of a group".into());
        if bytes.len() < 16 {
            return Err(short());
        }
        let mut groups = Vec::new();
        let mut at = 16;
        for _ in 0..u16_at(bytes, 8) {
            let head = bytes.get(at..at + 32).ok_or_else(short)?;
            let count = u32_at(head, 4) as usize;
            at += 32;
            let list = bytes.get(at..at + 4 * count).ok_or_else(short)?;
            at += 4 * count;
            groups.push(AnaGroup {
                id: u32_at(head, 0),
                changes: u64_at(head, 8),
                state: head[16] & 15,
                namespaces: list.chunks_exact(4).map(|four| u32_at(four, 0)).collect(),
            });
        }
        Ok(AnaLog {
            changes: u64_at(bytes, 0),
            groups,
        })
    }
}
