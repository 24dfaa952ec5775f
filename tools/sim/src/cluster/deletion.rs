//! Volumes that pass: made, written, and deleted during the run, some of them while their writer goes on; some get another name
//! first, or are deleted for a time and had back, and then all that was acknowledged is there. And stores whose data moves away and
//! back. In the end nothing of what is gone is left on any store (rule R13).
//!
//! What each node's keeper does is done here in virtual time: the ledger follows the node's watch, and what it says reaches the stores
//! in order, and late. The operator who deletes is [`amita_control::admin::Deletion`], as it is.

use super::node::{Node, node_id, store_id};
use super::records::json;
use super::session::Heard;
use super::setup::Setup;
use super::{Cluster, pool_name};
use crate::excuse::Excuse;
use crate::faults::Member;
use crate::metadata::Metadata;
use crate::random::Random;
use amita_control::admin::{self, AdminError, Deletion, Fate};
use amita_control::ledger::{Ledger, News};
use amita_frontend::{Event, FrontId, Who};
use amita_metadata::{Batch, Call, Event as Changed, Reply, Transact};
use amita_node::control::ToCore;
use amita_reactor::{Slice, Time};
use amita_types::holdings::Holdings;
use amita_types::io::{Op, Payload};
use amita_types::map::{self, StoreDuty};
use amita_types::{BLOCK_BYTES, ChunkId, PoolId, StoreId, VolumeId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Stores have given everything back so long after nothing is wrong any more.
const GIVEN_BACK: Duration = Duration::from_secs(60);
/// Between two looks of the operator at a deletion under way, and his patience.
const LOOK: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a volume is kept that is to be had back, in seconds.
const A_DAY: u64 = 86_400;
/// Before a guest tries again to open its volume.
const RETRY: Duration = Duration::from_millis(40);
/// I/O that a guest has under way.
const DEPTH: usize = 3;
/// The tags of reads: this and the block.
const READ: u64 = 1 << 32;

/// What a run has of them.
#[derive(Clone, Debug, Default)]
pub struct Passers {
    /// Volumes that are made, and deleted but for the last.
    pub volumes: u32,
    /// How often a store's data moves away; at the next turn it may come back.
    pub drains: u32,
    /// The longest that a store is told late what it may hold.
    pub late_ns: u64,
}

impl Passers {
    /// Drawn from chance of its own.
    #[must_use]
    pub fn draw(seed: u64) -> Passers {
        let mut random = Random::new(seed).fork(40);
        match random.below(3) {
            0 => Passers::default(),
            _ => Passers {
                volumes: random.within(1, 6) as u32,
                // Only in scenarios: in one run of a hundred with a drain a write waits for credits for ever, or fails for want of
                // them, which is a known fault of its own.
                drains: 0,
                late_ns: *random.pick(&[1_000_000, 100_000_000, 3_000_000_000]),
            },
        }
    }
}

/// The volumes that pass, and who uses them.
pub struct Passing {
    setup: Passers,
    random: Random,
    /// What becomes of volumes before they go, of chance of its own.
    fates: Random,
    next: Option<Time>,
    made: u32,
    guests: Vec<Guest>,
    /// What the nodes' keepers know.
    keepers: Vec<Keeper>,
    draining: Option<StoreId>,
}

/// When a process is told what, of which of its stores.
type Told = (Time, u64, Option<Arc<Holdings>>, Vec<StoreId>);

struct Keeper {
    ledger: Ledger,
    told: VecDeque<Told>,
}

/// What becomes of a volume at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It gets another name.
    Rename,
    /// It is deleted for a time, and had back, perhaps under another name, or gone for good.
    Recycle { back: bool, rename: bool },
    /// It is gone for good.
    Purge,
}

