use super::{Asked, Effect, Reservations};
use crate::faults::{Fault, Faults};
use crate::mail::Origin;
use amita_frontend::reservation::{Command, Kind, Refusal, State};
use amita_frontend::{FrontId, HostKey};
use amita_metadata::model::State as Metadata;
use amita_metadata::{Call, Error, Reply};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::map;
use amita_types::{Generation, NodeId, TraceId, VolumeId};

const VOLUME: VolumeId = VolumeId(7);

fn volume(generation: u32, owner: u32) -> Vec<u8> {
    serde_json::to_vec(&map::Volume {
        generation: Generation(generation),
        owner: Some(NodeId(owner)),
        ..map::Volume::new(VOLUME, "v", "p", 1 << 30)
    })
    .unwrap()
}

struct Rig {
    metadata: Metadata,
    reservations: Reservations,
    adopted: usize,
    /// Of the record that cores were told of last.
    revision: u64,
    ended: Vec<(u64, Result<State, Refusal>)>,
    calls: Vec<(CallId, Call)>,
}

impl Rig {
    fn new() -> Rig {
        let mut metadata = Metadata::default();
        metadata.txn(&Call::put(map::volume_key("v"), volume(3, 1))).unwrap();
        Rig {
            metadata,
            reservations: Reservations::new(NodeId(1), 2, 0x55 << 20),
            adopted: 0,
            revision: 0,
            ended: Vec::new(),
            calls: Vec::new(),
        }
    }

    fn ask(&mut self, tag: u64, host: u64, command: Command) {
        let origin = Origin {
            core: 0,
            front: FrontId(1),
            tag,
            arrived: Time(0),
            parsed: Time(0),
            kept: Time(0),
            trace: TraceId::NONE,
            host: HostKey(host.into()),
            generation: amita_types::Generation(0),
            snapshot: amita_types::SnapshotId::HEAD,
        };
        let host = HostKey(host.into());
        self.reservations
            .ask(VOLUME, "v", Generation(3), Asked { origin, host, command });
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(effect) = self.reservations.next_effect() {
            match effect {
                Effect::Call(call, request) => self.calls.push((call, request)),
                Effect::Adopt(_, adopted) => {
                    self.adopted += 1;
                    self.revision = adopted.revision;
                }
                Effect::Ended(origin, result) => self.ended.push((origin.tag, result)),
            }
        }
    }

    fn answer(&mut self, change: impl FnOnce(&mut Metadata, &Call) -> Result<Reply, Error>) {
        let (call, request) = self.calls.remove(0);
        let result = change(&mut self.metadata, &request);
        assert!(self.reservations.answered(call, &result));
        self.collect();
    }

    fn run(&mut self) {
        while !self.calls.is_empty() {
            self.answer(|metadata, request| Ok(metadata.txn(request).unwrap()));
        }
    }

    fn adopt(&mut self) {
        for core in 0..2 {
            self.reservations.adopted(VOLUME, self.revision, core);
            self.collect();
        }
    }
}

fn register(key: u64) -> Command {
    Command::Register {
        host_id: [key as u8; 16],
        key,
        ignore_key: false,
        persist: None,
    }
}

#[test]
fn a_change_ends_when_every_core_goes_by_it() {
    let mut rig = Rig::new();
    rig.ask(1, 10, register(5));
    rig.run();
    assert_eq!(
        (rig.adopted, rig.ended.len()),
        (1, 0),
        "written, and not adopted everywhere"
    );
    rig.reservations.adopted(VOLUME, rig.revision, 0);
    rig.collect();
    assert!(rig.ended.is_empty());
    rig.reservations.adopted(VOLUME, rig.revision, 1);
    rig.collect();
    assert!(matches!(&rig.ended[..], [(1, Ok(state))] if state.registrants.len() == 1));
}

#[test]
fn commands_of_a_volume_are_carried_out_one_after_the_other() {
    let mut rig = Rig::new();
    rig.ask(1, 10, register(5));
    let kind = Kind::WriteExclusive;
    rig.ask(2, 10, Command::Acquire { key: 5, kind });
    rig.ask(3, 11, Command::Acquire { key: 5, kind });
    rig.run();
    rig.adopt();
    rig.run();
    rig.adopt();
    rig.run();
    let outcomes: Vec<_> = rig.ended.iter().map(|(tag, result)| (*tag, result.is_ok())).collect();
    assert_eq!(
        outcomes,
        [(1, true), (2, true), (3, false)],
        "the third is no registrant"
    );
}

#[test]
fn a_lost_race_is_run_again_with_what_is_there_now() {
    let mut rig = Rig::new();
    rig.ask(1, 10, register(5));
    rig.answer(|metadata, request| Ok(metadata.txn(request).unwrap()));
    // Between the look and the change the volume grows.
    rig.metadata
        .txn(&Call::put(map::volume_key("v"), volume(3, 1)))
        .unwrap();
    rig.run();
    rig.adopt();
    assert!(matches!(&rig.ended[..], [(1, Ok(_))]));
}

