//! How volumes stand among others at stores, and that what waits there keeps its order.
//!
//! Reservations, weights and latency targets are drawn, changed and taken away meanwhile, and stores have so little under way at once that much waits. What hosts
//! read, and what stores hold in the end, is judged as in every run; here it is looked at that no store was given something of a volume before what came
//! before it, that something waits at all, and that nothing does in the end.

use super::operator::Desk;
use super::{Cluster, Node, SETTLE, Setup, volume_id, volume_name};
use crate::faults::Member;
use crate::random::Random;
use amita_control::admin;
use amita_qos::DepthLimits;
use amita_reactor::Time;
use amita_types::StoreId;
use amita_types::map::Priority;
use std::collections::BTreeMap;

/// The streams of chance.
const TURNS: u64 = 84;

/// What has waited at a store, when it was looked at last.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    held: u64,
    pulled: u64,
}

#[derive(Debug)]
pub(super) struct Watch {
    random: Random,
    seen: BTreeMap<(Member, u64, StoreId), Seen>,
}

impl Watch {
    pub fn new(setup: &Setup) -> Watch {
        Watch {
            random: Random::new(setup.seed).fork(TURNS),
            seen: BTreeMap::new(),
        }
    }
}

/// What a store has under way at once in a run with turns.
pub(super) fn depth(most: u32) -> DepthLimits {
    DepthLimits { least: 1, most }
}

fn draw(random: &mut Random) -> Priority {
    let mut some = |percent: u64, values: &[u64]| random.percent(percent).then(|| *random.pick(values));
    let (reservation, weight) = (some(40, &[1 << 20, 8 << 20, 100 << 20]), some(70, &[1, 20, 300, 1000]));
    let target = some(40, &[100, 1_000, 20_000]);
    Priority {
        reservation,
        weight: weight.map(|weight| weight as u16),
        latency_target_us: target.map(|target| target as u32),
    }
}

impl Cluster {
    pub(super) fn rank(&mut self, now: Time, volume: u64) {
        let wanted = draw(&mut self.turns.random);
        self.set_priority(now, volume, wanted);
    }

    pub(super) fn unrank(&mut self, now: Time, volume: u64) {
        self.set_priority(now, volume, Priority::default());
    }

    fn set_priority(&mut self, now: Time, volume: u64, wanted: Priority) {
        let desk = Desk::new(&mut self.metadata, now);
        let set = admin::set_priority(&desk, &volume_name(volume), |priority| *priority = wanted);
        if let Err(why) = set {
            let why = format!("volume {} gets no priority: {why}", volume_id(volume));
            self.hosts.violation.get_or_insert(why);
            return;
        }
        self.tell(|| format!("how {} stands among others: {wanted:?}", volume_name(volume)));
        self.coverage.hit(match wanted.is_empty() {
            true => "turns.cleared",
            false => "turns.set",
        });
    }

    /// A core has ended a pass: in which order were its stores given what was asked of them?
    pub(super) fn watch_turns(&mut self, member: Member, core: usize) -> Result<(), String> {
        if self.setup.turns.is_none() {
            return Ok(());
        }
        let process = self.nodes[member].process;
        let Some(core) = self.nodes[member].each_core().nth(core) else {
            return Ok(());
        };
        for (store, counts) in core.stores().turn_counts() {
            if counts.tally.overtakes > 0 {
                return Err(format!(
                    "store {store} of node {} was given something of a volume before what came before it",
                    member + 1
                ));
            }
            let now = Seen {
                held: counts.held.iter().sum(),
                pulled: counts.tally.pulled,
            };
            let seen = self.turns.seen.entry((member, process, store)).or_default();
            // One that has an order again begins anew.
            self.coverage.add("turns.held", now.held.saturating_sub(seen.held));
            self.coverage
                .add("turns.pulled", now.pulled.saturating_sub(seen.pulled));
            *seen = now;
        }
        Ok(())
    }

    /// All volumes stand as they did, and nothing waits any more.
    pub(super) fn end_turns(&mut self) -> Result<(), String> {
        if self.setup.turns.is_none() {
            return Ok(());
        }
        let now = self.world.now();
        for volume in 0..self.setup.volumes {
            self.unrank(now, volume);
        }
        // What the cluster does by itself goes on, and may wait for a moment.
        let limit = now.plus(SETTLE);
        while let Some((store, waiting)) = self.waits_at_a_store() {
            if self.world.now() >= limit {
                return Err(format!(
                    "when everything has ended {waiting} requests wait at store {store}, and {SETTLE:?} later some still do"
                ));
            }
            self.step(limit)?;
        }
        Ok(())
    }

    /// A store at which something waits for its turn, and how much.
    fn waits_at_a_store(&self) -> Option<(StoreId, usize)> {
        let cores = self.nodes.iter().flat_map(Node::each_core);
        let mut stores = cores.flat_map(|core| core.stores().turn_counts());
        let waits = stores.find(|(_, counts)| counts.waiting > 0);
        waits.map(|(store, counts)| (store, counts.waiting))
    }
}
