//! The page that is inside of the binary, as curl meets it at a node; and the certificate that browsers are shown with it.

use crate::world::{World, certificates, eventually, scratch};
use amita_harness::process::Process;
use amita_identity::{Clock, Expected, Live, Role, peer_name, server_name};
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// What scripts/build-web has built is in what scripts/build-release builds: a test that found no page looked at nothing.
const NO_PAGE: &str =
    "the binary has no page: build it by scripts/build-web and scripts/build-release (AMITA_TEST_BINARY)";

/// A gateway that serves the API, and where: as it says in its log.
pub fn gateway(world: &World, more: &[&str]) -> (Process, String) {
    let node = world.serve(
        "g",
        &[&["--fabric", "127.0.0.1:0", "--api", "127.0.0.1:0"], more].concat(),
    );
    let said = || {
        let log = std::fs::read_to_string(node.log()).expect("a log");
        let (_, rest) = log.split_once(", API on ")?;
        rest.split_whitespace()
            .next()
            .map(|url| url.trim_end_matches(',').to_owned())
    };
    eventually("the node says where its API is", || said().is_some());
    let url = said().expect("an API");
    (node, url)
}

pub fn end(mut node: Process) {
    let ended = node.stop();
    assert!(ended.is_some_and(|status| status.success()), "{}", node.last_words());
}

/// An answer, as curl has saved it.
struct Said {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Said {
    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map_or("", |(_, value)| value.trim())
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("a text")
    }
}

fn curl(world: &World, arguments: &[&str]) -> Said {
    let (head, body) = (world.file("curl-head"), world.file("curl-body"));
    // curl makes no file for a body that is empty.
    std::fs::write(&body, "").expect("written");
    let (head_name, body_name) = (head.display().to_string(), body.display().to_string());
    let usual = [
        "--silent",
        "--show-error",
        "--max-time",
        "30",
        "--write-out",
        "%{http_code}",
    ];
    let files = ["--dump-header", &head_name, "--output", &body_name];
    let status = world.done("curl", &[&usual[..], &files[..], arguments].concat());
    Said {
        status: status.trim().parse().expect("a number"),
        head: std::fs::read_to_string(head).expect("a head"),
        body: std::fs::read(body).expect("a body"),
    }
}

fn get(world: &World, arguments: &[&str]) -> Said {
    curl(world, &[&["--insecure"], arguments].concat())
}

/// The nonce of the policy, which must be the page's.
fn nonce_of(said: &Said) -> String {
    let policy = said.header("content-security-policy");
    let nonce = policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next());
    let nonce = nonce.unwrap_or_else(|| panic!("no nonce: {policy}")).to_owned();
    assert_eq!(
        policy,
        format!(
            "default-src 'self'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; object-src 'none'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'"
        )
    );
    let text = said.text();
    assert!(text.contains(&format!("nonce=\"{nonce}\"")), "{text}");
    assert!(!text.contains("__AMITA"), "{text}");
    nonce
}

