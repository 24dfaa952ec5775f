//! Gates and lenders, without a network: what passes, in which order, and that everything does.

mod joints;

use super::*;
use crate::faults::Faults;
use crate::mail::Origin;
use amita_frontend::{FrontId, HostKey};
use amita_qos::lease::LeaseEpoch;
use amita_qos::limits::Measures;
use amita_qos::{Limit, Limits};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_testkit::random::Random;
use amita_types::io::{IoError, Op};
use amita_types::{Generation, SnapshotId, TraceId, VolumeId};
use std::collections::VecDeque;

const VOLUME: VolumeId = VolumeId(7);
const OTHER: VolumeId = VolumeId(8);
const LARGEST: u64 = 128 << 10;

fn ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn origin(front: u64, tag: u64, now: Time) -> Origin {
    Origin {
        core: 0,
        front: FrontId(front),
        tag,
        arrived: now,
        parsed: now,
        kept: now,
        trace: TraceId::NONE,
        host: HostKey::NONE,
        generation: Generation(0),
        snapshot: SnapshotId::HEAD,
    }
}

fn read(length: u32) -> Op {
    Op::Read { offset: 0, length }
}

fn write(length: u32) -> Op {
    Op::Write { offset: 0, length }
}

fn of(rate: u64, burst: u64) -> Option<Limit> {
    Some(Limit::new(rate, burst).unwrap())
}

fn iops(rate: u64, burst: u64) -> Limits {
    Limits {
        operations: Measures {
            both: of(rate, burst),
            ..Measures::default()
        },
        ..Limits::default()
    }
}

/// Gates whose asks come to one lender at once.
struct Rig {
    now: Time,
    gates: Vec<Gate>,
    lender: Lender,
    generation: Generation,
    limits: Limits,
    /// How long answers are under way, and those that are: when they come, to which gate.
    way: Duration,
    answers: VecDeque<(Time, usize, Answer)>,
    /// What passed: when, by which gate, whose, and what.
    passed: Vec<(Time, usize, u64, Op)>,
}

impl Rig {
    fn new(gates: usize, limits: Limits) -> Rig {
        let mut rig = Rig {
            now: ms(1_000),
            gates: (0..gates as u64)
                .map(|place| Gate::new(place, 5, Faults::NONE))
                .collect(),
            lender: Lender::default(),
            generation: Generation(3),
            limits,
            way: Duration::ZERO,
            answers: VecDeque::new(),
            passed: Vec::new(),
        };
        rig.set(limits);
        // What nobody has asked for is empty when somebody does, and half of it waits for the long leases of an owner before.
        rig.lender
            .ask(ms(500), (VOLUME, rig.generation), true, &limits, &Asks::new());
        rig.now = ms(2_000);
        rig
    }

    fn set(&mut self, limits: Limits) {
        self.limits = limits;
        for gate in &mut self.gates {
            gate.set(self.now, VOLUME, Some(&limits), self.generation);
        }
    }

    fn hold(&mut self, gate: usize, tag: u64, op: Op) {
        self.gates[gate].hold(self.now, origin(1, tag, self.now), VOLUME, op, Slice::default());
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((_, gate, answer)) = self.answers.pop_front_if(|(at, ..)| *at <= self.now) {
            self.gates[gate].answered(self.now, VOLUME, Ok(answer));
        }
        for (number, gate) in self.gates.iter_mut().enumerate() {
            gate.tick(self.now);
            while let Some((whose, asks)) = gate.next_asks() {
                // By the wire and back.
                let asks = read_asks(&write_asks(&asks)).unwrap();
                let answer = self
                    .lender
                    .ask(self.now, (VOLUME, self.generation), true, &self.limits, &asks);
                let answer = read_answer(&write_answer(&answer)).unwrap();
                match self.way {
                    Duration::ZERO => gate.answered(self.now, whose, Ok(answer)),
                    way => self.answers.push_back((self.now.plus(way), number, answer)),
                }
            }
            while let Some(passage) = gate.next_passed() {
                self.passed.push((self.now, number, passage.origin.tag, passage.op));
            }
        }
    }

