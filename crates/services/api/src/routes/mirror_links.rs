//! What the other end of a mirror asks of this one (decision 081): by its token, of its own mirror alone.
//!
//! It looks at what this end is, says how it is reached, has points cut, and reads volumes of the mirror as points have them: never as they are, and
//! never others. Looking is told nowhere; that a point is begun, and what is read of it, is in the audit log.

mod read;

use super::input::{Body, Names, now};
use crate::mirror::{LinkVolume, MirrorLink, MirrorPeerTold, MirrorTokenMade};
use crate::problem::{Code, Problem};
use crate::repeat::Secret;
use crate::session::{Api, Asker};
use crate::who::Ends;
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, Cutting, MIRROR_TOKEN_RENEWAL};
use amita_control::mirror::{TOKEN_FIELD, token_bound_to};
use amita_identity::ApiToken;
use amita_keys::SealKey;
use amita_metadata::{Call, Op, Transact};
use amita_types::id::BadUuid;
use amita_types::map::{self, Mirror, MirrorPeer, MirrorRole, Point, Standing, Volume};
use amita_types::{MirrorEpoch, MirrorId};
use axum::extract::State;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;

/// Records that are read by one transaction.
const BATCH: usize = 64;
/// The most addresses of an end, the longest one, and the longest certificates: they stand in a record that is written often.
const MAX_ADDRESSES: usize = 64;
const MAX_ADDRESS_BYTES: usize = 300;
const MAX_AUTHORITY_BYTES: usize = 32 << 10;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(look))
        .routes(routes!(tell))
        .routes(routes!(cut))
        .routes(routes!(decline))
        .routes(routes!(renew))
        .routes(routes!(read::read).layer(from_fn(crate::guard::own_site_only)))
}

/// The mirror in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// Its number, the same at both ends.
    id: String,
}

fn number(text: &str) -> Result<MirrorId, Problem> {
    text.parse().map_err(|why: BadUuid| Problem::new(Code::BadRequest, why))
}

/// As this end shows itself.
fn link_of(meta: &dyn Transact, mirror: &Mirror) -> Result<MirrorLink, AdminError> {
    let mut volumes = Vec::with_capacity(mirror.volumes.len());
    for part in mirror.volumes.chunks(BATCH) {
        let then = part.iter().map(|volume| Op::Get {
            key: map::volume_key(&volume.name),
        });
        let reply = meta.txn(&Call {
            then: then.collect(),
            ..Call::default()
        })?;
        for (index, volume) in part.iter().enumerate() {
            // Mostly it is called what it was.
            let named = reply.value(index).and_then(|found| found.json::<Volume>().ok());
            let found = match named.filter(|found| found.host() == volume.id && !map::is_hidden(&found.name)) {
                Some(found) => found,
                None => admin::mirrored_volume(meta, mirror, volume.id)?,
            };
            volumes.push(LinkVolume {
                name: volume.name.clone(),
                size_bytes: found.size_bytes,
                encrypted: found.keys.is_some(),
            });
        }
    }
    let mut standing = mirror.standing.clone();
    for point in &mut standing.points {
        // By this end's clock alone.
        point.arrived_at = None;
    }
    Ok(MirrorLink {
        cluster: admin::cluster(meta)?.id,
        mirror: mirror.id,
        clock: now().as_secs(),
        standing,
        volumes,
        interval_s: mirror.interval_s,
    })
}

