//! What a node's thread does that measures its links (`amita_node::serve`), in virtual time: a question to each core every ten
//! seconds, what they answer, and a record where there is something to tell.

use crate::cluster::node::Node;
use amita_node::control::ToCore;
use amita_node::links::{Heard, LinkAnswer, LinkQuestion, Links, ROUND, Tale};
use amita_reactor::Time;
use amita_types::NodeId;
use amita_types::link::{BadLink, LinkReport, LinkTrouble, Network};
use std::collections::BTreeMap;
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
    round: u64,
    moves: BTreeMap<NodeId, Moves>,
    /// What was met of them, and nobody has been told.
    met: Vec<&'static str>,
    /// What was left, or should have been, though nothing is wrong with it any more.
    groundless: Option<BadLink>,
}

/// Of the connections to one peer.
#[derive(Default)]
struct Moves {
    /// Was a network left?
    left: bool,
    /// Was one left ever for losses, or for being late?
    was_bad: bool,
    /// In which round a move was asked for that has not come true.
    asked: Option<u64>,
    /// In which rounds they have moved.
    made: Vec<u64>,
}

/// A move that has not come true by so many rounds has failed.
const FAILED: u64 = 5;
/// Between two moves of one peer's connections is a minute at least (and a round, by which they are seen); in an hour there are so many at
/// most.
const HOUR: u64 = 360;
const MOST_MOVES: usize = 12;
/// Of a million segments so many may be lost of a link that is called well.
const WELL_PPM: u64 = 3_000;

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
            round: 0,
            moves: BTreeMap::new(),
            met: Vec::new(),
            groundless: None,
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
        self.follow(&ended.steer, &ended.tales);
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

    /// Follows where connections are to go, and have gone.
    fn follow(&mut self, steer: &[(NodeId, Network)], tales: &[(NodeId, String, Tale)]) {
        self.round += 1;
        for (peer, _, tale) in tales {
            if let Tale::Left(left) | Tale::Would(left) = tale {
                let is_groundless = left.link.what == LinkTrouble::Loss && left.link.loss_ppm() < WELL_PPM;
                self.groundless = self.groundless.or(is_groundless.then_some(left.link));
            }
            let moves = self.moves.entry(*peer).or_default();
            let path = match tale {
                Tale::Left(left) => match left.link.what {
                    LinkTrouble::Cut => "network.left_for_cut",
                    LinkTrouble::Loss => "network.left_for_loss",
                    LinkTrouble::Late => "network.left_for_late",
                },
                Tale::Back(_) => "network.back",
                Tale::Would(_) => {
                    self.met.push("network.would_leave");
                    continue;
                }
            };
            self.met.push(path);
            if let Tale::Left(left) = tale
                && left.link.what != LinkTrouble::Cut
            {
                self.met.extend(moves.was_bad.then_some("network.left_again"));
                moves.was_bad = true;
            }
            (moves.left, moves.asked) = (matches!(tale, Tale::Left(_)), None);
            moves.made.push(self.round);
        }
        for (peer, network) in steer {
            let moves = self.moves.entry(*peer).or_default();
            // Connections that have moved by themselves are sent back without a word.
            if moves.left == (*network == Network::First) {
                moves.asked = Some(self.round);
            }
        }
        for moves in self.moves.values_mut() {
            moves.made.retain(|made| made + HOUR > self.round);
            if moves.asked.take_if(|asked| *asked + FAILED <= self.round).is_some() {
                self.met.push("network.move_failed");
            }
        }
    }

    /// What was met of moves since somebody asked; each had its reason then, and there are not too many of them.
    pub fn moves(&mut self) -> Result<Vec<&'static str>, String> {
        if let Some(link) = &self.groundless {
            return Err(format!(
                "node {} leaves a link for what it has lost, and it loses nothing any more: {link:?}",
                self.node
            ));
        }
        match self.moves.iter().find(|(_, moves)| moves.made.len() > MOST_MOVES) {
            Some((peer, moves)) => Err(format!(
                "the connections of node {} to node {peer} have moved {} times within an hour",
                self.node,
                moves.made.len()
            )),
            None => Ok(std::mem::take(&mut self.met)),
        }
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
