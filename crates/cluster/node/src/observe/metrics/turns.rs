//! In which order stores are given what is asked of them, where something was said of a volume's reservation, weight or latency target.

use super::Metric;
use super::MetricKind::{Counter, Gauge};
use super::NS;
use super::{Samples, View};
use crate::stores::turns::TurnCounts;
use amita_qos::Class;

/// One value of each store that has an order.
fn each(view: &View<'_>, out: &mut Samples<'_>, of: impl Fn(&TurnCounts) -> u64) {
    for (id, store) in &view.stores {
        if let Some(turns) = &store.turns {
            out.value(&[id], of(turns));
        }
    }
}

/// One value of each class of each such store.
fn each_class(view: &View<'_>, out: &mut Samples<'_>, of: impl Fn(&TurnCounts, usize) -> f64) {
    for (id, store) in &view.stores {
        let Some(turns) = &store.turns else { continue };
        for class in Class::ALL {
            out.value(&[id, class.name()], of(turns, class as usize));
        }
    }
}

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "amita_store_turns_waiting",
        help: "Requests that wait for their turn at the store; only while something is said of a volume's reservation, weight or latency target.",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| each(view, out, |turns| turns.waiting as u64),
    },
    Metric {
        name: "amita_store_turns_depth",
        help: "Requests that the store may have under way at once: fewer while latency targets are missed.",
        kind: Gauge,
        labels: &["store"],
        read: |view, out| each(view, out, |turns| turns.depth.1.into()),
    },
    Metric {
        name: "amita_store_turns_passed_total",
        help: "Requests that the store was given, by what they are for.",
        kind: Counter,
        labels: &["store", "class"],
        read: |view, out| each_class(view, out, |turns, class| turns.passed[class] as f64),
    },
    Metric {
        name: "amita_store_turns_held_total",
        help: "Of those, requests that have waited for their turn.",
        kind: Counter,
        labels: &["store", "class"],
        read: |view, out| each_class(view, out, |turns, class| turns.held[class] as f64),
    },
    Metric {
        name: "amita_store_turns_held_seconds_total",
        help: "For how long they have waited, together.",
        kind: Counter,
        labels: &["store", "class"],
        read: |view, out| each_class(view, out, |turns, class| turns.held_ns[class] as f64 / NS),
    },
    Metric {
        name: "amita_store_turns_pulled_total",
        help: "Requests that went before their turn: because something of their volume that does not wait was behind them, or because they had waited for 40 ms.",
        kind: Counter,
        labels: &["store"],
        read: |view, out| each(view, out, |turns| turns.tally.pulled),
    },
];
