//! What can go wrong between a host and a target.

use crate::wire::Status;

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// Nothing came in time.
    #[error("no answer in time: waited for {0}")]
    Timeout(&'static str),
    /// The target closed the connection.
    #[error("the target closed the connection")]
    Closed,
    /// The target ended the connection with a C2HTermReq.
    #[error("the target ended the connection: {}, at byte {field:#x} of the PDU", fatal_name(*.fatal))]
    Terminated {
        /// The fatal error status.
        fatal: u16,
        /// The fatal error information: where in the header the fault is.
        field: u32,
        /// The header that the target found fault with, as it gives it back.
        header: Vec<u8>,
    },
    /// The target sent what the specification forbids.
    #[error("the target broke the protocol: {0}")]
    Malformed(String),
    /// A command failed that should not have.
    #[error("{what} failed: {status}")]
    Command {
        /// The command.
        what: &'static str,
        status: Status,
        /// Dwords 0 and 1 of its completion.
        result: u64,
    },
    /// The controller did not become ready, or is no such controller as was asked for.
    #[error("the controller is not usable: {0}")]
    Controller(String),
}

/// The name of a fatal error status (TCP Transport 1.1, 3.6.2.5).
fn fatal_name(fatal: u16) -> String {
    match fatal {
        1 => "invalid PDU header field (1)".into(),
        2 => "PDU sequence error (2)".into(),
        3 => "header digest error (3)".into(),
        4 => "data transfer out of range (4)".into(),
        5 => "data transfer limit exceeded (5)".into(),
        6 => "unsupported parameter (6)".into(),
        other => format!("fatal error status {other}"),
    }
}
