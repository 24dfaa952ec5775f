//! Targets: what initiators log in to by iSCSI, their LUNs and who sees them.

use super::input::{Body, Force, Known, Named, Names, Parameters, cut_by_number, nullable};
use crate::condition::{Identity, IfMatch, whatever};
use crate::page::{Cursor, Page, Tagged};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, LunSpec, LunStatus, Mask, SpaceWarning, TargetChange, TargetSpec};
use amita_metadata::Transact;
use amita_types::map;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, change, remove))
        .routes(routes!(luns, add_lun))
        .routes(routes!(remove_lun))
        .routes(routes!(allow, deny))
}

/// A target of iSCSI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct IscsiTarget {
    /// Its name.
    pub name: String,
    /// Its iSCSI name, by which initiators log in.
    pub iqn: String,
    /// The names of the nodes that serve it; none: all that speak iSCSI.
    pub gateways: Vec<String>,
    /// Any initiator may log in and see all LUNs; else only those of `initiators`.
    pub any_initiator: bool,
    /// Logins without CHAP are refused.
    pub chap_required: bool,
    /// Initiators may have volumes moved to another gateway (SET TARGET PORT GROUPS).
    pub initiators_move: bool,
    /// At how many percent of a LUN's pool its initiators are told that space runs out; null: where stores count as near full.
    pub space_warning_percent: Option<u8>,
    /// Who may log in.
    pub initiators: Vec<InitiatorAccess>,
    /// How many LUNs it has.
    pub luns: u64,
}

/// An initiator that may log in to a target, and what it sees there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct InitiatorAccess {
    /// Its iSCSI name.
    pub initiator: String,
    /// The numbers of the LUNs that it sees; null: all, those that come later too.
    pub luns: Option<Vec<u16>>,
}

impl From<map::IscsiTarget> for IscsiTarget {
    fn from(found: map::IscsiTarget) -> IscsiTarget {
        let access = |access: map::IscsiAccess| InitiatorAccess {
            initiator: access.initiator,
            luns: access.luns,
        };
        IscsiTarget {
            name: found.name,
            iqn: found.iqn,
            gateways: found.gateways,
            any_initiator: found.any_initiator,
            chap_required: found.chap_required,
            initiators_move: found.initiators_move,
            space_warning_percent: found.space_warning_percent,
            initiators: found.initiators.into_iter().map(access).collect(),
            luns: found.luns.len() as u64,
        }
    }
}

/// A target that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewIscsiTarget {
    /// Its name: 1 to 128 letters, digits and `. _ -`, not beginning with `.` or `-`.
    pub name: String,
    /// Its iSCSI name; null: one with the cluster's number and its name.
    #[schema(example = "iqn.2026-11.io.amita:0123abcd:db")]
    pub iqn: Option<String>,
    /// The names of the nodes that serve it; none: all that speak iSCSI.
    #[serde(default)]
    pub gateways: Vec<String>,
    /// Any initiator may log in and see all LUNs.
    #[serde(default)]
    pub any_initiator: bool,
    /// Logins without CHAP are refused.
    #[serde(default)]
    pub chap_required: bool,
    /// Initiators may have volumes moved to another gateway (SET TARGET PORT GROUPS).
    #[serde(default)]
    pub initiators_move: bool,
    /// At how many percent of a LUN's pool its initiators are told that space runs out; null: where stores count as near full.
    pub space_warning_percent: Option<u8>,
}

/// What of a target is to be another; what is not there stays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IscsiTargetChange {
    /// The names of the nodes that serve it; an empty list: all that speak iSCSI.
    pub gateways: Option<Vec<String>>,
    /// May any initiator log in and see all LUNs?
    pub any_initiator: Option<bool>,
    /// Are logins without CHAP to be refused?
    pub chap_required: Option<bool>,
    /// May initiators have volumes moved to another gateway (SET TARGET PORT GROUPS)?
    pub initiators_move: Option<bool>,
    /// At how many percent of a LUN's pool its initiators are told that space runs out; null: where stores count as near full.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub space_warning_percent: Option<Option<u8>>,
}

/// A volume, or a snapshot of one, under a number in a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Lun {
    /// The name of its target.
    pub target: String,
    /// Its number there.
    pub lun: u16,
    /// The volume's name; null: it was deleted.
    pub volume: Option<String>,
    /// The name of the snapshot of the volume that it is, to be read only; null: it is the volume itself.
    pub snapshot: Option<String>,
    /// It is a snapshot: to be read only.
    pub read_only: bool,
    /// The size of the volume, or of the snapshot.
    pub size_bytes: Option<u64>,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// The volume may be a namespace, or exported by NBD, beside it.
    pub shared: bool,
    /// The name by which initiators know the disk, for ever: Linux has it behind `wwn-0x`, ESXi behind `naa.`.
    #[schema(example = "602414d400000000831e0a2b3c4d5e6f")]
    pub naa: String,
}

