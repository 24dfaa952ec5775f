//! A host that is heard again after a silence: it may have given the controller up meanwhile, and gone on by another.

use super::*;
use std::time::Duration;

const KEEP_ALIVE: u8 = 0x18;
const KATO_MS: u32 = 5000;
/// Hosts that are there are heard within that.
const LIMIT_MS: u64 = 3000;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A gateway, and a host's admin queue and two I/O queues there.
struct Bench {
    world: World,
    admin: Host,
    queues: [Host; 2],
}

impl Bench {
    fn of(mut world: World, kato_ms: u32) -> Bench {
        let mut admin = Host::admin(&mut world);
        let set = Sqe::new(0x09, 1, 0).dword(10, 0x0f).dword(11, kato_ms);
        assert_eq!(admin.run(&mut world, set, &[]).0, (0, 0));
        let queues = [1, 2].map(|queue| Host::io_with(&mut world, &admin, queue, 0, 1, 0));
        Bench { world, admin, queues }
    }

    fn new() -> Bench {
        let mut world = World::new();
        // No moment is that of the start.
        world.now = Time(0).plus(ms(100_000));
        Bench::of(world, KATO_MS)
    }

    /// Time passes, without a host that says anything.
    fn wait(&mut self, time: Duration) {
        let until = self.world.now.plus(time);
        loop {
            let hosts = [&self.admin, &self.queues[0], &self.queues[1]];
            let open = hosts.iter().filter(|host| host.closed.is_none());
            let Some(at) = open
                .filter_map(|host| host.front.deadline())
                .min()
                .filter(|at| *at <= until)
            else {
                break;
            };
            self.world.now = self.world.now.max(at);
            for host in [&mut self.admin].into_iter().chain(&mut self.queues) {
                if host.front.deadline().is_some_and(|at| at <= self.world.now) {
                    host.tick(&mut self.world);
                }
            }
        }
        self.world.now = until;
    }

    /// The host sends Keep Alive after that time.
    fn keep_alive(&mut self, after: Duration) {
        self.wait(after);
        let command = Sqe::new(KEEP_ALIVE, 2, 0);
        assert_eq!(self.admin.run(&mut self.world, command, &[]).0, (0, 0));
    }

    /// A write comes by that queue: is it carried out?
    fn writes(&mut self, queue: usize) -> bool {
        let io = &mut self.queues[queue];
        let bytes = 4096;
        let data = pattern(self.world.now.0, bytes);
        let command = Sqe(write(9, 1, 0, 1).0).capsule(bytes);
        let bytes = io.capsule(command, &data);
        io.send(&mut self.world, &bytes);
        let answers = io.pdus();
        let is_there = self.world.volumes.read(volume(&self.world, 1), 0, data.len()) == data;
        assert_eq!(is_there, answers.len() == 1, "closed: {:?}", io.closed);
        if !is_there {
            assert_eq!(io.closed, Some(CloseReason::Timeout));
        }
        is_there
    }

    /// The host connects anew, as it does when one of its queues is closed.
    fn reconnect(self) -> Bench {
        let Bench {
            mut world,
            admin,
            queues,
        } = self;
        queues.into_iter().for_each(|queue| queue.close(&mut world));
        admin.close(&mut world);
        Bench::of(world, KATO_MS)
    }
}

#[test]
fn what_comes_after_a_silence_is_not_carried_out() {
    // Of a host that was about to send its first Keep Alive, and of one that has sent some.
    for beats in 0..3 {
        for (silence, is_there) in [(LIMIT_MS - 1, true), (LIMIT_MS, false), (4900, false)] {
            let mut bench = Bench::new();
            (0..beats).for_each(|_| bench.keep_alive(ms(2500)));
            assert!(bench.writes(0));
            bench.wait(ms(silence));
            assert_eq!(bench.writes(0), is_there, "after {beats} and {silence} ms");
        }
    }
}

