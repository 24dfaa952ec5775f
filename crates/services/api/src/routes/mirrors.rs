//! Mirrors: volumes that another cluster has as well, and which end of them may be written.

mod pair;

use super::input::{Body, Named, Names, Parameters, now, nullable};
use super::wait;
use crate::page::{Cursor, Page};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, MirrorChange};
use amita_control::mirror::{self, MirrorView};
use amita_types::map::{Mirror, MirrorRole, Paused, PointName, Standing};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Who was seen within this is that still, as far as one knows: what is seen is noted every 30 s where nothing changes.
const SEEN_S: u64 = 45;
/// Who was not seen for so long does not answer: `mirror-unheard` says so of it.
const UNHEARD_S: u64 = 120;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, pair::create))
        .routes(routes!(pair::join))
        .routes(routes!(pair::create_token))
        .routes(routes!(show, change, remove))
        .routes(routes!(demote))
        .routes(routes!(promote))
        .routes(routes!(resync))
        .routes(routes!(pause))
        .routes(routes!(resume))
}

/// One end of a mirror: this cluster's.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MirrorShown {
    /// What it is called in this cluster.
    #[schema(example = "dr")]
    pub name: String,
    /// Its number, the same at both ends.
    #[schema(example = "0f8fad5b-d9cb-469f-a165-70867728950e")]
    pub id: String,
    /// `primary`, `demoting`, `secondary`, `promoting` or `deposed`. Hosts use the volumes of a primary, and of nothing else.
    #[schema(example = "primary")]
    pub role: String,
    /// The epoch of the right to write that it is in.
    pub epoch: u64,
    /// The point that a secondary is at, as EPOCH-NUMBER; null: none.
    #[schema(example = "2-117")]
    pub point: Option<String>,
    /// The points that it has, in the order of their names.
    pub points: Vec<MirrorPointShown>,
    /// It was demoted in order, and waits to be followed.
    pub handed: bool,
    /// It was promoted by force, and the ends have not agreed since.
    pub split: bool,
    /// It stands still; null: it does not.
    pub paused: Option<MirrorPause>,
    /// Why it does not go on; null: it does. It is tried again.
    pub ails: Option<String>,
    /// What is being brought; null: nothing.
    pub pass: Option<MirrorPassShown>,
    /// What both ends call its volumes.
    pub volumes: Vec<String>,
    /// The other end.
    pub peer: MirrorPeerShown,
    /// What that was when it was looked at last; null: it was never.
    pub seen: Option<MirrorSeen>,
    /// How old the point is that a secondary is at, in seconds; null: it is at none.
    pub lag_s: Option<u64>,
    /// From this lag on it is late.
    pub late_after_s: u64,
    /// Points follow each other after so many seconds.
    pub interval_s: u64,
    /// A secondary keeps so many points beside the one that it is at.
    pub keep: u32,
    /// At most so many bytes a second are read and sent; null: as many as can be.
    pub limit_bytes_per_second: Option<u64>,
    /// It is late from this lag on; null: from three intervals on.
    pub alert_after_s: Option<u64>,
    /// As primary it goes on when it hears of a later epoch, and says that there is a split.
    pub never_deposed: bool,
}

/// A point: a set of snapshots of all volumes of a mirror, at one moment.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MirrorPointShown {
    /// EPOCH-NUMBER, the same at both ends.
    #[schema(example = "2-117")]
    pub name: String,
    /// When it was cut, in seconds since 1970, by the clock of the cluster that cut it.
    pub cut_at: u64,
    /// What the snapshots are called here, of each volume.
    pub snapshots: String,
}

/// Who has a mirror stand still.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MirrorPause {
    /// Who, as the audit log names them.
    pub by: String,
    /// Since when, in seconds since 1970.
    pub at: u64,
}

