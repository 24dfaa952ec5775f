//! Reads, and what else asks and changes nothing. None of it ever sees what is not durable.

use super::blocks::{BlockReads, Purpose};
use super::change::Change as OpChange;
use super::join::Say;
use super::leaves::{LostLeaf, Waiter};
use super::request::Caller;
use super::{Requester, Store, answer, blocks, differ, join, leaves, restore, verify};
use crate::faults::{Fault, Faults};
use crate::index::{ChunkKey, Index, Location, Seen, View};
use amita_types::message::{
    AllocationAnswer, AllocationRequest, AnswerBody, Change, ChangesAnswer, ChangesRequest, DataAnswer, DiffersAnswer,
    MAX_CHANGES, OpenRequest, OpenedAnswer, Problem, ReadRequest, Refusal, Sums, VerifiedAnswer,
};
use amita_types::{
    BlockIndex, BlockRange, ChunkId, ChunkIndex, MAX_BLOCKS_PER_CHUNK, MAX_IO_BLOCKS, SnapshotId, Version,
};

/// What a reader wants to know once the chunk is new enough.
#[derive(Clone, Copy, Debug)]
pub(super) enum Want {
    Data {
        range: BlockRange,
        /// With the versions of the blocks.
        versions: bool,
    },
    /// So many blocks has the chunk.
    Verify(BlockRange, u32),
    Allocation {
        /// With the version of which that is so.
        versioned: bool,
    },
    Differ {
        since: SnapshotId,
        /// The same.
        versioned: bool,
    },
    Version,
    Changes {
        since: Version,
        from: BlockIndex,
    },
    /// A block's entry, of what is to be replaced: its place there.
    Restore {
        at: u32,
        block: BlockIndex,
    },
}

impl Want {
    /// The blocks whose entries it looks at.
    fn blocks(self) -> BlockRange {
        match self {
            Want::Data { range, .. } | Want::Verify(range, _) => range,
            Want::Restore { block, .. } => BlockRange::new(block.0, 1),
            Want::Version => BlockRange::default(),
            Want::Allocation { .. } | Want::Differ { .. } | Want::Changes { .. } => {
                BlockRange::new(0, MAX_BLOCKS_PER_CHUNK as u16)
            }
        }
    }

    /// Is what it gets handed on as what the volume holds?
    fn is_served(self) -> bool {
        matches!(self, Want::Data { .. } | Want::Allocation { .. } | Want::Differ { .. })
    }
}

/// A question about a chunk: what is to be answered, as of which snapshot and version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query {
    pub asker: Requester,
    chunk: ChunkId,
    snapshot: SnapshotId,
    /// The answer includes at least this version (rule R8).
    least: Version,
    /// So does the chunk itself, whichever snapshot is asked for.
    newest: Version,
    want: Want,
}

impl Query {
    pub fn by(caller: &Caller, chunk: ChunkIndex, least: Version, want: Want) -> Query {
        Query {
            asker: caller.asker,
            chunk: caller.chunk(chunk),
            snapshot: caller.snapshot(),
            least,
            newest: Version::NONE,
            want,
        }
    }

    /// Of a snapshot: the chunk itself has at least this version. (Of the chunk itself that is what `least` says.)
    pub fn newest(self, newest: Option<Version>) -> Query {
        let newest = newest.filter(|_| self.snapshot > SnapshotId::HEAD);
        let newest = newest.unwrap_or(Version::NONE);
        Query { newest, ..self }
    }

    /// There is nothing of it: is more asked for?
    fn unborn<T>(&self, least: Version) -> Result<Option<T>, Refusal> {
        let current = Version::NONE;
        if least > current {
            return Err(Refusal::Behind { current });
        }
        Ok(None)
    }
}

/// All that was asked and is not answered.
#[derive(Debug, Default)]
pub(super) struct Reads {
    pub blocks: BlockReads,
    /// Those that wait for a version to become durable.
    waiting: Vec<(ChunkKey, Query)>,
}

impl Reads {
    pub fn len(&self) -> usize {
        self.blocks.len() + self.waiting.len()
    }

    /// The chunks of which a version is waited for, once for each who waits.
    #[cfg(any(test, feature = "planted"))]
    pub fn waiting_for(&self) -> impl Iterator<Item = ChunkKey> + '_ {
        self.waiting.iter().map(|(chunk, _)| *chunk)
    }

    /// Forgets all of them; returns who asked.
    pub fn drain(&mut self) -> impl Iterator<Item = Requester> + '_ {
        let waiting = self.waiting.drain(..).map(|(_, query)| query.asker);
        self.blocks.drain().chain(waiting)
    }
}

pub(super) fn read(store: &mut Store, caller: &Caller, request: &ReadRequest) {
    let range = request.range;
    if !range.is_inside(caller.blocks()) || u32::from(range.count) > MAX_IO_BLOCKS {
        return store.env.invalid(caller.asker, Problem::Range);
    }
    let versions = request.versions;
    let want = Want::Data { range, versions };
    let query = Query::by(caller, request.chunk, request.least, want);
    look(store, query.newest(request.newest));
}

