//! The device is told what holds nothing any more; what it makes of that harms nothing.

use crate::common::{BLOCK, Disk, Flight, Requester, Rig, Rng, image, params, version};
use amita_reactor::{FileInfo, Pool, Slice, Time};
use amita_store::{Config, Discard, State};
use amita_types::BlockRange;
use amita_types::message::{AnswerBody, ClearRequest, RequestBody, SettleRequest};
use amita_types::{ChunkIndex, Version};

const BLOCKS: u16 = 256;
const CHUNKS: u64 = 3;

struct Test {
    rig: Rig,
    asker: Requester,
    counters: [u64; CHUNKS as usize],
    /// What each block holds: one byte, repeated.
    model: Vec<Vec<u8>>,
    rng: Rng,
    fill: u8,
}

impl Test {
    fn new(seed: u64, config: Config) -> Test {
        let mut disk = Disk::new(image(&params(5 << 20)), seed % 2 == 1);
        disk.discards = true;
        let mut rig = Rig::open(disk, config, Time(1), 1, Pool::heap());
        rig.run();
        let mut asker = Requester::new(1);
        asker.fence(&mut rig).unwrap();
        Test {
            rig,
            asker,
            counters: [0; CHUNKS as usize],
            model: vec![vec![0; usize::from(BLOCKS)]; CHUNKS as usize],
            rng: Rng(seed),
            fill: 0,
        }
    }

    /// Sends a change; its I/O goes on at random.
    fn change(&mut self) {
        let chunk = self.rng.below(CHUNKS as usize);
        let counter = self.counters[chunk];
        let previous = if counter == 0 {
            amita_types::Version::NONE
        } else {
            version(1, counter)
        };
        let next = version(1, counter + 1);
        let count = 1 + self.rng.below(32) as u16;
        let first = self.rng.below(usize::from(BLOCKS - count)) as u16;
        let (request, payload) = if self.rng.chance(3) {
            self.fill = 0;
            let count = 64.min(BLOCKS - first);
            let range = BlockRange::new(first, count);
            self.model[chunk][usize::from(first)..][..usize::from(count)].fill(0);
            let body = RequestBody::Clear(ClearRequest {
                chunk: ChunkIndex(chunk as u64),
                range,
                version: next,
                previous,
            });
            (self.asker.request(body), Slice::default())
        } else {
            let fill = 1 + self.rng.below(255) as u8;
            self.model[chunk][usize::from(first)..][..usize::from(count)].fill(fill);
            let bytes = vec![fill; usize::from(count) * BLOCK];
            let offset = u32::from(first) * BLOCK as u32;
            let request = self.asker.write_request(chunk as u64, offset, &bytes, next, previous);
            (request, Slice::copy_from(&bytes))
        };
        let id = request.id;
        self.rig.send(self.asker.link, request, payload);
        self.counters[chunk] += 1;
        for _ in 0..self.rng.below(8) {
            self.rig.store.end_pass(self.rig.now);
            self.rig.pump();
            if !self.rig.flights.is_empty() {
                let at = self.rng.below(self.rig.flights.len());
                // A discard takes its time, so that what lies behind it comes round again.
                let late = matches!(self.rig.flights[at], Flight::Discard { .. }) && !self.rng.chance(20);
                if !late {
                    self.rig.complete(at);
                }
            }
        }
        while self.rig.take(self.asker.link, id).map(|told| told.answer.result) != Some(Ok(AnswerBody::Done)) {
            self.rig.store.end_pass(self.rig.now);
            self.rig.pump();
            // A discard may take as long as it likes.
            let busy = |flight: &Flight| !matches!(flight, Flight::Discard { .. });
            let at = self
                .rig
                .flights
                .iter()
                .position(busy)
                .expect("a write ends without a discard");
            self.rig.complete(at);
        }
    }

