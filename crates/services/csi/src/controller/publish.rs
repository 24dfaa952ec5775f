//! ControllerPublishVolume and ControllerUnpublishVolume: which hosts a volume's subsystem lets in. No host is asked.

use super::{Controller, Found, may_be_used, missing};
use crate::api::{Attachment, Gateway, Subsystem, Trouble};
use crate::capability::{self, Sharing, Use};
use crate::id::{self, VolumeId};
use crate::labels;
use crate::parameters::Serving;
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
    /// Where, as ADDRESS:PORT separated by commas: the owner first, and last those that were away.
    pub const PORTALS: &str = "portals";
    /// Present: the node reserves the volume for itself.
    pub const EXCLUSIVE: &str = "exclusive";
    /// The key of a host that has it reserved and is not to have it any more.
    pub const PREEMPT: &str = "preempt";
}

/// Hosts that nothing is published to: a subsystem without namespaces.
pub(crate) const FENCED: &str = "csi-fenced";

fn portal(gateway: &Gateway) -> String {
    let Gateway { traddr, trsvcid, .. } = gateway;
    match traddr.contains(':') {
        true => format!("[{traddr}]:{trsvcid}"),
        false => format!("{traddr}:{trsvcid}"),
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
        let host = id::node(&request.node_id).ok_or_else(none)?;
        may_be_used(found.volume(), &wanted).map_err(Status::failed_precondition)?;
        self.let_in(&found, host, &wanted, &serving).await?;
        let publish_context = self.told(&found, host, &wanted, &serving).await?;
        Ok(ControllerPublishVolumeResponse { publish_context })
    }

    /// What of a volume hosts have: itself, or what it is sealed as.
    fn served(found: &Found) -> String {
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

    async fn not_fenced(&self, host: Uuid) -> Result<(), Status> {
        match self.is_fenced(host).await? {
            false => Ok(()),
            true => Err(Status::failed_precondition(format!("node {host} is fenced"))),
        }
    }

    async fn let_in(&self, found: &Found, host: Uuid, wanted: &Use, serving: &Serving) -> Result<(), Status> {
        let nqn = id::host_nqn(host);
        let name = found.id.subsystem(self.driver());
        self.not_fenced(host).await?;
        let subsystem = self.served_by(found, &name, serving).await?;
        only(wanted, &subsystem, &nqn).map_err(Status::failed_precondition)?;
        if subsystem.hosts.contains(&nqn) {
            return Ok(());
        }
        self.api.add_host(&nqn).await?;
        let now = self.api.allow(&name, &nqn).await.map_err(crossed)?;
        // Of two that came at one time each may have found nobody; and it may have been fenced since.
        let alone = only(wanted, &now, &nqn).map_err(Status::aborted);
        let stays = match alone {
            Ok(()) => self.not_fenced(host).await,
            not => not,
        };
        if let Err(why) = stays {
            self.api.deny(&name, &nqn).await?;
            return Err(why);
        }
        Ok(())
    }

    /// The volume's subsystem, with the volume in it.
    async fn served_by(&self, found: &Found, name: &str, serving: &Serving) -> Result<Subsystem, Status> {
        let subsystem = match self.api.subsystem(name).await? {
            Some(there) => {
                if there.thing.hosts.is_empty() {
                    // Somebody was taken off it, by a call that was cut before it had waited.
                    self.until_cut_off().await;
                }
                there.thing
            }
            None => {
                let made = self.api.create_subsystem(name, &serving.gateways, serving.tls_required);
                made.await.map_err(crossed)?
            }
        };
        if subsystem.namespaces == 0 {
            let of = Self::served(found);
            self.api
                .add_namespace(name, &of, serving.block_bytes)
                .await
                .map_err(crossed)?;
        }
        Ok(subsystem)
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
        let portals: Vec<String> = alive.into_iter().chain(away).map(portal).collect();
        let mut told = BTreeMap::from([
            (context::NQN.to_owned(), nqn),
            (context::UUID.to_owned(), uuid),
            (context::PORTALS.to_owned(), portals.join(",")),
        ]);
        if wanted.sharing == Sharing::Single && serving.reserved && !labels::is_read_only(found.volume()) {
            told.insert(context::EXCLUSIVE.to_owned(), "1".to_owned());
            let reservation = self.api.reservation(found.name()).await?;
            let own = host.to_string();
            // Nobody else is let in: who holds it is one that was, and goes on with what it has not heard of.
            let other = reservation
                .registrants
                .into_iter()
                .find(|other| other.holder && other.host_id != own);
            if let Some(other) = other {
                told.insert(context::PREEMPT.to_owned(), other.key);
            }
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
            node => match id::node(node) {
                Some(host) => Some(id::host_nqn(host)),
                None => return Ok(done),
            },
        };
        let _hold = self.hold_volume(&volume)?;
        self.keep_out(&volume.subsystem(self.driver()), host.as_deref()).await?;
        Ok(done)
    }

    /// Takes a host, or all, off a list, and the list away when it is empty.
    async fn keep_out(&self, name: &str, host: Option<&str>) -> Result<(), Status> {
        let Some(there) = self.api.subsystem(name).await? else {
            return Ok(());
        };
        let meant = |known: &&String| host.is_none_or(|host| host == **known);
        for nqn in there.thing.hosts.iter().filter(meant) {
            self.api.deny(name, nqn).await?;
        }
        // Also where a call before this one has taken it off, and was cut.
        self.until_cut_off().await;
        self.end_if_empty(name).await
    }

    /// Whoever was taken off a list has no connection any more.
    pub(super) async fn until_cut_off(&self) {
        tokio::time::sleep(self.cut_off).await;
    }

    /// A subsystem that lets nobody in goes.
    pub(super) async fn end_if_empty(&self, name: &str) -> Result<(), Status> {
        let left = self.api.subsystem(name).await?;
        let Some(left) = left.filter(|left| left.thing.hosts.is_empty()) else {
            return Ok(());
        };
        match self.api.delete_subsystem(&left).await {
            // Somebody else was let in, or has done it.
            Err(why) if why.is("changed") || why.is_not_found() => Ok(()),
            done => Ok(done?),
        }
    }
}

/// Another controller makes the same, or takes it away: it is looked at anew.
fn crossed(why: Trouble) -> Status {
    match why.is("exists") || why.is_not_found() {
        true => Status::aborted(why.to_string()),
        false => why.into(),
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
