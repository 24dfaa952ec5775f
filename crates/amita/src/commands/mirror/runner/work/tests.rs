//! When a mirror is left to another node.

use super::*;
use amita_types::MirrorId;
use amita_types::map::{PointName, Returning};

fn mirror(role: &str) -> Mirror {
    let record = serde_json::json!({
        "id": MirrorId(7), "name": "dr", "role": role, "epoch": 2, "volumes": [], "peer": {}, "interval_s": 60, "keep": 2,
        "point": {"epoch": 2, "number": 1}
    });
    serde_json::from_value(record).expect("a record")
}

/// A demotion waits for its last point, a promotion and a resync for snapshots of what the volumes are then: none of that needs the other end.
#[test]
fn a_node_without_the_sealing_key_waits_for_what_it_does_by_itself() {
    let rests = Turned::Rest(Duration::from_secs(1));
    let goes_back = Mirror {
        returning: Some(Returning {
            to: Some(PointName::default()),
            done: Vec::new(),
            were: Vec::new(),
            given_up: false,
        }),
        ..mirror("deposed")
    };
    for waits in [mirror("demoting"), mirror("promoting"), goes_back] {
        let role = waits.standing.role;
        assert!(!is_left(&waits, rests, Duration::ZERO), "{role}");
        assert!(is_left(&waits, rests, UNHEARD), "{role}: somebody has to look");
        assert!(!is_left(&waits, Turned::Again, UNHEARD), "{role}");
    }
    for role in ["primary", "secondary", "deposed"] {
        assert!(is_left(&mirror(role), rests, Duration::ZERO), "{role}");
        assert!(!is_left(&mirror(role), Turned::Again, Duration::ZERO), "{role}");
    }
}
