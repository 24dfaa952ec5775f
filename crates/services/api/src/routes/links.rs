//! The links between nodes: who is bad to whom, and whose fault that is.

use super::input::now;
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::admin;
use amita_control::network::{Blame, Finding};
use amita_types::{NodeId, link};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show))
}

/// What is wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkTrouble {
    /// Packets take many times as long as they did.
    Late,
    /// Packets are lost.
    Loss,
    /// Nothing gets through, though the node at the other end lives.
    Cut,
}

impl From<link::LinkTrouble> for LinkTrouble {
    fn from(what: link::LinkTrouble) -> LinkTrouble {
        match what {
            link::LinkTrouble::Late => LinkTrouble::Late,
            link::LinkTrouble::Loss => LinkTrouble::Loss,
            link::LinkTrouble::Cut => LinkTrouble::Cut,
        }
    }
}

/// One of the two networks by which a node may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkNetwork {
    /// The one that every node has.
    First,
    /// The other one, where there are two.
    Second,
}

impl From<link::Network> for LinkNetwork {
    fn from(network: link::Network) -> LinkNetwork {
        match network {
            link::Network::First => LinkNetwork::First,
            link::Network::Second => LinkNetwork::Second,
        }
    }
}

/// A link that is bad in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct BadLink {
    /// The node that sends, and has measured it.
    pub from: String,
    /// The node at the other end.
    pub to: String,
    /// By which of that node's networks.
    pub network: LinkNetwork,
    /// What is wrong with it.
    pub trouble: LinkTrouble,
    /// Segments with data that were sent in the time that was looked at.
    pub sent: u64,
    /// Of those: sent again, and not because the other end had them twice.
    pub lost: u64,
    /// Of a million segments so many were lost; all where nothing gets through.
    pub loss_ppm: u64,
    /// The round trip now, in microseconds; 0: not known.
    pub round_trip_us: u32,
    /// The shortest round trip that was seen, in microseconds; 0: not known.
    pub least_us: u32,
}

/// What of the network can be sick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SickKind {
    /// All of it, as far as can be told: nobody is blamed.
    Network,
    /// A rack's switch or its uplink.
    Rack,
    /// A node's cable, interface or port.
    Node,
    /// What is between two nodes.
    Link,
}

/// A part of the network that is to blame for bad links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SickPart {
    /// Of which network; null: of what is in use, whichever that is.
    pub network: Option<LinkNetwork>,
    /// What it is.
    pub kind: SickKind,
    /// The names of the nodes; of a rack its site, which may be empty, and its name. Empty for the network.
    #[schema(example = json!(["n3"]))]
    pub names: Vec<String>,
    /// What it is, in words.
    #[schema(example = "the network of node n3")]
    pub what: String,
    /// By what that is known, in a sentence without its end.
    pub evidence: String,
}

/// Links that are bad, and that their senders have left for the other network: nobody suffers from them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LeftLinks {
    /// How many there are, as their senders count.
    pub bad: u64,
    /// What is to blame, with its network: first of the one, then of the other, of each the largest thing first.
    pub sick: Vec<SickPart>,
    /// Those links as they were found when they were left, the worst first: of each node the worst 32, and 1,000 in all.
    pub links: Vec<BadLink>,
}

/// What is known of the links between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Links {
    /// When this was said, in seconds since 1970, by the clock of the node that answers.
    pub at: u64,
    /// How many nodes live that could measure.
    pub nodes: u64,
    /// How many links were measured, each direction by itself.
    pub measured: u64,
    /// Of those: they are bad.
    pub bad: u64,
    /// What is to blame, the largest thing first.
    pub sick: Vec<SickPart>,
    /// The bad links, the worst first: of each node the worst 32, and 1,000 in all.
    pub links: Vec<BadLink>,
    /// Bad links that were left for the other network: they are not among those above.
    pub left: LeftLinks,
    /// Nodes that live and have not told what they find, or not of late.
    pub silent: Vec<String>,
}

impl SickPart {
    fn of(finding: &Finding, network: Option<link::Network>, name: &dyn Fn(NodeId) -> String) -> SickPart {
        let (kind, names) = match &finding.blame {
            Blame::Network => (SickKind::Network, Vec::new()),
            Blame::Rack(site, rack) => (SickKind::Rack, vec![site.clone(), rack.clone()]),
            Blame::Node(node) => (SickKind::Node, vec![name(*node)]),
            Blame::Link(one, other) => (SickKind::Link, vec![name(*one), name(*other)]),
        };
        SickPart {
            network: network.map(LinkNetwork::from),
            kind,
            names,
            what: finding.blame.named(name),
            evidence: finding.evidence_named(name),
        }
    }
}

