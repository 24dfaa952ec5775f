//! What the node that serves the API knows of itself, and how the others are asked for what they know.
//!
//! Each node has its own history and its own traces. Whoever is asked asks all others at once, by their API and with its own certificate,
//! for no longer than [`ask::PATIENCE`]; what did not answer is named in the answer, never left out in silence.

use crate::panics::carry;
use crate::problem::Problem;
use crate::routes::{IscsiSession, NodeCounters, Trace};
use crate::session::{Api, Asker, Asking};
use amita_control::admin::{self, AdminError, NodeStatus};
use amita_history::{History, ask};
use amita_identity::Live;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use utoipa::ToSchema;

/// Nodes that are asked at once, by all requests together.
static ASKED_AT_ONCE: Semaphore = Semaphore::const_new(32);

/// Which traces are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceQuestion {
    /// Those that took longer than they should.
    pub slow: bool,
    /// Of this volume only.
    pub volume: Option<String>,
    /// At most so many, the newest first.
    pub limit: usize,
}

/// How a node is asked for its own traces. It may wait for the cores.
pub type Traces = Arc<dyn Fn(&TraceQuestion) -> Vec<Trace> + Send + Sync>;

/// How a node is asked for what it has counted; none: it does not tell. It may wait for the cores.
pub type Counters = Arc<dyn Fn() -> Option<NodeCounters> + Send + Sync>;

/// Which sessions of initiators are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuestion {
    /// Only those behind this one: its core, and its number there.
    pub after: Option<(u64, u64)>,
    /// At most so many.
    pub limit: usize,
    /// Of the initiator of this name only.
    pub initiator: Option<String>,
    /// With the target of this iSCSI name only.
    pub iqn: Option<String>,
}

/// Sessions of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnSessions {
    /// In the order of its cores, and there of their numbers.
    pub sessions: Vec<IscsiSession>,
    /// There are more behind them.
    pub is_cut: bool,
    /// Cores that have not answered in time.
    pub silent_cores: u64,
}

/// How a node is asked for the sessions of initiators. It may wait for the cores.
pub type Sessions = Arc<dyn Fn(&SessionQuestion) -> OwnSessions + Send + Sync>;

/// A node's eyes on itself.
#[derive(Clone)]
pub struct Observed {
    /// Its name.
    pub node: String,
    /// Its cluster.
    pub cluster: String,
    /// By what it proves to others who it is.
    pub identity: Option<Arc<Live>>,
    /// What it remembers, if it does.
    pub history: Option<Arc<History>>,
    /// Its traces.
    pub traces: Option<Traces>,
    /// Its counters.
    pub counters: Option<Counters>,
    /// The sessions of initiators.
    pub sessions: Option<Sessions>,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// A node whose figures are not in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissingNode {
    /// Its name.
    pub node: String,
    /// Why, in a sentence.
    pub why: String,
}

/// What a node answers another one with.
pub(crate) trait Own: DeserializeOwned + Send + 'static {
    /// The node's name, and its cluster.
    fn whose(&self) -> (&str, &str);
    /// Has it anything to answer with?
    fn keeps(&self) -> bool;
}

/// A node that is to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    name: String,
    api: Option<String>,
    alive: bool,
}

impl Peer {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// One of which no more than the name is known.
    #[cfg(test)]
    pub(crate) fn alone(name: &str) -> Peer {
        Peer {
            name: name.to_owned(),
            api: None,
            alive: false,
        }
    }
}

/// The cluster's nodes, as who asks may see them; `only`: this one.
///
/// # Errors
/// They may not look at the cluster; the metadata is away.
pub(crate) async fn peers(api: &Api, asker: Asker, only: Option<String>) -> Result<Vec<Peer>, Problem> {
    let found = api.run(asker, move |session| {
        let is_meant = |found: &NodeStatus| only.as_ref().is_none_or(|only| *only == found.node.name);
        Ok(peers_of(session, is_meant)?)
    });
    found.await
}

