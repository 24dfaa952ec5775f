//! Tenants' volume keys: what wraps the data keys of a tenant's volumes in the place of the cluster's, and whose a data key is
//! (`docs/decisions/088-a-tenants-volumes-are-wrapped-by-his-key.md`).
//!
//! A data key is of whose volume is read by it. A volume and the clones of its snapshots are read by the same ones, so where one of them is a tenant's
//! who has a key, all are his: a clone is made so, and what would part them is refused ([`may_be_of`]).

use super::super::limit::{bad, check_tenant};
use super::super::migrate::none_moves;
use super::super::subsystem::{put, unchanged, uses_guard};
use super::super::{AdminError, Result, get};
use super::{called, wrapping_key};
use amita_crypt::{WrappedKey, WrappingKey};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, KeyName, Tenancy, Volume};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// By what the data keys of a tenant's volumes are wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantKey {
    /// The tenant's name.
    pub tenant: String,
    /// What wraps them.
    pub by: WrappingKey,
}

/// The tenants that have a volume key of their own, by name.
///
/// # Errors
/// The metadata is away, or a record cannot be read.
pub fn tenant_keys(meta: &dyn Transact) -> Result<Vec<TenantKey>> {
    let found = keyed(meta)?.into_iter();
    Ok(found.map(|(tenant, (by, _))| TenantKey { tenant, by }).collect())
}

/// What wraps for a tenant, and the revision of the record; 0: there is none, and the cluster's key does.
///
/// # Errors
/// The metadata is away, or the record cannot be read.
pub fn tenant_key(meta: &dyn Transact, tenant: &str) -> Result<(Option<WrappingKey>, u64)> {
    check_tenant(tenant)?;
    Ok(match get::<WrappingKey>(meta, &map::tenant_wrapping_key(tenant))? {
        Some((by, revision)) => (Some(by), revision),
        None => (None, 0),
    })
}

/// By the tenants' names, with the revisions of the records.
fn keyed(meta: &dyn Transact) -> Result<BTreeMap<String, (WrappingKey, u64)>> {
    let prefix = map::tenant_wrapping_keys_prefix();
    let found = with_revisions::<WrappingKey>(meta, &prefix)?.into_iter();
    Ok(found
        .map(|(key, by, revision)| (key[prefix.len()..].to_owned(), (by, revision)))
        .collect())
}

/// All records with a prefix: their keys, what they say, and their revisions.
fn with_revisions<T: DeserializeOwned>(meta: &dyn Transact, prefix: &str) -> Result<Vec<(String, T, u64)>> {
    let reply = meta.txn(&Call::prefix(prefix))?;
    let found = reply.values(0).iter();
    found
        .map(|found| Ok((found.key.clone(), super::super::parse(found)?, found.mod_revision)))
        .collect()
}

/// For whom an image is made: whose its volume is, as that was read.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Whose {
    tenant: Option<String>,
    held: Vec<Compare>,
}

impl Whose {
    /// Of a new volume that is to be this tenant's, or nobody's.
    ///
    /// # Errors
    /// No tenant is called so.
    pub fn named(tenant: Option<&str>) -> Result<Whose> {
        tenant.map_or(Ok(()), check_tenant)?;
        Ok(Whose {
            tenant: tenant.map(str::to_owned),
            held: Vec::new(),
        })
    }

    /// As the volume of this number is. Whoever asks compares that volume's record, too, as it was read before: it may get another number.
    ///
    /// # Errors
    /// The metadata is away.
    pub fn of(meta: &dyn Transact, volume: VolumeId) -> Result<Whose> {
        let key = map::tenancy_key(volume);
        let found = get::<Tenancy>(meta, &key)?;
        let revision = found.as_ref().map_or(0, |(_, revision)| *revision);
        Ok(Whose {
            tenant: found.map(|(found, _)| found.tenant),
            held: vec![unchanged(&key, revision)],
        })
    }

    /// If this holds, too.
    #[must_use]
    pub fn held_by(mut self, compare: Compare) -> Whose {
        self.held.push(compare);
        self
    }

    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    pub fn held(&self) -> &[Compare] {
        &self.held
    }

    /// Says that a new volume is his; nobody's needs no record.
    pub fn given(&self, volume: VolumeId) -> Option<Op> {
        let tenant = self.tenant.clone()?;
        Some(put(map::tenancy_key(volume), &Tenancy { volume, tenant }))
    }
}

/// What is to wrap a data key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The tenant whose key that is; none: it is the cluster's.
    pub tenant: Option<String>,
    pub by: WrappingKey,
    /// What has to be as it was read for that.
    pub held: Vec<Compare>,
}

impl Wanted {
    /// Is it wrapped so?
    pub fn is_met(&self, record: &WrappedKey) -> bool {
        record.wrapping_key() == self.by && record.binding().tenant == self.tenant
    }
}

