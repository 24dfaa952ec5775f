use super::http::{BadHttp, read_answer, read_request};
use super::*;
use crate::*;
use amita_types::ClusterId;
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

mod hostile;
mod keeping;

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
const DAY: Duration = Duration::from_secs(24 * 3600);
const CLUSTER: ClusterId = ClusterId(9);

/// An authority that is served on loopback, at a time that the test sets.
struct World {
    scratch: TempDir,
    clock: Clock,
    authority: Authority,
    server: AuthorityServer,
    client: AuthorityClient,
}

impl World {
    fn new() -> World {
        let scratch = tempfile::tempdir().unwrap();
        let clock = Clock::standing(NOW);
        let authority = Authority::create(&scratch.path().join("ca"), CLUSTER, clock.clone()).unwrap();
        let server = AuthorityServer::start(authority.clone(), "127.0.0.1:0".parse().unwrap()).unwrap();
        let client = AuthorityClient::new(&server.address().to_string()).unwrap();
        World {
            scratch,
            clock,
            authority,
            server,
            client,
        }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn token(&self, name: &str) -> Token {
        let name = Name::new(CLUSTER, Role::Node, name).unwrap();
        self.authority.token(&name).unwrap()
    }

    fn joined(&self, name: &str) -> Arc<Live> {
        let folder = self.folder(name);
        self.client
            .join(&self.token(name), &folder, (Role::Node, name), &self.clock)
            .unwrap();
        Live::open(&folder, self.clock.clone()).unwrap()
    }

    /// As somebody without a certificate.
    fn ask(&self, request: &str) -> (u16, String) {
        let socket = TcpStream::connect(self.server.address()).unwrap();
        let provider = crate::tls::provider();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(crate::tests::Anything))
            .with_no_client_auth();
        let connection = rustls::ClientConnection::new(Arc::new(config), server_name()).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, Timed::new(socket, PATIENCE));
        stream.write_all(request.as_bytes()).unwrap();
        read_answer(&mut stream).unwrap()
    }
}

#[test]
fn a_node_joins_renews_and_learns_what_was_revoked() {
    let world = World::new();
    let (one, two) = (world.joined("n1"), world.joined("n2"));
    assert_eq!(one.name().to_string(), format!("amita://{CLUSTER}/node/n1"));
    let (serial, generation) = (one.current().serial().clone(), one.generation());
    world.clock.set(NOW.after(4 * DAY));
    world.client.renew(&one).unwrap();
    assert_ne!(*one.current().serial(), serial);
    assert!(one.generation() > generation);
    assert_eq!(one.current().not_after(), NOW.after(4 * DAY + LEAF_LIFE));
    assert!(!world.client.refresh_trust(&one).unwrap());
    world.authority.revoke("n2").unwrap();
    assert!(world.client.refresh_trust(&one).unwrap());
    assert_eq!(one.judge(two.current().chain(), Usage::Client), Err(Refusal::Revoked));
    // Who is revoked is refused by the server, and told so.
    let refused = world.client.renew(&two).unwrap_err().to_string();
    assert!(refused.contains("this certificate was revoked"), "{refused}");
}

#[test]
fn a_token_works_once_for_whom_it_was_made() {
    let world = World::new();
    let token = world.token("n1");
    let join = |token: &Token, folder: &str, name: &str| {
        let folder = world.folder(folder);
        world.client.join(token, &folder, (Role::Node, name), &world.clock)
    };
    join(&token, "n1", "n1").unwrap();
    let again = join(&token, "n1", "n1").unwrap_err();
    assert!(matches!(again, IdentityError::Exists { .. }), "{again}");
    let twice = join(&token, "n2", "n1").unwrap_err().to_string();
    assert!(twice.contains("the token is not taken"), "{twice}");
    let other = join(&world.token("n3"), "n3", "n4").unwrap_err().to_string();
    assert!(other.contains("the token is for node n3"), "{other}");
    assert!(!world.folder("n3").join("key.pem").exists());
    let late = world.token("n5");
    world.clock.set(NOW.after(TOKEN_LIFE));
    let late = join(&late, "n5", "n5").unwrap_err().to_string();
    assert!(late.contains("the token is not taken"), "{late}");
}

/// A server that is not the authority of the token learns nothing of it.
#[test]
fn a_false_server_is_not_joined() {
    let (world, other) = (World::new(), World::new());
    let token = world.token("n1");
    let refused = other
        .client
        .join(&token, &world.folder("n1"), (Role::Node, "n1"), &world.clock)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("not believed here"), "{refused}");
    // Nor is a node of the same cluster the authority.
    let live = world.joined("n2");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = AuthorityClient::new(&listener.local_addr().unwrap().to_string()).unwrap();
    let config = live.server_config(&[Role::Node]);
    let serving = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let connection = rustls::ServerConnection::new(config).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, Timed::new(socket, PATIENCE));
        read_request(&mut stream).err().map(|why| why.to_string())
    });
    let refused = client
        .join(&token, &world.folder("n1"), (Role::Node, "n1"), &world.clock)
        .unwrap_err();
    assert!(refused.to_string().contains("not believed here"), "{refused}");
    assert!(serving.join().unwrap().is_some(), "it was told the token");
    // The token is good as it was.
    world
        .client
        .join(&token, &world.folder("n1"), (Role::Node, "n1"), &world.clock)
        .unwrap();
}

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn what_cannot_be_reached_is_named() {
    let world = World::new();
    let live = world.joined("n1");
    let address = world.server.address();
    drop(world.server);
    let gone = world.client.renew(&live).unwrap_err();
    assert!(
        matches!(&gone, IdentityError::Unreachable { server, .. } if *server == address.to_string()),
        "{gone}"
    );
    for wrong in ["", "host", "host:", "host:0", "host:x", "host:70000"] {
        assert!(AuthorityClient::new(wrong).is_err(), "{wrong}");
    }
}

