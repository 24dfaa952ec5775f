//! Commands about reservations, on their way to the owner and back; and what I/O is held against.

use super::Core;
use crate::forwarder::{Work, is_host};
use crate::mail::{CoreMessage, Origin};
use crate::reservations::{Act, Adopted, Asked};
use amita_frontend as frontend;
use amita_reactor::Slice;
use amita_reactor::driver::{Driver, Time};
use amita_types::VolumeId;
use frontend::reservation::{Command, Refusal, State};

/// A result of a command, as it travels between cores.
type Outcome = Result<State, Refusal>;

impl Core {
    /// A front asks.
    pub(super) fn ask_reservation(&mut self, now: Time, origin: Origin, volume: VolumeId, command: &Command) {
        let text = serde_json::to_vec(command).expect("numbers and names");
        self.wait_for_route(now, volume, origin, Work::Reserve, Slice::copy_from(&text));
    }

    /// The volume is open here: core 0 carries it out.
    pub(super) fn reserve_here(&mut self, origin: Origin, volume: VolumeId, payload: &Slice) {
        match serde_json::from_slice(payload) {
            Ok(command) => self.mail.send(
                0,
                CoreMessage::ReserveHere {
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
        self.run_reservations();
    }

    pub(super) fn run_reservations(&mut self) {
        while let Some(act) = self.reservations.next_act() {
            match act {
                Act::Call(call, request) => {
                    self.to_control
                        .push(crate::control::FromCore::Metadata { call, request });
                }
                Act::Adopt(volume, adopted) => self.mail.broadcast(|| CoreMessage::Adopt {
                    volume,
                    adopted: adopted.clone(),
                }),
                Act::Ended(origin, result) => self.reserve_ended(origin, result),
            }
        }
    }

    /// A command has ended: whoever asked is told.
    pub(super) fn reserve_ended(&mut self, origin: Origin, result: Outcome) {
        self.mail
            .send(usize::from(origin.core), CoreMessage::Reserved { origin, result });
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

    /// This core goes by another state of a reservation.
    pub(super) fn on_adopt(&mut self, volume: VolumeId, adopted: Adopted) {
        self.shards.reserve(volume, adopted);
        self.adopting.push(volume);
    }

    /// Tells core 0 of reservations that nothing under way here offends against any more.
    pub(super) fn say_adopted(&mut self) {
        if self.adopting.is_empty() {
            return;
        }
        let core = self.config.core;
        for volume in std::mem::take(&mut self.adopting) {
            if self.shards.offends(volume) {
                self.adopting.push(volume);
            } else {
                self.mail.send(0, CoreMessage::Adopted { volume, core });
            }
        }
    }
}
