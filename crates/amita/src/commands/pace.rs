//! Data that is brought keeps to a rate.

use amita_client::Extent;
use amita_terminal::error::Result;
use std::collections::VecDeque;
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

/// How much of it is read.
pub(super) fn data_bytes(extents: &[Extent]) -> u64 {
    let data = extents.iter().filter(|extent| !extent.is_zero);
    data.map(|extent| extent.length).sum()
}

/// The next extents that are brought together: so many bytes of data at most, and zeros, which cost nothing to read.
pub(super) fn part(extents: &mut VecDeque<Extent>, most_bytes: u64) -> Vec<Extent> {
    let (mut part, mut left) = (Vec::new(), most_bytes);
    while let Some(mut extent) = extents.pop_front() {
        if !extent.is_zero && extent.length > left {
            if left > 0 {
                part.push(Extent { length: left, ..extent });
                extent = Extent {
                    offset: extent.offset + left,
                    length: extent.length - left,
                    ..extent
                };
            }
            extents.push_front(extent);
            break;
        }
        if !extent.is_zero {
            left -= extent.length;
        }
        part.push(extent);
    }
    part
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

    fn extent(offset: u64, length: u64, is_zero: bool) -> Extent {
        Extent {
            offset,
            length,
            is_zero,
        }
    }

    /// Nothing is left out, nothing comes twice, and the order stays: how far a pass is rests on it.
    #[test]
    fn parts_have_all_of_it_in_its_order_and_keep_to_what_may_be_had() {
        let all = [
            extent(0, 10, false),
            extent(10, 1000, true),
            extent(1010, 25, false),
            extent(2000, 5, false),
        ];
        let mut left = VecDeque::from(all);
        let mut parts = Vec::new();
        loop {
            let part = part(&mut left, 16);
            if part.is_empty() {
                break;
            }
            parts.push(part);
        }
        let expected = [
            vec![extent(0, 10, false), extent(10, 1000, true), extent(1010, 6, false)],
            vec![extent(1016, 16, false)],
            vec![extent(1032, 3, false), extent(2000, 5, false)],
        ];
        assert_eq!(parts, expected);
    }
}
