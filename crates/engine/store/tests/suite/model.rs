//! What the model check (`random.rs`) has found, each as the shortest history that shows it.

use crate::common::{BLOCK, Requester, Rig, version};
use amita_reactor::Slice;
use amita_types::message::{Answer, AnswerBody, Problem, ReadRequest, Refusal, RequestBody, RetainSnapshotsRequest};
use amita_types::{BlockRange, ChunkIndex, RequestId, SnapshotId, Version};
use std::time::Duration;

/// A store, and the owner of a volume of which chunk 0 is used.
struct Used {
    rig: Rig,
    asker: Requester,
}

impl Used {
    fn new() -> Used {
        Used::of(1 << 20)
    }

    fn of(size_bytes: u64) -> Used {
        let mut rig = Rig::fresh(size_bytes, false);
        let mut asker = Requester::new(1);
        asker.fence(&mut rig).expect("a fresh store takes any owner");
        Used { rig, asker }
    }

    /// Sends, and waits for nothing.
    fn send(&mut self, snapshot: u32, body: RequestBody, payload: &[u8]) -> RequestId {
        let mut request = self.asker.request(body);
        request.scope.snapshot = SnapshotId(snapshot);
        let id = request.id;
        self.rig.send(self.asker.link, request, Slice::copy_from(payload));
        id
    }

    /// Block 0 is filled with `byte`, as change number `counter` of the chunk.
    fn write(&mut self, snapshot: u32, counter: u64, byte: u8) -> RequestId {
        let bytes = [byte; BLOCK];
        let previous = if counter == 1 {
            Version::NONE
        } else {
            version(1, counter - 1)
        };
        let body = self
            .asker
            .write_request(0, 0, &bytes, version(1, counter), previous)
            .body;
        self.send(snapshot, body, &bytes)
    }

    fn keep(&mut self, head: bool, to: u32, live: &[u32]) -> RequestId {
        let body = RequestBody::RetainSnapshots(RetainSnapshotsRequest {
            chunk: ChunkIndex(0),
            head,
            above: SnapshotId::HEAD,
            to: SnapshotId(to),
            live: live.iter().copied().map(SnapshotId).collect(),
        });
        self.send(to, body, &[])
    }

    fn read(&mut self, snapshot: u32, least: Version) -> RequestId {
        let body = RequestBody::Read(ReadRequest {
            chunk: ChunkIndex(0),
            range: BlockRange::new(0, 1),
            least,
            versions: false,
            newest: None,
        });
        self.send(snapshot, body, &[])
    }

    /// Everything ends; the answers in their order.
    fn run(&mut self) -> Vec<(Answer, Slice)> {
        self.rig.run();
        let told = std::mem::take(&mut self.rig.told);
        told.into_iter().map(|told| (told.answer, told.payload)).collect()
    }

    /// Everything ends; the answer to this.
    fn answer(&mut self, id: RequestId) -> (Result<AnswerBody, Refusal>, Slice) {
        let all = self.run();
        let found = all.into_iter().find(|(answer, _)| answer.id == id);
        let (answer, payload) = found.expect("it is answered");
        (answer.result, payload)
    }

    fn byte(&mut self, snapshot: u32) -> Result<u8, Refusal> {
        let id = self.read(snapshot, Version::NONE);
        let (result, payload) = self.answer(id);
        result.map(|_| payload.first().copied().unwrap_or(0))
    }
}

/// A read that waits for a version is a read of its snapshot when that version is there, not of the chunk itself.
#[test]
fn a_read_that_waits_knows_its_snapshot() {
    let mut used = Used::new();
    used.write(0, 1, 1);
    used.run();
    used.write(0, 2, 2);
    used.write(1, 3, 3);
    let early = used.read(1, version(1, 2));
    let late = used.read(1, version(1, 3));
    let answers = used.run();
    let answer = |id| {
        answers
            .iter()
            .find(|(answer, _)| answer.id == id)
            .expect("it is answered")
    };
    assert_eq!(
        answer(early).1.first(),
        Some(&2),
        "snapshot 1 was taken before the third write"
    );
    let current = version(1, 2);
    assert_eq!(answer(late).0.result, Err(Refusal::Behind { current }));
}

/// Rule R6: a fence is answered when all that was accepted under the older generation is done, every step of it.
#[test]
fn a_fence_waits_for_all_that_is_dropped() {
    let mut used = Used::new();
    for snapshot in 0..4 {
        used.write(snapshot, u64::from(snapshot) + 1, snapshot as u8);
    }
    used.run();
    let mut next = Requester::new(2);
    next.generation = used.asker.generation.next().expect("few owners");
    let fence = next.fence_request();
    let fenced = fence.id;
    used.rig.send(next.link, fence, Slice::default());
    let keep = used.keep(true, 3, &[]);
    used.rig.advance(Duration::from_secs(1));
    let order: Vec<RequestId> = used.run().into_iter().map(|(answer, _)| answer.id).collect();
    assert_eq!(order, [keep, fenced], "what was dropped, and then the fence");
}

