mod evict;
mod game;
mod health;
mod hostile;
mod networks;
mod plan;
mod reconcile;
mod space;

use super::*;
use amita_metadata::model::State;
use amita_metadata::{Compare, LeaseId, Op};
use amita_types::map::{Group, Live, Pool, PoolKind, Raised, Store, Syncing, Volume, Whole, WholeMember};
use amita_types::message::MAX_MEMBERS;
use amita_types::{Epoch, Generation, GroupIndex, PoolId, StoreId, VolumeId};
use std::collections::{BTreeMap, VecDeque};

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
    /// What the watch has brought and the machine was not told yet.
    stream: VecDeque<Event>,
    /// The keys that the machine knows to be there.
    known: BTreeSet<String>,
    min_copies: usize,
    /// The stores that a node serves; all of its own where it says nothing.
    served: BTreeMap<NodeId, Vec<StoreId>>,
}

impl Scene {
    /// Nodes `1..=nodes` with store `i` on node `i`, all of them alive; a pool whose groups all have these members.
    fn new(nodes: u32, groups: u32, min_copies: u8) -> Scene {
        let mut scene = Scene {
            state: State::new(),
            machine: Coordinator::new(Config {
                planning: false,
                ..Config::default()
            }),
            now: Moment::default(),
            told: 0,
            calls: Vec::new(),
            warnings: Vec::new(),
            leases: BTreeMap::new(),
            stream: VecDeque::new(),
            known: BTreeSet::new(),
            min_copies: usize::from(min_copies),
            served: BTreeMap::new(),
        };
        let members: Vec<StoreId> = (1..=nodes).map(store).collect();
        let kind = PoolKind::Replicated {
            copies: nodes as u8,
            min_copies,
        };
        let pool = Pool {
            failure_domain: amita_types::placement::Level::Node,
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
            scene.spare(number);
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

    /// A living node with a store.
    fn spare(&mut self, number: u32) {
        let id = store(number);
        let record = Store {
            class: String::new(),
            duty: amita_types::map::StoreDuty::Normal,
            paused: None,
            id,
            node: node(number),
            path: "/x".to_owned(),
            size_bytes: 1 << 30,
            weight: 1,
        };
        self.put(&map::store_key(id), &record);
        self.rise(node(number));
    }

    /// Has the node said that it stops?
    fn stopped(&self, node: NodeId) -> bool {
        let record = self.state.get(&map::live_key(node));
        record.is_some_and(|record| record.json::<Live>().unwrap().pid == 0)
    }

    fn put<T: serde::Serialize>(&mut self, key: &str, record: &T) {
        self.state
            .txn(&Call::put(key, serde_json::to_vec(record).unwrap()))
            .unwrap();
    }

    fn rise(&mut self, node: NodeId) {
        self.rise_with(node, 1);
    }

    fn rise_with(&mut self, node: NodeId, pid: u32) {
        self.rise_as(node, 1, pid);
    }

    fn rise_as(&mut self, node: NodeId, session: u64, pid: u32) {
        let lease = self.state.lease_grant(self.now.0, 5, None).unwrap();
        let value = serde_json::to_vec(&Live {
            stores: self.served.get(&node).cloned(),
            session,
            pid,
            version: map::METADATA_VERSION,
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

    /// The watch starts anew: the stream is all records that are there.
    fn reread(&mut self) {
        let revision = self.state.revision();
        let gone = self.known.iter().filter(|key| self.state.get(key).is_none()).cloned();
        self.stream = gone.map(|key| Event::Gone { key, revision }).collect();
        self.stream.extend(self.state.keys().cloned().map(Event::Record));
        self.stream.push_back(Event::Settled);
        self.told = revision + 1;
    }

    fn read_all(&mut self) {
        self.reread();
        self.tell(usize::MAX);
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
            let (Op::Put { key, lease: None, .. } | Op::Delete { key }) = op else {
                panic!("nothing but puts and deletions: {op:?}")
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

    /// Tells the machine so many things that the watch brings: changes, and ends of batches.
    fn tell(&mut self, most: usize) {
        let batches: Vec<_> = self.state.changes("", self.told).unwrap().collect();
        for batch in batches {
            self.told = batch.revision + 1;
            for event in batch.events {
                self.stream.push_back(match event {
                    amita_metadata::Event::Put(record) => Event::Record(record),
                    amita_metadata::Event::Delete { key, mod_revision } => Event::Gone {
                        key,
                        revision: mod_revision,
                    },
                });
            }
            self.stream.push_back(Event::Seen);
        }
        for _ in 0..most.min(self.stream.len()) {
            let event = self.stream.pop_front().expect("counted");
            match &event {
                Event::Record(record) => drop(self.known.insert(record.key.clone())),
                Event::Gone { key, .. } => drop(self.known.remove(key)),
                _ => {}
            }
            self.apply(event);
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

    /// What may happen to groups: R10, epochs that only rise, together with the sets, and nobody in sync whom an owner
    /// has not called whole under its present generation.
    fn judge(&self, before: &[Group]) {
        for (old, new) in before.iter().zip(self.groups()) {
            assert_eq!(old.index, new.index);
            if (&old.in_sync, &old.syncing) == (&new.in_sync, &new.syncing) {
                assert_eq!(old.epoch, new.epoch, "no epoch without a change");
                continue;
            }
            assert_eq!(new.epoch, old.epoch.next());
            let shrinks = old.in_sync.iter().any(|store| !new.in_sync.contains(store));
            assert!(
                !shrinks || new.in_sync.len() >= self.min_copies,
                "{new:?} has fewer than {}",
                self.min_copies
            );
            for store in new.in_sync.iter().filter(|store| !old.in_sync.contains(store)) {
                let member = old.syncing.iter().find(|member| member.store == *store);
                let member = member.unwrap_or_else(|| panic!("{store} joined without syncing: {old:?} {new:?}"));
                for volume in self.volumes().iter().filter(|volume| volume.generation > Generation(0)) {
                    assert!(
                        self.has_claim(volume, new.index, member),
                        "{volume:?} never said that {member:?} of {new:?} is whole"
                    );
                }
            }
            for member in &new.syncing {
                assert!(old.syncing.contains(member) || member.since == new.epoch);
                assert!(!new.in_sync.contains(&member.store));
            }
            assert!(new.in_sync.len() + new.syncing.len() <= MAX_MEMBERS);
        }
    }

    fn group(&self, index: u32) -> Group {
        self.groups().remove(index as usize)
    }

    fn put_group(&mut self, group: &Group) {
        self.put(&map::group_key(POOL, group.index), group);
    }

    fn volumes(&self) -> Vec<Volume> {
        self.state
            .prefix(&map::volume_key(""))
            .filter_map(|record| record.json().ok())
            .collect()
    }

    fn has_claim(&self, volume: &Volume, group: GroupIndex, member: &Syncing) -> bool {
        let record = self.state.get(&map::whole_key(POOL, volume.id));
        record.is_some_and(|record| {
            let whole: Whole = record.json().unwrap();
            let said = WholeMember {
                group,
                store: member.store,
                since: member.since,
            };
            whole.generation == volume.generation && whole.members.contains(&said)
        })
    }

    fn make_volume(&mut self, number: u64) {
        let name = format!("v{number}");
        let volume = Volume::new(VolumeId(number), &name, "p", 1 << 20);
        self.put(&map::volume_key(&name), &volume);
    }

    /// A gateway takes the volume over: one transaction, as the opener makes it.
    fn raise(&mut self, number: u64) {
        let key = map::volume_key(&format!("v{number}"));
        let Some(record) = self.state.get(&key) else { return };
        let mut volume: Volume = record.json().unwrap();
        volume.generation = Generation(volume.generation.0 + 1);
        let raised = Raised {
            volume: volume.id,
            generation: volume.generation,
        };
        let put = |key: String, value: Vec<u8>| Op::Put {
            key,
            value,
            lease: None,
        };
        let call = Call {
            then: vec![
                put(map::raised_key(POOL), serde_json::to_vec(&raised).unwrap()),
                put(key, serde_json::to_vec(&volume).unwrap()),
            ],
            ..Call::default()
        };
        self.state.txn(&call).unwrap();
    }

    /// The volume's owner says that all syncing members of these groups are whole, and that those it knew still are.
    fn claim(&mut self, number: u64, groups: impl Fn(u32) -> bool) {
        let Some(volume) = self.volumes().into_iter().find(|volume| volume.id == VolumeId(number)) else {
            return;
        };
        let mut members = Vec::new();
        for group in self.groups() {
            for member in &group.syncing {
                if groups(group.index.0) || self.has_claim(&volume, group.index, member) {
                    members.push(WholeMember {
                        group: group.index,
                        store: member.store,
                        since: member.since,
                    });
                }
            }
        }
        let whole = Whole {
            volume: volume.id,
            generation: volume.generation,
            members,
        };
        self.put(&map::whole_key(POOL, volume.id), &whole);
    }
}
