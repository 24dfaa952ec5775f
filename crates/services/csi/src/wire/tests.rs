//! Messages as the Go package of the specification (1.13.0) writes them. It puts what is one of several behind the rest, so that bytes are read here, and
//! not compared.

use super::common::*;
use super::controller::*;
use super::identity::ProbeResponse;
use super::node::NodeStageVolumeRequest;
use super::snapshot_metadata::*;
use prost::Message;
use std::collections::BTreeMap;
use std::fmt::Debug;

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn is_read<M: Message + Default + PartialEq + Debug>(hex: &str, wanted: &M) {
    let read = M::decode(bytes(hex).as_slice()).expect("a message");
    assert_eq!(read, *wanted);
    assert_eq!(M::decode(wanted.encode_to_vec().as_slice()).expect("a message"), read);
    assert_eq!(wanted.encoded_len(), hex.len() / 2);
}

fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_volume_is_wanted() {
    let capability = VolumeCapability {
        access_mode: Some(VolumeCapabilityAccessMode {
            mode: VolumeCapabilityAccessModeMode::SingleNodeMultiWriter as i32,
        }),
        access_type: Some(VolumeCapabilityAccessTypeOneOf::Mount(VolumeCapabilityMountVolume {
            fs_type: "xfs".to_owned(),
            mount_flags: vec!["noatime".to_owned()],
            volume_mount_group: String::new(),
        })),
    };
    let source = VolumeContentSourceSnapshotSource {
        snapshot_id: "7:a@s".to_owned(),
    };
    let wanted = CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 1 << 30,
            limit_bytes: 1 << 31,
        }),
        volume_capabilities: vec![capability],
        parameters: of(&[("a", "b"), ("pool", "p")]),
        volume_content_source: Some(VolumeContentSource {
            r#type: Some(VolumeContentSourceTypeOneOf::Snapshot(source)),
        }),
        mutable_parameters: of(&[("iops", "9")]),
        ..Default::default()
    };
    is_read(
        "0a057076632d31120c0880808080041080808080081a141a020807120e0a0378667312076e6f6174696d6522060a016112016222090a04706f6f6c1201703209\
         0a070a05373a61407342090a04696f7073120139",
        &wanted,
    );
}

#[test]
fn a_disk_is_staged() {
    let mode = VolumeCapabilityAccessModeMode::MultiNodeMultiWriter as i32;
    let wanted = NodeStageVolumeRequest {
        volume_id: "7:a".to_owned(),
        publish_context: of(&[("nqn", "q")]),
        staging_target_path: "/s".to_owned(),
        volume_capability: Some(VolumeCapability {
            access_mode: Some(VolumeCapabilityAccessMode { mode }),
            access_type: Some(VolumeCapabilityAccessTypeOneOf::Block(VolumeCapabilityBlockVolume {})),
        }),
        ..Default::default()
    };
    is_read("0a03373a6112080a036e716e1201711a022f7322061a0208050a00", &wanted);
}

#[test]
fn what_is_answered() {
    let snapshot = Snapshot {
        size_bytes: 4096,
        snapshot_id: "7:a@s".to_owned(),
        source_volume_id: "7:a".to_owned(),
        creation_time: Some(Timestamp { seconds: 12, nanos: 0 }),
        ready_to_use: true,
        group_snapshot_id: "3:g".to_owned(),
        accessible_topology: Vec::new(),
    };
    let taken = CreateSnapshotResponse {
        snapshot: Some(snapshot),
    };
    is_read("0a1a0880201205373a6140731a03373a612202080c28013203333a67", &taken);
    let capacity = GetCapacityResponse {
        available_capacity: 5,
        maximum_volume_size: Some(6),
        minimum_volume_size: Some(7),
    };
    is_read("0805120208061a020807", &capacity);
    is_read("0a020801", &ProbeResponse { ready: Some(true) });
    let modify = ControllerServiceCapabilityRPC {
        r#type: ControllerServiceCapabilityRPCType::ModifyVolume as i32,
    };
    let all = ControllerGetCapabilitiesResponse {
        capabilities: vec![ControllerServiceCapability {
            r#type: Some(ControllerServiceCapabilityTypeOneOf::Rpc(modify)),
        }],
    };
    is_read("0a040a02080e", &all);
    let delta = GetMetadataDeltaResponse {
        block_metadata_type: BlockMetadataType::VariableLength as i32,
        volume_capacity_bytes: 9,
        block_metadata: vec![BlockMetadata {
            byte_offset: 4096,
            size_bytes: 8192,
        }],
    };
    is_read("080210091a06088020108040", &delta);
}
