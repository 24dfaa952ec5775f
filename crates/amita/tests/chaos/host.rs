//! Hosts over NVMe/TCP, each with a path to every gateway, that do what Linux does with several paths (`nvme-core` 6.12,
//! `queue-depth` and `round-robin` policies set aside: paths are used in turn, so that every gateway forwards):
//!
//! * A command whose path ends (the connection breaks, a command or a Keep Alive is not answered in time) goes to another
//!   path **at once**. Nothing waits until the old one surely has no copy of it left: that is the gateways' task.
//! * A command that ends with a path error goes to another path at once; one that ends otherwise, without DNR, is tried a
//!   few times more, after a moment.
//! * A path that has ended is connected again, again and again.
//!
//! What is sent again is an operation of its own, and a write has a stamp of its own: the product does not look at what is
//! written, and so the checker can tell which of the two was carried out late.

use crate::clients::{Recorder, place};
use amita_nvme_host::wire::status;
use amita_nvme_host::{Completion, Controller, Error, Host, Queue, Request, Settings, commands};
use amita_sim::history::{Kind, OperationId};
use amita_sim::random::Random;
use amita_sim::stamp::{self, SECTOR_BYTES, Sector};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// A connection that is not made in this time is given up.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// The Keep Alive time-out that hosts name, and how often they send one (Linux: half of it).
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// A command without an answer for so long ends its path. (Linux: 30 s; a cycle is shorter.)
const COMMAND_PATIENCE: Duration = Duration::from_secs(3);
/// Until a path that has ended is connected again. (Linux: 10 s.)
const RECONNECT: Duration = Duration::from_millis(200);
/// How often what failed otherwise is tried again, and after how long (`nvme_core.max_retries`).
const MAX_RETRIES: u32 = 5;
const RETRY: Duration = Duration::from_millis(100);
/// One look at a path for what it has answered.
const LOOK: Duration = Duration::from_micros(300);
const ENTRIES: u16 = 32;
/// The one namespace, of 512-byte blocks: a block of a host is a sector of the history.
const NAMESPACE: u32 = 1;

/// What a host wants of a volume.
#[derive(Clone, Copy)]
struct Operation {
    id: OperationId,
    kind: Kind,
    first: Sector,
    sectors: u32,
    /// Clears: by Dataset Management, or by Write Zeroes.
    deallocate: bool,
    retries: u32,
    /// Not to be sent before.
    not_before: Option<Instant>,
}

struct Up {
    controller: Controller,
    queue: Queue,
    under_way: BTreeMap<u16, (Operation, Instant)>,
    /// The Keep Alive under way, and since when; when the next one is due.
    keep_alive: Option<(u16, Instant)>,
    next_keep_alive: Instant,
}

type Connected = Result<Box<(Controller, Queue)>, Error>;

enum Path {
    /// To be connected then.
    Down(Instant),
    Connecting(Receiver<Connected>),
    Up(Box<Up>),
}

/// A host at work.
pub struct Worker {
    pub number: u32,
    pub recorder: Arc<Recorder>,
    /// The gateways, and the subsystem there.
    pub gateways: Vec<SocketAddr>,
    pub subsystem: String,
    pub stop: Arc<AtomicBool>,
    pub depth: usize,
    pub random: Random,
}

struct Machine {
    worker: Worker,
    paths: Vec<Path>,
    /// The path that is used next.
    turn: usize,
    /// To be sent.
    waiting: VecDeque<Operation>,
    name: Host,
}

impl Worker {
    /// Works until all is over, and waits for what is under way then as long as a command's patience lasts.
    pub fn run(self) {
        let name = Host::named(&format!("nqn.2014-08.org.example:chaos-{}", self.number));
        let paths = self.gateways.iter().map(|_| Path::Down(Instant::now())).collect();
        let mut machine = Machine {
            paths,
            turn: self.number as usize,
            waiting: VecDeque::new(),
            name,
            worker: self,
        };
        machine.run();
    }
}

