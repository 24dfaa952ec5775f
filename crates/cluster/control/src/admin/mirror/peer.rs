//! The other end of a mirror: who it is, and what it has said of itself.

use super::super::{AdminError, Result};
use super::record::{change_free, mirrors};
use amita_metadata::Transact;
use amita_types::MirrorId;
use amita_types::map::{Mirror, MirrorPeer};

/// The mirror of this number, which both ends know it by.
///
/// # Errors
/// There is none; the metadata is away, or a record is not readable.
pub fn mirror_by_id(meta: &dyn Transact, id: MirrorId) -> Result<Mirror> {
    let all = mirrors(meta)?;
    let there = all.iter().map(|mirror| mirror.id.to_string()).collect();
    all.into_iter()
        .find(|mirror| mirror.id == id)
        .ok_or_else(|| AdminError::NoSuch {
            what: "mirror",
            name: id.to_string(),
            there,
        })
}

/// The other end has told how it is reached, with a token that is sealed already. None: another cluster is this mirror's other end.
///
/// # Errors
/// There is no such mirror; the metadata is away or refuses.
pub fn tell_mirror_peer(meta: &dyn Transact, name: &str, peer: &MirrorPeer) -> Result<Option<Mirror>> {
    let (record, is_it) = change_free(meta, name, &|record| {
        let is_it = record.peer.cluster.is_none() || record.peer.cluster == peer.cluster;
        if is_it && record.peer != *peer {
            record.peer.clone_from(peer);
            // Of the new one nobody has said when it ends.
            record.token_ends_at = None;
        }
        Ok(is_it)
    })?;
    Ok(is_it.then_some(record))
}
