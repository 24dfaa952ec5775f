//! The command line by the API: a command is sent to a node, which carries it out with the rights of who has sent it.
//!
//! * [`table`]: which commands nodes carry out for others, and which not, with the reason.
//! * [`given`]: how a command line was given: which command, which arguments, and by what the cluster is reached.
//! * [`carry`]: a node carries one out.
//! * [`who`]: which nodes are asked, and as whom.
//! * [`client`]: the command is sent to a node, and to another one where that does not answer.
//! * [`sent`]: keys and secrets of files that are sent with it.
//! * [`operations`]: what is done by the API's own operations, where it is given: figures, and the data of volumes.
//! * [`follow`]: what goes on until it is ended.
//! * [`driver`]: the driver of CSI asks so, until it is ended.
//! * [`transport`]: one node is asked, by HTTPS; [`body`]: what is sent to it; `wait`: it is waited for.
//!
//! What a command says and does is decided by the node, as far as it can: the client shows it (decision 066).

pub mod body;
pub mod carry;
pub mod client;
pub mod driver;
pub mod follow;
pub mod given;
pub mod operations;
pub mod place;
pub mod rest;
pub mod sent;
pub mod stream;
pub mod table;
pub mod transport;
pub(crate) mod wait;
pub mod who;

/// The longest that a node waits for what a command waits for.
pub const LONGEST: std::time::Duration = std::time::Duration::from_secs(300);
