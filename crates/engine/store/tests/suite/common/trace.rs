//! A run, written down: what the device was asked and in which order it ended, and between that what the owner sent and
//! what was acknowledged. Played again, it says at each moment what a power cut can leave and what must be held.

use super::image::Image;
use super::model::{Change, Model};
use super::{Fate, Outcome, Rng};
use amita_store::IoId;
use amita_types::{Epoch, Generation, Version};
use std::collections::HashMap;

/// What the device promises of a write that has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// It survives. Only what is under way can be lost or torn.
    Sure,
    /// It survives the next flush.
    Volatile,
    /// The same, and where the file has a hole, the space that was written since reads as zeros in whole extents. What is
    /// discarded becomes a hole.
    Holes,
    /// It survives, unless it was written to a place that was discarded: that one is a hole, and the write survives the
    /// next flush.
    Punched,
}

impl Medium {
    pub fn is_volatile(self) -> bool {
        self != Medium::Sure
    }

    /// Does it take discards that leave holes?
    pub fn punches(self) -> bool {
        matches!(self, Medium::Holes | Medium::Punched)
    }
}

/// How the file system converts what was a hole, in bytes.
pub const EXTENT: u64 = 64 << 10;

/// Who may own the volume, as far as the store was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub generation: Generation,
    pub epoch: Epoch,
}

/// What a store must hold.
#[derive(Clone, Debug)]
pub struct Held {
    pub model: Model,
    /// It has acknowledged this one.
    pub known: Option<Right>,
    /// It has been asked for this one, and may have it.
    pub asked: Right,
    /// How often something was acknowledged.
    pub acknowledgements: u64,
}

/// A write of the store.
#[derive(Clone, Debug)]
pub struct TracedWrite {
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// It is a discard, and these bytes are what it leaves.
    pub discard: bool,
}

#[derive(Clone, Debug)]
pub enum Event {
    /// A write begins; an index into [`Trace::writes`].
    Write(usize),
    Written(usize),
    Flush(usize),
    Flushed(usize),
    /// The owner sends a change of a chunk.
    Sent {
        chunk: u64,
        version: Version,
        previous: Version,
        change: Change,
    },
    Acknowledged {
        chunk: u64,
        version: Version,
    },
    /// The last change that was sent was refused.
    Refused {
        chunk: u64,
    },
    /// After a mount the store says that the chunk is at this version.
    Settled {
        chunk: u64,
        version: Version,
    },
    Fence(Right),
    Fenced(Right),
}

/// A run, from the opening of the store on.
#[derive(Clone, Debug)]
pub struct Trace {
    pub medium: Medium,
    /// What the disk surely had before.
    pub image: Image,
    /// What it had in its cache before (its process was killed, not its power).
    pub cached: Vec<TracedWrite>,
    pub held: Held,
    pub writes: Vec<TracedWrite>,
    pub events: Vec<Event>,
    flushes: usize,
    under_way: HashMap<IoId, Event>,
}

impl Trace {
    pub fn new(medium: Medium, image: Image, cached: Vec<TracedWrite>, held: Held) -> Trace {
        Trace {
            medium,
            image,
            cached,
            held,
            writes: Vec::new(),
            events: Vec::new(),
            flushes: 0,
            under_way: HashMap::new(),
        }
    }

    pub fn write(&mut self, io: IoId, offset: u64, bytes: Vec<u8>) {
        let at = self.writes.len();
        self.writes.push(TracedWrite {
            offset,
            bytes,
            discard: false,
        });
        self.events.push(Event::Write(at));
        self.under_way.insert(io, Event::Written(at));
    }

    /// What a discarded place reads as is undefined: zeros in a file, noise on a device.
    pub fn discard(&mut self, io: IoId, offset: u64, bytes: u64) {
        let bytes = bytes as usize;
        let left = match self.medium {
            Medium::Holes | Medium::Punched => vec![0; bytes],
            Medium::Sure | Medium::Volatile => Rng(offset).bytes(bytes),
        };
        self.write(io, offset, left);
        self.writes.last_mut().expect("it was put there").discard = true;
    }

