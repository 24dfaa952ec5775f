//! Roll-forwards, in parts.

use super::fenced;
use crate::common::{BLOCK, Requester, Rig, Rng, version};
use amita_reactor::Slice;
use amita_store::LinkId;
use amita_types::message::{
    AllocationAnswer, AllocationRequest, AnswerBody, Change, ChangesAnswer, ChangesRequest, Refusal, RequestBody,
    RollRequest,
};
use amita_types::{BlockIndex, ChunkIndex, Epoch, Version};
use std::time::Duration;

#[test]
fn a_roll_forward_is_whole_or_nothing() {
    let (mut rig, mut asker) = fenced();
    let mut rng = Rng(5);
    let old = rng.bytes(BLOCK);
    asker.write(&mut rig, 0, 0, &old, version(1, 1), Version::NONE).unwrap();
    let blocks: Vec<Vec<u8>> = (0..40).map(|_| rng.bytes(BLOCK)).collect();
    let change = |block: u16| Change {
        block: BlockIndex(block),
        version: version(1, 2 + u64::from(block)),
        sum: (block != 3).then(|| amita_types::crc32c(&blocks[usize::from(block)])),
    };
    let mut part = |rig: &mut Rig, range: std::ops::Range<u16>, first, last| {
        let entries: Vec<Change> = range.clone().map(change).collect();
        let payload: Vec<u8> = range
            .filter(|&b| b != 3)
            .flat_map(|b| blocks[usize::from(b)].clone())
            .collect();
        let request = asker.request(RequestBody::Roll(RollRequest {
            chunk: ChunkIndex(0),
            version: version(1, 60),
            previous: version(1, 1),
            entries,
            first,
            last,
        }));
        asker.ask(rig, request, Slice::copy_from(&payload)).answer.result
    };
    assert_eq!(
        part(&mut rig, 0..20, false, false),
        Err(Refusal::WrongPredecessor { current: version(1, 1) })
    );
    assert_eq!(part(&mut rig, 0..20, true, false), Ok(AnswerBody::Done));
    // Nothing of it is there before the last part, nor after a crash in between.
    let mut lost = rig.reopened(rig.disk.durable.clone());
    lost.run();
    assert_eq!(part(&mut rig, 20..40, false, true), Ok(AnswerBody::Done));
    assert_eq!(part(&mut rig, 20..40, false, true), Ok(AnswerBody::Done), "a resend");
    let mut asker = Requester::new(2);
    asker.fence(&mut lost).unwrap();
    assert_eq!(asker.open(&mut lost, 0), version(1, 1));
    assert_eq!(asker.read(&mut lost, 0, 0, 1).unwrap().0, old);
    asker.fence(&mut rig).unwrap();
    let mut again = rig.reopened(rig.disk.durable.clone());
    again.run();
    asker.fence(&mut again).unwrap();
    for rig in [&mut rig, &mut again] {
        assert_eq!(asker.open(rig, 0), version(1, 60));
        assert_eq!(asker.read(rig, 0, 39, 1).unwrap(), (blocks[39].clone(), version(1, 41)));
        assert_eq!(asker.read(rig, 0, 3, 1).unwrap(), (vec![0; BLOCK], version(1, 5)));
        let request = asker.request(RequestBody::Changes(ChangesRequest {
            chunk: ChunkIndex(0),
            since: version(1, 4),
            from: BlockIndex(0),
        }));
        let told = asker.ask(rig, request, Slice::default());
        let Ok(AnswerBody::Changes(ChangesAnswer { entries, more })) = told.answer.result else {
            panic!("{told:?}")
        };
        assert_eq!((entries.len(), more), (32, Some(BlockIndex(35))));
        assert_eq!(entries[0], change(3));
        assert_eq!(entries[1], change(4));
        let request = asker.request(RequestBody::Allocation(AllocationRequest {
            chunk: ChunkIndex(0),
            least: Version::NONE,
            newest: None,
        }));
        let told = asker.ask(rig, request, Slice::default());
        let Ok(AnswerBody::Allocation(AllocationAnswer { allocated, .. })) = told.answer.result else {
            panic!("{told:?}")
        };
        assert_eq!(allocated[0], ((1 << 40) - 1) & !(1 << 3));
    }
}