impl BadLink {
    fn of((from, bad): &(NodeId, link::BadLink), name: &dyn Fn(NodeId) -> String) -> BadLink {
        BadLink {
            from: name(*from),
            to: name(bad.peer),
            network: bad.network.into(),
            trouble: bad.what.into(),
            sent: bad.sent,
            lost: bad.lost,
            loss_ppm: bad.loss_ppm(),
            round_trip_us: bad.round_trip_us,
            least_us: bad.least_us,
        }
    }
}

impl LeftLinks {
    fn of(found: &admin::LeftLinks, name: &dyn Fn(NodeId) -> String) -> LeftLinks {
        let sick = found.findings.iter();
        LeftLinks {
            bad: found.count,
            sick: sick
                .map(|(network, finding)| SickPart::of(finding, Some(*network), name))
                .collect(),
            links: found.bad.iter().map(|bad| BadLink::of(bad, name)).collect(),
        }
    }
}

impl Links {
    fn of(found: &admin::Links, at: u64) -> Links {
        let name = |node: NodeId| found.name(node);
        Links {
            at,
            nodes: found.witnesses as u64,
            measured: found.measured,
            bad: found.bad_count,
            sick: found
                .findings
                .iter()
                .map(|finding| SickPart::of(finding, None, &name))
                .collect(),
            links: found.bad.iter().map(|bad| BadLink::of(bad, &name)).collect(),
            left: LeftLinks::of(&found.left, &name),
            silent: found.silent.iter().map(|node| name(*node)).collect(),
        }
    }
}

/// The links between nodes: which are bad, by what figures, and whose fault that is.
///
/// Each node measures the links by which it sends, and tells of those that are bad; what was not renewed for twenty minutes is not shown.
/// A link that is bad by one of two networks is left for the other one where that is well; it is in `left` then.
/// What is done about it says `/settings/recovery` (`sick_networks`); what was decided is told by events (`network-sick`).
#[utoipa::path(get, path = "/links", operation_id = "showLinks", tag = "cluster",
    responses((status = 200, body = Links),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker) -> Result<Json<Links>, Problem> {
    let found = api.run(asker, |session| Ok(admin::links(&session.reader())?)).await?;
    Ok(Json(Links::of(&found, now().as_secs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_links_have_the_names_of_nodes() {
        let bad = link::BadLink {
            peer: NodeId(2),
            network: link::Network::First,
            what: link::LinkTrouble::Loss,
            sent: 1000,
            lost: 25,
            round_trip_us: 300,
            least_us: 100,
        };
        let second = link::BadLink {
            peer: NodeId(1),
            network: link::Network::Second,
            ..bad
        };
        let finding = |blame: Blame| Finding {
            blame,
            outward: (0, 2),
            inward: (2, 2),
            worst: Some((NodeId(1), bad)),
        };
        let found = admin::Links {
            findings: vec![
                finding(Blame::Rack("east".to_owned(), "r7".to_owned())),
                finding(Blame::Node(NodeId(2))),
            ],
            bad: vec![(NodeId(1), bad)],
            bad_count: 2,
            left: admin::LeftLinks {
                findings: vec![(link::Network::Second, finding(Blame::Node(NodeId(1))))],
                bad: vec![(NodeId(2), second)],
                count: 3,
            },
            measured: 6,
            witnesses: 3,
            silent: vec![NodeId(9)],
            names: [(NodeId(1), "n1".to_owned()), (NodeId(2), "n2".to_owned())].into(),
        };
        let shown = Links::of(&found, 7);
        assert_eq!(shown.sick[0].names, ["east", "r7"]);
        assert_eq!(
            (shown.sick[1].kind, &*shown.sick[1].what),
            (SickKind::Node, "the network of node n2")
        );
        assert!(
            shown.sick[1]
                .evidence
                .contains("from node n1 to node n2 25 of 1000 segments")
        );
        let link = &shown.links[0];
        assert_eq!((&*link.from, &*link.to, link.loss_ppm), ("n1", "n2", 25_000));
        assert_eq!((link.network, shown.sick[1].network), (LinkNetwork::First, None));
        let (left, sick) = (&shown.left.links[0], &shown.left.sick[0]);
        assert_eq!(
            (&*left.from, &*left.to, left.network),
            ("n2", "n1", LinkNetwork::Second)
        );
        assert_eq!(
            (shown.left.bad, sick.network, &sick.names[..]),
            (3, Some(LinkNetwork::Second), &["n1".to_owned()][..])
        );
        let text = serde_json::to_value(&shown).expect("JSON");
        assert_eq!(
            (&text["links"][0]["network"], &text["left"]["sick"][0]["network"]),
            (&"first".into(), &"second".into())
        );
        assert_eq!(shown.silent, [NodeId(9).to_string()]);
    }
}
