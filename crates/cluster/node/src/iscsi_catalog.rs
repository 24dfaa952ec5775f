//! The settings that initiators of iSCSI see, made of what is known of the cluster.

use crate::view::View;
use amita_control::admin::chap_field;
use amita_frontend::reservation::State;
use amita_iscsi::{Initiator, Secret, TargetDetail};
use amita_keys::{SealError, SealKey};
use amita_scsi::token::KEY_BYTES;
use amita_scsi::unit::{Alua, Space};
use amita_scsi::{Access, Group, Target, TokenKeys, Unit};
use amita_types::{NodeId, VolumeId, iscsi_name, map, name};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// For what keys are derived from the cluster's sealing key.
const TOKENS: &str = "tokens of copies";

/// Makes the catalogs of a node, and remembers what it takes to make the next one.
pub struct IscsiCataloguer {
    node: NodeId,
    key: Option<Arc<SealKey>>,
    /// What tokens of copies are sealed with.
    tokens: Option<Arc<TokenKeys>>,
    made: Arc<amita_iscsi::Catalog>,
    /// What was opened, by what it was sealed as.
    opened: BTreeMap<String, Secret>,
    /// What could not be opened, so that it is said once.
    refused: BTreeSet<String>,
    /// The same for the catalog before, while one is made: what stands in no record any more is forgotten with it.
    before: (BTreeMap<String, Secret>, BTreeSet<String>),
    /// For the operator.
    warnings: Vec<String>,
}

impl IscsiCataloguer {
    /// A cataloguer that has made none yet. Without a sealing key, initiators with secrets cannot log in, and a token of a copy is good at this
    /// gateway only, as long as it runs.
    #[must_use]
    pub fn new(node: NodeId, key: Option<Arc<SealKey>>) -> IscsiCataloguer {
        let keys: Vec<[u8; KEY_BYTES]> = match &key {
            Some(key) => key.derive(TOKENS).iter().map(|derived| **derived).collect(),
            None => {
                let mut own = [0; KEY_BYTES];
                amita_keys::system_random(&mut own);
                vec![own]
            }
        };
        IscsiCataloguer {
            node,
            key,
            tokens: TokenKeys::new(&keys).map(Arc::new),
            made: Arc::default(),
            opened: BTreeMap::new(),
            refused: BTreeSet::new(),
            before: Default::default(),
            warnings: Vec::new(),
        }
    }

