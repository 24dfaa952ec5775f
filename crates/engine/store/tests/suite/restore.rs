//! What has rotted is replaced where it lies (rule S12), for the volume, its snapshots and its clones at once.

use crate::common::{BLOCK, Flight, Requester, Rig, Rng, VOLUME, version};
use amita_reactor::Slice;
use amita_store::State;
use amita_types::message::{
    AnswerBody, CloneRequest, MendedAnswer, Problem, ReadRequest, Refusal, RequestBody, RestoreRequest, VerifiedAnswer,
    VerifyRequest,
};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, SnapshotId, Version, VolumeId, crc32c};

const CLONE: VolumeId = VolumeId(70);
const CHUNK: ChunkIndex = ChunkIndex(0);

#[derive(Clone)]
struct Askers {
    volume: Requester,
    clone: Requester,
}

/// Blocks 0 to 3 of a volume were written and a snapshot was taken; 2 and 3 were written again, and another one taken; 3 was once
/// more. A clone is of the first snapshot.
struct Test {
    rig: Rig,
    askers: Askers,
}

fn fill(block: u16, turn: u8) -> Vec<u8> {
    vec![(block as u8 + 1) * 16 + turn; BLOCK]
}

impl Test {
    fn new(volatile: bool) -> Test {
        let mut rig = Rig::fresh(4 << 20, volatile);
        let mut volume = Requester::new(1);
        volume.fence(&mut rig).unwrap();
        let mut clone = Requester::new(2);
        clone.volume = CLONE;
        clone.fence(&mut rig).unwrap();
        let mut test = Test {
            rig,
            askers: Askers { volume, clone },
        };
        let turns: [(u32, u8, &[u16]); 3] = [(0, 0, &[0, 1, 2, 3]), (1, 1, &[2, 3]), (2, 2, &[3])];
        let mut counter = 0;
        for (snapshot, turn, blocks) in turns {
            for &block in blocks {
                let previous = match counter {
                    0 => Version::NONE,
                    before => version(1, before),
                };
                counter += 1;
                let bytes = fill(block, turn);
                let offset = u32::from(block) * BLOCK as u32;
                let asker = &mut test.askers.volume;
                let request = asker.write_request(0, offset, &bytes, version(1, counter), previous);
                test.ask(VOLUME, snapshot, request.body, &bytes).unwrap();
            }
        }
        let body = RequestBody::Clone(CloneRequest {
            chunk: CHUNK,
            origin: VOLUME,
            at: SnapshotId(1),
        });
        test.ask(CLONE, 0, body, &[]).unwrap();
        // What is not verified yet is what a crash leaves.
        test.rig.run();
        test.mark();
        test
    }

    fn mark(&mut self) {
        for _ in 0..2 {
            let idle = self.rig.config.idle_mark_after;
            self.rig.advance(idle + std::time::Duration::from_millis(1));
            self.rig.run();
        }
    }

    fn asker(&mut self, volume: VolumeId) -> &mut Requester {
        match volume {
            CLONE => &mut self.askers.clone,
            _ => &mut self.askers.volume,
        }
    }

    fn ask(
        &mut self,
        volume: VolumeId,
        at: u32,
        body: RequestBody,
        payload: &[u8],
    ) -> Result<(AnswerBody, Vec<u8>), Refusal> {
        let asker = self.asker(volume);
        let mut request = asker.request(body);
        request.scope.snapshot = SnapshotId(at);
        let mut asker = asker.clone();
        let told = asker.ask(&mut self.rig, request, Slice::copy_from(payload));
        told.answer.result.map(|body| (body, told.payload.to_vec()))
    }

    fn read(&mut self, volume: VolumeId, at: u32, block: u16) -> Result<Vec<u8>, Refusal> {
        let body = RequestBody::Read(ReadRequest {
            chunk: CHUNK,
            range: BlockRange::new(block, 1),
            least: Version::NONE,
            versions: false,
            newest: None,
        });
        self.ask(volume, at, body, &[]).map(|(_, bytes)| bytes)
    }

