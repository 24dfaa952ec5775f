//! The controller's end.

use super::Random;
use super::group::{Exponent, Group, Work, Worked};
use super::message::{Challenge, MAX_MESSAGE_BYTES, Message, Negotiate, Reason, Reply, Success1};
use super::response::{Proof, Side};
use amita_keys::{DhchapSecret, Hash};
use std::fmt;
use std::mem;
use zeroize::Zeroizing;

/// A connection that has not authenticated itself this long after Connect, or has begun to do it again and not come to
/// an end, is closed. The computing of eight-thousand-bit groups under load is far within.
pub const TIMEOUT_MS: u64 = 30_000;

/// The strongest first: it costs nothing.
pub const DEFAULT_HASHES: [Hash; 3] = [Hash::Sha512, Hash::Sha384, Hash::Sha256];

/// The smallest first, since the exchange only hides what an eavesdropper could try weak secrets on, and the secrets are
/// random; no exchange at all last. Larger ones than these cost whoever asks nothing, and the gateway 12 and 24 ms of a
/// processor for each queue (`docs/decisions/031-authentication-of-nvme-hosts.md`).
pub const DEFAULT_GROUPS: [Group; 4] = [Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096, Group::Null];

/// What one controller demands of one host.
#[derive(Clone, Debug)]
pub struct Config {
    /// The host's NQN, from Connect.
    pub hostnqn: String,
    /// The subsystem's NQN, from Connect.
    pub subnqn: String,
    /// What the host must prove to have.
    pub secret: DhchapSecret,
    /// What this end proves to have when it is challenged. Without, a host that challenges it is refused.
    pub controller_secret: Option<DhchapSecret>,
    /// Hash functions that may be used, the preferred one first.
    pub hashes: Vec<Hash>,
    /// Groups that may be used, the preferred one first.
    pub groups: Vec<Group>,
}

impl Config {
    /// With the usual hash functions and groups.
    #[must_use]
    pub fn new(hostnqn: &str, subnqn: &str, secret: DhchapSecret, controller_secret: Option<DhchapSecret>) -> Config {
        Config {
            hostnqn: hostnqn.into(),
            subnqn: subnqn.into(),
            secret,
            controller_secret,
            hashes: DEFAULT_HASHES.to_vec(),
            groups: DEFAULT_GROUPS.to_vec(),
        }
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The host has not proven itself yet: no other commands are taken.
    Pending,
    Done,
    /// It has not, and will not on this connection: once [`Authenticator::send`] has said so, or the host has nothing
    /// more to ask, the connection is closed.
    Failed(Reason),
}

/// Why there is nothing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The work that was taken is not done: hold the command until [`Authenticator::worked`].
    Working,
    /// It is the host's turn: Command Sequence Error.
    NotNow,
    /// The message has more bytes than the host has room for: Invalid Field in Command.
    NoRoom {
        /// Bytes of the message.
        bytes: usize,
    },
}

/// What goes through a transaction.
struct Transaction {
    id: u16,
    hash: Hash,
    group: Group,
    concatenation: u8,
    sequence: u32,
    challenge: Vec<u8>,
    exponent: Exponent,
}

enum Stage {
    /// Waits for Negotiate, for the first time or again.
    Idle,
    /// The public value is being made.
    Making(Transaction),
    /// The challenge waits to be fetched.
    Challenge(Transaction, Vec<u8>),
    /// Waits for the reply.
    Reply(Transaction),
    /// The agreed secret is being made.
    Agreeing(Transaction, Reply),
    /// Success1 waits to be fetched; the host challenged.
    Success1(u16, Vec<u8>, bool),
    /// Waits for Success2.
    Success2(u16),
    /// Failure1 waits to be fetched.
    Failing(u16, Reason),
    /// All is said.
    Failed(Reason),
}

/// The controller's end of the authentication of one queue.
pub struct Authenticator {
    config: Config,
    /// What counts from the next transaction on.
    next_config: Option<Config>,
    random: Random,
    stage: Stage,
    /// The last transaction that was completed made the host known.
    done: bool,
    work: Option<Work>,
    /// Work was taken and has not come back.
    working: bool,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator")
            .field("hostnqn", &self.config.hostnqn)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Authenticator {
    /// For a queue that was just connected.
    #[must_use]
    pub fn new(config: Config, random: Random) -> Authenticator {
        Authenticator {
            config,
            next_config: None,
            random,
            stage: Stage::Idle,
            done: false,
            work: None,
            working: false,
        }
    }

    /// What is demanded from the next transaction on: a host whose secret was changed shows the new one when it
    /// authenticates again. Until then it stays what it is.
    pub fn set_config(&mut self, config: Config) {
        self.next_config = Some(config);
    }

    /// How far it has come. A host that authenticates again stays `Done` meanwhile, unless it fails.
    #[must_use]
    pub fn state(&self) -> State {
        match self.stage {
            Stage::Failing(_, reason) | Stage::Failed(reason) => State::Failed(reason),
            _ if self.done => State::Done,
            _ => State::Pending,
        }
    }

    /// Is a transaction under way, so that [`TIMEOUT_MS`] runs?
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        !self.done || !matches!(self.stage, Stage::Idle)
    }

