//! Volumes that are encrypted at their node, by a passphrase of a Secret (decision 099): what lies before that which pods see is told of nowhere.

use super::*;
use crate::parameters::LUKS_BYTES as HEAD;

fn sealed(name: &str, bytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: of(&[("encryptedBySecret", "true")]),
        ..wanted(name, bytes)
    }
}

/// No more than is required.
fn exactly(request: CreateVolumeRequest) -> CreateVolumeRequest {
    let range = request.capacity_range.unwrap_or_default();
    CreateVolumeRequest {
        capacity_range: Some(CapacityRange {
            limit_bytes: range.required_bytes,
            ..range
        }),
        ..request
    }
}

/// What the cluster has of one.
fn raw(fake: &Fake, name: &str) -> i64 {
    fake.cluster().volumes[name].size_bytes.cast_signed()
}

async fn grow(fake: &Fake, id: &str, bytes: i64) -> Result<ControllerExpandVolumeResponse, Status> {
    let request = ControllerExpandVolumeRequest {
        volume_id: id.to_owned(),
        capacity_range: exactly(wanted("", bytes)).capacity_range,
        volume_capability: Some(block(Mode::SingleNodeWriter)),
        ..Default::default()
    };
    fake.controller().expand(request).await
}

async fn shown(fake: &Fake, id: &str) -> i64 {
    let request = ControllerGetVolumeRequest {
        volume_id: id.to_owned(),
    };
    let found = fake.controller().get(request).await.expect("it");
    found.volume.expect("it").capacity_bytes
}

/// One as it was made when its head was within its size.
async fn of_before(fake: &Fake, name: &str) -> String {
    let (id, _) = make(fake, sealed(name, GIB)).await.expect("made");
    let mut cluster = fake.cluster();
    let volume = cluster.volumes.get_mut(name).expect("it");
    volume.size_bytes -= HEAD;
    let known = volume
        .labels
        .insert("csi.amita.io/encrypted-by-secret".to_owned(), "1".to_owned());
    assert_eq!(known, Some(HEAD.to_string()));
    id
}

#[tokio::test]
async fn a_claim_is_what_pods_see_wherever_its_size_is_told() {
    let fake = Fake::new();
    let head = HEAD.cast_signed();
    let (id, bytes) = make(&fake, exactly(sealed("one", GIB))).await.expect("made");
    assert_eq!(
        (bytes, raw(&fake, "one"), shown(&fake, &id).await),
        (GIB, GIB + head, GIB)
    );
    assert_eq!(make(&fake, exactly(sealed("one", GIB))).await.expect("there").1, GIB);
    for other in [GIB + 4096, GIB + head] {
        assert_eq!(
            code(make(&fake, sealed("one", other)).await),
            Code::AlreadyExists,
            "{other}"
        );
    }
    let listed = fake
        .controller()
        .list(ListVolumesRequest::default())
        .await
        .expect("a list");
    assert_eq!(listed.entries[0].volume.as_ref().expect("it").capacity_bytes, GIB);
    // What decrypts a raw disk is made larger by its node, and by nothing else.
    let grown = grow(&fake, &id, 2 * GIB).await.expect("grown");
    assert_eq!((grown.capacity_bytes, grown.node_expansion_required), (2 * GIB, true));
    assert_eq!(
        grow(&fake, &id, 2 * GIB).await.expect("large enough").capacity_bytes,
        2 * GIB
    );
    assert_eq!(code(grow(&fake, &id, 2 * GIB - 4096).await), Code::OutOfRange);
    assert_eq!(raw(&fake, "one"), 2 * GIB + head);
    // The smallest one, what is not said, and what is bounded alone.
    assert_eq!(
        make(&fake, exactly(sealed("small", 1 << 20))).await.expect("made").1,
        1 << 20
    );
    assert_eq!(make(&fake, sealed("usual", 0)).await.expect("made").1, GIB);
    let bounded = CreateVolumeRequest {
        capacity_range: Some(CapacityRange {
            required_bytes: 0,
            limit_bytes: (20 << 20) + 5,
        }),
        ..sealed("bounded", 0)
    };
    assert_eq!(make(&fake, bounded).await.expect("made").1, 20 << 20);
    let odd = make(&fake, sealed("odd", (20 << 20) - 5)).await.expect("made");
    assert_eq!((odd.1, raw(&fake, "odd")), (20 << 20, (20 << 20) + head));
    let most = (1 << 56) - head;
    assert_eq!(code(make(&fake, sealed("huge", most + 1)).await), Code::OutOfRange);
    assert_eq!(make(&fake, sealed("huge", most)).await.expect("made").1, most);
    assert_eq!(raw(&fake, "huge"), 1 << 56);
}

