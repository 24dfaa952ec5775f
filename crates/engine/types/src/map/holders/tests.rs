use super::*;

/// Keys, the revisions of their creation, and the numbers that they say.
const SAID: [(&str, u64, u32); 5] = [("n1", 10, 1), ("n2", 20, 2), ("n3", 30, 1), ("a", 40, 1), ("n5", 40, 2)];

fn all(order: impl IntoIterator<Item = usize>) -> Holders<u32, &'static str> {
    let mut holders = Holders::default();
    for at in order {
        let (key, created, number) = SAID[at];
        let _ = holders.put(key, created, number, key);
    }
    holders
}

#[test]
fn who_is_there_longest_has_the_number_in_whatever_order_it_was_heard() {
    for first in 0..SAID.len() {
        let turned = (0..SAID.len()).map(|at| (first + at) % SAID.len());
        let backwards = turned.clone().collect::<Vec<_>>().into_iter().rev();
        for holders in [all(turned), all(backwards)] {
            assert_eq!(holders.iter().collect::<Vec<_>>(), [(1, &"n1"), (2, &"n2")]);
        }
    }
}

#[test]
fn when_a_key_goes_its_number_is_the_next_ones() {
    let mut holders = all(0..5);
    assert_eq!(holders.remove("n1"), Some(1));
    assert_eq!(holders.get(1), Some(&"n3"));
    assert_eq!(holders.remove("a"), Some(1));
    assert_eq!(holders.get(1), Some(&"n3"), "it did not have it");
    // Made anew, it is the youngest.
    assert!(holders.put("n1", 50, 1, "again").is_err());
    assert_eq!(holders.get(1), Some(&"n3"));
    holders.remove("n3");
    assert_eq!(holders.get(1), Some(&"again"));
    holders.remove("n1");
    assert_eq!(holders.remove("n1"), None);
    assert_eq!(holders.get(1), None);
}

#[test]
fn a_key_that_is_there_gets_no_others_number() {
    let mut holders = all([1, 2, 4]);
    // It is older than the one whose number it says.
    assert!(holders.put("n2", 20, 1, "another").is_err());
    assert_eq!((holders.get(2), holders.get(1)), (Some(&"n2"), Some(&"n3")));
    assert_eq!(holders.put("n2", 20, 2, "renewed"), Ok(()));
    assert_eq!(holders.get(2), Some(&"renewed"));
    // Who had said another's says its own (again).
    assert_eq!(holders.put("n5", 40, 5, "mended"), Ok(()));
    assert_eq!(holders.get(5), Some(&"mended"));
    // Deleted and made anew while nobody watched.
    assert_eq!(holders.put("n2", 60, 7, "another"), Ok(()));
    assert_eq!((holders.get(2), holders.get(7)), (None, Some(&"another")));
    assert_eq!(holders.of("n2"), Some(&"another"));
}
