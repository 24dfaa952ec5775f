mod closed;
mod locked;

use super::*;
use amita_metadata::model::State;
use amita_types::map::PoolKind;
use amita_types::{Epoch, GroupIndex, PoolId, StoreId};

struct Rig {
    opener: Opener,
    metadata: State,
    now: Time,
    calls: Vec<(CallId, Call)>,
    asked: Vec<NodeId>,
    result: Option<Result<Opened, OpenError>>,
}

const ME: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

fn put(metadata: &mut State, key: String, value: &impl serde_json_value::Json) {
    metadata.txn(&Call::put(key, value.json())).unwrap();
}

/// So that records of any type can be put.
mod serde_json_value {
    use amita_types::map;

    pub trait Json {
        fn json(&self) -> Vec<u8>;
    }

    macro_rules! json {
        ($($name:ty),*) => { $(impl Json for $name {
            fn json(&self) -> Vec<u8> {
                serde_json::to_vec(self).unwrap()
            }
        })* };
    }

    json!(
        map::Volume,
        map::Pool,
        map::Group,
        map::Suspect,
        map::Snapshot,
        map::SnapshotSet
    );
}

fn volume(owner: Option<NodeId>) -> map::Volume {
    map::Volume {
        generation: Generation(4),
        owner,
        ..map::Volume::new(VolumeId(9), "v", "p", 1 << 30)
    }
}

fn pool() -> map::Pool {
    map::Pool {
        failure_domain: amita_types::placement::Level::Node,
        class: None,
        id: PoolId(1),
        name: "p".to_owned(),
        kind: PoolKind::Replicated {
            copies: 2,
            min_copies: 1,
        },
        groups: 2,
        chunk_bytes: 4 << 20,
    }
}

fn group(index: u32) -> map::Group {
    map::Group {
        syncing: Vec::new(),
        index: GroupIndex(index),
        epoch: Epoch(1),
        members: vec![StoreId(1), StoreId(2)],
        in_sync: vec![StoreId(1), StoreId(2)],
    }
}

fn metadata(owner: Option<NodeId>) -> State {
    let mut metadata = State::new();
    put(&mut metadata, map::volume_key("v"), &volume(owner));
    put(&mut metadata, map::pool_key("p"), &pool());
    for index in 0..2 {
        put(
            &mut metadata,
            map::group_key(PoolId(1), GroupIndex(index)),
            &group(index),
        );
    }
    metadata
}

impl Rig {
    fn new(metadata: State) -> Rig {
        Rig::with(metadata, Consent::Asked)
    }

    fn with(metadata: State, consent: Consent) -> Rig {
        let now = Time(1_000_000);
        let mut config = OpenerConfig::new(ME, "v");
        config.consent = consent;
        let mut rig = Rig {
            opener: Opener::new(config, 5 << 40, now),
            metadata,
            now,
            calls: Vec::new(),
            asked: Vec::new(),
            result: None,
        };
        rig.collect();
        rig
    }

    fn lives(mut self, node: NodeId) -> Rig {
        self.metadata.txn(&Call::put(map::live_key(node), "{}")).unwrap();
        self
    }

    fn collect(&mut self) {
        for effect in self.opener.effects() {
            match effect {
                OpenerEffect::Meta { call, request } => self.calls.push((call, request)),
                OpenerEffect::AskOwner { node, volume, .. } => {
                    assert_eq!(volume, VolumeId(9));
                    self.asked.push(node);
                }
                OpenerEffect::Opened(result) => {
                    assert!(self.result.is_none(), "said once");
                    self.result = Some(*result);
                }
            }
        }
    }

    fn step(&mut self) {
        let (id, call) = self.calls.remove(0);
        let reply = self.metadata.txn(&call).unwrap();
        self.opener.meta(self.now, id, Ok(reply));
        self.collect();
    }

    fn fail(&mut self, error: Error) {
        let (id, _) = self.calls.remove(0);
        self.opener.meta(self.now, id, Err(error));
        self.collect();
    }

