//! What the model check (`random.rs`) has found, each as the shortest history that shows it.

mod common;

use amita_cluster::message::{Answer, AnswerBody, Problem, Refusal, RequestBody};
use amita_cluster::{BlockRange, ChunkIndex, RequestId, SnapshotId, Version};
use amita_reactor::Slice;
use common::{Asker, BLOCK, Rig, version};
use std::time::Duration;

/// A store, and the owner of a volume of which chunk 0 is used.
struct Used {
    rig: Rig,
    asker: Asker,
}

impl Used {
    fn new() -> Used {
        let mut rig = Rig::fresh(1 << 20, false);
        let mut asker = Asker::new(1);
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
        let body = RequestBody::Keep {
            chunk: ChunkIndex(0),
            head,
            above: SnapshotId::HEAD,
            to: SnapshotId(to),
            live: live.iter().copied().map(SnapshotId).collect(),
        };
        self.send(to, body, &[])
    }

    fn read(&mut self, snapshot: u32, least: Version) -> RequestId {
        let body = RequestBody::Read {
            chunk: ChunkIndex(0),
            range: BlockRange::new(0, 1),
            least,
        };
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
    let mut next = Asker::new(2);
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

/// `Keep` keeps the snapshots that it names, also one since which the chunk was not changed, when the volume goes.
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
