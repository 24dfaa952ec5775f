//! How a run ends: what is wrong is mended, everything comes back to full strength, and all is written to and read.

use super::hosts::CLOSING_HOST;
use super::{Cluster, SETTLE, volume_name};
use crate::history::{Kind, OperationId};
use crate::stamp::{SECTORS_PER_BLOCK, Sector};
use crate::workload::IoRequest;
use amita_reactor::Time;
use amita_types::map;
use amita_types::{GroupId, StoreId};
use std::collections::BTreeSet;
use std::time::Duration;

/// And every store whose disk had failed serves again within this, by itself: the longest pause before it is tried
/// again, and what a mount takes.
const RETURN: Duration = Duration::from_secs(80);
/// Operations that clients ask for while stores are brought up to date.
const RECOVERY_OPERATIONS: u32 = 150;
/// Do stores come back?
const RESYNC: bool = true;
/// Blocks of a chunk from which on not all of it is read in the end, but what was written.
const WIDE_CHUNK: u64 = 512;
/// And one of so many pieces of what was not.
const UNWRITTEN: u64 = 16;
/// The pause before what the closing hosts were not told is asked for again.
const AGAIN: Duration = Duration::from_millis(300);
/// Between two looks at which network nodes go by.
const LOOK_AT_NETWORKS: Duration = Duration::from_secs(10);
/// After the closing reads, before the power is cut.
const REST: Duration = Duration::from_millis(2500);
/// How often the volume may be taken over while it is read for the last time.
const CLOSING_ROUNDS: usize = 5;

impl Cluster {
    /// Every fault ends, and every node runs.
    pub(super) fn heal(&mut self) {
        self.tell(|| "everything heals".to_owned());
        // What `buggify` does is a fault as well.
        self.disarm();
        let now = self.world.now();
        self.end_faults();
        self.ledger.healed(now);
        self.networks_heal(now);
        self.end_passing();
        self.workload.stop();
        self.hosts.be_patient();
        if let Err(why) = self.let_all_go_on() {
            self.stayed_out = Some(why);
            return;
        }
        if self.random.percent(50) {
            self.let_stores_return();
        }
        for member in 0..self.nodes.len() {
            if !self.nodes[member].failed.is_empty() {
                // Poisoned by an error of the disk, which is over: an operator may start it again.
                self.coverage.hit("node.restarted_to_heal");
                self.end(member, false);
            }
            if !self.nodes[member].is_up() {
                self.start(member);
            }
        }
        for volume in 0..self.setup.volumes {
            if !self.nodes[self.hosts.gateways()[volume as usize]].is_up() {
                self.hosts.move_to(now, volume, 0);
            }
        }
    }

    /// Stores whose disks have failed or hung come back by themselves, now that the disks are sound. (One that the
    /// mount found damaged does not.)
    pub(super) fn let_stores_return(&mut self) {
        let limit = self.world.now().plus(RETURN);
        let may_return = |why: &String| why.contains("tried again in");
        let missing = |cluster: &Cluster| cluster.nodes.iter().any(|node| node.failed.values().any(may_return));
        while missing(self) {
            if self.world.now() >= limit {
                self.stayed_out = Some(format!(
                    "nothing is wrong with the disks any more, and after {RETURN:?} stores have not come back: {:?}",
                    self.nodes.iter().map(|node| &node.failed).collect::<Vec<_>>()
                ));
                return;
            }
            if let Err(why) = self.step(limit) {
                self.stayed_out = Some(why);
                return;
            }
        }
    }

