//! What a store does, one rule after the other.

mod common;

use amita_reactor::{Pool, Slice, Time};
use amita_store::{Config, LinkId, State};
use amita_types::message::{AnswerBody, Change, Problem, Refusal, RequestBody};
use amita_types::{
    BlockIndex, BlockRange, ChunkIndex, Epoch, Generation, NodeId, RequestId, StoreId, Version, VolumeId,
};
use common::{Asker, BLOCK, Disk, Flight, Rig, Rng, image, params, version};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn fenced() -> (Rig, Asker) {
    let mut rig = Rig::fresh(4 * MIB, false);
    let mut asker = Asker::new(1);
    assert_eq!(asker.fence(&mut rig), Ok(AnswerBody::Fenced));
    (rig, asker)
}

#[test]
fn what_is_written_is_read_and_survives() {
    let (mut rig, mut asker) = fenced();
    let mut rng = Rng(1);
    let bytes = rng.bytes(3 * BLOCK);
    let wrote = asker.write(&mut rig, 5, 2 * BLOCK as u32, &bytes, version(1, 1), Version::NONE);
    assert_eq!(wrote, Ok(AnswerBody::Done));
    assert_eq!(asker.read(&mut rig, 5, 2, 3), Ok((bytes.clone(), version(1, 1))));
    let (zeros, none) = asker.read(&mut rig, 5, 8, 4).unwrap();
    assert!(zeros.iter().all(|&byte| byte == 0) && none == Version::NONE);
    let (mixed, newest) = asker.read(&mut rig, 5, 0, 8).unwrap();
    assert_eq!(&mixed[2 * BLOCK..5 * BLOCK], &bytes[..]);
    assert!(mixed[5 * BLOCK..].iter().all(|&byte| byte == 0) && newest == version(1, 1));

    let mut again = rig.reopened(rig.disk.durable.clone());
    again.run();
    assert_eq!(*again.store.state(), State::Serving);
    assert_eq!(asker.fence(&mut again), Ok(AnswerBody::Fenced));
    assert_eq!(asker.open(&mut again, 5), version(1, 1));
    assert_eq!(asker.read(&mut again, 5, 2, 3), Ok((bytes, version(1, 1))));
}

#[test]
fn sub_block_writes_merge_with_disk_memory_and_zeros() {
    let (mut rig, mut asker) = fenced();
    let mut rng = Rng(2);
    let mut expected = vec![0; 4 * BLOCK];
    let mut previous = Version::NONE;
    // Each write is sent before the one before it is durable in half of the rounds.
    let mut outstanding = Vec::new();
    for round in 0..200u64 {
        let offset = rng.below(3 * BLOCK);
        let bytes = {
            let n = 1 + rng.below(BLOCK);
            rng.bytes(n)
        };
        let next = version(1, round + 1);
        let request = asker.write_request(0, offset as u32, &bytes, next, previous);
        outstanding.push(request.id);
        rig.send(asker.link, request, Slice::copy_from(&bytes));
        expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
        previous = next;
        if rng.chance(2) {
            rig.run();
            for id in outstanding.drain(..) {
                let told = rig.take(asker.link, id).expect("answered");
                assert_eq!(told.answer.result, Ok(AnswerBody::Done));
            }
            assert_eq!(asker.read(&mut rig, 0, 0, 4).unwrap().0, expected);
        }
    }
    assert!(rig.store.status().counters.merges > 100);
}

#[test]
fn only_the_exact_predecessor_is_followed() {
    let (mut rig, mut asker) = fenced();
    let block = vec![1; BLOCK];
    let mut write = |rig: &mut Rig, version, previous| asker.write(rig, 0, 0, &block, version, previous);
    let wrong = |current| Err(Refusal::WrongPredecessor { current });
    assert_eq!(write(&mut rig, version(1, 3), version(1, 2)), wrong(Version::NONE));
    assert_eq!(write(&mut rig, version(1, 1), Version::NONE), Ok(AnswerBody::Done));
    assert_eq!(write(&mut rig, version(1, 3), version(1, 2)), wrong(version(1, 1)));
    let problem = Err(Refusal::Invalid { what: Problem::Version });
    assert_eq!(write(&mut rig, version(1, 3), version(1, 1)), problem);
    assert_eq!(write(&mut rig, version(2, 2), version(1, 1)), problem);
    assert_eq!(write(&mut rig, version(1, 2), version(1, 1)), Ok(AnswerBody::Done));
}

