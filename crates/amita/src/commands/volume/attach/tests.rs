use super::*;
use amita_types::map::NamespaceSnapshot;
use amita_types::{SnapshotId, VolumeId};

const HOST: &str = "nqn.2014-08.org.example:one";
const OTHER: &str = "nqn.2014-08.org.example:other";

fn subsystem(name: &str, hosts: &[&str], namespaces: &[u32]) -> Subsystem {
    let namespaces = namespaces.iter().map(|&number| Namespace {
        nsid: 1,
        volume: VolumeId(7),
        uuid: uuid::Uuid::nil(),
        block_bytes: 4096,
        snapshot: (number > 0).then_some(NamespaceSnapshot {
            number: SnapshotId(number),
            size_bytes: 4096,
        }),
    });
    Subsystem {
        name: name.to_owned(),
        nqn: "nqn.2014-08.org.example:amita".to_owned(),
        serial: "1".to_owned(),
        gateways: Vec::new(),
        any_host: false,
        tls_required: false,
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        namespaces: namespaces.collect(),
    }
}

/// `db@monday` has made subsystem `db.monday`, for a host that reads; a volume may have that name.
#[test]
fn what_was_made_for_a_snapshot_gets_no_volume() {
    let made = subsystem("db.monday", &[OTHER], &[3]);
    assert!(foreign(&made, false, HOST).is_some_and(|why| why.contains("might write")));
    assert!(foreign(&made, false, OTHER).is_some(), "it was to read");
    assert!(foreign(&made, true, HOST).is_some());
    // It was detached, and the host may connect still.
    let left = subsystem("db.monday", &[OTHER], &[]);
    assert!(foreign(&left, false, HOST).is_some() && foreign(&left, true, HOST).is_some());
    assert!(foreign(&left, false, OTHER).is_none() && foreign(&left, true, OTHER).is_none());
    let any = Subsystem { any_host: true, ..left };
    assert!(foreign(&any, true, OTHER).is_some());
}

#[test]
fn what_operators_have_made_for_volumes_is_used() {
    for hosts in [&[][..], &[HOST], &[OTHER]] {
        assert!(foreign(&subsystem("db", hosts, &[]), false, HOST).is_none());
        assert!(foreign(&subsystem("db", hosts, &[0]), false, HOST).is_none());
    }
    assert!(foreign(&subsystem("db.monday", &[], &[]), false, HOST).is_none());
    assert!(foreign(&subsystem("db.monday", &[], &[0]), true, HOST).is_some());
}

/// An operator has put the volume and a snapshot of it into one subsystem; a host that is to read the snapshot comes later.
#[test]
fn who_is_to_read_a_snapshot_is_not_let_in_to_the_volume() {
    let both = subsystem("db", &[HOST], &[0, 3]);
    assert!(lets_into_more(&both, OTHER));
    assert!(!lets_into_more(&both, HOST), "it may use both already");
    assert!(!lets_into_more(&subsystem("db.monday", &[HOST], &[3]), OTHER));
    let any = Subsystem { any_host: true, ..both };
    assert!(!lets_into_more(&any, OTHER));
}
