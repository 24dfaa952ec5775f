use super::*;

#[test]
fn a_tag_finds_its_slot_until_it_is_freed() {
    let mut slots: Slots<u32> = Slots::new(2);
    let (first, value) = slots.take().unwrap();
    *value = 7;
    let tag = slots.tag(first, MAX_PIECE);
    assert_eq!(slots.find(tag), Some((first, MAX_PIECE)));
    let (second, _) = slots.take().unwrap();
    assert!(slots.is_full());
    assert!(slots.take().is_none());
    assert_ne!(slots.tag(second, 0), slots.tag(first, 0));
    slots.free(first);
    assert_eq!(slots.find(tag), None, "the slot is free");
    let (again, value) = slots.take().unwrap();
    assert_eq!((again, *value), (first, 7), "the value and its memory stay");
    assert_eq!(slots.find(tag), None, "an old tag does not find the new user");
    assert_eq!(slots.find(u64::MAX), None);
    assert_eq!(slots.len(), 2);
}

#[test]
#[should_panic(expected = "freed twice")]
fn freeing_twice_is_caught() {
    let mut slots: Slots<u32> = Slots::new(2);
    let (id, _) = slots.take().unwrap();
    slots.free(id);
    slots.free(id);
}

#[test]
fn generations_wrap_without_spilling_into_other_bits() {
    let mut slots: Slots<u32> = Slots::new(1);
    let (id, _) = slots.take().unwrap();
    slots.slots[0].generation = GENERATION_MASK;
    let old = slots.tag(id, 1);
    assert_eq!(slots.find(old), Some((id, 1)));
    slots.free(id);
    let (id, _) = slots.take().unwrap();
    assert_eq!(slots.find(old), None);
    assert_eq!(slots.tag(id, 5), 5);
}
