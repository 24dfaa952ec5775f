//! What a sequencer and a store say to each other: the same types by a call, by a core-to-core ring, and (encoded by
//! `fabric`) by a network.
//!
//! Bulk data travels beside the message, never inside it: a [`Request`] or [`Answer`] goes together with one payload
//! slice, empty where the body names none.
//!
//! What every message carries and why: the *epoch* of the group (a store refuses an older one, so that every sequencer
//! learns of a change: R2), the *generation* of the volume (a store refuses an older one: fencing, R6), and in every
//! answer a *read lease* (R4) and *credits* (R7).

use crate::id::{Epoch, Generation, GroupId, NodeId, RequestId, SnapshotId, StoreId, VolumeId};
use crate::io::Differs;
use crate::layout::{BlockIndex, BlockRange, ChunkIndex, MAX_IO_BLOCKS};
use crate::trace::{StoreTrace, TraceId};
use crate::version::Version;
use arrayvec::ArrayVec;
use smallvec::SmallVec;

mod chunk;
mod purpose;
mod waited;

pub use purpose::{BACKUPS_TOLD_SINCE, Purpose};

/// The finalized cluster version from which on requests to other nodes say which version the chunk itself must have: programs from before take
/// a frame that says so for damage.
pub const NEWEST_TOLD_SINCE: u32 = 6;
pub use waited::Waited;

/// The most members of a group.
pub const MAX_MEMBERS: usize = 8;
/// The most pieces of one write: [`MAX_IO_BLOCKS`], and one more when it starts inside a block.
pub const MAX_PIECES: usize = MAX_IO_BLOCKS as usize + 1;
/// The most entries that one answer to [`RequestBody::Changes`] or one [`RequestBody::Roll`] carries. (They are rare: a
/// vector, so that the common messages stay small.)
pub const MAX_CHANGES: usize = MAX_IO_BLOCKS as usize;

/// The in-sync stores of a group.
pub type MemberSet = ArrayVec<StoreId, MAX_MEMBERS>;

/// CRC-32C (RFC 3720, appendix B.4) of each piece of a payload. A piece is what lies inside one block: the first and
/// the last may be short, all others are whole blocks. At most [`MAX_PIECES`]; those of small I/O lie in the message
/// itself, which is moved a dozen times on its way and should be short.
pub type Sums = SmallVec<[u32; SUMS_INSIDE]>;

/// So many checksums take no more room in a message than a pointer to them would.
const SUMS_INSIDE: usize = 4;

/// Under what right a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The volume.
    pub volume: VolumeId,
    /// The sequencer's generation of it.
    pub generation: Generation,
    /// The group of the chunk.
    pub group: GroupId,
    /// The group's epoch as the sequencer knows it.
    pub epoch: Epoch,
    /// What changes a chunk (`Write`, `Clear`, `Roll`, `Join`): the newest snapshot of the volume; a store that sees a
    /// newer one than the chunk's last change carried keeps the chunk as it was. What reads: the snapshot to read;
    /// [`SnapshotId::HEAD`]: the volume itself.
    pub snapshot: SnapshotId,
}

/// The most live snapshots that one [`RequestBody::RetainSnapshots`] names.
pub const MAX_SNAPSHOTS: usize = 128;

/// A sequencer's message to a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Names the request on its link; the answer carries it. A resend has the id of the original.
    pub id: RequestId,
    /// Which store of the node is meant.
    pub store: StoreId,
    /// Under what right.
    pub scope: Scope,
    /// The trace of the I/O that it is for, if that is traced: the answer says how long the store took.
    pub trace: TraceId,
    /// What it is for.
    pub purpose: Purpose,
    /// What to do.
    pub body: RequestBody,
}