    fn run(&mut self) {
        for _ in 0..100 {
            if self.calls.is_empty() {
                break;
            }
            self.step();
        }
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now = self.now.plus(Duration::from_millis(ms));
        self.opener.tick(self.now);
        self.collect();
    }

    fn volume(&self) -> map::Volume {
        self.metadata.get(&map::volume_key("v")).unwrap().json().unwrap()
    }

    fn opened(&self) -> &Opened {
        self.result
            .as_ref()
            .expect("it has ended")
            .as_ref()
            .expect("it is open")
    }

    fn error(&self) -> &OpenError {
        self.result
            .as_ref()
            .expect("it has ended")
            .as_ref()
            .expect_err("it is not open")
    }
}

fn unavailable() -> Error {
    Error::Unavailable {
        what: "away".to_owned(),
        endpoints: "m".to_owned(),
    }
}

fn unknown() -> Error {
    Error::Unknown {
        what: "time-out".to_owned(),
        endpoint: "m".to_owned(),
    }
}

#[test]
fn a_volume_without_an_owner_is_opened() {
    let mut rig = Rig::new(metadata(None));
    rig.run();
    let opened = rig.opened().clone();
    assert_eq!((opened.generation, opened.owner), (Generation(5), ME));
    assert_eq!(opened.groups.len(), 2);
    assert_eq!(rig.volume(), opened.volume);
    assert_eq!(rig.volume().owner, Some(ME));
    let revision = rig.metadata.get(&map::volume_key("v")).unwrap().mod_revision;
    assert_eq!(opened.volume_revision, revision);
    assert_eq!(rig.opener.deadline(), None);
    assert!(rig.opener.is_done());
}

#[test]
fn groups_are_read_after_the_generation_was_raised() {
    let mut rig = Rig::new(metadata(None));
    while rig.volume().generation == Generation(4) {
        rig.step();
    }
    // An eviction in between must be seen (R6).
    let mut moved = group(1);
    moved.epoch = Epoch(2);
    moved.in_sync.truncate(1);
    put(&mut rig.metadata, map::group_key(PoolId(1), GroupIndex(1)), &moved);
    rig.run();
    assert_eq!(rig.opened().groups[1].0, moved);
}

#[test]
fn a_living_owner_is_asked_and_may_refuse() {
    let mut rig = Rig::new(metadata(Some(OTHER))).lives(OTHER);
    rig.run();
    assert_eq!(rig.asked, [OTHER]);
    rig.opener.owner(OwnerReply::Busy);
    rig.collect();
    assert_eq!(*rig.error(), OpenError::Busy { owner: OTHER });
    assert_eq!(rig.volume().generation, Generation(4), "nothing was touched");
}

#[test]
fn an_owner_that_hands_the_volume_over_gives_its_leases_back() {
    let asked = |consent| {
        let mut rig = Rig::with(metadata(Some(OTHER)), consent).lives(OTHER);
        rig.run();
        assert_eq!(rig.asked, [OTHER]);
        rig
    };
    let mut rig = asked(Consent::HandOver);
    rig.opener.owner(OwnerReply::Released);
    rig.collect();
    rig.run();
    assert_eq!(rig.opened().given_back, Some(Generation(4)));
    // Where nobody uses the volume its owner does not wait for its cores.
    let mut rig = asked(Consent::Asked);
    rig.opener.owner(OwnerReply::Released);
    rig.collect();
    rig.run();
    assert_eq!(rig.opened().given_back, None);
    for reply in [OwnerReply::NotOwner, OwnerReply::Unreachable] {
        let mut rig = asked(Consent::HandOver);
        rig.opener.owner(reply);
        rig.collect();
        rig.run();
        assert_eq!(rig.opened().given_back, None, "{reply:?}");
    }
}