    fn run(&mut self, until: Time) {
        while self.now < until {
            let next = self.gates.iter().filter_map(Gate::deadline);
            let next = next.chain(self.answers.front().map(|(at, ..)| *at)).min();
            self.now = next.unwrap_or(until).max(Time(self.now.0 + 1)).min(until);
            self.settle();
        }
    }

    fn tags(&self) -> Vec<u64> {
        self.passed.iter().map(|(_, _, tag, _)| *tag).collect()
    }
}

/// Of answers that take longer than a lease no token would live. By long leases they do, and by short ones again when the way is.
#[test]
fn over_a_slow_way_what_waits_passes_by_long_leases() {
    let mut rig = Rig::new(2, iops(1_000, 202));
    rig.way = Duration::from_millis(90);
    for tag in 0..1_000 {
        rig.hold(0, tag, read(4096));
    }
    rig.run(ms(4_900));
    let passed = rig.passed.len();
    assert!((900..=1_000).contains(&passed), "{passed} of 1,000 in 2.9 s");
    rig.run(ms(8_000));
    assert_eq!(rig.tags(), (0..1_000).collect::<Vec<_>>());
    // What the slow one holds is not in the way of one that is not.
    rig.way = Duration::ZERO;
    for tag in 1_000..1_200 {
        rig.hold(1, tag, read(4096));
    }
    rig.run(ms(8_300));
    assert_eq!(rig.passed.len(), 1_200);
    let most = rig.limits.operations.both.unwrap().most(1_000_000_000, 1);
    for (at, (first, ..)) in rig.passed.iter().enumerate() {
        let within = rig.passed[at..]
            .iter()
            .take_while(|(when, ..)| when.since(*first) < Duration::from_secs(1));
        let within = within.count() as u128;
        assert!(within <= most, "{within} in a second of at most {most}");
    }
}

/// What is at its limit passes evenly, over ways of any length: a neighbour waits for no clump.
#[test]
fn what_waits_at_its_limit_passes_evenly() {
    for way_us in [0, 20, 100, 250, 1_000] {
        let mut rig = Rig::new(1, iops(4_000, 402));
        rig.way = Duration::from_micros(way_us);
        // Always 32 of them.
        let (mut held, end) = (0, ms(3_000));
        while rig.now < end {
            while held < rig.passed.len() as u64 + 32 {
                held += 1;
                rig.hold(0, held, read(4096));
            }
            let next = Time(rig.now.0 + 20_000);
            rig.run(next);
        }
        // Behind the burst, in any millisecond.
        let behind: Vec<Time> = rig
            .passed
            .iter()
            .map(|(at, ..)| *at)
            .filter(|at| *at >= ms(2_500))
            .collect();
        let within = |first: usize| {
            let since = behind[first];
            let soon = move |at: &&Time| at.since(since) < Duration::from_millis(1);
            behind[first..].iter().take_while(soon).count()
        };
        let most = (0..behind.len()).map(within).max();
        assert!(most <= Some(8), "{most:?} in a millisecond, by {way_us} us");
        assert!(
            behind.len() >= 1_950,
            "{} in half a second, by {way_us} us",
            behind.len()
        );
    }
}

/// What is there already passes, whatever becomes of an ask for more.
#[test]
fn what_has_tokens_does_not_wait_for_a_lender_that_has_said_no() {
    // At which moment of a round it says so.
    let passes = |moment: u64| {
        let mut rig = Rig::new(1, iops(4_000, 402));
        for tag in 0..600 {
            rig.hold(0, tag, read(4096));
        }
        rig.run(Time(ms(2_040).0 + moment * 100_000));
        let from = rig.now;
        let gate = &mut rig.gates[0];
        gate.answered(from, VOLUME, Err(IoError::Busy));
        let mut passed = 0;
        while let Some(at) = gate.deadline().filter(|at| *at < from.plus(Duration::from_millis(4))) {
            gate.tick(at.max(rig.now));
            rig.now = Time(at.max(rig.now).0 + 1);
            while gate.next_asks().is_some() {}
            while gate.next_passed().is_some() {
                passed += 1;
            }
        }
        passed
    };
    let most = (0..40).map(passes).max();
    assert!(most >= Some(8), "{most:?} of the 12 of a round");
}