#[test]
fn a_deposed_owner_changes_nothing() {
    let mut rig = Rig::new();
    rig.ask(1, 10, register(5));
    rig.answer(|metadata, request| Ok(metadata.txn(request).unwrap()));
    rig.metadata
        .txn(&Call::put(map::volume_key("v"), volume(4, 2)))
        .unwrap();
    rig.run();
    assert!(matches!(&rig.ended[..], [(1, Err(Refusal::Unavailable))]));
    assert!(rig.metadata.get(&map::reservation_key(VOLUME)).is_none());
    assert_eq!(rig.adopted, 0);
}

#[test]
fn what_waits_when_the_volume_is_lost_is_told() {
    let mut rig = Rig::new();
    rig.ask(1, 10, register(5));
    rig.ask(2, 10, Command::Report);
    // Word of an older generation's end, from a core that was slow to say so, ends nothing.
    rig.reservations.lost(VOLUME, Generation(2));
    rig.collect();
    assert!(rig.ended.is_empty());
    rig.reservations.lost(VOLUME, Generation(3));
    rig.collect();
    assert_eq!(rig.ended.len(), 2);
    assert!(rig.ended.iter().all(|(_, result)| *result == Err(Refusal::Unavailable)));
}

/// The record as it is.
fn record(rig: &Rig) -> State {
    let found = rig.metadata.get(&map::reservation_key(VOLUME)).expect("it was written");
    found.json().expect("a state")
}

fn unknown() -> Error {
    Error::Unknown {
        what: "time-out".to_owned(),
        endpoint: "m".to_owned(),
    }
}

/// Two hosts are registered, and the first one holds the volume.
fn held() -> Rig {
    let mut rig = Rig::new();
    let kind = Kind::WriteExclusive;
    rig.ask(1, 10, register(5));
    rig.ask(2, 11, register(6));
    rig.ask(3, 10, Command::Acquire { key: 5, kind });
    for _ in 0..3 {
        rig.run();
        rig.adopt();
    }
    assert!(rig.ended.iter().all(|(_, result)| result.is_ok()), "{:?}", rig.ended);
    rig.ended.clear();
    rig
}

fn preempt() -> Command {
    Command::Preempt {
        key: 6,
        victim: 5,
        kind: Kind::WriteExclusive,
        abort: true,
    }
}

/// The record was written and the answer lost: the second preemption would find nobody to preempt, and be refused.
#[test]
fn a_command_whose_outcome_is_unknown_is_not_applied_to_its_own_outcome() {
    let commands = [
        (11, preempt()),
        (10, Command::Clear { key: 5 }),
        (
            10,
            Command::Unregister {
                key: 5,
                ignore_key: false,
                persist: None,
            },
        ),
        (
            10,
            Command::Replace {
                host_id: [5; 16],
                key: 5,
                new_key: 7,
                ignore_key: false,
                persist: None,
            },
        ),
    ];
    for (host, command) in commands {
        let mut rig = held();
        let adopted = rig.adopted;
        rig.ask(4, host, command.clone());
        rig.answer(|metadata, request| Ok(metadata.txn(request).unwrap()));
        let before = record(&rig);
        rig.answer(|metadata, request| {
            assert!(metadata.txn(request).unwrap().succeeded);
            Err(unknown())
        });
        let meant = record(&rig);
        assert_ne!(before, meant);
        rig.run();
        assert!(
            rig.ended.is_empty(),
            "{command:?}: no core goes by it yet: {:?}",
            rig.ended
        );
        assert_eq!(rig.adopted, adopted + 1);
        rig.adopt();
        assert_eq!(rig.ended, [(4, Ok(meant.clone()))], "{command:?}");
        assert_eq!(record(&rig), meant, "{command:?} was done once");
    }
}

/// Of the first attempt nobody knows; it was not carried out yet, and is in the middle of the second.
#[test]
fn what_is_carried_out_late_is_carried_out_once() {
    for late in [false, true] {
        let mut rig = held();
        rig.ask(4, 11, preempt());
        rig.answer(|metadata, request| Ok(metadata.txn(request).unwrap()));
        let mut first = None;
        rig.answer(|_, request| {
            first = Some(request.clone());
            Err(unknown())
        });
        // What was there is there still: the same is written again.
        rig.answer(|metadata, request| Ok(metadata.txn(request).unwrap()));
        if late {
            let late = rig.metadata.txn(&first.expect("it was asked")).unwrap();
            assert!(late.succeeded);
        }
        rig.run();
        rig.adopt();
        let meant = record(&rig);
        assert_eq!(rig.ended, [(4, Ok(meant.clone()))], "late: {late}");
        let holder = meant.held.and_then(|held| held.holder);
        assert_eq!((holder, meant.registrants.len()), (Some(HostKey(11)), 1));
    }
}

