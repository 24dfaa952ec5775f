//! What initiators see by iSCSI, as last seen in the metadata; and, where that is wanted, how full pools are.

use super::{Change, View, parse, take, take_or_note};
use crate::control::Record;
use amita_types::condition::{Condition, StoreSpace, Thresholds};
use amita_types::map::{IscsiGateway, IscsiInitiator, IscsiTarget};
use amita_types::{GroupId, GroupIndex, StoreId, VolumeId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The records of it.
#[derive(Default)]
pub(super) struct Iscsi {
    targets: BTreeMap<String, IscsiTarget>,
    initiators: BTreeMap<String, IscsiInitiator>,
    /// Those whose records cannot be read, and never could: what they have to prove nobody knows.
    unreadable: BTreeSet<String>,
    gateways: BTreeMap<String, IscsiGateway>,
    /// How many LUNs show a volume and share it with no other protocol.
    luns: FxHashMap<VolumeId, u32>,
    /// How full stores are, by node and core, where somebody wants to know: each core of each node tells it.
    space: Option<BTreeMap<String, Vec<StoreSpace>>>,
    thresholds: Thresholds,
}

impl Iscsi {
    fn target(&mut self, name: &str, record: &Record) -> Result<(), String> {
        let unshared = |targets: &BTreeMap<String, IscsiTarget>| -> Vec<VolumeId> {
            let luns = targets.get(name).map(|target| &target.luns);
            let own = luns.into_iter().flatten();
            let own = own.filter(|lun| lun.snapshot.is_none() && !lun.shared);
            own.map(|lun| lun.volume).collect()
        };
        let before = unshared(&self.targets);
        take(&mut self.targets, name, record)?;
        for volume in unshared(&self.targets) {
            *self.luns.entry(volume).or_default() += 1;
        }
        for volume in before {
            let count = self.luns.entry(volume).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.luns.remove(&volume);
            }
        }
        Ok(())
    }
}

impl View {
    pub(super) fn apply_iscsi(&mut self, rest: &str, record: &Record) -> Change {
        let taken = match rest.split_once('/') {
            Some(("targets", name)) => self.iscsi.target(name, record),
            Some(("initiators", name)) => {
                take_or_note(&mut self.iscsi.initiators, &mut self.iscsi.unreadable, name, record)
            }
            Some(("gateways", node)) => take(&mut self.iscsi.gateways, node, record),
            _ => return Change::Nothing,
        };
        match taken {
            Ok(()) => Change::Initiators,
            Err(why) => Change::Unreadable(why),
        }
    }

    /// How full a core's stores are.
    pub(super) fn apply_space(&mut self, rest: &str, record: &Record) -> Change {
        let keys = self.apply_locked(rest, record);
        let Some(space) = &mut self.iscsi.space else {
            return Change::Space { keys };
        };
        space.remove(rest);
        let told = record
            .value
            .as_ref()
            .map(|value| parse::<Condition>(&record.key, value));
        let now = match told {
            Some(Ok(condition)) => condition.stores,
            Some(Err(why)) => return Change::Unreadable(why),
            None => Vec::new(),
        };
        if !now.is_empty() {
            space.insert(rest.to_owned(), now);
        }
        Change::Space { keys }
    }

    /// From where on stores count as near full.
    pub(super) fn apply_thresholds(&mut self, record: &Record) -> Change {
        match record.value.as_ref().map(|value| parse(&record.key, value)) {
            Some(Ok(thresholds)) => self.iscsi.thresholds = thresholds,
            Some(Err(why)) => return Change::Unreadable(why),
            None => self.iscsi.thresholds = Thresholds::default(),
        }
        Change::Initiators
    }

    /// From now on it is kept how full stores are: initiators are told when space runs out. To be said before records come.
    pub fn keep_space(&mut self) {
        self.iscsi.space.get_or_insert_default();
    }

    /// How full the stores of a pool are together; none: nobody has told, or nobody wants to know.
    #[must_use]
    pub fn pool_space(&self, pool: &str) -> Option<(u64, u64)> {
        let told = self.iscsi.space.as_ref()?;
        let pool = self.pool_of(pool)?;
        let index = |index| GroupId { pool, index };
        let groups = self.groups.range(index(GroupIndex(0))..=index(GroupIndex(u32::MAX)));
        let mut stores: BTreeSet<StoreId> = BTreeSet::new();
        for (_, group) in groups {
            stores.extend(&group.in_sync);
            stores.extend(group.syncing.iter().map(|syncing| syncing.store));
        }
        let of_pool = told.values().flatten().filter(|space| stores.contains(&space.store));
        let (used, total) = of_pool.fold((0u64, 0u64), |(used, total), space| {
            let used = used.saturating_add(space.used_bytes());
            (used, total.saturating_add(space.capacity_bytes))
        });
        (total > 0).then_some((used, total))
    }

    /// At how many percent space is said to run out where a target says nothing else.
    #[must_use]
    pub fn near_full_percent(&self) -> u8 {
        self.iscsi.thresholds.near_full_percent
    }

    /// The targets that initiators log in to, by name.
    pub fn targets(&self) -> impl Iterator<Item = &IscsiTarget> {
        self.iscsi.targets.values()
    }

    /// The initiators of which something is known, by name.
    pub fn initiators(&self) -> impl Iterator<Item = &IscsiInitiator> {
        self.iscsi.initiators.values()
    }

    /// The names of initiators of which there is a record that nobody can read: nobody knows what they have to prove.
    pub fn unreadable_initiators(&self) -> impl Iterator<Item = &str> {
        self.iscsi.unreadable.iter().map(String::as_str)
    }

    /// The nodes that speak iSCSI, by name.
    pub fn iscsi_gateways(&self) -> impl Iterator<Item = &IscsiGateway> {
        self.iscsi.gateways.values()
    }

    /// Is a volume itself a LUN, and for iSCSI alone?
    #[must_use]
    pub fn is_unshared_lun(&self, volume: VolumeId) -> bool {
        self.iscsi.luns.contains_key(&volume)
    }
}
