use super::*;
use amita_identity::Role;
use std::future::Future;
use std::net::Ipv4Addr;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn peer(name: &str) -> Peer {
    Peer {
        name: name.to_owned(),
        role: Role::Node,
        operator_role: None,
    }
}

#[test]
fn one_holder_gets_its_part_and_gives_it_back() {
    let shares = Shares::new();
    let (one, same) = (
        shares.holder(Some(&peer("a")), HERE),
        shares.holder(Some(&peer("a")), HERE),
    );
    let own = Good::Watches.limits().identity;
    let mut held: Vec<Share> = (0..own)
        .map(|_| one.take(Good::Watches, 1).expect("its part"))
        .collect();
    assert!(same.take(Good::Watches, 1).is_none(), "over all of its connections");
    let other = shares.holder(Some(&peer("b")), HERE);
    assert!(other.take(Good::Watches, 1).is_some(), "others have theirs");
    held.pop();
    assert!(same.take(Good::Watches, 1).is_some());
    drop((held, one, same, other));
    assert_eq!(shares.0.taken[Good::Watches as usize].load(Ordering::Relaxed), 0);
}

fn viewer(name: &str) -> Peer {
    Peer {
        role: Role::Operator,
        operator_role: Some(amita_identity::OperatorRole::Viewer),
        ..peer(name)
    }
}

#[test]
fn those_who_only_read_leave_a_part_of_everything_however_many_names_they_have() {
    let shares = Shares::new();
    let viewers: Vec<_> = (0..64)
        .map(|n| shares.holder(Some(&viewer(&format!("v{n}"))), HERE))
        .collect();
    let node = shares.holder(Some(&peer("a")), HERE);
    for good in [
        Good::Connections,
        Good::Calls,
        Good::Streams,
        Good::Renewals,
        Good::Watches,
    ] {
        let take = |holder: &Arc<Holder>| std::iter::from_fn(|| holder.take(good, 1)).collect::<Vec<Share>>();
        let held: Vec<_> = viewers.iter().flat_map(take).collect();
        assert_eq!(held.len(), good.limits().readers, "{good:?}");
        assert_eq!(take(&node).len(), good.limits().identity, "{good:?}");
    }
    // As large as there are, and as many.
    let large = |holder: &Arc<Holder>| holder.take(Good::Bytes, 64 * MIB);
    let held: Vec<_> = viewers.iter().filter_map(large).collect();
    assert!(large(&viewers[0]).is_none());
    assert!(
        viewers[9].take(Good::Bytes, SMALL_BYTES).is_some(),
        "small ones have room"
    );
    let most = Good::Bytes.limits().identity;
    assert!(node.take(Good::Bytes, most).is_some());
    drop(held);
    let left = [&shares.0.taken, &shares.0.readers];
    assert!(
        left.iter()
            .all(|counts| counts.iter().all(|count| count.load(Ordering::Relaxed) == 0))
    );
}

#[test]
fn those_who_only_read_leave_places_among_the_requests() {
    let shares = Shares::new();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut place = |holder: &Holder| match std::pin::pin!(holder.place()).poll(&mut cx) {
        std::task::Poll::Ready(place) => Some(place),
        std::task::Poll::Pending => None,
    };
    let mut held = Vec::new();
    for number in 0..16 {
        let viewer = shares.holder(Some(&viewer(&number.to_string())), HERE);
        held.extend(std::iter::from_fn(|| place(&viewer)));
    }
    assert_eq!(held.len(), REQUESTS_OF_READERS);
    let node = shares.holder(Some(&peer("a")), HERE);
    held.extend(std::iter::from_fn(|| place(&node)));
    assert_eq!(held.len(), REQUESTS_OF_READERS + REQUESTS_OF_IDENTITY);
    let late = shares.holder(Some(&viewer("late")), HERE);
    assert!(place(&late).is_none());
    held.clear();
    assert!(place(&late).is_some(), "who gave up waiting keeps nothing");
}

#[test]
fn large_answers_leave_room_for_small_ones() {
    let shares = Shares::new();
    let holders: Vec<_> = (0..4)
        .map(|n| shares.holder(Some(&peer(&n.to_string())), HERE))
        .collect();
    let most = Good::Bytes.limits().identity;
    let held: Vec<_> = holders
        .iter()
        .filter_map(|holder| holder.take(Good::Bytes, most))
        .collect();
    assert_eq!(held.len(), 2);
    assert!(holders[3].take(Good::Bytes, SMALL_BYTES + 1).is_none());
    assert!(holders[3].take(Good::Bytes, SMALL_BYTES).is_some());
    assert!(holders[0].take(Good::Bytes, 1).is_none(), "it has its part");
    assert!(holders[3].take(Good::Bytes, usize::MAX).is_none());
}

#[test]
fn streams_of_watches_leave_renewals_alone() {
    let shares = Shares::new();
    let node = shares.holder(Some(&peer("a")), HERE);
    let take = |good| std::iter::from_fn(|| node.take(good, 1)).collect::<Vec<Share>>();
    let watched = take(Good::Streams);
    assert_eq!(watched.len(), Good::Streams.limits().identity);
    // One for each of its connections.
    assert_eq!(take(Good::Renewals).len(), Good::Connections.limits().identity);
}

/// An operator who may only read from now on has connections that are older.
#[test]
fn who_may_only_read_is_told_by_each_connection() {
    let shares = Shares::new();
    let before = shares.holder(
        Some(&Peer {
            operator_role: Some(amita_identity::OperatorRole::Operator),
            ..viewer("bob")
        }),
        HERE,
    );
    let own = Good::Watches.limits().identity;
    let held: Vec<Share> = (1..own)
        .map(|_| before.take(Good::Watches, 1).expect("its part"))
        .collect();
    let after = shares.holder(Some(&viewer("bob")), HERE);
    assert!(!before.only_reads() && after.only_reads());
    let last = after.take(Good::Watches, 1).expect("the last of its part");
    assert!(
        after.take(Good::Watches, 1).is_none() && before.take(Good::Watches, 1).is_none(),
        "one name has one part"
    );
    let readers = || shares.0.readers[Good::Watches as usize].load(Ordering::Relaxed);
    assert_eq!(readers(), 1);
    drop(last);
    assert_eq!(readers(), 0);
    drop((held, before, after));
    assert_eq!(shares.0.taken[Good::Watches as usize].load(Ordering::Relaxed), 0);
}
