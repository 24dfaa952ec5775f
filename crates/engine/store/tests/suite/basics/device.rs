//! What goes to the device, and what it fails.

use super::{MIB, fenced, find, version_or_none};
use crate::common::{BLOCK, Disk, Flight, Requester, Rig, Rng, image, params, version};
use amita_reactor::{Pool, Slice, Time};
use amita_store::{Config, State};
use amita_types::message::{AnswerBody, Refusal};
use amita_types::{BlockIndex, RequestId, Version};

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
    let mut asker = Requester::new(1);
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
fn the_log_never_fills() {
    let mut rig = Rig::fresh(2 * MIB, false);
    let mut asker = Requester::new(1);
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
fn too_much_at_once_is_busy() {
    let disk = Disk::new(image(&params(4 * MIB)), false);
    let config = Config {
        max_requests: 4,
        ..Config::default()
    };
    let mut rig = Rig::open(disk, config, Time(1), 1, Pool::heap());
    rig.run();
    let mut asker = Requester::new(1);
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
fn a_full_log_pauses_writes_and_nothing_else() {
    let mut rig = Rig::fresh(MIB, false);
    let mut asker = Requester::new(1);
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
    let mut other = Requester::new(5);
    other.fence(&mut again).unwrap();
    assert_eq!(other.open(&mut again, 0), version(1, first_waiting as u64));
    assert_eq!(again.store.status().counters.checkpoints, 1);
    rig.run();
    for id in sent {
        assert_eq!(rig.take(asker.link, id).unwrap().answer.result, Ok(AnswerBody::Done));
    }
}
