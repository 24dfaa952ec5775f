//! The archive: a folder with the files and a manifest of them, as `.tar.gz`.

use super::clean;
use aws_lc_rs::digest::{SHA256, digest};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The most bytes of one file; what is longer is cut, and that is said.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Its name.
    pub name: String,
    /// Why it is of use.
    pub why: String,
    /// What is in it.
    pub text: String,
    /// It was longer.
    pub is_cut: bool,
}

/// Something that is not in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotGot {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// What a manifest says of a file.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    name: &'a str,
    why: &'a str,
    bytes: usize,
    sha256: String,
    is_cut: bool,
}

/// The manifest.
#[derive(Debug, Serialize)]
struct Manifest<'a> {
    /// When it was made, in seconds since 1970.
    made_at: u64,
    program: &'a str,
    files: Vec<Listed<'a>>,
    not_got: &'a [NotGot],
    never_packed: [&'static str; 7],
}

/// What no bundle has, as it says of itself.
const NEVER: [&str; 7] = [
    "private keys and certificates' files",
    "tokens of the API and for joining, and what is kept of them",
    "keys of NVMe hosts (DH-HMAC-CHAP, TLS), sealed or not",
    "passwords and users of the metadata",
    "the environment of processes",
    "labels, and who did what (`amita audit ship` has that)",
    "data of volumes",
];

/// A bundle.
#[derive(Clone, Debug)]
pub struct Bundle {
    made_at: u64,
    program: String,
    files: Vec<Packed>,
    not_got: Vec<NotGot>,
}

impl Bundle {
    /// An empty one. `made_at`: now, in seconds since 1970.
    #[must_use]
    pub fn new(made_at: u64, program: &str) -> Bundle {
        Bundle {
            made_at,
            program: program.to_owned(),
            files: Vec::new(),
            not_got: Vec::new(),
        }
    }

    /// Packs a text, without what looks like a secret in it.
    pub fn add(&mut self, name: impl Into<String>, why: impl Into<String>, text: &str) {
        let mut end = text.len().min(MAX_FILE_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.files.push(Packed {
            name: safe(&name.into()),
            why: clean(&why.into()),
            text: clean(&text[..end]),
            is_cut: end < text.len(),
        });
    }

    /// Something could not be had.
    pub fn not_got(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.not_got.push(NotGot {
            what: clean(&what.into()),
            why: clean(&why.into()),
        });
    }

    /// The files.
    #[must_use]
    pub fn files(&self) -> &[Packed] {
        &self.files
    }

    /// What could not be had.
    #[must_use]
    pub fn missing(&self) -> &[NotGot] {
        &self.not_got
    }

    /// The manifest, as JSON.
    #[must_use]
    pub fn manifest(&self) -> String {
        let files = self.files.iter().map(|file| Listed {
            name: &file.name,
            why: &file.why,
            bytes: file.text.len(),
            sha256: hex(digest(&SHA256, file.text.as_bytes()).as_ref()),
            is_cut: file.is_cut,
        });
        let manifest = Manifest {
            made_at: self.made_at,
            program: &self.program,
            files: files.collect(),
            not_got: &self.not_got,
            never_packed: NEVER,
        };
        serde_json::to_string_pretty(&manifest).unwrap_or_default()
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        let mut archive = tar::Builder::new(GzEncoder::new(to, Compression::default()));
        let manifest = self.manifest();
        let files = self.files.iter().map(|file| (file.name.as_str(), file.text.as_str()));
        for (name, text) in [("manifest.json", manifest.as_str())].into_iter().chain(files) {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(self.made_at);
            archive.append_data(&mut header, format!("amita-support/{name}"), text.as_bytes())?;
        }
        archive.into_inner()?.finish()?.flush()
    }
}

/// Names of nodes are in names of files.
fn safe(name: &str) -> String {
    let kept = |c: char| {
        if c.is_ascii_alphanumeric() || "-_./".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().take(100).map(kept).collect();
    name.split('/')
        .filter(|part| !part.is_empty() && !part.starts_with('.'))
        .collect::<Vec<_>>()
        .join("/")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a text cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
