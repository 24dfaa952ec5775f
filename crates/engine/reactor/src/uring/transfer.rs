//! Reads, writes and flushes of files: at once where the backing is memory, else by the ring; whole or an error.

use super::file::Way;
use super::ring::{Payload, Reaped, Verb};
use super::{Meta, UringDriver, is_passing, sys};
use crate::buf::{BLOCK_ALIGNMENT, BufMut, Pool, Segments};
use crate::driver::{FileId, Outcome, Token};
use std::io;
use std::os::fd::AsRawFd;

impl UringDriver {
    pub(super) fn start_read(&mut self, file: FileId, offset: u64, mut buffer: BufMut, token: Token) {
        let total = buffer.len();
        let open = &self.files[file.0 as usize];
        let descriptor = open.file.as_raw_fd();
        let mut bounce = None;
        match open.way {
            _ if total == 0 => return self.complete(token, Outcome::Read { buffer, result: Ok(()) }),
            Way::Memory | Way::Cached if total <= self.config.inline_bytes => {
                if open.map.as_ref().is_some_and(|map| map.read(offset, &mut buffer)) {
                    return self.complete(token, Outcome::Read { buffer, result: Ok(()) });
                }
                let only_cached = open.way == Way::Cached;
                self.counts.file_calls += 1;
                let result = sys::read_inline(descriptor, offset, &mut buffer, only_cached);
                let missed = result.as_ref().is_err_and(|error| {
                    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EOPNOTSUPP)) && only_cached
                });
                if !missed {
                    return self.complete(token, Outcome::Read { buffer, result });
                }
            }
            Way::Direct { memory_alignment } if !is_aligned(&buffer, memory_alignment) => {
                let aligned = self.bounce(total);
                bounce = Some(std::mem::replace(&mut buffer, aligned));
            }
            Way::Memory | Way::Cached | Way::Direct { .. } => {}
        }
        self.urgent = true;
        let target = self.files[file.0 as usize].target;
        let meta = Meta::Read {
            file: file.0,
            token,
            total,
            done: 0,
            bounce,
        };
        self.ring
            .start(Verb::Read { offset }, target, Payload::Buffer(buffer), meta);
        self.hand_over_early();
    }

    pub(super) fn start_write(&mut self, file: FileId, offset: u64, data: Segments, token: Token) {
        let total = data.iter().map(|piece| piece.len()).sum();
        let open = &mut self.files[file.0 as usize];
        let mut bounce = None;
        let mut payload = Payload::Data(data);
        match (open.way, &mut payload) {
            (_, Payload::Data(data)) if total == 0 => {
                let data = std::mem::take(data);
                return self.complete(token, Outcome::Written { data, result: Ok(()) });
            }
            (Way::Memory | Way::Cached, Payload::Data(data)) if total <= self.config.inline_bytes => {
                let mapped = open.map.as_mut().is_some_and(|map| map.write(offset, data, total));
                let result = if mapped {
                    Ok(())
                } else {
                    self.counts.file_calls += 1;
                    sys::write_inline(open.file.as_raw_fd(), offset, data, &mut self.vectors)
                };
                if result.is_ok()
                    && !mapped
                    && let Some(map) = &mut open.map
                {
                    map.note(offset, total);
                }
                let data = std::mem::take(data);
                return self.complete(token, Outcome::Written { data, result });
            }
            (Way::Direct { memory_alignment }, Payload::Data(data))
                if !data.iter().all(|piece| is_aligned(piece, memory_alignment)) =>
            {
                let mut aligned = self.bounce(total);
                let mut done = 0;
                for piece in data.iter() {
                    aligned[done..done + piece.len()].copy_from_slice(piece);
                    done += piece.len();
                }
                bounce = Some(std::mem::take(data));
                payload = Payload::Buffer(aligned);
            }
            _ => {}
        }
        self.urgent = true;
        let target = self.files[file.0 as usize].target;
        let meta = Meta::Write {
            file: file.0,
            token,
            total,
            done: 0,
            bounce,
        };
        self.ring.start(Verb::Write { offset }, target, payload, meta);
        self.hand_over_early();
    }

    /// A device that waits for the end of a long pass idles meanwhile, and then its answers come all at once again. So
    /// every few operations go at once; a pass that starts fewer costs no further call.
    fn hand_over_early(&mut self) {
        self.device_started += 1;
        if self.config.device_batch > 0 && self.device_started >= self.config.device_batch {
            self.device_started = 0;
            self.submit();
        }
    }

    pub(super) fn start_flush(&mut self, file: FileId, token: Token) {
        let open = &self.files[file.0 as usize];
        if open.way == Way::Memory {
            return self.complete(token, Outcome::Flushed { result: Ok(()) });
        }
        self.urgent = true;
        self.ring
            .start(Verb::Flush, open.target, Payload::None, Meta::Flush { token });
    }

    pub(super) fn read_ended(&mut self, event: Reaped, result: io::Result<usize>) {
        let Some(Meta::Read { file, total, done, .. }) = self.ring.meta(event.slot) else {
            return;
        };
        let result = match result {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                *done += count;
                Ok(*done == *total)
            }
            Err(error) if is_passing(&error) => Ok(false),
            Err(error) => Err(error),
        };
        if let Ok(false) = result {
            let (target, done) = (self.files[*file as usize].target, *done);
            self.urgent = true;
            return self.ring.restart(event.slot, target, done);
        }
        if let Some((Meta::Read { token, bounce, .. }, Payload::Buffer(mut buffer))) = self.ring.take(event.slot) {
            if let Some(mut given) = bounce {
                given.copy_from_slice(&buffer);
                buffer = given;
            }
            self.complete(
                token,
                Outcome::Read {
                    buffer,
                    result: result.map(drop),
                },
            );
        }
    }

    pub(super) fn write_ended(&mut self, event: Reaped, result: io::Result<usize>) {
        let Some(Meta::Write { file, total, done, .. }) = self.ring.meta(event.slot) else {
            return;
        };
        let result = match result {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                *done += count;
                Ok(*done == *total)
            }
            Err(error) if is_passing(&error) => Ok(false),
            Err(error) => Err(error),
        };
        if let Ok(false) = result {
            let (target, done) = (self.files[*file as usize].target, *done);
            self.urgent = true;
            return self.ring.restart(event.slot, target, done);
        }
        if let Some((Meta::Write { token, bounce, .. }, payload)) = self.ring.take(event.slot) {
            let data = match (bounce, payload) {
                (Some(given), _) => given,
                (None, Payload::Data(data)) => data,
                (None, _) => Segments::new(),
            };
            self.complete(
                token,
                Outcome::Written {
                    data,
                    result: result.map(drop),
                },
            );
        }
    }

    /// Memory for direct I/O in place of memory that is not aligned.
    fn bounce(&self, bytes: usize) -> BufMut {
        let pooled = self.pool.take(bytes).or_else(|| Pool::heap().take(bytes));
        pooled.expect("the heap gives memory or ends the process")
    }
}

fn is_aligned(bytes: &[u8], alignment: u32) -> bool {
    let alignment = (alignment.max(1) as usize).min(BLOCK_ALIGNMENT);
    bytes.as_ptr().addr().is_multiple_of(alignment) && bytes.len().is_multiple_of(alignment)
}