    fn right(&mut self) -> bool {
        let mut right = true;
        for chunk in 0..CHUNKS {
            for first in (0..BLOCKS).step_by(32) {
                match self.asker.read(&mut self.rig, chunk, first, 32) {
                    Ok((bytes, _)) => {
                        let blocks = bytes.chunks(BLOCK);
                        let expected = &self.model[chunk as usize][usize::from(first)..];
                        right &= blocks
                            .zip(expected)
                            .all(|(block, &fill)| block.iter().all(|&byte| byte == fill));
                    }
                    Err(_) => right = false,
                }
            }
        }
        right
    }
}

#[test]
fn what_is_discarded_was_nobodys() {
    let mut discarded = 0;
    for seed in 0..6 {
        let mut test = Test::new(seed, Config::default());
        for _ in 0..400 {
            test.change();
        }
        assert!(test.right(), "seed {seed}");
        test.rig.run();
        assert!(test.right(), "seed {seed}");
        discarded += test.rig.store.status().counters.discarded_bytes;
        let status = test.rig.store.status();
        let used = (status.capacity_bytes - status.free_bytes) / BLOCK as u64;
        assert_eq!(used, status.blocks + status.leaf_pages);
        // A power cut finds all that was acknowledged.
        let image = test.rig.cut(&mut test.rng);
        test.rig = test.rig.reopened(image);
        test.rig.run();
        assert_eq!(*test.rig.store.state(), State::Serving);
        test.asker.fence(&mut test.rig).unwrap();
        assert!(test.right(), "seed {seed}");
    }
    assert!(discarded > 4 << 20, "{discarded} bytes were discarded");
}

#[cfg(feature = "planted")]
#[test]
fn without_the_pin_a_late_discard_erases_a_new_block() {
    let faults = amita_store::Faults::NONE.with(amita_store::Fault::DiscardUnpinned);
    let config = Config {
        faults,
        ..Config::default()
    };
    let found = (0..20).any(|seed| {
        let mut test = Test::new(seed, config.clone());
        for _ in 0..400 {
            test.change();
            if test.rig.flights.is_empty() && !test.right() {
                return true;
            }
        }
        test.rig.run();
        !test.right()
    });
    assert!(found);
}

#[test]
fn a_file_is_punched_only_on_demand_and_flushed_from_then_on() {
    for (discard, punches) in [
        (Discard::Never, false),
        (Discard::Devices, false),
        (Discard::Always, true),
    ] {
        let config = Config {
            discard,
            ..Config::default()
        };
        let disk = Disk::new(image(&params(4 << 20)), false);
        let file = FileInfo {
            size_bytes: disk.view.len() as u64,
            alignment: 1,
            volatile_cache: false,
            inline: false,
            discard: true,
            discard_makes_holes: true,
            holes: false,
        };
        let mut rig = Rig::open(disk, config.clone(), Time(1), 1, Pool::heap());
        rig.store = amita_store::Store::open(config, file, Pool::heap());
        rig.run();
        let mut asker = Requester::new(1);
        asker.fence(&mut rig).unwrap();
        let bytes = vec![1; 32 * BLOCK];
        for counter in 0..40 {
            let previous = if counter == 0 {
                amita_types::Version::NONE
            } else {
                version(1, counter)
            };
            asker
                .write(&mut rig, 0, 0, &bytes, version(1, counter + 1), previous)
                .unwrap();
        }
        let counters = rig.store.status().counters;
        assert_eq!(counters.discarded_bytes > 0, punches, "{discard:?}");
        assert_eq!(counters.flushes > 0, punches, "{discard:?}");
        // Also when the store is mounted anew.
        rig.store.mount_anew();
        rig.run();
        assert_eq!(*rig.store.state(), State::Serving);
        asker.fence(&mut rig).unwrap();
        let counters = rig.store.status().counters;
        assert_eq!(counters.discarded_bytes, 0);
        assert_eq!(counters.flushes > 0, punches, "{discard:?}");
    }
}

