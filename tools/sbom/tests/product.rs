//! The bill of materials of the product, judged by the rules of CycloneDX 1.5 and by what cargo and the lock file say apart
//! from it.

use amita_sbom::document::Facts;
use amita_sbom::page::{Page, allowed};
use amita_sbom::{host, lock, run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn document(binary: Option<&str>) -> Value {
    let facts = Facts::gather(
        &repository(),
        "amita",
        &host(&repository()).unwrap(),
        binary.map(str::to_owned),
    )
    .unwrap();
    facts.document().unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
}

fn is_serial_number(text: &str) -> bool {
    let groups: Vec<&str> = text.strip_prefix("urn:uuid:").unwrap_or_default().split('-').collect();
    groups.len() == 5
        && groups
            .iter()
            .zip([8, 4, 4, 4, 12])
            .all(|(group, length)| is_hex(group, length))
}

/// Keys that the specification knows there: it allows no others.
fn only(value: &Value, known: &[&str], wrong: &mut Vec<String>) {
    let Some(found) = value.as_object() else {
        wrong.push(format!("{value} is no object"));
        return;
    };
    wrong.extend(
        found
            .keys()
            .filter(|key| !known.contains(&key.as_str()))
            .map(|key| format!("a key {key}")),
    );
}

fn component(value: &Value, wrong: &mut Vec<String>) {
    let name = text(value, "name");
    let known = [
        "type",
        "bom-ref",
        "name",
        "version",
        "description",
        "scope",
        "hashes",
        "licenses",
        "purl",
        "externalReferences",
        "properties",
    ];
    only(value, &known, wrong);
    let mut demand = |right: bool, what: &str| {
        if !right {
            wrong.push(format!("{name}: {what}"));
        }
    };
    demand(!name.is_empty(), "no name");
    demand(["application", "library"].contains(&text(value, "type")), "type");
    demand(["required", "excluded"].contains(&text(value, "scope")), "scope");
    demand(!text(value, "bom-ref").is_empty(), "bom-ref");
    demand(
        text(value, "purl").starts_with("pkg:") && !text(value, "purl").contains([' ', '+']),
        "purl",
    );
    // A choice of one expression, or of licences by their ids.
    let expressions: Vec<&str> = list(value, "licenses").map(|one| text(one, "expression")).collect();
    demand(
        matches!(expressions[..], [one] if !one.is_empty() && !one.contains('/')),
        "licences",
    );
    for hash in list(value, "hashes") {
        let digits = match text(hash, "alg") {
            "SHA-256" => 64,
            "SHA-512" => 128,
            _ => 0,
        };
        demand(digits > 0 && is_hex(text(hash, "content"), digits), "hashes");
    }
    for reference in list(value, "externalReferences") {
        demand(
            text(reference, "type") == "vcs" && text(reference, "url").starts_with("https://"),
            "references",
        );
    }
    for property in list(value, "properties") {
        demand(
            !text(property, "name").is_empty() && property["value"].is_string(),
            "properties",
        );
    }
}

/// What the specification has against a document.
fn faults(document: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let known = [
        "$schema",
        "bomFormat",
        "specVersion",
        "serialNumber",
        "version",
        "metadata",
        "components",
        "dependencies",
    ];
    only(document, &known, &mut wrong);
    let mut demand = |right: bool, what: String| {
        if !right {
            wrong.push(what);
        }
    };
    demand(text(document, "bomFormat") == "CycloneDX", "bomFormat".to_owned());
    demand(text(document, "specVersion") == "1.5", "specVersion".to_owned());
    demand(document["version"].as_u64() >= Some(1), "version".to_owned());
    let serial = &document["serialNumber"];
    demand(
        serial.is_null() || serial.as_str().is_some_and(is_serial_number),
        format!("serialNumber {serial}"),
    );

    let product = &document["metadata"]["component"];
    let mut references = BTreeSet::new();
    for one in list(document, "components").chain([product]) {
        let reference = text(one, "bom-ref");
        demand(references.insert(reference), format!("two of {reference}"));
    }
    let mut told = BTreeSet::new();
    for one in list(document, "dependencies") {
        let from = text(one, "ref");
        demand(told.insert(from), format!("the dependencies of {from} twice"));
        demand(references.contains(from), format!("{from} is no component"));
        let on: Vec<&str> = list(one, "dependsOn").filter_map(Value::as_str).collect();
        let different: BTreeSet<&str> = on.iter().copied().collect();
        demand(on.len() == different.len(), format!("{from} depends on one twice"));
        demand(
            different.is_subset(&references),
            format!("{from} depends on what is no component"),
        );
    }
    demand(
        told == references,
        "not every component has its dependencies".to_owned(),
    );
    for one in list(document, "components").chain([product]) {
        component(one, &mut wrong);
    }
    wrong
}

#[test]
fn it_is_what_the_specification_wants() {
    let document = document(Some(&"0123456789abcdef".repeat(4)));
    assert_eq!(faults(&document), Vec::<String>::new());
    assert_eq!(text(&document["metadata"]["component"], "name"), "amita");
    // What judges does find faults.
    type Change = fn(&mut Value);
    let changes: [Change; 8] = [
        |one| one["specVersion"] = "1.2".into(),
        |one| one["serialNumber"] = "urn:uuid:1".into(),
        |one| one["time"] = 1.into(),
        |one| one["components"][0]["purl"] = "h2".into(),
        |one| one["components"][0]["licenses"][0]["expression"] = "MIT/Apache-2.0".into(),
        |one| one["components"][1]["bom-ref"] = one["components"][0]["bom-ref"].clone(),
        |one| {
            let all = one["dependencies"].as_array_mut().unwrap();
            let has_any = |found: &&mut Value| found["dependsOn"].as_array().is_some_and(|on| !on.is_empty());
            all.iter_mut().find(has_any).unwrap()["dependsOn"][0] = "pkg:cargo/none@1".into();
        },
        |one| drop(one["dependencies"].as_array_mut().unwrap().pop()),
    ];
    for (at, change) in changes.iter().enumerate() {
        let mut changed = document.clone();
        change(&mut changed);
        assert!(!faults(&changed).is_empty(), "change {at} is not found");
    }
}

#[test]
fn the_same_sources_give_the_same_document() {
    assert_eq!(document(None).to_string(), document(None).to_string());
    assert!(
        document(None)["serialNumber"].is_null(),
        "a number for what there is none of"
    );
}

/// What is linked, by a walk of our own over what cargo has resolved. Features of the whole workspace are on in that: it may find
/// more than is linked, and never less.
fn walked(root: &str) -> BTreeSet<String> {
    let target = host(&repository()).unwrap();
    let arguments = [
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        &target,
    ];
    let said = run(&repository(), "cargo", &arguments).unwrap();
    let found: Value = serde_json::from_str(&said).unwrap();
    let packages: BTreeMap<&str, &Value> = list(&found, "packages").map(|one| (text(one, "id"), one)).collect();
    let nodes: BTreeMap<&str, &Value> = list(&found["resolve"], "nodes")
        .map(|one| (text(one, "id"), one))
        .collect();
    let is_macro =
        |id: &str| list(packages[id], "targets").any(|one| list(one, "kind").any(|kind| kind == "proc-macro"));
    let start = packages.iter().find(|(_, one)| text(one, "name") == root).unwrap();
    let (mut seen, mut open) = (BTreeSet::new(), vec![*start.0]);
    while let Some(id) = open.pop() {
        if is_macro(id) || !seen.insert(id) {
            continue;
        }
        for dependency in list(nodes[id], "deps") {
            let normal = list(dependency, "dep_kinds").any(|kind| kind["kind"].is_null());
            open.extend(normal.then(|| text(dependency, "pkg")));
        }
    }
    seen.iter()
        .map(|id| {
            format!(
                "pkg:cargo/{}@{}",
                text(packages[id], "name"),
                text(packages[id], "version").replace('+', "%2B")
            )
        })
        .collect()
}

#[test]
fn every_package_that_is_linked_is_named_with_the_checksum_of_the_lock() {
    let repository = repository();
    let document = document(None);
    let locked = lock::parse(&std::fs::read_to_string(repository.join("Cargo.lock")).unwrap()).unwrap();
    let of_crates = |one: &&Value| text(one, "purl").starts_with("pkg:cargo/");
    let linked = |one: &&Value| text(one, "scope") == "required";
    let named: BTreeMap<&str, &Value> = list(&document, "components")
        .filter(|one| of_crates(one) && linked(one))
        .map(|one| (text(one, "purl"), one))
        .collect();
    assert!(named.len() > 80, "only {} packages", named.len());

    // None that nobody could link.
    let walked = walked("amita");
    let strange: Vec<_> = named.keys().filter(|purl| !walked.contains(**purl)).collect();
    assert!(strange.is_empty(), "{strange:?}");
    // None left out, but for what other features would bring.
    let product = text(&document["metadata"]["component"], "purl");
    let left_out: Vec<_> = walked
        .iter()
        .filter(|purl| *purl != product && !named.contains_key(purl.as_str()))
        .collect();
    let reached: BTreeSet<&str> = list(&document, "dependencies")
        .flat_map(|one| list(one, "dependsOn"))
        .filter_map(Value::as_str)
        .collect();
    assert!(
        left_out.iter().all(|purl| !reached.contains(purl.as_str())),
        "{left_out:?}"
    );
    assert!(
        left_out.len() * 10 < walked.len(),
        "{} of {} are left out: {left_out:?}",
        left_out.len(),
        walked.len()
    );

    for (id, locked) in &locked {
        let Some(one) = named.get(id.purl().as_str()) else {
            continue;
        };
        let hash = one["hashes"][0]["content"].as_str().map(str::to_owned);
        assert_eq!(hash, locked.checksum, "{id}");
    }
    // One of each kind that must be in it, and some that must not.
    let has = |name: &str| named.keys().any(|purl| purl.starts_with(&format!("pkg:cargo/{name}@")));
    for name in [
        "amita-store",
        "amita-fabric",
        "rustls",
        "tokio",
        "redb",
        "aws-lc-sys",
        "s2n-tls-sys",
        "zstd-sys",
    ] {
        assert!(has(name), "{name} is linked");
    }
    for name in [
        "proptest",
        "serde_derive",
        "syn",
        "cc",
        "amita-sim",
        "amita-testkit",
        "stateright",
    ] {
        assert!(!has(name), "{name} is not linked");
    }
    let libraries: Vec<&str> = list(&document, "components")
        .filter(|one| text(one, "purl").starts_with("pkg:github/"))
        .map(|one| text(one, "name"))
        .collect();
    assert_eq!(libraries, ["aws-lc", "s2n-tls", "zstd"]);
}

#[test]
fn what_the_page_is_bundled_of_is_named_and_permissive() {
    let document = document(None);
    let named: BTreeMap<&str, &Value> = list(&document, "components")
        .filter(|one| text(one, "purl").starts_with("pkg:npm/"))
        .map(|one| (text(one, "purl"), one))
        .collect();
    let has = |name: &str| named.keys().any(|purl| purl.starts_with(&format!("pkg:npm/{name}@")));
    for name in ["react", "react-dom", "antd", "%40tanstack/react-query", "scheduler"] {
        assert!(has(name), "{name} is in the page");
    }
    for name in [
        "vite",
        "typescript",
        "vitest",
        "playwright-core",
        "axe-core",
        "prettier",
    ] {
        assert!(!has(name), "{name} is not in the page");
    }
    // The crate that has the page in it depends on what the page asks for.
    let its = list(&document, "dependencies")
        .find(|one| text(one, "ref").starts_with("pkg:cargo/amita-page@"))
        .unwrap();
    assert!(list(its, "dependsOn").any(|on| on.as_str().unwrap().starts_with("pkg:npm/antd@")));
    let allowed = allowed(&repository()).unwrap();
    assert!(allowed.contains("MIT") && !allowed.iter().any(|one| one.contains("GPL")));
    let refused = Page::read(&repository()).unwrap().refused(&allowed);
    assert!(refused.is_empty(), "{refused:?}");
}
