//! Writes of 4 KiB and their answers over loopback: messages per second, and CPU per write with both ends together.
//!
//! The two ends run on two threads, or (`one core`) in turn on one. `batch` is how many writes go out together; as
//! many are in flight. There is no store: the acceptor answers at once, so this is the fabric's and the kernel's share. Each is measured plain, and with links that are
//! protected in either way (behind a stand-in for the handshake, which is over by then), in one run.

use amita_fabric::secure::{Protection, Recorded, Role, Security};
use amita_fabric::{Config, Counters, Event, Fabric, Message};
use amita_reactor::core::{Service, placement};
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Completion, Driver, Pool, PoolConfig, Slice, Wait};
use amita_types::message::{Answer, AnswerBody, Request, RequestBody, Scope, WriteRequest};
use amita_types::{
    ChunkIndex, ClusterId, Epoch, Generation, GroupId, NodeId, RequestId, SnapshotId, StoreId, Version, VolumeId,
};
use proof::{Authority, StandIn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[path = "../tests/common/proof.rs"]
mod proof;

const LENGTH: u32 = 4096;
const MEASURED: Duration = Duration::from_millis(1500);
const WARM: Duration = Duration::from_millis(300);

/// What links are protected by; none: nothing.
type Mode = Option<Protection>;

fn fabric(node: u32, mode: Mode) -> (Fabric, UringDriver) {
    let pool = Pool::new(PoolConfig::with_total(64 << 20)).expect("64 MiB");
    let mut config = Config::new(ClusterId(1), NodeId(node), 1, pool.clone());
    if let Some(protection) = mode {
        let authority = Authority::new(7);
        let certificate = authority.certificate(Role::Node, &format!("n{node}"));
        let handshakes = StandIn::new(&authority, certificate, protection, node.into());
        config.security = Some(Security::new(Arc::new(handshakes)));
    }
    let mut fabric = Fabric::new(config);
    for node in [1, 2] {
        fabric.set_name(NodeId(node), Some(Recorded::node(format!("n{node}"))));
    }
    (
        fabric,
        UringDriver::new(UringConfig::default(), pool).expect("io_uring"),
    )
}

/// Asks: keeps `batch` writes in flight, sent together.
struct Asker {
    fabric: Fabric,
    batch: u64,
    request: Request,
    payload: Slice,
    next: u64,
    answered: u64,
}

impl Asker {
    fn new(fabric: Fabric, batch: u64) -> Asker {
        let bytes: Vec<u8> = (0..LENGTH).map(|at| (at * 7) as u8).collect();
        let body = RequestBody::Write(WriteRequest {
            chunk: ChunkIndex(1),
            offset_bytes: 0,
            length_bytes: LENGTH,
            version: Version(2),
            previous: Version(1),
            sums: [amita_types::crc32c(&bytes)].into_iter().collect(),
        });
        let scope = Scope {
            volume: VolumeId(1),
            generation: Generation(1),
            group: GroupId::default(),
            epoch: Epoch(1),
            snapshot: SnapshotId::HEAD,
        };
        let request = Request {
            id: RequestId(0),
            store: StoreId(1),
            scope,
            trace: amita_types::TraceId::NONE,
            purpose: Default::default(),
            body,
        };
        Asker {
            fabric,
            batch,
            request,
            payload: Slice::copy_from(&bytes),
            next: 0,
            answered: 0,
        }
    }
}

impl Service for Asker {
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        for completion in completions.drain(..) {
            self.fabric.completion(driver, completion);
        }
        for event in self.fabric.events() {
            match event {
                Event::Message { .. } => self.answered += 1,
                Event::Down { why, .. } => panic!("{why}"),
                _ => {}
            }
        }
        if self.answered == self.next
            && let Some(link) = self.fabric.link_to(NodeId(2))
        {
            for _ in 0..self.batch {
                self.request.id = RequestId(self.next);
                self.next += 1;
                let message = Message::Request(self.request.clone());
                self.fabric
                    .send(link, message, self.payload.clone())
                    .expect("within the window");
            }
        }
        self.fabric.flush(driver);
        Wait::UntilEvent
    }
}

