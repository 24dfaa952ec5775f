//! The queue is bounded, and each trace comes through once.

use super::*;
use crate::spans::tests::{kept, trace};
use amita_reactor::Time;
use amita_types::io::Op;
use proptest::prelude::*;

fn numbered(number: u64) -> amita_node::trace::Trace {
    let mut one = trace(Op::Allocation { offset: 0 });
    one.number = number;
    one
}

fn numbers(traces: &[Kept]) -> Vec<u64> {
    traces.iter().map(|kept| kept.trace.number).collect()
}

#[test]
fn the_oldest_go_for_the_newest() {
    let mut queue = Queue::new(3);
    let all = |range: std::ops::Range<u64>| range.map(|n| kept(numbered(n))).collect::<Vec<_>>();
    assert_eq!(queue.push(all(1..3)), 0);
    assert_eq!(queue.push(all(3..6)), 2);
    assert_eq!(queue.len(), 3);
    assert_eq!(numbers(&queue.take(2)), [3, 4]);
    assert_eq!(numbers(&queue.take(9)), [5]);
    assert!(queue.is_empty() && queue.take(9).is_empty());
}

/// A core's two rings, each of so many traces, as `amita_node::trace` keeps them.
#[derive(Default)]
struct Rings {
    all: Vec<(u64, bool, bool)>,
}

impl Rings {
    fn keep(&mut self, is_traced: bool, is_slow: bool) {
        self.all.push((self.all.len() as u64 + 1, is_traced, is_slow));
    }

    fn after(&self, number: u64, size: usize) -> Vec<u64> {
        let traced = self.all.iter().filter(|one| one.1).rev().take(size);
        let slow = self.all.iter().filter(|one| one.2).rev().take(size);
        let mut kept: Vec<u64> = traced.chain(slow).map(|one| one.0).filter(|n| *n > number).collect();
        kept.dedup();
        kept
    }
}

proptest! {
    /// Whatever a core keeps, and whenever it is asked or does not answer: each trace comes once or is counted as lost, never both.
    #[test]
    fn each_trace_comes_once_or_is_counted(
        steps in proptest::collection::vec((0usize..6, any::<bool>(), any::<bool>(), any::<bool>()), 1..60),
        size in 1usize..5,
    ) {
        let (mut rings, mut cursor) = (Rings::default(), Cursor::default());
        let (mut seen, mut lost) = (Vec::new(), 0);
        for (count, is_traced, is_slow, answers) in steps {
            for _ in 0..count {
                rings.keep(is_traced || !is_slow, is_slow);
            }
            if !answers {
                continue;
            }
            let after = cursor.after().get(2).copied().unwrap_or(0);
            let mut answer = KeptTraces {
                core: 2,
                now: Time(1),
                last: rings.all.len() as u64,
                traces: rings.after(after, size).into_iter().map(numbered).collect(),
                volumes: Vec::new(),
                nodes: Vec::new(),
            };
            let (traces, more_lost) = cursor.take(&mut answer);
            seen.extend(traces.iter().map(|trace| trace.number));
            lost += more_lost;
            prop_assert_eq!(seen.len() as u64 + lost, rings.all.len() as u64);
        }
        prop_assert!(seen.is_sorted_by(|one, next| one < next), "{:?}", seen);
    }
}

/// What is told again (an answer that came too late for its question) is not taken again.
#[test]
fn what_was_told_before_is_passed_over() {
    let mut cursor = Cursor::default();
    let answer = |last: u64, numbers: &[u64]| KeptTraces {
        core: 0,
        now: Time(1),
        last,
        traces: numbers.iter().copied().map(numbered).collect(),
        volumes: Vec::new(),
        nodes: Vec::new(),
    };
    let told = |cursor: &mut Cursor, mut answer: KeptTraces| {
        let (traces, lost) = cursor.take(&mut answer);
        (traces.iter().map(|trace| trace.number).collect::<Vec<_>>(), lost)
    };
    assert_eq!(told(&mut cursor, answer(4, &[3, 2, 4])), (vec![2, 3, 4], 1));
    assert_eq!(told(&mut cursor, answer(4, &[3, 2, 4])), (vec![], 0));
    assert_eq!(told(&mut cursor, answer(3, &[3])), (vec![], 0));
    assert_eq!(told(&mut cursor, answer(6, &[4, 5, 6])), (vec![5, 6], 0));
    assert_eq!(cursor.after(), [6]);
}
