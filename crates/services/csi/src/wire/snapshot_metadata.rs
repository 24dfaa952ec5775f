//! The service `SnapshotMetadata`.

use super::messages;
use std::collections::BTreeMap;

messages! {
    BlockMetadata {
        #[prost(int64, tag = "1")] byte_offset: i64,
        #[prost(int64, tag = "2")] size_bytes: i64,
    }
    GetMetadataAllocatedRequest {
        #[prost(string, tag = "1")] snapshot_id: String,
        #[prost(int64, tag = "2")] starting_offset: i64,
        #[prost(int32, tag = "3")] max_results: i32,
        #[prost(btree_map = "string, string", tag = "4")] secrets: BTreeMap<String, String>,
    }
    GetMetadataAllocatedResponse {
        #[prost(enumeration = "BlockMetadataType", tag = "1")] block_metadata_type: i32,
        #[prost(int64, tag = "2")] volume_capacity_bytes: i64,
        #[prost(message, repeated, tag = "3")] block_metadata: Vec<BlockMetadata>,
    }
    GetMetadataDeltaRequest {
        #[prost(string, tag = "1")] base_snapshot_id: String,
        #[prost(string, tag = "2")] target_snapshot_id: String,
        #[prost(int64, tag = "3")] starting_offset: i64,
        #[prost(int32, tag = "4")] max_results: i32,
        #[prost(btree_map = "string, string", tag = "5")] secrets: BTreeMap<String, String>,
    }
    GetMetadataDeltaResponse {
        #[prost(enumeration = "BlockMetadataType", tag = "1")] block_metadata_type: i32,
        #[prost(int64, tag = "2")] volume_capacity_bytes: i64,
        #[prost(message, repeated, tag = "3")] block_metadata: Vec<BlockMetadata>,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum BlockMetadataType {
    Unknown = 0,
    FixedLength = 1,
    VariableLength = 2,
}
