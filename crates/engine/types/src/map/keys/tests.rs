use super::*;
use proptest::prelude::*;

fn key(image: u64, number: u32) -> KeyName {
    KeyName {
        volume: VolumeId(image),
        image: VolumeId(image),
        number: KeyNumber(number),
    }
}

fn generation(number: u32) -> Generation {
    Generation(number)
}

fn version(generation: u32, counter: u64) -> Version {
    Version::new(Generation(generation), counter).unwrap()
}

fn era(from: u32, key: KeyName) -> Era {
    let from = Generation(from);
    Era { from, key }
}

#[test]
fn a_version_has_the_key_of_its_generation() {
    let ring = KeyRing::new(key(1, 1)).rekeyed(generation(5), key(1, 2)).unwrap();
    let ring = ring.rekeyed(generation(9), key(1, 3)).unwrap();
    for (generation, number) in [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (1 << 23, 3)] {
        // The counter says nothing.
        for counter in [1, Version::COUNTER_MAX] {
            assert_eq!(
                ring.key_of(version(generation, counter)),
                key(1, number),
                "{generation}"
            );
        }
    }
    assert_eq!(ring.newest(), era(9, key(1, 3)));
}

#[test]
fn a_clone_reads_what_it_comes_from_and_writes_under_a_key_of_its_own() {
    let parent = KeyRing::new(key(1, 1)).rekeyed(generation(5), key(1, 2)).unwrap();
    // Sealed by generation 6; the parent goes on, with another key from 8 on, while the clone is at 7.
    let child = parent.cloned(generation(6), generation(7), key(2, 1)).unwrap();
    let parent = parent.rekeyed(generation(8), key(1, 3)).unwrap();
    assert_eq!(child.key_of(version(3, 1)), key(1, 1));
    assert_eq!(child.key_of(version(6, 1)), key(1, 2));
    assert_eq!(child.key_of(version(7, 1)), key(2, 1));
    assert_eq!(child.key_of(version(8, 1)), key(2, 1));
    assert_eq!(parent.key_of(version(7, 1)), key(1, 2));
    // A snapshot from before the second key needs the first alone.
    let old = parent.cloned(generation(4), generation(9), key(3, 1)).unwrap();
    assert_eq!(old.eras(), [era(0, key(1, 1)), era(9, key(3, 1))]);
    // Two clones of one snapshot may have one generation, and have two keys.
    let twin = parent.cloned(generation(6), generation(7), key(4, 1)).unwrap();
    assert_ne!(twin.key_of(version(7, 1)), child.key_of(version(7, 1)));
    // A clone of the clone.
    let grandchild = child.cloned(generation(7), generation(8), key(5, 1)).unwrap();
    assert_eq!(grandchild.eras().len(), 4);
}

#[test]
fn a_clone_cannot_write_where_its_parent_may_have() {
    let parent = KeyRing::new(key(1, 1));
    for from in [5, 6] {
        let refused = parent.cloned(generation(6), generation(from), key(2, 1));
        assert_eq!(refused.unwrap_err(), BadRing::Order { from: generation(from) });
    }
}

#[test]
fn keys_go_with_the_last_block_that_they_have() {
    let ring = KeyRing::new(key(1, 1)).rekeyed(generation(5), key(1, 2)).unwrap();
    let ring = ring.rekeyed(generation(9), key(1, 3)).unwrap();
    for oldest in [0, 1, 4] {
        assert_eq!(ring.retired(generation(oldest)), (ring.clone(), vec![]), "{oldest}");
    }
    for oldest in [5, 8] {
        let (left, gone) = ring.retired(generation(oldest));
        assert_eq!(left.eras(), [era(0, key(1, 2)), era(9, key(1, 3))], "{oldest}");
        assert_eq!(gone, [key(1, 1)]);
    }
    let (left, gone) = ring.retired(generation(20));
    assert_eq!(
        (left.eras(), gone),
        (&[era(0, key(1, 3))][..], vec![key(1, 1), key(1, 2)])
    );
    assert!(left.retired(generation(20)).1.is_empty());
}

