//! The coordinator's transactions: many groups at once, each by compare-and-set, and what became of them.

use super::groups::Groups;
use super::warning::Warning;
use super::{Action, CallNumber, Coordinator, Moment, Out, RETRY_PAUSE, election_key, learn};
use crate::admin::unchanged;
use amita_metadata::{Call, Compare, Error, MAX_OPS, Op, Reply};
use amita_types::map::{self, Group, Syncing};
use amita_types::{GroupId, NodeId, PoolId, StoreId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};

/// The most keys beside the groups' that one transaction compares: liveness of nodes, and what promotions rest on.
const MAX_GUARDS: usize = 24;
/// The most groups of one eviction: the election key and the guards are compared beside them.
const MAX_EVICTIONS: usize = MAX_OPS - 1 - MAX_GUARDS;
/// The most groups of one transaction that is not in such a hurry: sequencers' calls must not wait long behind it.
const MAX_CHANGES: usize = 60;
/// The most transactions under way at once: a large node's groups must not fill the queue that the data path's calls
/// go through.
const MAX_PENDING: usize = 4;

/// Why a group is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Members are gone.
    Eviction,
    /// Members may join, or are no longer wanted.
    Change,
    /// Members are up to date.
    Promotion,
    /// Others should be members. The sets stay as they are, and with them the epoch.
    Placement,
}

/// A group as it is to be, and the records that this rests on: keys and their revisions, zero where there is none.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) id: GroupId,
    pub(super) group: Group,
    pub(super) guards: BTreeMap<String, u64>,
    /// The nodes and stores that are gone, for the report.
    pub(super) gone: (BTreeSet<NodeId>, BTreeSet<StoreId>),
}

/// A transaction that is under way.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    cause: Cause,
    /// The groups, as they will be if it succeeds. Empty where groups are only read back.
    moves: BTreeMap<GroupId, Group>,
    /// The groups that are read back.
    reads: Vec<GroupId>,
    /// What is compared beside the groups.
    guards: BTreeMap<String, u64>,
    /// Records that are deleted.
    deletes: Vec<(PoolId, VolumeId, u64)>,
    gone: (BTreeSet<NodeId>, BTreeSet<StoreId>),
}

impl Batch {
    fn new(cause: Cause) -> Batch {
        Batch {
            cause,
            moves: BTreeMap::new(),
            reads: Vec::new(),
            guards: BTreeMap::new(),
            deletes: Vec::new(),
            gone: Default::default(),
        }
    }
}

/// The transactions that are under way, and groups of which it is not known what became of one.
#[derive(Debug, Default)]
pub(super) struct Calls {
    next: u64,
    pub pending: BTreeMap<CallNumber, Batch>,
    /// Groups to be read back at this moment: what became of them is not known.
    pub unsure: Option<(Moment, BTreeSet<GroupId>)>,
    /// Nothing is deleted before this moment.
    tidy_at: Moment,
}

impl Calls {
    fn call(&mut self, out: &mut Out, call: Call) -> CallNumber {
        let number = CallNumber(self.next);
        self.next += 1;
        out.actions.push(Action::Call { number, call });
        number
    }

    pub(super) fn is_unsure(&self, id: GroupId) -> bool {
        self.unsure.as_ref().is_some_and(|(_, groups)| groups.contains(&id))
    }

    /// The group as it will be when the call that moves it succeeds; as it is, where none does.
    pub(super) fn as_wanted<'a>(&'a self, groups: &'a Groups, id: GroupId) -> Option<&'a Group> {
        let known = groups.all.get(&id)?;
        let batch = known.pending.and_then(|number| self.pending.get(&number));
        Some(batch.and_then(|batch| batch.moves.get(&id)).unwrap_or(&known.group))
    }

    /// Lets the batch's groups be for a moment, then reads them back.
    fn look_again(&mut self, now: Moment, batch: &Batch) {
        let groups = batch.moves.keys().chain(&batch.reads).copied();
        let at = now.plus(RETRY_PAUSE);
        self.unsure
            .get_or_insert_with(|| (at, BTreeSet::new()))
            .1
            .extend(groups);
    }
}

