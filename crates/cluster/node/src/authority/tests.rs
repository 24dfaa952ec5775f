use super::*;
use crate::control::Record;
use amita_metadata::Call;
use amita_metadata::model::State;
use amita_reactor::driver::Time;
use amita_types::map;
use amita_types::{Epoch, Generation, GroupId, GroupIndex, PoolId, SnapshotId, VolumeId};
use std::time::Duration;

const OWNER: NodeId = NodeId(4);

/// What the metadata says: volume 9 is node 4's, generation 7, in a pool of one group that is at epoch 5.
struct Rig {
    view: View,
    scope: Scope,
    fence: FenceRequest,
}

fn store(number: u128) -> StoreId {
    StoreId(number)
}

fn put<T: serde::Serialize>(view: &mut View, key: String, value: &T) {
    view.apply(&Record {
        key,
        value: Some(serde_json::to_vec(value).unwrap()),
        revision: 1,
        created: 1,
    });
}

impl Rig {
    fn new() -> Rig {
        let mut view = View::default();
        let pool = map::Pool {
            failure_domain: amita_types::placement::Level::Node,
            class: None,
            id: PoolId(2),
            name: "p".to_owned(),
            kind: map::PoolKind::Replicated {
                copies: 3,
                min_copies: 2,
            },
            groups: 1,
            chunk_bytes: 4 << 20,
        };
        put(&mut view, map::pool_key("p"), &pool);
        let mut rig = Rig {
            view,
            scope: Scope {
                volume: VolumeId(9),
                generation: Generation(7),
                group: GroupId {
                    pool: PoolId(2),
                    index: GroupIndex(0),
                },
                epoch: Epoch(5),
                snapshot: SnapshotId::HEAD,
            },
            fence: FenceRequest {
                owner: OWNER,
                in_sync: vec![store(2), store(1)],
                syncing: vec![store(3)],
                blocks_per_chunk: 1024,
                given_back: None,
            },
        };
        rig.volume(7, Some(OWNER));
        rig.group(5);
        rig
    }

    fn volume(&mut self, generation: u32, owner: Option<NodeId>) {
        let volume = map::Volume {
            generation: Generation(generation),
            owner,
            ..map::Volume::new(VolumeId(9), "v", "p", 1 << 30)
        };
        put(&mut self.view, map::volume_key("v"), &volume);
    }

    fn group(&mut self, epoch: u64) {
        let group = map::Group {
            index: GroupIndex(0),
            epoch: Epoch(epoch),
            members: vec![store(1), store(2), store(3), store(4)],
            in_sync: vec![store(1), store(2)],
            syncing: [3, 4]
                .map(|number| map::Syncing {
                    store: store(number),
                    since: Epoch(4),
                })
                .to_vec(),
        };
        put(&mut self.view, map::group_key(PoolId(2), GroupIndex(0)), &group);
    }

    fn judge(&self, from: NodeId, change: impl Fn(&mut Scope, &mut FenceRequest)) -> Result<(), Refusal> {
        let (mut scope, mut fence) = (self.scope, self.fence.clone());
        change(&mut scope, &mut fence);
        judge(&self.view, from, &scope, &fence)
    }
}

#[test]
fn parents_are_what_the_record_says_or_have_just_left_it() {
    let mut rig = Rig::new();
    let judge = |rig: &Rig, named: &[u64]| {
        let request = InheritRequest {
            chunk: amita_types::ChunkIndex(0),
            version: amita_types::Version::NONE,
            parents: named.iter().map(|volume| (VolumeId(*volume), SnapshotId(1))).collect(),
        };
        judge_parents(&rig.view, &rig.scope, &request)
    };
    let volume = map::Volume {
        parents: [3, 2]
            .map(|volume| map::Parent {
                volume: VolumeId(volume),
                number: SnapshotId(1),
                generation: Generation(1),
            })
            .to_vec(),
        ..rig.view.volume_of(VolumeId(9)).unwrap().clone()
    };
    put(&mut rig.view, map::volume_key("v"), &volume);
    assert_eq!(judge(&rig, &[3, 2]), Ok(()));
    // One of the two has not heard yet.
    assert_eq!(judge(&rig, &[3]), Err(Refusal::Busy));
    assert_eq!(judge(&rig, &[3, 2, 1]), Err(Refusal::Busy));
    let what = Problem::Snapshot;
    assert_eq!(judge(&rig, &[2]), Err(Refusal::Invalid { what }));
    assert_eq!(judge(&rig, &[3, 4]), Err(Refusal::Invalid { what }));
}

