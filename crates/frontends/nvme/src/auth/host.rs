//! The host's end: for tests, and for the conformance suite's host.

use super::Random;
use super::group::{Exponent, Group, Work};
use super::message::{Message, Negotiate, Reason, Reply};
use super::response::{Proof, Side};
use amita_keys::{DhchapSecret, Hash};
use std::fmt;
use std::mem;

/// What a host is and can.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its NQN.
    pub hostnqn: String,
    /// The subsystem that it connects to.
    pub subnqn: String,
    pub secret: DhchapSecret,
    /// The controller's secret, if the controller shall prove itself as well.
    pub controller_secret: Option<DhchapSecret>,
    /// What it offers.
    pub hashes: Vec<Hash>,
    /// What it offers.
    pub groups: Vec<Group>,
    /// The number of the transaction.
    pub transaction: u16,
}

/// What the host does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It sends this by Authentication Send.
    Send(Vec<u8>),
    /// It asks by Authentication Receive.
    Receive,
    /// Both know each other.
    Done,
    /// They do not.
    Failed(Reason),
}

enum Stage {
    Send(Message, After),
    Receive(Expected),
    Done,
    Failed(Reason),
}

/// What follows when a message was sent.
enum After {
    Receive(Expected),
    Done,
    Failed(Reason),
}

enum Expected {
    Challenge,
    /// With the response that the controller has to give, if it was challenged.
    Success1(Hash, Option<Vec<u8>>),
}

/// The host's end of the authentication of one queue.
pub struct Initiator {
    config: HostConfig,
    random: Random,
    stage: Stage,
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator").finish_non_exhaustive()
    }
}

impl Initiator {
    /// For a queue whose controller demands it.
    #[must_use]
    pub fn new(config: HostConfig, random: Random) -> Initiator {
        let negotiate = Message::Negotiate(Negotiate::of(&config.hashes, &config.groups));
        Initiator {
            config,
            random,
            stage: Stage::Send(negotiate, After::Receive(Expected::Challenge)),
        }
    }

    /// What to do next. What is to be sent is sent then.
    pub fn step(&mut self) -> Step {
        match mem::replace(&mut self.stage, Stage::Done) {
            Stage::Send(message, after) => {
                self.stage = match after {
                    After::Receive(expected) => Stage::Receive(expected),
                    After::Done => Stage::Done,
                    After::Failed(reason) => Stage::Failed(reason),
                };
                Step::Send(message.encode(self.config.transaction))
            }
            Stage::Receive(expected) => {
                self.stage = Stage::Receive(expected);
                Step::Receive
            }
            Stage::Done => Step::Done,
            Stage::Failed(reason) => {
                self.stage = Stage::Failed(reason);
                Step::Failed(reason)
            }
        }
    }

    /// What Authentication Receive brought.
    pub fn received(&mut self, bytes: &[u8]) {
        let Stage::Receive(expected) = mem::replace(&mut self.stage, Stage::Done) else {
            self.stage = Stage::Failed(Reason::IncorrectMessage);
            return;
        };
        self.stage = match Message::decode(bytes) {
            Ok((_, Message::Failure1(reason))) => Stage::Failed(reason),
            Ok((id, _)) if id != self.config.transaction => Initiator::refuse(Reason::IncorrectMessage),
            Ok((_, message)) => self.handle(expected, message).unwrap_or_else(Initiator::refuse),
            Err(reason) => Initiator::refuse(reason),
        };
    }

    fn refuse(reason: Reason) -> Stage {
        Stage::Send(Message::Failure2(reason), After::Failed(reason))
    }

    fn handle(&mut self, expected: Expected, message: Message) -> Result<Stage, Reason> {
        match (expected, message) {
            (Expected::Challenge, Message::Challenge(challenge)) => {
                let config = &self.config;
                let hash = Hash::from_id(challenge.hash_id)
                    .filter(|hash| config.hashes.contains(hash) && hash.len_bytes() == challenge.challenge.len())
                    .ok_or(Reason::HashNotUsable)?;
                let group = Group::from_id(challenge.group_id)
                    .filter(|group| config.groups.contains(group))
                    .ok_or(Reason::GroupNotUsable)?;
                let (public, agreed) = if group == Group::Null {
                    if !challenge.public.is_empty() {
                        return Err(Reason::IncorrectPayload);
                    }
                    (Vec::new(), None)
                } else {
                    let peer = group.public_value(&challenge.public).ok_or(Reason::IncorrectPayload)?;
                    let exponent = Exponent::draw(group, &mut self.random);
                    let own = Work {
                        exponent: exponent.clone(),
                        peer: None,
                    };
                    let both = Work {
                        exponent,
                        peer: Some(peer),
                    };
                    (own.run().value.to_vec(), Some(both.run().value))
                };
                let agreed = agreed.as_ref().map(|agreed| agreed.as_slice());
                let proof = |side, key, challenge, sequence| Proof {
                    side,
                    hash,
                    key,
                    agreed,
                    challenge,
                    sequence,
                    transaction: config.transaction,
                    concatenation: 0,
                    hostnqn: &config.hostnqn,
                    subnqn: &config.subnqn,
                };
                let key = config.secret.key_for(&config.hostnqn);
                let response = proof(Side::Host, &key, &challenge.challenge, challenge.sequence).response();
                let mut reply = Reply {
                    sequence: 0,
                    response,
                    challenge: None,
                    public,
                };
                let mut wanted = None;
                if let Some(secret) = &config.controller_secret {
                    let mut own = vec![0; hash.len_bytes()];
                    (self.random)(&mut own);
                    let mut sequence = [0; 4];
                    (self.random)(&mut sequence);
                    reply.sequence = u32::from_le_bytes(sequence).max(1);
                    let key = secret.key_for(&config.subnqn);
                    wanted = Some(proof(Side::Controller, &key, &own, reply.sequence).response());
                    reply.challenge = Some(own);
                }
                Ok(Stage::Send(
                    Message::Reply(reply),
                    After::Receive(Expected::Success1(hash, wanted)),
                ))
            }
            (Expected::Success1(hash, wanted), Message::Success1(success)) => {
                if usize::from(success.hash_bytes) != hash.len_bytes() {
                    return Err(Reason::HashNotUsable);
                }
                match (wanted, success.response) {
                    (None, _) => Ok(Stage::Done),
                    (Some(wanted), Some(response)) if wanted == response => {
                        Ok(Stage::Send(Message::Success2, After::Done))
                    }
                    (Some(_), _) => Err(Reason::Failed),
                }
            }
            _ => Err(Reason::IncorrectMessage),
        }
    }
}
