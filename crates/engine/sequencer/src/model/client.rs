//! Clients: they read and write at random and remember what they saw.

use super::world::{BLOCKS, CHUNKS, Event, GROUPS, MS, World, store_id, volume_id};
use crate::io::IoId;
use amita_reactor::{Slice, Time};
use amita_testkit::Random;
use amita_testkit::linear::{self, Action, SECTORS_PER_BLOCK, Stamp, Step, Width};
use amita_types::io::{IoError, Op, Payload};
use amita_types::message::{Request, RequestBody, WriteRequest};
use amita_types::{BLOCK_BYTES, ChunkId, ChunkIndex, Generation};
use std::collections::BTreeMap;

/// Most I/Os of one client under way.
const DEPTH: usize = 10;
/// The last block of each chunk is written and cleared, and not looked at but for the comparison of replicas.
const CLEARED: u64 = BLOCKS - 1;
/// What clients read and write: half a block, so that writes merge with what is there.
const CELL_BYTES: u64 = BLOCK_BYTES as u64 / 2;
/// Of a block.
pub const CELLS: u64 = 2;

#[derive(Default)]
pub struct Clock {
    pub ticks: u64,
    pub stamp: u64,
    pub next_io: u64,
    /// What was seen, by block.
    pub history: BTreeMap<u64, Vec<Step>>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write(u64),
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Under {
    invoked: u64,
    kind: Kind,
    first: u64,
    count: u64,
}

#[derive(Default)]
pub struct Client {
    under: BTreeMap<IoId, Under>,
}

impl Client {
    pub fn is_idle(&self) -> bool {
        self.under.is_empty()
    }

    /// Its gateway died: nobody learns what became of it.
    pub fn died(&mut self, clock: &mut Clock) {
        for (_, under) in std::mem::take(&mut self.under) {
            clock.unknown(&under);
        }
    }
}

impl Clock {
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn saw(&mut self, under: &Under, block: u64, completed: Option<u64>, action: Action) {
        let step = Step {
            invoked: under.invoked,
            completed,
            void_after: None,
            action,
        };
        self.history.entry(block).or_default().push(step);
    }

    /// Is every block linearizable?
    pub fn check(&self) -> Result<(), String> {
        self.history
            .iter()
            .try_for_each(|(block, steps)| linear::check(steps).map_err(|why| format!("block {block}: {why}")))
    }

    fn unknown(&mut self, under: &Under) {
        if let Kind::Write(stamp) = under.kind {
            for cell in under.first..under.first + under.count {
                self.saw(under, cell, None, write(stamp));
            }
        }
    }
}

fn number(stamp: u64) -> Stamp {
    Stamp(u32::try_from(stamp).expect("few writes"))
}

fn write(stamp: u64) -> Action {
    Action::Write {
        sectors: Width::MAX,
        stamp: number(stamp),
    }
}

fn content(stamp: u64, cell: u64) -> Vec<u8> {
    let mut bytes = vec![0; CELL_BYTES as usize];
    bytes[..8].copy_from_slice(&stamp.to_le_bytes());
    bytes[8..16].copy_from_slice(&cell.to_le_bytes());
    bytes
}

/// Is it what a client may have written, or a part of it?
pub fn plain(block: &[u8]) -> bool {
    let nothing_behind = |cell: &[u8]| cell[16..].iter().all(|byte| *byte == 0);
    block.chunks_exact(CELL_BYTES as usize).any(nothing_behind)
}

impl World {
    pub fn client(&mut self, gateway: usize, volume: usize) {
        if !self.is_open(gateway, volume) || self.settling {
            return;
        }
        let burst = if self.random.percent(20) { 6 } else { 1 };
        for _ in 0..burst {
            if self.gateways[gateway].client.under.len() < DEPTH {
                self.one_io(gateway, volume);
            }
        }
        let pause = if self.random.percent(5) {
            80 * MS
        } else {
            self.profile.think_ns
        };
        let pause = self.random.below(pause);
        self.after(pause, Event::Client { gateway, volume });
    }

    fn one_io(&mut self, gateway: usize, volume: usize) {
        let mut chunk = self.random.below(CHUNKS);
        if self.profile.hot_percent > 0 && self.random.percent(self.profile.hot_percent) {
            chunk = 0;
        }
        let place = (gateway, volume, chunk);
        let kind = self.random.below(100);
        if kind < self.profile.spare_percent {
            let clear = self.random.percent(50);
            let ask = if clear { Ask::Clear } else { Ask::Spare };
            return self.submit(place, CLEARED * CELLS, CELLS, ask);
        }
        if kind < self.profile.spare_percent + 1 {
            return self.submit(place, 0, CELLS, Ask::Allocation);
        }
        let few = |random: &mut Random| {
            let first = random.below(CLEARED);
            (first, random.within(1, 3.min(CLEARED - first)))
        };
        let (first, count) = few(&mut self.random);
        let (mut first, mut count) = (first * CELLS, count * CELLS);
        let ask = if kind < self.profile.read_percent {
            Ask::Read
        } else {
            Ask::Write
        };
        if self.profile.partial_percent > 0 && self.random.percent(self.profile.partial_percent) {
            // Half a block less, at one end or the other.
            first += self.random.below(2);
            count -= 1;
        }
        self.submit(place, first, count, ask);
    }

