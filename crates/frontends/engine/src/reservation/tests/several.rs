use super::*;

fn name(session: u8, tag: u16) -> PortName {
    PortName {
        initiator: format!("iqn.2026-01.test:host,i,0x{session:012x}"),
        tag,
    }
}

/// Host `number`, which is session `number / 10` at the port `number % 10`.
fn registrant(number: u8, new_key: u64) -> Registrant {
    Registrant {
        host: key(number),
        host_id: id(number),
        key: new_key,
        port: Some(name(number / 10, u16::from(number % 10))),
    }
}

fn all(numbers: &[u8], new_key: u64, ignore_key: bool) -> Command {
    Command::RegisterAll {
        registrants: numbers.iter().map(|number| registrant(*number, new_key)).collect(),
        ignore_key,
        persist: None,
    }
}

fn keys(state: &State) -> Vec<(u8, u64)> {
    let number = |registrant: &Registrant| (registrant.host_id[0], registrant.key);
    state.registrants.iter().map(number).collect()
}

#[test]
fn all_are_registered_or_none() {
    let mut state = State::default();
    state.apply(key(11), &all(&[11, 12, 21, 22], 5, false)).unwrap();
    assert_eq!(keys(&state), [(11, 5), (12, 5), (21, 5), (22, 5)]);
    assert_eq!(state.generation, 1);
    assert_eq!(state.registrant(key(22)).unwrap().port, Some(name(2, 2)));
    let before = state.clone();
    let refused = [
        (
            31,
            all(&[31, 22], 6, false),
            Refusal::Invalid,
            "one of the named is registered",
        ),
        (11, all(&[11, 31], 6, false), Refusal::Conflict, "its own key is not 0"),
        (
            11,
            all(&[11], 5, false),
            Refusal::Conflict,
            "not by the same key, either",
        ),
        (31, all(&[32], 6, false), Refusal::Invalid, "it is not among them"),
        (31, all(&[31, 32], 0, false), Refusal::Invalid, "no key"),
        (31, all(&[31, 32, 31], 6, false), Refusal::Invalid, "one twice"),
        (31, all(&[], 6, false), Refusal::Invalid, "nobody"),
        (
            31,
            all(&[31, 11], 6, true),
            Refusal::Invalid,
            "another initiator port's key",
        ),
    ];
    for (host, command, refusal, why) in refused {
        assert_eq!(state.apply(key(host), &command), Err(refusal), "{why}");
        assert_eq!(state, before, "{why}");
    }
    // Its own nexuses, whatever their keys are.
    state.apply(key(11), &all(&[11, 12, 13], 9, true)).unwrap();
    assert_eq!(keys(&state), [(11, 9), (12, 9), (21, 5), (22, 5), (13, 9)]);
    assert_eq!(state.generation, 2);
}

#[test]
fn different_keys_and_names_that_cannot_be_kept_are_refused() {
    let mut state = State::default();
    let mut two = vec![registrant(11, 5), registrant(12, 6)];
    let ask = |registrants: &[Registrant]| Command::RegisterAll {
        registrants: registrants.to_vec(),
        ignore_key: false,
        persist: Some(true),
    };
    assert_eq!(state.apply(key(11), &ask(&two)), Err(Refusal::Invalid));
    two[1].key = 5;
    for wrong in ["", "a\"b", "a\\b", "a b", "\u{e4}", &"n".repeat(MAX_NAME_BYTES + 1)] {
        two[1].port = Some(PortName {
            initiator: wrong.to_owned(),
            tag: 1,
        });
        assert_eq!(state.apply(key(11), &ask(&two)), Err(Refusal::Invalid), "{wrong}");
    }
    assert!(state.is_empty());
    two[1].port = Some(name(1, 2));
    state.apply(key(11), &ask(&two)).unwrap();
    assert!(state.persist);
    // A host whose key is that of another one, or whose identifier is.
    for (host, host_id) in [(key(11), id(77)), (key(77), id(11))] {
        let mistaken = Registrant {
            host,
            host_id,
            ..registrant(11, 5)
        };
        let command = Command::RegisterAll {
            registrants: vec![mistaken],
            ignore_key: true,
            persist: None,
        };
        assert_eq!(state.apply(host, &command), Err(Refusal::Conflict));
    }
}

/// Number `number` of many, with a name of so many bytes.
fn one_of_many(number: u16, bytes: usize) -> Registrant {
    let host_id = [&number.to_be_bytes()[..], &[0xff; 14]].concat().try_into().unwrap();
    Registrant {
        host: key_of(&host_id),
        host_id,
        key: u64::MAX,
        port: Some(PortName {
            initiator: "n".repeat(bytes),
            tag: u16::MAX,
        }),
    }
}

fn register_many(count: u16, bytes: usize) -> (HostKey, Command) {
    let registrants: Vec<Registrant> = (0..count).map(|number| one_of_many(number, bytes)).collect();
    let command = Command::RegisterAll {
        ignore_key: false,
        persist: None,
        registrants,
    };
    (one_of_many(0, bytes).host, command)
}

