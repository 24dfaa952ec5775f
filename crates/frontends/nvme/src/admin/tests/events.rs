use super::layout::reservation_notification;
use super::logs::log;
use super::*;
use crate::reservations::host_key;
use amita_frontend::reservation::{Kind as Reservation, State};

const REQUEST: u8 = 0x0c;
const NAMESPACES: u32 = 0x04_00_02;
const ANA: u32 = 0x0c_03_02;
const RESERVATION: u32 = 0x80_00_06;
const RETAIN: u32 = 1 << 15;

fn numbered(id: u16) -> Command {
    let mut request = command(REQUEST, 0, &[]);
    request.0[2..4].copy_from_slice(&id.to_le_bytes());
    request
}

/// The host asks for an event.
fn ask(admin: &mut Admin, id: u16) {
    assert_eq!(turn(admin, &numbered(id), &[]), Turn::Later);
}

/// The events that are told now: the request that ends, and dword 0.
fn told(admin: &mut Admin) -> Vec<(u16, u32)> {
    let mut events = Vec::new();
    while let Some((id, reply)) = admin.take_event() {
        assert_eq!(reply.status, Status::SUCCESS);
        assert!(reply.data.is_empty());
        events.push((id, u32::try_from(reply.result).unwrap()));
    }
    events
}

fn changed_namespaces(admin: &mut Admin) -> Vec<u32> {
    let page = data(admin, &log(4, u32::MAX, 4096, 0));
    page.chunks(4)
        .map(|entry| u32_at(entry, 0))
        .take_while(|nsid| *nsid != 0)
        .collect()
}

fn grown(by: u64) -> Arc<Catalog> {
    changed(&catalog(), |subsystem| {
        subsystem.namespaces[0] = Arc::new(Namespace {
            size_bytes: (1 << 30) + by,
            ..namespace(1)
        });
    })
}

fn moved(ana: Ana) -> Arc<Catalog> {
    changed(&catalog(), |subsystem| {
        subsystem.ana_changes += 1;
        subsystem.namespaces[0] = Arc::new(Namespace { ana, ..namespace(1) });
    })
}

#[test]
fn namespaces_that_grow_come_and_go() {
    let mut admin = ready(Kind::Io);
    ask(&mut admin, 1);
    ask(&mut admin, 2);
    assert_eq!(told(&mut admin), []);
    admin.settings(&grown(4096));
    assert_eq!(told(&mut admin), [(1, NAMESPACES)]);

    // Until the host has read which, it is not told again, and misses nothing.
    admin.settings(&changed(&catalog(), |subsystem| {
        subsystem.namespaces = [namespace(2), namespace(5), namespace(9)].map(Arc::new).into();
    }));
    assert_eq!(told(&mut admin), []);
    assert_eq!(changed_namespaces(&mut admin), [1, 9]);
    assert_eq!(changed_namespaces(&mut admin), [0; 0]);
    assert_eq!(told(&mut admin), [], "it has read all that there was");

    admin.settings(&Arc::new(catalog()));
    assert_eq!(told(&mut admin), [(2, NAMESPACES)]);
    assert_eq!(changed_namespaces(&mut admin), [1, 9]);
}

#[test]
fn what_does_not_concern_the_host_is_not_told() {
    let mut admin = ready(Kind::Io);
    ask(&mut admin, 1);
    admin.settings(&changed(&catalog(), |subsystem| {
        subsystem.hosts.push(access("nqn.2026-01.io.other", false));
        subsystem.namespaces[0] = Arc::new(Namespace {
            name: "renamed".into(),
            ..namespace(1)
        });
    }));
    assert_eq!(told(&mut admin), []);
    assert_eq!(changed_namespaces(&mut admin), [0; 0]);
}

