//! Commands about reservations, on their way to the owner and back; and what I/O is held against.

use super::context::Context;
use crate::mail::{Mail, Origin, ReservationMessage};
use crate::reservations::{Asked, Effect, Reservations};
use amita_frontend::reservation::{Command, Refusal, State};
use amita_reactor::Slice;
use amita_types::VolumeId;

/// A result of a command, as it travels between cores.
pub(super) type Outcome = Result<State, Refusal>;

/// The volume is open here: core 0 carries it out.
pub(super) fn here(mail: &mut Mail, origin: Origin, volume: VolumeId, payload: &Slice) {
    match serde_json::from_slice(payload) {
        Ok(command) => mail.send(
            0,
            ReservationMessage::ReserveHere {
                origin,
                volume,
                command,
            },
        ),
        Err(_) => ended(mail, origin, Err(Refusal::Invalid)),
    }
}

/// On core 0: carries a command out.
pub(super) fn ask(
    cx: &mut Context,
    reservations: &mut Reservations,
    origin: Origin,
    volume: VolumeId,
    command: Command,
) {
    let generation = cx.shards.generation(volume);
    let name = cx.view.volume_of(volume).map(|record| record.name.clone());
    let (Some(generation), Some(name)) = (generation, name) else {
        return ended(&mut cx.mail, origin, Err(Refusal::Unavailable));
    };
    if !origin.may_act_under(generation) {
        return ended(&mut cx.mail, origin, Err(Refusal::Unavailable));
    }
    let host = origin.host;
    let asked = Asked { origin, host, command };
    reservations.ask(volume, &name, generation, asked);
    carry_out(cx, reservations);
}

/// What the commands on core 0 need next.
pub(super) fn carry_out(cx: &mut Context, reservations: &mut Reservations) {
    while let Some(effect) = reservations.next_effect() {
        match effect {
            Effect::Call(call, request) => cx.control.call(call, request),
            Effect::Adopt(volume, adopted) => cx.mail.broadcast(|| ReservationMessage::Adopt {
                volume,
                adopted: adopted.clone(),
            }),
            Effect::Ended(origin, result) => ended(&mut cx.mail, origin, result),
        }
    }
}

/// A command has ended: whoever asked is told.
pub(super) fn ended(mail: &mut Mail, origin: Origin, result: Outcome) {
    mail.send(
        usize::from(origin.core),
        ReservationMessage::Reserved {
            origin,
            result: Box::new(result),
        },
    );
}
