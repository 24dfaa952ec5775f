//! What the cluster's settings say of iSCSI, as one node sees it: beside the [SCSI side](amita_scsi::Catalog) of it, where portals
//! are, and what initiators have to prove.

mod common;
#[cfg(test)]
mod tests;

pub(crate) use common::{Common, ResetCounts};

use amita_scsi::Target;
use amita_scsi::unit::Alua;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use zeroize::Zeroize;

/// The settings of the moment. Immutable: made anew when they change, and shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// Targets, their logical units, and who may see them. Its revision is this one's as well; 0: the settings are not known yet.
    pub scsi: Arc<amita_scsi::Catalog>,
    /// Where each gateway listens, by its tag.
    pub portals: BTreeMap<u16, Vec<SocketAddr>>,
    /// What is known of initiators, in order of their name.
    pub initiators: Vec<Arc<Initiator>>,
    /// What else is known of targets, by their name; those of which nothing is are not here.
    pub details: BTreeMap<String, TargetDetail>,
}

impl Catalog {
    /// What is known of the initiator of that name.
    #[must_use]
    pub fn initiator(&self, name: &str) -> Option<&Arc<Initiator>> {
        let index = self
            .initiators
            .binary_search_by(|known| known.name.as_str().cmp(name))
            .ok()?;
        self.initiators.get(index)
    }

    /// What has the initiator of that name to prove?
    #[must_use]
    pub fn chap(&self, name: &str) -> Option<(&Initiator, &Secret)> {
        let initiator = self.initiator(name)?;
        Some((initiator, initiator.chap.as_ref()?))
    }

    /// This gateway's tag: that of its portal group.
    #[must_use]
    pub fn tag(&self) -> Option<u16> {
        self.scsi.here().map(|group| group.tag)
    }

    /// The target of that name, if this gateway serves it.
    #[must_use]
    pub fn target_here(&self, name: &str) -> Option<&Arc<Target>> {
        let tag = self.tag()?;
        self.scsi.target(name).filter(|target| target.groups.contains(&tag))
    }

    /// The same for a session that is there: also a target that this gateway is to serve no more, until its initiators have logged out. It is no
    /// worse a way than it was, but others are told as the better ones.
    #[must_use]
    pub fn target_kept(&self, name: &str) -> Option<Arc<Target>> {
        if let Some(target) = self.target_here(name) {
            return Some(target.clone());
        }
        let tag = self
            .tag()
            .filter(|_| self.detail(name).is_some_and(|detail| detail.leaving))?;
        let mut kept = Target::clone(self.scsi.target(name)?);
        kept.groups.push(tag);
        kept.groups.sort_unstable();
        for unit in &mut kept.units {
            let unit = Arc::make_mut(unit);
            unit.access.retain(|(known, _)| *known != tag);
            unit.access.push((tag, Alua::NonOptimized));
            unit.access.sort_unstable_by_key(|(tag, _)| *tag);
        }
        Some(Arc::new(kept))
    }

    /// What else is known of a target.
    #[must_use]
    pub fn detail(&self, target: &str) -> Option<&TargetDetail> {
        self.details.get(target)
    }

    /// Where a target can be reached: portals of live gateways that serve it, each with the tag of its group. (Those of gateways
    /// that are dead would be waited for; they are told again when they live.)
    pub fn portals_of<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = (SocketAddr, u16)> + 'a {
        let groups = target.groups.iter().filter_map(move |tag| self.scsi.group(*tag));
        let live = groups.filter(move |group| group.alive || group.node == self.scsi.node);
        live.flat_map(move |group| {
            let portals = self.portals.get(&group.tag).into_iter().flatten();
            portals.map(move |portal| (*portal, group.tag))
        })
    }
}

/// An initiator, and what it has to prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initiator {
    /// Its iSCSI name, canonical.
    pub name: String,
    /// The name that it says in CHAP.
    pub user: String,
    /// The secret that it must prove to have.
    pub chap: Option<Secret>,
    /// The secret that the target proves to have, when the initiator asks for that.
    pub chap_target: Option<Secret>,
    /// The name that targets say in CHAP then; none: their own. (ESXi compares it with one name for all targets of an adapter.)
    pub target_user: Option<String>,
}

/// What iSCSI has to know of a target beyond its SCSI side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetDetail {
    /// For people.
    pub alias: String,
    /// Initiators without a secret are refused.
    pub chap_required: bool,
    /// Logins are sent there.
    pub moved: Option<Moved>,
    /// This gateway is to serve it no more: its sessions are asked to log out.
    pub leaving: bool,
}

/// Where a target is served instead (RFC 7143, 11.13.5: status class 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub portal: SocketAddr,
    /// For good, and not for now.
    pub permanently: bool,
}

/// Bytes that are never shown, and that are wiped when nobody needs them any more. An empty one is one that could not be read: it
/// opens nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(bytes)
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Could it not be read?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// A portal as TargetAddress has it (13.8): the address with its port, and the tag of its group where it has one.
#[must_use]
pub fn target_address(portal: SocketAddr, tag: Option<u16>) -> String {
    // Addresses of version 6 have brackets in both.
    match tag {
        Some(tag) => format!("{portal},{tag}"),
        None => portal.to_string(),
    }
}
