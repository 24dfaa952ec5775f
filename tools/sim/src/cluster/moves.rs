//! Volumes that move to another pool while hosts use them (decision 080, M1 to M8): by the product's own functions, and by movers who do what the
//! product's runner does ([`mover`]).
//!
//! A mover is a process at one of the last nodes, which hosts do not use: it has that node's way to the metadata, with all that is wrong
//! with it, and that node's gateway, by which it reads snapshots of the source and owns the target. It goes with its node, and another one
//! goes on; one that is frozen or cut off is followed, and goes on as well when it can. What it lacks of a real one is a node number of its
//! own: so no mover begins where the target is still owned.
//!
//! What hosts see is judged as ever, by the volume's number for them: the history knows nothing of moves. So a switch that loses a write, or shows
//! an old one, is no order of its block; and the snapshots that were taken before must be what they were, by what stores of the new pool hold.

mod judged;
pub(super) mod line;
mod mover;
mod players;
mod processes;

use super::deletion::seconds;
use super::mirrors::wire::{Did, FarAsk};
use super::node::node_id;
use super::operator::Desk;
use super::session::Heard;
use super::{Cluster, pool_name, pool_of, volume_id, volume_name};
use crate::faults::Member;
use crate::random::Random;
use amita_control::admin::{self, FormerSweep, MigrateWish};
use amita_frontend::{FrontId, Source};
use amita_metadata::{Call, Compare, Op as Change};
use amita_reactor::Time;
use amita_types::map::{self, Copying};
use amita_types::{MirrorId, PoolId, SnapshotId, VolumeId};
use line::{Brought, End, Handle};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Before a move that ails is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// Between two looks at former data.
const SWEEP: Duration = Duration::from_millis(100);
const MS: u64 = 1_000_000;

/// What a run has of moves.
#[derive(Clone, Debug, Default)]
pub struct Migrating {
    /// So many nodes, the last ones, have movers and no hosts; none: no volume moves to another pool.
    pub movers: usize,
    /// So often of a thousand that a mover asks for something it, or the owner of what it moves, has some trouble.
    pub trouble_per_mille: u64,
    /// A mover's calls to the metadata take so much longer, at most.
    pub slow_calls: Duration,
    /// A mover wishes for short holds, however long the last pass before took: that a move is right does not rest on what it expects.
    pub short_holds: bool,
    /// Those nodes run this mirror, between this cluster and another one; none: volumes move within this one.
    pub mirror: Option<MirrorId>,
    /// In the moment of a switch the owner hears of nothing, and hosts go to another gateway, but for those who are loyal.
    pub hosts_go: bool,
}

/// What a mover has open.
struct Open {
    front: FrontId,
    heard: Rc<RefCell<Heard>>,
    source: Option<Source>,
    tags: u64,
    lost: Option<String>,
}

/// What a mover waits for.
enum Wait {
    /// It has not begun.
    Nothing,
    /// The call goes out then.
    Calling(Time, Box<Call>),
    Txn,
    /// The other cluster.
    Far,
    Rest(Time),
    Opening {
        end: End,
        name: String,
        compares: bool,
        since: Option<SnapshotId>,
        until: Time,
    },
    Io {
        end: End,
        /// The first piece's tag.
        first: u64,
        brought: Vec<Option<Brought>>,
        failed: Option<String>,
        left: usize,
        until: Time,
    },
}

struct Mover {
    member: Member,
    process: u64,
    serial: u64,
    volume: VolumeId,
    handle: Handle,
    wait: Wait,
    open: BTreeMap<End, Open>,
}

/// All of a run.
pub struct Migrations {
    setup: Migrating,
    random: Random,
    movers: Vec<Mover>,
    serial: u64,
    /// The data that each volume of hosts has had, by number.
    data: Vec<Vec<VolumeId>>,
    /// Volumes of which a pass has written all: what was not changed is told as changed.
    written_anew: BTreeSet<u64>,
    /// Where volumes were when their moves were asked for, and their keys; by what they move to.
    before: BTreeMap<VolumeId, (String, Option<map::KeyRing>)>,
    /// Volumes that have moved, and that nobody has opened since: who owned them opens them, and takes them from nobody.
    pub fresh: BTreeSet<u64>,
    /// When a move that nobody is at is begun, by its target.
    begins: BTreeMap<VolumeId, Time>,
    /// When the key of a mover lapses that is not heard of.
    lapses: BTreeMap<VolumeId, (u64, Time)>,
    sweep: FormerSweep,
    sweeps_at: Time,
    has_former: bool,
    /// The metadata's revision at the last look.
    looked: u64,
    records: Vec<Copying>,
    ended: bool,
    /// What processes of mirrors have said, when.
    outbox: Vec<(u64, Time, Out)>,
}

