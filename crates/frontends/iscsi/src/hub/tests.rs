use super::*;
use amita_frontend::FrontId;
use proptest::prelude::*;

fn connection(number: u64) -> ConnectionId {
    ConnectionId {
        core: (number % 3) as u16,
        front: FrontId(number),
    }
}

fn party(initiator: &str, isid: u8, target: &str) -> Party {
    Party {
        target: target.into(),
        initiator: initiator.into(),
        isid: [0, 0, 0, 0, 0, isid],
    }
}

fn proven() -> Holder {
    Holder::Proven("iqn.2026-01.test:h".into())
}

fn all(hub: &mut Hub) -> Vec<(u64, u64, Reply)> {
    std::iter::from_fn(|| hub.next_reply())
        .map(|(to, tag, reply)| (to.front.0, tag, reply))
        .collect()
}

fn enter(hub: &mut Hub, number: u64, party: &Party, holder: Holder) -> Vec<(u64, u64, Reply)> {
    let call = Call::Enter {
        party: Box::new(party.clone()),
        holder,
    };
    hub.call(connection(number), number * 10, call);
    all(hub)
}

#[test]
fn a_session_comes_and_goes() {
    let mut hub = Hub::default();
    let said = enter(&mut hub, 1, &party("a", 1, "t"), proven());
    assert_eq!(said, [(1, 10, Reply::Entered { tsih: 1 })]);
    let said = enter(&mut hub, 2, &party("a", 2, "t"), proven());
    assert_eq!(
        said,
        [(2, 20, Reply::Entered { tsih: 2 })],
        "another port of the same initiator"
    );
    assert_eq!(hub.sessions(), 2);
    hub.call(connection(1), 0, Call::Leave);
    hub.call(connection(2), 0, Call::Leave);
    assert_eq!(
        (hub.sessions(), hub.ports.len(), hub.held.len(), hub.handles.len()),
        (0, 0, 0, 0)
    );
    assert!(all(&mut hub).is_empty());
}

#[test]
fn a_session_that_is_reinstated_ends_before_the_new_one_begins() {
    let mut hub = Hub::default();
    let port = party("a", 1, "t");
    enter(&mut hub, 1, &port, proven());
    assert_eq!(enter(&mut hub, 2, &port, proven()), [(1, 0, Reply::Reinstated)]);
    // A third login takes the second one's place in the line.
    assert_eq!(
        enter(&mut hub, 3, &port, proven()),
        [(2, 20, Reply::Refused(Status::TARGET_ERROR))]
    );
    hub.call(connection(2), 0, Call::Leave);
    assert!(all(&mut hub).is_empty());
    hub.call(connection(1), 0, Call::Leave);
    assert_eq!(all(&mut hub), [(3, 30, Reply::Entered { tsih: 2 })]);
    assert_eq!(hub.sessions(), 1);
    hub.call(connection(3), 0, Call::Leave);
    assert_eq!((hub.sessions(), hub.waiting.len(), hub.held.len()), (0, 0, 0));
}

#[test]
fn who_waited_may_go() {
    let mut hub = Hub::default();
    let port = party("a", 1, "t");
    enter(&mut hub, 1, &port, proven());
    enter(&mut hub, 2, &port, proven());
    hub.call(connection(2), 0, Call::Leave);
    hub.call(connection(1), 0, Call::Leave);
    assert!(all(&mut hub).is_empty());
    assert_eq!((hub.sessions(), hub.waiting.len()), (0, 0));
}

#[test]
fn discovery_sessions_do_not_replace_one_another() {
    let mut hub = Hub::default();
    let port = party("a", 1, "");
    for number in 1..=MAX_DISCOVERIES_OF_HOLDER as u64 {
        let said = enter(&mut hub, number, &port, proven());
        assert!(matches!(said[..], [(_, _, Reply::Entered { .. })]), "{said:?}");
    }
    let said = enter(&mut hub, 1000, &port, proven());
    assert_eq!(said, [(1000, 10_000, Reply::Refused(Status::OUT_OF_RESOURCES))]);
}

#[test]
fn one_address_cannot_have_all_places() {
    let mut hub = Hub::default();
    let stranger = Holder::Unproven([192, 0, 2, 1].into());
    for number in 0..MAX_SESSIONS_OF_HOLDER {
        let said = enter(
            &mut hub,
            number as u64,
            &party("a", number as u8, "t"),
            stranger.clone(),
        );
        assert!(matches!(said[..], [(_, _, Reply::Entered { .. })]), "{said:?}");
    }
    let full = enter(&mut hub, 500, &party("a", 200, "t"), stranger.clone());
    assert_eq!(full, [(500, 5000, Reply::Refused(Status::OUT_OF_RESOURCES))]);
    // Others, and another target, are not concerned.
    assert!(matches!(
        enter(&mut hub, 501, &party("b", 1, "t"), proven())[..],
        [(_, _, Reply::Entered { .. })]
    ));
    assert!(matches!(
        enter(&mut hub, 502, &party("a", 1, "u"), stranger)[..],
        [(_, _, Reply::Entered { .. })]
    ));
}