/// The switch of a move names whoever owned the volume as the owner of what it has moved to, whose leases were given back.
#[test]
fn the_record_may_say_that_leases_were_given_back_and_a_raise_takes_that_and_a_hold_back() {
    for owner in [ME, OTHER] {
        let mut record = volume(Some(owner));
        (record.lineage.given_back, record.lineage.held) = (true, true);
        let mut metadata = metadata(Some(owner));
        put(&mut metadata, map::volume_key("v"), &record);
        let mut rig = Rig::new(metadata);
        rig.run();
        let opened = rig.opened();
        assert_eq!(
            (opened.given_back, opened.generation),
            (Some(Generation(4)), Generation(5))
        );
        assert_eq!(
            (opened.volume.lineage.given_back, opened.volume.lineage.held),
            (false, false)
        );
    }
}

#[test]
fn what_was_given_back_is_forgotten_where_another_was_quicker() {
    let mut rig = Rig::with(metadata(Some(OTHER)), Consent::HandOver).lives(OTHER);
    rig.run();
    rig.opener.owner(OwnerReply::Released);
    rig.collect();
    // A third gateway takes the volume over before the raise, and dies: it has given nothing back.
    let mut taken = volume(Some(NodeId(3)));
    taken.generation = Generation(5);
    put(&mut rig.metadata, map::volume_key("v"), &taken);
    rig.run();
    assert_eq!(rig.opened().generation, Generation(6));
    assert_eq!(rig.opened().given_back, None);
    // Nor is it known what a raise of unknown outcome stood on.
    let mut rig = Rig::with(metadata(Some(OTHER)), Consent::HandOver).lives(OTHER);
    rig.run();
    rig.opener.owner(OwnerReply::Released);
    rig.collect();
    rig.fail(unknown());
    rig.pass_ms(100);
    rig.run();
    rig.opener.owner(OwnerReply::NotOwner);
    rig.collect();
    rig.run();
    assert_eq!(rig.opened().given_back, None);
}

#[test]
fn an_owner_that_releases_or_cannot_answer_is_succeeded() {
    for reply in [
        Some(OwnerReply::Released),
        Some(OwnerReply::NotOwner),
        Some(OwnerReply::Unreachable),
        None,
    ] {
        let mut rig = Rig::new(metadata(Some(OTHER))).lives(OTHER);
        rig.run();
        match reply {
            Some(reply) => rig.opener.owner(reply),
            None => {
                rig.pass_ms(299);
                assert!(rig.calls.is_empty());
                rig.pass_ms(2);
            }
        }
        rig.collect();
        rig.run();
        assert_eq!(rig.opened().generation, Generation(5), "{reply:?}");
        // An answer that comes too late is nothing.
        rig.opener.owner(OwnerReply::Busy);
    }
}

/// With so much patience, where the owner lives.
fn patient(consent: Consent) -> Rig {
    let mut rig = Rig::with(metadata(Some(OTHER)), consent).lives(OTHER);
    let mut config = OpenerConfig::new(ME, "v");
    config.consent = consent;
    config.owner_patience = Some(Duration::from_secs(60));
    rig.opener = Opener::new(config, 6 << 40, rig.now);
    (rig.calls, rig.asked) = (Vec::new(), Vec::new());
    rig.collect();
    rig.run();
    assert_eq!(rig.asked, [OTHER]);
    rig
}

/// Until it was asked so often in all.
fn ask_again(rig: &mut Rig, questions: usize) {
    for asked in rig.asked.len()..questions {
        rig.pass_ms(1999);
        assert!(rig.calls.is_empty(), "it has time to answer");
        rig.pass_ms(1);
        rig.run();
        assert_eq!(rig.asked.len(), asked + 1);
        assert_eq!(rig.volume().generation, Generation(4), "nothing was touched");
    }
}