    fn restoring(block: u16, counter: u64, bytes: &[u8]) -> RequestBody {
        RequestBody::Restore(RestoreRequest {
            chunk: CHUNK,
            block: BlockIndex(block),
            version: version(1, counter),
            sum: crc32c(bytes),
        })
    }

    /// The blocks that were skipped.
    fn restore(
        &mut self,
        (volume, at): (VolumeId, u32),
        block: u16,
        counter: u64,
        bytes: &[u8],
    ) -> Result<Vec<u16>, Refusal> {
        let body = Test::restoring(block, counter, bytes);
        let (body, _) = self.ask(volume, at, body, bytes)?;
        let AnswerBody::Mended(MendedAnswer { skipped }) = body else {
            panic!("{body:?}")
        };
        Ok(skipped.into_iter().map(|block| block.0).collect())
    }

    /// Which blocks a look at a view lists, and which of them are damaged.
    fn verify(&mut self, at: u32) -> (Vec<u16>, Vec<u16>) {
        let body = RequestBody::Verify(VerifyRequest {
            chunk: CHUNK,
            from: BlockIndex(0),
            least: Version::NONE,
        });
        let (body, _) = self.ask(VOLUME, at, body, &[]).unwrap();
        let AnswerBody::Verified(VerifiedAnswer { entries, damaged, more }) = body else {
            panic!("{body:?}")
        };
        // Of the chunk itself the rest of the leaf is another window; a state has nothing more.
        assert_eq!(more, (at == 0).then_some(BlockIndex(32)));
        let damaged = damaged.iter().map(|block| block.0);
        (entries.iter().map(|entry| entry.block.0).collect(), damaged.collect())
    }

    /// Where a block's bytes lie.
    fn place(&self, bytes: &[u8]) -> usize {
        let mut blocks = self.rig.disk.view.chunks(BLOCK);
        blocks.rposition(|block| block == bytes).expect("it is there") * BLOCK
    }

    fn rot(&mut self, bytes: &[u8]) -> usize {
        let at = self.place(bytes);
        for copy in [&mut self.rig.disk.view, &mut self.rig.disk.durable] {
            copy[at + 99] ^= 4;
        }
        at
    }

    /// After a power cut.
    fn reopened(&self, image: Vec<u8>) -> Test {
        let mut rig = self.rig.reopened(image);
        rig.run();
        assert_eq!(*rig.store.state(), State::Serving);
        let mut askers = self.askers.clone();
        askers.volume.fence(&mut rig).unwrap();
        askers.clone.fence(&mut rig).unwrap();
        Test { rig, askers }
    }
}

/// Views that have block 1, which was never written again.
const SHARED: [(VolumeId, u32); 4] = [(VOLUME, 0), (VOLUME, 1), (VOLUME, 2), (CLONE, 0)];

#[test]
fn one_restore_is_enough_for_whoever_shares_the_block() {
    for by in SHARED {
        let mut test = Test::new(true);
        let right = fill(1, 0);
        let free = test.rig.store.status().free_bytes;
        test.rot(&right);
        for (volume, at) in SHARED {
            let damaged = Refusal::Damaged { block: BlockIndex(1) };
            assert_eq!(test.read(volume, at, 1), Err(damaged));
        }
        assert_eq!(test.restore(by, 1, 2, &right), Ok(vec![]));
        for (volume, at) in SHARED {
            assert_eq!(test.read(volume, at, 1), Ok(right.clone()));
        }
        let status = test.rig.store.status();
        assert_eq!((status.free_bytes, status.counters.restored), (free, 1));
        // It is durable, and done once.
        assert_eq!(test.restore(by, 1, 2, &right), Ok(vec![1]));
        let mut test = test.reopened(test.rig.disk.durable.clone());
        for (volume, at) in SHARED {
            assert_eq!(test.read(volume, at, 1), Ok(right.clone()));
        }
    }
}

