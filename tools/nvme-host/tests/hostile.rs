//! Hosts that misbehave hurt themselves only: somebody else goes on working, connections go away, memory stays bounded.

mod common;

use amita_nvme_host::wire::{Digests, Pdu, icreq};
use amita_nvme_host::{Connection, Error, Queue, Transfer, commands};
use common::{Bystander, Target, memory_kib};
use std::time::{Duration, Instant};

/// What a test may add to the memory of the process, which is the hosts' as well.
const MEMORY_KIB: u64 = 256 << 10;

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }
}

fn connect(target: &Target) -> Connection {
    Connection::connect(target.address, Duration::from_secs(30)).expect("a connection")
}

fn initialized(target: &Target) -> Queue {
    target.settings().queue(8192).expect("initialization")
}

/// Runs `misdeed`, and checks what it left.
fn harmless(name: &str, misdeed: impl FnOnce(&Target, &mut Bystander)) {
    let target = Target::start();
    let mut bystander = Bystander::new(&target);
    bystander.works();
    let before = memory_kib();
    misdeed(&target, &mut bystander);
    bystander.works();
    let during = memory_kib();
    target.wait_connections(Bystander::CONNECTIONS);
    let grown = during.saturating_sub(before);
    println!(
        "{name}: memory {before} KiB before, {during} KiB with all of it, {} KiB after",
        memory_kib()
    );
    assert!(grown < MEMORY_KIB, "memory grew by {grown} KiB");
    assert_eq!(target.board.controllers(), 1, "controllers are left");
}

/// Sends bytes until the target ends the connection, or they are all sent.
fn send_until_end(connection: &mut Connection, bytes: &[u8]) {
    if connection.send(bytes).is_ok() {
        let until = Instant::now() + Duration::from_millis(2);
        while connection.next_until(until).is_ok() {}
    }
}

#[test]
fn frames_with_any_field_changed() {
    harmless("frames", |target, bystander| {
        let mut random = Random(0x1234_5678_9abc_def1);
        for round in 0..400 {
            let mut controller = (round % 4 == 3).then(|| target.controller().expect("a controller"));
            let mut plain = match round % 4 {
                0 => connect(target),
                _ => initialized(target).connection,
            };
            let connection = controller
                .as_mut()
                .map_or(&mut plain, |controller| &mut controller.admin.connection);
            let mut bytes = match round % 4 {
                0 => icreq(0, 0, 3, 0).encode(Digests::NONE, 4),
                1 => Pdu::command(&commands::flush(1).command).encode(Digests::NONE, 4),
                2 => Pdu::host_data(1, 1, 0, &[0; 512]).encode(Digests::NONE, 4),
                _ => Pdu::command(&commands::identify(1, 0).command).encode(Digests::NONE, 4),
            };
            for _ in 0..=random.below(3) {
                // The common header half of the time, anything else otherwise; often an edge of a number.
                let at = if random.below(2) == 0 {
                    random.below(8)
                } else {
                    random.below(bytes.len())
                };
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff, random.next() as u8][random.below(6)];
            }
            let cut = if random.below(4) == 0 {
                random.below(bytes.len())
            } else {
                bytes.len()
            };
            send_until_end(connection, &bytes[..cut]);
            if round % 50 == 0 {
                bystander.works();
            }
        }
    });
}

#[test]
fn bytes_that_are_no_protocol_at_all() {
    harmless("noise", |target, bystander| {
        let mut random = Random(0xfeed_f00d_dead_beef);
        for round in 0..100 {
            let mut connection = connect(target);
            let bytes: Vec<u8> = (0..random.below(20_000)).map(|_| random.next() as u8).collect();
            send_until_end(&mut connection, &bytes);
            if round % 20 == 0 {
                bystander.works();
            }
        }
    });
}

#[test]
fn connections_that_stay_half_open_in_each_stage() {
    harmless("half open", |target, bystander| {
        let mut all = Vec::new();
        for stage in 0..200 {
            let mut queue = match stage % 4 {
                // Nothing, part of an ICReq, all of it, part of a capsule.
                0 | 1 => {
                    let mut connection = connect(target);
                    if stage % 4 == 1 {
                        connection
                            .send(&icreq(0, 0, 0, 0).encode(Digests::NONE, 4)[..77])
                            .expect("a send");
                    }
                    all.push(connection);
                    continue;
                }
                _ => initialized(target),
            };
            if stage % 4 == 3 {
                let capsule = Pdu::command(&commands::flush(1).command).encode(Digests::NONE, 4);
                queue.connection.send(&capsule[..40]).expect("a send");
            }
            all.push(queue.connection);
        }
        bystander.works();
        drop(all);
    });
}

