//! What a node's thread does that measures its links (`amita_node::serve`), in virtual time: a question to each core every ten
//! seconds, what they answer, and a record where there is something to tell.

use crate::cluster::node::Node;
use amita_node::control::ToCore;
use amita_node::links::{Heard, LinkAnswer, LinkQuestion, Links, ROUND};
use amita_reactor::Time;
use amita_types::NodeId;
use amita_types::link::LinkReport;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// For how long cores are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

type Answer = Receiver<Box<LinkAnswer>>;

enum State {
    /// The next round begins then.
    Resting(Time),
    /// These cores were asked, and are waited for until then.
    Asking(Time, Vec<(usize, Answer)>),
    /// What was found is on its way to the metadata.
    Telling,
}

/// The thread of one process.
pub(super) struct Meter {
    node: NodeId,
    links: Links,
    /// What its watch has told.
    heard: Heard,
    state: State,
}

fn ask(node: &mut Node, core: usize, from: usize) -> (usize, Answer) {
    let (reply, answer) = channel();
    node.control(core, ToCore::Links(LinkQuestion { from, reply }));
    (core, answer)
}

impl Meter {
    pub fn new(now: Time, node: NodeId) -> Meter {
        Meter {
            node,
            links: Links::default(),
            heard: Heard::default(),
            state: State::Resting(now.plus(ROUND)),
        }
    }

    /// A record is there, or gone.
    pub fn hear(&mut self, key: &str, value: Option<&[u8]>) {
        self.heard.hear(self.node, key, value);
    }

    /// Goes on as far as it can; gives what is to be told.
    pub fn act(&mut self, now: Time, node: &mut Node) -> Option<LinkReport> {
        match &mut self.state {
            State::Telling => None,
            State::Resting(until) if *until > now => None,
            State::Resting(_) => {
                let asked = (0..node.cores()).map(|core| ask(node, core, 0)).collect();
                self.state = State::Asking(now.plus(PATIENCE), asked);
                None
            }
            State::Asking(until, asked) => {
                let (until, asked) = (*until, std::mem::take(asked));
                self.take(now, until, asked, node)
            }
        }
    }

    fn take(&mut self, now: Time, until: Time, asked: Vec<(usize, Answer)>, node: &mut Node) -> Option<LinkReport> {
        let mut left = Vec::new();
        for (core, answer) in asked {
            match answer.try_recv() {
                Ok(answer) => {
                    self.links.take(&answer);
                    left.extend(answer.next.map(|next| ask(node, core, next)));
                }
                Err(TryRecvError::Empty) if now < until => left.push((core, answer)),
                Err(_) => {}
            }
        }
        if !left.is_empty() {
            self.state = State::Asking(until, left);
            return None;
        }
        let ended = self.links.end_round(&self.heard);
        for (peer, network) in ended.steer {
            for core in 0..node.cores() {
                node.control(core, ToCore::Steer { node: peer, network });
            }
        }
        let report = ended.report;
        self.state = match report {
            Some(_) => State::Telling,
            None => State::Resting(now.plus(ROUND)),
        };
        report.map(|report| LinkReport {
            at_s: now.0 / 1_000_000_000,
            ..report
        })
    }

    /// It was told, or the metadata was away.
    pub fn told(&mut self, now: Time, done: bool) {
        if !done {
            self.links.not_told();
        }
        self.state = State::Resting(now.plus(ROUND));
    }

    /// When it goes on next.
    pub fn next(&self) -> Option<Time> {
        match &self.state {
            State::Resting(until) | State::Asking(until, _) => Some(*until),
            State::Telling => None,
        }
    }
}
