//! The bytes of each version, one frame of every kind: `tests/fixtures/wire-v1.txt`. From the first release on they
//! never change; what changes them needs a new protocol version.

use super::read;
use crate::codec::{
    DecodeError, Frame, Hello, Kind, PROTOCOL_VERSION, Refuse, RefuseCode, encode, encode_hello, encode_ping,
    encode_refuse,
};
use crate::message::{Cut, CutOutcome, CutStep, Forward, ForwardOp, Forwarded, Message, ReleaseOutcome};
use amita_types::io::Differs;
use amita_types::message::{
    AllocationAnswer, AllocationRequest, Answer, AnswerBody, Change, ChangesAnswer, ChangesRequest, ChunkState,
    ChunksAnswer, ChunksRequest, ClearRequest, CloneRequest, CloseRequest, DataAnswer, DifferRequest, DiffersAnswer,
    Expect, FenceRequest, FrameRequest, InheritRequest, JoinRequest, JoinedAnswer, MarkRequest, Mend, MendRequest,
    MendedAnswer, OpenRequest, OpenedAnswer, Problem, PutRequest, ReadRequest, Refusal, Request, RequestBody,
    RestoreRequest, RetainSnapshotsRequest, RollRequest, Run, Scope, SettleRequest, SettledAnswer, StateInfo,
    StatesAnswer, StatesRequest, VerifiedAnswer, VerifyRequest, WholeRequest, WriteRequest,
};
use amita_types::trace::StoreTrace;
use amita_types::{
    BlockIndex, BlockRange, ChunkIndex, ClusterId, Epoch, Generation, GroupId, GroupIndex, NodeId, PoolId, RequestId,
    SetId, SnapshotId, StoreId, TraceId, Version, VolumeId,
};
use std::fmt::Write as _;

const VERSION_1: &str = include_str!("../../../tests/fixtures/wire-v1.txt");

pub fn hello() -> Hello {
    Hello {
        cluster: ClusterId(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f),
        session: 0x2021_2223_2425_2627,
        node: NodeId(0x3031_3233),
        peer: NodeId(0x4041_4243),
        cluster_version: 1,
        window_bytes: 0x0008_0000,
        window_requests: 0x400,
        core: 2,
        link: 3,
        version_min: 1,
        version_max: 1,
    }
}

fn request(body: RequestBody) -> Message {
    let scope = Scope {
        volume: VolumeId(0x2122_2324_2526_2728),
        generation: Generation(0x31_3233),
        group: GroupId {
            pool: PoolId(0x4142_4344),
            index: GroupIndex(0x5152_5354),
        },
        epoch: Epoch(0x6162_6364_6566_6768),
        snapshot: SnapshotId(0xe1e2_e3e4),
    };
    let store = StoreId(0x1112_1314_1516_1718_191a_1b1c_1d1e_1f10);
    Message::Request(Request {
        id: RequestId(0x0102_0304_0506_0708),
        store,
        scope,
        trace: TraceId::NONE,
        purpose: Default::default(),
        body,
    })
}

fn answer(result: Result<AnswerBody, Refusal>) -> Message {
    Message::Answer(Answer {
        id: RequestId(0x0102_0304_0506_0708),
        store: StoreId(0x1112_1314_1516_1718_191a_1b1c_1d1e_1f10),
        lease_ms: 250,
        credit_blocks: 0x0001_0203,
        waited: Default::default(),
        trace: None,
        result,
    })
}

const CHUNK: ChunkIndex = ChunkIndex(0x7172_7374_7576_7778);
const VERSION: Version = Version(0x3132_3300_0000_000b);
const PREVIOUS: Version = Version(0x3132_3300_0000_000a);

pub fn write() -> Message {
    request(RequestBody::Write(WriteRequest {
        chunk: CHUNK,
        offset_bytes: 0x0003_1000,
        length_bytes: 4096,
        version: VERSION,
        previous: PREVIOUS,
        sums: [0x9192_9394].into_iter().collect(),
    }))
}

fn write_unaligned() -> Message {
    request(RequestBody::Write(WriteRequest {
        chunk: CHUNK,
        offset_bytes: 4095,
        length_bytes: 2,
        version: VERSION,
        previous: PREVIOUS,
        sums: [1, 2].into_iter().collect(),
    }))
}