    pub fn flush(&mut self, io: IoId) {
        self.events.push(Event::Flush(self.flushes));
        self.under_way.insert(io, Event::Flushed(self.flushes));
        self.flushes += 1;
    }

    pub fn ended(&mut self, io: IoId, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Good, "only a device that works is traced");
        let event = self.under_way.remove(&io).expect("it began");
        self.events.push(event);
    }

    pub fn replay(&self) -> Replay<'_> {
        Replay {
            trace: self,
            at: 0,
            durable: self.image.clone(),
            loose: (0..self.cached.len())
                .map(|at| LooseWrite {
                    id: at,
                    write: &self.cached[at],
                    done: true,
                })
                .collect(),
            flushing: HashMap::new(),
            punched: Vec::new(),
            held: self.held.clone(),
            durable_key: 0,
        }
    }
}

/// A write that a power cut may lose.
#[derive(Clone, Copy, Debug)]
pub struct LooseWrite<'a> {
    pub id: usize,
    pub write: &'a TracedWrite,
    done: bool,
}

/// What an event has changed for a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Another write may be there.
    Write,
    /// More must be held.
    Held,
    /// Less may be lost, or nothing has changed.
    Less,
}

/// A trace at one moment.
#[derive(Debug)]
pub struct Replay<'a> {
    trace: &'a Trace,
    at: usize,
    pub durable: Image,
    /// In the order in which they overwrite one another: those that have completed, then those under way.
    pub loose: Vec<LooseWrite<'a>>,
    /// For each flush under way, the writes that it covers.
    flushing: HashMap<usize, Vec<usize>>,
    /// What was discarded.
    punched: Vec<&'a TracedWrite>,
    pub held: Held,
    /// Names what is durable: the same for the same set of writes.
    durable_key: u64,
}

impl<'a> Replay<'a> {
    /// How many events have been played.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Plays the next event.
    pub fn step(&mut self) -> Option<News> {
        let trace = self.trace;
        let event = trace.events.get(self.at)?;
        self.at += 1;
        let cached = trace.cached.len();
        let mut news = News::Less;
        match event {
            Event::Write(at) => {
                let write = &trace.writes[*at];
                let apart = |other: &LooseWrite<'_>| other.done || !overlap(other.write, write);
                assert!(
                    self.loose.iter().all(apart),
                    "two writes to {} are under way at once, and nobody knows which one will last",
                    write.offset
                );
                let id = cached + at;
                if write.discard {
                    self.punched.push(write);
                }
                self.loose.push(LooseWrite { id, write, done: false });
                news = News::Write;
            }
            Event::Written(at) => self.written(cached + at),
            Event::Flush(flush) => {
                let covered = self.loose.iter().filter(|loose| loose.done).map(|loose| loose.id);
                self.flushing.insert(*flush, covered.collect());
            }
            Event::Flushed(flush) => {
                let covered = self.flushing.remove(flush).expect("it began");
                for id in covered {
                    if let Some(at) = self.loose.iter().position(|loose| loose.id == id) {
                        self.endure(at);
                    }
                }
            }
            Event::Sent {
                chunk,
                version,
                previous,
                change,
            } => self.held.model.chunk(*chunk).send(*version, *previous, change.clone()),
            Event::Refused { chunk } => self.held.model.chunk(*chunk).take_back(),
            Event::Acknowledged { chunk, version } => {
                self.held.model.chunk(*chunk).acknowledge(*version);
                news = News::Held;
            }
            Event::Settled { chunk, version } => {
                self.held.model.chunk(*chunk).settle(*version);
                news = News::Held;
            }
            Event::Fence(right) => self.held.asked = *right,
            Event::Fenced(right) => {
                self.held.known = Some(*right);
                news = News::Held;
            }
        }
        self.held.acknowledgements += u64::from(news == News::Held);
        Some(news)
    }

