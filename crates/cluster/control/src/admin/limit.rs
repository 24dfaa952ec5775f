//! Limits of volumes, in their own records: whoever has the volume's record knows what it may do. And those of tenants and pools, in records of
//! theirs, as is whose a volume is.

use super::keys::may_be_of;
use super::subsystem::{put, unchanged};
use super::trash::find_pool;
use super::volume::find_volume;
use super::{AdminError, Result, cluster, get, list, tries};
use crate::limits;
use amita_metadata::{Call, Op, Transact};
use amita_types::capability::tenant_fault;
use amita_types::map::{self, JointLimits, LIMITS_SINCE, Limits, Tenancy, Volume};

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
    check_limits(meta, "volume", name)?;
    let key = map::volume_key(name);
    write(meta, &key, || {
        let (old, revision) = find_volume(meta, name)?;
        let mut wanted = old.limits.as_deref().copied().unwrap_or_default();
        change(&mut wanted);
        limits::read(&wanted).map_err(|why| bad("volume", name, why.to_string()))?;
        let new = Volume {
            limits: (!wanted.is_empty()).then(|| Box::new(wanted)),
            ..old.clone()
        };
        let op = (new != old).then(|| put(key.clone(), &new));
        Ok((wanted, revision, op))
    })
}

/// Whose limits, where they are of many volumes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jointly<'a> {
    /// Of all volumes of a tenant ([`set_tenant`]).
    Tenant(&'a str),
    /// Of all volumes of a pool.
    Pool(&'a str),
}

impl Jointly<'_> {
    fn what(self) -> &'static str {
        match self {
            Jointly::Tenant(_) => "tenant",
            Jointly::Pool(_) => "pool",
        }
    }

    fn name(&self) -> &str {
        match self {
            Jointly::Tenant(name) | Jointly::Pool(name) => name,
        }
    }

    fn key(self) -> String {
        map::joint_limits_key(&match self {
            Jointly::Tenant(name) => map::tenant_limits(name),
            Jointly::Pool(name) => map::pool_limits(name),
        })
    }

    fn check(self, meta: &dyn Transact) -> Result<()> {
        match self {
            Jointly::Tenant(name) => check_tenant(name),
            Jointly::Pool(name) => find_pool(meta, name).map(|_| ()),
        }
    }
}

/// What all volumes of a tenant or pool may do together; nothing is limited by default.
///
/// # Errors
/// No such pool, or no name of a tenant; the metadata is away.
pub fn joint_limits(meta: &dyn Transact, of: Jointly<'_>) -> Result<Limits> {
    of.check(meta)?;
    let found = get::<JointLimits>(meta, &of.key())?;
    Ok(found.map_or_else(Limits::default, |(record, _)| record.limits))
}

/// Changes what all volumes of a tenant or pool may do together. It holds at each gateway as soon as it hears of it.
///
/// # Errors
/// No such pool, no name of a tenant, limits that cannot be kept, or a cluster in which programs may be about that do not know of limits (S17); the
/// metadata is away or refuses.
pub fn set_joint_limits(meta: &dyn Transact, of: Jointly<'_>, change: impl Fn(&mut Limits)) -> Result<Limits> {
    of.check(meta)?;
    check_limits(meta, of.what(), of.name())?;
    let key = of.key();
    write(meta, &key, || {
        let (old, revision) = get::<JointLimits>(meta, &key)?.map_or((None, 0), |(old, at)| (Some(old), at));
        let mut new = old.clone().unwrap_or_default();
        change(&mut new.limits);
        limits::read(&new.limits).map_err(|why| bad(of.what(), of.name(), why.to_string()))?;
        let wanted = new.limits;
        let is_so = old.as_ref() == Some(&new) || old.is_none() && wanted.is_empty();
        // The record stays without limits: who lent their tokens is counted on, should there be some again.
        let op = (!is_so).then(|| put(key.clone(), &new));
        Ok((wanted, revision, op))
    })
}

/// Says whose a volume is; nobody's: none. Its data keys stay wrapped as they are until all is wrapped again ([`super::rewrap_keys`]).
///
/// # Errors
/// No such volume, or no name of a tenant; one of the two has a volume key of his own, and the volume moves, or shares data keys with volumes of others;
/// the metadata is away or refuses.
pub fn set_tenant(meta: &dyn Transact, volume: &str, tenant: Option<&str>) -> Result<()> {
    tenant.map_or(Ok(()), check_tenant)?;
    let volume_key = map::volume_key(volume);
    for _ in tries(meta) {
        let (found, revision) = find_volume(meta, volume)?;
        let (compares, then) = may_be_of(meta, &found, tenant)?;
        let key = map::tenancy_key(found.id);
        let op = match tenant {
            None => Op::Delete { key },
            Some(tenant) => put(
                key,
                &Tenancy {
                    volume: found.id,
                    tenant: tenant.to_owned(),
                },
            ),
        };
        // A revert or a move takes the record to the volume's new number: what is written to the old one behind that would be nobody's.
        let call = Call {
            compares: std::iter::once(unchanged(&volume_key, revision))
                .chain(compares)
                .collect(),
            then: then.into_iter().chain([op]).collect(),
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(());
        }
    }
    Err(AdminError::TooManyRaces { key: volume_key })
}

/// Whose volumes are, of those that are somebody's.
///
/// # Errors
/// The metadata is away.
pub fn tenancies(meta: &dyn Transact) -> Result<Vec<Tenancy>> {
    list(meta, &map::tenancies_prefix())
}

/// Writes what `attempt` wants, until nobody has written in between: what is told of it in the end, the revision of the key that it was read by, and what
/// is written; none: it is so already.
pub(super) fn write<T>(
    meta: &dyn Transact,
    key: &str,
    attempt: impl Fn() -> Result<(T, u64, Option<Op>)>,
) -> Result<T> {
    for _ in tries(meta) {
        let (told, revision, op) = attempt()?;
        let Some(op) = op else {
            return Ok(told);
        };
        let call = Call {
            compares: vec![unchanged(key, revision)],
            then: vec![op],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(told);
        }
    }
    Err(AdminError::TooManyRaces { key: key.to_owned() })
}

pub(super) fn check_tenant(tenant: &str) -> Result<()> {
    let fault = match tenant.is_empty() {
        true => Some("it is empty".to_owned()),
        false => tenant_fault(tenant),
    };
    fault.map_or(Ok(()), |why| {
        Err(AdminError::BadName {
            what: "tenant",
            name: tenant.to_owned(),
            why,
        })
    })
}

pub(super) fn bad(what: &'static str, name: &str, why: String) -> AdminError {
    AdminError::BadSetting {
        what,
        name: name.to_owned(),
        why,
    }
}

fn check_limits(meta: &dyn Transact, what: &'static str, name: &str) -> Result<()> {
    let otherwise = "gateways from before let everything pass";
    check_version(meta, (what, name), ("limits", LIMITS_SINCE), otherwise)
}

/// May there be such settings in a cluster of that version (S17)? `otherwise`: what programs from before would do.
pub(super) fn check_version(
    meta: &dyn Transact,
    (what, name): (&'static str, &str),
    (settings, since): (&str, u32),
    otherwise: &str,
) -> Result<()> {
    let version = cluster(meta)?.version;
    if version < since {
        let why = format!(
            "the cluster's version is {version}, and {settings} need {since}: {otherwise} (`amita cluster finalize`)"
        );
        return Err(bad(what, name, why));
    }
    Ok(())
}
