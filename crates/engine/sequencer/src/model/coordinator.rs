//! A coordinator in miniature, and what gateways write down for it: missing members are listed as syncing, and taken in
//! when the owners of all volumes say that they are whole. What it decides it has read in one moment, and does later.
//! Each claim and each promotion is checked against what the stores really hold.

use super::store::Chunk;
use super::world::{CHUNKS, Event, GATEWAYS, GROUPS, MS, STORES, VOLUMES, World, store_id, volume_id};
use amita_metadata::{Call, Compare, Op};
use amita_types::map::{self, Syncing, Whole, WholeMember};
use amita_types::{ChunkId, ChunkIndex, Epoch, Generation, GroupIndex, PoolId, StoreId, Version};
use std::collections::{BTreeMap, BTreeSet};

/// A member of a group, by the epoch since which it is syncing.
pub type Member = (GroupIndex, StoreId, Epoch);

/// What the sequencers of one volume have said at one gateway.
#[derive(Default)]
pub struct Claims {
    /// Of the volume's record.
    pub revision: u64,
    said: BTreeMap<Member, BTreeSet<u16>>,
}

/// A change of a group's record that was decided.
pub struct Change {
    record: map::Group,
    revision: u64,
    /// The revision of what raises rewrite, for a promotion.
    raised: Option<u64>,
    promoted: Vec<StoreId>,
}

fn number(store: StoreId) -> usize {
    (store.0 - 0x1000) as usize
}

impl World {
    /// A sequencer says that a store holds everything of its chunks.
    pub(super) fn said(&mut self, gateway: usize, volume: usize, generation: Generation, core: u16, member: Member) {
        self.say(|| {
            format!(
                "g{gateway} core {core} says that {member:?} is whole of {}",
                VOLUMES[volume]
            )
        });
        let (group, store, since) = member;
        let record = self.group(group.0);
        let listed = record.syncing.contains(&Syncing { store, since });
        if listed && self.volume(volume).generation == generation {
            self.check_whole(volume, &record, store, Some(core), "claimed");
        }
        let said = self.gateways[gateway].claims[volume].said.entry(member).or_default();
        if !said.insert(core) {
            self.fail(format!("core {core} says twice that {member:?} is whole"));
        } else if said.len() == self.profile.cores {
            let incarnation = self.gateways[gateway].incarnation;
            let delay = self.delay();
            self.after(
                delay,
                Event::Claim {
                    gateway,
                    incarnation,
                    volume,
                    generation,
                },
            );
        }
    }

    /// Writes down what was said, if the volume is still ours.
    pub(super) fn claim(&mut self, gateway: usize, volume: usize, generation: Generation) {
        let out = self.now < self.gateways[gateway].meta_out_until;
        if out || (!self.settling && self.random.percent(self.profile.meta_fails_percent)) {
            let incarnation = self.gateways[gateway].incarnation;
            let again = Event::Claim {
                gateway,
                incarnation,
                volume,
                generation,
            };
            return self.after(20 * MS, again);
        }
        let claims = &self.gateways[gateway].claims[volume];
        let whole = claims.said.iter().filter(|(_, said)| said.len() == self.profile.cores);
        let record = Whole {
            volume: volume_id(volume),
            generation,
            members: whole
                .map(|(&(group, store, since), _)| WholeMember { group, store, since })
                .collect(),
        };
        let call = Call {
            compares: vec![Compare::ModRevision {
                key: map::volume_key(VOLUMES[volume]),
                equals: claims.revision,
            }],
            then: vec![Op::Put {
                key: map::whole_key(PoolId(1), volume_id(volume)),
                value: serde_json::to_vec(&record).unwrap(),
                lease: None,
            }],
            otherwise: Vec::new(),
        };
        self.seen.claimed += u64::from(self.meta.txn(&call).unwrap().succeeded);
    }

    /// The coordinator looks at everything, and decides.
    pub(super) fn look(&mut self) {
        let next = self.random.within(3 * MS, 25 * MS);
        self.after(next, Event::Look);
        for index in 0..GROUPS {
            let key = map::group_key(PoolId(1), GroupIndex(index));
            let revision = self.meta.get(&key).unwrap().mod_revision;
            let old = self.group(index);
            let Some((record, raised, promoted)) = self.decide(&old) else {
                continue;
            };
            let change = Change {
                record,
                revision,
                raised,
                promoted,
            };
            let slow = self.random.percent(20);
            let delay = if slow { self.random.below(30 * MS) } else { self.delay() };
            self.after(delay, Event::Decided { change });
        }
        self.open_for_resync();
    }

