//! When a mirror that nobody is at is begun.

use super::*;
use amita_types::MirrorId;
use amita_types::map::{MirrorPass, PointName};

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
    assert_eq!(left(false, false, Duration::ZERO), Duration::ZERO, "at once");
    assert_eq!(left(true, false, second), RETRY - second);
    assert_eq!(left(false, true, second), KEYLESS - second);
    assert_eq!(
        left(true, true, KEYLESS),
        Duration::ZERO,
        "somebody has to say what lacks"
    );
}

#[test]
fn a_node_is_at_so_many_and_those_that_move_data_wait_for_room() {
    let now = Duration::ZERO;
    let (one, mut other) = (mirror("a", "primary"), mirror("b", "secondary"));
    other.pass = Some(MirrorPass {
        to: PointName::default(),
        cut_at: 1,
        base: None,
        clears: false,
        places: Vec::new(),
        set: None,
    });
    let none = BTreeSet::new();
    let both = [(&one, now), (&other, now)];
    assert_eq!(
        choose(&both, &none, false),
        (vec!["a".to_owned(), "b".to_owned()], false, LONGEST_REST)
    );
    assert_eq!(choose(&both, &none, true), (vec!["a".to_owned()], false, RETRY));
    let full: BTreeSet<String> = (0..MOST).map(|number| number.to_string()).collect();
    assert_eq!(choose(&both, &full, false), (Vec::new(), true, LONGEST_REST));
    assert_eq!(choose(&[(&one, RETRY)], &none, false), (Vec::new(), false, RETRY));
    let here = BTreeSet::from(["a".to_owned()]);
    assert_eq!(choose(&[(&one, now)], &here, false), (Vec::new(), false, LONGEST_REST));
}