pub(super) fn allocation(store: &mut Store, caller: &Caller, request: &AllocationRequest) {
    let versioned = request.newest.is_some();
    let query = Query::by(caller, request.chunk, request.least, Want::Allocation { versioned });
    look(store, query.newest(request.newest));
}

/// The chunk's version: what is accepted counts, and is answered when it is durable.
pub(super) fn open(store: &mut Store, caller: &Caller, request: &OpenRequest) {
    let chunk = caller.chunk(request.chunk);
    // A join may make it an older one.
    let joins = |key: ChunkKey| {
        let mut pending = store.ops.pending(store.index.chunk(key));
        pending.any(|op| matches!(op.change, OpChange::Join(_) | OpChange::Whole(_)))
    };
    if caller.snapshot() == SnapshotId::HEAD && store.index.find(chunk).is_some_and(joins) {
        return join::say(store, caller.asker, chunk, Say::Opened);
    }
    let least = accepted_version(&store.index, store.config.faults, chunk, caller.snapshot());
    look(store, Query::by(caller, request.chunk, least, Want::Version));
}

pub(super) fn changes(store: &mut Store, caller: &Caller, request: &ChangesRequest) {
    let (since, from) = (request.since, request.from);
    if u32::from(from.0) >= MAX_BLOCKS_PER_CHUNK {
        return store.env.invalid(caller.asker, Problem::Range);
    }
    let chunk = caller.chunk(request.chunk);
    let least = accepted_version(&store.index, store.config.faults, chunk, caller.snapshot());
    look(
        store,
        Query::by(caller, request.chunk, least, Want::Changes { since, from }),
    );
}

fn accepted_version(index: &Index, faults: Faults, chunk: ChunkId, snapshot: SnapshotId) -> Version {
    // With rule R6 switched off, what is under way is not waited for.
    let drained = !faults.has(Fault::NoDrain);
    let accepted = |key| index.chunk(key).accepted.version;
    index
        .find(chunk)
        .filter(|_| drained && snapshot == SnapshotId::HEAD)
        .map_or(Version::NONE, accepted)
}

/// The chunk, and as what it is looked at; `None`: it was never written.
fn find(index: &Index, faults: Faults, query: &Query) -> Result<Option<(ChunkKey, View)>, Refusal> {
    let Some(key) = index.find(query.chunk) else {
        return query.unborn(query.least.max(query.newest));
    };
    let chunk = index.chunk(key);
    let seen = chunk.seen(query.snapshot);
    // Rule R5: what is not the volume's is not served, of snapshots neither (S6).
    if query.want.is_served() && chunk.incomplete && !faults.has(Fault::ServesSyncing) {
        return Err(Refusal::Incomplete);
    }
    // Rule R8: who lacks some of the chunk may lack what the snapshot had. What is accepted counts, as for `least`: a change is answered a
    // moment before the index has it.
    let current = chunk.accepted.version;
    if query.newest > current {
        return Err(Refusal::Behind { current });
    }
    match seen {
        Seen::As(view) => Ok(Some((key, view))),
        // The chunk has what it is to have: there was none of it yet.
        Seen::Unborn => query.unborn(query.least),
        Seen::NotKept => {
            let what = Problem::Snapshot;
            Err(Refusal::Invalid { what })
        }
    }
}

/// Rule R8: a read names the least version that it must include; one that is under way is waited for.
pub(super) fn look(store: &mut Store, query: Query) {
    let (key, view) = match find(&store.index, store.config.faults, &query) {
        Ok(Some(found)) => found,
        Ok(None) => return answer_unknown(store, query.asker, query.want),
        Err(refusal) => return refuse(store, &query, refusal),
    };
    let chunk = store.index.chunk_mut(key);
    let newest = match view {
        View::Head => chunk.accepted.version,
        View::State(_) => chunk.version(view),
    };
    if query.least > newest {
        return refuse(store, &query, Refusal::Behind { current: newest });
    }
    if query.least > chunk.version(view) {
        chunk.waiting_reads += 1;
        store.reads.waiting.push((key, query));
        return;
    }
    match (query.want, view) {
        (Want::Differ { since, versioned }, _) => return differ::look(store, query, key, view, (since, versioned)),
        (Want::Verify(range, end), View::State(place)) => return verify::state(store, query, key, place, (range, end)),
        _ => {}
    }
    let mut missing = store.index.missing(key, view, query.want.blocks()).peekable();
    if missing.peek().is_some() {
        let missing: Vec<Location> = missing.collect();
        return wait_for(store, query, &missing);
    }
    drop(missing);
    serve(store, query.asker, key, view, query.want);
}

/// Has these leaves read, of which none is here, and begins anew.
pub(super) fn wait_for(store: &mut Store, query: Query, missing: &[Location]) {
    match leaves::want(&mut store.env, &mut store.index, &store.superblock, missing) {
        Ok(at) => store.leaf_waits.push(&store.index, at, Waiter::Read(query)),
        Err(lost) => leaf_lost(store, &query, lost),
    }
}