#[test]
fn a_host_that_sends_byte_by_byte() {
    harmless("slowly", |target, bystander| {
        let mut connection = connect(target);
        for (n, byte) in icreq(0, 0, 0, 0).encode(Digests::NONE, 4).into_iter().enumerate() {
            connection.send(&[byte]).expect("a send");
            if n % 16 == 0 {
                bystander.works();
            }
        }
        connection.next().expect("an ICResp");
    });
}

#[test]
fn hosts_that_ask_for_much_and_take_nothing() {
    harmless("not taking", |target, bystander| {
        let mut all = Vec::new();
        for _ in 0..8 {
            let mut controller = target.controller().expect("a controller");
            controller
                .call(&commands::queues(1))
                .expect("an answer")
                .good("Set Features")
                .expect("queues");
            let mut queue = controller.io_queue(1, 128).expect("a queue");
            // 127 MiB each: eight of them would be a gigabyte.
            let reads = vec![commands::read(1, 0, 256, 4096); 127];
            queue.submit_all(&reads).expect("a send");
            all.push((controller, queue));
        }
        for _ in 0..10 {
            bystander.works();
        }
    });
}

#[test]
fn hosts_that_promise_data_and_send_none() {
    harmless("promising", |target, bystander| {
        let mut all = Vec::new();
        for _ in 0..8 {
            let mut controller = target.controller().expect("a controller");
            controller
                .call(&commands::queues(1))
                .expect("an answer")
                .good("Set Features")
                .expect("queues");
            let mut queue = controller.io_queue(1, 128).expect("a queue");
            for _ in 0..127 {
                let write = commands::write(1, 0, 256, Vec::new()).with(Transfer::WriteByR2t(vec![0; 1 << 20]));
                // The queue would answer the R2Ts: it is never polled.
                queue.submit(&write).expect("a send");
            }
            // The data stay with the host: they are its own memory, not the target's.
            let connection = queue.connection;
            all.push((controller, connection));
        }
        for _ in 0..10 {
            bystander.works();
        }
    });
}

#[test]
fn hosts_that_fall_silent_lose_their_controllers() {
    harmless("silent", |target, bystander| {
        let mut settings = target.settings();
        settings.keep_alive_ms = 1000;
        let mut all = Vec::new();
        for _ in 0..10 {
            let mut controller = amita_nvme_host::Controller::connect(&settings, &target.host()).expect("a controller");
            controller.enable().expect("it becomes ready");
            let queue = controller.io_queue(1, 16).expect("a queue");
            all.push((controller, queue));
        }
        let end = Instant::now() + Duration::from_secs(60);
        while target.board.controllers() > 1 {
            bystander.works();
            assert!(Instant::now() < end, "{} controllers live", target.board.controllers());
            std::thread::sleep(Duration::from_millis(50));
        }
        for (mut controller, queue) in all {
            let ended = controller.call(&commands::keep_alive());
            assert!(
                matches!(ended, Err(Error::Closed | Error::Terminated { .. } | Error::Io(_))),
                "{ended:?}"
            );
            drop(queue);
        }
    });
}

/// Hosts that connect and then say nothing: each is let in, and a bystander works all the while. Returns how many are open at
/// the end: those that have said nothing for too long by then are not.
fn many(count: usize) -> usize {
    let mut open = 0;
    harmless("many connections", |target, bystander| {
        let mut all = Vec::with_capacity(count);
        for n in 0..count {
            all.push(initialized(target));
            if n % 100 == 0 {
                bystander.works();
            }
        }
        open = target.server.connections();
        println!("{count} connections were made, {open} are open, {} KiB", memory_kib());
    });
    open
}

#[test]
fn three_hundred_connections() {
    let open = many(300);
    assert!(open >= 300, "{open} are open");
}

/// Each connection is two files of this process, and a thread of the server for tests: `ulimit -n 30000` first, or fewer of
/// them by AMITA_CONNECTIONS.
#[test]
#[ignore = "for a soak: needs 20,100 open files"]
fn ten_thousand_connections() {
    let wanted = std::env::var("AMITA_CONNECTIONS").ok();
    many(wanted.map_or(10_000, |text| text.parse().expect("AMITA_CONNECTIONS is a number")));
}
