use super::*;
use amita_cluster::map::Live;
use amita_cluster::{Epoch, GroupIndex};
use amita_meta::model::State;
use amita_meta::{Compare, LeaseId, Op, Refusal};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const POOL: PoolId = PoolId(1);

fn node(number: u32) -> NodeId {
    NodeId(number)
}

fn store(number: u32) -> StoreId {
    StoreId(u128::from(number))
}

/// A cluster's metadata, a coordinator that watches it, and the calls that are under way.
struct Scene {
    state: State,
    machine: Coordinator,
    now: Moment,
    /// The first revision that the machine was not told.
    told: u64,
    calls: Vec<(CallNumber, Call)>,
    warnings: Vec<Warning>,
    leases: BTreeMap<NodeId, LeaseId>,
    /// The keys that the machine knows to be there.
    known: BTreeSet<String>,
    min_copies: usize,
}

impl Scene {
    /// Nodes `1..=nodes` with store `i` on node `i`, all of them alive; a pool whose groups all have these members.
    fn new(nodes: u32, groups: u32, min_copies: u8) -> Scene {
        let mut scene = Scene {
            state: State::new(),
            machine: Coordinator::new(Config::default()),
            now: Moment::default(),
            told: 0,
            calls: Vec::new(),
            warnings: Vec::new(),
            leases: BTreeMap::new(),
            known: BTreeSet::new(),
            min_copies: usize::from(min_copies),
        };
        let members: Vec<StoreId> = (1..=nodes).map(store).collect();
        let kind = PoolKind::Replicated {
            copies: nodes as u8,
            min_copies,
        };
        let pool = Pool {
            failure_domain: amita_cluster::placement::Level::Node,
            class: None,
            id: POOL,
            name: "p".to_owned(),
            kind,
            groups,
            chunk_bytes: 4 << 20,
        };
        scene.put(&map::pool_key("p"), &pool);
        for index in 0..groups {
            let index = GroupIndex(index);
            let group = Group {
                syncing: Vec::new(),
                index,
                epoch: Epoch(1),
                members: members.clone(),
                in_sync: members.clone(),
            };
            scene.put(&map::group_key(POOL, index), &group);
        }
        for number in 1..=nodes {
            let id = store(number);
            let record = Store {
                class: String::new(),
                duty: amita_cluster::map::StoreDuty::Normal,
                id,
                node: node(number),
                path: "/x".to_owned(),
                size_bytes: 1 << 30,
                weight: 1,
            };
            scene.put(&map::store_key(id), &record);
            scene.rise(node(number));
        }
        scene
    }

    /// The machine has heard all of it, and leads.
    fn led(nodes: u32, groups: u32, min_copies: u8) -> Scene {
        let mut scene = Scene::new(nodes, groups, min_copies);
        scene.read_all();
        scene.elect();
        scene
    }

    fn put<T: serde::Serialize>(&mut self, key: &str, record: &T) {
        self.state
            .txn(&Call::put(key, serde_json::to_vec(record).unwrap()))
            .unwrap();
    }

    fn rise(&mut self, node: NodeId) {
        let lease = self.state.lease_grant(self.now.0, 5, None).unwrap();
        let value = serde_json::to_vec(&Live {
            stores: None,
            session: 1,
            pid: 1,
        })
        .unwrap();
        let put = Op::Put {
            key: map::live_key(node),
            value,
            lease: Some(lease),
        };
        self.state
            .txn(&Call {
                then: vec![put],
                ..Call::default()
            })
            .unwrap();
        if let Some(old) = self.leases.insert(node, lease) {
            self.state.lease_revoke(old).unwrap();
        }
    }

    fn die(&mut self, node: NodeId) {
        if let Some(lease) = self.leases.remove(&node) {
            self.state.lease_revoke(lease).unwrap();
        }
    }

    fn read_all(&mut self) {
        let revision = self.state.revision();
        let there: BTreeSet<String> = self.state.keys().map(|record| record.key.clone()).collect();
        for key in std::mem::take(&mut self.known).difference(&there) {
            self.apply(Event::Gone {
                key: key.clone(),
                revision,
            });
        }
        self.known = there;
        for record in self.state.keys().cloned().collect::<Vec<_>>() {
            self.apply(Event::Record(record));
        }
        self.told = self.state.revision() + 1;
        self.apply(Event::Settled);
    }

