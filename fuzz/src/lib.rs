//! What the targets do is in `crates/engine/store/tests/suite/fuzz` and `crates/frontends/nvme/tests/fuzz`, where bounded runs on stable use it as
//! well.

#[path = "../../crates/engine/store/tests/suite/common/mod.rs"]
pub mod common;
#[path = "../../crates/engine/store/tests/suite/fuzz/mod.rs"]
pub mod fuzz;
#[path = "../../crates/frontends/nvme/tests/fuzz/mod.rs"]
pub mod sessions;