/// What a store is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestBody {
    /// [`FenceRequest`]
    Fence(FenceRequest),
    /// [`OpenRequest`]
    Open(OpenRequest),
    /// [`WriteRequest`]
    Write(WriteRequest),
    /// [`ClearRequest`]
    Clear(ClearRequest),
    /// [`ReadRequest`]
    Read(ReadRequest),
    /// [`ChangesRequest`]
    Changes(ChangesRequest),
    /// [`RollRequest`]
    Roll(RollRequest),
    /// [`RetainSnapshotsRequest`]
    RetainSnapshots(RetainSnapshotsRequest),
    /// [`CloneRequest`]
    Clone(CloneRequest),
    /// [`InheritRequest`]
    Inherit(InheritRequest),
    /// Nothing but a lease is wanted (R4).
    RenewLease,
    /// [`SettleRequest`]
    Settle(SettleRequest),
    /// [`ChunksRequest`]
    Chunks(ChunksRequest),
    /// [`JoinRequest`]
    Join(JoinRequest),
    /// [`MendRequest`]
    Mend(MendRequest),
    /// [`WholeRequest`]
    Whole(WholeRequest),
    /// [`VerifyRequest`]
    Verify(VerifyRequest),
    /// [`AllocationRequest`]
    Allocation(AllocationRequest),
    /// [`StatesRequest`]
    States(StatesRequest),
    /// [`FrameRequest`]
    Frame(FrameRequest),
    /// [`PutRequest`]
    Put(PutRequest),
    /// [`CloseRequest`]
    Close(CloseRequest),
    /// [`MarkRequest`]
    Mark(MarkRequest),
    /// [`DifferRequest`]
    Differ(DifferRequest),
    /// [`RestoreRequest`]
    Restore(RestoreRequest),
}

/// Adopt the scope's epoch with this in-sync set, and the scope's generation for its volume, durably; drain
/// everything accepted under an older generation first. Equal to what the store has: answered at once. A *newer
/// generation* waits until the lease of the old owner has run out or was given back (R4), an older one is
/// refused.
#[derive(Clone, Debug, PartialEq)]
pub struct FenceRequest {
    /// The gateway that owns the generation.
    pub owner: NodeId,
    /// The group's in-sync set at this epoch.
    pub in_sync: Vec<StoreId>,
    /// The stores that are being brought up to date at this epoch: they get every write and serve nothing (R2).
    pub syncing: Vec<StoreId>,
    /// The largest of the chunk's blocks count of the pool, so that a store can check ranges.
    pub blocks_per_chunk: u16,
    /// The generation whose owner has handed the volume over: it serves nothing any more, so that the lease that this
    /// store has granted to exactly this generation need not be waited for. (An older one's owner may still read by
    /// its own.)
    pub given_back: Option<Generation>,
}

/// What version of this chunk do you hold?
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
}

/// Write the payload. Applied only onto exactly `previous` (R1); an identical version that is already applied is
/// answered once durable (R8).
#[derive(Clone, Debug, PartialEq)]
pub struct WriteRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// First byte, inside the chunk. Need not be a multiple of the block: the store reads, merges and writes.
    pub offset_bytes: u32,
    /// Bytes; equals the payload's length; at most `MAX_IO_BYTES`.
    pub length_bytes: u32,
    /// This write's version.
    pub version: Version,
    /// The version that it follows.
    pub previous: Version,
    /// CRC-32C of each piece.
    pub sums: Sums,
}

/// Unmap blocks: they read as zeros. Leaves a versioned entry. Any range inside the chunk; no payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClearRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The blocks.
    pub range: BlockRange,
    /// This write's version.
    pub version: Version,
    /// The version that it follows.
    pub previous: Version,
}

/// Read whole blocks, at most `MAX_IO_BLOCKS`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The blocks.
    pub range: BlockRange,
    /// A store whose chunk is older refuses (R8).
    pub least: Version,
    /// The answer is to say which version each block has (S15): only owners of encrypted volumes ask.
    pub versions: bool,
    /// Of a snapshot: a store whose chunk itself is older than this refuses, too. See [`NEWEST_TOLD_SINCE`].
    pub newest: Option<Version>,
}

/// List the entries whose version is above `since`, in order of their block, from block `from` on. For a
/// roll-forward (R6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangesRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// Entries above this one only.
    pub since: Version,
    /// The first block to list.
    pub from: BlockIndex,
}

/// One part of a roll-forward of the chunk from `previous` to `version`. Parts are kept in memory until the one
/// with `last`; then all of them are applied by one record, or none (R6). The payload holds the blocks of the
/// entries that have data, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct RollRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The version that the chunk gets.
    pub version: Version,
    /// The version that the member has now.
    pub previous: Version,
    /// The entries of this part.
    pub entries: Vec<Change>,
    /// The first part empties what an earlier attempt left.
    pub first: bool,
    /// With this part the roll-forward is whole.
    pub last: bool,
}

