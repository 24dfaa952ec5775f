//! Snapshots of a volume, and the volumes that are cloned from them.

use super::input::{Body, Known, KnownWell, Labels, Named, Names, Pairs, Parameters, WantedLabels, cut_by_number, now};
use super::volumes::{self, Volume};
use super::wait;
use crate::condition::{Identity, IfMatch};
use crate::page::{Cursor, Page, Tagged};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, DataKeys, TakingState};
use amita_metadata::Transact;
use amita_types::VolumeId;
use amita_types::map;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_all))
        .routes(routes!(list, create))
        .routes(routes!(show, change, remove))
        .routes(routes!(clones, make_clone))
}

/// A snapshot: a volume as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Snapshot {
    /// The volume's name.
    pub volume: String,
    /// Its name, unique among those of the volume; empty: it was deleted, and stays for the volumes that were cloned from it.
    pub name: String,
    /// Its number, in the order in which they were taken.
    pub number: u32,
    /// The volume's size then.
    pub size_bytes: u64,
    /// When it was asked for, in seconds since 1970.
    pub taken_at: u64,
    /// It is not to be deleted; with its volume it goes all the same.
    pub protected: bool,
    /// So many volumes were cloned from it and are there, deleted ones that are kept included.
    pub clones: u64,
    /// The number of the set that it was taken with; null: it was taken by itself.
    pub set: Option<u64>,
    /// It was deleted, and only its mark is kept: it cannot be read, and what was changed since can be told.
    pub mark: bool,
    /// It was deleted, and goes with the last volume that was cloned from it.
    pub hidden: bool,
    /// What the operator says of it.
    pub labels: BTreeMap<String, String>,
}

impl Snapshot {
    pub(super) fn of(volume: &str, found: map::Snapshot) -> Snapshot {
        Snapshot {
            volume: volume.to_owned(),
            name: if found.hidden { String::new() } else { found.name },
            number: found.number.0,
            size_bytes: found.size_bytes,
            taken_at: found.taken_at,
            protected: found.protected,
            clones: found.clones,
            set: found.set.map(|set| set.0),
            mark: found.mark,
            hidden: found.hidden,
            labels: found.labels,
        }
    }
}

/// A snapshot that is to be taken.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    /// Its name: up to 128 letters, digits, and `. _ : + -` behind the first.
    pub name: String,
    /// What is to be known of it: up to 32.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// What of a snapshot is to be another; what is not there stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotChange {
    /// Is it to be protected from deletion?
    pub protected: Option<bool>,
}

/// A volume that is to be made from a snapshot.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewClone {
    /// The new volume's name.
    pub name: String,
    /// What is to be known of it: up to 32.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A volume that was cloned from a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SnapshotClone {
    /// The volume's name; of one that is deleted and kept, what it was called, with its number.
    pub name: String,
}

/// Which snapshots.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Also those that were deleted, and stay hidden for as long as the volumes that were cloned from them.
    #[serde(default)]
    #[param(default = false)]
    all: bool,
}

/// What is to be left of it.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Keep {
    /// Its name stays, as a mark: it takes no space, and what was changed since can be told still. The same without this deletes the mark.
    #[serde(default)]
    #[param(default = false)]
    keep_mark: bool,
}

/// A snapshot in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// The volume's name.
    name: String,
    /// The snapshot's name.
    snapshot: String,
}

fn find(meta: &dyn Transact, volume: &str, name: &str) -> Result<Snapshot, AdminError> {
    look(meta, volume, name).map(|(snapshot, _)| snapshot)
}

fn look(meta: &dyn Transact, volume: &str, name: &str) -> Result<(Snapshot, Identity), AdminError> {
    let found = admin::snapshot_or_mark(meta, volume, name)?;
    let records = vec![map::snapshot_key(found.volume, found.number)];
    let snapshot = Snapshot::of(volume, found);
    let identity = Identity::of(&snapshot, records);
    Ok((snapshot, identity))
}

