use super::*;

async fn list(fake: &Fake, snapshot: &str, volume: &str) -> Vec<String> {
    let request = ListSnapshotsRequest {
        snapshot_id: snapshot.to_owned(),
        source_volume_id: volume.to_owned(),
        ..Default::default()
    };
    let listed = fake.controller().list_snapshots(request).await.expect("a list");
    listed
        .entries
        .into_iter()
        .map(|entry| entry.snapshot.expect("it").snapshot_id)
        .collect()
}

pub(super) async fn drop_snapshot(fake: &Fake, id: &str) -> Result<(), Status> {
    let request = DeleteSnapshotRequest {
        snapshot_id: id.to_owned(),
        ..Default::default()
    };
    fake.controller().delete_snapshot(request).await.map(drop)
}

#[tokio::test]
async fn a_name_stands_for_one_snapshot_of_all_volumes() {
    let fake = Fake::new();
    let (one, _) = make(&fake, wanted("one", GIB)).await.expect("made");
    let (two, _) = make(&fake, wanted("two", GIB)).await.expect("made");
    let id = take(&fake, &one, "snapshot-1").await.expect("taken");
    assert_eq!(id, "1:one@snapshot-1");
    assert_eq!(take(&fake, &one, "snapshot-1").await.expect("there"), id);
    assert_eq!(code(take(&fake, &two, "snapshot-1").await), Code::AlreadyExists);
    assert_eq!(code(take(&fake, "9:none", "snapshot-2").await), Code::NotFound);
    assert_eq!(code(take(&fake, &one, "").await), Code::InvalidArgument);
    let other = take(&fake, &two, "snapshot-2").await.expect("taken");
    assert_eq!(list(&fake, "", "").await, [id.as_str(), other.as_str()]);
    assert_eq!(list(&fake, &id, "").await, [id.as_str()]);
    assert_eq!(list(&fake, "", &two).await, [other.as_str()]);
    assert!(list(&fake, "none", "").await.is_empty() && list(&fake, "", "9:none").await.is_empty());
    drop_snapshot(&fake, &id).await.expect("gone");
    drop_snapshot(&fake, &id).await.expect("gone already");
    drop_snapshot(&fake, "no id of ours").await.expect("nothing");
    assert_eq!(list(&fake, "", "").await, [other.as_str()]);
}

#[tokio::test]
async fn a_volume_is_made_of_a_snapshot_and_grown() {
    let fake = Fake::new();
    let (one, _) = make(&fake, wanted("one", GIB)).await.expect("made");
    let snapshot = take(&fake, &one, "s").await.expect("taken");
    let request = CreateVolumeRequest {
        volume_content_source: from_snapshot(&snapshot),
        ..wanted("two", 2 * GIB)
    };
    assert_eq!(
        make(&fake, request.clone()).await.expect("made"),
        ("2:two".to_owned(), 2 * GIB)
    );
    assert_eq!(make(&fake, request.clone()).await.expect("there").1, 2 * GIB);
    // Without a size it has its source's.
    let as_it_is = CreateVolumeRequest {
        capacity_range: None,
        ..CreateVolumeRequest {
            name: "three".to_owned(),
            ..request.clone()
        }
    };
    assert_eq!(make(&fake, as_it_is).await.expect("made").1, GIB);
    let smaller = CreateVolumeRequest {
        name: "four".to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 0,
            limit_bytes: GIB / 2,
        }),
        ..request.clone()
    };
    assert_eq!(code(make(&fake, smaller).await), Code::OutOfRange);
    fake.cluster().pools.insert("slow".to_owned(), (2, 1 << 40, None));
    let elsewhere = CreateVolumeRequest {
        name: "five".to_owned(),
        parameters: of(&[("pool", "slow")]),
        ..request
    };
    assert_eq!(code(make(&fake, elsewhere).await), Code::InvalidArgument);
}

#[tokio::test]
async fn a_clone_leaves_no_snapshot_behind() {
    let fake = Fake::new();
    let (one, _) = make(&fake, wanted("one", GIB)).await.expect("made");
    let request = CreateVolumeRequest {
        volume_content_source: from_volume(&one),
        ..wanted("two", GIB)
    };
    let made = fake
        .controller()
        .create(request.clone())
        .await
        .expect("made")
        .volume
        .expect("it");
    assert_eq!(made.content_source, from_volume(&one));
    assert!(fake.cluster().snapshots.is_empty());
    let parent = fake.cluster().volumes["two"].parent.clone().expect("it");
    assert!(parent.starts_with("one@csi-clone-"), "{parent}");
    make(&fake, request).await.expect("there");
    assert!(fake.cluster().snapshots.is_empty());
}

#[tokio::test]
async fn snapshots_outlive_their_volume_and_are_good_for_clones() {
    let fake = Fake::new();
    let (one, _) = make(&fake, wanted("one", GIB)).await.expect("made");
    let first = take(&fake, &one, "first").await.expect("taken");
    let second = take(&fake, &one, "second").await.expect("taken");
    delete(&fake, &one).await.expect("gone");
    delete(&fake, &one).await.expect("gone already");
    assert!(fake.cluster().volumes.contains_key("csi-gone-1"));
    assert_eq!(list(&fake, "", "").await, [first.as_str(), second.as_str()]);
    let listed = fake
        .controller()
        .list(ListVolumesRequest::default())
        .await
        .expect("a list");
    assert!(listed.entries.is_empty());
    assert_eq!(code(take(&fake, &one, "third").await), Code::NotFound);
    // Its name is free.
    let (again, _) = make(&fake, wanted("one", GIB)).await.expect("made");
    assert_ne!(again, one);
    let request = CreateVolumeRequest {
        volume_content_source: from_snapshot(&first),
        ..wanted("clone", GIB)
    };
    make(&fake, request).await.expect("made");
    drop_snapshot(&fake, &first).await.expect("gone");
    assert!(fake.cluster().volumes.contains_key("csi-gone-1"));
    drop_snapshot(&fake, &second).await.expect("gone");
    assert!(!fake.cluster().volumes.contains_key("csi-gone-1"));
}
