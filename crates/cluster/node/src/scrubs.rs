//! Looks at all copies of this node's volumes: on core 0 only.
//!
//! Somebody has asked for one in the metadata ([`amita_types::map::Scrub`]): an operator, or the schedule. Every core's
//! sequencer looks at its own chunks, group by group; how many groups all cores have behind them is noted in the record now and then, with
//! what was found there, and when all have ended the result is written beside the request. A new owner goes on behind the groups that
//! were noted. One that an operator has paused stands still at all cores, and is begun by nobody; one that was taken back is given up.

use crate::view::View;
use amita_metadata::{Call, Compare, Error, Op, Reply};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::map::{self, ScrubProgress, ScrubReport, Unread};
use amita_types::{Generation, GroupIndex, StoreId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// After a call that failed.
const RETRY: Duration = Duration::from_secs(1);
/// How often the place is noted.
const NOTE: Duration = Duration::from_secs(5);

/// What the sequencers of all cores are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The look of this number goes on; one that was not begun begins with this group.
    Go {
        /// Its number.
        number: u64,
        /// Those before it were looked at.
        from: GroupIndex,
    },
    /// Nothing more is begun.
    Hold,
    /// It is given up.
    End,
}

/// One that is under way.
struct Scrub {
    generation: Generation,
    /// The number that was asked for.
    number: u64,
    /// Groups that were looked at before it began here.
    from: GroupIndex,
    /// Groups that all cores have behind them.
    done: u32,
    /// What was found in those.
    report: ScrubReport,
    /// Groups that only some cores have behind them: how many, and what those have found.
    partly: BTreeMap<GroupIndex, (usize, ScrubReport)>,
    /// Cores that have ended.
    ended: BTreeSet<usize>,
    /// Stores that were not in sync when it began, or later, and in how many groups.
    absent: BTreeMap<StoreId, u32>,
    is_held: bool,
    call: Option<CallId>,
    /// That call says that it has ended.
    is_told: bool,
    retry: Option<Time>,
    /// The place that the record names, and when it is noted anew.
    noted: u32,
    note_at: Option<Time>,
}

impl Scrub {
    fn unread(&self) -> Vec<Unread> {
        let unread = self.absent.iter();
        unread.map(|(&store, &groups)| Unread { store, groups }).collect()
    }

    /// Only what was in sync all the time was looked at for sure.
    fn add_absent(&mut self, absent: BTreeMap<StoreId, u32>) {
        for (store, groups) in absent {
            let known = self.absent.entry(store).or_default();
            *known = groups.max(*known);
        }
    }
}

/// The stores whose copies of the volume are not looked at, since they are not in sync.
fn absent(view: &View, volume: VolumeId) -> BTreeMap<StoreId, u32> {
    let volume = view.volume_of(volume);
    volume.map(|volume| view.absent(&volume.pool)).unwrap_or_default()
}

/// Groups of the volume's pool.
fn groups(view: &View, volume: VolumeId) -> u32 {
    let volume = view.volume_of(volume);
    volume.map_or(0, |volume| view.group_count(&volume.pool))
}

pub struct Scrubs {
    cores: usize,
    /// Ids of calls: below this stands a count.
    base: u64,
    count: u64,
    volumes: BTreeMap<VolumeId, Scrub>,
}

impl Scrubs {
    /// None; `base` stands above the low 20 bits of every call's id.
    pub fn new(cores: usize, base: u64) -> Scrubs {
        Scrubs {
            cores,
            base,
            count: 0,
            volumes: BTreeMap::new(),
        }
    }

    /// What the cores are to do about this volume, which is open here, and have not been told yet.
    pub fn order(&mut self, view: &View, volume: VolumeId, generation: Generation) -> Option<Order> {
        let record = view.scrub(volume).map(|(scrub, _)| scrub);
        let wanted = record.filter(|scrub| scrub.is_under_way());
        let known = self.volumes.get_mut(&volume);
        if let Some(known) = known.filter(|known| known.generation == generation) {
            let Some(wanted) = wanted.filter(|wanted| wanted.requested <= known.number) else {
                let is_at_work = known.ended.len() < self.cores;
                self.volumes.remove(&volume);
                // It was taken back; if another was asked for since, that is told next.
                return is_at_work.then_some(Order::End);
            };
            let is_held = wanted.paused.is_some();
            if known.is_held == is_held {
                return None;
            }
            known.is_held = is_held;
            let (number, from) = (known.number, known.from);
            return Some(match is_held {
                true => Order::Hold,
                false => Order::Go { number, from },
            });
        }
        let wanted = wanted.filter(|wanted| wanted.is_due())?;
        let progress = wanted.progress.clone().unwrap_or_default();
        let from = GroupIndex(progress.done);
        let mut scrub = Scrub {
            generation,
            number: wanted.requested,
            from,
            done: progress.done,
            report: progress.report,
            partly: BTreeMap::new(),
            ended: BTreeSet::new(),
            absent: progress.unread.iter().map(|own| (own.store, own.groups)).collect(),
            is_held: false,
            call: None,
            is_told: false,
            retry: None,
            noted: progress.done,
            note_at: None,
        };
        scrub.add_absent(absent(view, volume));
        let number = scrub.number;
        self.volumes.insert(volume, scrub);
        Some(Order::Go { number, from })
    }

