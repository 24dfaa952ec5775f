use super::*;

fn connection(front: u64) -> Connection {
    Connection {
        run: 77,
        core: 2,
        front,
    }
}

fn lock(front: u64) -> Command {
    let by = connection(front);
    Command::Lock { by }
}

fn is_free(state: &State, host: u8) -> bool {
    [Access::Read, Access::Write].map(|access| state.allows(key(host), access)) == [true; 2]
}

#[test]
fn a_lock_is_for_one_host_alone() {
    let mut state = State::default();
    state.apply(key(1), &lock(5)).unwrap();
    assert!(is_free(&state, 1));
    for access in [Access::Read, Access::Write] {
        assert!(!state.allows(key(2), access) && !state.allows(HostKey::NONE, access));
    }
    assert_eq!(state.apply(key(2), &lock(6)), Err(Refusal::Conflict));
    assert_eq!(state.apply(key(2), &Command::Unlock), Ok(()), "it is no error");
    assert_eq!(state.apply(HostKey::NONE, &lock(6)), Err(Refusal::Conflict));
    assert!(!state.allows(key(2), Access::Read));
    state.apply(key(1), &lock(5)).unwrap();
    assert_eq!(state.generation, 0, "it does not count");
    state.apply(key(1), &Command::Unlock).unwrap();
    assert!(state.is_empty() && is_free(&state, 2));
    state.apply(key(2), &lock(6)).unwrap();
    assert_eq!(state.apply(key(1), &lock(5)), Err(Refusal::Conflict));
}

/// SPC-2 5.5.1: "regardless of initiator".
#[test]
fn while_it_is_locked_nobody_registers() {
    let mut state = State::default();
    state.apply(key(1), &lock(5)).unwrap();
    let before = state.clone();
    let kind = Kind::WriteExclusive;
    for host in [1, 2] {
        for command in [
            register(host, 7),
            Command::Unregister {
                key: 0,
                ignore_key: true,
                persist: None,
            },
            Command::RegisterAll {
                registrants: Vec::new(),
                ignore_key: true,
                persist: None,
            },
            Command::Acquire { key: 7, kind },
            Command::Release { key: 7, kind },
            Command::Clear { key: 7 },
            preempt(7, 8, kind),
        ] {
            let refused = state.apply(key(host), &command);
            assert_eq!(refused, Err(Refusal::Conflict), "{command:?}");
            assert_eq!(state, before);
        }
    }
    // Hosts of NVMe know no locks: they look, and set what they set.
    assert_eq!(state.apply(key(2), &Command::Report), Ok(()));
    assert_eq!(state.apply(HostKey::NONE, &Command::Persist(true)), Ok(()));
    assert_eq!(state.locked, before.locked);
}

/// SPC-4, "Exceptions to SPC-2 RESERVE and RELEASE behavior".
#[test]
fn registrants_keep_locks_out() {
    for command in [lock(5), Command::Unlock] {
        let mut state = registered(2);
        for host in [1, 9] {
            assert_eq!(state.apply(key(host), &command), Err(Refusal::Conflict), "host {host}");
        }
        assert_eq!(state, registered(2));
    }
    for kind in Kind::ALL {
        let before = held(kind);
        let mut state = before.clone();
        let of_registrant = match kind.is_for_registrants() {
            true => Ok(()),
            false => Err(Refusal::Conflict),
        };
        for command in [lock(5), Command::Unlock] {
            assert_eq!(state.apply(key(1), &command), Ok(()), "the holder, {kind:?}");
            assert_eq!(state.apply(key(2), &command), of_registrant, "a registrant, {kind:?}");
            assert_eq!(
                state.apply(key(9), &command),
                Err(Refusal::Conflict),
                "another, {kind:?}"
            );
            assert_eq!(state, before, "and nothing has changed");
        }
    }
}

#[test]
fn a_lock_ends_with_its_connection_and_no_other_does() {
    let mut state = State::default();
    state.apply(key(1), &lock(5)).unwrap();
    let first = state.locked.unwrap();
    let others = [
        Lock { host: key(2), ..first },
        Lock {
            by: connection(6),
            ..first
        },
        Lock {
            by: Connection { run: 78, ..first.by },
            ..first
        },
        Lock {
            by: Connection { core: 3, ..first.by },
            ..first
        },
    ];
    for other in others {
        state.apply(other.host, &Command::Expire(other)).unwrap();
        assert_eq!(state.locked, Some(first));
    }
    // The host has logged in anew and locked anew, before the old connection's end is told.
    state.apply(key(1), &lock(6)).unwrap();
    state.apply(key(1), &Command::Expire(first)).unwrap();
    assert!(!state.allows(key(2), Access::Read));
    let second = state.locked.unwrap();
    assert_eq!(second.by, connection(6));
    state.apply(HostKey::NONE, &Command::Expire(second)).unwrap();
    assert!(state.is_empty());
    state.apply(key(1), &Command::Expire(second)).unwrap();
    assert!(state.is_empty(), "told twice");
}

#[test]
fn a_reset_ends_anybodys_lock_and_is_counted() {
    let mut state = State::default();
    state.apply(key(1), &lock(5)).unwrap();
    state.apply(key(2), &Command::Reset).unwrap();
    let reset = |resets, state| State { resets, ..state };
    assert_eq!(state, reset(1, State::default()));
    let mut state = held(Kind::ExclusiveAccess);
    for resets in 1..=3 {
        state.apply(key(2), &Command::Reset).unwrap();
        assert_eq!(state, reset(resets, held(Kind::ExclusiveAccess)), "nothing else");
    }
    // What was written before it was counted is read as never reset, and says nothing of it.
    let text = serde_json::to_string(&held(Kind::ExclusiveAccess)).unwrap();
    assert!(!text.contains("resets"), "{text}");
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
}

#[test]
fn by_which_connection_is_the_services_word() {
    let said = lock(5).by(1, 3, FrontId(4));
    let by = Connection {
        run: 1,
        core: 3,
        front: 4,
    };
    assert_eq!(said, Command::Lock { by });
    assert_eq!(Command::Unlock.by(1, 3, FrontId(4)), Command::Unlock);
}

#[test]
fn a_lock_is_kept() {
    let mut state = State::default();
    state.apply(key(1), &lock(u64::MAX)).unwrap();
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
    let mut both = serde_json::to_value(registered(1)).unwrap();
    both["locked"] = serde_json::to_value(state.locked).unwrap();
    assert!(serde_json::from_value::<State>(both).is_err(), "locked, and registered");
    let mut nobody = serde_json::to_value(&state).unwrap();
    nobody["locked"]["host"] = serde_json::to_value(HostKey::NONE).unwrap();
    assert!(serde_json::from_value::<State>(nobody).is_err());
}