    /// The next step of a group, if it is not as it should be.
    fn decide(&mut self, old: &map::Group) -> Option<(map::Group, Option<u64>, Vec<StoreId>)> {
        let mut record = old.clone();
        record.epoch = old.epoch.next();
        let up = |world: &World, store: StoreId| world.stores[number(store)].up;
        // Who is gone, or not wanted any more, is given up.
        for member in &old.syncing {
            let gone = !up(self, member.store) && self.random.percent(50);
            if gone || !old.members.contains(&member.store) {
                record.syncing.retain(|other| other != member);
            }
        }
        for store in &old.in_sync {
            let gone = !up(self, *store) && self.random.percent(20);
            if gone && record.in_sync.len() > self.profile.min_copies {
                record.in_sync.retain(|other| other != store);
            }
        }
        if record.syncing != old.syncing || record.in_sync != old.in_sync {
            self.seen.given_up += 1;
            return Some((record, None, Vec::new()));
        }
        let whole: Vec<StoreId> = old
            .syncing
            .iter()
            .filter(|member| up(self, member.store) && self.all_agree(old.index, member))
            .map(|member| member.store)
            .collect();
        if !whole.is_empty() {
            record.syncing.retain(|member| !whole.contains(&member.store));
            record.in_sync.extend(&whole);
            let raised = self.meta.get(&map::raised_key(PoolId(1)));
            return Some((record, Some(raised.map_or(0, |value| value.mod_revision)), whole));
        }
        let wanted = old.in_sync.iter().filter(|store| old.members.contains(store)).count();
        if wanted >= self.profile.copies && wanted < old.in_sync.len() {
            record.in_sync.retain(|store| old.members.contains(store));
            return Some((record, None, Vec::new()));
        }
        for &store in &old.members {
            let there = old.in_sync.contains(&store) || old.syncing.iter().any(|member| member.store == store);
            if !there && up(self, store) && self.random.percent(70) {
                let since = record.epoch;
                record.syncing.push(Syncing { store, since });
            }
        }
        (record.syncing != old.syncing).then_some((record, None, Vec::new()))
    }

    /// Do the owners of all volumes say that the member is whole?
    fn all_agree(&self, group: GroupIndex, member: &Syncing) -> bool {
        (0..self.profile.volumes).all(|volume| {
            let generation = self.volume(volume).generation;
            let key = map::whole_key(PoolId(1), volume_id(volume));
            let whole = self.meta.get(&key).map(|value| value.json::<Whole>().unwrap());
            let (store, since) = (member.store, member.since);
            generation == Generation(0)
                || whole.is_some_and(|whole| {
                    whole.generation == generation && whole.members.contains(&WholeMember { group, store, since })
                })
        })
    }

    /// What was decided is done, if nothing has changed meanwhile.
    pub(super) fn decided(&mut self, change: Change) {
        let Change {
            record,
            revision,
            raised,
            promoted,
        } = change;
        let key = map::group_key(PoolId(1), record.index);
        let mut call = Call::put_if(key, revision, serde_json::to_vec(&record).unwrap());
        call.otherwise.clear();
        if let Some(equals) = raised {
            let key = map::raised_key(PoolId(1));
            call.compares.push(Compare::ModRevision { key, equals });
        }
        if !self.meta.txn(&call).unwrap().succeeded {
            self.seen.promotion_races += u64::from(raised.is_some());
            return;
        }
        for &store in &promoted {
            self.seen.promoted += 1;
            for volume in 0..self.profile.volumes {
                self.check_whole(volume, &record, store, None, "promoted");
            }
        }
        self.seen.listed += u64::from(promoted.is_empty() && !record.syncing.is_empty());
        self.group_changed(&record);
    }

