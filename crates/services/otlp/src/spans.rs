//! The spans of an I/O.
//!
//! ```text
//! write                        SERVER    from the last byte that came in to the answer
//!   parse, hop, sequence, send INTERNAL  the stages at the gateway, one after the other
//!   stores                     INTERNAL
//!     request                  CLIENT    to each store: from here and back (INTERNAL, where the store is in this process)
//!       store                  SERVER    what the store did with it (likewise)
//!         issue                INTERNAL
//!         data, log            INTERNAL  side by side
//!         flush, answer        INTERNAL
//!   order, acknowledge         INTERNAL
//! ```
//! A stage that took no time has no span: a slow I/O that was not traced has few. A store tells durations and no moments, so that no clocks
//! need to agree; its span lies in the middle of the request's, as if the way back took as long as the way there.
//!
//! Attributes are named by OpenTelemetry's semantic conventions where those have a name (`error.type`, `disk.io.direction`; of the
//! resource `service.*`), and begin with `amita.` else.

use crate::proto::{
    HAS_IS_REMOTE, IS_REMOTE, InstrumentationScope, KeyValue, Resource, ResourceSpans, SAMPLED, ScopeSpans, Span,
    SpanKind, Status, StatusCode,
};
use amita_node::trace::{Leg, Stage, Trace};
use amita_reactor::Time;
use amita_types::io::{IoError, Op};
use amita_types::trace::StoreTrace;
use amita_types::{ClusterId, NodeId, StoreId};
use aws_lc_rs::digest::{Context, SHA256};

/// The version of the semantic conventions that names are taken from.
pub const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";
/// What makes the spans, by name.
pub const SCOPE: &str = "amita.io";

/// Whose traces they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node's number.
    pub node: NodeId,
    /// The node's name.
    pub name: String,
    /// The program's version.
    pub version: &'static str,
    /// Made by chance at the start of the process: numbers of traces begin anew with it.
    pub start: [u8; 16],
}

/// A trace on its way to the collector.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The core that kept it.
    pub core: usize,
    /// What is known of it.
    pub trace: Trace,
    /// Its volume's name, if that was open here when this was asked.
    pub volume: Option<String>,
    /// The nodes of the stores in it, as far as they are known.
    pub nodes: Vec<(StoreId, String)>,
    /// The zero of its moments, in nanoseconds since 1970.
    pub zero_unix_ns: u64,
}

impl Source {
    /// The node, as OpenTelemetry knows what tells of itself.
    #[must_use]
    pub fn resource(&self) -> Resource {
        Resource {
            attributes: vec![
                KeyValue::text("service.name", "amita"),
                KeyValue::text("service.version", self.version),
                KeyValue::text("service.instance.id", format!("{}/{}", self.cluster, self.name)),
                KeyValue::text("amita.cluster.id", self.cluster),
                KeyValue::text("amita.node.name", &self.name),
                KeyValue::number("amita.node.id", self.node.0.into()),
            ],
        }
    }

    /// These spans, as a request has them.
    #[must_use]
    pub fn wrap(&self, spans: Vec<Span>) -> ResourceSpans {
        ResourceSpans {
            resource: Some(self.resource()),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: SCOPE.to_owned(),
                    version: self.version.to_owned(),
                }),
                spans,
                schema_url: SCHEMA.to_owned(),
            }],
            schema_url: SCHEMA.to_owned(),
        }
    }

    /// The id of a trace, 16 bytes: the same whenever it is asked for, and another one for each trace of each process.
    #[must_use]
    pub fn trace_id(&self, core: usize, number: u64) -> Vec<u8> {
        let mut hash = Context::new(&SHA256);
        hash.update(&self.cluster.0.to_le_bytes());
        hash.update(&self.node.0.to_le_bytes());
        hash.update(&self.start);
        hash.update(&(core as u64).to_le_bytes());
        hash.update(&number.to_le_bytes());
        id(hash, 16)
    }

    /// The spans of a trace, the root first.
    #[must_use]
    pub fn spans(&self, kept: &Kept) -> Vec<Span> {
        let trace_id = self.trace_id(kept.core, kept.trace.number);
        let maker = Maker {
            source: self,
            kept,
            trace_id,
        };
        maker.make()
    }
}

