//! Hosts that other gateways serve as well, and what they have asked for: dropped when it may be too late for it (R9).

use super::context::Context;
use super::forward::Forwarding;
use crate::faults::Fault;
use crate::forwarder::Forwarder;
use crate::fronts::Fronts;
use crate::mail::NodeMessage;
use amita_reactor::driver::{Driver, Time};

/// The beginning of a pass: has this core not been running? Then its hosts may have gone to another gateway long ago,
/// and what they had sent it must not be carried out now (R9).
pub(super) fn check_pulse(cx: &mut Context, fronts: &mut Fronts, forwarding: &mut Forwarding, driver: &mut dyn Driver) {
    let now = driver.now();
    let due = cx.clock.pulse().filter(|_| !cx.config.faults.has(Fault::NoPulse));
    cx.clock.check_pulse(now, due);
    if due.is_none_or(|at| now <= at.plus(cx.config.stale_after)) {
        return;
    }
    let dropped = drop_all(cx, fronts, &mut forwarding.forwarder, driver);
    for node in forwarding.forwarder.asked() {
        // What was forwarded may not have left yet.
        if let Some((link, holder)) = cx.peers.link_to(node)
            && holder == cx.config.core
        {
            cx.peers.fabric.close(driver, link);
        }
    }
    forwarding.forwarder.forget(cx.config.core as u16, None);
    forwarding.gate.forget_asks(now);
    let links = forwarding.receiving.take_links();
    for link in &links {
        cx.peers.fabric.close(driver, *link);
    }
    let text = format!(
        "core {} did not run for {} ms: {dropped} hosts' connections and {} gateways' links were dropped, so that \
         nothing old is carried out; hosts with another path go on by that",
        cx.config.core,
        now.since(cx.clock.pulse().unwrap_or(now)).as_millis(),
        links.len(),
    );
    cx.control.warn(text);
    cx.clock.stir();
}

/// The node's lease has lapsed, or the machine stood still: on every core hosts go before anything else is forwarded.
pub(super) fn drop_everywhere(
    cx: &mut Context,
    fronts: &mut Fronts,
    forwarding: &mut Forwarding,
    driver: &mut dyn Driver,
) {
    if !forwarding.forwarder.go_on() {
        return;
    }
    let dropped = drop_all(cx, fronts, &mut forwarding.forwarder, driver);
    let ours = cx.config.core;
    cx.tell_others(|| NodeMessage::DropHosts);
    forwarding.settle_all(cx, driver.now());
    let text = format!(
        "core {ours}: this node was not known as living, or stood still: {dropped} hosts' connections were dropped on this core, and \
         those of the others, so that nothing old is carried out; hosts with another path go on by that"
    );
    cx.control.warn(text);
}

/// A host of this core has gone, and what it asked for goes with it, wherever in the node it waits (R9).
pub(super) fn forget(cx: &mut Context, fronts: &mut Fronts, forwarder: &mut Forwarder) {
    let gone = fronts.take_gone();
    if gone.is_empty() || cx.config.faults.has(Fault::KeepForGoneHosts) {
        return;
    }
    let ours = cx.config.core as u16;
    for front in gone {
        forwarder.forget(ours, Some(front));
        cx.tell_others(|| NodeMessage::HostGone { core: ours, front });
    }
}

/// The end of a pass: when is the next one to be, at the latest?
pub(super) fn set_pulse(cx: &mut Context, fronts: &Fronts, forwarding: &mut Forwarding, now: Time) {
    if cx.clock.take_late() {
        forwarding.settle_all(cx, now);
    }
    let needed = fronts.has_hosts() || forwarding.receiving.has_links();
    cx.clock.set_pulse(now, needed);
}

/// Ends the connections of this core's hosts, and all that was read from them; how many.
pub(super) fn drop_all(
    cx: &mut Context,
    fronts: &mut Fronts,
    forwarder: &mut Forwarder,
    driver: &mut dyn Driver,
) -> usize {
    let dropped = fronts.drop_hosts(driver);
    forget(cx, fronts, forwarder);
    dropped
}
