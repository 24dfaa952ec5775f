//! Requests of a sequencer to a store.

mod resync;

pub(super) use resync::{CHUNKS_BYTES, JOIN_BYTES, MEND_BYTES, VERIFY_BYTES, WHOLE_BYTES};

use super::control::{get_generation, no_payload};
use super::wire::{Reader, Wire, wire};
use super::{DecodeError, EncodeError, Kind, Prefix};
use amita_types::message::{
    Change, MAX_CHANGES, MAX_MEMBERS, MAX_PIECES, MAX_SNAPSHOTS, Request, RequestBody, Scope, Sums,
};
use amita_types::{
    BLOCK_BYTES, BlockIndex, BlockRange, ChunkIndex, Epoch, Generation, GroupId, GroupIndex, MAX_IO_BLOCKS, NodeId,
    PoolId, RequestId, SnapshotId, StoreId, TraceId, Version, VolumeId,
};

wire! {
    /// What every request begins with.
    RawRequest: 56 {
        id: u64,
        store: u128,
        volume: u64,
        epoch: u64,
        pool: u32,
        group: u32,
        generation: u32,
        snapshot: u32,
    }
}
wire! {
    /// Goes on with the stores, 16 bytes each: the first `in_sync` of them are in sync, the rest is being brought up to
    /// date.
    RawFence: 7 { owner: u32, blocks_per_chunk: u16, in_sync: u8, }
}
wire! {
    /// Before a fence of the owner to whom a volume was handed over: the generation that has ended.
    RawSucceed: 4 { given_back: u32, }
}
wire! { RawSettle: 8 { want: u32, back: u32, } }
wire! { RawOpen: 8 { chunk: u64, } }
wire! {
    /// The length is the payload's.
    RawWrite: 28 { chunk: u64, version: u64, previous: u64, offset_bytes: u32, }
}
wire! { RawClear: 28 { chunk: u64, version: u64, previous: u64, first: u16, count: u16, } }
wire! { RawRead: 20 { chunk: u64, least: u64, first: u16, count: u16, } }
wire! { RawChanges: 18 { chunk: u64, since: u64, from: u16, } }
wire! { RawRoll: 25 { chunk: u64, version: u64, previous: u64, flags: u8, } }
wire! { RawAllocation: 16 { chunk: u64, least: u64, } }
wire! {
    /// Goes on with the live snapshots, four bytes each.
    RawKeep: 17 { chunk: u64, above: u32, to: u32, head: u8, }
}
wire! { RawClone: 20 { chunk: u64, origin: u64, at: u32, } }
wire! {
    /// An entry of a roll-forward or of a list of changes. `sum` is zero where there is none.
    RawChange: 15 { version: u64, sum: u32, block: u16, has_sum: u8, }
}

/// The first part of a roll-forward.
const ROLL_FIRST: u8 = 1;
/// The last part of a roll-forward.
const ROLL_LAST: u8 = 2;

/// Bytes of an entry.
pub(super) const CHANGE_BYTES: usize = RawChange::BYTES;
const MEMBER_BYTES: usize = size_of::<u128>();
const SUM_BYTES: usize = size_of::<u32>();
const SNAPSHOT_BYTES: usize = size_of::<u32>();
const fn exactly(bytes: usize) -> (usize, usize) {
    (RawRequest::BYTES + bytes, RawRequest::BYTES + bytes)
}
const fn from_to(least: usize, more: usize) -> (usize, usize) {
    (RawRequest::BYTES + least, RawRequest::BYTES + least + more)
}

pub(super) const FENCE_BYTES: (usize, usize) = from_to(RawFence::BYTES, MAX_MEMBERS * MEMBER_BYTES);
pub(super) const SUCCEED_BYTES: (usize, usize) =
    from_to(RawSucceed::BYTES + RawFence::BYTES, MAX_MEMBERS * MEMBER_BYTES);
