//! ControllerPublishVolume and ControllerUnpublishVolume: which hosts a volume's subsystem lets in. No host is asked.

use super::target::was_making;
use super::{Controller, Found, LOOKS, crossed, may_be_used, missing};
use crate::api::{Attachment, Gateway, NewSubsystem, Subsystem, Tagged};
use crate::capability::{self, Sharing, Use};
use crate::id::{self, VolumeId};
use crate::labels;
use crate::parameters::Serving;
use crate::protocol::{NodeId, Protocol};
use crate::wire::controller::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse,
};
use std::collections::BTreeMap;
use tonic::Status;
use uuid::Uuid;

/// What a node is told of a volume that is published to it (`publish_context`).
pub mod context {
    /// The subsystem's qualified name.
    pub const NQN: &str = "nqn";
    /// The namespace's UUID.
    pub const UUID: &str = "uuid";
    /// The same of a volume that is encrypted at its node, in place of the other: a driver that does not know of that would have pods write to the disk itself, and does not know this name.
    pub const SEALED_UUID: &str = "sealed-uuid";
    /// Where, as ADDRESS:PORT separated by commas: the owner first, and last those that were away.
    pub const PORTALS: &str = "portals";
    /// Present: the node reserves the volume for itself.
    pub const EXCLUSIVE: &str = "exclusive";
    /// The key of a host that has it reserved and is not to have it any more.
    pub const PREEMPT: &str = "preempt";
    /// Which attachment of all it is: later ones have larger numbers.
    pub const ATTACHMENT: &str = "attachment";
    /// Present: that host was making a file system, and had not come to its end.
    pub const UNFINISHED: &str = "unfinished";
    /// Present: the node ends the reservation that it finds: of the host of `preempt`, or its own.
    pub const RELEASE: &str = "release";
    /// The target's iSCSI name: present where it is by iSCSI. [`PORTALS`] have `#` and their tag behind them then, and [`PREEMPT`] has the keys of all others, the holder's first.
    pub const IQN: &str = "iqn";
    /// The number of its LUN.
    pub const LUN: &str = "lun";
    /// The disk's name (NAA), in digits.
    pub const NAA: &str = "naa";
    /// See [`SEALED_UUID`].
    pub const SEALED_NAA: &str = "sealed-naa";
    /// The iSCSI name that the node has there.
    pub const INITIATOR: &str = "initiator";
}

/// Hosts that nothing is published to: a subsystem without namespaces.
pub(crate) const FENCED: &str = "csi-fenced";

/// The qualified name of an attachment: no other one of any volume has it, before or after. What a host had queued by an attachment that was ended without it is
/// sent by that one's name, for as long as the host's kernel tries (not all take a refusal for an end); so that nobody is let in by it any more, also when
/// the host has the volume again. It ends with the subsystem's name, by which nodes know whose it is.
fn fresh_nqn(name: &str) -> String {
    format!("nqn.2026-11.io.amita:{}:{name}", Uuid::new_v4().simple())
}

/// Under which name a node is told of a volume's disk.
pub(super) fn disk_key(found: &Found, plain: &str, sealed: &str) -> String {
    let is_sealed = labels::is_by_secret(found.volume());
    (if is_sealed { sealed } else { plain }).to_owned()
}

pub(super) fn portal(address: &str, port: u16) -> String {
    match address.contains(':') {
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    }
}

impl Controller {
    pub(super) async fn publish(
        self,
        request: ControllerPublishVolumeRequest,
    ) -> Result<ControllerPublishVolumeResponse, Status> {
        if request.volume_id.is_empty() {
            return Err(missing("volume id"));
        }
        if request.node_id.is_empty() {
            return Err(missing("node id"));
        }
        let wanted = capability::one(request.volume_capability.as_ref())?;
        if request.readonly {
            return Err(Status::invalid_argument(
                "no node is let in for reading alone: mount it so",
            ));
        }
        let serving = Serving::read(&request.volume_context).map_err(Status::invalid_argument)?;
        let _hold = self.hold_named(&request.volume_id)?;
        let found = self.find(&request.volume_id).await?;
        let none = || Status::not_found(format!("there is no node {:?}", request.node_id));
        let node = NodeId::parse(&request.node_id).ok_or_else(none)?;
        let host = node.host;
        may_be_used(found.volume(), &wanted).map_err(Status::failed_precondition)?;
        if node.has_by(serving.protocol).map_err(Status::failed_precondition)? == Protocol::Iscsi {
            let publish_context = self.publish_by_iscsi(&found, node, &wanted, &serving).await?;
            return Ok(ControllerPublishVolumeResponse { publish_context });
        }
        let subsystem = self.let_in(&found, host, &wanted, &serving).await?;
        let mut publish_context = self.told(&found, host, &wanted, &serving).await?;
        if let Some(number) = id::attachment_of_serial(&subsystem.serial) {
            publish_context.insert(context::ATTACHMENT.to_owned(), number.to_string());
        }
        self.is_so_still(&subsystem, &publish_context, host).await?;
        Ok(ControllerPublishVolumeResponse { publish_context })
    }

