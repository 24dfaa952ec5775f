//! Whatever is put in, taken out, changed and cancelled: beside a model that is too simple to be wrong.

use super::{client, operations};
use crate::bucket::Limit;
use crate::depth::DepthLimits;
use crate::limits::{Cost, Direction, LARGEST_BYTES};
use crate::scheduler::{Class, Config, Flow, FlowId, LimiterId, Scheduler, Standing, Ticket};
use crate::tracker::Elsewhere;
use amita_reactor::Time;
use amita_testkit::Random;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
const PLACES: usize = 200;

struct Modelled {
    id: FlowId,
    class: Class,
    limiters: Vec<usize>,
    lanes: [VecDeque<u64>; 2],
    versioned: bool,
}

impl Modelled {
    fn waiting(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }
}

/// A limit of operations, as a bucket that leaks: the one that fills, upside down.
struct Kept {
    id: LimiterId,
    limit: Limit,
    level: i128,
    at: u64,
    passed: u64,
}

const ONE: i128 = 1_000_000_000;

impl Kept {
    fn level(&self, now: u64) -> i128 {
        (self.level - i128::from(self.limit.rate()) * i128::from(now - self.at)).max(0)
    }

    fn has_room(&self, now: u64) -> bool {
        self.level(now) + ONE <= i128::from(self.limit.burst()) * ONE
    }

    fn pass(&mut self, now: u64) {
        assert!(self.has_room(now), "above rate x time + burst");
        (self.level, self.at) = (self.level(now) + ONE, now);
        self.passed += 1;
    }
}

