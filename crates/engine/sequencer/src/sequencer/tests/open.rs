use super::rig::{Rig, old, store, version};
use crate::StopReason;
use crate::{Fault, Faults};
use amita_reactor::Slice;
use amita_types::io::IoError;
use amita_types::message::{
    AnswerBody, Change, ChangesAnswer, ChangesRequest, DataAnswer, OpenedAnswer, ReadRequest, Refusal, Request,
    RequestBody, RollRequest, Sums, WriteRequest,
};
use amita_types::{BlockIndex, Generation, Version};

fn block(fill: u8) -> (Vec<u8>, u32) {
    let bytes = vec![fill; 4096];
    let sum = amita_types::crc32c(&bytes);
    (bytes, sum)
}

fn change(index: u16, counter: u64, fill: Option<u8>) -> Change {
    Change {
        block: BlockIndex(index),
        version: old(counter),
        sum: fill.map(|fill| block(fill).1),
    }
}

/// A chunk of three members at 2:5, 2:9 and 2:7, up to the listing.
fn unequal() -> (Rig, Request) {
    let mut rig = Rig::new(3, 2);
    rig.write(0, &[1; 4096]);
    rig.answer_fences();
    rig.answer_opens(|id| {
        if id == store(1) {
            old(5)
        } else if id == store(2) {
            old(9)
        } else {
            old(7)
        }
    });
    let mut listing = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    assert_eq!(listing.len(), 1);
    let listing = listing.remove(0);
    assert_eq!(
        listing.store,
        store(2),
        "the longest has everything that was acknowledged"
    );
    (rig, listing)
}

fn rolls(rig: &mut Rig) -> Vec<(Request, Slice)> {
    let (taken, left) = std::mem::take(&mut rig.sent)
        .into_iter()
        .partition(|(_, request, _)| matches!(request.body, RequestBody::Roll(_)));
    rig.sent = left;
    taken
        .into_iter()
        .map(|(_, request, payload)| (request, payload))
        .collect()
}

#[test]
fn equal_members_open_without_the_metadata() {
    let mut rig = Rig::new(3, 2);
    rig.write(0, &[1; 4096]);
    assert_eq!(rig.fences().len(), 3);
    assert!(rig.sent.is_empty(), "nothing before all are fenced");

    let mut rig = Rig::new(3, 2);
    rig.write(0, &[1; 4096]);
    rig.answer_fences();
    rig.answer_opens(|_| old(5));
    assert_eq!(rig.writes(1).len(), 1);
    assert!(rig.calls.is_empty());
}

/// What a roll-forward says: whom, from what, which entries, the first and the last part?
fn said((request, payload): &(Request, Slice)) -> (amita_types::StoreId, Version, Vec<Change>, (bool, bool), Vec<u8>) {
    let RequestBody::Roll(RollRequest {
        version,
        previous,
        ref entries,
        first,
        last,
        ..
    }) = request.body
    else {
        panic!("{request:?}")
    };
    assert_eq!(version, old(9));
    (
        request.store,
        previous,
        entries.clone(),
        (first, last),
        payload.to_vec(),
    )
}

fn list(rig: &mut Rig, listing: &Request, entries: Vec<Change>, more: Option<BlockIndex>) {
    rig.accept(listing, AnswerBody::Changes(ChangesAnswer { entries, more }));
}

fn listings(rig: &mut Rig) -> Vec<Request> {
    rig.take(|_, body| matches!(body, RequestBody::Changes(_)))
}