#[tokio::test]
async fn snapshots_and_what_is_made_of_them_are_as_large_as_pods_see_them() {
    let fake = Fake::new();
    let head = HEAD.cast_signed();
    let (id, _) = make(&fake, sealed("one", GIB)).await.expect("made");
    make(&fake, wanted("plain", GIB)).await.expect("made");
    let request = CreateSnapshotRequest {
        source_volume_id: id.clone(),
        name: "s".to_owned(),
        ..Default::default()
    };
    let taken = fake.controller().create_snapshot(request).await.expect("taken");
    let taken = taken.snapshot.expect("a snapshot");
    assert_eq!(taken.size_bytes, GIB);
    let group = CreateVolumeGroupSnapshotRequest {
        name: "g".to_owned(),
        source_volume_ids: vec!["1:one".to_owned(), "2:plain".to_owned()],
        ..Default::default()
    };
    let group = fake.controller().create_group(group).await.expect("taken");
    let group = group.group_snapshot.expect("a group");
    let mut told: Vec<_> = group
        .snapshots
        .iter()
        .map(|taken| (taken.snapshot_id.clone(), taken.size_bytes))
        .collect();
    told.sort();
    assert_eq!(told, [("1:one@g".to_owned(), GIB), ("2:plain@g".to_owned(), GIB)]);
    let request = crate::wire::group::GetVolumeGroupSnapshotRequest {
        group_snapshot_id: group.group_snapshot_id,
        ..Default::default()
    };
    let again = fake.controller().get_group(request).await.expect("a group");
    assert!(
        again
            .group_snapshot
            .expect("a group")
            .snapshots
            .iter()
            .all(|taken| taken.size_bytes == GIB)
    );
    let request = GetSnapshotRequest {
        snapshot_id: taken.snapshot_id.clone(),
        ..Default::default()
    };
    let again = fake.controller().get_snapshot(request).await.expect("a snapshot");
    assert_eq!(again.snapshot.expect("it").size_bytes, GIB);
    for (snapshot_id, source_volume_id, wanted) in [("", "", 3), ("", id.as_str(), 2), (&taken.snapshot_id, "", 1)] {
        let request = ListSnapshotsRequest {
            snapshot_id: snapshot_id.to_owned(),
            source_volume_id: source_volume_id.to_owned(),
            ..Default::default()
        };
        let listed = fake.controller().list_snapshots(request).await.expect("a list");
        assert_eq!(listed.entries.len(), wanted);
        assert!(
            listed
                .entries
                .iter()
                .all(|entry| entry.snapshot.as_ref().expect("it").size_bytes == GIB)
        );
    }
    // As large as its source, and larger; of a snapshot, and of a volume.
    for (name, bytes, source) in [
        ("same", GIB, from_snapshot(&taken.snapshot_id)),
        ("more", 2 * GIB, from_snapshot(&taken.snapshot_id)),
        ("little", GIB + 4096, from_volume(&id)),
        ("clone", GIB, from_volume(&id)),
    ] {
        let request = CreateVolumeRequest {
            volume_content_source: source,
            ..exactly(sealed(name, bytes))
        };
        assert_eq!(make(&fake, request.clone()).await.expect("made").1, bytes, "{name}");
        assert_eq!(make(&fake, request).await.expect("there").1, bytes, "{name}");
        assert_eq!(raw(&fake, name), bytes + head, "{name}");
    }
    let small = CreateVolumeRequest {
        volume_content_source: from_snapshot(&taken.snapshot_id),
        ..exactly(sealed("less", GIB - 4096))
    };
    assert_eq!(code(make(&fake, small).await), Code::OutOfRange);
}

