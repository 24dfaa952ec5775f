//! A queue: commands in flight on one connection.

use crate::wire::{Command, Descriptor, Pdu, Status, flag, kind, u16_at, u64_at};
use crate::{Connection, Error, Initialized};
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// A command, and its data.
#[derive(Clone, Debug)]
pub struct Request {
    /// The entry; the queue sets the identifier and, unless told not to, the descriptor.
    pub command: Command,
    /// Its data.
    pub transfer: Transfer,
    /// The descriptor is left as it is: a fault on purpose.
    pub described: bool,
}

/// Data of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transfer {
    None,
    /// So many bytes from the target.
    Read(usize),
    /// To the target: in the capsule if they fit, else by R2T.
    Write(Vec<u8>),
    /// To the target, by R2T also when they would fit.
    WriteByR2t(Vec<u8>),
    /// To the target, in the capsule also when they do not fit.
    WriteInCapsule(Vec<u8>),
}

impl Request {
    /// A command without data.
    #[must_use]
    pub fn new(command: Command) -> Request {
        Request {
            command,
            transfer: Transfer::None,
            described: false,
        }
    }

    /// With that data.
    #[must_use]
    pub fn with(mut self, transfer: Transfer) -> Request {
        self.transfer = transfer;
        self
    }

    /// With the command changed by `change`.
    #[must_use]
    pub fn map(mut self, change: impl FnOnce(Command) -> Command) -> Request {
        self.command = change(self.command);
        self
    }

    /// With that descriptor, whatever the data.
    #[must_use]
    pub fn descriptor(mut self, descriptor: Descriptor) -> Request {
        self.command = self.command.described(descriptor);
        self.described = true;
        self
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command's identifier.
    pub id: u16,
    pub status: Status,
    /// Dwords 0 and 1.
    pub result: u64,
    /// The head of the submission queue, 0 where a SUCCESS flag stood for the completion.
    pub head: u16,
    /// The data read.
    pub data: Vec<u8>,
    /// A SUCCESS flag stood for the completion.
    pub by_flag: bool,
    /// R2Ts that were answered.
    pub r2ts: u32,
}

impl Completion {
    /// The completion, if the command worked.
    ///
    /// # Errors
    /// [`Error::Command`].
    pub fn good(self, what: &'static str) -> Result<Completion, Error> {
        if self.status.is_success() {
            Ok(self)
        } else {
            Err(Error::Command {
                what,
                status: self.status,
                result: self.result,
            })
        }
    }

    /// Dword 0.
    #[must_use]
    pub fn dword(&self) -> u32 {
        self.result as u32
    }
}

struct InFlight {
    read: usize,
    data: Vec<u8>,
    /// Which bytes have come: ranges in the order of their arrival, which must not overlap.
    received: usize,
    write: Vec<u8>,
    /// Bytes that were asked for by R2T.
    asked: usize,
    r2ts: u32,
}

/// Commands in flight on a connection whose initialization is done. [`Queue::connection`] allows to go below it.
pub struct Queue {
    pub connection: Connection,
    agreed: Initialized,
    /// Bytes of data that a capsule may hold.
    in_capsule: usize,
    /// The queue was connected with flow control off: SUCCESS flags are allowed.
    flow_control_off: bool,
    /// Entries of the queue, for the wrap of the head; 0 before Connect.
    size: u16,
    next_id: u16,
    in_flight: HashMap<u16, InFlight>,
    done: VecDeque<Completion>,
}

impl Queue {
    /// A queue on an initialized connection; capsules hold so many bytes of data.
    #[must_use]
    pub fn new(connection: Connection, agreed: Initialized, in_capsule: usize) -> Queue {
        Queue {
            connection,
            agreed,
            in_capsule,
            flow_control_off: false,
            size: 0,
            next_id: 0,
            in_flight: HashMap::new(),
            done: VecDeque::new(),
        }
    }

    /// What was agreed on when the connection began.
    #[must_use]
    pub fn agreed(&self) -> Initialized {
        self.agreed
    }

    /// Bytes of data that a capsule may hold.
    #[must_use]
    pub fn in_capsule(&self) -> usize {
        self.in_capsule
    }

    /// The controller has said how much a capsule may hold.
    pub fn set_in_capsule(&mut self, bytes: usize) {
        self.in_capsule = bytes;
    }

    /// The queue is connected, with so many entries.
    pub fn connected(&mut self, size: u16, flow_control_off: bool) {
        self.size = size;
        self.flow_control_off = flow_control_off;
    }

    /// Commands that have not ended.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.in_flight.len()
    }

