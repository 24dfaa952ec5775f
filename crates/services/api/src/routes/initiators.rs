//! Initiators: who may log in to targets, and what they have to prove. Their secrets are checked, sealed by the node that is asked, and
//! shown to nobody.

use super::host_keys::load;
use super::input::{Body, Force, Known, Names, Parameters, nullable};
use crate::condition::{Identity, IfMatch, whatever};
use crate::page::{Cursor, Page, Tagged};
use crate::problem::{Code, Problem};
use crate::repeat::Secret as Unkept;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, ChapUser, InitiatorKeys, Secret, chap_field};
use amita_keys::{ChapError, ChapSecret, ChapSide, PairError, SealKey, Zeroizing, seal_pair};
use amita_metadata::Transact;
use amita_types::map;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(show, remove))
        .routes(routes!(change_keys))
}

/// An initiator, and what it has to prove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Initiator {
    /// Its iSCSI name.
    pub name: String,
    /// The name that it gives for CHAP.
    pub chap_user: String,
    /// The name that targets give it for CHAP; null: each its own.
    pub chap_target_user: Option<String>,
    /// It has to prove by CHAP that it has its secret.
    pub chap: bool,
    /// Targets prove to it that they have one as well.
    pub chap_target: bool,
    /// The names of the targets that it may log in to, of those whose records can be read.
    pub targets: Vec<String>,
}

impl Initiator {
    fn of(initiator: &map::IscsiInitiator, targets: &[map::IscsiTarget]) -> Initiator {
        let allowed = targets.iter().filter(|target| target.access(&initiator.name).is_some());
        Initiator {
            name: initiator.name.clone(),
            chap_user: initiator.user().to_owned(),
            chap_target_user: initiator.chap_target_user.clone(),
            chap: initiator.chap.is_some(),
            chap_target: initiator.chap_target.is_some(),
            targets: allowed.map(|target| target.name.clone()).collect(),
        }
    }
}

/// An initiator that is to be known. It has nothing to prove until it is given secrets.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInitiator {
    /// Its iSCSI name.
    #[schema(example = "iqn.1993-08.org.debian:01:9c11913aa8b")]
    pub name: String,
}

/// What an initiator is to prove from now on. What is not there stays; null takes it away. The node that is asked has to have the cluster's
/// sealing key (`amita serve --seal-key`) where a secret is given.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InitiatorKeysChange {
    /// The name that it gives for CHAP; null: its iSCSI name.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub chap_user: Option<Option<String>>,
    /// The name that targets give it for CHAP, all the same one; null: each its own iSCSI name.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub chap_target_user: Option<Option<String>>,
    /// What it proves to have: 12 to 255 printable characters (16 at most for Windows).
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub chap: Option<Option<String>>,
    /// What targets prove to have: another secret than the initiator's.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub chap_target: Option<Option<String>>,
}

/// The initiator in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// Its iSCSI name, percent-encoded.
    name: String,
}

fn find(meta: &dyn Transact, name: &str) -> Result<Initiator, AdminError> {
    Ok(Initiator::of(
        &admin::initiator(meta, name)?,
        &admin::targets(meta)?.readable,
    ))
}

fn look(meta: &dyn Transact, name: &str) -> Result<(Initiator, Identity), AdminError> {
    let initiator = find(meta, name)?;
    let identity = Identity::of(&initiator, vec![map::iscsi_initiator_key(&initiator.name)]);
    Ok((initiator, identity))
}

