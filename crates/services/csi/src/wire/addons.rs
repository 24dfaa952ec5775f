//! CSI-Addons (`github.com/csi-addons/spec`, Apache-2.0): fencing, reclaiming of space, and who offers that; written out by hand.

use super::common::VolumeCapability;
use super::messages;
use std::collections::BTreeMap;

messages! {
    Cidr {
        #[prost(string, tag = "1")] cidr: String,
    }
    FenceClusterNetworkRequest {
        #[prost(btree_map = "string, string", tag = "1")] parameters: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "2")] secrets: BTreeMap<String, String>,
        #[prost(message, repeated, tag = "3")] cidrs: Vec<Cidr>,
    }
    FenceClusterNetworkResponse {}
    UnfenceClusterNetworkRequest {
        #[prost(btree_map = "string, string", tag = "1")] parameters: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "2")] secrets: BTreeMap<String, String>,
        #[prost(message, repeated, tag = "3")] cidrs: Vec<Cidr>,
    }
    UnfenceClusterNetworkResponse {}
    ListClusterFenceRequest {
        #[prost(btree_map = "string, string", tag = "1")] parameters: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "2")] secrets: BTreeMap<String, String>,
    }
    ListClusterFenceResponse {
        #[prost(message, repeated, tag = "1")] cidrs: Vec<Cidr>,
    }
    StorageConsumption {
        #[prost(int64, tag = "1")] usage_bytes: i64,
    }
    NodeReclaimSpaceRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(string, tag = "2")] volume_path: String,
        #[prost(string, tag = "3")] staging_target_path: String,
        #[prost(message, optional, tag = "4")] volume_capability: Option<VolumeCapability>,
        #[prost(btree_map = "string, string", tag = "5")] secrets: BTreeMap<String, String>,
    }
    NodeReclaimSpaceResponse {
        #[prost(message, optional, tag = "1")] pre_usage: Option<StorageConsumption>,
        #[prost(message, optional, tag = "2")] post_usage: Option<StorageConsumption>,
    }
    GetIdentityRequest {}
    GetIdentityResponse {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "2")] vendor_version: String,
        #[prost(btree_map = "string, string", tag = "3")] manifest: BTreeMap<String, String>,
    }
    GetCapabilitiesRequest {}
    GetCapabilitiesResponse {
        #[prost(message, repeated, tag = "1")] capabilities: Vec<Capability>,
    }
    Capability {
        #[prost(oneof = "CapabilityKind", tags = "1, 2, 3")] kind: Option<CapabilityKind>,
    }
    Offered {
        #[prost(int32, tag = "1")] kind: i32,
    }
}

/// `Capability.type`; each of them has a number of its own kinds.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum CapabilityKind {
    /// 1: of the controller, 2: of the node.
    #[prost(message, tag = "1")]
    Service(Offered),
    /// 1: offline, 2: online.
    #[prost(message, tag = "2")]
    ReclaimSpace(Offered),
    /// 1: fencing.
    #[prost(message, tag = "3")]
    NetworkFence(Offered),
}
