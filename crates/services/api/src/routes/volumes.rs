//! Volumes.

use super::input::{Body, Known, KnownWell, Labels, Named, Names, Pairs, Parameters, WantedLabels, now};
use super::wait;
use crate::condition::{Identity, IfMatch};
use crate::page::{Cursor, Page, Tagged};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, DataKeys, Deletion, Fate};
use amita_metadata::Transact;
use amita_types::{VolumeId, map};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, change, remove))
        .routes(routes!(rename))
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The number that stays, whatever becomes of its name and its data.
    pub id: u64,
    /// The pool that holds it.
    pub pool: String,
    /// The tenant whose it is; null: nobody's.
    pub tenant: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// What the operator says of it.
    pub labels: BTreeMap<String, String>,
    /// It is not to be deleted.
    pub protected: bool,
    /// When it was made, in seconds since 1970.
    pub created_at: Option<u64>,
    /// The snapshot that it was cloned from, as VOLUME@SNAPSHOT.
    pub parent: Option<String>,
    /// How many volumes were cloned from it.
    pub clones: u64,
    /// The node by which its I/O goes now; null: nobody uses it.
    pub owner: Option<String>,
    /// It is encrypted at rest.
    pub encrypted: bool,
    /// Since when there is the oldest data key that it is read by, in seconds since 1970; null: it is not encrypted, or nobody knows.
    pub data_key_since: Option<u64>,
    /// Why a node could not open it for want of its keys, in the last half minute; null: none has said so.
    pub locked: Option<String>,
    /// It is served by NBD.
    pub exported: bool,
    /// An image is being copied into it: it is not there whole.
    pub importing: bool,
    /// It is being flattened, so that it needs what it was cloned from no more.
    pub flattening: bool,
    /// It is being made smaller, and is to have so many bytes; null: it is not.
    pub shrinking_to_bytes: Option<u64>,
}

impl From<admin::VolumeStatus> for Volume {
    fn from(found: admin::VolumeStatus) -> Volume {
        Volume {
            id: found.stable_id.0,
            name: found.volume.name,
            pool: found.volume.pool,
            tenant: found.tenant,
            size_bytes: found.volume.size_bytes,
            labels: found.labels,
            protected: found.protected,
            created_at: found.created_at,
            parent: found.parent,
            clones: found.clones as u64,
            owner: found.owner_name.filter(|_| found.owner_alive),
            encrypted: found.encrypted,
            data_key_since: found.data_key_since,
            locked: found.locked,
            exported: found.export.is_some(),
            importing: found.import.is_some(),
            flattening: found.flatten.is_some(),
            shrinking_to_bytes: found.shrink.map(|shrink| shrink.size_bytes),
        }
    }
}

/// A volume that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Its name: 1 to 200 letters, digits and `. _ -`, not beginning with `.` or `-`.
    pub name: String,
    /// The pool that is to hold it.
    pub pool: String,
    /// Its size: a multiple of 4096.
    pub size_bytes: u64,
    /// What is to be known of it: up to 32.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Encrypted at rest, from its first write on. The node that is asked has to have the cluster's volume keys (`amita serve
    /// --volume-keys`).
    #[serde(default)]
    pub encrypted: bool,
    /// The tenant whose it is, from the start: its data key, where it is encrypted, is wrapped by the tenant's volume key, if the tenant has one, and by the
    /// cluster's otherwise. Refused where the node's file of volume keys has a line of the tenant's, and the tenant has no volume key yet. Null: nobody's.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// What of a volume is to be another; what is not there stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeChange {
    /// Labels to set, or with null to take away.
    #[serde(default)]
    pub labels: BTreeMap<String, Option<String>>,
    /// Is it to be protected from deletion?
    pub protected: Option<bool>,
    /// Its new size; it only becomes larger.
    pub size_bytes: Option<u64>,
}

/// How a volume is to be deleted.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Delete {
    /// For good: it cannot be had back.
    #[serde(default)]
    #[param(default = false)]
    now: bool,
    /// With `now`: its snapshots too; else one that has any stays.
    #[serde(default)]
    #[param(default = false)]
    snapshots: bool,
    /// Also where clients use it, or it is a namespace: that goes too.
    #[serde(default)]
    #[param(default = false)]
    force: bool,
    /// For how long it can be had back, in seconds; what its pool says where it is not said.
    keep_seconds: Option<u64>,
}