/// What is being brought from the other end.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MirrorPassShown {
    /// The point, as EPOCH-NUMBER.
    pub to: String,
    /// When that was cut, in seconds since 1970, by the clock of the other end.
    pub cut_at: u64,
    /// The point that it is compared with; null: all is read.
    pub base: Option<String>,
    /// How far each volume is.
    pub volumes: Vec<MirrorPassVolume>,
}

/// How far a volume is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MirrorPassVolume {
    /// What both ends call it.
    pub name: String,
    /// Everything before is the point's.
    pub done_bytes: u64,
    /// Of so many.
    pub total_bytes: u64,
    /// Bytes that were brought.
    pub written_bytes: u64,
    /// All of it is the point's.
    pub whole: bool,
}

/// The other end.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MirrorPeerShown {
    /// Its cluster; null: it has not said.
    pub cluster: Option<String>,
    /// Addresses of its API.
    pub addresses: Vec<String>,
}

/// What the other end was.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MirrorSeen {
    /// As `role` of a mirror.
    pub role: String,
    /// In which epoch.
    pub epoch: u64,
    /// The point that it is at; null: none.
    pub point: Option<String>,
    /// It was demoted in order.
    pub handed: bool,
    /// When, in seconds since 1970, by this cluster's clock.
    pub at: u64,
}

impl MirrorShown {
    fn of(mirror: &Mirror) -> MirrorShown {
        mirror::view(mirror, now().as_secs()).into()
    }
}

impl From<MirrorView> for MirrorShown {
    fn from(view: MirrorView) -> MirrorShown {
        let points = view.points.into_iter().map(|point| MirrorPointShown {
            name: point.name,
            cut_at: point.cut_at,
            snapshots: point.snapshots,
        });
        let pass = view.pass.map(|pass| MirrorPassShown {
            to: pass.to,
            cut_at: pass.cut_at,
            base: pass.base,
            volumes: pass
                .volumes
                .into_iter()
                .map(|volume| MirrorPassVolume {
                    name: volume.name,
                    done_bytes: volume.done_bytes,
                    total_bytes: volume.total_bytes,
                    written_bytes: volume.written_bytes,
                    whole: volume.whole,
                })
                .collect(),
        });
        MirrorShown {
            name: view.name,
            id: view.id,
            role: view.role,
            epoch: view.epoch,
            point: view.point,
            points: points.collect(),
            handed: view.handed,
            split: view.split,
            paused: view.paused.map(|paused| MirrorPause {
                by: paused.by,
                at: paused.at,
            }),
            ails: view.ails,
            pass,
            volumes: view.volumes,
            peer: MirrorPeerShown {
                cluster: view.peer.cluster,
                addresses: view.peer.addresses,
            },
            seen: view.seen.map(|seen| MirrorSeen {
                role: seen.role,
                epoch: seen.epoch,
                point: seen.point,
                handed: seen.handed,
                at: seen.at,
            }),
            lag_s: view.lag_s,
            late_after_s: view.late_after_s,
            interval_s: view.interval_s,
            keep: view.keep,
            limit_bytes_per_second: view.limit_bytes_per_second,
            alert_after_s: view.alert_after_s,
            never_deposed: view.never_deposed,
        }
    }
}

/// The mirrors of this cluster, in the order of their names.
#[utoipa::path(get, path = "/mirrors", operation_id = "listMirrors", tag = "mirrors", params(Cursor),
    responses((status = 200, body = Page<MirrorShown>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<MirrorShown>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::mirrors(&session.reader())?;
        cursor.cut(all.iter().map(MirrorShown::of), |mirror| mirror.name.as_str())
    });
    page.await.map(Json)
}

