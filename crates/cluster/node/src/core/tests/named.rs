//! A client that asks by name, and volume `v` that is open here.

use super::*;
use crate::mail::Origin;
use amita_frontend::{OpenError, VolumeInfo, Who};
use amita_metadata::model::State;
use amita_metadata::{self as meta, Call, Transact};
use std::sync::Mutex;

impl Rig {
    fn record(&mut self, key: String, value: Option<Vec<u8>>) {
        let revision = 1;
        let created = 1;
        let record = crate::control::Record {
            key,
            value,
            revision,
            created,
        };
        self.core.control(ToCore::Record(record));
    }

    fn export(&mut self, export: &map::Export) {
        let value = serde_json::to_vec(export).unwrap();
        self.record(map::export_key(VOLUME), Some(value));
    }

    /// A node that knows the volume, and all records that there were.
    fn settled() -> Rig {
        let mut rig = Rig::new();
        let value = serde_json::to_vec(&opened(Generation(1)).volume).unwrap();
        let name = opened(Generation(1)).volume.name;
        rig.record(map::volume_key(&name), Some(value));
        rig.core.control(ToCore::Settled);
        rig.pass();
        rig
    }

    fn ask(&mut self, who: &Who) {
        let (front, name) = (self.front, opened(Generation(1)).volume.name);
        self.core
            .fronts
            .with(front, |_, service| service.open(front, 3, &name, who));
        self.pass();
    }

    /// The directory has opened it.
    fn is_open(&mut self) {
        let volume = opened(Generation(1)).volume;
        let info = VolumeInfo {
            id: volume.id,
            snapshot: amita_types::SnapshotId::HEAD,
            name: volume.name,
            size_bytes: volume.size_bytes,
            chunk_bytes: 4 << 20,
            read_only: false,
        };
        let origin = Origin {
            core: 0,
            front: self.front,
            tag: 3,
            arrived: Time(0),
            parsed: Time(0),
            kept: Time(0),
            trace: TraceId::NONE,
            host: amita_frontend::HostKey::NONE,
            generation: Generation(0),
            snapshot: amita_types::SnapshotId::HEAD,
        };
        let result = Ok((OpeningId(1), info));
        let message = VolumeMessage::Opened { origin, result };
        self.core.on_mail(&mut self.driver, message.into());
        self.pass();
    }

    fn answer(&self) -> Option<Result<VolumeInfo, OpenError>> {
        let heard = self.heard.borrow();
        heard.iter().find_map(|event| match event {
            Event::Opened { tag: 3, result } => Some(result.clone()),
            _ => None,
        })
    }

    /// The metadata is asked for a record, and answers what it has of it.
    fn is_read(&mut self, key: &str, value: Option<Vec<u8>>) {
        let wanted = [meta::Op::Get { key: key.to_owned() }];
        let told = std::mem::take(&mut self.core.cx.control.outbox);
        let asked = told.into_iter().filter_map(|told| match told {
            FromCore::Metadata { call, request } if request.then == wanted => Some((call, request)),
            _ => None,
        });
        let asked: Vec<_> = asked.collect();
        assert_eq!(asked.len(), 1, "{key} is asked for once");
        let state = Mutex::new(State::new());
        if let Some(value) = value {
            state.txn(&Call::put(key, value)).unwrap();
        }
        let (call, request) = &asked[0];
        let result = state.txn(request);
        self.core.control(ToCore::Metadata { call: *call, result });
        self.pass();
    }

    fn passes_for(&mut self, time: Duration) {
        let until = self.world.now().plus(time);
        while self.world.now() < until {
            self.pass();
        }
    }
}

fn export() -> map::Export {
    map::Export {
        volume: VOLUME,
        clients: vec!["db1".to_owned()],
        tenants: Vec::new(),
        any_client: false,
        read_only: false,
        shared: false,
    }
}

fn db1() -> Who {
    Who::Client("db1".into())
}

#[test]
fn a_volume_that_is_not_exported_is_not_found() {
    let mut rig = Rig::settled();
    rig.ask(&db1());
    rig.passes_for(Duration::from_millis(100));
    assert!(rig.answer().is_none(), "the right may be on its way");
    rig.passes_for(Duration::from_secs(3));
    assert!(rig.answer().is_none(), "this node may be behind");
    let record = opened(Generation(1)).volume;
    rig.is_read(
        &map::volume_key(&record.name),
        Some(serde_json::to_vec(&record).unwrap()),
    );
    assert!(rig.answer().is_none());
    rig.is_read(&map::export_key(VOLUME), None);
    assert_eq!(rig.answer(), Some(Err(OpenError::NotFound)));
}