struct Run {
    random: Random,
    scheduler: Scheduler<(usize, u64)>,
    flows: Vec<Modelled>,
    kept: Vec<Kept>,
    under_way: Vec<Ticket>,
    depth: u32,
    now: u64,
    count: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = Random::new(seed);
        let depth = random.within(1, 8) as u32;
        let mut scheduler = Scheduler::new(Config {
            waiting: PLACES,
            depth: DepthLimits {
                least: depth,
                most: depth,
            },
            operation_bytes: random.below(32 << 10) as u32,
            ..Config::default()
        });
        let mut kept = || {
            let (rate, burst) = (random.within(100, 20_000), random.within(1, 40));
            Kept {
                id: scheduler.add_limiter(Time(0), &operations(rate, burst)),
                limit: Limit::new(rate, burst).unwrap(),
                level: 0,
                at: 0,
                passed: 0,
            }
        };
        let kept = vec![kept(), kept(), kept()];
        let mut run = Run {
            random,
            scheduler,
            flows: Vec::new(),
            kept,
            under_way: Vec::new(),
            depth,
            now: 0,
            count: 0,
        };
        for _ in 0..6 {
            run.add();
        }
        run
    }

    fn settings(&mut self, class: Class, versioned: bool) -> (Flow, Vec<usize>) {
        let flow = Flow {
            class,
            reservation: *self.random.pick(&[0, 0, 1 << 20, 64 << 20]),
            standing: if versioned { Standing::Versioned } else { Standing::Free },
            ..client(self.random.within(1, 100) as u16)
        };
        let mut limiters = Vec::new();
        if !versioned {
            limiters.extend((0..3).filter(|_| self.random.percent(40)));
        }
        (flow, limiters)
    }

    fn ids(&self, limiters: &[usize]) -> Vec<LimiterId> {
        limiters.iter().map(|&at| self.kept[at].id).collect()
    }

    fn add(&mut self) {
        let (class, versioned) = (*self.random.pick(&Class::ALL), self.random.percent(30));
        let (flow, limiters) = self.settings(class, versioned);
        let id = self.scheduler.add(flow, &self.ids(&limiters)).unwrap();
        self.flows.push(Modelled {
            id,
            class,
            limiters,
            lanes: Default::default(),
            versioned,
        });
    }

    fn any_flow(&mut self) -> usize {
        self.random.below(self.flows.len() as u64) as usize
    }

    fn put(&mut self) {
        let at = self.any_flow();
        let direction = *self.random.pick(&Direction::ALL);
        let cost = Cost::piece(direction, self.random.below(LARGEST_BYTES) as u32);
        let elsewhere = Elsewhere {
            served: self.random.below(1000),
            reserved: self.random.below(1000),
        };
        let all: usize = self.flows.iter().map(Modelled::waiting).sum();
        assert_eq!(self.scheduler.waiting(), all);
        let (now, item) = (Time(self.now), (at, self.count));
        let put = self.scheduler.enqueue(now, self.flows[at].id, item, cost, elsewhere);
        assert_eq!(put.is_ok(), all < PLACES);
        if put.is_ok() {
            let flow = &mut self.flows[at];
            let lane = if flow.versioned { 0 } else { direction as usize };
            flow.lanes[lane].push_back(self.count);
            self.count += 1;
        }
    }

    /// Takes whatever goes; whatever is left then waits for room below or for a limit.
    fn take(&mut self) {
        while let Some(dispatch) = self.scheduler.next(Time(self.now)) {
            let (at, number) = dispatch.item;
            let flow = &mut self.flows[at];
            let lane = flow.lanes.iter_mut().find(|lane| lane.front() == Some(&number));
            let lane = lane.expect("what goes is the oldest of its lane");
            lane.pop_front();
            self.under_way.push(dispatch.ticket);
            for &limiter in &flow.limiters {
                self.kept[limiter].pass(self.now);
            }
        }
        assert!(self.under_way.len() <= self.depth as usize);
        if self.under_way.len() < self.depth as usize {
            let may_go = |flow: &&Modelled| {
                let mut limiters = flow.limiters.iter();
                flow.waiting() > 0 && limiters.all(|&at| self.kept[at].has_room(self.now))
            };
            assert!(!self.flows.iter().any(|flow| may_go(&flow)), "it is work-conserving");
            let waits = self.scheduler.waiting() > 0;
            assert_eq!(self.scheduler.wake_at().is_some(), waits, "who waits is woken");
        }
    }

    fn cancel(&mut self) {
        let (at, odd) = (self.any_flow(), self.random.below(2));
        let flow = &mut self.flows[at];
        let before = flow.waiting();
        for lane in &mut flow.lanes {
            lane.retain(|number| number % 2 != odd);
        }
        let gone = self.scheduler.cancel(Time(self.now), flow.id, |item| item.1 % 2 == odd);
        assert_eq!(gone, before - flow.waiting());
    }

    fn change(&mut self) {
        let at = self.any_flow();
        let (class, versioned) = (self.flows[at].class, self.flows[at].versioned);
        let (flow, limiters) = self.settings(class, versioned);
        let (now, id, ids) = (Time(self.now), self.flows[at].id, self.ids(&limiters));
        self.scheduler.set(now, id, flow, &ids).unwrap();
        self.flows[at].limiters = limiters;
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=54 => self.put(),
            55..=89 if !self.under_way.is_empty() => {
                let at = self.random.below(self.under_way.len() as u64) as usize;
                let ticket = self.under_way.swap_remove(at);
                self.scheduler.done(Time(self.now), ticket);
            }
            90..=91 => self.cancel(),
            92..=93 => self.change(),
            94 => {
                // The last one goes, and another comes in its place.
                let flow = self.flows.pop().expect("there are flows");
                self.scheduler.remove(Time(self.now), flow.id);
                self.add();
            }
            95 => {
                // The limits that there are: nothing changes.
                let kept = &self.kept[self.random.below(3) as usize];
                let limits = operations(kept.limit.rate(), kept.limit.burst());
                self.scheduler.set_limits(Time(self.now), kept.id, &limits);
            }
            _ => {
                self.now += self.random.below(2 * MS);
                if let Some(wake) = self.scheduler.wake_at().filter(|_| self.random.percent(50)) {
                    self.now = self.now.max(wake.0);
                }
            }
        }
        self.take();
    }

    /// What is left goes in the end.
    fn end(&mut self) {
        while self.scheduler.waiting() > 0 || !self.under_way.is_empty() {
            for ticket in std::mem::take(&mut self.under_way) {
                self.scheduler.done(Time(self.now), ticket);
            }
            self.take();
            if self.under_way.is_empty() {
                let wake = self.scheduler.wake_at();
                self.now = wake.map_or(self.now, |wake| wake.0.max(self.now));
                self.take();
            }
        }
    }
}

#[test]
fn it_is_work_conserving_in_order_and_within_limits() {
    let mut passed = 0;
    for seed in 0..60 {
        let mut run = Run::new(seed);
        for _ in 0..1_500 {
            run.step();
        }
        run.end();
        passed += run.kept.iter().map(|kept| kept.passed).sum::<u64>();
    }
    assert!(passed > 10_000, "{passed}");
}
