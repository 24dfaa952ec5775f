//! The links to other nodes, as the kernel counts them.

use super::Metric;
use super::MetricKind::{Counter, Gauge};

/// Seconds.
fn seconds(us: u32) -> f64 {
    f64::from(us) / 1e6
}

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "amita_link_segments_total",
        help: "TCP segments with data to another node, and those of them that were lost on the way there; of 128 nodes at most, those with bad links first.",
        kind: Counter,
        labels: &["peer", "outcome"],
        read: |view, out| {
            for peer in &view.report.links {
                out.value(&[&peer.name, "sent"], peer.sent);
                out.value(&[&peer.name, "lost"], peer.lost);
            }
        },
    },
    Metric {
        name: "amita_link_round_trip_seconds",
        help: "How long the way to another node and back takes now.",
        kind: Gauge,
        labels: &["peer"],
        read: |view, out| {
            for peer in &view.report.links {
                out.value(&[&peer.name], seconds(peer.round_trip_us));
            }
        },
    },
    Metric {
        name: "amita_link_round_trip_least_seconds",
        help: "The shortest that it has taken.",
        kind: Gauge,
        labels: &["peer"],
        read: |view, out| {
            for peer in &view.report.links {
                out.value(&[&peer.name], seconds(peer.least_us));
            }
        },
    },
    Metric {
        name: "amita_link_bad",
        help: "1 where the node finds its link to another one bad: lossy, late or cut.",
        kind: Gauge,
        labels: &["peer"],
        read: |view, out| {
            for peer in &view.report.links {
                out.value(&[&peer.name], peer.bad.is_some());
            }
        },
    },
    Metric {
        name: "amita_link_network",
        help: "By which of another node's networks it is sent to: 1, or 2 where it has a second one.",
        kind: Gauge,
        labels: &["peer"],
        read: |view, out| {
            for peer in &view.report.links {
                out.value(&[&peer.name], peer.network.index() + 1);
            }
        },
    },
    Metric {
        name: "amita_link_left",
        help: "1 where the node sends by one of another node's two networks because the link by the other one was bad.",
        kind: Gauge,
        labels: &["peer"],
        read: |view, out| {
            for peer in &view.report.links {
                out.value(&[&peer.name], peer.left.is_some());
            }
        },
    },
];