impl From<LunStatus> for Lun {
    fn from(found: LunStatus) -> Lun {
        Lun {
            target: found.target,
            lun: found.lun.number,
            volume: found.volume_name,
            snapshot: found.snapshot_name,
            read_only: found.lun.snapshot.is_some(),
            size_bytes: found.size_bytes,
            block_bytes: found.lun.block_bytes,
            shared: found.lun.shared,
            naa: map::naa_text(&found.lun.uuid),
        }
    }
}

/// A LUN that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLun {
    /// The volume's name, or VOLUME@SNAPSHOT: what the volume was then, to be read only.
    pub volume: String,
    /// Its number, 0 to 16383 (0 to 254 for Windows); null: the one after the highest.
    pub lun: Option<u16>,
    /// Bytes of a logical block: 512, as most initiators want it, or 4096; where it is not said 512, and 4096 of an encrypted volume.
    // No `default` in the schema: a client that fills it in would wish 512 of an encrypted volume.
    pub block_bytes: Option<u32>,
    /// Also while the volume is a namespace of a subsystem, or exported by NBD.
    #[serde(default)]
    pub shared: bool,
}

/// What an initiator is to see of a target.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInitiatorAccess {
    /// The numbers of the LUNs that it sees; null: all, those that come later too.
    pub luns: Option<Vec<u16>>,
}

/// The LUN in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct WhichLun {
    /// The target's name.
    name: String,
    /// The LUN's number.
    lun: u16,
}

/// The initiator in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct WhichInitiator {
    /// The target's name.
    name: String,
    /// The initiator's iSCSI name, percent-encoded.
    initiator: String,
}

fn find(meta: &dyn Transact, name: &str) -> Result<IscsiTarget, AdminError> {
    admin::target(meta, name).map(IscsiTarget::from)
}

fn look(meta: &dyn Transact, name: &str) -> Result<(IscsiTarget, Identity), AdminError> {
    let target = find(meta, name)?;
    let identity = Identity::of(&target, vec![map::iscsi_target_key(name)]);
    Ok((target, identity))
}

/// The targets, in the order of their names.
///
/// One whose record nobody can read is not among them: the fact `record-unreadable` tells of it.
#[utoipa::path(get, path = "/targets", operation_id = "listTargets", tag = "iscsi", params(Cursor),
    responses((status = 200, body = Page<IscsiTarget>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<IscsiTarget>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = admin::targets(&session.reader())?.readable;
        cursor.cut(all.into_iter().map(IscsiTarget::from), |target| target.name.as_str())
    });
    page.await.map(Json)
}

