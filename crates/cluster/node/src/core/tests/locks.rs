//! Locks end with their connections and with their gateways, and no others do.

use super::*;
use amita_frontend::HostKey;
use amita_frontend::reservation::{Command, Connection, Lock, Refusal, State};
use amita_metadata::{self as meta, Call, model};

const HOST: HostKey = HostKey(41);
/// The run of this node's program.
const OURS: u64 = 1;

/// A node with its metadata, which owns the volume.
struct Node {
    rig: Rig,
    metadata: model::State,
    told: Option<Vec<u8>>,
    /// How many calls end without having been carried out.
    refuses: usize,
    calls: usize,
}

impl Node {
    fn new() -> Node {
        let mut rig = Rig::new();
        let mut metadata = model::State::default();
        let volume = serde_json::to_vec(&opened(Generation(3)).volume).unwrap();
        metadata.txn(&Call::put(map::volume_key("v"), volume.clone())).unwrap();
        tell(&mut rig, map::volume_key("v"), Some(volume), 1);
        rig.make_shard(3);
        Node {
            rig,
            metadata,
            told: None,
            refuses: 0,
            calls: 0,
        }
    }

    fn settled() -> Node {
        let mut node = Node::new();
        node.rig.core.control(ToCore::Settled);
        node.run(3);
        node
    }

    /// So many passes, a millisecond each; what the metadata is asked it answers, and what changes there it tells.
    fn run(&mut self, passes: usize) {
        for _ in 0..passes {
            self.rig.pass();
            let asked: Vec<FromCore> = self.rig.core.take_control().collect();
            for message in asked {
                let FromCore::Metadata { call, request } = message else {
                    continue;
                };
                self.calls += 1;
                let result = match self.refuses.checked_sub(1) {
                    Some(left) => {
                        self.refuses = left;
                        Err(meta::Error::Unavailable {
                            what: "away".to_owned(),
                            endpoints: "nowhere".to_owned(),
                        })
                    }
                    None => Ok(self.metadata.txn(&request).expect("a call that can be carried out")),
                };
                self.rig.core.control(ToCore::Metadata { call, result });
            }
            let key = map::reservation_key(VOLUME);
            let found = self
                .metadata
                .get(&key)
                .map(|found| (found.value.clone(), found.mod_revision));
            if let Some((value, revision)) = found
                && self.told.as_ref() != Some(&value)
            {
                self.told = Some(value.clone());
                tell(&mut self.rig, key, Some(value), revision);
            }
        }
    }

    /// The record says that it is locked by that connection.
    fn is_locked_by(&mut self, run: u64, core: u16, front: u64) -> Lock {
        let lock = Lock {
            host: HOST,
            by: Connection { run, core, front },
        };
        let state = State {
            locked: Some(lock),
            ..State::default()
        };
        let record = serde_json::to_vec(&state).unwrap();
        self.metadata
            .txn(&Call::put(map::reservation_key(VOLUME), record))
            .unwrap();
        lock
    }

    fn lock(&self) -> Option<Lock> {
        let found = self.metadata.get(&map::reservation_key(VOLUME))?;
        serde_json::from_slice::<State>(&found.value).unwrap().locked
    }

    /// A host logs in.
    fn log_in(&mut self) -> FrontId {
        let heard = self.rig.heard.clone();
        let front = self.rig.core.fronts.attach(|_| Box::new(Session(heard)));
        let fronts = &mut self.rig.core.fronts;
        fronts.with(front, |_, service| service.identify(front, HOST));
        front
    }

    fn ask(&mut self, front: FrontId, host: HostKey, command: Command) {
        let fronts = &mut self.rig.core.fronts;
        fronts.with(front, |_, service| service.reserve(front, 5, VOLUME, host, command));
        self.run(20);
    }

    /// What the last command was answered.
    fn heard(&self) -> Result<State, Refusal> {
        let heard = self.rig.heard.borrow();
        let answer = heard.iter().rev().find_map(|event| match event {
            Event::Reserved { result, .. } => Some(result.clone()),
            _ => None,
        });
        answer.expect("an answer")
    }

    fn log_out(&mut self, front: FrontId) {
        self.rig.core.fronts.detach(&mut self.rig.driver, front);
        self.run(20);
    }

    fn lives(&mut self, session: Option<u64>) {
        let value = session.map(|session| {
            let live = map::Live {
                session,
                pid: 1,
                stores: None,
                version: map::METADATA_VERSION,
            };
            serde_json::to_vec(&live).unwrap()
        });
        tell(&mut self.rig, map::live_key(NodeId(2)), value, 9);
    }
}

