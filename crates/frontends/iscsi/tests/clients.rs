//! Other people's initiators, against a server of volumes in memory: the conformance suite of libiscsi, and QEMU.
//!
//! They need Debian's `libiscsi-bin` and `qemu-utils`, which `scripts/prepare test` installs.

use amita_frontend::memory::{Server, Volumes};
use amita_iscsi::memory::{Board, Iscsi, TARGET, disks};
use amita_iscsi::{Config, Initiator, Secret};
use amita_reactor::Pool;
use amita_types::VolumeId;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
/// The first initiator of libiscsi's suite.
const INITIATOR: &str = "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test";

/// A server on a free port, and a folder for files.
struct Fixture {
    server: Server,
    volumes: Volumes,
    board: Board,
    folder: TempDir,
}

impl Fixture {
    /// `chap`: that has to be proven by [`INITIATOR`].
    fn with(size_bytes: u64, config: Config, chap: Option<(&str, &str)>) -> Fixture {
        let volumes = Volumes::new();
        let board = Board::default();
        let iscsi = Iscsi {
            config,
            board: board.clone(),
        };
        let any = "127.0.0.1:0".parse().expect("an address");
        let server = Server::tcp(any, iscsi, volumes.clone(), Pool::heap()).expect("a free port");
        let mut catalog = disks(&volumes, size_bytes, server.address().into_iter().collect());
        catalog.initiators.extend(chap.map(|(user, secret)| {
            Arc::new(Initiator {
                name: INITIATOR.into(),
                user: user.into(),
                chap: Some(Secret::new(secret.as_bytes().to_vec())),
                chap_target: None,
                target_user: None,
            })
        }));
        board.set_catalog(Arc::new(catalog));
        Fixture {
            server,
            volumes,
            board,
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn new(size_bytes: u64) -> Fixture {
        Self::with(size_bytes, Config::default(), None)
    }

    /// The address of a logical unit; `login`: `USER%SECRET@`, or nothing; `options`: of libiscsi, behind a question mark.
    fn uri(&self, login: &str, lun: u16, options: &str) -> String {
        let address = self.server.address().expect("it listens at an address");
        format!("iscsi://{login}{address}/{TARGET}/{lun}{options}")
    }

    fn volume(&self, lun: u16) -> VolumeId {
        let catalog = self.board.catalog();
        catalog.scsi.targets[0].unit(lun).expect("a logical unit").volume
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a path").to_owned()
    }

    /// An image with data in several places and holes between.
    fn image(&self, name: &str, size_bytes: u64) -> String {
        let path = self.path(name);
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(size_bytes).expect("its length");
        for (seed, offset) in (1..).zip([0, size_bytes / 3 / 4096 * 4096, size_bytes - 3 * MIB]) {
            file.write_all_at(&pattern(seed, 3 << 20), offset).expect("its data");
        }
        path
    }
}

/// Bytes that do not repeat.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Runs a program, for at most three and a half minutes (a suite takes seconds; but other tests run beside it).
fn output(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new("timeout").arg("210").arg(program).args(arguments).output();
    let output = output.expect("coreutils' timeout runs");
    // 127: timeout did not find the program; 124: it has ended it.
    assert_ne!(
        output.status.code(),
        Some(127),
        "{program} is missing; these tests need: apt-get install libiscsi-bin qemu-utils"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert_ne!(output.status.code(), Some(124), "{program} {arguments:?} hung:\n{text}");
    output
}

/// Runs a program that must succeed; what it printed.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{text}",
        output.status
    );
    text
}

/// What the suite said: how many tests it ran, and which of them failed and which were skipped, as `Suite.Test`.
#[derive(Debug, Default)]
struct Report {
    ran: usize,
    failed: BTreeSet<String>,
    skipped: BTreeSet<String>,
}

impl Report {
    /// Of what it prints: a line `Suite: NAME`, a line `  Test: NAME ...` with what the test logs behind it, what more it logs in the lines that
    /// follow, and `passed` or `FAILED` at the begin of the last of these. What is logged behind that, and before the first test, is of none.
    fn of(text: &str) -> Report {
        let mut report = Report::default();
        let (mut suite, mut name, mut is_over) = ("", String::new(), true);
        for line in text.lines() {
            if let Some(found) = line.strip_prefix("Suite: ") {
                suite = found.trim();
            }
            let mut logged = line;
            if let Some((test, rest)) = line.strip_prefix("  Test: ").and_then(|rest| rest.split_once(" ...")) {
                name = format!("{suite}.{test}");
                report.ran += 1;
                is_over = false;
                logged = rest;
            }
            let logged = logged.trim_start();
            let has_failed = logged.starts_with("FAILED");
            if !is_over && has_failed {
                report.failed.insert(name.clone());
            }
            is_over |= has_failed || logged.starts_with("passed");
            if !is_over && logged.contains("[SKIPPED]") {
                report.skipped.insert(name.clone());
            }
        }
        report
    }
}

/// Runs all of libiscsi's suite, by two paths where `paths` is 2; what failed and was skipped must be what is known.
fn suite(fixture: &Fixture, (login, lun, options): (&str, u16, &str), paths: usize, failures: &[&str], skips: &[&str]) {
    let uri = fixture.uri(login, lun, options);
    let mut arguments = vec!["--dataloss", "--allow-sanitize", "--fail", "--test=ALL"];
    arguments.extend(std::iter::repeat_n(uri.as_str(), paths));
    let output = output("iscsi-test-cu", &arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    let report = Report::of(&text);
    // So many has that of Debian 12 (1.19).
    assert!(report.ran >= TESTS, "only {} tests ran:\n{text}", report.ran);
    let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(report.failed, known(failures), "failed:\n{text}");
    assert_eq!(report.skipped, known(skips), "skipped:\n{text}");
    // The program ends with 0 where nothing failed.
    assert_eq!(output.status.success(), failures.is_empty(), "{}", output.status);
}

/// The tests of the suite that Debian 12 has (libiscsi 1.19).
const TESTS: usize = 230;
/// GET LBA STATUS is asked for a block inside a physical one, and the answer is to begin where that ends; it begins where it was asked
/// for (SBC-3, "GET LBA STATUS parameter data"). Blocks of 4 KiB pass.
const FAILS_OF_512: &[&str] = &["GetLBAStatus.UnmapSingle"];
/// Blocks of 512 bytes are written, whatever the size of a block is; and 256 blocks at once as one, whatever the block limits page says. Blocks
/// of 512 bytes pass.
const FAILS_OF_4096: &[&str] = &[
    "ProutReserve.AccessEA",
    "ProutReserve.AccessEAAR",
    "ProutReserve.AccessEARO",
    "ProutReserve.AccessWE",
    "ProutReserve.AccessWEAR",
    "ProutReserve.AccessWERO",
    "WriteAtomic16.Simple",
];
/// What is about a medium that can be taken out or stopped, about defects, or about what there is not (docs/operating/iscsi-conformance.md
/// says of each why).
const SKIPS: &[&str] = &[
    "PreventAllow.2ITNexuses",
    "PreventAllow.ColdReset",
    "PreventAllow.Eject",
    "PreventAllow.ITNexusLoss",
    "PreventAllow.LUNReset",
    "PreventAllow.Logout",
    "PreventAllow.Simple",
    "PreventAllow.WarmReset",
    "ReadDefectData10.Simple",
    "ReadDefectData12.Simple",
    "ReadOnly.ReadOnlySBC",
    "Sanitize.BlockErase",
    "Sanitize.BlockEraseReserved",
    "Sanitize.CryptoErase",
    "Sanitize.CryptoEraseReserved",
    "Sanitize.ExitFailureMode",
    "Sanitize.InvalidServiceAction",
    "Sanitize.Overwrite",
    "Sanitize.OverwriteReserved",
    "Sanitize.Readonly",
    "Sanitize.Reservations",
    "Sanitize.Reset",
    "StartStopUnit.Simple",
    "WriteSame10.ZeroBlocks",
    "WriteSame16.ZeroBlocks",
];
/// What is about physical blocks of several logical ones.
const SKIPS_OF_4096: &[&str] = &[
    "CompareAndWrite.InvalidDataOutSize",
    "WriteSame10.InvalidDataOutSize",
    "WriteSame10.UnmapUnaligned",
    "WriteSame16.InvalidDataOutSize",
    "WriteSame16.UnmapUnaligned",
];

const SKIPS_OF_ONE_PATH: &[&str] = &[
    "MultipathIO.CompareAndWrite",
    "MultipathIO.CompareAndWriteAsync",
    "MultipathIO.Reset",
    "MultipathIO.Simple",
];

fn unsolicited() -> Config {
    let mut config = Config::default();
    config.wishes.initial_r2t = false;
    config
}

#[test]
fn libiscsi_with_blocks_of_512_bytes() {
    let skips = [SKIPS, SKIPS_OF_ONE_PATH].concat();
    suite(&Fixture::new(256 * MIB), ("", 0, ""), 1, FAILS_OF_512, &skips);
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn libiscsi_by_two_sessions_with_blocks_of_4096_bytes() {
    let skips = [SKIPS, SKIPS_OF_4096].concat();
    suite(&Fixture::new(512 * MIB), ("", 1, ""), 2, FAILS_OF_4096, &skips);
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn libiscsi_by_two_sessions_with_data_that_nobody_has_asked_for() {
    let fixture = Fixture::with(256 * MIB, unsolicited(), None);
    suite(&fixture, ("", 0, ""), 2, FAILS_OF_512, SKIPS);
}

/// libiscsi has digests of headers, not of data.
#[test]
fn libiscsi_by_two_sessions_with_digests() {
    suite(
        &Fixture::new(256 * MIB),
        ("", 0, "?header_digest=crc32c"),
        2,
        FAILS_OF_512,
        SKIPS,
    );
}

#[test]
fn libiscsi_proves_itself() {
    let fixture = Fixture::with(256 * MIB, Config::default(), Some(("user", "twelve-bytes")));
    suite(&fixture, ("user%twelve-bytes@", 0, ""), 2, FAILS_OF_512, SKIPS);
    let refused = |login| {
        let uri = fixture.uri(login, 0, "");
        let output = output("iscsi-inq", &["--initiator-name", INITIATOR, &uri]);
        assert!(!output.status.success(), "{login:?} is let in");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let (wrong, none) = (refused("user%twelve-bites@"), refused(""));
    assert!(wrong.contains("uthentication"), "{wrong}");
    assert!(none.contains("uthentication"), "{none}");
}

/// A snapshot is a logical unit that nobody writes.
#[test]
fn libiscsi_finds_that_a_snapshot_is_read_only() {
    let fixture = Fixture::new(64 * MIB);
    let uri = fixture.uri("", 2, "");
    let text = run("iscsi-test-cu", &["--dataloss", "--fail", "--test=ALL.ReadOnly", &uri]);
    let report = Report::of(&text);
    assert_eq!(
        (report.ran, report.skipped, report.failed),
        (1, BTreeSet::new(), BTreeSet::new()),
        "{text}"
    );
}

#[test]
fn libiscsi_finds_targets_and_their_disks() {
    let fixture = Fixture::new(64 * MIB);
    let address = fixture.server.address().expect("an address");
    let list = run("iscsi-ls", &["--show-luns", &format!("iscsi://{address}")]);
    assert!(list.contains(&format!("Target:{TARGET} Portal:{address},1")), "{list}");
    for line in ["Lun:0    Type:DIRECT_ACCESS (Size:63M)", "Lun:1 ", "Lun:2 "] {
        assert!(list.contains(line), "{line:?} is missing in:\n{list}");
    }
}

/// An image goes there and comes back, with its holes.
#[test]
fn qemu_copies_an_image_there_and_back() {
    for lun in [0, 1] {
        let size_bytes = 256 * MIB;
        let fixture = Fixture::new(size_bytes);
        let uri = fixture.uri("", lun, "");
        let info = run("qemu-img", &["info", &uri]);
        assert!(info.contains("virtual size: 256 MiB (268435456 bytes)"), "{info}");
        let (image, back) = (fixture.image("image", size_bytes), fixture.path("back"));
        let raw = ["-f", "raw"];
        run(
            "qemu-img",
            &[&["convert", "-n", "-O", "raw"], &raw[..], &[&image, &uri]].concat(),
        );
        let compare = [&["compare", "-F", "raw"], &raw[..], &[&image, &uri]].concat();
        assert!(run("qemu-img", &compare).contains("identical"));
        run(
            "qemu-img",
            &[&["convert", "-O", "raw"], &raw[..], &[&uri, &back]].concat(),
        );
        let read = |path: &str| std::fs::read(Path::new(path)).expect("an image");
        assert!(read(&image) == read(&back));
        // What was not there takes no space here.
        let map = run("qemu-img", &[&["map", "--output=json"], &raw[..], &[&uri]].concat());
        let holes = map.matches("\"data\": false").count();
        let data = map.matches("\"length\": 3145728").count();
        assert_eq!((holes, data), (2, 3), "{map}");
    }
}

/// QEMU 7.2 aborts by an assertion of its own when it reads 32 KiB or more of a disk with blocks of 4 KiB whose blocks it has not asked for
/// before (it asks for an odd number of them then).
#[test]
fn qemu_reads_writes_zeroes_and_discards() {
    for (lun, reads) in [
        (0, ["1M", "256k", "128k", "64k", "4M"]),
        (1, ["16k", "16k", "16k", "16k", "16k"]),
    ] {
        let fixture = Fixture::new(256 * MIB);
        let uri = fixture.uri("", lun, "");
        let [written, zeroed, discarded, kept, beside] = reads;
        let commands = [
            "write -P 0x5a 4k 1M",
            &format!("read -P 0x5a 4k {written}"),
            "write -z 64k 256k",
            &format!("read -P 0 64k {zeroed}"),
            "discard 512k 128k",
            &format!("read -P 0 512k {discarded}"),
            &format!("read -P 0x5a 640k {kept}"),
            "write -z -u 1M 1M",
            "flush",
            "aio_write -P 7 10M 4M",
            "aio_write -P 8 20M 4M",
            "aio_flush",
            &format!("read -P 7 10M {beside}"),
            &format!("read -P 8 20M {beside}"),
        ];
        let mut arguments = vec!["-f", "raw"];
        commands.iter().for_each(|command| arguments.extend(["-c", command]));
        arguments.push(&uri);
        let text = run("qemu-io", &arguments);
        assert!(!text.contains("Pattern verification failed"), "{text}");
        let volume = fixture.volume(lun);
        assert_eq!(fixture.volumes.read(volume, 10 << 20, 16), [7; 16]);
        assert_eq!(fixture.volumes.read(volume, 64 << 10, 16), [0; 16]);
        assert_eq!(fixture.volumes.read(volume, 4 << 10, 16), [0x5a; 16]);
    }
}

/// What comes behind a silence waits for the host's answer, and a burst that has no room meanwhile is sent again.
#[test]
fn qemu_goes_on_after_a_silence() {
    let fixture = Fixture::new(64 * MIB);
    let uri = fixture.uri("", 0, "");
    let commands = [
        "write -P 1 0 64k",
        "sleep 1700",
        "aio_write -P 2 0 16M",
        "aio_write -P 3 16M 16M",
        "aio_write -P 4 32M 16M",
        "aio_flush",
        "sleep 1700",
        "read -P 2 0 64k",
        "read -P 4 47M 64k",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(&uri);
    let text = run("qemu-io", &arguments);
    assert!(!text.contains("failed"), "{text}");
    let volume = fixture.volume(0);
    for (number, at) in [(2, 0), (3, 16), (4, 32)] {
        let bytes = fixture.volumes.read(volume, at << 20, 16 << 20);
        assert!(bytes.iter().all(|byte| *byte == number), "at {at} MiB");
    }
}
