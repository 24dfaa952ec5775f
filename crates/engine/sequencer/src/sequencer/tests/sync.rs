//! Members that are brought up to date: how they enter, join a chunk's history, leave, and are taken in.

use super::rig::{Rig, old, store, version};
use crate::io::StopReason;
use amita_types::message::{
    AnswerBody, FenceRequest, JoinRequest, JoinedAnswer, OpenedAnswer, Refusal, RequestBody, SettledAnswer,
    WriteRequest,
};
use amita_types::{BlockIndex, ChunkIndex, Epoch};

const BLOCK: [u8; 4096] = [7; 4096];

/// Stores 1 and 2 are in sync, the chunk is open at 2:5, and store 3 has entered; what it holds was not asked yet.
fn entered() -> Rig {
    let mut rig = Rig::open(2, 1);
    rig.up(3);
    rig.list_syncing(3);
    rig.answer_fences();
    rig
}

/// The same; and all hold the same, so that it was claimed to be whole.
fn claimed() -> Rig {
    let mut rig = entered();
    rig.answer_chunks(|_| Vec::new());
    assert_eq!(rig.wholes.len(), 1);
    rig
}

fn joined(rig: &mut Rig, requests: &[amita_types::message::Request]) {
    for request in requests {
        match request.body {
            RequestBody::Join(_) => rig.accept(request, AnswerBody::Joined(JoinedAnswer { incomplete: None })),
            RequestBody::Write(_) => rig.accept(request, AnswerBody::Done),
            _ => {}
        }
    }
}

#[test]
fn the_first_write_comes_behind_a_join_and_waits_for_the_member() {
    let mut rig = entered();
    let io = rig.write(0, &BLOCK);
    let sent = rig.sent_to(3);
    let bodies: Vec<&RequestBody> = sent.iter().map(|request| &request.body).collect();
    assert!(matches!(bodies[0], RequestBody::Chunks(_)));
    assert!(matches!(bodies[1], RequestBody::Join(JoinRequest { chunk: ChunkIndex(0), at }) if *at == old(5)));
    assert!(matches!(bodies[2], RequestBody::Write(WriteRequest { previous, .. }) if *previous == old(5)));
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    assert_eq!(rig.result(io), None, "R2: a syncing member's answer is required");
    joined(&mut rig, &sent);
    assert_eq!(rig.result(io), Some(Ok(())));
    rig.write(0, &BLOCK);
    let sent = rig.sent_to(3);
    assert!(
        matches!(sent[..], [ref one] if matches!(one.body, RequestBody::Write(_))),
        "it joins once"
    );
}

#[test]
fn a_join_without_an_answer_is_sent_again_before_the_writes() {
    let mut rig = entered();
    rig.write(0, &BLOCK);
    rig.write(4096, &BLOCK);
    rig.down(3);
    rig.up(3);
    assert!(rig.writes(3).is_empty(), "first the fence");
    rig.answer_fences();
    let sent = rig.sent_to(3);
    let row: Vec<u64> = sent
        .iter()
        .filter_map(|request| match request.body {
            RequestBody::Join(JoinRequest { at, .. }) => Some(at.counter()),
            RequestBody::Write(WriteRequest { version, .. }) => Some(100 + version.counter()),
            _ => None,
        })
        .collect();
    assert_eq!(row, [5, 106, 107]);
}

#[test]
fn writes_under_way_when_a_member_enters_are_compared_though_nobody_lists_the_chunk() {
    let mut rig = Rig::open(2, 1);
    let io = rig.write(0, &BLOCK);
    rig.up(3);
    rig.list_syncing(3);
    rig.answer_fences();
    rig.answer_chunks(|_| Vec::new());
    assert!(rig.wholes.is_empty(), "the write has not reached it");
    let sent = rig.sent_to(3);
    assert_eq!(sent.len(), 1, "the write itself does not go to it: {sent:?}");
    assert!(matches!(sent[0].body, RequestBody::Join(JoinRequest { at, .. }) if at == version(6)));
    let incomplete = Some(old(5));
    rig.accept(&sent[0], AnswerBody::Joined(JoinedAnswer { incomplete }));
    let sent = rig.sent_to(3);
    let version = version(6);
    rig.accept(
        &sent[0],
        AnswerBody::Opened(OpenedAnswer {
            version,
            incomplete,
            ..OpenedAnswer::NOTHING
        }),
    );
    let lists = |_, body: &RequestBody| matches!(body, RequestBody::Changes(_));
    assert!(rig.take(lists).is_empty(), "R1: not before the source has the write");
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    assert_eq!(
        rig.result(io),
        Some(Ok(())),
        "it entered later: its answer is not required"
    );
    assert_eq!(rig.take(lists).len(), 2);
}

#[test]
fn one_that_fails_is_dropped_and_nothing_waits_for_it() {
    let mut rig = entered();
    let io = rig.write(0, &BLOCK);
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    rig.lost(3);
    rig.do_call();
    let group = rig.group(0);
    assert!(group.syncing.is_empty());
    assert_eq!(group.in_sync, [store(1), store(2)]);
    assert_eq!(rig.result(io), Some(Ok(())));
    assert_eq!(rig.sequencer.counters().sync_dropped, 1);
}

