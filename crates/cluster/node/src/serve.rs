//! The process of a node: core threads, the control thread, and the metadata.
//!
//! Each core runs [`Core`](crate::Core) on a thread of its own. The control plane (lease, watch, metadata calls,
//! registration of stores) runs on ordinary threads: it is slow, may block, and never touches an I/O. The two talk by
//! queues.

mod claim;
pub(crate) mod core_thread;
mod error;
mod keeper;
mod links;
mod local_socket;
mod look;
pub(crate) mod plane;
mod recheck;
mod settings;
mod vouching;
mod watch;

pub use amita_fabric::secure::Protection;
pub use error::ServeError;
pub use local_socket::{OWNER_ALONE, OWNER_AND_GROUP};
pub use settings::{LEASE_S, MAX_CORES, MAX_LINKS_PER_PEER, ServeConfig};

use crate::control::ToCore;
use crate::observe::{CollectReport, CollectSessions, TraceSource};
use crate::worker::Worker;
use amita_reactor::core::{Core as CoreThread, Stop};
use amita_types::NodeId;
use core_thread::{CoreStarter, ToCores};
use local_socket::LocalSocket;
use plane::{Cores, Joined, Plane};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How long a start waits for the stores to be mounted; mounting is bounded by a store's log, so this is plenty.
pub(crate) const MOUNT_PATIENCE: Duration = Duration::from_secs(600);

/// How often a start that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Where the node's messages for the operator go.
pub type Log = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A person must look.
    Error,
    /// Something is not as it should be; the node goes on.
    Warn,
    /// What a person who watches wants to know.
    Info,
}

/// A node that serves. Dropped, it stops.
pub struct Running {
    cores: Vec<CoreThread>,
    /// What computes for hosts that authenticate themselves.
    _worker: Option<Worker>,
    stop: Stop,
    plane: Plane,
    senders: ToCores,
    local: Option<LocalSocket>,
    pub node: NodeId,
    /// Where the fabric of core 0 listens.
    pub fabric: SocketAddr,
    /// The same by the second network, if it has one.
    pub fabric2: Option<SocketAddr>,
    /// Where NBD listens, if it does.
    pub nbd: Option<SocketAddr>,
    /// Where NVMe/TCP listens, if it does.
    pub nvme: Option<SocketAddr>,
    /// Where iSCSI listens: its portals.
    pub iscsi: Vec<SocketAddr>,
    /// Where its metrics and traces can be read, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// How many of the stores serve.
    pub stores: usize,
}

/// Starts a node and returns when it serves: listening, its stores mounted, registered, its lease held.
///
/// # Errors
/// See [`ServeError`]. A store that cannot serve is an error in the log and nothing more, as long as another can.
pub fn serve(config: &ServeConfig, log: &Log) -> Result<Running, ServeError> {
    let joined = Joined::join(config, log)?;
    (config.before_serving)(config);
    let (to_control, from_cores) = channel();
    let stop = Stop::new();
    let worker = match config.nvme {
        Some(_) => Some(Worker::start().map_err(ServeError::Thread)?),
        None => None,
    };
    let orders = worker.as_ref().map(Worker::orders);
    let (local, listener) = LocalSocket::bind(config, log)?.unzip();
    let started = CoreStarter::new(config, &joined, orders)
        .with_local(listener)
        .start(&stop, &to_control)?;
    let cores = Cores {
        senders: started.senders.clone(),
        fabric: started.fabric,
        fabric2: started.fabric2,
        nbd: started.nbd,
        nvme: started.nvme,
        iscsi: started.iscsi.clone(),
        to_control,
        from_cores,
    };
    let plane = Plane::start(config, &joined, cores, log).inspect_err(|_| stop.stop())?;
    let mut running = Running {
        _worker: worker,
        cores: started.cores,
        local,
        stop,
        metrics: plane.metrics(),
        plane,
        senders: started.senders,
        node: joined.node,
        fabric: started.fabric,
        fabric2: started.fabric2,
        nbd: started.nbd,
        nvme: started.nvme,
        iscsi: started.iscsi,
        stores: 0,
    };
    match running.await_mounts(config) {
        Ok(stores) => {
            running.stores = stores;
            Ok(running)
        }
        Err(why) => {
            drop(running);
            joined.leave_nothing(config);
            Err(why)
        }
    }
}

impl Running {
    /// Waits until all stores have been heard of; how many serve.
    fn await_mounts(&mut self, config: &ServeConfig) -> Result<usize, ServeError> {
        let until = Instant::now() + MOUNT_PATIENCE;
        while Instant::now() < until && !self.plane.mounts.hear(LOOK) {
            config.check_interrupted()?;
        }
        self.plane.mounts.end()
    }

    /// The Unix socket of NBD, if there is one.
    #[must_use]
    pub fn nbd_socket(&self) -> Option<&Path> {
        self.local.as_ref().map(LocalSocket::path)
    }

    /// Asks the cores what they have counted and kept, as the metrics do. It is for threads that may wait: a core that hangs is waited
    /// for for two seconds.
    #[must_use]
    pub fn collector(&self) -> CollectReport {
        Arc::clone(self.plane.collect())
    }

    /// Takes the traces that the cores keep, likewise.
    #[must_use]
    pub fn trace_source(&self) -> TraceSource {
        self.plane.traces().clone()
    }

    /// Asks the cores for the sessions of initiators, likewise.
    #[must_use]
    pub fn sessions(&self) -> CollectSessions {
        Arc::clone(self.plane.sessions())
    }

    /// Has every core write to the log what it has under way.
    pub fn describe(&self) {
        for core in 0..self.cores.len() {
            self.senders.send(core, ToCore::Describe);
        }
    }

    /// Has a core ended (by a panic)? Then the process should end as well.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.cores.iter().any(CoreThread::is_finished)
    }

    /// Stops, and waits for all threads.
    ///
    /// # Errors
    /// A core had panicked.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServeError> {
        // Nobody comes any more.
        self.local = None;
        if let Some(end) = self.plane.end_keeper() {
            end.join();
        }
        self.stop.stop();
        let mut result = Ok(());
        for core in self.cores.drain(..) {
            if let Err(panicked) = core.join() {
                result = Err(ServeError::Panicked(panicked));
            }
        }
        self.plane.end();
        result
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// An address that others can dial.
fn is_dialable(address: IpAddr) -> bool {
    !address.is_unspecified()
}
