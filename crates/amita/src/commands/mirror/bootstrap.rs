//! What the other cluster joins a mirror by: a file that is made once, and brought there by the operator.

use amita_api::mirror::BOOTSTRAP_VERSION;
pub use amita_api::mirror::MirrorBootstrap as Bootstrap;
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The longest one, in bytes.
pub const MAX_BYTES: u64 = 64 << 10;

/// What such a file says.
///
/// # Errors
/// It is none.
pub fn parse(text: &str) -> Result<Bootstrap> {
    // What stands there may be a token: it is not told.
    let bad = |why: &str| {
        Failure::new(format!("the file is none that `amita mirror add` has made: {why}"))
            .kind(Kind::Unreadable)
            .advice("Bring the file of `amita mirror add --bootstrap` as it is.")
    };
    if text.len() as u64 > MAX_BYTES {
        return Err(bad(&format!("it is longer than {MAX_BYTES} bytes")));
    }
    let found: serde_json::Value = serde_json::from_str(text).map_err(|_| bad("it is no JSON"))?;
    match found["version"].as_u64() {
        Some(version) if version == u64::from(BOOTSTRAP_VERSION) => {}
        Some(version) => {
            return Err(bad(&format!(
                "it is of form {version}, and this program knows {BOOTSTRAP_VERSION}"
            )));
        }
        None => return Err(bad("it has no version")),
    }
    let read: Bootstrap = serde_json::from_value(found).map_err(|_| bad("something in it lacks, or cannot be"))?;
    match read.addresses.is_empty() || read.token.is_empty() {
        true => Err(bad("it has no address, or no token")),
        false => Ok(read),
    }
}

/// As it is written.
///
/// # Errors
/// Never: all of it can be written.
pub fn text(bootstrap: &Bootstrap) -> Result<String> {
    let text = serde_json::to_string_pretty(bootstrap).context(|| "what the other end joins by".to_owned())?;
    Ok(text + "\n")
}

/// A file that is to hold it: made, for its owner alone, before there is anything to be lost. Where nothing comes of it, it is removed.
#[derive(Debug)]
pub struct Place<'a> {
    path: &'a Path,
    file: File,
    written: bool,
}

impl<'a> Place<'a> {
    /// Makes it.
    ///
    /// # Errors
    /// It is there already, or cannot be made.
    pub fn make(path: &'a Path) -> Result<Place<'a>> {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        match made {
            Ok(file) => Ok(Place {
                path,
                file,
                written: false,
            }),
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                let what = format!("{} is there already, and is not written over", path.display());
                Err(Failure::new(what).kind(Kind::Conflict).advice("Name another file."))
            }
            Err(why) => Err(Failure::new(format!("{} cannot be made: {why}", path.display()))),
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(mut self, text: &str) -> Result<()> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        written.context(|| format!("{} cannot be written", self.path.display()))?;
        self.written = true;
        Ok(())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.written
            && let Err(why) = std::fs::remove_file(self.path)
        {
            log::warn!("{} is empty, and cannot be removed: {why}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::{ClusterId, MirrorId};
    use std::os::unix::fs::PermissionsExt as _;

    fn made() -> Bootstrap {
        Bootstrap::new(
            (MirrorId(7), "dr"),
            ClusterId(3),
            (vec!["n1:7480".to_owned()], "PEM".to_owned()),
            "secret".to_owned(),
        )
    }

    #[test]
    fn what_was_written_is_read_and_a_token_is_shown_by_nothing() {
        let text = text(&made()).expect("a text");
        assert_eq!(parse(&text), Ok(made()));
        assert!(!format!("{:?}", made()).contains("secret"));
        let (none, other) = (
            text.replace("\"secret\"", "\"\""),
            text.replace(&MirrorId(7).to_string(), "secret"),
        );
        for (bad, why) in [
            ("secret", "no JSON"),
            ("{}", "no version"),
            ("{\"version\":2}", "of form 2"),
            ("{\"version\":1,\"token\":\"secret\"}", "lacks"),
            (none.as_str(), "no token"),
            (other.as_str(), "cannot be"),
        ] {
            let refused = parse(bad).expect_err("it is none");
            assert!(
                refused.what.contains(why) && !refused.what.contains("secret"),
                "{refused}"
            );
            assert_eq!(refused.kind, Kind::Unreadable);
        }
    }

    #[test]
    fn a_file_is_for_its_owner_is_never_written_over_and_goes_where_nothing_came_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dr.join");
        drop(Place::make(&path).expect("made"));
        assert!(!path.exists(), "nothing came of it");
        Place::make(&path).expect("made").write("text").expect("written");
        let rights = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(rights & 0o777, 0o600);
        let refused = Place::make(&path).expect_err("it is there");
        assert_eq!(refused.kind, Kind::Conflict);
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "text");
    }
}
