mod extended;
mod lock;
mod model;
mod several;

use super::*;
use crate::service::FrontId;

/// Hosts a, b, c, ... by number.
fn id(host: u8) -> [u8; 16] {
    [host; 16]
}

fn key_of(host_id: &[u8; 16]) -> HostKey {
    HostKey(u128::from_le_bytes(*host_id) + 1)
}

fn key(host: u8) -> HostKey {
    key_of(&id(host))
}

fn register(host: u8, key: u64) -> Command {
    Command::Register {
        host_id: id(host),
        key,
        ignore_key: false,
        persist: None,
    }
}

fn preempt(key: u64, victim: u64, kind: Kind) -> Command {
    Command::Preempt {
        key,
        victim,
        kind,
        abort: false,
    }
}

/// Hosts 1 to `count` are registered, with their number as the key.
fn registered(count: u8) -> State {
    let mut state = State::default();
    for host in 1..=count {
        state.apply(key(host), &register(host, host.into())).unwrap();
    }
    state
}

/// Host 1 of three holds it.
fn held(kind: Kind) -> State {
    let mut state = registered(3);
    state.apply(key(1), &Command::Acquire { key: 1, kind }).unwrap();
    state
}

fn notices(state: &State, host: u8) -> Vec<Notice> {
    state.notices_after(0, key(host)).collect()
}

/// The figure "Command Behavior in the Presence of a Reservation": may the holder, a registrant, another host read and
/// write?
#[test]
fn who_may_read_and_write() {
    let table = [
        // Type: the holder's reads and writes, a registrant's, another's.
        (Kind::WriteExclusive, "rw", "r-", "r-"),
        (Kind::ExclusiveAccess, "rw", "--", "--"),
        (Kind::WriteExclusiveRegistrants, "rw", "rw", "r-"),
        (Kind::ExclusiveAccessRegistrants, "rw", "rw", "--"),
        (Kind::WriteExclusiveAll, "rw", "rw", "r-"),
        (Kind::ExclusiveAccessAll, "rw", "rw", "--"),
    ];
    for (kind, holder, registrant, other) in table {
        let state = held(kind);
        for (host, expected) in [(1, holder), (2, registrant), (9, other)] {
            let read = if state.allows(key(host), Access::Read) {
                'r'
            } else {
                '-'
            };
            let write = if state.allows(key(host), Access::Write) {
                'w'
            } else {
                '-'
            };
            assert_eq!(format!("{read}{write}"), expected, "{kind:?}, host {host}");
        }
        assert!(!state.allows(HostKey::NONE, Access::Write));
    }
    for access in [Access::Read, Access::Write] {
        assert!(
            registered(1).allows(key(9), access),
            "registrations alone keep nobody out"
        );
    }
}

#[test]
fn registering() {
    let mut state = registered(1);
    assert_eq!(state.generation, 1);
    assert_eq!(state.apply(key(1), &register(1, 1)), Ok(()), "the same key again");
    assert_eq!(state.generation, 2);
    let before = state.clone();
    assert_eq!(
        state.apply(key(1), &register(1, 5)),
        Err(Refusal::Conflict),
        "another key"
    );
    assert_eq!(state.apply(key(2), &register(2, 0)), Err(Refusal::Invalid), "no key");
    assert_eq!(
        state.apply(HostKey::NONE, &register(0, 1)),
        Err(Refusal::Conflict),
        "no host"
    );
    assert_eq!(state, before);
    let ignoring = Command::Register {
        host_id: id(1),
        key: 5,
        ignore_key: true,
        persist: Some(true),
    };
    state.apply(key(1), &ignoring).unwrap();
    assert_eq!(state.registrant(key(1)).unwrap().key, 5);
    assert!(state.persist);
    assert_eq!(state.registrants.len(), 1);
}

#[test]
fn another_host_with_the_same_hash_is_refused() {
    let mut state = registered(1);
    let stranger = |command: fn([u8; 16]) -> Command| command(id(77));
    let commands = [
        stranger(|host_id| Command::Register {
            host_id,
            key: 1,
            ignore_key: true,
            persist: None,
        }),
        stranger(|host_id| Command::Replace {
            host_id,
            key: 1,
            new_key: 2,
            ignore_key: true,
            persist: None,
        }),
    ];
    for command in commands {
        assert_eq!(state.apply(key(1), &command), Err(Refusal::Conflict), "{command:?}");
    }
    assert_eq!(state, registered(1));
}

