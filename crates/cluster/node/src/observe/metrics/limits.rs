//! What waits for the limits of volumes at this node's gates, and has waited.

use super::Metric;
use super::MetricKind::{Counter, Gauge};
use super::NS;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "amita_limited_volumes",
        help: "Volumes of the cluster that are limited, as far as this node has heard.",
        kind: Gauge,
        labels: &[],
        read: |view, out| out.value(&[], view.report.limits_known() as u64),
    },
    Metric {
        name: "amita_volume_limit_waiting",
        help: "Operations of hosts of this gateway that wait for a limit of the volume.",
        kind: Gauge,
        labels: &["volume"],
        read: |view, out| {
            for (volume, counts) in view.report.limited() {
                out.value(&[&volume], counts.waiting);
            }
        },
    },
    Metric {
        name: "amita_volume_limit_waiting_bytes",
        help: "Bytes of those operations.",
        kind: Gauge,
        labels: &["volume"],
        read: |view, out| {
            for (volume, counts) in view.report.limited() {
                out.value(&[&volume], counts.waiting_bytes);
            }
        },
    },
    Metric {
        name: "amita_volume_limit_held_total",
        help: "Operations of hosts of this gateway that have waited for a limit of the volume, since it was limited.",
        kind: Counter,
        labels: &["volume"],
        read: |view, out| {
            for (volume, counts) in view.report.limited() {
                out.value(&[&volume], counts.held);
            }
        },
    },
    Metric {
        name: "amita_volume_limit_held_seconds_total",
        help: "For how long they have waited, together.",
        kind: Counter,
        labels: &["volume"],
        read: |view, out| {
            for (volume, counts) in view.report.limited() {
                out.value(&[&volume], counts.held_ns as f64 / NS);
            }
        },
    },
];
