//! How many connections nodes with two networks have to each other: one from a core to another one, by whichever network.

use crate::cluster::Cluster;
use crate::cluster::wires::core_place;
use amita_reactor::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// A move has settled: handshakes that take too long and goodbyes that nobody hears are over well before.
const SETTLES: Duration = Duration::from_secs(30);

/// Connections that were seen beside one another.
#[derive(Default)]
pub(super) struct Beside {
    looked: Time,
    /// The two oldest from one core to another one (by their places), where there are several, and since when it was these two.
    oldest: BTreeMap<(u32, u32), ([u32; 2], Time)>,
}

impl Cluster {
    /// Whoever moves to another network ends what it leaves: no two connections from a core to another one stay beside each other.
    pub(super) fn judge_connections(&mut self, now: Time) -> Result<(), String> {
        if !self.setup.has_second() || self.networks.beside.looked.plus(LOOK) > now {
            return Ok(());
        }
        let mut between: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for found in self.world.connections() {
            let cores = (core_place(found.from), core_place(found.to));
            between.entry(cores).or_default().push(found.connection);
        }
        let beside = &mut self.networks.beside;
        beside.looked = now;
        let before = std::mem::take(&mut beside.oldest);
        for (cores, connections) in between {
            let [one, other, ..] = connections[..] else { continue };
            let known = before.get(&cores).filter(|(both, _)| *both == [one, other]);
            let since = known.map_or(now, |(_, since)| *since);
            if since.plus(SETTLES) <= now {
                let (from, to) = cores;
                return Err(format!(
                    "the core at {from} has two connections to the one at {to} for {SETTLES:?}: what it has left was not ended"
                ));
            }
            beside.oldest.insert(cores, ([one, other], since));
        }
        Ok(())
    }
}