    fn written(&mut self, id: usize) {
        let at = self.loose.iter().position(|loose| loose.id == id);
        let mut loose = self.loose.remove(at.expect("it began"));
        loose.done = true;
        let at = self.loose.iter().take_while(|loose| loose.done).count();
        self.loose.insert(at, loose);
        let write = loose.write;
        let sure = match self.trace.medium {
            Medium::Sure => true,
            Medium::Volatile | Medium::Holes => false,
            Medium::Punched => !write.discard && !self.punched.iter().any(|hole| overlap(hole, write)),
        };
        if sure {
            self.endure(at);
        }
    }

    fn endure(&mut self, at: usize) {
        let LooseWrite { id, write, .. } = self.loose.remove(at);
        self.durable.write(write.offset, &write.bytes);
        self.durable_key = self.durable_key.wrapping_add(fate_key(id, Fate::Kept));
    }

    /// What a power cut leaves now, when each loose write meets its fate.
    pub fn image(&self, cut: &Cut) -> Image {
        assert_eq!(cut.fates.len(), self.loose.len());
        let mut image = self.durable.clone();
        for (loose, &fate) in self.loose.iter().zip(&cut.fates) {
            let TracedWrite { offset, bytes, .. } = loose.write;
            image.strike(fate, *offset, bytes);
        }
        for (loose, &fate) in self.loose.iter().zip(&cut.fates) {
            if let Some(extent) = cut.extent
                && fate != Fate::Lost
                && let Some((from, length)) = part_in(loose.write, extent)
            {
                image.write(from, &vec![0; length]);
            }
        }
        image
    }

    /// Names an image and what it must hold. Two cuts that leave the same have the same name.
    pub fn key(&self, cut: &Cut) -> u64 {
        let mut key = self.durable_key.wrapping_add(mix(self.held.acknowledgements));
        for (loose, &fate) in self.loose.iter().zip(&cut.fates) {
            let mut fate = fate;
            let sectors = loose.write.bytes.len() / super::SECTOR;
            match fate {
                Fate::First(0) => fate = Fate::Lost,
                Fate::First(n) if usize::from(n) >= sectors => fate = Fate::Kept,
                Fate::Last(0) => fate = Fate::Kept,
                Fate::Last(n) if usize::from(n) >= sectors => fate = Fate::Lost,
                _ => {}
            }
            let inside = cut.extent.filter(|&extent| part_in(loose.write, extent).is_some());
            if fate != Fate::Lost {
                key = key.wrapping_add(fate_key(loose.id, fate));
                key = key.wrapping_add(inside.map_or(0, |extent| mix(mix(loose.id as u64) ^ extent)));
            }
        }
        key
    }
}

/// The part of a write that lies in an extent.
pub fn part_in(write: &TracedWrite, extent: u64) -> Option<(u64, usize)> {
    let from = write.offset.max(extent);
    let to = (write.offset + write.bytes.len() as u64).min(extent + EXTENT);
    (from < to).then(|| (from, (to - from) as usize))
}

fn overlap(one: &TracedWrite, other: &TracedWrite) -> bool {
    let end = |write: &TracedWrite| write.offset + write.bytes.len() as u64;
    one.offset < end(other) && other.offset < end(one)
}

/// What a power cut does: a fate for each loose write, and the extent, if any, that reads as zeros wherever something
/// arrived in it.
#[derive(Clone, Debug)]
pub struct Cut {
    pub fates: Vec<Fate>,
    pub extent: Option<u64>,
}

fn mix(value: u64) -> u64 {
    amita_types::layout::mix(value.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

fn fate_key(id: usize, fate: Fate) -> u64 {
    let (kind, value) = match fate {
        Fate::Lost => return 0,
        Fate::Kept => (1, 0),
        Fate::Zeros => (2, 0),
        Fate::First(sectors) => (3, u64::from(sectors)),
        Fate::Last(sectors) => (4, u64::from(sectors)),
        Fate::Torn(seed) => (5, seed),
    };
    mix(mix(mix(id as u64) ^ kind) ^ value)
}
