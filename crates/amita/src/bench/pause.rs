//! What a failure costs the host: the longest time without an acknowledgement, as a writer at depth 1 sees it.
//!
//! The rows of the table (`pause.*_s`) each have a cluster of their own, so that none begins with what another left.

mod bed;
mod table;

pub use table::table;

use crate::bench::report::Figures;
use crate::error::Result;
use crate::harness::cluster::Cluster;
use crate::harness::interrupt;
use crate::harness::probe::{Pause, Probe};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What a kill may cost.
const PAUSE_SECONDS: f64 = 1.0;
/// Writes before the kill, so that the path is warm and the gap has a left side.
const BEFORE: Duration = Duration::from_millis(500);
/// Writes after it: longer than any pause that is still a pause.
const AFTER: Duration = Duration::from_secs(4);

/// Probes the volume at the given gateways, kills a node, and measures.
///
/// # Errors
/// When no write is acknowledged after the kill.
pub fn measure(
    cluster: &mut Cluster,
    gateways: Vec<SocketAddr>,
    volume: &str,
    offset: u64,
    victim: usize,
) -> Result<Pause> {
    let probe = Probe::start(gateways, volume, offset)?;
    interrupt::sleep(BEFORE)?;
    let killed = Instant::now();
    cluster.kill_node(victim);
    interrupt::sleep(AFTER)?;
    probe.finish(killed)
}

/// The gateway that owns the volume dies: it holds no store, so this is the takeover and nothing else.
///
/// # Errors
/// When the volume is not taken over.
pub fn takeover(cluster: &mut Cluster, volume: &str, offset: u64, figures: &mut Figures) -> Result<()> {
    let gateway = cluster.add_gateway("g1")?;
    let gateways = vec![cluster.nodes()[gateway].nbd, cluster.nodes()[0].nbd];
    let pause = measure(cluster, gateways, volume, offset, gateway)?;
    let (label, seconds) = (
        "pause when the owner is killed, taken over by another",
        pause.length.as_secs_f64(),
    );
    figures.at_most("pause.takeover_s", label, seconds, "s", PAUSE_SECONDS);
    Ok(())
}

/// A node with copies dies, the gateway lives.
///
/// # Errors
/// When writes do not go on.
pub fn kill(cluster: &mut Cluster, volume: &str, offset: u64, figures: &mut Figures) -> Result<()> {
    let gateways = vec![cluster.nodes()[0].nbd];
    let pause = measure(cluster, gateways, volume, offset, 2)?;
    let seconds = pause.length.as_secs_f64();
    figures.at_most(
        "pause.kill_s",
        "pause when a node with copies is killed",
        seconds,
        "s",
        PAUSE_SECONDS,
    );
    Ok(())
}
