//! How a core waits: it gives way a little before it blocks, as long as that has paid lately.
//!
//! Blocking and being woken costs several microseconds on each side; a `sched_yield` costs a third of one, lets peers
//! on the same core run, and often finds their answer. But yielding in vain is waste, so it is earned: a block that
//! turned out short raises the trust, a long one takes it. An idle core therefore blocks at once.

use std::time::{Duration, Instant};

/// At most this many times before blocking: what suffices for a peer on another core to answer.
const MAX_YIELDS: u32 = 16;

/// A yield that takes longer than this has let somebody else run.
const RAN_ANOTHER: Duration = Duration::from_micros(2);

/// After this many of those the peers of this core have had their turn, and more would only burn its time.
const MAX_TURNS: u32 = 2;

/// A block shorter than this would have been better spent yielding.
const SHORT_SLEEP: Duration = Duration::from_micros(60);

/// Short blocks before yielding is tried, and how far trust can grow.
const TRUST_TO_YIELD: u32 = 2;
const MAX_TRUST: u32 = 8;

/// The waiting of one core.
#[derive(Debug, Default)]
pub(super) struct Pace {
    trust: u32,
    yields: u32,
    turns: u32,
}

impl Pace {
    /// A wait begins.
    pub fn begin(&mut self) {
        self.yields = 0;
        self.turns = 0;
    }

    /// Is it worth giving way (again) before blocking?
    pub fn should_yield(&self, most: u32) -> bool {
        self.trust >= TRUST_TO_YIELD && self.yields < most.min(MAX_YIELDS) && self.turns < MAX_TURNS
    }

    /// Gives way once.
    pub fn give_way(&mut self) {
        let before = Instant::now();
        super::sys::give_way();
        self.yields += 1;
        if before.elapsed() > RAN_ANOTHER {
            self.turns += 1;
        }
    }

    /// Something came while giving way.
    pub fn found(&mut self) {
        self.trust = (self.trust + 1).min(MAX_TRUST);
    }

    /// It had to block after all, for so long.
    pub fn blocked(&mut self, length: Duration) {
        if length < SHORT_SLEEP {
            self.trust = (self.trust + 1).min(MAX_TRUST);
        } else if length > SHORT_SLEEP * 4 {
            self.trust = 0;
        } else {
            self.trust = self.trust.saturating_sub(1);
        }
    }
}
