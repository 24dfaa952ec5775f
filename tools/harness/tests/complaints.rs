//! `docs/complaints.md` holds what it says: each test that it names is there, and each complaint has a test or a word of what
//! is missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const COMPLAINTS: usize = 30;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tests of a source, by their names, and whether each is run by `make test`: else it is ignored.
fn tests(source: &str) -> Vec<(String, bool)> {
    let (mut found, mut is_test, mut is_run) = (Vec::new(), false, true);
    for line in source.lines().map(str::trim) {
        if line == "#[test]" {
            (is_test, is_run) = (true, true);
        } else if line.starts_with("#[ignore") {
            is_run = false;
        } else if let Some(rest) = line.strip_prefix("fn ")
            && std::mem::take(&mut is_test)
        {
            found.push((rest.split('(').next().unwrap_or_default().to_owned(), is_run));
        }
    }
    found
}

/// How `scripts/soak` names a test of such a file: by the module that the file is.
fn soaked(soak: &str, file: &str, test: &str) -> bool {
    let module = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{module}::{test}");
    soak.split_whitespace().any(|word| word == name)
}

/// What a row names: `FILE TEST` between backticks.
fn named(row: &str) -> Vec<(&str, &str)> {
    let quoted = row.split('`').skip(1).step_by(2);
    let pairs = quoted.filter_map(|words| words.split_once(' '));
    pairs.filter(|(file, _)| file.ends_with(".rs")).collect()
}

fn rows(page: &str) -> BTreeMap<usize, &str> {
    let row = |line| {
        let (number, rest) = str::strip_prefix(line, "| ")?.split_once(" |")?;
        Some((number.parse().ok()?, rest))
    };
    page.lines().filter_map(row).collect()
}

#[test]
fn every_complaint_has_a_test_that_is_there_or_says_what_is_missing() {
    let page = std::fs::read_to_string(root().join("docs/complaints.md")).expect("the page");
    let soak = std::fs::read_to_string(root().join("scripts/soak")).expect("the script");
    let rows = rows(&page);
    assert_eq!(
        rows.keys().copied().collect::<Vec<_>>(),
        (1..=COMPLAINTS).collect::<Vec<_>>()
    );
    let mut sources: BTreeMap<&str, Vec<(String, bool)>> = BTreeMap::new();
    let mut missing = Vec::new();
    for (number, row) in &rows {
        let shown_by = named(row);
        let word = ["Shown", "**In part", "**Not yet"]
            .iter()
            .find(|word| row.contains(&format!("| {word}")));
        assert!(word.is_some(), "{number} is neither shown, nor in part, nor not yet");
        assert!(
            !shown_by.is_empty() || !row.contains("| Shown"),
            "{number} is called shown, and no test is named"
        );
        for (file, test) in shown_by {
            let there = sources.entry(file).or_insert_with(|| {
                let source = std::fs::read_to_string(root().join(file));
                tests(&source.unwrap_or_else(|why| panic!("{number}: {file}: {why}")))
            });
            let found = there.iter().find(|(name, _)| name == test);
            if !found.is_some_and(|(_, is_run)| *is_run || soaked(&soak, file, test)) {
                missing.push(format!(
                    "{number}: {file} has no test {test} that `make test` or scripts/soak runs"
                ));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(sources.len() > 20, "only {} files were looked at", sources.len());
}

#[test]
fn tests_are_found_in_a_source() {
    let source = "#[test]\nfn one() {\n}\nfn helper() {}\n#[test]\n#[ignore = \"long\"]\nfn two() {}\n    #[test]\n    fn three() {";
    let found = [("one", true), ("two", false), ("three", true)];
    assert_eq!(tests(source), found.map(|(name, is_run)| (name.to_owned(), is_run)));
    let soak = "suite 'long' cargo test -- --exact \\\n    tests::two --nocapture";
    assert!(soaked(soak, "crates/a/tests.rs", "two"));
    assert!(!soaked(soak, "crates/a/tests.rs", "wo") && !soaked(soak, "crates/a/other.rs", "two"));
    let row = " a | `demo` and `crates/a/tests.rs one`, `tools/b.rs two`. |";
    assert_eq!(named(row), [("crates/a/tests.rs", "one"), ("tools/b.rs", "two")]);
}