/// A mirror, as this end of it is.
#[utoipa::path(get, path = "/mirrors/{name}", operation_id = "showMirror", tag = "mirrors", params(Named),
    responses((status = 200, body = MirrorShown),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Json<MirrorShown>, Problem> {
    let found = api.run(asker, move |session| {
        Ok(MirrorShown::of(&admin::mirror(&session.reader(), &name)?))
    });
    found.await.map(Json)
}

/// What is to be another of a mirror, at this end; what is not said stays.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MirrorChanges {
    /// Points follow each other after so many seconds: 10 at least.
    pub interval_s: Option<u64>,
    /// A secondary keeps so many points beside the one that it is at.
    pub keep: Option<u32>,
    /// At most so many bytes a second are read and sent: 65536 at least; null: as many as can be.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub limit_bytes_per_second: Option<Option<u64>>,
    /// It is late from this lag on; null: from three intervals on.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub alert_after_s: Option<Option<u64>>,
}

/// Changes how often points are cut, how many are kept, how fast they are brought, and from when on that is late.
#[utoipa::path(patch, path = "/mirrors/{name}", operation_id = "changeMirror", tag = "mirrors", params(Named),
    request_body = MirrorChanges,
    responses((status = 200, body = MirrorShown),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<MirrorChanges>,
) -> Result<Json<MirrorShown>, Problem> {
    let changed = api.act(asker, Action::MirrorSet, name.clone(), move |meta| {
        let change = MirrorChange {
            interval: wanted.interval_s.map(Duration::from_secs),
            keep: wanted.keep,
            limit_bytes_per_s: wanted.limit_bytes_per_second.map(Option::unwrap_or_default),
            alert_after: wanted
                .alert_after_s
                .map(|after| Duration::from_secs(after.unwrap_or_default())),
        };
        Ok(MirrorShown::of(&admin::set_mirror(meta, &name, &change)?))
    });
    changed.await.map(Json)
}

/// Whether hosts are to be cut off.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MirrorDemotion {
    /// Also where hosts use its volumes: they get errors.
    #[serde(default)]
    #[schema(default = false)]
    pub force: bool,
}

/// Demotes this end, the primary: hosts are refused, its last point is cut, and the other end may be promoted at that, with nothing lost.
///
/// It goes on by itself: it is a `secondary` that is `handed` when it is done.
#[utoipa::path(post, path = "/mirrors/{name}/demote", operation_id = "demoteMirror", tag = "mirrors", params(Named),
    request_body = MirrorDemotion,
    responses((status = 202, body = MirrorShown),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn demote(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(how): Body<MirrorDemotion>,
) -> Result<(StatusCode, Json<MirrorShown>), Problem> {
    let demoted = api.run(asker, move |session| {
        session.permit(Action::MirrorDemote, &name)?;
        let demoted = session.act(Action::MirrorDemote, &name, |meta| {
            match how.force {
                true => admin::demote_mirror(meta, &name)?,
                false => admin::demote_unused(meta, &name, &mut wait::pauses())?,
            };
            // Whoever is at the mirror does the same, where this is cut short.
            admin::close_mirrored(meta, &name)?;
            admin::mirror(meta, &name)
        });
        Ok(MirrorShown::of(&demoted?))
    });
    Ok((StatusCode::ACCEPTED, Json(demoted.await?)))
}

/// How an end is to be promoted.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MirrorPromotion {
    /// Whatever the other end is, which may then be written as well until it hears of it: what it has acknowledged since this end's point is lost.
    #[serde(default)]
    #[schema(default = false)]
    pub force: bool,
    /// With `force`: the mirror's name, once more.
    pub confirm: Option<String>,
}

/// What is known of the other end, before force is used.
#[derive(Debug, PartialEq, Eq)]
enum Other {
    /// It is that now.
    Is(MirrorRole),
    /// It does not answer.
    Silent,
    /// It may be another thing by now.
    Unknown,
}

