//! Time as certificates have it: whole seconds, and a clock that tests can set.

use rustls::pki_types::UnixTime;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// Seconds since 1970 began, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub u64);

impl UnixSeconds {
    /// So much later; the end of time at most.
    #[must_use]
    pub fn after(self, span: Duration) -> UnixSeconds {
        UnixSeconds(self.0.saturating_add(span.as_secs()))
    }

    /// So much earlier; 1970 at least.
    #[must_use]
    pub fn before(self, span: Duration) -> UnixSeconds {
        UnixSeconds(self.0.saturating_sub(span.as_secs()))
    }

    /// How long after `earlier` this is; nothing if it is not.
    #[must_use]
    pub fn since(self, earlier: UnixSeconds) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn date(self) -> Option<OffsetDateTime> {
        OffsetDateTime::from_unix_timestamp(i64::try_from(self.0).ok()?).ok()
    }

    pub(crate) fn tls(self) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(self.0))
    }
}

impl From<UnixTime> for UnixSeconds {
    fn from(time: UnixTime) -> UnixSeconds {
        UnixSeconds(time.as_secs())
    }
}

impl fmt::Display for UnixSeconds {
    /// `2026-05-04T03:02:01Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(date) = self.date() else {
            return write!(f, "second {}", self.0);
        };
        let (month, day) = (u8::from(date.month()), date.day());
        let (hour, minute, second) = date.to_hms();
        write!(
            f,
            "{}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z",
            date.year()
        )
    }
}

/// What time it is: the system's, or what a test sets.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Set(Arc<AtomicU64>),
}

impl Clock {
    /// The system's.
    #[must_use]
    pub fn system() -> Clock {
        Clock(Source::System)
    }

    /// One that stands until it is [set](Clock::set): for tests.
    #[must_use]
    pub fn standing(at: UnixSeconds) -> Clock {
        Clock(Source::Set(Arc::new(AtomicU64::new(at.0))))
    }

    /// Sets a standing clock and all of its clones; the system's stays as it is.
    pub fn set(&self, to: UnixSeconds) {
        if let Source::Set(at) = &self.0 {
            at.store(to.0, Ordering::Release);
        }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> UnixSeconds {
        match &self.0 {
            // Before 1970 no certificate is valid: 0 says so.
            Source::System => UnixSeconds(
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default()
                    .as_secs(),
            ),
            Source::Set(at) => UnixSeconds(at.load(Ordering::Acquire)),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Source::System => f.write_str("Clock(system)"),
            Source::Set(_) => write!(f, "Clock({})", self.now()),
        }
    }
}

impl rustls::time_provider::TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.now().tls())
    }
}
