//! Space and credits.

use super::{MIB, fenced, find, version_or_none};
use crate::common::{BLOCK, Requester, Rig, version};
use amita_reactor::Slice;
use amita_types::message::{AnswerBody, ClearRequest, Refusal, RequestBody};
use amita_types::{BlockRange, ChunkIndex, Version};
use std::time::Duration;

#[test]
fn a_full_store_refuses_serves_and_recovers() {
    let mut rig = Rig::fresh(2 * MIB, false);
    let mut asker = Requester::new(1);
    asker.fence(&mut rig).unwrap();
    let slots = rig.store.status().capacity_bytes / BLOCK as u64;
    let bytes = vec![6; BLOCK];
    let mut counter = 0;
    let mut full = false;
    for block in 0..slots {
        let offset = (block % 1024) as u32 * BLOCK as u32;
        let (next, previous) = (version(1, counter + 1), version_or_none(counter));
        match asker.write(&mut rig, 0, offset, &bytes, next, previous) {
            Ok(_) => counter += 1,
            Err(Refusal::NoSpace) => {
                full = true;
                break;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(full || counter == slots, "{counter} of {slots}");
    let status = rig.store.status();
    assert!(status.free_bytes <= 16 * BLOCK as u64, "{status:?}");
    assert_eq!(asker.read(&mut rig, 0, 0, 1).unwrap().0, bytes);
    let clear = asker.request(RequestBody::Clear(ClearRequest {
        chunk: ChunkIndex(0),
        range: BlockRange::new(0, 200),
        version: version(1, counter + 1),
        previous: version(1, counter),
    }));
    assert_eq!(
        asker.ask(&mut rig, clear, Slice::default()).answer.result,
        Ok(AnswerBody::Done)
    );
    counter += 1;
    // The store is idle otherwise: the mark must move by itself.
    for _ in 0..100 {
        let wrote = asker.write(&mut rig, 0, 0, &bytes, version(1, counter + 1), version(1, counter));
        assert_eq!(wrote, Ok(AnswerBody::Done));
        counter += 1;
    }
}

/// A volume is trimmed at a high depth: what is under way is counted at its worst, which is more than a small store has
/// room for. That passes, so the store asks for patience; it does not say that it is full, which would cost it its place.
#[test]
fn many_clears_at_once_are_put_off_and_not_refused_for_space() {
    let mut rig = Rig::fresh(2 * MIB, false);
    let mut asker = Requester::new(1);
    asker.fence(&mut rig).unwrap();
    let clear = |asker: &mut Requester, chunk: u64| {
        asker.request(RequestBody::Clear(ClearRequest {
            chunk: ChunkIndex(chunk),
            range: BlockRange::new(0, 1024),
            version: version(1, 1),
            previous: Version::NONE,
        }))
    };
    let mut open: Vec<u64> = (0..64).collect();
    let mut put_off = 0;
    for _ in 0..64 {
        let asked: Vec<_> = open
            .iter()
            .map(|&chunk| {
                let request = clear(&mut asker, chunk);
                let id = request.id;
                rig.send(asker.link, request, Slice::default());
                (chunk, id)
            })
            .collect();
        rig.run();
        open.clear();
        for (chunk, id) in asked {
            match rig
                .take(asker.link, id)
                .expect("every request is answered")
                .answer
                .result
            {
                Ok(AnswerBody::Done) => {}
                Err(Refusal::Busy) => {
                    put_off += 1;
                    open.push(chunk);
                }
                other => panic!("{other:?}"),
            }
        }
        if open.is_empty() {
            break;
        }
    }
    assert!(open.is_empty(), "{} clears never came through", open.len());
    assert!(put_off > 0, "the store was large enough: the test shows nothing");
}

#[test]
fn credits_are_granted_used_and_returned() {
    let mut rig = Rig::fresh(16 * MIB, false);
    let mut asker = Requester::new(1);
    let request = asker.fence_request();
    let told = asker.ask(&mut rig, request, Slice::default());
    let granted = told.answer.credit_blocks;
    assert!(granted > 0 && granted <= 2048);
    assert_eq!(rig.store.status().credits_granted, u64::from(granted));
    let bytes = vec![6; 8 * BLOCK];
    let request = asker.write_request(0, 0, &bytes, version(1, 1), Version::NONE);
    rig.send(asker.link, request.clone(), Slice::copy_from(&bytes));
    assert_eq!(rig.store.status().credits_granted, u64::from(granted) - 8);
    rig.run();
    let told = rig.take(asker.link, request.id).unwrap();
    assert!(told.answer.credit_blocks >= 8);
    rig.store.link_closed(rig.now, asker.link);
    // What may be in flight is kept for a while, for what comes without credits.
    let lingering = rig.store.status().credits_granted;
    assert!((8..=512).contains(&lingering), "{lingering}");
    // Answers to a link that is closed grant nothing.
    let late = asker.write_request(0, 0, &bytes, version(1, 2), version(1, 1));
    rig.send(asker.link, late, Slice::copy_from(&bytes));
    rig.store.link_closed(rig.now, asker.link);
    rig.run();
    assert!(rig.store.status().credits_granted <= lingering);
    rig.advance(Duration::from_secs(20));
    let mut other = Requester::new(2);
    let request = other.fence_request();
    let told = other.ask(&mut rig, request, Slice::default());
    assert_eq!(rig.store.status().credits_granted, u64::from(told.answer.credit_blocks));
}

/// Links that break again and again, each with credits, do not use up what could be granted to those that stay.
#[test]
fn what_lingers_of_many_links_leaves_most_to_those_that_come() {
    let mut rig = Rig::fresh(16 * MIB, false);
    let mut first = None;
    for link in 1..=100 {
        let mut asker = Requester::new(link);
        let request = asker.fence_request();
        let granted = asker.ask(&mut rig, request, Slice::default()).answer.credit_blocks;
        let first = *first.get_or_insert(granted);
        assert!(granted >= first / 2, "link {link}: {granted} blocks of {first}");
        rig.store.link_closed(rig.now, asker.link);
    }
    let lingering = rig.store.status().credits_granted;
    assert!(lingering > 0, "it is kept for what may be in flight");
}

#[test]
fn a_resend_that_comes_to_nothing_is_refunded() {
    let (mut rig, mut old) = fenced();
    let bytes = vec![5; BLOCK];
    old.write(&mut rig, 0, 0, &bytes, version(1, 1), Version::NONE).unwrap();
    let at = find(&rig.disk.view, &bytes);
    rig.disk.view[at + 100] ^= 1;
    let mut new = Requester::new(2);
    new.fence(&mut rig).unwrap();
    let granted = rig.store.status().credits_granted;
    // It is merged with what is rotten.
    for asker in [&mut old, &mut new] {
        let write = asker.write_request(0, 10, &[9; 100], version(1, 2), version(1, 1));
        rig.send(asker.link, write, Slice::copy_from(&[9; 100]));
    }
    assert_eq!(rig.store.status().credits_granted, granted - 2);
    rig.run();
    let refused = rig.told.iter().filter(|told| told.answer.result.is_err());
    assert_eq!(refused.count(), 2);
    assert_eq!(rig.store.status().credits_granted, granted);
}
