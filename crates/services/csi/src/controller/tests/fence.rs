use super::publish::{ONE, TWO, nqn, publish, unpublish};
use super::*;
use crate::wire::addons::{Cidr, FenceClusterNetworkRequest, UnfenceClusterNetworkRequest};
use uuid::Uuid;

fn cidrs(nodes: &[&str]) -> Vec<Cidr> {
    let of = |node: &&str| crate::id::host_cidr(Uuid::try_parse(node).expect("an id"));
    nodes.iter().map(|node| Cidr { cidr: of(node) }).collect()
}

pub(super) async fn fence(fake: &Fake, nodes: &[&str]) -> Result<(), Status> {
    let request = FenceClusterNetworkRequest {
        cidrs: cidrs(nodes),
        ..Default::default()
    };
    fake.controller().fence(request).await.map(drop)
}

pub(super) async fn unfence(fake: &Fake, nodes: &[&str]) -> Result<(), Status> {
    let request = UnfenceClusterNetworkRequest {
        cidrs: cidrs(nodes),
        ..Default::default()
    };
    fake.controller().unfence(request).await.map(drop)
}

#[tokio::test]
async fn a_fenced_host_loses_all_volumes_and_gets_none() {
    let fake = Fake::new();
    for name in ["one", "two", "three"] {
        make(&fake, wanted(name, GIB)).await.expect("made");
    }
    let mode = Mode::MultiNodeMultiWriter;
    publish(&fake, "1:one", ONE, mode).await.expect("published");
    publish(&fake, "2:two", ONE, mode).await.expect("published");
    publish(&fake, "2:two", TWO, mode).await.expect("published");
    fence(&fake, &[ONE]).await.expect("fenced");
    fence(&fake, &[ONE]).await.expect("fenced already");
    let lets_in = |fake: &Fake, node: &str| {
        let cluster = fake.cluster();
        let own = cluster.subsystems.iter().filter(|(name, _)| *name != "csi-fenced");
        own.filter(|(_, found)| found.hosts.contains(&nqn(node))).count()
    };
    assert_eq!((lets_in(&fake, ONE), lets_in(&fake, TWO)), (0, 1));
    assert_eq!(
        code(publish(&fake, "3:three", ONE, mode).await),
        Code::FailedPrecondition
    );
    // Whoever asks for it to be taken off, as Kubernetes does for a lost node, is told that it is.
    unpublish(&fake, "1:one", ONE).await.expect("off already");
    publish(&fake, "1:one", TWO, Mode::SingleNodeWriter)
        .await
        .expect("published");
    let fenced = fake.controller().fenced().await.expect("a list");
    assert_eq!(fenced.cidrs, cidrs(&[ONE]));
    let request = UnfenceClusterNetworkRequest {
        cidrs: cidrs(&[ONE]),
        ..Default::default()
    };
    fake.controller().unfence(request).await.expect("let in again");
    publish(&fake, "3:three", ONE, mode).await.expect("published");
}

#[tokio::test]
async fn who_is_no_host_is_not_fenced() {
    let fake = Fake::new();
    let ask = |cidr: &str| {
        fake.controller().fence(FenceClusterNetworkRequest {
            cidrs: vec![Cidr { cidr: cidr.to_owned() }],
            ..Default::default()
        })
    };
    for cidr in ["192.0.2.7/32", "2001:db8::/32", ""] {
        assert_eq!(code(ask(cidr).await), Code::InvalidArgument, "{cidr}");
    }
    assert_eq!(code(fence(&fake, &[]).await), Code::InvalidArgument);
    assert!(fake.asked().is_empty());
}
