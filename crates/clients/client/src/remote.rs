//! A program that owns nothing: it uses volumes through nodes, by NBD and TLS, as its certificate grants it (decision 038).
//!
//! It reaches no store and no metadata, and listens nowhere. Like [`amita_node::embed`] its core runs in the caller's thread, in
//! calls and nowhere else.

mod attachment;
mod attachments;
mod link;
#[cfg(test)]
mod tests;

use crate::config::Config;
use crate::error::Error;
use crate::session::Session;
use amita_frontend::{FrontId, StorageService};
use amita_identity::{Clock, Expected, Live, Role, Upkeep, Usage, server_name};
use amita_nbd::client::Dial;
use amita_node::serve::{Level, Log, ServeError};
use amita_reactor::driver::{Completion, Driver, Time, TimerId, Token, Wait};
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Pool, PoolConfig, Waker};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use std::cell::{Cell, RefCell};
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;

pub use attachments::{Attachments, Nothing, Proof, Settings};

/// Completions of one pass for which there is room from the start.
const COMPLETIONS: usize = 64;
/// The timer that ends a wait: no connection has this number.
const ALARM: Token = Token(0xff);

/// Rules that are switched off, by the simulator only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// What changes something is sent again at once, though it may still be carried out where it was sent first.
    pub resend_at_once: bool,
}

/// The core of such a program.
pub(crate) struct Remote {
    // They go first: what they hold belongs to the driver's pool.
    attachments: Attachments,
    session: Rc<RefCell<Session>>,
    driver: UringDriver,
    completions: Vec<Completion>,
    alarm: Option<(Time, TimerId)>,
    log: Log,
    /// Renews its identity, and hears of what was revoked.
    _upkeep: Option<Upkeep>,
}

impl Remote {
    /// Is it what these settings are for?
    pub fn is_wanted(config: &Config, live: Option<&Arc<Live>>) -> bool {
        match live {
            Some(live) => live.name().role() == Role::Client,
            None => config.metadata.is_empty() && !config.nodes.is_empty(),
        }
    }

    /// Gets ready; no node is asked for anything yet.
    pub fn start(
        config: &Config,
        live: Option<Arc<Live>>,
        session: impl FnOnce(Pool) -> Session,
    ) -> Result<Remote, Error> {
        refuse_what_is_for_gateways(config)?;
        let nodes = addresses(&named_nodes(config, live.as_deref())?)?;
        if live.is_none() {
            refuse_plain_text(config, &nodes)?;
        }
        let upkeep = live
            .as_ref()
            .map(|live| Upkeep::start(live.clone(), config.ca_server.as_deref()))
            .transpose()
            .map_err(|why| Error::Setting {
                setting: "identity",
                why: why.to_string(),
            })?;
        let io = |why| Error::Join(ServeError::Thread(why));
        let pool = Pool::new(PoolConfig::with_total(config.buffer_bytes)).map_err(io)?;
        let uring = UringConfig {
            yields: config.yields,
            ..UringConfig::default()
        };
        let driver = UringDriver::new(uring, pool.clone()).map_err(io)?;
        let settings = Settings {
            nodes,
            patience: config.node_patience,
            faults: Faults::default(),
        };
        let proof: Box<dyn Proof> = match live {
            Some(live) => Box::new(ByIdentity::new(live)),
            None => Box::new(Nothing),
        };
        Ok(Remote {
            attachments: Attachments::new(settings, proof, pool.clone()),
            session: Rc::new(RefCell::new(session(pool))),
            driver,
            completions: Vec::with_capacity(COMPLETIONS),
            alarm: None,
            log: config.log(),
            _upkeep: upkeep,
        })
    }

    pub fn session(&self) -> Rc<RefCell<Session>> {
        self.session.clone()
    }

    pub fn service(&mut self) -> &mut dyn StorageService {
        &mut self.attachments
    }

    pub fn pool(&self) -> &Pool {
        self.driver.pool()
    }

    pub fn now(&self) -> Time {
        self.driver.now()
    }

    pub fn waker(&self) -> Waker {
        self.driver.waker()
    }

    /// Why a volume that was asked for is not open yet.
    pub fn trouble(&self) -> Option<String> {
        self.attachments.trouble()
    }

    pub fn poll(&mut self) {
        self.pass(Wait::No);
    }

    /// What was asked for since the last pass goes out with the next one.
    pub fn start_asked(&mut self) {
        self.driver.refresh();
        self.run();
    }

    /// One pass, for which it blocks until something completes, but no longer than `until`.
    pub fn wait(&mut self, until: Time) {
        let due = self.attachments.deadline().map_or(until, |due| due.min(until));
        if due <= self.now() {
            return self.pass(Wait::No);
        }
        if self.alarm.is_none_or(|(at, _)| at > due) {
            if let Some((_, timer)) = self.alarm.take() {
                self.driver.cancel_timer(timer);
            }
            self.alarm = Some((due, self.driver.timer(due, ALARM)));
        }
        self.pass(Wait::UntilEvent);
    }

    fn pass(&mut self, wait: Wait) {
        self.driver.poll(wait, &mut self.completions);
        if self.alarm.is_some_and(|(at, _)| at <= self.driver.now()) {
            self.alarm = None;
        }
        self.run();
        for complaint in self.attachments.complaints() {
            (self.log)(Level::Info, &complaint);
        }
        match self.attachments.repeated().len() {
            0 => {}
            count => (self.log)(Level::Info, &format!("{count} writes are sent again")),
        }
    }

