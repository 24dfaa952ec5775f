//! The stores that one core serves: each a pure state machine, joined here to the driver. What is asked of one is put in an order first, where something was
//! said of that ([`turns`]).

mod care;
mod host;
mod node;
pub mod turns;

pub use care::{HUNG_AFTER, MOST_RETURNS};
pub use node::NodeStores;

use crate::control::FromCore;
use crate::token;
use amita_qos::DepthLimits;
use amita_reactor::Slice;
use amita_reactor::driver::{Completion, Driver, Outcome, Time};
use amita_store::memo::{Content, Writer};
use amita_store::{Config, Count, Effect, IoId, LinkId, Question, State, Store};
use amita_types::holdings::Holdings;
use amita_types::map::Priority;
use amita_types::message::{Answer, Refusal, Request};
use amita_types::{NodeId, StoreId, VolumeId};
use care::Care;
use host::{Announced, Host, tell_of_memo};
use rustc_hash::FxHashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use turns::{Passing, TurnCounts, Turns};

/// An answer of a store, and who had asked.
pub type Reply = (LinkId, Answer, Slice);

/// The link of whoever writes the copy of the metadata onto a store: nobody else's.
const MEMO: LinkId = LinkId(u64::MAX);

/// The stores of one core.
pub struct Stores {
    hosts: Vec<Host>,
    by_id: FxHashMap<StoreId, usize>,
    /// Something was handed to a store since it was last looked at.
    touched: bool,
    /// The state of a store, or its writer of the copy, may have something to tell.
    news: bool,
    /// Stores wait to be admitted once they are mounted.
    held: bool,
    /// Somebody has asked one for something since [`Stores::take_asked`].
    asked: bool,
    /// What they have answered, and what was refused for them.
    replies: Vec<Reply>,
    /// Volumes of which it was said how they stand among others; none: stores are given everything as it comes.
    priorities: FxHashMap<VolumeId, Priority>,
    /// What a store has under way at once where there is an order.
    pub depth: DepthLimits,
    /// Rules of the order that are switched off.
    pub turn_faults: amita_qos::Faults,
    /// Where the stores of the whole node are.
    pub node: NodeStores,
}

impl Default for Stores {
    fn default() -> Stores {
        Stores {
            hosts: Vec::new(),
            by_id: FxHashMap::default(),
            touched: false,
            news: false,
            held: false,
            asked: false,
            replies: Vec::new(),
            priorities: FxHashMap::default(),
            depth: turns::DEPTH,
            turn_faults: amita_qos::Faults::NONE,
            node: NodeStores::default(),
        }
    }
}

impl Stores {
    /// From now on stores that are opened serve only when they are admitted: who holds a store is settled in the
    /// metadata.
    pub fn await_admission(&mut self) {
        self.held = true;
    }

    /// The store at that path may serve, as this mount.
    pub fn admit(&mut self, store: StoreId, path: &str, mount: u64) {
        let found = |host: &&mut Host| {
            // It may have failed and be mounted anew since: that is to be settled anew.
            host.announced == Announced::Mounted
                && host.store.status().id == store
                && host.path.as_os_str() == path
                && host.store.mount_number() == mount
        };
        if let Some(host) = self.hosts.iter_mut().find(found) {
            host.admitted = true;
            (self.touched, self.news) = (true, true);
        }
    }

    /// The store at that path may not serve, or no longer. What others ask of it is refused from now on.
    pub fn retire(&mut self, path: &str, why: String) {
        let found = |(_, host): &(usize, &mut Host)| host.path.as_os_str() == path;
        if let Some((index, host)) = self.hosts.iter_mut().enumerate().find(found)
            && host.announced != Announced::Failed
        {
            host.retired = Some(why);
            host.memo = None;
            self.by_id.retain(|_, own| *own != index);
            self.news = true;
        }
    }