#[test]
fn a_patient_opener_passes_over_no_owner_that_lives() {
    // More questions than races may be lost. At last it answers.
    for unreachable in [false, true] {
        for answer in [OwnerReply::Busy, OwnerReply::Released, OwnerReply::NotOwner] {
            let mut rig = patient(Consent::Asked);
            if unreachable {
                rig.opener.owner(OwnerReply::Unreachable);
                rig.collect();
                rig.run();
                assert!(rig.result.is_none());
            }
            ask_again(&mut rig, 20);
            rig.opener.owner(answer);
            rig.collect();
            rig.run();
            match answer {
                OwnerReply::Busy => assert_eq!(*rig.error(), OpenError::Busy { owner: OTHER }),
                _ => assert_eq!(rig.opened().generation, Generation(5)),
            }
        }
    }
    // Its lease ends.
    let mut rig = patient(Consent::Asked);
    ask_again(&mut rig, 3);
    let mut ends = Call::default();
    ends.then.push(Op::Delete {
        key: map::live_key(OTHER),
    });
    rig.metadata.txn(&ends).unwrap();
    rig.pass_ms(2000);
    rig.run();
    assert_eq!(rig.asked.len(), 3);
    assert_eq!(rig.opened().generation, Generation(5));
    // Nobody is there, whatever its lease says.
    let mut rig = patient(Consent::Asked);
    rig.opener.owner(OwnerReply::Gone);
    rig.collect();
    rig.run();
    assert_eq!(rig.opened().generation, Generation(5));
    // It says nothing for ever.
    let mut rig = patient(Consent::Asked);
    ask_again(&mut rig, 30);
    rig.pass_ms(2000);
    rig.run();
    assert_eq!(*rig.error(), OpenError::Silent { owner: OTHER });
    assert_eq!(rig.volume().generation, Generation(4), "nothing was touched");
}

/// One that needs longer than a question is given answers the question before; that answer counts. What it says of an owner before it does not.
#[test]
fn a_slow_answer_counts_as_long_as_owner_and_generation_are_the_same() {
    let mut rig = patient(Consent::Asked);
    let first = rig.opener.asked();
    ask_again(&mut rig, 3);
    assert_eq!(rig.opener.asked(), first);
    let mut taken = volume(Some(NodeId(3)));
    taken.generation = Generation(5);
    put(&mut rig.metadata, map::volume_key("v"), &taken);
    rig = rig.lives(NodeId(3));
    rig.pass_ms(2000);
    rig.run();
    assert_eq!(rig.asked.last(), Some(&NodeId(3)));
    let second = rig.opener.asked();
    assert_ne!(
        second.map(|(_, question)| question),
        first.map(|(_, question)| question)
    );
    // The same node again, with another generation.
    taken.generation = Generation(6);
    put(&mut rig.metadata, map::volume_key("v"), &taken);
    rig.pass_ms(2000);
    rig.run();
    assert_ne!(rig.opener.asked(), second);
}

/// Each look at the records has the metadata's whole patience.
#[test]
fn a_patient_opener_bears_metadata_that_is_away_for_a_moment() {
    let mut rig = patient(Consent::Asked);
    rig.pass_ms(2000);
    for _ in 0..25 {
        rig.fail(unavailable());
        rig.pass_ms(100);
    }
    rig.run();
    assert_eq!(rig.asked.len(), 2);
    rig.opener.owner(OwnerReply::Busy);
    rig.collect();
    assert_eq!(*rig.error(), OpenError::Busy { owner: OTHER });
}

/// A move has its own end, and hosts whose way to the owner is lost are in haste.
#[test]
fn patience_is_for_what_opens_by_itself() {
    let mut rig = patient(Consent::HandOver);
    rig.pass_ms(2000);
    assert_eq!(*rig.error(), OpenError::Busy { owner: OTHER });
    let mut rig = patient(Consent::Over(Some(OTHER)));
    rig.pass_ms(300);
    rig.run();
    assert_eq!(rig.opened().generation, Generation(5));
}

