use super::*;
use crate::id::SnapshotId;
use crate::wire::group::*;

async fn take_group(fake: &Fake, name: &str, volumes: &[&str]) -> Result<VolumeGroupSnapshot, Status> {
    let request = CreateVolumeGroupSnapshotRequest {
        name: name.to_owned(),
        source_volume_ids: volumes.iter().map(|id| (*id).to_owned()).collect(),
        ..Default::default()
    };
    Ok(fake
        .controller()
        .create_group(request)
        .await?
        .group_snapshot
        .expect("a group"))
}

async fn get_group(fake: &Fake, id: &str) -> Result<VolumeGroupSnapshot, Status> {
    let request = GetVolumeGroupSnapshotRequest {
        group_snapshot_id: id.to_owned(),
        ..Default::default()
    };
    Ok(fake
        .controller()
        .get_group(request)
        .await?
        .group_snapshot
        .expect("a group"))
}

pub(super) async fn drop_group(fake: &Fake, id: &str, snapshots: &[&str]) -> Result<(), Status> {
    let request = DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: id.to_owned(),
        snapshot_ids: snapshots.iter().map(|id| (*id).to_owned()).collect(),
        ..Default::default()
    };
    fake.controller().delete_group(request).await.map(drop)
}

pub(super) async fn two(fake: &Fake) {
    for name in ["one", "two"] {
        make(fake, wanted(name, GIB)).await.expect("made");
    }
}

pub(super) async fn take_both(fake: &Fake) -> Result<String, Status> {
    Ok(take_group(fake, "group-1", &["2:two", "1:one"])
        .await?
        .group_snapshot_id)
}

#[tokio::test]
async fn volumes_are_taken_together_once() {
    let fake = Fake::new();
    two(&fake).await;
    let taken = take_group(&fake, "group-1", &["1:one", "2:two"]).await.expect("taken");
    assert_eq!(taken.group_snapshot_id, "1:group-1");
    let ids: Vec<&str> = taken.snapshots.iter().map(|taken| taken.snapshot_id.as_str()).collect();
    assert_eq!(ids, ["1:one@group-1", "2:two@group-1"]);
    assert!(
        taken
            .snapshots
            .iter()
            .all(|one| one.group_snapshot_id == "1:group-1" && one.ready_to_use)
    );
    assert_eq!(
        take_group(&fake, "group-1", &["2:two", "1:one"]).await.expect("there"),
        taken
    );
    assert_eq!(
        code(take_group(&fake, "group-1", &["1:one"]).await),
        Code::AlreadyExists
    );
    assert_eq!(code(take_group(&fake, "group-2", &[]).await), Code::InvalidArgument);
    assert_eq!(code(take_group(&fake, "", &["1:one"]).await), Code::InvalidArgument);
    assert_eq!(
        code(take_group(&fake, "group-2", &["1:one", "9:none"]).await),
        Code::NotFound
    );
    assert_eq!(get_group(&fake, "1:group-1").await.expect("it"), taken);
    assert_eq!(code(get_group(&fake, "7:group-1").await), Code::NotFound);
    let clone = CreateVolumeRequest {
        volume_content_source: from_snapshot("1:one@group-1"),
        ..wanted("three", GIB)
    };
    make(&fake, clone).await.expect("made");
}

#[tokio::test]
async fn they_are_deleted_together_also_when_their_volume_is() {
    let fake = Fake::new();
    two(&fake).await;
    let id = take_both(&fake).await.expect("taken");
    delete(&fake, "1:one").await.expect("gone");
    assert_eq!(
        code(drop_group(&fake, &id, &["1:one@other"]).await),
        Code::InvalidArgument
    );
    drop_group(&fake, &id, &["1:one@group-1"]).await.expect("gone");
    drop_group(&fake, &id, &["1:one@group-1"]).await.expect("gone already");
    drop_group(&fake, "no id of ours", &[]).await.expect("nothing");
    let cluster = fake.cluster();
    assert!(cluster.snapshots.is_empty());
    assert_eq!(cluster.volumes.keys().collect::<Vec<_>>(), ["two"]);
}

#[tokio::test]
async fn what_was_changed_is_told_in_pieces_from_any_byte_on() {
    use crate::wire::snapshot_metadata::*;
    let fake = Fake::new();
    two(&fake).await;
    for name in ["a", "b"] {
        take(&fake, "1:one", name).await.expect("taken");
    }
    take(&fake, "2:two", "c").await.expect("taken");
    let changed = vec![(0, 8192), (16384, 4096), (1 << 20, 4096)];
    fake.cluster().diffs.insert(("a".to_owned(), "b".to_owned()), changed);
    let ask = async |base: &str, target: &str, starting_offset: i64, max_results: i32| {
        assert!(SnapshotId::parse(base).is_some());
        let (answers, mut stream) = tokio::sync::mpsc::channel(16);
        let request = GetMetadataDeltaRequest {
            base_snapshot_id: base.to_owned(),
            target_snapshot_id: target.to_owned(),
            starting_offset,
            max_results,
            ..Default::default()
        };
        fake.controller().delta(request, answers).await?;
        let mut all = Vec::new();
        while let Some(answer) = stream.recv().await {
            let answer = answer?;
            assert!(max_results == 0 || answer.block_metadata.len() <= max_results as usize);
            assert_eq!(answer.volume_capacity_bytes, GIB);
            all.extend(
                answer
                    .block_metadata
                    .iter()
                    .map(|block| (block.byte_offset, block.size_bytes)),
            );
        }
        Ok::<_, Status>(all)
    };
    let whole = [(0, 8192), (16384, 4096), (1 << 20, 4096)];
    for most in [0, 1, 2] {
        assert_eq!(ask("1:one@a", "1:one@b", 0, most).await.expect("told"), whole);
    }
    assert_eq!(ask("1:one@a", "1:one@b", 16384, 1).await.expect("told"), whole[1..]);
    assert_eq!(code(ask("1:one@a", "2:two@c", 0, 0).await), Code::InvalidArgument);
    assert_eq!(code(ask("1:one@a", "1:one@z", 0, 0).await), Code::NotFound);
    assert_eq!(code(ask("1:one@a", "1:one@b", GIB, 0).await), Code::OutOfRange);
    assert_eq!(code(ask("1:one@a", "1:one@b", 0, -1).await), Code::InvalidArgument);
}
