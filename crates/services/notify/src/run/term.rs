//! A term: from when a node begins to tell until it ends, or another one does.

use crate::alert::Alerts;
use crate::channel::Channel;
use crate::condition;
use crate::delivery::{Around, Delivery};
use crate::failing::{self, Known};
use crate::lead::Lead;
use crate::message::{self, From, Message};
use crate::records::{self, Answer, Leader, Test};
use crate::send::{TIMEOUT, send};
use crate::silence::Silence;
use crate::{admin, clip};
use amita_control::admin::AdminError;
use amita_control::events::Writer;
use amita_keys::SealKey;
use amita_metadata::{Call, Client, KeyValue, Op};
use amita_types::NodeId;
use amita_types::condition::failing_channels_prefix;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often it is looked at what has come in.
const TICK: Duration = Duration::from_millis(250);
/// How often channels, silences and wishes are read.
const READ: Duration = Duration::from_secs(2);
/// How often the cluster is looked at: so often, or so seldom that it is a hundredth of the time, and no seldomer than that.
const JUDGE: Duration = Duration::from_secs(5);
const SELDOMEST: Duration = Duration::from_secs(60);
/// What has changed but in words is written so often.
const WORDS: Duration = Duration::from_secs(60);
/// An attempt begins only with so much left of the lease beyond its own time.
const MARGIN: Duration = Duration::from_secs(1);
/// After a failure it is tried again so soon, each time twice as late, and no later than this; give or take a quarter.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A wish for a test is good for so long, in seconds.
const TEST_LIFE_S: u64 = 60;

/// How a term ended.
pub(super) enum End {
    /// The node ends.
    Stopped,
    /// Another node may tell now.
    Deposed,
    /// This node cannot open the secret of a channel: another one may.
    Hindered,
}

/// What a channel was told, and what of that is not written yet.
#[derive(Default)]
struct Sent {
    delivery: Delivery,
    revision: u64,
    is_dirty: bool,
}

/// When a channel that failed is tried again.
struct Pause {
    failures: u32,
    until: Instant,
}

/// What an attempt was for.
enum Job {
    Message { group: String, id: String },
    Test { wish: Test, revision: u64 },
}

/// What came of it.
struct Done {
    channel: String,
    job: Job,
    said: Result<String, String>,
    took: Duration,
}

pub(super) struct Term {
    client: Client,
    lead: Lead,
    who: Leader,
    seal: Option<SealKey>,
    cluster: String,
    alerts: Alerts,
    alerts_revision: u64,
    /// Is there something in the alerts that is not written? Not counting words.
    is_dirty: bool,
    written_at: Instant,
    channels: Vec<Channel>,
    /// When they were changed last.
    channels_revision: u64,
    silences: Vec<Silence>,
    sent: BTreeMap<String, Sent>,
    tests: BTreeMap<String, (Test, u64)>,
    /// Of which channels it is said that they fail.
    failing: BTreeMap<String, Known>,
    /// Writes events as this node; none: its number is not known yet.
    events: Option<Writer>,
    busy: BTreeSet<String>,
    pauses: BTreeMap<String, Pause>,
    read_at: Option<Instant>,
    judge_at: Option<Instant>,
    /// Was the state read since the term began?
    is_read: bool,
    /// The key that says that this node tells is another one's, or gone.
    is_deposed: bool,
    to_us: Sender<Done>,
    done: Receiver<Done>,
    warned: Option<String>,
}

impl Term {
    pub(super) fn new(client: Client, lead: Lead, who: Leader, seal: Option<SealKey>) -> Term {
        let (to_us, done) = channel();
        Term {
            client,
            lead,
            who,
            seal,
            cluster: String::new(),
            alerts: Alerts::default(),
            alerts_revision: 0,
            is_dirty: false,
            written_at: Instant::now(),
            channels: Vec::new(),
            channels_revision: 0,
            silences: Vec::new(),
            sent: BTreeMap::new(),
            tests: BTreeMap::new(),
            failing: BTreeMap::new(),
            events: None,
            busy: BTreeSet::new(),
            pauses: BTreeMap::new(),
            read_at: None,
            judge_at: None,
            is_read: false,
            is_deposed: false,
            to_us,
            done,
            warned: None,
        }
    }

