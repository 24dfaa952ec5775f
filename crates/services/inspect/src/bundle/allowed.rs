//! The list of what may be in a bundle.

use amita_metadata::{Call, Error, Transact};
use amita_types::map::PREFIX;
use serde::Serialize;
use serde_json::{Map, Value};

/// Records of one kind, and what of them may be in a bundle.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// The name of the file.
    pub name: &'static str,
    /// The beginning of their keys, behind that of all.
    pub prefix: &'static str,
    /// Why they are of use.
    pub why: &'static str,
    /// Fields, with dots between those that lie in one another; a field that is named is taken whole.
    pub fields: &'static [&'static str],
}

/// All kinds of records that may be in a bundle. Not among them: hosts' and initiators' keys, tokens, what the API has answered, the audit log (which says
/// who did what, and is evidence of its own), and labels, which are whatever people wrote.
pub const RECORDS: &[Records] = &[
    Records {
        name: "cluster",
        prefix: "cluster",
        why: "the cluster's number and version",
        fields: &["id", "version"],
    },
    Records {
        name: "life",
        prefix: "life",
        why: "whether the metadata was rebuilt",
        fields: &["number", "lost"],
    },
    Records {
        name: "nodes",
        prefix: "nodes/",
        why: "nodes, their addresses and places",
        fields: NODE,
    },
    Records {
        name: "live",
        prefix: "live/",
        why: "which nodes live, and what they serve",
        fields: &["pid", "stores", "version"],
    },
    Records {
        name: "stores",
        prefix: "stores/",
        why: "stores, their sizes, weights and duties",
        fields: STORE,
    },
    Records {
        name: "mounts",
        prefix: "mounts/",
        why: "who serves each store",
        fields: &["node", "number"],
    },
    Records {
        name: "pools",
        prefix: "pools/",
        why: "the rules of pools",
        fields: &["id", "name", "kind", "groups", "chunk_bytes", "failure_domain", "class"],
    },
    Records {
        name: "groups",
        prefix: "groups/",
        why: "which stores hold what, and since which epoch",
        fields: &["index", "epoch", "members", "in_sync", "syncing"],
    },
    Records {
        name: "volumes",
        prefix: "volumes/",
        why: "volumes, their owners and generations",
        fields: VOLUME,
    },
    Records {
        name: "subsystems",
        prefix: "nvme/subsystems/",
        why: "what hosts connect to",
        fields: &[
            "name",
            "nqn",
            "gateways",
            "any_host",
            "tls_required",
            "hosts",
            "namespaces",
        ],
    },
    Records {
        name: "hosts",
        prefix: "nvme/hosts/",
        why: "hosts that are known, by their names alone",
        fields: &["nqn"],
    },
    Records {
        name: "targets",
        prefix: "iscsi/targets/",
        why: "what initiators log in to by iSCSI",
        fields: &[
            "name",
            "iqn",
            "gateways",
            "any_initiator",
            "chap_required",
            "initiators_move",
            "space_warning_percent",
            "initiators",
            "luns",
        ],
    },
    Records {
        name: "initiators",
        prefix: "iscsi/initiators/",
        why: "initiators that are known, by their names alone",
        fields: &["name"],
    },
    Records {
        name: "iscsi-gateways",
        prefix: "iscsi/gateways/",
        why: "where nodes speak iSCSI",
        fields: &["node", "name", "tag", "portals"],
    },
    Records {
        name: "exports",
        prefix: "exports/",
        why: "what is served by NBD",
        fields: &["volume", "any_client", "read_only", "shared"],
    },
    Records {
        name: "condition",
        prefix: "condition/",
        why: "how full stores are, and what hosts meet with",
        fields: &["stores", "troubles"],
    },
    Records {
        name: "progress",
        prefix: "progress/",
        why: "how far recovery is",
        fields: &["stores"],
    },
    Records {
        name: "health",
        prefix: "health/",
        why: "how nodes find stores",
        fields: &["stores"],
    },
    Records {
        name: "links",
        prefix: "links/",
        why: "how nodes find their links to others",
        fields: &["measured", "bad", "worst"],
    },
    Records {
        name: "suspects",
        prefix: "suspect/",
        why: "what was found against the metadata",
        fields: &["why"],
    },
    Records {
        name: "moves",
        prefix: "moves/",
        why: "volumes that are to be moved",
        fields: &["volume", "to", "number", "refused"],
    },
    Records {
        name: "scrubs",
        prefix: "scrub/",
        why: "looks at all copies, and what they found",
        fields: &["requested", "finished", "requested_at", "report", "unread"],
    },
    Records {
        name: "events",
        prefix: "events/",
        why: "what happened, and why",
        fields: &["unix_ms", "node", "kind", "severity", "objects", "text"],
    },
    Records {
        name: "inventories",
        prefix: "inventory/",
        why: "what nodes tell of their machines",
        fields: &[
            "version",
            "taken_at",
            "program",
            "metadata_addresses",
            "host",
            "clock",
            "nics",
            "disks",
            "certificate",
            "settings",
            "left_out",
            "at_ms",
        ],
    },
];

