//! The steps that change a chunk: writes, clears, roll-forwards, resends, and changes that must be refused.

use super::super::model::Change;
use super::super::{BLOCK, sums};
use super::game::{Game, Key, What};
use super::truth::{Deed, Doom};
use super::volume::Volume;
use amita_reactor::Slice;
use amita_types::message::{self, ClearRequest, Problem, RequestBody, RollRequest, WriteRequest};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, Version};

/// The next version of a chunk.
struct Next {
    key: Key,
    version: Version,
    previous: Version,
    snapshot: u32,
}

impl Game {
    /// A chunk that can be changed now. A clone's chunk is made first.
    fn next(&mut self) -> Option<Next> {
        let id = self.pick_volume(|volume| volume.writable())?;
        let key = (id, self.pick_chunk());
        if self.volume(id).origin.is_some() && !self.chunk(key).made {
            self.make_chunk(key);
            return None;
        }
        let previous = self.chunk(key).last();
        let volume = self.volume(id);
        Some(Next {
            key,
            version: previous.next(volume.owner.generation).expect("few writes"),
            previous,
            snapshot: volume.newest,
        })
    }

    fn do_it(&mut self, next: &Next, body: RequestBody, payload: &[u8], blocks: u64, change: Change) {
        let Next {
            key,
            version,
            previous: _,
            snapshot,
        } = *next;
        let rolls = matches!(change, Change::Roll(_));
        let deed = Deed::Change {
            version,
            snapshot,
            change,
        };
        let request = self.volume(key.0).change(body);
        let payload = Slice::copy_from(payload);
        let number = self.chunk(key).send(&deed, request.clone(), payload.clone());
        // Roll-forwards have no credits.
        let charge = if rolls { 0 } else { blocks };
        let volume = self.volume(key.0);
        let covered = volume.credits.min(charge);
        volume.credits -= covered;
        let what = What::Deed {
            key,
            number,
            again: false,
            blocks,
            covered,
        };
        self.send(request, payload, what);
    }

    pub fn write(&mut self) {
        let Some(next) = self.next() else { return };
        let (first, count) = match self.rng.below(4) {
            0 | 1 => (self.pick_blocks(1).0, 1),
            2 => self.pick_blocks(32),
            _ => self.pick_blocks(3),
        };
        let (mut offset, mut length) = (usize::from(first) * BLOCK, usize::from(count) * BLOCK);
        if self.rng.chance(4) {
            let skip = self.rng.below(BLOCK);
            offset += skip;
            length -= skip;
            length -= self.rng.below(length.min(BLOCK));
        }
        let bytes = self.rng.bytes(length);
        let blocks = u64::from(BlockRange::of_bytes(offset as u32, length as u32).count);
        let offset = offset as u32;
        let body = write(next.key.1, offset, &bytes, next.version, next.previous);
        let change = Change::Write {
            offset,
            bytes: bytes.clone(),
        };
        self.do_it(&next, body, &bytes, blocks, change);
    }

    pub fn clear(&mut self) {
        let Some(next) = self.next() else { return };
        let (first, count) = match self.rng.below(8) {
            0 => (0, self.rules.blocks_per_chunk),
            _ => self.pick_blocks(self.rules.blocks_per_chunk),
        };
        let body = RequestBody::Clear(ClearRequest {
            chunk: ChunkIndex(next.key.1),
            range: BlockRange::new(first, count),
            version: next.version,
            previous: next.previous,
        });
        self.do_it(&next, body, &[], 0, Change::Clear { first, count });
    }

    pub fn roll(&mut self) {
        let Some(mut next) = self.next() else { return };
        next.version = Version(next.version.0 + self.rng.below(5) as u64);
        let mut entries = Vec::new();
        for block in 0..self.rules.blocks_per_chunk.min(256) {
            if self.rng.chance(if self.rules.blocks_per_chunk > 16 { 30 } else { 3 }) {
                let data = (!self.rng.chance(4)).then(|| self.rng.bytes(BLOCK));
                // Newer than what the chunk is now: all of it was written since.
                let back = self.rng.below(2).min((next.version.0 - next.previous.0 - 1) as usize);
                entries.push((block, data, Version(next.version.0 - back as u64)));
            }
        }
        let half = self.rng.below(entries.len() + 1);
        let (early, late) = entries.split_at(half);
        let (body, payload) = roll(&next, early, true);
        let request = self.volume(next.key.0).change(body);
        self.send(request, Slice::copy_from(&payload), What::Part);
        let (body, payload) = roll(&next, late, false);
        let blocks = entries.iter().filter(|(_, data, _)| data.is_some()).count() as u64;
        self.do_it(&next, body, &payload, blocks, Change::Roll(entries));
    }

    /// What is not answered is sent once more.
    pub fn resend(&mut self) {
        let Some(id) = self.pick_volume(|volume| volume.fenced) else {
            return;
        };
        let key = (id, self.pick_chunk());
        self.resend_first(key, 1);
    }

