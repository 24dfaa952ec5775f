//! Tests of who may do what.

use super::*;
use amita_types::{GroupIndex, PoolId, SnapshotId};

const VOLUME: VolumeId = VolumeId(4);
const OWN: StoreId = StoreId(5);
const LEASE: Duration = Duration::from_millis(250);

fn group() -> GroupId {
    GroupId {
        pool: PoolId(1),
        index: GroupIndex(2),
    }
}

fn fence(generation: u32, epoch: u64) -> Fence {
    Fence {
        volume: VOLUME,
        generation: Generation(generation),
        owner: NodeId(generation),
        group: group(),
        epoch: Epoch(epoch),
        blocks_per_chunk: 256,
        in_sync: [OWN].into_iter().collect(),
        syncing: MemberSet::new(),
    }
}

fn scope(generation: u32, epoch: u64) -> Scope {
    Scope {
        volume: VOLUME,
        generation: Generation(generation),
        group: group(),
        epoch: Epoch(epoch),
        snapshot: SnapshotId::HEAD,
    }
}

fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn adopted() -> Fences {
    let mut fences = Fences::default();
    fences.set_own(OWN);
    assert_eq!(fences.check(&scope(1, 1)), Err(Refusal::NotFenced));
    assert_eq!(fences.judge(&fence(1, 1), None, at(0), true), Verdict::Log);
    fences.adopt(&fence(1, 1));
    fences
}

#[test]
fn requests_need_exactly_what_was_adopted() {
    let fences = adopted();
    let right = Right {
        volume: VolumeKey(0),
        blocks: 256,
        serves: true,
    };
    assert_eq!(fences.check(&scope(1, 1)), Ok(right));
    assert_eq!(fences.check(&scope(2, 1)), Err(Refusal::NotFenced));
    assert_eq!(fences.check(&scope(1, 2)), Err(Refusal::NotFenced));
    assert_eq!(fences.check(&scope(1, 0)), Err(Refusal::StaleEpoch { epoch: Epoch(1) }));
    let generation = Generation(1);
    assert_eq!(fences.check(&scope(0, 1)), Err(Refusal::Fenced { generation }));
    let mut other = scope(1, 1);
    other.group.index = GroupIndex(3);
    assert_eq!(fences.check(&other), Err(Refusal::NotFenced));
}

#[test]
fn a_lease_holds_back_newer_generations() {
    let mut fences = adopted();
    assert_eq!(fences.lease(VolumeKey(0), Generation(1), at(100), LEASE), 250);
    assert_eq!(fences.judge(&fence(2, 1), None, at(200), true), Verdict::Wait(at(350)));
    assert_eq!(
        fences.judge(&fence(2, 1), None, at(200), false),
        Verdict::Log,
        "rule R4 switched off"
    );
    let mut fences = adopted();
    fences.lease(VolumeKey(0), Generation(1), at(100), LEASE);
    fences.volume_mut(VolumeKey(0)).newer_waiting = 1;
    assert_eq!(fences.lease(VolumeKey(0), Generation(1), at(300), LEASE), 0);
    assert_eq!(fences.judge(&fence(2, 1), None, at(350), true), Verdict::Log);
    assert_eq!(fences.lease(VolumeKey(0), Generation(1), at(350), LEASE), 0);
    fences.adopt(&fence(2, 1));
    fences.volume_mut(VolumeKey(0)).newer_waiting = 0;
    assert_eq!(fences.lease(VolumeKey(0), Generation(2), at(360), LEASE), 250);
    assert_eq!(
        fences.lease(VolumeKey(0), Generation(1), at(360), LEASE),
        0,
        "no lease for a deposed owner"
    );
}

#[test]
fn a_lease_that_was_given_back_holds_nobody_back() {
    let mut fences = adopted();
    fences.lease(VolumeKey(0), Generation(1), at(100), LEASE);
    // Another generation's owner has handed the volume over: this store never met it, and the first may still read.
    let other = Some(Generation(2));
    assert_eq!(fences.judge(&fence(3, 1), other, at(110), true), Verdict::Wait(at(350)));
    let ended = Some(Generation(1));
    assert_eq!(fences.judge(&fence(3, 1), ended, at(110), true), Verdict::Log);
    assert_eq!(
        fences.lease(VolumeKey(0), Generation(1), at(120), LEASE),
        0,
        "whoever has ended is granted no lease any more"
    );
    // The generation outlives a restart, and so does what it says about leases.
    let mut fences = adopted();
    fences.not_before(at(250));
    assert_eq!(fences.judge(&fence(3, 1), other, at(10), true), Verdict::Wait(at(250)));
    assert_eq!(fences.judge(&fence(3, 1), ended, at(10), true), Verdict::Log);
}

#[test]
fn after_a_start_leases_of_before_may_hold() {
    let mut fences = adopted();
    fences.not_before(at(250));
    assert_eq!(fences.judge(&fence(2, 1), None, at(10), true), Verdict::Wait(at(250)));
    assert_eq!(fences.judge(&fence(1, 1), None, at(10), true), Verdict::Equal);
    assert_eq!(
        fences.judge(&fence(1, 2), None, at(10), true),
        Verdict::Log,
        "the same owner"
    );
    let mut unknown = fence(7, 2);
    unknown.volume = VolumeId(99);
    assert_eq!(fences.judge(&unknown, None, at(10), true), Verdict::Log);
}

#[test]
fn older_writes_drain_while_their_generation_is_refused() {
    let mut fences = adopted();
    fences.volume_mut(VolumeKey(0)).unlogged = 1;
    assert_eq!(fences.judge(&fence(2, 1), None, at(0), true), Verdict::Drain);
    let generation = Generation(2);
    assert_eq!(fences.check(&scope(1, 1)), Err(Refusal::Fenced { generation }));
    assert_eq!(fences.check(&scope(2, 1)), Err(Refusal::NotFenced));
    fences.volume_mut(VolumeKey(0)).unlogged = 0;
    assert_eq!(fences.judge(&fence(2, 1), None, at(0), true), Verdict::Log);
    fences.adopt(&fence(2, 1));
    assert!(fences.check(&scope(2, 1)).is_ok());
    assert_eq!(
        fences.judge(&fence(1, 1), None, at(0), true),
        Verdict::Refuse(Refusal::Fenced { generation })
    );
}

#[test]
fn what_is_older_is_never_adopted() {
    let mut fences = adopted();
    fences.adopt(&fence(5, 7));
    fences.adopt(&fence(3, 4));
    let (volume, group) = (&fences.volumes()[0], &fences.groups()[0]);
    assert_eq!(
        (volume.generation, volume.owner, group.epoch),
        (Generation(5), NodeId(5), Epoch(7))
    );
    let stale = Verdict::Refuse(Refusal::StaleEpoch { epoch: Epoch(7) });
    assert_eq!(fences.judge(&fence(9, 6), None, at(0), true), stale);
}
