//! What a store is told when it is opened.

use crate::faults::Faults;
use amita_types::ClusterId;
use std::time::Duration;

/// The settings of one store.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster that this node belongs to. A store of another cluster is refused; one that belongs to none yet
    /// joins this one, durably, before it serves. `None`: whatever it is, it is served (tools and tests).
    pub cluster: Option<ClusterId>,
    /// How long the read lease lasts that comes with each answer: no newer generation is accepted meanwhile (rule R4).
    /// Longer leases make reads survive longer silences; a takeover waits for them.
    pub lease: Duration,
    /// The budget for the index in memory, in bytes. What is always there (heads of chunks, snapshots, one bit a slot)
    /// comes first; a write that would make that larger than the budget is refused as if the disk were full. The rest
    /// is a cache of leaves: those that were not used for a while are dropped, and cost one read when they are wanted
    /// again.
    pub index_bytes: u64,
    /// So many of a chunk's newest states stand in each checkpoint. Older ones are in pages of their own, which are written once, when there
    /// are twice as many that are in none. `None`: all stand in each checkpoint, and pages that there are go with the next one. That is the
    /// default for as long as a page that has rotted costs the whole store (decision 052).
    pub recent_states: Option<usize>,
    /// The most requests that wait for the disk at once; more are refused with `Busy`.
    pub max_requests: usize,
    /// After this much silence an idle store writes one page that says how far its log is verified, so that a crash
    /// finds nothing to read back.
    pub idle_mark_after: Duration,
    /// May the device be told what holds nothing any more?
    pub discard: Discard,
    /// Rules that are switched off, to show that the simulator notices (feature `planted`).
    pub faults: Faults,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            cluster: None,
            lease: Duration::from_millis(250),
            index_bytes: 8 << 30,
            recent_states: None,
            max_requests: 4096,
            idle_mark_after: Duration::from_millis(500),
            discard: Discard::default(),
            faults: Faults::NONE,
        }
    }
}

/// Where free space is discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discard {
    /// Nowhere.
    Never,
    /// On block devices that take discards.
    #[default]
    Devices,
    /// In regular files, too: they give their space back, and from the first discard on every write is flushed (rule
    /// D3).
    Always,
}
