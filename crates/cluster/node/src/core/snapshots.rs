//! Snapshots of volumes, between core 0 and the sequencers of all cores; and sets of them, between owners.

use super::Core;
use super::context::Context;
use crate::mail::{SnapshotMessage, VolumeMessage};
use crate::sets;
use crate::snapshots::{Asker, Effect, Order, Word};
use amita_fabric::{Cut, Message};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::{Generation, NodeId, VolumeId};
use rustc_hash::FxHashMap;

/// On core 0: begins with what is wished of the volumes that are open here.
pub(super) fn look(core: &mut Core, now: Time) {
    if core.cx.config.core != 0 {
        return;
    }
    let (directory, view) = (&core.directory, &core.cx.view);
    if view.sets().next().is_none() && core.sets.is_empty() {
        core.snapshots.look(
            now,
            view,
            |volume| directory.open_generation(volume),
            |of| directory.has_keys(of),
        );
    } else {
        // A set may have as many volumes as are open here.
        let open: FxHashMap<VolumeId, Generation> = directory.open_volumes().collect();
        core.snapshots.look(
            now,
            view,
            |volume| open.get(&volume).copied(),
            |of| directory.has_keys(of),
        );
        // One that was deposed and has not noticed leads nothing: those who are asked would not believe it (R14).
        let node = core.cx.config.node;
        let is_ours = |volume: VolumeId| {
            let record = view.volume_of(volume).filter(|record| record.owner == Some(node));
            record.is_some_and(|record| open.get(&volume) == Some(&record.generation))
        };
        core.sets.look(now, view, is_ours);
    }
    carry_out(core, now);
}

/// On core 0: time has passed.
pub(super) fn tick(core: &mut Core, now: Time) {
    if core.cx.config.core != 0 {
        return;
    }
    let shards = &core.cx.shards;
    core.snapshots.tick(now, |volume| shards.lacking_generation(volume));
    core.sets.tick(now);
    look(core, now);
}

/// What the snapshots on core 0 need next, and the sets that are led there.
pub(super) fn carry_out(core: &mut Core, now: Time) {
    loop {
        while let Some(effect) = core.snapshots.next_effect() {
            carry_out_one(core, now, effect);
        }
        match core.sets.next_effect() {
            None => return,
            Some(sets::Effect::Call(call, request)) => core.cx.control.call(call, request),
            Some(sets::Effect::Ask(node, cut)) => ask(core, now, node, cut),
        }
    }
}

fn carry_out_one(core: &mut Core, now: Time, effect: Effect) {
    match effect {
        Effect::Call(call, request) => core.cx.control.call(call, request),
        Effect::Order(volume, generation, order) => {
            let message = SnapshotMessage::Order {
                volume,
                generation,
                order,
            };
            match order {
                Order::Hold => core.directory.hold(volume, true),
                Order::LetGo => core.directory.hold(volume, false),
                _ => {}
            }
            match order {
                // One fence a store is enough: the stores are those of all cores.
                Order::Require => core.cx.mail.send(0, message),
                _ => core.cx.mail.broadcast(|| message),
            }
        }
        Effect::Answer(Asker::Here { tag }, outcome) => {
            let node = core.cx.config.node;
            core.sets.answered_by(now, node, tag, outcome);
        }
        Effect::Answer(
            Asker::Link {
                core: holder,
                link,
                tag,
            },
            outcome,
        ) => {
            let message = Message::CutDone { tag, outcome };
            core.cx.mail.send(holder, VolumeMessage::Reply { link, message });
        }
    }
}

/// Asks an owner for a step, wherever it is.
fn ask(core: &mut Core, now: Time, node: NodeId, cut: Cut) {
    if node == core.cx.config.node {
        return core.snapshots.asked(now, Asker::Here { tag: cut.tag }, true, &cut);
    }
    match core.cx.peers.link_to(node) {
        Some(route) => {
            let (mail, control) = (&mut core.cx.mail, &mut core.cx.control);
            core.cx
                .peers
                .send_by(route, Message::Cut(cut), Slice::default(), mail, control);
        }
        None => core.sets.unreached(now, node, cut.tag),
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
            match order {
                Order::Hold => core.cx.say_drained(),
                // What was held back goes on.
                Order::LetGo => core.forwarding.settle(&mut core.cx, now, volume),
                _ => {}
            }
        }
        SnapshotMessage::Word {
            volume,
            generation,
            core: from,
            word,
        } => {
            core.snapshots.said(volume, generation, from, word);
            carry_out(core, now);
        }
        SnapshotMessage::Asked {
            core: holder,
            link,
            from,
            cut,
        } => {
            let asker = Asker::Link {
                core: holder,
                link,
                tag: cut.tag,
            };
            let view = &core.cx.view;
            let first = view.set(cut.set).and_then(|(set, _)| set.first());
            let leads = first.is_some_and(|first| view.owner(first) == Some(from));
            core.snapshots.asked(now, asker, leads, &cut);
            carry_out(core, now);
        }
        SnapshotMessage::Answered { from, tag, outcome } => {
            core.sets.answered_by(now, from, tag, outcome);
            carry_out(core, now);
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