    fn elect(&mut self) {
        let revision = self.state.txn(&Call::put(election_key(), "me")).unwrap().revision;
        let created = self.state.get(&election_key()).unwrap().create_revision;
        assert!(created <= revision);
        self.apply(Event::Elected { revision: created });
    }

    fn apply(&mut self, event: Event) {
        for action in self.machine.apply(self.now, event) {
            match action {
                Action::Call { number, call } => {
                    self.inspect(&call);
                    self.calls.push((number, call));
                }
                Action::Warn(warning) => self.warnings.push(warning),
            }
        }
    }

    /// Whatever the coordinator writes is a compare-and-set of its key, under its election.
    fn inspect(&self, call: &Call) {
        assert_eq!(call.check(), Ok(()));
        assert!(call.otherwise.iter().all(|op| !op.is_write()));
        for op in call.then.iter().filter(|op| op.is_write()) {
            let Op::Put { key, lease: None, .. } = op else {
                panic!("nothing but puts: {op:?}")
            };
            let cas =
                |compare: &Compare| matches!(compare, Compare::ModRevision { key: own, equals: 1.. } if own == key);
            assert!(call.compares.iter().any(cas), "{key} is written without compare");
            let elected = Compare::CreateRevision {
                key: election_key(),
                equals: self.machine.elected.unwrap(),
            };
            assert!(call.compares.contains(&elected), "{key} is written outside an election");
        }
    }

    /// Tells the machine the changes up to and with this many revisions.
    fn tell(&mut self, most: usize) {
        let batches: Vec<_> = self.state.changes("", self.told).unwrap().take(most).collect();
        for batch in batches {
            self.told = batch.revision + 1;
            for event in batch.events {
                match &event {
                    amita_meta::Event::Put(record) => self.known.insert(record.key.clone()),
                    amita_meta::Event::Delete { key, .. } => self.known.remove(key),
                };
                self.apply(match event {
                    amita_meta::Event::Put(record) => Event::Record(record),
                    amita_meta::Event::Delete { key, mod_revision } => Event::Gone {
                        key,
                        revision: mod_revision,
                    },
                });
            }
        }
    }

    fn carry_out(&mut self, index: usize) {
        let (number, call) = self.calls.remove(index);
        let before = self.groups();
        let result = self.state.txn(&call).map_err(Error::from);
        self.judge(&before);
        self.apply(Event::Ended { call: number, result });
    }

    /// Nothing is left to be told or done at this moment.
    fn run(&mut self) {
        for _ in 0..1000 {
            self.tell(usize::MAX);
            if self.calls.is_empty() {
                return;
            }
            self.carry_out(0);
        }
        panic!("it does not come to rest");
    }

    fn wait(&mut self, seconds: u32) {
        self.now = self.now.plus(SECOND * seconds);
        self.apply(Event::Tick);
    }

    fn groups(&self) -> Vec<Group> {
        self.state
            .prefix(&map::groups_prefix(POOL))
            .filter_map(|record| record.json().ok())
            .collect()
    }

    /// What may happen to groups: R10, and epochs that only rise, together with the set.
    fn judge(&self, before: &[Group]) {
        for (old, new) in before.iter().zip(self.groups()) {
            assert_eq!((old.index, &old.members), (new.index, &new.members));
            if *old != new {
                assert_eq!(new.epoch, old.epoch.next());
                assert!(
                    new.in_sync.iter().all(|store| old.in_sync.contains(store)),
                    "nobody joins by eviction"
                );
                assert!(new.in_sync.len() < old.in_sync.len(), "no epoch without a change");
                assert!(
                    new.in_sync.len() >= self.min_copies,
                    "{new:?} has fewer than {}",
                    self.min_copies
                );
            }
        }
    }
}

