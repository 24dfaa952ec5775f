//! What an operator does while hosts work: volumes grow, snapshots of them are taken, and all their copies are looked at. It is done by the product's own
//! functions (`amita_control::admin`), which the command line calls as well; the cores hear of it by their watch.
//!
//! A scrub must end, must find no two intact copies that differ, and no damage where nothing has damaged anything.

use super::coordinator::Caller;
use super::{Cluster, SETTLE, shrink, volume_name};
use crate::metadata::Metadata;
use crate::random::Random;
use amita_control::admin;
use amita_metadata::{Call, Error, Reply, Transact};
use amita_reactor::Time;
use amita_types::{BLOCK_BYTES, map};
use std::cell::RefCell;
use std::time::Duration;

/// A running node hears of a record within this.
const HEARD: Duration = Duration::from_millis(300);

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// All copies of a volume are looked at.
    Scrub(u64),
    /// A volume gets its full size.
    Grow(u64),
    /// A snapshot of a volume is taken.
    Snapshot(u64),
    /// Snapshots of all volumes are taken, at one moment.
    SnapshotSet,
    /// One of those that are taken is deleted, whichever there are.
    Unsnapshot(u64),
    /// A volume is made smaller, and larger again after a while.
    Shrink(u64),
    /// A volume is limited, or limited otherwise.
    Limit(u64),
    /// It is limited no more.
    Unlimit(u64),
    /// It is said how a volume stands among others, or otherwise.
    Rank(u64),
    /// It stands as all do.
    Unrank(u64),
    /// A volume moves to another pool.
    Migrate(u64),
    /// That is taken back, or stands still, or goes on, where it is not at its end.
    CancelMigration(u64),
    PauseMigration(u64),
}

/// What is to be done in a run: when so many operations have been asked for.
#[derive(Clone, Debug, Default)]
pub struct Chores {
    /// In the order of their times.
    pub steps: Vec<(u32, Chore)>,
    /// Blocks of each volume at first, where they grow.
    pub first_blocks: Option<u64>,
}

impl Chores {
    /// Those of a seed; none in most.
    #[must_use]
    pub fn draw(random: &mut Random, volumes: u64, blocks: u64, blocks_per_chunk: u64, operations: u32) -> Chores {
        let mut chores = Chores::default();
        let when = |random: &mut Random| random.below(u64::from(operations)) as u32;
        if random.percent(25) {
            for _ in 0..random.within(1, 3) {
                let at = when(random);
                chores.steps.push((at, Chore::Scrub(random.below(volumes))));
            }
        }
        let chunks = blocks / blocks_per_chunk;
        if chunks > 1 && random.percent(20) {
            chores.first_blocks = Some(blocks_per_chunk * random.within(1, chunks - 1));
            for volume in 0..volumes {
                chores.steps.push((when(random), Chore::Grow(volume)));
            }
        }
        if random.percent(50) {
            for _ in 0..random.within(1, 6) {
                let at = when(random);
                chores.steps.push((at, Chore::Snapshot(random.below(volumes))));
            }
        }
        if chores
            .steps
            .iter()
            .any(|(_, chore)| matches!(chore, Chore::Snapshot(_)))
            && random.percent(50)
        {
            for _ in 0..random.within(1, 6) {
                let at = when(random);
                chores.steps.push((at, Chore::Unsnapshot(random.below(64))));
            }
        }
        if volumes > 1 && random.percent(60) {
            for _ in 0..random.within(1, 4) {
                chores.steps.push((when(random), Chore::SnapshotSet));
            }
        }
        chores.steps.sort_by_key(|(at, _)| *at);
        chores
    }
}

