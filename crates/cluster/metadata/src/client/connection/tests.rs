use super::*;

#[test]
fn endpoints_are_read_in_both_forms() {
    for (text, host, port, is_here) in [
        ("127.0.0.1:2379", "127.0.0.1", 2379, true),
        ("http://etcd-1.example:23790/", "etcd-1.example", 23790, false),
        ("localhost", "localhost", DEFAULT_PORT, true),
        ("LOCALHOST", "LOCALHOST", DEFAULT_PORT, true),
        ("localhost.example", "localhost.example", DEFAULT_PORT, false),
        ("127.0.0.1.example", "127.0.0.1.example", DEFAULT_PORT, false),
        ("0.0.0.0:1", "0.0.0.0", 1, false),
        ("http://[::1]:99", "::1", 99, true),
        ("[::ffff:127.0.0.1]:99", "::ffff:127.0.0.1", 99, true),
        ("[::ffff:10.0.0.1]:99", "::ffff:10.0.0.1", 99, false),
    ] {
        let believing = Options {
            insecure_network: true,
            ..Options::default()
        };
        let endpoint = Endpoint::parse(text, &believing).unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), (host, port), "{text}");
        // Who proves nothing speaks to its own machine only.
        let believed = Endpoint::parse(text, &Options::default());
        assert_eq!(believed.is_ok(), is_here, "{text}");
    }
    assert_eq!(
        Endpoint::parse("[::1]:99", &Options::default()).unwrap().to_string(),
        "[::1]:99"
    );
}

#[test]
fn other_endpoints_are_refused_with_what_to_write() {
    for text in [
        "",
        "ftp://a:1",
        "a:b",
        "a:70000",
        "a:",
        "http://",
        "a b:1",
        "user@host:1",
        "a/b",
    ] {
        let error = Endpoint::parse(text, &Options::default()).expect_err(text).to_string();
        assert!(error.contains("HOST:PORT"), "{text}: {error}");
    }
    let error = Endpoint::parse("https://a:1", &Options::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("--identity"), "{error}");
}
