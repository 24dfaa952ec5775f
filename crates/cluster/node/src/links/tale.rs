//! What is told of networks that were left, or are used again: one event of a node in a round, whomever it is about.

use super::{Left, Tale};
use amita_control::events::{Draft, Kind};
use amita_types::NodeId;
use amita_types::link::LinkTrouble;

/// Peers that an event names; of the others it says how many they are.
const NAMED: usize = 4;

/// The events of a round, of the node with this number and this name.
#[must_use]
pub fn drafts(node: NodeId, name: &str, tales: &[(NodeId, String, Tale)]) -> Vec<Draft> {
    let of = |which: fn(&Tale) -> bool| -> Vec<&(NodeId, String, Tale)> {
        tales.iter().filter(|(_, _, tale)| which(tale)).collect()
    };
    let kinds = [
        (Kind::NetworkSwitched, of(|tale| matches!(tale, Tale::Left(_)))),
        (Kind::NetworkSwitched, of(|tale| matches!(tale, Tale::Would(_)))),
        (Kind::NetworkWell, of(|tale| matches!(tale, Tale::Back(_)))),
    ];
    let told = kinds.into_iter().filter(|(_, about)| !about.is_empty());
    told.map(|(kind, about)| draft(node, name, kind, &about)).collect()
}

fn draft(node: NodeId, name: &str, kind: Kind, about: &[&(NodeId, String, Tale)]) -> Draft {
    let named = about.iter().take(NAMED);
    let objects = std::iter::once(node).chain(named.clone().map(|(peer, _, _)| *peer));
    let objects: Vec<NodeId> = objects.collect();
    let each = named.map(|(_, peer, tale)| sentence(peer, tale));
    let more = about.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("and {more} other nodes"));
    let all: Vec<String> = each.chain(more).collect();
    Draft::new(kind, objects, format!("node {name}: {}", all.join("; ")))
}

fn sentence(peer: &str, tale: &Tale) -> String {
    match tale {
        Tale::Left(left) => format!(
            "connections to node {peer} go by network {} now, and by network {} no more: {}",
            left.link.network.other(),
            left.link.network,
            evidence(peer, left)
        ),
        Tale::Would(left) => format!(
            "connections to node {peer} would go by network {} in place of network {}, and stay, as the policy says: {}",
            left.link.network.other(),
            left.link.network,
            evidence(peer, left)
        ),
        Tale::Back(network) => format!("connections to node {peer} go by network {network} again"),
    }
}

fn evidence(peer: &str, left: &Left) -> String {
    let link = &left.link;
    let what = match link.what {
        LinkTrouble::Cut => "it says nothing there, or refuses".to_owned(),
        LinkTrouble::Loss => format!(
            "{} of {} segments were lost ({}.{:02} %)",
            link.lost,
            link.sent,
            link.loss_ppm() / 10_000,
            link.loss_ppm() % 10_000 / 100
        ),
        LinkTrouble::Late => format!(
            "there and back takes {} us, and took {} us",
            link.round_trip_us, link.least_us
        ),
    };
    if left.own {
        what
    } else {
        format!("{what}, as node {peer} finds of what it sends")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::link::{BadLink, Network};

    fn left(what: LinkTrouble, own: bool) -> Left {
        let link = BadLink {
            peer: NodeId(2),
            network: Network::First,
            what,
            sent: 1000,
            lost: 25,
            round_trip_us: 25_000,
            least_us: 100,
        };
        Left { link, own }
    }

    #[test]
    fn a_round_is_one_event_of_each_kind_with_the_evidence() {
        let mut tales = vec![
            (NodeId(2), "n2".to_owned(), Tale::Left(left(LinkTrouble::Loss, true))),
            (NodeId(3), "n3".to_owned(), Tale::Back(Network::First)),
            (NodeId(4), "n4".to_owned(), Tale::Would(left(LinkTrouble::Late, false))),
        ];
        let told = drafts(NodeId(1), "n1", &tales);
        let said: Vec<(Kind, &str)> = told.iter().map(|draft| (draft.kind, draft.text.as_str())).collect();
        assert_eq!(
            said,
            [
                (
                    Kind::NetworkSwitched,
                    "node n1: connections to node n2 go by network 2 now, and by network 1 no more: 25 of 1000 segments were lost \
                     (2.50 %)"
                ),
                (
                    Kind::NetworkSwitched,
                    "node n1: connections to node n4 would go by network 2 in place of network 1, and stay, as the policy says: \
                     there and back takes 25000 us, and took 100 us, as node n4 finds of what it sends"
                ),
                (
                    Kind::NetworkWell,
                    "node n1: connections to node n3 go by network 1 again"
                ),
            ]
        );
        assert_eq!(told[0].objects, ["1", "2"]);

        // All of a large cluster at once is one event of this node.
        tales = (2..1000)
            .map(|peer| {
                (
                    NodeId(peer),
                    format!("n{peer}"),
                    Tale::Left(left(LinkTrouble::Cut, true)),
                )
            })
            .collect();
        let told = drafts(NodeId(1), "n1", &tales);
        assert_eq!((told.len(), told[0].objects.len()), (1, 1 + NAMED));
        assert!(
            told[0].text.ends_with("; and 994 other nodes") && told[0].text.len() < 700,
            "{}",
            told[0].text
        );
        assert!(drafts(NodeId(1), "n1", &[]).is_empty());
    }
}