impl Chores {
    /// Volumes are limited at the beginning, and otherwise later.
    pub fn add_limits(&mut self, random: &mut Random, volumes: u64, operations: u32) {
        for volume in 0..volumes {
            self.steps.push((0, Chore::Limit(volume)));
            for _ in 0..random.below(3) {
                let at = random.below(u64::from(operations)) as u32;
                let chore = match random.percent(80) {
                    true => Chore::Limit(volume),
                    false => Chore::Unlimit(volume),
                };
                self.steps.push((at, chore));
            }
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// It is said at the beginning how volumes stand among others, and otherwise later.
    pub fn add_ranks(&mut self, random: &mut Random, volumes: u64, operations: u32) {
        for volume in 0..volumes {
            self.steps.push((0, Chore::Rank(volume)));
            for _ in 0..random.below(3) {
                let at = random.below(u64::from(operations)) as u32;
                let chore = match random.percent(70) {
                    true => Chore::Rank(volume),
                    false => Chore::Unrank(volume),
                };
                self.steps.push((at, chore));
            }
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// Volumes move to another pool, and back; some of that is taken back, or stands still. There are snapshots to be moved.
    pub fn add_migrations(&mut self, random: &mut Random, volumes: u64, operations: u32) {
        let begun = self.steps.len();
        for volume in 0..volumes {
            for _ in 0..random.within(1, 4) {
                let at = random.below(u64::from(operations)) as u32;
                self.steps.push((at, Chore::Migrate(volume)));
                if random.percent(15) {
                    let later = at + random.below(u64::from(operations) / 4) as u32;
                    self.steps.push((later, Chore::CancelMigration(volume)));
                }
                if random.percent(15) {
                    for _ in 0..2 {
                        let later = at + random.below(u64::from(operations) / 4) as u32;
                        self.steps.push((later, Chore::PauseMigration(volume)));
                    }
                }
            }
            for _ in 0..random.below(4) {
                let at = random.below(u64::from(operations)) as u32;
                self.steps.push((at, Chore::Snapshot(volume)));
            }
        }
        debug_assert!(self.steps.len() > begun);
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// Volumes are made smaller, in half of the runs in which their hosts can let go of them and they do not grow by themselves.
    pub fn add_shrinks(&mut self, random: &mut Random, volumes: u64, operations: u32) {
        if self.first_blocks.is_none() && random.percent(50) {
            for _ in 0..random.within(1, 3) {
                let at = random.below(u64::from(operations)) as u32;
                self.steps.push((at, Chore::Shrink(random.below(volumes))));
            }
            self.steps.sort_by_key(|(at, _)| *at);
        }
    }
}

/// The metadata, as the operator's commands reach it: at once.
pub(super) struct Desk<'a> {
    metadata: RefCell<&'a mut Metadata<Caller>>,
    now: Time,
}

impl<'a> Desk<'a> {
    pub fn new(metadata: &'a mut Metadata<Caller>, now: Time) -> Desk<'a> {
        Desk {
            metadata: RefCell::new(metadata),
            now,
        }
    }
}

impl Transact for Desk<'_> {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        Ok(self.metadata.borrow_mut().operate(self.now, call))
    }
}

impl Cluster {
    /// Volumes that will grow are small at first.
    pub(super) fn begin_small(&mut self) {
        if let Some(blocks) = self.setup.chores.first_blocks {
            (0..self.setup.volumes).for_each(|volume| self.workload.resize(volume, blocks));
        }
    }

    /// Does what is due.
    pub(super) fn do_chores(&mut self, now: Time) -> Result<(), String> {
        let asked = self.workload.asked();
        while self.setup.chores.steps.first().is_some_and(|(at, _)| *at <= asked) {
            let (_, chore) = self.setup.chores.steps.remove(0);
            self.do_chore(now, chore)?;
        }
        Ok(())
    }

    fn do_chore(&mut self, now: Time, chore: Chore) -> Result<(), String> {
        match chore {
            Chore::CancelMigration(volume) => return self.cancel_migration(now, volume),
            Chore::PauseMigration(volume) => return self.pause_migration(now, volume),
            _ => self.do_plain_chore(now, chore),
        }
        Ok(())
    }

    fn do_plain_chore(&mut self, now: Time, chore: Chore) {
        self.tell(|| format!("the operator: {chore:?}"));
        match chore {
            Chore::Limit(volume) => return self.limit(now, volume),
            Chore::Unlimit(volume) => return self.unlimit(now, volume),
            Chore::Rank(volume) => return self.rank(now, volume),
            Chore::Unrank(volume) => return self.unrank(now, volume),
            Chore::Snapshot(volume) => return self.wish_snapshot(now, volume),
            Chore::SnapshotSet => return self.wish_set(now),
            Chore::Unsnapshot(turn) => return self.delete_snapshot(now, turn),
            // Hosts that use several gateways, or namespaces, do not let go of a volume.
            Chore::Shrink(_) if self.setup.fronted.is_some() || self.setup.shared_hosts > 0 => return,
            Chore::Shrink(volume) => {
                let (whose, name) = shrink::of_hosts(volume);
                return self.begin_shrink(now, whose, name, self.setup.blocks);
            }
            Chore::Migrate(volume) => return self.begin_migration(now, volume),
            Chore::Scrub(_) | Chore::Grow(_) | Chore::CancelMigration(_) | Chore::PauseMigration(_) => {}
        }
        let desk = Desk::new(&mut self.metadata, now);
        match chore {
            Chore::Snapshot(_)
            | Chore::SnapshotSet
            | Chore::Unsnapshot(_)
            | Chore::Shrink(_)
            | Chore::Limit(_)
            | Chore::Unlimit(_)
            | Chore::Rank(_)
            | Chore::Unrank(_)
            | Chore::Migrate(_)
            | Chore::CancelMigration(_)
            | Chore::PauseMigration(_) => {}
            Chore::Scrub(volume) => {
                // One that was never opened has nothing to look at.
                let asked = admin::scrub_volume(&desk, &volume_name(volume), Duration::from_nanos(now.0));
                self.coverage.add("operator.scrub", u64::from(asked.is_ok()));
            }
            Chore::Grow(volume) => {
                let bytes = self.setup.blocks * u64::from(BLOCK_BYTES);
                let grown = admin::resize_volume(&desk, &volume_name(volume), bytes);
                if let Err(why) = grown {
                    self.hosts
                        .violation
                        .get_or_insert(format!("a volume does not grow: {why}"));
                    return;
                }
                self.workload.resize(volume, self.setup.blocks);
                self.ledger.grown(now);
                self.coverage.hit("operator.grow");
            }
        }
    }

    /// Does what is left, and waits until all have heard of it.
    pub(super) fn end_chores(&mut self) -> Result<(), String> {
        let now = self.world.now();
        let left = std::mem::take(&mut self.setup.chores.steps);
        if left.is_empty() {
            return Ok(());
        }
        for (_, chore) in left {
            self.do_chore(now, chore)?;
        }
        let until = now.plus(HEARD);
        while self.world.now() < until {
            self.step(until)?;
        }
        Ok(())
    }

    /// All volumes are scrubbed once more, when those that were asked for have ended.
    pub(super) fn scrub_all(&mut self) -> Result<(), String> {
        self.end_scrubs()?;
        let now = self.world.now();
        for volume in 0..self.setup.volumes {
            let desk = Desk::new(&mut self.metadata, now);
            let asked = admin::scrub_volume(&desk, &volume_name(volume), Duration::from_nanos(now.0));
            asked.map_err(|why| format!("a volume cannot be scrubbed: {why}"))?;
        }
        Ok(())
    }

    /// Every scrub that was asked for ends, now that its volume is open, and has found what is there to be found.
    pub(super) fn end_scrubs(&mut self) -> Result<(), String> {
        let limit = self.world.now().plus(SETTLE);
        for volume in 0..self.setup.volumes {
            let key = map::scrub_key(self.data_of(volume));
            let scrub = |cluster: &Cluster| cluster.metadata.state().get(&key)?.json::<map::Scrub>().ok();
            let Some(mut found) = scrub(self) else { continue };
            while found.finished < found.requested {
                if self.may_block_in(volume) {
                    self.coverage.hit("operator.scrub_waits");
                    break;
                }
                if self.world.now() >= limit {
                    let (name, describe) = (volume_name(volume), self.describe());
                    return Err(format!(
                        "the scrub of {name} does not end within {SETTLE:?}\n{describe}"
                    ));
                }
                self.step(limit)?;
                found = scrub(self).unwrap_or_default();
            }
            let report = found.report;
            self.coverage.add("operator.scrub_copies", report.copies);
            self.coverage.add("operator.scrub_damaged", report.damaged);
            self.coverage.add("operator.scrub_repaired", report.repaired);
            if report.differing > 0 {
                return Err(format!("a scrub has found intact copies that differ: {report:?}"));
            }
            if report.damaged > 0 && !self.ledger.is_anything_damaged() {
                return Err(format!(
                    "a scrub has found damage where nothing was damaged: {report:?}"
                ));
            }
        }
        Ok(())
    }
}
