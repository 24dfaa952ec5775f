//! Stores: the disks of nodes.

use super::input::{Body, Known, Names, Parameters, Settings, Shown, nullable};
use crate::condition::{Identity, IfMatch};
use crate::page::{Cursor, Page};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, StoreStatus};
use amita_metadata::Transact;
use amita_types::condition::StoreSpace;
use amita_types::map::{self, StoreDuty};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, change, remove))
        .routes(routes!(replace))
        .routes(routes!(adopt))
}

/// A store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Store {
    /// Its UUID.
    pub id: String,
    /// The name of the node that has it.
    pub node: String,
    /// Its path there.
    pub path: String,
    /// Its size, in bytes for data.
    pub size_bytes: u64,
    /// Does its node live, and serve it?
    pub serves: bool,
    /// Its data moves to others.
    pub draining: bool,
    /// How much it gets, relative to the others; where nobody sets it, its size in MiB.
    pub weight: u32,
    /// The class of the device, as the operator calls it; null: none.
    pub class: Option<String>,
    /// Groups that it is to hold.
    pub groups: u64,
    /// Groups in which it is in sync.
    pub in_sync: u64,
    /// Groups in which it is being brought up to date.
    pub syncing: u64,
    /// Groups that name it in whatever way: of one that is drained, those that are still to go.
    pub named: u64,
    /// Bytes for data, as its node has said last; null: it does not say.
    pub capacity_bytes: Option<u64>,
    /// Of them, bytes that hold something.
    pub used_bytes: Option<u64>,
    /// Of them, free bytes.
    pub free_bytes: Option<u64>,
    /// Of a hundred, how full it is, rounded down.
    pub used_percent: Option<u8>,
}

impl From<StoreStatus> for Store {
    fn from(found: StoreStatus) -> Store {
        let StoreStatus { store, space, .. } = found;
        Store {
            id: store.id.to_string(),
            node: found.node_name,
            path: store.path,
            size_bytes: store.size_bytes,
            serves: found.alive,
            draining: store.duty == StoreDuty::Draining,
            weight: store.weight,
            class: Some(store.class).filter(|class| !class.is_empty()),
            groups: found.groups as u64,
            in_sync: found.in_sync as u64,
            syncing: found.syncing as u64,
            named: found.named as u64,
            capacity_bytes: space.map(|space| space.capacity_bytes),
            used_bytes: space.as_ref().map(StoreSpace::used_bytes),
            free_bytes: space.map(|space| space.free_bytes),
            used_percent: space.as_ref().map(StoreSpace::used_percent),
        }
    }
}

impl Settings for Store {
    fn settings(&self) -> impl Serialize {
        (&self.id, &self.node, self.draining, self.weight, &self.class)
    }
}

/// What follows from a change of what there is: all pools together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Outlook {
    /// Copies of groups that move.
    pub moves: u64,
    /// Groups for which their pool's rule cannot be met: they stay as they are.
    pub unmet: u64,
    /// The same in sentences.
    pub sentences: Vec<String>,
}

impl From<admin::Outlook> for Outlook {
    fn from(found: admin::Outlook) -> Outlook {
        let mut sentences = vec![match found.moves {
            0 => "No copy has to move.".to_owned(),
            moves => format!("The coordinator moves {moves} copies of groups."),
        }];
        if found.unmet > 0 {
            sentences.push(format!(
                "{} groups cannot be placed as their pool's rule wants: they stay where they are, and this waits until there are stores \
                 for them.",
                found.unmet
            ));
        }
        Outlook {
            moves: found.moves as u64,
            unmet: found.unmet as u64,
            sentences,
        }
    }
}

/// What of a store is to be another; what is not there stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreChange {
    /// Is its data to move to others? It serves until the last group is elsewhere. False: it is used again.
    pub draining: Option<bool>,
    /// How much it gets, relative to the others; 0 gives it nothing, null lets its size count again.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub weight: Option<Option<u32>>,
    /// The class of the device; null: none.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub class: Option<Option<String>>,
}

/// A store that was changed, and what follows.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StoreChanged {
    /// The store as it is now.
    pub store: Store,
    /// What the cluster does about it; null: nothing was to be changed.
    pub outlook: Option<Outlook>,
}

impl Settings for StoreChanged {
    fn settings(&self) -> impl Serialize {
        self.store.settings()
    }
}

/// What takes a store's place.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaceStore {
    /// The UUID of the store that takes its place, or the beginning of it.
    pub by: String,
}

/// What a replacement does.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Replacement {
    /// The UUID of the store that is drained.
    pub old: String,
    /// The UUID of the store that takes its place.
    pub new: String,
    /// Groups that the new store takes over.
    pub groups: u64,
    /// Groups that it cannot take over without breaking their pool's rule: they are drained to others.
    pub others: u64,
}

/// Which stores.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Only those of the node of this name.
    node: Option<String>,
}

/// The store in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// Its UUID, or the beginning of it: at least 4 characters.
    id: String,
}

fn find(meta: &dyn Transact, id: &str) -> Result<Store, AdminError> {
    let record = admin::find_store(meta, id)?;
    let found = admin::members(meta)?
        .stores
        .into_iter()
        .find(|found| found.store.id == record.id);
    found.map(Store::from).ok_or_else(|| AdminError::NoSuch {
        what: "store",
        name: id.to_owned(),
        there: Vec::new(),
    })
}