/// A quarter of a second would be too long to wait for what others give back meanwhile.
#[test]
fn long_leases_are_asked_for_again_when_there_is_none() {
    let mut rig = Rig::new(1, iops(1_000, 202));
    rig.way = Duration::from_millis(30);
    for tag in 0..1_000 {
        rig.hold(0, tag, read(4096));
    }
    rig.run(ms(2_500));
    assert!(rig.gates[0].is_long(VOLUME) && rig.gates[0].waits(VOLUME));
    let (at, gate, mut answer) = rig.answers.pop_front().expect("it asks all the time");
    answer.grants.clear();
    rig.gates[gate].answered(at, VOLUME, Ok(answer));
    let again = rig.gates[gate].next_asks().is_some();
    assert!(again, "at {:?}, after {at:?}", rig.gates[gate].deadline());
}

/// The owner had not heard of the limit when it answered, long ago: it may have since, and lends what the burst has.
#[test]
fn an_answer_to_what_was_given_up_opens_nothing() {
    let limits = iops(10, 3);
    let mut gate = Gate::new(1, 5, Faults::NONE);
    gate.set(ms(0), VOLUME, Some(&limits), Generation(3));
    for tag in 0..9 {
        gate.hold(ms(0), origin(1, tag, ms(0)), VOLUME, read(512), Slice::default());
    }
    let (_, first) = gate.next_asks().unwrap();
    gate.forget_asks(ms(1));
    gate.tick(ms(100));
    let (_, second) = gate.next_asks().expect("it asks again");
    let knows_nothing = |asks: &Asks| {
        let mut lender = Lender::default();
        let of = (VOLUME, Generation(3));
        lender.ask(ms(1), of, true, &Limits::default(), asks)
    };
    gate.answered(ms(101), VOLUME, Ok(knows_nothing(&first)));
    assert!(gate.next_passed().is_none());
    assert!(gate.next_asks().is_none(), "the newer one is under way");
    gate.answered(ms(102), VOLUME, Ok(knows_nothing(&second)));
    assert_eq!(std::iter::from_fn(|| gate.next_passed()).count(), 9);
}

#[test]
fn what_is_within_the_burst_passes_at_once_and_the_rest_by_the_rate() {
    let mut rig = Rig::new(1, iops(100, 21));
    for tag in 0..60 {
        rig.hold(0, tag, read(4096));
    }
    let at_once = rig.passed.len();
    assert!((1..=21).contains(&at_once), "{at_once}");
    rig.run(ms(3_000));
    assert_eq!(rig.tags(), (0..60).collect::<Vec<_>>(), "in the order of coming");
    let took = rig.passed.last().unwrap().0.since(ms(2_000)).as_millis();
    assert!((390..=440).contains(&took), "39 of them wait for tokens: {took} ms");
    let (_, counts) = rig.gates[0].counts().next().unwrap();
    assert_eq!((counts.waiting, counts.waiting_bytes), (0, 0));
    assert!(counts.held >= 39 && counts.held_ns > 0);
}

#[test]
fn a_limit_of_writes_does_not_hold_reads() {
    let limits = Limits {
        operations: Measures {
            write: of(10, 3),
            ..Measures::default()
        },
        ..Limits::default()
    };
    let mut rig = Rig::new(1, limits);
    for tag in 0..8 {
        rig.hold(0, tag, write(4096));
    }
    rig.hold(0, 100, read(4096));
    assert!(rig.tags().contains(&100) && rig.passed.len() < 9);
    // What moves no bytes is an operation still.
    rig.hold(
        0,
        9,
        Op::Clear {
            offset: 0,
            length: 1 << 30,
        },
    );
    rig.run(ms(4_000));
    let writes: Vec<u64> = rig.tags().into_iter().filter(|tag| *tag < 100).collect();
    assert_eq!(writes, [0, 1, 2, 3, 4, 5, 6, 7, 9]);
}

