//! What holds back others while a volume is made smaller, and what holds it back.

use super::*;
use amita_types::map::{Flatten, Import, SNAPSHOTS_SINCE, Shrink};

const SMALL: u64 = 1 << 20;

fn with_volume(version: u32) -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "db", "main", 1 << 30).unwrap();
    let mut record = cluster(&meta).unwrap();
    record.version = version;
    meta.txn(&Call::put(map::cluster_key(), json(&record))).unwrap();
    meta
}

fn subsystem() -> SubsystemSpec {
    SubsystemSpec {
        name: "s".to_owned(),
        ..SubsystemSpec::default()
    }
}

fn mark_of(meta: &dyn Transact) -> Option<Shrink> {
    about(meta, volume(meta, "db").unwrap().id).unwrap().shrink
}

#[test]
fn the_size_is_written_last_and_with_it_the_mark_goes() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    let found = volume(&meta, "db").unwrap();
    let mark = begin_shrink(&meta, &found, SMALL).unwrap();
    assert_eq!(volume(&meta, "db").unwrap().size_bytes, 1 << 30);
    // Others' ways are barred meanwhile.
    create_subsystem(&meta, &subsystem()).unwrap();
    let refused = add_namespace(&meta, "s", "db", None, 4096).unwrap_err();
    assert!(matches!(refused, AdminError::Shrinking { .. }), "{refused}");
    let refused = resize_volume(&meta, "db", 2 << 30).unwrap_err();
    assert!(matches!(refused, AdminError::Shrinking { .. }), "{refused}");
    let small = end_shrink(&meta, &found, &mark).unwrap();
    assert_eq!((small.size_bytes, mark_of(&meta)), (SMALL, None));
    assert_eq!(volume(&meta, "db").unwrap(), small);
    // Once.
    end_shrink(&meta, &found, &mark).unwrap_err();
    assert_eq!(resize_volume(&meta, "db", 2 << 30).unwrap().size_bytes, 2 << 30);
}

#[test]
fn who_was_not_alone_with_the_volume_does_not_end_it() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    let found = volume(&meta, "db").unwrap();
    let mark = begin_shrink(&meta, &found, SMALL).unwrap();
    // Another gateway has taken it over, and may have written.
    let taken = Volume {
        generation: Generation(found.generation.0 + 1),
        ..found.clone()
    };
    meta.txn(&Call::put(map::volume_key("db"), json(&taken))).unwrap();
    let refused = end_shrink(&meta, &found, &mark).unwrap_err().to_string();
    assert!(refused.contains("others have had it meanwhile"), "{refused}");
    assert_eq!(volume(&meta, "db").unwrap(), taken);
    // Given again by that one, with another size; the first one's mark is no more.
    let refused = begin_shrink(&meta, &taken, 2 * SMALL).unwrap_err();
    assert!(matches!(refused, AdminError::Shrinking { .. }), "{refused}");
    let again = begin_shrink(&meta, &taken, SMALL / 2).unwrap();
    end_shrink(&meta, &taken, &mark).unwrap_err();
    assert_eq!(end_shrink(&meta, &taken, &again).unwrap().size_bytes, SMALL / 2);
    // Given up, it is not ended.
    let found = volume(&meta, "db").unwrap();
    let mark = begin_shrink(&meta, &found, SMALL / 4).unwrap();
    assert_eq!(give_up_shrink(&meta, "db").unwrap(), found);
    end_shrink(&meta, &found, &mark).unwrap_err();
    assert_eq!((volume(&meta, "db").unwrap(), mark_of(&meta)), (found, None));
}

#[test]
fn what_is_used_or_half_done_is_not_made_smaller() {
    let meta = with_volume(SNAPSHOTS_SINCE);
    let found = volume(&meta, "db").unwrap();
    for (size, said) in [(1 << 30, "are not fewer"), (4097, "is no multiple"), (0, "choose")] {
        let why = begin_shrink(&meta, &found, size).unwrap_err().to_string();
        assert!(why.contains(said), "{why}");
    }
    let import = Import {
        format: "raw".to_owned(),
        image_bytes: 4096,
        modified_ns: 1,
        done_bytes: 0,
        ails: None,
        attempt: None,
    };
    begin_import(&meta, &found, &import).unwrap();
    let why = begin_shrink(&meta, &found, SMALL).unwrap_err().to_string();
    assert!(why.contains("an image is being copied"), "{why}");
    end_import(&meta, &found, &import).unwrap();
    // An image that was begun since has written behind the end: to end the shrinking would lose it.
    let mark = begin_shrink(&meta, &found, SMALL).unwrap();
    begin_import(&meta, &found, &import).unwrap();
    assert_eq!(mark_of(&meta), None);
    end_shrink(&meta, &found, &mark).unwrap_err();
    end_import(&meta, &found, &import).unwrap();
    // Asked for when the end is being cleared, a flattening keeps the size from being written.
    let mark = begin_shrink(&meta, &found, SMALL).unwrap();
    let flatten = Flatten {
        volume: found.id,
        asked_at: 1,
        chunks: 256,
        done: 0,
        ails: None,
        paused: None,
    };
    meta.txn(&Call::put(map::flatten_key(found.id), json(&flatten)))
        .unwrap();
    for why in [
        end_shrink(&meta, &found, &mark).unwrap_err(),
        begin_shrink(&meta, &found, SMALL).unwrap_err(),
    ] {
        assert!(why.to_string().contains("being flattened"), "{why}");
    }
    assert!(cancel_flatten(&meta, "db").unwrap());
    give_up_shrink(&meta, "db").unwrap();
    create_subsystem(&meta, &subsystem()).unwrap();
    add_namespace(&meta, "s", "db", None, 4096).unwrap();
    let why = begin_shrink(&meta, &found, SMALL).unwrap_err();
    assert!(matches!(why, AdminError::AttachedStill { .. }), "{why}");
    assert_eq!(mark_of(&meta), None);
    let older = with_volume(SNAPSHOTS_SINCE - 1);
    let found = volume(&older, "db").unwrap();
    let why = begin_shrink(&older, &found, SMALL).unwrap_err().to_string();
    assert!(why.contains("made smaller from 2 on"), "{why}");
}