#[test]
fn replacing_a_key() {
    let replace = |host, key, new_key, ignore_key| Command::Replace {
        host_id: id(host),
        key,
        new_key,
        ignore_key,
        persist: None,
    };
    let mut state = held(Kind::WriteExclusive);
    state.apply(key(1), &replace(1, 1, 11, false)).unwrap();
    assert_eq!(state.registrant(key(1)).unwrap().key, 11);
    assert!(state.is_holder(key(1)), "the reservation stays");
    assert_eq!(state.apply(key(1), &replace(1, 1, 12, false)), Err(Refusal::Conflict));
    state.apply(key(1), &replace(1, 1, 12, true)).unwrap();
    assert_eq!(state.apply(key(1), &replace(1, 12, 0, true)), Err(Refusal::Invalid));
    assert_eq!(state.apply(key(8), &replace(8, 0, 8, false)), Err(Refusal::Conflict));
    state.apply(key(8), &replace(8, 0, 8, true)).unwrap();
    assert_eq!(
        state.registrant(key(8)).unwrap().key,
        8,
        "whether it is registered or not"
    );
}

#[test]
fn only_so_many_register() {
    let mut state = State::default();
    for number in 0..=MAX_REGISTRANTS as u16 {
        let host_id = [&number.to_be_bytes()[..], &[7; 14]].concat().try_into().unwrap();
        let command = Command::Register {
            host_id,
            key: 1,
            ignore_key: false,
            persist: None,
        };
        let expected = if usize::from(number) < MAX_REGISTRANTS {
            Ok(())
        } else {
            Err(Refusal::Full)
        };
        assert_eq!(state.apply(key_of(&host_id), &command), expected, "host {number}");
    }
    assert_eq!(state.registrants.len(), MAX_REGISTRANTS);
}

#[test]
fn unregistering_gives_up_what_is_held() {
    let unregister = |key, ignore_key| Command::Unregister {
        key,
        ignore_key,
        persist: None,
    };
    for kind in Kind::ALL {
        let mut state = held(kind);
        assert_eq!(state.apply(key(1), &unregister(2, false)), Err(Refusal::Conflict));
        assert_eq!(state.apply(key(9), &unregister(9, true)), Err(Refusal::Conflict));
        state.apply(key(1), &unregister(9, true)).unwrap();
        assert_eq!(state.held.is_some(), kind.is_held_by_all(), "{kind:?}");
        let told = matches!(kind, Kind::WriteExclusiveRegistrants | Kind::ExclusiveAccessRegistrants);
        for host in [2, 3] {
            assert_eq!(
                notices(&state, host),
                if told {
                    vec![Notice::ReservationReleased]
                } else {
                    vec![]
                },
                "{kind:?}"
            );
        }
        state.apply(key(2), &unregister(2, false)).unwrap();
        state.apply(key(3), &unregister(3, false)).unwrap();
        assert_eq!(state.held, None, "with the last registrant");
    }
}

#[test]
fn acquiring() {
    for kind in Kind::ALL {
        let mut state = held(kind);
        let generation = state.generation;
        let acquire = |key, kind| Command::Acquire { key, kind };
        assert_eq!(state.apply(key(1), &acquire(1, kind)), Ok(()), "once more");
        let second = if kind.is_held_by_all() {
            Ok(())
        } else {
            Err(Refusal::Conflict)
        };
        assert_eq!(state.apply(key(2), &acquire(2, kind)), second);
        for other in Kind::ALL.into_iter().filter(|other| *other != kind) {
            assert_eq!(state.apply(key(1), &acquire(1, other)), Err(Refusal::Conflict));
        }
        assert_eq!(
            state.apply(key(1), &acquire(2, kind)),
            Err(Refusal::Conflict),
            "a wrong key"
        );
        assert_eq!(
            state.apply(key(9), &acquire(9, kind)),
            Err(Refusal::Conflict),
            "not registered"
        );
        assert_eq!(state.generation, generation, "it does not count");
    }
}

#[test]
fn releasing() {
    for kind in Kind::ALL {
        let mut state = held(kind);
        let release = |key, kind| Command::Release { key, kind };
        let other = Kind::ALL[(kind as usize) % 6];
        assert_eq!(
            state.apply(key(1), &release(1, other)),
            Err(Refusal::Invalid),
            "of another type"
        );
        assert_eq!(state.apply(key(9), &release(9, kind)), Err(Refusal::Conflict));
        if !kind.is_held_by_all() {
            state.apply(key(2), &release(2, other)).unwrap();
            assert!(state.held.is_some(), "it was not that host's");
        }
        state.apply(key(1), &release(1, kind)).unwrap();
        assert_eq!(state.held, None);
        assert_eq!(state.registrants.len(), 3);
        let told = if kind.is_for_registrants() {
            vec![Notice::ReservationReleased]
        } else {
            vec![]
        };
        assert_eq!((notices(&state, 1), notices(&state, 2)), (vec![], told));
        state.apply(key(1), &release(1, kind)).unwrap();
        assert_eq!(state.generation, 3, "it does not count");
    }
}