/// Of the chunk's snapshots above `above` and up to `to` keep those that `live` names, and the chunk itself if `head`
/// is set. What is kept for several snapshots, some of them outside these bounds, stays. Space that nothing else
/// holds returns. May be asked again and again: it says what is to be, not what is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct RetainSnapshotsRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// Does the volume itself live on?
    pub head: bool,
    /// Snapshots above this one are meant; itself a live one, or 0.
    pub above: SnapshotId,
    /// Up to and with this one.
    pub to: SnapshotId,
    /// Those of them that can still be read; ascending; at most [`MAX_SNAPSHOTS`].
    pub live: Vec<SnapshotId>,
}

/// Make the chunk, which was never written, what the chunk of the same index of volume `origin` was at snapshot `at`.
/// No data is copied: both use the same slots. It gets the version that the origin had then, so the volume's first
/// generation must not be below the origin's. Where the origin has no such chunk, nothing is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CloneRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The volume that it comes from; its chunks lie in the same groups (rule D8).
    pub origin: VolumeId,
    /// Which of its snapshots.
    pub at: SnapshotId,
}

/// What has the chunk of a clone from what that was cloned from, where it has none of its own (S8)? The nearest of the parents that
/// has the chunk counts. Answered by `Opened`; or, where a version is named, the chunk is made: it gets that version, and all the
/// parent's entries; no data is copied, both use the same slots. One that is there stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct InheritRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The version that the nearest parent has there, if the chunk is to be made; one that has another makes nothing.
    /// [`Version::NONE`]: it is only to be told; [`InheritRequest::ANY`]: whichever it is.
    pub version: Version,
    /// The nearest first, at most [`crate::map::MAX_LEVELS`]: volume and snapshot. Their chunks lie in the same groups (D8).
    pub parents: Vec<(VolumeId, SnapshotId)>,
}

impl InheritRequest {
    /// As [`InheritRequest::version`]: whatever the parents have there, if anything. For a store of which it is known that it has them
    /// whole.
    pub const ANY: Version = Version(u64::MAX);
}

/// Credits (R7): some are given back that are not needed at present, or more are wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SettleRequest {
    /// Blocks that a write waits for; 0: nothing waits.
    pub want: u32,
    /// Blocks that the sender's account is to have less. It has taken them out of its own count before it sent this, so
    /// that what is behind this on the link rests on the rest.
    pub back: u32,
}

/// List the volume's chunks of the scope's group that the store holds, in order of their index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChunksRequest {
    /// The first index to list.
    pub from: ChunkIndex,
    /// Only chunks that core `core` of `cores` sequences ([`crate::ChunkId::core`]).
    pub core: u16,
    /// See `core`.
    pub cores: u16,
    /// Groups of the pool: a power of two; chunks of other groups than the scope's are not listed.
    pub groups: u32,
    /// The volume by whose number the volume's chunks are hashed to groups, where that is another one (D8).
    pub place: Option<VolumeId>,
}

/// The chunk's history goes on here from version `at`: to a member that is being brought up to date, before the first
/// write of the chunk. Where the store is whole at `at`, it stays so; where it has that version in the asker's own
/// history already, nothing is done; else the chunk is durably *incomplete* since the version at which it was whole
/// (R5), and takes writes from `at` on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoinRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The version that the next write names as its predecessor.
    pub at: Version,
}

/// Replace entries, each only where it is exactly as expected (R5); the versions of the chunk stay. For resync and
/// repair. The payload holds the blocks of the entries that put data, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct MendRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// In order of their block; at most [`MAX_CHANGES`].
    pub entries: Vec<Mend>,
}

/// The chunk holds everything up to the version that it has got to by the requests before this one, and every state that it
/// should have (S6): it is whole. Refused as `Busy` where it carries another number, has a state that is open, or one for
/// snapshots above its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholeRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// That version; another one is refused as `WrongPredecessor`.
    pub version: Version,
    /// The snapshot number that this version carries.
    pub number: SnapshotId,
    /// The number that the chunk's first write carried: older snapshots have nothing of it.
    pub born: SnapshotId,
}

/// What was the chunk for its snapshots? Answered when all that was accepted of it is durable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatesRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// Only states for snapshots above this one.
    pub from: SnapshotId,
}

