//! A node of one core inside somebody else's thread: whoever has it calls [`Embedded::poll`] or [`Embedded::wait`], and
//! the core runs in there and nowhere else. Crate `client` stands on it.
//!
//! The control plane (lease, watch, metadata calls) has its own threads, as in a node that serves
//! ([`crate::serve`]); they never touch an I/O. Nothing else runs between the calls: connections are not read, leases
//! of stores are not renewed, and peers that hear nothing for long enough take the process for frozen.

use crate::fronts::Fronts;
use crate::serve::core_thread::{CoreStarter, EmbeddedCore, NodeService};
use crate::serve::plane::{Cores, Joined, Plane};
use crate::serve::{Log, MOUNT_PATIENCE, ServeConfig, ServeError};
use crate::token;
use amita_identity::Upkeep;
use amita_reactor::core::Service;
use amita_reactor::driver::{Completion, Driver, Time, TimerId, Wait};
use amita_reactor::uring::UringDriver;
use amita_reactor::{Pool, Waker};
use amita_types::NodeId;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Completions of one pass for which there is room from the start.
const COMPLETIONS: usize = 256;
/// While the start or the end waits for another thread, it runs passes of at most this length.
const STEP: Duration = Duration::from_millis(2);
/// How long a start waits for connections to the other nodes: one that does not answer for so long is away, or frozen.
const MEET_PATIENCE: Duration = Duration::from_secs(2);

/// A node of one core, run by its owner's thread. Dropped, it stops.
pub struct Embedded {
    // The service goes first: its sessions and buffers belong to the driver's pool.
    service: NodeService,
    driver: UringDriver,
    plane: Plane,
    completions: Vec<Completion>,
    /// What the last pass said of work that is left.
    left: Wait,
    /// The timer that ends a wait.
    alarm: Option<(Time, TimerId)>,
    ended: bool,
    /// Renews its identity, and hears of what was revoked.
    _upkeep: Option<Upkeep>,
    pub node: NodeId,
    /// Where its fabric listens.
    pub fabric: SocketAddr,
    /// How many of its stores serve.
    pub stores: usize,
}

impl Embedded {
    /// Joins the cluster: takes the lease, registers, mounts the stores. Blocks.
    ///
    /// # Errors
    /// See [`ServeError`]. A store that cannot serve is an error in the log and nothing more, as long as another can.
    ///
    /// # Panics
    /// When the settings name several cores: one thread runs one.
    pub fn start(config: &ServeConfig, log: &Log) -> Result<Embedded, ServeError> {
        let upkeep = config
            .identity
            .as_ref()
            .map(|live| Upkeep::start(live.clone(), config.ca_server.as_deref()))
            .transpose()
            .map_err(|why| ServeError::Setting {
                setting: "identity",
                why: why.to_string(),
            })?;
        let joined = Joined::join(config, log)?;
        let (to_control, from_cores) = channel();
        let EmbeddedCore {
            driver,
            service,
            senders,
            fabric,
            fabric2,
        } = CoreStarter::new(config, &joined, None).here(&to_control)?;
        let cores = Cores {
            senders,
            fabric,
            fabric2,
            nbd: None,
            nvme: None,
            iscsi: Vec::new(),
            to_control,
            from_cores,
        };
        let plane = Plane::start(config, &joined, cores, log)?;
        let mut embedded = Embedded {
            service,
            driver,
            plane,
            completions: Vec::with_capacity(COMPLETIONS),
            left: Wait::No,
            alarm: None,
            ended: false,
            _upkeep: upkeep,
            node: joined.node,
            fabric,
            stores: 0,
        };
        embedded.poll();
        let until = embedded.now().plus(MOUNT_PATIENCE);
        while !embedded.plane.mounts.hear(Duration::ZERO) && embedded.now() < until {
            embedded.step();
        }
        embedded.stores = embedded.plane.mounts.end()?;
        embedded.meet_everybody();
        Ok(embedded)
    }

    /// Waits until all records are known, and a connection to each living node is there or was tried in vain: a volume
    /// that is asked for now is asked of its owner, and not taken from one that is not connected yet.
    fn meet_everybody(&mut self) {
        let until = self.now().plus(MEET_PATIENCE);
        loop {
            let settled = self.plane.is_settled();
            self.step();
            if (settled && self.service.core.has_tried_all()) || self.now() >= until {
                return;
            }
        }
    }

    /// The sessions of the core: what is asked of its storage service goes out with the next pass.
    pub fn fronts(&mut self) -> &mut Fronts {
        &mut self.service.core.fronts
    }

    /// The buffers of the core.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.driver.pool()
    }

    /// The time as of the last pass, or of [`Embedded::start_asked`].
    #[must_use]
    pub fn now(&self) -> Time {
        self.driver.now()
    }

    /// Ends a [`Embedded::wait`] from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.driver.waker()
    }

    /// One pass: hands over what was started, takes in what has ended, handles it. Does not block. What the pass itself
    /// starts is handed over by the next.
    pub fn poll(&mut self) {
        self.pass(Wait::No);
    }

    fn pass(&mut self, wait: Wait) {
        self.driver.poll(wait, &mut self.completions);
        // It has fired, or is about to: then it costs a pass, and is of no use to the next wait.
        if self.alarm.is_some_and(|(at, _)| at <= self.driver.now()) {
            self.alarm = None;
        }
        self.left = self.service.pass(&mut self.driver, &mut self.completions);
    }

    /// A pass over what was asked for since the last one, so that the next one hands it over. The clock is read: what
    /// is asked for now must not be judged by the time of the last pass, which may be long ago (R4), nor a limit be
    /// counted from then.
    pub fn start_asked(&mut self) {
        self.driver.refresh();
        if !self.service.core.fronts.requests.queue.is_empty() {
            self.left = self.service.pass(&mut self.driver, &mut self.completions);
        }
    }

    /// One pass, for which it blocks until something completes, but no longer than `until`.
    pub fn wait(&mut self, until: Time) {
        if self.left == Wait::UntilEvent {
            self.set_alarm(until);
        }
        self.pass(self.left);
    }

    /// An alarm that is earlier than wanted may stay: it costs a pass and is set anew. So one that is waited with again
    /// and again, and hardly ever to its end, is rarely touched.
    fn set_alarm(&mut self, until: Time) {
        if let Some((at, timer)) = self.alarm {
            if at <= until {
                return;
            }
            self.driver.cancel_timer(timer);
        }
        let timer = self.driver.timer(until, token::token(token::EMBEDDER, 0, 0));
        self.alarm = Some((until, timer));
    }

    fn step(&mut self) {
        let until = self.now().plus(STEP);
        self.wait(until);
    }

    /// Leaves the cluster, and waits for all threads. What is under way ends unheard.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if let Some(end) = self.plane.end_keeper() {
            while !end.wait(Duration::ZERO) {
                self.step();
            }
            end.join();
        }
        self.plane.end();
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.end();
    }
}