fn entries() -> Vec<Change> {
    vec![
        Change {
            block: BlockIndex(0x0102),
            version: VERSION,
            sum: Some(0x9192_9394),
        },
        Change {
            block: BlockIndex(0x0103),
            version: PREVIOUS,
            sum: None,
        },
    ]
}

fn mends() -> Vec<Mend> {
    let mend = |block, expect, sum| Mend {
        block: BlockIndex(block),
        expect,
        version: VERSION,
        sum,
    };
    let entry = |sum| Expect::Entry { version: PREVIOUS, sum };
    vec![
        mend(0x0102, entry(Some(0xa1a2_a3a4)), Some(0x9192_9394)),
        mend(0x0103, entry(None), None),
        mend(0x0104, Expect::Lost, None),
        mend(0x0105, Expect::Upto { version: PREVIOUS }, None),
    ]
}

fn chunk_states() -> Vec<ChunkState> {
    vec![
        ChunkState {
            chunk: CHUNK,
            version: VERSION,
            incomplete: None,
        },
        ChunkState {
            chunk: ChunkIndex(CHUNK.0 + 1),
            version: VERSION,
            incomplete: Some(PREVIOUS),
        },
    ]
}

/// A name, and the message with the length of its payload.
fn messages() -> Vec<(&'static str, Message, usize)> {
    let in_sync = [StoreId(0xa1), StoreId(0xa2)].into_iter().collect();
    let range = BlockRange::new(0x81, 0x02);
    let clear = RequestBody::Clear(ClearRequest {
        chunk: CHUNK,
        range,
        version: VERSION,
        previous: PREVIOUS,
    });
    let (chunk, version, previous) = (CHUNK, VERSION, PREVIOUS);
    let roll = RequestBody::Roll(RollRequest {
        chunk,
        version,
        previous,
        entries: entries(),
        first: true,
        last: false,
    });
    let data = |sums: &[u32]| {
        AnswerBody::Data(DataAnswer {
            version,
            sums: sums.iter().copied().collect(),
            runs: Box::default(),
        })
    };
    let blocks = 1;
    let runs = [version, Version::NONE].map(|version| Run { blocks, version });
    let versioned = AnswerBody::Data(DataAnswer {
        version,
        sums: [0x9192_9394, 0x98f9_4189].into_iter().collect(),
        runs: Box::new(runs),
    });
    let allocated = Box::new(std::array::from_fn(|i| 1 << (4 * i)));
    let released = |outcome| Message::Released { tag: 9, outcome };
    let refused = |refusal| answer(Err(refusal));
    vec![
        (
            "Release",
            Message::Release {
                tag: 9,
                volume: VolumeId(8),
                generation: Generation(7),
                hand_over: false,
            },
            0,
        ),
        ("Released Released", released(ReleaseOutcome::Released), 0),
        ("Released Busy", released(ReleaseOutcome::Busy { clients: 3 }), 0),
        ("Released NotOwner", released(ReleaseOutcome::NotOwner), 0),
        (
            "Fence",
            request(RequestBody::Fence(FenceRequest {
                owner: NodeId(6),
                in_sync,
                syncing: vec![StoreId(0xa3)],
                blocks_per_chunk: 1024,
                given_back: None,
            })),
            0,
        ),
        ("Open", request(RequestBody::Open(OpenRequest { chunk })), 0),
        ("Write", write(), 4096),
        ("Write unaligned", write_unaligned(), 2),
        ("Clear", request(clear), 0),
        (
            "Read",
            request(RequestBody::Read(ReadRequest {
                chunk,
                range,
                least: VERSION,
                versions: false,
                newest: None,
            })),
            0,
        ),
        (
            "Read with versions",
            request(RequestBody::Read(ReadRequest {
                chunk,
                range,
                least: VERSION,
                versions: true,
                newest: None,
            })),
            0,
        ),
        (
            "Read of a snapshot",
            request(RequestBody::Read(ReadRequest {
                chunk,
                range,
                least: PREVIOUS,
                versions: false,
                newest: Some(VERSION),
            })),
            0,
        ),
        (
            "Changes",
            request(RequestBody::Changes(ChangesRequest {
                chunk,
                since: PREVIOUS,
                from: BlockIndex(0x83),
            })),
            0,
        ),
        ("Roll", request(roll), 4096),
        ("RenewLease", request(RequestBody::RenewLease), 0),
        (
            "Allocation",
            request(RequestBody::Allocation(AllocationRequest {
                chunk,
                least: VERSION,
                newest: None,
            })),
            0,
        ),
        (
            "Allocation with version",
            request(RequestBody::Allocation(AllocationRequest {
                chunk,
                least: PREVIOUS,
                newest: Some(VERSION),
            })),
            0,
        ),
        (
            "Differ",
            request(RequestBody::Differ(DifferRequest {
                chunk,
                since: SnapshotId(7),
                least: VERSION,
                newest: None,
            })),
            0,
        ),
        (
            "Differ with version",
            request(RequestBody::Differ(DifferRequest {
                chunk,
                since: SnapshotId(7),
                least: PREVIOUS,
                newest: Some(VERSION),
            })),
            0,
        ),
        (
            "RetainSnapshots",
            request(RequestBody::RetainSnapshots(RetainSnapshotsRequest {
                chunk,
                head: true,
                above: SnapshotId(1),
                to: SnapshotId(9),
                live: vec![SnapshotId(3), SnapshotId(9)],
            })),
            0,
        ),
        (
            "Clone",
            request(RequestBody::Clone(CloneRequest {
                chunk,
                origin: VolumeId(0xf1f2_f3f4_f5f6_f7f8),
                at: SnapshotId(4),
            })),
            0,
        ),
        (
            "Chunks",
            request(RequestBody::Chunks(ChunksRequest {
                from: chunk,
                core: 1,
                cores: 4,
                groups: 0x2000,
                place: None,
            })),
            0,
        ),
        (
            "ChunksOfClone",
            request(RequestBody::Chunks(ChunksRequest {
                from: chunk,
                core: 1,
                cores: 4,
                groups: 0x2000,
                place: Some(VolumeId(0xf1f2_f3f4_f5f6_f7f8)),
            })),
            0,
        ),
        (
            "Inherit",
            request(RequestBody::Inherit(InheritRequest {
                chunk,
                version: VERSION,
                parents: vec![
                    (VolumeId(0xf1f2_f3f4_f5f6_f7f8), SnapshotId(4)),
                    (VolumeId(0xe1e2_e3e4_e5e6_e7e8), SnapshotId(2)),
                ],
            })),
            0,
        ),
        (
            "Join",
            request(RequestBody::Join(JoinRequest { chunk, at: PREVIOUS })),
            0,
        ),
        (
            "Mend",
            request(RequestBody::Mend(MendRequest {
                chunk,
                entries: mends(),
            })),
            4096,
        ),
        (
            "Whole",
            request(RequestBody::Whole(WholeRequest {
                chunk,
                version,
                number: SnapshotId::HEAD,
                born: SnapshotId::HEAD,
            })),
            0,
        ),
        (
            "Whole with snapshots",
            request(RequestBody::Whole(WholeRequest {
                chunk,
                version,
                number: SnapshotId(0x0504_0302),
                born: SnapshotId(0x0908_0706),
            })),
            0,
        ),
        (
            "States",
            request(RequestBody::States(StatesRequest {
                chunk,
                from: SnapshotId(0x0504_0302),
            })),
            0,
        ),
        (
            "Frame",
            request(RequestBody::Frame(FrameRequest {
                chunk,
                above: SnapshotId(0x0504_0302),
                to: SnapshotId(0x0908_0706),
                version,
            })),
            0,
        ),
        (
            "Put",
            request(RequestBody::Put(PutRequest {
                chunk,
                to: SnapshotId(0x0504_0302),
                with_data: 2,
                version,
                entries: entries(),
            })),
            4096,
        ),
        (
            "Close",
            request(RequestBody::Close(CloseRequest {
                chunk,
                to: SnapshotId(0x0504_0302),
                version,
            })),
            0,
        ),
        (
            "Mark",
            request(RequestBody::Mark(MarkRequest {
                chunk,
                above: SnapshotId(0x0102_0304),
                to: SnapshotId(0x0504_0302),
                version,
            })),
            0,
        ),
        (
            "Verify",
            request(RequestBody::Verify(VerifyRequest {
                chunk,
                from: BlockIndex(0x83),
                least: VERSION,
            })),
            0,
        ),
        (
            "Restore",
            request(RequestBody::Restore(RestoreRequest {
                chunk,
                block: BlockIndex(0x83),
                version,
                sum: 0x0f0e_0d0c,
            })),
            4096,
        ),
        (
            "Stated",
            answer(Ok(AnswerBody::States(StatesAnswer {
                number: SnapshotId(0x0504_0302),
                born: SnapshotId(0x0908_0706),
                states: vec![StateInfo {
                    above: SnapshotId(0x0102_0304),
                    to: SnapshotId(0x0504_0302),
                    version,
                    open: true,
                    mark: false,
                }],
                more: Some(SnapshotId(0x0504_0302)),
            }))),
            0,
        ),
        ("Fenced", answer(Ok(AnswerBody::Fenced)), 0),
        (
            "Opened",
            answer(Ok(AnswerBody::Opened(OpenedAnswer {
                version,
                ..OpenedAnswer::NOTHING
            }))),
            0,
        ),
        (
            "Opened incomplete",
            answer(Ok(AnswerBody::Opened(OpenedAnswer {
                version,
                incomplete: Some(PREVIOUS),
                ..OpenedAnswer::NOTHING
            }))),
            0,
        ),
        (
            "Opened with snapshots",
            answer(Ok(AnswerBody::Opened(OpenedAnswer {
                version,
                number: SnapshotId(0x0504_0302),
                ..OpenedAnswer::NOTHING
            }))),
            0,
        ),
        ("Done", answer(Ok(AnswerBody::Done)), 0),
        ("Data", answer(Ok(data(&[0x9192_9394, 0x9596_9798]))), 8192),
        ("Data unmapped", answer(Ok(data(&[]))), 0),
        ("Data with versions", answer(Ok(versioned)), 8192),
        (
            "Listed",
            answer(Ok(AnswerBody::Changes(ChangesAnswer {
                entries: entries(),
                more: Some(BlockIndex(0x84)),
            }))),
            0,
        ),
        (
            "Listed last",
            answer(Ok(AnswerBody::Changes(ChangesAnswer {
                entries: Vec::new(),
                more: None,
            }))),
            0,
        ),
        ("LeaseRenewed", answer(Ok(AnswerBody::LeaseRenewed)), 0),
        (
            "Allocated",
            answer(Ok(AnswerBody::Allocation(AllocationAnswer {
                allocated: allocated.clone(),
                version: None,
            }))),
            0,
        ),
        (
            "Allocated with version",
            answer(Ok(AnswerBody::Allocation(AllocationAnswer {
                allocated: allocated.clone(),
                version: Some(VERSION),
            }))),
            0,
        ),
        (
            "Differs",
            answer(Ok(AnswerBody::Differs(DiffersAnswer {
                differs: Box::new(Differs {
                    changed: *allocated,
                    allocated: std::array::from_fn(|word| word as u64 | 1 << 63),
                }),
                version: None,
            }))),
            0,
        ),
        (
            "Differs with version",
            answer(Ok(AnswerBody::Differs(DiffersAnswer {
                differs: Box::default(),
                version: Some(VERSION),
            }))),
            0,
        ),
        (
            "Refused StaleEpoch",
            refused(Refusal::StaleEpoch { epoch: Epoch(5) }),
            0,
        ),
        ("Refused NotFenced", refused(Refusal::NotFenced), 0),
        (
            "Refused Fenced",
            refused(Refusal::Fenced {
                generation: Generation(4),
            }),
            0,
        ),
        (
            "Refused WrongPredecessor",
            refused(Refusal::WrongPredecessor { current: VERSION }),
            0,
        ),
        ("Refused Behind", refused(Refusal::Behind { current: VERSION }), 0),
        ("Refused Damaged", refused(Refusal::Damaged { block: BlockIndex(3) }), 0),
        ("Refused NoSpace", refused(Refusal::NoSpace), 0),
        (
            "Refused Invalid",
            refused(Refusal::Invalid {
                what: Problem::Checksum,
            }),
            0,
        ),
        ("Refused Poisoned", refused(Refusal::Poisoned), 0),
        ("Refused NoSuchStore", refused(Refusal::NoSuchStore), 0),
        ("Refused Busy", refused(Refusal::Busy), 0),
        ("Refused Incomplete", refused(Refusal::Incomplete), 0),
        (
            "Held",
            answer(Ok(AnswerBody::Chunks(ChunksAnswer {
                chunks: chunk_states(),
                more: Some(ChunkIndex(0x7172_7374_7576_777b)),
            }))),
            0,
        ),
        (
            "Held last",
            answer(Ok(AnswerBody::Chunks(ChunksAnswer {
                chunks: Vec::new(),
                more: None,
            }))),
            0,
        ),
        (
            "Joined",
            answer(Ok(AnswerBody::Joined(JoinedAnswer { incomplete: None }))),
            0,
        ),
        (
            "Joined incomplete",
            answer(Ok(AnswerBody::Joined(JoinedAnswer {
                incomplete: Some(Version(0)),
            }))),
            0,
        ),
        (
            "Mended",
            answer(Ok(AnswerBody::Mended(MendedAnswer {
                skipped: vec![BlockIndex(0x0102)],
            }))),
            0,
        ),
        (
            "Verified",
            answer(Ok(AnswerBody::Verified(VerifiedAnswer {
                entries: entries(),
                damaged: vec![BlockIndex(0x0104), BlockIndex(0x0105)],
                more: Some(BlockIndex(0x0106)),
            }))),
            0,
        ),
    ]
}