const NODE: &[&str] = &[
    "id",
    "name",
    "fabric",
    "fabric2",
    "nbd",
    "nbd_socket",
    "nvme",
    "metrics",
    "api",
    "cores",
    "site",
    "rack",
    "maintenance",
    "client",
    "gateway",
    "unprotected",
    "alive",
];
const STORE: &[&str] = &[
    "id",
    "node",
    "path",
    "size_bytes",
    "weight",
    "class",
    "duty",
    "node_name",
    "alive",
    "groups",
    "in_sync",
    "syncing",
    "named",
    "space",
];
const VOLUME: &[&str] = &[
    "id",
    "name",
    "pool",
    "size_bytes",
    "generation",
    "owner",
    "lineage",
    "parents",
    "former",
];

/// What of a status may be in a bundle.
pub const STATUS: &[&str] = &[
    "cluster",
    "health",
    "facts",
    "warnings",
    "recovery",
    "slow_stores",
    "nvme",
    "iscsi",
    "deleted_volumes",
    "nodes.id",
    "nodes.name",
    "nodes.fabric",
    "nodes.fabric2",
    "nodes.nbd",
    "nodes.nvme",
    "nodes.iscsi",
    "nodes.metrics",
    "nodes.api",
    "nodes.cores",
    "nodes.site",
    "nodes.rack",
    "nodes.maintenance",
    "nodes.client",
    "nodes.gateway",
    "nodes.unprotected",
    "nodes.alive",
    "stores.id",
    "stores.node_name",
    "stores.path",
    "stores.alive",
    "stores.duty",
    "stores.class",
    "stores.weight",
    "stores.groups",
    "stores.in_sync",
    "stores.syncing",
    "stores.named",
    "stores.space",
    "pools.name",
    "pools.kind",
    "pools.groups",
    "pools.chunk_bytes",
    "pools.failure_domain",
    "pools.class",
    "pools.group_counts",
    "pools.outlook",
    "pools.raw_bytes",
    "pools.used_bytes",
    "pools.fullest_percent",
    "volumes.id",
    "volumes.name",
    "volumes.pool",
    "volumes.size_bytes",
    "volumes.generation",
    "volumes.owner_name",
    "volumes.owner_alive",
    "volumes.parent",
    "volumes.clones",
    "policies.policy.id",
    "policies.policy.name",
    "policies.policy.paused",
    "policies.late_s",
    "policies.fault",
    "backups.id",
    "backups.name",
    "backups.repository",
    "backups.paused",
    "backups.runner",
    "backups.late_s",
    "backups.fault",
];

/// Of a value the fields that are on the list, and nothing else. What lies in a list is picked one by one.
#[must_use]
pub fn pick(value: &Value, fields: &[&str]) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(|item| pick(item, fields)).collect()),
        Value::Object(all) => {
            let mut picked = Map::new();
            for (name, inner) in all {
                let beneath: Vec<&str> = fields
                    .iter()
                    .filter_map(|field| field.strip_prefix(name.as_str())?.strip_prefix('.'))
                    .collect();
                if fields.contains(&name.as_str()) {
                    picked.insert(name.clone(), inner.clone());
                } else if !beneath.is_empty() {
                    picked.insert(name.clone(), pick(inner, &beneath));
                }
            }
            Value::Object(picked)
        }
        // No field was named in it.
        _ => Value::Null,
    }
}

/// A record of a bundle.
#[derive(Debug, Serialize)]
struct Picked {
    key: String,
    revision: u64,
    record: Value,
}

/// The records of a kind as JSON, with nothing but what is on the list. A key is shown where it has no secret in it, which is everywhere
/// on the list.
///
/// # Errors
/// The metadata is away.
pub fn records(meta: &dyn Transact, kind: &Records) -> Result<Vec<u8>, Error> {
    let reply = meta.txn(&Call::prefix(format!("{PREFIX}{}", kind.prefix)))?;
    let picked: Vec<Picked> = reply
        .values(0)
        .iter()
        .map(|found| Picked {
            key: found.key.clone(),
            revision: found.mod_revision,
            record: match serde_json::from_slice::<Value>(&found.value) {
                Ok(value) => pick(&value, kind.fields),
                // It may be anything.
                Err(_) => Value::String(format!("left out: {} bytes that are no JSON", found.value.len())),
            },
        })
        .collect();
    // Only maps with keys that are no text, and writers that fail, can make it fail.
    Ok(serde_json::to_vec_pretty(&picked).unwrap_or_default())
}
