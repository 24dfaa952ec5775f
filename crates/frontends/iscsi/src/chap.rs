//! CHAP, the target's side (RFC 7143, 12.1.3, with RFC 1994; the numbers of SHA-256 and SHA3-256 are those of IANA's registry of
//! PPP authentication algorithms): the initiator proves to have a secret, and the target does when it is asked to.
//!
//! ```text
//! initiator: CHAP_A=7,5                       target: CHAP_A=7 CHAP_I=23 CHAP_C=0x...
//! initiator: CHAP_N=host CHAP_R=0x...         target: (nothing more)
//!            [CHAP_I=5 CHAP_C=0x...]                  [CHAP_N=target CHAP_R=0x...]
//! ```
//! A response is the hash of the identifier, the secret and the challenge. Two ways in which it would prove nothing are shut:
//! the target never answers a challenge that is its own (an initiator without a secret would send it back and get the response
//! to it), and the two secrets of an initiator differ. A challenge is drawn anew for each exchange and used once.

mod md5;
#[cfg(test)]
mod tests;

use crate::catalog::Secret;
use crate::text::{Pair, Text, decode_binary, encode_hex, find, parse_number};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;

/// Bytes of a challenge: as long as the longest response.
const CHALLENGE_BYTES: usize = 32;
/// The longest challenge of an initiator, in bytes (12.1.3).
const MAX_CHALLENGE_BYTES: usize = 1024;
/// The longest name, in bytes (12.1.3: CHAP_N is a text of up to 255 bytes).
const MAX_NAME_BYTES: usize = 255;
/// The longest response, in bytes.
const MAX_RESPONSE_BYTES: usize = 32;

/// A hash, by its number in CHAP_A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Md5 = 5,
    Sha1 = 6,
    Sha256 = 7,
    Sha3 = 8,
}

impl Algorithm {
    /// All of them, the strongest first.
    pub const ALL: [Algorithm; 4] = [Algorithm::Sha3, Algorithm::Sha256, Algorithm::Sha1, Algorithm::Md5];

    fn hash(self, parts: &[&[u8]]) -> Vec<u8> {
        let library = match self {
            Algorithm::Md5 => return md5::md5(parts).to_vec(),
            Algorithm::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Algorithm::Sha256 => &digest::SHA256,
            Algorithm::Sha3 => &digest::SHA3_256,
        };
        let mut context = digest::Context::new(library);
        parts.iter().for_each(|part| context.update(part));
        context.finish().as_ref().to_vec()
    }

    /// The response to a challenge.
    #[must_use]
    pub fn response(self, identifier: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
        self.hash(&[&[identifier], secret, challenge])
    }
}

/// What an exchange is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The name that the initiator says (CHAP_N).
    pub user: String,
    /// What it proves to have.
    pub secret: Secret,
    /// What the target proves to have, when it is asked to.
    pub target_secret: Option<Secret>,
    /// The name that the target says then.
    pub target_user: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// CHAP_A is to come.
    Algorithm,
    /// The response is to come.
    Response {
        algorithm: Algorithm,
        identifier: u8,
        challenge: [u8; CHALLENGE_BYTES],
    },
    Done,
}

/// One exchange.
#[derive(Clone, Debug)]
pub struct Exchange {
    credentials: Credentials,
    /// Those that are taken, the preferred one first.
    algorithms: Vec<Algorithm>,
    state: State,
}

/// Why nobody has proven anything; for the log, and never for the initiator.
pub type Failure = &'static str;

impl Exchange {
    /// Nothing has come.
    #[must_use]
    pub fn new(credentials: Credentials, algorithms: &[Algorithm]) -> Exchange {
        Exchange {
            credentials,
            algorithms: algorithms.to_vec(),
            state: State::Algorithm,
        }
    }