    /// What is to be told to the operator.
    pub fn warnings(&mut self) -> std::vec::Drain<'_, String> {
        self.warnings.drain(..)
    }

    /// The settings as they are now, if they are not those that were made last. `is_open`: is the volume open on this node?
    pub fn make(&mut self, view: &View, is_open: impl Fn(VolumeId) -> bool) -> Option<Arc<amita_iscsi::Catalog>> {
        let portals = portals(view);
        let groups = groups(view, &portals);
        let mut spaces = BTreeMap::new();
        let mut targets: Vec<Arc<Target>> = view
            .targets()
            .filter(|record| is_name(&record.iqn))
            .map(|record| Arc::new(self.target(record, view, &groups, &mut spaces, &is_open)))
            .collect();
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        targets.dedup_by(|later, first| later.name == first.name);
        // What is as it was stays the same one: thousands of sessions look at that first.
        for target in &mut targets {
            if let Some(before) = self
                .made
                .scsi
                .target(&target.name)
                .filter(|before| ***before == **target)
            {
                *target = before.clone();
            }
        }
        let reservations = reservations(view, &targets);
        let here = groups
            .iter()
            .find(|group| group.node == self.node)
            .map(|group| group.tag);
        let mut details: BTreeMap<String, TargetDetail> = BTreeMap::new();
        for record in view.targets() {
            // Of two of one name, which no command makes, the first counts, as above.
            let of_first = details.entry(record.iqn.clone());
            of_first.or_insert_with(|| detail(record, &groups, here));
        }
        self.before = (std::mem::take(&mut self.opened), std::mem::take(&mut self.refused));
        let mut initiators: Vec<Arc<Initiator>> = view
            .initiators()
            .filter(|record| is_name(&record.name))
            .map(|record| Arc::new(self.initiator(record)))
            .collect();
        self.before = Default::default();
        let unreadable = view.unreadable_initiators().filter(|name| is_name(name));
        initiators.extend(unreadable.map(|name| Arc::new(barred(name))));
        initiators.sort_by(|a, b| a.name.cmp(&b.name));
        initiators.dedup_by(|later, first| later.name == first.name);
        let mut scsi = amita_scsi::Catalog {
            node: self.node,
            revision: self.made.scsi.revision,
            groups,
            targets,
            reservations,
            extended_reservations: true,
            tokens: self.tokens.clone(),
        };
        let beside = (&self.made.portals, &self.made.initiators, &self.made.details);
        if scsi == *self.made.scsi && beside == (&portals, &initiators, &details) && scsi.revision > 0 {
            return None;
        }
        scsi.revision += 1;
        self.made = Arc::new(amita_iscsi::Catalog {
            scsi: Arc::new(scsi),
            portals,
            initiators,
            details,
        });
        Some(self.made.clone())
    }

    /// The same, where nothing but reservations has changed: those can many times in a second, and of thousands of logical units nothing else is
    /// looked at then.
    pub fn make_reserved(&mut self, view: &View) -> Option<Arc<amita_iscsi::Catalog>> {
        let made = &self.made;
        let reservations = reservations(view, &made.scsi.targets);
        // Before there are any settings there are none of this either.
        if made.scsi.revision == 0 || made.scsi.reservations == reservations {
            return None;
        }
        let scsi = amita_scsi::Catalog {
            revision: made.scsi.revision + 1,
            reservations,
            ..amita_scsi::Catalog::clone(&made.scsi)
        };
        self.made = Arc::new(amita_iscsi::Catalog {
            scsi: Arc::new(scsi),
            ..amita_iscsi::Catalog::clone(made)
        });
        Some(self.made.clone())
    }

    fn target(
        &self,
        record: &map::IscsiTarget,
        view: &View,
        groups: &[Group],
        spaces: &mut BTreeMap<String, Option<Space>>,
        is_open: &impl Fn(VolumeId) -> bool,
    ) -> Target {
        let serving: Vec<&Group> = groups.iter().filter(|group| serves(record, group)).collect();
        let mut units: Vec<Arc<Unit>> = record
            .luns
            .iter()
            .filter_map(|lun| self.unit(lun, view, &serving, is_open))
            .map(|mut unit| {
                let pool = view.volume_with(unit.volume).map(|volume| &volume.pool);
                let found = pool.and_then(|pool| {
                    let known = spaces.entry(pool.clone());
                    *known.or_insert_with(|| space(view, pool))
                });
                let warning_percent = record.space_warning_percent.unwrap_or_else(|| view.near_full_percent());
                unit.space = found.map(|space| Space {
                    warning_percent,
                    ..space
                });
                Arc::new(unit)
            })
            .collect();
        units.sort_by_key(|unit| unit.number);
        units.dedup_by_key(|unit| unit.number);
        let mut initiators: Vec<Arc<Access>> = record
            .initiators
            .iter()
            .map(|access| {
                let mut mask = access.luns.clone();
                mask.iter_mut().for_each(|luns| luns.sort_unstable());
                Arc::new(Access {
                    name: access.initiator.clone(),
                    mask,
                })
            })
            .collect();
        initiators.sort_by(|a, b| a.name.cmp(&b.name));
        initiators.dedup_by(|later, first| later.name == first.name);
        Target {
            name: record.iqn.clone(),
            groups: serving.iter().map(|group| group.tag).collect(),
            units,
            initiators,
            any_initiator: record.any_initiator,
            explicit_access: record.initiators_move,
        }
    }

    /// `None`: its volume is gone or deleted, or no initiator could use it.
    fn unit(
        &self,
        record: &map::IscsiLun,
        view: &View,
        serving: &[&Group],
        is_open: &impl Fn(VolumeId) -> bool,
    ) -> Option<Unit> {
        // A snapshot of what a volume was before it was reverted is the volume's.
        let known = view.present(record.volume);
        let data = view.volume_of(known)?;
        let is_read = !data.is_former() || record.snapshot.is_some();
        let volume = view
            .volume_with(known)
            .filter(|volume| is_read && !map::is_hidden(&volume.name))?;
        let chunk_bytes = view.chunk_bytes(&volume.pool)?;
        let state = |group: &Group| {
            let owns = data.owner == Some(group.node);
            // What this node owns by its record and has not opened yet it is no shorter way to.
            let is_here = group.node != self.node || is_open(data.id);
            match (group.alive, owns && is_here) {
                (false, _) => Alua::Unavailable,
                (true, true) => Alua::Optimized,
                (true, false) => Alua::NonOptimized,
            }
        };
        let access: Vec<(u16, Alua)> = serving.iter().map(|group| (group.tag, state(group))).collect();
        let preferred = serving
            .iter()
            .find(|group| group.alive && data.owner == Some(group.node))
            .map(|group| group.tag);
        let unit = Unit {
            number: record.number,
            volume: data.id,
            snapshot: record.snapshot_id(),
            name: volume.name.clone(),
            size_bytes: record
                .snapshot
                .map_or(volume.size_bytes, |snapshot| snapshot.size_bytes),
            chunk_bytes,
            block_bytes: record.block_bytes,
            uuid: *record.uuid.as_bytes(),
            access,
            preferred,
            space: None,
        };
        unit.is_sound().then_some(unit)
    }

    fn initiator(&mut self, record: &map::IscsiInitiator) -> Initiator {
        let mut open = |field: &str, sealed: &Option<String>| {
            let sealed = sealed.as_ref()?;
            // What cannot be opened nobody can prove to have: an empty secret opens nothing.
            let opened = self.open(&record.name, field, sealed);
            Some(opened.unwrap_or_else(|| Secret::new(Vec::new())))
        };
        let mut chap = open(chap_field::INITIATOR, &record.chap);
        let chap_target = open(chap_field::TARGET, &record.chap_target);
        // One that wants proof of targets as well is not let in where they cannot give it; nor where both would prove the same.
        let is_barred = chap_target.as_ref().is_some_and(Secret::is_empty);
        if is_barred || (chap.is_some() && chap == chap_target) {
            chap = Some(Secret::new(Vec::new()));
        }
        Initiator {
            name: record.name.clone(),
            user: record.user().to_owned(),
            target_user: record.chap_target_user.clone(),
            chap,
            chap_target,
        }
    }

    fn open(&mut self, name: &str, field: &str, sealed: &str) -> Option<Secret> {
        let known = format!("{name} {field} {sealed}");
        if let Some(secret) = self.before.0.remove(&known) {
            self.opened.insert(known, secret.clone());
            return Some(secret);
        }
        let opened: Result<Secret, String> = match &self.key {
            Some(key) => key
                .unseal(name, field, sealed)
                .map(|text| Secret::new(text.as_bytes().to_vec()))
                .map_err(|why: SealError| why.to_string()),
            None => Err(format!(
                "the {field} of {name} is sealed, and this gateway has no sealing key: start it with --seal-key"
            )),
        };
        match opened {
            Ok(secret) => {
                self.opened.insert(known, secret.clone());
                Some(secret)
            }
            Err(why) => {
                let is_said = self.before.1.contains(&known);
                if self.refused.insert(known) && !is_said {
                    self.warnings
                        .push(format!("initiator {name} cannot log in through this gateway: {why}"));
                }
                None
            }
        }
    }
}

