//! What an experienced operator would look at on a cluster that works, and would want to have mended before users notice.
//!
//! * [`inventory`]: the facts that a node tells of its machine; [`collect`] reads them there, [`keeper`] writes them into the metadata.
//! * [`clocks`]: how far the clocks of nodes are apart, by stamps that they write and see.
//! * [`forecast`]: what a disk's past says of its future; [`sick`]: which disks are to be watched or left, and [`doctor`]: that this is told
//!   and, where the operator wants it, done.
//! * [`gather`]: all facts of a cluster; [`check`]: findings over them, pure; [`code`]: what can be found, and what to do about it.
//! * [`certificates`]: what is in use of them, and how long it is good for.
//! * [`report`]: findings as text and JSON, [`html`]: as one file for a browser.
//! * [`bundle`]: what goes to whoever helps, without secrets.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod bundle;
pub mod certificates;
pub mod check;
pub mod clocks;
pub mod code;
pub mod collect;
pub mod doctor;
pub mod forecast;
pub mod gather;
pub mod html;
pub mod inventory;
pub mod keeper;
pub mod report;
pub mod sheet;
pub mod sick;
mod sys;

pub use check::inspect;
pub use code::Code;
pub use gather::{Facts, gather};
pub use keeper::Keeper;
pub use sheet::{Finding, Place, Report, Severity};
