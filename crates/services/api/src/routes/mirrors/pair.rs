//! Two clusters are made the two ends of a mirror. The near end makes it, and says what it is joined by; the far one, which is given that, makes volumes of
//! the same names, and tells the near one how it is reached.

use super::super::input::{Body, Named, Names, now};
use super::super::mirror_links::{check_reached, check_token, sealing};
use super::MirrorShown;
use crate::mirror::{BOOTSTRAP_VERSION, MirrorBootstrap, MirrorLink, MirrorPeerTold};
use crate::problem::{Code, Problem};
use crate::repeat::Secret;
use crate::session::{Api, Asker, Asking};
use amita_control::access::Action;
use amita_control::admin::{self, DataKeys, Joined, MirrorWish, TargetWish, USUAL_KEEP};
use amita_control::mirror::{TOKEN_FIELD, token_bound_to};
use amita_types::MirrorId;
use amita_types::map::{ApiToken, Mirror, MirrorPeer, MirrorRole};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;
use uuid::Uuid;

/// A mirror that is to be made: the near end, where hosts use the volumes.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedMirror {
    /// What it is to be called in this cluster: 1 to 64 letters, digits and `. _ -`.
    #[schema(example = "dr")]
    name: String,
    /// The volumes, which have one moment at each point.
    #[schema(example = json!(["db", "db-log"]))]
    volumes: Vec<String>,
    /// Where this end hears that the other one was promoted by force it goes on all the same, and says that there is a split.
    #[serde(default)]
    #[schema(default = false)]
    never_deposed: bool,
    /// Where the other cluster reaches this one's API, `HOST:PORT` each, 64 at most; what the nodes tell of themselves where none is said.
    #[serde(default)]
    #[schema(example = json!(["n1.near.example:7480"]))]
    addresses: Vec<String>,
    /// The authority (PEM) of the certificates that the other cluster is shown there, where that is not the cluster's own: a proxy's, or one for browsers.
    /// It believes no other one. Null: the cluster's own.
    authority: Option<String>,
    /// Points follow each other after so many seconds: 10 at least; 60 where it is not said.
    interval_s: Option<u64>,
    /// So many points are kept beside the one that it is at, where this end follows; 3 where it is not said.
    keep: Option<u32>,
    /// At most so many bytes a second are read and sent, of all volumes together: 65536 at least; null: as many as can be.
    limit_bytes_per_second: Option<u64>,
    /// It is late from this lag on; null: from three intervals on.
    alert_after_s: Option<u64>,
}

/// What the other cluster is to join a mirror by.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MirrorMade {
    /// The mirror, as this end of it is.
    mirror: MirrorShown,
    /// What is to be given to the other cluster (`joinMirror`, `amita mirror join`). It is shown this once: whoever has it can read what the mirror brings.
    bootstrap: MirrorBootstrap,
    /// When the token in it ends, in seconds since 1970, unless it is renewed, which the other end does.
    token_ends_at: u64,
}

/// How the other cluster reaches this one.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MirrorReached {
    /// Where the other cluster reaches this one's API, `HOST:PORT` each, 64 at most; what the nodes tell of themselves where none is said.
    #[serde(default)]
    #[schema(example = json!(["n1.near.example:7480"]))]
    addresses: Vec<String>,
    /// The authority (PEM) of the certificates that the other cluster is shown there, where that is not the cluster's own. Null: the cluster's own.
    authority: Option<String>,
}