/// The initiators, in the order of their names.
///
/// One whose record nobody can read is not among them: the fact `record-unreadable` tells of it.
#[utoipa::path(get, path = "/initiators", operation_id = "listInitiators", tag = "iscsi", params(Cursor),
    responses((status = 200, body = Page<Initiator>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Initiator>>, Problem> {
    let page = api.run(asker, move |session| {
        let targets = admin::targets(&session.reader())?.readable;
        let all = admin::initiators(&session.reader())?.readable;
        let page = cursor.cut(all, |known| known.name.as_str())?;
        Ok(Page {
            items: page.items.iter().map(|known| Initiator::of(known, &targets)).collect(),
            next: page.next,
        })
    });
    page.await.map(Json)
}

/// Makes an initiator known. It may log in nowhere until a target allows it.
#[utoipa::path(post, path = "/initiators", operation_id = "addInitiator", tag = "iscsi", request_body = NewInitiator,
    responses((status = 201, body = Initiator, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn add(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewInitiator>,
) -> Result<Tagged<Initiator>, Problem> {
    let NewInitiator { name } = wanted;
    let made = api.act(asker, Action::InitiatorAdd, name.clone(), move |meta| {
        let made = admin::add_initiator(meta, &name)?;
        find(meta, &made.name)
    });
    Ok(Tagged(StatusCode::CREATED, made.await?))
}

/// An initiator.
#[utoipa::path(get, path = "/initiators/{name}", operation_id = "showInitiator", tag = "iscsi", params(Which),
    responses((status = 200, body = Initiator, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Tagged<Initiator>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    Ok(Tagged(StatusCode::OK, found.await?))
}

/// Forgets an initiator and its secrets. Where a target allows it, only with `force`, which takes that away too; so where nobody can read what is
/// known of it.
#[utoipa::path(delete, path = "/initiators/{name}", operation_id = "removeInitiator", tag = "iscsi",
    params(Which, Force, Known),
    responses((status = 204, description = "It is not known any more."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(Force { force }): Parameters<Force>,
    known: IfMatch,
) -> Result<StatusCode, Problem> {
    let removed = api.run(asker, move |session| {
        let key = map::iscsi_initiator_key(&name);
        let held = known.check(session, |meta| whatever(look(meta, &name), key.clone()))?;
        held.act(Action::InitiatorRemove, &name, |meta| {
            admin::remove_initiator(meta, &name, force)
        })?;
        Ok(StatusCode::NO_CONTENT)
    });
    removed.await
}

/// What is wrong with a secret is said, and never what it is.
fn bad(field: &str, why: &ChapError) -> Problem {
    Problem::new(Code::BadSetting, format!("{field}: {why}"))
}

#[expect(clippy::option_option, reason = "see `nullable`")]
fn parsed(given: Option<Option<String>>, field: &'static str) -> Result<(Option<ChapSecret>, bool), Problem> {
    match given.map(|text| text.map(Zeroizing::new)) {
        None => Ok((None, false)),
        Some(None) => Ok((None, true)),
        Some(Some(text)) => {
            let secret = ChapSecret::parse(&text).map_err(|why| bad(field, &why))?;
            Ok((Some(secret), false))
        }
    }
}

#[expect(clippy::option_option, reason = "see `nullable`")]
fn named(given: Option<Option<String>>) -> ChapUser {
    match given {
        None => ChapUser::Keep,
        Some(None) => ChapUser::Own,
        Some(Some(user)) => ChapUser::Named(user),
    }
}

fn set(sealed: Option<String>, goes: bool) -> Secret {
    match sealed {
        Some(sealed) => Secret::Sealed(sealed),
        None if goes => Secret::Remove,
        None => Secret::Keep,
    }
}

impl InitiatorKeysChange {
    fn sealed(self, known: &map::IscsiInitiator, seal: Option<&SealKey>) -> Result<InitiatorKeys, Problem> {
        let (user, target_user) = (named(self.chap_user), named(self.chap_target_user));
        let (own, own_goes) = parsed(self.chap, chap_field::INITIATOR)?;
        let (target, target_goes) = parsed(self.chap_target, chap_field::TARGET)?;
        let mut compared = None;
        let sealed = if own.is_none() && target.is_none() {
            (None, None)
        } else {
            compared = Some((known.chap.clone(), known.chap_target.clone()));
            let seal = seal.ok_or_else(|| {
                let why = "this node has no sealing key; ask one that has (`amita serve --seal-key`)";
                Problem::new(Code::WrongState, why)
            })?;
            let own = ChapSide {
                field: chap_field::INITIATOR,
                new: own.as_ref(),
                kept: known.chap.as_deref().filter(|_| !own_goes),
            };
            let target = ChapSide {
                field: chap_field::TARGET,
                new: target.as_ref(),
                kept: known.chap_target.as_deref().filter(|_| !target_goes),
            };
            seal_pair(&known.name, &own, &target, seal).map_err(|why| match why {
                PairError::Chap(why) => bad(chap_field::TARGET, &why),
                other => Problem::new(Code::WrongState, other),
            })?
        };
        Ok(InitiatorKeys {
            user,
            target_user,
            chap: set(sealed.0, own_goes),
            chap_target: set(sealed.1, target_goes),
            compared,
        })
    }
}

/// Sets or takes away what an initiator has to prove. Sessions that it has by another secret are cut off.
#[utoipa::path(patch, path = "/initiators/{name}/keys", operation_id = "changeInitiatorKeys", tag = "iscsi",
    request_body = InitiatorKeysChange, params(Which, Known),
    responses((status = 200, body = Initiator, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change_keys(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    known: IfMatch,
    Body(change): Body<InitiatorKeysChange>,
) -> Result<Response, Problem> {
    let seal = api.seal_key();
    let changed = api.run(asker, move |session| {
        session.permit(Action::InitiatorKey, &name)?;
        let held = known.check(session, |meta| look(meta, &name))?;
        let seal = seal.map(|file| load(&file)).transpose()?;
        let there = admin::initiator(&session.reader(), &name)?;
        let keys = change.sealed(&there, seal.as_ref())?;
        held.act(Action::InitiatorKey, &name, |meta| {
            admin::set_initiator_keys(meta, &name, &keys)
        })?;
        Ok(find(&session.reader(), &name)?)
    });
    // Of a request with a secret no answer is kept.
    Ok((Extension(Unkept), Tagged(StatusCode::OK, changed.await?)).into_response())
}
