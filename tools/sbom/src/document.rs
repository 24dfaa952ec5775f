//! The bill of materials as CycloneDX 1.5 (<https://cyclonedx.org/docs/1.5/json/>).
//!
//! The same sources give the same document: it has no time in it, and its serial number is made of the binary's hash.

use crate::about::{self, About, Bundled};
use crate::lock::{self, Locked};
use crate::page::Page;
use crate::tree::{self, Edges, Tree};
use crate::{Error, Id, compiler};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The version of the specification.
pub const SPECIFICATION: &str = "1.5";
/// A package of another registry than crates.io would need a purl that says so.
const REGISTRY: &str = lock::CRATES_IO;

/// The crate that has the page in it.
const PAGE_CRATE: &str = "amita-page";

/// Everything that a document is made of.
#[derive(Clone, Debug)]
pub struct Facts {
    pub tree: Tree,
    pub about: BTreeMap<Id, About>,
    pub locked: BTreeMap<Id, Locked>,
    /// What the page is made of, where it is in what is built.
    pub page: Page,
    /// The compiler, whose standard library is linked: its version and its commit.
    pub compiler: (String, String),
    /// The platform that was built for.
    pub target: String,
    /// The SHA-256 of the binary, in hexadecimal digits, where there is one.
    pub binary: Option<String>,
}

impl Facts {
    /// Asks cargo, the compiler and the lock file of a repository.
    ///
    /// # Errors
    /// Where one of them fails, or is not understood.
    pub fn gather(repository: &Path, package: &str, target: &str, binary: Option<String>) -> Result<Facts, Error> {
        let path = repository.join("Cargo.lock");
        let lock = std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
        let tree = tree::ask(repository, package, target)?;
        let page = match page_crate(&tree) {
            Some(_) => Page::read(repository)?,
            None => Page::default(),
        };
        Ok(Facts {
            tree,
            about: about::ask(repository, target)?,
            locked: lock::parse(&lock)?,
            page,
            compiler: (compiler(repository, "release")?, compiler(repository, "commit-hash")?),
            target: target.to_owned(),
            binary,
        })
    }

    /// The document.
    ///
    /// # Errors
    /// Where a package is in no lock file, has no licence, or brings sources that nobody has looked at.
    pub fn document(&self) -> Result<Value, Error> {
        let root = &self.tree.root;
        let mut edges = self.tree.linked.clone();
        edges.extend(self.tree.built_with.iter().map(|id| (id.clone(), BTreeSet::new())));
        let mut components = Vec::new();
        let mut dependencies = dependencies(&edges);
        for id in edges.keys().filter(|id| *id != root) {
            let linked = self.tree.linked.contains_key(id);
            components.push(self.component(id, linked)?);
            let bundled = about::bundled(id, &self.about(id)?)?;
            if let Some(bundled) = bundled.filter(|_| linked) {
                let (reference, component) = self.bundled(id, &bundled)?;
                components.push(component);
                join(&mut dependencies, &id.purl(), &reference);
                dependencies.push(json!({ "ref": reference, "dependsOn": [] }));
            }
        }
        let standard = format!("pkg:generic/rust@{}", self.compiler.0);
        components.push(self.standard_library(&standard));
        join(&mut dependencies, &root.purl(), &standard);
        dependencies.push(json!({ "ref": standard, "dependsOn": [] }));

        for (purl, package) in &self.page.packages {
            components.push(package.component());
            dependencies.push(json!({ "ref": purl, "dependsOn": package.depends_on }));
        }
        for (within, purl) in page_crate(&self.tree)
            .into_iter()
            .flat_map(|id| self.page.direct.iter().map(move |purl| (id, purl)))
        {
            join(&mut dependencies, &within.purl(), purl);
        }

        let mut product = self.component(root, true)?;
        product["type"] = json!("application");
        if let Some(binary) = &self.binary {
            product["hashes"] = json!([{ "alg": "SHA-256", "content": binary }]);
        }
        product["properties"] = json!([{ "name": "amita:target", "value": self.target }]);
        let mut document = json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": SPECIFICATION,
            "version": 1,
            "metadata": {
                "lifecycles": [{ "phase": "build" }],
                "tools": { "components": [{
                    "type": "application",
                    "name": env!("CARGO_PKG_NAME"),
                    "version": env!("CARGO_PKG_VERSION"),
                }] },
                "component": product,
            },
            "components": components,
            "dependencies": dependencies,
        });
        if let Some(binary) = &self.binary {
            document["serialNumber"] = json!(serial_number(binary));
        }
        Ok(document)
    }

    fn about(&self, id: &Id) -> Result<About, Error> {
        self.about.get(id).cloned().ok_or_else(|| Error::NotLocked(id.clone()))
    }

    fn component(&self, id: &Id, linked: bool) -> Result<Value, Error> {
        let about = self.about(id)?;
        let locked = self.locked.get(id).ok_or_else(|| Error::NotLocked(id.clone()))?;
        let licence = about.licence.ok_or_else(|| Error::NoLicence(id.clone()))?;
        let mut component = Map::from_iter([
            ("type".to_owned(), json!("library")),
            ("bom-ref".to_owned(), json!(id.purl())),
            ("name".to_owned(), json!(id.name)),
            ("version".to_owned(), json!(id.version)),
            ("scope".to_owned(), json!(if linked { "required" } else { "excluded" })),
            ("licenses".to_owned(), json!([{ "expression": licence }])),
            ("purl".to_owned(), json!(id.purl())),
        ]);
        if let Some(description) = about.description {
            let words: Vec<&str> = description.split_whitespace().collect();
            component.insert("description".to_owned(), json!(words.join(" ")));
        }
        if let Some(repository) = about.repository {
            let reference = json!([{ "type": "vcs", "url": repository }]);
            component.insert("externalReferences".to_owned(), reference);
        }
        match (&locked.source, &locked.checksum) {
            (None, None) => {}
            (Some(source), Some(checksum)) if source == REGISTRY => {
                let hashes = json!([{ "alg": "SHA-256", "content": checksum }]);
                component.insert("hashes".to_owned(), hashes);
            }
            (source, _) => {
                return Err(Error::Form {
                    what: "Cargo.lock: a package of crates.io has its checksum",
                    found: format!("{id} of {source:?}"),
                });
            }
        }
        Ok(Value::Object(component))
    }

    /// Sources of another language inside of a package: what is known of their weaknesses is filed under their own name.
    fn bundled(&self, within: &Id, bundled: &Bundled) -> Result<(String, Value), Error> {
        let version = bundled.version.as_ref();
        let purl = version.map_or_else(
            || bundled.purl.to_owned(),
            |version| format!("{}@v{version}", bundled.purl),
        );
        let mut component = json!({
            "type": "library",
            "bom-ref": purl,
            "name": bundled.name,
            "scope": "required",
            "licenses": [{ "expression": self.about(within)?.licence.unwrap_or_default() }],
            "purl": purl,
            "properties": [{ "name": "amita:within", "value": within.to_string() }],
        });
        if let Some(version) = version {
            component["version"] = json!(version);
        }
        Ok((purl, component))
    }

    fn standard_library(&self, reference: &str) -> Value {
        let (version, commit) = &self.compiler;
        json!({
            "type": "library",
            "bom-ref": reference,
            "name": "rust",
            "version": version,
            "description": "the standard library, as the compiler brings it",
            "scope": "required",
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            "purl": reference,
            "externalReferences": [{ "type": "vcs", "url": "https://github.com/rust-lang/rust" }],
            "properties": [{ "name": "amita:commit", "value": commit }],
        })
    }
}