/// A mirror of another cluster, which is to be joined: the far end, whose volumes are closed to hosts until it is promoted.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedJoin {
    /// What the near end has said when it was made, or when another token was made for it.
    bootstrap: MirrorBootstrap,
    /// The pool that is to hold the volumes; null only where this cluster is an end of the mirror already.
    pool: Option<String>,
    /// What it is to be called in this cluster; null: as it is, or as at the near end.
    name: Option<String>,
    /// The volumes are encrypted here, also those that are not at the near end. Those that are, are in any case. The node that is asked has to have the
    /// cluster's volume keys (`amita serve --volume-keys`).
    #[serde(default)]
    #[schema(default = false)]
    encrypted: bool,
    /// Where the near end reaches this cluster's API, `HOST:PORT` each, 64 at most; what the nodes tell of themselves where none is said.
    #[serde(default)]
    #[schema(example = json!(["n1.far.example:7480"]))]
    addresses: Vec<String>,
    /// The authority (PEM) of the certificates that the near end is shown there, where that is not the cluster's own: a proxy's, or one for browsers. It
    /// believes no other one. Null: the cluster's own.
    authority: Option<String>,
    /// Points follow each other after so many seconds, where this end is the primary: 10 at least; 60 where it is not said.
    interval_s: Option<u64>,
    /// So many points are kept beside the one that it is at; 3 where it is not said.
    keep: Option<u32>,
    /// At most so many bytes a second are read and sent, of all volumes together: 65536 at least; null: as many as can be.
    limit_bytes_per_second: Option<u64>,
    /// It is late from this lag on; null: from three intervals on.
    alert_after_s: Option<u64>,
}

/// How a mirror is to work, at the end that is asked.
struct Settings {
    interval_s: Option<u64>,
    keep: Option<u32>,
    limit_bytes_per_second: Option<u64>,
    alert_after_s: Option<u64>,
}

fn bad(why: impl Into<String>) -> Problem {
    Problem::new(Code::BadSetting, why.into())
}

impl Settings {
    fn wish<'a>(&self, name: &'a str, id: MirrorId, odd: bool, peer: MirrorPeer) -> MirrorWish<'a> {
        MirrorWish {
            name,
            id,
            odd,
            interval: self.interval_s.map(Duration::from_secs),
            keep: self.keep.unwrap_or(USUAL_KEEP),
            limit_bytes_per_s: self.limit_bytes_per_second,
            alert_after: self.alert_after_s.filter(|after| *after > 0).map(Duration::from_secs),
            never_deposed: false,
            peer,
        }
    }
}

impl WantedMirror {
    fn settings(&self) -> Settings {
        Settings {
            interval_s: self.interval_s,
            keep: self.keep,
            limit_bytes_per_second: self.limit_bytes_per_second,
            alert_after_s: self.alert_after_s,
        }
    }
}

impl WantedJoin {
    fn settings(&self) -> Settings {
        Settings {
            interval_s: self.interval_s,
            keep: self.keep,
            limit_bytes_per_second: self.limit_bytes_per_second,
            alert_after_s: self.alert_after_s,
        }
    }

    fn reached(&self) -> MirrorReached {
        MirrorReached {
            addresses: self.addresses.clone(),
            authority: self.authority.clone(),
        }
    }
}

impl MirrorReached {
    /// Addresses of this cluster's API, and the certificates by which the other one knows it.
    fn find(self, api: &Api, session: &Asking) -> Result<(Vec<String>, String), Problem> {
        let own = || {
            let observed = api.observed()?;
            Some(observed.identity.as_ref()?.current().trust().roots_pem())
        };
        // Where nobody proves anything, both are on one machine.
        let authority = self.authority.or_else(own).unwrap_or_default();
        let addresses = match self.addresses.is_empty() {
            false => self.addresses,
            true => admin::nodes(&session.reader())?
                .into_iter()
                .filter_map(|node| node.api)
                .collect(),
        };
        if addresses.is_empty() {
            return Err(bad(
                "no node tells of an API by which the other cluster could reach this one: say where nodes are reached (`addresses`)",
            ));
        }
        check_reached(&addresses, &authority)?;
        Ok((addresses, authority))
    }
}

fn made(
    session: &Asking,
    (mirror, token): (&Mirror, &ApiToken),
    reached: (Vec<String>, String),
    secret: String,
) -> Result<MirrorMade, Problem> {
    let cluster = admin::cluster(&session.reader())?.id;
    Ok(MirrorMade {
        mirror: MirrorShown::of(mirror),
        bootstrap: MirrorBootstrap::new((mirror.id, &mirror.name), cluster, reached, secret),
        token_ends_at: token.ends_at,
    })
}