/// A large write waits for as many bytes; reads that come all the time would take each of them.
#[test]
fn what_shares_a_limit_does_not_overtake() {
    let limits = Limits {
        bytes: Measures {
            both: of(1 << 20, (1 << 17) + 2 * LARGEST),
            ..Measures::default()
        },
        ..Limits::default()
    };
    let mut rig = Rig::new(1, limits);
    for tag in 0..4 {
        rig.hold(0, tag, write(LARGEST as u32));
    }
    for tag in 4..200 {
        rig.hold(0, tag, read(4096));
    }
    rig.run(ms(5_000));
    assert_eq!(rig.tags(), (0..200).collect::<Vec<_>>());
}

/// Reads wait for a limit of their own, and at four gates large writes behind them for one that both share, which never holds three of them.
#[test]
fn what_goes_next_at_a_shared_limit_is_not_what_another_limit_holds() {
    let limits = Limits {
        operations: Measures {
            read: of(1, 2),
            ..Measures::default()
        },
        bytes: Measures {
            both: of(256 << 10, (27 << 10) + 2 * LARGEST),
            ..Measures::default()
        },
    };
    let mut rig = Rig::new(4, limits);
    for gate in 0..4 {
        for tag in 0..20 {
            rig.hold(gate, tag, read(512));
        }
        for tag in 20..60 {
            rig.hold(gate, tag, write(LARGEST as u32));
        }
    }
    rig.run(ms(12_000));
    let writes = rig.tags().into_iter().filter(|tag| *tag >= 20).count();
    // Two a second, and the burst.
    assert!((15..=21).contains(&writes), "{writes} writes in 10 s");
}

#[test]
fn a_host_takes_what_waits_of_it_along() {
    let mut rig = Rig::new(1, iops(10, 3));
    for tag in 0..10 {
        rig.hold(0, tag, write(512));
    }
    let gone = rig.passed.len();
    rig.gates[0].hold(rig.now, origin(2, 50, rig.now), VOLUME, write(512), Slice::default());
    rig.gates[0].cancel(&[FrontId(1), FrontId(9)]);
    rig.run(ms(5_000));
    assert_eq!(rig.tags()[gone..], [50]);
}

#[test]
fn without_limits_what_waits_goes_on_in_order() {
    let mut rig = Rig::new(1, iops(1, 2));
    for tag in 0..9 {
        rig.hold(0, tag, if tag % 2 == 0 { read(512) } else { write(512) });
    }
    assert!(!rig.gates[0].holds(OTHER) && rig.gates[0].holds(VOLUME));
    rig.gates[0].set(rig.now, VOLUME, None, rig.generation);
    rig.settle();
    assert_eq!(rig.tags(), (0..9).collect::<Vec<_>>());
    assert_eq!(rig.gates[0].deadline(), None);
    assert!(!rig.gates[0].holds(VOLUME));
    // And back again: the lender counts on where it was.
    rig.set(iops(100, 21));
    rig.hold(0, 20, read(512));
    rig.run(ms(3_000));
    assert_eq!(rig.passed.len(), 10);
}

/// While it is not limited nobody asks: what its limits would have saved was used, and more.
#[test]
fn what_is_limited_again_begins_with_nothing_saved() {
    let limits = iops(100, 21);
    let mut rig = Rig::new(1, limits);
    for tag in 0..21 {
        rig.hold(0, tag, read(512));
    }
    rig.run(ms(2_020));
    assert_eq!(rig.passed.len(), 21, "it had saved something");
    rig.gates[0].set(rig.now, VOLUME, None, rig.generation);
    rig.lender.limits_changed(rig.now, VOLUME, &Limits::default());
    rig.settle();
    rig.run(ms(5_000));
    rig.lender.limits_changed(rig.now, VOLUME, &limits);
    rig.set(limits);
    let before = rig.passed.len();
    for tag in 100..121 {
        rig.hold(0, tag, read(512));
    }
    assert_eq!(rig.passed.len(), before);
    rig.run(ms(5_105));
    let since = rig.passed.len() - before;
    assert!((7..=10).contains(&since), "{since} in 105 ms");
}