/// An incomplete chunk gets a state that it lacks (S6). It is *open*: it begins as its newer neighbour is, changes of that
/// keep what they replace for it, and it serves nothing until it is closed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// For the snapshots above this one
    pub above: SnapshotId,
    /// up to this one. Where the chunk's last change carried a smaller number, it is refused as `Busy`.
    pub to: SnapshotId,
    /// The chunk's version then.
    pub version: Version,
}

/// Entries of an open state (S6). One that the state's older or newer neighbour has for its block, with this version and
/// checksum, uses the same slot; the others need data, and where one has none nothing is done and the answer names them as
/// skipped. The payload holds the blocks that `with_data` names, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct PutRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The newest snapshot of the state.
    pub to: SnapshotId,
    /// One bit for each entry, from the lowest on: its data is in the payload.
    pub with_data: u32,
    /// The chunk's version then.
    pub version: Version,
    /// In order of their block; at most [`MAX_CHANGES`]. With [`Version::NONE`]: it was never written.
    pub entries: Vec<Change>,
}

const _: () = assert!(MAX_CHANGES <= u32::BITS as usize);

/// An open state is what it should be: it is closed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CloseRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The newest snapshot of the state.
    pub to: SnapshotId,
    /// The chunk's version then.
    pub version: Version,
}

/// An incomplete chunk gets a mark that it lacks (S6): which version it had for snapshots that are deleted, so that what was changed since can
/// be told still.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarkRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// For the snapshots above this one
    pub above: SnapshotId,
    /// up to this one.
    pub to: SnapshotId,
    /// The chunk's version then.
    pub version: Version,
}

/// A block has rotted: what lies in its slot is replaced there, so that whatever refers to the slot has it again (S12). Only where
/// the entry of the scope's snapshot is exactly this one, and what lies there fails its checksum; else the answer names the block as
/// skipped. Refused as `Damaged` where the device does not take it. The payload is the block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RestoreRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The block.
    pub block: BlockIndex,
    /// The entry's version.
    pub version: Version,
    /// CRC-32C of the block.
    pub sum: u32,
}

/// Read the blocks from `from` on from the disk and check them; list their entries. For scrubbing: nothing of the data
/// travels. At most [`MAX_CHANGES`] blocks are looked at by one request. Of a snapshot only blocks are looked at, and listed, that lie
/// elsewhere than in the next newer view of the chunk: what they share is looked at there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerifyRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The first block to look at.
    pub from: BlockIndex,
    /// As of at least this version.
    pub least: Version,
}

/// Which blocks of a chunk are allocated?
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AllocationRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// As of at least this version.
    pub least: Version,
    /// As of a read; where it is there the answer names a version.
    pub newest: Option<Version>,
}

/// Which blocks of a chunk have another entry, in the scope's snapshot, than in an older one (S5)? And have those data?
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DifferRequest {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The older snapshot.
    pub since: SnapshotId,
    /// As of at least this version.
    pub least: Version,
    /// As of an allocation.
    pub newest: Option<Version>,
}

/// A block's entry, as it travels in a roll-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The block.
    pub block: BlockIndex,
    /// The version of the write that made the entry.
    pub version: Version,
    /// CRC-32C of the whole block, or `None` where the block was cleared.
    pub sum: Option<u32>,
}

/// One entry of a [`RequestBody::Mend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mend {
    /// The block.
    pub block: BlockIndex,
    /// What the store must hold there, changes that it has accepted included.
    pub expect: Expect,
    /// The version of the new entry.
    pub version: Version,
    /// CRC-32C of the new block; `None`: it is unmapped. With [`Version::NONE`]: as if it had never been written.
    pub sum: Option<u32>,
}

/// What a [`Mend`] expects of the entry that it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// This version and this checksum (`None`: unmapped; with [`Version::NONE`]: never written).
    Entry {
        /// Its version.
        version: Version,
        /// Its checksum.
        sum: Option<u32>,
    },
    /// Any entry whose version is not above this one, or none.
    Upto {
        /// The newest version that may be replaced.
        version: Version,
    },
    /// The store has lost the entry itself (a damaged page of its index).
    Lost,
}