fn tell(rig: &mut Rig, key: String, value: Option<Vec<u8>>, revision: u64) {
    let record = crate::control::Record {
        key,
        value,
        revision,
        created: 1,
    };
    rig.core.control(ToCore::Record(record));
}

fn lock() -> Command {
    // What a front says of its connection does not count.
    let by = Connection {
        run: 99,
        core: 9,
        front: 99,
    };
    Command::Lock { by }
}

#[test]
fn a_lock_ends_with_its_connection() {
    let mut node = Node::settled();
    let front = node.log_in();
    node.ask(front, HOST, lock());
    let by = Connection {
        run: OURS,
        core: 0,
        front: front.0,
    };
    assert_eq!(node.lock(), Some(Lock { host: HOST, by }));
    assert_eq!(node.heard().unwrap().locked, node.lock());
    // Another host's command goes by it, and so does its I/O.
    let other = node.log_in();
    node.ask(other, HostKey(42), lock());
    assert_eq!(node.heard(), Err(Refusal::Conflict));
    node.rig.write(1);
    node.run(3);
    assert_eq!(node.rig.ended(), [(1, Err(IoError::Reserved))]);

    node.log_out(front);
    assert_eq!(node.lock(), None);
    node.ask(other, HostKey(42), lock());
    assert_eq!(node.heard().unwrap().locked.map(|lock| lock.host), Some(HostKey(42)));
}

/// The end of an old connection is told late: the host has come again, and locked again.
#[test]
fn a_lock_of_a_newer_connection_stays() {
    let mut node = Node::settled();
    let (first, second) = (node.log_in(), node.log_in());
    node.ask(first, HOST, lock());
    node.ask(second, HOST, lock());
    node.log_out(first);
    assert_eq!(node.lock().map(|lock| lock.by.front), Some(second.0));
    node.log_out(second);
    assert_eq!(node.lock(), None);
}

/// A command that locks was on its way when its connection broke: nobody hears that it was carried out.
#[test]
fn a_lock_of_a_connection_that_is_gone_already_ends() {
    let mut node = Node::settled();
    node.is_locked_by(OURS, 0, 12_345);
    node.run(20);
    assert_eq!(node.lock(), None);
    // One of a core that there is not.
    node.is_locked_by(OURS, 77, 1);
    node.run(20);
    assert_eq!(node.lock(), None);
}

#[test]
fn a_lock_ends_with_its_gateway() {
    let mut node = Node::new();
    let lock = node.is_locked_by(9, 3, 4);
    node.run(20);
    assert_eq!(node.lock(), Some(lock), "before all is known nobody is dead");
    node.lives(Some(9));
    node.rig.core.control(ToCore::Settled);
    node.run(20);
    assert_eq!(node.lock(), Some(lock), "it lives");
    // Its process is another one: it has none of the old one's connections.
    node.lives(Some(10));
    node.run(20);
    assert_eq!(node.lock(), None);
    let lock = node.is_locked_by(10, 0, 1);
    node.run(20);
    assert_eq!(node.lock(), Some(lock));
    node.lives(None);
    node.run(20);
    assert_eq!(node.lock(), None);
}

#[test]
fn what_could_not_be_given_up_is_tried_again() {
    let mut node = Node::settled();
    node.refuses = 2;
    let lock = node.is_locked_by(9, 3, 4);
    node.run(100);
    assert_eq!((node.refuses, node.lock()), (1, Some(lock)), "not at once");
    node.run(3000);
    assert_eq!(node.lock(), None);
    let calls = node.calls;
    node.run(12_000);
    assert_eq!(node.calls, calls, "and it is over");
}

/// Where the volume is another gateway's, that one does it.
#[test]
fn a_lock_of_a_dead_gateway_is_the_owners_to_give_up() {
    let mut node = Node::settled();
    let end = VolumeMessage::DropShard {
        volume: VOLUME,
        generation: Generation(3),
        why: "moved".to_owned(),
        handed_over: false,
    };
    node.rig.core.on_mail(&mut node.rig.driver, end.into());
    let lock = node.is_locked_by(9, 3, 4);
    let calls = node.calls;
    node.run(50);
    assert_eq!((node.lock(), node.calls), (Some(lock), calls));
    // It comes here.
    node.rig.make_shard(4);
    let mut volume = opened(Generation(4)).volume;
    volume.generation = Generation(4);
    let volume = serde_json::to_vec(&volume).unwrap();
    node.metadata
        .txn(&Call::put(map::volume_key("v"), volume.clone()))
        .unwrap();
    tell(&mut node.rig, map::volume_key("v"), Some(volume), 20);
    node.lives(None);
    node.run(50);
    assert_eq!(node.lock(), None);
}