/// Messages with a trace.
fn traced() -> Vec<(&'static str, Message, usize)> {
    let Message::Request(request) = write() else {
        panic!("a request")
    };
    let Message::Answer(done) = answer(Ok(AnswerBody::Done)) else {
        panic!("an answer")
    };
    let id = TraceId(0x0201_0203);
    let trace = Some(Box::new(StoreTrace {
        id,
        issued_ns: 0x1112_1314,
        data_ns: 0x2122_2324,
        log_ns: 0x3132_3334,
        durable_ns: 0x4142_4344,
        answered_ns: 0x5152_5354,
    }));
    let result = Err(Refusal::Busy);
    vec![
        ("Write traced", Message::Request(Request { trace: id, ..request }), 4096),
        (
            "Done traced",
            Message::Answer(Answer {
                trace: trace.clone(),
                ..done.clone()
            }),
            0,
        ),
        ("Refused traced", Message::Answer(Answer { trace, result, ..done }), 0),
    ]
}

/// Hosts' requests on their way to the owner, and the handing over of a volume with its leases.
fn forwarded() -> Vec<(&'static str, Message, usize)> {
    let forward = |op, length, snapshot| {
        Message::Forward(Forward {
            tag: 0x0102_0304_0506_0708,
            session: 0x1112_1314_1516_1718,
            host: 0x2122_2324_2526_2728_292a_2b2c_2d2e_2f30_u128.to_le_bytes(),
            volume: VolumeId(0x3132_3334_3536_3738),
            op,
            offset: 0x4142_4344_4546_4748,
            length,
            crc: 0x5152_5354,
            generation: Generation(0x31_3233),
            as_of: 0x7172_7374_7576_7778,
            snapshot: SnapshotId(snapshot),
        })
    };
    let answer = Message::Forwarded(Forwarded {
        tag: 0x0102_0304_0506_0708,
        code: 9,
        form: 2,
        value: 0x6162_6364,
        crc: 0x5152_5354,
        clock: 0x7172_7374_7576_7778,
    });
    let cut = Message::Cut(Cut {
        tag: 0x0102_0304_0506_0708,
        set: SetId(0x1112_1314_1516_1718),
        volume: VolumeId(0x2122_2324_2526_2728),
        generation: Generation(0x31_3233),
        step: CutStep::Release,
    });
    let cut_done = Message::CutDone {
        tag: 0x0102_0304_0506_0708,
        outcome: CutOutcome::Lapsed,
    };
    let hand_over = Message::Release {
        tag: 9,
        volume: VolumeId(8),
        generation: Generation(7),
        hand_over: true,
    };
    let succeed = request(RequestBody::Fence(FenceRequest {
        owner: NodeId(6),
        in_sync: vec![StoreId(0xa1), StoreId(0xa2)],
        syncing: vec![StoreId(0xa3)],
        blocks_per_chunk: 1024,
        given_back: Some(Generation(0x31_3232)),
    }));
    vec![
        ("HandOver", hand_over, 0),
        ("Succeed", succeed, 0),
        (
            "Settle",
            request(RequestBody::Settle(SettleRequest {
                want: 0x0102_0304,
                back: 0x0506_0708,
            })),
            0,
        ),
        (
            "Settled",
            self::answer(Ok(AnswerBody::Settled(SettledAnswer { full: true }))),
            0,
        ),
        (
            "Forward read of a snapshot",
            forward(ForwardOp::Read, 0x1000, 0x0504_0302),
            0,
        ),
        ("Forward read", forward(ForwardOp::Read, 0x1000, 0), 0),
        ("Forward write", forward(ForwardOp::Write, 512, 0), 512),
        ("Forward clear", forward(ForwardOp::Clear, 0x10_0000, 0), 0),
        ("Forward allocation", forward(ForwardOp::Allocation, 0, 0), 0),
        ("Forward differ", forward(ForwardOp::Differ, 3, 0), 0),
        ("Forward compare", forward(ForwardOp::CompareAndWrite, 512, 0), 1024),
        ("Forward reserve", forward(ForwardOp::Reserve, 0, 0), 24),
        ("Forward lend", forward(ForwardOp::Lend, 0, 0), 24),
        ("Forwarded", answer, 0),
        ("Cut", cut, 0),
        ("CutDone", cut_done, 0),
    ]
}

