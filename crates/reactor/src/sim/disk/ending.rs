//! How operations end: what they did, and what they left behind when they failed or were never told.

use super::{Disk, Kind, Operation, io_error, length_of};
use crate::buf::{BufMut, Segments};
use crate::sim::coverage::Fault;
use crate::sim::engine::Engine;
use std::io;

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
        self.load(offset, buffer);
        Ok(())
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
                    for cached in std::mem::take(&mut self.cache) {
                        self.durable.store_all(cached.offset, &cached.data);
                    }
                    self.durable.store_some(offset, data, |_| engine.random.below(2) == 0);
                }
            }
            return Err(io_error());
        }
        if engine.random.permille(self.faults.lost) {
            engine.coverage.count(Fault::DiskLostWrite);
            return Ok(());
        }
        let mut place = offset;
        if engine.random.permille(self.faults.misdirected) {
            engine.coverage.count(Fault::DiskMisdirected);
            let alignment = u64::from(self.config.alignment);
            place = engine.random.below((self.config.size_bytes - length) / alignment + 1) * alignment;
        }
        self.apply(place, data);
        Ok(())
    }

    pub(super) fn flush_ends(&mut self, engine: &mut Engine, covers: u64) -> io::Result<()> {
        let failed = engine.random.permille(self.faults.flush_errors);
        let covered = self.cache.partition_point(|cached| cached.order <= covers);
        let rest = self.cache.split_off(covered);
        for cached in std::mem::replace(&mut self.cache, rest) {
            if !failed || engine.random.below(2) == 0 {
                self.durable.store_all(cached.offset, &cached.data);
            }
        }
        if failed {
            engine.coverage.count(Fault::DiskFlushError);
            return Err(io_error());
        }
        Ok(())
    }

    /// Forgets what is under way; returns the writes, oldest first.
    pub(super) fn abandon(&mut self) -> Vec<(u64, Segments)> {
        let mut writes = Vec::new();
        for operation in 0..self.operations.len() as u32 {
            if let Some(Operation {
                order,
                kind: Kind::Write { offset, data },
                ..
            }) = self.take(operation)
                && self.check(offset, length_of(&data)).is_ok()
                && self.check_end(offset, length_of(&data)).is_ok()
            {
                writes.push((order, offset, data));
            }
        }
        writes.sort_by_key(|(order, _, _)| *order);
        writes.into_iter().map(|(_, offset, data)| (offset, data)).collect()
    }
}

/// The first `length` bytes.
pub(super) fn first(data: &Segments, length: usize) -> Segments {
    let mut left = length;
    let mut pieces = Segments::new();
    for piece in data {
        let take = left.min(piece.len());
        pieces.push(piece.slice(..take));
        left -= take;
    }
    pieces
}
