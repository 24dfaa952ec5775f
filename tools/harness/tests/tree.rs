//! The tree says who may lean on whom; this reads what cargo knows, and fails on an arrow that the tree forbids.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// A room of the tree, by the folder of its crates, and the rooms that its crates may depend on beside their own.
const ROOMS: &[(&str, &[&str])] = &[
    ("crates/engine", &[]),
    ("crates/cluster", &["crates/engine", "crates/frontends"]),
    (
        "crates/frontends",
        &["crates/engine", "crates/cluster/keys", "crates/cluster/identity"],
    ),
    (
        "crates/clients",
        &["crates/engine", "crates/cluster", "crates/frontends/engine"],
    ),
    ("crates/services", &["crates/engine/types", "crates/cluster"]),
    // What a terminal would obey is the same for the audit log as for every answer.
    ("crates/terminal", &["crates/engine/types", "crates/cluster/audit"]),
    (
        "crates/amita",
        &[
            "crates/engine",
            "crates/cluster",
            "crates/frontends",
            "crates/clients",
            "crates/services",
            "crates/terminal",
        ],
    ),
    ("tools", &["crates"]),
];

/// Arrows that no rule of rooms allows, each with its reason.
const ALSO: &[(&str, &str, &str)] = &[
    ("amita", "amita-harness", "the demo starts a cluster of processes"),
    (
        "amita-client",
        "amita-nbd",
        "a tenant's program uses volumes through nodes, by NBD",
    ),
    (
        "amita-sequencer",
        "amita-metadata",
        "the calls that an eviction and a takeover make are values of the client's crate",
    ),
    (
        "amita-api",
        "amita-frontend",
        "the record of a volume's reservations is the front ends', and the API shows it",
    ),
    (
        "amita-otlp",
        "amita-reactor",
        "the moments of a trace are the process's clock's",
    ),
];

/// Inside a room, from bottom to top: none depends on one that comes later.
const ORDER: &[&str] = &[
    "amita-reactor",
    "amita-types",
    "amita-qos",
    "amita-crypt",
    "amita-fabric",
    "amita-store",
    "amita-keys",
    "amita-audit",
    "amita-identity",
    "amita-metadata",
    "amita-sequencer",
    "amita-control",
    "amita-frontend",
    "amita-nbd",
    "amita-nvme",
    "amita-scsi",
    "amita-iscsi",
    "amita-node",
    "amita-inspect",
    "amita-notify",
    "amita-api",
    "amita-client",
    "libamita",
];

/// One protocol knows nothing of another.
const PROTOCOLS: &[&str] = &["amita-nbd", "amita-nvme", "amita-iscsi"];

/// Crates that depend on nothing of the product's, so that they can be wrong in other ways than it.
const ALONE: &[&str] = &[
    "amita-audit",
    "amita-backup",
    "amita-model",
    "amita-nvme-host",
    "amita-keys",
    "amita-reactor",
    TESTKIT,
];

/// What tests and tools share: nothing that ships is built from it.
const TESTKIT: &str = "amita-testkit";

struct Crate {
    folder: String,
    /// What it is built from; what its tests use is their own affair.
    depends_on: Vec<String>,
}

fn crates() -> BTreeMap<String, Crate> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the repository");
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
            "--manifest-path",
        ])
        .arg(root.join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let packages = found["packages"].as_array().expect("packages");
    let of = |package: &serde_json::Value| {
        let manifest = text(&package["manifest_path"]);
        let folder = Path::new(&manifest)
            .parent()
            .and_then(|folder| folder.strip_prefix(&root).ok());
        let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        let built_from = dependencies.filter(|dependency| dependency["kind"].as_str() != Some("dev"));
        let found = Crate {
            folder: folder.expect("inside the repository").display().to_string(),
            depends_on: built_from.map(|dependency| text(&dependency["name"])).collect(),
        };
        (text(&package["name"]), found)
    };
    packages.iter().map(of).collect()
}

