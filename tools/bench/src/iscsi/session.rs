//! A session of iSCSI with one connection, as little as measuring needs: no digests, no authentication, immediate data, and R2Ts for what is
//! larger (RFC 7143, cited by the number of its sections). It keeps up to its window of commands in flight, and copies no data that it reads
//! unless it is asked to.

use amita_terminal::error::{Context, Failure, Result};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const HEADER: usize = 48;
const NO_TAG: u32 = u32::MAX;
/// Data of a command that are sent with it.
const IMMEDIATE_BYTES: usize = 64 << 10;
/// The most that is asked for in one sequence, and taken in one PDU.
const BURST_BYTES: usize = 1 << 20;
const SEGMENT_BYTES: usize = 256 << 10;
const INBOX_BYTES: usize = 2 << 20;
const TIMEOUT: Duration = Duration::from_secs(60);
/// A login ends after so many requests, or never.
const LOGIN_STEPS: usize = 8;
/// SCSI status (SAM-5, 5.3.1).
const GOOD: u8 = 0;
/// The sense key of what happened to the unit meanwhile (SPC-4, 4.5.6).
const UNIT_ATTENTION: u8 = 6;

mod opcode {
    pub const NOP_OUT: u8 = 0x00;
    pub const COMMAND: u8 = 0x01;
    pub const LOGIN: u8 = 0x03;
    pub const DATA_OUT: u8 = 0x05;
    pub const NOP_IN: u8 = 0x20;
    pub const RESPONSE: u8 = 0x21;
    pub const LOGIN_RESPONSE: u8 = 0x23;
    pub const DATA_IN: u8 = 0x25;
    pub const R2T: u8 = 0x31;
}

/// A SCSI command: its CDB, what it brings, what it takes.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    pub lun: u16,
    pub cdb: [u8; 16],
    pub out: &'a [u8],
    pub takes: u32,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Done {
    pub tag: u32,
    status: u8,
    sense: Vec<u8>,
    pub data: Vec<u8>,
}

impl Done {
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.status == GOOD
    }

    /// The sense key, of the fixed format and of that by descriptors.
    fn key(&self) -> Option<u8> {
        match self.sense.first()? & 0x7f {
            0x70 | 0x71 => self.sense.get(2).map(|byte| byte & 0x0f),
            _ => self.sense.get(1).map(|byte| byte & 0x0f),
        }
    }
}

#[derive(Debug, Default)]
struct Task {
    lun: u16,
    /// What the target may still ask for.
    out: Vec<u8>,
    data: Vec<u8>,
    keeps: bool,
}

