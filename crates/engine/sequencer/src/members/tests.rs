use super::*;
use crate::table::Key;

#[test]
fn sets_of_members() {
    let mut members = Members::first(3);
    assert_eq!((members.count(), Members::first(8).count()), (3, 8));
    members.remove(Position(1));
    assert_eq!(members.iter().collect::<Vec<_>>(), [Position(0), Position(2)]);
    members.add(Position(7));
    assert!(members.has(Position(7)) && !members.has(Position(1)));
    assert_eq!(
        members.without(Members::one(Position(0))).and(Members::first(3)),
        Members::one(Position(2))
    );
}

#[test]
fn a_store_has_one_seat() {
    let stores = [0, 1, 2, 3].map(StoreSlot::new);
    let mut seats: Seats = stores[..3].iter().copied().collect();
    seats.seat(Position(4), stores[0]);
    assert_eq!((seats.len(), seats.find(stores[0])), (5, Some(Position(4))));
    seats.seat(Position(0), stores[3]);
    assert_eq!(
        (seats.find(stores[3]), seats[Position(1)]),
        (Some(Position(0)), stores[1])
    );
    seats.seat(Position(0), stores[3]);
    assert_eq!(seats.find(stores[3]), Some(Position(0)));
}