    /// Tells until the end. `left`: which channels were left to other nodes before, because this one cannot open their secrets.
    pub(super) fn run(mut self, stop: &AtomicBool, left: &mut Option<u64>) -> End {
        log::info!("node {} tells of alerts from now on", self.who.node);
        loop {
            if stop.load(Ordering::Relaxed) {
                // What is on its way has its time: its answer is worth a message that is not sent twice.
                self.finish();
                self.lead.resign();
                return End::Stopped;
            }
            if !self.lead.renew() || self.is_deposed {
                log::info!("node {} tells of alerts no longer", self.who.node);
                return End::Deposed;
            }
            if let Err(why) = self.tick() {
                self.warn(&why);
            }
            if self.is_hindered() && *left != Some(self.channels_revision) {
                *left = Some(self.channels_revision);
                log::info!(
                    "node {} leaves the telling of alerts to a node that has the sealing key",
                    self.who.node
                );
                self.finish();
                self.lead.resign();
                return End::Hindered;
            }
            if let Ok(done) = self.done.recv_timeout(TICK) {
                self.take(done);
            }
        }
    }

    fn is_hindered(&self) -> bool {
        self.channels
            .iter()
            .any(|channel| channel.secret.is_some() && channel.open(self.seal.as_ref()).is_err())
    }

    /// Waits for what is on its way, and writes down what came of it.
    fn finish(&mut self) {
        let began = Instant::now();
        while !self.busy.is_empty() && began.elapsed() < TIMEOUT && !self.lead.time_left().is_zero() {
            if let Ok(done) = self.done.recv_timeout(TICK) {
                self.take(done);
            }
            let _ = self.lead.renew();
        }
        let _ = self.save_sent();
    }

    fn warn(&mut self, why: &AdminError) {
        // That the metadata is away, or full, others say.
        let is_known = matches!(why, AdminError::Metadata(_) | AdminError::NoCluster);
        let why = why.to_string();
        if !is_known && self.warned.as_ref() != Some(&why) {
            log::warn!("alerts cannot be judged: {why}");
            self.warned = Some(why);
        }
    }

    fn tick(&mut self) -> Result<(), AdminError> {
        while let Ok(done) = self.done.try_recv() {
            self.take(done);
        }
        self.save_sent()?;
        if self.read_at.is_none_or(|at| at.elapsed() >= READ) {
            self.read()?;
            self.read_at = Some(Instant::now());
        }
        if !self.is_read {
            return Ok(());
        }
        let is_due = self.judge_at.is_none_or(|at| Instant::now() >= at);
        let judged = if is_due { self.judge() } else { Ok(()) };
        // What is known is told, also where it cannot be looked anew.
        self.step()?;
        self.say_what_fails()?;
        self.begin();
        judged
    }

    /// Reads what others change: channels, silences, acknowledgements, wishes.
    fn read(&mut self) -> Result<(), AdminError> {
        let prefixes = [
            records::channels_prefix(),
            records::silences_prefix(),
            records::deliveries_prefix(),
            records::tests_prefix(),
            failing_channels_prefix(),
        ];
        let mut then: Vec<Op> = prefixes.iter().map(|key| Op::Prefix { key: key.clone() }).collect();
        then.push(Op::Get {
            key: records::alerts_key(),
        });
        then.push(Op::Get {
            key: records::leader_key(),
        });
        let call = Call {
            then,
            ..Call::default()
        };
        let reply = self.client.txn(&call)?;
        let leader = reply.value(6).and_then(|found| found.json::<Leader>().ok());
        if leader.as_ref() != Some(&self.who) {
            self.is_deposed = true;
            self.is_read = false;
            return Ok(());
        }
        let (channels, silences) = (reply.values(0), reply.values(1));
        self.channels_revision = channels
            .iter()
            .map(|found| found.mod_revision)
            .max()
            .unwrap_or_default();
        self.channels = readable(channels);
        self.silences = readable(silences);
        self.read_sent(reply.values(2), &prefixes[2]);
        self.tests = reply
            .values(3)
            .iter()
            .filter_map(|found| {
                Some((
                    found.key[prefixes[3].len()..].to_owned(),
                    (found.json().ok()?, found.mod_revision),
                ))
            })
            .collect();
        self.failing = reply
            .values(4)
            .iter()
            .map(|found| (found.key[prefixes[4].len()..].to_owned(), Known::of(found)))
            .collect();
        match reply.value(5) {
            Some(found) if found.mod_revision != self.alerts_revision => {
                self.alerts_revision = found.mod_revision;
                // One that nobody can read is written anew: what fires is told again.
                self.alerts = found.json().unwrap_or_default();
                self.is_dirty = false;
            }
            Some(_) => {}
            None => self.alerts_revision = 0,
        }
        self.is_read = true;
        admin::end_silences(&self.client, &self.silences, crate::now())
    }

