//! How a core waits: it gives way for a while before it blocks, as long as that has paid lately.
//!
//! Blocking and being woken costs several microseconds on each side, and tens where the other core has to be woken
//! too; a `sched_yield` costs a quarter of one, lets peers on the same core run, and often finds their answer. Where both
//! ends of an exchange give way, neither is ever woken: the exchange is several times as fast, across cores and on one. Where
//! only one does, it waits in vain for one that sleeps. So a core must not give up before a peer that had to be woken could
//! answer; that is the patience here.
//!
//! But yielding in vain is waste. So it is earned by blocks that turned out short (the answer was near), it has to be
//! earned anew after a long one (an idle core blocks at once), and each failure doubles what the next try costs.

use std::time::{Duration, Instant};

/// For so long a core gives way before it blocks: as long as it takes to wake a peer on another core, and to be answered.
const PATIENCE: Duration = Duration::from_micros(120);

/// A block shorter than this was for something near: a peer that answers at once, and the time to be woken (which is
/// most of it on a virtual machine).
const SHORT_BLOCK: Duration = Duration::from_micros(300);

/// Short blocks in a row before yielding is tried: at first, and at most.
const LEAST_PRICE: u32 = 2;
const GREATEST_PRICE: u32 = 64;

/// The waiting of one core.
#[derive(Debug)]
pub(super) struct Pace {
    /// Short blocks since the last long one or the last failure.
    earned: u32,
    price: u32,
    /// Of the present wait.
    yields: u32,
    began: Instant,
    lasted: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            earned: 0,
            price: LEAST_PRICE,
            yields: 0,
            began: Instant::now(),
            lasted: Duration::ZERO,
        }
    }
}

impl Pace {
    /// A wait begins.
    pub fn begin(&mut self) {
        self.yields = 0;
        self.lasted = Duration::ZERO;
    }

    /// Is it worth giving way (again, up to `most` times) before blocking?
    pub fn should_yield(&self, most: u32) -> bool {
        self.earned >= self.price && self.yields < most && self.lasted < PATIENCE
    }

    /// Gives way once.
    pub fn give_way(&mut self) {
        if self.yields == 0 {
            self.began = Instant::now();
        }
        super::sys::give_way();
        self.yields += 1;
        self.lasted = self.began.elapsed();
    }

    /// Something came while giving way.
    pub fn found(&mut self) {
        self.price = LEAST_PRICE;
    }

    /// It had to block after all, for so long.
    pub fn blocked(&mut self, length: Duration) {
        if self.yields > 0 {
            self.earned = 0;
            self.price = (self.price * 2).min(GREATEST_PRICE);
        }
        if length < SHORT_BLOCK {
            self.earned = self.earned.saturating_add(1);
        } else {
            self.earned = 0;
        }
    }
}
