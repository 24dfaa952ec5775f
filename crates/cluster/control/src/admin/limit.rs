//! Limits of volumes, in their own records: whoever has the volume's record knows what it may do.

use super::subsystem::{put, unchanged};
use super::volume::find_volume;
use super::{AdminError, RACES, Result, cluster};
use crate::limits;
use amita_metadata::{Call, Transact};
use amita_types::map::{self, LIMITS_SINCE, Limits, Volume};

/// What a volume may do; nothing is limited by default.
///
/// # Errors
/// No such volume; the metadata is away.
pub fn limits(meta: &dyn Transact, name: &str) -> Result<Limits> {
    let (volume, _) = find_volume(meta, name)?;
    Ok(volume.limits.map_or_else(Limits::default, |limits| *limits))
}

/// Changes the limits of a volume. They hold at each gateway as soon as it hears of them.
///
/// # Errors
/// No such volume, limits that cannot be kept, or a cluster in which programs may be about that do not know of limits (S17); the metadata
/// is away or refuses.
pub fn set_limits(meta: &dyn Transact, name: &str, change: impl Fn(&mut Limits)) -> Result<Limits> {
    let version = cluster(meta)?.version;
    let bad = |why| AdminError::BadSetting {
        what: "volume",
        name: name.to_owned(),
        why,
    };
    if version < LIMITS_SINCE {
        return Err(bad(format!(
            "the cluster's version is {version}, and limits need {LIMITS_SINCE}: gateways from before let everything pass (`amita cluster \
             finalize`)"
        )));
    }
    let key = map::volume_key(name);
    for _ in 0..RACES {
        let (old, revision) = find_volume(meta, name)?;
        let mut wanted = old.limits.as_deref().copied().unwrap_or_default();
        change(&mut wanted);
        limits::read(&wanted).map_err(|why| bad(why.to_string()))?;
        let new = Volume {
            limits: (!wanted.is_empty()).then(|| Box::new(wanted)),
            ..old.clone()
        };
        if new == old {
            return Ok(wanted);
        }
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key.clone(), &new)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(wanted);
        }
    }
    Err(AdminError::TooManyRaces { key })
}
