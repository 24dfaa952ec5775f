use super::*;
use amita_frontend::FrontId;
use amita_metadata::Error;
use amita_metadata::model::State as Metadata;
use amita_types::Generation;

const VOLUME: VolumeId = VolumeId(7);
const HERE: NodeId = NodeId(1);
const THERE: NodeId = NodeId(2);

fn asker(tag: u64) -> Asker {
    let front = FrontId(5);
    Asker {
        connection: ConnectionId { core: 0, front },
        tag,
    }
}

struct Rig {
    metadata: Metadata,
    wishes: Wishes,
    now: Time,
    /// What those who asked were told, by the tags of their calls.
    told: Vec<(u64, bool)>,
}

impl Rig {
    /// The volume is owned by this gateway.
    fn new() -> Rig {
        let mut metadata = Metadata::default();
        let volume = Volume {
            generation: Generation(3),
            owner: Some(HERE),
            ..Volume::new(VOLUME, "v", "p", 1 << 30)
        };
        let record = serde_json::to_vec(&volume).unwrap();
        metadata.txn(&Call::put(map::volume_key("v"), record)).unwrap();
        Rig {
            metadata,
            wishes: Wishes::new(0x55 << 20),
            now: Time(0),
            told: Vec::new(),
        }
    }

    fn calls(&mut self) -> Vec<(CallId, Call)> {
        let mut calls = Vec::new();
        while let Some(effect) = self.wishes.next_effect() {
            match effect {
                Effect::Call(call, request) => calls.push((call, request)),
                Effect::Answer { asker, is_accepted } => self.told.push((asker.tag, is_accepted)),
            }
        }
        calls
    }

    fn run(&mut self) {
        loop {
            let calls = self.calls();
            if calls.is_empty() {
                return;
            }
            for (call, request) in calls {
                let reply = self.metadata.txn(&request).unwrap();
                assert!(self.wishes.answered(self.now, call, &Ok(reply)));
            }
        }
    }

    fn ask(&mut self, tag: u64, to: NodeId) -> bool {
        self.wishes.ask(self.now, asker(tag), VOLUME, "v", to);
        self.run();
        let (told, is_accepted) = self.told.pop().expect("it is told");
        assert_eq!(told, tag);
        is_accepted
    }

    fn record(&self) -> Option<Move> {
        let found = self.metadata.get(&map::move_key(VOLUME))?;
        Some(serde_json::from_slice(&found.value).unwrap())
    }
}

#[test]
fn a_wish_is_written_as_the_operators_is() {
    let mut rig = Rig::new();
    let counter = map::counter_key(COUNTER);
    rig.metadata.txn(&Call::put(counter.clone(), b"41".to_vec())).unwrap();
    assert!(rig.ask(1, THERE));
    let expected = Move {
        volume: "v".to_owned(),
        to: THERE,
        number: 42,
        refused: None,
    };
    assert_eq!(rig.record(), Some(expected));
    assert_eq!(rig.metadata.get(&counter).unwrap().value, b"42");
}

#[test]
fn two_hosts_do_not_move_a_volume_to_and_fro() {
    let mut rig = Rig::new();
    assert!(rig.ask(1, THERE));
    let gone = Call {
        then: vec![Op::Delete {
            key: map::move_key(VOLUME),
        }],
        ..Call::default()
    };
    rig.metadata.txn(&gone).unwrap();
    assert!(!rig.ask(2, THERE), "a moment later");
    assert_eq!(rig.record(), None);
    rig.now = rig.now.plus(PAUSE);
    assert!(rig.ask(3, THERE));
}

#[test]
fn wishes_that_are_refused() {
    let mut rig = Rig::new();
    assert!(!rig.ask(1, HERE), "it is there");
    rig.wishes.ask(rig.now, asker(2), VOLUME, "other", THERE);
    rig.run();
    assert_eq!(rig.told.pop(), Some((2, false)), "there is no such volume");
    // The operator's goes before; one that was refused, and that nobody waits for, does not.
    let mut earlier = Move {
        volume: "v".to_owned(),
        to: NodeId(3),
        number: 1,
        refused: None,
    };
    let put = |earlier: &Move| Call::put(map::move_key(VOLUME), serde_json::to_vec(earlier).unwrap());
    rig.metadata.txn(&put(&earlier)).unwrap();
    assert!(!rig.ask(3, THERE));
    assert_eq!(rig.record().as_ref(), Some(&earlier));
    earlier.refused = Some("it serves nothing".to_owned());
    rig.metadata.txn(&put(&earlier)).unwrap();
    assert!(rig.ask(4, THERE));
    assert_eq!(rig.record().map(|record| record.to), Some(THERE));
}

#[test]
fn one_at_a_time_and_what_nobody_knows_counts() {
    let mut rig = Rig::new();
    rig.wishes.ask(rig.now, asker(1), VOLUME, "v", THERE);
    rig.wishes.ask(rig.now, asker(2), VOLUME, "v", NodeId(3));
    let calls = rig.calls();
    assert_eq!((calls.len(), rig.told.pop()), (1, Some((2, false))));
    let (call, request) = &calls[0];
    let reply = rig.metadata.txn(request).unwrap();
    assert!(rig.wishes.answered(rig.now, *call, &Ok(reply)));
    let (call, _) = rig.calls().pop().expect("it is written");
    let unknown = Error::Unknown {
        what: "gone".to_owned(),
        endpoint: "n1".to_owned(),
    };
    assert!(rig.wishes.answered(rig.now, call, &Err(unknown)));
    rig.run();
    assert_eq!(rig.told.pop(), Some((1, false)));
    assert!(!rig.ask(3, THERE), "it may be under way");
    let reply = rig.metadata.txn(&Call::get("k")).unwrap();
    assert!(
        !rig.wishes.answered(rig.now, CallId(0x66 << 20), &Ok(reply)),
        "it is another's"
    );
}