#[tokio::test]
async fn what_a_pool_has_room_for_is_told_without_heads() {
    let fake = Fake::new();
    let head = HEAD.cast_signed();
    let ask = |pairs: &[(&str, &str)]| {
        fake.controller().capacity(GetCapacityRequest {
            parameters: of(pairs),
            ..Default::default()
        })
    };
    let by_secret = ("encryptedBySecret", "true");
    let free = ask(&[by_secret]).await.expect("known");
    assert_eq!(
        (free.available_capacity, free.maximum_volume_size),
        (100 * GIB - head, Some((1 << 56) - head))
    );
    fake.cluster()
        .pools
        .insert("fast".to_owned(), (3, 300 << 30, Some(2 << 30)));
    let left = ask(&[by_secret])
        .await
        .expect("known")
        .maximum_volume_size
        .expect("known");
    assert_eq!(left, 2 * GIB - head);
    assert_eq!(
        code(make(&fake, sealed("v", left + 4096)).await),
        Code::ResourceExhausted
    );
    let (id, _) = make(&fake, sealed("v", left)).await.expect("made");
    for class in [&[by_secret][..], &[]] {
        assert_eq!(ask(class).await.expect("known").available_capacity, 0);
    }
    delete(&fake, &id).await.expect("gone");
    // A clone takes what its source takes: it is told before it is begun.
    let (id, _) = make(&fake, sealed("v", GIB)).await.expect("made");
    let clone = CreateVolumeRequest {
        volume_content_source: from_volume(&id),
        ..sealed("clone", GIB - head)
    };
    assert_eq!(code(make(&fake, clone).await), Code::ResourceExhausted);
    assert!(fake.cluster().snapshots.is_empty());
}

/// They may be in use for long: they grow by their head, and nothing else becomes of them.
#[tokio::test]
async fn volumes_of_before_grow_by_their_head_and_lose_nothing() {
    let head = HEAD.cast_signed();
    let fake = Fake::new();
    let id = of_before(&fake, "one").await;
    assert_eq!(shown(&fake, &id).await, GIB - head);
    let snapshot = take(&fake, &id, "s").await.expect("taken");
    // Whoever asks for it again asks for the same, and cannot have it yet: it stays.
    fake.cluster().grows_no_more = true;
    assert_eq!(code(make(&fake, sealed("one", GIB)).await), Code::Aborted);
    assert_eq!(code(grow(&fake, &id, GIB).await), Code::ResourceExhausted);
    assert!(fake.cluster().deleted.is_empty() && raw(&fake, "one") == GIB);
    fake.cluster().grows_no_more = false;
    assert_eq!(
        make(&fake, exactly(sealed("one", GIB))).await.expect("there"),
        (id.clone(), GIB)
    );
    assert_eq!(raw(&fake, "one"), GIB + head);
    let id = of_before(&fake, "two").await;
    assert_eq!(grow(&fake, &id, GIB).await.expect("grown").capacity_bytes, GIB);
    assert_eq!(raw(&fake, "two"), GIB + head);
    // What is made of theirs is as those that are made now.
    let request = CreateVolumeRequest {
        volume_content_source: from_snapshot(&snapshot),
        ..exactly(sealed("three", GIB))
    };
    assert_eq!(make(&fake, request).await.expect("made").1, GIB);
    assert_eq!(raw(&fake, "three"), GIB + head);
}

/// A clone that is short of its size by no more than a head has been told to nobody.
#[tokio::test]
async fn a_clone_that_cannot_grow_by_little_goes() {
    let fake = Fake::new();
    let (id, _) = make(&fake, sealed("one", GIB)).await.expect("made");
    let snapshot = take(&fake, &id, "s").await.expect("taken");
    let request = CreateVolumeRequest {
        volume_content_source: from_snapshot(&snapshot),
        ..sealed("two", GIB + 4096)
    };
    make(&fake, request.clone()).await.expect("made");
    {
        // As a call has left it that was cut.
        let mut cluster = fake.cluster();
        cluster.volumes.get_mut("two").expect("it").size_bytes -= 4096;
        cluster.grows_no_more = true;
    }
    assert_eq!(code(make(&fake, request).await), Code::ResourceExhausted);
    assert!(!fake.cluster().volumes.contains_key("two"));
}

/// A node whose driver does not know of it would have a pod write over the head, or make a file system in the clear: it is not told of the disk under the name that it knows.
#[tokio::test]
async fn a_node_is_told_of_a_disk_under_a_name_of_its_own() {
    let fake = Fake::new();
    let (id, _) = make(&fake, sealed("one", GIB)).await.expect("made");
    let (plain, _) = make(&fake, wanted("plain", GIB)).await.expect("made");
    let mode = Mode::SingleNodeWriter;
    let by_iscsi = format!("{}.iscsi", publish::TWO);
    for (node, usual, own) in [(publish::ONE, "uuid", "sealed-uuid"), (&by_iscsi, "naa", "sealed-naa")] {
        for (id, has, has_not) in [(&id, own, usual), (&plain, usual, own)] {
            let told = publish::publish(&fake, id, node, mode).await.expect("published");
            assert!(told.contains_key(has) && !told.contains_key(has_not), "{told:?}");
            publish::unpublish(&fake, id, node).await.expect("taken off");
        }
    }
}

