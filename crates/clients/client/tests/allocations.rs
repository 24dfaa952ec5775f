//! A warm client allocates nothing for an I/O: neither the session, nor the core beneath it, which runs in this thread.

mod world;

use amita_client::{Done, Local, Volume};
use amita_testkit::allocations::{self, Counting};
use world::{World, reap};

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

fn allocations(bytes: usize, depth: u64) -> u64 {
    let world = World::new(3);
    let mut local = world.local();
    let volume = local.open("v").unwrap();
    local.flush(&volume, 0).unwrap();
    reap(&mut local, 1);
    let mut done = Vec::with_capacity(2 * depth as usize);
    for _ in 0..100 {
        round(&mut local, &volume, bytes, depth, &mut done);
    }
    let before = allocations::count();
    const ROUNDS: u64 = 50;
    for _ in 0..ROUNDS {
        round(&mut local, &volume, bytes, depth, &mut done);
    }
    let count = allocations::count() - before;
    eprintln!(
        "{count} allocations for {} requests of {bytes} bytes",
        2 * ROUNDS * depth
    );
    count
}

/// What goes on beside I/O: a record that changes, a lease that is renewed, are told to the core and allocate.
const BESIDE: u64 = 100;

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
    const PIECES: u64 = 2 * 50 * 4 * (512 / 128);
    let count = allocations(512 << 10, 4);
    assert!(count < PIECES * 4 + BESIDE, "{count} allocations for {PIECES} pieces");
}
