//! Clones that this node owns and that are to be flattened (S13): on core 0 only.
//!
//! The operator's wish is a record ([`map::Flatten`]). Of each chunk one block is read, as a host would: opening the chunk for that makes it
//! of what its parents have, on all members in sync, and first on those that are being brought up to date and have the parents whole.
//! What is made stays, whoever owns the volume next. So all that is to be remembered is up to where that was done, which is noted in
//! the record now and then, and a successor goes on from there. When it is done everywhere the coordinator, or the command that
//! waits for it, takes the parents out of the volume's record.

use crate::view::View;
use amita_frontend::FrontId;
use amita_metadata::{Call, Compare, Op};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::io::IoError;
use amita_types::map::{self, Flatten};
use amita_types::{BLOCK_BYTES, VolumeId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The front of these reads.
pub const FLATTENS: FrontId = FrontId(u64::MAX - 2);
/// Reads of one volume that are under way. A chunk that is made takes up to 20 KiB of log on each store: clients' I/O goes before.
const DEPTH: usize = 8;
/// Before a read that failed is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// A read that has not ended by then was forgotten, with those of hosts, when this core had stood still.
const LONGEST: Duration = Duration::from_secs(30);
/// How often the place is noted.
const NOTE: Duration = Duration::from_secs(1);
/// After reads have failed for so long the record says why.
const AILS_AFTER: Duration = Duration::from_secs(5);
/// The most volumes at one time; the others wait for their turn, in order of their numbers, and behind them those whose reads fail.
const MOST: usize = 4;

/// A volume whose reads fail gives its turn for so long to those that wait for one.
const ASIDE: Duration = Duration::from_secs(30);

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// A metadata call.
    Call(CallId, Call),
    /// A block of the chunk is to be read; [`Flattens::ended`] is told by this number.
    Read {
        /// Its number.
        tag: u64,
        /// The volume.
        volume: VolumeId,
        /// Where, in bytes.
        offset: u64,
    },
}

#[derive(Debug)]
struct Flattening {
    /// As the watch has told of it last.
    record: Flatten,
    revision: u64,
    chunk_bytes: u64,
    size_bytes: u64,
    /// The first chunk that was not asked for.
    next: u64,
    /// Reads that failed, by their chunk: when they are tried again, and how often they were.
    failed: BTreeMap<u64, (Time, u64)>,
    /// Since when reads fail and none succeeds, and with what.
    ails: Option<(Time, IoError)>,
    call: Option<CallId>,
    /// When the place is noted next.
    note_at: Time,
}

impl Flattening {
    /// Up to where all is made.
    fn done(&self, under_way: impl Iterator<Item = u64>) -> u64 {
        let failed = self.failed.keys().next().copied();
        under_way.chain(failed).fold(self.next, u64::min)
    }
}

/// A read that is under way.
#[derive(Clone, Copy, Debug)]
struct Reading {
    began: Time,
    volume: VolumeId,
    chunk: u64,
    tries: u64,
}

/// All that are under way here.
pub struct Flattens {
    base: u64,
    count: u64,
    tags: u64,
    volumes: BTreeMap<VolumeId, Flattening>,
    /// Those that have given up their turn, and until when.
    aside: BTreeMap<VolumeId, Time>,
    /// In the order in which they began.
    reads: BTreeMap<u64, Reading>,
    effects: VecDeque<Effect>,
}

impl Flattens {
    /// None; `base` stands above the low 20 bits of every call's id.
    #[must_use]
    pub fn new(base: u64) -> Flattens {
        Flattens {
            base,
            count: 0,
            tags: 0,
            volumes: BTreeMap::new(),
            aside: BTreeMap::new(),
            reads: BTreeMap::new(),
            effects: VecDeque::new(),
        }
    }

