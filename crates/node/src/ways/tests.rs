use super::{PATIENCE, Pending, State, Ways, Work};
use crate::mail::Origin;
use amita_cluster::{NodeId, TraceId, VolumeId};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_uss::{FrontId, HostKey};
use amita_volume::Op;
use std::time::Duration;

const VOLUME: VolumeId = VolumeId(3);
const OWNER: NodeId = NodeId(2);

fn pending(tag: u64, op: Op, since: Time) -> Pending {
    Pending {
        origin: Origin {
            core: 0,
            front: FrontId(1),
            tag,
            arrived: since,
            parsed: since,
            trace: TraceId::NONE,
            host: HostKey(9),
            generation: amita_cluster::Generation(0),
        },
        work: Work::Io(op),
        payload: Slice::default(),
        since,
    }
}

fn write(tag: u64) -> Pending {
    pending(tag, Op::Write { offset: 0, length: 1 }, Time(0))
}

fn compare(tag: u64) -> Pending {
    pending(tag, Op::CompareAndWrite { offset: 0, length: 1 }, Time(0))
}

fn tags(ways: &mut Ways) -> Vec<u64> {
    std::iter::from_fn(|| ways.next_pending(VOLUME))
        .map(|pending| pending.origin.tag)
        .collect()
}

#[test]
fn what_an_owner_may_never_answer_is_sent_again_in_order() {
    let mut ways = Ways::new(0x77 << 40);
    for tag in 1..=4 {
        ways.push(VOLUME, write(tag));
    }
    ways.set(VOLUME, State::There(OWNER));
    let first = ways.next_tag();
    for _ in 0..3 {
        ways.sent(VOLUME, OWNER);
    }
    assert_ne!(ways.next_tag(), first);
    assert_eq!(ways.counts(), (3, 1));
    let (volume, answered) = ways.answered(first).expect("it was asked");
    assert_eq!((volume, answered.origin.tag), (VOLUME, 1));
    ways.take_back(OWNER, None);
    assert!(ways.answered(first + 1).is_none(), "a late answer finds nothing");
    assert_eq!(tags(&mut ways), [2, 3, 4]);
    assert!(!ways.is_stalled());
}

#[test]
fn a_compare_and_write_is_not_done_twice() {
    let mut ways = Ways::new(0);
    ways.push(VOLUME, compare(1));
    ways.push(VOLUME, write(2));
    ways.sent(VOLUME, OWNER);
    ways.sent(VOLUME, OWNER);
    ways.take_back(OWNER, None);
    let given_up = ways.take_given_up(Time(1));
    assert_eq!(given_up.len(), 1);
    assert!(given_up[0].1 && given_up[0].0.origin.tag == 1, "its outcome is unknown");
    assert_eq!(tags(&mut ways), [2]);
}

#[test]
fn waits_no_longer_than_its_patience() {
    let mut ways = Ways::new(0);
    ways.push(VOLUME, write(1));
    let late = Time(Duration::from_secs(1).as_nanos() as u64);
    ways.push(VOLUME, pending(2, Op::Read { offset: 0, length: 1 }, late));
    assert_eq!(ways.deadline(), Some(Time(0).plus(PATIENCE)));
    assert!(ways.take_given_up(Time(PATIENCE.as_nanos() as u64 - 1)).is_empty());
    let ended = ways.take_given_up(Time(PATIENCE.as_nanos() as u64));
    assert_eq!((ended.len(), ended[0].1), (1, false), "nothing was carried out");
    assert_eq!(tags(&mut ways), [2]);
}

#[test]
fn pauses_before_it_asks_again() {
    let mut ways = Ways::new(0);
    ways.push(VOLUME, write(1));
    ways.pause(Time(0), VOLUME);
    let State::Pausing(until) = ways.state(VOLUME) else {
        panic!("it pauses")
    };
    assert_eq!(ways.deadline(), Some(until));
}
