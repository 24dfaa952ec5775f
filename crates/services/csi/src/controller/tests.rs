//! The controller against a cluster that is made up. [`cut`] has each call cut at each request.

mod cut;
mod delete;
mod fence;
mod group;
mod model;
mod place;
mod publish;
mod sealed;
mod snapshot;
mod target;
mod together;

use crate::capability::tests::{block, mount};
use crate::fake::{Cut, DRIVER, Fake};
use crate::id::VolumeId;
use crate::wire::common::{
    CapacityRange, VolumeCapabilityAccessModeMode as Mode, VolumeContentSource, VolumeContentSourceSnapshotSource,
    VolumeContentSourceTypeOneOf as Source, VolumeContentSourceVolumeSource,
};
use crate::wire::controller::*;
use crate::wire::group::CreateVolumeGroupSnapshotRequest;
use std::collections::BTreeMap;
use tonic::{Code, Status};

pub(crate) const GIB: i64 = 1 << 30;

pub(crate) fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

pub(crate) fn wanted(name: &str, bytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: bytes,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![mount(Mode::SingleNodeWriter, "")],
        ..Default::default()
    }
}

pub(crate) fn from_snapshot(id: &str) -> Option<VolumeContentSource> {
    let snapshot_id = id.to_owned();
    Some(VolumeContentSource {
        r#type: Some(Source::Snapshot(VolumeContentSourceSnapshotSource { snapshot_id })),
    })
}

pub(crate) fn from_volume(id: &str) -> Option<VolumeContentSource> {
    let volume_id = id.to_owned();
    Some(VolumeContentSource {
        r#type: Some(Source::Volume(VolumeContentSourceVolumeSource { volume_id })),
    })
}

pub(crate) async fn make(fake: &Fake, request: CreateVolumeRequest) -> Result<(String, i64), Status> {
    let made = fake.controller().create(request).await?.volume.expect("a volume");
    Ok((made.volume_id, made.capacity_bytes))
}

pub(crate) async fn delete(fake: &Fake, id: &str) -> Result<(), Status> {
    let request = DeleteVolumeRequest {
        volume_id: id.to_owned(),
        ..Default::default()
    };
    fake.controller().delete(request).await.map(drop)
}

pub(crate) async fn take(fake: &Fake, volume: &str, name: &str) -> Result<String, Status> {
    let request = CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: name.to_owned(),
        ..Default::default()
    };
    let taken = fake
        .controller()
        .create_snapshot(request)
        .await?
        .snapshot
        .expect("a snapshot");
    assert!(taken.ready_to_use && taken.source_volume_id == volume);
    Ok(taken.snapshot_id)
}

pub(crate) fn code<T: std::fmt::Debug>(done: Result<T, Status>) -> Code {
    done.expect_err("refused").code()
}

