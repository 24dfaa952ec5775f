//! Ctrl-C and SIGTERM: noticed by whoever waits, so that guards run and nothing is left behind.
//!
//! A command that a node carries out for somebody elsewhere ([`crate::capture`]) is ended by its time, and by no signal to the node. What a node
//! does on a thread by the code of commands ends when whoever has begun it says so ([`ending`]).

use crate::capture;
use crate::error::{Context, Failure, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

fn flag() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| Arc::new(AtomicBool::new(false)))
}

/// From now on a signal to end sets a flag instead of ending the process; a second one ends it.
pub fn catch() {
    if capture::is_on() {
        return;
    }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the second signal finds the flag set and ends the process.
        let registered = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag()))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag())));
        if let Err(error) = registered {
            log::warn!("signal {signal} cannot be caught ({error}): it ends the process without cleaning up");
        }
    }
}

/// Waits until the process is told to end. [`catch`] comes first.
///
/// # Errors
/// When signals cannot be waited for.
pub fn wait() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context(|| "cannot wait for signals".to_owned())?;
    // The flag is set before the iterator wakes: it was registered earlier. And it may be set already.
    while !caught() {
        signals.wait();
    }
    Ok(())
}

thread_local! {
    /// Whether the work of this thread is to end, as whoever has begun it says.
    static ENDS: RefCell<Option<Rc<dyn Fn() -> bool>>> = const { RefCell::new(None) };
}

/// For as long as it is there, the work of its thread ends as well where somebody says so.
#[derive(Debug)]
pub struct Ending {
    /// It stays on its thread.
    _here: std::marker::PhantomData<Rc<()>>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        ENDS.with_borrow_mut(|ends| *ends = None);
    }
}

/// From now on, on this thread, it is as if the process were told to end where `ends` says so.
#[must_use]
pub fn ending(ends: impl Fn() -> bool + 'static) -> Ending {
    ENDS.with_borrow_mut(|told| *told = Some(Rc::new(ends)));
    Ending {
        _here: std::marker::PhantomData,
    }
}

/// Was the process told to end, or the work of this thread?
#[must_use]
pub fn caught() -> bool {
    if let Some(until) = capture::until() {
        return Instant::now() >= until;
    }
    let ends = ENDS.with_borrow(Clone::clone);
    flag().load(Ordering::Relaxed) || ends.is_some_and(|ends| ends())
}

/// # Errors
/// When the process was told to end.
pub fn check() -> Result<()> {
    match caught() {
        false => Ok(()),
        true if capture::is_on() => Err(capture::too_late()),
        true => Err(Failure::interrupted()),
    }
}

/// Until when is waited, where nobody waits for longer than this: a node does not wait for ever for somebody elsewhere.
#[must_use]
pub fn bounded(until: Instant) -> Instant {
    capture::until().map_or(until, |most| most.min(until))
}

/// So long from now; where that is later than the clock can tell, as late as anybody waits for.
#[must_use]
pub fn deadline(after: Duration) -> Instant {
    /// A hundred years: every clock has them left.
    const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);
    Instant::now() + after.min(FAR)
}

/// # Errors
/// When the process was told to end meanwhile.
pub fn sleep(time: Duration) -> Result<()> {
    let until = deadline(time);
    loop {
        check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}

/// Asks `probe` until it answers, at most for `limit`; `None` when it never did.
///
/// # Errors
/// What the probe fails with; or when the process was told to end.
pub fn poll<T>(limit: Duration, every: Duration, mut probe: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let until = deadline(limit);
    loop {
        if let Some(value) = probe()? {
            return Ok(Some(value));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        sleep(every)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_on_its_own_thread_alone() {
        let told = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&told);
        let ending = ending(move || ends.load(Ordering::Relaxed));
        assert!(!caught());
        told.store(true, Ordering::Relaxed);
        assert!(caught() && check().is_err());
        assert!(!std::thread::spawn(caught).join().unwrap());
        drop(ending);
        assert!(!caught());
    }

    #[test]
    fn no_time_is_too_long_for_a_deadline() {
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        let soon = deadline(hour);
        assert!(soon >= now + hour && soon < now + 2 * hour);
        for long in [
            Duration::MAX,
            Duration::from_secs(u64::MAX),
            Duration::from_secs(1 << 62),
        ] {
            assert!(
                deadline(long) > now + Duration::from_secs(99 * 365 * 86_400),
                "{long:?}"
            );
        }
    }
}
