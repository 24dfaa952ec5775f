//! The service `Controller`.

use super::common::*;
use super::messages;
use std::collections::BTreeMap;

messages! {
    CreateVolumeRequest {
        #[prost(string, tag = "1")] name: String,
        #[prost(message, optional, tag = "2")] capacity_range: Option<CapacityRange>,
        #[prost(message, repeated, tag = "3")] volume_capabilities: Vec<VolumeCapability>,
        #[prost(btree_map = "string, string", tag = "4")] parameters: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "5")] secrets: BTreeMap<String, String>,
        #[prost(message, optional, tag = "6")] volume_content_source: Option<VolumeContentSource>,
        #[prost(message, optional, tag = "7")] accessibility_requirements: Option<TopologyRequirement>,
        #[prost(btree_map = "string, string", tag = "8")] mutable_parameters: BTreeMap<String, String>,
    }
    CreateVolumeResponse {
        #[prost(message, optional, tag = "1")] volume: Option<Volume>,
    }
    DeleteVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(btree_map = "string, string", tag = "2")] secrets: BTreeMap<String, String>,
    }
    DeleteVolumeResponse {}
    ControllerPublishVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(string, tag = "2")] node_id: String,
        #[prost(message, optional, tag = "3")] volume_capability: Option<VolumeCapability>,
        #[prost(bool, tag = "4")] readonly: bool,
        #[prost(btree_map = "string, string", tag = "5")] secrets: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "6")] volume_context: BTreeMap<String, String>,
    }
    ControllerPublishVolumeResponse {
        #[prost(btree_map = "string, string", tag = "1")] publish_context: BTreeMap<String, String>,
    }
    ControllerUnpublishVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(string, tag = "2")] node_id: String,
        #[prost(btree_map = "string, string", tag = "3")] secrets: BTreeMap<String, String>,
    }
    ControllerUnpublishVolumeResponse {}
    ValidateVolumeCapabilitiesRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(btree_map = "string, string", tag = "2")] volume_context: BTreeMap<String, String>,
        #[prost(message, repeated, tag = "3")] volume_capabilities: Vec<VolumeCapability>,
        #[prost(btree_map = "string, string", tag = "4")] parameters: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "5")] secrets: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "6")] mutable_parameters: BTreeMap<String, String>,
    }
    ValidateVolumeCapabilitiesResponse {
        #[prost(message, optional, tag = "1")] confirmed: Option<ValidateVolumeCapabilitiesResponseConfirmed>,
        #[prost(string, tag = "2")] message: String,
    }
    ValidateVolumeCapabilitiesResponseConfirmed {
        #[prost(btree_map = "string, string", tag = "1")] volume_context: BTreeMap<String, String>,
        #[prost(message, repeated, tag = "2")] volume_capabilities: Vec<VolumeCapability>,
        #[prost(btree_map = "string, string", tag = "3")] parameters: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "4")] mutable_parameters: BTreeMap<String, String>,
    }
    ListVolumesRequest {
        #[prost(int32, tag = "1")] max_entries: i32,
        #[prost(string, tag = "2")] starting_token: String,
    }
    ListVolumesResponse {
        #[prost(message, repeated, tag = "1")] entries: Vec<ListVolumesResponseEntry>,
        #[prost(string, tag = "2")] next_token: String,
    }
    ListVolumesResponseVolumeStatus {
        #[prost(string, repeated, tag = "1")] published_node_ids: Vec<String>,
    }
    ListVolumesResponseEntry {
        #[prost(message, optional, tag = "1")] volume: Option<Volume>,
        #[prost(message, optional, tag = "2")] status: Option<ListVolumesResponseVolumeStatus>,
    }
    ControllerListVolumeHealthRequest {
        #[prost(int32, tag = "1")] max_entries: i32,
        #[prost(string, tag = "2")] starting_token: String,
        #[prost(btree_map = "string, string", tag = "3")] secrets: BTreeMap<String, String>,
    }
    ControllerListVolumeHealthResponse {
        #[prost(message, repeated, tag = "1")] entries: Vec<VolumeHealth>,
        #[prost(string, tag = "2")] next_token: String,
    }
    ControllerGetVolumeHealthRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(btree_map = "string, string", tag = "2")] secrets: BTreeMap<String, String>,
    }
    ControllerGetVolumeHealthResponse {
        #[prost(message, optional, tag = "1")] volume_health: Option<VolumeHealth>,
    }
    ControllerGetVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
    }
    ControllerGetVolumeResponse {
        #[prost(message, optional, tag = "1")] volume: Option<Volume>,
        #[prost(message, optional, tag = "2")] status: Option<ControllerGetVolumeResponseVolumeStatus>,
    }
    ControllerGetVolumeResponseVolumeStatus {
        #[prost(string, repeated, tag = "1")] published_node_ids: Vec<String>,
    }
    ControllerModifyVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(btree_map = "string, string", tag = "2")] secrets: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "3")] mutable_parameters: BTreeMap<String, String>,
    }
    ControllerModifyVolumeResponse {}
    GetCapacityRequest {
        #[prost(message, repeated, tag = "1")] volume_capabilities: Vec<VolumeCapability>,
        #[prost(btree_map = "string, string", tag = "2")] parameters: BTreeMap<String, String>,
        #[prost(message, optional, tag = "3")] accessible_topology: Option<Topology>,
    }
    GetCapacityResponse {
        #[prost(int64, tag = "1")] available_capacity: i64,
        #[prost(message, optional, tag = "2")] maximum_volume_size: Option<i64>,
        #[prost(message, optional, tag = "3")] minimum_volume_size: Option<i64>,
    }
    ControllerGetCapabilitiesRequest {}
    ControllerGetCapabilitiesResponse {
        #[prost(message, repeated, tag = "1")] capabilities: Vec<ControllerServiceCapability>,
    }
    ControllerServiceCapability {
        #[prost(oneof = "ControllerServiceCapabilityTypeOneOf", tags = "1")] r#type: Option<ControllerServiceCapabilityTypeOneOf>,
    }
    ControllerServiceCapabilityRPC {
        #[prost(enumeration = "ControllerServiceCapabilityRPCType", tag = "1")] r#type: i32,
    }
    CreateSnapshotRequest {
        #[prost(string, tag = "1")] source_volume_id: String,
        #[prost(string, tag = "2")] name: String,
        #[prost(btree_map = "string, string", tag = "3")] secrets: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "4")] parameters: BTreeMap<String, String>,
        #[prost(message, optional, tag = "5")] accessibility_requirements: Option<TopologyRequirement>,
    }
    CreateSnapshotResponse {
        #[prost(message, optional, tag = "1")] snapshot: Option<Snapshot>,
    }
    DeleteSnapshotRequest {
        #[prost(string, tag = "1")] snapshot_id: String,
        #[prost(btree_map = "string, string", tag = "2")] secrets: BTreeMap<String, String>,
    }
    DeleteSnapshotResponse {}
    ListSnapshotsRequest {
        #[prost(int32, tag = "1")] max_entries: i32,
        #[prost(string, tag = "2")] starting_token: String,
        #[prost(string, tag = "3")] source_volume_id: String,
        #[prost(string, tag = "4")] snapshot_id: String,
        #[prost(btree_map = "string, string", tag = "5")] secrets: BTreeMap<String, String>,
    }
    ListSnapshotsResponse {
        #[prost(message, repeated, tag = "1")] entries: Vec<ListSnapshotsResponseEntry>,
        #[prost(string, tag = "2")] next_token: String,
    }
    ListSnapshotsResponseEntry {
        #[prost(message, optional, tag = "1")] snapshot: Option<Snapshot>,
    }
    GetSnapshotRequest {
        #[prost(string, tag = "1")] snapshot_id: String,
        #[prost(btree_map = "string, string", tag = "2")] secrets: BTreeMap<String, String>,
    }
    GetSnapshotResponse {
        #[prost(message, optional, tag = "1")] snapshot: Option<Snapshot>,
    }
    ControllerExpandVolumeRequest {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(message, optional, tag = "2")] capacity_range: Option<CapacityRange>,
        #[prost(btree_map = "string, string", tag = "3")] secrets: BTreeMap<String, String>,
        #[prost(message, optional, tag = "4")] volume_capability: Option<VolumeCapability>,
    }
    ControllerExpandVolumeResponse {
        #[prost(int64, tag = "1")] capacity_bytes: i64,
        #[prost(bool, tag = "2")] node_expansion_required: bool,
    }
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ControllerServiceCapabilityTypeOneOf {
    #[prost(message, tag = "1")]
    Rpc(ControllerServiceCapabilityRPC),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ControllerServiceCapabilityRPCType {
    Unknown = 0,
    CreateDeleteVolume = 1,
    PublishUnpublishVolume = 2,
    ListVolumes = 3,
    GetCapacity = 4,
    CreateDeleteSnapshot = 5,
    ListSnapshots = 6,
    CloneVolume = 7,
    PublishReadonly = 8,
    ExpandVolume = 9,
    ListVolumesPublishedNodes = 10,
    GetVolume = 12,
    SingleNodeMultiWriter = 13,
    ModifyVolume = 14,
    GetSnapshot = 15,
    GetVolumeHealth = 16,
    ListVolumeHealth = 17,
}
