//! Rules that the simulator switches off, and what then goes wrong.

use crate::backoff::Jitter;
use crate::config::Config;
use crate::event::Event;
use crate::message::Message;
use amita_reactor::Slice;
use std::collections::VecDeque;
#[cfg(any(test, feature = "planted"))]
use std::{fmt, sync::Arc};

amita_reactor::fault_switches! {
    /// Frames are delivered without a check of the CRC of their heads.
    SkipHeadCrc,
    /// Messages of one link are delivered in another order now and then.
    Reorder,
    /// What one of a peer's two networks refuses is taken for the death of its process, whatever the other one says.
    OneRefusal,
    /// A link that moves to another network leaves its connection there, and so does the other end.
    KeepLeft,
}

#[cfg(any(test, feature = "planted"))]
type Speak = dyn Fn(&mut Message, &mut Slice) + Send + Sync;

/// What an end says in place of what it was given to send, with its payload: a simulated node that lies.
#[cfg(any(test, feature = "planted"))]
#[derive(Clone)]
pub struct Tongue(Arc<Speak>);

#[cfg(any(test, feature = "planted"))]
impl Tongue {
    #[must_use]
    pub fn new(speak: impl Fn(&mut Message, &mut Slice) + Send + Sync + 'static) -> Tongue {
        Tongue(Arc::new(speak))
    }
}

#[cfg(any(test, feature = "planted"))]
impl fmt::Debug for Tongue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tongue")
    }
}

/// A message leaves: of a node that lies another one does.
#[cfg(any(test, feature = "planted"))]
pub(crate) fn speak(config: &Config, message: &mut Message, payload: &mut Slice) {
    if let Some(Tongue(speak)) = &config.tongue {
        speak(message, payload);
    }
}

/// A message leaves.
#[cfg(not(any(test, feature = "planted")))]
#[inline(always)]
pub(crate) fn speak(_: &Config, _: &mut Message, _: &mut Slice) {}

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
