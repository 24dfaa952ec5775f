//! The metadata: the client of the etcd v3 API and the embedded server.
//!
//! * [`call`]: one transaction and its reply, events of a watch: plain types that state machines build and read.
//! * [`model`]: what a server does with them, as a pure state machine; run by the embedded server and the simulator.
//! * [`error`]: surely not done, may have been done, refused.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod call;
pub mod client;
pub mod error;
pub mod model;
pub mod server;
mod wire;

pub use call::{Batch, Call, Compare, Event, KeyValue, LeaseId, MAX_CALL_BYTES, MAX_OPS, Op, OpReply, Record, Reply};
pub use client::{Client, Lease, Line, Options, Transact, Waited, Watch, WatchStop, after_lost, told_no_space};
pub use error::{Error, Refusal};
