//! Cores, drivers, timers, buffers and mailboxes.
//!
//! One thread per core runs a [`Service`](core::Service) to completion: the [`driver`] gives it what ended, it starts
//! what follows, and the driver hands all of that to the kernel at once. Nothing is shared between cores but
//! [`mailbox`] rings and reference-counted [`buf`] blocks, and no lock is taken on the path of an I/O.
#![cfg_attr(not(test), deny(clippy::unwrap_used))]
#![deny(unsafe_code)]

pub mod admission;
#[allow(unsafe_code)]
pub mod buf;
pub mod buggify;
pub mod core;
pub mod driver;
pub mod faults;
pub mod histogram;
#[allow(unsafe_code)]
pub mod mailbox;
pub mod sim;
pub mod stream;
mod sync;
pub mod timer;
pub mod uring;
pub mod waker;

pub use admission::{AcceptLimits, Rate};
pub use buf::{BufMut, Pool, PoolConfig, Segments, Slice};
pub use driver::{
    AcceptCounts, Completion, Driver, DriverCounts, FileId, FileInfo, ListenerId, Outcome, PathCounts, SocketId, Time,
    TimerId, Token, Wait,
};
pub use stream::{Inbox, Outbox};
pub use uring::Doorbell;
pub use waker::Waker;
