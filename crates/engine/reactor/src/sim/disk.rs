//! # The disk's fault model
//!
//! A disk is an array of sectors of 512 bytes; it is named, and it survives its host. What each party may count on:
//!
//! * **Time.** Every operation takes a seeded time, with a long tail; so operations complete in another order than
//!   they were started in. A slow factor stretches it, a stall holds every completion until it is over. Single operations
//!   may hang until somebody heals the disk or their process ends, while others go on.
//! * **Reads** return what had completed when the read completes. A write to the same sectors that is still under way
//!   is seen or not.
//! * **Writes** take effect when they complete. On a disk without a volatile cache that is durable. With one, a write
//!   is durable only after a flush that *started* after the write had completed; the disk may also destage it by
//!   itself at any time, and says nothing.
//! * **A power cut** takes the host, and of every write that was not durable (completed or under way) it leaves all,
//!   nothing, or some sectors, each write for itself, the older ones applied first. So a sector shows the durable
//!   contents or those of any later write, whatever the order of the writes among each other. Sectors are never torn
//!   inside. A flush under way has happened or not, which that covers.
//! * **The death of a process** leaves its completed writes alone: the kernel has them. Of those under way all
//!   happened, nothing did, or a first part (a multiple of 4 KiB), each for itself, before the next process can open
//!   the disk.
//! * **A failed write** left all, nothing or some sectors of itself behind. A failed read says nothing. **After a failed
//!   flush** some of the writes before it are gone at once: reads show what was there before them, and no later flush
//!   brings them back (what a device does that drops its cache); or reads show them still, and only a power cut tells
//!   (what Linux does with pages that it could not write: they count as clean).
//! * **A write that finds no space, or ends short**, is an error too; a first part of it, in sectors, may be there.
//! * **A discard** takes effect at some moment between its start and its completion. On a device each page of it then
//!   reads as what was there, as zeros or as noise, until it is written again, and may read otherwise after a power cut;
//!   in a file it is a hole, and reads as zeros. It is durable as a write is: after a flush, where there is a cache. Under
//!   way at a power cut it may have happened, in part or not at all.
//! * **A file** may have holes: where nothing was written yet, or a discard made one. A write there is durable only after a
//!   flush, cache or not. A power cut takes what waits for the file system's journal all at once, or settles it one by
//!   one; the lost extents read as zeros.
//! * **Rot**: a bit may be flipped, also by the read that finds it; a range may fail every read. **Lies**: a write may go
//!   to another place, or nowhere, and claim success. These are for tests that have other copies to recover from.
//! * Offsets and lengths that are no multiples of the alignment are refused, as are those beyond the end.
//!
//! Not modelled: a disk that reports success for a flush and forgets, and sectors torn inside (an NVMe disk promises
//! both).

mod cache;
mod config;
mod contents;
mod ending;
mod ranges;

pub use config::{Backing, DiskConfig, DiskFaults};

use super::coverage::Fault;
use super::engine::{Engine, Event, Process};
use crate::buf::{BufMut, Segments};
use crate::driver::{FileInfo, Outcome, Time, Token};
use cache::{Cached, CachedWrite, part_of};
use contents::Contents;
use ranges::Ranges;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a power cut leaves whole or not at all, in bytes.
pub const SECTOR_BYTES: usize = 512;

/// Contents are kept in pages of this many bytes; what was never written is zeros and takes no memory.
const PAGE_BYTES: usize = 4096;

/// One operation in this many takes ten times as long.
const LONG_TAIL: u64 = 64;

enum Kind {
    Read {
        offset: u64,
        buffer: BufMut,
    },
    Write {
        offset: u64,
        data: Segments,
    },
    /// With the order of the last write that had completed when it started.
    Flush {
        covers: u64,
    },
    /// With the moment at which it completes; it takes effect at some moment before.
    Discard {
        offset: u64,
        bytes: u64,
        ends: Time,
        happened: bool,
    },
}

struct Operation {
    process: Process,
    token: Token,
    order: u64,
    kind: Kind,
}

