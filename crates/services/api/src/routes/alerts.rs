//! Alerts, who looks after them, and silences.

use super::input::{Body, Names, Parameters, now};
use crate::page::{Cursor, Page};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::access::Action;
use amita_notify::admin::{self, NewSilence, Seen};
use amita_notify::{Match, Severity, State as Where, alert, silence};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_alerts))
        .routes(routes!(show_alert))
        .routes(routes!(acknowledge))
        .routes(routes!(list_silences, add_silence))
        .routes(routes!(remove_silence))
}

/// How much an alert matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertSeverity {
    /// Nothing is wrong; it is good to know.
    Info,
    /// Not as it should be; I/O goes on.
    Warning,
    /// I/O of some hosts waits or fails, or is about to.
    Critical,
}

impl From<Severity> for AlertSeverity {
    fn from(severity: Severity) -> AlertSeverity {
        match severity {
            Severity::Info => AlertSeverity::Info,
            Severity::Warning => AlertSeverity::Warning,
            Severity::Critical => AlertSeverity::Critical,
        }
    }
}

impl From<AlertSeverity> for Severity {
    fn from(severity: AlertSeverity) -> Severity {
        match severity {
            AlertSeverity::Info => Severity::Info,
            AlertSeverity::Warning => Severity::Warning,
            AlertSeverity::Critical => Severity::Critical,
        }
    }
}

/// Where an alert stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// It was there for too short a time to be told.
    Pending,
    /// It is there.
    Firing,
    /// It is over.
    Resolved,
}

impl From<Where> for AlertState {
    fn from(state: Where) -> AlertState {
        match state {
            Where::Pending => AlertState::Pending,
            Where::Firing => AlertState::Firing,
            Where::Resolved => AlertState::Resolved,
        }
    }
}

/// Somebody looks after an alert: it is not told again until it gets worse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Acknowledgement {
    /// Who, as the audit log names them.
    pub by: String,
    /// Since when, in seconds since 1970.
    pub at: u64,
    /// What they say to it; empty: nothing.
    pub note: String,
}

impl From<alert::Acknowledgement> for Acknowledgement {
    fn from(known: alert::Acknowledgement) -> Acknowledgement {
        Acknowledgement {
            by: known.by,
            at: known.at,
            note: known.note,
        }
    }
}

/// What is wrong with the cluster, or was: the facts of its health, and events that no fact tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Alert {
    /// What it is called.
    #[schema(example = "3f0c9a4be1d2")]
    pub id: String,
    /// Which fact or event it is; `amita explain` has all of them.
    #[schema(example = "node-down")]
    pub code: String,
    /// How much it matters.
    pub severity: AlertSeverity,
    /// What it is about.
    #[schema(example = "n2")]
    pub object: String,
    /// What that is, and where: `node`, `pool`, `store`, `volume`, `policy`, `subsystem`, `channel`.
    pub labels: BTreeMap<String, String>,
    /// Where it stands.
    pub state: AlertState,
    /// When it began, in seconds since 1970. What goes and comes back soon is one thing that is wrong.
    pub since: u64,
    /// When it was last found to be more than a moment's trouble, in seconds since 1970; null: not yet.
    pub fired_at: Option<u64>,
    /// When it was over, in seconds since 1970.
    pub resolved_at: Option<u64>,
    /// How often it has gone and come back since it began.
    pub came_back: u32,
    /// What is wrong, in the words of the cluster's health.
    pub what: String,
    /// What follows from it.
    pub impact: String,
    /// What to do.
    pub advice: String,
    /// The name of the page of `docs/operating/runbooks` that says more.
    #[schema(example = "AmitaNodeDown")]
    pub runbook: Option<String>,
    /// Who looks after it; null: nobody has said so.
    pub acknowledged: Option<Acknowledgement>,
    /// The id of the silence by which it is not told now; null: none.
    pub silenced_by: Option<String>,
}

