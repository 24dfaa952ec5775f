//! Nodes that speak iSCSI: the tag of each one's portal group, and its portals.

use super::subsystem::{put, unchanged};
use super::{AdminError, Result, check_name, get, list, tries};
use crate::guide::iscsi::Portal;
use amita_metadata::{Call, Transact};
use amita_types::NodeId;
use amita_types::map::{self, IscsiGateway, IscsiTarget};
use std::net::SocketAddr;

/// Portals of one node, at most: one for each network that initiators come by.
pub const MAX_PORTALS: usize = 16;

/// All nodes that speak iSCSI, or did, by name.
///
/// # Errors
/// The metadata is away, or a record is not readable.
pub fn iscsi_gateways(meta: &dyn Transact) -> Result<Vec<IscsiGateway>> {
    list(meta, &map::iscsi_gateways_prefix())
}

/// Where initiators log in to a target: the portals of the `owner` first, those of nodes that live next.
///
/// # Errors
/// The metadata is away, or a record is not readable.
pub fn target_portals(meta: &dyn Transact, target: &IscsiTarget, owner: Option<NodeId>) -> Result<Vec<Portal>> {
    let lives = super::status::lives(meta)?;
    let is_chosen = |found: &IscsiGateway| target.gateways.is_empty() || target.gateways.contains(&found.name);
    // That of a node that is away says where it will be again.
    let is_there = |found: &IscsiGateway| lives.speaks(found) || !lives.alive(found.node);
    let serves = |found: &&IscsiGateway| is_chosen(found) && is_there(found);
    let mut portals = Vec::new();
    for gateway in iscsi_gateways(meta)?.iter().filter(serves) {
        // What cannot be read as an address is nobody's way.
        let speaks = lives.speaks(gateway);
        let at = gateway.portals.iter().filter_map(|portal| portal.parse().ok());
        portals.extend(at.map(|at: SocketAddr| Portal {
            owner: owner == Some(gateway.node),
            alive: speaks,
            ..Portal::new(&gateway.name, at, gateway.tag)
        }));
    }
    portals.sort_by_key(|portal| (!portal.owner, !portal.alive));
    Ok(portals)
}

/// Says at which portals the program of that session speaks iSCSI as a node; none: it does no more. The tag of its portal group stays with it as
/// long as the node's record does: initiators and the records of their reservations know a path by it.
///
/// # Errors
/// A bad name, too many portals, no tag is left; the metadata is away or refuses.
pub fn register_iscsi_gateway(
    meta: &dyn Transact,
    name: &str,
    node: NodeId,
    session: u64,
    portals: &[SocketAddr],
) -> Result<Option<IscsiGateway>> {
    check_name("node", name)?;
    if portals.len() > MAX_PORTALS {
        return Err(AdminError::Full {
            what: "node",
            name: name.to_owned(),
            of: "portals",
            most: MAX_PORTALS,
        });
    }
    let key = map::iscsi_gateway_key(name);
    // The tag that was given last; it is the guard as well.
    let counter = map::counter_key("iscsi-portal-groups");
    for _ in tries(meta) {
        let found = get::<IscsiGateway>(meta, &key)?;
        let revision = found.as_ref().map_or(0, |(_, revision)| *revision);
        // A node that was removed and made anew under its name is another one.
        let own = found.map(|(known, _)| known).filter(|known| known.node == node);
        if own.is_none() && portals.is_empty() {
            return Ok(None);
        }
        let (last, counter_revision) = get::<u64>(meta, &counter)?.unwrap_or((0, 0));
        let tag = match &own {
            Some(known) => known.tag,
            None => free_tag(meta, last)?,
        };
        let gateway = IscsiGateway {
            node,
            name: name.to_owned(),
            tag,
            portals: portals.iter().map(ToString::to_string).collect(),
            session: (!portals.is_empty()).then_some(session),
        };
        if own.as_ref() == Some(&gateway) {
            return Ok(own);
        }
        let mut call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key.clone(), &gateway)],
            otherwise: Vec::new(),
        };
        if own.is_none() {
            call.compares.push(unchanged(&counter, counter_revision));
            call.then.push(put(counter.clone(), &u64::from(tag)));
        }
        if meta.txn(&call)?.succeeded {
            return Ok(Some(gateway));
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// The tag behind the last one that was given, round and round: one of a node that is gone is given again as late as can be. Zero is none
/// (RFC 7143, 13.9, allows it; a relative target port identifier of zero is reserved: SPC-4, "Relative target port identifier designator format").
fn free_tag(meta: &dyn Transact, last: u64) -> Result<u16> {
    let known = iscsi_gateways(meta)?;
    let tags = u64::from(u16::MAX);
    let candidates = (0..tags).map(|step| (last % tags + step) % tags + 1);
    candidates
        .filter_map(|tag| u16::try_from(tag).ok())
        .find(|tag| known.iter().all(|gateway| gateway.tag != *tag))
        .ok_or_else(|| AdminError::Damaged {
            key: map::iscsi_gateways_prefix(),
            what: "no tag of a portal group is left",
        })
}
