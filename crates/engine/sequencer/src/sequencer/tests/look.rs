//! What has rotted is replaced where it lies, for snapshots and clones too (S12).

use super::rig::{Rig, old, store};
use crate::Config;
use crate::io::Warning;
use amita_types::io::Op;
use amita_types::map::ScrubReport;
use amita_types::message::{
    AnswerBody, Change, ChangesAnswer, ChunkState, ChunksAnswer, MendedAnswer, Problem, Refusal, Request, RequestBody,
    RestoreRequest, StateInfo, StatesAnswer, VerifiedAnswer,
};
use amita_types::{BlockIndex, ChunkIndex, GroupIndex, SnapshotId, StoreId};

const FIRST: SnapshotId = SnapshotId(1);
const SECOND: SnapshotId = SnapshotId(2);

/// One chunk of two copies, of a volume that has had so many snapshots.
fn open(number: u32) -> Rig {
    let mut rig = match number {
        0 => Rig::new(2, 1),
        number => Rig::numbered(2, 1, SnapshotId(number), Config::default()),
    };
    rig.open_chunk();
    rig
}

fn sum(block: u16) -> u32 {
    amita_types::crc32c(&[block as u8; amita_types::BLOCK_BYTES as usize])
}

/// Store 1 has rotten blocks: 1 of the volume itself, 2 of the first snapshot. The second one is deleted while it is looked at.
fn answer(rig: &mut Rig, request: &Request) {
    let (at, is_first) = (request.scope.snapshot, request.store == store(1));
    let entries = vec![Change {
        block: BlockIndex(1),
        version: old(4),
        sum: Some(sum(1)),
    }];
    match &request.body {
        RequestBody::Open(_) => rig.opened_at(request, old(5)),
        RequestBody::Changes(_) => rig.accept(request, AnswerBody::Changes(ChangesAnswer { entries, more: None })),
        RequestBody::Verify(_) if at == SECOND => rig.refuse(
            request,
            Refusal::Invalid {
                what: Problem::Snapshot,
            },
        ),
        RequestBody::Verify(_) => {
            let (entries, block) = match at {
                SnapshotId::HEAD => (entries, 1),
                _ => (Vec::new(), 2),
            };
            let damaged = if is_first { vec![BlockIndex(block)] } else { Vec::new() };
            let body = VerifiedAnswer {
                entries,
                damaged,
                more: None,
            };
            rig.accept(request, AnswerBody::Verified(body));
        }
        RequestBody::States(_) => {
            let state = |above, to| StateInfo {
                above,
                to,
                version: old(4),
                open: false,
                mark: false,
            };
            let body = StatesAnswer {
                number: SECOND,
                born: SnapshotId::HEAD,
                states: vec![state(SnapshotId::HEAD, FIRST), state(FIRST, SECOND)],
                more: None,
            };
            rig.accept(request, AnswerBody::States(body));
        }
        RequestBody::Read(_) => rig.answer_read(request, old(4)),
        body => panic!("{body:?} is not asked for"),
    }
}

/// Scrubs; returns what repairs were sent, which `repair` answers.
fn scrub(rig: &mut Rig, mut repair: impl FnMut(&mut Rig, &Request)) -> (Vec<Request>, ScrubReport) {
    rig.scrub();
    let mut repairs = Vec::new();
    for _ in 0..100 {
        rig.answer_chunks(|_: StoreId| {
            vec![ChunkState {
                chunk: ChunkIndex(0),
                version: old(5),
                incomplete: None,
            }]
        });
        for request in rig.take(|_, body| !matches!(body, RequestBody::Chunks(_))) {
            match &request.body {
                RequestBody::RenewLease => rig.accept(&request, AnswerBody::LeaseRenewed),
                RequestBody::Restore(_) | RequestBody::Mend(_) => {
                    repair(rig, &request);
                    repairs.push(request);
                }
                _ => answer(rig, &request),
            }
        }
        if let Some(report) = rig.scrubbed.take() {
            return (repairs, report);
        }
        rig.pass_ms(20);
    }
    panic!("the scrub does not end");
}

fn mended(rig: &mut Rig, request: &Request) {
    let skipped = Vec::new();
    rig.accept(request, AnswerBody::Mended(MendedAnswer { skipped }));
}

