//! `libamita`: the C interface to [`amita_client`]. What it promises stands in `include/amita.h`, how to use it in
//! `docs/libamita.md`.
//!
//! * [`mod@api`]: the functions of the header, and nothing else: they turn C into Rust and back.
//! * `handles`: what a handle is, and why a closed one is an error and not a crash.
//! * `inline`, `threaded`: where clients and queues live: in the thread that made them, or in tables for all threads.
//! * `port`: one queue: requests, where reads go, completions.
//! * `failure`: errno, and the last error in words.
//!
//! A panic never crosses into C: it is caught at the border, and whoever it happened to is not used again.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[allow(unsafe_code)]
pub mod api;
mod buffers;
mod failure;
mod handles;
mod inline;
#[allow(unsafe_code)]
mod memory;
mod options;
mod port;
mod threaded;
