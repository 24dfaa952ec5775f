//! Inline volumes: of a cluster and a machine that are both made up, and cut at each request and at each thing that is done to the machine.

use super::initiator::{Initiator, NAA};
use super::*;
use crate::api::{Answer, Api, Ask, Boxed, Way};
use crate::controller::Controller;
use crate::fake::{self, Fake};
use crate::node::inline::{Inline, quantity};
use std::time::Duration;

/// What kubelet calls the volume.
const NAME: &str = "csi-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The cluster; the machine connects to what is published of it.
struct Both(Fake, Host);

impl Way for Both {
    fn ask(&self, ask: Ask) -> Boxed<'_, Result<Answer, String>> {
        Box::pin(async move {
            let said = self.0.ask(ask).await;
            if let Some(nqn) = self.0.cluster().nqns.values().next_back() {
                self.1.state().nqn.clone_from(nqn);
            }
            said
        })
    }
}

struct World {
    fake: Fake,
    host: Host,
    /// Of the class, beside its pool.
    more: &'static [(&'static str, &'static str)],
}

impl World {
    fn new() -> World {
        let (fake, host) = (Fake::new(), Host::new(&nqn()));
        fake.cluster().uuid = Some(host::DISK_UUID.to_owned());
        World { fake, host, more: &[] }
    }

    /// A driver that was just started.
    fn node(&self) -> Node {
        let driver = Driver::new(USUAL_NAME).expect("a name");
        let api = Api::new(Arc::new(Both(self.fake.clone(), self.host.clone())));
        let own = [("pool", "fast")];
        let all = own.iter().chain(self.more);
        let parameters = all
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let inline = Inline::new(Controller::new(driver, api).at_once(), parameters, 2 << 30).expect("parameters");
        node(&self.host).with_inline(inline)
    }

    async fn publish(&self) -> Result<(), Status> {
        self.node().publish_any(wanted(&[("size", "1Gi")])).await.map(drop)
    }

    async fn unpublish(&self) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: NAME.to_owned(),
            target_path: TARGET.to_owned(),
        };
        self.node().unpublish_any(request).await.map(drop)
    }

    fn is_empty(&self) -> bool {
        let (cluster, host) = (self.fake.cluster(), self.host.state());
        cluster.volumes.is_empty() && cluster.subsystems.is_empty() && host.paths.is_empty() && host.mounts.is_empty()
    }

    fn shape(&self) -> String {
        format!("{} {}", self.fake.shape(), self.host.shape())
    }
}

