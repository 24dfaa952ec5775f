//! Against a real server: PyKMIP (Apache-2.0), on loopback, with certificates of the test's own. `scripts/test-kmip` installs it and runs this; it is
//! skipped where there is none.

use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The server; its standard input is what keeps it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Python that has PyKMIP.
fn python() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let installed = root.join("target/pykmip/python/bin/python");
    match std::env::var_os("AMITA_PYKMIP") {
        Some(python) => Some(python.into()),
        None => installed.exists().then_some(installed),
    }
}

#[test]
fn a_real_server_wraps_and_gives() {
    let Some(python) = python() else {
        assert!(
            std::env::var_os("AMITA_PYKMIP_NEEDED").is_none(),
            "there is no PyKMIP, and it is not to be left out (AMITA_PYKMIP_NEEDED)"
        );
        eprintln!(
            "skipped: there is no PyKMIP here; scripts/test-kmip installs it and runs this (or AMITA_PYKMIP=PYTHON)"
        );
        return;
    };
    let authority = Authority::new();
    let files = Files::new(&authority);
    files.write("server.pem", &authority.server.0, 0o644);
    files.write("server.key", &authority.server.1, 0o600);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scripts/kmip/server.py");
    let child = Command::new(python)
        .args(["-W", "ignore", script])
        .arg(files.0.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = Server(child);
    let mut told = String::new();
    let mut stdout = BufReader::new(server.0.stdout.take().unwrap());
    stdout.read_line(&mut told).unwrap();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(told["failed"].is_null(), "{told}");
    let at = format!("127.0.0.1:{}", told["port"]);
    let key = |name: &str| told["keys"][name].as_str().unwrap().to_owned();
    let line = |name: &str, more: &str| files.line(&at, &format!("key={} {more}", key(name)));
    let mut wrapped: Option<WrappedKey> = None;
    for (name, more) in [
        ("first", "way=encrypt"),
        ("second", "way=get"),
        ("first", "way=get version=1.2"),
        ("second", "way=encrypt version=2.0"),
    ] {
        let file = files.keys(&line(name, more));
        file.answers().unwrap();
        let made = file.make(CLUSTER, None, &binding(1)).unwrap();
        assert_eq!(made.wrapped_by(), format!("kmip {}", key(name)));
        let opened = file.unwrap(&binding(1), &made).unwrap();
        assert_eq!(opened.check_value(), made.check_value());
        // What the server has wrapped opens by its key here, and the other way round.
        for more in ["way=encrypt", "way=get"] {
            let file = files.keys(&line(name, more));
            assert_eq!(
                file.unwrap(&binding(1), &made).unwrap().check_value(),
                made.check_value(),
                "{name} {more}"
            );
            let moved = WrappedKey::parse(&made.to_text().replace("\"image\":1", "\"image\":2")).unwrap();
            let refused = file.unwrap(moved.binding(), &moved).unwrap_err();
            assert!(refused.contains("the record was changed"), "{refused}");
        }
        // From one of its keys to the next.
        if let Some(before) = &wrapped {
            let old = if name == "first" { "second" } else { "first" };
            let file = files.keys(&format!("{}{}", line(name, more), line(old, "")));
            let to = file.to(Some(&before.wrapping_key())).unwrap();
            let again = file.rewrap(CLUSTER, &to, before).unwrap();
            files.keys(&line(name, more)).proves(CLUSTER, &to, &again).unwrap();
            assert_eq!((again.wrapping_key(), again.check_value()), (to, before.check_value()));
        }
        wrapped = Some(made);
    }
    for (line, why) in [
        (line("asleep", ""), "Permission Denied"),
        (line("short", "way=get"), "name an AES key of 256 bits"),
        (files.line(&at, "key=999"), "Item Not Found"),
    ] {
        let refused = files.keys(&line).make(CLUSTER, None, &binding(1)).unwrap_err();
        assert!(refused.contains(why) && refused.contains(&at), "{refused}");
    }
    // How long a key is that the server wraps by is not seen from here (docs/operating/encryption.md).
    files
        .keys(&line("short", "way=encrypt"))
        .make(CLUSTER, None, &binding(1))
        .unwrap();
    // Who has no certificate for clients is nobody's client.
    files.write("client.pem", &authority.server.0, 0o644);
    files.write("client.key", &authority.server.1, 0o600);
    let refused = files
        .keys(&line("first", ""))
        .make(CLUSTER, None, &binding(1))
        .unwrap_err();
    assert!(
        refused.contains("TLS fails: received fatal alert: UnsupportedCertificate"),
        "{refused}"
    );
}
