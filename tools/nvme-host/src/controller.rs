//! A controller: its admin queue, and the queues made for it.

use crate::commands::{self, Connect, FLOW_CONTROL_OFF};
use crate::structures::{DiscoveryLog, IdentifyController, IdentifyNamespace, namespaces_of};
use crate::wire::log;
use crate::{Completion, Connection, Error, Initialize, Queue, Request};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The well-known name of discovery (NVM Express Base 2.1, 3.1.3.3).
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Data that a capsule of the admin queue holds (TCP Transport 1.1, 3.6.2.6).
pub const ADMIN_IN_CAPSULE: usize = 8192;

/// Offsets of properties (Base 2.1, 3.1.4).
#[allow(missing_docs)]
pub mod property {
    pub const CAP: u32 = 0x00;
    pub const VS: u32 = 0x08;
    pub const CC: u32 = 0x14;
    pub const CSTS: u32 = 0x1c;
}

/// `CC` of an enabled controller: NVM command set, entries of 64 and 16 bytes.
pub const CC_ENABLED: u64 = 1 | 6 << 16 | 4 << 20;

/// Who connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub nqn: String,
    /// The host's identifier.
    pub id: [u8; 16],
}

impl Host {
    /// A host whose identifier follows from its name: two names, two hosts.
    #[must_use]
    pub fn named(nqn: &str) -> Host {
        let mut id = [0x5a_u8; 16];
        for (at, byte) in nqn.bytes().enumerate() {
            id[at % 16] = id[at % 16].rotate_left(3) ^ byte.wrapping_add(at as u8);
        }
        Host { nqn: nqn.into(), id }
    }
}

/// Where to connect to, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The target's address.
    pub address: SocketAddr,
    /// The subsystem's NQN.
    pub nqn: String,
    /// What each connection begins with.
    pub initialize: Initialize,
    /// Keep alive time-out; 0: none.
    pub keep_alive_ms: u32,
    /// Entries of the admin queue.
    pub admin_entries: u16,
    /// SUCCESS flags are welcome: flow control of I/O queues is off.
    pub flow_control_off: bool,
    /// How long to wait for anything.
    pub timeout: Duration,
}

impl Settings {
    /// Usual ones.
    #[must_use]
    pub fn new(address: SocketAddr, nqn: &str) -> Settings {
        Settings {
            address,
            nqn: nqn.into(),
            initialize: Initialize::default(),
            keep_alive_ms: 120_000,
            admin_entries: 32,
            flow_control_off: true,
            timeout: Duration::from_secs(10),
        }
    }

    /// A connection whose initialization is done, as a queue without a controller.
    ///
    /// # Errors
    /// When that fails.
    pub fn queue(&self, in_capsule: usize) -> Result<Queue, Error> {
        let mut connection = Connection::connect(self.address, self.timeout)?;
        let agreed = connection.initialize(self.initialize)?;
        Ok(Queue::new(connection, agreed, in_capsule))
    }
}

/// A controller, connected by its admin queue.
pub struct Controller {
    pub admin: Queue,
    pub id: u16,
    settings: Settings,
    host: Host,
    /// Data that a capsule of an I/O queue holds, known once identified.
    in_capsule: Option<usize>,
}

impl Controller {
    /// Connects an admin queue. The controller is not enabled yet.
    ///
    /// # Errors
    /// [`Error::Command`] when Connect is refused, and whatever a connection can suffer.
    pub fn connect(settings: &Settings, host: &Host) -> Result<Controller, Error> {
        Controller::connect_over(settings.queue(ADMIN_IN_CAPSULE)?, settings, host)
    }

    /// The same over a queue whose initialization is done.
    ///
    /// # Errors
    /// As [`Controller::connect`].
    pub fn connect_over(mut admin: Queue, settings: &Settings, host: &Host) -> Result<Controller, Error> {
        let connect = Connect {
            queue: 0,
            size: settings.admin_entries - 1,
            attributes: 0,
            keep_alive_ms: settings.keep_alive_ms,
            controller: 0xffff,
            host_id: host.id,
            subsystem: settings.nqn.clone(),
            host: host.nqn.clone(),
        };
        let answer = admin.call(&connect.request())?.good("Connect of the admin queue")?;
        admin.connected(settings.admin_entries, false);
        Ok(Controller {
            admin,
            id: answer.dword() as u16,
            settings: settings.clone(),
            host: host.clone(),
            in_capsule: None,
        })
    }

    /// Who is connected.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// A property.
    ///
    /// # Errors
    /// When the controller has none of that offset and width.
    pub fn property(&mut self, offset: u32, wide: bool) -> Result<u64, Error> {
        Ok(self
            .admin
            .call(&commands::property_get(offset, wide))?
            .good("Property Get")?
            .result)
    }

    /// Sets a property of four bytes.
    ///
    /// # Errors
    /// When the controller refuses.
    pub fn set_property(&mut self, offset: u32, value: u64) -> Result<(), Error> {
        self.admin
            .call(&commands::property_set(offset, value))?
            .good("Property Set")?;
        Ok(())
    }

