//! Writes the seeds of all targets to `corpus`, each in a file of its own: `cargo run --example seeds` in this folder.

use amita_fuzz::fuzz::{TARGETS, mutate};
use amita_fuzz::{backup, crypt, fabric, identity, iscsi, keys, scsi};
use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let store = TARGETS.map(|(name, _)| (name, mutate::seeds(name)));
    let others = [
        ("fabric_head", fabric::fuzz::heads()),
        ("capability", identity::capabilities()),
        ("backup", backup::seeds()),
        ("keys", keys::seeds()),
        ("seal_file", keys::seeds()),
        ("wrapped_key", crypt::seeds()),
        ("vault_answer", crypt::answers()),
        ("kmip_answer", crypt::messages()),
        ("iscsi_login", iscsi::login::seeds()),
        ("scsi", scsi::seeds()),
    ];
    for (name, seeds) in store.into_iter().chain(others) {
        let folder = corpus.join(name);
        std::fs::create_dir_all(&folder)?;
        for (at, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at:03}")), seed)?;
        }
        println!("{}: {} seeds", folder.display(), seeds.len());
    }
    Ok(())
}