#[test]
fn a_scrub_restores_what_the_volume_and_its_snapshots_have() {
    let mut rig = open(2);
    let (repairs, report) = scrub(&mut rig, mended);
    let sent: Vec<(StoreId, SnapshotId, RequestBody)> = repairs
        .into_iter()
        .map(|request| (request.store, request.scope.snapshot, request.body))
        .collect();
    let restore = |block| {
        RequestBody::Restore(RestoreRequest {
            chunk: ChunkIndex(0),
            block: BlockIndex(block),
            version: old(4),
            sum: sum(block),
        })
    };
    let right = vec![(store(1), SnapshotId::HEAD, restore(1)), (store(1), FIRST, restore(2))];
    assert_eq!(sent, right);
    assert_eq!((report.copies, report.damaged, report.repaired), (2, 2, 2));
    assert_eq!(rig.sequencer.counters().unrestored, 0);
}

/// Another's restore of the place is under way, on a slow disk: what is looked at is not given up for that.
#[test]
fn a_restore_that_is_put_off_comes_again() {
    let mut rig = open(2);
    let mut left = 12;
    let (_, report) = scrub(&mut rig, |rig, request| match left {
        0 => mended(rig, request),
        _ => {
            left -= 1;
            rig.refuse(request, Refusal::Busy);
        }
    });
    // What is damaged is counted at each look.
    assert_eq!((left, report.repaired), (0, 2));
}

#[test]
fn what_a_device_does_not_take_is_said_and_the_volume_has_it_elsewhere() {
    let mut rig = open(2);
    let (repairs, report) = scrub(&mut rig, |rig, request| match &request.body {
        RequestBody::Restore(RestoreRequest { block, .. }) => rig.refuse(request, Refusal::Damaged { block: *block }),
        _ => mended(rig, request),
    });
    let kinds: Vec<bool> = repairs
        .iter()
        .map(|request| matches!(request.body, RequestBody::Restore(_)))
        .collect();
    assert_eq!(
        kinds,
        [true, false, true],
        "the volume's is mended, the snapshot's stays"
    );
    assert_eq!((report.damaged, report.repaired), (2, 1));
    let said = rig.warnings.iter();
    let said = said.filter(|warning| matches!(warning, Warning::Unrestored { .. }));
    assert_eq!((said.count(), rig.sequencer.counters().unrestored), (2, 2));
}

#[test]
fn a_volume_that_never_had_a_snapshot_is_mended() {
    let mut rig = open(0);
    let (repairs, report) = scrub(&mut rig, mended);
    assert!(matches!(
        &repairs[..],
        [Request {
            body: RequestBody::Mend(_),
            ..
        }]
    ));
    assert_eq!((report.damaged, report.repaired), (1, 1));
}

#[test]
fn a_read_of_a_snapshot_that_meets_damage_has_it_restored() {
    let mut rig = open(2);
    let io = rig.submit_at(
        FIRST,
        Op::Read {
            offset: 2 * 4096,
            length: 4096,
        },
    );
    let first = rig.reads().remove(0);
    rig.refuse(&first, Refusal::Damaged { block: BlockIndex(2) });
    let mut restored = Vec::new();
    for _ in 0..20 {
        for request in rig.take(|_, _| true) {
            match &request.body {
                RequestBody::RenewLease => rig.accept(&request, AnswerBody::LeaseRenewed),
                RequestBody::Restore(_) => {
                    mended(&mut rig, &request);
                    restored.push((request.store, request.scope.snapshot));
                }
                _ => {
                    assert_ne!(request.store, first.store, "the other one has it");
                    assert_eq!(request.scope.snapshot, FIRST);
                    answer(&mut rig, &request);
                }
            }
        }
        rig.pass_ms(20);
    }
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!(restored, [(first.store, FIRST)]);
    assert_eq!(rig.sequencer.counters().repaired, 1);
}

