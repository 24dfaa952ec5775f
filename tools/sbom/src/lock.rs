//! `Cargo.lock`: where each package comes from, and its checksum.

use crate::{Error, Id};
use std::collections::BTreeMap;

/// The one registry that packages may come from.
pub const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Where a package comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locked {
    /// None: it is of this workspace.
    pub source: Option<String>,
    /// SHA-256 of the package as it is downloaded, in hexadecimal digits.
    pub checksum: Option<String>,
}

/// Reads the text of a `Cargo.lock` of version 4, of which nothing but the packages matters here.
///
/// # Errors
/// Where it has another version, or a package without name or version.
pub fn parse(text: &str) -> Result<BTreeMap<Id, Locked>, Error> {
    let form = |found: &str| Error::Form {
        what: "Cargo.lock",
        found: found.to_owned(),
    };
    let mut parts = text.split("\n[[package]]\n");
    let head = parts.next().unwrap_or_default();
    if !head.lines().any(|line| line == "version = 4") {
        return Err(form(head.lines().last().unwrap_or_default()));
    }
    let mut packages = BTreeMap::new();
    for part in parts {
        let field = |name: &str| {
            let value = part
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
            value.and_then(|value| value.strip_suffix('"')).map(str::to_owned)
        };
        let (Some(name), Some(version)) = (field("name"), field("version")) else {
            return Err(form(part));
        };
        let locked = Locked {
            source: field("source"),
            checksum: field("checksum"),
        };
        if packages.insert(Id { name, version }, locked).is_some() {
            return Err(form(part));
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "# by cargo\nversion = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\n\
        checksum = \"00ff\"\ndependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n";

    #[test]
    fn packages_with_and_without_a_source() {
        let packages = parse(LOCK).unwrap();
        let found: Vec<_> = packages
            .iter()
            .map(|(id, locked)| (id.to_string(), locked.clone()))
            .collect();
        let a = Locked {
            source: Some("registry+x".into()),
            checksum: Some("00ff".into()),
        };
        assert_eq!(found, [("a 1.0.0".into(), a), ("b 0.1.0".into(), Locked::default())]);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert!(parse(&LOCK.replace("version = 4", "version = 5")).is_err());
        assert!(parse(&LOCK.replace("name = \"b\"\n", "")).is_err());
        assert!(
            parse(&LOCK.replace("name = \"b\"\nversion = \"0.1.0\"", "name = \"a\"\nversion = \"1.0.0\"")).is_err()
        );
    }
}