#[tokio::test]
async fn a_volume_is_made_once_and_has_what_is_known_of_it() {
    let fake = Fake::new();
    let request = CreateVolumeRequest {
        parameters: of(&[
            ("pool", "fast"),
            ("onDelete", "now"),
            ("csi.storage.k8s.io/pvc/name", "db"),
            ("nvmeNrIoQueues", "4"),
        ]),
        mutable_parameters: of(&[("iops", "500")]),
        ..wanted("pvc-1", GIB - 5)
    };
    let made = fake
        .controller()
        .create(request.clone())
        .await
        .expect("made")
        .volume
        .expect("a volume");
    assert_eq!((made.volume_id.as_str(), made.capacity_bytes), ("1:pvc-1", GIB));
    assert_eq!(made.volume_context, of(&[("nvmeNrIoQueues", "4")]));
    assert_eq!(
        fake.controller().create(request.clone()).await.expect("there").volume,
        Some(made)
    );
    {
        let cluster = fake.cluster();
        let volume = &cluster.volumes["pvc-1"];
        let label = |key: &str| volume.labels.get(key).map(String::as_str);
        assert_eq!(cluster.volumes.len(), 1);
        assert_eq!(label("csi.amita.io/driver"), Some("csi.amita.io"));
        assert_eq!(label("csi.amita.io/on-delete"), Some("now"));
        assert_eq!(label("csi.storage.k8s.io/pvc/name"), Some("db"));
        assert_eq!(volume.limits["iops"]["both"]["rate"], 500);
    }
    for other in [
        CreateVolumeRequest {
            capacity_range: Some(CapacityRange {
                required_bytes: 2 * GIB,
                limit_bytes: 0,
            }),
            ..request.clone()
        },
        CreateVolumeRequest {
            parameters: of(&[("encrypted", "true")]),
            ..request.clone()
        },
    ] {
        assert_eq!(code(make(&fake, other).await), Code::AlreadyExists);
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_is_made() {
    let fake = Fake::new();
    let range = |required_bytes, limit_bytes| {
        Some(CapacityRange {
            required_bytes,
            limit_bytes,
        })
    };
    let sized = |required, limit| CreateVolumeRequest {
        capacity_range: range(required, limit),
        ..wanted("v", 0)
    };
    let with = |key: &str, value: &str| CreateVolumeRequest {
        parameters: of(&[(key, value)]),
        ..wanted("v", GIB)
    };
    let used = |capability| CreateVolumeRequest {
        volume_capabilities: vec![capability],
        ..wanted("v", GIB)
    };
    for (request, why) in [
        (wanted("", GIB), Code::InvalidArgument),
        (wanted(&"x".repeat(129), GIB), Code::InvalidArgument),
        (wanted("a\nb", GIB), Code::InvalidArgument),
        (sized(-1, 0), Code::InvalidArgument),
        (sized(GIB, GIB - 4096), Code::OutOfRange),
        (sized(0, 4096), Code::OutOfRange),
        (sized(i64::MAX, 0), Code::OutOfRange),
        (with("pol", "fast"), Code::InvalidArgument),
        (with("pool", "none"), Code::InvalidArgument),
        (used(mount(Mode::MultiNodeMultiWriter, "")), Code::InvalidArgument),
        (used(mount(Mode::MultiNodeReaderOnly, "")), Code::InvalidArgument),
        (
            CreateVolumeRequest {
                volume_content_source: from_snapshot("7:a@s"),
                ..wanted("v", GIB)
            },
            Code::NotFound,
        ),
        (
            CreateVolumeRequest {
                volume_content_source: from_volume("nothing"),
                ..wanted("v", GIB)
            },
            Code::NotFound,
        ),
    ] {
        let said = format!("{request:?}");
        assert_eq!(code(make(&fake, request).await), why, "{said}");
    }
    fake.cluster().pools.insert("slow".to_owned(), (2, 1 << 40, None));
    let several = fake
        .controller()
        .create(wanted("v", GIB))
        .await
        .expect_err("which pool");
    assert!(several.message().contains("fast, slow"), "{several}");
    assert!(fake.cluster().volumes.is_empty());
}

#[tokio::test]
async fn names_that_amita_does_not_take_are_summed() {
    let fake = Fake::new();
    let name = "a claim of Ärger/7".repeat(5);
    let (id, _) = make(&fake, wanted(&name, GIB)).await.expect("made");
    assert_eq!(make(&fake, wanted(&name, GIB)).await.expect("there").0, id);
    assert!(id.contains(":csi-x-") && id.len() <= 128, "{id}");
    delete(&fake, &id).await.expect("gone");
    assert!(fake.cluster().volumes.is_empty());
}

#[tokio::test]
async fn volumes_of_others_are_left_alone() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("theirs", GIB)).await.expect("made");
    fake.cluster().volumes.get_mut("theirs").expect("it").labels.clear();
    assert_eq!(code(make(&fake, wanted("theirs", GIB)).await), Code::AlreadyExists);
    delete(&fake, &id).await.expect("nothing of ours");
    assert!(fake.cluster().volumes.contains_key("theirs"));
    let listed = fake
        .controller()
        .list(ListVolumesRequest::default())
        .await
        .expect("a list");
    assert!(listed.entries.is_empty());
}

#[tokio::test]
async fn a_renamed_volume_is_found_by_its_number() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("pvc-1", GIB)).await.expect("made");
    {
        let mut cluster = fake.cluster();
        let renamed = cluster.volumes.remove("pvc-1").expect("it");
        cluster.volumes.insert("renamed".to_owned(), renamed);
    }
    let request = ControllerGetVolumeRequest { volume_id: id.clone() };
    let found = fake.controller().get(request).await.expect("it");
    assert_eq!(found.volume.expect("it").volume_id, id);
    delete(&fake, &id).await.expect("gone");
    assert!(fake.cluster().volumes.is_empty());
}

