use super::*;

#[test]
fn numbers_of_watches_that_a_peer_wishes_leave_room_for_the_next() {
    let mut next = 0;
    let taken = [1, i64::MAX, i64::MAX - 1];
    let mut give = |wished| watch_id(wished, &mut next, |id| taken.contains(&id));
    assert_eq!(give(i64::MAX), i64::MAX);
    assert_eq!((give(0), give(-1), give(i64::MIN)), (0, 2, 3), "1 is taken");
    assert_eq!(give(7), 7);
    assert_eq!(give(0), 4);
}