    /// A core's sequencer has looked at all its chunks of a group, and at all of them if that is the last.
    pub fn looked(
        &mut self,
        now: Time,
        (volume, generation): (VolumeId, Generation),
        core: usize,
        (number, group, is_last): (u64, GroupIndex, bool),
        report: ScrubReport,
    ) {
        let known = self.volumes.get_mut(&volume);
        let known = known.filter(|known| (known.generation, known.number) == (generation, number));
        let Some(scrub) = known else { return };
        if group.0 >= scrub.done {
            let (cores, found) = scrub.partly.entry(group).or_default();
            *cores += 1;
            *found += report;
        }
        while let Some(entry) = scrub.partly.first_entry()
            && entry.get().0 >= self.cores
        {
            let (group, (_, found)) = entry.remove_entry();
            scrub.done = group.0 + 1;
            scrub.report += found;
        }
        if is_last {
            scrub.ended.insert(core);
        }
        if scrub.done > scrub.noted {
            scrub.note_at.get_or_insert(now.plus(NOTE));
        }
    }

    /// The calls that are to be made now.
    pub fn calls(&mut self, now: Time, view: &View) -> Vec<(CallId, Call)> {
        let mut calls = Vec::new();
        if self.volumes.is_empty() {
            return calls;
        }
        for (&id, scrub) in &mut self.volumes {
            let waits = scrub.retry.is_some_and(|at| at > now);
            let has_ended = scrub.ended.len() >= self.cores;
            let is_to_be_noted = scrub.note_at.is_some_and(|at| at <= now);
            if !(has_ended || is_to_be_noted) || scrub.call.is_some() || waits {
                continue;
            }
            let Some((known, revision)) = view.scrub(id).filter(|(known, _)| known.finished < scrub.number) else {
                scrub.note_at = None;
                scrub.retry = Some(now.plus(RETRY));
                continue;
            };
            scrub.add_absent(absent(view, id));
            let record = match has_ended {
                true => map::Scrub {
                    finished: scrub.number,
                    report: scrub.report,
                    unread: scrub.unread(),
                    cancelled: false,
                    progress: None,
                    paused: None,
                    ..known.clone()
                },
                false => map::Scrub {
                    progress: Some(ScrubProgress {
                        done: scrub.done,
                        groups: groups(view, id),
                        report: scrub.report,
                        unread: scrub.unread(),
                    }),
                    ..known.clone()
                },
            };
            scrub.noted = scrub.done;
            scrub.note_at = None;
            scrub.is_told = has_ended;
            let key = map::scrub_key(id);
            self.count = (self.count + 1) & 0xf_ffff;
            let number = CallId(self.base | self.count);
            scrub.call = Some(number);
            scrub.retry = Some(now.plus(RETRY));
            let call = Call {
                compares: vec![Compare::ModRevision {
                    key: key.clone(),
                    equals: revision,
                }],
                then: vec![Op::Put {
                    key,
                    value: serde_json::to_vec(&record).expect("a record of numbers"),
                    lease: None,
                }],
                otherwise: Vec::new(),
            };
            calls.push((number, call));
        }
        calls
    }

    /// A call has ended; `false`: it is none of ours. A place that was not noted is noted with the next one.
    pub fn answered(&mut self, call: CallId, result: &Result<Reply, Error>) -> bool {
        let found = self.volumes.iter_mut().find(|(_, s)| s.call == Some(call));
        let Some((&id, scrub)) = found else {
            return call.0 & !0xf_ffff == self.base;
        };
        scrub.call = None;
        if scrub.is_told && result.as_ref().is_ok_and(|reply| reply.succeeded) {
            self.volumes.remove(&id);
        }
        true
    }

    /// When [`Scrubs::calls`] is next wanted.
    pub fn deadline(&self) -> Option<Time> {
        let idle = self.volumes.values().filter(|s| s.call.is_none());
        let wanted = idle.filter_map(|s| {
            let at = match s.ended.len() >= self.cores {
                true => Time(0),
                false => s.note_at?,
            };
            Some(s.retry.map_or(at, |retry| retry.max(at)))
        });
        wanted.min()
    }
}

#[cfg(test)]
mod tests;
