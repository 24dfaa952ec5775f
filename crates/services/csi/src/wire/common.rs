//! What requests of several services have in common.

use super::messages;
use std::collections::BTreeMap;

messages! {
    VolumeContentSource {
        #[prost(oneof = "VolumeContentSourceTypeOneOf", tags = "1, 2")] r#type: Option<VolumeContentSourceTypeOneOf>,
    }
    VolumeContentSourceSnapshotSource {
        #[prost(string, tag = "1")] snapshot_id: String,
    }
    VolumeContentSourceVolumeSource {
        #[prost(string, tag = "1")] volume_id: String,
    }
    VolumeCapability {
        #[prost(message, optional, tag = "3")] access_mode: Option<VolumeCapabilityAccessMode>,
        #[prost(oneof = "VolumeCapabilityAccessTypeOneOf", tags = "1, 2")] access_type: Option<VolumeCapabilityAccessTypeOneOf>,
    }
    VolumeCapabilityBlockVolume {}
    VolumeCapabilityMountVolume {
        #[prost(string, tag = "1")] fs_type: String,
        #[prost(string, repeated, tag = "2")] mount_flags: Vec<String>,
        #[prost(string, tag = "3")] volume_mount_group: String,
    }
    VolumeCapabilityAccessMode {
        #[prost(enumeration = "VolumeCapabilityAccessModeMode", tag = "1")] mode: i32,
    }
    CapacityRange {
        #[prost(int64, tag = "1")] required_bytes: i64,
        #[prost(int64, tag = "2")] limit_bytes: i64,
    }
    Volume {
        #[prost(int64, tag = "1")] capacity_bytes: i64,
        #[prost(string, tag = "2")] volume_id: String,
        #[prost(btree_map = "string, string", tag = "3")] volume_context: BTreeMap<String, String>,
        #[prost(message, optional, tag = "4")] content_source: Option<VolumeContentSource>,
        #[prost(message, repeated, tag = "5")] accessible_topology: Vec<Topology>,
    }
    TopologyRequirement {
        #[prost(message, repeated, tag = "1")] requisite: Vec<Topology>,
        #[prost(message, repeated, tag = "2")] preferred: Vec<Topology>,
    }
    Topology {
        #[prost(btree_map = "string, string", tag = "1")] segments: BTreeMap<String, String>,
    }
    VolumeHealth {
        #[prost(string, tag = "1")] volume_id: String,
        #[prost(message, repeated, tag = "2")] health_statuses: Vec<VolumeHealthVolumeHealthEntry>,
    }
    VolumeHealthVolumeHealthEntry {
        #[prost(enumeration = "VolumeHealthErrorType", tag = "1")] status: i32,
        #[prost(string, tag = "2")] reason: String,
        #[prost(string, tag = "3")] message: String,
    }
    Snapshot {
        #[prost(int64, tag = "1")] size_bytes: i64,
        #[prost(string, tag = "2")] snapshot_id: String,
        #[prost(string, tag = "3")] source_volume_id: String,
        #[prost(message, optional, tag = "4")] creation_time: Option<Timestamp>,
        #[prost(bool, tag = "5")] ready_to_use: bool,
        #[prost(string, tag = "6")] group_snapshot_id: String,
        #[prost(message, repeated, tag = "7")] accessible_topology: Vec<Topology>,
    }
    Timestamp {
        #[prost(int64, tag = "1")] seconds: i64,
        #[prost(int32, tag = "2")] nanos: i32,
    }
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum VolumeContentSourceTypeOneOf {
    #[prost(message, tag = "1")]
    Snapshot(VolumeContentSourceSnapshotSource),
    #[prost(message, tag = "2")]
    Volume(VolumeContentSourceVolumeSource),
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum VolumeCapabilityAccessTypeOneOf {
    #[prost(message, tag = "1")]
    Block(VolumeCapabilityBlockVolume),
    #[prost(message, tag = "2")]
    Mount(VolumeCapabilityMountVolume),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum VolumeHealthErrorType {
    UnknownVolumeHealthType = 0,
    Degraded = 1,
    Inaccessible = 2,
    DataLoss = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum VolumeCapabilityAccessModeMode {
    Unknown = 0,
    SingleNodeWriter = 1,
    SingleNodeReaderOnly = 2,
    MultiNodeReaderOnly = 3,
    MultiNodeSingleWriter = 4,
    MultiNodeMultiWriter = 5,
    SingleNodeSingleWriter = 6,
    SingleNodeMultiWriter = 7,
}