#[test]
fn nobody_to_ask_ends_what_waited_for_that() {
    let mut rig = Rig::new(1, iops(10, 3));
    let gate = &mut rig.gates[0];
    gate.hold(ms(2_000), origin(1, 1, ms(2_000)), VOLUME, read(512), Slice::default());
    assert!(gate.next_asks().is_some());
    gate.hold(ms(9_000), origin(1, 2, ms(9_000)), VOLUME, read(512), Slice::default());
    gate.answered(ms(10_000), VOLUME, Err(IoError::Unavailable));
    let (ended, why) = gate.next_ended().unwrap();
    assert_eq!((ended.tag, why), (1, IoError::Unavailable));
    assert!(gate.next_ended().is_none() && gate.next_passed().is_none());
    // The later one has its own time: it is asked for again.
    rig.now = ms(10_000);
    rig.run(ms(11_000));
    assert_eq!(rig.tags(), [2]);
}

#[test]
fn what_is_no_ask_is_not_read() {
    for text in ["", "[", "{}", "[{}]", r#"{"epoch":1}"#] {
        let payload = Slice::copy_from(text.as_bytes());
        assert!(
            read_asks(&payload).is_none() && read_answer(&payload).is_none(),
            "{text}"
        );
    }
    assert_eq!(read_asks(&Slice::copy_from(b"[]")), Some(Asks::new()));
    assert!(read_asks(&Slice::copy_from(&vec![b' '; 1 << 20])).is_none());
}

/// The leaky bucket in which every interval is looked at at once.
struct Leak {
    rate: u64,
    burst: u64,
    level: i128,
    at: Time,
}

impl Leak {
    fn new(limit: Limit) -> Leak {
        Leak {
            rate: limit.rate(),
            burst: limit.burst(),
            level: 0,
            at: Time(0),
        }
    }

    fn pour(&mut self, now: Time, tokens: u64) {
        let gone = i128::from(self.rate) * i128::from(now.0 - self.at.0);
        self.level = (self.level - gone).max(0) + i128::from(tokens) * 1_000_000_000;
        self.at = now;
        assert!(
            self.level <= i128::from(self.burst) * 1_000_000_000,
            "more than the limit at {now:?}"
        );
    }
}

