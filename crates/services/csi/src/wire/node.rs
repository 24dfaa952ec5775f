//! The service `Node`.

use super::common::*;
use super::messages;
use std::collections::BTreeMap;

messages! {
    NodeStageVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(btree_map = "string, string", tag = "2")] publish_context: BTreeMap<String, String>,
        #[prost(string, tag = "3")] staging_target_path: String,
        #[prost(message, optional, tag = "4")] volume_capability: Option<VolumeCapability>,
        #[prost(btree_map = "string, string", tag = "5")] secrets: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "6")] volume_context: BTreeMap<String, String>,
    }
    NodeStageVolumeResponse {}
    NodeUnstageVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(string, tag = "2")] staging_target_path: String,
    }
    NodeUnstageVolumeResponse {}
    NodePublishVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(btree_map = "string, string", tag = "2")] publish_context: BTreeMap<String, String>,
        #[prost(string, tag = "3")] staging_target_path: String,
        #[prost(string, tag = "4")] target_path: String,
        #[prost(message, optional, tag = "5")] volume_capability: Option<VolumeCapability>,
        #[prost(bool, tag = "6")] readonly: bool,
        #[prost(btree_map = "string, string", tag = "7")] secrets: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "8")] volume_context: BTreeMap<String, String>,
    }
    NodePublishVolumeResponse {}
    NodeUnpublishVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(string, tag = "2")] target_path: String,
    }
    NodeUnpublishVolumeResponse {}
    NodeGetVolumeStatsRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(string, tag = "2")] volume_path: String,
        #[prost(string, tag = "3")] staging_target_path: String,
    }
    NodeGetVolumeStatsResponse {
        #[prost(message, repeated, tag = "1")] usage: Vec<VolumeUsage>,
    }
    VolumeUsage {
        #[prost(int64, tag = "1")] available: i64,
        #[prost(int64, tag = "2")] total: i64,
        #[prost(int64, tag = "3")] used: i64,
        #[prost(enumeration = "VolumeUsageUnit", tag = "4")] unit: i32,
    }
    NodeGetVolumeHealthRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(string, tag = "2")] volume_publish_path: String,
        #[prost(string, tag = "3")] staging_target_path: String,
    }
    NodeGetVolumeHealthResponse {
        #[prost(message, optional, tag = "1")] volume_health: Option<VolumeHealth>,
    }
    NodeGetStorageHealthRequest {
        #[prost(btree_map = "string, string", tag = "1")] secrets: BTreeMap<String, String>,
    }
    NodeGetStorageHealthResponse {
        #[prost(message, repeated, tag = "1")] backend_health: Vec<NodeGetStorageHealthResponseStorageBackendHealth>,
    }
    NodeGetStorageHealthResponseStorageBackendHealth {
        #[prost(enumeration = "StorageHealthErrorType", tag = "1")] status: i32,
        #[prost(string, tag = "2")] reason: String,
        #[prost(string, tag = "3")] message: String,
        #[prost(message, optional, tag = "4")] volume_capability: Option<VolumeCapability>,
    }
    NodeGetCapabilitiesRequest {}
    NodeGetCapabilitiesResponse {
        #[prost(message, repeated, tag = "1")] capabilities: Vec<NodeServiceCapability>,
    }
    NodeServiceCapability {
        #[prost(oneof = "NodeServiceCapabilityTypeOneOf", tags = "1")] r#type: Option<NodeServiceCapabilityTypeOneOf>,
    }
    NodeServiceCapabilityRPC {
        #[prost(enumeration = "NodeServiceCapabilityRPCType", tag = "1")] r#type: i32,
    }
    NodeGetInfoRequest {}
    NodeGetInfoResponse {
        #[prost(string, tag = "1")] node_id: String,
        #[prost(int64, tag = "2")] max_volumes_per_node: i64,
        #[prost(message, optional, tag = "3")] accessible_topology: Option<Topology>,
    }
    NodeExpandVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(string, tag = "2")] volume_path: String,
        #[prost(message, optional, tag = "3")] capacity_range: Option<CapacityRange>,
        #[prost(string, tag = "4")] staging_target_path: String,
        #[prost(message, optional, tag = "5")] volume_capability: Option<VolumeCapability>,
        #[prost(btree_map = "string, string", tag = "6")] secrets: BTreeMap<String, String>,
    }
    NodeExpandVolumeResponse {
        #[prost(int64, tag = "1")] capacity_bytes: i64,
    }
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum NodeServiceCapabilityTypeOneOf {
    #[prost(message, tag = "1")]
    Rpc(NodeServiceCapabilityRPC),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum StorageHealthErrorType {
    UnknownStorageHealthErrorType = 0,
    StorageDegraded = 1,
    StorageUnreachable = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum VolumeUsageUnit {
    Unknown = 0,
    Bytes = 1,
    Inodes = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum NodeServiceCapabilityRPCType {
    Unknown = 0,
    StageUnstageVolume = 1,
    GetVolumeStats = 2,
    ExpandVolume = 3,
    SingleNodeMultiWriter = 5,
    VolumeMountGroup = 6,
    GetVolumeHealth = 7,
    GetStorageHealth = 8,
}
