//! The certificates that are in use, and how they are renewed.

use super::input::now;
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_inspect::certificates::{self, Standing, Usage, Used};
use amita_inspect::gather;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show))
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateUse {
    /// By it a node proves to other processes of the cluster who it is.
    Identity,
    /// The API's port shows it to browsers.
    Browser,
    /// What the identities rest on.
    Authority,
}

/// How long it is good for, by what its kind needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateState {
    /// Long enough.
    Well,
    /// It should have been renewed: a third of its life is left, a month of a browser's, half a year of an authority's.
    Due,
    /// It ends soon: a tenth of its life is left, a week of a browser's, a month of an authority's.
    Late,
    /// It has ended.
    Ended,
}

/// A certificate that is in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Certificate {
    /// What for.
    #[serde(rename = "use")]
    pub usage: CertificateUse,
    /// The nodes that have it, or trust it: the first few of `node_count`.
    pub nodes: Vec<String>,
    /// How many nodes have it, or trust it.
    pub node_count: u64,
    /// Whom it names; null: the node's program does not tell.
    #[schema(example = "amita://00000000-0000-0000-0000-000000000009/node/n1")]
    pub name: Option<String>,
    /// Its role in the cluster (`node`); null: it has none, or is not known.
    pub role: Option<String>,
    /// The name of the authority that made it; null: not known.
    pub issuer: Option<String>,
    /// Its serial number in hexadecimal digits; null: not known.
    pub serial: Option<String>,
    /// SHA-256 of the certificate in hexadecimal digits; null: not known.
    pub fingerprint: Option<String>,
    /// From when on it is valid, in seconds since 1970.
    pub begins_at: u64,
    /// Until when.
    pub ends_at: u64,
    /// Whole days that are left, by the clock of the node that answers; 0: less than one, or it has ended.
    pub left_days: u64,
    /// How long it is good for.
    pub state: CertificateState,
    /// When the newest of those nodes told of it, in seconds since 1970. Nodes tell at least each hour.
    pub told_at: u64,
    /// The command that renews it, with places to be filled in as the documentation has them; null: its operator has his own way.
    #[schema(example = "amita cert renew --identity /etc/amita/identity --ca-server HOST:7600")]
    pub renew: Option<String>,
}

/// A node of whose certificates nothing is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CertificateNotKnown {
    /// The node.
    pub node: String,
    /// Why.
    pub why: String,
}

/// The certificates that are in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Certificates {
    /// When this was said, in seconds since 1970, by the clock of the node that answers.
    pub at: u64,
    /// Each, the first that ends first.
    pub certificates: Vec<Certificate>,
    /// Nodes of which nothing is known: those without an identity, too.
    pub not_known: Vec<CertificateNotKnown>,
}

/// A text, if something is known.
fn known(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// `node` of `amita://CLUSTER/node/n1`.
fn role(name: &str) -> Option<String> {
    let mut parts = name.strip_prefix("amita://")?.split('/');
    parts.nth(1).map(str::to_owned)
}

/// What is to be done: as docs/operating/identities.md and docs/operating/day2/expired-certificate.md have it.
fn renewal(used: &Used) -> Option<String> {
    let node = used.nodes.first().map_or("NODE", String::as_str);
    match (used.usage, used.standing) {
        (Usage::Browser, _) => None,
        (Usage::Authority, _) => Some("amita ca rotate --ca /var/lib/amita/ca".to_owned()),
        // What has ended cannot be renewed: the node joins anew.
        (Usage::Identity, Standing::Ended) => Some(format!("amita node token {node} --ca /var/lib/amita/ca")),
        (Usage::Identity, _) => {
            Some("amita cert renew --identity /etc/amita/identity --ca-server HOST:7600".to_owned())
        }
    }
}

impl Certificate {
    fn of(used: Used, now: u64) -> Certificate {
        let renew = renewal(&used);
        let shown = used.shown;
        Certificate {
            usage: match used.usage {
                Usage::Identity => CertificateUse::Identity,
                Usage::Browser => CertificateUse::Browser,
                Usage::Authority => CertificateUse::Authority,
            },
            nodes: used.nodes,
            node_count: used.node_count as u64,
            role: role(&shown.name),
            name: known(shown.name),
            issuer: known(shown.issuer),
            serial: known(shown.serial),
            fingerprint: known(shown.fingerprint),
            begins_at: shown.begins,
            ends_at: shown.ends,
            left_days: shown.ends.saturating_sub(now) / (24 * 3600),
            state: match used.standing {
                Standing::Well => CertificateState::Well,
                Standing::Due => CertificateState::Due,
                Standing::Late => CertificateState::Late,
                Standing::Ended => CertificateState::Ended,
            },
            told_at: used.told_at,
            renew,
        }
    }
}

/// The certificates that are in use: identities of nodes, those that their APIs show to browsers, and the authorities that are trusted.
///
/// They are known from what nodes have told of themselves, and nothing of them is a secret. Certificates of operators and clients are known to
/// the authority alone (`amita cert list`).
#[utoipa::path(get, path = "/certificates", operation_id = "showCertificates", tag = "cluster",
    responses((status = 200, body = Certificates),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker) -> Result<Json<Certificates>, Problem> {
    let found = api.run(asker, |session| {
        let at = now().as_secs();
        let found = certificates::certificates(&gather(&session.reader(), at)?);
        let not_known = found.not_known.into_iter();
        Ok(Certificates {
            at,
            certificates: found.used.into_iter().map(|used| Certificate::of(used, at)).collect(),
            not_known: not_known.map(|(node, why)| CertificateNotKnown { node, why }).collect(),
        })
    });
    found.await.map(Json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_inspect::inventory::Shown;

    fn used(usage: Usage, standing: Standing) -> Used {
        Used {
            usage,
            nodes: vec!["n1".to_owned()],
            node_count: 1,
            shown: Shown {
                name: "amita://c/node/n1".to_owned(),
                serial: "0a".to_owned(),
                ends: 10 * 24 * 3600 + 5,
                ..Shown::default()
            },
            standing,
            told_at: 3,
        }
    }

    #[test]
    fn what_is_not_known_is_null_and_what_has_ended_is_not_renewed() {
        let due = Certificate::of(used(Usage::Identity, Standing::Due), 3 * 24 * 3600);
        assert_eq!(
            (due.left_days, due.role.as_deref(), due.serial.as_deref()),
            (7, Some("node"), Some("0a"))
        );
        assert_eq!((&due.issuer, &due.fingerprint), (&None, &None));
        assert!(
            due.renew
                .is_some_and(|command| command.starts_with("amita cert renew "))
        );
        let ended = Certificate::of(used(Usage::Identity, Standing::Ended), 11 * 24 * 3600);
        assert_eq!(ended.left_days, 0);
        assert_eq!(
            ended.renew.as_deref(),
            Some("amita node token n1 --ca /var/lib/amita/ca")
        );
        assert_eq!(Certificate::of(used(Usage::Browser, Standing::Late), 0).renew, None);
    }
}