    /// Sends the first `count` that are not answered again, in their order; parts of roll-forwards go on by themselves.
    fn resend_first(&mut self, key: Key, count: usize) {
        let pending: Vec<_> = self.chunk(key).pending.iter().take(count).cloned().collect();
        for pending in pending {
            if matches!(pending.request.body, RequestBody::Roll(_) | RequestBody::Clone(_)) {
                continue;
            }
            let snapshot = pending.request.scope.snapshot.0;
            let volume = self.volume(key.0);
            if pending.request.scope.generation != volume.owner.generation {
                continue;
            }
            // What comes again is paid for again.
            let blocks = match pending.request.body {
                RequestBody::Write(WriteRequest {
                    offset_bytes,
                    length_bytes,
                    ..
                }) => u64::from(BlockRange::of_bytes(offset_bytes, length_bytes).count),
                _ => 0,
            };
            volume.credits = volume.credits.saturating_sub(blocks);
            let request = volume.ask(snapshot, pending.request.body.clone());
            let what = What::Deed {
                key,
                number: pending.number,
                again: true,
                blocks: 0,
                covered: 0,
            };
            self.send(request, pending.payload.clone(), what);
        }
    }

    /// The owner's link breaks; what was not answered is sent again by a new one.
    pub fn new_link(&mut self) {
        let Some(id) = self.pick_volume(|volume| volume.fenced) else {
            return;
        };
        self.links += 1;
        let link = amita_store::LinkId(self.links);
        let volume = self.volume(id);
        let old = std::mem::replace(&mut volume.owner.link, link);
        volume.credits = 0;
        self.rig.store.link_closed(self.rig.now, old);
        self.rig.pump();
        self.listen();
        for chunk in 0..self.rules.chunks {
            self.resend_first((id, chunk), usize::MAX);
        }
    }

    /// What must not be done.
    pub fn wrong(&mut self) {
        match self.rng.below(5) {
            0 | 1 => self.wrong_predecessor(),
            2 => self.older_snapshot(),
            3 => self.deleted(),
            _ => self.old_entries(),
        }
    }

    fn wrong_predecessor(&mut self) {
        let Some(next) = self.next() else { return };
        let generation = self.volume(next.key.0).owner.generation;
        let skipped = next.version.next(generation).expect("few writes");
        self.send_wrong(next.key, next.snapshot, skipped, next.version, What::WrongPredecessor);
    }

    /// A change that names an older snapshot than the last one did.
    fn older_snapshot(&mut self) {
        let Some(next) = self.next() else { return };
        let snap = self.chunk(next.key).accepted().snap;
        if snap > 0 {
            let what = What::Invalid(Problem::Snapshot, None);
            self.send_wrong(next.key, snap - 1, next.version, next.previous, what);
        }
    }

    /// A change of a chunk whose volume was deleted, while snapshots remain.
    fn deleted(&mut self) {
        let Some(id) = self.pick_volume(|volume| volume.fenced && !volume.alive) else {
            return;
        };
        let key = (id, self.pick_chunk());
        let Volume { newest, owner, .. } = self.volume(id);
        let (newest, generation) = (*newest, owner.generation);
        let held = self.chunk(key).accepted();
        // It is so from the moment on that it was asked for.
        let deleted = held.head.is_none() || matches!(held.head_doom, Doom::By(_));
        if held.exists() && deleted {
            let previous = held.head.as_ref().map_or(held.deleted_at, |head| head.version);
            let version = previous.next(generation).expect("few writes");
            let what = What::Invalid(Problem::Snapshot, None);
            self.send_wrong(key, newest, version, previous, what);
        }
    }

    fn send_wrong(&mut self, key: Key, snapshot: u32, version: Version, previous: Version, what: What) {
        let bytes = vec![0xbb; BLOCK];
        let body = write(key.1, 0, &bytes, version, previous);
        let request = self.volume(key.0).ask(snapshot, body);
        self.send(request, Slice::copy_from(&bytes), what);
    }

    /// A roll-forward with an entry that is not newer than a frozen state would change that one too.
    fn old_entries(&mut self) {
        let Some(next) = self.next() else { return };
        let frozen = self.chunk(next.key).accepted().newest_frozen();
        if frozen == Version::NONE {
            return;
        }
        let data = self.rng.bytes(BLOCK);
        let (mut body, payload) = roll(&next, &[(0, Some(data), frozen)], true);
        if let RequestBody::Roll(RollRequest { last, .. }) = &mut body {
            *last = true;
        }
        let request = self.volume(next.key.0).ask(next.snapshot, body);
        let what = What::Invalid(Problem::Version, None);
        self.send(request, Slice::copy_from(&payload), what);
    }
}

fn write(chunk: u64, offset: u32, bytes: &[u8], version: Version, previous: Version) -> RequestBody {
    RequestBody::Write(WriteRequest {
        chunk: ChunkIndex(chunk),
        offset_bytes: offset,
        length_bytes: bytes.len() as u32,
        version,
        previous,
        sums: sums(offset, bytes),
    })
}

fn roll(next: &Next, entries: &[(u16, Option<Vec<u8>>, Version)], first: bool) -> (RequestBody, Vec<u8>) {
    let changes = entries.iter().map(|(block, data, version)| message::Change {
        block: BlockIndex(*block),
        version: *version,
        sum: data.as_ref().map(|data| amita_types::crc32c(data)),
    });
    let body = RequestBody::Roll(RollRequest {
        chunk: ChunkIndex(next.key.1),
        version: next.version,
        previous: next.previous,
        entries: changes.collect(),
        first,
        last: !first,
    });
    let payload = entries
        .iter()
        .filter_map(|(_, data, _)| data.clone())
        .flatten()
        .collect();
    (body, payload)
}
