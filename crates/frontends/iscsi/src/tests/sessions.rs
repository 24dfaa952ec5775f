//! How sessions live and end.

use super::*;
use crate::TargetDetail;

fn logout(reason: u8, cid: u16) -> Header {
    Header::new(0x40 | opcode::LOGOUT, 0x80 | reason).with_u16(20, cid)
}

#[test]
fn a_logout_waits_for_what_is_under_way() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    host.give(&mut world, logout(1, 99), &[]);
    assert_eq!(host.one().header.0[2], 1, "no such connection");
    host.give(&mut world, logout(2, 1), &[]);
    assert_eq!(host.one().header.0[2], 2, "recovery is not supported");
    world.runs = false;
    host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    host.give(&mut world, logout(0, 0), &[]);
    assert_eq!(host.pdus(), []);
    world.runs = true;
    host.settle(&mut world);
    let answer = host.one();
    assert_eq!((answer.kind(), answer.header.0[2]), (opcode::LOGOUT_RESPONSE, 0));
    // RFC 7143, 11.15.3 and 11.15.4: seconds to wait, and none for which anything is kept, though the initiator has not spoken of that.
    assert_eq!(answer.header.0[40..44], [0, 2, 0, 0]);
    assert_eq!(host.closed, Some(CloseReason::Goodbye));
    assert_eq!(world.board.sessions(), 0);
}

#[test]
fn a_session_says_what_it_is_to_who_looks() {
    let mut world = World::new();
    let host = Host::open(&mut world);
    assert!(
        host.front.report().is_none() && host.front.ends().is_none(),
        "who connects is nobody yet"
    );
    let portal = std::net::SocketAddr::from(([192, 0, 2, 1], 3260));
    let mut named = Host::open(&mut world);
    named.front = named.front.at(portal);
    let keys = [
        ("HeaderDigest", "CRC32C"),
        ("MaxRecvDataSegmentLength", "65536"),
        ("FirstBurstLength", "16384"),
    ];
    let _ = named.login_with(&mut world, INITIATOR, 7, &keys);
    let report = named.front.report().expect("a session");
    assert_eq!(
        (report.initiator.as_str(), report.target.as_deref()),
        (INITIATOR, Some(TARGET))
    );
    assert_eq!(named.front.ends(), Some((INITIATOR, Some(TARGET))));
    assert_eq!((report.isid, report.portal), ([0x80, 0, 0, 0, 0, 7], Some(portal)));
    assert!(report.tsih > 0 && !report.is_proven && report.since <= world.now);
    let agreed = &report.agreed;
    assert!(agreed.header_digest && !agreed.data_digest);
    assert_eq!((agreed.max_send, agreed.first_burst), (65_536, 16_384));
    assert_eq!(
        (report.max_receive, report.commands, report.under_way),
        (256 << 10, 128, 0)
    );
    // What is under way is counted.
    let mut host = Host::session(&mut world);
    world.runs = false;
    host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    assert_eq!(host.front.report().expect("a session").under_way, 1);
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(host.front.report().expect("a session").under_way, 0);
}

/// A session with a write under way, and a login that waits for its end.
fn reinstating(world: &mut World) -> [Host; 2] {
    let mut old = Host::session(world);
    world.runs = false;
    old.give(world, write(1, 0, 1), &pattern(1, 4096));
    let mut new = Host::open(world);
    let mut text = Text::new();
    text.push("InitiatorName", INITIATOR);
    text.push("TargetName", TARGET);
    let header = new.login_header(1, 3, 1);
    new.send(world, &pdu(header, text.as_bytes(), (false, false)));
    old.settle(world);
    new.settle(world);
    assert!(new.output.is_empty(), "a write of the old one is under way");
    [old, new]
}

#[test]
fn what_changes_while_a_login_waits_counts() {
    type Change = fn(&mut Catalog, &mut Target);
    let changes: [Change; 3] = [
        |_, target| target.initiators.clear(),
        |_, target| target.groups.clear(),
        |catalog, _| {
            let known = Arc::make_mut(&mut catalog.initiators[0]);
            known.chap = Some(Secret::new(SECRET.as_bytes().to_vec()));
        },
    ];
    for change in changes {
        let mut world = World::new();
        let [mut old, mut new] = reinstating(&mut world);
        world.change(&mut [], change);
        world.runs = true;
        old.settle(&mut world);
        new.settle(&mut world);
        let answer = new.output_of_login();
        assert_eq!((answer.header.0[36], answer.header.0[37]), (3, 1));
        assert!(new.closed.is_some());
        assert_eq!(world.board.sessions(), 0);
    }
}