#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    inbox: Vec<u8>,
    /// `inbox[start..end]` was received and not taken.
    start: usize,
    end: usize,
    outbox: Vec<u8>,
    command_sn: u32,
    status_sn: u32,
    max_command_sn: u32,
    next_tag: u32,
    /// The longest data segment that the target takes.
    segment: usize,
    tasks: HashMap<u32, Task>,
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn set(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn broken(what: impl std::fmt::Display) -> Failure {
    Failure::new(format!("by iSCSI: {what}"))
}

impl Session {
    /// Logs in (6.3): nothing is proven, so it begins with the operational stage.
    ///
    /// # Errors
    /// When nobody lets it in there.
    pub fn login(portal: SocketAddr, target: &str, initiator: &str) -> Result<Session> {
        let doing = || format!("logging in to {portal}");
        let stream = TcpStream::connect_timeout(&portal, TIMEOUT).context(doing)?;
        stream.set_nodelay(true).context(doing)?;
        stream.set_read_timeout(Some(TIMEOUT)).context(doing)?;
        let mut session = Session {
            stream,
            inbox: vec![0; INBOX_BYTES],
            start: 0,
            end: 0,
            outbox: Vec::new(),
            command_sn: 1,
            status_sn: 0,
            max_command_sn: 0,
            next_tag: 0,
            segment: 8192,
            tasks: HashMap::new(),
        };
        let keys = format!(
            "InitiatorName={initiator}\0SessionType=Normal\0TargetName={target}\0HeaderDigest=None\0DataDigest=None\0InitialR2T=Yes\0\
             ImmediateData=Yes\0MaxBurstLength={BURST_BYTES}\0FirstBurstLength={IMMEDIATE_BYTES}\0MaxRecvDataSegmentLength={SEGMENT_BYTES}\0\
             MaxOutstandingR2T=1\0MaxConnections=1\0ErrorRecoveryLevel=0\0DataPDUInOrder=Yes\0DataSequenceInOrder=Yes\0"
        );
        let mut text = keys.as_bytes();
        for _ in 0..LOGIN_STEPS {
            let mut header = [0; HEADER];
            // Immediate; from the operational stage (1) to full features (3).
            header[0] = opcode::LOGIN | 0x40;
            header[1] = 0x80 | 1 << 2 | 3;
            header[8..14].copy_from_slice(&[0x80, 0, 0, 1, 0, 0]);
            set(&mut header, 24, session.command_sn);
            set(&mut header, 28, session.status_sn);
            session.put(header, text);
            text = &[];
            let (header, data) = session.receive()?;
            let (class, detail) = (header[36], header[37]);
            if header[0] & 0x3f != opcode::LOGIN_RESPONSE || class != 0 {
                return Err(broken(format!(
                    "the login at {portal} ended with {class:02x}/{detail:02x}"
                )));
            }
            session.status_sn = number(&header, 24).wrapping_add(1);
            session.max_command_sn = number(&header, 32);
            let said = String::from_utf8_lossy(&session.inbox[data]).into_owned();
            for pair in said.split('\0') {
                if let Some(value) = pair.strip_prefix("MaxRecvDataSegmentLength=") {
                    session.segment = value.parse::<usize>().unwrap_or(8192).min(SEGMENT_BYTES);
                }
            }
            if header[1] & 0x80 != 0 {
                return Ok(session);
            }
        }
        Err(broken(format!("the login at {portal} does not end")))
    }

    /// May another command be sent (4.2.2.1)?
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.max_command_sn.wrapping_sub(self.command_sn) < 1 << 31
    }

    /// Puts a command into what is sent next; its tag.
    pub fn start(&mut self, command: &Command<'_>, keeps: bool) -> u32 {
        let tag = self.next_tag;
        self.next_tag = (tag + 1) % NO_TAG;
        let immediate = command.out.len().min(IMMEDIATE_BYTES).min(self.segment);
        let mut header = [0; HEADER];
        header[0] = opcode::COMMAND;
        // Final, a simple task.
        header[1] = 0x81;
        let bytes = if command.out.is_empty() {
            header[1] |= if command.takes > 0 { 0x40 } else { 0 };
            command.takes
        } else {
            header[1] |= 0x20;
            u32::try_from(command.out.len()).unwrap_or(u32::MAX)
        };
        header[8..10].copy_from_slice(&lun_field(command.lun));
        set(&mut header, 16, tag);
        set(&mut header, 20, bytes);
        set(&mut header, 24, self.command_sn);
        set(&mut header, 28, self.status_sn);
        header[32..].copy_from_slice(&command.cdb);
        self.command_sn = self.command_sn.wrapping_add(1);
        self.put(header, &command.out[..immediate]);
        let rest = immediate < command.out.len();
        let task = Task {
            lun: command.lun,
            out: if rest { command.out.to_vec() } else { Vec::new() },
            data: Vec::new(),
            keeps,
        };
        self.tasks.insert(tag, task);
        tag
    }

    /// Appends a PDU to what is sent next (11.2).
    fn put(&mut self, mut header: [u8; HEADER], data: &[u8]) {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes();
        header[5..8].copy_from_slice(&length[1..]);
        self.outbox.extend_from_slice(&header);
        self.outbox.extend_from_slice(data);
        self.outbox.resize(self.outbox.len().next_multiple_of(4), 0);
    }

    /// Sends what was started.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send(&mut self) -> Result<()> {
        if !self.outbox.is_empty() {
            let sent = self.stream.write_all(&self.outbox);
            sent.context(|| "sending by iSCSI".to_owned())?;
            self.outbox.clear();
        }
        Ok(())
    }

    /// The next PDU: its header, and where its data are in the inbox. What was started is sent before it waits.
    fn receive(&mut self) -> Result<([u8; HEADER], std::ops::Range<usize>)> {
        loop {
            let have = self.end - self.start;
            if have >= HEADER {
                let mut header = [0; HEADER];
                header.copy_from_slice(&self.inbox[self.start..self.start + HEADER]);
                let length = number(&header, 4) as usize & 0x00ff_ffff;
                let all = HEADER + usize::from(header[4]) * 4 + length.next_multiple_of(4);
                if all > INBOX_BYTES {
                    return Err(broken(format!("a PDU of {all} bytes")));
                }
                if have >= all {
                    let data = self.start + all - length.next_multiple_of(4);
                    self.start += all;
                    return Ok((header, data..data + length));
                }
            }
            self.send()?;
            if self.start > 0 {
                self.inbox.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            let room = &mut self.inbox[self.end..];
            let got = self.stream.read(room).context(|| "receiving by iSCSI".to_owned())?;
            if got == 0 {
                return Err(broken("the target has closed the connection"));
            }
            self.end += got;
        }
    }

    /// Has something come that can be taken without waiting?
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.end - self.start >= HEADER
    }

    /// Waits for the next command that ends.
    ///
    /// # Errors
    /// When the connection breaks, or the target says what it must not.
    pub fn wait(&mut self) -> Result<Done> {
        loop {
            let (header, data) = self.receive()?;
            let tag = number(&header, 16);
            self.max_command_sn = number(&header, 32);
            match header[0] & 0x3f {
                opcode::DATA_IN => {
                    let task = self.tasks.get_mut(&tag).ok_or_else(|| broken("data of no command"))?;
                    if task.keeps {
                        let at = number(&header, 40) as usize;
                        task.data.resize(task.data.len().max(at + data.len()), 0);
                        task.data[at..at + data.len()].copy_from_slice(&self.inbox[data]);
                    }
                    // The status comes with the last of them (11.7.3).
                    if header[1] & 0x01 != 0 {
                        return self.ended(&header, Vec::new());
                    }
                }
                opcode::RESPONSE => {
                    let sense = self.inbox[data].get(2..).unwrap_or_default().to_vec();
                    return self.ended(&header, sense);
                }
                opcode::R2T => self.answer(&header)?,
                opcode::NOP_IN => self.pong(&header),
                other => return Err(broken(format!("an unexpected PDU, {other:02x}"))),
            }
        }
    }

    fn ended(&mut self, header: &[u8; HEADER], sense: Vec<u8>) -> Result<Done> {
        let tag = number(header, 16);
        self.status_sn = number(header, 24).wrapping_add(1);
        let task = self.tasks.remove(&tag).ok_or_else(|| broken("the end of no command"))?;
        Ok(Done {
            tag,
            status: header[3],
            sense,
            data: task.data,
        })
    }

    /// Data that the target asks for (11.8).
    fn answer(&mut self, header: &[u8; HEADER]) -> Result<()> {
        let (tag, transfer) = (number(header, 16), number(header, 20));
        let (offset, length) = (number(header, 40) as usize, number(header, 44) as usize);
        let task = self.tasks.remove(&tag).ok_or_else(|| broken("an R2T of no command"))?;
        let data = task.out.get(offset..offset + length);
        let data = data.ok_or_else(|| broken("an R2T for what there is not"))?;
        let count = data.len().div_ceil(self.segment);
        for (index, piece) in data.chunks(self.segment).enumerate() {
            let mut header = [0; HEADER];
            header[0] = opcode::DATA_OUT;
            header[1] = if index + 1 == count { 0x80 } else { 0 };
            header[8..10].copy_from_slice(&lun_field(task.lun));
            set(&mut header, 16, tag);
            set(&mut header, 20, transfer);
            set(&mut header, 28, self.status_sn);
            set(&mut header, 36, index as u32);
            set(&mut header, 40, (offset + index * self.segment) as u32);
            self.put(header, piece);
        }
        self.tasks.insert(tag, task);
        Ok(())
    }

    /// A NOP of the target's that wants an answer (11.18).
    fn pong(&mut self, came: &[u8; HEADER]) {
        let transfer = number(came, 20);
        if transfer == NO_TAG {
            return;
        }
        let mut header = [0; HEADER];
        header[0] = opcode::NOP_OUT | 0x40;
        header[1] = 0x80;
        header[8..16].copy_from_slice(&came[8..16]);
        set(&mut header, 16, NO_TAG);
        set(&mut header, 20, transfer);
        set(&mut header, 24, self.command_sn);
        set(&mut header, 28, self.status_sn);
        self.put(header, &[]);
    }

    /// Runs commands, all in flight at once; what they brought, in their order. What comes between (unit attentions) has them sent again.
    ///
    /// # Errors
    /// When one does not succeed.
    pub fn run(&mut self, commands: &[Command<'_>]) -> Result<Vec<Vec<u8>>> {
        let mut results = vec![Vec::new(); commands.len()];
        let mut waiting: Vec<usize> = (0..commands.len()).rev().collect();
        let mut flying = HashMap::new();
        while !waiting.is_empty() || !flying.is_empty() {
            while self.has_room()
                && let Some(index) = waiting.pop()
            {
                flying.insert(self.start(&commands[index], true), index);
            }
            let done = self.wait()?;
            let index = flying.remove(&done.tag).ok_or_else(|| broken("an unknown tag"))?;
            if done.is_good() {
                results[index] = done.data;
            } else if done.key() == Some(UNIT_ATTENTION) {
                waiting.push(index);
            } else {
                let (status, sense) = (done.status, &done.sense);
                return Err(broken(format!(
                    "the command {:02x} ended with status {status:02x}, sense {sense:02x?}",
                    commands[index].cdb[0]
                )));
            }
        }
        Ok(results)
    }
}

/// The first two bytes of a LUN by flat addressing where it has more than one byte (SAM-5, 4.7.7).
fn lun_field(lun: u16) -> [u8; 2] {
    let method = if lun > 0xff { 0x4000 } else { 0 };
    (method | lun).to_be_bytes()
}
