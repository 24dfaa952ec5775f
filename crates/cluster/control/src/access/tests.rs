//! Who may what, and that nothing is changed without a right and a record.

use super::*;
use crate::admin;
use crate::audit::tests::{Forgetful, fill, records, server, server_of};
use amita_identity::Role as Holder;
use amita_types::{ClusterId, MirrorId};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

fn whence() -> Whence {
    Whence {
        host: "h1".to_owned(),
        uid: Some(1000),
        address: None,
    }
}

fn operator(role: Role) -> Caller {
    Caller::of(&Name::operator(ClusterId(7), role, "eve").unwrap(), whence())
}

/// Every action has its line in the table, and every role what its name says.
#[test]
fn every_action_is_in_the_table_and_every_role_is_what_it_is_called() {
    let names: BTreeSet<&str> = Action::ALL.iter().map(|action| action.name()).collect();
    assert_eq!(names.len(), Action::ALL.len(), "two actions have one name");
    for &action in Action::ALL {
        let lines = TABLE.iter().filter(|(listed, _)| *listed == action).count();
        assert_eq!(lines, 1, "{action} has {lines} lines in the table");
        assert!(!action.meaning().is_empty(), "{action}");
        let may = |role| authorise(&operator(role), action, "x").is_ok();
        let end = Caller::by_token("m", Role::Mirror, whence()).bound_to(Some(MirrorId(7)));
        // What the other end of a mirror may, nobody else may; and it may nothing else.
        let is_ends = authorise(&end, action, "x").is_ok();
        assert_eq!(is_ends, action.roles() == [Role::Mirror], "{action}");
        if is_ends {
            assert!(
                ![Admin, Operator, Viewer, Auditor, Role::Tenant].into_iter().any(may),
                "{action}"
            );
            continue;
        }
        assert!(may(Admin), "{action}: an admin may everything");
        assert!(!may(Role::Tenant), "{action}: tenants have no business here");
        assert_eq!(may(Viewer), action == Action::View, "{action}");
        assert_eq!(may(Auditor), action.only_reads(), "{action}");
        if may(Operator) && !action.only_reads() {
            assert!(
                action.roles().len() == 2,
                "{action}: nobody but admins and operators changes anything"
            );
        }
    }
    for action in [
        Action::MetadataRecover,
        Action::HostReseal,
        Action::DiskAdopt,
        Action::AuditRead,
    ] {
        assert!(authorise(&operator(Operator), action, "").is_err(), "{action}");
    }
}

