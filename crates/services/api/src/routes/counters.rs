//! What nodes count of themselves: two looks make rates (`amita top`).
//!
//! An answer has the counters of so many nodes and so many bytes at most, in the order of the nodes' names, and so many answers are gathered
//! at one time: who looks again and again has each look cost the same, however large the cluster is, and however much its nodes have to tell.

use super::input::Parameters;
use crate::observed::{self, MissingNode, Observed, Own, Peer};
use crate::panics::carry;
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker, panicked};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Nodes in an answer, at most, and where nobody says.
const MOST: usize = 64;
/// Of them, so many are asked at once: what they say is there before it is known how much that is.
const ASKED_AT_ONCE: usize = 8;
/// An answer has no more bytes of counters than this, unless one node alone has.
const MAX_PIECE_BYTES: usize = 8 << 20;
/// Whose counters are longer than this tells none: as long as what is taken from another node.
const MAX_NODE_BYTES: usize = 16 << 20;
/// After this no more nodes are asked for an answer: those that do not answer take their time.
const LONGEST: Duration = Duration::from_secs(5);

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

/// The same as it is kept until all have answered: as text, which takes less room than what is read from it.
#[derive(Debug, Deserialize)]
#[serde(from = "CountersPart")]
struct Told {
    node: String,
    cluster: String,
    counters: Option<Box<RawValue>>,
}

impl From<CountersPart> for Told {
    fn from(part: CountersPart) -> Told {
        Told {
            node: part.node,
            cluster: part.cluster,
            counters: part.counters.and_then(|counters| to_raw_value(&counters).ok()),
        }
    }
}

