//! Whose a disk is, and whether what is on it was ever whole.

use super::*;

#[test]
fn a_reservation_is_taken_only_where_the_controller_says_so() {
    let host = Host::new(&nqn());
    host.state().content = Some("ext4".to_owned());
    host.state().holder = Some(0xaa);
    assert_eq!(code(stage(&host, "ext4")), Code::FailedPrecondition);
    assert!(host.state().mounts.is_empty());
    let other = stage_of(writer("ext4"), &[("exclusive", "1"), ("preempt", "0x00000000000000bb")]);
    assert_eq!(code(node(&host).stage(&other)), Code::FailedPrecondition);
    assert_eq!(host.state().holder, Some(0xaa));
    let this = stage_of(writer("ext4"), &[("exclusive", "1"), ("preempt", "0x00000000000000aa")]);
    node(&host).stage(&this).expect("staged");
    assert_eq!(host.state().holder, Some(key(own())));
    // A disk of several nodes is reserved by none.
    let host = Host::new(&nqn());
    node(&host)
        .stage(&stage_of(block(Mode::MultiNodeMultiWriter), &[]))
        .expect("staged");
    assert_eq!(host.state().holder, None);
    // It ends what is left of the time when it was one node's: this one's, or another's; and nothing that another has made since.
    let released = |holder: u64, more: &[(&str, &str)]| {
        let host = Host::new(&nqn());
        host.state().holder = Some(holder);
        let more = [&[("release", "1")], more].concat();
        node(&host)
            .stage(&stage_of(block(Mode::MultiNodeMultiWriter), &more))
            .expect("staged");
        host.state().holder
    };
    assert_eq!(released(key(own()), &[]), None);
    assert_eq!(released(0xaa, &[("preempt", "0x00000000000000aa")]), None);
    assert_eq!(released(0xbb, &[("preempt", "0x00000000000000aa")]), Some(0xbb));
}

/// By a gateway that had not heard that it is gone, a host may reserve the volume after the controller has looked. Of two attachments everybody knows which is
/// the newer one.
#[test]
fn what_an_older_attachment_has_reserved_behind_publishing_is_taken() {
    let other = Uuid::from_u128(7);
    let begin = |key: u64| {
        let host = Host::new(&nqn());
        {
            let mut state = host.state();
            state.holder = Some(key);
            state.registered.insert(key);
            state.hosts.insert(key, other);
        }
        host
    };
    let third = id::Keys::of(other, Some(3));
    let stage_as = |host: &Host, number: &str| {
        let more = [("exclusive", "1"), ("attachment", number)];
        node(host).stage(&stage_of(writer("ext4"), &more)).map(drop)
    };
    let host = begin(third.own);
    stage_as(&host, "7").expect("staged");
    assert_eq!(host.state().holder, Some(id::Keys::of(own(), Some(7)).own));
    // A newer one stays; so does what says nothing of attachments, and what a kernel does not tell.
    let host = begin(third.own);
    assert_eq!(code(stage_as(&host, "2")), Code::FailedPrecondition);
    assert_eq!(host.state().holder, Some(third.own));
    let host = begin(0xaa);
    assert_eq!(code(stage_as(&host, "7")), Code::FailedPrecondition);
    let host = begin(third.own);
    host.state().is_silent = true;
    assert_eq!(code(stage_as(&host, "7")), Code::FailedPrecondition);
    assert_eq!(code(stage_as(&host, "x")), Code::InvalidArgument);
    // It was making a file system: so was this host itself, by an attachment before.
    let host = begin(third.making);
    host.state().has_data = true;
    stage_as(&host, "7").expect("staged");
    let seventh = id::Keys::of(own(), Some(7));
    let is_made = |host: &Host, holder: u64| {
        let state = host.state();
        assert_eq!((state.holder, state.formatted), (Some(holder), 1));
    };
    is_made(&host, seventh.own);
    unstage(&host).expect("gone");
    stage_as(&host, "8").expect("staged");
    is_made(&host, id::Keys::of(own(), Some(8)).own);
    let host = Host::new(&nqn());
    host.state().is_mkfs_killed = true;
    assert_eq!(code(stage_as(&host, "7")), Code::Internal);
    assert_eq!(host.state().holder, Some(seventh.making));
    stage_as(&host, "9").expect("staged");
    is_made(&host, id::Keys::of(own(), Some(9)).own);
}

fn is_made_once(host: &Host) {
    let state = host.state();
    assert_eq!((state.holder, state.formatted), (Some(key(own())), 1));
}

/// A mkfs that is cut leaves what no tool knows. Nothing was ever mounted from it, and whoever has the volume next makes it anew.
#[test]
fn a_mkfs_that_was_cut_is_begun_anew() {
    let host = Host::new(&nqn());
    host.state().is_mkfs_killed = true;
    assert_eq!(code(stage(&host, "ext4")), Code::Internal);
    assert!(host.state().has_data);
    stage(&host, "ext4").expect("made anew");
    is_made_once(&host);
    // Another node was lost in the middle.
    let lost = "0x00000000000000aa";
    let host = Host::new(&nqn());
    host.state().holder = Some(0xaa);
    host.state().has_data = true;
    let request = stage_of(
        writer("xfs"),
        &[("exclusive", "1"), ("preempt", lost), ("unfinished", "1")],
    );
    host.state().is_mkfs_killed = true;
    assert_eq!(code(node(&host).stage(&request)), Code::Internal);
    node(&host).stage(&request).expect("made anew");
    is_made_once(&host);
    // What was told once is told again, and is not so any more.
    unstage(&host).expect("gone");
    node(&host).stage(&request).expect("as it is");
    unstage(&host).expect("gone");
    host.state().holder = None;
    node(&host).stage(&request).expect("as it is");
    is_made_once(&host);
    let lost_before: Step = |host| {
        host.state().holder = Some(0xaa);
        host.state().has_data = true;
        Ok(())
    };
    everywhere(&[lost_before], |host| {
        let more = [("exclusive", "1"), ("preempt", "0xaa"), ("unfinished", "1")];
        node(host).stage(&stage_of(writer("ext4"), &more)).map(drop)
    });
    // What is there is of something else.
    for content in ["xfs", "partitions"] {
        let host = Host::new(&nqn());
        host.state().is_mkfs_killed = true;
        assert_eq!(code(stage(&host, "ext4")), Code::Internal);
        host.state().content = Some(content.to_owned());
        assert_eq!(code(stage(&host, "ext4")), Code::FailedPrecondition, "{content}");
    }
    // Without reservations nobody knows.
    let host = Host::new(&nqn());
    host.state().is_mkfs_killed = true;
    let request = stage_of(writer("ext4"), &[]);
    assert_eq!(code(node(&host).stage(&request)), Code::Internal);
    assert_eq!(code(node(&host).stage(&request)), Code::FailedPrecondition);
}