    /// Enables the controller and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready in time.
    pub fn enable(&mut self) -> Result<(), Error> {
        self.set_property(property::CC, CC_ENABLED)?;
        let deadline = Instant::now() + self.settings.timeout;
        loop {
            let status = self.property(property::CSTS, false)?;
            if status & 1 == 1 {
                return Ok(());
            }
            if status & 2 != 0 || Instant::now() > deadline {
                return Err(Error::Controller(format!("CSTS is {status:#x} after it was enabled")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Shuts the controller down in an orderly way and waits until that is done (Base 2.1, 3.6).
    ///
    /// # Errors
    /// When that does not happen in time.
    pub fn shut_down(&mut self) -> Result<(), Error> {
        self.set_property(property::CC, CC_ENABLED | 1 << 14)?;
        let deadline = Instant::now() + self.settings.timeout;
        while self.property(property::CSTS, false)? & 0xc != 8 {
            if Instant::now() > deadline {
                return Err(Error::Timeout("the shutdown"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Runs an admin command to its end.
    ///
    /// # Errors
    /// When the connection fails; not when the command does.
    pub fn call(&mut self, request: &Request) -> Result<Completion, Error> {
        self.admin.call(request)
    }

    /// What the controller is.
    ///
    /// # Errors
    /// When the command fails.
    pub fn identify(&mut self) -> Result<IdentifyController, Error> {
        let data = self.call(&commands::identify(1, 0))?.good("Identify Controller")?.data;
        IdentifyController::read(data)
    }

    /// What a namespace is.
    ///
    /// # Errors
    /// When the command fails.
    pub fn namespace(&mut self, nsid: u32) -> Result<IdentifyNamespace, Error> {
        let data = self
            .call(&commands::identify(0, nsid))?
            .good("Identify Namespace")?
            .data;
        IdentifyNamespace::read(data)
    }

    /// The namespaces that are there.
    ///
    /// # Errors
    /// When the command fails.
    pub fn namespaces(&mut self) -> Result<Vec<u32>, Error> {
        Ok(namespaces_of(
            &self
                .call(&commands::identify(2, 0))?
                .good("Identify Active Namespaces")?
                .data,
        ))
    }

    /// A log page, whole.
    ///
    /// # Errors
    /// When the command fails.
    pub fn log(&mut self, page: u8, nsid: u32, bytes: usize) -> Result<Vec<u8>, Error> {
        Ok(self
            .call(&commands::log_page(page, nsid, 0, bytes))?
            .good("Get Log Page")?
            .data)
    }

    /// The data that a capsule of an I/O queue holds.
    fn in_capsule(&mut self) -> Result<usize, Error> {
        if self.in_capsule.is_none() {
            self.in_capsule = Some(self.identify()?.in_capsule_bytes());
        }
        Ok(self.in_capsule.unwrap_or(0))
    }

    /// What Connect of an I/O queue would say.
    #[must_use]
    pub fn io_connect(&self, queue: u16, entries: u16) -> Connect {
        Connect {
            queue,
            size: entries - 1,
            attributes: if self.settings.flow_control_off {
                FLOW_CONTROL_OFF
            } else {
                0
            },
            keep_alive_ms: 0,
            controller: self.id,
            host_id: self.host.id,
            subsystem: self.settings.nqn.clone(),
            host: self.host.nqn.clone(),
        }
    }

    /// Connects an I/O queue of that number and size. (`commands::queues` asks for their count before.)
    ///
    /// # Errors
    /// When the controller refuses.
    pub fn io_queue(&mut self, queue: u16, entries: u16) -> Result<Queue, Error> {
        let settings = self.settings.clone();
        let in_capsule = self.in_capsule()?;
        let queue_of = settings.queue(in_capsule)?;
        self.io_queue_over(queue_of, queue, entries)
    }

    /// The same over a queue whose initialization is done.
    ///
    /// # Errors
    /// When the controller refuses.
    pub fn io_queue_over(&mut self, mut over: Queue, queue: u16, entries: u16) -> Result<Queue, Error> {
        let in_capsule = self.in_capsule()?;
        over.call(&self.io_connect(queue, entries).request())?
            .good("Connect of an I/O queue")?;
        over.set_in_capsule(in_capsule);
        over.connected(entries, self.settings.flow_control_off);
        Ok(over)
    }

    /// Asks for an event: its completion comes with the event. Gives the command's identifier.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn ask_for_event(&mut self) -> Result<u16, Error> {
        self.admin.submit(&commands::async_event())
    }
}

/// The discovery log of the target at `settings.address`, read as hosts do: the header, all of it, and the header again.
///
/// # Errors
/// When the target has no discovery, or the log does not stand still.
pub fn discovery_log(settings: &Settings, host: &Host) -> Result<DiscoveryLog, Error> {
    /// How often the log may change under the reader.
    const TRIES: usize = 10;
    let mut settings = settings.clone();
    settings.nqn = DISCOVERY_NQN.into();
    settings.keep_alive_ms = 0;
    let mut controller = Controller::connect(&settings, host)?;
    controller.enable()?;
    for _ in 0..TRIES {
        let header = DiscoveryLog::read(&controller.log(log::DISCOVERY, 0, 1024)?)?;
        let bytes = 1024 + 1024 * usize::try_from(header.records).unwrap_or(usize::MAX).min(1024);
        let whole = DiscoveryLog::read(&controller.log(log::DISCOVERY, 0, bytes)?)?;
        let again = DiscoveryLog::read(&controller.log(log::DISCOVERY, 0, 1024)?)?;
        if whole.generation == again.generation && whole.entries.len() as u64 == whole.records {
            return Ok(whole);
        }
    }
    Err(Error::Controller("its discovery log does not stand still".into()))
}