/// Somebody has removed the record meanwhile: whether the command was carried out before that, nobody knows.
#[test]
fn neither_what_was_meant_nor_what_was_there_is_an_unknown_outcome() {
    for done in [false, true] {
        let mut rig = held();
        rig.ask(4, 11, preempt());
        rig.answer(|metadata, request| Ok(metadata.txn(request).unwrap()));
        rig.answer(|metadata, request| {
            if done {
                metadata.txn(request).unwrap();
            }
            let key = map::reservation_key(VOLUME);
            let gone = Call {
                then: vec![amita_metadata::Op::Delete { key }],
                ..Call::default()
            };
            metadata.txn(&gone).unwrap();
            Err(unknown())
        });
        rig.run();
        assert_eq!(rig.ended, [(4, Err(Refusal::Unknown))], "done: {done}");
        assert!(
            rig.metadata.get(&map::reservation_key(VOLUME)).is_none(),
            "nothing came back"
        );
    }
}

/// The metadata went away after an unknown outcome: the host is told that, and not that nothing was done.
#[test]
fn an_unknown_outcome_stays_unknown_when_the_metadata_goes_away() {
    let mut rig = held();
    rig.ask(4, 11, preempt());
    rig.answer(|metadata, request| Ok(metadata.txn(request).unwrap()));
    rig.answer(|metadata, request| {
        metadata.txn(request).unwrap();
        Err(unknown())
    });
    rig.answer(|_, _| {
        Err(Error::Unavailable {
            what: "away".to_owned(),
            endpoints: "m".to_owned(),
        })
    });
    assert_eq!(rig.ended, [(4, Err(Refusal::Unknown))]);

    // The host asks again: what is there counts from the moment that it is told of it, on every core.
    let adopted = rig.adopted;
    rig.ask(5, 11, Command::Report);
    rig.run();
    assert_eq!((rig.ended.len(), rig.adopted), (1, adopted + 1));
    rig.adopt();
    assert_eq!(rig.ended[1], (5, Ok(record(&rig))));
}

#[test]
fn what_nobody_can_read_nobody_may_change() {
    let mut rig = Rig::new();
    let key = map::reservation_key(VOLUME);
    rig.metadata.txn(&Call::put(&key, b"torn".to_vec())).unwrap();
    rig.ask(1, 10, register(5));
    rig.run();
    assert_eq!(rig.ended, [(1, Err(Refusal::Conflict))]);
    assert_eq!(rig.metadata.get(&key).unwrap().value, b"torn");
}

/// What the rule is for: without it the host is told that its preemption was refused, though it was carried out.
#[test]
fn a_command_that_is_applied_again_is_refused_though_it_was_carried_out() {
    let mut rig = held();
    rig.reservations.faults = Faults::NONE.with(Fault::ApplyAgain);
    rig.ask(4, 11, preempt());
    rig.answer(|metadata, request| Ok(metadata.txn(request).unwrap()));
    rig.answer(|metadata, request| {
        metadata.txn(request).unwrap();
        Err(unknown())
    });
    rig.run();
    assert_eq!(rig.ended, [(4, Err(Refusal::Conflict))]);
    assert_eq!(record(&rig).registrants.len(), 1, "it was carried out");
}

/// The volume has moved to another pool while a command was written: its name stands for what this node owns as well, under a generation that happens
/// to be the same.
#[test]
fn a_command_is_not_carried_out_on_what_the_volume_was() {
    let mut rig = held();
    let before = rig.ended.len();
    rig.ask(9, 11, preempt());
    rig.answer(|metadata, request| {
        let reply = metadata.txn(request).unwrap();
        let record = metadata.get(&map::volume_key("v")).unwrap();
        let moved = map::Volume {
            id: VolumeId(8),
            ..record.json::<map::Volume>().unwrap()
        };
        let state = metadata.get(&map::reservation_key(VOLUME)).unwrap().value.clone();
        for call in [
            Call::put(map::volume_key("v"), serde_json::to_vec(&moved).unwrap()),
            Call::put(map::reservation_key(VolumeId(8)), state),
            Call {
                then: vec![amita_metadata::Op::Delete {
                    key: map::reservation_key(VOLUME),
                }],
                ..Call::default()
            },
        ] {
            metadata.txn(&call).unwrap();
        }
        Ok(reply)
    });
    rig.run();
    assert!(
        matches!(&rig.ended[before..], [(9, Err(_))]),
        "{:?}",
        &rig.ended[before..]
    );
    assert!(rig.metadata.get(&map::reservation_key(VOLUME)).is_none());
}

/// The volume was lost while a change was adopted, and is open again: a core's word of that change says nothing of the next one.
#[test]
fn a_late_word_of_what_was_adopted_before_a_loss_does_not_count() {
    let mut rig = held();
    rig.ask(4, 11, preempt());
    rig.run();
    let before = rig.revision;
    rig.reservations.lost(VOLUME, Generation(3));
    rig.collect();
    assert_eq!(rig.ended, [(4, Err(Refusal::Unknown))]);
    rig.ended.clear();
    rig.ask(5, 12, register(7));
    rig.run();
    assert!(rig.revision > before);
    for core in 0..2 {
        rig.reservations.adopted(VOLUME, before, core);
    }
    rig.collect();
    assert!(rig.ended.is_empty(), "no core goes by it yet: {:?}", rig.ended);
    rig.adopt();
    assert!(matches!(rig.ended[..], [(5, Ok(_))]), "{:?}", rig.ended);
}
