//! The service `Identity`.

use super::messages;
use std::collections::BTreeMap;

messages! {
    GetPluginInfoRequest {}
    GetPluginInfoResponse {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "2")] vendor_version: String,
        #[prost(btree_map = "string, string", tag = "3")] manifest: BTreeMap<String, String>,
    }
    GetPluginCapabilitiesRequest {}
    GetPluginCapabilitiesResponse {
        #[prost(message, repeated, tag = "1")] capabilities: Vec<PluginCapability>,
    }
    PluginCapability {
        #[prost(oneof = "PluginCapabilityTypeOneOf", tags = "1, 2")] r#type: Option<PluginCapabilityTypeOneOf>,
    }
    PluginCapabilityService {
        #[prost(enumeration = "PluginCapabilityServiceType", tag = "1")] r#type: i32,
    }
    PluginCapabilityVolumeExpansion {
        #[prost(enumeration = "PluginCapabilityVolumeExpansionType", tag = "1")] r#type: i32,
    }
    ProbeRequest {}
    ProbeResponse {
        #[prost(message, optional, tag = "1")] ready: Option<bool>,
    }
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum PluginCapabilityTypeOneOf {
    #[prost(message, tag = "1")]
    Service(PluginCapabilityService),
    #[prost(message, tag = "2")]
    VolumeExpansion(PluginCapabilityVolumeExpansion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PluginCapabilityServiceType {
    Unknown = 0,
    ControllerService = 1,
    VolumeAccessibilityConstraints = 2,
    GroupControllerService = 3,
    SnapshotMetadataService = 4,
    SnapshotAccessibilityConstraints = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PluginCapabilityVolumeExpansionType {
    Unknown = 0,
    Online = 1,
    Offline = 2,
}
