//! Volumes that clients open by their names, by the right of an export, and what becomes of that when the export changes.
//!
//! Who may do what is judged when the client asks, when the volume is open, and whenever the metadata's records change, so
//! that a right that ends ends its sessions. A right that is not there may be on its way: an operator gives it and has the
//! client connect at once, and the record comes by the watch. So a client without a right is not refused before some time has
//! passed, nor before a node that starts knows all records, and then not before the metadata has said that this node is not
//! behind ([`super::doubts`]). That it takes as long for names that do not exist tells nothing.

use super::{Core, bases, doubts, views};
use crate::exports::{Grant, Usage, judge, judge_source, listed};
use crate::mail::{DirectoryMessage, Origin, VolumeMessage};
use amita_frontend::{Event, FrontId, OpenError, VolumeInfo, Who, snapshot_named};
use amita_reactor::driver::{Driver, Time};
use amita_types::VolumeId;
use amita_types::map::{MAX_SNAPSHOT_NAME, is_hidden};
use amita_types::name::MAX_NAME_BYTES;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long a record may be on its way: a right is made durable before it is told, which a busy disk takes a second for.
const ON_ITS_WAY: Duration = Duration::from_secs(2);
/// How long a node that starts may take to know all records.
const STARTING: Duration = Duration::from_secs(8);

/// How long what is on its way is waited for in all, where the metadata says that it is: about so long, as it is asked now and then.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Why it is no longer.
pub(super) const LATE: &str = "this node has not heard from the metadata yet of what there is";

/// Volumes are listed so often on a core, at most: that looks at all of them, and I/O waits meanwhile.
const LISTING_PAUSE: Duration = Duration::from_millis(20);

/// A client that asks for a volume which it has, as far as is known, no right to.
pub(super) struct Waiting {
    pub(super) origin: Origin,
    pub(super) name: String,
    pub(super) who: Who,
    /// When it has asked.
    asked: Time,
    /// Since when it waits: this time, if it is not the first.
    since: Time,
    /// Since when it is known that the volume is another one than this node knows of.
    unseen: Option<Time>,
    /// It is asked which of these snapshots it can be compared with, and not opened.
    bases: Option<Vec<String>>,
}

/// Clients that want to know what there is for them: of one name after the other, however many sessions one has. Each session asks
/// for one thing at a time.
#[derive(Default)]
struct Listings {
    /// By the name of the client, where it has proven one, in order of time.
    of: BTreeMap<Option<Arc<str>>, VecDeque<(Origin, Who)>>,
    /// Whose turn it is next; each that waits is there once.
    turns: VecDeque<Option<Arc<str>>>,
    /// How many wait.
    count: usize,
}

impl Listings {
    fn push(&mut self, origin: Origin, who: Who) {
        let name = match &who {
            Who::Client(client) => Some(client.name.clone()),
            Who::Program | Who::Local | Who::Stranger => None,
        };
        let line = self.of.entry(name.clone()).or_default();
        if line.is_empty() {
            self.turns.push_back(name);
        }
        line.push_back((origin, who));
        self.count += 1;
    }

    fn pop(&mut self) -> Option<(Origin, Who)> {
        let name = self.turns.pop_front()?;
        let line = self.of.get_mut(&name)?;
        let first = line.pop_front();
        self.count -= usize::from(first.is_some());
        if line.is_empty() {
            self.of.remove(&name);
        } else {
            self.turns.push_back(name);
        }
        first
    }

    /// Only those that are meant go on waiting.
    fn retain(&mut self, mut is_meant: impl FnMut(&Origin) -> bool) {
        self.of.retain(|_, line| {
            line.retain(|(origin, _)| is_meant(origin));
            !line.is_empty()
        });
        let of = &self.of;
        self.turns.retain(|name| of.contains_key(name));
        self.count = of.values().map(VecDeque::len).sum();
    }
}

/// What a core knows of clients that ask by name.
#[derive(Default)]
pub(super) struct Named {
    /// In order of time. Each session asks for one volume at a time; those that have gone meanwhile are removed before there are more
    /// than sessions.
    waiting: Vec<Waiting>,
    listings: Listings,
    /// The next of them is answered then.
    listing_from: Time,
    /// All records of the metadata are known, as they were at the start.
    settled: bool,
    /// Rights may have changed.
    changed: bool,
}

