//! What an operator should know.

use amita_cluster::NodeId;
use std::fmt;

/// What the coordinator has to say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Warning {
    /// A node's lease is gone.
    NodeGone {
        /// The node.
        node: NodeId,
    },
    /// It is there again.
    NodeBack {
        /// The node.
        node: NodeId,
    },
    /// Stores of dead nodes were taken out of in-sync sets.
    Evicted {
        /// The nodes.
        nodes: Vec<NodeId>,
        /// From how many groups.
        groups: usize,
    },
    /// Too few living members: nothing can be evicted lawfully, writes wait (R10).
    TooFewAlive {
        /// The pool's name.
        pool: String,
        /// How many of its groups wait.
        groups: usize,
        /// For which nodes.
        nodes: Vec<NodeId>,
        /// How many members a write needs.
        min_copies: usize,
    },
    /// A record that this build does not understand is left alone.
    Unreadable {
        /// Its key.
        key: String,
        /// What is wrong with it.
        what: String,
    },
}

struct Nodes<'a>(&'a [NodeId]);

impl fmt::Display for Nodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "node " } else { "nodes " })?;
        for (index, node) in self.0.iter().enumerate() {
            write!(f, "{}{node}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::NodeGone { node } => write!(f, "node {node} no longer holds its lease: it is taken for dead"),
            Warning::NodeBack { node } => write!(f, "node {node} is there again"),
            Warning::Evicted { nodes, groups } => {
                write!(
                    f,
                    "evicted the stores of {} from {groups} groups; writes go on with the others",
                    Nodes(nodes)
                )
            }
            Warning::TooFewAlive {
                pool,
                groups,
                nodes,
                min_copies,
            } => write!(
                f,
                "pool {pool}: writes to {groups} groups wait for {}: fewer than {min_copies} in-sync members are alive; \
                 start them again",
                Nodes(nodes)
            ),
            Warning::Unreadable { key, what } => write!(f, "{key} is left alone: {what}"),
        }
    }
}
