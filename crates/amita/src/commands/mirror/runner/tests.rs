//! When a mirror that nobody is at is begun.

use super::*;
use amita_types::map::{MirrorPass, PointName, Returning};
use amita_types::{MirrorId, VolumeId};

fn mirror(name: &str, role: &str) -> Mirror {
    let record = serde_json::json!({
        "id": MirrorId(7), "name": name, "role": role, "epoch": 2, "volumes": [], "peer": {}, "interval_s": 60, "keep": 2,
        "point": {"epoch": 2, "number": 1}
    });
    serde_json::from_value(record).expect("a record")
}

#[test]
fn a_node_without_keys_leaves_mirrors_to_others_first() {
    let second = Duration::from_secs(1);
    let zero = Duration::ZERO;
    assert_eq!(left(false, false, false, zero), zero, "at once");
    assert_eq!(left(true, false, false, second), RETRY - second);
    assert_eq!(left(false, true, true, second), KEYLESS - second);
    assert_eq!(left(false, false, true, second), FULL - second);
    assert_eq!(left(false, false, true, FULL), zero, "somebody has to look");
    assert_eq!(
        left(true, true, true, KEYLESS),
        Duration::ZERO,
        "somebody has to say what lacks"
    );
}

#[test]
fn a_node_is_at_so_many_and_no_more() {
    let now = Duration::ZERO;
    let (one, other) = (mirror("a", "primary"), mirror("b", "secondary"));
    let none = BTreeSet::new();
    let both = [(&one, now), (&other, now)];
    assert_eq!(
        choose(&both, &none),
        (vec!["a".to_owned(), "b".to_owned()], false, LONGEST_REST)
    );
    let full: BTreeSet<String> = (0..MOST).map(|number| number.to_string()).collect();
    assert_eq!(choose(&both, &full), (Vec::new(), true, LONGEST_REST));
    assert_eq!(choose(&[(&one, RETRY)], &none), (Vec::new(), false, RETRY));
    let here = BTreeSet::from(["a".to_owned()]);
    assert_eq!(choose(&[(&one, now)], &here), (Vec::new(), false, LONGEST_REST));
}

/// Hosts wait for what is promoted or goes back: other mirrors' first copies are no reason for that to wait.
#[test]
fn who_is_reverted_moves_no_data_and_who_brings_does() {
    let pass = || {
        Some(MirrorPass {
            to: PointName::default(),
            cut_at: 1,
            base: None,
            clears: false,
            places: Vec::new(),
            set: None,
        })
    };
    let returning = || {
        Some(Returning {
            to: Some(PointName::default()),
            done: vec![VolumeId(5)],
            were: Vec::new(),
            given_up: false,
        })
    };
    for role in ["promoting", "deposed"] {
        let back = Mirror {
            begun: Some(PointName::default()),
            returning: returning(),
            ..mirror("a", role)
        };
        assert!(!moves_data(&back), "{role}");
    }
    let at_rest = mirror("a", "secondary");
    assert!(!moves_data(&at_rest) && !moves_data(&mirror("a", "primary")));
    let brings = Mirror {
        pass: pass(),
        ..at_rest
    };
    assert!(moves_data(&brings));
    let mut first = mirror("a", "secondary");
    first.standing.point = None;
    assert!(moves_data(&first));
    first.paused = Some(amita_types::map::Paused {
        by: "somebody".to_owned(),
        at: 1,
    });
    assert!(!moves_data(&first));
}