/// It is asked, where it can be from here; where it cannot, or refuses, or says what cannot be believed, by what whoever is at the mirror has seen, and
/// when: one that was seen a moment ago, and not just now, may be anything. Silent is who gives no answer at all.
fn other_end(found: &Mirror, asked: Option<Result<Standing, Problem>>, now: u64) -> Other {
    match (asked, &found.seen) {
        (Some(Ok(standing)), _) => Other::Is(standing.role),
        (Some(Err(why)), _) if why.code == Code::NotInTime.text() => Other::Silent,
        (_, None) => Other::Silent,
        (_, Some(seen)) => match now.checked_sub(seen.at) {
            Some(since) if since < SEEN_S => Other::Is(seen.standing.role),
            Some(since) if since >= UNHEARD_S => Other::Silent,
            // Or this end's clock was set back.
            _ => Other::Unknown,
        },
    }
}

/// By force only where the other end does not answer, or neither is the primary nor becomes it.
fn may_force(found: &Mirror, confirm: Option<&str>, other: impl FnOnce() -> Other) -> Result<(), Problem> {
    if confirm != Some(found.name.as_str()) {
        let why = "what the other end has acknowledged since this end's point is lost by that: say so by `confirm`, with the mirror's name";
        return Err(Problem::new(Code::BadSetting, why));
    }
    if found.standing.role != MirrorRole::Secondary {
        return Ok(());
    }
    match other() {
        Other::Is(role @ (MirrorRole::Primary | MirrorRole::Promoting)) => {
            let why = format!(
                "the other end is {role}, and answers: demote it, there; then promote this end in order, and nothing is lost"
            );
            Err(Problem::new(Code::WrongState, why))
        }
        Other::Unknown => {
            let why = format!(
                "the other end was heard a moment ago, and what it is now is not known here: ask again when it is heard, or was not for {UNHEARD_S} s                  (`amita mirror promote --force` asks it itself)"
            );
            Err(Problem::new(Code::WrongState, why))
        }
        Other::Is(_) | Other::Silent => Ok(()),
    }
}

/// Promotes this end: in order at the other one's last point, when that was demoted and the point was brought; by force at the point that it is at.
/// One that was demoted itself is promoted again when the other end has declined that (`amita mirror promote` asks it to).
///
/// It goes on by itself: it is the `primary` when it is done, and its volumes are open to hosts.
#[utoipa::path(post, path = "/mirrors/{name}/promote", operation_id = "promoteMirror", tag = "mirrors", params(Named),
    request_body = MirrorPromotion,
    responses((status = 202, body = MirrorShown),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn promote(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(how): Body<MirrorPromotion>,
) -> Result<(StatusCode, Json<MirrorShown>), Problem> {
    // A node that reads no volumes asks nobody either.
    let data = api.data().ok();
    let promoted = api.run(asker, move |session| {
        let action = match how.force {
            true => Action::MirrorForce,
            false => Action::MirrorPromote,
        };
        session.permit(action, &name)?;
        let found = admin::mirror(&session.reader(), &name)?;
        if how.force {
            may_force(&found, how.confirm.as_deref(), || {
                let asked = data.as_ref().and_then(|data| data.look_at_mirror(&found));
                other_end(&found, asked, now().as_secs())
            })?;
        }
        let promoted = session.act(action, &name, |meta| -> Result<Mirror, AdminError> {
            match (how.force, found.standing.handed) {
                (true, _) => admin::force_mirror(meta, &name),
                (false, true) => admin::take_back_mirror(meta, &name),
                (false, false) => admin::promote_mirror(meta, &name),
            }
        });
        Ok(MirrorShown::of(&promoted?))
    });
    Ok((StatusCode::ACCEPTED, Json(promoted.await?)))
}

/// How a deposed end is to follow again.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MirrorResync {
    /// Say to which point it would go back, and change nothing.
    #[serde(default)]
    #[schema(default = false)]
    pub dry_run: bool,
}

/// What a deposed end goes back to.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MirrorResynced {
    /// The newest point that both ends have, as EPOCH-NUMBER; null: none, and all is brought.
    pub common: Option<String>,
    /// Nothing was changed.
    pub dry_run: bool,
    /// The mirror.
    pub mirror: MirrorShown,
}

