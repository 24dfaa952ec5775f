//! What the nodes of a run are told: time-outs, limits and windows, some of them far from the usual.

use crate::random::Random;
use amita_fabric::limits::MAX_CHARGE_BYTES;
use std::time::Duration;

/// The settings of all nodes of a run. The defaults are the product's.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long the read lease lasts that comes with an answer.
    pub lease: Duration,
    /// Requests that wait at a store; more are refused as `Busy`.
    pub max_requests: usize,
    /// After so much silence a store moves its mark.
    pub idle_mark_after: Duration,
    /// A store that owes an answer and says nothing for so long is evicted.
    pub store_timeout: Duration,
    /// A read that is not answered for so long is sent to another member, too.
    pub hedge_ms: u32,
    /// Reads rest on answers to what was sent after them, and not on leases.
    pub confirm_reads: bool,
    /// How long a store is left alone that answers `Busy`.
    pub busy_pause: Duration,
    /// How long an owner may take to release its volume.
    pub release_timeout: Duration,
    /// An owner that lives and is silent is asked again for so long, and not passed over.
    pub owner_patience: Option<Duration>,
    /// Requests in flight on a link.
    pub window_requests: u32,
    /// Bytes in flight on a link.
    pub window_bytes: u32,
    /// With requests outstanding: after so much silence a peer is asked whether it is there, and after four times as
    /// much the link is dead.
    pub quiet: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        let (store, volume) = (amita_store::Config::default(), amita_sequencer::Config::default());
        let (limits, timeouts) = (amita_fabric::Limits::default(), amita_fabric::Timeouts::default());
        Settings {
            lease: store.lease,
            max_requests: store.max_requests,
            idle_mark_after: store.idle_mark_after,
            store_timeout: volume.store_timeout,
            hedge_ms: volume.hedge_ms,
            confirm_reads: volume.confirm_reads,
            busy_pause: volume.busy_pause,
            release_timeout: amita_sequencer::OpenerConfig::new(amita_types::NodeId(0), "").release_timeout,
            owner_patience: None,
            window_requests: limits.window_requests,
            window_bytes: limits.window_bytes,
            quiet: timeouts.quiet,
        }
    }
}

impl Settings {
    /// Each setting is the usual one in about half of the runs.
    #[must_use]
    pub fn draw(random: &mut Random) -> Settings {
        let usual = Settings::default();
        let mut one = |usual: Duration, others_ms: &[u64]| {
            if random.percent(50) {
                usual
            } else {
                Duration::from_millis(*random.pick(others_ms))
            }
        };
        Settings {
            lease: one(usual.lease, &[40, 100, 600]),
            idle_mark_after: one(usual.idle_mark_after, &[5, 50, 5000]),
            store_timeout: one(usual.store_timeout, &[400, 900, 5000]),
            confirm_reads: usual.confirm_reads,
            busy_pause: one(usual.busy_pause, &[1, 10, 40]),
            release_timeout: one(usual.release_timeout, &[30, 1000]),
            quiet: one(usual.quiet, &[100, 1500]),
            owner_patience: usual.owner_patience,
            // Few, but more than what bringing a store up to date asks one store for at once.
            max_requests: *random.pick(&[usual.max_requests, usual.max_requests, 256]),
            hedge_ms: *random.pick(&[usual.hedge_ms, usual.hedge_ms, 2, 400]),
            window_requests: *random.pick(&[usual.window_requests, usual.window_requests, 16, 3]),
            window_bytes: *random.pick(&[usual.window_bytes, usual.window_bytes, MAX_CHARGE_BYTES]),
        }
    }
}
