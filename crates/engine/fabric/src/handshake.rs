//! Whether two ends can work together: a pure judgement of their hellos.

use crate::codec::{Hello, Refuse, RefuseCode};
use crate::config::{CLUSTER_VERSION_MAX, Config};
use crate::limits::MAX_CHARGE_BYTES;
use crate::secure::{Names, Peer};
use amita_types::NodeId;

/// What this end says of itself to `peer` on its link `link`.
pub(crate) fn hello(config: &Config, peer: NodeId, link: u16) -> Hello {
    Hello {
        cluster: config.cluster,
        session: config.session,
        node: config.node,
        peer,
        cluster_version: config.cluster_version,
        window_bytes: config.limits.window_bytes,
        window_requests: config.limits.window_requests,
        core: config.core,
        link,
        version_min: config.versions.min,
        version_max: config.versions.max,
    }
}

/// Judges the other end's hello (or, with `expected`, the welcome of a node that this end has called): the protocol
/// version to speak, or why not. The reasons are read by whoever operates the *other* end, so they say who says it.
pub(crate) fn judge(config: &Config, theirs: &Hello, expected: Option<NodeId>) -> Result<u8, Refuse> {
    let refuse = |code, reason| Err(Refuse { code, reason });
    let here = config.node;
    if theirs.cluster != config.cluster {
        return refuse(
            RefuseCode::Cluster,
            format!(
                "node {here} belongs to cluster {}, not to {}; check the address, and the metadata that it comes from",
                config.cluster, theirs.cluster
            ),
        );
    }
    if theirs.peer != here {
        let reason = format!(
            "this is node {here}, not node {}; its address in the metadata is out of date",
            theirs.peer
        );
        return refuse(RefuseCode::Node, reason);
    }
    if let Some(expected) = expected
        && theirs.node != expected
    {
        let reason = format!("node {here} called node {expected}, but node {} answered", theirs.node);
        return refuse(RefuseCode::Node, reason);
    }
    let version = theirs.version_max.min(config.versions.max);
    if version < theirs.version_min.max(config.versions.min) {
        return refuse(
            RefuseCode::Version,
            format!(
                "node {here} speaks protocol versions {} to {}, the other end {} to {}; upgrade the older one, by way of \
                 a release that speaks both",
                config.versions.min, config.versions.max, theirs.version_min, theirs.version_max
            ),
        );
    }
    if theirs.cluster_version > CLUSTER_VERSION_MAX {
        return refuse(
            RefuseCode::ClusterVersion,
            format!(
                "the cluster is finalized at version {}, and node {here} understands versions up to {}; upgrade it",
                theirs.cluster_version, CLUSTER_VERSION_MAX
            ),
        );
    }
    if theirs.window_requests == 0 || theirs.window_bytes < MAX_CHARGE_BYTES {
        return refuse(
            RefuseCode::Limits,
            format!(
                "a window of {} requests and {} bytes is too small: node {here} needs 1 and {MAX_CHARGE_BYTES}",
                theirs.window_requests, theirs.window_bytes
            ),
        );
    }
    Ok(version)
}

/// May whoever has proven to be `peer` call itself this node?
pub(crate) fn judge_name(names: &Names, peer: &Peer, node: NodeId) -> Result<(), Refuse> {
    let recorded = names.get(&node).ok_or_else(|| Refuse {
        code: RefuseCode::Unknown,
        reason: format!("node {node} is not known here yet"),
    })?;
    if peer.may_be(recorded) {
        return Ok(());
    }
    Err(Refuse {
        code: RefuseCode::Identity,
        reason: format!("the certificate is of {peer}, and does not make its holder node {node}"),
    })
}

#[cfg(test)]
mod tests;
