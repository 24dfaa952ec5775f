//! The notifier of a node: it waits until it is the one that tells, and tells then.
//!
//! A thread of its own; each attempt to send has another one for as long as it takes. Nothing of it is on the path of an I/O.

mod term;

use crate::channel::Channel;
use crate::lead::Lead;
use crate::records::{Leader, channels_prefix, leader_key};
use amita_keys::SealKey;
use amita_metadata::{Call, Client, Error, Waited};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use term::{End, Term};

/// How often it is looked whether to end.
const LOOK: Duration = Duration::from_millis(250);
/// For so long the end of a notifier is waited for: what is on its way then is sent again by another node.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// When nobody tells any more, nodes stand for it within this, not all at once.
const SPREAD: Duration = Duration::from_secs(1);
/// How often it is looked whether somebody tells, if nothing says that nobody does.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// A node that cannot open a channel's secret leaves the telling to others for so long.
const RESERVE: Duration = Duration::from_secs(20);
/// How soon the metadata is asked again when it is away.
const AGAIN: Duration = Duration::from_secs(1);

/// What a notifier needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's name.
    pub node: String,
    /// The file with the cluster's sealing key, where the node has it.
    pub seal_key: Option<PathBuf>,
}

/// A notifier that runs. It ends when it is dropped.
#[derive(Debug)]
pub struct Notifier {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Notifier {
    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(client: Client, config: Config) -> io::Result<Notifier> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("amita-notify".to_owned());
        let thread = thread.spawn(move || {
            let node = Node {
                client,
                config,
                stop: seen,
            };
            node.run();
        })?;
        Ok(Notifier {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        let began = Instant::now();
        while !thread.is_finished() && began.elapsed() < END_PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        if thread.is_finished() && thread.join().is_err() {
            log::error!("the notifier has panicked");
        }
    }
}

/// A time within [`SPREAD`].
fn spread() -> Duration {
    let mut random = [0; 1];
    amita_keys::system_random(&mut random);
    SPREAD * u32::from(random[0]) / 255
}

/// This node.
struct Node {
    client: Client,
    config: Config,
    stop: Arc<AtomicBool>,
}

impl Node {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The sealing key. It is read anew each time that this node may begin to tell: the file may have been exchanged. `said`: what was said
    /// of it last, which is not said again and again.
    fn seal_key(&self, said: &mut Option<String>) -> Option<SealKey> {
        let path = self.config.seal_key.as_ref()?;
        match SealKey::load(path) {
            Ok(key) => {
                *said = None;
                Some(key)
            }
            Err(why) => {
                let why = why.to_string();
                if said.as_ref() != Some(&why) {
                    log::warn!("channels with secrets cannot be told: {why}");
                    *said = Some(why);
                }
                None
            }
        }
    }

    fn run(&self) {
        // What this node has left to others because it cannot open a secret: not again because of the same channels.
        let mut left: Option<u64> = None;
        let mut hindered_since: Option<Instant> = None;
        let mut said: Option<String> = None;
        while !self.stops() {
            let seal = self.seal_key(&mut said);
            match self.may_stand(seal.as_ref(), &mut hindered_since) {
                Ok(true) => {}
                // Others say that the metadata is away.
                Ok(false) | Err(_) => {
                    self.rest(AGAIN);
                    continue;
                }
            }
            let who = Leader {
                node: self.config.node.clone(),
                session: crate::admin::new_id(),
            };
            match Lead::stand(&self.client, &who) {
                Ok(Some(lead)) => {
                    let term = Term::new(self.client.clone(), lead, who, seal);
                    match term.run(&self.stop, &mut left) {
                        End::Stopped => return,
                        End::Deposed => self.rest(AGAIN),
                        End::Hindered => hindered_since = Some(Instant::now()),
                    }
                }
                Ok(None) => {
                    hindered_since = None;
                    self.wait_for_turn();
                }
                // Others say that the metadata is away.
                Err(_) => self.rest(AGAIN),
            }
        }
    }

    /// May this node tell? Where it cannot open a channel's secret, only when nobody else has for a time.
    fn may_stand(&self, seal: Option<&SealKey>, hindered_since: &mut Option<Instant>) -> Result<bool, Error> {
        let reply = self.client.txn(&Call::prefix(channels_prefix()))?;
        let channels = reply.values(0).iter().filter_map(|found| found.json::<Channel>().ok());
        let hindered = channels.into_iter().any(|channel| channel.open(seal).is_err());
        if !hindered {
            *hindered_since = None;
            return Ok(true);
        }
        if self.client.txn(&Call::get(leader_key()))?.value(0).is_some() {
            *hindered_since = None;
            return Ok(true);
        }
        Ok(hindered_since.get_or_insert_with(Instant::now).elapsed() >= RESERVE)
    }

    fn rest(&self, pause: Duration) {
        let began = Instant::now();
        while !self.stops() && began.elapsed() < pause {
            std::thread::sleep(LOOK.min(pause));
        }
    }

    /// Waits until nobody tells any more, or it is time to look.
    fn wait_for_turn(&self) {
        let Ok(reply) = self.client.txn(&Call::get(leader_key())) else {
            return self.rest(AGAIN);
        };
        if reply.value(0).is_none() {
            return;
        }
        let mut watch = self.client.watch(&leader_key(), reply.revision + 1);
        let began = Instant::now();
        while !self.stops() && began.elapsed() < LONGEST_REST {
            match watch.wait(LOOK) {
                Waited::Nothing => {}
                // It has changed, or cannot be watched: look.
                Waited::Item(Ok(_)) => return self.rest(spread()),
                Waited::Item(Err(_)) | Waited::Ended => return self.rest(AGAIN),
            }
        }
    }
}