#[test]
fn nor_is_what_comes_by_the_controllers_other_queues() {
    let mut bench = Bench::new();
    assert!(bench.writes(0) && bench.writes(1));
    bench.wait(ms(LIMIT_MS));
    assert!(!bench.writes(0));
    let io = &mut bench.queues[1];
    io.command(&mut bench.world, Sqe::new(0x08, 1, 1).blocks(0, 8));
    assert!(io.closed.is_some() && io.pdus().is_empty());
    bench.admin.command(&mut bench.world, Sqe::new(KEEP_ALIVE, 2, 0));
    assert_eq!(bench.admin.closed, Some(CloseReason::Timeout));
}

#[test]
fn a_keep_alive_that_comes_first_does_not_hide_it() {
    for beats in 0..3 {
        let mut bench = Bench::new();
        (0..beats).for_each(|_| bench.keep_alive(ms(2500)));
        assert!(bench.writes(0));
        bench.keep_alive(ms(4000));
        bench.wait(ms(300));
        assert!(!bench.writes(1), "after {beats}");
    }
}

#[test]
fn nor_does_another_admin_command() {
    let mut bench = Bench::new();
    bench.wait(ms(4000));
    let get = Sqe::new(0x0a, 1, 0).dword(10, 0x0f);
    assert_eq!(bench.admin.run(&mut bench.world, get, &[]).0, (0, 0));
    assert!(!bench.writes(0));
}

#[test]
fn data_of_a_write_that_came_before_it_is_not_taken() {
    let mut bench = Bench::new();
    bench.keep_alive(ms(2500));
    let io = &mut bench.queues[0];
    let data = pattern(1, 8192);
    io.command(&mut bench.world, write(9, 1, 0, 2));
    let asked = io.one();
    assert_eq!(asked.kind, kind::R2T);
    // Nobody looks meanwhile: the data is what is seen first.
    bench.world.now = bench.world.now.plus(ms(LIMIT_MS));
    let bytes = io.data_pdu(9, u16_at(&asked.header, 2), 0, &data, true);
    io.send(&mut bench.world, &bytes);
    assert_eq!(io.closed, Some(CloseReason::Timeout));
    assert!(bench.world.volumes.read(volume(&bench.world, 1), 0, 8192) != data);
}

#[test]
fn a_host_with_nothing_to_do_keeps_its_controller() {
    let mut bench = Bench::new();
    for round in 0..20 {
        bench.keep_alive(ms(2500));
        if round % 4 == 3 {
            bench.wait(ms(2400));
            assert!(bench.writes(round / 4 % 2), "round {round}");
            bench.keep_alive(ms(100));
        }
    }
}

#[test]
fn a_host_that_is_heard_by_one_queue_is_there_for_all() {
    let mut bench = Bench::new();
    for round in 0..15 {
        bench.wait(ms(300));
        assert!(bench.writes(0), "round {round}");
    }
    assert!(bench.writes(1));
}

#[test]
fn a_host_that_sends_keep_alive_late_is_believed_to_be_there() {
    let mut bench = Bench::new();
    // It is idle; nothing comes in the time after the first that came late.
    bench.keep_alive(ms(4500));
    bench.wait(ms(LIMIT_MS));
    for round in 0..20 {
        assert!(bench.writes(round % 2), "round {round}");
        bench.keep_alive(ms(1500));
        bench.wait(ms(LIMIT_MS));
    }
}

#[test]
fn and_loses_one_controller_at_most() {
    let mut bench = Bench::new();
    bench.wait(ms(4000));
    assert!(!bench.writes(0), "it may have gone: nothing is known of it");
    let mut bench = bench.reconnect();
    for round in 0..20 {
        bench.wait(ms(4000));
        assert!(bench.writes(round % 2), "round {round}");
        bench.keep_alive(ms(500));
    }
}

#[test]
fn a_host_that_was_punctual_once_is_not_remembered() {
    let mut bench = Bench::new();
    bench.wait(ms(4000));
    assert!(!bench.writes(0));
    let mut bench = bench.reconnect();
    bench.keep_alive(ms(2500));
    let mut bench = bench.reconnect();
    bench.wait(ms(4000));
    assert!(!bench.writes(0));
}

#[test]
fn a_host_without_a_keep_alive_time_may_be_silent() {
    let mut world = World::new();
    world.now = Time(0).plus(ms(100_000));
    let mut bench = Bench::of(world, 0);
    bench.wait(ms(3_600_000));
    assert!(bench.writes(0) && bench.writes(1));
}
