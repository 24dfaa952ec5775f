//! Sessions of initiators: who is logged in where, and what was agreed on.
//!
//! Each gateway knows its own. An answer has so many sessions at most, in the order of the gateways' names, and so many are gathered at one
//! time: who looks has each look cost the same, however large the cluster is.

use super::input::Parameters;
use crate::observed::{self, MissingNode, Observed, Own, OwnSessions, Peer, SessionQuestion, encode};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::admin;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Sessions in an answer, at most, and where nobody says.
const MOST: usize = 1000;
const USUAL: usize = 100;
/// So many gateways are asked at once: what they say is there before it is known how much that is.
const ASKED_AT_ONCE: usize = 8;
/// After this no more gateways are asked for an answer: those that do not answer take their time.
const LONGEST: Duration = Duration::from_secs(5);

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(part))
}

/// A session of an initiator with a target by a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IscsiSession {
    /// The gateway's name.
    pub node: String,
    /// The core there that has it.
    pub core: u64,
    /// The number of its connection at that core: never another one's while the gateway's process runs.
    pub number: u64,
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// It has proven by CHAP that the name is its own.
    pub proven: bool,
    /// Where it comes from, as HOST:PORT.
    pub peer: Option<String>,
    /// The name of the target; null: the initiator is there to discover, or the target is gone.
    pub target: Option<String>,
    /// The target's iSCSI name; null: the initiator is there to discover.
    pub iqn: Option<String>,
    /// The initiator's part of the session's identifier (ISID), as 12 hexadecimal digits.
    #[schema(example = "00023d000001")]
    pub isid: String,
    /// The gateway's part of it (TSIH).
    pub tsih: u16,
    /// The tag of the gateway's portal group.
    pub tag: u16,
    /// The portal that it has come by, as `--iscsi` names it.
    pub portal: Option<String>,
    /// When it logged in, in seconds since 1970.
    pub since: u64,
    /// For how many seconds nothing has come from it.
    pub silent_seconds: u64,
    /// Headers are protected by CRC-32C.
    pub header_digest: bool,
    /// Data is.
    pub data_digest: bool,
    /// Data of writes comes with their commands.
    pub immediate_data: bool,
    /// Data of writes comes when it is asked for, but for that.
    pub initial_r2t: bool,
    /// The most data of a PDU to the gateway.
    pub max_receive_bytes: u64,
    /// The most data of a PDU to the initiator.
    pub max_send_bytes: u64,
    /// The most data that is asked for at once, or sent.
    pub max_burst_bytes: u64,
    /// The most data of a write that comes unasked.
    pub first_burst_bytes: u64,
    /// How often a write's data may be asked for before it has come.
    pub max_outstanding_r2t: u16,
    /// Commands that may be under way.
    pub commands: u16,
    /// Commands that are.
    pub under_way: u64,
}

/// Sessions of gateways.
#[derive(Debug, Serialize, ToSchema)]
struct SessionsAnswer {
    /// In the order of the gateways' names, and there of their cores.
    items: Vec<IscsiSession>,
    /// Gateways of this piece whose sessions are not among them, or not all.
    missing: Vec<MissingNode>,
    /// What `after` is to be for the next piece; null: this was the last.
    next: Option<String>,
}

/// The sessions of one gateway, for another node.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
struct SessionsPart {
    /// The node's name.
    node: String,
    /// Its cluster.
    cluster: String,
    /// Can it be asked for them?
    tells: bool,
    /// In the order of its cores.
    sessions: Vec<IscsiSession>,
    /// There are more behind them.
    is_cut: bool,
    /// Cores that have not answered in time.
    silent_cores: u64,
}

impl Own for SessionsPart {
    fn whose(&self) -> (&str, &str) {
        (&self.node, &self.cluster)
    }
    fn keeps(&self) -> bool {
        true
    }
}

fn of(own: &Observed, question: &SessionQuestion) -> SessionsPart {
    let OwnSessions {
        sessions,
        is_cut,
        silent_cores,
    } = own.sessions.as_ref().map(|ask| ask(question)).unwrap_or_default();
    SessionsPart {
        node: own.node.clone(),
        cluster: own.cluster.clone(),
        tells: own.sessions.is_some(),
        sessions,
        is_cut,
        silent_cores,
    }
}

