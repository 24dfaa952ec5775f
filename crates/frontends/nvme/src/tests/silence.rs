//! A command that grows old, while its host is heard and while it is not.

use super::*;
use std::time::Duration;

const KEEP_ALIVE: u8 = 0x18;
const KATO_MS: u32 = 2000;
/// Between Keep Alives of a host that sends two in its time, by a clock that is slow.
const BETWEEN: Duration = Duration::from_millis(1050);

/// An I/O queue with a write that does not end, and its admin queue, whose keep alive time is [`KATO_MS`].
fn held(world: &mut World) -> (Host, Host) {
    let mut admin = Host::admin(world);
    let set = Sqe::new(0x09, 1, 0).dword(10, 0x0f).dword(11, KATO_MS);
    assert_eq!(admin.run(world, set, &[]).0, (0, 0));
    let mut io = Host::io(world, &admin);
    world.runs = false;
    io.command(world, Sqe::new(0x08, 1, 1).blocks(0, 8));
    assert!(io.pdus().is_empty());
    (admin, io)
}

/// Ticks at each moment that the queue asks for, until then.
fn pass(world: &mut World, io: &mut Host, until: Time) {
    while let Some(at) = io.front.deadline().filter(|at| *at <= until && io.closed.is_none()) {
        assert!(at > world.now, "it asks for {at:?} at {:?}", world.now);
        world.now = at;
        io.tick(world);
    }
    world.now = world.now.max(until);
}

#[test]
fn an_old_command_is_kept_while_its_host_is_heard() {
    let mut world = World::new();
    let (mut admin, mut io) = held(&mut world);
    for round in 0..50 {
        let next = world.now.plus(BETWEEN);
        pass(&mut world, &mut io, next);
        assert_eq!(io.closed, None, "round {round}");
        assert_eq!(admin.run(&mut world, Sqe::new(KEEP_ALIVE, 2, 0), &[]).0, (0, 0));
    }
}

#[test]
fn an_old_command_goes_before_its_silent_host_is_given_up() {
    for beats in 0..20 {
        let mut world = World::new();
        let (mut admin, mut io) = held(&mut world);
        for _ in 0..beats {
            let next = world.now.plus(BETWEEN);
            pass(&mut world, &mut io, next);
            assert_eq!(admin.run(&mut world, Sqe::new(KEEP_ALIVE, 2, 0), &[]).0, (0, 0));
        }
        let heard_at = world.now;
        let given_up = heard_at.plus(Duration::from_millis(u64::from(KATO_MS)));
        pass(&mut world, &mut io, given_up);
        assert_eq!(
            io.closed,
            Some(CloseReason::Timeout),
            "after {beats}: heard at {heard_at:?}"
        );
    }
}
