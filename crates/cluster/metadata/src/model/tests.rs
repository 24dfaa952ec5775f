use super::*;
use crate::call::{Compare, Op};

const S: fn(u64) -> Duration = Duration::from_secs;

fn put(state: &mut State, key: &str, value: &str) -> u64 {
    state.txn(&Call::put(key, value)).unwrap().revision
}

fn put_leased(state: &mut State, key: &str, lease: LeaseId) {
    let op = Op::Put {
        key: key.into(),
        value: b"x".to_vec(),
        lease: Some(lease),
    };
    state
        .txn(&Call {
            then: vec![op],
            ..Call::default()
        })
        .unwrap();
    state.check();
}

#[test]
fn revisions_count_changes_only() {
    let mut state = State::new();
    assert_eq!(state.revision(), 1);
    assert_eq!(put(&mut state, "a", "1"), 2);
    assert_eq!(put(&mut state, "a", "1"), 3, "writing the same value is a change");
    let nothing = Call {
        then: vec![Op::Delete { key: "b".into() }],
        ..Call::default()
    };
    let reply = state.txn(&nothing).unwrap();
    assert_eq!((reply.revision, &reply.results[..]), (3, &[OpReply::Deleted(0)][..]));
    let both = Call {
        then: vec![
            Op::Put {
                key: "b".into(),
                value: b"2".to_vec(),
                lease: None,
            },
            Op::Get { key: "b".into() },
            Op::Delete { key: "a".into() },
            Op::Prefix { key: String::new() },
        ],
        ..Call::default()
    };
    let reply = state.txn(&both).unwrap();
    assert_eq!(reply.revision, 4, "one transaction, one revision");
    assert_eq!(reply.value(1).unwrap().value, b"2", "later operations see earlier ones");
    assert_eq!(reply.values(3).len(), 1);
    let value = state.get("b").unwrap();
    assert_eq!((value.mod_revision, value.create_revision, value.version), (4, 4, 1));
    state.check();
}

#[test]
fn growth_is_what_is_put_less_what_goes() {
    let mut state = State::default();
    for key in ["/a/1", "/a/2", "/b"] {
        put(&mut state, key, "0123456789");
    }
    let one = RECORD_BYTES + 4 + 10;
    let write = |key: &str, bytes: usize| Op::Put {
        key: key.to_owned(),
        value: vec![0; bytes],
        lease: None,
    };
    let delete = |key: &str| Op::Delete { key: key.to_owned() };
    let all = |key: &str| Op::DeletePrefix { key: key.to_owned() };
    for (then, growth) in [
        (vec![write("/c/1", 10)], one),
        (vec![write("/a/1", 17)], 7),
        (vec![write("/a/1", 3)], 0),
        (vec![write("/c/1", 10), delete("/a/1")], 0),
        (vec![write("/c/1", 20), delete("/a/1")], 10),
        (vec![write("/c/1", 20), delete("/a/9")], one + 10),
        (
            vec![write("/c/1", one + 20), delete("/a/1"), delete("/a/1"), all("/a/1")],
            one + 10,
        ),
        (vec![all("/a/"), delete("/a/2"), write("/c/1", 2 * one)], one - 10),
    ] {
        let call = Call {
            then,
            ..Call::default()
        };
        let before = state.keys_bytes();
        assert_eq!(state.growth_bytes(&call), growth, "{call:?}");
        let mut after = state.clone();
        after.txn(&call).unwrap();
        assert_eq!(after.keys_bytes().saturating_sub(before), growth, "{call:?}");
    }
    let call = |then| Call {
        then,
        ..Call::default()
    };
    let prefixes = ["/a/".to_owned(), "/c/".to_owned()];
    assert!(state.puts_only(&call(vec![write("/a/9", 1), delete("/b"), write("/c/1", 1)]), &prefixes));
    assert!(!state.puts_only(&call(vec![write("/a/9", 1), write("/b", 1)]), &prefixes));
}

