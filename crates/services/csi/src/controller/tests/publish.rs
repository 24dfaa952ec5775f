use super::*;
use crate::controller::FENCED;
use crate::fake;
use crate::id::host_nqn;
use uuid::Uuid;

pub(super) const ONE: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
pub(super) const TWO: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";

pub(super) fn nqn(node: &str) -> String {
    host_nqn(Uuid::try_parse(node).expect("an id"))
}

pub(super) async fn publish(
    fake: &Fake,
    volume: &str,
    node: &str,
    mode: Mode,
) -> Result<BTreeMap<String, String>, Status> {
    let request = ControllerPublishVolumeRequest {
        volume_id: volume.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(block(mode)),
        ..Default::default()
    };
    Ok(fake.controller().publish(request).await?.publish_context)
}

pub(super) async fn unpublish(fake: &Fake, volume: &str, node: &str) -> Result<(), Status> {
    let request = ControllerUnpublishVolumeRequest {
        volume_id: volume.to_owned(),
        node_id: node.to_owned(),
        ..Default::default()
    };
    fake.controller().unpublish(request).await.map(drop)
}

#[tokio::test]
async fn a_node_is_let_in_told_where_and_taken_off_again() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    let told = publish(&fake, &id, ONE, Mode::SingleNodeWriter)
        .await
        .expect("published");
    assert!(told["nqn"].ends_with(":csi-9335b10e-1"), "{told:?}");
    assert_eq!(told["portals"], "192.0.2.1:4420,192.0.2.2:4420");
    assert_eq!(
        (told.get("exclusive").map(String::as_str), told.get("preempt")),
        (Some("1"), None)
    );
    assert_eq!(
        publish(&fake, &id, ONE, Mode::SingleNodeWriter)
            .await
            .expect("published already"),
        told
    );
    assert_eq!(fake.cluster().subsystems["csi-9335b10e-1"].hosts, [nqn(ONE)]);
    let listed = fake
        .controller()
        .list(ListVolumesRequest::default())
        .await
        .expect("a list");
    assert_eq!(listed.entries[0].status.as_ref().expect("it").published_node_ids, [ONE]);
    assert_eq!(code(delete(&fake, &id).await), Code::FailedPrecondition);
    unpublish(&fake, &id, ONE).await.expect("taken off");
    unpublish(&fake, &id, ONE).await.expect("off already");
    assert!(fake.cluster().subsystems.is_empty());
    delete(&fake, &id).await.expect("gone");
    unpublish(&fake, &id, ONE).await.expect("gone already");
}

#[tokio::test]
async fn a_volume_of_one_node_goes_to_the_next_when_nobody_has_it() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    publish(&fake, &id, ONE, Mode::SingleNodeWriter)
        .await
        .expect("published");
    let refused = publish(&fake, &id, TWO, Mode::SingleNodeWriter)
        .await
        .expect_err("another has it");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains(ONE), "{refused}");
    // The first node is lost, and nobody asks it; what it has reserved is named to the second.
    fake.cluster()
        .reservations
        .insert("v".to_owned(), (ONE.to_owned(), "0x00000000000000aa".to_owned()));
    unpublish(&fake, &id, ONE).await.expect("taken off");
    let told = publish(&fake, &id, TWO, Mode::SingleNodeSingleWriter)
        .await
        .expect("published");
    assert_eq!(told["preempt"], "0x00000000000000aa");
    assert_eq!(fake.cluster().subsystems["csi-9335b10e-1"].hosts, [nqn(TWO)]);
    // Was it making a file system? That is said, too.
    assert_eq!(told.get("unfinished"), None);
    let lost = Uuid::try_parse(ONE).expect("an id");
    let making = format!("{:#018x}", crate::id::making_key(lost));
    fake.cluster()
        .reservations
        .insert("v".to_owned(), (ONE.to_owned(), making.clone()));
    let told = publish(&fake, &id, TWO, Mode::SingleNodeWriter)
        .await
        .expect("published already");
    assert_eq!((&told["preempt"], told["unfinished"].as_str()), (&making, "1"));
    // Its own is not in its way.
    fake.cluster()
        .reservations
        .insert("v".to_owned(), (TWO.to_owned(), "0x00000000000000bb".to_owned()));
    let told = publish(&fake, &id, TWO, Mode::SingleNodeWriter)
        .await
        .expect("published already");
    assert_eq!(told.get("preempt"), None);
}

