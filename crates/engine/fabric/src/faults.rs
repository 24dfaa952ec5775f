//! Rules that the simulator switches off, and what then goes wrong.

use crate::backoff::Jitter;
use crate::event::Event;
use std::collections::VecDeque;

amita_reactor::fault_switches! {
    /// Frames are delivered without a check of the CRC of their heads.
    SkipHeadCrc,
    /// Messages of one link are delivered in another order now and then.
    Reorder,
}

/// Now and then the last two messages of a receive, whose events begin at `first`, change places.
pub(crate) fn reorder(events: &mut VecDeque<Event>, first: usize, jitter: &mut Jitter) {
    let last = events.len();
    let movable = |event: Option<&Event>| matches!(event, Some(Event::Message { .. }));
    if last >= first + 2
        && movable(events.get(last - 1))
        && movable(events.get(last - 2))
        && jitter.next().is_multiple_of(4)
    {
        events.swap(last - 2, last - 1);
    }
}