#[test]
fn compares_decide_the_branch() {
    let mut state = State::new();
    let create = Call::put_if("k", 0, "first");
    assert!(state.txn(&create).unwrap().succeeded);
    let lost = state.txn(&create).unwrap();
    assert!(!lost.succeeded, "created once only");
    assert_eq!(
        lost.value(0).unwrap().value,
        b"first",
        "a lost race answers with what is there"
    );
    let found = lost.value(0).unwrap().mod_revision;
    assert!(state.txn(&Call::put_if("k", found, "second")).unwrap().succeeded);
    assert!(!state.txn(&Call::put_if("k", found, "third")).unwrap().succeeded);
    let value = state.get("k").unwrap();
    assert_eq!(
        (value.value.as_slice(), value.version, value.create_revision),
        (&b"second"[..], 2, 2)
    );
    for (compare, holds) in [
        (
            Compare::Value {
                key: "k".into(),
                equals: b"second".to_vec(),
            },
            true,
        ),
        (
            Compare::Value {
                key: "none".into(),
                equals: Vec::new(),
            },
            false,
        ),
        (
            Compare::CreateRevision {
                key: "k".into(),
                equals: 2,
            },
            true,
        ),
        (
            Compare::Version {
                key: "k".into(),
                equals: 2,
            },
            true,
        ),
        (
            Compare::Version {
                key: "none".into(),
                equals: 0,
            },
            true,
        ),
        (
            Compare::ModRevision {
                key: "k".into(),
                equals: 0,
            },
            false,
        ),
    ] {
        let call = Call {
            compares: vec![compare.clone()],
            ..Call::default()
        };
        assert_eq!(state.txn(&call).unwrap().succeeded, holds, "{compare:?}");
    }
}

#[test]
fn refused_calls_change_nothing() {
    let mut state = State::new();
    put(&mut state, "a", "1");
    let put_op = |key: &str| Op::Put {
        key: key.into(),
        value: vec![1],
        lease: None,
    };
    let calls = [
        vec![put_op("b"), put_op("b")],
        vec![put_op("b"), Op::Delete { key: "b".into() }],
        vec![Op::DeletePrefix { key: "b".into() }, put_op("bb")],
        vec![put_op("b"), put_op("")],
        (0..=MAX_OPS).map(|i| put_op(&format!("b{i}"))).collect(),
        vec![
            put_op("b"),
            Op::Put {
                key: "c".into(),
                value: vec![0; crate::MAX_CALL_BYTES],
                lease: None,
            },
        ],
        vec![
            put_op("b"),
            Op::Put {
                key: "c".into(),
                value: vec![],
                lease: Some(LeaseId(9)),
            },
        ],
    ];
    for then in calls {
        let refusal = state
            .txn(&Call {
                then,
                ..Call::default()
            })
            .unwrap_err();
        assert!(!refusal.to_string().is_empty());
        assert_eq!((state.revision(), state.keys().count()), (2, 1), "{refusal}");
        state.check();
    }
}