#[test]
fn a_resend_is_answered_once_the_original_is_durable() {
    let (mut rig, mut asker) = fenced();
    let block = vec![1; BLOCK];
    let request = asker.write_request(0, 0, &block, version(1, 1), Version::NONE);
    let other = LinkId(99);
    rig.send(asker.link, request.clone(), Slice::copy_from(&block));
    rig.store.end_pass(rig.now);
    rig.pump();
    rig.send(other, request.clone(), Slice::copy_from(&block));
    assert!(rig.told.is_empty(), "not before it is durable");
    rig.run();
    assert_eq!(
        rig.take(asker.link, request.id).unwrap().answer.result,
        Ok(AnswerBody::Done)
    );
    assert_eq!(rig.take(other, request.id).unwrap().answer.result, Ok(AnswerBody::Done));
    rig.send(other, request.clone(), Slice::copy_from(&block));
    assert_eq!(rig.take(other, request.id).unwrap().answer.result, Ok(AnswerBody::Done));
    // The same version with another length is another write.
    let longer = vec![1; 2 * BLOCK];
    let wrote = asker.write(&mut rig, 0, 0, &longer, version(1, 1), Version::NONE);
    assert_eq!(wrote, Err(Refusal::WrongPredecessor { current: version(1, 1) }));
    assert_eq!(rig.store.status().counters.writes, 1);
}

#[test]
fn a_read_waits_for_what_is_accepted_and_refuses_what_is_not_there() {
    let (mut rig, mut asker) = fenced();
    let block = vec![7; BLOCK];
    let write = asker.write_request(0, 0, &block, version(1, 1), Version::NONE);
    rig.send(asker.link, write, Slice::copy_from(&block));
    let early = asker.read_request(0, 0, 1, Version::NONE);
    rig.send(asker.link, early.clone(), Slice::default());
    let told = rig.take(asker.link, early.id).expect("what is not durable is not seen");
    assert!(told.payload.is_empty());
    let waits = asker.read_request(0, 0, 1, version(1, 1));
    rig.send(asker.link, waits.clone(), Slice::default());
    assert!(rig.take(asker.link, waits.id).is_none());
    let behind = asker.read_request(0, 0, 1, version(1, 2));
    rig.send(asker.link, behind.clone(), Slice::default());
    let told = rig.take(asker.link, behind.id).unwrap();
    assert_eq!(told.answer.result, Err(Refusal::Behind { current: version(1, 1) }));
    rig.run();
    assert_eq!(&rig.take(asker.link, waits.id).unwrap().payload[..], &block[..]);
}

#[test]
fn bad_requests_are_refused() {
    let (mut rig, mut asker) = fenced();
    let block = vec![7; BLOCK];
    let good = asker.write_request(0, 0, &block, version(1, 1), Version::NONE);
    let invalid = |what| Err(Refusal::Invalid { what });
    let mut ask = |rig: &mut Rig, change: &dyn Fn(&mut RequestBody), payload: &[u8]| {
        let mut request = good.clone();
        change(&mut request.body);
        asker.ask(rig, request, Slice::copy_from(payload)).answer.result
    };
    let told = ask(
        &mut rig,
        &|body| {
            if let RequestBody::Write { offset_bytes, .. } = body {
                *offset_bytes = u32::MAX
            }
        },
        &block,
    );
    assert_eq!(told, invalid(Problem::Range));
    let told = ask(
        &mut rig,
        &|body| {
            if let RequestBody::Write { length_bytes, .. } = body {
                *length_bytes = 0
            }
        },
        &block,
    );
    assert_eq!(told, invalid(Problem::Range));
    let told = ask(&mut rig, &|_| {}, &block[1..]);
    assert_eq!(told, invalid(Problem::Length));
    let told = ask(
        &mut rig,
        &|body| {
            if let RequestBody::Write { sums, .. } = body {
                sums.clear()
            }
        },
        &block,
    );
    assert_eq!(told, invalid(Problem::Length));
    let told = ask(&mut rig, &|_| {}, &[8; BLOCK]);
    assert_eq!(told, invalid(Problem::Checksum));
    let range = |first, count| {
        move |body: &mut RequestBody| {
            *body = RequestBody::Read {
                chunk: ChunkIndex(0),
                range: BlockRange::new(first, count),
                least: Version::NONE,
            };
        }
    };
    for (first, count) in [(0, 0), (0, 33), (1024, 1), (1000, 32), (65535, 65535)] {
        assert_eq!(ask(&mut rig, &range(first, count), &[]), invalid(Problem::Range));
    }
    let clear = |body: &mut RequestBody| {
        *body = RequestBody::Clear {
            chunk: ChunkIndex(0),
            range: BlockRange::new(1020, 5),
            version: version(1, 1),
            previous: Version::NONE,
        };
    };
    assert_eq!(ask(&mut rig, &clear, &[]), invalid(Problem::Range));
    let mut other = good.clone();
    other.store = StoreId(77);
    assert_eq!(
        asker.ask(&mut rig, other, Slice::default()).answer.result,
        Err(Refusal::NoSuchStore)
    );
    assert_eq!(ask_last(&mut rig, &mut asker, &block), Ok(AnswerBody::Done));
}

