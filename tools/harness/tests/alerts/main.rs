//! Each alert of `monitoring/prometheus` that one machine can bring about, seen firing by its real fault: a real Prometheus scrapes a
//! real cluster of the binary that ships, the fault is made, the alert fires, the fault is mended, the alert ends. What was
//! measured stands in `docs/operating/monitoring.md`.
//!
//! The rules are those that ship; only their times are shortened ([`rules`]). All but `listed` takes minutes, and is run by
//! `scripts/soak`; `healthy` is an hour of load without a fault.

#[path = "../../../../crates/amita/tests/chaos/core.rs"]
mod core;
#[path = "../../../../crates/amita/tests/security/relay.rs"]
#[expect(dead_code, reason = "the security tests use the rest")]
mod relay;

mod capacity;
mod certificates;
mod clocks;
mod cores;
mod damage;
mod disks;
mod healthy;
mod listed;
mod metadata;
mod network;
mod nodes;
mod notifier;
mod policies;
mod prometheus;
mod rules;
mod world;