    /// The next thing to do.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Flattens::look`] is wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        if self.volumes.is_empty() && self.reads.is_empty() && self.aside.is_empty() {
            return None;
        }
        let forgotten = self.reads.values().next().map(|read| read.began.plus(LONGEST));
        let of_volumes = self.volumes.iter().flat_map(|(volume, flattening)| {
            let reads = self.reads.values().filter(|read| read.volume == *volume);
            // What waits for another read to end has no time of its own.
            let retries = flattening.failed.values().map(|(at, _)| *at).min();
            let retries = retries.filter(|_| reads.count() < DEPTH);
            [retries, flattening.call.is_none().then_some(flattening.note_at)]
        });
        let returns = self.aside.values().copied();
        of_volumes.flatten().chain(forgotten).chain(returns).min()
    }

    /// Goes on with what is wished of volumes that are open here; `chunk_bytes` of one that is.
    pub fn look(&mut self, now: Time, view: &View, chunk_bytes: impl Fn(VolumeId) -> Option<u32>) {
        if self.volumes.is_empty() && view.flattens().next().is_none() {
            self.aside.clear();
            return;
        }
        while let Some((&tag, read)) = self.reads.first_key_value()
            && read.began.plus(LONGEST) <= now
        {
            self.ended(now, tag, Err(IoError::Unavailable));
        }
        let ours = view.flattens().filter_map(|(volume, record, revision)| {
            let size_bytes = view.volume_of(volume)?.size_bytes;
            Some((volume, record, revision, chunk_bytes(volume)?, size_bytes))
        });
        let mut ours: Vec<_> = ours.collect();
        self.give_turns(now, ours.len());
        ours.sort_by_key(|(volume, ..)| self.aside.contains_key(volume));
        ours.truncate(MOST);
        self.volumes
            .retain(|volume, _| ours.iter().any(|(ours, ..)| ours == volume));
        for (volume, record, revision, chunk_bytes, size_bytes) in ours {
            let is_new = |known: &Flattening| known.record.asked_at != record.asked_at;
            if self.volumes.get(&volume).is_some_and(is_new) {
                self.volumes.remove(&volume);
            }
            let flattening = self.volumes.entry(volume).or_insert_with(|| Flattening {
                record: record.clone(),
                revision,
                chunk_bytes: u64::from(chunk_bytes),
                size_bytes,
                next: record.done,
                failed: BTreeMap::new(),
                ails: None,
                call: None,
                note_at: now.plus(NOTE),
            });
            if revision > flattening.revision {
                (flattening.record, flattening.revision) = (record.clone(), revision);
            }
        }
        let volumes: Vec<VolumeId> = self.volumes.keys().copied().collect();
        for volume in volumes {
            self.ask(now, volume);
            self.note(now, volume);
        }
    }

    /// Those whose reads fail, and whose record says so, let others go first, where there are more than have a turn.
    fn give_turns(&mut self, now: Time, wanted: usize) {
        if wanted <= MOST {
            return self.aside.clear();
        }
        self.aside.retain(|_, until| now < *until);
        let fails = self.volumes.iter().filter(|(_, flattening)| {
            let for_long = flattening.ails.is_some_and(|(since, _)| since.plus(AILS_AFTER) <= now);
            for_long && flattening.record.ails.is_some()
        });
        for (volume, _) in fails {
            self.aside.entry(*volume).or_insert(now.plus(ASIDE));
        }
    }

    /// Begins reads, as many as may be.
    fn ask(&mut self, now: Time, volume: VolumeId) {
        let reads = self.reads.values().filter(|read| read.volume == volume);
        let mut under_way = reads.count();
        let Some(flattening) = self.volumes.get_mut(&volume) else {
            return;
        };
        while under_way < DEPTH {
            let due = flattening.failed.iter().find(|(_, (at, _))| *at <= now);
            let (chunk, tries) = match due {
                Some((&chunk, &(_, tries))) => {
                    flattening.failed.remove(&chunk);
                    (chunk, tries)
                }
                // What fails is few, or there is no sense in going on.
                None if flattening.next < flattening.record.chunks && flattening.failed.len() < DEPTH => {
                    flattening.next += 1;
                    (flattening.next - 1, 0)
                }
                None => return,
            };
            let begin = chunk * flattening.chunk_bytes;
            let bytes = flattening.size_bytes.saturating_sub(begin).min(flattening.chunk_bytes);
            // Which block is of no matter: where one cannot be read, it is another one's turn.
            let blocks = (bytes / u64::from(BLOCK_BYTES)).max(1);
            let offset = begin + tries % blocks * u64::from(BLOCK_BYTES);
            self.tags += 1;
            let tag = self.tags;
            let read = Reading {
                began: now,
                volume,
                chunk,
                tries,
            };
            self.reads.insert(tag, read);
            self.effects.push_back(Effect::Read { tag, volume, offset });
            under_way += 1;
        }
    }

    /// A read has ended.
    pub fn ended(&mut self, now: Time, tag: u64, result: Result<(), IoError>) {
        let Some(read) = self.reads.remove(&tag) else {
            return;
        };
        let Some(flattening) = self.volumes.get_mut(&read.volume) else {
            return;
        };
        match result {
            Ok(()) => flattening.ails = None,
            Err(why) => {
                let since = flattening.ails.map_or(now, |(since, _)| since);
                flattening.ails = Some((since, why));
                flattening.failed.insert(read.chunk, (now.plus(RETRY), read.tries + 1));
            }
        }
        self.ask(now, read.volume);
        self.note(now, read.volume);
    }

    /// Notes the place in the record, at the end or when it is time.
    fn note(&mut self, now: Time, volume: VolumeId) {
        let reads = self.reads.values().filter(|read| read.volume == volume);
        let under_way = reads.map(|read| read.chunk);
        let Some(flattening) = self.volumes.get_mut(&volume) else {
            return;
        };
        let done = flattening.done(under_way);
        let is_late = now >= flattening.note_at;
        if flattening.call.is_some() || !(is_late || done >= flattening.record.chunks) {
            return;
        }
        let ails = flattening
            .ails
            .and_then(|(since, why)| match since.plus(AILS_AFTER) <= now {
                true => Some(why.to_string()),
                // What was said at its last turn stays until a read succeeds.
                false => flattening.record.ails.clone(),
            });
        let record = Flatten {
            done,
            ails,
            ..flattening.record.clone()
        };
        flattening.note_at = now.plus(NOTE);
        if record == flattening.record {
            return;
        }
        let key = map::flatten_key(volume);
        self.count = (self.count + 1) & 0xf_ffff;
        let call = CallId(self.base | self.count);
        flattening.call = Some(call);
        let request = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: flattening.revision,
            }],
            then: vec![Op::Put {
                key,
                value: serde_json::to_vec(&record).expect("a record of numbers"),
                lease: None,
            }],
            otherwise: Vec::new(),
        };
        self.effects.push_back(Effect::Call(call, request));
    }

    /// A call has ended; `false`: it is none of ours. The watch tells what the record is then.
    pub fn answered(&mut self, now: Time, call: CallId) -> bool {
        let found = self.volumes.values_mut().find(|found| found.call == Some(call));
        if let Some(flattening) = found {
            flattening.call = None;
            flattening.note_at = now.plus(NOTE);
        }
        call.0 & !0xf_ffff == self.base
    }
}

#[cfg(test)]
mod tests;