#[test]
fn one_without_room_is_dropped_and_the_write_is_not_failed() {
    let mut rig = Rig::open(2, 1);
    rig.credit = 0;
    rig.up(3);
    rig.list_syncing(3);
    rig.answer_fences();
    let io = rig.write(0, &BLOCK);
    assert!(rig.writes(1).is_empty(), "R7: no version before there is room");
    for request in rig.settles() {
        assert_eq!(request.store, store(3));
        rig.accept(&request, AnswerBody::Settled(SettledAnswer { full: true }));
    }
    rig.do_call();
    assert!(rig.group(0).syncing.is_empty());
    rig.answer_fences();
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn one_whose_link_stands_already_is_spoken_to() {
    let mut rig = Rig::open(2, 1);
    // Nothing says yet that it has to do with the volume.
    rig.up(8);
    rig.list_syncing(8);
    let fences = rig.sent_to(8);
    assert!(matches!(&fences[0].body, RequestBody::Fence(FenceRequest { syncing, .. }) if *syncing == [store(8)]));
}

#[test]
fn one_that_was_claimed_is_taken_in_and_read_from_under_the_new_epoch() {
    let mut rig = claimed();
    assert_eq!(rig.wholes[0].1, store(3));
    assert_eq!(rig.wholes[0].2, Epoch(2));
    rig.change_group(|group| {
        group.syncing.clear();
        group.in_sync.push(store(3));
    });
    assert!(rig.stopped.is_none());
    assert_eq!(rig.sequencer.counters().sync_promoted, 1);
    rig.read(0, 4096);
    let fences = rig.fences();
    assert_eq!(fences.len(), 3);
    assert!(rig.reads().is_empty(), "nobody has adopted the epoch");
}

#[test]
fn one_that_was_not_claimed_may_not_be_in_sync() {
    let mut rig = entered();
    rig.change_group(|group| {
        group.syncing.clear();
        group.in_sync.push(store(3));
    });
    assert!(
        matches!(rig.stopped, Some(StopReason::Metadata { .. })),
        "{:?}",
        rig.stopped
    );
}

#[test]
fn a_claim_of_an_earlier_stay_does_not_count() {
    let mut rig = claimed();
    rig.change_group(|group| group.syncing.clear());
    rig.list_syncing(3);
    rig.change_group(|group| {
        group.syncing.clear();
        group.in_sync.push(store(3));
    });
    assert!(
        matches!(rig.stopped, Some(StopReason::Metadata { .. })),
        "{:?}",
        rig.stopped
    );
}

#[test]
fn one_that_was_claimed_is_waited_for() {
    let mut rig = claimed();
    let io = rig.write(0, &BLOCK);
    let sent = rig.sent_to(3);
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    assert_eq!(rig.result(io), None, "R2: it may be in sync by now, and alone");
    joined(&mut rig, &sent);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn leases_of_one_that_was_claimed_are_counted() {
    let mut rig = claimed();
    // Any answer grants a lease.
    rig.takes_back = false;
    rig.pass_ms(300);
    let io = rig.read(0, 4096);
    for request in rig.reads() {
        rig.answer_read(&request, old(5));
    }
    let renewals = rig.renewals();
    let (of_it, others): (Vec<_>, Vec<_>) = renewals.into_iter().partition(|request| request.store == store(3));
    for request in &others {
        rig.accept(request, AnswerBody::LeaseRenewed);
    }
    assert_eq!(rig.result(io), None, "R4: it may be in sync by now, and alone");
    rig.accept(&of_it[0], AnswerBody::LeaseRenewed);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn more_members_come_and_go_than_there_are_places() {
    let mut rig = Rig::open(2, 1);
    for number in 3..=14 {
        rig.up(number);
        rig.list_syncing(number);
        rig.answer_fences();
        // Each of them has seen one write.
        let previous = 5 + number as u64 - 3;
        let io = rig.write(0, &BLOCK);
        let sent = rig.sent_to(number);
        let joins = sent.iter().filter_map(|request| match request.body {
            RequestBody::Join(JoinRequest { at, .. }) => Some(at.counter()),
            _ => None,
        });
        assert_eq!(
            joins.collect::<Vec<_>>(),
            [previous],
            "a place remembers nothing of who had it"
        );
        joined(&mut rig, &sent);
        for number in [1, 2] {
            let writes = rig.writes(number);
            rig.done(&writes);
        }
        assert_eq!(rig.result(io), Some(Ok(())));
        rig.change_group(|group| group.syncing.clear());
        rig.answer_fences();
        rig.sent.clear();
    }
    assert!(rig.stopped.is_none());
    assert_eq!(rig.sequencer.counters().sync_dropped, 12);
}

#[test]
fn what_a_member_was_not_sent_does_not_cost_it_credits() {
    let mut rig = Rig::open(2, 1);
    rig.credit = 0;
    rig.up(3);
    rig.list_syncing(3);
    for request in rig.fences() {
        rig.credit = u32::from(request.store == store(3));
        rig.accept(&request, AnswerBody::Fenced);
    }
    rig.credit = 0;
    // It has entered, and left alone for a moment: the write is charged and not sent.
    for request in rig.take(|to, _| to == store(3)) {
        rig.refuse(&request, Refusal::Busy);
    }
    let one = rig.write(0, &BLOCK);
    assert!(rig.writes(3).is_empty());
    rig.change_group(|group| group.syncing.clear());
    rig.answer_fences();
    for number in [1, 2] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    assert_eq!(rig.result(one), Some(Ok(())));
    rig.list_syncing(3);
    rig.answer_fences();
    rig.write(u64::from(BlockIndex(1).0) * 4096, &BLOCK);
    assert_eq!(rig.writes(3).len(), 1, "the one credit is there still");
}
