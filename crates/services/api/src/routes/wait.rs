//! Waiting for what others do: the owner of a volume, a gateway. A request waits only for so long; who waits longer asks again.

use std::time::{Duration, Instant};

/// How long a request waits. What is wished takes its owner some transactions of the metadata.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Looks until there is something; none: there was not, in all that time.
pub(super) fn until<T, E>(mut look: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Pauses between two looks, for who looks by itself: is there still time?
pub(super) fn pauses() -> impl FnMut() -> bool {
    let end = Instant::now() + PATIENCE;
    move || {
        std::thread::sleep(LOOK);
        Instant::now() < end
    }
}
