//! Paths that are missing, lost, or in the way.

use super::*;

#[test]
fn one_path_is_enough_and_the_other_comes_later() {
    let host = Host::new(&nqn());
    host.state().away.insert("192.0.2.1:4420".to_owned());
    stage(&host, "ext4").expect("staged");
    assert_eq!(host.state().paths.len(), 1);
    host.state().away.clear();
    stage(&host, "ext4").expect("staged already");
    assert_eq!(host.state().paths.len(), 2);
    let host = Host::new(&nqn());
    let all = ["192.0.2.1:4420", "192.0.2.2:4420"].map(str::to_owned);
    host.state().away.extend(all);
    let refused = stage(&host, "ext4").expect_err("no path");
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("192.0.2.2:4420"), "{refused}");
}

/// Gateways hear of a volume one after the other.
#[test]
fn a_gateway_that_has_not_heard_yet_is_asked_again() {
    let host = Host::new(&nqn());
    host.state().refusals = BTreeMap::from([("192.0.2.1:4420".to_owned(), 3), ("192.0.2.2:4420".to_owned(), 1)]);
    stage(&host, "ext4").expect("staged");
    assert_eq!(host.state().paths.len(), 2);
    assert_eq!(host.state().lines.len(), 6);
    // One that refuses for good is no obstacle where there is another.
    let host = Host::new(&nqn());
    host.state().refusals = BTreeMap::from([("192.0.2.1:4420".to_owned(), usize::MAX)]);
    stage(&host, "ext4").expect("staged");
    assert_eq!(host.state().paths.len(), 1);
}

#[test]
fn a_path_that_is_missing_is_connected_as_those_that_are_there() {
    let host = Host::new(&nqn());
    assert_eq!(node(&host).connect_missing().expect("nothing is there"), 0);
    host.state().away.insert("192.0.2.1:4420".to_owned());
    let request = NodeStageVolumeRequest {
        secrets: BTreeMap::from([("nvmeDhchapSecret".to_owned(), "DHHC-1:00:c2VjcmV0:".to_owned())]),
        volume_context: BTreeMap::from([("nvmeNrIoQueues".to_owned(), "7".to_owned())]),
        ..stage_of(writer("ext4"), EXCLUSIVE)
    };
    node(&host).stage(&request).expect("staged");
    // It is away still; it is there, and so is a new one.
    assert_eq!(node(&host).connect_missing().expect("asked"), 0);
    host.state().away.clear();
    host.state().gateways.push("192.0.2.3:4420");
    {
        let node = node(&host);
        let _hold = node.hold(7).expect("free");
        assert_eq!(node.connect_missing().expect("asked"), 0, "a call is at work on it");
    }
    assert_eq!(node(&host).connect_missing().expect("asked"), 2);
    assert_eq!(node(&host).connect_missing().expect("asked"), 0);
    let state = host.state();
    assert_eq!((state.paths.len(), state.lines.len()), (3, 3));
    assert!(!state.is_discovering);
    let behind = |line: &str| {
        let mut fields: Vec<String> = line.split(',').skip(4).map(str::to_owned).collect();
        fields.sort();
        fields
    };
    assert_eq!(behind(&state.lines[1]), behind(&state.lines[0]));
    assert_eq!(behind(&state.lines[2]), behind(&state.lines[0]));
}

/// What a host has to prove a gateway does not tell it without.
#[test]
fn gateways_are_asked_with_the_proofs_of_the_paths() {
    let host = Host::new(&nqn());
    host.state().away.insert("192.0.2.1:4420".to_owned());
    let request = NodeStageVolumeRequest {
        secrets: BTreeMap::from([("nvmeDhchapSecret".to_owned(), "DHHC-1:00:c2VjcmV0:".to_owned())]),
        volume_context: BTreeMap::from([("tlsRequired".to_owned(), "true".to_owned())]),
        ..stage_of(writer("ext4"), EXCLUSIVE)
    };
    node(&host).stage(&request).expect("staged");
    host.state().away.clear();
    assert_eq!(node(&host).connect_missing().expect("asked"), 1);
    let asked = host.state().asked.clone();
    assert!(asked.ends_with(",dhchap_secret=DHHC-1:00:c2VjcmV0:,tls"), "{asked}");
    let made = host.state().lines.last().cloned().unwrap_or_default();
    assert!(made.contains(",tls,dhchap_secret=DHHC-1:00:c2VjcmV0:"), "{made}");
}

#[test]
fn no_path_to_a_discovery_service_is_left() {
    let host = Host::new(&nqn());
    stage(&host, "ext4").expect("staged");
    for cut in [Cut::After(1), Cut::Before(2), Cut::After(2), Cut::Before(3)] {
        host.cut(Some(cut));
        node(&host).connect_missing().expect_err("it was cut");
        assert!(host.state().is_discovering, "{cut:?}");
        host.cut(None);
        node(&host).connect_missing().expect("asked");
        assert!(!host.state().is_discovering, "{cut:?}");
    }
}

#[test]
fn paths_that_would_be_disks_of_their_own_are_not_made() {
    for multipath in ["N", ""] {
        let host = Host::new(&nqn());
        host.state().multipath = multipath;
        assert_eq!(code(stage(&host, "ext4")), Code::FailedPrecondition, "{multipath}");
        assert_eq!(host.state().lines.len(), 0);
    }
}

/// A volume that was taken from this node, was another's, and is this one's again: what was lost has another name, and nothing of it is sent any more.
#[test]
fn what_was_lost_ends_when_the_volume_comes_again() {
    let lost = nqn().replace("01234567", "89abcdef");
    let host = Host::new(&nqn());
    host.state().lost = Some(lost.clone());
    stage(&host, "ext4").expect("staged");
    assert_eq!(host.state().lost, None);
    assert_eq!(host.state().paths.len(), 2);
    unstage(&host).expect("gone");
    // A call of before, whose name nobody lets in any more, ends nothing.
    let host = Host::new(&nqn());
    host.state().lost = Some(lost.clone());
    let all = ["192.0.2.1:4420", "192.0.2.2:4420"].map(str::to_owned);
    host.state().away.extend(all);
    assert_eq!(code(stage(&host, "ext4")), Code::Unavailable);
    assert_eq!(host.state().lost, Some(lost));
    unstage(&host).expect("gone");
    assert_eq!(host.state().lost, None);
    let lost_before: Step = |host| {
        host.state().lost = Some(nqn().replace("01234567", "89abcdef"));
        Ok(())
    };
    everywhere(&[lost_before], |host| stage(host, "ext4"));
}
