//! What is limited, and by what.

use super::bank::Bank;
use super::joint::{Joint, JointNumber, JointNumbers, MAX_JOINTS};
use super::lanes::Lanes;
use super::{Gate, Held, Known, Whose};
use amita_qos::Limits;
use amita_qos::lease::LeaseEpoch;
use amita_reactor::driver::Time;
use amita_types::{Generation, VolumeId};
use std::sync::Arc;

impl Gate {
    /// Other limits of a volume that is under no tenant's or pool's, as [`Gate::set_with`] has them.
    pub fn set(&mut self, now: Time, volume: VolumeId, limits: Option<&Limits>, generation: Generation) {
        self.set_with(now, volume, limits, generation, &[]);
    }

    /// Other limits of a volume, from now on, which its owner of that generation keeps, and those that it is under besides, by their names; none at all:
    /// what waits goes on.
    pub fn set_with(
        &mut self,
        now: Time,
        volume: VolumeId,
        limits: Option<&Limits>,
        generation: Generation,
        joints: &[&str],
    ) {
        let numbers = joints.iter().take(MAX_JOINTS);
        let joints: JointNumbers = numbers
            .filter_map(|name| self.numbers_of_joints.get(*name).copied())
            .collect();
        if limits.is_none() && joints.is_empty() {
            return self.release(now, volume);
        }
        let limits = limits.map(|limits| Box::new(*limits));
        if let Some(known) = self.known.get(&volume) {
            let generation = generation.max(known.generation);
            let wanted = Known {
                limits,
                generation,
                joints,
            };
            if *known == wanted {
                return;
            }
            self.known.insert(volume, wanted);
        } else {
            let wanted = Known {
                limits,
                generation,
                joints,
            };
            self.known.insert(volume, wanted);
        }
        if self.volumes.contains_key(&volume) {
            self.hold_by(now, volume);
        }
    }

    /// Nothing limits a volume any more.
    fn release(&mut self, now: Time, volume: VolumeId) {
        self.known.remove(&volume);
        self.rest(Whose::Volume(volume));
        let joints = self.leave_lines(volume);
        if let Some(held) = self.volumes.remove(&volume) {
            self.passed.extend(held.lanes.into_order());
        }
        self.serve(now, joints.to_vec());
    }

    /// Other limits of a tenant or a pool, from now on. Which volumes they are of is said by [`Gate::set_with`]; none: they hold nothing.
    pub fn set_joint(&mut self, now: Time, name: &str, limits: Option<&Limits>) {
        let known = self.numbers_of_joints.get(name).copied();
        match (known, limits) {
            (None, None) => {}
            (Some(number), None) => self.drop_joint(now, name, number),
            (None, Some(limits)) => {
                self.joints_made += 1;
                let name: Arc<str> = name.into();
                self.numbers_of_joints.insert(name.clone(), self.joints_made);
                let mut joint = Joint::new(name, *limits);
                joint.bank.hold_by(now, limits, &mut self.names, self.lease_faults);
                self.joints.insert(self.joints_made, joint);
            }
            (Some(number), Some(limits)) => {
                let Some(joint) = self.joints.get_mut(&number).filter(|joint| *joint.limits != *limits) else {
                    return;
                };
                *joint.limits = *limits;
                joint.bank.hold_by(now, limits, &mut self.names, self.lease_faults);
                self.serve(now, vec![number]);
            }
        }
    }

    /// Who lends a tenant's or pool's tokens from now on, by its record: another one is asked at once, however long nobody was reached, and has its own
    /// time to be.
    pub fn set_seat(&mut self, now: Time, name: &str, term: u32, seat: Option<VolumeId>) {
        let Some(number) = self.numbers_of_joints.get(name).copied() else {
            return;
        };
        let joint = self.joints.get_mut(&number);
        let Some(joint) = joint.filter(|joint| joint.seat != (term, seat)) else {
            return;
        };
        joint.seat = (term, seat);
        // What is under way was asked of the one before.
        let is_failing = joint.failing.is_some() || joint.bank.asked.is_some();
        joint.failing = is_failing.then_some(now);
        joint.bank.hurry();
        self.look_again(Whose::Joint(number), now);
    }

    fn drop_joint(&mut self, now: Time, name: &str, number: JointNumber) {
        self.rest(Whose::Joint(number));
        self.numbers_of_joints.remove(name);
        self.joints.remove(&number);
        let is_of = |known: &&mut Known| known.joints.contains(&number);
        let mut of: Vec<VolumeId> = Vec::new();
        for (id, known) in self.known.iter_mut() {
            if is_of(&known) {
                known.joints.retain(|joint| *joint != number);
                of.push(*id);
            }
        }
        of.sort_unstable();
        for volume in of {
            let known = &self.known[&volume];
            match known.limits.is_none() && known.joints.is_empty() {
                true => self.release(now, volume),
                false if self.volumes.contains_key(&volume) => self.hold_by(now, volume),
                false => {}
            }
        }
    }

    /// What waits of a volume is held by what is known of its limits.
    pub(super) fn hold_by(&mut self, now: Time, volume: VolumeId) {
        let Some(known) = self.known.get(&volume) else {
            return;
        };
        let (limits, generation) = (known.limits.as_deref().copied().unwrap_or_default(), known.generation);
        let joints = known.joints.clone();
        let mut left = JointNumbers::new();
        if self.volumes.get(&volume).is_some_and(|held| held.joints != joints) {
            left = self.leave_lines(volume);
        }
        let held = self.volumes.entry(volume).or_insert_with(Held::new);
        held.joints = joints;
        held.bank.adopt(LeaseEpoch(generation.0.into()));
        held.bank.hold_by(now, &limits, &mut self.names, self.lease_faults);
        self.go_on(now, volume);
        if !left.is_empty() {
            self.serve(now, left.to_vec());
        }
    }
}

impl Held {
    pub(super) fn new() -> Held {
        Held {
            bank: Bank::new(),
            lanes: Lanes::default(),
            joints: JointNumbers::new(),
            tag: 0,
            lined_up: None,
            due: None,
            used: Time(0),
        }
    }
}
