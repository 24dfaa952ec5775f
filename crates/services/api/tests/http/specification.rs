//! The specification.

use amita_api::specification;
use std::path::Path;

/// The specification that is checked in is the one that the code has: `UPDATE_DOCS=1` renews it.
#[test]
fn the_specification_is_the_one_that_is_checked_in() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/api/openapi.json");
    let mut made = specification().to_pretty_json().unwrap();
    made.push('\n');
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &made).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    assert!(
        known == made,
        "docs/api/openapi.json is not what the code has; run this test with UPDATE_DOCS=1, and look at what has changed"
    );
}
