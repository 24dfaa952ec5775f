//! What waits in front of a store keeps its place, and nothing that others rest on is held up.

use super::*;
use amita_types::message::{
    FenceRequest, JoinRequest, MendRequest, ReadRequest, Scope, SettleRequest, VerifyRequest, WriteRequest,
};
use amita_types::{
    BlockIndex, BlockRange, Epoch, Generation, GroupId, GroupIndex, PoolId, SnapshotId, StoreId, TraceId, Version,
};

const A: VolumeId = VolumeId(1);
const B: VolumeId = VolumeId(2);
const LINK: LinkId = LinkId(5);

/// The id of the request `count` of a link's sequencer.
fn id(sequencer: u64, count: u64) -> RequestId {
    RequestId(sequencer << 40 | count)
}

/// An order of one under way at once, in which the first request of `A` is under way.
struct Rig {
    turns: Turns,
    now: Time,
    count: u64,
    /// What the store was given.
    given: Vec<(VolumeId, u64)>,
}

impl Rig {
    fn new(depth: u32) -> Rig {
        let depth = DepthLimits {
            least: depth,
            most: depth,
        };
        Rig {
            turns: Turns::new(depth, false, Faults::NONE),
            now: Time(1_000_000_000),
            count: 0,
            given: Vec::new(),
        }
    }

    fn busy() -> Rig {
        let mut rig = Rig::new(1);
        rig.ask(A, read(0));
        assert_eq!(rig.given, [(A, 1)]);
        rig
    }

    /// By a sequencer of each volume; the number that the request has among all.
    fn ask(&mut self, volume: VolumeId, body: RequestBody) -> u64 {
        self.ask_by(LINK, volume.0, volume, body)
    }

    fn ask_by(&mut self, link: LinkId, sequencer: u64, volume: VolumeId, body: RequestBody) -> u64 {
        self.ask_for(Purpose::Unsaid, (link, sequencer), volume, body)
    }

    fn ask_for(
        &mut self,
        purpose: Purpose,
        (link, sequencer): (LinkId, u64),
        volume: VolumeId,
        body: RequestBody,
    ) -> u64 {
        self.count += 1;
        let scope = Scope {
            volume,
            generation: Generation(1),
            group: GroupId {
                pool: PoolId(1),
                index: GroupIndex(0),
            },
            epoch: Epoch(1),
            snapshot: SnapshotId::HEAD,
        };
        let request = Request {
            id: id(sequencer, self.count),
            store: StoreId(1),
            scope,
            trace: TraceId::NONE,
            purpose,
            body,
        };
        let passing = Passing {
            from: NodeId(1),
            link,
            request,
            payload: Slice::default(),
        };
        self.turns.come(self.now, passing);
        self.take();
        self.count
    }

    fn take(&mut self) {
        while let Some(passing) = self.turns.take(self.now) {
            let count = passing.request.id.0 & ((1 << 40) - 1);
            self.given.push((passing.request.scope.volume, count));
        }
    }

    /// The store answers what it was given as the how manieth, and the pass ends.
    fn answer(&mut self, place: usize) {
        let (volume, count) = self.given[place];
        self.turns.answered(self.now, LINK, id(volume.0, count));
        self.pass();
    }

    fn pass(&mut self) {
        self.turns.go(self.now);
        self.take();
    }

    fn counts_of(&self, volume: VolumeId) -> Vec<u64> {
        let of = self.given.iter().filter(|(given, _)| *given == volume);
        of.map(|(_, count)| *count).collect()
    }
}

fn read(chunk: u64) -> RequestBody {
    RequestBody::Read(ReadRequest {
        chunk: ChunkIndex(chunk),
        range: BlockRange::new(0, 1),
        least: Version::NONE,
        versions: false,
        newest: None,
    })
}

fn write(chunk: u64) -> RequestBody {
    RequestBody::Write(WriteRequest {
        chunk: ChunkIndex(chunk),
        offset_bytes: 0,
        length_bytes: 4096,
        version: Version::NONE,
        previous: Version::NONE,
        sums: Default::default(),
    })
}

fn verify(chunk: u64) -> RequestBody {
    RequestBody::Verify(VerifyRequest {
        chunk: ChunkIndex(chunk),
        from: BlockIndex(0),
        least: Version::NONE,
    })
}

fn mend(chunk: u64) -> RequestBody {
    RequestBody::Mend(MendRequest {
        chunk: ChunkIndex(chunk),
        entries: Vec::new(),
    })
}

fn join(chunk: u64) -> RequestBody {
    RequestBody::Join(JoinRequest {
        chunk: ChunkIndex(chunk),
        at: Version::NONE,
    })
}

