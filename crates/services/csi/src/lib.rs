//! The driver of the Container Storage Interface (CSI 1.13): volumes for Kubernetes, on the REST API (decision 086).
//!
//! * [`wire`]: the messages; `grpc`: what tonic wants methods to look like; [`serve`]: the socket, and which method does what.
//! * [`identity`]: who the driver is, and what it can.
//! * [`controller`]: volumes, snapshots and who has them, by [`api`].
//! * [`node`]: disks, file systems and mounts of one host, by what it is asked ([`node::Machine`]).
//! * [`topology`]: where nodes stand, and pools lie.
//!
//! # What holds
//! * The driver keeps nothing: what it knows lies in the cluster, in labels, lists of hosts, and names that follow from what was asked for ([`id`]).
//! * Each call looks, and does the first thing that is missing: cut anywhere and sent again, to whichever controller, it comes to the same end.
//! * Nothing is touched that has not the driver's label.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod api;
pub mod busy;
pub mod capability;
pub mod controller;
#[cfg(test)]
mod fake;
mod grpc;
pub mod id;
pub mod identity;
pub mod labels;
pub mod node;
pub mod parameters;
pub mod protocol;
pub mod serve;
pub mod topology;
pub mod wire;

/// Who the driver is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Its name, as StorageClasses say it (`provisioner`); two Kubernetes that share a cluster and are to see each their own volumes have drivers of
    /// two names.
    pub name: String,
}

/// What it is called where nothing is said.
pub const USUAL_NAME: &str = "csi.amita.io";

impl Driver {
    /// Of this name.
    ///
    /// # Errors
    /// In words: it cannot be one (CSI 1.13, `GetPluginInfoResponse`).
    pub fn new(name: &str) -> Result<Driver, String> {
        let bytes = name.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        let is_name = bytes.len() <= 63
            && ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(byte));
        match is_name {
            true => Ok(Driver { name: name.to_owned() }),
            false => Err(format!(
                "{name:?} is no name of a driver: 1 to 63 letters, digits, and - or . between them"
            )),
        }
    }
}
