//! Clients: they read and write at random and remember what they saw.

use super::history::{Step, What};
use super::random::Random;
use super::world::{BLOCKS, CHUNKS, Event, MS, World};
use crate::io::{IoError, IoId, Op, Payload};
use amita_cluster::BLOCK_BYTES;
use amita_reactor::{Slice, Time};
use std::collections::BTreeMap;

/// Most I/Os of one client under way.
const DEPTH: usize = 10;
/// The last block of each chunk is written and cleared, and not looked at but for the comparison of replicas.
const CLEARED: u64 = BLOCKS - 1;

#[derive(Default)]
pub struct Clock {
    pub ticks: u64,
    pub stamp: u64,
    pub next_io: u64,
    pub steps: Vec<Step>,
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

    fn unknown(&mut self, under: &Under) {
        if let Kind::Write(stamp) = under.kind {
            for block in under.first..under.first + under.count {
                let what = What::Write(stamp);
                self.steps.push(Step {
                    block,
                    invoked: under.invoked,
                    completed: None,
                    what,
                });
            }
        }
    }
}

fn content(stamp: u64, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES as usize];
    bytes[..8].copy_from_slice(&stamp.to_le_bytes());
    bytes[8..16].copy_from_slice(&block.to_le_bytes());
    bytes
}

impl World {
    pub fn client(&mut self, gateway: usize) {
        let open = self.gateways[gateway]
            .cores
            .first()
            .is_some_and(|(sequencer, _)| !sequencer.is_stopped());
        if !open || self.settling {
            return;
        }
        let burst = if self.random.percent(20) { 6 } else { 1 };
        for _ in 0..burst {
            if self.gateways[gateway].client.under.len() < DEPTH {
                self.one_io(gateway);
            }
        }
        let pause = if self.random.percent(5) {
            80 * MS
        } else {
            self.profile.think_ns
        };
        let pause = self.random.below(pause);
        self.after(pause, Event::Client { gateway });
    }

    fn one_io(&mut self, gateway: usize) {
        let chunk = self.random.below(CHUNKS);
        let kind = self.random.below(100);
        if kind < 4 {
            let clear = self.random.percent(50);
            return self.submit(gateway, chunk, CLEARED, 1, if clear { Ask::Clear } else { Ask::Spare });
        }
        if kind < 5 {
            return self.submit(gateway, chunk, 0, 1, Ask::Allocation);
        }
        let few = |random: &mut Random| {
            let first = random.below(CLEARED);
            (first, random.between(1, 3.min(CLEARED - first)))
        };
        let (first, count) = few(&mut self.random);
        let ask = if kind < self.profile.read_percent {
            Ask::Read
        } else {
            Ask::Write
        };
        self.submit(gateway, chunk, first, count, ask);
    }

    pub fn submit(&mut self, gateway: usize, chunk: u64, first: u64, count: u64, ask: Ask) {
        let clock = &mut self.clock;
        clock.next_io += 1;
        let io = IoId(clock.next_io);
        let offset = (chunk * BLOCKS + first) * u64::from(BLOCK_BYTES);
        let length = (count * u64::from(BLOCK_BYTES)) as u32;
        let first = chunk * BLOCKS + first;
        let mut data = Vec::new();
        let (op, kind) = match ask {
            Ask::Read => (Op::Read { offset, length }, Kind::Read),
            Ask::Write | Ask::Spare => {
                clock.stamp += 1;
                for block in first..first + count {
                    data.extend(content(clock.stamp, block));
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
        let core = self.core_of(chunk);
        self.gateways[gateway].cores[core]
            .0
            .submit(Time(self.now), io, op, Slice::copy_from(&data));
        self.drain();
    }

    pub fn done(&mut self, gateway: usize, io: IoId, result: Result<(), IoError>, payload: &Payload) {
        let Some(under) = self.gateways[gateway].client.under.remove(&io) else {
            return self.fail(format!("{io:?} ended twice"));
        };
        let completed = self.clock.tick();
        match (result, under.kind) {
            (Err(IoError::Lost), _) => self.clock.unknown(&under),
            // Surely not done: no step, so that nobody may ever see it.
            (Err(IoError::NoSpace), Kind::Write(_) | Kind::Other) if self.profile.capacity < 1000 => {}
            // The only copy of what must be rolled forward is damaged at times.
            (Err(IoError::Damaged), _) if self.profile.damage_percent > 0 => {}
            (Err(error), kind) => self.fail(format!("{kind:?} failed: {error}")),
            (Ok(()), Kind::Other) => {}
            (Ok(()), Kind::Write(stamp)) => {
                for block in under.first..under.first + under.count {
                    let what = What::Write(stamp);
                    self.clock.steps.push(Step {
                        block,
                        invoked: under.invoked,
                        completed: Some(completed),
                        what,
                    });
                }
            }
            (Ok(()), Kind::Read) => self.was_read(&under, completed, payload),
        }
    }

    fn was_read(&mut self, under: &Under, completed: u64, payload: &Payload) {
        for (index, block) in (under.first..under.first + under.count).enumerate() {
            let stamp = match payload {
                Payload::Zeros(_) => 0,
                Payload::Data(data) => {
                    let bytes = &data[index * BLOCK_BYTES as usize..][..BLOCK_BYTES as usize];
                    let stamp = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    let right = if stamp == 0 {
                        vec![0; bytes.len()]
                    } else {
                        content(stamp, block)
                    };
                    if bytes != right {
                        return self.fail(format!("block {block} holds what nobody wrote"));
                    }
                    stamp
                }
                other => return self.fail(format!("a read brought {other:?}")),
            };
            let what = What::Read(stamp);
            self.clock.steps.push(Step {
                block,
                invoked: under.invoked,
                completed: Some(completed),
                what,
            });
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