/// Somebody who writes to a volume that passes.
struct Guest {
    name: String,
    /// How often it got another name.
    names: u32,
    /// What becomes of it, in order.
    turns: VecDeque<Turn>,
    /// It is deleted, and had back or gone for good at this moment.
    kept: Option<(Time, VolumeId, Turn)>,
    /// What was acknowledged; nothing of it is ever overwritten by anything else.
    written: BTreeSet<u64>,
    /// What is to be looked at again.
    unread: Vec<u64>,
    blocks: u64,
    at: Option<Seat>,
    /// The gateway that he uses.
    gateway: Member,
    open: Option<VolumeId>,
    again: Time,
    under_way: usize,
    writes: u64,
    /// He stays when the operator comes.
    stays: bool,
    delete_at: Time,
    deletion: Option<(Deletion, Time, Time)>,
    /// The operator was told that it is deleted, and its owner has said that it serves it no more.
    deleted: bool,
}

struct Seat {
    process: u64,
    front: FrontId,
    heard: Rc<RefCell<Heard>>,
}

/// The operator's way to the metadata: at once, whatever the nodes' ways are like.
struct Operator<'a>(RefCell<(&'a mut Metadata<super::Caller>, Time)>);

impl Transact for Operator<'_> {
    fn txn(&self, call: &Call) -> Result<Reply, amita_metadata::Error> {
        let (metadata, now) = &mut *self.0.borrow_mut();
        Ok(metadata.operate(*now, call))
    }
}

impl Passing {
    /// Those of a setup.
    pub fn new(setup: &Setup, mut random: Random) -> Passing {
        let passers = setup.passers.clone();
        let begins = passers.volumes + passers.drains > 0;
        let first = Time(random.within(1_000_000, 400_000_000));
        Passing {
            setup: passers,
            fates: random.fork(1),
            random,
            next: begins.then_some(first),
            made: 0,
            guests: Vec::new(),
            keepers: (0..setup.nodes).map(|_| Keeper::new()).collect(),
            draining: None,
        }
    }

    /// When something is next due.
    pub fn next(&self) -> Option<Time> {
        let guests = self.guests.iter().filter_map(Guest::next);
        let told = self.keepers.iter().filter_map(|keeper| keeper.told.front());
        let told = told.map(|(at, ..)| *at);
        guests.chain(told).chain(self.next).min()
    }

    /// The process of a node begins: it knows nothing.
    pub fn node_starts(&mut self, member: Member) {
        self.keepers[member] = Keeper::new();
    }

    /// Nothing more comes.
    pub fn stop(&mut self) {
        self.next = None;
    }

    /// Does anything wait for its end?
    pub fn is_busy(&self) -> bool {
        let is_busy = |guest: &Guest| guest.kept.is_some() || !guest.deleted && guest.delete_at < NEVER;
        self.guests.iter().any(is_busy)
    }
}

const NEVER: Time = Time(u64::MAX);

impl Keeper {
    fn new() -> Keeper {
        Keeper {
            ledger: Ledger::new(super::node::CLUSTER),
            told: VecDeque::new(),
        }
    }
}

impl Guest {
    fn next(&self) -> Option<Time> {
        let acts = match (self.deleted, &self.at) {
            (true, _) | (_, Some(_)) => None,
            (false, None) => Some(self.again),
        };
        let deletes = match &self.deletion {
            Some((_, at, _)) => Some(*at),
            None if self.deleted || self.delete_at == NEVER => None,
            None => Some(self.delete_at),
        };
        let deletes = self.kept.map(|(at, ..)| at).or(deletes);
        acts.into_iter().chain(deletes).min()
    }
}

impl Cluster {
    /// Everything about volumes that pass which is due.
    pub(super) fn pass_volumes(&mut self, now: Time) -> Result<(), String> {
        for member in 0..self.nodes.len() {
            self.tell_stores(now, member);
        }
        if self.passing.next.is_some_and(|at| at <= now) {
            self.next_passer(now);
        }
        for guest in 0..self.passing.guests.len() {
            self.act_guest(now, guest)?;
            self.delete_for_guest(now, guest)?;
        }
        Ok(())
    }