/// Gates with hosts that come and go, messages that take their time, get lost or come to an owner that has followed another one.
fn play(seed: u64) {
    let mut rng = Random::new(seed);
    let rate = [50, 1_000, 20_000][rng.below(3) as usize];
    let limit = Limit::new(rate, rate / 10 + 2 + rng.below(rate)).unwrap();
    let limits = iops(limit.rate(), limit.burst());
    let gates = 1 + rng.below(4) as usize;
    let mut rig = Rig::new(gates, limits);
    let mut leak = Leak::new(limit);
    let mut owners = vec![std::mem::take(&mut rig.lender)];
    let (mut flying, mut tag): (VecDeque<(Time, usize, Answer)>, u64) = (VecDeque::new(), 0);
    let (mut sent, mut heard) = (0, 0);
    let is_sound = rng.below(2) == 0;
    while rig.now < ms(4_000) {
        rig.now = Time(rig.now.0 + 100_000 + rng.below(900_000));
        let now = rig.now;
        if rng.below(1_000) == 0 {
            // The owner is dead, and the next one opens the volume.
            rig.generation = Generation(rig.generation.0 + 1);
            owners.push(Lender::default());
        }
        for gate in 0..gates {
            if now < ms(3_000) && rng.below(4) == 0 {
                for _ in 0..rng.below(1 + rate / 200 + 4) {
                    tag += 1;
                    sent += 1;
                    let op = if tag % 3 == 0 { write(4096) } else { read(4096) };
                    rig.gates[gate].hold(now, origin(gate as u64, tag, now), VOLUME, op, Slice::default());
                }
            }
            rig.gates[gate].tick(now);
            while let Some((volume, asks)) = rig.gates[gate].next_asks() {
                if !is_sound && rng.below(20) == 0 {
                    rig.gates[gate].answered(now, volume, Err(IoError::Lost));
                    continue;
                }
                let owner = owners.last_mut().unwrap();
                let answer = owner.ask(now, (VOLUME, rig.generation), true, &limits, &asks);
                let late = if is_sound { 1 } else { 1 + rng.below(30_000_000) };
                flying.push_back((Time(now.0 + late), gate, answer));
            }
        }
        for (at, gate, answer) in std::mem::take(&mut flying) {
            if at > now {
                flying.push_back((at, gate, answer));
            } else if !is_sound && rng.below(20) == 0 {
                rig.gates[gate].answered(now, VOLUME, Err(IoError::Lost));
            } else {
                rig.gates[gate].answered(now, VOLUME, Ok(answer));
            }
        }
        for gate in 0..gates {
            while let Some(passage) = rig.gates[gate].next_passed() {
                leak.pour(now, 1);
                heard += 1;
                assert_eq!(passage.origin.front, FrontId(gate as u64));
            }
        }
    }
    let waiting: u64 = rig
        .gates
        .iter()
        .flat_map(Gate::counts)
        .map(|(_, counts)| counts.waiting)
        .sum();
    assert_eq!(heard + waiting, sent, "seed {seed}");
    if waiting > 0 {
        // Then as much has passed as may, less what was lost on the way, and what no owner lent.
        let may = rate * 2;
        let pauses = (owners.len() as u64 - 1) * rate / 2;
        assert!(
            heard * 10 + pauses * 10 > may * if is_sound { 8 } else { 3 },
            "seed {seed}: {heard} of {may}"
        );
    }
}

#[test]
fn gates_together_never_let_more_pass_than_the_limit() {
    for seed in 0..100 {
        play(seed);
    }
}

#[test]
fn an_owner_lends_nothing_before_its_predecessor_can_carry_nothing_out() {
    let limits = iops(1_000, 200);
    let mut gate = Gate::new(1, 5, Faults::NONE);
    gate.set(ms(0), VOLUME, Some(&limits), Generation(3));
    gate.hold(ms(0), origin(1, 1, ms(0)), VOLUME, read(512), Slice::default());
    let mut lender = Lender::default();
    let of = (VOLUME, Generation(3));
    let mut lends = |now: Time, adopted: bool| {
        gate.tick(now);
        while let Some((volume, asks)) = gate.next_asks() {
            gate.answered(now, volume, Ok(lender.ask(now, of, adopted, &limits, &asks)));
        }
        let went = gate.next_passed().is_some();
        (went, lender.awaits(VOLUME, Generation(3)))
    };
    for at in (0..4_999).step_by(13) {
        assert_eq!(lends(ms(at), false), (false, true));
    }
    // A group is blocked for good: the others are not. It begins empty, when what another may have lent has lapsed.
    assert_eq!(lends(ms(5_010), false), (false, false));
    assert_eq!(lends(ms(5_055), false), (false, false));
    assert_eq!(lends(ms(5_080), false), (true, false));
    assert!(lender.awaits(VOLUME, Generation(4)));
    lender.lost(VOLUME, Generation(3));
    assert!(lender.awaits(VOLUME, Generation(3)));
}

/// The owner has not heard of a limit that the gate knows, or the gate not that it is gone.
#[test]
fn what_the_owner_knows_nothing_of_holds_nothing() {
    let mut rig = Rig::new(1, iops(10, 3));
    let known = std::mem::take(&mut rig.limits);
    for tag in 0..50 {
        rig.hold(0, tag, read(512));
    }
    assert_eq!(rig.passed.len(), 50);
    // From then on it is asked again, and has heard.
    rig.limits = known;
    rig.run(ms(2_100));
    for tag in 50..100 {
        rig.hold(0, tag, read(512));
    }
    rig.run(ms(2_200));
    assert!(rig.passed.len() < 60, "{}", rig.passed.len());
}

