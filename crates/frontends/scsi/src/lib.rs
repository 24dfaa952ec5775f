//! SCSI without a transport: what a command of a host means, and what is answered.
//!
//! Written from the specifications: SAM-5 (nexuses, unit attentions), SPC-4 (commands and pages of every device, persistent
//! reservations, asymmetric access, third-party copies), SBC-3 (disks), and SBC-4 for WRITE ATOMIC. Rules are cited by the titles
//! of their clauses where they are obeyed.
//!
//! A transport hands in a [`Task`] by [`plan()`] and is told a [`Plan`]: an answer, or what is to be done before there is one. Nothing in
//! here does I/O, waits or reads a clock. What it knows is the [`Catalog`] of the moment, immutable and shared, and what is kept
//! of one host's session in a [`Nexus`].
//!
//! * [`command`]: logical unit numbers, tasks, command descriptor blocks.
//! * [`mod@plan`]: what is to be done, and the residual of what was moved.
//! * [`sense`]: statuses and sense data.
//! * [`unit`]: targets, target port groups, logical units, who may see them.
//! * [`nexus`]: what is kept of an initiator port and a target port, and what it is still to be told.
//! * [`opcodes`]: the table of the commands; `device` looks a task's command up there and asks its module for a plan.
//! * [`persistent`]: reservations; [`mod@copy`] and [`token`]: copies without the host; [`mode`], `vpd`, `inquiry`, `report`: what is told.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod access;
mod block;
pub mod command;
pub mod copy;
mod device;
mod inquiry;
pub mod lba_status;
pub mod mode;
pub mod nexus;
pub mod opcodes;
pub mod persistent;
pub mod plan;
mod report;
pub mod sense;
#[cfg(test)]
mod testing;
pub mod token;
pub mod unit;
mod vpd;

pub use access::moved;
pub use command::{Attribute, Cdb, Lengths, Lun, Task};
pub use copy::{CopyRest, copied, may_go_on};
pub use lba_status::LbaStatus;
pub use nexus::{Happening, InitiatorPort, Nexus};
pub use persistent::{NexusName, Reservation, Reserving, reserved};
pub use plan::{
    Answer, Asking, Check, Extent, Io, Place, Plan, Residual, Segment, Work, asked, atoms, failed, gathered,
    miscompare, plan,
};
pub use sense::{Sense, Status};
pub use token::{Sum, Summer, Token, TokenKeys, TokenWork, begun};
pub use unit::{Access, Alua, Catalog, Group, Target, Unit};
