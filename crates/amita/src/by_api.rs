//! The command line by the API: a command is sent to a node, which carries it out with the rights of who has sent it.
//!
//! * [`table`]: which commands nodes carry out for others, and which not, with the reason.
//! * [`given`]: how a command line was given: which command, which arguments, and by what the cluster is reached.
//! * [`carry`]: a node carries one out.
//! * [`client`]: the command is sent to a node, and to another one where that does not answer.
//! * [`transport`]: one node is asked, by HTTPS.
//!
//! What a command says and does is decided by the node alone: the client shows it (decision 066).

pub mod carry;
pub mod client;
pub mod given;
pub mod table;
pub mod transport;

/// The longest that a node waits for what a command waits for.
pub const LONGEST: std::time::Duration = std::time::Duration::from_secs(300);
