//! Publishing by iSCSI: who says so, who is let in, what a node is told, and who is cut off.

use super::cut::everywhere;
use super::fence::{fence, unfence};
use super::publish::{ONE, TWO, publish, unpublish};
use super::*;
use crate::id::{self, Keys};
use crate::protocol::NodeId;
use serde_json::json;
use uuid::Uuid;

const TARGET: &str = "csi-9335b10e-1";

fn alone(node: &str) -> String {
    format!("{node}.iscsi")
}

fn initiator(node: &str) -> String {
    NodeId::parse(node).expect("an id").initiator()
}

async fn by_class(fake: &Fake, node: &str, protocol: &str, mode: Mode) -> Result<BTreeMap<String, String>, Status> {
    let request = ControllerPublishVolumeRequest {
        volume_id: "1:v".to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(block(mode)),
        volume_context: of(&[("protocol", protocol)]),
        ..Default::default()
    };
    Ok(fake.controller().publish(request).await?.publish_context)
}

async fn one() -> Fake {
    let fake = Fake::new();
    make(&fake, wanted("v", GIB)).await.expect("made");
    fake
}

fn initiators(fake: &Fake) -> Vec<String> {
    let cluster = fake.cluster();
    cluster
        .targets
        .get(TARGET)
        .map(|found| found.initiators.clone())
        .unwrap_or_default()
}

#[tokio::test]
async fn a_class_says_so_or_a_node_that_can_nothing_else() {
    let fake = one().await;
    let mode = Mode::SingleNodeWriter;
    let told = by_class(&fake, ONE, "iscsi", mode).await.expect("published");
    assert!(told["iqn"].ends_with(":csi-9335b10e-1"), "{told:?}");
    assert_eq!(told["portals"], "192.0.2.1:3260#1,192.0.2.2:3260#2");
    assert_eq!((told["lun"].as_str(), told["exclusive"].as_str()), ("0", "1"));
    assert_eq!((&told["initiator"], told.get("nqn")), (&initiator(ONE), None));
    assert_eq!(by_class(&fake, ONE, "iscsi", mode).await.expect("already"), told);
    assert_eq!(initiators(&fake), [initiator(ONE)]);
    assert!(fake.cluster().subsystems.is_empty());
    let list = || async {
        let all = fake
            .controller()
            .list(ListVolumesRequest::default())
            .await
            .expect("a list");
        all.entries[0].status.clone().expect("it").published_node_ids
    };
    assert_eq!(list().await, [ONE]);
    assert_eq!(code(delete(&fake, "1:v").await), Code::FailedPrecondition);
    assert_eq!(
        code(by_class(&fake, &alone(TWO), "", mode).await),
        Code::FailedPrecondition
    );
    unpublish(&fake, "1:v", ONE).await.expect("taken off");
    assert!(fake.cluster().targets.is_empty());
    // A node that has no NVMe/TCP has what no class says anything of, and is known by what it is.
    let again = by_class(&fake, &alone(TWO), "", mode).await.expect("published");
    assert_ne!(again["iqn"], told["iqn"]);
    assert_eq!(list().await, [alone(TWO)]);
    assert_eq!(
        code(by_class(&fake, &alone(TWO), "nvme", mode).await),
        Code::FailedPrecondition
    );
    // One that can more by now is the same host, and is taken off as such.
    unpublish(&fake, "1:v", TWO).await.expect("taken off");
    assert!(fake.cluster().targets.is_empty());
    publish(&fake, "1:v", TWO, mode).await.expect("published by NVMe/TCP");
    assert_eq!(
        code(by_class(&fake, &alone(ONE), "", mode).await),
        Code::FailedPrecondition
    );
    unpublish(&fake, "1:v", "").await.expect("taken off");
    delete(&fake, "1:v").await.expect("gone");
}

