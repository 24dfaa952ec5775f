//! Puts the page that `scripts/build-web` has built into the crate; without one, none.

mod pack;

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Of the repository. `scripts/build-web` touches it where there was no page before: a folder that is not there cannot be watched
/// without building anew each time.
const TOUCHED: &str = "web/.gitignore";

fn main() {
    let repository = folder("CARGO_MANIFEST_DIR").join("../../..");
    let dist = repository.join("web/dist");
    println!("cargo:rerun-if-changed={}", repository.join(TOUCHED).display());
    println!("cargo:rerun-if-changed=build");
    let files = if dist.is_dir() {
        println!("cargo:rerun-if-changed={}", dist.display());
        pack::read(&dist).unwrap_or_else(|why| panic!("{why}"))
    } else {
        Vec::new()
    };
    let out = folder("OUT_DIR");
    write(&out, &files).unwrap_or_else(|why| panic!("{}: {why}", out.display()));
}

/// As cargo names it now: a checkout may have been moved since this was compiled.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("cargo says {name}")))
}

/// Copies of all files, and `files.rs`: an expression of what they are. What the compiler reads later is what was looked at here, whoever builds
/// the page anew in between; and no path of this machine is in it.
fn write(out: &Path, files: &[pack::Packed]) -> std::io::Result<()> {
    let mut table = String::from("&[\n");
    for (at, file) in files.iter().enumerate() {
        let bytes = |kind: &str| format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{at}.{kind}\"))");
        std::fs::write(out.join(format!("{at}.plain")), &file.bytes)?;
        let gzip = match &file.gzip {
            Some(gzip) => {
                std::fs::write(out.join(format!("{at}.gzip")), gzip)?;
                format!("Some({})", bytes("gzip"))
            }
            None => "None".to_owned(),
        };
        let (path, media, tag, plain) = (&file.path, file.media, &file.tag, bytes("plain"));
        let _ = writeln!(
            table,
            "File {{ path: {path:?}, media: {media:?}, tag: {tag:?}, plain: {plain}, gzip: {gzip} }},"
        );
    }
    table.push_str("]\n");
    std::fs::write(out.join("files.rs"), table)
}
