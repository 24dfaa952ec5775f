//! Policies: snapshots that are taken and deleted by themselves.
//!
//! * [`schedule`]: when something is due, in which time zone.
//! * [`retention`]: which snapshots are kept, and why.
//! * [`naming`]: what they are called.
//! * [`runner`]: takes and deletes them, on the node that leads, with the clock from outside.
//! * [`standing`]: how policies are, for whoever asks.
//!
//! # What rests on what
//! The time that a run is due at stands in the name of each snapshot that it takes. So a node that leads next, and does not know how
//! far the last one has come, finds by the name what is taken already, and nothing is taken twice. How far a run has come stands in the
//! metadata ([`amita_types::map::PolicyRuns`]) only so that it need not look at everything anew.
//!
//! A snapshot is a policy's own if it has its name *and number* as a label that nobody else can give. No other one is ever deleted.

pub mod naming;
pub mod retention;
pub mod runner;
pub mod schedule;
pub mod standing;
