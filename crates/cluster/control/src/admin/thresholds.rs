//! From where on a store counts as near full, and as full.

use super::{AdminError, Result, get, put_if, tries};
use amita_metadata::Transact;
use amita_types::condition::{LOWEST_PERCENT, Thresholds, thresholds_key};

/// The thresholds; the defaults where nobody has set any.
///
/// # Errors
/// The metadata is away, or the record is not readable.
pub fn thresholds(meta: &dyn Transact) -> Result<Thresholds> {
    Ok(get(meta, &thresholds_key())?
        .map(|(found, _)| found)
        .unwrap_or_default())
}

/// Changes the thresholds; they hold at once.
///
/// # Errors
/// Thresholds that make no sense; the metadata is away or refuses.
pub fn set_thresholds(meta: &dyn Transact, change: impl Fn(&mut Thresholds)) -> Result<Thresholds> {
    let key = thresholds_key();
    for _ in tries(meta) {
        let (mut wanted, revision) = get::<Thresholds>(meta, &key)?.unwrap_or_default();
        change(&mut wanted);
        let Thresholds {
            near_full_percent,
            full_percent,
            pool_percents,
        } = wanted;
        if near_full_percent < LOWEST_PERCENT || near_full_percent >= full_percent || full_percent > 100 {
            return Err(AdminError::BadSetting {
                what: "threshold",
                name: format!("near full at {near_full_percent} %, full at {full_percent} %"),
                why: format!("choose {LOWEST_PERCENT} to 100 percent, near full below full"),
            });
        }
        let ascending = pool_percents.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending
            || pool_percents
                .iter()
                .any(|level| *level < LOWEST_PERCENT || *level > 100)
        {
            return Err(AdminError::BadSetting {
                what: "threshold",
                name: format!("pools at {pool_percents:?} %"),
                why: format!("choose {LOWEST_PERCENT} to 100 percent, each above the one before"),
            });
        }
        if put_if(meta, &key, revision, &wanted)? {
            return Ok(wanted);
        }
    }
    Err(AdminError::TooManyRaces { key })
}