/// Sends the moves in as few transactions as the limits allow (R12).
pub(super) fn send(coordinator: &mut Coordinator, cause: Cause, moves: Vec<Move>) {
    let most = if cause == Cause::Eviction {
        MAX_EVICTIONS
    } else {
        MAX_CHANGES
    };
    let mut batch = Batch::new(cause);
    for one in moves {
        let more = one.guards.keys().filter(|key| !batch.guards.contains_key(*key)).count();
        // A group has at most eight members, so one group's guards always fit.
        if batch.moves.len() >= most || batch.guards.len() + more > MAX_GUARDS {
            let full = std::mem::replace(&mut batch, Batch::new(cause));
            start(coordinator, full);
        }
        batch.guards.extend(one.guards);
        batch.gone.0.extend(one.gone.0);
        batch.gone.1.extend(one.gone.1);
        batch.moves.insert(one.id, one.group);
    }
    if !batch.moves.is_empty() {
        start(coordinator, batch);
    }
}

/// One transaction: all of its groups move, or none.
fn start(coordinator: &mut Coordinator, mut batch: Batch) {
    let Some(elected) = coordinator
        .elected
        .filter(|_| coordinator.calls.pending.len() < MAX_PENDING)
    else {
        return;
    };
    keep_lawful(coordinator, &mut batch);
    if batch.moves.is_empty() {
        return;
    }
    let mut compares = vec![Compare::CreateRevision {
        key: election_key(),
        equals: elected,
    }];
    let mut otherwise = Vec::new();
    for (key, revision) in &batch.guards {
        compares.push(unchanged(key, *revision));
        otherwise.push(Op::Get { key: key.clone() });
    }
    let mut then = Vec::new();
    for (id, group) in &batch.moves {
        let Some(known) = coordinator.groups.all.get(id) else {
            continue;
        };
        let key = map::group_key(id.pool, id.index);
        compares.push(unchanged(&key, known.mod_revision));
        otherwise.push(Op::Get { key: key.clone() });
        let value = serde_json::to_vec(group).expect("records of the metadata are plain data");
        then.push(Op::Put {
            key,
            value,
            lease: None,
        });
    }
    let ids: Vec<GroupId> = batch.moves.keys().copied().collect();
    let call = Call {
        compares,
        then,
        otherwise,
    };
    begin(coordinator, call, batch, &ids);
}

/// R2, R10, R12: guarded here once more, whatever led to a move. What is not lawful is not done, and is told; the others are.
fn keep_lawful(coordinator: &mut Coordinator, batch: &mut Batch) {
    let Coordinator { groups, pools, out, .. } = coordinator;
    batch.moves.retain(|id, group| {
        let known = groups.all.get(id).zip(pools.get(id.pool));
        let judged = known.map_or(Err("its pool is not known".to_owned()), |(known, pool)| {
            judge(pool.min_copies, &known.group, group, batch.cause)
        });
        judged
            .map_err(|what| {
                let what = format!("what was to be done with it is not lawful: {what}");
                out.leave_alone(&map::group_key(id.pool, id.index), &what);
            })
            .is_ok()
    });
}

fn judge(min_copies: usize, old: &Group, new: &Group, cause: Cause) -> Result<(), String> {
    let must = |holds: bool, what: &str| holds.then_some(()).ok_or_else(|| what.to_owned());
    new.check()?;
    if cause == Cause::Placement {
        let same = (old.epoch, &old.in_sync, &old.syncing) == (new.epoch, &new.in_sync, &new.syncing);
        must(same, "placement changes the members only")?;
        return must(!new.members.is_empty(), "there are no members");
    }
    must(new.members == old.members, "members are the planner's")?;
    must(new.epoch == old.epoch.next(), "it moves by one epoch")?;
    let stays = |store: &StoreId| old.in_sync.contains(store);
    let shrinks = old.in_sync.iter().any(|store| !new.in_sync.contains(store));
    if shrinks && new.in_sync.len() < min_copies.max(1) {
        return Err(format!("it would fall below {min_copies} copies"));
    }
    let was_syncing = |store: &StoreId| old.syncing.iter().any(|member| member.store == *store);
    let joins = |store: &StoreId| cause == Cause::Promotion && was_syncing(store);
    let lawful = new.in_sync.iter().all(|store| stays(store) || joins(store));
    must(lawful, "only who was syncing is taken into the in-sync set")?;
    let begins = |member: &Syncing| member.since == new.epoch && cause == Cause::Change;
    let lawful = new.syncing.iter().all(|own| old.syncing.contains(own) || begins(own));
    must(lawful, "who begins to sync does so at the new epoch")
}