/// Answers at once.
struct Answerer {
    fabric: Fabric,
    came: Vec<(amita_fabric::Link, Request)>,
    bytes: u64,
}

impl Service for Answerer {
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        for completion in completions.drain(..) {
            self.fabric.completion(driver, completion);
        }
        for event in self.fabric.events() {
            if let Event::Message {
                link,
                message: Message::Request(request),
                payload,
                ..
            } = event
            {
                self.bytes += payload.len() as u64;
                self.came.push((link, request));
            }
        }
        for (link, request) in self.came.drain(..) {
            let answer = Answer {
                id: request.id,
                store: request.store,
                lease_ms: 250,
                credit_blocks: 1,
                waited: Default::default(),
                trace: None,
                result: Ok(AnswerBody::Done),
            };
            self.fabric
                .send(link, Message::Answer(answer), Slice::default())
                .expect("asked for");
        }
        self.fabric.flush(driver);
        Wait::UntilEvent
    }
}

/// CPU time of all threads of this process.
fn cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

struct Figures {
    per_second: f64,
    cpu_us: f64,
    latency_us: f64,
    writes_per_send: f64,
}

fn figures(writes: u64, took: Duration, cpu: Duration, batch: u64, before: Counters, after: Counters) -> Figures {
    Figures {
        per_second: writes as f64 / took.as_secs_f64(),
        cpu_us: cpu.as_secs_f64() * 1e6 / writes as f64,
        latency_us: took.as_secs_f64() * 1e6 / (writes as f64 / batch as f64),
        writes_per_send: writes as f64 / (after.sends - before.sends) as f64,
    }
}

/// Drives the asker until `end`, with the other end in the same thread if it is given.
fn drive(
    asker: &mut (Asker, UringDriver),
    mut other: Option<&mut (Answerer, UringDriver)>,
    completions: &mut Vec<Completion>,
    end: Instant,
) {
    let mut wait = Wait::No;
    while Instant::now() < end {
        asker.1.poll(wait, completions);
        asker.0.pass(&mut asker.1, completions);
        wait = if other.is_some() { Wait::No } else { Wait::UntilEvent };
        if let Some((answerer, driver)) = other.as_deref_mut() {
            driver.poll(Wait::No, completions);
            answerer.pass(driver, completions);
        }
    }
}

fn measure(batch: u64, one_core: bool, mode: Mode) -> Figures {
    let stop = amita_reactor::core::Stop::new();
    let (fabric_2, driver_2) = fabric(2, mode);
    let mut answerer = (
        Answerer {
            fabric: fabric_2,
            came: Vec::new(),
            bytes: 0,
        },
        driver_2,
    );
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let mut core = None;
    let address = if one_core {
        answerer.0.fabric.listen(&mut answerer.1, any).expect("free")
    } else {
        let (tell, told) = std::sync::mpsc::channel();
        let config = amita_reactor::core::CoreConfig {
            index: 1,
            cpu: placement(2, None)[1],
        };
        let build = move || {
            let (mut fabric, mut driver) = fabric(2, mode);
            let address = fabric.listen(&mut driver, any)?;
            tell.send(address).expect("somebody waits");
            Ok((
                driver,
                Answerer {
                    fabric,
                    came: Vec::new(),
                    bytes: 0,
                },
            ))
        };
        core = Some(amita_reactor::core::spawn(config, stop.clone(), build).expect("a core"));
        told.recv().expect("an address")
    };
    let (fabric_1, driver_1) = fabric(1, mode);
    let mut asker = (Asker::new(fabric_1, batch), driver_1);
    let now = asker.1.now();
    asker.0.fabric.set_peer(now, NodeId(2), Some(address));
    let mut completions = Vec::new();
    let mut other = one_core.then_some(&mut answerer);
    drive(
        &mut asker,
        other.as_deref_mut(),
        &mut completions,
        Instant::now() + WARM,
    );
    let (answered, cpu_before, before, started) = (asker.0.answered, cpu(), asker.0.fabric.counters(), Instant::now());
    drive(&mut asker, other, &mut completions, started + MEASURED);
    let (took, cpu_used, after) = (started.elapsed(), cpu() - cpu_before, asker.0.fabric.counters());
    let writes = asker.0.answered - answered;
    stop.stop();
    if let Some(core) = core {
        core.join().expect("it ends in order");
    }
    figures(writes, took, cpu_used, batch, before, after)
}

