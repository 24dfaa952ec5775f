//! A cluster in miniature: sequencers and openers as they ship, around simple stores that obey the store's side of the
//! protocol, over links that delay, cut and come back, with the metadata's model. One thread, one seed, virtual time.
//!
//! * `store`: a store that keeps its log in memory: a prefix of it survives a crash.
//! * `world`: the event queue, links, gateways, faults.
//! * `history`: what clients saw, and whether one order of everything explains it.

mod client;
mod faults;
mod history;
mod random;
mod store;
mod tests;
mod world;
