//! The cluster of the NVMe and iSCSI rows: three nodes with a copy each, two gateways without stores, all on one core; a volume
//! for hosts and a volume for the client library, so that neither takes the other's away.

use super::added::Sample;
use super::sample;
use crate::case::{Case, Front, Mix, Placement};
use crate::client::{self, Running};
use crate::load::driver::Driver;
use crate::testbed::{Backing, NODES, Product, Testbed, store_bytes};
use crate::units::pin;
use crate::usage::{Watched, Window};
use amita_control::admin::{self, LunSpec, MoveState, SubsystemSpec, TargetSpec};
use amita_harness::observe::Observer;
use amita_harness::scratch::Scratch;
use amita_metadata::Client;
use amita_nvme_host::{Controller, Host, Load, Settings, commands, load};
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_types::NodeId;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of each volume, and those that are worked on.
const VOLUME_BYTES: u64 = 128 << 20;
pub const REGION_BYTES: u64 = 64 << 20;
const SUBSYSTEM: &str = "bench";
/// The namespace of the hosts' volume.
pub const NSID: u32 = 1;
const BLOCK_BYTES: usize = 4096;
/// Bytes of a write that fills.
const FILL_BYTES: usize = 128 << 10;
const SEED: u64 = 0xA117A;
/// How long a gateway may take until it serves what was made, and a move until it is done.
const PATIENCE: Duration = Duration::from_secs(20);

/// The gateways.
pub const FIRST: usize = 0;
/// The one that does not own the hosts' volume, while it is not told otherwise.
pub const SECOND: usize = 1;
const GATEWAYS: [&str; 2] = ["g1", "g2"];

/// It runs. What works on it ends before it.
pub struct Gateways {
    library: Driver,
    meta: Client,
    testbed: Testbed,
    nqn: String,
    /// The target that has the hosts' volume as its LUN 0; none: it is none.
    iqn: Option<String>,
    /// The nodes that are the gateways.
    nodes: [usize; 2],
    owners: [NodeId; 2],
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

fn host() -> Host {
    Host::named("nqn.2026-11.io.amita:bench")
}

/// The number of a gateway. It listens before it has said where.
fn await_node(observer: &Observer, name: &str) -> Result<NodeId> {
    let found = interrupt::poll(PATIENCE, Duration::from_millis(20), || Ok(observer.node(name).ok()))?;
    found.map_or_else(|| observer.node(name), Ok)
}

/// Waits until a gateway serves the namespace: it learns of a new one by watching, some time after it was made.
///
/// # Errors
/// When it does not.
pub fn await_namespace(settings: &Settings) -> Result<()> {
    let mut last = String::new();
    let found = interrupt::poll(PATIENCE, Duration::from_millis(20), || {
        let seen = Controller::connect(settings, &host()).and_then(|mut controller| {
            controller.enable()?;
            controller.namespaces()
        });
        match seen {
            Ok(seen) if seen.contains(&NSID) => return Ok(Some(())),
            Ok(seen) => last = format!("it has the namespaces {seen:?}"),
            Err(error) => last = error.to_string(),
        }
        Ok(None)
    })?;
    let (address, nqn) = (settings.address, &settings.nqn);
    found.ok_or_else(|| Failure::new(format!("{address} does not serve {nqn} by NVMe: {last}")))
}

/// Makes a volume LUN 0 of a target, beside the namespace that it is; the target's name.
fn offer_lun(meta: &Client, volume: &str) -> Result<String> {
    let target = TargetSpec {
        name: SUBSYSTEM.to_owned(),
        any_initiator: true,
        ..TargetSpec::default()
    };
    let iqn = admin::create_target(meta, &target).map_err(failed)?.iqn;
    let lun = LunSpec {
        of: volume.to_owned(),
        number: Some(0),
        block_bytes: BLOCK_BYTES as u32,
        shared: true,
    };
    admin::add_lun(meta, SUBSYSTEM, &lun).map_err(failed)?;
    Ok(iqn)
}

impl Gateways {
    /// Starts it, and writes all that is worked on once.
    ///
    /// # Errors
    /// When something does not start.
    pub fn start(product: &Product) -> Result<Gateways> {
        Gateways::start_with(product, false)
    }

