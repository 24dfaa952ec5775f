//! The unified storage service: one small trait that every protocol stands on, and one module per protocol.
//!
//! A protocol is a [`Front`]: a state machine for one connection of a host. It is given the bytes that came in (an
//! `Inbox`), puts what it has to say into an `Outbox`, and asks for I/O of the [`StorageService`] beneath; what becomes
//! of that comes back as an [`Event`]. Nothing in here does I/O, reads a clock or waits, so that a front runs over
//! sockets and in the simulation alike.
//!
//! What all protocols share lies beside the trait: [`pieces()`] cuts any range into what the sequencer takes, [`slots`]
//! names requests in the tags of their pieces. [`nbd`] is the first protocol.
#![deny(unsafe_code)]

pub mod front;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod nbd;
pub mod nvme;
pub mod pieces;
pub mod reservation;
pub mod service;
pub mod slots;

pub use front::{CloseReason, Flow, Front};
pub use pieces::{Piece, Pieces, ZeroStep, Zeroes, clears, pieces, zeroes};
pub use service::{Event, Export, FrontId, HostKey, OpenError, StorageService, VolumeInfo};
