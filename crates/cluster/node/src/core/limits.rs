//! Limits of volumes on their way: what passes the gate is routed, asks go where the volume's I/O goes, and core 0 of the owner
//! answers them. What is decided where is told in [`crate::limits`].

use super::Core;
use super::context::Context;
use super::route;
use crate::forwarder::{Work, is_host};
use crate::limits::{Answer, Asks, read_asks, write_asks};
use crate::mail::{LimitMessage, Mail, Origin};
use crate::snapshots::Order;
use amita_control::limits;
use amita_frontend::FrontId;
use amita_reactor::Slice;
use amita_reactor::driver::{Driver, Time};
use amita_types::VolumeId;
use amita_types::io::{IoError, Payload};

/// The front of a gate's asks; their tag is the volume's number.
pub(super) const LIMITS: FrontId = FrontId(u64::MAX - 4);

/// The record of a volume has changed, or is gone.
pub(super) fn changed(core: &mut Core, now: Time, volume: VolumeId) {
    let record = core.cx.view.volume_of(volume);
    let generation = record.map_or_else(Default::default, |record| record.generation);
    let limits = record.and_then(|record| record.limits.as_deref()).map(limits::read);
    if core.cx.config.core == 0 {
        let limits = limits.as_ref().and_then(|limits| limits.as_ref().ok());
        let limits = limits.copied().unwrap_or_default();
        core.lender.limits_changed(now, volume, &limits);
    }
    match limits {
        None => core.forwarding.gate.set(now, volume, None, generation),
        Some(Ok(limits)) => core.forwarding.gate.set(now, volume, Some(&limits), generation),
        // Nor would its owner lend anything.
        Some(Err(why)) => {
            core.forwarding.gate.set(now, volume, None, generation);
            if core.cx.config.core == 0 {
                core.cx.control.warn(format!(
                    "the limits in the record of volume {volume} cannot be kept, and it is not limited ({why}): set others (`amita \
                     volume limit set`)"
                ));
            }
        }
    }
}

/// What has passed goes on, and what is lacking is asked for.
pub(super) fn go_on(core: &mut Core, driver: &mut dyn Driver) -> bool {
    let left = core.fronts.take_left();
    if !left.is_empty() {
        core.forwarding.gate.cancel(&left);
    }
    let now = driver.now();
    if core.forwarding.gate.deadline().is_some_and(|at| at <= now) {
        core.forwarding.gate.tick(now);
    }
    let mut moved = false;
    while let Some(passage) = core.forwarding.gate.next_passed() {
        moved = true;
        let mut origin = passage.origin;
        // This core has looked after the connection until now: the host is there, and has not gone on (R9).
        origin.kept = core.cx.clock.began();
        route::route(
            &mut core.cx,
            &mut core.forwarding,
            now,
            origin,
            passage.volume,
            passage.op,
            passage.payload,
        );
    }
    while let Some((origin, why)) = core.forwarding.gate.next_ended() {
        moved = true;
        core.cx.done(origin, Err(why), Payload::None);
    }
    while let Some((volume, asks)) = core.forwarding.gate.next_asks() {
        moved = true;
        ask(core, now, volume, &asks);
    }
    moved
}

/// Asks go where the volume's I/O goes.
fn ask(core: &mut Core, now: Time, volume: VolumeId, asks: &Asks) {
    let origin = core.cx.origin(now, LIMITS, volume.0);
    let work = match core.forwarding.gate.waits(volume) {
        true => Work::Lend,
        false => Work::GiveBack,
    };
    core.forwarding
        .wait(&mut core.cx, now, volume, origin, work, write_asks(asks));
}

/// A message of another core, or of this one.
pub(super) fn on_mail(core: &mut Core, now: Time, message: LimitMessage) {
    match message {
        LimitMessage::Ask {
            origin,
            volume,
            work,
            payload,
        } => core.forwarding.wait(&mut core.cx, now, volume, origin, work, payload),
        LimitMessage::AskHere {
            origin,
            volume,
            payload,
        } => {
            let result = lend(core, now, origin, volume, &payload);
            ended(&mut core.cx.mail, origin, result);
        }
        LimitMessage::Lent { origin, result } => match is_host(origin.front) {
            true => core.forwarding.gate.answered(now, VolumeId(origin.tag), *result),
            false => core.forwarding.receiving.lent(&mut core.cx, now, origin.tag, *result),
        },
    }
}

/// On core 0: the volume is open here, and a gate asks.
fn lend(core: &mut Core, now: Time, origin: Origin, volume: VolumeId, payload: &Slice) -> Result<Answer, IoError> {
    let asks = read_asks(payload).ok_or(IoError::Invalid)?;
    // One that is on its way to another gateway lends nothing more: that one counts from its opening.
    let generation = core
        .cx
        .shards
        .generation(volume)
        .filter(|_| core.cx.shards.is_open(volume));
    let generation = generation.filter(|generation| origin.may_act_under(*generation));
    let generation = generation.ok_or(IoError::Busy)?;
    let mut adopted = true;
    if core.lender.awaits(volume, generation) {
        // One fence a store is enough, by whichever core: it keeps generations by the volume (S2).
        adopted = core.cx.shards.lacking_generation(volume).is_empty();
        if !adopted && core.lender.is_new(volume, generation) {
            core.cx.shards.snapshot(now, volume, generation, Order::Require);
        }
    }
    let limits = limits_of(&core.cx, volume).unwrap_or_default();
    Ok(core.lender.ask(now, (volume, generation), adopted, &limits, &asks))
}

fn limits_of(cx: &Context, volume: VolumeId) -> Option<amita_qos::Limits> {
    let record = cx.view.volume_of(volume)?;
    limits::read(record.limits.as_deref()?).ok()
}

/// Whoever asked is told.
pub(super) fn ended(mail: &mut Mail, origin: Origin, result: Result<Answer, IoError>) {
    let result = Box::new(result);
    mail.send(usize::from(origin.core), LimitMessage::Lent { origin, result });
}
