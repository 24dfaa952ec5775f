//! fio, as Debian has it, with the engine of this package, against nodes in this process: what it writes it verifies.

#[path = "../../client/tests/world/mod.rs"]
mod world;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use world::World;

/// Builds the engine over the library that was just built.
fn engine(folder: &Path) -> PathBuf {
    let built = std::env::current_exe().unwrap().with_file_name("libamita_c.a");
    let engine = folder.join("amita-fio.so");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/build-fio-engine");
    let mut command = Command::new(script);
    command.arg("--library").arg(&built).arg("--output").arg(&engine);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    engine
}

fn fio(world: &World, engine: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["120", "fio", "--name=job", "--output-format=terse"]);
    command.arg(format!("--ioengine=external:{}", engine.display()));
    command
        .arg(format!("--metadata={}", world.endpoint))
        .arg("--buffers=64m");
    command.args(arguments).current_dir(world.folder.path());
    command.output().unwrap()
}

fn expect(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
    // The fifth field of a job's line is its error (fio(1), "terse output"): each job has one, and none failed.
    let codes: Vec<&str> = text.lines().filter_map(|line| line.split(';').nth(4)).collect();
    assert!(
        !codes.is_empty() && codes.iter().all(|code| *code == "0"),
        "{text}{errors}"
    );
}

#[test]
fn fio_verifies_what_it_wrote() {
    let world = World::new(3);
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    // Every block of the volume, in a random order, with checksums, by the core in fio's thread.
    expect(&fio(
        &world,
        &engine,
        &[
            "--volume=v",
            "--rw=randwrite",
            "--bs=4k",
            "--iodepth=32",
            "--size=24m",
            "--verify=crc32c",
        ],
    ));
    // Another process finds it there; through another queue, in pieces across chunks.
    let again = [
        "--verify=crc32c",
        "--verify_only",
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=4",
        "--size=24m",
    ];
    let mut shared = vec!["--volume=v", "--inline=0"];
    shared.extend(again);
    expect(&fio(&world, &engine, &shared));
    expect(&fio(
        &world,
        &engine,
        &[
            "--filename=v",
            "--rw=rw",
            "--bs=512-300k",
            "--bs_unaligned",
            "--iodepth=8",
            "--size=32m",
            "--fsync=16",
        ],
    ));
    expect(&fio(
        &world,
        &engine,
        &["--volume=v", "--rw=randtrim", "--bs=64k", "--iodepth=8", "--size=16m"],
    ));
}

#[test]
fn jobs_of_one_volume_share_a_client_or_are_refused() {
    let world = World::new(1);
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let jobs = [
        "--volume=v",
        "--numjobs=3",
        "--rw=randrw",
        "--bs=4k",
        "--iodepth=8",
        "--size=8m",
        "--offset_increment=8m",
    ];
    let mut shared = vec!["--inline=0"];
    shared.extend(jobs);
    expect(&fio(&world, &engine, &shared));
    // Each its own client: the volume has one owner at a time, and the others are told so. (Two that start at the same moment
    // may not reach each other yet: then the later one takes it over.)
    let mut alone = vec!["--inline=1", "--time_based", "--runtime=3"];
    alone.extend(jobs);
    let output = fio(&world, &engine, &alone);
    let errors = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    let told = [
        "open: volume v: refused",
        "the volume was taken over by another gateway",
    ];
    assert!(told.iter().any(|told| errors.contains(told)), "{errors}");
}

#[test]
fn fio_says_what_is_wrong() {
    let world = World::new(1);
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let said = |arguments: &[&str], what: &str| {
        let output = fio(&world, &engine, arguments);
        let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(
            !output.status.success() && text.contains(what),
            "{}: {text}",
            output.status
        );
    };
    said(
        &["--volume=nothing", "--rw=read", "--size=1m"],
        "volume nothing: there is no volume of that name",
    );
    said(&["--rw=read", "--size=1m"], "name the volume");
    said(
        &["--volume=v", "--rw=read", "--bs=2m", "--size=8m"],
        "1 to 1048576 are allowed",
    );
}