#[test]
fn a_dead_owner_is_not_asked_and_neither_are_we() {
    let mut rig = Rig::new(metadata(Some(OTHER)));
    rig.run();
    assert!(rig.asked.is_empty());
    assert_eq!(rig.opened().generation, Generation(5));
    let mut rig = Rig::new(metadata(Some(ME))).lives(ME);
    rig.run();
    assert!(rig.asked.is_empty());
    assert_eq!(rig.opened().generation, Generation(5));
}

#[test]
fn metadata_that_a_node_suspects_opens_nothing() {
    let mut suspected = metadata(None);
    let why = "the metadata is older than what store 1 knows".to_owned();
    let suspect = map::Suspect { why: why.clone() };
    put(&mut suspected, map::suspect_key(OTHER), &suspect);
    let mut rig = Rig::new(suspected);
    rig.run();
    let volume = "v".to_owned();
    assert_eq!(*rig.error(), OpenError::Suspect { volume, why });
    assert_eq!(rig.volume().generation, Generation(4), "nothing was changed");
}

#[test]
fn a_lost_race_asks_the_winner() {
    let mut rig = Rig::new(metadata(None)).lives(OTHER);
    rig.step();
    rig.step();
    let mut theirs = volume(Some(OTHER));
    theirs.generation = Generation(5);
    put(&mut rig.metadata, map::volume_key("v"), &theirs);
    rig.run();
    assert_eq!(rig.asked, [OTHER]);
    rig.opener.owner(OwnerReply::Busy);
    rig.collect();
    assert_eq!(*rig.error(), OpenError::Busy { owner: OTHER });
}

#[test]
fn a_race_that_is_lost_after_the_raise_starts_again() {
    let mut rig = Rig::new(metadata(None)).lives(OTHER);
    while rig.volume().generation == Generation(4) {
        rig.step();
    }
    let mut theirs = volume(Some(OTHER));
    theirs.generation = Generation(6);
    put(&mut rig.metadata, map::volume_key("v"), &theirs);
    rig.run();
    assert_eq!(rig.asked, [OTHER]);
    rig.opener.owner(OwnerReply::Released);
    rig.collect();
    rig.run();
    assert_eq!(rig.opened().generation, Generation(7));
}

#[test]
fn endless_races_end() {
    let mut rig = Rig::new(metadata(None));
    for turn in 5..100 {
        if rig.result.is_some() {
            break;
        }
        while !rig.calls.is_empty() && !rig.calls[0].1.then.iter().any(Op::is_write) {
            rig.step();
        }
        let mut theirs = volume(None);
        theirs.generation = Generation(turn);
        put(&mut rig.metadata, map::volume_key("v"), &theirs);
        rig.step();
    }
    assert_eq!(*rig.error(), OpenError::Contended);
}

#[test]
fn an_unknown_outcome_is_read_back_and_raised_again() {
    for done in [true, false] {
        let mut rig = Rig::new(metadata(None));
        rig.step();
        rig.step();
        if done {
            let call = rig.calls[0].1.clone();
            rig.metadata.txn(&call).unwrap();
        }
        rig.fail(unknown());
        assert!(rig.calls.is_empty());
        rig.pass_ms(30);
        assert!(rig.calls[0].1.is_read_only());
        rig.run();
        assert_eq!(rig.opened().generation, Generation(if done { 6 } else { 5 }));
        assert_eq!(rig.volume().generation, rig.opened().generation);
    }
}

#[test]
fn the_metadata_may_be_away_for_a_while() {
    let mut rig = Rig::new(metadata(None));
    for _ in 0..20 {
        rig.fail(unavailable());
        rig.pass_ms(30);
    }
    rig.run();
    assert_eq!(rig.opened().generation, Generation(5));

    let mut rig = Rig::new(metadata(None));
    while rig.result.is_none() {
        rig.fail(unavailable());
        rig.pass_ms(100);
    }
    assert!(matches!(rig.error(), OpenError::Metadata { .. }));
    assert!(rig.now.since(Time(0)) < Duration::from_secs(4));
}