    /// What has ended is told to the session, and what follows from that is started.
    fn run(&mut self) {
        loop {
            self.attachments.pass(&mut self.driver, &mut self.completions);
            let mut any = false;
            while let Some(event) = self.attachments.next_event() {
                any = true;
                self.session.borrow_mut().event(&mut self.attachments, event);
            }
            if !any {
                return;
            }
        }
    }

    /// Ends all connections.
    pub fn stop(&mut self) {
        self.attachments.end(&mut self.driver);
        self.driver.poll(Wait::No, &mut self.completions);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The front of a session that has its service for itself.
pub(crate) const FRONT: FrontId = FrontId(1);

/// The certificate of an identity that is in use, and whom it trusts.
struct ByIdentity {
    live: Arc<Live>,
    config: Arc<ClientConfig>,
    /// The identity's generation when the certificate was last looked at, and its number.
    seen: Cell<(u64, u64)>,
    leaf: RefCell<Vec<u8>>,
}

impl ByIdentity {
    fn new(live: Arc<Live>) -> ByIdentity {
        let expected = Expected::any(&[Role::Node, Role::Gateway]);
        ByIdentity {
            config: live.client_config(expected),
            seen: Cell::new((0, 0)),
            leaf: RefCell::new(Vec::new()),
            live,
        }
    }
}

impl Proof for ByIdentity {
    fn dial(&self, volume: &str) -> Dial {
        Dial {
            export: volume.to_owned(),
            tls: Some((self.config.clone(), server_name())),
        }
    }

    fn certificate(&self) -> u64 {
        let (generation, number) = self.seen.get();
        let now = self.live.generation();
        if now == generation {
            return number;
        }
        let current = self.live.current();
        let leaf = current.chain().first().map_or(&[][..], |leaf| leaf);
        let is_another = *self.leaf.borrow() != leaf;
        let number = number + u64::from(is_another);
        if is_another {
            self.leaf.replace(leaf.to_vec());
        }
        self.seen.set((now, number));
        number
    }

    fn trusts(&self, chain: &[CertificateDer<'static>]) -> bool {
        self.live.judge_established(chain, Usage::Server).is_ok()
    }

    fn generation(&self) -> u64 {
        self.live.generation()
    }
}

/// The identity that the settings name.
pub(crate) fn identity(config: &Config) -> Result<Option<Arc<Live>>, Error> {
    let open = |folder| {
        Live::open(folder, Clock::system()).map_err(|why| Error::Setting {
            setting: "identity",
            why: why.to_string(),
        })
    };
    config.identity.as_deref().map(open).transpose()
}

fn refuse_what_is_for_gateways(config: &Config) -> Result<(), Error> {
    let given = [
        ("stores", !config.stores.is_empty()),
        ("fabric", config.fabric.is_some()),
        ("name", config.name.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((setting, _)) => Err(Error::Setting {
            setting,
            why: "a client's identity owns nothing and listens nowhere; leave this out, or use a gateway's identity"
                .to_owned(),
        }),
    }
}

/// Without an identity whoever answers is believed, and reads along: on this machine only, unless it was asked for.
fn refuse_plain_text(config: &Config, nodes: &[SocketAddr]) -> Result<(), Error> {
    match nodes.iter().find(|node| !node.ip().is_loopback()) {
        Some(node) if !config.insecure_network => Err(Error::Setting {
            setting: "identity",
            why: format!(
                "without one everything goes to {node} in plain text, and whoever answers there is believed; name a client's \
                 identity (`amita client join`), or ask for an insecure network"
            ),
        }),
        _ => Ok(()),
    }
}

/// The nodes that were named: in the settings, or in the identity's folder.
fn named_nodes(config: &Config, live: Option<&Live>) -> Result<Vec<String>, Error> {
    if !config.nodes.is_empty() {
        return Ok(config.nodes.clone());
    }
    let file = live.and_then(Live::folder).map(|folder| folder.join(NODES));
    let text = match file.as_ref().map(std::fs::read_to_string) {
        Some(Err(why)) if why.kind() != std::io::ErrorKind::NotFound => {
            let file = file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
            let why = format!("{file}: {why}; make it a readable file of one HOST:PORT a line");
            return Err(Error::Setting { setting: "nodes", why });
        }
        found => found.and_then(Result::ok),
    };
    let lines = text.as_deref().unwrap_or_default().lines().map(str::trim);
    let nodes: Vec<String> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    if nodes.is_empty() {
        return Err(Error::Setting {
            setting: "nodes",
            why: format!(
                "a client uses volumes through nodes, and none is named; give where they serve NBD, as HOST:PORT, here or a line \
                 each in {}",
                file.map_or_else(
                    || format!("the identity's file {NODES:?}"),
                    |file| file.display().to_string()
                )
            ),
        });
    }
    Ok(nodes)
}

/// The file in a client's identity that names nodes.
pub(crate) const NODES: &str = "nodes";

/// All of their addresses, in an order that chance has made: programs spread over the nodes.
fn addresses(nodes: &[String]) -> Result<Vec<SocketAddr>, Error> {
    let mut all = Vec::new();
    let mut last = None;
    for node in nodes {
        match node.to_socket_addrs() {
            Ok(found) => all.extend(found),
            // The others may do.
            Err(why) => last = Some(format!("{node}: {why}; write HOST:PORT")),
        }
    }
    all.sort();
    all.dedup();
    if all.is_empty() {
        return Err(Error::Setting {
            setting: "nodes",
            why: last.unwrap_or_else(|| "none has an address".to_owned()),
        });
    }
    let turn = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0u8) as usize % all.len();
    all.rotate_left(turn);
    Ok(all)
}