#[test]
fn a_refusal_says_what_for_whom_and_who_may() {
    let denied = authorise(&operator(Viewer), Action::VolumeCreate, "disk0").unwrap_err();
    let text = denied.to_string();
    for word in [
        "/operator/eve/viewer",
        "volume.create (disk0)",
        "admin and operator",
        "a viewer",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let denied = authorise(&operator(Operator), Action::MetadataRecover, "").unwrap_err();
    assert!(
        denied.to_string().contains("only admin") && denied.to_string().contains("an operator"),
        "{denied}"
    );
}

#[test]
fn machines_may_what_their_certificates_may_and_clients_nothing() {
    let holder = |role| Caller::of(&Name::new(ClusterId(7), role, "n1").unwrap(), whence());
    for role in [Holder::Node, Holder::Gateway] {
        assert!(authorise(&holder(role), Action::MetadataRecover, "").is_ok());
        assert_eq!(holder(role).who().role, role.text());
    }
    for role in [Holder::Client, Holder::Authority] {
        let denied = authorise(&holder(role), Action::View, "").unwrap_err();
        assert!(denied.to_string().contains("no operator"), "{denied}");
    }
    let unproved = Caller::unproved(whence());
    assert!(authorise(&unproved, Action::MetadataRecover, "").is_ok());
    assert_eq!(
        (unproved.who().proof, unproved.who().name.as_str()),
        (Proof::None, "user 1000 of h1")
    );
    assert_eq!(Caller::user("ada", whence()).who().proof, Proof::Password);
}

#[test]
fn an_end_of_a_mirror_is_bound_to_that_and_to_nothing_else() {
    let end = Caller::by_token("m", Role::Mirror, whence()).bound_to(Some(MirrorId(7)));
    assert_eq!((end.is_end(), end.mirror()), (true, Some(MirrorId(7))));
    // A binding is of no other role.
    let other = Caller::by_token("m", Admin, whence()).bound_to(Some(MirrorId(7)));
    assert_eq!((other.is_end(), other.mirror()), (false, None));
    let server = server();
    assert!(Session::open(server.client.clone(), end.clone()).is_err());
    assert!(Session::open_end(server.client.clone(), other, true, "m").is_err());
    let session = Session::open_end(server.client.clone(), end, true, "m").unwrap();
    let denied = session.permit(Action::View, "").unwrap_err().to_string();
    assert!(denied.contains("the other end of a mirror"), "{denied}");
    let told: Vec<_> = records(&server.client)
        .into_iter()
        .map(|record| (record.action, record.outcome))
        .collect();
    assert_eq!(
        told,
        [
            ("cluster.view".to_owned(), Outcome::Refused),
            ("mirror.look".to_owned(), Outcome::Refused),
            ("cluster.view".to_owned(), Outcome::Refused)
        ]
    );
}

#[test]
fn what_is_done_is_told_before_and_after_with_what_it_changed() {
    let server = server();
    let session = Session::open(server.client.clone(), operator(Admin)).unwrap();
    let spec = admin::SubsystemSpec {
        name: "db".to_owned(),
        ..admin::SubsystemSpec::default()
    };
    admin::init_cluster(&server.client, ClusterId(7)).unwrap();
    session
        .act(Action::SubsystemCreate, "db", |meta| {
            admin::create_subsystem(meta, &spec)
        })
        .unwrap();
    let change = admin::SubsystemChange {
        any_host: Some(true),
        ..admin::SubsystemChange::default()
    };
    session
        .act(Action::SubsystemSet, "db", |meta| {
            admin::set_subsystem(meta, "db", &change)
        })
        .unwrap();
    let again = session.act(Action::SubsystemCreate, "db", |meta| {
        admin::create_subsystem(meta, &spec)
    });
    assert!(matches!(again, Err(AdminError::Exists { .. })), "{again:?}");
    let found = records(&server.client);
    let told: Vec<_> = found
        .iter()
        .map(|record| (record.action.as_str(), record.outcome, record.of))
        .collect();
    assert_eq!(
        told,
        [
            ("subsystem.create", Outcome::Begun, None),
            ("subsystem.create", Outcome::Done, Some(1)),
            ("subsystem.set", Outcome::Begun, None),
            ("subsystem.set", Outcome::Done, Some(3)),
            ("subsystem.create", Outcome::Begun, None),
            ("subsystem.create", Outcome::Failed, Some(5)),
        ]
    );
    assert!(
        found
            .iter()
            .all(|record| record.object == "db" && record.who.name.ends_with("/operator/eve"))
    );
    let change = |index: usize| {
        found[index]
            .changes
            .iter()
            .find(|change| change.key.ends_with("subsystems/db"))
    };
    let made = change(1).expect("the record that was made");
    assert_eq!(
        (made.before.as_ref(), &made.after.as_ref().unwrap()["name"]),
        (None, &Value::from("db"))
    );
    let set = change(3).expect("the record that was changed");
    assert_ne!(set.before.as_ref().unwrap()["any_host"], true);
    assert_eq!(set.after.as_ref().unwrap()["any_host"], true);
    assert!(
        found[5].changes.is_empty() && found[5].text.contains("exists already"),
        "{:?}",
        found[5]
    );
    audit::verify(&server.client, &[], audit::RETENTION).unwrap();
}

/// Where the quota is used up, what makes room is done, told before and after; what takes some is not.
#[test]
fn room_is_made_where_there_is_none() {
    let server = server_of(1 << 20);
    let meta = &server.client;
    admin::init_cluster(meta, ClusterId(7)).unwrap();
    let session = Session::open(meta.clone(), operator(Operator)).unwrap();
    let spec = |name: &str| admin::SubsystemSpec {
        name: name.to_owned(),
        ..admin::SubsystemSpec::default()
    };
    admin::create_subsystem(meta, &spec("db")).unwrap();
    fill(meta);
    let create = |name: &str| {
        session.act(Action::SubsystemCreate, name, |meta| {
            admin::create_subsystem(meta, &spec(name))
        })
    };
    let refused = create("more").unwrap_err();
    assert!(refused.to_string().contains("space"), "{refused}");
    session
        .act(Action::SubsystemDelete, "db", |meta| {
            admin::delete_subsystem(meta, "db", false)
        })
        .unwrap();
    assert!(
        create("more").is_err(),
        "what the log has taken of the reserve is nobody else's"
    );
    let key = "/fill/large/0".to_owned();
    let then = vec![Op::Delete { key }];
    meta.txn(&Call {
        then,
        ..Call::default()
    })
    .unwrap();
    create("more").unwrap();
    let found = records(meta);
    let told: Vec<_> = found
        .iter()
        .map(|record| (record.action.as_str(), record.outcome))
        .collect();
    // That there is no room leaves open what has become of a change: a stock etcd applies it first.
    assert_eq!(
        told,
        [
            ("subsystem.create", Outcome::Begun),
            ("subsystem.create", Outcome::Unknown),
            ("subsystem.delete", Outcome::Begun),
            ("subsystem.delete", Outcome::Done),
            ("subsystem.create", Outcome::Begun),
            ("subsystem.create", Outcome::Unknown),
            ("subsystem.create", Outcome::Begun),
            ("subsystem.create", Outcome::Done)
        ]
    );
}

/// The answer to a change is lost: what the log says of it is that nobody knows.
#[test]
fn what_was_perhaps_done_is_told_as_such() {
    for makes in [true, false] {
        let server = server();
        let meta = Forgetful {
            meta: &server.client,
            armed: AtomicBool::new(false),
            makes,
        };
        let session = Session::open(meta, operator(Admin)).unwrap();
        let lose = || session.connection().armed.store(true, Ordering::Relaxed);
        let key = "/amita/some";
        let lost = session.act(Action::PoolSet, "p", |through| -> Result<(), AdminError> {
            through.txn(&Call::get(key))?;
            lose();
            through.txn(&Call::put(key, "1"))?;
            Ok(())
        });
        assert!(lost.is_err());
        let last = records(&server.client).pop().unwrap();
        assert_eq!((last.outcome, last.of), (Outcome::Unknown, Some(1)), "made: {makes}");
        assert_eq!((last.changes[0].key.as_str(), last.changes[0].perhaps), (key, true));
        assert_eq!(last.changes[0].after, Some(Value::from(1)));
        // Who looks again and goes on knows.
        session
            .act(Action::PoolSet, "p", |through| -> Result<(), AdminError> {
                lose();
                through.txn(&Call::put(key, "2")).unwrap_err();
                through.txn(&Call::put(key, "3"))?;
                Ok(())
            })
            .unwrap();
        let last = records(&server.client).pop().unwrap();
        assert_eq!((last.outcome, last.changes[0].perhaps), (Outcome::Done, false));
    }
}

#[test]
fn what_is_refused_is_not_done_and_is_in_the_log() {
    let server = server();
    let session = Session::open(server.client.clone(), operator(Viewer)).unwrap();
    let done = session.act(Action::PoolThresholds, "", |meta| {
        admin::set_thresholds(meta, |own| own.near_full_percent = 80)
    });
    assert!(matches!(done, Err(AdminError::Denied(_))), "{done:?}");
    assert_eq!(admin::thresholds(&server.client).unwrap().near_full_percent, 85);
    assert!(Session::open(server.client.clone(), operator(Role::Tenant)).is_err());
    let found = records(&server.client);
    let told: Vec<_> = found
        .iter()
        .map(|record| (record.action.as_str(), record.outcome, record.who.role.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("pool.thresholds", Outcome::Refused, "viewer"),
            ("cluster.view", Outcome::Refused, "tenant")
        ]
    );
}

#[test]
fn who_only_reads_changes_nothing() {
    let server = server();
    let session = Session::open(server.client.clone(), operator(Admin)).unwrap();
    let wrong = admin::set_thresholds(&session.reader(), |own| own.near_full_percent = 80).unwrap_err();
    assert!(wrong.to_string().contains("a fault of the program"), "{wrong}");
    assert_eq!(admin::thresholds(&session.reader()).unwrap().near_full_percent, 85);
    assert!(records(&server.client).is_empty());
}

#[test]
fn keys_of_hosts_are_not_in_the_log_and_that_they_were_set_is() {
    let server = server();
    let session = Session::open(server.client.clone(), operator(Operator)).unwrap();
    let nqn = "nqn.2014-08.org.nvmexpress:uuid:6d2a6b5e-2f0c-4ad5-9d0b-3a7f1f3f0c11";
    let keys = |text: &str| admin::HostKeys {
        dhchap: admin::Secret::Sealed(format!("seal-1:{text}")),
        ..admin::HostKeys::default()
    };
    let _ = session.act(Action::HostAdd, nqn, |meta| admin::add_host(meta, nqn, &keys("FIRST")));
    let _ = session.act(Action::HostKey, nqn, |meta| {
        admin::set_host_keys(meta, nqn, &keys("SECOND"))
    });
    let found = records(&server.client);
    let all = serde_json::to_string(&found).unwrap();
    assert!(!all.contains("FIRST") && !all.contains("SECOND"), "{all}");
    assert!(all.contains("host.key"), "{all}");
}