#[test]
fn shorter_members_are_rolled_forward_page_by_page_one_after_the_other() {
    let (mut rig, listing) = unequal();
    assert!(
        matches!(listing.body, RequestBody::Changes(ChangesRequest { since, from: BlockIndex(0), .. }) if since == old(5))
    );
    // Page one: a block that both lack, its neighbour that only the shortest lacks, and a cleared one.
    let entries = vec![change(3, 8, Some(3)), change(4, 6, Some(4)), change(9, 9, None)];
    let more = Some(BlockIndex(20));
    list(&mut rig, &listing, entries.clone(), more);
    let fetch = rig.reads();
    assert_eq!(fetch.len(), 1, "neighbours are read together");
    assert!(matches!(fetch[0].body, RequestBody::Read(ReadRequest { least, .. }) if least == old(9)));
    rig.answer_read(&fetch[0], old(8));
    // Who had a place at one store and waited for one at another might wait for ever.
    let parts = rolls(&mut rig);
    assert_eq!(parts.len(), 1, "one after the other");
    let both = [block(3).0, block(4).0].concat();
    assert_eq!(said(&parts[0]), (store(1), old(5), entries, (true, false), both));
    rig.accept(&parts[0].0, AnswerBody::Done);
    let listing = listings(&mut rig).remove(0);
    assert!(matches!(
        listing.body,
        RequestBody::Changes(ChangesRequest {
            from: BlockIndex(20),
            ..
        })
    ));
    let entries = vec![change(20, 7, None)];
    list(&mut rig, &listing, entries.clone(), None);
    let parts = rolls(&mut rig);
    assert_eq!(said(&parts[0]), (store(1), old(5), entries, (false, true), Vec::new()));
    rig.accept(&parts[0].0, AnswerBody::Done);

    // The other one's turn: all are asked again first.
    rig.answer_opens(|id| if id == store(3) { old(7) } else { old(9) });
    let listing = listings(&mut rig).remove(0);
    assert!(
        matches!(listing.body, RequestBody::Changes(ChangesRequest { since, from: BlockIndex(0), .. }) if since == old(7))
    );
    let entries = vec![change(9, 9, None)];
    list(&mut rig, &listing, entries.clone(), more);
    let parts = rolls(&mut rig);
    assert_eq!(said(&parts[0]), (store(3), old(7), entries, (true, false), Vec::new()));
    rig.accept(&parts[0].0, AnswerBody::Done);
    let listing = listings(&mut rig).remove(0);
    list(&mut rig, &listing, Vec::new(), None);
    let parts = rolls(&mut rig);
    let empty = (store(3), old(7), Vec::new(), (false, true), Vec::new());
    assert_eq!(said(&parts[0]), empty, "the last part may be empty, and is sent");
    rig.accept(&parts[0].0, AnswerBody::Done);

    // R6: the group is read once more, and only then is the chunk open.
    assert_eq!(rig.writes(1).len(), 0);
    rig.do_call();
    let RequestBody::Write(WriteRequest {
        version: given,
        previous,
        ..
    }) = rig.writes(1)[0].body
    else {
        panic!()
    };
    assert_eq!((previous, given), (old(9), version(10)));
    assert_eq!(rig.sequencer.counters().rolled, 2);
}

#[test]
fn a_new_epoch_starts_the_opening_again() {
    let (mut rig, listing) = unequal();
    list(&mut rig, &listing, vec![change(9, 9, None)], None);
    for (request, _) in rolls(&mut rig) {
        rig.accept(&request, AnswerBody::Done);
    }
    rig.answer_opens(|id| if id == store(3) { old(7) } else { old(9) });
    for listing in listings(&mut rig) {
        list(&mut rig, &listing, vec![change(9, 9, None)], None);
    }
    for (request, _) in rolls(&mut rig) {
        rig.accept(&request, AnswerBody::Done);
    }
    rig.evict_elsewhere(3);
    rig.do_call();
    assert_eq!(rig.writes(1).len(), 0);
    let fences = rig.fences();
    assert_eq!(fences.len(), 2);
    for request in &fences {
        assert_eq!(request.scope.epoch.0, 2);
        rig.accept(request, AnswerBody::Fenced);
    }
    rig.answer_opens(|_| old(9));
    assert_eq!(rig.writes(1).len(), 1);
    assert_eq!(rig.writes(3).len(), 0);
}

#[test]
fn a_link_that_ends_starts_the_opening_again() {
    let (mut rig, listing) = unequal();
    rig.down(1);
    // The other's late answer belongs to what is over.
    list(&mut rig, &listing, vec![change(9, 9, None)], None);
    assert!(rolls(&mut rig).is_empty());
    rig.up(1);
    rig.answer_fences();
    let opens = rig.take(|_, body| matches!(body, RequestBody::Open(_)));
    assert_eq!(opens.len(), 3);
}

#[test]
fn a_source_that_is_damaged_is_replaced_or_the_chunk_fails() {
    let mut rig = Rig::new(3, 2);
    let io = rig.write(0, &[1; 4096]);
    rig.answer_fences();
    for turn in 0..2 {
        rig.answer_opens(|id| if id == store(1) { old(5) } else { old(9) });
        let listing = rig.take(|_, body| matches!(body, RequestBody::Changes(_))).remove(0);
        assert_eq!(listing.store, store(2 + turn), "each of the two longest in turn");
        list(&mut rig, &listing, vec![change(3, 8, Some(3))], None);
        let fetch = rig.reads().remove(0);
        if turn == 0 {
            rig.refuse(&fetch, Refusal::Damaged { block: BlockIndex(3) });
        } else {
            let mut sums = Sums::new();
            sums.push(block(8).1);
            let body = AnswerBody::Data(DataAnswer {
                version: old(8),
                sums,
                runs: Box::default(),
            });
            rig.answer(&fetch, Ok(body), Slice::copy_from(&block(8).0));
        }
    }
    rig.answer_opens(|id| if id == store(1) { old(5) } else { old(9) });
    assert_eq!(rig.result(io), Some(Err(IoError::Damaged)));
    // The next touch tries again.
    rig.read(0, 4096);
    assert_eq!(rig.take(|_, body| matches!(body, RequestBody::Open(_))).len(), 3);
}

