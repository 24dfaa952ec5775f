//! Commands about reservations, on their way to the owner and back; and what I/O is held against.

use super::Core;
use crate::forwarder::is_host;
use crate::mail::{Origin, ReservationMessage};
use crate::reservations::{Asked, Effect};
use amita_frontend as frontend;
use amita_reactor::Slice;
use amita_reactor::driver::Driver;
use amita_types::VolumeId;
use frontend::reservation::{Command, Refusal, State};

/// A result of a command, as it travels between cores.
type Outcome = Result<State, Refusal>;

impl Core {
    /// The volume is open here: core 0 carries it out.
    pub(super) fn reserve_here(&mut self, origin: Origin, volume: VolumeId, payload: &Slice) {
        match serde_json::from_slice(payload) {
            Ok(command) => self.mail.send(
                0,
                ReservationMessage::ReserveHere {
                    origin,
                    volume,
                    command,
                },
            ),
            Err(_) => self.reserve_ended(origin, Err(Refusal::Invalid)),
        }
    }

    /// On core 0.
    pub(super) fn on_reserve(&mut self, origin: Origin, volume: VolumeId, command: Command) {
        let generation = self.shards.generation(volume);
        let name = self.view.volume_of(volume).map(|record| record.name.clone());
        let (Some(generation), Some(name)) = (generation, name) else {
            return self.reserve_ended(origin, Err(Refusal::Unavailable));
        };
        if !origin.may_act_under(generation) {
            return self.reserve_ended(origin, Err(Refusal::Unavailable));
        }
        let host = origin.host;
        let asked = Asked { origin, host, command };
        self.reservations.ask(volume, &name, generation, asked);
        self.carry_out_reservations();
    }

    pub(super) fn carry_out_reservations(&mut self) {
        while let Some(effect) = self.reservations.next_effect() {
            match effect {
                Effect::Call(call, request) => self.control.call(call, request),
                Effect::Adopt(volume, adopted) => self.mail.broadcast(|| ReservationMessage::Adopt {
                    volume,
                    adopted: adopted.clone(),
                }),
                Effect::Ended(origin, result) => self.reserve_ended(origin, result),
            }
        }
    }

    /// A command has ended: whoever asked is told.
    pub(super) fn reserve_ended(&mut self, origin: Origin, result: Outcome) {
        self.mail.send(
            usize::from(origin.core),
            ReservationMessage::Reserved { origin, result },
        );
    }

    /// A command that came in on this core has ended.
    pub(super) fn on_reserved(&mut self, driver: &mut dyn Driver, origin: Origin, result: Outcome) {
        if !is_host(origin.front) {
            return self.forward_reserved(driver.now(), origin.tag, &result);
        }
        let tag = origin.tag;
        self.fronts
            .event(driver, origin.front, frontend::Event::Reserved { tag, result });
    }
}
