//! What may rightly wait for ever, and what has been let pass: the cluster's side of [`crate::excuse`].
//!
//! Writes wait while too few of a group's stores can serve. That is right, so such a run has not failed; but it is judged
//! all the same, without the chunks that wait. Those are given up by their hosts, and what the stores hold of them is still
//! compared with what was acknowledged.

use super::hosts::Refused;
use super::node::home;
use super::{Cluster, Excuse, Node, Plea, SETTLE, volume_name};
use crate::faults::Member;
use crate::history::OperationId;
use amita_reactor::Time;
use amita_types::io::IoError;
use amita_types::{BLOCK_BYTES, ChunkId, ChunkIndex, GroupId, map};
use std::collections::BTreeSet;

impl Cluster {
    fn chunk_blocks(&self) -> u64 {
        u64::from(self.setup.chunk_bytes / BLOCK_BYTES)
    }

    /// The volume and the chunk of a block. (The blocks of each volume follow those of the one before.)
    fn chunk_of(&self, block: u64) -> (u64, u64) {
        let (volume, block) = (block / self.setup.blocks, block % self.setup.blocks);
        (volume, block / self.chunk_blocks())
    }

    /// Does the I/O of the block's chunk wait for ever?
    pub(super) fn is_blocked(&self, block: u64) -> bool {
        self.blocked.contains(&self.chunk_of(block))
    }

    /// The group of a chunk.
    pub(super) fn group_of(&self, (volume, chunk): (u64, u64)) -> GroupId {
        let id = ChunkId {
            volume: self.data_of(volume),
            index: ChunkIndex(chunk),
        };
        GroupId {
            pool: self.pool_of(volume),
            index: id.group(self.setup.groups),
        }
    }

    /// Does a chunk of the group wait for ever?
    pub(super) fn has_blocked(&self, group: GroupId) -> bool {
        self.blocked.iter().any(|chunk| self.group_of(*chunk) == group)
    }

    /// May the group wait for ever for members that can neither serve nor lawfully be evicted? Then for which node.
    pub(super) fn may_block(&self, group: GroupId) -> Option<Member> {
        let group = self.group(group).ok()?;
        let fails = |store| {
            let member = home(store).0;
            // What rots on an in-sync member may be just what the others need, or what it must have to go on.
            self.nodes[member].failed.contains_key(&store) || self.ledger.is_rotten(member)
        };
        let failing: Vec<_> = group.in_sync.iter().filter(|store| fails(**store)).collect();
        let serving = group.in_sync.len() - failing.len();
        let is_short = serving < usize::from(self.setup.min_copies).min(group.in_sync.len());
        failing.first().filter(|_| is_short).map(|store| home(**store).0)
    }

    /// May some group of the volume's pool?
    pub(super) fn may_block_in(&self, volume: u64) -> bool {
        let pool = self.pool_of(volume);
        let mut groups = self.groups().filter(|group| group.pool == pool);
        groups.any(|group| self.may_block(group).is_some())
    }

    /// May anything?
    pub(super) fn may_block_at_all(&self) -> bool {
        self.groups().any(|group| self.may_block(group).is_some())
    }

    /// I/O that sequencers have not ended, and should.
    pub(super) fn sequenced(&self) -> usize {
        let cores = self.nodes.iter().flat_map(Node::each_core);
        let sequencers = cores.flat_map(|core| core.shards().each());
        let chunks = sequencers.flat_map(|(volume, sequencer)| {
            let chunks = sequencer.waiting_chunks();
            let number = self.number_of(volume).unwrap_or(volume.0 - 1);
            chunks.map(move |chunk| (number, chunk.0))
        });
        chunks.filter(|chunk| !self.blocked.contains(chunk)).count()
    }

