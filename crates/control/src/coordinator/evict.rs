//! Which groups to move, in what transactions, and what became of them.

use super::{Action, CallNumber, Coordinator, RETRY_PAUSE, Warning, election_key};
use amita_cluster::map::{self, Group};
use amita_cluster::{GroupId, NodeId, PoolId, StoreId};
use amita_meta::{Call, Compare, Error, MAX_OPS, Op, Reply};
use std::collections::{BTreeMap, BTreeSet};

/// The most dead nodes that one transaction names: each takes one of its compares.
const MAX_DEAD_PER_BATCH: usize = 24;
/// The most groups of one transaction: the election key and the dead nodes' keys are compared beside them.
const MAX_GROUPS_PER_BATCH: usize = MAX_OPS - 1 - MAX_DEAD_PER_BATCH;
/// The most transactions under way at once: a large node's groups must not fill the queue that the data path's calls
/// go through.
const MAX_PENDING: usize = 4;

/// A transaction that is under way.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// The groups, as they will be if it succeeds. Empty where groups are only read back.
    moves: Vec<(GroupId, Group)>,
    /// The groups that are read back.
    reads: Vec<GroupId>,
    dead: BTreeSet<NodeId>,
}

impl Coordinator {
    /// Decides what to do next, from all that is known.
    pub(super) fn decide(&mut self) {
        if !self.settled || self.elected.is_none() {
            return;
        }
        self.read_back();
        let mut blocked: BTreeMap<PoolId, (usize, BTreeSet<NodeId>)> = BTreeMap::new();
        let mut moves: Vec<(GroupId, Group, BTreeSet<NodeId>)> = Vec::new();
        for (&id, known) in &self.groups {
            let Some(pool) = self.pools.get(&id.pool) else { continue };
            let dead: BTreeSet<NodeId> = known
                .group
                .in_sync
                .iter()
                .filter_map(|store| self.dead_home(*store))
                .collect();
            if dead.is_empty() || known.pending.is_some() || self.is_unsure(id) {
                continue;
            }
            let left: Vec<StoreId> = known
                .group
                .in_sync
                .iter()
                .copied()
                .filter(|store| self.dead_home(*store).is_none())
                .collect();
            // Those left must be alive, not only not yet dead: else the move may have been for nothing.
            let alive = left.iter().filter(|store| self.is_alive(**store)).count();
            if left.len() >= pool.min_copies && alive >= pool.min_copies {
                let group = Group {
                    epoch: known.group.epoch.next(),
                    in_sync: left,
                    ..known.group.clone()
                };
                moves.push((id, group, dead));
            } else {
                let (count, nodes) = blocked.entry(id.pool).or_default();
                *count += 1;
                nodes.extend(dead);
            }
        }
        self.warn_of_blocked(blocked);
        self.send(moves);
    }

    pub(super) fn dead_home(&self, store: StoreId) -> Option<NodeId> {
        self.stores.get(&store).copied().filter(|node| self.is_dead(*node))
    }

    fn is_unsure(&self, id: GroupId) -> bool {
        self.unsure.as_ref().is_some_and(|(_, groups)| groups.contains(&id))
    }

    fn warn_of_blocked(&mut self, blocked: BTreeMap<PoolId, (usize, BTreeSet<NodeId>)>) {
        let now: BTreeSet<Warning> = blocked
            .into_iter()
            .map(|(pool, (groups, nodes))| {
                let known = &self.pools[&pool];
                let nodes = nodes.into_iter().collect();
                Warning::TooFewAlive {
                    pool: known.name.clone(),
                    groups,
                    nodes,
                    min_copies: known.min_copies,
                }
            })
            .collect();
        self.standing
            .retain(|warning| !matches!(warning, Warning::TooFewAlive { .. }) || now.contains(warning));
        for warning in now {
            self.warn(warning);
        }
    }

    /// Sends the moves in as few transactions as the limits allow (R12).
    fn send(&mut self, moves: Vec<(GroupId, Group, BTreeSet<NodeId>)>) {
        let mut batch = Batch {
            moves: Vec::new(),
            reads: Vec::new(),
            dead: BTreeSet::new(),
        };
        for (id, group, dead) in moves {
            let more = dead.difference(&batch.dead).count();
            // A group has at most eight members, so one group's dead nodes always fit.
            if batch.moves.len() >= MAX_GROUPS_PER_BATCH || batch.dead.len() + more > MAX_DEAD_PER_BATCH {
                let full = std::mem::replace(
                    &mut batch,
                    Batch {
                        moves: Vec::new(),
                        reads: Vec::new(),
                        dead: BTreeSet::new(),
                    },
                );
                self.start(full);
            }
            batch.dead.extend(dead);
            batch.moves.push((id, group));
        }
        if !batch.moves.is_empty() {
            self.start(batch);
        }
    }

