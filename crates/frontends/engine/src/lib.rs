//! The unified storage service: one small trait that every protocol of hosts stands on.
//!
//! A protocol is a [`Front`]: a state machine for one connection of a host. It is given the bytes that came in (an
//! `Inbox`), puts what it has to say into an `Outbox`, and asks for I/O of the [`StorageService`] beneath; what becomes
//! of that comes back as an [`Event`]. Nothing in here does I/O, reads a clock or waits, so that a front runs over
//! sockets and in the simulation alike.
//!
//! A protocol parses, answers, and names what it can do; [`engine`] carries its requests out in between: start there to
//! add one. What all protocols share lies beside it: [`pieces()`] cuts any range into what the sequencer takes, [`slots`]
//! names requests in the tags of their pieces, [`reservation`] says which hosts may do what, [`register`] is how the
//! connections of a protocol find one another on a node. A protocol is a crate of its own beside this one.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod compute;
pub mod context;
pub mod engine;
pub mod front;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod pieces;
pub mod register;
pub mod reservation;
pub mod service;
pub mod slots;

pub use compute::{Computation, Computed, Wanted};
pub use context::{Context, Cx};
pub use engine::{Engine, Protocol};
pub use front::{CloseReason, Flow, Front};
pub use pieces::{Piece, Pieces, ZeroStep, Zeroes, clears, pieces, zeroes};
pub use register::{ConnectionId, RegisterMessage};
pub use service::{
    Bases, Client, Event, Export, FrontId, HostKey, MAX_BASES, OpenError, Source, StorageService, VolumeInfo, Who,
    snapshot_named,
};
