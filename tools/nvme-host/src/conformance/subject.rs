//! What a case works with: the target under test, and the ways to reach it.

use super::{Outcome, Verdict};
use crate::structures::{IdentifyController, IdentifyNamespace};
use crate::wire::{Digests, status};
use crate::{Completion, Connection, Controller, Error, Host, Initialize, Queue, Request, Settings, commands};
use std::net::SocketAddr;
use std::time::Duration;

/// What to run the suite against, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The target's address.
    pub address: SocketAddr,
    /// The subsystem. **The data of its namespace are destroyed.**
    pub nqn: String,
    /// The namespace; none: the first one that there is.
    pub nsid: Option<u32>,
    /// The host that connects; it must be allowed to.
    pub host: String,
    /// A second host, which must be allowed to, for reservations.
    pub second_host: String,
    /// A host that is not allowed to connect, if there is one.
    pub denied_host: Option<String>,
    /// A host of which the target demands DH-HMAC-CHAP, if there is one.
    pub authenticated_host: Option<String>,
    /// How long to wait for anything.
    pub timeout: Duration,
    /// How long to wait before it is said that nothing comes.
    pub silence: Duration,
    /// Only cases whose name contains one of these.
    pub only: Vec<String>,
}

impl Options {
    /// Usual ones.
    #[must_use]
    pub fn new(address: SocketAddr, nqn: &str) -> Options {
        Options {
            address,
            nqn: nqn.into(),
            nsid: None,
            host: "nqn.2014-08.org.nvmexpress:uuid:6f2b3f0e-0001-4000-8000-616d69746101".into(),
            second_host: "nqn.2014-08.org.nvmexpress:uuid:6f2b3f0e-0002-4000-8000-616d69746102".into(),
            denied_host: None,
            authenticated_host: None,
            timeout: Duration::from_secs(10),
            silence: Duration::from_millis(300),
            only: Vec::new(),
        }
    }
}

/// The target under test.
pub struct Subject {
    options: Options,
}

/// A controller with one I/O queue and a namespace.
pub struct Disk {
    pub controller: Controller,
    pub queue: Queue,
    pub nsid: u32,
    pub blocks: u64,
    pub block_bytes: usize,
    pub identity: IdentifyController,
    pub namespace: IdentifyNamespace,
}

impl Subject {
    pub(super) fn new(options: Options) -> Subject {
        Subject { options }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.options.address, &self.options.nqn);
        settings.timeout = self.options.timeout;
        settings
    }

    pub(super) fn host(&self) -> Host {
        Host::named(&self.options.host)
    }

    pub(super) fn second_host(&self) -> Host {
        Host::named(&self.options.second_host)
    }

    /// A bare TCP connection.
    pub(super) fn tcp(&self) -> Result<Connection, Error> {
        Connection::connect(self.options.address, self.options.timeout)
    }

    /// A connection whose initialization is done.
    pub(super) fn initialized(&self) -> Result<Queue, Error> {
        self.settings().queue(crate::controller::ADMIN_IN_CAPSULE)
    }

    /// What Connect of an admin queue says when nothing is wrong.
    pub(super) fn admin_connect(&self) -> commands::Connect {
        commands::Connect {
            queue: 0,
            size: 31,
            attributes: 0,
            keep_alive_ms: 120_000,
            controller: 0xffff,
            host_id: self.host().id,
            subsystem: self.options.nqn.clone(),
            host: self.options.host.clone(),
        }
    }

    /// A controller that is connected and not enabled.
    pub(super) fn connected(&self) -> Result<Controller, Error> {
        Controller::connect(&self.settings(), &self.host())
    }

    /// An enabled controller.
    pub(super) fn controller(&self) -> Result<Controller, Error> {
        self.controller_with(&self.settings(), &self.host())
    }

    pub(super) fn controller_with(&self, settings: &Settings, host: &Host) -> Result<Controller, Error> {
        let mut controller = Controller::connect(settings, host)?;
        controller.enable()?;
        Ok(controller)
    }

    /// A controller of the discovery subsystem.
    pub(super) fn discovery(&self) -> Result<Controller, Error> {
        let mut settings = self.settings();
        settings.nqn = crate::controller::DISCOVERY_NQN.into();
        self.controller_with(&settings, &self.host())
    }

    /// The namespace's number.
    pub(super) fn nsid(&self, controller: &mut Controller) -> Result<u32, Verdict> {
        match self.options.nsid {
            Some(nsid) => Ok(nsid),
            None => (controller.namespaces()?.first().copied())
                .ok_or_else(|| Verdict::Skipped("the subsystem has no namespace".into())),
        }
    }

    /// A number that no namespace has, of those a namespace may have.
    pub(super) fn absent_nsid(&self, controller: &mut Controller) -> Result<u32, Verdict> {
        let there = controller.namespaces()?;
        let highest = controller.identify()?.dword(516);
        let absent = (1..=highest).find(|nsid| !there.contains(nsid));
        absent.ok_or_else(|| Verdict::Skipped("every number has its namespace".into()))
    }

    /// A disk with a queue of 128 entries.
    pub(super) fn disk(&self) -> Result<Disk, Verdict> {
        self.disk_with(&self.settings(), &self.host())
    }

    /// A disk with digests.
    pub(super) fn disk_digested(&self, digests: Digests) -> Result<Disk, Verdict> {
        let mut settings = self.settings();
        settings.initialize = Initialize {
            digests,
            ..Initialize::default()
        };
        let disk = self.disk_with(&settings, &self.host())?;
        if disk.queue.connection.digests() != digests {
            return Err(Verdict::Skipped("the target declines these digests".into()));
        }
        Ok(disk)
    }

    pub(super) fn disk_with(&self, settings: &Settings, host: &Host) -> Result<Disk, Verdict> {
        let mut controller = self.controller_with(settings, host)?;
        let identity = controller.identify()?;
        let nsid = self.nsid(&mut controller)?;
        let namespace = controller.namespace(nsid)?;
        if namespace.blocks() == 0 {
            return Err(Verdict::Skipped(format!("namespace {nsid} has no blocks")));
        }
        controller
            .call(&commands::queues(4))?
            .good("Set Features, Number of Queues")?;
        let entries = self.entries(&mut controller)?.min(128);
        let queue = controller.io_queue(1, entries)?;
        Ok(Disk {
            controller,
            queue,
            nsid,
            blocks: namespace.blocks(),
            block_bytes: namespace.block_bytes(),
            identity,
            namespace,
        })
    }

    /// The most entries of a queue (CAP.MQES).
    pub(super) fn entries(&self, controller: &mut Controller) -> Result<u16, Error> {
        Ok(((controller.property(0, true)? & 0xffff) as u16).saturating_add(1))
    }
}

