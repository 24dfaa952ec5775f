//! Discovery by whoever proves nothing: it is let in, and held to little.

use super::*;
use std::time::Duration;

const GET_LOG: u8 = 2;
const KEEP_ALIVE_TIMER: u32 = 0x0f;

/// A discovery controller of that keep alive time, enabled.
fn discover(world: &mut World, kato_ms: u32) -> Host {
    let mut host = Host::greeted(world, 0, 0, 1);
    let data = connect_data(DISCOVERY, HOST, 1, 0xffff);
    host.command_with(world, connect_command(0, 32, 4).dword(12, kato_ms), &data);
    assert_eq!(host.one().status(), (0, 0));
    host.property_set(world, 0x14, 0x0046_0001);
    host
}

fn log(id: u16, bytes: u32) -> Sqe {
    let dwords = bytes / 4 - 1;
    Sqe::new(GET_LOG, id, 0)
        .dword(10, dwords << 16 | 0x70)
        .dword(11, dwords >> 16)
        .transport(bytes as usize)
}

#[test]
fn who_only_asks_what_there_is_stays_a_stranger() {
    let mut world = World::new();
    let discovery = discover(&mut world, 30_000);
    assert!(discovery.front.is_stranger() && !discovery.front.is_known());
    let admin = Host::admin(&mut world);
    assert!(!admin.front.is_stranger());
    let io = Host::io(&mut world, &admin);
    assert!(!io.front.is_stranger() && io.front.is_known());
}

#[test]
fn a_stranger_who_does_not_fetch_what_there_is_holds_little() {
    const BOUND: usize = 72 << 10;
    let mut world = World::new();
    let mut host = discover(&mut world, 30_000);
    assert_eq!(host.run(&mut world, log(1, 1 << 20), &[]).0, (0, 2), "beyond MDTS");
    let page = host.run(&mut world, log(1, 32 << 10), &[]);
    assert_eq!((page.0, page.1.len()), ((0, 0), 32 << 10));
    host.fetches = false;
    for id in 2..30 {
        let command = host.capsule(log(id, 32 << 10), &[]);
        if host.front.wants_input() {
            host.receive(&mut world, &command);
        }
        host.end_pass(&mut world);
        let held = host.outbox.queued_bytes() + host.inbox.len();
        assert!(held <= BOUND, "{held} bytes");
    }
    assert!(!host.front.wants_input());
    host.fetches = true;
    host.settle(&mut world);
    assert!(host.front.wants_input() && !host.pdus().is_empty());
}

#[test]
fn a_stranger_who_is_silent_is_gone_in_two_minutes_whatever_it_said() {
    for by_feature in [false, true] {
        let mut world = World::new();
        let mut host = discover(&mut world, if by_feature { 30_000 } else { u32::MAX });
        if by_feature {
            let set = Sqe::new(9, 1, 0).dword(10, KEEP_ALIVE_TIMER).dword(11, u32::MAX);
            assert_eq!(host.run(&mut world, set, &[]).0, (0, 0));
        }
        host.command(&mut world, Sqe::new(10, 2, 0).dword(10, KEEP_ALIVE_TIMER));
        assert_eq!(host.one().result(), 120_000, "it is told so");
        world.now = world.now.plus(Duration::from_secs(119));
        host.tick(&mut world);
        assert_eq!(host.closed, None);
        world.now = world.now.plus(Duration::from_secs(2));
        host.tick(&mut world);
        assert_eq!(host.closed, Some(CloseReason::Timeout));
    }
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let set = Sqe::new(9, 1, 0).dword(10, KEEP_ALIVE_TIMER).dword(11, 600_000);
    assert_eq!(admin.run(&mut world, set, &[]).0, (0, 0));
    admin.command(&mut world, Sqe::new(10, 2, 0).dword(10, KEEP_ALIVE_TIMER));
    assert_eq!(admin.one().result(), 600_000, "others say for themselves");
}
