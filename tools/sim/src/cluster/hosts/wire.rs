//! One NVMe/TCP queue of a host, without a connection: bytes in, bytes out. The bytes are those of `amita-nvme-host`, which reads
//! the specification for itself.

use amita_nvme_host::wire::{Descriptor, Digests, Pdu, Status, flag, icreq, kind, u16_at, u64_at};
use amita_nvme_host::{Request, Transfer};
use std::collections::BTreeMap;

/// Data up to this many bytes goes in the command's capsule, as a Linux host does that was told IOCCSZ; more is asked for.
const IN_CAPSULE_BYTES: usize = 8 << 10;

/// What a queue has heard. `T` is the host's own name for a command.
#[derive(Debug)]
pub enum Heard<T> {
    /// The connection is initialized: commands may be sent.
    Ready,
    /// A command has ended.
    Done {
        what: T,
        status: Status,
        /// Dwords 0 and 1 of the completion.
        result: u64,
        /// What was read.
        data: Vec<u8>,
    },
}

#[derive(Debug)]
struct Flight<T> {
    what: T,
    read: Vec<u8>,
    received: usize,
    write: Vec<u8>,
}

/// One queue.
#[derive(Debug)]
pub struct Wire<T> {
    inbox: Vec<u8>,
    /// What is to be sent.
    pub outbox: Vec<u8>,
    alignment: usize,
    most_data: usize,
    initialized: bool,
    next_id: u16,
    flights: BTreeMap<u16, Flight<T>>,
}

impl<T: Clone> Wire<T> {
    /// A queue on a new connection: its first words are in the outbox.
    pub fn new() -> Wire<T> {
        Wire {
            inbox: Vec::new(),
            outbox: icreq(0, 0, 0, 0).encode(Digests::NONE, 4),
            alignment: 4,
            most_data: 4096,
            initialized: false,
            next_id: 0,
            flights: BTreeMap::new(),
        }
    }

    /// Sends a command.
    pub fn submit(&mut self, what: T, request: &Request) {
        while self.flights.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let length = |data: &Vec<u8>| u32::try_from(data.len()).expect("a transfer of 32 bits");
        let none = Vec::new();
        let (inline, later, read) = match &request.transfer {
            Transfer::None => (&none, &none, 0),
            Transfer::Read(bytes) => (&none, &none, *bytes),
            Transfer::Write(data) if data.len() > IN_CAPSULE_BYTES => (&none, data, 0),
            Transfer::Write(data) | Transfer::WriteInCapsule(data) => (data, &none, 0),
            Transfer::WriteByR2t(data) => (&none, data, 0),
        };
        let descriptor = match (inline.is_empty(), later.is_empty()) {
            (false, _) => Descriptor::in_capsule(0, length(inline)),
            (true, false) => Descriptor::transport(length(later)),
            (true, true) => Descriptor::transport(u32::try_from(read).expect("a transfer of 32 bits")),
        };
        let command = request.command.id(id).described(descriptor);
        let pdu = Pdu::command(&command).with_data(inline);
        self.outbox.extend(pdu.encode(Digests::NONE, self.alignment));
        let flight = Flight {
            what,
            read: vec![0; read],
            received: 0,
            write: later.clone(),
        };
        self.flights.insert(id, flight);
    }

    /// Takes bytes in. An error: what the gateway may not send.
    pub fn receive(&mut self, bytes: &[u8], heard: &mut Vec<Heard<T>>) -> Result<(), String> {
        self.inbox.extend_from_slice(bytes);
        let wrong = |error: amita_nvme_host::Error| error.to_string();
        while let Some(length) = Pdu::length(&self.inbox).map_err(wrong)? {
            if self.inbox.len() < length {
                break;
            }
            let rest = self.inbox.split_off(length);
            let whole = std::mem::replace(&mut self.inbox, rest);
            let pdu = Pdu::decode(&whole, Digests::NONE, 4).map_err(wrong)?;
            self.take(&pdu, heard)?;
        }
        Ok(())
    }

    fn take(&mut self, pdu: &Pdu, heard: &mut Vec<Heard<T>>) -> Result<(), String> {
        match pdu.kind {
            kind::IC_RESP if !self.initialized => {
                self.initialized = true;
                self.alignment = (usize::from(pdu.specific[2]) + 1) * 4;
                self.most_data = pdu.u32_at(12) as usize;
                heard.push(Heard::Ready);
                Ok(())
            }
            kind::CAPSULE_RESP => {
                let entry = &pdu.specific;
                let (id, field) = (u16_at(entry, 12), u16_at(entry, 14));
                self.end(id, Status::of_field(field), u64_at(entry, 0), heard)
            }
            kind::C2H_DATA => {
                let (id, offset) = (pdu.u16_at(8), pdu.u32_at(12) as usize);
                let end = offset + pdu.data.len();
                let flight = self.flights.get_mut(&id).filter(|flight| end <= flight.read.len());
                let flight = flight.ok_or(format!("data for command {id} that it did not ask for"))?;
                flight.read[offset..end].copy_from_slice(&pdu.data);
                flight.received += pdu.data.len();
                if pdu.flags & flag::SUCCESS != 0 {
                    return self.end(id, Status::of_field(0), 0, heard);
                }
                Ok(())
            }
            kind::R2T => {
                let (id, tag) = (pdu.u16_at(8), pdu.u16_at(10));
                let (offset, length) = (pdu.u32_at(12) as usize, pdu.u32_at(16) as usize);
                let end = offset + length;
                let flight = self.flights.get(&id).filter(|flight| end <= flight.write.len());
                let flight = flight.ok_or(format!("an R2T for command {id} beyond its data"))?;
                for start in (offset..end).step_by(self.most_data) {
                    let upto = (start + self.most_data).min(end);
                    let flags = if upto == end { flag::LAST } else { 0 };
                    let at = u32::try_from(start).expect("within a transfer of 32 bits");
                    let data = Pdu::host_data(id, tag, at, &flight.write[start..upto]).with_flags(flags);
                    self.outbox.extend(data.encode(Digests::NONE, self.alignment));
                }
                Ok(())
            }
            other => Err(format!("a PDU of type {other:#x}")),
        }
    }

    fn end(&mut self, id: u16, status: Status, result: u64, heard: &mut Vec<Heard<T>>) -> Result<(), String> {
        let flight = self.flights.remove(&id);
        let Flight {
            what, read, received, ..
        } = flight.ok_or(format!("command {id} ended, which is not under way"))?;
        if status.is_success() && received < read.len() {
            return Err(format!(
                "command {id} ended well with {received} of {} bytes",
                read.len()
            ));
        }
        heard.push(Heard::Done {
            what,
            status,
            result,
            data: read,
        });
        Ok(())
    }
}