impl Machine {
    fn run(&mut self) {
        let mut ends: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let over = self.worker.stop.load(Ordering::Relaxed);
            if over {
                let until = *ends.get_or_insert(now + COMMAND_PATIENCE);
                if self.under_way() + self.waiting.len() == 0 || now > until {
                    break;
                }
            }
            for at in 0..self.paths.len() {
                self.look_after(at, now);
            }
            while !over && self.under_way() + self.waiting.len() < self.worker.depth {
                let asked = self.ask();
                self.waiting.push_back(asked);
            }
            self.send(now);
            let mut any = false;
            for at in 0..self.paths.len() {
                any |= self.hear(at);
            }
            if !any && self.under_way() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            // The history is to be long, not endless.
            if self.worker.random.percent(40) {
                let pause = self.worker.random.within(200, 2000);
                std::thread::sleep(Duration::from_micros(pause));
            }
        }
        for path in &mut self.paths {
            if let Path::Up(up) = path {
                // It may be gone already.
                let _ = up.controller.shut_down();
            }
        }
    }

    fn under_way(&self) -> usize {
        let of = |path: &Path| match path {
            Path::Up(up) => up.under_way.len(),
            _ => 0,
        };
        self.paths.iter().map(of).sum()
    }

    /// Connects, sends Keep Alives, ends what is silent for too long.
    fn look_after(&mut self, at: usize, now: Instant) {
        match &mut self.paths[at] {
            Path::Down(until) if now >= *until => {
                let (sender, receiver) = channel();
                let mut settings = Settings::new(self.worker.gateways[at], &self.worker.subsystem);
                settings.timeout = CONNECT_PATIENCE;
                settings.keep_alive_ms = KEEP_ALIVE.as_millis() as u32;
                let name = self.name.clone();
                // Whoever waits for a gateway that stands still keeps no other path waiting.
                let thread = std::thread::Builder::new().name("connect".to_owned());
                let _ = thread.spawn(move || sender.send(connect(&settings, &name)));
                self.paths[at] = Path::Connecting(receiver);
            }
            Path::Down(_) => {}
            Path::Connecting(receiver) => match receiver.try_recv() {
                Ok(Ok(connected)) => {
                    let (controller, queue) = *connected;
                    self.paths[at] = Path::Up(Box::new(Up {
                        controller,
                        queue,
                        under_way: BTreeMap::new(),
                        keep_alive: None,
                        next_keep_alive: now + KEEP_ALIVE / 2,
                    }));
                }
                Ok(Err(_)) | Err(TryRecvError::Disconnected) => self.paths[at] = Path::Down(now + RECONNECT),
                Err(TryRecvError::Empty) => {}
            },
            Path::Up(up) => {
                let silent = up.keep_alive.is_some_and(|(_, since)| now > since + KEEP_ALIVE);
                let late = up.under_way.values().any(|(_, since)| now > *since + COMMAND_PATIENCE);
                if silent || late {
                    let what = if silent {
                        "no answer to a Keep Alive"
                    } else {
                        "a command timed out"
                    };
                    self.end(at, what, false);
                    return;
                }
                if up.keep_alive.is_none() && now >= up.next_keep_alive {
                    match up.controller.admin.submit(&commands::keep_alive()) {
                        Ok(id) => {
                            up.keep_alive = Some((id, now));
                            up.next_keep_alive = now + KEEP_ALIVE / 2;
                        }
                        Err(_) => self.end(at, "a Keep Alive could not be sent", true),
                    }
                }
            }
        }
    }

    /// A path has ended, because nothing came in time or because the connection is `broken`: what it had goes to the others
    /// at once.
    fn end(&mut self, at: usize, why: &str, broken: bool) {
        self.worker.recorder.error(format!("path ended: {why}"));
        let path = std::mem::replace(&mut self.paths[at], Path::Down(Instant::now() + RECONNECT));
        if let Path::Up(up) = path {
            for (operation, _) in up.under_way.into_values() {
                self.again(operation, broken);
            }
        }
    }

    /// What may have been carried out is sent once more.
    fn again(&mut self, mut operation: Operation, broken: bool) {
        if operation.kind != Kind::Read {
            operation.id = self.worker.recorder.repeat(operation.id, broken);
        }
        self.waiting.push_front(operation);
    }

    /// A new operation.
    fn ask(&mut self) -> Operation {
        let random = &mut self.worker.random;
        let kind = match random.below(100) {
            0..50 => Kind::Write,
            50..88 => Kind::Read,
            _ => Kind::Clear,
        };
        let (first, sectors) = place(random, kind);
        let deallocate = random.percent(60);
        Operation {
            id: self.worker.recorder.invoke(self.worker.number, kind, first, sectors),
            kind,
            first,
            sectors,
            deallocate,
            retries: 0,
            not_before: None,
        }
    }

    fn request(&self, operation: &Operation) -> Request {
        let (block, blocks) = (operation.first.0, operation.sectors);
        match operation.kind {
            Kind::Write => {
                let mut data = vec![0; blocks as usize * SECTOR_BYTES];
                stamp::fill(
                    &mut data,
                    self.worker.recorder.volume,
                    operation.first,
                    operation.id.stamp(),
                );
                commands::write(NAMESPACE, block, blocks, data)
            }
            Kind::Read => commands::read(NAMESPACE, block, blocks, SECTOR_BYTES),
            // Deallocated blocks read as zeros here (Identify Namespace, DLFEAT).
            Kind::Clear if operation.deallocate => commands::deallocate(NAMESPACE, &[(block, blocks)]),
            Kind::Clear => commands::write_zeroes(NAMESPACE, block, blocks, true),
            Kind::Compare => unreachable!("none is drawn"),
        }
    }

    /// Sends what waits, on the paths that there are, in turn.
    fn send(&mut self, now: Instant) {
        for _ in 0..self.waiting.len() {
            let Some(operation) = self.waiting.pop_front() else {
                return;
            };
            if operation.not_before.is_some_and(|at| now < at) {
                self.waiting.push_back(operation);
                continue;
            }
            let paths = self.paths.len();
            let next = (0..paths)
                .map(|step| (self.turn + step) % paths)
                .find(|&at| matches!(self.paths[at], Path::Up(_)));
            let Some(at) = next else {
                self.waiting.push_front(operation);
                return;
            };
            self.turn = at + 1;
            let request = self.request(&operation);
            let Path::Up(up) = &mut self.paths[at] else {
                unreachable!("it was found to be up")
            };
            match up.queue.submit(&request) {
                Ok(id) => {
                    up.under_way.insert(id, (operation, now));
                }
                Err(_) => {
                    self.end(at, "a command could not be sent", true);
                    self.again(operation, true);
                }
            }
        }
    }

    /// Takes in what a path has answered. Was there anything?
    fn hear(&mut self, at: usize) -> bool {
        let mut any = false;
        loop {
            let Path::Up(up) = &mut self.paths[at] else { return any };
            let heard = match up.keep_alive {
                Some((id, _)) => match up.controller.admin.poll_until(Instant::now() + LOOK) {
                    Ok(done) => {
                        if done.id == id {
                            up.keep_alive = None;
                        }
                        continue;
                    }
                    Err(Error::Timeout(_)) => up.queue.poll_until(Instant::now() + LOOK),
                    Err(error) => Err(error),
                },
                None if up.under_way.is_empty() => return any,
                None => up.queue.poll_until(Instant::now() + LOOK),
            };
            match heard {
                Ok(done) => {
                    any = true;
                    let Some((operation, _)) = up.under_way.remove(&done.id) else {
                        continue;
                    };
                    self.answered(operation, &done);
                }
                Err(Error::Timeout(_)) => return any,
                Err(error) => {
                    self.end(at, &short(&error), true);
                    return any;
                }
            }
        }
    }

    fn answered(&mut self, mut operation: Operation, done: &Completion) {
        if done.status.is_success() {
            self.worker.recorder.complete(operation.id, &done.data);
            return;
        }
        self.worker.recorder.error(format!("answered {}", done.status));
        // Path errors (Base 2.1, figure "Path Related Status") go elsewhere at once; the rest is tried again a little later, or
        // ends with an unknown outcome.
        if done.status.kind == 3 {
            operation.not_before = Some(Instant::now() + LOOK);
            self.again(operation, false);
        } else if !done.status.final_
            && operation.retries < MAX_RETRIES
            && done.status.number() != status::INVALID_FIELD
        {
            operation.retries += 1;
            operation.not_before = Some(Instant::now() + RETRY);
            self.again(operation, false);
        }
    }
}

/// Enough to count the ways in which connections end.
fn short(error: &Error) -> String {
    match error {
        Error::Io(error) => format!("{:?}", error.kind()),
        other => other.to_string(),
    }
}

fn connect(settings: &Settings, name: &Host) -> Connected {
    let mut controller = Controller::connect(settings, name)?;
    controller.enable()?;
    controller.call(&commands::queues(1))?.good("Number of Queues")?;
    let queue = controller.io_queue(1, ENTRIES)?;
    Ok(Box::new((controller, queue)))
}