/// A volume that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VolumeDeleted {
    /// What it was called.
    pub name: String,
    /// Its number, by which it is had back.
    pub id: u64,
    /// Until when it can be had back, in seconds since 1970; null: it cannot.
    pub purge_at: Option<u64>,
    /// It was to go for good, and volumes were cloned from it: it is hidden, and goes when the last of them does.
    pub hidden: bool,
    /// The node that had it open last is not known as living, and was not waited for: if it runs after all, it may serve clients until it
    /// hears of this.
    pub owner_gone: bool,
    /// The node that had it open and does not answer: until it hears of this, it may go on serving clients. Null: none.
    pub unheard_node: Option<String>,
}

/// Another name for a volume.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// The new name.
    pub name: String,
}

/// Which volumes.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Only those of the pool of this name.
    pool: Option<String>,
}

pub(super) fn find(meta: &dyn Transact, name: &str) -> Result<Volume, AdminError> {
    look(meta, name).map(|(volume, _)| volume)
}

pub(super) fn look(meta: &dyn Transact, name: &str) -> Result<(Volume, Identity), AdminError> {
    let all = admin::volume_statuses(meta)?;
    let there = all.iter().map(|found| found.volume.name.clone()).collect();
    let found = all.into_iter().find(|found| found.volume.name == name);
    let found = found.ok_or_else(|| AdminError::NoSuch {
        what: "volume",
        name: name.to_owned(),
        there,
    })?;
    let id = found.volume.id;
    let volume = Volume::from(found);
    let records = vec![
        map::volume_key(name),
        map::about_key(id),
        map::export_key(id),
        map::flatten_key(id),
        map::tenancy_key(id),
    ];
    let identity = Identity::of(&volume, records);
    Ok((volume, identity))
}

/// A key is needed, and this node makes none.
pub(super) fn no_keys() -> Problem {
    let why = "this node has no volume keys; ask one that has (`amita serve --volume-keys`)";
    Problem::new(Code::WrongState, why)
}