/// A store does few at a time, for all who ask it: an owner that has found much leaves places to others, and loses none of its own.
#[test]
fn much_that_has_rotted_is_restored_a_few_blocks_at_a_time() {
    const ROTTEN: u16 = 20;
    let mut rig = open(2);
    rig.scrub();
    let (mut held, mut restored, mut most) = (Vec::new(), Vec::new(), 0);
    let report = loop {
        rig.answer_chunks(|_: StoreId| {
            vec![ChunkState {
                chunk: ChunkIndex(0),
                version: old(5),
                incomplete: None,
            }]
        });
        let entries: Vec<Change> = (0..ROTTEN)
            .map(|block| Change {
                block: BlockIndex(block),
                version: old(4),
                sum: Some(sum(block)),
            })
            .collect();
        for request in rig.take(|_, body| !matches!(body, RequestBody::Chunks(_))) {
            match &request.body {
                RequestBody::RenewLease => rig.accept(&request, AnswerBody::LeaseRenewed),
                RequestBody::Open(_) => rig.opened_at(&request, old(5)),
                RequestBody::Changes(_) => {
                    rig.accept(
                        &request,
                        AnswerBody::Changes(ChangesAnswer {
                            entries: entries.clone(),
                            more: None,
                        }),
                    );
                }
                RequestBody::Verify(_) => {
                    let damaged = match request.store == store(1) {
                        true => (0..ROTTEN).map(BlockIndex).collect(),
                        false => Vec::new(),
                    };
                    let body = VerifiedAnswer {
                        entries: entries.clone(),
                        damaged,
                        more: None,
                    };
                    rig.accept(&request, AnswerBody::Verified(body));
                }
                RequestBody::States(_) => {
                    let body = StatesAnswer {
                        number: SECOND,
                        born: SnapshotId::HEAD,
                        states: Vec::new(),
                        more: None,
                    };
                    rig.accept(&request, AnswerBody::States(body));
                }
                RequestBody::Read(_) => rig.answer_read(&request, old(4)),
                RequestBody::Restore(_) => held.push(request),
                body => panic!("{body:?} is not asked for"),
            }
        }
        most = most.max(held.len());
        if let Some(report) = rig.scrubbed.take() {
            break report;
        }
        // The store is slow: one at a time.
        if !held.is_empty() {
            let request = held.remove(0);
            mended(&mut rig, &request);
            restored.push(request);
        }
        rig.pass_ms(2);
        assert!(rig.now < amita_reactor::Time(20_000_000_000), "the scrub does not end");
    };
    assert_eq!(most, 8, "a quarter of a store's places");
    let mut blocks: Vec<u16> = restored
        .iter()
        .map(|request| match &request.body {
            RequestBody::Restore(RestoreRequest { block, .. }) => block.0,
            body => panic!("{body:?}"),
        })
        .collect();
    blocks.sort_unstable();
    assert_eq!(blocks, (0..ROTTEN).collect::<Vec<_>>(), "each once");
    assert_eq!(report.repaired, u64::from(ROTTEN));
}

/// Lists of no chunks until nothing happens any more.
fn look_at_empty_groups(rig: &mut Rig) -> Vec<GroupIndex> {
    for _ in 0..40 {
        rig.answer_fences();
        rig.answer_renewals();
        rig.answer_chunks(|_| Vec::new());
        rig.pass_ms(20);
    }
    std::mem::take(&mut rig.scrubbed_groups)
}

fn groups(range: std::ops::Range<u32>) -> Vec<GroupIndex> {
    range.map(GroupIndex).collect()
}

#[test]
fn a_scrub_that_is_held_begins_with_no_group_and_goes_on_where_it_was() {
    let mut rig = Rig::with(2, 1, 4, Config::default());
    rig.scrub_from(1, 1);
    rig.sequencer.hold_scrub();
    assert_eq!(look_at_empty_groups(&mut rig), []);
    assert!(rig.scrubbed.is_none());
    rig.scrub_from(1, 0);
    assert_eq!(
        look_at_empty_groups(&mut rig),
        groups(1..4),
        "it was at the second group"
    );
    assert!(rig.scrubbed.take().is_some());
    // Another core may not be done when it is held and goes on: this one is.
    rig.scrub_from(1, 0);
    assert_eq!(look_at_empty_groups(&mut rig), []);
}

#[test]
fn a_scrub_that_is_given_up_says_nothing_and_the_next_one_looks_at_all() {
    let mut rig = Rig::with(2, 1, 3, Config::default());
    rig.scrub_from(1, 0);
    for _ in 0..3 {
        rig.answer_fences();
        rig.pass_ms(20);
    }
    let asked = rig.take(|_, body| matches!(body, RequestBody::Chunks(_)));
    assert_eq!(asked.len(), 2, "both members are asked");
    rig.sequencer.end_scrub();
    rig.scrub_from(2, 0);
    // What the first one had asked for is answered now.
    for request in asked {
        let more = None;
        rig.accept(
            &request,
            AnswerBody::Chunks(ChunksAnswer {
                chunks: Vec::new(),
                more,
            }),
        );
    }
    assert_eq!(rig.scrubbed_groups, [], "that was the answer to another question");
    assert_eq!(look_at_empty_groups(&mut rig), groups(0..3));
    rig.scrub_from(3, 0);
    rig.sequencer.end_scrub();
    assert_eq!(look_at_empty_groups(&mut rig), []);
    assert!(rig.sequencer.scrub_report().is_none());
}