#[test]
fn what_is_no_ring_is_refused() {
    let refused = |eras: &[Era]| KeyRing::from_eras(eras.to_vec()).unwrap_err();
    assert_eq!(refused(&[]), BadRing::Count { count: 0 });
    let many: Vec<Era> = (0..=u32::try_from(MAX_ERAS).unwrap())
        .map(|at| era(at, key(1, at + 1)))
        .collect();
    assert_eq!(refused(&many), BadRing::Count { count: MAX_ERAS + 1 });
    assert!(KeyRing::from_eras(many[..MAX_ERAS].to_vec()).is_ok());
    assert_eq!(
        refused(&[era(1, key(1, 1))]),
        BadRing::Beginning { from: generation(1) }
    );
    let order = BadRing::Order { from: generation(4) };
    assert_eq!(
        refused(&[era(0, key(1, 1)), era(4, key(1, 2)), era(4, key(1, 3))]),
        order
    );
    let number = |number| BadRing::Number { key: key(1, number) };
    assert_eq!(refused(&[era(0, key(1, 1)), era(4, key(1, 1))]), number(1));
    assert_eq!(refused(&[era(0, key(1, 2)), era(4, key(1, 1))]), number(1));
    // Another image's key stands between: the number is still given again.
    let between = [era(0, key(1, 2)), era(4, key(2, 1)), era(6, key(1, 2))];
    assert_eq!(refused(&between), number(2));
    let deleted = Generation::DELETED;
    let last = Era {
        from: deleted,
        key: key(1, 2),
    };
    assert_eq!(
        refused(&[era(0, key(1, 1)), last]),
        BadRing::Generation { from: deleted }
    );
}

#[test]
fn a_ring_is_read_from_a_record_only_if_it_is_one() {
    let ring = KeyRing::new(key(1, 1)).rekeyed(generation(5), key(1, 2)).unwrap();
    let text = serde_json::to_string(&ring).unwrap();
    assert_eq!(
        text,
        r#"[{"from":0,"key":{"volume":1,"image":1,"number":1}},{"from":5,"key":{"volume":1,"image":1,"number":2}}]"#
    );
    assert_eq!(serde_json::from_str::<KeyRing>(&text).unwrap(), ring);
    for wrong in [
        "[]".to_owned(),
        text.replace("\"from\":5", "\"from\":0"),
        text.replace("\"number\":2", "\"number\":1"),
        text.replace("\"from\":0", "\"from\":1"),
        text.replace("\"from\":5", "\"since\":5"),
    ] {
        assert!(serde_json::from_str::<KeyRing>(&wrong).is_err(), "{wrong}");
    }
}

proptest! {
    /// What goes is what nobody has: every version that is not older than the oldest keeps its key.
    #[test]
    fn retiring_keeps_the_key_of_every_block(steps in prop::collection::vec(1_u32..9, 0..12), oldest in 0_u32..60, above in 0_u32..60) {
        let (mut ring, mut from) = (KeyRing::new(key(1, 1)), 0);
        for (number, step) in (2..).zip(&steps) {
            from += step;
            ring = ring.rekeyed(generation(from), key(1, number)).unwrap();
        }
        let (left, gone) = ring.retired(generation(oldest));
        let block = version(oldest + above, 1);
        prop_assert_eq!(left.key_of(block), ring.key_of(block));
        prop_assert!(!gone.contains(&ring.key_of(block)));
        prop_assert_eq!(left.eras().len() + gone.len(), ring.eras().len());
        prop_assert!(KeyRing::from_eras(left.eras().to_vec()).is_ok());
        // And no key stays that has nothing.
        prop_assert_eq!(left.eras()[0].key, ring.key_of(version(oldest, 1)));
    }
}