fn begin(coordinator: &mut Coordinator, call: Call, batch: Batch, ids: &[GroupId]) {
    let number = coordinator.calls.call(&mut coordinator.out, call);
    for id in ids {
        if let Some(known) = coordinator.groups.all.get_mut(id) {
            known.pending = Some(number);
        }
    }
    coordinator.calls.pending.insert(number, batch);
}

/// Deletes what was said of volumes that are no more.
pub(super) fn tidy(coordinator: &mut Coordinator) {
    let busy = coordinator
        .calls
        .pending
        .values()
        .any(|batch| !batch.deletes.is_empty());
    if busy || coordinator.heard.told > coordinator.heard.complete {
        return;
    }
    let mut orphans = coordinator.claims.orphans();
    let Some(elected) = coordinator.elected.filter(|_| !orphans.is_empty()) else {
        return;
    };
    if coordinator.calls.tidy_at > coordinator.now {
        return coordinator.due.wake_at(coordinator.calls.tidy_at);
    }
    orphans.truncate(MAX_CHANGES);
    let mut call = Call {
        compares: vec![Compare::CreateRevision {
            key: election_key(),
            equals: elected,
        }],
        ..Call::default()
    };
    for (pool, volume, revision) in &orphans {
        let key = map::whole_key(*pool, *volume);
        call.compares.push(unchanged(&key, *revision));
        call.then.push(Op::Delete { key });
    }
    coordinator.calls.tidy_at = coordinator.now.plus(RETRY_PAUSE);
    let batch = Batch {
        deletes: orphans,
        ..Batch::new(Cause::Change)
    };
    begin(coordinator, call, batch, &[]);
}

/// Reads back what became of groups after a call whose outcome is not known.
pub(super) fn read_back(coordinator: &mut Coordinator) {
    let due = coordinator
        .calls
        .unsure
        .as_ref()
        .is_some_and(|(at, _)| *at <= coordinator.now);
    if !due {
        return;
    }
    let Some((_, groups)) = coordinator.calls.unsure.take() else {
        return;
    };
    let known: Vec<GroupId> = groups
        .into_iter()
        .filter(|id| coordinator.groups.all.contains_key(id))
        .collect();
    for ids in known.chunks(MAX_OPS) {
        let then = ids
            .iter()
            .map(|id| Op::Get {
                key: map::group_key(id.pool, id.index),
            })
            .collect();
        let batch = Batch {
            reads: ids.to_vec(),
            ..Batch::new(Cause::Change)
        };
        let call = Call {
            then,
            ..Call::default()
        };
        begin(coordinator, call, batch, ids);
    }
}

pub(super) fn ended(coordinator: &mut Coordinator, call: CallNumber, result: Result<Reply, Error>) {
    // An answer that nobody waits for is no harm.
    let Some(batch) = coordinator.calls.pending.remove(&call) else {
        return;
    };
    for known in coordinator
        .groups
        .all
        .values_mut()
        .filter(|known| known.pending == Some(call))
    {
        known.pending = None;
    }
    if !batch.deletes.is_empty() {
        if result.is_ok_and(|reply| reply.succeeded) {
            for (pool, volume, revision) in batch.deletes {
                coordinator.claims.whole_gone(pool, volume, revision + 1);
            }
        }
        return;
    }
    match result {
        Ok(reply) if reply.succeeded && batch.reads.is_empty() => moved(coordinator, batch, reply.revision),
        Ok(reply) => take_in(coordinator, &batch, &reply),
        Err(_) => {
            // Not done, perhaps done, refused: read back before anything is built on either (R6).
            coordinator.calls.look_again(coordinator.now, &batch);
        }
    }
}

fn moved(coordinator: &mut Coordinator, batch: Batch, revision: u64) {
    let mut change = Change::default();
    let others = std::mem::take(&mut coordinator.out.by_owners);
    for (id, group) in batch.moves {
        if let Some(known) = coordinator.groups.all.get(&id) {
            change.add(&known.group, &group);
        }
        learn::learn_group(coordinator, id, group, revision);
    }
    // That was our own doing.
    coordinator.out.by_owners = others;
    let (nodes, stores) = batch.gone;
    for warning in change.warnings(nodes, stores) {
        coordinator.out.actions.push(Action::Warn(warning));
    }
}

