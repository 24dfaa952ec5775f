//! The packages of npm that the page is bundled of: those of `web/package-lock.json` that are not for development alone.

use crate::Error;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The one version of the file that is understood.
const LOCK_VERSION: u64 = 3;
const FOLDER: &str = "node_modules/";

/// A package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub licence: String,
    /// SHA-512 of the package as it is downloaded, in hexadecimal digits.
    pub sha512: String,
    /// What it depends on, by package URLs.
    pub depends_on: BTreeSet<String>,
}

impl Package {
    /// Its package URL (<https://github.com/package-url/purl-spec>, type `npm`).
    #[must_use]
    pub fn purl(&self) -> String {
        purl(&self.name, &self.version)
    }

    /// As CycloneDX has it.
    #[must_use]
    pub fn component(&self) -> Value {
        json!({
            "type": "library",
            "bom-ref": self.purl(),
            "name": self.name,
            "version": self.version,
            "scope": "required",
            "hashes": [{ "alg": "SHA-512", "content": self.sha512 }],
            "licenses": [{ "expression": self.licence }],
            "purl": self.purl(),
            "properties": [{ "name": "amita:within", "value": "the web page" }],
        })
    }
}

fn purl(name: &str, version: &str) -> String {
    format!("pkg:npm/{}@{}", name.replace('@', "%40"), version.replace('+', "%2B"))
}

/// What the page is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// By their package URLs.
    pub packages: BTreeMap<String, Package>,
    /// Those that the page asks for itself.
    pub direct: BTreeSet<String>,
}

impl Page {
    /// Reads a repository's lock file.
    ///
    /// # Errors
    /// It cannot be read, or is of another form; a package has no licence or no hash.
    pub fn read(repository: &Path) -> Result<Page, Error> {
        let path = repository.join("web/package-lock.json");
        let text = std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
        Page::parse(&text)
    }

    /// Reads the text of one.
    ///
    /// # Errors
    /// The same.
    pub fn parse(text: &str) -> Result<Page, Error> {
        let lock: Value = serde_json::from_str(text).map_err(|why| form(&why.to_string()))?;
        if lock["lockfileVersion"].as_u64() != Some(LOCK_VERSION) {
            return Err(form(&format!("lockfileVersion {}", lock["lockfileVersion"])));
        }
        let all = lock["packages"].as_object().ok_or_else(|| form("no packages"))?;
        let places: BTreeMap<&str, &Value> = all.iter().map(|(place, one)| (place.as_str(), one)).collect();
        let root = places
            .get("")
            .copied()
            .ok_or_else(|| form("the page itself is not there"))?;
        let mut page = Page {
            direct: dependencies(&places, "", root)?,
            ..Page::default()
        };
        for (place, one) in &places {
            if place.is_empty() || is_for_development(one) {
                continue;
            }
            let package = package(&places, place, one)?;
            // The same one may lie in two places, where what it finds may differ.
            let found = page.packages.entry(package.purl()).or_insert_with(|| package.clone());
            found.depends_on.extend(package.depends_on);
        }
        if page.direct.is_empty() || page.packages.len() < page.direct.len() {
            return Err(form("a page of no packages"));
        }
        Ok(page)
    }

    /// The packages whose licence is none of `allowed`, each with what it has.
    #[must_use]
    pub fn refused(&self, allowed: &BTreeSet<String>) -> Vec<String> {
        let bad = self.packages.values().filter(|one| !is_allowed(&one.licence, allowed));
        bad.map(|one| format!("{} {} is under {}", one.name, one.version, one.licence))
            .collect()
    }
}

fn form(found: &str) -> Error {
    Error::Form {
        what: "web/package-lock.json",
        found: found.to_owned(),
    }
}