fn fence() -> RequestBody {
    RequestBody::Fence(FenceRequest {
        owner: NodeId(1),
        in_sync: vec![StoreId(1)],
        syncing: Vec::new(),
        blocks_per_chunk: 1024,
        given_back: None,
    })
}

#[test]
fn where_there_is_room_nothing_waits() {
    let mut rig = Rig::new(64);
    for chunk in 0..64 {
        rig.ask(A, write(chunk));
        assert_eq!(rig.given.len() as u64, chunk + 1);
    }
    let counts = rig.turns.counts();
    assert_eq!((counts.passed[0], counts.held[0], counts.waiting), (64, 0, 0));
    assert_eq!(rig.turns.deadline(), None);
}

#[test]
fn a_volume_s_requests_keep_their_order_whatever_they_are_for() {
    let mut rig = Rig::busy();
    let bodies = [write(1), verify(1), mend(2), read(2), verify(3), write(1), mend(1)];
    for body in bodies {
        rig.ask(A, body);
        rig.ask(B, write(9));
    }
    assert_eq!(rig.given.len(), 1, "no more is under way than may be");
    for place in 0..14 {
        rig.answer(place);
    }
    let (a, b) = (rig.counts_of(A), rig.counts_of(B));
    assert!(a.is_sorted() && b.is_sorted(), "{:?}", rig.given);
    assert_eq!((a.len(), b.len()), (8, 7));
    assert_eq!(rig.turns.counts().tally.overtakes, 0);
    assert!(rig.turns.is_empty());
}

#[test]
fn a_fence_waits_for_nothing_and_its_volume_s_line_goes_before_it() {
    let mut rig = Rig::busy();
    for _ in 0..3 {
        rig.ask(B, write(1));
        rig.ask(A, write(1));
        rig.ask(A, verify(2));
    }
    rig.ask(A, fence());
    assert_eq!(rig.counts_of(A), [1, 3, 4, 6, 7, 9, 10, 11]);
    assert!(
        rig.counts_of(B).is_empty(),
        "what others wait for has nothing to do with it"
    );
    // Credits are counted as they were sent.
    let settle = SettleRequest { want: 1, back: 0 };
    rig.ask(B, RequestBody::Settle(settle));
    assert_eq!(rig.counts_of(B), [2, 5, 8, 12]);
}

#[test]
fn a_join_waits_for_nothing_and_goes_behind_what_is_about_its_chunk() {
    let mut rig = Rig::busy();
    for chunk in [1, 2, 1, 3] {
        rig.ask(A, write(chunk));
    }
    rig.ask(A, join(1));
    assert_eq!(rig.counts_of(A), [1, 2, 3, 4, 6]);
    rig.ask(A, join(7));
    assert_eq!(rig.counts_of(A), [1, 2, 3, 4, 6, 7]);
}

#[test]
fn a_lease_is_renewed_at_once() {
    let mut rig = Rig::busy();
    rig.ask(A, write(1));
    rig.ask(A, RequestBody::RenewLease);
    assert_eq!(rig.counts_of(A), [1, 3]);
}

#[test]
fn a_sequencer_s_number_comes_back_behind_what_waits_of_the_one_before() {
    let mut rig = Rig::busy();
    rig.ask(A, write(1));
    rig.ask(A, write(2));
    // Another link's is another one.
    rig.ask_by(LinkId(6), A.0, B, write(1));
    assert_eq!(rig.given.len(), 1);
    rig.ask_by(LINK, A.0, B, write(1));
    assert_eq!(rig.given, [(A, 1), (A, 2), (A, 3)]);
    rig.ask_by(LINK, A.0, B, write(1));
    assert_eq!(rig.given.len(), 3, "it is the new one's by now");
}

#[test]
fn what_waits_of_a_link_goes_when_that_closes() {
    let mut rig = Rig::busy();
    rig.ask(A, write(1));
    rig.ask_by(LinkId(6), 9, A, write(1));
    rig.ask(A, write(1));
    rig.ask(B, write(1));
    rig.turns.link_closed(rig.now, LinkId(6));
    rig.take();
    assert_eq!(rig.given, [(A, 1), (A, 2), (A, 3)]);
}

#[test]
fn an_answer_makes_room_and_says_so() {
    let mut rig = Rig::busy();
    rig.ask(A, write(1));
    rig.ask(A, write(2));
    assert!(rig.turns.deadline().is_some_and(|at| at > rig.now), "the look only");
    rig.turns.answered(rig.now, LINK, id(A.0, 1));
    assert_eq!(rig.turns.deadline(), Some(rig.now));
    rig.pass();
    assert_eq!(rig.given.len(), 2);
    assert!(rig.turns.deadline().is_some_and(|at| at > rig.now));
    // An answer to nothing, and one that comes twice, make none.
    rig.answer(0);
    assert_eq!(rig.given.len(), 2);
    rig.answer(1);
    assert_eq!(rig.given.len(), 3);
}

