//! What the directory on core 0 has others do.

use super::context::Context;
use crate::directory::{Directory, Effect};
use crate::mail::VolumeMessage;
use amita_fabric::Message;
use amita_reactor::Slice;

/// One effect, to whoever it concerns.
pub(super) fn carry_out(cx: &mut Context, directory: &mut Directory, effect: Effect) {
    use VolumeMessage as Volume;
    match effect {
        Effect::Call { call, request } => cx.control.call(call, request),
        Effect::Ask {
            node,
            tag,
            volume,
            generation,
            hand_over,
        } => match cx.peers.link_to(node) {
            Some(route) => {
                let message = Message::Release {
                    tag,
                    volume,
                    generation,
                    hand_over,
                };
                let (mail, control) = (&mut cx.mail, &mut cx.control);
                cx.peers.send_by(route, message, Slice::default(), mail, control);
            }
            None => directory.unreachable(tag, cx.peers.is_lost(node) && cx.peers.is_refused(node)),
        },
        Effect::MakeShards { opened } => cx.mail.broadcast(|| Volume::MakeShard { opened: opened.clone() }),
        Effect::Scrub {
            volume,
            generation,
            order,
        } => cx.mail.broadcast(|| Volume::Scrub {
            volume,
            generation,
            order,
        }),
        Effect::DropShards {
            volume,
            generation,
            why,
            handed_over,
        } => cx.mail.broadcast(|| Volume::DropShard {
            volume,
            generation,
            why: why.clone(),
            handed_over,
        }),
        Effect::Lost {
            volume,
            generation,
            why,
            known,
        } => cx.mail.broadcast(|| Volume::Lost {
            volume,
            generation,
            why: why.clone(),
            known: known.clone(),
        }),
        Effect::EndShards {
            volume,
            closing,
            why,
            known,
        } => cx.mail.broadcast(|| Volume::EndShard {
            volume,
            closing,
            why: why.clone(),
            known: known.clone(),
        }),
        Effect::Leave {
            volume,
            generation,
            attempt,
        } => cx.mail.broadcast(|| Volume::Leave {
            volume,
            generation,
            attempt,
        }),
        Effect::Stay { volume } => cx.mail.broadcast(|| Volume::Stay { volume }),
        Effect::VolumeRoute { core, volume, way } => cx.mail.send(core, Volume::VolumeRoute { volume, way }),
        Effect::Opened { origin, result } => {
            cx.mail
                .send(usize::from(origin.core), Volume::Opened { origin, result });
        }
        Effect::Reply { core, link, message } => cx.mail.send(core, Volume::Reply { link, message }),
    }
}
