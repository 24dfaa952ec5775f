use super::*;
use crate::control::Record;
use amita_types::map::{Parent, Volume};
use amita_types::{Generation, SnapshotId};

const CLONE: VolumeId = VolumeId(7);
const CHUNK: u32 = 4 * BLOCK_BYTES;

struct Rig {
    view: View,
    flattens: Flattens,
    now: Time,
    revision: u64,
}

impl Rig {
    /// A clone of so many chunks, the last of which has one block.
    fn new(chunks: u64) -> Rig {
        let mut rig = Rig {
            view: View::default(),
            flattens: Flattens::new(5 << 20),
            now: Time(0),
            revision: 1,
        };
        let volume = Volume {
            generation: Generation(1),
            parents: vec![Parent {
                volume: VolumeId(1),
                number: SnapshotId(1),
                generation: Generation(1),
            }],
            ..Volume::new(
                CLONE,
                "copy",
                "main",
                (chunks - 1) * u64::from(CHUNK) + u64::from(BLOCK_BYTES),
            )
        };
        rig.tell(map::volume_key("copy"), Some(serde_json::to_vec(&volume).unwrap()));
        let record = Flatten {
            volume: CLONE,
            asked_at: 3,
            chunks,
            done: 0,
            ails: None,
            paused: None,
        };
        rig.wish(Some(&record));
        rig
    }

    fn tell(&mut self, key: String, value: Option<Vec<u8>>) {
        self.revision += 1;
        self.view.apply(&Record {
            key,
            value,
            revision: self.revision,
            created: 1,
        });
    }

    fn wish(&mut self, record: Option<&Flatten>) {
        let value = record.map(|record| serde_json::to_vec(record).unwrap());
        self.tell(map::flatten_key(CLONE), value);
    }

    /// What is asked for: reads by their number and place, and records that are written.
    fn go(&mut self, nanoseconds: u64) -> (Vec<(u64, u64)>, Vec<Flatten>) {
        self.now = Time(self.now.0 + nanoseconds);
        self.flattens.look(self.now, &self.view, |_| Some(CHUNK));
        self.effects()
    }

    fn end(&mut self, tag: u64, result: Result<(), IoError>) -> (Vec<(u64, u64)>, Vec<Flatten>) {
        self.flattens.ended(self.now, tag, result);
        self.effects()
    }

    fn effects(&mut self) -> (Vec<(u64, u64)>, Vec<Flatten>) {
        let (mut reads, mut notes) = (Vec::new(), Vec::new());
        while let Some(effect) = self.flattens.next_effect() {
            match effect {
                Effect::Read { tag, volume, offset } => {
                    assert_eq!(volume, CLONE);
                    reads.push((tag, offset));
                }
                Effect::Call(call, request) => {
                    let [Op::Put { key, value, .. }] = request.then.as_slice() else {
                        panic!("one record")
                    };
                    assert_eq!(*key, map::flatten_key(CLONE));
                    let record: Flatten = serde_json::from_slice(value).unwrap();
                    let value = value.clone();
                    assert!(self.flattens.answered(self.now, call));
                    self.tell(map::flatten_key(CLONE), Some(value));
                    notes.push(record);
                }
            }
        }
        (reads, notes)
    }
}

#[test]
fn each_chunk_is_opened_once_and_the_end_is_noted_at_once() {
    let mut rig = Rig::new(20);
    let (mut reads, notes) = rig.go(0);
    assert_eq!((reads.len(), notes.len()), (DEPTH, 0));
    let mut places = Vec::new();
    let mut noted = Vec::new();
    while let Some((tag, offset)) = reads.pop() {
        places.push(offset / u64::from(CHUNK));
        let (more, notes) = rig.end(tag, Ok(()));
        reads.extend(more);
        noted.extend(notes);
    }
    places.sort_unstable();
    assert_eq!(places, (0..20).collect::<Vec<_>>());
    assert_eq!(noted.iter().map(|note| note.done).collect::<Vec<_>>(), [20]);
    assert!(rig.view.flattens().next().is_none(), "it is made");
    assert_eq!(rig.go(1_000_000_000), (Vec::new(), Vec::new()));
}

#[test]
fn what_is_noted_is_up_to_where_nothing_is_missing() {
    let mut rig = Rig::new(20);
    let (reads, _) = rig.go(0);
    // All but the third.
    for (tag, offset) in &reads {
        if *offset != 2 * u64::from(CHUNK) {
            rig.end(*tag, Ok(()));
        }
    }
    let (_, notes) = rig.go(NOTE.as_nanos() as u64);
    assert_eq!(notes.iter().map(|note| note.done).collect::<Vec<_>>(), [2]);
    // A successor begins there.
    rig.flattens = Flattens::new(6 << 20);
    let (reads, _) = rig.go(0);
    assert_eq!(reads[0].1, 2 * u64::from(CHUNK));
}

