//! What an experienced operator would look at, with what was found.

use super::input::now;
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_inspect::{Report, Severity as Level, gather, inspect};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show))
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FindingSeverity {
    /// Good to know; a cluster may well live with it.
    Notice,
    /// To be mended soon.
    Warning,
    /// Data or service are in danger, or suffer now.
    Critical,
}

impl From<Level> for FindingSeverity {
    fn from(level: Level) -> FindingSeverity {
        match level {
            Level::Notice => FindingSeverity::Notice,
            Level::Warning => FindingSeverity::Warning,
            Level::Critical => FindingSeverity::Critical,
        }
    }
}

/// Where something was found, or could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct InspectedPlace {
    /// `cluster`, `node`, `nic`, `disk`, `store`, `pool`, `subsystem` or `object`.
    #[schema(example = "nic")]
    pub kind: String,
    /// Its name; a network interface and a disk are named behind their node. Empty for the cluster.
    #[schema(example = "n1/eth0")]
    pub name: String,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Finding {
    /// What it is: stable, and explained by `amita explain`.
    #[schema(example = "nic-slow")]
    pub code: String,
    /// How much it matters.
    pub severity: FindingSeverity,
    /// The check that found it.
    #[schema(example = "nics")]
    pub check: String,
    /// Where.
    pub place: InspectedPlace,
    /// What was seen, with its figures.
    pub reason: String,
    /// What to do.
    pub mend: String,
}

/// Something that could not be looked at: nobody knows whether it is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct NotLookedAt {
    /// The check that wanted to.
    #[schema(example = "wear")]
    pub check: String,
    /// Where.
    pub place: InspectedPlace,
    /// Why not.
    pub why: String,
}

/// A check, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct InspectionCheck {
    /// Its name: stable.
    #[schema(example = "wear")]
    pub check: String,
    /// Its title.
    #[schema(example = "Health of disks")]
    pub title: String,
    /// How many things it looked at.
    pub looked_at: u64,
    /// How many it could not look at.
    pub not_looked_at: u64,
    /// How much it found.
    pub found: u64,
}

/// What an inspection came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Inspection {
    /// When, in seconds since 1970, by the clock of the node that answers.
    pub at: u64,
    /// The worst severity; none: nothing was found.
    pub worst: Option<FindingSeverity>,
    /// The whole in a sentence.
    pub summary: String,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// What could not be looked at.
    pub not_looked_at: Vec<NotLookedAt>,
    /// Every check, in its order.
    pub checks: Vec<InspectionCheck>,
}

impl From<Report> for Inspection {
    fn from(report: Report) -> Inspection {
        let place = |place: amita_inspect::Place| InspectedPlace {
            kind: place.kind.to_owned(),
            name: place.name,
        };
        Inspection {
            at: report.at,
            worst: report.worst.map(Into::into),
            summary: report.sentence(),
            checks: report
                .checks
                .iter()
                .map(|check| InspectionCheck {
                    check: check.check.to_owned(),
                    title: check.title.to_owned(),
                    looked_at: check.looked_at as u64,
                    not_looked_at: check.not_looked_at as u64,
                    found: check.found as u64,
                })
                .collect(),
            findings: report
                .findings
                .into_iter()
                .map(|found| Finding {
                    code: found.code.to_owned(),
                    severity: found.severity.into(),
                    check: found.check.to_owned(),
                    place: place(found.place),
                    reason: found.reason,
                    mend: found.mend,
                })
                .collect(),
            not_looked_at: report
                .not_looked_at
                .into_iter()
                .map(|blind| NotLookedAt {
                    check: blind.check.to_owned(),
                    place: place(blind.place),
                    why: blind.why,
                })
                .collect(),
        }
    }
}

/// What an experienced operator would look at: clocks, networks, kernels, disks, capacity, single points of failure, certificates,
/// versions and settings.
///
/// It is judged anew from what the records say and what nodes have told of their machines, which is at most an hour old. What could not
/// be looked at is listed: nothing is called well without having been seen.
#[utoipa::path(get, path = "/inspect", operation_id = "showInspection", tag = "cluster",
    responses((status = 200, body = Inspection),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker) -> Result<Json<Inspection>, Problem> {
    let report = api.run(asker, |session| {
        Ok(inspect(&gather(&session.reader(), now().as_secs())?))
    });
    report.await.map(|report| Json(report.into()))
}
