//! What happens and what changes, told as it does.

use crate::event::{Event as Happened, names};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use crate::watch::Moment;
use amita_control::admin::AdminError;
use amita_control::events;
use amita_metadata::{Call, Transact};
use amita_types::map;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use http::HeaderMap;
use serde::Serialize;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// For so long one watches by one request. Whoever comes again shows again who they are.
const LONGEST: Duration = Duration::from_secs(300);
/// Changes are gathered for so long, and told together.
const GATHER: Duration = Duration::from_millis(250);
/// Messages that wait to be sent to one watcher.
const QUEUE: usize = 64;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(watch_events))
        .routes(routes!(watch_changes))
}

/// Kinds of things that were changed: ask for them anew.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Changed {
    /// `volumes`, `snapshots`, `nodes`...: as in the paths of the API.
    pub kinds: BTreeSet<&'static str>,
}

type Stream = Sse<KeepAliveStream<ReceiverStream<Result<Event, Infallible>>>>;
type Out = mpsc::Sender<Result<Event, Infallible>>;

/// Events as they happen (server-sent events). Each message is an event as `GET /events` lists it; who comes again with the id of the last
/// one that was seen (`Last-Event-ID`, as browsers do) is told first of those since.
#[utoipa::path(get, path = "/events/watch", operation_id = "watchEvents", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header, description = "The id of the last message that was seen")),
    responses((status = 200, content_type = "text/event-stream", body = Happened), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn watch_events(State(api): State<Api>, asker: Asker, headers: HeaderMap) -> Result<Stream, Problem> {
    let last = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok())
        .and_then(|id| id.parse::<u64>().ok());
    let moments = api.listen().await?;
    let missed = api.run(asker, move |session| Ok(missed(&session.reader(), last)?));
    let (told, missed) = missed.await?;
    Ok(stream(move |out| tell_events(out, moments, missed, told)))
}

/// What happened since a revision of the metadata, and which revision that tells of. A revision that there is not yet is one of other
/// metadata: then nothing was seen.
fn missed(meta: &dyn Transact, last: Option<u64>) -> Result<(u64, Vec<(u64, Happened)>), AdminError> {
    let Some(last) = last else {
        let now = meta.txn(&Call::get(map::cluster_key()))?.revision;
        return Ok((now, Vec::new()));
    };
    let names = names(meta)?;
    let reply = meta.txn(&Call::prefix(events::prefix()))?;
    let last = if last <= reply.revision { last } else { 0 };
    let fresh = reply.values(0).iter().filter(|found| found.mod_revision > last);
    let mut missed: Vec<(u64, Happened)> = fresh
        .filter_map(|found| Some((found.mod_revision, Happened::of(found, events::parse(found)?, &names))))
        .collect();
    missed.sort_by_key(|(revision, _)| *revision);
    Ok((reply.revision, missed))
}

/// What has changed, by its kind (server-sent events): each message says of what kinds of things some were made, changed or deleted, within
/// the last quarter of a second. The first message comes at once.
#[utoipa::path(get, path = "/changes/watch", operation_id = "watchChanges", tag = "cluster",
    responses((status = 200, content_type = "text/event-stream", body = Changed), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn watch_changes(State(api): State<Api>, asker: Asker) -> Result<Stream, Problem> {
    api.run(asker, |_| Ok(())).await?;
    let moments = api.listen().await?;
    Ok(stream(|out| tell_changes(out, moments)))
}

fn stream<F: Future<Output = Option<()>> + Send + 'static>(tell: impl FnOnce(Out) -> F) -> Stream {
    let (out, messages) = mpsc::channel(QUEUE);
    // Who does not read is cut off as well.
    tokio::spawn(timeout(LONGEST, tell(out)));
    Sse::new(ReceiverStream::new(messages)).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}

/// None: it is over.
async fn next(moments: &mut Receiver<Arc<Moment>>) -> Option<Arc<Moment>> {
    moments.recv().await.ok()
}

/// Ends when it is over, or nobody reads any more. `told`: the revision up to which all is known, or in `missed`.
async fn tell_events(
    out: Out,
    mut moments: Receiver<Arc<Moment>>,
    missed: Vec<(u64, Happened)>,
    mut told: u64,
) -> Option<()> {
    send_events(&out, &missed).await?;
    // Who comes again before anything has happened knows from where on.
    out.send(Ok(Event::default().id(told.to_string()))).await.ok()?;
    loop {
        let moment = tokio::select! {
            moment = next(&mut moments) => moment?,
            () = out.closed() => return None,
        };
        let fresh: Vec<(u64, Happened)> = moment
            .events
            .iter()
            .filter(|(revision, _)| *revision > told)
            .cloned()
            .collect();
        send_events(&out, &fresh).await?;
        told = told.max(moment.revision);
    }
}

/// Events of one revision have one id, which stands at the last of them: who was cut off between them sees them again.
async fn send_events(out: &Out, events: &[(u64, Happened)]) -> Option<()> {
    for (index, (revision, event)) in events.iter().enumerate() {
        let message = Event::default().json_data(event).ok()?;
        let is_last = events.get(index + 1).is_none_or(|(next, _)| next != revision);
        let message = if is_last {
            message.id(revision.to_string())
        } else {
            message
        };
        out.send(Ok(message)).await.ok()?;
    }
    Some(())
}

async fn tell_changes(out: Out, mut moments: Receiver<Arc<Moment>>) -> Option<()> {
    let mut kinds: BTreeSet<&'static str> = BTreeSet::new();
    loop {
        let message = Event::default().json_data(Changed { kinds }).ok()?;
        out.send(Ok(message)).await.ok()?;
        kinds = tokio::select! {
            kinds = gather(&mut moments) => kinds?,
            () = out.closed() => return None,
        };
    }
}

/// Waits for a change, and a little for others.
async fn gather(moments: &mut Receiver<Arc<Moment>>) -> Option<BTreeSet<&'static str>> {
    let mut kinds = BTreeSet::new();
    while kinds.is_empty() {
        kinds.extend(&next(moments).await?.kinds);
    }
    let soon = Instant::now() + GATHER;
    while let Ok(moment) = timeout_at(soon, next(moments)).await {
        kinds.extend(&moment?.kinds);
    }
    Some(kinds)
}
