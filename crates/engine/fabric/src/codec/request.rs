//! Requests of a sequencer to a store.

mod chunk;
mod fence;
mod resync;
mod roll;
mod states;

pub(super) use chunk::{
    ALLOCATION_BYTES, CLEAR_BYTES, CLONE_BYTES, DIFFER_BYTES, INHERIT_BYTES, OPEN_BYTES, READ_BYTES,
    RETAIN_SNAPSHOTS_BYTES, WRITE_BYTES,
};
pub(super) use fence::{FENCE_BYTES, SETTLE_BYTES, SUCCEED_BYTES};
pub(super) use resync::{CHUNKS_BYTES, JOIN_BYTES, MEND_BYTES, RESTORE_BYTES, VERIFY_BYTES, WHOLE_BYTES};
pub(super) use roll::{CHANGES_BYTES, ROLL_BYTES};
pub(super) use states::{CLOSE_BYTES, FRAME_BYTES, MARK_BYTES, PUT_BYTES, STATES_BYTES};

use super::control::{get_generation, no_payload};
use super::wire::{Reader, Wire, wire};
use super::{DecodeError, EncodeError, Kind, Prefix};
use amita_types::message::{Change, MAX_CHANGES, MAX_PIECES, Request, RequestBody, Scope, Sums};
use amita_types::{
    BlockIndex, Epoch, Generation, GroupId, GroupIndex, PoolId, RequestId, SnapshotId, StoreId, TraceId, Version,
    VolumeId,
};

/// What a kind of request says: one encoding, one decoding.
trait Body: Sized {
    /// Appends itself; its kind. `payload_bytes` travel beside it.
    fn put(&self, out: &mut Vec<u8>, payload_bytes: usize) -> Result<Kind, EncodeError>;
    /// Reads itself to the end of the head.
    fn get(prefix: Prefix, reader: Reader<'_>) -> Result<Self, DecodeError>;
}

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
    /// An entry of a roll-forward or of a list of changes. `sum` is zero where there is none.
    RawChange: 15 { version: u64, sum: u32, block: u16, has_sum: u8, }
}

/// Bytes of an entry.
pub(super) const CHANGE_BYTES: usize = RawChange::BYTES;
pub(super) const SUM_BYTES: usize = size_of::<u32>();
const fn exactly(bytes: usize) -> (usize, usize) {
    (RawRequest::BYTES + bytes, RawRequest::BYTES + bytes)
}
const fn from_to(least: usize, more: usize) -> (usize, usize) {
    (RawRequest::BYTES + least, RawRequest::BYTES + least + more)
}

pub(super) const RENEW_LEASE_BYTES: (usize, usize) = exactly(0);

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
        RequestBody::Write(_)
            | RequestBody::Roll(_)
            | RequestBody::Mend(_)
            | RequestBody::Put(_)
            | RequestBody::Restore(_)
    );
    if !has_payload {
        no_payload(payload_bytes)?;
    }
    match &request.body {
        RequestBody::Fence(body) => body.put(out, payload_bytes),
        RequestBody::Open(body) => body.put(out, payload_bytes),
        RequestBody::Write(body) => body.put(out, payload_bytes),
        RequestBody::Clear(body) => body.put(out, payload_bytes),
        RequestBody::Read(body) => body.put(out, payload_bytes),
        RequestBody::Changes(body) => body.put(out, payload_bytes),
        RequestBody::Roll(body) => body.put(out, payload_bytes),
        RequestBody::Settle(body) => body.put(out, payload_bytes),
        RequestBody::Allocation(body) => body.put(out, payload_bytes),
        RequestBody::RetainSnapshots(body) => body.put(out, payload_bytes),
        RequestBody::Clone(body) => body.put(out, payload_bytes),
        RequestBody::Inherit(body) => body.put(out, payload_bytes),
        RequestBody::Chunks(body) => body.put(out, payload_bytes),
        RequestBody::Join(body) => body.put(out, payload_bytes),
        RequestBody::Mend(body) => body.put(out, payload_bytes),
        RequestBody::Whole(body) => body.put(out, payload_bytes),
        RequestBody::Verify(body) => body.put(out, payload_bytes),
        RequestBody::States(body) => body.put(out, payload_bytes),
        RequestBody::Frame(body) => body.put(out, payload_bytes),
        RequestBody::Put(body) => body.put(out, payload_bytes),
        RequestBody::Close(body) => body.put(out, payload_bytes),
        RequestBody::Mark(body) => body.put(out, payload_bytes),
        RequestBody::Differ(body) => body.put(out, payload_bytes),
        RequestBody::Restore(body) => body.put(out, payload_bytes),
        RequestBody::RenewLease => Ok(Kind::RenewLease),
    }
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
        purpose: Default::default(),
        body,
    })
}

fn get_body(prefix: Prefix, reader: Reader<'_>) -> Result<RequestBody, DecodeError> {
    Ok(match prefix.kind {
        Kind::Fence | Kind::Succeed => RequestBody::Fence(Body::get(prefix, reader)?),
        Kind::Open => RequestBody::Open(Body::get(prefix, reader)?),
        Kind::Write => RequestBody::Write(Body::get(prefix, reader)?),
        Kind::Clear => RequestBody::Clear(Body::get(prefix, reader)?),
        Kind::Read => RequestBody::Read(Body::get(prefix, reader)?),
        Kind::Changes => RequestBody::Changes(Body::get(prefix, reader)?),
        Kind::Roll => RequestBody::Roll(Body::get(prefix, reader)?),
        Kind::Settle => RequestBody::Settle(Body::get(prefix, reader)?),
        Kind::Allocation => RequestBody::Allocation(Body::get(prefix, reader)?),
        Kind::RetainSnapshots => RequestBody::RetainSnapshots(Body::get(prefix, reader)?),
        Kind::Clone => RequestBody::Clone(Body::get(prefix, reader)?),
        Kind::Inherit => RequestBody::Inherit(Body::get(prefix, reader)?),
        Kind::Chunks => RequestBody::Chunks(Body::get(prefix, reader)?),
        Kind::Join => RequestBody::Join(Body::get(prefix, reader)?),
        Kind::Mend => RequestBody::Mend(Body::get(prefix, reader)?),
        Kind::Whole => RequestBody::Whole(Body::get(prefix, reader)?),
        Kind::Verify => RequestBody::Verify(Body::get(prefix, reader)?),
        Kind::States => RequestBody::States(Body::get(prefix, reader)?),
        Kind::Frame => RequestBody::Frame(Body::get(prefix, reader)?),
        Kind::Put => RequestBody::Put(Body::get(prefix, reader)?),
        Kind::Close => RequestBody::Close(Body::get(prefix, reader)?),
        Kind::Mark => RequestBody::Mark(Body::get(prefix, reader)?),
        Kind::Differ => RequestBody::Differ(Body::get(prefix, reader)?),
        Kind::Restore => RequestBody::Restore(Body::get(prefix, reader)?),
        Kind::RenewLease => {
            reader.end()?;
            RequestBody::RenewLease
        }
        other => return Err(DecodeError::Kind(other as u8)),
    })
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