fn package(places: &BTreeMap<&str, &Value>, place: &str, one: &Value) -> Result<Package, Error> {
    let (_, name) = place.rsplit_once(FOLDER).ok_or_else(|| form(place))?;
    // A package that lies under another name than its own says so.
    let name = one["name"].as_str().unwrap_or(name);
    let text = |key: &str| {
        let found = one[key].as_str().filter(|text| !text.is_empty());
        found
            .map(str::to_owned)
            .ok_or_else(|| form(&format!("{place} has no {key}")))
    };
    let integrity = text("integrity")?;
    let sha512 = integrity.strip_prefix("sha512-").and_then(hex_of_base64);
    Ok(Package {
        name: name.to_owned(),
        version: text("version")?,
        licence: expression(&text("license")?),
        sha512: sha512.ok_or_else(|| form(&format!("{place}: {integrity}")))?,
        depends_on: dependencies(places, place, one)?,
    })
}

/// Is it there for development alone, or would it be in what ships only if something asked for it?
fn is_for_development(one: &Value) -> bool {
    ["dev", "devOptional"].iter().any(|mark| one[*mark] == true)
}

/// A whole expression needs no brackets around it.
fn expression(licence: &str) -> String {
    let inner = licence.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    inner
        .filter(|inner| !inner.contains(['(', ')']))
        .unwrap_or(licence)
        .to_owned()
}

/// What a package at a place finds, as Node looks for it: beneath itself, then beside each folder above.
fn dependencies(places: &BTreeMap<&str, &Value>, place: &str, one: &Value) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    for kind in ["dependencies", "optionalDependencies", "peerDependencies"] {
        for name in one[kind].as_object().into_iter().flat_map(|all| all.keys()) {
            match (find(places, place, name), kind) {
                (Some(target), _) if is_for_development(target) => {}
                (Some(target), _) => {
                    let version = target["version"].as_str().ok_or_else(|| form(name))?;
                    found.insert(purl(target["name"].as_str().unwrap_or(name), version));
                }
                (None, "dependencies") => return Err(form(&format!("{place} wants {name}, which is not there"))),
                // Not needed, or brought by who uses it.
                (None, _) => {}
            }
        }
    }
    Ok(found)
}

fn find<'a>(places: &BTreeMap<&str, &'a Value>, from: &str, name: &str) -> Option<&'a Value> {
    let mut above = from;
    loop {
        let place = match above {
            "" => format!("{FOLDER}{name}"),
            above => format!("{above}/{FOLDER}{name}"),
        };
        if let Some(found) = places.get(place.as_str()) {
            return Some(*found);
        }
        if above.is_empty() {
            return None;
        }
        above = above.rfind(FOLDER).map_or("", |at| above[..at].trim_end_matches('/'));
    }
}

/// Is there a way to use what has this licence under the allowed ones? No brackets are understood: what has some is looked at by a person.
fn is_allowed(licence: &str, allowed: &BTreeSet<String>) -> bool {
    let all = |way: &str| way.split(" AND ").all(|one| allowed.contains(one.trim()));
    licence.split(" OR ").any(all)
}

/// The licences that `deny.toml` allows, which holds for what cargo brings; here for what npm does.
///
/// # Errors
/// The file is not of that form.
pub fn allowed(repository: &Path) -> Result<BTreeSet<String>, Error> {
    let path = repository.join("deny.toml");
    let text = std::fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
    allowed_by(&text)
}

fn allowed_by(text: &str) -> Result<BTreeSet<String>, Error> {
    let wrong = || Error::Form {
        what: "deny.toml",
        found: "no list of licences".to_owned(),
    };
    let (_, rest) = text.split_once("[licenses]").ok_or_else(wrong)?;
    let (_, rest) = rest.split_once("allow = [").ok_or_else(wrong)?;
    let (list, _) = rest.split_once(']').ok_or_else(wrong)?;
    let found: BTreeSet<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    if found.is_empty() { Err(wrong()) } else { Ok(found) }
}

