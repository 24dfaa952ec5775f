//! What the targets do is in `crates/store/tests/fuzz`, where a bounded run on stable uses it as well.

#[path = "../../crates/store/tests/common/mod.rs"]
pub mod common;
#[path = "../../crates/store/tests/fuzz/mod.rs"]
pub mod fuzz;
