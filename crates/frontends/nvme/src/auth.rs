//! In-band authentication by DH-HMAC-CHAP (NVM Express Base 2.1, 8.3.4).
//!
//! ```text
//! host                                     controller
//! Connect                              ->
//!                                      <-  done, "authentication required" (AUTHREQ.ATR)
//! Authentication Send    Negotiate     ->
//! Authentication Receive Challenge     <-  C1, g^x
//! Authentication Send    Reply         ->  R1 [, C2], g^y
//! Authentication Receive Success1      <-  [R2]
//! Authentication Send    [Success2]    ->
//! ```
//!
//! Each queue of a controller authenticates by itself, with the same secrets. Until it has, its connection takes no
//! other commands than these two; a queue that has may do it again at any time, and goes on serving meanwhile.
//!
//! [`Authenticator`] is the controller's end, [`Initiator`] the host's. Both are pure: messages go in and come out, random
//! numbers come from a closure, and the Diffie-Hellman computing can be done elsewhere ([`Work`]). They share messages
//! and the formula of responses; what the formula says is checked against the Linux kernel.
//!
//! A failed attempt ends the connection: the controller says why (Failure1) and then closes. There is no second guess
//! on a connection, and a guess costs the guesser as much as the controller.
//!
//! Secure channel concatenation (TLS keyed by the outcome of the authentication) is not built: a host that asks for it
//! is refused with the reason that the specification names.

mod command;
mod controller;
mod group;
mod host;
mod message;
mod primes;
mod response;

pub use command::{AuthCommand, CONNECT_AUTHREQ_ATR};
pub use controller::{Authenticator, Config, DEFAULT_GROUPS, DEFAULT_HASHES, SendError, State, TIMEOUT_MS};
pub use group::{Group, Work, Worked};
pub use host::{HostConfig, Initiator, Step};
pub use message::{Challenge, MAX_MESSAGE_BYTES, Message, Negotiate, Reason, Reply, Success1};

/// Fills a buffer with numbers that nobody can foresee: `amita_keys::system_random` where it counts.
pub type Random = Box<dyn FnMut(&mut [u8])>;

#[cfg(test)]
mod tests;
