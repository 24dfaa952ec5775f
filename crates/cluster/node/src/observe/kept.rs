//! The traces that the cores keep, asked for one after the other: for whoever takes each of them somewhere, once.

use crate::trace::Trace;
use amita_reactor::Time;
use amita_types::{ClusterId, NodeId, StoreId, VolumeId};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::SystemTime;

/// A question to a core: answered with one [`KeptTraces`].
#[derive(Clone, Debug)]
pub struct KeptQuestion {
    /// Only those whose number at this core is above.
    pub after: u64,
    /// Where the answer goes.
    pub reply: Sender<Box<KeptTraces>>,
}

/// What a core has kept since.
#[derive(Clone, Debug)]
pub struct KeptTraces {
    pub core: usize,
    /// When it answered, on the process's clock.
    pub now: Time,
    /// The number of the last trace that it has kept.
    pub last: u64,
    /// Each once, in no order. Where these are fewer than the numbers between question and `last`, the others were pushed out.
    pub traces: Vec<Trace>,
    /// The names of their volumes, of those that are still open here.
    pub volumes: Vec<(VolumeId, String)>,
    /// The nodes of the stores in them, by name, as far as the metadata has told.
    pub nodes: Vec<(StoreId, String)>,
}

/// Asks every core for what it has kept after these numbers (of a core that has none here: for all), and tells with each answer when it
/// came. A core that does not answer in two seconds is not among them.
pub type CollectKept = Arc<dyn Fn(&[u64]) -> Vec<(SystemTime, KeptTraces)> + Send + Sync>;

/// Whoever has it can take the traces of a node.
#[derive(Clone)]
pub struct TraceSource {
    pub cluster: ClusterId,
    pub node: NodeId,
    pub name: String,
    pub collect: CollectKept,
    /// Told by [`metrics`](super::metrics).
    pub counters: Arc<ExportCounters>,
}

impl fmt::Debug for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSource")
            .field("node", &self.name)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// What has become of the traces that go to a collector of OpenTelemetry, and of the requests that they go by.
#[derive(Debug, Default)]
pub struct ExportCounters {
    traces: [AtomicU64; Fate::ALL.len()],
    requests: [AtomicU64; Exchange::ALL.len()],
    rejected_spans: AtomicU64,
    waiting: AtomicU64,
}

/// What became of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The collector has taken it.
    Accepted,
    /// Newer ones had pushed it out of its core before it was asked for.
    Overwritten,
    /// Too many waited to be sent.
    Full,
    /// The collector will not have it.
    Refused,
    /// It could not be delivered in time.
    Late,
}

impl Fate {
    /// All of them.
    pub const ALL: [Fate; 5] = [Fate::Accepted, Fate::Overwritten, Fate::Full, Fate::Refused, Fate::Late];

    /// Its name in the metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fate::Accepted => "accepted",
            Fate::Overwritten => "overwritten",
            Fate::Full => "full",
            Fate::Refused => "refused",
            Fate::Late => "late",
        }
    }
}

/// How a request to the collector ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// It was taken.
    Accepted,
    /// The collector wants it later.
    Deferred,
    /// The collector does not want it.
    Refused,
    /// There was no answer.
    Failed,
}

impl Exchange {
    /// All of them.
    pub const ALL: [Exchange; 4] = [
        Exchange::Accepted,
        Exchange::Deferred,
        Exchange::Refused,
        Exchange::Failed,
    ];

    /// Its name in the metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Exchange::Accepted => "accepted",
            Exchange::Deferred => "deferred",
            Exchange::Refused => "refused",
            Exchange::Failed => "failed",
        }
    }
}

impl ExportCounters {
    /// So many traces ended so.
    pub fn count(&self, fate: Fate, traces: u64) {
        self.traces[fate as usize].fetch_add(traces, Ordering::Relaxed);
    }

    /// A request ended so.
    pub fn count_request(&self, exchange: Exchange) {
        self.requests[exchange as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The collector said that it has not taken so many spans of what it took.
    pub fn count_rejected(&self, spans: u64) {
        self.rejected_spans.fetch_add(spans, Ordering::Relaxed);
    }

    /// So many traces wait to be sent.
    pub fn set_waiting(&self, traces: u64) {
        self.waiting.store(traces, Ordering::Relaxed);
    }

    /// A copy.
    #[must_use]
    pub fn report(&self) -> ExportReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ExportReport {
            traces: Fate::ALL.map(|fate| read(&self.traces[fate as usize])),
            requests: Exchange::ALL.map(|exchange| read(&self.requests[exchange as usize])),
            rejected_spans: read(&self.rejected_spans),
            waiting: read(&self.waiting),
        }
    }
}

/// [`ExportCounters`] at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    traces: [u64; Fate::ALL.len()],
    requests: [u64; Exchange::ALL.len()],
    /// Spans that the collector did not take of what it took.
    pub rejected_spans: u64,
    /// Traces that wait to be sent.
    pub waiting: u64,
}

impl ExportReport {
    /// How many traces ended so.
    #[must_use]
    pub fn traces(&self, fate: Fate) -> u64 {
        self.traces[fate as usize]
    }

    /// How many requests ended so.
    #[must_use]
    pub fn requests(&self, exchange: Exchange) -> u64 {
        self.requests[exchange as usize]
    }
}
