//! Moves that hosts ask for, between the sessions of all cores and core 0.

use super::Core;
use crate::mail::NodeMessage;
use crate::wishes::{Asker, Effect};
use amita_reactor::driver::Time;
use amita_types::VolumeId;

/// On core 0: a host wants the volume to be owned by the gateway with that tag.
pub(super) fn ask(core: &mut Core, now: Time, asker: Asker, volume: VolumeId, group: u16) {
    let view = &core.cx.view;
    let gateway = view.iscsi_gateways().find(|gateway| gateway.tag == group);
    let living = gateway.filter(|gateway| view.lives(gateway.node) && gateway.is_of(view.session(gateway.node)));
    let living = living.map(|gateway| gateway.node);
    let name = view.volume_of(volume).map(|record| record.name.clone());
    match (living, name) {
        (Some(to), Some(name)) => core.wishes.ask(now, asker, volume, &name, to),
        _ => core.wishes.refuse(asker),
    }
    carry_out(core);
}

/// What they need next.
pub(super) fn carry_out(core: &mut Core) {
    while let Some(effect) = core.wishes.next_effect() {
        match effect {
            Effect::Call(call, request) => core.cx.control.call(call, request),
            Effect::Answer { asker, is_accepted } => {
                let Asker { connection, tag } = asker;
                let (front, word) = (connection.front, amita_iscsi::Reply::Moving { is_accepted });
                core.cx.mail.send(
                    usize::from(connection.core),
                    NodeMessage::IscsiReply { front, tag, word },
                );
            }
        }
    }
}