/// The hosts of an IPv6 network for storage have one prefix: that is no reason to count them as one.
#[test]
fn hosts_of_one_network_are_several() {
    let mut hub = Hub::default();
    // The address that is all zeros behind the prefix is no host's.
    let host = |number: u16| Holder::Unproven([0x2001, 0xdb8, 1, 2, 0, 0, 0, number + 1].into());
    let mut number = 0;
    for _ in 0..MAX_SESSIONS_OF_NETWORK / 8 {
        for isid in 0..8 {
            number += 1;
            let name = format!("h{}", number / 8);
            let said = enter(&mut hub, number, &party(&name, isid, "t"), host((number / 8) as u16));
            assert!(matches!(said[..], [(_, _, Reply::Entered { .. })]), "{said:?}");
        }
    }
    // One that takes address after address does not have all places.
    let said = enter(&mut hub, 5000, &party("h", 9, "t"), host(5000));
    assert_eq!(said, [(5000, 50_000, Reply::Refused(Status::OUT_OF_RESOURCES))]);
    let elsewhere = Holder::Unproven([0x2001, 0xdb8, 1, 3, 0, 0, 0, 1].into());
    let said = enter(&mut hub, 5001, &party("h", 9, "t"), elsewhere);
    assert!(matches!(said[..], [(_, _, Reply::Entered { .. })]), "{said:?}");
    for number in (1..=number).chain([5001]) {
        hub.call(connection(number), 0, Call::Leave);
    }
    assert_eq!((hub.sessions(), hub.held.len(), hub.networks.len()), (0, 0, 0));
}

#[test]
fn a_reset_is_over_when_all_have_carried_it_out() {
    let mut hub = Hub::default();
    for number in 1..=4 {
        let target = if number == 4 { "u" } else { "t" };
        enter(&mut hub, number, &party("a", number as u8, target), proven());
    }
    let scope = Scope::Unit(7);
    let counts: Counts = Arc::new([(VolumeId(7), 3)]);
    let call = Call::Reset {
        scope,
        counts: counts.clone(),
    };
    hub.call(connection(1), 99, call.clone());
    let told = all(&mut hub);
    let reset = Reply::Reset {
        ticket: 1,
        scope,
        counts,
    };
    assert_eq!(told.len(), 2);
    for number in [2, 3] {
        assert!(told.contains(&(number, 0, reset.clone())), "{told:?}");
    }
    hub.call(connection(2), 0, Call::Cleared { ticket: 1 });
    assert!(all(&mut hub).is_empty());
    // One that goes has nothing under way either.
    hub.call(connection(3), 0, Call::Leave);
    assert_eq!(all(&mut hub), [(1, 99, Reply::ResetDone)]);
    hub.call(connection(4), 5, call);
    assert_eq!(all(&mut hub), [(4, 5, Reply::ResetDone)], "it is alone");
    assert!(hub.resets.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes in whatever order: at most one session has the two ends, each call to enter is answered once at the most,
    /// and when all have left nothing is kept.
    #[test]
    fn the_register_keeps_its_books(steps in prop::collection::vec((0u8..4, 0u64..6, 0u8..2), 0..80)) {
        let mut hub = Hub::default();
        let mut open = 0usize;
        for (what, number, isid) in steps {
            match what {
                0 | 1 => {
                    let is_known = hub.sessions.contains_key(&connection(number)) || hub.waiting.contains_key(&connection(number));
                    open += usize::from(!is_known);
                    let call = Call::Enter { party: Box::new(party("a", isid, "t")), holder: proven() };
                    hub.call(connection(number), 1, call);
                }
                2 => {
                    open -= usize::from(hub.waiting.contains_key(&connection(number)));
                    hub.call(connection(number), 0, Call::Leave);
                }
                _ => {
                    let counts = Counts::default();
                    hub.call(connection(number), 1, Call::Reset { scope: Scope::Target, counts });
                }
            }
            for (to, _, reply) in all(&mut hub) {
                match reply {
                    Reply::Entered { .. } | Reply::Refused(Status::TARGET_ERROR) => open -= 1,
                    Reply::Reset { ticket, .. } => hub.call(connection(to), 0, Call::Cleared { ticket }),
                    _ => {}
                }
            }
            prop_assert_eq!(open, hub.waiting.len());
            prop_assert_eq!(hub.ports.len(), hub.sessions.len());
        }
        for number in 0..6 {
            hub.call(connection(number), 0, Call::Leave);
            hub.call(connection(number), 0, Call::Leave);
        }
        for number in 0..6 {
            hub.call(connection(number), 0, Call::Leave);
        }
        prop_assert_eq!((hub.sessions.len(), hub.waiting.len(), hub.held.len(), hub.resets.len()), (0, 0, 0, 0));
    }
}
