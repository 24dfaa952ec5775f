use super::*;

#[test]
fn counts_add_up_and_what_is_missing_is_named() {
    let mut one = Coverage::new();
    one.hit("a");
    let mut two = Coverage::new();
    two.add("a", 2);
    two.add("b", 0);
    one.merge(&two);
    assert_eq!(one.count("a"), 3);
    assert_eq!(one.missing(&["a", "b", "c"]), ["b", "c"]);
    assert_eq!(one.to_string().lines().count(), 1, "two columns");
}
