//! A warm sequencer allocates nothing for a write or a read.

mod common;

use amita_reactor::Slice;
use amita_sequencer::{Config, IoId, Sequencer};
use amita_testkit::allocations::{self, Counting};
use amita_types::io::Op;
use amita_types::{BLOCK_BYTES, StoreId};
use common::{SERVER, Stores, opened};

/// Of a round of messages.
const TRIP_NS: u64 = 20_000;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn round(sequencer: &mut Sequencer, stores: &mut Stores) {
    for index in 0..64u64 {
        let offset = index * 12_345 % 16_000 * u64::from(BLOCK_BYTES);
        let io = IoId(index);
        let length = BLOCK_BYTES;
        match index % 3 {
            0 => sequencer.submit(stores.now, io, Op::Write { offset, length }, stores.block.clone()),
            1 => sequencer.submit(stores.now, io, Op::Read { offset, length }, Slice::default()),
            _ => sequencer.submit(
                stores.now,
                io,
                Op::Clear {
                    offset,
                    length: u64::from(length),
                },
                Slice::default(),
            ),
        }
        if index % 16 == 15 {
            stores.settle(sequencer, TRIP_NS);
        }
    }
    // All rounds together stay below a second: the look at the stores' health, once a second, takes memory of its own.
    stores.now.0 += 10_000_000;
    if sequencer.deadline().is_some_and(|due| due <= stores.now) {
        sequencer.tick(stores.now);
    }
    stores.settle(sequencer, TRIP_NS);
}

#[test]
fn a_warm_sequencer_allocates_nothing() {
    let block = Slice::copy_from(&[5; BLOCK_BYTES as usize]);
    let sum = crc32c_of(&block);
    let mut stores = Stores::new(block, sum, 4);
    let mut sequencer = Sequencer::new(Config::default(), opened(16, 4), 1 << 40, stores.now);
    for store in 1..=3 {
        sequencer.store_up(stores.now, StoreId(store), SERVER);
    }
    for _ in 0..3 {
        round(&mut sequencer, &mut stores);
    }
    let before = allocations::count();
    for _ in 0..50 {
        round(&mut sequencer, &mut stores);
    }
    let allocated = allocations::count() - before;
    assert_eq!(stores.done, 53 * 64);
    assert_eq!(allocated, 0, "{allocated} allocations for {} I/Os", 50 * 64);
}

/// CRC-32C, bit by bit: the test stands apart from the crate's own.
fn crc32c_of(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}