/// An initiator that cannot be let in, since nobody knows what it has to prove.
fn barred(name: &str) -> Initiator {
    Initiator {
        name: name.to_owned(),
        user: name.to_owned(),
        target_user: None,
        chap: Some(Secret::new(Vec::new())),
        chap_target: None,
    }
}

/// Is it one as it is kept? Nothing else stands in a record that was made by a command, and whatever stands there is said to initiators.
fn is_name(name: &str) -> bool {
    iscsi_name::canonical(name).is_ok_and(|canonical| canonical == name)
}

/// How the volumes are reserved that are logical units. Nobody reserves what was.
fn reservations(view: &View, targets: &[Arc<Target>]) -> BTreeMap<VolumeId, Arc<State>> {
    let units = targets.iter().flat_map(|target| &target.units);
    let volumes = units.filter(|unit| unit.source().is_head()).map(|unit| unit.volume);
    let reserved = volumes.filter_map(|volume| Some((volume, view.reservation(volume)?.clone())));
    reserved.collect()
}

/// Does the gateway serve the target?
fn serves(record: &map::IscsiTarget, group: &Group) -> bool {
    record.gateways.is_empty() || record.gateways.contains(&group.name)
}

fn detail(record: &map::IscsiTarget, groups: &[Group], here: Option<u16>) -> TargetDetail {
    let is_here = |tag: u16| groups.iter().any(|group| group.tag == tag && serves(record, group));
    TargetDetail {
        alias: Some(record.name.clone())
            .filter(|name| name::fault(name).is_none())
            .unwrap_or_default(),
        chap_required: record.chap_required,
        // Initiators with several paths log in by all of them, and ALUA tells which is the shortest.
        moved: None,
        leaving: here.is_some_and(|tag| !is_here(tag)),
    }
}

/// Where each gateway listens, by its tag.
fn portals(view: &View) -> BTreeMap<u16, Vec<SocketAddr>> {
    let mut portals = BTreeMap::new();
    for gateway in view.iscsi_gateways() {
        let listens = gateway.portals.iter().filter_map(|portal| portal.parse().ok());
        let listens: Vec<SocketAddr> = listens.collect();
        // Zero is no tag of anybody.
        if !listens.is_empty() && gateway.tag > 0 {
            portals.entry(gateway.tag).or_insert(listens);
        }
    }
    portals
}

/// The gateways that listen somewhere. Of two records of one tag, which cannot be, the first counts.
fn groups(view: &View, portals: &BTreeMap<u16, Vec<SocketAddr>>) -> Vec<Group> {
    let listening = view
        .iscsi_gateways()
        .filter(|gateway| portals.contains_key(&gateway.tag));
    let mut groups: Vec<Group> = listening
        .map(|gateway| Group {
            tag: gateway.tag,
            node: gateway.node,
            name: gateway.name.clone(),
            alive: view.lives(gateway.node) && gateway.is_of(view.session(gateway.node)),
        })
        .collect();
    groups.sort_by_key(|group| group.tag);
    groups.dedup_by_key(|group| group.tag);
    groups
}

/// How full a pool is, in whole percents: with each block that is written the catalog would be another one otherwise.
fn space(view: &View, pool: &str) -> Option<Space> {
    let (used, total_bytes) = view.pool_space(pool)?;
    let percent = u128::from(used) * 100 / u128::from(total_bytes);
    Some(Space {
        // Rounded up, so that it is that percent still.
        used_bytes: u64::try_from((percent * u128::from(total_bytes)).div_ceil(100)).unwrap_or(u64::MAX),
        total_bytes,
        warning_percent: 100,
    })
}

#[cfg(test)]
mod tests;
