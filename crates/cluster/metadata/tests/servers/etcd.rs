//! A stock etcd with TLS, with certificates of its clients, and with users.

use crate::common::{Process, SHORT};
use crate::pki::{Authority, Leaf};
use amita_metadata::client::{Tls, User};
use amita_metadata::{Call, Client, Error, Options, Waited};
use amita_testkit::loopback;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// An etcd that speaks TLS and wants its clients' certificates.
struct Etcd {
    folder: TempDir,
    address: SocketAddr,
    authority: Authority,
    /// Of the user `root`.
    operator: Leaf,
    process: Option<Process>,
}

impl Etcd {
    /// With clients' certificates, or with TLS of the server alone.
    fn start(client_certificates: bool) -> Etcd {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("ours");
        let operator = authority.leaf("root");
        std::fs::write(folder.path().join("ca.pem"), &authority.pem).unwrap();
        let address = loopback::free_address();
        authority.server(address.ip()).write(folder.path(), "server");
        operator.write(folder.path(), "operator");
        let mut etcd = Etcd {
            folder,
            address,
            authority,
            operator,
            process: None,
        };
        etcd.resume(client_certificates);
        etcd
    }

    fn resume(&mut self, client_certificates: bool) {
        self.process = None;
        let mut peer = loopback::free_address();
        while peer == self.address {
            peer = loopback::free_address();
        }
        let (clients, peers) = (format!("https://{}", self.address), format!("http://{peer}"));
        let mut command = Command::new("/usr/bin/etcd");
        command.args(["--name", "test", "--data-dir"]).arg(self.path("data"));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("test={peers}")]);
        command.arg("--cert-file").arg(self.path("server.pem"));
        command.arg("--key-file").arg(self.path("server-key.pem"));
        if client_certificates {
            command
                .arg("--client-cert-auth")
                .arg("--trusted-ca-file")
                .arg(self.path("ca.pem"));
        }
        self.process = Some(Process::start(command.env_clear()));
        let until = Instant::now() + Duration::from_secs(30);
        let client = self.client(self.options());
        // With users it refuses, and is there.
        while let Err(error @ (Error::Unavailable { .. } | Error::Unknown { .. })) = client.txn(&Call::get("/ready")) {
            assert!(Instant::now() < until, "etcd did not start: {error}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn etcdctl(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new("/usr/bin/etcdctl")
            .env_clear()
            .env("ETCDCTL_API", "3")
            .arg("--endpoints")
            .arg(format!("https://{}", self.address))
            .arg("--cacert")
            .arg(self.path("ca.pem"))
            .arg("--cert")
            .arg(self.path("operator.pem"))
            .arg("--key")
            .arg(self.path("operator-key.pem"))
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    }

    fn run(&self, arguments: &[&str]) {
        let (done, said) = self.etcdctl(arguments);
        assert!(done, "etcdctl {arguments:?}: {said}");
    }

    fn options(&self) -> Options {
        Options {
            tls: Some(Tls::from(self.authority.client(Some(&self.operator)))),
            ..SHORT
        }
    }

    fn client(&self, options: Options) -> Client {
        Client::connect_with(&[self.address.to_string()], options).unwrap()
    }

    fn password(&self, name: &str, password: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, format!("{password}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }
}

fn next(watch: &mut amita_metadata::Watch) -> String {
    match watch.wait(Duration::from_secs(20)) {
        Waited::Item(Ok(batch)) => batch.events[0].key().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_with_a_certificate_is_served_and_one_without_is_told_which_side_to_mend() {
    let etcd = Etcd::start(true);
    let client = etcd.client(etcd.options());
    let from = client.txn(&Call::put("/k", "v")).unwrap().revision;
    assert_eq!(client.txn(&Call::get("/k")).unwrap().value(0).unwrap().value, b"v");
    let lease = client.lease_grant(60).unwrap();
    client.lease_keepalive(lease.id).unwrap();
    assert_eq!(next(&mut client.watch("/k", from)), "/k");

    let foreign = Authority::new("foreign");
    let refused = |options: Options, words: &str| {
        // A change: that it was surely not made is known.
        let error = etcd.client(options).txn(&Call::put("/bad", "v")).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    let with = |tls| Options {
        tls: Some(Tls::from(tls)),
        ..SHORT
    };
    refused(with(etcd.authority.client(None)), "mend the identity here");
    refused(
        with(etcd.authority.client(Some(&foreign.leaf("root")))),
        "mend the identity here",
    );
    refused(
        with(etcd.authority.client(Some(&etcd.authority.expired("root")))),
        "mend the identity here",
    );
    refused(
        with(foreign.client(Some(&etcd.operator))),
        "mend the server's certificate",
    );
    // Plainly it is not spoken to unless somebody says so, and then nobody knows what became of it.
    let plain = [format!("http://{}", etcd.address)];
    let error = Client::connect_with(&plain, etcd.options()).unwrap_err();
    assert!(error.to_string().contains("--insecure-network"), "{error}");
    let error = Client::connect_with(&plain, SHORT)
        .unwrap()
        .txn(&Call::get("/k"))
        .unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(
        client.txn(&Call::get("/bad")).unwrap().value(0).is_none(),
        "nothing was done"
    );
}

#[test]
fn users_are_let_in_by_their_password_and_their_tokens_renewed() {
    let mut etcd = Etcd::start(false);
    for arguments in [
        &["user", "add", "root:secret"][..],
        &["user", "add", "amita:first"],
        &["role", "add", "amita"],
        &[
            "role",
            "grant-permission",
            "amita",
            "--prefix=true",
            "readwrite",
            "/amita/",
        ],
        &["user", "grant-role", "amita", "amita"],
        &["user", "grant-role", "root", "root"],
    ] {
        etcd.run(arguments);
    }
    let file = etcd.password("password", "first");
    let as_user = |etcd: &Etcd, user: Option<User>| {
        etcd.client(Options {
            tls: Some(Tls::from(etcd.authority.client(None))),
            user,
            ..SHORT
        })
    };
    let user = User::new("amita", &file).unwrap();
    let client = as_user(&etcd, Some(user.clone()));
    // While the server has no users a user is nobody.
    client.txn(&Call::put("/amita/a", "1")).unwrap();
    etcd.run(&["auth", "enable"]);
    let from = client.txn(&Call::put("/amita/a", "2")).unwrap().revision;
    let mut watch = client.watch("/amita/", from);
    assert_eq!(next(&mut watch), "/amita/a");
    let error = client.txn(&Call::put("/other", "v")).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("grant"), "{error}");
    match client.watch("/other", 0).wait(Duration::from_secs(20)) {
        Waited::Item(Err(Error::Refused { .. })) => {}
        other => panic!("{other:?}"),
    }
    let error = as_user(&etcd, None).txn(&Call::get("/amita/a")).unwrap_err();
    assert!(error.to_string().contains("--metadata-user"), "{error}");

    // Whenever users or roles are changed every token is too old; a server that starts again knows none.
    let administer = |etcd: &Etcd, arguments: &[&str]| etcd.run(&[&["--user", "root:secret"], arguments].concat());
    administer(&etcd, &["role", "add", "another"]);
    client.txn(&Call::put("/amita/b", "3")).unwrap();
    assert_eq!(next(&mut watch), "/amita/b");
    etcd.resume(false);
    client.txn(&Call::put("/amita/c", "4")).unwrap();
    assert_eq!(next(&mut watch), "/amita/c");

    // Another password: the file is read again.
    etcd.password("new", "second");
    let output = Command::new("/bin/sh")
        .args(["-c", "exec /usr/bin/etcdctl --user root:secret --endpoints \"$1\" --cacert \"$2\" user passwd amita --interactive=false < \"$3\"", "sh"])
        .env("ETCDCTL_API", "3")
        .arg(format!("https://{}", etcd.address))
        .arg(etcd.path("ca.pem"))
        .arg(etcd.path("new"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let error = client.txn(&Call::put("/amita/d", "5")).unwrap_err();
    assert!(error.to_string().contains("does not let user amita in"), "{error}");
    etcd.password("password", "second");
    client.txn(&Call::put("/amita/d", "5")).unwrap();
}

#[test]
fn passwords_that_others_could_read_or_hear_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    let error = User::new("u", &path).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
    std::fs::write(&path, "secret\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = User::new("u", &path).unwrap_err();
    assert!(error.to_string().contains("chmod 600"), "{error}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let user = User::new("u", &path).unwrap();
    assert!(!format!("{user:?}").contains("secret"));
    let options = |insecure_network| Options {
        user: Some(user.clone()),
        insecure_network,
        ..SHORT
    };
    let error = Client::connect_with(&["http://192.0.2.1"], options(false)).unwrap_err();
    assert!(error.to_string().contains("spoken to plainly"), "{error}");
    assert!(Client::connect_with(&["http://192.0.2.1"], options(true)).is_ok());
    assert!(Client::connect_with(&["http://127.0.0.1:1"], options(false)).is_ok());
    for text in ["", "\n", &"x".repeat(2000)] {
        std::fs::write(&path, text).unwrap();
        let error = User::new("u", &path).unwrap_err();
        assert!(error.to_string().contains("one line"), "{error}");
    }
}