/// The snapshots of all volumes, in the order of their volumes' names and of their numbers; those that are hidden are not among them.
#[utoipa::path(get, path = "/snapshots", operation_id = "listAllSnapshots", tag = "snapshots", params(Cursor, Labels),
    responses((status = 200, body = Page<Snapshot>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list_all(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
    Parameters(pairs): Pairs,
) -> Result<Json<Page<Snapshot>>, Problem> {
    let wanted = WantedLabels::of(&pairs)?;
    let page = api.run(asker, move |session| {
        let all = admin::every_snapshot(&session.reader())?.into_iter();
        let all = all.filter(|(_, found)| wanted.fit(&found.labels));
        // No name of a volume has a blank, so that none is the beginning of another one's keys.
        let keyed = all.map(|(volume, found)| {
            let key = format!("{volume} {:010}", found.number.0);
            (key, Snapshot::of(&volume, found))
        });
        let page = cursor.cut(keyed, |(key, _)| key.as_str())?;
        Ok(Page {
            items: page.items.into_iter().map(|(_, snapshot)| snapshot).collect(),
            next: page.next,
        })
    });
    page.await.map(Json)
}

/// A volume's snapshots, in the order in which they were taken.
#[utoipa::path(get, path = "/volumes/{name}/snapshots", operation_id = "listSnapshots", tag = "snapshots",
    params(Named, Cursor, Filter),
    responses((status = 200, body = Page<Snapshot>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Names(volume): Names<String>,
    Parameters(cursor): Parameters<Cursor>,
    Parameters(filter): Parameters<Filter>,
) -> Result<Json<Page<Snapshot>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = match filter.all {
            true => admin::all_snapshots(&session.reader(), &volume)?,
            false => admin::snapshots(&session.reader(), &volume)?,
        };
        let all = all.into_iter().map(|found| Snapshot::of(&volume, found));
        cut_by_number(&cursor, all, |snapshot| u64::from(snapshot.number))
    });
    page.await.map(Json)
}

/// Takes a snapshot: all that is acknowledged by now, by whatever gateway, and nothing that comes later.
///
/// Nothing is copied, and no I/O waits. It is taken by the volume's owner; where that does not do it within a few seconds it is given up.
#[utoipa::path(post, path = "/volumes/{name}/snapshots", operation_id = "createSnapshot", tag = "snapshots",
    request_body = NewSnapshot, params(Named),
    responses((status = 201, body = Snapshot, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create(
    State(api): State<Api>,
    asker: Asker,
    Names(volume): Names<String>,
    Body(wanted): Body<NewSnapshot>,
) -> Result<Tagged<Snapshot>, Problem> {
    let taken = api.run(asker, move |session| {
        let NewSnapshot { name, labels } = wanted;
        let object = format!("{volume}@{name}");
        let state = session.act(Action::SnapshotCreate, &object, |meta| {
            let wish = admin::ask_snapshot(meta, &volume, &name, labels, now())?;
            await_taken(meta, &wish)
        });
        match state? {
            TakingState::Taken(snapshot) => Ok(Snapshot::of(&volume, snapshot)),
            TakingState::Refused(why) => {
                Err(Problem::new(Code::WrongState, format!("snapshot {object} cannot be taken: {why}")))
            }
            _ => Err(Problem::new(
                Code::NotInTime,
                format!(
                    "snapshot {object} was not taken within {} seconds, and is given up: no gateway opens the volume, or a store of it \
                     does not answer and is not out of its groups yet; see the cluster's health, and try again",
                    wait::PATIENCE.as_secs()
                ),
            )),
        }
    });
    Ok(Tagged(StatusCode::CREATED, taken.await?))
}

/// Waits until a snapshot is taken or refused, and gives it up when that takes too long.
fn await_taken(meta: &dyn Transact, wish: &map::SnapshotWish) -> Result<TakingState, AdminError> {
    let done = wait::until(|| {
        let state = admin::snapshot_state(meta, wish)?;
        Ok::<_, AdminError>(Some(state).filter(|state| *state != TakingState::Waiting))
    })?;
    match done {
        Some(state) => Ok(state),
        None => {
            admin::drop_snapshot_wish(meta, wish)?;
            // It may have been taken meanwhile.
            admin::snapshot_state(meta, wish)
        }
    }
}

/// A snapshot, or the mark of one.
#[utoipa::path(get, path = "/volumes/{name}/snapshots/{snapshot}", operation_id = "showSnapshot", tag = "snapshots",
    params(Which),
    responses((status = 200, body = Snapshot, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(api): State<Api>,
    asker: Asker,
    Names((volume, name)): Names<(String, String)>,
) -> Result<Tagged<Snapshot>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &volume, &name)?));
    Ok(Tagged(StatusCode::OK, found.await?))
}

