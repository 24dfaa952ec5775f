//! Gives the shared library the name that programs look for at run time: it changes with the interface.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libamita.so.0");
}