/// Whose all volumes are, by which data keys they are read, and what wraps for whom.
pub(super) struct Owners {
    tenancies: BTreeMap<VolumeId, (String, u64)>,
    keyed: BTreeMap<String, (WrappingKey, u64)>,
    clusters: (Option<WrappingKey>, u64),
    volumes: Vec<(Volume, u64)>,
    /// Of which volume each is ([`deciders`]).
    deciders: Vec<Option<usize>>,
    /// By which of these each data key is needed.
    readers: BTreeMap<KeyName, BTreeSet<usize>>,
}

impl Owners {
    /// Reads whose they are before the volumes: one that gets another number in between is found without a tenant, which a transaction that compares that
    /// ([`Wanted::held`]) finds out.
    pub fn read(meta: &dyn Transact) -> Result<Owners> {
        let tenancies = with_revisions::<Tenancy>(meta, &map::tenancies_prefix())?;
        let tenancies = tenancies.into_iter();
        let tenancies = tenancies
            .map(|(_, found, revision)| (found.volume, (found.tenant, revision)))
            .collect();
        let (keyed, clusters) = (keyed(meta)?, wrapping_key(meta)?);
        let volumes = with_revisions::<Volume>(meta, &map::volume_key(""))?.into_iter();
        let volumes: Vec<(Volume, u64)> = volumes.map(|(_, volume, revision)| (volume, revision)).collect();
        let deciders = deciders(&volumes);
        let mut readers: BTreeMap<KeyName, BTreeSet<usize>> = BTreeMap::new();
        for ((volume, _), decider) in volumes.iter().zip(&deciders) {
            for era in volume.keys.iter().flat_map(|ring| ring.eras()) {
                readers.entry(era.key).or_default().extend(*decider);
            }
        }
        Ok(Owners {
            tenancies,
            keyed,
            clusters,
            volumes,
            deciders,
            readers,
        })
    }

    pub fn clusters(&self) -> Option<&WrappingKey> {
        self.clusters.0.as_ref()
    }

    /// The tenant that has this key.
    pub fn has(&self, by: &WrappingKey) -> Option<&str> {
        let mut keyed = self.keyed.iter();
        keyed.find(|(_, (found, _))| found == by).map(|(tenant, _)| &**tenant)
    }

    pub fn tenant_of(&self, volume: VolumeId) -> Option<&str> {
        self.tenancies.get(&volume).map(|(tenant, _)| &**tenant)
    }

    /// Whose volumes are read by a data key.
    pub fn tenants(&self, key: KeyName) -> BTreeSet<Option<&str>> {
        let readers = self.readers.get(&key).into_iter().flatten();
        readers.map(|at| self.tenant_of(self.volumes[*at].0.id)).collect()
    }

    /// Is a volume of this tenant's read by the data key whose record this is?
    pub fn are_read_by(&self, record: &str, tenant: &str) -> bool {
        let mut keys = self.readers.keys().filter(|key| map::secret_key(**key) == record);
        keys.any(|key| self.tenants(*key).contains(&Some(tenant)))
    }

    /// What is to wrap this data key; `bound`: for whom it is wrapped, which says it where no volume is read by it. None: nothing wraps yet.
    ///
    /// # Errors
    /// Volumes of several are read by it, for whom different keys wrap: for people.
    pub fn wanted(&self, key: KeyName, bound: Option<&str>) -> std::result::Result<Option<Wanted>, String> {
        let tenants = self.tenants(key);
        let wraps = |tenant: Option<&str>| {
            tenant
                .filter(|tenant| self.keyed.contains_key(*tenant))
                .map(str::to_owned)
        };
        let mut all: Vec<Option<String>> = tenants.iter().map(|tenant| wraps(*tenant)).collect();
        all.dedup();
        let wraps_for = match &all[..] {
            [] => wraps(bound),
            [one] => one.clone(),
            _ => {
                let names = tenants.iter().map(|tenant| whose(*tenant));
                return Err(format!(
                    "volumes of several are read by it ({}), for whom different keys wrap: give all to one tenant (`amita tenant add`), or write one \
                     of them anew (`amita volume rekey`)",
                    names.collect::<Vec<_>>().join(", ")
                ));
            }
        };
        let mut held = Vec::new();
        if let Some((volume, revision)) = self
            .readers
            .get(&key)
            .and_then(|of| of.first())
            .map(|at| &self.volumes[*at])
        {
            let tenancy = self.tenancies.get(&volume.id);
            held.push(unchanged(
                &map::tenancy_key(volume.id),
                tenancy.map_or(0, |(_, revision)| *revision),
            ));
            // By another number it may be another one's.
            held.push(unchanged(&map::volume_key(&volume.name), *revision));
        }
        // Of one who has none, that he has none.
        let named = tenants
            .iter()
            .flatten()
            .copied()
            .chain(bound)
            .collect::<BTreeSet<&str>>();
        held.extend(named.into_iter().map(|tenant| {
            let revision = self.keyed.get(tenant).map_or(0, |(_, revision)| *revision);
            unchanged(&map::tenant_wrapping_key(tenant), revision)
        }));
        Ok(match wraps_for {
            Some(tenant) => self.keyed.get(&tenant).map(|(by, _)| Wanted {
                by: by.clone(),
                tenant: Some(tenant),
                held,
            }),
            None => self.clusters.0.as_ref().map(|by| {
                held.push(unchanged(&map::wrapping_key(), self.clusters.1));
                Wanted {
                    tenant: None,
                    by: by.clone(),
                    held,
                }
            }),
        })
    }