#[test]
fn a_dead_nodes_stores_are_evicted_by_one_transaction() {
    let mut scene = Scene::led(3, 64, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    assert!(scene.calls.is_empty(), "it may be starting again");
    assert_eq!(scene.warnings, [Warning::NodeGone { node: node(3) }]);
    assert_eq!(scene.machine.deadline(), Some(Moment(Config::default().patience)));
    scene.wait(2);
    assert_eq!(scene.calls.len(), 1, "R12: one batch");
    scene.wait(1);
    assert_eq!(scene.calls.len(), 1, "nothing is asked twice");
    scene.run();
    for group in scene.groups() {
        assert_eq!((group.epoch, group.in_sync), (Epoch(2), vec![store(1), store(2)]));
    }
    assert_eq!(
        scene.warnings[1],
        Warning::Evicted {
            nodes: vec![node(3)],
            groups: 64
        }
    );
    assert_eq!(scene.machine.deadline(), None, "nothing is left to do");
}

#[test]
fn many_groups_go_in_batches_within_the_limits() {
    let mut scene = Scene::led(3, 1024, 1);
    scene.die(node(2));
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    assert!(
        (2..=4).contains(&scene.calls.len()),
        "a few at a time: {}",
        scene.calls.len()
    );
    scene.run();
    assert!(
        scene
            .groups()
            .iter()
            .all(|group| group.in_sync == [store(1)] && group.epoch == Epoch(2))
    );
}

#[test]
fn a_node_that_comes_back_in_time_is_not_evicted() {
    let mut scene = Scene::led(3, 4, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(1);
    scene.rise(node(3));
    scene.tell(usize::MAX);
    scene.wait(60);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.epoch == Epoch(1)));
    assert_eq!(
        scene.warnings,
        [Warning::NodeGone { node: node(3) }, Warning::NodeBack { node: node(3) }]
    );
}

/// The watch has not told yet that the node is back: the compare on its key stops the eviction.
#[test]
fn a_node_that_is_back_before_the_eviction_arrives_stays() {
    let mut scene = Scene::led(3, 4, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    scene.rise(node(3));
    scene.carry_out(0);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.epoch == Epoch(1)));
    assert!(scene.calls.is_empty());
}

/// It comes back, stops the eviction, and dies again while nobody watches (the history was compacted away): a machine that
/// had believed the reply of its own transaction would take it for alive for ever.
#[test]
fn a_reply_does_not_tell_who_lives() {
    let mut scene = Scene::led(3, 4, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    scene.rise(node(3));
    scene.carry_out(0);
    assert!(scene.calls.is_empty(), "it is not tried again in a hurry");
    scene.die(node(3));
    scene.read_all();
    scene.wait(2);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync == [store(1), store(2)]));
}

#[test]
fn below_min_copies_nobody_is_evicted_and_the_operator_is_told_once() {
    let mut scene = Scene::led(3, 8, 2);
    scene.die(node(2));
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    assert!(scene.calls.is_empty());
    let warning = Warning::TooFewAlive {
        pool: "p".to_owned(),
        groups: 8,
        nodes: vec![node(2), node(3)],
        min_copies: 2,
    };
    assert_eq!(scene.warnings.iter().filter(|own| **own == warning).count(), 1);
    scene.wait(100);
    assert_eq!(
        scene.warnings.iter().filter(|own| **own == warning).count(),
        1,
        "said once"
    );
    // One of them comes back: the other is evicted.
    scene.rise(node(2));
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync == [store(1), store(2)]));
    // And is told again, if it happens again.
    scene.die(node(2));
    scene.tell(usize::MAX);
    scene.wait(2);
    assert!(scene.calls.is_empty());
    assert!(matches!(scene.warnings.last(), Some(Warning::TooFewAlive { nodes, .. }) if *nodes == [node(2)]));
}

/// Nodes of a cluster that starts are not there all at once.
#[test]
fn a_cold_start_has_patience() {
    let mut scene = Scene::new(3, 4, 2);
    for number in 1..=3 {
        scene.die(node(number));
    }
    scene.rise(node(1));
    scene.read_all();
    scene.elect();
    scene.rise(node(2));
    scene.tell(usize::MAX);
    scene.wait(59);
    assert!(scene.calls.is_empty());
    assert_eq!(scene.machine.deadline(), Some(Moment(SECOND * 60)));
    scene.wait(1);
    scene.run();
    assert!(scene.groups().iter().all(|group| group.in_sync == [store(1), store(2)]));
}

