//! What one connection may hold.

use super::*;
use amita_types::io::Op;

/// A receive block, and a piece or two that are on their way between the counters.
const SLACK: usize = 640 << 10;

impl Host {
    /// Bytes that this connection holds: queued to be sent, under way in the volume, and not parsed.
    fn held_bytes(&self, world: &World) -> usize {
        let under_way: usize = world
            .service
            .queue
            .iter()
            .map(|submitted| match submitted.op {
                Op::Clear { .. } => 0,
                op => op.length() as usize,
            })
            .sum();
        self.outbox.queued_bytes() + under_way + self.inbox.len()
    }
}

#[test]
fn a_host_that_only_sends_is_stopped() {
    let commands: [(&str, Sqe, usize); 9] = [
        ("reads", read(0, 1, 0, 1), 0),
        ("long reads", read(0, 1, 0, 256), 0),
        ("writes", write(0, 1, 0, 4).capsule(16384), 16384),
        ("writes by R2T", write(0, 1, 0, 256), 0),
        ("flushes", Sqe::new(0, 0, 1), 0),
        ("errors", Sqe::new(0x7e, 0, 1), 0),
        ("zeroes", Sqe::new(8, 0, 1).blocks(0, 4096), 0),
        ("verify", Sqe::new(12, 0, 1).blocks(0, 256), 0),
        ("compares", write(0, 1, 0, 4).opcode(5).capsule(16384), 16384),
    ];
    for (what, command, bytes) in commands {
        let mut world = World::new();
        let admin = Host::admin(&mut world);
        // Without flow control nothing but the commands under way is counted.
        let mut host = Host::greeted(&mut world, 0, 0, 8);
        let data = connect_data(NQN, HOST, 1, admin.controller);
        host.command_with(&mut world, connect_command(1, 1023, 4), &data);
        assert_eq!(host.one().status(), (0, 0));
        let config = world.port.config().clone();
        let bound = config.read_bytes + 2 * config.write_bytes + SLACK;
        host.fetches = false;
        world.runs = false;
        let data = vec![7; bytes];
        for round in 0..20_000u32 {
            if host.closed.is_some() {
                // It has sent more commands than the queue has entries.
                break;
            }
            let mut command = command;
            command.0[2..4].copy_from_slice(&(round as u16).to_le_bytes());
            let pdu = host.capsule(command, &data);
            if host.front.wants_input() {
                host.receive(&mut world, &pdu);
            }
            if round % 64 == 63 {
                host.end_pass(&mut world);
                assert!(
                    host.held_bytes(&world) <= bound,
                    "{what}: {} bytes",
                    host.held_bytes(&world)
                );
                if round > 2048 {
                    world.service.run();
                    host.deliver(&mut world);
                    host.end_pass(&mut world);
                    assert!(
                        host.held_bytes(&world) <= bound,
                        "{what}: {} bytes",
                        host.held_bytes(&world)
                    );
                }
            }
        }
    }
}

#[test]
fn a_queue_that_is_overrun_ends_the_connection() {
    for attributes in [0, 4] {
        let mut world = World::new();
        let admin = Host::admin(&mut world);
        let mut host = Host::greeted(&mut world, 0, 0, 8);
        let data = connect_data(NQN, HOST, 1, admin.controller);
        host.command_with(&mut world, connect_command(1, 8, attributes), &data);
        assert_eq!(host.one().status(), (0, 0));
        world.runs = false;
        for id in 0..8 {
            assert_eq!(host.closed, None);
            host.command(&mut world, read(id, 1, 0, 1));
        }
        assert_eq!(host.pdus(), []);
        host.command(&mut world, read(8, 1, 0, 1));
        host.ends_with(&mut world, 2, 0);
    }
}

#[test]
fn an_identifier_is_used_once_at_a_time() {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let mut host = Host::io(&mut world, &admin);
    world.runs = false;
    host.command(&mut world, read(5, 1, 0, 1));
    host.command(&mut world, read(5, 1, 1, 1));
    assert_eq!(host.one().status(), (0, 3));
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(host.pdus().len(), 2, "the first one's data and response");
    assert_eq!(host.run(&mut world, read(5, 1, 0, 1), &[]).0, (0, 0));
}

#[test]
fn zeroing_goes_a_few_pieces_at_a_time() {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let mut host = Host::io(&mut world, &admin);
    world.runs = false;
    host.command(&mut world, Sqe::new(8, 1, 1).blocks(0, 4096));
    assert_eq!(world.service.queue.len(), 8);
    world.service.run();
    host.settle(&mut world);
    assert_eq!(world.service.queue.len(), 8, "the next ones follow");
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(host.one().status(), (0, 0));
}

#[test]
fn a_silent_connection_is_small() {
    let mut world = World::new();
    let host = Host::open(&mut world);
    assert_eq!(host.front.receive_bytes(), 4096);
    assert_eq!(host.outbox.queued_bytes(), 0);
    assert!(size_of::<NvmeFront>() <= 256, "{} bytes", size_of::<NvmeFront>());
}

#[test]
fn a_queue_that_was_busy_gives_its_memory_back() {
    let mut world = World::new();
    world.pool = Pool::new(amita_reactor::PoolConfig {
        classes: vec![(4 << 10, 64), (16 << 10, 64), (256 << 10, 1)],
        hosts: Vec::new(),
        huge_pages: false,
    })
    .unwrap();
    let admin = Host::admin(&mut world);
    let mut queues: Vec<Host> = (1..6)
        .map(|queue| Host::io_with(&mut world, &admin, queue, 0, 1, 0))
        .collect();
    // There is memory for one that is busy.
    for host in &mut queues {
        let bytes = pattern(0, 64 << 10);
        assert_eq!(host.run(&mut world, write(1, 1, 0, 16), &bytes).0, (0, 0));
        assert!(world.pool.take(256 << 10).is_some());
    }
}

#[test]
fn who_is_not_connected_and_does_not_fetch_its_answers_is_not_listened_to() {
    const BOUND: usize = 32 << 10;
    let mut world = World::new();
    let mut host = Host::greeted(&mut world, 0, 0, 1);
    host.fetches = false;
    let refused = host.capsule(read(1, 1, 0, 1), &[]);
    let mut rounds = 0;
    while rounds < 5000 && host.front.wants_input() {
        host.receive(&mut world, &refused);
        host.end_pass(&mut world);
        rounds += 1;
    }
    assert!(rounds < 5000, "it is heard for ever");
    assert!(host.held_bytes(&world) <= BOUND, "{} bytes", host.held_bytes(&world));
    host.fetches = true;
    host.settle(&mut world);
    assert!(host.front.wants_input() && host.pdus().len() == rounds);
}
