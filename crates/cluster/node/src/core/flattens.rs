//! Clones that are being flattened, between core 0 and the sequencers of all cores: a chunk is opened by a read of one of its blocks,
//! as any host's.

use super::Core;
use super::route;
use crate::flattens::{Effect, FLATTENS};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::BLOCK_BYTES;
use amita_types::io::{IoError, Op};

/// On core 0: begins with what is wished of the volumes that are open here, and goes on with it.
pub(super) fn look(core: &mut Core, now: Time) {
    if core.cx.config.core != 0 {
        return;
    }
    let (directory, shards) = (&core.directory, &core.cx.shards);
    core.flattens.look(now, &core.cx.view, |volume| {
        shards.chunk_bytes(volume).filter(|_| directory.is_open(volume))
    });
    carry_out(core, now);
}

/// What they need next.
pub(super) fn carry_out(core: &mut Core, now: Time) {
    while let Some(effect) = core.flattens.next_effect() {
        match effect {
            Effect::Call(call, request) => core.cx.control.call(call, request),
            Effect::Read { tag, volume, offset } => {
                let origin = core.cx.origin(now, FLATTENS, tag);
                let length = BLOCK_BYTES;
                let (cx, forwarding) = (&mut core.cx, &mut core.forwarding);
                let op = Op::Read { offset, length };
                route::route(cx, forwarding, now, origin, volume, op, Slice::default());
            }
        }
    }
}

/// A read has ended. What it brings is of no interest.
pub(super) fn ended(core: &mut Core, now: Time, tag: u64, result: Result<(), IoError>) {
    core.flattens.ended(now, tag, result);
    carry_out(core, now);
}