/// With node 3 not started yet, evicting node 2 would leave a set that cannot be written to all the same.
#[test]
fn those_left_must_be_alive_not_only_not_yet_dead() {
    let mut scene = Scene::new(3, 4, 2);
    scene.die(node(3));
    scene.read_all();
    scene.elect();
    scene.die(node(2));
    scene.tell(usize::MAX);
    scene.wait(3);
    assert!(scene.calls.is_empty());
    assert!(matches!(scene.warnings.last(), Some(Warning::TooFewAlive { .. })));
}

#[test]
fn who_is_not_elected_changes_nothing_but_remembers() {
    let mut scene = Scene::led(3, 4, 2);
    scene.apply(Event::Deposed);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(60);
    assert!(scene.calls.is_empty());
    assert_eq!(scene.machine.deadline(), None);
    scene.elect();
    assert_eq!(scene.calls.len(), 1, "who was seen to die needs no more patience");
}

/// A coordinator that was deposed while its transaction was under way changes nothing.
#[test]
fn an_eviction_of_a_past_election_fails() {
    let mut scene = Scene::led(3, 4, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    let delete = Call {
        then: vec![Op::Delete { key: election_key() }],
        ..Call::default()
    };
    scene.state.txn(&delete).unwrap();
    scene.put(&election_key(), &"another");
    scene.carry_out(0);
    assert!(scene.groups().iter().all(|group| group.epoch == Epoch(1)));
}

#[test]
fn a_lost_race_takes_what_is_there_and_goes_on_from_it() {
    let mut scene = Scene::led(3, 2, 2);
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    // A sequencer was first with group 0 (R12).
    let mut group = scene.groups().remove(0);
    group.epoch = group.epoch.next();
    group.in_sync.retain(|own| *own != store(3));
    scene.put(&map::group_key(POOL, GroupIndex(0)), &group);
    scene.carry_out(0);
    assert_eq!(scene.calls.len(), 1);
    assert_eq!(
        scene.calls[0].1.then.len(),
        1,
        "only the group that still names the dead store"
    );
    scene.run();
    assert!(scene.groups().iter().all(|group| group.epoch == Epoch(2)));
}

#[test]
fn an_unknown_outcome_is_read_back_before_anything_is_built_on_it() {
    for done in [false, true] {
        let mut scene = Scene::led(3, 4, 2);
        scene.die(node(3));
        scene.tell(usize::MAX);
        scene.wait(2);
        let (number, call) = scene.calls.remove(0);
        if done {
            scene.state.txn(&call).unwrap();
        }
        let result = Err(Error::Unknown {
            what: "lost".into(),
            endpoint: "e".into(),
        });
        scene.apply(Event::Ended { call: number, result });
        assert!(scene.calls.is_empty());
        scene.wait(1);
        assert!(scene.calls[0].1.is_read_only(), "R6: it is read back");
        scene.run();
        for group in scene.groups() {
            assert_eq!(
                (group.epoch, group.in_sync),
                (Epoch(2), vec![store(1), store(2)]),
                "done: {done}"
            );
        }
    }
}

#[test]
fn what_cannot_be_read_is_left_alone_and_named() {
    let mut scene = Scene::led(3, 2, 2);
    scene.put(&map::group_key(POOL, GroupIndex(1)), &"no group");
    scene.put("/amita/future/thing", &1);
    scene.tell(usize::MAX);
    assert!(matches!(&scene.warnings[..], [Warning::Unreadable { key, .. }] if key.ends_with("0000000001")));
    assert!(scene.warnings[0].to_string().contains("0000000001"));
    // The other groups are looked after; the compare keeps this one as it is, and it is not tried for ever.
    scene.die(node(3));
    scene.tell(usize::MAX);
    scene.wait(2);
    for _ in 0..10 {
        if scene.calls.is_empty() {
            break;
        }
        scene.carry_out(0);
    }
    let first: Group = scene
        .state
        .get(&map::group_key(POOL, GroupIndex(0)))
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(first.in_sync, [store(1), store(2)]);
    assert_eq!(
        scene.state.get(&map::group_key(POOL, GroupIndex(1))).unwrap().value,
        b"\"no group\""
    );
}

/// What a random history is made of.
#[derive(Clone, Debug)]
enum Step {
    Die(u32),
    Rise(u32),
    Tell(usize),
    CarryOut(usize),
    /// The call is done or not, and the answer says otherwise or nothing.
    LoseAnswer(usize, bool),
    Refuse(usize),
    Wait(u32),
    /// A sequencer evicts this store from this group by compare-and-set.
    Rival(u32, u32),
    Depose,
    Elect,
    /// The watch starts anew: all records are told again.
    ReadAll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..=4_u32).prop_map(Step::Die),
        3 => (1..=4_u32).prop_map(Step::Rise),
        4 => (1..4_usize).prop_map(Step::Tell),
        4 => (0..4_usize).prop_map(Step::CarryOut),
        2 => (0..4_usize, any::<bool>()).prop_map(|(index, done)| Step::LoseAnswer(index, done)),
        1 => (0..4_usize).prop_map(Step::Refuse),
        3 => (0..3_u32).prop_map(Step::Wait),
        2 => (0..6_u32, 1..=4_u32).prop_map(|(group, store)| Step::Rival(group, store)),
        1 => Just(Step::Depose),
        1 => Just(Step::Elect),
        1 => Just(Step::ReadAll),
    ];
    prop::collection::vec(step, 1..80)
}

