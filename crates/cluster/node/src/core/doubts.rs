//! Before a client is told that there is no such volume for it, the metadata says whether this node is only behind.
//!
//! What a node knows comes by a watch, and a watch may be late: a disk is busy, a connection begins anew. So who is to be refused is not
//! refused by that alone: the record of the volume's name is read, and that of its export, as they are (R6). Where there is no such volume,
//! or this node knows the same, it was right, and refuses. Where there is something else, that is on its way, and is waited for a little
//! longer. Both records are read whatever the first one says: how long it takes tells nothing of what there is.

use super::named::{self, Waiting};
use super::{Core, views};
use amita_frontend::{OpenError, Who, snapshot_named};
use amita_metadata::{self as meta, Call, Op, Reply};
use amita_reactor::driver::{Driver, Time};
use amita_sequencer::CallId;
use amita_types::VolumeId;
use amita_types::map::{self, Export, Volume, is_hidden};
use std::collections::BTreeMap;
use std::time::Duration;

/// So many are asked of at once on a core: whoever guesses names does not have the metadata answer for it.
const MAX_DOUBTS: usize = 32;
/// Of them, of one client.
const MAX_OF_CLIENT: usize = 8;
/// The metadata is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client of which the metadata is asked.
struct Doubt {
    waiting: Waiting,
    since: Time,
    /// The volume's record; none: it is not read yet, or there is none.
    volume: Option<Volume>,
    /// The record of the name was read; that of the export is being read.
    is_second: bool,
}

/// Those of a core.
#[derive(Default)]
pub(super) struct Doubts {
    /// By the call that is under way.
    asked: BTreeMap<u64, Doubt>,
    /// What the calls have brought; none: nothing.
    ended: Vec<(Doubt, Option<Reply>)>,
}

impl Doubts {
    /// May it be asked of one more, of this client?
    fn has_room(&self, who: &Who) -> bool {
        let all = || self.asked.values().chain(self.ended.iter().map(|(doubt, _)| doubt));
        all().count() < MAX_DOUBTS && all().filter(|doubt| doubt.waiting.who == *who).count() < MAX_OF_CLIENT
    }

    /// A call has ended, perhaps one of these.
    pub(super) fn answered(&mut self, call: CallId, result: Result<Reply, meta::Error>) {
        if let Some(doubt) = self.asked.remove(&call.0) {
            self.ended.push((doubt, result.ok()));
        }
    }

    /// When [`look`] is wanted.
    pub(super) fn deadline(&self) -> Option<Time> {
        let first = self.asked.values().map(|doubt| doubt.since).min()?;
        Some(first.plus(PATIENCE))
    }

    /// Is [`look`] to be called?
    pub(super) fn is_due(&self, now: Time) -> bool {
        !self.ended.is_empty() || self.deadline().is_some_and(|at| at <= now)
    }
}

/// A client has waited for what this node does not know: is it to be known? It is given back where too many are asked of.
pub(super) fn ask(core: &mut Core, now: Time, waiting: Waiting) -> Option<Waiting> {
    if !core.doubts.has_room(&waiting.who) {
        // Those that have gone make room.
        let fronts = &mut core.fronts;
        let asked = &mut core.doubts.asked;
        asked.retain(|_, doubt| fronts.usage(doubt.waiting.origin.front).is_some());
        if !core.doubts.has_room(&waiting.who) {
            return Some(waiting);
        }
    }
    let name = snapshot_named(&waiting.name).map_or(waiting.name.as_str(), |(volume, _)| volume);
    let key = map::volume_key(name);
    let doubt = Doubt {
        waiting,
        since: now,
        volume: None,
        is_second: false,
    };
    read(core, doubt, key);
    None
}

fn read(core: &mut Core, doubt: Doubt, key: String) {
    let call = views::next_call(core);
    core.doubts.asked.insert(call.0, doubt);
    let request = Call {
        compares: Vec::new(),
        then: vec![Op::Get { key }],
        otherwise: Vec::new(),
    };
    core.cx.control.call(call, request);
}

/// The metadata has answered, or has been silent for long.
pub(super) fn look(core: &mut Core, driver: &mut dyn Driver) {
    let now = driver.now();
    let asked = core.doubts.asked.iter();
    let late = asked.filter(|(_, doubt)| now >= doubt.since.plus(PATIENCE));
    let late: Vec<u64> = late.map(|(call, _)| *call).collect();
    for call in late {
        let doubt = core.doubts.asked.remove(&call);
        core.doubts.ended.extend(doubt.map(|doubt| (doubt, None)));
    }
    for (doubt, reply) in std::mem::take(&mut core.doubts.ended) {
        go_on(core, driver, doubt, reply.as_ref());
    }
}

fn go_on(core: &mut Core, driver: &mut dyn Driver, doubt: Doubt, reply: Option<&Reply>) {
    let Doubt {
        waiting,
        since,
        volume,
        is_second,
    } = doubt;
    if core.fronts.usage(waiting.origin.front).is_none() {
        return;
    }
    // What it waits for may have come meanwhile.
    let Some(waiting) = named::begin(core, waiting) else {
        return;
    };
    let Some(reply) = reply else {
        let why = OpenError::Unavailable("the metadata does not answer".to_owned());
        return named::refuse(core, driver, &waiting, why);
    };
    if !is_second {
        let volume = reply.value(0).and_then(|found| found.json::<Volume>().ok());
        let volume = volume.filter(|volume| !is_hidden(&volume.name));
        let id = volume.as_ref().map_or(VolumeId(0), |volume| volume.id);
        let doubt = Doubt {
            waiting,
            since,
            volume,
            is_second: true,
        };
        return read(core, doubt, map::export_key(id));
    }
    let is_behind = volume.is_some_and(|volume| {
        let export = reply.value(0).and_then(|found| found.json::<Export>().ok());
        let view = &core.cx.view;
        let is_same = view
            .volume_named(&volume.name)
            .is_some_and(|known| known.id == volume.id);
        !is_same || view.export(volume.id) != export.as_ref()
    });
    match is_behind {
        true => named::wait_longer(core, driver, waiting, named::LATE),
        false => named::refuse(core, driver, &waiting, OpenError::NotFound),
    }
}
