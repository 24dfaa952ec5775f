//! Programs in C, compiled against the header and run with the shared library against nodes in this process: the
//! examples of the documentation, and one that does everything wrong.

#[path = "../../client/tests/world/mod.rs"]
mod world;

use amita_client::{Client, Done, Queue};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use world::{PATIENCE, World, noise};

/// Where the shared library lies under the name that programs look for, and the programs.
struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    fn new() -> Workshop {
        let folder = tempfile::tempdir().unwrap();
        let built = std::env::current_exe().unwrap().with_file_name("libamita_c.so");
        assert!(built.exists(), "{} was not built", built.display());
        for name in ["libamita.so", "libamita.so.0"] {
            std::os::unix::fs::symlink(&built, folder.path().join(name)).unwrap();
        }
        Workshop { folder }
    }

    /// Compiles a program with all warnings as errors.
    fn compile(&self, source: &str) -> PathBuf {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = self.folder.path().join("program");
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        command.arg(&program).arg(package.join(source));
        command
            .arg("-I")
            .arg(package.join("include"))
            .arg("-L")
            .arg(self.folder.path());
        command
            .arg("-lamita")
            .arg(format!("-Wl,-rpath,{}", self.folder.path().display()));
        let output = command.output().expect("a C compiler; apt-get install gcc");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }
}

/// Runs a program to its end, which must come.
fn run(program: &Path, arguments: &[&str], metadata: &str) -> Output {
    let mut command = Command::new("timeout");
    command
        .arg("100")
        .arg(program)
        .args(arguments)
        .env("AMITA_METADATA", metadata);
    command.output().unwrap()
}

fn expect(source: &str, arguments: &[&str], said: &str) {
    expect_in(&World::new(3), source, arguments, said);
}

fn expect_in(world: &World, source: &str, arguments: &[&str], said: &str) {
    let workshop = Workshop::new();
    let output = run(&workshop.compile(source), arguments, &world.endpoint);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source}: {}: {text}{errors}", output.status);
    assert!(text.contains(said), "{source}: {text}{errors}");
}

#[test]
fn hello() {
    expect("examples/hello.c", &["v"], "read: three copies of this are durable");
}

#[test]
fn hello_says_what_is_wrong() {
    let (world, workshop) = (World::new(1), Workshop::new());
    let program = workshop.compile("examples/hello.c");
    let output = run(&program, &["nothing"], &world.endpoint);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("open: volume nothing: there is no volume of that name"),
        "{errors}"
    );
}

#[test]
fn events() {
    expect("examples/events.c", &["v"], "4096 blocks written and read, 0 differ");
}

#[test]
fn misuse() {
    let world = World::new(3);
    world.take_snapshot("was");
    expect_in(&world, "tests/misuse.c", &[], "every misuse is an error");
}

#[test]
fn what_was_changed() {
    let (world, workshop) = (World::new(3), Workshop::new());
    let program = workshop.compile("examples/changes.c");
    let client = Client::connect(&world.config()).unwrap();
    let volume = client.open("v").unwrap();
    let mut queue = client.queue(16).unwrap();
    let mut write = |offset: u64, bytes: usize, seed: u64| {
        let mut buffer = queue.buffer(bytes).expect("memory");
        buffer.copy_from_slice(&noise(bytes, seed));
        queue.write(&volume, offset, buffer.freeze(), 1).unwrap();
        end(&mut queue);
    };
    const MIB: u64 = 1 << 20;
    write(0, 16384, 1);
    write(8 * MIB, 8192, 2);
    world.take_snapshot("one");
    // The same bytes as before, two blocks that touch those, and two that touch each other over a chunk's border.
    write(0, 4096, 1);
    write(5000, 5000, 3);
    write(4 * MIB - 1, 2, 4);
    queue.discard(&volume, 8 * MIB, 4096, 1).unwrap();
    end(&mut queue);
    world.take_snapshot("two");
    let mut write = |offset: u64| {
        let mut buffer = queue.buffer(100).expect("memory");
        buffer.copy_from_slice(&noise(100, 5));
        queue.write(&volume, offset, buffer.freeze(), 1).unwrap();
        end(&mut queue);
    };
    write(60 * MIB + 1);
    let of_two = "0 12288 data\n4190208 4096 data\n4194304 4096 data\n8388608 4096 zero\n";
    let say = |arguments: &[&str]| {
        let output = run(&program, arguments, &world.endpoint);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {}: {errors}", output.status);
        String::from_utf8(output.stdout).unwrap()
    };
    // While another program has the volume.
    assert_eq!(say(&["v@two", "one"]), of_two);
    for arguments in [
        ["v@one", "two"],
        ["v@two", "two"],
        ["v@two", "nothing"],
        ["v@nothing", "one"],
        ["w", "one"],
    ] {
        let output = run(&program, &arguments, &world.endpoint);
        let errors = String::from_utf8_lossy(&output.stderr);
        let says = ["no snapshot", "no such snapshot", "no volume of that name"];
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(
            says.iter().any(|words| errors.contains(words)),
            "{arguments:?}: {errors}"
        );
    }
    client.close();
    assert_eq!(say(&["v@two", "one"]), of_two);
    assert_eq!(say(&["v", "one"]), format!("{of_two}{} 4096 data\n", 60 * MIB));
    assert_eq!(say(&["v", "two"]), format!("{} 4096 data\n", 60 * MIB));
}

/// Waits for the one request that is under way.
fn end(queue: &mut Queue) {
    let mut done = Vec::new();
    queue.wait(PATIENCE, &mut done);
    assert!(matches!(done[..], [Done { result: Ok(()), .. }]), "{done:?}");
}

/// What `make install-lib` installs is what a program is built with by `pkg-config`, and runs with.
#[test]
fn installed() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    let script = package.join("../../../scripts/install-lib");
    let from = std::env::current_exe().unwrap();
    let output = Command::new(script)
        .arg(&prefix)
        .arg(from.parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let world = World::new(1);
    for (how, extra) in [("shared", ""), ("static", "--static")] {
        let program = folder.path().join(how);
        let build = format!(
            "cc -o {} {} $(pkg-config {extra} --cflags --libs amita | sed 's|-lamita|{}|') -Wl,-rpath,{}",
            program.display(),
            package.join("examples/hello.c").display(),
            if extra.is_empty() { "-lamita" } else { "-l:libamita.a" },
            prefix.join("lib").display(),
        );
        let mut command = Command::new("sh");
        command
            .args(["-c", &build])
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{how}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let output = run(&program, &["v"], &world.endpoint);
        assert!(
            output.status.success(),
            "{how}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// The header is C++ as well.
#[test]
fn the_header_is_cpp_too() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("header.cpp");
    std::fs::write(&source, "#include <amita.h>\nint main() { return 0; }\n").unwrap();
    let output = Command::new("c++")
        .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .arg(&source)
        .output()
        .expect("a C++ compiler; apt-get install g++");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
