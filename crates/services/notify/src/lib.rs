//! Alerts without Prometheus: the cluster itself tells people what is wrong, by webhook, mail and syslog.
//!
//! One node of the cluster at a time ([`run`]) looks at what `amita status` says and at the log of events ([`condition`]), and makes
//! alerts of it: [`alert`] is the state machine, on a clock that is given. Whom an alert is told, when, and when again is another
//! ([`delivery`]), one for each [`channel`]. What both know lies in the metadata ([`records`]): another node goes on where one has died.
//!
//! # What holds
//! * Whatever fires is told to each channel that wants it at least once, and so is its end: a message is written down before it is
//!   sent, and crossed out after it was taken.
//! * A message is sent twice only where it is not known whether it arrived: the answer was lost, or the node died before it could
//!   cross it out. Both times it has the same id, by which a receiver knows it.
//! * Two nodes do not send at one time: whoever sends holds a lease, and begins only what ends before that does.
//! * A receiver that is dead keeps nobody but itself waiting. Nothing piles up for it: each group of alerts has one message that waits.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod admin;
pub mod alert;
pub mod channel;
pub mod condition;
pub mod delivery;
mod failing;
mod lead;
pub mod message;
pub mod records;
pub mod run;
pub mod send;
pub mod silence;

pub use alert::{Alert, Alerts, Severity, State};
pub use channel::{Channel, Kind as ChannelKind};
pub use silence::{Match, Silence};

/// Since 1970, in seconds.
#[must_use]
pub fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// The beginning of a text, of at most so many bytes; what is cut off is shown by three dots.
pub(crate) fn clip(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most.saturating_sub(3)).rev().find(|at| text.is_char_boundary(*at));
    format!("{}...", &text[..end.unwrap_or(0)])
}
