//! The messages of CSI 1.13.0 (`csi.v1`) and of CSI-Addons, as far as they are served.
//!
//! Those of CSI are generated from the description of `github.com/container-storage-interface/spec` 1.13.0 (Apache-2.0): its names, numbers and
//! types, once, and checked in: generating needs `protoc` on the machine that builds. A message within another has both names
//! (`VolumeCapability.MountVolume` is `VolumeCapabilityMountVolume`).
//!
//! Requests have secrets in them: none is ever logged whole.
#![allow(missing_docs)]

pub mod addons;
pub mod common;
pub mod controller;
pub mod group;
pub mod identity;
pub mod node;
pub mod snapshot_metadata;

macro_rules! messages {
    ($($name:ident { $($(#[$field:meta])* $key:ident : $type:ty),* $(,)? })*) => {$(
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $name { $($(#[$field])* pub $key: $type),* }
    )*};
}
use messages;

#[cfg(test)]
mod tests;
