//! What nodes count of themselves: two looks make rates (`amita top`).
//!
//! An answer has the counters of so many nodes at most, in the order of their names, and so many answers are gathered at one time: who looks
//! again and again has each look cost the same, however large the cluster is.

use super::input::Parameters;
use crate::observed::{self, MissingNode, Observed, Own};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Nodes in an answer, at most, and where nobody says.
const MOST: usize = 64;
/// Answers that are gathered at once.
static GATHERED: Semaphore = Semaphore::const_new(4);

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(part))
}

/// What a node has counted since its process started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCounters {
    /// Its number.
    pub node: u32,
    /// Its name.
    pub name: String,
    /// Its cluster.
    pub cluster: String,
    /// Nanoseconds since the process started: rates are by this.
    pub now_ns: u64,
    /// How many cores there are; those that did not answer are not among the others.
    pub core_count: u64,
    /// The volumes that are open here.
    pub volumes: Vec<VolumeCounters>,
    /// Its stores.
    pub stores: Vec<StoreCounters>,
    /// Its cores.
    pub cores: Vec<CoreCounters>,
}

/// What was done with a volume through a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeCounters {
    /// Its name.
    pub name: String,
    /// I/Os under way.
    pub in_flight: u64,
    /// Stores that are being brought up to date.
    pub syncing: u64,
    /// Groups whose writes wait.
    pub stuck_groups: u64,
    /// Reads, writes and so on.
    pub ops: Vec<OperationCounters>,
}

/// One kind of I/O of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperationCounters {
    /// `read`, `write`, `clear` or `allocation`.
    pub op: String,
    /// Bytes of them.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
    /// How long they took.
    pub latency: LatencyCounters,
}

/// What a store has counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreCounters {
    /// Its UUID.
    pub id: String,
    /// Its path at its node.
    pub path: String,
    /// Does it serve?
    pub serves: bool,
    /// Bytes for data.
    pub capacity_bytes: u64,
    /// Of them, free bytes.
    pub free_bytes: u64,
    /// Bytes written to the device in all.
    pub written_bytes: u64,
    /// How long reads took in it.
    pub reads: LatencyCounters,
    /// How long writes took in it.
    pub writes: LatencyCounters,
}

/// What a core has counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CoreCounters {
    /// Its number at its node.
    pub core: u64,
    /// Passes of its loop.
    pub passes: u64,
    /// Calls of `io_uring_enter`.
    pub enters: u64,
    /// Reads and writes of files in memory.
    pub file_calls: u64,
    /// Calls of `sched_yield`.
    pub yields: u64,
    /// How often it slept.
    pub blocks: u64,
    /// For how long, in nanoseconds.
    pub blocked_ns: u64,
    /// Processor time, in nanoseconds.
    pub cpu_ns: u64,
    /// I/Os of hosts that its sequencers ended.
    pub ios: u64,
    /// Requests that its stores answered.
    pub requests: u64,
}

/// A histogram of times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatencyCounters {
    /// All together, in nanoseconds.
    pub sum_ns: u64,
    /// Buckets that are not empty: number, count.
    pub buckets: Vec<(u16, u64)>,
}

/// The counters of one node, for another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
struct CountersPart {
    /// The node's name.
    node: String,
    /// Its cluster.
    cluster: String,
    /// Its counters; null: it cannot be asked for them.
    counters: Option<NodeCounters>,
}

impl Own for CountersPart {
    fn whose(&self) -> (&str, &str) {
        (&self.node, &self.cluster)
    }
    fn keeps(&self) -> bool {
        self.counters.is_some()
    }
}

fn of(own: &Observed) -> CountersPart {
    CountersPart {
        node: own.node.clone(),
        cluster: own.cluster.clone(),
        counters: own.counters.as_ref().and_then(|ask| ask()),
    }
}

/// Which nodes.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Of so many nodes at most: 1 to 64.
    #[serde(default = "most")]
    #[param(default = 64, minimum = 1, maximum = 64)]
    limit: usize,
    /// Only nodes behind this one: `next` of the answer before.
    after: Option<String>,
}

fn most() -> usize {
    MOST
}

/// What nodes have counted.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct CountersAnswer {
    /// In the order of the nodes' names.
    items: Vec<NodeCounters>,
    /// Nodes of this piece that have not answered.
    missing: Vec<MissingNode>,
    /// What `after` is to be for the next piece; null: this was the last.
    next: Option<String>,
}

/// What nodes have counted since they were started: of volumes, stores and cores. Two looks at it make rates.
#[utoipa::path(get, path = "/counters", operation_id = "listCounters", tag = "history", params(Which),
    responses((status = 200, body = CountersAnswer),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(Which { limit, after }): Parameters<Which>,
) -> Result<Json<CountersAnswer>, Problem> {
    if !(1..=MOST).contains(&limit) {
        let why = format!("a limit is 1 to {MOST}, and not {limit}");
        return Err(Problem::new(Code::BadRequest, why));
    }
    let Ok(_place) = GATHERED.try_acquire() else {
        let why = "this node gathers as many counters as it does at once; ask again in a moment, or another node";
        return Err(Problem::new(Code::TooMany, why));
    };
    let mut peers = observed::peers(&api, asker, None).await?;
    peers.sort_by(|one, other| one.name().cmp(other.name()));
    let mut rest = peers
        .into_iter()
        .filter(|peer| after.as_deref().is_none_or(|after| peer.name() > after));
    let wanted: Vec<_> = rest.by_ref().take(limit).collect();
    let next = rest
        .next()
        .and_then(|_| wanted.last())
        .map(|last| last.name().to_owned());
    let path = format!("{}/counters/part", crate::PREFIX);
    let (parts, missing) = observed::all(&api, wanted, path, of).await?;
    let mut items: Vec<NodeCounters> = parts.into_iter().filter_map(|part| part.counters).collect();
    items.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Json(CountersAnswer { items, missing, next }))
}

/// The counters of this node alone: by this nodes ask each other.
#[utoipa::path(get, path = "/counters/part", operation_id = "showCountersPart", tag = "history",
    responses((status = 200, body = CountersPart),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn part(State(api): State<Api>, asker: Asker) -> Result<Json<CountersPart>, Problem> {
    let own = api.own();
    let found = api.run(asker, move |_| Ok(of(&own)));
    found.await.map(Json)
}
