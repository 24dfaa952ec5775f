//! What goes in comes out; what is damaged is said.

use super::*;
use amita_types::map::{Group, Volume};
use amita_types::{Epoch, Generation, GroupIndex, PoolId, StoreId, VolumeId};
use proptest::prelude::*;

proptest! {
    #[test]
    fn records_round_trip(
        life: u64,
        revision: u64,
        values in prop::collection::btree_map("/amita/[a-z/0-9]{1,20}", prop::collection::vec(any::<u8>(), 0..50), 0..10),
    ) {
        let records = Records { life, revision, values };
        prop_assert_eq!(Records::decode(&records.encode()), Ok(records));
    }

    #[test]
    fn any_cut_is_found(at: prop::sample::Index) {
        let values = [("/amita/a".to_owned(), b"{}".to_vec()), ("/amita/b".to_owned(), b"{\"n\":1}".to_vec())];
        let bytes = Records { life: 1, revision: 2, values: values.into() }.encode();
        prop_assert!(Records::decode(&bytes[..at.index(bytes.len())]).is_err());
    }
}

#[test]
fn what_is_kept_and_what_is_not() {
    for key in [
        "/amita/cluster",
        "/amita/groups/1/0000000000",
        "/amita/volumes/a",
        "/amita/secrets/1/1",
        "/amita/next/volumes",
        "/amita/nvme/subsystems/db",
        "/amita/nvme/hosts/nqn.2014-08.com.example:h",
        "/amita/reservations/1",
        "/amita/life",
        "/amita/copies/to/7",
        "/amita/mirrors/of/dr",
    ] {
        assert!(is_kept(key), "{key}");
    }
    for key in [
        "/amita/audit/head",
        "/amita/audit/records/000000000001",
        "/amita/live/1",
        "/amita/coordinator",
        "/amita/whole/1/2",
        "/amita/suspect/3",
        "/amita/moves/1",
        "/amita/copies/by/7",
        "/amita/mirrors/by/dr",
        "/amita/mounts/00000000-0000-0000-0000-000000000001",
        "/amita/condition/1/0",
        "/amita/inventory/1/facts",
        "/amita/sick-disks/00000000-0000-0000-0000-000000000001",
        "/other/cluster",
    ] {
        assert!(!is_kept(key), "{key}");
    }
}

/// A large cluster's records and how long they are: the figure stands in `docs/format.md`.
#[test]
fn eight_thousand_groups_and_ten_thousand_volumes_take_a_small_part_of_a_place() {
    let stores: Vec<StoreId> = (1..=3u128).map(|n| StoreId(n << 96 | 0x1234_5678_9abc)).collect();
    let mut values = BTreeMap::new();
    for index in 0..8192 {
        let index = GroupIndex(index);
        let group = Group {
            index,
            epoch: Epoch(1_000_000),
            members: stores.clone(),
            in_sync: stores.clone(),
            syncing: Vec::new(),
        };
        values.insert(map::group_key(PoolId(1), index), serde_json::to_vec(&group).unwrap());
    }
    for number in 0..10_000 {
        let volume = Volume {
            generation: Generation(100_000),
            owner: Some(amita_types::NodeId(100)),
            ..Volume::new(
                VolumeId(number),
                &format!("volume-of-an-application-{number}"),
                "replicated-3",
                1 << 40,
            )
        };
        values.insert(map::volume_key(&volume.name), serde_json::to_vec(&volume).unwrap());
    }
    let bytes = Records {
        life: 1,
        revision: 1 << 40,
        values,
    }
    .encode()
    .len();
    println!("{bytes} bytes");
    assert!(bytes < 5 << 20, "{bytes} bytes");
}