/// What this end of a mirror is, to the other one.
#[utoipa::path(get, path = "/mirror-links/{id}", operation_id = "lookAtMirrorLink", tag = "mirrors", params(Which),
    responses((status = 200, body = MirrorLink),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn look(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<Json<MirrorLink>, Problem> {
    let id = number(&id)?;
    let link = api.run_end(asker, id, |session, mirror| Ok(link_of(&session.reader(), &mirror)?));
    link.await.map(Json)
}

fn bad(why: impl ToString) -> Problem {
    Problem::new(Code::BadSetting, why)
}

/// Can an end be reached so?
pub(super) fn check_reached(addresses: &[String], authority: &str) -> Result<(), Problem> {
    let is_address = |text: &String| {
        let (host, port) = text.rsplit_once(':').unwrap_or_default();
        text.len() <= MAX_ADDRESS_BYTES
            && !host.is_empty()
            && port.parse::<u16>().is_ok_and(|port| port > 0)
            && text.chars().all(|c| c.is_ascii_graphic())
    };
    if addresses.is_empty() || addresses.len() > MAX_ADDRESSES {
        return Err(bad(format!(
            "{} addresses of an end of a mirror; 1 to {MAX_ADDRESSES} can be",
            addresses.len()
        )));
    }
    if let Some(wrong) = addresses.iter().find(|address| !is_address(address)) {
        let shown: String = wrong.chars().take(MAX_ADDRESS_BYTES).collect();
        return Err(bad(format!("{shown:?} is no address: HOST:PORT is")));
    }
    if authority.len() > MAX_AUTHORITY_BYTES {
        return Err(bad(format!(
            "the certificates of its authority have {} bytes; {MAX_AUTHORITY_BYTES} are the most",
            authority.len()
        )));
    }
    Ok(())
}

/// Can that be a token for an end?
pub(super) fn check_token(token: &str) -> Result<(), Problem> {
    match token.parse::<ApiToken>() {
        Ok(_) => Ok(()),
        Err(why) => Err(bad(format!("the token for the other end: {why}"))),
    }
}

/// Could that be told of the other end?
fn check(told: &MirrorPeerTold) -> Result<(), Problem> {
    check_reached(&told.addresses, &told.authority)?;
    check_token(&told.token)
}

pub(super) fn sealing(file: Option<Arc<PathBuf>>) -> Result<SealKey, Problem> {
    let elsewhere = |why: &str| Problem::new(Code::Misdirected, format!("{why}; ask another node of this cluster"));
    let file = file.ok_or_else(|| {
        elsewhere("this node has no sealing key (`amita serve --seal-key`), and keeps no token without one")
    })?;
    SealKey::load(&file).map_err(|why| {
        log::warn!("the token for the other end of a mirror cannot be kept: {why}");
        elsewhere("this node cannot read its sealing key: its log says why")
    })
}

/// How the other end is reached, as it says itself. The first cluster that says so is the mirror's other end from then on; it may say it again.
#[utoipa::path(put, path = "/mirror-links/{id}/peer", operation_id = "tellMirrorPeer", tag = "mirrors", params(Which),
    request_body = MirrorPeerTold,
    responses((status = 204, description = "It is kept, the token sealed."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn tell(
    State(api): State<Api>,
    asker: Asker,
    Names(id): Names<String>,
    Body(told): Body<MirrorPeerTold>,
) -> Result<Response, Problem> {
    let (id, seal) = (number(&id)?, api.seal_key());
    let done = api.run_end(asker, id, move |session, mirror| {
        session.permit(Action::MirrorPeer, &mirror.name)?;
        check(&told)?;
        if told.cluster == admin::cluster(&session.reader())?.id {
            return Err(bad("this is the same cluster: one cluster is no two ends of a mirror"));
        }
        let sealed = sealing(seal)?.seal(&token_bound_to(mirror.id), TOKEN_FIELD, &told.token);
        let peer = MirrorPeer {
            cluster: Some(told.cluster),
            addresses: told.addresses,
            authority: told.authority,
            token: sealed.map_err(bad)?,
        };
        let kept = session.act(Action::MirrorPeer, &mirror.name, |meta| {
            admin::tell_mirror_peer(meta, &mirror.name, &peer)
        })?;
        kept.map(drop).ok_or_else(|| {
            let why = "the other end of this mirror is another cluster, which has said so before; remove the mirror, and add it anew for this one";
            Problem::new(Code::WrongState, why)
        })
    });
    done.await?;
    // Nothing of it is kept under a key of idempotency.
    Ok((Extension(Secret), StatusCode::NO_CONTENT).into_response())
}

/// In which epoch.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
struct WantedPoint {
    /// The epoch that the point is to be of: this end's.
    #[schema(value_type = u64)]
    epoch: MirrorEpoch,
}

/// A point that is there.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct MirrorPointCut {
    /// The newest one.
    #[schema(value_type = crate::mirror::MirrorPoint)]
    point: Point,
}

/// It is being cut.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct MirrorPointComes {}

/// Is something begun by that, which is to be in the log? A point that is there is told, and one that is being cut is gone on with.
fn begins(mirror: &Mirror, epoch: MirrorEpoch) -> bool {
    let standing = &mirror.standing;
    let is_cut = |point: &Point| point.name.epoch == epoch;
    let is_young = |point: &Point| is_cut(point) && point.is_young(now().as_secs(), mirror.interval_s);
    match standing.role {
        _ if standing.epoch != epoch || mirror.cutting.as_ref().is_some_and(is_cut) => false,
        MirrorRole::Primary => mirror.paused.is_none() && !standing.newest().is_some_and(is_young),
        MirrorRole::Demoting => true,
        _ => false,
    }
}

/// Has this end cut a point, where its newest one is older than the interval; the other end asks again until it is there.
#[utoipa::path(post, path = "/mirror-links/{id}/points", operation_id = "cutMirrorPoint", tag = "mirrors", params(Which),
    request_body = WantedPoint,
    responses((status = 200, body = MirrorPointCut), (status = 202, body = MirrorPointComes),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn cut(
    State(api): State<Api>,
    asker: Asker,
    Names(id): Names<String>,
    Body(WantedPoint { epoch }): Body<WantedPoint>,
) -> Result<Response, Problem> {
    let id = number(&id)?;
    let cutting = api.run_end(asker, id, move |session, mirror| {
        let name = &mirror.name;
        session.permit(Action::MirrorCut, name)?;
        Ok(match begins(&mirror, epoch) {
            true => session.act(Action::MirrorCut, name, |meta| {
                admin::cut_point(meta, name, epoch, now())
            })?,
            false => admin::cut_point(session.connection(), name, epoch, now())?,
        })
    });
    Ok(match cutting.await? {
        Cutting::Cut(point) => Json(MirrorPointCut { point }).into_response(),
        Cutting::Waiting => (StatusCode::ACCEPTED, Json(MirrorPointComes {})).into_response(),
    })
}

/// Which demotion.
#[derive(Clone, Debug, Deserialize, ToSchema)]
struct WantedDecline {
    /// The epoch in which the other end was demoted.
    #[schema(value_type = u64)]
    epoch: MirrorEpoch,
    /// What it is. This end goes by what it has seen itself.
    #[schema(value_type = Option<crate::mirror::MirrorStanding>)]
    standing: Option<Standing>,
}

/// Has this end never be promoted by the other one's demotion, which that may take back then.
#[utoipa::path(post, path = "/mirror-links/{id}/decline", operation_id = "declineMirrorDemotion", tag = "mirrors", params(Which),
    request_body = WantedDecline,
    responses((status = 200, body = MirrorLink),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn decline(
    State(api): State<Api>,
    asker: Asker,
    Names(id): Names<String>,
    Body(WantedDecline { epoch, standing }): Body<WantedDecline>,
) -> Result<Json<MirrorLink>, Problem> {
    let id = number(&id)?;
    let is_handed = move |other: &Standing| other.role == MirrorRole::Secondary && other.handed && other.epoch == epoch;
    if standing.is_some_and(|said| !is_handed(&said)) {
        let why = format!("whoever asks was not demoted in order in epoch {epoch}: there is nothing to be declined");
        return Err(Problem::new(Code::BadRequest, why));
    }
    let link = api.run_end(asker, id, move |session, mirror| {
        let name = &mirror.name;
        session.permit(Action::MirrorDecline, name)?;
        if mirror.standing.declined.is_none_or(|declined| declined < epoch) {
            let has_seen = mirror.seen.as_ref().is_some_and(|seen| is_handed(&seen.standing));
            if mirror.standing.role == MirrorRole::Secondary && !has_seen {
                let why = format!("this end has not seen the demotion of epoch {epoch} yet; ask again in a moment");
                return Err(Problem::new(Code::WrongState, why));
            }
            session.act(Action::MirrorDecline, name, |meta| admin::decline_demotion(meta, name))?;
        }
        let reader = session.reader();
        Ok(link_of(&reader, &admin::mirror_by_id(&reader, id)?)?)
    });
    link.await.map(Json)
}

/// A token in place of the one that is shown, where that ends within a week; else that one. The one that is shown is good until it ends.
#[utoipa::path(post, path = "/mirror-links/{id}/token", operation_id = "renewMirrorToken", tag = "mirrors", params(Which),
    responses((status = 200, body = MirrorTokenMade),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn renew(
    State(api): State<Api>,
    asker: Asker,
    ends: Option<Extension<Ends>>,
    headers: HeaderMap,
    Names(id): Names<String>,
) -> Result<Response, Problem> {
    let (id, by) = (number(&id)?, asker.0.who().name.clone());
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|text| Some(text.split_once(' ')?.1.trim().to_owned()));
    let made = api.run_end(asker, id, move |session, mirror| {
        session.permit(Action::MirrorToken, &mirror.name)?;
        let (Some(Extension(Ends(ends_at))), Some(shown)) = (ends, shown) else {
            return Err(Problem::new(Code::BadRequest, "a token is renewed by who shows it"));
        };
        if now().saturating_add(MIRROR_TOKEN_RENEWAL).as_secs() < ends_at {
            return Ok(MirrorTokenMade { token: shown, ends_at });
        }
        let (record, secret) = session.act(Action::MirrorToken, &mirror.name, |meta| {
            admin::create_mirror_token(meta, &mirror, &by, now())
        })?;
        Ok(MirrorTokenMade {
            token: secret.to_text().to_string(),
            ends_at: record.ends_at,
        })
    });
    Ok((Extension(Secret), Json(made.await?)).into_response())
}
