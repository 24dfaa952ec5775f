use super::{LONGEST_PAUSE, Peer};
use std::time::Duration;

fn peer(unacked: u32, has_window: bool, probes: u8, heard_s: u64) -> Option<Duration> {
    let heard = Duration::from_secs(heard_s);
    Peer {
        unacked,
        has_window,
        probes,
        heard,
    }
    .silence()
}

#[test]
fn who_was_asked_nothing_is_not_silent() {
    assert_eq!(peer(0, true, 0, 10_000), None);
    assert_eq!(peer(0, false, 0, 10_000), None);
}

#[test]
fn who_does_not_acknowledge_what_it_has_room_for_is() {
    assert_eq!(peer(1, true, 0, 7), Some(Duration::from_secs(7)));
}

/// A host that is paused: its window is shut, and each answer to a probe may be the one that is lost.
#[test]
fn one_lost_probe_is_no_silence_and_two_are() {
    for heard_s in [1, 60, 119] {
        assert_eq!(peer(0, false, 1, heard_s), None, "{heard_s} s");
        assert_eq!(
            peer(3, false, 1, heard_s),
            None,
            "{heard_s} s, and the window was taken back"
        );
    }
    assert_eq!(peer(0, false, 2, 9), Some(Duration::from_secs(9)));
    let two_pauses = Duration::from_secs(240);
    assert!(LONGEST_PAUSE > two_pauses, "one question of a shut window may be lost");
    assert_eq!(peer(3, false, 0, 251), Some(Duration::from_secs(251)));
}
