//! Any message that can be sent.

use crate::codec::{Hello, Refuse, RefuseCode};
use crate::message::{Cut, CutOutcome, CutStep, Forward, ForwardOp, Forwarded, Message, ReleaseOutcome};
use amita_types::io::Differs;
use amita_types::message::{
    AllocationAnswer, AllocationRequest, Answer, AnswerBody, Change, ChangesAnswer, ChangesRequest, ChunkState,
    ChunksAnswer, ChunksRequest, ClearRequest, CloneRequest, CloseRequest, DataAnswer, DifferRequest, DiffersAnswer,
    Expect, FenceRequest, FrameRequest, InheritRequest, JoinRequest, JoinedAnswer, MAX_CHANGES, MAX_LISTED_CHUNKS,
    MAX_MEMBERS, MAX_SNAPSHOTS, MarkRequest, Mend, MendRequest, MendedAnswer, OpenRequest, OpenedAnswer, Problem,
    Purpose, PutRequest, ReadRequest, Refusal, Request, RequestBody, RestoreRequest, RetainSnapshotsRequest,
    RollRequest, Run, Scope, SettleRequest, SettledAnswer, StateInfo, StatesAnswer, StatesRequest, VerifiedAnswer,
    VerifyRequest, Waited, WholeRequest, WriteRequest,
};
use amita_types::trace::StoreTrace;
use amita_types::{
    BLOCK_BYTES, BlockIndex, BlockRange, ChunkIndex, ClusterId, Epoch, Generation, GroupId, GroupIndex, MAX_IO_BLOCKS,
    MAX_IO_BYTES, NodeId, PoolId, RequestId, SetId, SnapshotId, StoreId, TraceId, Version, VolumeId,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn generation() -> impl Strategy<Value = Generation> {
    (0..=Generation::MAX.0).prop_map(Generation)
}

fn chunk() -> impl Strategy<Value = ChunkIndex> {
    any::<u64>().prop_map(ChunkIndex)
}

fn version() -> impl Strategy<Value = Version> {
    any::<u64>().prop_map(Version)
}

/// Left out where it is not said.
fn newest() -> impl Strategy<Value = Option<Version>> {
    prop::option::of(version())
}

fn range(most: u16) -> impl Strategy<Value = BlockRange> {
    (any::<u16>(), 0..=most).prop_map(|(first, count)| BlockRange::new(first, count))
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (any::<u16>(), version(), any::<Option<u32>>());
    vec(
        change.prop_map(|(block, version, sum)| Change {
            block: BlockIndex(block),
            version,
            sum,
        }),
        0..=MAX_CHANGES,
    )
}

fn mends() -> impl Strategy<Value = Vec<Mend>> {
    let expect = prop_oneof![
        Just(Expect::Lost),
        version().prop_map(|version| Expect::Upto { version }),
        (version(), any::<Option<u32>>()).prop_map(|(version, sum)| Expect::Entry { version, sum }),
    ];
    let mend = (any::<u16>(), expect, version(), any::<Option<u32>>());
    vec(
        mend.prop_map(|(block, expect, version, sum)| Mend {
            block: BlockIndex(block),
            expect,
            version,
            sum,
        }),
        0..=MAX_CHANGES,
    )
}

fn blocks() -> impl Strategy<Value = Vec<BlockIndex>> {
    vec(any::<u16>().prop_map(BlockIndex), 0..=MAX_CHANGES)
}

fn chunk_states() -> impl Strategy<Value = Vec<ChunkState>> {
    let state = (chunk(), version(), prop::option::of(version()));
    vec(
        state.prop_map(|(chunk, version, incomplete)| ChunkState {
            chunk,
            version,
            incomplete,
        }),
        0..=MAX_LISTED_CHUNKS,
    )
}

fn write() -> impl Strategy<Value = RequestBody> {
    let offset = prop_oneof![any::<u32>(), (0..1024u32).prop_map(|block| block * BLOCK_BYTES)];
    let length = prop_oneof![
        0..=MAX_IO_BYTES,
        (0..=MAX_IO_BLOCKS).prop_map(|blocks| blocks * BLOCK_BYTES)
    ];
    (chunk(), offset, length, version(), version(), any::<u32>()).prop_map(
        |(chunk, offset_bytes, length_bytes, version, previous, sum)| {
            // Counted byte by byte where a block begins: not the formula that is under test.
            let blocks = (u64::from(offset_bytes)..u64::from(offset_bytes) + u64::from(length_bytes))
                .map(|byte| byte / u64::from(BLOCK_BYTES));
            let mut pieces: Vec<u64> = blocks.collect();
            pieces.dedup();
            let sums = pieces.iter().map(|block| sum ^ (*block as u32)).collect();
            RequestBody::Write(WriteRequest {
                chunk,
                offset_bytes,
                length_bytes,
                version,
                previous,
                sums,
            })
        },
    )
}

fn request_body() -> impl Strategy<Value = RequestBody> {
    let fence = (
        any::<u32>(),
        vec(any::<u128>().prop_map(StoreId), 0..=MAX_MEMBERS),
        any::<prop::sample::Index>(),
        any::<u16>(),
        prop::option::of(generation()),
    );
    let roll = (chunk(), version(), version(), changes(), any::<bool>(), any::<bool>());
    prop_oneof![
        fence.prop_map(|(owner, members, in_sync, blocks_per_chunk, given_back)| {
            let (in_sync, syncing) = members.split_at(in_sync.index(members.len() + 1));
            RequestBody::Fence(FenceRequest {
                owner: NodeId(owner),
                in_sync: in_sync.to_vec(),
                syncing: syncing.to_vec(),
                blocks_per_chunk,
                given_back,
            })
        }),
        chunk().prop_map(|chunk| RequestBody::Open(OpenRequest { chunk })),
        write(),
        (chunk(), range(u16::MAX), version(), version()).prop_map(|(chunk, range, version, previous)| {
            RequestBody::Clear(ClearRequest {
                chunk,
                range,
                version,
                previous,
            })
        }),
        (chunk(), range(MAX_IO_BLOCKS as u16), version(), any::<bool>(), newest()).prop_map(
            |(chunk, range, least, versions, newest)| {
                RequestBody::Read(ReadRequest {
                    chunk,
                    range,
                    least,
                    versions,
                    newest,
                })
            }
        ),
        (chunk(), version(), any::<u16>()).prop_map(|(chunk, since, from)| RequestBody::Changes(ChangesRequest {
            chunk,
            since,
            from: BlockIndex(from)
        })),
        roll.prop_map(|(chunk, version, previous, entries, first, last)| {
            RequestBody::Roll(RollRequest {
                chunk,
                version,
                previous,
                entries,
                first,
                last,
            })
        }),
        Just(RequestBody::RenewLease),
        (any::<u32>(), any::<u32>()).prop_map(|(want, back)| RequestBody::Settle(SettleRequest { want, back })),
        (chunk(), version(), newest()).prop_map(|(chunk, least, newest)| RequestBody::Allocation(AllocationRequest {
            chunk,
            least,
            newest
        })),
        (chunk(), number(), version(), newest()).prop_map(|(chunk, since, least, newest)| RequestBody::Differ(
            DifferRequest {
                chunk,
                since,
                least,
                newest
            }
        )),
        (
            chunk(),
            any::<bool>(),
            any::<u32>(),
            any::<u32>(),
            vec(any::<u32>().prop_map(SnapshotId), 0..=MAX_SNAPSHOTS)
        )
            .prop_map(
                |(chunk, head, above, to, live)| RequestBody::RetainSnapshots(RetainSnapshotsRequest {
                    chunk,
                    head,
                    above: SnapshotId(above),
                    to: SnapshotId(to),
                    live,
                })
            ),
        (chunk(), any::<u64>(), any::<u32>()).prop_map(|(chunk, origin, at)| RequestBody::Clone(CloneRequest {
            chunk,
            origin: VolumeId(origin),
            at: SnapshotId(at),
        })),
        (
            chunk(),
            version(),
            vec((any::<u64>(), any::<u32>()), 0..=amita_types::map::MAX_LEVELS)
        )
            .prop_map(|(chunk, version, parents)| RequestBody::Inherit(InheritRequest {
                chunk,
                version,
                parents: parents
                    .into_iter()
                    .map(|(volume, at)| (VolumeId(volume), SnapshotId(at)))
                    .collect(),
            })),
        (
            chunk(),
            any::<u16>(),
            any::<u16>(),
            any::<u32>(),
            proptest::option::of(any::<u64>())
        )
            .prop_map(|(from, core, cores, groups, place)| {
                RequestBody::Chunks(ChunksRequest {
                    from,
                    core,
                    cores,
                    groups,
                    place: place.map(VolumeId),
                })
            }),
        (chunk(), version()).prop_map(|(chunk, at)| RequestBody::Join(JoinRequest { chunk, at })),
        (chunk(), mends()).prop_map(|(chunk, entries)| RequestBody::Mend(MendRequest { chunk, entries })),
        (chunk(), version(), number(), number()).prop_map(|(chunk, version, number, born)| {
            RequestBody::Whole(WholeRequest {
                chunk,
                version,
                number,
                born,
            })
        }),
        (chunk(), number()).prop_map(|(chunk, from)| RequestBody::States(StatesRequest { chunk, from })),
        (chunk(), number(), number(), version()).prop_map(|(chunk, above, to, version)| {
            RequestBody::Frame(FrameRequest {
                chunk,
                above,
                to,
                version,
            })
        }),
        (chunk(), number(), any::<u32>(), version(), changes()).prop_map(|(chunk, to, with_data, version, entries)| {
            RequestBody::Put(PutRequest {
                chunk,
                to,
                with_data,
                version,
                entries,
            })
        }),
        (chunk(), number(), version()).prop_map(|(chunk, to, version)| RequestBody::Close(CloseRequest {
            chunk,
            to,
            version
        })),
        (chunk(), number(), number(), version()).prop_map(|(chunk, above, to, version)| {
            RequestBody::Mark(MarkRequest {
                chunk,
                above,
                to,
                version,
            })
        }),
        (chunk(), any::<u16>(), version(), any::<u32>()).prop_map(|(chunk, block, version, sum)| {
            RequestBody::Restore(RestoreRequest {
                chunk,
                block: BlockIndex(block),
                version,
                sum,
            })
        }),
        (chunk(), any::<u16>(), version()).prop_map(|(chunk, from, least)| RequestBody::Verify(VerifyRequest {
            chunk,
            from: BlockIndex(from),
            least
        })),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let scope = (
        any::<u64>(),
        generation(),
        any::<u32>(),
        any::<u32>(),
        any::<u64>(),
        any::<u32>(),
    )
        .prop_map(|(volume, generation, pool, index, epoch, snapshot)| Scope {
            volume: VolumeId(volume),
            generation,
            group: GroupId {
                pool: PoolId(pool),
                index: GroupIndex(index),
            },
            epoch: Epoch(epoch),
            snapshot: SnapshotId(snapshot),
        });
    let trace = prop_oneof![Just(TraceId::NONE), any::<u32>().prop_map(TraceId)];
    let purpose = proptest::sample::select(Purpose::ALL.to_vec());
    let all = (any::<u64>(), any::<u128>(), scope, trace, purpose, request_body());
    all.prop_map(|(id, store, scope, trace, purpose, body)| Request {
        id: RequestId(id),
        store: StoreId(store),
        scope,
        trace,
        purpose,
        body,
    })
}

fn answer_body() -> impl Strategy<Value = AnswerBody> {
    prop_oneof![
        Just(AnswerBody::Fenced),
        (version(), prop::option::of(version()), any::<u32>()).prop_map(|(version, incomplete, number)| {
            AnswerBody::Opened(OpenedAnswer {
                version,
                incomplete,
                number: SnapshotId(number),
            })
        }),
        Just(AnswerBody::Done),
        (
            version(),
            vec((any::<u32>(), any::<u16>(), version()), 0..=MAX_IO_BLOCKS as usize),
            any::<bool>()
        )
            .prop_map(|(version, blocks, versions)| {
                let runs = blocks.iter().map(|&(_, blocks, version)| Run { blocks, version });
                AnswerBody::Data(DataAnswer {
                    version,
                    sums: blocks.iter().map(|&(sum, ..)| sum).collect(),
                    runs: runs.filter(|_| versions).collect(),
                })
            }),
        (changes(), prop::option::of(0..1024u16)).prop_map(|(entries, more)| AnswerBody::Changes(ChangesAnswer {
            entries,
            more: more.map(BlockIndex)
        })),
        Just(AnswerBody::LeaseRenewed),
        any::<bool>().prop_map(|full| AnswerBody::Settled(SettledAnswer { full })),
        (any::<[u64; 16]>(), newest()).prop_map(|(words, version)| AnswerBody::Allocation(AllocationAnswer {
            allocated: Box::new(words),
            version
        })),
        (any::<([u64; 16], [u64; 16])>(), newest()).prop_map(|((changed, allocated), version)| {
            AnswerBody::Differs(DiffersAnswer {
                differs: Box::new(Differs { changed, allocated }),
                version,
            })
        }),
        (chunk_states(), prop::option::of((0..u64::MAX).prop_map(ChunkIndex)))
            .prop_map(|(chunks, more)| AnswerBody::Chunks(ChunksAnswer { chunks, more })),
        prop::option::of(version()).prop_map(|incomplete| AnswerBody::Joined(JoinedAnswer { incomplete })),
        blocks().prop_map(|skipped| AnswerBody::Mended(MendedAnswer { skipped })),
        (
            number(),
            number(),
            prop::collection::vec(state(), 0..=MAX_SNAPSHOTS),
            (1..=u32::MAX).prop_map(SnapshotId).prop_map(Some)
        )
            .prop_map(|(number, born, states, more)| AnswerBody::States(StatesAnswer {
                number,
                born,
                states,
                more
            })),
        (changes(), blocks(), prop::option::of(0..1024u16)).prop_map(|(entries, damaged, more)| {
            AnswerBody::Verified(VerifiedAnswer {
                entries,
                damaged,
                more: more.map(BlockIndex),
            })
        }),
    ]
}

fn number() -> impl Strategy<Value = SnapshotId> {
    any::<u32>().prop_map(SnapshotId)
}

fn state() -> impl Strategy<Value = StateInfo> {
    (number(), number(), version(), 0..3u8).prop_map(|(above, to, version, form)| StateInfo {
        above,
        to,
        version,
        open: form == 1,
        mark: form == 2,
    })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    const PROBLEMS: &[Problem] = &[
        Problem::Range,
        Problem::Length,
        Problem::Checksum,
        Problem::Version,
        Problem::Members,
        Problem::Snapshot,
        Problem::Number,
    ];
    prop_oneof![
        any::<u64>().prop_map(|epoch| Refusal::StaleEpoch { epoch: Epoch(epoch) }),
        Just(Refusal::NotFenced),
        generation().prop_map(|generation| Refusal::Fenced { generation }),
        version().prop_map(|current| Refusal::WrongPredecessor { current }),
        version().prop_map(|current| Refusal::Behind { current }),
        any::<u16>().prop_map(|block| Refusal::Damaged {
            block: BlockIndex(block)
        }),
        Just(Refusal::NoSpace),
        prop::sample::select(PROBLEMS).prop_map(|what| Refusal::Invalid { what }),
        Just(Refusal::Poisoned),
        Just(Refusal::NoSuchStore),
        Just(Refusal::Busy),
        Just(Refusal::Incomplete),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let result = prop_oneof![answer_body().prop_map(Ok), refusal().prop_map(Err)];
    let trace = (1..=u32::MAX, any::<[u32; 5]>()).prop_map(|(id, [issued, data, log, durable, answered])| StoreTrace {
        id: TraceId(id),
        issued_ns: issued,
        data_ns: data,
        log_ns: log,
        durable_ns: durable,
        answered_ns: answered,
    });
    let names = (any::<u64>(), any::<u128>());
    (
        names,
        any::<u16>(),
        any::<u32>(),
        (0..=Waited::MOST).prop_map(|number| Waited::numbered(number).expect("there is one")),
        prop::option::of(trace.prop_map(Box::new)),
        result,
    )
        .prop_map(|((id, store), lease_ms, credit_blocks, waited, trace, result)| {
            let (id, store) = (RequestId(id), StoreId(store));
            Answer {
                id,
                store,
                lease_ms,
                credit_blocks,
                waited,
                trace,
                result,
            }
        })
}

fn forward() -> impl Strategy<Value = Forward> {
    let op = prop_oneof![
        Just(ForwardOp::Read),
        Just(ForwardOp::Write),
        Just(ForwardOp::Clear),
        Just(ForwardOp::Allocation),
        Just(ForwardOp::Differ),
        Just(ForwardOp::CompareAndWrite),
        Just(ForwardOp::Reserve),
        Just(ForwardOp::Lend),
    ];
    let numbers = (
        any::<u64>(),
        any::<u64>(),
        any::<u128>(),
        any::<u64>(),
        any::<u64>(),
        any::<u32>(),
        any::<u64>(),
        generation(),
        number(),
    );
    (numbers, op, 0..=u64::from(MAX_IO_BYTES) / 2).prop_map(
        |((tag, session, host, volume, offset, crc, as_of, generation, snapshot), op, length)| Forward {
            tag,
            session,
            host: u128::to_le_bytes(host),
            volume: VolumeId(volume),
            op,
            offset,
            length,
            crc,
            generation,
            as_of,
            snapshot,
        },
    )
}

fn forwarded() -> impl Strategy<Value = Forwarded> {
    (
        any::<u64>(),
        any::<u8>(),
        any::<u8>(),
        any::<u32>(),
        any::<u32>(),
        any::<u64>(),
    )
        .prop_map(|(tag, code, form, value, crc, clock)| Forwarded {
            tag,
            code,
            form,
            value,
            crc,
            clock,
        })
}

fn cut() -> impl Strategy<Value = Cut> {
    let step = prop_oneof![Just(CutStep::Adopt), Just(CutStep::Release), Just(CutStep::Settle)];
    (any::<u64>(), any::<u64>(), any::<u64>(), generation(), step).prop_map(|(tag, set, volume, generation, step)| {
        Cut {
            tag,
            set: SetId(set),
            volume: VolumeId(volume),
            generation,
            step,
        }
    })
}

fn cut_outcome() -> impl Strategy<Value = CutOutcome> {
    prop_oneof![
        Just(CutOutcome::Adopted),
        Just(CutOutcome::Held),
        Just(CutOutcome::Lapsed),
        Just(CutOutcome::Settled),
        Just(CutOutcome::Spoilt),
        Just(CutOutcome::NotOwner),
    ]
}

pub fn message() -> impl Strategy<Value = Message> {
    let outcome = prop_oneof![
        Just(ReleaseOutcome::Released),
        any::<u32>().prop_map(|clients| ReleaseOutcome::Busy { clients }),
        Just(ReleaseOutcome::NotOwner),
    ];
    let release = (
        any::<u64>(),
        any::<u64>().prop_map(VolumeId),
        generation(),
        any::<bool>(),
    );
    prop_oneof![
        8 => request().prop_map(Message::Request),
        8 => answer().prop_map(Message::Answer),
        1 => release.prop_map(|(tag, volume, generation, hand_over)| {
            Message::Release { tag, volume, generation, hand_over }
        }),
        2 => forward().prop_map(Message::Forward),
        2 => forwarded().prop_map(Message::Forwarded),
        1 => (any::<u64>(), outcome).prop_map(|(tag, outcome)| Message::Released { tag, outcome }),
        1 => cut().prop_map(Message::Cut),
        1 => (any::<u64>(), cut_outcome()).prop_map(|(tag, outcome)| Message::CutDone { tag, outcome }),
    ]
}

/// How long the payload of a valid message is.
pub fn payload_bytes(message: &Message) -> usize {
    let blocks = match message {
        Message::Forward(forward) => {
            return match forward.op {
                ForwardOp::Write => forward.length as usize,
                ForwardOp::CompareAndWrite => 2 * forward.length as usize,
                ForwardOp::Reserve | ForwardOp::Lend => (forward.length % 512) as usize,
                _ => 0,
            };
        }
        Message::Forwarded(forwarded) => return forwarded.value as usize % 8192,
        Message::Request(Request {
            body: RequestBody::Write(WriteRequest { length_bytes, .. }),
            ..
        }) => {
            return *length_bytes as usize;
        }
        Message::Request(Request {
            body: RequestBody::Roll(RollRequest { entries, .. }),
            ..
        }) => entries.iter().filter(|entry| entry.sum.is_some()).count(),
        Message::Request(Request {
            body: RequestBody::Mend(MendRequest { entries, .. }),
            ..
        }) => entries.iter().filter(|entry| entry.sum.is_some()).count(),
        Message::Request(Request {
            body: RequestBody::Put(PutRequest { with_data, .. }),
            ..
        }) => with_data.count_ones() as usize,
        Message::Request(Request {
            body: RequestBody::Restore(_),
            ..
        }) => 1,
        Message::Answer(Answer {
            result: Ok(AnswerBody::Data(DataAnswer { sums, .. })),
            ..
        }) => sums.len(),
        _ => 0,
    };
    blocks * BLOCK_BYTES as usize
}

prop_compose! {
    pub fn hello()(
        cluster: u128, session: u64, node: u32, peer: u32, cluster_version: u32, window_bytes: u32,
        window_requests: u32, core: u16, link: u16, version_min in 0..=3u8, more in 0..=3u8,
    ) -> Hello {
        Hello {
            cluster: ClusterId(cluster),
            session,
            node: NodeId(node),
            peer: NodeId(peer),
            cluster_version,
            window_bytes,
            window_requests,
            core,
            link,
            version_min,
            version_max: version_min + more,
        }
    }
}

prop_compose! {
    pub fn refuse()(code in 1..14u16, reason in "[ -~äöü无量]{0,60}") -> Refuse {
        let code = match code {
            1 => RefuseCode::Version,
            2 => RefuseCode::Cluster,
            3 => RefuseCode::Node,
            4 => RefuseCode::ClusterVersion,
            5 => RefuseCode::Limits,
            6 => RefuseCode::Violation,
            7 => RefuseCode::Replaced,
            8 => RefuseCode::Identity,
            9 => RefuseCode::Unknown,
            other => RefuseCode::Other(other),
        };
        Refuse { code, reason }
    }
}
