//! What a scenario knows of the target that it is tried against.

use amita_terminal::error::Result;
use std::net::SocketAddr;

/// A subsystem with namespace 1, or a target with LUN 0, which several gateways serve, and what can happen to it.
pub trait Target {
    /// Its NQN or its IQN.
    fn nqn(&self) -> &str;

    /// Where the gateways listen, as the guest dials them.
    fn portals(&self) -> Vec<SocketAddr>;

    /// Makes its disk larger.
    fn grow(&mut self, bytes: u64) -> Result<()>;

    /// Takes a gateway away, without a word to its hosts.
    fn kill(&mut self, gateway: usize) -> Result<()>;

    /// Brings it back.
    fn revive(&mut self, gateway: usize) -> Result<()>;

    /// Moves its disk to a gateway, as an operator would: its path becomes the optimized one.
    fn relocate(&mut self, gateway: usize) -> Result<()>;
}
