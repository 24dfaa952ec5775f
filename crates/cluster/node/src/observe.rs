//! What can be seen of a node from outside: metrics, traces, and what `amita top` shows.
//!
//! Everything is counted by the cores, in plain integers of their own. When somebody asks, each core is sent a message
//! ([`crate::control::ToCore::Observe`]) and answers with a copy ([`CoreReport`]); what several cores count of the same thing is
//! added up here. Between two questions nothing of this costs anything.
//!
//! * `report`: the copy.
//! * `metrics`: every metric, defined once: its name, its help, its kind, its labels, and where its values come from.
//! * `text`: the format that Prometheus reads.
//! * `pages`: the same and the traces as JSON, for `amita top` and `amita trace`.
//! * `process`: what the system says of the process.
//! * `kept`: the traces, each once, for who takes them elsewhere, and what he says of it.
//! * `sessions`: the sessions of initiators.
//! * `space`: what volumes and snapshots hold, which is counted when it is asked for.
//! * `http`: the server.

mod http;
mod kept;
mod metrics;
mod pages;
mod process;
mod report;
mod sessions;
mod space;
mod text;

pub use http::{CollectReport, Server, Wanted};
pub use kept::{CollectKept, Exchange, ExportCounters, ExportReport, Fate, KeptQuestion, KeptTraces, TraceSource};
pub use metrics::{Metric, MetricKind, metrics};
pub use pages::{
    CorePage, Latency, LegPage, NodePage, OpPage, StagePage, StorePage, TracePage, TracesPage, VolumePage,
};
pub use process::{CertificateReport, ProcessReport};
pub use report::{CoreReport, NodeReport, Observe, StoreReport, VolumeReport};
pub use sessions::{CollectSessions, CoreSessions, FoundSession, NodeSessions, SessionsQuestion, SessionsWanted};
pub use space::{
    MAX_QUESTION_VOLUMES, SpaceCount, SpaceFigures, SpacePage, SpaceQuestion, SpaceStore, SpaceVolume, StoreQuestions,
};
pub use text::render;
