//! DeleteVolume, and what it leaves alone.

use super::*;

#[tokio::test]
async fn deletion_goes_by_what_was_said_when_it_was_made() {
    let fake = Fake::new();
    for (how, query) in [("recycle", ""), ("now", "now=true"), ("60", "keep_seconds=60")] {
        let request = CreateVolumeRequest {
            parameters: of(&[("onDelete", how)]),
            ..wanted("v", GIB)
        };
        let (id, _) = make(&fake, request).await.expect("made");
        delete(&fake, &id).await.expect("gone");
        delete(&fake, &id).await.expect("gone already");
        assert_eq!(fake.cluster().deleted.pop(), Some(format!("v?{query}")));
    }
    delete(&fake, "no id of ours").await.expect("nothing");
    assert_eq!(code(delete(&fake, "").await), Code::InvalidArgument);
}

#[tokio::test]
async fn a_snapshot_that_comes_between_is_not_lost() {
    let fake = Fake::new();
    let request = CreateVolumeRequest {
        parameters: of(&[("onDelete", "now")]),
        ..wanted("v", GIB)
    };
    let (id, _) = make(&fake, request).await.expect("made");
    let labels = of(&[("csi.amita.io/driver", DRIVER), ("csi.amita.io/name", "late")]);
    fake.cluster().late_snapshot = Some(serde_json::json!({ "labels": labels }));
    assert_eq!(code(delete(&fake, &id).await), Code::FailedPrecondition);
    assert_eq!(fake.cluster().snapshots.len(), 1);
    // Asked again, it waits for its snapshot.
    delete(&fake, &id).await.expect("deleted");
    assert!(fake.cluster().volumes.contains_key("csi-gone-1"));
    assert_eq!(fake.cluster().snapshots.len(), 1);
}

/// Two controllers are at work for a moment when another one begins to lead.
#[tokio::test]
async fn of_a_deletion_and_a_snapshot_one_sees_the_other() {
    let labels = of(&[("csi.amita.io/driver", DRIVER), ("csi.amita.io/name", "late")]);
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    fake.cluster().snapshot_at_mark = Some(serde_json::json!({ "labels": labels }));
    delete(&fake, &id).await.expect("deleted");
    assert!(fake.cluster().volumes.contains_key("csi-gone-1"));
    assert_eq!(take(&fake, &id, "late").await.expect("it was taken"), "1:v@late");
    snapshot::drop_snapshot(&fake, "1:v@late").await.expect("gone");
    assert!(fake.cluster().volumes.is_empty());
    // The other way round: whoever deletes has looked before, and may take all with it, or look again.
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    fake.cluster().marked_at_snapshot = true;
    for _ in 0..2 {
        assert_eq!(code(take(&fake, &id, "late").await), Code::Aborted);
        assert_eq!(fake.cluster().snapshots.len(), 1);
    }
    delete(&fake, &id).await.expect("it waits for its snapshot");
    take(&fake, &id, "late").await.expect("it was taken");
    snapshot::drop_snapshot(&fake, "1:v@late").await.expect("gone");
    assert!(fake.cluster().volumes.is_empty());
    let fake = Fake::new();
    group::two(&fake).await;
    fake.cluster().marked_at_snapshot = true;
    assert_eq!(code(group::take_both(&fake).await), Code::Aborted);
    delete(&fake, "1:one").await.expect("it waits for its snapshot");
    group::take_both(&fake).await.expect("they were taken");
    assert_eq!(fake.cluster().snapshots.len(), 2);
}

#[tokio::test]
async fn snapshots_of_an_operators_are_not_destroyed() {
    let theirs = |fake: &Fake| {
        fake.cluster().snapshots.push(crate::fake::Snapshot {
            of: 1,
            name: "before-upgrade".to_owned(),
            size_bytes: GIB as u64,
            set: None,
            mark: false,
            labels: BTreeMap::new(),
        });
    };
    for (how, keeps_nothing) in [("now", false), ("0", false), ("recycle", true)] {
        let fake = Fake::new();
        fake.cluster().keeps_nothing = keeps_nothing;
        let request = CreateVolumeRequest {
            parameters: of(&[("onDelete", how)]),
            ..wanted("v", GIB)
        };
        let (id, _) = make(&fake, request).await.expect("made");
        theirs(&fake);
        let refused = delete(&fake, &id).await.expect_err("it has a snapshot");
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("before-upgrade"), "{refused}");
        assert_eq!(fake.cluster().snapshots.len(), 1);
        publish::publish(&fake, &id, publish::ONE, Mode::SingleNodeWriter)
            .await
            .expect("nothing was done to it");
        publish::unpublish(&fake, &id, publish::ONE).await.expect("taken off");
        fake.cluster().snapshots.clear();
        delete(&fake, &id).await.expect("gone");
    }
    // What is kept for a while is kept with all of them.
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    theirs(&fake);
    delete(&fake, &id).await.expect("kept");
    assert_eq!(fake.cluster().deleted, ["v?"]);
}

#[tokio::test]
async fn what_is_only_read_goes_from_a_pool_that_keeps_nothing() {
    let fake = Fake::new();
    fake.cluster().keeps_nothing = true;
    let (source, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    for (name, kept) in [("by-its-pool", "recycle"), ("by-its-class", "0")] {
        let request = CreateVolumeRequest {
            volume_capabilities: vec![mount(Mode::MultiNodeReaderOnly, "")],
            volume_content_source: from_volume(&source),
            parameters: of(&[("onDelete", kept)]),
            ..wanted(name, GIB)
        };
        let (id, _) = make(&fake, request).await.expect("made");
        delete(&fake, &id).await.expect("deleted");
        assert!(!fake.cluster().volumes.contains_key(name), "{name}");
    }
    delete(&fake, &source).await.expect("deleted");
}

/// A mark is what a backup has left of a snapshot: it has no data, and keeps nothing.
#[tokio::test]
async fn the_mark_of_a_backup_keeps_no_volume() {
    for (how, keeps_nothing) in [("now", false), ("0", false), ("recycle", true)] {
        let fake = Fake::new();
        fake.cluster().keeps_nothing = keeps_nothing;
        let request = CreateVolumeRequest {
            parameters: of(&[("onDelete", how)]),
            ..wanted("v", GIB)
        };
        let (id, _) = make(&fake, request).await.expect("made");
        fake.cluster().snapshots.push(crate::fake::Snapshot {
            of: 1,
            name: "backup-1".to_owned(),
            size_bytes: GIB as u64,
            set: None,
            mark: true,
            labels: BTreeMap::new(),
        });
        delete(&fake, &id).await.expect("gone");
        let cluster = fake.cluster();
        assert!(cluster.volumes.is_empty() && cluster.snapshots.is_empty(), "{how}");
    }
}