    /// One transaction: all of its groups move, or none.
    fn start(&mut self, batch: Batch) {
        let Some(elected) = self.elected.filter(|_| self.pending.len() < MAX_PENDING) else {
            return;
        };
        let mut compares = vec![Compare::CreateRevision {
            key: election_key(),
            equals: elected,
        }];
        let mut otherwise = Vec::new();
        for node in &batch.dead {
            // A node that came back in the meantime is not evicted.
            compares.push(Compare::ModRevision {
                key: map::live_key(*node),
                equals: 0,
            });
            otherwise.push(Op::Get {
                key: map::live_key(*node),
            });
        }
        let mut then = Vec::new();
        for (id, group) in &batch.moves {
            let known = &self.groups[id];
            let min_copies = self.pools[&id.pool].min_copies;
            // R10, R12: guarded here once more, whatever led to this.
            assert!(
                group.in_sync.len() >= min_copies.max(1),
                "group {id} would fall below {min_copies} copies"
            );
            assert_eq!(group.epoch, known.group.epoch.next(), "group {id} moves by one epoch");
            assert!(
                group.in_sync.iter().all(|store| known.group.in_sync.contains(store)),
                "nobody joins by eviction"
            );
            let key = map::group_key(id.pool, id.index);
            compares.push(Compare::ModRevision {
                key: key.clone(),
                equals: known.mod_revision,
            });
            otherwise.push(Op::Get { key: key.clone() });
            let value = serde_json::to_vec(group).expect("records of the metadata are plain data");
            then.push(Op::Put {
                key,
                value,
                lease: None,
            });
        }
        let ids: Vec<GroupId> = batch.moves.iter().map(|(id, _)| *id).collect();
        self.begin(
            Call {
                compares,
                then,
                otherwise,
            },
            batch,
            &ids,
        );
    }

    fn begin(&mut self, call: Call, batch: Batch, groups: &[GroupId]) {
        let number = self.call(call);
        for id in groups {
            if let Some(known) = self.groups.get_mut(id) {
                known.pending = Some(number);
            }
        }
        self.pending.insert(number, batch);
    }

    /// Reads back what became of groups after a call whose outcome is not known.
    fn read_back(&mut self) {
        let due = self.unsure.as_ref().is_some_and(|(at, _)| *at <= self.now);
        if !due {
            return;
        }
        let Some((_, groups)) = self.unsure.take() else { return };
        let known: Vec<GroupId> = groups.into_iter().filter(|id| self.groups.contains_key(id)).collect();
        for ids in known.chunks(MAX_OPS) {
            let then = ids
                .iter()
                .map(|id| Op::Get {
                    key: map::group_key(id.pool, id.index),
                })
                .collect();
            let batch = Batch {
                moves: Vec::new(),
                reads: ids.to_vec(),
                dead: BTreeSet::new(),
            };
            self.begin(
                Call {
                    then,
                    ..Call::default()
                },
                batch,
                ids,
            );
        }
    }

    pub(super) fn ended(&mut self, call: CallNumber, result: Result<Reply, Error>) {
        // An answer that nobody waits for is no harm.
        let Some(batch) = self.pending.remove(&call) else {
            return;
        };
        for known in self.groups.values_mut().filter(|known| known.pending == Some(call)) {
            known.pending = None;
        }
        match result {
            Ok(reply) if reply.succeeded && batch.reads.is_empty() => {
                let groups = batch.moves.len();
                for (id, group) in batch.moves {
                    self.learn(id, group, reply.revision);
                }
                self.actions.push(Action::Warn(Warning::Evicted {
                    nodes: batch.dead.into_iter().collect(),
                    groups,
                }));
            }
            Ok(reply) => self.take_in(&batch, &reply),
            Err(_) => {
                // Not done, perhaps done, refused: read back before anything is built on either (R6).
                self.look_again(&batch);
            }
        }
    }

    /// What a lost race, or a reading back, found.
    fn take_in(&mut self, batch: &Batch, reply: &Reply) {
        let groups = batch.moves.iter().map(|(id, _)| id).chain(&batch.reads);
        for (index, id) in groups.enumerate() {
            match reply.value(batch.dead.len() + index) {
                Some(record) => self.record(record),
                None => {
                    self.groups.remove(id);
                }
            }
        }
        // Who lives is learned from the watch alone: it tells every change, a reply is one moment. Until it has told that
        // one of these nodes is back, there is nothing to hurry for.
        if (0..batch.dead.len()).any(|index| reply.value(index).is_some()) {
            self.look_again(batch);
        }
    }

    /// Lets the batch's groups be for a moment, then reads them back.
    fn look_again(&mut self, batch: &Batch) {
        let groups = batch.moves.iter().map(|(id, _)| *id).chain(batch.reads.iter().copied());
        let at = self.now.plus(RETRY_PAUSE);
        self.unsure
            .get_or_insert_with(|| (at, BTreeSet::new()))
            .1
            .extend(groups);
    }
}
