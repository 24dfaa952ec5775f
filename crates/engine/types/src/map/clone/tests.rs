use super::*;

fn volume(parents: Vec<Parent>) -> Volume {
    Volume {
        generation: Generation(5),
        parents,
        ..Volume::new(VolumeId(9), "c", "p", 4096)
    }
}

fn parent(volume: u64, number: u32, generation: u32) -> Parent {
    Parent {
        volume: VolumeId(volume),
        number: SnapshotId(number),
        generation: Generation(generation),
    }
}

#[test]
fn a_clone_lies_where_its_root_lies() {
    assert_eq!(volume(Vec::new()).place(), VolumeId(9));
    let of_two = volume(vec![parent(4, 2, 3), parent(1, 1, 2)]);
    assert_eq!(of_two.place(), VolumeId(1));
    assert_eq!(check_parents(&of_two), Ok(()));
    // What older programs have written is read, and written as it was.
    let plain = serde_json::to_string(&volume(Vec::new())).unwrap();
    assert!(!plain.contains("parents"), "{plain}");
    let text = serde_json::to_string(&of_two).unwrap();
    assert_eq!(serde_json::from_str::<Volume>(&text).unwrap(), of_two);
}

#[test]
fn what_cannot_be_a_clone_is_told_from_one() {
    let bad = [
        vec![parent(9, 1, 1)],
        vec![parent(4, 1, 1), parent(4, 2, 1)],
        vec![parent(4, 0, 1)],
        vec![parent(4, 1, 6)],
        (1..=65).map(|n| parent(n + 20, 1, 1)).collect(),
    ];
    for parents in bad {
        assert!(check_parents(&volume(parents.clone())).is_err(), "{parents:?}");
    }
}