#[test]
fn nothing_waits_for_long_though_nothing_is_answered() {
    let mut rig = Rig::busy();
    let came = rig.now;
    rig.ask(A, write(1));
    rig.ask(B, write(1));
    while rig.given.len() < 3 {
        rig.now = rig.turns.deadline().expect("it is looked at");
        rig.pass();
        assert!(rig.now.since(came) <= LONGEST + LOOK, "{:?}", rig.given);
    }
    assert!(rig.turns.counts().longest <= LONGEST + LOOK);
    // Whoever asked is told what of that time was not the store's.
    let waited = rig.turns.answered(rig.now, LINK, id(A.0, 2));
    assert_eq!(waited.least(), Duration::from_millis(32));
    let waited = rig.turns.answered(rig.now, LINK, id(A.0, 1));
    assert_eq!(waited, Waited::default());
    rig.pass();
    assert_eq!(rig.turns.deadline(), None);
}

#[test]
fn a_store_that_does_not_serve_is_given_everything_and_nothing_is_looked_for() {
    let mut rig = Rig::busy();
    rig.ask(A, write(1));
    rig.ask(B, write(1));
    rig.turns.answered(rig.now, LINK, id(A.0, 1));
    rig.turns.let_all_go(rig.now);
    rig.take();
    assert_eq!(rig.given.len(), 3);
    assert!(rig.turns.is_empty());
    assert_eq!(rig.turns.deadline(), None);
}

#[test]
fn a_store_that_owes_nothing_has_room_again() {
    let mut rig = Rig::busy();
    rig.ask(A, write(1));
    assert!(rig.turns.is_owed());
    rig.turns.settle(rig.now);
    rig.pass();
    assert_eq!(rig.given.len(), 2);
}

#[test]
fn what_a_request_says_that_it_is_for_goes_before_what_its_kind_says() {
    let mut rig = Rig::new(64);
    let whose = (LINK, A.0);
    for (purpose, body, class) in [
        (Purpose::Unsaid, read(1), Class::Client),
        (Purpose::Recovery, read(1), Class::Recovery),
        (Purpose::Move, mend(1), Class::Move),
        (Purpose::Unsaid, mend(1), Class::Recovery),
        (Purpose::Client, mend(1), Class::Client),
        (Purpose::Unsaid, verify(1), Class::Scrub),
        (Purpose::Scrub, read(1), Class::Scrub),
        (Purpose::Backup, read(1), Class::Backup),
    ] {
        let before = rig.turns.counts().passed;
        rig.ask_for(purpose, whose, A, body);
        let passed = rig.turns.counts().passed[class as usize];
        assert_eq!(passed, before[class as usize] + 1, "{purpose:?} is of {class:?}");
    }
}

#[test]
fn volumes_share_by_the_weights_of_their_records() {
    let mut rig = Rig::new(2);
    let heavy = Priority {
        weight: Some(300),
        ..Priority::default()
    };
    rig.turns.set(rig.now, A, Some(heavy));
    let mut place = 0;
    for _ in 0..8 {
        rig.ask(A, read(1));
        rig.ask(B, read(1));
    }
    for _ in 0..4_000 {
        rig.now = rig.now.plus(Duration::from_micros(10));
        let (volume, _) = rig.given[place];
        rig.answer(place);
        rig.ask(volume, read(1));
        place += 1;
    }
    let (a, b) = (rig.counts_of(A).len(), rig.counts_of(B).len());
    assert!(
        a * 100 >= b * 300 * 95 / 100 && a * 100 <= b * 300 * 105 / 100,
        "{a} and {b}"
    );
}

#[test]
fn lines_that_nobody_uses_are_forgotten_though_nothing_ever_waits() {
    let mut rig = Rig::new(u32::MAX);
    for volume in 0..KEPT_LINES as u64 {
        rig.ask(VolumeId(volume), read(0));
    }
    assert_eq!((rig.turns.volumes.len(), rig.turns.deadline()), (KEPT_LINES, None));
    for volume in 0..MOST_LINES as u64 + 10 {
        rig.ask(VolumeId(volume), read(0));
    }
    assert_eq!(
        rig.turns.volumes.len(),
        MOST_LINES,
        "more are given to the store at once"
    );
    assert_eq!(rig.given.len(), KEPT_LINES + MOST_LINES + 10);
    rig.now = rig.turns.deadline().expect("they are looked at");
    rig.pass();
    assert!(rig.turns.volumes.is_empty());
    assert_eq!(rig.turns.deadline(), None);
}