#[test]
fn a_node_serves_the_page_that_was_built_into_it() {
    let world = World::metadata_only(1);
    let (node, url) = gateway(&world, &[]);
    let root = format!("{url}/");
    let said = get(&world, &[&root]);
    assert_eq!(said.status, 200, "{NO_PAGE}\n{}", said.text());
    assert_eq!(said.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(said.header("cache-control"), "no-store");
    assert_eq!(said.header("x-content-type-options"), "nosniff");
    assert_eq!(said.header("x-frame-options"), "DENY");
    assert_eq!(said.header("referrer-policy"), "no-referrer");
    let nonces: BTreeSet<String> = (0..4).map(|_| nonce_of(&get(&world, &[&root]))).collect();
    assert_eq!(nonces.len(), 4, "a nonce is used once");

    // All that the entrance names is there: kept for ever, short for those who take it so, and the same in both forms.
    let text = said.text();
    let named: Vec<&str> = text.split('"').filter_map(|part| part.strip_prefix("./")).collect();
    assert!(named.iter().any(|name| name.ends_with(".js")), "{text}");
    assert!(named.iter().any(|name| name.ends_with(".css")), "{text}");
    for name in &named {
        let address = format!("{root}{name}");
        let plain = get(&world, &[&address]);
        assert_eq!(plain.status, 200, "{name}");
        assert_eq!(plain.header("content-length"), plain.body.len().to_string());
        let policy = plain.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'self'; ") && !policy.contains("nonce"),
            "{policy}"
        );
        let head = get(&world, &["--head", &address]);
        assert_eq!(
            (head.status, head.header("content-length")),
            (200, plain.header("content-length"))
        );
        assert!(head.body.is_empty() || head.body.starts_with(b"HTTP/"), "{name}");
        let seen = get(
            &world,
            &[
                "--header",
                &format!("If-None-Match: {}", plain.header("etag")),
                &address,
            ],
        );
        assert_eq!((seen.status, seen.body.len()), (304, 0), "{name}");
        if !name.starts_with("assets/") {
            assert_eq!(plain.header("cache-control"), "no-cache", "{name}");
            continue;
        }
        assert_eq!(plain.header("cache-control"), "public, max-age=31536000, immutable");
        let short = get(&world, &["--header", "Accept-Encoding: gzip", &address]);
        assert_eq!(
            (short.status, short.header("content-encoding")),
            (200, "gzip"),
            "{name}"
        );
        assert_eq!(short.header("vary").to_lowercase(), "accept-encoding");
        assert!(
            short.body.len() * 10 < plain.body.len() * 6,
            "{name}: {} bytes",
            short.body.len()
        );
        let unpacked = get(&world, &["--compressed", "--header", "Accept-Encoding: gzip", &address]);
        assert!(unpacked.body == plain.body, "{name}: the two forms differ");
    }

    // What is no file of the page is nothing, however it is written.
    for path in [
        "/nowhere",
        "/assets/",
        "/assets/../index.html",
        "/../../../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/assets/..%5cindex.html",
        "/index.html%00",
        "/apis",
    ] {
        let said = get(&world, &["--path-as-is", &format!("{url}{path}")]);
        assert_eq!(said.status, 404, "{path}: {}", said.text());
        let problem: Value = serde_json::from_str(&said.text()).expect("JSON");
        assert_eq!(problem["code"], json!("not-found"), "{path}");
        assert_eq!(
            said.header("content-security-policy"),
            "default-src 'none'; frame-ancestors 'none'"
        );
    }
    let said = get(&world, &["--data", "x", &root]);
    assert_eq!((said.status, said.header("allow")), (405, "GET, HEAD"));

    // The page is everybody's; what it shows is not.
    for path in ["/api/v1/volumes", "/api/v1/self", "/openapi.json"] {
        let said = get(&world, &[&format!("{url}{path}")]);
        assert_eq!(said.status, 401, "{path}: {}", said.text());
    }
    let token = world.json(&["token", "create", "page", "--role", "viewer"]);
    let line = format!("Authorization: Bearer {}", token["secret"].as_str().expect("a secret"));
    let said = get(&world, &["--header", &line, &format!("{url}/api/v1/self")]);
    assert_eq!(said.status, 200, "{}", said.text());

    // Whoever looks into the log finds the page.
    let log = std::fs::read_to_string(node.log()).expect("a log");
    assert!(log.contains(&format!("page on {root}")), "{log}");
    end(node);
    world.end(&[]);
}

/// Who answers at an address, as a process of the cluster sees it.
fn shown_to_the_cluster(world: &World, url: &str) -> amita_identity::Name {
    let live = Live::open(Path::new(&world.operator()), Clock::system()).expect("an identity");
    let config = live.client_config(Expected::any(&[Role::Gateway]));
    let socket = TcpStream::connect(url.trim_start_matches("https://")).expect("connected");
    let connection = ClientConnection::new(config, server_name()).expect("a connection");
    let mut stream = StreamOwned::new(connection, socket);
    stream
        .write_all(b"GET / HTTP/1.1\r\n")
        .expect("a handshake that both sides believe");
    let chain = stream.conn.peer_certificates().expect("a certificate");
    peer_name(&chain[0]).expect("a name of the cluster")
}

