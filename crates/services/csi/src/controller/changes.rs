//! `SnapshotMetadata`: what of a volume was changed between two snapshots, from the versions of its chunks (decision 045).

use super::{BLOCK_BYTES, Controller, missing, signed};
use crate::grpc::{Answers, streamed};
use crate::id::SnapshotId;
use crate::labels;
use crate::wire::snapshot_metadata::{
    BlockMetadata, BlockMetadataType, GetMetadataAllocatedRequest, GetMetadataAllocatedResponse,
    GetMetadataDeltaRequest, GetMetadataDeltaResponse,
};
use http::{Request, Response};
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;

/// Extents of one answer, where nothing is said,
const USUAL: usize = 1000;
/// and at most, as the API has it.
const MOST: usize = 10_000;
/// What pods see of a volume: bytes before it, and its own.
struct Seen {
    before: u64,
    bytes: u64,
}

const KIND: i32 = BlockMetadataType::VariableLength as i32;

/// How many extents an answer is to have.
fn results(most: i32) -> Result<usize, Status> {
    match usize::try_from(most) {
        Ok(0) => Ok(USUAL),
        Ok(most) => Ok(most.min(MOST)),
        Err(_) => Err(Status::invalid_argument("the number of results is negative")),
    }
}

/// Where it begins, in a snapshot of this size.
fn start(offset: i64, size_bytes: u64) -> Result<u64, Status> {
    let start = u64::try_from(offset).ok().filter(|start| *start < size_bytes.max(1));
    start.ok_or_else(|| {
        Status::out_of_range(format!(
            "the snapshot has {size_bytes} bytes, and {offset} is none of them"
        ))
    })
}

fn none(id: &str) -> Status {
    Status::not_found(format!("there is no snapshot {id:?}"))
}

impl Controller {
    pub(crate) async fn route_changes(self, method: &str, request: Request<Incoming>) -> Option<Response<Body>> {
        Some(match method {
            "GetMetadataAllocated" => {
                streamed(request, |q: GetMetadataAllocatedRequest, answers| {
                    self.allocated(q, answers)
                })
                .await
            }
            "GetMetadataDelta" => streamed(request, |q: GetMetadataDeltaRequest, answers| self.delta(q, answers)).await,
            _ => return None,
        })
    }

    /// The snapshot of an id: its volume's name, its own, and where on it what pods see of it lies.
    async fn read_snapshot(&self, id: &str) -> Result<(SnapshotId, String, Seen), Status> {
        if id.is_empty() {
            return Err(missing("snapshot id"));
        }
        let snapshot = SnapshotId::parse(id).ok_or_else(|| none(id))?;
        let of = self.look_up(&snapshot.volume).await?.ok_or_else(|| none(id))?;
        let found = self
            .api
            .snapshot(of.name(), &snapshot.name)
            .await?
            .ok_or_else(|| none(id))?;
        let before = labels::head_bytes(of.volume());
        let bytes = labels::seen_of(of.volume(), found.thing.size_bytes);
        Ok((snapshot, of.name().to_owned(), Seen { before, bytes }))
    }

    pub(super) async fn delta(
        self,
        request: GetMetadataDeltaRequest,
        answers: Answers<GetMetadataDeltaResponse>,
    ) -> Result<(), Status> {
        let limit = results(request.max_results)?;
        let (base, ..) = self.read_snapshot(&request.base_snapshot_id).await?;
        let (target, volume, seen) = self.read_snapshot(&request.target_snapshot_id).await?;
        if base.volume.number != target.volume.number {
            return Err(Status::invalid_argument("the snapshots are of two volumes"));
        }
        // Keys lie before what is encrypted by them; pods do not see these.
        let start = start(request.starting_offset, seen.bytes)? + seen.before;
        // The API counts in blocks.
        let block = start / BLOCK_BYTES * BLOCK_BYTES;
        let mut after = (block > 0).then(|| block.to_string());
        loop {
            let pair = (base.name.as_str(), target.name.as_str());
            let piece = self.api.diff(&volume, pair, limit, after.as_deref()).await?;
            let blocks = piece.items.iter().filter_map(|extent| {
                let end = extent.offset + extent.length;
                let offset = extent.offset.max(start);
                (offset < end).then(|| BlockMetadata {
                    byte_offset: signed(offset - seen.before),
                    size_bytes: signed(end - offset),
                })
            });
            let answer = GetMetadataDeltaResponse {
                block_metadata_type: KIND,
                volume_capacity_bytes: signed(seen.bytes),
                block_metadata: blocks.collect(),
            };
            let is_last = piece.next.is_none();
            // Of a large volume a piece may be empty, and another one behind it.
            let is_told = is_last || !answer.block_metadata.is_empty();
            if is_told && answers.send(Ok(answer)).await.is_err() {
                return Ok(());
            }
            match piece.next {
                None => return Ok(()),
                Some(next) => after = Some(next),
            }
        }
    }

    /// The API does not tell what of a snapshot alone is allocated: all of it is said to be, which is more than there is, and never less.
    pub(super) async fn allocated(
        self,
        request: GetMetadataAllocatedRequest,
        answers: Answers<GetMetadataAllocatedResponse>,
    ) -> Result<(), Status> {
        results(request.max_results)?;
        let (_, _, seen) = self.read_snapshot(&request.snapshot_id).await?;
        let start = start(request.starting_offset, seen.bytes)?;
        let answer = GetMetadataAllocatedResponse {
            block_metadata_type: KIND,
            volume_capacity_bytes: signed(seen.bytes),
            block_metadata: vec![BlockMetadata {
                byte_offset: signed(start),
                size_bytes: signed(seen.bytes - start),
            }],
        };
        // Who has gone needs nothing more.
        let _ = answers.send(Ok(answer)).await;
        Ok(())
    }
}