impl Named {
    /// All records are known.
    pub(super) fn settle(&mut self) {
        self.settled = true;
        self.changed = true;
    }

    /// Rights may have changed, if `changed`.
    pub(super) fn note(&mut self, changed: bool) {
        self.changed |= changed;
    }

    fn patience(&self) -> Duration {
        if self.settled { ON_ITS_WAY } else { STARTING }
    }

    /// When [`look`] is wanted.
    pub(super) fn deadline(&self) -> Option<Time> {
        let first = self.waiting.first().map(|first| first.since.plus(self.patience()));
        let listing = (self.listings.count > 0).then_some(self.listing_from);
        first.into_iter().chain(listing).min()
    }

    /// Is [`look`] to be called?
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.changed || self.deadline().is_some_and(|at| at <= now)
    }
}

/// A client asks for a volume, or (`bases`) with which snapshots it can be compared.
pub(super) fn ask(core: &mut Core, now: Time, origin: Origin, mut name: String, who: Who, bases: Option<Vec<String>>) {
    if name.len() > MAX_NAME_BYTES + 1 + MAX_SNAPSHOT_NAME {
        // No volume has it, nor this one, and that is told as late.
        name = String::new();
    }
    let waiting = Waiting {
        origin,
        name,
        who,
        asked: now,
        since: now,
        unseen: None,
        bases,
    };
    if let Some(waiting) = begin(core, waiting) {
        wait(core, waiting);
    }
}

/// It goes on waiting. No more wait than there are sessions: those that have gone make room.
fn wait(core: &mut Core, waiting: Waiting) {
    if core.named.waiting.len() >= core.fronts.sessions() {
        let fronts = &mut core.fronts;
        let is_there = |waiting: &Waiting| fronts.usage(waiting.origin.front).is_some();
        core.named.waiting.retain(is_there);
    }
    core.named.waiting.push(waiting);
}

/// A client asks which volumes there are for it.
pub(super) fn list(core: &mut Core, now: Time, origin: Origin, who: Who) {
    if who == Who::Stranger {
        // There are none, which takes no looking, and nobody's turn.
        return tell_listed(core, origin, &who);
    }
    if core.named.listings.count >= core.fronts.sessions() {
        let fronts = &mut core.fronts;
        core.named
            .listings
            .retain(|origin| fronts.usage(origin.front).is_some());
    }
    core.named.listings.push(origin, who);
    answer_listing(core, now);
}

fn answer_listing(core: &mut Core, now: Time) {
    if now < core.named.listing_from {
        return;
    }
    while let Some((origin, who)) = core.named.listings.pop() {
        // Who has gone meanwhile takes no turn.
        if core.fronts.usage(origin.front).is_some() {
            tell_listed(core, origin, &who);
            core.named.listing_from = now.plus(LISTING_PAUSE);
            return;
        }
    }
}

fn tell_listed(core: &mut Core, origin: Origin, who: &Who) {
    let exports = listed(&core.cx.view, who);
    core.cx
        .mail
        .send(core.cx.config.core, VolumeMessage::Listed { origin, exports });
}

/// Opens the volume, if the client has the right to; else it goes on waiting.
pub(super) fn begin(core: &mut Core, asked: Waiting) -> Option<Waiting> {
    let snapshot = snapshot_named(&asked.name);
    let volume = snapshot.map_or(asked.name.as_str(), |(volume, _)| volume);
    // A deleted volume has no name.
    let volume = Some(volume).filter(|volume| !is_hidden(volume));
    let volume = volume.and_then(|name| core.cx.view.volume_named(name));
    let volume = volume.map(|volume| volume.id);
    let may = |volume: &VolumeId| judge(&core.cx.view, *volume, &asked.who).is_some();
    let Some(volume) = volume.filter(may) else {
        return Some(asked);
    };
    let is_snapshot = snapshot.is_some();
    let Waiting {
        origin,
        name,
        who,
        since,
        unseen,
        bases,
        ..
    } = asked;
    if let Some(only) = bases {
        bases::ask(core, since, origin, volume, name, who, only);
        return None;
    }
    if is_snapshot {
        views::ask(core, since, origin, volume, name, who);
        return None;
    }
    if let Some(usage) = core.fronts.usage(origin.front) {
        *usage = Some(Usage {
            who,
            open: None,
            unseen,
        });
        core.cx.mail.send(0, DirectoryMessage::Open { origin, name });
    }
    None
}

