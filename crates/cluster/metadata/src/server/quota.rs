//! How large the keys may become, as etcd's `--quota-backend-bytes`: what would make them larger is refused above it, what
//! makes them smaller or leaves them as large is not. There is nothing to lift by hand: keys that are deleted make room.

/// The most bytes of keys and values by default: etcd's. The history takes at most a quarter of it besides.
pub const DEFAULT_QUOTA_BYTES: u64 = 2 << 30;
/// The alarm ends when a sixteenth is free: a size at the border does not make it one thing now and another then.
const FREE_PART: usize = 16;

/// What the keys take, against what they may.
#[derive(Debug)]
pub(super) struct Quota {
    most: usize,
    alarm: bool,
}

impl Quota {
    pub(super) fn new(bytes: u64) -> Quota {
        Quota {
            most: usize::try_from(bytes).unwrap_or(usize::MAX),
            alarm: false,
        }
    }

    /// Bytes that the history may take.
    pub(super) fn history_bytes(&self) -> usize {
        self.most / 4
    }

    /// May they become so much larger?
    pub(super) fn admits(&mut self, bytes: usize, growth: usize) -> bool {
        let fits = growth == 0 || bytes.saturating_add(growth) <= self.most;
        if !fits && !self.alarm {
            self.alarm = true;
            log::error!(
                "the metadata is full: {bytes} bytes of keys and values, and {} are allowed (--quota-bytes): nothing is added. \
                 Delete what is not needed, and it goes on by itself; or start the server with a larger quota",
                self.most
            );
        }
        fits
    }

    /// Is anything refused for its size? Says it when that has ended.
    pub(super) fn alarm(&mut self, bytes: usize) -> bool {
        if self.alarm && bytes <= self.most - self.most / FREE_PART {
            self.alarm = false;
            log::warn!("the metadata has room again: {bytes} bytes of keys and values");
        }
        self.alarm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_refused_above_it_and_the_alarm_ends_with_some_to_spare() {
        let mut quota = Quota::new(1600);
        assert!(quota.admits(1000, 600) && !quota.alarm(1600));
        assert!(!quota.admits(1000, 601) && quota.alarm(1000 + 501));
        assert!(quota.admits(2000, 0), "what leaves it as large");
        assert!(quota.admits(1000, 600), "what fits");
        assert!(!quota.alarm(1500));
        assert!(!quota.admits(usize::MAX, 1));
    }
}
