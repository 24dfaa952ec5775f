//! Who hears what when a volume is lost that somebody is just opening.

use super::*;
use crate::control::{FromCore, Record};
use crate::directory::{Effect, Requester};
use crate::fronts::FrontRequest;
use crate::mail::{DirectoryMessage, IoMessage};
use amita_fabric::{Link, Message, ReleaseOutcome};
use amita_metadata::model::State;
use amita_metadata::{Call, Transact};
use std::sync::Mutex;

impl Rig {
    /// A session asks for the volume.
    fn asks_for_it(&mut self, front: FrontId) {
        let origin = self.core.cx.origin(self.driver.now(), front, 1);
        let name = opened(Generation(3)).volume.name;
        self.core
            .on_mail(&mut self.driver, DirectoryMessage::Open { origin, name }.into());
    }

    /// Passes, with what the metadata answers, until nothing more is asked.
    fn run(&mut self, metadata: &Mutex<State>) {
        loop {
            self.pass();
            let told = std::mem::take(&mut self.core.cx.control.outbox);
            let mut has_asked = false;
            for told in told {
                if let FromCore::Metadata { call, request } = told {
                    has_asked = true;
                    let result = metadata.txn(&request);
                    self.core.control(ToCore::Metadata { call, result });
                }
            }
            if !has_asked {
                return;
            }
        }
    }

    /// Is another gateway that asks for the volume told that somebody uses it here?
    fn is_in_use(&mut self) -> bool {
        let asker = Requester {
            node: NodeId(2),
            core: 0,
            link: Link(1),
            tag: 1,
        };
        let directory = &mut self.core.directory;
        let generation = directory.open_generation(VOLUME).expect("it is open");
        let now = self.driver.now();
        directory.release(now, asker, VOLUME, generation, false, &self.core.cx.view);
        match directory.next() {
            Some(Effect::Reply {
                message: Message::Released { outcome, .. },
                ..
            }) => matches!(outcome, ReleaseOutcome::Busy { clients: 1.. }),
            Some(Effect::Leave { .. }) => false,
            other => panic!("{other:?}"),
        }
    }
}

/// A session has opened the volume by its name.
fn open() -> (Rig, Generation, Mutex<State>) {
    let mut rig = Rig::new();
    let was = opened(Generation(3));
    let volume = map::Volume {
        owner: None,
        ..was.volume
    };
    let metadata = Mutex::new(State::new());
    let (group, _) = &was.groups[0];
    let records = [
        (map::volume_key(&volume.name), serde_json::to_vec(&volume)),
        (map::pool_key(&was.pool.name), serde_json::to_vec(&was.pool)),
        (map::group_key(was.pool.id, group.index), serde_json::to_vec(group)),
    ];
    for (key, value) in records {
        metadata.txn(&Call::put(key, value.unwrap())).unwrap();
    }
    rig.core.cx.view.apply(&record(1, &volume));
    rig.asks_for_it(rig.front);
    rig.run(&metadata);
    let generation = rig.core.directory.open_generation(VOLUME).expect("it is open");
    (rig, generation, metadata)
}

fn record(revision: u64, volume: &map::Volume) -> Record {
    Record {
        key: map::volume_key(&volume.name),
        value: Some(serde_json::to_vec(volume).unwrap()),
        revision,
        created: 1,
    }
}

