//! A job that stands still, because an operator has said so.

use serde::{Deserialize, Serialize};

/// Who has paused a job, and when. It stands in the record of what is to be done, so that whoever is at that next stands still as well.
/// A program from before there was such a thing goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// The name of who has said so.
    pub by: String,
    /// When, in seconds since 1970.
    pub at: u64,
}