#[tokio::test]
async fn a_disk_of_several_nodes_is_not_reserved() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    for node in [ONE, TWO] {
        let told = publish(&fake, &id, node, Mode::MultiNodeMultiWriter)
            .await
            .expect("published");
        assert_eq!((told.get("exclusive"), told.get("release")), (None, None));
    }
    assert_eq!(fake.cluster().subsystems["csi-9335b10e-1"].hosts.len(), 2);
    unpublish(&fake, &id, ONE).await.expect("taken off");
    assert_eq!(fake.cluster().subsystems["csi-9335b10e-1"].hosts, [nqn(TWO)]);
    unpublish(&fake, &id, "").await.expect("all of them");
    assert!(fake.cluster().subsystems.is_empty());
    // What it was reserved by while it was one node's would keep all others from writing.
    for (holder, preempt) in [(ONE, None), (TWO, Some("0x00000000000000aa"))] {
        let reservation = (holder.to_owned(), "0x00000000000000aa".to_owned());
        fake.cluster().reservations.insert("v".to_owned(), reservation);
        let told = publish(&fake, &id, ONE, Mode::MultiNodeMultiWriter)
            .await
            .expect("published");
        assert_eq!(told["release"], "1");
        assert_eq!(told.get("preempt").map(String::as_str), preempt);
    }
}

#[tokio::test]
async fn what_is_published_to_whom_has_to_be_there() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    let mode = Mode::SingleNodeWriter;
    assert_eq!(code(publish(&fake, "9:none", ONE, mode).await), Code::NotFound);
    assert_eq!(
        code(publish(&fake, &id, "some-fake-node-id", mode).await),
        Code::NotFound
    );
    assert_eq!(code(publish(&fake, "", ONE, mode).await), Code::InvalidArgument);
    assert_eq!(code(publish(&fake, &id, "", mode).await), Code::InvalidArgument);
    assert_eq!(
        code(publish(&fake, &id, ONE, Mode::MultiNodeReaderOnly).await),
        Code::FailedPrecondition
    );
    let fenced = fake::Subsystem {
        hosts: vec![nqn(ONE)],
        ..Default::default()
    };
    fake.cluster().subsystems.insert(FENCED.to_owned(), fenced);
    assert_eq!(code(publish(&fake, &id, ONE, mode).await), Code::FailedPrecondition);
    publish(&fake, &id, TWO, mode).await.expect("another node");
}

#[tokio::test]
async fn what_is_only_read_is_published_as_a_snapshot_of_it() {
    let fake = Fake::new();
    let (source, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    let snapshot = take(&fake, &source, "s").await.expect("taken");
    let request = CreateVolumeRequest {
        volume_capabilities: vec![mount(Mode::MultiNodeReaderOnly, "")],
        volume_content_source: from_snapshot(&snapshot),
        ..wanted("ro", GIB)
    };
    let (id, _) = make(&fake, request).await.expect("made");
    for node in [ONE, TWO] {
        publish(&fake, &id, node, Mode::MultiNodeReaderOnly)
            .await
            .expect("published");
    }
    let subsystem = fake.cluster().subsystems["csi-9335b10e-2"].clone();
    assert_eq!(subsystem.namespaces, ["ro@csi-read-only"]);
    assert_eq!(
        code(publish(&fake, &id, ONE, Mode::SingleNodeWriter).await),
        Code::FailedPrecondition
    );
    unpublish(&fake, &id, "").await.expect("taken off");
    delete(&fake, &id).await.expect("gone");
    assert!(!fake.cluster().volumes.contains_key("ro"));
}

#[tokio::test]
async fn who_was_taken_off_by_a_call_that_was_cut_is_cut_off_before_the_next_one_comes() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    publish(&fake, &id, ONE, Mode::SingleNodeWriter)
        .await
        .expect("published");
    // The controller is ended between the two: the list is empty, and nobody has waited.
    fake.cluster()
        .subsystems
        .values_mut()
        .for_each(|found| found.hosts.clear());
    let wait = std::time::Duration::from_millis(200);
    let mut controller = fake.controller();
    controller.cut_off = wait;
    let request = ControllerPublishVolumeRequest {
        volume_id: id.clone(),
        node_id: TWO.to_owned(),
        volume_capability: Some(block(Mode::SingleNodeWriter)),
        ..Default::default()
    };
    let begun = std::time::Instant::now();
    controller.publish(request).await.expect("published");
    assert!(begun.elapsed() >= wait);
}