/// A volume that a client has asked for is open, or not: what the client is told; none: it goes on waiting. It has the volume open where it is told so, and
/// not else.
pub(super) fn opened(
    core: &mut Core,
    origin: &Origin,
    now: Time,
    result: Result<VolumeInfo, OpenError>,
) -> Option<Result<VolumeInfo, OpenError>> {
    let Some(Some(usage)) = core.fronts.usage(origin.front) else {
        return Some(result);
    };
    let info = match result {
        Ok(info) => info,
        Err(why) => return Some(Err(why)),
    };
    if core.cx.view.volume_of(info.id).is_none() {
        // It was reverted this moment, or made anew: whose right there is to it is on its way.
        let who = usage.who.clone();
        let unseen = *usage.unseen.get_or_insert(now);
        if now >= unseen.plus(LONGEST_WAIT) {
            return Some(Err(OpenError::Unavailable(LATE.to_owned())));
        }
        let waiting = Waiting {
            origin: *origin,
            name: info.name,
            who,
            asked: now,
            since: now,
            unseen: Some(unseen),
            bases: None,
        };
        wait(core, waiting);
        return None;
    }
    Some(judged(core, origin.front, info))
}

fn judged(core: &mut Core, front: FrontId, mut info: VolumeInfo) -> Result<VolumeInfo, OpenError> {
    let Some(Some(usage)) = core.fronts.usage(front) else {
        return Ok(info);
    };
    match judge(&core.cx.view, info.id, &usage.who) {
        Some(Grant { read_only }) => {
            usage.open = Some((info.source(), read_only));
            info.read_only |= read_only;
            Ok(info)
        }
        None => Err(OpenError::NotFound),
    }
}

/// Rights may have changed, or somebody has waited long enough.
pub(super) fn look(core: &mut Core, driver: &mut dyn Driver) {
    let now = driver.now();
    if std::mem::take(&mut core.named.changed) {
        for (front, usage) in core.fronts.usages() {
            let Some((source, read_only)) = usage.open else {
                continue;
            };
            if judge_source(&core.cx.view, source, &usage.who) != Some(Grant { read_only }) {
                let why = "the client's right to it has ended, or is another one".to_owned();
                core.fronts.event(driver, front, Event::Lost { source, why });
            }
        }
    }
    answer_listing(core, now);
    let patience = core.named.patience();
    for waiting in std::mem::take(&mut core.named.waiting) {
        if let Some(waiting) = begin(core, waiting) {
            if now < waiting.since.plus(patience) {
                core.named.waiting.push(waiting);
                continue;
            }
            // There is nothing for strangers, whatever there is.
            if waiting.who == Who::Stranger {
                refuse(core, driver, &waiting, OpenError::NotFound);
            } else if let Some(waiting) = doubts::ask(core, now, waiting) {
                wait_longer(core, driver, waiting, "the metadata is asked for too many clients");
            }
        }
    }
}

/// What is missing here may be on its way: it is waited for once more, but not for good. It is not said that there is none.
pub(super) fn wait_longer(core: &mut Core, driver: &mut dyn Driver, waiting: Waiting, why: &str) {
    let now = driver.now();
    if now >= waiting.asked.plus(LONGEST_WAIT) {
        return refuse(core, driver, &waiting, OpenError::Unavailable(why.to_owned()));
    }
    wait(core, Waiting { since: now, ..waiting });
}

/// It waits no longer.
pub(super) fn refuse(core: &mut Core, driver: &mut dyn Driver, waiting: &Waiting, why: OpenError) {
    let Origin { front, tag, .. } = waiting.origin;
    let event = match waiting.bases {
        Some(_) => Event::Bases { tag, result: Err(why) },
        None => Event::Opened { tag, result: Err(why) },
    };
    core.fronts.event(driver, front, event);
}
