//! Snapshots of volumes, between core 0 and the sequencers of all cores.

use super::Core;
use super::context::Context;
use crate::mail::SnapshotMessage;
use crate::snapshots::{Effect, Order, Word};
use amita_reactor::driver::Time;
use amita_types::{Generation, VolumeId};

/// On core 0: begins with what is wished of the volumes that are open here.
pub(super) fn look(core: &mut Core, now: Time) {
    if core.cx.config.core != 0 {
        return;
    }
    let directory = &core.directory;
    core.snapshots
        .look(now, &core.cx.view, |volume| directory.open_generation(volume));
    carry_out(core);
}

/// On core 0: time has passed.
pub(super) fn tick(core: &mut Core, now: Time) {
    if core.cx.config.core != 0 {
        return;
    }
    let shards = &core.cx.shards;
    core.snapshots.tick(now, |volume| shards.lacking_generation(volume));
    look(core, now);
}

/// What the snapshots on core 0 need next.
pub(super) fn carry_out(core: &mut Core) {
    while let Some(effect) = core.snapshots.next_effect() {
        let message = match effect {
            Effect::Call(call, request) => {
                core.cx.control.call(call, request);
                continue;
            }
            Effect::Order(volume, generation, order) => SnapshotMessage::Order {
                volume,
                generation,
                order,
            },
        };
        match message {
            // One fence a store is enough: the stores are those of all cores.
            SnapshotMessage::Order {
                order: Order::Require, ..
            } => core.cx.mail.send(0, message),
            _ => core.cx.mail.broadcast(|| message),
        }
    }
}

/// What has come from another core, or this one.
pub(super) fn on_mail(core: &mut Core, now: Time, message: SnapshotMessage) {
    match message {
        SnapshotMessage::Order {
            volume,
            generation,
            order,
        } => {
            if core.cx.shards.snapshot(now, volume, generation, order)
                && let Order::Adopt(number) = order
            {
                tell(&mut core.cx, volume, generation, Word::Adopted(number));
            }
        }
        SnapshotMessage::Word {
            volume,
            generation,
            core: from,
            word,
        } => {
            core.snapshots.said(volume, generation, from, word);
            carry_out(core);
        }
    }
}

/// Tells core 0 what a sequencer of this core has done.
pub(super) fn tell(cx: &mut Context, volume: VolumeId, generation: Generation, word: Word) {
    let core = cx.config.core;
    cx.mail.send(
        0,
        SnapshotMessage::Word {
            volume,
            generation,
            core,
            word,
        },
    );
}