/// What brings the page into the binary.
fn page_crate(tree: &Tree) -> Option<&Id> {
    tree.linked.keys().find(|id| id.name == PAGE_CRATE)
}

fn dependencies(edges: &Edges) -> Vec<Value> {
    let one = |(id, on): (&Id, &BTreeSet<Id>)| {
        let on: Vec<String> = on.iter().map(Id::purl).collect();
        json!({ "ref": id.purl(), "dependsOn": on })
    };
    edges.iter().map(one).collect()
}

/// Adds an arrow.
fn join(dependencies: &mut [Value], from: &str, to: &str) {
    let place = dependencies.iter_mut().find(|one| one["ref"] == from);
    if let Some(on) = place.and_then(|one| one["dependsOn"].as_array_mut()) {
        on.push(json!(to));
    }
}

/// A UUID of version 8 (RFC 9562, 5.8: the maker's own) out of the first 16 bytes of a hash.
fn serial_number(sha256: &str) -> String {
    let (a, b, c, d, e) = (
        &sha256[..8],
        &sha256[8..12],
        &sha256[13..16],
        &sha256[17..20],
        &sha256[20..32],
    );
    format!("urn:uuid:{a}-{b}-8{c}-8{d}-{e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> Id {
        Id {
            name: name.into(),
            version: "1.0.0".into(),
        }
    }

    fn facts() -> Facts {
        let about = About {
            licence: Some("MIT".into()),
            ..About::default()
        };
        let registry = Locked {
            source: Some(REGISTRY.into()),
            checksum: Some("ab".repeat(32)),
        };
        Facts {
            tree: Tree {
                root: id("a"),
                linked: Edges::from([(id("a"), [id("b")].into()), (id("b"), BTreeSet::new())]),
                built_with: [id("c")].into(),
            },
            about: ["a", "b", "c"].map(|name| (id(name), about.clone())).into(),
            locked: [
                (id("a"), Locked::default()),
                (id("b"), registry.clone()),
                (id("c"), registry),
            ]
            .into(),
            page: Page::default(),
            compiler: ("1.95.0".into(), "0123".into()),
            target: "x86_64-unknown-linux-gnu".into(),
            binary: Some("0123456789abcdef".repeat(4)),
        }
    }

    #[test]
    fn what_is_linked_and_what_is_built_with_are_told_apart() {
        let document = facts().document().unwrap();
        let components = document["components"].as_array().unwrap().iter();
        let scopes: Vec<_> = components
            .map(|one| (one["name"].clone(), one["scope"].clone()))
            .collect();
        let expected = [("b", "required"), ("c", "excluded"), ("rust", "required")];
        assert_eq!(scopes, expected.map(|(name, scope)| (json!(name), json!(scope))));
        assert_eq!(
            document["dependencies"][0]["dependsOn"],
            json!(["pkg:cargo/b@1.0.0", "pkg:generic/rust@1.95.0"])
        );
        assert_eq!(
            document["serialNumber"],
            "urn:uuid:01234567-89ab-8def-8123-456789abcdef"
        );
    }

    #[test]
    fn a_package_without_what_is_needed_is_named() {
        let mut one = facts();
        one.about.get_mut(&id("b")).unwrap().licence = None;
        assert!(matches!(one.document(), Err(Error::NoLicence(found)) if found == id("b")));
        let mut one = facts();
        one.locked.remove(&id("b"));
        assert!(matches!(one.document(), Err(Error::NotLocked(found)) if found == id("b")));
        let mut one = facts();
        one.about.get_mut(&id("c")).unwrap().links = Some("z".into());
        assert!(matches!(one.document(), Err(Error::Bundles { .. })));
        for source in ["git+https://example.org/b", "registry+https://example.org/index"] {
            let mut one = facts();
            one.locked.get_mut(&id("b")).unwrap().source = Some(source.into());
            assert!(one.document().is_err(), "{source}");
        }
    }
}
