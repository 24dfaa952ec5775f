//! Who the driver is, and what it can: `Identity` of CSI and of CSI-Addons.

use crate::Driver;
use crate::wire::addons::{Capability, CapabilityKind, GetCapabilitiesResponse, GetIdentityResponse, Offered};
use crate::wire::identity::{
    GetPluginCapabilitiesResponse, GetPluginInfoResponse, PluginCapability, PluginCapabilityService,
    PluginCapabilityServiceType as Service, PluginCapabilityTypeOneOf as Kind, PluginCapabilityVolumeExpansion,
    PluginCapabilityVolumeExpansionType as Expansion, ProbeResponse,
};
use std::collections::BTreeMap;

/// Which part of the driver this is.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The controller.
    Controller,
    /// The node.
    Node,
}

/// The driver, as one of its parts says it.
#[derive(Clone)]
pub struct Identity {
    driver: Driver,
    part: Part,
    has_places: bool,
}

impl Identity {
    /// Of a part.
    #[must_use]
    pub fn new(driver: Driver, part: Part) -> Identity {
        Identity {
            driver,
            part,
            has_places: false,
        }
    }

    /// The same, that places are told of, and asked for.
    #[must_use]
    pub fn with_places(self) -> Identity {
        Identity {
            has_places: true,
            ..self
        }
    }

    pub(crate) fn info(&self) -> GetPluginInfoResponse {
        GetPluginInfoResponse {
            name: self.driver.name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: BTreeMap::new(),
        }
    }

    pub(crate) fn capabilities(&self) -> GetPluginCapabilitiesResponse {
        let service = |kind: Service| Kind::Service(PluginCapabilityService { r#type: kind as i32 });
        let expansion =
            |kind: Expansion| Kind::VolumeExpansion(PluginCapabilityVolumeExpansion { r#type: kind as i32 });
        let mut all = vec![
            service(Service::ControllerService),
            service(Service::GroupControllerService),
            service(Service::SnapshotMetadataService),
            expansion(Expansion::Online),
        ];
        // A provisioner that is told of places makes nothing for a node that reports none.
        if self.has_places {
            all.push(service(Service::VolumeAccessibilityConstraints));
        }
        let capabilities = all.into_iter().map(|kind| PluginCapability { r#type: Some(kind) });
        GetPluginCapabilitiesResponse {
            capabilities: capabilities.collect(),
        }
    }

    /// It is there, and takes calls. Whether the cluster is, is no part of that: whoever is not ready is ended and started anew for it (livenessprobe), for all the
    /// time that nodes are away, and what it has begun is cut. Calls say that they are `UNAVAILABLE`, and are sent again.
    pub(crate) fn probe() -> ProbeResponse {
        ProbeResponse { ready: Some(true) }
    }

    pub(crate) fn addons_info(&self) -> GetIdentityResponse {
        let GetPluginInfoResponse {
            name,
            vendor_version,
            manifest,
        } = self.info();
        GetIdentityResponse {
            name,
            vendor_version,
            manifest,
        }
    }

    pub(crate) fn addons_capabilities(&self) -> GetCapabilitiesResponse {
        let offered = |kind| Offered { kind };
        let all = match self.part {
            Part::Controller => vec![
                CapabilityKind::Service(offered(1)),
                CapabilityKind::NetworkFence(offered(1)),
            ],
            Part::Node => vec![
                CapabilityKind::Service(offered(2)),
                CapabilityKind::ReclaimSpace(offered(2)),
            ],
        };
        let capabilities = all.into_iter().map(|kind| Capability { kind: Some(kind) });
        GetCapabilitiesResponse {
            capabilities: capabilities.collect(),
        }
    }
}