    /// A node's watch has told something.
    pub(super) fn keeper_hears(&mut self, now: Time, member: Member, batch: &Batch) {
        let keeper = &mut self.passing.keepers[member];
        for event in &batch.events {
            match event {
                Changed::Put(kv) => keeper.ledger.note(&kv.key, Some(&kv.value), kv.mod_revision),
                Changed::Delete { key, mod_revision } => keeper.ledger.note(key, None, *mod_revision),
            }
        }
        keeper.ledger.seen();
        if let Some(news) = keeper.ledger.take_news() {
            self.coverage.hit(match news {
                News::Deleted => "space.deletion_heard",
                News::Group => "space.move_heard",
            });
            let stores = self.nodes[member].serving.clone();
            self.hold(now, member, stores);
        }
    }

    /// These stores are to be told what they may hold: in order, and late.
    pub(super) fn hold(&mut self, now: Time, member: Member, stores: Vec<StoreId>) {
        let late = self.passing.random.below(self.passing.setup.late_ns + 1);
        let keeper = &mut self.passing.keepers[member];
        let holdings = keeper.ledger.holdings().map(Arc::new);
        let before = keeper.told.back().map_or(Time(0), |(at, ..)| *at);
        let at = before.max(Time(now.0 + late));
        let process = self.nodes[member].process;
        keeper.told.push_back((at, process, holdings, stores));
    }

    fn tell_stores(&mut self, now: Time, member: Member) {
        while let Some((at, ..)) = self.passing.keepers[member].told.front()
            && *at <= now
        {
            let (_, process, holdings, stores) = self.passing.keepers[member].told.pop_front().expect("looked at");
            let node = &mut self.nodes[member];
            if node.process != process {
                continue;
            }
            let stores: Arc<[StoreId]> = stores.into();
            for core in 0..node.cores() {
                let (holdings, stores) = (holdings.clone(), stores.clone());
                node.control(core, ToCore::Hold { holdings, stores });
            }
        }
    }

    /// The next volume comes, or the next store's data moves.
    fn next_passer(&mut self, now: Time) {
        let passing = &mut self.passing;
        let pause = passing.random.within(20_000_000, 600_000_000);
        passing.next = (passing.setup.volumes + passing.setup.drains > 0).then_some(Time(now.0 + pause));
        if passing.setup.drains > 0 && (passing.setup.volumes == 0 || passing.random.percent(40)) {
            passing.setup.drains -= 1;
            return self.drain(now);
        }
        if passing.setup.volumes == 0 {
            return;
        }
        passing.setup.volumes -= 1;
        passing.made += 1;
        let name = format!("passing-{}", passing.made);
        let pool = PoolId(passing.random.within(1, u64::from(self.setup.pools)) as u32);
        let per_chunk = u64::from(self.setup.chunk_bytes / BLOCK_BYTES);
        let blocks = per_chunk * passing.random.within(1, 4);
        let stays = passing.random.percent(40);
        let last = passing.setup.volumes == 0 && passing.random.percent(50);
        let lives = passing.random.within(20_000_000, 1_500_000_000);
        let operator = Operator(RefCell::new((&mut self.metadata, now)));
        let made = admin::create_volume(&operator, &name, &pool_name(pool), blocks * u64::from(BLOCK_BYTES));
        made.expect("nobody else has the name");
        self.coverage.hit("space.volume_made");
        let gateway = self.passing.random.below(self.nodes.len() as u64) as usize;
        let fates = &mut self.passing.fates;
        let mut turns = VecDeque::new();
        for _ in 0..fates.below(3) {
            turns.push_back(match fates.percent(40) {
                true => Turn::Rename,
                false => Turn::Recycle {
                    back: true,
                    rename: fates.percent(30),
                },
            });
        }
        turns.push_back(match fates.percent(30) {
            true => Turn::Recycle {
                back: false,
                rename: false,
            },
            false => Turn::Purge,
        });
        self.passing.guests.push(Guest {
            name,
            names: 0,
            turns,
            kept: None,
            written: BTreeSet::new(),
            unread: Vec::new(),
            blocks,
            at: None,
            gateway,
            open: None,
            again: now,
            under_way: 0,
            writes: 0,
            stays,
            delete_at: if last { NEVER } else { Time(now.0 + lives) },
            deletion: None,
            deleted: false,
        });
    }

