//! Who did what.

use super::input::Parameters;
use crate::page::{Cursor, MOST, Page};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_audit::{Line, Record};
use amita_control::access::Action;
use amita_control::admin::AdminError;
use amita_control::audit;
use amita_metadata::Transact;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Where nobody says how many.
const USUAL: usize = 100;
/// So many records are looked at for one answer: whoever looks for what is rare asks again, from where it ended.
const LOOKED_AT: u64 = 5000;

/// Records that the log tells at once, from a multiple of it on.
const PAGE: u64 = 64;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

/// A record of the audit log. What changes something is there twice: when it begins, and when it has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AuditRecord {
    /// Its number; they follow each other.
    pub number: u64,
    /// When, in milliseconds since 1970, by the clock of who tells.
    pub at_ms: u64,
    /// Who did it: the whole name of a certificate, or what is known instead.
    pub who: String,
    /// The role in which it was done.
    pub role: String,
    /// The machine from which, as that says; empty: it is not known.
    pub host: String,
    /// The network address from which, as a server has seen it.
    pub address: Option<String>,
    /// What.
    #[schema(example = "volume.create")]
    pub action: String,
    /// To what.
    pub object: String,
    /// How far it came: `begun`, `done`, `failed`, `unknown` (an answer was lost), `refused`.
    #[schema(example = "done")]
    pub outcome: String,
    /// The number of the record with which it began.
    pub begun_by: Option<u64>,
    /// Why it failed or was refused, or what else is to be said.
    pub text: String,
}

impl From<&Record> for AuditRecord {
    fn from(found: &Record) -> AuditRecord {
        AuditRecord {
            number: found.seq,
            at_ms: found.unix_ms,
            who: found.who.name.clone(),
            role: found.who.role.clone(),
            host: found.whence.host.clone(),
            address: found.whence.address.clone(),
            action: found.action.clone(),
            object: found.object.clone(),
            outcome: found.outcome.text().to_owned(),
            begun_by: found.of,
            text: found.text.clone(),
        }
    }
}

/// Which records.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Only by those whose name or role has this in it.
    who: Option<String>,
    /// Only actions whose name begins so: `volume.`, `host.key`.
    action: Option<String>,
    /// Not older than this: milliseconds since 1970.
    since_ms: Option<u64>,
}

impl Filter {
    fn takes(&self, record: &Record) -> bool {
        let by = |text: &String| record.who.name.contains(text) || record.who.role.contains(text);
        let is = |action: &String| record.action.starts_with(action);
        record.unix_ms >= self.since_ms.unwrap_or_default()
            && self.who.as_ref().is_none_or(by)
            && self.action.as_ref().is_none_or(is)
    }
}

/// Who did what, the oldest first: for admins and auditors.
///
/// An answer may have fewer records than there are, and even none, and a `next`: then there are more to look at behind it.
#[utoipa::path(get, path = "/audit", operation_id = "listAudit", tag = "audit", params(Cursor, Filter),
    responses((status = 200, body = Page<AuditRecord>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
    Parameters(filter): Parameters<Filter>,
) -> Result<Json<Page<AuditRecord>>, Problem> {
    let limit = cursor.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        let why = format!("limit is {limit}; it can be 1 to {MOST}");
        return Err(Problem::new(Code::BadRequest, why));
    }
    let after = match cursor.after.as_deref().map(str::parse::<u64>) {
        None => 0,
        Some(Ok(number)) => number,
        Some(Err(_)) => {
            let why = "after is no number of a record; give the `next` of the answer before";
            return Err(Problem::new(Code::BadRequest, why));
        }
    };
    let page = api.run(asker, move |session| {
        session.permit(Action::AuditRead, "")?;
        Ok(piece(&session.reader(), after, limit, &filter).map_err(AdminError::from)?)
    });
    page.await.map(Json)
}

/// The records behind that number.
fn piece(
    meta: &dyn Transact,
    after: u64,
    limit: usize,
    filter: &Filter,
) -> Result<Page<AuditRecord>, amita_metadata::Error> {
    let bounds = audit::bounds(meta)?;
    let last = bounds.head.map_or(0, |head| head.seq);
    let first = bounds.trimmed.map_or(1, |head| head.next());
    let begin = after.saturating_add(1).max(first);
    let mut items = Vec::new();
    let mut from = begin;
    while from <= last && from - begin < LOOKED_AT {
        let found = audit::page(meta, from)?;
        // Nothing on all of its page.
        let mut next = if found.is_empty() {
            (from / PAGE + 1) * PAGE
        } else {
            from + 1
        };
        for (place, text) in found {
            next = place + 1;
            match Line::parse(&text) {
                Ok(line) if filter.takes(line.record()) => items.push(AuditRecord::from(line.record())),
                Ok(_) => {}
                Err(why) => {
                    log::warn!("record {place} of the audit log cannot be read ({why}): see `amita audit verify`")
                }
            }
            if items.len() == limit {
                break;
            }
        }
        from = next;
        if items.len() == limit {
            break;
        }
    }
    let next = (from <= last).then(|| (from - 1).to_string());
    Ok(Page { items, next })
}
