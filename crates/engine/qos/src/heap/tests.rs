use super::Heap;
use amita_testkit::Random;
use std::collections::BTreeSet;

/// Beside a sorted set, whatever is put in, changed and taken out.
#[test]
fn it_is_a_sorted_set() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let (mut heap, mut model) = (Heap::default(), BTreeSet::new());
        let mut keys = [None; 40];
        for _ in 0..2000 {
            let number = random.below(40) as u32;
            let known = &mut keys[number as usize];
            if random.percent(60) {
                let key = u128::from(random.below(30)) << 64;
                if let Some(old) = known.replace(key) {
                    model.remove(&(old, number));
                }
                model.insert((key, number));
                heap.set(number, key);
            } else if random.percent(50) {
                if let Some(old) = known.take() {
                    model.remove(&(old, number));
                }
                heap.remove(number);
            } else {
                let top = model.pop_first();
                if let Some((_, number)) = top {
                    keys[number as usize] = None;
                }
                assert_eq!(heap.peek(), top, "seed {seed}");
                heap.remove(top.map_or(0, |(_, number)| number));
            }
            assert_eq!(heap.peek(), model.first().copied(), "seed {seed}");
            assert_eq!(heap.len(), model.len(), "seed {seed}");
            assert!((0..40).all(|number| heap.contains(number) == keys[number as usize].is_some()));
        }
    }
}
