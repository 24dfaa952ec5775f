//! The clients that people use, against a server of volumes in memory.

mod common;

use amita_frontend::memory::{Server, Volumes};
use amita_nbd::memory::Nbd;
use amita_nbd::{Config, TlsAcceptor, TlsFiles, TlsMode};
use amita_reactor::Pool;
use amita_types::VolumeId;
use common::{fails, pattern, run};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A server on a Unix socket (or with `tcp`, on a free port) and a folder for files.
struct Fixture {
    server: Server,
    volumes: Volumes,
    volume: VolumeId,
    folder: TempDir,
}

impl Fixture {
    fn new(size_bytes: u64) -> Fixture {
        Self::with(size_bytes, Config::default(), false)
    }

    fn with(size_bytes: u64, config: Config, tcp: bool) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let volumes = Volumes::new();
        let volume = volumes.add("vol", size_bytes, 4 << 20, false);
        let server = if tcp {
            Server::tcp(
                "127.0.0.1:0".parse().unwrap(),
                Nbd::from(config),
                volumes.clone(),
                Pool::heap(),
            )
        } else {
            Server::unix(
                &folder.path().join("nbd"),
                Nbd::from(config),
                volumes.clone(),
                Pool::heap(),
            )
        };
        Fixture {
            server: server.unwrap(),
            volumes,
            volume,
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn uri(&self, export: &str) -> String {
        match self.server.address() {
            Some(address) => format!("nbd://{address}/{export}"),
            None => format!("nbd+unix:///{export}?socket={}", self.path("nbd").display()),
        }
    }

    /// An image with data in several places and holes between.
    fn image(&self, name: &str, size_bytes: u64) -> PathBuf {
        let path = self.path(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(size_bytes).unwrap();
        for (seed, offset) in [0, size_bytes / 3 / 512 * 512, size_bytes - 3 * MIB]
            .into_iter()
            .enumerate()
        {
            use std::os::unix::fs::FileExt;
            file.write_all_at(&pattern(seed as u64, 3 << 20), offset).unwrap();
        }
        path
    }
}

fn same(a: &Path, b: &Path) -> bool {
    std::fs::read(a).unwrap() == std::fs::read(b).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn nbdinfo_tells_what_is_there() {
    let fixture = Fixture::new(64 * MIB);
    fixture.volumes.add("another", MIB, 4096, true);
    let info = run("nbdinfo", &[&fixture.uri("vol")]);
    for line in [
        "protocol: newstyle-fixed without TLS, using structured packets",
        "export-size: 67108864 (64M)",
        "base:allocation",
        "is_rotational: false",
        "is_read_only: false",
        "can_cache: true",
        "can_df: true",
        "can_fast_zero: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "block_size_minimum: 1",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(info.contains(line), "{line:?} is missing in:\n{info}");
    }
    let list = run("nbdinfo", &["--list", &fixture.uri("")]);
    assert!(
        list.contains("export=\"vol\"") && list.contains("export=\"another\""),
        "{list}"
    );
    assert!(run("nbdinfo", &["--size", &fixture.uri("vol")]).trim() == "67108864");
    assert!(run("nbdinfo", &[&fixture.uri("another")]).contains("is_read_only: true"));
    let error = fails("nbdinfo", &[&fixture.uri("nothing")]);
    assert!(error.contains("nothing"), "the server's text reaches the user: {error}");
}

#[test]
fn nbdinfo_lists_what_a_snapshot_is_compared_with() {
    let fixture = Fixture::new(64 * MIB);
    for name in ["monday", "tuesday"] {
        fixture.volumes.take_snapshot(fixture.volume, name);
    }
    let contexts = |export| {
        let text = run("nbdinfo", &["--json", &fixture.uri(export)]);
        let contexts = text
            .split_once("\"contexts\": [")
            .unwrap_or_else(|| panic!("{export}: {text}"))
            .1;
        let contexts = contexts.split_once(']').expect("a list").0.split('"');
        contexts
            .filter(|word| word.contains(':'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let all = [
        "base:allocation",
        "qemu:dirty-bitmap:monday",
        "qemu:dirty-bitmap:tuesday",
    ];
    assert_eq!(contexts("vol"), all);
    assert_eq!(contexts("vol@tuesday"), all[..2]);
    assert_eq!(contexts("vol@monday"), all[..1]);
}

#[test]
fn nbdcopy_there_and_back() {
    let fixture = Fixture::new(64 * MIB);
    let image = fixture.image("image", 64 * MIB);
    let uri = fixture.uri("vol");
    run("nbdcopy", &["--flush", text(&image), &uri]);
    let bytes = std::fs::read(&image).unwrap();
    assert!(fixture.volumes.read(fixture.volume, 0, bytes.len()) == bytes);
    assert_eq!(
        fixture.volumes.allocated_bytes(fixture.volume),
        9 * MIB + 4096,
        "holes stay holes"
    );
    let back = fixture.path("back");
    run("nbdcopy", &[&uri, text(&back)]);
    assert!(same(&image, &back));
    let map = run("nbdinfo", &["--map", &uri]);
    assert!(map.contains("hole,zero") && map.contains("data"), "{map}");
    let totals = run("nbdinfo", &["--map", "--totals", &uri]);
    assert!(totals.contains("hole,zero"), "{totals}");
    // Allocated: zeros are written where the source has holes.
    run("nbdcopy", &["--allocated", text(&image), &uri]);
    assert_eq!(fixture.volumes.allocated_bytes(fixture.volume), 64 * MIB);
}

#[test]
fn nbdcopy_with_several_connections() {
    for tcp in [false, true] {
        let fixture = Fixture::with(128 * MIB, Config::default(), tcp);
        let image = fixture.image("image", 128 * MIB);
        let (uri, back) = (fixture.uri("vol"), fixture.path("back"));
        let options = ["--connections=4", "--threads=4", "--requests=64"];
        run("nbdcopy", &[&options[..], &[text(&image), &uri]].concat());
        run(
            "nbdcopy",
            &[&options[..], &["--request-size=33554432", &uri, text(&back)]].concat(),
        );
        assert!(same(&image, &back), "TCP: {tcp}");
    }
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    let fixture = Fixture::new(64 * MIB);
    let image = fixture.image("image", 64 * MIB);
    let uri = fixture.uri("vol");
    run(
        "qemu-img",
        &["convert", "-n", "-f", "raw", "-O", "raw", text(&image), &uri],
    );
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", text(&image), &uri]);
    let map = run("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
    assert!(
        map.contains("\"data\": true") && map.contains("\"zero\": true"),
        "{map}"
    );
    let back = fixture.path("back.qcow2");
    run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, text(&back)]);
    run("qemu-img", &["compare", text(&image), text(&back)]);
    // Into a target that is known to be full of old data.
    run(
        "qemu-img",
        &["convert", "-n", "-S", "0", "-f", "raw", "-O", "raw", text(&image), &uri],
    );
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", text(&image), &uri]);
    let error = fails("qemu-img", &["info", &fixture.uri("nothing")]);
    assert!(error.contains("nothing"), "{error}");
}

#[test]
fn qemu_io_reaches_single_bytes_and_special_commands() {
    let fixture = Fixture::new(16 * MIB);
    let uri = fixture.uri("vol");
    let commands = [
        "write -P 0x55 0 1M",
        "write -P 0x66 513 1",
        "read -P 0x55 0 513",
        "read -P 0x66 513 1",
        "read -P 0x55 514 1000",
        "write -f -P 0x77 4095 2",
        "write -z 8192 10000",
        "read -P 0 8192 10000",
        "write -z -u 100k 1M",
        "read -P 0 100k 1M",
        "discard 2M 8M",
        "flush",
        "write -P 0x12 0 16M",
        "read -P 0x12 0 16M",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", *command]));
    arguments.push(&uri);
    let output = run("qemu-io", &arguments);
    assert!(!output.contains("failed") && !output.contains("error"), "{output}");
}

#[test]
fn fio_verifies_what_it_wrote() {
    let fixture = Fixture::new(64 * MIB);
    let uri = format!("--uri={}", fixture.uri("vol"));
    for (name, arguments) in [
        ("4k", &["--bs=4k", "--iodepth=32"][..]),
        ("mixed", &["--bsrange=512-64k", "--blockalign=512", "--iodepth=16"]),
        ("512", &["--bs=512", "--iodepth=64", "--io_size=8M"]),
        ("long", &["--bs=4M", "--iodepth=4"]),
    ] {
        let name = format!("--name={name}");
        let common = [
            &name,
            "--ioengine=nbd",
            &uri,
            "--rw=randwrite",
            "--size=32M",
            "--verify=crc32c",
            "--do_verify=1",
            "--verify_state_save=0",
            "--verify_fatal=1",
            "--randrepeat=1",
        ];
        let output = run("fio", &[&common[..], arguments].concat());
        assert!(output.contains("err= 0"), "{output}");
    }
}

/// Certificates in the places where GnuTLS-based clients look for them.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "Test authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca-cert.pem"), authority.pem()).unwrap();
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.signed_by(&key, &authority).unwrap();
        std::fs::write(folder.join(format!("{name}-cert.pem")), certificate.pem()).unwrap();
        std::fs::write(folder.join(format!("{name}-key.pem")), key.serialize_pem()).unwrap();
    }
}

#[test]
fn clients_over_tls() {
    let pki = tempfile::tempdir().unwrap();
    certificates(pki.path());
    let anonymous = tempfile::tempdir().unwrap();
    std::fs::copy(pki.path().join("ca-cert.pem"), anonymous.path().join("ca-cert.pem")).unwrap();
    for (mode, verify) in [
        (TlsMode::Allow, false),
        (TlsMode::Require, false),
        (TlsMode::Require, true),
    ] {
        let files = TlsFiles {
            certificate: pki.path().join("server-cert.pem"),
            key: pki.path().join("server-key.pem"),
            client_authorities: verify.then(|| pki.path().join("ca-cert.pem")),
        };
        let tls = Some(TlsAcceptor::load(mode, &files).unwrap());
        let fixture = Fixture::with(
            32 * MIB,
            Config {
                tls,
                ..Config::default()
            },
            true,
        );
        let port = fixture.server.address().unwrap().port();
        let own = if verify { pki.path() } else { anonymous.path() };
        let uri = format!("nbds://localhost:{port}/vol?tls-certificates={}", own.display());
        let info = run("nbdinfo", &[&uri]);
        assert!(info.contains("protocol: newstyle-fixed with TLS"), "{info}");
        let image = fixture.image("image", 32 * MIB);
        run("nbdcopy", &[text(&image), &uri]);
        let back = fixture.path("back");
        run("nbdcopy", &["--connections=2", &uri, text(&back)]);
        assert!(same(&image, &back));
        let credentials = format!("tls-creds-x509,id=tls0,endpoint=client,dir={}", own.display());
        let target = format!("driver=nbd,host=localhost,port={port},export=vol,tls-creds=tls0");
        run("qemu-img", &["info", "--object", &credentials, "--image-opts", &target]);

        let plain = fixture.uri("vol");
        if mode == TlsMode::Require {
            let error = fails("nbdinfo", &[&plain]);
            assert!(error.contains("TLS"), "{error}");
        } else {
            assert!(run("nbdinfo", &[&plain]).contains("without TLS"));
        }
        if verify {
            let uri = format!(
                "nbds://localhost:{port}/vol?tls-certificates={}",
                anonymous.path().display()
            );
            fails("nbdinfo", &[&uri]);
        }
    }
}
