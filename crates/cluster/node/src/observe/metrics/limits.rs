//! What waits for limits at this node's gates, and has waited, or passed.

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
    Metric {
        name: "amita_joint_limit_waiting",
        help: "Volumes of the tenant or pool of which hosts of this gateway have something waiting in line for its limits.",
        kind: Gauge,
        labels: &["kind", "name"],
        read: |view, out| {
            for ((kind, name), counts) in view.report.joints() {
                out.value(&[kind, name], counts.waiting);
            }
        },
    },
    Metric {
        name: "amita_joint_limit_operations_total",
        help: "Operations of hosts of this gateway that have passed the limits of the tenant or pool.",
        kind: Counter,
        labels: &["kind", "name", "op"],
        read: |view, out| {
            for ((kind, name), counts) in view.report.joints() {
                out.value(&[kind, name, "read"], counts.operations[0]);
                out.value(&[kind, name, "write"], counts.operations[1]);
            }
        },
    },
    Metric {
        name: "amita_joint_limit_bytes_total",
        help: "Bytes of those operations.",
        kind: Counter,
        labels: &["kind", "name", "op"],
        read: |view, out| {
            for ((kind, name), counts) in view.report.joints() {
                out.value(&[kind, name, "read"], counts.bytes[0]);
                out.value(&[kind, name, "write"], counts.bytes[1]);
            }
        },
    },
];
