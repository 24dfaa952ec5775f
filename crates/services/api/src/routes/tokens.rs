//! Tokens: who may use the API without a certificate.

use super::input::{Body, Names, Parameters};
use crate::page::{Cursor, Page};
use crate::problem::Problem;
use crate::repeat::Secret;
use crate::session::{Api, Asker};
use crate::who::{Ends, now};
use amita_control::access::{Action, Role};
use amita_control::admin::{self, DEFAULT_TOKEN_LIFE, NewToken};
use amita_types::map::ApiToken;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_tokens, create_token))
        .routes(routes!(revoke_token))
        .routes(routes!(show_self))
}

/// A token of the API, without its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Token {
    /// What it is called.
    #[schema(example = "0f8fad5bd9cb469fa16570867728950e")]
    pub id: String,
    /// Who holds it.
    pub name: String,
    /// What they may: `admin`, `operator`, `viewer` or `auditor`; `mirror` of one that a mirror's other end holds.
    #[schema(example = "viewer")]
    pub role: String,
    /// The number of the mirror whose other end holds it; null: it is nobody's.
    pub mirror: Option<String>,
    /// Who made it.
    pub made_by: String,
    /// When it was made, in seconds since 1970.
    pub made_at: u64,
    /// From when on it is not good any more, in seconds since 1970.
    pub ends_at: u64,
    /// Is it good no more?
    pub ended: bool,
}

/// A token that was made.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MadeToken {
    /// What is known of it.
    #[serde(flatten)]
    pub token: Token,
    /// The token itself, for `Authorization: Bearer`. It is shown this once, and kept nowhere.
    pub secret: String,
}

/// A token that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedToken {
    /// Who will hold it: 1 to 200 letters, digits and `. _ -`.
    pub name: String,
    /// What they may: `admin`, `operator`, `viewer` or `auditor`.
    #[schema(example = "viewer")]
    pub role: String,
    /// For how long it is good, in seconds: at most 366 days; 30 days where it is not said.
    pub life_s: Option<u64>,
}

impl From<ApiToken> for Token {
    fn from(record: ApiToken) -> Token {
        Token {
            ended: record.ends_at <= now().as_secs(),
            id: record.id,
            name: record.name,
            role: record.role,
            mirror: record.mirror.map(|mirror| mirror.to_string()),
            made_by: record.made_by,
            made_at: record.made_at,
            ends_at: record.ends_at,
        }
    }
}

/// Who asks, and what they may.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Myself {
    /// As the audit log names them.
    pub name: String,
    /// `admin`, `operator`, `viewer`, `auditor`, or the role of a certificate that is no operator's.
    pub role: String,
    /// How they have proved it: `certificate`, `token`, `none`.
    pub proof: String,
    /// Names of what they may do (`volume.create`...), in their order.
    pub may: Vec<String>,
}

/// The tokens, in the order of their ids.
#[utoipa::path(get, path = "/tokens", operation_id = "listTokens", tag = "tokens", params(Cursor),
    responses((status = 200, body = Page<Token>), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list_tokens(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Token>>, Problem> {
    let page = api.run(asker, move |session| {
        let mut all: Vec<Token> = admin::tokens(&session.reader())?.into_iter().map(Token::from).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        cursor.cut(all, |token| token.id.as_str())
    });
    page.await.map(Json)
}

/// Makes a token. The answer is kept under no Idempotency-Key, since it has a secret. By a token only tokens are made that end no later.
#[utoipa::path(post, path = "/tokens", operation_id = "createToken", tag = "tokens", request_body = WantedToken,
    responses((status = 201, body = MadeToken), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn create_token(
    State(api): State<Api>,
    asker: Asker,
    ends: Option<Extension<Ends>>,
    Body(wanted): Body<WantedToken>,
) -> Result<Response, Problem> {
    let role: Result<Role, _> = wanted.role.parse();
    let role = role.map_err(|why| Problem::new(crate::Code::BadSetting, why))?;
    let new = NewToken {
        life: wanted.life_s.map_or(DEFAULT_TOKEN_LIFE, Duration::from_secs),
        made_by: asker.0.who().name.clone(),
        name: wanted.name,
        role,
    };
    let too_long = |Extension(Ends(ends_at)): Extension<Ends>| now().saturating_add(new.life).as_secs() > ends_at;
    if asker.0.may(Action::TokenCreate) && ends.is_some_and(too_long) {
        let why = "it would be good for longer than the token that makes it: give a shorter `life_s`, or make it by a certificate";
        return Err(Problem::new(crate::Code::BadSetting, why));
    }
    let object = new.name.clone();
    let made = api.act(asker, Action::TokenCreate, object, move |meta| {
        admin::create_token(meta, &new, now())
    });
    let (record, secret) = made.await?;
    let made = MadeToken {
        token: record.into(),
        secret: secret.to_text().to_string(),
    };
    Ok((StatusCode::CREATED, Extension(Secret), Json(made)).into_response())
}

/// Has a token be good for nothing, within five seconds at every node.
#[utoipa::path(delete, path = "/tokens/{id}", operation_id = "revokeToken", tag = "tokens",
    params(("id" = String, Path, description = "Its id, or the beginning of it: at least 8 digits, and as many as no other one has")),
    responses((status = 200, body = Token), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn revoke_token(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<Json<Token>, Problem> {
    let object = id.clone();
    let gone = api.act(asker, Action::TokenRevoke, object, move |meta| {
        admin::revoke_token(meta, &id)
    });
    Ok(Json(gone.await?.into()))
}

/// Who asks, and what they may.
#[utoipa::path(get, path = "/self", operation_id = "showSelf", tag = "tokens",
    responses((status = 200, body = Myself), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show_self(asker: Asker) -> Json<Myself> {
    let who = asker.0.who();
    let may = Action::ALL.iter().filter(|action| asker.0.may(**action));
    Json(Myself {
        name: who.name.clone(),
        role: who.role.clone(),
        proof: who.proof.text().to_owned(),
        may: may.map(|action| action.name().to_owned()).collect(),
    })
}
