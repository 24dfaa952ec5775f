//! NetworkFence of CSI-Addons: all volumes are taken from a host at once, and none is published to it until it is let in again.
//!
//! Who is fenced stands in a list of hosts of its own. A host is put there first: publishing looks there after it has let a host in, so that of the two
//! one sees the other.

use super::Controller;
use super::publish::FENCED;
use crate::api::NewSubsystem;
use crate::grpc::unary;
use crate::id;
use crate::protocol::NodeId;
use crate::wire::addons as wire;
use http::{Request, Response};
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;

/// Subsystems that the driver makes.
const OWN: &str = "csi-";

/// The hosts of a request.
fn hosts(cidrs: &[wire::Cidr]) -> Result<Vec<String>, Status> {
    if cidrs.is_empty() {
        return Err(Status::invalid_argument("there is nobody to fence"));
    }
    let read = |found: &wire::Cidr| {
        let host = id::host_of_cidr(&found.cidr).map(id::host_nqn);
        host.ok_or_else(|| {
            Status::invalid_argument(format!(
                "{} is no host: write the node's id (`kubectl get csinode`), which has 32 digits, as an IPv6 address of eight groups with /128 \
                 behind it",
                found.cidr
            ))
        })
    };
    cidrs.iter().map(read).collect()
}

impl Controller {
    pub(crate) async fn route_fence(self, method: &str, request: Request<Incoming>) -> Option<Response<Body>> {
        Some(match method {
            "FenceClusterNetwork" => unary(request, |q: wire::FenceClusterNetworkRequest| self.fence(q)).await,
            "UnfenceClusterNetwork" => unary(request, |q: wire::UnfenceClusterNetworkRequest| self.unfence(q)).await,
            "ListClusterFence" => unary(request, |_: wire::ListClusterFenceRequest| self.fenced()).await,
            _ => return None,
        })
    }

    pub(super) async fn fence(
        self,
        request: wire::FenceClusterNetworkRequest,
    ) -> Result<wire::FenceClusterNetworkResponse, Status> {
        let hosts = hosts(&request.cidrs)?;
        let _hold = self.hold("the list of fenced hosts")?;
        if self.api.subsystem(FENCED).await?.is_none() {
            let list = NewSubsystem {
                name: FENCED,
                ..NewSubsystem::default()
            };
            match self.api.create_subsystem(&list).await {
                Err(why) if !why.is("exists") => return Err(why.into()),
                _ => {}
            }
        }
        for nqn in &hosts {
            self.api.add_host(nqn).await?;
            self.api.allow(FENCED, nqn).await?;
        }
        let all = self.api.subsystems().await?.into_iter();
        let own = all.filter(|found| found.name.starts_with(OWN) && found.name != FENCED);
        // One that lets nobody in is what a call before this one has left.
        for subsystem in own.filter(|found| found.hosts.is_empty() || found.hosts.iter().any(|nqn| hosts.contains(nqn)))
        {
            log::info!("{} is taken from who is fenced", subsystem.name);
            self.take_off(&subsystem.name, |known| hosts.iter().any(|nqn| nqn == known))
                .await?;
        }
        let is_meant = |host| hosts.contains(&id::host_nqn(host));
        for target in self
            .api
            .targets()
            .await?
            .into_iter()
            .filter(|found| found.name.starts_with(OWN))
        {
            let mut nodes = target
                .initiators
                .iter()
                .filter_map(|access| NodeId::of_initiator(&access.initiator));
            if target.initiators.is_empty() || nodes.any(|node| is_meant(node.host)) {
                log::info!("{} is taken from who is fenced", target.name);
                self.take_off_target(&target.name, |known| known.is_some_and(is_meant))
                    .await?;
            }
        }
        self.until_cut_off().await;
        Ok(wire::FenceClusterNetworkResponse {})
    }

    pub(super) async fn unfence(
        self,
        request: wire::UnfenceClusterNetworkRequest,
    ) -> Result<wire::UnfenceClusterNetworkResponse, Status> {
        let hosts = hosts(&request.cidrs)?;
        let _hold = self.hold("the list of fenced hosts")?;
        for nqn in &hosts {
            self.api.deny(FENCED, nqn).await?;
        }
        Ok(wire::UnfenceClusterNetworkResponse {})
    }

    pub(super) async fn fenced(self) -> Result<wire::ListClusterFenceResponse, Status> {
        let found = self.api.subsystem(FENCED).await?;
        let hosts = found.map(|found| found.thing.hosts).unwrap_or_default();
        let cidrs = hosts.iter().filter_map(|nqn| id::host_of(nqn)).map(|host| wire::Cidr {
            cidr: id::host_cidr(host),
        });
        Ok(wire::ListClusterFenceResponse { cidrs: cidrs.collect() })
    }
}