pub(super) const OPEN_BYTES: (usize, usize) = exactly(RawOpen::BYTES);
pub(super) const WRITE_BYTES: (usize, usize) = from_to(RawWrite::BYTES, MAX_PIECES * SUM_BYTES);
pub(super) const CLEAR_BYTES: (usize, usize) = exactly(RawClear::BYTES);
pub(super) const READ_BYTES: (usize, usize) = exactly(RawRead::BYTES);
pub(super) const CHANGES_BYTES: (usize, usize) = exactly(RawChanges::BYTES);
pub(super) const ROLL_BYTES: (usize, usize) = from_to(RawRoll::BYTES, MAX_CHANGES * CHANGE_BYTES);
pub(super) const CONFIRM_BYTES: (usize, usize) = exactly(0);
pub(super) const SETTLE_BYTES: (usize, usize) = exactly(RawSettle::BYTES);
pub(super) const ALLOCATION_BYTES: (usize, usize) = exactly(RawAllocation::BYTES);
pub(super) const KEEP_BYTES: (usize, usize) = from_to(RawKeep::BYTES, MAX_SNAPSHOTS * SNAPSHOT_BYTES);
pub(super) const CLONE_BYTES: (usize, usize) = exactly(RawClone::BYTES);

/// The pieces of `length` bytes from `offset`: what lies inside one block is one piece.
fn pieces(offset: u32, length: usize) -> usize {
    if length == 0 {
        return 0;
    }
    let block = u64::from(BLOCK_BYTES);
    let end = u64::from(offset) + length as u64;
    (end.div_ceil(block) - u64::from(offset) / block) as usize
}

