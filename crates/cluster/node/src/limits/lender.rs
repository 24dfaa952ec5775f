//! The owner's side: the buckets of the volumes that are open here, and what of them is lent. On the core of each ([`super::lending_core`]).

use super::joints::Joints;
use super::{Answer, Asks, Grants, PATIENCE};
use amita_qos::lease::{GrantorConfig, LEASE, LONG_LEASE, LeaseEpoch, Mandate, Standing};
use amita_qos::limits::{BUCKETS, largest};
use amita_qos::{Faults, Grant, Grantor, Limits};
use amita_reactor::driver::Time;
use amita_types::{Generation, VolumeId};
use rustc_hash::FxHashMap;
use std::array;

/// Grants of one answer: of less than [`amita_fabric::limits::TOKENS_CHARGE_BYTES`]. A holder has few that it has not told of.
const MAX_GRANTS: usize = 40;

/// The limits of one volume under one generation.
struct Lent {
    generation: Generation,
    /// Since when somebody asks.
    since: Time,
    /// All stores in sync have adopted the generation, or were waited for.
    begun: bool,
    lending: Lending,
}

/// The limits of one thing, under one epoch.
#[derive(Debug)]
pub(super) struct Lending {
    epoch: LeaseEpoch,
    /// Until then another may lend them.
    others_until: Time,
    limits: Limits,
    /// One whose limit was taken away stays, and lends nothing: a successor of the same epoch would count its grants from one again.
    grantors: [Option<Grantor>; BUCKETS],
    /// Grants for those that have not asked since: when they were made, of which limit. One that has lapsed does no harm.
    kept: Vec<(Time, usize, Grant)>,
}

/// Lends the tokens of volumes that are open on this node.
#[derive(Default)]
pub struct Lender {
    volumes: FxHashMap<VolumeId, Lent>,
    pub(super) joints: Joints,
    pub faults: Faults,
}

impl Lender {
    /// It is not open here under that generation any more.
    pub fn lost(&mut self, volume: VolumeId, generation: Generation) {
        self.joints.lost(volume, generation);
        let is_it = self
            .volumes
            .get(&volume)
            .is_some_and(|known| known.generation <= generation);
        if is_it {
            self.volumes.remove(&volume);
        }
    }

    /// Has nobody asked yet under that generation?
    #[must_use]
    pub fn is_new(&self, volume: VolumeId, generation: Generation) -> bool {
        let known = self.volumes.get(&volume);
        known.is_none_or(|known| known.generation != generation)
    }

    /// Does anybody still wait until all stores in sync have adopted that generation?
    #[must_use]
    pub fn awaits(&self, volume: VolumeId, generation: Generation) -> bool {
        let known = self.volumes.get(&volume).filter(|known| known.generation == generation);
        known.is_none_or(|known| !known.begun)
    }

    /// A gate asks; the volume is open here under that generation, with these limits, and all stores in sync have `adopted` it or not. What it
    /// is lent, and what was put by for it.
    pub fn ask(
        &mut self,
        now: Time,
        (volume, generation): (VolumeId, Generation),
        adopted: bool,
        limits: &Limits,
        asks: &Asks,
    ) -> Answer {
        let faults = self.faults;
        let lent = self.volumes.entry(volume);
        let lent = lent.or_insert_with(|| Lent::new(now, generation));
        if lent.generation < generation {
            *lent = Lent::new(now, generation);
        }
        lent.begun |= adopted || now >= lent.since.plus(PATIENCE);
        match lent.begun {
            true => lent.lending.answer(now, limits, asks, faults),
            false => nothing(lent.lending.epoch, asks),
        }
    }

    /// The volume's record has changed. Where nobody asks, because it is not limited, nothing is to be saved for when it is again.
    pub fn limits_changed(&mut self, now: Time, volume: VolumeId, limits: &Limits) {
        let faults = self.faults;
        if let Some(lent) = self.volumes.get_mut(&volume).filter(|lent| lent.begun) {
            lent.lending.set(now, limits, faults);
        }
    }
}

/// An answer that lends nothing.
pub(super) fn nothing(epoch: LeaseEpoch, asks: &Asks) -> Answer {
    Answer {
        epoch,
        sent: asks.iter().map(|(_, ask)| ask.sent).max().unwrap_or(Time(0)),
        grants: Grants::new(),
        open: Vec::new(),
    }
}

impl Lent {
    fn new(now: Time, generation: Generation) -> Lent {
        Lent {
            generation,
            since: now,
            begun: false,
            // What is carried out by an older owner's tokens is nothing by then.
            lending: Lending::new(LeaseEpoch(generation.0.into()), Time(0)),
        }
    }
}

impl Lending {
    /// `others_until`: until then another may lend tokens of the same.
    pub(super) fn new(epoch: LeaseEpoch, others_until: Time) -> Lending {
        Lending {
            epoch,
            others_until,
            limits: Limits::default(),
            grantors: array::from_fn(|_| None),
            kept: Vec::new(),
        }
    }

    /// Gates ask.
    pub(super) fn answer(&mut self, now: Time, limits: &Limits, asks: &Asks, faults: Faults) -> Answer {
        self.set(now, limits, faults);
        let mut answer = nothing(self.epoch, asks);
        answer.grants = self.ask(now, asks);
        let limits = limits.in_order();
        let is_open = |place: &usize| limits[*place].is_none();
        answer.open = asks.iter().map(|(place, _)| *place).filter(is_open).collect();
        answer
    }

    /// It may lend as long as that.
    pub(super) fn renew(&mut self, mandate: &Mandate) {
        self.grantors
            .iter_mut()
            .flatten()
            .for_each(|grantor| mandate.renew(grantor));
    }

    pub(super) fn set(&mut self, now: Time, limits: &Limits, faults: Faults) {
        if self.limits == *limits {
            return;
        }
        let before = std::mem::replace(&mut self.limits, *limits).in_order();
        for (place, (grantor, limit)) in self.grantors.iter_mut().zip(limits.in_order()).enumerate() {
            let Some(limit) = limit else { continue };
            if let Some(grantor) = grantor {
                if before[place].is_none() {
                    grantor.drain(now);
                }
                // One that cannot be shared was refused where the record is read; the old one holds.
                let _ = grantor.set(now, limit);
                continue;
            }
            let config = GrantorConfig {
                epoch: self.epoch,
                lease: LEASE,
                long_lease: LONG_LEASE,
                largest: largest(place),
                standing: Standing::default(),
                faults,
            };
            // What another has lent may be spent for a lease.
            let mandate = self.others_until.since(now);
            *grantor = Grantor::succeed(now, limit, config, mandate).ok();
            if self.others_until == Time(0) {
                grantor.iter_mut().for_each(|grantor| grantor.mandate(Time(u64::MAX)));
            }
        }
    }

    fn ask(&mut self, now: Time, asks: &Asks) -> Grants {
        let limits = self.limits.in_order();
        self.kept.retain(|(made, ..)| now < made.plus(LONG_LEASE));
        for (place, ask) in asks {
            let (Some(grantor), Some(_)) = (&mut self.grantors[*place], limits[*place]) else {
                continue;
            };
            grantor.ask(now, ask);
            let kept = &mut self.kept;
            grantor.poll(now, |grant| kept.push((now, *place, grant)));
        }
        let mut grants = Grants::new();
        self.kept.retain(|&(_, place, grant)| {
            let is_for = asks
                .iter()
                .any(|(asked, ask)| *asked == place && ask.holder == grant.holder);
            let is_for = is_for && grants.len() < MAX_GRANTS;
            if is_for {
                grants.push((place, grant));
            }
            !is_for
        });
        grants
    }
}
