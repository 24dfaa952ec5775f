//! Who serves a store: one living session only.
//!
//! **The story.** The disk of a store that is served is copied byte by byte (a clone of a virtual machine, a snapshot that is
//! mounted), and the copy is given to another node. Both have the same UUID. If the second one registered, everybody would
//! send to it what the first one has to order; and nobody would tell the first.
//!
//! **The mechanism.** Each mount raises a counter in the store's superblocks before anything else is written. A node claims
//! that number in the metadata ([`Mount`]) before it serves the store, in one transaction with the store's record: only if no
//! other session that lives has claimed it, and only if the number was never claimed. The copy of a store that is served is
//! refused because the other one lives; the copy of a store that was served since, because its number is old. A disk that
//! moved to another host while its old node is down comes with a newer number, and is let in.
//!
//! What this cannot tell: a copy that comes with a newer number while the original is nowhere. It is the disk, then, as it was when it was
//! copied.

use super::status::lives;
use super::subsystem::{put, unchanged};
use super::{AdminError, Result, get, nodes, settled_store, tries};
use crate::agent::STOPPED;
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{self, Live, Mount, Store};
use amita_types::{NodeId, StoreId};

/// May this node serve the store, as far as can be said before its disk is mounted? For a clear word at the start; what counts is
/// [`claim_store`].
///
/// # Errors
/// Another node that lives serves it; the metadata is away.
pub fn check_claim(meta: &dyn Transact, store: StoreId, node: Option<NodeId>) -> Result<()> {
    let Some((mount, _)) = get::<Mount>(meta, &map::mount_key(store))? else {
        return Ok(());
    };
    if Some(mount.node) != node && living(meta, &mount)?.0 {
        return Err(served(meta, store, mount.node)?);
    }
    Ok(())
}

/// Claims a store for this session, and registers it as [`super::register_store`] does. `number`: of the mount, from the disk.
/// Returns the revision of the claim.
///
/// # Errors
/// Another session that lives has it, or this one under another path; the number was claimed before: it is an old copy. The
/// metadata is away or refuses.
pub fn claim_store(meta: &dyn Transact, store: &Store, session: u64, number: u64) -> Result<u64> {
    let (key, mount_key) = (map::store_key(store.id), map::mount_key(store.id));
    for _ in tries(meta) {
        let known = get::<Mount>(meta, &mount_key)?;
        let old = get::<Store>(meta, &key)?;
        let mut compares = vec![
            unchanged(&mount_key, known.as_ref().map_or(0, |(_, revision)| *revision)),
            unchanged(&key, old.as_ref().map_or(0, |(_, revision)| *revision)),
        ];
        let mount = Mount {
            node: store.node,
            session,
            number,
        };
        match &known {
            // An answer that was lost, or a record that somebody has changed meanwhile.
            Some((known, _)) if *known == mount => {}
            Some((known, _)) if known.node == store.node && known.session == session => {
                // Mounted anew before its failure was told here. Under another path it is a copy.
                let same_path = old.as_ref().is_some_and(|(old, _)| old.path == store.path);
                if number <= known.number || !same_path {
                    return Err(served(meta, store.id, known.node)?);
                }
            }
            Some((known, _)) => {
                // Our own node's older sessions are gone: its lease is ours.
                if known.node != store.node {
                    let (lives, guard) = living(meta, known)?;
                    if lives {
                        return Err(served(meta, store.id, known.node)?);
                    }
                    compares.push(guard);
                }
                if number <= known.number {
                    return Err(AdminError::StoreOutdated {
                        store: store.id,
                        known: known.number,
                        mount: number,
                        by: name_of(meta, known.node)?,
                        path: old.map(|(old, _)| old.path).unwrap_or_default(),
                    });
                }
            }
            // Registered by a version that claims nothing.
            None => {
                if let Some((old, _)) = &old
                    && old.node != store.node
                    && lives(meta)?.serve(old)
                {
                    return Err(served(meta, store.id, old.node)?);
                }
            }
        }
        let record = settled_store(store, old.as_ref().map(|(old, _)| old));
        let call = Call {
            compares,
            then: vec![put(mount_key.clone(), &mount), put(key.clone(), &record)],
            otherwise: Vec::new(),
        };
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(reply.revision);
        }
    }
    Err(AdminError::TooManyRaces { key: mount_key })
}

/// Gives a store up that this session had claimed by this mount or an older one: whoever has its disk may serve it.
///
/// # Errors
/// The metadata is away or refuses.
pub fn release_store(meta: &dyn Transact, store: StoreId, node: NodeId, session: u64, number: u64) -> Result<()> {
    let key = map::mount_key(store);
    let Some((mount, revision)) = get::<Mount>(meta, &key)? else {
        return Ok(());
    };
    if (mount.node, mount.session) == (node, session) && mount.number <= number {
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key, &Mount { session: 0, ..mount })],
            otherwise: Vec::new(),
        };
        // Who was faster has claimed it.
        meta.txn(&call)?;
    }
    Ok(())
}

/// Lets an older copy of a store in: its next start is taken for the store's. What was written since is not on it.
///
/// # Errors
/// A session that lives has the store; there is none of that UUID; the metadata is away or refuses.
pub fn adopt_store(meta: &dyn Transact, store: StoreId) -> Result<()> {
    let key = map::mount_key(store);
    for _ in tries(meta) {
        let Some((mount, revision)) = get::<Mount>(meta, &key)? else {
            return super::find_store(meta, &store.to_string()).map(drop);
        };
        let (lives, guard) = living(meta, &mount)?;
        if lives {
            return Err(served(meta, store, mount.node)?);
        }
        let call = Call {
            compares: vec![unchanged(&key, revision), guard],
            then: vec![Op::Delete { key: key.clone() }],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(());
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Does the session that has claimed a store live? And what must be so that the answer still holds.
fn living(meta: &dyn Transact, mount: &Mount) -> Result<(bool, Compare)> {
    let key = map::live_key(mount.node);
    let found = get::<Live>(meta, &key)?;
    let guard = unchanged(&key, found.as_ref().map_or(0, |(_, revision)| *revision));
    let lives = found.is_some_and(|(live, _)| live.session == mount.session && live.pid != STOPPED);
    Ok((lives, guard))
}

fn name_of(meta: &dyn Transact, id: NodeId) -> Result<String> {
    let found = nodes(meta)?.into_iter().find(|node| node.id == id);
    Ok(found.map_or_else(|| id.to_string(), |node| node.name))
}

fn served(meta: &dyn Transact, store: StoreId, by: NodeId) -> Result<AdminError> {
    let path = get::<Store>(meta, &map::store_key(store))?.map(|(record, _)| record.path);
    Ok(AdminError::StoreServed {
        store,
        by: name_of(meta, by)?,
        path: path.unwrap_or_default(),
    })
}