#[test]
fn the_owner_fences_by_what_the_metadata_says() {
    let rig = Rig::new();
    assert_eq!(rig.judge(OWNER, |_, _| {}), Ok(()));
    // No syncing member need have a place.
    assert_eq!(rig.judge(OWNER, |_, fence| fence.syncing.clear()), Ok(()));
}

#[test]
fn nobody_else_does_whatever_it_knows() {
    let rig = Rig::new();
    let members = Err(Refusal::Invalid { what: Problem::Members });
    let other = NodeId(5);
    assert_eq!(rig.judge(other, |_, _| {}), members);
    assert_eq!(rig.judge(other, |_, fence| fence.owner = other), members);
    assert_eq!(rig.judge(OWNER, |_, fence| fence.owner = other), members);
    // A volume that has no owner was opened by nobody.
    let mut rig = Rig::new();
    rig.volume(7, None);
    assert_eq!(rig.judge(OWNER, |_, _| {}), members);
}

/// What a store is told of generations, epochs and members it keeps for good, and for all volumes of the group.
#[test]
fn what_the_metadata_does_not_say_is_not_believed() {
    let rig = Rig::new();
    let contradicts = |what| Err(Refusal::Invalid { what });
    let judge = |change: fn(&mut Scope, &mut FenceRequest)| rig.judge(OWNER, change);
    let (members, range) = (contradicts(Problem::Members), contradicts(Problem::Range));
    assert_eq!(judge(|scope, _| scope.generation = Generation::MAX), Err(Refusal::Busy));
    assert_eq!(judge(|scope, _| scope.generation = Generation(8)), Err(Refusal::Busy));
    assert_eq!(judge(|scope, _| scope.epoch = Epoch(u64::MAX)), Err(Refusal::Busy));
    assert_eq!(judge(|scope, _| scope.epoch = Epoch(6)), Err(Refusal::Busy));
    assert_eq!(judge(|scope, _| scope.volume = VolumeId(u64::MAX)), Err(Refusal::Busy));
    assert_eq!(judge(|scope, _| scope.group.index = GroupIndex(1)), Err(Refusal::Busy));
    let generation = Generation(7);
    assert_eq!(
        judge(|scope, _| scope.generation = Generation(6)),
        Err(Refusal::Fenced { generation })
    );
    let epoch = Epoch(5);
    assert_eq!(
        judge(|scope, _| scope.epoch = Epoch(4)),
        Err(Refusal::StaleEpoch { epoch })
    );
    assert_eq!(judge(|scope, _| scope.group.pool = PoolId(3)), range);
    assert_eq!(judge(|_, fence| fence.blocks_per_chunk = 1), range);
    assert_eq!(judge(|_, fence| fence.in_sync.push(store(3))), members);
    assert_eq!(judge(|_, fence| fence.in_sync = vec![store(1)]), members);
    assert_eq!(judge(|_, fence| fence.in_sync = vec![store(1), store(1)]), members);
    assert_eq!(judge(|_, fence| fence.syncing = vec![store(9)]), members);
}

/// A takeover and an eviction reach the store before its node's watch has told of them: they come again a moment later.
#[test]
fn a_view_that_is_behind_catches_up() {
    let mut rig = Rig::new();
    let next = |scope: &mut Scope, fence: &mut FenceRequest| {
        (scope.generation, scope.epoch) = (Generation(8), Epoch(6));
        fence.owner = NodeId(5);
    };
    assert_eq!(rig.judge(NodeId(5), next), Err(Refusal::Busy));
    rig.volume(8, Some(NodeId(5)));
    assert_eq!(rig.judge(NodeId(5), next), Err(Refusal::Busy));
    rig.group(6);
    assert_eq!(rig.judge(NodeId(5), next), Ok(()));
    let generation = Generation(8);
    assert_eq!(rig.judge(OWNER, |_, _| {}), Err(Refusal::Fenced { generation }));
}