/// A host that is about to take what another one had not made whole is known by the key that says so before it has taken anything. Where it is cut there, and the
/// other one comes to its end after all, the key says nothing any more: what is there is whole, and in use perhaps.
#[test]
fn a_key_that_holds_nothing_says_nothing_of_the_disk() {
    let before = || {
        let host = Host::new(&nqn());
        let mut state = host.state();
        (state.holder, state.has_data) = (Some(0xaa), true);
        drop(state);
        host
    };
    let made_whole = |host: &Host| {
        let mut state = host.state();
        (state.holder, state.has_data, state.content) = (None, false, Some("ext4".to_owned()));
    };
    let lost = [("exclusive", "1"), ("preempt", "0xaa"), ("unfinished", "1")];
    let mut known = 0;
    for cut in (1..40).flat_map(|at| [Cut::Before(at), Cut::After(at)]) {
        let host = before();
        host.cut(Some(cut));
        let cut_off = node(&host).stage(&stage_of(writer("ext4"), &lost));
        host.cut(None);
        if host.state().holder != Some(0xaa) {
            break;
        }
        cut_off.expect_err("it was cut");
        known += usize::from(host.state().registered.contains(&id::Keys::of(own(), None).making));
        made_whole(&host);
        // As the controller tells it by now, or told it then.
        for told in [EXCLUSIVE, &lost] {
            node(&host).stage(&stage_of(writer("ext4"), told)).expect("staged");
            let state = host.state();
            assert_eq!((state.holder, state.formatted), (Some(key(own())), 0), "{cut:?}");
            drop(state);
            unstage(&host).expect("gone");
        }
    }
    assert!(known > 0, "it was never cut between its key and the disk");
    // By an attachment of before.
    let host = before();
    host.state().registered.insert(id::Keys::of(own(), Some(3)).making);
    made_whole(&host);
    let later = [("exclusive", "1"), ("attachment", "4")];
    node(&host).stage(&stage_of(writer("ext4"), &later)).expect("staged");
    assert_eq!(host.state().formatted, 0);
}

/// Whoever has the disk itself writes what no tool knows, as a mkfs does that was cut: no later staging takes the one for the other.
#[test]
fn what_was_used_as_a_disk_is_no_mkfs_that_was_cut() {
    let disk = || block(Mode::SingleNodeWriter);
    let lost = [("exclusive", "1"), ("preempt", "0xaa"), ("unfinished", "1")];
    let own_was_cut: Step = |host| {
        host.state().is_mkfs_killed = true;
        stage(host, "ext4").expect_err("it was killed");
        Ok(())
    };
    let anothers_was_cut: Step = |host| {
        host.state().holder = Some(0xaa);
        host.state().has_data = true;
        Ok(())
    };
    for (cut, told) in [(own_was_cut, EXCLUSIVE), (anothers_was_cut, &lost[..])] {
        let host = Host::new(&nqn());
        cut(&host).expect("cut");
        node(&host).stage(&stage_of(disk(), told)).expect("staged as a disk");
        assert_eq!(host.state().holder, Some(key(own())));
        publish(&host, disk(), false).expect("bound");
        unpublish(&host).expect("bound no longer");
        unstage(&host).expect("gone");
        for told in [EXCLUSIVE, told] {
            let request = stage_of(writer("ext4"), told);
            assert_eq!(code(node(&host).stage(&request)), Code::FailedPrecondition);
        }
        let state = host.state();
        assert!(state.has_data && state.formatted == 0);
    }
    everywhere(&[own_was_cut], |host| {
        let request = stage_of(block(Mode::SingleNodeWriter), EXCLUSIVE);
        node(host).stage(&request).map(drop)
    });
    everywhere(&[anothers_was_cut], |host| {
        let more = [("exclusive", "1"), ("preempt", "0xaa"), ("unfinished", "1")];
        node(host)
            .stage(&stage_of(block(Mode::SingleNodeWriter), &more))
            .map(drop)
    });
}

/// Who only reads makes nothing anew, and half a file system is none.
#[test]
fn half_a_file_system_is_not_mounted_to_be_read() {
    let host = Host::new(&nqn());
    host.state().is_mkfs_killed = true;
    assert_eq!(code(stage(&host, "ext4")), Code::Internal);
    // Its marks are there already.
    host.state().content = Some("ext4".to_owned());
    let request = stage_of(mount(Mode::SingleNodeReaderOnly, "ext4"), EXCLUSIVE);
    let refused = node(&host).stage(&request).expect_err("half a file system");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("not made to its end"), "{refused}");
    assert!(host.state().mounts.is_empty());
    stage(&host, "ext4").expect("made anew");
    is_made_once(&host);
}
