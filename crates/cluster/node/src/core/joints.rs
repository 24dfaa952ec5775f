//! Who lends the tokens of tenants and pools: the seats that their records name, which this core reads where it lends, and gives to other volumes where
//! they are gone. What is decided where is told in [`crate::limits`].

use super::Core;
use super::views;
use crate::limits::{Seat, epoch, given_to};
use amita_metadata::{Call, Compare, Op, Reply};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::map::{self, JointLimits, Volume};
use amita_types::{Generation, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Seats that are read by one call.
const READ_AT_ONCE: usize = 32;
/// An answer is waited for so long: later it would be too late for the mandate.
const PATIENCE: Duration = Duration::from_secs(2);
/// A seat is not given away again before.
const PAUSE: Duration = Duration::from_secs(1);

/// Since when it is read, and which seats are.
type Reading = (Time, Vec<(String, Seat)>);

/// Calls to the metadata about seats.
#[derive(Default)]
pub(super) struct Seats {
    /// Seats that are being read, and since when.
    reading: BTreeMap<u64, Reading>,
    /// Seats that are being given away, by the names of limits; and since when.
    giving: BTreeMap<String, Time>,
}

impl Seats {
    /// Is a call one of these?
    pub(super) fn has_asked(&self, call: CallId) -> bool {
        self.reading.contains_key(&call.0)
    }
}

/// Reads the seats of which this core lends, as far as it is time to.
pub(super) fn look(core: &mut Core, now: Time) {
    if core.seats.reading.is_empty() && core.lender.deadline().is_none_or(|at| at > now) {
        return;
    }
    let late = |(call, (since, _)): (&u64, &Reading)| (now >= since.plus(PATIENCE)).then_some(*call);
    let late: Vec<u64> = core.seats.reading.iter().filter_map(late).collect();
    for call in late {
        answered(core, now, CallId(call), None);
    }
    while core.lender.deadline().is_some_and(|at| at <= now) {
        let seats = core.lender.next_to_read(now, READ_AT_ONCE);
        if seats.is_empty() {
            continue;
        }
        let (mut then, mut asked) = (Vec::new(), Vec::new());
        for (name, seat) in seats {
            let Some(key) = core
                .cx
                .view
                .volume_of(seat.volume)
                .map(|volume| map::volume_key(&volume.name))
            else {
                core.lender.has_read(now, &name, &seat, false);
                continue;
            };
            then.push(Op::Get {
                key: map::joint_limits_key(&name),
            });
            then.push(Op::Get { key });
            asked.push((name, seat));
        }
        if asked.is_empty() {
            continue;
        }
        let call = views::next_call(core);
        core.seats.reading.insert(call.0, (now, asked));
        let request = Call {
            compares: Vec::new(),
            then,
            otherwise: Vec::new(),
        };
        core.cx.control.call(call, request);
    }
}

/// The metadata has answered.
pub(super) fn answered(core: &mut Core, now: Time, call: CallId, reply: Option<&Reply>) {
    let Some((_, seats)) = core.seats.reading.remove(&call.0) else {
        return;
    };
    let node = core.cx.config.node;
    for (place, (name, seat)) in seats.iter().enumerate() {
        let value = |at: usize| reply.and_then(|reply| reply.value(2 * place + at));
        let limits = value(0).and_then(|found| found.json::<JointLimits>().ok());
        let volume = value(1).and_then(|found| found.json::<Volume>().ok());
        let is_seat = limits.zip(volume).is_some_and(|(limits, volume)| {
            limits.seat == Some(seat.volume)
                && volume.id == seat.volume
                && volume.owner == Some(node)
                && epoch(limits.term, volume.generation) == seat.epoch
        });
        core.lender.has_read(now, name, seat, is_seat);
    }
}

/// By what the tokens of a tenant or pool are lent where a volume is open under that generation: none where it is not their seat, as far as is known here.
pub(super) fn seat(core: &Core, name: &str, volume: VolumeId, generation: Generation) -> Option<(Seat, JointLimits)> {
    let (record, _) = core.cx.view.joint(name)?;
    Some((Seat::of(record, volume, generation)?, record.clone()))
}

/// The volume whose owner is to be asked; none: there is none now.
pub(super) fn to_ask(core: &Core, name: &str) -> Option<VolumeId> {
    let seat = core.cx.view.joint(name)?.0.seat?;
    let volume = core.cx.view.volume_of(seat)?;
    (!map::is_hidden(&volume.name) && !is_closing(core, volume.id)).then_some(volume.id)
}

/// Is its owner asked to close it, so that it can be deleted? To ask for tokens there would open it again, each time.
fn is_closing(core: &Core, volume: VolumeId) -> bool {
    core.cx.view.closing(volume).is_some_and(|wish| wish.clients.is_none())
}

/// The seat is gone, or is about to be, or has no owner: it is given to another volume, of which something waits here.
pub(super) fn give_away(core: &mut Core, now: Time, name: &str, to: impl Iterator<Item = VolumeId>) {
    let is_being_given = core.seats.giving.get(name).is_some_and(|since| now < since.plus(PAUSE));
    let Some((record, revision)) = core.cx.view.joint(name).filter(|_| !is_being_given) else {
        return;
    };
    let mut others = to.filter(|volume| {
        let is_there = core.cx.view.volume_of(*volume).is_some() && !is_closing(core, *volume);
        record.seat != Some(*volume) && is_there
    });
    let Some(seat) = others.next() else { return };
    let key = map::joint_limits_key(name);
    let Some(volume) = core.cx.view.volume_of(seat) else {
        return;
    };
    let new = given_to(record, volume);
    let request = Call {
        compares: vec![Compare::ModRevision {
            key: key.clone(),
            equals: *revision,
        }],
        then: vec![Op::Put {
            key,
            value: serde_json::to_vec(&new).expect("plain data"),
            lease: None,
        }],
        otherwise: Vec::new(),
    };
    drop(others);
    core.seats.giving.insert(name.to_owned(), now);
    let call = views::next_call(core);
    core.cx.control.call(call, request);
}