    /// The data of a store moves away, or (of the one whose did before) may come back.
    fn drain(&mut self, now: Time) {
        let (store, duty) = match self.passing.draining.take() {
            Some(store) => (store, StoreDuty::Normal),
            None => {
                let member = self.passing.random.below(self.nodes.len() as u64) as usize;
                let place = self.passing.random.below(self.setup.stores as u64) as usize;
                let store = store_id(member, place);
                self.passing.draining = Some(store);
                (store, StoreDuty::Draining)
            }
        };
        self.set_store_duty(now, store, duty);
    }

    fn set_store_duty(&mut self, now: Time, store: StoreId, duty: StoreDuty) {
        let key = map::store_key(store);
        let record = self.metadata.state().get(&key).expect("it was registered");
        let mut record: map::Store = record.json().expect("it was written by us");
        record.duty = duty;
        self.tell(|| format!("store {store} is {duty:?}"));
        self.metadata.operate(now, &Call::put(key, json(&record)));
        self.coverage.hit("space.drained");
    }

    /// What a guest hears, opens and writes.
    fn act_guest(&mut self, now: Time, index: usize) -> Result<(), String> {
        let guest = &mut self.passing.guests[index];
        if let Some(seat) = &guest.at {
            let node = &self.nodes[guest.gateway];
            if node.process != seat.process || !node.is_up() {
                guest.leave(now);
            }
        }
        while let Some(event) = guest
            .at
            .as_ref()
            .and_then(|seat| seat.heard.borrow_mut().events.pop_front())
        {
            match event {
                Event::Opened { result: Ok(info), .. } => {
                    guest.open = Some(info.id);
                    guest.unread = guest.written.iter().copied().collect();
                }
                Event::Opened { result: Err(_), .. } | Event::Lost { .. } => {
                    guest.hang_up(now, &mut self.nodes);
                    break;
                }
                Event::Done { tag, result, payload } if tag >= READ => {
                    guest.under_way = guest.under_way.saturating_sub(1);
                    let is_right = match payload {
                        Payload::Data(data) => data.iter().all(|byte| *byte == index as u8 + 1),
                        _ => false,
                    };
                    if result.is_ok() && !is_right {
                        let (block, name) = (tag - READ, &guest.name);
                        return Err(format!(
                            "block {block} of {name} was acknowledged, and reads as something else"
                        ));
                    }
                    self.coverage.add("space.guest_read", u64::from(result.is_ok()));
                }
                Event::Done { tag, result, .. } => {
                    guest.under_way = guest.under_way.saturating_sub(1);
                    if result.is_ok() {
                        guest.written.insert(tag);
                    }
                    if result.is_ok() && guest.deleted {
                        return Err(format!(
                            "a write to {} was acknowledged after the operator had been told that it is deleted",
                            guest.name
                        ));
                    }
                    self.coverage.add("space.guest_wrote", u64::from(result.is_ok()));
                    guest.writes += u64::from(result.is_ok());
                }
                Event::Listed { .. }
                | Event::Bases { .. }
                | Event::Reserved { .. }
                | Event::Register { .. }
                | Event::Computed { .. }
                | Event::Settings
                | Event::Trust => {}
            }
        }
        let guest = &mut self.passing.guests[index];
        if guest.deleted {
            return Ok(());
        }
        if guest.at.is_none() && now >= guest.again {
            let up: Vec<Member> = (0..self.nodes.len())
                .filter(|member| self.nodes[*member].is_up())
                .collect();
            if !self.nodes[guest.gateway].is_up() && !up.is_empty() {
                guest.gateway = *self.passing.random.pick(&up);
            }
            let node = &mut self.nodes[guest.gateway];
            match node.attach(0) {
                Some((front, heard)) => {
                    let process = node.process;
                    node.ask(0, front, |service| service.open(front, 0, &guest.name, &Who::Program));
                    guest.at = Some(Seat { process, front, heard });
                }
                None => guest.again = now.plus(RETRY),
            }
        }
        if let (Some(seat), Some(volume)) = (&guest.at, guest.open) {
            while guest.under_way < DEPTH
                && let Some(block) = guest.unread.pop()
            {
                guest.under_way += 1;
                let op = Op::Read {
                    offset: block * u64::from(BLOCK_BYTES),
                    length: BLOCK_BYTES,
                };
                let front = seat.front;
                self.nodes[guest.gateway].ask(0, front, |service| {
                    service.submit(front, READ + block, volume.into(), op, Slice::default())
                });
            }
            while guest.under_way < DEPTH && guest.writes < 6 * guest.blocks {
                guest.under_way += 1;
                let block = self.passing.random.below(guest.blocks);
                let op = Op::Write {
                    offset: block * u64::from(BLOCK_BYTES),
                    length: BLOCK_BYTES,
                };
                let data = Slice::copy_from(&vec![index as u8 + 1; BLOCK_BYTES as usize]);
                let front = seat.front;
                self.nodes[guest.gateway].ask(0, front, |service| {
                    service.submit(front, block, volume.into(), op, data)
                });
            }
        }
        Ok(())
    }

