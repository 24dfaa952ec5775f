//! What an operator sets of a mirror that stands.

use super::super::copy::LEAST_LIMIT;
use super::super::{AdminError, Result};
use super::record::change_free;
use crate::mirror::{LEAST_INTERVAL_S, MOST_KEPT};
use amita_metadata::Transact;
use amita_types::map::Mirror;
use std::time::Duration;

/// What is to be another; none: it stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorChange {
    /// Points follow each other after so long.
    pub interval: Option<Duration>,
    /// A secondary keeps so many points beside the one that it is at.
    pub keep: Option<u32>,
    /// At most so many bytes a second; zero: as many as can be.
    pub limit_bytes_per_s: Option<u64>,
    /// It is late from this lag on; zero: from three intervals on.
    pub alert_after: Option<Duration>,
}

/// Changes what is set of a mirror, at this end.
///
/// # Errors
/// There is no such mirror, or it cannot be set so; the metadata is away or refuses.
pub fn set_mirror(meta: &dyn Transact, name: &str, change: &MirrorChange) -> Result<Mirror> {
    let bad = |why: String| AdminError::BadSetting {
        what: "mirror",
        name: name.to_owned(),
        why,
    };
    if let Some(interval) = change.interval.filter(|interval| interval.as_secs() < LEAST_INTERVAL_S) {
        let why = format!(
            "an interval of {} s; {LEAST_INTERVAL_S} s are the least",
            interval.as_secs()
        );
        return Err(bad(why));
    }
    if let Some(keep) = change.keep.filter(|keep| *keep as usize > MOST_KEPT) {
        return Err(bad(format!("{keep} points are to be kept; {MOST_KEPT} are the most")));
    }
    if let Some(limit) = change
        .limit_bytes_per_s
        .filter(|limit| (1..LEAST_LIMIT).contains(limit))
    {
        let why = format!(
            "a limit of {limit} bytes a second; {LEAST_LIMIT} are the fewest (`amita mirror pause` has it stand still), and 0 is none"
        );
        return Err(bad(why));
    }
    let step = |record: &mut Mirror| {
        if let Some(interval) = change.interval {
            record.interval_s = interval.as_secs();
        }
        if let Some(keep) = change.keep {
            record.keep = keep;
        }
        if let Some(limit) = change.limit_bytes_per_s {
            record.limit_bytes_per_s = (limit > 0).then_some(limit);
        }
        if let Some(after) = change.alert_after {
            record.alert_after_s = Some(after.as_secs()).filter(|after| *after > 0);
        }
        Ok(())
    };
    change_free(meta, name, &step).map(|(record, ())| record)
}
