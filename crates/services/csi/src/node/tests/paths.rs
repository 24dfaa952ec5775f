//! Paths that are missing, lost, or in the way.

use super::*;
use std::time::Duration;

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
    // Nothing is waited for where there is a path.
    assert_eq!(host.state().paths.len(), 1);
    assert_eq!(host.state().lines.len(), 4);
    host.state().refusals.clear();
    assert_eq!(node(&host).connect_missing().expect("asked"), 1);
    // For three seconds, where there is none.
    let host = Host::new(&nqn());
    let never = ["192.0.2.1:4420", "192.0.2.2:4420"].map(|address| (address.to_owned(), usize::MAX));
    host.state().refusals = BTreeMap::from(never);
    assert_eq!(code(stage(&host, "ext4")), Code::Unavailable);
    assert_eq!(host.state().lines.len(), 14);
    assert_eq!(host.state().passed.as_secs(), 3);
    // One that refuses for good is no obstacle where there is another.
    let host = Host::new(&nqn());
    host.state().refusals = BTreeMap::from([("192.0.2.1:4420".to_owned(), usize::MAX)]);
    stage(&host, "ext4").expect("staged");
    assert_eq!(host.state().paths.len(), 1);
}

/// The kernel waits ten seconds for a gateway that takes a connection and says nothing, and connects nothing else meanwhile.
#[test]
fn a_gateway_that_keeps_waiting_does_so_once() {
    let ten = |host: &Host, so_often: u64| {
        assert_eq!(host.state().passed.as_secs(), 10 * so_often);
    };
    let (first, second) = ("192.0.2.1:4420", "192.0.2.2:4420");
    let host = Host::new(&nqn());
    host.state().half_dead.insert(first.to_owned());
    let node = node(&host);
    let stage = || node.stage(&stage_of(writer("ext4"), EXCLUSIVE)).map(drop);
    stage().expect("staged by the other one");
    assert_eq!(host.state().lines.len(), 2);
    ten(&host, 1);
    // Neither the next volume nor the search for paths asks it again soon.
    for _ in 0..3 {
        unstage(&host).expect("gone");
        stage().expect("staged by the other one");
        assert_eq!(node.connect_missing().expect("asked"), 0);
    }
    ten(&host, 1);
    // Later it is, and twice as late after that.
    host.state().passed += Duration::from_secs(30);
    assert_eq!(node.connect_missing().expect("asked"), 0);
    host.state().passed += Duration::from_secs(30);
    assert_eq!(node.connect_missing().expect("asked"), 0);
    assert_eq!(host.state().passed.as_secs(), 10 + 30 + 10 + 30);
    host.state().half_dead.clear();
    host.state().passed += Duration::from_secs(30);
    assert_eq!(node.connect_missing().expect("asked"), 1);
    // Where there is no other, it is not waited for again and again either.
    let host = Host::new(&nqn());
    let all = [first, second].map(str::to_owned);
    host.state().half_dead.extend(all);
    let node = super::node(&host);
    let stage = || node.stage(&stage_of(writer("ext4"), EXCLUSIVE)).map(drop);
    for _ in 0..3 {
        let refused = stage().expect_err("no path");
        assert_eq!(refused.code(), Code::Unavailable);
        ten(&host, 2);
    }
    host.state().half_dead.clear();
    host.state().passed += Duration::from_secs(30);
    stage().expect("staged");
    assert_eq!(host.state().paths.len(), 2);
    // Nobody waits for one that says nothing by TCP but who asks it: it is asked where there is no other.
    let host = Host::new(&nqn());
    host.state().away.extend([first, second].map(str::to_owned));
    let node = super::node(&host);
    let stage = || node.stage(&stage_of(writer("ext4"), EXCLUSIVE)).map(drop);
    assert_eq!(code(stage()), Code::Unavailable);
    host.state().away.clear();
    stage().expect("staged");
    // Once one of them is there, it is enough.
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

/// A gateway that has nothing to say, or does not answer, is not the only one.
#[test]
fn each_volume_is_asked_for_until_a_gateway_names_it() {
    let host = Host::new(&nqn());
    stage(&host, "ext4").expect("staged");
    host.state().gateways.push("192.0.2.3:4420");
    host.state().mute.insert("192.0.2.1:4420");
    assert_eq!(node(&host).connect_missing().expect("asked"), 1);
    host.state().gateways.push("192.0.2.4:4420");
    host.state().mute.clear();
    host.state().away.insert("192.0.2.1:4420".to_owned());
    assert_eq!(node(&host).connect_missing().expect("asked"), 1);
    assert_eq!(host.state().paths.len(), 4);
    // One is enough for each.
    host.state().away.clear();
    host.cut(None);
    node(&host).connect_missing().expect("asked");
    assert_eq!(host.done(), 3, "a path to one service, its log, and the end of that");
    // None answers.
    let all = host
        .state()
        .paths
        .iter()
        .map(|(_, address)| address.clone())
        .collect::<Vec<_>>();
    host.state().away.extend(all);
    assert_eq!(code(node(&host).connect_missing()), Code::Unavailable);
}

#[test]
fn a_path_to_a_gateway_that_left_is_ended() {
    let host = Host::new(&nqn());
    let node = node(&host);
    node.stage(&stage_of(writer("ext4"), EXCLUSIVE)).expect("staged");
    let ask = |seconds: u64| {
        host.state().passed += Duration::from_secs(seconds);
        node.connect_missing().expect("asked");
        host.state().paths.len()
    };
    // It is started anew: it is named again soon.
    host.state().gateways.retain(|gateway| *gateway != "192.0.2.1:4420");
    host.state().broken.insert("192.0.2.1:4420");
    assert_eq!((ask(0), ask(599)), (2, 2));
    host.state().gateways.push("192.0.2.1:4420");
    assert_eq!(ask(30), 2);
    host.state().gateways.retain(|gateway| *gateway != "192.0.2.1:4420");
    assert_eq!((ask(30), ask(570), ask(30)), (2, 2, 1));
    // What is named nowhere, and what is live, stays.
    host.state().gateways.clear();
    assert_eq!((ask(0), ask(700)), (1, 1));
    host.state().gateways.push("192.0.2.9:4420");
    host.state().away.insert("192.0.2.9:4420".to_owned());
    assert_eq!((ask(0), ask(700)), (1, 1));
}

/// A kernel that has both disks would have the new one used while the old one sends what is queued.
#[test]
fn nothing_is_staged_beside_what_was_lost() {
    let lost = nqn().replace("01234567", "89abcdef");
    let host = Host::new(&nqn());
    {
        let mut state = host.state();
        (state.lost, state.takes_both) = (Some(lost.clone()), true);
        // Its paths are away just when it is looked whether they are let in.
        state.broken.extend(["192.0.2.1:4420", "192.0.2.2:4420"]);
    }
    assert_eq!(code(stage(&host, "ext4")), Code::Unavailable);
    assert_eq!(host.state().lost, Some(lost));
    assert_eq!(host.state().formatted, 0);
    host.state().broken.clear();
    stage(&host, "ext4").expect("staged");
    assert_eq!(host.state().lost, None);
}

#[test]
fn a_late_call_does_not_end_a_newer_attachment() {
    let lost = nqn().replace("01234567", "89abcdef");
    let stage_as = |host: &Host, number: &str| {
        let more = [("exclusive", "1"), ("attachment", number)];
        node(host).stage(&stage_of(writer("ext4"), &more)).map(drop)
    };
    let host = Host::new(&nqn());
    host.state().lost = Some(lost.clone());
    host.state().lost_number = 9;
    assert_eq!(code(stage_as(&host, "7")), Code::FailedPrecondition);
    assert_eq!(host.state().lost, Some(lost));
    assert_eq!(host.state().lines.len(), 0);
    stage_as(&host, "10").expect("staged");
    assert_eq!(host.state().lost, None);
}

/// A volume was taken from this node while the driver was away.
#[test]
fn paths_of_before_that_nobody_uses_are_ended() {
    let disk: Step = |host| {
        let request = stage_of(block(Mode::SingleNodeWriter), EXCLUSIVE);
        node(host).stage(&request).map(drop)
    };
    let bound: Step = |host| publish(host, block(Mode::SingleNodeWriter), false);
    let mounted: Step = |host| stage(host, "ext4");
    let built: Step = |host| {
        host.state().built.push("dm-3");
        Ok(())
    };
    let taken: Step = |host| {
        host.state().broken.extend(["192.0.2.1:4420", "192.0.2.2:4420"]);
        Ok(())
    };
    let cases: [(&[Step], usize); 5] = [
        (&[disk, taken], 0),
        (&[disk], 2),
        (&[disk, bound, taken], 2),
        (&[disk, built, taken], 2),
        (&[mounted, taken], 2),
    ];
    for (number, (before, left)) in cases.into_iter().enumerate() {
        let host = Host::new(&nqn());
        for step in before {
            step(&host).expect("what comes before");
        }
        let node = node(&host);
        for _ in 0..2 {
            node.end_of_leftovers().expect("looked");
            assert_eq!(host.state().paths.len(), 2, "{number}");
            host.state().passed += Duration::from_secs(300);
        }
        node.end_of_leftovers().expect("looked");
        assert_eq!(host.state().paths.len(), left, "{number}");
    }
    // What has come since the driver was started is kubelet's to unstage; and what was let in once more is.
    let begins: [&[Step]; 2] = [&[], &[disk, taken]];
    for before in begins {
        let host = Host::new(&nqn());
        for step in before {
            step(&host).expect("what comes before");
        }
        let node = node(&host);
        node.end_of_leftovers().expect("looked");
        host.state().broken.clear();
        disk(&host).expect("staged");
        node.end_of_leftovers().expect("looked");
        taken(&host).expect("taken");
        host.state().passed += Duration::from_secs(1000);
        node.end_of_leftovers().expect("looked");
        assert_eq!(host.state().paths.len(), 2);
    }
}
