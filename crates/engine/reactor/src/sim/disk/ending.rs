//! How operations end: what they did, and what they left behind when they failed or were never told.

use super::cache::{CachedWrite, part_of};
use super::{Disk, Kind, Operation, SECTOR_BYTES, io_error, length_of};
use crate::buf::{BufMut, Segments};
use crate::sim::coverage::Fault;
use crate::sim::engine::Engine;
use std::io;
use std::ops::Range;

impl Disk {
    pub(super) fn check_end(&self, offset: u64, length: u64) -> io::Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.config.size_bytes => Ok(()),
            _ => {
                let text = format!(
                    "offset {offset}, length {length}: the disk ends at {}",
                    self.config.size_bytes
                );
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, text))
            }
        }
    }

    pub(super) fn read_ends(&mut self, engine: &mut Engine, offset: u64, buffer: &mut BufMut) -> io::Result<()> {
        let length = buffer.len() as u64;
        self.check(offset, length)?;
        self.check_end(offset, length)?;
        let rotten = self
            .faults
            .unreadable
            .iter()
            .any(|range| range.start < offset + length && offset < range.end);
        if rotten || engine.random.permille(self.faults.read_errors) {
            engine.coverage.count(Fault::DiskReadError);
            return Err(io_error());
        }
        let read = offset..offset + length;
        let touched = |range: &Range<u64>| read.start < range.end && range.start < read.end;
        if let Some(at) = self.faults.rotten.iter().position(touched) {
            let range = self.faults.rotten.swap_remove(at);
            self.rot(engine, range.start.max(read.start)..range.end.min(read.end));
        }
        if engine.random.permille(self.faults.bit_rot) {
            self.rot(engine, read);
        }
        self.load(offset, buffer);
        Ok(())
    }

    fn rot(&mut self, engine: &mut Engine, range: Range<u64>) {
        let at = range.start + engine.random.below(range.end - range.start);
        let bit = engine.random.below(8) as u8;
        self.flip(engine, at, bit);
    }

    pub(super) fn write_ends(&mut self, engine: &mut Engine, offset: u64, data: &Segments) -> io::Result<()> {
        let length = length_of(data);
        self.check(offset, length)?;
        self.check_end(offset, length)?;
        if engine.random.permille(self.faults.write_errors) {
            engine.coverage.count(Fault::DiskWriteError);
            match engine.random.below(3) {
                0 => self.apply(offset, data),
                1 => {}
                // The older writes of the cache come first, or they would hide what is left of this one.
                _ => {
                    self.destage();
                    self.undefined.remove(offset..offset + length);
                    self.durable.store_some(offset, data, |_| engine.random.below(2) == 0);
                }
            }
            return Err(io_error());
        }
        if engine.random.permille(self.faults.no_space) {
            engine.coverage.count(Fault::DiskNoSpace);
            self.write_first_part(engine, offset, data);
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        if engine.random.permille(self.faults.short_writes) {
            engine.coverage.count(Fault::DiskShortWrite);
            self.write_first_part(engine, offset, data);
            return Err(io::ErrorKind::WriteZero.into());
        }
        if engine.random.permille(self.faults.lost) {
            engine.coverage.count(Fault::DiskLostWrite);
            return Ok(());
        }
        let mut place = offset;
        if engine.random.permille(self.faults.misdirected) {
            engine.coverage.count(Fault::DiskMisdirected);
            let alignment = u64::from(self.config.alignment);
            let others = (self.config.size_bytes - length) / alignment;
            place = engine.random.below(others) * alignment;
            if place >= offset && others > 0 {
                place += alignment;
            }
        }
        self.apply(place, data);
        Ok(())
    }

    /// A whole number of sectors, less than all.
    fn write_first_part(&mut self, engine: &mut Engine, offset: u64, data: &Segments) {
        let sectors = engine.random.below(length_of(data).div_ceil(SECTOR_BYTES as u64));
        if sectors > 0 {
            self.apply(offset, &part_of(data, 0, sectors * SECTOR_BYTES as u64));
        }
    }

    pub(super) fn flush_ends(&mut self, engine: &mut Engine, covers: u64) -> io::Result<()> {
        let failed = engine.random.permille(self.faults.flush_errors);
        self.make_durable(covers, |_| !failed || engine.random.below(2) == 0);
        if failed {
            engine.coverage.count(Fault::DiskFlushError);
            if self.cache.iter().any(|cached| cached.ghost) {
                engine.coverage.count(Fault::DiskGhost);
            }
            return Err(io_error());
        }
        Ok(())
    }

    /// Can it be done at all?
    pub(super) fn check_discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.check(offset, bytes)?;
        self.check_end(offset, bytes)?;
        match self.config.discard {
            Some(_) => Ok(()),
            None => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        }
    }

    pub(super) fn discard_ends(&mut self, engine: &mut Engine, offset: u64, bytes: u64) -> io::Result<()> {
        self.check_discard(offset, bytes)?;
        if engine.random.permille(self.faults.discard_errors) {
            engine.coverage.count(Fault::DiskDiscardError);
            return Err(io_error());
        }
        Ok(())
    }

    /// Forgets what is under way; returns the changes that have not taken effect, oldest first.
    pub(super) fn abandon(&mut self, engine: &mut Engine) -> Vec<CachedWrite> {
        let mut changes = Vec::new();
        for operation in 0..self.operations.len() as u32 {
            let Some(Operation { order, kind, .. }) = self.take(operation) else {
                continue;
            };
            match kind {
                Kind::Write { offset, data }
                    if self.check(offset, length_of(&data)).is_ok()
                        && self.check_end(offset, length_of(&data)).is_ok() =>
                {
                    let change = CachedWrite {
                        offset,
                        data,
                        discard: false,
                    };
                    changes.push((order, change));
                }
                Kind::Discard {
                    offset,
                    bytes,
                    happened: false,
                    ..
                } if self.check_discard(offset, bytes).is_ok() => {
                    changes.push((order, self.discarded(engine, &(offset..offset + bytes))));
                }
                _ => {}
            }
        }
        changes.sort_by_key(|(order, _)| *order);
        changes.into_iter().map(|(_, change)| change).collect()
    }
}
