//! Publishing by iSCSI: a target for each published volume, as a subsystem is for NVMe/TCP (`publish.rs`), with one LUN. Its iSCSI name is used for one attachment alone.

use super::publish::{context, disk_key, others_stayed, portal};
use super::{Controller, Found, LOOKS, crossed};
use crate::api::{IscsiAttachment, NewTarget, Registrant, Tagged, Target};
use crate::capability::{Sharing, Use};
use crate::id;
use crate::labels;
use crate::parameters::Serving;
use crate::protocol::NodeId;
use std::collections::BTreeMap;
use tonic::Status;
use uuid::Uuid;

/// The qualified name of an attachment, which no other has.
fn fresh_iqn(name: &str) -> String {
    format!("iqn.2026-11.io.amita:{}:{name}", Uuid::new_v4().simple())
}

/// Which attachment it is, as keys of reservations have it: it is known by the name that was made for it. No order follows from it.
fn attachment_of(iqn: &str) -> Option<u32> {
    let (_, own) = iqn.split_once(':')?;
    u32::from_str_radix(own.get(..8)?, 16).ok()
}

/// The host that a registrant is: one of iSCSI is registered by its ports.
fn host_of(known: &Registrant) -> Option<Uuid> {
    match &known.port {
        None => Uuid::try_parse(&known.host_id).ok(),
        Some(port) => {
            let name = port.initiator.split(",i,").next().unwrap_or_default();
            NodeId::of_initiator(name).map(|node| node.host)
        }
    }
}

/// Was a host making a file system when it was known so?
pub(super) fn was_making(known: &Registrant) -> bool {
    let was = (host_of(known), id::key_of(&known.key));
    matches!(was, (Some(host), Some(key)) if id::is_making(key, host))
}

impl Controller {
    pub(super) async fn publish_by_iscsi(
        &self,
        found: &Found,
        node: NodeId,
        wanted: &Use,
        serving: &Serving,
    ) -> Result<BTreeMap<String, String>, Status> {
        if serving.tls_required {
            return Err(Status::failed_precondition(format!(
                "volume {} is reached by TLS alone, and node {node} has it by iSCSI, which has none",
                found.name()
            )));
        }
        let target = self.log_in(found, node, wanted, serving).await?;
        let told = self.told_by_iscsi(found, node, wanted, serving, &target).await?;
        // As with subsystems, what a node is told is of one attachment.
        let now = self.api.target(&target.name).await?.map(|now| now.thing);
        let own = node.initiator();
        match now.is_some_and(|now| now.iqn == target.iqn && now.lets_in(&own)) {
            true => Ok(told),
            false => Err(Status::aborted(format!("who has {} changes at present", target.name))),
        }
    }

    /// Lets a node log in.
    async fn log_in(&self, found: &Found, node: NodeId, wanted: &Use, serving: &Serving) -> Result<Target, Status> {
        let own = node.initiator();
        let name = found.id.subsystem(self.driver());
        self.not_fenced(node.host).await?;
        let target = self.target_of(found, &name, serving).await?;
        only(wanted, &target, &own).map_err(Status::failed_precondition)?;
        if target.lets_in(&own) {
            return Ok(target);
        }
        let now = self.api.allow_initiator(&name, &own).await.map_err(crossed)?;
        let counts = (target.initiators.len(), now.initiators.len());
        let alone = only(wanted, &now, &own)
            .and_then(|()| others_stayed(&name, counts))
            .map_err(Status::aborted);
        let stays = match alone {
            Ok(()) => self.not_fenced(node.host).await,
            not => not,
        };
        if let Err(why) = stays {
            self.take_off_target(&name, |known| known == Some(node.host)).await?;
            return Err(why);
        }
        Ok(now)
    }

    /// The volume's target, with the volume in it.
    async fn target_of(&self, found: &Found, name: &str, serving: &Serving) -> Result<Target, Status> {
        let there = match self.api.target(name).await? {
            Some(unused) if unused.thing.initiators.is_empty() => {
                self.end_of_unused_target(&unused).await?;
                None
            }
            there => there.map(|there| there.thing),
        };
        let target = match there {
            Some(there) => there,
            None => {
                let wanted = NewTarget {
                    name,
                    iqn: &fresh_iqn(name),
                    gateways: &serving.gateways,
                };
                self.api.create_target(&wanted).await.map_err(crossed)?
            }
        };
        if target.luns == 0 {
            let of = Self::served(found);
            let added = self.api.add_lun(name, &of, serving.block_bytes).await;
            if added.as_ref().is_err_and(|why| why.is("in-use")) && self.end_of_unused_subsystem(name).await? {
                self.api
                    .add_lun(name, &of, serving.block_bytes)
                    .await
                    .map_err(crossed)?;
            } else {
                added.map_err(crossed)?;
            }
        }
        Ok(target)
    }

    /// A subsystem that lets nobody in was left by a call that was cut, and keeps the volume from being a LUN.
    async fn end_of_unused_subsystem(&self, name: &str) -> Result<bool, Status> {
        match self.api.subsystem(name).await? {
            Some(unused) if unused.thing.hosts.is_empty() => self.end_of_unused(&unused).await.map(|()| true),
            _ => Ok(false),
        }
    }