/// The leaf that it waited for is here, so it begins anew; or the leaf cannot be read.
pub(super) fn go_on(store: &mut Store, query: Query, leaf: Result<(), LostLeaf>) {
    match leaf {
        Ok(()) => look(store, query),
        Err(lost) => leaf_lost(store, &query, lost),
    }
}

fn leaf_lost(store: &mut Store, query: &Query, LostLeaf(block): LostLeaf) {
    if let Want::Verify(range, end) = query.want {
        return verify::lost(store, query.asker, range, end);
    }
    let block = block.max(query.want.blocks().first);
    refuse(store, query, Refusal::Damaged { block });
}

fn refuse(store: &mut Store, query: &Query, refusal: Refusal) {
    if let Want::Restore { at, .. } = query.want {
        store.restores.forget(at);
    }
    store.env.refuse(query.asker, refusal);
}

/// The durable or the accepted version of a chunk has changed: reads that waited for it go on.
pub(super) fn wake(store: &mut Store, key: ChunkKey) {
    if store.index.chunk(key).waiting_reads == 0 {
        return;
    }
    let mut at = 0;
    while at < store.reads.waiting.len() {
        let (of, query) = store.reads.waiting[at];
        let chunk = store.index.chunk(key);
        let (durable, accepted) = (chunk.durable, chunk.accepted.version);
        if of != key || (query.least > durable && query.least <= accepted) {
            at += 1;
            continue;
        }
        store.reads.waiting.swap_remove(at);
        store.index.chunk_mut(key).waiting_reads -= 1;
        if query.least <= durable {
            look(store, query);
        } else {
            store.env.refuse(query.asker, Refusal::Behind { current: accepted });
        }
    }
}

/// A chunk that was never written.
fn answer_unknown(store: &mut Store, asker: Requester, want: Want) {
    let version = Version::NONE;
    let body = match want {
        Want::Data { .. } => AnswerBody::Data(DataAnswer {
            version,
            sums: Sums::new(),
            runs: Box::default(),
        }),
        Want::Allocation { versioned } => AnswerBody::Allocation(AllocationAnswer {
            allocated: Box::new([0; 16]),
            version: versioned.then_some(version),
        }),
        Want::Differ { versioned, .. } => AnswerBody::Differs(DiffersAnswer {
            differs: Box::default(),
            version: versioned.then_some(version),
        }),
        Want::Version => AnswerBody::Opened(OpenedAnswer::NOTHING),
        Want::Changes { .. } => AnswerBody::Changes(ChangesAnswer {
            entries: Vec::new(),
            more: None,
        }),
        Want::Verify(..) => AnswerBody::Verified(VerifiedAnswer {
            entries: Vec::new(),
            damaged: Vec::new(),
            more: None,
        }),
        Want::Restore { at, .. } => return restore::nothing_there(store, asker, at),
    };
    answer::give(store, asker, body);
}

/// All leaves that it needs are in memory.
fn serve(store: &mut Store, asker: Requester, key: ChunkKey, view: View, want: Want) {
    let body = match want {
        Want::Data { range, versions } => {
            let purpose = Purpose::Read { versions };
            return blocks::start(store, asker, key, view, range, purpose);
        }
        Want::Verify(range, end) => return verify::blocks(store, asker, key, view, range, end),
        Want::Version => AnswerBody::Opened(OpenedAnswer {
            version: store.index.chunk(key).version(view),
            incomplete: store.index.incomplete(key),
            number: store.index.chunk(key).snapshot,
        }),
        Want::Allocation { versioned } => {
            let mut allocated = Box::new([0u64; 16]);
            for block in 0..MAX_BLOCKS_PER_CHUNK as u16 {
                if store.index.entry(key, view, BlockIndex(block)).has_data() {
                    allocated[usize::from(block) / 64] |= 1 << (block % 64);
                }
            }
            let version = versioned.then(|| store.index.chunk(key).version(view));
            AnswerBody::Allocation(AllocationAnswer { allocated, version })
        }
        Want::Differ { .. } => unreachable!("it looks at two views"),
        Want::Restore { at, .. } => return restore::found(store, asker, at, key, view),
        Want::Changes { since, from } => list_changes(&store.index, key, view, since, from),
    };
    answer::give(store, asker, body);
}

fn list_changes(index: &Index, key: ChunkKey, view: View, since: Version, from: BlockIndex) -> AnswerBody {
    let place = index.place(key);
    let mut entries = Vec::new();
    for block in (from.0..MAX_BLOCKS_PER_CHUNK as u16).map(BlockIndex) {
        let entry = index.entry(key, view, block);
        if entry.version <= since {
            continue;
        }
        if entries.len() == MAX_CHANGES {
            return AnswerBody::Changes(ChangesAnswer {
                entries,
                more: Some(block),
            });
        }
        entries.push(Change {
            block,
            version: entry.version,
            sum: entry.has_data().then(|| place.bind(block, entry.sum)),
        });
    }
    AnswerBody::Changes(ChangesAnswer { entries, more: None })
}