    /// Has somebody asked a store for something since this was last asked?
    pub fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asked)
    }

    /// Opens a store's file and begins to mount it.
    ///
    /// # Errors
    /// What the operating system says of the path; also when another process holds the store.
    pub fn open(&mut self, driver: &mut dyn Driver, path: &Path, config: Config) -> io::Result<()> {
        let (file, info) = driver.open(path)?;
        let pool = driver.pool().clone();
        let flushes = info.volatile_cache;
        let store = Store::open(config, info, pool);
        self.hosts.push(Host {
            path: path.to_owned(),
            file,
            store,
            care: Care::default(),
            announced: Announced::Nothing,
            admitted: !self.held,
            retired: None,
            failed: false,
            memo: None,
            memo_answers: Vec::new(),
            flushes,
            turns: None,
        });
        let turns = self.new_turns(driver.now(), flushes);
        let host = self.hosts.last_mut();
        host.expect("it was put there").turns = turns;
        (self.touched, self.news) = (true, true);
        Ok(())
    }

    /// Hands a request of that node to its store, or the refusal back.
    pub fn request(&mut self, now: Time, from: NodeId, link: LinkId, request: Request, payload: Slice) {
        (self.touched, self.asked) = (true, true);
        match self.by_id.get(&request.store) {
            Some(&host) => {
                let host = &mut self.hosts[host];
                match host.turns {
                    None => host.store.request_from(now, from, link, request, payload),
                    Some(_) => host.take_turns(
                        now,
                        Passing {
                            from,
                            link,
                            request,
                            payload,
                        },
                    ),
                }
            }
            None => self.refuse(link, &request, Refusal::NoSuchStore),
        }
    }

    /// Answers for a store that does not.
    pub fn refuse(&mut self, link: LinkId, request: &Request, why: Refusal) {
        self.replies.push((link, refusal(request, why), Slice::default()));
    }

    /// What is to be handed to whoever asked. Give the vector back when it is empty: [`Stores::put_replies`].
    #[must_use]
    pub fn take_replies(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.replies)
    }

    /// Takes the emptied vector back, so that none is made in each pass; what came meanwhile.
    #[must_use]
    pub fn put_replies(&mut self, emptied: Vec<Reply>) -> Vec<Reply> {
        std::mem::replace(&mut self.replies, emptied)
    }

    /// Does this core serve the store?
    #[must_use]
    pub fn serves(&self, store: StoreId) -> bool {
        self.by_id.contains_key(&store)
    }

    /// Is the store here, mounted anew, and not admitted yet?
    #[must_use]
    pub fn awaits(&self, store: StoreId) -> bool {
        let mut waiting = self.hosts.iter().filter(|host| host.announced == Announced::Mounted);
        waiting.any(|host| host.store.status().id == store)
    }

    /// The stores that serve.
    pub fn serving(&self) -> impl Iterator<Item = StoreId> {
        self.by_id.keys().copied()
    }

    /// A link is gone: its credits go back.
    pub fn link_closed(&mut self, now: Time, link: LinkId) {
        self.touched = true;
        for host in &mut self.hosts {
            host.link_closed(now, link);
        }
    }

    /// An operation on a file ended.
    pub fn completion(&mut self, now: Time, completion: Completion) {
        let io = IoId(token::low(completion.token));
        let host = usize::from(token::kind(completion.token));
        let Some(host) = self.hosts.get_mut(host) else { return };
        self.touched = true;
        host.care.under_way -= 1;
        match completion.outcome {
            Outcome::Read { buffer, result } => host.store.read_done(now, io, buffer, result),
            Outcome::Written { data, result } => host.store.write_done(now, io, data, result),
            Outcome::Flushed { result } => host.store.flush_done(now, io, result),
            Outcome::Discarded { result } => host.store.discard_done(now, io, &result),
            other => unreachable!("a store's file completes no {other:?}"),
        }
    }

    /// Starts what the stores want done, and collects their answers.
    pub fn run(&mut self, driver: &mut dyn Driver) {
        if !std::mem::take(&mut self.touched) {
            return;
        }
        let now = driver.now();
        for (index, host) in self.hosts.iter_mut().enumerate() {
            self.news |= host.announced == Announced::Nothing || host.memo.is_some();
            let up = matches!(host.announced, Announced::Mounted | Announced::Serving);
            self.news |= up && !matches!(host.store.state(), State::Serving);
            self.news |= host.announced == Announced::Failed
                && !matches!(host.store.state(), State::Poisoned(_) | State::Refused(_));
            loop {
                for effect in host.store.effects() {
                    if !matches!(effect, Effect::Answer { .. }) {
                        host.care.begins(now);
                    }
                    let token = |io: IoId| token::token(token::STORES, index as u8, io.0);
                    match effect {
                        Effect::Read { io, offset, buffer } => driver.read(host.file, offset, buffer, token(io)),
                        Effect::Write { io, offset, data } => driver.write(host.file, offset, data, token(io)),
                        Effect::Flush { io } => driver.flush(host.file, token(io)),
                        Effect::Discard { io, offset, bytes } => driver.discard(host.file, offset, bytes, token(io)),
                        Effect::Answer {
                            link: MEMO,
                            answer,
                            payload,
                        } => host.memo_answers.push((answer, payload)),
                        Effect::Answer {
                            link,
                            mut answer,
                            payload,
                        } => {
                            if let Some(turns) = &mut host.turns {
                                answer.waited = turns.answered(now, link, answer.id);
                            }
                            self.replies.push((link, answer, payload));
                        }
                    }
                }
                if !host.advance_memo(now) {
                    break;
                }
            }
        }
    }

    fn memo_of(&mut self, store: StoreId) -> Option<&mut Writer> {
        let host = *self.by_id.get(&store)?;
        (self.touched, self.news) = (true, true);
        Some(self.hosts[host].memo.get_or_insert_with(|| Writer::new(store)))
    }

    /// What does the store know? It is told by [`Stores::announce`], if it is one of these.
    pub fn recall(&mut self, store: StoreId) {
        if let Some(memo) = self.memo_of(store) {
            memo.look();
        }
    }

    /// Keeps a copy of the metadata on those of the stores that are here.
    pub fn keep(&mut self, content: &Content, stores: &[StoreId]) {
        for &store in stores {
            if let Some(memo) = self.memo_of(store) {
                memo.keep(content.clone());
            }
        }
    }

    /// What the metadata says that these stores may hold, as far as they are here; `None`: it is not to be believed.
    pub fn hold(&mut self, now: Time, holdings: Option<&Arc<Holdings>>, stores: &[StoreId]) {
        self.touched = true;
        for store in stores {
            if let Some(&host) = self.by_id.get(store) {
                self.hosts[host].store.sweep(now, holdings.cloned());
            }
        }
    }

    /// What volumes hold on a store that serves here; `None`: it does not. Is to be asked again until it is counted.
    pub fn count(&mut self, now: Time, store: StoreId, question: &Arc<Question>) -> Option<Count> {
        let host = *self.by_id.get(&store)?;
        self.touched = true;
        Some(self.hosts[host].store.count(now, question))
    }

    /// How a volume stands among others at these stores; none: as all do of which nothing is said. There is an order as long as something is said of one.
    pub fn rank(&mut self, now: Time, volume: VolumeId, priority: Option<Priority>) {
        if self.priorities.get(&volume).copied() == priority {
            return;
        }
        let had_order = !self.priorities.is_empty();
        match priority {
            Some(priority) => self.priorities.insert(volume, priority),
            None => self.priorities.remove(&volume),
        };
        self.touched = true;
        if self.priorities.is_empty() == had_order {
            for at in 0..self.hosts.len() {
                let turns = self.new_turns(now, self.hosts[at].flushes);
                self.hosts[at].set_turns(now, turns);
            }
            return;
        }
        for turns in self.hosts.iter_mut().filter_map(|host| host.turns.as_mut()) {
            turns.set(now, volume, priority);
        }
    }

    /// Is anything said of how volumes stand among others? Then all programs of the cluster know what that means.
    #[must_use]
    pub fn have_order(&self) -> bool {
        !self.priorities.is_empty()
    }

    /// The order of a store, if there is to be one.
    fn new_turns(&self, now: Time, flushes: bool) -> Option<Box<Turns>> {
        if self.priorities.is_empty() {
            return None;
        }
        let mut turns = Turns::new(self.depth, flushes, self.turn_faults);
        for (volume, priority) in &self.priorities {
            turns.set(now, *volume, Some(*priority));
        }
        Some(Box::new(turns))
    }

    /// What has become of what was asked of the stores of which there is an order.
    pub fn turn_counts(&self) -> impl Iterator<Item = (StoreId, TurnCounts)> {
        let ordered = self.hosts.iter().filter_map(|host| Some((host, host.turns.as_ref()?)));
        ordered.map(|(host, turns)| (host.store.status().id, turns.counts()))
    }

    /// The end of a pass: each store writes what it gathered.
    pub fn end_pass(&mut self, now: Time) {
        self.touched = true;
        for host in &mut self.hosts {
            host.go_on(now);
            host.store.end_pass(now);
        }
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Time) {
        self.touched = true;
        for host in &mut self.hosts {
            host.care.tick(now, &mut host.store);
            if host.store.deadline().is_some_and(|at| at <= now) {
                host.store.tick(now);
            }
            host.advance_memo(now);
        }
    }

    /// When a store next wants [`Stores::tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.hosts.iter().filter_map(Host::deadline).min()
    }

    /// Is [`Stores::announce`] to be called?
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.news
    }

    /// Tells of stores that began to serve, that cannot, and that serve no more: a device's error of unknown outcome
    /// ends that until the store is mounted anew.
    pub fn announce(&mut self, now: Time, tell: &mut Vec<FromCore>) {
        self.news = false;
        for (index, host) in self.hosts.iter_mut().enumerate() {
            tell_of_memo(host, tell);
            if let Some(why) = host.retired.take() {
                let store = host.served();
                host.announced = Announced::Failed;
                tell.push(host.fails(store, why));
            }
            match host.store.state() {
                State::Serving if host.announced == Announced::Nothing && !host.admitted => tell.push(host.mounted()),
                State::Serving
                    if host.admitted && matches!(host.announced, Announced::Nothing | Announced::Mounted) =>
                {
                    tell.push(host.serves(now));
                    self.by_id.insert(host.store.status().id, index);
                }
                // It is being mounted anew.
                State::Mounting if host.announced == Announced::Failed => {
                    host.announced = Announced::Nothing;
                    if self.held {
                        self.by_id.retain(|_, own| *own != index);
                    }
                }
                State::Refused(error) if host.announced == Announced::Nothing => {
                    let (why, may_pass) = (error.to_string(), care::may_pass(error));
                    tell.push(host.refused(now, why, may_pass, self.held));
                }
                State::Poisoned(why) if host.announced != Announced::Failed => {
                    let why = why.clone();
                    tell.push(host.poisoned(now, why, self.held));
                }
                _ => {}
            }
        }
    }

    /// The stores with their paths.
    pub fn paths(&self) -> impl Iterator<Item = (&Path, &Store)> {
        self.hosts.iter().map(|host| (host.path.as_path(), &host.store))
    }

    /// Looks into the stores, for the checkers of the simulator and for status.
    pub fn each(&self) -> impl Iterator<Item = &Store> {
        self.hosts.iter().map(|host| &host.store)
    }
}

/// The answer that refuses a request, without lease or credits.
#[must_use]
pub fn refusal(request: &Request, why: Refusal) -> Answer {
    Answer {
        id: request.id,
        store: request.store,
        lease_ms: 0,
        credit_blocks: 0,
        waited: Default::default(),
        trace: None,
        result: Err(why),
    }
}

#[cfg(test)]
mod tests;