/// What a store holds of a chunk, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkState {
    /// The chunk.
    pub chunk: ChunkIndex,
    /// The version that its last change gave it.
    pub version: Version,
    /// Where it is incomplete (R5): the version at which it was last whole.
    pub incomplete: Option<Version>,
}

/// The most chunks that one answer to [`RequestBody::Chunks`] lists.
pub const MAX_LISTED_CHUNKS: usize = 256;

/// A store's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The request's.
    pub id: RequestId,
    /// Which store answers.
    pub store: StoreId,
    /// For how long from now, in milliseconds, the store accepts no newer generation of the request's volume (R4).
    /// Zero: no lease. The sequencer counts it from the time when it sent the request.
    pub lease_ms: u16,
    /// Blocks of space granted to the link that asked, on top of what it has left (R7).
    pub credit_blocks: u32,
    /// How long the request had waited for its turn.
    pub waited: Waited,
    /// How long the store took with what, where the request is traced. (In a box: messages are moved often, and few are
    /// traced.)
    pub trace: Option<Box<StoreTrace>>,
    /// What came of it.
    pub result: Result<AnswerBody, Refusal>,
}

/// What a store did.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerBody {
    /// The fence is durable and all that was accepted under older generations is durable or dropped.
    Fenced,
    /// [`OpenedAnswer`]
    Opened(OpenedAnswer),
    /// Durable: `Write`, `Clear` and the last part of a `Roll`; an earlier part of a `Roll` is only kept.
    Done,
    /// [`DataAnswer`]
    Data(DataAnswer),
    /// [`ChangesAnswer`]
    Changes(ChangesAnswer),
    /// Only the lease was wanted.
    LeaseRenewed,
    /// [`SettledAnswer`]
    Settled(SettledAnswer),
    /// [`ChunksAnswer`]
    Chunks(ChunksAnswer),
    /// [`JoinedAnswer`]
    Joined(JoinedAnswer),
    /// [`MendedAnswer`]
    Mended(MendedAnswer),
    /// [`VerifiedAnswer`]
    Verified(VerifiedAnswer),
    /// [`AllocationAnswer`]
    Allocation(AllocationAnswer),
    /// [`StatesAnswer`]
    States(StatesAnswer),
    /// [`DiffersAnswer`]
    Differs(DiffersAnswer),
}

/// What a chunk was for its snapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct StatesAnswer {
    /// The snapshot number that its version carries.
    pub number: SnapshotId,
    /// The number that its first write carried.
    pub born: SnapshotId,
    /// From the oldest to the newest, marks among them; at most [`MAX_SNAPSHOTS`].
    pub states: Vec<StateInfo>,
    /// Ask again from here, if given.
    pub more: Option<SnapshotId>,
}

/// What a chunk was for some snapshots that no write came between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateInfo {
    /// For those above this one
    pub above: SnapshotId,
    /// up to this one.
    pub to: SnapshotId,
    /// The chunk's version then.
    pub version: Version,
    /// It is being brought, and serves nothing.
    pub open: bool,
    /// Only the version is left: those snapshots are deleted, and what was changed since is to be told still.
    pub mark: bool,
}

/// The chunk's version, and whether the store holds it whole (R5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenedAnswer {
    /// [`Version::NONE`] where the store has no such chunk.
    pub version: Version,
    /// Where it is incomplete (R5): the version at which it was last whole. Such a copy never counts as the longest.
    pub incomplete: Option<Version>,
    /// The snapshot number that this version carries (S3); [`SnapshotId::HEAD`]: none was ever taken when it was written.
    pub number: SnapshotId,
}

impl OpenedAnswer {
    /// The store has no such chunk.
    pub const NOTHING: OpenedAnswer = OpenedAnswer {
        version: Version::NONE,
        incomplete: None,
        number: SnapshotId::HEAD,
    };
}

/// The blocks asked for are the payload; or, where all of them are unmapped, the payload is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct DataAnswer {
    /// The newest version among the entries of the blocks (R3).
    pub version: Version,
    /// CRC-32C of each block; empty with an empty payload.
    pub sums: Sums,
    /// The versions of the blocks' entries, where the request asks for them; else, and with an empty payload, none.
    pub runs: Box<[Run]>,
}

/// Blocks beside one another that one write has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub blocks: u16,
    /// The version of their entries. [`Version::NONE`]: they have no data, whether they were cleared or never written.
    pub version: Version,
}

