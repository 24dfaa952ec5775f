//! One connection of an initiator, without a socket: bytes in, bytes out. It reads RFC 7143 for itself (cited by the number of its
//! sections), and knows nothing of the product's own PDUs.

use amita_types::crc32c;
use aws_lc_rs::digest::{SHA256, digest};
use std::collections::{BTreeMap, VecDeque};

const HEADER_BYTES: usize = 48;
const NO_TAG: u32 = u32::MAX;
/// The most data that this end takes in a PDU.
const MAX_RECEIVE: usize = 16 << 10;
/// The hash by which both ends prove themselves: SHA-256.
const HASH: &str = "7";
/// What this end asks of the target; 32 bytes.
const CHALLENGE: &[u8; 32] = b"who are you, that I should talk?";

/// Opcodes (11.2.1.2).
mod opcode {
    pub const NOP_OUT: u8 = 0x00;
    pub const COMMAND: u8 = 0x01;
    pub const FUNCTION: u8 = 0x02;
    pub const LOGIN: u8 = 0x03;
    pub const TEXT: u8 = 0x04;
    pub const DATA_OUT: u8 = 0x05;
    pub const NOP_IN: u8 = 0x20;
    pub const RESPONSE: u8 = 0x21;
    pub const FUNCTION_RESPONSE: u8 = 0x22;
    pub const LOGIN_RESPONSE: u8 = 0x23;
    pub const TEXT_RESPONSE: u8 = 0x24;
    pub const DATA_IN: u8 = 0x25;
    pub const R2T: u8 = 0x31;
    pub const ASYNC: u8 = 0x32;
}
const IMMEDIATE: u8 = 0x40;
const FINAL: u8 = 0x80;

/// Who logs in, to what, and how.
#[derive(Clone, Debug)]
pub struct Identity {
    pub initiator: String,
    /// None: to discover.
    pub target: Option<String>,
    /// What this end proves to have, and what it wants the target to prove.
    pub secrets: Option<(String, String)>,
    /// The last byte of the ISID.
    pub isid: u8,
    pub digests: bool,
    /// All data of writes beyond what comes with the command is waited for.
    pub initial_r2t: bool,
    /// FirstBurstLength.
    pub first_burst: u32,
}

/// A command of SCSI.
#[derive(Clone, Debug)]
pub struct Command {
    pub lun: u16,
    pub cdb: [u8; 16],
    pub write: Vec<u8>,
    /// Bytes that are read.
    pub read: usize,
}

/// How a command has ended: its status, and the sense key with its code and qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub status: u8,
    pub sense: [u8; 3],
}

/// What a connection has heard. `T` is the host's own name for a command.
#[derive(Debug)]
pub enum Heard<T> {
    /// The login is over.
    In,
    /// There is none: the class and the detail of why.
    Refused(u8, u8),
    /// Where targets are: each portal, and its group's tag.
    Portals(Vec<(String, u16)>),
    Done {
        what: T,
        verdict: Verdict,
        data: Vec<u8>,
    },
    /// A task management function has ended: what it was asked about, the response, and the commands that are over with it.
    Function {
        about: T,
        response: u8,
        over: Vec<T>,
    },
    /// The target is there.
    Pong,
    /// It wants the session to end.
    Leave,
}

#[derive(Debug)]
struct Flight<T> {
    what: T,
    command: Command,
    read: Vec<u8>,
    received: usize,
    cmd_sn: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Method,
    Challenge,
    Proof,
    Operational,
    Full,
}

