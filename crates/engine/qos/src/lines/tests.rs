//! Lines keep their order, and share what there is by classes and weights all the same.

use super::{LineId, Lines, Standings};
use crate::depth::DepthLimits;
use crate::faults::{Fault, Faults};
use crate::limits::{Cost, Direction};
use crate::scheduler::{Class, Config, Ticket};
use amita_reactor::Time;
use amita_testkit::Random;
use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
const BYTES: u32 = 4096;

fn standings(weight: u16) -> Standings {
    Standings {
        weight: NonZeroU16::new(weight).unwrap(),
        reservation: 0,
        latency_target: None,
    }
}

/// What was put in: by which line, of which class, as the how manieth of that line.
type Item = (usize, Class, u64);

/// A device that does so many of 4 KiB a second, `depth` of them at once, and lines that always have `keep` of each class waiting.
struct Bed {
    lines: Lines<Item>,
    ids: Vec<LineId>,
    keep: Vec<Vec<(Class, usize)>>,
    came: Vec<u64>,
    waiting: Vec<Vec<usize>>,
    served: Vec<Vec<u64>>,
    /// The next one of each line that may go.
    next: Vec<u64>,
    under_way: VecDeque<Ticket>,
    longest: Duration,
    now: u64,
    each: u64,
}

impl Bed {
    fn new(per_second: u64, depth: u32, faults: Faults) -> Bed {
        let depth = DepthLimits {
            least: depth,
            most: depth,
        };
        let config = Config {
            operation_bytes: 0,
            depth,
            faults,
            ..Config::default()
        };
        Bed {
            lines: Lines::new(config),
            ids: Vec::new(),
            keep: Vec::new(),
            came: Vec::new(),
            waiting: Vec::new(),
            served: Vec::new(),
            next: Vec::new(),
            under_way: VecDeque::new(),
            longest: Duration::ZERO,
            now: 0,
            each: SECOND / per_second,
        }
    }

    fn line(&mut self, of: Standings, keep: &[(Class, usize)]) -> usize {
        self.ids.push(self.lines.add(of));
        self.keep.push(keep.to_vec());
        self.came.push(0);
        self.next.push(0);
        self.waiting.push(vec![0; Class::ALL.len()]);
        self.served.push(vec![0; Class::ALL.len()]);
        self.ids.len() - 1
    }

    fn put(&mut self, at: usize, class: Class) {
        let item = (at, class, self.came[at]);
        let cost = Cost::piece(Direction::Read, BYTES);
        self.lines
            .push(Time(self.now), self.ids[at], class, item, cost)
            .unwrap();
        self.came[at] += 1;
        self.waiting[at][class as usize] += 1;
    }

    fn fill(&mut self) {
        for at in 0..self.ids.len() {
            for (class, keep) in self.keep[at].clone() {
                while self.waiting[at][class as usize] < keep {
                    self.put(at, class);
                }
            }
        }
    }

    /// Takes what goes, in the order of its line.
    fn take(&mut self) {
        while let Some(handed) = self.lines.take() {
            let (at, class, number) = handed.item;
            let turn = handed.turn.expect("it stood in a line");
            assert_eq!((number, class), (self.next[at], turn.class), "of line {at}");
            self.next[at] += 1;
            self.waiting[at][class as usize] -= 1;
            self.served[at][class as usize] += 1;
            self.longest = self.longest.max(turn.waited);
            self.under_way.push_back(turn.ticket);
        }
    }

    /// For so long; what was served meanwhile.
    fn run(&mut self, ns: u64) -> Vec<Vec<u64>> {
        let (before, end) = (self.served.clone(), self.now + ns);
        while self.now < end {
            self.fill();
            self.lines.go(Time(self.now));
            self.take();
            self.now += self.each;
            let ticket = self.under_way.pop_front().expect("something always goes");
            self.lines.done(Time(self.now), ticket);
        }
        let since =
            |(now, before): (&Vec<u64>, Vec<u64>)| now.iter().zip(before).map(|(now, before)| now - before).collect();
        self.served.iter().zip(before).map(since).collect()
    }
}

/// Within 5 %.
fn near(is: u64, should: u64) -> bool {
    is * 100 >= should * 95 && is * 100 <= should * 105
}

#[test]
fn lines_share_by_weight() {
    let mut bed = Bed::new(10_000, 8, Faults::NONE);
    for weight in [100, 200, 500] {
        bed.line(standings(weight), &[(Class::Client, 12)]);
    }
    let served = bed.run(SECOND);
    let of = |at: usize| served[at][Class::Client as usize];
    assert!(
        near(of(0), 1_250) && near(of(1), 2_500) && near(of(2), 6_250),
        "{served:?}"
    );
    assert_eq!(bed.lines.tally().overtakes, 0);
}

#[test]
fn a_reservation_is_kept_whatever_others_want() {
    let mut bed = Bed::new(10_000, 4, Faults::NONE);
    let reserved = Standings {
        reservation: 4_000 * u64::from(BYTES),
        ..standings(1)
    };
    bed.line(reserved, &[(Class::Client, 8)]);
    bed.line(standings(1000), &[(Class::Client, 64)]);
    let served = bed.run(2 * SECOND);
    assert!(served[0][Class::Client as usize] >= 7_600, "{served:?}");
}

