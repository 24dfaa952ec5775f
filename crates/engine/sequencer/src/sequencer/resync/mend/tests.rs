use super::*;
use amita_types::Generation;

#[test]
fn what_may_not_have_been_acknowledged_is_compared() {
    let version = |generation, counter| Version::new(Generation(generation), counter).expect("in range");
    assert_eq!(common(version(5, 1000)), version(5, 1000 - 64));
    assert_eq!(common(version(5, 3)), version(5, 0));
    assert_eq!(common(Version::NONE), Version::NONE);
}