/// An authority, and a certificate by it, in a folder of their own.
pub fn pair(world: &World, name: &str) -> (String, String, String) {
    let folder = world.file(name);
    std::fs::create_dir(&folder).expect("a folder");
    certificates(&folder);
    let file = |name: &str| folder.join(name).display().to_string();
    set_mode(&file("server-key.pem"), 0o600);
    (file("ca-cert.pem"), file("server-cert.pem"), file("server-key.pem"))
}

fn set_mode(path: &str, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its rights are set");
}

#[test]
fn browsers_are_shown_a_certificate_that_they_can_check_and_the_cluster_its_own() {
    let world = World::metadata_only(1);
    let (authority, certificate, key) = pair(&world, "first");
    let (node, url) = gateway(&world, &["--api-certificate", &certificate, "--api-key", &key]);
    let page = format!("{url}/");
    let checked = |authority: &str| world.tool("curl", &["--silent", "--show-error", "--cacert", authority, &page]);
    let said = checked(&authority);
    assert!(said.status.success() && said.text.contains("Amita"), "{}", said.text);
    // With a certificate of the cluster one is known, and checks the node by the operator's.
    let operator = world.operator();
    let file = |name: &str| Path::new(&operator).join(name).display().to_string();
    let who = format!("{url}/api/v1/self");
    let shows = [
        "--cacert",
        &authority,
        "--cert",
        &file("cert.pem"),
        "--key",
        &file("key.pem"),
        &who,
    ];
    let said = curl(&world, &shows);
    assert_eq!(said.status, 200, "{}", said.text());
    // Processes of the cluster go by the node's own.
    assert_eq!(shown_to_the_cluster(&world, &url).name(), "g");

    // The files change, and nothing is started again.
    let (next_authority, next_certificate, next_key) = pair(&world, "second");
    assert!(!checked(&next_authority).status.success(), "another authority's");
    std::fs::copy(next_certificate, &certificate).expect("copied");
    std::fs::copy(&next_key, &key).expect("copied");
    eventually("the new certificate is shown", || {
        checked(&next_authority).status.success()
    });
    assert_eq!(shown_to_the_cluster(&world, &url).name(), "g");
    end(node);

    // What cannot be right is said at the start.
    let serve = [
        "serve",
        "--name",
        "x",
        "--fabric",
        "127.0.0.1:0",
        "--api",
        "127.0.0.1:0",
    ];
    let refused = |certificate: &str, key: &str, words: &[&str]| {
        let given = ["--api-certificate", certificate, "--api-key", key];
        let said = world.amita(&[&serve[..], &given].concat());
        assert_eq!(said.status.code(), Some(2), "{}", said.text);
        for word in words {
            assert!(said.text.contains(word), "{word}: {}", said.text);
        }
    };
    let (_, other, _) = pair(&world, "third");
    refused(&other, &key, &["--api-certificate", "is for another key than", &key]);
    refused("/nowhere/cert.pem", &key, &["/nowhere/cert.pem", "No such file"]);
    refused(&key, &key, &["no certificate in it"]);
    set_mode(&certificate, 0o600);
    refused(&certificate, &certificate, &["no key in it"]);
    set_mode(&key, 0o644);
    refused(&certificate, &key, &[&key, "others may read", "chmod 600"]);
    let alone = world.amita(&[&serve[..], &["--api-key", &key]].concat());
    assert!(alone.text.contains("--api-certificate"), "{}", alone.text);
    world.end(&[]);
}

#[test]
fn a_certificate_for_browsers_wants_an_api_that_could_show_it() {
    let world = World::plain();
    let keys = scratch(1 << 20);
    let file = |name: &str| keys.folder().join(name).display().to_string();
    let given = ["--api-certificate", &file("c"), "--api-key", &file("k")];
    let said = world.amita(&[&["serve", "--name", "x", "--fabric", "127.0.0.1:0"], &given[..]].concat());
    assert!(
        said.text.contains("no API by HTTPS") && said.text.contains("--identity"),
        "{}",
        said.text
    );
    world.end(&[]);
}
