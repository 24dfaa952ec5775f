//! What happened.

use super::input::{Pairs, Parameters, all_of};
use crate::event::{Event, Severity, names};
use crate::page::{Cursor, Page};
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::admin::AdminError;
use amita_control::events;
use amita_metadata::{Call, Transact as _};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(kinds))
}

/// A kind of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct EventKind {
    /// Its name: stable.
    pub kind: String,
    /// How much events of it matter.
    pub severity: Severity,
    /// What it says, in a sentence.
    pub meaning: String,
    /// What to do about it, in a sentence or two.
    pub advice: String,
}

/// In which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Order {
    /// The oldest first.
    #[default]
    Oldest,
    /// The newest first.
    Newest,
}

/// Which events.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Only about this: the name of a pool or volume, the number of a node, a store's UUID or the beginning of it.
    object: Option<String>,
    /// Only those that matter so much, or more.
    #[param(inline)]
    severity: Option<Severity>,
    /// Not older than this: milliseconds since 1970.
    since_ms: Option<u64>,
    /// Which come first.
    #[serde(default)]
    #[param(inline)]
    order: Order,
}

/// The kinds of events that are asked for.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "for the specification: the handler reads it by `Pairs`")]
struct Kinds {
    /// Of this kind only; once for each.
    kind: Option<Vec<String>>,
}

/// What happened, the oldest first unless `order` says otherwise.
///
/// Events are kept for 30 days, and 10,000 of them.
#[utoipa::path(get, path = "/events", operation_id = "listEvents", tag = "events", params(Cursor, Filter, Kinds),
    responses((status = 200, body = Page<Event>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
    Parameters(filter): Parameters<Filter>,
    Parameters(pairs): Pairs,
) -> Result<Json<Page<Event>>, Problem> {
    let kinds = all_of(&pairs, "kind");
    if let Some(unknown) = kinds.iter().find(|kind| events::Kind::named(kind).is_none()) {
        let why = format!("there is no kind of event named {unknown:?}; /api/v1/event-kinds has all of them");
        return Err(Problem::new(Code::BadRequest, why));
    }
    let page = api.run(asker, move |session| {
        let reader = session.reader();
        let names = names(&reader)?;
        let query = events::Query {
            since_ms: filter.since_ms.unwrap_or_default(),
            kinds,
            object: filter.object,
        };
        let reply = reader.txn(&Call::prefix(events::prefix())).map_err(AdminError::from)?;
        let found = reply.values(0).iter().filter_map(|record| {
            let event = events::parse(record).filter(|event| query.takes(event))?;
            let shown = Event::of(record, event, &names);
            let matters = filter.severity.is_none_or(|least| shown.severity >= least);
            matters.then_some(shown)
        });
        cut(cursor, found.collect(), filter.order)
    });
    page.await.map(Json)
}

/// The piece of these, which are in the order of their ids.
fn cut(cursor: Cursor, mut all: Vec<Event>, order: Order) -> Result<Page<Event>, Problem> {
    let Cursor { limit, after } = cursor;
    if order == Order::Oldest {
        return Cursor { limit, after }.cut(all, |event| event.id.as_str());
    }
    if let Some(after) = after {
        all.retain(|event| event.id < after);
    }
    all.reverse();
    Cursor { limit, after: None }.cut(all, |event| event.id.as_str())
}

/// The kinds of events that this node knows, in the order of their names.
#[utoipa::path(get, path = "/event-kinds", operation_id = "listEventKinds", tag = "events", params(Cursor),
    responses((status = 200, body = Page<EventKind>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn kinds(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<EventKind>>, Problem> {
    let page = api.run(asker, move |_| {
        let mut all: Vec<EventKind> = events::Kind::ALL
            .iter()
            .map(|kind| EventKind {
                kind: kind.name().to_owned(),
                severity: kind.severity().into(),
                meaning: kind.meaning().to_owned(),
                advice: kind.advice().to_owned(),
            })
            .collect();
        all.sort_by(|one, other| one.kind.cmp(&other.kind));
        cursor.cut(all, |kind| kind.kind.as_str())
    });
    page.await.map(Json)
}