/// What a process of a mirror has for who plays both clusters.
pub(super) enum Out {
    /// It asks the other end.
    Far(Box<FarAsk>),
    Did(Box<Did>),
    /// It has ended; why, where that is to be told.
    Ended(Option<String>),
}

impl Migrations {
    /// None yet.
    pub fn new(setup: &Migrating, volumes: u64, random: Random) -> Migrations {
        Migrations {
            setup: setup.clone(),
            random,
            movers: Vec::new(),
            serial: 0,
            data: (0..volumes).map(|volume| vec![volume_id(volume)]).collect(),
            written_anew: BTreeSet::new(),
            before: BTreeMap::new(),
            fresh: BTreeSet::new(),
            begins: BTreeMap::new(),
            lapses: BTreeMap::new(),
            sweep: FormerSweep::default(),
            sweeps_at: Time(0),
            has_former: false,
            looked: 0,
            records: Vec::new(),
            ended: false,
            outbox: Vec::new(),
        }
    }

    /// The data of a volume of hosts, as it was seen last.
    pub fn last_of(&self, volume: u64) -> VolumeId {
        let all = self.data.get(volume as usize).and_then(|all| all.last());
        all.copied().unwrap_or(volume_id(volume))
    }

    fn is_on(&self) -> bool {
        self.setup.movers > 0
    }

    /// When something is next due, though nothing has happened.
    pub fn next(&self) -> Option<Time> {
        let waits = self.movers.iter().filter_map(|mover| match &mover.wait {
            Wait::Nothing => Some(Time(0)),
            Wait::Calling(at, _) | Wait::Rest(at) => Some(*at),
            Wait::Txn | Wait::Far => None,
            Wait::Opening { until, .. } | Wait::Io { until, .. } => Some(*until),
        });
        let begins = self.begins.values().copied();
        let lapses = self.lapses.values().map(|(_, at)| *at);
        let sweeps = self.has_former.then_some(self.sweeps_at);
        waits.chain(begins).chain(lapses).chain(sweeps).min()
    }
}

impl Mover {
    /// It moves nothing: it is one of the processes of a mirror.
    fn is_of_mirror(&self) -> bool {
        self.volume == VolumeId(0)
    }
}

fn clock(now: Time) -> Duration {
    Duration::from_nanos(now.0)
}

impl Cluster {
    /// The volume of hosts that this is, or was, the data of.
    pub(super) fn number_of(&self, data: VolumeId) -> Option<u64> {
        let place = self.migrations.data.iter().position(|all| all.contains(&data));
        place.map(|place| place as u64)
    }

    /// The data of a volume of hosts, as it was seen last.
    pub(super) fn data_of(&self, volume: u64) -> VolumeId {
        self.migrations.last_of(volume)
    }

    /// The pool of a volume of hosts.
    pub(super) fn pool_of(&self, volume: u64) -> PoolId {
        let record = match self.migrations.is_on() && volume < self.setup.volumes {
            true => self.volume(volume).ok(),
            false => None,
        };
        record.map_or_else(|| pool_of(&self.setup, volume), |record| self.pool_named(&record.pool))
    }

    fn pool_named(&self, name: &str) -> PoolId {
        let mut pools = (1..=self.setup.pools).map(PoolId);
        pools.find(|pool| pool_name(*pool) == name).expect("a pool of the run")
    }

    /// The blocks of a snapshot of a volume that has moved; none: it has not.
    pub(super) fn size_of_moved(&self, volume: u64, data: VolumeId, number: SnapshotId) -> Option<u64> {
        let has_moved = self
            .migrations
            .data
            .get(volume as usize)
            .is_some_and(|all| all.len() > 1);
        let found = self
            .metadata
            .state()
            .get(&map::snapshot_key(data, number))
            .filter(|_| has_moved)?;
        let snapshot: map::Snapshot = found.json().ok()?;
        Some(snapshot.size_bytes / u64::from(amita_types::BLOCK_BYTES))
    }

    /// Has a pass written all of a volume?
    pub(super) fn is_written_anew(&self, volume: u64) -> bool {
        self.migrations.written_anew.contains(&volume)
    }

