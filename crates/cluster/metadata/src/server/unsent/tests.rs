use super::super::shares::{Good, Holder, Shares};
use super::*;
use hyper::body::Body as _;
use std::net::{IpAddr, Ipv4Addr};

const LARGE: usize = 3 * LEAST_TAKEN;

fn holder() -> Arc<Holder> {
    Shares::new().holder(None, IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn sending(holder: &Arc<Holder>, unsent: &Unsent, bytes: usize) -> Sending {
    let held = Held::default();
    held.add(holder.take(Good::Bytes, bytes));
    let place = Arc::new(holder.take(Good::Calls, 1).expect("the first"));
    Sending::new(Body::new("x".repeat(bytes)), held, place, unsent.clone())
}

fn piece(sending: &mut Sending) -> Option<Bytes> {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    match Pin::new(sending).poll_frame(&mut cx) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
        Poll::Ready(None) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_an_answer_holds_is_given_back_when_its_last_piece_has_left() {
    let (holder, unsent) = (holder(), Unsent::default());
    let mut sending = sending(&holder, &unsent, LARGE);
    let mut pieces: Vec<Bytes> = std::iter::from_fn(|| piece(&mut sending)).collect();
    assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
    assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), LARGE);
    // As HTTP/2 does when it has been given all of it, and a part waits for room.
    drop(sending);
    pieces.truncate(1);
    assert_eq!((holder.held(Good::Bytes), holder.held(Good::Calls)), (LARGE, 1));
    assert!((0..=MOST_LOOKS).any(|_| unsent.look()), "and it is seen that it waits");
    pieces.clear();
    assert_eq!((holder.held(Good::Bytes), holder.held(Good::Calls)), (0, 0));
    assert!(!unsent.look());
}

#[test]
fn who_takes_nothing_or_next_to_nothing_is_given_up_and_who_is_slow_is_not() {
    let holder = holder();
    for (each_look, given_up) in [(0, true), (1, true), (LEAST_TAKEN / PIECE_BYTES / 4 + 1, false)] {
        let unsent = Unsent::default();
        let mut sending = sending(&holder, &unsent, LARGE);
        piece(&mut sending).expect("the first");
        let left = (0..=2 * MOST_LOOKS).any(|_| {
            for _ in 0..each_look {
                piece(&mut sending).expect("more");
            }
            unsent.look()
        });
        assert_eq!(left, given_up, "{each_look} pieces a look");
    }
}
