//! What the targets do is in the folders `tests/fuzz` of the crates that they are for, where bounded runs on stable use it as well.

#[path = "../../crates/services/backup/tests/fuzz/mod.rs"]
pub mod backup;
#[path = "../../crates/engine/store/tests/suite/common/mod.rs"]
pub mod common;
#[path = "../../crates/engine/crypt/tests/fuzz/mod.rs"]
pub mod crypt;
pub mod fabric;
#[path = "../../crates/engine/store/tests/suite/fuzz/mod.rs"]
pub mod fuzz;
#[path = "../../crates/cluster/identity/tests/fuzz/mod.rs"]
pub mod identity;
#[path = "../../crates/frontends/iscsi/tests/fuzz/mod.rs"]
pub mod iscsi;
#[path = "../../crates/cluster/keys/tests/fuzz/mod.rs"]
pub mod keys;
#[path = "../../crates/cluster/metadata/tests/fuzz/mod.rs"]
pub mod metadata;
#[path = "../../crates/frontends/nbd/tests/fuzz/mod.rs"]
pub mod nbd;
#[path = "../../crates/frontends/scsi/tests/fuzz/mod.rs"]
pub mod scsi;
#[path = "../../crates/frontends/nvme/tests/fuzz/mod.rs"]
pub mod sessions;