#[test]
fn a_listing_that_makes_no_sense_is_not_rolled_forward() {
    for entries in [
        vec![change(4, 8, None), change(3, 8, None)],
        vec![change(3, 4, None)],
        vec![change(3, 10, None)],
        vec![change(64, 8, None)],
    ] {
        let (mut rig, listing) = unequal();
        rig.accept(&listing, AnswerBody::Changes(ChangesAnswer { entries, more: None }));
        assert!(rolls(&mut rig).is_empty());
    }
}

#[test]
fn a_member_that_cannot_be_rolled_forward_is_evicted() {
    let (mut rig, listing) = unequal();
    list(&mut rig, &listing, vec![change(9, 9, None)], None);
    let parts = rolls(&mut rig);
    rig.refuse(&parts[0].0, Refusal::NoSpace);
    rig.do_call();
    assert!(!rig.group(0).in_sync.contains(&parts[0].0.store));
}

#[test]
fn a_version_of_a_newer_owner_deposes_us() {
    let mut rig = Rig::new(2, 1);
    rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| Version::new(Generation(4), 6).unwrap());
    assert_eq!(
        rig.stopped,
        Some(StopReason::Deposed {
            generation: Generation(4)
        })
    );
}

#[test]
fn no_more_chunks_are_opened_at_once_than_there_is_room_for() {
    let mut rig = Rig::new(1, 1);
    for chunk in 0..200 {
        rig.read(chunk * super::rig::CHUNK_BYTES, 4096);
    }
    rig.answer_fences();
    let opens = rig.take(|_, body| matches!(body, RequestBody::Open(_)));
    assert_eq!(opens.len(), crate::MAX_OPENINGS);
    for request in &opens {
        rig.accept(
            request,
            AnswerBody::Opened(OpenedAnswer {
                version: old(1),
                incomplete: None,
                ..OpenedAnswer::NOTHING
            }),
        );
    }
    assert_eq!(
        rig.take(|_, body| matches!(body, RequestBody::Open(_))).len(),
        200 - crate::MAX_OPENINGS
    );
}

/// What a member claims that lies: a version at the end of the counters. Without the check the chunk would be opened there,
/// and its next write would have no version.
#[test]
fn a_member_that_claims_what_no_history_has_stops_the_chunk_and_nothing_else() {
    let last = Version::new(Generation(2), Version::COUNTER_MAX).unwrap();
    let play = |any_jump: bool| {
        let config = crate::Config {
            faults: if any_jump {
                Faults::NONE.with(Fault::AnyJump)
            } else {
                Faults::NONE
            },
            ..crate::Config::default()
        };
        let mut rig = Rig::with(3, 2, 1, config);
        let io = rig.write(0, &[1; 4096]);
        rig.answer_fences();
        rig.answer_opens(|id| if id == store(2) { last } else { old(9) });
        (rig, io)
    };
    let (mut rig, io) = play(false);
    assert_eq!(rig.result(io), Some(Err(IoError::Damaged)));
    assert!(
        rolls(&mut rig).is_empty() && rig.sent.is_empty(),
        "nothing was changed anywhere"
    );
    assert!(rig.stopped.is_none());
    let warning = rig.warnings[0].to_string();
    assert!(
        warning.contains("2:1099511627775") && warning.contains("2:9"),
        "{warning}"
    );
    // Others of its chunks are served; and this one is, as soon as its members agree. It was said once.
    let again = rig.write(0, &[1; 4096]);
    rig.answer_opens(|id| if id == store(2) { last } else { old(9) });
    assert_eq!(rig.result(again), Some(Err(IoError::Damaged)));
    assert_eq!(rig.warnings.len(), 1);
    rig.write(0, &[1; 4096]);
    rig.answer_opens(|_| old(9));
    assert_eq!(rig.writes(1).len(), 1);

    let (rig, io) = play(true);
    assert_eq!(
        rig.result(io),
        None,
        "with the rule switched off the lie is rolled forward"
    );
}

/// As many writes as there may be without an acknowledgement, and some more, are rolled forward; what goes back is not.
#[test]
fn histories_of_the_same_chunk_are_near_each_other() {
    let version = |generation, counter| Version::new(Generation(generation), counter).unwrap();
    assert!(version(2, 9).may_follow(version(2, 9)) && version(2, 73).may_follow(version(2, 9)));
    assert!(
        version(3, 10).may_follow(version(2, 9)),
        "the counter goes on across generations"
    );
    assert!(!version(3, 9).may_follow(version(2, 9)) && !version(3, 1).may_follow(version(2, 9)));
    assert!(!version(2, 8).may_follow(version(2, 9)));
    let most = amita_types::MAX_AHEAD;
    assert!(version(2, 9 + most).may_follow(version(2, 9)) && !version(2, 10 + most).may_follow(version(2, 9)));
    assert!(most >= u64::from(crate::config::MAX_WRITES_PER_CHUNK));
}