/// Every sample: its name, its frame and its head.
fn samples(version: u8) -> Vec<(&'static str, Frame, Vec<u8>)> {
    let refuse = Refuse {
        code: RefuseCode::Cluster,
        reason: "another cluster: 无量".to_owned(),
    };
    let make = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        put(&mut out);
        out
    };
    let mut samples = vec![
        (
            "Hello",
            Frame::Hello(hello()),
            make(&|out| encode_hello(out, &hello(), false)),
        ),
        (
            "Welcome",
            Frame::Welcome(hello()),
            make(&|out| encode_hello(out, &hello(), true)),
        ),
        (
            "Refuse",
            Frame::Refuse(refuse.clone()),
            make(&|out| encode_refuse(out, &refuse)),
        ),
        (
            "Ping",
            Frame::Ping(77),
            make(&|out| encode_ping(out, version, 77, false)),
        ),
        (
            "Pong",
            Frame::Pong(77),
            make(&|out| encode_ping(out, version, 77, true)),
        ),
    ];
    for (name, message, payload_bytes) in messages().into_iter().chain(traced()).chain(forwarded()) {
        let bytes = make(&|out| encode(out, version, &message, payload_bytes).expect("a valid message"));
        samples.push((name, Frame::Message(message), bytes));
    }
    samples
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("two hexadecimal digits"))
        .collect()
}

