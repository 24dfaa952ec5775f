use super::*;
use amita_types::{Generation, SnapshotId, VolumeId};

fn snapshot(label: &str) -> Snapshot {
    Snapshot {
        volume: VolumeId(3),
        number: SnapshotId(9),
        name: "a".to_owned(),
        size_bytes: 4096,
        taken_at: 1_700_000_000,
        labels: BTreeMap::from([(LABEL.to_owned(), label.to_owned())]),
        protected: false,
        clones: 0,
        set: None,
        mark: true,
        hidden: false,
        state: SnapshotState::Sealed(Generation(5)),
    }
}

#[test]
fn a_snapshot_is_known_by_its_label_as_one_of_a_vault() {
    let vault = "00112233445566778899aabbccddeeff";
    let hash = hexadecimal(&[0xab; 32]);
    let found = origin(&snapshot(&format!("{vault}/17/{hash}")), vault);
    let wanted = Origin {
        session: SessionId(17),
        hash: [0xab; 32],
    };
    assert_eq!(found, Some(wanted));
    assert_eq!(versions(&snapshot("")), (5, 9));
    for other in [
        format!("{vault}/17"),
        format!("{vault}/17/{}", &hash[2..]),
        format!("{vault}/17/{}\u{fc}", &hash[2..]),
        format!("{vault}/x/{hash}"),
        format!("{vault}17/{hash}"),
        format!("ff{}/17/{hash}", &vault[2..]),
        String::new(),
    ] {
        assert_eq!(origin(&snapshot(&other), vault), None, "{other}");
    }
}