impl From<Seen> for Alert {
    fn from(seen: Seen) -> Alert {
        let Seen { alert, silenced_by } = seen;
        let condition = alert.condition;
        Alert {
            id: alert.id,
            severity: condition.severity.into(),
            object: condition.object,
            labels: condition.labels,
            state: alert.state.into(),
            since: alert.since,
            fired_at: alert.fired_at,
            resolved_at: alert.resolved_at,
            came_back: alert.came_back,
            what: condition.what,
            impact: condition.severity.impact().to_owned(),
            advice: condition.advice,
            runbook: amita_notify::condition::runbook(&condition.code).map(str::to_owned),
            code: condition.code,
            acknowledged: alert.acknowledged.map(Acknowledgement::from),
            silenced_by,
        }
    }
}

/// Which alerts.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AlertFilter {
    /// Only those that stand so.
    #[param(inline)]
    state: Option<AlertState>,
    /// Only those that matter so much, or more.
    #[param(inline)]
    severity: Option<AlertSeverity>,
}

/// An alert in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct WhichAlert {
    /// Its id, or the beginning of it: at least 4 digits, and as many as no other one has.
    id: String,
}

/// The alerts in the order of their ids: those that are there, and those that were over within the last day.
#[utoipa::path(get, path = "/alerts", operation_id = "listAlerts", tag = "alerts", params(Cursor, AlertFilter),
    responses((status = 200, body = Page<Alert>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list_alerts(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
    Parameters(filter): Parameters<AlertFilter>,
) -> Result<Json<Page<Alert>>, Problem> {
    let page = api.run(asker, move |session| {
        let (all, _) = admin::alerts(&session.reader(), now().as_secs())?;
        let wanted = |alert: &Alert| {
            let least = filter.severity.map(Severity::from);
            filter.state.is_none_or(|state| state == alert.state)
                && least.is_none_or(|least| Severity::from(alert.severity) >= least)
        };
        let mut all: Vec<Alert> = all.into_iter().map(Alert::from).filter(wanted).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        cursor.cut(all, |alert| alert.id.as_str())
    });
    page.await.map(Json)
}

/// An alert.
#[utoipa::path(get, path = "/alerts/{id}", operation_id = "showAlert", tag = "alerts", params(WhichAlert),
    responses((status = 200, body = Alert),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show_alert(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<Json<Alert>, Problem> {
    let found = api.run(asker, move |session| {
        Ok(admin::alert(&session.reader(), &id, now().as_secs())?)
    });
    Ok(Json(found.await?.into()))
}

/// What somebody says who looks after an alert.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedAcknowledgement {
    /// What they say to it: one line of at most 500 characters.
    #[serde(default)]
    #[schema(example = "the disk is on its way")]
    pub note: String,
}

/// Says that somebody looks after an alert: it is not told again until it gets worse, or is over and comes back.
#[utoipa::path(post, path = "/alerts/{id}/acknowledge", operation_id = "acknowledgeAlert", tag = "alerts", params(WhichAlert),
    request_body = WantedAcknowledgement,
    responses((status = 200, body = Alert),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn acknowledge(
    State(api): State<Api>,
    asker: Asker,
    Names(id): Names<String>,
    Body(wanted): Body<WantedAcknowledgement>,
) -> Result<Json<Alert>, Problem> {
    let (by, object) = (asker.0.who().name.clone(), id.clone());
    let found = api.act(asker, Action::AlertAck, object, move |meta| {
        admin::acknowledge(meta, &id, &by, &wanted.note, now().as_secs())
    });
    Ok(Json(found.await?.into()))
}

/// Which alerts are meant: those for which all of this is so. In each pattern `*` stands for any text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertMatch {
    /// Their code is one of these; empty: any.
    #[serde(default)]
    #[schema(example = json!(["copies-*"]))]
    pub codes: Vec<String>,
    /// They are about one of these; empty: anything.
    #[serde(default)]
    #[schema(example = json!(["main"]))]
    pub objects: Vec<String>,
    /// They have all of these labels: `node`, `pool`, `store`, `volume`, `policy`, `subsystem`, `channel`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl From<Match> for AlertMatch {
    fn from(found: Match) -> AlertMatch {
        AlertMatch {
            codes: found.codes,
            objects: found.objects,
            labels: found.labels,
        }
    }
}

impl From<AlertMatch> for Match {
    fn from(wanted: AlertMatch) -> Match {
        Match {
            codes: wanted.codes,
            objects: wanted.objects,
            labels: wanted.labels,
        }
    }
}

/// Alerts that are not told for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Silence {
    /// What it is called.
    #[schema(example = "7be01c55d9a0")]
    pub id: String,
    /// Which alerts.
    pub matches: AlertMatch,
    /// From when on, in seconds since 1970.
    pub from: u64,
    /// Until when, in seconds since 1970.
    pub until: u64,
    /// It holds now.
    pub holds: bool,
    /// Who has made it, as the audit log names them.
    pub by: String,
    /// Why.
    pub why: String,
    /// When it was made, in seconds since 1970.
    pub made_at: u64,
}

impl From<silence::Silence> for Silence {
    fn from(found: silence::Silence) -> Silence {
        Silence {
            holds: found.holds(now().as_secs()),
            id: found.id,
            matches: found.matches.into(),
            from: found.from,
            until: found.until,
            by: found.by,
            why: found.why,
            made_at: found.made_at,
        }
    }
}

/// A silence that is to be made. It ends by itself, within 90 days.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSilenceBody {
    /// Which alerts; something has to be said. The code `*` is all of them.
    pub matches: AlertMatch,
    /// From when on, in seconds since 1970; now where it is not said.
    pub from: Option<u64>,
    /// Until when, in seconds since 1970: within 90 days.
    pub until: u64,
    /// Why: one line of at most 500 characters.
    #[schema(example = "the rack gets new switches")]
    pub why: String,
}

/// The silences in the order of their ids: those that hold or are to come, and those that ended within the last week.
#[utoipa::path(get, path = "/silences", operation_id = "listSilences", tag = "alerts", params(Cursor),
    responses((status = 200, body = Page<Silence>),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn list_silences(
    State(api): State<Api>,
    asker: Asker,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Silence>>, Problem> {
    let page = api.run(asker, move |session| {
        let found = admin::silences(&session.reader())?;
        let mut all: Vec<Silence> = found.into_iter().map(Silence::from).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        cursor.cut(all, |silence| silence.id.as_str())
    });
    page.await.map(Json)
}

/// Has alerts not be told for a time.
#[utoipa::path(post, path = "/silences", operation_id = "addSilence", tag = "alerts", request_body = NewSilenceBody,
    responses((status = 201, body = Silence),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn add_silence(
    State(api): State<Api>,
    asker: Asker,
    Body(wanted): Body<NewSilenceBody>,
) -> Result<(StatusCode, Json<Silence>), Problem> {
    let now = now().as_secs();
    let new = NewSilence {
        matches: wanted.matches.into(),
        from: wanted.from.unwrap_or(now),
        until: wanted.until,
        by: asker.0.who().name.clone(),
        why: wanted.why,
    };
    let object = new.matches.text();
    let made = api.act(asker, Action::SilenceAdd, object, move |meta| {
        admin::add_silence(meta, new, now)
    });
    Ok((StatusCode::CREATED, Json(made.await?.into())))
}

/// Ends a silence: what still fires is told.
#[utoipa::path(delete, path = "/silences/{id}", operation_id = "removeSilence", tag = "alerts",
    params(("id" = String, Path, description = "Its id, or the beginning of it: at least 4 digits, and as many as no other one has")),
    responses((status = 204, description = "It holds no longer."),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove_silence(State(api): State<Api>, asker: Asker, Names(id): Names<String>) -> Result<StatusCode, Problem> {
    let object = id.clone();
    let gone = api.act(asker, Action::SilenceRemove, object, move |meta| {
        admin::remove_silence(meta, &id)
    });
    gone.await.map(|_| StatusCode::NO_CONTENT)
}
