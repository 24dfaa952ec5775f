use super::rig::{GENERATION, Rig, old, store};
use crate::StopReason;
use amita_types::io::IoError;
use amita_types::message::{AnswerBody, FenceRequest, Refusal, RequestBody};
use amita_types::{Epoch, Generation, NodeId};

#[test]
fn all_members_are_told_before_anything_is_served() {
    let mut rig = Rig::new(3, 2);
    assert!(rig.sent.is_empty(), "a group is fenced when it is touched");
    rig.read(0, 4096);
    let fences = rig.fences();
    assert_eq!(fences.len(), 3);
    for request in &fences {
        let RequestBody::Fence(FenceRequest {
            owner,
            in_sync,
            blocks_per_chunk,
            ..
        }) = &request.body
        else {
            panic!()
        };
        assert_eq!((*owner, *blocks_per_chunk), (NodeId(1), 64));
        assert_eq!(in_sync.as_slice(), [store(1), store(2), store(3)]);
        assert_eq!((request.scope.generation, request.scope.epoch), (GENERATION, Epoch(1)));
    }
    rig.accept(&fences[0], AnswerBody::Fenced);
    rig.accept(&fences[1], AnswerBody::Fenced);
    assert!(rig.sent.is_empty(), "R10: every one of them");
    rig.accept(&fences[2], AnswerBody::Fenced);
    assert_eq!(rig.sent.len(), 3);
}

#[test]
fn a_member_that_cannot_be_told_is_evicted_first() {
    let mut rig = Rig::new(3, 2);
    rig.down(3);
    rig.read(0, 4096);
    rig.answer_fences();
    rig.pass_ms(1900);
    assert!(rig.calls.is_empty());
    rig.pass_ms(200);
    rig.do_call();
    assert_eq!(rig.group(0).in_sync, [store(1), store(2)]);
    let fences = rig.fences();
    assert!(fences.iter().all(|request| request.scope.epoch == Epoch(2)));
    for request in &fences {
        rig.accept(request, AnswerBody::Fenced);
    }
    assert_eq!(rig.take(|_, body| matches!(body, RequestBody::Open(_))).len(), 2);
}

#[test]
fn who_meets_a_newer_generation_stops_and_acknowledges_nothing_more() {
    let mut rig = Rig::open(2, 1);
    let write = rig.write(0, &[1; 4096]);
    let read = rig.read(0, 4096);
    let queued = rig.write(super::rig::CHUNK_BYTES, &[1; 4096]);
    let (one, two) = (rig.writes(1), rig.writes(2));
    rig.done(&one);
    rig.refuse(
        &two[0],
        Refusal::Fenced {
            generation: Generation(4),
        },
    );
    assert_eq!(
        rig.stopped,
        Some(StopReason::Deposed {
            generation: Generation(4)
        })
    );
    for io in [write, read, queued] {
        assert_eq!(rig.result(io), Some(Err(IoError::Lost)));
    }
    let ended = rig.ended.len();
    rig.done(&two);
    rig.up(1);
    rig.down(2);
    rig.lost(2);
    rig.pass_ms(5000);
    assert_eq!(rig.ended.len(), ended);
    assert!(
        rig.sent
            .iter()
            .all(|(_, request, _)| !matches!(request.body, RequestBody::Fence(_)))
    );
    let late = rig.read(0, 4096);
    assert_eq!(rig.result(late), Some(Err(IoError::Lost)));
    assert_eq!(rig.sequencer.deadline(), None);
}

#[test]
fn a_stale_epoch_is_read_from_the_metadata_and_everything_sent_again() {
    let mut rig = Rig::open(3, 1);
    let ios = [rig.write(0, &[1; 4096]), rig.write(0, &[2; 4096])];
    let (one, two, three) = (rig.writes(1), rig.writes(2), rig.writes(3));
    rig.done(&two);
    // Another sequencer has evicted the third; the first has heard of it already.
    rig.evict_elsewhere(3);
    for request in &one {
        rig.refuse(request, Refusal::StaleEpoch { epoch: Epoch(2) });
    }
    assert!(rig.fences().is_empty(), "the epoch is in doubt");
    rig.do_call();
    let fences = rig.fences();
    assert_eq!(
        fences.iter().map(|request| request.store).collect::<Vec<_>>(),
        [store(1), store(2)]
    );
    rig.answer_fences();
    assert!(rig.writes(1).is_empty(), "not before the fence is adopted");
    for request in &fences {
        rig.accept(request, AnswerBody::Fenced);
    }
    let again = rig.writes(1);
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|request| request.scope.epoch == Epoch(2)));
    assert!(rig.writes(2).is_empty(), "its answers under the older epoch count");
    rig.done(&again);
    assert!(ios.iter().all(|&io| rig.result(io) == Some(Ok(()))));
    rig.done(&three);
    assert_eq!(rig.sequencer.counters().adopted, 1);
}

#[test]
fn a_store_ahead_of_the_metadata_is_asked_again_at_leisure() {
    let mut rig = Rig::open(2, 1);
    rig.write(0, &[1; 4096]);
    let one = rig.writes(1);
    rig.refuse(&one[0], Refusal::StaleEpoch { epoch: Epoch(7) });
    let mut calls = 0;
    for _ in 0..200 {
        if !rig.calls.is_empty() {
            calls += 1;
            rig.do_call();
        }
        for request in rig.fences() {
            rig.refuse(&request, Refusal::StaleEpoch { epoch: Epoch(7) });
        }
        rig.pass_ms(1);
    }
    assert!((2..30).contains(&calls), "{calls}");
}

#[test]
fn a_new_link_is_fenced_first_and_only_for_its_store() {
    let mut rig = Rig::open(3, 2);
    rig.down(2);
    rig.up(2);
    let fences = rig.fences();
    assert_eq!(fences.len(), 1);
    assert_eq!(fences[0].store, store(2));
    rig.read(0, 4096);
    assert!(rig.reads()[0].store != store(2));
    // A second link without word of the first one's end.
    rig.up(2);
    assert_eq!(rig.fences().len(), 1);
}

#[test]
fn a_store_that_is_only_busy_is_as_good_as_silent() {
    let mut rig = Rig::new(2, 1);
    rig.read(0, 4096);
    for turn in 0..3000 {
        for request in rig.fences() {
            if request.store == store(1) {
                rig.accept(&request, AnswerBody::Fenced);
            } else {
                rig.refuse(&request, Refusal::Busy);
            }
        }
        if !rig.calls.is_empty() {
            assert!(turn >= 1900, "{turn}");
            rig.do_call();
            assert_eq!(rig.group(0).in_sync, [store(1)]);
            return;
        }
        rig.pass_ms(1);
    }
    panic!("it was never evicted");
}

#[test]
fn released_means_stopped() {
    let mut rig = Rig::open(2, 1);
    let io = rig.write(0, &[1; 4096]);
    assert!(!rig.sequencer.is_idle());
    rig.sequencer.release();
    rig.collect();
    assert_eq!(rig.stopped, Some(StopReason::Released));
    assert_eq!(rig.result(io), Some(Err(IoError::Lost)));
    assert!(rig.sequencer.is_idle() && rig.sequencer.is_stopped());
    assert_eq!(old(1).generation(), Generation(2));
}
