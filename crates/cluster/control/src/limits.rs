//! Limits of volumes: what a record says, as the crate that keeps them has it; and what cannot be kept.

use amita_qos::lease::{Grantor, LEASE};
use amita_qos::limits::{Measures, largest};
use amita_qos::{Limit, LimitError, Limits};
use amita_types::map;

/// Why limits cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unkept {
    /// It is none.
    #[error("{limit}: {why}")]
    NoLimit {
        /// Which.
        limit: &'static str,
        /// Why.
        why: LimitError,
    },
    /// What is lent to the gateways takes room in the burst.
    #[error("{limit}: of a rate of {rate} a second the burst must be at least {least}, and is {burst}")]
    Burst {
        /// Which.
        limit: &'static str,
        /// Of the limit, or of its peak.
        rate: u64,
        /// What it is.
        burst: u64,
        /// The least that will do.
        least: u64,
    },
}

/// The names of limits, by their places in [`Limits::in_order`]; as the settings have them.
pub const NAMES: [&str; amita_qos::limits::BUCKETS] = [
    "read-iops",
    "write-iops",
    "iops",
    "read-bandwidth",
    "write-bandwidth",
    "bandwidth",
];

/// What a record says.
///
/// # Errors
/// Says which limit cannot be kept, and why.
pub fn read(record: &map::Limits) -> Result<Limits, Unkept> {
    Ok(Limits {
        operations: measures(&record.iops, 0)?,
        bytes: measures(&record.bandwidth, 3)?,
    })
}

fn measures(record: &map::Measures, first: usize) -> Result<Measures, Unkept> {
    Ok(Measures {
        read: record.read.map(|limit| one(limit, first)).transpose()?,
        write: record.write.map(|limit| one(limit, first + 1)).transpose()?,
        both: record.both.map(|limit| one(limit, first + 2)).transpose()?,
    })
}

fn one(record: map::Limit, place: usize) -> Result<Limit, Unkept> {
    let limit = NAMES[place];
    let none = |why| Unkept::NoLimit { limit, why };
    let mut made = Limit::new(record.rate, record.burst).map_err(none)?;
    let mut rate = record.rate;
    if let Some(peak) = record.peak {
        made = made.with_peak(peak.rate, peak.seconds).map_err(none)?;
        rate = peak.rate;
    }
    let least = Grantor::least_burst(rate, LEASE, largest(place));
    if record.burst < least {
        let burst = record.burst;
        return Err(Unkept::Burst {
            limit,
            rate,
            burst,
            least,
        });
    }
    Ok(made)
}

/// The burst of a limit of that rate, or of that peak, for which nobody has asked for one: a tenth of a second, and two
/// largest I/Os.
#[must_use]
pub fn usual_burst(rate: u64, place: usize) -> u64 {
    Grantor::least_burst(rate, LEASE, largest(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rate: u64, burst: u64, peak: Option<map::Peak>) -> map::Limits {
        let read = Some(map::Limit { rate, burst, peak });
        map::Limits {
            bandwidth: map::Measures {
                read,
                ..map::Measures::default()
            },
            ..map::Limits::default()
        }
    }

    #[test]
    fn what_cannot_be_kept_is_named() {
        let least = usual_burst(10 << 20, 3);
        assert_eq!(least, (1 << 20) + (256 << 10));
        let read = read(&of(10 << 20, least, None)).unwrap();
        assert_eq!(
            read.in_order()[3].map(|limit| (limit.rate(), limit.burst())),
            Some((10 << 20, least))
        );
        assert_eq!(
            super::read(&of(10 << 20, least - 1, None)),
            Err(Unkept::Burst {
                limit: "read-bandwidth",
                rate: 10 << 20,
                burst: least - 1,
                least
            })
        );
        let limit = "read-bandwidth";
        let why = LimitError::NoRate;
        assert_eq!(super::read(&of(0, 1, None)), Err(Unkept::NoLimit { limit, why }));
        // A peak needs as much room as a rate.
        let peak = Some(map::Peak {
            rate: 20 << 20,
            seconds: 60,
        });
        assert!(matches!(super::read(&of(10 << 20, least, peak)), Err(Unkept::Burst { rate, .. }) if rate == 20 << 20));
        assert!(super::read(&of(10 << 20, usual_burst(20 << 20, 3), peak)).is_ok());
    }
}
