//! The command line, carried out by this node with the rights of who asks.

use super::input::Body;
use crate::commands::{CommandLine, MAX_ARGUMENT_BYTES, MAX_ARGUMENTS, MAX_FILE_BYTES, MAX_FILES, Outcome};
use crate::guard::Proved;
use crate::problem::{Code, Problem};
use crate::repeat::Secret;
use crate::session::{Api, Asker};
use crate::who::Ends;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(run_command))
}

/// A command that is to be carried out.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedCommand {
    /// Its words, without the program's name, and without the options that every command has: at most 1,024, each of 16 KiB at most.
    #[schema(example = json!(["volume", "list", "--json"]))]
    pub arguments: Vec<String>,
    /// The name of what is destroyed, where that has to be confirmed.
    #[serde(default)]
    pub confirmed: Option<String>,
    /// What the files hold that its words name, by those names: at most 8, each of 64 KiB at most. Keys and passwords are sent so, over HTTPS
    /// only; they are sealed or forgotten, and no answer of such a command is kept.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// What a command has said.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CommandOutcome {
    /// Its exit code: 0 where it was done.
    pub exit_code: u8,
    /// What it has said on standard output: at most 4 MiB.
    pub stdout: String,
    /// What it has said on standard error.
    pub stderr: String,
    /// What has to be confirmed before it is done; null: nothing. Where it is there, nothing was done.
    pub question: Option<CommandQuestion>,
}

/// What has to be confirmed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CommandQuestion {
    /// What is to be sent as `confirmed`.
    pub name: String,
    /// What is lost.
    pub lost: String,
}

/// Carries a command of the command line out, with the rights of who asks. A command that fails is an answer, too: see its exit code.
///
/// It is for the program `amita` (`--by-api`): other programs find each operation beside this one. A command that waits for something is
/// waited for, at most five minutes. What a command says may be another thing in the next release, unless it is JSON. The answer is kept
/// under no Idempotency-Key where it has a secret.
#[utoipa::path(post, path = "/commands", operation_id = "runCommand", tag = "commands", request_body = WantedCommand,
    responses((status = 200, body = CommandOutcome),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn run_command(
    State(api): State<Api>,
    asker: Asker,
    ends: Option<Extension<Ends>>,
    proved: Option<Extension<Proved>>,
    Body(wanted): Body<WantedCommand>,
) -> Result<Response, Problem> {
    let WantedCommand {
        arguments,
        confirmed,
        files,
    } = wanted;
    if arguments.len() > MAX_ARGUMENTS {
        let why = format!("a command has {MAX_ARGUMENTS} arguments at most");
        return Err(Problem::new(Code::TooLarge, why));
    }
    if arguments
        .iter()
        .chain(&confirmed)
        .any(|one| one.len() > MAX_ARGUMENT_BYTES)
    {
        let why = format!("an argument of a command has {MAX_ARGUMENT_BYTES} bytes at most");
        return Err(Problem::new(Code::TooLarge, why));
    }
    let is_private = proved.is_some();
    if !files.is_empty() && !is_private {
        let why = "what files hold is taken over HTTPS only: here others could read it. Ask a node that has an identity, or give the \
                   command with --metadata";
        return Err(Problem::new(Code::BadRequest, why));
    }
    if files.len() > MAX_FILES || files.values().any(|text| text.len() > MAX_FILE_BYTES) {
        let why = format!("{MAX_FILES} files at most are sent with a command, each of {MAX_FILE_BYTES} bytes at most");
        return Err(Problem::new(Code::TooLarge, why));
    }
    let has_files = !files.is_empty();
    let line = CommandLine {
        arguments,
        confirmed,
        files: files.into_iter().collect(),
    };
    let ends_at = ends.map(|Extension(Ends(ends_at))| ends_at);
    let outcome = api.carry_out(asker, ends_at, is_private, line).await?;
    if let Some(why) = &outcome.away {
        return Err(Problem::new(Code::MetadataAway, why));
    }
    let is_secret = outcome.is_secret || has_files;
    let mut response = Json(shown(outcome)).into_response();
    if is_secret {
        response.extensions_mut().insert(Secret);
    }
    Ok(response)
}

fn shown(outcome: Outcome) -> CommandOutcome {
    CommandOutcome {
        exit_code: outcome.exit_code,
        stdout: outcome.stdout,
        stderr: outcome.stderr,
        question: outcome.question.map(|(name, lost)| CommandQuestion { name, lost }),
    }
}
