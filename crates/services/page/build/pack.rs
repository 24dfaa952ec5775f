//! The files of a built page, as they are put into the program.
//!
//! The same files give the same bytes: compression is by a pinned library with one setting, and no time is in it.

use flate2::{Compression, Crc, GzBuilder};
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// The page's entrance.
pub const INDEX: &str = "/index.html";
/// A page that is larger than this has something in it that does not belong there.
pub const MOST_BYTES: usize = 16 << 20;
/// Compressing what is smaller spares no packet.
const LEAST_GZIP_BYTES: usize = 1024;

/// Kinds of files that a page is made of, by the ends of their names, and whether compressing them pays.
const KINDS: &[(&str, &str, bool)] = &[
    ("html", "text/html; charset=utf-8", true),
    ("js", "text/javascript; charset=utf-8", true),
    ("css", "text/css; charset=utf-8", true),
    ("svg", "image/svg+xml", true),
    ("json", "application/json", true),
    ("txt", "text/plain; charset=utf-8", true),
    ("png", "image/png", false),
    ("woff2", "font/woff2", false),
];

/// A file of the page.
#[derive(Debug, PartialEq, Eq)]
pub struct Packed {
    /// What a browser asks for, beginning with `/`.
    pub path: String,
    /// Its media type (RFC 9110, section 8.3).
    pub media: &'static str,
    /// Of its bytes: another one whenever they are others.
    pub tag: String,
    pub bytes: Vec<u8>,
    /// Where that is much shorter.
    pub gzip: Option<Vec<u8>>,
}

/// All files of a folder, in the order of their paths.
///
/// # Errors
/// It cannot be read; it is no whole page; a file is of a kind that no browser would be told rightly.
pub fn read(folder: &Path) -> Result<Vec<Packed>, String> {
    let mut files = Vec::new();
    walk(folder, "", &mut files)?;
    files.sort_by(|one, other| one.path.cmp(&other.path));
    check(folder, &files)?;
    Ok(files)
}

fn walk(folder: &Path, above: &str, files: &mut Vec<Packed>) -> Result<(), String> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    for entry in fs::read_dir(folder).map_err(|why| wrong(folder, &why))? {
        let entry = entry.map_err(|why| wrong(folder, &why))?;
        let (path, kind) = (entry.path(), entry.file_type());
        let kind = kind.map_err(|why| wrong(&path, &why))?;
        let name = entry.file_name();
        let plain = |name: &&str| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let Some(name) = name.to_str().filter(plain) else {
            return Err(wrong(&path, &"a name that would look different in an address"));
        };
        let named = format!("{above}/{name}");
        if kind.is_dir() {
            walk(&path, &named, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(&path).map_err(|why| wrong(&path, &why))?;
            files.push(pack(named, bytes).map_err(|why| wrong(&path, &why))?);
        } else {
            return Err(wrong(&path, &"neither a file nor a folder"));
        }
    }
    Ok(())
}

fn pack(path: String, bytes: Vec<u8>) -> Result<Packed, String> {
    let end = path.rsplit_once('.').map(|(_, end)| end);
    let Some((_, media, pays)) = KINDS.iter().find(|(known, ..)| Some(*known) == end) else {
        return Err("a kind of file whose media type is not known: add it to KINDS".to_owned());
    };
    let mut sum = Crc::new();
    sum.update(&bytes);
    let tag = format!("\"{:08x}-{:x}\"", sum.sum(), bytes.len());
    let gzip = (*pays && bytes.len() >= LEAST_GZIP_BYTES && path != INDEX).then(|| gzip(&bytes));
    let gzip = gzip.filter(|short| short.len() < bytes.len() / 10 * 9);
    Ok(Packed {
        path,
        media,
        tag,
        bytes,
        gzip,
    })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("memory takes all")
}

/// A page that is being built at this moment has some of its files only.
fn check(folder: &Path, files: &[Packed]) -> Result<(), String> {
    let again = format!(
        "{}: not a whole page; build it again (scripts/build-web)",
        folder.display()
    );
    let index = files.iter().find(|file| file.path == INDEX);
    let index = index.ok_or_else(|| format!("{again}: there is no index.html"))?;
    let text = String::from_utf8_lossy(&index.bytes);
    if !text.contains("__AMITA_CSP_NONCE__") {
        return Err(format!("{again}: index.html has no place for the nonce"));
    }
    let named: Vec<&str> = text.split('"').filter_map(|part| part.strip_prefix('.')).collect();
    let named: Vec<&str> = named.into_iter().filter(|path| path.starts_with("/assets/")).collect();
    if named.is_empty() {
        return Err(format!("{again}: index.html names no script"));
    }
    if let Some(path) = named.iter().find(|path| files.iter().all(|file| file.path != **path)) {
        return Err(format!("{again}: index.html names {path}, which is not there"));
    }
    let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    if bytes > MOST_BYTES {
        return Err(format!(
            "{again}: {bytes} bytes, and more than {MOST_BYTES} are no page of ours"
        ));
    }
    Ok(())
}
