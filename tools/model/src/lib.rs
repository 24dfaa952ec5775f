//! The rules of replication (`docs/protocol.md`, R1 to R12, S1 to S9 and S13) as a model that is checked exhaustively at small sizes.
//!
//! Nothing of the product is in here, and the product has nothing of this: a model is small enough that every
//! interleaving of it can be tried, which no test of the product can. It says whether the *rules* are right; that the
//! code obeys them is what the simulator is for (`tools/sim`).
//!
//! # What is modelled
//! Stores, sequencers (one a generation), one group's record, the volumes' records, claims, and the coordinator, as one
//! state ([`state`]) with steps ([`model::Action`]) that may happen in any order. A sequencer or a store that is dead is one whose
//! steps do not happen. What each side does has a file: [`store`], [`metadata`], [`sequencer`], [`read`], [`resync`], [`rot`].
//!
//! * Writes lie on a link until they are delivered, in the order of versions. A store accepts them; what it has
//!   accepted becomes durable, in order, by a step of its own; then it is answered. A start loses what is not durable.
//! * Time is abstract: a store's leases run out by a step of their own, which ends them for the sequencer too, and a
//!   takeover's fence waits for it. What becomes of that where each side has a clock of its own is in [`leases`].
//! * Other messages take no time of their own, but where [`config::Size::travel`] is set. That loses nothing: what a
//!   store does with them is ordered among the steps at that store, and a sequencer that acts on an answer late is a
//!   sequencer that stands still.
//! * What may be written is a sector or both of a block; contents are the numbers of writes, so that a mixed-up block
//!   shows.
//!
//! What is about other things than groups has small models of its own: [`space`] (R7), [`forwarding`] (R9),
//! [`leases`] (R4 in time), [`handover`] and [`shards`] (the cores of a gateway), [`records`] (compare-and-set), [`silence`] (whom
//! R12 evicts). Snapshots and clones have three: [`cut`] (R11, S1 to S4, S7), [`states`] (S5, S6, S9) and [`mod@clone`] (S8, S9, S13).
//! Moves of volumes between pools have one: [`moving`] (M1 to M6 of decision 080); so have mirrors in another
//! cluster: [`mirror`] (T1 to T14 of decision 081).
//! Where rules speak of time, they use [`zone`]; what must happen some time is judged by [`graph`].
//!
//! # What must hold
//! [`model::KEPT`], [`model::IN_SYNC_IS_WHOLE`], [`model::AGREE`], [`model::CLIENTS`].
//!
//! # Rules switched off
//! Each rule is a switch ([`config::Rule`]). The tests show for each what the checker finds without it, or that it finds nothing.
#![deny(unsafe_code)]

pub mod clone;
pub mod config;
pub mod cut;
pub mod explore;
pub mod forwarding;
pub mod graph;
pub mod handover;
pub mod history;
pub mod leases;
pub mod metadata;
pub mod mirror;
pub mod model;
pub mod moving;
pub mod pack;
pub mod read;
pub mod records;
pub mod resync;
pub mod rot;
pub mod sequencer;
pub mod shards;
pub mod silence;
pub mod sizes;
pub mod space;
pub mod state;
pub mod states;
pub mod store;
pub mod zone;