    /// The volumes of others than this tenant that are read by a data key that one of these is read by.
    fn others(&self, meta: &dyn Transact, tenant: Option<&str>, of: impl Fn(&Volume) -> bool) -> Result<Vec<String>> {
        let is_of = |decider: &Option<usize>| decider.is_some_and(|at| of(&self.volumes[at].0));
        let rings = self.volumes.iter().zip(&self.deciders);
        let rings = rings
            .filter(|(_, decider)| is_of(decider))
            .filter_map(|((volume, _), _)| volume.keys.as_ref());
        let keys: BTreeSet<KeyName> = rings.flat_map(|ring| ring.eras().iter().map(|era| era.key)).collect();
        let readers = keys.iter().filter_map(|key| self.readers.get(key)).flatten();
        let others = readers.map(|at| self.volumes[*at].0.id);
        let others: BTreeSet<VolumeId> = others.filter(|id| self.tenant_of(*id) != tenant).collect();
        let all: Vec<Volume> = self.volumes.iter().map(|(volume, _)| volume.clone()).collect();
        called(meta, &all, |volume| others.contains(&volume.id) && !of(volume))
    }

    /// Fails where volumes of others are read by what a tenant's are: his key would close theirs.
    pub fn is_apart(&self, meta: &dyn Transact, tenant: &str) -> Result<()> {
        let is_his = |volume: &Volume| self.tenant_of(volume.id) == Some(tenant);
        let others = self.others(meta, Some(tenant), is_his)?;
        match others.is_empty() {
            true => Ok(()),
            false => Err(bad(
                "tenant",
                tenant,
                format!(
                    "volumes that are not the tenant's are read by data keys of such as are ({}): give them to the tenant as well (`amita tenant add \
                     {tenant} VOLUME`), or write them anew (`amita volume rekey VOLUME`); what is deleted is undeleted or purged first (`amita volume \
                     undelete|purge`)",
                    others.join(", ")
                ),
            )),
        }
    }
}

/// For people.
pub(super) fn whose(tenant: Option<&str>) -> String {
    tenant.map_or_else(|| "nobody's".to_owned(), |tenant| format!("tenant {tenant}'s"))
}

/// Of which volume each is, by their places: itself; what a volume was before it was reverted, and what it is about to be by a move, is that one's. What
/// is left behind by a move is nobody's any more: it is there for those that were cloned from it.
fn deciders(volumes: &[(Volume, u64)]) -> Vec<Option<usize>> {
    let mut data: BTreeMap<VolumeId, usize> = BTreeMap::new();
    for (at, (volume, _)) in volumes.iter().enumerate() {
        if !volume.is_former() && !map::is_moving_name(&volume.name) {
            data.extend(volume.chain().chain(volume.lineage.moving).map(|data| (data, at)));
        }
    }
    volumes
        .iter()
        .map(|(volume, _)| data.get(&volume.id).copied())
        .collect()
}

/// May a volume be this tenant's, or nobody's? What has to be so still when it is said, and what is written with it: whoever makes a clone, or gives a
/// tenant a key, compares that.
///
/// # Errors
/// It moves; others are read by a data key of its own, and would be closed by another one's key; the metadata is away.
pub(in super::super) fn may_be_of(
    meta: &dyn Transact,
    volume: &Volume,
    tenant: Option<&str>,
) -> Result<(Vec<Compare>, Vec<Op>)> {
    let (guard, guard_revision) = uses_guard(meta)?;
    let guard_key = map::counter_key("namespaces");
    let now = Whose::of(meta, volume.id)?;
    let mut compares = now.held().to_vec();
    compares.push(unchanged(&guard_key, guard_revision));
    let mut is_keyed = false;
    let named: BTreeSet<&str> = now.tenant().into_iter().chain(tenant).collect();
    for tenant in named {
        let (by, revision) = tenant_key(meta, tenant)?;
        is_keyed |= by.is_some();
        compares.push(unchanged(&map::tenant_wrapping_key(tenant), revision));
    }
    if is_keyed && now.tenant() != tenant {
        none_moves(meta, volume)?;
        let others = Owners::read(meta)?.others(meta, tenant, |other| other.id == volume.id)?;
        if !others.is_empty() {
            return Err(refused(volume, &others));
        }
    }
    Ok((compares, vec![put(guard_key, &(guard + 1))]))
}

fn refused(volume: &Volume, others: &[String]) -> AdminError {
    let name = &volume.name;
    bad(
        "volume",
        name,
        format!(
            "it shares data keys with volumes that would be others' ({}), and of two tenants no volume is read by what wraps for the other: write it anew \
             first (`amita volume rekey {name}`), and what was cloned from it, or copy it; what is deleted is undeleted or purged (`amita volume \
             undelete|purge`)",
            others.join(", ")
        ),
    )
}
