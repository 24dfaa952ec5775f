//! Limits of tenants and pools, and whose volumes are.

use super::{Change, View, number, parse};
use crate::control::Record;
use amita_types::VolumeId;
use amita_types::map::{self, JointLimits, Tenancy};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What there is of them.
#[derive(Default)]
pub(super) struct Joints {
    /// By their names, with the records' modification revisions.
    limits: BTreeMap<String, (JointLimits, u64)>,
    tenants: FxHashMap<VolumeId, String>,
}

impl View {
    pub(super) fn apply_joint(&mut self, name: &str, record: &Record) -> Change {
        let limits = &mut self.joints.limits;
        match record
            .value
            .as_ref()
            .map(|value| parse::<JointLimits>(&record.key, value))
        {
            Some(Ok(found)) => {
                limits.insert(name.to_owned(), (found, record.revision));
            }
            // What cannot be read holds as it was.
            Some(Err(why)) => return Change::Unreadable(why),
            None => {
                limits.remove(name);
            }
        }
        Change::Joint(name.to_owned())
    }

    pub(super) fn apply_tenancy(&mut self, volume: &str, record: &Record) -> Change {
        let Some(volume) = number(volume, record, map::tenancy_key) else {
            return Change::Nothing;
        };
        match record.value.as_ref().map(|value| parse::<Tenancy>(&record.key, value)) {
            Some(Ok(found)) => {
                self.joints.tenants.insert(volume, found.tenant);
            }
            Some(Err(why)) => return Change::Unreadable(why),
            None => {
                self.joints.tenants.remove(&volume);
            }
        }
        Change::Tenancy(volume)
    }

    /// The limits of a tenant or pool, with their record's modification revision.
    #[must_use]
    pub fn joint(&self, name: &str) -> Option<&(JointLimits, u64)> {
        self.joints.limits.get(name)
    }

    /// The names of those that a volume is under, its tenant's first.
    #[must_use]
    pub fn joints_of(&self, volume: VolumeId) -> Vec<String> {
        if self.joints.limits.is_empty() {
            return Vec::new();
        }
        let Some(record) = self.volume_of(volume) else {
            return Vec::new();
        };
        let tenant = self
            .joints
            .tenants
            .get(&volume)
            .map(|tenant| map::tenant_limits(tenant));
        let names = tenant.into_iter().chain([map::pool_limits(&record.pool)]);
        let is_limited = |name: &String| self.joint(name).is_some_and(|(record, _)| !record.limits.is_empty());
        names.filter(is_limited).collect()
    }

    /// The volumes that are under them.
    #[must_use]
    pub fn volumes_under(&self, name: &str) -> Vec<VolumeId> {
        match name.split_once('/') {
            Some(("tenant", tenant)) => {
                let of = self.joints.tenants.iter().filter(|(_, of)| *of == tenant);
                of.map(|(volume, _)| *volume).collect()
            }
            Some(("pool", pool)) => {
                let of = self.volumes().filter(|volume| volume.pool == pool);
                of.map(|volume| volume.id).collect()
            }
            _ => Vec::new(),
        }
    }
}
