//! `docs/operating/quickstart.md`, command by command, as a person would paste it into a shell; and that what README tells to
//! run is there.

use crate::world::{PATIENCE, STORE_BYTES, binary, scratch};
use amita_harness::{ports, tool};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What a comment `# until ...` of the page waits for, as a pattern of `grep -E` (of the whole output as one line).
const UNTIL: &[(&str, &str)] = &[
    (
        "the stores of n1, n2 and n3 are alive",
        "n[123] +yes .*n[123] +yes .*n[123] +yes ",
    ),
    ("n3 is missed", "Node n3 does not hold its lease"),
    ("the health is ok", "health  ok"),
];

fn page(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of all blocks marked as shell, in order.
fn commands(page: &str) -> Vec<&str> {
    let mut inside = false;
    let mut opens = true;
    for fence in page.lines().filter(|line| line.starts_with("```")) {
        assert_eq!(fence, if opens { "```sh" } else { "```" }, "a block that is not run");
        opens = !opens;
    }
    let lines = page.lines().filter(|line| {
        let fence = line.starts_with("```");
        inside = if fence { *line == "```sh" } else { inside };
        inside && !fence
    });
    lines.collect()
}

/// What is replaced, so that the page's cluster is one beside others and small. Each must be on the page.
fn replacements() -> Vec<(&'static str, String)> {
    let (metadata, fabric, nbd, nvme) = (
        ports::free(),
        ports::free_row(4),
        ports::free_row(4),
        ports::free_row(4),
    );
    vec![
        ("127.0.0.1:2379", format!("127.0.0.1:{metadata}")),
        ("127.0.0.1:700$i", format!("127.0.0.1:$(({fabric} + i))")),
        ("127.0.0.1:7003", format!("127.0.0.1:{}", fabric + 3)),
        ("127.0.0.1:1080$i", format!("127.0.0.1:$(({nbd} + i))")),
        ("127.0.0.1:10801", format!("127.0.0.1:{}", nbd + 1)),
        ("127.0.0.1:10803", format!("127.0.0.1:{}", nbd + 3)),
        ("127.0.0.1:442$i", format!("127.0.0.1:$(({nvme} + i))")),
        ("127.0.0.1:4423", format!("127.0.0.1:{}", nvme + 3)),
        ("--size 2G", format!("--size {STORE_BYTES}")),
        ("--size 1G", "--size 64M".to_owned()),
        ("--size=256M", "--size=16M".to_owned()),
        (
            "\"$(cat /etc/nvme/hostnqn)\"",
            "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8052-b4c04f4e3732".to_owned(),
        ),
    ]
}

/// The page as a script that ends at the first command that fails, and shows each.
fn script(page: &str) -> String {
    let mut lines = vec![
        "set -eu".to_owned(),
        // Shows the last answer only, and which of the conditions it fulfilled.
        "until_it_says() { for n in $(seq 300); do last=$(\"${@:3}\" 2>&1) || true; if echo \"$last\" | tr '\\n' ' ' | grep -qE \"$2\"; then echo \"$last\"; echo \"so it is: $1\"; return; fi; sleep 0.2; done; echo \"$last\"; return 1; }".to_owned(),
        "set -x".to_owned(),
    ];
    for line in commands(page) {
        let Some((command, what)) = line.split_once("# until ") else {
            lines.push(line.to_owned());
            continue;
        };
        let known = UNTIL.iter().find(|(known, _)| *known == what);
        let (_, pattern) = known.unwrap_or_else(|| panic!("the test does not know how to wait until {what:?}"));
        lines.push(format!("until_it_says '{what}' '{pattern}' {}", command.trim_end()));
    }
    lines.push("kill $(jobs -pr); wait; echo 'the page is done'".to_owned());
    let mut script = lines.join("\n");
    for (there, here) in replacements() {
        assert!(script.contains(there), "{there:?} is not on the page any more");
        script = script.replace(there, &here);
    }
    script
}

#[test]
fn every_command_of_the_page_does_what_the_page_says() {
    let scratch = scratch(4 * STORE_BYTES);
    let folder = scratch.stores();
    // What the shell leaves in the background ends with the shell, also when this test is killed.
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    let amita = bin.join("amita");
    let wrapper = format!("#!/bin/sh\nexec setpriv --pdeathsig KILL -- '{}' \"$@\"\n", binary());
    std::fs::write(&amita, wrapper).expect("written");
    std::fs::set_permissions(&amita, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    let script = format!(
        "PATH='{}':$PATH\n{}",
        bin.display(),
        script(&page("docs/operating/quickstart.md"))
    );
    std::fs::write(folder.join("page.sh"), &script).expect("written");

    let run = tool::run(folder, "bash", ["page.sh"], 3 * PATIENCE).expect("the shell runs");
    assert!(run.status.success(), "{}:\n{}\n{script}", run.status, run.text);
    // What a command said, not what the shell shows of the command.
    let said = |part: &str| {
        let lines = run.text.lines().filter(|line| !line.starts_with('+'));
        lines.filter(|line| line.contains(part)).count()
    };
    for (part, times) in [
        ("err= 0", 2),
        ("so it is: ", UNTIL.len()),
        ("nvme connect", 1),
        ("the page is done", 1),
    ] {
        assert!(said(part) >= times, "{part:?} is not {times} times in:\n{}", run.text);
    }
    for part in ["ERROR", "panicked"] {
        assert!(!run.text.contains(part), "{part:?} is in:\n{}", run.text);
    }
}

#[test]
fn what_readme_says_to_run_is_there() {
    let makefile = page("Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter_map(|line| line.split_once(": ## "))
        .map(|(name, _)| name)
        .collect();
    let readme = page("README.md");
    let told: Vec<&str> = commands(&readme)
        .iter()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(told, ["demo", "test"], "say how to test what else README tells to run");
    for line in commands(&readme) {
        let target = line
            .strip_prefix("make ")
            .and_then(|rest| rest.split_whitespace().next());
        assert!(
            target.is_some_and(|target| targets.contains(target)),
            "{line:?}: {targets:?}"
        );
    }
    // The commands of the table of what works.
    for name in ["store", "recover", "top", "trace", "events"] {
        assert!(
            readme.contains(&format!("`{name}")) || readme.contains(&format!("`amita {name}")),
            "{name}"
        );
        let help = tool::run(scratch(1 << 20).folder(), binary(), [name, "--help"], PATIENCE).expect("it runs");
        help.success().expect("there is such a command");
    }
}
