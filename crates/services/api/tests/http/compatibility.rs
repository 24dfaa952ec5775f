//! The API breaks nobody who was written for the last release: its specification is compared with those that are kept in
//! `docs/api/baseline`, by rules, each of which is shown to find what it is for.

mod planted;
mod rules;
mod schemas;

use rules::breaks;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/api")
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn baselines() -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder().join("baseline")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .collect()
}

#[test]
fn who_was_written_for_a_release_is_served_by_this_one() {
    let now = serde_json::to_value(amita_api::specification()).unwrap();
    let baselines = baselines();
    assert!(!baselines.is_empty());
    for path in baselines {
        let found = breaks(&read(&path), &now);
        assert!(
            found.is_empty(),
            "what was written for {} breaks; give it another name, or make it another version of the API:\n{}",
            path.display(),
            found.iter().map(|found| format!("  {found}\n")).collect::<String>()
        );
    }
}

/// A checker that finds nothing in the real one may have looked at nothing.
#[test]
fn what_is_taken_from_the_real_one_is_missed() {
    let old = serde_json::to_value(amita_api::specification()).unwrap();
    assert!(breaks(&old, &old).is_empty());
    for (path, methods) in old["paths"].as_object().unwrap() {
        // What the others are made of is the same.
        let alone = json!({ "paths": { path: methods } });
        for method in methods.as_object().unwrap().keys() {
            let mut new = alone.clone();
            new["paths"][path].as_object_mut().unwrap().remove(method);
            let found = breaks(&alone, &new);
            assert!(
                found.len() == 1 && found[0].rule == "operation-removed",
                "{method} {path}: {found:?}"
            );
        }
    }
    // Each field of what is shown most.
    let fields = old["components"]["schemas"]["Volume"]["properties"]
        .as_object()
        .unwrap();
    for name in fields.keys() {
        let mut new = old.clone();
        let volume = &mut new["components"]["schemas"]["Volume"];
        volume["properties"].as_object_mut().unwrap().remove(name);
        let found = breaks(&old, &new);
        assert!(
            found.iter().any(|found| found.rule == "field-removed"),
            "{name}: {found:?}"
        );
    }
}
