//! Who did what: records in a chain of hashes.
//!
//! A record is kept as one line of text, its SHA-256 in front of it:
//!
//! ```text
//! 4f1c…e2 {"seq":12,"prev":"90ab…77","unix_ms":1795168511123,"who":{…},"action":"volume.create","object":"disk0",…}
//! ```
//! The hash is of exactly the bytes that stand behind it, and they name the hash of the record before (`prev`). So whoever
//! changes a record, takes one out or puts one in has to compute all later ones anew, and whoever knows the hash of one
//! later record ([`Head`]) sees that. What newer versions write is checked by older ones: nothing is put into another form
//! before it is hashed. What a terminal would obey is escaped in it from the beginning, so that it can be shown and shipped as it is.
//!
//! * [`Draft`], [`Record`], [`Line`]: what is told, what it becomes in its place, and its text.
//! * [`Verifier`]: goes through a log and says what is wrong first.
//! * [`Change`]: what a record of the metadata was before and is after, without secrets.
//! * [`Allowances`]: how often strangers may be told of.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod allowance;
mod change;
mod hash;
mod record;
mod text;
mod verify;

pub use allowance::{Allowances, Limit, Missed, network};
pub use change::{Change, Changes, MAX_CHANGES};
pub use hash::{BadHash, Hash};
pub use record::{
    Draft, Head, Line, MAX_BODY_BYTES, MAX_SEQ, Outcome, Proof, Record, TRIM, Unreadable, Whence, Who, now_ms, trimmed,
};
pub use text::{inert, is_obeyed, plain};
pub use verify::{Fault, Retention, Summary, Verifier};

#[cfg(test)]
mod tests;