fn lies_in(folder: &str, room: &str) -> bool {
    folder
        .strip_prefix(room)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What the tree has against an arrow.
fn forbidden(crates: &BTreeMap<String, Crate>, from: &str, to: &str) -> Option<String> {
    if ALSO.iter().any(|(one, other, _)| (*one, *other) == (from, to)) {
        return None;
    }
    let (source, target) = (&crates[from], &crates[to]);
    let tools = |found: &Crate| lies_in(&found.folder, "tools");
    if to == TESTKIT && tools(source) {
        return None;
    }
    if ALONE.contains(&from) {
        return Some(format!("{from} depends on {to}, and is to depend on nothing of ours"));
    }
    if PROTOCOLS.contains(&from) && PROTOCOLS.contains(&to) {
        return Some(format!("{from} depends on {to}: what both need is the engine's"));
    }
    let Some((room, others)) = ROOMS.iter().find(|(room, _)| lies_in(&source.folder, room)) else {
        return Some(format!(
            "{from} lies in {}, which is no room of the tree",
            source.folder
        ));
    };
    if !others.iter().chain([room]).any(|room| lies_in(&target.folder, room)) {
        return Some(format!("{from} ({room}) depends on {to} ({})", target.folder));
    }
    let place = |name: &str| ORDER.iter().position(|known| *known == name);
    if let (Some(from_place), Some(to_place)) = (place(from), place(to))
        && from_place < to_place
    {
        return Some(format!("{from} depends on {to}, which lies above it"));
    }
    None
}

#[test]
fn no_crate_depends_on_one_that_the_tree_keeps_from_it() {
    let crates = crates();
    let mut wrong = Vec::new();
    let mut arrows = 0;
    for (from, found) in &crates {
        for to in found.depends_on.iter().filter(|to| crates.contains_key(*to)) {
            arrows += 1;
            wrong.extend(forbidden(&crates, from, to));
        }
    }
    assert!(arrows > 40, "only {arrows} arrows were looked at");
    for named in [ORDER, PROTOCOLS, ALONE].concat() {
        assert!(crates.contains_key(named), "{named} is in a list, and no crate");
    }
    let rooms = ["crates/engine", "crates/cluster", "crates/frontends", "crates/clients"];
    for (name, found) in &crates {
        let has_place = !rooms.iter().any(|room| lies_in(&found.folder, room)) || ORDER.contains(&name.as_str());
        assert!(has_place, "{name} has no place in the order");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (from, to, why) in ALSO {
        let there = crates
            .get(*from)
            .is_some_and(|found| found.depends_on.iter().any(|name| name == to));
        assert!(
            there,
            "the arrow from {from} to {to} ({why}) is gone: take it off the list"
        );
    }
}

/// Everything that a crate is built from, at any remove.
fn built_from<'a>(crates: &'a BTreeMap<String, Crate>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(name) = open.pop() {
        let of_ours = crates[name].depends_on.iter().filter(|to| crates.contains_key(*to));
        open.extend(of_ours.filter_map(|to| found.insert(to.as_str()).then_some(to.as_str())));
    }
    found
}

#[test]
fn nothing_that_ships_is_built_from_the_testkit() {
    let mut crates = crates();
    let ships = |crates: &BTreeMap<String, Crate>| {
        let product = crates.iter().filter(|(_, found)| lies_in(&found.folder, "crates"));
        let with = |name: &&String| built_from(crates, name).contains(TESTKIT);
        product.map(|(name, _)| name).filter(with).cloned().collect::<Vec<_>>()
    };
    assert_eq!(ships(&crates), Vec::<String>::new());
    // The demo is built from the harness: what that takes in ships.
    let harness = crates.get_mut("amita-harness").expect("the harness");
    harness.depends_on.push(TESTKIT.to_owned());
    assert!(ships(&crates).contains(&"amita".to_owned()));
}

#[test]
fn every_crate_says_what_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, found) in crates() {
        let path = root.join(&found.folder).join("README.md");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.starts_with(&format!("# {name}\n")),
            "{} does not begin with its name",
            path.display()
        );
        assert!(
            words.contains("Start with"),
            "{} does not say where to start reading",
            path.display()
        );
    }
}