    /// Starts a command, and gives its identifier.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn submit(&mut self, request: &Request) -> Result<u16, Error> {
        let (id, bytes) = self.prepare(request);
        self.connection.send(&bytes)?;
        Ok(id)
    }

    /// Starts several commands with one send.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn submit_all(&mut self, requests: &[Request]) -> Result<Vec<u16>, Error> {
        let mut all = Vec::new();
        let mut ids = Vec::with_capacity(requests.len());
        for request in requests {
            let (id, bytes) = self.prepare(request);
            ids.push(id);
            all.extend_from_slice(&bytes);
        }
        self.connection.send(&all)?;
        Ok(ids)
    }

    fn prepare(&mut self, request: &Request) -> (u16, Vec<u8>) {
        while self.in_flight.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        (id, self.prepare_as(request, id))
    }

    /// Starts a command under that identifier: one that is in flight, perhaps.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn submit_as(&mut self, request: &Request, id: u16) -> Result<(), Error> {
        let bytes = self.prepare_as(request, id);
        self.connection.send(&bytes)
    }

    /// The capsule of a command under that identifier, which from now on counts as in flight.
    fn prepare_as(&mut self, request: &Request, id: u16) -> Vec<u8> {
        let mut command = request.command.id(id);
        let (inline, later, read) = match &request.transfer {
            Transfer::None => (None, None, 0),
            Transfer::Read(bytes) => (None, None, *bytes),
            Transfer::Write(data) if data.len() <= self.in_capsule => (Some(data), None, 0),
            Transfer::WriteInCapsule(data) => (Some(data), None, 0),
            Transfer::Write(data) | Transfer::WriteByR2t(data) => (None, Some(data), 0),
        };
        if !request.described {
            let bytes = |data: &Vec<u8>| u32::try_from(data.len()).expect("a transfer of 32 bits");
            command = command.described(match (inline, later) {
                (Some(data), _) => Descriptor::in_capsule(0, bytes(data)),
                (None, Some(data)) => Descriptor::transport(bytes(data)),
                (None, None) => Descriptor::transport(u32::try_from(read).expect("a transfer of 32 bits")),
            });
        }
        let flight = InFlight {
            read,
            data: vec![0; read],
            received: 0,
            write: later.cloned().unwrap_or_default(),
            asked: 0,
            r2ts: 0,
        };
        // Of two commands with one identifier the first one's data are what may come.
        self.in_flight.entry(id).or_insert(flight);
        let pdu = Pdu::command(&command).with_data(inline.map_or(&[], |data| data));
        self.connection.encode(&pdu, crate::wire::Spoil::default())
    }

    /// Runs one command to its end.
    ///
    /// # Errors
    /// When the connection fails or the target breaks the protocol; not when the command fails.
    pub fn call(&mut self, request: &Request) -> Result<Completion, Error> {
        let id = self.submit(request)?;
        self.wait(id)
    }

    /// Waits for that command's end.
    ///
    /// # Errors
    /// As [`Queue::call`].
    pub fn wait(&mut self, id: u16) -> Result<Completion, Error> {
        let deadline = Instant::now() + self.connection.timeout();
        loop {
            if let Some(place) = self.done.iter().position(|done| done.id == id) {
                return Ok(self.done.remove(place).expect("it was found"));
            }
            self.turn(deadline)?;
        }
    }

    /// The next completion.
    ///
    /// # Errors
    /// As [`Queue::call`].
    pub fn poll(&mut self) -> Result<Completion, Error> {
        let deadline = Instant::now() + self.connection.timeout();
        self.poll_until(deadline)
    }

    /// The next completion that comes until then.
    ///
    /// # Errors
    /// As [`Queue::call`]; [`Error::Timeout`] when none does.
    pub fn poll_until(&mut self, deadline: Instant) -> Result<Completion, Error> {
        loop {
            if let Some(done) = self.done.pop_front() {
                return Ok(done);
            }
            self.turn(deadline)?;
        }
    }

    /// Takes one PDU and does what it asks for.
    fn turn(&mut self, deadline: Instant) -> Result<(), Error> {
        let pdu = self.connection.next_until(deadline)?;
        match pdu.kind {
            kind::CAPSULE_RESP => self.capsule(&pdu),
            kind::C2H_DATA => self.data(&pdu),
            kind::R2T => self.ready(&pdu),
            _ => Err(Error::Malformed(format!("it sent {pdu:?} after initialization"))),
        }
    }

    fn capsule(&mut self, pdu: &Pdu) -> Result<(), Error> {
        let entry = &pdu.specific;
        let id = u16_at(entry, 12);
        let head = u16_at(entry, 8);
        let Some(flight) = self.in_flight.remove(&id) else {
            return Err(Error::Malformed(format!(
                "it completed command {id:#x}, which is not in flight"
            )));
        };
        // Base 2.1, 3.3.3.2: over fabrics the identifier of the queue and the phase tag are reserved.
        let field = u16_at(entry, 14);
        if field & 1 != 0 {
            return Err(Error::Malformed("the phase tag of its completion is set".into()));
        }
        if !self.flow_control_off && self.size > 0 && head >= self.size {
            return Err(Error::Malformed(format!("SQHD is {head} in a queue of {}", self.size)));
        }
        let status = Status::of_field(field);
        if status.is_success() && flight.asked < flight.write.len() {
            return Err(Error::Malformed(format!(
                "command {id:#x} succeeded with {} of {} bytes asked for",
                flight.asked,
                flight.write.len()
            )));
        }
        let mut data = flight.data;
        data.truncate(flight.received);
        self.done.push_back(Completion {
            id,
            status,
            result: u64_at(entry, 0),
            head,
            data,
            by_flag: false,
            r2ts: flight.r2ts,
        });
        Ok(())
    }

    fn data(&mut self, pdu: &Pdu) -> Result<(), Error> {
        let id = pdu.u16_at(8);
        let (offset, length) = (pdu.u32_at(12) as usize, pdu.u32_at(16) as usize);
        let last = pdu.flags & flag::LAST != 0;
        let success = pdu.flags & flag::SUCCESS != 0;
        let Some(flight) = self.in_flight.get_mut(&id) else {
            return Err(Error::Malformed(format!(
                "it sent data for command {id:#x}, which is not in flight"
            )));
        };
        // TCP Transport 1.1, 3.6.2.9: within what the command asked for, in order, LAST on the last and only there.
        if offset != flight.received || length == 0 || offset + length > flight.read {
            return Err(Error::Malformed(format!(
                "it sent bytes {offset}+{length} of command {id:#x}, which has got {} of {}",
                flight.received, flight.read
            )));
        }
        flight.data[offset..offset + length].copy_from_slice(&pdu.data);
        flight.received += length;
        if success && (!last || !self.flow_control_off) {
            return Err(Error::Malformed("it set SUCCESS where it may not".into()));
        }
        if success {
            let flight = self.in_flight.remove(&id).expect("it was found");
            if flight.received != flight.read {
                return Err(Error::Malformed(format!(
                    "it ended command {id:#x} after {} bytes",
                    flight.received
                )));
            }
            self.done.push_back(Completion {
                id,
                status: Status::of_field(0),
                result: 0,
                head: 0,
                data: flight.data,
                by_flag: true,
                r2ts: 0,
            });
        }
        Ok(())
    }

    fn ready(&mut self, pdu: &Pdu) -> Result<(), Error> {
        let (id, tag) = (pdu.u16_at(8), pdu.u16_at(10));
        let (offset, length) = (pdu.u32_at(12) as usize, pdu.u32_at(16) as usize);
        let Some(flight) = self.in_flight.get_mut(&id) else {
            return Err(Error::Malformed(format!(
                "it sent an R2T for command {id:#x}, which is not in flight"
            )));
        };
        if offset != flight.asked || length == 0 || offset + length > flight.write.len() {
            return Err(Error::Malformed(format!(
                "its R2T asks for bytes {offset}+{length} of command {id:#x}, which has {}",
                flight.write.len()
            )));
        }
        flight.asked += length;
        flight.r2ts += 1;
        let piece = self.agreed.max_h2c_data as usize;
        let mut bytes = Vec::with_capacity(length + 64);
        for start in (offset..offset + length).step_by(piece) {
            let end = (start + piece).min(offset + length);
            let flags = if end == offset + length { flag::LAST } else { 0 };
            let at = u32::try_from(start).expect("within a transfer of 32 bits");
            let data = Pdu::host_data(id, tag, at, &flight.write[start..end]).with_flags(flags);
            bytes.extend_from_slice(&self.connection.encode(&data, crate::wire::Spoil::default()));
        }
        self.connection.send(&bytes)
    }

    /// The next PDU is an R2T: it is taken and left unanswered, for the caller to answer it wrongly. Gives the command, the tag, the offset and
    /// the length.
    ///
    /// # Errors
    /// When something else comes.
    pub fn take_r2t(&mut self) -> Result<(u16, u16, u32, u32), Error> {
        let pdu = self.connection.next()?;
        if pdu.kind != kind::R2T {
            return Err(Error::Malformed(format!("it sent {pdu:?} where an R2T was due")));
        }
        Ok((pdu.u16_at(8), pdu.u16_at(10), pdu.u32_at(12), pdu.u32_at(16)))
    }
}

impl Queue {
    /// A command that the caller sent by itself is in flight.
    pub fn expect(&mut self, id: u16) {
        let flight = InFlight {
            read: 0,
            data: Vec::new(),
            received: 0,
            write: Vec::new(),
            asked: 0,
            r2ts: 0,
        };
        self.in_flight.entry(id).or_insert(flight);
    }

    /// The caller has answered by itself all R2Ts of that command.
    pub fn expect_asked(&mut self, id: u16) {
        if let Some(flight) = self.in_flight.get_mut(&id) {
            flight.asked = flight.write.len();
        }
    }
}
