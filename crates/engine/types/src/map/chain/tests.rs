use super::*;
use crate::id::Generation;
use crate::map::Lineage;

fn volume(id: u64, host: Option<u64>, former: &[u64]) -> Volume {
    Volume {
        generation: Generation(5),
        lineage: Lineage {
            host: host.map(VolumeId),
            ..Lineage::default()
        },
        former: former.iter().copied().map(VolumeId).collect(),
        ..Volume::new(VolumeId(id), "v", "p", 4096)
    }
}

fn former(id: u64, of: u64) -> Volume {
    let mut former = volume(id, None, &[]);
    former.name = format!(".{id}");
    former.lineage.former_of = Some(VolumeId(of));
    former
}

#[test]
fn hosts_know_a_volume_by_its_first_number() {
    assert_eq!(volume(7, None, &[]).host(), VolumeId(7));
    let reverted = volume(9, Some(3), &[7, 3]);
    assert_eq!(reverted.host(), VolumeId(3));
    assert_eq!(former(7, 3).host(), VolumeId(3));
    let chain: Vec<u64> = reverted.chain().map(|data| data.0).collect();
    assert_eq!(chain, [9, 7, 3]);
    assert!(reverted.has_data(VolumeId(7)) && !reverted.has_data(VolumeId(8)));
}

#[test]
fn former_data_is_not_deleted() {
    assert!(!volume(7, None, &[]).is_deleted() && !former(7, 3).is_deleted());
    let mut deleted = volume(9, Some(3), &[3]);
    deleted.name = ".9".to_owned();
    assert!(deleted.is_deleted() && !deleted.is_former() && former(7, 3).is_former());
}

#[test]
fn a_chain_that_cannot_be_is_told() {
    for good in [
        volume(7, None, &[]),
        volume(9, Some(3), &[7, 3]),
        volume(9, Some(3), &[]),
        former(7, 3),
    ] {
        assert_eq!(check_chain(&good), Ok(()));
    }
    let many: Vec<u64> = (1..=65).collect();
    let named = Volume {
        name: "v".to_owned(),
        ..former(7, 3)
    };
    let mut both = former(7, 3);
    both.lineage.host = Some(VolumeId(3));
    for (bad, why) in [
        (volume(99, Some(1), &many), "65 times reverted"),
        (volume(9, None, &[7]), "no number for hosts"),
        (volume(9, Some(3), &[9]), "number 9 twice"),
        (volume(9, Some(3), &[7, 3, 7]), "number 7 twice"),
        (named, "has a name"),
        (both, "has a name"),
    ] {
        let said = check_chain(&bad).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn what_is_not_so_is_not_written() {
    let text = serde_json::to_string(&volume(7, None, &[])).unwrap();
    assert!(!text.contains("host") && !text.contains("former"), "{text}");
    let text = serde_json::to_string(&volume(9, Some(3), &[7, 3])).unwrap();
    assert!(
        text.contains(r#""host":3"#) && text.contains(r#""former":[7,3]"#),
        "{text}"
    );
    let read: Volume = serde_json::from_str(&text).unwrap();
    assert_eq!(read, volume(9, Some(3), &[7, 3]));
    let text = serde_json::to_string(&former(7, 3)).unwrap();
    assert!(text.contains(r#""former_of":3"#), "{text}");
}