/// Which sessions.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Which {
    /// The most sessions of the answer: 1 to 1000.
    #[serde(default = "usual")]
    #[param(default = 100, minimum = 1, maximum = 1000)]
    limit: usize,
    /// Only sessions behind this one: `next` of the answer before.
    after: Option<String>,
    /// Of the initiator of this iSCSI name only.
    initiator: Option<String>,
    /// With the target of this name only.
    target: Option<String>,
    /// By the gateway of this name only.
    node: Option<String>,
}

fn usual() -> usize {
    USUAL
}

fn check_limit(limit: usize) -> Result<(), Problem> {
    if (1..=MOST).contains(&limit) {
        return Ok(());
    }
    let why = format!("a limit is 1 to {MOST}, and not {limit}");
    Err(Problem::new(Code::BadRequest, why))
}

/// Where a piece begins: behind a session of a gateway, or behind all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    node: String,
    /// The session's core, and its number there.
    session: Option<(u64, u64)>,
}

impl Place {
    fn parse(text: &str) -> Result<Place, Problem> {
        let mut parts = text.split('/');
        let place = (parts.next(), parts.next(), parts.next(), parts.next());
        let (node, session) = match place {
            (Some(node), None, ..) => (node, Some(None)),
            (Some(node), Some(core), Some(number), None) => {
                let session = core.parse().ok().zip(number.parse().ok());
                (node, session.map(Some))
            }
            _ => ("", None),
        };
        match session {
            Some(session) if !node.is_empty() => Ok(Place {
                node: node.to_owned(),
                session,
            }),
            _ => Err(Problem::new(
                Code::BadRequest,
                format!("{text:?} is no place in this list; give `next` of an answer for `after`"),
            )),
        }
    }

    fn text(&self) -> String {
        match self.session {
            Some((core, number)) => format!("{}/{core}/{number}", self.node),
            None => self.node.clone(),
        }
    }

    /// May the gateway of this name have sessions behind it?
    fn is_before(&self, node: &str) -> bool {
        match self.session {
            Some(_) => node >= self.node.as_str(),
            None => node > self.node.as_str(),
        }
    }
}

/// What was gathered for an answer.
#[derive(Debug, Default)]
struct Piece {
    items: Vec<IscsiSession>,
    missing: Vec<MissingNode>,
    /// Where the next one begins, if more may follow.
    end: Option<Place>,
    is_full: bool,
}

impl Piece {
    /// Takes what these gateways have told, in the order of their names, as far as there is room for it.
    fn take(&mut self, nodes: &[Peer], told: Vec<SessionsPart>, missing: Vec<MissingNode>, limit: usize) {
        let mut told: BTreeMap<String, SessionsPart> = told.into_iter().map(|part| (part.node.clone(), part)).collect();
        let mut missing: BTreeMap<String, String> = missing.into_iter().map(|found| (found.node, found.why)).collect();
        for name in nodes.iter().map(Peer::name) {
            let why = match told.remove(name) {
                None => missing.remove(name),
                Some(part) => {
                    let room = limit - self.items.len();
                    let is_cut = part.is_cut || part.sessions.len() > room;
                    let why = match (part.tells, part.silent_cores) {
                        (false, _) => Some("it does not tell of sessions".to_owned()),
                        (true, 0) => None,
                        (true, silent) => Some(format!("{silent} of its cores have not answered in time")),
                    };
                    let own = part.sessions.into_iter().take(room);
                    self.items.extend(own.map(|session| IscsiSession {
                        node: name.to_owned(),
                        ..session
                    }));
                    if is_cut {
                        let last = self.items.last();
                        let last = last.map(|last| (last.node.clone(), (last.core, last.number)));
                        // Where nothing of it had room, the last one of all is another gateway's.
                        self.end = last.map(|(node, session)| Place {
                            node,
                            session: Some(session),
                        });
                        self.is_full = true;
                        return;
                    }
                    why
                }
            };
            let node = name.to_owned();
            self.missing.extend(why.map(|why| MissingNode { node, why }));
            self.end = Some(Place {
                node: name.to_owned(),
                session: None,
            });
        }
    }
}