fn wanted(attributes: &[(&str, &str)]) -> NodePublishVolumeRequest {
    let own = [
        ("csi.storage.k8s.io/ephemeral", "true"),
        ("csi.storage.k8s.io/pod.name", "web-0"),
        ("csi.storage.k8s.io/pod.namespace", "shop"),
        ("csi.storage.k8s.io/pod.uid", "1"),
    ];
    let all = own.iter().chain(attributes);
    NodePublishVolumeRequest {
        volume_id: NAME.to_owned(),
        target_path: TARGET.to_owned(),
        volume_capability: Some(writer("")),
        volume_context: all
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_pods_volume_is_made_with_it_and_goes_with_it() {
    let world = World::new();
    world.publish().await.expect("shown");
    {
        let cluster = world.fake.cluster();
        let (_, volume) = cluster.volumes.first_key_value().expect("a volume");
        let label = |key: &str| volume.labels.get(key).map(String::as_str);
        assert_eq!((volume.pool.as_str(), volume.size_bytes), ("fast", 1 << 30));
        assert_eq!(label("csi.amita.io/inline"), Some(own().to_string().as_str()));
        assert_eq!(label("csi.storage.k8s.io/pod.name"), Some("web-0"));
        assert_eq!(label("csi.storage.k8s.io/pod.namespace"), Some("shop"));
        let host = world.host.state();
        assert_eq!(
            host.mounts.iter().map(|mount| mount.at.as_str()).collect::<Vec<_>>(),
            [TARGET]
        );
        assert_eq!(host.content.as_deref(), Some("ext4"));
    }
    let request = NodeGetVolumeStatsRequest {
        volume_id: NAME.to_owned(),
        volume_path: TARGET.to_owned(),
        ..Default::default()
    };
    world.node().stats(&request).expect("how full it is");
    let shape = world.shape();
    world.publish().await.expect("it is there");
    assert_eq!(world.shape(), shape);
    world.unpublish().await.expect("gone");
    assert!(world.is_empty(), "{}", world.shape());
    world.unpublish().await.expect("gone already");
}

/// Each is cut at each request and at each thing that is done to the machine, and asked for again of a driver that was started anew; or, as where the pod is
/// deleted meanwhile, the volume is wanted no more.
#[tokio::test]
async fn each_may_be_cut_anywhere_and_leaves_nothing() {
    let whole = World::new();
    whole.publish().await.expect("shown");
    let (requests, done) = (whole.fake.asked().len(), whole.host.done());
    let content = whole.host.state().content.clone();
    let cuts = |requests: usize, done: usize| {
        let of_requests = (1..=requests).flat_map(|at| [fake::Cut::Before(at), fake::Cut::After(at)]);
        let of_machine = (1..=done).flat_map(|at| [Cut::Before(at), Cut::After(at)]);
        let first = of_requests.map(|cut| (Some(cut), None));
        first.chain(of_machine.map(|cut| (None, Some(cut)))).collect::<Vec<_>>()
    };
    for (request, thing) in cuts(requests, done) {
        for is_wanted in [true, false] {
            let world = World::new();
            world.fake.cut(request);
            world.host.cut(thing);
            world.publish().await.expect_err("it was cut");
            world.fake.cut(None);
            world.host.cut(None);
            if is_wanted {
                let again = world.publish().await;
                again.unwrap_or_else(|why| panic!("{request:?} {thing:?}: {why}"));
                assert_eq!(world.fake.cluster().volumes.len(), 1);
                assert_eq!(world.host.state().mounts.len(), 1);
                assert_eq!(world.host.state().content, content);
            }
            let gone = world.unpublish().await;
            gone.unwrap_or_else(|why| panic!("{request:?} {thing:?}: {why}"));
            assert!(world.is_empty(), "{request:?} {thing:?}: {}", world.shape());
        }
    }
    whole.fake.cut(None);
    whole.host.cut(None);
    whole.unpublish().await.expect("gone");
    let (requests, done) = (whole.fake.asked().len(), whole.host.done());
    for (request, thing) in cuts(requests, done) {
        let world = World::new();
        world.publish().await.expect("shown");
        world.fake.cut(request);
        world.host.cut(thing);
        world.unpublish().await.expect_err("it was cut");
        world.fake.cut(None);
        world.host.cut(None);
        let gone = world.unpublish().await;
        gone.unwrap_or_else(|why| panic!("{request:?} {thing:?}: {why}"));
        assert!(world.is_empty(), "{request:?} {thing:?}: {}", world.shape());
    }
}

#[tokio::test]
async fn what_nobody_comes_back_for_is_collected_and_nothing_else() {
    let world = World::new();
    // A claim's volume, and another node's, are none of its business.
    let of_others = |labels: &[(&str, &str)]| fake::Volume {
        id: 90,
        pool: "fast".to_owned(),
        size_bytes: 1 << 30,
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        encrypted: false,
        tenant: None,
        parent: None,
        limits: serde_json::json!({}),
    };
    let claim = of_others(&[("csi.amita.io/driver", USUAL_NAME), ("csi.amita.io/name", "pvc")]);
    let other = of_others(&[
        ("csi.amita.io/driver", USUAL_NAME),
        ("csi.amita.io/name", "x"),
        ("csi.amita.io/inline", "7c9e6679-7425-40de-944b-e07fc1f90ae7"),
    ]);
    world
        .fake
        .cluster()
        .volumes
        .extend([("pvc".to_owned(), claim), ("x".to_owned(), other)]);
    world.publish().await.expect("shown");
    let node = world.node();
    let pass = |seconds| world.host.state().passed += Duration::from_secs(seconds);
    let count = || world.fake.cluster().volumes.len();
    node.end_of_left_inline().await.expect("looked at");
    pass(3600);
    node.end_of_left_inline().await.expect("looked at");
    assert_eq!(count(), 3, "it is used");
    // Its mount is gone, and nobody comes.
    world.host.state().mounts.clear();
    node.end_of_left_inline().await.expect("looked at");
    pass(600);
    node.end_of_left_inline().await.expect("looked at");
    assert_eq!(count(), 3, "somebody may come yet");
    pass(600);
    node.end_of_left_inline().await.expect("looked at");
    assert_eq!(count(), 2);
    let host = world.host.state();
    assert!(host.paths.is_empty());
    assert!(world.fake.cluster().subsystems.is_empty());
}

/// What a pod uses is what decrypts the disk, and not the disk.
#[tokio::test]
async fn what_is_encrypted_here_is_used_while_its_text_is_and_is_collected_with_it() {
    let world = World {
        more: &[("encryptedBySecret", "true")],
        ..World::new()
    };
    let passphrase = ("encryptionPassphrase".to_owned(), "correct horse battery".to_owned());
    let request = NodePublishVolumeRequest {
        secrets: BTreeMap::from([passphrase]),
        ..wanted(&[("size", "1Gi")])
    };
    world.node().publish_any(request).await.expect("shown");
    let node = world.node();
    let pass = |seconds| world.host.state().passed += Duration::from_secs(seconds);
    let count = || world.fake.cluster().volumes.len();
    node.end_of_left_inline().await.expect("looked at");
    pass(3600);
    node.end_of_left_inline().await.expect("looked at");
    assert_eq!(count(), 1, "it is used");
    // Its mount is gone, what decrypts it is left, and nobody comes: from now on it is unused, and not since it was made.
    world.host.state().mounts.clear();
    node.end_of_left_inline().await.expect("looked at");
    assert_eq!(count(), 1, "somebody may come yet");
    pass(1200);
    node.end_of_left_inline().await.expect("looked at");
    assert_eq!(count(), 0);
    let host = world.host.state();
    assert!(host.paths.is_empty() && host.mapping.is_none());
}

#[tokio::test]
async fn what_a_pod_may_not_have_is_refused_before_anything_is_made() {
    let world = World::new();
    let refused = async |request: NodePublishVolumeRequest| code(world.node().publish_any(request).await);
    for (key, value, why) in [
        ("pool", "other", Code::InvalidArgument),
        ("onDelete", "now", Code::InvalidArgument),
        ("size", "much", Code::InvalidArgument),
        ("size", "0", Code::InvalidArgument),
        ("size", "-1", Code::InvalidArgument),
        ("size", "3Gi", Code::OutOfRange),
        ("size", "99999999999Ti", Code::InvalidArgument),
    ] {
        assert_eq!(refused(wanted(&[(key, value)])).await, why, "{key}={value}");
    }
    for request in [
        NodePublishVolumeRequest {
            readonly: true,
            ..wanted(&[])
        },
        NodePublishVolumeRequest {
            volume_capability: Some(block(Mode::SingleNodeWriter)),
            ..wanted(&[])
        },
        NodePublishVolumeRequest {
            volume_id: VOLUME.to_owned(),
            ..wanted(&[])
        },
        NodePublishVolumeRequest {
            target_path: "pods/1".to_owned(),
            ..wanted(&[])
        },
    ] {
        assert_eq!(refused(request).await, Code::InvalidArgument);
    }
    // It is off by itself.
    let without = node(&world.host).publish_any(wanted(&[])).await;
    assert_eq!(code(without), Code::FailedPrecondition);
    assert!(world.fake.asked().is_empty() && world.is_empty());
    for (text, bytes) in [
        ("1Gi", Some(1 << 30)),
        ("512", Some(512)),
        ("3Ki", Some(3 << 10)),
        ("1G", None),
        ("", None),
    ] {
        assert_eq!(quantity(text), bytes, "{text}");
    }
}

/// The cluster; the machine, which has iSCSI alone, is let in to what is published of it.
struct ByIscsi(Fake, Initiator);

impl Way for ByIscsi {
    fn ask(&self, ask: Ask) -> Boxed<'_, Result<Answer, String>> {
        Box::pin(async move {
            let said = self.0.ask(ask).await;
            let targets: Vec<String> = self
                .0
                .cluster()
                .targets
                .values()
                .map(|found| found.iqn.clone())
                .collect();
            self.1.state().lets_in = targets.into_iter().collect();
            said
        })
    }
}

fn without_nvme() -> (Fake, Initiator, Node) {
    let (fake, machine) = (Fake::new(), Initiator::new("iqn.of.nobody"));
    fake.cluster().naa = Some(NAA.to_owned());
    let driver = || Driver::new(USUAL_NAME).expect("a name");
    let api = Api::new(Arc::new(ByIscsi(fake.clone(), machine.clone())));
    let parameters = BTreeMap::from([("pool".to_owned(), "fast".to_owned())]);
    let inline = Inline::new(Controller::new(driver(), api).at_once(), parameters, 2 << 30).expect("parameters");
    let node = Node::new(Arc::new(machine.clone()), driver(), own(), 0).with_inline(inline);
    (fake, machine, node)
}

#[tokio::test]
async fn a_machine_without_nvme_has_them_by_iscsi() {
    let (fake, machine, node) = without_nvme();
    // While it can nothing, nothing is made: by the other protocol it could not be had afterwards.
    machine.state().fails = Some(("iscsiadm --version", 124, "", 1));
    let refused = node.clone().publish_any(wanted(&[])).await;
    assert_eq!(code(refused), Code::FailedPrecondition);
    assert!(fake.asked().is_empty());
    let shown = node.clone().publish_any(wanted(&[("size", "1Gi")])).await;
    shown.expect("shown");
    {
        let cluster = fake.cluster();
        let target = cluster.targets.values().next().expect("a target");
        assert_eq!(
            target.initiators,
            [format!("iqn.2026-11.io.amita:csi-host:{}.iscsi", own())]
        );
        assert!(cluster.subsystems.is_empty());
        let (_, volume) = cluster.volumes.first_key_value().expect("a volume");
        assert_eq!(volume.labels["csi.amita.io/inline"], own().to_string());
        assert_eq!(machine.host.state().mounts[0].at, TARGET);
    }
    let request = NodeUnpublishVolumeRequest {
        volume_id: NAME.to_owned(),
        target_path: TARGET.to_owned(),
    };
    node.unpublish_any(request).await.expect("gone");
    let cluster = fake.cluster();
    assert!(cluster.volumes.is_empty() && cluster.targets.is_empty());
    assert!(machine.state().sessions.is_empty() && machine.host.state().mounts.is_empty());
}

#[tokio::test]
async fn what_is_mounted_by_iscsi_is_used_and_is_collected_when_it_is_not() {
    for loses_all in [false, true] {
        let (fake, machine, node) = without_nvme();
        let shown = node.clone().publish_any(wanted(&[("size", "1Gi")])).await;
        shown.expect("shown");
        if loses_all {
            machine.lose();
        }
        let pass = |seconds| machine.host.state().passed += Duration::from_secs(seconds);
        let count = || fake.cluster().volumes.len();
        node.end_of_left_inline().await.expect("looked at");
        pass(3600);
        node.end_of_left_inline().await.expect("looked at");
        assert_eq!(count(), 1, "it is mounted");
        // From now on it is unused, and not since it was made.
        machine.host.state().mounts.clear();
        node.end_of_left_inline().await.expect("looked at");
        assert_eq!(count(), 1, "somebody may come yet");
        pass(1200);
        node.end_of_left_inline().await.expect("looked at");
        assert_eq!((count(), fake.cluster().targets.len()), (0, 0));
        assert!(machine.state().sessions.is_empty());
    }
}