    /// The same, where the gateways have portals for iSCSI, and the hosts' volume is LUN 0 of a target as well.
    ///
    /// # Errors
    /// When something does not start.
    pub fn with_portals(product: &Product) -> Result<Gateways> {
        Gateways::start_with(product, true)
    }

    fn start_with(product: &Product, portals: bool) -> Result<Gateways> {
        let scratch = Scratch::make("nvme", None, None, store_bytes(VOLUME_BYTES) * NODES as u64)?;
        let mut testbed = Testbed::start(scratch, &Backing::default(), VOLUME_BYTES, 2, product)?;
        if portals {
            // For the gateways: the nodes run already.
            testbed.cluster.give_portals();
        }
        let nodes = [
            testbed.cluster.add_gateway(GATEWAYS[FIRST])?,
            testbed.cluster.add_gateway(GATEWAYS[SECOND])?,
        ];
        let meta = testbed.cluster.metadata_client()?;
        let observer = Observer::of(&testbed.cluster)?;
        let owners = [
            await_node(&observer, GATEWAYS[FIRST])?,
            await_node(&observer, GATEWAYS[SECOND])?,
        ];
        let spec = SubsystemSpec {
            name: SUBSYSTEM.to_owned(),
            any_host: true,
            ..SubsystemSpec::default()
        };
        let nqn = admin::create_subsystem(&meta, &spec).map_err(failed)?.nqn;
        admin::add_namespace(&meta, SUBSYSTEM, &testbed.volumes[0], Some(NSID), BLOCK_BYTES as u32).map_err(failed)?;
        let iqn = portals.then(|| offer_lun(&meta, &testbed.volumes[0])).transpose()?;
        let mut library = Driver::start("client", &testbed.cluster, &[])?;
        library.open(&testbed.volumes[1..])?;
        library.fill(REGION_BYTES)?;
        let gateways = Gateways {
            library,
            meta,
            testbed,
            nqn,
            iqn,
            nodes,
            owners,
        };
        await_namespace(&gateways.settings(FIRST))?;
        await_namespace(&gateways.settings(SECOND))?;
        if gateways.iqn.is_some() {
            let (portal, iqn) = gateways.portal(FIRST)?;
            crate::iscsi::await_portal(portal, &iqn)?;
        }
        gateways.fill()?;
        let core = [gateways.core()];
        gateways.testbed.place(Placement::OneCore)?;
        gateways.library.keep_on(&core)?;
        Ok(gateways)
    }

    fn fill(&self) -> Result<()> {
        let fill = || -> std::result::Result<(), amita_nvme_host::Error> {
            let mut controller = Controller::connect(&self.settings(FIRST), &host())?;
            controller.enable()?;
            controller
                .call(&commands::queues(1))?
                .good("Set Features, Number of Queues")?;
            let mut queue = controller.io_queue(1, 8)?;
            let blocks = FILL_BYTES / BLOCK_BYTES;
            for number in 0..REGION_BYTES / FILL_BYTES as u64 {
                let data = (0..FILL_BYTES).map(|at| (at as u64 * 31 + number) as u8).collect();
                let write = commands::write(NSID, number * blocks as u64, blocks as u32, data);
                queue.call(&write)?.good("a write that fills")?;
            }
            Ok(())
        };
        fill().map_err(failed)
    }

    /// The core that everything runs on.
    #[must_use]
    pub fn core(&self) -> usize {
        client::client_cpus(self.testbed.cpus(), Placement::OneCore)
            .first()
            .copied()
            .unwrap_or_default()
    }

    /// Lets the nodes run where they like.
    ///
    /// # Errors
    /// When one has ended.
    pub fn free(&self) -> Result<()> {
        self.testbed.place(Placement::Free)
    }

    /// How a host connects to a gateway.
    #[must_use]
    pub fn settings(&self, gateway: usize) -> Settings {
        Settings::new(self.testbed.cluster.nodes()[self.nodes[gateway]].nvme, &self.nqn)
    }

    /// Where an initiator logs in to a gateway, and the name of its target.
    ///
    /// # Errors
    /// When they have no portals.
    pub fn portal(&self, gateway: usize) -> Result<(SocketAddr, String)> {
        let portal = self.testbed.cluster.nodes()[self.nodes[gateway]].iscsi;
        let both = portal.zip(self.iqn.clone());
        both.ok_or_else(|| Failure::new("the gateways have no portals"))
    }

