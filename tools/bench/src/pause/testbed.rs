//! A small cluster for one row of the table: three nodes, three copies, a volume, and a probe that writes.

use crate::testbed::{NODES, Product, three_nodes};
use amita_harness::cluster::{Cluster, Metadata};
use amita_harness::etcd::Etcd;
use amita_harness::faulty_disk::FaultyDisk;
use amita_harness::observe::Observer;
use amita_harness::probe::{Pause, Probe};
use amita_harness::scratch::Scratch;
use amita_harness::tool;
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use std::time::{Duration, Instant};

const VOLUME: &str = "pause";
const VOLUME_BYTES: u64 = 64 << 20;
const STORE_BYTES: u64 = 512 << 20;
/// Writes before anything is done: enough of them for a p99.9.
const BEFORE: Duration = Duration::from_secs(2);

/// Processes first, then what they stand on.
pub(super) struct Testbed {
    pub cluster: Cluster,
    etcd: Option<Etcd>,
    disk: Option<FaultyDisk>,
    pub observer: Observer,
    _scratch: Scratch,
}

/// What is to fail, where that must be known at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wants {
    /// The last node's disk fails on command.
    pub disk: bool,
    /// The metadata is a real etcd, where one is installed.
    pub etcd: bool,
}

impl Testbed {
    pub fn start(wants: Wants, product: &Product) -> Result<Testbed> {
        let scratch = Scratch::make("pause", None, None, STORE_BYTES * NODES as u64)?;
        let etcd = if wants.etcd && tool::find("etcd").is_ok() {
            Some(Etcd::start(scratch.folder(), scratch.stores())?)
        } else {
            None
        };
        let metadata = etcd
            .as_ref()
            .map_or(Metadata::Embedded, |etcd| Metadata::External(etcd.endpoint()));
        let mut cluster = Cluster::without_nodes(three_nodes(&scratch, STORE_BYTES, metadata, product))?;
        for node in 0..NODES {
            cluster.format_store(node)?;
        }
        let mut disk = None;
        if wants.disk {
            let last = NODES - 1;
            let faulty = FaultyDisk::open(&cluster.nodes()[last].stores[0], scratch.folder())?;
            cluster.set_stores(last, vec![faulty.path()]);
            disk = Some(faulty);
        }
        cluster.start_nodes()?;
        cluster.make_volume(VOLUME, VOLUME_BYTES)?;
        let observer = Observer::of(&cluster)?;
        Ok(Testbed {
            cluster,
            etcd,
            disk,
            observer,
            _scratch: scratch,
        })
    }

    /// The disk that fails on command.
    pub fn disk(&self) -> Option<&FaultyDisk> {
        self.disk.as_ref()
    }

    /// Which metadata this is.
    pub fn metadata(&self) -> &'static str {
        if self.etcd.is_some() {
            "etcd"
        } else {
            "the embedded metadata"
        }
    }

    /// Kills the metadata with SIGKILL.
    pub fn kill_metadata(&mut self) {
        match &mut self.etcd {
            Some(etcd) => etcd.kill(),
            None => self.cluster.kill_metadata(),
        }
    }

    /// Starts it again.
    pub fn start_metadata(&mut self) -> Result<()> {
        match &mut self.etcd {
            Some(etcd) => etcd.restart(),
            None => self.cluster.start_metadata(),
        }
    }

    /// Has the probe write by this gateway while something is done, and for `after` longer; the longest gap since then.
    pub fn measure(
        &mut self,
        gateway: usize,
        after: Duration,
        act: impl FnOnce(&mut Testbed) -> Result<()>,
    ) -> Result<Pause> {
        let gateways = vec![self.cluster.nodes()[gateway].nbd];
        let probe = Probe::start(gateways, VOLUME, 0)?;
        interrupt::sleep(BEFORE)?;
        let begun = Instant::now();
        act(self)?;
        interrupt::sleep(after)?;
        probe.finish(begun)
    }
}

/// A disk that hangs holds up the end of its node.
impl Drop for Testbed {
    fn drop(&mut self) {
        if let Some(disk) = &self.disk {
            disk.set(amita_harness::faulty_disk::DiskFaults::default());
        }
    }
}
