//! One queue of a load.

use super::Load;
use crate::wire::{Command, Descriptor, Digests, Pdu, Status, flag, io, kind, u16_at, u32_at};
use crate::{Controller, Error, Settings};
use amita_testkit::histogram::Histogram;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use std::io::IoSlice;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Bytes that are taken at once: several reads of the usual sizes.
const INBOX_BYTES: usize = 1 << 20;
/// Capsules in one send: less than what the kernel takes.
const SEND_CAPSULES: usize = 512;
/// Where the block's number is in a capsule.
const BLOCK_AT: usize = 8 + 40;

/// Connects a queue by blocking calls, and gives its socket.
pub fn connect(
    controller: &mut Controller,
    settings: &Settings,
    number: u16,
    entries: u16,
) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect_timeout(&settings.address, settings.timeout)?;
    stream.set_nodelay(true)?;
    let mut connection = crate::Connection::over(Box::new(stream.try_clone()?), settings.timeout);
    let agreed = connection.initialize(settings.initialize)?;
    let queue = crate::Queue::new(connection, agreed, crate::controller::ADMIN_IN_CAPSULE);
    // What is left of the queue is its socket: nothing is in flight, and nothing was received that is not taken.
    drop(controller.io_queue_over(queue, number, entries)?);
    stream.set_read_timeout(Some(settings.timeout))?;
    Ok(stream)
}

/// A place of the queue: a command of its own identifier.
struct Place {
    /// Capsules of a read and of a write of this identifier.
    read: Vec<u8>,
    write: Vec<u8>,
    reading: bool,
    started: Option<Instant>,
}

/// A queue under load.
pub struct Lane {
    stream: TcpStream,
    places: Vec<Place>,
    /// Places that are free.
    free: Vec<u16>,
    /// Places whose capsule is to be sent, and how much of the first one was.
    to_send: Vec<u16>,
    sent: usize,
    inbox: Vec<u8>,
    /// `inbox[start..end]` was received and not taken.
    start: usize,
    end: usize,
    /// Bytes of data that are still to come and are passed over; and what comes after them.
    skip: usize,
    ends_after: Option<u16>,
    blocks: u64,
    range: u64,
    read_percent: u64,
    random: u64,
    pub operations: u64,
    pub errors: u64,
}