    /// The operator has a volume moved to another pool; or, if it is encrypted, written anew where it is, by another data key.
    pub(super) fn begin_migration(&mut self, now: Time, volume: u64) {
        let pools: Vec<PoolId> = (1..=self.setup.pools)
            .map(PoolId)
            .filter(|pool| *pool != self.pool_of(volume))
            .collect();
        if !self.migrations.is_on() {
            return;
        }
        let stays = self.setup.sealed.is_some() && (pools.is_empty() || (now.0 / 1_000_000).is_multiple_of(3));
        if pools.is_empty() && !stays {
            return;
        }
        let other = (!pools.is_empty()).then(|| pool_name(*self.migrations.random.pick(&pools)));
        let pool = other.filter(|_| !stays);
        let name = volume_name(volume);
        let desk = Desk::new(&mut self.metadata, now);
        let wish = MigrateWish {
            volume: &name,
            pool: pool.as_deref(),
            at_rest: admin::AtRest::AsItIs,
            limit_bytes_per_s: None,
            keys: self.setup.sealed.as_ref().map(|sealed| sealed as &dyn admin::DataKeys),
            now: clock(now),
        };
        match admin::migrate_volume(&desk, &wish) {
            Ok(record) => {
                self.coverage
                    .hit(if stays { "operator.rekey" } else { "operator.migrate" });
                if let Ok(found) = self.volume(volume) {
                    self.migrations.before.insert(record.volume, (found.pool, found.keys));
                }
                let to = pool.as_deref().unwrap_or("where it is");
                self.tell(|| format!("{name} is to move to {to}, as volume {}", record.volume));
            }
            // It moves already, say.
            Err(why) => {
                self.coverage.hit("operator.migrate_refused");
                self.tell(|| format!("{name} does not move: {why}"));
            }
        }
    }

    /// The record of a volume's move.
    fn migration_of(&self, volume: u64) -> Option<Copying> {
        let host = volume_id(volume);
        let mut records = self.moving_records().into_iter();
        records.find(|record| record.source == host)
    }

    fn moving_records(&self) -> Vec<Copying> {
        let prefix = map::copying_prefix();
        let all = self.metadata.state().keys().filter(|kv| kv.key.starts_with(&prefix));
        let all = all.filter_map(|kv| kv.json::<Copying>().ok());
        all.filter(|record| record.moving.is_some()).collect()
    }

    /// He takes it back.
    pub(super) fn cancel_migration(&mut self, now: Time, volume: u64) -> Result<(), String> {
        let Some(record) = self.migration_of(volume) else {
            return Ok(());
        };
        let desk = Desk::new(&mut self.metadata, now);
        let cancelled = admin::cancel_copy(&desk, record.volume);
        match cancelled.map_err(|why| format!("a move cannot be taken back: {why}"))? {
            true => self.coverage.hit("operator.migrate_cancelled"),
            false => self.coverage.hit("operator.migrate_too_late"),
        }
        Ok(())
    }

    /// He has it stand still, or go on.
    pub(super) fn pause_migration(&mut self, now: Time, volume: u64) -> Result<(), String> {
        let Some(record) = self.migration_of(volume) else {
            return Ok(());
        };
        let paused = map::Paused {
            by: "operator".to_owned(),
            at: seconds(now),
        };
        let paused = record.paused.is_none().then_some(&paused);
        let desk = Desk::new(&mut self.metadata, now);
        let done = admin::pause_copy(&desk, record.volume, paused);
        done.map_err(|why| format!("a move does not stand still: {why}"))?;
        self.coverage.hit(match paused {
            Some(_) => "operator.migrate_paused",
            None => "operator.migrate_resumed",
        });
        Ok(())
    }

    /// Everything about moves that is due.
    pub(super) fn play_migrations(&mut self, now: Time) -> Result<(), String> {
        if !self.migrations.is_on() {
            return Ok(());
        }
        self.look_at_migrations(now);
        for mut mover in std::mem::take(&mut self.migrations.movers) {
            if self.play_mover(now, &mut mover)? {
                self.migrations.movers.push(mover);
            }
        }
        self.sweep_moved(now)
    }

    /// Who is to be at which move, and whose key has lapsed.
    fn look_at_migrations(&mut self, now: Time) {
        let revision = self.metadata.state().revision();
        if std::mem::replace(&mut self.migrations.looked, revision) != revision {
            self.migrations.records = self.moving_records();
            let volumes = map::volume_key(".");
            let mut hidden = self.metadata.state().keys().filter(|kv| kv.key.starts_with(&volumes));
            self.migrations.has_former =
                hidden.any(|kv| kv.json::<map::Volume>().is_ok_and(|volume| volume.is_former()));
        }
        let records = std::mem::take(&mut self.migrations.records);
        self.migrations
            .begins
            .retain(|volume, _| records.iter().any(|record| record.volume == *volume));
        self.migrations
            .lapses
            .retain(|volume, _| records.iter().any(|record| record.volume == *volume));
        for record in records.iter().filter(|record| record.is_due()) {
            let key = map::copier_key(record.volume);
            let holder = self.metadata.state().get(&key);
            let holder = holder.map(|kv| (kv.mod_revision, kv.json::<u64>().unwrap_or_default()));
            match holder {
                Some((revision, serial)) => {
                    self.migrations.begins.remove(&record.volume);
                    self.look_at_claim(now, record.volume, (revision, serial));
                }
                None => {
                    self.migrations.lapses.remove(&record.volume);
                    self.look_for_mover(now, record);
                }
            }
        }
        self.migrations.records = records;
    }