/// Makes a target without LUNs. Nobody may log in before initiators are allowed, unless any may.
#[utoipa::path(post, path = "/targets", operation_id = "createTarget", tag = "iscsi", request_body = NewIscsiTarget,
    responses((status = 201, body = IscsiTarget, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewIscsiTarget>,
) -> Result<Tagged<IscsiTarget>, Problem> {
    let spec = TargetSpec {
        name: wanted.name,
        iqn: wanted.iqn,
        gateways: wanted.gateways,
        any_initiator: wanted.any_initiator,
        chap_required: wanted.chap_required,
        initiators_move: wanted.initiators_move,
        space_warning_percent: wanted.space_warning_percent,
    };
    let made = api.act(asker, Action::TargetCreate, spec.name.clone(), move |meta| {
        admin::create_target(meta, &spec)
    });
    Ok(Tagged(StatusCode::CREATED, made.await?.into()))
}

/// A target.
#[utoipa::path(get, path = "/targets/{name}", operation_id = "showTarget", tag = "iscsi", params(Named),
    responses((status = 200, body = IscsiTarget, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
) -> Result<Tagged<IscsiTarget>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    Ok(Tagged(StatusCode::OK, found.await?))
}

/// Changes who serves a target, who may log in, and when its initiators are told that space runs out.
///
/// An initiator that is logged in and may no more is cut off.
#[utoipa::path(patch, path = "/targets/{name}", operation_id = "changeTarget", tag = "iscsi",
    request_body = IscsiTargetChange, params(Named, Known),
    responses((status = 200, body = IscsiTarget, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
    Body(change): Body<IscsiTargetChange>,
) -> Result<Tagged<IscsiTarget>, Problem> {
    let changed = api.run(asker, move |session| {
        session.permit(Action::TargetSet, &name)?;
        let held = known.check(session, |meta| look(meta, &name))?;
        let change = TargetChange {
            gateways: change.gateways,
            any_initiator: change.any_initiator,
            chap_required: change.chap_required,
            initiators_move: change.initiators_move,
            space_warning: change
                .space_warning_percent
                .map(|percent| percent.map_or(SpaceWarning::NearFull, SpaceWarning::At)),
        };
        if change == TargetChange::default() {
            return Ok(held.shown().clone());
        }
        let changed = held.act(Action::TargetSet, &name, |meta| admin::set_target(meta, &name, &change))?;
        Ok(IscsiTarget::from(changed))
    });
    Ok(Tagged(StatusCode::OK, changed.await?))
}

/// Deletes a target; its volumes stay. One that has LUNs, or that nobody can read, only with `force`: initiators lose their disks.
#[utoipa::path(delete, path = "/targets/{name}", operation_id = "deleteTarget", tag = "iscsi", params(Named, Force, Known),
    responses((status = 204, description = "It is gone."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(Force { force }): Parameters<Force>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        let key = map::iscsi_target_key(&name);
        let held = known.check(session, |meta| whatever(look(meta, &name), key.clone()))?;
        held.act(Action::TargetDelete, &name, |meta| {
            admin::delete_target(meta, &name, force)
        })?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}

fn luns_of(meta: &dyn Transact, name: &str) -> Result<Vec<Lun>, AdminError> {
    let found = admin::luns_of(meta, name)?;
    Ok(found.into_iter().map(Lun::from).collect())
}

/// The LUNs of a target, in the order of their numbers.
#[utoipa::path(get, path = "/targets/{name}/luns", operation_id = "listLuns", tag = "iscsi", params(Named, Cursor),
    responses((status = 200, body = Page<Lun>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn luns(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Lun>>, Problem> {
    let page = api.run(asker, move |session| {
        let all = luns_of(&session.reader(), &name)?;
        cut_by_number(&cursor, all, |lun| u64::from(lun.lun))
    });
    page.await.map(Json)
}

/// Makes a volume, or a snapshot, a LUN of a target; initiators that are logged in and may see it are told.
#[utoipa::path(post, path = "/targets/{name}/luns", operation_id = "addLun", tag = "iscsi", request_body = NewLun,
    params(Named),
    responses((status = 201, body = Lun),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn add_lun(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(wanted): Body<NewLun>,
) -> Result<(StatusCode, Json<Lun>), Problem> {
    let made = api.run(asker, move |session| {
        let block_bytes = match wanted.block_bytes {
            Some(wished) => wished,
            None => admin::usual_block_bytes(&session.reader(), &wanted.volume)?,
        };
        let spec = LunSpec {
            of: wanted.volume,
            number: wanted.lun,
            block_bytes,
            shared: wanted.shared,
        };
        let made = session.act(Action::LunAdd, &format!("{} in {name}", spec.of), |meta| {
            admin::add_lun(meta, &name, &spec)
        })?;
        let mut all = luns_of(&session.reader(), &name)?.into_iter();
        let why = || {
            Problem::new(
                Code::Changed,
                format!("LUN {} was made, and taken away by others", made.number),
            )
        };
        all.find(|lun| lun.lun == made.number).ok_or_else(why)
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}

/// Takes a LUN out of a target; initiators that are logged in lose the disk, its volume stays.
#[utoipa::path(delete, path = "/targets/{name}/luns/{lun}", operation_id = "removeLun", tag = "iscsi", params(WhichLun),
    responses((status = 204, description = "It is gone."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove_lun(
    State(api): State<Api>,
    asker: Asker,
    Names((name, lun)): Names<(String, u16)>,
) -> Result<StatusCode, Problem> {
    let removed = api.act(asker, Action::LunRemove, format!("{lun} of {name}"), move |meta| {
        admin::remove_lun(meta, &name, lun)
    });
    removed.await.map(|_| StatusCode::NO_CONTENT)
}

/// Lets an initiator log in to a target and see LUNs there; of one that may already, what it sees is another. One that is not known yet is
/// known by that, with nothing to prove.
#[utoipa::path(put, path = "/targets/{name}/initiators/{initiator}", operation_id = "allowInitiator", tag = "iscsi",
    request_body = NewInitiatorAccess, params(WhichInitiator),
    responses((status = 200, body = IscsiTarget, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn allow(
    State(api): State<Api>,
    asker: Asker,
    Names((name, initiator)): Names<(String, String)>,
    Body(wanted): Body<NewInitiatorAccess>,
) -> Result<Tagged<IscsiTarget>, Problem> {
    let mask = wanted.luns.map_or(Mask::All, Mask::These);
    let object = format!("{initiator} in {name}");
    let allowed = api.act(asker, Action::InitiatorAllow, object, move |meta| {
        admin::allow_initiator(meta, &name, &initiator, &mask)
    });
    Ok(Tagged(StatusCode::OK, allowed.await?.into()))
}

/// An initiator may log in to a target no more; if it is logged in it is cut off. Where any may, it still may.
#[utoipa::path(delete, path = "/targets/{name}/initiators/{initiator}", operation_id = "denyInitiator", tag = "iscsi",
    params(WhichInitiator),
    responses((status = 200, body = IscsiTarget, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn deny(
    State(api): State<Api>,
    asker: Asker,
    Names((name, initiator)): Names<(String, String)>,
) -> Result<Tagged<IscsiTarget>, Problem> {
    let object = format!("{initiator} in {name}");
    let denied = api.act(asker, Action::InitiatorDeny, object, move |meta| {
        admin::deny_initiator(meta, &name, &initiator)
    });
    Ok(Tagged(StatusCode::OK, denied.await?.into()))
}