/// The volumes, in the order of their names.
#[utoipa::path(get, path = "/volumes", operation_id = "listVolumes", tag = "volumes", params(Cursor, Filter, Labels),
    responses((status = 200, body = Page<Volume>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
    Parameters(filter): Parameters<Filter>,
    Parameters(pairs): Pairs,
) -> Result<Json<Page<Volume>>, Problem> {
    let wanted = WantedLabels::of(&pairs)?;
    let page = api.run(asker, move |session| {
        let all = admin::volume_statuses(&session.reader())?.into_iter().map(Volume::from);
        let all = all.filter(|volume| {
            wanted.fit(&volume.labels) && filter.pool.as_ref().is_none_or(|pool| *pool == volume.pool)
        });
        cursor.cut(all, |volume| volume.name.as_str())
    });
    page.await.map(Json)
}

/// Makes a volume. It is thin: no space is taken before it is written.
#[utoipa::path(post, path = "/volumes", operation_id = "createVolume", tag = "volumes", request_body = NewVolume,
    responses((status = 201, body = Volume, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewVolume>,
) -> Result<Tagged<Volume>, Problem> {
    let name = wanted.name.clone();
    let keys = match wanted.encrypted {
        true => Some(api.data_keys().ok_or_else(no_keys)?),
        false => None,
    };
    let made = api.act(asker, Action::VolumeCreate, name, move |meta| {
        let about = map::About {
            created_at: Some(now().as_secs()),
            labels: wanted.labels.clone(),
            ..map::About::of(VolumeId(0))
        };
        let NewVolume {
            name,
            pool,
            size_bytes,
            tenant,
            ..
        } = &wanted;
        let keys = keys.as_deref().map(|keys| keys as &dyn DataKeys);
        admin::make_volume_of(meta, tenant.as_deref(), (name, pool, *size_bytes), Some(&about), keys)?;
        find(meta, &wanted.name)
    });
    Ok(Tagged(StatusCode::CREATED, made.await?))
}

/// A volume.
#[utoipa::path(get, path = "/volumes/{name}", operation_id = "showVolume", tag = "volumes", params(Named),
    responses((status = 200, body = Volume, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Tagged<Volume>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    Ok(Tagged(StatusCode::OK, found.await?))
}

/// Changes a volume: its labels, its protection, its size.
#[utoipa::path(patch, path = "/volumes/{name}", operation_id = "changeVolume", tag = "volumes", request_body = VolumeChange,
    params(Named, Known),
    responses((status = 200, body = Volume, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
    Body(change): Body<VolumeChange>,
) -> Result<Tagged<Volume>, Problem> {
    let changed = api.run(asker, move |session| {
        session.permit(Action::VolumeLabel, &name)?;
        let held = known.check(session, |meta| look(meta, &name))?;
        if let Some(size_bytes) = change.size_bytes {
            held.act(Action::VolumeResize, &name, |meta| {
                admin::resize_volume(meta, &name, size_bytes)
            })?;
        }
        if !change.labels.is_empty() {
            held.act(Action::VolumeLabel, &name, |meta| {
                let set = change
                    .labels
                    .iter()
                    .filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
                let gone = change.labels.iter().filter(|(_, value)| value.is_none());
                let gone: Vec<String> = gone.map(|(key, _)| key.clone()).collect();
                admin::label_volume(meta, &name, &set.collect(), &gone)
            })?;
        }
        if let Some(protected) = change.protected {
            held.act(Action::VolumeProtect, &name, |meta| {
                admin::protect_volume(meta, &name, protected)
            })?;
        }
        Ok(find(&session.reader(), &name)?)
    });
    Ok(Tagged(StatusCode::OK, changed.await?))
}

/// Deletes a volume; for a time it can be had back, unless `now` says otherwise. Until it is gone it takes the space that it took.
///
/// Its owner is asked to close it, and is waited for a few seconds.
#[utoipa::path(delete, path = "/volumes/{name}", operation_id = "deleteVolume", tag = "volumes", params(Named, Delete, KnownWell),
    responses((status = 200, body = VolumeDeleted),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(how): Parameters<Delete>,
    known: IfMatch,
) -> Result<Json<VolumeDeleted>, Problem> {
    if how.now && how.keep_seconds.is_some() || how.snapshots && !how.now {
        let why =
            "keep_seconds goes without now, and snapshots goes with now only: what is kept is kept with its snapshots";
        return Err(Problem::new(Code::BadRequest, why));
    }
    let removed = api.run(asker, move |session| {
        let held = known.demand(session, |meta| look(meta, &name))?;
        let keep = match (how.now, how.keep_seconds) {
            (true, _) => Duration::ZERO,
            (false, Some(seconds)) => Duration::from_secs(seconds),
            (false, None) => admin::recycle_time(&session.reader(), &held.shown().pool)?,
        };
        let now = now().as_secs();
        let purge_at = now.saturating_add(keep.as_secs());
        let (purge_at, fate) = match keep.is_zero() {
            true => (
                None,
                Fate::Purge {
                    snapshots: how.snapshots,
                    now,
                },
            ),
            false => (
                Some(purge_at),
                Fate::Recycle {
                    deleted_at: now,
                    purge_at,
                },
            ),
        };
        let deletion = Deletion::of(&name, how.force, fate);
        let deleted = held.act(Action::VolumeDelete, &name, |meta| {
            admin::carry_out(meta, deletion, &mut wait::pauses())
        })?;
        Ok(VolumeDeleted {
            name: name.clone(),
            id: deleted.volume.id.0,
            purge_at,
            hidden: deleted.hidden,
            owner_gone: deleted.gone,
            unheard_node: deleted.unheard,
        })
    });
    removed.await.map(Json)
}

/// Gives a volume another name; clients ask for it by that from then on.
///
/// Nobody may use it meanwhile. Its number, its snapshots, its labels and the rights of clients stay.
#[utoipa::path(post, path = "/volumes/{name}/rename", operation_id = "renameVolume", tag = "volumes", request_body = Rename,
    params(Named),
    responses((status = 200, body = Volume, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn rename(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<Rename>,
) -> Result<Tagged<Volume>, Problem> {
    let renamed = api.act(asker, Action::VolumeRename, name.clone(), move |meta| {
        let fate = Fate::Rename {
            to: wanted.name.clone(),
        };
        admin::carry_out(meta, Deletion::of(&name, false, fate), &mut wait::pauses())?;
        find(meta, &wanted.name)
    });
    Ok(Tagged(StatusCode::OK, renamed.await?))
}