#[test]
fn ana_changes_are_told_until_read() {
    let mut admin = ready(Kind::Io);
    (1..=3).for_each(|id| ask(&mut admin, id));
    admin.settings(&moved(Ana::Change));
    assert_eq!(told(&mut admin), [(1, ANA)]);
    admin.settings(&moved(Ana::NonOptimized));
    assert_eq!(told(&mut admin), []);
    let read = log(0x0c, u32::MAX, 4096, 0);
    let mut retained = read;
    retained.0[41] |= (RETAIN >> 8) as u8;
    data(&mut admin, &retained);
    assert_eq!(told(&mut admin), [], "the event is retained");
    data(&mut admin, &read);
    assert_eq!(told(&mut admin), [(2, ANA)], "what has happened since");
    data(&mut admin, &read);
    assert_eq!(told(&mut admin), []);
    assert_eq!(
        changed_namespaces(&mut admin),
        [0; 0],
        "a change of the path is none of the namespace"
    );
}

#[test]
fn one_kind_of_event_does_not_hide_another() {
    let mut admin = ready(Kind::Io);
    ask(&mut admin, 1);
    ask(&mut admin, 2);
    admin.settings(&grown(4096));
    admin.settings(&changed(&grown(4096), |subsystem| {
        subsystem.namespaces[2] = Arc::new(Namespace {
            ana: Ana::Change,
            ..namespace(5)
        });
    }));
    assert_eq!(told(&mut admin), [(1, NAMESPACES), (2, ANA)]);
}

#[test]
fn what_happened_before_the_request_is_told_to_it() {
    let mut admin = ready(Kind::Io);
    admin.settings(&grown(4096));
    assert_eq!(told(&mut admin), []);
    ask(&mut admin, 7);
    assert_eq!(told(&mut admin), [(7, NAMESPACES)]);
}

#[test]
fn a_host_hears_what_it_wants() {
    let mut admin = ready(Kind::Io);
    ask(&mut admin, 1);
    let set = |admin: &mut Admin, wanted| {
        let set = command(0x09, 0, &[(10, 0x0b), (11, wanted)]);
        assert_eq!(reply(admin, &set).status, Status::SUCCESS);
    };
    set(&mut admin, 1 << 11);
    admin.settings(&grown(4096));
    assert_eq!(told(&mut admin), []);
    set(&mut admin, 1 << 11 | 1 << 8);
    assert_eq!(told(&mut admin), [], "what happened before is not told");
    admin.settings(&grown(8192));
    assert_eq!(told(&mut admin), [(1, NAMESPACES)]);
    ask(&mut admin, 2);
    admin.settings(&moved(Ana::Inaccessible));
    assert_eq!(told(&mut admin), [(2, ANA)]);
}

#[test]
fn four_requests_may_wait() {
    let mut admin = ready(Kind::Io);
    (1..=4).for_each(|id| ask(&mut admin, id));
    assert_eq!(failure(&mut admin, &numbered(5)), 0x105);
    admin.settings(&grown(4096));
    assert_eq!(told(&mut admin).len(), 1);
    ask(&mut admin, 5);
}

#[test]
fn a_request_can_be_aborted() {
    let mut admin = ready(Kind::Io);
    (1..=2).for_each(|id| ask(&mut admin, id));
    let abort = |queue: u32, id: u32| command(0x08, 0, &[(10, queue | id << 16)]);
    assert_eq!(reply(&mut admin, &abort(0, 2)).result, 0, "it was aborted");
    let (id, ended) = admin.take_event().unwrap();
    assert_eq!((id, ended.status), (2, Status::new(0, 7, false)));
    for command in [abort(0, 2), abort(0, 99), abort(1, 1), abort(0xffff, 0xffff)] {
        let reply = reply(&mut admin, &command);
        assert_eq!(
            (reply.status, reply.result),
            (Status::SUCCESS, 1),
            "nothing was aborted"
        );
    }
    assert!(admin.take_event().is_none());
    admin.settings(&grown(4096));
    assert_eq!(told(&mut admin), [(1, NAMESPACES)]);
}