pub(super) fn put(out: &mut Vec<u8>, request: &Request, payload_bytes: usize) -> Result<Kind, EncodeError> {
    let &Request {
        id,
        store,
        scope:
            Scope {
                volume,
                generation,
                group,
                epoch,
                snapshot,
            },
        ..
    } = request;
    if generation > Generation::MAX {
        return Err(EncodeError::Field {
            field: "generation",
            value: generation.0.into(),
        });
    }
    RawRequest {
        id: id.0,
        store: store.0,
        volume: volume.0,
        epoch: epoch.0,
        pool: group.pool.0,
        group: group.index.0,
        generation: generation.0,
        snapshot: snapshot.0,
    }
    .put(out);
    let has_payload = matches!(
        request.body,
        RequestBody::Write { .. } | RequestBody::Roll { .. } | RequestBody::Mend { .. }
    );
    if !has_payload {
        no_payload(payload_bytes)?;
    }
    Ok(match &request.body {
        RequestBody::Fence {
            owner,
            in_sync,
            syncing,
            blocks_per_chunk,
            given_back,
        } => {
            let members = in_sync.len() + syncing.len();
            if members > MAX_MEMBERS {
                return Err(EncodeError::Field {
                    field: "members",
                    value: members as u64,
                });
            }
            if let Some(generation) = given_back {
                let given_back = generation.0;
                RawSucceed { given_back }.put(out);
            }
            RawFence {
                owner: owner.0,
                blocks_per_chunk: *blocks_per_chunk,
                in_sync: in_sync.len() as u8,
            }
            .put(out);
            for member in in_sync.iter().chain(syncing) {
                out.extend_from_slice(&member.0.to_le_bytes());
            }
            match given_back {
                Some(_) => Kind::Succeed,
                None => Kind::Fence,
            }
        }
        RequestBody::Open { chunk } => {
            RawOpen { chunk: chunk.0 }.put(out);
            Kind::Open
        }
        RequestBody::Write {
            chunk,
            offset_bytes,
            length_bytes,
            version,
            previous,
            sums,
        } => {
            if *length_bytes as usize != payload_bytes || payload_bytes > Kind::Write.payload_bytes_max() {
                return Err(EncodeError::Payload {
                    expected: *length_bytes as usize,
                    found: payload_bytes,
                });
            }
            let expected = pieces(*offset_bytes, payload_bytes);
            if sums.len() != expected {
                return Err(EncodeError::Sums {
                    expected,
                    found: sums.len(),
                });
            }
            RawWrite {
                chunk: chunk.0,
                version: version.0,
                previous: previous.0,
                offset_bytes: *offset_bytes,
            }
            .put(out);
            put_sums(out, sums);
            Kind::Write
        }
        RequestBody::Clear {
            chunk,
            range,
            version,
            previous,
        } => {
            let BlockRange { first, count } = *range;
            RawClear {
                chunk: chunk.0,
                version: version.0,
                previous: previous.0,
                first: first.0,
                count,
            }
            .put(out);
            Kind::Clear
        }
        RequestBody::Read { chunk, range, least } => {
            let BlockRange { first, count } = *range;
            if u32::from(count) > MAX_IO_BLOCKS {
                return Err(EncodeError::Field {
                    field: "blocks to read",
                    value: count.into(),
                });
            }
            RawRead {
                chunk: chunk.0,
                least: least.0,
                first: first.0,
                count,
            }
            .put(out);
            Kind::Read
        }
        RequestBody::Changes { chunk, since, from } => {
            RawChanges {
                chunk: chunk.0,
                since: since.0,
                from: from.0,
            }
            .put(out);
            Kind::Changes
        }
        RequestBody::Roll {
            chunk,
            version,
            previous,
            entries,
            first,
            last,
        } => {
            let expected = data_bytes(entries);
            if expected != payload_bytes {
                return Err(EncodeError::Payload {
                    expected,
                    found: payload_bytes,
                });
            }
            let flags = if *first { ROLL_FIRST } else { 0 } | if *last { ROLL_LAST } else { 0 };
            RawRoll {
                chunk: chunk.0,
                version: version.0,
                previous: previous.0,
                flags,
            }
            .put(out);
            put_changes(out, entries)?;
            Kind::Roll
        }
        RequestBody::Confirm => Kind::Confirm,
        &RequestBody::Settle { want, back } => {
            RawSettle { want, back }.put(out);
            Kind::Settle
        }
        RequestBody::Allocation { chunk, least } => {
            RawAllocation {
                chunk: chunk.0,
                least: least.0,
            }
            .put(out);
            Kind::Allocation
        }
        RequestBody::Keep {
            chunk,
            head,
            above,
            to,
            live,
        } => {
            if live.len() > MAX_SNAPSHOTS {
                return Err(EncodeError::Field {
                    field: "number of snapshots",
                    value: live.len() as u64,
                });
            }
            RawKeep {
                chunk: chunk.0,
                above: above.0,
                to: to.0,
                head: u8::from(*head),
            }
            .put(out);
            for snapshot in live {
                out.extend_from_slice(&snapshot.0.to_le_bytes());
            }
            Kind::Keep
        }
        RequestBody::Clone { chunk, origin, at } => {
            RawClone {
                chunk: chunk.0,
                origin: origin.0,
                at: at.0,
            }
            .put(out);
            Kind::Clone
        }
        RequestBody::Chunks { .. }
        | RequestBody::Join { .. }
        | RequestBody::Mend { .. }
        | RequestBody::Whole { .. }
        | RequestBody::Verify { .. } => resync::put(out, &request.body, payload_bytes)?,
    })
}

pub(super) fn get(prefix: Prefix, mut reader: Reader<'_>) -> Result<Request, DecodeError> {
    let raw = RawRequest::get(&mut reader)?;
    let body = get_body(prefix, reader)?;
    Ok(Request {
        id: RequestId(raw.id),
        store: StoreId(raw.store),
        scope: Scope {
            volume: VolumeId(raw.volume),
            generation: get_generation(raw.generation)?,
            group: GroupId {
                pool: PoolId(raw.pool),
                index: GroupIndex(raw.group),
            },
            epoch: Epoch(raw.epoch),
            snapshot: SnapshotId(raw.snapshot),
        },
        trace: TraceId::NONE,
        body,
    })
}

