use super::{Forwarder, PATIENCE, Pending, State, Work};
use crate::mail::Origin;
use amita_fabric::Link;
use amita_frontend::{FrontId, HostKey};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::Op;
use amita_types::{Generation, NodeId, TraceId, VolumeId};
use std::time::Duration;

const VOLUME: VolumeId = VolumeId(3);
const OWNER: NodeId = NodeId(2);
const GENERATION: Generation = Generation(5);

fn pending(tag: u64, op: Op, since: Time) -> Pending {
    Pending {
        origin: Origin {
            core: 0,
            front: FrontId(1),
            tag,
            arrived: since,
            parsed: since,
            kept: since,
            trace: TraceId::NONE,
            host: HostKey(9),
            generation: amita_types::Generation(0),
            snapshot: amita_types::SnapshotId::HEAD,
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

fn tags(forwarder: &mut Forwarder) -> Vec<u64> {
    std::iter::from_fn(|| forwarder.next_pending(VOLUME))
        .map(|pending| pending.origin.tag)
        .collect()
}

#[test]
fn what_an_owner_may_never_answer_is_sent_again_in_order() {
    let mut forwarder = Forwarder::new(0x77 << 40);
    for tag in 1..=4 {
        forwarder.push(VOLUME, write(tag));
    }
    forwarder.set(VOLUME, State::There(OWNER));
    let first = forwarder.next_tag();
    for _ in 0..3 {
        forwarder.sent(VOLUME, OWNER, GENERATION, true);
    }
    assert_ne!(forwarder.next_tag(), first);
    assert_eq!(forwarder.counts(), (3, 1));
    assert!(
        forwarder.answered(NodeId(9), first).is_none(),
        "it was not asked, and the request stays with its owner"
    );
    let answered = forwarder.answered(OWNER, first).expect("it was asked");
    assert_eq!((answered.volume, answered.pending.origin.tag), (VOLUME, 1));
    assert!(!answered.again && answered.dated);
    forwarder.link_broke(OWNER);
    assert_eq!(forwarder.with_lost_copies().len(), 1);
    let mut after = 0;
    let mut asked = Vec::new();
    while let Some((tag, _, generation, pending)) = forwarder.to_ask_again(OWNER, after) {
        assert_eq!(generation, GENERATION);
        asked.push((tag, pending.origin.tag));
        forwarder.asked_again(tag, false);
        after = tag;
    }
    assert_eq!(asked, [(first + 1, 2), (first + 2, 3)], "under their own tags");
    assert_eq!(tags(&mut forwarder), [4]);
    assert!(forwarder.answered(OWNER, first + 1).expect("it was asked again").again);
    assert!(!forwarder.is_stalled() && forwarder.with_lost_copies().is_empty());
}

#[test]
fn what_writes_is_given_up_when_nobody_can_say_what_became_of_it() {
    let mut forwarder = Forwarder::new(0);
    forwarder.push(VOLUME, compare(1));
    forwarder.push(VOLUME, write(2));
    forwarder.push(VOLUME, pending(3, Op::Read { offset: 0, length: 1 }, Time(0)));
    for _ in 0..3 {
        forwarder.sent(VOLUME, OWNER, GENERATION, true);
    }
    forwarder.deposed(OWNER, VOLUME);
    assert_eq!(tags(&mut forwarder), [3], "what it has under way it will still answer");
    forwarder.link_broke(OWNER);
    forwarder.deposed(OWNER, VOLUME);
    let given_up = forwarder.take_given_up(Time(1));
    let tags: Vec<u64> = given_up.iter().map(|(pending, _)| pending.origin.tag).collect();
    assert_eq!(tags, [1, 2]);
    assert!(given_up.iter().all(|(_, unknown)| *unknown));
}

#[test]
fn waits_no_longer_than_its_patience() {
    let mut forwarder = Forwarder::new(0);
    forwarder.push(VOLUME, write(1));
    let late = Time(Duration::from_secs(1).as_nanos() as u64);
    forwarder.push(VOLUME, pending(2, Op::Read { offset: 0, length: 1 }, late));
    assert_eq!(forwarder.deadline(), Some(Time(0).plus(PATIENCE)));
    assert!(forwarder.take_given_up(Time(PATIENCE.as_nanos() as u64 - 1)).is_empty());
    let ended = forwarder.take_given_up(Time(PATIENCE.as_nanos() as u64));
    assert_eq!((ended.len(), ended[0].1), (1, false), "nothing was carried out");
    assert_eq!(tags(&mut forwarder), [2]);
}

#[test]
fn pauses_before_it_asks_again() {
    let mut forwarder = Forwarder::new(0);
    forwarder.push(VOLUME, write(1));
    forwarder.pause(Time(0), VOLUME);
    let State::Pausing(until) = forwarder.state(VOLUME) else {
        panic!("it pauses")
    };
    assert_eq!(forwarder.deadline(), Some(until));
}

#[test]
fn an_owners_clock_shows_that_this_machine_stood_still() {
    let mut forwarder = Forwarder::new(0);
    let at = |ms: u64| Time(ms * 1_000_000);
    let mut told = |here_ms, there_ms: u64| {
        forwarder.stood_still(OWNER, at(here_ms), there_ms * 1_000_000, Duration::from_secs(1))
    };
    assert!(!told(1000, 700_000), "nothing to compare with");
    assert!(!told(3000, 702_500), "on its way for a while");
    assert!(!told(43_000, 750_000), "clocks run apart");
    assert!(told(43_100, 760_000), "ten seconds there, a tenth here");
    assert!(!told(44_000, 500), "a process that was started anew");
}

/// A burst of lost packets holds answers up for longer than a freeze may last: that is no freeze of this machine, neither when they
/// come nor when the next one comes at once.
#[test]
fn answers_that_come_late_do_not_look_like_a_machine_that_stood_still() {
    let mut forwarder = Forwarder::new(0);
    let at = |ms: u64| Time(ms * 1_000_000);
    let stale_after = Duration::from_secs(1);
    let link = Link(1);
    let mut told = |here_ms: u64, there_ms: u64| {
        forwarder.heard_clock(link, at(here_ms), there_ms * 1_000_000);
        let stood_still = forwarder.stood_still(OWNER, at(here_ms), there_ms * 1_000_000, stale_after);
        (stood_still, forwarder.clock(link, at(here_ms)) / 1_000_000)
    };
    assert_eq!(told(1000, 71_000), (false, 71_000));
    // Sent a moment later, and 1.5 s on its way: dated by the better one before it.
    assert_eq!(told(2500, 71_000), (false, 72_500));
    assert_eq!(told(2501, 71_100), (false, 72_501));
    assert_eq!(told(2510, 72_510), (false, 72_510), "the burst is over");
    // This machine stood still for two seconds, clock and all.
    assert!(told(2520, 74_520).0);
    assert!(!told(2530, 74_530).0, "told once");
    // The owner's machine was started anew.
    assert_eq!(told(20_000, 500), (false, 500));
    assert!(told(20_010, 2510).0);
}

#[test]
fn volumes_take_turns() {
    let mut forwarder = Forwarder::new(0);
    let (first, second, third) = (VolumeId(1), VolumeId(2), VolumeId(3));
    for volume in [first, second, third] {
        forwarder.push(volume, write(1));
        forwarder.push(volume, write(2));
    }
    assert_eq!(forwarder.round(), [first, second, third]);
    forwarder.sent(first, OWNER, GENERATION, true);
    assert_eq!(forwarder.round(), [second, third, first]);
    forwarder.sent(second, OWNER, GENERATION, true);
    assert_eq!(forwarder.round(), [third, first, second]);
    forwarder.sent(third, OWNER, GENERATION, true);
    forwarder.sent(second, OWNER, GENERATION, true);
    assert_eq!(
        forwarder.round(),
        [third, first],
        "nothing waits for the second any more"
    );
}

#[test]
fn what_one_front_has_stays_when_the_rest_is_taken_out() {
    let mut forwarder = Forwarder::new(0);
    let of = |front, tag| {
        let mut pending = write(tag);
        pending.origin.front = FrontId(front);
        pending
    };
    for (front, tag) in [(1, 1), (9, 2), (1, 3), (9, 4)] {
        forwarder.push(VOLUME, of(front, tag));
    }
    let taken = forwarder.take_others(VOLUME, |pending| pending.origin.front == FrontId(9));
    assert_eq!(taken.iter().map(|one| one.origin.tag).collect::<Vec<_>>(), [1, 3]);
    assert!(forwarder.is_stalled());
    assert_eq!(tags(&mut forwarder), [2, 4]);
    forwarder.push(VOLUME, of(1, 5));
    assert_eq!(
        forwarder
            .take_others(VOLUME, |pending| pending.origin.front == FrontId(9))
            .len(),
        1
    );
    assert!(!forwarder.is_stalled(), "nothing waits");
}

/// What has passed a limit may be much, and an ask behind it would come back too late; what waits for too long ends all the same.
#[test]
fn asks_for_tokens_go_before_what_waits() {
    let ask = |tag: u64, since: Time| Pending {
        work: Work::Lend,
        ..pending(tag, Op::Read { offset: 0, length: 1 }, since)
    };
    let after = |seconds: u64| Time(seconds * 1_000_000_000);
    let mut forwarder = Forwarder::new(0);
    forwarder.push(VOLUME, write(1));
    forwarder.push(VOLUME, write(2));
    forwarder.push(VOLUME, ask(3, after(5)));
    forwarder.push(VOLUME, ask(4, after(6)));
    let first = forwarder.next_pending(VOLUME).expect("it waits");
    assert_eq!(first.origin.tag, 3);
    forwarder.put_again(VOLUME, first);
    assert_eq!(forwarder.deadline(), Some(Time(0).plus(PATIENCE)));
    let mut ended = |seconds: u64| -> Vec<u64> {
        let ended = forwarder.take_given_up(after(seconds)).into_iter();
        ended.map(|(pending, _)| pending.origin.tag).collect()
    };
    assert_eq!(ended(8), [1, 2]);
    assert_eq!(ended(13), [3]);
    assert_eq!(tags(&mut forwarder), [4]);
}