    pub fn submit(&mut self, (gateway, volume, chunk): (usize, usize, u64), first: u64, count: u64, ask: Ask) {
        let clock = &mut self.clock;
        clock.next_io += 1;
        let io = IoId(clock.next_io);
        let offset = (chunk * BLOCKS * CELLS + first) * CELL_BYTES;
        let length = (count * CELL_BYTES) as u32;
        let first = (volume as u64 * CHUNKS + chunk) * BLOCKS * CELLS + first;
        let mut data = Vec::new();
        let (op, kind) = match ask {
            Ask::Read => (Op::Read { offset, length }, Kind::Read),
            Ask::Write | Ask::Spare => {
                clock.stamp += 1;
                for cell in first..first + count {
                    data.extend(content(clock.stamp, cell));
                }
                let kind = if matches!(ask, Ask::Write) {
                    Kind::Write(clock.stamp)
                } else {
                    Kind::Other
                };
                (Op::Write { offset, length }, kind)
            }
            Ask::Clear => (
                Op::Clear {
                    offset,
                    length: u64::from(length),
                },
                Kind::Other,
            ),
            Ask::Allocation => (Op::Allocation { offset }, Kind::Other),
        };
        let invoked = clock.tick();
        self.gateways[gateway].client.under.insert(
            io,
            Under {
                invoked,
                kind,
                first,
                count,
            },
        );
        let now = Time(self.now);
        let data = Slice::copy_from(&data);
        self.core_of(gateway, volume, chunk).submit(now, io, op, data);
        self.drain();
    }

    pub fn done(
        &mut self,
        gateway: usize,
        io: IoId,
        result: Result<(), IoError>,
        payload: &Payload,
        by: (usize, Generation),
    ) {
        let Some(under) = self.gateways[gateway].client.under.remove(&io) else {
            return self.fail(format!("{io:?} ended twice"));
        };
        let completed = self.clock.tick();
        match (result, under.kind) {
            (Err(IoError::Lost), _) => self.clock.unknown(&under),
            // Surely not done: no step, so that nobody may ever see it.
            (Err(IoError::NoSpace), Kind::Write(_) | Kind::Other)
                if self.profile.capacity < 1000 || self.profile.full_store => {}
            // The only copy of what must be rolled forward is damaged at times.
            (Err(IoError::Damaged), _) if self.profile.damage_percent > 0 => {}
            (Err(error), kind) => self.fail(format!("{kind:?} failed: {error}")),
            (Ok(()), Kind::Other) => {}
            (Ok(()), Kind::Write(stamp)) => {
                self.check_acknowledged(stamp, by);
                for cell in under.first..under.first + under.count {
                    self.clock.saw(&under, cell, Some(completed), write(stamp));
                }
            }
            (Ok(()), Kind::Read) => self.was_read(&under, completed, payload),
        }
    }

    /// A write comes by.
    pub(super) fn note_stamps(&mut self, request: &Request, payload: &[u8]) {
        if let RequestBody::Write(WriteRequest { chunk, version, .. }) = request.body {
            let payload = self.plain_of(request, payload);
            // One that was made whole brings what was around it as well.
            for cell in payload.chunks_exact(CELL_BYTES as usize) {
                let stamp = u64::from_le_bytes(cell[..8].try_into().unwrap());
                let place = ((request.scope.volume, chunk.0), version);
                self.stamps.entry(stamp).or_insert(place);
            }
        }
    }

    /// What is acknowledged is on every store that is in sync by the metadata, durably.
    fn check_acknowledged(&mut self, stamp: u64, (volume, _): (usize, Generation)) {
        if self.profile.forgets > 0 {
            return;
        }
        let Some(&(key, version)) = self.stamps.get(&stamp) else {
            return self.fail(format!("stamp {stamp} is acknowledged, and reached no store"));
        };
        let id = ChunkId {
            volume: volume_id(volume),
            index: ChunkIndex(key.1),
        };
        let group = self.group(id.group(GROUPS).0);
        for store in 0..self.stores.len() {
            let held = self.stores[store].content(key);
            let lacks = held.version < version || held.incomplete.is_some();
            if group.in_sync.contains(&store_id(store)) && lacks {
                self.fail(format!(
                    "stamp {stamp} is acknowledged at {version}, and store {store}, which is in sync, holds {held:?}"
                ));
            }
        }
    }

    fn was_read(&mut self, under: &Under, completed: u64, payload: &Payload) {
        for (index, cell) in (under.first..under.first + under.count).enumerate() {
            let stamp = match payload {
                Payload::Zeros(_) => 0,
                Payload::Data(data) => {
                    let bytes = &data[index * CELL_BYTES as usize..][..CELL_BYTES as usize];
                    let stamp = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    let right = if stamp == 0 {
                        vec![0; bytes.len()]
                    } else {
                        content(stamp, cell)
                    };
                    if bytes != right {
                        return self.fail(format!("cell {cell} holds what nobody wrote"));
                    }
                    stamp
                }
                other => return self.fail(format!("a read brought {other:?}")),
            };
            let read = Action::Read {
                sectors: Width::MAX,
                values: [number(stamp); SECTORS_PER_BLOCK],
            };
            self.clock.saw(under, cell, Some(completed), read);
        }
    }
}

#[derive(Clone, Copy)]
pub enum Ask {
    Read,
    Write,
    /// A write of the block that is cleared at times.
    Spare,
    Clear,
    Allocation,
}
