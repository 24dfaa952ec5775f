//! Reservations, between two hosts.

use super::*;
use crate::wire::u64_at;

const CONFLICT: (u8, u8) = (0, 0x83);

fn register(host: &mut Host, world: &mut World, key: u64) -> (u8, u8) {
    let mut data = vec![0; 16];
    data[8..].copy_from_slice(&key.to_le_bytes());
    host.run(world, Sqe::new(0x0d, 1, 1).transport(16), &data).0
}

fn acquire(host: &mut Host, world: &mut World, key: u64, kind: u32) -> (u8, u8) {
    let mut data = vec![0; 16];
    data[..8].copy_from_slice(&key.to_le_bytes());
    let command = Sqe::new(0x11, 1, 1).dword(10, kind << 8).capsule(16);
    host.run(world, command, &data).0
}

#[test]
fn one_host_keeps_the_other_out() {
    let mut world = World::new();
    let (first, second) = (Host::admin_of(&mut world, 1), Host::admin_of(&mut world, 2));
    let mut a = Host::io(&mut world, &first);
    let mut b = Host::io(&mut world, &second);
    assert_eq!(
        acquire(&mut a, &mut world, 5, 1),
        CONFLICT,
        "who is not registered reserves nothing"
    );
    assert_eq!(register(&mut a, &mut world, 5), (0, 0));
    // Write exclusive.
    assert_eq!(acquire(&mut a, &mut world, 5, 1), (0, 0));
    assert_eq!(b.run(&mut world, read(2, 1, 0, 1), &[]).0, (0, 0));
    let zeros = vec![0; 8192];
    assert_eq!(b.run(&mut world, write(2, 1, 0, 1), &zeros).0, CONFLICT);
    assert_eq!(b.run(&mut world, Sqe::new(8, 2, 1).blocks(0, 1), &[]).0, CONFLICT);
    let mut range = zeros[..16].to_vec();
    range[4] = 1;
    let deallocate = Sqe::new(9, 2, 1).dword(11, 4).transport(16);
    assert_eq!(b.run(&mut world, deallocate, &range).0, CONFLICT);
    assert_eq!(a.run(&mut world, write(2, 1, 0, 1), &zeros).0, (0, 0));
    assert_eq!(acquire(&mut b, &mut world, 6, 1), CONFLICT);
    // The other namespace is free.
    assert_eq!(b.run(&mut world, write(2, 2, 0, 1), &zeros).0, (0, 0));
    // Released.
    let release = Sqe::new(0x15, 1, 1).dword(10, 1 << 8).transport(8);
    assert_eq!(a.run(&mut world, release, &5u64.to_le_bytes()).0, (0, 0));
    assert_eq!(b.run(&mut world, write(2, 1, 0, 1), &zeros).0, (0, 0));
}

/// NVM Command Set 1.1, 3.2, and NVM Express Base 2.1, 8.1.24: Flush is of the commands that write. Whoever may not write
/// gets a conflict, under each of the six types; whoever may does not.
#[test]
fn who_may_not_write_may_not_flush() {
    let flush = || Sqe::new(0, 3, 1);
    for kind in 1..=6 {
        let mut world = World::new();
        let admins = [1, 2, 3].map(|host| Host::admin_of(&mut world, host));
        let [mut holder, mut registrant, mut stranger] = admins.each_ref().map(|admin| Host::io(&mut world, admin));
        assert_eq!(stranger.run(&mut world, flush(), &[]).0, (0, 0));
        assert_eq!(register(&mut holder, &mut world, 5), (0, 0));
        assert_eq!(register(&mut registrant, &mut world, 6), (0, 0));
        assert_eq!(
            stranger.run(&mut world, flush(), &[]).0,
            (0, 0),
            "nothing is reserved yet"
        );
        assert_eq!(acquire(&mut holder, &mut world, 5, kind), (0, 0));
        assert_eq!(holder.run(&mut world, flush(), &[]).0, (0, 0));
        let for_registrants = if kind <= 2 { CONFLICT } else { (0, 0) };
        assert_eq!(
            registrant.run(&mut world, flush(), &[]).0,
            for_registrants,
            "type {kind}"
        );
        assert_eq!(stranger.run(&mut world, flush(), &[]).0, CONFLICT, "type {kind}");
        assert_eq!(
            stranger.run(&mut world, Sqe::new(0, 3, 2), &[]).0,
            (0, 0),
            "the other namespace is free"
        );
    }
}

/// Dataset Management is of the commands that write, also where it clears nothing: parts of blocks, and hints.
#[test]
fn who_may_not_write_may_not_deallocate_nothing() {
    let mut world = World::new();
    let (first, second) = (Host::admin_of(&mut world, 1), Host::admin_of(&mut world, 2));
    let mut holder = Host::io(&mut world, &first);
    let mut stranger = Host::io(&mut world, &second);
    let mut key = vec![0; 16];
    key[8] = 5;
    assert_eq!(
        holder.run(&mut world, Sqe::new(0x0d, 1, 2).transport(16), &key).0,
        (0, 0)
    );
    key.rotate_left(8);
    let acquire = Sqe::new(0x11, 1, 2).dword(10, 1 << 8).capsule(16);
    assert_eq!(holder.run(&mut world, acquire, &key).0, (0, 0));
    let mut range = vec![0; 16];
    range[4] = 1;
    for attributes in [4, 0, 1] {
        let command = Sqe::new(9, 2, 2).dword(11, attributes).transport(16);
        assert_eq!(holder.run(&mut world, command, &range).0, (0, 0));
        assert_eq!(
            stranger.run(&mut world, command, &range).0,
            CONFLICT,
            "attributes {attributes}"
        );
    }
}

#[test]
fn the_report_tells_who_is_registered() {
    let mut world = World::new();
    let admin = Host::admin_of(&mut world, 7);
    let mut host = Host::io(&mut world, &admin);
    assert_eq!(register(&mut host, &mut world, 0x1234), (0, 0));
    let report = |dwords: u32, extended| {
        let command = Sqe::new(0x0e, 1, 1).dword(10, dwords - 1).dword(11, extended);
        command.transport(dwords as usize * 4)
    };
    let (status, page) = host.run(&mut world, report(64, 1), &[]);
    assert_eq!((status, page.len()), ((0, 0), 256));
    assert_eq!(u16_at(&page, 5), 1, "one registrant");
    assert_eq!(u64_at(&page, 64 + 8), 0x1234);
    assert_eq!(page[64 + 16..64 + 32], [7; 16]);
    // A part of it; and what is refused.
    assert_eq!(host.run(&mut world, report(2, 1), &[]).1, page[..8]);
    assert_eq!(
        host.run(&mut world, report(64, 0), &[]).0,
        (0, 0x18),
        "host identifiers have 128 bits"
    );
    assert_eq!(host.run(&mut world, report(64, 1).transport(64), &[]).0, (0, 0x0f));
    assert_eq!(host.run(&mut world, report(1 << 20, 1), &[]).0, (0, 2));
    assert_eq!(register(&mut host, &mut world, 0), (0, 2), "no key");
}