    /// It has failed and the host knows, or never will: close the connection.
    #[must_use]
    pub fn must_close(&self) -> bool {
        matches!(self.stage, Stage::Failed(_))
    }

    /// Takes what Authentication Send brought. The command itself succeeds whatever the message says: what is wrong with
    /// it the host learns by its next Authentication Receive; the reason comes back for the log.
    pub fn receive(&mut self, message: &[u8]) -> Result<(), Reason> {
        if let State::Failed(_) = self.state() {
            return Err(Reason::IncorrectMessage);
        }
        let current = self.transaction_id();
        let told = if message.len() > MAX_MESSAGE_BYTES {
            Err(Reason::IncorrectPayload)
        } else {
            Message::decode(message)
        };
        let (id, outcome) = match told {
            Err(reason) => (current.unwrap_or(0), Err(reason)),
            Ok((id, Message::Negotiate(_))) if current.is_some() => (id, Err(Reason::IncorrectMessage)),
            Ok((id, Message::Negotiate(negotiate))) => (id, self.negotiate(id, &negotiate)),
            Ok((id, _)) if current.is_some_and(|current| current != id) => {
                (current.unwrap_or(id), Err(Reason::IncorrectPayload))
            }
            Ok((_, Message::Failure2(reason))) if current.is_some() => {
                // The host does not want to know why: it knows.
                self.stage = Stage::Failed(reason);
                self.done = false;
                return Err(reason);
            }
            Ok((id, Message::Reply(reply))) => (id, self.reply(reply)),
            Ok((id, Message::Success2)) => (id, self.success2()),
            Ok((id, _)) => (id, Err(Reason::IncorrectMessage)),
        };
        if let Err(reason) = outcome {
            self.fail(id, reason);
        }
        outcome
    }

    /// What is to be computed before the next message can be sent, if the caller wants to do that elsewhere (see
    /// [`Work`] for what it takes); whoever takes it gives it back by [`Authenticator::worked`]. If nobody takes it,
    /// [`Authenticator::send`] does it on the spot.
    #[must_use]
    pub fn take_work(&mut self) -> Option<Work> {
        let work = self.work.take();
        self.working |= work.is_some();
        work
    }

    /// The work that was taken is done.
    pub fn worked(&mut self, worked: Worked) {
        assert!(mem::take(&mut self.working), "nothing comes back that was not taken");
        self.go_on(worked);
    }

