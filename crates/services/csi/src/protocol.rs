//! By what a node has a volume.
//!
//! It is the seam at which ublk and vhost-user come: each is one more of these, with an attachment of its own in the controller (`controller/publish.rs` and
//! `controller/target.rs` are two), keys of its own in the publish context, and one more [`crate::node`] attachment, found by those keys.

use crate::id;
use uuid::Uuid;

/// By what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// NVMe/TCP, by the kernel and its own multipath.
    Nvme,
    /// iSCSI, by open-iscsi and dm-multipath.
    Iscsi,
}

/// Behind the id of a node that has no NVMe/TCP. It is all that a controller is told of a node when it publishes.
const ISCSI_ALONE: &str = ".iscsi";

/// A node, as it has said who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId {
    /// Its host.
    pub host: Uuid,
    /// It has iSCSI, and no NVMe/TCP.
    pub iscsi_alone: bool,
}

impl NodeId {
    /// As it is written; none: no node of this driver has said so.
    #[must_use]
    pub fn parse(text: &str) -> Option<NodeId> {
        let before = text.strip_suffix(ISCSI_ALONE);
        Some(NodeId {
            host: id::node(before.unwrap_or(text))?,
            iscsi_alone: before.is_some(),
        })
    }

    /// By what it has a volume whose class says this, or nothing.
    ///
    /// # Errors
    /// In words: it cannot.
    pub fn has_by(self, class: Option<Protocol>) -> Result<Protocol, String> {
        match class {
            Some(Protocol::Nvme) if self.iscsi_alone => Err(format!(
                "node {self} has no NVMe/TCP, and the volume's class has protocol: nvme (leave it out, or say iscsi)"
            )),
            Some(wanted) => Ok(wanted),
            None if self.iscsi_alone => Ok(Protocol::Iscsi),
            None => Ok(Protocol::Nvme),
        }
    }

    /// The iSCSI name of its initiator: another one than the machine's own, for what an administrator has logged in to is no business of the driver's. It ends with what the
    /// node says it is, so that lists of initiators are lists of nodes.
    #[must_use]
    pub fn initiator(self) -> String {
        format!("{INITIATOR}{self}")
    }

    /// The node of an initiator; none: it is none of this driver's.
    #[must_use]
    pub fn of_initiator(name: &str) -> Option<NodeId> {
        NodeId::parse(name.strip_prefix(INITIATOR)?)
    }
}

const INITIATOR: &str = "iqn.2026-11.io.amita:csi-host:";

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let behind = if self.iscsi_alone { ISCSI_ALONE } else { "" };
        write!(f, "{}{behind}", self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_what_it_can_and_a_class_what_it_wants() {
        let both = NodeId::parse("0f8fad5b-d9cb-469f-a165-70867728950e").expect("a node");
        let one = NodeId::parse("0f8fad5b-d9cb-469f-a165-70867728950e.iscsi").expect("a node");
        assert_eq!((both.host, both.iscsi_alone, one.iscsi_alone), (one.host, false, true));
        for node in [both, one] {
            assert_eq!(NodeId::parse(&node.to_string()), Some(node));
            assert_eq!(NodeId::of_initiator(&node.initiator()), Some(node));
        }
        assert_ne!(both.initiator(), one.initiator());
        assert_eq!(both.has_by(None), Ok(Protocol::Nvme));
        assert_eq!(one.has_by(None), Ok(Protocol::Iscsi));
        assert_eq!(both.has_by(Some(Protocol::Iscsi)), Ok(Protocol::Iscsi));
        assert!(
            one.has_by(Some(Protocol::Nvme))
                .is_err_and(|why| why.contains("no NVMe/TCP"))
        );
        for other in [
            "0f8fad5b-d9cb-469f-a165-70867728950e.nvme",
            ".iscsi",
            "",
            "0f8fad5bd9cb469fa16570867728950e",
        ] {
            assert_eq!(NodeId::parse(other), None, "{other}");
        }
        assert_eq!(NodeId::of_initiator("iqn.1993-08.org.debian:01:9c11913aa8b"), None);
    }
}