    /// The operator deletes the volume of a guest, when its time has come.
    fn delete_for_guest(&mut self, now: Time, index: usize) -> Result<(), String> {
        if self.passing.guests[index].kept.is_some() {
            return self.end_keeping(now, index);
        }
        let guest = &mut self.passing.guests[index];
        if guest.deleted || now < guest.delete_at {
            return Ok(());
        }
        let turn = guest.turns.front().copied().unwrap_or(Turn::Purge);
        if guest.deletion.is_none() {
            if !guest.stays {
                guest.hang_up(now, &mut self.nodes);
                guest.again = NEVER;
            }
            let fate = match turn {
                Turn::Rename => Fate::Rename { to: guest.next_name() },
                // Whoever purges what is due purges that of others too.
                Turn::Recycle { back, .. } => Fate::Recycle {
                    deleted_at: seconds(now),
                    purge_at: seconds(now) + if back { A_DAY } else { 0 },
                },
                Turn::Purge => Fate::Purge {
                    snapshots: true,
                    now: seconds(now),
                },
            };
            let deletion = Deletion::of(&guest.name, guest.stays, fate);
            guest.deletion = Some((deletion, now, now.plus(PATIENCE)));
        }
        let Some((mut deletion, at, until)) = guest.deletion.take() else {
            return Ok(());
        };
        if now < at {
            guest.deletion = Some((deletion, at, until));
            return Ok(());
        }
        let operator = Operator(RefCell::new((&mut self.metadata, now)));
        let step = match deletion.step(&operator) {
            Ok(None) if now < until => {
                guest.deletion = Some((deletion, now.plus(LOOK), until));
                return Ok(());
            }
            Ok(None) => deletion.give_up(&operator).map(Some),
            step => step,
        };
        match step {
            Ok(Some(_)) if turn == Turn::Rename => {
                guest.turns.pop_front();
                guest.name = guest.next_name();
                guest.names += 1;
                guest.again = now;
                guest.delete_at = now.plus(Duration::from_nanos(
                    self.passing.fates.within(20_000_000, 1_500_000_000),
                ));
                self.coverage.hit("space.renamed");
                let name = guest.name.clone();
                self.tell(|| format!("a volume is {name} now"));
            }
            Ok(Some(deleted)) => {
                if let Turn::Recycle { .. } = turn {
                    guest.turns.pop_front();
                    let until = now.plus(Duration::from_nanos(
                        self.passing.fates.within(1_000_000, 1_000_000_000),
                    ));
                    guest.kept = Some((until, deleted.volume.id, turn));
                    self.coverage.hit("space.recycled");
                }
                // A node that is gone, or says nothing, is not waited for.
                guest.deleted =
                    deleted.unheard.is_none() && !deleted.gone && deleted.volume.owner == Some(node_id(guest.gateway));
                self.coverage.hit(match guest.deleted {
                    true => "space.deleted_closed",
                    false => "space.deleted_unheard",
                });
                if !guest.deleted {
                    guest.hang_up(now, &mut self.nodes);
                    guest.deleted = true;
                }
                let name = guest.name.clone();
                self.tell(|| format!("{name} is deleted"));
            }
            // Tried again, by force: somebody uses it, or its owner is silent.
            Err(AdminError::InUse { .. } | AdminError::OwnerSilent { .. }) => {
                self.coverage.hit("space.deletion_refused");
                guest.stays = true;
                guest.delete_at = now.plus(LOOK);
            }
            Err(why) => return Err(format!("{} cannot be deleted: {why}", guest.name)),
            Ok(None) => unreachable!("it was given up"),
        }
        Ok(())
    }

