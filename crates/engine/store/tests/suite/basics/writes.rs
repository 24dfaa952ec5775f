//! Writes, reads, and what is refused of them.

use super::{MIB, fenced, find};
use crate::common::{BLOCK, Disk, Requester, Rig, Rng, image, params, version};
use amita_reactor::{Pool, Slice, Time};
use amita_store::{Config, LinkId, State};
use amita_types::message::{AnswerBody, ClearRequest, Problem, ReadRequest, Refusal, RequestBody, WriteRequest};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, StoreId, Version};

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
            if let RequestBody::Write(WriteRequest { offset_bytes, .. }) = body {
                *offset_bytes = u32::MAX
            }
        },
        &block,
    );
    assert_eq!(told, invalid(Problem::Range));
    let told = ask(
        &mut rig,
        &|body| {
            if let RequestBody::Write(WriteRequest { length_bytes, .. }) = body {
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
            if let RequestBody::Write(WriteRequest { sums, .. }) = body {
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
            *body = RequestBody::Read(ReadRequest {
                chunk: ChunkIndex(0),
                range: BlockRange::new(first, count),
                least: Version::NONE,
                versions: false,
                newest: None,
            });
        }
    };
    for (first, count) in [(0, 0), (0, 33), (1024, 1), (1000, 32), (65535, 65535)] {
        assert_eq!(ask(&mut rig, &range(first, count), &[]), invalid(Problem::Range));
    }
    let clear = |body: &mut RequestBody| {
        *body = RequestBody::Clear(ClearRequest {
            chunk: ChunkIndex(0),
            range: BlockRange::new(1020, 5),
            version: version(1, 1),
            previous: Version::NONE,
        });
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

fn ask_last(rig: &mut Rig, asker: &mut Requester, block: &[u8]) -> Result<AnswerBody, Refusal> {
    asker.write(rig, 0, 0, block, version(1, 1), Version::NONE)
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

#[test]
fn payload_is_copied_only_for_a_device_that_wants_it_aligned() {
    for (alignment, expected) in [(1, 0), (4096, 3)] {
        let disk = Disk::new(image(&params(4 * MIB)), false);
        let mut rig = Rig::open(disk, Config::default(), Time(1), alignment, Pool::heap());
        rig.run();
        let mut asker = Requester::new(1);
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

/// Whoever asks is told which version each block has, and of one without data none (S15).
#[test]
fn versions_are_told_as_runs() {
    let (mut rig, mut asker) = fenced();
    let block = |byte| vec![byte; BLOCK];
    let at = |block: usize| (block * BLOCK) as u32;
    let done = Ok(AnswerBody::Done);
    let wrote = asker.write(
        &mut rig,
        0,
        at(1),
        &[block(1), block(1)].concat(),
        version(1, 1),
        Version::NONE,
    );
    assert_eq!(wrote, done);
    // As large as the text, and zeros: data all the same.
    assert_eq!(
        asker.write(&mut rig, 0, at(3), &block(0), version(1, 2), version(1, 1)),
        done
    );
    let clear = RequestBody::Clear(ClearRequest {
        chunk: ChunkIndex(0),
        range: BlockRange::new(2, 1),
        version: version(1, 3),
        previous: version(1, 2),
    });
    let request = asker.request(clear);
    assert_eq!(asker.ask(&mut rig, request, Slice::default()).answer.result, done);
    let mut ask = |first, count, versions| {
        let read = RequestBody::Read(ReadRequest {
            chunk: ChunkIndex(0),
            range: BlockRange::new(first, count),
            least: version(1, 3),
            versions,
            newest: None,
        });
        let request = asker.request(read);
        let Ok(AnswerBody::Data(data)) = asker.ask(&mut rig, request, Slice::default()).answer.result else {
            panic!("it is there")
        };
        let runs: Vec<(u16, Version)> = data.runs.iter().map(|run| (run.blocks, run.version)).collect();
        (data.version, runs)
    };
    let none = Version::NONE;
    let all = vec![(1, none), (1, version(1, 1)), (1, none), (1, version(1, 2)), (4, none)];
    assert_eq!(ask(0, 8, true), (version(1, 3), all));
    assert_eq!(ask(1, 1, true), (version(1, 1), vec![(1, version(1, 1))]));
    // Nothing of it is there: nothing travels.
    assert_eq!(ask(4, 4, true), (none, Vec::new()));
    assert_eq!(ask(0, 8, false), (version(1, 3), Vec::new()), "nobody has asked");
}
