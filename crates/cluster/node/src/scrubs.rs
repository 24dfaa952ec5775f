//! Looks at all copies of this node's volumes: on core 0 only.
//!
//! Somebody has asked for one in the metadata ([`amita_types::map::Scrub`]): an operator, or the schedule. Every core's
//! sequencer looks at its own chunks; when all have ended, what was found is written beside the request. A look that is cut
//! short by a takeover begins again at the new owner, because the request still stands.

use crate::view::View;
use amita_metadata::{Call, Compare, Error, Op, Reply};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::map::{self, ScrubReport, Unread};
use amita_types::{Generation, StoreId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// After a call that failed.
const RETRY: Duration = Duration::from_secs(1);

/// One that is under way.
struct Scrub {
    generation: Generation,
    /// The number that was asked for.
    number: u64,
    /// Cores that have ended.
    ended: BTreeSet<usize>,
    report: ScrubReport,
    /// Stores that were not in sync when it began, and in how many groups.
    absent: BTreeMap<StoreId, u32>,
    call: Option<CallId>,
    retry: Option<Time>,
}

/// The stores whose copies of the volume are not looked at, since they are not in sync.
fn absent(view: &View, volume: VolumeId) -> BTreeMap<StoreId, u32> {
    let volume = view.volume_of(volume);
    volume.map(|volume| view.absent(&volume.pool)).unwrap_or_default()
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

    /// Is one to begin of this volume, which is open here? Then it has begun.
    pub fn begin(&mut self, view: &View, volume: VolumeId, generation: Generation) -> bool {
        let Some((wanted, _)) = view.scrub(volume).filter(|(scrub, _)| scrub.requested > scrub.finished) else {
            return false;
        };
        let known = self.volumes.get(&volume);
        if known.is_some_and(|known| known.generation == generation && known.number >= wanted.requested) {
            return false;
        }
        let scrub = Scrub {
            generation,
            number: wanted.requested,
            ended: BTreeSet::new(),
            report: ScrubReport::default(),
            absent: absent(view, volume),
            call: None,
            retry: None,
        };
        self.volumes.insert(volume, scrub);
        true
    }

    /// A core's sequencer has looked at all its chunks.
    pub fn ended(&mut self, volume: VolumeId, generation: Generation, core: usize, report: ScrubReport) {
        let scrub = self.volumes.get_mut(&volume).filter(|s| s.generation == generation);
        if let Some(scrub) = scrub
            && scrub.ended.insert(core)
        {
            scrub.report += report;
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
            if scrub.ended.len() < self.cores || scrub.call.is_some() || waits {
                continue;
            }
            let Some((known, revision)) = view.scrub(id).filter(|(known, _)| known.finished < scrub.number) else {
                continue;
            };
            // Only what was in sync all the time was looked at for sure.
            for (store, groups) in absent(view, id) {
                let known = scrub.absent.entry(store).or_default();
                *known = groups.max(*known);
            }
            let unread = scrub.absent.iter().map(|(&store, &groups)| Unread { store, groups });
            let record = map::Scrub {
                finished: scrub.number,
                report: scrub.report,
                unread: unread.collect(),
                ..known.clone()
            };
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

    /// A call has ended; `false`: it is none of ours.
    pub fn answered(&mut self, call: CallId, result: &Result<Reply, Error>) -> bool {
        let found = self.volumes.iter_mut().find(|(_, s)| s.call == Some(call));
        let Some((&id, scrub)) = found else {
            return call.0 & !0xf_ffff == self.base;
        };
        scrub.call = None;
        if result.as_ref().is_ok_and(|reply| reply.succeeded) {
            self.volumes.remove(&id);
        }
        true
    }

    /// When [`Scrubs::calls`] is next wanted.
    pub fn deadline(&self) -> Option<Time> {
        let ended = self
            .volumes
            .values()
            .filter(|s| s.ended.len() == self.cores && s.call.is_none());
        ended.map(|s| s.retry.unwrap_or(Time(0))).min()
    }
}
