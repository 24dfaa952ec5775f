//! The kernel's hosts of NVMe/TCP and iSCSI meet gateways: a stock Debian kernel under emulation (see `docs/testing.md`).
//!
//! What a host does is written once, in `scenarios`, for any target; a target is the kernel's own in the guest
//! (`nvmet`) or a cluster of real processes (`cluster`). Booting costs more than most scenarios, so a test boots once and
//! goes through many of them. Each prints what it saw; one that fails does not keep the next ones from being tried.

mod cluster;
mod csi;
mod gateways;
mod given;
mod host;
mod initiators;
mod kernel_target;
mod lio;
mod nvmet;
mod sata;
mod scenarios;
mod steps;
mod target;
