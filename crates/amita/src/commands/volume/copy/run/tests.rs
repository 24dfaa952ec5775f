//! When a copy that nobody is at is begun.

use super::{KEYLESS, RETRY, left};
use std::time::Duration;

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