fn ask_last(rig: &mut Rig, asker: &mut Asker, block: &[u8]) -> Result<AnswerBody, Refusal> {
    asker.write(rig, 0, 0, block, version(1, 1), Version::NONE)
}

#[test]
fn a_newer_generation_waits_for_promises_and_drains() {
    let (mut rig, mut old) = fenced();
    rig.advance(Duration::from_secs(1));
    let block = vec![3; BLOCK];
    let request = old.write_request(0, 0, &block, version(1, 1), Version::NONE);
    let told = old.ask(&mut rig, request, Slice::copy_from(&block));
    assert_eq!(told.answer.promise_ms, 250);
    let promised_at = rig.now;

    let mut new = Asker::new(2);
    new.generation = Generation(2);
    let fence = new.fence_request();
    rig.send(new.link, fence.clone(), Slice::default());
    rig.run();
    assert!(rig.take(new.link, fence.id).is_none(), "the promise holds");
    // The old owner is served while the fence waits, without a promise; its last write is under way when it ends.
    let confirm = old.request(RequestBody::Confirm);
    let told = old.ask(&mut rig, confirm, Slice::default());
    assert_eq!(
        (told.answer.result, told.answer.promise_ms),
        (Ok(AnswerBody::Confirmed), 0)
    );
    let last = old.write_request(0, 0, &block, version(1, 2), version(1, 1));
    rig.send(old.link, last.clone(), Slice::copy_from(&block));
    rig.store.end_pass(rig.now);
    rig.pump();
    assert_eq!(rig.store.deadline(), Some(promised_at.plus(Duration::from_millis(250))));
    rig.advance(Duration::from_millis(251));
    assert!(
        rig.take(new.link, fence.id).is_none(),
        "a write of the old generation is not durable yet"
    );
    let refused = old.write_request(0, 0, &block, version(1, 3), version(1, 2));
    rig.send(old.link, refused.clone(), Slice::copy_from(&block));
    let told = rig.take(old.link, refused.id).unwrap();
    assert_eq!(
        told.answer.result,
        Err(Refusal::Fenced {
            generation: Generation(2)
        })
    );
    rig.run();
    assert_eq!(rig.take(old.link, last.id).unwrap().answer.result, Ok(AnswerBody::Done));
    let told = rig.take(new.link, fence.id).unwrap();
    assert_eq!(
        (told.answer.result, told.answer.promise_ms),
        (Ok(AnswerBody::Fenced), 250)
    );
    assert_eq!(new.open(&mut rig, 0), version(1, 2));
    assert_eq!(new.fence(&mut rig), Ok(AnswerBody::Fenced));
    assert_eq!(
        old.fence(&mut rig),
        Err(Refusal::Fenced {
            generation: Generation(2)
        })
    );

    // All of it survives.
    let mut again = rig.reopened(rig.disk.durable.clone());
    again.run();
    assert_eq!(
        old.fence(&mut again),
        Err(Refusal::Fenced {
            generation: Generation(2)
        })
    );
    let mut third = Asker::new(3);
    third.generation = Generation(3);
    let mounted = again.now;
    assert_eq!(third.fence(&mut again), Ok(AnswerBody::Fenced));
    assert!(
        again.now >= mounted.plus(Duration::from_millis(250)),
        "no newer generation right after a start"
    );
}

