//! Limits and priorities on their way: what passes the gate is routed, asks go where the I/O of a volume goes, and one core of its owner
//! answers them. What is decided where is told in [`crate::limits`].

use super::context::Context;
use super::route;
use super::{Core, joints, slowed};
use crate::forwarder::{Work, is_host};
use crate::limits::{Answer, Asks, Whose, lending_core, read_asks, read_joint_asks, write_asks, write_joint_asks};
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
/// The front of its asks for tokens of tenants and pools; their tag is the number that those have at the gate.
const JOINTS: FrontId = FrontId(u64::MAX - 5);

/// A volume has moved to another pool: what waits by its limits goes on waiting, by what it is now.
pub(super) fn moved(core: &mut Core, now: Time, old: VolumeId, new: VolumeId) {
    changed(core, now, new);
    core.forwarding.gate.moved(now, old, new);
    changed(core, now, old);
}

/// The record of a volume has changed, or is gone.
pub(super) fn changed(core: &mut Core, now: Time, volume: VolumeId) {
    let record = core.cx.view.volume_of(volume);
    let generation = record.map_or_else(Default::default, |record| record.generation);
    let limits = record.and_then(|record| record.limits.as_deref()).map(limits::read);
    let joints = core.cx.view.joints_of(volume);
    let joints: Vec<&str> = joints.iter().map(String::as_str).collect();
    if core.cx.config.core == lending_core(volume, core.cx.config.cores) {
        let limits = limits.as_ref().and_then(|limits| limits.as_ref().ok());
        let limits = limits.copied().unwrap_or_default();
        core.lender.limits_changed(now, volume, &limits);
    }
    let priority = core
        .cx
        .view
        .volume_of(volume)
        .and_then(|record| record.priority.as_deref());
    core.cx.stores.rank(now, volume, priority.copied());
    let gate = &mut core.forwarding.gate;
    match limits {
        None => gate.set_with(now, volume, None, generation, &joints),
        Some(Ok(limits)) => gate.set_with(now, volume, Some(&limits), generation, &joints),
        // Nor would its owner lend anything.
        Some(Err(why)) => {
            gate.set_with(now, volume, None, generation, &joints);
            if core.cx.config.core == 0 {
                core.cx.control.warn(format!(
                    "the limits in the record of volume {volume} cannot be kept, and it is not limited ({why}): set others (`amita \
                     volume limit set`)"
                ));
            }
        }
    }
}

/// The record of a tenant's or pool's limits has changed, or is gone.
pub(super) fn joint_changed(core: &mut Core, now: Time, name: &str) {
    let read = core.cx.view.joint(name).map(|(record, _)| limits::read(&record.limits));
    let limits = match read {
        None => None,
        Some(Ok(limits)) => Some(limits).filter(|limits| *limits != amita_qos::Limits::default()),
        Some(Err(why)) => {
            if core.cx.config.core == 0 {
                core.cx.control.warn(format!(
                    "the limits of {name} cannot be kept, and do not hold ({why}): set others (`amita tenant limits set`, `amita pool \
                     limits set`)"
                ));
            }
            None
        }
    };
    core.lender.joint_limits_changed(now, name, &limits.unwrap_or_default());
    core.forwarding.gate.set_joint(now, name, limits.as_ref());
    if let Some((record, _)) = core.cx.view.joint(name) {
        core.forwarding.gate.set_seat(now, name, record.term, record.seat);
    }
    for volume in core.cx.view.volumes_under(name) {
        changed(core, now, volume);
    }
}

/// What has passed goes on, and what is lacking is asked for.
pub(super) fn go_on(core: &mut Core, driver: &mut dyn Driver) -> bool {
    let left = core.fronts.take_left();
    if !left.is_empty() {
        core.forwarding.gate.cancel(&left);
    }
    let now = driver.now();
    let mut moved = slowed::go_on(&mut core.cx, &mut core.forwarding, now, &left);
    if core.forwarding.gate.deadline().is_some_and(|at| at <= now) {
        core.forwarding.gate.tick(now);
    }
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
    while let Some((whose, asks)) = core.forwarding.gate.next_asks() {
        moved = true;
        match whose {
            Whose::Volume(volume) => ask(core, now, volume, &asks),
            Whose::Joint(number) => ask_joint(core, now, number, &asks),
        }
    }
    joints::look(core, now);
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

/// Asks for the tokens of a tenant or pool go where the I/O of their seat goes.
fn ask_joint(core: &mut Core, now: Time, number: u32, asks: &Asks) {
    let Some(name) = core.forwarding.gate.joint_name(number).cloned() else {
        return;
    };
    let whose = Whose::Joint(number);
    let Some(seat) = joints::to_ask(core, &name) else {
        let waiting: Vec<VolumeId> = core.forwarding.gate.in_line(number).collect();
        joints::give_away(core, now, &name, waiting.into_iter());
        return core.forwarding.gate.answered(now, whose, Err(IoError::Busy));
    };
    let origin = core.cx.origin(now, JOINTS, number.into());
    let work = match core.forwarding.gate.waits(whose) {
        true => Work::Lend,
        false => Work::GiveBack,
    };
    let payload = write_joint_asks(&name, asks);
    core.forwarding.wait(&mut core.cx, now, seat, origin, work, payload);
}

/// Who lends a tenant's or pool's tokens has answered, or nobody could be asked: where that stays so, somebody else is to lend them.
fn joint_answered(core: &mut Core, now: Time, number: u32, result: Result<Answer, IoError>) {
    let is_away = result == Err(IoError::Unavailable);
    core.forwarding.gate.answered(now, Whose::Joint(number), result);
    if is_away
        && core.forwarding.gate.gives_up(now, number)
        && let Some(name) = core.forwarding.gate.joint_name(number).cloned()
    {
        let waiting: Vec<VolumeId> = core.forwarding.gate.in_line(number).collect();
        joints::give_away(core, now, &name, waiting.into_iter());
    }
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
            true if origin.front == JOINTS => joint_answered(core, now, origin.tag as u32, *result),
            true => core.forwarding.gate.answered(now, VolumeId(origin.tag), *result),
            false => core.forwarding.receiving.lent(&mut core.cx, now, origin.tag, *result),
        },
    }
}

/// The volume is open here, and a gate asks for its tokens, or for those of a tenant or pool whose seat it is.
fn lend(core: &mut Core, now: Time, origin: Origin, volume: VolumeId, payload: &Slice) -> Result<Answer, IoError> {
    let joint = read_joint_asks(payload);
    let asks = match &joint {
        Some(_) => Asks::new(),
        None => read_asks(payload).ok_or(IoError::Invalid)?,
    };
    let generation = core
        .cx
        .shards
        .generation(volume)
        .filter(|_| core.cx.shards.lends(volume));
    let generation = generation.filter(|generation| origin.may_act_under(*generation));
    let generation = generation.ok_or(IoError::Busy)?;
    if let Some((name, asks)) = joint {
        let (seat, record) = joints::seat(core, &name, volume, generation).ok_or(IoError::Busy)?;
        let limits = limits::read(&record.limits).unwrap_or_default();
        return Ok(core.lender.ask_joint(now, &name, seat, &limits, &asks));
    }
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
