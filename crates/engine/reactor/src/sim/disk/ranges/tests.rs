use super::*;
use proptest::prelude::*;

/// Small enough that everything meets everything.
const BYTES: u64 = 40;

proptest! {
    #[test]
    fn ranges_are_the_set_that_they_say(
        steps in prop::collection::vec((any::<bool>(), 0..BYTES, 0..BYTES), 0..40),
        asked in (0..BYTES, 0..BYTES),
    ) {
        let mut ranges = Ranges::default();
        let mut bytes = [false; BYTES as usize];
        for (insert, one, other) in steps {
            let range = one.min(other)..one.max(other);
            bytes[range.start as usize..range.end as usize].fill(insert);
            if insert {
                ranges.insert(range);
            } else {
                ranges.remove(range);
            }
        }
        let held: Vec<_> = ranges.iter().collect();
        prop_assert!(held.iter().all(|range| range.start < range.end));
        prop_assert!(held.windows(2).all(|pair| pair[0].end < pair[1].start), "{held:?}");
        for (at, inside) in bytes.iter().enumerate() {
            prop_assert_eq!(held.iter().any(|range| range.contains(&(at as u64))), *inside);
        }
        prop_assert_eq!(ranges.is_empty(), bytes == [false; BYTES as usize]);
        let asked = asked.0.min(asked.1)..asked.0.max(asked.1);
        let within = &bytes[asked.start as usize..asked.end as usize];
        prop_assert_eq!(ranges.touches(&asked), within.contains(&true));
        let mut at = asked.start;
        for (part, inside) in ranges.cut(asked.clone()) {
            prop_assert_eq!(part.start, at);
            prop_assert!(part.start < part.end);
            prop_assert!(bytes[part.start as usize..part.end as usize].iter().all(|byte| *byte == inside));
            at = part.end;
        }
        prop_assert_eq!(at, asked.end);
    }
}