#[test]
fn clearing() {
    let mut state = held(Kind::ExclusiveAccess);
    assert_eq!(state.apply(key(2), &Command::Clear { key: 1 }), Err(Refusal::Conflict));
    state.apply(key(2), &Command::Clear { key: 2 }).unwrap();
    assert_eq!((state.held, state.registrants.len(), state.generation), (None, 0, 4));
    assert_eq!(notices(&state, 1), [Notice::ReservationPreempted]);
    assert_eq!(notices(&state, 2), []);
    assert_eq!(notices(&state, 3), [Notice::ReservationPreempted]);
}

#[test]
fn taking_the_reservation_over() {
    let mut state = held(Kind::WriteExclusive);
    state.apply(key(2), &preempt(2, 1, Kind::ExclusiveAccess)).unwrap();
    assert!(state.is_holder(key(2)) && state.registrant(key(1)).is_none());
    assert_eq!(state.held.unwrap().kind, Kind::ExclusiveAccess);
    assert_eq!(notices(&state, 1), [Notice::RegistrationPreempted]);
    assert_eq!(notices(&state, 3), [Notice::ReservationReleased], "the type is another");
    assert!(!state.allows(key(1), Access::Write));
}

/// What fences a failed member of a cluster out: the holder removes another's registration, and keeps the reservation.
#[test]
fn the_holder_fences_another_registrant() {
    let mut state = held(Kind::WriteExclusiveRegistrants);
    assert!(state.allows(key(3), Access::Write));
    state
        .apply(key(1), &preempt(1, 3, Kind::WriteExclusiveRegistrants))
        .unwrap();
    assert!(!state.allows(key(3), Access::Write));
    assert!(state.is_holder(key(1)) && state.allows(key(2), Access::Write));
    assert_eq!(notices(&state, 3), [Notice::RegistrationPreempted]);
    assert_eq!(notices(&state, 2), []);
}

#[test]
fn the_holder_changes_the_type() {
    let mut state = held(Kind::WriteExclusive);
    state.apply(key(1), &preempt(1, 1, Kind::ExclusiveAccessAll)).unwrap();
    assert_eq!(state.held.unwrap().kind, Kind::ExclusiveAccessAll);
    assert_eq!(state.registrants.len(), 3);
    assert_eq!(notices(&state, 2), [Notice::ReservationReleased]);
}

#[test]
fn where_all_hold_it_all_others_can_be_preempted() {
    let mut state = held(Kind::WriteExclusiveAll);
    state.apply(key(2), &preempt(2, 0, Kind::WriteExclusive)).unwrap();
    assert_eq!(state.registrants.len(), 1);
    assert!(state.is_holder(key(2)));
    for host in [1, 3] {
        assert_eq!(notices(&state, host), [Notice::RegistrationPreempted]);
    }
    let mut state = held(Kind::WriteExclusiveAll);
    state.apply(key(2), &preempt(2, 3, Kind::WriteExclusive)).unwrap();
    assert_eq!(
        state.held.unwrap().kind,
        Kind::WriteExclusiveAll,
        "only a registration was removed"
    );
    assert_eq!(state.registrants.len(), 2);
}

#[test]
fn preempting_nobody() {
    let mut state = held(Kind::WriteExclusive);
    let before = state.clone();
    assert_eq!(
        state.apply(key(2), &preempt(2, 99, Kind::WriteExclusive)),
        Err(Refusal::Conflict)
    );
    assert_eq!(
        state.apply(key(2), &preempt(2, 0, Kind::WriteExclusive)),
        Err(Refusal::Invalid)
    );
    assert_eq!(
        state.apply(key(9), &preempt(9, 1, Kind::WriteExclusive)),
        Err(Refusal::Conflict)
    );
    assert_eq!(
        state.apply(key(2), &preempt(3, 1, Kind::WriteExclusive)),
        Err(Refusal::Conflict)
    );
    assert_eq!(state, before);
    let mut free = registered(2);
    assert_eq!(
        free.apply(key(1), &preempt(1, 0, Kind::WriteExclusive)),
        Err(Refusal::Conflict)
    );
    free.apply(key(1), &preempt(1, 2, Kind::WriteExclusive)).unwrap();
    assert_eq!(
        (free.held, free.registrants.len()),
        (None, 1),
        "nothing is reserved by that"
    );
    free.apply(key(1), &preempt(1, 1, Kind::WriteExclusive)).unwrap();
    assert_eq!(free.registrants.len(), 0, "its own registration");
    assert_eq!(notices(&free, 1), []);
}