#[test]
fn what_cannot_be_opened_is_said_clearly() {
    let wrong = |change: fn(&mut State)| {
        let mut state = metadata(None);
        change(&mut state);
        let mut rig = Rig::new(state);
        rig.run();
        rig.error().clone()
    };
    assert_eq!(
        wrong(|state| {
            state
                .txn(&Call {
                    then: vec![Op::Delete {
                        key: map::volume_key("v"),
                    }],
                    ..Call::default()
                })
                .unwrap();
        }),
        OpenError::NoSuchVolume { name: "v".to_owned() }
    );
    assert_eq!(
        wrong(|state| {
            state
                .txn(&Call {
                    then: vec![Op::Delete {
                        key: map::pool_key("p"),
                    }],
                    ..Call::default()
                })
                .unwrap();
        }),
        OpenError::NoSuchPool {
            volume: "v".to_owned(),
            pool: "p".to_owned()
        }
    );
    assert_eq!(
        wrong(|state| {
            let mut last = volume(None);
            last.generation = Generation::MAX;
            put(state, map::volume_key("v"), &last);
        }),
        OpenError::GenerationsUsedUp { name: "v".to_owned() }
    );
    let bad: [fn(&mut State); 10] = [
        |state| {
            put(
                state,
                map::volume_key("v"),
                &map::Volume {
                    size_bytes: 5000,
                    ..volume(None)
                },
            )
        },
        |state| put(state, map::pool_key("p"), &map::Pool { groups: 3, ..pool() }),
        |state| {
            put(
                state,
                map::pool_key("p"),
                &map::Pool {
                    groups: 1 << 20,
                    ..pool()
                },
            )
        },
        |state| {
            put(
                state,
                map::pool_key("p"),
                &map::Pool {
                    chunk_bytes: 5000,
                    ..pool()
                },
            )
        },
        |state| {
            put(
                state,
                map::pool_key("p"),
                &map::Pool {
                    chunk_bytes: 8 << 20,
                    ..pool()
                },
            )
        },
        |state| {
            let kind = PoolKind::Replicated {
                copies: 2,
                min_copies: 3,
            };
            put(state, map::pool_key("p"), &map::Pool { kind, ..pool() });
        },
        |state| put(state, map::pool_key("p"), &map::Pool { groups: 4, ..pool() }),
        |state| {
            let key = map::group_key(PoolId(1), GroupIndex(1));
            put(
                state,
                key,
                &map::Group {
                    in_sync: Vec::new(),
                    ..group(1)
                },
            );
        },
        |state| {
            let key = map::group_key(PoolId(1), GroupIndex(1));
            put(
                state,
                key,
                &map::Group {
                    in_sync: vec![StoreId(1); 2],
                    ..group(1)
                },
            );
        },
        |state| {
            state
                .txn(&Call::put(map::group_key(PoolId(1), GroupIndex(0)), "{"))
                .unwrap();
        },
    ];
    for change in bad {
        let error = wrong(change);
        assert!(matches!(error, OpenError::BadRecord { .. }), "{error}");
        assert!(error.to_string().contains("/amita/"), "it says where: {error}");
    }
}

/// The metadata of a volume whose snapshot 1 an owner was taking for a set that has come this far.
fn in_a_set(state: map::SetState) -> State {
    let mut metadata = metadata(Some(OTHER));
    let mut record = volume(Some(OTHER));
    record.lineage = map::Lineage {
        number: SnapshotId(1),
        sealed: SnapshotId::HEAD,
        taking: true,
        set: Some(SetId(3)),
        ..map::Lineage::default()
    };
    put(&mut metadata, map::volume_key("v"), &record);
    let snapshot = map::Snapshot {
        volume: VolumeId(9),
        number: SnapshotId(1),
        name: "s".to_owned(),
        size_bytes: 1 << 30,
        taken_at: 1,
        labels: std::collections::BTreeMap::new(),
        protected: false,
        clones: 0,
        mark: false,
        hidden: false,
        set: Some(SetId(3)),
        state: map::SnapshotState::Taking(Generation(4)),
    };
    put(&mut metadata, map::snapshot_key(VolumeId(9), SnapshotId(1)), &snapshot);
    let volumes = [VolumeId(9), VolumeId(10)].map(|id| map::SetVolume {
        id,
        name: format!("v{id}"),
    });
    let set = map::SnapshotSet {
        id: SetId(3),
        name: "s".to_owned(),
        asked_at: 1,
        labels: std::collections::BTreeMap::new(),
        volumes: volumes.to_vec(),
        state,
    };
    put(&mut metadata, map::set_key(SetId(3)), &set);
    metadata
}

