//! A disk in memory: what is durable, what is only in its cache, and how it can fail.

use super::{Rng, SECTOR};
use std::io;

/// A write that the disk has heard of and that a power cut may lose.
#[derive(Clone, Debug)]
pub struct Loose {
    sequence: u64,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// A disk in memory.
#[derive(Clone, Debug)]
pub struct Disk {
    /// What a power cut leaves for sure.
    pub durable: Vec<u8>,
    /// What a read sees.
    pub view: Vec<u8>,
    /// Completed and not flushed; only with a volatile cache.
    pub cached: Vec<Loose>,
    pub volatile: bool,
    /// Does it take discards?
    pub discards: bool,
    /// Do they leave holes, as in a file?
    pub punches: bool,
    sequence: u64,
}

impl Disk {
    pub fn new(image: Vec<u8>, volatile: bool) -> Disk {
        Disk {
            view: image.clone(),
            durable: image,
            cached: Vec::new(),
            volatile,
            discards: false,
            punches: false,
            sequence: 0,
        }
    }

    /// How many writes it has in its cache or had there: what a flush that begins now covers.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let at = offset as usize;
        self.view[at..at + bytes.len()].copy_from_slice(bytes);
        if self.volatile {
            self.sequence += 1;
            self.cached.push(Loose {
                sequence: self.sequence,
                offset,
                bytes: bytes.to_vec(),
            });
        } else {
            self.durable[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// What was there is anything now: what it was in places, zeros or noise in others.
    pub fn discard(&mut self, offset: u64, bytes: u64) {
        let mut rng = Rng(offset ^ self.sequence ^ bytes << 40);
        let at = offset as usize;
        let mut now = self.view[at..at + bytes as usize].to_vec();
        for page in now.chunks_mut(super::BLOCK) {
            match rng.below(4) {
                0 => {}
                1 => page.fill(0),
                _ => page.copy_from_slice(&rng.bytes(page.len())),
            }
        }
        self.write(offset, &now);
    }

    pub fn flush(&mut self, up_to: u64) {
        let mut kept = Vec::new();
        for write in self.cached.drain(..) {
            if write.sequence > up_to {
                kept.push(write);
                continue;
            }
            let at = write.offset as usize;
            self.durable[at..at + write.bytes.len()].copy_from_slice(&write.bytes);
        }
        self.cached = kept;
    }

    /// One bit is not what it was, also after a power cut.
    pub fn rot(&mut self, at: usize, bit: u8) {
        self.view[at] ^= 1 << bit;
        self.durable[at] = self.view[at];
    }
}

/// What a power cut does to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Lost,
    Kept,
    /// Sectors chosen by this seed arrive.
    Torn(u64),
    /// The first sectors arrive.
    First(u16),
    /// All but the first sectors arrive.
    Last(u16),
    /// The space was a hole, and the file system has lost that it is none any more: it reads as zeros.
    Zeros,
}

impl Fate {
    /// Makes of `place`, which holds what was there before, what is there now.
    pub fn strike(self, place: &mut [u8], bytes: &[u8]) {
        assert_eq!(place.len(), bytes.len());
        match self {
            Fate::Lost => {}
            Fate::Kept => place.copy_from_slice(bytes),
            Fate::Zeros => place.fill(0),
            Fate::First(sectors) => {
                let end = bytes.len().min(usize::from(sectors) * SECTOR);
                place[..end].copy_from_slice(&bytes[..end]);
            }
            Fate::Last(sectors) => {
                let start = bytes.len().min(usize::from(sectors) * SECTOR);
                place[start..].copy_from_slice(&bytes[start..]);
            }
            Fate::Torn(seed) => {
                let mut rng = Rng(seed);
                for (to, from) in place.chunks_mut(SECTOR).zip(bytes.chunks(SECTOR)) {
                    if rng.chance(2) {
                        to.copy_from_slice(from);
                    }
                }
            }
        }
    }
}

/// How the device ends an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Good,
    /// It says this error (`libc::EIO`, ...), and nothing was done.
    Error(i32),
    /// It says this error; half of a write is there.
    Short(i32),
    /// It says that all is well; nothing was written, or zeros were read.
    Lost,
    /// It says that all is well; the bytes went to this offset, or come from there.
    Misdirected(u64),
}

impl Outcome {
    /// What the store is told.
    pub fn result(self) -> io::Result<()> {
        match self {
            Outcome::Good | Outcome::Lost | Outcome::Misdirected(_) => Ok(()),
            Outcome::Error(errno) | Outcome::Short(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}