/// A clone has its source's keys, whatever its class says.
#[tokio::test]
async fn what_is_encrypted_by_a_secret_is_cloned_as_such_and_as_nothing_else() {
    let fake = Fake::new();
    let by_secret = of(&[("encryptedBySecret", "true")]);
    let sealed = sealed("sealed", GIB);
    let made = fake
        .controller()
        .create(sealed.clone())
        .await
        .expect("made")
        .volume
        .expect("it");
    // It is the node's business, and the cluster's volume is a plain one.
    assert_eq!(made.volume_context, by_secret);
    {
        let cluster = fake.cluster();
        let volume = &cluster.volumes["sealed"];
        assert!(!volume.encrypted && volume.labels.contains_key("csi.amita.io/encrypted-by-secret"));
    }
    make(&fake, sealed.clone()).await.expect("there");
    let in_the_clear = CreateVolumeRequest {
        parameters: of(&[("encryptedBySecret", "false")]),
        ..sealed
    };
    assert_eq!(code(make(&fake, in_the_clear).await), Code::AlreadyExists);
    let (plain, _) = make(&fake, wanted("plain", GIB)).await.expect("made");
    for (source, parameters, fits) in [
        (&made.volume_id, &by_secret, true),
        (&made.volume_id, &of(&[]), false),
        (&plain, &by_secret, false),
        (&plain, &of(&[]), true),
    ] {
        let request = CreateVolumeRequest {
            parameters: parameters.clone(),
            volume_content_source: from_volume(source),
            ..wanted(&format!("of-{source}-{}", parameters.len()).replace(':', "-"), GIB)
        };
        match make(&fake, request).await {
            Ok(_) => assert!(fits, "{source} {parameters:?}"),
            Err(why) => assert!(
                !fits && why.code() == Code::InvalidArgument,
                "{source} {parameters:?}: {why}"
            ),
        }
    }
    assert!(fake.cluster().snapshots.is_empty());
}

/// What pods see of a volume that is encrypted at its node begins behind its keys, and so does what programs that back up read.
#[tokio::test]
async fn what_was_changed_behind_a_passphrase_is_told_as_pods_see_it() {
    use crate::wire::snapshot_metadata::*;
    let fake = Fake::new();
    make(&fake, sealed("one", GIB)).await.expect("made");
    for name in ["a", "b"] {
        take(&fake, "1:one", name).await.expect("taken");
    }
    let changed = vec![(0, 8192), (HEAD - 4096, 8192), (HEAD + 65536, 4096)];
    fake.cluster().diffs.insert(("a".to_owned(), "b".to_owned()), changed);
    let ask = async |starting_offset: i64| {
        let (answers, mut stream) = tokio::sync::mpsc::channel(16);
        let request = GetMetadataDeltaRequest {
            base_snapshot_id: "1:one@a".to_owned(),
            target_snapshot_id: "1:one@b".to_owned(),
            starting_offset,
            ..Default::default()
        };
        fake.controller().delta(request, answers).await?;
        let mut all = Vec::new();
        while let Some(answer) = stream.recv().await {
            let answer = answer?;
            assert_eq!(answer.volume_capacity_bytes, GIB);
            let blocks = answer.block_metadata.iter();
            all.extend(blocks.map(|block| (block.byte_offset, block.size_bytes)));
        }
        Ok::<_, Status>(all)
    };
    assert_eq!(ask(0).await.expect("told"), [(0, 4096), (65536, 4096)]);
    assert_eq!(ask(65536).await.expect("told"), [(65536, 4096)]);
    assert_eq!(code(ask(GIB).await), Code::OutOfRange);
    let (answers, mut stream) = tokio::sync::mpsc::channel(16);
    let request = GetMetadataAllocatedRequest {
        snapshot_id: "1:one@a".to_owned(),
        ..Default::default()
    };
    fake.controller().allocated(request, answers).await.expect("told");
    let told = stream.recv().await.expect("an answer").expect("told");
    let all = &told.block_metadata[0];
    assert_eq!((all.byte_offset, all.size_bytes), (0, GIB));
}