#[test]
fn epochs_and_members_are_checked() {
    let (mut rig, mut asker) = fenced();
    let block = vec![3; BLOCK];
    asker.epoch = Epoch(2);
    assert_eq!(
        asker.write(&mut rig, 0, 0, &block, version(1, 1), Version::NONE),
        Err(Refusal::NotFenced)
    );
    assert_eq!(asker.fence(&mut rig), Ok(AnswerBody::Fenced));
    assert_eq!(
        asker.write(&mut rig, 0, 0, &block, version(1, 1), Version::NONE),
        Ok(AnswerBody::Done)
    );
    asker.epoch = Epoch(1);
    let stale = Refusal::StaleEpoch { epoch: Epoch(2) };
    assert_eq!(
        asker.write(&mut rig, 0, 0, &block, version(1, 2), version(1, 1)),
        Err(stale.clone())
    );
    assert_eq!(asker.fence(&mut rig), Err(stale));
    asker.epoch = Epoch(3);
    let request = asker.request(RequestBody::Fence {
        syncing: Vec::new(),
        owner: NodeId(1),
        in_sync: vec![StoreId(5)],
        blocks_per_chunk: 1024,
        given_back: None,
    });
    let told = asker.ask(&mut rig, request, Slice::default());
    assert_eq!(told.answer.result, Err(Refusal::Invalid { what: Problem::Members }));
    asker.volume = VolumeId(1234);
    asker.epoch = Epoch(2);
    assert_eq!(
        asker.write(&mut rig, 0, 0, &block, version(1, 1), Version::NONE),
        Err(Refusal::NotFenced)
    );
}

#[test]
fn rotten_blocks_are_refused_and_never_get_a_fresh_checksum() {
    let (mut rig, mut asker) = fenced();
    let mut rng = Rng(3);
    let bytes = rng.bytes(4 * BLOCK);
    asker
        .write(&mut rig, 0, 0, &bytes, version(1, 1), Version::NONE)
        .unwrap();
    let at = find(&rig.disk.view, &bytes[BLOCK..2 * BLOCK]);
    rig.disk.view[at + 100] ^= 1;
    let damaged = Err(Refusal::Damaged { block: BlockIndex(1) });
    assert_eq!(asker.read(&mut rig, 0, 0, 4).map(|_| ()), damaged);
    assert!(asker.read(&mut rig, 0, 2, 2).is_ok());
    // A sub-block write is refused, and with it what was sent behind it; the chunk stays where it was.
    let half = asker.write_request(0, BLOCK as u32 + 10, &[9; 100], version(1, 2), version(1, 1));
    let behind = asker.write_request(0, 0, &bytes[..BLOCK], version(1, 3), version(1, 2));
    rig.send(asker.link, half.clone(), Slice::copy_from(&[9; 100]));
    rig.send(asker.link, behind.clone(), Slice::copy_from(&bytes[..BLOCK]));
    let waits = asker.read_request(0, 0, 1, version(1, 3));
    rig.send(asker.link, waits.clone(), Slice::default());
    rig.run();
    let refusal = |rig: &mut Rig, id| rig.take(LinkId(1), id).unwrap().answer.result.unwrap_err();
    assert_eq!(refusal(&mut rig, half.id), Refusal::Damaged { block: BlockIndex(1) });
    assert_eq!(
        refusal(&mut rig, behind.id),
        Refusal::WrongPredecessor { current: version(1, 1) }
    );
    assert_eq!(refusal(&mut rig, waits.id), Refusal::Behind { current: version(1, 1) });
    assert_eq!(asker.open(&mut rig, 0), version(1, 1));
    // A whole block heals it.
    asker
        .write(&mut rig, 0, BLOCK as u32, &bytes[..BLOCK], version(1, 2), version(1, 1))
        .unwrap();
    assert_eq!(asker.read(&mut rig, 0, 1, 1).unwrap().0, &bytes[..BLOCK]);
    assert!(rig.store.status().counters.damaged >= 2);
}

fn find(haystack: &[u8], needle: &[u8]) -> usize {
    haystack
        .chunks(BLOCK)
        .position(|block| block == needle)
        .expect("the block is on the disk")
        * BLOCK
}