/// Entries of the chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangesAnswer {
    /// In order of their block.
    pub entries: Vec<Change>,
    /// Ask again from here, if given.
    pub more: Option<BlockIndex>,
}

/// Answer to [`RequestBody::Settle`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SettledAnswer {
    /// There is not as much as is wanted, and nothing is on its way back: the store is full. Else the answer's credits
    /// are what can be granted now; where that is too little, it is worth asking again.
    pub full: bool,
}

/// Chunks.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunksAnswer {
    /// In order of their index; at most [`MAX_LISTED_CHUNKS`].
    pub chunks: Vec<ChunkState>,
    /// Ask again from here, if given.
    pub more: Option<ChunkIndex>,
}

/// The chunk's history goes on at the version asked for, durably.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JoinedAnswer {
    /// Where the chunk is incomplete: the version at which it was last whole. `None`: it is whole.
    pub incomplete: Option<Version>,
}

/// Entries were replaced, durably, but for those that were not as expected; or of a [`RequestBody::Put`] all or none.
#[derive(Clone, Debug, PartialEq)]
pub struct MendedAnswer {
    /// Their blocks, in order.
    pub skipped: Vec<BlockIndex>,
}

/// Blocks were read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedAnswer {
    /// The entries of the blocks looked at, in order of their block; blocks that were never written have none.
    pub entries: Vec<Change>,
    /// Those whose data is damaged or cannot be read; or whose entry is lost.
    pub damaged: Vec<BlockIndex>,
    /// Ask again from here, if given.
    pub more: Option<BlockIndex>,
}

/// One bit a block, little-endian, set where the block has data.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocationAnswer {
    /// The bitmap: `MAX_BLOCKS_PER_CHUNK / 64` words.
    pub allocated: Box<[u64; 16]>,
    /// The version of which that is so, where it was asked for.
    pub version: Option<Version>,
}

/// What differs.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffersAnswer {
    /// Block by block.
    pub differs: Box<Differs>,
    /// The newer version of the two, where it was asked for.
    pub version: Option<Version>,
}

/// Why a store did not do it. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The group has moved on: the sequencer reads the metadata.
    StaleEpoch {
        /// The store's.
        epoch: Epoch,
    },
    /// The store has not adopted that epoch or generation: the sequencer fences first.
    NotFenced,
    /// A newer sequencer owns the volume: the asker must stop.
    Fenced {
        /// The store's.
        generation: Generation,
    },
    /// The write does not follow what the store holds.
    WrongPredecessor {
        /// What the store holds (accepted writes included).
        current: Version,
    },
    /// The store is behind what the read must include.
    Behind {
        /// What the store holds.
        current: Version,
    },
    /// A block's checksum is wrong on this store; it was not served.
    Damaged {
        /// Which.
        block: BlockIndex,
    },
    /// No free space within the asker's credits.
    NoSpace,
    /// The payload does not match its checksums, or a field is out of range.
    Invalid {
        /// What is wrong, for the log.
        what: Problem,
    },
    /// The store met an I/O error of unknown outcome and serves nothing until it is mounted anew.
    Poisoned,
    /// The node serves no store of that UUID.
    NoSuchStore,
    /// The store has as much to do as it can hold; ask again.
    Busy,
    /// The store is not in sync, or its copy of the chunk is incomplete: it serves nothing of it (R5).
    Incomplete,
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Problem {
    /// A range outside the chunk, empty, or longer than allowed.
    Range = 1,
    /// The payload's length is not what the body says.
    Length = 2,
    /// A checksum of the payload is wrong.
    Checksum = 3,
    /// The version is not the successor of `previous`, or not of the scope's generation.
    Version = 4,
    /// A set of members is empty or does not name the store.
    Members = 5,
    /// A change names an older snapshot than the chunk's last one did, or comes after the volume was deleted; or a
    /// snapshot is asked for that is not kept any more.
    Snapshot = 6,
    /// A change is sent again with another snapshot number than it had: the number belongs to the version (S3).
    Number = 7,
}

// Messages are moved by value from queue to queue: what is rare and large is boxed, so that a write stays small.
const _: () = assert!(size_of::<Request>() <= 128 && size_of::<Answer>() <= 112);