struct Disk {
    config: DiskConfig,
    durable: Contents,
    cache: Vec<Cached>,
    /// Where a write needs a note in the file system's journal before it is durable.
    holes: Ranges,
    /// The same, as a power cut would leave it if it took all that is not durable.
    durable_holes: Ranges,
    /// What was discarded on a device and has not been written since.
    undefined: Ranges,
    /// Changes so far.
    completed: u64,
    /// Started operations so far.
    started: u64,
    operations: Vec<Option<Operation>>,
    /// Operations that should have ended.
    hung: Vec<u32>,
    free: Vec<u32>,
    faults: DiskFaults,
    stalled_until: Time,
    opened_by: Option<Process>,
}

impl Disk {
    /// What a read shows: durable contents under the writes of the cache.
    fn load(&self, offset: u64, buffer: &mut [u8]) {
        self.durable.load(offset, buffer);
        let end = offset + buffer.len() as u64;
        for cached in &self.cache {
            let mut at = cached.change.offset;
            for piece in &cached.change.data {
                let (from, to) = (at.max(offset), (at + piece.len() as u64).min(end));
                if from < to {
                    let source = &piece[(from - at) as usize..(to - at) as usize];
                    buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
                }
                at += piece.len() as u64;
            }
        }
    }

    fn check(&self, offset: u64, length: u64) -> io::Result<()> {
        let alignment = u64::from(self.config.alignment);
        if !offset.is_multiple_of(alignment) || !length.is_multiple_of(alignment) || length == 0 {
            let text = format!("offset {offset}, length {length}: not in multiples of {alignment}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(())
    }

    /// A discard that has not happened yet does, and ends at the moment that is returned.
    fn take_effect(&mut self, engine: &mut Engine, operation: u32) -> Option<Time> {
        let started = self.operations[operation as usize].as_mut()?;
        let Kind::Discard {
            offset,
            bytes,
            ends,
            happened: happened @ false,
        } = &mut started.kind
        else {
            return None;
        };
        *happened = true;
        let (offset, bytes, ends) = (*offset, *bytes, *ends);
        if self.check_discard(offset, bytes).is_ok() {
            engine.coverage.count(Fault::DiskDiscarded);
            self.apply_discard(engine, offset..offset + bytes);
        }
        Some(ends)
    }

    /// A part of a change happens though its process has died.
    fn happen(&mut self, engine: &mut Engine, change: &CachedWrite, part: Range<u64>) {
        if change.discard {
            self.apply_discard(engine, part);
        } else {
            self.apply(part.start, &part_of(&change.data, 0, part.end - part.start));
        }
    }

    /// Does this operation hang, which should end now?
    fn hangs(&self, engine: &mut Engine, operation: u32) -> bool {
        let share = match self.operations[operation as usize]
            .as_ref()
            .map(|started| &started.kind)
        {
            Some(Kind::Read { .. }) => self.faults.read_hangs,
            _ => self.faults.write_hangs,
        };
        share > 0 && engine.random.permille(share)
    }

    fn take(&mut self, operation: u32) -> Option<Operation> {
        let taken = self.operations[operation as usize].take();
        if taken.is_some() {
            self.free.push(operation);
        }
        taken
    }
}

fn length_of(data: &Segments) -> u64 {
    data.iter().map(|piece| piece.len() as u64).sum()
}

fn io_error() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

/// All disks of a world. A file is its index.
#[derive(Default)]
pub(super) struct Disks {
    disks: Vec<Disk>,
    names: BTreeMap<PathBuf, u32>,
}

impl Disks {
    pub fn create(&mut self, name: &Path, config: DiskConfig) {
        assert!(config.alignment.is_power_of_two(), "an alignment is a power of two");
        let index = self.disks.len() as u32;
        let before = self.names.insert(name.to_owned(), index);
        assert!(before.is_none(), "there is a disk {} already", name.display());
        let mut holes = Ranges::default();
        if config.backing == Backing::SparseFile {
            holes.insert(0..config.size_bytes);
        }
        self.disks.push(Disk {
            config,
            durable: Contents::default(),
            cache: Vec::new(),
            durable_holes: holes.clone(),
            holes,
            undefined: Ranges::default(),
            completed: 0,
            started: 0,
            operations: Vec::new(),
            hung: Vec::new(),
            free: Vec::new(),
            faults: DiskFaults::default(),
            stalled_until: Time(0),
            opened_by: None,
        });
    }

    fn named(&mut self, name: &Path) -> &mut Disk {
        match self.names.get(name) {
            Some(&index) => &mut self.disks[index as usize],
            None => panic!("there is no disk {}", name.display()),
        }
    }

    pub fn faults(&mut self, name: &Path) -> &mut DiskFaults {
        &mut self.named(name).faults
    }

    /// What hangs ends, unless the disk still has operations hang.
    pub fn release(&mut self, engine: &mut Engine, name: &Path) {
        let index = self.names[name];
        let disk = &mut self.disks[index as usize];
        if disk.faults.read_hangs + disk.faults.write_hangs > 0 {
            return;
        }
        for operation in std::mem::take(&mut disk.hung) {
            engine.at(engine.now, Event::Disk { disk: index, operation });
        }
    }

    pub fn stall(&mut self, name: &Path, until: Time) {
        let disk = self.named(name);
        disk.stalled_until = disk.stalled_until.max(until);
    }

    /// Writes past all faults, durably: to format a disk.
    pub fn write(&mut self, name: &Path, offset: u64, bytes: &[u8]) {
        let disk = self.named(name);
        disk.check_end(offset, bytes.len() as u64)
            .expect("a write inside the disk");
        disk.write_durably(offset, bytes);
    }

    /// What a read would show now.
    pub fn read(&mut self, name: &Path, offset: u64, buffer: &mut [u8]) {
        self.named(name).load(offset, buffer);
    }

    pub fn flip(&mut self, engine: &mut Engine, name: &Path, offset: u64, bit: u8) {
        self.named(name).flip(engine, offset, bit);
    }

    pub fn open(&mut self, engine: &Engine, process: Process, name: &Path) -> io::Result<(u32, FileInfo)> {
        let Some(&index) = self.names.get(name) else {
            let text = format!("{}: there is no such file or device", name.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        };
        let disk = &mut self.disks[index as usize];
        if disk.opened_by.is_some_and(|holder| engine.is_alive(holder)) {
            return Err(crate::driver::in_use(name));
        }
        disk.opened_by = Some(process);
        let holes = !disk.holes.is_empty();
        let info = FileInfo {
            size_bytes: disk.config.size_bytes,
            alignment: disk.config.alignment,
            volatile_cache: disk.config.volatile_cache || holes,
            inline: disk.config.inline,
            discard: disk.config.discard.is_some(),
            discard_makes_holes: disk.config.backing != Backing::Device,
            holes,
        };
        Ok((index, info))
    }

    pub fn start_read(&mut self, engine: &mut Engine, process: Process, disk: u32, read: (u64, BufMut), token: Token) {
        let (offset, buffer) = read;
        let takes = self.disks[disk as usize].config.read;
        self.start(engine, process, disk, Kind::Read { offset, buffer }, token, takes);
    }

    pub fn start_write(
        &mut self,
        engine: &mut Engine,
        process: Process,
        disk: u32,
        write: (u64, Segments),
        token: Token,
    ) {
        let (offset, data) = write;
        let takes = self.disks[disk as usize].config.write;
        self.start(engine, process, disk, Kind::Write { offset, data }, token, takes);
    }

    pub fn start_flush(&mut self, engine: &mut Engine, process: Process, disk: u32, token: Token) {
        let this = &self.disks[disk as usize];
        let takes = if this.config.volatile_cache || !this.cache.is_empty() {
            this.config.flush
        } else {
            (Duration::ZERO, Duration::ZERO)
        };
        self.start(
            engine,
            process,
            disk,
            Kind::Flush { covers: this.completed },
            token,
            takes,
        );
    }

    pub fn start_discard(&mut self, engine: &mut Engine, process: Process, disk: u32, range: (u64, u64), token: Token) {
        let takes = self.disks[disk as usize].config.discard.unwrap_or_default();
        let kind = Kind::Discard {
            offset: range.0,
            bytes: range.1,
            ends: engine.now,
            happened: false,
        };
        self.start(engine, process, disk, kind, token, takes);
    }

    fn start(
        &mut self,
        engine: &mut Engine,
        process: Process,
        disk: u32,
        mut kind: Kind,
        token: Token,
        takes: (Duration, Duration),
    ) {
        let this = &mut self.disks[disk as usize];
        assert_eq!(
            this.opened_by,
            Some(process),
            "file {disk} was opened by another process"
        );
        let mut takes = engine.random.duration(takes);
        if engine.random.below(LONG_TAIL) == 0 {
            takes *= 10;
        }
        if this.faults.slow_factor > 1 {
            engine.coverage.count(Fault::DiskSlow);
            takes *= this.faults.slow_factor;
        }
        let mut at = engine.now.plus(takes);
        if let Kind::Discard { ends, .. } = &mut kind {
            *ends = at;
            at = engine
                .now
                .plus(Duration::from_nanos(engine.random.below(takes.as_nanos() as u64 + 1)));
        }
        this.started += 1;
        let started = Operation {
            process,
            token,
            order: this.started,
            kind,
        };
        let operation = match this.free.pop() {
            Some(operation) => {
                this.operations[operation as usize] = Some(started);
                operation
            }
            None => {
                this.operations.push(Some(started));
                (this.operations.len() - 1) as u32
            }
        };
        engine.at(at, Event::Disk { disk, operation });
    }

    /// An operation ends; of a discard, first its effect.
    pub fn ended(&mut self, engine: &mut Engine, disk: u32, operation: u32) {
        let index = disk;
        let disk = &mut self.disks[disk as usize];
        let Some(order) = disk.operations[operation as usize]
            .as_ref()
            .map(|operation| operation.order)
        else {
            return; // its process died, and what it did was settled then
        };
        if disk.stalled_until > engine.now {
            engine.coverage.count(Fault::DiskStalled);
            return engine.at(disk.stalled_until, Event::Disk { disk: index, operation });
        }
        if disk.hangs(engine, operation) {
            engine.coverage.count(Fault::DiskHung);
            return disk.hung.push(operation);
        }
        if let Some(at) = disk.take_effect(engine, operation) {
            return engine.at(at, Event::Disk { disk: index, operation });
        }
        if disk.operations.iter().flatten().any(|other| other.order < order) {
            engine.coverage.count(Fault::DiskReordered);
        }
        let Some(Operation {
            process, token, kind, ..
        }) = disk.take(operation)
        else {
            return;
        };
        let outcome = match kind {
            Kind::Read { offset, mut buffer } => {
                let result = disk.read_ends(engine, offset, &mut buffer);
                Outcome::Read { buffer, result }
            }
            Kind::Write { offset, data } => {
                let result = disk.write_ends(engine, offset, &data);
                Outcome::Written { data, result }
            }
            Kind::Flush { covers } => Outcome::Flushed {
                result: disk.flush_ends(engine, covers),
            },
            Kind::Discard { offset, bytes, .. } => Outcome::Discarded {
                result: disk.discard_ends(engine, offset, bytes),
            },
        };
        engine.complete(process, token, outcome);
    }

    /// A process has died; the kernel lives on.
    pub fn killed(&mut self, engine: &mut Engine, process: Process) {
        for disk in self.disks.iter_mut().filter(|disk| disk.opened_by == Some(process)) {
            disk.opened_by = None;
            disk.hung.clear();
            for change in disk.abandon(engine) {
                match engine.random.below(3) {
                    0 => {
                        engine.coverage.count(Fault::KillKept);
                        disk.happen(engine, &change, change.range());
                    }
                    1 => engine.coverage.count(Fault::KillLost),
                    _ => {
                        engine.coverage.count(Fault::KillPartial);
                        let pages = engine.random.below(length_of(&change.data).div_ceil(PAGE_BYTES as u64));
                        disk.happen(
                            engine,
                            &change,
                            change.offset..change.offset + pages * PAGE_BYTES as u64,
                        );
                    }
                }
            }
        }
    }

    /// A host has lost its power.
    pub fn power_cut(&mut self, engine: &mut Engine, process: Process) {
        for disk in self.disks.iter_mut().filter(|disk| disk.opened_by == Some(process)) {
            disk.opened_by = None;
            disk.hung.clear();
            disk.lose_power(engine);
            if disk
                .operations
                .iter()
                .flatten()
                .any(|operation| matches!(operation.kind, Kind::Flush { .. }))
            {
                engine.coverage.count(Fault::CutFlush);
            }
            for change in disk.abandon(engine) {
                engine.coverage.count(if change.discard {
                    Fault::CutDiscard
                } else {
                    Fault::CutInFlight
                });
                disk.settle(engine, &change);
            }
            disk.find_holes();
        }
    }
}