#[test]
fn old_notices_are_forgotten_and_new_ones_found() {
    let mut state = registered(2);
    for round in 0..40 {
        let seen = state.last_notice;
        state.apply(key(1), &preempt(1, 2, Kind::WriteExclusive)).unwrap();
        assert_eq!(state.notices_after(seen, key(2)).count(), 1, "round {round}");
        assert_eq!(state.notices_after(seen, key(1)).count(), 0);
        state.apply(key(2), &register(2, 2)).unwrap();
    }
    assert_eq!(state.notices.len(), MAX_NOTICES);
    assert_eq!(state.last_notice, 40);
}

#[test]
fn a_state_is_kept_as_json() {
    let mut state = held(Kind::WriteExclusiveRegistrants);
    state.apply(key(1), &preempt(1, 3, Kind::WriteExclusive)).unwrap();
    state.apply(key(1), &Command::Persist(true)).unwrap();
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
    assert_eq!(serde_json::from_str::<State>("{}").unwrap(), State::default());
    assert!(State::default().is_empty() && !state.is_empty());
    let command = preempt(1, 2, Kind::ExclusiveAccessAll);
    let text = serde_json::to_string(&command).unwrap();
    assert_eq!(serde_json::from_str::<Command>(&text).unwrap(), command);
}

/// The metadata has the keys of hosts: in full, as text.
#[test]
fn keys_of_hosts_are_kept_in_full() {
    let key = HostKey(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
    let text = serde_json::to_string(&key).unwrap();
    assert_eq!(text, "\"0102030405060708090a0b0c0d0e0f10\"");
    assert_eq!(serde_json::from_str::<HostKey>(&text).unwrap(), key);
    for wrong in [
        "7",
        "\"7\"",
        "\"\"",
        "\"+102030405060708090a0b0c0d0e0f10\"",
        "\"g102030405060708090a0b0c0d0e0f10\"",
    ] {
        assert!(serde_json::from_str::<HostKey>(wrong).is_err(), "{wrong}");
    }
}

/// A host of another name is another host, though it says the identifier of one that is registered.
#[test]
fn an_identifier_is_of_the_host_that_registered_it() {
    let mut state = State::default();
    let (first, second) = (key(1), HostKey(99));
    state.apply(first, &register(1, 5)).unwrap();
    state
        .apply(
            first,
            &Command::Acquire {
                key: 5,
                kind: Kind::WriteExclusive,
            },
        )
        .unwrap();
    for command in [
        register(1, 5),
        Command::Register {
            host_id: id(1),
            key: 5,
            ignore_key: true,
            persist: None,
        },
        Command::Replace {
            host_id: id(1),
            key: 5,
            new_key: 6,
            ignore_key: true,
            persist: None,
        },
        Command::Unregister {
            key: 5,
            ignore_key: true,
            persist: None,
        },
        Command::Release {
            key: 5,
            kind: Kind::WriteExclusive,
        },
        Command::Clear { key: 5 },
    ] {
        let before = state.clone();
        assert_eq!(state.apply(second, &command), Err(Refusal::Conflict), "{command:?}");
        assert_eq!(state, before);
    }
    assert!(state.allows(first, Access::Write) && !state.allows(second, Access::Write));
    // By an identifier of its own it may.
    state.apply(second, &register(2, 5)).unwrap();
    assert!(!state.allows(second, Access::Write));
}

/// Anybody who can write the metadata may have written it.
#[test]
fn a_state_that_contradicts_itself_is_not_read() {
    let mut state = registered(3);
    let kind = Kind::WriteExclusive;
    state.apply(key(1), &Command::Acquire { key: 1, kind }).unwrap();
    let text = serde_json::to_value(&state).unwrap();
    assert_eq!(serde_json::from_value::<State>(text.clone()).unwrap(), state);
    let stranger = serde_json::to_value(key(9)).unwrap();
    let (held, registrants) = (&text["held"], &text["registrants"]);
    for (field, value) in [
        ("registrants", serde_json::json!([])),
        ("registrants", serde_json::json!([registrants[0], registrants[0]])),
        (
            "registrants",
            serde_json::json!(vec![&registrants[0]; MAX_REGISTRANTS + 1]),
        ),
        ("held", serde_json::json!({"kind": held["kind"], "holder": stranger})),
        ("held", serde_json::json!({"kind": held["kind"], "holder": null})),
        (
            "held",
            serde_json::json!({"kind": serde_json::to_value(Kind::WriteExclusiveAll).unwrap(), "holder": held["holder"]}),
        ),
    ] {
        let mut wrong = text.clone();
        wrong[field] = value;
        assert!(serde_json::from_value::<State>(wrong.clone()).is_err(), "{wrong}");
    }
}