impl Disk {
    /// Bytes of so many blocks that differ from block to block and with `seed`.
    pub fn pattern(&self, seed: u32, blocks: u32) -> Vec<u8> {
        pattern(seed, blocks as usize * self.block_bytes)
    }

    /// Blocks in so many bytes, at least one.
    pub fn blocks_of(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(self.block_bytes))
            .expect("a small number")
            .max(1)
    }

    pub fn write(&mut self, block: u64, data: &[u8]) -> Result<(), Error> {
        let request = commands::write(self.nsid, block, self.blocks_of(data.len()), data.to_vec());
        self.queue.call(&request)?.good("Write")?;
        Ok(())
    }

    pub fn read(&mut self, block: u64, blocks: u32) -> Result<Vec<u8>, Error> {
        let request = commands::read(self.nsid, block, blocks, self.block_bytes);
        Ok(self.queue.call(&request)?.good("Read")?.data)
    }

    /// The blocks hold those data.
    pub fn holds(&mut self, block: u64, data: &[u8]) -> Outcome {
        let read = self.read(block, self.blocks_of(data.len()))?;
        match read.iter().zip(data).position(|(read, written)| read != written) {
            None if read.len() == data.len() => Ok(()),
            None => Err(Verdict::Failed(format!(
                "a read gave {} bytes, not {}",
                read.len(),
                data.len()
            ))),
            Some(at) => Err(Verdict::Failed(format!(
                "byte {at} of what was read at block {block} is {:#x}, not {:#x}",
                read[at], data[at]
            ))),
        }
    }

    /// The most bytes of a transfer to try: bounded by MDTS.
    pub fn max_transfer(&self) -> usize {
        /// More than any target's limit that matters here.
        const MOST: u64 = 4 << 20;
        let most = self.identity.max_transfer_bytes().unwrap_or(1 << 20).min(MOST);
        usize::try_from(most.min(self.blocks * self.block_bytes as u64)).expect("at most 4 MiB")
    }

    /// Are these optional commands there? (Bits of ONCS.)
    pub fn needs_optional(&self, bit: u16, name: &str) -> Outcome {
        if self.identity.optional() >> bit & 1 == 1 {
            return Ok(());
        }
        Err(Verdict::Skipped(format!("ONCS has no {name}")))
    }
}

/// Bytes that differ from sector to sector and with `seed`.
pub fn pattern(seed: u32, bytes: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(bytes);
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    while data.len() < bytes {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        data.extend_from_slice(&state.to_le_bytes());
    }
    data.truncate(bytes);
    data
}

/// The completion has that status.
pub fn ended(completion: &Completion, expected: u16) -> Outcome {
    ended_by(completion, &[expected])
}

/// The completion has one of those statuses.
pub fn ended_by(completion: &Completion, expected: &[u16]) -> Outcome {
    if expected.contains(&completion.status.number()) {
        return Ok(());
    }
    let expected: Vec<String> = expected.iter().map(|&number| status::name(number)).collect();
    Err(Verdict::Failed(format!(
        "the status is {}, not {}",
        completion.status,
        expected.join(" or ")
    )))
}

/// The command of that request ends with one of those statuses, and the queue works on.
pub fn refused(queue: &mut Queue, request: &Request, expected: &[u16]) -> Outcome {
    ended_by(&queue.call(request)?, expected)
}

/// The target ends the connection: by a C2HTermReq with one of those fatal error statuses, and then it closes.
pub fn terminated(connection: &mut Connection, expected: &[u16]) -> Outcome {
    match connection.next() {
        Ok(pdu) => Err(Verdict::Failed(format!(
            "it answered {pdu:?} instead of ending the connection"
        ))),
        Err(Error::Terminated { fatal, field, .. }) if !expected.contains(&fatal) => Err(Verdict::Failed(format!(
            "its C2HTermReq has fatal error status {fatal} (information {field:#x}), not one of {expected:?}"
        ))),
        Err(Error::Terminated { .. }) => Ok(connection.wait_closed()?),
        Err(Error::Closed) => Err(Verdict::Failed("it closed the connection without a C2HTermReq".into())),
        Err(other) => Err(other.into()),
    }
}

/// Nothing comes for a while, and the connection stays.
pub fn silent(connection: &mut Connection, silence: Duration) -> Outcome {
    match connection.next_until(std::time::Instant::now() + silence) {
        Err(Error::Timeout(_)) => Ok(()),
        Ok(pdu) => Err(Verdict::Failed(format!("it sent {pdu:?} where nothing was due"))),
        Err(other) => Err(other.into()),
    }
}