#[test]
fn a_rebuild_of_one_volume_ends_beside_clients_of_others_that_are_never_idle() {
    let mut bed = Bed::new(10_000, 4, Faults::NONE);
    bed.line(standings(100), &[(Class::Recovery, 4)]);
    for _ in 0..20 {
        bed.line(standings(1000), &[(Class::Client, 16)]);
    }
    let served = bed.run(2 * SECOND);
    // A rebuild's part of what is shared with clients: 12 of 76, whatever their number and weights.
    assert!(
        near(served[0][Class::Recovery as usize], 20_000 * 12 / 76),
        "{served:?}"
    );
}

#[test]
fn a_volume_that_mixes_classes_takes_nothing_of_others_parts() {
    for mends in [1, 8, 32] {
        let mut bed = Bed::new(10_000, 4, Faults::NONE);
        bed.line(standings(100), &[(Class::Client, 8), (Class::Recovery, mends)]);
        bed.line(standings(100), &[(Class::Client, 8)]);
        bed.line(standings(100), &[(Class::Recovery, 4)]);
        let served = bed.run(2 * SECOND);
        assert!(
            near(served[1][Class::Client as usize], 20_000 * 64 / 76 / 2),
            "{served:?}"
        );
        assert!(
            near(served[2][Class::Recovery as usize], 20_000 * 12 / 76 / 2),
            "{served:?}"
        );
        assert!(bed.lines.tally().pulled > 0 && served[0][Class::Recovery as usize] > 0);
    }
}

#[test]
fn what_must_not_go_before_it_goes_with_what_does_not_wait() {
    let mut bed = Bed::new(10_000, 1, Faults::NONE);
    let (a, b) = (bed.line(standings(1), &[]), bed.line(standings(1), &[]));
    for class in [Class::Client, Class::Scrub, Class::Client, Class::Recovery] {
        bed.put(a, class);
    }
    bed.put(b, Class::Client);
    bed.lines.pull(Time(0), bed.ids[a], |&(_, _, number)| number == 2);
    bed.take();
    assert_eq!(bed.next, [3, 0]);
    assert_eq!((bed.lines.waiting(), bed.lines.depth()), (2, (3, 1)));
    // More is under way than may be: nothing goes by its turn until less is.
    bed.lines.go(Time(0));
    bed.take();
    assert_eq!(bed.next, [3, 0]);
    assert!(!bed.lines.is_due());
    for _ in 0..3 {
        let ticket = bed.under_way.pop_front().unwrap();
        bed.lines.done(Time(1), ticket);
    }
    assert!(bed.lines.is_due());
    bed.lines.pull_all(Time(1), |_| true);
    bed.take();
    assert_eq!((bed.next.as_slice(), bed.lines.waiting()), (&[4, 1][..], 0));
    assert!(bed.lines.is_empty(bed.ids[a]));
    bed.lines.remove(Time(1), bed.ids[a]);
}

#[test]
fn nothing_waits_for_longer_than_is_said() {
    let mut bed = Bed::new(1_000, 1, Faults::NONE);
    bed.line(standings(1), &[(Class::Client, 1)]);
    bed.line(standings(1000), &[(Class::Client, 8)]);
    let longest = Duration::from_millis(20);
    for _ in 0..500 {
        bed.run(1_000_000);
        bed.lines.hurry(Time(bed.now), longest);
        bed.take();
    }
    assert!(bed.longest <= longest + Duration::from_millis(2), "{:?}", bed.longest);
    assert!(bed.served[0][Class::Client as usize] >= 400 / 20, "{:?}", bed.served);
}

#[test]
fn the_order_of_a_line_holds_whatever_is_done() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut bed = Bed::new(10_000, 1 + random.below(4) as u32, Faults::NONE);
        for _ in 0..1 + random.below(4) {
            bed.line(standings(1 + random.below(1000) as u16), &[]);
        }
        for _ in 0..2_000 {
            let at = random.below(bed.ids.len() as u64) as usize;
            bed.now += random.below(50_000);
            match random.below(10) {
                0..=4 => bed.put(at, Class::ALL[random.below(Class::ALL.len() as u64) as usize]),
                5 => {
                    let weight = 1 + random.below(1000) as u16;
                    bed.lines.set(Time(bed.now), bed.ids[at], standings(weight));
                }
                6 => {
                    let most = random.below(1 + bed.came[at]);
                    bed.lines
                        .pull(Time(bed.now), bed.ids[at], |&(_, _, number)| number <= most);
                }
                7 => {
                    let longest = Duration::from_millis(random.below(4));
                    bed.lines.hurry(Time(bed.now), longest);
                    let mut waiting = bed.lines.lines.iter().flat_map(|line| &line.waiting);
                    assert!(waiting.all(|waiting| Time(bed.now).since(waiting.came) < longest));
                }
                _ => {
                    if let Some(ticket) = bed.under_way.pop_front() {
                        bed.lines.done(Time(bed.now), ticket);
                    }
                }
            }
            bed.lines.go(Time(bed.now));
            bed.take();
        }
        bed.lines.pull_all(Time(bed.now), |_| true);
        bed.take();
        assert_eq!(bed.next, bed.came);
        assert_eq!((bed.lines.waiting(), bed.lines.tally().overtakes), (0, 0));
    }
}

#[test]
fn an_overtaking_is_counted() {
    let mut bed = Bed::new(10_000, 1, Faults::NONE.with(Fault::OvertakeInLine));
    let line = bed.line(standings(1), &[]);
    for _ in 0..3 {
        bed.put(line, Class::Client);
    }
    bed.lines.go(Time(0));
    assert_eq!(bed.lines.take().map(|handed| handed.item.2), Some(2));
    assert!(bed.lines.tally().overtakes > 0);
}