#[test]
fn a_read_that_fails_is_tried_at_another_block_and_said() {
    let mut rig = Rig::new(2);
    let (reads, _) = rig.go(0);
    assert_eq!(reads.len(), 2);
    rig.end(reads[1].0, Ok(()));
    let (mut tag, mut offsets) = (reads[0].0, Vec::new());
    let mut said = None;
    for _ in 0..30 {
        rig.end(tag, Err(IoError::Damaged));
        let (reads, notes) = rig.go(RETRY.as_nanos() as u64);
        assert_eq!(reads.len(), 1);
        tag = reads[0].0;
        offsets.push(reads[0].1 / u64::from(BLOCK_BYTES));
        said = notes.last().cloned().or(said);
    }
    assert_eq!(offsets[..5], [1, 2, 3, 0, 1]);
    let said = said.expect("it is noted why");
    assert_eq!((said.done, said.ails), (0, Some(IoError::Damaged.to_string())));
    let (_, notes) = rig.end(tag, Ok(()));
    assert_eq!((notes[0].done, &notes[0].ails), (2, &None));
}

#[test]
fn what_is_taken_back_or_open_elsewhere_is_left_alone() {
    let mut rig = Rig::new(4);
    rig.go(0);
    rig.wish(None);
    let (reads, notes) = rig.go(2_000_000_000);
    assert!(reads.is_empty() && notes.is_empty());
    assert!(rig.flattens.volumes.is_empty());
    let mut rig = Rig::new(4);
    rig.flattens.look(rig.now, &rig.view, |_| None);
    assert!(rig.flattens.next_effect().is_none(), "another gateway has it");
}

#[test]
fn one_that_is_paused_stands_still_and_goes_on_behind_what_was_noted() {
    let mut rig = Rig::new(40);
    let (reads, _) = rig.go(0);
    let mut under_way = reads[3..].to_vec();
    for (tag, _) in &reads[..3] {
        under_way.extend(rig.end(*tag, Ok(())).0);
    }
    let (_, notes) = rig.go(NOTE.as_nanos() as u64);
    assert_eq!(notes.last().map(|note| note.done), Some(3));
    let paused = Flatten {
        paused: Some(map::Paused {
            by: "operator ann".to_owned(),
            at: 9,
        }),
        ..notes[0].clone()
    };
    rig.wish(Some(&paused));
    let (more, notes) = rig.go(NOTE.as_nanos() as u64);
    assert!(more.is_empty() && notes.is_empty());
    // What was under way ends, and nothing new begins.
    for (tag, _) in &under_way {
        let (more, notes) = rig.end(*tag, Ok(()));
        assert!(more.is_empty() && notes.is_empty());
    }
    assert!(!rig.view.is_to_be_flattened(CLONE), "nobody opens it for that");
    rig.wish(Some(&Flatten { paused: None, ..paused }));
    let (reads, _) = rig.go(0);
    assert_eq!(reads.len(), DEPTH);
    assert_eq!(reads[0].1, 3 * u64::from(CHUNK));
}

/// More clones than have a turn, and the first of them cannot be read: the last one is flattened all the same.
#[test]
fn those_whose_reads_fail_keep_no_other_from_its_turn() {
    let mut flattens = Flattens::new(5 << 20);
    let mut view = View::default();
    let mut revision = 0;
    let mut tell = |view: &mut View, key: String, value: Vec<u8>| {
        revision += 1;
        view.apply(&Record {
            key,
            value: Some(value),
            revision,
            created: 1,
        });
    };
    let last = VolumeId(MOST as u64 + 1);
    for id in 1..=last.0 {
        let volume = Volume {
            generation: Generation(1),
            ..Volume::new(VolumeId(id), &format!("v{id}"), "main", u64::from(CHUNK))
        };
        let record = Flatten {
            volume: volume.id,
            asked_at: 3,
            chunks: 1,
            done: 0,
            ails: None,
            paused: None,
        };
        tell(
            &mut view,
            map::volume_key(&volume.name),
            serde_json::to_vec(&volume).unwrap(),
        );
        tell(
            &mut view,
            map::flatten_key(volume.id),
            serde_json::to_vec(&record).unwrap(),
        );
    }
    let is_made = |view: &View| view.flattens().all(|(volume, ..)| volume != last);
    let mut turns = 0;
    for step in 0..800 {
        let now = Time(step * 100_000_000);
        assert!(
            flattens.deadline().is_none_or(|at| at.plus(LONGEST) > now),
            "nothing is due for ever"
        );
        flattens.look(now, &view, |_| Some(CHUNK));
        assert!(flattens.volumes.len() <= MOST);
        while let Some(effect) = flattens.next_effect() {
            match effect {
                Effect::Read { tag, volume, .. } => {
                    turns += u32::from(step > 400 && volume == VolumeId(1));
                    let result = if volume == last { Ok(()) } else { Err(IoError::Damaged) };
                    flattens.ended(now, tag, result);
                }
                Effect::Call(call, request) => {
                    let [Op::Put { key, value, .. }] = request.then.as_slice() else {
                        panic!("one record")
                    };
                    let (key, value) = (key.clone(), value.clone());
                    assert!(flattens.answered(now, call));
                    tell(&mut view, key, value);
                }
            }
        }
        if step == 80 {
            assert!(is_made(&view), "it had its turn after those had theirs");
            let ails = view.flattens().filter(|(_, record, _)| record.ails.is_some());
            assert_eq!(ails.count(), MOST, "and it is said why the others wait");
        }
    }
    assert!(turns > 0, "they are tried again");
}
