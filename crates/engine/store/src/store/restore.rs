//! A block that has rotted is replaced where it lies (rule S12): snapshots and clones that refer to its slot have it again, too.
//!
//! It is the one exception to "a slot is written again only when nothing refers to it", and is kept small. Only what an entry's bound
//! checksum names is written, and only over what was read and fails that checksum: so nothing is lost that was not lost
//! before, wherever the power fails. Half of it is as rotten as what was there, and is found again. From the look at the entry to the end the
//! slot is pinned as one that is read (rule D6): whatever becomes of the entry meanwhile, nobody else gets the slot. No record is
//! logged, for no entry changes.
//!
//! Then the block is read back. A device that does not take it has a bad sector there: whoever asks is told that the block is damaged, and the
//! slot, once nothing refers to it, is given to nobody until the store is opened again.

use super::io::Io;
use super::read::{self, Query, Want};
use super::request::Caller;
use super::{Requester, Store, answer, roll, space};
use crate::State;
use crate::faults::Fault;
use crate::format::{PAGE_BYTES, Place, Slot};
use crate::index::{ChunkKey, Entry, View};
use amita_reactor::{BufMut, Slice};
use amita_types::message::{AnswerBody, MendedAnswer, Problem, Refusal, RestoreRequest};
use amita_types::{BlockIndex, Version};
use std::io;

/// So many are under way at once: repairs are rare, and each holds a block.
const MAX_RESTORES: usize = 32;

/// What was asked for, and how far it has come.
#[derive(Debug)]
struct Restore {
    block: BlockIndex,
    version: Version,
    sum: u32,
    data: Slice,
    /// Once its entry was found.
    work: Option<Work>,
}

/// A slot whose content is looked at, and replaced.
#[derive(Clone, Copy, Debug)]
struct Work {
    asker: Requester,
    entry: Entry,
    place: Place,
    window: Option<u64>,
    /// It was replaced, and is read back.
    written: bool,
}

/// All of them, by their places.
#[derive(Debug, Default)]
pub(super) struct Restores {
    places: Vec<Option<Restore>>,
}

impl Restores {
    pub fn len(&self) -> usize {
        self.places.iter().flatten().count()
    }

    fn add(&mut self, restore: Restore) -> Option<u32> {
        let free = self.places.iter().position(Option::is_none);
        let at = free.unwrap_or(self.places.len());
        if at == MAX_RESTORES {
            return None;
        }
        if at == self.places.len() {
            self.places.push(None);
        }
        self.places[at] = Some(restore);
        Some(at as u32)
    }

    fn get(&mut self, at: u32) -> &mut Restore {
        let place = self.places[at as usize].as_mut();
        place.expect("what is under way has a place")
    }

    /// Is this slot looked at, or replaced?
    fn is_under_way(&self, slot: Slot) -> bool {
        let mut works = self.places.iter().flatten().filter_map(|restore| restore.work);
        works.any(|work| work.entry.slot == slot)
    }

    /// One that has come to nothing, and was answered.
    pub fn forget(&mut self, at: u32) {
        self.places[at as usize] = None;
    }

    /// Forgets all of them; returns who waits for the device. (Who waits for a leaf is known there.)
    pub fn drain(&mut self) -> impl Iterator<Item = Requester> + '_ {
        let works = self.places.drain(..).flatten().filter_map(|restore| restore.work);
        works.map(|work| work.asker)
    }
}

pub(super) fn restore(store: &mut Store, caller: &Caller, request: &RestoreRequest, payload: &Slice) {
    let asker = caller.asker;
    let &RestoreRequest {
        chunk,
        block,
        version,
        sum,
    } = request;
    if payload.len() != PAGE_BYTES {
        return store.env.invalid(asker, Problem::Length);
    }
    if u32::from(block.0) >= caller.blocks() {
        return store.env.invalid(asker, Problem::Range);
    }
    if !roll::sums_match(payload, std::iter::once(sum)) {
        return store.env.invalid(asker, Problem::Checksum);
    }
    let added = store.restores.add(Restore {
        block,
        version,
        sum,
        data: payload.clone(),
        work: None,
    });
    let Some(at) = added else {
        return store.env.refuse(asker, Refusal::Busy);
    };
    let want = Want::Restore { at, block };
    read::look(store, Query::by(caller, chunk, Version::NONE, want));
}