/// Has this end, which was deposed, go back to the newest point that both ends have, and follow the other one from there. What its volumes are now is
/// kept as snapshots. It goes on by itself.
#[utoipa::path(post, path = "/mirrors/{name}/resync", operation_id = "resyncMirror", tag = "mirrors", params(Named),
    request_body = MirrorResync,
    responses((status = 202, body = MirrorResynced),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn resync(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(how): Body<MirrorResync>,
) -> Result<(StatusCode, Json<MirrorResynced>), Problem> {
    let begun = api.run(asker, move |session| {
        session.permit(Action::MirrorResync, &name)?;
        let common = match how.dry_run {
            true => would_return(&admin::mirror(&session.reader(), &name)?)?,
            false => session.act(Action::MirrorResync, &name, |meta| admin::begin_return(meta, &name))?,
        };
        let found = admin::mirror(&session.reader(), &name)?;
        Ok(MirrorResynced {
            common: common.map(|point| point.to_string()),
            dry_run: how.dry_run,
            mirror: MirrorShown::of(&found),
        })
    });
    Ok((StatusCode::ACCEPTED, Json(begun.await?)))
}

fn would_return(found: &Mirror) -> Result<Option<PointName>, Problem> {
    let wrong = |why: &str| Problem::new(Code::WrongState, format!("mirror {}: {why}", found.name));
    if found.standing.role != MirrorRole::Deposed {
        return Err(wrong("only an end that was deposed goes back to a point"));
    }
    let Some(seen) = &found.seen else {
        return Err(wrong("the other end was never heard"));
    };
    Ok(mirror::common(&found.standing, &seen.standing))
}

/// Has a mirror stand still, at this end: as a secondary it brings nothing, as a primary it cuts no points.
#[utoipa::path(post, path = "/mirrors/{name}/pause", operation_id = "pauseMirror", tag = "mirrors", params(Named),
    responses((status = 200, body = MirrorShown),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn pause(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Json<MirrorShown>, Problem> {
    let paused = Paused {
        by: asker.0.who().name.clone(),
        at: now().as_secs(),
    };
    let paused = api.act(asker, Action::MirrorPause, name.clone(), move |meta| {
        Ok(MirrorShown::of(&admin::pause_mirror(meta, &name, Some(&paused))?))
    });
    paused.await.map(Json)
}

/// Has a mirror that stands still go on.
#[utoipa::path(post, path = "/mirrors/{name}/resume", operation_id = "resumeMirror", tag = "mirrors", params(Named),
    responses((status = 200, body = MirrorShown),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn resume(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Json<MirrorShown>, Problem> {
    let resumed = api.act(asker, Action::MirrorResume, name.clone(), move |meta| {
        Ok(MirrorShown::of(&admin::pause_mirror(meta, &name, None)?))
    });
    resumed.await.map(Json)
}

/// What becomes of the volumes of an end that is no primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum MirrorVolumesFate {
    /// They are opened to hosts: at the end's point, where it has one, and else as they are.
    Open,
    /// They are deleted for good, with all of their snapshots.
    Delete,
}

/// How a mirror is to be removed.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MirrorRemoval {
    /// At an end that is no primary: `open` has hosts use its volumes, at its point or, where it never arrived at one, in the middle of a copy perhaps;
    /// `delete` deletes them for good, with their snapshots. Where it is not said, only a primary is removed, whose volumes go on.
    #[param(inline)]
    volumes: Option<MirrorVolumesFate>,
    /// At the primary: its points stay, as snapshots like others. Else they are deleted, but for those that others use.
    #[serde(default = "yes")]
    #[param(default = true)]
    keep_points: bool,
}

fn yes() -> bool {
    true
}

/// Removes a mirror at this end: the other end's tokens are good for nothing, and the other end stays as it is until it is removed there. The volumes of
/// a primary go on. Cut short, it is done again by the same request.
#[utoipa::path(delete, path = "/mirrors/{name}", operation_id = "removeMirror", tag = "mirrors", params(Named, MirrorRemoval),
    responses((status = 204, description = "There is no such mirror any more."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(how): Parameters<MirrorRemoval>,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        session.permit(Action::MirrorRemove, &name)?;
        let is_primary = admin::mirror(&session.reader(), &name)?.standing.role == MirrorRole::Primary;
        if is_primary && how.volumes == Some(MirrorVolumesFate::Delete) {
            let why = format!(
                "mirror {name} is primary here: hosts use its volumes, which stay; remove it without `volumes`, and then delete them"
            );
            return Err(Problem::new(Code::WrongState, why));
        }
        session.act(Action::MirrorRemove, &name, |meta| -> Result<(), AdminError> {
            let gone = match how.volumes {
                Some(MirrorVolumesFate::Open) if !is_primary => admin::leave_mirror(meta, &name)?,
                Some(MirrorVolumesFate::Delete) => {
                    admin::delete_mirrored(meta, &name, now().as_secs(), &mut wait::pauses())?
                }
                Some(MirrorVolumesFate::Open) | None => admin::remove_mirror(meta, &name, how.keep_points)?,
            };
            admin::revoke_mirror_tokens(meta, gone.id)?;
            Ok(())
        })?;
        Ok(())
    });
    removed.await.map(|()| StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: u64 = 1_800_000_000;

    /// A secondary that has seen this of the other end, so many seconds ago.
    fn far(role: &str, ago: i64) -> Mirror {
        let at = NOW.saturating_add_signed(-ago);
        let record = json!({
            "id": "00000000-0000-0000-0000-000000000077", "name": "dr", "role": "secondary", "epoch": 0, "volumes": [], "peer": {},
            "interval_s": 60, "keep": 3, "seen": { "role": role, "epoch": 0, "at": at, "clock": at },
        });
        serde_json::from_value(record).unwrap()
    }

    fn is_refused(found: &Mirror, asked: Option<Result<Standing, Problem>>) -> bool {
        may_force(found, Some("dr"), || other_end(found, asked, NOW)).is_err()
    }

    #[test]
    fn force_is_for_who_knows_that_the_other_end_is_no_primary() {
        for (role, ago, refused) in [
            ("primary", 5, true),
            ("promoting", 5, true),
            ("demoting", 5, false),
            // It may have been promoted since.
            ("primary", 60, true),
            ("secondary", 60, true),
            ("secondary", -60, true),
            // It is told as unheard.
            ("primary", 120, false),
        ] {
            assert_eq!(is_refused(&far(role, ago), None), refused, "{role} {ago}");
        }
        // What it says itself is what it is.
        let is = |role| {
            Some(Ok(Standing {
                role,
                ..Standing::default()
            }))
        };
        assert!(is_refused(&far("secondary", 300), is(MirrorRole::Promoting)));
        assert!(!is_refused(&far("primary", 5), is(MirrorRole::Deposed)));
        assert!(!is_refused(
            &far("primary", 5),
            Some(Err(Problem::new(Code::NotInTime, "no answer")))
        ));
        // Whoever answers otherwise lives.
        let refuses = || Some(Err(Problem::new(Code::WrongState, "the other end answers 401")));
        assert!(is_refused(&far("primary", 5), refuses()));
        assert!(is_refused(&far("secondary", 60), refuses()));
        assert!(
            !is_refused(&far("primary", 120), refuses()),
            "as it was not heard for long"
        );
        assert!(may_force(&far("primary", 300), Some("other"), || Other::Silent).is_err());
        // One that was deposed keeps what it has, whatever the other one is.
        let mut deposed = far("primary", 5);
        deposed.standing.role = MirrorRole::Deposed;
        assert!(!is_refused(&deposed, None));
    }
}