    fn read_sent(&mut self, found: &[KeyValue], prefix: &str) {
        let names: BTreeSet<&str> = self.channels.iter().map(|channel| channel.name.as_str()).collect();
        self.sent.retain(|name, _| names.contains(name.as_str()));
        self.pauses.retain(|name, _| names.contains(name.as_str()));
        for name in &names {
            let record = found
                .iter()
                .find(|record| record.key.strip_prefix(prefix) == Some(name));
            let revision = record.map_or(0, |record| record.mod_revision);
            let sent = self.sent.entry((*name).to_owned()).or_default();
            if sent.revision != revision {
                // What is not written is lost with the record: the channel is another one of the same name.
                *sent = Sent {
                    delivery: record.and_then(|record| record.json().ok()).unwrap_or_default(),
                    revision,
                    is_dirty: false,
                };
            }
        }
    }

    /// Looks at the cluster.
    fn judge(&mut self) -> Result<(), AdminError> {
        let began = Instant::now();
        let status = amita_control::admin::status(&self.client);
        let pause = (began.elapsed() * 100).clamp(JUDGE, SELDOMEST);
        self.judge_at = Some(Instant::now() + pause);
        let status = status?;
        self.cluster = status.cluster.to_string();
        let now_ms = now_ms();
        let heard = condition::events_since(&self.client, &self.alerts, now_ms)?;
        let names: BTreeMap<NodeId, String> = status
            .nodes
            .iter()
            .map(|found| (found.node.id, found.node.name.clone()))
            .collect();
        self.events = self.events.take().or_else(|| self.writer(&names));
        self.is_dirty |= condition::hear(&mut self.alerts, &heard, &names, now_ms);
        self.is_dirty |= self.alerts.step(&condition::of_status(&status), now_ms / 1000);
        if self.is_dirty || self.written_at.elapsed() >= WORDS {
            self.save_alerts()?;
        }
        Ok(())
    }

    /// What events of this node are written by; none: it is not registered yet.
    fn writer(&self, names: &BTreeMap<NodeId, String>) -> Option<Writer> {
        let (id, _) = names.iter().find(|(_, name)| **name == self.who.node)?;
        let session = u64::from_str_radix(&self.who.session, 16).unwrap_or_default();
        Some(Writer::new(*id, session))
    }

    /// Writes the alerts. Where somebody was faster they are read again, and judged again.
    fn save_alerts(&mut self) -> Result<(), AdminError> {
        let value = serde_json::to_vec(&self.alerts).expect("plain data");
        let written = self.lead.put(records::alerts_key(), self.alerts_revision, value);
        match &written {
            Ok(Some(revision)) => {
                self.alerts_revision = *revision;
                (self.is_dirty, self.written_at) = (false, Instant::now());
            }
            // It may have been written: what is there counts.
            Ok(None) | Err(_) => {
                self.is_read = false;
                (self.read_at, self.judge_at) = (None, None);
            }
        }
        written?;
        Ok(())
    }

    /// Makes messages of what is due. What was not written is not told by.
    fn step(&mut self) -> Result<(), AdminError> {
        if self.is_dirty || self.cluster.is_empty() || !self.is_read {
            return Ok(());
        }
        let now = crate::now();
        for channel in &self.channels {
            let sent = self.sent.entry(channel.name.clone()).or_default();
            let around = Around {
                channel,
                alerts: &self.alerts,
                silences: &self.silences,
                now,
            };
            sent.is_dirty |= sent.delivery.step(around, admin::new_id);
        }
        self.save_sent()
    }

    fn save_sent(&mut self) -> Result<(), AdminError> {
        for (name, sent) in self.sent.iter_mut().filter(|(_, sent)| sent.is_dirty) {
            let value = serde_json::to_vec(&sent.delivery).expect("plain data");
            match self.lead.put(records::delivery_key(name), sent.revision, value)? {
                Some(revision) => (sent.revision, sent.is_dirty) = (revision, false),
                // Removed, or another node tells: the next look says which.
                None => self.read_at = None,
            }
        }
        Ok(())
    }

    /// Says which channels fail, and which do no more: what stands in the metadata of the others is right.
    fn say_what_fails(&mut self) -> Result<(), AdminError> {
        let Some(events) = self.events.as_mut().filter(|_| self.is_read) else {
            return Ok(());
        };
        let told = self
            .sent
            .iter()
            .map(|(name, sent)| (name.as_str(), (!sent.is_dirty).then_some(&sent.delivery)));
        for change in failing::changes(&self.failing, &told.collect()) {
            // What is there then is read before anything more is said.
            self.read_at = None;
            self.lead.change(change.key(), change.revision, change.ops(events))?;
        }
        Ok(())
    }

