//! The images that damage begins with: valid, small, and made by the code that is tested (but for the fixture).

use crate::common::fixture::{Fixture, Owner, owner};
use crate::common::{BLOCK, Disk, Rig, Rng, STORE, image, params, sums};
use amita_reactor::{Pool, Time};
use amita_store::{Config, State};
use amita_types::message::{self, AnswerBody, ClearRequest, RequestBody, RollRequest, WriteRequest};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, Version};
use std::sync::OnceLock;

pub const SIZE_BYTES: u64 = 1 << 20;
/// Chunks of each volume that are looked into.
pub const CHUNKS: u64 = 9;

/// A valid image, and who owns its volumes.
#[derive(Debug)]
pub struct Base {
    pub image: Vec<u8>,
    pub owners: Vec<Owner>,
}

/// How many there are.
pub const COUNT: usize = 4;

/// 0: fresh; 1: a log and no checkpoint; 2: a checkpoint and a log that has wrapped; 3: the fixture of this version.
pub fn base(which: usize) -> &'static Base {
    static BASES: [OnceLock<Base>; COUNT] = [const { OnceLock::new() }; COUNT];
    BASES[which % COUNT].get_or_init(|| match which % COUNT {
        0 => played(0),
        1 => played(25),
        2 => played(120),
        _ => {
            let fixture = Fixture::parse(include_str!("../fixtures/store-v1.txt"));
            Base {
                image: fixture.image,
                owners: fixture.owners,
            }
        }
    })
}

/// So many changes, each in a batch of its own but for a few; then the power fails, with two batches under way.
fn played(changes: usize) -> Base {
    let disk = Disk::new(image(&params(SIZE_BYTES)), false);
    let mut owners = vec![
        owner(7, 1, 11, (1, 0), 1, 1024, vec![STORE.0, STORE.0 + 1]),
        owner(9, 3, 12, (2, 1), 4, 128, vec![STORE.0]),
    ];
    if changes == 0 {
        return Base {
            image: disk.durable,
            owners,
        };
    }
    let mut rig = Rig::open(disk, Config::default(), Time(1), 1, Pool::heap());
    rig.run();
    assert_eq!(*rig.store.state(), State::Serving);
    for owner in &mut owners {
        assert_eq!(owner.fence(&mut rig), Ok(AnswerBody::Fenced));
    }
    let mut rng = Rng(changes as u64);
    let mut versions = [[Version::NONE; CHUNKS as usize]; 2];
    for number in 0..changes {
        let (volume, chunk) = (number % 2, rng.below(CHUNKS as usize));
        let owner = &mut owners[volume];
        let previous = versions[volume][chunk];
        let version = previous.next(owner.asker.generation).expect("few writes");
        versions[volume][chunk] = version;
        let (body, payload) = change(&mut rng, chunk as u64, version, previous);
        let request = owner.request(body);
        rig.send(owner.asker.link, request, amita_reactor::Slice::copy_from(&payload));
        if number + 2 >= changes {
            rig.store.end_pass(rig.now);
            rig.pump();
        } else if !rng.chance(4) {
            rig.run();
        }
    }
    while !rig.flights.is_empty() {
        rig.complete(0);
    }
    let done = std::mem::take(&mut rig.told);
    assert!(done.iter().all(|told| told.answer.result == Ok(AnswerBody::Done)));
    Base {
        image: rig.disk.durable,
        owners,
    }
}

fn change(rng: &mut Rng, chunk: u64, version: Version, previous: Version) -> (RequestBody, Vec<u8>) {
    let chunk = ChunkIndex(chunk);
    let fill = |byte: usize, count: usize| vec![byte as u8; count];
    match rng.below(8) {
        0 => {
            let range = BlockRange::new(rng.below(2) as u16 * 64, 64);
            let body = RequestBody::Clear(ClearRequest {
                chunk,
                range,
                version,
                previous,
            });
            (body, Vec::new())
        }
        1 => {
            let range = BlockRange::new(rng.below(100) as u16, 1 + rng.below(28) as u16);
            let body = RequestBody::Clear(ClearRequest {
                chunk,
                range,
                version,
                previous,
            });
            (body, Vec::new())
        }
        2 => {
            let payload = fill(rng.below(256), BLOCK);
            let data = Some(amita_types::crc32c(&payload));
            let entries = [(5, data), (80, None)].map(|(block, sum)| message::Change {
                block: BlockIndex(block),
                version,
                sum,
            });
            let body = RequestBody::Roll(RollRequest {
                chunk,
                version,
                previous,
                entries: entries.to_vec(),
                first: true,
                last: true,
            });
            (body, payload)
        }
        _ => {
            // Few places, so that the store does not fill up.
            let first = rng.below(3) * 31;
            let (offset, length) = match rng.below(3) {
                0 => (first * BLOCK + 77, 100),
                1 => (first * BLOCK, 2 * BLOCK),
                _ => (first * BLOCK, BLOCK),
            };
            let payload = fill(rng.below(256), length);
            let body = RequestBody::Write(WriteRequest {
                chunk,
                offset_bytes: offset as u32,
                length_bytes: length as u32,
                version,
                previous,
                sums: sums(offset as u32, &payload),
            });
            (body, payload)
        }
    }
}
