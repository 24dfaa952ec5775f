//! Where it all lies in the metadata.
//!
//! What operators have said is kept with the other records, and copied to the stores: `/amita/notify/`. What is told to whom at this
//! moment is not: `/amita/alerts/`.

use amita_control::records::alerts_prefix;
use amita_types::map::PREFIX;
use serde::{Deserialize, Serialize};

/// The prefix of all channels.
#[must_use]
pub fn channels_prefix() -> String {
    format!("{PREFIX}notify/channels/")
}

/// The key of a channel.
#[must_use]
pub fn channel_key(name: &str) -> String {
    format!("{}{name}", channels_prefix())
}

/// The prefix of all silences.
#[must_use]
pub fn silences_prefix() -> String {
    format!("{PREFIX}notify/silences/")
}

/// The key of a silence.
#[must_use]
pub fn silence_key(id: &str) -> String {
    format!("{}{id}", silences_prefix())
}

/// The key of the alerts: [`crate::alert::Alerts`].
#[must_use]
pub fn alerts_key() -> String {
    format!("{}state", alerts_prefix())
}

/// The prefix of what channels were told.
#[must_use]
pub fn deliveries_prefix() -> String {
    format!("{}sent/", alerts_prefix())
}

/// The key of what a channel was told: [`crate::delivery::Delivery`].
#[must_use]
pub fn delivery_key(channel: &str) -> String {
    format!("{}{channel}", deliveries_prefix())
}

/// The prefix of wishes for a test.
#[must_use]
pub fn tests_prefix() -> String {
    format!("{}tests/", alerts_prefix())
}

/// The key of the wish that a channel be tested.
#[must_use]
pub fn test_key(channel: &str) -> String {
    format!("{}{channel}", tests_prefix())
}

/// The key of who tells. It lies on that node's lease.
#[must_use]
pub fn leader_key() -> String {
    format!("{}leader", alerts_prefix())
}

/// Who tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// The node's name.
    pub node: String,
    /// Another one for each time that a process began to tell.
    pub session: String,
}

/// A wish that a channel be tested, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    /// The id of the message.
    pub id: String,
    /// Who wishes it.
    pub by: String,
    /// When, in seconds since 1970.
    pub at: u64,
    /// What came of it; none: it was not done yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// What came of an attempt to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The receiver has taken it.
    pub taken: bool,
    /// What it has said, or what went wrong.
    pub said: String,
    /// How long that took, in milliseconds.
    pub took_ms: u64,
    /// Which node has sent it.
    pub node: String,
}