/// Rule R8: what was accepted before its volume was deleted is accepted when it is sent again.
#[test]
fn a_resend_is_no_later_change() {
    let mut used = Used::new();
    used.write(0, 1, 1);
    used.run();
    let write = used.write(1, 2, 2);
    let keep = used.keep(false, 1, &[]);
    let again = used.write(1, 2, 2);
    let answers = used.run();
    for id in [write, keep, again] {
        let (answer, _) = answers
            .iter()
            .find(|(answer, _)| answer.id == id)
            .expect("it is answered");
        assert_eq!(answer.result, Ok(AnswerBody::Done));
    }
}

/// The same for a snapshot that was taken since: the owner of a new link sends all again in its order.
#[test]
fn a_resend_under_an_older_snapshot_is_answered() {
    let mut used = Used::new();
    let (first, second) = (used.write(0, 1, 1), used.write(1, 2, 2));
    let again = [used.write(0, 1, 1), used.write(1, 2, 2)];
    let answers = used.run();
    for id in [first, second, again[0], again[1]] {
        let (answer, _) = answers
            .iter()
            .find(|(answer, _)| answer.id == id)
            .expect("it is answered");
        assert_eq!(answer.result, Ok(AnswerBody::Done));
    }
    // One that was never sent is refused.
    let wrong = used.write(0, 3, 3);
    let what = Problem::Snapshot;
    assert_eq!(used.answer(wrong).0, Err(Refusal::Invalid { what }));
    assert_eq!((used.byte(0), used.byte(1)), (Ok(2), Ok(1)));
}

/// `RetainSnapshots` keeps the snapshots that it names, also one since which the chunk was not changed, when the volume
/// goes.
#[test]
fn a_snapshot_outlives_its_volume() {
    let mut used = Used::new();
    used.write(0, 1, 1);
    used.run();
    let keep = used.keep(false, 1, &[1]);
    assert_eq!(used.answer(keep).0, Ok(AnswerBody::Done));
    assert_eq!(used.byte(1), Ok(1));
    let keep = used.keep(false, 1, &[]);
    assert_eq!(used.answer(keep).0, Ok(AnswerBody::Done));
    assert_eq!(used.rig.store.status().blocks, 0);
}

/// What is in a checkpoint and was dropped while the checkpoint was being written does not come back with the next
/// mount.
#[test]
fn a_chunk_that_goes_during_a_checkpoint_stays_gone() {
    const CHUNKS: u64 = 16;
    let mut under_way = 0;
    for moment in 0..24 {
        let mut used = Used::of(4 << 20);
        let mut counter = [0; CHUNKS as usize];
        let mut write = |used: &mut Used, chunk: u64, block: u32| {
            let counter = &mut counter[chunk as usize];
            *counter += 1;
            let previous = if *counter == 1 {
                Version::NONE
            } else {
                version(1, *counter - 1)
            };
            let offset = block * BLOCK as u32;
            let (bytes, next) = ([*counter as u8; BLOCK], version(1, *counter));
            let mut request = used.asker.write_request(chunk, offset, &bytes, next, previous);
            // Each chunk is kept once, for snapshot 1.
            request.scope.snapshot = SnapshotId(u32::from(*counter > 1));
            used.rig.send(used.asker.link, request, Slice::copy_from(&bytes));
        };
        // Every chunk has all its leaves, so that a checkpoint takes several steps. It begins with one of the last
        // writes.
        let leaf_writes = |used: &Used| used.rig.store.status().counters.leaf_writes;
        for block in (0..1024).step_by(128) {
            for chunk in 0..CHUNKS {
                write(&mut used, chunk, block);
            }
            used.rig.run();
        }
        let before = leaf_writes(&used);
        while leaf_writes(&used) == before {
            used.rig.run();
            write(&mut used, CHUNKS - 1, 1);
            used.rig.store.end_pass(used.rig.now);
            used.rig.pump();
        }
        for _ in 0..moment {
            if !used.rig.flights.is_empty() {
                used.rig.complete(0);
                used.rig.store.end_pass(used.rig.now);
                used.rig.pump();
            }
        }
        // The device ends what drops the chunk before what it has of the checkpoint.
        let checkpoints = used.rig.store.status().counters.checkpoints;
        let mut earlier = used.rig.flights.len();
        let keep = used.keep(false, 1, &[]);
        while !used.rig.told.iter().any(|told| told.answer.id == keep) {
            used.rig.store.end_pass(used.rig.now);
            used.rig.pump();
            let at = if used.rig.flights.len() > earlier { earlier } else { 0 };
            earlier -= usize::from(at < earlier);
            used.rig.complete(at);
        }
        under_way += usize::from(used.rig.store.status().counters.checkpoints == checkpoints);
        used.run();
        let blocks = used.rig.store.status().blocks;
        assert_eq!(blocks, 8 * (CHUNKS - 1) + 1);
        let image = used.rig.disk.durable.clone();
        used.rig = used.rig.reopened(image);
        used.rig.run();
        used.asker.fence(&mut used.rig).expect("the owner is known");
        assert_eq!(used.asker.open(&mut used.rig, 0), Version::NONE, "moment {moment}");
        assert_eq!(used.rig.store.status().blocks, blocks, "moment {moment}");
    }
    assert!(under_way > 8, "{under_way}");
}