    /// What Authentication Receive brings to the host, with room for `max_bytes` there.
    pub fn send(&mut self, max_bytes: usize) -> Result<Vec<u8>, SendError> {
        if self.working {
            return Err(SendError::Working);
        }
        if let Some(work) = self.work.take() {
            self.go_on(work.run());
        }
        let bytes = match &self.stage {
            Stage::Challenge(transaction, public) => Message::Challenge(Challenge {
                hash_id: transaction.hash.id(),
                group_id: transaction.group.id(),
                sequence: transaction.sequence,
                challenge: transaction.challenge.clone(),
                public: public.clone(),
            })
            .encode(transaction.id),
            Stage::Success1(_, message, _) => message.clone(),
            Stage::Failing(id, reason) => Message::Failure1(*reason).encode(*id),
            _ => return Err(SendError::NotNow),
        };
        if bytes.len() > max_bytes {
            return Err(SendError::NoRoom { bytes: bytes.len() });
        }
        self.stage = match mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Challenge(transaction, _) => Stage::Reply(transaction),
            Stage::Success1(id, _, true) => Stage::Success2(id),
            Stage::Success1(_, _, false) => {
                self.done = true;
                Stage::Idle
            }
            Stage::Failing(_, reason) => Stage::Failed(reason),
            other => other,
        };
        Ok(bytes)
    }

    fn transaction_id(&self) -> Option<u16> {
        match &self.stage {
            Stage::Idle | Stage::Failed(_) => None,
            Stage::Making(transaction)
            | Stage::Challenge(transaction, _)
            | Stage::Reply(transaction)
            | Stage::Agreeing(transaction, _) => Some(transaction.id),
            Stage::Success1(id, ..) | Stage::Success2(id) | Stage::Failing(id, _) => Some(*id),
        }
    }

    fn fail(&mut self, id: u16, reason: Reason) {
        self.stage = Stage::Failing(id, reason);
        self.done = false;
        self.work = None;
    }

    fn negotiate(&mut self, id: u16, negotiate: &Negotiate) -> Result<(), Reason> {
        if let Some(config) = self.next_config.take() {
            self.config = config;
        }
        if negotiate.concatenation != 0 {
            return Err(Reason::ConcatenationMismatch);
        }
        let (hashes, groups) = negotiate.offers.as_ref().ok_or(Reason::ProtocolNotUsable)?;
        let hash = *self
            .config
            .hashes
            .iter()
            .find(|hash| hashes.contains(&hash.id()))
            .ok_or(Reason::HashNotUsable)?;
        let group = *self
            .config
            .groups
            .iter()
            .find(|group| groups.contains(&group.id()))
            .ok_or(Reason::GroupNotUsable)?;
        let mut challenge = vec![0; hash.len_bytes()];
        (self.random)(&mut challenge);
        let transaction = Transaction {
            id,
            hash,
            group,
            concatenation: negotiate.concatenation,
            sequence: self.draw_sequence(),
            challenge,
            exponent: Exponent::draw(group, &mut self.random),
        };
        self.stage = if group == Group::Null {
            Stage::Challenge(transaction, Vec::new())
        } else {
            self.work = Some(Work {
                exponent: transaction.exponent.clone(),
                peer: None,
            });
            Stage::Making(transaction)
        };
        Ok(())
    }

    /// Never 0, which says in a reply that there is no challenge.
    fn draw_sequence(&mut self) -> u32 {
        let mut bytes = [0; 4];
        (self.random)(&mut bytes);
        u32::from_le_bytes(bytes).max(1)
    }

    fn reply(&mut self, reply: Reply) -> Result<(), Reason> {
        let Stage::Reply(transaction) = mem::replace(&mut self.stage, Stage::Idle) else {
            return Err(Reason::IncorrectMessage);
        };
        if reply.response.len() != transaction.hash.len_bytes() {
            return Err(Reason::IncorrectPayload);
        }
        // Number 0 with a challenge is for secure channel concatenation alone.
        if reply.challenge.is_some() && reply.sequence == 0 {
            return Err(Reason::IncorrectPayload);
        }
        if transaction.group == Group::Null {
            if !reply.public.is_empty() {
                return Err(Reason::IncorrectPayload);
            }
            return self.verify(&transaction, &reply, None);
        }
        let peer = transaction
            .group
            .public_value(&reply.public)
            .ok_or(Reason::IncorrectPayload)?;
        self.work = Some(Work {
            exponent: transaction.exponent.clone(),
            peer: Some(peer),
        });
        self.stage = Stage::Agreeing(transaction, reply);
        Ok(())
    }

    fn go_on(&mut self, worked: Worked) {
        match mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Making(transaction) if !worked.agreed => {
                self.stage = Stage::Challenge(transaction, worked.value.to_vec());
            }
            Stage::Agreeing(transaction, reply) if worked.agreed => {
                if let Err(reason) = self.verify(&transaction, &reply, Some(worked.value)) {
                    self.fail(transaction.id, reason);
                }
            }
            // The transaction has ended meanwhile.
            other => self.stage = other,
        }
    }

    /// Has the host the secret? If so, it gets Success1.
    fn verify(
        &mut self,
        transaction: &Transaction,
        reply: &Reply,
        agreed: Option<Zeroizing<Vec<u8>>>,
    ) -> Result<(), Reason> {
        let config = &self.config;
        let agreed = agreed.as_ref().map(|agreed| agreed.as_slice());
        let proof = |side, key, challenge, sequence| Proof {
            side,
            hash: transaction.hash,
            key,
            agreed,
            challenge,
            sequence,
            transaction: transaction.id,
            concatenation: transaction.concatenation,
            hostnqn: &config.hostnqn,
            subnqn: &config.subnqn,
        };
        let key = config.secret.key_for(&config.hostnqn);
        if !proof(Side::Host, &key, &transaction.challenge, transaction.sequence).verify(&reply.response) {
            return Err(Reason::Failed);
        }
        let response = match &reply.challenge {
            None => None,
            Some(challenge) => {
                // A host that wants proof of an end that has no secret is not served: it would not serve itself.
                let secret = config.controller_secret.as_ref().ok_or(Reason::Failed)?;
                let key = secret.key_for(&config.subnqn);
                Some(proof(Side::Controller, &key, challenge, reply.sequence).response())
            }
        };
        let challenged = response.is_some();
        let message = Message::Success1(Success1 {
            hash_bytes: transaction.hash.len_bytes() as u8,
            response,
        });
        self.stage = Stage::Success1(transaction.id, message.encode(transaction.id), challenged);
        Ok(())
    }

    fn success2(&mut self) -> Result<(), Reason> {
        let Stage::Success2(_) = self.stage else {
            return Err(Reason::IncorrectMessage);
        };
        self.stage = Stage::Idle;
        self.done = true;
        Ok(())
    }
}
