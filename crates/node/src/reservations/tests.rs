use super::{Act, Asked, Reservations};
use crate::mail::Origin;
use amita_cluster::map;
use amita_cluster::{Generation, NodeId, TraceId, VolumeId};
use amita_meta::model::State as Metadata;
use amita_meta::{Call, Error, Reply};
use amita_reactor::driver::Time;
use amita_uss::reservation::{Command, Kind, Refusal, State};
use amita_uss::{FrontId, HostKey};
use amita_volume::CallId;

const VOLUME: VolumeId = VolumeId(7);

fn volume(generation: u32, owner: u32) -> Vec<u8> {
    serde_json::to_vec(&map::Volume {
        id: VOLUME,
        name: "v".to_owned(),
        pool: "p".to_owned(),
        size_bytes: 1 << 30,
        generation: Generation(generation),
        owner: Some(NodeId(owner)),
    })
    .unwrap()
}

struct Rig {
    metadata: Metadata,
    reservations: Reservations,
    adopted: usize,
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
            trace: TraceId::NONE,
            host: HostKey(host),
            generation: amita_cluster::Generation(0),
        };
        let host = HostKey(host);
        self.reservations
            .ask(VOLUME, "v", Generation(3), Asked { origin, host, command });
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(act) = self.reservations.next_act() {
            match act {
                Act::Call(call, request) => self.calls.push((call, request)),
                Act::Adopt(..) => self.adopted += 1,
                Act::Ended(origin, result) => self.ended.push((origin.tag, result)),
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
            self.reservations.adopted(VOLUME, core);
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
    rig.reservations.adopted(VOLUME, 0);
    rig.collect();
    assert!(rig.ended.is_empty());
    rig.reservations.adopted(VOLUME, 1);
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
    rig.reservations.lost(VOLUME);
    rig.collect();
    assert_eq!(rig.ended.len(), 2);
    assert!(rig.ended.iter().all(|(_, result)| *result == Err(Refusal::Unavailable)));
}
