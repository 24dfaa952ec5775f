//! When something is due.
//!
//! Patterns are those of cron, by the crate `croner`: five fields (minute, hour, day of month, month, day of week), or six with
//! seconds in front. Where both a day of the month and a day of the week are given, one of them is enough, as in cron.
//!
//! Time zones have their rules from the database in the program ([`jiff`]'s), so that all nodes of one version agree. Where clocks are
//! set forward, what would be due in the hour that is left out is due right behind it; where they are set back, what has a fixed hour
//! is due once, and what is due every so often goes on through both.

use croner::Cron;
use croner::parser::{CronParser, Year};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::fmt;

/// The times of a policy.
#[derive(Clone)]
pub struct Schedule {
    cron: Cron,
    zone: Zone,
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?}", self.cron.as_str(), self.zone.0)
    }
}

/// Times beyond this are not counted one by one.
pub const MOST_COUNTED: u64 = 10_000;

impl Schedule {
    /// Reads a pattern and the name of a time zone.
    ///
    /// # Errors
    /// What is wrong with them, and what would be right.
    pub fn parse(pattern: &str, zone: &str) -> Result<Schedule, String> {
        let zone = Zone::named(zone)?;
        let parser = CronParser::builder().year(Year::Disallowed).build();
        let cron = parser.parse(pattern).map_err(|why| {
            format!(
                "the schedule {pattern:?} cannot be read: {why}; five fields are wanted, minute, hour, day of month, month and day of \
                 week, as in \"0 2 * * *\" for two o'clock each day, or a sixth, seconds, in front"
            )
        })?;
        Ok(Schedule { cron, zone })
    }

    /// Can it be a policy's?
    ///
    /// # Errors
    /// As [`Schedule::parse`]; or it never comes.
    pub fn check(pattern: &str, zone: &str) -> Result<(), String> {
        let schedule = Schedule::parse(pattern, zone)?;
        // From whatever time: far enough in the past that one that has come only once is found, too.
        match schedule.next_after(0) {
            Some(_) => Ok(()),
            None => Err(format!("the schedule {pattern:?} never comes: there is no such day")),
        }
    }

    /// The next time behind this one, in seconds since 1970; none: there is none any more.
    #[must_use]
    pub fn next_after(&self, unix: u64) -> Option<u64> {
        let next = self.cron.find_next_occurrence(&self.zone.at(unix)?, false).ok()?;
        // What a search gives that is not ahead would be given for ever.
        seconds(&next).filter(|next| *next > unix)
    }

    /// The last time up to this one, and behind `after`; and how many others lie between, up to [`MOST_COUNTED`].
    #[must_use]
    pub fn last_between(&self, after: u64, until: u64) -> Option<(u64, u64)> {
        let mut last = self.next_after(after).filter(|next| *next <= until)?;
        for passed in 0..MOST_COUNTED {
            match self.next_after(last).filter(|next| *next <= until) {
                Some(next) => last = next,
                None => return Some((last, passed)),
            }
        }
        // So many that the last one is looked for from the other side.
        let found = self.cron.find_previous_occurrence(&self.zone.at(until)?, true).ok();
        let found = found.as_ref().and_then(seconds);
        Some((
            found.filter(|found| (last..=until).contains(found)).unwrap_or(last),
            MOST_COUNTED,
        ))
    }
}

fn seconds(at: &Zoned) -> Option<u64> {
    u64::try_from(at.timestamp().as_second()).ok()
}

/// A time zone.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

/// What periods a time lies in. Equal ones are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Periods {
    /// The date and the hour.
    pub hour: (Date, i8),
    /// The date.
    pub day: Date,
    /// The year that the week counts to, and the week.
    pub week: (i16, i8),
    /// The year and the month.
    pub month: (i16, i8),
    /// The year.
    pub year: i16,
}

impl Zone {
    /// The zone of an IANA name, such as `Europe/Berlin`, or `UTC`.
    ///
    /// # Errors
    /// There is none of that name in this program.
    pub fn named(name: &str) -> Result<Zone, String> {
        TimeZone::get(name).map(Zone).map_err(|_| {
            format!(
                "there is no time zone {name:?}; they are called as the IANA does: UTC, Europe/Berlin, America/New_York"
            )
        })
    }

    fn at(&self, unix: u64) -> Option<Zoned> {
        let at = Timestamp::from_second(i64::try_from(unix).ok()?).ok()?;
        Some(at.to_zoned(self.0.clone()))
    }

    /// Which hour, day, ... a time is of; none: no calendar reaches so far.
    #[must_use]
    pub fn periods(&self, unix: u64) -> Option<Periods> {
        let at = self.at(unix)?;
        let (day, week) = (at.date(), at.date().iso_week_date());
        Some(Periods {
            hour: (day, at.hour()),
            day,
            week: (week.year(), week.week()),
            month: (at.year(), at.month()),
            year: at.year(),
        })
    }
}

#[cfg(test)]
mod tests;
