//! ICReq, PDUs' headers, digests, and what ends a connection.

use super::*;
use crate::wire::fatal;
use std::time::Duration;

#[test]
fn an_icreq_is_answered_as_was_asked() {
    for (digests, alignment) in [(0, 0), (1, 0), (2, 7), (3, 31)] {
        let mut world = World::new();
        let mut host = Host::open(&mut world);
        host.send(&mut world, &hello(alignment, digests, 4));
        let answer = host.one();
        assert_eq!(answer.kind, kind::IC_RESPONSE);
        assert_eq!(u16_at(&answer.header, 0), 0, "PFV");
        assert_eq!(answer.header[2], 0, "CPDA");
        assert_eq!(answer.header[3], digests);
        assert_eq!(u32_at(&answer.header, 4), 128 << 10, "MAXH2CDATA");
        assert_eq!(answer.header.len(), 120);
    }
}

#[test]
fn a_bad_icreq_ends_the_connection() {
    let change = |at: usize, value: u8| {
        let mut bytes = hello(0, 0, 1);
        bytes[at] = value;
        bytes
    };
    let cases = [
        (change(0, kind::COMMAND), fatal::SEQUENCE, 0),
        (change(2, 127), fatal::INVALID_HEADER, 2),
        (change(4, 127), fatal::INVALID_HEADER, 4),
        (change(8, 1), fatal::UNSUPPORTED, 8),
        (change(10, 32), fatal::INVALID_HEADER, 10),
        (change(11, 4), fatal::INVALID_HEADER, 11),
    ];
    for (bytes, status, info) in cases {
        let mut world = World::new();
        let mut host = Host::open(&mut world);
        host.send(&mut world, &bytes);
        host.ends_with(&mut world, status, info);
    }
}

#[test]
fn a_slow_host_is_let_go() {
    let mut world = World::new();
    let timeout = world.port.config().handshake_timeout;
    let mut silent = Host::open(&mut world);
    let mut greeted = Host::greeted(&mut world, 0, 0, 1);
    let admin = Host::admin(&mut world);
    assert_eq!(silent.front.deadline(), Some(Time(0).plus(timeout)));
    world.now = Time(0).plus(timeout - Duration::from_nanos(1));
    silent.tick(&mut world);
    assert_eq!(silent.closed, None);
    world.now = Time(0).plus(timeout);
    silent.tick(&mut world);
    greeted.tick(&mut world);
    assert_eq!(silent.closed, Some(CloseReason::Timeout));
    assert_eq!(greeted.closed, Some(CloseReason::Timeout));
    assert_eq!(
        admin.front.deadline(),
        None,
        "connected, and no keep alive was asked for"
    );
}

/// What happens to a PDU on an I/O queue.
fn fate(digests: u8, bytes: impl Fn(&Host) -> Vec<u8>) -> (u16, u32) {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let mut host = Host::io_with(&mut world, &admin, 1, digests, 1, 0);
    let bytes = bytes(&host);
    host.send(&mut world, &bytes);
    host.settle(&mut world);
    let pdu = host.pdus().pop().expect("an answer");
    assert!(matches!(host.closed, Some(CloseReason::Protocol(_))));
    let shown = usize::from(bytes[2]).min(bytes.len()).min(128);
    assert_eq!(pdu.data, bytes[..shown], "the header in error is shown");
    pdu.fatal()
}

#[test]
fn headers_are_checked() {
    let flush = |host: &Host| host.capsule(Sqe::new(0, 1, 1), &[]);
    let data = |host: &Host| host.capsule(write(1, 1, 0, 1).capsule(4096), &[0; 4096]);
    let change = |mut bytes: Vec<u8>, at: usize, value: u8| {
        bytes[at] = value;
        bytes
    };
    assert_eq!(fate(0, |_| hello(0, 0, 1)), (fatal::SEQUENCE, 0));
    assert_eq!(fate(0, |host| change(flush(host), 0, 0x0a)), (1, 0));
    assert_eq!(fate(0, |host| change(flush(host), 0, kind::RESPONSE)), (1, 0));
    assert_eq!(
        fate(0, |host| change(flush(host), 1, 1)),
        (1, 1),
        "a digest that was not agreed"
    );
    assert_eq!(
        fate(1, |host| change(flush(host), 1, 0)),
        (1, 1),
        "none where one was agreed"
    );
    assert_eq!(fate(0, |host| change(data(host), 1, 2)), (1, 1));
    assert_eq!(fate(0, |host| change(flush(host), 2, 71)), (1, 2));
    assert_eq!(fate(0, |host| change(data(host), 3, 71)), (1, 3));
    assert_eq!(fate(0, |host| change(data(host), 3, 73)), (1, 3), "no dword");
    assert_eq!(fate(0, |host| change(data(host), 3, 240)), (1, 3));
    assert_eq!(fate(0, |host| change(flush(host), 4, 71)), (1, 4));
    let long = |host: &Host| host.capsule(write(1, 1, 0, 5).capsule(20480), &[0; 20480]);
    assert_eq!(fate(0, long), (1, 4), "more than 16 KiB in a capsule");
    let (wrong, right) = (0x1234_5678u32, ());
    let () = right;
    let bad = |host: &Host| {
        let mut bytes = flush(host);
        bytes[72..76].copy_from_slice(&wrong.to_le_bytes());
        bytes
    };
    assert_eq!(fate(1, bad), (fatal::HEADER_DIGEST, wrong));
}

#[test]
fn an_h2ctermreq_ends_the_connection() {
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let bytes = pdu(kind::H2C_TERMINATE, 0, &[0; 16], &[], (false, false));
    admin.send(&mut world, &bytes);
    assert!(matches!(admin.closed, Some(CloseReason::Protocol(_))));
    assert_eq!(admin.pdus(), []);
}

#[test]
fn data_with_a_wrong_digest_fails_its_command_only() {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let mut host = Host::io_with(&mut world, &admin, 1, 3, 1, 0);
    let command = write(7, 1, 0, 1).capsule(4096);
    let mut bytes = host.capsule(command, &pattern(0, 4096));
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    host.send(&mut world, &bytes);
    assert_eq!(host.one().status(), (0, 0x22), "transient transport error");
    // By R2T, the same; the rest of the data is still taken.
    host.command(&mut world, write(8, 1, 0, 2));
    let r2t = host.one();
    let tag = u16_at(&r2t.header, 2);
    let mut bytes = host.data_pdu(8, tag, 0, &pattern(0, 4096), false);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    bytes.extend(host.data_pdu(8, tag, 4096, &pattern(4096, 4096), true));
    host.send(&mut world, &bytes);
    assert_eq!(host.one().status(), (0, 0x22));
    assert_eq!(
        world.volumes.allocated_bytes(volume(&world, 1)),
        0,
        "nothing was written"
    );
    let (status, _) = host.run(&mut world, command, &pattern(0, 4096));
    assert_eq!(status, (0, 0));
    assert_eq!(host.run(&mut world, read(9, 1, 0, 1), &[]), ((0, 0), pattern(0, 4096)));
}