    /// Has the initiator proven to have its secret?
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes what came of CHAP's keys, and answers.
    ///
    /// # Errors
    /// The authentication has failed.
    pub fn take(
        &mut self,
        pairs: &[Pair<'_>],
        random: &mut dyn FnMut(&mut [u8]),
        answer: &mut Text,
    ) -> Result<(), Failure> {
        match std::mem::replace(&mut self.state, State::Algorithm) {
            State::Algorithm => match find(pairs, "CHAP_A") {
                Some(offered) => self.challenge(offered, random, answer),
                // Some say AuthMethod alone at first.
                None if pairs.iter().any(|(key, _)| key.starts_with("CHAP_")) => Err("CHAP begins with CHAP_A"),
                None => Ok(()),
            },
            State::Response {
                algorithm,
                identifier,
                challenge,
            } => self.judge(algorithm, identifier, &challenge, pairs, answer),
            State::Done => {
                self.state = State::Done;
                match pairs.iter().any(|(key, _)| key.starts_with("CHAP_")) {
                    true => Err("keys of CHAP behind its end"),
                    false => Ok(()),
                }
            }
        }
    }

    fn challenge(
        &mut self,
        offered: &str,
        random: &mut dyn FnMut(&mut [u8]),
        answer: &mut Text,
    ) -> Result<(), Failure> {
        let is_offered = |algorithm: &&Algorithm| {
            let number = **algorithm as u64;
            offered.split(',').any(|one| parse_number(one) == Some(number))
        };
        let algorithm = *self
            .algorithms
            .iter()
            .find(is_offered)
            .ok_or("none of the initiator's hashes is taken here")?;
        let mut drawn = [0; CHALLENGE_BYTES + 1];
        random(&mut drawn);
        let [identifier, challenge @ ..] = drawn;
        answer.push("CHAP_A", &(algorithm as u8).to_string());
        answer.push("CHAP_I", &identifier.to_string());
        answer.push("CHAP_C", &encode_hex(&challenge));
        self.state = State::Response {
            algorithm,
            identifier,
            challenge,
        };
        Ok(())
    }

    fn judge(
        &mut self,
        algorithm: Algorithm,
        identifier: u8,
        challenge: &[u8; CHALLENGE_BYTES],
        pairs: &[Pair<'_>],
        answer: &mut Text,
    ) -> Result<(), Failure> {
        let name = find(pairs, "CHAP_N").filter(|name| name.len() <= MAX_NAME_BYTES);
        let name = name.ok_or("no CHAP_N")?;
        let response = find(pairs, "CHAP_R").and_then(|value| decode_binary(value, MAX_RESPONSE_BYTES));
        let response = response.ok_or("no CHAP_R, or one that cannot be read")?;
        let expected = algorithm.response(identifier, self.credentials.secret.as_bytes(), challenge);
        // Both are looked at, whichever is wrong.
        let is_right = verify_slices_are_equal(&response, &expected).is_ok();
        if !(is_right & (name == self.credentials.user)) {
            return Err("a wrong name or response");
        }
        if let Some(own) = find(pairs, "CHAP_I") {
            self.prove(algorithm, own, challenge, pairs, answer)?;
        } else if find(pairs, "CHAP_C").is_some() {
            return Err("CHAP_C without CHAP_I");
        }
        self.state = State::Done;
        Ok(())
    }

    /// The initiator wants to know who the target is.
    fn prove(
        &self,
        algorithm: Algorithm,
        identifier: &str,
        own_challenge: &[u8; CHALLENGE_BYTES],
        pairs: &[Pair<'_>],
        answer: &mut Text,
    ) -> Result<(), Failure> {
        let identifier = parse_number(identifier).and_then(|number| u8::try_from(number).ok());
        let identifier = identifier.ok_or("CHAP_I is a number below 256")?;
        let challenge = find(pairs, "CHAP_C").and_then(|value| decode_binary(value, MAX_CHALLENGE_BYTES));
        let challenge = challenge.ok_or("no CHAP_C, or one that cannot be read")?;
        // It would be answered for somebody who has no secret, and sends it on where that is asked for.
        if challenge == own_challenge {
            return Err("the initiator sends the target's own challenge back");
        }
        let secret = self.credentials.target_secret.as_ref();
        let secret = secret
            .filter(|secret| !secret.is_empty())
            .ok_or("the target is to prove itself, and has no secret for that initiator")?;
        if *secret == self.credentials.secret {
            return Err("the two secrets of that initiator are the same");
        }
        let response = algorithm.response(identifier, secret.as_bytes(), &challenge);
        answer.push("CHAP_N", &self.credentials.target_user);
        answer.push("CHAP_R", &encode_hex(&response));
        Ok(())
    }
}
