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

pub(super) mod line;
mod mover;
mod processes;

use super::coordinator::Caller;
use super::deletion::seconds;
use super::mirrors::wire::{Did, FarAsk};
use super::node::node_id;
use super::operator::Desk;
use super::session::Heard;
use super::{Cluster, pool_name, pool_of, volume_id, volume_name};
use crate::faults::{Fault, Member};
use crate::random::Random;
use amita_control::admin::{self, FormerSweep, MigrateWish};
use amita_frontend::{Event, FrontId, Source, Who};
use amita_metadata::{Call, Compare, Error, Op as Change, Reply};
use amita_reactor::{Slice, Time};
use amita_types::io::{Differs, Op, Payload};
use amita_types::map::{self, Copying, SnapshotState};
use amita_types::{MirrorId, PoolId, SnapshotId, VolumeId};
use line::{Answer, Ask, Brought, End, Handle, Opened, Piece};
use mover::Begins;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// An opening that has not ended after this is given up.
const OPEN_PATIENCE: Duration = Duration::from_secs(4);
/// And I/O that has not.
const STALL: Duration = Duration::from_secs(5);
/// Before a move that ails is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// Between two looks at former data.
const SWEEP: Duration = Duration::from_millis(100);
/// Moves come to their end within this, now that nothing is wrong.
const ENDS: Duration = Duration::from_secs(90);
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

    fn look_for_mover(&mut self, now: Time, record: &Copying) {
        let longest = if record.ails.is_some() {
            RETRY
        } else {
            Duration::from_millis(30)
        };
        let pause = Time(now.0 + self.migrations.random.within(MS, longest.as_nanos() as u64));
        let at = *self.migrations.begins.entry(record.volume).or_insert(pause);
        if now < at {
            return;
        }
        // One takes the key at a time.
        self.migrations.begins.insert(record.volume, Time(now.0 + 40 * MS));
        let owner = self.record_of(&record.name).and_then(|target| target.owner);
        let source = self.record_of(&record.of).and_then(|source| source.owner);
        let first = self.setup.gateways();
        let may = |member: &Member| {
            self.nodes[*member].is_up()
                && self.nodes[*member].frozen_until <= now
                && owner != Some(node_id(*member))
                && self.metadata.reaches(now, node_id(*member))
        };
        let mut free: Vec<Member> = (first..self.nodes.len()).filter(may).collect();
        if free.iter().any(|member| source != Some(node_id(*member))) {
            free.retain(|member| source != Some(node_id(*member)));
        }
        if free.is_empty() {
            return;
        }
        let member = *self.migrations.random.pick(&free);
        self.migrations.serial += 1;
        let serial = self.migrations.serial;
        let begins = Begins {
            volume: record.volume,
            value: super::records::json(&serial),
            short_holds: self.migrations.setup.short_holds,
        };
        let handle = Handle::start(clock(now), move |line| mover::run(line, &begins));
        self.tell(|| {
            format!(
                "mover {serial} at node {} takes up volume {}",
                member + 1,
                record.volume
            )
        });
        self.migrations.movers.push(Mover {
            member,
            process: self.nodes[member].process,
            serial,
            volume: record.volume,
            handle,
            wait: Wait::Nothing,
            open: BTreeMap::new(),
        });
    }

    /// Does what is due for one; `false`: it has ended.
    fn play_mover(&mut self, now: Time, mover: &mut Mover) -> Result<bool, String> {
        loop {
            let node = &self.nodes[mover.member];
            if node.process != mover.process || !node.is_up() {
                self.coverage.hit("migrate.mover_died");
                self.tell(|| format!("mover {} is gone with its node", mover.serial));
                return Ok(false);
            }
            if node.frozen_until > now {
                return Ok(true);
            }
            self.hear_mover(now, mover);
            let answer = match &mut mover.wait {
                Wait::Nothing => {
                    if !self.pump(now, mover)? {
                        return Ok(false);
                    }
                    continue;
                }
                Wait::Calling(at, call) if *at <= now => {
                    let call = std::mem::take(&mut **call);
                    mover.wait = Wait::Txn;
                    self.send_for_mover(now, mover, call);
                    return Ok(true);
                }
                Wait::Calling(..) | Wait::Txn | Wait::Far => return Ok(true),
                Wait::Rest(at) if *at <= now => Answer::Rested,
                Wait::Rest(_) => return Ok(true),
                Wait::Opening { until, .. } if *until <= now => {
                    Answer::Opened(Err("it was not opened in time".to_owned()))
                }
                Wait::Opening { .. } => return Ok(true),
                Wait::Io {
                    left, failed, brought, ..
                } if *left == 0 => {
                    let all = brought.drain(..).flatten().collect();
                    Answer::Io(failed.take().map_or(Ok(all), Err))
                }
                Wait::Io { until, .. } if *until <= now => Answer::Io(Err("its I/O does not end".to_owned())),
                Wait::Io { .. } => return Ok(true),
            };
            mover.handle.answer(clock(now), answer);
            if !self.pump(now, mover)? {
                return Ok(false);
            }
        }
    }

    fn send_for_mover(&mut self, now: Time, mover: &Mover, mut call: Call) {
        self.setup.plants.metadata.strip_of_mover(&mut call);
        let serial = mover.serial;
        self.tell(|| format!("mover {serial}: {}", super::records::describe(&call)));
        self.metadata
            .call(now, node_id(mover.member), mover.process, Caller::Mover(serial), call);
    }

    /// The metadata has answered a mover.
    pub(super) fn mover_was_told(
        &mut self,
        now: Time,
        serial: u64,
        result: Result<Reply, Error>,
    ) -> Result<(), String> {
        let place = self.migrations.movers.iter().position(|mover| mover.serial == serial);
        let Some(place) = place else { return Ok(()) };
        let mut mover = self.migrations.movers.swap_remove(place);
        if let Err(why) = &result {
            self.coverage.hit("migrate.unanswered");
            self.tell(|| format!("mover {serial}: {why}"));
        }
        mover.handle.answer(clock(now), Answer::Txn(result));
        if self.pump(now, &mut mover)? {
            self.migrations.movers.push(mover);
        }
        Ok(())
    }

    /// What a mover wants next; `false`: it has ended.
    fn pump(&mut self, now: Time, mover: &mut Mover) -> Result<bool, String> {
        loop {
            match mover.handle.next()? {
                Ask::Txn(call) => {
                    let late = self.migrations.setup.slow_calls.as_nanos() as u64;
                    let late = if late > 0 {
                        self.migrations.random.below(late)
                    } else {
                        0
                    };
                    mover.wait = Wait::Calling(Time(now.0 + late), call);
                    self.trouble_mover(now, mover);
                    return Ok(true);
                }
                Ask::Rest(time) => {
                    mover.wait = Wait::Rest(now.plus(time));
                    return Ok(true);
                }
                Ask::Open(end, name, since) => {
                    self.open_for_mover(now, mover, end, name, since);
                    return Ok(true);
                }
                Ask::Io(end, pieces) => {
                    self.ask_for_mover(now, mover, end, pieces);
                    self.trouble_mover(now, mover);
                    return Ok(true);
                }
                Ask::Close(end) => self.close_for_mover(mover, end),
                Ask::Tell(what) => self.tell(|| what),
                Ask::Hit(path) => {
                    self.coverage.hit(path);
                    if path == "migrate.held" && self.migrations.setup.hosts_go {
                        self.deafen_owner(now, mover);
                    }
                }
                Ask::WritesAll => {
                    let records = self.moving_records();
                    let record = records.iter().find(|record| record.volume == mover.volume);
                    let volume = record.and_then(|record| self.number_of(record.source));
                    self.migrations.written_anew.extend(volume);
                    self.coverage.hit("migrate.written_anew");
                }
                Ask::Far(ask) => {
                    mover.wait = Wait::Far;
                    self.migrations.outbox.push((mover.serial, now, Out::Far(ask)));
                    return Ok(true);
                }
                Ask::Did(did) => self.migrations.outbox.push((mover.serial, now, Out::Did(did))),
                Ask::Ended(why) => {
                    for end in mover.open.keys().copied().collect::<Vec<End>>() {
                        self.close_for_mover(mover, end);
                    }
                    let serial = mover.serial;
                    self.tell(|| format!("mover {serial} ends: {why:?}"));
                    match mover.is_of_mirror() {
                        true => self.migrations.outbox.push((serial, now, Out::Ended(why))),
                        false => self.coverage.add("migrate.left", u64::from(why.is_some())),
                    }
                    return Ok(false);
                }
            }
        }
    }

    fn open_for_mover(&mut self, now: Time, mover: &mut Mover, end: End, name: String, since: Option<String>) {
        self.close_for_mover(mover, end);
        let node = &mut self.nodes[mover.member];
        mover.wait = Wait::Opening {
            end,
            name: name.clone(),
            compares: since.is_some(),
            since: None,
            until: now.plus(OPEN_PATIENCE),
        };
        let Some((front, heard)) = node.attach(0) else {
            return;
        };
        node.ask(0, front, |service| match since {
            Some(since) => service.bases(front, 0, &name, vec![since], &Who::Program),
            None => service.open(front, 0, &name, &Who::Program),
        });
        let open = Open {
            front,
            heard,
            source: None,
            tags: 1,
            lost: None,
        };
        mover.open.insert(end, open);
        // Who opens a volume may take it over.
        self.hosts.has_moved |= end == End::Target;
    }

    fn close_for_mover(&mut self, mover: &mut Mover, end: End) {
        let Some(open) = mover.open.remove(&end) else { return };
        open.heard.borrow_mut().gone = true;
        let node = &mut self.nodes[mover.member];
        if node.process == mover.process {
            node.hang_up(0, open.front);
        }
    }

    fn ask_for_mover(&mut self, now: Time, mover: &mut Mover, end: End, pieces: Vec<Piece>) {
        let member = mover.member;
        let count = pieces.len();
        let open = mover.open.get_mut(&end);
        let open = open.filter(|open| open.lost.is_none() && open.source.is_some());
        let Some(open) = open else {
            mover.wait = Wait::Io {
                end,
                first: 0,
                brought: Vec::new(),
                failed: Some("it was lost".to_owned()),
                left: 0,
                until: now,
            };
            return;
        };
        let first = open.tags;
        open.tags += count as u64;
        let (front, source) = (open.front, open.source.expect("it was looked at"));
        for (tag, piece) in (first..).zip(pieces) {
            let (op, data) = match piece {
                Piece::Read { offset, length } => (Op::Read { offset, length }, Slice::default()),
                Piece::Clear { offset, length } => (Op::Clear { offset, length }, Slice::default()),
                Piece::Allocation { offset } => (Op::Allocation { offset }, Slice::default()),
                Piece::Differ { offset, since } => (Op::Differ { offset, since }, Slice::default()),
                Piece::ChangedChunks { offset, since } => (Op::ChangedChunks { offset, since }, Slice::default()),
                Piece::Write { offset, data } => {
                    let length = data.len() as u32;
                    (Op::Write { offset, length }, Slice::copy_from(&data))
                }
            };
            self.nodes[member].ask(0, front, |service| service.submit(front, tag, source, op, data));
        }
        mover.wait = Wait::Io {
            end,
            first,
            brought: (0..count).map(|_| None).collect(),
            failed: None,
            left: count,
            until: now.plus(STALL),
        };
    }

    /// What has come of what it waits for.
    fn hear_mover(&mut self, now: Time, mover: &mut Mover) {
        let (Wait::Opening { end, .. } | Wait::Io { end, .. }) = &mover.wait else {
            return;
        };
        let end = *end;
        loop {
            let open = mover.open.get_mut(&end);
            let Some(event) = open.and_then(|open| open.heard.borrow_mut().events.pop_front()) else {
                return;
            };
            match event {
                Event::Bases { result, .. } => {
                    let found = match result {
                        Ok(bases) => bases
                            .snapshots
                            .first()
                            .map(|(_, number)| *number)
                            .ok_or("no base".to_owned()),
                        Err(why) => Err(why.to_string()),
                    };
                    let Some(open) = mover.open.get(&end) else { return };
                    let front = open.front;
                    let Wait::Opening { name, since, .. } = &mut mover.wait else {
                        continue;
                    };
                    match found {
                        Ok(number) => {
                            *since = Some(number);
                            let name = name.clone();
                            self.nodes[mover.member]
                                .ask(0, front, |service| service.open(front, 0, &name, &Who::Program));
                        }
                        Err(why) => return self.opened_for_mover(now, mover, Err(why)),
                    }
                }
                Event::Opened { result, .. } => {
                    let Wait::Opening { since, compares, .. } = mover.wait else {
                        continue;
                    };
                    let opened = match result {
                        Ok(info) => {
                            if let Some(open) = mover.open.get_mut(&end) {
                                open.source = Some(info.source());
                            }
                            Ok(Opened {
                                size_bytes: info.size_bytes,
                                chunk_bytes: info.chunk_bytes.into(),
                                since: since.filter(|_| compares),
                            })
                        }
                        Err(why) => Err(why.to_string()),
                    };
                    return self.opened_for_mover(now, mover, opened);
                }
                Event::Lost { why, .. } => {
                    if let Some(open) = mover.open.get_mut(&end) {
                        open.lost = Some(why);
                    }
                }
                Event::Done { tag, result, payload } => {
                    let Wait::Io {
                        first,
                        brought,
                        failed,
                        left,
                        ..
                    } = &mut mover.wait
                    else {
                        continue;
                    };
                    let place = tag.checked_sub(*first).map(|place| place as usize);
                    let Some(slot) = place
                        .and_then(|place| brought.get_mut(place))
                        .filter(|slot| slot.is_none())
                    else {
                        continue;
                    };
                    *left -= 1;
                    *slot = Some(match payload {
                        Payload::Data(data) => Brought::Bytes(data.to_vec()),
                        Payload::Zeros(length) => Brought::Bytes(vec![0; length as usize]),
                        Payload::Differs(differs) => Brought::Differs(differs),
                        Payload::Allocation(words) => Brought::Differs(Box::new(Differs {
                            changed: *words,
                            allocated: *words,
                        })),
                        Payload::None => Brought::Nothing,
                    });
                    if let Err(why) = result {
                        failed.get_or_insert(why.to_string());
                    }
                }
                _ => {}
            }
        }
    }

    fn opened_for_mover(&mut self, now: Time, mover: &mut Mover, opened: Result<Opened, String>) {
        if let Err(why) = &opened {
            self.tell(|| format!("mover {}: {why}", mover.serial));
        }
        // Answered by who has called.
        mover.handle.answer(clock(now), Answer::Opened(opened));
        mover.wait = Wait::Nothing;
    }

    /// Something goes wrong with it, or with the owner of what it moves, in this moment.
    fn trouble_mover(&mut self, now: Time, mover: &Mover) {
        let per_mille = self.migrations.setup.trouble_per_mille;
        let random = &mut self.migrations.random;
        if self.migrations.ended || random.below(1000) >= per_mille {
            return;
        }
        let short = random.within(5 * MS, 300 * MS);
        let long = random.within(300 * MS, 3000 * MS);
        let kind = random.below(11);
        let records = self.moving_records();
        let record = records.iter().find(|record| record.volume == mover.volume);
        let owner = record.and_then(|record| self.record_of(&record.of)?.owner);
        let owner = owner.map_or(0, |owner| owner.0 as usize - 1);
        let own = mover.member;
        let fault = match kind {
            0 | 1 => Fault::Kill {
                node: own,
                for_ns: short,
            },
            2 => Fault::Freeze {
                node: own,
                for_ns: long,
            },
            3 => Fault::MetadataCutOff {
                node: own,
                for_ns: long,
            },
            4 => Fault::Kill {
                node: owner,
                for_ns: short,
            },
            5 => Fault::PowerCut {
                node: owner,
                for_ns: short,
            },
            6 => Fault::Freeze {
                node: owner,
                for_ns: long,
            },
            7 => Fault::MetadataCutOff {
                node: owner,
                for_ns: long,
            },
            8 => Fault::WatchLate {
                node: owner,
                for_ns: long,
            },
            9 => Fault::MetadataAway { for_ns: short },
            _ => Fault::MetadataLossy {
                percent: 30,
                for_ns: short,
            },
        };
        self.coverage.hit("migrate.trouble");
        self.inject_one(now, fault);
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

    /// Who owns what moves hears of no change for a while.
    fn deafen_owner(&mut self, now: Time, mover: &Mover) {
        let records = self.moving_records();
        let record = records.iter().find(|record| record.volume == mover.volume);
        let owner = record.and_then(|record| self.record_of(&record.of)?.owner);
        if let Some(owner) = owner.filter(|_| !self.migrations.ended) {
            let for_ns = self.migrations.random.within(100 * MS, 600 * MS);
            let node = owner.0 as usize - 1;
            self.inject_one(now, Fault::WatchLate { node, for_ns });
        }
    }

    /// All that were taken are there, by their numbers and names. Marks need not be.
    fn judge_moved_snapshots(&mut self, volume: u64, record: &map::Volume) -> Result<(), String> {
        let state = self.metadata.state();
        let found = |number: SnapshotId| {
            let found = state.get(&map::snapshot_key(record.id, number))?;
            found.json::<map::Snapshot>().ok()
        };
        for taken in self.snapshots.taken.iter().filter(|taken| taken.volume == volume) {
            let there = found(taken.number);
            if there.as_ref().is_none_or(|there| there.name != taken.name) {
                return Err(format!(
                    "{} has moved, and of its snapshot {} ({}) there is {there:?}",
                    record.name, taken.number, taken.name
                ));
            }
        }
        let gone: Vec<SnapshotId> = self
            .snapshots
            .marked
            .iter()
            .filter(|marked| marked.volume == volume && found(marked.number).is_none())
            .map(|marked| marked.number)
            .collect();
        let kept = self.snapshots.taken.iter().filter(|taken| taken.volume == volume);
        let kept = kept.count() as u64;
        self.snapshots
            .marked
            .retain(|marked| marked.volume != volume || !gone.contains(&marked.number));
        self.coverage.add("migrate.snapshots", kept);
        Ok(())
    }

    /// Moves that are under way come to their end, now that nothing is wrong any more, and nothing is left of them.
    pub(super) fn end_migrations(&mut self) -> Result<(), String> {
        self.migrations.ended = true;
        if !self.migrations.is_on() {
            return Ok(());
        }
        for record in self.moving_records().iter().filter(|record| record.paused.is_some()) {
            let now = self.world.now();
            let desk = Desk::new(&mut self.metadata, now);
            admin::pause_copy(&desk, record.volume, None).map_err(|why| format!("a move does not go on: {why}"))?;
        }
        let limit = self.world.now().plus(ENDS);
        while !self.moving_records().is_empty() {
            self.take_back_stalled()?;
            if self.world.now() >= limit {
                if self.may_block_at_all() || self.ledger.is_anything_damaged() {
                    self.coverage.hit("migrate.waits");
                    return Ok(());
                }
                return Err(format!(
                    "nothing is wrong any more, and after {ENDS:?} these moves have not ended: {:?}\n{}",
                    self.moving_records(),
                    self.describe()
                ));
            }
            self.step(limit)?;
        }
        self.coverage.hit("migrate.all_ended");
        self.judge_left_over()
    }

    /// A number of the target that came to nothing stays used (S1), and the move says that it is to be begun anew.
    fn take_back_stalled(&mut self) -> Result<(), String> {
        for record in self.moving_records() {
            let is_used_up = record
                .ails
                .as_ref()
                .is_some_and(|why| why.contains("is used up where it is to be"));
            if is_used_up && !record.cancelled {
                let now = self.world.now();
                let desk = Desk::new(&mut self.metadata, now);
                admin::cancel_copy(&desk, record.volume).map_err(|why| why.to_string())?;
                self.coverage.hit("migrate.used_up");
            }
        }
        Ok(())
    }

    /// Nothing is left of moves that have ended.
    fn judge_left_over(&self) -> Result<(), String> {
        for kv in self.metadata.state().keys() {
            let is_volume = kv.key.starts_with(&map::volume_key(""));
            if is_volume {
                let volume: map::Volume = kv.json().map_err(|why| why.to_string())?;
                if map::is_moving_name(&volume.name) {
                    return Err(format!("all moves have ended, and there is a target: {volume:?}"));
                }
                if volume.lineage.moving.is_some() && !volume.is_former() {
                    return Err(format!("all moves have ended, and one says that it moves: {volume:?}"));
                }
            }
            if kv.key.starts_with("/amita/snapshots/") {
                let snapshot: map::Snapshot = kv.json().map_err(|why| why.to_string())?;
                let is_of_moves =
                    snapshot.labels.contains_key(admin::COPY_LABEL) || snapshot.labels.contains_key(admin::POINT_LABEL);
                let is_former = self
                    .metadata
                    .state()
                    .get(&map::volume_key(&map::hidden_name(snapshot.volume)))
                    .is_some();
                if is_of_moves && !is_former && !self.is_void(&snapshot) {
                    return Err(format!(
                        "all moves have ended, and there is a snapshot of one: {snapshot:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// One whose number was raised over stays until its name is taken again (S1): nobody sees it.
    fn is_void(&self, snapshot: &map::Snapshot) -> bool {
        let SnapshotState::Taking(generation) = snapshot.state else {
            return false;
        };
        let records = self.metadata.state().keys();
        let mut volumes = records.filter(|kv| kv.key.starts_with(&map::volume_key("")));
        volumes
            .find_map(|kv| {
                kv.json::<map::Volume>()
                    .ok()
                    .filter(|found| found.id == snapshot.volume)
            })
            .is_some_and(|found| found.generation > generation && !found.lineage.taking)
    }

    /// Nobody holds any more, and nobody is slowed, when all was read in the end.
    pub(super) fn judge_holds(&mut self) -> Result<(), String> {
        let mut cores = self.nodes.iter().flat_map(|node| node.each_core());
        if cores.any(|core| core.waited_for_moves() > 0) {
            self.coverage.hit("migrate.waited");
        }
        let all_ended = self.migrations.is_on() && self.moving_records().is_empty();
        for (member, node) in self.nodes.iter().enumerate().filter(|_| all_ended) {
            if node.each_core().any(amita_node::Core::slows_hosts) && self.blocked.is_empty() {
                return Err(format!(
                    "all moves have ended, and node {} slows hosts of a volume",
                    member + 1
                ));
            }
        }
        for volume in 0..self.setup.volumes {
            let record = self.volume(volume)?;
            if self.migrations.is_on() && self.blocked.is_empty() && record.lineage.held {
                return Err(format!("all was read, and {} is held: {record:?}", record.name));
            }
        }
        Ok(())
    }
}
