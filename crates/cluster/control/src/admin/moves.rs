//! Moves: the operator wants a volume to be owned by another gateway.
//!
//! The wish is a record. The gateway that it names sees it, takes the volume over with its owner's consent, and removes the
//! record; what it cannot do it says in the record. Hosts that are connected to both see the optimized path change sides.

use super::mirror::none_closed;
use super::subsystem::{put, unchanged};
use super::volume::find_volume;
use super::{AdminError, Result, get, next_number, nodes, tries, volume};
use amita_metadata::{Call, Op, Transact};
use amita_types::NodeId;
use amita_types::map::{self, IscsiGateway, Move, Node, Volume};

/// What has become of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveState {
    /// The volume is where it was wished.
    Done,
    /// Not yet.
    Waiting,
    /// The gateway says why it cannot be.
    Refused(String),
    /// The wish is gone, or another came in its place, and the volume is elsewhere.
    Dropped {
        /// Who owns it.
        owner: Option<NodeId>,
    },
}

/// Do initiators log in to it by iSCSI?
fn speaks_iscsi(meta: &dyn Transact, node: &Node) -> Result<bool> {
    let gateway = get::<IscsiGateway>(meta, &map::iscsi_gateway_key(&node.name))?;
    // One of another number is of a node that is gone.
    let own = gateway
        .map(|(gateway, _)| gateway)
        .filter(|gateway| gateway.node == node.id);
    let Some(own) = own.filter(|gateway| !gateway.portals.is_empty()) else {
        return Ok(false);
    };
    let lives = super::status::lives(meta)?;
    Ok(lives.speaks(&own) || !lives.alive(node.id))
}

/// Wishes that a volume be owned by the node of that name; in the place of an earlier wish, if there is one.
///
/// # Errors
/// No such volume or node, or the node is away or no gateway; the metadata is away or refuses.
pub fn move_volume(meta: &dyn Transact, name: &str, to: &str) -> Result<Move> {
    let known: Vec<_> = nodes(meta)?.into_iter().filter(|node| !node.client).collect();
    let Some(node) = known.iter().find(|node| node.name == to) else {
        return Err(AdminError::NoSuch {
            what: "node",
            name: to.to_owned(),
            there: known.into_iter().map(|node| node.name).collect(),
        });
    };
    let bad = |why: &str| AdminError::BadSetting {
        what: "node",
        name: to.to_owned(),
        why: why.to_owned(),
    };
    let serves = node.nvme.is_some() || node.nbd.is_some() || node.nbd_socket.is_some();
    if !serves && !speaks_iscsi(meta, node)? {
        return Err(bad(
            "it is no gateway: it serves neither NVMe nor iSCSI nor NBD; start it with --nvme ADDRESS:PORT or --iscsi ADDRESS:PORT, or \
             choose another node",
        ));
    }
    if !super::status::lives(meta)?.alive(node.id) {
        return Err(bad("it is not alive; start it, or choose another node"));
    }
    // No gateway would carry it out: that is said at once, and not after a wait that ends nowhere.
    if let Some(why) = super::status::suspects(meta)?.into_iter().next() {
        return Err(AdminError::NothingOpens { why });
    }
    let number = next_number(meta, "moves")?;
    for _ in tries(meta) {
        let (found, revision) = find_volume(meta, name)?;
        none_closed(&found)?;
        let wish = Move {
            volume: name.to_owned(),
            to: node.id,
            number,
            refused: None,
        };
        let key = map::move_key(found.id);
        // Only for a volume that is there: nobody would remove the wish for one that was deleted.
        let call = Call {
            compares: vec![unchanged(&map::volume_key(name), revision)],
            then: vec![put(key, &wish)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(wish);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(name),
    })
}

/// What has become of a wish. A refusal is told once: the record goes.
///
/// # Errors
/// The volume is gone; the metadata is away or refuses.
pub fn move_state(meta: &dyn Transact, wish: &Move) -> Result<MoveState> {
    let found: Volume = volume(meta, &wish.volume)?;
    let key = map::move_key(found.id);
    let record = get::<Move>(meta, &key)?;
    if let Some((record, revision)) = record.filter(|(record, _)| record.number == wish.number) {
        let Some(why) = record.refused else {
            return Ok(MoveState::Waiting);
        };
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![Op::Delete { key }],
            otherwise: Vec::new(),
        };
        // Who was faster has heard of it as well.
        meta.txn(&call)?;
        return Ok(MoveState::Refused(why));
    }
    // Read after the wish was seen to be gone: a gateway removes it once it owns the volume.
    let owner = volume(meta, &wish.volume)?.owner;
    if owner == Some(wish.to) {
        return Ok(MoveState::Done);
    }
    Ok(MoveState::Dropped { owner })
}

/// Takes a wish back, unless another has come in its place.
///
/// # Errors
/// The volume is gone; the metadata is away or refuses.
pub fn drop_move(meta: &dyn Transact, wish: &Move) -> Result<()> {
    let key = map::move_key(volume(meta, &wish.volume)?.id);
    if let Some((_, revision)) = get::<Move>(meta, &key)?.filter(|(record, _)| record.number == wish.number) {
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![Op::Delete { key }],
            otherwise: Vec::new(),
        };
        meta.txn(&call)?;
    }
    Ok(())
}
