//! Processes of a mirror at a cluster's nodes: they have what movers have, and say what they do to who plays both clusters.

use super::line::{Answer, Handle, Line};
use super::{Mover, Out, Wait, clock};
use crate::cluster::Cluster;
use crate::cluster::mirrors::wire::{FarAnswer, FarWhy};
use crate::faults::Member;
use amita_reactor::Time;
use amita_types::VolumeId;
use std::collections::BTreeMap;

impl Cluster {
    /// A process of a mirror begins at a node, which is up: its number.
    pub(in crate::cluster) fn begin_process(
        &mut self,
        member: Member,
        run: impl FnOnce(&Line) + Send + 'static,
    ) -> u64 {
        self.migrations.serial += 1;
        let serial = self.migrations.serial;
        self.migrations.movers.push(Mover {
            member,
            process: self.nodes[member].process,
            serial,
            volume: VolumeId(0),
            handle: Handle::start(clock(self.world.now()), run),
            wait: Wait::Nothing,
            open: BTreeMap::new(),
        });
        serial
    }

    /// The number that the next process has.
    pub(in crate::cluster) fn next_process(&self) -> u64 {
        self.migrations.serial + 1
    }

    /// Where a process of a mirror is, if it lives.
    pub(in crate::cluster) fn process_at(&self, serial: u64) -> Option<Member> {
        let mover = self.migrations.movers.iter().find(|mover| mover.serial == serial)?;
        (self.nodes[mover.member].process == mover.process).then_some(mover.member)
    }

    /// What processes of mirrors have said since.
    pub(in crate::cluster) fn said_of_mirrors(&mut self) -> Vec<(u64, Time, Out)> {
        std::mem::take(&mut self.migrations.outbox)
    }

    /// The other end has answered a process, or has not.
    pub(in crate::cluster) fn was_told_by_far(
        &mut self,
        now: Time,
        serial: u64,
        result: Result<FarAnswer, FarWhy>,
    ) -> Result<(), String> {
        let place = self.migrations.movers.iter().position(|mover| mover.serial == serial);
        let Some(place) = place else { return Ok(()) };
        if !matches!(self.migrations.movers[place].wait, Wait::Far) {
            return Ok(());
        }
        let mut mover = self.migrations.movers.swap_remove(place);
        mover.handle.answer(clock(now), Answer::Far(result));
        if self.pump(now, &mut mover)? {
            self.migrations.movers.push(mover);
        }
        Ok(())
    }
}