/// The first node is lost, and nobody asks it.
#[tokio::test]
async fn a_lost_node_is_cut_off_and_what_it_was_registered_by_is_named() {
    let fake = one().await;
    let mode = Mode::SingleNodeWriter;
    let before = by_class(&fake, ONE, "iscsi", mode).await.expect("published");
    let refused = by_class(&fake, TWO, "iscsi", mode).await.expect_err("another has it");
    assert!(refused.message().contains(ONE), "{refused}");
    let lost = Uuid::try_parse(ONE).expect("an id");
    let keys = Keys::of(lost, before["attachment"].parse().ok());
    let known = |key: u64, session: u8, holder: bool| {
        let initiator = format!("{},i,0x00023d00000{session}", initiator(ONE));
        json!({"host_id": Uuid::from_u128(u128::from(session)).to_string(), "port": {"initiator": initiator, "tag": 1},
            "key": format!("{key:#018x}"), "holder": holder})
    };
    let all = vec![
        known(keys.own, 1, false),
        known(keys.making, 2, true),
        known(0xaa, 3, false),
        known(0xaa, 4, false),
    ];
    fake.cluster().registrants.insert("v".to_owned(), all);
    unpublish(&fake, "1:v", ONE).await.expect("taken off");
    assert_eq!(initiators(&fake), [""; 0]);
    let told = by_class(&fake, TWO, "iscsi", mode).await.expect("published");
    assert_ne!(told["iqn"], before["iqn"]);
    // All of it, and the holder first: registrants write beside it.
    let wanted = [keys.making, keys.own, 0xaa]
        .map(|key| format!("{key:#018x}"))
        .join(",");
    assert_eq!((&told["preempt"], told["unfinished"].as_str()), (&wanted, "1"));
    // Of a node's own attachment nothing is in its way.
    let own = Keys::of(Uuid::try_parse(TWO).expect("an id"), told["attachment"].parse().ok());
    fake.cluster()
        .registrants
        .insert("v".to_owned(), vec![known(own.own, 1, true)]);
    assert_eq!(
        by_class(&fake, TWO, "iscsi", mode)
            .await
            .expect("already")
            .get("preempt"),
        None
    );
    // Whoever has it by NVMe/TCP next is told of that host, too.
    unpublish(&fake, "1:v", TWO).await.expect("taken off");
    fake.cluster()
        .registrants
        .insert("v".to_owned(), vec![known(keys.making, 2, true)]);
    let told = publish(&fake, "1:v", TWO, mode).await.expect("published");
    assert_eq!(id::key_of(&told["preempt"]), Some(keys.making));
    assert_eq!(told["unfinished"], "1");
}

#[tokio::test]
async fn what_was_left_empty_is_in_nobodys_way() {
    let fake = one().await;
    // A call was cut before it let anybody in.
    fake.cut(Some(Cut::After(5)));
    by_class(&fake, ONE, "iscsi", Mode::SingleNodeWriter)
        .await
        .expect_err("it was cut");
    fake.cut(None);
    assert_eq!(fake.cluster().targets[TARGET].luns, ["v"]);
    assert_eq!(initiators(&fake), [""; 0]);
    publish(&fake, "1:v", ONE, Mode::SingleNodeWriter)
        .await
        .expect("published by NVMe/TCP");
    assert!(fake.cluster().targets.is_empty());
    fake.cluster().subsystems.get_mut(TARGET).expect("it").hosts.clear();
    by_class(&fake, ONE, "iscsi", Mode::SingleNodeWriter)
        .await
        .expect("published");
    assert!(fake.cluster().subsystems.is_empty());
}

#[tokio::test]
async fn a_fenced_host_is_cut_off_there_too() {
    let fake = one().await;
    let mode = Mode::MultiNodeMultiWriter;
    for node in [&alone(ONE), TWO] {
        by_class(&fake, node, "iscsi", mode).await.expect("published");
    }
    fence(&fake, &[ONE]).await.expect("fenced");
    assert_eq!(initiators(&fake), [initiator(TWO)]);
    assert_eq!(
        code(by_class(&fake, &alone(ONE), "iscsi", mode).await),
        Code::FailedPrecondition
    );
    unfence(&fake, &[ONE]).await.expect("let in");
    by_class(&fake, &alone(ONE), "iscsi", mode).await.expect("published");
    // Just when one is let in, the other has gone, and the name is one that was used.
    unpublish(&fake, "1:v", ONE).await.expect("taken off");
    fake.cluster().others_go = true;
    assert_eq!(code(by_class(&fake, ONE, "iscsi", mode).await), Code::Aborted);
    by_class(&fake, ONE, "iscsi", mode).await.expect("published");
}

#[tokio::test]
async fn each_call_may_be_cut_anywhere() {
    let before = async |fake: &Fake| drop(make(fake, wanted("v", GIB)).await.expect("made"));
    let let_in = async |fake: &Fake| by_class(fake, ONE, "iscsi", Mode::SingleNodeWriter).await.map(drop);
    let published = async |fake: &Fake| {
        before(fake).await;
        let_in(fake).await.expect("published");
    };
    everywhere(before, let_in).await;
    everywhere(published, async |fake: &Fake| unpublish(fake, "1:v", ONE).await).await;
    everywhere(published, async |fake: &Fake| fence(fake, &[ONE]).await).await;
}
