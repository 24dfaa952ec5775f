//! A store that is given no more than so many bytes a second.
//!
//! What goes and what comes counts together, as the averages of some seconds: an object goes at once, and what comes after it waits until its
//! time is over.

use super::{Listed, ObjectStore, Put, Retention, StoreError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked whether the waiting is to end.
const LOOK: Duration = Duration::from_millis(20);

/// A store behind a limit.
pub struct Limited {
    store: Arc<dyn ObjectStore>,
    bytes_per_second: u64,
    pace: Mutex<Pace>,
    start: Instant,
    ends: fn() -> bool,
}

/// When the time of all that went so far is over, after any fixed moment.
#[derive(Debug, Default)]
struct Pace {
    over: Duration,
}

impl Pace {
    /// How long the next one waits, when it is `now`.
    fn wait(&self, now: Duration) -> Duration {
        self.over.saturating_sub(now)
    }

    fn went(&mut self, now: Duration, bytes: u64, bytes_per_second: u64) {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second.max(1));
        let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.over = self.over.max(now).saturating_add(time);
    }
}

impl Limited {
    /// This store, with no more than so many bytes a second. Where `ends` says so nothing waits any more: what is still to be put goes at
    /// once.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, bytes_per_second: u64, ends: fn() -> bool) -> Limited {
        Limited {
            store,
            bytes_per_second,
            pace: Mutex::default(),
            start: Instant::now(),
            ends,
        }
    }

    fn wait(&self) {
        loop {
            let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
            let left = pace.wait(self.start.elapsed());
            drop(pace);
            if left.is_zero() || (self.ends)() {
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    fn went(&self, bytes: usize) {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.went(self.start.elapsed(), bytes as u64, self.bytes_per_second);
    }
}

impl ObjectStore for Limited {
    fn put(&self, name: &str, bytes: &[u8], retain: Option<Retention>) -> Result<Put, StoreError> {
        self.wait();
        self.went(bytes.len());
        self.store.put(name, bytes, retain)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.wait();
        let got = self.store.get(name)?;
        self.went(got.as_ref().map_or(0, Vec::len));
        Ok(got)
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.wait();
        let got = self.store.get_range(name, offset, length)?;
        self.went(got.as_ref().map_or(0, Vec::len));
        Ok(got)
    }

    fn list(&self, prefix: &str, after: &str, most: usize) -> Result<Vec<Listed>, StoreError> {
        self.store.list(prefix, after, most)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.store.delete(name)
    }

    fn retain(&self, name: &str, until: Retention) -> Result<(), StoreError> {
        self.store.retain(name, until)
    }

    fn tidy(&self) -> Result<usize, StoreError> {
        self.store.tidy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::Memory;

    #[test]
    fn what_comes_next_waits_until_the_time_of_what_went_is_over() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::default();
        assert_eq!(pace.wait(second), Duration::ZERO);
        pace.went(second, 3000, 1000);
        assert_eq!(pace.wait(second), 3 * second);
        assert_eq!(pace.wait(3 * second), second);
        // Two at one time wait for each other, and nobody saves up time.
        pace.went(3 * second, 1000, 1000);
        assert_eq!(pace.wait(3 * second), 2 * second);
        assert_eq!(pace.wait(60 * second), Duration::ZERO);
        pace.went(60 * second, 500, 1000);
        assert_eq!(pace.wait(60 * second), second / 2);
        pace.went(60 * second, u64::MAX, 0);
        assert!(pace.wait(60 * second) > 1000 * second);
    }

    #[test]
    fn whoever_ends_waits_for_nothing() {
        let memory = Arc::new(Memory::default());
        // Its time is over in some centuries.
        let limited = Limited::new(memory, 1, || true);
        assert_eq!(limited.put("packs/a", &vec![7; 4 << 20], None).unwrap(), Put::New);
        assert_eq!(limited.get("packs/a").unwrap().map(|bytes| bytes.len()), Some(4 << 20));
        assert_eq!(limited.get_range("packs/a", 1, 2).unwrap(), Some(vec![7; 2]));
    }
}
