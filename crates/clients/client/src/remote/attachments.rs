//! The volumes of one program that it uses through nodes: a storage service like the one inside a gateway, whose other end is a
//! node's (decision 038).

use super::Faults;
use super::attachment::{Attachment, Step};
use super::link::{QUIET, SILENCE};
use amita_frontend::compute::Computation;
use amita_frontend::reservation::{Command, Refusal};
use amita_frontend::{Event, FrontId, HostKey, OpenError, RegisterMessage, Source, StorageService, Who};
use amita_nbd::client::Dial;
use amita_reactor::driver::{Completion, Driver, Outcome, Time};
use amita_reactor::{Pool, Slice};
use amita_types::VolumeId;
use amita_types::io::{IoError, Op, Payload};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Connections of a volume, with those that have gone, that are remembered.
const LINKS_EACH: usize = 16;

/// How nodes are reached.
pub struct Settings {
    /// Where they serve NBD.
    pub nodes: Vec<SocketAddr>,
    /// How long a volume may be without a node before it is lost.
    pub patience: Duration,
    /// Rules that are switched off, by the simulator only.
    pub faults: Faults,
}

/// What a program shows of itself, and believes.
pub trait Proof {
    /// How a connection for the volume of that name begins.
    fn dial(&self, volume: &str) -> Dial;

    /// The certificate that is shown now, by a number that grows with each one.
    fn certificate(&self) -> u64 {
        0
    }

    /// Is a node that has shown these certificates still believed?
    fn trusts(&self, _chain: &[rustls::pki_types::CertificateDer<'static>]) -> bool {
        true
    }

    /// Grows whenever what the others say may have changed.
    fn generation(&self) -> u64 {
        0
    }
}

/// Proves nothing, in plain text: for a network of one's own, and for the simulator.
pub struct Nothing;

impl Proof for Nothing {
    fn dial(&self, volume: &str) -> Dial {
        Dial {
            export: volume.to_owned(),
            tls: None,
        }
    }
}

/// The volumes.
pub struct Attachments {
    settings: Settings,
    proof: Box<dyn Proof>,
    generation: u64,
    pool: Pool,
    now: Time,
    volumes: BTreeMap<VolumeId, Attachment>,
    last: u64,
    links: u64,
    /// Which volume a connection is for.
    owners: BTreeMap<u64, VolumeId>,
    /// Volumes that were lost a moment ago, by their names: nothing is to be written there before.
    late: BTreeMap<String, Time>,
    events: VecDeque<Event>,
    complaints: Vec<String>,
    repeated: Vec<u64>,
}

impl Attachments {
    /// None yet.
    #[must_use]
    pub fn new(settings: Settings, proof: Box<dyn Proof>, pool: Pool) -> Attachments {
        Attachments {
            generation: proof.generation(),
            settings,
            proof,
            pool,
            now: Time::default(),
            volumes: BTreeMap::new(),
            last: 0,
            links: 0,
            owners: BTreeMap::new(),
            late: BTreeMap::new(),
            events: VecDeque::new(),
            complaints: Vec::new(),
            repeated: Vec::new(),
        }
    }

    /// The oldest of what happened and was not taken yet.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Why nodes were of no use, since this was last asked; a line each.
    pub fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }

