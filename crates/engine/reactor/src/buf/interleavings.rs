//! Every interleaving of a few steps, under loom: a block goes back with its last view and not before, what a view saw
//! came before what the next owner writes, and the free list gives no block to two.
//!
//! loom does not see the bytes of a mapping; so a cell stands for the bytes of each block, and is written and read as
//! they would be. It tries another order only where two threads' *last* accesses to an atomic depend on each other: a read
//! here is hidden from it by a read there that comes before the write there. So what begins with a read here is tried
//! twice, the second time after it gave way.

use super::*;
use crate::sync::{Arc, UnsafeCell};
use loom::model::Builder;
use loom::{model, thread};

/// Tries every interleaving of what is given, which may give way at one point (see above) or not.
fn both_ways(test: fn(give_way: fn())) {
    model(move || test(|| ()));
    model(move || test(thread::yield_now));
}

/// The bytes of each block of a pool, as loom sees them.
struct Bytes(Vec<UnsafeCell<u32>>, usize);

impl Bytes {
    /// A pool of so many blocks. It stays mapped as long as a view of it.
    fn pool(blocks: usize) -> (Pool, Arc<Bytes>) {
        let pool = Pool::new(PoolConfig {
            classes: vec![(BLOCK_ALIGNMENT, blocks)],
            hosts: Vec::new(),
            huge_pages: false,
        })
        .unwrap();
        let base = pool.mapping().unwrap().0;
        let cells = (0..blocks).map(|_| UnsafeCell::new(0)).collect();
        (pool, Arc::new(Bytes(cells, base)))
    }

    fn cell(&self, address: *const u8) -> &UnsafeCell<u32> {
        &self.0[(address.addr() - self.1) / BLOCK_ALIGNMENT]
    }

    fn write(&self, view: &BufMut, value: u32) {
        // SAFETY: loom checks that nobody else is at it.
        self.cell(view.as_ptr()).with_mut(|cell| unsafe { *cell = value });
    }

    fn read(&self, view: &Slice) -> u32 {
        // SAFETY: as above.
        self.cell(view.as_ptr()).with(|cell| unsafe { *cell })
    }
}

#[test]
fn the_next_owner_writes_after_the_last_view_was_read() {
    both_ways(|give_way| {
        let (pool, bytes) = Bytes::pool(1);
        let buffer = pool.take(1).unwrap();
        bytes.write(&buffer, 1);
        let here = buffer.freeze();
        let there = here.clone();
        let seen = bytes.clone();
        let reading = thread::spawn(move || {
            assert_eq!(seen.read(&there), 1);
            drop(there);
        });
        assert_eq!(bytes.read(&here), 1);
        give_way();
        drop(here);
        if let Some(buffer) = pool.take(1) {
            bytes.write(&buffer, 2);
        }
        reading.join().unwrap();
        bytes.write(&pool.take(1).expect("both views are gone"), 3);
    });
}

#[test]
fn who_takes_the_bytes_back_writes_after_the_last_view_was_read() {
    both_ways(|give_way| {
        let (pool, bytes) = Bytes::pool(1);
        let mut buffer = pool.take(100).unwrap();
        bytes.write(&buffer, 1);
        let front = buffer.split_to(10);
        let seen = bytes.clone();
        let reading = thread::spawn(move || {
            assert_eq!(seen.read(&front), 1);
            drop(front);
        });
        give_way();
        if buffer.reclaim() {
            bytes.write(&buffer, 2);
        }
        reading.join().unwrap();
        assert!(buffer.reclaim(), "the other view is gone");
    });
}

#[test]
fn views_that_are_cloned_and_dropped_anywhere_end_once() {
    both_ways(|give_way| {
        let (pool, _) = Bytes::pool(1);
        let here = pool.take(1).unwrap().freeze();
        let there = here.clone();
        let cloning = thread::spawn(move || {
            let again = there.clone();
            drop(there);
            drop(again);
        });
        drop(here.clone());
        give_way();
        drop(here);
        cloning.join().unwrap();
        assert!(pool.take(1).is_some());
    });
}

#[test]
fn a_free_list_gives_no_block_to_two() {
    // Every interleaving in which threads are interrupted up to three times: the list that is changed and changed back
    // (the count in its head) needs two.
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let (pool, bytes) = Bytes::pool(2);
        let (others, seen) = (pool.clone(), bytes.clone());
        let taking = thread::spawn(move || {
            let first = others.take(1);
            let second = others.take(1);
            for view in first.iter().chain(&second) {
                seen.write(view, 1);
            }
            drop(first);
            if let Some(view) = &second {
                seen.write(view, 2);
            }
        });
        let first = pool.take(1);
        let second = pool.take(1);
        for view in first.iter().chain(&second) {
            bytes.write(view, 3);
        }
        drop((first, second));
        taking.join().unwrap();
        let all = [pool.take(1), pool.take(1), pool.take(1)];
        assert_eq!(all.iter().flatten().count(), 2, "none lost, none doubled");
    });
}

#[test]
fn a_pool_may_go_before_or_after_its_last_view() {
    model(|| {
        let (pool, bytes) = Bytes::pool(1);
        let buffer = pool.take(1).unwrap();
        let writing = thread::spawn(move || {
            bytes.write(&buffer, 1);
            drop(buffer);
        });
        drop(pool);
        writing.join().unwrap();
    });
}