/// There is no such chunk, or the snapshot has nothing of it.
pub(super) fn nothing_there(store: &mut Store, asker: Requester, at: u32) {
    let skipped = vec![store.restores.get(at).block];
    store.restores.forget(at);
    answer::give(store, asker, AnswerBody::Mended(MendedAnswer { skipped }));
}

/// The block's leaf is in memory: is its entry the one that is meant?
pub(super) fn found(store: &mut Store, asker: Requester, at: u32, key: ChunkKey, view: View) {
    let restore = store.restores.get(at);
    let place = store.index.place(key);
    let entry = store.index.entry(key, view, restore.block);
    let sum = place.bind(restore.block, restore.sum);
    if !entry.has_data() || (entry.version, entry.sum) != (restore.version, sum) {
        return nothing_there(store, asker, at);
    }
    // Whoever shares the slot may ask for the same at once. One write of a place is under way at a time: the other asker comes again,
    // and finds it done.
    if store.restores.is_under_way(entry.slot) {
        store.restores.forget(at);
        return store.env.refuse(asker, Refusal::Busy);
    }
    let unpinned = store.config.faults.has(Fault::RestoreUnpinned);
    let window = (!unpinned).then(|| store.space.window.begin());
    store.restores.get(at).work = Some(Work {
        asker,
        entry,
        place,
        window,
        written: false,
    });
    look(store, at);
}

/// Reads what lies in the slot.
fn look(store: &mut Store, at: u32) {
    let slot = store.restores.get(at).work().entry.slot;
    let offset = store.superblock.geometry.slot_offset(slot);
    let buffer = store.env.take_surely(PAGE_BYTES);
    store.env.start_read(Io::Restore { at }, offset, buffer);
}

/// What lies in the slot was read, or cannot be.
pub(super) fn looked(store: &mut Store, at: u32, mut buffer: BufMut, result: &io::Result<()>) {
    if !matches!(store.state, State::Serving) {
        return;
    }
    let restore = store.restores.get(at);
    let work = *restore.work();
    let right = result.is_ok() && work.place.bind(restore.block, amita_types::crc32c(&buffer)) == work.entry.sum;
    if right || work.written {
        return end(store, at, right);
    }
    buffer.copy_from_slice(&restore.data);
    let mut segments = store.log.spare.segments();
    segments.push(buffer.freeze());
    let offset = store.superblock.geometry.slot_offset(work.entry.slot);
    store.env.start_write(Io::Restore { at }, offset, segments);
}

/// It was replaced, or could not be.
pub(super) fn written(store: &mut Store, at: u32, done: bool) {
    if !matches!(store.state, State::Serving) {
        return;
    }
    if !done {
        return end(store, at, false);
    }
    store.restores.get(at).work_mut().written = true;
    match store.env.file.volatile_cache {
        true => store.env.start_flush(Io::RestoreFlush { at }),
        false => look(store, at),
    }
}

/// What was replaced is durable: it is read back.
pub(super) fn flushed(store: &mut Store, at: u32) {
    if matches!(store.state, State::Serving) {
        look(store, at);
    }
}

/// `right`: the slot has what it should have.
fn end(store: &mut Store, at: u32, right: bool) {
    let restore = store.restores.get(at);
    let (block, work) = (restore.block, *restore.work());
    store.restores.forget(at);
    if let Some(window) = work.window {
        store.space.window.end(window);
    }
    let slot = work.entry.slot;
    if right {
        store.env.counters.restored += u64::from(work.written);
        store.space.bad.is_good(slot);
        let skipped = if work.written { Vec::new() } else { vec![block] };
        answer::give(store, work.asker, AnswerBody::Mended(MendedAnswer { skipped }));
    } else {
        store.env.counters.unrestored += 1;
        store.space.bad.is_bad(slot);
        store.env.refuse(work.asker, Refusal::Damaged { block });
    }
    space::reclaim(store);
}

impl Restore {
    fn work(&self) -> &Work {
        self.work.as_ref().expect("its entry was found")
    }

    fn work_mut(&mut self) -> &mut Work {
        self.work.as_mut().expect("its entry was found")
    }
}