fn get_body(prefix: Prefix, mut reader: Reader<'_>) -> Result<RequestBody, DecodeError> {
    Ok(match prefix.kind {
        Kind::Fence | Kind::Succeed => {
            let given_back = match prefix.kind {
                Kind::Succeed => Some(get_generation(RawSucceed::get(&mut reader)?.given_back)?),
                _ => None,
            };
            let raw = RawFence::get(&mut reader)?;
            let (members, rest) = reader.rest().as_chunks::<MEMBER_BYTES>();
            Reader::new(rest).end()?;
            let in_sync = usize::from(raw.in_sync);
            if in_sync > members.len() || members.len() > MAX_MEMBERS {
                return Err(DecodeError::Field {
                    field: "members",
                    value: members.len() as u64,
                });
            }
            let store = |raw: &[u8; MEMBER_BYTES]| StoreId(u128::from_le_bytes(*raw));
            RequestBody::Fence {
                owner: NodeId(raw.owner),
                in_sync: members[..in_sync].iter().map(store).collect(),
                syncing: members[in_sync..].iter().map(store).collect(),
                blocks_per_chunk: raw.blocks_per_chunk,
                given_back,
            }
        }
        Kind::Open => {
            let raw = RawOpen::get(&mut reader)?;
            reader.end()?;
            RequestBody::Open {
                chunk: ChunkIndex(raw.chunk),
            }
        }
        Kind::Write => {
            let raw = RawWrite::get(&mut reader)?;
            let sums = get_sums(reader, pieces(raw.offset_bytes, prefix.payload_bytes))?;
            RequestBody::Write {
                chunk: ChunkIndex(raw.chunk),
                offset_bytes: raw.offset_bytes,
                length_bytes: prefix.payload_bytes as u32,
                version: Version(raw.version),
                previous: Version(raw.previous),
                sums,
            }
        }
        Kind::Clear => {
            let raw = RawClear::get(&mut reader)?;
            reader.end()?;
            RequestBody::Clear {
                chunk: ChunkIndex(raw.chunk),
                range: BlockRange::new(raw.first, raw.count),
                version: Version(raw.version),
                previous: Version(raw.previous),
            }
        }
        Kind::Read => {
            let raw = RawRead::get(&mut reader)?;
            reader.end()?;
            if u32::from(raw.count) > MAX_IO_BLOCKS {
                return Err(DecodeError::Field {
                    field: "blocks to read",
                    value: raw.count.into(),
                });
            }
            let range = BlockRange::new(raw.first, raw.count);
            RequestBody::Read {
                chunk: ChunkIndex(raw.chunk),
                range,
                least: Version(raw.least),
            }
        }
        Kind::Changes => {
            let raw = RawChanges::get(&mut reader)?;
            reader.end()?;
            let from = BlockIndex(raw.from);
            RequestBody::Changes {
                chunk: ChunkIndex(raw.chunk),
                since: Version(raw.since),
                from,
            }
        }
        Kind::Roll => {
            let raw = RawRoll::get(&mut reader)?;
            let entries = get_changes(reader)?;
            if raw.flags & !(ROLL_FIRST | ROLL_LAST) != 0 {
                return Err(DecodeError::Field {
                    field: "flags of a roll-forward",
                    value: raw.flags.into(),
                });
            }
            if data_bytes(&entries) != prefix.payload_bytes {
                return Err(DecodeError::PayloadBytes {
                    kind: prefix.kind,
                    bytes: prefix.payload_bytes as u32,
                });
            }
            RequestBody::Roll {
                chunk: ChunkIndex(raw.chunk),
                version: Version(raw.version),
                previous: Version(raw.previous),
                entries,
                first: raw.flags & ROLL_FIRST != 0,
                last: raw.flags & ROLL_LAST != 0,
            }
        }
        Kind::Confirm => {
            reader.end()?;
            RequestBody::Confirm
        }
        Kind::Settle => {
            let RawSettle { want, back } = RawSettle::get(&mut reader)?;
            reader.end()?;
            RequestBody::Settle { want, back }
        }
        Kind::Allocation => {
            let raw = RawAllocation::get(&mut reader)?;
            reader.end()?;
            RequestBody::Allocation {
                chunk: ChunkIndex(raw.chunk),
                least: Version(raw.least),
            }
        }
        Kind::Keep => {
            let raw = RawKeep::get(&mut reader)?;
            let (live, rest) = reader.rest().as_chunks::<SNAPSHOT_BYTES>();
            Reader::new(rest).end()?;
            if raw.head > 1 {
                return Err(DecodeError::Field {
                    field: "does the volume live on",
                    value: raw.head.into(),
                });
            }
            RequestBody::Keep {
                chunk: ChunkIndex(raw.chunk),
                head: raw.head == 1,
                above: SnapshotId(raw.above),
                to: SnapshotId(raw.to),
                live: live.iter().map(|raw| SnapshotId(u32::from_le_bytes(*raw))).collect(),
            }
        }
        Kind::Clone => {
            let raw = RawClone::get(&mut reader)?;
            reader.end()?;
            RequestBody::Clone {
                chunk: ChunkIndex(raw.chunk),
                origin: VolumeId(raw.origin),
                at: SnapshotId(raw.at),
            }
        }
        _ => resync::get(prefix, reader)?,
    })
}

