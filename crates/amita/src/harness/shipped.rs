//! Which binary a test drives: the one that ships, or the one that was built with the tests.

use std::sync::OnceLock;

/// The environment's name for the binary that tests drive. `make test` names the release binary, built with the features
/// that ship: the tests' own build has debug assertions, other inlining, and the simulator's switches compiled in.
pub const VARIABLE: &str = "AMITA_TEST_BINARY";

/// The binary that `AMITA_TEST_BINARY` names, or `built`, the one that cargo built with the tests.
///
/// # Panics
/// When the variable names no file.
#[must_use]
pub fn binary(built: &'static str) -> &'static str {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    let named = NAMED.get_or_init(|| {
        let path = std::env::var(VARIABLE).ok()?;
        assert!(
            std::path::Path::new(&path).is_file(),
            "{VARIABLE}={path} is no file; scripts/build-release builds the binary"
        );
        Some(path)
    });
    named.as_deref().unwrap_or(built)
}