/// Two of them ask at once: one of them writes, and the other comes again.
#[test]
fn a_slot_is_written_by_one_at_a_time() {
    for seed in 0..40 {
        let mut test = Test::new(seed % 2 == 0);
        let right = fill(1, 0);
        let at = test.rot(&right) as u64;
        let mut rng = Rng(seed);
        let mut sent = Vec::new();
        for (volume, view) in SHARED {
            let asker = test.asker(volume);
            let mut request = asker.request(Test::restoring(1, 2, &right));
            request.scope.snapshot = SnapshotId(view);
            sent.push((asker.link, request.id));
            test.rig.send(sent[sent.len() - 1].0, request, Slice::copy_from(&right));
        }
        let (mut done, mut again) = (0, 0);
        loop {
            let here = |flight: &&Flight| matches!(flight, Flight::Write { offset, .. } if *offset == at);
            assert!(
                test.rig.flights.iter().filter(here).count() <= 1,
                "it is written twice at once"
            );
            sent.retain(
                |&(link, id)| match test.rig.take(link, id).map(|told| told.answer.result) {
                    None => true,
                    Some(Ok(AnswerBody::Mended(_))) => {
                        done += 1;
                        false
                    }
                    Some(Err(Refusal::Busy)) => {
                        again += 1;
                        false
                    }
                    Some(other) => panic!("{other:?}"),
                },
            );
            match test.rig.flights.len() {
                0 => break,
                flights => test.rig.complete(rng.below(flights)),
            }
        }
        assert_eq!((sent.len(), done + again), (0, SHARED.len()));
        assert!(done >= 1 && test.rig.store.status().counters.restored == 1);
        for by in SHARED {
            assert_eq!(test.restore(by, 1, 2, &right), Ok(vec![1]), "it is done");
        }
    }
}

#[test]
fn only_what_the_entry_names_is_written() {
    let mut test = Test::new(false);
    let right = fill(1, 0);
    test.rot(&right);
    let before = test.rig.disk.view.clone();
    let head = (VOLUME, 0);
    // Another version, another content, a block that was never written, a chunk that is not there.
    assert_eq!(test.restore(head, 1, 1, &right), Ok(vec![1]));
    assert_eq!(test.restore(head, 1, 2, &fill(1, 7)), Ok(vec![1]));
    assert_eq!(test.restore(head, 9, 2, &right), Ok(vec![9]));
    let mut elsewhere = Test::restoring(1, 2, &right);
    if let RequestBody::Restore(request) = &mut elsewhere {
        request.chunk = ChunkIndex(5);
    }
    let (body, _) = test.ask(VOLUME, 0, elsewhere, &right).unwrap();
    let skipped = vec![BlockIndex(1)];
    assert_eq!(body, AnswerBody::Mended(MendedAnswer { skipped }));
    // What cannot be.
    let invalid = |what| Err(Refusal::Invalid { what });
    let body = Test::restoring(1, 2, &right);
    assert_eq!(test.ask(VOLUME, 0, body.clone(), &right[1..]), invalid(Problem::Length));
    assert_eq!(test.ask(VOLUME, 0, body, &fill(1, 7)), invalid(Problem::Checksum));
    let behind = Test::restoring(u16::MAX, 2, &right);
    assert_eq!(test.ask(VOLUME, 0, behind, &right), invalid(Problem::Range));
    assert!(test.rig.disk.view == before, "nothing was written");
    assert_eq!(test.rig.store.status().counters.restored, 0);
}

