//! When a copy that nobody is at is begun.

use super::*;
use amita_types::map::CopyPlace;

/// Else nodes without keys would take it again and again, each time before those that have them.
#[test]
fn a_node_without_keys_leaves_what_is_encrypted_to_others_first() {
    let second = Duration::from_secs(1);
    assert_eq!(left(false, false, Duration::ZERO), Duration::ZERO, "at once");
    assert_eq!(left(true, false, second), RETRY - second);
    for ails in [false, true] {
        assert!(
            left(ails, true, RETRY) > Duration::ZERO,
            "a node with keys has tried again by then"
        );
        assert_eq!(left(ails, true, second), KEYLESS - second);
        assert_eq!(
            left(ails, true, KEYLESS),
            Duration::ZERO,
            "somebody has to say what lacks"
        );
    }
}

fn copy(number: u64) -> Copying {
    Copying {
        volume: VolumeId(number),
        name: "new".to_owned(),
        source: VolumeId(1),
        of: "db".to_owned(),
        snapshot: format!("copy-{number}"),
        takes: true,
        snapshots: false,
        limit_bytes_per_s: None,
        asked_at: 1,
        cancelled: false,
        whole: false,
        paused: None,
        ails: None,
        moving: None,
        place: CopyPlace::default(),
    }
}

#[test]
fn what_is_only_to_be_removed_waits_for_no_copies() {
    let now = Duration::ZERO;
    let (third, fourth) = (copy(3), copy(4));
    let none = BTreeSet::new();
    let (due, _) = choose(&[(&copy(2), now), (&third, now), (&fourth, now)], &none);
    assert_eq!(due, [VolumeId(2), VolumeId(3)]);
    // So many are made here.
    let at = BTreeSet::from([VolumeId(8), VolumeId(9)]);
    assert_eq!(choose(&[(&third, now)], &at), (Vec::new(), LONGEST_REST));
    let cancelled = Copying {
        cancelled: true,
        ..copy(5)
    };
    let whole = Copying { whole: true, ..copy(6) };
    let (due, _) = choose(&[(&third, now), (&cancelled, now), (&whole, now)], &at);
    assert_eq!(due, [VolumeId(5)], "one after the other");
    // One that has failed is left alone for a while; one that is at hand is not begun twice.
    assert_eq!(choose(&[(&cancelled, RETRY)], &none), (Vec::new(), RETRY));
    let at = BTreeSet::from([VolumeId(5)]);
    assert_eq!(choose(&[(&cancelled, now)], &at), (Vec::new(), LONGEST_REST));
}