/// Mirrors volumes of this cluster to another one: the near end, which joins nobody by itself. Give `bootstrap` to the other cluster.
///
/// The answer is kept under no Idempotency-Key, since it has a secret: where it was lost, there is the mirror (`exists`), and another token is made for it.
#[utoipa::path(post, path = "/mirrors", operation_id = "createMirror", tag = "mirrors", request_body = WantedMirror,
    responses((status = 201, body = MirrorMade),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<WantedMirror>,
) -> Result<Response, Problem> {
    let (node, by) = (api.clone(), asker.0.who().name.clone());
    let created = api.run(asker, move |session| {
        let name = wanted.name.as_str();
        session.permit(Action::MirrorAdd, name)?;
        let reached = MirrorReached {
            addresses: wanted.addresses.clone(),
            authority: wanted.authority.clone(),
        };
        let reached = reached.find(&node, session)?;
        let id = MirrorId(Uuid::new_v4().as_u128());
        let mut wish = wanted.settings().wish(name, id, false, MirrorPeer::default());
        wish.never_deposed = wanted.never_deposed;
        let (mirror, token, secret) = session.act(Action::MirrorAdd, name, |meta| {
            admin::add_mirror_to_join(meta, &wish, &wanted.volumes, (&by, now()))
        })?;
        made(session, (&mirror, &token), reached, secret.to_text().to_string())
    });
    Ok((StatusCode::CREATED, Extension(Secret), Json(created.await?)).into_response())
}

