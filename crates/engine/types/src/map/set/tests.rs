use super::{MAX_SET_VOLUMES, SetState, SetVolume, SnapshotSet};
use crate::id::{SetId, VolumeId};
use std::collections::BTreeMap;

fn set(volumes: impl IntoIterator<Item = u64>) -> SnapshotSet {
    let volume = |id| SetVolume {
        id: VolumeId(id),
        name: format!("v{id}"),
    };
    SnapshotSet {
        id: SetId(3),
        name: "nightly".to_owned(),
        asked_at: 17,
        labels: BTreeMap::new(),
        volumes: volumes.into_iter().map(volume).collect(),
        state: SetState::Taking,
    }
}

#[test]
fn a_set_has_each_volume_once() {
    assert_eq!(set([1, 2]).check(), Ok(()));
    assert!(set([1, 1]).check().unwrap_err().contains("\"v1\" is named twice"));
    assert!(set([2, 1]).check().is_err());
    assert!(set([]).check().unwrap_err().contains("0 volumes"));
    assert!(
        set(0..=MAX_SET_VOLUMES as u64)
            .check()
            .unwrap_err()
            .contains("1025 volumes")
    );
    assert_eq!(set(0..MAX_SET_VOLUMES as u64).check(), Ok(()));
    let bad = SnapshotSet {
        name: "a@b".to_owned(),
        ..set([1])
    };
    assert!(bad.check().is_err());
    let has = set([1, 5, 9]);
    assert_eq!((has.has(VolumeId(5)), has.has(VolumeId(6))), (true, false));
    assert_eq!(has.first(), Some(VolumeId(1)));
}

#[test]
fn records_read_as_they_are_written() {
    let taking = set([1]);
    let text = serde_json::to_string(&taking).unwrap();
    assert_eq!(
        text,
        r#"{"id":3,"name":"nightly","asked_at":17,"volumes":[{"id":1,"name":"v1"}],"state":"taking"}"#
    );
    assert_eq!(serde_json::from_str::<SnapshotSet>(&text).unwrap(), taking);
    let void = taking.voided("no", true);
    let text = serde_json::to_string(&void).unwrap();
    assert!(
        text.ends_with(r#""state":{"void":{"why":"no","again":true}}}"#),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<SnapshotSet>(&text).unwrap(), void);
}