#[tokio::test]
async fn a_volume_grows_and_never_shrinks() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    let grow = |required_bytes, limit_bytes| {
        fake.controller().expand(ControllerExpandVolumeRequest {
            volume_id: id.clone(),
            capacity_range: Some(CapacityRange {
                required_bytes,
                limit_bytes,
            }),
            volume_capability: Some(block(Mode::SingleNodeWriter)),
            ..Default::default()
        })
    };
    let grown = grow(2 * GIB, 0).await.expect("grown");
    assert_eq!((grown.capacity_bytes, grown.node_expansion_required), (2 * GIB, false));
    assert_eq!(grow(GIB, 0).await.expect("large enough").capacity_bytes, 2 * GIB);
    assert_eq!(code(grow(GIB, GIB).await), Code::OutOfRange);
    // What is refused has not grown.
    let request = ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: wanted("v", 4 * GIB).capacity_range,
        volume_capability: Some(mount(Mode::MultiNodeMultiWriter, "")),
        ..Default::default()
    };
    assert_eq!(code(fake.controller().expand(request).await), Code::InvalidArgument);
    assert_eq!(fake.cluster().volumes["v"].size_bytes, 2 << 30);
}

#[tokio::test]
async fn capacity_is_what_copies_and_quotas_leave() {
    let fake = Fake::new();
    let ask = |pool: &str| {
        fake.controller().capacity(GetCapacityRequest {
            parameters: of(&[("pool", pool)]),
            ..Default::default()
        })
    };
    assert_eq!(ask("fast").await.expect("known").available_capacity, 100 * GIB);
    fake.cluster()
        .pools
        .insert("fast".to_owned(), (3, 300 << 30, Some(10 << 30)));
    make(&fake, wanted("v", 4 * GIB)).await.expect("made");
    let left = ask("fast").await.expect("known");
    assert_eq!(
        (left.available_capacity, left.maximum_volume_size),
        (6 * GIB, Some(6 * GIB))
    );
    assert_eq!(code(ask("none").await), Code::InvalidArgument);
}

#[tokio::test]
async fn an_owner_that_comes_and_goes_is_no_obstacle() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    fake.cluster().owner_changes = 2;
    delete(&fake, &id).await.expect("gone");
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    fake.cluster().owner_changes = usize::MAX;
    assert_eq!(code(delete(&fake, &id).await), Code::Aborted);
}

#[tokio::test]
async fn a_list_comes_in_pieces() {
    let fake = Fake::new();
    for name in ["c", "a", "b"] {
        make(&fake, wanted(name, GIB)).await.expect("made");
    }
    let mut token = String::new();
    let mut seen = Vec::new();
    loop {
        let request = ListVolumesRequest {
            max_entries: 2,
            starting_token: token,
        };
        let piece = fake.controller().list(request).await.expect("a piece");
        assert!(piece.entries.len() <= 2);
        seen.extend(
            piece
                .entries
                .into_iter()
                .map(|entry| entry.volume.expect("it").volume_id),
        );
        token = piece.next_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["2:a", "3:b", "1:c"]);
    let request = ListVolumesRequest {
        max_entries: 0,
        starting_token: "invalid-token".to_owned(),
    };
    assert_eq!(code(fake.controller().list(request).await), Code::Aborted);
}

#[tokio::test]
async fn limits_are_changed_and_a_move_is_asked_for_until_it_is_there() {
    let fake = Fake::new();
    fake.cluster().pools.insert("slow".to_owned(), (2, 1 << 40, None));
    let request = CreateVolumeRequest {
        parameters: of(&[("pool", "fast")]),
        ..wanted("v", GIB)
    };
    let (id, _) = make(&fake, request).await.expect("made");
    let modify = |pairs: &[(&str, &str)]| {
        fake.controller().modify(ControllerModifyVolumeRequest {
            volume_id: id.clone(),
            mutable_parameters: of(pairs),
            ..Default::default()
        })
    };
    modify(&[("bandwidth", "1000000")]).await.expect("limited");
    assert_eq!(
        fake.cluster().volumes["v"].limits["bandwidth"]["both"]["rate"],
        1_000_000
    );
    modify(&[("weight", "300"), ("reserve", "5000000")])
        .await
        .expect("ordered");
    modify(&[("weight", "0")]).await.expect("ordered");
    assert_eq!(
        fake.cluster().priorities["v"],
        serde_json::json!({"reservation": 5_000_000, "weight": null, "latency_target_us": null})
    );
    assert_eq!(code(modify(&[("copies", "2")]).await), Code::Aborted);
    assert_eq!(code(modify(&[("pool", "slow")]).await), Code::Aborted);
    assert_eq!(fake.cluster().jobs.len(), 1);
    fake.cluster().volumes.get_mut("v").expect("it").pool = "slow".to_owned();
    modify(&[("copies", "2")]).await.expect("there");
    assert_eq!(code(modify(&[("copies", "7")]).await), Code::InvalidArgument);
    assert_eq!(code(modify(&[("iop", "7")]).await), Code::InvalidArgument);
}