#[test]
fn requests_end_with_the_controller() {
    for cc in [0, ENABLE | 1 << 14] {
        let mut admin = ready(Kind::Io);
        ask(&mut admin, 1);
        ask(&mut admin, 2);
        admin.property_set(NOW, 0x14, 4, cc).unwrap();
        for id in [1, 2] {
            let (ended, reply) = admin.take_event().unwrap();
            assert_eq!(
                (ended, reply.status),
                (id, Status::new(0, 8, false)),
                "the queue was deleted"
            );
        }
        assert!(admin.take_event().is_none());
    }
}

#[test]
fn a_reset_forgets_what_has_happened() {
    let mut admin = ready(Kind::Io);
    admin.settings(&grown(4096));
    admin.property_set(NOW, 0x14, 4, 0).unwrap();
    admin.property_set(NOW, 0x14, 4, ENABLE).unwrap();
    ask(&mut admin, 1);
    assert_eq!(told(&mut admin), []);
    assert_eq!(changed_namespaces(&mut admin), [0; 0]);
}

/// A reservation that this host and two others are registered at.
fn registered() -> State {
    let mut state = State::default();
    for (host, key) in [(HOST_ID, 1), ([2; 16], 2), ([3; 16], 3)] {
        let register = reservation::Command::Register {
            host_id: host,
            key,
            ignore_key: false,
            persist: None,
        };
        state.apply(host_key(HOST, &host), &register).unwrap();
    }
    state
}

/// The reservation of a namespace's volume is so now.
fn reserved(admin: &mut Admin, nsid: u32, state: &State) {
    let mut catalog = Catalog::clone(&admin.scope.catalog);
    catalog
        .reservations
        .insert(VolumeId(100 + u64::from(nsid)), Arc::new(state.clone()));
    catalog.revision += 1;
    admin.settings(&Arc::new(catalog));
}

fn preempted(mut state: State) -> State {
    let preempt = reservation::Command::Preempt {
        key: 2,
        victim: 1,
        kind: Reservation::WriteExclusive,
        abort: false,
    };
    state.apply(host_key(HOST, &[2; 16]), &preempt).unwrap();
    state
}

#[test]
fn a_host_hears_of_its_lost_reservation() {
    let mut admin = ready(Kind::Io);
    (1..=3).for_each(|id| ask(&mut admin, id));
    let read = log(0x80, 0, 64, 0);
    let layout = reservation_notification();
    assert_eq!(data(&mut admin, &read), [0; 64], "there is none");

    let mut state = registered();
    reserved(&mut admin, 2, &state);
    assert_eq!(told(&mut admin), [], "registrations are no news");
    state = preempted(state);
    reserved(&mut admin, 2, &state);
    reserved(&mut admin, 2, &state);
    let mut other = registered();
    reserved(&mut admin, 5, &other);
    other
        .apply(host_key(HOST, &[3; 16]), &reservation::Command::Clear { key: 3 })
        .unwrap();
    reserved(&mut admin, 5, &other);
    assert_eq!(told(&mut admin), [(1, RESERVATION)]);

    let first = data(&mut admin, &read);
    let get = |page: &[u8], name| layout.get(page, name);
    assert_eq!(
        (get(&first, "count"), get(&first, "type"), get(&first, "nsid")),
        (1, 1, 2),
        "registration preempted"
    );
    assert_eq!(get(&first, "available"), 1, "one more");
    assert_eq!(told(&mut admin), [(2, RESERVATION)]);
    let second = data(&mut admin, &read);
    assert_eq!(
        (get(&second, "count"), get(&second, "type"), get(&second, "nsid")),
        (2, 3, 5),
        "reservation preempted"
    );
    assert_eq!(get(&second, "available"), 0);
    assert_eq!(told(&mut admin), []);
    assert_eq!(data(&mut admin, &read), [0; 64]);
    layout.assert_only(&second, &["count", "type", "nsid"]);
}