#[test]
fn a_state_is_looked_at_where_it_lies_elsewhere_than_what_is_newer() {
    let mut test = Test::new(false);
    assert_eq!(test.verify(1), (vec![2, 3], vec![]));
    assert_eq!(test.verify(2), (vec![3], vec![]));
    test.rot(&fill(2, 0));
    test.rot(&fill(3, 1));
    test.rot(&fill(1, 0));
    assert_eq!(test.verify(1), (vec![2, 3], vec![2]));
    assert_eq!(test.verify(2), (vec![3], vec![3]));
    assert_eq!(test.verify(0).1, vec![1]);
    assert_eq!(test.restore((VOLUME, 1), 2, 3, &fill(2, 0)), Ok(vec![]));
    assert_eq!(test.restore((VOLUME, 2), 3, 6, &fill(3, 1)), Ok(vec![]));
    assert_eq!(test.verify(1).1, vec![]);
    assert_eq!(test.verify(2).1, vec![]);
    assert_eq!(test.read(VOLUME, 1, 2), Ok(fill(2, 0)));
    assert_eq!(test.read(CLONE, 0, 2), Ok(fill(2, 0)));
    assert_eq!(test.read(VOLUME, 2, 3), Ok(fill(3, 1)));
}

/// The power fails at each event of a restore, and each write that is under way is lost, torn or kept: what is there is right, or as
/// rotten as before, and is restored by the next one.
#[test]
fn power_cuts_at_every_event() {
    for volatile in [false, true] {
        let right = fill(1, 0);
        let (mut cuts, mut halves) = (0, 0);
        for events in 0.. {
            let mut test = Test::new(volatile);
            let at = test.rot(&right);
            let body = Test::restoring(1, 2, &right);
            let request = test.askers.volume.request(body);
            let (link, id) = (test.askers.volume.link, request.id);
            test.rig.send(link, request, Slice::copy_from(&right));
            for _ in 0..events {
                if !test.rig.flights.is_empty() {
                    test.rig.complete(0);
                }
            }
            let is_done = test.rig.take(link, id).is_some();
            for seed in 0..12 {
                let image = test.rig.cut(&mut Rng(seed));
                halves += u32::from(image[at..at + BLOCK] != right && image[at + 99] == right[99]);
                let mut after = test.reopened(image);
                for (volume, view) in SHARED {
                    match after.read(volume, view, 1) {
                        Ok(bytes) => assert_eq!(bytes, right),
                        Err(refusal) => {
                            assert!(!is_done, "it was answered, and is durable");
                            assert_eq!(refusal, Refusal::Damaged { block: BlockIndex(1) });
                        }
                    }
                }
                after.restore((CLONE, 0), 1, 2, &right).unwrap();
                for (volume, view) in SHARED {
                    assert_eq!(after.read(volume, view, 1), Ok(right.clone()));
                }
                cuts += 1;
            }
            if is_done {
                break;
            }
        }
        assert!(cuts >= 12 * 4, "{cuts}");
        println!("{cuts} cuts, of which {halves} left the rotten bytes replaced and others not");
    }
}

/// A device that does not take the block: it is said, the volume can have it elsewhere, and the slot is given to nobody.
#[test]
fn a_slot_that_is_not_taken_is_set_aside() {
    let mut test = Test::new(true);
    let right = fill(3, 2);
    let at = test.rot(&right) as u64;
    test.rig.broken = Some(at..at + BLOCK as u64);
    let damaged = Refusal::Damaged { block: BlockIndex(3) };
    assert_eq!(test.restore((VOLUME, 0), 3, 7, &right), Err(damaged));
    assert_eq!(test.rig.store.status().counters.unrestored, 1);
    // The head is written anew: nothing refers to the slot any more.
    for counter in 8..1200 {
        let bytes = vec![counter as u8; BLOCK];
        let offset = (counter % 4) as u32 * BLOCK as u32;
        let asker = &mut test.askers.volume;
        let request = asker.write_request(0, offset, &bytes, version(1, counter), version(1, counter - 1));
        test.ask(VOLUME, 2, request.body, &bytes).unwrap();
        assert_eq!(test.read(VOLUME, 0, (counter % 4) as u16), Ok(bytes));
    }
    test.mark();
    #[cfg(feature = "planted")]
    test.rig.store.check();
    let view = &test.rig.disk.view[at as usize..at as usize + BLOCK];
    assert!(view == right, "nothing else was written there");
}
