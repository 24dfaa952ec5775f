//! What files hold that a command names and a node is sent: keys, secrets, certificates. It goes into the body of one request, and nowhere else.

use super::given::Given;
use crate::cli::Endpoints;
use crate::commands::host::keys::check_is_no_key;
use amita_keys::Zeroizing;
use amita_terminal::error::{Failure, Kind, Result};
use serde_json::Value;
use std::fmt;
use std::path::Path;

/// The longest file, in bytes: as much as a node takes.
const MAX_BYTES: u64 = 64 << 10;

/// What they hold, by the names that the command line has for them.
#[derive(Default)]
pub struct Sent(Vec<(String, Zeroizing<String>)>);

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files", self.0.len())
    }
}

impl Sent {
    /// Reads the files that a command line names.
    ///
    /// # Errors
    /// One cannot be read, is too long or no text; a key stands in its place; or standard input is to be two of them.
    pub fn read(given: &Given) -> Result<Sent> {
        let mut sent = Sent::default();
        let of_stdin = given.files.iter().filter(|(_, path)| path.to_str() == Some("-"));
        if of_stdin.count() > 1 {
            let what = "standard input holds one of them, and two are to come from there";
            return Err(Failure::new(what)
                .kind(Kind::Usage)
                .advice("Put one of them into a file."));
        }
        for (flag, path) in &given.files {
            let shown = Path::new(path);
            check_is_no_key(flag, shown)?;
            let bad = |why: String| Failure::new(format!("{}: {why}", named(flag, shown))).kind(Kind::Unreadable);
            let name = path.to_str().ok_or_else(|| bad("its name is no text".to_owned()))?;
            if sent.0.iter().any(|(known, _)| known == name) {
                continue;
            }
            let read = Endpoints::default().read_file(shown, MAX_BYTES + 1);
            let text = read.map_err(|why| bad(why.to_string()))?;
            if text.len() as u64 > MAX_BYTES {
                return Err(bad(format!(
                    "it is longer than {MAX_BYTES} bytes, and no key or certificate"
                )));
            }
            sent.0.push((name.to_owned(), text));
        }
        Ok(sent)
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As the request has them.
    #[must_use]
    pub fn json(&self) -> Value {
        let all = self.0.iter();
        all.map(|(name, text)| (name.clone(), Value::from(text.as_str())))
            .collect()
    }
}

/// A secret of CHAP has no form by which it could be told from the name of a file: what stands there is not said, as it may be one.
fn named(flag: &str, path: &Path) -> String {
    match flag.starts_with("--chap-") {
        true => flag.to_owned(),
        false => format!("{flag} {}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;
    use std::ffi::OsString;

    fn read(line: &str) -> Result<Sent> {
        let words = line.split(' ').map(OsString::from);
        let (cli, _) = cli::read(words).unwrap_or_else(|why| panic!("{line}: {why:?}"));
        Sent::read(&cli.given)
    }

    #[test]
    fn what_the_command_names_is_read_once_and_shown_by_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        std::fs::write(&path, "hush\n").expect("written");
        let key = path.to_str().expect("text");
        let sent = read(&format!("amita host key nqn.x --dhchap-key {key} --tls-key {key}")).expect("read");
        assert_eq!(sent.json(), serde_json::json!({ key: "hush\n" }));
        assert_eq!(format!("{sent:?}"), "1 files");
        assert!(read("amita host key nqn.x --generate-tls").is_ok_and(|sent| sent.is_empty()));
        assert!(read("amita volume list").is_ok_and(|sent| sent.is_empty()));
    }

    #[test]
    fn what_cannot_be_sent_is_said_without_what_it_holds() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        std::fs::write(&path, "x".repeat(70 << 10)).expect("written");
        let long = format!(
            "amita notify add webhook w --url https://a.example/ --secret-file {}",
            path.display()
        );
        for (line, says) in [
            (long.as_str(), "longer than 65536"),
            ("amita host key nqn.x --dhchap-key /no/such/file", "/no/such/file"),
            ("amita host key nqn.x --dhchap-key - --tls-key -", "standard input"),
            (
                "amita host key nqn.x --dhchap-key DHHC-1:00:hush:",
                "not the key itself",
            ),
            (
                "amita initiator key iqn.2014-08.org.example:i --chap-secret hush-hush-hush",
                "--chap-secret: ",
            ),
        ] {
            let refused = read(line).expect_err(line);
            assert!(refused.what.contains(says), "{line}: {refused}");
            assert!(!refused.to_string().contains("hush"), "{refused}");
        }
    }
}
