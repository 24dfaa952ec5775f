//! What a built binary tells about the machine that has built it, and which crates are in it.
//!
//! `scripts/release-cargo` replaces paths: this checkout's by `/amita`, those of downloaded crates by `/cargo/REGISTRY/`. What
//! panics, and what debug information names, then has a path of the latter form: it shows which crates were linked, apart from
//! what cargo says.

use serde_json::Value;
use std::collections::BTreeSet;

/// What the paths of downloaded crates begin with in a binary that ships.
const CRATES: &[u8] = b"/cargo/";
/// Characters of a text to show beside what was found.
const CONTEXT: usize = 60;
/// A binary that ships names more crates than this; a plain build names none by that path.
pub const LEAST_CRATES: usize = 20;

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    // The rarest byte of a path that this can know of is not its first.
    let last = *needle.last()?;
    let mut from = needle.len() - 1;
    while let Some(at) = bytes.get(from..)?.iter().position(|byte| *byte == last) {
        let start = from + at + 1 - needle.len();
        if bytes[start..].starts_with(needle) {
            return Some(start);
        }
        from += at + 1;
    }
    None
}

/// Is this in it, as it is?
#[must_use]
pub fn has(bytes: &[u8], part: &[u8]) -> bool {
    find(bytes, part).is_some()
}

/// The first text in which one of these paths stands: each path at most once.
#[must_use]
pub fn told(bytes: &[u8], paths: &[String]) -> Vec<String> {
    let shown = |path: &String| {
        let at = find(bytes, path.as_bytes())?;
        let text = bytes[at..].iter().take_while(|byte| (0x20..0x7f).contains(*byte));
        let text: String = text.take(path.len() + CONTEXT).map(|byte| char::from(*byte)).collect();
        Some(format!("{path}: in `{text}`"))
    };
    paths.iter().filter_map(shown).collect()
}

/// The crates whose paths are in a binary, as `NAME-VERSION`.
#[must_use]
pub fn crates(bytes: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = bytes;
    while let Some(at) = find(rest, CRATES) {
        rest = &rest[at + CRATES.len()..];
        let mut parts = rest.splitn(3, |byte| *byte == b'/');
        let (registry, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_name = |part: &[u8]| {
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(byte);
            (1..128).contains(&part.len()) && part.iter().all(plain)
        };
        if is_name(registry) && is_name(folder) && parts.next().is_some() {
            found.insert(String::from_utf8_lossy(folder).into_owned());
        }
    }
    found
}

/// The crates of a binary that a document does not have as linked.
#[must_use]
pub fn missing(crates: &BTreeSet<String>, document: &Value) -> Vec<String> {
    let components = document["components"].as_array().into_iter().flatten();
    let linked = components.filter(|one| one["scope"] == "required");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = linked
        .map(|one| format!("{}-{}", text(&one["name"]), text(&one["version"])))
        .collect();
    crates.difference(&known).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_of_this_machine_are_found() {
        let bytes = b"\0\x01/home/a/src/x.rs\0/homeb\0/work/y";
        let paths = ["/home/a/", "/opt/", "/work/"].map(str::to_owned);
        let found = told(bytes, &paths);
        assert_eq!(found, ["/home/a/: in `/home/a/src/x.rs`", "/work/: in `/work/y`"]);
        assert!(told(b"/hom", &paths).is_empty() && told(b"", &paths).is_empty());
        assert!(has(bytes, b"x.rs\0/h") && !has(bytes, b"x.rs/h") && !has(bytes, b""));
    }

    #[test]
    fn crates_are_found_by_their_paths() {
        let bytes = b"x/cargo/index.crates.io-1949/h2-0.4.20/src/a.rs/cargo/index.crates.io-1949/ring-0.17.14/b.c\0/cargo/\xff/a/b/cargo/x";
        let found = crates(bytes);
        assert_eq!(found.iter().collect::<Vec<_>>(), ["h2-0.4.20", "ring-0.17.14"]);
        let document = json!({ "components": [
            { "name": "h2", "version": "0.4.20", "scope": "required" },
            { "name": "ring", "version": "0.17.14", "scope": "excluded" },
        ] });
        assert_eq!(missing(&found, &document), ["ring-0.17.14"]);
    }
}
