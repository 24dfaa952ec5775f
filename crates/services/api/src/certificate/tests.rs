use super::*;
use rcgen::{CertificateParams, KeyPair};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { folder };
        files.make("one.example");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    fn make(&self, host: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([host.to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        self.write("cert.pem", &certificate.pem(), 0o644);
        self.write("key.pem", &key.serialize_pem(), 0o600);
    }

    fn open(&self) -> Result<Arc<Shown>, BadCertificate> {
        Shown::open(&self.path("cert.pem"), &self.path("key.pem"))
    }

    /// What is said of files that are wrong: which file, and what.
    #[track_caller]
    fn refused(&self, file: &str, what: &str) {
        let said = self.open().unwrap_err().to_string();
        assert!(said.contains(file) && said.contains(what), "{said}");
        let key = fs::read_to_string(self.path("key.pem")).unwrap_or_default();
        for line in key
            .lines()
            .filter(|line| line.len() > 20 && !line.contains("BEGIN") && !line.contains("END"))
        {
            assert!(!said.contains(line), "a line of the key is said");
        }
    }
}

#[test]
fn a_pair_is_taken_and_changes_with_its_files() {
    let files = Files::new();
    let shown = files.open().unwrap();
    let first = shown.current().certified.cert.clone();
    assert!(!shown.validity().1, "{:?}", shown.validity());
    assert!(!shown.reload().unwrap());
    files.make("two.example");
    assert!(shown.reload().unwrap());
    assert_ne!(shown.current().certified.cert, first);
    // The certificate of the next pair is there, and its key is not yet: what was shown goes on being shown.
    let key = fs::read_to_string(files.path("key.pem")).unwrap();
    let second = shown.current().certified.cert.clone();
    files.make("three.example");
    let next_key = fs::read_to_string(files.path("key.pem")).unwrap();
    files.write("key.pem", &key, 0o600);
    assert!(matches!(shown.reload(), Err(BadCertificate::Pair { .. })));
    assert_eq!(shown.current().certified.cert, second);
    files.write("key.pem", &next_key, 0o600);
    assert!(shown.reload().unwrap());
    // It is gone: so is no connection.
    fs::remove_file(files.path("cert.pem")).unwrap();
    assert!(matches!(shown.reload(), Err(BadCertificate::Unreadable { .. })));
    assert_eq!(shown.current().certified.cert.len(), 1);
}

#[test]
fn what_is_wrong_with_files_is_said() {
    let files = Files::new();
    let key = fs::read_to_string(files.path("key.pem")).unwrap();
    files.write("key.pem", &KeyPair::generate().unwrap().serialize_pem(), 0o600);
    files.refused("key.pem", "is for another key");
    files.write("key.pem", "", 0o600);
    files.refused("key.pem", "no key in it");
    files.write(
        "key.pem",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        0o600,
    );
    files.refused("key.pem", "password");
    files.write("key.pem", &key.replace("END", "DNE"), 0o600);
    files.refused("key.pem", "key.pem");
    fs::write(files.path("key.pem"), [0x30, 0x82, 0xff]).unwrap();
    files.refused("key.pem", "PEM");
    files.write("key.pem", &key, 0o600);
    assert!(files.open().is_ok());
    files.write("cert.pem", "nothing", 0o644);
    files.refused("cert.pem", "no certificate");
    files.write(
        "cert.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        0o644,
    );
    files.refused("cert.pem", "cert.pem");
    fs::remove_file(files.path("cert.pem")).unwrap();
    files.refused("cert.pem", "No such file");
    fs::create_dir(files.path("cert.pem")).unwrap();
    files.refused("cert.pem", "regular file");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let files = Files::new();
    let path = files.path("key.pem");
    let own = fs::metadata(&path).unwrap().uid();
    // Root's may be read by a group that root has chosen; anybody else's by nobody.
    let group = if own == ROOT { None } else { Some("others may read") };
    for (mode, said) in [
        (0o600, None),
        (0o400, None),
        (0o640, group),
        (0o660, Some("others may read")),
        (0o604, Some("others may read")),
        (0o644, Some("0644")),
    ] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        match said {
            None => drop(files.open().unwrap()),
            Some(said) => files.refused("key.pem", said),
        }
    }
    let found = fs::metadata(&path).unwrap();
    assert!(check(&found, own + 1).is_err() || own == ROOT, "another user's");
}

#[test]
fn a_fault_is_told_when_it_stays_and_not_all_the_time() {
    let (mut faults, start) = (Faults::default(), Instant::now());
    let mut tell = |text: &str, seconds: u64| faults.news(text.to_owned(), start + Duration::from_secs(seconds));
    assert_eq!(tell("a", 0), None, "the other file may be about to come");
    assert_eq!(tell("a", 5).as_deref(), Some("a"));
    assert_eq!(tell("a", 10), None);
    assert_eq!(tell("b", 15), None);
    assert_eq!(tell("b", 20).as_deref(), Some("b"));
    assert_eq!(tell("b", 619), None);
    assert_eq!(tell("b", 620).as_deref(), Some("b"));
}