fn take(scene: &mut Scene, step: Step) {
    match step {
        Step::Die(number) => scene.die(node(number)),
        Step::Rise(number) => scene.rise(node(number)),
        Step::Tell(most) => scene.tell(most),
        Step::Wait(seconds) => scene.wait(seconds),
        Step::CarryOut(index) if index < scene.calls.len() => scene.carry_out(index),
        Step::LoseAnswer(index, done) if index < scene.calls.len() => {
            let (number, call) = scene.calls.remove(index);
            let before = scene.groups();
            if done {
                scene.state.txn(&call).unwrap();
                scene.judge(&before);
            }
            let error = if done {
                Error::Unknown {
                    what: String::new(),
                    endpoint: String::new(),
                }
            } else {
                Error::Unavailable {
                    what: String::new(),
                    endpoints: String::new(),
                }
            };
            scene.apply(Event::Ended {
                call: number,
                result: Err(error),
            });
        }
        Step::Refuse(index) if index < scene.calls.len() => {
            let (number, _) = scene.calls.remove(index);
            scene.apply(Event::Ended {
                call: number,
                result: Err(Refusal::TooLarge { bytes: 1 }.into()),
            });
        }
        Step::Rival(index, number) => {
            let mut group = scene.groups().remove(index as usize);
            group.in_sync.retain(|own| *own != store(number));
            if group.in_sync.len() >= scene.min_copies && group != scene.groups()[index as usize] {
                group.epoch = group.epoch.next();
                scene.put(&map::group_key(POOL, GroupIndex(index)), &group);
            }
        }
        Step::Depose => {
            let delete = Call {
                then: vec![Op::Delete { key: election_key() }],
                ..Call::default()
            };
            scene.state.txn(&delete).unwrap();
            scene.apply(Event::Deposed);
        }
        Step::Elect => scene.elect(),
        Step::ReadAll => scene.read_all(),
        Step::CarryOut(_) | Step::LoseAnswer(..) | Step::Refuse(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens in whatever order: only compare-and-set, never below `min_copies`, epochs only rise ([`judge`]);
    /// and once all is quiet, no dead store is in sync where enough living ones are.
    #[test]
    fn random_lives_keep_the_rules(min_copies in 1..=3_u8, steps in steps()) {
        let mut scene = Scene::led(4, 6, min_copies);
        for step in steps {
            take(&mut scene, step);
        }
        scene.read_all();
        scene.elect();
        for _ in 0..4 {
            scene.run();
            scene.wait(61);
        }
        scene.run();
        let alive = |own: &StoreId| scene.leases.contains_key(&node(own.0 as u32));
        for group in scene.groups() {
            let living = group.in_sync.iter().filter(|own| alive(own)).count();
            if living >= usize::from(min_copies) {
                prop_assert_eq!(living, group.in_sync.len(), "{:?} keeps a dead store", group);
            }
        }
        prop_assert!(scene.machine.pending.is_empty());
    }
}
