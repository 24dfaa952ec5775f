//! What has become of the traces that go to a collector of OpenTelemetry. Where none do, all of it is 0.

use super::Metric;
use super::MetricKind::{Counter, Gauge};
use crate::observe::{Exchange, Fate};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "amita_otlp_traces_total",
        help: "Traces for the collector of --otlp-endpoint by what became of them: accepted, or lost: overwritten (in their core), full (the queue), refused, late.",
        kind: Counter,
        labels: &["outcome"],
        read: |view, out| {
            for fate in Fate::ALL {
                out.value(&[fate.name()], view.report.export.traces(fate));
            }
        },
    },
    Metric {
        name: "amita_otlp_rejected_spans_total",
        help: "Spans that the collector has not taken of requests that it took (partial success).",
        kind: Counter,
        labels: &[],
        read: |view, out| out.value(&[], view.report.export.rejected_spans),
    },
    Metric {
        name: "amita_otlp_requests_total",
        help: "Requests to the collector by how they ended: accepted, deferred (to be sent again), refused, failed (no answer).",
        kind: Counter,
        labels: &["outcome"],
        read: |view, out| {
            for exchange in Exchange::ALL {
                out.value(&[exchange.name()], view.report.export.requests(exchange));
            }
        },
    },
    Metric {
        name: "amita_otlp_waiting_traces",
        help: "Traces that wait for the collector; 4,096 at most.",
        kind: Gauge,
        labels: &[],
        read: |view, out| out.value(&[], view.report.export.waiting),
    },
];