#[test]
fn versions_have_the_bytes_that_they_were_released_with() {
    fixed(1, VERSION_1);
}

fn fixed(version: u8, fixture: &str) {
    let lines: Vec<(&str, &str)> = fixture
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .collect();
    let samples = samples(version);
    let now: String = samples
        .iter()
        .map(|(name, _, bytes)| format!("{name}: {}\n", hex(bytes)))
        .collect();
    assert_eq!(
        lines.len(),
        samples.len(),
        "a line for every sample; as this build encodes them:\n{now}"
    );
    for ((name, frame, bytes), (fixed_name, fixed)) in samples.iter().zip(lines) {
        assert_eq!(*name, fixed_name);
        assert_eq!(
            hex(bytes),
            fixed,
            "{name} is encoded otherwise than in version {version}"
        );
        let agreed = (bytes[6] != 0).then_some(version);
        let (_, decoded) = read(&unhex(fixed), agreed).expect("valid").expect("whole");
        assert_eq!(decoded, *frame, "{name}");
    }
}

#[test]
fn there_is_a_sample_of_every_kind() {
    for kind in Kind::ALL {
        assert!(
            samples(PROTOCOL_VERSION)
                .iter()
                .any(|(_, _, bytes)| bytes[7] == *kind as u8),
            "{kind:?}"
        );
    }
}

/// Only requests and answers have traces.
#[test]
fn a_ping_has_no_trace() {
    let mut ping = Vec::new();
    encode_ping(&mut ping, PROTOCOL_VERSION, 7, false);
    ping[10] = 1;
    assert_eq!(read(&ping, Some(PROTOCOL_VERSION)), Err(DecodeError::Flags(1)));
}

/// Whoever sets the flag names a trace.
#[test]
fn a_trace_has_a_number() {
    let (_, message, payload_bytes) = traced().remove(0);
    let mut bytes = Vec::new();
    encode(&mut bytes, PROTOCOL_VERSION, &message, payload_bytes).expect("valid");
    let at = bytes.len() - 4;
    bytes[at..].fill(0);
    let crc = amita_types::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(
        read(&bytes, Some(PROTOCOL_VERSION)),
        Err(DecodeError::Field { .. })
    ));
}
