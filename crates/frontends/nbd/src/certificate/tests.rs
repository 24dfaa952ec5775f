use super::*;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};

const CLUSTER: ClusterId = ClusterId(0x5ca1_ab1e);

fn certificate(common: &[&str], uris: &[String]) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for name in common {
        params.distinguished_name.push(DnType::CommonName, *name);
    }
    for uri in uris {
        let uri = uri.as_str().try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
    }
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
}

fn uri(cluster: ClusterId, rest: &str) -> String {
    format!("amita://{cluster}/{rest}")
}

fn by_outsider(name: &str) -> Result<Named, &'static str> {
    let name = name.to_owned();
    Ok(Named {
        name,
        by_cluster: false,
    })
}

#[test]
fn an_outside_authority_names_clients_by_the_common_name() {
    let found = |common: &[&str]| client_name(&certificate(common, &[]), Some(CLUSTER));
    assert_eq!(found(&["backup host 7"]), by_outsider("backup host 7"));
    for none in [&[][..], &[""], &["a\u{7}b"], &["x".repeat(256).as_str()]] {
        assert!(found(none).is_err(), "{none:?}");
    }
    // Another kind of URI says nothing of a cluster.
    let other = certificate(&["web"], &["spiffe://example.org/web".to_owned()]);
    assert_eq!(client_name(&other, Some(CLUSTER)), by_outsider("web"));
}

#[test]
fn the_clusters_authority_names_them_by_the_uri() {
    let named = certificate(&["somebody else"], &[uri(CLUSTER, "client/db1")]);
    assert_eq!(
        client_name(&named, Some(CLUSTER)),
        Ok(Named {
            name: "db1".to_owned(),
            by_cluster: true
        })
    );
}

#[test]
fn who_is_somebody_else_in_a_cluster_is_no_client() {
    let cases = [
        vec![uri(ClusterId(7), "client/db1")],
        vec![uri(CLUSTER, "node/db1")],
        vec![uri(CLUSTER, "operator/db1")],
        vec![uri(CLUSTER, "client/")],
        vec![uri(CLUSTER, "client/db1/x")],
        vec![uri(CLUSTER, "client")],
        vec!["amita:db1".to_owned()],
        vec![uri(CLUSTER, "client/db1"), uri(CLUSTER, "client/db2")],
    ];
    for uris in cases {
        let named = certificate(&["db1"], &uris);
        assert!(client_name(&named, Some(CLUSTER)).is_err(), "{uris:?}");
    }
    let named = certificate(&["db1"], &[uri(CLUSTER, "client/db1")]);
    assert!(client_name(&named, None).is_err(), "a gateway that knows no cluster");
}

#[test]
fn rubbish_names_nobody() {
    let whole = certificate(&["db1"], &[]);
    for length in [0, 1, 10, whole.len() - 1] {
        assert!(client_name(&whole[..length].to_vec().into(), None).is_err());
    }
    let longer = [whole.as_ref(), &[0]].concat();
    assert!(client_name(&longer.into(), None).is_err());
}
