//! The service `GroupController`.

use super::common::*;
use super::messages;
use std::collections::BTreeMap;

messages! {
    GroupControllerGetCapabilitiesRequest {}
    GroupControllerGetCapabilitiesResponse {
        #[prost(message, repeated, tag = "1")] capabilities: Vec<GroupControllerServiceCapability>,
    }
    GroupControllerServiceCapability {
        #[prost(oneof = "GroupControllerServiceCapabilityTypeOneOf", tags = "1")] r#type: Option<GroupControllerServiceCapabilityTypeOneOf>,
    }
    GroupControllerServiceCapabilityRPC {
        #[prost(enumeration = "GroupControllerServiceCapabilityRPCType", tag = "1")] r#type: i32,
    }
    CreateVolumeGroupSnapshotRequest {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, repeated, tag = "2")] source_volume_ids: Vec<String>,
        #[prost(btree_map = "string, string", tag = "3")] secrets: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "4")] parameters: BTreeMap<String, String>,
    }
    CreateVolumeGroupSnapshotResponse {
        #[prost(message, optional, tag = "1")] group_snapshot: Option<VolumeGroupSnapshot>,
    }
    VolumeGroupSnapshot {
        #[prost(string, tag = "1")] group_snapshot_id: String,
        #[prost(message, repeated, tag = "2")] snapshots: Vec<Snapshot>,
        #[prost(message, optional, tag = "3")] creation_time: Option<Timestamp>,
        #[prost(bool, tag = "4")] ready_to_use: bool,
    }
    DeleteVolumeGroupSnapshotRequest {
        #[prost(string, tag = "1")] group_snapshot_id: String,
        #[prost(string, repeated, tag = "2")] snapshot_ids: Vec<String>,
        #[prost(btree_map = "string, string", tag = "3")] secrets: BTreeMap<String, String>,
    }
    DeleteVolumeGroupSnapshotResponse {}
    GetVolumeGroupSnapshotRequest {
        #[prost(string, tag = "1")] group_snapshot_id: String,
        #[prost(string, repeated, tag = "2")] snapshot_ids: Vec<String>,
        #[prost(btree_map = "string, string", tag = "3")] secrets: BTreeMap<String, String>,
    }
    GetVolumeGroupSnapshotResponse {
        #[prost(message, optional, tag = "1")] group_snapshot: Option<VolumeGroupSnapshot>,
    }
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum GroupControllerServiceCapabilityTypeOneOf {
    #[prost(message, tag = "1")]
    Rpc(GroupControllerServiceCapabilityRPC),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum GroupControllerServiceCapabilityRPCType {
    Unknown = 0,
    CreateDeleteGetVolumeGroupSnapshot = 1,
}
