//! Who is let in, and when.

use super::{MIB, fenced};
use crate::common::{BLOCK, CLUSTER, Disk, Requester, Rig, image, params, version};
use amita_reactor::{Pool, Slice, Time};
use amita_store::Config;
use amita_types::message::{AnswerBody, FenceRequest, Problem, Refusal, RequestBody};
use amita_types::{Epoch, Generation, NodeId, StoreId, Version, VolumeId};
use std::time::Duration;

#[test]
fn a_newer_generation_waits_for_leases_and_drains() {
    let (mut rig, mut old) = fenced();
    rig.advance(Duration::from_secs(1));
    let block = vec![3; BLOCK];
    let request = old.write_request(0, 0, &block, version(1, 1), Version::NONE);
    let told = old.ask(&mut rig, request, Slice::copy_from(&block));
    assert_eq!(told.answer.lease_ms, 250);
    let leased_at = rig.now;

    let mut new = Requester::new(2);
    new.generation = Generation(2);
    let fence = new.fence_request();
    rig.send(new.link, fence.clone(), Slice::default());
    rig.run();
    assert!(rig.take(new.link, fence.id).is_none(), "the lease holds");
    // The old owner is served while the fence waits, without a lease; its last write is under way when it ends.
    let renewal = old.request(RequestBody::RenewLease);
    let told = old.ask(&mut rig, renewal, Slice::default());
    assert_eq!(
        (told.answer.result, told.answer.lease_ms),
        (Ok(AnswerBody::LeaseRenewed), 0)
    );
    let last = old.write_request(0, 0, &block, version(1, 2), version(1, 1));
    rig.send(old.link, last.clone(), Slice::copy_from(&block));
    rig.store.end_pass(rig.now);
    rig.pump();
    assert_eq!(rig.store.deadline(), Some(leased_at.plus(Duration::from_millis(250))));
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
        (told.answer.result, told.answer.lease_ms),
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
    let mut third = Requester::new(3);
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
    let request = asker.request(RequestBody::Fence(FenceRequest {
        syncing: Vec::new(),
        owner: NodeId(1),
        in_sync: vec![StoreId(5)],
        blocks_per_chunk: 1024,
        given_back: None,
    }));
    let told = asker.ask(&mut rig, request, Slice::default());
    assert_eq!(told.answer.result, Err(Refusal::Invalid { what: Problem::Members }));
    asker.volume = VolumeId(1234);
    asker.epoch = Epoch(2);
    assert_eq!(
        asker.write(&mut rig, 0, 0, &block, version(1, 1), Version::NONE),
        Err(Refusal::NotFenced)
    );
}

/// A fence whose link has closed is adopted, and nobody is granted anything for it.
#[test]
fn a_fence_that_outlives_its_link_is_granted_nothing() {
    for waits in [false, true] {
        let mut rig = Rig::fresh(4 << 20, true);
        let mut asker = Requester::new(1);
        if waits {
            // Its owner has a lease.
            let mut old = Requester::new(3);
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
        let mut again = Requester::new(2);
        again.generation = asker.generation;
        let fence = again.fence_request();
        let told = again.ask(&mut rig, fence, Slice::default());
        let granted = u64::from(told.answer.credit_blocks);
        assert!(granted > 0);
        assert_eq!(rig.store.status().credits_granted, granted);
    }
}

#[test]
fn a_cluster_is_joined_once() {
    let mut nil = params(2 * MIB);
    nil.cluster = amita_types::ClusterId(0);
    let config = Config {
        cluster: Some(CLUSTER),
        ..Config::default()
    };
    let mut rig = Rig::open(Disk::new(image(&nil), false), config, Time(1), 1, Pool::heap());
    rig.run();
    assert_eq!(rig.store.status().cluster, CLUSTER);
    let mut again = rig.reopened(rig.disk.durable.clone());
    again.run();
    assert_eq!(again.store.status().cluster, CLUSTER);
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
    let mut owner = Requester::new(1);
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
    let mut next = Requester::new(2);
    next.generation = Generation(2);
    let request = next.fence_request();
    let (link, id) = (next.link, request.id);
    rig.send(link, request, Slice::default());
    assert!(
        rig.take(link, id).is_none(),
        "it waits for the leases, and not for room"
    );
    rig.run();
    rig.advance(Duration::from_millis(300));
    rig.run();
    assert_eq!(rig.take(link, id).unwrap().answer.result, Ok(AnswerBody::Fenced));
}
