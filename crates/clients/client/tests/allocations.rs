//! A warm client allocates nothing for an I/O: neither the session, nor the core beneath it, which runs in this thread.

mod world;

use amita_client::{Done, Local, Volume};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use world::{World, reap};

struct Counting;

thread_local! {
    /// Of the test's own thread: those of the nodes and of the harness allocate when they like.
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `depth` writes and as many reads of so many bytes, over and over the same place.
fn round(local: &mut Local, volume: &Volume, bytes: usize, depth: u64, done: &mut Vec<Done>) {
    for tag in 0..depth {
        let mut buffer = local.buffer(bytes).expect("memory");
        buffer[0] = tag as u8;
        local.write(volume, tag * bytes as u64, buffer.freeze(), tag).unwrap();
    }
    take(local, done);
    for tag in 0..depth {
        local.read(volume, tag * bytes as u64, bytes as u32, tag).unwrap();
    }
    take(local, done);
}

fn take(local: &mut Local, done: &mut Vec<Done>) {
    while local.under_way() > 0 {
        local.wait(std::time::Duration::from_secs(1), done);
        for done in done.drain(..) {
            assert_eq!(done.result, Ok(()));
            local.recycle(done.payload);
        }
    }
}

fn allocations(bytes: usize, depth: u64) -> usize {
    let world = World::new(3);
    let mut local = world.local();
    let volume = local.open("v").unwrap();
    local.flush(&volume, 0).unwrap();
    reap(&mut local, 1);
    let mut done = Vec::with_capacity(2 * depth as usize);
    for _ in 0..100 {
        round(&mut local, &volume, bytes, depth, &mut done);
    }
    let before = COUNT.get();
    const ROUNDS: usize = 50;
    for _ in 0..ROUNDS {
        round(&mut local, &volume, bytes, depth, &mut done);
    }
    let count = COUNT.get() - before;
    eprintln!(
        "{count} allocations for {} requests of {bytes} bytes",
        2 * ROUNDS * depth as usize
    );
    count
}

/// What goes on beside I/O: a record that changes, a lease that is renewed, are told to the core and allocate.
const BESIDE: usize = 100;

#[test]
fn a_warm_client_does_not_allocate() {
    for bytes in [4096, 8192] {
        let count = allocations(bytes, 32);
        assert!(count < BESIDE, "{count} allocations");
    }
}

/// The checksums of a long piece do not lie in its message: a write of several blocks has one allocation for each copy
/// that it is sent to, and the answer to a read has one. The session itself adds none.
#[test]
fn a_long_request_allocates_for_the_checksums_of_its_pieces_alone() {
    const PIECES: usize = 2 * 50 * 4 * (512 / 128);
    let count = allocations(512 << 10, 4);
    assert!(count < PIECES * 4 + BESIDE, "{count} allocations for {PIECES} pieces");
}