#[test]
fn a_session_is_reinstated_when_the_old_one_is_over() {
    let mut world = World::new();
    let [mut old, mut new] = reinstating(&mut world);
    world.runs = true;
    old.settle(&mut world);
    assert!(matches!(old.closed, Some(CloseReason::Refused(_))), "{:?}", old.closed);
    new.settle(&mut world);
    let answer = new.output_of_login();
    assert_eq!((answer.header.0[36], answer.header.0[37]), (0, 0));
    assert_eq!(world.board.sessions(), 1);
    // It is another nexus: the first command of a disk hears of that.
    new.begin(&mut world);
    assert_eq!(
        new.run(&mut world, command(1, 0x80, 0, TEST_UNIT_READY), &[]).sense[0],
        6
    );
    // Another port of the same initiator has a session of its own.
    let _other = Host::session_of(&mut world, 2, &[]);
    assert_eq!((world.board.sessions(), new.closed), (2, None));
}

/// A session that ends at once has writes under way. Until its connection is gone, and what waits for a volume with it, no other one has its
/// place: what that writes could come before.
#[test]
fn a_place_is_kept_while_something_of_a_broken_session_is_under_way() {
    for is_busy in [true, false] {
        let mut world = World::new();
        let mut old = Host::session(&mut world);
        world.runs = !is_busy;
        old.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
        // It breaks the protocol, and does not hear what it is told of that.
        old.fetches = false;
        let header = Header::new(0x40 | opcode::LOGIN, 0x87).with_u32(24, old.cmd_sn);
        old.send(&mut world, &pdu(header, &[], old.digests));
        assert!(old.closed.is_none() && !old.front.wants_input(), "{:?}", old.closed);
        assert_eq!(world.board.sessions(), usize::from(is_busy));
        let mut new = Host::open(&mut world);
        let mut text = Text::new();
        text.push("InitiatorName", INITIATOR);
        text.push("TargetName", TARGET);
        let header = new.login_header(1, 3, 1);
        new.send(&mut world, &pdu(header, text.as_bytes(), (false, false)));
        assert_eq!(new.output.is_empty(), is_busy);
        // It takes nothing of what it is told: that is not waited for.
        world.pass(Duration::from_secs(5));
        old.tick(&mut world);
        assert!(matches!(old.closed, Some(CloseReason::Protocol(_))), "{:?}", old.closed);
        old.gone(&mut world);
        new.settle(&mut world);
        let answer = new.output_of_login();
        assert_eq!((answer.header.0[36], answer.header.0[37]), (0, 0));
        assert_eq!(world.board.sessions(), 1);
    }
}

#[test]
fn pings_in_both_directions() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let header = Header::new(0x40 | opcode::NOP_OUT, 0x80).with_target_tag(NO_TAG);
    let tag = host.give(&mut world, header, b"anybody there?");
    let answer = host.one();
    assert_eq!((answer.kind(), answer.header.task_tag()), (opcode::NOP_IN, tag));
    assert_eq!(
        (answer.header.target_tag(), &answer.data[..]),
        (NO_TAG, &b"anybody there?"[..])
    );
    // One without a tag wants no answer.
    let header = header.with_task_tag(NO_TAG).with_u32(24, host.cmd_sn);
    host.send(&mut world, &pdu(header, &[], host.digests));
    assert_eq!(host.pdus(), []);
    // A host that is silent is asked, and goes on when it answers.
    for _ in 0..3 {
        let pings = wait(&mut host, &mut world);
        assert_eq!(pings.len(), 1, "{:?}", host.closed);
        let ping = &pings[0].header;
        assert_eq!((ping.opcode(), ping.task_tag()), (opcode::NOP_IN, NO_TAG));
        assert_ne!(ping.target_tag(), NO_TAG);
        world.pass(Duration::from_secs(1));
        let header = header.with_target_tag(ping.target_tag());
        host.send(&mut world, &pdu(header, &[], host.digests));
    }
    assert_eq!(wait(&mut host, &mut world).len(), 1);
    assert_eq!(
        (wait(&mut host, &mut world), host.closed),
        (vec![], Some(CloseReason::Timeout))
    );
}

/// Time passes until the target says something, or ends the connection.
fn wait(host: &mut Host, world: &mut World) -> Vec<Pdu> {
    for _ in 0..20 {
        world.now = host.front.deadline().expect("a deadline");
        host.tick(world);
        let pdus = host.pdus();
        if !pdus.is_empty() || host.closed.is_some() {
            return pdus;
        }
    }
    panic!("nothing happens");
}

