//! Which chunk a request is about.

use super::{
    AllocationRequest, ChangesRequest, ClearRequest, CloneRequest, CloseRequest, DifferRequest, FrameRequest,
    InheritRequest, JoinRequest, MarkRequest, MendRequest, OpenRequest, PutRequest, ReadRequest, RequestBody,
    RestoreRequest, RetainSnapshotsRequest, RollRequest, StatesRequest, VerifyRequest, WholeRequest, WriteRequest,
};
use crate::layout::ChunkIndex;

impl RequestBody {
    /// The chunk of the scope's volume that it is about; `None`: it is about the volume, or the store.
    #[must_use]
    pub fn chunk(&self) -> Option<ChunkIndex> {
        match *self {
            RequestBody::Open(OpenRequest { chunk })
            | RequestBody::Write(WriteRequest { chunk, .. })
            | RequestBody::Clear(ClearRequest { chunk, .. })
            | RequestBody::Read(ReadRequest { chunk, .. })
            | RequestBody::Changes(ChangesRequest { chunk, .. })
            | RequestBody::Roll(RollRequest { chunk, .. })
            | RequestBody::RetainSnapshots(RetainSnapshotsRequest { chunk, .. })
            | RequestBody::Clone(CloneRequest { chunk, .. })
            | RequestBody::Inherit(InheritRequest { chunk, .. })
            | RequestBody::Join(JoinRequest { chunk, .. })
            | RequestBody::Mend(MendRequest { chunk, .. })
            | RequestBody::Whole(WholeRequest { chunk, .. })
            | RequestBody::Verify(VerifyRequest { chunk, .. })
            | RequestBody::Allocation(AllocationRequest { chunk, .. })
            | RequestBody::Differ(DifferRequest { chunk, .. })
            | RequestBody::States(StatesRequest { chunk, .. })
            | RequestBody::Frame(FrameRequest { chunk, .. })
            | RequestBody::Put(PutRequest { chunk, .. })
            | RequestBody::Close(CloseRequest { chunk, .. })
            | RequestBody::Mark(MarkRequest { chunk, .. })
            | RequestBody::Restore(RestoreRequest { chunk, .. }) => Some(chunk),
            RequestBody::Fence(_) | RequestBody::RenewLease | RequestBody::Settle(_) | RequestBody::Chunks(_) => None,
        }
    }

    /// Leaves out what programs of before [`NEWEST_TOLD_SINCE`](super::NEWEST_TOLD_SINCE) do not know.
    pub fn leave_out_newest(&mut self) {
        match self {
            RequestBody::Read(ReadRequest { newest, .. })
            | RequestBody::Allocation(AllocationRequest { newest, .. })
            | RequestBody::Differ(DifferRequest { newest, .. }) => *newest = None,
            _ => {}
        }
    }
}