#[test]
fn a_notification_that_is_retained_stays() {
    let mut admin = ready(Kind::Io);
    ask(&mut admin, 1);
    reserved(&mut admin, 1, &registered());
    reserved(&mut admin, 1, &preempted(registered()));
    let read = log(0x80, 0, 64, 0);
    let mut retained = read;
    retained.0[41] |= (RETAIN >> 8) as u8;
    let page = data(&mut admin, &retained);
    assert_eq!(data(&mut admin, &read), page);
    assert_eq!(data(&mut admin, &read), [0; 64]);
}

#[test]
fn masked_notifications_are_not_kept() {
    let mut admin = ready(Kind::Io);
    ask(&mut admin, 1);
    let mask = command(0x09, 2, &[(10, 0x82), (11, 1 << 1)]);
    assert_eq!(reply(&mut admin, &mask).status, Status::SUCCESS);
    for nsid in [2, 5] {
        reserved(&mut admin, nsid, &registered());
        reserved(&mut admin, nsid, &preempted(registered()));
    }
    assert_eq!(told(&mut admin), [(1, RESERVATION)]);
    let page = data(&mut admin, &log(0x80, 0, 64, 0));
    assert_eq!(reservation_notification().get(&page, "nsid"), 5);
    assert_eq!(reservation_notification().get(&page, "available"), 0);
}

#[test]
fn notifications_go_with_their_namespace_and_the_oldest_when_there_are_many() {
    let mut admin = ready(Kind::Io);
    let read = log(0x80, 0, 64, 0);
    let mut state = registered();
    reserved(&mut admin, 1, &state);
    for _ in 0..70 {
        state = preempted(state);
        reserved(&mut admin, 1, &state);
        let again = reservation::Command::Register {
            host_id: HOST_ID,
            key: 1,
            ignore_key: false,
            persist: None,
        };
        state.apply(host_key(HOST, &HOST_ID), &again).unwrap();
    }
    let page = data(&mut admin, &read);
    let layout = reservation_notification();
    assert_eq!(layout.get(&page, "count"), 7, "six were lost, and the count shows it");
    assert_eq!(layout.get(&page, "available"), 63);
    admin.settings(&changed(&catalog(), |subsystem| drop(subsystem.namespaces.remove(0))));
    assert_eq!(data(&mut admin, &read), [0; 64]);
    reserved(&mut admin, 1, &state);
    reserved(&mut admin, 1, &preempted(state));
    assert_eq!(data(&mut admin, &read), [0; 64], "the namespace is gone");
}

#[test]
fn what_was_so_before_the_host_came_is_no_news() {
    let mut catalog = catalog();
    catalog
        .reservations
        .insert(VolumeId(101), Arc::new(preempted(registered())));
    let mut admin = ready_with(session(Kind::Io), &Arc::new(catalog.clone()));
    ask(&mut admin, 1);
    catalog.revision += 1;
    admin.settings(&Arc::new(catalog.clone()));
    // Another volume under the number of one that was known.
    let mut catalog = Catalog::clone(&changed(&catalog, |subsystem| {
        subsystem.namespaces[1] = Arc::new(Namespace {
            volume: VolumeId(999),
            ..namespace(2)
        });
    }));
    catalog
        .reservations
        .insert(VolumeId(999), Arc::new(preempted(registered())));
    admin.settings(&Arc::new(catalog.clone()));
    assert_eq!(told(&mut admin), [(1, NAMESPACES)]);
    ask(&mut admin, 2);
    // The record was removed, and made anew.
    catalog.reservations.clear();
    admin.settings(&Arc::new(catalog.clone()));
    catalog
        .reservations
        .insert(VolumeId(101), Arc::new(preempted(registered())));
    admin.settings(&Arc::new(catalog));
    assert_eq!(told(&mut admin), [(2, RESERVATION)]);
}