#[test]
fn registrants_and_their_names_have_bounds() {
    let most = MAX_REGISTRANTS as u16;
    let (host, command) = register_many(most, MAX_NAMES_BYTES / MAX_REGISTRANTS);
    let mut state = State::default();
    state.apply(host, &command).unwrap();
    assert_eq!(state.registrants.len(), MAX_REGISTRANTS);
    state.resets = u64::MAX;
    let text = serde_json::to_vec(&state).unwrap();
    assert!(text.len() <= 64 << 10, "{} bytes", text.len());
    let one_more = one_of_many(most, 1);
    let command = Command::RegisterAll {
        registrants: vec![one_more.clone()],
        ignore_key: false,
        persist: None,
    };
    assert_eq!(state.apply(one_more.host, &command), Err(Refusal::Full));
    assert_eq!(serde_json::to_vec(&state).unwrap(), text);
    // Names that are too long together; and more than can be at all.
    for (count, bytes, refusal) in [
        (most, MAX_NAMES_BYTES / MAX_REGISTRANTS + 1, Refusal::Full),
        (most, MAX_NAME_BYTES, Refusal::Full),
        (most + 1, 1, Refusal::Invalid),
    ] {
        let (host, command) = register_many(count, bytes);
        let mut state = State::default();
        assert_eq!(state.apply(host, &command), Err(refusal), "{count} of {bytes} bytes");
        assert!(state.is_empty());
    }
    // What another gateway is sent of the longest of them is one message.
    let (_, command) = register_many(most, MAX_NAME_BYTES);
    let text = serde_json::to_vec(&command).unwrap();
    assert!(text.len() <= amita_types::MAX_IO_BYTES as usize, "{} bytes", text.len());
}

fn hand_over(own: u64, to: u8, new_key: u64, unregister: bool) -> Command {
    Command::Move {
        key: own,
        to: Box::new(registrant(to, new_key)),
        unregister,
        persist: Some(true),
    }
}

#[test]
fn the_holder_hands_the_reservation_over() {
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_held_by_all()) {
        for unregister in [false, true] {
            let mut state = held(kind);
            state.apply(key(1), &hand_over(1, 22, 9, unregister)).unwrap();
            assert!(state.is_holder(key(22)) && state.held.unwrap().kind == kind);
            assert_eq!(state.registrant(key(1)).is_none(), unregister);
            assert_eq!(state.registrant(key(22)), Some(&registrant(22, 9)));
            assert_eq!((state.generation, state.persist), (4, true));
            assert_eq!(state.last_notice, 0, "nobody is told");
        }
        // One that is registered gets the other key.
        let mut state = held(kind);
        let known = Registrant {
            host: key(2),
            host_id: id(2),
            ..registrant(22, 9)
        };
        let command = Command::Move {
            key: 1,
            to: Box::new(known),
            unregister: false,
            persist: None,
        };
        state.apply(key(1), &command).unwrap();
        assert!(state.is_holder(key(2)));
        assert_eq!(keys(&state), [(1, 1), (2, 9), (3, 3)]);
    }
}

#[test]
fn who_does_not_hold_it_hands_nothing_over() {
    let kind = Kind::WriteExclusive;
    let mut free = registered(2);
    let refused = |state: &mut State, host, command: &Command| {
        let before = state.clone();
        let refusal = state.apply(key(host), command).expect_err("it is refused");
        assert_eq!(*state, before, "{command:?}");
        refusal
    };
    assert_eq!(
        refused(&mut free, 1, &hand_over(9, 22, 9, false)),
        Refusal::Conflict,
        "a wrong key"
    );
    assert_eq!(
        refused(&mut free, 1, &hand_over(1, 22, 9, false)),
        Refusal::Invalid,
        "nothing is held"
    );
    let mut state = held(kind);
    for (host, own, to, new_key, refusal) in [
        (1, 2, 22, 9, Refusal::Conflict),
        (2, 2, 22, 9, Refusal::Conflict),
        (9, 9, 22, 9, Refusal::Conflict),
        (1, 1, 22, 0, Refusal::Invalid),
        (1, 1, 1, 9, Refusal::Invalid),
    ] {
        assert_eq!(
            refused(&mut state, host, &hand_over(own, to, new_key, true)),
            refusal,
            "host {host}"
        );
    }
    for kind in [Kind::WriteExclusiveAll, Kind::ExclusiveAccessAll] {
        let mut state = held(kind);
        assert_eq!(
            refused(&mut state, 1, &hand_over(1, 22, 9, false)),
            Refusal::Conflict,
            "all hold it"
        );
    }
}

#[test]
fn handing_over_needs_room_unless_the_holder_goes() {
    let (host, command) = register_many(MAX_REGISTRANTS as u16, 1);
    let mut state = State::default();
    state.apply(host, &command).unwrap();
    let kind = Kind::WriteExclusive;
    state.apply(host, &Command::Acquire { key: u64::MAX, kind }).unwrap();
    let before = state.clone();
    assert_eq!(
        state.apply(host, &hand_over(u64::MAX, 22, 9, false)),
        Err(Refusal::Full)
    );
    assert_eq!(state, before);
    state.apply(host, &hand_over(u64::MAX, 22, 9, true)).unwrap();
    assert_eq!(state.registrants.len(), MAX_REGISTRANTS);
    assert!(state.is_holder(key(22)));
}

/// What the version before has written, and what it makes of what this one writes: it knows neither ports nor locks.
#[test]
fn records_of_the_version_before_are_read() {
    let text = r#"{"generation":7,"persist":true,"registrants":[{"host":"00000000000000000000000000000002",
        "host_id":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"key":5}],"held":{"kind":"WriteExclusive",
        "holder":"00000000000000000000000000000002"},"notices":[{"number":1,"notice":"ReservationReleased","hosts":[]}],"last_notice":1}"#;
    let state: State = serde_json::from_str(text).unwrap();
    assert_eq!((state.generation, state.registrants[0].key, state.locked), (7, 5, None));
    assert_eq!(state.registrants[0].port, None);
    let again = serde_json::to_value(&state).unwrap();
    assert_eq!(
        again,
        serde_json::from_str::<serde_json::Value>(text).unwrap(),
        "and nothing new is written"
    );
}
