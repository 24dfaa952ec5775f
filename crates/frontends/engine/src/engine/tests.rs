//! A toy protocol on the engine, over a volume in memory.

use super::*;
use crate::memory::{MemoryService, Volumes};
use crate::pieces::{clears, pieces, zeroes};
use crate::service::Event;
use amita_types::VolumeId;
use amita_types::io::IoError;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

const CHUNK: u32 = 64 << 10;
const SIZE: u64 = 16 << 20;
const LIMITS: Limits = Limits {
    requests: 8,
    read_bytes: 256 << 10,
    write_bytes: 128 << 10,
    pieces: 12,
    window: 4,
};

/// The two kinds of protocol.
trait Kind {
    const CAPABILITIES: Capabilities;
    const ROOM: usize;
}

/// One that goes on at the end of a pass, and tries again what the volume was too busy for.
struct EachPass;

impl Kind for EachPass {
    const CAPABILITIES: Capabilities = Capabilities::CONNECTION;
    const ROOM: usize = 0;
}

/// One that goes on at once, and begins when there is room for all of a request.
struct AtOnce;

impl Kind for AtOnce {
    const CAPABILITIES: Capabilities = Capabilities {
        turns: Turns::AtOnce,
        retry_after: None,
        ..Capabilities::CONNECTION
    };
    const ROOM: usize = 4;
}

/// One that goes on at once, and begins when there is room for one piece.
struct FromOne;

impl Kind for FromOne {
    const CAPABILITIES: Capabilities = AtOnce::CAPABILITIES;
    const ROOM: usize = 0;
}

/// What a request of the toy keeps.
#[derive(Debug, Default)]
struct Own {
    name: u64,
    /// Where what is read is written to, for a copy.
    copies_to: Option<u64>,
}

struct Toy<K: Kind> {
    engine: Engine<Toy<K>>,
    /// What was delivered: name, offset, bytes, the last?
    delivered: Vec<(u64, u64, u64, bool)>,
    /// What has ended: name, how, bytes that were kept.
    finished: Vec<(u64, Option<IoError>, usize)>,
    kind: PhantomData<K>,
}

struct ToyCx<'a> {
    now: Time,
    service: &'a mut MemoryService,
    queued: usize,
}

impl Context for ToyCx<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn service(&mut self) -> &mut dyn StorageService {
        self.service
    }

    fn queued_bytes(&self) -> usize {
        self.queued
    }
}

impl<K: Kind> Protocol for Toy<K> {
    const CAPABILITIES: Capabilities = K::CAPABILITIES;
    type Request = Own;
    type Failure = IoError;
    type End = IoError;
    type Context<'a> = ToyCx<'a>;

    fn engine(&mut self) -> &mut Engine<Toy<K>> {
        &mut self.engine
    }

    fn judge(
        _: &Own,
        piece: &PieceState,
        result: Result<(), IoError>,
        payload: &Payload,
    ) -> Result<Verdict<IoError>, IoError> {
        assert!(result.is_err() || fits(&piece.op, payload));
        match result {
            Err(IoError::Lost) => Err(IoError::Lost),
            result => Ok(result.map_err(|why| (why, piece.op.offset()))),
        }
    }

    fn deliver(&mut self, slot: SlotId, part: Part<IoError>, _: &mut ToyCx<'_>) -> Result<(), IoError> {
        let name = self.engine.request(slot).own.name;
        self.delivered
            .push((name, part.op.offset(), part.op.length(), part.last));
        Ok(())
    }

    fn finish(&mut self, slot: SlotId, _: &mut ToyCx<'_>) -> Result<(), IoError> {
        let mut kept = 0;
        while let Some(part) = self.engine.take_part(slot) {
            kept += match part {
                Payload::Data(data) => data.len(),
                Payload::Zeros(length) => length as usize,
                _ => 0,
            };
        }
        let request = self.engine.request(slot);
        self.finished.push((request.own.name, request.failure, kept));
        self.engine.free(slot);
        Ok(())
    }

    fn goes_on(own: &Own, piece: &mut PieceState, payload: &mut Payload, pool: &Pool) -> bool {
        let (Some(to), Op::Read { offset, length }) = (own.copies_to, piece.op) else {
            return false;
        };
        piece.data = match std::mem::take(payload) {
            Payload::Data(data) => data,
            _ => pool.zeros(length as usize),
        };
        let offset = to + offset;
        piece.op = Op::Write { offset, length };
        true
    }

    fn is_graver(failure: IoError, _: IoError) -> bool {
        failure == IoError::Damaged
    }

    fn room_to_begin(_: &Request<Toy<K>>) -> usize {
        K::ROOM
    }
}

