use super::*;
use crate::config::VersionRange;
use crate::secure::{Recorded, Role};
use amita_reactor::Pool;
use amita_types::ClusterId;

fn config(node: u32, versions: (u8, u8)) -> Config {
    let mut config = Config::new(ClusterId(0xc1), NodeId(node), 1, Pool::heap());
    config.versions = VersionRange {
        min: versions.0,
        max: versions.1,
    };
    config
}

fn judged(here: (u8, u8), there: (u8, u8)) -> Result<u8, Refuse> {
    judge(&config(1, here), &hello(&config(2, there), NodeId(1), 0), None)
}

fn refused(change: impl FnOnce(&mut Hello)) -> (RefuseCode, String) {
    let mut theirs = hello(&config(2, (1, 1)), NodeId(1), 0);
    change(&mut theirs);
    let refuse = judge(&config(1, (1, 1)), &theirs, Some(NodeId(2))).expect_err("refused");
    (refuse.code, refuse.reason)
}

#[test]
fn the_highest_common_version_is_spoken() {
    assert_eq!(judged((1, 1), (1, 1)), Ok(1));
    assert_eq!(judged((1, 3), (2, 5)), Ok(3));
    assert_eq!(judged((2, 5), (1, 3)), Ok(3));
    assert_eq!(judged((1, 9), (4, 4)), Ok(4));
}

#[test]
fn without_a_common_version_both_ranges_are_named() {
    for (here, there) in [((1, 2), (3, 4)), ((3, 4), (1, 2))] {
        let refuse = judged(here, there).unwrap_err();
        assert_eq!(refuse.code, RefuseCode::Version);
        let ranges = format!(
            "speaks protocol versions {} to {}, the other end {} to {}",
            here.0, here.1, there.0, there.1
        );
        assert!(refuse.reason.contains(&ranges), "{}", refuse.reason);
    }
}

#[test]
fn another_cluster_is_named_first() {
    let (code, reason) = refused(|hello| {
        hello.cluster = ClusterId(0xc2);
        hello.version_min = 9;
        hello.version_max = 9;
    });
    assert_eq!(code, RefuseCode::Cluster);
    assert!(reason.contains("00000000-0000-0000-0000-0000000000c1"), "{reason}");
    assert!(reason.contains("00000000-0000-0000-0000-0000000000c2"), "{reason}");
}

#[test]
fn everything_else_that_is_wrong_is_refused_by_name() {
    let (code, reason) = refused(|hello| hello.peer = NodeId(7));
    assert_eq!(code, RefuseCode::Node);
    assert!(reason.contains("node 1, not node 7"), "{reason}");
    let (code, reason) = refused(|hello| hello.node = NodeId(3));
    assert_eq!(code, RefuseCode::Node);
    assert!(reason.contains("called node 2, but node 3 answered"), "{reason}");
    let (code, reason) = refused(|hello| hello.cluster_version = 2);
    assert_eq!(code, RefuseCode::ClusterVersion);
    assert!(reason.contains("finalized at version 2"), "{reason}");
    assert_eq!(refused(|hello| hello.window_requests = 0).0, RefuseCode::Limits);
    assert_eq!(
        refused(|hello| hello.window_bytes = MAX_CHARGE_BYTES - 1).0,
        RefuseCode::Limits
    );
}

#[test]
fn reasons_fit_their_frame() {
    let (_, reason) = refused(|hello| hello.cluster = ClusterId(u128::MAX));
    assert!(
        reason.len() <= crate::limits::MAX_REASON_BYTES,
        "{} bytes",
        reason.len()
    );
}

fn peer(role: Role) -> Peer {
    Peer {
        role,
        name: "app".to_owned(),
        certificates: Vec::new(),
    }
}

#[test]
fn a_number_is_his_whose_name_is_recorded_under_it() {
    let recorded = [
        (7, Recorded::gateway("app")),
        (8, Recorded::gateway("other")),
        (u32::MAX, Recorded::node("app")),
    ];
    let names: Names = recorded.map(|(number, recorded)| (NodeId(number), recorded)).into();
    let (identity, unknown) = (Err(RefuseCode::Identity), Err(RefuseCode::Unknown));
    for (role, number, wanted) in [
        (Role::Node, 7, Ok(())),
        (Role::Node, u32::MAX, Ok(())),
        (Role::Node, 8, identity),
        (Role::Node, 9, unknown),
        (Role::Gateway, 7, Ok(())),
        (Role::Gateway, 8, identity),
        (Role::Gateway, 9, unknown),
        // A node that may have stores, of the same name.
        (Role::Gateway, u32::MAX, identity),
        // They are nobody, whatever is recorded.
        (Role::Client, 7, identity),
        (Role::Client, u32::MAX, identity),
        (Role::Client, 9, unknown),
        (Role::Operator, 7, identity),
        (Role::Operator, 9, unknown),
    ] {
        let judged = judge_name(&names, &peer(role), NodeId(number)).map_err(|refuse| refuse.code);
        assert_eq!(judged, wanted, "{} as {number}", peer(role));
    }
}