/// One connection.
#[derive(Debug)]
pub struct Wire<T> {
    identity: Identity,
    phase: Phase,
    inbox: Vec<u8>,
    /// What is to be sent.
    pub outbox: Vec<u8>,
    cmd_sn: u32,
    max_cmd_sn: u32,
    /// The StatSN that comes next, when one has come.
    stat_sn: Option<u32>,
    next_tag: u32,
    flights: BTreeMap<u32, Flight<T>>,
    /// What they were asked about, and the commands that they concern: those that were sent before them (4.2.3).
    functions: BTreeMap<u32, (T, Vec<u32>)>,
    /// They wait for their place in the target's window.
    waiting: VecDeque<(T, Command)>,
    most_data: usize,
    first_burst: usize,
    immediate: bool,
    initial_r2t: bool,
    digests: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put(header: &mut [u8; HEADER_BYTES], at: usize, value: u32) {
    header[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn response(identifier: u8, secret: &str, challenge: &[u8]) -> String {
    let hash = digest(&SHA256, &[&[identifier], secret.as_bytes(), challenge].concat());
    hex(hash.as_ref())
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{}", digits.concat())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?;
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

impl<T: Clone> Wire<T> {
    /// A new connection: its first words are in the outbox.
    pub fn new(identity: Identity) -> Wire<T> {
        let mut wire = Wire {
            phase: match identity.secrets {
                Some(_) => Phase::Method,
                None => Phase::Operational,
            },
            identity,
            inbox: Vec::new(),
            outbox: Vec::new(),
            cmd_sn: 1,
            max_cmd_sn: 0,
            stat_sn: None,
            next_tag: 0,
            flights: BTreeMap::new(),
            functions: BTreeMap::new(),
            waiting: VecDeque::new(),
            most_data: 8192,
            first_burst: 65536,
            immediate: true,
            initial_r2t: true,
            digests: false,
        };
        let mut keys = vec![("InitiatorName", wire.identity.initiator.clone())];
        match &wire.identity.target {
            Some(target) => keys.push(("TargetName", target.clone())),
            None => keys.push(("SessionType", "Discovery".into())),
        }
        match wire.phase {
            Phase::Method => keys.push(("AuthMethod", "CHAP".into())),
            _ => keys.extend(wire.operational()),
        }
        wire.login(&keys);
        wire
    }

    fn operational(&self) -> Vec<(&'static str, String)> {
        let digest = if self.identity.digests { "CRC32C" } else { "None" };
        let mut keys = vec![
            ("HeaderDigest", digest.to_owned()),
            ("DataDigest", digest.to_owned()),
            ("MaxRecvDataSegmentLength", MAX_RECEIVE.to_string()),
        ];
        if self.identity.target.is_some() {
            let r2t = if self.identity.initial_r2t { "Yes" } else { "No" };
            keys.push(("InitialR2T", r2t.to_owned()));
            keys.push(("ImmediateData", "Yes".to_owned()));
            keys.push(("FirstBurstLength", self.identity.first_burst.to_string()));
        }
        keys
    }

    fn login(&mut self, keys: &[(&str, String)]) {
        let flags = match self.phase {
            Phase::Method | Phase::Challenge => 0,
            // To the next stage, which is the operational one.
            Phase::Proof => 0x81,
            Phase::Operational | Phase::Full => 0x87,
        };
        let text: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}\0")).collect();
        let mut header = self.header(opcode::LOGIN | IMMEDIATE, flags, 0);
        header[8..14].copy_from_slice(&[0x80, 0, 0, 0, 0, self.identity.isid]);
        header[21] = 1;
        self.send(header, text.concat().as_bytes());
    }

    fn header(&self, opcode: u8, flags: u8, tag: u32) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        (header[0], header[1]) = (opcode, flags);
        put(&mut header, 16, tag);
        put(&mut header, 24, self.cmd_sn);
        put(&mut header, 28, self.stat_sn.unwrap_or(0));
        header
    }

    fn send(&mut self, mut header: [u8; HEADER_BYTES], data: &[u8]) {
        put(&mut header, 4, data.len() as u32);
        self.outbox.extend(header);
        if self.digests {
            self.outbox.extend(crc32c(&header).to_le_bytes());
        }
        if data.is_empty() {
            return;
        }
        let mut data = data.to_vec();
        data.resize(data.len().next_multiple_of(4), 0);
        self.outbox.extend(&data);
        if self.digests {
            self.outbox.extend(crc32c(&data).to_le_bytes());
        }
    }

    fn tag(&mut self) -> u32 {
        self.next_tag += 1;
        self.next_tag
    }

    /// Asks which targets there are (SendTargets).
    pub fn discover(&mut self) {
        let tag = self.tag();
        let mut header = self.header(opcode::TEXT, FINAL, tag);
        put(&mut header, 20, NO_TAG);
        self.cmd_sn += 1;
        self.send(header, b"SendTargets=All\0");
    }

    /// Asks whether the target is there.
    pub fn ping(&mut self) {
        let tag = self.tag();
        let mut header = self.header(opcode::NOP_OUT | IMMEDIATE, FINAL, tag);
        put(&mut header, 20, NO_TAG);
        self.send(header, &[]);
    }

    /// Sends a command, as soon as the target takes one.
    pub fn submit(&mut self, what: T, command: Command) {
        self.waiting.push_back((what, command));
        self.send_waiting();
    }

    fn send_waiting(&mut self) {
        while self.max_cmd_sn.wrapping_sub(self.cmd_sn) < 1 << 31
            && let Some((what, command)) = self.waiting.pop_front()
        {
            self.start(what, command);
        }
    }

    fn start(&mut self, what: T, command: Command) {
        let tag = self.tag();
        let data = &command.write;
        let with = match self.immediate {
            true => data.len().min(self.first_burst).min(self.most_data),
            false => 0,
        };
        let unasked = match self.initial_r2t {
            true => with,
            false => data.len().min(self.first_burst),
        };
        // A simple task.
        let mut flags = 1 | if unasked > with { 0 } else { FINAL };
        flags |= if data.is_empty() { 0 } else { 0x20 };
        flags |= if command.read > 0 { 0x40 } else { 0 };
        let mut header = self.header(opcode::COMMAND, flags, tag);
        header[8..10].copy_from_slice(&command.lun.to_be_bytes());
        put(&mut header, 20, data.len().max(command.read) as u32);
        header[32..].copy_from_slice(&command.cdb);
        let data = data.clone();
        let cmd_sn = self.cmd_sn;
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        self.send(header, &data[..with]);
        self.send_data(tag, NO_TAG, &data, with, unasked, command.lun);
        let flight = Flight {
            what,
            read: vec![0; command.read],
            received: 0,
            cmd_sn,
            command,
        };
        self.flights.insert(tag, flight);
    }

    /// Sends this range of a write's data.
    fn send_data(&mut self, tag: u32, transfer: u32, data: &[u8], from: usize, upto: usize, lun: u16) {
        for (number, start) in (from..upto).step_by(self.most_data).enumerate() {
            let end = upto.min(start + self.most_data);
            let mut header = self.header(opcode::DATA_OUT, if end == upto { FINAL } else { 0 }, tag);
            if transfer != NO_TAG {
                header[8..10].copy_from_slice(&lun.to_be_bytes());
            }
            put(&mut header, 20, transfer);
            put(&mut header, 24, 0);
            put(&mut header, 36, number as u32);
            put(&mut header, 40, start as u32);
            self.send(header, &data[start..end]);
        }
    }

    /// Asks for a function about a command, if it was sent: 1 aborts it, 5 resets its logical unit.
    pub fn manage(&mut self, function: u8, is_meant: impl Fn(&T) -> bool) -> bool {
        let found = self.flights.iter().find(|(_, flight)| is_meant(&flight.what));
        let Some((&meant, flight)) = found else {
            return false;
        };
        let (about, number, lun) = (flight.what.clone(), flight.cmd_sn, flight.command.lun);
        let tag = self.tag();
        let mut header = self.header(opcode::FUNCTION | IMMEDIATE, FINAL | function, tag);
        header[8..10].copy_from_slice(&lun.to_be_bytes());
        put(&mut header, 20, if function == 1 { meant } else { NO_TAG });
        put(&mut header, 32, if function == 1 { number } else { 0 });
        let concerned = match function {
            1 => vec![meant],
            _ => {
                let of_unit = self.flights.iter().filter(|(_, flight)| flight.command.lun == lun);
                of_unit.map(|(tag, _)| *tag).collect()
            }
        };
        self.functions.insert(tag, (about, concerned));
        self.send(header, &[]);
        true
    }

    /// Takes bytes in. An error: what the target may not send.
    pub fn receive(&mut self, bytes: &[u8], heard: &mut Vec<Heard<T>>) -> Result<(), String> {
        self.inbox.extend_from_slice(bytes);
        while self.inbox.len() >= HEADER_BYTES {
            let length = u32_at(&self.inbox, 4) as usize;
            if length >> 24 != 0 || length > MAX_RECEIVE {
                return Err(format!("a PDU with {length:#x} bytes"));
            }
            let padded = length.next_multiple_of(4);
            let digest = if self.digests { 4 } else { 0 };
            let behind = if padded > 0 { digest } else { 0 };
            let all = HEADER_BYTES + digest + padded + behind;
            if self.inbox.len() < all {
                return Ok(());
            }
            let rest = self.inbox.split_off(all);
            let pdu = std::mem::replace(&mut self.inbox, rest);
            let data = &pdu[HEADER_BYTES + digest..HEADER_BYTES + digest + padded];
            let is_right = |at: usize, bytes: &[u8]| pdu[at..at + 4] == crc32c(bytes).to_le_bytes();
            let header_right = digest == 0 || is_right(HEADER_BYTES, &pdu[..HEADER_BYTES]);
            if !header_right || (behind > 0 && !is_right(all - 4, data)) {
                return Err("a digest that is wrong".into());
            }
            self.take(&pdu[..HEADER_BYTES], &data[..length], heard)?;
        }
        Ok(())
    }

    /// The sequence numbers of a PDU (4.2.2).
    fn count(&mut self, header: &[u8]) -> Result<(), String> {
        let kind = header[0] & 0x3f;
        let has_status = match kind {
            opcode::DATA_IN => header[1] & 1 != 0,
            opcode::R2T => false,
            opcode::NOP_IN => u32_at(header, 16) != NO_TAG,
            _ => true,
        };
        let told = u32_at(header, 24);
        if has_status {
            if self.stat_sn.is_some_and(|next| next != told) {
                return Err(format!("StatSN {told}, and {:?} is next", self.stat_sn));
            }
            self.stat_sn = Some(told.wrapping_add(1));
        }
        let window = u32_at(header, 32);
        if window.wrapping_sub(self.max_cmd_sn) < 1 << 31 || self.phase != Phase::Full {
            self.max_cmd_sn = window;
        }
        Ok(())
    }

    fn take(&mut self, header: &[u8], data: &[u8], heard: &mut Vec<Heard<T>>) -> Result<(), String> {
        self.count(header)?;
        let (kind, tag) = (header[0] & 0x3f, u32_at(header, 16));
        match kind {
            opcode::LOGIN_RESPONSE if self.phase != Phase::Full => return self.entered(header, data, heard),
            opcode::TEXT_RESPONSE => heard.push(Heard::Portals(portals(data)?)),
            opcode::NOP_IN if u32_at(header, 20) != NO_TAG => {
                let mut answer = self.header(opcode::NOP_OUT | IMMEDIATE, FINAL, NO_TAG);
                answer[8..16].copy_from_slice(&header[8..16]);
                put(&mut answer, 20, u32_at(header, 20));
                self.send(answer, &[]);
            }
            opcode::NOP_IN => heard.push(Heard::Pong),
            opcode::ASYNC => heard.push(Heard::Leave),
            opcode::FUNCTION_RESPONSE => {
                let about = self.functions.remove(&tag);
                let (about, concerned) = about.ok_or(format!("function {tag} ended, which was not asked for"))?;
                let response = header[2];
                // It is complete. Or there is no such task (11.6.1): what became of it was told before, or a reset that another host has asked
                // for has ended it, of which nobody tells.
                let is_done = response <= 1;
                let over = concerned.into_iter().filter(|_| is_done);
                let over = over.filter_map(|tag| self.flights.remove(&tag));
                let over = over.map(|flight| flight.what).collect();
                heard.push(Heard::Function { about, response, over });
            }
            opcode::R2T => {
                let (at, length) = (u32_at(header, 40) as usize, u32_at(header, 44) as usize);
                let flight = self
                    .flights
                    .get(&tag)
                    .ok_or(format!("an R2T for command {tag}, which is over"))?;
                let (data, lun) = (flight.command.write.clone(), flight.command.lun);
                if at + length > data.len() || length == 0 {
                    return Err(format!("an R2T for command {tag} beyond its data"));
                }
                self.send_data(tag, u32_at(header, 20), &data, at, at + length, lun);
            }
            opcode::DATA_IN => {
                let at = u32_at(header, 40) as usize;
                let flight = self.flights.get_mut(&tag);
                let flight = flight.ok_or(format!("data for command {tag}, which is over"))?;
                let room = flight.read.get_mut(at..at + data.len());
                room.ok_or(format!("data for command {tag} beyond what it reads"))?
                    .copy_from_slice(data);
                flight.received += data.len();
                if header[1] & 1 != 0 {
                    let (status, sense) = (header[3], [0; 3]);
                    self.end(tag, Verdict { status, sense }, header, heard)?;
                }
            }
            opcode::RESPONSE => {
                let sense = match data.get(2..) {
                    // In descriptors, or fixed (SPC-4, "Sense data").
                    Some(sense) if sense.len() >= 4 && sense[0] & 0x7f >= 0x72 => [sense[1] & 0xf, sense[2], sense[3]],
                    Some(sense) if sense.len() >= 14 => [sense[2] & 0xf, sense[12], sense[13]],
                    _ => [0; 3],
                };
                let status = header[3];
                self.end(tag, Verdict { status, sense }, header, heard)?;
            }
            other => return Err(format!("a PDU of type {other:#x}")),
        }
        self.send_waiting();
        Ok(())
    }

    fn end(&mut self, tag: u32, verdict: Verdict, header: &[u8], heard: &mut Vec<Heard<T>>) -> Result<(), String> {
        let flight = self.flights.remove(&tag);
        let flight = flight.ok_or(format!("command {tag} ended, which is over"))?;
        let missing = flight.read.len() - flight.received.min(flight.read.len());
        // What is missing of the data is the residual (11.4.5).
        if verdict.status == 0 && missing > 0 && (header[1] & 2 == 0 || u32_at(header, 44) as usize != missing) {
            return Err(format!("command {tag} ended well without {missing} bytes"));
        }
        heard.push(Heard::Done {
            what: flight.what,
            verdict,
            data: flight.read,
        });
        Ok(())
    }

    fn entered(&mut self, header: &[u8], data: &[u8], heard: &mut Vec<Heard<T>>) -> Result<(), String> {
        if header[36] != 0 {
            heard.push(Heard::Refused(header[36], header[37]));
            return Ok(());
        }
        let pairs = pairs(data)?;
        let find = |key: &str| {
            pairs
                .iter()
                .find(|(known, _)| known == key)
                .map(|(_, value)| value.as_str())
        };
        let secrets = self.identity.secrets.clone();
        match (self.phase, secrets) {
            (Phase::Method, _) => {
                if find("AuthMethod") != Some("CHAP") {
                    return Err("no CHAP for an initiator that has a secret".into());
                }
                self.phase = Phase::Challenge;
                self.login(&[("CHAP_A", HASH.into())]);
            }
            (Phase::Challenge, Some((own, _))) => {
                let identifier = find("CHAP_I").and_then(|text| text.parse().ok());
                let challenge = find("CHAP_C").and_then(unhex);
                let (Some(identifier), Some(challenge)) = (identifier, challenge) else {
                    return Err("a challenge that cannot be read".into());
                };
                self.phase = Phase::Proof;
                let keys = [
                    ("CHAP_N", self.identity.initiator.clone()),
                    ("CHAP_R", response(identifier, &own, &challenge)),
                    ("CHAP_I", "9".into()),
                    ("CHAP_C", hex(CHALLENGE)),
                ];
                self.login(&keys);
            }
            (Phase::Proof, Some((_, targets))) => {
                let expected = response(9, &targets, CHALLENGE);
                if find("CHAP_R") != Some(expected.as_str()) {
                    return Err("a target that does not prove to be itself".into());
                }
                self.phase = Phase::Operational;
                let keys = self.operational();
                self.login(&keys);
            }
            _ if header[1] & 0x83 != 0x83 => return Err("a login that goes on for no reason".into()),
            _ => {
                let number = |key: &str, usual: usize| find(key).and_then(|text| text.parse().ok()).unwrap_or(usual);
                self.most_data = number("MaxRecvDataSegmentLength", 8192);
                self.first_burst = number("FirstBurstLength", 65536);
                self.immediate = find("ImmediateData") != Some("No");
                self.initial_r2t = find("InitialR2T") != Some("No");
                self.digests = find("HeaderDigest") == Some("CRC32C");
                self.phase = Phase::Full;
                heard.push(Heard::In);
            }
        }
        Ok(())
    }
}

fn pairs(data: &[u8]) -> Result<Vec<(String, String)>, String> {
    let text = std::str::from_utf8(data).map_err(|_| "a text that is none")?;
    let parts = text.split('\0').filter(|part| !part.is_empty());
    let pair = |part: &str| -> Result<(String, String), String> {
        let (key, value) = part.split_once('=').ok_or("a key without a value")?;
        Ok((key.to_owned(), value.to_owned()))
    };
    parts.map(pair).collect()
}

/// `TargetAddress=10.0.0.1:3260,2`, as often as there are portals.
fn portals(data: &[u8]) -> Result<Vec<(String, u16)>, String> {
    let mut portals = Vec::new();
    for (key, value) in pairs(data)? {
        if key == "TargetAddress" {
            let (address, tag) = value.split_once(',').ok_or("a portal without its group")?;
            let tag = tag.parse().map_err(|_| "a tag that is no number")?;
            portals.push((address.to_owned(), tag));
        }
    }
    Ok(portals)
}

/// The state of the access by a target port group, out of REPORT TARGET PORT GROUPS (SPC-4).
pub fn access_of(data: &[u8], tag: u16) -> Option<u8> {
    let end = data.len().min(4 + u32_at(data.get(..4)?, 0) as usize);
    let mut at = 4;
    while at + 8 <= end {
        let ports = usize::from(data[at + 7]);
        if u16_at(data, at + 2) == tag {
            return Some(data[at] & 0xf);
        }
        at += 8 + 4 * ports;
    }
    None
}
