//! Events, as the API shows them: in lists and in watches.

use amita_control::admin::{self, AdminError};
use amita_control::events;
use amita_metadata::{KeyValue, Transact};
use amita_types::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// As it should go.
    Info,
    /// Not as it should be; the cluster goes on.
    Warning,
    /// A person must look.
    Error,
}

impl From<events::Severity> for Severity {
    fn from(severity: events::Severity) -> Severity {
        match severity {
            events::Severity::Info => Severity::Info,
            events::Severity::Warning => Severity::Warning,
            events::Severity::Error => Severity::Error,
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Event {
    /// What it is found by: in the order of what happened, as far as clocks tell.
    pub id: String,
    /// When, in milliseconds since 1970, by the clock of the node that tells.
    pub at_ms: u64,
    /// The name of the node that tells; of one that is gone, its number.
    pub node: String,
    /// Its number; 0: none tells, but an operator's command.
    pub node_id: u32,
    /// Of what kind it is: see the list of kinds. One of a newer version may not be among them.
    #[schema(example = "node-gone")]
    pub kind: String,
    /// How much it matters.
    pub severity: Severity,
    /// Names, numbers and UUIDs of what it is about.
    pub objects: Vec<String>,
    /// What happened, in a sentence.
    pub text: String,
}

/// The names of the nodes that there are.
pub(crate) type Names = BTreeMap<NodeId, String>;

/// The names of the nodes that there are.
///
/// # Errors
/// The metadata is away.
pub(crate) fn names(meta: &dyn Transact) -> Result<Names, AdminError> {
    let nodes = admin::nodes(meta)?.into_iter();
    Ok(nodes.map(|node| (node.id, node.name)).collect())
}

impl Event {
    /// The event of a record.
    pub(crate) fn of(record: &KeyValue, event: events::Event, names: &Names) -> Event {
        Event {
            id: record
                .key
                .strip_prefix(&events::prefix())
                .unwrap_or_default()
                .to_owned(),
            at_ms: event.unix_ms,
            node: names
                .get(&event.node)
                .cloned()
                .unwrap_or_else(|| event.node.to_string()),
            node_id: event.node.0,
            kind: event.kind,
            severity: event.severity.into(),
            objects: event.objects,
            text: event.text,
        }
    }
}
