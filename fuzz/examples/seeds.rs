//! Writes the seeds of all targets to `corpus`, each in a file of its own: `cargo run --example seeds` in this folder.

use amita_fuzz::fuzz::{TARGETS, mutate};
use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, _) in TARGETS {
        let folder = corpus.join(name);
        std::fs::create_dir_all(&folder)?;
        let seeds = mutate::seeds(name);
        for (at, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at:03}")), seed)?;
        }
        println!("{}: {} seeds", folder.display(), seeds.len());
    }
    Ok(())
}