#[test]
fn a_volume_that_does_not_exist_is_not_found_after_the_same_two_reads() {
    let mut rig = Rig::new();
    rig.core.control(ToCore::Settled);
    rig.ask(&db1());
    rig.passes_for(Duration::from_secs(3));
    rig.is_read(&map::volume_key(&opened(Generation(1)).volume.name), None);
    assert!(rig.answer().is_none());
    rig.is_read(&map::export_key(VolumeId(0)), None);
    assert_eq!(rig.answer(), Some(Err(OpenError::NotFound)));
}

/// The watch brings what the metadata has had for long.
#[test]
fn a_node_that_is_behind_does_not_say_that_there_is_none() {
    let mut rig = Rig::new();
    rig.core.control(ToCore::Settled);
    rig.ask(&db1());
    let record = opened(Generation(1)).volume;
    let key = map::volume_key(&record.name);
    let (volume, export_of) = (
        serde_json::to_vec(&record).unwrap(),
        serde_json::to_vec(&export()).unwrap(),
    );
    for _ in 0..2 {
        rig.passes_for(Duration::from_secs(3));
        rig.is_read(&key, Some(volume.clone()));
        rig.is_read(&map::export_key(VOLUME), Some(export_of.clone()));
        assert!(rig.answer().is_none(), "it is on its way");
    }
    // The name alone is not enough.
    rig.record(key.clone(), Some(volume.clone()));
    rig.passes_for(Duration::from_secs(3));
    rig.is_read(&key, Some(volume));
    rig.is_read(&map::export_key(VOLUME), Some(export_of));
    assert!(rig.answer().is_none());
    rig.export(&export());
    rig.pass();
    rig.is_open();
    assert!(matches!(rig.answer(), Some(Ok(_))));
}

#[test]
fn what_never_comes_is_not_waited_for_for_ever() {
    let mut rig = Rig::settled();
    rig.ask(&db1());
    let record = opened(Generation(1)).volume;
    let (key, volume) = (map::volume_key(&record.name), serde_json::to_vec(&record).unwrap());
    let export_of = serde_json::to_vec(&export()).unwrap();
    let mut rounds = 0;
    while rig.answer().is_none() {
        rig.passes_for(Duration::from_millis(2100));
        rig.is_read(&key, Some(volume.clone()));
        rig.is_read(&map::export_key(VOLUME), Some(export_of.clone()));
        rounds += 1;
    }
    assert!(
        matches!(rig.answer(), Some(Err(OpenError::Unavailable(_)))),
        "it is there"
    );
    assert!((8..=11).contains(&rounds), "{rounds}");
}

#[test]
fn metadata_that_does_not_answer_is_no_missing_volume() {
    let mut rig = Rig::settled();
    rig.ask(&db1());
    rig.passes_for(Duration::from_secs(11));
    assert!(rig.answer().is_none());
    rig.passes_for(Duration::from_secs(2));
    assert!(
        matches!(rig.answer(), Some(Err(OpenError::Unavailable(_)))),
        "{:?}",
        rig.answer()
    );
}

#[test]
fn a_right_that_comes_a_little_later_is_waited_for() {
    let mut rig = Rig::settled();
    rig.ask(&db1());
    rig.passes_for(Duration::from_millis(100));
    rig.export(&export());
    rig.pass();
    rig.is_open();
    assert!(matches!(rig.answer(), Some(Ok(info)) if !info.read_only));
    rig.passes_for(Duration::from_secs(1));
    assert!(!rig.was_told_of_the_loss());
}

#[test]
fn a_right_that_ends_while_the_volume_is_opened_opens_nothing() {
    let mut rig = Rig::settled();
    rig.export(&export());
    rig.ask(&db1());
    rig.record(map::export_key(VOLUME), None);
    rig.pass();
    rig.is_open();
    assert_eq!(rig.answer(), Some(Err(OpenError::NotFound)));
}

#[test]
fn a_session_ends_with_its_right() {
    let ends: [&dyn Fn(&mut Rig); 3] = [
        &|rig| rig.record(map::export_key(VOLUME), None),
        &|rig| {
            let clients = vec!["db2".to_owned()];
            rig.export(&map::Export { clients, ..export() });
        },
        &|rig| {
            let read_only = true;
            rig.export(&map::Export { read_only, ..export() });
        },
    ];
    for end in ends {
        let mut rig = Rig::settled();
        rig.export(&export());
        rig.ask(&db1());
        rig.is_open();
        // Others gain a right: nothing to this one.
        let clients = vec!["db1".to_owned(), "db2".to_owned()];
        rig.export(&map::Export { clients, ..export() });
        rig.pass();
        assert!(!rig.was_told_of_the_loss());
        end(&mut rig);
        rig.pass();
        assert!(rig.was_told_of_the_loss());
    }
}

