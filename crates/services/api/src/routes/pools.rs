//! Pools: what a block is kept as, and where.

use super::input::{Body, Force, Known, Named, Names, Parameters, Settings, Shown, cut_by_number, nullable};
use super::stores::Outlook;
use crate::condition::{Held, Identity, IfMatch};
use crate::page::{Cursor, Page};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, DEFAULT_CHUNK_BYTES, PoolChange as Change, PoolSpec, PoolStatus};
use amita_metadata::Transact;
use amita_types::PoolId;
use amita_types::map::{self, Group as GroupRecord, PoolKind};
use amita_types::placement::Level as PlacementLevel;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, change, remove))
        .routes(routes!(groups))
}

/// What may fail as one: copies of a group are kept apart by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// A disk: copies may lie on one node.
    Disk,
    /// A node.
    Node,
    /// A rack of nodes.
    Rack,
    /// A site of racks.
    Site,
}

impl From<Level> for PlacementLevel {
    fn from(level: Level) -> PlacementLevel {
        match level {
            Level::Disk => PlacementLevel::Disk,
            Level::Node => PlacementLevel::Node,
            Level::Rack => PlacementLevel::Rack,
            Level::Site => PlacementLevel::Site,
        }
    }
}

impl From<PlacementLevel> for Level {
    fn from(level: PlacementLevel) -> Level {
        match level {
            PlacementLevel::Disk => Level::Disk,
            PlacementLevel::Node => Level::Node,
            PlacementLevel::Rack => Level::Rack,
            PlacementLevel::Site => Level::Site,
        }
    }
}

/// How many groups of a pool are how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupCounts {
    /// All copies are in sync.
    pub whole: u64,
    /// Some copy is missing; writes go on.
    pub degraded: u64,
    /// As few copies as writes need.
    pub at_min_copies: u64,
    /// Members in sync are gone: writes wait until they are evicted or back.
    pub waiting: u64,
    /// Of those: so few are left that nobody can be evicted; they wait until somebody is back.
    pub below: u64,
    /// Some member is being brought up to date.
    pub syncing: u64,
    /// Not all that are to hold it are in sync, or others are as well.
    pub moving: u64,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// The number that it has for ever.
    pub id: u32,
    /// Copies of each block; null: it is of a kind that this node does not know.
    pub copies: Option<u8>,
    /// Writes wait while fewer copies than these are in sync.
    pub min_copies: Option<u8>,
    /// What may fail as one: copies are kept apart by it.
    pub level: Level,
    /// Only stores of this class hold it; null: any.
    pub class: Option<String>,
    /// How many groups its chunks are spread over.
    pub groups: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// How its groups are.
    pub group_counts: GroupCounts,
    /// What is still to be done with it.
    pub outlook: Outlook,
    /// The UUIDs of the stores that its groups name.
    pub stores: Vec<String>,
    /// Bytes for data of those of them that are served. Other pools may use the same stores; each block takes as many as it has copies.
    pub raw_bytes: u64,
    /// Of them, bytes that hold something.
    pub used_bytes: u64,
    /// Of them, free bytes.
    pub free_bytes: u64,
    /// How full the fullest of its stores is, of a hundred: a write fails when one store of its group has nothing left.
    pub fullest_percent: Option<u8>,
}

impl From<PoolStatus> for Pool {
    fn from(found: PoolStatus) -> Pool {
        let (copies, min_copies) = match found.pool.kind {
            PoolKind::Replicated { copies, min_copies } => (Some(copies), Some(min_copies)),
            _ => (None, None),
        };
        let counts = found.group_counts;
        Pool {
            name: found.pool.name,
            id: found.pool.id.0,
            copies,
            min_copies,
            level: found.pool.failure_domain.into(),
            class: found.pool.class,
            groups: found.pool.groups,
            chunk_bytes: found.pool.chunk_bytes,
            group_counts: GroupCounts {
                whole: counts.whole as u64,
                degraded: counts.degraded as u64,
                at_min_copies: counts.at_min_copies as u64,
                waiting: counts.waiting as u64,
                below: counts.below as u64,
                syncing: counts.syncing as u64,
                moving: counts.moving as u64,
            },
            outlook: found.outlook.into(),
            stores: found.stores.iter().map(ToString::to_string).collect(),
            raw_bytes: found.raw_bytes,
            used_bytes: found.used_bytes,
            free_bytes: found.raw_bytes.saturating_sub(found.used_bytes),
            fullest_percent: found.fullest_percent,
        }
    }
}

/// How much of a pool may be asked for; null is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Quota {
    /// The sum of its volumes' sizes, at most.
    pub provisioned_bytes: Option<u64>,
    /// Volumes, at most.
    pub volumes: Option<u64>,
    /// Snapshots of all its volumes, at most.
    pub snapshots: Option<u64>,
}

/// What is asked for in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Asked {
    /// The sum of its volumes' sizes.
    pub provisioned_bytes: u64,
    /// Volumes.
    pub volumes: u64,
    /// Snapshots of all of them; those that are being taken count.
    pub snapshots: u64,
}

