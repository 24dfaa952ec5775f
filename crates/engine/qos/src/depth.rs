//! How much may be under way at once at what lies below the scheduler (a disk, the stores): the order of what waits helps nobody
//! once it has been handed to a device that has its own.
//!
//! Flows with a latency target are watched. The latency that counts runs from the moment at which an I/O could have gone, had it been
//! alone (its own flow's turn, its own limits): what others cost it. When more than one in a hundred is later than its target the
//! depth shrinks by a quarter, and grows by one in a span in which no more were later than four fifths of it: to try whether a little
//! more still does would cost a span that is late. Without targets, or while nobody who has one is at work, it is
//! the most that is allowed. (The mechanism of PARDA, FAST 2009, and of Linux's blk-iolatency and Kyber, for flows rather than hosts.)

use amita_reactor::Time;
use std::time::Duration;

/// A span that is judged at once, if enough ended in it.
const SPAN: Duration = Duration::from_millis(100);
/// Fewer say nothing: the span goes on, up to [`LONGEST_SPAN`].
const ENOUGH: u32 = 100;
const LONGEST_SPAN: Duration = Duration::from_secs(1);
/// Of so many, one may be late.
const ONE_OF: u32 = 100;

/// Between which bounds the depth moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthLimits {
    /// However late things are; at least 1.
    pub least: u32,
    /// However well.
    pub most: u32,
}

impl DepthLimits {
    /// No bound: what lies below has none of its own, or bounds itself.
    pub const NONE: DepthLimits = DepthLimits {
        least: u32::MAX,
        most: u32::MAX,
    };
}

/// The depth of one scheduler.
#[derive(Debug)]
pub(crate) struct Depth {
    limits: DepthLimits,
    width: u32,
    under_way: u32,
    began: Time,
    seen: u32,
    late: u32,
    /// Later than four fifths of the target.
    near: u32,
}

impl Depth {
    pub(crate) fn new(limits: DepthLimits) -> Depth {
        let least = limits.least.max(1);
        let most = limits.most.max(least);
        Depth {
            limits: DepthLimits { least, most },
            width: most,
            under_way: 0,
            began: Time(0),
            seen: 0,
            late: 0,
            near: 0,
        }
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.under_way < self.width
    }

    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }

    #[inline]
    pub(crate) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// One has ended, that took so long; its flow has that target, if any.
    #[inline]
    pub(crate) fn end(&mut self, now: Time, took: Duration, target: Option<Duration>) {
        assert!(self.under_way > 0, "what ends was begun");
        self.under_way -= 1;
        if self.limits.least == self.limits.most {
            return;
        }
        if let Some(target) = target {
            self.seen += 1;
            self.late += u32::from(took > target);
            self.near += u32::from(took > target * 4 / 5);
        }
        let length = now.since(self.began);
        if length >= SPAN {
            self.judge(now, length);
        }
    }

    fn judge(&mut self, now: Time, length: Duration) {
        if self.seen > 0 && self.seen < ENOUGH && length < LONGEST_SPAN {
            return;
        }
        let few = self.seen.div_ceil(ONE_OF);
        self.width = if self.seen == 0 {
            // Nobody who is watched: it opens quickly.
            self.width.saturating_mul(2)
        } else if self.late > few {
            self.width - self.width.div_ceil(4)
        } else {
            self.width.saturating_add(u32::from(self.near <= few))
        };
        self.width = self.width.clamp(self.limits.least, self.limits.most);
        (self.began, self.seen, self.late, self.near) = (now, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests;