impl Own for Told {
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
#[derive(Debug, Serialize, ToSchema)]
struct CountersAnswer {
    /// In the order of the nodes' names.
    #[schema(value_type = Vec<NodeCounters>)]
    items: Vec<Box<RawValue>>,
    /// Nodes of this piece that have not answered.
    missing: Vec<MissingNode>,
    /// What `after` is to be for the next piece; null: this was the last.
    next: Option<String>,
}

/// What was gathered for an answer.
#[derive(Debug, Default)]
struct Piece {
    items: Vec<Box<RawValue>>,
    /// Bytes of them.
    bytes: usize,
    missing: Vec<MissingNode>,
    /// The last node that is in it, or missing.
    last: Option<String>,
}

impl Piece {
    /// Takes what these nodes have told, in their order, as far as there is room for it: of an empty one there always is. Was there for all?
    fn take(&mut self, nodes: &[Peer], told: Vec<Told>, missing: Vec<MissingNode>) -> bool {
        let told = told.into_iter().map(|told| (told.node, told.counters));
        let mut told: HashMap<String, Option<Box<RawValue>>> = told.collect();
        let missing = missing.into_iter().map(|missing| (missing.node, missing.why));
        let mut missing: HashMap<String, String> = missing.collect();
        for name in nodes.iter().map(Peer::name) {
            let mut why = missing.remove(name);
            if let Some(counters) = told.remove(name).flatten() {
                let length = counters.get().len();
                if length > MAX_NODE_BYTES {
                    why = Some(format!(
                        "its counters have {length} bytes, and {MAX_NODE_BYTES} are told at most"
                    ));
                } else if !self.items.is_empty() && self.bytes + length > MAX_PIECE_BYTES {
                    return false;
                } else {
                    self.bytes += length;
                    self.items.push(counters);
                }
            }
            let node = name.to_owned();
            self.missing.extend(why.map(|why| MissingNode { node, why }));
            self.last = Some(name.to_owned());
        }
        true
    }
}

/// As JSON. Long answers are not written on the thread that serves everybody.
fn text(content: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(content).map_err(|why| {
        log::error!("counters cannot be written as JSON: {why}");
        Problem::new(Code::Internal, "this node could not answer; its log says more")
    })
}

fn answer(text: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

/// What nodes have counted since they were started: of volumes, stores and cores. Two looks at it make rates.
///
/// A piece ends before `limit` where it has 8 MiB, or has taken some seconds, and goes on behind `next`.
#[utoipa::path(get, path = "/counters", operation_id = "listCounters", tag = "history", params(Which),
    responses((status = 200, body = CountersAnswer),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(Which { limit, after }): Parameters<Which>,
) -> Result<Response, Problem> {
    if !(1..=MOST).contains(&limit) {
        let why = format!("a limit is 1 to {MOST}, and not {limit}");
        return Err(Problem::new(Code::BadRequest, why));
    }
    let _place = api.gathering().await?;
    let mut peers = observed::peers(&api, asker, None).await?;
    peers.retain(|peer| after.as_deref().is_none_or(|after| peer.name() > after));
    peers.sort_by(|one, other| one.name().cmp(other.name()));
    let path = format!("{}/counters/part", crate::PREFIX);
    let (mut piece, began) = (Piece::default(), Instant::now());
    for nodes in peers[..limit.min(peers.len())].chunks(ASKED_AT_ONCE) {
        if began.elapsed() > LONGEST {
            break;
        }
        let own = |own: &Observed| Told::from(of(own));
        let (told, missing) = observed::all(&api, nodes.to_vec(), path.clone(), own).await?;
        if !piece.take(nodes, told, missing) {
            break;
        }
    }
    let end = peers.last().map(Peer::name);
    let Piece {
        items, missing, last, ..
    } = piece;
    let next = last.filter(|last| Some(last.as_str()) != end);
    let written = carry(move || text(&CountersAnswer { items, missing, next }));
    let written = written.await.unwrap_or_else(|why| Err(panicked(&why)));
    written.map(answer)
}

/// The counters of this node alone: by this nodes ask each other.
#[utoipa::path(get, path = "/counters/part", operation_id = "showCountersPart", tag = "history",
    responses((status = 200, body = CountersPart),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn part(State(api): State<Api>, asker: Asker) -> Result<Response, Problem> {
    let own = api.own();
    let found = api.run(asker, move |_| text(&of(&own)));
    found.await.map(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(node: &str, bytes: usize) -> Told {
        let counters = RawValue::from_string(format!("\"{}\"", "x".repeat(bytes - 2)));
        Told {
            node: node.to_owned(),
            cluster: "c".to_owned(),
            counters: Some(counters.expect("a text")),
        }
    }

    fn peers<const N: usize>(names: [&str; N]) -> [Peer; N] {
        names.map(Peer::alone)
    }

    #[test]
    fn a_piece_ends_where_it_is_full_and_the_next_one_begins_there() {
        let away = |node: &str| MissingNode {
            node: node.to_owned(),
            why: "it is not alive".to_owned(),
        };
        let mut piece = Piece::default();
        let nodes = peers(["n1", "n2", "n3", "n4"]);
        let answers = vec![told("n4", 10), told("n3", 100), told("n1", MAX_PIECE_BYTES - 50)];
        let is_all = piece.take(&nodes, answers, vec![away("n2")]);
        assert!(!is_all, "there was room for n1, and for n2 that has told nothing");
        assert_eq!((piece.items.len(), piece.bytes), (1, MAX_PIECE_BYTES - 50));
        assert_eq!((piece.missing, piece.last.as_deref()), (vec![away("n2")], Some("n2")));
        let mut rest = Piece::default();
        assert!(rest.take(&nodes[2..], vec![told("n4", 10), told("n3", 100)], Vec::new()));
        assert_eq!(
            (rest.items.len(), rest.bytes, rest.last.as_deref()),
            (2, 110, Some("n4"))
        );
        assert_eq!(rest.items[0].get().len(), 100, "in the order of the names");
    }

    #[test]
    fn one_node_is_in_each_piece_however_much_it_tells() {
        let nodes = peers(["n1", "n2"]);
        let mut piece = Piece::default();
        assert!(!piece.take(
            &nodes,
            vec![told("n1", MAX_PIECE_BYTES * 2), told("n2", 10)],
            Vec::new()
        ));
        assert_eq!((piece.items.len(), piece.last.as_deref()), (1, Some("n1")));
        let mut piece = Piece::default();
        assert!(piece.take(&nodes, vec![told("n1", MAX_NODE_BYTES + 1), told("n2", 10)], Vec::new()));
        assert_eq!((piece.items.len(), piece.last.as_deref()), (1, Some("n2")));
        assert_eq!(piece.missing[0].node, "n1");
        assert!(piece.missing[0].why.contains("16777217 bytes"), "{:?}", piece.missing);
    }

    #[test]
    fn what_a_node_tells_is_kept_and_told_on_as_it_is() {
        let counters = NodeCounters {
            node: 7,
            name: "n7".to_owned(),
            cluster: "c".to_owned(),
            now_ns: 9,
            core_count: 2,
            volumes: Vec::new(),
            stores: Vec::new(),
            cores: Vec::new(),
        };
        let part = CountersPart {
            node: "n7".to_owned(),
            cluster: "c".to_owned(),
            counters: Some(counters.clone()),
        };
        let told: Told = serde_json::from_slice(&text(&part).expect("a text")).expect("a part");
        assert!(told.whose() == ("n7", "c") && told.keeps());
        let mut piece = Piece::default();
        assert!(piece.take(&peers(["n7"]), vec![told], Vec::new()));
        let answer = CountersAnswer {
            items: piece.items,
            missing: piece.missing,
            next: None,
        };
        let read: serde_json::Value = serde_json::from_slice(&text(&answer).expect("a text")).expect("an answer");
        let read: Vec<NodeCounters> = serde_json::from_value(read["items"].clone()).expect("counters");
        assert_eq!(read, [counters]);
        let other = br#"{"node":"n7","cluster":"c","counters":{"node":7}}"#;
        assert!(
            serde_json::from_slice::<Told>(other).is_err(),
            "something else is not told on"
        );
    }
}