/// Two controllers may have begun the same at one time.
#[tokio::test]
async fn who_is_late_asks_again_and_finds_it() {
    let fake = Fake::new();
    let begin = || fake.cluster().is_late = true;
    begin();
    assert_eq!(code(make(&fake, wanted("one", GIB)).await), Code::Aborted);
    let (one, _) = make(&fake, wanted("one", GIB)).await.expect("there");
    begin();
    assert_eq!(code(take(&fake, &one, "s").await), Code::Aborted);
    let snapshot = take(&fake, &one, "s").await.expect("there");
    for (name, source) in [("two", from_snapshot(&snapshot)), ("three", from_volume(&one))] {
        let request = CreateVolumeRequest {
            volume_content_source: source,
            ..wanted(name, GIB)
        };
        begin();
        assert_eq!(code(make(&fake, request.clone()).await), Code::Aborted);
        make(&fake, request).await.expect("there");
    }
    assert_eq!(fake.cluster().volumes.len(), 3);
    let fake = Fake::new();
    group::two(&fake).await;
    fake.cluster().is_late = true;
    assert_eq!(code(group::take_both(&fake).await), Code::Aborted);
    group::take_both(&fake).await.expect("there");
    // A snapshot of somebody else's stays what it is.
    fake.cluster().snapshots.push(crate::fake::Snapshot {
        of: 1,
        name: "theirs".to_owned(),
        size_bytes: GIB as u64,
        set: None,
        mark: false,
        labels: BTreeMap::new(),
    });
    assert_eq!(code(take(&fake, "1:one", "theirs").await), Code::AlreadyExists);
    // And nothing begins as it.
    let request = CreateVolumeRequest {
        volume_content_source: from_snapshot("1:one@theirs"),
        ..wanted("three", GIB)
    };
    assert_eq!(code(make(&fake, request).await), Code::NotFound);
}

#[tokio::test]
async fn one_call_changes_a_volume_at_a_time() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    let controller = fake.controller();
    let number = VolumeId::parse(&id).expect("an id");
    fake.cut(None);
    {
        let _hold = controller.hold_volume(&number).expect("free");
        // Whatever name stands in the id.
        for id in [id.as_str(), "01:v", "1:w"] {
            let request = DeleteVolumeRequest {
                volume_id: id.to_owned(),
                ..Default::default()
            };
            assert_eq!(code(controller.clone().delete(request).await), Code::Aborted);
            let request = ControllerPublishVolumeRequest {
                volume_id: id.to_owned(),
                node_id: publish::ONE.to_owned(),
                volume_capability: Some(block(Mode::SingleNodeWriter)),
                ..Default::default()
            };
            assert_eq!(code(controller.clone().publish(request).await), Code::Aborted);
            let request = ControllerExpandVolumeRequest {
                volume_id: id.to_owned(),
                capacity_range: wanted("v", 2 * GIB).capacity_range,
                ..Default::default()
            };
            assert_eq!(code(controller.clone().expand(request).await), Code::Aborted);
            let request = ControllerModifyVolumeRequest {
                volume_id: id.to_owned(),
                ..Default::default()
            };
            assert_eq!(code(controller.clone().modify(request).await), Code::Aborted);
        }
    }
    let _hold = controller.hold_snapshots(&number).expect("free");
    let request = DeleteVolumeRequest {
        volume_id: id.clone(),
        ..Default::default()
    };
    assert_eq!(code(controller.clone().delete(request).await), Code::Aborted);
    let request = CreateSnapshotRequest {
        source_volume_id: id.clone(),
        name: "s".to_owned(),
        ..Default::default()
    };
    assert_eq!(code(controller.clone().create_snapshot(request).await), Code::Aborted);
    let request = CreateVolumeGroupSnapshotRequest {
        source_volume_ids: vec![id.clone()],
        name: "g".to_owned(),
        ..Default::default()
    };
    assert_eq!(code(controller.clone().create_group(request).await), Code::Aborted);
    assert_eq!(fake.asked(), [""; 0], "nothing is looked at that may change");
}