    /// Something does not end. Where all of it may rightly wait for ever, those chunks are given up.
    pub(super) fn give_up_blocked(&mut self) -> Result<(), String> {
        let pending = self.hosts.pending_operations();
        let of_operation = |id: &OperationId| self.chunk_of(self.history.get(*id).first.block());
        let mut chunks: BTreeSet<(u64, u64)> = pending.iter().map(of_operation).collect();
        for core in self.nodes.iter().flat_map(Node::each_core) {
            for (volume, sequencer) in core.shards().each() {
                let number = self.number_of(volume).unwrap_or(volume.0 - 1);
                chunks.extend(sequencer.waiting_chunks().map(|chunk| (number, chunk.0)));
            }
        }
        let is_right = |chunk: &(u64, u64)| self.may_block(self.group_of(*chunk)).is_some();
        let (rightly, others): (Vec<_>, Vec<_>) = chunks.into_iter().partition(is_right);
        for chunk in rightly {
            let node = self.may_block(self.group_of(chunk)).expect("it was asked just now");
            if self.blocked.insert(chunk) {
                self.excuse(Excuse::Blocked, Some(chunk.0), node)?;
            }
        }
        // What waits only because its volume is where something waits for ever must end there.
        let mut goes_on = BTreeSet::new();
        for chunk in others {
            if !goes_on.contains(&chunk.0) && !self.send_home(chunk.0) {
                return Err(format!(
                    "nothing is wrong any more, and after {SETTLE:?} chunk {} of {} still waits: {}, {} in sequencers\n{}",
                    chunk.1,
                    volume_name(chunk.0),
                    self.hosts.oldest(),
                    self.sequenced(),
                    self.describe()
                ));
            }
            goes_on.insert(chunk.0);
        }
        let of_operation = |id: &OperationId| self.chunk_of(self.history.get(*id).first.block());
        let is_given_up = |id: &OperationId| self.blocked.contains(&of_operation(id));
        let abandoned: BTreeSet<OperationId> = pending.into_iter().filter(is_given_up).collect();
        self.hosts.abandon(&abandoned, &mut self.workload);
        Ok(())
    }

    /// A living owner gives a volume away when nothing of it is under way there (R10): where something rightly waits for ever, it
    /// never does, and whoever wants to open the volume elsewhere is told where it is. Its hosts go there, once for each owner;
    /// false: they need not.
    fn send_home(&mut self, volume: u64) -> bool {
        let Ok(record) = self.volume(volume) else { return false };
        let Some(owner) = record.owner.map(|owner| owner.0 as usize - 1) else {
            return false;
        };
        // (Of the volume that initiators copy to no host has a gateway.)
        let gateway = self.hosts.gateways().get(volume as usize);
        let is_elsewhere = gateway.is_some_and(|gateway| *gateway != owner);
        let cores = self.nodes[owner].each_core();
        let sequencers = cores.flat_map(|core| core.shards().each());
        let mut waits = sequencers
            .filter(|(of, _)| *of == self.data_of(volume))
            .flat_map(|(_, sequencer)| sequencer.waiting_chunks());
        let is_kept = waits.any(|chunk| self.blocked.contains(&(volume, chunk.0)));
        if !is_elsewhere || !is_kept || !self.sent_home.insert((volume, record.generation)) {
            return false;
        }
        self.coverage.hit("run.sent_home");
        let now = self.world.now();
        self.hosts.move_to(now, volume, owner);
        true
    }

    /// Groups have not got back to their full strength: rightly?
    pub(super) fn excuse_missing(&mut self) -> Result<(), String> {
        for (group, store) in self.missing() {
            let node = home(store).0;
            let blocked = self.may_block(group);
            // A copy whose list of changes has rotted is not brought up to date in this version.
            if blocked.is_none() && !self.ledger.is_rotten(node) {
                return Err(format!(
                    "nothing is wrong any more, and after {:?} these are not in sync: {:?}\n{}",
                    self.recovers_within(),
                    self.missing(),
                    self.describe()
                ));
            }
            self.coverage.hit("run.rotten_stays_out");
            self.excuse(Excuse::StaysOut, None, blocked.unwrap_or(node))?;
        }
        Ok(())
    }

    /// May this pass, now?
    pub(super) fn excuse(&mut self, excuse: Excuse, volume: Option<u64>, node: Member) -> Result<(), String> {
        let at = self.world.now();
        if excuse == Excuse::StoreFailed {
            self.ledger.store_failed(at, node);
        }
        self.excuse_since(Plea {
            excuse,
            since: at,
            at,
            volume,
            node,
        })
    }

    fn excuse_since(&mut self, plea: Plea) -> Result<(), String> {
        let nodes = plea.volume.map_or(0, |volume| self.concerned(volume));
        self.ledger.excuse(plea, nodes)
    }