    /// The processes of the cluster.
    #[must_use]
    pub fn watched(&self) -> Vec<Watched> {
        self.testbed.watched()
    }

    /// Kills a gateway with SIGKILL.
    pub fn kill(&mut self, gateway: usize) {
        self.testbed.cluster.kill_node(self.nodes[gateway]);
    }

    fn owner(&self) -> Result<Option<NodeId>> {
        Ok(admin::volume(&self.meta, &self.testbed.volumes[0])
            .map_err(failed)?
            .owner)
    }

    /// Has a gateway own the hosts' volume, and waits until it does.
    ///
    /// # Errors
    /// When it does not.
    pub fn own(&self, gateway: usize) -> Result<()> {
        if self.owner()? == Some(self.owners[gateway]) {
            return Ok(());
        }
        let wish = admin::move_volume(&self.meta, &self.testbed.volumes[0], GATEWAYS[gateway]).map_err(failed)?;
        let done = interrupt::poll(PATIENCE, Duration::from_millis(5), || {
            match admin::move_state(&self.meta, &wish).map_err(failed)? {
                MoveState::Done => Ok(Some(())),
                MoveState::Waiting => Ok(None),
                other => Err(Failure::new(format!("the volume was not moved: {other:?}"))),
            }
        })?;
        done.ok_or_else(|| Failure::new(format!("{} does not take the volume over", GATEWAYS[gateway])))
    }

    /// Is the volume still where it was?
    ///
    /// # Errors
    /// When it is not: what was measured is not what it should have been.
    pub fn expect_owner(&self, gateway: usize) -> Result<()> {
        let owner = self.owner()?;
        if owner == Some(self.owners[gateway]) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the volume's owner is {owner:?} and no longer {}: what was measured is something else",
            GATEWAYS[gateway]
        )))
    }

    /// The host's I/O. What counts are the nodes, not the host. Its connecting is within the window: that
    /// counts against NVMe.
    ///
    /// # Errors
    /// When an I/O fails.
    pub fn by_nvme(&self, gateway: usize, mix: Mix, depth: u16, time: Duration) -> Result<Sample> {
        let job = Load {
            settings: self.settings(gateway),
            host: host(),
            nsid: NSID,
            bytes: BLOCK_BYTES,
            depth,
            queues: 1,
            read_percent: mix.read_percent() as u8,
            span_bytes: Some(REGION_BYTES),
            duration: time,
            seed: SEED,
        };
        let core = self.core();
        let window = Window::open(&self.testbed.watched())?;
        let loading = std::thread::spawn(move || {
            pin(core)?;
            load(&job).map_err(|error| Failure::new(format!("the load by NVMe: {error}")))
        });
        let loaded = loading
            .join()
            .map_err(|_| Failure::new("the loading thread panicked"))?;
        let usage = window.close()?;
        let loaded = loaded?;
        if loaded.errors > 0 || loaded.operations == 0 {
            let (good, bad) = (loaded.operations, loaded.errors);
            return Err(Failure::new(format!("by NVMe {good} I/Os succeeded and {bad} failed")));
        }
        let latency = loaded.latency.mean().as_secs_f64() * 1e6;
        let operations = loaded.operations as f64;
        Ok(sample(operations, usage.cpu(), loaded.elapsed, latency, usage.foreign))
    }

    /// The same I/O by the client library, whose process is the gateway. All processes count.
    ///
    /// # Errors
    /// When an I/O fails.
    pub fn by_library(&mut self, mix: Mix, depth: u16, time: Duration) -> Result<Sample> {
        let case = Case {
            placement: Placement::OneCore,
            ..Case::new(Front::Libamita, mix, u32::from(depth))
        };
        let mut watched = self.testbed.watched();
        let drivers = std::slice::from_mut(&mut self.library);
        let mut running = Running::library(drivers, &client::job(&case, REGION_BYTES, time))?;
        watched.extend(running.watched());
        running.begun()?;
        let window = Window::open(&watched)?;
        running.ended()?;
        let usage = window.close()?;
        let done = running.finish(mix)?;
        let latency = if mix == Mix::Read { done.read } else { done.write };
        let operations = done.iops * usage.length.as_secs_f64();
        Ok(sample(
            operations,
            usage.cpu(),
            usage.length,
            latency.mean,
            usage.foreign,
        ))
    }
}