/// So many bytes of a hash, as an id that is valid: not all of it is 0.
fn id(hash: Context, length: usize) -> Vec<u8> {
    let mut id = hash.finish().as_ref()[..length].to_vec();
    if id.iter().all(|byte| *byte == 0) {
        id[length - 1] = 1;
    }
    id
}

/// Where a span lies in its trace: ids are made of it.
fn span_id(trace_id: &[u8], path: &str) -> Vec<u8> {
    let mut hash = Context::new(&SHA256);
    hash.update(trace_id);
    hash.update(path.as_bytes());
    id(hash, 8)
}

/// What an I/O does.
#[must_use]
pub fn operation(op: &Op) -> &'static str {
    match op {
        Op::Read { .. } => "read",
        Op::Write { .. } => "write",
        Op::Clear { .. } => "clear",
        Op::CompareAndWrite { .. } => "compare-and-write",
        Op::Allocation { .. } => "allocation",
        Op::Differ { .. } => "differ",
        Op::ChangedChunks { .. } => "changed-chunks",
    }
}

/// An error's name: of few kinds, as `error.type` wants it.
#[must_use]
pub fn error_type(error: IoError) -> String {
    let mut name = String::new();
    for letter in format!("{error:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The phases of a request at its store: name, and from and to in nanoseconds since the store has received it. Those that it has not are
/// left out.
fn phases(told: &StoreTrace) -> impl Iterator<Item = (&'static str, u32, u32)> {
    let written = told.data_ns.max(told.log_ns);
    let durable = told.durable_ns.max(written);
    let all = [
        ("issue", 0, if durable > 0 { told.issued_ns } else { 0 }),
        ("data", told.issued_ns, told.data_ns),
        ("log", told.issued_ns, told.log_ns),
        ("flush", written, told.durable_ns),
        ("answer", durable.max(told.issued_ns), told.answered_ns),
    ];
    all.into_iter().filter(|(_, from, to)| to > from)
}

/// What the spans of one trace have in common.
struct Maker<'a> {
    source: &'a Source,
    kept: &'a Kept,
    trace_id: Vec<u8>,
}

impl Maker<'_> {
    fn make(&self) -> Vec<Span> {
        let trace = &self.kept.trace;
        let mut spans = vec![self.root()];
        let mut from = trace.arrived.0;
        let mut requests_in = "";
        for (stage, took) in trace.stages() {
            let to = from + u64::try_from(took.as_nanos()).unwrap_or(u64::MAX - from);
            if to > from {
                spans.push(self.span(stage.name(), "", stage.name(), SpanKind::Internal, from, to));
                if stage == Stage::Stores {
                    requests_in = stage.name();
                }
            }
            from = to;
        }
        for leg in &trace.legs {
            self.leg(leg, requests_in, &mut spans);
        }
        spans
    }

    /// A span of this trace. `path` and `parent` say where it lies; the root's path is empty.
    fn span(&self, path: &str, parent: &str, name: &str, kind: SpanKind, from: u64, to: u64) -> Span {
        let wall = |at: u64| self.kept.zero_unix_ns.saturating_add(at);
        let parent_span_id = if path.is_empty() {
            Vec::new()
        } else {
            span_id(&self.trace_id, parent)
        };
        let is_remote = if kind == SpanKind::Server && !path.is_empty() {
            IS_REMOTE
        } else {
            0
        };
        Span {
            trace_id: self.trace_id.clone(),
            span_id: span_id(&self.trace_id, path),
            parent_span_id,
            flags: SAMPLED | HAS_IS_REMOTE | is_remote,
            name: name.to_owned(),
            kind: kind.into(),
            start_time_unix_nano: wall(from),
            end_time_unix_nano: wall(to.max(from)),
            attributes: Vec::new(),
            status: None,
        }
    }

    fn root(&self) -> Span {
        let (kept, trace) = (self.kept, &self.kept.trace);
        let name = operation(&trace.op);
        let (from, to) = (trace.arrived.0, trace.acknowledged.0);
        let mut root = self.span("", "", name, SpanKind::Server, from, to);
        let outcome = trace.error.map_or_else(|| "ok".to_owned(), error_type);
        let mut attributes = vec![
            KeyValue::text("amita.volume.id", trace.volume),
            KeyValue::text("amita.operation", name),
            KeyValue::number("amita.io.offset", trace.op.offset()),
            KeyValue::number("amita.io.size", trace.op.length()),
            KeyValue::text("amita.outcome", &outcome),
            KeyValue::flag("amita.slow", trace.is_slow),
            KeyValue::flag("amita.sampled", trace.id.is_some()),
            KeyValue::number("amita.core", kept.core as u64),
        ];
        if let Some(name) = &kept.volume {
            attributes.push(KeyValue::text("amita.volume.name", name));
        }
        if trace.id.is_some() {
            attributes.push(KeyValue::number("amita.trace.id", trace.id.0.into()));
        }
        let direction = match trace.op {
            Op::Read { .. } => Some("read"),
            Op::Write { .. } | Op::CompareAndWrite { .. } => Some("write"),
            _ => None,
        };
        attributes.extend(direction.map(|direction| KeyValue::text("disk.io.direction", direction)));
        for (what, store) in [("last", trace.last), ("missed", trace.missed)] {
            let Some(store) = store else { continue };
            attributes.push(KeyValue::text(&format!("amita.{what}_store.id"), store));
            if let Some(node) = self.node_of(store) {
                attributes.push(KeyValue::text(&format!("amita.{what}_store.node"), node));
            }
        }
        if let Some(error) = trace.error {
            attributes.push(KeyValue::text("error.type", &outcome));
            root.status = Some(failed(error.to_string()));
        }
        root.attributes = attributes;
        root
    }

    /// A request to a store, and what the store did.
    fn leg(&self, leg: &Leg, parent: &str, spans: &mut Vec<Span>) {
        let trace = &self.kept.trace;
        let node = self.node_of(leg.store);
        let is_here = node == Some(self.source.name.as_str());
        let kinds = match is_here {
            true => (SpanKind::Internal, SpanKind::Internal),
            false => (SpanKind::Client, SpanKind::Server),
        };
        let has_answered = leg.answered != Time(0);
        let from = if leg.left == Time(0) { leg.sent.0 } else { leg.left.0 };
        let to = if has_answered {
            leg.answered.0
        } else {
            trace.acknowledged.0
        };
        let path = format!("request {}", leg.store);
        let mut request = self.span(&path, parent, "request", kinds.0, from, to);
        request.attributes = self.of_store(leg.store);
        request
            .attributes
            .push(KeyValue::flag("amita.store.answered", has_answered));
        if trace.missed == Some(leg.store) && !has_answered {
            request.attributes.push(KeyValue::text("error.type", "evicted"));
            request.status = Some(failed("the store did not answer, and was evicted".to_owned()));
        }
        let Some(told) = leg.stages.filter(|_| has_answered) else {
            spans.push(request);
            return;
        };
        let way = u64::try_from(leg.way().as_nanos()).unwrap_or(u64::MAX);
        request.attributes.push(KeyValue::number("amita.way_ns", way));
        spans.push(request);
        let to = to.max(from);
        let begin = from + (way / 2).min(to - from);
        let at = |ns: u32| (begin + u64::from(ns)).min(to);
        let own = format!("store {}", leg.store);
        let mut work = self.span(&own, &path, "store", kinds.1, begin, at(told.answered_ns));
        work.attributes = self.of_store(leg.store);
        spans.push(work);
        for (name, start, end) in phases(&told) {
            let path = format!("{name} {}", leg.store);
            spans.push(self.span(&path, &own, name, SpanKind::Internal, at(start), at(end)));
        }
    }

    fn of_store(&self, store: StoreId) -> Vec<KeyValue> {
        let node = self.node_of(store).map(|node| KeyValue::text("amita.store.node", node));
        let id = KeyValue::text("amita.store.id", store);
        std::iter::once(id).chain(node).collect()
    }

    fn node_of(&self, store: StoreId) -> Option<&str> {
        let found = self.kept.nodes.iter().find(|(known, _)| *known == store);
        found.map(|(_, node)| node.as_str())
    }
}

fn failed(message: String) -> Status {
    Status {
        message,
        code: StatusCode::Error.into(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