    /// Begins what can be sent now.
    fn begin(&mut self) {
        if self.lead.time_left() < TIMEOUT + MARGIN {
            return;
        }
        let now = Instant::now();
        let mut jobs = Vec::new();
        for channel in self
            .channels
            .iter()
            .filter(|channel| !self.busy.contains(&channel.name))
        {
            let from = From {
                cluster: &self.cluster,
                channel: &channel.name,
                group_by: channel.group_by,
            };
            if let Some((wish, revision)) = self.tests.get(&channel.name).filter(|(wish, _)| is_open(wish)) {
                let message = message::test(from, &wish.id, &wish.by, crate::now());
                let (wish, revision) = (wish.clone(), *revision);
                jobs.push((channel.clone(), message, Job::Test { wish, revision }));
                continue;
            }
            let rests = self.pauses.get(&channel.name).is_some_and(|pause| pause.until > now);
            let Some(sent) = self.sent.get(&channel.name).filter(|sent| !sent.is_dirty && !rests) else {
                continue;
            };
            if let Some((group, outgoing)) = sent.delivery.next() {
                let message = message::compose(from, group, outgoing, &sent.delivery, &self.alerts);
                let job = Job::Message {
                    group: group.to_owned(),
                    id: outgoing.id.clone(),
                };
                jobs.push((channel.clone(), message, job));
            }
        }
        for (channel, message, job) in jobs {
            if let Job::Test { .. } = &job {
                self.tests.remove(&channel.name);
            }
            self.busy.insert(channel.name.clone());
            self.spawn(channel, message, job);
        }
    }

    fn spawn(&self, channel: Channel, message: Message, job: Job) {
        let (to_us, seal, node) = (self.to_us.clone(), self.seal.clone(), self.who.node.clone());
        let name = channel.name.clone();
        let began = Instant::now();
        let work = move || {
            let said = channel
                .open(seal.as_ref())
                .and_then(|secrets| send(&channel, &secrets, &message, &node));
            // The term may have ended.
            let _ = to_us.send(Done {
                channel: channel.name,
                job,
                said,
                took: began.elapsed(),
            });
        };
        let thread = std::thread::Builder::new().name("amita-notify-tx".to_owned());
        if let Err(why) = thread.spawn(work) {
            // It stays in `busy` until the term ends: there is nothing to tell with.
            log::warn!("channel {name} cannot be told: no thread: {why}");
        }
    }

    fn take(&mut self, done: Done) {
        let Done {
            channel,
            job,
            said,
            took,
        } = done;
        self.busy.remove(&channel);
        match job {
            Job::Test { wish, revision } => self.answer(&channel, wish, revision, said, took),
            Job::Message { group, id } => self.ended(&channel, &group, &id, said),
        }
    }

    fn answer(&mut self, channel: &str, wish: Test, revision: u64, said: Result<String, String>, took: Duration) {
        let taken = said.is_ok();
        if taken {
            self.pauses.remove(channel);
        }
        let answer = Answer {
            taken,
            said: clip(&said.unwrap_or_else(|why| why), 300),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            node: self.who.node.clone(),
        };
        let told = Test {
            answer: Some(answer),
            ..wish
        };
        let value = serde_json::to_vec(&told).expect("plain data");
        // Who waits for it is told by nothing, where this fails.
        let _ = self.lead.put(records::test_key(channel), revision, value);
    }

    fn ended(&mut self, channel: &str, group: &str, id: &str, said: Result<String, String>) {
        let Some(sent) = self.sent.get_mut(channel) else {
            return;
        };
        sent.is_dirty = true;
        match said {
            Ok(_) => {
                if self.pauses.remove(channel).is_some() {
                    log::info!("channel {channel} is told again");
                }
                sent.delivery.delivered(group, id, crate::now());
            }
            Err(why) => {
                sent.delivery.failed(&why, crate::now());
                let failures = self.pauses.get(channel).map_or(0, |pause| pause.failures);
                if failures == 0 {
                    log::warn!("channel {channel} could not be told of alerts: {why}; it is tried again");
                }
                let until = Instant::now() + pause(failures);
                let failures = failures + 1;
                self.pauses.insert(channel.to_owned(), Pause { failures, until });
            }
        }
    }
}

/// Is it still to be done?
fn is_open(wish: &Test) -> bool {
    wish.answer.is_none() && crate::now().saturating_sub(wish.at) < TEST_LIFE_S
}

/// Records that can be read.
fn readable<T: DeserializeOwned>(found: &[KeyValue]) -> Vec<T> {
    found.iter().filter_map(|record| record.json().ok()).collect()
}

/// How long to wait after so many failures before this one; give or take a quarter, so that not all channels knock at one time.
fn pause(failures: u32) -> Duration {
    let whole = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE);
    let mut random = [0; 1];
    amita_keys::system_random(&mut random);
    whole * 3 / 4 + whole * u32::from(random[0]) / 510
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
