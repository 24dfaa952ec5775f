//! How long a request was held up by others in front of its store.

use std::time::Duration;

/// How long a request waited for its turn before the store was given it, rounded down to 1, 2, 4, ... 64 ms; less is nothing. That is no measure of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waited(u8);

impl Waited {
    /// The largest number.
    pub const MOST: u8 = 7;

    /// As long as that at least.
    #[must_use]
    pub fn of(waited: Duration) -> Waited {
        let doublings = waited.as_millis().checked_ilog2();
        let number = doublings.map_or(0, |doublings| doublings + 1);
        Waited(u8::try_from(number).map_or(Waited::MOST, |number| number.min(Waited::MOST)))
    }

    /// So long at least.
    #[must_use]
    pub fn least(self) -> Duration {
        let ms = self.0.checked_sub(1).map_or(0, |doublings| 1 << doublings);
        Duration::from_millis(ms)
    }

    /// Its number, of three bits.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Of that number; `None`: it is none.
    #[must_use]
    pub fn numbered(number: u8) -> Option<Waited> {
        (number <= Waited::MOST).then_some(Waited(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_never_more_than_was_waited_and_more_than_half_of_it() {
        for us in [0, 1, 999, 1_000, 1_999, 2_000, 39_999, 40_000, 127_000] {
            let waited = Duration::from_micros(us);
            let said = Waited::of(waited);
            assert_eq!(Waited::numbered(said.number()), Some(said));
            assert!(said.least() <= waited, "{us}");
            assert!(us < 1_000 || said.least() * 2 > waited, "{us}");
        }
        assert_eq!(Waited::of(Duration::from_secs(9)).least(), Duration::from_millis(64));
        assert_eq!(Waited::numbered(8), None);
    }
}
