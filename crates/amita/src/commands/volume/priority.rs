//! How a volume stands among others where stores are busy: what `amita volume limit` says and changes of that.

use crate::admin::{Admin, Described};
use amita_control::access::Action;
use amita_control::admin;
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_types::map::{Priority, USUAL_WEIGHT};
use std::time::Duration;

/// What `amita volume limit set` has beside limits.
#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// Bytes a second that each store does for it before it does anything for others, if it is asked for so many; each operation counts for 16 KiB
    /// beside its bytes. 0: none
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub reserve: Option<u64>,
    /// Its part of what reservations leave, beside other volumes that have something waiting at a store: 1 to 1000; without a word 100
    #[arg(long, value_name = "N")]
    pub weight: Option<u16>,
    /// What others may cost 99 of 100 of its requests at a store, such as 500us or 2ms: stores have less under way at once while it is missed. 0: none
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub latency_target: Option<Duration>,
}

impl Arguments {
    /// Is anything said?
    pub fn is_any(&self) -> bool {
        self.reserve.is_some() || self.weight.is_some() || self.latency_target.is_some()
    }

    fn apply(&self, priority: &mut Priority) {
        if let Some(reserve) = self.reserve {
            priority.reservation = (reserve > 0).then_some(reserve);
        }
        if let Some(weight) = self.weight {
            priority.weight = Some(weight);
        }
        if let Some(target) = self.latency_target {
            let target_us = u32::try_from(target.as_micros()).unwrap_or(u32::MAX);
            priority.latency_target_us = (target_us > 0).then_some(target_us);
        }
    }
}

/// What holds.
pub(super) fn read(metadata: &Admin, name: &str) -> Result<Priority> {
    admin::priority(&metadata.reader(), name).described()
}

/// Changes what is said; what is not stays.
pub(super) fn set(metadata: &Admin, name: &str, arguments: &Arguments) -> Result<Priority> {
    change(metadata, name, |priority| arguments.apply(priority))
}

/// Would it be refused?
pub(super) fn check(metadata: &Admin, name: &str, arguments: &Arguments) -> Result<()> {
    admin::check_priority(&metadata.reader(), name, |priority| arguments.apply(priority)).described()
}

/// Nothing is said of the volume any more. In a cluster of before, where nothing can be, nothing is written.
pub(super) fn clear(metadata: &Admin, name: &str) -> Result<Priority> {
    let found = read(metadata, name)?;
    match found.is_empty() {
        true => Ok(found),
        false => change(metadata, name, |priority| *priority = Priority::default()),
    }
}

fn change(metadata: &Admin, name: &str, change: impl Fn(&mut Priority)) -> Result<Priority> {
    let changed = metadata.act(Action::VolumeLimit, name, |meta| {
        admin::set_priority(meta, name, &change)
    });
    changed.described()
}

/// In words; nothing, where nothing is said.
pub(super) fn text(priority: &Priority) -> String {
    let mut text = String::new();
    if let Some(reservation) = priority.reservation {
        text += &format!("Each store does {}/s for it first.\n", size::show(reservation));
    }
    if let Some(weight) = priority.weight {
        text +=
            &format!("Where stores are busy its weight is {weight}; that of a volume without one is {USUAL_WEIGHT}.\n");
    }
    if let Some(target_us) = priority.latency_target_us {
        let target = Duration::from_micros(target_us.into());
        text += &format!("At a store others may cost 99 of 100 of its requests {target:?}.\n");
    }
    text
}

/// `500us`, `2ms`, `1s`, or 0.
fn parse_time(text: &str) -> std::result::Result<Duration, String> {
    let wrong = || format!("{text:?} is no such time; give 500us, 2ms or 0");
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: u64 = number.parse().map_err(|_| wrong())?;
    let unit_us = match &text[number.len()..] {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "" if count == 0 => 1,
        _ => return Err(wrong()),
    };
    count.checked_mul(unit_us).map(Duration::from_micros).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(parse_time("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(parse_time("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(parse_time("0"), Ok(Duration::ZERO));
        for wrong in ["", "5", "ms", "-1ms", "2m", "2 ms", "99999999999999999999ms"] {
            assert!(parse_time(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_not_said_stays_and_zero_takes_away() {
        let mut priority = Priority {
            reservation: Some(1 << 20),
            weight: Some(200),
            latency_target_us: Some(900),
        };
        let arguments = Arguments {
            reserve: Some(0),
            latency_target: Some(Duration::from_millis(2)),
            ..Arguments::default()
        };
        assert!(arguments.is_any() && !Arguments::default().is_any());
        arguments.apply(&mut priority);
        assert_eq!(
            priority,
            Priority {
                reservation: None,
                weight: Some(200),
                latency_target_us: Some(2_000),
            }
        );
    }
}
