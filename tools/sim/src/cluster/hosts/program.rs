//! A program with a client's identity: the product's own volumes through nodes (`amita_client::remote`), over the product's NBD
//! fronts. It proves nothing here; TLS has no part in the simulation.

use super::linux::{End, HostEffect};
use super::nbd::Order;
use crate::history::{Kind, OperationId};
use amita_client::remote::{Attachments, Faults, Nothing, Settings};
use amita_frontend::{Event, FrontId, StorageService, Who};
use amita_nbd::wire::Errno;
use amita_reactor::sim::SimDriver;
use amita_reactor::{Completion, Driver, Pool, Slice, Time};
use amita_types::VolumeId;
use amita_types::io::{IoError, Op, Payload};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

const FRONT: FrontId = FrontId(1);
/// The pause before it asks again for a volume that it was refused.
const AGAIN: Duration = Duration::from_millis(200);

/// One program.
pub struct Program {
    attachments: Attachments,
    export: String,
    /// Openings that were asked for; the volume that the last one has brought.
    openings: u64,
    volume: Option<VolumeId>,
    /// When to ask for it next; `None`: it is asked for, or open.
    ask_at: Option<Time>,
    since: Time,
    waiting: VecDeque<Order>,
    pending: BTreeMap<u64, Kind>,
    /// In order.
    pub acts: VecDeque<HostEffect>,
}

impl Program {
    /// One that will ask these gateways for a volume, and goes on asking for so long.
    pub fn new(export: String, nodes: Vec<SocketAddr>, patience: Duration, resend_at_once: bool) -> Program {
        let settings = Settings {
            nodes,
            patience,
            faults: Faults { resend_at_once },
        };
        Program {
            attachments: Attachments::new(settings, Box::new(Nothing), Pool::heap()),
            export,
            openings: 0,
            volume: None,
            ask_at: Some(Time::default()),
            since: Time::default(),
            waiting: VecDeque::new(),
            pending: BTreeMap::new(),
            acts: VecDeque::new(),
        }
    }

    /// Requests that have not ended.
    pub fn pending(&self) -> Vec<OperationId> {
        let sent = self.pending.keys().map(|tag| OperationId(*tag as u32));
        sent.chain(self.waiting.iter().map(|order| order.id)).collect()
    }

    /// When [`Program::pass`] is wanted.
    pub fn deadline(&self) -> Option<Time> {
        let due = self.attachments.deadline();
        due.into_iter().chain(self.ask_at).min()
    }

    /// The application asks; it goes out with the next pass.
    pub fn submit(&mut self, order: Order) {
        self.waiting.push_back(order);
    }

    /// Takes in what has ended. Gives what was read with each request that ended well.
    pub fn pass(&mut self, driver: &mut SimDriver, completions: &mut Vec<Completion>) -> Vec<(OperationId, Vec<u8>)> {
        let now = driver.now();
        let mut done = Vec::new();
        loop {
            if self.ask_at.is_some_and(|at| now >= at) {
                self.ask_at = None;
                self.openings += 1;
                self.attachments.open(FRONT, self.openings, &self.export, &Who::Program);
            }
            self.send();
            self.attachments.pass(driver, completions);
            for tag in self.attachments.repeated() {
                let id = OperationId(tag as u32);
                self.acts.push_back(HostEffect::Again { id, lost: false });
            }
            let mut any = false;
            while let Some(event) = self.attachments.next_event() {
                any = true;
                self.hear(now, event, &mut done);
            }
            if !any {
                return done;
            }
        }
    }

    fn hear(&mut self, now: Time, event: Event, done: &mut Vec<(OperationId, Vec<u8>)>) {
        match event {
            Event::Opened { result: Ok(info), .. } => (self.volume, self.since) = (Some(info.id), now),
            Event::Opened { result: Err(_), .. } | Event::Lost { .. } => {
                self.volume = None;
                self.ask_at = Some(now.plus(AGAIN));
            }
            Event::Done { tag, result, payload } => {
                let id = OperationId(tag as u32);
                self.pending.remove(&tag);
                match result {
                    Ok(()) => done.push((id, bytes(payload))),
                    Err(why) => self.acts.push_back(HostEffect::Ended {
                        id,
                        path: 0,
                        end: end(why, self.since),
                        data: Vec::new(),
                    }),
                }
            }
            _ => {}
        }
    }

    fn send(&mut self) {
        let Some(volume) = self.volume else { return };
        while let Some(order) = self.waiting.pop_front() {
            let Order { offset, length, .. } = order;
            let op = match order.kind {
                Kind::Read => Op::Read { offset, length },
                Kind::Write | Kind::Compare => Op::Write { offset, length },
                Kind::Clear => Op::Clear {
                    offset,
                    length: length.into(),
                },
            };
            let tag = u64::from(order.id.0);
            self.pending.insert(tag, order.kind);
            let data = match op {
                Op::Write { .. } => Slice::copy_from(&order.data),
                _ => Slice::default(),
            };
            self.attachments.submit(FRONT, tag, volume.into(), op, data);
        }
    }

    /// What is under way, for a person.
    pub fn describe(&self) -> String {
        format!(
            "a program, {} sent, {} wait, {}",
            self.pending.len(),
            self.waiting.len(),
            self.attachments.trouble().unwrap_or_else(|| "served".to_owned())
        )
    }
}

fn bytes(payload: Payload) -> Vec<u8> {
    match payload {
        Payload::Data(data) => data.to_vec(),
        Payload::Zeros(length) => vec![0; length as usize],
        Payload::None | Payload::Allocation(_) | Payload::Differs(_) => Vec::new(),
    }
}

/// As the number of NBD that the program had from its gateway.
fn end(why: IoError, since: Time) -> End {
    let errno = match why {
        IoError::Lost => return End::Unknown,
        IoError::NoSpace => Errno::NoSpc,
        IoError::OutOfRange | IoError::Invalid => Errno::Inval,
        _ => Errno::Io,
    };
    End::Errno(errno as u32, since)
}