#[test]
fn what_may_be_read_only_is_opened_so() {
    let mut rig = Rig::settled();
    let read_only = true;
    rig.export(&map::Export { read_only, ..export() });
    rig.ask(&db1());
    rig.is_open();
    assert!(matches!(rig.answer(), Some(Ok(info)) if info.read_only));
}

/// Clients that ask what there is for them, each by a session of its own, and what they hear.
fn sessions(rig: &mut Rig, count: usize) -> Vec<(FrontId, Rc<RefCell<Vec<Event>>>)> {
    let one = |_| {
        let heard = Rc::<RefCell<Vec<Event>>>::default();
        let front = rig.core.fronts.attach(|_| Box::new(Session(heard.clone())));
        (front, heard)
    };
    (0..count).map(one).collect()
}

fn list(rig: &mut Rig, sessions: &[(FrontId, Rc<RefCell<Vec<Event>>>)], who: &Who) {
    for (front, _) in sessions {
        rig.core.fronts.with(*front, |_, service| service.list(*front, 4, who));
    }
    rig.pass();
}

/// How many have their answer, and how many exports are in them.
fn listed(sessions: &[(FrontId, Rc<RefCell<Vec<Event>>>)]) -> (usize, usize) {
    let of = |heard: &Event| match heard {
        Event::Listed { tag: 4, result } => Some(result.as_ref().unwrap().len()),
        _ => None,
    };
    let all = sessions
        .iter()
        .flat_map(|(_, heard)| heard.borrow().iter().filter_map(of).collect::<Vec<_>>());
    all.fold((0, 0), |(answers, exports), count| (answers + 1, exports + count))
}

#[test]
fn listings_are_made_so_often_and_no_oftener() {
    let mut rig = Rig::settled();
    rig.export(&export());
    let ours = sessions(&mut rig, 100);
    list(&mut rig, &ours, &db1());
    assert_eq!(listed(&ours), (1, 1), "the first at once");
    rig.passes_for(Duration::from_secs(1));
    let (answers, exports) = listed(&ours);
    assert!((48..=52).contains(&answers), "{answers}");
    assert_eq!(answers, exports);
    rig.passes_for(Duration::from_millis(1100));
    assert_eq!(listed(&ours), (100, 100), "each has its answer");
}

#[test]
fn strangers_take_no_turn_of_those_who_may_list() {
    let mut rig = Rig::settled();
    rig.export(&export());
    let (strangers, ours) = (sessions(&mut rig, 500), sessions(&mut rig, 2));
    list(&mut rig, &strangers, &Who::Stranger);
    rig.pass();
    assert_eq!(
        listed(&strangers),
        (500, 0),
        "there is nothing for them, and that is told at once"
    );
    list(&mut rig, &ours, &db1());
    rig.passes_for(Duration::from_millis(30));
    assert_eq!(listed(&ours), (2, 2));
}

#[test]
fn who_has_gone_takes_no_turn() {
    let mut rig = Rig::settled();
    rig.export(&export());
    let (gone, ours) = (sessions(&mut rig, 500), sessions(&mut rig, 1));
    let _silent = sessions(&mut rig, 600);
    list(&mut rig, &gone, &db1());
    for (front, _) in &gone {
        rig.core.fronts.detach(&mut rig.driver, *front);
    }
    list(&mut rig, &ours, &db1());
    rig.passes_for(Duration::from_millis(30));
    assert_eq!(listed(&ours), (1, 1));
    assert!(listed(&gone).0 <= 2);
}

#[test]
fn each_name_has_its_turn_however_many_sessions_others_have() {
    let mut rig = Rig::settled();
    let clients = ["db1", "db2", "db3"].map(str::to_owned).to_vec();
    rig.export(&map::Export { clients, ..export() });
    let greedy = sessions(&mut rig, 300);
    list(&mut rig, &greedy, &db1());
    for name in ["db2", "db3"] {
        let ours = sessions(&mut rig, 1);
        list(&mut rig, &ours, &Who::Client(name.into()));
        rig.passes_for(Duration::from_millis(60));
        assert_eq!(listed(&ours), (1, 1), "{name}");
    }
    let local = sessions(&mut rig, 1);
    list(&mut rig, &local, &Who::Local);
    rig.passes_for(Duration::from_millis(60));
    assert_eq!(listed(&local).0, 1);
    assert!((5..15).contains(&listed(&greedy).0), "{}", listed(&greedy).0);
}