fn look(meta: &dyn Transact, id: &str) -> Result<(Store, Identity), AdminError> {
    let key = map::store_key(admin::find_store(meta, id)?.id);
    let store = find(meta, id)?;
    let identity = Identity::of(&store.settings(), vec![key]);
    Ok((store, identity))
}

/// The stores, in the order of their UUIDs.
#[utoipa::path(get, path = "/stores", operation_id = "listStores", tag = "stores", params(Cursor, Filter),
    responses((status = 200, body = Page<Store>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
    Parameters(filter): Parameters<Filter>,
) -> Result<Json<Page<Store>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::members(&session.reader())?.stores.into_iter();
        let is_wanted = |found: &StoreStatus| filter.node.as_ref().is_none_or(|node| *node == found.node_name);
        let mut all: Vec<Store> = all.filter(is_wanted).map(Store::from).collect();
        all.sort_by(|one, other| one.id.cmp(&other.id));
        cursor.cut(all, |store| store.id.as_str())
    });
    page.await.map(Json)
}

/// A store.
#[utoipa::path(get, path = "/stores/{id}", operation_id = "showStore", tag = "stores", params(Which),
    responses((status = 200, body = Store, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<Shown<Store>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &id)?));
    Ok(Shown(StatusCode::OK, found.await?))
}

/// Changes a store: drains it or uses it again, sets its weight or its class.
///
/// What cannot go anywhere without breaking a pool's rule stays, and the drain waits for it: the outlook says so.
#[utoipa::path(patch, path = "/stores/{id}", operation_id = "changeStore", tag = "stores", request_body = StoreChange,
    params(Which, Known),
    responses((status = 200, body = StoreChanged, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(id): Names<String>,
    known: IfMatch,
    Body(change): Body<StoreChange>,
) -> Result<Shown<StoreChanged>, Problem> {
    let changed = api.run(asker, move |session| {
        session.permit(Action::DiskWeight, &id)?;
        let held = known.check(session, |meta| look(meta, &id))?;
        let store = admin::find_store(&session.reader(), &id)?.id;
        let object = store.to_string();
        let mut outlook = None;
        if let Some(class) = &change.class {
            let class = class.as_deref().unwrap_or_default();
            let done = held.act(Action::DiskClass, &object, |meta| {
                admin::classify_store(meta, store, class)
            })?;
            outlook = Some(done.1.into());
        }
        if let Some(weight) = change.weight {
            let done = held.act(Action::DiskWeight, &object, |meta| {
                admin::weigh_store(meta, store, weight)
            })?;
            outlook = Some(done.1.into());
        }
        if let Some(draining) = change.draining {
            let done = held.act(Action::DiskDrain, &object, |meta| {
                admin::drain_store(meta, store, !draining)
            })?;
            outlook = Some(done.1.into());
        }
        let store = find(&session.reader(), &object)?;
        Ok(StoreChanged { store, outlook })
    });
    Ok(Shown(StatusCode::OK, changed.await?))
}

/// Has another store take the place of this one, which is drained; it may be dead already.
///
/// The groups are given to the other one, as far as the pools' rules allow; the rest is drained to others.
#[utoipa::path(post, path = "/stores/{id}/replace", operation_id = "replaceStore", tag = "stores",
    request_body = ReplaceStore, params(Which),
    responses((status = 200, body = Replacement),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn replace(
    State(api): State<Api>,
    asker: Asker,
    Names(id): Names<String>,
    Body(wanted): Body<ReplaceStore>,
) -> Result<Json<Replacement>, Problem> {
    let replaced = api.run(asker, move |session| {
        let find = |name: &str| admin::find_store(&session.reader(), name).map(|store| store.id);
        let (old, new) = (find(&id)?, find(&wanted.by)?);
        let object = format!("{old} by {new}");
        let done = session.act(Action::DiskReplace, &object, |meta| {
            admin::replace_store(meta, old, new)
        })?;
        Ok(Json(Replacement {
            old: old.to_string(),
            new: new.to_string(),
            groups: done.groups as u64,
            others: done.others as u64,
        }))
    });
    replaced.await
}

/// Lets an older copy of a store serve in its place, when the store itself is lost.
///
/// What was written since is missing on it. It is let in at its node's next start; it is refused while the store is served.
#[utoipa::path(post, path = "/stores/{id}/adopt", operation_id = "adoptStore", tag = "stores", params(Which),
    responses((status = 204, description = "Whatever copy of it a node is started with next may serve."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn adopt(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<StatusCode, Problem> {
    let adopted = api.run(asker, move |session| {
        let store = admin::find_store(&session.reader(), &id)?.id;
        session.act(Action::DiskAdopt, &store.to_string(), |meta| {
            admin::adopt_store(meta, store)
        })?;
        Ok(StatusCode::NO_CONTENT)
    });
    adopted.await
}

/// Takes a store that no group needs any more out of the records.
#[utoipa::path(delete, path = "/stores/{id}", operation_id = "forgetStore", tag = "stores", params(Which, Known),
    responses((status = 204, description = "The cluster knows it no more."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(id): Names<String>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        let held = known.check(session, |meta| look(meta, &id))?;
        let store = admin::find_store(&session.reader(), &id)?.id;
        held.act(Action::DiskForget, &store.to_string(), |meta| {
            admin::forget_store(meta, store)
        })?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}