/// Makes another token for the other end of a mirror: where the one that it has was lost, or has ended, or this end is reached elsewhere. Those of before are
/// good until they end, or are revoked. The answer is kept under no Idempotency-Key, since it has a secret.
#[utoipa::path(post, path = "/mirrors/{name}/token", operation_id = "createMirrorToken", tag = "mirrors", params(Named),
    request_body = MirrorReached,
    responses((status = 201, body = MirrorMade),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create_token(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Body(reached): Body<MirrorReached>,
) -> Result<Response, Problem> {
    let (node, by) = (api.clone(), asker.0.who().name.clone());
    let created = api.run(asker, move |session| {
        session.permit(Action::MirrorAdd, &name)?;
        let mirror = admin::mirror(&session.reader(), &name)?;
        let reached = reached.find(&node, session)?;
        let (token, secret) = session.act(Action::MirrorAdd, &name, |meta| {
            admin::create_mirror_token(meta, &mirror, &by, now())
        })?;
        made(session, (&mirror, &token), reached, secret.to_text().to_string())
    });
    Ok((StatusCode::CREATED, Extension(Secret), Json(created.await?)).into_response())
}

/// Has volumes of another cluster mirrored to this one: the far end. Volumes of the same names and sizes are made, which are closed to hosts until this end
/// is promoted, and the near end is told how this one is reached.
///
/// Where it was cut short it is asked for again. Where this cluster is an end of the mirror already, the two ends get to know each other by new tokens, and
/// nothing else is changed. The node that is asked has to have the cluster's sealing key (`amita serve --seal-key`).
#[utoipa::path(post, path = "/mirror-joins", operation_id = "joinMirror", tag = "mirrors", request_body = WantedJoin,
    responses((status = 201, body = MirrorShown),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn join(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<WantedJoin>,
) -> Result<Response, Problem> {
    let (node, by) = (api.clone(), asker.0.who().name.clone());
    let joined = api.run_on_data(asker, move |session, data| {
        let near = &wanted.bootstrap;
        session.permit(Action::MirrorAdd, wanted.name.as_deref().unwrap_or(&near.name))?;
        check(near)?;
        let meta = session.reader();
        let cluster = admin::cluster(&meta)?.id;
        if cluster == near.cluster {
            return Err(bad("this is the same cluster: one cluster is no two ends of a mirror"));
        }
        let sealed = sealing(node.seal_key())?.seal(&token_bound_to(near.mirror), TOKEN_FIELD, &near.token);
        let peer = MirrorPeer {
            cluster: Some(near.cluster),
            addresses: near.addresses.clone(),
            authority: near.authority.clone(),
            token: sealed.map_err(|why| bad(why.to_string()))?,
        };
        let (addresses, authority) = wanted.reached().find(&node, session)?;
        let all = admin::mirrors(&meta)?;
        let standing = match admin::joined(&all, near.mirror) {
            Joined::Stands(name) => Some(name),
            Joined::Halves | Joined::No => None,
        };
        if let (Some(name), Some(other)) = (
            standing,
            wanted.name.as_deref().filter(|other| Some(*other) != standing),
        ) {
            let why = format!("this cluster's end of that mirror is called {name}, and not {other}");
            return Err(Problem::new(Code::WrongState, why));
        }
        let there = data.look_at_near_end(near)?;
        let name = standing.or(wanted.name.as_deref()).unwrap_or(&near.name);
        let token = match standing {
            Some(_) => session.act(Action::MirrorAdd, name, |meta| {
                admin::join_mirror_again(meta, name, &peer, (&by, now()))
            })?,
            None => make(session, &node, (&wanted, name), (peer, &there), &by)?,
        };
        let told = MirrorPeerTold {
            cluster,
            addresses,
            authority,
            token: token.to_text().to_string(),
        };
        data.tell_near_end(near, &told)?;
        if standing.is_none() {
            session.act(Action::MirrorAdd, name, |meta| admin::complete_mirrored(meta, name))?;
        }
        Ok(MirrorShown::of(&admin::mirror(&session.reader(), name)?))
    });
    // Of a request with a secret no answer is kept.
    Ok((StatusCode::CREATED, Extension(Secret), Json(joined.await?)).into_response())
}

/// Of what stands there only what is wrong with its form is ever said.
fn check(near: &MirrorBootstrap) -> Result<(), Problem> {
    if near.version != BOOTSTRAP_VERSION {
        return Err(bad(format!(
            "what the mirror is joined by is of form {}, and this program knows {BOOTSTRAP_VERSION}",
            near.version
        )));
    }
    check_reached(&near.addresses, &near.authority)?;
    check_token(&near.token)
}

/// This end's record, its volumes, and a token for the near end.
fn make(
    session: &Asking,
    node: &Api,
    (wanted, name): (&WantedJoin, &str),
    (peer, there): (MirrorPeer, &MirrorLink),
    by: &str,
) -> Result<amita_identity::ApiToken, Problem> {
    let role = there.standing.role;
    if role != MirrorRole::Primary {
        let why = format!(
            "the other end of mirror {} is {role}, and only a primary is joined",
            wanted.bootstrap.name
        );
        return Err(Problem::new(Code::WrongState, why));
    }
    let Some(pool) = wanted.pool.as_deref() else {
        return Err(bad(
            "no pool is named, and the volumes are to be made in one: say `pool`",
        ));
    };
    let is_encrypted = |near: bool| wanted.encrypted || near;
    let keys = match there.volumes.iter().any(|volume| is_encrypted(volume.encrypted)) {
        true => Some(node.data_keys().ok_or_else(super::super::volumes::no_keys)?),
        false => None,
    };
    let targets: Vec<TargetWish<'_>> = there
        .volumes
        .iter()
        .map(|volume| TargetWish {
            name: &volume.name,
            pool,
            size_bytes: volume.size_bytes,
            keys: keys
                .as_deref()
                .filter(|_| is_encrypted(volume.encrypted))
                .map(|keys| keys as &dyn DataKeys),
        })
        .collect();
    let wish = wanted.settings().wish(name, wanted.bootstrap.mirror, true, peer);
    let (_, secret) = session.act(Action::MirrorAdd, name, |meta| {
        admin::join_mirror(meta, &wish, there.standing.epoch, &targets, (by, now()))
    })?;
    Ok(secret)
}
