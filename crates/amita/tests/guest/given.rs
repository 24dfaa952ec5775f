//! A target that somebody else started, for whoever works on one: AMITA_GUEST_TARGET=NQN,ADDRESS[,ADDRESS...]
//!
//! ```text
//! AMITA_GUEST_TARGET=nqn.2026-01.io.amita:memory,10.0.2.2:4420 \
//!     cargo test -p amita --test guest -- --ignored --nocapture given
//! ```

use crate::host::Host;
use crate::scenarios::disk;
use crate::steps::Steps;
use crate::target::Target;
use amita_terminal::error::{Failure, Result};
use std::net::SocketAddr;

const VARIABLE: &str = "AMITA_GUEST_TARGET";

struct Given {
    nqn: String,
    portals: Vec<SocketAddr>,
}

impl Target for Given {
    fn nqn(&self) -> &str {
        &self.nqn
    }

    fn portals(&self) -> Vec<SocketAddr> {
        self.portals.clone()
    }

    fn grow(&mut self, _: u64) -> Result<()> {
        Err(Failure::new("a given target is not changed"))
    }

    fn kill(&mut self, _: usize) -> Result<()> {
        Err(Failure::new("a given target is not killed"))
    }

    fn revive(&mut self, _: usize) -> Result<()> {
        Err(Failure::new("a given target is not killed"))
    }

    fn relocate(&mut self, _: usize) -> Result<()> {
        Err(Failure::new("a given target is not changed"))
    }
}

#[test]
#[ignore = "it needs a target: AMITA_GUEST_TARGET=NQN,ADDRESS"]
fn given() {
    let text = std::env::var(VARIABLE).unwrap_or_else(|_| panic!("{VARIABLE} is not set"));
    let mut words = text.split(',').map(str::to_owned);
    let target = Given {
        nqn: words.next().unwrap_or_default(),
        portals: words
            .map(|word| word.parse().expect("an address with a port"))
            .collect(),
    };
    let host = Host::boot("alpha", 4);
    let mut steps = Steps::of("the given target", &[&host]);
    steps.step("discover", || disk::discover(&host, &target));
    steps.step("identify", || disk::identify(&host, &target));
    steps.step("eight queues", || disk::eight_queues(&host, &target, ""));
    steps.step("digests", || disk::digests(&host, &target));
    steps.step("ext4", || disk::file_system(&host, &target, "ext4"));
    steps.step("xfs", || disk::file_system(&host, &target, "xfs"));
    steps.step("discard", || disk::discard(&host, &target));
    steps.step("disconnect under load", || disk::disconnect_under_load(&host, &target));
    steps.step("20 reconnects", || disk::reconnects(&host, &target));
    steps.finish();
}
