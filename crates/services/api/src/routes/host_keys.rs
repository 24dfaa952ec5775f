//! Keys of hosts on their way in: checked, sealed by the node that is asked, and shown to nobody.

use super::hosts::{Host, find, look};
use super::input::{Body, Known, Names, nullable};
use crate::condition::IfMatch;
use crate::page::Tagged;
use crate::problem::{Code, Problem};
use crate::repeat::Secret as Unkept;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_control::admin::{self, HostKeys, Secret, field};
use amita_keys::{DhchapSecret, KeyError, SealKey, TlsKey, Zeroizing};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use std::path::Path;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(change))
}

/// What a host is to prove from now on. What is not there stays; null takes a key away. The node that is asked has to have the
/// cluster's sealing key (`amita serve --seal-key`) where a key is given.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostKeysChange {
    /// What it proves to have by DH-HMAC-CHAP: `DHHC-1:...`, as `nvme gen-dhchap-key` makes it.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub dhchap: Option<Option<String>>,
    /// What controllers prove to have: `DHHC-1:...`.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub dhchap_controller: Option<Option<String>>,
    /// The pre-shared key for TLS: `NVMeTLSkey-1:...`, as `nvme gen-tls-key` makes it.
    #[serde(default, deserialize_with = "nullable")]
    #[expect(clippy::option_option, reason = "see `nullable`")]
    pub tls: Option<Option<String>>,
}

/// The host in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// Its NVMe qualified name, percent-encoded.
    nqn: String,
}

/// Of a key only what is wrong with its form is ever said.
#[expect(clippy::option_option, reason = "see `nullable`")]
fn sealed(
    given: Option<Option<String>>,
    (nqn, field): (&str, &str),
    seal: Option<&SealKey>,
    check: fn(&str) -> Result<(), KeyError>,
) -> Result<Secret, Problem> {
    let Some(given) = given else { return Ok(Secret::Keep) };
    let Some(text) = given.map(Zeroizing::new) else {
        return Ok(Secret::Remove);
    };
    let bad = |why: String| Problem::new(Code::BadSetting, format!("{field}: {why}"));
    check(text.trim()).map_err(|why| bad(why.to_string()))?;
    let seal = seal.ok_or_else(|| {
        let why = "this node has no sealing key; ask one that has (`amita serve --seal-key`)";
        Problem::new(Code::WrongState, why)
    })?;
    let sealed = seal.seal(nqn, field, text.trim()).map_err(|why| bad(why.to_string()))?;
    Ok(Secret::Sealed(sealed))
}

pub(super) fn load(file: &Path) -> Result<SealKey, Problem> {
    SealKey::load(file).map_err(|why| {
        log::warn!("keys of hosts and initiators cannot be taken by the API: {why}");
        Problem::new(
            Code::WrongState,
            "this node cannot read its sealing key: its log says why",
        )
    })
}

impl HostKeysChange {
    fn sealed(self, nqn: &str, seal: Option<&SealKey>) -> Result<HostKeys, Problem> {
        let dhchap = |text: &str| DhchapSecret::parse(text).map(drop);
        Ok(HostKeys {
            dhchap: sealed(self.dhchap, (nqn, field::DHCHAP), seal, dhchap)?,
            dhchap_controller: sealed(self.dhchap_controller, (nqn, field::DHCHAP_CONTROLLER), seal, dhchap)?,
            tls: sealed(self.tls, (nqn, field::TLS), seal, |text| TlsKey::parse(text).map(drop))?,
        })
    }
}

/// Sets or takes away what a host has to prove. Connections that it has are not touched; the next one is held to it.
#[utoipa::path(patch, path = "/hosts/{nqn}/keys", operation_id = "changeHostKeys", tag = "nvme",
    request_body = HostKeysChange, params(Which, Known),
    responses((status = 200, body = Host, headers(("ETag" = String))),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(
    State(api): State<Api>,
    asker: Asker,
    Names(nqn): Names<String>,
    known: IfMatch,
    Body(change): Body<HostKeysChange>,
) -> Result<Response, Problem> {
    let seal = api.seal_key();
    let changed = api.run(asker, move |session| {
        session.permit(Action::HostKey, &nqn)?;
        let held = known.check(session, |meta| look(meta, &nqn))?;
        let seal = seal.map(|file| load(&file)).transpose()?;
        let keys = change.sealed(&nqn, seal.as_ref())?;
        held.act(Action::HostKey, &nqn, |meta| admin::set_host_keys(meta, &nqn, &keys))?;
        Ok(find(&session.reader(), &nqn)?)
    });
    // Of a request with a secret no answer is kept.
    Ok((Extension(Unkept), Tagged(StatusCode::OK, changed.await?)).into_response())
}
