//! Who may go now, and who goes first.
//!
//! * [`bucket`], [`limits`]: how much a volume, a tenant or a pool may do: rate, burst, and a peak out of saved credits.
//! * [`lease`]: the same for what several gateways spend: a grantor lends tokens, and the sum holds whatever is lost.
//! * [`scheduler`]: in which order a core takes what waits: reservation, weight, limit (dmClock), clients beside recovery,
//!   scrub, trim, backup and moves; [`lines`]: the same where all of a volume keeps its order, whatever it is for; [`tracker`] is the sender's part where one client's work goes to many servers.
//!
//! Nothing here does I/O, reads a clock or draws a random number: moments come in as [`amita_reactor::Time`].
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod bucket;
mod depth;
pub mod faults;
mod heap;
pub mod lease;
pub mod limits;
pub mod lines;
pub mod scheduler;
pub mod tracker;

pub use bucket::{Bucket, Limit, LimitError};
pub use depth::DepthLimits;
pub use faults::{Fault, Faults};
pub use lease::{Ask, Grant, Grantor, Holder};
pub use limits::{Cost, Direction, Limiter, Limits};
pub use lines::{LineId, Lines};
pub use scheduler::{Class, Flow, FlowId, LimiterId, Scheduler, Ticket};
pub use tracker::{Elsewhere, Tracker};
