//! Sets: snapshots of several volumes at one moment.

use super::input::{Body, Parameters, cut_by_number, now};
use super::wait;
use crate::page::{Cursor, Page};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, SetTaking, TakenSet};
use amita_metadata::Transact;
use amita_types::map;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list, create))
}

/// Snapshots of several volumes that were taken at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SnapshotSet {
    /// Its number.
    pub id: u64,
    /// What each of its snapshots is called.
    pub name: String,
    /// When it was asked for, in seconds since 1970.
    pub taken_at: u64,
    /// The names of the volumes whose snapshots of it are there.
    pub volumes: Vec<String>,
}

impl From<TakenSet> for SnapshotSet {
    fn from(found: TakenSet) -> SnapshotSet {
        SnapshotSet {
            id: found.id.0,
            name: found.name,
            taken_at: found.taken_at,
            volumes: found.volumes,
        }
    }
}

/// A set that is to be taken.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSnapshotSet {
    /// What each of its snapshots is called: up to 128 letters, digits, and `. _ : + -` behind the first.
    pub name: String,
    /// The names of the volumes, of any pools; up to 1,024.
    pub volumes: Vec<String>,
    /// What is to be known of each snapshot: up to 32.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// The sets of which snapshots are there, in the order of their numbers.
#[utoipa::path(get, path = "/snapshot-sets", operation_id = "listSnapshotSets", tag = "snapshots", params(Cursor),
    responses((status = 200, body = Page<SnapshotSet>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<SnapshotSet>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::taken_sets(&session.reader())?.into_iter().map(SnapshotSet::from);
        cut_by_number(&cursor, all, |set| set.id)
    });
    page.await.map(Json)
}

/// Takes snapshots of several volumes at one moment, all of one name: a database with its log, or the disks of a machine.
///
/// Either all of them are taken or none is. Where that does not happen within a few seconds it is given up.
#[utoipa::path(post, path = "/snapshot-sets", operation_id = "createSnapshotSet", tag = "snapshots",
    request_body = NewSnapshotSet,
    responses((status = 201, body = SnapshotSet),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewSnapshotSet>,
) -> Result<(StatusCode, Json<SnapshotSet>), Problem> {
    let taken = api.run(asker, move |session| {
        let NewSnapshotSet { name, volumes, labels } = wanted;
        let named: Vec<String> = volumes.iter().map(|volume| format!("{volume}@{name}")).collect();
        let (set, state) = session.act(Action::SnapshotSetCreate, &named.join(" "), |meta| {
            let set = admin::ask_set(meta, &volumes, &name, labels, now())?;
            let state = await_set(meta, &set)?;
            Ok::<_, AdminError>((set, state))
        })?;
        match state {
            SetTaking::Taken(_) => Ok(SnapshotSet {
                id: set.id.0,
                name,
                taken_at: set.asked_at,
                volumes: set.volumes.into_iter().map(|volume| volume.name).collect(),
            }),
            SetTaking::Void(voided) => {
                let why = format!(
                    "set {name:?} cannot be taken, and none of its snapshots is: {}",
                    voided.why
                );
                Err(Problem::new(Code::NotInTime, why))
            }
            other => Err(not_noted(&set, &other)),
        }
    });
    Ok((StatusCode::CREATED, Json(taken.await?)))
}

/// The time is up, and the set is decided: it stays, whoever waits for it.
fn not_noted(set: &map::SnapshotSet, state: &SetTaking) -> Problem {
    let open = match state {
        SetTaking::Decided { open } => format!("{open} of its volumes' owners have not noted their snapshots yet"),
        _ => "it is not known how many of its snapshots are noted".to_owned(),
    };
    let why = format!(
        "set {} ({:?}) is taken and stays, but {open}. Do not take it again: the list of sets has it as soon as they have",
        set.id, set.name
    );
    Problem::new(Code::NotInTime, why)
}

/// Waits until a set is taken or void, and gives it up when that takes too long. One that is decided stays.
fn await_set(meta: &dyn Transact, set: &map::SnapshotSet) -> Result<SetTaking, AdminError> {
    let is_open = |state: &SetTaking| matches!(state, SetTaking::Waiting | SetTaking::Decided { .. });
    let ended = wait::until(|| {
        let state = admin::set_state(meta, set)?;
        Ok::<_, AdminError>(Some(state).filter(|state| !is_open(state)))
    })?;
    if let Some(state) = ended {
        return Ok(state);
    }
    let why = format!(
        "it was not taken within {} seconds, and is given up: no gateway opens one of its volumes, or a store does not answer and is not \
         out of its groups yet",
        wait::PATIENCE.as_secs()
    );
    // One that is decided meanwhile stays.
    admin::drop_set(meta, set, &why)?;
    admin::set_state(meta, set)
}
