//! Hosts that other gateways serve as well, and what they have asked for: dropped when it may be too late for it (R9).

use crate::core::Core;
use crate::faults::Fault;
use crate::mail::NodeMessage;
use amita_fabric::Link;
use amita_reactor::driver::{Driver, Time};

impl Core {
    /// The beginning of a pass: has this core not been running? Then its hosts may have gone to another gateway long ago,
    /// and what they had sent it must not be carried out now (R9).
    pub(in crate::core) fn check_pulse(&mut self, driver: &mut dyn Driver) {
        let now = driver.now();
        let due = self.clock.pulse().filter(|_| !self.config.faults.has(Fault::NoPulse));
        self.clock.check_pulse(now, due);
        if due.is_none_or(|at| now <= at.plus(self.config.stale_after)) {
            return;
        }
        let dropped = self.drop_hosts(driver);
        for node in self.forwarder.asked() {
            // What was forwarded may not have left yet.
            if let Some((link, holder)) = self.peers.link_to(node)
                && holder == self.config.core
            {
                self.peers.fabric.close(driver, link);
            }
        }
        self.forwarder.forget(self.config.core as u16, None);
        let links: Vec<Link> = self.receiving.links.drain().collect();
        for link in &links {
            self.peers.fabric.close(driver, *link);
        }
        let text = format!(
            "core {} did not run for {} ms: {dropped} hosts' connections and {} gateways' links were dropped, so that \
             nothing old is carried out; hosts with another path go on by that",
            self.config.core,
            now.since(self.clock.pulse().unwrap_or(now)).as_millis(),
            links.len(),
        );
        self.control.warn(text);
        self.clock.stir();
    }

    /// The node's lease has lapsed, or the machine stood still: on every core hosts go before anything else is forwarded.
    pub(in crate::core) fn drop_everywhere(&mut self, driver: &mut dyn Driver) {
        if !self.forwarder.go_on() {
            return;
        }
        let dropped = self.drop_hosts(driver);
        let ours = self.config.core;
        for core in (0..self.config.cores).filter(|core| *core != ours) {
            self.mail.send(core, NodeMessage::DropHosts);
        }
        self.settle_routes(driver.now());
        let text = format!(
            "core {ours}: this node was not known as living, or stood still: {dropped} hosts' connections were dropped on this core, and \
             those of the others, so that nothing old is carried out; hosts with another path go on by that"
        );
        self.control.warn(text);
    }

    /// A host of this core has gone, and what it asked for goes with it, wherever in the node it waits (R9).
    pub(in crate::core) fn forget_hosts(&mut self) {
        let gone = self.fronts.take_gone();
        if self.config.faults.has(Fault::KeepForGoneHosts) {
            return;
        }
        let ours = self.config.core as u16;
        for front in gone {
            self.forwarder.forget(ours, Some(front));
            for core in (0..self.config.cores).filter(|core| *core != self.config.core) {
                self.mail.send(core, NodeMessage::HostGone { core: ours, front });
            }
        }
    }

    /// The end of a pass: when is the next one to be, at the latest?
    pub(in crate::core) fn set_pulse(&mut self, now: Time) {
        if self.clock.take_late() {
            self.settle_routes(now);
        }
        let needed = self.fronts.has_hosts() || !self.receiving.links.is_empty();
        self.clock.set_pulse(now, needed);
    }

    /// Ends the connections of this core's hosts, and all that was read from them; how many.
    pub(in crate::core) fn drop_hosts(&mut self, driver: &mut dyn Driver) -> usize {
        let dropped = self.fronts.drop_hosts(driver);
        self.forget_hosts();
        dropped
    }
}