/// What a host that hears nothing repeats by another path must not be carried out here afterwards.
#[test]
fn an_old_task_of_a_silent_host_ends_its_session() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    world.runs = false;
    host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    let mut pings = 0;
    while host.closed.is_none() {
        let at = host.front.deadline().expect("a deadline");
        assert!(at <= Time(0).plus(Duration::from_secs(4)), "{at:?}");
        world.now = at;
        host.tick(&mut world);
        pings += host.pdus().len();
    }
    assert_eq!((host.closed.clone(), pings), (Some(CloseReason::Timeout), 1));
    // One that is heard, or answers, may wait as long as the volume does.
    let mut host = Host::session_of(&mut world, 2, &[]);
    let tag = host.give(&mut world, write(1, 0, 1), &pattern(1, 4096));
    for round in 0..20 {
        world.pass(Duration::from_millis([1400, 2900][round % 2]));
        host.tick(&mut world);
        let asked = host.one().header.target_tag();
        world.pass(Duration::from_millis(1));
        let header = Header::new(0x40 | opcode::NOP_OUT, 0x80)
            .with_task_tag(NO_TAG)
            .with_target_tag([NO_TAG, asked][round % 2])
            .with_u32(24, host.cmd_sn);
        host.send(&mut world, &pdu(header, &[], host.digests));
    }
    world.runs = true;
    host.settle(&mut world);
    let answers = host.pdus();
    assert!(
        answers.iter().any(|pdu| pdu.header.task_tag() == tag),
        "{:?}",
        host.closed
    );
}

#[test]
fn who_may_not_any_more_is_dismissed() {
    type Change = fn(&mut Catalog, &mut Target);
    let changes: [(&str, Change); 4] = [
        ("the initiator", |_, target| target.initiators.clear()),
        ("the gateway", |_, target| target.groups.clear()),
        ("a secret", |catalog, _| {
            let mut initiator = Initiator::clone(&catalog.initiators[0]);
            initiator.chap = Some(Secret::new(b"now it has one".to_vec()));
            catalog.initiators[0] = Arc::new(initiator);
        }),
        ("proof", |catalog, _| {
            let detail = TargetDetail {
                chap_required: true,
                ..TargetDetail::default()
            };
            catalog.details.insert(TARGET.into(), detail);
        }),
    ];
    for (what, change) in changes {
        let mut world = World::new();
        let mut host = Host::session(&mut world);
        world.change(&mut [&mut host], change);
        let told = host.one();
        assert_eq!((told.kind(), told.header.0[36]), (opcode::ASYNC, 3), "{what}");
        assert!(
            matches!(host.closed, Some(CloseReason::Refused(_))),
            "{what}: {:?}",
            host.closed
        );
        assert_eq!(world.board.sessions(), 0);
    }
}

#[test]
fn a_gateway_that_goes_asks_for_a_logout() {
    for logs_out in [true, false] {
        let mut world = World::new();
        let mut host = Host::session(&mut world);
        world.change(&mut [&mut host], |catalog, _| {
            let detail = TargetDetail {
                leaving: true,
                ..TargetDetail::default()
            };
            catalog.details.insert(TARGET.into(), detail);
        });
        let told = host.one();
        assert_eq!(
            (told.kind(), told.header.0[36], told.header.u16_at(42)),
            (opcode::ASYNC, 1, 5)
        );
        // What is asked for is still done.
        assert_eq!(host.run(&mut world, read(1, 0, 1), &[]).told(), GOOD);
        if logs_out {
            host.give(&mut world, logout(0, 0), &[]);
            assert_eq!(host.one().kind(), opcode::LOGOUT_RESPONSE);
            continue;
        }
        world.pass(Duration::from_secs(5));
        host.tick(&mut world);
        assert_eq!(host.one().header.0[36], 2, "the connection is dropped");
        assert!(matches!(host.closed, Some(CloseReason::Refused(_))));
    }
}