/// What a lost host has queued it sends when it is let in again by the name that it was lost by.
#[tokio::test]
async fn a_name_by_which_a_host_was_let_in_is_not_used_for_the_next_one() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    let mut seen = std::collections::BTreeSet::new();
    let mut last = 0;
    for node in [ONE, TWO, ONE, ONE] {
        let told = publish(&fake, &id, node, Mode::SingleNodeWriter)
            .await
            .expect("published");
        let again = publish(&fake, &id, node, Mode::SingleNodeWriter).await;
        assert_eq!(again.expect("published already")["nqn"], told["nqn"]);
        assert!(seen.insert(told["nqn"].clone()), "{told:?}");
        // And of two attachments everybody knows which is the newer one.
        let number: u32 = told["attachment"].parse().expect("a number");
        assert!(number > last, "{told:?}");
        last = number;
        unpublish(&fake, &id, node).await.expect("taken off");
    }
    // Of several nodes the name is that of all, until nobody has it.
    let shared = Mode::MultiNodeMultiWriter;
    let first = publish(&fake, &id, ONE, shared).await.expect("published");
    let second = publish(&fake, &id, TWO, shared).await.expect("published");
    assert_eq!(first["nqn"], second["nqn"]);
    unpublish(&fake, &id, ONE).await.expect("taken off");
    fence::fence(&fake, &[TWO]).await.expect("fenced");
    let third = publish(&fake, &id, ONE, shared).await.expect("published");
    assert_ne!(first["nqn"], third["nqn"]);
}

#[tokio::test]
async fn whose_others_have_gone_meanwhile_comes_again() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    let shared = Mode::MultiNodeMultiWriter;
    let first = publish(&fake, &id, ONE, shared).await.expect("published");
    fake.cluster().others_go = true;
    assert_eq!(code(publish(&fake, &id, TWO, shared).await), Code::Aborted);
    let second = publish(&fake, &id, TWO, shared).await.expect("published");
    assert_ne!(first["nqn"], second["nqn"]);
}

/// A key for TLS lies in the keyring of each host for the pair of host and subsystem, before anybody connects.
#[tokio::test]
async fn by_tls_a_volume_keeps_its_name() {
    let fake = Fake::new();
    let (id, _) = make(&fake, wanted("v", GIB)).await.expect("made");
    for node in [ONE, TWO] {
        let request = ControllerPublishVolumeRequest {
            volume_id: id.clone(),
            node_id: node.to_owned(),
            volume_capability: Some(block(Mode::SingleNodeWriter)),
            volume_context: of(&[("tlsRequired", "true")]),
            ..Default::default()
        };
        let told = fake.controller().publish(request).await.expect("published");
        assert_eq!(
            told.publish_context["nqn"],
            "nqn.2026-11.io.amita:01234567:csi-9335b10e-1"
        );
        unpublish(&fake, &id, node).await.expect("taken off");
    }
}
