//! What an initiator has to prove, and how that goes (RFC 7143, section 12).

use crate::catalog::{Initiator, Secret};
use crate::chap::{Algorithm, Credentials, Exchange};
use crate::text::{NONE, Pair, REJECT, Text, choose, find};

/// The name that the target has in CHAP where it is asked for none: that of no target (in discovery).
const DISCOVERY_USER: &str = "amita";

/// How it stands with the proof.
#[derive(Debug, Default)]
pub(super) enum Security {
    /// Who it is has not been said.
    #[default]
    Unknown,
    /// There is nothing to prove.
    Needless,
    /// It is proven by CHAP, or is to be.
    Chap {
        exchange: Box<Exchange>,
        /// Have both agreed on that?
        agreed: bool,
    },
}

/// Is it a key of the security (section 12)?
pub(super) fn is_key(key: &str) -> bool {
    key == "AuthMethod" || key.starts_with("CHAP_")
}

impl Security {
    /// Says what the initiator has to prove.
    pub(super) fn demand(&mut self, known: Option<(&Initiator, &Secret)>, target: Option<&str>, hashes: &[Algorithm]) {
        *self = match known {
            None => Security::Needless,
            Some((initiator, secret)) => {
                let credentials = Credentials {
                    user: initiator.user.clone(),
                    secret: secret.clone(),
                    target_secret: initiator.chap_target.clone(),
                    target_user: initiator
                        .target_user
                        .clone()
                        .unwrap_or_else(|| target.unwrap_or(DISCOVERY_USER).to_owned()),
                };
                Security::Chap {
                    exchange: Box::new(Exchange::new(credentials, hashes)),
                    agreed: false,
                }
            }
        };
    }

    /// Is nothing to be proven (any more)?
    pub(super) fn is_over(&self) -> bool {
        match self {
            Security::Unknown => false,
            Security::Needless => true,
            Security::Chap { exchange, .. } => exchange.is_done(),
        }
    }

    /// Has the initiator proven to be the one that it says?
    pub(super) fn has_proven(&self) -> bool {
        matches!(self, Security::Chap { exchange, .. } if exchange.is_done())
    }

    /// Takes the keys of the security that a request has.
    pub(super) fn take(
        &mut self,
        pairs: &[Pair<'_>],
        random: &mut dyn FnMut(&mut [u8]),
        answer: &mut Text,
    ) -> Result<(), &'static str> {
        let offered = find(pairs, "AuthMethod");
        let is_answer = |value: &str| value == REJECT;
        match self {
            Security::Unknown => Err("the initiator has not said who it is"),
            Security::Needless => {
                if let Some(list) = offered.filter(|list| !is_answer(list)) {
                    // Without a secret nothing can be proven, by no method.
                    let chosen = choose(list, |one| one == NONE);
                    answer.push("AuthMethod", chosen.ok_or(
                        "the initiator wants to prove itself, and there is no secret of it; `amita initiator` sets one",
                    )?);
                }
                match pairs.iter().any(|(key, _)| key.starts_with("CHAP_")) {
                    true => Err("keys of CHAP, which was not agreed on"),
                    false => Ok(()),
                }
            }
            Security::Chap { exchange, agreed } => {
                if let Some(list) = offered {
                    if *agreed {
                        return Err("AuthMethod is said twice");
                    }
                    let chosen = choose(list, |one| one == "CHAP");
                    answer.push(
                        "AuthMethod",
                        chosen.ok_or("the initiator has to prove itself, and does not offer CHAP")?,
                    );
                    *agreed = true;
                }
                match *agreed {
                    true => exchange.take(pairs, random, answer),
                    false if pairs.iter().any(|(key, _)| key.starts_with("CHAP_")) => {
                        Err("keys of CHAP before AuthMethod")
                    }
                    false => Ok(()),
                }
            }
        }
    }
}
