//! What a core has counted is copied a piece at a time.

use super::*;
use crate::core::observe::VOLUMES_PER_PASS;
use crate::links::LinkQuestion;
use crate::observe::{CoreReport, Observe};
use crate::usage::IoKind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};

const VOLUMES: u64 = 3 * VOLUMES_PER_PASS as u64 + 17;

fn id(number: u64) -> VolumeId {
    VolumeId(100 + number)
}

fn make(rig: &mut Rig, number: u64, generation: u32) {
    let mut opened = opened(Generation(generation));
    opened.volume.id = id(number);
    opened.volume.name = format!("v{number}");
    let opened = Box::new(opened);
    rig.core
        .on_mail(&mut rig.driver, VolumeMessage::MakeShard { opened }.into());
}

/// Writes of a volume.
fn writes(number: u64) -> u64 {
    number % 5 + 1
}

/// A core with many volumes, each of which has counted something else.
fn rig() -> Rig {
    let mut rig = Rig::new();
    for number in 0..VOLUMES {
        make(&mut rig, number, 3);
        let usage = rig.core.cx.shards.usage_mut(id(number)).expect("it is open");
        let (offset, length) = (0, 4096 * (number as u32 + 1));
        for _ in 0..writes(number) {
            usage.count(&Op::Write { offset, length }, Duration::from_micros(number + 1), true);
        }
    }
    rig.pass();
    rig
}

fn ask(rig: &mut Rig) -> Receiver<Box<CoreReport>> {
    let (reply, answers) = channel();
    rig.core.control(ToCore::Observe(Observe {
        traces: false,
        space: None,
        reply,
    }));
    answers
}

fn pass(rig: &mut Rig) -> Wait {
    let mut completions = Vec::new();
    rig.driver.poll(Wait::No, &mut completions);
    rig.core.pass(&mut rig.driver, &mut completions)
}

/// The one answer: writes and their bytes of each volume.
fn answer(answers: &Receiver<Box<CoreReport>>) -> BTreeMap<VolumeId, (u64, u64)> {
    let report = answers.try_recv().expect("an answer");
    assert!(answers.try_recv().is_err(), "one answer");
    let mut found = BTreeMap::new();
    for volume in &report.volumes {
        let number = volume.id.0 - id(0).0;
        assert_eq!(volume.name, format!("v{number}"));
        let (_, usage) = volume
            .usage
            .each()
            .find(|(kind, _)| *kind == IoKind::Write)
            .expect("writes");
        let before = found.insert(volume.id, (usage.latency.count(), usage.bytes));
        assert_eq!(before, None, "{} is there twice", volume.name);
    }
    found
}

fn exact(number: u64) -> (u64, u64) {
    (writes(number), writes(number) * 4096 * (number + 1))
}

#[test]
fn no_pass_copies_more_than_a_few_hundred_volumes_whoever_asks_and_none_is_left_out() {
    let mut rig = rig();
    let asked = [ask(&mut rig), ask(&mut rig)];
    let all = asked.len() * VOLUMES as usize;
    let (mut left, mut passes) = (all, 0);
    while left > 0 {
        let wait = pass(&mut rig);
        let now = rig.core.observing.left();
        let copied = left - now;
        assert!((1..=VOLUMES_PER_PASS).contains(&copied), "{copied} volumes in one pass");
        assert!(now == 0 || wait == Wait::No, "the next pass follows, {now} are left");
        (left, passes) = (now, passes + 1);
    }
    assert_eq!(passes, all.div_ceil(VOLUMES_PER_PASS));
    assert!(rig.core.observing.is_empty());
    for answers in &asked {
        let found = answer(answers);
        assert_eq!(found.len() as u64, VOLUMES);
        for number in 0..VOLUMES {
            assert_eq!(found[&id(number)], exact(number), "v{number}");
        }
    }
}

#[test]
fn a_core_with_few_volumes_answers_in_the_pass_that_hears_the_question() {
    let mut rig = Rig::new();
    make(&mut rig, 0, 3);
    let answers = ask(&mut rig);
    pass(&mut rig);
    assert_eq!(answer(&answers), BTreeMap::from([(id(0), (0, 0))]));
}

/// Of those that are neither open here nor used nothing is told but how many there are.
#[test]
fn limited_volumes_are_copied_a_piece_at_a_time_as_well() {
    const ELSEWHERE: u64 = 5;
    let mut rig = Rig::new();
    let limit = map::Limit {
        rate: 1_000,
        burst: 200,
        peak: None,
    };
    let iops = map::Measures {
        both: Some(limit),
        ..map::Measures::default()
    };
    let limits = map::Limits {
        iops,
        ..map::Limits::default()
    };
    for number in 0..VOLUMES + ELSEWHERE {
        let record = map::Volume {
            id: id(number),
            name: format!("v{number}"),
            limits: Some(Box::new(limits)),
            ..opened(Generation(3)).volume
        };
        rig.core.control(ToCore::Record(crate::control::Record {
            key: map::volume_key(&record.name),
            value: Some(serde_json::to_vec(&record).unwrap()),
            revision: 1,
            created: 1,
        }));
    }
    rig.pass();
    for number in 0..VOLUMES {
        make(&mut rig, number, 3);
    }
    let answers = ask(&mut rig);
    let all = 2 * VOLUMES as usize;
    let (mut left, mut passes) = (all, 0);
    while left > 0 {
        pass(&mut rig);
        let now = rig.core.observing.left();
        let copied = left - now;
        assert!((1..=VOLUMES_PER_PASS).contains(&copied), "{copied} volumes in one pass");
        (left, passes) = (now, passes + 1);
    }
    assert_eq!(passes, all.div_ceil(VOLUMES_PER_PASS));
    let report = answers.try_recv().expect("an answer");
    assert_eq!(report.volumes.len() as u64, VOLUMES);
    assert_eq!(report.limited.len() as u64, VOLUMES);
    assert_eq!(report.limits_known as u64, VOLUMES + ELSEWHERE);
    let names: BTreeSet<&String> = report.limited.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len() as u64, VOLUMES);
}

/// Volumes end and are opened anew, under another number of the core's, while others are being copied.
#[test]
fn what_is_closed_and_opened_meanwhile_makes_no_other_volume_missing_or_come_twice() {
    let mut rig = rig();
    let answers = ask(&mut rig);
    pass(&mut rig);
    assert!(rig.core.observing.left() > 0);
    for number in (0..VOLUMES).step_by(7) {
        let end = VolumeMessage::DropShard {
            volume: id(number),
            generation: Generation(3),
            why: "lost".to_owned(),
            handed_over: false,
        };
        rig.core.on_mail(&mut rig.driver, end.into());
        if number.is_multiple_of(2) {
            make(&mut rig, number, 5);
        }
    }
    make(&mut rig, VOLUMES, 3);
    while rig.core.observing.left() > 0 {
        pass(&mut rig);
    }
    let found = answer(&answers);
    for number in (0..VOLUMES).filter(|number| !number.is_multiple_of(7)) {
        assert_eq!(found[&id(number)], exact(number), "v{number}");
    }
    assert!(!found.contains_key(&id(VOLUMES)), "it was opened after the question");
}

#[test]
fn a_core_without_connections_says_so() {
    let mut rig = Rig::new();
    let (reply, answers) = channel();
    rig.core.control(ToCore::Links(LinkQuestion { from: 0, reply }));
    pass(&mut rig);
    let answer = answers.try_recv().expect("it answers within a pass");
    assert!(answer.paths.is_empty() && answer.cut.is_empty() && answer.named.is_empty());
    assert_eq!(answer.next, None);
}
