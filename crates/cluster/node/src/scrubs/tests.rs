use super::*;
use crate::control::Record;
use amita_metadata::model::State;
use amita_types::map::{Paused, Volume};

const VOLUME: VolumeId = VolumeId(7);
const GENERATION: Generation = Generation(3);
const CORES: usize = 2;

/// The records of a volume, and what its owner makes of them.
struct Rig {
    view: View,
    scrubs: Scrubs,
    now: Time,
    revision: u64,
}

impl Rig {
    fn new(scrub: &map::Scrub) -> Rig {
        let mut rig = Rig {
            view: View::default(),
            scrubs: Scrubs::new(CORES, 5 << 20),
            now: Time(0),
            revision: 1,
        };
        let volume = Volume {
            generation: GENERATION,
            ..Volume::new(VOLUME, "db", "main", 4096)
        };
        rig.tell(map::volume_key("db"), serde_json::to_vec(&volume).unwrap());
        rig.wish(scrub);
        rig
    }

    fn tell(&mut self, key: String, value: Vec<u8>) {
        self.revision += 1;
        self.view.apply(&Record {
            key,
            value: Some(value),
            revision: self.revision,
            created: 1,
        });
    }

    fn wish(&mut self, scrub: &map::Scrub) {
        self.tell(map::scrub_key(VOLUME), serde_json::to_vec(scrub).unwrap());
    }

    fn record(&self) -> map::Scrub {
        self.view.scrub(VOLUME).unwrap().0.clone()
    }

    fn pause(&mut self, paused: bool) {
        let paused = paused.then(|| Paused {
            by: "operator ann".to_owned(),
            at: 5,
        });
        let record = map::Scrub {
            paused,
            ..self.record()
        };
        self.wish(&record);
    }

    fn orders(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        while let Some(order) = self.scrubs.order(&self.view, VOLUME, GENERATION) {
            orders.push(order);
        }
        orders
    }

    /// A core has a group behind it, in which it looked at one copy.
    fn looked(&mut self, core: usize, number: u64, group: u32, is_last: bool) {
        let report = ScrubReport {
            copies: 1,
            ..ScrubReport::default()
        };
        let place = (number, GroupIndex(group), is_last);
        self.scrubs.looked(self.now, (VOLUME, GENERATION), core, place, report);
    }

    /// Time passes; what is written is carried out, and told.
    fn go(&mut self, passed: Duration) -> Option<map::Scrub> {
        self.now = self.now.plus(passed);
        let mut calls = self.scrubs.calls(self.now, &self.view);
        assert!(calls.len() <= 1, "{calls:?}");
        let (number, call) = calls.pop()?;
        let [Op::Put { value, .. }] = call.then.as_slice() else {
            panic!("one record is written")
        };
        let record: map::Scrub = serde_json::from_slice(value).unwrap();
        let call = Call {
            then: call.then.clone(),
            ..Call::default()
        };
        let reply = State::new().txn(&call).unwrap();
        assert!(self.scrubs.answered(number, &Ok(reply)));
        self.wish(&record);
        Some(record)
    }
}

fn asked(number: u64) -> map::Scrub {
    map::Scrub {
        requested: number,
        finished: number - 1,
        ..map::Scrub::default()
    }
}

fn go(number: u64, from: u32) -> Order {
    let from = GroupIndex(from);
    Order::Go { number, from }
}

#[test]
fn the_place_is_behind_the_groups_that_all_cores_have_looked_at() {
    let mut rig = Rig::new(&asked(4));
    assert_eq!(rig.orders(), [go(4, 0)]);
    assert_eq!(rig.orders(), []);
    rig.looked(0, 4, 0, false);
    rig.looked(0, 4, 1, false);
    assert!(rig.go(NOTE).is_none(), "the other core has none behind it");
    rig.looked(1, 4, 0, false);
    assert!(rig.go(Duration::ZERO).is_none(), "not each one is noted");
    let progress = rig.go(NOTE).unwrap().progress.unwrap();
    assert_eq!((progress.done, progress.report.copies), (1, 2));
    // Its successor goes on there, and counts what was found before.
    rig.scrubs = Scrubs::new(CORES, 6 << 20);
    assert_eq!(rig.orders(), [go(4, 1)]);
    for core in 0..CORES {
        rig.looked(core, 4, 1, false);
        rig.looked(core, 4, 2, true);
    }
    let record = rig.go(Duration::ZERO).unwrap();
    assert_eq!((record.finished, record.report.copies), (4, 6));
    assert_eq!((record.progress, record.paused), (None, None));
    assert_eq!(rig.orders(), []);
    assert_eq!(rig.scrubs.deadline(), None);
}

#[test]
fn one_that_is_paused_is_held_and_begun_by_nobody_until_it_goes_on() {
    let mut rig = Rig::new(&asked(1));
    assert_eq!(rig.orders(), [go(1, 0)]);
    rig.pause(true);
    assert_eq!(rig.orders(), [Order::Hold]);
    // What was under way comes to its end, and is noted.
    for core in 0..CORES {
        rig.looked(core, 1, 0, false);
    }
    let record = rig.go(NOTE).unwrap();
    assert!(record.paused.is_some(), "it stays paused");
    assert_eq!(record.progress.map(|progress| progress.done), Some(1));
    assert_eq!(rig.orders(), []);
    let mut successor = Scrubs::new(CORES, 6 << 20);
    assert_eq!(successor.order(&rig.view, VOLUME, GENERATION), None);
    rig.pause(false);
    assert_eq!(rig.orders(), [go(1, 0)], "each core knows where it was");
    assert_eq!(successor.order(&rig.view, VOLUME, GENERATION), Some(go(1, 1)));
}

#[test]
fn one_that_is_taken_back_is_given_up_and_what_it_still_says_is_not_the_next_ones() {
    let mut rig = Rig::new(&asked(1));
    assert_eq!(rig.orders(), [go(1, 0)]);
    let cancelled = map::Scrub {
        finished: 1,
        cancelled: true,
        ..asked(1)
    };
    rig.wish(&cancelled);
    assert_eq!(rig.orders(), [Order::End]);
    assert_eq!(rig.orders(), []);
    rig.wish(&asked(2));
    assert_eq!(rig.orders(), [go(2, 0)]);
    for core in 0..CORES {
        rig.looked(core, 1, 0, true);
    }
    assert!(rig.go(NOTE).is_none());
    // Another is asked for before anybody has seen that this was taken back.
    rig.wish(&asked(3));
    assert_eq!(rig.orders(), [Order::End, go(3, 0)]);
}