    /// A volume that nobody has open is opened, if somebody is to be brought up to date.
    fn open_for_resync(&mut self) {
        if (0..GROUPS).all(|index| self.group(index).syncing.is_empty()) {
            return;
        }
        for volume in 0..self.profile.volumes {
            let raised = self.volume(volume).generation != Generation(0);
            let open = (0..GATEWAYS)
                .any(|gateway| self.is_open(gateway, volume) || self.gateways[gateway].openers[volume].is_some());
            if raised && !open {
                let gateway = self.random.below(GATEWAYS as u64) as usize;
                self.open(gateway, volume);
            }
        }
    }

    /// Another set of stores should hold a group: the record changes, and its epoch does not.
    pub(super) fn move_group(&mut self) {
        let group = self.random.below(u64::from(GROUPS)) as u32;
        let mut record = self.group(group);
        let first = self.random.below(STORES as u64) as usize;
        record.members = (0..self.profile.copies)
            .map(|at| store_id((first + at) % STORES))
            .collect();
        let key = map::group_key(PoolId(1), record.index);
        let value = serde_json::to_vec(&record).unwrap();
        self.meta.txn(&Call::put(key, value)).unwrap();
    }

    /// A store leaves a group though nothing is wrong with it.
    pub(super) fn evict_any(&mut self) {
        let group = self.random.below(u64::from(GROUPS)) as u32;
        let mut record = self.group(group);
        let all = record.in_sync.len() + record.syncing.len();
        let chosen = self.random.below(all as u64) as usize;
        if let Some(member) = chosen.checked_sub(record.in_sync.len()) {
            record.syncing.remove(member);
        } else if record.in_sync.len() > self.profile.min_copies {
            record.in_sync.remove(chosen);
        } else {
            return;
        }
        record.epoch = record.epoch.next();
        let key = map::group_key(PoolId(1), record.index);
        let value = serde_json::to_vec(&record).unwrap();
        self.meta.txn(&Call::put(key, value)).unwrap();
        self.group_changed(&record);
    }

    /// Is every desired member of every group in sync, and nobody else?
    pub(super) fn all_in_sync(&self) -> bool {
        (0..GROUPS).all(|index| {
            let record = self.group(index);
            let all = record.members.iter().all(|store| record.in_sync.contains(store));
            all && record.syncing.is_empty() && record.in_sync.len() == record.members.len()
        })
    }

    /// Does a store hold everything of a volume that the group's in-sync members hold, but for writes under way?
    fn check_whole(&mut self, volume: usize, record: &map::Group, store: StoreId, core: Option<u16>, what: &str) {
        let Some(&source) = record.in_sync.iter().find(|other| **other != store) else {
            return;
        };
        for chunk in 0..CHUNKS {
            let id = ChunkId {
                volume: volume_id(volume),
                index: ChunkIndex(chunk),
            };
            let ours = core.is_none_or(|core| id.core(self.profile.cores) == usize::from(core));
            if id.group(GROUPS) != record.index || !ours {
                continue;
            }
            let key = (id.volume, chunk);
            let right = self.stores[number(source)].content_accepted(key);
            let found = self.stores[number(store)].content_accepted(key);
            let durable = self.stores[number(store)].content(key);
            if let Err(why) = agree(&right, &found, &durable) {
                self.fail(format!(
                    "store {} is {what} to be whole, and of chunk {}/{chunk} {why}: {found:?} and not {right:?} of {}",
                    number(store),
                    VOLUMES[volume],
                    number(source),
                ));
            }
        }
    }
}

/// Do two copies hold the same, but for writes that only one of them has got yet?
fn agree(right: &Chunk, found: &Chunk, durable: &Chunk) -> Result<(), String> {
    if found.incomplete.is_some() || durable.incomplete.is_some() {
        return Err("is incomplete".to_owned());
    }
    let both = right.version.min(found.version);
    let blocks: BTreeSet<u16> = right.blocks.keys().chain(found.blocks.keys()).copied().collect();
    for block in blocks {
        let never = (Version::NONE, None);
        let of = |chunk: &Chunk| chunk.blocks.get(&block).copied().unwrap_or(never);
        let (one, other) = (of(right), of(found));
        let under_way = one.0.max(other.0) > both;
        if one != other && !under_way {
            return Err(format!("holds another block {block}"));
        }
    }
    Ok(())
}