#[test]
fn device_errors_poison_writes_and_flushes_but_not_reads() {
    let (mut rig, mut asker) = fenced();
    let bytes = Rng(4).bytes(BLOCK);
    asker
        .write(&mut rig, 0, 0, &bytes, version(1, 1), Version::NONE)
        .unwrap();
    let at = find(&rig.disk.view, &bytes) as u64;
    rig.broken = Some(at..at + 1);
    let damaged = Err(Refusal::Damaged { block: BlockIndex(0) });
    assert_eq!(asker.read(&mut rig, 0, 0, 1).map(|_| ()), damaged);
    assert_eq!(*rig.store.state(), State::Serving);
    // In a longer read the right block is named, and an error that goes away by itself harms nothing.
    let long = Rng(5).bytes(8 * BLOCK);
    asker
        .write(&mut rig, 1, 0, &long, version(1, 1), Version::NONE)
        .unwrap();
    let fifth = find(&rig.disk.view, &long[5 * BLOCK..6 * BLOCK]) as u64;
    rig.broken = Some(fifth + 512..fifth + 513);
    let damaged = Err(Refusal::Damaged { block: BlockIndex(5) });
    assert_eq!(asker.read(&mut rig, 1, 0, 8).map(|_| ()), damaged);
    let request = asker.read_request(1, 0, 8, Version::NONE);
    rig.send(asker.link, request.clone(), Slice::default());
    rig.complete(0);
    rig.broken = None;
    rig.run();
    assert_eq!(&rig.take(asker.link, request.id).unwrap().payload[..], &long[..]);

    let request = asker.write_request(0, BLOCK as u32, &bytes, version(1, 2), version(1, 1));
    rig.send(asker.link, request.clone(), Slice::copy_from(&bytes));
    rig.store.end_pass(rig.now);
    rig.pump();
    assert!(rig.flights.len() >= 2, "data and log are written in parallel");
    rig.complete_with(0, Err(std::io::Error::other("no more sectors")));
    assert!(matches!(rig.store.state(), State::Poisoned(why) if why.contains("no more sectors")));
    assert_eq!(
        rig.take(asker.link, request.id).unwrap().answer.result,
        Err(Refusal::Poisoned)
    );
    while !rig.flights.is_empty() {
        rig.complete(0);
    }
    assert_eq!(asker.read(&mut rig, 0, 0, 1).map(|_| ()), Err(Refusal::Poisoned));
}

#[test]
fn a_flush_that_fails_poisons() {
    let mut rig = Rig::fresh(2 * MIB, true);
    let mut asker = Asker::new(1);
    asker.fence(&mut rig).unwrap();
    let bytes = vec![1; BLOCK];
    let request = asker.write_request(0, 0, &bytes, version(1, 1), Version::NONE);
    rig.send(asker.link, request.clone(), Slice::copy_from(&bytes));
    rig.store.end_pass(rig.now);
    rig.pump();
    while !matches!(rig.flights[..], [Flight::Flush { .. }]) {
        assert!(
            rig.take(asker.link, request.id).is_none(),
            "nothing is answered before the flush"
        );
        rig.complete(0);
        rig.store.end_pass(rig.now);
        rig.pump();
    }
    rig.complete_with(0, Err(std::io::Error::other("cache on fire")));
    assert!(matches!(rig.store.state(), State::Poisoned(_)));
    assert_eq!(
        rig.take(asker.link, request.id).unwrap().answer.result,
        Err(Refusal::Poisoned)
    );
}

#[test]
fn one_pass_is_one_batch_of_two_writes() {
    let (mut rig, mut asker) = fenced();
    let before = rig.store.status().counters;
    for chunk in 0..32u64 {
        let bytes = vec![chunk as u8; BLOCK];
        let request = asker.write_request(chunk, 0, &bytes, version(1, 1), Version::NONE);
        rig.send(asker.link, request, Slice::copy_from(&bytes));
    }
    rig.store.end_pass(rig.now);
    rig.pump();
    assert_eq!(rig.flights.len(), 2, "32 blocks in a run, and one page of the log");
    rig.run();
    let after = rig.store.status().counters;
    assert_eq!(after.log_pages - before.log_pages, 1);
    let written = after.device_bytes_written - before.device_bytes_written;
    assert!(
        written as f64 <= 1.15 * 32.0 * BLOCK as f64,
        "{written} bytes for 32 blocks"
    );
}

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
        let request = asker.request(RequestBody::Roll {
            chunk: ChunkIndex(0),
            version: version(1, 60),
            previous: version(1, 1),
            entries,
            first,
            last,
        });
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
    let mut asker = Asker::new(2);
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
        let request = asker.request(RequestBody::Changes {
            chunk: ChunkIndex(0),
            since: version(1, 4),
            from: BlockIndex(0),
        });
        let told = asker.ask(rig, request, Slice::default());
        let Ok(AnswerBody::Changes { entries, more }) = told.answer.result else {
            panic!("{told:?}")
        };
        assert_eq!((entries.len(), more), (32, Some(BlockIndex(35))));
        assert_eq!(entries[0], change(3));
        assert_eq!(entries[1], change(4));
        let request = asker.request(RequestBody::Allocation {
            chunk: ChunkIndex(0),
            least: Version::NONE,
        });
        let told = asker.ask(rig, request, Slice::default());
        let Ok(AnswerBody::Allocation { allocated }) = told.answer.result else {
            panic!("{told:?}")
        };
        assert_eq!(allocated[0], ((1 << 40) - 1) & !(1 << 3));
    }
}