/// A renewal that shows no certificate, and what else a stranger can ask.
#[test]
fn a_stranger_gets_the_list_and_nothing_else() {
    let world = World::new();
    let live = world.joined("n1");
    let ask = |request: &str| world.ask(request);
    let (status, list) = ask(&http::request("GET", TRUST, None, ""));
    assert_eq!((status, list), (200, world.authority.trust().unwrap()));
    let pending = PendingKey::make(&world.folder("x")).unwrap();
    for (request, status) in [
        (http::request("POST", RENEW, None, pending.request()).to_string(), 401),
        (http::request("POST", JOIN, None, pending.request()).to_string(), 403),
        (
            http::request("POST", JOIN, Some("amita-join-1.x"), pending.request()).to_string(),
            403,
        ),
        (http::request("GET", JOIN, None, "").to_string(), 405),
        (http::request("GET", "/", None, "").to_string(), 404),
        (
            http::request("GET", "/v1/trust/../../ca-key.pem", None, "").to_string(),
            404,
        ),
        ("GET / HTTP/1.0\r\n\r\n".to_owned(), 400),
        (format!("POST {JOIN} HTTP/1.1\r\ncontent-length: 99999\r\n\r\n"), 413),
        (format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(5000)), 413),
    ] {
        assert_eq!(ask(&request).0, status, "{request}");
    }
    let before = world.authority.issued().unwrap().len();
    assert_eq!(before, 2, "one for the node, one for the server");
    world.client.refresh_trust(&live).unwrap();
}

/// Refusals are told in the authority's log, which is bounded.
#[test]
fn a_stranger_who_is_refused_all_the_time_does_not_fill_the_log() {
    let world = World::new();
    let pending = PendingKey::make(&world.folder("x")).unwrap();
    let wrong = http::request("POST", JOIN, Some("amita-join-1.x"), pending.request());
    for _ in 0..40 {
        assert_eq!(world.ask(&wrong).0, 403);
    }
    let refused = |action: &str| {
        let lines = world.authority.log().unwrap().lines;
        let told = |text: &String| amita_audit::Line::parse(text).unwrap().record().clone();
        let records = lines.iter().map(told);
        let refused = records.filter(|record| record.outcome == amita_audit::Outcome::Refused);
        refused.filter(|record| record.action == action).count()
    };
    assert_eq!(refused("cert.issue"), 8);
}

/// Whoever holds connections open without a word keeps others waiting for no longer than that takes, and is counted.
#[test]
fn silent_connections_are_bounded() {
    let world = World::new();
    let live = world.joined("n1");
    let silent: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(world.server.address()).unwrap())
        .collect();
    let mut ended = 0;
    for socket in &silent {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut socket = socket;
        if matches!(socket.read(&mut [0; 1]), Ok(0)) || socket.peek(&mut [0; 1]).is_err() {
            ended += 1;
        }
    }
    assert_eq!(ended, 40, "all of them have ended after the handshake's time");
    // The last place is given back a moment after its connection has ended.
    let served = || world.client.refresh_trust(&live).is_ok();
    assert!((0..200).any(|_| served() || {
        std::thread::sleep(Duration::from_millis(50));
        false
    }));
}

#[test]
fn requests_are_read_whole_and_nothing_else() {
    let whole = http::request("POST", JOIN, Some("t"), "body");
    let read = read_request(&mut whole.as_bytes()).unwrap();
    assert_eq!(
        (read.method.as_str(), read.path.as_str(), read.body.as_str()),
        ("POST", JOIN, "body")
    );
    assert_eq!(read.token.as_ref().map(|token| token.as_str()), Some("t"));
    for end in 0..whole.len() {
        assert!(
            read_request(&mut &whole.as_bytes()[..end]).is_err(),
            "{end} bytes of it"
        );
    }
    for (wrong, why) in [
        ("GET / HTTP/1.1\r\ncontent-length: +1\r\n\r\nx", "length"),
        (
            "GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx",
            "length",
        ),
        ("GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", "encoding"),
        ("GET / HTTP/1.1\r\ncontent-length: 1\r\n\r\nxy", "more than"),
        ("GET / HTTP/1.1\r\nnonsense\r\n\r\n", "colon"),
        ("GET  / HTTP/1.1\r\n\r\n", "first line"),
        ("GET /\r\n\r\n", "first line"),
        (
            "GET / HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n",
            "longer",
        ),
        ("\u{ff}", "ends in its head"),
    ] {
        let error = read_request(&mut wrong.as_bytes()).err().unwrap();
        assert!(error.to_string().contains(why), "{wrong}: {error}");
    }
    let answer = http::answer(403, "no\n");
    assert_eq!(read_answer(&mut answer.as_bytes()).unwrap(), (403, "no\n".to_owned()));
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", (1 << 20) + 1);
    assert!(matches!(read_answer(&mut long.as_bytes()), Err(BadHttp::Long(_))));
}

proptest! {
    #[test]
    fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), begins in 0..4usize) {
        let begin = ["", "GET / HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\ncontent-length: ", "POST /v1/join HTTP/1.1\r\n"][begins];
        bytes.splice(0..0, begin.bytes());
        let _ = read_request(&mut bytes.as_slice());
        let _ = read_answer(&mut bytes.as_slice());
    }
}
