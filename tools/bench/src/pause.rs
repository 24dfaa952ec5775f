//! What a failure costs the host: the longest time without an acknowledgement, as a writer at depth 1 sees it.
//!
//! The rows of the table (`pause.*_s`) each have a cluster of their own, so that none begins with what another left.

mod table;
mod testbed;

pub use table::table;

use crate::report::Figures;
use amita_harness::cluster::Cluster;
use amita_harness::probe;
use amita_terminal::error::Result;

/// What a kill may cost.
const PAUSE_SECONDS: f64 = 1.0;

/// The gateway that owns the volume dies: it holds no store, so this is the takeover and nothing else.
///
/// # Errors
/// When the volume is not taken over.
pub fn takeover(cluster: &mut Cluster, volume: &str, offset: u64, figures: &mut Figures) -> Result<()> {
    let gateway = cluster.add_gateway("g1")?;
    let gateways = vec![cluster.nodes()[gateway].nbd, cluster.nodes()[0].nbd];
    let pause = probe::across_a_kill(cluster, gateways, volume, offset, gateway)?;
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
    let pause = probe::across_a_kill(cluster, gateways, volume, offset, 2)?;
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
