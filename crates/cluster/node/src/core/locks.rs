//! Locks of volumes ([`amita_frontend::reservation::Lock`]) whose nexus is gone: they are given up.
//!
//! A lock is looked at as the metadata tells it, and again whenever something may have ended it: its connection here, or the run of its
//! gateway's program, which the volume's owner sees. So it makes no difference whether the command that locked was still on its way when its
//! connection broke, or its outcome never heard. What is sent names the very lock, and changes nothing of another one; it is sent until the lock
//! is gone.

use super::Core;
use crate::forwarder::Work;
use amita_frontend::FrontId;
use amita_frontend::reservation::{Command, Lock};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::VolumeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The front of what is asked for here.
pub(super) const LOCKS: FrontId = FrontId(u64::MAX - 3);
/// So many are given up at once: each is a transaction of the metadata.
const MAX_AT_ONCE: usize = 64;
/// How soon what could not be given up is tried again, and how soon the next of many are.
const PAUSE: Duration = Duration::from_secs(1);
/// Longer than a command waits for an owner: what was not answered by then is asked for again.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a core knows of locks that are to end.
#[derive(Default)]
pub(super) struct Locks {
    /// All records of the metadata are known, as they were at the start: before that the living could be taken for dead.
    settled: bool,
    due: Option<Time>,
    /// How many fronts had ended when they were last looked at.
    seen: u64,
    /// Those that are being given up, and since when.
    asked: BTreeMap<VolumeId, (Lock, Time)>,
}

impl Locks {
    /// All records of the metadata are known.
    pub(super) fn settle(&mut self, now: Time) {
        self.settled = true;
        self.stir(now);
    }

    /// Something may have ended one.
    pub(super) fn stir(&mut self, now: Time) {
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
    }

    /// One was given up, or not.
    pub(super) fn answered(&mut self, now: Time, tag: u64, worked: bool) {
        // That it is gone the metadata tells.
        if !worked {
            self.asked.remove(&VolumeId(tag));
            self.stir(now.plus(PAUSE));
        }
    }

    /// Is it to be given up now? If it was a moment ago, it is looked at later.
    fn is_next(&mut self, now: Time, volume: VolumeId, lock: Lock) -> bool {
        let since = self.asked.get(&volume).filter(|(known, _)| *known == lock);
        match since.map(|(_, since)| since.plus(PATIENCE)) {
            Some(again) if now < again => {
                self.stir(again);
                false
            }
            _ => true,
        }
    }
}

/// When [`look`] is wanted: never, where nothing is locked.
pub(super) fn deadline(core: &Core) -> Option<Time> {
    core.cx.view.locks().next()?;
    match core.locks.seen == core.fronts.ended() {
        true => core.locks.due,
        false => Some(Time(0)),
    }
}

/// Gives up what has to be.
pub(super) fn look(core: &mut Core, now: Time) {
    core.locks.due = None;
    core.locks.seen = core.fronts.ended();
    let view = &core.cx.view;
    let runs: BTreeSet<u64> = view.living().filter_map(|node| view.session(node)).collect();
    let is_over = |(volume, lock): &(VolumeId, Lock)| is_over(core, &runs, *volume, lock);
    let over: Vec<(VolumeId, Lock)> = view.locks().filter(is_over).collect();
    let volumes: BTreeSet<VolumeId> = over.iter().map(|(volume, _)| *volume).collect();
    core.locks.asked.retain(|volume, _| volumes.contains(volume));
    let mut count = 0;
    for (volume, lock) in over {
        if !core.locks.is_next(now, volume, lock) {
            continue;
        }
        if count == MAX_AT_ONCE {
            core.locks.stir(now.plus(PAUSE));
            break;
        }
        count += 1;
        core.locks.asked.insert(volume, (lock, now));
        core.locks.stir(now.plus(PATIENCE));
        give_up(core, now, volume, lock);
    }
}

fn give_up(core: &mut Core, now: Time, volume: VolumeId, lock: Lock) {
    let mut origin = core.cx.origin(now, LOCKS, volume.0);
    origin.host = lock.host;
    let text = serde_json::to_vec(&Command::Expire(lock)).expect("numbers");
    let text = Slice::copy_from(&text);
    core.forwarding
        .wait(&mut core.cx, now, volume, origin, Work::Reserve, text);
}

/// Is its nexus gone, and this core the one to give it up? `runs`: those of programs that live.
fn is_over(core: &Core, runs: &BTreeSet<u64>, volume: VolumeId, lock: &Lock) -> bool {
    let config = &core.cx.config;
    if lock.by.run == config.fabric.session {
        // A core that there is not has no connections, and the last one says so.
        let its_core = usize::from(lock.by.core);
        let is_ours = its_core.min(config.cores - 1) == config.core;
        let is_there = its_core == config.core && core.fronts.has(FrontId(lock.by.front));
        return is_ours && !is_there;
    }
    let is_owned = || core.cx.shards.generation(volume).is_some();
    config.core == 0 && core.locks.settled && !runs.contains(&lock.by.run) && is_owned()
}
