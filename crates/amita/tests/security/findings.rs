//! The table of findings holds what it says.

use crate::FINDINGS;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tests of a file, by their names: those that are not ignored.
fn tests(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(file)).unwrap_or_else(|why| panic!("{file}: {why}"));
    let (mut found, mut is_test) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_test = false;
        } else if let Some(rest) = line.strip_prefix("fn ") {
            let name = rest.split('(').next().unwrap_or_default();
            if std::mem::take(&mut is_test) {
                found.push(name.to_owned());
            }
        }
    }
    found
}

#[test]
fn every_finding_is_shown_by_tests_that_are_there() {
    let numbers: Vec<u32> = FINDINGS.iter().map(|finding| finding.number).collect();
    assert_eq!(numbers, (1..=19).collect::<Vec<u32>>());
    for finding in FINDINGS {
        assert!(
            !finding.shown_by.is_empty() && !finding.what.is_empty(),
            "S{}",
            finding.number
        );
        for (file, test) in finding.shown_by {
            let there = tests(file);
            assert!(
                there.iter().any(|name| name == test),
                "S{}: {file} has no test {test}",
                finding.number
            );
        }
    }
}

/// All that lies below a folder and ends in `.rs`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `docs/security.md` names tests as `suite module::test` or `suite module::`.
#[test]
fn the_page_names_tests_that_are_there() {
    let page = std::fs::read_to_string(root().join("docs/security.md")).expect("the page");
    let mut named = 0;
    for (suite, folder) in [("e2e ", "e2e"), ("security ", "security")] {
        let mut files = Vec::new();
        sources(&root().join("crates/amita/tests").join(folder), &mut files);
        for words in page
            .split('`')
            .skip(1)
            .step_by(2)
            .filter_map(|words| words.strip_prefix(suite))
        {
            let (module, test) = words.split_once("::").unwrap_or((words, ""));
            let file = files
                .iter()
                .find(|path| path.file_stem().is_some_and(|stem| stem == module));
            let file = file.unwrap_or_else(|| panic!("{suite}has no module {module}"));
            let shown = file.strip_prefix(root()).expect("below the root").display().to_string();
            let there = tests(&shown);
            let is_there = test.is_empty() || there.iter().any(|name| name == test);
            assert!(is_there && !there.is_empty(), "{shown} has no test {test:?}");
            named += 1;
        }
    }
    assert!(named > 0, "no test is named");
}
