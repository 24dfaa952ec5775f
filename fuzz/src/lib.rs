//! What the targets do is in `crates/store/tests/fuzz` and `crates/uss/tests/fuzz`, where bounded runs on stable use it as
//! well.

#[path = "../../crates/store/tests/common/mod.rs"]
pub mod common;
#[path = "../../crates/store/tests/fuzz/mod.rs"]
pub mod fuzz;
#[path = "../../crates/uss/tests/fuzz/mod.rs"]
pub mod sessions;
