//! The bill of materials of what ships, and a look into a binary that is about to be shipped.
//!
//! * [`lock`]: `Cargo.lock`: where each package comes from, and its checksum.
//! * [`tree`]: what cargo links into a package of the workspace, and what it builds that with.
//! * [`about`]: what packages say of themselves: licence, repository, C library.
//! * [`page`]: the packages of npm that the web page inside of the binary is bundled of.
//! * [`document`]: all of it as CycloneDX 1.5.
//! * [`shipped`]: what a built binary tells about the machine that has built it, and which crates are in it.
//!
//! A package is *linked* where code of it is in the binary; it is *built with* where it runs on the machine that builds: build
//! scripts, macros, and what those need. Both are in the document, the latter with the scope "excluded".
#![deny(unsafe_code)]

pub mod about;
pub mod document;
pub mod lock;
pub mod page;
pub mod shipped;
pub mod tree;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why there is no document, or a binary is not to be shipped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program did not run, or failed.
    #[error("`{command}` failed: {said}")]
    Command { command: String, said: String },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// Something is not of the form that is understood here.
    #[error("{what}: {found:?} is not understood; has its format changed?")]
    Form { what: &'static str, found: String },
    /// A package is built from and is not in the lock file.
    #[error("{0} is in no line of Cargo.lock")]
    NotLocked(Id),
    /// A package does not say what its licence is.
    #[error("{0} names no licence")]
    NoLicence(Id),
    /// A package says that it links a library of another language, and nobody has said which.
    #[error("{package} links `{links}`: say in tools/sbom/src/about.rs which sources it brings")]
    Bundles { package: Id, links: String },
}

/// A package: no two of one name and version come from different places here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub name: String,
    pub version: String,
}

impl Id {
    /// Its package URL (<https://github.com/package-url/purl-spec>, type `cargo`).
    #[must_use]
    pub fn purl(&self) -> String {
        // A version may have a `+`, which the specification wants escaped.
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Runs a program in a folder; what it prints.
///
/// # Errors
/// Where it does not run, fails, or prints something that is not text.
pub fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, Error> {
    let failed = |said: String| Error::Command {
        command: format!("{program} {}", arguments.join(" ")),
        said,
    };
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
}

/// What the compiler says of itself: the value of a line of `rustc -vV`.
///
/// # Errors
/// Where it does not say that.
pub fn compiler(repository: &Path, name: &str) -> Result<String, Error> {
    let said = run(repository, "rustc", &["-vV"])?;
    let value = said
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.map(str::to_owned).ok_or_else(|| Error::Form {
        what: "rustc -vV",
        found: said.clone(),
    })
}

/// The platform of this machine.
///
/// # Errors
/// Where the compiler does not say.
pub fn host(repository: &Path) -> Result<String, Error> {
    compiler(repository, "host")
}

/// The SHA-256 of a file, in hexadecimal digits, by `sha256sum` of coreutils.
///
/// # Errors
/// Where that fails.
pub fn sha256(file: &Path) -> Result<String, Error> {
    let said = run(Path::new("."), "sha256sum", &["--", &file.to_string_lossy()])?;
    // A name with a backslash or a line break is written escaped, behind a backslash.
    let digits = said.trim_start_matches('\\').split_whitespace().next();
    let digits = digits.filter(|digits| digits.len() == 64).ok_or_else(|| Error::Form {
        what: "sha256sum",
        found: said.clone(),
    })?;
    Ok(digits.to_owned())
}