/// As the settings are in a cluster: the target has other gateways then.
#[test]
fn a_gateway_that_is_taken_from_a_target_asks_for_a_logout() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    world.change(&mut [&mut host], |catalog, target| {
        target.groups = vec![4];
        for unit in &mut target.units {
            Arc::make_mut(unit).access = vec![(4, Alua::Optimized)];
        }
        let detail = TargetDetail {
            leaving: true,
            ..TargetDetail::default()
        };
        catalog.details.insert(TARGET.into(), detail);
    });
    let told = host.one();
    assert_eq!((told.kind(), told.header.0[36]), (opcode::ASYNC, 1));
    // It is not the best way any more (2Ah/06h), but one.
    let outcome = host.run(&mut world, read(1, 0, 1), &[]);
    assert_eq!(outcome.told(), (2, [6, 0x2a, 6]));
    assert_eq!(host.run(&mut world, read(1, 0, 1), &[]).told(), GOOD);
    let mut late = Host::open(&mut world);
    let answer = late.login_with(&mut world, INITIATOR, 2, &[]);
    assert_eq!((answer.header.0[36], answer.header.0[37]), (3, 1), "nobody comes in");
    world.pass(Duration::from_secs(5));
    host.tick(&mut world);
    assert_eq!(host.one().header.0[36], 2, "the connection is dropped");
    assert!(matches!(host.closed, Some(CloseReason::Refused(_))));
}

#[test]
fn a_logical_unit_that_goes_takes_its_tasks_with_it() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let tag = host.give(&mut world, write(1, 0, 1), &[]);
    let r2t = host.one();
    world.change(&mut [&mut host], |_, target| target.units.truncate(1));
    let answer = host.one();
    assert_eq!((answer.header.task_tag(), answer.status()), (tag, (2, [5, 0x25, 0])));
    let late = host.data_out(tag, r2t.header.target_tag(), 0, 0, &pattern(1, 4096), true);
    host.send(&mut world, &late);
    assert_eq!((host.pdus(), host.closed.clone()), (vec![], None));
}

/// Its volume is in another pool from now on, by another number: it is the same disk to the initiator, and what is under way is carried out.
#[test]
fn a_logical_unit_whose_volume_has_moved_takes_nothing_with_it() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let tag = host.give(&mut world, write(1, 0, 1), &[]);
    let r2t = host.one();
    let moved = world.volumes.add("elsewhere", 16 << 20, 1 << 20, false);
    world.change(&mut [&mut host], |_, target| {
        Arc::make_mut(&mut target.units[1]).volume = moved
    });
    assert!(host.pdus().is_empty());
    let data = host.data_out(tag, r2t.header.target_tag(), 0, 0, &pattern(1, 4096), true);
    host.send(&mut world, &data);
    assert_eq!(host.one().status().0, 0);
    // Another disk has its number: that takes them.
    let tag = host.give(&mut world, write(1, 0, 1), &[]);
    host.one();
    world.change(&mut [&mut host], |_, target| {
        let unit = Arc::make_mut(&mut target.units[1]);
        (unit.volume, unit.uuid) = (amita_types::VolumeId(99), [77; 16]);
    });
    let answer = host.one();
    assert_eq!((answer.header.task_tag(), answer.status()), (tag, (2, [5, 0x25, 0])));
}

#[test]
fn snacks_and_unknown_requests_are_refused() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    for (kind, reason) in [(0x10, 3), (0x1c, 5), (0x07, 5), (0x21, 5)] {
        let header = Header::new(kind, 0x80).with_task_tag(5).with_u32(24, host.cmd_sn);
        host.send(&mut world, &pdu(header, &[], host.digests));
        let reject = host.one();
        assert_eq!(
            (reject.kind(), reject.header.0[2]),
            (opcode::REJECT, reason),
            "opcode {kind:x}"
        );
        assert_eq!(reject.header.task_tag(), NO_TAG);
    }
    assert_eq!(
        host.run(&mut world, command(0, 0x80, 0, TEST_UNIT_READY), &[]).told(),
        GOOD
    );
}

#[test]
fn reservations_are_one_truth_for_all_nexuses() {
    let mut world = World::new();
    let mut host = Host::session_of(&mut world, 1, &[]);
    let mut other = Host::session_of(&mut world, 2, &[]);
    // PERSISTENT RESERVE OUT: REGISTER, and RESERVE write exclusive.
    let out = |action: u8, kind: u8| {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, kind, 24);
        command(1, 0xa0, 24, cdb)
    };
    let mut list = [0; 24];
    list[8..16].copy_from_slice(&7u64.to_be_bytes());
    assert_eq!(host.run(&mut world, out(0, 0), &list).told(), GOOD);
    let mut list = [0; 24];
    list[..8].copy_from_slice(&7u64.to_be_bytes());
    assert_eq!(host.run(&mut world, out(1, 1), &list).told(), GOOD);
    let data = pattern(1, 4096);
    assert_eq!(
        other.run(&mut world, write(1, 0, 1), &data).status,
        0x18,
        "reservation conflict"
    );
    assert_eq!(other.run(&mut world, read(1, 0, 1), &[]).told(), GOOD);
    assert_eq!(host.run(&mut world, write(1, 0, 1), &data).told(), GOOD);
}
