//! The allocator counts what this thread does, and nothing else.

use amita_testkit::allocations::{self, Counting};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn during(what: impl FnOnce()) -> u64 {
    let before = allocations::count();
    what();
    allocations::count() - before
}

#[test]
fn each_kind_of_allocation_counts_once() {
    assert_eq!(during(|| drop(black_box(Box::new(1_u64)))), 1);
    assert_eq!(during(|| drop(black_box(vec![0_u8; 4096]))), 1, "zeroed");
    let mut grows = Vec::with_capacity(1);
    grows.push(1_u8);
    assert_eq!(during(|| grows.reserve_exact(100)), 1, "reallocated");
    assert_eq!(during(|| ()), 0);
}

#[test]
fn the_largest_is_known_until_it_is_forgotten() {
    drop(black_box(vec![1_u8; 5000]));
    assert!(allocations::largest() >= 5000);
    allocations::forget_largest();
    drop(black_box(vec![1_u8; 700]));
    assert_eq!(allocations::largest(), 700);
}

#[test]
fn other_threads_do_not_count() {
    let thread = std::thread::spawn(|| {
        std::thread::park();
        drop(black_box(vec![1_u8; 100]));
    });
    let count = during(|| thread.thread().unpark());
    thread.join().expect("it ends");
    assert_eq!(count, 0);
}
