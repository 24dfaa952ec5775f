//! What the driver costs, beside two blocking sockets.
//!
//! P and R are the units of the budget: one round trip of 4 KiB one way and 64 B back over loopback by two blocking
//! sockets; P is its CPU with both ends on one core, R its latency with the ends on two. Then the same exchange by two
//! drivers, at depth 1 and 32, under each setting. `cargo bench -p amita-reactor [-- quick | files | yields | all]`

use amita_reactor::core::{CoreConfig, Service, Stop, allowed_cpus, spawn};
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{
    Completion, Driver, FileId, Inbox, Outbox, Outcome, Pool, PoolConfig, Slice, SocketId, Token, Wait,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const REQUEST: usize = 4096;
const ANSWER: usize = 64;
const CLASS: usize = 256 << 10;

/// CPU time of this process.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn pin(cpu: usize) {
    // SAFETY: a plain set of bits, for which zero is a value.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &raw const set);
    }
}

/// Microseconds per round trip: CPU and time.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    time: f64,
}

fn cost(rounds: usize, cpu: Duration, time: Duration) -> Cost {
    Cost {
        cpu: cpu.as_secs_f64() * 1e6 / rounds as f64,
        time: time.as_secs_f64() * 1e6 / rounds as f64,
    }
}

/// The best of some runs: what disturbs a run only ever makes it worse.
fn best(runs: usize, run: impl Fn() -> Cost) -> Cost {
    (0..runs).map(|_| run()).fold(
        Cost {
            cpu: f64::MAX,
            time: f64::MAX,
        },
        |best, cost| Cost {
            cpu: best.cpu.min(cost.cpu),
            time: best.time.min(cost.time),
        },
    )
}

fn blocking(cpus: [usize; 2], rounds: usize) -> Cost {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        pin(cpus[0]);
        let mut stream = listener.accept().unwrap().0;
        stream.set_nodelay(true).unwrap();
        let mut request = [0; REQUEST];
        while stream.read_exact(&mut request).is_ok() {
            stream.write_all(&request[..ANSWER]).unwrap();
        }
    });
    let client = std::thread::spawn(move || {
        pin(cpus[1]);
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let (request, mut answer) = ([7; REQUEST], [0; ANSWER]);
        let mut before = (cpu(), Instant::now());
        for round in 0..rounds + rounds / 10 {
            if round == rounds / 10 {
                before = (cpu(), Instant::now());
            }
            stream.write_all(&request).unwrap();
            stream.read_exact(&mut answer).unwrap();
        }
        cost(rounds, cpu() - before.0, before.1.elapsed())
    });
    let cost = client.join().unwrap();
    server.join().unwrap();
    cost
}

/// Answers requests; with a file, writes each pass's requests to it first, as a store does.
struct Server {
    socket: Option<SocketId>,
    inbox: Inbox,
    outbox: Outbox,
    file: Option<FileId>,
    writing: usize,
    spare: Vec<Slice>,
    position: u64,
}

impl Server {
    fn answer(&mut self, pool: &Pool, count: usize) {
        for _ in 0..count {
            self.outbox.append(pool, &[1; ANSWER]);
        }
    }
}

impl Service for Server {
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        let pool = driver.pool().clone();
        let mut receive = false;
        for done in completions.drain(..) {
            match done.outcome {
                Outcome::Accepted { socket, .. } => {
                    self.socket = Some(socket);
                    receive = true;
                }
                Outcome::Received { buffer, result } => {
                    let count = result.unwrap_or(0);
                    self.inbox.received(buffer, count);
                    receive = count > 0;
                }
                Outcome::Written { mut data, result } => {
                    result.unwrap();
                    data.clear();
                    self.spare = data;
                    let count = std::mem::take(&mut self.writing);
                    self.answer(&pool, count);
                }
                Outcome::Sent { data, .. } => self.outbox.sent(data),
                _ => {}
            }
        }
        let Some(socket) = self.socket else {
            return Wait::UntilEvent;
        };
        match self.file {
            Some(file) if self.writing == 0 && self.inbox.len() >= REQUEST => {
                let count = self.inbox.len() / REQUEST;
                let mut data = std::mem::take(&mut self.spare);
                data.push(self.inbox.take(count * REQUEST));
                self.writing = count;
                self.position = (self.position + (count * REQUEST) as u64) % (32 << 20);
                driver.write(file, self.position, data, Token(9));
            }
            None => {
                let count = self.inbox.len() / REQUEST;
                if count > 0 {
                    self.inbox.skip(count * REQUEST);
                    self.answer(&pool, count);
                }
            }
            Some(_) => {}
        }
        if receive && let Some(buffer) = self.inbox.start_receive(&pool, CLASS) {
            driver.receive(socket, buffer, Token(2));
        }
        if let Some(segments) = self.outbox.next_send() {
            driver.send(socket, segments, Token(3));
        }
        Wait::UntilEvent
    }
}