    /// What a node is told is of one attachment: another controller may have ended it and made another one between the looks. Numbers are never used twice, so
    /// what is the same before and after was so all the time.
    async fn is_so_still(&self, before: &Subsystem, told: &BTreeMap<String, String>, host: Uuid) -> Result<(), Status> {
        let now = self.api.subsystem(&before.name).await?.map(|now| now.thing);
        let nqn = id::host_nqn(host);
        let is_it = |now: &Subsystem| {
            now.serial == before.serial && told.get(context::NQN) == Some(&now.nqn) && now.hosts.contains(&nqn)
        };
        match now.as_ref().is_some_and(is_it) {
            true => Ok(()),
            false => Err(Status::aborted(format!("who has {} changes at present", before.name))),
        }
    }

    /// What of a volume hosts have: itself, or what it is sealed as.
    pub(super) fn served(found: &Found) -> String {
        match labels::is_read_only(found.volume()) {
            true => format!("{}@{}", found.name(), labels::READ_ONLY_SNAPSHOT),
            false => found.name().to_owned(),
        }
    }

    pub(crate) async fn is_fenced(&self, host: Uuid) -> Result<bool, Status> {
        let fenced = self.api.subsystem(FENCED).await?;
        let nqn = id::host_nqn(host);
        Ok(fenced.is_some_and(|fenced| fenced.thing.hosts.contains(&nqn)))
    }

    pub(super) async fn not_fenced(&self, host: Uuid) -> Result<(), Status> {
        match self.is_fenced(host).await? {
            false => Ok(()),
            true => Err(Status::failed_precondition(format!("node {host} is fenced"))),
        }
    }

    async fn let_in(&self, found: &Found, host: Uuid, wanted: &Use, serving: &Serving) -> Result<Subsystem, Status> {
        let nqn = id::host_nqn(host);
        let name = found.id.subsystem(self.driver());
        self.not_fenced(host).await?;
        let subsystem = self.served_by(found, &name, serving).await?;
        only(wanted, &subsystem, &nqn).map_err(Status::failed_precondition)?;
        if subsystem.hosts.contains(&nqn) {
            return Ok(subsystem);
        }
        self.api.add_host(&nqn).await?;
        let now = self.api.allow(&name, &nqn).await.map_err(crossed)?;
        // Of two that came at one time each may have found nobody; and it may have been fenced since.
        let alone = only(wanted, &now, &nqn)
            .and_then(|()| others_stayed(&name, (subsystem.hosts.len(), now.hosts.len())))
            .map_err(Status::aborted);
        let stays = match alone {
            Ok(()) => self.not_fenced(host).await,
            not => not,
        };
        if let Err(why) = stays {
            self.take_off(&name, |known| known == nqn).await?;
            return Err(why);
        }
        Ok(now)
    }

    /// The volume's subsystem, with the volume in it.
    async fn served_by(&self, found: &Found, name: &str, serving: &Serving) -> Result<Subsystem, Status> {
        let there = match self.api.subsystem(name).await? {
            Some(unused) if unused.thing.hosts.is_empty() => {
                self.end_of_unused(&unused).await?;
                None
            }
            there => there.map(|there| there.thing),
        };
        let subsystem = match there {
            Some(there) => there,
            None => {
                // The key of a connection by TLS is in the host's keyring beforehand, for this name.
                let nqn = (!serving.tls_required).then(|| fresh_nqn(name));
                let wanted = NewSubsystem {
                    name,
                    nqn: nqn.as_deref(),
                    gateways: &serving.gateways,
                    tls_required: serving.tls_required,
                };
                self.api.create_subsystem(&wanted).await.map_err(crossed)?
            }
        };
        if subsystem.namespaces == 0 {
            let of = Self::served(found);
            let added = self.api.add_namespace(name, &of, serving.block_bytes).await;
            // It may be a LUN still, of a target that lets nobody in.
            if added.as_ref().is_err_and(|why| why.is("in-use")) && self.end_of_unused_target_at(name).await? {
                let again = self.api.add_namespace(name, &of, serving.block_bytes).await;
                again.map_err(crossed)?;
            } else {
                added.map_err(crossed)?;
            }
        }
        Ok(subsystem)
    }

    /// One that lets nobody in was made by a call that was cut; or somebody was taken off it, and whether its name was used is not known.
    pub(super) async fn end_of_unused(&self, unused: &Tagged<Subsystem>) -> Result<(), Status> {
        self.until_cut_off().await;
        match self.api.delete_subsystem(unused).await {
            Err(why) if why.is_not_found() => Ok(()),
            done => Ok(done?),
        }
    }