fn set_of(rig: &Rig) -> map::SnapshotSet {
    rig.metadata.get(&map::set_key(SetId(3))).unwrap().json().unwrap()
}

fn snapshot_of(rig: &Rig) -> map::SnapshotState {
    let key = map::snapshot_key(VolumeId(9), SnapshotId(1));
    rig.metadata.get(&key).unwrap().json::<map::Snapshot>().unwrap().state
}

#[test]
fn a_raise_voids_a_set_that_is_being_taken() {
    let mut rig = Rig::new(in_a_set(map::SetState::Taking));
    while !rig.calls.is_empty() {
        rig.step();
    }
    let opened = rig.result.take().unwrap().unwrap();
    let void = map::Lineage {
        number: SnapshotId(1),
        ..map::Lineage::default()
    };
    assert_eq!(opened.volume.lineage, void, "S2: the number is used up");
    let map::SetState::Void(voided) = set_of(&rig).state else {
        panic!("S4: it is void with one of its volumes");
    };
    assert!(
        voided.again && voided.why.contains("volume v was taken over"),
        "{voided:?}"
    );
    assert_eq!(snapshot_of(&rig), map::SnapshotState::Taking(Generation(4)));
}

#[test]
fn a_raise_seals_what_a_set_that_is_ready_has_of_the_volume() {
    let mut rig = Rig::new(in_a_set(map::SetState::Ready));
    while !rig.calls.is_empty() {
        rig.step();
    }
    let opened = rig.result.take().unwrap().unwrap();
    let sealed = map::Lineage {
        number: SnapshotId(1),
        sealed: SnapshotId(1),
        ..map::Lineage::default()
    };
    assert_eq!(opened.volume.lineage, sealed);
    assert_eq!(snapshot_of(&rig), map::SnapshotState::Sealed(Generation(4)));
    assert_eq!(set_of(&rig).state, map::SetState::Ready);
}

/// The leader's transaction comes between the opener's reading and its raise.
#[test]
fn a_raise_and_a_decision_do_not_cross() {
    let mut rig = Rig::new(in_a_set(map::SetState::Taking));
    rig.step();
    rig.step();
    let ready = map::SnapshotSet {
        state: map::SetState::Ready,
        ..set_of(&rig)
    };
    put(&mut rig.metadata, map::set_key(SetId(3)), &ready);
    while !rig.calls.is_empty() {
        rig.step();
    }
    let opened = rig.result.take().unwrap().unwrap();
    assert_eq!(opened.volume.lineage.sealed, SnapshotId(1), "it was read again");
    assert_eq!(set_of(&rig).state, map::SetState::Ready, "what is decided stays");
    assert_eq!(snapshot_of(&rig), map::SnapshotState::Sealed(Generation(4)));
}

#[test]
fn a_set_whose_record_is_gone_was_void() {
    let mut metadata = in_a_set(map::SetState::Taking);
    let key = map::set_key(SetId(3));
    let gone = Call {
        then: vec![Op::Delete { key }],
        ..Call::default()
    };
    metadata.txn(&gone).unwrap();
    let mut rig = Rig::new(metadata);
    while !rig.calls.is_empty() {
        rig.step();
    }
    let opened = rig.result.take().unwrap().unwrap();
    assert!(!opened.volume.lineage.taking);
    assert_eq!(opened.volume.lineage.sealed, SnapshotId::HEAD);
}