#[test]
fn a_full_store_refuses_serves_and_recovers() {
    let mut rig = Rig::fresh(2 * MIB, false);
    let mut asker = Asker::new(1);
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
    let clear = asker.request(RequestBody::Clear {
        chunk: ChunkIndex(0),
        range: BlockRange::new(0, 200),
        version: version(1, counter + 1),
        previous: version(1, counter),
    });
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
    let mut asker = Asker::new(1);
    asker.fence(&mut rig).unwrap();
    let clear = |asker: &mut Asker, chunk: u64| {
        asker.request(RequestBody::Clear {
            chunk: ChunkIndex(chunk),
            range: BlockRange::new(0, 1024),
            version: version(1, 1),
            previous: Version::NONE,
        })
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

fn version_or_none(counter: u64) -> Version {
    if counter == 0 {
        Version::NONE
    } else {
        version(1, counter)
    }
}

#[test]
fn credits_are_granted_used_and_returned() {
    let mut rig = Rig::fresh(16 * MIB, false);
    let mut asker = Asker::new(1);
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
    let mut other = Asker::new(2);
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
        let mut asker = Asker::new(link);
        let request = asker.fence_request();
        let granted = asker.ask(&mut rig, request, Slice::default()).answer.credit_blocks;
        let first = *first.get_or_insert(granted);
        assert!(granted >= first / 2, "link {link}: {granted} blocks of {first}");
        rig.store.link_closed(rig.now, asker.link);
    }
    let lingering = rig.store.status().credits_granted;
    assert!(lingering > 0, "it is kept for what may be in flight");
}

/// A fence whose link has closed is adopted, and nobody is granted anything for it.
#[test]
fn a_fence_that_outlives_its_link_is_granted_nothing() {
    for waits in [false, true] {
        let mut rig = Rig::fresh(4 << 20, true);
        let mut asker = Asker::new(1);
        if waits {
            // Its owner has a promise.
            let mut old = Asker::new(3);
            assert_eq!(old.fence(&mut rig), Ok(AnswerBody::Fenced));
            assert_eq!(old.open(&mut rig, 0), Version::NONE);
            asker.generation = Generation(2);
        }
        let fence = asker.fence_request();
        rig.send(asker.link, fence.clone(), Slice::default());
        rig.store.end_pass(rig.now);
        rig.pump();
        assert_eq!(rig.flights.is_empty(), waits, "it waits, or is being logged");
        rig.store.link_closed(rig.now, asker.link);
        rig.advance(Duration::from_secs(20));
        rig.run();
        rig.advance(Duration::from_secs(20));
        assert_eq!(rig.store.known_volumes()[0].generation, asker.generation);
        let mut again = Asker::new(2);
        again.generation = asker.generation;
        let fence = again.fence_request();
        let told = again.ask(&mut rig, fence, Slice::default());
        let granted = u64::from(told.answer.credit_blocks);
        assert!(granted > 0);
        assert_eq!(rig.store.status().credits_granted, granted);
    }
}

#[test]
fn a_resend_that_comes_to_nothing_is_refunded() {
    let (mut rig, mut old) = fenced();
    let bytes = vec![5; BLOCK];
    old.write(&mut rig, 0, 0, &bytes, version(1, 1), Version::NONE).unwrap();
    let at = find(&rig.disk.view, &bytes);
    rig.disk.view[at + 100] ^= 1;
    let mut new = Asker::new(2);
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

/// The first part of a roll-forward of this chunk.
fn first_part(asker: &mut Asker, chunk: u64) -> amita_types::message::Request {
    asker.request(RequestBody::Roll {
        chunk: ChunkIndex(chunk),
        version: version(1, 1),
        previous: Version::NONE,
        entries: Vec::new(),
        first: true,
        last: false,
    })
}

/// The first parts of sixteen roll-forwards take all places; the asker comes by another link.
fn places_taken() -> (Rig, Asker) {
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
    if let RequestBody::Roll { last, .. } = &mut whole.body {
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
fn the_log_never_fills() {
    let mut rig = Rig::fresh(2 * MIB, false);
    let mut asker = Asker::new(1);
    asker.fence(&mut rig).unwrap();
    let bytes = vec![6; BLOCK];
    for n in 0..1000 {
        let wrote = asker.write(
            &mut rig,
            n % 3,
            0,
            &bytes,
            version(1, n / 3 + 1),
            version_or_none(n / 3),
        );
        assert_eq!(wrote, Ok(AnswerBody::Done), "write {n}");
    }
    let status = rig.store.status();
    assert!(status.counters.checkpoints > 10 && status.log_pages == 64, "{status:?}");
    let mut again = rig.reopened(rig.disk.durable.clone());
    again.run();
    assert!(again.store.status().mount.records_replayed < 64);
    asker.fence(&mut again).unwrap();
    assert_eq!(asker.open(&mut again, 0), version(1, 334));
}

#[test]
fn an_idle_store_says_how_far_its_log_is_verified() {
    let (mut rig, mut asker) = fenced();
    asker
        .write(&mut rig, 0, 0, &[6; BLOCK], version(1, 1), Version::NONE)
        .unwrap();
    let image = rig.disk.durable.clone();
    let mut early = rig.reopened(image);
    early.run();
    assert!(early.store.status().mount.records_verified > 0);
    let at = rig.store.deadline().expect("a mark is to be written");
    rig.now = at;
    rig.run();
    assert_eq!(rig.store.status().counters.mark_pages, 1);
    assert_eq!(rig.store.deadline(), None, "an idle store sleeps");
    let mut late = rig.reopened(rig.disk.durable.clone());
    late.run();
    assert_eq!(late.store.status().mount.records_verified, 0);
    assert!(late.store.status().mount.records_replayed > 0);
}

#[test]
fn a_cluster_is_joined_once() {
    let mut nil = params(2 * MIB);
    nil.cluster = amita_types::ClusterId(0);
    let config = Config {
        cluster: Some(common::CLUSTER),
        ..Config::default()
    };
    let mut rig = Rig::open(Disk::new(image(&nil), false), config, Time(1), 1, Pool::heap());
    rig.run();
    assert_eq!(rig.store.status().cluster, common::CLUSTER);
    let mut again = rig.reopened(rig.disk.durable.clone());
    again.run();
    assert_eq!(again.store.status().cluster, common::CLUSTER);
}

#[test]
fn too_much_at_once_is_busy() {
    let disk = Disk::new(image(&params(4 * MIB)), false);
    let config = Config {
        max_requests: 4,
        ..Config::default()
    };
    let mut rig = Rig::open(disk, config, Time(1), 1, Pool::heap());
    rig.run();
    let mut asker = Asker::new(1);
    asker.fence(&mut rig).unwrap();
    let bytes = vec![1; BLOCK];
    let mut ids: Vec<RequestId> = Vec::new();
    for n in 0..6 {
        let request = asker.write_request(n, 0, &bytes, version(1, 1), Version::NONE);
        ids.push(request.id);
        rig.send(asker.link, request, Slice::copy_from(&bytes));
    }
    rig.run();
    let results: Vec<bool> = ids
        .iter()
        .map(|&id| rig.take(asker.link, id).unwrap().answer.result.is_ok())
        .collect();
    assert_eq!(results, [true, true, true, true, false, false]);
}

#[test]
fn payload_is_copied_only_for_a_device_that_wants_it_aligned() {
    for (alignment, expected) in [(1, 0), (4096, 3)] {
        let disk = Disk::new(image(&params(4 * MIB)), false);
        let mut rig = Rig::open(disk, Config::default(), Time(1), alignment, Pool::heap());
        rig.run();
        let mut asker = Asker::new(1);
        asker.fence(&mut rig).unwrap();
        let bytes = Rng(9).bytes(3 * BLOCK);
        let request = asker.write_request(0, 0, &bytes, version(1, 1), Version::NONE);
        let mut shifted = vec![0; 8];
        shifted.extend_from_slice(&bytes);
        let payload = Slice::copy_from(&shifted).slice(8..);
        asker.ask(&mut rig, request, payload).answer.result.unwrap();
        assert_eq!(rig.store.status().counters.copied_blocks, expected);
        assert_eq!(asker.read(&mut rig, 0, 0, 3).unwrap().0, bytes);
    }
}

#[test]
fn a_full_log_pauses_writes_and_nothing_else() {
    let mut rig = Rig::fresh(MIB, false);
    let mut asker = Asker::new(1);
    asker.fence(&mut rig).unwrap();
    let geometry = amita_store::format::Geometry::divide(MIB, None).unwrap();
    let bytes = vec![6; BLOCK];
    let mut sent = Vec::new();
    // The checkpoint's writes do not end.
    let stuck = |flight: &Flight| match flight {
        Flight::Write { offset, .. } => (geometry.checkpoint_offsets[0]..geometry.slots_offset).contains(offset),
        _ => false,
    };
    for n in 0..100 {
        let request = asker.write_request(0, 0, &bytes, version(1, n + 1), version_or_none(n));
        sent.push(request.id);
        rig.send(asker.link, request, Slice::copy_from(&bytes));
        rig.store.end_pass(rig.now);
        rig.pump();
        while let Some(at) = rig.flights.iter().position(|flight| !stuck(flight)) {
            rig.complete(at);
            rig.store.end_pass(rig.now);
            rig.pump();
        }
    }
    let status = rig.store.status();
    assert_eq!((status.log_pages_used, status.log_pages), (64, 64), "the log is full");
    assert!(status.counters.log_waits > 0);
    let done: Vec<bool> = sent
        .iter()
        .map(|&id| rig.told.iter().any(|told| told.answer.id == id))
        .collect();
    let first_waiting = done.iter().position(|done| !done).expect("some wait");
    assert!(first_waiting > 50 && done[first_waiting..].iter().all(|done| !done));
    let read = asker.read_request(0, 0, 1, Version::NONE);
    rig.send(asker.link, read.clone(), Slice::default());
    let at = rig
        .flights
        .iter()
        .position(|flight| matches!(flight, Flight::Read { .. }))
        .unwrap();
    rig.complete(at);
    assert!(rig.take(asker.link, read.id).unwrap().answer.result.is_ok());
    // A crash in this moment loses nothing.
    let mut again = rig.reopened(rig.disk.durable.clone());
    again.run();
    assert_eq!(*again.store.state(), State::Serving);
    let mut other = Asker::new(5);
    other.fence(&mut again).unwrap();
    assert_eq!(other.open(&mut again, 0), version(1, first_waiting as u64));
    assert_eq!(again.store.status().counters.checkpoints, 1);
    rig.run();
    for id in sent {
        assert_eq!(rig.take(asker.link, id).unwrap().answer.result, Ok(AnswerBody::Done));
    }
}

#[test]
fn parts_of_a_roll_forward_by_an_older_link_do_not_spoil_the_present_one() {
    let (mut rig, asker) = fenced();
    let mut rng = Rng(6);
    let blocks: Vec<Vec<u8>> = (0..4).map(|_| rng.bytes(BLOCK)).collect();
    let part = |rig: &mut Rig, asker: &mut Asker, range: std::ops::Range<u16>, first, last| {
        let entries = range.clone().map(|block| Change {
            block: BlockIndex(block),
            version: version(1, 2 + u64::from(block)),
            sum: Some(amita_types::crc32c(&blocks[usize::from(block)])),
        });
        let payload: Vec<u8> = range
            .clone()
            .flat_map(|block| blocks[usize::from(block)].clone())
            .collect();
        let request = asker.request(RequestBody::Roll {
            chunk: ChunkIndex(0),
            version: version(1, 9),
            previous: Version::NONE,
            entries: entries.collect(),
            first,
            last,
        });
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

#[test]
fn a_takeover_is_let_in_however_much_others_ask_for() {
    let disk = Disk::new(image(&params(4 * MIB)), false);
    let config = Config {
        max_requests: 4,
        ..Config::default()
    };
    let mut rig = Rig::open(disk, config, Time(1), 1, Pool::heap());
    rig.run();
    let mut owner = Asker::new(1);
    owner.fence(&mut rig).unwrap();
    let bytes = vec![1; BLOCK];
    let mut previous = Version::NONE;
    for counter in 1..=5 {
        let request = owner.write_request(0, 0, &bytes, version(1, counter), previous);
        let (link, id) = (owner.link, request.id);
        rig.send(link, request, Slice::copy_from(&bytes));
        previous = version(1, counter);
        let told = rig.take(link, id).map(|told| told.answer.result);
        assert_eq!(told, (counter == 5).then_some(Err(Refusal::Busy)));
    }
    let mut next = Asker::new(2);
    next.generation = Generation(2);
    let request = next.fence_request();
    let (link, id) = (next.link, request.id);
    rig.send(link, request, Slice::default());
    assert!(
        rig.take(link, id).is_none(),
        "it waits for the promises, and not for room"
    );
    rig.run();
    rig.advance(Duration::from_millis(300));
    rig.run();
    assert_eq!(rig.take(link, id).unwrap().answer.result, Ok(AnswerBody::Fenced));
}