/// It was renamed, by which it is closed here, and has moved behind that; both are heard of at once.
#[test]
fn who_used_a_volume_that_is_lost_is_told_by_the_number_that_he_knew_it_by_then() {
    let (mut rig, generation, _) = open();
    let renamed = map::Volume {
        name: "w".to_owned(),
        ..opened(generation).volume
    };
    let moved = map::Volume {
        id: VolumeId(8),
        lineage: map::Lineage {
            host: Some(VOLUME),
            ..map::Lineage::default()
        },
        ..renamed.clone()
    };
    let gone = Record {
        value: None,
        ..record(2, &opened(generation).volume)
    };
    for told in [gone, record(2, &renamed), record(3, &moved)] {
        rig.core.control(ToCore::Record(told));
    }
    rig.pass();
    assert!(rig.core.cx.view.has_moved(VolumeId(8)) && !rig.core.directory.is_open(VOLUME));
    let heard = rig.heard.borrow();
    let told = heard.iter().filter_map(|event| match event {
        Event::Lost { source, .. } => Some(source.volume),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<VolumeId>>(), [VOLUME]);
}

/// The volume is open. A session asks for it, and in the same batch comes the word of a core that has found it lost: the session is counted as using it no
/// more, and has to be told, behind that it has it.
#[test]
fn who_has_just_opened_a_volume_is_told_of_its_loss_behind_that() {
    let (mut rig, generation, _) = open();
    let late = Rc::new(RefCell::new(Vec::new()));
    let front = rig.core.fronts.attach(|_| Box::new(Session(late.clone())));
    rig.asks_for_it(front);
    let lost = VolumeMessage::DropShard {
        volume: VOLUME,
        generation,
        why: "another gateway has it".to_owned(),
        handed_over: false,
    };
    rig.core.on_mail(&mut rig.driver, lost.into());
    rig.pass();
    let heard = late.borrow();
    assert!(
        matches!(
            heard[..],
            [Event::Opened { result: Ok(_), .. }, Event::Lost { ref source, .. }] if source.volume == VOLUME
        ),
        "{heard:?}"
    );
    assert!(rig.was_told_of_the_loss(), "and who had it before is told as well");
}

/// A session has gone, and its core has said so; before the directory hears of it the volume is lost, and another session has opened it anew.
#[test]
fn the_end_of_a_session_of_before_a_loss_is_not_that_of_one_since() {
    let (mut rig, generation, metadata) = open();
    rig.core.fronts.detach(&mut rig.driver, rig.front);
    let Some(FrontRequest::Close { opening }) = rig.core.fronts.requests.queue.pop_back() else {
        panic!("it closes what it has opened");
    };
    rig.lose(VOLUME, generation.0);
    let front = rig.core.fronts.attach(|_| Box::new(Session::default()));
    rig.asks_for_it(front);
    rig.run(&metadata);
    let late = DirectoryMessage::Close { opening };
    rig.core.on_mail(&mut rig.driver, late.into());
    assert!(rig.is_in_use());
    rig.core.fronts.detach(&mut rig.driver, front);
    rig.pass();
    assert!(!rig.is_in_use());
}

/// A session's core has cut an I/O for the core that sequences its chunk, by a view of before the move; that one has heard of the move when it comes.
#[test]
fn what_was_sent_on_by_the_number_of_before_a_move_waits_for_what_the_volume_is_now() {
    let (mut rig, generation, _) = open();
    let was = opened(generation).volume;
    let lineage = |former_of, host| map::Lineage {
        former_of,
        host,
        ..map::Lineage::default()
    };
    let former = map::Volume {
        name: map::hidden_name(VOLUME),
        lineage: lineage(Some(VOLUME), None),
        ..was.clone()
    };
    let moved = map::Volume {
        id: VolumeId(8),
        lineage: lineage(None, Some(VOLUME)),
        ..was
    };
    let made = Record {
        created: 2,
        ..record(2, &former)
    };
    for told in [made, record(2, &moved)] {
        rig.core.control(ToCore::Record(told));
    }
    rig.pass();
    assert!(!rig.core.directory.is_open(VOLUME) && !rig.core.cx.shards.is_open(VOLUME));

    let origin = rig.core.cx.origin(rig.driver.now(), rig.front, 1);
    let (offset, length) = (0, 4096);
    let piece = IoMessage::Piece {
        origin,
        volume: VOLUME,
        op: Op::Clear { offset, length },
        payload: amita_reactor::Slice::default(),
    };
    rig.core.on_mail(&mut rig.driver, piece.into());
    rig.pass();
    assert_eq!(rig.ended(), []);
    let waiting = &rig.core.forwarding.forwarder;
    assert!(waiting.front(VOLUME).is_none() && waiting.front(VolumeId(8)).is_some());
}