    /// Waits until nothing is pending, but for what may rightly wait for ever.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let mut limit = self.world.now().plus(SETTLE);
        // What hosts have given up may still be under way in a sequencer, and must end as well.
        while self.hosts.pending() > 0 || self.sequenced() > 0 {
            if self.world.now() >= limit {
                self.give_up_blocked()?;
                limit = self.world.now().plus(SETTLE);
                continue;
            }
            self.step(limit)?;
        }
        Ok(())
    }

    /// What the operator wants comes true, now that nothing is wrong any more. (Where hosts have opened a volume for
    /// themselves it may stay where it is, and where something waits for ever it does.)
    pub(super) fn end_moves(&mut self) -> Result<(), String> {
        let by_paths = self.setup.fronted.is_some_and(|fronted| fronted.has_paths());
        if self.setup.shared_hosts < self.setup.profile.clients && !by_paths {
            return Ok(());
        }
        let limit = self.world.now().plus(SETTLE);
        while self.moves_left() > 0 && !self.moves_since.keys().all(|volume| self.may_block_in(*volume)) {
            if self.world.now() >= limit {
                return Err(format!(
                    "nothing is wrong any more, and after {SETTLE:?} planned moves have not come true: {:?}\n{}",
                    self.moves_since,
                    self.describe()
                ));
            }
            self.step(limit)?;
        }
        Ok(())
    }

    /// Every group gets back to full strength, now that nothing is wrong any more; in half of the runs while clients go
    /// on. But for those that may rightly never.
    pub(super) fn recover(&mut self) -> Result<(), String> {
        // An owner that never reaches a member does not bring it up to date.
        let never = self.setup.coordinator.is_none() || !self.setup.apart.is_empty();
        if !RESYNC || never || self.is_whole() {
            return Ok(());
        }
        if self.random.percent(50) {
            self.workload.go_on(RECOVERY_OPERATIONS);
        }
        let limit = self.world.now().plus(self.recovers_within());
        let (mut looked, mut again) = (0, Time::default());
        loop {
            let (revision, now) = (self.metadata.state().revision(), self.world.now());
            let is_due = self.setup.has_second() && again <= now;
            if is_due {
                again = now.plus(LOOK_AT_NETWORKS);
            }
            if (std::mem::replace(&mut looked, revision) != revision || is_due) && self.is_whole() {
                break;
            }
            if self.world.now() >= limit {
                self.excuse_missing()?;
                self.judge_unwell()?;
                break;
            }
            self.step(limit)?;
        }
        self.coverage.add("run.recovered", u64::from(self.missing().is_empty()));
        self.workload.stop();
        self.settle()
    }

    /// Are all copies there, and is every link that is measured found well, so that nobody is to leave any more?
    pub(super) fn is_whole(&self) -> bool {
        self.missing().is_empty() && self.links_are_well() && self.are_back()
    }

    /// Members of groups that are not in sync.
    pub(super) fn missing(&self) -> Vec<(GroupId, StoreId)> {
        let of = |id| {
            let group = self.group(id).ok();
            let lacks = |group: map::Group| {
                let is_missing = |store: &StoreId| !group.in_sync.contains(store);
                group.members.iter().copied().filter(is_missing).collect()
            };
            let stores: Vec<StoreId> = group.map(lacks).unwrap_or_default();
            stores.into_iter().map(move |store| (id, store))
        };
        self.groups().flat_map(of).collect()
    }

    /// A gateway of chance: one block of every chunk is written, then everything is read, but for what may rightly wait
    /// for ever.
    pub(super) fn close(&mut self) -> Result<(), String> {
        self.end_reservations()?;
        // The closing hosts want the volumes where they are, whoever owns them now.
        self.ledger.moved(self.world.now());
        self.hosts.unplug(&mut self.world);
        for volume in 0..self.setup.volumes {
            // Where nodes stay apart, not every gateway reaches what it needs.
            if self.setup.apart.is_empty() && self.random.percent(60) {
                let gateway = self.random.below(self.setup.gateways() as u64) as usize;
                self.tell(|| format!("closing {} at node {}", volume_name(volume), gateway + 1));
                let now = self.world.now();
                self.hosts.move_to(now, volume, gateway);
            }
        }
        let (blocks, chunk) = (
            self.setup.blocks * self.setup.volumes,
            u64::from(self.setup.chunk_bytes / amita_types::BLOCK_BYTES),
        );
        let chunks = blocks.div_ceil(chunk);
        for index in 0..chunks {
            let block = index * chunk + self.random.below(chunk.min(blocks - index * chunk));
            if !self.is_blocked(block) {
                self.closing(Kind::Write, block, 1);
            }
        }
        self.settle()?;
        for _ in 0..CLOSING_ROUNDS {
            let before = self.history.operations().len();
            for (first, count) in self.closing_ranges() {
                if !self.is_blocked(first) {
                    self.closing(Kind::Read, first, count);
                }
            }
            self.settle()?;
            // A host that still waited to open the volume elsewhere may have taken it over in between.
            let asked = (before..self.history.operations().len()).map(|id| OperationId(id as u32));
            let lost = asked.filter(|id| {
                let operation = self.history.get(*id);
                let waits = self.is_blocked(operation.first.block()) || self.hosts.damaged.contains(id);
                operation.completed.is_none() && !waits
            });
            if lost.count() == 0 {
                break;
            }
            self.coverage.hit("run.closed_again");
            // It may have to hear first of what has changed: of a volume's new size, say.
            self.rest(AGAIN)?;
        }
        // Not always the newest: an owner that nobody has used since has fenced nothing. And perhaps none: the volume
        // may have been lost again since the last read.
        for volume in 0..self.setup.volumes {
            if let Some(member) = self.hosts.closing_at(volume) {
                let generations = self.nodes[member]
                    .each_core()
                    .filter_map(|core| core.shards().generation(self.data_of(volume)));
                self.closed_under[volume as usize] = generations.max().unwrap_or_default();
            }
        }
        if self.setup.scrubbed_last {
            self.scrub_all()?;
        }
        self.end_scrubs()?;
        // What sequencers do besides, a change of a group that is under way say, comes to its end.
        self.rest(REST)
    }

    /// Nobody has a volume for itself any more.
    pub(super) fn end_reservations(&mut self) -> Result<(), String> {
        let limit = self.world.now().plus(SETTLE);
        loop {
            let now = self.world.now();
            if self.hosts.end_reservations(now, &mut self.workload, &mut self.history) {
                return Ok(());
            }
            if now >= limit {
                return Err(format!("reservations do not come to their end\n{}", self.describe()));
            }
            self.step(limit)?;
        }
    }

    pub(super) fn rest(&mut self, time: Duration) -> Result<(), String> {
        let until = self.world.now().plus(time);
        while self.world.now() < until {
            self.step(until)?;
        }
        Ok(())
    }

    /// What is read in the end: everything, and of large chunks what somebody has written and a little more. (What
    /// nobody has written is not listed by any store: that is looked at, too.)
    pub(super) fn closing_ranges(&self) -> Vec<(u64, u64)> {
        let chunk = u64::from(self.setup.chunk_bytes / amita_types::BLOCK_BYTES);
        let (all, step) = (
            self.setup.blocks * self.setup.volumes,
            u64::from(amita_types::MAX_IO_BLOCKS).min(chunk),
        );
        let ranges = (0..all)
            .step_by(step as usize)
            .map(|first| (first, step.min(all - first)));
        if chunk < WIDE_CHUNK {
            return ranges.collect();
        }
        let written = self.written_blocks();
        let is_written = |first: u64, count: u64| written.range(first..first + count).next().is_some();
        let ranges =
            ranges.filter(|(first, count)| is_written(*first, *count) || (first / step).is_multiple_of(UNWRITTEN));
        ranges.collect()
    }

    /// Blocks that somebody has asked to write, or to clear.
    pub(super) fn written_blocks(&self) -> BTreeSet<u64> {
        let operations = self
            .history
            .operations()
            .iter()
            .filter(|operation| operation.kind != Kind::Read);
        let blocks = operations.flat_map(|operation| {
            let last = Sector(operation.first.0 + u64::from(operation.sectors) - 1);
            operation.first.block()..=last.block()
        });
        blocks.collect()
    }

    pub(super) fn closing(&mut self, kind: Kind, block: u64, blocks: u64) {
        let per_block = SECTORS_PER_BLOCK as u64;
        let (first, sectors) = (Sector(block * per_block), (blocks * per_block) as u32);
        let host = CLOSING_HOST + (block / self.setup.blocks) as u32;
        let id = self.history.invoke(self.world.now(), host, kind, first, sectors);
        self.hosts.closing_ask(IoRequest {
            id,
            kind,
            first,
            sectors,
        });
    }
}
