//! The headers that the collector wants, from a file: tokens among them, which nobody may see.
//!
//! ```text
//! # Lines of NAME: VALUE.
//! Authorization: Bearer ...
//! ```
//! The file is this user's alone, or root's. It is read before each request, so that a token can be exchanged while the node serves.

use http::{HeaderName, HeaderValue};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The longest file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// The most headers.
const MAX_HEADERS: usize = 32;
/// Of the system's user 0.
const ROOT: u32 = 0;
/// Words of values that are at least so long are taken out of what the collector says.
const SECRET_LENGTH: usize = 6;
/// Those that the request itself has.
const OWN: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Why headers cannot be sent. No line of the file is repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadHeaders {
    /// The file cannot be read.
    #[error("{}: {why}; give a file that this process may read", path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// Somebody else may read it, or owns it.
    #[error("{}: {why}; `chown` and `chmod 600` make it this user's alone, and get a new token if others could have read this one", path.display())]
    Loose {
        /// Which one.
        path: PathBuf,
        /// Who else.
        why: String,
    },
    /// It is not what it should be.
    #[error("{}: {why}; a line is NAME: VALUE, empty, or begins with #", path.display())]
    Content {
        /// Which one.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
}

/// Names and values.
#[derive(Clone, Default)]
pub struct Headers {
    all: Vec<(HeaderName, HeaderValue)>,
}

impl Headers {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or something in it is no header.
    pub fn load(path: &Path) -> Result<Headers, BadHeaders> {
        let unreadable = |why| BadHeaders::Unreadable {
            path: path.to_owned(),
            why,
        };
        let content = |why: String| BadHeaders::Content {
            path: path.to_owned(),
            why,
        };
        let mut file = File::open(path).map_err(unreadable)?;
        // Of the open file, not of the name: they cannot be exchanged in between.
        let found = file.metadata().map_err(unreadable)?;
        if !found.is_file() || found.len() > MAX_FILE_BYTES {
            return Err(content(format!("not a regular file of at most {MAX_FILE_BYTES} bytes")));
        }
        private(found.uid(), found.mode(), rustix::process::geteuid().as_raw()).map_err(|why| BadHeaders::Loose {
            path: path.to_owned(),
            why,
        })?;
        let mut text = Zeroizing::new(String::with_capacity(found.len() as usize + 1));
        file.read_to_string(&mut text).map_err(unreadable)?;
        Headers::parse(&text).map_err(content)
    }

    /// Reads what a file holds.
    ///
    /// # Errors
    /// The number of a line that is no header, and why.
    pub fn parse(text: &str) -> Result<Headers, String> {
        let mut all: Vec<(HeaderName, HeaderValue)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |why: &str| format!("line {} {why}", at + 1);
            let (name, value) = line.split_once(':').ok_or_else(|| bad("has no colon"))?;
            let name: HeaderName = name
                .trim()
                .parse()
                .map_err(|_| bad("does not begin with a header's name"))?;
            if OWN.contains(&name.as_str()) {
                return Err(bad(&format!("sets {name}, which is not for this file to say")));
            }
            if all.iter().any(|(known, _)| *known == name) {
                return Err(bad(&format!("sets {name} again")));
            }
            let mut value: HeaderValue = value
                .trim()
                .parse()
                .map_err(|_| bad("has a value that cannot be sent"))?;
            value.set_sensitive(true);
            all.push((name, value));
            if all.len() > MAX_HEADERS {
                return Err(bad(&format!("is one too many: {MAX_HEADERS} headers can be set")));
            }
        }
        Ok(Headers { all })
    }

    /// Each of them.
    pub fn each(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.all.iter().map(|(name, value)| (name, value))
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A text of somebody else's, without what is secret: a collector may repeat what it was sent.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for (_, value) in &self.all {
            let Ok(value) = std::str::from_utf8(value.as_bytes()) else {
                continue;
            };
            let words = value.split_whitespace();
            for secret in std::iter::once(value)
                .chain(words)
                .filter(|word| word.len() >= SECRET_LENGTH)
            {
                clean = clean.replace(secret, "***");
            }
        }
        clean
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|(name, _)| name)).finish()
    }
}

/// The rule of PostgreSQL: this user's alone, or root's, who may let a group read it.
fn private(owner: u32, mode: u32, user: u32) -> Result<(), String> {
    let allowed = match owner {
        ROOT => 0o740,
        owner if owner == user => 0o700,
        owner => {
            return Err(format!(
                "it belongs to user {owner}, who may read it, and this is user {user}"
            ));
        }
    };
    let mode = mode & 0o777;
    if mode & !allowed == 0 {
        return Ok(());
    }
    Err(format!("others may read or change it (its rights are {mode:04o})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn lines_are_headers_and_their_values_are_shown_nowhere() {
        let headers = Headers::parse("# mine\n\n  Authorization:  Bearer hunter2:x \r\nX-Tenant: a\n").unwrap();
        let each: Vec<(&str, &str)> = headers
            .each()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(each, [("authorization", "Bearer hunter2:x"), ("x-tenant", "a")]);
        assert_eq!(format!("{headers:?}"), "[\"authorization\", \"x-tenant\"]");
        assert!(headers.each().all(|(_, value)| value.is_sensitive()));
        let said = headers.scrub("no such token: hunter2:x (you sent Bearer hunter2:x)");
        assert!(!said.contains("hunter2") && said.contains("no such token"), "{said}");
        assert!(Headers::parse("").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_header_is_said_by_its_line() {
        for (text, why) in [
            ("hunter2", "line 1 has no colon"),
            ("\nhunter2 x: y", "line 2 does not begin"),
            ("a: hunter2\u{1}", "line 1 has a value"),
            ("Host: hunter2", "line 1 sets host"),
            ("content-Length: 3", "line 1 sets content-length"),
            ("a: b\nA: hunter2", "line 2 sets a again"),
        ] {
            let said = Headers::parse(text).unwrap_err();
            assert!(said.contains(why) && !said.contains("hunter2"), "{text}: {said}");
        }
        let many: String = (0..=MAX_HEADERS).map(|n| format!("x-{n}: 1\n")).collect();
        assert!(Headers::parse(&many).unwrap_err().contains("too many"));
    }

    #[test]
    fn a_file_that_others_may_read_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("headers");
        std::fs::write(&path, "X-Token: hunter2\n").unwrap();
        for (mode, is_good) in [(0o600, true), (0o400, true), (0o644, false), (0o602, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let loaded = Headers::load(&path);
            assert_eq!(loaded.is_ok(), is_good, "{mode:o}");
            if let Err(why) = loaded {
                let said = why.to_string();
                assert!(said.contains("chmod 600") && !said.contains("hunter2"), "{said}");
            }
        }
        let missing = Headers::load(&folder.path().join("none")).unwrap_err();
        assert!(matches!(missing, BadHeaders::Unreadable { .. }), "{missing}");
        let no_file = Headers::load(folder.path()).unwrap_err();
        assert!(matches!(no_file, BadHeaders::Content { .. }), "{no_file}");
        assert!(private(1000, 0o600, 1001).is_err() && private(0, 0o640, 1001).is_ok());
        assert!(private(1000, 0o640, 1000).is_err() && private(0, 0o644, 0).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_headers_or_an_error(text in "[ -~\n:#]{0,200}") {
            if let Ok(headers) = Headers::parse(&text) {
                prop_assert!(headers.each().count() <= MAX_HEADERS);
                prop_assert!(headers.each().all(|(name, _)| !OWN.contains(&name.as_str())));
            }
        }
    }
}