fn hex_of_base64(text: &str) -> Option<String> {
    let (mut bits, mut count, mut hex) = (0_u32, 0, String::new());
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            hex.push_str(&format!("{:02x}", bits >> count & 0xff));
        }
    }
    // SHA-512 has 64 bytes.
    (hex.len() == 128).then_some(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(change: impl FnOnce(&mut Value)) -> String {
        let hash = format!("sha512-{}==", "A".repeat(86));
        let mut lock = json!({
            "lockfileVersion": 3,
            "packages": {
                "": { "name": "page", "dependencies": { "@a/b": "1" }, "devDependencies": { "tool": "1" } },
                "node_modules/@a/b": { "version": "1.0.0", "license": "MIT", "integrity": hash,
                    "dependencies": { "c": "2" }, "peerDependencies": { "not-there": "1", "d": "1", "types": "1" } },
                "node_modules/@a/b/node_modules/c": { "version": "2.0.0", "license": "(MIT OR GPL-2.0)", "integrity": hash },
                "node_modules/c": { "version": "1.0.0", "license": "ISC", "integrity": hash, "dependencies": { "d": "1" } },
                "node_modules/d": { "version": "1.0.0+x", "license": "ISC AND MIT", "integrity": hash },
                "node_modules/types": { "version": "1.0.0", "license": "MIT", "integrity": hash, "devOptional": true },
                "node_modules/tool": { "version": "1.0.0", "license": "GPL-3.0", "integrity": hash, "dev": true },
            },
        });
        change(&mut lock);
        lock.to_string()
    }

    #[test]
    fn what_is_for_development_alone_is_left_out_and_each_finds_its_own() {
        let page = Page::parse(&lock(|_| {})).unwrap();
        let found: Vec<&str> = page.packages.keys().map(String::as_str).collect();
        let expected = [
            "pkg:npm/%40a/b@1.0.0",
            "pkg:npm/c@1.0.0",
            "pkg:npm/c@2.0.0",
            "pkg:npm/d@1.0.0%2Bx",
        ];
        assert_eq!(found, expected);
        let on = |purl: &str| {
            page.packages[purl]
                .depends_on
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
        };
        assert_eq!(on("pkg:npm/%40a/b@1.0.0"), ["pkg:npm/c@2.0.0", "pkg:npm/d@1.0.0%2Bx"]);
        assert_eq!(on("pkg:npm/c@1.0.0"), ["pkg:npm/d@1.0.0%2Bx"]);
        assert_eq!(page.direct.iter().collect::<Vec<_>>(), ["pkg:npm/%40a/b@1.0.0"]);
        assert_eq!(page.packages["pkg:npm/c@2.0.0"].licence, "MIT OR GPL-2.0");
        assert_eq!(page.packages["pkg:npm/c@2.0.0"].sha512, "0".repeat(128));
    }

    #[test]
    fn a_licence_that_is_not_allowed_is_found() {
        let allowed = allowed_by("[x]\n[licenses]\n# why\nallow = [\n \"MIT\",\n \"ISC\",\n]\n").unwrap();
        assert_eq!(allowed.len(), 2);
        assert!(Page::parse(&lock(|_| {})).unwrap().refused(&allowed).is_empty());
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT AND X) OR GPL-3.0", "UNLICENSED"] {
            let page = Page::parse(&lock(|lock| lock["packages"]["node_modules/d"]["license"] = bad.into())).unwrap();
            assert_eq!(page.refused(&allowed), [format!("d 1.0.0+x is under {bad}")], "{bad}");
        }
        assert!(allowed_by("[licenses]\nallow = []").is_err() && allowed_by("").is_err());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        type Change = fn(&mut Value);
        let changes: [Change; 7] = [
            |lock| lock["lockfileVersion"] = 2.into(),
            |lock| lock["packages"]["node_modules/d"]["license"] = Value::Null,
            |lock| lock["packages"]["node_modules/d"]["integrity"] = Value::Null,
            |lock| lock["packages"]["node_modules/d"]["integrity"] = "sha1-AAAA".into(),
            |lock| lock["packages"]["node_modules/d"]["version"] = Value::Null,
            |lock| drop(lock["packages"].as_object_mut().unwrap().remove("node_modules/@a/b")),
            |lock| drop(lock["packages"].as_object_mut().unwrap().remove("")),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            assert!(Page::parse(&lock(change)).is_err(), "change {at}");
        }
    }
}