/// The payload that goes with entries: a block for each that has data.
fn data_bytes(entries: &[Change]) -> usize {
    entries.iter().filter(|entry| entry.sum.is_some()).count() * BLOCK_BYTES as usize
}

pub(super) fn put_sums(out: &mut Vec<u8>, sums: &Sums) {
    for sum in sums {
        out.extend_from_slice(&sum.to_le_bytes());
    }
}

/// Exactly `count` sums, and nothing after them.
pub(super) fn get_sums(reader: Reader<'_>, count: usize) -> Result<Sums, DecodeError> {
    let (sums, rest) = reader.rest().as_chunks::<SUM_BYTES>();
    Reader::new(rest).end()?;
    if sums.len() != count || count > MAX_PIECES {
        return Err(DecodeError::Field {
            field: "number of checksums",
            value: sums.len() as u64,
        });
    }
    Ok(sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect())
}

pub(super) fn put_changes(out: &mut Vec<u8>, entries: &[Change]) -> Result<(), EncodeError> {
    if entries.len() > MAX_CHANGES {
        return Err(EncodeError::Field {
            field: "number of entries",
            value: entries.len() as u64,
        });
    }
    for &Change { block, version, sum } in entries {
        let has_sum = sum.is_some().into();
        RawChange {
            version: version.0,
            sum: sum.unwrap_or(0),
            block: block.0,
            has_sum,
        }
        .put(out);
    }
    Ok(())
}

/// Entries up to the end of the head, which bounds them.
pub(super) fn get_changes(mut reader: Reader<'_>) -> Result<Vec<Change>, DecodeError> {
    let bytes = reader.rest().len();
    if !bytes.is_multiple_of(RawChange::BYTES) || bytes > MAX_CHANGES * CHANGE_BYTES {
        return Err(DecodeError::Field {
            field: "bytes of entries",
            value: bytes as u64,
        });
    }
    let mut entries = Vec::with_capacity(bytes / RawChange::BYTES);
    for _ in 0..bytes / RawChange::BYTES {
        let raw = RawChange::get(&mut reader)?;
        let sum = match (raw.has_sum, raw.sum) {
            (1, sum) => Some(sum),
            (0, 0) => None,
            (other, _) => {
                return Err(DecodeError::Field {
                    field: "presence of a checksum",
                    value: other.into(),
                });
            }
        };
        entries.push(Change {
            block: BlockIndex(raw.block),
            version: Version(raw.version),
            sum,
        });
    }
    Ok(entries)
}