#[test]
fn leases_take_their_keys_with_them() {
    let mut state = State::new();
    let lease = state.lease_grant(S(0), 5, None).unwrap();
    put_leased(&mut state, "a", lease);
    put_leased(&mut state, "b", lease);
    put(&mut state, "b", "freed");
    assert_eq!(state.deadline(), Some(S(5)));
    assert!(state.tick(S(4)).is_empty());
    assert_eq!(state.lease_keepalive(S(4), lease), Ok(5));
    assert!(state.tick(S(8)).is_empty());
    let before = state.revision();
    assert_eq!(state.tick(S(9)), [lease]);
    state.check();
    assert_eq!(state.revision(), before + 1);
    assert!(state.get("a").is_none() && state.get("b").is_some());
    let gone: Vec<Batch> = state.changes("", before + 1).unwrap().collect();
    assert_eq!(
        gone[0].events,
        [Event::Delete {
            key: "a".into(),
            mod_revision: before + 1
        }]
    );
    assert_eq!(state.lease_keepalive(S(9), lease), Err(Refusal::LeaseNotFound(lease)));
    assert_eq!(state.lease_revoke(lease), Err(Refusal::LeaseNotFound(lease)));

    let other = state.lease_grant(S(9), 5, None).unwrap();
    assert_ne!(other, lease, "numbers are not given twice");
    assert_eq!(
        state.lease_grant(S(9), 5, Some(other)),
        Err(Refusal::LeaseExists(other))
    );
    assert!(matches!(state.lease_grant(S(9), 0, None), Err(Refusal::BadTtl { .. })));
    assert!(matches!(
        state.lease_grant(S(9), MAX_TTL_S + 1, None),
        Err(Refusal::BadTtl { .. })
    ));
    let before = state.revision();
    state.lease_revoke(other).unwrap();
    assert_eq!(state.revision(), before, "a lease without keys leaves no trace");
    for _ in 0..MAX_LEASES {
        state.lease_grant(S(9), 5, None).unwrap();
    }
    assert!(matches!(
        state.lease_grant(S(9), 5, None),
        Err(Refusal::TooManyLeases { .. })
    ));
}

#[test]
fn history_is_read_from_a_revision_until_compacted() {
    let mut state = State::new();
    for i in 0..10 {
        put(&mut state, if i % 2 == 0 { "/e/x" } else { "/o/x" }, &i.to_string());
    }
    let seen = |state: &State, from| -> Vec<u64> {
        state
            .changes("/e/", from)
            .unwrap()
            .map(|batch| batch.revision)
            .collect()
    };
    assert_eq!(seen(&state, 0), [2, 4, 6, 8, 10]);
    assert_eq!(seen(&state, 1), [2, 4, 6, 8, 10]);
    assert_eq!(seen(&state, 6), [6, 8, 10]);
    assert_eq!(seen(&state, 99), [] as [u64; 0]);
    assert!(matches!(state.compact(12), Err(Refusal::FutureRevision { .. })));
    state.compact(6).unwrap();
    state.check();
    assert_eq!(state.compact(6), Err(Refusal::Compacted { compacted: 6 }));
    assert_eq!(seen(&state, 7), [8, 10]);
    assert_eq!(state.changes("/e/", 6).err(), Some(Refusal::Compacted { compacted: 6 }));
    assert_eq!(state.keys().count(), 2, "compaction forgets the history, not the keys");
}

#[test]
fn a_state_is_restored_from_its_parts() {
    let mut state = State::new();
    let lease = state.lease_grant(S(0), 5, None).unwrap();
    put_leased(&mut state, "a", lease);
    put(&mut state, "b", "1");
    put(&mut state, "b", "2");
    state.compact(2).unwrap();
    let saved = Saved {
        revision: state.revision(),
        compacted: state.compacted(),
        last_lease: state.last_lease(),
        keys: state.keys().cloned().collect(),
        history: state.history_after(state.compacted()).cloned().collect(),
        leases: state.leases().map(|(id, lease)| (id, lease.ttl_s)).collect(),
    };
    let mut again = State::restore(saved.clone(), S(100)).unwrap();
    again.check();
    assert_eq!(again.keys().collect::<Vec<_>>(), state.keys().collect::<Vec<_>>());
    assert_eq!(again.deadline(), Some(S(105)), "leases start anew");
    assert_eq!(put(&mut again, "c", ""), state.revision() + 1);

    let broken = [
        Saved {
            revision: 0,
            ..saved.clone()
        },
        Saved {
            revision: 9,
            ..saved.clone()
        },
        Saved {
            compacted: 3,
            ..saved.clone()
        },
        Saved {
            leases: Vec::new(),
            ..saved
        },
    ];
    for saved in broken {
        assert!(State::restore(saved.clone(), S(0)).is_err(), "{saved:?}");
    }
}