#[test]
fn an_arrow_from_the_product_to_a_tool_is_found() {
    let mut crates = crates();
    crates
        .get_mut("amita-store")
        .expect("the store")
        .depends_on
        .push("amita-harness".to_owned());
    assert!(forbidden(&crates, "amita-store", "amita-harness").is_some());
    assert!(
        forbidden(&crates, "amita-store", "amita-node").is_some(),
        "a room above"
    );
    assert!(
        forbidden(&crates, "amita-fabric", "amita-store").is_some(),
        "against the order"
    );
    assert!(forbidden(&crates, "amita-fabric", "amita-types").is_none());
    assert!(
        forbidden(&crates, "amita-fabric", TESTKIT).is_some(),
        "not built from it"
    );
    assert!(forbidden(&crates, "amita-nvme-host", TESTKIT).is_none());
    assert!(forbidden(&crates, TESTKIT, "amita-types").is_some());
}

/// The documents of the repository, but for what was said at its time and stays.
fn documents(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && !["target", "decisions", "results"].contains(&&*name) {
            documents(&path, found);
        } else if name.ends_with(".md") && name != "CHANGELOG.md" {
            found.push(path);
        }
    }
}

/// What a document names of the tree; `a/{b,c}.rs` are two.
fn named_paths(text: &str) -> Vec<String> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "/._-{},".contains(c));
    let mut paths = Vec::new();
    for room in ["crates/", "tools/"] {
        for (at, _) in text.match_indices(room) {
            if text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "/_-".contains(c)) {
                continue;
            }
            let path = text[at..].split(ends).next().unwrap_or_default();
            let path = path.trim_end_matches(['.', ',', '/']);
            match (path.split_once('{'), path.split_once('}')) {
                (Some((before, rest)), Some((_, after))) => {
                    let middle = rest.split('}').next().unwrap_or_default();
                    paths.extend(middle.split(',').map(|one| format!("{before}{one}{after}")));
                }
                _ => paths.push(path.split(',').next().unwrap_or_default().to_owned()),
            }
        }
    }
    paths
}

#[test]
fn what_documents_name_of_the_tree_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    documents(&root, &mut files);
    let (mut missing, mut looked_at) = (Vec::new(), 0);
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a document");
        for path in named_paths(&text) {
            looked_at += 1;
            if !root.join(&path).exists() {
                missing.push(format!("{}: {path}", file.display()));
            }
        }
    }
    assert!(looked_at > 60, "only {looked_at} paths were looked at");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn paths_are_found_in_a_text() {
    let text = "see `crates/a/{b,c}.rs`, tools/sim. Not /crates/x nor `sub/tools/y`; (crates/cluster/node).";
    assert_eq!(
        named_paths(text),
        ["crates/a/b.rs", "crates/a/c.rs", "crates/cluster/node", "tools/sim"]
    );
}

/// The fuzz targets are built by nobody but who fuzzes: what they stand on is there, and they name all that they use of ours.
#[test]
fn the_fuzz_targets_stand_on_crates_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).expect("the manifest");
    let mut named = Vec::new();
    for line in manifest.lines() {
        if let Some((name, rest)) = line.split_once(" = { path = \"") {
            let folder = rest.split('"').next().unwrap_or_default();
            assert!(
                root.join("fuzz").join(folder).join("Cargo.toml").exists(),
                "{name}: no crate in {folder}"
            );
            named.push(name.replace('-', "_"));
        }
    }
    let library = ["fuzz/src/lib.rs", "fuzz/src/fabric.rs"];
    let library = library.map(|file| std::fs::read_to_string(root.join(file)).expect("the library"));
    let included = library
        .iter()
        .flat_map(|file| file.lines())
        .filter_map(|line| line.strip_prefix("#[path = \"")?.split('"').next());
    let mut looked_at = 0;
    for path in included {
        let text = std::fs::read_to_string(root.join("fuzz/src").join(path)).expect("what is included is there");
        for line in text.lines().filter_map(|line| line.strip_prefix("use amita_")) {
            let used = format!("amita_{}", line.split("::").next().unwrap_or_default());
            assert!(
                named.contains(&used),
                "{path} uses {used}, which fuzz/Cargo.toml does not name"
            );
            looked_at += 1;
        }
    }
    assert!(looked_at > 15, "only {looked_at} uses were looked at");
}