/// A pool with what is asked for in it, and what may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PoolDetails {
    /// The pool.
    #[serde(flatten)]
    pub pool: Pool,
    /// For how long deleted volumes can be had back, in seconds; 0: they are gone at once.
    pub recycle_seconds: u64,
    /// How much may be asked for.
    pub quota: Quota,
    /// How much is asked for.
    pub asked: Asked,
}

impl Settings for PoolDetails {
    fn settings(&self) -> impl Serialize {
        let Pool {
            id,
            name,
            copies,
            level,
            class,
            ..
        } = &self.pool;
        (id, name, copies, level, class, self.recycle_seconds, self.quota)
    }
}

/// A pool that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPool {
    /// Its name: 1 to 200 letters, digits and `. _ -`, not beginning with `.` or `-`.
    pub name: String,
    /// Copies of each block, each on a node of its own; 3 where it is not said.
    #[schema(default = 3)]
    pub copies: Option<u8>,
    /// Writes wait while fewer copies than these are in sync; 2 where it is not said.
    #[schema(default = 2)]
    pub min_copies: Option<u8>,
    /// How many groups its chunks are spread over: a power of two; 32 where it is not said.
    #[schema(default = 32)]
    pub groups: Option<u32>,
    /// What may fail as one; `node` where it is not said.
    pub level: Option<Level>,
    /// Only stores of this class hold it; null: any.
    pub class: Option<String>,
}

/// What of a quota is to be another; what is not there stays, null is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaChange {
    /// The sum of its volumes' sizes in bytes, at most.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub provisioned_bytes: Option<Option<u64>>,
    /// Volumes, at most.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub volumes: Option<Option<u64>>,
    /// Snapshots of all its volumes, at most.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub snapshots: Option<Option<u64>>,
}

/// What of a pool is to be another; what is not there stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolChange {
    /// Copies of each block.
    pub copies: Option<u8>,
    /// What may fail as one.
    pub level: Option<Level>,
    /// Only stores of this class hold it; null: any.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub class: Option<Option<String>>,
    /// For how long deleted volumes can be had back, in seconds; 0: they are gone at once. Those that are deleted already stay for as
    /// long as was said then.
    pub recycle_seconds: Option<u64>,
    /// How much may be asked for. Nothing is taken away that is there, and no write is refused.
    pub quota: Option<QuotaChange>,
}

/// A pool that was changed, and what follows.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PoolChanged {
    /// The pool as it is now.
    pub pool: PoolDetails,
    /// What the cluster does about it; null: nothing that places data was changed.
    pub outlook: Option<Outlook>,
}

impl Settings for PoolChanged {
    fn settings(&self) -> impl Serialize {
        self.pool.settings()
    }
}

/// Who holds a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Group {
    /// Its number in the pool, from 0 on.
    pub index: u32,
    /// How often who holds it has changed.
    pub epoch: u64,
    /// The UUIDs of the stores that are to hold it.
    pub members: Vec<String>,
    /// The UUIDs of those that hold everything that was acknowledged.
    pub in_sync: Vec<String>,
    /// The UUIDs of those that are being brought up to date.
    pub syncing: Vec<String>,
}

impl From<GroupRecord> for Group {
    fn from(found: GroupRecord) -> Group {
        Group {
            index: found.index.0,
            epoch: found.epoch.0,
            members: found.members.iter().map(ToString::to_string).collect(),
            in_sync: found.in_sync.iter().map(ToString::to_string).collect(),
            syncing: found.syncing.iter().map(|found| found.store.to_string()).collect(),
        }
    }
}

fn find(meta: &dyn Transact, name: &str) -> Result<PoolDetails, AdminError> {
    let pools = admin::members(meta)?.pools;
    let there = pools.iter().map(|found| found.pool.name.clone()).collect();
    let found = pools.into_iter().find(|found| found.pool.name == name);
    let pool = found.map(Pool::from).ok_or_else(|| AdminError::NoSuch {
        what: "pool",
        name: name.to_owned(),
        there,
    })?;
    let (quota, asked) = (admin::quota(meta, name)?, admin::asked(meta, name)?);
    Ok(PoolDetails {
        pool,
        recycle_seconds: admin::recycle_time(meta, name)?.as_secs(),
        quota: Quota {
            provisioned_bytes: quota.provisioned_bytes,
            volumes: quota.volumes,
            snapshots: quota.snapshots,
        },
        asked: Asked {
            provisioned_bytes: asked.provisioned_bytes,
            volumes: asked.volumes,
            snapshots: asked.snapshots,
        },
    })
}

fn look(meta: &dyn Transact, name: &str) -> Result<(PoolDetails, Identity), AdminError> {
    let found = find(meta, name)?;
    let id = PoolId(found.pool.id);
    let records = vec![map::pool_key(name), map::quota_key(id), map::recycling_key(id)];
    let identity = Identity::of(&found.settings(), records);
    Ok((found, identity))
}

