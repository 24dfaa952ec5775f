//! Keys of hosts: their texts, their making, and how they are sealed where they are kept.
//!
//! A host shows who it is by a secret (DH-HMAC-CHAP) or by a pre-shared key (TLS). The operator hands such a key over as
//! a text in the form that NVM Express defines and `nvme-cli` makes: [`DhchapSecret`], [`TlsKey`]. An iSCSI initiator shows
//! it by a secret that is any text ([`ChapSecret`]). The text is checked
//! where it comes in and is kept in the metadata *sealed*: encrypted and bound to the record and the field that it
//! stands in ([`SealKey`]). Only who has the cluster's sealing key, a file that gateways are given, can read it: a dump
//! of the metadata gives nobody a host's keys, and whoever can write the metadata cannot give one host another's key.
//!
//! This is a crate of its own because both ends need it and neither may depend on the other: the control plane checks
//! and seals, the protocol unseals and proves. (It is not a module of `cluster`, whose promise is to read no file and to
//! draw no random number.)
//!
//! No type in here shows a key in its `Debug`, and all of them wipe it when they are dropped.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod chap;
mod dhchap;
mod hash;
mod interchange;
mod sealed;
mod tls;

pub use chap::{ChapError, ChapSecret, ChapSide, MAX_CHAP_SECRET_BYTES, MIN_CHAP_SECRET_BYTES, PairError, seal_pair};
pub use dhchap::DhchapSecret;
pub use hash::Hash;
pub use interchange::KeyError;
pub use sealed::{SealError, SealKey, is_sealed};
pub use tls::TlsKey;
pub use zeroize::Zeroizing;

/// Fills a buffer with numbers that nobody can foresee, from the system.
///
/// # Panics
/// When the kernel gives none: nothing secret can be made without.
pub fn system_random(bytes: &mut [u8]) {
    use aws_lc_rs::rand::SecureRandom;
    aws_lc_rs::rand::SystemRandom::new()
        .fill(bytes)
        .expect("the kernel gives random numbers");
}

#[cfg(test)]
mod tests;