    /// A volume that was deleted for a time is had back, or gone for good.
    fn end_keeping(&mut self, now: Time, index: usize) -> Result<(), String> {
        let guest = &mut self.passing.guests[index];
        let Some((_, volume, Turn::Recycle { back, rename })) = guest.kept.filter(|(at, ..)| *at <= now) else {
            return Ok(());
        };
        let operator = Operator(RefCell::new((&mut self.metadata, now)));
        if !back {
            let limit = Duration::from_secs(seconds(now));
            let purged = admin::purge_what_is_due(&operator, 1, limit);
            let purged = purged.map_err(|why| format!("nothing is purged: {why}"))?;
            if let Some((what, why)) = purged.failed.first() {
                return Err(format!("{what} cannot be purged: {why}"));
            }
            // Another one's turn may have been first.
            let is_there = admin::trash(&operator).map_err(|why| why.to_string())?;
            if !is_there.iter().any(|kept| kept.trashed.volume == volume) {
                guest.kept = None;
                self.coverage.hit("space.purged");
            }
            return Ok(());
        }
        let name = match rename {
            true => guest.next_name(),
            false => guest.name.clone(),
        };
        let undeleted = admin::undelete_volume(&operator, &volume.to_string(), Some(&name));
        undeleted.map_err(|why| format!("{name} cannot be had back: {why}"))?;
        guest.names += u32::from(rename);
        guest.name = name.clone();
        guest.kept = None;
        guest.deleted = false;
        guest.hang_up(now, &mut self.nodes);
        guest.again = now;
        guest.delete_at = now.plus(Duration::from_nanos(
            self.passing.fates.within(20_000_000, 1_500_000_000),
        ));
        self.coverage.hit("space.undeleted");
        self.tell(|| format!("{name} is there again"));
        Ok(())
    }

    /// Nothing is wrong any more: no store's data moves, and what is to be deleted is.
    pub(super) fn end_passing(&mut self) {
        let now = self.world.now();
        self.passing.stop();
        if let Some(store) = self.passing.draining.take() {
            self.set_store_duty(now, store, StoreDuty::Normal);
        }
        for guest in &mut self.passing.guests {
            if let Some((at, ..)) = &mut guest.kept {
                *at = now.min(*at);
            }
            if guest.delete_at < NEVER {
                guest.delete_at = guest.delete_at.min(now);
            }
        }
    }

    /// Those that there are still are deleted for good.
    pub(super) fn delete_passing(&mut self) {
        let now = self.world.now();
        for guest in self.passing.guests.iter_mut().filter(|guest| !guest.deleted) {
            guest.turns.clear();
            guest.delete_at = now;
        }
    }

    /// Is one being deleted?
    pub(super) fn is_passing(&self) -> bool {
        self.passing.is_busy()
    }