    /// The same of a target, and a namespace.
    pub(super) async fn end_of_unused_target_at(&self, name: &str) -> Result<bool, Status> {
        match self.api.target(name).await? {
            Some(unused) if unused.thing.initiators.is_empty() => {
                self.end_of_unused_target(&unused).await.map(|()| true)
            }
            _ => Ok(false),
        }
    }

    async fn end_of_unused_target(&self, unused: &Tagged<Target>) -> Result<(), Status> {
        self.until_cut_off().await;
        match self.api.delete_target(unused).await {
            Err(why) if why.is_not_found() => Ok(()),
            done => Ok(done?),
        }
    }

    async fn told_by_iscsi(
        &self,
        found: &Found,
        node: NodeId,
        wanted: &Use,
        serving: &Serving,
        target: &Target,
    ) -> Result<BTreeMap<String, String>, Status> {
        let attachment = self.api.iscsi_attachment(&Self::served(found)).await?;
        let gone = || Status::aborted(format!("volume {} was taken out of its target", found.name()));
        let IscsiAttachment {
            iqn, lun, naa, portals, ..
        } = attachment
            .filter(|there| there.target == target.name && there.iqn == target.iqn)
            .ok_or_else(gone)?;
        if portals.is_empty() {
            return Err(Status::unavailable("no node serves iSCSI (`amita serve --iscsi`)"));
        }
        let (alive, away): (Vec<_>, Vec<_>) = portals.iter().partition(|portal| portal.alive);
        // With the tag, by which open-iscsi has the portal's record.
        let portals = alive.into_iter().chain(away);
        let portals: Vec<String> = portals
            .map(|found| format!("{}#{}", portal(&found.address, found.port), found.tag))
            .collect();
        let number = attachment_of(&iqn);
        let keys = id::Keys::of(node.host, number);
        let mut told = BTreeMap::from([
            (context::IQN.to_owned(), iqn),
            (context::LUN.to_owned(), lun.to_string()),
            (disk_key(found, context::NAA, context::SEALED_NAA), naa),
            (context::INITIATOR.to_owned(), node.initiator()),
            (context::PORTALS.to_owned(), portals.join(",")),
        ]);
        if let Some(number) = number {
            told.insert(context::ATTACHMENT.to_owned(), number.to_string());
        }
        if labels::is_read_only(found.volume()) {
            return Ok(told);
        }
        let registrants = self.api.reservation(found.name()).await?.registrants;
        if wanted.sharing == Sharing::Single && serving.reserved {
            told.insert(context::EXCLUSIVE.to_owned(), "1".to_owned());
        } else if registrants.iter().any(|known| known.holder) {
            told.insert(context::RELEASE.to_owned(), "1".to_owned());
        }
        let is_own =
            |known: &&Registrant| id::key_of(&known.key).is_some_and(|key| [keys.own, keys.making].contains(&key));
        let (holder, others): (Vec<_>, Vec<_>) = registrants
            .iter()
            .filter(|known| !is_own(known))
            .partition(|known| known.holder);
        if holder.first().is_some_and(|holder| was_making(holder)) {
            told.insert(context::UNFINISHED.to_owned(), "1".to_owned());
        }
        // Registrants write beside the holder here, so all of others' go: also one that was cut before it held anything.
        let mut keys: Vec<&str> = Vec::new();
        for known in holder.iter().chain(&others) {
            if !keys.contains(&known.key.as_str()) {
                keys.push(&known.key);
            }
        }
        if !keys.is_empty() {
            told.insert(context::PREEMPT.to_owned(), keys.join(","));
        }
        Ok(told)
    }

    /// Takes nodes' initiators off a target; with the last of them it goes, in one step. An initiator that is none of the driver's is of no host.
    pub(super) async fn take_off_target(
        &self,
        name: &str,
        is_meant: impl Fn(Option<Uuid>) -> bool,
    ) -> Result<(), Status> {
        let is_meant = |known: &str| is_meant(NodeId::of_initiator(known).map(|node| node.host));
        for _ in 0..LOOKS {
            let Some(there) = self.api.target(name).await? else {
                return Ok(());
            };
            let names = there.thing.initiators.iter().map(|access| access.initiator.as_str());
            let (off, stay): (Vec<&str>, Vec<&str>) = names.partition(|known| is_meant(known));
            if stay.is_empty() {
                match self.api.delete_target(&there).await {
                    // Somebody else was let in.
                    Err(why) if why.is("changed") => continue,
                    Err(why) if why.is_not_found() => return Ok(()),
                    done => return Ok(done?),
                }
            }
            if off.is_empty() {
                return Ok(());
            }
            for initiator in off {
                self.api.deny_initiator(name, initiator).await?;
            }
        }
        Err(Status::aborted(format!("who has {name} changes again and again")))
    }
}

/// A volume of one node has no other. A node that is known by what it could before is the same host.
fn only(wanted: &Use, target: &Target, own: &str) -> Result<(), String> {
    let mut all = target.initiators.iter().map(|access| access.initiator.as_str());
    match all.find(|known| wanted.sharing == Sharing::Single && *known != own) {
        None => Ok(()),
        Some(other) => {
            let node = NodeId::of_initiator(other).map_or_else(|| other.to_owned(), |node| node.to_string());
            Err(format!("it is published to node {node}, and to one node at a time"))
        }
    }
}