/// The pools, in the order of their names.
#[utoipa::path(get, path = "/pools", operation_id = "listPools", tag = "pools", params(Cursor),
    responses((status = 200, body = Page<Pool>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Pool>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::members(&session.reader())?.pools.into_iter().map(Pool::from);
        cursor.cut(all, |pool| pool.name.as_str())
    });
    page.await.map(Json)
}

/// Makes a pool of the stores that the cluster knows.
#[utoipa::path(post, path = "/pools", operation_id = "createPool", tag = "pools", request_body = NewPool,
    responses((status = 201, body = PoolDetails, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewPool>,
) -> Result<Shown<PoolDetails>, Problem> {
    let spec = PoolSpec {
        name: wanted.name,
        copies: wanted.copies.unwrap_or(3),
        min_copies: wanted.min_copies.unwrap_or(2),
        groups: wanted.groups.unwrap_or(32),
        chunk_bytes: DEFAULT_CHUNK_BYTES,
        level: wanted.level.unwrap_or(Level::Node).into(),
        class: wanted.class,
    };
    let made = api.act(asker, Action::PoolCreate, spec.name.clone(), move |meta| {
        admin::create_pool(meta, &spec)?;
        find(meta, &spec.name)
    });
    Ok(Shown(StatusCode::CREATED, made.await?))
}

/// A pool, with what is asked for in it and what may be.
#[utoipa::path(get, path = "/pools/{name}", operation_id = "showPool", tag = "pools", params(Named),
    responses((status = 200, body = PoolDetails, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Shown<PoolDetails>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    Ok(Shown(StatusCode::OK, found.await?))
}

/// Changes a pool: its rule, for how long deleted volumes are kept, how much may be asked for.
///
/// After a change of the rule its groups are placed anew, and move as far as they must. A rule that could not be met with the stores
/// that there are is refused, unless `force` says otherwise.
#[utoipa::path(patch, path = "/pools/{name}", operation_id = "changePool", tag = "pools", request_body = PoolChange,
    params(Named, Known, Force),
    responses((status = 200, body = PoolChanged, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(Force { force }): Parameters<Force>,
    known: IfMatch,
    Body(change): Body<PoolChange>,
) -> Result<Shown<PoolChanged>, Problem> {
    let changed = api.run(asker, move |session| {
        session.permit(Action::PoolSet, &name)?;
        let held = known.check(session, |meta| look(meta, &name))?;
        let outlook = change_all(&held, &name, change, force)?;
        let pool = find(&session.reader(), &name)?;
        Ok(PoolChanged { pool, outlook })
    });
    Ok(Shown(StatusCode::OK, changed.await?))
}

fn change_all(
    held: &Held<'_, PoolDetails>,
    name: &str,
    change: PoolChange,
    force: bool,
) -> Result<Option<Outlook>, Problem> {
    let PoolChange {
        copies,
        level,
        class,
        recycle_seconds,
        quota,
    } = change;
    let mut outlook = None;
    if copies.is_some() || level.is_some() || class.is_some() {
        let rule = Change {
            copies,
            level: level.map(PlacementLevel::from),
            class,
        };
        let (_, found) = held.act(Action::PoolSet, name, |meta| {
            admin::change_pool(meta, name, &rule, force)
        })?;
        outlook = Some(found.into());
    }
    if let Some(seconds) = recycle_seconds {
        let time = Duration::from_secs(seconds);
        held.act(Action::PoolRecycle, name, |meta| {
            admin::set_recycle_time(meta, name, time)
        })?;
    }
    if let Some(wanted) = quota.filter(|wanted| *wanted != QuotaChange::default()) {
        held.act(Action::PoolQuota, name, |meta| {
            admin::set_quota(meta, name, |quota| {
                quota.provisioned_bytes = wanted.provisioned_bytes.unwrap_or(quota.provisioned_bytes);
                quota.volumes = wanted.volumes.unwrap_or(quota.volumes);
                quota.snapshots = wanted.snapshots.unwrap_or(quota.snapshots);
            })
        })?;
    }
    Ok(outlook)
}

/// Deletes a pool that nothing lies in.
#[utoipa::path(delete, path = "/pools/{name}", operation_id = "deletePool", tag = "pools", params(Named, Known),
    responses((status = 204, description = "It is gone."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        let held = known.check(session, |meta| look(meta, &name))?;
        held.act(Action::PoolDelete, &name, |meta| admin::delete_pool(meta, &name))?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}

/// The groups of a pool, in the order of their numbers.
#[utoipa::path(get, path = "/pools/{name}/groups", operation_id = "listGroups", tag = "pools", params(Named, Cursor),
    responses((status = 200, body = Page<Group>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn groups(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Group>>, Problem> {
    let page = api.run(asker, move |session| {
        let pools = admin::pools(&session.reader())?;
        let there = pools.iter().map(|pool| pool.name.clone()).collect();
        let found = pools.into_iter().find(|pool| pool.name == name);
        let pool = found.ok_or(AdminError::NoSuch {
            what: "pool",
            name,
            there,
        })?;
        let all = admin::groups(&session.reader(), pool.id)?.into_iter().map(Group::from);
        cut_by_number(&cursor, all, |group| u64::from(group.index))
    });
    page.await.map(Json)
}
