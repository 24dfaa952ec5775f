//! The kernel's own target, in the guest itself: two ports of 127.0.0.1 stand for two gateways.

use crate::host::Host;
use crate::target::Target;
use amita_terminal::error::Result;
use std::net::SocketAddr;

const LIBRARY: &str = include_str!("../../../../tests/guest/nvmet.sh");
const PORTS: [u16; 2] = [4420, 4421];

pub struct Nvmet<'a> {
    host: &'a Host,
    nqn: String,
}

impl<'a> Nvmet<'a> {
    pub fn start(host: &'a Host, size_bytes: u64) -> Result<Nvmet<'a>> {
        let target = Nvmet {
            host,
            nqn: "nqn.2024-01.test.nvmet:one".to_owned(),
        };
        let nqn = &target.nqn;
        target.sh(&format!("nvmet_subsystem {nqn} {size_bytes}"))?;
        for port in PORTS {
            target.sh(&format!("nvmet_port {port} && nvmet_link {nqn} {port}"))?;
        }
        // This target's log names the port that was asked, and refers to others.
        target.sh(&format!("nvmet_refer {0} {1}; nvmet_refer {1} {0}", PORTS[0], PORTS[1]))?;
        target.relocate_to(0)?;
        Ok(target)
    }

    fn sh(&self, script: &str) -> Result<String> {
        self.host.sh(&format!("{LIBRARY}\n{script}"))
    }

    fn relocate_to(&self, gateway: usize) -> Result<()> {
        for (index, port) in PORTS.iter().enumerate() {
            let state = if index == gateway { "optimized" } else { "non-optimized" };
            self.sh(&format!("nvmet_ana {port} {state}"))?;
        }
        Ok(())
    }
}

impl Target for Nvmet<'_> {
    fn nqn(&self) -> &str {
        &self.nqn
    }

    fn portals(&self) -> Vec<SocketAddr> {
        PORTS
            .iter()
            .map(|&port| SocketAddr::from(([127, 0, 0, 1], port)))
            .collect()
    }

    fn grow(&mut self, bytes: u64) -> Result<()> {
        self.sh(&format!("nvmet_grow {} {bytes}", self.nqn)).map(drop)
    }

    fn kill(&mut self, gateway: usize) -> Result<()> {
        self.sh(&format!("nvmet_unlink {} {}", self.nqn, PORTS[gateway]))
            .map(drop)
    }

    fn revive(&mut self, gateway: usize) -> Result<()> {
        self.sh(&format!("nvmet_link {} {}", self.nqn, PORTS[gateway]))
            .map(drop)
    }

    fn relocate(&mut self, gateway: usize) -> Result<()> {
        self.relocate_to(gateway)
    }
}
