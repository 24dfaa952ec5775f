use super::*;

#[test]
fn a_handle_finds_what_it_names_until_that_is_taken() {
    let mut places = Places::new(Kind::Volume, false);
    let (one, two) = (places.insert("one"), places.insert("two"));
    assert_ne!(one, two);
    assert_eq!(places.get(one), Some(&mut "one"));
    assert_eq!(places.take(one), Some("one"));
    assert_eq!(places.get(one), None);
    assert_eq!(places.take(one), None);
    // Its place is given again, and the old handle does not find what is there now.
    let three = places.insert("three");
    assert_eq!((three.index(), three == one), (one.index(), false));
    assert_eq!(places.get(one), None);
    assert_eq!(places.get(three), Some(&mut "three"));
    assert_eq!(places.select(|text| text.starts_with('t')).len(), 2);
}

#[test]
fn what_is_no_handle_finds_nothing() {
    let mut places = Places::new(Kind::Volume, false);
    let good = places.insert(());
    let other = Handle::new(Kind::Queue, false, good.generation(), good.index());
    let inline = Handle::new(Kind::Volume, true, good.generation(), good.index());
    let far = Handle::new(Kind::Volume, false, 0, 1000);
    let local = 0_u64;
    let pointer = Handle((&raw const local).addr());
    for bad in [Handle::NULL, other, inline, far, pointer] {
        assert_eq!(places.get(bad), None, "{bad:?}");
    }
    assert_eq!(good.of_kind(Kind::Queue), other);
    assert!(good.is(Kind::Volume) && !good.is(Kind::Client));
}
