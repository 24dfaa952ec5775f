//! Nodes.

use super::input::{Body, Force, Known, Named, Names, Parameters, Settings, Shown};
use super::stores::Outlook;
use crate::condition::{Identity, IfMatch};
use crate::page::{Cursor, Page};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, NodeStatus};
use amita_metadata::Transact;
use amita_types::map;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, change, remove))
}

/// A node: a machine that serves stores, or hosts, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The number that it has for ever.
    pub id: u32,
    /// Does it hold its lease?
    pub alive: bool,
    /// How many cores serve.
    pub cores: u32,
    /// Where other nodes reach it, as HOST:PORT.
    pub fabric: String,
    /// The same by a second network; null: it has one.
    pub fabric2: Option<String>,
    /// Where clients reach it by NBD, as HOST:PORT; null: they do not.
    pub nbd: Option<String>,
    /// The path of its Unix socket for NBD, on its own machine.
    pub nbd_socket: Option<String>,
    /// Where hosts reach it by NVMe/TCP, as HOST:PORT; null: they do not.
    pub nvme: Option<String>,
    /// Where initiators log in to it by iSCSI, as HOST:PORT: its portals; none: they do not.
    pub iscsi: Vec<String>,
    /// The tag of their portal group, which is the number of its target port group as well; null: there are none.
    pub iscsi_tag: Option<u16>,
    /// Where its metrics are, as HOST:PORT; the host may be its own loopback.
    pub metrics: Option<String>,
    /// Where its REST API is, as HOST:PORT; the host may be its own loopback; null: it serves none.
    pub api: Option<String>,
    /// The site that it stands in; empty: none is named.
    pub site: String,
    /// The rack, unique in its site; empty: none is named.
    pub rack: String,
    /// Its absence is expected, and its stores are not replaced meanwhile.
    pub maintenance: bool,
    /// It serves hosts by a gateway's certificate, and has no stores.
    pub gateway: bool,
    /// It is the process of a client, and has no stores.
    pub client: bool,
    /// It has no identity, and other machines reach its fabric: whoever does is believed.
    pub unprotected: bool,
}

impl From<NodeStatus> for Node {
    fn from(found: NodeStatus) -> Node {
        let NodeStatus {
            node,
            alive,
            iscsi,
            iscsi_tag,
        } = found;
        Node {
            name: node.name,
            id: node.id.0,
            alive,
            cores: node.cores,
            fabric: node.fabric,
            fabric2: node.fabric2,
            nbd: node.nbd,
            nbd_socket: node.nbd_socket,
            nvme: node.nvme,
            iscsi,
            iscsi_tag,
            metrics: node.metrics,
            api: node.api,
            site: node.site,
            rack: node.rack,
            maintenance: node.maintenance,
            gateway: node.gateway,
            client: node.client,
            unprotected: node.unprotected,
        }
    }
}

impl Settings for Node {
    fn settings(&self) -> impl Serialize {
        (self.id, &self.name, &self.site, &self.rack, self.maintenance)
    }
}

/// What of a node is to be another; what is not there stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeChange {
    /// Does its maintenance begin, or end? While it lasts, its absence is expected and its stores are not replaced.
    pub maintenance: Option<bool>,
    /// The site that it stands in; empty: none is named.
    pub site: Option<String>,
    /// The rack, unique in its site; empty: none is named.
    pub rack: Option<String>,
}

/// A node that was changed, and what follows.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NodeChanged {
    /// The node as it is now.
    pub node: Node,
    /// What the cluster does about it; null: nothing that places data was changed.
    pub outlook: Option<Outlook>,
}

impl Settings for NodeChanged {
    fn settings(&self) -> impl Serialize {
        self.node.settings()
    }
}

fn find(meta: &dyn Transact, name: &str) -> Result<Node, AdminError> {
    let nodes = admin::members(meta)?.nodes;
    let there = nodes.iter().map(|found| found.node.name.clone()).collect();
    let found = nodes.into_iter().find(|found| found.node.name == name);
    found.map(Node::from).ok_or_else(|| AdminError::NoSuch {
        what: "node",
        name: name.to_owned(),
        there,
    })
}

fn look(meta: &dyn Transact, name: &str) -> Result<(Node, Identity), AdminError> {
    let node = find(meta, name)?;
    let identity = Identity::of(&node.settings(), vec![map::node_key(name)]);
    Ok((node, identity))
}

/// The nodes, in the order of their names.
#[utoipa::path(get, path = "/nodes", operation_id = "listNodes", tag = "nodes", params(Cursor),
    responses((status = 200, body = Page<Node>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Node>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::members(&session.reader())?.nodes.into_iter().map(Node::from);
        cursor.cut(all, |node| node.name.as_str())
    });
    page.await.map(Json)
}

/// A node.
#[utoipa::path(get, path = "/nodes/{name}", operation_id = "showNode", tag = "nodes", params(Named),
    responses((status = 200, body = Node, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Shown<Node>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    Ok(Shown(StatusCode::OK, found.await?))
}

/// Changes a node: its maintenance, where it stands.
///
/// Maintenance does not begin while writes could not go on without the node, unless `force` says so.
#[utoipa::path(patch, path = "/nodes/{name}", operation_id = "changeNode", tag = "nodes", request_body = NodeChange,
    params(Named, Known, Force),
    responses((status = 200, body = NodeChanged, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(Force { force }): Parameters<Force>,
    known: IfMatch,
    Body(change): Body<NodeChange>,
) -> Result<Shown<NodeChanged>, Problem> {
    let changed = api.run(asker, move |session| {
        session.permit(Action::NodePlace, &name)?;
        let held = known.check(session, |meta| look(meta, &name))?;
        let mut outlook = None;
        if let Some(on) = change.maintenance {
            held.act(Action::NodeMaintenance, &name, |meta| {
                admin::maintain_node(meta, &name, on, force)
            })?;
        }
        if change.site.is_some() || change.rack.is_some() {
            let (site, rack) = (change.site.as_deref(), change.rack.as_deref());
            let placed = held.act(Action::NodePlace, &name, |meta| {
                admin::place_node(meta, &name, site, rack)
            })?;
            outlook = Some(Outlook::from(placed.1));
        }
        let node = find(&session.reader(), &name)?;
        Ok(NodeChanged { node, outlook })
    });
    Ok(Shown(StatusCode::OK, changed.await?))
}

/// Takes a node that is not coming back out of the records, with its stores.
///
/// It is refused while the node lives, and while groups still need its stores: drain them first.
#[utoipa::path(delete, path = "/nodes/{name}", operation_id = "removeNode", tag = "nodes", params(Named, Known),
    responses((status = 204, description = "The cluster knows it no more."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        let held = known.check(session, |meta| look(meta, &name))?;
        held.act(Action::NodeRemove, &name, |meta| admin::remove_node(meta, &name))?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}
