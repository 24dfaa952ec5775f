//! The authority's audit log: a line for each use of its keys, and for each that was refused.
//!
//! It lies beside the keys (`audit`), because the authority needs no metadata, and is chained by hashes as the cluster's own log is
//! ([`amita_audit`]). `audit.head` holds the number and hash of the newest line, so that an end that was cut off is seen. Who
//! reads this folder can be anybody in the cluster, and can also write a whole log anew: ship it elsewhere (`amita audit ship`).
//! A log that was damaged does not stop the authority: what is told next follows the head.

use crate::error::IdentityError;
use crate::files::{self, Lock, Privacy};
use amita_audit::{Draft, Head, Line, Outcome, Proof, TRIM, Whence, Who, trimmed};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

pub(super) const LOG: &str = "audit";
const HEAD: &str = "audit.head";
/// Above this the older half goes: some 60,000 lines, a year of 800 nodes.
const MAX_LOG_BYTES: u64 = 32 << 20;
/// The longest line, with room to spare.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Who uses the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Who.
    pub who: Who,
    /// From where.
    pub whence: Whence,
}

impl Actor {
    /// The user who runs this process. Nothing was proved: who reads the authority's folder may use it.
    #[must_use]
    pub fn here() -> Actor {
        let uid = rustix::process::getuid().as_raw();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Actor {
            who: Who {
                name: format!("user {uid} of {host}"),
                role: "admin".to_owned(),
                proof: Proof::None,
            },
            whence: Whence {
                host,
                uid: Some(uid),
                address: None,
            },
        }
    }

    /// Somebody who has reached the authority's server.
    pub(crate) fn reached(name: &str, role: &str, proof: Proof, address: Option<String>) -> Actor {
        Actor {
            who: Who {
                name: name.to_owned(),
                role: role.to_owned(),
                proof,
            },
            whence: Whence {
                address,
                ..Whence::default()
            },
        }
    }

    pub(super) fn draft(&self, action: &str, object: &str, outcome: Outcome) -> Draft {
        Draft::new(self.who.clone(), self.whence.clone(), action, object, outcome)
    }
}

/// What is kept of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorityLog {
    /// Its lines, the oldest first.
    pub lines: Vec<String>,
    /// The newest line, as it is noted beside the log.
    pub head: Option<Head>,
}

impl AuthorityLog {
    /// The record before the first that is there; none: the log begins with the first record of all.
    #[must_use]
    pub fn trimmed(&self) -> Option<Head> {
        let first = Line::parse(self.lines.first()?).ok()?;
        let (seq, hash) = (first.record().seq.checked_sub(1)?, first.record().prev);
        (seq > 0).then_some(Head { seq, hash })
    }
}

pub(super) fn read(folder: &Path) -> Result<AuthorityLog, IdentityError> {
    let text = files::read(&folder.join(LOG), Privacy::Secret, 2 * MAX_LOG_BYTES)?;
    let lines = text.map(|text| text.lines().map(str::to_owned).collect());
    Ok(AuthorityLog {
        lines: lines.unwrap_or_default(),
        head: head(folder)?,
    })
}

fn head(folder: &Path) -> Result<Option<Head>, IdentityError> {
    let text = files::read(&folder.join(HEAD), Privacy::Secret, MAX_LINE_BYTES)?;
    Ok(text.and_then(|text| text.trim().parse().ok()))
}

pub(super) fn append(folder: &Path, draft: Draft, _: &Lock) -> Result<(), IdentityError> {
    append_bounded(folder, draft, MAX_LOG_BYTES)
}

pub(super) fn append_bounded(folder: &Path, draft: Draft, longest: u64) -> Result<(), IdentityError> {
    let path = folder.join(LOG);
    let (bytes, last) = last_line(&path)?;
    // The newest line counts before the note beside it: a crash may have come in between.
    let last = last.and_then(|line| Line::parse(&line).ok()).map(|line| line.head());
    let noted = head(folder)?;
    let newest = match (last, noted) {
        (Some(last), Some(noted)) if noted.seq > last.seq => Some(noted),
        (last, noted) => last.or(noted),
    };
    let mut line = draft.after(newest.as_ref());
    if bytes > longest {
        line = trim(folder, line)?;
    } else {
        files::append(&path, &line.text())?;
    }
    files::write(&folder.join(HEAD), Privacy::Secret, &format!("{}\n", line.head()))
}

/// Drops the older half, behind a line that says so; the last line that there is then.
fn trim(folder: &Path, newest: Line) -> Result<Line, IdentityError> {
    let path = folder.join(LOG);
    let mut lines = read(folder)?.lines;
    lines.push(newest.text());
    let cut = lines.len() / 2;
    let gone = cut.checked_sub(1).and_then(|last| Line::parse(&lines[last]).ok());
    let mut last = newest;
    if let Some(gone) = gone {
        let place = trimmed(&gone.head());
        let told = Actor::here().draft(TRIM, &place, Outcome::Done);
        last = told
            .saying(format!("{cut} records were dropped"))
            .after(Some(&last.head()));
        lines.drain(..cut);
        lines.push(last.text());
    }
    files::write(&path, Privacy::Secret, &(lines.join("\n") + "\n"))?;
    Ok(last)
}

/// How long the file is, and its last line. What a crash has cut off is taken away: it tells of nothing that was done.
fn last_line(path: &Path) -> Result<(u64, Option<String>), IdentityError> {
    let wrong = |why| IdentityError::file(path, "read it")(why);
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok((0, None)),
        Err(why) => return Err(wrong(why)),
    };
    let bytes = file.metadata().map_err(wrong)?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(MAX_LINE_BYTES)))
        .map_err(wrong)?;
    let mut tail = Vec::new();
    file.take(MAX_LINE_BYTES).read_to_end(&mut tail).map_err(wrong)?;
    if !tail.is_empty() && tail.last() != Some(&b'\n') {
        let text = files::read(path, Privacy::Secret, 2 * MAX_LOG_BYTES)?.unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        files::write(path, Privacy::Secret, whole)?;
        return Ok((whole.len() as u64, whole.lines().next_back().map(str::to_owned)));
    }
    let text = String::from_utf8_lossy(&tail);
    Ok((bytes, text.lines().next_back().map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_audit::Verifier;

    #[test]
    fn a_long_log_loses_its_older_half_and_says_so() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        for number in 0..200 {
            let draft = Actor::here().draft("cert.issue", &format!("n{number}"), Outcome::Done);
            append_bounded(folder, draft, 16 << 10).unwrap();
        }
        let log = read(folder).unwrap();
        let trimmed = log.trimmed().expect("the oldest are gone");
        let mut verifier = Verifier::new(Some(&trimmed)).known(log.head.unwrap());
        for text in &log.lines {
            verifier.take(verifier.next(), text).unwrap();
        }
        let found = verifier.end(None).unwrap();
        assert_eq!(found.head, log.head);
        assert!(found.records < 100 && found.first > 100, "{found:?}");
        assert!(log.lines.iter().any(|text| text.contains(TRIM)));
    }
}
