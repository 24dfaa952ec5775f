//! What packages say of themselves, and which sources of other languages they bring.

use crate::{Error, Id, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a package says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// An SPDX expression.
    pub licence: Option<String>,
    pub repository: Option<String>,
    pub description: Option<String>,
    /// The name under which it links a library of another language.
    pub links: Option<String>,
    /// Where its sources lie on this machine.
    pub folder: PathBuf,
}

/// Asks cargo.
///
/// # Errors
/// Where it fails, or prints something else than it did.
pub fn ask(repository: &Path, target: &str) -> Result<BTreeMap<Id, About>, Error> {
    let arguments = [
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        target,
    ];
    let said = run(repository, "cargo", &arguments)?;
    let form = |found: &str| Error::Form {
        what: "cargo metadata",
        found: found.chars().take(200).collect(),
    };
    let found: Value = serde_json::from_str(&said).map_err(|_| form(&said))?;
    let packages = found["packages"].as_array().ok_or_else(|| form(&said))?;
    let mut known = BTreeMap::new();
    for package in packages {
        let text = |name: &str| package[name].as_str().map(str::to_owned);
        let (Some(name), Some(version), Some(manifest)) = (text("name"), text("version"), text("manifest_path")) else {
            return Err(form(&package.to_string()));
        };
        let about = About {
            licence: text("license").map(|licence| spdx(&licence)),
            repository: text("repository"),
            description: text("description"),
            links: text("links"),
            folder: Path::new(&manifest).parent().map(Path::to_owned).unwrap_or_default(),
        };
        known.insert(Id { name, version }, about);
    }
    Ok(known)
}

/// An expression as SPDX has it: packages of long ago write a slash for "or".
fn spdx(licence: &str) -> String {
    let ways: Vec<&str> = licence.split('/').map(str::trim).collect();
    ways.join(" OR ")
}

/// Sources of another language that a package compiles into the binary; its licence is that of all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundled {
    pub name: &'static str,
    /// None where the sources do not say.
    pub version: Option<String>,
    /// Its package URL without a version.
    pub purl: &'static str,
}

/// What the package brings, by the name that it links it under; none for packages that link nothing, or something of their own.
///
/// # Errors
/// Where the name is not known here: somebody has to look.
pub fn bundled(id: &Id, about: &About) -> Result<Option<Bundled>, Error> {
    let Some(links) = &about.links else {
        return Ok(None);
    };
    // The interface in Rust, which names the library only so that there is one of it.
    if links.starts_with("aws_lc_rs_") {
        return Ok(None);
    }
    if links.starts_with("aws_lc_") {
        let header = about.folder.join("aws-lc/include/openssl/base.h");
        let text = std::fs::read_to_string(&header).map_err(|source| Error::File { path: header, source })?;
        return Ok(Some(Bundled {
            name: "aws-lc",
            version: Some(defined(&text, "AWSLC_VERSION_NUMBER_STRING")?),
            purl: "pkg:github/aws/aws-lc",
        }));
    }
    if links == "s2n-tls" {
        return Ok(Some(Bundled {
            name: "s2n-tls",
            version: None,
            purl: "pkg:github/aws/s2n-tls",
        }));
    }
    if links == "zstd" {
        let version = id.version.split_once("+zstd.").map(|(_, version)| version.to_owned());
        return Ok(Some(Bundled {
            name: "zstd",
            version,
            purl: "pkg:github/facebook/zstd",
        }));
    }
    Err(Error::Bundles {
        package: id.clone(),
        links: links.clone(),
    })
}

/// The text that a header defines a name as.
fn defined(header: &str, name: &str) -> Result<String, Error> {
    let line = header
        .lines()
        .find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
    let text = line.and_then(|rest| rest.trim().strip_prefix('"')?.strip_suffix('"'));
    text.map(str::to_owned).ok_or_else(|| Error::Form {
        what: "the header of a library",
        found: format!("no text {name}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_of_long_ago_become_expressions() {
        assert_eq!(spdx("MIT/Apache-2.0"), "MIT OR Apache-2.0");
        assert_eq!(spdx("Apache-2.0 / MIT"), "Apache-2.0 OR MIT");
        assert_eq!(
            spdx("(MIT OR Apache-2.0) AND Unicode-3.0"),
            "(MIT OR Apache-2.0) AND Unicode-3.0"
        );
    }

    #[test]
    fn a_version_is_read_from_a_header() {
        let header = "#define A 1\n#define VERSION_TEXT \"5.12.0\"\n";
        assert_eq!(defined(header, "VERSION_TEXT").unwrap(), "5.12.0");
        assert!(defined(header, "A").is_err());
    }

    #[test]
    fn the_sources_of_zstd_have_the_version_behind_that_of_the_package() {
        let id = Id {
            name: "zstd-sys".into(),
            version: "2.1.3+zstd.1.5.7".into(),
        };
        let about = About {
            links: Some("zstd".into()),
            ..About::default()
        };
        let found = bundled(&id, &about).unwrap().unwrap();
        assert_eq!((found.name, found.version.as_deref()), ("zstd", Some("1.5.7")));
    }

    #[test]
    fn a_library_that_nobody_has_looked_at_is_refused() {
        let id = Id {
            name: "zlib-sys".into(),
            version: "1.0.0".into(),
        };
        let mut about = About::default();
        assert_eq!(bundled(&id, &about).unwrap(), None);
        about.links = Some("aws_lc_rs_1_19_0_sys".into());
        assert_eq!(bundled(&id, &about).unwrap(), None);
        about.links = Some("z".into());
        let told = bundled(&id, &about).unwrap_err().to_string();
        assert!(told.contains("zlib-sys 1.0.0 links `z`"), "{told}");
    }
}