/// What the codec alone costs: encode and decode a write's head, and an answer's.
fn codec_ns() -> (f64, f64) {
    use amita_fabric::codec::{check, decode, encode, prefix};
    let asker = Asker::new(fabric(1, None).0, 1);
    let answer = Answer {
        id: RequestId(1),
        store: StoreId(1),
        lease_ms: 250,
        credit_blocks: 1,
        waited: Default::default(),
        trace: None,
        result: Ok(AnswerBody::Done),
    };
    let time = |message: &Message, payload: usize| {
        const ROUNDS: u32 = 1_000_000;
        let mut out = Vec::with_capacity(1024);
        let before = cpu();
        for _ in 0..ROUNDS {
            out.clear();
            encode(&mut out, 1, std::hint::black_box(message), payload).expect("valid");
            let found = prefix(&out, Some(1)).expect("valid").expect("whole");
            check(&out).expect("valid");
            std::hint::black_box(decode(found, &out).expect("valid"));
        }
        (cpu() - before).as_secs_f64() * 1e9 / f64::from(ROUNDS)
    };
    (
        time(&Message::Request(asker.request), LENGTH as usize),
        time(&Message::Answer(answer), 0),
    )
}

/// CRC-32C of a block: what a second sum over the payload would cost at each end.
fn crc_ns() -> f64 {
    let block = vec![7u8; LENGTH as usize];
    let before = cpu();
    for _ in 0..200_000 {
        std::hint::black_box(amita_types::crc32c(std::hint::black_box(&block)));
    }
    (cpu() - before).as_secs_f64() * 1e9 / 200_000.0
}

fn report(figures: &Figures, batch: u64, one_core: bool, mode: Mode) {
    let threads = if one_core { "one_thread" } else { "two_threads" };
    let mode = mode.map_or(String::new(), |protection| format!(".{protection}"));
    let name = format!("fabric.write.4k.batch{batch}.{threads}{mode}");
    println!("{:<44} {:>14.0}  writes/s", format!("{name}.rate"), figures.per_second);
    println!(
        "{:<44} {:>14.2}  us, both ends",
        format!("{name}.cpu_us"),
        figures.cpu_us
    );
    println!(
        "{:<44} {:>14.1}  us for the batch",
        format!("{name}.latency_us"),
        figures.latency_us
    );
    println!(
        "{:<44} {:>14.1}  writes/send",
        format!("{name}.per_send"),
        figures.writes_per_send
    );
}

fn main() {
    println!("{:<44} {:>14}  unit", "fabric, 4 KiB writes over loopback", "value");
    for (one_core, batch) in [(true, 1), (true, 32), (false, 1), (false, 32)] {
        for mode in [None, Some(Protection::Auth), Some(Protection::Secret)] {
            report(&measure(batch, one_core, mode), batch, one_core, mode);
        }
    }
    let (write, answer) = codec_ns();
    println!("{:<44} {write:>14.0}  ns, encode and decode", "fabric.codec.write_ns");
    println!("{:<44} {answer:>14.0}  ns, encode and decode", "fabric.codec.answer_ns");
    println!("{:<44} {:>14.0}  ns, a block", "fabric.codec.crc32c_4k_ns", crc_ns());
}
