//! Volumes that were becoming copies of others.

use super::*;
use amita_types::map::{CopyPlace, Copying};

/// By the records volume 2 is to be a copy of volume 1, and whoever is at it has opened it as generation 3.
fn copying(change: impl Fn(&mut Copying)) -> [Source; 3] {
    let mut record = Copying {
        volume: VolumeId(2),
        name: "v2".to_owned(),
        source: VolumeId(1),
        of: "v1".to_owned(),
        snapshot: "copy-2".to_owned(),
        takes: true,
        snapshots: false,
        limit_bytes_per_s: None,
        asked_at: 7,
        cancelled: false,
        whole: false,
        paused: None,
        ails: None,
        moving: None,
        place: CopyPlace {
            last: Some(SnapshotId(1)),
            base: SnapshotId(1),
            generation: Generation(3),
            ..CopyPlace::default()
        },
    };
    change(&mut record);
    let mut all = [source(A, 5), source(B, 5), source(C, 5)];
    for source in &mut all {
        let copy = source.copy.as_mut().unwrap();
        copy.values.insert(map::copying_key(VolumeId(2)), json(&record));
    }
    all
}

fn record_of(rebuilt: &Rebuilt) -> Option<Copying> {
    let text = rebuilt.records.get(&map::copying_key(VolumeId(2)))?;
    Some(serde_json::from_slice(text).expect("a record"))
}

fn whole(volume: u64) -> Word {
    Word {
        whole: vec![VolumeId(volume)],
        ..Word::default()
    }
}

fn unfinished(volume: u64) -> Word {
    Word {
        unfinished: vec![VolumeId(volume)],
        ..Word::default()
    }
}

#[test]
fn a_copy_that_nobody_else_has_opened_goes_on_and_nothing_may_be_said_of_it() {
    let all = copying(|_| {});
    let rebuilt = rebuild(&all, &[]).expect("nothing to ask");
    let record = record_of(&rebuilt).expect("it goes on");
    assert!(!record.whole && record.paused.is_none());
    // So whoever goes on finds a generation that is not his, and writes all of it.
    assert!(read_volume(&rebuilt, "v2").generation > record.place.generation);
    for word in [whole(2), unfinished(2)] {
        let refused = super::super::rebuild(&all, &[], &word).unwrap_err();
        assert_eq!(refused, RecoverError::NoUndecidedCopy { volume: VolumeId(2) });
    }
}

#[test]
fn a_copy_that_somebody_has_opened_since_is_nothing_without_a_word() {
    let mut all = copying(|_| {});
    // One store is enough that has heard of it.
    all[1].volumes = vec![known_volume(2, 4, 1)];
    let refused = rebuild(&all, &[]).unwrap_err();
    assert_eq!(
        refused,
        RecoverError::MayBeWhole {
            volumes: vec![VolumeId(2)]
        }
    );
    assert!(refused.to_string().contains("numbers 2)"), "{refused}");
    let both = Word {
        unfinished: vec![VolumeId(2)],
        ..whole(2)
    };
    let refused = super::super::rebuild(&all, &[], &both).unwrap_err();
    assert_eq!(refused, RecoverError::BothWordsOfCopy { volume: VolumeId(2) });

    let rebuilt = super::super::rebuild(&all, &[], &whole(2)).expect("it was said");
    assert!(record_of(&rebuilt).expect("what is left of it is cleared away").whole);
    assert!(rebuilt.report.notes.iter().any(|note| note.contains("as it lies")));
    let rebuilt = super::super::rebuild(&all, &[], &unfinished(2)).expect("it was said");
    let record = record_of(&rebuilt).expect("it goes on");
    assert!(record.place.mixed && !record.whole);
    assert!(rebuilt.report.notes.iter().any(|note| note.contains("copied anew")));
    // The generations of others are nothing to it.
    let refused = super::super::rebuild(&all, &[], &whole(1)).unwrap_err();
    assert_eq!(refused, RecoverError::NoUndecidedCopy { volume: VolumeId(1) });
}

/// The records themselves may know that somebody has opened it, as a node does that brings a store up to date.
#[test]
fn the_records_generation_counts_as_a_stores_does() {
    let all = copying(|record| record.place.generation = Generation(2));
    let refused = rebuild(&all, &[]).unwrap_err();
    assert!(matches!(refused, RecoverError::MayBeWhole { .. }), "{refused}");
}

#[test]
fn what_is_whole_or_taken_back_is_so_whoever_has_opened_it() {
    for change in [
        |record: &mut Copying| record.whole = true,
        |record: &mut Copying| {
            record.cancelled = true;
        },
    ] {
        let mut all = copying(change);
        let before = {
            let copy = all[0].copy.as_ref().unwrap();
            copy.values[&map::copying_key(VolumeId(2))].clone()
        };
        all[1].volumes = vec![known_volume(2, 9, 1)];
        let rebuilt = rebuild(&all, &[]).expect("nothing to ask");
        assert_eq!(rebuilt.records[&map::copying_key(VolumeId(2))], before);
    }
}

/// A store that was given up may be the one that had heard of it.
#[test]
fn where_a_store_is_lost_a_copy_is_asked_for() {
    let all = copying(|_| {});
    let refused = rebuild(&all[..2], &[C]).unwrap_err();
    assert!(matches!(refused, RecoverError::MayBeWhole { .. }), "{refused}");
    super::super::rebuild(&all[..2], &[C], &whole(2)).expect("it was said");
}

#[test]
fn a_copy_whose_target_a_store_knows_to_be_deleted_is_taken_back() {
    let mut all = copying(|_| {});
    all[1].deleted = vec![(VolumeId(2), VolumeId(2))];
    let rebuilt = rebuild(&all, &[]).expect("nothing to ask");
    let record = record_of(&rebuilt).expect("its snapshot is still to be removed");
    assert!(record.cancelled && !record.whole);
}