/// Its record says that another gateway has opened the volume: what the one before has lent, and what it says now, is void.
#[test]
fn of_a_deposed_owner_no_token_is_spent() {
    let limits = iops(1_000, 200);
    let mut rig = Rig::new(1, limits);
    // More is lent than waits, for what is to come.
    for tag in 0..40 {
        rig.run(ms(2_000 + tag));
        rig.hold(0, tag, read(512));
    }
    assert_eq!(rig.passed.len(), 40, "it has tokens when the last one comes");
    rig.hold(0, 40, read(512));
    assert_eq!(rig.passed.len(), 41, "and for another one");
    let gate = &mut rig.gates[0];
    gate.set(ms(2_040), VOLUME, Some(&limits), Generation(4));
    assert_eq!(gate.limits(VOLUME).unwrap().1, LeaseEpoch(4));
    gate.hold(ms(2_040), origin(1, 3, ms(2_040)), VOLUME, read(512), Slice::default());
    assert!(gate.next_passed().is_none());
    let (_, asks) = gate.next_asks().expect("it asks the new one");
    // The old one answers, and knows nothing of the limit.
    let mut old = Lender::default();
    let answer = old.ask(ms(2_041), (VOLUME, Generation(3)), true, &Limits::default(), &asks);
    assert!(!answer.open.is_empty());
    gate.answered(ms(2_041), VOLUME, Ok(answer));
    assert!(gate.next_passed().is_none());
}

#[test]
fn a_node_tells_of_what_it_owns_or_has_used_lately_and_of_no_more_than_it_may() {
    let mut gate = Gate::new(1, 5, Faults::NONE);
    let id = |number: usize| VolumeId(number as u64);
    let all = MOST_TOLD_OF + 10;
    for number in 0..all {
        gate.set(ms(0), id(number), Some(&iops(1_000, 200)), Generation(1));
    }
    assert_eq!(gate.limited(), all);
    assert!(gate.told_of(ms(1), std::iter::empty()).is_empty());
    assert_eq!(gate.told_of(ms(1), [id(3), id(all + 1)].into_iter()), [id(3)]);
    for number in 0..all {
        let now = ms(1 + number as u64);
        gate.hold(now, origin(1, 0, now), id(number), read(512), Slice::default());
    }
    // All wait. What came last is told of first.
    let now = ms(600_100);
    let told = gate.told_of(now, std::iter::once(id(3)));
    assert_eq!((told.len(), told[0], told[1]), (MOST_TOLD_OF, id(all - 1), id(all - 2)));
    gate.cancel(&[FrontId(1)]);
    let told = gate.told_of(now, std::iter::once(id(3)));
    assert_eq!(
        told.len(),
        all - 100 + 1,
        "of the first hundred but one nobody has wanted anything for ten minutes"
    );
    assert_eq!(told.last(), Some(&id(3)));
}

/// What waits is the same I/O by another number: it has no more than the limit, and its order.
#[test]
fn what_waits_of_a_volume_that_moves_waits_on_by_its_new_number() {
    let mut rig = Rig::new(1, iops(10, 1));
    for tag in 0..20 {
        rig.hold(0, tag, read(512));
    }
    let before = rig.passed.len();
    assert!(before < 5);
    let limits = rig.limits;
    let gate = &mut rig.gates[0];
    gate.set(rig.now, OTHER, Some(&limits), rig.generation);
    gate.moved(rig.now, VOLUME, OTHER);
    assert!(gate.holds(OTHER) && !gate.holds(VOLUME));
    assert!(gate.next_passed().is_none(), "nothing passes for that");
    assert_eq!(
        gate.counts_of(OTHER).map(|counts| counts.waiting),
        Some(20 - before as u64)
    );
    // Nothing limits it any more: it goes in the order in which it came.
    gate.set(rig.now, OTHER, None, rig.generation);
    let tags: Vec<u64> = std::iter::from_fn(|| gate.next_passed())
        .map(|passed| passed.origin.tag)
        .collect();
    assert_eq!(tags, (before as u64..20).collect::<Vec<_>>());
}