/// The first part of a roll-forward of this chunk.
fn first_part(asker: &mut Requester, chunk: u64) -> amita_types::message::Request {
    asker.request(RequestBody::Roll(RollRequest {
        chunk: ChunkIndex(chunk),
        version: version(1, 1),
        previous: Version::NONE,
        entries: Vec::new(),
        first: true,
        last: false,
    }))
}

/// The first parts of sixteen roll-forwards take all places; the asker comes by another link.
fn places_taken() -> (Rig, Requester) {
    let (mut rig, mut asker) = fenced();
    for chunk in 0..16 {
        let part = first_part(&mut asker, chunk);
        assert_eq!(
            asker.ask(&mut rig, part, Slice::default()).answer.result,
            Ok(AnswerBody::Done)
        );
    }
    asker.link = LinkId(2);
    (rig, asker)
}

#[test]
fn parts_of_roll_forwards_of_an_older_epoch_make_way() {
    let (mut rig, mut other) = places_taken();
    let part = first_part(&mut other, 16);
    let told = other.ask(&mut rig, part, Slice::default());
    assert_eq!(told.answer.result, Err(Refusal::Busy), "they take all places");
    other.epoch = Epoch(2);
    assert_eq!(other.fence(&mut rig), Ok(AnswerBody::Fenced));
    let part = first_part(&mut other, 16);
    let told = other.ask(&mut rig, part, Slice::default());
    assert_eq!(told.answer.result, Ok(AnswerBody::Done));
}

/// Openings that ended with parts of theirs here, and are not begun again, keep nobody out for ever.
#[test]
fn a_whole_roll_forward_needs_no_place_and_parts_that_lead_nowhere_make_way() {
    let (mut rig, mut other) = places_taken();
    let mut whole = first_part(&mut other, 20);
    if let RequestBody::Roll(RollRequest { last, .. }) = &mut whole.body {
        *last = true;
    }
    let told = other.ask(&mut rig, whole, Slice::default());
    assert_eq!(told.answer.result, Ok(AnswerBody::Done), "it waits for no other part");
    let part = first_part(&mut other, 21);
    let told = other.ask(&mut rig, part.clone(), Slice::default());
    assert_eq!(told.answer.result, Err(Refusal::Busy));
    rig.advance(Duration::from_secs(61));
    let part = first_part(&mut other, 21);
    let told = other.ask(&mut rig, part, Slice::default());
    assert_eq!(told.answer.result, Ok(AnswerBody::Done));
}

#[test]
fn parts_of_a_roll_forward_by_an_older_link_do_not_spoil_the_present_one() {
    let (mut rig, asker) = fenced();
    let mut rng = Rng(6);
    let blocks: Vec<Vec<u8>> = (0..4).map(|_| rng.bytes(BLOCK)).collect();
    let part = |rig: &mut Rig, asker: &mut Requester, range: std::ops::Range<u16>, first, last| {
        let entries = range.clone().map(|block| Change {
            block: BlockIndex(block),
            version: version(1, 2 + u64::from(block)),
            sum: Some(amita_types::crc32c(&blocks[usize::from(block)])),
        });
        let payload: Vec<u8> = range
            .clone()
            .flat_map(|block| blocks[usize::from(block)].clone())
            .collect();
        let request = asker.request(RequestBody::Roll(RollRequest {
            chunk: ChunkIndex(0),
            version: version(1, 9),
            previous: Version::NONE,
            entries: entries.collect(),
            first,
            last,
        }));
        asker.ask(rig, request, Slice::copy_from(&payload)).answer.result
    };
    // The same sequencer's old link and its new one; of the old one a first part still lay in a socket.
    let (mut old, mut new) = (asker.clone(), asker);
    (old.link, new.link) = (LinkId(70), LinkId(71));
    assert_eq!(part(&mut rig, &mut new, 0..2, true, false), Ok(AnswerBody::Done));
    assert_eq!(part(&mut rig, &mut old, 0..1, true, false), Ok(AnswerBody::Done));
    // To refuse this would cost a good member its place.
    assert_eq!(part(&mut rig, &mut new, 2..4, false, true), Ok(AnswerBody::Done));
    assert_eq!(new.open(&mut rig, 0), version(1, 9));
}
