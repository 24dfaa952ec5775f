//! Whether a host's machine is still there, while it is being told something.
//!
//! The kernel asks only where nothing is under way (`Driver::watch_peer`); else it repeats what was sent for a quarter of an hour. Its own
//! bound on that (`TCP_USER_TIMEOUT`) counts a full window too, so that a host that is paused while it has much to fetch would lose its
//! connection, and its volume.

use amita_reactor::Time;
use std::time::Duration;

/// How often it is looked at within the patience that there is with the host.
const LOOKS: u32 = 4;

pub(super) struct Watch {
    patience: Duration,
    next: Time,
    /// Since when nothing was heard.
    since: Option<Time>,
}

impl Watch {
    pub fn new(now: Time, patience: Duration) -> Watch {
        Watch {
            patience,
            next: now.plus(patience / LOOKS),
            since: None,
        }
    }

    /// When it is looked at next.
    pub fn deadline(&self) -> Time {
        self.next
    }

    /// Looks at what the driver says ([`amita_reactor::driver::Driver::unheard`]): has it been silent for as long as the patience lasts?
    pub fn is_gone(&mut self, now: Time, unheard: Option<Duration>) -> bool {
        let pause = self.patience / LOOKS;
        self.next = now.plus(pause);
        // Before this look it may have owed nothing for long: what it owes now may be young.
        if unheard.is_none_or(|silent| silent < pause) {
            self.since = None;
            return false;
        }
        now.since(*self.since.get_or_insert(now)) >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// After how many looks it is gone, if the driver says that each time.
    fn looks(watch: &mut Watch, most: usize, says: impl Fn(usize) -> Option<u64>) -> Option<usize> {
        (0..most).find(|&look| watch.is_gone(watch.deadline(), says(look).map(Duration::from_secs)))
    }

    #[test]
    fn a_host_is_gone_when_it_owes_an_answer_for_the_whole_patience() {
        let mut watch = Watch::new(Time(0), PATIENCE);
        assert_eq!(watch.deadline(), Time(5_000_000_000));
        // Silent for an hour because nothing was said to it: then it owes something for the first time.
        assert_eq!(looks(&mut watch, 9, |look| Some(3600 + 5 * look as u64)), Some(4));
        // It is heard once in a while, or owes nothing.
        for says in [Some(1), None] {
            let mut watch = Watch::new(Time(0), PATIENCE);
            let seldom = |look| if look % 4 == 3 { says } else { Some(60) };
            assert_eq!(looks(&mut watch, 100, seldom), None);
        }
    }
}
