//! Once warm, nothing on the path of an I/O allocates: an allocator that counts watches ten thousand rounds of
//! receiving a request, writing it to a file, and answering.

use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{
    Completion, Driver, FileId, Inbox, Outbox, Outcome, Pool, PoolConfig, Segments, SocketId, Token, Wait, mailbox,
};
use amita_testkit::allocations::{self, Counting};
use std::path::Path;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FRAME: usize = 64 + 4096;
const CLASS: usize = 64 << 10;

/// One end: a driver, its stream, and what it has under way.
struct End {
    driver: UringDriver,
    pool: Pool,
    completions: Vec<Completion>,
    socket: Option<SocketId>,
    inbox: Inbox,
    outbox: Outbox,
    file: Option<FileId>,
    spare: Segments,
    written: u64,
    read: u64,
}

impl End {
    fn new(config: UringConfig, file: Option<&Path>) -> End {
        let pool = Pool::new(PoolConfig::with_total(16 << 20)).unwrap();
        let mut driver = UringDriver::new(config, pool.clone()).unwrap();
        let file = file.map(|path| driver.open(path).unwrap().0);
        End {
            driver,
            pool,
            completions: Vec::new(),
            socket: None,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            file,
            spare: Segments::new(),
            written: 0,
            read: 0,
        }
    }

    /// Handles what has completed; gives the outcomes of connections to the caller.
    fn pass(&mut self) -> Option<SocketId> {
        self.driver.poll(Wait::No, &mut self.completions);
        let mut connected = None;
        let mut receive = false;
        let mut completions = std::mem::take(&mut self.completions);
        for done in completions.drain(..) {
            match done.outcome {
                Outcome::Connected { result } => connected = Some(result.unwrap()),
                Outcome::Accepted { socket, .. } => connected = Some(socket),
                Outcome::Received { buffer, result } => {
                    self.inbox.received(buffer, result.unwrap());
                    receive = true;
                }
                Outcome::Sent { data, result } => {
                    result.unwrap();
                    self.outbox.sent(data);
                }
                Outcome::Written { mut data, result } => {
                    result.unwrap();
                    data.clear();
                    self.spare = data;
                    self.written += 1;
                    let buffer = self.pool.take(4096).unwrap();
                    self.driver
                        .read(self.file.unwrap(), (self.written - 1) % 64 * 4096, buffer, Token(6));
                }
                Outcome::Read { buffer, result } => {
                    result.unwrap();
                    self.read += 1;
                    self.outbox.append(&self.pool, &[1; 64]);
                    self.outbox.push(buffer.freeze());
                }
                _ => {}
            }
        }
        self.completions = completions;
        if receive {
            self.receive();
        }
        connected
    }

    fn receive(&mut self) {
        let buffer = self.inbox.start_receive(&self.pool, CLASS).unwrap();
        self.driver.receive(self.socket.unwrap(), buffer, Token(3));
    }

    fn send(&mut self) {
        if let Some(segments) = self.outbox.next_send() {
            self.driver.send(self.socket.unwrap(), segments, Token(4));
        }
    }
}

fn allocations_of_warm_rounds(config: &UringConfig, folder: &Path, rounds: u64) -> u64 {
    let path = folder.join("store");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let mut server = End::new(config.clone(), Some(&path));
    let mut client = End::new(config.clone(), None);
    let (_, address) = server.driver.listen("127.0.0.1:0".parse().unwrap(), Token(1)).unwrap();
    client.driver.connect(address, Token(2));
    while client.socket.is_none() || server.socket.is_none() {
        client.socket = client.pass().or(client.socket);
        server.socket = server.pass().or(server.socket);
    }
    client.receive();
    server.receive();
    let (mut sender, mut receiver) = mailbox::channel::<u64>(16, server.driver.waker());
    let mut warm = 0;
    const WARM: u64 = 500;
    for round in 0..WARM + rounds {
        if round == WARM {
            warm = allocations::count();
        }
        client.outbox.append(&client.pool, &[2; 64]);
        client.outbox.push(client.pool.zeros(4096));
        client.send();
        let guard = client
            .driver
            .timer(client.driver.now().plus(Duration::from_secs(5)), Token(9));
        sender.send(round).unwrap();
        while client.inbox.len() < FRAME {
            client.pass();
            server.pass();
            if server.inbox.len() >= FRAME {
                server.inbox.skip(64);
                let mut data = std::mem::take(&mut server.spare);
                data.push(server.inbox.take(4096));
                server
                    .driver
                    .write(server.file.unwrap(), round % 64 * 4096, data, Token(5));
            }
            server.send();
        }
        assert_eq!(receiver.pop(), Some(round));
        client.driver.cancel_timer(guard);
        client.inbox.skip(64);
        assert!(client.inbox.take(4096).iter().all(|byte| *byte == 0));
    }
    let allocations = allocations::count() - warm;
    assert_eq!((server.written, server.read), (WARM + rounds, WARM + rounds));
    allocations
}

#[test]
fn ten_thousand_warm_rounds_allocate_nothing() {
    let memory = (tempfile::tempdir_in("/dev/shm"), 10_000);
    // A device takes its time, and each round waits for it twice.
    let disk = (tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")), 1_000);
    for (folder, rounds) in [memory, disk] {
        let folder = folder.unwrap();
        for defer_taskrun in [false, true] {
            let config = UringConfig {
                defer_taskrun,
                ..UringConfig::default()
            };
            let allocations = allocations_of_warm_rounds(&config, folder.path(), rounds);
            assert_eq!(allocations, 0, "in {} ({config:?})", folder.path().display());
        }
    }
}