/// Nobody asks again after a final answer, nor has anything deleted.
#[tokio::test]
async fn what_is_refused_for_good_leaves_nothing() {
    let larger = |name: &str, source| CreateVolumeRequest {
        volume_content_source: source,
        ..wanted(name, 4 * GIB)
    };
    // Known beforehand: nothing is begun.
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    let snapshot = take(&fake, &id, "s").await.expect("taken");
    fake.cluster()
        .pools
        .insert("fast".to_owned(), (3, 300 << 30, Some(3 << 30)));
    let weighs = CreateVolumeRequest {
        mutable_parameters: of(&[("weight", "5000")]),
        ..wanted("w", GIB)
    };
    for (request, wanted) in [
        (larger("w", from_snapshot(&snapshot)), Code::ResourceExhausted),
        (larger("w", from_volume(&id)), Code::ResourceExhausted),
        (weighs, Code::InvalidArgument),
    ] {
        fake.cut(None);
        assert_eq!(code(make(&fake, request).await), wanted);
        let changed = fake.asked().into_iter().find(|asked| !asked.starts_with("GET"));
        assert_eq!(changed, None);
    }
    // Not known: it is undone, also where that is cut, and where a call before had begun it.
    for cut in [None, Some(Cut::Before(2)), Some(Cut::After(5)), Some(Cut::After(9))] {
        for source in [from_snapshot(&snapshot), from_volume(&id)] {
            for (grows_no_more, clones_nothing) in [(true, false), (false, true)] {
                fake.cluster().pools.insert("fast".to_owned(), (3, 300 << 30, None));
                fake.cluster().grows_no_more = grows_no_more;
                fake.cluster().clones_nothing = clones_nothing;
                fake.cut(cut);
                let first = make(&fake, larger("w", source.clone())).await.expect_err("no room");
                fake.cut(None);
                if first.code() == Code::Unavailable {
                    assert_eq!(
                        code(make(&fake, larger("w", source.clone())).await),
                        Code::ResourceExhausted
                    );
                }
                let cluster = fake.cluster();
                assert_eq!(cluster.volumes.keys().collect::<Vec<_>>(), ["v"], "{cut:?}");
                assert_eq!(cluster.snapshots.len(), 1, "{cut:?} {:?}", cluster.snapshots);
            }
        }
    }
    // What was whole before stays, whatever is refused of it.
    fake.cluster().grows_no_more = false;
    fake.cluster().clones_nothing = false;
    make(&fake, larger("w", from_volume(&id))).await.expect("made");
    let mut again = larger("w", from_volume(&id));
    again.parameters = of(&[("encrypted", "true")]);
    assert_eq!(code(make(&fake, again).await), Code::AlreadyExists);
    assert!(fake.cluster().volumes.contains_key("w"));
}

/// A token that has ended, or an answer of another form, says nothing of what a call before has made.
#[tokio::test]
async fn what_may_be_there_is_never_refused_for_good() {
    let request = || CreateVolumeRequest {
        mutable_parameters: of(&[("iops", "500")]),
        ..made_in("v", "fast,slow")
    };
    let fresh = || {
        let fake = Fake::new();
        fake.cluster().pools.insert("slow".to_owned(), (3, 1 << 30, None));
        fake
    };
    let whole = fresh();
    whole.cut(None);
    make(&whole, request()).await.expect("made");
    let all: Vec<&str> = whole.asked().iter().map(|asked| beginning(asked)).collect();
    for (status, code) in [(401, "unauthenticated"), (403, "denied"), (500, "internal")] {
        for refused in &all {
            for answer_was_lost in [false, true] {
                let fake = fresh();
                if answer_was_lost {
                    let at = all
                        .iter()
                        .position(|asked| *asked == "POST /volumes")
                        .expect("it is made")
                        + 1;
                    fake.cut(Some(Cut::After(at)));
                    make(&fake, request()).await.expect_err("it was cut");
                    fake.cut(None);
                }
                fake.cluster().refuses = Some((refused, status, code));
                // A volume that is there is not made once more.
                if let Err(why) = make(&fake, request()).await {
                    assert_eq!(why.code(), Code::Unavailable, "{refused} {code}: {why}");
                }
                fake.cluster().refuses = None;
                let (id, _) = make(&fake, request()).await.expect("made");
                delete(&fake, &id).await.expect("gone");
                assert!(fake.cluster().volumes.is_empty());
            }
        }
    }
}

