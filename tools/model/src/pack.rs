//! A state as few bytes, so that it is hashed quickly: what is not there takes one byte.

use std::hash::{Hash, Hasher};

use crate::state::{Change, Entry, Held, Known, Life, NONE, Sequencer, State, Store};

/// More than a state can take.
const MOST: usize = 768;

struct Bytes {
    all: [u8; MOST],
    used: usize,
}

impl Bytes {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.all[self.used..self.used + N].copy_from_slice(&bytes);
        self.used += N;
    }

    fn entry(&mut self, entry: &Entry) {
        self.put([entry.last, entry.sectors[0], entry.sectors[1]]);
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::None => self.put([0]),
            Change::Fence { q, epoch, in_sync } => self.put([1, *q, *epoch, u8::from(*in_sync)]),
            Change::Write(id) => self.put([2, *id]),
            Change::Roll {
                q,
                chunk,
                stream,
                blocks,
                last,
            } => {
                self.put([3, *q, *chunk, *stream, u8::from(*last)]);
                blocks.iter().for_each(|entry| self.entry(entry));
            }
            Change::Join { chunk, at } => self.put([4, *chunk, *at]),
            Change::Mend { chunk, block, put } => {
                self.put([5, *chunk, *block]);
                self.entry(put);
            }
            Change::Whole { q, chunk } => self.put([6, *q, *chunk]),
        }
    }

    fn known(&mut self, known: &Known) {
        if *known == Known::default() {
            self.put([0]);
        } else {
            let [low, high] = known.flags.to_le_bytes();
            self.put([1, low, high, known.since, known.link, known.due, known.answered]);
            self.put([known.fence.0, u8::from(known.fence.1)]);
            self.put(known.open);
        }
    }

    fn store(&mut self, store: &Store) {
        let roles = u8::from(store.in_sync) | u8::from(store.syncing) << 1 | u8::from(store.lied) << 2;
        let roles = roles | u8::from(store.silent) << 4;
        self.put([
            roles | u8::from(store.disk.in_sync) << 3,
            store.since,
            store.leased,
            store.disk.epoch,
            store.rot,
        ]);
        for (generation, since) in store.claims {
            self.put([generation, since]);
        }
        self.put(store.disk.generation);
        for chunk in &store.disk.chunks {
            self.put([chunk.stream, chunk.base]);
            chunk.blocks.iter().for_each(|entry| self.entry(entry));
        }
        for change in &store.tail {
            self.change(change);
            if *change == Change::None {
                break;
            }
        }
        store.known.iter().for_each(|known| self.known(known));
    }

    fn held(&mut self, held: &Held) {
        if *held == Held::default() {
            return self.put([0]);
        }
        self.put([
            1,
            u8::from(held.open) | u8::from(held.rolled) << 1,
            held.issued,
            held.top,
            held.committed,
            held.mark,
        ]);
        match &held.target {
            None => self.put([0]),
            Some((base, blocks)) => {
                self.put([1, *base]);
                blocks.iter().for_each(|entry| self.entry(entry));
            }
        }
        match &held.source {
            None => self.put([0]),
            Some(blocks) => {
                self.put([1]);
                blocks.iter().for_each(|entry| self.entry(entry));
            }
        }
    }

    fn sequencer(&mut self, sequencer: &Sequencer) {
        self.put([sequencer.life as u8]);
        if sequencer.life == Life::Unborn {
            return;
        }
        self.put([sequencer.epoch]);
        self.put([sequencer.comparing]);
        sequencer.chunks.iter().for_each(|held| self.held(held));
        match &sequencer.asked {
            None => self.put([0]),
            Some(asked) => self.put([1, asked.place.0, asked.place.1, asked.least, asked.seen]),
        }
        match &sequencer.read {
            None => self.put([0]),
            Some(read) => {
                self.put([1, read.place.0, read.place.1, read.seen]);
                self.entry(&read.entry);
            }
        }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bytes = Bytes {
            all: [0; MOST],
            used: 0,
        };
        bytes.put(self.generation);
        bytes.put([self.epoch, self.raised, self.written, self.fault as u8]);
        let (epoch, raised) = self.look.unwrap_or((NONE, NONE));
        bytes.put([epoch, raised]);
        for write in &self.writes[..usize::from(self.written)] {
            let flags = u8::from(write.acked)
                | u8::from(write.seen) << 1
                | u8::from(write.dead) << 2
                | u8::from(write.compared) << 3;
            bytes.put([write.q, write.counter, write.after, write.kind, flags]);
        }
        self.sequencers.iter().for_each(|sequencer| bytes.sequencer(sequencer));
        self.stores.iter().for_each(|store| bytes.store(store));
        let left = &self.left;
        bytes.put([
            left.evictions,
            left.additions,
            left.crashes,
            left.resets,
            left.reads,
            left.lies,
            left.rots,
            left.compares,
        ]);
        state.write(&bytes.all[..bytes.used]);
    }
}
