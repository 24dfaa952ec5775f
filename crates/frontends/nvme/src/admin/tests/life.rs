//! Properties, keep alive, shutdown, and what is refused before anything is looked at.

use super::*;

const CAP: u32 = 0x00;
const VS: u32 = 0x08;
const CC: u32 = 0x14;
const CSTS: u32 = 0x1c;
const KEEP_ALIVE: u8 = 0x18;

fn after(seconds: u64) -> Time {
    NOW.plus(Duration::from_secs(seconds))
}

fn with_kato(kato_ms: u32) -> Admin {
    let session = Session {
        kato_ms,
        ..session(Kind::Io)
    };
    ready_with(session, &Arc::new(catalog()))
}

#[test]
fn properties_are_as_they_are() {
    let admin = fresh(Kind::Io);
    let cap = admin.property_get(CAP, 8).unwrap();
    assert_eq!(cap & 0xffff, 1023, "MQES");
    assert_eq!(cap >> 16 & 1, 1, "CQR");
    assert_eq!(cap >> 24 & 0xff, 30, "TO");
    assert_eq!(cap >> 32 & 0x1f, 0, "DSTRD and NSSRS");
    assert_eq!(cap >> 37 & 0xff, 0b0100_0001, "CSS: NVM, and command sets one by one");
    assert_eq!(cap >> 48 & 0xff, 0, "MPSMIN and MPSMAX: 4 KiB");
    assert_eq!(cap >> 59 & 3, 1, "CRMS");
    assert_eq!(admin.property_get(VS, 4), Ok(0x2_0100));
    assert_eq!(admin.property_get(CC, 4), Ok(0));
    assert_eq!(admin.property_get(CSTS, 4), Ok(0));
    assert_eq!(admin.property_get(0x68, 4), Ok(30), "CRTO");
    assert_eq!(fresh(Kind::Discovery).property_get(CAP, 8).unwrap() >> 37 & 0xff, 1);
}

#[test]
fn properties_that_are_not_there() {
    let mut admin = fresh(Kind::Io);
    let invalid = Err(Status::new(0, 2, true));
    for (offset, size) in [(CAP, 4), (VS, 8), (CC, 8), (CSTS, 8), (0x68, 8), (4, 4)] {
        assert_eq!(admin.property_get(offset, size), invalid, "{offset:#x}, {size} bytes");
    }
    for offset in [0x0c, 0x10, 0x20, 0x24, 0x28, 0x30, 0x38, 0x1000, u32::MAX] {
        assert_eq!(admin.property_get(offset, 4), invalid, "{offset:#x}");
        assert_eq!(admin.property_set(NOW, offset, 4, 1), invalid.map(drop), "{offset:#x}");
    }
    for offset in [CAP, VS, CSTS] {
        assert_eq!(
            admin.property_set(NOW, offset, 4, 0),
            invalid.map(drop),
            "{offset:#x} is read only"
        );
    }
    assert_eq!(admin.property_set(NOW, CC, 8, ENABLE), invalid.map(drop));
    assert!(!admin.is_ready());
}

#[test]
fn a_controller_is_enabled_reset_and_enabled_again() {
    let mut admin = fresh(Kind::Io);
    assert!(!admin.is_ready());
    admin.property_set(NOW, CC, 4, ENABLE).unwrap();
    assert!(admin.is_ready());
    assert_eq!(admin.property_get(CC, 4), Ok(ENABLE));
    assert_eq!(admin.property_get(CSTS, 4), Ok(1));
    // What must not change while it is enabled does not.
    admin
        .property_set(NOW, CC, 4, ENABLE | 6 << 4 | 3 << 7 | 1 << 11)
        .unwrap();
    assert_eq!(admin.property_get(CC, 4), Ok(ENABLE));
    assert!(admin.is_ready());
    admin.property_set(NOW, CC, 4, 0).unwrap();
    assert_eq!(admin.property_get(CSTS, 4), Ok(0));
    admin.property_set(NOW, CC, 4, ENABLE | 6 << 4).unwrap();
    assert!(admin.is_ready());
}

#[test]
fn what_was_not_offered_is_fatal() {
    for cc in [
        1,                // entries of 1 byte
        0x0045_0001,      // of 32 bytes
        0x0036_0001,      // completions of 8 bytes
        ENABLE | 1 << 4,  // a command set that is reserved
        ENABLE | 7 << 4,  // admin commands only
        ENABLE | 1 << 7,  // pages of 8 KiB
        ENABLE | 1 << 11, // weighted arbitration
    ] {
        let mut admin = fresh(Kind::Io);
        admin.property_set(NOW, CC, 4, cc).unwrap();
        assert!(!admin.is_ready(), "{cc:#x}");
        assert_eq!(admin.property_get(CSTS, 4), Ok(2), "CFS: {cc:#x}");
        assert_eq!(failure(&mut admin, &command(0x06, 0, &[(10, 1)])), 0x00c);
        // A reset helps.
        admin.property_set(NOW, CC, 4, 0).unwrap();
        admin.property_set(NOW, CC, 4, ENABLE).unwrap();
        assert!(admin.is_ready());
    }
    for cc in [1, ENABLE, ENABLE | 7 << 4] {
        let mut admin = fresh(Kind::Discovery);
        admin.property_set(NOW, CC, 4, cc).unwrap();
        assert!(admin.is_ready(), "discovery: {cc:#x}");
    }
}

