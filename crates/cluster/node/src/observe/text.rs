//! The text format of Prometheus, version 0.0.4: `# HELP` and `# TYPE` once for each metric, then its samples.

use super::metrics::{Metric, MetricKind, View, metrics};
use super::report::NodeReport;
use amita_reactor::histogram::Histogram;
use std::fmt::Write;
use std::time::Duration;

/// Bounds of a histogram's buckets: 4.096 us, doubled so many times (to 17 s). They are borders of the histogram's own buckets, so
/// nothing is estimated.
const BOUNDS: u32 = 23;
const FIRST_BOUND: Duration = Duration::from_nanos(4096);

/// Where a metric puts its samples.
#[derive(Debug)]
pub struct Samples<'a> {
    out: &'a mut String,
    metric: &'static Metric,
}

impl Samples<'_> {
    /// One value, with the values of the metric's labels in their order.
    pub fn value(&mut self, labels: &[&str], value: impl Into<Number>) {
        assert_ne!(self.metric.kind, MetricKind::Histogram, "{}", self.metric.name);
        self.line("", labels, None, value.into());
    }

    /// One histogram of times, in seconds.
    pub fn histogram(&mut self, labels: &[&str], histogram: &Histogram) {
        assert_eq!(self.metric.kind, MetricKind::Histogram, "{}", self.metric.name);
        let count = histogram.count();
        for doubling in 0..BOUNDS {
            let bound = FIRST_BOUND * (1 << doubling);
            let below = count - histogram.above(bound - Duration::from_nanos(1));
            self.line("_bucket", labels, Some(&bound.as_secs_f64().to_string()), below.into());
        }
        self.line("_bucket", labels, Some("+Inf"), count.into());
        self.line("_sum", labels, None, histogram.sum().as_secs_f64().into());
        self.line("_count", labels, None, count.into());
    }

    fn line(&mut self, suffix: &str, values: &[&str], bound: Option<&str>, value: Number) {
        assert_eq!(values.len(), self.metric.labels.len(), "labels of {}", self.metric.name);
        let _ = write!(self.out, "{}{suffix}", self.metric.name);
        let labels = self.metric.labels.iter().copied().zip(values.iter().copied());
        let mut open = false;
        for (label, value) in labels.chain(bound.map(|bound| ("le", bound))) {
            self.out.push(if open { ',' } else { '{' });
            open = true;
            let _ = write!(self.out, "{label}=\"");
            escape(value, self.out);
            self.out.push('"');
        }
        if open {
            self.out.push('}');
        }
        let _ = match value {
            Number::Count(count) => writeln!(self.out, " {count}"),
            Number::Real(real) => writeln!(self.out, " {real}"),
        };
    }
}

/// A sample's value.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// Of something that is counted.
    Count(u64),
    /// Of something that is measured.
    Real(f64),
}

impl From<u64> for Number {
    fn from(count: u64) -> Number {
        Number::Count(count)
    }
}

impl From<usize> for Number {
    fn from(count: usize) -> Number {
        Number::Count(count as u64)
    }
}

impl From<bool> for Number {
    fn from(yes: bool) -> Number {
        Number::Count(yes.into())
    }
}

impl From<f64> for Number {
    fn from(real: f64) -> Number {
        Number::Real(real)
    }
}

fn escape(value: &str, out: &mut String) {
    for letter in value.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// All metrics of a node.
#[must_use]
pub fn render(report: &NodeReport) -> String {
    let view = View::new(report);
    let mut out = String::new();
    for metric in metrics() {
        let _ = writeln!(out, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(out, "# TYPE {} {}", metric.name, metric.kind.name());
        (metric.read)(&view, &mut Samples { out: &mut out, metric });
    }
    out
}

#[cfg(test)]
mod tests;