    fn look_at_claim(&mut self, now: Time, volume: VolumeId, (revision, serial): (u64, u64)) {
        let mut movers = self.migrations.movers.iter();
        let holder = movers.find(|mover| mover.serial == serial);
        let is_kept = holder.is_some_and(|mover| {
            let node = &self.nodes[mover.member];
            node.process == mover.process
                && node.frozen_until <= now
                && self.metadata.reaches(now, node_id(mover.member))
        });
        if is_kept {
            self.migrations.lapses.remove(&volume);
            return;
        }
        let lasts = Duration::from_nanos(self.migrations.random.within(50 * MS, 1500 * MS));
        let entry = self
            .migrations
            .lapses
            .entry(volume)
            .or_insert((revision, now.plus(lasts)));
        if entry.0 != revision {
            *entry = (revision, now.plus(lasts));
        }
        if now < entry.1 {
            return;
        }
        self.migrations.lapses.remove(&volume);
        let key = map::copier_key(volume);
        let call = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: revision,
            }],
            then: vec![Change::Delete { key }],
            otherwise: Vec::new(),
        };
        self.metadata.operate(now, &call);
        self.coverage.hit("migrate.claim_lapsed");
        self.tell(|| format!("mover {serial} of volume {volume} is not heard of any more"));
    }

    /// What volumes were before they moved goes when nothing needs it.
    fn sweep_moved(&mut self, now: Time) -> Result<(), String> {
        if !self.migrations.has_former || now < self.migrations.sweeps_at {
            return Ok(());
        }
        self.migrations.sweeps_at = now.plus(SWEEP);
        let desk = Desk::new(&mut self.metadata, now);
        let swept = self.migrations.sweep.sweep(&desk);
        let swept = swept.map_err(|why| format!("no former data is looked at: {why}"))?;
        if let Some((volume, why)) = swept.failed.first() {
            return Err(format!("former data {volume} cannot go: {why}"));
        }
        self.coverage.add("migrate.former_gone", swept.gone.len() as u64);
        for (volume, _) in &swept.gone {
            self.tell(|| format!("former data {volume} goes"));
        }
        Ok(())
    }

    /// Volumes of hosts whose data is another one since somebody looked.
    pub(super) fn hear_switches(&mut self) -> Result<(), String> {
        if !self.migrations.is_on() {
            return Ok(());
        }
        for volume in 0..self.setup.volumes {
            let Ok(record) = self.volume(volume) else { continue };
            if record.id == self.data_of(volume) {
                continue;
            }
            self.migrations.data[volume as usize].push(record.id);
            let name = volume_name(volume);
            self.tell(|| format!("{name} has moved: it is volume {} in {}", record.id, record.pool));
            self.coverage.hit("migrate.switched");
            if let Some((pool, keys)) = self.migrations.before.remove(&record.id) {
                match (&keys, &record.keys) {
                    (None, None) => {}
                    (Some(keys), Some(new)) => {
                        let of_before = |era: &map::Era| keys.eras().iter().any(|old| old.key == era.key);
                        if new.eras().iter().any(of_before) {
                            return Err(format!(
                                "{name} was written anew, and has a key of before: {keys:?}, {new:?}"
                            ));
                        }
                        self.coverage.add("migrate.rekeyed", u64::from(pool == record.pool));
                    }
                    _ => {
                        return Err(format!(
                            "{name} was to stay as it is at rest: {keys:?}, {:?}",
                            record.keys
                        ));
                    }
                }
            }
            if record.host() != volume_id(volume) {
                return Err(format!(
                    "{name} has moved, and hosts know another number of it: {record:?}"
                ));
            }
            if let Some(owner) = record.owner {
                self.owned.insert(volume, (record.generation, owner.0 as usize - 1));
                self.migrations.fresh.insert(volume);
            }
            self.judge_moved_snapshots(volume, &record)?;
            if self.migrations.setup.hosts_go && !self.migrations.ended {
                let gateways = self.setup.gateways() as u64;
                let other = 1 + self.migrations.random.below(gateways - 1);
                let to = (self.hosts.gateways()[volume as usize] as u64 + other) % gateways;
                let now = self.world.now();
                self.hosts.move_to(now, volume, to as Member);
            }
        }
        Ok(())
    }
}
