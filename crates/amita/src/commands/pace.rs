//! Data that is brought keeps to a rate.

use amita_terminal::error::Result;
use std::time::{Duration, Instant};

/// At most so many bytes a second; none: no limit.
pub(super) type Rate = Option<u64>;

/// What is read between two looks at the rate, where there is none.
const WINDOW: u64 = 64 << 20;
/// The same at least and at most, where there is one: a quarter of a second of it.
const PACED_WINDOW: (u64, u64) = (64 << 10, 4 << 20);
/// A window is a multiple of it.
const BLOCK_BYTES: u64 = 4 << 10;
/// How often it is looked at the rate by who waits.
const LOOK: Duration = Duration::from_millis(250);

/// How many bytes may be had at one time.
pub(super) fn window(rate: Rate) -> u64 {
    let (least, most) = PACED_WINDOW;
    rate.map_or(WINDOW, |rate| (rate / 4 / BLOCK_BYTES * BLOCK_BYTES).clamp(least, most))
}

/// Keeps to a rate. One that changes holds at once, for who waits as well, and what was owed by the one before is forgiven.
pub(super) struct Pace {
    rate: Rate,
    /// When the next bytes may be taken.
    next: Instant,
}

impl Pace {
    pub fn new() -> Pace {
        Pace {
            rate: None,
            next: Instant::now(),
        }
    }

    /// Waits until so many bytes may be had, by `rest`.
    ///
    /// # Errors
    /// What `rest` says.
    pub fn take(&mut self, bytes: u64, rate: impl Fn() -> Rate, rest: impl Fn(Duration) -> Result<()>) -> Result<()> {
        loop {
            self.go_by(rate());
            let left = self.next.saturating_duration_since(Instant::now());
            if self.rate.is_none() || left.is_zero() {
                break;
            }
            rest(left.min(LOOK))?;
        }
        if let Some(rate) = self.rate {
            let time = Duration::from_secs_f64(bytes as f64 / rate as f64);
            self.next = self.next.max(Instant::now()) + time;
        }
        Ok(())
    }

    fn go_by(&mut self, rate: Rate) {
        if self.rate != rate {
            (self.rate, self.next) = (rate, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_terminal::error::Failure;
    use std::cell::Cell;

    #[test]
    fn a_rate_that_changes_holds_for_who_waits() {
        let mut pace = Pace::new();
        let none = |_| Err(Failure::new("it waits"));
        // A byte a second: the first thousand are had at once, and owed.
        pace.take(1000, || Some(1), none).unwrap();
        pace.take(1, || Some(1), none).unwrap_err();
        let rate = Cell::new(Some(1));
        let rests = Cell::new(0);
        let rest = |_| {
            rests.set(rests.get() + 1);
            rate.set(Some(1 << 40));
            Ok(())
        };
        pace.take(1, || rate.get(), rest).unwrap();
        assert_eq!(rests.get(), 1);
        pace.take(u64::MAX, || None, none).unwrap();
        pace.take(1, || None, none).unwrap();
    }

    #[test]
    fn a_window_is_a_quarter_of_a_second_within_bounds() {
        assert_eq!(window(None), 64 << 20);
        assert_eq!(window(Some(1)), 64 << 10);
        assert_eq!(window(Some(1 << 20)), 256 << 10);
        assert_eq!(window(Some(u64::MAX)), 4 << 20);
        assert_eq!(window(Some((1 << 20) + 1)) % BLOCK_BYTES, 0);
    }
}
