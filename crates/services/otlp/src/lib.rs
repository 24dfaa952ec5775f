//! The traces that a node keeps, sampled and slow ones, sent to a collector of OpenTelemetry by OTLP over HTTP.
//!
//! One thread ([`exporter`]) asks the cores four times a second for what they have kept since, and puts it into a bounded [`queue`].
//! Another one makes [`spans`] of it, and sends them as [`proto`] says, in the pace of [`delivery`], which is a state machine on a clock
//! that is given. What became of each trace is counted (`amita_node::observe::ExportCounters`), and told by the node's metrics.
//!
//! # What holds
//! * No I/O waits for any of this. A core that is asked copies at most what its rings hold; nothing is taken or locked that it needs.
//! * Each kept trace is put into the queue once, by its number at its core. It is sent again only where it is not known to have arrived,
//!   under the same ids.
//! * What does not arrive is counted, whichever way it was lost: in its core's ring, in the queue, refused, or too late.
//! * A collector that is slow, dead or full costs a bounded queue, and nothing else. The process ends within [`exporter::END_PATIENCE`].
//! * The values of the headers' file are shown nowhere: not in logs, errors or `Debug`, not where the collector repeats them.
//!
//! Normative are the specification of OTLP 1.x (<https://opentelemetry.io/docs/specs/otlp/>) and RFC 9110 for `Retry-After`.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod answer;
pub mod clock;
pub mod delivery;
pub mod endpoint;
pub mod exporter;
pub mod headers;
pub mod proto;
pub mod queue;
pub mod settings;
pub mod spans;
mod tls;
mod transport;

pub use endpoint::Endpoint;
pub use exporter::Exporter;
pub use settings::{BadSetting, Pacing, Settings};

/// What strangers say, in one line. It is cut when nothing secret is in it any more ([`clipped`]): the beginning of a token would not be
/// known for one.
pub(crate) fn readable(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().to_owned()
}

/// A line, if it is not a long one, or its beginning.
pub(crate) fn clipped(line: &str) -> String {
    let most = 300;
    match line.char_indices().nth(most) {
        None => line.to_owned(),
        Some((at, _)) => format!("{}...", &line[..at]),
    }
}
