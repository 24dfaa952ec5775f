//! Which binary a test drives: the one that ships, or the one that was built with the tests.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The environment's name for the binary that tests drive. `make test` names the release binary, built with the features
/// that ship: the tests' own build has debug assertions, other inlining, and the simulator's switches compiled in.
pub const VARIABLE: &str = "AMITA_TEST_BINARY";

/// The binary that `AMITA_TEST_BINARY` names, or the one of that name beside `program`.
///
/// # Panics
/// When the variable names no file.
#[must_use]
pub fn beside(program: &str, name: &str) -> PathBuf {
    named().map_or_else(|| Path::new(program).with_file_name(name), PathBuf::from)
}

/// The binary that `AMITA_TEST_BINARY` names, or `built`, the one that cargo built with the tests.
///
/// # Panics
/// When the variable names no file.
#[must_use]
pub fn binary(built: &'static str) -> &'static str {
    named().unwrap_or(built)
}

fn named() -> Option<&'static str> {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    let named = NAMED.get_or_init(|| {
        let path = std::env::var(VARIABLE).ok()?;
        assert!(
            Path::new(&path).is_file(),
            "{VARIABLE}={path} is no file; scripts/build-release builds the binary"
        );
        Some(path)
    });
    named.as_deref()
}