/// Keeps so many requests under way.
struct Client {
    address: SocketAddr,
    socket: Option<SocketId>,
    inbox: Inbox,
    outbox: Outbox,
    payload: Slice,
    depth: usize,
    rounds: usize,
    answered: usize,
    asked: usize,
    before: (Duration, Instant),
    report: mpsc::Sender<Cost>,
    connecting: bool,
}

impl Service for Client {
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        let pool = driver.pool().clone();
        let mut receive = false;
        for done in completions.drain(..) {
            match done.outcome {
                Outcome::Connected { result } => {
                    self.socket = Some(result.unwrap());
                    receive = true;
                }
                Outcome::Received { buffer, result } => {
                    let count = result.unwrap();
                    self.inbox.received(buffer, count);
                    receive = true;
                }
                Outcome::Sent { data, result } => {
                    result.unwrap();
                    self.outbox.sent(data);
                }
                _ => {}
            }
        }
        if !self.connecting {
            self.connecting = true;
            driver.connect(self.address, Token(1));
        }
        let Some(socket) = self.socket else {
            return Wait::UntilEvent;
        };
        let answers = self.inbox.len() / ANSWER;
        self.inbox.skip(answers * ANSWER);
        let warm = self.rounds / 10;
        if self.answered < warm && self.answered + answers >= warm {
            self.before = (cpu(), Instant::now());
        }
        let total = self.rounds + warm;
        if self.answered < total && self.answered + answers >= total {
            let _ = self
                .report
                .send(cost(self.rounds, cpu() - self.before.0, self.before.1.elapsed()));
        }
        self.answered += answers;
        while self.asked < self.answered + self.depth && self.asked < total {
            self.asked += 1;
            // A header and a payload by reference.
            self.outbox.append(&pool, &[2; 64]);
            self.outbox.push(self.payload.slice(64..));
        }
        if receive && let Some(buffer) = self.inbox.start_receive(&pool, CLASS) {
            driver.receive(socket, buffer, Token(2));
        }
        if let Some(segments) = self.outbox.next_send() {
            driver.send(socket, segments, Token(3));
        }
        Wait::UntilEvent
    }
}

