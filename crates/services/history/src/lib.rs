//! What a node remembers of its figures.
//!
//! Every ten seconds somebody hands over what the node has counted since its start ([`Counts`]). What came since the time before becomes a
//! [`Frame`]: of the node, each of its stores and cores, the volumes that were busiest, and the rest of them together. Frames lie in pages
//! of a file of a fixed size ([`Ring`]), each at the place that its time gives it: a page that is torn or damaged is lost, and no other.
//! Six frames make one of a minute, and sixty one of ten minutes, with the average and the maximum of each figure; latencies are
//! histograms, which are added, so that a percentile of a day is one of all its I/Os and no average of percentiles.
//!
//! * `object`, `metric`, `value`: of what, which figure, how much.
//! * `buckets`: histograms.
//! * `frame`: an interval, and how it is written into a page.
//! * `layout`, `ring`: the file.
//! * `recorder`: from counts to frames.
//! * `history`: the two together, for the thread that writes and those that ask.
//! * `question`, `answer`: what is asked, and how the answers of nodes become one.
//! * `forecast`: when a disk is full.
//! * `ask`: another node is asked by its API.
#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod answer;
pub mod ask;
mod buckets;
pub mod forecast;
mod frame;
mod history;
mod layout;
mod metric;
mod object;
mod question;
mod recorder;
mod ring;
mod value;

pub use buckets::{BUCKETS, Buckets, lower_ns, upper_ns};
pub use frame::Frame;
pub use history::{History, Place};
pub use layout::{LEAST_BYTES, Layout, STEPS_S, USUAL_BYTES};
pub use metric::{Asked, Kind, Metric};
pub use object::{Object, Subject};
pub use question::{BadQuestion, MAX_POINTS, Plan};
pub use recorder::{Counts, Totals};
pub use ring::{Opened, Ring, RingError};
pub use value::{Figures, Value};