    /// Every store holds what the living explain, and nothing else, in bounded time.
    pub(super) fn judge_space(&mut self) -> Result<(), String> {
        let limit = self.world.now().plus(GIVEN_BACK);
        loop {
            let mut left = self.unexplained();
            let kept = self.kept_for_nothing();
            if kept.is_empty() && left.is_empty() && !self.passing.is_busy() && !self.is_cloning() {
                break;
            }
            if self.world.now() >= limit {
                // A state whose leaf has rotted waits for it.
                if left.is_empty()
                    && !self.passing.is_busy()
                    && kept.iter().all(|(node, _)| self.ledger.is_rotten(*node))
                {
                    for (node, _) in kept {
                        self.excuse(Excuse::DamagedCopy, None, node)?;
                    }
                    self.coverage.hit("space.leaf_wrong");
                    break;
                }
                left.extend(kept.into_iter().map(|(_, what)| what));
                return Err(format!(
                    "nothing is wrong any more, and after {GIVEN_BACK:?} stores hold what nobody needs: {:?}\n{}",
                    &left[..left.len().min(8)],
                    self.describe()
                ));
            }
            self.step(self.world.now().plus(Duration::from_millis(100)).min(limit))?;
        }
        let swept = self.nodes.iter().flat_map(Node::each_core);
        let counters = |store: &amita_store::Store| store.status().counters;
        let (swept, trimmed) = swept
            .flat_map(|core| core.stores().each())
            .map(counters)
            .fold((0, 0), |sum, counters| {
                (sum.0 + counters.swept, sum.1 + counters.trimmed)
            });
        self.coverage.add("space.swept", swept);
        self.coverage.add("space.trimmed", trimmed);
        self.coverage.hit("space.judged");
        Ok(())
    }

    /// Chunks on stores that no living volume explains, or whose group names the store in nothing.
    fn unexplained(&self) -> Vec<String> {
        let mut volumes: BTreeMap<VolumeId, PoolId> = BTreeMap::new();
        for kv in self
            .metadata
            .state()
            .keys()
            .filter(|kv| kv.key.starts_with(&map::volume_key("")))
        {
            let volume: map::Volume = kv.json().expect("it was written by the product");
            let pool = (1..=self.setup.pools)
                .map(PoolId)
                .find(|pool| pool_name(*pool) == volume.pool);
            volumes.insert(volume.id, pool.expect("a pool of the run"));
        }
        let mut left = Vec::new();
        for (member, node) in self.nodes.iter().enumerate() {
            for store in node.each_core().flat_map(|core| core.stores().each()) {
                let id = store.status().id;
                let serves = matches!(store.state(), amita_store::State::Serving);
                for chunk in store.held_chunks().filter(|_| serves) {
                    let Some(&pool) = volumes.get(&chunk.volume) else {
                        left.push(format!("{chunk} on {} (deleted)", node_id(member)));
                        continue;
                    };
                    let place = ChunkId {
                        volume: self.place_of(chunk.volume),
                        ..chunk
                    };
                    let index = place.group(self.setup.groups);
                    let group = self.group(amita_types::GroupId { pool, index });
                    let named = group.is_ok_and(|group| {
                        let syncing = group.syncing.iter().any(|syncing| syncing.store == id);
                        group.members.contains(&id) || group.in_sync.contains(&id) || syncing
                    });
                    if !named {
                        left.push(format!("{chunk} on {} (moved away)", node_id(member)));
                    }
                }
            }
        }
        left
    }
}

/// What an operator's clock says.
pub(super) fn seconds(now: Time) -> u64 {
    1_700_000_000 + now.0 / 1_000_000_000
}

impl Guest {
    /// The volume's next name.
    fn next_name(&self) -> String {
        let (base, _) = self.name.split_once("-again").unwrap_or((&self.name, ""));
        format!("{base}-again{}", self.names + 1)
    }

    fn leave(&mut self, now: Time) {
        (self.at, self.open, self.under_way) = (None, None, 0);
        self.again = now.plus(RETRY);
    }

    fn hang_up(&mut self, now: Time, nodes: &mut [Node]) {
        if let Some(seat) = &self.at {
            seat.heard.borrow_mut().gone = true;
            if nodes[self.gateway].process == seat.process {
                nodes[self.gateway].hang_up(0, seat.front);
            }
        }
        self.leave(now);
    }
}