fn ring(config: &UringConfig, cpus: [usize; 2], depth: usize, rounds: usize, file: Option<PathBuf>) -> Cost {
    let stop = Stop::new();
    let (tell, told) = mpsc::channel();
    let (report, reported) = mpsc::channel();
    let settings = config.clone();
    let make = |config: UringConfig| UringDriver::new(config, Pool::new(PoolConfig::with_total(64 << 20))?);
    let server = spawn(
        CoreConfig {
            index: 0,
            cpu: Some(cpus[0]),
        },
        stop.clone(),
        move || {
            let mut driver = make(settings)?;
            let (_, address) = driver.listen("127.0.0.1:0".parse().unwrap(), Token(1))?;
            let file = file.map(|path| driver.open(&path).unwrap().0);
            tell.send(address).unwrap();
            let (inbox, outbox) = (Inbox::new(), Outbox::new());
            Ok((
                driver,
                Server {
                    socket: None,
                    inbox,
                    outbox,
                    file,
                    writing: 0,
                    spare: Vec::new(),
                    position: 0,
                },
            ))
        },
    );
    let address = told.recv().unwrap();
    let settings = config.clone();
    let client = spawn(
        CoreConfig {
            index: 1,
            cpu: Some(cpus[1]),
        },
        stop.clone(),
        move || {
            let client = Client {
                address,
                socket: None,
                inbox: Inbox::new(),
                outbox: Outbox::new(),
                payload: Slice::copy_from(&[7; REQUEST]),
                depth,
                rounds,
                answered: 0,
                asked: 0,
                before: (cpu(), Instant::now()),
                report,
                connecting: false,
            };
            Ok((make(settings)?, client))
        },
    );
    let cost = reported.recv().unwrap();
    stop.stop();
    server.unwrap().join().unwrap();
    client.unwrap().join().unwrap();
    cost
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    // Many short runs, of which the best counts: on a busy machine some fall between two disturbances.
    let (runs, rounds) = if has("quick") { (5, 2_000) } else { (20, 5_000) };
    let cpus = allowed_cpus();
    let one = [cpus[0], cpus[0]];
    let two = [cpus[0], *cpus.get(1).unwrap_or(&cpus[0])];
    let p = best(runs, || blocking(one, rounds)).cpu;
    let r = best(runs, || blocking(two, rounds)).time;
    println!("P {p:.1} us (CPU of a blocking round trip on one core), R {r:.1} us (its latency on two)");
    println!(
        "{:36} {:>9} {:>9} {:>9} {:>9}",
        "us: CPU / time per round trip", "depth 1", "", "depth 32", ""
    );
    let row = |name: &str, config: &UringConfig, cpus: [usize; 2], file: Option<&PathBuf>| {
        let shallow = best(runs, || ring(config, cpus, 1, rounds, file.cloned()));
        let deep = best(runs, || ring(config, cpus, 32, rounds * 8, file.cloned()));
        println!(
            "{name:36} {:9.2} {:9.2} {:9.2} {:9.2}",
            shallow.cpu, shallow.time, deep.cpu, deep.time
        );
    };
    let base = UringConfig::default();
    row("one core", &base, one, None);
    row("two cores", &base, two, None);
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = folder.path().join("store");
    std::fs::write(&file, vec![0; 33 << 20]).unwrap();
    row("one core, written to tmpfs", &base, one, Some(&file));
    row("two cores, written to tmpfs", &base, two, Some(&file));
    if has("files") {
        let by_ring = UringConfig {
            inline_bytes: 0,
            ..base.clone()
        };
        row("one core, to tmpfs by the ring", &by_ring, one, Some(&file));
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = folder.path().join("store");
        std::fs::write(&file, vec![1; 33 << 20]).unwrap();
        std::fs::File::open(&file).unwrap().sync_all().unwrap();
        row("one core, to the disk", &base, one, Some(&file));
        let unregistered = UringConfig {
            register_buffers: false,
            ..base.clone()
        };
        row("one core, to the disk, not registered", &unregistered, one, Some(&file));
    }
    if has("yields") {
        for yields in [0, 16, 48, 64, 96, 128] {
            let config = UringConfig { yields, ..base.clone() };
            row(&format!("one core, {yields} yields"), &config, one, None);
            row(&format!("two cores, {yields} yields"), &config, two, None);
        }
    }
    if has("all") {
        for (where_, cpus) in [("one core", one), ("two cores", two)] {
            for (name, config) in [
                (
                    "DEFER_TASKRUN",
                    UringConfig {
                        defer_taskrun: true,
                        ..base.clone()
                    },
                ),
                (
                    "no POLL_FIRST",
                    UringConfig {
                        poll_first: false,
                        ..base.clone()
                    },
                ),
                (
                    "DEFER, no POLL_FIRST",
                    UringConfig {
                        defer_taskrun: true,
                        poll_first: false,
                        ..base.clone()
                    },
                ),
                (
                    "no yield",
                    UringConfig {
                        yields: 0,
                        ..base.clone()
                    },
                ),
                (
                    "2 yields",
                    UringConfig {
                        yields: 2,
                        ..base.clone()
                    },
                ),
                (
                    "DEFER, no yield",
                    UringConfig {
                        defer_taskrun: true,
                        yields: 0,
                        ..base.clone()
                    },
                ),
                (
                    "registered files",
                    UringConfig {
                        register_files: true,
                        ..base.clone()
                    },
                ),
                (
                    "zero copy from 4 KiB",
                    UringConfig {
                        zero_copy_bytes: Some(4096),
                        ..base.clone()
                    },
                ),
            ] {
                row(&format!("{where_}, {name}"), &config, cpus, None);
            }
        }
    }
}