/// What a lost race, or a reading back, found.
fn take_in(coordinator: &mut Coordinator, batch: &Batch, reply: &Reply) {
    let groups = batch.moves.keys().chain(&batch.reads);
    for (index, id) in groups.enumerate() {
        match reply.value(batch.guards.len() + index) {
            Some(record) => learn::record(coordinator, record),
            None => learn::forget(coordinator, *id),
        }
    }
    // Who lives, and what was raised, is learned from the watch alone: it tells every change, a reply is one moment.
    // Until it has told it there is nothing to hurry for.
    let found = |index| reply.value(index).map_or(0, |found| found.mod_revision);
    let mut guards = batch.guards.values().enumerate();
    if batch.reads.is_empty() && guards.any(|(index, expected)| found(index) != *expected) {
        coordinator.calls.look_again(coordinator.now, batch);
    }
}

/// What a transaction did, for the report: who, and in how many groups.
#[derive(Debug, Default)]
pub(super) struct Change {
    evicted: usize,
    joined: (BTreeSet<StoreId>, usize),
    dropped: (BTreeSet<StoreId>, usize),
    promoted: (BTreeSet<StoreId>, usize),
    left: (BTreeSet<StoreId>, usize),
}

impl Change {
    pub(super) fn add(&mut self, old: &Group, new: &Group) {
        let count = |whom: &mut (BTreeSet<StoreId>, usize), stores: Vec<StoreId>| {
            whom.1 += usize::from(!stores.is_empty());
            whom.0.extend(stores);
        };
        let syncing = |group: &Group| group.syncing.iter().map(|member| member.store).collect::<Vec<_>>();
        let (before, after) = (syncing(old), syncing(new));
        let without = |these: &[StoreId], those: &[&[StoreId]]| -> Vec<StoreId> {
            let other = |store: &&StoreId| !those.iter().any(|set| set.contains(store));
            these.iter().filter(other).copied().collect()
        };
        count(&mut self.joined, without(&after, &[&before]));
        count(&mut self.dropped, without(&before, &[&after, &new.in_sync]));
        count(&mut self.promoted, without(&new.in_sync, &[&old.in_sync]));
        let left = without(&old.in_sync, &[&new.in_sync]);
        self.evicted += usize::from(!left.is_empty());
        count(&mut self.left, left);
    }

    /// Of what others did: volumes' owners evict and drop, and nothing else.
    pub(super) fn of_owners(self) -> Vec<Warning> {
        let list = |stores: BTreeSet<StoreId>| stores.into_iter().collect::<Vec<_>>();
        let mut warnings = Vec::new();
        if self.left.1 > 0 {
            warnings.push(Warning::EvictedByOwners {
                stores: list(self.left.0),
                groups: self.left.1,
            });
        }
        if self.dropped.1 > 0 {
            warnings.push(Warning::DroppedByOwners {
                stores: list(self.dropped.0),
                groups: self.dropped.1,
            });
        }
        warnings
    }

    fn warnings(self, nodes: BTreeSet<NodeId>, failed: BTreeSet<StoreId>) -> Vec<Warning> {
        let list = |stores: BTreeSet<StoreId>| stores.into_iter().collect::<Vec<_>>();
        let mut warnings = Vec::new();
        let evicts = !nodes.is_empty() || !failed.is_empty();
        if self.evicted > 0 && !nodes.is_empty() {
            warnings.push(Warning::Evicted {
                nodes: nodes.into_iter().collect(),
                groups: self.evicted,
            });
        }
        if self.evicted > 0 && !failed.is_empty() {
            warnings.push(Warning::StoresEvicted {
                stores: list(failed),
                groups: self.evicted,
            });
        }
        let more = [
            (self.joined, Warning::syncing as fn(Vec<StoreId>, usize) -> Warning),
            (self.dropped, Warning::dropped),
            (self.promoted, Warning::promoted),
        ];
        for ((stores, groups), make) in more {
            if groups > 0 {
                warnings.push(make(list(stores), groups));
            }
        }
        if !evicts && self.left.1 > 0 {
            warnings.push(Warning::left(list(self.left.0), self.left.1));
        }
        warnings
    }
}