    async fn told(
        &self,
        found: &Found,
        host: Uuid,
        wanted: &Use,
        serving: &Serving,
    ) -> Result<BTreeMap<String, String>, Status> {
        let attachment = self.api.attachment(&Self::served(found)).await?;
        let gone = || Status::aborted(format!("volume {} was taken out of its subsystem", found.name()));
        let Attachment {
            nqn, uuid, gateways, ..
        } = attachment
            .filter(|there| there.subsystem == found.id.subsystem(self.driver()))
            .ok_or_else(gone)?;
        if gateways.is_empty() {
            return Err(Status::unavailable("no node serves NVMe/TCP (`amita serve --nvme`)"));
        }
        let (alive, away): (Vec<&Gateway>, Vec<&Gateway>) = gateways.iter().partition(|gateway| gateway.alive);
        let portals: Vec<String> = alive
            .into_iter()
            .chain(away)
            .map(|found| portal(&found.traddr, found.trsvcid))
            .collect();
        let mut told = BTreeMap::from([
            (context::NQN.to_owned(), nqn),
            (disk_key(found, context::UUID, context::SEALED_UUID), uuid),
            (context::PORTALS.to_owned(), portals.join(",")),
        ]);
        if labels::is_read_only(found.volume()) {
            return Ok(told);
        }
        let mut registrants = self.api.reservation(found.name()).await?.registrants.into_iter();
        let holder = registrants.find(|known| known.holder);
        // It stays the last node's, until the next one takes it: who was let in before has not heard of all by then. Whoever uses it with others ends it.
        if wanted.sharing == Sharing::Single && serving.reserved {
            told.insert(context::EXCLUSIVE.to_owned(), "1".to_owned());
        } else if holder.is_some() {
            told.insert(context::RELEASE.to_owned(), "1".to_owned());
        }
        let own = host.to_string();
        if let Some(other) = holder.filter(|holder| holder.host_id != own) {
            if was_making(&other) {
                told.insert(context::UNFINISHED.to_owned(), "1".to_owned());
            }
            told.insert(context::PREEMPT.to_owned(), other.key);
        }
        Ok(told)
    }

    pub(super) async fn unpublish(
        self,
        request: ControllerUnpublishVolumeRequest,
    ) -> Result<ControllerUnpublishVolumeResponse, Status> {
        if request.volume_id.is_empty() {
            return Err(missing("volume id"));
        }
        let done = ControllerUnpublishVolumeResponse {};
        let Some(volume) = VolumeId::parse(&request.volume_id) else {
            return Ok(done);
        };
        let host = match request.node_id.as_str() {
            "" => None,
            node => match NodeId::parse(node) {
                Some(node) => Some(node.host),
                None => return Ok(done),
            },
        };
        let _hold = self.hold_volume(&volume)?;
        let name = volume.subsystem(self.driver());
        let nqn = host.map(id::host_nqn);
        self.take_off(&name, |known| nqn.as_deref().is_none_or(|nqn| nqn == known))
            .await?;
        self.take_off_target(&name, |known| host.is_none() || known == host)
            .await?;
        // Also where a call before this one has taken it off, and was cut.
        self.until_cut_off().await;
        Ok(done)
    }

    /// Takes hosts off a list. With the last of them the subsystem goes, in one step: a name by which a host was let in is not used for the next one.
    pub(super) async fn take_off(&self, name: &str, is_meant: impl Fn(&str) -> bool) -> Result<(), Status> {
        for _ in 0..LOOKS {
            let Some(there) = self.api.subsystem(name).await? else {
                return Ok(());
            };
            let (off, stay): (Vec<&String>, Vec<&String>) = there.thing.hosts.iter().partition(|known| is_meant(known));
            if stay.is_empty() {
                match self.api.delete_subsystem(&there).await {
                    // Somebody else was let in.
                    Err(why) if why.is("changed") => continue,
                    Err(why) if why.is_not_found() => return Ok(()),
                    done => return Ok(done?),
                }
            }
            if off.is_empty() {
                return Ok(());
            }
            for nqn in off {
                self.api.deny(name, nqn).await?;
            }
        }
        Err(Status::aborted(format!("who has {name} changes again and again")))
    }

    /// Whoever was taken off a list has no connection any more.
    pub(super) async fn until_cut_off(&self) {
        if !self.cut_off.is_zero() {
            tokio::time::sleep(self.cut_off).await;
        }
    }
}

/// Where others had it, and have gone since: the list may have been empty in between, and its name would be one that was used.
pub(super) fn others_stayed(name: &str, (before, now): (usize, usize)) -> Result<(), String> {
    match before > 0 && now < 2 {
        false => Ok(()),
        true => Err(format!("who has {name} changes at present")),
    }
}

/// A volume of one node has no other.
fn only(wanted: &Use, subsystem: &Subsystem, nqn: &str) -> Result<(), String> {
    let other = subsystem.hosts.iter().find(|known| *known != nqn);
    match other.filter(|_| wanted.sharing == Sharing::Single) {
        None => Ok(()),
        Some(other) => {
            let node = id::host_of(other).map_or_else(|| other.clone(), |host| host.to_string());
            Err(format!("it is published to node {node}, and to one node at a time"))
        }
    }
}