#[test]
fn a_shutdown_is_done_at_once() {
    for notification in [1 << 14, 2 << 14] {
        let mut admin = ready(Kind::Io);
        admin.property_set(NOW, CC, 4, ENABLE | notification).unwrap();
        assert_eq!(admin.property_get(CSTS, 4).unwrap() >> 2 & 3, 2, "SHST");
        assert!(!admin.is_ready());
        assert_eq!(failure(&mut admin, &command(KEEP_ALIVE, 0, &[])), 0x00c);
        admin.property_set(NOW, CC, 4, 0).unwrap();
        assert_eq!(admin.property_get(CSTS, 4), Ok(0));
        admin.property_set(NOW, CC, 4, ENABLE).unwrap();
        assert!(admin.is_ready());
    }
}

#[test]
fn commands_wait_for_the_controller_to_be_ready() {
    let mut admin = fresh(Kind::Io);
    for opcode in [0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, KEEP_ALIVE, 0xff] {
        assert_eq!(
            failure(&mut admin, &command(opcode, 0, &[(10, 1)])),
            0x00c,
            "{opcode:#x}"
        );
    }
}

#[test]
fn commands_that_are_not_there() {
    let known = [0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18];
    let mut admin = ready(Kind::Io);
    for opcode in (0..=255).filter(|opcode| !known.contains(opcode)) {
        assert_eq!(failure(&mut admin, &command(opcode, 0, &[])), 0x001, "{opcode:#x}");
    }
    let mut admin = ready(Kind::Discovery);
    for opcode in (0..=255).filter(|opcode| !known.contains(opcode) || *opcode == 0x08) {
        assert_eq!(failure(&mut admin, &command(opcode, 0, &[])), 0x001, "{opcode:#x}");
    }
}

#[test]
fn admin_commands_cannot_be_fused() {
    let mut admin = ready(Kind::Io);
    for fuse in 1..=3 {
        let mut fused = command(0x06, 0, &[(10, 1)]);
        fused.0[1] |= fuse;
        assert_eq!(failure(&mut admin, &fused), 0x002);
    }
}

#[test]
fn without_a_keep_alive_time_a_host_may_be_silent() {
    let mut admin = with_kato(0);
    assert_eq!(admin.deadline(), None);
    assert_eq!(admin.tick(after(1_000_000)), Life::Alive);
}

#[test]
fn a_silent_host_is_lost() {
    let mut admin = with_kato(4500);
    assert_eq!(admin.deadline(), Some(after(5)), "rounded up");
    assert_eq!(admin.tick(after(4)), Life::Alive);
    assert_eq!(admin.tick(after(5)), Life::KeepAliveLost);
}

#[test]
fn only_keep_alive_commands_count_and_the_time_runs_once() {
    let mut admin = with_kato(5000);
    let keep_alive = command(KEEP_ALIVE, 0, &[]);
    assert_eq!(
        admin.execute(after(4), &keep_alive, &[]),
        Turn::Reply(plain(Status::SUCCESS, 0))
    );
    assert_eq!(admin.deadline(), Some(after(9)));
    // Any other command is none.
    let _ = admin.execute(after(8), &command(0x06, 0, &[(10, 1)]), &[]);
    assert_eq!(admin.session().shared.heard_at(), after(8), "but the host was heard");
    assert_eq!(admin.deadline(), Some(after(9)));
    assert_eq!(admin.tick(after(8)), Life::Alive);
    assert_eq!(admin.tick(after(9)), Life::KeepAliveLost);
}

#[test]
fn a_keep_alive_time_that_is_set_runs_from_then_on() {
    let mut admin = with_kato(0);
    let set = command(0x09, 0, &[(10, 0x0f), (11, 10_000)]);
    assert_eq!(
        admin.execute(after(100), &set, &[]),
        Turn::Reply(plain(Status::SUCCESS, 0))
    );
    assert_eq!(admin.deadline(), Some(after(110)));
}

#[test]
fn a_controller_that_is_not_used_is_closed_after_two_minutes() {
    let mut admin = fresh(Kind::Io);
    assert_eq!(admin.deadline(), Some(after(120)));
    assert_eq!(admin.tick(after(119)), Life::Alive);
    assert_eq!(admin.tick(after(120)), Life::Idle);

    let mut admin = with_kato(5000);
    admin.property_set(after(3), CC, 4, ENABLE | 1 << 14).unwrap();
    assert_eq!(
        admin.deadline(),
        Some(after(123)),
        "the keep alive time does not run after a shutdown"
    );
    assert_eq!(admin.tick(after(123)), Life::Idle);
}

#[test]
fn a_discovery_controller_without_keep_alive_may_be_silent_for_two_minutes() {
    let mut admin = ready(Kind::Discovery);
    assert_eq!(admin.deadline(), Some(after(120)));
    let _ = admin.execute(after(100), &command(0x06, 0, &[(10, 1)]), &[]);
    assert_eq!(admin.tick(after(120)), Life::Alive);
    assert_eq!(admin.tick(after(220)), Life::KeepAliveLost);
}

#[test]
fn what_queues_share_is_counted() {
    let shared = ControllerShared::default();
    assert!(shared.heard_at() == Time(0) && !shared.is_dead());
    shared.beat(after(2));
    // Another queue's core took one before, and says so later.
    shared.beat(after(1));
    shared.set_kato_ms(5000);
    assert_eq!((shared.heard_at(), shared.kato_ms()), (after(2), 5000));
    shared.kill();
    assert!(shared.is_dead());
    let some = Counters {
        reads: 1,
        read_bytes: 2,
        writes: 3,
        written_bytes: 4,
        media_errors: 5,
    };
    shared.count(some);
    assert_eq!(shared.counters(), some);
}
