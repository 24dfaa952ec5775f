use super::*;

#[test]
fn endpoints_are_read_in_both_forms() {
    for (text, host, port) in [
        ("127.0.0.1:2379", "127.0.0.1", 2379),
        ("http://etcd-1.example:23790/", "etcd-1.example", 23790),
        ("localhost", "localhost", DEFAULT_PORT),
        ("http://[::1]:99", "::1", 99),
    ] {
        let endpoint = Endpoint::parse(text).unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), (host, port), "{text}");
    }
    assert_eq!(Endpoint::parse("[::1]:99").unwrap().to_string(), "[::1]:99");
}

#[test]
fn other_endpoints_are_refused_with_what_to_write() {
    for text in [
        "",
        "https://a:1",
        "ftp://a:1",
        "a:b",
        "a:70000",
        "a:",
        "http://",
        "a b:1",
        "user@host:1",
        "a/b",
    ] {
        let error = Endpoint::parse(text).expect_err(text).to_string();
        assert!(error.contains("HOST:PORT"), "{text}: {error}");
    }
}
