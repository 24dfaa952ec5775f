//! The process and its part in the cluster. The names without `amita_` are those that every program has in Prometheus.

use super::Metric;
use super::MetricKind::Gauge;
use amita_types::map::METADATA_VERSION;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "process_start_time_seconds",
        help: "When the process began to serve, in seconds since 1970.",
        kind: Gauge,
        labels: &[],
        read: |view, out| out.value(&[], view.report.process.started_at),
    },
    Metric {
        name: "process_open_fds",
        help: "Open file descriptors.",
        kind: Gauge,
        labels: &[],
        read: |view, out| {
            if let Some(open) = view.report.process.open_files {
                out.value(&[], open);
            }
        },
    },
    Metric {
        name: "process_max_fds",
        help: "The most file descriptors that may be open.",
        kind: Gauge,
        labels: &[],
        read: |view, out| {
            if let Some(most) = view.report.process.max_files {
                out.value(&[], most);
            }
        },
    },
    Metric {
        name: "process_resident_memory_bytes",
        help: "Memory of the process that is in use.",
        kind: Gauge,
        labels: &[],
        read: |view, out| {
            if let Some(bytes) = view.report.process.resident_bytes {
                out.value(&[], bytes);
            }
        },
    },
    Metric {
        name: "amita_node_time_seconds",
        help: "The node's clock when it was asked, in seconds since 1970.",
        kind: Gauge,
        labels: &[],
        read: |view, out| out.value(&[], view.report.process.now),
    },
    Metric {
        name: "amita_known_version",
        help: "The newest version of the metadata that this program knows.",
        kind: Gauge,
        labels: &[],
        read: |_, out| out.value(&[], u64::from(METADATA_VERSION)),
    },
    Metric {
        name: "amita_coordinator",
        help: "1 where the node is the cluster's coordinator, as far as it knows.",
        kind: Gauge,
        labels: &[],
        read: |view, out| out.value(&[], view.report.leads),
    },
    Metric {
        name: "amita_metadata_silent_seconds",
        help: "For how long the metadata has not answered when the node's lease was to be renewed; a few seconds at most while it does.",
        kind: Gauge,
        labels: &[],
        read: |view, out| out.value(&[], view.report.metadata_silent.as_secs_f64()),
    },
    Metric {
        name: "amita_metadata_older",
        help: "1 where the node has found itself that the metadata is older than what it, or one of its stores, has seen.",
        kind: Gauge,
        labels: &[],
        read: |view, out| out.value(&[], view.report.metadata_older),
    },
    Metric {
        name: "amita_certificate_begins_timestamp_seconds",
        help: "From when on the node's certificate is valid, in seconds since 1970; nothing where it has none.",
        kind: Gauge,
        labels: &[],
        read: |view, out| {
            if let Some(certificate) = &view.report.certificate {
                out.value(&[], certificate.begins);
            }
        },
    },
    Metric {
        name: "amita_certificate_expires_timestamp_seconds",
        help: "When the node's certificate ends, in seconds since 1970; nothing where it has none.",
        kind: Gauge,
        labels: &[],
        read: |view, out| {
            if let Some(certificate) = &view.report.certificate {
                out.value(&[], certificate.expires);
            }
        },
    },
    Metric {
        name: "amita_authority_expires_timestamp_seconds",
        help: "When the last of the authorities that the node trusts ends, in seconds since 1970; nothing where it trusts none.",
        kind: Gauge,
        labels: &[],
        read: |view, out| {
            if let Some(at) = view
                .report
                .certificate
                .as_ref()
                .and_then(|found| found.authority_expires)
            {
                out.value(&[], at);
            }
        },
    },
];
