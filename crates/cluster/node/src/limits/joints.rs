//! The limits of tenants and pools whose seats are volumes that are open here: who may lend them, and what is lent.

use super::lender::{Lender, Lending, nothing};
use super::{Answer, Asks};
use amita_qos::Limits;
use amita_qos::lease::{LeaseEpoch, MANDATE, Mandate};
use amita_reactor::driver::Time;
use amita_types::map::{JointLimits, Volume};
use amita_types::{Generation, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Nobody has asked for so long: it is not read any more whether they are lent here.
const IDLE: Duration = Duration::from_secs(5);
/// A reading that said nothing, or that another lends, is made again no sooner.
const PAUSE: Duration = Duration::from_millis(100);

/// The epoch of who lends by a seat: its term, and the generation of the volume.
#[must_use]
pub(crate) fn epoch(term: u32, generation: Generation) -> LeaseEpoch {
    LeaseEpoch(u64::from(term) << 32 | u64::from(generation.0))
}

/// By what a tenant's or pool's tokens may be lent here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub volume: VolumeId,
    pub generation: Generation,
    pub epoch: LeaseEpoch,
    /// Nobody has lent them before. It counts when the lender begins: a program of before that changes the limits leaves it out of their record.
    pub is_first: bool,
}

impl Seat {
    /// The seat of a record where the volume is open under that generation; none: another volume is.
    pub fn of(record: &JointLimits, volume: VolumeId, generation: Generation) -> Option<Seat> {
        let seat = Seat {
            volume,
            generation,
            epoch: epoch(record.term, generation),
            is_first: record.term == 1 && record.first == Some(generation),
        };
        (record.seat == Some(volume)).then_some(seat)
    }

    fn is(&self, other: &Seat) -> bool {
        let key = |seat: &Seat| (seat.volume, seat.generation, seat.epoch);
        key(self) == key(other)
    }
}

/// The record as it is when that volume is its next seat.
pub(crate) fn given_to(record: &JointLimits, volume: &Volume) -> JointLimits {
    // Under its generation nobody lends who has closed it, and whoever opens it raises it. An owner of a greater one, of which is not known here yet, waits
    // as if there had been another.
    let generation = match volume.owner {
        Some(_) => Some(volume.generation),
        None => volume.generation.next(),
    };
    let is_first = record.seat.is_none() && record.term == 0;
    JointLimits {
        seat: Some(volume.id),
        term: record.term.saturating_add(1),
        first: generation.filter(|_| is_first),
        ..record.clone()
    }
}

#[derive(Debug)]
struct Joint {
    seat: Seat,
    mandate: Mandate,
    /// When somebody asked last.
    asked: Time,
    /// It is read no sooner.
    not_before: Time,
    /// None: it was not read yet that they are lent here.
    lending: Option<Lending>,
}

/// Those of a core.
#[derive(Debug, Default)]
pub(super) struct Joints {
    by_name: BTreeMap<String, Joint>,
    /// No seat is to be read before.
    next: Option<Time>,
}

impl Joints {
    pub fn lost(&mut self, volume: VolumeId, generation: Generation) {
        self.by_name
            .retain(|_, joint| joint.seat.volume != volume || joint.seat.generation > generation);
    }

    /// Some were read, or are being read.
    fn look_ahead(&mut self) {
        self.next = self.by_name.values().filter_map(Joint::read_at).min();
    }
}

impl Lender {
    /// A gate asks for the tokens of a tenant or pool whose seat is open here. As long as it was not read that they are lent here nothing is.
    pub(crate) fn ask_joint(&mut self, now: Time, name: &str, seat: Seat, limits: &Limits, asks: &Asks) -> Answer {
        let faults = self.faults;
        let joint = || Joint {
            seat,
            mandate: Mandate::new(MANDATE, faults),
            asked: now,
            not_before: Time(0),
            lending: None,
        };
        let known = self.joints.by_name.entry(name.to_owned()).or_insert_with(joint);
        if known.seat.epoch < seat.epoch {
            *known = joint();
        }
        known.asked = now;
        let next = known.read_at();
        self.joints.next = next.into_iter().chain(self.joints.next).min();
        match &mut known.lending {
            Some(lending) if known.seat.is(&seat) => {
                lending.set(now, limits, faults);
                lending.renew(&known.mandate);
                lending.answer(now, limits, asks, faults)
            }
            _ => nothing(seat.epoch, asks),
        }
    }

    /// Other limits of a tenant or pool. Where nobody asks, because there are none, nothing is to be saved for when there are again.
    pub(crate) fn joint_limits_changed(&mut self, now: Time, name: &str, limits: &Limits) {
        let faults = self.faults;
        if let Some(lending) = self
            .joints
            .by_name
            .get_mut(name)
            .and_then(|joint| joint.lending.as_mut())
        {
            lending.set(now, limits, faults);
        }
    }

    /// Which seats are to be read now: they are being read from now on.
    pub(crate) fn next_to_read(&mut self, now: Time, most: usize) -> Vec<(String, Seat)> {
        let is_due = |joint: &Joint| joint.read_at().is_some_and(|at| at <= now);
        let due = self.joints.by_name.iter_mut().filter(|(_, joint)| is_due(joint));
        let read = due.take(most).map(|(name, joint)| {
            joint.mandate.read(now);
            (name.clone(), joint.seat)
        });
        let read = read.collect();
        self.joints.look_ahead();
        read
    }

    /// What was read of a seat: is it still the one, and owned here under that generation? Or nothing could be.
    pub(crate) fn has_read(&mut self, now: Time, name: &str, seat: &Seat, is_seat: bool) {
        let joint = self.joints.by_name.get_mut(name);
        let Some(joint) = joint.filter(|joint| joint.seat.is(seat)) else {
            return;
        };
        match is_seat {
            true => {
                joint.mandate.confirmed(now);
                // Whoever lent before may do so until then.
                let others_until = if seat.is_first { now } else { now.plus(MANDATE) };
                let lending = || Lending::new(seat.epoch, others_until);
                joint.lending.get_or_insert_with(lending).renew(&joint.mandate);
            }
            false => {
                joint.not_before = now.plus(PAUSE);
                joint.mandate.give_up();
            }
        }
        self.joints.look_ahead();
    }

    /// When seats are to be read next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.joints.next
    }
}

impl Joint {
    fn read_at(&self) -> Option<Time> {
        let at = self.mandate.read_at().max(self.not_before);
        let is_asked_for = at < self.asked.plus(IDLE);
        (is_asked_for && !self.mandate.is_reading()).then_some(at)
    }
}