/// Node 5 has taken the volume over, and the group has moved on; the watch tells nothing of either.
struct Late {
    rig: Rig,
    metadata: State,
    inquiry: Inquiry,
    now: Time,
}

const NEXT_OWNER: NodeId = NodeId(5);

impl Late {
    fn new() -> Late {
        let mut late = Late {
            rig: Rig::new(),
            metadata: State::new(),
            inquiry: Inquiry::new(1),
            now: Time(1_000_000_000),
        };
        late.record(9);
        let group = map::Group {
            index: GroupIndex(0),
            epoch: Epoch(6),
            members: vec![store(1), store(2), store(3)],
            in_sync: vec![store(1), store(2)],
            syncing: Vec::new(),
        };
        let value = serde_json::to_vec(&group).unwrap();
        let key = map::group_key(PoolId(2), GroupIndex(0));
        late.metadata.txn(&Call::put(key, value)).unwrap();
        late
    }

    /// The metadata says that the volume of this number has the name, and is node 5's under generation 8.
    fn record(&mut self, id: u64) {
        let volume = map::Volume {
            generation: Generation(8),
            owner: Some(NEXT_OWNER),
            ..map::Volume::new(VolumeId(id), "v", "p", 1 << 30)
        };
        let value = serde_json::to_vec(&volume).unwrap();
        self.metadata.txn(&Call::put(map::volume_key("v"), value)).unwrap();
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
    }

    fn fence(&self) -> (Scope, FenceRequest) {
        let (mut scope, mut fence) = (self.rig.scope, self.rig.fence.clone());
        (scope.generation, scope.epoch) = (Generation(8), Epoch(6));
        (fence.owner, fence.syncing) = (NEXT_OWNER, Vec::new());
        (scope, fence)
    }

    fn judge(&self, from: NodeId) -> Result<(), Refusal> {
        let (scope, fence) = self.fence();
        self.inquiry.judge(self.now, &self.rig.view, from, &scope, &fence)
    }

    fn ask(&mut self, from: NodeId) -> Option<(amita_sequencer::CallId, Call)> {
        let (scope, _) = self.fence();
        self.inquiry.ask(self.now, &self.rig.view, from, &scope)
    }

    fn answer(&mut self, (call, request): (amita_sequencer::CallId, Call)) {
        let reply = self.metadata.txn(&request).unwrap();
        self.inquiry.answered(self.now, call, Some(&reply));
    }
}

#[test]
fn what_the_watch_has_not_told_is_read() {
    let mut late = Late::new();
    assert_eq!(late.judge(NEXT_OWNER), Err(Refusal::Busy), "nothing was read");
    let call = late.ask(NEXT_OWNER).expect("the name of the volume is known");
    assert_eq!(late.judge(NEXT_OWNER), Err(Refusal::Busy));
    late.answer(call);
    assert_eq!(late.judge(NEXT_OWNER), Ok(()));
    assert_eq!(late.judge(OWNER), Err(Refusal::Busy), "it was read for node 5");
    let call = late.ask(OWNER).unwrap();
    late.answer(call);
    let members = Err(Refusal::Invalid { what: Problem::Members });
    assert_eq!(late.judge(OWNER), members, "it is node 5 that the record names");
    // What goes beyond is read anew, and what is behind is told so.
    let (mut scope, fence) = late.fence();
    let judge = |late: &Late, scope: &Scope| late.inquiry.judge(late.now, &late.rig.view, NEXT_OWNER, scope, &fence);
    (scope.generation, scope.epoch) = (Generation::MAX, Epoch(6));
    assert_eq!(judge(&late, &scope), Err(Refusal::Busy));
    (scope.generation, scope.epoch) = (Generation(8), Epoch(u64::MAX));
    assert_eq!(judge(&late, &scope), Err(Refusal::Busy));
    (scope.generation, scope.epoch) = (Generation(7), Epoch(6));
    let generation = Generation(8);
    assert_eq!(judge(&late, &scope), Err(Refusal::Fenced { generation }));
    (scope.generation, scope.epoch) = (Generation(8), Epoch(5));
    let epoch = Epoch(6);
    assert_eq!(judge(&late, &scope), Err(Refusal::StaleEpoch { epoch }));
    // It is not kept for ever.
    late.pass(Duration::from_secs(11));
    assert_eq!(late.judge(NEXT_OWNER), Err(Refusal::Busy));
}

