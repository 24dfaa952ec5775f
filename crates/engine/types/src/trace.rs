//! The trace of one I/O: what travels with it, so that a person can see where its time went.
//!
//! One in so many I/Os is given a [`TraceId`] where it comes in. The id goes with the I/O to the sequencer, with the
//! sequencer's requests to the stores, and comes back with their answers, to which each store adds how long it took with
//! what ([`StoreTrace`]). Those are durations since the store received the request and not moments, so that no two clocks
//! need to agree; the way there and back is what is left of the time that passed at the sequencer.

/// Names a traced I/O among those of its gateway. Most I/Os are not traced: [`TraceId::NONE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub u32);

impl TraceId {
    /// Not traced.
    pub const NONE: TraceId = TraceId(0);
    /// Bits of an id that count; those above name the core that gave it.
    const COUNT_BITS: u32 = 24;

    /// The `count`th id of a core. (It starts over after 16 million: by then the first is long forgotten.)
    #[must_use]
    pub fn new(core: u16, count: u32) -> TraceId {
        let most = (1 << TraceId::COUNT_BITS) - 1;
        TraceId(u32::from(core) << TraceId::COUNT_BITS | (count % most + 1))
    }

    /// Is the I/O traced?
    #[must_use]
    pub fn is_some(self) -> bool {
        self != TraceId::NONE
    }
}

/// How far a store had come with a traced request, and when: nanoseconds since it received the request. A step that the
/// request does not have is 0 (a read has no log). What took longer than 4.29 s stands as that ([`StoreTrace::since`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTrace {
    /// The request's trace.
    pub id: TraceId,
    /// The operations on the device were started. Before: it waited for its chunk's order, for blocks that it is merged
    /// with, for room in the log.
    pub issued_ns: u32,
    /// The data is on the device, or read from it.
    pub data_ns: u32,
    /// The page of the log is on the device.
    pub log_ns: u32,
    /// It is durable: the device's cache was flushed, where it has one.
    pub durable_ns: u32,
    /// The answer was given. Before: everything that was logged earlier had to be durable too.
    pub answered_ns: u32,
}

impl StoreTrace {
    /// Nanoseconds from one moment to another one, both in nanoseconds of the same clock; 0 where `to` lies before.
    #[must_use]
    pub fn since(from: u64, to: u64) -> u32 {
        u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_their_core_and_are_never_none() {
        let first = TraceId::new(3, 0);
        assert_eq!(first, TraceId(3 << 24 | 1));
        assert!(first.is_some() && !TraceId::NONE.is_some());
        let last = TraceId::new(0, (1 << 24) - 2);
        assert_eq!(last, TraceId((1 << 24) - 1));
        assert_eq!(TraceId::new(0, (1 << 24) - 1), TraceId::new(0, 0));
        assert!(TraceId::new(0, u32::MAX).is_some());
    }

    #[test]
    fn a_duration_that_does_not_fit_is_the_longest() {
        assert_eq!(StoreTrace::since(5, 7), 2);
        assert_eq!(StoreTrace::since(7, 5), 0);
        assert_eq!(StoreTrace::since(0, 1 << 40), u32::MAX);
    }
}