/// The same of which `is_meant` holds.
///
/// # Errors
/// The metadata is away.
pub(crate) fn peers_of(session: &Asking, is_meant: impl Fn(&NodeStatus) -> bool) -> Result<Vec<Peer>, AdminError> {
    let nodes = admin::members(&session.reader())?.nodes.into_iter();
    let meant = nodes.filter(|found| !found.node.client && is_meant(found));
    let peer = |found: NodeStatus| Peer {
        name: found.node.name,
        api: found.node.api,
        alive: found.alive,
    };
    Ok(meant.map(peer).collect())
}

/// What each of them answers for a path, and those that do not. `own`: what this node would.
///
/// # Errors
/// This node cannot answer.
pub(crate) async fn all<T: Own>(
    api: &Api,
    peers: Vec<Peer>,
    path: String,
    own: impl FnOnce(&Observed) -> T + Send + 'static,
) -> Result<(Vec<T>, Vec<MissingNode>), Problem> {
    let observed = api.observed();
    let mut missing = Vec::new();
    let mut asking = JoinSet::new();
    let mut is_own = false;
    for peer in peers {
        if observed.as_ref().is_some_and(|observed| observed.node == peer.name) {
            is_own = true;
            continue;
        }
        let (observed, path) = (observed.clone(), path.clone());
        asking.spawn(async move {
            let asked = one::<T>(&peer, &path, observed.as_deref()).await;
            (peer.name, asked)
        });
    }
    let mut answers = Vec::new();
    if let (true, Some(observed)) = (is_own, observed) {
        let node = observed.node.clone();
        let answer = api.ask(move |_| Ok(own(&observed))).await?;
        take(node, Ok(answer), &mut answers, &mut missing);
    }
    while let Some(asked) = asking.join_next().await {
        let Ok((name, asked)) = asked else { continue };
        take(name, asked, &mut answers, &mut missing);
    }
    missing.sort_by(|one, other| one.node.cmp(&other.node));
    Ok((answers, missing))
}

fn take<T: Own>(node: String, asked: Result<T, String>, answers: &mut Vec<T>, missing: &mut Vec<MissingNode>) {
    match asked {
        Ok(answer) if answer.keeps() => answers.push(answer),
        Ok(_) => {
            let why = "it keeps none: start it with an identity, or with --history DIR".to_owned();
            missing.push(MissingNode { node, why });
        }
        Err(why) => missing.push(MissingNode { node, why }),
    }
}

async fn one<T: Own>(peer: &Peer, path: &str, observed: Option<&Observed>) -> Result<T, String> {
    if !peer.alive {
        return Err("it is not alive".to_owned());
    }
    let address = peer
        .api
        .as_deref()
        .ok_or("it serves no API; start it with --api ADDRESS:PORT")?;
    let Ok(_place) = ASKED_AT_ONCE.acquire().await else {
        return Err("this node ends".to_owned());
    };
    let identity = observed.and_then(|observed| observed.identity.as_ref());
    let body = ask::get(address, &peer.name, path, identity).await?.done()?;
    // Long answers are not read on the thread that serves everybody.
    let read = carry(move || serde_json::from_slice::<T>(&body));
    let answer = match read.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => {
            return Err(format!(
                "{address} answers with something else; is it of another version?"
            ));
        }
    };
    let (node, cluster) = answer.whose();
    if node != peer.name || observed.is_some_and(|observed| observed.cluster != cluster) {
        return Err(format!(
            "{address} is node {node} here: another host's loopback is not its own"
        ));
    }
    Ok(answer)
}

/// A text as the value of a parameter (RFC 3986, section 2.1).
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_./".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn values_of_parameters_end_no_parameter() {
        assert_eq!(encode("volume/db-1.a_b"), "volume/db-1.a_b");
        assert_eq!(encode("a&b=c d#ä"), "a%26b%3Dc%20d%23%C3%A4");
    }
}
