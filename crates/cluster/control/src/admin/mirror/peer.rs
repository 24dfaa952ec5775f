//! The other end of a mirror: who it is, and what it has said of itself.

use super::super::{AdminError, Result, get};
use super::record::{change_free, find_mirror, mirrors};
use amita_metadata::Transact;
use amita_types::MirrorId;
use amita_types::map::{self, Mirror, MirrorPeer};

/// The mirror of this number, which both ends know it by.
///
/// # Errors
/// There is none; the metadata is away, or a record is not readable.
pub fn mirror_by_id(meta: &dyn Transact, id: MirrorId) -> Result<Mirror> {
    find_by_id(meta, id).map(|(found, _)| found)
}

/// The same, and the revision of its record.
pub(super) fn find_by_id(meta: &dyn Transact, id: MirrorId) -> Result<(Mirror, u64)> {
    if let Some((name, _)) = get::<String>(meta, &map::mirror_id_key(id))? {
        match find_mirror(meta, &name) {
            Ok(found) if found.0.id == id => return Ok(found),
            // It was removed at this moment.
            Ok(_) | Err(AdminError::NoSuch { .. }) => {}
            Err(why) => return Err(why),
        }
    }
    // One that was made before its number was noted.
    let all = mirrors(meta)?;
    let there: Vec<String> = all.iter().map(|mirror| mirror.id.to_string()).collect();
    match all.into_iter().find(|mirror| mirror.id == id) {
        Some(found) => find_mirror(meta, &found.name),
        None => Err(AdminError::NoSuch {
            what: "mirror",
            name: id.to_string(),
            there,
        }),
    }
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