    /// The nodes whose troubles are those of a volume, as bits: who has owned it, and who holds its groups.
    fn concerned(&self, volume: u64) -> u64 {
        let pool = self.pool_of(volume);
        let groups = self.groups().filter(|group| group.pool == pool);
        let stores = groups.filter_map(|group| self.group(group).ok()).flat_map(|group| {
            let syncing = group.syncing.into_iter().map(|syncing| syncing.store);
            group.members.into_iter().chain(group.in_sync).chain(syncing)
        });
        stores.fold(self.ledger.owners(volume), |nodes, store| nodes | 1 << home(store).0)
    }

    /// A store of the node does not serve any more.
    pub(super) fn store_failed(&mut self, member: Member) {
        if let Err(why) = self.excuse(Excuse::StoreFailed, None, member) {
            let said = &self.nodes[member].failed;
            self.hosts.violation.get_or_insert(format!("{why}; it says: {said:?}"));
        }
    }

    /// What hosts were told, and who has taken volumes from whom: each needs its cause.
    pub(super) fn hear_pleas(&mut self) -> Result<(), String> {
        // That a host has given up and gone elsewhere does not explain that it gave up. Who was told that a volume is lost:
        // somebody must have taken it.
        let (lost, refused): (Vec<Refused>, _) = std::mem::take(&mut self.hosts.refused)
            .into_iter()
            .partition(|refused| refused.error == Some(IoError::Lost));
        self.judge_refused(refused)?;
        let now = self.world.now();
        if std::mem::take(&mut self.hosts.has_moved) {
            self.ledger.moved(now);
        }
        for (volume, gateway) in std::mem::take(&mut self.hosts.moved_to) {
            self.ledger.wanted(now, volume, gateway);
        }
        self.hear_raises()?;
        self.judge_refused(lost)
    }

    fn judge_refused(&mut self, refused: Vec<Refused>) -> Result<(), String> {
        for refused in refused {
            let Err(why) = self.judge_error(&refused, refused.error, refused.since) else {
                continue;
            };
            match refused.or {
                Some((error, since)) if self.judge_error(&refused, Some(error), since).is_ok() => {}
                _ => return Err(why),
            }
        }
        Ok(())
    }

    fn judge_error(&mut self, refused: &Refused, error: Option<IoError>, since: Time) -> Result<(), String> {
        let operation = refused.operation;
        let excuse = match error {
            None => Excuse::GaveUp,
            Some(IoError::Lost) if refused.is_shared => Excuse::Unsure,
            Some(IoError::Lost) => Excuse::Lost,
            Some(IoError::Unavailable) => Excuse::Unavailable,
            Some(IoError::Damaged) => Excuse::Damaged,
            Some(IoError::NoSpace) => Excuse::NoSpace,
            Some(IoError::OutOfRange) => Excuse::NotGrown,
            Some(error) => return Err(format!("{operation:?} ended with: {error}")),
        };
        let plea = Plea {
            excuse,
            since,
            at: refused.at,
            volume: Some(refused.volume),
            node: refused.member,
        };
        self.excuse_since(plea).map_err(|why| format!("{why}: {operation:?}"))
    }

    fn hear_raises(&mut self) -> Result<(), String> {
        let revision = self.metadata.state().revision();
        if std::mem::replace(&mut self.told, revision) == revision {
            return Ok(());
        }
        self.hear_switches()?;
        let mut pleas = Vec::new();
        for volume in 0..self.setup.volumes {
            let key = map::volume_key(&volume_name(volume));
            let known = self.owned.get(&volume).copied();
            let Some(record) = self.metadata.state().get(&key) else {
                continue;
            };
            let at = self.metadata.made_at(record.mod_revision);
            let Ok(record) = record.json::<map::Volume>() else {
                continue;
            };
            let Some(owner) = record.owner else { continue };
            let by = owner.0 as usize - 1;
            let mut before = known.map(|(_, owner)| owner);
            if known.is_none_or(|(generation, _)| generation < record.generation) {
                self.owned.insert(volume, (record.generation, by));
                if known.is_some() && self.snapshots.unused.remove(&volume) {
                    before = None;
                }
                if self.migrations.fresh.remove(&volume) && before == Some(by) {
                    before = None;
                }
                pleas.extend(self.ledger.raised(at, volume, by, before));
            }
        }
        pleas.into_iter().try_for_each(|plea| self.excuse_since(plea))
    }
}