/// Changes a snapshot: its protection. All else of it never changes.
#[utoipa::path(patch, path = "/volumes/{name}/snapshots/{snapshot}", operation_id = "changeSnapshot", tag = "snapshots",
    request_body = SnapshotChange, params(Which, Known),
    responses((status = 200, body = Snapshot, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names((volume, name)): Names<(String, String)>,
    known: IfMatch,
    Body(change): Body<SnapshotChange>,
) -> Result<Tagged<Snapshot>, Problem> {
    let changed = api.run(asker, move |session| {
        session.permit(Action::SnapshotProtect, &format!("{volume}@{name}"))?;
        let held = known.check(session, |meta| look(meta, &volume, &name))?;
        if let Some(protected) = change.protected {
            held.act(Action::SnapshotProtect, &format!("{volume}@{name}"), |meta| {
                admin::protect_snapshot(meta, &volume, &name, protected)
            })?;
        }
        Ok(find(&session.reader(), &volume, &name)?)
    });
    Ok(Tagged(StatusCode::OK, changed.await?))
}

/// Deletes a snapshot; what nothing else needs of it comes back by and by.
///
/// One that volumes were cloned from loses its name and is hidden: it goes when the last of them is gone for good, or was flattened.
#[utoipa::path(delete, path = "/volumes/{name}/snapshots/{snapshot}", operation_id = "deleteSnapshot", tag = "snapshots",
    params(Which, Keep, KnownWell),
    responses((status = 200, description = "What is left of it: nothing, where it is neither a mark nor hidden.", body = Snapshot),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names((volume, name)): Names<(String, String)>,
    Parameters(Keep { keep_mark }): Parameters<Keep>,
    known: IfMatch,
) -> Result<Json<Snapshot>, Problem> {
    let removed = api.run(asker, move |session| {
        let held = known.demand(session, |meta| look(meta, &volume, &name))?;
        let object = format!("{volume}@{name}");
        let deleted = held.act(Action::SnapshotDelete, &object, |meta| match keep_mark {
            false => admin::delete_snapshot(meta, &volume, &name),
            true => admin::mark_snapshot(meta, &volume, &name),
        })?;
        Ok(Snapshot::of(&volume, deleted))
    });
    removed.await.map(Json)
}

/// The volumes that were cloned from a snapshot, in the order of their names.
#[utoipa::path(get, path = "/volumes/{name}/snapshots/{snapshot}/clones", operation_id = "listClones", tag = "snapshots",
    params(Which, Cursor),
    responses((status = 200, body = Page<SnapshotClone>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn clones(
    State(api): State<Api>,
    asker: Asker,
    Names((volume, name)): Names<(String, String)>,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<SnapshotClone>>, Problem> {
    let page = api.run(asker, move |session| {
        let reader = session.reader();
        let number = admin::snapshot_or_mark(&reader, &volume, &name)?.number;
        let of = admin::volume(&reader, &volume)?;
        let mut names = admin::clones(&reader, &of, Some(number))?;
        names.sort_unstable();
        cursor.cut(names.into_iter().map(|name| SnapshotClone { name }), |clone| {
            clone.name.as_str()
        })
    });
    page.await.map(Json)
}

/// Makes a volume that begins as a snapshot of another one, and goes its own way.
///
/// Nothing is copied: both share all blocks, and each write takes space for its own. The snapshot stays for as long as the clone does,
/// hidden where it is deleted, or until that is flattened.
#[utoipa::path(post, path = "/volumes/{name}/snapshots/{snapshot}/clones", operation_id = "createClone", tag = "snapshots",
    request_body = NewClone, params(Which),
    responses((status = 201, body = Volume, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn make_clone(
    State(api): State<Api>,
    asker: Asker,
    Names((volume, snapshot)): Names<(String, String)>,
    Body(wanted): Body<NewClone>,
) -> Result<Tagged<Volume>, Problem> {
    let NewClone { name, labels } = wanted;
    // Of an encrypted volume a clone has a key of its own.
    let keys = api.data_keys();
    let made = api.act(asker, Action::VolumeClone, name.clone(), move |meta| {
        let about = map::About {
            created_at: Some(now().as_secs()),
            labels,
            ..map::About::of(VolumeId(0))
        };
        let keys = keys.as_deref().map(|keys| keys as &dyn DataKeys);
        admin::clone_volume_with(meta, keys, (&volume, &snapshot), &name, &about)?;
        volumes::find(meta, &name)
    });
    Ok(Tagged(StatusCode::CREATED, made.await?))
}
