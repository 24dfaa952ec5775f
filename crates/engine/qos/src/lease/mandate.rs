//! Whether a grantor still is one, where nothing but a record says so.
//!
//! # The story
//! Of a tenant's limit tokens are spent by gateways all over the cluster, and what they let pass is carried out by many owners. So no store keeps a grantor
//! from lending that was replaced and does not know it. What says who lends is a record of the metadata, and whoever lends reads it: one that was
//! the grantor at some moment since it began to read may lend for a [`MANDATE`] from when it *began*, by its own clock four fifths of it. Whoever finds for the
//! first time that it is the grantor waits for all of one, from when it *knows*: no other can have begun to read later and found itself there. Clocks that are off by a
//! tenth each do no harm (4/5 / 0.9 < 1 / 1.1). That waits for nobody, and for no store: two grantors lend never at once, whoever is cut off from whom.

use super::Grantor;
use crate::faults::{Fault, Faults};
use amita_reactor::Time;
use std::time::Duration;

/// For so long a grantor may lend when it has read that it is one, and so long the next one waits.
pub const MANDATE: Duration = Duration::from_secs(2);

/// What a grantor has read.
#[derive(Clone, Copy, Debug)]
pub struct Mandate {
    length: Duration,
    /// It may lend until then.
    until: Time,
    /// The reading under way began then.
    reading: Option<Time>,
    faults: Faults,
}

impl Mandate {
    /// It has read nothing yet. `length`: of all grantors of one limit the same.
    #[must_use]
    pub fn new(length: Duration, faults: Faults) -> Mandate {
        Mandate {
            length,
            until: Time(0),
            reading: None,
            faults,
        }
    }

    /// It reads now who lends, as it is now and not as it was once.
    pub fn read(&mut self, now: Time) {
        self.reading = Some(now);
    }

    /// Is a reading under way?
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// What was read is lost.
    pub fn give_up(&mut self) {
        self.reading = None;
    }

    /// What it has read says that it lends.
    pub fn confirmed(&mut self, now: Time) {
        let Some(began) = self.reading.take() else { return };
        let since = if self.faults.has(Fault::MandateFromAnswer) {
            now
        } else {
            began
        };
        self.until = self.until.max(since.plus(self.length * 4 / 5));
    }

    /// It may lend until then.
    #[must_use]
    pub fn until(&self) -> Time {
        self.until
    }

    /// When it is to read again, so that it lends on: a quarter of it after the last reading.
    #[must_use]
    pub fn read_at(&self) -> Time {
        let since = self.until.0.saturating_sub((self.length * 4 / 5).as_nanos() as u64);
        Time(since).plus(self.length / 4)
    }

    /// A grantor goes by it from now on.
    pub fn renew(&self, grantor: &mut Grantor) {
        grantor.mandate(self.until);
    }
}
