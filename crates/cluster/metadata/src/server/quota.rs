//! How large the keys may become, as etcd's `--quota-backend-bytes`: what would make them larger is refused above it, what
//! makes them smaller or leaves them as large is not. There is nothing to lift by hand: keys that are deleted make room.
//!
//! Who makes room writes something before: that it is about to, at least. For such keys there is a reserve ([`RESERVE_BYTES`]).

/// The most bytes of keys and values by default: etcd's. The history takes at most a quarter of it besides.
pub const DEFAULT_QUOTA_BYTES: u64 = 2 << 30;
/// So much more may the keys become that are written to make room (`Config::reserved`): some ten thousand records of the audit log.
pub const RESERVE_BYTES: u64 = 16 << 20;
/// The alarm ends when a sixteenth is free: a size at the border does not make it one thing now and another then.
const FREE_PART: usize = 16;

/// What the keys take, against what they may.
#[derive(Debug)]
pub(super) struct Quota {
    most: usize,
    /// With the reserve.
    with_reserve: usize,
    alarm: bool,
}

impl Quota {
    pub(super) fn new(bytes: u64) -> Quota {
        let whole = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Quota {
            most: whole(bytes),
            with_reserve: whole(bytes.saturating_add(RESERVE_BYTES)),
            alarm: false,
        }
    }

    /// Bytes that the history may take.
    pub(super) fn history_bytes(&self) -> usize {
        self.most / 4
    }

    /// May they become so much larger? `reserved`: by keys that may use the reserve.
    pub(super) fn admits(&mut self, bytes: usize, growth: usize, reserved: bool) -> bool {
        let most = if reserved { self.with_reserve } else { self.most };
        let fits = growth == 0 || bytes.saturating_add(growth) <= most;
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
        assert!(quota.admits(1000, 600, false) && !quota.alarm(1600));
        assert!(!quota.admits(1000, 601, false) && quota.alarm(1000 + 501));
        assert!(quota.admits(2000, 0, false), "what leaves it as large");
        assert!(quota.admits(1000, 600, false), "what fits");
        assert!(!quota.alarm(1500));
        assert!(!quota.admits(usize::MAX, 1, true));
        let reserve = usize::try_from(RESERVE_BYTES).unwrap();
        assert!(quota.admits(1600, reserve, true) && !quota.admits(1600, 1, false));
        assert!(!quota.admits(1600, reserve + 1, true));
    }
}