fn made_in(name: &str, pools: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: of(&[("pool", pools)]),
        ..wanted(name, GIB)
    }
}

/// What a request is, without what it is of.
fn beginning(asked: &str) -> &'static str {
    let kinds = [
        "GET /pools",
        "GET /nodes",
        "GET /stores",
        "POST /volumes",
        "PUT /volumes/v/limits",
        "GET /volumes/v/limits",
        "GET /volumes/v",
    ];
    let found = kinds.into_iter().find(|kind| asked.starts_with(kind));
    found.unwrap_or_else(|| panic!("nobody is asked for {asked}"))
}

/// What is refused of a volume that is there already, and that somebody may have been told of, is asked for again: after a final answer nobody would delete it.
#[tokio::test]
async fn what_is_refused_of_what_is_there_is_asked_for_again() {
    let fake = Fake::new();
    fake.cluster().pools.insert("slow".to_owned(), (3, 1 << 30, None));
    let asked = async |limits: &[(&str, &str)]| {
        let request = CreateVolumeRequest {
            mutable_parameters: of(limits),
            ..made_in("v", "fast,slow")
        };
        make(&fake, request).await
    };
    fake.cut(Some(Cut::After(5)));
    assert_eq!(code(asked(&[]).await), Code::Unavailable);
    fake.cut(None);
    assert!(
        fake.cluster().volumes.contains_key("v"),
        "it was made, and nobody knows"
    );
    // One of the class's pools is no more.
    let gone = fake.cluster().pools.remove("slow").expect("a pool");
    let why = asked(&[]).await.expect_err("the class is wrong");
    assert_eq!(why.code(), Code::Aborted);
    assert!(
        why.message().contains("there is no pool") && why.message().contains("volume v"),
        "{why}"
    );
    fake.cluster().pools.insert("slow".to_owned(), gone);
    // Nor is it final where its limits are not taken.
    fake.cluster().refuses = Some(("PUT /volumes/v/limits", 422, "bad-setting"));
    assert_eq!(code(asked(&[("iops", "500")]).await), Code::Aborted);
    fake.cluster().refuses = None;
    let (id, _) = asked(&[("iops", "500")]).await.expect("made");
    delete(&fake, &id).await.expect("gone");
    // Where nothing is there it is, and leaves nothing.
    fake.cluster().pools.remove("slow");
    assert_eq!(code(asked(&[]).await), Code::InvalidArgument);
    fake.cluster().pools.insert("slow".to_owned(), (3, 1 << 30, None));
    fake.cluster().refuses = Some(("PUT /volumes/v/limits", 422, "bad-setting"));
    assert_eq!(code(asked(&[("iops", "500")]).await), Code::InvalidArgument);
    assert!(fake.cluster().volumes.is_empty());
    // An undoing that is refused is none.
    fake.cluster().refuses = None;
    fake.cluster().grows_no_more = true;
    let (id, _) = make(&fake, made_in("one", "fast")).await.expect("made");
    let snapshot = take(&fake, &id, "s").await.expect("taken");
    fake.cluster().refuses = Some(("DELETE /volumes/v", 403, "denied"));
    let larger = CreateVolumeRequest {
        parameters: of(&[("pool", "fast")]),
        volume_content_source: from_snapshot(&snapshot),
        ..wanted("v", 4 * GIB)
    };
    assert_eq!(code(make(&fake, larger.clone()).await), Code::Unavailable);
    fake.cluster().refuses = None;
    assert_eq!(code(make(&fake, larger).await), Code::ResourceExhausted);
    assert!(!fake.cluster().volumes.contains_key("v"));
}
