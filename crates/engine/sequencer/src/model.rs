//! A cluster in miniature: sequencers and openers as they ship, around simple stores that obey the store's side of the
//! protocol, over links that delay, cut and come back, with the metadata's model. One thread, one seed, virtual time.
//!
//! * `store`: a store that keeps its log in memory: a prefix of it survives a crash.
//! * `resync`: what it does while it is brought up to date; `coordinator`: who has it brought up to date.
//! * `world`: the event queue; `links`, `metadata`, `gateways`: what is in it; `faults`: what goes wrong in a run.
//! * `sealed`: what is encrypted, and the rules of that.
//! * `client`: who reads and writes, and what he saw; [`amita_testkit::linear`] says whether one order of everything explains it.

mod client;
mod coordinator;
mod faults;
mod gateways;
mod links;
mod metadata;
mod resync;
mod sealed;
mod store;
mod tests;
mod world;