struct World<K: Kind> {
    toy: Toy<K>,
    service: MemoryService,
    volumes: Volumes,
    now: Time,
    queued: usize,
}

impl<K: Kind> World<K> {
    fn new() -> World<K> {
        let (pool, volumes) = (Pool::heap(), Volumes::new());
        volumes.add("v", SIZE, CHUNK, false);
        World {
            toy: Toy {
                engine: Engine::new(FrontId(1), pool.clone(), LIMITS),
                delivered: Vec::new(),
                finished: Vec::new(),
                kind: PhantomData,
            },
            service: MemoryService::new(volumes.clone(), pool),
            volumes,
            now: Time::default(),
            queued: 0,
        }
    }

    fn with<R>(&mut self, step: impl FnOnce(&mut Toy<K>, &mut ToyCx<'_>) -> R) -> R {
        let mut cx = ToyCx {
            now: self.now,
            service: &mut self.service,
            queued: self.queued,
        };
        step(&mut self.toy, &mut cx)
    }

    fn start(&mut self, name: u64, offset: u64, plan: Plan, delivery: Delivery) -> SlotId {
        let (slot, request) = self
            .toy
            .engine
            .begin(VolumeId(1), offset, plan, delivery)
            .expect("a slot");
        request.own = Own { name, copies_to: None };
        self.with(|toy, cx| toy.start(slot, cx)).expect("it goes on");
        slot
    }

    /// Has the piece at that place end.
    fn end(&mut self, index: usize) -> Result<(), IoError> {
        self.service.run_one(index);
        let Some((_, Event::Done { tag, result, payload })) = self.service.events.pop_front() else {
            panic!("a piece ends in one event");
        };
        self.with(|toy, cx| toy.done(tag, result, payload, cx))
    }

    /// Has it end so.
    fn end_with(&mut self, index: usize, error: IoError) -> Result<(), IoError> {
        self.service.fault = Some((self.service.queue[index].op.offset(), error));
        let result = self.end(index);
        self.service.fault = None;
        result
    }

    fn end_pass(&mut self) {
        self.with(|toy, cx| toy.pump(cx)).expect("it goes on");
        self.check();
    }

    /// Ends everything, the first piece first.
    fn run(&mut self) {
        while !self.service.queue.is_empty() {
            self.end(0).expect("it goes on");
            self.end_pass();
        }
    }

    /// The limits hold. (What is longer than a limit goes alone.)
    fn check(&self) {
        let Usage { reading, writing, .. } = *self.toy.engine.usage();
        assert!(reading <= LIMITS.read_bytes, "{reading} bytes are read");
        assert!(writing <= LIMITS.write_bytes, "{writing} bytes are written");
    }

    fn assert_idle(&self) {
        assert_eq!(*self.toy.engine.usage(), Usage::default());
        assert!(self.toy.engine.is_empty() && self.toy.engine.waiting() == 0);
    }
}

#[test]
fn parts_leave_in_order_whatever_order_they_end_in() {
    let mut world = World::<EachPass>::new();
    let range = |length| pieces(1000, length, CHUNK);
    world.start(1, 1000, Plan::Read(range(200_000)), Delivery::InOrder);
    assert_eq!(world.service.queue.len(), 4);
    for left in (0..4).rev() {
        assert!(world.toy.delivered.is_empty(), "the first one is missing");
        world.end(left).unwrap();
    }
    let offsets: Vec<u64> = world.toy.delivered.iter().map(|part| part.1).collect();
    assert!(offsets.is_sorted() && offsets.len() == 4, "{offsets:?}");
    assert_eq!(world.toy.delivered.iter().map(|part| part.2).sum::<u64>(), 200_000);
    let last: Vec<bool> = world.toy.delivered.iter().map(|part| part.3).collect();
    assert_eq!(last, [false, false, false, true]);
    assert_eq!(world.toy.finished, [(1, None, 0)]);
    world.assert_idle();
}

#[test]
fn parts_in_any_order_leave_as_they_come_and_one_is_the_last() {
    let mut world = World::<EachPass>::new();
    world.start(1, 0, Plan::Read(pieces(0, 200_000, CHUNK)), Delivery::AnyOrder);
    for index in [2, 0] {
        world.end(index).unwrap();
    }
    world.end_with(0, IoError::NoSpace).unwrap();
    world.end(0).unwrap();
    let told: Vec<_> = world.toy.delivered.iter().map(|part| (part.1 >> 16, part.3)).collect();
    assert_eq!(told, [(2, false), (0, false), (1, false), (3, true)]);
    assert_eq!(world.toy.finished, [(1, Some(IoError::NoSpace), 0)]);
    world.assert_idle();
}

#[test]
fn what_is_kept_stays_charged_until_it_is_taken() {
    let mut world = World::<EachPass>::new();
    world.start(1, 0, Plan::ReadWhole(pieces(0, 200_000, CHUNK)), Delivery::Whole);
    for _ in 0..3 {
        world.end(0).unwrap();
    }
    assert_eq!(world.toy.engine.usage().reading, 200_000);
    world.end(0).unwrap();
    assert_eq!(world.toy.finished, [(1, None, 200_000)]);
    world.assert_idle();
}

#[test]
fn a_busy_volume_is_asked_again_after_a_pause() {
    let mut world = World::<EachPass>::new();
    let (slot, request) = world
        .toy
        .engine
        .begin(VolumeId(1), 0, Plan::Write(pieces(0, 8192, CHUNK)), Delivery::Verdict)
        .unwrap();
    request.data = Slice::copy_from(&[7; 8192]);
    world.with(|toy, cx| toy.start(slot, cx)).unwrap();
    world.end_with(0, IoError::Busy).unwrap();
    assert_eq!(world.toy.engine.retry_at(), Some(Time(2_000_000)));
    world.with(|toy, cx| toy.retry(cx));
    assert!(world.service.queue.is_empty(), "it is too early");
    world.now = world.now.plus(Duration::from_millis(2));
    world.with(|toy, cx| toy.retry(cx));
    assert_eq!((world.service.queue.len(), world.toy.engine.retry_at()), (1, None));
    world.run();
    assert_eq!(world.toy.finished, [(0, None, 0)]);
    assert_eq!(world.volumes.read(VolumeId(1), 0, 8192), [7; 8192], "the data was kept");
    world.assert_idle();
}

#[test]
fn where_nothing_is_tried_again_busy_is_an_error() {
    let mut world = World::<AtOnce>::new();
    world.start(1, 0, Plan::ReadWhole(pieces(0, 4096, CHUNK)), Delivery::Whole);
    world.end_with(0, IoError::Busy).unwrap();
    assert_eq!(world.toy.finished, [(1, Some(IoError::Busy), 0)]);
    world.assert_idle();
}

#[test]
fn a_failure_starts_nothing_more_and_the_gravest_counts() {
    let mut world = World::<EachPass>::new();
    world.start(1, 0, Plan::Clear(clears(0, SIZE, CHUNK)), Delivery::Verdict);
    assert_eq!(world.service.queue.len(), LIMITS.window as usize);
    world.end_with(1, IoError::NoSpace).unwrap();
    world.end_with(0, IoError::Damaged).unwrap();
    world.end_with(0, IoError::NoSpace).unwrap();
    world.end_pass();
    assert_eq!(world.service.queue.len(), 1);
    world.run();
    assert_eq!(world.toy.finished, [(1, Some(IoError::Damaged), 0)]);
    world.assert_idle();
}

#[test]
fn of_a_request_that_was_withdrawn_nothing_is_asked_again() {
    let mut world = World::<EachPass>::new();
    world.start(1, 0, Plan::Clear(clears(0, SIZE, CHUNK)), Delivery::Verdict);
    let found = world.toy.engine.withdraw(|_| true, IoError::NoSpace);
    assert_eq!(found.len(), 1);
    // The volume is busy, and stays so.
    while !world.service.queue.is_empty() {
        world.end_with(0, IoError::Busy).unwrap();
        world.end_pass();
    }
    assert_eq!(world.toy.engine.retry_at(), None);
    assert_eq!(world.toy.finished, [(1, Some(IoError::NoSpace), 0)]);
    world.assert_idle();
}

#[test]
fn the_end_of_the_connection_is_passed_on() {
    let mut world = World::<EachPass>::new();
    world.start(1, 0, Plan::Read(pieces(0, 4096, CHUNK)), Delivery::InOrder);
    assert_eq!(world.end_with(0, IoError::Lost), Err(IoError::Lost));
    assert!(world.toy.finished.is_empty());
}

#[test]
fn a_request_that_was_given_up_hears_nothing_and_gives_all_back() {
    let mut world = World::<EachPass>::new();
    let slot = world.start(1, 0, Plan::Read(pieces(0, 200_000, CHUNK)), Delivery::InOrder);
    world.end(3).unwrap();
    world.end_with(0, IoError::Busy).unwrap();
    world.toy.engine.free(slot);
    world.assert_idle();
    // The slot is taken by another, which the late answers are not for.
    world.start(2, 0, Plan::Read(pieces(0, 4096, CHUNK)), Delivery::InOrder);
    world.now = Time(1_000_000_000);
    world.with(|toy, cx| toy.retry(cx));
    world.run();
    assert_eq!(world.toy.delivered, [(2, 0, 4096, true)]);
    assert_eq!(world.toy.finished, [(2, None, 0)]);
    world.assert_idle();
}

#[test]
fn what_the_host_owes_must_come_before_the_end() {
    let mut world = World::<EachPass>::new();
    let slot = world.start(1, 0, Plan::Hold, Delivery::Verdict);
    let request = world.toy.engine.request(slot);
    (request.owed, request.issued) = (1, true);
    world.toy.engine.charge(slot, 4096);
    let op = Op::Write {
        offset: 0,
        length: 4096,
    };
    let data = Slice::copy_from(&[1; 4096]);
    world.with(|toy, cx| toy.submit(slot, Submission::with_data(op, data), cx));
    world.run();
    assert!(world.toy.finished.is_empty());
    world.toy.engine.request(slot).owed = 0;
    world.with(|toy, cx| toy.finish_if_complete(slot, cx)).unwrap();
    assert_eq!(world.toy.finished, [(1, None, 0)]);
    world.assert_idle();
}

#[test]
fn a_piece_can_go_on_as_another() {
    let mut world = World::<EachPass>::new();
    let op = Op::Write {
        offset: 0,
        length: 4096,
    };
    let data = Slice::copy_from(&[9; 4096]);
    world.service.submit(FrontId(9), 0, VolumeId(1).into(), op, data);
    world.service.run();
    world.service.events.clear();
    let plan = Plan::Read(pieces(0, 4096, CHUNK));
    let (slot, request) = world.toy.engine.begin(VolumeId(1), 0, plan, Delivery::Verdict).unwrap();
    request.own.copies_to = Some(1 << 20);
    world.with(|toy, cx| toy.start(slot, cx)).unwrap();
    world.end(0).unwrap();
    assert!(world.toy.finished.is_empty(), "it is written now");
    world.run();
    assert_eq!(world.volumes.read(VolumeId(1), 1 << 20, 4096), [9; 4096]);
    assert_eq!(world.toy.finished.len(), 1);
    world.assert_idle();
}

#[test]
fn what_the_host_does_not_fetch_holds_up_reads() {
    let mut world = World::<EachPass>::new();
    world.queued = LIMITS.read_bytes;
    world.start(1, 0, Plan::Read(pieces(0, 4096, CHUNK)), Delivery::InOrder);
    world.end_pass();
    assert_eq!((world.service.queue.len(), world.toy.engine.waiting()), (0, 1));
    world.queued = 0;
    world.end_pass();
    world.run();
    assert_eq!(world.toy.finished, [(1, None, 0)]);
    world.assert_idle();
}

#[test]
fn a_slow_piece_lets_no_others_pile_up_behind_it() {
    let mut world = World::<EachPass>::new();
    let slot = world.start(1, 0, Plan::Clear(clears(0, SIZE, CHUNK)), Delivery::Verdict);
    // The first one stays: all others end.
    while world.service.queue.len() > 1 {
        world.end(1).unwrap();
        world.end_pass();
        assert!(world.toy.engine.parts(slot) <= LIMITS.window as usize);
    }
    world.run();
    assert_eq!(world.toy.finished, [(1, None, 0)]);
    world.assert_idle();
}

#[test]
fn what_finds_no_room_to_begin_is_woken() {
    let mut world = World::<FromOne>::new();
    for name in 1..=4 {
        let plan = Plan::Clear(clears(0, 4 * u64::from(CHUNK), CHUNK));
        world.start(name, 0, plan, Delivery::Verdict);
    }
    assert_eq!(world.service.queue.len(), LIMITS.pieces, "three have a window each");
    world.run();
    assert_eq!(world.toy.finished.len(), 4);
    world.assert_idle();
}

#[test]
fn what_finds_no_room_to_go_on_is_woken() {
    let mut world = World::<AtOnce>::new();
    let four = 4 * u64::from(CHUNK);
    // Its window is full of clears; a few bytes are to be written after them.
    world.start(1, 0, Plan::Zero(zeroes(0, four + 100, CHUNK, true)), Delivery::Verdict);
    assert_eq!(world.service.queue.len(), 4);
    let full = Plan::Zero(zeroes(2 * four, four / 2, CHUNK, false));
    world.start(2, 2 * four, full, Delivery::Verdict);
    assert_eq!(world.toy.engine.usage().writing, LIMITS.write_bytes);
    for _ in 0..4 {
        world.end(0).unwrap();
    }
    while !world.service.queue.is_empty() {
        world.end(0).unwrap();
    }
    assert_eq!(world.toy.finished.len(), 2);
    world.assert_idle();
}

#[test]
fn what_needs_no_more_submits_no_more() {
    let mut world = World::<EachPass>::new();
    let plan = Plan::Clear(clears(0, 20 * u64::from(CHUNK), CHUNK));
    let slot = world.start(1, 0, plan, Delivery::Verdict);
    assert_eq!(world.service.queue.len(), LIMITS.window as usize);
    world.toy.engine.request(slot).issued = true;
    world.end(0).unwrap();
    world.end_pass();
    assert_eq!(world.service.queue.len(), LIMITS.window as usize - 1);
    world.run();
    assert_eq!(world.toy.finished, [(1, None, 0)]);
    world.assert_idle();
}

/// Random requests, ends, errors and cancellations: every request that is not given up ends once, with all of what it
/// asked for or an error; limits hold; at the end nothing is held. Requests of all kinds get their turn.
fn storm<K: Kind>(seed: u64) {
    let mut world = World::<K>::new();
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    // Name, what it reads; and those under way.
    let mut asked: BTreeMap<u64, (Option<u64>, Delivery)> = BTreeMap::new();
    let mut given_up = Vec::new();
    let mut name = 0;
    for _ in 0..2_000 {
        match random(8) {
            0..3 if !world.toy.engine.is_full() => {
                name += 1;
                let (offset, length) = (random(SIZE / 2), 1 + random(180_000));
                let cut = pieces(offset, length, CHUNK);
                let (plan, delivery) = match random(6) {
                    0 => (Plan::Read(cut), Delivery::InOrder),
                    1 => (Plan::Read(cut), Delivery::AnyOrder),
                    2 => (Plan::ReadWhole(cut), Delivery::Whole),
                    3 => (Plan::Read(cut), Delivery::Verdict),
                    4 => (
                        Plan::Zero(zeroes(offset, length, CHUNK, random(2) == 0)),
                        Delivery::Verdict,
                    ),
                    _ => (Plan::Clear(clears(offset, length * 8, CHUNK)), Delivery::Verdict),
                };
                let reads = (delivery != Delivery::Verdict).then_some(length);
                asked.insert(name, (reads, delivery));
                let slot = world.start(name, offset, plan, delivery);
                let is_here = |request: &mut Request<Toy<K>>| request.own.name == name;
                if random(16) == 0 && world.toy.engine.busy(slot).is_some_and(is_here) {
                    world.toy.engine.free(slot);
                    given_up.push(name);
                }
            }
            3..7 if !world.service.queue.is_empty() => {
                let index = random(world.service.queue.len() as u64) as usize;
                match random(12) {
                    0 => world.end_with(index, IoError::Busy).unwrap(),
                    1 => world.end_with(index, IoError::NoSpace).unwrap(),
                    _ => world.end(index).unwrap(),
                }
            }
            _ => {
                world.now = world.now.plus(Duration::from_millis(1));
                world.with(|toy, cx| toy.retry(cx));
                world.end_pass();
            }
        }
        world.check();
    }
    while !world.toy.engine.is_empty() {
        world.now = world.now.plus(Duration::from_millis(2));
        world.with(|toy, cx| toy.retry(cx));
        world.end_pass();
        assert!(
            !world.service.queue.is_empty(),
            "requests are left that nothing carries on"
        );
        world.run();
    }
    world.run();
    world.assert_idle();
    let mut ended: Vec<u64> = world
        .toy
        .finished
        .iter()
        .map(|end| end.0)
        .chain(given_up.clone())
        .collect();
    ended.sort_unstable();
    assert_eq!(ended, asked.keys().copied().collect::<Vec<_>>(), "each ends once");
    for (name, failure, kept) in &world.toy.finished {
        let (reads, delivery) = asked[name];
        let got = world.toy.delivered.iter().filter(|part| part.0 == *name);
        assert!(got.clone().filter(|part| part.3).count() <= 1, "one is the last");
        let bytes = got.map(|part| part.2).sum::<u64>() + *kept as u64;
        if let (Some(length), None) = (reads, failure) {
            assert_eq!(bytes, length, "{name} by {delivery:?}");
        }
    }
    assert!(world.toy.finished.len() > 50, "most get through");
}

#[test]
fn nothing_is_lost_answered_twice_or_starved_from_pass_to_pass() {
    (0..20).for_each(storm::<EachPass>);
}

#[test]
fn nothing_is_lost_answered_twice_or_starved_at_once() {
    (0..20).for_each(storm::<AtOnce>);
}