impl Lane {
    /// A lane whose commands have `blocks` blocks each, at one of `range` places.
    pub fn new(stream: TcpStream, load: &Load, blocks: u64, range: u64, number: u64) -> Lane {
        let bytes = u32::try_from(load.bytes).expect("a command of 32 bits");
        let data: Vec<u8> = (0..load.bytes).map(|at| (at as u64 * 31 + number) as u8).collect();
        let command = |opcode, id| {
            Command::new(opcode)
                .namespace(load.nsid)
                .id(id)
                .dword(12, u32::try_from(blocks - 1).expect("16 bits"))
        };
        let places = (0..load.depth)
            .map(|id| {
                let read = command(io::READ, id).described(Descriptor::transport(bytes));
                let write = command(io::WRITE, id).described(Descriptor::in_capsule(0, bytes));
                Place {
                    read: Pdu::command(&read).encode(Digests::NONE, 4),
                    write: match load.read_percent {
                        100.. => Vec::new(),
                        _ => Pdu::command(&write).with_data(&data).encode(Digests::NONE, 4),
                    },
                    reading: false,
                    started: None,
                }
            })
            .collect();
        Lane {
            stream,
            places,
            free: (0..load.depth).rev().collect(),
            to_send: Vec::with_capacity(usize::from(load.depth)),
            sent: 0,
            inbox: vec![0; INBOX_BYTES],
            start: 0,
            end: 0,
            skip: 0,
            ends_after: None,
            blocks,
            range,
            read_percent: u64::from(load.read_percent),
            random: load.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03) | 1,
            operations: 0,
            errors: 0,
        }
    }

    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Commands that have not ended.
    pub fn busy(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Is something left that the socket did not take?
    pub fn unsent(&self) -> bool {
        !self.to_send.is_empty()
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 8
    }

    /// Starts a command in each free place.
    pub fn fill(&mut self, now: Instant) {
        while let Some(id) = self.free.pop() {
            let block = self.random() % self.range * self.blocks;
            let reading = self.random() % 100 < self.read_percent;
            let place = &mut self.places[usize::from(id)];
            place.reading = reading;
            place.started = Some(now);
            let capsule = if reading { &mut place.read } else { &mut place.write };
            capsule[BLOCK_AT..BLOCK_AT + 8].copy_from_slice(&block.to_le_bytes());
            self.to_send.push(id);
        }
    }

    /// Sends what is to be sent, as far as the socket takes it.
    pub fn send(&mut self) -> Result<(), Error> {
        while !self.to_send.is_empty() {
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(self.to_send.len().min(SEND_CAPSULES));
            for (n, &id) in self.to_send.iter().take(SEND_CAPSULES).enumerate() {
                let place = &self.places[usize::from(id)];
                let capsule = if place.reading { &place.read } else { &place.write };
                slices.push(IoSlice::new(if n == 0 { &capsule[self.sent..] } else { capsule }));
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let sent = match sendmsg(&self.stream, &slices, &mut SendAncillaryBuffer::default(), flags) {
                Ok(sent) => sent,
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(Error::Io(error.into())),
            };
            let lengths = slices.iter().map(|slice| slice.len());
            let (mut left, mut whole) = (sent, 0);
            for length in lengths {
                if left < length {
                    break;
                }
                left -= length;
                whole += 1;
            }
            self.sent = if whole == 0 { self.sent + left } else { left };
            self.to_send.drain(..whole);
        }
        Ok(())
    }

    /// Takes in what has come; `blocking`: waits for it. Says whether there was anything.
    pub fn receive(&mut self, blocking: bool) -> Result<bool, Error> {
        if self.start > 0 {
            self.inbox.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let flags = if blocking {
            RecvFlags::empty()
        } else {
            RecvFlags::DONTWAIT
        };
        match recv(&self.stream, &mut self.inbox[self.end..], flags) {
            Ok((0, _)) => Err(Error::Closed),
            Ok((count, _)) => {
                self.end += count;
                Ok(true)
            }
            Err(rustix::io::Errno::AGAIN) if blocking => Err(Error::Timeout("completions")),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(Error::Io(error.into())),
        }
    }

    /// Goes through what was received.
    pub fn take(&mut self, now: Instant, latency: &mut Histogram) -> Result<(), Error> {
        loop {
            let there = self.end - self.start;
            if self.skip > 0 {
                let passed = self.skip.min(there);
                self.start += passed;
                self.skip -= passed;
                if self.skip > 0 {
                    return Ok(());
                }
                if let Some(id) = self.ends_after.take() {
                    self.ended(id, true, now, latency)?;
                }
                continue;
            }
            if there < 24 {
                return Ok(());
            }
            let header = &self.inbox[self.start..self.start + 24];
            let (flags, bytes) = (header[1], u32_at(header, 4) as usize);
            match header[0] {
                kind::CAPSULE_RESP if bytes == 24 => {
                    let id = u16_at(header, 8 + 12);
                    let good = Status::of_field(u16_at(header, 8 + 14)).is_success();
                    self.start += 24;
                    self.ended(id, good, now, latency)?;
                }
                kind::C2H_DATA if bytes > 24 => {
                    let id = u16_at(header, 8);
                    self.start += 24;
                    self.skip = bytes - 24;
                    self.ends_after = (flags & flag::SUCCESS != 0).then_some(id);
                }
                kind::C2H_TERM_REQ => {
                    return Err(Error::Terminated {
                        fatal: u16_at(header, 8),
                        field: u32_at(header, 10),
                        header: Vec::new(),
                    });
                }
                other => {
                    return Err(Error::Malformed(format!(
                        "a PDU of type {other:#x} and {bytes} bytes under load"
                    )));
                }
            }
        }
    }

    fn ended(&mut self, id: u16, good: bool, now: Instant, latency: &mut Histogram) -> Result<(), Error> {
        let started = self
            .places
            .get_mut(usize::from(id))
            .and_then(|place| place.started.take());
        let Some(started) = started else {
            return Err(Error::Malformed(format!(
                "it completed command {id:#x}, which is not in flight"
            )));
        };
        self.free.push(id);
        let took = now.checked_duration_since(started).unwrap_or(Duration::ZERO);
        latency.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        if good {
            self.operations += 1;
        } else {
            self.errors += 1;
        }
        Ok(())
    }
}
