//! Where the time of single I/Os went: what nodes have traced, and what was slow.

use super::input::Parameters;
use crate::observed::{self, MissingNode, Observed, Own, TraceQuestion, encode};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Traces in an answer, at most.
const MAX_TRACES: usize = 100;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(own))
}

/// An I/O, and where its time went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trace {
    /// Through which node it came.
    #[serde(default)]
    pub node: String,
    /// Its number there; 0: it was not traced, and is kept because it was slow.
    pub id: u32,
    /// How long ago it ended, in nanoseconds.
    pub ago_ns: u64,
    /// Its volume's name.
    pub volume: String,
    /// `read`, `write`, `clear` or `allocation`.
    pub op: String,
    /// Its first byte.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// From the last byte that came in to the answer, in nanoseconds.
    pub total_ns: u64,
    /// One after the other; together the total.
    pub stages: Vec<TraceStage>,
    /// The store whose answer came last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_store: Option<String>,
    /// The store that never answered, and was evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_store: Option<String>,
    /// What each store did, where it was traced.
    pub stores: Vec<TraceLeg>,
}

/// A stage of an I/O.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TraceStage {
    /// Its name.
    pub stage: String,
    /// How long it took, in nanoseconds.
    pub ns: u64,
}

/// An I/O's request to a store. Times are since the I/O came in, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TraceLeg {
    /// The store.
    pub store: String,
    /// When the request left.
    pub sent_ns: u64,
    /// When the answer came; none: it did not count any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_ns: Option<u64>,
    /// On the way there and back.
    pub way_ns: u64,
    /// What the store did; `data` and `log` side by side.
    pub stages: Vec<TraceStage>,
}

#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Those that took longer than they should: every one of them is kept, traced or not.
    #[serde(default)]
    #[param(default = false)]
    slow: bool,
    /// Of this volume only.
    volume: Option<String>,
    /// So many at most, the newest first.
    #[serde(default = "usual_limit")]
    #[param(default = 20, minimum = 1, maximum = 100)]
    limit: usize,
}

fn usual_limit() -> usize {
    20
}

impl Wanted {
    fn question(self) -> Result<TraceQuestion, Problem> {
        if !(1..=MAX_TRACES).contains(&self.limit) {
            let why = format!("a limit is 1 to {MAX_TRACES}, and not {}", self.limit);
            return Err(Problem::new(Code::BadRequest, why));
        }
        Ok(TraceQuestion {
            slow: self.slow,
            volume: self.volume,
            limit: self.limit,
        })
    }
}

/// Traces of all nodes.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct TracesAnswer {
    /// The newest first.
    traces: Vec<Trace>,
    /// Nodes whose traces are not among them.
    missing: Vec<MissingNode>,
}

/// Traces of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
struct TracesPart {
    /// The node's name.
    node: String,
    /// Its cluster.
    cluster: String,
    /// Can it be asked for traces?
    keeps: bool,
    /// The newest first.
    traces: Vec<Trace>,
}

impl Own for TracesPart {
    fn whose(&self) -> (&str, &str) {
        (&self.node, &self.cluster)
    }
    fn keeps(&self) -> bool {
        self.keeps
    }
}

fn of(own: &Observed, question: &TraceQuestion) -> TracesPart {
    TracesPart {
        node: own.node.clone(),
        cluster: own.cluster.clone(),
        keeps: own.traces.is_some(),
        traces: own.traces.as_ref().map(|ask| ask(question)).unwrap_or_default(),
    }
}

/// The last I/Os that were traced, or that were slow, and where their time went.
///
/// One in a thousand is traced through all of its stages. Each node keeps the last ones of each of its cores, in memory.
#[utoipa::path(get, path = "/traces", operation_id = "listTraces", tag = "history", params(Wanted),
    responses((status = 200, body = TracesAnswer),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Json<TracesAnswer>, Problem> {
    let question = wanted.question()?;
    let mut path = format!(
        "{}/traces/part?slow={}&limit={}",
        crate::PREFIX,
        question.slow,
        question.limit
    );
    if let Some(volume) = &question.volume {
        path.push_str(&format!("&volume={}", encode(volume)));
    }
    let peers = observed::peers(&api, asker, None).await?;
    let limit = question.limit;
    let (parts, missing) = observed::all(&api, peers, path, move |own| of(own, &question)).await?;
    let named = parts.into_iter().flat_map(|part| {
        let TracesPart { node, traces, .. } = part;
        traces.into_iter().map(move |trace| Trace {
            node: node.clone(),
            ..trace
        })
    });
    let mut traces: Vec<Trace> = named.collect();
    traces.sort_by_key(|trace| trace.ago_ns);
    traces.truncate(limit);
    Ok(Json(TracesAnswer { traces, missing }))
}

/// The traces of this node alone: by this nodes ask each other.
#[utoipa::path(get, path = "/traces/part", operation_id = "showTracesPart", tag = "history", params(Wanted),
    responses((status = 200, body = TracesPart),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn own(
    State(api): State<Api>,
    asker: Asker,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Json<TracesPart>, Problem> {
    let question = wanted.question()?;
    let own = api.own();
    let found = api.run(asker, move |_| Ok(of(&own, &question)));
    found.await.map(Json)
}