/// The path by which a gateway is asked for its own.
fn path(limit: usize, place: Option<(u64, u64)>, initiator: Option<&str>, iqn: Option<&str>) -> String {
    let mut path = format!("{}/iscsi/sessions/part?limit={limit}", crate::PREFIX);
    if let Some((core, number)) = place {
        path.push_str(&format!("&core={core}&number={number}"));
    }
    for (name, value) in [("initiator", initiator), ("iqn", iqn)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    path
}

/// The sessions of initiators: who is logged in by which gateway, since when, and what was agreed on.
///
/// A piece ends before `limit` where it has taken some seconds, and goes on behind `next`. Sessions that begin or end meanwhile shift nothing.
#[utoipa::path(get, path = "/iscsi/sessions", operation_id = "listIscsiSessions", tag = "iscsi", params(Which),
    responses((status = 200, body = SessionsAnswer),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(wanted): Parameters<Which>,
) -> Result<Json<SessionsAnswer>, Problem> {
    check_limit(wanted.limit)?;
    let place = wanted.after.as_deref().map(Place::parse).transpose()?;
    let _place = api.gathering().await?;
    let Which {
        limit,
        initiator,
        target,
        node,
        ..
    } = wanted;
    let looked = api.run(asker, move |session| {
        let meta = session.reader();
        let initiator = initiator.map(|name| admin::check_iscsi_name("initiator", &name));
        let iqn = target.map(|name| admin::target(&meta, &name).map(|found| found.iqn));
        let peers = observed::peers_of(session, |found| {
            !found.iscsi.is_empty() && node.as_ref().is_none_or(|node| *node == found.node.name)
        })?;
        Ok((
            initiator.transpose()?,
            iqn.transpose()?,
            peers,
            admin::target_names(&meta)?,
        ))
    });
    let (initiator, iqn, mut peers, names) = looked.await?;
    peers.retain(|peer| place.as_ref().is_none_or(|place| place.is_before(peer.name())));
    peers.sort_by(|one, other| one.name().cmp(other.name()));
    // Of the first one only the rest may be wanted.
    let first = place.filter(|place| peers.first().is_some_and(|peer| peer.name() == place.node));
    let (rest, whole) = peers.split_at(usize::from(first.is_some()));
    let rest = rest
        .chunks(1)
        .map(|nodes| (nodes, first.as_ref().and_then(|place| place.session)));
    let whole = whole.chunks(ASKED_AT_ONCE).map(|nodes| (nodes, None));
    let (mut piece, began) = (Piece::default(), Instant::now());
    for (nodes, session) in rest.chain(whole) {
        if piece.is_full || began.elapsed() > LONGEST {
            break;
        }
        let question = SessionQuestion {
            after: session,
            // Where there is no room for any, it is asked whether there are more.
            limit: (limit - piece.items.len()).max(1),
            initiator: initiator.clone(),
            iqn: iqn.clone(),
        };
        let path = path(question.limit, session, initiator.as_deref(), iqn.as_deref());
        let (told, missing) = observed::all(&api, nodes.to_vec(), path, move |own| of(own, &question)).await?;
        piece.take(nodes, told, missing, limit);
    }
    let last = peers.last().map(Peer::name);
    let next = piece
        .end
        .filter(|end| end.session.is_some() || Some(end.node.as_str()) != last);
    let named = piece.items.into_iter().map(|session| IscsiSession {
        target: session.iqn.as_ref().and_then(|iqn| names.get(iqn)).cloned(),
        ..session
    });
    Ok(Json(SessionsAnswer {
        items: named.collect(),
        missing: piece.missing,
        next: next.map(|next| next.text()),
    }))
}

/// Which sessions of this node.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct WhichOwn {
    /// The most sessions of the answer: 1 to 1000.
    #[serde(default = "usual")]
    #[param(default = 100, minimum = 1, maximum = 1000)]
    limit: usize,
    /// Only sessions behind the one of this core, and of that number there.
    core: Option<u64>,
    /// See `core`.
    number: Option<u64>,
    /// Of the initiator of this iSCSI name only.
    initiator: Option<String>,
    /// With the target of this iSCSI name only.
    iqn: Option<String>,
}

/// The sessions of this node alone: by this nodes ask each other.
#[utoipa::path(get, path = "/iscsi/sessions/part", operation_id = "showIscsiSessionsPart", tag = "iscsi", params(WhichOwn),
    responses((status = 200, body = SessionsPart),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn part(
    State(api): State<Api>,
    asker: Asker,
    Parameters(wanted): Parameters<WhichOwn>,
) -> Result<Json<SessionsPart>, Problem> {
    check_limit(wanted.limit)?;
    let question = SessionQuestion {
        after: wanted.core.map(|core| (core, wanted.number.unwrap_or(0))),
        limit: wanted.limit,
        initiator: wanted.initiator,
        iqn: wanted.iqn,
    };
    let own = api.own();
    let found = api.run(asker, move |_| Ok(of(&own, &question)));
    found.await.map(Json)
}

#[cfg(test)]
mod tests;