    /// The tags of requests that change something and were sent again, since this was last asked.
    pub fn repeated(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.repeated)
    }

    /// Why a volume that was asked for is not open yet.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let newest = self.volumes.values().next_back()?;
        newest.trouble().map(str::to_owned)
    }

    /// When [`Attachments::pass`] is wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let volumes = self.volumes.values();
        volumes.filter_map(|volume| volume.deadline(self.now)).min()
    }

    /// Takes in what has ended, and starts what follows.
    pub fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) {
        self.now = driver.now();
        for completion in completions.drain(..) {
            self.completion(driver, completion);
        }
        let generation = self.proof.generation();
        let judged_anew = self.generation != generation;
        self.generation = generation;
        let numbers: Vec<VolumeId> = self.volumes.keys().copied().collect();
        for number in numbers {
            self.with(driver, number, |volume, step| {
                if judged_anew {
                    volume.judge(step);
                }
                volume.run(step);
            });
        }
        self.late.retain(|_, until| *until > self.now);
        for volume in self.volumes.values().filter(|volume| volume.is_over()) {
            if volume.writes_from() > self.now {
                let late = self.late.entry(volume.name().to_owned()).or_default();
                *late = volume.writes_from().max(*late);
            }
        }
        self.volumes.retain(|_, volume| !volume.is_over());
        // What comes late of a connection that is gone finds nobody, with or without this.
        if self.owners.len() > self.volumes.len() * LINKS_EACH + LINKS_EACH {
            let volumes = &self.volumes;
            self.owners
                .retain(|link, volume| volumes.get(volume).is_some_and(|volume| volume.has_link(*link)));
        }
    }

    /// Ends all connections.
    pub fn end(&mut self, driver: &mut dyn Driver) {
        for volume in self.volumes.values_mut() {
            volume.end_links(driver);
        }
        self.volumes.clear();
    }

    fn with(&mut self, driver: &mut dyn Driver, number: VolumeId, act: impl FnOnce(&mut Attachment, &mut Step<'_>)) {
        let Some(volume) = self.volumes.get_mut(&number) else {
            return;
        };
        let (proof, before) = (&*self.proof, self.links);
        let mut step = Step {
            driver,
            pool: &self.pool,
            nodes: &self.settings.nodes,
            dial: &|name| proof.dial(name),
            certificate: proof.certificate(),
            trusts: &|chain| proof.trusts(chain),
            patience: self.settings.patience,
            links: &mut self.links,
            events: &mut self.events,
            complaints: &mut self.complaints,
            repeated: &mut self.repeated,
            faults: self.settings.faults,
        };
        act(volume, &mut step);
        self.owners.extend((before + 1..=self.links).map(|link| (link, number)));
    }

    fn completion(&mut self, driver: &mut dyn Driver, completion: Completion) {
        let number = completion.token.0 >> 8;
        let volume = self.owners.get(&number).copied();
        let pool = self.pool.clone();
        match completion.outcome {
            Outcome::Connected { result } => {
                let socket = result.as_ref().ok().copied();
                let mut is_taken = false;
                if let Some(volume) = volume {
                    self.with(driver, volume, |volume, step| {
                        volume.with_link(step, number, |link, _| {
                            let socket = result.map_err(|why| why.to_string())?;
                            is_taken = true;
                            link.connected(socket);
                            Ok(())
                        });
                    });
                }
                match socket {
                    // Also while it says nothing by right: a node that opens a volume takes its time.
                    Some(socket) if is_taken => driver.watch_peer(socket, QUIET + SILENCE),
                    Some(socket) => driver.abort(socket),
                    None => {}
                }
            }
            Outcome::Received { buffer, result } => {
                let Some(volume) = volume else { return };
                let now = self.now;
                self.with(driver, volume, |volume, step| {
                    volume.with_link(step, number, |link, words| {
                        link.received(now, buffer, result, &pool, words)
                    });
                });
            }
            Outcome::Sent { data, result } => {
                let Some(volume) = volume else { return };
                self.with(driver, volume, |volume, step| {
                    volume.with_link(step, number, |link, _| link.sent(data, result));
                });
            }
            // A timer, or somebody who wakes the core: it runs, and that is all they want.
            _ => {}
        }
    }
}

impl StorageService for Attachments {
    fn list(&mut self, _: FrontId, tag: u64, _: &Who) {
        let result = Err(OpenError::Refused(
            "a program asks for volumes by their names".to_owned(),
        ));
        self.events.push_back(Event::Listed { tag, result });
    }

    fn open(&mut self, _: FrontId, tag: u64, name: &str, _: &Who) {
        self.last += 1;
        let id = VolumeId(self.last);
        // Where the others are, as likely as not; the first one goes where chance has it.
        let node = self.volumes.values().next_back().map_or(0, Attachment::node);
        let writes_from = self.late.get(name).copied().unwrap_or_default();
        let volume = Attachment::new(self.now, id, name, tag, node, writes_from);
        self.volumes.insert(id, volume);
    }

    fn bases(&mut self, _: FrontId, tag: u64, _: &str, _: Vec<String>, _: &Who) {
        let why = "what was changed in a volume is told to a gateway's identity, not to a client's; or by NBD, in the metadata context \
                   qemu:dirty-bitmap:SNAPSHOT";
        let result = Err(OpenError::Refused(why.to_owned()));
        self.events.push_back(Event::Bases { tag, result });
    }

    fn close(&mut self, _: FrontId, source: Source) {
        if let Some(volume) = self.volumes.get_mut(&source.volume) {
            volume.close(self.now);
        }
    }

    fn submit(&mut self, _: FrontId, tag: u64, source: Source, op: Op, data: Slice) {
        let failed = match self.volumes.get_mut(&source.volume) {
            // NBD has them as its block status, which is not asked for here.
            _ if matches!(op, Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. }) => IoError::Invalid,
            Some(volume) if !volume.is_over() => return volume.submit(tag, op, data),
            _ => IoError::Lost,
        };
        self.events.push_back(Event::Done {
            tag,
            result: Err(failed),
            payload: Payload::None,
        });
    }

    fn identify(&mut self, _: FrontId, _: HostKey) {}

    fn reserve(&mut self, _: FrontId, tag: u64, _: VolumeId, _: HostKey, _: Command) {
        let result = Err(Refusal::Unavailable);
        self.events.push_back(Event::Reserved { tag, result });
    }

    fn register(&mut self, _: FrontId, _: u64, _: RegisterMessage) {}

    fn compute(&mut self, _: FrontId, tag: u64, _: Computation) {
        self.events.push_back(Event::Computed { tag, result: None });
    }
}