/// What is granted finds its slots while a discard lasts.
#[test]
fn what_is_granted_is_not_discarded() {
    let mut test = Test::new(1, Config::default());
    let Test { rig, asker, .. } = &mut test;
    let blocks = |rig: &Rig| rig.store.status().blocks;
    let capacity = rig.store.status().capacity_bytes / BLOCK as u64;
    let bytes = vec![7; 32 * BLOCK];
    // The first ten are cleared, and most of the rest stays.
    let mut at = 0;
    while blocks(rig) + 80 < capacity {
        let (chunk, first) = (at / 10, at % 10 * 32);
        let previous = if at % 10 == 0 {
            Version::NONE
        } else {
            version(1, at % 10)
        };
        asker
            .write(
                rig,
                chunk,
                first as u32 * BLOCK as u32,
                &bytes,
                version(1, at % 10 + 1),
                previous,
            )
            .unwrap();
        at += 1;
    }
    let back = asker.request(RequestBody::Settle(SettleRequest { want: 0, back: 4096 }));
    asker.ask(rig, back, Slice::default());
    let clear = asker.request(RequestBody::Clear(ClearRequest {
        chunk: ChunkIndex(0),
        range: BlockRange::new(0, 320),
        version: version(1, 11),
        previous: version(1, 10),
    }));
    rig.send(asker.link, clear, Slice::default());
    // Others take all that there is before a discard of what was cleared begins.
    let mut others: Vec<(Requester, u32)> = (10..30).map(|link| (Requester::new(link), 0)).collect();
    let discarding = |rig: &Rig| {
        rig.flights
            .iter()
            .any(|flight| matches!(flight, Flight::Discard { .. }))
    };
    for _ in 0..100 {
        for (other, granted) in &mut others {
            let want = other.request(RequestBody::Settle(SettleRequest { want: 32, back: 0 }));
            let id = want.id;
            rig.send(other.link, want, Slice::default());
            *granted += rig.take(other.link, id).expect("at once").answer.credit_blocks;
        }
        match rig
            .flights
            .iter()
            .position(|flight| !matches!(flight, Flight::Discard { .. }))
        {
            Some(at) => rig.complete(at),
            None => {
                rig.advance(std::time::Duration::from_millis(100));
                if discarding(rig) {
                    break;
                }
            }
        }
    }
    assert!(others.iter().map(|(_, granted)| granted).sum::<u32>() > 100);
    let mut asked = Vec::new();
    for (other, granted) in &mut others {
        let (mut counter, chunk) = (0, 100 + other.link.0);
        while *granted > 0 {
            let count = (*granted).min(32);
            let previous = if counter == 0 {
                Version::NONE
            } else {
                version(1, counter)
            };
            let bytes = &bytes[..count as usize * BLOCK];
            let write = other.write_request(chunk, 0, bytes, version(1, counter + 1), previous);
            asked.push((other.link, write.id));
            rig.send(other.link, write, Slice::copy_from(bytes));
            (counter, *granted) = (counter + 1, *granted - count);
        }
    }
    for _ in 0..1000 {
        rig.store.end_pass(rig.now);
        rig.pump();
        let Some(at) = rig
            .flights
            .iter()
            .position(|flight| !matches!(flight, Flight::Discard { .. }))
        else {
            break;
        };
        rig.complete(at);
    }
    for (link, id) in asked {
        let told = rig.take(link, id).expect("it is answered");
        assert_eq!(told.answer.result, Ok(AnswerBody::Done));
    }
}

#[test]
fn a_device_that_refuses_is_not_asked_again() {
    let mut test = Test::new(2, Config::default());
    let mut refused = 0;
    for _ in 0..300 {
        test.change();
        while let Some(at) = test
            .rig
            .flights
            .iter()
            .position(|flight| matches!(flight, Flight::Discard { .. }))
        {
            test.rig.complete_with(at, Err(std::io::ErrorKind::Unsupported.into()));
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
    test.rig.run();
    assert!(test.right());
    assert_eq!(*test.rig.store.state(), State::Serving);
}