/// Whoever sends fences that nobody can know the truth of costs the metadata a few reads, and keeps nobody else from his.
#[test]
fn a_node_has_one_read_at_a_time_and_a_few_in_a_second() {
    let mut late = Late::new();
    let first = late.ask(OWNER).expect("nothing is under way");
    assert_eq!(late.ask(OWNER), None, "one is under way");
    assert!(late.ask(NEXT_OWNER).is_some(), "that is another node's");
    late.inquiry.answered(late.now, first.0, None);
    assert_eq!(late.ask(OWNER), None, "one was a moment ago");
    let mut reads = 0;
    for _ in 0..1000 {
        late.pass(Duration::from_millis(1));
        if let Some(call) = late.ask(OWNER) {
            reads += 1;
            late.answer(call);
        }
    }
    assert_eq!(reads, 50);
}

/// A node takes over what another one had, and the watch tells nothing: its fences come at once, and again until they are answered.
#[test]
fn a_takeover_of_many_volumes_is_read_in_few_transactions() {
    const VOLUMES: u64 = 500;
    const FIRST: u64 = 100;
    let mut late = Late::new();
    for number in 0..VOLUMES {
        let mut volume = map::Volume {
            generation: Generation(7),
            owner: Some(OWNER),
            ..map::Volume::new(VolumeId(FIRST + number), &format!("v{number}"), "p", 1 << 30)
        };
        let key = map::volume_key(&volume.name);
        late.rig.view.apply(&Record {
            key: key.clone(),
            value: Some(serde_json::to_vec(&volume).unwrap()),
            revision: 1,
            created: 1,
        });
        (volume.generation, volume.owner) = (Generation(8), Some(NEXT_OWNER));
        let value = serde_json::to_vec(&volume).unwrap();
        late.metadata.txn(&Call::put(key, value)).unwrap();
    }
    let (mut waiting, mut transactions): (Vec<u64>, _) = ((0..VOLUMES).collect(), 0);
    while !waiting.is_empty() && transactions <= VOLUMES {
        waiting.retain(|number| {
            let (mut scope, fence) = late.fence();
            scope.volume = VolumeId(FIRST + number);
            let judged = late.inquiry.judge(late.now, &late.rig.view, NEXT_OWNER, &scope, &fence);
            if judged == Err(Refusal::Busy)
                && let Some(call) = late.inquiry.ask(late.now, &late.rig.view, NEXT_OWNER, &scope)
            {
                transactions += 1;
                assert!(call.1.then.len() <= 128, "more than etcd takes");
                late.answer(call);
            }
            judged.is_err()
        });
        late.pass(Duration::from_millis(20));
    }
    assert_eq!(waiting, Vec::<u64>::new());
    assert!((9..=12).contains(&transactions), "{transactions}");
}

#[test]
fn an_answer_that_is_lost_is_not_waited_for() {
    let mut late = Late::new();
    let lost = late.ask(NEXT_OWNER).unwrap();
    late.pass(Duration::from_secs(9));
    assert_eq!(late.ask(NEXT_OWNER), None);
    late.pass(Duration::from_secs(1));
    let again = late.ask(NEXT_OWNER).expect("it was waited for long enough");
    late.answer(lost);
    assert_eq!(
        late.judge(NEXT_OWNER),
        Err(Refusal::Busy),
        "an answer to an older question"
    );
    late.answer(again);
    assert_eq!(late.judge(NEXT_OWNER), Ok(()));
}

#[test]
fn a_volume_of_another_number_is_another_volume() {
    let mut late = Late::new();
    late.record(10);
    let call = late.ask(NEXT_OWNER).unwrap();
    late.answer(call);
    assert_eq!(late.judge(NEXT_OWNER), Err(Refusal::Busy));
    // One that nobody has heard of has no name by which it could be read.
    let (mut scope, _) = late.fence();
    scope.volume = VolumeId(11);
    assert_eq!(late.inquiry.ask(late.now, &late.rig.view, OWNER, &scope), None);
}
